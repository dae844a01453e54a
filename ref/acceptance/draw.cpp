// SPDX-License-Identifier: MIT
#include "ref/acceptance/draw.h"

#include <array>
#include <cstddef>
#include <cstdint>
#include <numeric>
#include <span>

#include "ref/base/require.h"

namespace draftproof {
namespace {

/// Draws the token that a single call with all weights would give, but reads the weights of one token block only. A key
/// always gives the same uniform number. The first call, with the sums of the token blocks, selects a token block. The
/// second call, with the sum of the token blocks before it, the weights of this token block and the sum of those after
/// it, selects a token of this token block.
template <class Weights>
Token draw_in_blocks(const Weights& weights, const Key& key, RandomSource& random) {
  const std::span<const std::uint64_t> sums = weights.sums();
  const std::size_t place = sums.size() == 1 ? 0 : random.sample_index(key, sums);
  std::array<std::uint64_t, token_block_size + 2> positive;
  std::array<Token, token_block_size + 2> tokens;
  std::size_t count = 0;
  const auto add = [&](Token token, std::uint64_t weight) {
    tokens[count] = token;
    positive[count] = weight;
    count += weight > 0;
  };
  constexpr Token other = -1;
  const auto at = sums.begin() + static_cast<std::ptrdiff_t>(place);
  add(other, std::accumulate(sums.begin(), at, std::uint64_t{0}));
  const auto values = weights.block(place);
  const auto first = static_cast<Token>(weights.blocks()[place] * token_block_size);
  for (std::size_t i = 0; i < token_block_size; ++i) add(first + static_cast<Token>(i), values[i]);
  add(other, std::accumulate(at + 1, sums.end(), std::uint64_t{0}));
  const Token token = tokens[random.sample_index(key, std::span(positive).first(count))];
  REQUIRE(token != other, "a key gives the same uniform number each time");
  return token;
}

}  // namespace

Token draw(const Distribution& distribution, const Key& key, RandomSource& random) {
  REQUIRE(!distribution.blocks().empty(), "an empty distribution cannot be drawn from");
  if (distribution.is_point()) return distribution.tokens().front();
  return draw_in_blocks(distribution, key, random);
}

Token draw(const Residual& residual, const Key& key, RandomSource& random) {
  REQUIRE(!residual.blocks().empty(), "an empty residual cannot be drawn from");
  return draw_in_blocks(residual, key, random);
}

}  // namespace draftproof
