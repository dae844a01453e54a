// SPDX-License-Identifier: MIT
// A target and its drafts, assembled by name: the only place that may.
#pragma once

#include <cstdint>
#include <filesystem>
#include <limits>
#include <map>
#include <memory>
#include <span>
#include <string>

#include "kernels/kernels.h"
#include "ref/decoding/decode_job.h"
#include "ref/decoding/gate.h"
#include "ref/decoding/model_files.h"
#include "ref/decoding/prefix_file.h"
#include "ref/decoding/scheduler.h"
#include "ref/drafts/chain.h"
#include "ref/drafts/drafts.h"
#include "ref/models/memory.h"
#include "ref/models/serial.h"
#include "ref/models/weight_loader.h"

namespace draftproof {

/// By name, or the best canonical table for "". Throws Error when there is none of that name, the CPU cannot
/// run it, or it breaks the row law here.
const Kernels& kernels_by_name(const std::string& name);

/// The class of equal bits: "canonical", or "openblas/" and the core type that it chose its kernels for.
std::string numerics_of(const Kernels& kernels);
/// The numerics class of a target loaded with these options; names every option that can change a bit:
/// "canonical, quantize q8, kv bf16", with "long context" where a model has the long factors of longrope.
std::string numerics_of(const LoadOptions& load_options);

/// Throws Error, naming what there is.
const Rule& rule_by_name(const std::string& name);

/// The draft tokens of a round that memory is counted for where no number is given.
inline constexpr int counted_draft_tokens = 16;

/// The memory that a target and these drafts need. `rows`: distributions of every round are kept for a callback. Reads
/// no weights.
MemoryNeed memory_need(ModelFiles& files, std::span<const std::string> drafts, const LoadOptions& load_options,
                       bool rows = false);

/// Throws Error, with the numbers of docs/memory.md, when a target and these drafts do not fit into memory for the
/// request. `draft_max`: draft tokens per round; 0: a common number. Reads no weights.
void refuse_shortage(ModelFiles& files, std::span<const std::string> drafts, const LoadOptions& load_options,
                     const Request& request, int draft_max, bool rows = false);

class Engine {
 public:
  /// Loads the target. Drafts are loaded with the same options, unless their names give others. `files` outlive the
  /// engine. Throws Error when memory does not suffice.
  Engine(ModelFiles& files, LoadOptions load_options);

  Model& target() noexcept { return *target_; }
  const Checkpoint& checkpoint() const noexcept { return files_.target(); }  // of the target
  const Kernels& kernels() const noexcept { return load_options_.kernels; }
  std::string numerics() const { return numerics_of(load_options_); }

  /// Loads the draft when it is first named and the gate is open for it. Throws Error for a checkpoint of another kind
  /// than its name states, and for one that does not fit the target.
  /// `logprobs`: they are requested, and that closes the gate, as in the seed.
  Gate gate(const std::string& draft, bool logprobs = false);

  /// Returns the most positions of this text that the draft serves (draft_reach of sequence.h).
  int draft_reach(const std::string& draft, const Request& request);

  /// Returns what makes a loaded draft worse than it could be: a tokenizer of its own that differs from the target's.
  /// Empty where nothing is known to.
  const std::string& draft_remark(const std::string& draft) { return load(draft).remark; }

  /// Returns why a tuner cannot choose the lengths of this draft's proposals; empty when it can.
  static std::string tuning_error(const std::string& draft);

  /// Decodes a text to its end, speculatively when the gate is open. With `draft_max` 0 the draft chooses how many
  /// tokens it proposes; with draft_max_auto a tuner does, by costs that the rounds of the text show.
  /// `prefixes`: what was read before, and receives what is read now. Throws Error when the request does not fit.
  Trace decode(DecodeJob job, PrefixCache* prefixes = nullptr);

  /// Fills an empty prefix cache with what a saved one has for this target and this draft: load_prefix_cache with the
  /// parts of this engine. Throws Error also when memory does not suffice.
  void load_prefixes(PrefixCache& prefixes, const PrefixOrigin& origin, const std::string& draft,
                     const std::filesystem::path& file);

  /// A sequence to be added to a scheduler over target(execution), with what it owns. In a prefix cache its draft has
  /// the name `draft`.
  struct Opened {
    std::unique_ptr<Draft> draft;
    std::unique_ptr<Sequence> sequence;
    CacheCost cost;
  };
  /// Prepares a text as decode does, to be decoded together with others. Throws Error when the request can never fit.
  Opened open(DecodeJob job);

  /// Measures what passes of up to `rows` rows and proposals of this draft take, for DraftLengths. Takes a second or
  /// more. nullopt for a draft whose lengths cannot be chosen, and without a draft.
  std::optional<DraftCosts> shared_pass_costs(const std::string& draft, const Execution& execution, int rows);

  /// The target, as verification wants it: as it is, or row by row.
  Model& target(const Execution& execution) noexcept;
  /// What traces record of this engine.
  void sign(Trace& trace) const;
  /// The memory that caches may have together: what is available now, without what passes of at most this many rows
  /// over texts of at most this many positions need besides. Throws Error when that does not fit.
  std::uint64_t cache_budget(std::span<const std::string> drafts, int rows_per_pass, int positions);

 private:
  struct LoadedDraft {
    GateInputs inputs;
    std::shared_ptr<Drafter> drafter;
    std::unique_ptr<ChainDrafter> tuned;  // the same stages, for drafts with a tuner or limited by load
    MemoryNeed need;
    int reach = std::numeric_limits<int>::max();
    std::string remark;
  };
  LoadedDraft& load(const std::string& draft);
  /// The draft's weights; nullptr when the gate is closed.
  Drafter* drafter(const std::string& draft);

  ModelFiles& files_;
  LoadOptions load_options_;
  MemoryNeed need_;
  std::unique_ptr<Model> target_;
  std::unique_ptr<SerialModel> serial_;
  std::map<std::string, LoadedDraft> drafts_;
  ChainDrafter alone_{{}};  // of texts with stages of their own and no other draft
};

}  // namespace draftproof
