// SPDX-License-Identifier: MIT
#include "tools/grown_model.h"

#include <algorithm>
#include <cmath>
#include <fstream>
#include <functional>
#include <memory>
#include <nlohmann/json.hpp>
#include <numeric>

#include "ref/base/error.h"
#include "ref/base/incoming.h"
#include "ref/models/checkpoint_kind.h"
#include "ref/models/dflash.h"
#include "ref/models/draft_tables.h"
#include "ref/models/eagle3.h"
#include "ref/models/models.h"
#include "ref/models/transformer_config.h"

namespace draftproof {
namespace {

// Of published drafts.
constexpr int layers_of_dflash = 5;
constexpr int taps_of_dflash = 5;
constexpr int tokens_of_eagle3 = 32000;

// What norms that let the constant through have there, before their factor. That of the last norm is small because MTP
// heads normalize what it returns.
constexpr float last_norm_at_constant = 16;
constexpr float embedding_norm_at_constant = 0.125F;  // for embeddings of 0.04 to 0.25, the root of the mean square
// What rows of new tokens have at the constant's coordinate, from the first to the last: numbers that f16 has, too.
constexpr float new_token_min = -49152;
constexpr float new_token_max = -32768;

/// The layers of the new model that the old ones become: spread evenly.
std::vector<int> spread(int old_layers, int new_layers) {
  std::vector<int> at;
  for (int i = 0; i < old_layers; ++i) at.push_back((2 * i + 1) * new_layers / (2 * old_layers));
  return at;
}

/// A matrix of random numbers, zeros and the numbers of an old one.
struct Grown {
  static constexpr int zeros = -1;
  static constexpr int noise = -2;

  std::string name;
  int outputs = 0;
  int inputs = 0;
  std::vector<int> row_of;     // [outputs]: the row of the old matrix, or zeros, or noise; empty: all are noise
  std::vector<int> column_at;  // [old inputs]: its column in the new matrix
  std::vector<float> old;      // [old outputs][old inputs]
  std::function<void(int row, float* values)> finish;  // adds to a row
};

class ModelGrowth {
 public:
  ModelGrowth(const Checkpoint& from, const SyntheticShape& shape, std::uint64_t seed)
      : from_(from), shape_(shape), seed_(seed), kind_(checkpoint_kind(from.config())) {
    const Json& config = from.config();
    if (shape.architecture != std::string("qwen3")) fail("a model grows into a dense Qwen3, and this shape is not one");
    const bool tied = config.has("tie_word_embeddings") && config.at("tie_word_embeddings").boolean();
    const bool qwen3 = kind_ == eagle3_checkpoint || config.at("model_type").string() == "qwen3";
    if (!qwen3 || (kind_ == target_checkpoint && !tied)) {
      fail("only a Qwen3 with tied embeddings and its DFlash draft, EAGLE-3 and MTP heads can grow");
    }
    hidden_ = positive(config, "hidden_size");
    head_dim_ = positive(config, "head_dim");
    heads_ = positive(config, "num_attention_heads");
    kv_heads_ = positive(config, "num_key_value_heads");
    intermediate_ = positive(config, "intermediate_size");
    old_layers_ = positive(config, "num_hidden_layers");
    vocabulary_ = positive(config, "vocab_size");
    epsilon_ = config.at("rms_norm_eps").number();
    target_layers_ = kind_ == target_checkpoint ? old_layers_ : positive(config, "num_target_layers");
    layers_ = old_layers_;
    if (kind_ == target_checkpoint) layers_ = shape.layers;
    if (kind_ == dflash_checkpoint) layers_ = std::max(layers_of_dflash, old_layers_);
    const int group = heads_ / kv_heads_;
    const int new_group = shape.heads / shape.kv_heads;
    copies_ = group / new_group;
    const auto fits = [&](int old, int room, const char* what) {
      if (old > room) fail("its " + std::to_string(old) + " " + what + " do not fit into " + std::to_string(room));
    };
    fits(hidden_ + 1, shape.hidden, "coordinates of the hidden state, one of them a constant,");
    fits(intermediate_, shape.intermediate, "neurons of the MLP");
    fits(target_layers_, shape.layers, "layers");
    fits(heads_, shape.heads, "heads");
    fits(vocabulary_, shape.vocabulary, "tokens");
    if (shape.head_dim % head_dim_ != 0) fail("its head_dim does not divide that of the shape");
    if (group % new_group != 0) fail("its queries of one key do not divide into those of the shape");
    fits(kv_heads_ * copies_, shape.kv_heads, "KV heads, copied for their queries,");
    constant_ = 1;
    while (constant_ * constant_ > hidden_ * epsilon_ / 2) constant_ /= 2;
    new_epsilon_ = (hidden_ * epsilon_ - constant_ * constant_) / shape.hidden;
    const int ratio = shape.head_dim / head_dim_;
    for (const int half : {0, shape.head_dim / 2}) {
      for (int i = 0; i < head_dim_ / 2; ++i) head_at_.push_back(half + ratio * i);
    }
  }

  GrownModel grown() {
    if (kind_ == target_checkpoint) grow_model();
    if (kind_ == dflash_checkpoint) grow_dflash();
    if (kind_ == eagle3_checkpoint) grow_eagle3();
    return {config(), std::move(tensors_)};
  }

 private:
  [[noreturn]] void fail(const std::string& why) const {
    throw Error(from_.path().string() + ": cannot grow into " + shape_.name + ": " + why);
  }

  int q_width() const { return shape_.heads * shape_.head_dim; }
  int kv_width() const { return shape_.kv_heads * shape_.head_dim; }
  static std::vector<int> first(int count) {
    std::vector<int> at(static_cast<std::size_t>(count));
    std::iota(at.begin(), at.end(), 0);
    return at;
  }
  /// The columns of old hidden states among `places` new ones side by side.
  std::vector<int> columns(const std::vector<int>& places) const {
    std::vector<int> at;
    for (const int place : places) {
      for (int i = 0; i < hidden_; ++i) at.push_back(place * shape_.hidden + i);
    }
    return at;
  }
  /// The first rows of the old matrix, then `others`.
  static std::vector<int> first_rows(int count, int all, int others) {
    std::vector<int> rows = first(count);
    rows.resize(static_cast<std::size_t>(all), others);
    return rows;
  }

  void add(Grown matrix) {
    const auto shared = std::make_shared<const Grown>(std::move(matrix));
    const SyntheticTensor random = {shared->name, Format::f32, shared->outputs, shared->inputs,
                                    seed_ + 0x9e3779b97f4a7c15ULL * (tensors_.size() + 1)};
    const auto read = [shared, random](int begin, int rows, void* to) {
      std::vector<float> row(static_cast<std::size_t>(shared->inputs));
      auto* at = static_cast<std::byte*>(to);
      for (int r = begin; r < begin + rows; ++r, at += row_bytes(Format::bf16, shared->inputs)) {
        const int old = shared->row_of.empty() ? Grown::noise : shared->row_of[static_cast<std::size_t>(r)];
        std::ranges::fill(row, 0.0F);
        if (old == Grown::noise) synthesize(random, r, 1, row.data());
        for (std::size_t i = 0; old >= 0 && i < shared->column_at.size(); ++i) {
          row[static_cast<std::size_t>(shared->column_at[i])] =
              shared->old[static_cast<std::size_t>(old) * shared->column_at.size() + i];
        }
        if (shared->finish) shared->finish(r, row.data());
        quantize_row(Format::bf16, row.data(), shared->inputs, at);
      }
    };
    tensors_.push_back({shared->name, {Format::bf16, shared->outputs, shared->inputs, read}});
  }

  void add_vector(const std::string& name, std::vector<float> values) {
    const auto width = static_cast<int>(values.size());
    const auto read = [values = std::move(values)](int, int, void* to) {
      std::memcpy(to, values.data(), values.size() * sizeof(float));
    };
    tensors_.push_back({name, {Format::f32, 1, width, read}});
  }

  std::vector<float> old(const std::string& name, std::vector<std::int64_t> shape) const {
    return from_.floats(name + ".weight", shape);
  }
  void refuse(const std::string& tensor) const {
    if (from_.has(tensor + ".weight")) fail("its tensor " + tensor + " cannot grow");
  }

  /// A norm of the hidden state.
  void add_norm(const std::string& name, const std::string& was, float at_constant = 0) {
    std::vector<float> weights(static_cast<std::size_t>(shape_.hidden));
    const std::vector<float> before = old(was, {hidden_});
    const double factor = std::sqrt(static_cast<double>(hidden_) / shape_.hidden);
    for (std::size_t i = 0; i < before.size(); ++i) weights[i] = static_cast<float>(before[i] * factor);
    weights.back() = static_cast<float>(at_constant * factor);
    add_vector(name + ".weight", std::move(weights));
  }

  /// A norm of queries or keys.
  void add_head_norm(const std::string& name, const std::string& was, bool of_queries) {
    std::vector<float> weights(static_cast<std::size_t>(shape_.head_dim), 1.0F);
    const std::vector<float> before = old(was, {head_dim_});
    const double factor = of_queries ? 1.0 : std::sqrt(static_cast<double>(head_dim_) / shape_.head_dim);
    for (std::size_t i = 0; i < before.size(); ++i) {
      weights[static_cast<std::size_t>(head_at_[i])] = static_cast<float>(before[i] * factor);
    }
    add_vector(name + ".weight", std::move(weights));
  }

  /// q_proj, k_proj or v_proj, times `factor`: old head i becomes `copies` new ones.
  void add_into_heads(const std::string& name, const std::string& was, int old_heads, int new_heads, int copies,
                      double factor = 1) {
    std::vector<int> row_of(static_cast<std::size_t>(new_heads * shape_.head_dim), Grown::noise);
    for (int head = 0; head < old_heads * copies; ++head) {
      const auto begin = static_cast<std::size_t>(head * shape_.head_dim);
      std::fill_n(row_of.begin() + static_cast<std::ptrdiff_t>(begin), shape_.head_dim, Grown::zeros);
      for (std::size_t i = 0; i < head_at_.size(); ++i) {
        row_of[begin + static_cast<std::size_t>(head_at_[i])] = head / copies * head_dim_ + static_cast<int>(i);
      }
    }
    std::vector<int> places = first(kind_ == eagle3_checkpoint ? 2 : 1);  // EAGLE-3: a token and a feature
    const auto width = static_cast<int>(places.size());
    std::vector<float> values = old(was, {old_heads * head_dim_, width * hidden_});
    for (float& value : values) value = static_cast<float>(value * factor);
    add({name + ".weight",
         new_heads * shape_.head_dim,
         width * shape_.hidden,
         std::move(row_of),
         columns(places),
         std::move(values),
         {}});
  }

  /// A projection of hidden states side by side, the old ones at `places` of `count`. It passes the constant of the
  /// first of them on.
  void add_projection(const std::string& name, const std::string& was, const std::vector<int>& places, int count) {
    const int last = shape_.hidden - 1;
    const int constant = places.front() * shape_.hidden + last;
    add({name + ".weight", shape_.hidden, count * shape_.hidden, first_rows(hidden_, shape_.hidden, Grown::zeros),
         columns(places), old(was, {hidden_, static_cast<int>(places.size()) * hidden_}),
         [last, constant](int row, float* values) {
           if (row == last) values[constant] = 1;
         }});
  }

  /// An embedding or an LM head: the old tokens, which have `at_constant` there, and new ones, which never win.
  void add_vocabulary(const std::string& name, int old_tokens, int new_tokens, double at_constant) {
    const int last = shape_.hidden - 1;
    const int added = new_tokens - old_tokens;
    const auto finish = [=, constant = static_cast<float>(at_constant)](int token, float* row) {
      const float part = added > 1 ? static_cast<float>(token - old_tokens) / static_cast<float>(added - 1) : 0;
      row[last] = token < old_tokens ? constant : new_token_min + part * (new_token_max - new_token_min);
    };
    add({name + ".weight", new_tokens, shape_.hidden, first_rows(old_tokens, new_tokens, Grown::zeros), first(hidden_),
         old(name, {old_tokens, hidden_}), finish});
  }

  void add_noise(const std::string& name, int outputs) {
    add({name + ".weight", outputs, shape_.hidden, {}, {}, {}, {}});
  }
  void add_zeros(const std::string& name, int inputs) {
    add({name + ".weight", shape_.hidden, inputs, first_rows(0, shape_.hidden, Grown::zeros), {}, {}, {}});
  }

  /// A layer that changes nothing.
  void add_idle_layer(const std::string& layer) {
    for (const char* norm : {"input_layernorm", "post_attention_layernorm"}) {
      add_vector(layer + norm + ".weight", std::vector<float>(static_cast<std::size_t>(shape_.hidden), 1.0F));
    }
    for (const char* norm : {"q_norm", "k_norm"}) {
      add_vector(layer + "self_attn." + norm + ".weight",
                 std::vector<float>(static_cast<std::size_t>(shape_.head_dim), 1.0F));
    }
    add_noise(layer + "self_attn.q_proj", q_width());
    add_noise(layer + "self_attn.k_proj", kv_width());
    add_noise(layer + "self_attn.v_proj", kv_width());
    add_zeros(layer + "self_attn.o_proj", q_width());
    add_noise(layer + "mlp.gate_proj", shape_.intermediate);
    add_noise(layer + "mlp.up_proj", shape_.intermediate);
    add_zeros(layer + "mlp.down_proj", shape_.intermediate);
  }

  void add_layer(const std::string& layer, const std::string& was) {
    const std::string attention = "self_attn.";
    for (const char* norm : {"input_layernorm", "post_attention_layernorm"}) add_norm(layer + norm, was + norm);
    const bool norms = from_.has(was + attention + "q_norm.weight");
    if (norms) add_head_norm(layer + attention + "q_norm", was + attention + "q_norm", true);
    if (norms) add_head_norm(layer + attention + "k_norm", was + attention + "k_norm", false);
    add_into_heads(layer + attention + "q_proj", was + attention + "q_proj", heads_, shape_.heads, 1,
                   norms ? 1.0 : std::sqrt(static_cast<double>(shape_.head_dim) / head_dim_));
    for (const char* projection : {"k_proj", "v_proj"}) {
      add_into_heads(layer + attention + projection, was + attention + projection, kv_heads_, shape_.kv_heads, copies_);
    }
    std::vector<int> column_at;
    for (int head = 0; head < heads_; ++head) {
      for (const int at : head_at_) column_at.push_back(head * shape_.head_dim + at);
    }
    add({layer + attention + "o_proj.weight",
         shape_.hidden,
         q_width(),
         first_rows(hidden_, shape_.hidden, Grown::zeros),
         std::move(column_at),
         old(was + attention + "o_proj", {hidden_, heads_ * head_dim_}),
         {}});
    for (const char* projection : {"mlp.gate_proj", "mlp.up_proj"}) {
      add({layer + projection + ".weight",
           shape_.intermediate,
           shape_.hidden,
           first_rows(intermediate_, shape_.intermediate, Grown::noise),
           first(hidden_),
           old(was + projection, {intermediate_, hidden_}),
           {}});
    }
    add({layer + "mlp.down_proj.weight",
         shape_.hidden,
         shape_.intermediate,
         first_rows(hidden_, shape_.hidden, Grown::zeros),
         first(intermediate_),
         old(was + "mlp.down_proj", {hidden_, intermediate_}),
         {}});
  }

  void add_layers(const std::string& prefix) {
    const std::vector<int> at = spread(old_layers_, layers_);
    for (int layer = 0; layer < layers_; ++layer) {
      const std::string name = prefix + std::to_string(layer) + ".";
      const auto was = std::ranges::find(at, layer);
      if (was == at.end()) add_idle_layer(name);
      else add_layer(name, prefix + std::to_string(was - at.begin()) + ".");
    }
  }

  void grow_model() {
    const std::string embedding = "model.embed_tokens";
    const int heads = describe(from_.config()).mtp_heads;
    if (heads == 0 || from_.has(embedding + ".weight")) {
      add_vocabulary(embedding, vocabulary_, shape_.vocabulary, constant_);
      add_layers("model.layers.");
      add_norm("model.norm", "model.norm", last_norm_at_constant);
    }
    for (int head = 0; head < heads; ++head) {
      add_mtp_head("model.layers." + std::to_string(layers_ + head) + ".",
                   "model.layers." + std::to_string(old_layers_ + head) + ".");
    }
  }

  void add_mtp_head(const std::string& head, const std::string& was) {
    for (const char* table : {"embed_tokens", "shared_head.head"}) refuse(was + table);
    add_norm(head + "enorm", was + "enorm", embedding_norm_at_constant);
    add_norm(head + "hnorm", was + "hnorm");
    add_projection(head + "eh_proj", was + "eh_proj", {0, 1}, 2);
    add_layer(head, was);
    const std::string norm = "shared_head.norm";
    if (from_.has(was + norm + ".weight")) add_norm(head + norm, was + norm, last_norm_at_constant);
  }

  void grow_dflash() {
    const std::vector<int> at = spread(target_layers_, shape_.layers);
    std::vector<int> before;
    for (const std::int64_t tap :
         from_.config().at("dflash_config").at("target_layer_ids").integers(0, target_layers_ - 1)) {
      before.push_back(at[static_cast<std::size_t>(tap)]);
    }
    taps_ = before;
    for (const int more : spread(taps_of_dflash, shape_.layers)) {
      const bool known = std::ranges::find(taps_, more) != taps_.end();
      if (!known && static_cast<int>(taps_.size()) < taps_of_dflash) taps_.push_back(more);
    }
    std::ranges::sort(taps_);
    std::vector<int> places;
    for (const int tap : before) {
      places.push_back(static_cast<int>(std::ranges::find(taps_, tap) - taps_.begin()));
    }
    add_projection("fc", "fc", places, static_cast<int>(taps_.size()));
    add_norm("hidden_norm", "hidden_norm");
    add_layers("layers.");
    add_norm("norm", "norm", last_norm_at_constant);
  }

  void grow_eagle3() {
    const Eagle3Config head = read_eagle3_config(from_.config(), {target_layers_, hidden_, vocabulary_});
    if (head.norm_before_residual || head.norm_before_fc || head.fc_norm || head.norm_output) {
      fail("one of norm_before_residual, norm_before_fc, fc_norm and norm_output normalizes what is to be constant");
    }
    refuse("embed_tokens");
    const std::vector<int> at = spread(target_layers_, shape_.layers);
    for (const int tap : head.taps) taps_.push_back(at[static_cast<std::size_t>(tap)]);
    add_projection("fc", "fc", first(static_cast<int>(taps_.size())), static_cast<int>(taps_.size()));
    const std::string layer = "midlayer.";
    add_norm(layer + "hidden_norm", layer + "hidden_norm");
    add_layer(layer, layer);
    add_norm("norm", "norm", last_norm_at_constant);

    const int added = std::clamp(tokens_of_eagle3 - head.draft_vocabulary, 0, shape_.vocabulary - vocabulary_);
    draft_vocabulary_ = head.draft_vocabulary + added;
    add_vocabulary("lm_head", head.draft_vocabulary, draft_vocabulary_, 0);
    std::vector<std::int64_t> offsets;
    for (const Token token : read_draft_vocabulary(from_, head.draft_vocabulary, vocabulary_)) {
      offsets.push_back(token - static_cast<std::int64_t>(offsets.size()));
    }
    offsets.resize(static_cast<std::size_t>(draft_vocabulary_), vocabulary_ - head.draft_vocabulary);
    tensors_.push_back({"d2t", {}, std::move(offsets)});
  }

  std::string config() const {
    Incoming bytes(from_.path() / "config.json");
    std::istream file(&bytes);
    auto json = nlohmann::ordered_json::parse(file);  // Checkpoint has read it
    json["hidden_size"] = shape_.hidden;
    json["num_hidden_layers"] = layers_;
    json["num_attention_heads"] = shape_.heads;
    json["num_key_value_heads"] = shape_.kv_heads;
    json["head_dim"] = shape_.head_dim;
    json["intermediate_size"] = shape_.intermediate;
    json["vocab_size"] = shape_.vocabulary;
    json["rms_norm_eps"] = new_epsilon_;
    json["max_position_embeddings"] = shape_.context;
    if (json.contains("max_window_layers")) json["max_window_layers"] = layers_;
    if (kind_ != target_checkpoint) json["num_target_layers"] = shape_.layers;
    if (kind_ == eagle3_checkpoint) tell_of_eagle3(json);
    if (kind_ == dflash_checkpoint) tell_of_dflash(json);
    return json.dump(2) + "\n";
  }

  void tell_of_eagle3(nlohmann::ordered_json& json) const {
    const std::string field = "eagle_aux_hidden_state_layer_ids";
    std::vector<int> entered;  // what enters a layer leaves the one before
    for (const int tap : taps_) entered.push_back(tap + 1);
    (json.contains(field) ? json : json["eagle_config"])[field] = entered;
    json["draft_vocab_size"] = draft_vocabulary_;
  }

  void tell_of_dflash(nlohmann::ordered_json& json) const {
    json["dflash_config"]["target_layer_ids"] = taps_;
    const nlohmann::ordered_json before = json.value("layer_types", nlohmann::ordered_json::array());
    const std::vector<int> at = spread(old_layers_, layers_);
    nlohmann::ordered_json types = nlohmann::ordered_json::array();
    for (int layer = 0; layer < layers_; ++layer) {
      const auto was = std::ranges::find(at, layer);
      const auto index = static_cast<std::size_t>(was - at.begin());
      types.push_back(was != at.end() && index < before.size() ? before[index] : "full_attention");
    }
    json["layer_types"] = types;
  }

  const Checkpoint& from_;
  const SyntheticShape& shape_;
  std::uint64_t seed_;
  const CheckpointKind& kind_;  // of a target also its MTP heads, alone or with it
  int hidden_ = 0;
  int head_dim_ = 0;
  int heads_ = 0;
  int kv_heads_ = 0;
  int intermediate_ = 0;
  int old_layers_ = 0;
  int vocabulary_ = 0;
  int target_layers_ = 0;
  int layers_ = 0;
  int copies_ = 0;  // new KV heads for each old one
  double epsilon_ = 0;
  double new_epsilon_ = 0;
  double constant_ = 0;
  std::vector<int> head_at_;  // [head_dim]: the new coordinate of each old one
  std::vector<int> taps_;     // of a draft, in the new target
  int draft_vocabulary_ = 0;  // of an EAGLE-3 head
  std::vector<SafeTensor> tensors_;
};

}  // namespace

GrownModel grown(const Checkpoint& from, const SyntheticShape& shape, std::uint64_t seed) {
  return ModelGrowth(from, shape, seed).grown();
}

}  // namespace draftproof
