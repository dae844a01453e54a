// SPDX-License-Identifier: MIT
// One trace put to the replay, with or without its target.
#pragma once

#include <string>

#include "oracle/spectrace/replay.h"
#include "tools/options.h"

namespace draftproof {

struct TraceQuestion {
  std::string file = {};
  std::string target = {};  // empty: p is as the trace states it
  LayoutOptions load_options = {};
  int threads = 0;
  double slack = 0;    // of p that is of other numerics
  double tie = 0;      // of logits: how far below the best one the token of a greedy engine of such may lie
  bool quiet = false;
};

spectrace::Report replayed(const TraceQuestion& question);

}  // namespace draftproof
