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

/// The token that one question about all weights would give. A key is one number: asked for the block first, it falls
/// on the same token when it is asked again for the weights of that block between the sums of those before and after.
template <class Weights>
Token draw_in_blocks(const Weights& weights, const Key& key, RandomSource& random) {
  const std::span<const std::uint64_t> sums = weights.sums();
  const std::size_t place = sums.size() == 1 ? 0 : random.sample_index(key, sums);
  std::array<std::uint64_t, token_block_size + 2> asked;
  std::array<Token, token_block_size + 2> tokens;
  std::size_t count = 0;
  const auto ask = [&](Token token, std::uint64_t weight) {
    tokens[count] = token;
    asked[count] = weight;
    count += weight > 0;
  };
  constexpr Token other = -1;
  const auto at = sums.begin() + static_cast<std::ptrdiff_t>(place);
  ask(other, std::accumulate(sums.begin(), at, std::uint64_t{0}));
  const auto values = weights.block(place);
  const auto first = static_cast<Token>(weights.blocks()[place] * token_block_size);
  for (std::size_t i = 0; i < token_block_size; ++i) ask(first + static_cast<Token>(i), values[i]);
  ask(other, std::accumulate(at + 1, sums.end(), std::uint64_t{0}));
  const Token token = tokens[random.sample_index(key, std::span(asked).first(count))];
  REQUIRE(token != other, "a key asked twice answers from one number");
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
