// SPDX-License-Identifier: MIT
// The embedding and the LM heads of a draft that reads the target's features: its own where the checkpoint has them,
// else the target's. A draft that is loaded in 4 bits has a copy of the target's head in 4 bits; one that is loaded
// with a head of some tokens only has a copy of these rows, in 8 bits or in 4. A draft may know only a part of the
// target's vocabulary; it never proposes the others.
#pragma once

#include <span>
#include <string>
#include <vector>

#include "kernels/packed_matrix.h"
#include "ref/base/token.h"
#include "ref/formats/checkpoint.h"
#include "ref/formats/json.h"
#include "ref/models/model.h"
#include "ref/models/weight_loader.h"

namespace draftproof {

/// Returns the fields of a draft's layers, of which speculators' configs make a block; of other configs all.
Json layer_config(const Json& config);

/// Reads the target's token for each of so many tokens of a draft from a tensor of integers, which holds them as they
/// are, or as offsets (token - place). Throws Error when the tensor is missing or has another shape or type, or when a
/// token lies outside the target's vocabulary or occurs twice.
std::vector<Token> read_token_map(const Checkpoint& files, const std::string& name, bool offsets, int tokens,
                                  int vocabulary);

/// Reads the draft's part of the target's vocabulary from the tensor `d2t`, in a folder as offsets, in a GGUF as
/// tokens. Throws Error when it is missing and the sizes differ, as read_token_map does, or when `t2d`, if it is there,
/// says otherwise.
std::vector<Token> read_draft_vocabulary(const Checkpoint& files, int draft_vocabulary, int vocabulary);

/// What these tables are for.
struct DraftTablesShape {
  int hidden;
  int vocabulary;        // of the target
  int draft_vocabulary;  // as the draft's config says it
};

/// The LM head of a draft.
class DraftLmHead {
 public:
  /// Loads `name` [draft_vocabulary][hidden]. `tokens`: the target's token for each of the draft's. `target` lends the
  /// head when the checkpoint has none, and must outlive this one. Throws Error when what it lends has another width.
  DraftLmHead(const WeightLoader& from, const std::string& name, const DraftTablesShape& shape,
              std::vector<Token> tokens, const Model& target);

  /// Computes logits [count][vocabulary of the target] of rows [count][hidden]; -infinity for tokens that the draft
  /// does not know. Returns false when one is NaN.
  bool unembed(const float* rows, int count, PackedActivations& scratch, std::vector<float>& logits);

  /// Returns the target's token for each row of the head.
  std::span<const Token> tokens() const noexcept { return tokens_; }

 private:
  void copy_head(const WeightLoader& to, Format format);

  const Kernels& kernels_;
  const Model& target_;
  DraftTablesShape shape_;
  bool own_;  // or a copy
  PackedMatrix head_;
  std::vector<Token> tokens_;        // the target's token for each of the draft's
  std::vector<Token> unknown_;       // the target's other tokens
  bool first_tokens_ = false;        // the draft's tokens are the first ones of the target, with the same numbers
  std::vector<float> draft_logits_;  // over the draft's vocabulary
};

class DraftTables {
 public:
  /// Loads <prefix>embed_tokens.weight [vocabulary][hidden], lm_head.weight [draft_vocabulary][hidden] and the draft's
  /// vocabulary. `target` lends what is not there and must outlive the tables. Throws Error when what it lends has
  /// another width, or as read_draft_vocabulary does.
  DraftTables(const WeightLoader& from, const std::string& prefix, const DraftTablesShape& shape, const Model& target);

  bool own_embedding() const noexcept { return own_embedding_; }

  /// rows [tokens][hidden] = the embeddings of the target's tokens
  void embed(std::span<const Token> tokens, float* rows) const;

  /// As DraftLmHead::unembed.
  bool unembed(const float* rows, int count, PackedActivations& scratch, std::vector<float>& logits) {
    return head_.unembed(rows, count, scratch, logits);
  }

  /// As DraftLmHead::tokens.
  std::span<const Token> tokens() const noexcept { return head_.tokens(); }

 private:
  const Kernels& kernels_;
  const Model& target_;
  int vocabulary_;
  bool own_embedding_;
  PackedMatrix embedding_;
  DraftLmHead head_;
};

}  // namespace draftproof
