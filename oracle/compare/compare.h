// SPDX-License-Identifier: MIT
// Plain against speculative decoding of one engine, from outside: the same requests are asked of two configurations of
// it, and what they answer is compared. docs/compare.md says what is asked and what a verdict rests on.
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "oracle/compare/asked_engine.h"
#include "oracle/compare/first_difference.h"
#include "oracle/report/report.h"

namespace draftproof {

struct EnginePrompt {
  std::vector<Token> tokens;  // empty: `text`
  std::string text;
};

struct CompareSetup {
  std::vector<EnginePrompt> prompts;
  std::vector<std::string> cases = {};  // names of request_matrix.h that are asked; empty: all
  int max_new_tokens = 48;
  int matrix_prompts = 3;   // of the prompts, that every case of the matrix is asked with
  int pairs = 200;          // of sampled texts, for every sampled case
  int sampled_tokens = 16;  // of a sampled text
  int together = 8;         // requests at once; twice as many for the greedy texts
  int context = 0;          // of the model, in tokens; 0: not known
  std::uint64_t seed = 0;
  double alpha = 1e-9;  // of a false alarm, for every sampled case
  GapReader gap = {};   // of a target; empty: the plain engine's logprobs are used
  std::function<void(const std::string&)> progress = {};
  std::function<bool()> interrupted = {};
};

/// A sampled text, for whoever knows what its distribution has to be.
struct WrittenText {
  EngineRequest request;
  EngineText text;
};

struct CompareResult {
  Report report;  // without version and command
  std::vector<WrittenText> plain;
  std::vector<WrittenText> speculative;
};

/// Throws Error when the plain engine does not answer the first, greedy, requests: then nothing can be compared. And
/// for a case that does not exist.
CompareResult compare_engines(AskedEngine& plain, AskedEngine& speculative, const CompareSetup& setup);

}  // namespace draftproof
