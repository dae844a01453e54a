// SPDX-License-Identifier: MIT
// The memory that a model will need, before any weight is read: what its constructor asks of a loader that only counts,
// and what its caches and activations report of themselves. docs/memory.md explains the numbers.
#pragma once

#include <cstdint>
#include <filesystem>
#include <map>
#include <string>

#include "ref/models/transformer_config.h"
#include "ref/models/weight_loader.h"

namespace draftproof {

struct MemoryNeed {
  std::map<std::string, std::uint64_t> weights;           // packed, by format
  std::uint64_t cache_fixed = 0;                          // keys and values of sliding layers: their windows
  std::uint64_t cache_per_position = 0;                   // keys and values of full layers, one position
  std::map<int, std::uint64_t> cache_per_position_up_to;  // the same of those that end at a position, by it
  std::uint64_t scratch = 0;                  // activations of a pass, a row of logits and what it is read as
  std::uint64_t scratch_per_position = 0;     // attention's, on all threads
  std::uint64_t scratch_per_draft_token = 0;  // of a round: rows of logits, and the distribution it was drawn from

  MemoryNeed& operator+=(const MemoryNeed& other);
  /// Of a draft: what it keeps of a text ends at this position.
  void end_at(int position);
  /// Adds so many floats for each row of the largest pass, a prefill chunk, to scratch.
  void add_row_floats(std::uint64_t floats) noexcept;
  std::uint64_t beside_weights(int positions, int draft_tokens) const noexcept;
  std::uint64_t total(int positions, int draft_tokens = 0) const noexcept;
};

/// The need of a model (a target, or a draft as if it were one) in a sequence. Reads no weights.
MemoryNeed model_need(const Checkpoint& files, const LoadOptions& options);

/// How many weights the config of a target means, without those that only some checkpoints of its family have, as
/// biases of norms.
std::uint64_t parameters_by_config(const Checkpoint& without_weights);

/// The need of these layers, whose weights `from` has returned, and of a row of logits.
MemoryNeed need_of_layers(const TransformerConfig& config, const WeightLoader& from);

/// What a tree of draft tokens takes beside the caches of these layers until it is judged: its rows once more.
MemoryNeed need_of_tree(const TransformerConfig& config, KvFormat kv);

/// What this process may still take: what the system says is available, or less where a limit on the address space or a
/// control group says so. The largest number where nothing is known.
std::uint64_t memory_available();

/// Empty when `need` bytes fit into `available`; else a sentence with both numbers and what to do.
std::string shortage(const std::string& what, std::uint64_t need, std::uint64_t available);

/// "1.5 GiB"
std::string shown_bytes(std::uint64_t bytes);

}  // namespace draftproof
