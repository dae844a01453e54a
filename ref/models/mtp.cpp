// SPDX-License-Identifier: MIT
#include "ref/models/mtp.h"

#include <algorithm>
#include <cmath>
#include <utility>

#include "kernels/packed_activations.h"
#include "ref/base/error.h"
#include "ref/base/require.h"
#include "ref/caches/feature_cache.h"
#include "ref/models/counted_target.h"
#include "ref/models/models.h"

namespace draftproof {
namespace {

constexpr const char* embedding_of_model = "model.embed_tokens.weight";

/// A tensor's name, or nothing when the checkpoint has it not, or has there the bytes of the model's own.
std::string own_table(const Checkpoint& files, const std::string& name, const std::string& of_model) {
  return files.has(name) && !files.same(name, of_model) ? name : "";
}

/// As many as the config names or, where it is silent as that of Qwen3-Next, as have a layer.
int count_of_qwen(const Checkpoint& files, const std::string& prefix, const TransformerConfig& model) {
  const Json config = text_config(files.config());
  if (config.find("mtp_num_hidden_layers") || config.find("num_nextn_predict_layers")) return model.mtp_heads;
  int heads = 0;
  while (files.has(prefix + "layers." + std::to_string(heads) + ".input_layernorm.weight")) ++heads;
  return heads;
}

/// The heads with the names of Qwen3.5.
std::vector<MtpNames> names_of_qwen(const Checkpoint& files, const std::string& prefix,
                                    const TransformerConfig& model) {
  const int heads = count_of_qwen(files, prefix, model);
  std::vector<MtpNames> names;
  for (int i = 0; i < heads; ++i) {
    names.push_back({.projection = prefix + "fc.weight",
                     .embedding_norm = prefix + "pre_fc_norm_embedding.weight",
                     .hidden_norm = prefix + "pre_fc_norm_hidden.weight",
                     .block = prefix + "layers." + std::to_string(i) + ".",
                     .norm = prefix + "norm.weight",
                     .embedding = "",
                     .lm_head = ""});
  }
  return names;
}

/// The heads with the names of DeepSeek, behind `layers` layers.
std::vector<MtpNames> names_of_deepseek(const Checkpoint& files, int layers, int heads) {
  const std::string lm_head = files.has("lm_head.weight") ? "lm_head.weight" : embedding_of_model;
  std::vector<MtpNames> names;
  for (int i = 0; i < heads; ++i) {
    const std::string block = "model.layers." + std::to_string(layers + i) + ".";
    const std::string norm = block + "shared_head.norm.weight";
    names.push_back({.projection = block + "eh_proj.weight",
                     .embedding_norm = block + "enorm.weight",
                     .hidden_norm = block + "hnorm.weight",
                     .block = block,
                     .norm = files.has(norm) ? norm : "",
                     .embedding = own_table(files, block + "embed_tokens.weight", embedding_of_model),
                     .lm_head = own_table(files, block + "shared_head.head.weight", lm_head)});
  }
  return names;
}

/// The heads with the names of ERNIE 4.5.
std::vector<MtpNames> names_of_ernie(int heads) {
  std::vector<MtpNames> names;
  for (int i = 0; i < heads; ++i) {
    const std::string number = std::to_string(i) + ".";
    names.push_back({.projection = "model.mtp_linear_proj." + number + "weight",
                     .embedding_norm = "model.mtp_emb_norm." + number + "weight",
                     .hidden_norm = "model.mtp_hidden_norm." + number + "weight",
                     .block = "model.mtp_block." + number,
                     .norm = "",
                     .embedding = "",
                     .lm_head = ""});
  }
  return names;
}

/// The heads with the names of MiMo.
std::vector<MtpNames> names_of_mimo(int heads) {
  std::vector<MtpNames> names;
  for (int i = 0; i < heads; ++i) {
    const std::string block = "model.mtp_layers." + std::to_string(i) + ".";
    names.push_back({.projection = block + "input_proj.weight",
                     .embedding_norm = block + "token_layernorm.weight",
                     .hidden_norm = block + "hidden_layernorm.weight",
                     .block = block,
                     .norm = block + "final_layernorm.weight",
                     .embedding = "",
                     .lm_head = ""});
  }
  return names;
}

/// The head with the names of Nemotron-H.
std::vector<MtpNames> names_of_nemotron(int heads) {
  const std::string first = "mtp.layers.0.";
  const std::string last = "mtp.layers.1.";
  return {static_cast<std::size_t>(heads), MtpNames{.projection = first + "eh_proj.weight",
                                                    .embedding_norm = first + "enorm.weight",
                                                    .hidden_norm = first + "hnorm.weight",
                                                    .block = first,
                                                    .norm = last + "final_layernorm.weight",
                                                    .embedding = "",
                                                    .lm_head = "",
                                                    .experts = last}};
}

[[noreturn]] void fail_without(const Checkpoint& files, const std::string& why) {
  throw Error(files.path().string() + ": " + why +
              "; name a checkpoint that has them (mtp:PATH), or choose another draft");
}

/// The heads, but for their transformer; none where their tensors are missing.
MtpConfig find_heads(const Checkpoint& files, const TransformerConfig& model) {
  MtpConfig found;
  for (const std::string prefix : {"mtp.", "model.mtp."}) {
    if (!files.has(prefix + "fc.weight")) continue;
    found.heads = names_of_qwen(files, prefix, model);
    return found;
  }
  if (files.has("model.mtp_linear_proj.0.weight")) {
    found.heads = names_of_ernie(model.mtp_heads);
  } else if (files.has("model.mtp_layers.0.input_proj.weight")) {
    found.heads = names_of_mimo(model.mtp_heads);
    found.hidden_first = true;
    found.reads_normed = false;
  } else if (files.has("mtp.layers.0.eh_proj.weight")) {
    found.heads = names_of_nemotron(model.mtp_heads);
  } else {
    found.heads = names_of_deepseek(files, model.depth(), model.mtp_heads);
    if (!found.heads.empty() && !files.has(found.heads[0].projection)) found.heads.clear();
  }
  return found;
}

MtpConfig require_heads(const Checkpoint& files, const TransformerConfig& model) {
  MtpConfig found = find_heads(files, model);
  if (!found.heads.empty()) return found;
  if (model.mtp_heads == 0) fail_without(files, "has no MTP heads");
  fail_without(files, "has no tensors of the " +
                          (model.mtp_heads == 1 ? "MTP head" : std::to_string(model.mtp_heads) + " MTP heads") +
                          " that its config names; whoever wrote the file left them out");
}

/// The heads of a checkpoint for this target, which they must fit.
MtpConfig read_fitting(const Checkpoint& files, const Model& target) {
  MtpConfig config = read_mtp_config(files);
  REQUIRE(target.embeddings() != nullptr, "an MTP head borrows the target's embedding, final norm and LM head");
  const TransformerConfig& t = config.transformer;
  for (const auto& [what, own, of_target] :
       {std::tuple("hidden_size", t.hidden, target.hidden()), {"vocab_size", t.vocabulary, target.vocabulary()}}) {
    if (own == of_target) continue;
    text_config(files.config()).at(what).fail("does not fit the target's, " + std::to_string(of_target));
  }
  return config;
}

}  // namespace

bool MtpConfig::owns(const std::string& tensor) const {
  return std::ranges::any_of(heads, [&](const MtpNames& head) {
    for (const char* table : {"embed_tokens.weight", "shared_head.head.weight"}) {  // perhaps copies of the model's
      if (tensor == head.block + table) return tensor == head.embedding || tensor == head.lm_head;
    }
    const bool of_experts = !head.experts.empty() && tensor.starts_with(head.experts);
    return of_experts || tensor.starts_with(head.block) || tensor == head.projection || tensor == head.embedding_norm ||
           tensor == head.hidden_norm || tensor == head.norm;
  });
}

bool has_mtp_heads(const Checkpoint& files) {
  const std::vector<MtpNames> heads = find_heads(files, describe(files.config())).heads;
  const auto is_there = [&](const MtpNames& head) {
    return files.has(head.projection) && files.has(head.embedding_norm) && files.has(head.hidden_norm);
  };
  return !heads.empty() && std::ranges::all_of(heads, is_there);
}

MtpConfig read_mtp_config(const Checkpoint& files) {
  const Architecture& architecture = architecture_of(files.config());
  const TransformerConfig model = describe(files.config());
  MtpConfig config = require_heads(files, model);
  if (architecture.mtp == nullptr) {
    fail_without(files, "has MTP heads of the architecture " + architecture_name(files.config()) +
                            ", which are not implemented");
  }
  const Json text = text_config(files.config());
  refuse_if_set(text, "mtp_use_dedicated_embeddings", "embeddings of the MTP heads' own are not implemented");
  config.transformer = architecture.mtp->describe(files, model);
  config.transformer.layers.resize(config.heads.size(), config.transformer.layers[0]);
  return config;
}

MemoryNeed MtpHead::need(const Checkpoint& files, const LoadOptions& options) {
  const MtpConfig config = read_mtp_config(files);
  const TransformerConfig& t = config.transformer;
  const WeightLoader counted(files, options, WeightLoader::Mode::count);
  const CountedTarget target(t.hidden, t.vocabulary);
  const MtpHead head(counted, config, target);
  MemoryNeed need = need_of_layers(t, counted);
  need.cache_per_position += FeatureCache::bytes_per_position(t.hidden);
  // Rows of the target's last layer, the features made of them, these one row later, and the same again in a pass; and
  // what is projected, which is twice as wide.
  need.add_row_floats(6 * static_cast<std::uint64_t>(t.hidden));
  return need;
}

MtpHead::MtpHead(const Checkpoint& files, const Model& target, const LoadOptions& options)
    : MtpHead(WeightLoader(files, options), read_fitting(files, target), target) {}

MtpHead::MtpHead(const WeightLoader& from, MtpConfig config, const Model& target)
    : kernels_(from.options.kernels),
      kv_(from.options.kv),
      target_(target),
      origin_(from.weights.path().string()),
      config_(std::move(config)),
      last_layer_(target.layers() - 1) {
  TransformerConfig& t = config_.transformer;
  for (const auto& [name, tensor] : from.weights.tensors()) {
    if (!config_.owns(name)) from.loaded(name);
  }
  for (Rope& rope : t.ropes) stretch_rope(from, rope);
  const MtpBlocks& blocks = *architecture_of(from.weights.config()).mtp;
  const auto table = [&](const std::string& name) -> std::optional<PackedMatrix> {
    if (name.empty()) return std::nullopt;
    return load_table(from, {name, t.vocabulary}, t.hidden);
  };
  for (std::size_t i = 0; i < config_.heads.size(); ++i) {
    const MtpNames& names = config_.heads[i];
    heads_.push_back({.projection = load_matrix(from, {{names.projection, t.hidden}}, 2 * t.hidden),
                      .embedding_norm = load_norm(from, t, names.embedding_norm, t.hidden),
                      .hidden_norm = load_norm(from, t, names.hidden_norm, t.hidden),
                      .block = blocks.load(from, t, static_cast<int>(i), names.block),
                      .norm = names.norm.empty() ? std::vector<float>() : load_norm(from, t, names.norm, t.hidden),
                      .embedding = table(names.embedding),
                      .lm_head = table(names.lm_head)});
  }
  from.finish();
}

std::vector<std::unique_ptr<LayerCache>> MtpHead::new_layers(int capacity, int max_pending_rows) const {
  return new_layer_caches(config_.transformer, kernels_, kv_, capacity, max_pending_rows);
}

void MtpHead::fuse(std::span<const float> tapped, int rows, float* features) {
  REQUIRE(tapped.size() == static_cast<std::size_t>(rows) * static_cast<std::size_t>(width()), "one tap per position");
  if (!config_.reads_normed) {
    std::ranges::copy(tapped, features);
    return;
  }
  target_.embeddings()->normalize(tapped.data(), rows, features);
}

/// rows [tokens][hidden] = their embeddings
void MtpHead::embed(const Weights& head, float* rows) const {
  if (!head.embedding) {
    target_.embeddings()->embed(tokens_, rows);
    return;
  }
  for (const Token token : tokens_) {
    REQUIRE(token >= 0 && token < vocabulary(), "a token lies in the vocabulary");
  }
  unpack_rows(kernels_, *head.embedding, tokens_, rows);
}

/// Every row sees the rows before it and itself, but for row 0, which only itself sees.
void MtpHead::see(const TransformerPass& pass, int layer) {
  pass.see(layer);
  for (std::size_t row = 0; row < scratch_.positions.size(); ++row) {
    Visible& seen = scratch_.visible[row];
    if (scratch_.positions[row] > 0) seen.first = std::max(seen.first, 1);
  }
}

/// Computes the logits of rows [first, first + count) of next_features_.
void MtpHead::answer(const Weights& head, int first, int count) {
  const float* const rows = next_features_.data() + static_cast<std::ptrdiff_t>(first) * width();
  float* const logits = logits_.data() + static_cast<std::ptrdiff_t>(first) * vocabulary();
  if (!head.lm_head) {
    numbers_ = target_.embeddings()->unembed(rows, count, scratch_.activations, logits) && numbers_;
    return;
  }
  pack_activations(kernels_, *head.lm_head, rows, width(), count, scratch_.activations);
  numbers_ = matmul_of_numbers(kernels_, *head.lm_head, scratch_.activations, logits, vocabulary()) && numbers_;
}

void MtpHead::forward(std::span<Rows> batch) {
  const TransformerConfig& t = config_.transformer;
  const int hidden = t.hidden;
  placements_.clear();
  tokens_.clear();
  features_.clear();
  struct Wanted {
    int row;   // of the pass
    int head;  // that answers it
  };
  std::vector<Wanted> wanted;
  for (const Rows& one : batch) {
    REQUIRE(one.features.size() == one.tokens.size() * static_cast<std::size_t>(hidden), "one feature for each token");
    const Placement place = placement_of({.cache = one.cache, .tokens = one.tokens, .depths = one.depths});
    for (const int row : one.wanted) {
      const int depth = place.position - one.cache->length() + (one.depths.empty() ? row : one.depths[row]);
      wanted.push_back({static_cast<int>(tokens_.size()) + row, std::min(depth, static_cast<int>(heads_.size()) - 1)});
    }
    placements_.push_back(place);
    tokens_.insert(tokens_.end(), one.tokens.begin(), one.tokens.end());
    features_.insert(features_.end(), one.features.begin(), one.features.end());
  }
  scratch_.lay_out(t, placements_);
  const int rows = scratch_.rows();
  const TransformerPass pass = {kernels_, t, scratch_, rows};
  reserve_rows(combined_, rows, 2 * hidden);
  next_features_.resize(wanted.size() * static_cast<std::size_t>(hidden));
  logits_.resize(wanted.size() * static_cast<std::size_t>(vocabulary()));
  numbers_ = true;
  float* const embeddings = combined_.data() + (config_.hidden_first ? hidden : 0);
  float* const hidden_states = combined_.data() + (config_.hidden_first ? 0 : hidden);

  for (int i = 0; i < static_cast<int>(heads_.size()); ++i) {
    const Weights& head = heads_[static_cast<std::size_t>(i)];
    embed(head, scratch_.normed.data());
    kernels_.rms_norm(scratch_.normed.data(), hidden, rows, 1, hidden, head.embedding_norm.data(), t.epsilon,
                      embeddings, 2 * hidden);
    kernels_.rms_norm(features_.data(), hidden, rows, 1, hidden, head.hidden_norm.data(), t.epsilon, hidden_states,
                      2 * hidden);
    pack_activations(kernels_, head.projection, combined_.data(), 2 * hidden, rows, scratch_.activations);
    matmul(kernels_, head.projection, scratch_.activations, scratch_.hidden_states.data(), hidden);
    see(pass, i);
    head.block->compute(pass, i);

    const auto answered_here = [&](const Wanted& one) { return one.head == i; };
    for (auto at = std::ranges::find_if(wanted, answered_here); at != wanted.end();
         at = std::find_if(at, wanted.end(), answered_here)) {
      const auto end = std::find_if_not(at, wanted.end(), answered_here);
      const auto first = static_cast<int>(at - wanted.begin());
      for (; at != end; ++at) {
        const float* const from = scratch_.hidden_states.data() + std::ptrdiff_t{at->row} * hidden;
        float* const to = next_features_.data() + (at - wanted.begin()) * hidden;
        if (head.norm.empty()) target_.embeddings()->normalize(from, 1, to);
        else kernels_.rms_norm(from, hidden, 1, 1, hidden, head.norm.data(), t.epsilon, to, hidden);
      }
      answer(head, first, static_cast<int>(at - wanted.begin()) - first);
    }
  }

  std::span<const float> logits = logits_;
  std::span<const float> next = next_features_;
  for (Rows& one : batch) {
    one.cache->wrote(one.rows());
    const auto take = [count = one.wanted.size()](std::span<const float>& from, int width) {
      const std::span<const float> taken = from.first(count * static_cast<std::size_t>(width));
      from = from.subspan(taken.size());
      return taken;
    };
    one.logits = take(logits, vocabulary());
    one.next_features = take(next, hidden);
    one.error.clear();
    if (!numbers_ && std::ranges::any_of(one.logits, [](float logit) { return std::isnan(logit); })) {
      one.error = origin_ + ": the MTP head computes NaN logits; its weights are damaged";
    }
  }
}

}  // namespace draftproof
