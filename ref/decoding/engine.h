// SPDX-License-Identifier: MIT
// A target and a draft, assembled by name: the only place that may.
#pragma once

#include <atomic>
#include <filesystem>
#include <functional>
#include <memory>
#include <span>
#include <string>

#include "kernels/kernels.h"
#include "ref/decoding/decoder.h"
#include "ref/decoding/gate.h"
#include "ref/drafts/drafts.h"

namespace draftproof {

/// By name, or the best canonical table for "" and "auto". Throws Error when there is none of that name, the CPU cannot
/// run it, or it breaks the row law here.
const Kernels& kernels_by_name(const std::string& name);

/// Throws Error, naming what there is.
const Rule& rule_by_name(const std::string& name);

class Engine {
 public:
  /// Loads the weights of both. A draft that is not what its kind needs closes the gate; see gate().
  Engine(const std::filesystem::path& target, const std::string& draft, const Kernels& kernels);

  Model& target() noexcept { return *target_; }
  const Kernels& kernels() const noexcept { return kernels_; }

  Gate gate(bool logprobs = false) const noexcept;

  /// One run from the prompt to the end, speculative when the gate is open. `draft_max` 0 in the request means as many
  /// guesses as suits the draft. Throws Error when the request does not fit.
  Trace decode(Request request, const Rule& rule, std::uint64_t seed, Recording recording = Recording::counts,
               const std::function<void(std::span<const Token>)>& emit = {},
               const std::atomic<bool>* cancelled = nullptr);

 private:
  const Kernels& kernels_;
  std::unique_ptr<Model> target_;
  DraftSource new_draft_;
  GateQuestion question_;
};

}  // namespace draftproof
