// SPDX-License-Identifier: MIT
#include "tools/bench/target_work.h"

#include "ref/formats/checkpoint.h"

namespace draftproof {

Work TargetWork::pass(int rows, bool with_head) const {
  Work work = layers;
  if (with_head) {
    work.bytes += head.bytes;
    work.float_multiplications += head.float_multiplications;
    work.byte_multiplications += head.byte_multiplications;
  }
  work.float_multiplications *= rows;
  work.byte_multiplications *= rows;
  return work;
}

TargetWork target_work(const Checkpoint& weights, const LoadOptions& load_options) {
  const std::string embedding = "model.embed_tokens.weight";
  const std::string head = weights.has("lm_head.weight") ? "lm_head.weight" : embedding;
  TargetWork work;
  for (const auto& [name, tensor] : weights.tensors()) {
    if (tensor.shape.size() != 2 || !tensor.format || (name == embedding && name != head)) continue;
    Work& part = name == head ? work.head : work.layers;
    const double outputs = static_cast<double>(tensor.shape[0]);
    const auto inputs = static_cast<int>(tensor.shape[1]);
    const double multiplications = outputs * inputs;
    const bool is_head = name == head || name == embedding;
    const Format format = packed_format(*tensor.format, inputs, load_options.quantize, is_head);
    const bool floats = load_options.kernels.activation_format(format) == ActivationFormat::floats;
    part.bytes += outputs * static_cast<double>(row_bytes(format, inputs));
    (floats ? part.float_multiplications : part.byte_multiplications) += multiplications;
  }
  return work;
}

}  // namespace draftproof
