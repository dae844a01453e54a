// SPDX-License-Identifier: MIT
// The interface of a language model (a target, or a draft model): tokens in, logits and tapped features out.
//
// Causal law: the bits of a row depend on the tokens from the start of the sequence to that row and on nothing else;
// not on how the tokens were divided among calls (chunked prefill), nor on what else was in the batch.
//
// A model does not know drafts, sampling or verdicts. One model may serve many caches, one call at a time.
#pragma once

#include <memory>
#include <span>
#include <string>
#include <vector>

#include "ref/base/token.h"
#include "ref/caches/cache.h"

namespace draftproof {

/// Tokens that continue the text of the cache: a chain, or a tree in preorder. A tree may come in several batches of
/// one transaction, all of them with depths.
struct Batch {
  std::span<const Token> tokens;
  std::span<const int> depths = {};  // of a tree: the number of ancestors of each token in the transaction
  std::span<const int> taps = {};  // layers whose output is wanted, ascending; see Model::layers
  int logits_from = 0;             // logits are wanted for rows [logits_from, tokens.size())
};

/// Filled by forward, reused from call to call.
struct Outputs {
  std::vector<float> logits;    // [tokens.size() - logits_from][vocabulary]
  std::vector<float> features;  // [tokens.size()][taps.size() * hidden]: the residual stream after each tapped layer

  std::span<const float> logits_row(int row, int vocabulary) const {
    return std::span(logits).subspan(static_cast<std::size_t>(row) * vocabulary,
                                     static_cast<std::size_t>(vocabulary));
  }
  static std::size_t bytes_per_row(int vocabulary) noexcept {
    return sizeof(float) * static_cast<std::size_t>(vocabulary);
  }
};

class PackedActivations;  // kernels/packed_activations.h

/// The embedding table and LM head of a target, for drafts that have none of their own.
class Embeddings {
 public:
  virtual ~Embeddings() = default;
  virtual void embed(std::span<const Token> tokens, float* rows) const = 0;  // rows [n][hidden]
  /// Computes logits [count][vocabulary]. Returns false when one of them is NaN.
  virtual bool unembed(const float* rows, int count, PackedActivations& scratch, float* logits) const = 0;
};

/// The most tokens of a prompt in one forward pass.
inline constexpr int prefill_chunk = 128;

class Model {
 public:
  virtual ~Model() = default;

  virtual int vocabulary() const = 0;
  virtual int context() const = 0;  // most positions the model is made for

  /// The number of layers whose output can be tapped (0: none), and the width of one tap.
  virtual int layers() const { return 0; }
  virtual int hidden() const { return 0; }
  virtual const Embeddings* embeddings() const { return nullptr; }

  /// Creates the KV cache of one sequence of at most `capacity` positions, with at most `max_pending_rows` rows per
  /// transaction.
  virtual std::unique_ptr<Cache> new_cache(int capacity, int max_pending_rows) const = 0;

  /// Computes the batch at positions [cache.end(), ...) inside the open transaction and writes its rows to the cache. A
  /// row of a tree has position cache.length() + depth and depends on its ancestors only. Tokens lie in [0,
  /// vocabulary). Throws Error when a logit is NaN.
  virtual void forward(const Batch& batch, Cache& cache, Outputs& outputs) = 0;
};

}  // namespace draftproof
