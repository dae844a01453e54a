// SPDX-License-Identifier: MIT
#include "ref/models/eagle3.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <utility>

#include "kernels/packed_activations.h"
#include "ref/base/error.h"
#include "ref/base/require.h"
#include "ref/caches/attention_cache.h"
#include "ref/caches/feature_cache.h"
#include "ref/models/checkpoint_kind.h"
#include "ref/models/counted_target.h"
#include "ref/models/parallel_drafting.h"

namespace draftproof {
namespace {

bool said(const Json& config, std::string_view name) {
  const auto value = find_eagle3_field(config, name);
  return value && value->boolean();
}

constexpr const char* taps_field = "eagle_aux_hidden_state_layer_ids";

bool is_eagle3(const Json& config) {
  if (!config.is_object()) return false;
  const auto kind = config.find("speculators_model_type");
  if (kind && kind->is_string() && (kind->string() == "eagle3" || kind->string() == "peagle")) return true;
  const auto architectures = config.find("architectures");
  if (!architectures || !architectures->is_array() || architectures->size() == 0) return false;
  const Json name = (*architectures)[0];
  if (!name.is_string()) return false;
  for (const char* known :
       {"LlamaForCausalLMEagle3", "Eagle3LlamaForCausalLM", "PEagleDraftModel", "PeagleLlamaForCausalLM"}) {
    if (name.string() == known) return true;
  }
  return name.string() == "LlamaForCausalLM" && config.find("draft_vocab_size");  // the authors' own
}

/// Whether it says that it is P-EAGLE. The first heads do not, and only name the mask token.
bool is_parallel(const Json& config) {
  const auto kind = config.find("speculators_model_type");
  if (kind && kind->is_string()) return kind->string() == "peagle";
  const auto architectures = config.find("architectures");
  const std::string name = architectures && architectures->size() > 0 ? (*architectures)[0].string() : "";
  return name == "PEagleDraftModel" || name == "PeagleLlamaForCausalLM";
}

/// What stands before the names of a layer's tensors.
std::string layer_prefix(const Checkpoint& files, const std::string& prefix, int layer) {
  const std::string numbered = std::to_string(layer) + ".";
  if (layer == 0 && files.has(prefix + "midlayer.hidden_norm.weight")) return prefix + "midlayer.";
  if (files.has(prefix + "midlayer." + numbered + "hidden_norm.weight")) return prefix + "midlayer." + numbered;
  return prefix + "layers." + numbered;
}

}  // namespace

const CheckpointKind eagle3_checkpoint = {
    .name = "EAGLE-3 draft",
    .architectures = "LlamaForCausalLMEagle3, Eagle3LlamaForCausalLM, PEagleDraftModel",
    .lender = "those of another layer",
    .recognizes = is_eagle3,
    .describe = [](const Json& config) { return describe_eagle3(config).transformer; }};

/// The field, or else that of eagle_config: both spellings are published.
std::optional<Json> find_eagle3_field(const Json& config, std::string_view name) {
  if (auto top = config.find(name)) return top;
  const auto block = config.find("eagle_config");
  return block ? block->find(name) : std::nullopt;
}

/// The id of a layer names what enters it, so the target is tapped after the layer before.
std::vector<int> read_eagle3_taps(const Json& config, int layers) {
  if (const auto count = find_eagle3_field(config, "num_target_layers");
      count && count->integer(1, 1 << 16) != layers) {
    count->fail("does not fit the target, which has " + std::to_string(layers) + " layers");
  }
  const auto field = find_eagle3_field(config, taps_field);
  std::vector<int> taps;
  if (!field) {
    for (const int id : {2, layers / 2, layers - 3}) taps.push_back(id - 1);
    if (!(taps[0] < taps[1] && taps[1] < taps[2])) {
      config.fail("names no eagle_aux_hidden_state_layer_ids, and the target is too shallow for the default");
    }
    return taps;
  }
  for (const std::int64_t id : field->integers(1, layers)) {
    taps.push_back(static_cast<int>(id) - 1);
    if (taps.size() > 1 && taps.back() <= taps[taps.size() - 2]) field->fail("must ascend");
  }
  if (taps.empty()) field->fail("must name at least one layer");
  return taps;
}

Eagle3Config describe_eagle3(const Json& config) {
  const Json layer = layer_config(config);
  Eagle3Config result;
  result.transformer = read_transformer_config(layer, {.vocabulary = 1});
  result.draft_vocabulary = positive(config, "draft_vocab_size", result.transformer.vocabulary);
  const auto taps = find_eagle3_field(config, taps_field);
  result.taps.resize(taps && taps->is_array() ? taps->size() : 3);
  result.norm_before_residual = said(config, "norm_before_residual");
  result.norm_before_fc = said(config, "norm_before_fc");
  result.fc_norm = said(config, "fc_norm");
  result.norm_output = said(config, "norm_output") || said(config, "return_hidden_post_norm");
  result.mask_token = find_mask_token(config, std::numeric_limits<int>::max());  // the target says of how many
  result.speculative_tokens = read_speculative_tokens(config);
  return result;
}

Eagle3Config read_eagle3_config(const Json& config, const Eagle3Target& target) {
  if (!is_eagle3(config)) config.fail("is not an EAGLE-3 draft");
  Eagle3Config result = describe_eagle3(config);
  const Json layer = layer_config(config);
  if (const auto size = layer.find("vocab_size"); size && result.transformer.vocabulary != target.vocabulary) {
    size->fail("does not fit the target, whose vocabulary is " + std::to_string(target.vocabulary));
  }
  result.transformer.vocabulary = target.vocabulary;
  const auto own = config.find("draft_vocab_size");
  result.draft_vocabulary = own ? static_cast<int>(own->integer(1, target.vocabulary)) : target.vocabulary;
  if (const auto hidden = config.find("target_hidden_size"); hidden && hidden->integer(1, 1 << 24) != target.hidden) {
    hidden->fail("does not fit the target, whose hidden_size is " + std::to_string(target.hidden));
  }
  result.taps = read_eagle3_taps(config, target.layers);
  if (const auto use = find_eagle3_field(config, "use_aux_hidden_state"); use && !use->boolean()) {
    use->fail("must be true; a draft that reads one layer of the target is not implemented");
  }
  if (const auto project = find_eagle3_field(config, "eh_proj_before_attn"); project && project->boolean()) {
    project->fail("must be false; a projection of token and feature before the first layer is not implemented");
  }
  if (const auto regular = find_eagle3_field(config, "next_layer_regular"); regular && !regular->boolean()) {
    regular->fail("must be true; later layers that read the token are not implemented");
  }
  if (config.find("transformer_layer_config") && !config.find("norm_before_residual")) {
    config.fail("needs norm_before_residual; programs disagree on what it is when it is left out");
  }
  result.mask_token = find_mask_token(config, target.vocabulary);
  if (is_parallel(config) && !result.mask_token) {
    config.fail(
        "needs mask_token_id, the token that stands where draft tokens would be; it is the one it was trained "
        "with");
  }
  if (result.norm_before_fc && result.fc_norm) config.fail("says both norm_before_fc and fc_norm, but only one can be");
  return result;
}

Eagle3Head::Eagle3Head(const Checkpoint& files, const Model& target, const LoadOptions& options)
    : Eagle3Head(WeightLoader(files, options),
                 read_eagle3_config(files.config(), {target.layers(), target.hidden(), target.vocabulary()}), target) {}

MemoryNeed Eagle3Head::need(const Checkpoint& files, const LoadOptions& options) {
  const Eagle3Config config = describe_eagle3(files.config());
  const TransformerConfig& t = config.transformer;
  const CountedTarget target(positive(files.config(), "target_hidden_size", t.hidden), t.vocabulary);
  const WeightLoader counted(files, options, WeightLoader::Mode::count);
  const Eagle3Head head(counted, config, target);
  const auto inputs = static_cast<std::uint64_t>(head.fc_.inputs());
  MemoryNeed need = need_of_layers(t, counted);
  need.cache_per_position += FeatureCache::bytes_per_position(t.hidden);
  need.add_row_floats(2 * inputs);  // the tapped layers, and the same as the input of a pass
  need.add_row_floats(3 * static_cast<std::uint64_t>(t.hidden));  // features, twice, and rows of a token and a feature
  return need;
}

Eagle3Head::Eagle3Head(const WeightLoader& from, Eagle3Config config, const Model& target)
    : kernels_(from.options.kernels),
      kv_(from.options.kv),
      target_(target),
      origin_(from.weights.path().string()),
      config_(std::move(config)),
      tables_(from, from.weights.has("model.fc.weight") ? "model." : "",
              {config_.transformer.hidden, config_.transformer.vocabulary, config_.draft_vocabulary}, target) {
  const TransformerConfig& t = config_.transformer;
  const Checkpoint& weights = from.weights;
  const std::string prefix = weights.has("model.fc.weight") ? "model." : "";
  const int inputs = static_cast<int>(config_.taps.size()) * target.hidden();
  stretch_rope(from, config_.transformer.ropes[0]);
  fc_ = load_matrix(from, {{prefix + "fc.weight", t.hidden}}, inputs);
  if (config_.norm_before_fc) input_norm_ = load_norm(from, t, prefix + "input_norm.weight", inputs);
  for (std::size_t i = 0; config_.fc_norm && i < config_.taps.size(); ++i) {
    fc_norms_.push_back(load_norm(from, t, prefix + "fc_norm." + std::to_string(i) + ".weight", target.hidden()));
  }
  load_layers(from, prefix);
  norm_ = load_norm(from, t, prefix + "norm.weight", t.hidden);
  if (config_.mask_token) load_mask(from, prefix);
  const std::vector<std::string> unused = {"verifier_"};  // of training
  from.finish(unused);
}

/// mask_hidden is in place of the target's tapped layers, or of what fc makes of them.
void Eagle3Head::load_mask(const WeightLoader& from, const std::string& prefix) {
  const std::string name = prefix + "mask_hidden";
  const auto found = from.weights.tensors().find(name);
  const std::vector<std::int64_t> shape =
      found != from.weights.tensors().end() ? found->second.shape : std::vector<std::int64_t>{1, 1, fc_.inputs()};
  const std::vector<float> stored = from.floats(name, shape);
  mask_ = Mask{*config_.mask_token, std::vector<float>(static_cast<std::size_t>(width())), config_.speculative_tokens};
  if (from.counts()) return;
  if (stored.size() == static_cast<std::size_t>(fc_.inputs())) {
    fuse(stored, 1, mask_->feature.data());
  } else if (stored.size() == mask_->feature.size()) {
    mask_->feature = stored;
  } else {
    throw Error(origin_ + ": mask_hidden has " + std::to_string(stored.size()) + " values, and " +
                std::to_string(fc_.inputs()) + " are what it stands for; the file is damaged");
  }
}

void Eagle3Head::load_layers(const WeightLoader& from, const std::string& prefix) {
  const TransformerConfig& t = config_.transformer;
  const Checkpoint& weights = from.weights;
  for (int i = 0; i < t.depth(); ++i) {
    const AttentionLayer& attention = t.attention(i);
    const std::string layer = layer_prefix(weights, prefix, i);
    PreNormLayer& to = layers_.emplace_back();
    to.attention = load_attention(from, t, attention, layer + "self_attn.", i == 0 ? 2 * t.hidden : t.hidden);
    if (weights.has(layer + "self_attn.q_norm.weight")) {
      load_head_norms(from, t, attention, layer + "self_attn.", to.attention);
    }
    const LayerConfig& shape = t.layers[static_cast<std::size_t>(i)];
    to.mlp = load_mlp(from, t.hidden, shape.intermediate, shape.mlp_bias, layer + "mlp.");
    const bool other_name = i > 0 && weights.has(layer + "hidden_norm.weight");
    to.attention_norm =
        load_norm(from, t, layer + (other_name ? "hidden_norm.weight" : "input_layernorm.weight"), t.hidden);
    to.mlp_norm = load_norm(from, t, layer + "post_attention_layernorm.weight", t.hidden);
    if (i == 0) hidden_norm_ = load_norm(from, t, layer + "hidden_norm.weight", t.hidden);
  }
}

std::vector<std::unique_ptr<LayerCache>> Eagle3Head::new_layers(int capacity, int max_pending_rows) const {
  return new_layer_caches(config_.transformer, kernels_, kv_, capacity, max_pending_rows);
}

void Eagle3Head::fuse(std::span<const float> tapped, int rows, float* features) {
  const int inputs = fc_.inputs();
  REQUIRE(tapped.size() == static_cast<std::size_t>(rows) * static_cast<std::size_t>(inputs),
          "features hold one row of taps per position");
  const float epsilon = config_.transformer.epsilon;
  const float* from = tapped.data();
  if (config_.norm_before_fc || config_.fc_norm) {
    tapped_.resize(tapped.size());
    from = tapped_.data();
  }
  if (config_.norm_before_fc) {
    kernels_.rms_norm(tapped.data(), inputs, rows, 1, inputs, input_norm_.data(), epsilon, tapped_.data(), inputs);
  }
  for (std::size_t i = 0; i < fc_norms_.size(); ++i) {
    const int width = target_.hidden();
    const std::size_t first = i * static_cast<std::size_t>(width);
    kernels_.rms_norm(tapped.data() + first, inputs, rows, 1, width, fc_norms_[i].data(), epsilon,
                      tapped_.data() + first, inputs);
  }
  pack_activations(kernels_, fc_, from, inputs, rows, scratch_.activations);
  matmul(kernels_, fc_, scratch_.activations, features, config_.transformer.hidden);
}

void Eagle3Head::forward(std::span<Rows> batch) {
  const TransformerConfig& t = config_.transformer;
  const auto width = static_cast<std::ptrdiff_t>(t.hidden);
  placements_.clear();
  tokens_.clear();
  for (const Rows& one : batch) {
    const Segment segment = {.cache = one.cache, .tokens = one.tokens, .depths = one.depths};
    placements_.push_back(placement_of(segment));
    tokens_.insert(tokens_.end(), one.tokens.begin(), one.tokens.end());
  }
  scratch_.lay_out(t, placements_);
  const int rows = scratch_.rows();
  reserve_rows(scratch_.normed, rows, 2 * t.hidden);
  float* const hidden = scratch_.hidden_states.data();
  float* at = hidden;
  for (const Rows& one : batch) {
    REQUIRE(one.features.size() == one.tokens.size() * static_cast<std::size_t>(width), "a row reads one feature");
    at = std::ranges::copy(one.features, at).out;
  }

  const TransformerPass pass = {kernels_, t, scratch_, rows};
  first_layer(pass);
  for (int i = 1; i < t.depth(); ++i) {
    see(pass, i);
    pass.pre_norm_layer(t.attention(i), layers_[static_cast<std::size_t>(i)]);
  }
  for (const Rows& one : batch) one.cache->wrote(one.rows());
  compute_results(batch);
}

/// The layer that reads pairs of the rows' tokens and features.
void Eagle3Head::first_layer(const TransformerPass& pass) {
  const TransformerConfig& t = config_.transformer;
  const PreNormLayer& layer = layers_[0];
  const auto width = static_cast<std::ptrdiff_t>(t.hidden);
  float* const hidden = scratch_.hidden_states.data();
  float* const pairs = scratch_.normed.data();
  tables_.embed(tokens_, scratch_.projected.data());
  kernels_.rms_norm(scratch_.projected.data(), width, pass.rows, 1, t.hidden, layer.attention_norm.data(), t.epsilon,
                    pairs, 2 * width);
  kernels_.rms_norm(hidden, width, pass.rows, 1, t.hidden, hidden_norm_.data(), t.epsilon, pairs + width, 2 * width);
  for (std::ptrdiff_t row = 0; config_.norm_before_residual && row < pass.rows; ++row) {
    std::copy_n(pairs + row * 2 * width + width, width, hidden + row * width);
  }
  see(pass, 0);
  pass.project(t.attention(0), layer.attention);
  pass.attend(t.attention(0), layer.attention);
  pass.project_attended(layer.attention);
  pass.add_projected();
  pass.normalize(layer.mlp_norm);
  pass.mlp(layer.mlp);
  pass.add_projected();
}

/// As TransformerPass::see, but that no row but itself sees row 0.
void Eagle3Head::see(const TransformerPass& pass, int layer) {
  pass.see(layer);
  for (std::size_t row = 0; row < scratch_.positions.size(); ++row) {
    int& first = scratch_.visible[row].first;
    first = std::max(first, std::min(1, scratch_.positions[row]));
  }
}

/// Computes the logits of all rows that are wanted in one matmul.
void Eagle3Head::compute_results(std::span<Rows> batch) {
  const TransformerConfig& t = config_.transformer;
  const auto width = static_cast<std::size_t>(t.hidden);
  next_features_.clear();
  for (std::size_t i = 0; i < batch.size(); ++i) {
    for (const int row : batch[i].wanted) {
      const auto at = static_cast<std::size_t>(scratch_.first_rows[i] + row) * width;
      const auto from = scratch_.hidden_states.begin() + static_cast<std::ptrdiff_t>(at);
      next_features_.insert(next_features_.end(), from, from + t.hidden);
    }
  }
  const int rows = static_cast<int>(next_features_.size() / width);
  wanted_rows_.resize(next_features_.size());
  kernels_.rms_norm(next_features_.data(), t.hidden, rows, 1, t.hidden, norm_.data(), t.epsilon, wanted_rows_.data(),
                    t.hidden);
  const bool numbers = rows == 0 || tables_.unembed(wanted_rows_.data(), rows, scratch_.activations, logits_);
  std::span<const float> features = config_.norm_output ? wanted_rows_ : next_features_;
  std::span<const float> logits = logits_;
  for (Rows& one : batch) {
    one.logits = logits.first(one.wanted.size() * static_cast<std::size_t>(t.vocabulary));
    one.next_features = features.first(one.wanted.size() * width);
    one.error.clear();
    logits = logits.subspan(one.logits.size());
    features = features.subspan(one.next_features.size());
    if (!numbers && std::ranges::any_of(one.logits, [](float logit) { return std::isnan(logit); })) {
      one.error = origin_ + ": the draft computes NaN logits; its weights are damaged";
    }
  }
}

}  // namespace draftproof
