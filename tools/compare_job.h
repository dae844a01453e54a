// SPDX-License-Identifier: MIT
// A comparison of two engines, with a target where there is one: `endpoint check` and Python's compare.
#pragma once

#include <memory>
#include <span>
#include <string>
#include <vector>

#include "oracle/compare/compare.h"
#include "tools/opened_model.h"
#include "tools/options.h"

namespace draftproof {

struct CompareJob {
  CompareSetup setup;
  std::string target = {};  // empty: none
  std::string kernels = {};
  int threads = 0;
  std::string traces = {};  // a folder for what both engines have sampled; empty: it is not kept
  bool quiet = true;
};

/// Prompts of several kinds: stories, lists, code, what repeats itself.
std::span<const char* const> built_in_prompts();
/// Those of a file: one in each line, a text or a list of token ids.
std::vector<EnginePrompt> read_prompt_lines(const std::string& file);

/// The model that both engines serve, in float32.
class CompareTarget {
 public:
  explicit CompareTarget(const CompareJob& job);

  const Tokenizer* tokenizer() { return opened_.tokenizer(); }
  int vocabulary() const noexcept { return target_->vocabulary(); }
  int context() const noexcept { return target_->context(); }
  const std::vector<Token>& stops() const noexcept { return stops_; }
  /// How far below the best a token lies, or the end of the text: the best stop token.
  GapReader gap_reader();

 private:
  OpenedModel opened_;
  Model* target_;
  std::vector<Token> stops_;
};

/// Compares, and with a target tests what was sampled against it. `target`: of the job; nullptr: none.
Report compared(AskedEngine& plain, AskedEngine& speculative, CompareJob job, CompareTarget* target);

}  // namespace draftproof
