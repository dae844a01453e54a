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
Token draw_in_blocks(const Weights& weights, const Key& key, Chance& chance) {
  const std::span<const std::uint64_t> sums = weights.sums();
  const std::size_t place = sums.size() == 1 ? 0 : chance.pick(key, sums);
  std::array<std::uint64_t, block_size + 2> asked;
  std::array<Token, block_size + 2> tokens;
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
  const auto first = static_cast<Token>(weights.blocks()[place] * block_size);
  for (std::size_t i = 0; i < block_size; ++i) ask(first + static_cast<Token>(i), values[i]);
  ask(other, std::accumulate(at + 1, sums.end(), std::uint64_t{0}));
  const Token token = tokens[chance.pick(key, std::span(asked).first(count))];
  REQUIRE(token != other, "a key asked twice answers from one number");
  return token;
}

}  // namespace

Token draw(const Distribution& distribution, const Key& key, Chance& chance) {
  REQUIRE(!distribution.blocks().empty(), "an empty distribution cannot be drawn from");
  if (distribution.is_point()) return distribution.tokens().front();
  return draw_in_blocks(distribution, key, chance);
}

Token draw(const Residual& residual, const Key& key, Chance& chance) {
  REQUIRE(!residual.blocks().empty(), "an empty residual cannot be drawn from");
  return draw_in_blocks(residual, key, chance);
}

}  // namespace draftproof
