// SPDX-License-Identifier: MIT
#include "oracle/sequential/paired_texts.h"

#include <algorithm>
#include <cmath>
#include <numeric>

#include "kernels/math64.h"
#include "oracle/sequential/wealth.h"
#include "ref/base/require.h"

namespace draftproof {
namespace {

enum View : std::size_t {
  by_unit,
  by_two_units,
  by_whole_text,
  by_repetition,
  by_recurrence,
  by_logprob,
  by_frequency,
  by_length
};

constexpr const char* view_names[PairedTexts::views] = {
    "how often a unit is written",      "which unit follows which",
    "how a beginning goes on",          "how often a unit is written again",
    "how soon a unit is written again", "how likely the written units are",
    "how often common units follow",    "how long texts are",
};

constexpr double cautious = 4;         // cells are taken as seen so often as both engines have them on average
constexpr double score_max = 6;        // of a pair: no single text decides much
constexpr double learning_rate = 0.3;  // of the regression
constexpr double rounding = 1 - 0x1p-30;

constexpr std::uint64_t mixed(std::uint64_t hash, std::uint64_t value) noexcept {
  hash = (hash ^ value) * 0x9E3779B97F4A7C15u;
  return hash ^ (hash >> 29);
}

std::uint64_t number(Token unit) noexcept { return static_cast<std::uint32_t>(unit); }

/// 0, 1, 2-3, 4-7, ... as 0, 1, 2, 3, ...
std::uint64_t doubling(std::size_t count) noexcept {
  std::uint64_t cell = 0;
  for (; count > 0; count >>= 1) ++cell;
  return cell;
}

/// 1 / (1 + exp(-s))
double probability_of(double score) noexcept { return 1 / (1 + exp64(-score)); }

std::size_t first_difference(std::span<const Token> a, std::span<const Token> b) {
  return static_cast<std::size_t>(std::mismatch(a.begin(), a.end(), b.begin(), b.end()).first - a.begin());
}

}  // namespace

PairedTexts::PairedTexts(double alpha) : alpha_(alpha) {
  REQUIRE(alpha > 0 && alpha < 1, "alpha lies between 0 and 1");
  wealth_.fill(1.0 / static_cast<double>(bets));
}

PairedTexts::TextCells PairedTexts::cells_of(std::int64_t request, std::span<const Token> prompt,
                                             const SampledText& text, std::size_t from) const {
  TextCells cells;
  constexpr Token none = -1;
  std::map<Token, std::size_t> places;  // where each unit stands last, the prompt's first at 1
  for (std::size_t i = 0; i < prompt.size(); ++i) places[prompt[i]] = i + 1;
  Token last = prompt.empty() ? none : prompt.back();
  std::uint64_t before = mixed(1, static_cast<std::uint64_t>(request));
  for (std::size_t i = 0; i < text.units.size(); ++i) {
    const Token unit = text.units[i];
    const std::uint64_t whole = mixed(before, number(unit));
    if (i >= from) {
      cells[by_unit].push_back(number(unit));
      cells[by_two_units].push_back(mixed(number(last) + 1, number(unit)));
      cells[by_whole_text].push_back(whole);
      const std::size_t place = places[unit];  // 0: not yet
      const std::size_t ago = place == 0 ? 0 : prompt.size() + i + 1 - place;
      cells[by_repetition].push_back(ago > 0 ? 1 : 0);
      cells[by_recurrence].push_back(doubling(ago));
      if (i < text.logprobs.size()) {
        constexpr double lowest = -30;
        cells[by_logprob].push_back(static_cast<std::uint64_t>(-2 * std::clamp(text.logprobs[i], lowest, 0.0)));
      }
      const auto followed = followed_.find({last, unit});
      const auto occurred = occurred_.find(last);
      if (occurred != occurred_.end() && occurred->second >= 4) {
        const long times = followed == followed_.end() ? 0 : followed->second;
        cells[by_frequency].push_back(
            times == 0 ? 0 : doubling(static_cast<std::size_t>(64 * times / occurred->second)) + 1);
      }
    }
    before = whole;
    last = unit;
    places[unit] = prompt.size() + i + 1;
  }
  cells[by_length].push_back(doubling(text.units.size()) * 64 + text.units.size() % 64);
  return cells;
}

double PairedTexts::score_of(std::size_t view, const std::vector<std::uint64_t>& cells) const {
  const Seen& total = totals_[view];
  if (total.first == 0 || total.second == 0) return 0;
  double score = 0;
  for (const std::uint64_t cell : cells) {
    const auto found = seen_[view].find(cell);
    if (found == seen_[view].end()) continue;
    const Seen& seen = found->second;
    const double expected = cautious * (seen.first + seen.second) / (seen.first + seen.second + cautious);
    score += log64((seen.second / total.second * total.first + expected) / (seen.first + expected));
  }
  return score;
}

void PairedTexts::bet(const std::array<double, views>& scores) {
  std::size_t place = 0;
  double combined = 0;
  for (std::size_t view = 0; view < views; ++view) {
    for (const double multiple : multiples) {
      wealth_[place++] *= 2 * probability_of(std::clamp(multiple * scores[view], -score_max, score_max)) * rounding;
    }
    combined += slopes_[view] * scores[view];
  }
  const double right = probability_of(std::clamp(combined, -score_max, score_max));
  wealth_[place] *= 2 * right * rounding;
  for (std::size_t view = 0; view < views; ++view) {  // after the bet: AdaGrad on the logarithm of what it paid
    const double gradient = (1 - right) * std::clamp(scores[view], -score_max, score_max);
    squares_[view] += gradient * gradient;
    if (squares_[view] > 0) slopes_[view] += learning_rate * gradient / std::sqrt(squares_[view]);
  }
  double sum = std::accumulate(wealth_.begin(), wealth_.end(), 0.0);
  max_ = std::max(max_, sum);
  if (sum > wealth_enough) {  // it is evidence enough; the proportions go on
    for (double& each : wealth_) each /= sum;
    sum = 1;
  }
  if (unequal_ % spread_interval == 0) {
    for (double& each : wealth_) each = each * (1 - spread_share) + sum * spread_share / static_cast<double>(bets);
  }
}

void PairedTexts::learn(const TextCells& first, const TextCells& second, const SampledText& text_of_first) {
  for (std::size_t view = 0; view < views; ++view) {
    for (const std::uint64_t cell : first[view]) ++seen_[view][cell].first;
    for (const std::uint64_t cell : second[view]) ++seen_[view][cell].second;
    totals_[view].first += static_cast<double>(first[view].size());
    totals_[view].second += static_cast<double>(second[view].size());
  }
  for (std::size_t i = 1; i < text_of_first.units.size(); ++i) {
    ++followed_[{text_of_first.units[i - 1], text_of_first.units[i]}];
    ++occurred_[text_of_first.units[i - 1]];
  }
}

void PairedTexts::observe(std::int64_t request, const SampledText& first, const SampledText& second,
                          std::span<const Token> prompt) {
  ++pairs_;
  const std::size_t from = first_difference(first.units, second.units);
  const bool equal = from == first.units.size() && from == second.units.size();
  const TextCells cells_of_first = cells_of(request, prompt, first, from);
  const TextCells cells_of_second = cells_of(request, prompt, second, from);
  if (!equal) {
    ++unequal_;
    std::array<double, views> scores{};
    for (std::size_t view = 0; view < views; ++view) {
      scores[view] = score_of(view, cells_of_second[view]) - score_of(view, cells_of_first[view]);
    }
    bet(scores);
  }
  learn(cells_of_first, cells_of_second, first);
}

std::string PairedTexts::suspect() const {
  const std::size_t place = static_cast<std::size_t>(std::ranges::max_element(wealth_) - wealth_.begin());
  if (place < views * multiples.size()) return view_names[place / multiples.size()];
  return place + 1 == bets ? "nothing" : "several of these together";
}

double PairedTexts::share_seen() const {
  const auto n = static_cast<double>(unequal_);
  const double wanted = log64(static_cast<double>(bets) / alpha_);
  for (double share = 0.505; share < 1; share += 0.005) {  // the best stake for that share
    const double growth = share * log64(2 * share) + (1 - share) * log64(2 * (1 - share));
    if (n * growth >= wanted) return share;
  }
  return n * log64(2.0) >= wanted ? 1 - 0x1p-10 : 1;
}

}  // namespace draftproof
