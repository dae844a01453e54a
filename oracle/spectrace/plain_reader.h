// SPDX-License-Identifier: MIT
// plain_row (oracle/plain.h) for one text that grows: what was read is not read again.
#pragma once

#include <memory>
#include <span>
#include <vector>

#include "oracle/plain.h"

namespace draftproof::spectrace {

class PlainReader {
 public:
  /// The target outlives the reader.
  PlainReader(Model& target, const Sampling& sampling) : target_(target), sampling_(sampling) {}

  /// The row after `text`, of at least one token and at most the target's context; valid until the next call. A text
  /// that does not continue the last one is read from its start.
  const PlainRow& after(std::span<const Token> text);
  /// Of the row read last.
  std::span<const float> logits() const { return outputs_.logits_row(0, target_.vocabulary()); }

  /// Positions its cache has room for.
  std::size_t capacity() const noexcept { return capacity_; }
  /// Gives its cache back; the next text is read from its start.
  void forget() noexcept;

 private:
  void make_room(std::size_t positions);

  Model& target_;
  Sampling sampling_;
  std::unique_ptr<Cache> cache_;
  std::size_t capacity_ = 0;
  std::vector<Token> read_;
  Outputs outputs_;
  PlainRow row_;  // after read_
};

}  // namespace draftproof::spectrace
