// SPDX-License-Identifier: MIT
#include "oracle/exact/enumerate.h"

#include <algorithm>
#include <numeric>

#include "ref/base/require.h"

namespace draftproof {

EnumeratedSource::Choice EnumeratedSource::new_choice(const Key& key, std::span<const std::uint64_t> weights,
                                                      std::uint64_t sum) const {
  Choice choice{key, sum, {}, 0, probability()};
  Cut low{0, 1};
  Cut high{1, 1};
  for (std::size_t i = depth_; i-- > 0;) {
    if (choices_[i].key != key) continue;
    low = choices_[i].cell().low;
    high = choices_[i].cell().high;
    choice.given /= choices_[i].cell().width();
    break;
  }
  std::uint64_t before = 0;
  for (std::size_t i = 0; i < weights.size(); ++i) {
    if (weights[i] == 0) continue;
    const Cut begin = std::max(low, Cut{before, sum});
    before += weights[i];
    const Cut end = std::min(high, Cut{before, sum});
    if (begin < end) choice.cells.push_back({i, begin, end});
  }
  return choice;
}

Rational EnumeratedSource::Cell::width() const {
  if (low.of == 0) return Rational(high.of, high.all);
  if (low.all == high.all) return Rational(high.of - low.of, high.all);
  return Rational(high.of, high.all) - Rational(low.of, low.all);
}

std::size_t EnumeratedSource::sample_index(const Key& key, std::span<const std::uint64_t> weights) {
  const std::uint64_t sum = std::accumulate(weights.begin(), weights.end(), std::uint64_t{0});
  REQUIRE(sum > 0, "some weight is positive");
  if (depth_ == choices_.size()) choices_.push_back(new_choice(key, weights, sum));
  const Choice& choice = choices_[depth_++];
  REQUIRE(choice.key == key && choice.sum == sum, "the program makes the same draws when it gets the same results");
  return choice.cell().index;
}

Rational EnumeratedSource::probability() const {
  if (depth_ == 0) return 1;
  const Choice& last = choices_[depth_ - 1];
  return last.given * last.cell().width();
}

bool EnumeratedSource::next_path() {
  REQUIRE(depth_ == choices_.size(), "the program makes the same draws when it gets the same results");
  while (!choices_.empty() && choices_.back().taken + 1 == choices_.back().cells.size()) choices_.pop_back();
  if (!choices_.empty()) ++choices_.back().taken;
  depth_ = 0;
  return !choices_.empty();
}

}  // namespace draftproof
