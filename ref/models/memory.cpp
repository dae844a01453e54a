// SPDX-License-Identifier: MIT
#include "ref/models/memory.h"

#include <sys/resource.h>

#include <algorithm>
#include <cstdio>
#include <fstream>
#include <limits>
#include <sstream>
#include <utility>

#include "kernels/process_limits.h"
#include "kernels/threads.h"
#include "ref/models/checkpoint_kind.h"
#include "ref/models/dflash.h"
#include "ref/models/eagle3.h"
#include "ref/models/experts.h"
#include "ref/models/gated_delta_net.h"
#include "ref/models/gemma4_assistant.h"
#include "ref/models/kimi_delta_attention.h"
#include "ref/models/latent_attention.h"
#include "ref/models/medusa.h"
#include "ref/models/model.h"
#include "ref/models/models.h"
#include "ref/models/selective_scan.h"
#include "ref/models/short_convolution.h"
#include "ref/models/state_space.h"
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
  for (const auto& [limit, bytes] : other.cache_per_position_up_to) cache_per_position_up_to[limit] += bytes;
  scratch += other.scratch;
  scratch_per_position += other.scratch_per_position;
  scratch_per_draft_token += other.scratch_per_draft_token;
  return *this;
}

void MemoryNeed::end_at(int position) { cache_per_position_up_to[position] += std::exchange(cache_per_position, 0); }

void MemoryNeed::add_row_floats(std::uint64_t floats) noexcept {
  scratch += sizeof(float) * size(prefill_chunk) * floats;
}

std::uint64_t MemoryNeed::beside_weights(int positions, int draft_tokens) const noexcept {
  std::uint64_t sum = cache_fixed + scratch + (cache_per_position + scratch_per_position) * size(positions) +
                      scratch_per_draft_token * size(draft_tokens);
  for (const auto& [limit, bytes] : cache_per_position_up_to) sum += bytes * size(std::min(limit, positions));
  return sum;
}

std::uint64_t MemoryNeed::total(int positions, int draft_tokens) const noexcept {
  std::uint64_t sum = beside_weights(positions, draft_tokens);
  for (const auto& [format, bytes] : weights) sum += bytes;
  return sum;
}

namespace {

std::uint64_t position_bytes(const AttentionShape& shape, KvFormat kv, const Ranks* ranks = nullptr) {
  const HeldHeads held = held_heads(shape.heads, shape.kv_heads, ranks);
  return AttentionCache::bytes_per_position(held.kv_heads, shape.head_dim, kv, shape.latent);
}

/// Adds what the layers of a config keep of a text: that of full attention per position, that of others once.
void add_caches(const TransformerConfig& config, const LoadOptions& options, MemoryNeed& need) {
  for (const LayerConfig& layer : config.layers) {
    if (const auto sizes = recurrent_sizes(layer)) {
      need.cache_fixed += sizes->fixed_bytes() + sizes->bytes_per_pending_row() * size(prefill_chunk);
    }
    const auto* const attention = std::get_if<AttentionLayer>(&layer.mixer);
    if (attention == nullptr || attention->donor != AttentionLayer::own) continue;
    const std::uint64_t position = position_bytes(attention->shape, options.kv, options.ranks);
    if (attention->window == AttentionCache::everything) {
      need.cache_per_position += position;
    } else {
      need.cache_fixed += position * std::min(size(attention->window) + size(prefill_chunk), size(config.context));
    }
  }
}

/// Adds the scratch of the mixers and experts of a config: one of each kind serves all layers, so it is that of the
/// largest.
void add_layers(const TransformerConfig& config, const Ranks* ranks, MemoryNeed& need) {
  std::uint64_t attending = 0;
  std::size_t recurring = 0;  // of a row
  std::size_t experts = 0;
  for (const LayerConfig& layer : config.layers) {
    if (layer.experts.count > 0) {
      experts = std::max(experts, ExpertsScratch::bytes_per_row(layer.experts, config.hidden, ranks != nullptr));
    }
    if (const auto* const shape = std::get_if<RecurrentShape>(&layer.mixer)) {
      recurring = std::max(recurring, shape->delta.channel_decays ? KimiDeltaScratch::bytes_per_row(*shape)
                                                                  : GatedDeltaNetScratch::bytes_per_row(*shape));
    }
    if (const auto* const shape = std::get_if<ConvolutionShape>(&layer.mixer)) {
      recurring = std::max(recurring, ShortConvolutionScratch::bytes_per_row(*shape));
    }
    if (const auto* const shape = std::get_if<SelectiveScanShape>(&layer.mixer)) {
      recurring = std::max(recurring, SelectiveScanScratch::bytes_per_row(*shape));
    }
    if (const StateSpaceShape* const shape = find_state_space(layer)) {
      recurring = std::max(recurring, StateSpaceScratch::bytes_per_row(*shape));
    }
    const auto* const attention = std::get_if<AttentionLayer>(&layer.mixer);
    if (attention == nullptr) continue;
    const std::size_t of_latent = attention->latent ? LatentScratch::bytes_per_row(*attention) : 0;
    attending = std::max<std::uint64_t>(
        attending, AttentionScratch::bytes(attention->shape, prefill_chunk) + size(prefill_chunk) * of_latent);
    need.scratch_per_position = std::max<std::uint64_t>(
        need.scratch_per_position, AttentionScratch::bytes_per_position(attention->shape, prefill_chunk));
  }
  need.scratch += attending + size(prefill_chunk) * (recurring + experts);
  need.add_row_floats(size(config.layer_embedding) * config.layers.size());
  if (config.laurel_rank > 0) {  // of streams, now and as they were predicted
    need.add_row_floats(size(2 * config.streams + 1) * size(config.hidden) + size(config.laurel_rank + config.streams));
  }
}

}  // namespace

MemoryNeed need_of_layers(const TransformerConfig& config, const WeightLoader& from) {
  MemoryNeed need;
  int of_head = 0;  // inputs of the matrices of one head of latent attention, which threads pack for themselves
  for (const LayerConfig& layer : config.layers) {
    const auto* const attention = std::get_if<AttentionLayer>(&layer.mixer);
    if (attention == nullptr || !attention->latent) continue;
    of_head = std::max({of_head, attention->latent->unturned, attention->shape.latent});
  }
  need.weights = from.bytes().by_format;
  for (std::size_t i = 0; i < activation_formats; ++i) {
    const int widest = from.bytes().widest[i];
    if (widest == 0) continue;
    const auto format = static_cast<ActivationFormat>(i);
    need.scratch += from.options.kernels.activation_bytes(format, prefill_chunk, widest);
    if (of_head == 0) continue;
    need.scratch += size(threads()) * from.options.kernels.activation_bytes(format, prefill_chunk, of_head);
  }
  add_caches(config, from.options, need);
  add_layers(config, from.options.ranks, need);
  need.scratch += size(prefill_chunk) * TransformerScratch::bytes_per_row(config);
  need.scratch += Outputs::bytes_per_row(config.vocabulary);
  need.scratch_per_draft_token = Outputs::bytes_per_row(config.vocabulary);
  return need;
}

MemoryNeed model_need(const Checkpoint& files, const LoadOptions& options) {
  const CheckpointKind& kind = checkpoint_kind(files.config());
  if (kind == dflash_checkpoint) return DFlashNetwork::need(files, options);
  if (kind == eagle3_checkpoint) return Eagle3Head::need(files, options);
  if (kind == gemma4_assistant_checkpoint) return Gemma4Assistant::need(files, options);
  if (kind == medusa_checkpoint) return MedusaHeads::need(files, options);
  const TransformerConfig layers = describe(files, options);
  const WeightLoader counted(files, options, WeightLoader::Mode::count);
  architecture_of(files.config()).load(counted, layers);
  return need_of_layers(layers, counted);
}

std::uint64_t parameters_by_config(const Checkpoint& without_weights) {
  const LoadOptions as_stated(best_kernels());
  const WeightLoader counted(without_weights, as_stated, WeightLoader::Mode::count);
  architecture_of(without_weights.config()).load(counted, describe(without_weights.config()));
  return counted.bytes().values;
}

MemoryNeed need_of_tree(const TransformerConfig& config, KvFormat kv) {
  MemoryNeed need;
  for (const LayerConfig& layer : config.layers) {
    const auto* const attention = std::get_if<AttentionLayer>(&layer.mixer);
    if (attention == nullptr || attention->donor != AttentionLayer::own) continue;
    need.scratch_per_draft_token += position_bytes(attention->shape, kv);
  }
  need.scratch = AttentionCache::block * need.scratch_per_draft_token;  // the anchor, and what fills the last KV block
  return need;
}

std::uint64_t memory_available() {
  std::uint64_t available = kilobytes("/proc/meminfo", "MemAvailable");
  rlimit limit{};
  if (getrlimit(RLIMIT_AS, &limit) == 0 && limit.rlim_cur != RLIM_INFINITY) {
    const std::uint64_t used = kilobytes("/proc/self/status", "VmSize");
    const std::uint64_t max = limit.rlim_cur;
    available = std::min(available, used < max ? max - used : 0);
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
