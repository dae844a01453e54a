// SPDX-License-Identifier: MIT
// Replays every decision of a trace. It checks that positions and tokens fit together, that each draft token was drawn
// from its q and accepted or rejected as the rule requires, that the next token was drawn from the right distribution,
// that the text ended where it had to, and that counts reconcile. With the target at hand it also checks every p. It
// shares no code with the rules and the decoding loop. It holds one line, the text of every open sequence, and KV
// caches of the target that together are no larger than that of the longest text. replayer.h shows its parts.
//
//     const TraceReport report = replay("run.jsonl", target);
//     if (report.verdict() == ReportVerdict::bug_proven) std::cout << report.findings.front().expected;
#pragma once

#include <string>

#include "oracle/spectrace/trace_report.h"
#include "oracle/spectrace/trace_target.h"

namespace draftproof::spectrace {

/// Replays a trace file. A file that is no trace gives a report with `invalid` set. Where it states no order of
/// samplers and its tokens do not fit ours, it is replayed in other known orders; a pipe is not.
TraceReport replay(const std::string& file, const TraceTarget& target = {});

}  // namespace draftproof::spectrace
