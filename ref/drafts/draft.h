// SPDX-License-Identifier: MIT
// A draft of one sequence: it sees committed text and features, and draft tokens. It is never told what was refused, and
// never sees the target's cache or verdicts. By `matching`, and where every draft token is named, the text is the target's
// whatever the draft does. By `rejection` its law is the target's if what a draft draft tokens follows from what it has
// observed, the anchor and what it drew in this round (which round it is may count, too): a number it draws with is
// keyed by position, and behind a refusal the next round draws with the same one again. A draft that remembers what it
// drew before, be it only to draft token less, would choose q knowing the number.
#pragma once

#include <span>

#include "ref/acceptance/proposal.h"
#include "ref/base/digest.h"
#include "ref/base/token.h"
#include "ref/models/model.h"

namespace draftproof {

class Draft {
 public:
  virtual ~Draft() = default;

  /// Most draft tokens it can make in one round.
  virtual int draft_max() const = 0;

  /// Target layers whose output it wants with every committed position.
  virtual std::span<const int> taps() const { return {}; }

  /// Most tokens of a prompt that are observed at once; a round's run may be longer if draft_max() is.
  static constexpr int max_chunk = prefill_chunk;

  /// Committed tokens, once each and in order, with their features [run.size()][taps * hidden]. The last committed
  /// token of the text, the anchor, is not among them until the round after it. Holds between 1 and
  /// max(run_max, 1 + draft_max()) tokens. All of the run is observed or, when this throws, none of it.
  virtual void observe(std::span<const Token> committed, std::span<const float> features) = 0;

  /// At most `limit` >= 1 draft tokens for the tokens after `anchor`. Leaves what was observed as it is.
  virtual void propose(Token anchor, int limit, ProposalBuilder& builder) = 0;

  /// Of everything observed: equal after equal texts, whatever was proposed in between.
  virtual Fingerprint digest() const { return {}; }
};

}  // namespace draftproof
