// SPDX-License-Identifier: MIT
// Acceptance rules. A rule is a pure function that decides which draft tokens of a proposal are accepted and which
// token of the target follows them.
#pragma once

#include <string_view>
#include <vector>

#include "ref/acceptance/distribution.h"
#include "ref/acceptance/proposal.h"
#include "ref/acceptance/random_source.h"
#include "ref/base/token.h"

namespace draftproof {

/// The target's distributions for one proposal. Row 0 is for the token after the committed text; row 1 + i is for the
/// token after draft token i and all its ancestors. A rule reads rows in ascending order, so an implementation may
/// compute them one by one. `matching` and `rejection` read a row after a draft token only when that draft token is
/// accepted.
class TargetRows {
 public:
  virtual ~TargetRows() = default;
  virtual const Distribution& row(int row) = 0;
};

struct Verdict {
  int accepted = 0;         // number of accepted draft tokens; each is a child of the one before
  Token next = 0;           // the target's token after them
  int last = accepted - 1;  // the last accepted draft token, -1 when there is none; accepted - 1 in a chain
  bool operator==(const Verdict&) const = default;
};

struct Rule {
  const char* name;       // "matching", "rejection", "block"
  const char* guarantee;  // one sentence for users
  Purpose draft_noise;    // the purpose in the keys of a draft's draws

  /// Verifies `proposal`. `position`: absolute position of the first draft token.
  Verdict (*judge)(const Proposal& proposal, TargetRows& rows, int sequence, int position, RandomSource& random);
};

/// matching: the target draws its token at every position with the key (position, target), as plain autoregressive
/// decoding does. A draft token that equals this draw is accepted, and its children are verified next. The output
/// equals that of plain decoding, token by token, whatever the draft proposes.
///
/// Example: the draft proposes [4, 2, 3], and the target draws 4, 2 and 9 at these positions. 4 and 2 are accepted, 9
/// takes the place of 3: the round emits [4, 2, 9].
extern const Rule matching;

/// rejection: speculative sampling. A draft token x drawn from q is accepted when p_x >= q_x, or when
/// sample_index({p_x, q_x - p_x}) is 0. Otherwise the next token is drawn from the residual max(p - q, 0). After the
/// last draft token the target draws its token as in plain decoding. The distribution of the output equals that of
/// plain decoding. In a tree, the first child of an accepted token is verified this way. When the residual draw equals
/// one of its siblings, that sibling is accepted. Siblings must depend neither on the residual draw here nor on the
/// noise that later positions are drawn with; ProposalBuilder enforces this.
///
/// Example: p is 0.5, 0.3, 0.2 and q is 0.2, 0.8, 0 for the tokens a, b, c. A draft token a is accepted, because
/// p >= q. A draft token b is accepted with probability 0.3 / 0.8 = 3/8; else the residual 0.3, 0, 0.2 gives a with
/// 3/5, c with 2/5. So a comes with 0.2 + 0.8 * 5/8 * 3/5 = 0.5, b with 0.8 * 3/8 = 0.3, c with 0.8 * 5/8 * 2/5 = 0.2:
/// that is p.
extern const Rule rejection;

/// block: block verification, which decides about the draft tokens of a chain together: it may accept two of which one
/// alone would have been rejected, and accepts at least as many as `rejection` on average. It reads the rows after all
/// draft tokens that are still possible. The distribution of the output equals that of plain decoding. Where a chain
/// ends changes what is accepted before, so with other stop tokens or strings, which end drafts, the text may be
/// another one of that distribution. A tree is verified as by `rejection`.
///
/// Example: in every row p is 1/3, 2/3 and q is 2/3, 1/3 for the tokens a, b. Of the draft tokens a, b `rejection`
/// accepts a with 1/2 and b after it, so both with 1/2. `block` accepts both with 1/2 * 2 = 1. Of b, a both rules
/// accept b, and a with 1/2: a share that is larger than 1 is not kept.
extern const Rule block;

/// Returns the rule of this name, or nullptr.
const Rule* find_rule(std::string_view name) noexcept;
/// Returns all rules as an array that ends with nullptr.
const Rule* const* all_rules() noexcept;

}  // namespace draftproof
