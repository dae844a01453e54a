// SPDX-License-Identifier: MIT
// A trace for people: a round laid out, and where two traces part.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <string>

namespace draftproof::spectrace {

struct Wanted {
  std::optional<std::int64_t> sequence;  // all of them when absent
  std::optional<std::int64_t> round;
};

/// The lines asked for, laid out; `take` gets them one by one. How many rounds it was given. InvalidTrace as read.
long show(const std::string& file, const Wanted& wanted, const std::function<void(const std::string&)>& take);

/// Where the texts of two traces part: sequence by sequence, token by token. Two traces of one text may have cut it
/// into other rounds, and mixed the lines of several sequences otherwise. Error when 2^20 rounds wait for their like.
struct Parting {
  bool same = false;
  long tokens = 0;       // equal ones, over all sequences
  std::string sentence;  // where they part, and what each says there; or that they do not
};
Parting first_parting(const std::string& file_a, const std::string& file_b);

}  // namespace draftproof::spectrace
