// SPDX-License-Identifier: MIT
#include "ref/acceptance/draw.h"
#include "ref/acceptance/rule.h"

namespace draftproof {
namespace {

// Draws the tokens of plain decoding, with the same keys, so the output equals that of plain decoding. The draft tokens
// only decide how many tokens one round emits.
Verdict judge(const Proposal& proposal, TargetRows& rows, int sequence, int position, RandomSource& random) {
  int last = -1;  // the last accepted draft token
  for (int accepted = 0;; ++accepted) {
    const Token own = draw(rows.row(last + 1), {sequence, position + accepted, Purpose::target}, random);
    const int node = proposal.child(last, own);
    if (node == Proposal::no_node) return {accepted, own, last};
    last = node;
  }
}

}  // namespace

const Rule matching = {"matching", "With the same seed the tokens equal those of plain decoding, whatever the draft.",
                       Purpose::target, judge};

}  // namespace draftproof
