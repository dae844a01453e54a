// SPDX-License-Identifier: MIT
// The forward pass of Gemma 3n: several streams (AltUp), a narrow product beside attention (LAuReL), sparse gates.
#include <cmath>
#include <optional>
#include <string>

#include "kernels/normal64.h"
#include "oracle/twin/family.h"
#include "oracle/twin/parts.h"
#include "oracle/twin/rope.h"

namespace draftproof::twin {
namespace {

class Gemma3nFamily final : public TwinFamily {
 public:
  explicit Gemma3nFamily(const TwinWeights& weights)
      : w_(weights),
        count_(weights.integer("num_hidden_layers")),
        streams_(weights.integer("altup_num_inputs")),
        head_dim_(weights.integer("head_dim")),
        epsilon_(weights.number("rms_norm_eps", 1e-6)) {
    const int owners = count_ - static_cast<int>(w_.number("num_kv_shared_layers", 0));
    for (int i = 0; i < count_; ++i) {
      donors_.push_back(i);
      for (int j = 0; i >= owners && j < owners; ++j) {
        if (slides(j) == slides(i)) donors_.back() = j;  // the last of its kind
      }
      ropes_.push_back(gemma_rope_of(w_, slides(i), head_dim_));
    }
  }

  Row read(std::span<const Token> tokens, TextPast& past) const override {
    past.layers.resize(donors_.size());
    const Matrix x = embedded(w_["embed_tokens"], tokens) * std::sqrt(static_cast<double>(w_["embed_tokens"].cols()));
    const Matrix own = embedded_per_layer(tokens, x);
    std::vector<Matrix> streams = {x};
    for (int k = 1; k < streams_; ++k) {
      streams.push_back(as_long_as(x, times(x, projection("altup_projections", k - 1))));
    }
    for (int i = 0; i < count_; ++i) layer(i, streams, own, past);
    past.positions += static_cast<int>(tokens.size());
    Matrix sum = streams[0];
    for (int k = 1; k < streams_; ++k) {
      const Matrix projected =
          times(streams[static_cast<std::size_t>(k)], projection("altup_unembed_projections", k - 1));
      sum += as_long_as(streams[0], projected);
    }
    Row logits = times(normed(Matrix(sum.bottomRows(1) / streams_), w_.norm("norm"), epsilon_), w_.head());
    const double cap = w_.number("final_logit_softcapping", 30);
    return logits.unaryExpr([cap](double logit) { return cap * tangent(logit / cap); });
  }

 private:
  bool slides(int i) const {
    return w_.config().at("layer_types")[static_cast<std::size_t>(i)].string() == "sliding_attention";
  }

  /// One of several matrices, which a GGUF has one below the other.
  Weight projection(const std::string& name, int k) const {
    if (!w_.has(name + ".weight")) return w_[name + "." + std::to_string(k)];
    const Eigen::Index hidden = w_[name].cols();
    return w_[name].middleRows(k * hidden, hidden);
  }

  /// Rows as long as those of `like`.
  static Matrix as_long_as(const Matrix& like, Matrix x) {
    for (Eigen::Index r = 0; r < x.rows(); ++r) {
      const double mean = x.row(r).squaredNorm() / static_cast<double>(x.cols());
      x.row(r) *= like.row(r).norm() / std::sqrt(static_cast<double>(x.cols()) * std::max(mean, 1e-5));
    }
    return x;
  }

  Matrix embedded_per_layer(std::span<const Token> tokens, const Matrix& x) const {
    const Weight& rows = w_["embed_tokens_per_layer"];
    std::vector<Token> known(tokens.begin(), tokens.end());
    for (Token& token : known) token = token < rows.rows() ? token : 0;
    const Matrix table = embedded(rows, known);
    const double width = static_cast<double>(table.cols() / count_);
    const Matrix projected = times(x, w_["per_layer_model_projection"]) / std::sqrt(static_cast<double>(x.cols()));
    const Matrix own = normed(projected, w_.norm("per_layer_projection_norm"), epsilon_);
    return (own + table * std::sqrt(width)) * std::sqrt(0.5);
  }

  /// What the router of a layer makes of rows, [rows][streams].
  Matrix routed(const std::string& prefix, const Matrix& x) const {
    const Matrix normal = normed(x, w_.norm(prefix + "altup.router_norm"), epsilon_) / static_cast<double>(x.cols());
    return times(normal, w_[prefix + "altup.modality_router"]).unaryExpr(&tangent);
  }

  void layer(int i, std::vector<Matrix>& streams, const Matrix& own, TextPast& past) const {
    const std::string prefix = "layers." + std::to_string(i) + ".";
    const auto norm = [&](const Matrix& rows, const char* name) {
      return normed(rows, w_.norm(prefix + name), epsilon_);
    };
    const Matrix shares = times(routed(prefix, streams[0]), w_[prefix + "altup.prediction_coefs"]);
    std::vector<Matrix> predicted = streams;
    for (int a = 0; a < streams_; ++a) {
      for (int b = 0; b < streams_; ++b) {
        predicted[static_cast<std::size_t>(a)] +=
            shares.col(a * streams_ + b).asDiagonal() * streams[static_cast<std::size_t>(b)];
      }
    }
    const Matrix x = norm(predicted[0], "input_layernorm");
    const Matrix narrow = times(times(x, w_[prefix + "laurel.linear_left"]), w_[prefix + "laurel.linear_right"]);
    const Matrix laurel = x + norm(narrow, "laurel.post_laurel_norm");
    const Matrix attended =
        predicted[0] + norm(attention(i, prefix + "self_attn.", x, past), "post_attention_layernorm");
    const Matrix both = (attended + laurel) / std::sqrt(2.0);
    const Matrix out =
        both + norm(mlp(i, prefix + "mlp.", norm(both, "pre_feedforward_layernorm")), "post_feedforward_layernorm");

    const Matrix corrections = times(routed(prefix, out), w_[prefix + "altup.correction_coefs"]);
    for (int k = 0; k < streams_; ++k) {
      const Eigen::VectorXd share = corrections.col(k).array() + 1.0;
      streams[static_cast<std::size_t>(k)] =
          predicted[static_cast<std::size_t>(k)] + share.asDiagonal() * (out - predicted[0]);
    }
    Matrix first = streams[0];
    if (w_.says("altup_correct_scale", true)) {
      first = first * w_.vector(prefix + "altup.correct_output_scale").asDiagonal();
    }
    const Eigen::Index width = own.cols() / count_;
    const Matrix gate = times(first, w_[prefix + "per_layer_input_gate"]).unaryExpr(&gelu);
    const Matrix mixed =
        times(gate.cwiseProduct(own.middleCols(i * width, width)), w_[prefix + "per_layer_projection"]);
    for (int k = 1; k < streams_; ++k) streams[static_cast<std::size_t>(k)] += norm(mixed, "post_per_layer_input_norm");
  }

  Matrix attention(int i, const std::string& prefix, const Matrix& x, TextPast& past) const {
    const auto heads = [&](const char* part, const Row& norm, bool turns) {
      Matrix rows = normed(times(x, w_[prefix + part + "_proj"]), norm, epsilon_);
      if (turns) rotate(rows, ropes_[static_cast<std::size_t>(i)], head_dim_, past.positions);
      return rows;
    };
    const int donor = donors_[static_cast<std::size_t>(i)];
    if (donor == i) {
      LayerPast& kept = past.layers[static_cast<std::size_t>(i)];
      append(kept.keys, heads("k", w_.norm(prefix + "k_norm"), true));
      append(kept.values, heads("v", Row::Ones(head_dim_), false));
    }
    const LayerPast& seen = past.layers[static_cast<std::size_t>(donor)];
    const TwinAttention how{.heads = w_.integer("num_attention_heads"),
                            .kv_heads = w_.integer("num_key_value_heads"),
                            .head_dim = head_dim_,
                            .window = slides(i) ? w_.integer("sliding_window") : unlimited};
    const Matrix queries = heads("q", w_.norm(prefix + "q_norm"), true);
    return times(attend(how, queries, seen.keys, seen.values, past.positions), w_[prefix + "o_proj"]);
  }

  /// How many deviations above the mean the gates of a layer begin; a folder says it by the share that is left out.
  std::optional<double> cutoff(int i) const {
    const bool stated = w_.config().has("activation_sparsity_scale");
    const Json all = w_.config().at(stated ? "activation_sparsity_scale" : "activation_sparsity_pattern");
    const Json value = all.is_array() ? all[static_cast<std::size_t>(i)] : all;
    if (value.is_null() || (!stated && value.number() == 0)) return {};
    return stated ? value.number() : normal_quantile64(value.number());
  }

  /// Of the gates of sparse layers only what lies far above the mean of a row is left.
  Matrix mlp(int i, const std::string& prefix, const Matrix& x) const {
    Matrix gate = times(x, w_[prefix + "gate_proj"]);
    const std::optional<double> deviations = cutoff(i);
    for (Eigen::Index r = 0; deviations && r < gate.rows(); ++r) {
      const double mean = gate.row(r).mean();
      const double deviation = std::sqrt((gate.row(r).array() - mean).square().mean());
      gate.row(r) = (gate.row(r).array() - mean - deviation * *deviations).max(0.0);
    }
    return times(gate.unaryExpr(&gelu).cwiseProduct(times(x, w_[prefix + "up_proj"])), w_[prefix + "down_proj"]);
  }

  const TwinWeights& w_;
  int count_;  // of layers
  int streams_;
  int head_dim_;
  double epsilon_;
  std::vector<int> donors_;
  std::vector<TwinRope> ropes_;
};

}  // namespace

std::unique_ptr<TwinFamily> gemma3n_family(const TwinWeights& weights) {
  return std::make_unique<Gemma3nFamily>(weights);
}

}  // namespace draftproof::twin
