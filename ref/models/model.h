// SPDX-License-Identifier: MIT
// The interface of a language model (a target, or a draft model): tokens in, logits and tapped features out.
//
// Causal law: the bits of a row depend on the tokens from the start of the sequence to that row and on nothing else;
// not on how the tokens were divided among calls (chunked prefill), nor on what other texts were in the batch.
//
// A model does not know drafts, sampling or verdicts. One model serves many caches, also in one pass.
#pragma once

#include <memory>
#include <span>
#include <string>
#include <vector>

#include "ref/base/token.h"
#include "ref/caches/cache.h"

namespace draftproof {

/// The tokens by which one forward pass continues the text of one cache: a chain, or rows of a tree in preorder. A tree
/// may come in several segments of one transaction, all of them with depths. A forward pass computes a batch: segments
/// of different caches.
struct Segment {
  Cache* cache = nullptr;            // with an open transaction
  std::span<const Token> tokens;     // at least one, in [0, vocabulary)
  std::span<const int> depths = {};  // of a tree: the number of ancestors of each token in the transaction
  std::span<const int> taps = {};    // layers whose output is wanted, ascending; see Model::layers
  int logits_from = 0;               // logits are wanted for rows [logits_from, tokens.size())

  int rows() const noexcept { return static_cast<int>(tokens.size()); }
  int rows_wanted() const noexcept { return rows() - logits_from; }
};

/// What a forward pass computed for one segment. Valid until the next pass into the same Outputs.
struct SegmentOutput {
  std::span<float> logits;    // [rows_wanted][vocabulary]
  std::span<float> features;  // [rows][taps * hidden]: the residual stream after each tapped layer
  std::string error;          // why the logits cannot be used, a sentence; empty when they can

  std::span<const float> logits_row(int row, int vocabulary) const {
    return logits.subspan(static_cast<std::size_t>(row) * vocabulary, static_cast<std::size_t>(vocabulary));
  }
};

/// Filled by forward, reused from call to call.
struct Outputs {
  std::vector<float> logits;    // of all segments, one after the other
  std::vector<float> features;  // of all segments, one after the other
  std::vector<SegmentOutput> segments;

  /// Makes room for the rows of `batch`, without errors.
  void lay_out(std::span<const Segment> batch, int vocabulary, int hidden);

  /// Of a pass over one segment.
  std::span<const float> logits_row(int row, int vocabulary) const { return segments[0].logits_row(row, vocabulary); }
  static std::size_t bytes_per_row(int vocabulary) noexcept {
    return sizeof(float) * static_cast<std::size_t>(vocabulary);
  }
};

class AttentionScratch;    // kernels/operations.h
class PackedActivations;   // kernels/packed_activations.h
struct AttentionShape;     // kernels/kernels.h
struct TransformerConfig;  // transformer_config.h

/// Rows of a draft that attend to what a target keeps of a text.
struct LentRows {
  const Cache* cache;  // of the target
  int rows;
  const float* queries;  // [rows][stride]
  float* attended;       // [rows][heads * d]
};

/// What a target lends to drafts that have none of their own: its embedding table, final norm and LM head, and the keys
/// and values of its layers.
class Embeddings {
 public:
  virtual ~Embeddings() = default;
  virtual void embed(std::span<const Token> tokens, float* rows) const = 0;  // rows [n][hidden]
  /// normed [count][hidden] = the final norm of rows of the last layer's output; they may be the same.
  virtual void normalize(const float* rows, int count, float* normed) const = 0;
  /// Computes logits [count][vocabulary]. Returns false when one of them is NaN.
  virtual bool unembed(const float* rows, int count, PackedActivations& scratch, float* logits) const = 0;
  /// row [hidden] = what the LM head multiplies with for this token
  virtual void head_row(Token token, float* row) const = 0;
  /// attended = attention of the queries to what layer `layer` keeps of each text, as far as a row behind it sees that;
  /// zeros where it sees nothing. `shape` is that of the draft, whose KV heads and head_dim are the layer's.
  virtual void attend(int layer, const AttentionShape& shape, int stride, std::span<const LentRows> texts,
                      AttentionScratch& scratch) const = 0;
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

  /// What the layers are made of, whose caches are those of new_cache() in the same order; nullptr when it is no
  /// transformer.
  virtual const TransformerConfig* transformer() const { return nullptr; }

  /// Creates the KV cache of one sequence of at most `capacity` positions, with at most `max_pending_rows` rows per
  /// transaction.
  virtual std::unique_ptr<Cache> new_cache(int capacity, int max_pending_rows) const = 0;

  /// Computes every segment at positions [cache.end(), ...) inside the open transaction of its cache and writes its
  /// rows to that cache; all caches of a batch are different. A row of a tree has position cache.length() + depth and
  /// depends on its ancestors only. A segment whose logits are NaN gets an error; the other segments are computed as
  /// without it.
  virtual void forward(std::span<const Segment> batch, Outputs& outputs) = 0;
};

/// Computes one segment. Throws Error when its logits are NaN.
void forward_alone(Model& model, const Segment& segment, Outputs& outputs);

/// A model that computes the segments of a batch one by one: for models that gain nothing from a joint pass.
class OneByOneModel : public Model {
 public:
  void forward(std::span<const Segment> batch, Outputs& outputs) override;

 protected:
  /// Computes one segment: sets outputs.logits and outputs.features. An Error that it throws is that of the segment.
  virtual void forward_one(const Segment& segment, Outputs& outputs) = 0;

 private:
  Outputs one_;
};

}  // namespace draftproof
