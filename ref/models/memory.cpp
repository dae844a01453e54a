// SPDX-License-Identifier: MIT
#include "ref/models/memory.h"

#include <sys/resource.h>

#include <algorithm>
#include <cstdio>
#include <fstream>
#include <limits>
#include <sstream>

#include "ref/models/transformer.h"

namespace draftproof {
namespace {

constexpr std::uint64_t unlimited = std::numeric_limits<std::uint64_t>::max();
constexpr int pass_rows = 512;  // most rows of a pass: the piece a prompt is read in

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

}  // namespace

std::uint64_t MemoryNeed::total(int positions) const noexcept {
  std::uint64_t sum = cache_fixed + cache_per_position * static_cast<std::uint64_t>(positions) + scratch;
  for (const auto& [format, bytes] : weights) sum += bytes;
  return sum;
}

MemoryNeed memory_need(const Checkpoint& weights, const Layout& layout) {
  MemoryNeed need;
  for (const auto& [name, tensor] : weights.tensors()) {
    if (!tensor.format || tensor.shape.empty() || tensor.shape.back() > std::numeric_limits<int>::max()) continue;
    const auto inputs = static_cast<int>(tensor.shape.back());
    if (tensor.shape.size() == 1) {
      need.weights["f32"] += 4 * static_cast<std::uint64_t>(inputs);
      continue;
    }
    if (tensor.shape.size() != 2 || tensor.shape[0] > std::numeric_limits<int>::max()) continue;  // refused later
    const bool table = name == "model.embed_tokens.weight" || name == "lm_head.weight";
    const Format format = packed_format(*tensor.format, inputs, layout.quantise, table);
    need.weights[traits(format).name] +=
        layout.kernels.packed_bytes(format, static_cast<int>(tensor.shape[0]), inputs);
  }

  const TransformerConfig config = read_transformer_config(weights.config(), {.rope_theta = 1e4, .vocabulary = 1});
  const auto size = [](int value) { return static_cast<std::uint64_t>(value); };
  // 8-bit keys and values have a scale of four bytes for each head.
  const std::uint64_t value = size(traits(layout.kv).value_bytes);
  const std::uint64_t scale = layout.kv == KvFormat::q8 ? 4 : 0;
  const std::uint64_t row = 2 * size(config.kv_heads) * (value * size(config.head_dim) + scale);
  for (const int window : config.windows) {
    if (window == AttentionCache::everything) {
      need.cache_per_position += row;
    } else {
      need.cache_fixed += row * size(std::min(window, config.context));
    }
  }
  const std::uint64_t q = size(config.heads) * size(config.head_dim);
  const std::uint64_t kv = size(config.kv_heads) * size(config.head_dim);
  const std::uint64_t width = 3 * size(config.hidden) + 2 * q + 2 * kv + 3 * size(config.intermediate);
  need.scratch = 4 * size(pass_rows) * width + 4 * size(config.vocabulary);
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
  return available;
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
