// SPDX-License-Identifier: MIT
// A target and its drafts, assembled by name: the only place that may.
#pragma once

#include <atomic>
#include <filesystem>
#include <functional>
#include <map>
#include <memory>
#include <span>
#include <string>

#include "kernels/kernels.h"
#include "ref/acceptance/random_source.h"
#include "ref/decoding/decoder.h"
#include "ref/decoding/gate.h"
#include "ref/drafts/drafts.h"
#include "ref/models/weight_loader.h"
#include "ref/models/memory.h"

namespace draftproof {

/// By name, or the best canonical table for "". Throws Error when there is none of that name, the CPU cannot
/// run it, or it breaks the row law here.
const Kernels& kernels_by_name(const std::string& name);

/// The class of equal bits: "canonical", or "openblas/" and the core type that it chose its kernels for.
std::string numerics_of(const Kernels& kernels);
/// Of a target laid out so. What changes its bits belongs to it: "canonical, quantize q8, kv bf16".
std::string numerics_of(const LoadOptions& load_options);

/// Throws Error, naming what there is.
const Rule& rule_by_name(const std::string& name);

/// What a target and these drafts take; `rows`: of runs whose rows are watched. Reads no weights.
MemoryNeed memory_need(const std::filesystem::path& target, std::span<const std::string> drafts, const LoadOptions& load_options,
                       bool rows = false);

/// Error, with the numbers of docs/memory.md, when a target and these drafts will not fit into memory for the request.
/// Reads no weights either.
void refuse_shortage(const std::filesystem::path& target, std::span<const std::string> drafts, const LoadOptions& load_options,
                     const Request& request, bool rows = false);

class Engine {
 public:
  /// `target`: a Hugging Face style folder, or a .gguf file. Drafts are laid out as the target is. Error when memory
  /// does not suffice for it.
  Engine(const std::filesystem::path& target, LoadOptions load_options);

  Model& target() noexcept { return *target_; }
  const Kernels& kernels() const noexcept { return layout_.kernels; }
  std::string numerics() const { return numerics_of(layout_); }

  /// Loads the draft when first named and the gate is open for it. A checkpoint that is of another kind than its name
  /// says closes the gate; one that does not fit the target is an Error.
  Gate gate(const std::string& draft, bool logprobs = false);

  /// One run from the prompt to the end, speculative when the gate is open. `draft_max` 0 in the request means as many
  /// draft tokens as suits the draft. Throws Error when the request does not fit.
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

  LoadOptions layout_;
  MemoryNeed need_;
  std::unique_ptr<Model> target_;
  std::map<std::string, LoadedDraft> drafts_;
};

}  // namespace draftproof
