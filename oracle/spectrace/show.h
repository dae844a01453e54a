// SPDX-License-Identifier: MIT
// Prints rounds of a trace for people, and compares the texts of two traces.
#pragma once

#include <array>
#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <vector>

namespace draftproof::spectrace {

struct Wanted {
  std::optional<std::int64_t> sequence;  // all of them when absent
  std::optional<std::int64_t> round;
};

/// Calls `take` with each wanted line in readable form. Returns how many rounds there were. Throws InvalidTrace as
/// Reader.
long show(const std::string& file, const Wanted& wanted, const std::function<void(const std::string&)>& take);

/// Compares two traces sequence by sequence (those with the same `sequence` in both), token by token. The rounds may
/// differ, and so may the order in which lines of several sequences are interleaved.
struct Comparison {
  static constexpr std::size_t differences_max = 10;

  long equal = 0;   // sequences with the same prompt and the same text
  long parted = 0;  // sequences that differ somewhere
  long alone = 0;   // sequences that only one file has
  long tokens = 0;  // equal tokens, over all sequences
  /// The first ten: where the sequences differ and the tokens of each, or which file has the sequence.
  std::vector<std::string> differences;

  /// Accepted draft tokens of both among the equal tokens, and the tokens that are a draft token of one only. A draft
  /// that has become worse is told by bets on these: that a token is one of the second trace's. No bet wins on average
  /// while that has a probability of at least `fair`, given everything before. So for a draft of which this holds,
  /// P(slower) <= alpha.
  static constexpr double fair = 1.0 / 3;
  static constexpr double alpha = 1e-9;
  std::array<long, 2> accepted{};
  std::array<long, 2> accepted_alone{};
  double e_value = 1;
  bool slower = false;
  std::string slower_from;  // place of the first token that the evidence rests on

  bool same() const noexcept { return parted == 0 && alone == 0; }
  std::string text() const;  // for people: a line of counts, then the differences
};

/// Throws InvalidTrace as Reader, and Error when 2^20 rounds wait for a counterpart.
Comparison compare(const std::string& file_a, const std::string& file_b);

}  // namespace draftproof::spectrace
