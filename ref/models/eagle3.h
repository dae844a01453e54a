// SPDX-License-Identifier: MIT
// The EAGLE-3 draft network (Li, Wei, Zhang, Zhang 2025): a decoder layer over pairs of a token and a feature, in some
// checkpoints with more layers behind it.
//
//   feature:  g = fc [a; b; c]           of the target's hidden states that enter some layers, or leave the last one
//   row:      e = norm(embedding of the token), n = norm(g of the position before)
//   layer 0:  q, k, v of [e; n], RoPE, attention, o_proj
//             s = g + attention          (norm_before_residual: n + attention)
//             x = s + SwiGLU(norm(s))
//   others:   s = x + attention(norm(x)), x = s + SwiGLU(norm(s)), as in Llama; they read no token
//   logits:   lm_head norm(x), over the draft's own part of the target's vocabulary; -infinity for the others
//   feature of a draft token: x          (norm_output: norm(x))
//
// P-EAGLE (Hui et al. 2026) drafts in parallel: behind the anchor's row, which reads the anchor and its feature, are
// rows that read a mask token and fc mask_hidden (behind the norms, where [a; b; c] is). All are causal rows of one
// pass, at the positions of the draft tokens; the anchor's says the first draft token, the first mask's the second one,
// and so on. None is kept: the text's own rows take their places.
//
// norm_before_fc normalizes [a; b; c] as one vector, fc_norm each of them. Without tensors of its own for them the
// network borrows the target's embedding and LM head. Sources: SafeAILab/EAGLE, eagle/model/cnets.py, whose checkpoints
// call the one layer "midlayer"; vllm-project/speculators, speculators/models/eagle3, and vLLM, models/llama_eagle3.py,
// who call it "layers.0", and others "layers.1" and so on; TensorRT-LLM, models/modeling_speculative.py, which reads
// "midlayer.0" of several, too, and calls the norm before the attention of later layers "hidden_norm"; of P-EAGLE
// speculators, speculators/models/peagle, and vLLM, v1/spec_decode/llm_base_proposer.py.
#pragma once

#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "kernels/kernels.h"
#include "ref/base/token.h"
#include "ref/formats/checkpoint.h"
#include "ref/formats/json.h"
#include "ref/models/draft_tables.h"
#include "ref/models/head.h"
#include "ref/models/memory.h"
#include "ref/models/model.h"
#include "ref/models/transformer.h"

namespace draftproof {

struct Eagle3Config {
  TransformerConfig transformer;  // the vocabulary is the target's
  int draft_vocabulary = 0;
  std::vector<int> taps;  // target layers whose output is tapped, ascending
  bool norm_before_residual = false;
  bool norm_before_fc = false;
  bool fc_norm = false;
  bool norm_output = false;
  std::optional<Token> mask_token = {};  // of P-EAGLE
  int speculative_tokens = 0;            // of P-EAGLE: draft tokens of a round, where the config says so
};

/// Reads what does not depend on the target. A vocabulary that is left to the target is 1; of the taps only the
/// number is read.
Eagle3Config describe_eagle3(const Json& config);

/// Returns the target layers whose output the draft reads, of a target of so many layers. Throws Error, naming the
/// field, when there are none of these numbers.
std::vector<int> read_eagle3_taps(const Json& config, int layers);

/// Finds a field where published configs have it.
std::optional<Json> find_eagle3_field(const Json& config, std::string_view name);

/// What a head needs to know of its target.
struct Eagle3Target {
  int layers;
  int hidden;
  int vocabulary;
};

/// Reads the config of either layout and holds it against the target. Errors name file and field.
Eagle3Config read_eagle3_config(const Json& config, const Eagle3Target& target);

class Eagle3Head final : public Head {
 public:
  /// `target` lends what the files do not have and must outlive the head.
  Eagle3Head(const Checkpoint& files, const Model& target, const LoadOptions& options);
  /// `config` fits the target, unless the loader counts.
  Eagle3Head(const WeightLoader& from, Eagle3Config config, const Model& target);

  /// The memory that a head and the features of a text take. Reads no weights.
  static MemoryNeed need(const Checkpoint& files, const LoadOptions& options);

  const Eagle3Config& config() const noexcept { return config_; }

  int context() const override { return config_.transformer.context; }
  int width() const override { return config_.transformer.hidden; }
  std::span<const int> taps() const override { return config_.taps; }
  const Mask* mask() const override { return mask_ ? &*mask_ : nullptr; }
  std::vector<std::unique_ptr<LayerCache>> new_layers(int capacity, int max_pending_rows) const override;
  void fuse(std::span<const float> tapped, int rows, float* features) override;
  void forward(std::span<Rows> batch) override;

 private:
  void load_layers(const WeightLoader& from, const std::string& prefix);
  void load_mask(const WeightLoader& from, const std::string& prefix);
  void first_layer(const TransformerPass& pass);
  void see(const TransformerPass& pass, int layer);
  void compute_results(std::span<Rows> batch);

  const Kernels& kernels_;
  KvFormat kv_;
  const Model& target_;
  std::string origin_;  // for errors
  Eagle3Config config_;
  DraftTables tables_;
  PackedMatrix fc_;
  std::vector<float> input_norm_;             // with norm_before_fc
  std::vector<std::vector<float>> fc_norms_;  // with fc_norm
  std::vector<PreNormLayer> layers_;          // of the first, attention_norm is that of the embedding
  std::vector<float> hidden_norm_;            // of the first
  std::vector<float> norm_;
  std::optional<Mask> mask_;

  TransformerScratch scratch_;
  std::vector<Placement> placements_;
  std::vector<Token> tokens_;       // of all rows of the pass
  std::vector<float> tapped_;       // normalized
  std::vector<float> wanted_rows_;  // final-normed
  std::vector<float> next_features_;
  std::vector<float> logits_;
};

}  // namespace draftproof
