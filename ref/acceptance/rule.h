// SPDX-License-Identifier: MIT
// The pure judgement of a proposal: which draft tokens stand, and the target's own token after them.
#pragma once

#include <string_view>
#include <vector>

#include "ref/acceptance/random_source.h"
#include "ref/acceptance/distribution.h"
#include "ref/acceptance/proposal.h"
#include "ref/base/token.h"

namespace draftproof {

/// The target's distributions: row 0 follows the committed text, row 1 + i draft token i and all those above it. Rows are
/// asked for in ascending order and only where the draft tokens before them stand, so a provider may work row by row.
class TargetRows {
 public:
  virtual ~TargetRows() = default;
  virtual const Distribution& row(int row) = 0;
};

struct Verdict {
  int accepted = 0;         // draft tokens that stand, each below the one before
  Token next = 0;           // the target's token after them
  int last = accepted - 1;  // the last of them, -1 when there is none; as it is here for a chain
  bool operator==(const Verdict&) const = default;
};

struct Rule {
  const char* name;       // "matching", "rejection"
  const char* guarantee;  // one sentence
  Purpose draft_noise;    // the purpose a draft draws under

  /// `position`: absolute position of the token that the first draft token decides.
  Verdict (*judge)(const Proposal& proposal, TargetRows& rows, int sequence, int position, RandomSource& random);
};

/// matching: the target draws at every position with the key (position, target), as plain decoding does; a draft token that
/// equals the draw stands, and what follows it is judged next. Tokens equal plain decoding whatever the draft.
extern const Rule matching;

/// rejection: draft token x drawn from q stands when pick({p_x, q_x - p_x}) is 0 or p_x >= q_x; else the next token is picked
/// from max(p - q, 0). After the last draft token the target draws as in plain decoding. The law equals plain decoding's.
/// In a tree the first draft token after a token is judged so; where another that follows the same token equals what was
/// picked instead, that one stands. Who these others are may depend neither on the number of that pick nor on a number
/// that a later position will be drawn with (Draft tokens sees to it).
extern const Rule rejection;

/// nullptr when there is none of that name; all of them end with nullptr.
const Rule* find_rule(std::string_view name) noexcept;
const Rule* const* all_rules() noexcept;

}  // namespace draftproof
