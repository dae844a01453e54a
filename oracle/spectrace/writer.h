// SPDX-License-Identifier: MIT
// Writes runs of this project's decoder as spectrace/1. What the decoder cannot know it need not record: every coin
// follows from the seed, its key and its bound.
#pragma once

#include <string>

#include "oracle/spectrace/events.h"
#include "oracle/subject.h"
#include "ref/acceptance/rule.h"
#include "ref/base/sha256.h"
#include "ref/decoding/trace.h"

namespace draftproof::spectrace {

class Writer {
 public:
  /// Rows of at most so many tokens are written whole.
  static constexpr std::size_t row_tokens_max = 64;

  Writer(const std::string& engine, int vocabulary, const Rule& rule, std::uint64_t seed);

  /// One run, as a sequence of its own. It was recorded with its evidence, and drawn with SeededChance(seed).
  void add(const Trace& trace, const Variation& variation, const std::string& numerics);

  const std::string& text() const noexcept { return text_; }

 private:
  void add_line(const std::string& line);

  Judgement judgement_;
  Purpose draft_noise_;
  SeededChance chance_;
  std::string text_;
  Sha256 digest_;
  std::int64_t sequences_ = 0;
};

}  // namespace draftproof::spectrace
