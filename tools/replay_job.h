// SPDX-License-Identifier: MIT
// What to replay: one trace, with or without its target.
#pragma once

#include <functional>
#include <string>
#include <vector>

#include "oracle/spectrace/replay.h"
#include "tools/options.h"

namespace draftproof {

struct ReplayJob {
  std::string file = {};
  std::string target = {};  // empty: p is taken as the trace states it
  LayoutOptions load_options = {};
  /// What sequences of other numerics are compared with: floats ("f32"), the float64 twin ("f64"), or what load_options
  /// say ("own").
  std::string reference = "f32";
  int threads = 0;
  double slack = 0;          // of p that was computed in other numerics
  double tie = 0;            // how far, in logits, a greedy token of other numerics may lie below the best one
  bool slack_auto = false;   // what a control or the trace itself shows, in place of slack
  bool tie_auto = false;     // what a control shows, in place of tie
  std::string control = {};  // a trace of the same engine without speculation (oracle/spectrace/control.h)
  /// Models that the engine may run in place of the target: q8 or q4, its own weights in that type, or other files.
  std::vector<std::string> suspects = {};
  bool quiet = false;
  std::function<void(long line)> progress = {};  // TraceTarget::progress
};

/// Throws Error where what is measured shows too little.
spectrace::TraceReport replayed(const ReplayJob& job);

}  // namespace draftproof
