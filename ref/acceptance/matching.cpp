// SPDX-License-Identifier: MIT
#include "ref/acceptance/draw.h"
#include "ref/acceptance/rule.h"

namespace draftproof {
namespace {

// The draws below are those of plain decoding, key by key, so the tokens are too; guesses only decide how many of them
// one round yields.
Verdict judge(const Proposal& proposal, TargetRows& rows, int sequence, int position, Chance& chance) {
  int last = -1;  // the last guess that stands
  for (int accepted = 0;; ++accepted) {
    const Token own = draw(rows.row(last + 1), {sequence, position + accepted, Purpose::target}, chance);
    const int guess = proposal.child(last, own);
    if (guess == Proposal::no_guess) return {accepted, own, last};
    last = guess;
  }
}

}  // namespace

const Rule matching = {"matching", "With the same seed the tokens equal those of plain decoding, whatever the draft.",
                       Purpose::target, judge};

}  // namespace draftproof
