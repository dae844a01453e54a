// SPDX-License-Identifier: MIT
// Reads rows of plain autoregressive decoding (plain_row, oracle/plain/plain.h) after a growing text, and starts again
// when the text does not continue the last one.
#pragma once

#include <optional>
#include <span>
#include <vector>

#include "oracle/plain/plain.h"

namespace draftproof::spectrace {

class PlainReader {
 public:
  /// `target` outlives the reader.
  PlainReader(Model& target, const Sampling& sampling) : target_(target), sampling_(sampling) {}

  /// Returns the row after `text`, which has at least one token and at most the target's context; valid until the next
  /// call. A text that does not continue the last one is read from its start.
  const PlainRow& after(std::span<const Token> text);
  /// Returns the logits of the row read last.
  std::span<const float> logits() const noexcept { return logits_; }

  /// Returns how many positions the KV cache has room for.
  std::size_t capacity() const noexcept { return capacity_; }
  /// Releases the KV cache; the next text is read from its start.
  void release() noexcept;

 private:
  Model& target_;
  Sampling sampling_;
  std::optional<GrowingText> growing_;
  std::size_t capacity_ = 0;
  std::vector<Token> read_;
  std::vector<float> logits_;
  PlainRow row_;  // after read_
};

}  // namespace draftproof::spectrace
