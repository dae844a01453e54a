// SPDX-License-Identifier: MIT
#include "ref/models/dflash.h"

#include <algorithm>
#include <cmath>
#include <limits>

#include "ref/base/error.h"
#include "ref/base/require.h"
#include "ref/caches/attention_cache.h"

namespace draftproof {
namespace {

constexpr int block_size_max = 1024;
constexpr int default_block_size = 16;

/// `dflash_config.<name>` or else the top-level `<name>`: both spellings are published.
std::optional<Json> nested_first(const Json& config, std::string_view name) {
  const auto top = config.find(name);
  const auto block = config.find("dflash_config");
  const auto nested = block ? block->find(name) : std::nullopt;
  return nested ? nested : top;
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

std::vector<int> read_taps(const Json& config, const Model& target, int draft_layers) {
  const auto field = nested_first(config, "target_layer_ids");
  if (!field) {
    if (target.layers() < 4) config.fail("names no target_layer_ids, and the target is too shallow for the default");
    return default_taps(target.layers(), draft_layers);
  }
  std::vector<int> taps;
  for (const std::int64_t id : field->integers(0, target.layers() - 1)) {
    if (!taps.empty() && id <= taps.back()) field->fail("target_layer_ids must ascend");
    taps.push_back(static_cast<int>(id));
  }
  if (taps.empty()) field->fail("target_layer_ids must name at least one layer");
  return taps;
}

int read_block_size(const Json& config) {
  const auto top = config.find("block_size");
  const auto block = config.find("dflash_config");
  const auto nested = block ? block->find("block_size") : std::nullopt;
  if (!top && !nested) return default_block_size;
  const auto value = (nested ? *nested : *top).integer(2, block_size_max);
  if (top && nested && top->integer(2, block_size_max) != value) {
    top->fail("contradicts dflash_config.block_size, " + std::to_string(value));
  }
  return static_cast<int>(value);
}

void refuse_variants(const Json& config) {
  if (const auto anchor = nested_first(config, "sample_from_anchor"); anchor && anchor->boolean()) {
    anchor->fail("is not implemented");
  }
  if (const auto scale = nested_first(config, "attention_value_scale"); scale && scale->number() != 1) {
    scale->fail("is not implemented");
  }
  for (const char* name : {"backbone_rotary_base", "conv_kernel_size", "conv_group_size", "selector_rank",
                           "selector_top_k", "draft_vocab_size"}) {
    if (const auto value = nested_first(config, name)) value->fail("is not implemented (a later DFlash variant)");
  }
}

float positive_factor(const Json& config, std::string_view name, float otherwise) {
  const auto value = nested_first(config, name);
  if (!value) return otherwise;
  const auto factor = static_cast<float>(value->number());
  if (!(factor > 0 && factor <= std::numeric_limits<float>::max())) value->fail("must be a positive float");
  return factor;
}

}  // namespace

bool is_dflash(const Json& config) {
  if (!config.is_object()) return false;
  const auto architectures = config.find("architectures");
  if (!architectures || !architectures->is_array() || architectures->size() == 0) return false;
  const Json name = (*architectures)[0];
  return name.is_string() && name.string() == "DFlashDraftModel";
}

DFlashConfig read_dflash_config(const Json& config, const Model& target) {
  if (!is_dflash(config)) config.fail("is not a DFlash draft; architectures[0] must be DFlashDraftModel");
  DFlashConfig result;
  result.transformer = read_transformer_config(config, target.vocabulary());
  TransformerConfig& transformer = result.transformer;
  if (transformer.hidden != target.hidden()) {
    config.at("hidden_size").fail("does not fit the target, whose hidden_size is " + std::to_string(target.hidden()));
  }
  if (transformer.vocabulary != target.vocabulary()) {
    config.at("vocab_size")
        .fail("does not fit the target, whose vocabulary is " + std::to_string(target.vocabulary()));
  }
  if (const auto layers = nested_first(config, "num_target_layers")) {
    if (layers->integer(1, 1 << 20) != target.layers()) {
      layers->fail("does not fit the target, which has " + std::to_string(target.layers()) + " layers");
    }
  }
  result.block_size = read_block_size(config);
  result.taps = read_taps(config, target, transformer.depth());
  const auto mask = nested_first(config, "mask_token_id");
  if (!mask) config.fail("needs dflash_config.mask_token_id");
  result.mask = static_cast<Token>(mask->integer(0, target.vocabulary() - 1));
  refuse_variants(config);

  // Causality: top-level is_causal, then dflash_config.causal, then "a sliding layer is causal". use_swa puts the
  // window on every layer and leaves causality alone.
  const auto block = config.find("dflash_config");
  const auto everywhere = config.find("is_causal");
  const auto nested = block ? block->find("causal") : std::nullopt;
  const bool declared = config.find("layer_types").has_value();
  for (LayerConfig& layer : transformer.layers) {
    int& window = std::get<AttentionLayer>(layer.mixer).window;
    if (!declared) window = AttentionCache::everything;  // a draft slides where its layer_types say so
    const bool sliding = window != AttentionCache::everything;
    result.causal.push_back(everywhere ? everywhere->boolean() : nested ? nested->boolean() : sliding);
  }
  if (const auto use = nested_first(config, "use_swa"); use && use->boolean()) {
    const auto own = nested_first(config, "swa_window_size");
    const auto width = own ? own : config.find("sliding_window");
    if (!width) use->fail("needs swa_window_size or sliding_window");
    const auto window = std::min<std::int64_t>(width->integer(1, std::int64_t{1} << 40), 1 << 24);
    for (LayerConfig& layer : transformer.layers) {
      std::get<AttentionLayer>(layer.mixer).window = static_cast<int>(window);
    }
  }
  if (const auto sinks = nested_first(config, "attention_sink_bias"); sinks && sinks->boolean()) {
    for (LayerConfig& layer : transformer.layers) std::get<AttentionLayer>(layer.mixer).sinks = true;
  }
  result.embedding_scale = positive_factor(config, "input_embedding_scale", 1);
  result.logit_multiplier = positive_factor(config, "output_multiplier", 1);
  result.logit_cap = positive_factor(config, "final_logit_softcapping", 0);
  return result;
}

DFlashNetwork::DFlashNetwork(const Checkpoint& files, const Model& target, const LoadOptions& options)
    : DFlashNetwork(WeightLoader(files, options), target) {}

DFlashNetwork::DFlashNetwork(const WeightLoader& from, const Model& target)
    : kernels_(from.options.kernels),
      kv_(from.options.kv),
      target_(target),
      origin_(from.weights.path().string()),
      config_(read_dflash_config(from.weights.config(), target)) {
  REQUIRE(target.embeddings() != nullptr, "a DFlash draft borrows the target's embedding and head");
  const TransformerConfig& t = config_.transformer;
  const Checkpoint& weights = from.weights;
  const std::string prefix = weights.has("model.fc.weight") ? "model." : "";
  if (std::filesystem::exists(weights.path() / "mask_embedding.pt")) {
    throw Error(weights.path().string() + ": mask_embedding.pt, a mask of the draft's own, is not implemented");
  }
  const int features = static_cast<int>(config_.taps.size()) * t.hidden;
  fc_ = load_matrix(from, {{prefix + "fc.weight", t.hidden}}, features);
  hidden_norm_ = load_norm(from, t, prefix + "hidden_norm.weight", t.hidden);
  norm_ = load_norm(from, t, prefix + "norm.weight", t.hidden);
  for (int i = 0; i < t.depth(); ++i) {
    const std::string layer = prefix + "layers." + std::to_string(i) + ".";
    PreNormLayer& one = layers_.emplace_back(load_pre_norm_layer(from, t, i, layer));
    load_head_norms(from, t, t.attention(i), layer + "self_attn.", one.attention);
  }
  from.finish();
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
    const AttentionWeights& weights = layers_[i].attention;
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
      scratch_.to_store.push_back({&cache.claim_rows(range.position, range.rows), range.position, range.rows, first,
                                   first + layer.kv_width()});
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
    const int rows = 1 + block.masks;
    REQUIRE(block.masks >= 1 && rows <= config_.block_size, "a block holds between one mask and block_size - 1");
    block.position = block.context->length();
    placements_.push_back({block.context, rows, block.position});
    tokens_.push_back(block.anchor);
    tokens_.insert(tokens_.end(), static_cast<std::size_t>(block.masks), config_.mask);
    rolled_back.push_back(block.context->begin(rows));
  }
  scratch_.lay_out(t, placements_);
  target_.embeddings()->embed(tokens_, scratch_.hidden_states.data());
  if (config_.embedding_scale != 1) {
    const std::size_t count = tokens_.size() * static_cast<std::size_t>(t.hidden);
    for (float& value : std::span(scratch_.hidden_states).first(count)) value *= config_.embedding_scale;
  }
  const TransformerPass pass = {kernels_, t, scratch_, scratch_.rows()};
  for (int i = 0; i < t.depth(); ++i) {
    see(batch, i);
    pass.pre_norm_layer(t.attention(i), layers_[i]);
  }
  for (const Block& block : batch) block.context->wrote(1 + block.masks);
  head(batch);
}

/// Sets the context of every block and what every row sees of it.
void DFlashNetwork::see(std::span<const Block> batch, int layer) {
  const bool causal = config_.causal[layer];
  std::size_t at = 0;
  for (std::size_t i = 0; i < batch.size(); ++i) {
    const auto& cache = *(scratch_.kv[i] = &batch[i].context->layer<AttentionCache>(layer));
    const int position = batch[i].context->length();
    const int rows = 1 + batch[i].masks;
    for (int self = position; self < position + rows; ++self, ++at) {
      const int end = causal ? self + 1 : position + rows;
      const bool full = cache.window() == AttentionCache::everything;
      scratch_.visible[at] = {cache.first_visible(self), full ? end : std::min(end, self + cache.window())};
    }
  }
}

/// Computes the logits of all masks in one matmul.
void DFlashNetwork::head(std::span<Block> batch) {
  const TransformerConfig& t = config_.transformer;
  const auto width = static_cast<std::ptrdiff_t>(t.hidden);
  const auto vocabulary = static_cast<std::size_t>(target_.vocabulary());
  const int rows = scratch_.rows();
  block_rows_.resize(static_cast<std::size_t>(rows) * t.hidden);
  kernels_.rms_norm(scratch_.hidden_states.data(), width, rows, 1, t.hidden, norm_.data(), t.epsilon,
                    block_rows_.data(), width);
  float* mask_rows = scratch_.normed.data();  // those of block_rows_ without the anchors
  for (std::size_t i = 0; i < batch.size(); ++i) {
    const std::ptrdiff_t first = scratch_.first_rows[i] + 1;
    mask_rows = std::copy_n(block_rows_.data() + first * width, batch[i].masks * width, mask_rows);
  }
  const int masks = rows - static_cast<int>(batch.size());
  logits_.resize(static_cast<std::size_t>(masks) * vocabulary);
  const bool numbers =
      target_.embeddings()->unembed(scratch_.normed.data(), masks, scratch_.activations, logits_.data());
  std::span<float> left = logits_;
  for (Block& block : batch) {
    const std::span<float> logits = left.first(static_cast<std::size_t>(block.masks) * vocabulary);
    left = left.subspan(logits.size());
    block.logits = logits;
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

}  // namespace draftproof
