// SPDX-License-Identifier: MIT
// plain_row (oracle/plain/plain.h) for a text that grows, and begins anew where it does not.
#pragma once

#include <optional>
#include <span>
#include <vector>

#include "oracle/plain/plain.h"

namespace draftproof::spectrace {

class PlainReader {
 public:
  /// The target outlives the reader.
  PlainReader(Model& target, const Sampling& sampling) : target_(target), sampling_(sampling) {}

  /// The row after `text`, of at least one token and at most the target's context; valid until the next call. A text
  /// that does not continue the last one is read from its start.
  const PlainRow& after(std::span<const Token> text);
  /// Of the row read last.
  std::span<const float> logits() const noexcept { return logits_; }

  /// Positions its cache has room for.
  std::size_t capacity() const noexcept { return capacity_; }
  /// Gives its cache back; the next text is read from its start.
  void forget() noexcept;

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
