// SPDX-License-Identifier: MIT
// The float64 twin of Gemma 3n, from the same parts as that of the other targets (float64_twin.h).
#pragma once

#include "kernels/normal64.h"
#include "tests/models/float64_twin.h"

namespace draftproof::test {

class Gemma3nTwin {
 public:
  Gemma3nTwin(const TwinCheckpoint& checkpoint, Rounding& round, Mistake mistake)
      : of_(checkpoint), config_(checkpoint.config()), round_(round), mistake_(mistake) {
    const int owners = of_.layers - static_cast<int>(number("num_kv_shared_layers", 0));
    for (int i = 0; i < of_.layers; ++i) {
      std::vector<int> alike;
      for (int j = 0; j < owners; ++j) {
        if (slides(j) == slides(i)) alike.push_back(j);
      }
      if (mistake == Mistake::other_donor && alike.size() > 1) alike.pop_back();
      donors_.push_back(i < owners ? -1 : alike.back());
    }
  }

  std::vector<Rows> answers(const std::vector<Token>& tokens) {
    const int rows = static_cast<int>(tokens.size());
    const bool swapped = mistake_ == Mistake::swapped_ropes;
    for (const bool sliding : {false, true}) {
      angles_.emplace_back(of_.head_dim, frequencies(sliding != swapped), rows + 2, round_);
    }
    Rows x = embedded(of_, tokens);
    if (mistake_ != Mistake::no_embedding_scale) scale(x, std::sqrt(static_cast<double>(x.width)), round_);
    if (mistake_ != Mistake::no_layer_embeddings) embed_layers(tokens, x);
    std::vector<Rows> streams = {x};
    for (int k = 1; k < count(); ++k) streams.push_back(stretched(x, multiplied(x, named("altup_projections.", k))));
    std::vector<Rows> answers = {x};
    for (int i = 0; i < of_.layers; ++i) {
      layer(i, streams);
      answers.push_back(streams[0]);
    }
    Rows sum = streams[0];
    for (int k = 1; k < count() && mistake_ != Mistake::first_stream_only; ++k) {
      Rows other = multiplied(streams[at(k)], named("altup_unembed_projections.", k));
      sum = sum_of(std::move(sum), stretched(streams[0], std::move(other)), round_);
    }
    scale(sum, 1.0 / count(), round_);
    Rows normed = mistake_ == Mistake::no_final_norm ? sum : norm(std::move(sum), of_["norm"]);
    Rows logits = multiplied(normed, of_.head());
    const double cap = number("final_logit_softcapping", 30);
    if (mistake_ != Mistake::no_cap) {
      for (double& logit : logits.at) logit = round_(cap * round_.by(std::tanh(round_(logit / cap)), 2));
    }
    answers.push_back(std::move(normed));
    answers.push_back(std::move(logits));
    return answers;
  }

 private:
  static std::size_t at(int i) { return static_cast<std::size_t>(i); }
  int count() const { return static_cast<int>(number("altup_num_inputs", 4)); }
  double number(const char* field, double default_value) const {
    const auto value = config_.find(field);
    return value ? value->number() : default_value;
  }
  bool slides(int i) const { return config_.at("layer_types")[at(i)].string() == "sliding_attention"; }
  const Rows& named(const std::string& name, int k) const { return of_[name + std::to_string(k - 1)]; }

  std::vector<double> frequencies(bool sliding) const {
    const Json block = config_.at("rope_parameters").at(sliding ? "sliding_attention" : "full_attention");
    std::vector<double> result;
    for (int j = 0; j < of_.head_dim / 2; ++j) {
      result.push_back(round_(1 / round_(std::pow(block.at("rope_theta").number(), round_(2.0 * j / of_.head_dim)))));
    }
    return result;
  }

  Rows norm(Rows x, const Rows& weight) const { return rms_norm(std::move(x), weight, of_.epsilon, round_); }
  Rows multiplied(const Rows& x, const Rows& weight) const {
    return times(activation_format(x, weight, round_), weight, round_);
  }

  double magnitude(const double* row, int width) const {
    double sum = 0;
    for (int i = 0; i < width; ++i) sum = round_(sum + row[i] * row[i]);
    return round_(std::sqrt(std::max(round_(sum / width), 1e-5)));
  }

  /// Rows as long as those of `like`.
  Rows stretched(const Rows& like, Rows x) const {
    if (mistake_ == Mistake::unstretched_streams) return x;
    for (int r = 0; r < x.rows(); ++r) {
      const double wanted = magnitude(like.row(r), like.width);
      const double own = magnitude(x.row(r), x.width);
      for (int i = 0; i < x.width; ++i) x.row(r)[i] = round_(round_(x.row(r)[i] * wanted) / own);
    }
    return x;
  }

  void embed_layers(const std::vector<Token>& tokens, const Rows& x) {
    const Rows& table = of_["embed_tokens_per_layer"];
    const int width = table.width / of_.layers;
    Rows projected = multiplied(x, of_["per_layer_model_projection"]);
    scale(projected, round_(1 / round_(std::sqrt(static_cast<double>(x.width)))), round_);
    own_ = norm(std::move(projected), of_["per_layer_projection_norm"]);
    const double factor = mistake_ == Mistake::unscaled_layer_table ? 1 : round_(std::sqrt(static_cast<double>(width)));
    for (int r = 0; r < own_.rows(); ++r) {
      const Token token = tokens[at(r)] < table.rows() ? tokens[at(r)] : 0;
      for (int i = 0; i < own_.width; ++i) {
        double& v = own_.row(r)[i];
        v = round_(round_(v + round_(table.row(token)[i] * factor)) * round_(std::sqrt(0.5)));
      }
    }
  }

  /// tanh(router . norm(x) / width)
  Rows routed(const std::string& prefix, const Rows& x) const {
    Rows normal = norm(x, of_[prefix + "altup.router_norm"]);
    scale(normal, mistake_ == Mistake::unscaled_router ? 1 : 1.0 / x.width, round_);
    Rows y = multiplied(normal, of_[prefix + "altup.modality_router"]);
    for (double& v : y.at) v = round_.by(std::tanh(v), 2);
    return y;
  }

  void layer(int i, std::vector<Rows>& streams) {
    const std::string prefix = "layers." + std::to_string(i) + ".";
    const auto weight = [&](const char* name) -> const Rows& { return of_[prefix + name]; };
    const bool swapped = mistake_ == Mistake::swapped_layer_norms;
    const auto post = [&](Rows x, const char* name) {
      return mistake_ == Mistake::no_post_norms ? x : norm(std::move(x), weight(name));
    };
    const int n = count();
    const Rows shares = times(routed(prefix, streams[0]), weight("altup.prediction_coefs"), round_);
    std::vector<Rows> predicted = streams;
    for (int a = 0; a < n && mistake_ != Mistake::unpredicted_streams; ++a) {
      for (int r = 0; r < shares.rows(); ++r) {
        for (int k = 0; k < streams[0].width; ++k) {
          double sum = 0;
          for (int b = 0; b < n; ++b) {
            const int place = mistake_ == Mistake::transposed_prediction ? b * n + a : a * n + b;
            sum = round_(sum + round_(shares.row(r)[place] * streams[at(b)].row(r)[k]));
          }
          predicted[at(a)].row(r)[k] = round_(sum + streams[at(a)].row(r)[k]);
        }
      }
    }
    const Rows x = norm(predicted[0], weight(swapped ? "pre_feedforward_layernorm" : "input_layernorm"));
    Rows both = sum_of(predicted[0], post(attention(i, x), "post_attention_layernorm"), round_);
    Rows narrow = multiplied(multiplied(x, weight("laurel.linear_left")), weight("laurel.linear_right"));
    Rows laurel = sum_of(x, norm(std::move(narrow), weight("laurel.post_laurel_norm")), round_);
    if (mistake_ != Mistake::no_laurel) both = sum_of(std::move(both), laurel, round_);
    for (double& v : both.at) v = round_(v / round_(std::sqrt(2.0)));
    const Rows inner = norm(both, weight(swapped ? "input_layernorm" : "pre_feedforward_layernorm"));
    const Rows out = sum_of(both, post(mlp(i, inner), "post_feedforward_layernorm"), round_);

    const Rows corrections = times(routed(prefix, out), weight("altup.correction_coefs"), round_);
    for (int k = 0; k < n; ++k) {
      for (int r = 0; r < out.rows(); ++r) {
        const double share = mistake_ == Mistake::plain_correction ? 1 : round_(corrections.row(r)[k] + 1);
        for (int c = 0; c < out.width; ++c) {
          const double innovation = round_(out.row(r)[c] - predicted[0].row(r)[c]);
          streams[at(k)].row(r)[c] = round_(round_(innovation * share) + predicted[at(k)].row(r)[c]);
        }
      }
    }
    if (own_.width == 0) return;
    Rows first = streams[0];
    if (mistake_ != Mistake::no_output_scale) {
      const Rows& scales = of_.whole_name(prefix + "altup.correct_output_scale");
      for (std::size_t j = 0; j < first.at.size(); ++j) {
        first.at[j] = round_(first.at[j] * scales.at[j % at(first.width)]);
      }
    }
    const int width = own_.width / of_.layers;
    Rows gate = multiplied(first, weight("per_layer_input_gate"));
    for (int r = 0; r < gate.rows(); ++r) {
      for (int j = 0; j < width; ++j) {
        gate.row(r)[j] = round_(exact_or_tanh_gelu(gate.row(r)[j], round_, mistake_) * own_.row(r)[i * width + j]);
      }
    }
    const Rows mixed = norm(multiplied(gate, weight("per_layer_projection")), weight("post_per_layer_input_norm"));
    for (int k = mistake_ == Mistake::embeddings_on_all_streams ? 0 : 1; k < n; ++k) {
      streams[at(k)] = sum_of(std::move(streams[at(k)]), mixed, round_);
    }
  }

  Rows attention(int i, const Rows& normed) {
    const std::string prefix = "layers." + std::to_string(i) + ".self_attn.";
    const int donor = donors_[at(i)];
    const bool crossed = mistake_ == Mistake::swapped_head_norms && donor < 0;
    const auto heads = [&](const char* part) { return multiplied(normed, of_[prefix + part + "_proj"]); };
    const auto normed_heads = [&](Rows x, bool queries) {
      if (!queries && mistake_ == Mistake::no_key_norm) return x;
      return norm(std::move(x), of_[prefix + (queries != crossed ? "q_norm" : "k_norm")]);
    };
    const auto turned = [&](Rows x, int late) {
      std::vector<int> positions(at(x.rows()));
      for (int p = 0; p < x.rows(); ++p) positions[at(p)] = p + late;
      rotate(x, angles_[slides(i) ? 1 : 0], positions, round_, mistake_ == Mistake::interleaved_rope);
      return x;
    };
    const Rows queries = turned(normed_heads(heads("q"), true), 0);
    if (donor < 0) {
      Rows values = heads("v");
      if (mistake_ != Mistake::no_value_norm) values = norm(std::move(values), ones(of_.head_dim));
      const int late = mistake_ == Mistake::keys_one_position_late ? 1 : 0;
      shared_[i] = {turned(normed_heads(heads("k"), false), late), std::move(values)};
    }
    auto [keys, values] = shared_.at(donor < 0 ? i : donor);
    if (donor >= 0 && mistake_ == Mistake::shared_keys_turned_on) keys = turned(std::move(keys), 0);
    int window = slides(i) ? static_cast<int>(number("sliding_window", 0)) : std::numeric_limits<int>::max() - 1;
    if (mistake_ == Mistake::window_longer) ++window;
    if (mistake_ == Mistake::window_shorter) --window;
    const auto sees = [&](int q, int k) {
      if (mistake_ == Mistake::blind_to_itself && k == q && q > 0) return false;
      return k <= q + (mistake_ == Mistake::sees_the_next_row ? 1 : 0) && q - k < window;
    };
    const double shrunk = round_(1 / round_(std::sqrt(static_cast<double>(of_.head_dim))));
    const Heads of = {of_.heads, of_.kv_heads, of_.head_dim, mistake_ == Mistake::scale_of_heads ? shrunk : 1};
    return multiplied(attend(of, queries, keys, values, 0, sees, round_, mistake_), of_[prefix + "o_proj"]);
  }

  Rows mlp(int i, const Rows& x) const {
    const std::string prefix = "layers." + std::to_string(i) + ".mlp.";
    Rows gate = multiplied(x, of_[prefix + "gate_proj"]);
    Rows up = multiplied(x, of_[prefix + "up_proj"]);
    if (mistake_ == Mistake::swapped_gate_and_up) std::swap(gate, up);
    const double share = config_.at("activation_sparsity_pattern")[at(i)].number();
    if (share > 0 && mistake_ != Mistake::no_sparsity) cut(gate, share);
    for (std::size_t j = 0; j < gate.at.size(); ++j) {
      gate.at[j] = round_(exact_or_tanh_gelu(gate.at[j], round_, mistake_) * up.at[j]);
    }
    return multiplied(gate, of_[prefix + "down_proj"]);
  }

  void cut(Rows& gate, double share) const {
    for (int r = 0; r < gate.rows(); ++r) {
      double* const row = gate.row(r);
      double sum = 0;
      for (int k = 0; k < gate.width; ++k) sum = round_(sum + row[k]);
      const double mean = round_(sum / gate.width);
      double squares = 0;
      for (int k = 0; k < gate.width; ++k) squares = round_(squares + round_(std::pow(round_(row[k] - mean), 2)));
      const int divisor = mistake_ == Mistake::unbiased_deviation ? gate.width - 1 : gate.width;
      const double deviation = round_(std::sqrt(round_(squares / divisor)));
      const double cutoff = round_(mean + round_(deviation * round_(normal_quantile64(share))));
      for (int k = 0; k < gate.width; ++k) row[k] = std::max(round_(row[k] - cutoff), 0.0);
    }
  }

  const TwinCheckpoint& of_;
  const Json& config_;
  Rounding& round_;
  Mistake mistake_;
  std::vector<int> donors_;                      // the layer whose keys and values it uses; -1: its own
  std::vector<Angles> angles_;                   // of full and of sliding layers
  std::map<int, std::pair<Rows, Rows>> shared_;  // keys and values by layer
  Rows own_;                                     // [rows][layers * width]: what tokens have of their own for each layer
};

}  // namespace draftproof::test
