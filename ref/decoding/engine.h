// SPDX-License-Identifier: MIT
// A target and its drafts, assembled by name: the only place that may.
#pragma once

#include <atomic>
#include <functional>
#include <map>
#include <memory>
#include <span>
#include <string>

#include "kernels/kernels.h"
#include "ref/acceptance/random_source.h"
#include "ref/decoding/decoder.h"
#include "ref/decoding/gate.h"
#include "ref/decoding/model_files.h"
#include "ref/drafts/drafts.h"
#include "ref/models/weight_loader.h"
#include "ref/models/memory.h"

namespace draftproof {

/// By name, or the best canonical table for "". Throws Error when there is none of that name, the CPU cannot
/// run it, or it breaks the row law here.
const Kernels& kernels_by_name(const std::string& name);

/// The class of equal bits: "canonical", or "openblas/" and the core type that it chose its kernels for.
std::string numerics_of(const Kernels& kernels);
/// The numerics class of a target loaded with these options; names every option that can change a bit:
/// "canonical, quantize q8, kv bf16".
std::string numerics_of(const LoadOptions& load_options);

/// Throws Error, naming what there is.
const Rule& rule_by_name(const std::string& name);

/// The memory that a target and these drafts need. `rows`: distributions of every round are kept for a callback. Reads
/// no weights.
MemoryNeed memory_need(ModelFiles& files, std::span<const std::string> drafts, const LoadOptions& load_options,
                       bool rows = false);

/// Throws Error, with the numbers of docs/memory.md, when a target and these drafts do not fit into memory for the
/// request. Reads no weights.
void refuse_shortage(ModelFiles& files, std::span<const std::string> drafts, const LoadOptions& load_options,
                     const Request& request, bool rows = false);

class Engine {
 public:
  /// Loads the target. Drafts are loaded with the same options. `files` outlive the engine. Throws Error when memory
  /// does not suffice.
  Engine(ModelFiles& files, LoadOptions load_options);

  Model& target() noexcept { return *target_; }
  const Kernels& kernels() const noexcept { return load_options_.kernels; }
  std::string numerics() const { return numerics_of(load_options_); }

  /// Loads the draft when it is first named and the gate is open for it. The gate is closed for a checkpoint of another
  /// kind than its name states. Throws Error for one that does not fit the target.
  Gate gate(const std::string& draft, bool logprobs = false);

  /// Decodes a request to its end, speculatively when the gate is open. With `draft_max` 0 in the request the draft
  /// chooses how many tokens it proposes. Throws Error when the request does not fit.
  Trace decode(Request request, const std::string& draft, const Rule& rule, RandomSource& random,
               Recording recording = Recording::counts, const RoundCallback& watch = {},
               const std::atomic<bool>* cancelled = nullptr);

 private:
  struct LoadedDraft {
    GateQuestion question;
    DraftSource new_draft;
    MemoryNeed need;
  };
  const LoadedDraft& load(const std::string& draft);

  ModelFiles& files_;
  LoadOptions load_options_;
  MemoryNeed need_;
  std::unique_ptr<Model> target_;
  std::map<std::string, LoadedDraft> drafts_;
};

}  // namespace draftproof
