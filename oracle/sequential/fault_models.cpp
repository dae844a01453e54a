// SPDX-License-Identifier: MIT
#include "oracle/sequential/fault_models.h"

#include <algorithm>
#include <numeric>

namespace draftproof {
namespace {

using Position = PositionDistributions;
using Probabilities = std::vector<double>;  // by place in Position::tokens

double sum_of(const Probabilities& values) {
  double sum = 0;
  for (const double value : values) sum += value;
  return sum;
}

std::size_t best_of(const Probabilities& values) {  // the first among equals
  return static_cast<std::size_t>(std::max_element(values.begin(), values.end()) - values.begin());
}

void scale_to_one(Probabilities& r) {
  const double sum = sum_of(r);
  for (double& value : r) value /= sum;
}

/// Returns max(p - q, 0), which a sound rule draws from after a rejection.
Probabilities residual_of(const Position& at) {
  Probabilities residual(at.p.size());
  for (std::size_t i = 0; i < residual.size(); ++i) residual[i] = std::max(at.p[i] - at.q[i], 0.0);
  return residual;
}

/// Adds to r, the accepted draft tokens, the replacements of the rejected ones, drawn as a sound rule does.
void replace_soundly(const Position& at, double rejected, Probabilities& r) {
  const Probabilities residual = residual_of(at);
  const double sum = sum_of(residual);
  if (sum == 0) return;  // p == q: what is rejected is rounding only
  for (std::size_t i = 0; i < r.size(); ++i) r[i] += rejected / sum * residual[i];
}

void keep_soundly(const Position& at, Probabilities& r) {
  for (std::size_t i = 0; i < r.size(); ++i) r[i] = std::min(at.p[i], at.q[i]);
}

/// Verifies draft tokens that were drawn from `drawn` as if they had been drawn from q.
void judged_by_q(const Position& at, const Probabilities& drawn, Probabilities& r) {
  double rejected = 0;
  for (std::size_t i = 0; i < r.size(); ++i) {
    r[i] = at.p[i] < at.q[i] ? drawn[i] * (at.p[i] / at.q[i]) : drawn[i];
    rejected += drawn[i] - r[i];
  }
  replace_soundly(at, rejected, r);
}

void accept_all(const Position& at, Probabilities& r) { r = at.q; }

void accept_possible(const Position& at, Probabilities& r) {
  double rejected = 0;
  for (std::size_t i = 0; i < r.size(); ++i) {
    r[i] = at.p[i] > 0 ? at.q[i] : 0;
    rejected += at.q[i] - r[i];
  }
  replace_soundly(at, rejected, r);
}

void ratio_inverted(const Position& at, Probabilities& r) {
  double rejected = 0;
  for (std::size_t i = 0; i < r.size(); ++i) {
    r[i] = at.q[i] < at.p[i] ? at.q[i] * (at.q[i] / at.p[i]) : at.q[i];
    rejected += at.q[i] - r[i];
  }
  replace_soundly(at, rejected, r);
}

void lenient(const Position& at, Probabilities& r) {
  double rejected = 0;
  for (std::size_t i = 0; i < r.size(); ++i) {
    r[i] = std::min(at.q[i], 1.25 * at.p[i]);
    rejected += at.q[i] - r[i];
  }
  replace_soundly(at, rejected, r);
}

void replacement_from_p(const Position& at, Probabilities& r) {
  keep_soundly(at, r);
  const double rejected = sum_of(residual_of(at));
  for (std::size_t i = 0; i < r.size(); ++i) r[i] += rejected * at.p[i];
}

/// Draws the replacement of a rejected x from p without x.
void rejected_only(const Position& at, Probabilities& r) {
  const auto rejected = [&](std::size_t x) { return at.q[x] > at.p[x] ? (at.q[x] - at.p[x]) / (1 - at.p[x]) : 0.0; };
  double sum = 0;
  for (std::size_t x = 0; x < r.size(); ++x) sum += rejected(x);
  keep_soundly(at, r);
  for (std::size_t i = 0; i < r.size(); ++i) r[i] += at.p[i] * std::max(sum - rejected(i), 0.0);
}

void best_of_residual(const Position& at, Probabilities& r) {
  keep_soundly(at, r);
  const Probabilities residual = residual_of(at);
  r[best_of(residual)] += sum_of(residual);
}

/// The number u that rejected x, because u >= p_x / q_x, also selects the replacement, in whose cell of [0, 1) it lies.
void one_number_twice(const Position& at, Probabilities& r) {
  keep_soundly(at, r);
  const Probabilities residual = residual_of(at);
  const double sum = sum_of(residual);
  if (sum == 0) return;
  std::vector<std::size_t> rejectable;
  for (std::size_t x = 0; x < r.size(); ++x) {
    if (at.q[x] > at.p[x]) rejectable.push_back(x);
  }
  const auto bound = [&](std::size_t x) { return at.p[x] / at.q[x]; };
  std::sort(rejectable.begin(), rejectable.end(), [&](std::size_t a, std::size_t b) { return bound(a) < bound(b); });
  // rejected(c): the probability that a draft token is rejected by a number below c.
  double offered = 0;  // of the draft tokens that numbers below c can reject
  double spared = 0;
  std::size_t next = 0;
  const auto rejected = [&](double c) {
    for (; next < rejectable.size() && bound(rejectable[next]) < c; ++next) {
      offered += at.q[rejectable[next]];
      spared += at.p[rejectable[next]];
    }
    return c * offered - spared;
  };
  double below = 0;
  double before = 0;
  for (std::size_t y = 0; y < r.size(); ++y) {
    if (residual[y] == 0) continue;
    before += residual[y];
    const double now = rejected(before / sum);
    r[y] += std::max(now - below, 0.0);
    below = now;
  }
}

/// The number that drew the draft token also selects the replacement: the cells of q and of the residual overlap.
void draft_number_again(const Position& at, Probabilities& r) {
  keep_soundly(at, r);
  const Probabilities residual = residual_of(at);
  const double sum = sum_of(residual);
  if (sum == 0) return;
  std::size_t x = 0;
  std::size_t y = 0;
  double end_of_x = at.q[0];
  double end_of_y = residual[0] / sum;
  double done = 0;
  while (x < r.size() && y < r.size()) {
    const double end = std::min(end_of_x, end_of_y);
    if (end > done && at.q[x] > at.p[x]) r[y] += (end - done) * ((at.q[x] - at.p[x]) / at.q[x]);
    done = std::max(done, end);
    if (end_of_x <= end_of_y) {
      if (++x < r.size()) end_of_x += at.q[x];
    } else if (++y < r.size()) {
      end_of_y += residual[y] / sum;
    }
  }
}

void best_stated_as_drawn(const Position& at, Probabilities& r) {
  Probabilities drawn(r.size());
  drawn[best_of(at.q)] = 1;
  judged_by_q(at, drawn, r);
}

void sharper_than_stated(const Position& at, Probabilities& r) {
  Probabilities drawn(r.size());
  for (std::size_t i = 0; i < r.size(); ++i) drawn[i] = at.q[i] * at.q[i];
  scale_to_one(drawn);
  judged_by_q(at, drawn, r);
}

void drawn_again(const Position& at, Probabilities& r) {
  for (std::size_t i = 0; i < r.size(); ++i) r[i] = at.q[i] * at.p[i];
  const double mismatch = 1 - sum_of(r);
  for (std::size_t i = 0; i < r.size(); ++i) r[i] += mismatch * at.p[i];
}

void always_best(const Position& at, Probabilities& r) {
  std::fill(r.begin(), r.end(), 0.0);
  r[best_of(at.p)] = 1;
}

void colder(const Position& at, Probabilities& r) {
  for (std::size_t i = 0; i < r.size(); ++i) r[i] = at.p[i] * at.p[i];
  scale_to_one(r);
}

void hotter(const Position& at, Probabilities& r) {
  for (std::size_t i = 0; i < r.size(); ++i) r[i] = __builtin_sqrt(at.p[i]);
  scale_to_one(r);
}

double sixteenth_root(double value) {
  for (int i = 0; i < 4; ++i) value = __builtin_sqrt(value);
  return value;
}

void a_little_colder(const Position& at, Probabilities& r) {
  for (std::size_t i = 0; i < r.size(); ++i) r[i] = at.p[i] * sixteenth_root(at.p[i]);
  scale_to_one(r);
}

void a_little_hotter(const Position& at, Probabilities& r) {
  for (std::size_t i = 0; i < r.size(); ++i) r[i] = at.p[i] > 0 ? at.p[i] / sixteenth_root(at.p[i]) : 0;
  scale_to_one(r);
}

/// Removes tokens with p below 1/1024, except the most likely token.
void tail_missing(const Position& at, Probabilities& r) {
  for (std::size_t i = 0; i < r.size(); ++i) r[i] = at.p[i] < 0x1p-10 ? 0 : at.p[i];
  r[best_of(at.p)] = at.p[best_of(at.p)];
  scale_to_one(r);
}

constexpr FaultModel list[] = {
    {"accept all", "every draft token is accepted", true, accept_all},
    {"accept the possible", "a draft token is accepted when p gives it any probability at all", true, accept_possible},
    {"ratio inverted", "a draft token is accepted with q / p in place of p / q", true, ratio_inverted},
    {"lenient", "a draft token is accepted with 1.25 p / q", true, lenient},
    {"residual is p", "q is not subtracted after a rejection", true, replacement_from_p},
    {"rejected token only", "after a rejection only the rejected token is subtracted from p", true, rejected_only},
    {"best replacement", "after a rejection the most likely token of the residual is taken, not drawn", true,
     best_of_residual},
    {"one number twice", "the number that rejected also selects the replacement", true, one_number_twice},
    {"draft noise as residual", "draft and replacement draw with one number", true, draft_number_again},
    {"best stated as drawn", "the draft token is q's most likely token, but q is stated", true, best_stated_as_drawn},
    {"sharper than stated", "the draft token is drawn at half the temperature of the stated q", true,
     sharper_than_stated},
    {"drawn again", "a draft token is accepted when it equals a draw from p, but another draw replaces it", true,
     drawn_again},
    {"always the best", "temperature is ignored", false, always_best},
    {"colder", "half the temperature", false, colder},
    {"hotter", "twice the temperature", false, hotter},
    {"a little colder", "16/17 of the temperature", false, a_little_colder},
    {"a little hotter", "16/15 of the temperature", false, a_little_hotter},
    {"tail missing", "tokens with a probability below 1/1024 are never emitted", false, tail_missing},
};

}  // namespace

std::span<const FaultModel> fault_models() noexcept { return list; }

}  // namespace draftproof
