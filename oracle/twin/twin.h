// SPDX-License-Identifier: MIT
// The exact outputs of a target: its forward pass in double, written from the papers and the published model code. It
// shares only the reader of weights with the engine. TwinWeights have the values of their file; nothing is rounded to
// less than a double, so an output is off by some 1e-13 of the largest, and every program in floats is much further
// off.
//
//     const Twin twin(Checkpoint("models/qwen3"));
//     TwinText text(twin);
//     const std::vector<double> logits = text.read({1, 2, 3});  // of the row of token 3
//
// It has every architecture of the engine: Gemma 2, 3 and 4 (gemma.cpp) and the others (decoder.cpp, of what facts.h
// reads). It holds every weight as a float: four bytes each.
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "ref/base/token.h"
#include "ref/formats/checkpoint.h"

namespace draftproof {

namespace twin {
class TwinWeights;
class TwinFamily;
struct TextPast;
}  // namespace twin

class Twin {
 public:
  /// Reads all weights. `long_context`: longrope has its long factors. Throws Error, naming the family, where the twin
  /// does not have it.
  explicit Twin(const Checkpoint& checkpoint, bool long_context = false);
  ~Twin();
  Twin(const Twin&) = delete;
  Twin& operator=(const Twin&) = delete;

  /// Returns how many weights there are: about the multiplications that one row takes.
  std::int64_t weights() const noexcept;

 private:
  friend class TwinText;
  std::unique_ptr<twin::TwinWeights> weights_;
  std::unique_ptr<twin::TwinFamily> family_;
};

/// A text that grows, and what the twin keeps of it.
class TwinText {
 public:
  /// `twin` outlives it.
  explicit TwinText(const Twin& twin);
  ~TwinText();
  TwinText(const TwinText&) = delete;
  TwinText& operator=(const TwinText&) = delete;

  /// Appends tokens, at least one. Returns the logits of the last one's row: of the token that follows.
  std::vector<double> read(std::span<const Token> tokens);
  /// Returns the tokens so far.
  std::span<const Token> tokens() const noexcept { return tokens_; }

 private:
  const Twin& twin_;
  std::unique_ptr<twin::TextPast> past_;
  std::vector<Token> tokens_;
};

/// Returns how many numbers the tensors of a checkpoint have, without reading them: what a twin of it would hold.
std::int64_t numbers_in(const Checkpoint& checkpoint);

}  // namespace draftproof
