// SPDX-License-Identifier: MIT
// The forward pass of Qwen2, Qwen3, Qwen3.5, Llama, Mistral and Ministral 3: layers of attention or of a gated delta
// net, each followed by an MLP or a mixture of experts. Which of these a layer has follows from its tensors.
#include <cmath>
#include <string>

#include "kernels/math64.h"
#include "oracle/twin/delta_net.h"
#include "oracle/twin/family.h"
#include "oracle/twin/parts.h"
#include "oracle/twin/rope.h"

namespace draftproof::twin {
namespace {

class DecoderFamily final : public TwinFamily {
 public:
  explicit DecoderFamily(const TwinWeights& weights)
      : w_(weights),
        heads_(weights.integer("num_attention_heads")),
        kv_heads_(weights.integer("num_key_value_heads")),
        head_dim_(weights.config().find("head_dim") ? weights.integer("head_dim")
                                                    : weights.integer("hidden_size") / heads_),
        layers_(weights.integer("num_hidden_layers")),
        epsilon_(weights.number("rms_norm_eps", 1e-6)) {
    const bool hybrid = w_.family().starts_with("qwen3_5");
    const auto rope = rope_settings(w_);
    const double share = hybrid && rope ? rope->at("partial_rotary_factor").number() : 1;
    rope_ = rope_of(w_, static_cast<int>(head_dim_ * share), head_dim_);
  }

  Row read(std::span<const Token> tokens, TextPast& past) const override {
    past.layers.resize(static_cast<std::size_t>(layers_));
    Matrix x = embedded(w_["embed_tokens"], tokens);
    for (int i = 0; i < layers_; ++i) {
      const std::string prefix = "layers." + std::to_string(i) + ".";
      LayerPast& kept = past.layers[static_cast<std::size_t>(i)];
      const Matrix first = normed(x, w_.norm(prefix + "input_layernorm"), epsilon_);
      const bool recurrent = w_.has(prefix + "linear_attn.in_proj_qkv.weight");
      x += recurrent ? delta_net(w_, prefix + "linear_attn.", first, kept)
                     : attention(i, prefix + "self_attn.", first, kept, past.positions);
      const Matrix second = normed(x, w_.norm(prefix + "post_attention_layernorm"), epsilon_);
      const bool mixture = w_.has(prefix + "mlp.gate.weight");
      x += mixture ? experts(prefix + "mlp.", second) : gated_mlp(w_, prefix + "mlp.", second);
    }
    past.positions += static_cast<int>(tokens.size());
    return times(normed(x.bottomRows(1), w_.norm("norm"), epsilon_), w_.head());
  }

 private:
  Matrix attention(int layer, const std::string& prefix, const Matrix& x, LayerPast& kept, int first) const {
    const auto project = [&](const char* part) {
      return biased(w_, prefix + part + "_proj.bias", times(x, w_[prefix + part + "_proj"]));
    };
    const auto heads_normed = [&](Matrix rows, const char* name) {
      return w_.has(prefix + name + ".weight") ? normed(rows, w_.norm(prefix + name), epsilon_) : rows;
    };
    Matrix queries = project("q");
    Matrix gates;
    if (queries.cols() == 2 * heads_ * head_dim_) {  // of every head its query, then its gate
      Matrix both = queries;
      queries.resize(x.rows(), heads_ * head_dim_);
      gates.resize(x.rows(), heads_ * head_dim_);
      for (int h = 0; h < heads_; ++h) {
        queries.middleCols(h * head_dim_, head_dim_) = both.middleCols(2 * h * head_dim_, head_dim_);
        gates.middleCols(h * head_dim_, head_dim_) = both.middleCols((2 * h + 1) * head_dim_, head_dim_);
      }
    }
    queries = heads_normed(queries, "q_norm");
    Matrix keys = heads_normed(project("k"), "k_norm");
    rotate(queries, rope_, head_dim_, first);
    rotate(keys, rope_, head_dim_, first);
    grow(queries, first);
    append(kept.keys, keys);
    append(kept.values, project("v"));
    const TwinAttention how{.heads = heads_,
                            .kv_heads = kv_heads_,
                            .head_dim = head_dim_,
                            .scale = 1 / std::sqrt(static_cast<double>(head_dim_)),
                            .window = window_of(layer)};
    Matrix mixed = attend(how, queries, kept.keys, kept.values, first);
    if (gates.size() > 0) mixed = mixed.cwiseProduct(gates.unaryExpr(&sigmoid));
    return biased(w_, prefix + "o_proj.bias", times(mixed, w_[prefix + "o_proj"]));
  }

  /// Ministral 3 makes queries larger behind its original context.
  void grow(Matrix& queries, int first) const {
    const auto block = rope_settings(w_);
    const auto beta = block ? block->find("llama_4_scaling_beta") : std::nullopt;
    if (!beta) return;
    const auto step = static_cast<int>(block->at("original_max_position_embeddings").integer(1, 1 << 30));
    for (Eigen::Index r = 0; r < queries.rows(); ++r) {
      queries.row(r) *= 1 + beta->number() * log64(1.0 + static_cast<double>((first + r) / step));
    }
  }

  int window_of(int layer) const {
    const auto types = w_.config().find("layer_types");
    const bool all_slide = w_.family() == "mistral" && w_.config().find("sliding_window");
    const bool slides =
        all_slide || (types && (*types)[static_cast<std::size_t>(layer)].string() == "sliding_attention");
    return slides ? w_.integer("sliding_window") : unlimited;
  }

  /// Every row goes through the experts that its router chooses, and through the shared expert where there is one.
  Matrix experts(const std::string& prefix, const Matrix& x) const {
    const bool shared = w_.has(prefix + "shared_expert_gate.weight");
    const bool normalized = w_.says("norm_topk_prob", shared);
    const Matrix logits = times(x, w_[prefix + "gate"]);
    Matrix y = Matrix::Zero(x.rows(), x.cols());
    for (Eigen::Index r = 0; r < x.rows(); ++r) {
      const Row p = softmax(logits.row(r));
      const std::vector<int> chosen = largest(p, w_.integer("num_experts_per_tok"));
      double sum = 0;
      for (const int e : chosen) sum += p[e];
      for (const int e : chosen) {
        const std::string expert = prefix + "experts." + std::to_string(e) + ".";
        y.row(r) += p[e] / (normalized ? sum : 1) * gated_mlp(w_, expert, x.row(r));
      }
    }
    if (!shared) return y;
    const Matrix gate = times(x, w_[prefix + "shared_expert_gate"]).unaryExpr(&sigmoid);
    const Matrix of_shared = gated_mlp(w_, prefix + "shared_expert.", x);
    for (Eigen::Index r = 0; r < x.rows(); ++r) y.row(r) += gate(r, 0) * of_shared.row(r);
    return y;
  }

  const TwinWeights& w_;
  int heads_, kv_heads_, head_dim_, layers_;
  double epsilon_;
  TwinRope rope_;
};

}  // namespace

Matrix embedded(const Weight& table, std::span<const Token> tokens) {
  Matrix x(tokens.size(), table.cols());
  for (std::size_t r = 0; r < tokens.size(); ++r) {
    x.row(static_cast<Eigen::Index>(r)) = table.row(tokens[r]).cast<double>();
  }
  return x;
}

std::unique_ptr<TwinFamily> decoder_family(const TwinWeights& weights) {
  return std::make_unique<DecoderFamily>(weights);
}

}  // namespace draftproof::twin
