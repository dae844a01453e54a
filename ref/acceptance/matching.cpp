// SPDX-License-Identifier: MIT
#include "ref/acceptance/draw.h"
#include "ref/acceptance/rule.h"

namespace draftproof {
namespace {

// The draws below are those of plain decoding, key by key, so the tokens are too; guesses only decide how many of them
// one round yields.
Verdict judge(const Proposal& proposal, TargetRows& rows, int sequence, int position, Chance& chance) {
  for (int i = 0;; ++i) {
    const Token own = draw(rows.row(i), {sequence, position + i, Purpose::target}, chance);
    if (i == proposal.size() || own != proposal.tokens[static_cast<std::size_t>(i)]) return {i, own};
  }
}

}  // namespace

const Rule matching = {"matching", "With the same seed the tokens equal those of plain decoding, whatever the draft.",
                       Purpose::target, judge};

}  // namespace draftproof
