// SPDX-License-Identifier: MIT
#include "ref/acceptance/draw.h"
#include "ref/acceptance/rule.h"

namespace draftproof {
namespace {

// The draws below are those of plain decoding, key by key, so the tokens are too; draft tokens only decide how many of them
// one round yields.
Verdict judge(const Proposal& proposal, TargetRows& rows, int sequence, int position, RandomSource& random) {
  int last = -1;  // the last draft token that stands
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
