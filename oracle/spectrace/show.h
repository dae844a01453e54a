// SPDX-License-Identifier: MIT
// Prints rounds of a trace for people, and compares the texts of two traces.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "oracle/sequential/expected_acceptance.h"
#include "oracle/sequential/paired_acceptance.h"

namespace draftproof::spectrace {

struct ShownPart {
  std::optional<std::int64_t> sequence;  // all of them when absent
  std::optional<std::int64_t> round;
  std::optional<std::int64_t> position;  // the round that emits the token at this position of the text

  bool is_part() const noexcept { return round || position; }
};

/// Calls `take` with each wanted line in readable form. Returns how many rounds there were. Throws InvalidTrace as
/// Reader.
long show(const std::string& file, const ShownPart& wanted, const std::function<void(const std::string&)>& take);

/// Compares two traces sequence by sequence (those with the same `sequence` in both), token by token. The rounds may
/// differ, and so may the order in which lines of several sequences are interleaved.
struct TraceComparison {
  static constexpr std::size_t differences_max = 10;

  long equal = 0;   // sequences with the same prompt and the same text
  long parted = 0;  // sequences that differ somewhere
  long alone = 0;   // sequences that only one file has
  long tokens = 0;  // equal tokens, over all sequences
  /// The first ten: where the sequences differ and the tokens of each, or which file has the sequence.
  std::vector<std::string> differences;

  PairedAcceptance drafts;      // on the equal tokens whose rounds state draft tokens in both
  ExpectedAcceptance expected;  // of sequences under `rejection` that state p and q of their draft tokens

  bool same() const noexcept { return parted == 0 && alone == 0; }
  std::string text() const;  // for people: a line of counts, then the differences
};

/// Throws InvalidTrace as Reader, and Error when 2^20 rounds wait for a counterpart.
TraceComparison compare(const std::string& file_a, const std::string& file_b);

}  // namespace draftproof::spectrace
