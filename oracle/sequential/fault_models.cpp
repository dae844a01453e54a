// SPDX-License-Identifier: MIT
#include "oracle/sequential/fault_models.h"

#include <algorithm>
#include <numeric>

namespace draftproof {
namespace {

using Laws = PositionDistributions;
using OutcomeDistribution = std::vector<double>;

double sum_of(const OutcomeDistribution& values) {
  double sum = 0;
  for (const double value : values) sum += value;
  return sum;
}

std::size_t best_of(const OutcomeDistribution& values) {  // the first among equals
  return static_cast<std::size_t>(std::max_element(values.begin(), values.end()) - values.begin());
}

void scale_to_one(OutcomeDistribution& r) {
  const double sum = sum_of(r);
  for (double& value : r) value /= sum;
}

/// What p has more than q: where a sound rule draws from after a refusal.
OutcomeDistribution residual_of(const Laws& l) {
  OutcomeDistribution residual(l.p.size());
  for (std::size_t i = 0; i < residual.size(); ++i) residual[i] = std::max(l.p[i] - l.q[i], 0.0);
  return residual;
}

/// r holds what stands; the rest of what was drafted is replaced as a sound rule would.
void replace_soundly(const Laws& l, double refused, OutcomeDistribution& r) {
  const OutcomeDistribution residual = residual_of(l);
  const double sum = sum_of(residual);
  if (sum == 0) return;  // p == q: whatever is refused then, is refused by rounding
  for (std::size_t i = 0; i < r.size(); ++i) r[i] += refused / sum * residual[i];
}

void keep_soundly(const Laws& l, OutcomeDistribution& r) {
  for (std::size_t i = 0; i < r.size(); ++i) r[i] = std::min(l.p[i], l.q[i]);
}

/// Draft tokens drawn from `drawn` are judged as if they had been drawn from q.
void judged_by_q(const Laws& l, const OutcomeDistribution& drawn, OutcomeDistribution& r) {
  double refused = 0;
  for (std::size_t i = 0; i < r.size(); ++i) {
    r[i] = l.p[i] < l.q[i] ? drawn[i] * (l.p[i] / l.q[i]) : drawn[i];
    refused += drawn[i] - r[i];
  }
  replace_soundly(l, refused, r);
}

void accept_all(const Laws& l, OutcomeDistribution& r) { r = l.q; }

void accept_possible(const Laws& l, OutcomeDistribution& r) {
  double refused = 0;
  for (std::size_t i = 0; i < r.size(); ++i) {
    r[i] = l.p[i] > 0 ? l.q[i] : 0;
    refused += l.q[i] - r[i];
  }
  replace_soundly(l, refused, r);
}

void ratio_inverted(const Laws& l, OutcomeDistribution& r) {
  double refused = 0;
  for (std::size_t i = 0; i < r.size(); ++i) {
    r[i] = l.q[i] < l.p[i] ? l.q[i] * (l.q[i] / l.p[i]) : l.q[i];
    refused += l.q[i] - r[i];
  }
  replace_soundly(l, refused, r);
}

void lenient(const Laws& l, OutcomeDistribution& r) {
  double refused = 0;
  for (std::size_t i = 0; i < r.size(); ++i) {
    r[i] = std::min(l.q[i], 1.25 * l.p[i]);
    refused += l.q[i] - r[i];
  }
  replace_soundly(l, refused, r);
}

void replacement_from_p(const Laws& l, OutcomeDistribution& r) {
  keep_soundly(l, r);
  const double refused = sum_of(residual_of(l));
  for (std::size_t i = 0; i < r.size(); ++i) r[i] += refused * l.p[i];
}

/// Refused x, the replacement is drawn from p without x.
void refused_only(const Laws& l, OutcomeDistribution& r) {
  const auto refused = [&](std::size_t x) {
    return l.q[x] > l.p[x] ? (l.q[x] - l.p[x]) / (1 - l.p[x]) : 0.0;
  };
  double sum = 0;
  for (std::size_t x = 0; x < r.size(); ++x) sum += refused(x);
  keep_soundly(l, r);
  for (std::size_t i = 0; i < r.size(); ++i) r[i] += l.p[i] * std::max(sum - refused(i), 0.0);
}

void best_of_residual(const Laws& l, OutcomeDistribution& r) {
  keep_soundly(l, r);
  const OutcomeDistribution residual = residual_of(l);
  r[best_of(residual)] += sum_of(residual);
}

/// The number u that refused x, because u >= p_x / q_x, also picks the replacement, in whose cell of [0, 1) it lies.
void one_number_twice(const Laws& l, OutcomeDistribution& r) {
  keep_soundly(l, r);
  const OutcomeDistribution residual = residual_of(l);
  const double sum = sum_of(residual);
  if (sum == 0) return;
  std::vector<std::size_t> refusable;
  for (std::size_t x = 0; x < r.size(); ++x) {
    if (l.q[x] > l.p[x]) refusable.push_back(x);
  }
  const auto bound = [&](std::size_t x) { return l.p[x] / l.q[x]; };
  std::sort(refusable.begin(), refusable.end(), [&](std::size_t a, std::size_t b) { return bound(a) < bound(b); });
  // refused(c): how likely it is that a draft token is refused by a number below c.
  double offered = 0;  // of the draft tokens that numbers below c can refuse
  double spared = 0;
  std::size_t next = 0;
  const auto refused = [&](double c) {
    for (; next < refusable.size() && bound(refusable[next]) < c; ++next) {
      offered += l.q[refusable[next]];
      spared += l.p[refusable[next]];
    }
    return c * offered - spared;
  };
  double below = 0;
  double before = 0;
  for (std::size_t y = 0; y < r.size(); ++y) {
    if (residual[y] == 0) continue;
    before += residual[y];
    const double now = refused(before / sum);
    r[y] += std::max(now - below, 0.0);
    below = now;
  }
}

/// The number that drew the draft token also picks the replacement: the cells of q and of the residual overlap.
void draft_number_again(const Laws& l, OutcomeDistribution& r) {
  keep_soundly(l, r);
  const OutcomeDistribution residual = residual_of(l);
  const double sum = sum_of(residual);
  if (sum == 0) return;
  std::size_t x = 0;
  std::size_t y = 0;
  double end_of_x = l.q[0];
  double end_of_y = residual[0] / sum;
  double at = 0;
  while (x < r.size() && y < r.size()) {
    const double end = std::min(end_of_x, end_of_y);
    if (end > at && l.q[x] > l.p[x]) r[y] += (end - at) * ((l.q[x] - l.p[x]) / l.q[x]);
    at = std::max(at, end);
    if (end_of_x <= end_of_y) {
      if (++x < r.size()) end_of_x += l.q[x];
    } else if (++y < r.size()) {
      end_of_y += residual[y] / sum;
    }
  }
}

void best_stated_as_drawn(const Laws& l, OutcomeDistribution& r) {
  OutcomeDistribution drawn(r.size());
  drawn[best_of(l.q)] = 1;
  judged_by_q(l, drawn, r);
}

void sharper_than_stated(const Laws& l, OutcomeDistribution& r) {
  OutcomeDistribution drawn(r.size());
  for (std::size_t i = 0; i < r.size(); ++i) drawn[i] = l.q[i] * l.q[i];
  scale_to_one(drawn);
  judged_by_q(l, drawn, r);
}

void drawn_afresh(const Laws& l, OutcomeDistribution& r) {
  for (std::size_t i = 0; i < r.size(); ++i) r[i] = l.q[i] * l.p[i];
  const double mismatch = 1 - sum_of(r);
  for (std::size_t i = 0; i < r.size(); ++i) r[i] += mismatch * l.p[i];
}

void always_best(const Laws& l, OutcomeDistribution& r) {
  std::fill(r.begin(), r.end(), 0.0);
  r[best_of(l.p)] = 1;
}

void colder(const Laws& l, OutcomeDistribution& r) {
  for (std::size_t i = 0; i < r.size(); ++i) r[i] = l.p[i] * l.p[i];
  scale_to_one(r);
}

void hotter(const Laws& l, OutcomeDistribution& r) {
  for (std::size_t i = 0; i < r.size(); ++i) r[i] = __builtin_sqrt(l.p[i]);
  scale_to_one(r);
}

/// Of what p says less than once in 1024 tokens.
void tail_missing(const Laws& l, OutcomeDistribution& r) {
  for (std::size_t i = 0; i < r.size(); ++i) r[i] = l.p[i] < 0x1p-10 ? 0 : l.p[i];
  r[best_of(l.p)] = l.p[best_of(l.p)];
  scale_to_one(r);
}

constexpr FaultModel list[] = {
    {"accept all", "every draft token is accepted", true, accept_all},
    {"accept the possible", "a draft token stands when p gives it anything at all", true, accept_possible},
    {"ratio inverted", "a draft token stands with q / p in place of p / q", true, ratio_inverted},
    {"lenient", "a draft token stands with 1.25 p / q", true, lenient},
    {"residual is p", "q is not subtracted after a refusal", true, replacement_from_p},
    {"refused token only", "after a refusal only the refused token is subtracted from p", true, refused_only},
    {"best replacement", "after a refusal the best of the residual is taken, none is drawn", true, best_of_residual},
    {"one number twice", "the number that refused picks the replacement", true, one_number_twice},
    {"draft noise as residual", "draft and replacement draw with one number", true, draft_number_again},
    {"best stated as drawn", "the draft token is q's best token, q is stated", true, best_stated_as_drawn},
    {"sharper than stated", "the draft token is drawn at half the temperature of the stated q", true, sharper_than_stated},
    {"drawn afresh", "a draft token stands when it equals a draw from p, but another draw replaces it", true, drawn_afresh},
    {"always the best", "temperature is ignored", false, always_best},
    {"colder", "half the temperature", false, colder},
    {"hotter", "twice the temperature", false, hotter},
    {"tail missing", "what is less likely than 1/1024 is never said", false, tail_missing},
};

}  // namespace

std::span<const FaultModel> fault_models() noexcept { return list; }

}  // namespace draftproof
