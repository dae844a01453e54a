// SPDX-License-Identifier: MIT
// A target and its drafts, opened as every command opens them that decodes: first the files alone, so that all that is
// asked can be checked at once, then, with load(), the weights.
#pragma once

#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "ref/decoding/engine.h"
#include "tools/options.h"
#include "tools/progress.h"

namespace draftproof {

struct ModelToOpen {
  std::string target;
  LayoutOptions layout;
  NumberOrAuto threads = {};
  bool quiet = false;  // no progress, and no remark on a draft that is used
};

class OpenedModel {
 public:
  /// Opens the files of the target, and sets the number of threads: --threads, or all of the machine's. Reads no
  /// weights.
  explicit OpenedModel(const ModelToOpen& what);

  ModelFiles& files() noexcept { return files_; }
  /// Of the target and its drafts. What is loaded with them is shown as progress.
  const LoadOptions& load_options() const noexcept { return load_options_; }
  Progress& progress() noexcept { return progress_; }

  /// Returns the target's tokenizer; nullptr when it has none. Throws Error when it cannot be built.
  const Tokenizer* tokenizer();
  /// Returns the tokenizer that encodes the prompt; nullptr when the prompt is given as tokens or the target has none.
  /// Throws Error when it cannot be built.
  const Tokenizer* tokenizer_to_read(const CommonOptions& options);
  /// Returns the tokenizer that decodes output for display. When it cannot be built the result is nullptr, as for a
  /// target without one, and standard error states the reason unless --quiet is given.
  const Tokenizer* tokenizer_to_write();

  /// refuse_shortage of ref/decoding/engine.h, of these files.
  void refuse_shortage(const std::vector<std::string>& drafts, const Request& request, int draft_max = 0,
                       bool rows = false);
  /// The same, and loads the target when they fit. With --threads auto, sets the number that it is fastest with.
  Engine& load(const std::vector<std::string>& drafts, const Request& request, int draft_max = 0, bool rows = false);
  /// Frees what load() has loaded.
  void unload() noexcept { engine_.reset(); }

  /// What a text is written with.
  struct UsedDraft {
    Gate gate;
    std::string name;       // "none" unless the gate is open
    std::string off;        // why it cannot be used; empty when it can
    std::string too_short;  // from where on it cannot; empty when it reaches to the end
    std::string remark;     // Engine::draft_remark
  };
  /// Loads the draft, after load(), to write this text. `logprobs`: as in Engine::gate.
  UsedDraft used_draft(const std::string& draft, const Request& request, bool logprobs = false);
  /// The same. Standard error states why it cannot be used, or from where on it cannot.
  UsedDraft draft_to_write(const std::string& draft, const Request& request, bool logprobs = false);
  /// Loads the draft, after load(), to be compared or measured. Throws Error unless the gate is open.
  void require_draft(const std::string& draft);

 private:
  NumberOrAuto threads_;
  bool quiet_;
  Progress progress_;
  ModelFiles files_;
  LoadOptions load_options_;
  std::optional<Tokenizer> tokenizer_;
  std::unique_ptr<Engine> engine_;
};

/// A request of these sizes, where memory is counted before there is a real one.
Request request_of_size(int prompt, int max_new_tokens);

}  // namespace draftproof
