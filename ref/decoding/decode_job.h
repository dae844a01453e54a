// SPDX-License-Identifier: MIT
// One text to decode: what is asked, how it is carried out, and who takes part.
#pragma once

#include <atomic>
#include <memory>
#include <string>
#include <vector>

#include "ref/acceptance/random_source.h"
#include "ref/acceptance/rule.h"
#include "ref/decoding/request.h"
#include "ref/decoding/sequence.h"
#include "ref/drafts/suffix_pool.h"

namespace draftproof {

/// What it refers to outlives the decoding.
struct DecodeJob {
  Request request;
  Execution execution = {};
  std::string draft = "none";
  std::vector<Token> prediction = {};  // a text that the output is expected to be like; drafted before `draft` is asked
  std::shared_ptr<const SuffixPool> pool = nullptr;  // earlier outputs, drafted then; only by `matching`
  const Rule& rule = matching;
  RandomSource& random;
  Recording recording = Recording::counts;
  std::string prefix_owner = {};  // of its text in a prefix cache
  RoundCallback watch = {};
  const std::atomic<bool>* cancelled = nullptr;  // ends the text once it is set; looked at between passes
  /// DraftLengths limit its draft tokens, so there may be none for long: its draft observes late (chain.h).
  bool limited_by_load = false;
  StopCondition* stop = nullptr;  // ends the text beside the stop tokens
};

}  // namespace draftproof
