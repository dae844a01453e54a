// SPDX-License-Identifier: MIT
// Gemma 3n, the text model. Each position has several streams, of which a layer computes one (AltUp, Baykal et al.
// 2023): it predicts all of them, runs attention and MLP on the first prediction, and corrects the others by what came
// of it. Beside attention is a product of two narrow matrices (LAuReL); the gates of the first layers are sparse; the
// last layers read the keys and values of earlier ones; and tokens have values of their own for each layer. Source:
// transformers, models/gemma3n.
#include <algorithm>
#include <cmath>
#include <optional>

#include "kernels/math64.h"
#include "kernels/normal64.h"
#include "kernels/packed_activations.h"
#include "kernels/threads.h"
#include "ref/models/causal_transformer.h"
#include "ref/models/gemma.h"
#include "ref/models/layer_embeddings.h"
#include "ref/models/models.h"

namespace draftproof {
namespace {

// Those of transformers' Gemma3nTextConfig.
constexpr Defaults defaults = {
    .vocabulary = 262400, .context = 32768, .heads = 8, .kv_heads = 2, .head_dim = 256, .epsilon = 1e-6};
constexpr float default_cap = 30;
constexpr int default_window = 512;
constexpr int default_period = 5;
constexpr int default_token_rows = 262144;
constexpr LayerTypeRope full_rope = {"full_attention", "rope_theta", 1e6, true};
constexpr LayerTypeRope sliding_rope = {"sliding_attention", "rope_local_base_freq", 1e4, false};
constexpr int streams_max = 64;  // no real model comes near it

struct Gemma3nLayer : GemmaLayer {
  PackedMatrix router;              // [streams][hidden], "altup.modality_router"
  std::vector<float> router_norm;   // [hidden]
  std::vector<float> prediction;    // [streams * streams][streams]
  std::vector<float> correction;    // [streams][streams]
  std::vector<float> output_scale;  // [hidden]
  PackedMatrix laurel_left;         // [rank][hidden]
  PackedMatrix laurel_right;        // [hidden][rank]
  std::vector<float> laurel_norm;   // [hidden]
  LayerEmbeddingWeights embedding;
};

class Gemma3n final : public CausalTransformer {
 public:
  Gemma3n(const WeightLoader& from, const TransformerConfig& description)
      : CausalTransformer(from, description),
        embeddings_(from, config(),
                    positive(text_config(from.weights.config()), "vocab_size_per_layer_input", default_token_rows)),
        streams_(config().streams) {
    for (int k = 1; k < streams_; ++k) {
      projections_.push_back(load_projection(from, "model.altup_projections", k - 1));
      unembeddings_.push_back(load_projection(from, "model.altup_unembed_projections", k - 1));
    }
    for (int i = 0; i < layers(); ++i) layers_.push_back(load_layer(from, i));
  }

 private:
  /// A folder has a tensor of each, a GGUF one of all.
  PackedMatrix load_projection(const WeightLoader& from, const std::string& name, int k) const {
    const std::string joined = name + ".weight";
    NamedMatrix matrix = {name + "." + std::to_string(k) + ".weight", hidden()};
    if (from.weights.has(joined)) matrix = {joined, hidden(), k * hidden(), {streams_ - 1, hidden(), hidden()}};
    return load_matrix(from, {matrix}, hidden());
  }

  Gemma3nLayer load_layer(const WeightLoader& from, int i) const {
    const AttentionLayer& attention = config().attention(i);
    const auto norm = [&](const char* name) { return load_norm(from, config(), prefix(i) + name, hidden()); };
    const int rank = config().laurel_rank;
    Gemma3nLayer one;
    static_cast<GemmaLayer&>(one) = load_gemma_layer(from, config(), i, prefix(i));
    load_head_norms(from, config(), attention, prefix(i) + "self_attn.", one.attention);
    if (attention.donor == AttentionLayer::own) {
      one.attention.v_norm.assign(static_cast<std::size_t>(attention.shape.head_dim), 1);
    }
    one.mlp.gate_cutoff = config().layers[static_cast<std::size_t>(i)].gate_cutoff;
    one.router = load_matrix(from, {{prefix(i) + "altup.modality_router.weight", streams_}}, hidden());
    one.router_norm = norm("altup.router_norm.weight");
    one.prediction = from.floats(prefix(i) + "altup.prediction_coefs.weight", {streams_ * streams_, streams_});
    one.correction = from.floats(prefix(i) + "altup.correction_coefs.weight", {streams_, streams_});
    one.output_scale = from.floats(prefix(i) + "altup.correct_output_scale", {hidden()});
    one.laurel_left = load_matrix(from, {{prefix(i) + "laurel.linear_left.weight", rank}}, hidden());
    one.laurel_right = load_matrix(from, {{prefix(i) + "laurel.linear_right.weight", hidden()}}, rank);
    one.laurel_norm = norm("laurel.post_laurel_norm.weight");
    one.embedding = load_layer_embedding(from, config(), prefix(i));
    return one;
  }

  float* stream(std::vector<float>& of, int k, int rows) const {
    return of.data() + static_cast<std::ptrdiff_t>(k) * rows * hidden();
  }

  /// y [rows][outputs] = x [rows][inputs] . weight^T
  static void multiply_by(const TransformerPass& pass, const PackedMatrix& weight, const float* x, float* y) {
    pack_activations(pass.kernels, weight, x, weight.inputs(), pass.rows, pass.scratch.activations);
    matmul(pass.kernels, weight, pass.scratch.activations, y, weight.outputs());
  }

  /// Calls compute(row) for every row.
  template <class Compute>
  void for_each_row(const TransformerPass& pass, const Compute& compute) const {
    for_rows(pass.rows, 8.0 * pass.rows * streams_ * hidden(), [&](int begin, int end) {
      for (std::ptrdiff_t row = begin; row < end; ++row) compute(row);
    });
  }

  /// The root of the mean of the squares.
  float magnitude(const float* row) const {
    double sum = 0;
    for (int k = 0; k < hidden(); ++k) sum += static_cast<double>(row[k]) * row[k];
    return static_cast<float>(std::sqrt(sum / hidden()));
  }

  /// Makes each row of x as long as that of `like`.
  void stretch(const TransformerPass& pass, const float* like, float* x) const {
    constexpr float smallest = 1e-5F;  // of a square
    for_each_row(pass, [&](std::ptrdiff_t row) {
      float* const to = x + row * hidden();
      const float wanted = magnitude(like + row * hidden());
      const float own = std::max(magnitude(to), std::sqrt(smallest));
      for (int k = 0; k < hidden(); ++k) to[k] = to[k] * wanted / own;
    });
  }

  void begin(const TransformerPass& pass, std::span<const Segment> batch) override {
    embeddings_.compute(pass, batch);
    reserve_rows(now_, pass.rows * streams_, hidden());
    reserve_rows(predicted_, pass.rows * streams_, hidden());
    reserve_rows(laurel_, pass.rows, hidden());
    reserve_rows(narrow_, pass.rows, config().laurel_rank);
    reserve_rows(routed_, pass.rows, streams_);
    const float* const embedded = pass.scratch.hidden_states.data();
    std::copy_n(embedded, static_cast<std::ptrdiff_t>(pass.rows) * hidden(), now_.data());
    for (int k = 1; k < streams_; ++k) {
      float* const to = stream(now_, k, pass.rows);
      multiply_by(pass, projections_[static_cast<std::size_t>(k - 1)], embedded, to);
      stretch(pass, embedded, to);
    }
  }

  /// routed [rows][streams] = tanh(router . norm(x) / hidden)
  void route(const TransformerPass& pass, const Gemma3nLayer& weights, const float* x) {
    float* const normed = pass.scratch.normed.data();
    pass.normalize(weights.router_norm, x, normed);
    multiply(pass, 1 / static_cast<float>(hidden()), normed);
    multiply_by(pass, weights.router, normed, routed_.data());
    for (float& value : std::span(routed_).first(static_cast<std::size_t>(pass.rows * streams_))) {
      value = static_cast<float>(1 - 2 / (exp64(2.0 * value) + 1));
    }
  }

  /// The products of a matrix [outputs][streams] and the routed values of a row.
  std::vector<float> mixed(const std::vector<float>& matrix, std::ptrdiff_t row) const {
    const float* const routed = routed_.data() + row * streams_;
    std::vector<float> y(matrix.size() / static_cast<std::size_t>(streams_));
    for (std::size_t i = 0; i < y.size(); ++i) {
      for (std::size_t j = 0; j < static_cast<std::size_t>(streams_); ++j) {
        y[i] += matrix[i * static_cast<std::size_t>(streams_) + j] * routed[j];
      }
    }
    return y;
  }

  void layer(const TransformerPass& pass, int i) override {
    const Gemma3nLayer& weights = layers_[static_cast<std::size_t>(i)];
    TransformerScratch& s = pass.scratch;
    const std::ptrdiff_t all = static_cast<std::ptrdiff_t>(pass.rows) * hidden();
    predict(pass, weights);
    std::copy_n(predicted_.data(), all, s.hidden_states.data());

    pass.normalize(weights.attention_norm);
    add_laurel(pass, weights);
    pass.self_attention(i, weights.attention);
    pass.normalize_projected(weights.attended_norm);
    pass.add_projected();
    for_each_row(pass, [&](std::ptrdiff_t row) {
      const float root = std::sqrt(2.0F);
      for (std::ptrdiff_t k = row * hidden(); k < (row + 1) * hidden(); ++k) {
        s.hidden_states[static_cast<std::size_t>(k)] =
            (s.hidden_states[static_cast<std::size_t>(k)] + laurel_[static_cast<std::size_t>(k)]) / root;
      }
    });
    gemma_mlp(pass, weights);

    correct(pass, weights);
    embeddings_.mix(pass, i, weights.embedding, s.hidden_states.data());
    for_each_row(pass, [&](std::ptrdiff_t row) {
      for (int k = 1; k < streams_; ++k) {
        pass.kernels.add(s.projected.data() + row * hidden(), static_cast<std::size_t>(hidden()),
                         stream(now_, k, pass.rows) + row * hidden());
      }
    });
    std::copy_n(now_.data(), all, s.hidden_states.data());
  }

  /// Each stream becomes itself plus a mixture of all, which the first one chooses.
  void predict(const TransformerPass& pass, const Gemma3nLayer& weights) {
    route(pass, weights, now_.data());
    for_each_row(pass, [&](std::ptrdiff_t row) {
      const std::vector<float> shares = mixed(weights.prediction, row);
      for (int i = 0; i < streams_; ++i) {
        float* const to = stream(predicted_, i, pass.rows) + row * hidden();
        std::fill_n(to, hidden(), 0.0F);
        for (int j = 0; j < streams_; ++j) {
          const float share = shares[static_cast<std::size_t>(i * streams_ + j)];
          const float* const from = stream(now_, j, pass.rows) + row * hidden();
          for (int k = 0; k < hidden(); ++k) to[k] += share * from[k];
        }
        pass.kernels.add(stream(now_, i, pass.rows) + row * hidden(), static_cast<std::size_t>(hidden()), to);
      }
    });
  }

  /// laurel = normed + norm(right . left . normed)
  void add_laurel(const TransformerPass& pass, const Gemma3nLayer& weights) {
    multiply_by(pass, weights.laurel_left, pass.scratch.normed.data(), narrow_.data());
    multiply_by(pass, weights.laurel_right, narrow_.data(), laurel_.data());
    pass.normalize(weights.laurel_norm, laurel_.data(), laurel_.data());
    for_each_row(pass, [&](std::ptrdiff_t row) {
      pass.kernels.add(pass.scratch.normed.data() + row * hidden(), static_cast<std::size_t>(hidden()),
                       laurel_.data() + row * hidden());
    });
  }

  /// Each stream becomes its prediction plus a share of what the layer, whose output hidden_states are, made of the
  /// first one; then hidden_states = the first one, scaled.
  void correct(const TransformerPass& pass, const Gemma3nLayer& weights) {
    float* const out = pass.scratch.hidden_states.data();
    route(pass, weights, out);
    for_each_row(pass, [&](std::ptrdiff_t row) {
      const std::vector<float> shares = mixed(weights.correction, row);
      float* const computed = out + row * hidden();
      const float* const foreseen = predicted_.data() + row * hidden();
      for (int i = 0; i < streams_; ++i) {
        const float share = shares[static_cast<std::size_t>(i)] + 1;
        const float* const from = stream(predicted_, i, pass.rows) + row * hidden();
        float* const to = stream(now_, i, pass.rows) + row * hidden();
        for (int k = 0; k < hidden(); ++k) to[k] = (computed[k] - foreseen[k]) * share + from[k];
      }
      for (int k = 0; k < hidden(); ++k) {
        computed[k] = now_[static_cast<std::size_t>(row * hidden() + k)];
        if (config().scaled_output) computed[k] *= weights.output_scale[static_cast<std::size_t>(k)];
      }
    });
  }

  /// hidden_states = the mean of the streams, all but the first projected and as long as it
  void end(const TransformerPass& pass) override {
    TransformerScratch& s = pass.scratch;
    std::copy_n(now_.data(), static_cast<std::ptrdiff_t>(pass.rows) * hidden(), s.hidden_states.data());
    for (int k = 1; k < streams_; ++k) {
      multiply_by(pass, unembeddings_[static_cast<std::size_t>(k - 1)], stream(now_, k, pass.rows), s.projected.data());
      stretch(pass, now_.data(), s.projected.data());
      pass.add_projected();
    }
    multiply(pass, 1 / static_cast<float>(streams_), s.hidden_states.data());
  }

  LayerEmbeddings embeddings_;
  int streams_;
  std::vector<PackedMatrix> projections_;   // [streams - 1]: [hidden][hidden], of the embedding
  std::vector<PackedMatrix> unembeddings_;  // the same of the streams behind the last layer
  std::vector<Gemma3nLayer> layers_;
  std::vector<float> now_, predicted_;  // [streams][rows][hidden]
  std::vector<float> laurel_;           // [rows][hidden]
  std::vector<float> narrow_;           // [rows][rank]
  std::vector<float> routed_;           // [rows][streams]
};

/// Reads a number of each layer: one for all, or a list.
template <class Number>
auto read_of_layers(const Json& json, const char* field, int layers, const Number& number) {
  const Json value = json.at(field);
  std::vector<decltype(number(value))> result;
  if (value.is_array() && value.size() != static_cast<std::size_t>(layers)) {
    value.fail("must have a number for each of the " + std::to_string(layers) + " layers");
  }
  for (int i = 0; i < layers; ++i)
    result.push_back(number(value.is_array() ? value[static_cast<std::size_t>(i)] : value));
  return result;
}

/// A folder says which share of gates becomes 0, were they normally distributed; a GGUF how many deviations above the
/// mean they do, null for none.
std::vector<std::optional<double>> read_cutoffs(const Json& json, int layers) {
  const auto deviations = [](const Json& value) -> std::optional<double> {
    if (value.is_null()) return {};
    return value.number();
  };
  const auto of_share = [](const Json& value) -> std::optional<double> {
    const double share = value.number();
    if (!(share >= 0 && share < 1)) value.fail("must be at least 0 and below 1");
    return share > 0 ? std::optional(normal_quantile64(share)) : std::nullopt;
  };
  const char* const stated = "activation_sparsity_scale";
  if (json.has(stated)) return read_of_layers(json, stated, layers, deviations);
  return read_of_layers(json, "activation_sparsity_pattern", layers, of_share);
}

/// Of a text model, or of a multimodal one.
TransformerConfig describe_model(const Json& whole) {
  const Json json = text_config(whole);
  require_model_type(json, {"gemma3n_text"});
  TransformerConfig config = read_gemma_config(json, defaults, default_cap);
  config.unused = {"vision_tower.",       "audio_tower.",       "embed_vision.",       "embed_audio.",
                   "model.vision_tower.", "model.audio_tower.", "model.embed_vision.", "model.embed_audio."};
  config.layer_embedding = static_cast<int>(json.at("hidden_size_per_layer_input").integer(1, 1 << 16));
  config.streams = static_cast<int>(json.at("altup_num_inputs").integer(1, streams_max));
  config.laurel_rank = positive(json, "laurel_rank");
  const auto active = json.find("altup_active_idx");
  if (active && active->integer(0, streams_max) != 0) active->fail("must be 0; layers compute the first stream");
  const auto scaled = json.find("altup_correct_scale");
  config.scaled_output = !scaled || scaled->boolean();

  AttentionLayer attention;
  attention.shape = read_attention_shape(json, config.hidden, defaults);
  attention.shape.scale = 1;
  attention.qk_norm = QkNorm::heads;
  config.ropes = {read_rope(json, attention.shape.head_dim, full_rope),
                  read_rope(json, attention.shape.head_dim, sliding_rope)};
  const int window = read_gemma_window(json, default_window);
  const std::vector<bool> sliding = read_sliding(json, config.depth(), default_period);
  const auto widths = read_of_layers(json, "intermediate_size", config.depth(),
                                     [](const Json& value) { return static_cast<int>(value.integer(1, 1 << 24)); });
  const auto cutoffs = read_cutoffs(json, config.depth());
  for (std::size_t i = 0; i < sliding.size(); ++i) {
    attention.window = sliding[i] ? window : AttentionCache::everything;
    attention.rope = sliding[i] ? 1 : 0;
    config.layers[i].mixer = attention;
    config.layers[i].intermediate = widths[i];
    config.layers[i].gate_cutoff = cutoffs[i];
  }
  json.at("num_kv_shared_layers");
  share_keys(json, config);
  return config;
}

std::unique_ptr<Model> load(const WeightLoader& from, const TransformerConfig& config) {
  return std::make_unique<Gemma3n>(from, config);
}

constexpr ArchitectureName names[] = {
    {"gemma3n_text", "Gemma3nForCausalLM"},
    {"gemma3n", "Gemma3nForConditionalGeneration"},
};

}  // namespace

const Architecture gemma3n_architecture = {.names = names, .describe = describe_model, .load = load};

}  // namespace draftproof
