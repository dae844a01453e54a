// SPDX-License-Identifier: MIT
// The only source of random answers. An answer belongs to a key, not to a moment: asked twice with one key, a source
// answers from one and the same uniform number, so output cannot depend on how often or in which order it was asked.
//
// A source is not told what an answer is for beyond its key, and never sees tokens or models.
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
  auto operator<=>(const Key&) const = default;
};

class RandomSource {
 public:
  virtual ~RandomSource() = default;

  /// Index i with probability weights[i] / sum. At least one weight is positive; a zero weight is never picked.
  virtual std::size_t sample_index(const Key& key, std::span<const std::uint64_t> weights) = 0;
};

/// Philox4x32-10 (Salmon, Moraes, Dror, Shaw 2011), key = seed, counter = (position, sequence, purpose, retry). A
/// uniform integer below the sum of the weights by Lemire's multiply with rejection, then a walk along the weights.
class PhiloxSource final : public RandomSource {
 public:
  explicit PhiloxSource(std::uint64_t seed) : seed_(seed) {}
  std::uint64_t seed() const noexcept { return seed_; }
  std::size_t sample_index(const Key& key, std::span<const std::uint64_t> weights) override;

  /// Uniform in [0, bound), bound >= 1.
  std::uint64_t below(const Key& key, std::uint64_t bound) const noexcept;

 private:
  std::uint64_t seed_;
};

struct Philox {
  std::uint32_t words[4];
};
Philox philox4x32_10(const std::uint32_t counter[4], const std::uint32_t key[2]) noexcept;

}  // namespace draftproof
