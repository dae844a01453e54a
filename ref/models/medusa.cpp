// SPDX-License-Identifier: MIT
#include "ref/models/medusa.h"

#include <algorithm>
#include <cmath>
#include <numeric>
#include <utility>

#include "kernels/operations.h"
#include "ref/base/error.h"
#include "ref/base/require.h"
#include "ref/caches/feature_cache.h"
#include "ref/models/checkpoint_kind.h"
#include "ref/models/counted_target.h"
#include "ref/models/transformer.h"

namespace draftproof {
namespace {

constexpr int heads_max = 64;
constexpr int blocks_max = 64;
constexpr int context = 1 << 20;  // vLLM's; a head itself has no last position

bool is_medusa(const Json& config) {
  if (!config.is_object()) return false;
  const auto type = config.find("model_type");
  return config.find("medusa_num_heads").has_value() || (type && type->is_string() && type->string() == "medusa");
}

/// Each program names these fields in its own way.
int count_of(const Json& config, std::initializer_list<const char*> names, int max, int default_value) {
  for (const char* const name : names) {
    if (const auto field = config.find(name)) return static_cast<int>(field->integer(1, max));
  }
  return default_value;
}

int stated_heads(const Json& config) { return count_of(config, {"medusa_num_heads", "num_heads"}, heads_max, 1); }

int read_blocks(const Json& config) {
  return count_of(config, {"medusa_num_layers", "num_hidden_layers", "num_layers"}, blocks_max, 1);
}

TransformerConfig describe_config(const Json& config) {
  TransformerConfig result;
  result.vocabulary = positive(config, "vocab_size", 1);
  result.hidden = config.find("hidden_size") ? positive(config, "hidden_size") : 0;
  result.context = context;
  result.layers.assign(static_cast<std::size_t>(read_blocks(config)), {.mixer = NoMixer()});
  return result;
}

MedusaNames find_names(const Checkpoint& files) {
  for (const char* const prefix : {"", "medusa_heads.", "medusa_head."}) {
    for (const bool of_vllm : {false, true}) {
      const MedusaNames names = {prefix, of_vllm};
      if (files.has(names.block(0, 0) + "weight")) return names;
    }
  }
  if (!files.has_weights()) return {};
  throw Error(files.path().string() +
              ": has no Medusa head; its first block is named 0.0.linear.weight, or blocks.0.layers.0.weight");
}

/// What a config leaves out: a width of a matrix, 0 the rows, 1 the inputs; 1 where the checkpoint does not have it.
int width_of(const Checkpoint& files, const std::string& matrix, std::size_t which) {
  const auto found = files.tensors().find(matrix);
  if (found == files.tensors().end() || found->second.shape.size() != 2) return 1;
  return static_cast<int>(std::clamp<std::int64_t>(found->second.shape[which], 1, 1 << 24));
}

std::vector<std::string> find_lm_heads(const Checkpoint& files, const MedusaConfig& config) {
  const MedusaNames& names = config.names;
  const std::string of_all = names.prefix + "lm_head.weight";
  const auto shared = files.config().find("original_lm_head");
  if (files.has(of_all)) return {of_all};
  if (shared && shared->boolean() && files.has(names.lm_head(0, config.blocks))) {
    return {names.lm_head(0, config.blocks)};
  }
  std::vector<std::string> own;
  std::string missing;
  for (int head = 0; head < config.heads; ++head) {
    const std::string name = names.lm_head(head, config.blocks);
    if (files.has(name)) own.push_back(name);
    else missing = name;
  }
  if (!own.empty() && !missing.empty()) {
    throw Error(files.path().string() + ": has LM heads of some Medusa heads, but no tensor " + missing);
  }
  return own;
}

}  // namespace

const CheckpointKind medusa_checkpoint = {.name = "Medusa heads",
                                          .architectures = "Medusa heads",
                                          .lender = "those of another layer",
                                          .recognizes = is_medusa,
                                          .describe = describe_config};

std::string MedusaNames::block(int head, int block) const {
  const std::string h = std::to_string(head);
  const std::string b = std::to_string(block);
  return prefix + (of_vllm ? "blocks." + h + ".layers." + b + "." : h + "." + b + ".linear.");
}

std::string MedusaNames::lm_head(int head, int blocks) const {
  const std::string h = std::to_string(head);
  return prefix + (of_vllm ? "lm_heads." + h : h + "." + std::to_string(blocks)) + ".weight";
}

MedusaConfig describe_medusa(const Checkpoint& files) {
  const Json& config = files.config();
  if (!is_medusa(config))
    config.fail("has no Medusa heads; it must have medusa_num_heads, or medusa as its model_type");
  MedusaConfig result;
  result.names = find_names(files);
  result.blocks = read_blocks(config);
  result.heads = stated_heads(config);
  const std::string first = result.names.block(0, 0);
  if (files.has_weights()) {
    int found = 0;
    while (found < heads_max && files.has(result.names.block(found, 0) + "weight")) ++found;
    if (found < result.heads) {
      config.fail("says that there are " + std::to_string(result.heads) + " Medusa heads, but the weights have " +
                  std::to_string(found));
    }
    result.heads = found;
  }
  const bool stated = !files.has_weights() || config.find("hidden_size");
  result.hidden = stated ? positive(config, "hidden_size") : width_of(files, first + "weight", 1);
  const auto biased = config.find("medusa_fc_bias");
  result.bias = files.has(first + "bias") || (biased && biased->boolean());
  result.lm_heads = find_lm_heads(files, result);
  const int rows = result.lm_heads.empty() ? 1 : width_of(files, result.lm_heads[0], 0);
  result.vocabulary = positive(config, "vocab_size", rows);
  result.draft_vocabulary = positive(config, "truncated_vocab_size", result.vocabulary);
  if (const auto scale = config.find("logit_scale")) {
    result.logit_scale = static_cast<float>(scale->number());
    if (!(result.logit_scale > 0) || !std::isfinite(result.logit_scale)) scale->fail("must be a positive number");
  }
  return result;
}

MedusaConfig read_medusa(const Checkpoint& files, const Model& target) {
  MedusaConfig result = describe_medusa(files);
  const Json& config = files.config();
  if (result.hidden != target.hidden()) {
    config.find("hidden_size")
        .value_or(config)
        .fail("is of heads of the width " + std::to_string(result.hidden) + ", and does not fit the target, whose " +
              "hidden_size is " + std::to_string(target.hidden()));
  }
  if (const auto size = config.find("vocab_size"); size && result.vocabulary != target.vocabulary()) {
    size->fail("does not fit the target, whose vocabulary is " + std::to_string(target.vocabulary()));
  }
  result.vocabulary = target.vocabulary();
  const auto part = config.find("truncated_vocab_size");
  result.draft_vocabulary = part ? static_cast<int>(part->integer(1, result.vocabulary)) : result.vocabulary;
  return result;
}

MedusaHeads::MedusaHeads(const Checkpoint& files, const Model& target, const LoadOptions& options)
    : MedusaHeads(WeightLoader(files, options), read_medusa(files, target), target) {}

MemoryNeed MedusaHeads::need(const Checkpoint& files, const LoadOptions& options) {
  const MedusaConfig config = describe_medusa(files);
  const CountedTarget target(config.hidden, config.vocabulary);
  const WeightLoader counted(files, options, WeightLoader::Mode::count);
  const MedusaHeads heads(counted, config, target);
  TransformerConfig sizes;  // of the rows of a pass
  sizes.vocabulary = config.vocabulary;
  sizes.hidden = config.hidden;
  MemoryNeed need = need_of_layers(sizes, counted);
  need.cache_per_position = FeatureCache::bytes_per_position(config.hidden);
  return need;
}

namespace {

std::vector<Token> tokens_of(const WeightLoader& from, const MedusaConfig& config) {
  const std::string name = config.names.prefix + "token_map";
  from.loaded(name);
  std::vector<Token> tokens(static_cast<std::size_t>(config.draft_vocabulary));
  if (from.counts()) return tokens;
  if (config.draft_vocabulary < config.vocabulary) {
    return read_token_map(from.weights, name, false, config.draft_vocabulary, config.vocabulary);
  }
  std::iota(tokens.begin(), tokens.end(), 0);
  return tokens;
}

}  // namespace

MedusaHeads::MedusaHeads(const WeightLoader& from, MedusaConfig config, const Model& target)
    : kernels_(from.options.kernels),
      target_(target),
      origin_(from.weights.path().string()),
      config_(std::move(config)),
      last_layer_(target.layers() - 1) {
  REQUIRE(target.embeddings() != nullptr, "Medusa heads borrow the target's final norm");
  const int hidden = config_.hidden;
  for (int head = 0; head < config_.heads; ++head) {
    std::vector<Block>& blocks = heads_.emplace_back();
    for (int block = 0; block < config_.blocks; ++block) {
      const std::string name = config_.names.block(head, block);
      blocks.push_back({.linear = load_matrix(from, {{name + "weight", hidden}}, hidden),
                        .bias = config_.bias ? from.floats(name + "bias", {hidden}) : std::vector<float>()});
    }
  }
  const std::vector<Token> tokens = tokens_of(from, config_);
  const DraftTablesShape shape = {hidden, config_.vocabulary, config_.draft_vocabulary};
  std::vector<std::string> names = config_.lm_heads;
  if (names.empty()) names.emplace_back();  // the target's
  for (const std::string& name : names) lm_heads_.emplace_back(from, name, shape, tokens, target);
  for (int head = 0; names.size() == 1 && head < config_.heads; ++head) {  // vLLM ignores those of single heads, too
    from.loaded(config_.names.lm_head(head, config_.blocks));
  }
  from.finish();
}

/// x = x + SiLU(W x + b) of the first rows of rows_.
void MedusaHeads::apply(const Block& block, int rows) {
  const std::ptrdiff_t hidden = config_.hidden;
  reserve_rows(gate_, rows, 2 * config_.hidden);
  reserve_rows(gated_, rows, config_.hidden);
  pack_activations(kernels_, block.linear, rows_.data(), hidden, rows, activations_);
  matmul(kernels_, block.linear, activations_, gate_.data(), 2 * hidden);
  for (int row = 0; row < rows; ++row) {
    float* const gate = gate_.data() + 2 * hidden * row;
    if (!block.bias.empty()) kernels_.add(block.bias.data(), block.bias.size(), gate);
    std::fill_n(gate + hidden, hidden, 1.0F);
  }
  kernels_.silu_multiply(gate_.data(), rows, config_.hidden, 0, config_.hidden, gated_.data());
  kernels_.add(gated_.data(), static_cast<std::size_t>(rows * hidden), rows_.data());
}

void MedusaHeads::compute(std::span<Text> batch) {
  const auto hidden = static_cast<std::size_t>(config_.hidden);
  const auto vocabulary = static_cast<std::size_t>(config_.vocabulary);
  const bool shared = lm_heads_.size() < heads_.size();
  features_.resize(batch.size() * hidden);
  std::size_t answers = 0;
  for (std::size_t i = 0; i < batch.size(); ++i) {
    REQUIRE(batch[i].feature.size() == hidden, "a feature is the output of the target's last layer");
    REQUIRE(batch[i].heads >= 1 && batch[i].heads <= count(), "there are as many heads as are asked for");
    std::ranges::copy(batch[i].feature, features_.begin() + static_cast<std::ptrdiff_t>(i * hidden));
    answers += static_cast<std::size_t>(batch[i].heads);
  }
  target_.embeddings()->normalize(features_.data(), static_cast<int>(batch.size()), features_.data());
  answers_.resize(answers * hidden);
  logits_.resize(answers * vocabulary);
  rows_.resize(features_.size());
  bool numbers = true;
  for (int head = 0; head < count(); ++head) {
    std::vector<std::size_t> places;  // among the answers
    std::size_t first = 0;
    for (std::size_t i = 0; i < batch.size(); first += static_cast<std::size_t>(batch[i++].heads)) {
      if (head >= batch[i].heads) continue;
      std::copy_n(features_.begin() + static_cast<std::ptrdiff_t>(i * hidden), hidden,
                  rows_.begin() + static_cast<std::ptrdiff_t>(places.size() * hidden));
      places.push_back(first + static_cast<std::size_t>(head));
    }
    if (places.empty()) break;
    const int rows = static_cast<int>(places.size());
    for (const Block& block : heads_[static_cast<std::size_t>(head)]) apply(block, rows);
    if (!shared) {
      DraftLmHead& lm_head = lm_heads_[static_cast<std::size_t>(head)];
      numbers = lm_head.unembed(rows_.data(), rows, activations_, head_logits_) && numbers;
    }
    const std::vector<float>& from = shared ? rows_ : head_logits_;
    std::vector<float>& to = shared ? answers_ : logits_;
    const std::size_t width = shared ? hidden : vocabulary;
    for (std::size_t row = 0; row < places.size(); ++row) {
      std::copy_n(from.begin() + static_cast<std::ptrdiff_t>(row * width), width,
                  to.begin() + static_cast<std::ptrdiff_t>(places[row] * width));
    }
  }
  if (shared) numbers = lm_heads_[0].unembed(answers_.data(), static_cast<int>(answers), activations_, logits_);
  if (config_.logit_scale != 1) {
    for (float& logit : logits_) logit *= config_.logit_scale;
  }
  std::span<const float> left = logits_;
  for (Text& text : batch) {
    text.logits = left.first(static_cast<std::size_t>(text.heads) * vocabulary);
    left = left.subspan(text.logits.size());
    text.error.clear();
    if (!numbers && std::ranges::any_of(text.logits, [](float logit) { return std::isnan(logit); })) {
      text.error = origin_ + ": a Medusa head computes NaN logits; its weights are damaged";
    }
  }
}

}  // namespace draftproof
