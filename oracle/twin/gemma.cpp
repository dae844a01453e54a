// SPDX-License-Identifier: MIT
// The forward pass of Gemma 2, 3 and 4.
#include <cmath>
#include <string>

#include "oracle/twin/family.h"
#include "oracle/twin/parts.h"
#include "oracle/twin/rope.h"

namespace draftproof::twin {
namespace {

struct GemmaAttention {
  bool slides = false;
  int head_dim = 0;
  int kv_heads = 0;
  int donor = 0;  // the layer whose keys and values it uses: itself, or one before it
};

class GemmaFamily final : public TwinFamily {
 public:
  explicit GemmaFamily(const TwinWeights& weights)
      : w_(weights),
        generation_(weights.family()[5] - '0'),
        count_(weights.integer("num_hidden_layers")),
        epsilon_(weights.number("rms_norm_eps", 1e-6)) {
    const int owners = count_ - static_cast<int>(w_.number("num_kv_shared_layers", 0));
    for (int i = 0; i < count_; ++i) {
      GemmaAttention layer = described(i);
      layer.donor = i;
      for (int j = 0; i >= owners && j < owners; ++j) {
        if (layers_[static_cast<std::size_t>(j)].slides == layer.slides) layer.donor = j;  // the last of its kind
      }
      layers_.push_back(layer);
      ropes_.push_back(gemma_rope_of(w_, layer.slides, layer.head_dim));
    }
  }

  Row read(std::span<const Token> tokens, TextPast& past) const override {
    past.layers.resize(layers_.size());
    Matrix x = embedded(w_["embed_tokens"], tokens);
    x *= std::sqrt(static_cast<double>(x.cols()));
    const Matrix own = w_.has("embed_tokens_per_layer.weight") ? embedded_per_layer(tokens, x) : Matrix();
    for (int i = 0; i < count_; ++i) x = layer(i, x, own, past);
    past.positions += static_cast<int>(tokens.size());
    Row logits = times(normed(x.bottomRows(1), w_.norm("norm"), epsilon_), w_.head());
    const double cap = w_.number("final_logit_softcapping", generation_ == 2 ? 30 : 0);
    if (cap != 0) logits = logits.unaryExpr([cap](double logit) { return cap * tangent(logit / cap); });
    return logits;
  }

 private:
  GemmaAttention described(int i) const {
    const Json& config = w_.config();
    GemmaAttention layer{.slides = slides(i),
                         .head_dim = w_.integer(config.find("head_dim") ? "head_dim" : "hidden_size"),
                         .kv_heads = w_.integer("num_key_value_heads")};
    if (!config.find("head_dim")) layer.head_dim /= w_.integer("num_attention_heads");
    if (generation_ != 4) return layer;
    if (const auto each = config.find("per_layer_config")) {
      if (const auto own = each->find(std::to_string(i))) {
        if (const auto dim = own->find("head_dim")) layer.head_dim = static_cast<int>(dim->number());
        if (const auto heads = own->find("num_key_value_heads")) layer.kv_heads = static_cast<int>(heads->number());
      }
    } else if (!layer.slides) {
      layer.head_dim = static_cast<int>(w_.number("global_head_dim", 512));
      if (w_.says("attention_k_eq_v")) {
        layer.kv_heads = static_cast<int>(w_.number("num_global_key_value_heads", layer.kv_heads));
      }
    }
    return layer;
  }

  bool slides(int i) const {
    if (generation_ == 4 && i == count_ - 1) return false;
    if (const auto types = w_.config().find("layer_types")) {
      return (*types)[static_cast<std::size_t>(i)].string() == "sliding_attention";
    }
    const int period = generation_ == 2 ? 2 : static_cast<int>(w_.number("sliding_window_pattern", 6));
    return (i + 1) % period != 0;
  }

  /// What each token has of its own for each layer, [rows][layers * width].
  Matrix embedded_per_layer(std::span<const Token> tokens, const Matrix& x) const {
    const Matrix table = embedded(w_["embed_tokens_per_layer"], tokens);
    const double width = static_cast<double>(table.cols() / count_);
    const Matrix projected = times(x, w_["per_layer_model_projection"]) / std::sqrt(static_cast<double>(x.cols()));
    const Matrix own = normed(projected, w_.norm("per_layer_projection_norm"), epsilon_);
    return (own + table * std::sqrt(width)) * std::sqrt(0.5);
  }

  Matrix layer(int i, Matrix x, const Matrix& own, TextPast& past) const {
    const std::string prefix = "layers." + std::to_string(i) + ".";
    const auto norm = [&](const Matrix& rows, const char* name) {
      return normed(rows, w_.norm(prefix + name), epsilon_);
    };
    x += norm(attention(i, norm(x, "input_layernorm"), past), "post_attention_layernorm");
    Matrix out = mlp(norm(x, "pre_feedforward_layernorm"), w_[prefix + "mlp.gate_proj"], w_[prefix + "mlp.up_proj"],
                     w_[prefix + "mlp.down_proj"]);
    if (w_.has(prefix + "router.proj.weight")) {
      out = norm(out, "post_feedforward_layernorm_1") + norm(experts(prefix, x), "post_feedforward_layernorm_2");
    }
    x += norm(out, "post_feedforward_layernorm");
    if (own.size() > 0) {
      const Eigen::Index width = own.cols() / count_;
      const Matrix gate = times(x, w_[prefix + "per_layer_input_gate"]).unaryExpr(&gelu);
      const Matrix gated = gate.cwiseProduct(own.middleCols(i * width, width));
      x += norm(times(gated, w_[prefix + "per_layer_projection"]), "post_per_layer_input_norm");
    }
    if (w_.has(prefix + "layer_scalar")) x *= w_.vector(prefix + "layer_scalar")[0];
    return x;
  }

  Matrix attention(int i, const Matrix& x, TextPast& past) const {
    const GemmaAttention& layer = layers_[static_cast<std::size_t>(i)];
    const TwinRope& rope = ropes_[static_cast<std::size_t>(i)];
    const std::string prefix = "layers." + std::to_string(i) + ".self_attn.";
    const auto project = [&](const char* part) { return times(x, w_[prefix + part + "_proj"]); };
    const auto turned = [&](Matrix rows, const char* norm) {
      if (generation_ != 2) rows = normed(rows, w_.norm(prefix + norm), epsilon_);
      rotate(rows, rope, layer.head_dim, past.positions);
      return rows;
    };
    if (layer.donor == i) {
      LayerPast& kept = past.layers[static_cast<std::size_t>(i)];
      const Matrix keys = project("k");
      Matrix values = w_.has(prefix + "v_proj.weight") ? project("v") : keys;
      if (generation_ == 4) values = normed(values, Row::Ones(layer.head_dim), epsilon_);
      append(kept.keys, turned(keys, "k_norm"));
      append(kept.values, values);
    }
    const LayerPast& seen = past.layers[static_cast<std::size_t>(layer.donor)];
    const TwinAttention how{
        .heads = w_.integer("num_attention_heads"),
        .kv_heads = layer.kv_heads,
        .head_dim = layer.head_dim,
        .scale = 1 / std::sqrt(w_.number("query_pre_attn_scalar", generation_ == 4 ? 1 : 256)),
        .cap = generation_ == 2 ? w_.number("attn_logit_softcapping", 50) : 0,
        .window = layer.slides ? w_.integer("sliding_window") : unlimited,
    };
    const Matrix mixed = attend(how, turned(project("q"), "q_norm"), seen.keys, seen.values, past.positions);
    return times(mixed, w_[prefix + "o_proj"]);
  }

  static Matrix mlp(const Matrix& x, const Eigen::Ref<const Weight>& gate, const Eigen::Ref<const Weight>& up,
                    const Eigen::Ref<const Weight>& down) {
    return times(times(x, gate).unaryExpr(&gelu).cwiseProduct(times(x, up)), down);
  }

  /// Every row of the stream goes through the experts that its router chooses.
  Matrix experts(const std::string& prefix, const Matrix& stream) const {
    const Matrix x = normed(stream, w_.norm(prefix + "pre_feedforward_layernorm_2"), epsilon_);
    const Row factors = w_.vector(prefix + "router.scale") / std::sqrt(static_cast<double>(stream.cols()));
    const Matrix logits = times(normed(stream, factors, epsilon_), w_[prefix + "router.proj"]);
    const Row scales = w_.vector(prefix + "router.per_expert_scale");
    const Weight& gate_up = w_[prefix + "experts.gate_up_proj"];  // of each expert its gates, then its ups
    const Weight& down = w_[prefix + "experts.down_proj"];
    const Eigen::Index inner = down.cols();
    Matrix y = Matrix::Zero(x.rows(), x.cols());
    for (Eigen::Index r = 0; r < x.rows(); ++r) {
      const Row p = softmax(logits.row(r));
      const std::vector<int> chosen = largest(p, w_.integer("top_k_experts"));
      double sum = 0;
      for (const int e : chosen) sum += p[e];
      for (const int e : chosen) {
        y.row(r) += p[e] / sum * scales[e] *
                    mlp(x.row(r), gate_up.middleRows(2 * e * inner, inner),
                        gate_up.middleRows((2 * e + 1) * inner, inner), down.middleRows(e * x.cols(), x.cols()));
      }
    }
    return y;
  }

  const TwinWeights& w_;
  int generation_;
  int count_;  // of layers
  double epsilon_;
  std::vector<GemmaAttention> layers_;
  std::vector<TwinRope> ropes_;
};

}  // namespace

std::unique_ptr<TwinFamily> gemma_family(const TwinWeights& weights) { return std::make_unique<GemmaFamily>(weights); }

}  // namespace draftproof::twin
