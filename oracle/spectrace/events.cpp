// SPDX-License-Identifier: MIT
#include "oracle/spectrace/events.h"

#include <algorithm>

namespace draftproof::spectrace {

const char* name_of(Judging judging) noexcept {
  switch (judging) {
    case Judging::matching: return "matching";
    case Judging::rejection: return "rejection";
    case Judging::greedy: return "greedy";
    case Judging::block: return "block";
    case Judging::lossy: return "lossy";
  }
  return "unknown";
}

const char* name_of(Last last) noexcept {
  switch (last) {
    case Last::residual: return "res";
    case Last::own: return "own";
    case Last::bonus: return "bonus";
    case Last::greedy: return "greedy";
  }
  return "unknown";
}

std::string JudgedBy::name() const {
  return loss.empty() ? name_of(rule) : std::string(name_of(rule)) + ":" + loss;
}

double RealRow::weight(Token token) const {
  const auto place = std::lower_bound(tokens.begin(), tokens.end(), token);
  return place == tokens.end() || *place != token ? 0 : weights[static_cast<std::size_t>(place - tokens.begin())];
}

void KeysAsked::add(Purpose purpose, std::int64_t position) {
  std::vector<std::int64_t>& asked = of(purpose);
  const auto place = std::lower_bound(asked.begin(), asked.end(), position);
  if (place == asked.end() || *place != position) asked.insert(place, position);
}

}  // namespace draftproof::spectrace
