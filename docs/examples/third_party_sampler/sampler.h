// SPDX-License-Identifier: MIT
// A toy third-party sampler: one token by speculative sampling, from integer weights and uniform random integers. It
// does not depend on draftproof.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <numeric>
#include <vector>

namespace toy {

using Weights = std::vector<std::uint64_t>;                // by token; target and draft have the same sum
using Coin = std::function<std::uint64_t(std::uint64_t)>;  // uniform below its argument

inline int draw(const Weights& weights, const Coin& below) {
  std::uint64_t u = below(std::accumulate(weights.begin(), weights.end(), std::uint64_t{0}));
  std::size_t token = 0;
  while (u >= weights[token]) u -= weights[token++];
  return static_cast<int>(token);
}

/// The draft proposes a token, which is accepted with probability min(1, target / draft).
inline bool is_accepted(int draft_token, const Weights& target, const Weights& draft, const Coin& below) {
  const auto token = static_cast<std::size_t>(draft_token);
  return below(draft[token]) < target[token];
}

/// A rejected draft token is replaced by a draw from the residual distribution. This preserves the target's
/// distribution.
inline int speculative(const Weights& target, const Weights& draft, const Coin& below) {
  const int draft_token = draw(draft, below);
  if (is_accepted(draft_token, target, draft, below)) return draft_token;
  Weights rest(target.size());
  for (std::size_t i = 0; i < rest.size(); ++i) rest[i] = target[i] - std::min(target[i], draft[i]);
  return draw(rest, below);
}

/// The most common mistake: a rejected draft token is replaced by a draw from the whole target. Its text looks just as
/// good.
inline int careless(const Weights& target, const Weights& draft, const Coin& below) {
  const int draft_token = draw(draft, below);
  return is_accepted(draft_token, target, draft, below) ? draft_token : draw(target, below);
}

}  // namespace toy
