// SPDX-License-Identifier: MIT
// The only source of randomness. A draw depends on its key and not on when it is made: two draws with one key use the
// same uniform number, so output cannot depend on the number or the order of the draws. Every decision of the loop has
// a key of its own, and a draft's draws have new keys in every round.
//
// A source receives a key and weights, nothing else: no tokens and no models.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

namespace draftproof {

enum class Purpose : std::uint8_t { target, draft, accept, residual };
const char* name_of(Purpose purpose) noexcept;

struct Key {
  std::int32_t sequence = 0;
  std::int32_t position = 0;  // absolute position of the token being decided
  Purpose purpose = Purpose::target;
  std::int32_t depth = 0;  // of draft_key and block_key: it names the round; else 0
  auto operator<=>(const Key&) const = default;
};

/// Returns the key that the draft token at this depth of a round is drawn with; `position`: of the round's first.
inline Key draft_key(std::int32_t sequence, std::int32_t position, std::int32_t depth, Purpose noise) noexcept {
  return {sequence, position + depth, noise, noise == Purpose::draft ? depth : 0};
}

/// Returns the key of one of the two coins that block verification tosses after this many draft tokens (block.cpp);
/// `position`: of the round's first.
inline Key block_key(std::int32_t sequence, std::int32_t position, std::int32_t depth, int which) noexcept {
  return {sequence, position + depth, Purpose::accept, 1 + 2 * depth + which};
}

class RandomSource {
 public:
  virtual ~RandomSource() = default;

  /// Returns index i with probability weights[i] / sum(weights). At least one weight must be positive; an index of
  /// weight zero is never returned.
  virtual std::size_t sample_index(const Key& key, std::span<const std::uint64_t> weights) = 0;
};

/// Philox4x32-10 (Salmon, Moraes, Dror, Shaw 2011), key = seed, counter = (position, sequence,
/// purpose + 4 * depth, retry). Draws a uniform integer below the sum of the weights (Lemire's multiplication with
/// rejection, uniform.h), then finds its index by inverting the cumulative sum of the weights.
class PhiloxSource final : public RandomSource {
 public:
  explicit PhiloxSource(std::uint64_t seed) : seed_(seed) {}
  std::uint64_t seed() const noexcept { return seed_; }
  std::size_t sample_index(const Key& key, std::span<const std::uint64_t> weights) override;

  /// Returns a uniform integer in [0, bound), bound >= 1.
  std::uint64_t below(const Key& key, std::uint64_t bound) const noexcept;

 private:
  std::uint64_t seed_;
};

struct Philox {
  std::uint32_t words[4];
};
Philox philox4x32_10(const std::uint32_t counter[4], const std::uint32_t key[2]) noexcept;

}  // namespace draftproof
