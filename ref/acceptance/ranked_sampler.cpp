// SPDX-License-Identifier: MIT
#include "ref/acceptance/ranked_sampler.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <functional>
#include <limits>
#include <numeric>
#include <utility>

#include "kernels/math64.h"
#include "ref/acceptance/row_scan.h"

namespace draftproof {
namespace {

constexpr float infinity = std::numeric_limits<float>::infinity();
constexpr float largest_weight = static_cast<float>(Distribution::largest_weight);

/// Integers in the order in which tokens are taken.
std::uint64_t key_of(float z, Token token) {
  const auto bits = __builtin_bit_cast(std::uint32_t, z + 0.0f);  // -0 and +0 are equal
  const std::uint32_t descending = bits >> 31 != 0 ? bits : ~bits & 0x7fffffffu;
  return std::uint64_t{descending} << 32 | static_cast<std::uint32_t>(token);
}
Token token_of(std::uint64_t key) { return static_cast<Token>(key & 0xffffffffu); }

/// Sorts keys whose tokens ascend, by their logits alone: stable, three digits of 11 bits.
void sort_by_logits(std::vector<std::uint64_t>& keys, std::vector<std::uint64_t>& spare) {
  constexpr int digit_bits = 11;
  constexpr std::uint64_t mask = (1 << digit_bits) - 1;
  spare.resize(keys.size());
  for (int shift = 32; shift < 64; shift += digit_bits) {
    std::array<std::uint32_t, mask + 1> next{};  // the place of the next key with this digit
    for (const std::uint64_t key : keys) ++next[key >> shift & mask];
    std::uint32_t sum = 0;
    for (std::uint32_t& one : next) sum += std::exchange(one, sum);
    for (const std::uint64_t key : keys) spare[next[key >> shift & mask]++] = key;
    keys.swap(spare);
  }
}

bool changes_logits(SamplerStep step) { return step == SamplerStep::penalties || step == SamplerStep::dry; }

}  // namespace

bool scan_suffices(const Sampling& sampling) noexcept {
  constexpr SamplerStep scanned[] = {SamplerStep::temperature, SamplerStep::top_k, SamplerStep::top_p,
                                     SamplerStep::min_p};
  if (sampling.dynatemp_range > 0) return false;
  const auto* next = std::begin(scanned);
  for (const SamplerStep step : sampling.order) {
    if (!sampling.applies(step)) continue;
    if (changes_logits(step)) {
      if (next != std::begin(scanned)) return false;
      continue;
    }
    const auto* const found = std::find(next, std::end(scanned), step);
    if (found == std::end(scanned)) return false;
    next = found + 1;
  }
  return true;
}

void RankedSampler::read(std::span<const float> logits, const Sampling& sampling, const History& history,
                         Distribution& result, const TokenSet* allowed) {
  sampling_ = &sampling;
  history_ = history;
  allowed_ = allowed;
  Row& row = row_;
  row.z.assign(logits.begin(), logits.end());
  row.left.clear();
  row.temperature = 1;
  row.ranked = row.weighed = false;
  for (std::size_t token = 0; token < logits.size(); ++token) {
    if (!(logits[token] < infinity)) throw_unusable(logits, allowed);
    if (logits[token] != -infinity) row.left.push_back(static_cast<Token>(token));
  }
  if (row.left.empty()) throw_unusable(logits, allowed);
  apply(row, 0, result);
}

/// Applies the steps from this place of the order on.
void RankedSampler::apply(Row& row, std::size_t from, Distribution& result) {
  for (std::size_t place = from; place < sampler_steps; ++place) {
    const SamplerStep step = sampling_->order[place];
    if (!sampling_->applies(step)) continue;
    if (step != SamplerStep::xtc) {
      apply_step(row, step);
      continue;
    }
    const std::size_t count = excluded(row);
    if (count == 0) continue;
    Row without = row;
    without.left.erase(without.left.begin(), without.left.begin() + static_cast<std::ptrdiff_t>(count));
    without.weighed = false;
    Distribution of_rest, of_all;
    apply(without, place + 1, of_rest);
    apply(row, place + 1, of_all);
    result.become_mixture(of_all, of_rest, sampling_->xtc_probability);
    return;
  }
  finish(row, result);
}

void RankedSampler::apply_step(Row& row, SamplerStep step) {
  if (changes_logits(step)) return change_logits(row, step);
  if (step == SamplerStep::temperature) return set_temperature(row);
  if (step == SamplerStep::typ_p) return keep_typical(row);
  if (step == SamplerStep::top_k) return keep_first(row, static_cast<std::size_t>(sampling_->top_k));
  rank(row);
  if (step == SamplerStep::top_n_sigma) {
    const auto size = static_cast<double>(row.left.size());
    double sum = 0, squares = 0;
    for (const Token token : row.left) sum += double{row.z[token]};
    for (const Token token : row.left) {
      const double off = double{row.z[token]} - sum / size;
      squares += off * off;
    }
    const double min = double{row.z[row.left.front()]} - double{sampling_->top_n_sigma} * std::sqrt(squares / size);
    const auto end = std::ranges::find_if(row.left, [&](Token token) { return double{row.z[token]} < min; });
    return keep_first(row, static_cast<std::size_t>(end - row.left.begin()));
  }
  weigh(row);
  std::size_t kept = 0;
  if (step == SamplerStep::top_p) {
    const double limit = double{sampling_->top_p} * static_cast<double>(row.sum);
    for (std::uint64_t before = 0; kept < row.raw.size() && static_cast<double>(before) < limit; ++kept) {
      before += static_cast<std::uint64_t>(row.raw[kept]);
    }
  } else {
    while (kept < row.raw.size() && !(row.raw[kept] < sampling_->min_p * largest_weight)) ++kept;
  }
  keep_first(row, kept);
}

void RankedSampler::change_logits(Row& row, SamplerStep step) {
  if (row.temperature != 1) {
    for (float& z : row.z) z = z / row.temperature;
    row.temperature = 1;
  }
  if (step == SamplerStep::penalties) penalize(row.z, *sampling_, history_);
  else penalize_repetition(row.z, *sampling_, history_);
  if (!std::ranges::all_of(row.left, [&](Token token) { return row.z[token] < infinity; })) {
    throw_unusable(row.z, allowed_);
  }
  std::erase_if(row.left, [&](Token token) { return row.z[token] == -infinity; });
  if (row.left.empty()) throw_unusable(row.z, allowed_);
  row.ranked = row.weighed = false;
}

void RankedSampler::rank(Row& row) {
  if (row.ranked) return;
  keys_.clear();
  for (const Token token : row.left) keys_.push_back(key_of(row.z[token], token));
  if (std::ranges::is_sorted(row.left)) sort_by_logits(keys_, spare_keys_);
  else std::sort(keys_.begin(), keys_.end());
  std::ranges::transform(keys_, row.left.begin(), token_of);
  row.ranked = true;
}

void RankedSampler::weigh(Row& row) {
  if (row.weighed) return;
  rank(row);
  logits_.clear();
  for (const Token token : row.left) logits_.push_back(row.z[token]);
  const BlockedRow blocked(logits_);
  blocks_.resize(blocked.blocks());
  std::iota(blocks_.begin(), blocks_.end(), 0u);
  row.raw.resize(blocked.blocks() * token_block_size);
  row.sum = find_raw_weights(blocked, blocks_, logits_.front(), row.temperature, row.raw.data());
  row.raw.resize(row.left.size());
  row.weighed = true;
}

/// Of blocks whose largest logits are the `count` largest, each has a token that is as large as the smallest of these:
/// so no smaller one is among the first `count`. Most tokens of a row are dropped so, before any are put in order.
void RankedSampler::drop_below_blocks(Row& row, std::size_t count) {
  const std::size_t blocks = row.left.size() / token_block_size;
  if (blocks <= count) return;
  logits_.resize(blocks);
  for (std::size_t block = 0; block < blocks; ++block) {
    float largest = -infinity;
    for (std::size_t i = block * token_block_size; i < (block + 1) * token_block_size; ++i) {
      largest = std::max(largest, row.z[row.left[i]]);
    }
    logits_[block] = largest;
  }
  const auto place = logits_.begin() + static_cast<std::ptrdiff_t>(count - 1);
  std::nth_element(logits_.begin(), place, logits_.end(), std::greater<>());
  const float min = *place;
  std::erase_if(row.left, [&](Token token) { return row.z[token] < min; });
}

/// Keeps the first tokens, at least one. Those of a row that is not ranked yet are found without ranking all.
void RankedSampler::keep_first(Row& row, std::size_t count) {
  count = std::max<std::size_t>(count, 1);
  if (count >= row.left.size()) return;
  if (!row.ranked) {
    drop_below_blocks(row, count);
    const auto end = row.left.begin() + static_cast<std::ptrdiff_t>(count);
    std::nth_element(row.left.begin(), end, row.left.end(),
                     [&](Token a, Token b) { return key_of(row.z[a], a) < key_of(row.z[b], b); });
  }
  row.left.resize(count);
  if (!row.weighed) return;
  row.raw.resize(count);
  row.sum = 0;
  for (const float raw : row.raw) row.sum += static_cast<std::uint64_t>(raw);
}

/// `log_sum`: log(sum / 2^40).
double RankedSampler::surprise(const Row& row, std::size_t place, double log_sum) {
  if (!(row.raw[place] > 0)) return infinity;
  const double below = double{row.z[row.left.front()]} - double{row.z[row.left[place]]};
  return below / double{row.temperature} + log_sum;
}

double RankedSampler::entropy(Row& row) {
  weigh(row);
  const auto sum = static_cast<double>(row.sum);
  const double log_sum = log64(sum / double{largest_weight});
  double entropy = 0;
  for (std::size_t place = 0; place < row.raw.size() && row.raw[place] > 0; ++place) {
    entropy += double{row.raw[place]} / sum * surprise(row, place, log_sum);
  }
  return entropy;
}

/// Surprises ascend with places, so the tokens nearest to the entropy are those around one place. Of equally near ones
/// the first in order comes first: those before that place, and of equal surprises the first of them.
void RankedSampler::keep_typical(Row& row) {
  const double expected = entropy(row);
  const auto sum = static_cast<double>(row.sum);
  const double log_sum = log64(sum / double{largest_weight});
  const double limit = double{sampling_->typical_p} * sum;
  const std::size_t size = row.raw.size();
  const auto apart = [&](std::size_t place) { return std::fabs(surprise(row, place, log_sum) - expected); };
  std::size_t begin = 0;
  while (begin < size && surprise(row, begin, log_sum) < expected) ++begin;
  std::size_t end = begin;  // kept are [begin, end), and at last some of equal surprises before
  std::size_t from = begin, to = begin;
  std::uint64_t before = 0;
  const auto full = [&] { return static_cast<double>(before) > limit; };
  while (!full() && (begin > 0 || end < size)) {
    if (begin == 0 || (end < size && apart(end) < apart(begin - 1))) {
      before += static_cast<std::uint64_t>(row.raw[end++]);
      continue;
    }
    from = begin - 1;
    while (from > 0 && apart(from - 1) == apart(begin - 1)) --from;
    for (to = from; to < begin && !full(); ++to) before += static_cast<std::uint64_t>(row.raw[to]);
    if (to < begin) break;
    begin = from;
  }
  std::size_t kept = 0;
  for (std::size_t place = std::min(from, begin); place < end; ++place) {
    if (place >= begin || (place >= from && place < to)) row.left[kept++] = row.left[place];
  }
  row.left.resize(kept);
  row.weighed = false;
}

void RankedSampler::set_temperature(Row& row) {
  float temperature = sampling_->temperature;
  if (const float range = sampling_->dynatemp_range; range > 0 && row.left.size() > 1) {
    const double ratio = std::clamp(entropy(row) / log64(static_cast<double>(row.left.size())), 0.0, 1.0);
    const double exponent = sampling_->dynatemp_exponent;
    const double part = ratio > 0 ? power64(ratio, exponent) : exponent == 0 ? 1 : 0;
    const double low = std::max(0.0, double{temperature} - double{range});
    const double high = double{temperature} + double{range};
    temperature = static_cast<float>(low + (high - low) * part);
    if (!(temperature > 0)) {
      keep_first(row, 1);
      temperature = 1;
    }
  }
  row.temperature = temperature;
  row.weighed = false;
}

/// Returns how many of the first tokens XTC drops.
std::size_t RankedSampler::excluded(Row& row) {
  weigh(row);
  const double min = double{sampling_->xtc_threshold} * static_cast<double>(row.sum);
  const auto end = std::ranges::find_if(row.raw, [&](float raw) { return double{raw} < min; });
  const std::ptrdiff_t likely = end - row.raw.begin();
  return likely < 2 ? 0 : static_cast<std::size_t>(likely - 1);
}

void RankedSampler::finish(Row& row, Distribution& result) {
  weigh(row);
  weights_.values.resize(row.z.size() + token_block_size);
  has_weights_.assign(row.z.size() / token_block_size + 1, false);
  for (std::size_t place = 0; place < row.left.size() && row.raw[place] > 0; ++place) {
    const auto token = static_cast<std::size_t>(row.left[place]);
    const std::size_t block = token / token_block_size;
    if (!has_weights_[block]) std::fill_n(&weights_.values[block * token_block_size], token_block_size, 0.0f);
    has_weights_[block] = true;
    weights_.values[token] = row.raw[place];
  }
  weights_.blocks.clear();
  for (std::size_t block = 0; block < has_weights_.size(); ++block) {
    if (has_weights_[block]) weights_.blocks.push_back(static_cast<std::uint32_t>(block));
  }
  weights_.sum = row.sum;
  result.become_quantized(weights_);
}

}  // namespace draftproof
