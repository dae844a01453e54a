// SPDX-License-Identifier: MIT
#include "oracle/compare/first_difference.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

namespace draftproof {
namespace {

constexpr double written_digits = 1e-5;  // logarithms with six digits
constexpr double gap_counted = 0.25;     // gaps up to here are as frequent as smaller ones
constexpr double never_numerics = 8;     // logits
constexpr double ties_beyond = 10;
constexpr double beyond_min = 0.02;
constexpr long positions_min = 100;

std::size_t common_units(const EngineText& a, const EngineText& b) {
  return static_cast<std::size_t>(
      std::mismatch(a.tokens.begin(), a.tokens.end(), b.tokens.begin(), b.tokens.end()).first - a.tokens.begin());
}

std::optional<Token> unit_at(const EngineText& text, std::size_t place) {
  return place < text.tokens.size() ? std::optional(text.tokens[place]) : std::nullopt;
}

/// The gap of a token in the list of the most likely ones, if it is there; else that of the last of the list.
void read_listed_gap(const EngineText& plain, std::size_t place, Token other, FirstDifference& found) {
  if (place >= plain.top_logprobs.size() || plain.top_logprobs[place].empty()) return;
  const std::vector<TokenLogprob>& listed = plain.top_logprobs[place];
  const auto by_logprob = [](const TokenLogprob& a, const TokenLogprob& b) { return a.logprob < b.logprob; };
  const double best = std::ranges::max_element(listed, by_logprob)->logprob;
  const auto there = std::ranges::find(listed, other, &TokenLogprob::token);
  found.at_least = there == listed.end();
  found.gap = best - (found.at_least ? std::ranges::min_element(listed, by_logprob)->logprob : there->logprob);
  found.gap_from = "the plain engine's logprobs";
}

}  // namespace

void ControlSpread::compare(const EngineText& one, const EngineText& other) {
  ++texts_;
  const std::size_t common = common_units(one, other);
  const std::size_t stated = std::min({common, one.logprobs.size(), other.logprobs.size()});
  for (std::size_t i = 0; i < stated; ++i) {
    const double apart = std::abs(one.logprobs[i] - other.logprobs[i]);
    if (!std::isfinite(apart)) continue;
    ++positions_;
    largest_ = std::max(largest_, apart);
  }
  if (common == one.tokens.size() && common == other.tokens.size()) return;
  ++differing_;
  FirstDifference found;
  if (const std::optional<Token> unit = unit_at(other, common)) read_listed_gap(one, common, *unit, found);
  if (found.gap && !found.at_least) gap_of_differing_ = std::max(gap_of_differing_, *found.gap);
}

void ControlSpread::compare_read_again(const EngineText& one, const EngineText& other) {
  const long before = positions_;
  compare(one, other);
  read_again_ += positions_ - before;
}

void ControlSpread::count_gaps(const EngineText& text) {
  for (const std::vector<TokenLogprob>& listed : text.top_logprobs) {
    if (listed.size() < 2) continue;
    std::vector<double> logprobs;
    for (const TokenLogprob& each : listed) logprobs.push_back(each.logprob);
    std::ranges::sort(logprobs, std::greater<>());
    ++gaps_;
    if (logprobs[0] - logprobs[1] <= gap_counted) ++small_gaps_;
  }
}

double ControlSpread::tie() const noexcept { return std::max({2 * largest_, gap_of_differing_, written_digits}); }

double ControlSpread::beyond_numerics() const noexcept {
  if (read_again_ < positions_min) return never_numerics;
  return std::min(never_numerics, std::max(ties_beyond * tie(), beyond_min));
}

bool ControlSpread::exact() const noexcept { return read_again_ >= positions_min && largest_ == 0 && differing_ == 0; }

std::optional<double> ControlSpread::expected_ties(long positions) const {
  if (gaps_ == 0) return std::nullopt;
  const double share = static_cast<double>(std::max(small_gaps_, 1L)) / static_cast<double>(gaps_);
  return static_cast<double>(positions) * std::min(1.0, share * tie() / gap_counted);
}

std::string ControlSpread::describe() const {
  if (positions_ == 0) {
    return fmt::format("{} of {} texts differ; it states no logprobs, so nothing says how close they were", differing_,
                       texts_);
  }
  return fmt::format(
      "{} of {} texts differ; logprobs by {:.2g} at most, at {} positions, so the next one is further off with "
      "probability 1/{} if it is like these; granted: {:.2g}",
      differing_, texts_, largest_, positions_, positions_ + 1, tie());
}

const char* name_of(Explanation explanation) noexcept {
  switch (explanation) {
    case Explanation::tie: return "TIE";
    case Explanation::not_explained: return "NOT_EXPLAINED";
    case Explanation::bug: break;
  }
  return "BUG";
}

bool changes_logits(const EngineRequest& request) {
  return request.sampling.penalizes() || !request.sampling.logit_bias.empty() || !request.banned.empty() ||
         request.min_tokens > 0 || !request.json_schema.empty() || !request.grammar.empty();
}

std::optional<FirstDifference> first_difference(const EngineRequest& request, const EngineText& plain,
                                                const EngineText& speculative, const ControlSpread& spread,
                                                const GapReader& gap) {
  const std::size_t place = common_units(plain, speculative);
  if (place == plain.tokens.size() && place == speculative.tokens.size()) return std::nullopt;
  FirstDifference found;
  found.place = place;
  const std::optional<Token> best = unit_at(plain, place);
  const std::optional<Token> other = unit_at(speculative, place);
  if (gap) {
    found.gap = gap(request, std::span(plain.tokens).first(place), best, other);
    if (found.gap) found.gap_from = "the target";
  }
  if (!found.gap && best && other && !changes_logits(request)) read_listed_gap(plain, place, *other, found);
  const bool cut_short = !other && speculative.finish == "length";
  const bool too_long = place >= static_cast<std::size_t>(request.max_new_tokens);
  if (cut_short || too_long) {
    found.explanation = Explanation::bug;
  } else if (found.gap) {
    found.explanation = *found.gap >= spread.beyond_numerics()          ? Explanation::bug
                        : *found.gap <= spread.tie() && !found.at_least ? Explanation::tie
                                                                        : Explanation::not_explained;
  } else if (spread.exact()) {
    found.explanation = Explanation::bug;
  }
  return found;
}

}  // namespace draftproof
