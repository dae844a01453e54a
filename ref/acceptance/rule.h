// SPDX-License-Identifier: MIT
// The pure judgement of a proposal: which guesses stand, and the target's own token after them.
#pragma once

#include <string_view>
#include <vector>

#include "ref/acceptance/chance.h"
#include "ref/acceptance/distribution.h"
#include "ref/acceptance/proposal.h"
#include "ref/base/token.h"

namespace draftproof {

/// The target's distributions after the committed text and the first `row` guesses; row 0 ... proposal.size(). Rows are
/// asked for in ascending order and only while the guesses before them stand, so a provider may work row by row.
class TargetRows {
 public:
  virtual ~TargetRows() = default;
  virtual const Distribution& row(int row) = 0;
};

struct Verdict {
  int accepted = 0;  // guesses that stand: the first `accepted`
  Token next = 0;    // the target's token after them
  bool operator==(const Verdict&) const = default;
};

struct Rule {
  const char* name;       // "matching", "rejection"
  const char* guarantee;  // one sentence
  Purpose draft_noise;    // the purpose a draft draws under

  /// `position`: absolute position of the token that the first guess decides.
  Verdict (*judge)(const Proposal& proposal, TargetRows& rows, int sequence, int position, Chance& chance);
};

/// matching: the target draws at every position with the key (position, target), as plain decoding does; a guess stands
/// while it equals the draw. Tokens equal plain decoding whatever the draft.
extern const Rule matching;

/// rejection: guess x drawn from q stands when pick({p_x, q_x - p_x}) is 0 or p_x >= q_x; else the next token is picked
/// from max(p - q, 0). After the last guess the target draws as in plain decoding. The law equals plain decoding's.
extern const Rule rejection;

/// nullptr when there is none of that name; all of them end with nullptr.
const Rule* find_rule(std::string_view name) noexcept;
const Rule* const* all_rules() noexcept;

}  // namespace draftproof
