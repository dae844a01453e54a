// SPDX-License-Identifier: MIT
#include "ref/models/gemma4_assistant.h"

#include <algorithm>
#include <cmath>
#include <utility>

#include "kernels/packed_activations.h"
#include "ref/base/error.h"
#include "ref/base/require.h"
#include "ref/caches/feature_cache.h"
#include "ref/models/checkpoint_kind.h"
#include "ref/models/counted_target.h"
#include "ref/models/gemma4.h"

namespace draftproof {
namespace {

constexpr int default_backbone_width = 1536;  // transformers' Gemma4AssistantConfig

constexpr const char* embedding_name = "model.embed_tokens.weight";

bool slides(const AttentionLayer& layer) { return layer.window != AttentionCache::everything; }

const char* kind_of(const AttentionLayer& layer) { return slides(layer) ? "sliding" : "full"; }

/// Makes an attention layer read the keys of the target's last layer of its kind that has keys of its own.
void read_from_target(const Json& json, int number, const TransformerConfig& target, AttentionLayer& layer) {
  const auto fail = [&](const char* field, const std::string& why) {
    json.find(field).value_or(json).fail("gives layer " + std::to_string(number) + " " + why);
  };
  int donor = target.depth() - 1;
  const auto lends = [&](const AttentionLayer& of_target) {
    return of_target.donor == AttentionLayer::own && slides(of_target) == slides(layer);
  };
  while (donor >= 0 && !lends(target.attention(donor))) --donor;
  if (donor < 0) {
    fail("layer_types",
         std::string(kind_of(layer)) + " attention, and the target has no such layer with keys of its own");
  }
  const AttentionLayer& of_target = target.attention(donor);
  const std::string whose = ", but the keys that it reads, of the target's layer " + std::to_string(donor) + ", ";
  const AttentionShape& own = layer.shape;
  const AttentionShape& read = of_target.shape;
  if (own.head_dim != read.head_dim) {
    fail("head_dim",
         "heads of " + std::to_string(own.head_dim) + " values" + whose + "have " + std::to_string(read.head_dim));
  }
  if (own.kv_heads != read.kv_heads) {
    fail("num_key_value_heads",
         std::to_string(own.kv_heads) + " KV heads" + whose + "are of " + std::to_string(read.kv_heads));
  }
  if (layer.window != of_target.window) {
    fail("sliding_window",
         "a window of " + std::to_string(layer.window) + whose + "are kept for " + std::to_string(of_target.window));
  }
  layer.donor = donor;
  layer.rope = of_target.rope;
}

bool is_gemma4_assistant(const Json& config) {
  if (!config.is_object()) return false;
  const auto type = config.find("model_type");
  return type && type->is_string() &&
         (type->string() == "gemma4_assistant" || type->string() == "gemma4_unified_assistant");
}

}  // namespace

const CheckpointKind gemma4_assistant_checkpoint = {.name = "assistant of Gemma 4",
                                                    .architectures = "the assistants of Gemma 4",
                                                    .lender = "those of the target",
                                                    .recognizes = is_gemma4_assistant,
                                                    .describe = describe_gemma4_assistant};

int read_backbone_width(const Json& config) { return positive(config, "backbone_hidden_size", default_backbone_width); }

TransformerConfig describe_gemma4_assistant(const Json& config) {
  const Json json = text_config(config);
  require_model_type(json, {"gemma4_text", "gemma4_unified_text", "gemma4_assistant"});
  for (const char* field : {"enable_moe_block", "use_double_wide_mlp"}) {
    refuse_if_set(json, field, "is not implemented for assistants");
  }
  TransformerConfig result = describe_gemma4_layers(json);
  if (result.layer_embedding > 0) {
    json.find("hidden_size_per_layer_input").value_or(json).fail("gives an assistant embeddings for each layer");
  }
  const auto shared = json.find("num_kv_shared_layers");
  if (shared && shared->integer(0, result.depth()) % result.depth() != 0) {
    shared->fail("must be the number of layers; an assistant has no keys and values of its own");
  }
  for (LayerConfig& layer : result.layers) {
    auto& attention = std::get<AttentionLayer>(layer.mixer);
    attention.donor = 0;
    attention.values_from_keys = false;
  }
  result.embedding_scale = 1;  // what it embeds is the target's
  result.logit_cap = 0;
  result.unused = {"masked_embedding."};
  return result;
}

TransformerConfig read_gemma4_assistant(const Checkpoint& files, const Model& target) {
  const Json& config = files.config();
  const TransformerConfig* const lender = target.transformer();
  if (lender == nullptr || !lender->assisted) {
    throw Error(files.path().string() +
                ": is an assistant of a Gemma 4, and the target is another model; name it with "
                "the target that it was made for, or choose another draft");
  }
  const Json json = text_config(config);
  if (const int width = read_backbone_width(config); width != target.hidden()) {
    config.find("backbone_hidden_size")
        .value_or(config)
        .fail("makes it an assistant of a target of the hidden_size " + std::to_string(width) +
              ", but the target's is " + std::to_string(target.hidden()));
  }
  TransformerConfig result = describe_gemma4_assistant(config);
  if (result.vocabulary != target.vocabulary()) {
    json.find("vocab_size")
        .value_or(json)
        .fail("does not fit the target's vocabulary of " + std::to_string(target.vocabulary()));
  }
  for (int i = 0; i < result.depth(); ++i) {
    read_from_target(json, i, *lender, std::get<AttentionLayer>(result.layers[static_cast<std::size_t>(i)].mixer));
  }
  result.ropes = lender->ropes;
  return result;
}

Gemma4Assistant::Gemma4Assistant(const Checkpoint& files, const Model& target, const LoadOptions& options)
    : Gemma4Assistant(WeightLoader(files, options), read_gemma4_assistant(files, target), target) {}

MemoryNeed Gemma4Assistant::need(const Checkpoint& files, const LoadOptions& options) {
  const TransformerConfig config = describe_gemma4_assistant(files.config());
  const CountedTarget target(read_backbone_width(files.config()), config.vocabulary);
  const WeightLoader counted(files, options, WeightLoader::Mode::count);
  const Gemma4Assistant head(counted, config, target);
  MemoryNeed need = need_of_layers(config, counted);
  need.cache_per_position += FeatureCache::bytes_per_position(head.width());
  need.add_row_floats(4 * static_cast<std::uint64_t>(head.width()));  // the target's last layer and features, twice
  return need;
}

Gemma4Assistant::Gemma4Assistant(const WeightLoader& from, TransformerConfig config, const Model& target)
    : kernels_(from.options.kernels),
      target_(target),
      origin_(from.weights.path().string()),
      config_(std::move(config)),
      last_layer_(target.layers() - 1) {
  REQUIRE(target.embeddings() != nullptr, "an assistant borrows the target's embedding and final norm");
  const int hidden = config_.hidden;
  pre_projection_ = load_matrix(from, {{"pre_projection.weight", hidden}}, 2 * width());
  post_projection_ = load_matrix(from, {{"post_projection.weight", width()}}, hidden);
  embedding_ = load_table(from, {embedding_name, config_.vocabulary}, hidden);
  if (from.weights.same("lm_head.weight", embedding_name)) from.loaded("lm_head.weight");
  from.loaded("rope_freqs.weight");  // the target's
  norm_ = load_norm(from, config_, "model.norm.weight", hidden);
  for (int i = 0; i < config_.depth(); ++i) {
    const std::string prefix = "model.layers." + std::to_string(i) + ".";
    Layer& layer = layers_.emplace_back();
    static_cast<GemmaLayer&>(layer) = load_gemma_layer(from, config_, i, prefix);
    load_head_norms(from, config_, config_.attention(i), prefix + "self_attn.", layer.attention);
    layer.scalar = load_layer_scalar(from, prefix);
  }
  from.finish(config_.unused);
}

void Gemma4Assistant::fuse(std::span<const float> tapped, int rows, float* features) {
  REQUIRE(tapped.size() == static_cast<std::size_t>(rows) * static_cast<std::size_t>(width()), "one tap per position");
  target_.embeddings()->normalize(tapped.data(), rows, features);
}

void Gemma4Assistant::forward(std::span<Rows> batch) {
  lay_out(batch);
  const TransformerPass pass = {kernels_, config_, scratch_, scratch_.rows()};
  if (pass.rows > 0) {
    project_inputs(pass);
    for (int i = 0; i < config_.depth(); ++i) {
      const Layer& layer = layers_[static_cast<std::size_t>(i)];
      pass.normalize(layer.attention_norm);
      pass.project(config_.attention(i), layer.attention);
      attend(i);
      pass.project_attended(layer.attention);
      pass.normalize_projected(layer.attended_norm);
      pass.add_projected();
      gemma_mlp(pass, layer);
      if (layer.scalar != 1) multiply(pass, layer.scalar, scratch_.hidden_states.data());
    }
  }
  compute_results(pass, batch);
  for (const Rows& one : batch) one.cache->wrote(one.rows());
}

/// Sets texts, positions and inputs [embedding of the token; feature].
void Gemma4Assistant::lay_out(std::span<const Rows> batch) {
  const auto width = static_cast<std::size_t>(this->width());
  texts_.clear();
  positions_.clear();
  inputs_.clear();
  for (const Rows& one : batch) {
    REQUIRE(one.features.size() == one.tokens.size() * width, "a row reads one feature");
    if (one.wanted.empty()) continue;
    const int position = one.cache->length();
    REQUIRE(one.target != nullptr && one.target->length() == position, "the target's cache holds the same text");
    texts_.push_back({one.target, static_cast<int>(positions_.size()), static_cast<int>(one.wanted.size())});
    for (const int row : one.wanted) {
      const auto at = static_cast<std::size_t>(row);
      positions_.push_back(position);
      inputs_.resize(inputs_.size() + 2 * width);
      float* const input = inputs_.data() + inputs_.size() - 2 * width;
      target_.embeddings()->embed(one.tokens.subspan(at, 1), input);
      std::ranges::copy(one.features.subspan(at * width, width), input + width);
    }
  }
  scratch_.lay_out_unwritten(config_, positions_);
}

/// hidden_states = pre_projection . inputs
void Gemma4Assistant::project_inputs(const TransformerPass& pass) {
  pack_activations(kernels_, pre_projection_, inputs_.data(), pre_projection_.inputs(), pass.rows,
                   scratch_.activations);
  matmul(kernels_, pre_projection_, scratch_.activations, scratch_.hidden_states.data(), config_.hidden);
}

/// attended [rows][heads * d] = attention over the target's keys and values of the text of each row
void Gemma4Assistant::attend(int layer) {
  const AttentionLayer& attention = config_.attention(layer);
  const int stride = attention.projected();
  lent_.clear();
  for (const Text& text : texts_) {
    const std::ptrdiff_t first = text.first;
    lent_.push_back({text.target, text.rows, scratch_.qkv.data() + first * stride,
                     scratch_.attended.data() + first * attention.q_width()});
  }
  target_.embeddings()->attend(attention.donor, attention.shape, stride, lent_, scratch_.attention);
}

/// Computes the logits and features of all wanted rows.
void Gemma4Assistant::compute_results(const TransformerPass& pass, std::span<Rows> batch) {
  const auto rows = static_cast<std::size_t>(pass.rows);
  const auto width = static_cast<std::size_t>(this->width());
  const auto vocabulary = static_cast<std::size_t>(config_.vocabulary);
  next_features_.resize(rows * width);
  logits_.resize(rows * vocabulary);
  bool numbers = true;
  if (rows > 0) {
    const float* const normed = scratch_.normed.data();
    pass.normalize(norm_);
    pack_activations(kernels_, post_projection_, normed, config_.hidden, pass.rows, scratch_.activations);
    matmul(kernels_, post_projection_, scratch_.activations, next_features_.data(), this->width());
    pack_activations(kernels_, embedding_, normed, config_.hidden, pass.rows, scratch_.activations);
    numbers = matmul_of_numbers(kernels_, embedding_, scratch_.activations, logits_.data(), config_.vocabulary);
  }
  std::span<const float> features = next_features_;
  std::span<const float> logits = logits_;
  for (Rows& one : batch) {
    one.next_features = features.first(one.wanted.size() * width);
    one.logits = logits.first(one.wanted.size() * vocabulary);
    features = features.subspan(one.next_features.size());
    logits = logits.subspan(one.logits.size());
    one.error.clear();
    if (!numbers && std::ranges::any_of(one.logits, [](float logit) { return std::isnan(logit); })) {
      one.error = origin_ + ": the assistant computes NaN logits; its weights are damaged";
    }
  }
}

}  // namespace draftproof
