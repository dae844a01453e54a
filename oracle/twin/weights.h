// SPDX-License-Identifier: MIT
// The weights of a checkpoint and its configuration, as the float64 twin reads them.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>

#include "oracle/twin/facts.h"
#include "oracle/twin/matrix.h"
#include "ref/formats/checkpoint.h"
#include "ref/formats/json.h"

namespace draftproof::twin {

/// Names are those of Hugging Face without "model.", whatever the file is.
class TwinWeights {
 public:
  /// Reads all tensors. Throws Error where one cannot be read.
  TwinWeights(const Checkpoint& checkpoint, bool long_context);

  bool has(const std::string& name) const { return tensors_.contains(name); }
  /// Returns the tensor NAME.weight, or NAME itself; of more than two dimensions, all matrices one below the other.
  /// Throws Error, naming the tensor, where there is neither.
  const Weight& operator[](const std::string& name) const;
  /// Returns the same, which is one vector, in double.
  Row vector(const std::string& name) const;
  /// Returns what a norm multiplies with: its weight, and 1 more where the family stores it that way.
  Row norm(const std::string& name) const;
  /// Returns how fast states decay, [heads] or [channels][states]: exp(A_log), of which a GGUF stores the negative.
  Matrix rates(const std::string& prefix) const;
  /// Whether value head h of a gated delta net belongs to key head h % key_heads, as most GGUFs order them.
  bool deals_heads() const;
  /// Returns the weight that makes logits: lm_head or, where embeddings are tied, embed_tokens.
  const Weight& head() const { return (*this)[has("lm_head.weight") ? "lm_head" : "embed_tokens"]; }
  std::int64_t count() const noexcept { return count_; }
  bool long_context() const noexcept { return long_context_; }  // longrope has its long factors

  /// The configuration of the text model; optional fields with their default.
  const Json& config() const noexcept { return config_; }
  const DecoderFacts& facts() const noexcept { return facts_; }  // of all but Gemma
  std::string family() const { return config_.at("model_type").string(); }
  int integer(const char* field) const { return static_cast<int>(config_.at(field).integer(1, 1 << 24)); }
  double number(const char* field, double absent) const;
  bool says(const char* field, bool absent = false) const;

 private:
  Json config_;
  DecoderFacts facts_;
  std::map<std::string, Weight> tensors_;
  bool long_context_ = false;
  bool gguf_ = false;
  bool norms_are_offsets_ = false;
  std::int64_t count_ = 0;  // of numbers in all tensors
};

}  // namespace draftproof::twin
