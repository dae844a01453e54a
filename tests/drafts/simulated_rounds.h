// SPDX-License-Identifier: MIT
// Rounds with scripted acceptance, and a digest of what was proposed in them.
#pragma once

#include <algorithm>
#include <cstdint>
#include <functional>
#include <vector>

namespace draftproof {

using Tokens = std::vector<std::int32_t>;
/// A round: returns the draft tokens after a text, at most `limit`. `accepted`: of the round before.
using RoundOf = std::function<Tokens(const Tokens& text, int limit, int accepted)>;

/// Decodes texts that mostly repeat themselves, `rounds` rounds each. Of each proposal all, none or some are accepted.
/// Returns a digest of all proposals (FNV-1a).
inline std::uint64_t digest_of_rounds(const std::function<RoundOf()>& new_text, int texts, int rounds) {
  std::uint64_t digest = 14695981039346656037U;
  const auto add = [&](std::int32_t value) { digest = (digest ^ static_cast<std::uint32_t>(value)) * 1099511628211U; };
  std::uint64_t state = 1;
  const auto below = [&](std::size_t bound) {
    state = state * 6364136223846793005U + 1442695040888963407U;
    return static_cast<std::size_t>(state >> 33) % bound;
  };
  for (int i = 0; i < texts; ++i) {
    const std::size_t vocabulary = 2 + below(4);
    const std::size_t period = 1 + below(12);
    Tokens text;
    const auto next = [&] {
      const bool repeats = text.size() >= period && below(8) > 0;
      return repeats ? text[text.size() - period] : static_cast<std::int32_t>(below(vocabulary));
    };
    for (std::size_t length = 5 + below(60); text.size() < length;) text.push_back(next());
    const RoundOf round = new_text();
    for (int k = 0, accepted = 0; k < rounds; ++k) {
      const Tokens tokens = round(text, static_cast<int>(1 + below(6)), accepted);
      add(-1);
      for (const std::int32_t token : tokens) add(token);
      const std::size_t choice = below(3);
      const std::size_t count = choice == 0 ? 0 : choice == 1 ? tokens.size() : below(tokens.size() + 1);
      text.insert(text.end(), tokens.begin(), tokens.begin() + static_cast<std::ptrdiff_t>(count));
      std::int32_t token = next();
      if (count < tokens.size() && token == tokens[count]) token = (token + 1) % static_cast<std::int32_t>(vocabulary);
      text.push_back(token);
      accepted = static_cast<int>(count);
    }
  }
  return digest;
}

}  // namespace draftproof
