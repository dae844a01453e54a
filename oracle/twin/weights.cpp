// SPDX-License-Identifier: MIT
#include "oracle/twin/weights.h"

#include "kernels/math64.h"
#include "ref/base/error.h"

namespace draftproof::twin {

TwinWeights::TwinWeights(const Checkpoint& checkpoint, bool long_context)
    : config_(checkpoint.config()), long_context_(long_context), gguf_(checkpoint.metadata() != nullptr) {
  config_ = config_.find("text_config").value_or(config_);
  const std::string of = family();
  if (!of.starts_with("gemma")) facts_ = decoder_facts(config_);
  // A GGUF stores the sum.
  const bool gemma = of.starts_with("gemma2") || (of.starts_with("gemma3") && !of.starts_with("gemma3n"));
  norms_are_offsets_ = !gguf_ && (of.starts_with("qwen3_5") || of == "qwen3_next" || gemma);
  for (const auto& [name, tensor] : decoder_tensors(checkpoint, config_)) {
    const auto size = static_cast<Eigen::Index>(tensor.values.size());
    const Eigen::Index width = tensor.width;
    tensors_[name] = Eigen::Map<const Weight>(tensor.values.data(), width == 0 ? 0 : size / width, width);
    count_ += size;
  }
}

const Weight& TwinWeights::operator[](const std::string& name) const {
  for (const std::string& full : {name + ".weight", name}) {
    if (const auto found = tensors_.find(full); found != tensors_.end()) return found->second;
  }
  throw Error("the float64 twin finds no tensor '" + name + "' in " + config_.where());
}

Row TwinWeights::vector(const std::string& name) const {
  const Weight& all = (*this)[name];
  return Eigen::Map<const Eigen::RowVectorXf>(all.data(), all.size()).cast<double>();
}

Matrix TwinWeights::rates(const std::string& prefix) const {
  const Matrix stored = (*this)[prefix + "A_log"].cast<double>();
  if (gguf_) return -stored;
  return stored.unaryExpr(&exp64);
}

bool TwinWeights::deals_heads() const { return gguf_ && family().starts_with("qwen3_5"); }

Row TwinWeights::norm(const std::string& name) const {
  const bool gated = name.ends_with("linear_attn.norm");
  return vector(name).array() + (norms_are_offsets_ && !gated ? 1.0 : 0.0);
}

double TwinWeights::number(const char* field, double absent) const {
  const auto value = config_.find(field);
  return value ? value->number() : absent;
}

bool TwinWeights::says(const char* field, bool absent) const {
  const auto value = config_.find(field);
  return value ? value->boolean() : absent;
}

}  // namespace draftproof::twin
