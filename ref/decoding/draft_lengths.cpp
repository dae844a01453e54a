// SPDX-License-Identifier: MIT
#include "ref/decoding/draft_lengths.h"

#include <algorithm>
#include <bit>
#include <cmath>
#include <utility>

#include "ref/base/require.h"

namespace draftproof {
namespace {

/// What the estimate of all texts begins with: so many draft tokens of which so many were accepted.
constexpr double tried_at_first = 2;
constexpr double accepted_at_first = 1.6;
constexpr double weight_of_all = 5;  // so many draft tokens of a text count as much as those of all texts
constexpr double kept_of_text = 0.97;
constexpr double kept_of_all = 0.99;  // by each draft token, of what was learned before
constexpr double learned_at_once = 1.0 / 8;
constexpr double share_of_tries = 0.01;  // of the time
constexpr double allowance_max = 4;      // in passes
constexpr double hoped_for = 0.95;       // how often the draft tokens of a try may be accepted at best

/// Sizes up to 8 are a class each, larger ones a quarter of what lies between two powers of two.
std::size_t class_of(int size) {
  const auto value = static_cast<std::size_t>(std::clamp(size, 1, 1 << 16));
  if (value < 8) return value;
  const auto power = static_cast<std::size_t>(std::bit_width(value)) - 1;
  return 8 + 4 * (power - 3) + (value >> (power - 2)) % 4;
}

}  // namespace

void DraftLengths::Proposals::add(int limit) {
  longest = std::max(longest, limit);
  draft_tokens += limit;
}

DraftLengths::PassTimes::PassTimes(const std::vector<double>& measured) {
  std::array<int, size_classes> met = {};
  for (std::size_t i = 0; i < measured.size(); ++i) {
    const int rows = static_cast<int>(i) + 1;
    Point& point = points_[class_of(rows)];
    const double weight = 1.0 / ++met[class_of(rows)];
    point.rows += (rows - point.rows) * weight;
    point.seconds += (measured[i] - point.seconds) * weight;
  }
}

/// Behind the last point the last line goes on.
double DraftLengths::PassTimes::of(int rows) const {
  const auto met = [&](int from, int step) -> const Point* {
    for (int i = from; i >= 0 && i < size_classes; i += step) {
      if (points_[static_cast<std::size_t>(i)].rows > 0) return &points_[static_cast<std::size_t>(i)];
    }
    return nullptr;
  };
  const auto class_of_point = [&](const Point* point) { return static_cast<int>(point - points_.data()); };
  const int own = static_cast<int>(class_of(rows));
  const Point* from = met(own, -1);
  if (from != nullptr && from->rows > rows) from = met(own - 1, -1);
  const Point* to = met(from == nullptr ? own : class_of_point(from) + 1, 1);
  if (from == nullptr) return level_ * to->seconds;
  if (to == nullptr) {
    to = from;
    from = met(class_of_point(to) - 1, -1);
  }
  const double slope = std::max(0.0, (to->seconds - from->seconds) / (to->rows - from->rows));
  return level_ * (from->seconds + slope * (rows - from->rows));
}

/// The level takes half of what is off, so that passes of other sizes, which may not be run for long, are expected to
/// take more while another program slows the machine down, and less when it has ended.
void DraftLengths::PassTimes::learn(int rows, double seconds) {
  if (seconds <= 0) return;  // too short for the clock
  Point& point = points_[class_of(rows)];
  if (point.rows == 0) {
    point = {static_cast<double>(rows), seconds / level_};
    return;
  }
  const double step = std::sqrt(std::sqrt(std::sqrt(seconds / of(rows))));  // an eighth of what is off
  point.rows += (rows - point.rows) * learned_at_once;
  point.seconds *= step;
  level_ *= step;
}

/// That of the nearest class that was met.
double DraftLengths::ProposalFactors::of(int draft_tokens) const {
  const int own = static_cast<int>(class_of(draft_tokens));
  for (int away = 0; away < size_classes; ++away) {
    for (const int i : {own - away, own + away}) {
      if (i < 0 || i >= size_classes) continue;
      if (const double factor = factors_[static_cast<std::size_t>(i)]; factor > 0) return factor;
    }
  }
  return 1;
}

void DraftLengths::ProposalFactors::learn(int draft_tokens, double factor) {
  double& known = factors_[class_of(draft_tokens)];
  known = known == 0 ? factor : known + (factor - known) * learned_at_once;
}

DraftLengths::DraftLengths(DraftCosts costs) : costs_(std::move(costs)), pass_times_(costs_.verify) {
  REQUIRE(costs_.verify.size() >= 2, "the costs say what one row more takes");
  std::size_t longest = 0;
  for (const auto& stage : costs_.draft) longest = std::max(longest, stage.size());
  depths_.resize(longest == 0 ? 0 : longest - 1, {tried_at_first, accepted_at_first});
}

double DraftLengths::share(const Text& text, std::size_t depth) const {
  const double all = depths_[depth].accepted / depths_[depth].tried;
  const Depth own = depth < text.depths.size() ? text.depths[depth] : Depth();
  return (own.accepted + weight_of_all * all) / (own.tried + weight_of_all);
}

/// The seconds that proposals take by the costs, with what their drafts observe of the round before: as much longer
/// than the longest alone as passes of so many rows do, and by the most expensive of the stages.
double DraftLengths::expected(const Proposals& proposals) const {
  double longest = 0;
  for (const auto& stage : costs_.draft) {
    if (stage.empty()) continue;
    const std::size_t last = std::min(stage.size() - 1, static_cast<std::size_t>(proposals.longest));
    longest = std::max(longest, stage[last]);
  }
  return longest * pass_times_.of(proposals.draft_tokens) / pass_times_.of(proposals.longest);
}

double DraftLengths::seconds(int other_rows, const Proposals& proposals) const {
  const double pass = pass_times_.of(other_rows + proposals.draft_tokens);
  if (proposals.draft_tokens == 0) return pass;
  return pass + expected(proposals) * proposal_factors_.of(proposals.draft_tokens);
}

const std::vector<int>& DraftLengths::choose(std::span<Text* const> texts, int other_rows) {
  ++choices_;
  chosen_.assign(texts.size(), 0);
  chosen_proposals_ = {};
  seconds_without_try_ = 0;
  if (texts.empty()) return chosen_;
  const int rows = static_cast<int>(texts.size()) + other_rows;
  choose_best(texts, rows);
  choose_try(texts, rows);
  for (std::size_t i = 0; i < texts.size(); ++i) {
    if (chosen_[i] > 0) texts[i]->asked = choices_;
  }
  return chosen_;
}

/// A draft token gives no more than the one before it, so the best ones are always the first ones of each text.
void DraftLengths::choose_best(std::span<Text* const> texts, int rows) {
  struct Candidate {
    double gives;
    std::size_t text;
    int depth;
  };
  std::vector<Candidate> candidates;
  for (std::size_t i = 0; i < texts.size(); ++i) {
    double gives = 1;
    for (std::size_t d = 0; d < depths_.size(); ++d) {
      gives *= share(*texts[i], d);
      candidates.push_back({gives, i, static_cast<int>(d) + 1});
    }
  }
  std::ranges::stable_sort(candidates, [](const Candidate& a, const Candidate& b) {
    return a.gives != b.gives ? a.gives > b.gives : a.depth < b.depth;
  });
  double tokens = rows;
  double best = tokens / seconds(rows, {});
  std::size_t taken = 0;
  Proposals proposals;
  for (std::size_t i = 0; i < candidates.size(); ++i) {
    tokens += candidates[i].gives;
    proposals.longest = std::max(proposals.longest, candidates[i].depth);
    ++proposals.draft_tokens;
    const double rate = tokens / seconds(rows, proposals);
    if (rate <= best) continue;
    best = rate;
    taken = i + 1;
    chosen_proposals_ = proposals;
  }
  for (std::size_t i = 0; i < taken; ++i) ++chosen_[candidates[i].text];
}

/// Gives the text that has had no draft tokens for the longest time as many as would gain most, if nearly all of them
/// were accepted. The try begins where the allowance pays for it.
void DraftLengths::choose_try(std::span<Text* const> texts, int rows) {
  std::size_t text = texts.size();
  for (std::size_t i = 0; i < texts.size(); ++i) {
    if (chosen_[i] == 0 && (text == texts.size() || texts[i]->asked < texts[text]->asked)) text = i;
  }
  if (text == texts.size()) return;
  const double without = seconds(rows, chosen_proposals_);
  double gives = 1;
  double tokens = 0;
  double best = 0;
  double costs = 0;
  for (int k = 1; k <= static_cast<int>(depths_.size()); ++k) {
    tokens += gives *= hoped_for;
    Proposals with_try = chosen_proposals_;
    with_try.add(k);
    const double more = seconds(rows, with_try) - without;
    const double gain = tokens - more / without * rows;
    if (gain <= best) continue;
    best = gain;
    costs = more;
    chosen_[text] = k;
  }
  if (costs > allowance_) chosen_[text] = 0;
  if (chosen_[text] == 0) return;
  seconds_without_try_ = without;
}

DraftLengths::Worth DraftLengths::worth(int texts) const {
  const double plain = seconds(texts, {});
  Worth best;
  double expected = 1;
  double reached = 1;
  for (int k = 1; k <= static_cast<int>(depths_.size()); ++k) {
    const Depth& depth = depths_[static_cast<std::size_t>(k - 1)];
    reached *= depth.accepted / depth.tried;
    expected += reached;
    const Worth of_length = {k, expected, seconds(texts, {.longest = k, .draft_tokens = texts * k}) / plain};
    if (k == 1 || of_length.speedup() > best.speedup()) best = of_length;
  }
  return best;
}

void DraftLengths::learn(Text& text, int drafted, int accepted) {
  text.depths.resize(depths_.size());
  for (int d = 0; d < std::min({drafted, accepted + 1, static_cast<int>(depths_.size())}); ++d) {
    const auto learn_depth = [&](Depth& depth, double kept) {
      depth.tried = kept * depth.tried + 1;
      depth.accepted = kept * depth.accepted + (d < accepted ? 1 : 0);
    };
    learn_depth(text.depths[static_cast<std::size_t>(d)], kept_of_text);
    learn_depth(depths_[static_cast<std::size_t>(d)], kept_of_all);
  }
}

void DraftLengths::learn_pass(int rows, double pass_seconds, const Proposals& proposals, double proposal_seconds,
                              double late_seconds) {
  if (proposals.draft_tokens > 0) {
    if (const double costs = expected(proposals); costs > 0) {
      proposal_factors_.learn(proposals.draft_tokens, proposal_seconds / costs);
    }
  }
  pass_times_.learn(rows, pass_seconds);
  const double all = pass_seconds + proposal_seconds + late_seconds;
  allowance_ = std::min(allowance_ + share_of_tries * all, allowance_max * all);
  if (seconds_without_try_ > 0) allowance_ -= std::max(0.0, all - seconds_without_try_);
}

}  // namespace draftproof
