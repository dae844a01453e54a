// SPDX-License-Identifier: MIT
// The float64 twin of Gemma 2, 3 and 4 and of assistants of Gemma 4, from the same parts as that of the other targets
// (float64_twin.h).
#pragma once

#include <memory>

#include "tests/models/float64_twin.h"
#include "tests/models/gemma3n_twin.h"

namespace draftproof::test {

/// The attention of one layer, as the config describes it.
struct GemmaTwinLayer {
  bool slides = false;
  int head_dim = 0;
  int kv_heads = 0;
  int donor = -1;  // the layer whose keys and values it uses
};

class GemmaTwin {
 public:
  GemmaTwin(const TwinCheckpoint& checkpoint, Rounding& round, Mistake mistake)
      : of_(checkpoint), config_(checkpoint.config()), round_(round), mistake_(mistake) {
    for (int i = 0; i < of_.layers; ++i) layers_.push_back(described(i));
    const int owners = of_.layers - static_cast<int>(number("num_kv_shared_layers", 0));
    if (owners == 0) return;  // an assistant
    for (int i = owners; i < of_.layers; ++i) {
      std::vector<int> alike;
      for (int j = 0; j < owners; ++j) {
        if (layers_[at(j)].slides == layers_[at(i)].slides) alike.push_back(j);
      }
      if (mistake == Mistake::other_donor && alike.size() > 1) alike.pop_back();
      layers_[at(i)].donor = alike.back();
    }
  }

  std::vector<Rows> answers(const std::vector<Token>& tokens) {
    compute_angles(static_cast<int>(tokens.size()) + 2);
    Rows x = embedded(of_, tokens);
    if (mistake_ != Mistake::no_embedding_scale) scale(x, round_(std::sqrt(static_cast<double>(x.width))));
    if (of_.has("embed_tokens_per_layer.weight") && mistake_ != Mistake::no_layer_embeddings) {
      embed_layers(tokens, x);
    }
    std::vector<Rows> answers = {x};
    for (int i = 0; i < of_.layers; ++i) answers.push_back(layer(i, answers.back()));
    Rows last = of_["norm"];
    if (mistake_ == Mistake::final_norm_without_offset) last.offset = 0;
    Rows normed = mistake_ == Mistake::no_final_norm ? answers.back() : norm(answers.back(), last);
    Rows logits = times(activation_format(normed, of_.head(), round_), of_.head(), round_);
    const double cap = number("final_logit_softcapping", of_.gemma == 2 ? 30 : 0);
    if (cap != 0 && mistake_ != Mistake::no_cap) {
      for (double& logit : logits.at) logit = round_(cap * round_.by(std::tanh(round_(logit / cap)), 2));
    }
    answers.push_back(std::move(normed));
    answers.push_back(std::move(logits));
    return answers;
  }

  /// Of an assistant: its layers over one row at this position, by the keys of what the lender has answered.
  Rows assist(const GemmaTwin& lender, int position, Rows x) {
    lender_ = &lender;
    position_ = position;
    compute_angles(position + 1);
    for (int i = 0; i < of_.layers; ++i) x = layer(i, x);
    return x;
  }

 private:
  static std::size_t at(int i) { return static_cast<std::size_t>(i); }

  void compute_angles(int positions) {
    angles_.clear();
    for (const GemmaTwinLayer& layer : layers_) {
      const bool sliding_rope = layer.slides != (mistake_ == Mistake::swapped_ropes);
      angles_.emplace_back(layer.head_dim, frequencies(sliding_rope, layer.head_dim), positions, round_);
    }
  }

  /// The keys and values that an assistant's layers of one kind read: those of the last owner or, by mistake, the one
  /// before it.
  const std::pair<Rows, Rows>& lent(bool slides, bool other) const {
    std::vector<int> owners;
    for (const auto& [layer, keys_and_values] : shared_) {
      if (layers_[at(layer)].slides == slides) owners.push_back(layer);
    }
    if (other && owners.size() > 1) owners.pop_back();
    return shared_.at(owners.back());
  }

  double number(const char* field, double default_value) const {
    const auto value = config_.find(field);
    return value ? value->number() : default_value;
  }
  bool said(const char* field) const {
    const auto value = config_.find(field);
    return value && value->boolean();
  }

  bool slides(int i) const {
    if (of_.gemma == 4 && i == of_.layers - 1) return false;
    if (const auto types = config_.find("layer_types")) return (*types)[at(i)].string() == "sliding_attention";
    const int period = of_.gemma == 2 ? 2 : static_cast<int>(number("sliding_window_pattern", 6));
    return (i + 1) % period != 0;
  }

  GemmaTwinLayer described(int i) const {
    GemmaTwinLayer layer = {slides(i), of_.head_dim, of_.kv_heads};
    if (of_.gemma != 4) return layer;
    if (const auto each = config_.find("per_layer_config")) {
      if (const auto own = each->find(std::to_string(i))) {
        if (const auto dim = own->find("head_dim")) layer.head_dim = static_cast<int>(dim->number());
        if (const auto heads = own->find("num_key_value_heads")) layer.kv_heads = static_cast<int>(heads->number());
      }
    } else if (!layer.slides) {
      layer.head_dim = static_cast<int>(number("global_head_dim", 512));
      if (said("attention_k_eq_v")) {
        layer.kv_heads = static_cast<int>(number("num_global_key_value_heads", layer.kv_heads));
      }
    }
    return layer;
  }

  std::vector<double> frequencies(bool sliding, int head_dim) const {
    const auto all = config_.find("rope_parameters");
    auto block = all;
    if (of_.gemma > 2 && all) block = all->find(sliding ? "sliding_attention" : "full_attention");
    if (!block && (!sliding || mistake_ == Mistake::stretched_everywhere)) block = config_.find("rope_scaling");
    const bool small = of_.gemma == 2 || sliding;
    const double default_value = number(sliding ? "rope_local_base_freq" : "rope_theta", small ? 1e4 : 1e6);
    const auto theta = block ? block->find("rope_theta") : std::nullopt;
    if (mistake_ == Mistake::stretched_everywhere && all) block = all->find("full_attention");
    std::string kind = "default";
    for (const char* name : {"rope_type", "type"}) {
      if (block && block->find(name)) kind = block->at(name).string();
    }
    int turned = head_dim / 2;
    int divisor = head_dim;
    if (kind == "proportional") {
      turned = static_cast<int>(block->at("partial_rotary_factor").number() * head_dim) / 2;
      if (mistake_ == Mistake::rotated_width_divides) divisor = 2 * turned;
    }
    std::vector<double> result(at(head_dim / 2));
    for (int j = 0; j < turned; ++j) {
      const double power = round_(std::pow(theta ? theta->number() : default_value, round_(2.0 * j / divisor)));
      result[at(j)] = round_(1 / power);
      if (kind == "linear" && mistake_ != Mistake::unstretched_rope) {
        result[at(j)] = round_(result[at(j)] / block->at("factor").number());
      }
    }
    return result;
  }

  Rows norm(Rows x, const Rows& weight) const { return rms_norm(std::move(x), weight, of_.epsilon, round_); }

  void scale(Rows& x, double factor) const {
    for (double& v : x.at) v = round_(v * factor);
  }

  double gelu(double g) const { return exact_or_tanh_gelu(g, round_, mistake_); }

  /// down(gelu(gate) * up)
  Rows mlp(const Rows& x, const Rows& gate_weight, const Rows& up_weight, const Rows& down_weight) const {
    const Rows rounded = activation_format(x, gate_weight, round_);
    Rows gate = times(rounded, gate_weight, round_);
    Rows up = times(rounded, up_weight, round_);
    if (mistake_ == Mistake::swapped_gate_and_up) std::swap(gate, up);
    for (std::size_t i = 0; i < gate.at.size(); ++i) gate.at[i] = round_(gelu(gate.at[i]) * up.at[i]);
    return times(activation_format(std::move(gate), down_weight, round_), down_weight, round_);
  }

  void embed_layers(const std::vector<Token>& tokens, const Rows& x) {
    const Rows& table = of_["embed_tokens_per_layer"];
    const int width = table.width / of_.layers;
    Rows projected = times(activation_format(x, of_["per_layer_model_projection"], round_),
                           of_["per_layer_model_projection"], round_);
    scale(projected, round_(1 / round_(std::sqrt(static_cast<double>(x.width)))));
    own_ = norm(std::move(projected), of_["per_layer_projection_norm"]);
    const double factor = mistake_ == Mistake::unscaled_layer_table ? 1 : round_(std::sqrt(static_cast<double>(width)));
    for (int r = 0; r < own_.rows(); ++r) {
      for (int i = 0; i < own_.width; ++i) {
        double& v = own_.row(r)[i];
        v = round_(round_(v + round_(table.row(tokens[at(r)])[i] * factor)) * round_(std::sqrt(0.5)));
      }
    }
  }

  Rows attention(int i, const Rows& normed) {
    const GemmaTwinLayer& layer = layers_[at(i)];
    const std::string prefix = "layers." + std::to_string(i) + ".self_attn.";
    const bool crossed = mistake_ == Mistake::swapped_head_norms && layer.donor < 0;
    const auto heads = [&](const char* part) {
      const Rows& weight = of_[prefix + part + "_proj"];
      return times(activation_format(normed, weight, round_), weight, round_);
    };
    const auto normed_heads = [&](Rows x, bool queries) {
      if (of_.gemma == 2 || (!queries && mistake_ == Mistake::no_key_norm)) return x;
      return norm(std::move(x), of_[prefix + (queries != crossed ? "q_norm" : "k_norm")]);
    };
    const auto turned = [&](Rows x, int late) {
      std::vector<int> positions(at(x.rows()));
      for (int p = 0; p < x.rows(); ++p) positions[at(p)] = p + late;
      rotate(x, angles_[at(i)], positions, round_, mistake_ == Mistake::interleaved_rope);
      return x;
    };
    const Rows queries = turned(normed_heads(heads("q"), true), position_);
    if (layer.donor < 0 && lender_ == nullptr) {
      const Rows raw = heads("k");
      const Rows keys = normed_heads(raw, false);
      const bool from_keys = !of_.has(prefix + "v_proj.weight");
      Rows values = !from_keys ? heads("v") : mistake_ == Mistake::values_from_normed_keys ? keys : raw;
      if (of_.gemma == 4 && mistake_ != Mistake::no_value_norm) values = norm(std::move(values), ones(layer.head_dim));
      shared_[i] = {turned(keys, mistake_ == Mistake::keys_one_position_late ? 1 : 0), std::move(values)};
    }
    auto [keys, values] = lender_ != nullptr ? lender_->lent(layer.slides, mistake_ == Mistake::other_donor)
                                             : shared_.at(layer.donor < 0 ? i : layer.donor);
    if (layer.donor >= 0 && mistake_ == Mistake::shared_keys_turned_on) keys = turned(std::move(keys), 0);

    int window = layer.slides ? static_cast<int>(number("sliding_window", 0)) : std::numeric_limits<int>::max() - 1;
    if (mistake_ == Mistake::window_longer) ++window;
    if (mistake_ == Mistake::window_shorter) --window;
    const auto sees = [&](int q, int k) {
      if (mistake_ == Mistake::blind_to_itself && k == q && q > 0) return false;
      return k <= q + (mistake_ == Mistake::sees_the_next_row ? 1 : 0) && q - k < window;
    };
    Heads of = {of_.heads, layer.kv_heads, layer.head_dim, 1};
    const double told = number("query_pre_attn_scalar", of_.gemma == 4 ? 1 : 256);
    const double scalar = mistake_ == Mistake::scale_of_heads ? layer.head_dim : told;
    if (mistake_ != Mistake::unscaled_scores) of.scale = round_(1 / round_(std::sqrt(scalar)));
    if (of_.gemma == 2 && mistake_ != Mistake::no_score_cap) of.cap = number("attn_logit_softcapping", 50);
    Rows mixed = attend(of, queries, keys, values, position_, sees, round_, mistake_);
    const Rows& output = of_[prefix + "o_proj"];
    return times(activation_format(std::move(mixed), output, round_), output, round_);
  }

  /// Of stacked matrices [experts][rows][inputs] the rows [first, first + rows) of one.
  Rows part_of(const Rows& all, int expert, int experts, int first, int rows) const {
    const int each = all.rows() / experts;
    Rows part(rows, all.width);
    std::copy_n(all.row(expert * each + first), at(rows) * at(all.width), part.at.begin());
    return part;
  }

  Rows experts(const std::string& prefix, const Rows& stream) const {
    const Rows x = norm(stream, of_[prefix + "pre_feedforward_layernorm_2"]);
    Rows routed = norm(mistake_ == Mistake::routed_by_normed ? x : stream, ones(stream.width));
    const Rows& factors = of_.whole_name(prefix + "router.scale");
    const double root = round_(1 / round_(std::sqrt(static_cast<double>(stream.width))));
    for (std::size_t i = 0; i < routed.at.size(); ++i) {
      routed.at[i] = round_(round_(routed.at[i] * factors.at[i % at(stream.width)]) * root);
    }
    const Rows logits = times(routed, of_[prefix + "router.proj"], round_);
    const Rows& scales = of_.whole_name(prefix + "router.per_expert_scale");
    const Rows& gate_up = of_.whole_name(prefix + "experts.gate_up_proj");
    const Rows& down = of_.whole_name(prefix + "experts.down_proj");
    const int count = logits.width;
    const int inner = down.width;
    Rows y(x.rows(), x.width);
    for (int r = 0; r < x.rows(); ++r) {
      const double* const of = logits.row(r);
      std::vector<int> ids(at(count));
      for (int e = 0; e < count; ++e) ids[at(e)] = e;
      std::ranges::stable_sort(ids, [of](int a, int b) { return of[a] > of[b]; });
      ids.resize(at(static_cast<int>(number("top_k_experts", 0))));
      std::map<int, double> weights;
      double total = 0;
      double sum = 0;
      for (int e = 0; e < count; ++e) total = round_(total + round_.by(std::exp(round_(of[e] - of[ids[0]])), 2));
      for (const int e : ids) {
        weights[e] = round_(round_.by(std::exp(round_(of[e] - of[ids[0]])), 2) / total);
        sum = round_(sum + weights[e]);
      }
      Rows one(1, x.width);
      std::copy_n(x.row(r), x.width, one.row(0));
      for (auto& [id, weight] : weights) {
        if (mistake_ != Mistake::other_experts_weights) weight = round_(weight / sum);
        if (mistake_ != Mistake::no_expert_scale) weight = round_(weight * scales.at[at(id)]);
        const int expert = mistake_ == Mistake::next_expert ? (id + 1) % count : id;
        const Rows out = mlp(one, part_of(gate_up, expert, count, 0, inner),
                             part_of(gate_up, expert, count, inner, inner), part_of(down, expert, count, 0, x.width));
        for (int i = 0; i < x.width; ++i) y.row(r)[i] = round_(y.row(r)[i] + round_(weight * out.row(0)[i]));
      }
    }
    return norm(std::move(y), of_[prefix + "post_feedforward_layernorm_2"]);
  }

  Rows layer(int i, const Rows& before) {
    const std::string prefix = "layers." + std::to_string(i) + ".";
    const auto weight = [&](const char* name) -> const Rows& { return of_[prefix + name]; };
    const bool swapped = mistake_ == Mistake::swapped_layer_norms;
    const auto post = [&](Rows x, const char* name) {
      return mistake_ == Mistake::no_post_norms ? x : norm(std::move(x), weight(name));
    };
    const Rows& first = weight(swapped ? "pre_feedforward_layernorm" : "input_layernorm");
    const Rows& second = weight(swapped ? "input_layernorm" : "pre_feedforward_layernorm");
    Rows x = sum_of(before, post(attention(i, norm(before, first)), "post_attention_layernorm"), round_);
    Rows out = mlp(norm(x, second), weight("mlp.gate_proj"), weight("mlp.up_proj"), weight("mlp.down_proj"));
    if (of_.has(prefix + "router.proj.weight")) {
      out = sum_of(norm(std::move(out), weight("post_feedforward_layernorm_1")), experts(prefix, x), round_);
    }
    Rows branch = post(std::move(out), "post_feedforward_layernorm");
    if (own_.width > 0) {
      x = sum_of(std::move(x), branch, round_);
      const int width = own_.width / of_.layers;
      const Rows& gate_weight = weight("per_layer_input_gate");
      Rows gate = times(activation_format(x, gate_weight, round_), gate_weight, round_);
      for (int r = 0; r < gate.rows(); ++r) {
        for (int j = 0; j < width; ++j) {
          gate.row(r)[j] = round_(gelu(gate.row(r)[j]) * own_.row(r)[i * width + j]);
        }
      }
      const Rows& projection = weight("per_layer_projection");
      branch = norm(times(activation_format(std::move(gate), projection, round_), projection, round_),
                    weight("post_per_layer_input_norm"));
    }
    double scalar = 1;
    if (of_.has(prefix + "layer_scalar")) scalar = of_.whole_name(prefix + "layer_scalar").at[0];
    if (mistake_ == Mistake::no_layer_scalar) scalar = 1;
    if (mistake_ == Mistake::scalar_on_branch) {
      scale(branch, scalar);
      scalar = 1;
    }
    x = sum_of(std::move(x), branch, round_);
    if (scalar != 1) scale(x, scalar);
    return x;
  }

  const TwinCheckpoint& of_;
  const Json& config_;
  Rounding& round_;
  Mistake mistake_;
  std::vector<GemmaTwinLayer> layers_;
  std::vector<Angles> angles_;                   // of each layer
  std::map<int, std::pair<Rows, Rows>> shared_;  // keys and values by layer
  Rows own_;                                     // [rows][layers * width]: what tokens have of their own for each layer
  const GemmaTwin* lender_ = nullptr;            // of an assistant
  int position_ = 0;                             // of the first row
};

/// target_answers of any target.
inline std::vector<Rows> text_answers(const TwinCheckpoint& target, const std::vector<Token>& tokens, Rounding round,
                                      Mistake mistake = Mistake::none) {
  if (target.gemma == 0) return target_answers(target, tokens, round, mistake);
  if (target.gemma3n) return Gemma3nTwin(target, round, mistake).answers(tokens);
  if (mistake == Mistake::norms_without_offset) {
    TwinCheckpoint wrong = target;
    wrong.drop_offsets();
    return GemmaTwin(wrong, round, Mistake::none).answers(tokens);
  }
  return GemmaTwin(target, round, mistake).answers(tokens);
}

}  // namespace draftproof::test
