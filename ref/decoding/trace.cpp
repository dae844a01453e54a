// SPDX-License-Identifier: MIT
#include "ref/decoding/trace.h"

#include <algorithm>

namespace draftproof {

bool Request::stops_at(Token token) const noexcept {
  return std::find(stops.begin(), stops.end(), token) != stops.end();
}

const char* name_of(Verification verification) noexcept {
  return verification == Verification::batched ? "batched" : "serial";
}

const char* name_of(Finish finish) noexcept {
  switch (finish) {
    case Finish::unfinished: return "unfinished";
    case Finish::stop: return "stop";
    case Finish::length: return "length";
    case Finish::cancelled: return "cancelled";
  }
  return "unfinished";
}

Statistics recounted(const Trace& trace) {
  Statistics counts;
  for (const Round& round : trace.rounds) {
    ++counts.rounds;
    const int draft_tokens = round.proposal.size();
    if (draft_tokens == 0) continue;
    ++counts.iterations;
    counts.drafted += draft_tokens;
    counts.accepted += round.accepted;
    (round.all_accepted() ? counts.all_accepted : counts.mismatches) += 1;
    (trace.execution.verification == Verification::batched ? counts.batched : counts.serial) += 1;
  }
  return counts;
}

}  // namespace draftproof
