// SPDX-License-Identifier: MIT
// The walk of docs/adding.md: an acceptance rule. It accepts nothing, which loses nothing.
#include "ref/acceptance/rule.h"
#include "ref/acceptance/draw.h"

namespace draftproof {
namespace {

Verdict judge(const Proposal&, TargetRows& rows, int sequence, int position, RandomSource& random) {
  return {0, draw(rows.row(0), {sequence, position, Purpose::target}, random)};
}

}  // namespace

const Rule accept_nothing = {"accept-nothing", "With the same seed the tokens equal those of plain decoding.",
                             Purpose::target, judge};

}  // namespace draftproof
