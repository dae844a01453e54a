// SPDX-License-Identifier: MIT
#include "ref/models/memory.h"

#include <sys/resource.h>

#include <algorithm>
#include <cstdio>
#include <fstream>
#include <limits>
#include <optional>
#include <sstream>

#include "kernels/process_limits.h"
#include "kernels/threads.h"
#include "ref/caches/feature_cache.h"
#include "ref/models/checkpoint_kind.h"
#include "ref/models/experts.h"
#include "ref/models/gated_delta_net.h"
#include "ref/models/gemma4_assistant.h"
#include "ref/models/model.h"
#include "ref/models/models.h"
#include "ref/models/transformer.h"

namespace draftproof {
namespace {

constexpr std::uint64_t unlimited = std::numeric_limits<std::uint64_t>::max();

/// The number behind `name` in a file of lines like "MemAvailable:  123 kB", in bytes; `unlimited` when there is none.
std::uint64_t kilobytes(const char* file, const std::string& name) {
  std::ifstream stream(file);
  for (std::string line; std::getline(stream, line);) {
    if (!line.starts_with(name + ":")) continue;
    std::istringstream fields(line.substr(name.size() + 1));
    std::uint64_t value = 0;
    if (fields >> value) return value * 1024;
  }
  return unlimited;
}

std::uint64_t size(int value) noexcept { return static_cast<std::uint64_t>(value); }

}  // namespace

MemoryNeed& MemoryNeed::operator+=(const MemoryNeed& other) {
  for (const auto& [format, bytes] : other.weights) weights[format] += bytes;
  cache_fixed += other.cache_fixed;
  cache_per_position += other.cache_per_position;
  scratch += other.scratch;
  scratch_per_position += other.scratch_per_position;
  scratch_per_draft_token += other.scratch_per_draft_token;
  return *this;
}

std::uint64_t MemoryNeed::beside_weights(int positions, int draft_tokens) const noexcept {
  return cache_fixed + scratch + (cache_per_position + scratch_per_position) * size(positions) +
         scratch_per_draft_token * size(draft_tokens);
}

std::uint64_t MemoryNeed::total(int positions, int draft_tokens) const noexcept {
  std::uint64_t sum = beside_weights(positions, draft_tokens);
  for (const auto& [format, bytes] : weights) sum += bytes;
  return sum;
}

namespace {

/// Adds what the layers of a config keep of a text: that of full attention per position, that of others once.
void add_caches(const TransformerConfig& config, KvFormat kv, MemoryNeed& need) {
  for (const LayerConfig& layer : config.layers) {
    if (const auto* const shape = std::get_if<RecurrentShape>(&layer.mixer)) {
      need.cache_fixed += RecurrentCache::fixed_bytes(*shape);
      need.cache_fixed += RecurrentCache::bytes_per_pending_row(*shape) * size(prefill_chunk);
      continue;
    }
    const auto& attention = std::get<AttentionLayer>(layer.mixer);
    if (attention.donor != AttentionLayer::own) continue;
    const std::uint64_t position =
        AttentionCache::bytes_per_position(attention.shape.kv_heads, attention.shape.head_dim, kv);
    if (attention.window == AttentionCache::everything) {
      need.cache_per_position += position;
    } else {
      need.cache_fixed += position * std::min(size(attention.window) + size(prefill_chunk), size(config.context));
    }
  }
}

/// Adds the scratch of the mixers and experts of a config: one serves all layers, so it is that of the largest.
void add_layers(const TransformerConfig& config, MemoryNeed& need) {
  std::uint64_t largest = 0;
  std::uint64_t experts = 0;
  for (const LayerConfig& layer : config.layers) {
    if (layer.experts.count > 0) {
      experts = std::max<std::uint64_t>(experts, ExpertsScratch::bytes_per_row(layer.experts, config.hidden));
    }
    if (const auto* const shape = std::get_if<RecurrentShape>(&layer.mixer)) {
      largest = std::max<std::uint64_t>(largest, size(prefill_chunk) * GatedDeltaNetScratch::bytes_per_row(*shape));
      continue;
    }
    const AttentionShape& shape = std::get<AttentionLayer>(layer.mixer).shape;
    largest = std::max<std::uint64_t>(largest, AttentionScratch::bytes(shape, prefill_chunk));
    need.scratch_per_position =
        std::max<std::uint64_t>(need.scratch_per_position, AttentionScratch::bytes_per_position(shape, prefill_chunk));
  }
  need.scratch += largest + size(prefill_chunk) * experts;
  need.scratch += sizeof(float) * size(prefill_chunk) * size(config.layer_embedding) * config.layers.size();
}

}  // namespace

MemoryNeed model_need(const Checkpoint& files, const LoadOptions& options) {
  const TransformerConfig config = describe(files, options);
  MemoryNeed need = need_of_part(files, options, config, [&](const std::string& name) {
    return std::ranges::none_of(config.unused, [&](const std::string& prefix) { return name.starts_with(prefix); });
  });
  // Where the embedding is the head, a head of some tokens only is a copy of their rows.
  const int head_tokens = tokens_of_head(options, config.vocabulary);
  const char* const embedding = "model.embed_tokens.weight";
  if (head_tokens < config.vocabulary && files.has(embedding) && checkpoint_kind(files.config()) != eagle3_checkpoint &&
      (!files.has("lm_head.weight") || files.same("lm_head.weight", embedding))) {
    const std::optional<Format> stored = files.tensors().at(embedding).format;
    const Format format = packed_format(stored.value_or(Format::f32), config.hidden, options, true);
    need.weights[traits(format).name] += options.kernels.packed_bytes(format, head_tokens, config.hidden);
  }
  return need;
}

MemoryNeed need_of_part(const Checkpoint& files, const LoadOptions& options, const TransformerConfig& config,
                        const std::function<bool(const std::string& tensor)>& belongs) {
  MemoryNeed need;
  std::uint64_t activations[activation_formats] = {};
  for (const auto& [name, tensor] : files.tensors()) {
    if (!tensor.format || tensor.shape.empty() || tensor.shape.back() > std::numeric_limits<int>::max()) continue;
    if (!belongs(name)) continue;
    const auto inputs = static_cast<int>(tensor.shape.back());
    if (tensor.shape.size() == 1) {
      need.weights["f32"] += sizeof(float) * size(inputs);
      continue;
    }
    if (name.ends_with("linear_attn.conv1d.weight") || name.ends_with("_conv.base_kernel")) {
      std::uint64_t values = sizeof(float);
      for (const std::int64_t extent : tensor.shape) values *= static_cast<std::uint64_t>(extent);
      need.weights["f32"] += values;
      continue;
    }
    // One matrix, or as many as there are experts. Others are refused later.
    const std::size_t dimensions = tensor.shape.size();
    if (dimensions > 3 || std::ranges::max(tensor.shape) > std::numeric_limits<int>::max()) continue;
    const std::uint64_t matrices = dimensions == 3 ? static_cast<std::uint64_t>(tensor.shape[0]) : 1;
    auto outputs = static_cast<int>(tensor.shape[dimensions - 2]);
    if (name == "lm_head.weight") outputs = tokens_of_head(options, outputs);
    if (name == "lm_head.weight" && files.same(name, "model.embed_tokens.weight")) continue;  // kept once
    const bool table = name.ends_with("embed_tokens.weight") || name == "lm_head.weight" ||
                       name == "model.embed_tokens_per_layer.weight" || name.ends_with("shared_head.head.weight") ||
                       name.ends_with("_codebook");
    const Format format = packed_format(*tensor.format, inputs, options, table);
    need.weights[traits(format).name] += matrices * options.kernels.packed_bytes(format, outputs, inputs);
    const ActivationFormat activation_format = options.kernels.activation_format(format);
    std::uint64_t& most = activations[static_cast<std::size_t>(activation_format)];
    most = std::max<std::uint64_t>(most, options.kernels.activation_bytes(activation_format, prefill_chunk, inputs));
    // A draft of the target's features: these, the same again as the input of a pass, and what `fc` makes of them,
    // which an EAGLE-3 draft has twice, too.
    if (name.ends_with("fc.weight")) {
      need.scratch += sizeof(float) * size(prefill_chunk) * (2 * size(inputs) + 2 * size(config.hidden));
    }
  }
  for (const std::uint64_t bytes : activations) need.scratch += bytes;

  add_caches(config, options.kv, need);
  const CheckpointKind& kind = checkpoint_kind(files.config());
  if (kind == eagle3_checkpoint) {  // the features of the text, and rows of a token and a feature
    need.cache_per_position += FeatureCache::bytes_per_position(config.hidden);
    need.scratch += sizeof(float) * size(prefill_chunk) * size(config.hidden);
  }
  if (kind == gemma4_assistant_checkpoint) {  // the same, and rows of the target's last layer and their features, twice
    const int width = read_backbone_width(files.config());
    need.cache_per_position += FeatureCache::bytes_per_position(width);
    need.scratch += sizeof(float) * size(prefill_chunk) * 4 * size(width);
  }
  add_layers(config, need);
  need.scratch += size(prefill_chunk) * TransformerScratch::bytes_per_row(config);
  need.scratch += Outputs::bytes_per_row(config.vocabulary);
  need.scratch_per_draft_token = Outputs::bytes_per_row(config.vocabulary);
  return need;
}

std::uint64_t memory_available() {
  std::uint64_t available = kilobytes("/proc/meminfo", "MemAvailable");
  rlimit limit{};
  if (getrlimit(RLIMIT_AS, &limit) == 0 && limit.rlim_cur != RLIM_INFINITY) {
    const std::uint64_t used = kilobytes("/proc/self/status", "VmSize");
    const std::uint64_t most = limit.rlim_cur;
    available = std::min(available, used < most ? most - used : 0);
  }
  return std::min(available, cgroup_limits().memory_left);
}

std::string shown_bytes(std::uint64_t bytes) {
  char text[32];
  if (bytes < std::uint64_t{1} << 30) {
    std::snprintf(text, sizeof text, "%.1f MiB", static_cast<double>(bytes) / 1048576);
  } else {
    std::snprintf(text, sizeof text, "%.2f GiB", static_cast<double>(bytes) / 1073741824);
  }
  return text;
}

std::string shortage(const std::string& what, std::uint64_t need, std::uint64_t available) {
  if (need <= available) return {};
  return what + " needs " + shown_bytes(need) + " of memory, and " + shown_bytes(available) +
         " are available; free some, use a smaller model, or load it with --quantize q8 or q4";
}

}  // namespace draftproof
