// SPDX-License-Identifier: MIT
#include "ref/models/dflash.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <tuple>
#include <utility>

#include "kernels/math64.h"
#include "ref/base/error.h"
#include "ref/base/presence.h"
#include "ref/base/require.h"
#include "ref/caches/attention_cache.h"
#include "ref/models/checkpoint_kind.h"
#include "ref/models/counted_target.h"

namespace draftproof {
namespace {

constexpr int block_size_max = 1024;
constexpr int default_block_size = 16;
constexpr int swa_window_max = 1 << 24;
constexpr int conv_taps_max = 16;
constexpr int selector_max = 1 << 16;
constexpr int markov_rank_max = 1 << 16;

/// What a config of speculators says it is; empty for other layouts.
std::string speculators_type(const Json& config) {
  const auto kind = config.find("speculators_model_type");
  return kind && kind->is_string() ? kind->string() : "";
}

std::string first_architecture(const Json& config) {
  const auto names = config.find("architectures");
  if (!names || !names->is_array() || names->size() == 0 || !(*names)[0].is_string()) return "";
  return (*names)[0].string();
}

/// DSpark by its name: DeepSpec's and SpecForge's for Qwen3, and those of other backbones.
bool is_dspark(const Json& config) {
  const std::string kind = speculators_type(config);
  return kind.empty() ? first_architecture(config).find("DSpark") != std::string::npos : kind == "dspark";
}

/// The authors' choice of taps when the config names none: spread evenly from layer 1 to N - 3, halves to even.
std::vector<int> default_taps(int target_layers, int draft_layers) {
  if (draft_layers == 1) return {target_layers / 2};
  std::vector<int> taps;
  const int span = target_layers - 4;
  const int steps = draft_layers - 1;
  for (int i = 0; i < draft_layers; ++i) {
    const int twice = 2 * i * span;  // position = 1 + twice / (2 * steps)
    int floor = twice / (2 * steps);
    const int rest = twice % (2 * steps);
    if (rest > steps || (rest == steps && (floor + 1) % 2 == 1)) ++floor;
    taps.push_back(1 + floor);
  }
  return taps;
}

std::optional<Json> find_taps(const Json& config) {
  if (!speculators_type(config).empty()) return config.find("aux_hidden_state_layer_ids");
  return find_dflash_field(config, "target_layer_ids");
}

/// The ids of speculators count from 1, all others from 0.
std::vector<int> read_taps(const Json& config, const Model& target, int draft_layers) {
  const bool speculators = !speculators_type(config).empty();
  if (speculators) config.at("aux_hidden_state_layer_ids");
  const auto field = find_taps(config);
  if (!field) {
    if (is_dspark(config)) config.fail("needs target_layer_ids");
    if (target.layers() < 4) config.fail("names no target_layer_ids, and the target is too shallow for the default");
    return default_taps(target.layers(), draft_layers);
  }
  const int first = speculators ? 1 : 0;
  std::vector<int> taps;
  for (const std::int64_t id : field->integers(first, target.layers() - 1 + first)) {
    taps.push_back(static_cast<int>(id) - first);
    if (taps.size() > 1 && taps.back() <= taps[taps.size() - 2]) field->fail("must ascend");
  }
  if (taps.empty()) field->fail("must name at least one layer");
  return taps;
}

int read_block_size(const Json& config) {
  const auto top = config.find("block_size");
  const auto block = config.find("dflash_config");
  const auto nested = block ? block->find("block_size") : std::nullopt;
  if (!top && !nested) {
    if (!speculators_type(config).empty() || is_dspark(config)) config.at("block_size");  // its default is another one
    return default_block_size;
  }
  const auto value = (nested ? *nested : *top).integer(2, block_size_max);
  if (top && nested && top->integer(2, block_size_max) != value) {
    top->fail("contradicts dflash_config.block_size, " + std::to_string(value));
  }
  return static_cast<int>(value);
}

/// Refuses fields of other variants that change what is computed, and all fields of dflash_config that are not known:
/// that block holds nothing else.
void refuse_variants(const Json& config) {
  constexpr std::string_view known[] = {"attention_mode",
                                        "attention_sink_bias",
                                        "attention_value_scale",
                                        "backbone_rotary_base",
                                        "block_size",
                                        "causal",
                                        "confidence_head_alpha",  // of training
                                        "confidence_head_with_markov",
                                        "conv_group_size",
                                        "conv_kernel_size",
                                        "enable_confidence_head",
                                        "final_logit_softcapping",
                                        "input_embedding_scale",
                                        "markov_head_type",
                                        "markov_rank",
                                        "mask_token_id",
                                        "num_target_layers",
                                        "output_multiplier",
                                        "projector_type",
                                        "sample_from_anchor",
                                        "selector_rank",
                                        "selector_top_k",
                                        "swa_window_size",
                                        "target_layer_ids",
                                        "use_swa"};
  if (const auto block = config.find("dflash_config")) {
    for (const std::string& name : block->fields()) {
      if (std::ranges::find(known, name) != std::end(known) || !block->find(name)) continue;
      block->at(name).fail("is not known; ignoring it could compute something else");
    }
  }
  for (const char* name : {"rope_interleave", "use_aux_hidden_norms"}) {
    const auto switched = find_dflash_field(config, name);
    if (switched && switched->boolean()) switched->fail("true is not implemented; only false is");
  }
  const Json layer = layer_config(config);
  for (const char* name : {"attn_logit_softcapping", "query_pre_attn_scalar"}) {
    if (const auto value = layer.find(name)) value->fail("is not implemented in DFlash drafts; only null is");
  }
  const std::pair<const char*, const char*> words[] = {
      {"projector_type", "dspark"}, {"attention_mode", "gqa"}, {"markov_head_type", "vanilla"}};
  for (const auto& [name, only] : words) {
    const auto value = find_dflash_field(config, name);
    if (!value || value->string() == only) continue;
    value->fail("'" + value->string() + "' is not implemented; only '" + only + "' is");
  }
  if (const auto base = find_dflash_field(config, "backbone_rotary_base")) {
    base->fail(std::to_string(base->number()) + " is not implemented: programs disagree on which rows it turns");
  }
}

float positive_factor(const Json& config, std::string_view name, float default_value) {
  const auto value = find_dflash_field(config, name);
  if (!value) return default_value;
  const auto factor = static_cast<float>(value->number());
  if (!(factor > 0 && factor <= std::numeric_limits<float>::max())) value->fail("must be a positive float");
  return factor;
}

/// Causality: top-level is_causal, then dflash_config.causal, then "a sliding layer is causal". use_swa puts the window
/// on every layer and leaves causality alone. In speculators' drafts sliding layers have the window of the anchor and
/// no other: as many committed positions before it.
void read_layers(const Json& config, int context_window, DFlashConfig& result) {
  const Json layer_fields = layer_config(config);
  result.transformer = read_transformer_config(layer_fields, {.vocabulary = 1});
  const bool speculators = !speculators_type(config).empty();
  const auto block = config.find("dflash_config");
  const auto everywhere = config.find("is_causal");
  const auto nested = block ? block->find("causal") : std::nullopt;
  const auto without = config.find("sliding_window_non_causal");
  const bool declared = layer_fields.find("layer_types").has_value();
  const bool sinks = [&] {
    const auto said = find_dflash_field(config, "attention_sink_bias");
    return said && said->boolean();
  }();
  int window_of_all = AttentionCache::everything;
  if (const auto use = find_dflash_field(config, "use_swa"); use && use->boolean()) {
    const auto own = find_dflash_field(config, "swa_window_size");
    const auto width = own ? own : config.find("sliding_window");
    if (!width) use->fail("needs swa_window_size or sliding_window");
    window_of_all = static_cast<int>(std::min<std::int64_t>(width->integer(1, std::int64_t{1} << 40), swa_window_max));
  }
  for (LayerConfig& layer : result.transformer.layers) {
    auto& attention = std::get<AttentionLayer>(layer.mixer);
    attention.sinks = sinks;
    if (!declared) attention.window = AttentionCache::everything;  // a draft slides where its layer_types say so
    DFlashSight& sight = result.sights.emplace_back();
    const bool sliding = attention.window != AttentionCache::everything;
    const bool unless_said = sliding && !(without && without->boolean());
    sight.causal = everywhere ? everywhere->boolean() : nested ? nested->boolean() : unless_said;
    if (window_of_all != AttentionCache::everything) attention.window = window_of_all;
    sight.from_anchor = attention.window == AttentionCache::everything || speculators;
    if (attention.window == AttentionCache::everything) {
      if (context_window > 0) attention.window = context_window + 1;
    } else if (speculators) {
      ++attention.window;
    }
  }
}

/// Reads two fields of which a config has both or none.
std::pair<int, int> read_both(const Json& config, const char* one, int max, const char* other, int others_max,
                              bool required) {
  const auto first = find_dflash_field(config, one);
  const auto second = find_dflash_field(config, other);
  if (!first && !second && !required) return {0, 0};
  if (!first) config.fail(std::string("needs ") + one);
  if (!second) config.fail(std::string("needs ") + other);
  return {static_cast<int>(first->integer(1, max)), static_cast<int>(second->integer(1, others_max))};
}

void read_second_version(const Json& config, DFlashConfig& result) {
  const bool required = speculators_type(config) == "dflash2" || first_architecture(config) == "DFlash2DraftModel";
  const int hidden = result.transformer.hidden;
  std::tie(result.conv_taps, result.conv_group) =
      read_both(config, "conv_kernel_size", conv_taps_max, "conv_group_size", hidden, required);
  if (result.conv_taps > 0 && hidden % result.conv_group != 0) {
    find_dflash_field(config, "conv_group_size")->fail("must divide hidden_size, " + std::to_string(hidden));
  }
  std::tie(result.selector_rank, result.selector_candidates) =
      read_both(config, "selector_rank", selector_max, "selector_top_k", selector_max, required);
}

/// Whether the row of the anchor gives a draft token. Configs of speculators say it; of the others it is a part of what
/// DSpark is.
bool read_from_anchor(const Json& config) {
  if (const auto said = find_dflash_field(config, "sample_from_anchor")) return said->boolean();
  if (is_dspark(config) && !speculators_type(config).empty()) config.at("sample_from_anchor");
  return is_dspark(config);
}

void read_dspark(const Json& config, DFlashConfig& result) {
  result.from_anchor = read_from_anchor(config);
  if (const auto rank = find_dflash_field(config, "markov_rank")) {
    result.markov_rank = static_cast<int>(rank->integer(0, markov_rank_max));
  }
  if (const auto said = find_dflash_field(config, "enable_confidence_head")) result.confident = said->boolean();
  const auto of_token = find_dflash_field(config, "confidence_head_with_markov");
  result.confidence_of_token = of_token ? of_token->boolean() : result.markov_rank > 0;
  if (result.confidence_of_token && result.markov_rank == 0) of_token->fail("true needs a markov_rank");
}

/// What has not been put together by anybody, or differently by several.
void refuse_combinations(const Json& config, const DFlashConfig& draft) {
  const auto refuse = [&](const char* field, const std::string& why) {
    find_dflash_field(config, field).value_or(config).fail("is not implemented with " + why);
  };
  if (draft.selector_rank > 0) {
    if (draft.draft_vocabulary != draft.transformer.vocabulary) {
      refuse("selector_rank", "a draft_vocab_size below the target's vocabulary");
    }
    if (draft.from_anchor) refuse("sample_from_anchor", "a candidate selector");
    if (draft.markov_rank > 0) refuse("markov_rank", "a candidate selector");
  }
  if (draft.markov_rank == 0) return;
  const std::string disagreement = "a markov_rank: programs disagree on whether it changes what the Markov head adds";
  if (draft.logit_multiplier != 1) refuse("output_multiplier", disagreement);
  if (draft.logit_cap != 0) refuse("final_logit_softcapping", disagreement);
}

}  // namespace

std::optional<Json> find_dflash_field(const Json& config, std::string_view name) {
  const auto top = config.find(name);
  const auto block = config.find("dflash_config");
  const auto nested = block ? block->find(name) : std::nullopt;
  return nested ? nested : top;
}

namespace {

bool is_dflash(const Json& config) {
  if (!config.is_object()) return false;
  if (is_dspark(config)) return true;
  if (const std::string kind = speculators_type(config); !kind.empty()) return kind == "dflash" || kind == "dflash2";
  const std::string name = first_architecture(config);
  return name == "DFlashDraftModel" || name == "DFlash2DraftModel";
}

/// Of DSpark there are drafts with layers of other models, whose names begin with those.
void require_known_backbone(const Json& config) {
  if (!speculators_type(config).empty() || !is_dspark(config)) return;
  const std::string name = first_architecture(config);
  if (name == "Qwen3DSparkModel" || name == "DSparkDraftModel") return;
  config.at("architectures")
      .fail("names " + name + ", a DSpark draft of another backbone, which is not implemented; " +
            "Qwen3DSparkModel and DSparkDraftModel are");
}

}  // namespace

const CheckpointKind dflash_checkpoint = {
    .name = "DFlash draft",
    .architectures = "DFlashDraftModel, DFlash2DraftModel, Qwen3DSparkModel, DSparkDraftModel",
    .lender = "those of another layer",
    .recognizes = is_dflash,
    .describe = [](const Json& config) { return describe_dflash(config).transformer; }};

DFlashConfig describe_dflash(const Json& config, int context_window) {
  require_known_backbone(config);
  DFlashConfig result;
  read_layers(config, context_window, result);
  result.block_size = read_block_size(config);
  const int depth = result.transformer.depth();
  const auto taps = find_taps(config);
  result.taps.resize(taps && taps->is_array() ? taps->size() : static_cast<std::size_t>(depth));
  result.draft_vocabulary = positive(config, "draft_vocab_size", result.transformer.vocabulary);
  read_second_version(config, result);
  read_dspark(config, result);
  return result;
}

DFlashConfig read_dflash_config(const Json& config, const Model& target, int context_window) {
  if (!is_dflash(config)) {
    config.fail("is not a DFlash draft; architectures[0] must be one of " +
                std::string(dflash_checkpoint.architectures));
  }
  DFlashConfig result = describe_dflash(config, context_window);
  const Json layer_fields = layer_config(config);
  TransformerConfig& transformer = result.transformer;
  if (transformer.hidden != target.hidden()) {
    layer_fields.at("hidden_size")
        .fail("does not fit the target, whose hidden_size is " + std::to_string(target.hidden()));
  }
  if (const auto size = layer_fields.find("vocab_size"); size && transformer.vocabulary != target.vocabulary()) {
    size->fail("does not fit the target, whose vocabulary is " + std::to_string(target.vocabulary()));
  }
  transformer.vocabulary = target.vocabulary();
  const auto own = config.find("draft_vocab_size");
  if (!own && !speculators_type(config).empty()) config.at("draft_vocab_size");
  result.draft_vocabulary = own ? static_cast<int>(own->integer(1, target.vocabulary())) : target.vocabulary();
  if (const auto hidden = config.find("target_hidden_size"); hidden && hidden->integer(1, 1 << 24) != target.hidden()) {
    hidden->fail("does not fit the target, whose hidden_size is " + std::to_string(target.hidden()));
  }
  if (const auto count = find_dflash_field(config, "num_target_layers")) {
    if (count->integer(1, 1 << 20) != target.layers()) {
      count->fail("does not fit the target, which has " + std::to_string(target.layers()) + " layers");
    }
  }
  result.taps = read_taps(config, target, transformer.depth());
  const auto mask = find_dflash_field(config, "mask_token_id");
  if (!mask) config.fail("needs dflash_config.mask_token_id");
  result.mask = static_cast<Token>(mask->integer(0, target.vocabulary() - 1));
  refuse_variants(config);
  result.value_scale = positive_factor(config, "attention_value_scale", 1);
  result.embedding_scale = positive_factor(config, "input_embedding_scale", 1);
  result.logit_multiplier = positive_factor(config, "output_multiplier", 1);
  result.logit_cap = positive_factor(config, "final_logit_softcapping", 0);
  refuse_combinations(config, result);
  return result;
}

namespace {

/// What the names of all tensors but those of the LM head and of the draft's vocabulary begin with.
std::string prefix_of(const Checkpoint& files) { return files.has("model.fc.weight") ? "model." : ""; }

/// The config of a checkpoint that fits the target.
DFlashConfig read_fitting(const Checkpoint& files, const Model& target, int context_window) {
  DFlashConfig config = read_dflash_config(files.config(), target, context_window);
  if (is_present(files.path() / "mask_embedding.pt")) {
    throw Error(files.path().string() + ": mask_embedding.pt, a mask of the draft's own, is not implemented");
  }
  const auto tied = layer_config(files.config()).find("tie_word_embeddings");
  const bool own_embedding = files.has(prefix_of(files) + "embed_tokens.weight");
  if (tied && tied->boolean() && own_embedding && !files.has("lm_head.weight")) {
    tied->fail("true is not implemented with an embedding of the draft's own");
  }
  return config;
}

}  // namespace

bool has_confidence_head(const Checkpoint& files) {
  return files.has(prefix_of(files) + "confidence_head.proj.weight");
}

DFlashNetwork::DFlashNetwork(const Checkpoint& files, const Model& target, const LoadOptions& options,
                             int context_window)
    : DFlashNetwork(WeightLoader(files, options), read_fitting(files, target, context_window), target) {}

MemoryNeed DFlashNetwork::need(const Checkpoint& files, const LoadOptions& options, int context_window) {
  const DFlashConfig config = describe_dflash(files.config(), context_window);
  const CountedTarget target(config.transformer.hidden, config.transformer.vocabulary);
  const WeightLoader counted(files, options, WeightLoader::Mode::count);
  const DFlashNetwork network(counted, config, target);
  MemoryNeed need = need_of_layers(config.transformer, counted);
  const auto size = [](int value) { return static_cast<std::uint64_t>(value); };
  const std::uint64_t hidden = size(config.transformer.hidden);
  need.add_row_floats(2 * size(network.fc_.inputs()));  // the tapped layers, and the same as the input of a pass
  need.add_row_floats(2 * hidden);                      // what `fc` makes of them, twice
  const std::uint64_t rows_bytes = sizeof(float) * size(config.block_size);
  if (config.conv_taps > 0) {  // the kernels of a sublayer, and its rows once more
    need.scratch += rows_bytes * (2 * size(config.conv_taps) * hidden / size(config.conv_group) + hidden);
  }
  if (config.selector_rank > 0) {  // a row of h for each position, and a row of scores
    need.scratch += rows_bytes * size(config.selector_rank) + Outputs::bytes_per_row(config.transformer.vocabulary);
  }
  if (config.markov_rank > 0) {  // a row of W1, one of biases and one of logits
    need.scratch +=
        sizeof(float) * size(config.markov_rank) + 2 * Outputs::bytes_per_row(config.transformer.vocabulary);
  }
  return need;
}

DFlashNetwork::DFlashNetwork(const WeightLoader& from, DFlashConfig config, const Model& target)
    : kernels_(from.options.kernels),
      kv_(from.options.kv),
      origin_(from.weights.path().string()),
      config_(std::move(config)),
      tables_(from, prefix_of(from.weights),
              {config_.transformer.hidden, target.vocabulary(), config_.draft_vocabulary}, target) {
  const TransformerConfig& t = config_.transformer;
  const std::string prefix = prefix_of(from.weights);
  const int features = static_cast<int>(config_.taps.size()) * t.hidden;
  fc_ = load_matrix(from, {{prefix + "fc.weight", t.hidden}}, features);
  hidden_norm_ = load_norm(from, t, prefix + "hidden_norm.weight", t.hidden);
  norm_ = load_norm(from, t, prefix + "norm.weight", t.hidden);
  for (int i = 0; i < t.depth(); ++i) {
    const std::string name = prefix + "layers." + std::to_string(i) + ".";
    Layer& layer = layers_.emplace_back();
    layer.weights = load_pre_norm_layer(from, t, i, name);
    load_head_norms(from, t, t.attention(i), name + "self_attn.", layer.weights.attention);
    if (config_.conv_taps == 0) continue;
    layer.around_attention = load_convolution(from, name + "attention_conv.");
    layer.around_mlp = load_convolution(from, name + "mlp_conv.");
  }
  if (config_.selector_rank > 0) {
    const std::string name = prefix + "candidate_selector.";
    selector_projection_ = load_matrix(from, {{name + "hidden_projection.weight", config_.selector_rank}}, t.hidden);
    predecessors_ = load_table(from, {name + "predecessor_codebook", t.vocabulary}, config_.selector_rank);
    successors_ = load_table(from, {name + "successor_codebook", t.vocabulary}, config_.selector_rank);
  }
  load_heads_of_dspark(from, prefix);
  const std::vector<std::string> unused = {"verifier_"};  // of training
  from.finish(unused);
}

void DFlashNetwork::load_heads_of_dspark(const WeightLoader& from, const std::string& prefix) {
  const TransformerConfig& t = config_.transformer;
  const int rank = config_.markov_rank;
  if (rank > 0) {
    const std::string name = prefix + "markov_head.";
    const std::vector<std::int64_t> whole = {config_.draft_vocabulary, rank};
    const int tokens = static_cast<int>(tables_.tokens().size());
    markov_tokens_ = load_table(from, {name + "markov_w1.weight", t.vocabulary}, rank);
    markov_biases_ = load_table(from, {name + "markov_w2.weight", tokens, 0, whole}, rank);
  }
  const std::string name = prefix + "confidence_head.proj.";
  if (!config_.confident.value_or(has_confidence_head(from.weights))) return;
  const int inputs = t.hidden + (config_.confidence_of_token ? rank : 0);
  confidence_weights_ = from.floats(name + "weight", {1, inputs});
  if (!from.weights.has(name + "bias")) return;
  const std::vector<float> bias = from.floats(name + "bias", {1});
  if (!from.counts()) confidence_bias_ = bias[0];
}

DynamicConvolution DFlashNetwork::load_convolution(const WeightLoader& from, const std::string& prefix) const {
  const int hidden = config_.transformer.hidden;
  const int kernel = 2 * config_.conv_taps;
  return {.base = from.floats(prefix + "base_kernel", {2, config_.conv_taps, hidden}),
          .projection = load_matrix(
              from, {{prefix + "kernel_projection.weight", kernel * (hidden / config_.conv_group)}}, hidden)};
}

std::unique_ptr<Cache> DFlashNetwork::new_context(int capacity, int max_pending_rows) const {
  return new_transformer_cache(config_.transformer, kernels_, kv_, capacity, max_pending_rows);
}

void DFlashNetwork::append(std::span<const ContextRows> batch) {
  const TransformerConfig& t = config_.transformer;
  placements_.clear();
  features_.clear();
  for (const ContextRows& one : batch) {
    REQUIRE(one.features.size() == static_cast<std::size_t>(one.rows) * static_cast<std::size_t>(fc_.inputs()),
            "features hold one row of taps per position");
    placements_.push_back({one.context, one.rows, one.context->length()});
    features_.insert(features_.end(), one.features.begin(), one.features.end());
  }
  scratch_.lay_out(t, placements_);
  const int rows = scratch_.rows();

  context_rows_.resize(static_cast<std::size_t>(rows) * t.hidden);
  pack_activations(kernels_, fc_, features_.data(), fc_.inputs(), rows, scratch_.activations);
  matmul(kernels_, fc_, scratch_.activations, context_rows_.data(), t.hidden);
  kernels_.rms_norm(context_rows_.data(), t.hidden, rows, 1, t.hidden, hidden_norm_.data(), t.epsilon,
                    context_rows_.data(), t.hidden);

  std::vector<Transaction> transactions;
  for (const ContextRows& one : batch) transactions.push_back(one.context->begin(one.rows));
  for (int i = 0; i < t.depth(); ++i) {
    const AttentionLayer& layer = t.attention(i);
    const AttentionWeights& weights = layers_[i].weights.attention;
    const AttentionShape& shape = layer.shape;
    const int stride = layer.projected();
    float* const keys = scratch_.qkv.data() + layer.q_width();
    // Context rows are never queries: of the joined projection only k and v are needed.
    pack_activations(kernels_, weights.qkv, context_rows_.data(), t.hidden, rows, scratch_.activations);
    matmul_from(kernels_, weights.qkv, layer.q_width(), scratch_.activations, scratch_.qkv.data(), stride);
    if (!weights.qkv_bias.empty()) {
      const std::span<const float> bias = std::span(weights.qkv_bias).subspan(layer.q_width());  // of k and v
      for (int row = 0; row < rows; ++row) {
        kernels_.add(bias.data(), bias.size(), keys + static_cast<std::ptrdiff_t>(row) * stride);
      }
    }
    kernels_.rms_norm(keys, stride, rows, shape.kv_heads, shape.head_dim, weights.k_norm.data(), t.epsilon, keys,
                      stride);
    const Turns& turns = scratch_.turns[layer.rope];
    kernels_.rope(keys, stride, rows, shape.kv_heads, shape.head_dim, t.ropes[layer.rope].half(), turns.cosine.data(),
                  turns.sine.data());
    scratch_.to_store.clear();
    for (const RowRange& range : scratch_.ranges) {
      auto& cache = batch[range.segment].context->layer<AttentionCache>(i);
      const float* const first = keys + static_cast<std::ptrdiff_t>(range.row) * stride;
      scratch_.to_store.push_back(
          {&cache.claim_rows(range.position, range.rows), range.position, range.rows, first, first + layer.kv_width()});
    }
    store(scratch_.to_store, stride);
  }
  for (std::size_t i = 0; i < batch.size(); ++i) {
    batch[i].context->wrote(batch[i].rows);
    transactions[i].commit(batch[i].rows);
  }
}

void DFlashNetwork::compute(std::span<Block> batch) {
  const TransformerConfig& t = config_.transformer;
  placements_.clear();
  tokens_.clear();
  std::vector<Transaction> rolled_back;  // keys and values of blocks serve this pass only
  for (Block& block : batch) {
    const int rows = config_.silent_rows() + block.drafts;
    REQUIRE(block.drafts >= 1 && rows <= config_.block_size, "a block has between one draft token and longest_chain()");
    block.position = block.context->length();
    placements_.push_back({block.context, rows, block.position});
    tokens_.push_back(block.anchor);
    tokens_.insert(tokens_.end(), static_cast<std::size_t>(rows) - 1, config_.mask);
    rolled_back.push_back(block.context->begin(rows));
  }
  scratch_.lay_out(t, placements_);
  row_of_block_.clear();
  for (const Placement& block : placements_) {
    for (int row = 0; row < block.rows; ++row) row_of_block_.push_back(row);
  }
  tables_.embed(tokens_, scratch_.hidden_states.data());
  if (config_.embedding_scale != 1) {
    const std::size_t count = tokens_.size() * static_cast<std::size_t>(t.hidden);
    for (float& value : std::span(scratch_.hidden_states).first(count)) value *= config_.embedding_scale;
  }
  const TransformerPass pass = {kernels_, t, scratch_, scratch_.rows()};
  for (int i = 0; i < t.depth(); ++i) {
    see(batch, i);
    compute_layer(pass, i);
  }
  for (const Placement& block : placements_) block.cache->wrote(block.rows);
  head(batch);
}

/// Sets the context of every block and what every row sees of it.
void DFlashNetwork::see(std::span<const Block> batch, int layer) {
  const DFlashSight& sight = config_.sights[static_cast<std::size_t>(layer)];
  std::size_t at = 0;
  for (std::size_t i = 0; i < batch.size(); ++i) {
    const auto& cache = *(scratch_.kv[i] = &batch[i].context->layer<AttentionCache>(layer));
    const int position = batch[i].context->length();
    const int rows = config_.silent_rows() + batch[i].drafts;
    for (int self = position; self < position + rows; ++self, ++at) {
      const int end = sight.causal ? self + 1 : position + rows;
      scratch_.visible[at] = {cache.first_visible(sight.from_anchor ? position : self),
                              sight.from_anchor ? end : std::min(end, self + cache.window())};
    }
  }
}

void DFlashNetwork::compute_layer(const TransformerPass& pass, int layer) {
  const AttentionLayer& attention = config_.transformer.attention(layer);
  const Layer& one = layers_[static_cast<std::size_t>(layer)];
  pass.normalize(one.weights.attention_norm);
  before(one.around_attention);
  pass.project(attention, one.weights.attention);
  pass.attend(attention, one.weights.attention);
  if (config_.value_scale != 1) {  // of the values, and so of every sum of them
    const std::size_t count = scratch_.positions.size() * static_cast<std::size_t>(attention.q_width());
    for (float& value : std::span(scratch_.attended).first(count)) value *= config_.value_scale;
  }
  pass.project_attended(one.weights.attention);
  behind(one.around_attention);
  pass.add_projected();
  pass.normalize(one.weights.mlp_norm);
  before(one.around_mlp);
  pass.mlp(one.weights.mlp);
  behind(one.around_mlp);
  pass.add_projected();
}

/// Computes the kernels of a sublayer's rows, and normed = side 0 of them. Without a convolution nothing changes.
void DFlashNetwork::before(const DynamicConvolution& convolution) {
  if (convolution.base.empty()) return;
  const int rows = scratch_.rows();
  const int outputs = convolution.projection.outputs();
  reserve_rows(dynamic_kernels_, rows, outputs);
  pack_activations(kernels_, convolution.projection, scratch_.normed.data(), config_.transformer.hidden, rows,
                   scratch_.activations);
  matmul(kernels_, convolution.projection, scratch_.activations, dynamic_kernels_.data(), outputs);
  convolve(convolution, 0, scratch_.normed);
}

/// projected = side 1 of the sublayer's kernels.
void DFlashNetwork::behind(const DynamicConvolution& convolution) {
  if (!convolution.base.empty()) convolve(convolution, 1, scratch_.projected);
}

void DFlashNetwork::convolve(const DynamicConvolution& convolution, int side, std::vector<float>& rows) {
  const std::ptrdiff_t hidden = config_.transformer.hidden;
  const int taps = config_.conv_taps;
  const std::ptrdiff_t group = config_.conv_group;
  const std::ptrdiff_t groups = hidden / group;
  const float* const base = convolution.base.data() + side * taps * hidden;
  const float* const dynamic = dynamic_kernels_.data() + side * taps * groups;
  const float* const x = rows.data();
  const int count = scratch_.rows();
  reserve_rows(convolved_, count, static_cast<int>(hidden));
  for_rows(count, 2.0 * count * taps * static_cast<double>(hidden), [&](int begin, int end) {
    for (std::ptrdiff_t row = begin; row < end; ++row) {
      float* const y = convolved_.data() + row * hidden;
      std::fill_n(y, hidden, 0.0F);
      const int last = std::min(taps - 1, row_of_block_[static_cast<std::size_t>(row)]);
      for (std::ptrdiff_t tap = 0; tap <= last; ++tap) {
        const float* const own = dynamic + row * 2 * taps * groups + tap * groups;
        const float* const from = x + (row - tap) * hidden;
        for (std::ptrdiff_t c = 0; c < hidden; ++c) y[c] += (base[tap * hidden + c] + own[c / group]) * from[c];
      }
    }
  });
  const std::size_t size = static_cast<std::size_t>(count) * static_cast<std::size_t>(hidden);
  std::copy_n(convolved_.begin(), size, rows.begin());
}

/// Computes the logits of all draft tokens in one matmul, and what stands behind the LM head in others.
void DFlashNetwork::head(std::span<Block> batch) {
  const TransformerConfig& t = config_.transformer;
  const auto width = static_cast<std::ptrdiff_t>(t.hidden);
  const auto vocabulary = static_cast<std::size_t>(t.vocabulary);
  const auto rank = static_cast<std::size_t>(config_.selector_rank);
  const int rows = scratch_.rows();
  block_rows_.resize(static_cast<std::size_t>(rows) * t.hidden);
  kernels_.rms_norm(scratch_.hidden_states.data(), width, rows, 1, t.hidden, norm_.data(), t.epsilon,
                    block_rows_.data(), width);
  float* draft_rows = scratch_.normed.data();  // those of block_rows_ that give draft tokens
  for (std::size_t i = 0; i < batch.size(); ++i) {
    const std::ptrdiff_t first = scratch_.first_rows[i] + config_.silent_rows();
    draft_rows = std::copy_n(block_rows_.data() + first * width, batch[i].drafts * width, draft_rows);
  }
  const int drafts = rows - config_.silent_rows() * static_cast<int>(batch.size());
  const bool numbers = tables_.unembed(scratch_.normed.data(), drafts, scratch_.activations, logits_);
  selector_rows_.resize(static_cast<std::size_t>(drafts) * rank);
  if (rank > 0) {
    pack_activations(kernels_, selector_projection_, scratch_.normed.data(), t.hidden, drafts, scratch_.activations);
    matmul(kernels_, selector_projection_, scratch_.activations, selector_rows_.data(), config_.selector_rank);
  }
  confidence_.assign(confident() ? static_cast<std::size_t>(drafts) : 0, static_cast<double>(confidence_bias_));
  for (std::size_t row = 0; row < confidence_.size(); ++row) {
    const float* const x = scratch_.normed.data() + row * static_cast<std::size_t>(t.hidden);
    for (int k = 0; k < t.hidden; ++k) {
      confidence_[row] += static_cast<double>(confidence_weights_[static_cast<std::size_t>(k)]) * x[k];
    }
  }
  std::span<float> left = logits_;
  std::span<const float> left_rows = selector_rows_;
  std::span<const double> left_confidence = confidence_;
  for (Block& block : batch) {
    const auto count = static_cast<std::size_t>(block.drafts);
    const std::span<float> logits = left.first(count * vocabulary);
    left = left.subspan(logits.size());
    block.logits = logits;
    block.selector = left_rows.first(count * rank);
    left_rows = left_rows.subspan(count * rank);
    block.confidence = left_confidence.first(confident() ? count : 0);
    left_confidence = left_confidence.subspan(block.confidence.size());
    block.error.clear();
    if (!numbers && std::ranges::any_of(logits, [](float logit) { return std::isnan(logit); })) {
      block.error = origin_ + ": the draft computes NaN logits; its weights are damaged";
    }
  }
  if (config_.logit_multiplier != 1) {
    for (float& logit : logits_) logit *= config_.logit_multiplier;
  }
  if (config_.logit_cap != 0) soft_cap(logits_, config_.logit_cap);
}

void DFlashNetwork::step(std::span<Step> batch) {
  const auto vocabulary = static_cast<std::size_t>(config_.transformer.vocabulary);
  const auto rank = static_cast<std::size_t>(config_.markov_rank);
  markov_rows_.resize(batch.size() * rank);
  for (std::size_t i = 0; i < batch.size(); ++i) {
    Step& one = batch[i];
    const auto draft = static_cast<std::size_t>(one.draft);
    one.logits = one.block->logits.subspan(draft * vocabulary, vocabulary);
    float* const token = markov_rows_.data() + i * rank;
    if (rank > 0) markov_tokens_.unpack_row(kernels_, one.previous, token);
    if (!confident()) continue;
    double sum = one.block->confidence[draft];
    const std::span<const float> of_token =
        std::span(confidence_weights_).subspan(static_cast<std::size_t>(config_.transformer.hidden));
    for (std::size_t r = 0; r < of_token.size(); ++r) sum += static_cast<double>(of_token[r]) * token[r];
    one.confidence = 1 / (1 + exp64(-sum));
  }
  if (rank > 0) add_markov_bias(batch);
}

void DFlashNetwork::add_markov_bias(std::span<Step> batch) {
  const auto vocabulary = static_cast<std::size_t>(config_.transformer.vocabulary);
  const std::span<const Token> tokens = tables_.tokens();
  const int count = static_cast<int>(batch.size());
  biases_.resize(batch.size() * tokens.size());
  pack_activations(kernels_, markov_biases_, markov_rows_.data(), config_.markov_rank, count, scratch_.activations);
  matmul(kernels_, markov_biases_, scratch_.activations, biases_.data(), markov_biases_.outputs());
  biased_.resize(batch.size() * vocabulary);
  for (std::size_t i = 0; i < batch.size(); ++i) {
    Step& one = batch[i];
    const float* const bias = biases_.data() + i * tokens.size();
    const std::span<float> logits = std::span(biased_).subspan(i * vocabulary, vocabulary);
    std::ranges::copy(one.logits, logits.begin());
    for (std::size_t k = 0; k < tokens.size(); ++k) logits[static_cast<std::size_t>(tokens[k])] += bias[k];
    one.logits = logits;
  }
}

void DFlashNetwork::score(const Block& block, int draft, Token previous, std::span<const Token> candidates,
                          std::span<float> scores) const {
  const auto rank = static_cast<std::size_t>(config_.selector_rank);
  REQUIRE(rank > 0 && candidates.size() == scores.size(), "a candidate selector gives every candidate a score");
  const std::span<const float> logits =
      block.logits.subspan(static_cast<std::size_t>(draft) * static_cast<std::size_t>(config_.transformer.vocabulary));
  const std::span<const float> h = block.selector.subspan(static_cast<std::size_t>(draft) * rank, rank);
  std::vector<float> predecessor(rank);
  std::vector<float> successor(rank);
  predecessors_.unpack_row(kernels_, previous, predecessor.data());
  for (std::size_t i = 0; i < candidates.size(); ++i) {
    successors_.unpack_row(kernels_, candidates[i], successor.data());
    double sum = 0;
    for (std::size_t r = 0; r < rank; ++r) {
      sum += static_cast<double>(predecessor[r]) * static_cast<double>(h[r]) * static_cast<double>(successor[r]);
    }
    scores[i] = static_cast<float>(static_cast<double>(logits[static_cast<std::size_t>(candidates[i])]) + sum);
  }
}

}  // namespace draftproof
