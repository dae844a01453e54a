// SPDX-License-Identifier: MIT
// The DFlash draft network (Chen, Liang, Liu 2026): a small Qwen3-style decoder, most often without embedding or head
// of its own.
//
// For every committed position the target's residual stream is tapped after some layers; `fc` and `hidden_norm` turn
// the taps into one context row, and every draft layer turns context rows into keys and values. A context row at
// position p depends on the target's features at p and on nothing else, so the context cache only ever grows.
// One forward pass over [anchor, MASK, MASK, ...] drafts a whole block: row i predicts the token at its own position.
//
// Which keys a block row sees, per layer: DFlashSight, see docs/adding.md and the authors' reference code.
//
// DFlash2 adds two things. A convolution (DynamicConvolution) around attention and around the MLP of every layer, over
// the rows of a block; context rows pass through neither. And a candidate selector: of the most probable tokens of each
// position, the score of one that follows a token is
//
//   logit + sum over r < rank of predecessor[previous][r] * h[r] * successor[candidate][r]
//
// h = hidden_projection . (the final-normed row), the sum in double in the order of r, the score rounded once.
//
// DSpark adds two others. A Markov head: draft token i behind the token x is drawn from the logits of its row plus
// W2 . W1[x]. And a confidence head, which estimates how probably the target accepts draft token i:
//
//   sigmoid(bias + weights . [the final-normed row of draft token i; W1[x]])
//
// the sum in double, in this order. It depends on x, the token before, and not on draft token i. And its rows may begin
// at the anchor (sample_from_anchor): row i then predicts the token behind its own position, so that a block of n rows
// gives n draft tokens; else row 0 gives none.
//
// Sources: z-lab/dflash, dflash/model.py; vllm-project/speculators, speculators/models/dflash, whose configs have a
// transformer_layer_config; vllm-project/vllm #52816 for DFlash2; deepseek-ai/DeepSpec, deepspec/modeling/dspark, and
// llama.cpp #25173 for DSpark.
#pragma once

#include <filesystem>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "kernels/kernels.h"
#include "ref/base/token.h"
#include "ref/caches/cache.h"
#include "ref/formats/checkpoint.h"
#include "ref/formats/json.h"
#include "ref/models/draft_tables.h"
#include "ref/models/memory.h"
#include "ref/models/model.h"
#include "ref/models/transformer.h"

namespace draftproof {

/// What a row of a block sees in a layer: its window of the text, which is AttentionLayer::window, and the block.
struct DFlashSight {
  bool causal = false;  // no later rows of the block
  /// The window is that of the anchor: every row sees the last window - 1 committed positions and, as far as it is not
  /// causal, the whole block. Else each row has its own, which ends it in both directions.
  bool from_anchor = false;
};

struct DFlashConfig {
  TransformerConfig transformer;
  std::vector<DFlashSight> sights;  // per draft layer
  int draft_vocabulary = 0;
  int block_size = 0;     // rows of a block, the anchor included
  Token mask = 0;         // its embedding stands for "unknown"
  std::vector<int> taps;  // target layers whose output is tapped, ascending
  float value_scale = 1;  // of all values of attention
  float embedding_scale = 1;
  float logit_multiplier = 1;
  float logit_cap = 0;    // 0: none
  int conv_taps = 0;      // 0: no convolutions
  int conv_group = 0;     // channels that share a part of the kernel
  int selector_rank = 0;  // 0: no candidate selector
  int selector_candidates = 0;
  bool from_anchor = false;            // the row of the anchor gives the first draft token
  int markov_rank = 0;                 // 0: no Markov head
  std::optional<bool> confident = {};  // it has a confidence head; nothing: if the checkpoint has its tensor
  bool confidence_of_token = false;    // the confidence head reads W1 of the token before, too

  /// Returns the rows at the beginning of a block that give no draft token.
  int silent_rows() const noexcept { return from_anchor ? 0 : 1; }
  /// Returns the most draft tokens of a block.
  int longest_chain() const noexcept { return block_size - silent_rows(); }
};

/// `dflash_config.<name>` or else the top-level `<name>`: both spellings are published.
std::optional<Json> find_dflash_field(const Json& config, std::string_view name);

/// Whether the checkpoint has the tensor of a confidence head.
bool has_confidence_head(const Checkpoint& files);

/// Reads what does not depend on the target: layers, block and what stands behind the LM head. A vocabulary that is
/// left to the target is 1; of the taps only the number is read. `context_window`: of layers that see everything, the
/// committed positions that they see instead; 0: all.
DFlashConfig describe_dflash(const Json& config, int context_window = 0);

/// Reads the config of either layout and holds it against the target. Errors name file and field.
DFlashConfig read_dflash_config(const Json& config, const Model& target, int context_window = 0);

/// A depthwise causal convolution over the rows of a block with kernels of each row's own: with x the normed input of a
/// sublayer and y = projection . x seen as [2][taps][groups],
///
///   side 0, before the sublayer:  x'[i][c] = sum over t of (base[0][t][c] + y[i][0][t][c / group]) * x[i - t][c]
///   side 1, behind it:            the same of its output with base[1] and y[i][1]
///
/// y is that of x also behind the sublayer. Rows before the anchor are 0, so their terms are left out. Each sum goes up
/// from t = 0.
struct DynamicConvolution {
  std::vector<float> base;  // [2][taps][hidden]
  PackedMatrix projection;  // [2 * taps * groups][hidden]
};

class DFlashNetwork {
 public:
  /// `target` lends what the files do not have and must outlive the network. `context_window` as in describe_dflash.
  DFlashNetwork(const Checkpoint& files, const Model& target, const LoadOptions& options, int context_window = 0);
  /// `config` fits the target, unless the loader counts.
  DFlashNetwork(const WeightLoader& from, DFlashConfig config, const Model& target);

  /// The memory that a network and the context of a text take. Reads no weights.
  static MemoryNeed need(const Checkpoint& files, const LoadOptions& options, int context_window = 0);

  const DFlashConfig& config() const noexcept { return config_; }
  std::unique_ptr<Cache> new_context(int capacity, int max_pending_rows) const;

  /// Target features of consecutive positions of one text, to become rows of its context.
  struct ContextRows {
    Cache* context;
    std::span<const float> features;  // [rows][taps * hidden]
    int rows;
  };

  /// Computes context rows c = hidden_norm(fc(features)) of several texts and stores their keys and values in every
  /// layer at [context.length(), ...).
  void append(std::span<const ContextRows> batch);

  /// A block [anchor, MASK, ...] at positions context.length(), ..., for so many draft tokens.
  struct Block {
    Cache* context;
    Token anchor;
    int drafts;
    int position = -1;  // result: of the anchor's row
    // Results of the rows that give draft tokens, valid until the next call.
    std::span<const float> logits = {};       // [drafts][vocabulary of the target]; -infinity: never proposed
    std::span<const float> selector = {};     // [drafts][rank]: h of the candidate selector, if there is one
    std::span<const double> confidence = {};  // [drafts]: the row's part of the confidence, if there is such a head
    std::string error = {};                   // why the logits cannot be used; empty when they can
  };

  /// Computes the logits of several blocks in one pass. The contexts are as before afterwards.
  void compute(std::span<Block> batch);

  /// scores[i] = that of candidates[i] at draft token `draft` of a computed block, after the token `previous`. Only of
  /// a network with a candidate selector.
  void score(const Block& block, int draft, Token previous, std::span<const Token> candidates,
             std::span<float> scores) const;

  /// Draft token `draft` of a computed block, behind the token `previous`.
  struct Step {
    const Block* block;
    int draft;
    Token previous;
    // Results, valid until the next call.
    std::span<const float> logits = {};  // [vocabulary], with what the Markov head adds
    double confidence = 1;               // that the target accepts what is drawn; 1 without a confidence head
  };

  /// Computes what draft tokens of several blocks are drawn from, by one product of the Markov head.
  void step(std::span<Step> batch);

  bool confident() const noexcept { return !confidence_weights_.empty(); }

  /// The context rows of the last append, [rows][hidden], and the final-normed rows of the last pass over blocks, for
  /// comparison with other programs.
  std::span<const float> context_rows() const noexcept { return context_rows_; }
  std::span<const float> block_rows() const noexcept { return block_rows_; }

 private:
  struct Layer {
    PreNormLayer weights;
    DynamicConvolution around_attention;
    DynamicConvolution around_mlp;
  };
  DynamicConvolution load_convolution(const WeightLoader& from, const std::string& prefix) const;
  void see(std::span<const Block> batch, int layer);
  void compute_layer(const TransformerPass& pass, int layer);
  void before(const DynamicConvolution& convolution);
  void behind(const DynamicConvolution& convolution);
  void convolve(const DynamicConvolution& convolution, int side, std::vector<float>& rows);
  void head(std::span<Block> batch);
  void load_heads_of_dspark(const WeightLoader& from, const std::string& prefix);
  void add_markov_bias(std::span<Step> batch);

  const Kernels& kernels_;
  KvFormat kv_;
  std::string origin_;  // for errors
  DFlashConfig config_;
  DraftTables tables_;
  PackedMatrix fc_;
  std::vector<float> hidden_norm_;
  std::vector<float> norm_;
  std::vector<Layer> layers_;
  PackedMatrix selector_projection_;
  PackedMatrix predecessors_;  // [vocabulary][rank], as are the successors
  PackedMatrix successors_;
  PackedMatrix markov_tokens_;             // W1 [vocabulary][rank]
  PackedMatrix markov_biases_;             // W2 [tokens of the LM head][rank]
  std::vector<float> confidence_weights_;  // [hidden], and [rank] behind them
  float confidence_bias_ = 0;
  TransformerScratch scratch_;
  std::vector<Placement> placements_;
  std::vector<float> features_;  // of all texts of the pass
  std::vector<Token> tokens_;    // of all blocks of the pass
  std::vector<float> context_rows_;
  std::vector<float> block_rows_;
  std::vector<float> logits_;
  std::vector<int> row_of_block_;       // of each row of the pass
  std::vector<float> dynamic_kernels_;  // y of the sublayer that is computed
  std::vector<float> convolved_;
  std::vector<float> selector_rows_;
  std::vector<double> confidence_;
  std::vector<float> markov_rows_;  // W1 of the tokens before, of a step
  std::vector<float> biases_;       // over the draft's vocabulary
  std::vector<float> biased_;       // logits
};

}  // namespace draftproof
