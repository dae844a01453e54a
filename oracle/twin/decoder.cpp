// SPDX-License-Identifier: MIT
// The forward pass of all decoders but Gemma: layers of attention, of a gated delta net (of Kimi Linear, too), of a
// short convolution or of Mamba-2, or of both of the first and the last, each followed by an MLP, a mixture of experts,
// both, or nothing. Which of these a layer has, and where its norms are, follows from its tensors.
#include <algorithm>
#include <cmath>
#include <limits>
#include <string>

#include "kernels/math64.h"
#include "oracle/twin/delta_net.h"
#include "oracle/twin/family.h"
#include "oracle/twin/kimi_delta.h"
#include "oracle/twin/parts.h"
#include "oracle/twin/rope.h"
#include "oracle/twin/short_convolution.h"
#include "oracle/twin/state_space.h"

namespace draftproof::twin {
namespace {

class DecoderFamily final : public TwinFamily {
 public:
  explicit DecoderFamily(const TwinWeights& weights)
      : w_(weights),
        facts_(weights.facts()),
        heads_(facts_.heads),
        kv_heads_(facts_.kv_heads),
        head_dim_(facts_.head_dim),
        layers_(static_cast<int>(facts_.layers.size())),
        epsilon_(facts_.epsilon) {
    for (const RopeFacts& rope : facts_.ropes) ropes_.push_back(rope_of(w_, rope, facts_.turned, head_dim_));
  }

  Row read(std::span<const Token> tokens, TextPast& past) const override {
    past.layers.resize(static_cast<std::size_t>(layers_));
    Matrix x = embedded(w_["embed_tokens"], tokens) * facts_.embedding_scale;
    if (facts_.embedding_norm) x = norm_if("norm", x);
    for (int i = 0; i < layers_; ++i) {
      const std::string prefix = "layers." + std::to_string(i) + ".";
      LayerPast& kept = past.layers[static_cast<std::size_t>(i)];
      const LayerNorms norms = layer_norms(prefix, [&](const std::string& name) { return w_.has(name + ".weight"); });
      const Matrix first = norm_if(norms.attention, x);
      if (const Matrix mixed = mixer(i, prefix, first, kept, past.positions); mixed.size() > 0) {
        x += norm_if(norms.attended, mixed) * facts_.residual_scale;
      }
      if (!w_.has(prefix + "mlp.down_proj.weight") && !w_.has(prefix + "mlp.gate.weight")) continue;
      const Matrix second = norms.parallel ? first : norm_if(norms.mlp, x);
      const bool mixture = w_.has(prefix + "mlp.gate.weight");
      x += norm_if(norms.mlp_out, mixture ? experts(prefix + "mlp.", second) : gated_mlp(w_, prefix + "mlp.", second)) *
           (facts_.residual_scale * facts_.mlp_share);
    }
    past.positions += static_cast<int>(tokens.size());
    Row logits = biased(w_, "lm_head.bias", times(norm_if("norm", x.bottomRows(1)), w_.head())) * facts_.logit_scale;
    const double cap = facts_.logit_cap;
    if (cap != 0) logits = logits.unaryExpr([cap](double logit) { return cap * tangent(logit / cap); });
    return logits;
  }

 private:
  /// `name` is empty where a layer has no such norm.
  Matrix norm_if(const std::string& name, const Matrix& x) const {
    if (name.empty()) return x;
    if (!facts_.layer_norm) return normed(x, w_.norm(name), epsilon_);
    const Matrix centered = x.colwise() - x.rowwise().mean();
    return biased(w_, name + ".bias", normed(centered, w_.norm(name), epsilon_));
  }

  /// Empty where a layer has none.
  Matrix mixer(int layer, const std::string& prefix, const Matrix& x, LayerPast& kept, int first) const {
    const bool attends = w_.has(prefix + "self_attn.q_proj.weight");
    if (w_.has(prefix + "linear_attn.in_proj_qkv.weight")) return delta_net(w_, prefix + "linear_attn.", x, kept);
    if (w_.has(prefix + "self_attn.f_a_proj.weight")) return kimi_delta(w_, prefix + "self_attn.", x, kept);
    if (w_.has(prefix + "mamba.x_proj.weight")) return selective_scan(w_, facts_, prefix + "mamba.", x, kept);
    if (w_.has(prefix + "mamba.A_log")) {
      const Matrix recurred = state_space(w_, facts_, prefix + "mamba.", x, kept);
      if (!attends) return recurred;
      return recurred * facts_.state_share +
             attention(layer, prefix + "self_attn.", x, kept, first) * facts_.attention_share;
    }
    if (w_.has(prefix + "conv.conv.weight")) return short_convolution(w_, prefix + "conv.", x, kept);
    if (facts_.latent.rank > 0) return latent_attention(layer, prefix + "self_attn.", x, kept, first);
    return attends ? attention(layer, prefix + "self_attn.", x, kept, first) : Matrix();
  }

  /// As it is defined: the keys and values of all heads are made of the latent vector of each position.
  Matrix latent_attention(int layer, const std::string& prefix, const Matrix& x, LayerPast& kept, int first) const {
    const auto [rank, turned, unturned, value, epsilon] = facts_.latent;
    const auto project = [&](const std::string& name, const Matrix& from) {
      return biased(w_, prefix + name + ".bias", times(from, w_[prefix + name]));
    };
    const bool whole = w_.has(prefix + "q_proj.weight");
    const Matrix q =
        whole ? project("q_proj", x)
              : project("q_b_proj", normed(project("q_a_proj", x), w_.norm(prefix + "q_a_layernorm"), epsilon));
    const Matrix down = project("kv_a_proj_with_mqa", x);
    const Matrix latents = normed(down.leftCols(rank), w_.norm(prefix + "kv_a_layernorm"), epsilon);
    const Matrix both = project("kv_b_proj", latents);
    Matrix shared = down.rightCols(turned);
    const bool turns = facts_.layers[static_cast<std::size_t>(layer)].rope >= 0;
    if (turns) rotate_pairs(shared, first);
    const int head_dim = unturned + turned;
    Matrix queries(x.rows(), heads_ * head_dim), keys(x.rows(), heads_ * head_dim), values(x.rows(), heads_ * value);
    for (int h = 0; h < heads_; ++h) {
      Matrix own = q.middleCols(h * head_dim + unturned, turned);
      if (turns) rotate_pairs(own, first);
      queries.middleCols(h * head_dim, unturned) = q.middleCols(h * head_dim, unturned);
      queries.middleCols(h * head_dim + unturned, turned) = own;
      keys.middleCols(h * head_dim, unturned) = both.middleCols(h * (unturned + value), unturned);
      keys.middleCols(h * head_dim + unturned, turned) = shared;
      values.middleCols(h * value, value) = both.middleCols(h * (unturned + value) + unturned, value);
    }
    append(kept.keys, keys);
    append(kept.values, values);
    const TwinAttention how{
        .heads = heads_, .kv_heads = heads_, .head_dim = head_dim, .scale = facts_.attention_scale, .value_dim = value};
    return project("o_proj", attend(how, queries, kept.keys, kept.values, first));
  }

  /// Turns what is one head, whose pairs are neighbors or half of it apart.
  void rotate_pairs(Matrix& rows, int first) const {
    const Matrix stored = rows;
    const Eigen::Index half = rows.cols() / 2;
    for (Eigen::Index j = 0; j < half && facts_.interleaved; ++j) {
      rows.col(j) = stored.col(2 * j);
      rows.col(half + j) = stored.col(2 * j + 1);
    }
    rotate(rows, ropes_[0], static_cast<int>(rows.cols()), first);
  }

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
    const LayerFacts& facts = facts_.layers[static_cast<std::size_t>(layer)];
    if (facts.rope >= 0) {
      rotate(queries, ropes_[static_cast<std::size_t>(facts.rope)], head_dim_, first);
      rotate(keys, ropes_[static_cast<std::size_t>(facts.rope)], head_dim_, first);
    }
    if (facts.grows) grow(queries, first);
    append(kept.keys, keys);
    append(kept.values, project("v"));
    const double usual = 1 / std::sqrt(static_cast<double>(head_dim_));
    TwinAttention how{.heads = heads_,
                      .kv_heads = kv_heads_,
                      .head_dim = head_dim_,
                      .scale = facts_.attention_scale != 0 ? facts_.attention_scale : usual,
                      .window = facts.window,
                      .chunked = facts.chunked};
    if (const std::string sinks = prefix + "attention_sink_bias"; w_.has(sinks)) how.sinks = w_.vector(sinks);
    Matrix mixed = attend(how, queries, kept.keys, kept.values, first);
    if (gates.size() > 0) mixed = mixed.cwiseProduct(gates.unaryExpr(&sigmoid));
    const std::string sub_norm = prefix + "attn_sub_norm";
    if (w_.has(sub_norm + ".weight")) mixed = normed(mixed, w_.norm(sub_norm), epsilon_);
    return biased(w_, prefix + "o_proj.bias", times(mixed, w_[prefix + "o_proj"]));
  }

  void grow(Matrix& queries, int first) const {
    const GrowthFacts& growth = facts_.growth;
    for (Eigen::Index r = 0; r < queries.rows(); ++r) {
      queries.row(r) *= 1 + growth.beta * log64(1.0 + static_cast<double>((first + r + growth.ahead) / growth.step));
    }
  }

  /// Every row goes through the experts that its router chooses, and through the shared expert where there is one.
  Matrix experts(const std::string& prefix, const Matrix& x) const {
    const Matrix logits = biased(w_, prefix + "gate.bias", times(x, w_[prefix + "gate"]));
    const std::string down = prefix + "fc1_latent_proj";  // of experts that read narrower rows
    const bool latent = w_.has(down + ".weight");
    const Matrix read = latent ? times(x, w_[down]) : x;
    Matrix y = Matrix::Zero(read.rows(), read.cols());
    for (Eigen::Index r = 0; r < x.rows(); ++r) {
      const Row p = facts_.sigmoid_scores ? Row(logits.row(r).unaryExpr(&sigmoid)) : softmax(logits.row(r));
      const std::vector<int> chosen = largest(choosable(prefix, p), facts_.chosen);
      double sum = facts_.sum_added;
      for (const int e : chosen) sum += p[e];
      sum = std::max(sum, facts_.sum_min);
      for (const int e : chosen) {
        const std::string expert = prefix + "experts." + std::to_string(e) + ".";
        const double weight = p[e] / (facts_.normalized ? sum : 1) * facts_.routed_scale;
        if (facts_.weighted_inputs) y.row(r) += gated_mlp(w_, expert, weight * read.row(r));
        else y.row(r) += weight * gated_mlp(w_, expert, read.row(r));
      }
    }
    if (latent) y = times(y, w_[prefix + "fc2_latent_proj"]);
    if (w_.has(prefix + "shared_mlp.down_proj.weight")) y += gated_mlp(w_, prefix + "shared_mlp.", x);
    if (!w_.has(prefix + "shared_expert.up_proj.weight")) return y;
    const Matrix of_shared = gated_mlp(w_, prefix + "shared_expert.", x);
    if (!w_.has(prefix + "shared_expert_gate.weight")) return y + of_shared;
    const Matrix gate = times(x, w_[prefix + "shared_expert_gate"]).unaryExpr(&sigmoid);
    for (Eigen::Index r = 0; r < x.rows(); ++r) y.row(r) += gate(r, 0) * of_shared.row(r);
    return y;
  }

  /// What experts are chosen by: their scores, with a bias where there is one, in the groups whose best ones have the
  /// largest sums; of other groups -infinity.
  Row choosable(const std::string& prefix, const Row& scores) const {
    const std::string bias = prefix + "gate.e_score_correction_bias";
    Row by = w_.has(bias) ? Row(scores + w_.vector(bias)) : scores;
    if (facts_.groups == 1) return by;
    const Eigen::Index size = by.size() / facts_.groups;
    Row sums(facts_.groups);
    for (int g = 0; g < facts_.groups; ++g) {
      const Row group = by.segment(g * size, size);
      sums[g] = 0;
      for (const int best : largest(group, facts_.best_of_group)) sums[g] += group[best];
    }
    const std::vector<int> kept = largest(sums, facts_.groups_chosen);
    for (int g = 0; g < facts_.groups; ++g) {
      if (std::ranges::find(kept, g) != kept.end()) continue;
      by.segment(g * size, size).setConstant(-std::numeric_limits<double>::infinity());
    }
    return by;
  }

  const TwinWeights& w_;
  const DecoderFacts& facts_;
  int heads_, kv_heads_, head_dim_, layers_;
  double epsilon_;
  std::vector<TwinRope> ropes_;
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
