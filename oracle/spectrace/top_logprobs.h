// SPDX-License-Identifier: MIT
// The likeliest tokens' log-probabilities (field top_logprobs) as a distribution to bet on. Interfaces add the emitted
// token to the N likeliest ones where it is none of them, and what is used of a list must not depend on the token that
// is bet on. So fewer than N are used, and equally likely ones together or not at all: whether the last one used has an
// equal that is left out is then seen in every list. What N is follows from the lists before.
//
//     const auto top = lists.distribution(list, header);  // before the token is looked at
//     lists.learn(list, token);
#pragma once

#include <optional>

#include "oracle/sequential/rounded_distribution.h"
#include "oracle/spectrace/events.h"

namespace draftproof::spectrace {

/// The lists of one sequence, in the order of its tokens.
class TopLogprobs {
 public:
  /// Returns a list as a distribution, with one more token, the vocabulary's size, for all tokens that are not in it;
  /// nothing for a list that adds up to more than 1.
  std::optional<RoundedDistribution> distribution(const RealRow& list, const Header& header) const;

  /// Learns from the list of an emitted token how many of its tokens are the likeliest for certain.
  void learn(const RealRow& list, Token emitted);

 private:
  std::optional<std::size_t> likeliest_;  // how many of the likeliest tokens a list has, at least
  std::size_t shortest_ = 0;              // how many tokens the shortest of them so far had
};

}  // namespace draftproof::spectrace
