// SPDX-License-Identifier: MIT
// An independent implementation of Qwen3 (dense and with experts), Qwen3.5, Qwen2, Llama, Mistral, Ministral 3, DFlash
// and EAGLE-3: textbook loops in float64, written from the papers and the published model code. It shares only the
// reader of weights with the engine. The command has the same mathematics on Eigen, with nothing that errs
// (oracle/twin/twin.h); both are held to the stored float64 outputs. This one answers three questions:
//
// 1. What are the exact outputs? (Rounding none; compared with the stored float64 outputs.)
// 2. How far from them may a float32 program be? (Rounding random; the bound below.)
// 3. Would the comparison detect a mistake? (A Mistake makes the twin wrong on purpose.)
//
// The bound. A float32 program computes the same expression, each of its N results rounded: v becomes v(1 + d_k),
// |d_k| <= u = 2^-24. To first order an output is off by E = sum over k of J_k v_k d_k, J_k its derivative with respect
// to result k. The worst case, u * sum |J_k v_k|, is rigorous and useless after a few layers: propagated
// by absolute values it multiplies at every matrix by the ratio of its 1-norm to its 2-norm. So we take the standard
// probabilistic model (N. J. Higham, T. Mary, "A New Approach to Probabilistic Rounding Error Analysis", SIAM J. Sci.
// Comput. 41, 2019): the d_k are mean-independent with mean zero. E is then a martingale whose steps are at most
// u |J_k v_k|, and Azuma and Hoeffding give
//
//     P(|E| > lambda sigma) <= 2 exp(-lambda^2 / 2),    sigma^2 = u^2 sum over k of (J_k v_k)^2.
//
// For one dot product this is their lambda sqrt(n) u. No derivative need be formed: sigma^2 is exactly the variance of
// E when every d_k is +u or -u by the toss of a coin. So the twin runs `probes` times with coins and sigma is measured.
// lambda = 6: 2 exp(-18) = 3e-8 for each of the some 10^4 numbers of a fixture. A row's sigma is the largest of those
// estimated for its elements; from 32 probes one estimate is right to 12.5 percent, and with three such errors lambda
// is still 3.7. Actual roundings are spread over [-u, u] rather than at its ends, with 0.4 of that standard deviation,
// so the largest of thousands of errors should come to about a quarter of the bound; the tests print what it was.
//
// Where the two float32 programs differ, the twin rounds wherever either of them does: RoPE's exponent and power, the
// division of the softmax before and after the values, the steps of the soft cap. Sums run in sequence, the order with
// the largest partial sums; products are fused as in every matmul of both. exp and tanh err by less than one unit in
// the last place, at most 2u, in both.
//
// A quantized weight is multiplied with rows that were quantized to bytes as well (kernels/kernels.h,
// ActivationFormat): in each quantization block of 32 or 256 inputs, x becomes a multiple of a / 127, a being the
// largest magnitude there. So x is off by at most a / 254, and the twin moves it by that much, up or down by the toss
// of a coin, in addition to everything above. This is the same model with a larger unit; the row is rounded once for
// all weights that are multiplied with it. What differs from the above is that second-order effects are no longer
// negligible; the coins measure them too, since the twin computes the whole model with the moved rows.
#pragma once

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstdint>
#include <cstdlib>
#include <filesystem>
#include <functional>
#include <limits>
#include <map>
#include <numbers>
#include <optional>
#include <string>
#include <vector>

#include "kernels/formats.h"
#include "oracle/twin/facts.h"
#include "ref/base/token.h"
#include "ref/caches/recurrent_cache.h"
#include "ref/formats/checkpoint.h"
#include "ref/formats/json.h"

namespace draftproof::test {

inline constexpr double unit_roundoff = 0x1p-24;
inline constexpr double lambda = 6;
inline constexpr int probes = 32;

/// How a result is rounded: not at all, or by a factor of 1 + u or 1 - u, selected by a coin toss.
class Rounding {
 public:
  Rounding() = default;
  explicit Rounding(std::uint64_t seed) : state_(seed * 2 + 1), random_(true) {}

  double operator()(double x) { return by(x, 1); }
  double by(double x, double units) {
    if (!random_) return x;
    return x + x * signed_by_coin(units * unit_roundoff);
  }
  /// Returns x + size or x - size.
  double within(double x, double size) { return random_ ? x + signed_by_coin(size) : x; }

 private:
  double signed_by_coin(double size) {
    if (left_ == 0) {  // xorshift64* (Vigna 2016); one multiplication serves 64 coins
      state_ ^= state_ >> 12;
      state_ ^= state_ << 25;
      state_ ^= state_ >> 27;
      coins_ = state_ * 0x2545f4914f6cdd1dULL;
      left_ = 64;
    }
    --left_;
    const std::uint64_t coin = coins_ & (std::uint64_t{1} << 63);  // becomes the sign: a branch on it would be slow
    coins_ <<= 1;
    return std::bit_cast<double>(std::bit_cast<std::uint64_t>(size) ^ coin);
  }

  std::uint64_t state_ = 1;
  std::uint64_t coins_ = 0;
  int left_ = 0;
  bool random_ = false;
};

/// A matrix, row-major.
struct Rows {
  int width = 0;
  int operand_block = 0;  // of a weight: number of inputs per quantization block of its activations; 0: not quantized
  double offset = 0;      // of the weight of a norm: what is added to it
  std::vector<double> at;

  Rows() = default;
  Rows(int rows, int width_) : width(width_), at(static_cast<std::size_t>(rows) * width_) {}
  int rows() const { return width == 0 ? 0 : static_cast<int>(at.size()) / width; }
  double* row(int r) { return at.data() + static_cast<std::ptrdiff_t>(r) * width; }
  const double* row(int r) const { return at.data() + static_cast<std::ptrdiff_t>(r) * width; }
};

/// Mistakes that change no shape.
enum class Mistake {
  none,
  swapped_head_norms,  // q_norm on keys, k_norm on queries
  no_key_norm,
  keys_one_position_late,  // RoPE of a row's own key at p + 1
  interleaved_rope,        // pairs (2j, 2j + 1)
  no_key_bias,
  bias_on_turned_keys,  // added after RoPE
  unstretched_rope,
  evenly_stretched_rope,  // every wavelength `factor` times as long
  ungrown_queries,
  other_queries_grown,  // those of the layers whose do not grow, and the reverse
  plain_magnitude,      // cos and sin without yarn's factor
  no_output_bias,
  no_mlp_bias,
  other_experts_weights,  // normalized where they are not, and the reverse
  weighted_outputs,       // of experts whose inputs are weighed
  next_expert,            // expert e + 1 where the router says e
  no_shared_expert,
  ungated_shared_expert,
  heads_dealt_out,  // query head h reads kv head h mod kv_heads
  unscaled_scores,
  sees_the_next_row,
  blind_to_itself,  // all rows but the first
  swapped_gate_and_up,
  swapped_layer_norms,
  no_final_norm,
  norms_without_offset,
  no_gate,               // of attention
  gates_behind_queries,  // q_proj has all queries first
  whole_heads_turned,    // RoPE of all dimensions, its frequencies those of that width
  frequencies_of_heads,  // RoPE of some dimensions with frequencies of the whole width
  window_longer,         // by one
  window_shorter,
  window_for_chunk,
  reversed_taps,
  no_context_norm,
  context_input_norm,  // context rows through the layer's input norm
  context_one_late,    // RoPE of context keys at p + 1
  no_context_key_norm,
  other_causality,
  no_sinks,
  sinks_of_next_heads,
  next_mask,  // the embedding of token mask + 1
  no_embedding_scale,
  no_multiplier,
  no_cap,
  final_norm_without_offset,
  no_post_norms,   // of the outputs of attention and MLP
  scale_of_heads,  // of scores: 1 / sqrt(head_dim)
  no_score_cap,
  cap_before_scale,
  exact_gelu,             // that of erf
  swapped_ropes,          // of full and sliding layers
  stretched_everywhere,   // RoPE of sliding layers too
  rotated_width_divides,  // frequencies of proportional RoPE: those of its turned part
  no_value_norm,
  values_from_normed_keys,
  other_donor,            // the owner of the same kind before it
  shared_keys_turned_on,  // a layer without its own keys takes them turned once more
  no_layer_scalar,
  scalar_on_branch,  // on the last addition of a layer only
  no_layer_embeddings,
  unscaled_layer_table,
  routed_by_normed,  // by what the experts read
  no_expert_scale,
  turned_everywhere,  // also the layers whose q and k are not
  head_by_head,       // norms of q and k
  other_factors,      // of longrope: the long ones for the short ones, and the reverse
  no_residual_scale,
  no_logit_scale,
  no_mean,  // subtracted by norms
  no_norm_bias,
  no_relu,
  no_head_bias,
  no_embedding_norm,
  turned_forwards,  // where RoPE turns backwards
  no_sub_norms,     // behind attention and gates
  raw_alphas,       // of xIELU: without the softplus
  swapped_alphas,
  first_stream_only,  // behind the last layer
  unstretched_streams,
  unpredicted_streams,
  transposed_prediction,
  plain_correction,
  unscaled_router,
  no_output_scale,
  embeddings_on_all_streams,
  no_laurel,
  no_sparsity,
  unbiased_deviation,
  feature_first,        // EAGLE-3: the pair is [feature; embedding]
  unshifted_pairs,      // a row reads the feature of its own position
  next_feature_normed,  // once more or less
  other_residual,       // the feature where its norm is added to, and the reverse
  no_tap_norms,
  no_hidden_norm,
  no_later_norm,  // before the attention of all layers but the first
  later_layers_exchanged,
  masks_apart,      // P-EAGLE: a mask sees no mask but itself
  anchor_in_masks,  // it reads the anchor
  last_feature_in_masks,
  taps_one_late,           // what leaves the layers
  swapped_side_and_tap,    // of the stored kernels of DFlash2
  swapped_dynamic_side,    // the dynamic kernels of the other side
  kernels_of_convolved,    // those behind a sublayer from its convolved input
  anchor_has_predecessor,  // itself, where there is none
  no_convolution_behind,
  selector_from_anchor,  // every candidate behind the anchor
  selector_of_next,      // the codebooks exchanged
  no_markov_bias,
  markov_of_anchor,     // every draft token behind the anchor
  markov_of_own_token,  // W1 of the draft token itself
  markov_exchanged,     // W2 of the token before and W1 of the next
  rows_one_off,         // draft token i from the neighbor of its row
  exchanged_gates,      // of a short convolution: behind it the one before it, and the reverse
  ungated_inputs,       // of a short convolution
  one_row_late,         // a short convolution that does not see its own row
  no_skip,              // of a state space layer, D * x
  norm_before_gate,     // of a state space layer
  whole_norm,           // of all groups together
  no_conv_bias,
  exchanged_keys,    // B and C
  groups_dealt_out,  // head h reads group h mod groups
  no_step_bias,
  no_shared_mlp,   // beside experts
  no_expert_bias,  // of the choice
  bias_in_weights,
  no_routed_scale,
  unclamped_gates,
  plain_swiglu,  // of a clamped one: alpha 1
  ups_without_one,
  pairs_taken_for_halves,  // gates and ups in turns read as gates, then ups
  no_router_bias,
  rounded_ramp,  // of yarn, to whole pairs
  other_scores,  // of a router: sigmoids for a softmax, and the reverse
  no_groups,
  best_of_groups,    // groups chosen by their best expert, or by two where it is one
  no_state_factors,  // of what a state space layer projects
  no_shares,         // of what mixers side by side and the MLP give
  no_gate_factor,
  no_selection_norms,  // of what a selective scan selects
  no_latent_norm,
  no_query_norm,          // between the two matrices of queries
  layer_epsilon_inside,   // attention
  no_score_factor,        // of a stretched RoPE
  exchanged_latent_rows,  // of each head first those of its values, then of its keys
  one_decay,              // of Kimi's delta net: that of the first key dimension for all of its head
  silu_gate,              // the same
};

/// A Hugging Face folder or a GGUF file; names without "model.".
class TwinCheckpoint {
 public:
  explicit TwinCheckpoint(const std::filesystem::path& path) : TwinCheckpoint(Checkpoint(path)) {}
  explicit TwinCheckpoint(const Checkpoint& checkpoint) : config_(checkpoint.config()) {
    config_ = config_.find("text_config").value_or(config_);
    config_ = config_.find("transformer_layer_config").value_or(config_);
    const std::string type = config_.at("model_type").string();
    if (type.starts_with("gemma")) gemma = type[5] - '0';
    gemma3n = type.starts_with("gemma3n");
    const bool hybrid = type.starts_with("qwen3_5") || type == "qwen3_next";
    for (const auto& [name, tensor] : twin::decoder_tensors(checkpoint, config_)) {
      Rows& rows = tensors_[name];
      rows.width = tensor.width;
      const int block = traits(tensor.format).block_inputs;
      rows.operand_block = block > 1 ? block : 0;
      const bool norm = name.ends_with("norm.weight") || name.find("pre_fc_norm") != std::string::npos;
      if (hybrid && norm && !name.ends_with("linear_attn.norm.weight")) rows.offset = 1;
      if ((gemma == 2 || (gemma == 3 && !gemma3n)) && name.ends_with("norm.weight") &&
          checkpoint.metadata() == nullptr) {
        rows.offset = 1;
      }
      rows.at.assign(tensor.values.begin(), tensor.values.end());
    }
    facts = twin::decoder_facts(config_);
    heads = facts.heads;
    kv_heads = facts.kv_heads;
    head_dim = facts.head_dim;
    layers = static_cast<int>(facts.layers.size());
    epsilon = facts.epsilon;
    turned = head_dim;
    if (gemma != 0) return;
    use_rope(0);
    turned = facts.turned;
    if (hybrid) {
      recurrent = {.delta = {.key_heads = integer("linear_num_key_heads"),
                             .value_heads = integer("linear_num_value_heads"),
                             .key_dim = integer("linear_key_head_dim"),
                             .value_dim = integer("linear_value_head_dim")},
                   .conv_width = integer("linear_conv_kernel_dim")};
    }
    for (const twin::LayerFacts& layer : facts.layers) windows.push_back(layer.window);
  }

  /// Whether queries grow in the layer of this prefix, "layers.3.".
  bool grows_at(const std::string& prefix) const {
    if (!prefix.starts_with("layers.")) return false;
    return facts.layers[std::stoul(prefix.substr(std::string("layers.").size()))].grows;
  }

  /// Makes theta and stretch those of one RoPE.
  void use_rope(int i) {
    const twin::RopeFacts& rope = facts.ropes[static_cast<std::size_t>(i)];
    theta = rope.theta;
    stretch = rope.block;
    backwards = rope.backwards;
  }

  const Json& config() const { return config_; }
  bool has(const std::string& name) const { return tensors_.contains(name); }
  const Rows& whole_name(const std::string& name) const { return tensors_.at(name); }
  const Rows& operator[](const std::string& name) const { return tensors_.at(name + ".weight"); }
  void drop_offsets() {
    for (auto& [name, rows] : tensors_) rows.offset = 0;
  }
  const Rows& head() const { return (*this)[has("lm_head.weight") ? "lm_head" : "embed_tokens"]; }

  twin::DecoderFacts facts;
  int gemma = 0;  // the generation of a Gemma
  bool gemma3n = false;
  int heads = 0, kv_heads = 0, head_dim = 0, layers = 0;
  int turned = 0;            // dimensions of a head that RoPE turns
  RecurrentShape recurrent;  // of gated delta net layers
  double epsilon = 0, theta = 0;
  std::optional<Json> stretch;  // of RoPE's wavelengths: llama3, linear or yarn
  bool backwards = false;       // RoPE's
  bool long_context = false;    // longrope has its long factors
  std::vector<int> windows;     // per layer; the largest int for full attention

 private:
  int integer(const char* field) const { return static_cast<int>(config_.at(field).integer(1, 1 << 24)); }

  Json config_;
  std::map<std::string, Rows> tensors_;
};

/// Mistakes of a gated delta net that change no shape.
enum class Slip {
  none,
  reversed_taps,
  inputs_after_activation,  // the tail keeps SiLU(u)
  heads_dealt_out,          // value head h reads key head h mod key_heads, the order of GGUF files
  old_state_read,           // o before the row is folded in
  decay_after_read,         // r from the state before its decay
  unscaled_queries,
  mean_in_key_norm,
  no_beta,
  gate_of_attention,  // sigmoid(z) in place of SiLU(z)
  norm_after_gate,
  swapped_a_and_b,
  no_step_bias,
  one_decay,  // of channels that have their own: that of the first one of their head
};

/// Returns x as it is multiplied with this weight.
inline Rows activation_format(Rows x, const Rows& weight, Rounding& round) {
  if (weight.operand_block == 0) return x;
  for (std::size_t first = 0; first < x.at.size(); first += static_cast<std::size_t>(weight.operand_block)) {
    double* const block = x.at.data() + first;
    double largest = 0;
    for (int i = 0; i < weight.operand_block; ++i) largest = std::max(largest, std::abs(block[i]));
    for (int i = 0; i < weight.operand_block; ++i) block[i] = round.within(block[i], largest / 254);
  }
  return x;
}

inline Rows times(const Rows& x, const Rows& weight, Rounding& round) {
  Rows y(x.rows(), weight.rows());
  for (int r = 0; r < x.rows(); ++r) {
    double* const sums = y.row(r);
    for (int k = 0; k < x.width; ++k) {  // all sums interleaved, so that no addition waits for the previous one
      const double factor = x.row(r)[k];
      const double* const column = weight.at.data() + k;
      for (int n = 0; n < y.width; ++n) sums[n] = round(sums[n] + factor * column[n * weight.width]);
    }
  }
  return y;
}

/// Normalizes the vectors in each row, whose width is that of the weight.
inline Rows rms_norm(Rows x, const Rows& weight, double epsilon, Rounding& round) {
  const auto width = static_cast<std::size_t>(weight.width);
  std::vector<double> factors = weight.at;
  if (weight.offset != 0) {
    for (double& factor : factors) factor = round(factor + weight.offset);
  }
  for (std::size_t first = 0; first < x.at.size(); first += width) {
    double* const v = x.at.data() + first;
    double squares = 0;
    for (std::size_t i = 0; i < width; ++i) squares = round(squares + v[i] * v[i]);
    const double mean = round(round(squares / static_cast<double>(width)) + epsilon);
    const double factor = round(1 / round(std::sqrt(mean)));
    for (std::size_t i = 0; i < width; ++i) v[i] = round(round(v[i] * factor) * factors[i]);
  }
  return x;
}

/// The norm of each `width` values, with its part of the weight.
inline Rows norm_of_parts(Rows x, const Rows& weight, int width, double epsilon, Rounding& round) {
  for (int first = 0; first < x.width; first += width) {
    Rows part(x.rows(), width);
    Rows of(1, width);
    std::copy_n(weight.at.begin() + first % weight.width, width, of.at.begin());
    for (int r = 0; r < x.rows(); ++r) std::copy_n(x.row(r) + first, width, part.row(r));
    part = rms_norm(std::move(part), of, epsilon, round);
    for (int r = 0; r < x.rows(); ++r) std::copy_n(part.row(r), width, x.row(r) + first);
  }
  return x;
}

inline void scale(Rows& x, double factor, Rounding& round) {
  if (factor == 1) return;
  for (double& value : x.at) value = round(value * round(factor));
}

inline Rows sum_of(Rows x, const Rows& y, Rounding& round) {
  for (std::size_t i = 0; i < x.at.size(); ++i) x.at[i] = round(x.at[i] + y.at[i]);
  return x;
}

inline Rows below(Rows top, const Rows& bottom) {
  top.width = bottom.width;
  top.at.insert(top.at.end(), bottom.at.begin(), bottom.at.end());
  return top;
}

inline Rows ones(int width) {
  Rows weight(1, width);
  std::ranges::fill(weight.at, 1.0);
  return weight;
}

/// cos and sin for positions 0, 1, ...: one table per run, because a program rounds an angle once for all layers.
struct Angles {
  int head_dim;
  Rows cosine, sine;  // [positions][turned / 2]

  Angles(int head_dim_, const std::vector<double>& frequencies, int positions, Rounding& round)
      : head_dim(head_dim_),
        cosine(positions, static_cast<int>(frequencies.size())),
        sine(positions, static_cast<int>(frequencies.size())) {
    for (int p = 0; p < positions; ++p) {
      for (int j = 0; j < cosine.width; ++j) {
        const double angle = round(p * frequencies[static_cast<std::size_t>(j)]);
        cosine.row(p)[j] = round(std::cos(angle));
        sine.row(p)[j] = round(std::sin(angle));
      }
    }
  }
  Angles(const TwinCheckpoint& checkpoint, int positions, Rounding& round, Mistake mistake = Mistake::none)
      : head_dim(checkpoint.head_dim) {
    const int turned = mistake == Mistake::whole_heads_turned ? head_dim : checkpoint.turned;
    cosine = Rows(positions, turned / 2);
    sine = Rows(positions, turned / 2);
    for (int j = 0; j < cosine.width; ++j) {
      const double exponent = round(2.0 * j / (mistake == Mistake::frequencies_of_heads ? head_dim : turned));
      double frequency = round(1 / round(std::pow(checkpoint.theta, exponent)));
      if (checkpoint.has("rope_freqs.weight") && mistake != Mistake::unstretched_rope) {
        frequency = round(frequency / checkpoint["rope_freqs"].at[j]);
      }
      double magnitude = 1;
      if (checkpoint.stretch && mistake != Mistake::unstretched_rope) {
        const std::string kind = checkpoint.stretch->at("rope_type").string();
        const auto factor = checkpoint.stretch->find("factor");
        const double stretched = factor ? round(frequency / factor->number()) : frequency;
        if (kind == "longrope") {
          const bool far = checkpoint.long_context != (mistake == Mistake::other_factors);
          const Json factors = checkpoint.stretch->at(far ? "long_factor" : "short_factor");
          frequency = round(1 / round(factors[static_cast<std::size_t>(j)].number() * round(1 / frequency)));
        } else if (kind == "linear" || mistake == Mistake::evenly_stretched_rope) frequency = stretched;
        else if (kind == "llama3") frequency = llama3(checkpoint, frequency, stretched, round);
        else frequency = yarn(checkpoint, j, frequency, stretched, round, mistake == Mistake::rounded_ramp);
        if (mistake == Mistake::plain_magnitude) magnitude = 1;
        else if (kind == "yarn") magnitude = yarn_magnitude(*checkpoint.stretch);
        else if (kind == "longrope") magnitude = longrope_magnitude(checkpoint);
      }
      if (checkpoint.backwards && mistake != Mistake::turned_forwards) frequency = -frequency;
      for (int p = 0; p < positions; ++p) {
        const double angle = round(p * frequency);
        cosine.row(p)[j] = round(std::cos(angle));
        sine.row(p)[j] = round(std::sin(angle));
        if (magnitude == 1) continue;
        cosine.row(p)[j] = round(cosine.row(p)[j] * round(magnitude));
        sine.row(p)[j] = round(sine.row(p)[j] * round(magnitude));
      }
    }
  }

 private:
  static double llama3(const TwinCheckpoint& checkpoint, double frequency, double stretched, Rounding& round) {
    const auto number = [&](const char* name) { return checkpoint.stretch->at(name).number(); };
    const double low = number("low_freq_factor");
    const double high = number("high_freq_factor");
    const double wavelength = round(2 * std::numbers::pi / frequency);
    const double turns = round(number("original_max_position_embeddings") / wavelength);
    const double kept = std::clamp(round(round(turns - low) / (high - low)), 0.0, 1.0);
    if (kept == 0) return stretched;
    if (kept == 1) return frequency;
    return round(round(round(round(1 - kept) * frequency) / number("factor")) + round(kept * frequency));
  }

  static double given(const Json& block, const char* name, double default_value) {
    const auto value = block.find(name);
    return value ? value->number() : default_value;
  }

  static double yarn(const TwinCheckpoint& checkpoint, int j, double frequency, double stretched, Rounding& round,
                     bool rounded_ramp) {
    const Json& block = *checkpoint.stretch;
    const auto pair_that_turns = [&](double times) {
      const double wavelength = block.at("original_max_position_embeddings").number() / (2 * std::numbers::pi * times);
      return checkpoint.head_dim * std::log(wavelength) / (2 * std::log(checkpoint.theta));
    };
    double low = pair_that_turns(given(block, "beta_fast", 32));
    double high = pair_that_turns(given(block, "beta_slow", 1));
    const auto truncate = block.find("truncate");
    if (!truncate || truncate->boolean() || rounded_ramp) {
      low = std::floor(low);
      high = std::ceil(high);
    }
    low = std::max(low, 0.0);
    high = std::min(high, checkpoint.head_dim - 1.0);
    const double slowed = std::clamp(round(round(j - low) / round(high - low)), 0.0, 1.0);
    return round(round(stretched * slowed) + round(frequency * round(1 - slowed)));
  }

  static double longrope_magnitude(const TwinCheckpoint& checkpoint) {
    const double original = checkpoint.stretch->at("original_max_position_embeddings").number();
    const double factor = checkpoint.config().at("max_position_embeddings").number() / original;
    return factor <= 1 ? 1 : std::sqrt(1 + std::log(factor) / std::log(original));
  }

  static double yarn_magnitude(const Json& block) {
    const double factor = block.at("factor").number();
    const auto at = [&](double weight) { return factor <= 1 ? 1 : 0.1 * weight * std::log(factor) + 1; };
    if (const auto told = block.find("attention_factor")) return told->number();
    const double mscale = given(block, "mscale", 0);
    const double all = given(block, "mscale_all_dim", 0);
    return mscale != 0 && all != 0 ? at(mscale) / at(all) : at(1);
  }
};

inline void rotate(Rows& x, const Angles& angles, const std::vector<int>& positions, Rounding& round,
                   bool interleaved) {
  const int half = angles.cosine.width;
  for (int r = 0; r < x.rows(); ++r) {
    for (double* head = x.row(r); head < x.row(r) + x.width; head += angles.head_dim) {
      for (int j = 0; j < half; ++j) {
        const double c = angles.cosine.row(positions[r])[j];
        const double s = angles.sine.row(positions[r])[j];
        double& a = head[interleaved ? 2 * j : j];
        double& b = head[interleaved ? 2 * j + 1 : j + half];
        const double turned = round(a * c - round(b * s));
        b = round(b * c + round(a * s));
        a = turned;
      }
    }
  }
}

/// x plus the bias of this name, if there is one.
inline Rows biased(const TwinCheckpoint& checkpoint, const std::string& name, Rows x, Rounding& round) {
  if (!checkpoint.has(name)) return x;
  const Rows& bias = checkpoint.whole_name(name);
  for (int r = 0; r < x.rows(); ++r) {
    for (int i = 0; i < x.width; ++i) {
      double& v = x.row(r)[i];
      v = round(v + bias.at[static_cast<std::size_t>(i)]);
    }
  }
  return x;
}

/// Multiplies each row by 1 + beta * ln(1 + floor((position + ahead) / step)).
inline void grow(const twin::GrowthFacts& growth, Rows& x, const std::vector<int>& positions, Rounding& round) {
  for (int r = 0; r < x.rows(); ++r) {
    const std::int64_t steps = (positions[static_cast<std::size_t>(r)] + growth.ahead) / growth.step;
    const double grown = round.by(std::log(1.0 + static_cast<double>(steps)), 2);
    const double factor = round(1 + round(growth.beta * grown));
    for (int i = 0; i < x.width; ++i) x.row(r)[i] = round(x.row(r)[i] * factor);
  }
}

/// The norm before a projection, where a layer has it.
inline Rows sub_normed(const TwinCheckpoint& checkpoint, const std::string& name, Rows x, Rounding& round,
                       Mistake mistake) {
  if (!checkpoint.has(name + ".weight") || mistake == Mistake::no_sub_norms) return x;
  return rms_norm(std::move(x), checkpoint[name], checkpoint.epsilon, round);
}

inline double exact_or_tanh_gelu(double x, Rounding& round, Mistake mistake) {
  if (mistake == Mistake::exact_gelu) return 0.5 * x * (1 + std::erf(x / std::numbers::sqrt2));
  const double cube = round(round(x * x) * x);
  const double u = round(round(std::sqrt(2 / std::numbers::pi)) * round(x + round(0.044715 * cube)));
  return round(round(0.5 * x) * round(1 + round.by(std::tanh(u), 2)));
}

inline double softplus(double x) { return std::log1p(std::exp(-std::abs(x))) + std::max(x, 0.0); }

/// xIELU with the numbers of a layer.
struct XieluTwin {
  double positive = 0, negative = 0, beta = 0, epsilon = 0;

  XieluTwin(const TwinCheckpoint& checkpoint, const std::string& prefix, Rounding& round, Mistake mistake) {
    const auto number = [&](const char* name) { return checkpoint.whole_name(prefix + "act_fn." + name).at[0]; };
    const auto made = [&](double alpha) { return mistake == Mistake::raw_alphas ? alpha : round(softplus(alpha)); };
    const bool swapped = mistake == Mistake::swapped_alphas;
    beta = number("beta");
    epsilon = number("eps");
    positive = made(number(swapped ? "alpha_n" : "alpha_p"));
    negative = round(beta + made(number(swapped ? "alpha_p" : "alpha_n")));
  }

  double operator()(double x, Rounding& round) const {
    const double linear = round(beta * x);
    if (x > 0) return round(round(round(positive * x) * x) + linear);
    return round(round(round(round.by(std::expm1(std::min(x, epsilon)), 2) - x) * negative) + linear);
  }
};

/// Makes gates what the clamped SwiGLU of them and the ups is.
inline void clamped_swiglu(const TwinCheckpoint& checkpoint, Rows& gate, Rows& up, Rounding& round, Mistake mistake) {
  const double alpha = mistake == Mistake::plain_swiglu ? 1 : round(checkpoint.facts.swiglu_alpha);
  const double limit = mistake == Mistake::unclamped_gates ? 1e9 : checkpoint.facts.swiglu_limit;
  for (std::size_t i = 0; i < gate.at.size(); ++i) {
    const double g = round(alpha * std::min(gate.at[i], limit));
    const double u = std::clamp(up.at[i], -limit, limit);
    const double more = mistake == Mistake::ups_without_one ? u : round(u + 1);
    gate.at[i] = round(round(g / round(1 + round.by(std::exp(-g), 2))) * round(more / alpha));
  }
}

/// Of rows whose gates and ups are in turns, the first half and the second one.
inline void take_for_halves(Rows& gate, Rows& up) {
  const Rows gates = gate;
  const Rows ups = up;
  for (int r = 0; r < gate.rows(); ++r) {
    for (int i = 0; i < 2 * gate.width; ++i) {
      const double value = (i % 2 == 0 ? gates : ups).row(r)[i / 2];
      (i < gate.width ? gate : up).row(r)[i % gate.width] = value;
    }
  }
}

/// Computes down(SiLU(gate x) * up x), or without a gate down(activation(up x)); `prefix` is everything before
/// "gate_proj".
inline Rows gated_mlp(const TwinCheckpoint& checkpoint, const std::string& prefix, const Rows& x, Rounding& round,
                      Mistake mistake) {
  const auto project = [&](const char* part, const Rows& from) {
    Rows y = times(from, checkpoint[prefix + part + "_proj"], round);
    if (mistake == Mistake::no_mlp_bias) return y;
    return biased(checkpoint, prefix + part + "_proj.bias", std::move(y), round);
  };
  const Rows rounded = activation_format(x, checkpoint[prefix + "up_proj"], round);
  if (!checkpoint.has(prefix + "gate_proj.weight")) {
    Rows up = project("up", rounded);
    if (checkpoint.has(prefix + "act_fn.alpha_p")) {
      const XieluTwin xielu(checkpoint, prefix, round, mistake);
      for (double& v : up.at) v = xielu(v, round);
      return project("down", activation_format(std::move(up), checkpoint[prefix + "down_proj"], round));
    }
    for (double& v : up.at) {
      if (checkpoint.facts.gelu) v = exact_or_tanh_gelu(v, round, mistake);
      else v = v > 0 || mistake == Mistake::no_relu ? round(v * v) : 0;
    }
    return project("down", activation_format(std::move(up), checkpoint[prefix + "down_proj"], round));
  }
  Rows gate = project("gate", rounded);
  Rows up = project("up", rounded);
  if (mistake != Mistake::no_gate_factor) scale(gate, checkpoint.facts.gate_factor, round);
  if (mistake == Mistake::swapped_gate_and_up) std::swap(gate, up);
  if (mistake == Mistake::pairs_taken_for_halves) take_for_halves(gate, up);
  if (checkpoint.facts.swiglu_limit != 0) {
    clamped_swiglu(checkpoint, gate, up, round, mistake);
    return project("down", activation_format(std::move(gate), checkpoint[prefix + "down_proj"], round));
  }
  for (std::size_t i = 0; i < gate.at.size(); ++i) {
    const double g = gate.at[i];
    if (checkpoint.facts.relu2) gate.at[i] = g > 0 || mistake == Mistake::no_relu ? round(round(g * g) * up.at[i]) : 0;
    else gate.at[i] = round(round(g / round(1 + round.by(std::exp(-g), 2))) * up.at[i]);
  }
  gate = sub_normed(checkpoint, prefix + "ffn_sub_norm", std::move(gate), round, mistake);
  return project("down", activation_format(std::move(gate), checkpoint[prefix + "down_proj"], round));
}

/// The experts that are chosen by these values, ascending: in the groups whose two best ones have the largest sums.
inline std::vector<int> chosen_experts(const twin::DecoderFacts& facts, const std::vector<double>& by,
                                       Mistake mistake) {
  const auto largest_first = [](const std::vector<double>& values) {
    std::vector<int> ids(values.size());
    for (std::size_t i = 0; i < ids.size(); ++i) ids[i] = static_cast<int>(i);
    std::ranges::stable_sort(ids, [&](int a, int b) { return values[a] > values[b]; });
    return ids;
  };
  const std::size_t size = by.size() / static_cast<std::size_t>(facts.groups);
  std::vector<double> sums;
  for (std::size_t first = 0; first < by.size(); first += size) {
    std::vector<double> group(by.begin() + first, by.begin() + first + size);
    std::ranges::sort(group, std::greater());
    const bool two = (facts.best_of_group == 2) != (mistake == Mistake::best_of_groups);
    sums.push_back(group[0] + (facts.groups > 1 && two ? group[1] : 0));
  }
  std::vector<int> groups = largest_first(sums);
  if (mistake != Mistake::no_groups) groups.resize(static_cast<std::size_t>(facts.groups_chosen));
  std::vector<int> chosen;
  for (const int id : largest_first(by)) {
    const bool kept = std::ranges::find(groups, id / static_cast<int>(size)) != groups.end();
    if (kept && chosen.size() < static_cast<std::size_t>(facts.chosen)) chosen.push_back(id);
  }
  std::ranges::sort(chosen);
  return chosen;
}

/// Computes a mixture of experts, stored one by one, and the shared one. `prefix` is everything before "gate.weight".
inline Rows mixed_experts(const TwinCheckpoint& checkpoint, const std::string& prefix, const Rows& x, Rounding& round,
                          Mistake mistake) {
  const twin::DecoderFacts& facts = checkpoint.facts;
  Rows logits = times(x, checkpoint[prefix + "gate"], round);
  if (mistake != Mistake::no_router_bias) logits = biased(checkpoint, prefix + "gate.bias", std::move(logits), round);
  const std::string bias = prefix + "gate.e_score_correction_bias";
  const bool sigmoids = facts.sigmoid_scores != (mistake == Mistake::other_scores);
  const bool normalized = facts.normalized != (mistake == Mistake::other_experts_weights);
  const bool latent = checkpoint.has(prefix + "fc1_latent_proj.weight");
  const Rows all = latent ? times(x, checkpoint[prefix + "fc1_latent_proj"], round) : x;
  Rows y(all.rows(), all.width);
  for (int r = 0; r < x.rows(); ++r) {
    const double* const of = logits.row(r);
    const auto count = static_cast<std::size_t>(logits.width);
    const double largest = *std::max_element(of, of + count);
    std::vector<double> p(count);
    double total = 0;
    for (std::size_t e = 0; e < count; ++e) {
      p[e] = sigmoids ? round(1 / round(1 + round.by(std::exp(-of[e]), 2)))
                      : round.by(std::exp(round(of[e] - largest)), 2);
      total = round(total + p[e]);
    }
    for (double& share : p) share = sigmoids ? share : round(share / total);
    std::vector<double> by = p;
    for (std::size_t e = 0; e < count && checkpoint.has(bias) && mistake != Mistake::no_expert_bias; ++e) {
      by[e] = round(by[e] + checkpoint.whole_name(bias).at[e]);
    }
    if (mistake == Mistake::bias_in_weights) p = by;
    const std::vector<int> chosen = chosen_experts(facts, by, mistake);
    double sum = 0;
    for (const int id : chosen) sum = round(sum + p[id]);
    sum = std::max(sum + facts.sum_added, facts.sum_min);
    Rows one(1, all.width);
    std::copy_n(all.row(r), all.width, one.row(0));
    for (const int id : chosen) {
      double weight = normalized ? round(p[id] / sum) : p[id];
      if (mistake != Mistake::no_routed_scale) weight = round(weight * round(facts.routed_scale));
      const int expert = mistake == Mistake::next_expert ? (id + 1) % logits.width : id;
      Rows read = one;
      if (facts.weighted_inputs && mistake != Mistake::weighted_outputs) {
        for (double& value : read.at) value = round(weight * value);
        weight = 1;
      }
      const Rows out = gated_mlp(checkpoint, prefix + "experts." + std::to_string(expert) + ".", read, round, mistake);
      for (int i = 0; i < all.width; ++i) y.row(r)[i] = round(y.row(r)[i] + round(weight * out.row(0)[i]));
    }
  }
  if (latent) y = times(y, checkpoint[prefix + "fc2_latent_proj"], round);
  if (checkpoint.has(prefix + "shared_mlp.down_proj.weight") && mistake != Mistake::no_shared_mlp) {
    y = sum_of(std::move(y), gated_mlp(checkpoint, prefix + "shared_mlp.", x, round, mistake), round);
  }
  if (!checkpoint.has(prefix + "shared_expert.up_proj.weight") || mistake == Mistake::no_shared_expert) return y;
  const Rows out = gated_mlp(checkpoint, prefix + "shared_expert.", x, round, mistake);
  const std::string gate_name = prefix + "shared_expert_gate";
  if (!checkpoint.has(gate_name + ".weight")) return sum_of(std::move(y), out, round);
  const Rows gates = times(x, checkpoint[gate_name], round);
  for (int r = 0; r < x.rows(); ++r) {
    const double gate = mistake == Mistake::ungated_shared_expert ? 1 : round(1 / (1 + std::exp(-gates.row(r)[0])));
    for (int i = 0; i < x.width; ++i) y.row(r)[i] = round(y.row(r)[i] + round(gate * out.row(r)[i]));
  }
  return y;
}

/// A gated delta net.
struct DeltaLayer {
  RecurrentShape shape;
  double epsilon = 0;
  Rows in;           // [channels + value_floats + 2 * value_heads][hidden]: qkv, z, b, a
  Rows out;          // [hidden][value_floats]
  Rows convolution;  // [conv_width][channels]
  std::vector<double> a_log, dt_bias, norm;
  // With decays of channels a and z are products of narrow rows, which `in` has in place of z: [..][key_dim].
  Rows forget = {}, gate = {};
};

inline DeltaLayer delta_layer(const TwinCheckpoint& checkpoint, const std::string& prefix) {
  DeltaLayer layer;
  layer.shape = checkpoint.recurrent;
  layer.epsilon = checkpoint.epsilon;
  for (const char* part : {"in_proj_qkv", "in_proj_z", "in_proj_b", "in_proj_a"}) {
    layer.in = below(std::move(layer.in), checkpoint[prefix + part]);
  }
  layer.out = checkpoint[prefix + "out_proj"];
  const Rows& taps = checkpoint[prefix + "conv1d"];  // [channels][conv_width]
  layer.convolution = Rows(taps.width, taps.rows());
  for (int channel = 0; channel < taps.rows(); ++channel) {
    for (int tap = 0; tap < taps.width; ++tap) layer.convolution.row(tap)[channel] = taps.row(channel)[tap];
  }
  layer.a_log = checkpoint.whole_name(prefix + "A_log").at;
  layer.dt_bias = checkpoint.whole_name(prefix + "dt_bias").at;
  layer.norm = checkpoint[prefix + "norm"].at;
  return layer;
}

/// The same of Kimi Linear. `prefix` ends in "self_attn.".
inline DeltaLayer kimi_delta_layer(const TwinCheckpoint& checkpoint, const std::string& prefix) {
  DeltaLayer layer;
  layer.epsilon = checkpoint.epsilon;
  for (const char* part : {"q_proj", "k_proj", "v_proj", "g_a_proj", "f_a_proj", "b_proj"}) {
    layer.in = below(std::move(layer.in), checkpoint[prefix + part]);
  }
  layer.out = checkpoint[prefix + "o_proj"];
  layer.forget = checkpoint[prefix + "f_b_proj"];
  layer.gate = checkpoint[prefix + "g_b_proj"];
  layer.a_log = checkpoint.whole_name(prefix + "A_log").at;
  layer.dt_bias = checkpoint.whole_name(prefix + "dt_bias").at;
  layer.norm = checkpoint[prefix + "o_norm"].at;
  const int heads = static_cast<int>(layer.a_log.size());
  const int dim = static_cast<int>(layer.norm.size());
  layer.shape = {
      .delta = {.key_heads = heads, .value_heads = heads, .key_dim = dim, .value_dim = dim, .channel_decays = true},
      .conv_width = checkpoint[prefix + "q_conv1d"].width};
  layer.convolution = Rows(layer.shape.conv_width, layer.shape.channels());
  for (int i = 0; const char part : {'q', 'k', 'v'}) {
    const Rows& taps = checkpoint[prefix + part + "_conv1d"];
    for (int channel = 0; channel < taps.rows(); ++channel, ++i) {
      for (int tap = 0; tap < taps.width; ++tap) layer.convolution.row(tap)[i] = taps.row(channel)[tap];
    }
  }
  return layer;
}

inline double sigmoid(double x) { return 1 / (1 + std::exp(-x)); }

/// The layer in float64, every result rounded as `round` says, in the order in which a float32 program computes it.
inline Rows delta_net_of(const DeltaLayer& layer, const Rows& n, Rounding& round, Slip slip = Slip::none) {
  const RecurrentShape& shape = layer.shape;
  const DeltaShape& d = shape.delta;
  const int channels = shape.channels();
  const int keys = shape.key_floats();
  const int values = shape.value_floats();
  const int taps = shape.conv_width;
  const auto silu = [&](double x) { return round(x / round(1 + round.by(std::exp(-x), 2))); };
  std::vector<std::vector<double>> inputs;  // of the convolution
  std::vector<double> state(static_cast<std::size_t>(d.value_heads) * d.key_dim * d.value_dim);
  const Rows projected = times(n, layer.in, round);
  const auto part = [&](int first, int width) {
    Rows columns(n.rows(), width);
    for (int r = 0; r < n.rows(); ++r) std::copy_n(projected.row(r) + first, width, columns.row(r));
    return columns;
  };
  const int decays = delta_decays(d);
  const int narrow = d.channel_decays ? d.key_dim : values;  // what stands for z
  const Rows all_z = d.channel_decays ? times(part(channels, narrow), layer.gate, round) : part(channels, values);
  const Rows all_b = part(projected.width - (d.channel_decays ? 1 : 2) * d.value_heads, d.value_heads);
  const Rows all_a = d.channel_decays ? times(part(channels + narrow, narrow), layer.forget, round)
                                      : part(projected.width - d.value_heads, d.value_heads);
  Rows mixed(n.rows(), values);
  for (int r = 0; r < n.rows(); ++r) {
    const double* const z = all_z.row(r);
    const double* b = all_b.row(r);
    const double* a = all_a.row(r);
    if (slip == Slip::swapped_a_and_b) std::swap(a, b);
    inputs.emplace_back(projected.row(r), projected.row(r) + channels);
    std::vector<double> c(static_cast<std::size_t>(channels));
    for (int ch = 0; ch < channels; ++ch) {
      for (int j = 0; j < taps; ++j) {
        const int at = r - (taps - 1) + j;
        if (at < 0) continue;
        const int tap = slip == Slip::reversed_taps ? taps - 1 - j : j;
        double input = inputs[at][ch];
        if (slip == Slip::inputs_after_activation && at < r) input *= sigmoid(input);
        c[ch] = round(c[ch] + layer.convolution.row(tap)[ch] * input);
      }
      c[ch] = silu(c[ch]);
    }
    for (int vector = 0; vector < 2 * d.key_heads; ++vector) {  // of q, then of k
      double* const x = &c[vector * d.key_dim];
      double sum = 0;
      for (int i = 0; i < d.key_dim; ++i) sum = round(sum + x[i] * x[i]);
      if (slip == Slip::mean_in_key_norm) sum /= d.key_dim;
      const double factor = round(1 / round(std::sqrt(round(sum + 1e-6))));
      const bool is_query = vector < d.key_heads && slip != Slip::unscaled_queries;
      const double scale = round(is_query ? 1 / std::sqrt(double{1} * d.key_dim) : 1);
      for (int i = 0; i < d.key_dim; ++i) x[i] = round(round(round(x[i] * factor) * scale));
    }
    for (int h = 0; h < d.value_heads; ++h) {
      const int group = d.value_heads / d.key_heads;
      const int key_head = slip == Slip::heads_dealt_out ? h % d.key_heads : h / group;
      const double* const q = &c[key_head * d.key_dim];
      const double* const k = &c[keys + key_head * d.key_dim];
      const double* const v = &c[2 * keys + h * d.value_dim];
      const double beta = slip == Slip::no_beta ? 1 : round.by(sigmoid(b[h]), 2);
      std::vector<double> decay;  // of each key dimension, or of all
      for (int i = 0; i < decays; ++i) {
        const int at = h * decays + (slip == Slip::one_decay ? 0 : i);
        const double bias = slip == Slip::no_step_bias ? 0 : layer.dt_bias[at];
        const double step = round.by(std::log1p(std::exp(round(a[at] + bias))), 2);
        const double g = round(-round.by(std::exp(layer.a_log[h]), 2) * step);
        decay.push_back(round.by(std::exp(g), 2));
      }
      double* const s = &state[static_cast<std::size_t>(h) * d.key_dim * d.value_dim];
      std::vector<double> o(d.value_dim);
      for (int j = 0; j < d.value_dim; ++j) {
        double read = 0;
        for (int i = 0; i < d.key_dim; ++i) {
          double& element = s[i * d.value_dim + j];
          const double before = element;
          element = round(element * decay[decays == 1 ? 0 : i]);
          read = round(read + (slip == Slip::decay_after_read ? before : element) * k[i]);
        }
        const double delta = round(beta * round(v[j] - read));
        for (int i = 0; i < d.key_dim; ++i) {
          double& element = s[i * d.value_dim + j];
          if (slip == Slip::old_state_read) o[j] = round(o[j] + element * q[i]);
          element = round(element + k[i] * delta);
          if (slip != Slip::old_state_read) o[j] = round(o[j] + element * q[i]);
        }
      }
      const double* const gates = z + h * d.value_dim;
      if (slip == Slip::norm_after_gate) {
        for (int j = 0; j < d.value_dim; ++j) o[j] *= silu(gates[j]);
      }
      double sum = 0;
      for (const double x : o) sum = round(sum + x * x);
      const double factor = round(1 / round(std::sqrt(round(round(sum / d.value_dim) + layer.epsilon))));
      for (int j = 0; j < d.value_dim; ++j) {
        const double normed = round(round(o[j] * factor) * layer.norm[j]);
        double& out = mixed.row(r)[h * d.value_dim + j];
        if (d.channel_decays != (slip == Slip::gate_of_attention)) {  // the gate of attention
          out = round(normed / round(1 + round.by(std::exp(-gates[j]), 2)));
        } else {
          out = round((slip == Slip::norm_after_gate ? 1 : silu(gates[j])) * normed);
        }
      }
    }
  }
  return times(mixed, layer.out, round);
}

/// A gated short convolution over all rows of a text. `prefix` ends in "conv.".
inline Rows short_convolution_of(const TwinCheckpoint& checkpoint, const std::string& prefix, const Rows& n,
                                 Rounding& round, Mistake mistake) {
  const Rows& taps = checkpoint[prefix + "conv"];  // [channels][width]
  const int channels = taps.rows();
  const Rows projected = times(n, checkpoint[prefix + "in_proj"], round);
  Rows mixed(n.rows(), channels);
  for (int r = 0; r < n.rows(); ++r) {
    for (int i = 0; i < channels; ++i) {
      const bool exchanged = mistake == Mistake::exchanged_gates;
      double sum = 0;
      for (int j = 0; j < taps.width; ++j) {
        const int at = r - (taps.width - 1) + j - (mistake == Mistake::one_row_late ? 1 : 0);
        if (at < 0) continue;
        const double* const of = projected.row(at);
        const double gate = of[exchanged ? channels + i : i];
        const double x = of[2 * channels + i];
        const double input = mistake == Mistake::ungated_inputs ? x : round(gate * x);
        const int tap = mistake == Mistake::reversed_taps ? taps.width - 1 - j : j;
        sum = round(sum + round(taps.row(i)[tap] * input));
      }
      mixed.row(r)[i] = round(projected.row(r)[exchanged ? i : channels + i] * sum);
    }
  }
  return times(mixed, checkpoint[prefix + "out_proj"], round);
}

/// A layer of Mamba-2 over all rows of a text, in the order in which a float32 program computes it. `prefix` ends in
/// "mamba.".
inline Rows state_space_of(const TwinCheckpoint& checkpoint, const std::string& prefix, const Rows& n, Rounding& round,
                           Mistake mistake) {
  const Rows& taps = checkpoint[prefix + "conv1d"];  // [channels][width]
  const auto vector = [&](const char* name) -> const std::vector<double>& {
    return checkpoint.whole_name(prefix + name).at;
  };
  const int heads = static_cast<int>(vector("A_log").size());
  const int inner = checkpoint[prefix + "out_proj"].width;
  const bool norms = checkpoint.has(prefix + "norm.weight");
  const int channels = taps.rows();
  const int groups = checkpoint.facts.state_groups;
  const int dim = inner / heads;
  const int keys = (channels - inner) / 2;
  const int states = keys / groups;
  const auto silu = [&](double x) { return round(x / round(1 + round.by(std::exp(-x), 2))); };
  Rows projected = times(n, checkpoint[prefix + "in_proj"], round);
  for (int r = 0; r < n.rows() && mistake != Mistake::no_state_factors; ++r) {
    double* next = projected.row(r);
    std::size_t part = 0;
    for (const int width : {inner, inner, keys, keys, heads}) {
      const double factor = checkpoint.facts.state_factors[part++];
      for (int i = 0; i < width && factor != 1; ++i) next[i] = round(next[i] * round(factor));
      next += width;
    }
  }
  std::vector<double> state(static_cast<std::size_t>(inner) * states);
  Rows mixed(n.rows(), inner);
  for (int r = 0; r < n.rows(); ++r) {
    const double* const z = projected.row(r);
    const double* const d = z + inner + channels;
    std::vector<double> c(static_cast<std::size_t>(channels));
    for (int i = 0; i < channels; ++i) {
      double sum = 0;
      for (int j = 0; j < taps.width; ++j) {
        const int at = r - (taps.width - 1) + j;
        if (at < 0) continue;
        const int tap = mistake == Mistake::reversed_taps ? taps.width - 1 - j : j;
        sum = round(sum + round(taps.row(i)[tap] * projected.row(at)[inner + i]));
      }
      c[i] = silu(mistake == Mistake::no_conv_bias ? sum : round(sum + vector("conv1d.bias")[i]));
    }
    const bool exchanged = mistake == Mistake::exchanged_keys;
    const double* const b = &c[inner + (exchanged ? keys : 0)];
    const double* const q = &c[inner + (exchanged ? 0 : keys)];
    std::vector<double> o(static_cast<std::size_t>(inner));
    for (int h = 0; h < heads; ++h) {
      const int group = mistake == Mistake::groups_dealt_out ? h % groups : h / (heads / groups);
      const double bias = mistake == Mistake::no_step_bias ? 0 : vector("dt_bias")[h];
      const double step = round.by(std::log1p(std::exp(round(d[h] + bias))), 2);
      const double decay = round.by(std::exp(round(-round.by(std::exp(vector("A_log")[h]), 2) * step)), 2);
      double* const s = &state[static_cast<std::size_t>(h) * states * dim];
      for (int p = 0; p < dim; ++p) {
        const double x = c[h * dim + p];
        const double value = round(step * x);
        double sum = 0;
        for (int i = 0; i < states; ++i) {
          double& element = s[i * dim + p];
          element = round(round(element * decay) + round(b[group * states + i] * value));
          sum = round(sum + round(q[group * states + i] * element));
        }
        o[h * dim + p] = mistake == Mistake::no_skip ? sum : round(sum + round(vector("D")[h] * x));
      }
    }
    const bool late = norms && checkpoint.facts.norm_before_gate != (mistake == Mistake::norm_before_gate);
    if (!late) {
      for (int i = 0; i < inner; ++i) o[i] = round(silu(z[i]) * o[i]);
    }
    const int part = mistake == Mistake::whole_norm ? inner : inner / groups;
    for (int i = 0; i < inner && !norms; ++i) mixed.row(r)[i] = o[i];
    for (int first = 0; first < inner && norms; first += part) {
      double squares = 0;
      for (int i = first; i < first + part; ++i) squares = round(squares + o[i] * o[i]);
      const double factor = round(1 / round(std::sqrt(round(round(squares / part) + checkpoint.epsilon))));
      for (int i = first; i < first + part; ++i) {
        o[i] = round(round(o[i] * factor) * vector("norm.weight")[i]);
        mixed.row(r)[i] = late ? round(silu(z[i]) * o[i]) : o[i];
      }
    }
  }
  return times(mixed, checkpoint[prefix + "out_proj"], round);
}

/// A layer of Mamba-1 with the norms of Jamba, in the same way.
inline Rows selective_scan_of(const TwinCheckpoint& checkpoint, const std::string& prefix, const Rows& n,
                              Rounding& round, Mistake mistake) {
  const Rows& taps = checkpoint[prefix + "conv1d"];             // [channels][width]
  const Rows& a_log = checkpoint.whole_name(prefix + "A_log");  // [channels][states]
  const auto vector = [&](const char* name) -> const std::vector<double>& {
    return checkpoint.whole_name(prefix + name).at;
  };
  const int channels = taps.rows();
  const int states = a_log.width;
  const auto silu = [&](double x) { return round(x / round(1 + round.by(std::exp(-x), 2))); };
  const Rows projected = times(n, checkpoint[prefix + "in_proj"], round);
  Rows state(channels, states);
  Rows mixed(n.rows(), channels);
  for (int r = 0; r < n.rows(); ++r) {
    Rows c(1, channels);
    for (int i = 0; i < channels; ++i) {
      double sum = 0;
      for (int j = 0; j < taps.width; ++j) {
        const int at = r - (taps.width - 1) + j;
        if (at < 0) continue;
        const int tap = mistake == Mistake::reversed_taps ? taps.width - 1 - j : j;
        sum = round(sum + round(taps.row(i)[tap] * projected.row(at)[i]));
      }
      c.at[i] = silu(mistake == Mistake::no_conv_bias ? sum : round(sum + vector("conv1d.bias")[i]));
    }
    const Rows selected = times(c, checkpoint[prefix + "x_proj"], round);
    const int rank = selected.width - 2 * states;
    const auto part = [&](const char* norm, int first, int width) {
      Rows values(1, width);
      std::copy_n(selected.at.begin() + first, width, values.at.begin());
      if (mistake == Mistake::no_selection_norms) return values;
      return rms_norm(std::move(values), checkpoint[prefix + norm], checkpoint.epsilon, round);
    };
    Rows key = part("b_layernorm", rank, states);
    Rows query = part("c_layernorm", rank + states, states);
    if (mistake == Mistake::exchanged_keys) std::swap(key, query);
    const Rows steps = times(part("dt_layernorm", 0, rank), checkpoint[prefix + "dt_proj"], round);
    for (int i = 0; i < channels; ++i) {
      const double bias = mistake == Mistake::no_step_bias ? 0 : vector("dt_proj.bias")[i];
      const double step = round.by(std::log1p(std::exp(round(steps.at[i] + bias))), 2);
      const double value = round(step * c.at[i]);
      double sum = 0;
      for (int k = 0; k < states; ++k) {
        const double rate = round.by(std::exp(a_log.row(i)[k]), 2);
        const double decay = round.by(std::exp(-round(rate * step)), 2);
        double& element = state.row(i)[k];
        element = round(round(element * decay) + round(key.at[k] * value));
        sum = round(sum + round(query.at[k] * element));
      }
      if (mistake != Mistake::no_skip) sum = round(sum + round(vector("D")[i] * c.at[i]));
      mixed.row(r)[i] = round(silu(projected.row(r)[channels + i]) * sum);
    }
  }
  return times(mixed, checkpoint[prefix + "out_proj"], round);
}

/// Whether the row at position q can see the key at position k in this layer.
using Sees = std::function<bool(int q, int k)>;

/// The halves of vectors of 2 * width values.
struct Halves {
  Rows first, second;
  Halves(const Rows& x, int width) : first(x.rows(), x.width / 2), second(x.rows(), x.width / 2) {
    for (std::size_t i = 0; i < first.at.size(); ++i) {
      const std::size_t vector = i / static_cast<std::size_t>(width);
      first.at[i] = x.at[i + vector * static_cast<std::size_t>(width)];
      second.at[i] = x.at[i + (vector + 1) * static_cast<std::size_t>(width)];
    }
  }
};

struct Heads {
  int heads, kv_heads, dim;
  double scale;
  double cap = 0;  // of scores
  std::vector<double> sinks = {};
};

/// Computes the weighted sums of values for queries at positions `settled` and on; row p of keys and values is position
/// p.
inline Rows attend(const Heads& of, const Rows& queries, const Rows& keys, const Rows& values, int settled,
                   const Sees& sees, Rounding& round, Mistake mistake) {
  const int d = of.dim;
  const auto capped = [&](double x) { return round(of.cap * round.by(std::tanh(round(x / of.cap)), 3)); };
  Rows mixed(queries.rows(), of.heads * d);
  for (int r = 0; r < queries.rows(); ++r) {
    for (int h = 0; h < of.heads; ++h) {
      const int kv = mistake == Mistake::heads_dealt_out ? h % of.kv_heads : h / (of.heads / of.kv_heads);
      std::vector<int> visible;
      std::vector<double> scores;
      for (int p = 0; p < keys.rows(); ++p) {
        if (!sees(settled + r, p)) continue;
        double score = 0;
        for (int i = 0; i < d; ++i) score = round(score + queries.row(r)[h * d + i] * keys.row(p)[kv * d + i]);
        visible.push_back(p);
        if (of.cap == 0) scores.push_back(round(score * of.scale));
        else if (mistake == Mistake::cap_before_scale) scores.push_back(round(capped(score) * of.scale));
        else scores.push_back(capped(round(score * of.scale)));
      }
      if (!of.sinks.empty()) scores.push_back(of.sinks[h]);
      const double largest = *std::max_element(scores.begin(), scores.end());
      double total = 0;
      for (double& score : scores) {
        score = round.by(std::exp(round(score - largest)), 2);
        total = round(total + score);
      }
      for (double& score : scores) score = round(score / total);
      for (int i = 0; i < d; ++i) {
        double sum = 0;
        for (std::size_t k = 0; k < visible.size(); ++k) {
          sum = round(sum + scores[k] * values.row(visible[k])[kv * d + i]);
        }
        mixed.row(r)[h * d + i] = round(sum);
      }
    }
  }
  return mixed;
}

/// Computes attention over normalized rows at positions context.rows(), ... . Context rows, at positions 0, 1, ..., are
/// only keys and values.
inline Rows attention_of(const TwinCheckpoint& checkpoint, const std::string& prefix, Rows normed, const Rows& context,
                         const Angles& angles, const Sees& sees, Rounding& round, Mistake mistake) {
  const auto weight = [&](const char* name) -> const Rows& { return checkpoint[prefix + name]; };
  const double epsilon = checkpoint.epsilon;
  const int d = checkpoint.head_dim;
  const int settled = context.rows();
  const int rows = normed.rows();

  const Rows own = activation_format(std::move(normed), weight("self_attn.q_proj"), round);
  const Rows all = below(context, own);
  std::vector<int> own_positions, key_positions;
  for (int p = 0; p < settled + rows; ++p) {
    if (p >= settled) own_positions.push_back(p);
    const bool late = mistake == (p < settled ? Mistake::context_one_late : Mistake::keys_one_position_late);
    key_positions.push_back(late ? p + 1 : p);
  }
  const auto with_bias = [&](Rows rows_of, const char* part) {
    return biased(checkpoint, prefix + "self_attn." + part + "_proj.bias", std::move(rows_of), round);
  };
  const auto normed_heads = [&](Rows rows_of, const char* part) {
    const bool crossed = mistake == Mistake::swapped_head_norms;
    const std::string name = prefix + "self_attn." + (crossed == (*part == 'q') ? "k" : "q") + "_norm";
    if (!checkpoint.has(name + ".weight")) return rows_of;
    if (mistake == Mistake::head_by_head) return norm_of_parts(std::move(rows_of), checkpoint[name], d, epsilon, round);
    return rms_norm(std::move(rows_of), checkpoint[name], epsilon, round);
  };
  const bool unbiased = mistake == Mistake::no_key_bias || mistake == Mistake::bias_on_turned_keys;
  Rows queries = with_bias(times(own, weight("self_attn.q_proj"), round), "q");
  Rows gates;
  if (queries.width == 2 * checkpoint.heads * d) {
    Halves halves(queries, mistake == Mistake::gates_behind_queries ? checkpoint.heads * d : d);
    queries = std::move(halves.first);
    gates = std::move(halves.second);
  }
  queries = normed_heads(std::move(queries), "q");
  Rows plain_keys = times(all, weight("self_attn.k_proj"), round);
  if (!unbiased) plain_keys = with_bias(std::move(plain_keys), "k");
  const Rows values = with_bias(times(all, weight("self_attn.v_proj"), round), "v");
  Rows keys = mistake == Mistake::no_key_norm ? plain_keys : normed_heads(plain_keys, "k");
  if (mistake == Mistake::no_context_key_norm) std::copy_n(plain_keys.row(0), settled * keys.width, keys.row(0));
  if (angles.cosine.width > 0) {
    rotate(queries, angles, own_positions, round, mistake == Mistake::interleaved_rope);
    rotate(keys, angles, key_positions, round, mistake == Mistake::interleaved_rope);
  }
  const bool grows = checkpoint.facts.growth.beta != 0 && checkpoint.grows_at(prefix);
  const bool grown = grows != (mistake == Mistake::other_queries_grown);
  if (grown && mistake != Mistake::ungrown_queries) grow(checkpoint.facts.growth, queries, own_positions, round);
  if (mistake == Mistake::bias_on_turned_keys) keys = with_bias(std::move(keys), "k");

  const double usual = round(1 / round(std::sqrt(static_cast<double>(d))));
  const double told = checkpoint.facts.attention_scale;
  const double scale = mistake == Mistake::unscaled_scores               ? 1
                       : told == 0 || mistake == Mistake::scale_of_heads ? usual
                                                                         : round(told);
  Heads heads = {checkpoint.heads, checkpoint.kv_heads, d, scale};
  const std::string sinks = prefix + "self_attn.attention_sink_bias";
  if (checkpoint.has(sinks) && mistake != Mistake::no_sinks) {
    heads.sinks = checkpoint.whole_name(sinks).at;
    if (mistake == Mistake::sinks_of_next_heads) std::ranges::rotate(heads.sinks, heads.sinks.begin() + 1);
  }
  Rows mixed = attend(heads, queries, keys, values, settled, sees, round, mistake);
  if (mistake == Mistake::no_gate) gates.at.clear();
  for (std::size_t i = 0; i < gates.at.size(); ++i) {
    const double sum = round(1 + round.by(std::exp(-gates.at[i]), 2));
    mixed.at[i] = round(mixed.at[i] * round(1 / sum));
  }
  mixed = sub_normed(checkpoint, prefix + "self_attn.attn_sub_norm", std::move(mixed), round, mistake);
  mixed = activation_format(std::move(mixed), weight("self_attn.o_proj"), round);
  Rows out = times(mixed, weight("self_attn.o_proj"), round);
  return mistake == Mistake::no_output_bias ? out : with_bias(std::move(out), "o");
}

/// Columns [first, first + width) of every part of `each` columns.
inline Rows columns_of(const Rows& x, int each, int first, int width) {
  Rows y(x.rows(), x.width / each * width);
  for (int r = 0; r < x.rows(); ++r) {
    for (int i = 0; i < y.width; ++i) y.row(r)[i] = x.row(r)[i / width * each + first + i % width];
  }
  return y;
}

/// Multi-head latent attention. Programs compute it in two forms, which round other results: keys and values are made
/// for each head, or queries are taken to the latent space and what they gather there back. Here it has the roundings
/// of both.
inline Rows latent_attention_of(const TwinCheckpoint& checkpoint, const std::string& prefix, const Rows& normed,
                                const Angles& angles, const Sees& sees, Rounding& round, Mistake mistake) {
  const twin::LatentFacts& facts = checkpoint.facts.latent;
  const int heads = checkpoint.heads;
  const int query = facts.unturned + facts.turned;
  const double epsilon = mistake == Mistake::layer_epsilon_inside ? checkpoint.epsilon : facts.epsilon;
  const auto project = [&](const std::string& name, const Rows& from) {
    return biased(checkpoint, prefix + name + ".bias", times(from, checkpoint[prefix + name], round), round);
  };
  Rows q;
  if (checkpoint.has(prefix + "q_proj.weight")) {
    q = project("q_proj", normed);
  } else {
    q = project("q_a_proj", normed);
    if (mistake != Mistake::no_query_norm) {
      q = rms_norm(std::move(q), checkpoint[prefix + "q_a_layernorm"], epsilon, round);
    }
    q = project("q_b_proj", q);
  }
  const Rows down = project("kv_a_proj_with_mqa", normed);
  Rows latents = columns_of(down, down.width, 0, facts.rank);
  if (mistake != Mistake::no_latent_norm) {
    latents = rms_norm(std::move(latents), checkpoint[prefix + "kv_a_layernorm"], epsilon, round);
  }
  std::vector<int> positions, key_positions;
  for (int p = 0; p < normed.rows(); ++p) {
    positions.push_back(p);
    key_positions.push_back(mistake == Mistake::keys_one_position_late ? p + 1 : p);
  }
  const bool neighbors = checkpoint.facts.interleaved != (mistake == Mistake::interleaved_rope);
  Rows shared = columns_of(down, down.width, facts.rank, facts.turned);
  rotate(shared, angles, key_positions, round, neighbors);
  Rows turned = columns_of(q, query, facts.unturned, facts.turned);
  rotate(turned, angles, positions, round, neighbors);

  const auto inverse_root = [&](int width) { return round(1 / round(std::sqrt(static_cast<double>(width)))); };
  const double scale = mistake == Mistake::unscaled_scores   ? 1
                       : mistake == Mistake::scale_of_heads  ? inverse_root(facts.rank + facts.turned)
                       : mistake == Mistake::no_score_factor ? inverse_root(query)
                                                             : round(checkpoint.facts.attention_scale);
  const Rows& both = checkpoint[prefix + "kv_b_proj"];
  const int each = facts.unturned + facts.value;
  const bool exchanged = mistake == Mistake::exchanged_latent_rows;
  const int first_key = exchanged ? facts.value : 0;
  const int first_value = exchanged ? 0 : facts.unturned;
  const auto for_each_head = [&](Rounding& by) {
    const Rows made = times(latents, both, by);
    Rows queries(q.rows(), heads * query), keys = queries, values = queries;  // values end with zeros
    for (int r = 0; r < q.rows(); ++r) {
      for (int h = 0; h < heads; ++h) {
        double* const to = queries.row(r) + h * query;
        std::copy_n(q.row(r) + h * query, facts.unturned, to);
        std::copy_n(turned.row(r) + h * facts.turned, facts.turned, to + facts.unturned);
        const double* const from = made.row(r) + h * each;
        std::copy_n(from + first_key, facts.unturned, keys.row(r) + h * query);
        std::copy_n(shared.row(r), facts.turned, keys.row(r) + h * query + facts.unturned);
        std::copy_n(from + first_value, facts.value, values.row(r) + h * query);
      }
    }
    return columns_of(attend({heads, heads, query, scale}, queries, keys, values, 0, sees, by, mistake), query, 0,
                      facts.value);
  };
  const auto in_latent_space = [&](Rounding& by) {
    const int width = facts.rank + facts.turned;
    Rows queries(q.rows(), heads * width), keys(q.rows(), width), values(q.rows(), width);
    for (int r = 0; r < q.rows(); ++r) {
      for (int h = 0; h < heads; ++h) {
        double* const to = queries.row(r) + h * width;
        for (int i = 0; i < facts.unturned; ++i) {
          const double* const row = both.row(h * each + first_key + i);
          for (int c = 0; c < facts.rank; ++c) to[c] = by(to[c] + q.row(r)[h * query + i] * row[c]);
        }
        std::copy_n(turned.row(r) + h * facts.turned, facts.turned, to + facts.rank);
      }
      std::copy_n(latents.row(r), facts.rank, keys.row(r));
      std::copy_n(shared.row(r), facts.turned, keys.row(r) + facts.rank);
      std::copy_n(latents.row(r), facts.rank, values.row(r));
    }
    const Rows gathered = attend({heads, 1, width, scale}, queries, keys, values, 0, sees, by, mistake);
    Rows out(q.rows(), heads * facts.value);
    for (int r = 0; r < q.rows(); ++r) {
      for (int i = 0; i < out.width; ++i) {
        const int h = i / facts.value;
        const double* const row = both.row(h * each + first_value + i % facts.value);
        double& sum = out.row(r)[i];
        for (int c = 0; c < facts.rank; ++c) sum = by(sum + gathered.row(r)[h * width + c] * row[c]);
      }
    }
    return out;
  };
  Rounding none;
  Rows mixed = for_each_head(round);
  const Rows absorbed = in_latent_space(round);
  const Rows exact = in_latent_space(none);
  for (std::size_t i = 0; i < mixed.at.size(); ++i) mixed.at[i] += absorbed.at[i] - exact.at[i];
  Rows out = times(mixed, checkpoint[prefix + "o_proj"], round);
  if (mistake == Mistake::no_output_bias) return out;
  return biased(checkpoint, prefix + "o_proj.bias", std::move(out), round);
}

/// The norm of this name, where a layer has it.
inline Rows normed_by(const TwinCheckpoint& checkpoint, const std::string& name, Rows x, Rounding& round,
                      Mistake mistake = Mistake::none) {
  if (name.empty()) return x;
  if (checkpoint.facts.layer_norm && mistake != Mistake::no_mean) {
    for (int r = 0; r < x.rows(); ++r) {
      double sum = 0;
      for (int i = 0; i < x.width; ++i) sum = round(sum + x.row(r)[i]);
      const double mean = round(sum / x.width);
      for (int i = 0; i < x.width; ++i) x.row(r)[i] = round(x.row(r)[i] - mean);
    }
  }
  x = rms_norm(std::move(x), checkpoint[name], checkpoint.epsilon, round);
  return mistake == Mistake::no_norm_bias ? x : biased(checkpoint, name + ".bias", std::move(x), round);
}

/// Computes one layer over rows x: attention as above or a gated delta net, then the MLP. `prefix` is everything before
/// "input_layernorm".
inline Rows decoder_layer(const TwinCheckpoint& checkpoint, const std::string& prefix, Rows x, const Rows& context,
                          const Angles& angles, const Sees& sees, Rounding& round, Mistake mistake) {
  twin::LayerNorms norms =
      twin::layer_norms(prefix, [&](const std::string& name) { return checkpoint.has(name + ".weight"); });
  if (mistake == Mistake::swapped_layer_norms) {
    std::swap(norms.attention, norms.mlp);
    std::swap(norms.attended, norms.mlp_out);
  }
  if (mistake == Mistake::no_post_norms) norms.attended = norms.mlp_out = "";
  const double share = mistake == Mistake::no_residual_scale ? 1 : checkpoint.facts.residual_scale;
  const auto shared_out = [&](Rows branch, double factor) {
    if (mistake != Mistake::no_shares) scale(branch, factor, round);
    return branch;
  };
  const auto added = [&](const std::string& norm, Rows branch) {
    branch = normed_by(checkpoint, norm, std::move(branch), round, mistake);
    scale(branch, share, round);
    return sum_of(std::move(x), branch, round);
  };
  const Rows first = normed_by(checkpoint, norms.attention, x, round, mistake);
  if (checkpoint.has(prefix + "linear_attn.in_proj_qkv.weight")) {
    x = added(norms.attended, delta_net_of(delta_layer(checkpoint, prefix + "linear_attn."), first, round));
  } else if (checkpoint.has(prefix + "self_attn.f_a_proj.weight")) {
    const Slip slip = mistake == Mistake::reversed_taps  ? Slip::reversed_taps
                      : mistake == Mistake::no_step_bias ? Slip::no_step_bias
                      : mistake == Mistake::one_decay    ? Slip::one_decay
                      : mistake == Mistake::silu_gate    ? Slip::gate_of_attention
                                                         : Slip::none;
    x = added(norms.attended, delta_net_of(kimi_delta_layer(checkpoint, prefix + "self_attn."), first, round, slip));
  } else if (checkpoint.has(prefix + "mamba.x_proj.weight")) {
    x = added(norms.attended, selective_scan_of(checkpoint, prefix + "mamba.", first, round, mistake));
  } else if (checkpoint.has(prefix + "mamba.A_log")) {
    Rows mixed = state_space_of(checkpoint, prefix + "mamba.", first, round, mistake);
    if (checkpoint.has(prefix + "self_attn.q_proj.weight")) {
      Rows attended = attention_of(checkpoint, prefix, first, Rows(), angles, sees, round, mistake);
      mixed = sum_of(shared_out(std::move(mixed), checkpoint.facts.state_share),
                     shared_out(std::move(attended), checkpoint.facts.attention_share), round);
    }
    x = added(norms.attended, std::move(mixed));
  } else if (checkpoint.has(prefix + "conv.conv.weight")) {
    x = added(norms.attended, short_convolution_of(checkpoint, prefix + "conv.", first, round, mistake));
  } else if (checkpoint.facts.latent.rank > 0) {
    x = added(norms.attended,
              latent_attention_of(checkpoint, prefix + "self_attn.", first, angles, sees, round, mistake));
  } else if (checkpoint.has(prefix + "self_attn.q_proj.weight")) {
    const bool too = mistake == Mistake::context_input_norm && context.rows() > 0;
    const Rows seen = too ? normed_by(checkpoint, norms.attention, context, round) : context;
    x = added(norms.attended, attention_of(checkpoint, prefix, first, seen, angles, sees, round, mistake));
  }
  if (!checkpoint.has(prefix + "mlp.down_proj.weight") && !checkpoint.has(prefix + "mlp.gate.weight")) return x;
  const Rows second = norms.parallel ? first : normed_by(checkpoint, norms.mlp, x, round, mistake);
  const bool experts = checkpoint.has(prefix + "mlp.gate.weight");
  Rows out = experts ? mixed_experts(checkpoint, prefix + "mlp.", second, round, mistake)
                     : gated_mlp(checkpoint, prefix + "mlp.", second, round, mistake);
  return added(norms.mlp_out, shared_out(std::move(out), checkpoint.facts.mlp_share));
}

inline Rows decoder_layer(const TwinCheckpoint& checkpoint, int layer, Rows x, const Rows& context,
                          const Angles& angles, const Sees& sees, Rounding& round, Mistake mistake) {
  const std::string prefix = "layers." + std::to_string(layer) + ".";
  return decoder_layer(checkpoint, prefix, std::move(x), context, angles, sees, round, mistake);
}

inline Rows embedded(const TwinCheckpoint& target, const std::vector<Token>& tokens) {
  const Rows& table = target["embed_tokens"];
  Rows x(static_cast<int>(tokens.size()), table.width);
  for (int r = 0; r < x.rows(); ++r) std::copy_n(table.row(tokens[r]), table.width, x.row(r));
  return x;
}

/// Computes a target over a whole text: streams [0] is the embedding, [1 + t] the output of layer t; then the final
/// norm, then the logits.
inline std::vector<Rows> target_answers(const TwinCheckpoint& target, const std::vector<Token>& tokens, Rounding round,
                                        Mistake mistake = Mistake::none) {
  if (mistake == Mistake::norms_without_offset) {
    TwinCheckpoint wrong = target;
    wrong.drop_offsets();
    return target_answers(wrong, tokens, round);
  }
  std::vector<Angles> ropes;
  TwinCheckpoint one = target;
  for (std::size_t i = 0; i < target.facts.ropes.size(); ++i) {
    const std::size_t last = target.facts.ropes.size() - 1;
    one.use_rope(static_cast<int>(mistake == Mistake::swapped_ropes ? last - i : i));
    ropes.emplace_back(one, static_cast<int>(tokens.size()) + 1, round, mistake);
  }
  const Angles none(target.head_dim, {}, 0, round);
  std::vector<Rows> answers = {embedded(target, tokens)};
  if (mistake != Mistake::no_embedding_scale) scale(answers[0], target.facts.embedding_scale, round);
  if (target.facts.embedding_norm && mistake != Mistake::no_embedding_norm) {
    answers[0] = normed_by(target, "norm", std::move(answers[0]), round);
  }
  for (int layer = 0; layer < target.layers; ++layer) {
    const twin::LayerFacts& facts_of = target.facts.layers[static_cast<std::size_t>(layer)];
    const int rope = facts_of.rope;
    const bool turns = rope >= 0 || mistake == Mistake::turned_everywhere;
    const Angles& angles = turns ? ropes[static_cast<std::size_t>(std::max(rope, 0))] : none;
    int window = target.windows[layer];
    if (window != std::numeric_limits<int>::max()) {
      if (mistake == Mistake::window_longer) ++window;
      if (mistake == Mistake::window_shorter) --window;
    }
    const bool chunked = facts_of.chunked && mistake != Mistake::window_for_chunk;
    const auto sees = [window, chunked, mistake](int q, int k) {
      if (mistake == Mistake::blind_to_itself && k == q && q > 0) return false;
      if (chunked && k / window != q / window) return false;
      return k <= q + (mistake == Mistake::sees_the_next_row ? 1 : 0) && q - k < window;
    };
    answers.push_back(decoder_layer(target, layer, answers.back(), Rows(), angles, sees, round, mistake));
  }
  const Rows& last = answers.back();
  Rows normed = mistake == Mistake::no_final_norm ? last : normed_by(target, "norm", last, round, mistake);
  Rows logits = times(activation_format(normed, target.head(), round), target.head(), round);
  if (mistake != Mistake::no_head_bias) logits = biased(target, "lm_head.bias", std::move(logits), round);
  if (mistake != Mistake::no_logit_scale) scale(logits, target.facts.logit_scale, round);
  if (const double cap = target.facts.logit_cap; cap != 0 && mistake != Mistake::no_cap) {
    for (double& logit : logits.at) logit = round(cap * round.by(std::tanh(round(logit / cap)), 2));
  }
  answers.push_back(std::move(normed));
  answers.push_back(std::move(logits));
  return answers;
}

/// Reads the draft's switches as the authors do: inside dflash_config first, then at the top level.
inline std::optional<Json> draft_switch(const TwinCheckpoint& draft, const char* name) {
  const auto block = draft.config().find("dflash_config");
  const auto nested = block ? block->find(name) : std::nullopt;
  return nested ? nested : draft.config().find(name);
}

inline double draft_number(const TwinCheckpoint& draft, const char* name, double default_value) {
  const auto value = draft_switch(draft, name);
  return value ? value->number() : default_value;
}

inline std::vector<int> draft_taps(const TwinCheckpoint& draft) {
  std::vector<int> taps;
  for (const auto id : draft_switch(draft, "target_layer_ids")->integers(0, 1 << 20)) {
    taps.push_back(static_cast<int>(id));
  }
  return taps;
}

/// One side of a convolution of DFlash2 over the rows of a block. `dynamic`: [rows][2 * taps * groups].
inline Rows convolved(const TwinCheckpoint& draft, const std::string& name, const Rows& dynamic, int side,
                      const Rows& x, Rounding& round, Mistake mistake) {
  const Rows& base = draft.whole_name(name + "base_kernel");  // [2 * taps][hidden]
  const int taps = base.rows() / 2;
  const int groups = dynamic.width / (2 * taps);
  const int group = x.width / groups;
  const int other = mistake == Mistake::swapped_dynamic_side ? 1 - side : side;
  Rows y(x.rows(), x.width);
  for (int r = 0; r < x.rows(); ++r) {
    for (int t = 0; t < taps; ++t) {
      if (t > r && mistake != Mistake::anchor_has_predecessor) continue;
      const double* const kernel = base.row(mistake == Mistake::swapped_side_and_tap ? t * 2 + side : side * taps + t);
      const double* const from = x.row(std::max(0, r - t));
      for (int c = 0; c < x.width; ++c) {
        const double weight = round(kernel[c] + dynamic.row(r)[(other * taps + t) * groups + c / group]);
        y.row(r)[c] = round(y.row(r)[c] + round(weight * from[c]));
      }
    }
  }
  return y;
}

/// A layer of DFlash2: a decoder layer with convolutions around attention and MLP.
inline Rows convolved_layer(const TwinCheckpoint& draft, int layer, Rows x, const Rows& context, const Angles& angles,
                            const Sees& sees, double value_scale, Rounding& round, Mistake mistake) {
  const std::string prefix = "layers." + std::to_string(layer) + ".";
  const auto around = [&](const char* convolution, const char* norm, const auto& sublayer) {
    const std::string name = prefix + convolution;
    const Rows normed = rms_norm(x, draft[prefix + norm], draft.epsilon, round);
    const Rows& projection = draft[name + "kernel_projection"];
    Rows dynamic = times(normed, projection, round);
    const Rows input = convolved(draft, name, dynamic, 0, normed, round, mistake);
    if (mistake == Mistake::kernels_of_convolved) dynamic = times(input, projection, round);
    const Rows output = sublayer(input);
    const bool behind = mistake != Mistake::no_convolution_behind;
    x = sum_of(std::move(x), behind ? convolved(draft, name, dynamic, 1, output, round, mistake) : output, round);
  };
  around("attention_conv.", "input_layernorm", [&](const Rows& input) {
    Rows mixed = attention_of(draft, prefix, input, context, angles, sees, round, mistake);
    for (double& v : mixed.at) v = value_scale == 1 ? v : round(v * value_scale);
    return mixed;
  });
  around("mlp_conv.", "post_attention_layernorm",
         [&](const Rows& input) { return gated_mlp(draft, prefix + "mlp.", input, round, mistake); });
  return x;
}

/// What a candidate selector chooses among at every mask, [masks][candidates], and the tokens that it chooses. Of
/// DSpark only the tokens.
struct TwinSelection {
  std::vector<Token> candidates;
  std::vector<Token> path;
};

/// The scores of the candidates along the path, [masks][candidates].
inline Rows selector_scores(const TwinCheckpoint& draft, Token anchor, const Rows& normed, const Rows& logits,
                            const TwinSelection& selection, Rounding& round, Mistake mistake) {
  const Rows h = times(normed, draft["candidate_selector.hidden_projection"], round);
  const bool exchanged = mistake == Mistake::selector_of_next;
  const std::string books[] = {"candidate_selector.predecessor_codebook", "candidate_selector.successor_codebook"};
  const Rows& predecessors = draft.whole_name(books[exchanged ? 1 : 0]);
  const Rows& successors = draft.whole_name(books[exchanged ? 0 : 1]);
  const int masks = static_cast<int>(selection.path.size());
  Rows scores(masks, static_cast<int>(selection.candidates.size()) / masks);
  Token previous = anchor;
  for (int mask = 0; mask < masks; ++mask) {
    for (int i = 0; i < scores.width; ++i) {
      const Token candidate = selection.candidates[static_cast<std::size_t>(mask * scores.width + i)];
      double sum = 0;
      for (int r = 0; r < h.width; ++r) {
        sum += predecessors.row(previous)[r] * h.row(mask + 1)[r] * successors.row(candidate)[r];
      }
      scores.row(mask)[i] = round(logits.row(mask + 1)[candidate] + sum);
    }
    if (mistake != Mistake::selector_from_anchor) previous = selection.path[static_cast<std::size_t>(mask)];
  }
  return scores;
}

/// Of the draft tokens of a path, which are those of the last rows: the rows that they are drawn from, and the
/// confidences before the sigmoid.
inline std::pair<Rows, Rows> dspark_answers(const TwinCheckpoint& draft, Token anchor, const Rows& normed,
                                            const Rows& logits, const std::vector<Token>& path, Rounding& round,
                                            Mistake mistake) {
  const bool exchanged = mistake == Mistake::markov_exchanged;
  const Rows& w1 = draft[exchanged ? "markov_head.markov_w2" : "markov_head.markov_w1"];
  const Rows& w2 = draft[exchanged ? "markov_head.markov_w1" : "markov_head.markov_w2"];
  const Rows& head = draft["confidence_head.proj"];
  const int drafts = static_cast<int>(path.size());
  const int silent = normed.rows() - drafts;
  std::pair<Rows, Rows> answers = {Rows(drafts, logits.width), Rows(drafts, 1)};
  Token previous = anchor;
  for (int i = 0; i < drafts; ++i) {
    const Token own = path[static_cast<std::size_t>(i)];
    int row = silent + i;
    if (mistake == Mistake::rows_one_off) row = silent == 0 ? std::min(i + 1, drafts - 1) : i;
    Rows token(1, w1.width);
    std::copy_n(w1.row(mistake == Mistake::markov_of_own_token ? own : previous), w1.width, token.row(0));
    const Rows bias = times(token, w2, round);
    for (int v = 0; v < logits.width; ++v) {
      const double added = mistake == Mistake::no_markov_bias ? 0 : bias.row(0)[v];
      answers.first.row(i)[v] = round(logits.row(row)[v] + added);
    }
    double sum = draft.whole_name("confidence_head.proj.bias").at[0];
    for (int k = 0; k < head.width; ++k) {
      sum += head.row(0)[k] * (k < normed.width ? normed.row(row)[k] : token.row(0)[k - normed.width]);
    }
    answers.second.row(i)[0] = sum;
    if (mistake != Mistake::markov_of_anchor) previous = own;
  }
  return answers;
}

/// Computes DFlash over features [positions][taps * hidden] and a DFlash block (anchor, masks) after them: the context
/// rows, the block's final norms, its logits; with a selection the scores along its path, or dspark_answers.
inline std::vector<Rows> draft_answers(const TwinCheckpoint& draft, const TwinCheckpoint& target, Rows features,
                                       std::vector<Token> block, Rounding round, Mistake mistake = Mistake::none,
                                       const TwinSelection* selection = nullptr) {
  const int settled = features.rows();
  if (mistake == Mistake::reversed_taps) {
    const int hidden = draft["norm"].width;
    for (int r = 0; r < settled; ++r) {
      for (int low = 0, high = features.width - hidden; low < high; low += hidden, high -= hidden) {
        std::swap_ranges(features.row(r) + low, features.row(r) + low + hidden, features.row(r) + high);
      }
    }
  }
  if (mistake == Mistake::next_mask) {
    for (std::size_t i = 1; i < block.size(); ++i) block[i] = (block[i] + 1) % target["embed_tokens"].rows();
  }
  const Angles angles(draft, settled + static_cast<int>(block.size()) + 1, round);
  Rows context = times(features, draft["fc"], round);
  if (mistake != Mistake::no_context_norm) context = rms_norm(context, draft["hidden_norm"], draft.epsilon, round);
  Rows x = embedded(draft.has("embed_tokens.weight") ? draft : target, block);
  const double embedding_scale = draft_number(draft, "input_embedding_scale", 1);
  if (embedding_scale != 1 && mistake != Mistake::no_embedding_scale) {
    for (double& v : x.at) v = round(v * embedding_scale);
  }
  for (int layer = 0; layer < draft.layers; ++layer) {
    int window = draft.windows[layer];
    const bool slides = window != std::numeric_limits<int>::max();
    const auto everywhere = draft.config().find("is_causal");
    const bool causal = (everywhere ? everywhere->boolean() : slides) != (mistake == Mistake::other_causality);
    if (slides && mistake == Mistake::window_longer) ++window;
    if (slides && mistake == Mistake::window_shorter) --window;
    const auto sees = [window, causal](int q, int k) { return q - k < window && (causal ? k <= q : k - q < window); };
    const bool convolves = draft.has("layers.0.attention_conv.base_kernel");
    const double value_scale = draft_number(draft, "attention_value_scale", 1);
    x = convolves ? convolved_layer(draft, layer, std::move(x), context, angles, sees, value_scale, round, mistake)
                  : decoder_layer(draft, layer, std::move(x), context, angles, sees, round, mistake);
  }
  if (mistake != Mistake::no_final_norm) x = rms_norm(std::move(x), draft["norm"], draft.epsilon, round);
  Rows logits = times(x, (draft.has("lm_head.weight") ? draft : target).head(), round);
  const double multiplier = draft_number(draft, "output_multiplier", 1);
  const double cap = draft_number(draft, "final_logit_softcapping", 0);
  for (double& logit : logits.at) {
    if (multiplier != 1 && mistake != Mistake::no_multiplier) logit = round(logit * multiplier);
    if (cap != 0 && mistake != Mistake::no_cap) logit = round(cap * round.by(std::tanh(round(logit / cap)), 2));
  }
  std::vector<Rows> answers = {std::move(context), std::move(x), std::move(logits)};
  if (selection != nullptr && draft.has("markov_head.markov_w1.weight")) {
    auto [rows, confidence] = dspark_answers(draft, block[0], answers[1], answers[2], selection->path, round, mistake);
    answers.push_back(std::move(rows));
    answers.push_back(std::move(confidence));
  } else if (selection != nullptr) {
    answers.push_back(selector_scores(draft, block[0], answers[1], answers[2], *selection, round, mistake));
  }
  return answers;
}

/// An EAGLE-3 draft: the switches of its config, and the names of its layers.
struct TwinEagle3 {
  TwinCheckpoint checkpoint;
  Json config;
  std::vector<std::string> layers;

  explicit TwinEagle3(const std::filesystem::path& folder) : checkpoint(folder), config(Checkpoint(folder).config()) {
    const auto nested = config.find("transformer_layer_config");
    const std::int64_t count = (nested ? *nested : config).at("num_hidden_layers").integer(1, 64);
    for (std::int64_t i = 0; i < count; ++i) layers.push_back("layers." + std::to_string(i) + ".");
    if (checkpoint.has("midlayer.hidden_norm.weight")) layers = {"midlayer."};
  }
  bool says(const char* name) const {
    const auto value = config.find(name);
    return value && value->boolean();
  }
  std::vector<std::int64_t> layer_ids() const {
    const char* const name = "eagle_aux_hidden_state_layer_ids";
    const auto top = config.find(name);
    return (top ? *top : config.at("eagle_config").at(name)).integers(0, 1 << 20);
  }
};

/// The features that EAGLE-3 makes of the target's layers.
inline Rows eagle3_features(const TwinEagle3& draft, Rows tapped, Rounding& round, Mistake mistake) {
  const TwinCheckpoint& w = draft.checkpoint;
  if (mistake != Mistake::no_tap_norms) {
    if (draft.says("norm_before_fc")) tapped = rms_norm(std::move(tapped), w["input_norm"], w.epsilon, round);
    const auto taps = static_cast<int>(draft.layer_ids().size());
    for (int i = 0; draft.says("fc_norm") && i < taps; ++i) {
      const int width = tapped.width / taps;
      for (int r = 0; r < tapped.rows(); ++r) {
        Rows part(1, width);
        std::copy_n(tapped.row(r) + i * width, width, part.row(0));
        part = rms_norm(std::move(part), w["fc_norm." + std::to_string(i)], w.epsilon, round);
        std::copy_n(part.row(0), width, tapped.row(r) + i * width);
      }
    }
  }
  return times(tapped, w["fc"], round);
}

/// What leaves the last layer of EAGLE-3, of all rows of a text: `embedding` and `features` are what they read.
/// `first_mask`: the row that is the first one of a mask.
inline Rows eagle3_rows(const TwinEagle3& draft, Rows embedding, const Rows& features, const Angles& angles,
                        Rounding& round, Mistake mistake, int first_mask = std::numeric_limits<int>::max()) {
  const TwinCheckpoint& w = draft.checkpoint;
  const int hidden = features.width;
  const int rows = features.rows();
  Rows x;
  for (std::size_t i = 0; i < draft.layers.size(); ++i) {
    const std::size_t layer = mistake == Mistake::later_layers_exchanged && i > 0 ? draft.layers.size() - i : i;
    const std::string& prefix = draft.layers[layer];
    Rows read;
    if (i == 0) {
      const Rows e = rms_norm(std::move(embedding), w[prefix + "input_layernorm"], w.epsilon, round);
      const Rows n = mistake == Mistake::no_hidden_norm
                         ? features
                         : rms_norm(features, w[prefix + "hidden_norm"], w.epsilon, round);
      read = Rows(rows, 2 * hidden);
      const int place_of_feature = mistake == Mistake::feature_first ? 0 : hidden;
      for (int r = 0; r < rows; ++r) {
        std::copy_n(e.row(r), hidden, read.row(r) + (hidden - place_of_feature));
        std::copy_n(n.row(r), hidden, read.row(r) + place_of_feature);
      }
      const bool normed_residual = draft.says("norm_before_residual") != (mistake == Mistake::other_residual);
      x = normed_residual ? n : features;
    } else {
      read = mistake == Mistake::no_later_norm ? x : rms_norm(x, w[prefix + "input_layernorm"], w.epsilon, round);
    }
    const auto sees = [&, window = w.windows[layer]](int q, int k) {
      if (mistake == Mistake::masks_apart && k >= first_mask && k != q) return false;
      return k <= q && q - k < window;
    };
    x = sum_of(std::move(x), attention_of(w, prefix, std::move(read), Rows(), angles, sees, round, mistake), round);
    const Rows inner = rms_norm(x, w[prefix + "post_attention_layernorm"], w.epsilon, round);
    x = sum_of(std::move(x), gated_mlp(w, prefix + "mlp.", inner, round, mistake), round);
  }
  return x;
}

inline const Rows& eagle3_head(const TwinEagle3& draft, const TwinCheckpoint& target) {
  return draft.checkpoint.has("lm_head.weight") ? draft.checkpoint["lm_head"] : target.head();
}

/// Computes the last rows of EAGLE-3, all rows again for each: `tapped` are those of the committed positions, `tokens`
/// what rows 0, 1, ... read. Returns the fused features of all committed positions, and of each of the last rows the
/// feature that it gives and its logits over the draft's vocabulary.
inline std::vector<Rows> eagle3_answers(const TwinEagle3& draft, const TwinCheckpoint& target, const Rows& tapped,
                                        const std::vector<Token>& tokens, Rounding round,
                                        Mistake mistake = Mistake::none) {
  const TwinCheckpoint& w = draft.checkpoint;
  const int hidden = w["norm"].width;
  const int committed = tapped.rows();
  const Rows fused = eagle3_features(draft, tapped, round, mistake);
  const Rows embedding = embedded(w.has("embed_tokens.weight") ? w : target, tokens);
  const Angles angles(w, static_cast<int>(tokens.size()) + 1, round, mistake);
  const Rows& head = eagle3_head(draft, target);

  std::vector<Rows> answers = {fused, Rows(0, hidden), Rows(0, head.rows())};
  Rows features = fused;  // of all rows so far
  if (mistake == Mistake::unshifted_pairs && committed > 1) {
    features.at.erase(features.at.begin(), features.at.begin() + hidden);
    features = below(std::move(features), [&] {
      Rows last(1, hidden);
      std::copy_n(fused.row(committed - 1), hidden, last.row(0));
      return last;
    }());
  }
  for (int rows = committed; rows <= static_cast<int>(tokens.size()); ++rows) {
    Rows read(rows, hidden);
    std::copy_n(embedding.at.begin(), read.at.size(), read.at.begin());
    const Rows x = eagle3_rows(draft, std::move(read), features, angles, round, mistake);
    Rows last(1, hidden);
    std::copy_n(x.row(rows - 1), hidden, last.row(0));
    const Rows normed = rms_norm(last, w["norm"], w.epsilon, round);
    const bool gives_normed = draft.says("norm_output") != (mistake == Mistake::next_feature_normed);
    const Rows& next = gives_normed ? normed : last;
    answers[1] = below(std::move(answers[1]), next);
    answers[2] = below(std::move(answers[2]), times(normed, head, round));
    features = below(std::move(features), next);
  }
  return answers;
}

/// Computes the last rows of P-EAGLE in one pass: `tokens` are what the rows of the committed text read, the anchor
/// last, and behind its row are those of masks. Returns the fused features of all committed positions, and of each of
/// the last `steps` rows what leaves the last layer and its logits over the draft's vocabulary.
inline std::vector<Rows> peagle_answers(const TwinEagle3& draft, const TwinCheckpoint& target, const Rows& tapped,
                                        std::vector<Token> tokens, int steps, Rounding round,
                                        Mistake mistake = Mistake::none) {
  const TwinCheckpoint& w = draft.checkpoint;
  const int hidden = w["norm"].width;
  const int committed = tapped.rows();
  const Rows fused = eagle3_features(draft, tapped, round, mistake);
  Rows hidden_mask;
  hidden_mask.at = w.whole_name("mask_hidden").at;
  hidden_mask.width = static_cast<int>(hidden_mask.at.size());
  Rows mask = eagle3_features(draft, hidden_mask, round, mistake);
  if (mistake == Mistake::last_feature_in_masks) std::copy_n(fused.row(committed - 1), hidden, mask.row(0));
  const auto token = static_cast<Token>(draft.config.at("mask_token_id").integer(0, 1 << 20));
  Rows features = fused;
  for (int step = 1; step < steps; ++step) {
    features = below(std::move(features), mask);
    tokens.push_back(mistake == Mistake::anchor_in_masks ? tokens.back() : token);
  }
  Rows embedding = embedded(w.has("embed_tokens.weight") ? w : target, tokens);
  const Angles angles(w, features.rows() + 1, round, mistake);
  const Rows all = eagle3_rows(draft, std::move(embedding), features, angles, round, mistake, committed);
  Rows last(steps, hidden);
  std::copy_n(all.row(committed - 1), last.at.size(), last.at.begin());
  const Rows normed = rms_norm(last, w["norm"], w.epsilon, round);
  return {fused, last, times(normed, eagle3_head(draft, target), round)};
}

/// Returns the error bound of every row of every output: lambda sigma, measured with coin tosses as described above.
using Bounds = std::vector<std::vector<double>>;
inline Bounds bounds_of(const std::function<std::vector<Rows>(Rounding)>& run) {
  const std::vector<Rows> exact = run(Rounding());
  std::vector<Rows> squares;
  for (const Rows& rows : exact) squares.emplace_back(rows.rows(), rows.width);
  for (int probe = 0; probe < probes; ++probe) {
    const std::vector<Rows> rounded = run(Rounding(static_cast<std::uint64_t>(probe) + 1));
    for (std::size_t a = 0; a < exact.size(); ++a) {
      for (std::size_t i = 0; i < exact[a].at.size(); ++i) {
        squares[a].at[i] += std::pow(rounded[a].at[i] - exact[a].at[i], 2);
      }
    }
  }
  Bounds bounds;
  for (const Rows& rows : squares) {
    std::vector<double>& of = bounds.emplace_back();
    for (int r = 0; r < rows.rows(); ++r) {
      of.push_back(lambda * std::sqrt(*std::max_element(rows.row(r), rows.row(r) + rows.width) / probes));
    }
  }
  return bounds;
}

/// Returns the largest |got - want| / bound over all elements, with one `bound` per row; 0 / 0 counts as 0, a NaN as
/// infinity.
template <class Got, class Want>
double worst_ratio(const Got& got, const Want& want, int width, const std::vector<double>& bound) {
  if (got.size() != want.size() || got.size() != bound.size() * static_cast<std::size_t>(width)) {
    return std::numeric_limits<double>::infinity();
  }
  double worst = 0;
  for (std::size_t i = 0; i < got.size(); ++i) {
    const double difference = std::abs(static_cast<double>(got[i]) - static_cast<double>(want[i]));
    if (difference == 0) continue;
    const double ratio = difference / bound[i / static_cast<std::size_t>(width)];
    if (!(ratio <= worst)) worst = std::isnan(ratio) ? std::numeric_limits<double>::infinity() : ratio;
  }
  return worst;
}

}  // namespace draftproof::test
