// SPDX-License-Identifier: MIT
// The assistant of Gemma 4: a small model that continues the text of its target from the target's own keys and values.
// It has none, so it keeps nothing of a text but features.
//
// Row of token t after n committed tokens, E the target's embedding of width B, x the output of its last layer:
//
//   h = norm(x_{n-1})                          the feature of a committed position: the target's final norm
//   z = pre_projection [ sqrt(B) E[t] ; h ]    embedding first, 2 B -> H
//   each layer, with q = RoPE(q_norm(q_proj norm(z))) at position n:
//     z += norm(o_proj softmax(q k) v)         k, v of the target's cache, unscaled scores
//     z += norm(MLP(norm(z)));  z *= layer_scalar
//   y = norm(z)
//   logits = embed_tokens y                    the assistant's own table, without a cap
//   feature of a draft token: post_projection y, H -> B
//
// All rows of a proposal are at position n, whatever number of draft tokens are before them: only t and h tell them
// apart. A layer reads the last of those layers of the target with keys of their own that slides as it does: of full
// attention all committed positions, of a sliding one those that the target's row at position n would see. Angles are
// those of the layer that is read. A row that sees nothing (no position is committed, or the window is 1) gets zeros.
//
// `masked_embedding` (E2B, E4B) is ignored: it computes a part of the same logits and sets the others below them.
// Source: transformers, models/gemma4_assistant; llama.cpp, models/gemma4-assistant.cpp. transformers lets sliding
// layers see up to two positions more, and after a rejection the keys of the rejected token.
#pragma once

#include <memory>
#include <span>
#include <string>
#include <vector>

#include "ref/formats/json.h"
#include "ref/models/gemma.h"
#include "ref/models/head.h"
#include "ref/models/memory.h"
#include "ref/models/model.h"

namespace draftproof {

/// Reads what does not depend on the target; every layer's donor is 0.
TransformerConfig describe_gemma4_assistant(const Json& config);

/// Reads the width of the target that an assistant is made for.
int read_backbone_width(const Json& config);

/// The config as it reads a target: donors are layers of the target, RoPEs the target's. Throws Error, naming file and
/// field, when it does not fit.
TransformerConfig read_gemma4_assistant(const Checkpoint& files, const Model& target);

class Gemma4Assistant final : public Head {
 public:
  /// The target outlives the head.
  Gemma4Assistant(const Checkpoint& files, const Model& target, const LoadOptions& options);
  /// `config` fits the target, unless the loader counts.
  Gemma4Assistant(const WeightLoader& from, TransformerConfig config, const Model& target);

  /// The memory that an assistant and the features of a text take. Reads no weights.
  static MemoryNeed need(const Checkpoint& files, const LoadOptions& options);

  int context() const override { return config_.context; }
  int width() const override { return target_.hidden(); }
  std::span<const int> taps() const override { return {&last_layer_, 1}; }
  std::vector<std::unique_ptr<LayerCache>> new_layers(int, int) const override { return {}; }
  void fuse(std::span<const float> tapped, int rows, float* features) override;
  /// Computes the wanted rows only; the others leave nothing behind.
  void forward(std::span<Rows> batch) override;

 private:
  struct Layer : GemmaLayer {
    float scalar = 1;  // what the stream is multiplied by
  };
  /// The wanted rows of one text, which see the same.
  struct Text {
    const Cache* target;
    int first;  // row of the pass
    int rows;
  };
  void lay_out(std::span<const Rows> batch);
  void project_inputs(const TransformerPass& pass);
  void attend(int layer);
  void compute_results(const TransformerPass& pass, std::span<Rows> batch);

  const Kernels& kernels_;
  const Model& target_;
  std::string origin_;  // for errors
  TransformerConfig config_;
  int last_layer_;
  PackedMatrix pre_projection_;   // [hidden][2 * width]
  PackedMatrix post_projection_;  // [width][hidden]
  PackedMatrix embedding_;        // [vocabulary][hidden]
  std::vector<float> norm_;
  std::vector<Layer> layers_;

  TransformerScratch scratch_;
  std::vector<Text> texts_;     // with wanted rows
  std::vector<int> positions_;  // of all wanted rows of the pass
  std::vector<LentRows> lent_;  // in the layer that is computed
  std::vector<float> inputs_;   // [rows][2 * width]
  std::vector<float> next_features_;
  std::vector<float> logits_;
};

}  // namespace draftproof
