// SPDX-License-Identifier: MIT
// A trace for people: a round laid out, and where the texts of two traces part.
#pragma once

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

/// The lines asked for, laid out; `take` gets them one by one. How many rounds it was given. InvalidTrace as read.
long show(const std::string& file, const Wanted& wanted, const std::function<void(const std::string&)>& take);

/// Two traces, held against each other sequence by sequence (one of the same name `s` in both), token by token. Rounds
/// may cut a text otherwise, and lines of several sequences may be mixed otherwise.
struct Comparison {
  static constexpr std::size_t differences_max = 10;

  long equal = 0;   // sequences with the same prompt and the same text
  long parted = 0;  // that part somewhere
  long alone = 0;   // that only one file has
  long tokens = 0;  // equal ones, over all sequences
  std::vector<std::string> differences;  // of the first ten found: where they part and what each says; or whose it is

  bool same() const noexcept { return parted == 0 && alone == 0; }
  std::string text() const;  // for people: a line of counts, then the differences
};

/// InvalidTrace as read; Error when 2^20 rounds wait for their like.
Comparison compare(const std::string& file_a, const std::string& file_b);

}  // namespace draftproof::spectrace
