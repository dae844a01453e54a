// SPDX-License-Identifier: MIT
#include "tools/bench/target_work.h"

#include <algorithm>

#include "ref/formats/checkpoint.h"
#include "ref/models/models.h"

namespace draftproof {
namespace {

/// The share of the experts that a row chooses; 1 for a model without.
double chosen_share(const TransformerConfig& config) {
  for (const LayerConfig& layer : config.layers) {
    if (layer.experts.count > 0) return static_cast<double>(layer.experts.chosen) / layer.experts.count;
  }
  return 1;
}

}  // namespace

Work TargetWork::pass(int rows, bool with_head) const {
  Work work = layers;
  if (with_head) {
    work.bytes += head.bytes;
    work.float_multiplications += head.float_multiplications;
    work.bf16_multiplications += head.bf16_multiplications;
    work.byte_multiplications += head.byte_multiplications;
  }
  work.float_multiplications *= rows;
  work.bf16_multiplications *= rows;
  work.byte_multiplications *= rows;
  return work;
}

TargetWork target_work(const Checkpoint& weights, const LoadOptions& load_options) {
  const std::string embedding = "model.embed_tokens.weight";
  const std::string head = weights.has("lm_head.weight") ? "lm_head.weight" : embedding;
  const TransformerConfig config = describe(weights.config());
  const double chosen = chosen_share(config);
  TargetWork work;
  for (const auto& [name, tensor] : weights.tensors()) {
    const std::size_t dimensions = tensor.shape.size();
    const bool matrix = dimensions == 2 || (dimensions == 3 && !name.ends_with("conv1d.weight"));
    const bool read_by_row = (name == embedding && name != head) || name == "model.embed_tokens_per_layer.weight";
    if (!matrix || !tensor.format || read_by_row) continue;
    const auto begins = [&](const std::string& part) { return name.starts_with(part); };
    if (std::ranges::any_of(config.unused, begins)) continue;
    Work& part = name == head ? work.head : work.layers;
    const double share = name.find("experts.") == std::string::npos ? 1 : chosen;
    const double matrices = dimensions == 3 ? static_cast<double>(tensor.shape[0]) : 1;
    const double outputs = share * matrices * static_cast<double>(tensor.shape[dimensions - 2]);
    const auto inputs = static_cast<int>(tensor.shape.back());
    const bool is_head = name == head || name == embedding;
    const Format format = packed_format(*tensor.format, inputs, load_options, is_head);
    part.bytes += outputs * static_cast<double>(row_bytes(format, inputs));
    part.multiply(load_options.kernels.activation_format(format), outputs * inputs);
  }
  return work;
}

}  // namespace draftproof
