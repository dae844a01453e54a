// SPDX-License-Identifier: MIT
// Checkpoints that must be rejected, each with texts that the message must contain; and the values read from valid
// configs.
#include <map>

#include "ref/models/dflash.h"
#include "ref/models/eagle3.h"
#include "ref/models/memory.h"
#include "ref/models/transformer.h"
#include "tests/models/fixtures.h"

namespace draftproof::test::config_test {
namespace {

/// A config.json by top-level field; the values are JSON text.
using Fields = std::map<std::string, std::string>;

std::string json_of(const Fields& fields) {
  std::string text = "{";
  for (const auto& [name, value] : fields) text += (text.size() > 1 ? ", \"" : "\"") + name + "\": " + value;
  return text + "}";
}

const Fields good_target = {
    {"architectures", R"(["Qwen3ForCausalLM"])"},
    {"model_type", R"("qwen3")"},
    {"vocab_size", "10"},
    {"hidden_size", "6"},
    {"num_hidden_layers", "4"},
    {"num_attention_heads", "4"},
    {"num_key_value_heads", "2"},
    {"head_dim", "2"},
    {"intermediate_size", "5"},
    {"max_position_embeddings", "64"},
    {"rms_norm_eps", "1e-6"},
    {"hidden_act", R"("silu")"},
    {"rope_theta", "10000.0"},
    {"tie_word_embeddings", "false"},
};

const Fields good_draft = {
    {"architectures", R"(["DFlashDraftModel"])"},
    {"model_type", R"("qwen3")"},
    {"vocab_size", "10"},
    {"hidden_size", "6"},
    {"num_hidden_layers", "2"},
    {"num_attention_heads", "2"},
    {"num_key_value_heads", "1"},
    {"head_dim", "4"},
    {"intermediate_size", "3"},
    {"max_position_embeddings", "64"},
    {"rms_norm_eps", "1e-6"},
    {"hidden_act", R"("silu")"},
    {"rope_theta", "10000.0"},
    {"block_size", "4"},
    {"dflash_config", R"({"mask_token_id": 9, "target_layer_ids": [0, 2]})"},
};

int number(const Fields& fields, const char* name) { return std::stoi(fields.at(name)); }

/// Weights of any finite values; these tests are about shapes, names and types.
Tensor tensor(const std::string& name, const std::vector<std::int64_t>& shape) {
  const std::size_t salt = name.starts_with("model.") ? name.size() - 6 : name.size();
  std::size_t count = 1;
  for (const std::int64_t size : shape) count *= static_cast<std::size_t>(size);
  std::vector<float> values(count);
  for (std::size_t i = 0; i < count; ++i) values[i] = static_cast<float>((i * 7 + salt) % 11) / 8 - 0.5F;
  return {name, "F32", shape, bytes_of(values)};
}

void add_layers(const Fields& fields, const std::string& prefix, std::vector<Tensor>& tensors) {
  const int hidden = number(fields, "hidden_size");
  const int d = number(fields, "head_dim");
  const int q = number(fields, "num_attention_heads") * d;
  const int kv = number(fields, "num_key_value_heads") * d;
  const int inner = number(fields, "intermediate_size");
  for (int i = 0; i < number(fields, "num_hidden_layers"); ++i) {
    const std::string layer = prefix + "layers." + std::to_string(i) + ".";
    const std::pair<const char*, std::vector<std::int64_t>> shapes[] = {
        {"input_layernorm", {hidden}},      {"post_attention_layernorm", {hidden}},
        {"self_attn.q_proj", {q, hidden}},  {"self_attn.k_proj", {kv, hidden}},
        {"self_attn.v_proj", {kv, hidden}}, {"self_attn.o_proj", {hidden, q}},
        {"self_attn.q_norm", {d}},          {"self_attn.k_norm", {d}},
        {"mlp.gate_proj", {inner, hidden}}, {"mlp.up_proj", {inner, hidden}},
        {"mlp.down_proj", {hidden, inner}},
    };
    for (const auto& [name, shape] : shapes) tensors.push_back(tensor(layer + name + ".weight", shape));
  }
}

std::vector<Tensor> target_weights() {
  const int hidden = number(good_target, "hidden_size");
  const int vocabulary = number(good_target, "vocab_size");
  std::vector<Tensor> tensors = {tensor("model.embed_tokens.weight", {vocabulary, hidden}),
                                 tensor("lm_head.weight", {vocabulary, hidden}), tensor("model.norm.weight", {hidden})};
  add_layers(good_target, "model.", tensors);
  return tensors;
}

std::vector<Tensor> draft_weights(const std::string& prefix) {
  const int hidden = number(good_draft, "hidden_size");
  std::vector<Tensor> tensors = {tensor(prefix + "fc.weight", {hidden, 2 * hidden}),
                                 tensor(prefix + "hidden_norm.weight", {hidden}),
                                 tensor(prefix + "norm.weight", {hidden})};
  add_layers(good_draft, prefix, tensors);
  return tensors;
}

/// A checkpoint folder.
class Folder {
 public:
  Folder(const std::string& config, const std::vector<Tensor>& tensors) {
    folder_.write("config.json", config);
    folder_.write("model.safetensors", safetensors(tensors));
  }
  Folder(const Fields& config, const std::vector<Tensor>& tensors) : Folder(json_of(config), tensors) {}
  const std::filesystem::path& path() const { return folder_.path(); }
  void write(const std::string& name, const std::string& text) const { folder_.write(name, text); }

 private:
  TemporaryFolder folder_;
};

std::unique_ptr<Model> target() {
  const Folder folder(good_target, target_weights());
  return load_model(Checkpoint(folder.path()), best_kernels());
}

/// One change to a valid config, and texts of the message.
struct BadConfig {
  const char* field;
  const char* value;  // JSON; empty: the field is removed
  std::vector<std::string> words;
};

std::string refusal(const Fields& good, const BadConfig& bad, const std::vector<Tensor>& tensors,
                    const std::function<void(const std::filesystem::path&)>& load) {
  Fields fields = good;
  if (*bad.value == '\0') fields.erase(bad.field);
  else fields[bad.field] = bad.value;
  const Folder folder(fields, tensors);
  return error_of([&] { load(folder.path()); });
}

void expect_refusals(const Fields& good, const std::vector<BadConfig>& table, const std::vector<Tensor>& tensors,
                     const std::function<void(const std::filesystem::path&)>& load) {
  for (const BadConfig& bad : table) {
    SCOPED_TRACE(std::string(bad.field) + ": " + bad.value);
    const std::string message = refusal(good, bad, tensors, load);
    EXPECT_THAT(message, testing::HasSubstr("config.json"));
    for (const std::string& word : bad.words) EXPECT_THAT(message, testing::HasSubstr(word));
    EXPECT_THAT(message, testing::Not(testing::HasSubstr("\n")));
  }
}

/// Errors in both kinds of configs, which have fields of the same names and, except for sizes, the same values.
const std::vector<BadConfig> bad_in_both = {
    {"vocab_size", "-10", {"vocab_size", "-10"}},
    {"vocab_size", "0", {"vocab_size", "from 1"}},
    {"vocab_size", "\"10\"", {"vocab_size", "integer"}},
    {"vocab_size", "10.5", {"vocab_size", "integer", "10.5"}},
    {"vocab_size", "99999999999", {"vocab_size", "16777216"}},
    {"hidden_size", "", {"hidden_size", "missing"}},
    {"hidden_size", "-6", {"hidden_size", "-6"}},
    {"num_hidden_layers", "", {"num_hidden_layers", "missing"}},
    {"num_hidden_layers", "0", {"num_hidden_layers", "from 1"}},
    {"num_hidden_layers", "5000", {"num_hidden_layers", "1024"}},
    {"num_attention_heads", "", {"num_attention_heads", "missing"}},
    {"num_attention_heads", "0", {"num_attention_heads", "from 1"}},
    {"num_attention_heads", "16777216", {"num_attention_heads", "larger than any real model's"}},
    {"num_key_value_heads", "0", {"num_key_value_heads", "from 1"}},
    {"num_key_value_heads", "3", {"num_key_value_heads", "must divide the number of heads"}},
    {"num_key_value_heads", "8", {"num_key_value_heads", "must divide the number of heads"}},
    {"head_dim", "3", {"head_dim", "even"}},
    {"head_dim", "0", {"head_dim", "from 1"}},
    {"intermediate_size", "", {"intermediate_size", "missing"}},
    {"intermediate_size", "[5]", {"intermediate_size", "integer"}},
    {"max_position_embeddings", "", {"max_position_embeddings", "missing"}},
    {"max_position_embeddings", "0", {"max_position_embeddings", "from 1"}},
    {"rms_norm_eps", "", {"rms_norm_eps", "missing"}},
    {"rms_norm_eps", "0", {"rms_norm_eps", "between 0 and 1"}},
    {"rms_norm_eps", "-1e-6", {"rms_norm_eps", "between 0 and 1"}},
    {"rms_norm_eps", "1", {"rms_norm_eps", "between 0 and 1"}},
    {"rms_norm_eps", "\"1e-6\"", {"rms_norm_eps", "number"}},
    {"rms_norm_eps", "1e-60", {"rms_norm_eps"}},
    {"hidden_act", "", {"hidden_act", "missing"}},
    {"hidden_act", "\"gelu\"", {"hidden_act", "activation 'gelu' is not implemented"}},
    {"hidden_act", "3", {"hidden_act", "string"}},
    {"rope_theta", "0", {"rope_theta", "between 1 and 1e12"}},
    {"rope_theta", "1", {"rope_theta", "between 1 and 1e12"}},
    {"rope_theta", "-10000", {"rope_theta", "between 1 and 1e12"}},
    {"rope_theta", "1e13", {"rope_theta", "between 1 and 1e12"}},
    {"rope_theta", "\"1e4\"", {"rope_theta", "number"}},
    {"rope_scaling", "[]", {"rope_scaling", "object"}},
    {"rope_scaling", R"({"type": "longrope", "factor": 4})", {"rope_scaling.short_factor", "missing"}},
    {"rope_scaling", R"({"rope_type": "linear"})", {"rope_scaling.factor", "missing"}},
    {"rope_scaling", R"({"rope_type": "linear", "factor": -2})", {"rope_scaling.factor", "positive"}},
    {"rope_scaling", R"({"rope_type": "yarn", "factor": 0})", {"rope_scaling.factor", "positive"}},
    {"rope_scaling", R"({"rope_type": "yarn", "factor": 4, "beta_slow": 64})", {"rope_scaling.beta_slow", "above"}},
    {"rope_scaling", R"({"rope_type": "yarn", "factor": 4, "truncate": 1})", {"rope_scaling.truncate", "true or"}},
    {"rope_scaling", R"({"rope_type": "yarn", "factor": 4, "attention_factor": 0})", {"attention_factor", "positive"}},
    {"rope_scaling", R"({"rope_type": 1})", {"rope_scaling.rope_type", "string"}},
    {"rope_parameters", R"({"rope_type": "dynamic"})", {"rope_parameters.rope_type", "divided among calls"}},
    {"rope_parameters", R"({"rope_type": "llama3"})", {"rope_parameters.factor", "missing"}},
    {"rope_scaling", R"({"type": "default", "rope_type": "llama3"})", {"rope_scaling.rope_type", "differs from"}},
    {"rope_scaling",
     R"({"type": "llama3", "factor": 0, "low_freq_factor": 1, "high_freq_factor": 4,)"
     R"( "original_max_position_embeddings": 8})",
     {"rope_scaling.factor", "positive"}},
    {"rope_scaling",
     R"({"type": "llama3", "factor": 8, "low_freq_factor": 4, "high_freq_factor": 3,)"
     R"( "original_max_position_embeddings": 8})",
     {"rope_scaling.high_freq_factor", "below low_freq_factor"}},
    {"rope_parameters", R"({"rope_theta": 5e5})", {"rope_parameters.rope_theta", "differs from another rope_theta"}},
    {"rope_parameters", R"({"partial_rotary_factor": 0.5})", {"rope_parameters.partial_rotary_factor", "partial"}},
    {"rope_parameters", R"({"full_attention": {}})", {"rope_parameters", "one RoPE per layer type"}},
    {"rope_parameters", R"({"sliding_attention": {}})", {"rope_parameters", "one RoPE per layer type"}},
    {"partial_rotary_factor", "0.25", {"partial_rotary_factor", "partial rotary embedding is not implemented"}},
    {"layer_types", "\"full_attention\"", {"layer_types", "one type for each of the"}},
    {"layer_types", "[]", {"layer_types", "one type for each of the"}},
    {"layer_types", R"(["full_attention"])", {"layer_types", "one type for each of the"}},
    {"use_sliding_window", "\"no\"", {"use_sliding_window", "true or false"}},
    {"attention_bias", "1", {"attention_bias", "true or false"}},
    {"mlp_bias", "1", {"mlp_bias", "true or false"}},
    {"rope_interleaved", "true", {"rope_interleaved", "not implemented"}},
    {"rope_is_neox_style", "false", {"rope_is_neox_style", "not implemented"}},
    {"is_neox_style", "false", {"is_neox_style", "not implemented"}},
    {"logit_scale", "0.5", {"logit_scale", "not implemented"}},
    {"logits_scaling", "8", {"logits_scaling", "not implemented"}},
    {"residual_multiplier", "2", {"residual_multiplier", "not implemented"}},
    {"embedding_multiplier", "12", {"embedding_multiplier", "not implemented"}},
    {"attention_multiplier", "0.1", {"attention_multiplier", "not implemented"}},
};

void load_target(const std::filesystem::path& folder) { load_model(Checkpoint(folder), best_kernels()); }

TEST(TargetConfig, AValidConfigIsRead) {
  const auto model = target();
  EXPECT_EQ(model->vocabulary(), 10);
  EXPECT_EQ(model->hidden(), 6);
  EXPECT_EQ(model->layers(), 4);
  EXPECT_EQ(model->context(), 64);
  const Reading whole = read(*model, {1, 2, 3, 9}, all_layers(*model));
  EXPECT_EQ(whole.logits.size(), 40U);
}

TEST(TargetConfig, EveryBadFieldIsRejectedByName) {
  std::vector<BadConfig> table = bad_in_both;
  table.insert(
      table.end(),
      {
          {"vocab_size", "", {"vocab_size", "missing"}},
          {"vocab_size", "null", {"vocab_size", "missing"}},
          {"model_type", "", {"model_type", "missing"}},
          {"model_type", "\"gpt2\"", {"not a target draftproof knows"}},
          {"model_type", "\"llama\"", {"'Qwen3ForCausalLM' is not a target draftproof knows"}},
          {"model_type", "3", {"model_type", "string"}},
          {"architectures", R"(["DFlashDraftModel"])", {"'DFlashDraftModel' is not a target"}},
          {"architectures", R"(["LlamaForCausalLM"])", {"'LlamaForCausalLM' is not a target", "Qwen3ForCausalLM"}},
          {"architectures", "[7]", {"architectures[0]", "string"}},
          {"final_logit_softcapping", "30", {"final_logit_softcapping", "not implemented"}},
          {"rope_scaling",
           R"({"type": "yarn", "factor": 4, "llama_4_scaling_beta": 0.1})",
           {"rope_scaling.llama_4_scaling_beta", "not implemented"}},
          {"tie_word_embeddings", "\"yes\"", {"tie_word_embeddings", "true or false"}},
          {"layer_types",
           R"(["full_attention", "full_attention", "full_attention", "chunked_attention"])",
           {"layer_types[3]", "'chunked_attention' is not implemented"}},
          {"layer_types", R"(["full_attention", 1, "full_attention", "full_attention"])", {"layer_types[1]", "string"}},
          {"layer_types",
           R"(["full_attention", "full_attention", "sliding_attention", "full_attention"])",
           {"layer_types[2]", "sliding_window is absent"}},
      });
  expect_refusals(good_target, table, target_weights(), load_target);
}

TEST(TargetConfig, ContradictionsBetweenFieldsAreRejected) {
  Fields sliding = good_target;
  sliding["layer_types"] = R"(["sliding_attention", "full_attention", "full_attention", "full_attention"])";
  sliding["sliding_window"] = "8";
  expect_refusals(sliding,
                  {
                      {"use_sliding_window", "false", {"layer_types[0]", "use_sliding_window is false"}},
                      {"sliding_window", "0", {"sliding_window", "from 1"}},
                      {"sliding_window", "-8", {"sliding_window", "-8"}},
                      {"sliding_window", "\"8\"", {"sliding_window", "integer"}},
                  },
                  target_weights(), load_target);

  Fields implied = good_target;
  implied["use_sliding_window"] = "true";
  implied["sliding_window"] = "8";
  implied["max_window_layers"] = "2";
  expect_refusals(implied,
                  {
                      {"sliding_window", "", {"use_sliding_window", "sliding_window is absent"}},
                      {"sliding_window", "0", {"sliding_window", "from 1"}},
                      {"max_window_layers", "-1", {"max_window_layers", "-1"}},
                  },
                  target_weights(), load_target);

  Fields undivided = good_target;
  undivided.erase("head_dim");
  expect_refusals(undivided, {{"num_attention_heads", "4", {"hidden_size is no multiple", "set head_dim"}}},
                  target_weights(), load_target);
}

TEST(TargetConfig, FilesThatAreNotConfigsAreRejected) {
  for (const char* text : {"", "[]", "3", "{", "{\"model_type\": \"qwen3\",}", "{\"a\": 1, \"a\": 2}"}) {
    const Folder folder(text, target_weights());
    EXPECT_THAT(error_of([&] { load_target(folder.path()); }), testing::HasSubstr("config.json")) << text;
  }
  const TemporaryFolder empty;
  EXPECT_THAT(error_of([&] { load_target(empty.path()); }), testing::HasSubstr("model.safetensors"));
  EXPECT_THAT(error_of([&] { load_target(empty.path() / "absent"); }), testing::HasSubstr("absent"));
}

std::vector<int> windows_of(const TransformerConfig& config) {
  std::vector<int> windows;
  for (int i = 0; i < config.depth(); ++i) windows.push_back(config.attention(i).window);
  return windows;
}

/// Returns the sliding windows of 4 layers after adding these fields.
std::vector<int> windows_with(const Fields& more) {
  Fields fields = good_target;
  for (const auto& [name, value] : more) fields[name] = value;
  return windows_of(read_transformer_config(Json::parse(json_of(fields), "config.json")));
}

TEST(TargetConfig, SlidingWindowsAreReadAsInTransformers) {
  using Windows = std::vector<int>;
  EXPECT_EQ(windows_with({}), (Windows{0, 0, 0, 0}));
  EXPECT_EQ(windows_with({{"sliding_window", "8"}}), (Windows{0, 0, 0, 0}));
  EXPECT_EQ(windows_with({{"sliding_window", "8"}, {"use_sliding_window", "false"}}), (Windows{0, 0, 0, 0}));
  const Fields slides = {{"sliding_window", "8"}, {"use_sliding_window", "true"}};
  EXPECT_EQ(windows_with(slides), (Windows{0, 0, 0, 0})) << "max_window_layers is 28 when absent";
  Fields from_two = slides;
  from_two["max_window_layers"] = "2";
  EXPECT_EQ(windows_with(from_two), (Windows{0, 0, 8, 8}));
  from_two["layer_types"] = R"(["sliding_attention", "full_attention", "full_attention", "sliding_attention"])";
  EXPECT_EQ(windows_with(from_two), (Windows{8, 0, 0, 8})) << "layer_types decide alone";
  from_two["sliding_window"] = "10000000000";
  EXPECT_EQ(windows_with(from_two), (Windows{1 << 24, 0, 0, 1 << 24})) << "longer than any text";
}

/// Returns the RoPE of heads of 16 after adding these fields.
Rope rope_with(const Fields& more) {
  Fields fields = good_target;
  fields["head_dim"] = "16";
  for (const auto& [name, value] : more) fields[name] = value;
  return read_transformer_config(Json::parse(json_of(fields), "config.json")).ropes[0];
}

TEST(TargetConfig, EverySpellingOfScaledRopeMeansTheSame) {
  const Rope linear = rope_with({{"rope_scaling", R"({"type": "linear", "factor": 4})"}});
  EXPECT_EQ(linear.frequencies, linear_rope(1e4, 16, 4).frequencies);
  EXPECT_EQ(linear.factor, 1);
  EXPECT_EQ(linear.frequencies[0], 0.25F);
  for (const char* block :
       {R"({"rope_type": "linear", "factor": 4.0})", R"({"type": "linear", "rope_type": "linear", "factor": 4})",
        R"({"rope_type": "linear", "rope_theta": 10000, "factor": 4})"}) {
    EXPECT_EQ(rope_with({{"rope_parameters", block}}).frequencies, linear.frequencies) << block;
  }
  EXPECT_EQ(rope_with({{"rope_scaling", R"({"type": "linear", "factor": 4})"},
                       {"rope_parameters", R"({"rope_type": "linear", "factor": 4, "rope_theta": 1e4})"}})
                .frequencies,
            linear.frequencies);
  EXPECT_THAT(error_of([] {
                rope_with({{"rope_scaling", R"({"type": "linear", "factor": 4})"},
                           {"rope_parameters", R"({"rope_type": "linear", "factor": 8})"}});
              }),
              testing::HasSubstr("rope_parameters.factor: differs from another factor"));
}

TEST(TargetConfig, YarnReadsItsMagnitudeAndTheContextItComesFrom) {
  const auto factor = [](const std::string& more) {
    return rope_with({{"rope_scaling", R"({"type": "yarn", "factor": 4)" + more + "}"}}).factor;
  };
  EXPECT_FLOAT_EQ(factor(""), 1.1386294F);
  EXPECT_FLOAT_EQ(factor(R"(, "mscale": 1, "mscale_all_dim": 1)"), 1);
  EXPECT_FLOAT_EQ(factor(R"(, "mscale": 1, "mscale_all_dim": 0)"), 1.1386294F) << "0 means that it is missing";
  EXPECT_FLOAT_EQ(factor(R"(, "attention_factor": 0.5)"), 0.5F);
  EXPECT_FLOAT_EQ(factor(R"(, "attention_factor": null)"), 1.1386294F);
  const auto frequencies = [](const Fields& fields) { return rope_with(fields).frequencies; };
  const auto told =
      frequencies({{"rope_scaling", R"({"type": "yarn", "factor": 4, "original_max_position_embeddings": 16})"}});
  EXPECT_EQ(frequencies({{"rope_scaling", R"({"type": "yarn", "original_max_position_embeddings": 16})"}}), told)
      << "the factor is that of the contexts, 64 / 16";
  EXPECT_EQ(
      frequencies({{"original_max_position_embeddings", "16"}, {"rope_scaling", R"({"type": "yarn", "factor": 4})"}}),
      told);
  EXPECT_EQ(frequencies({{"rope_scaling", R"({"type": "yarn", "factor": 4, "original_max_position_embeddings": 16,)"
                                          R"( "beta_fast": 32, "beta_slow": 0})"}}),
            told);
  EXPECT_NE(frequencies({{"rope_scaling", R"({"type": "yarn", "factor": 4})"}}), told);
}

Json mistral_with(const Fields& more) {
  Fields fields = good_target;
  fields["model_type"] = R"("mistral")";
  fields["architectures"] = R"(["MistralForCausalLM"])";
  for (const auto& [name, value] : more) fields[name] = value;
  return Json::parse(json_of(fields), "config.json");
}

TEST(TargetConfig, MistralSlidesInEveryLayerOrInNone) {
  const auto windows = [](const Fields& more) { return windows_of(describe(mistral_with(more))); };
  EXPECT_EQ(windows({}), std::vector<int>(4, 4096)) << "transformers' default";
  EXPECT_EQ(windows({{"sliding_window", "null"}}), std::vector<int>(4, AttentionCache::everything));
  EXPECT_EQ(windows({{"sliding_window", "8"}}), std::vector<int>(4, 8));
  const std::string sliding = R"("sliding_attention")";
  const std::string mixed = "[" + sliding + "," + sliding + R"(,"full_attention",)" + sliding + "]";
  EXPECT_THAT(error_of([&] {
                windows({{"sliding_window", "8"}, {"layer_types", mixed}});
              }),
              testing::HasSubstr("layer_types[2]: must be sliding_attention"));
  EXPECT_THAT(error_of([&] { windows({{"attention_bias", "true"}}); }), testing::HasSubstr("Mistral has none"));
}

TEST(TargetConfig, ExpertsAreInTheLayersThatTheConfigLeaves) {
  Fields fields = good_target;
  fields["model_type"] = R"("qwen3_moe")";
  fields["architectures"] = R"(["Qwen3MoeForCausalLM"])";
  fields["num_experts"] = "6";
  fields["num_experts_per_tok"] = "2";
  fields["moe_intermediate_size"] = "3";
  const auto experts_with = [&](const Fields& more) {
    Fields all = fields;
    for (const auto& [name, value] : more) all[name] = value;
    const TransformerConfig config = describe(Json::parse(json_of(all), "config.json"));
    std::vector<int> counts;
    for (const LayerConfig& layer : config.layers) counts.push_back(layer.experts.count);
    return counts;
  };
  EXPECT_EQ(experts_with({}), (std::vector<int>{6, 6, 6, 6}));
  EXPECT_EQ(experts_with({{"mlp_only_layers", "[0, 2]"}}), (std::vector<int>{0, 6, 0, 6}));
  EXPECT_EQ(experts_with({{"decoder_sparse_step", "2"}, {"mlp_only_layers", "[1]"}}), (std::vector<int>{0, 0, 0, 6}));
  for (const auto& [more, words] : std::vector<std::pair<Fields, std::string>>{
           {{{"num_local_experts", "5"}}, "num_experts: differs from num_local_experts"},
           {{{"num_experts_per_tok", "7"}}, "num_experts_per_tok"},
           {{{"mlp_only_layers", "[4]"}}, "mlp_only_layers[0]"},
           {{{"norm_topk_prob", "1"}}, "norm_topk_prob"},
           {{{"moe_intermediate_size", "0"}}, "moe_intermediate_size"}}) {
    EXPECT_THAT(error_of([&] { experts_with(more); }), testing::HasSubstr(words));
  }
}

TEST(TargetConfig, MissingFieldsHaveTheirDocumentedMeaning) {
  Fields fields = good_target;
  fields.erase("num_key_value_heads");
  fields.erase("head_dim");
  fields["hidden_size"] = "16";
  fields["rope_theta"] = "null";
  fields["rope_parameters"] = R"({"rope_type": "default", "rope_theta": 5e5, "partial_rotary_factor": 1.0})";
  fields["attention_bias"] = "false";
  const TransformerConfig config = read_transformer_config(Json::parse(json_of(fields), "config.json"));
  const AttentionShape& shape = config.attention(0).shape;
  EXPECT_EQ(shape.kv_heads, shape.heads);
  EXPECT_EQ(shape.head_dim, 4);
  EXPECT_EQ(config.ropes[0].frequencies, default_rope(5e5, 4).frequencies);
  fields.erase("rope_theta");
  fields["rope_parameters"] = R"({"rope_type": "linear", "factor": 1})";
  EXPECT_EQ(read_transformer_config(Json::parse(json_of(fields), "config.json")).ropes[0].frequencies,
            default_rope(1e4, 4).frequencies)
      << "transformers' default; scaled by 1 it stays";
}

TEST(TargetConfig, WithoutRopeThetaUsesTheDefaultOfTransformersForEveryArchitecture) {
  for (const char* name : {"llama-tiny-plain", "qwen2-tiny-untied", "qwen3-tiny-tied"}) {
    std::string config = bytes_of_file(external_dir / name / "config.json");
    const std::string given = R"("rope_theta": 10000.0)";
    ASSERT_EQ(config.find(given), config.rfind(given)) << name;
    ASSERT_NE(config.find(given), std::string::npos) << name;
    const TemporaryFolder folder;
    std::filesystem::copy(external_dir / name, folder.path());
    folder.write("config.json", config.replace(config.find(given), given.size(), R"("unused": 0)"));
    EXPECT_EQ(read(*load_model(Checkpoint(folder.path()), best_kernels()), {1, 2, 3}, {}).logits,
              read(*load_model(Checkpoint(external_dir / name), best_kernels()), {1, 2, 3}, {}).logits)
        << name;
  }
}

/// The description of a folder whose config has another value of a field.
TransformerConfig described_with(const std::string& name, const std::string& field, const std::string& value) {
  std::string config = bytes_of_file(external_dir / name / "config.json");
  const std::string quoted = "\"" + field + "\":";
  if (const std::size_t at = config.find(quoted); at != std::string::npos) config.insert(at + 1, "other_");
  config.erase(config.rfind('}'));
  return describe(Json::parse(config + ", " + quoted + " " + value + "}", "config.json"));
}

TEST(Variations, WhatTheyDoNotHaveIsRefusedByName) {
  struct Refused {
    const char* name;
    const char* field;
    const char* value;
    const char* words;
  };
  for (const auto& [name, field, value, words] : std::vector<Refused>{
           {"smollm3-tiny", "no_rope_layers", "[1, 0]", "must have a number for each of the 3 layers"},
           {"smollm3-tiny", "rope_parameters", "null", "rope_theta"},
           {"olmo2-tiny", "layer_types", R"(["full_attention", "sliding_attention", "full_attention"])",
            "sliding_window"},
           {"olmo3-tiny", "layer_types", R"(["full_attention"])", "must list one type for each of the 3 layers"},
           {"phi3-tiny", "attention_bias", "true", "Phi-3 has no biases"},
           {"phi3-tiny", "partial_rotary_factor", "1.5", "must turn between 2 and 8 values"},
           {"granite-tiny", "residual_multiplier", "-1", "must be a positive float"},
           {"granite-tiny", "logit_scale", "0.5", "Granite has logits_scaling"},
           {"mixtral-tiny", "num_experts_per_tok", "6", "num_experts_per_tok"},
           {"qwen2-moe-tiny", "shared_expert_intermediate_size", "null", "shared_expert_intermediate_size"},
           {"olmoe-tiny", "clip_qkv", "8", "clipped q, k and v are not implemented"},
           {"cohere2-tiny", "use_qk_norm", "true", "normalizes neither"},
           {"cohere2-tiny", "embedding_multiplier", "2", "Cohere 2 has logit_scale"},
           {"exaone4-tiny", "attention_bias", "true", "EXAONE 4 has no biases"},
           {"ernie45-tiny", "mlp_bias", "true", "ERNIE 4.5 has use_bias"},
           {"stablelm-tiny", "qk_layernorm", "true", "norms of q and k are not implemented"},
           {"phi-tiny", "qk_layernorm", "true", "norms of q and k are not implemented"},
           {"phi-tiny", "mlp_bias", "true", "Phi has biases everywhere"},
           {"phi-tiny", "rope_parameters", "null", "partial_rotary_factor"},
           {"apertus-tiny", "hidden_act", R"("silu")", "only 'xielu' is"},
           {"apertus-tiny", "mlp_bias", "true", "have no biases"},
           {"apertus-tiny", "rope_parameters", "null", "rope_theta"},
           {"nanochat-tiny", "final_logit_softcapping", "-1", "must be a positive float"},
           {"bitnet-tiny", "attention_bias", "true", "BitNet has no biases"},
           {"bitnet-tiny", "hidden_act", R"("gelu")", "only 'relu2' is"},
           {"gemma3n-tiny", "altup_active_idx", "1", "layers compute the first stream"},
           {"gemma3n-tiny", "altup_num_inputs", "null", "altup_num_inputs"},
           {"gemma3n-tiny", "intermediate_size", "[8]", "must have a number for each of the 5 layers"},
           {"gemma3n-tiny", "activation_sparsity_pattern", "1", "must be at least 0 and below 1"},
           {"gpt-oss-tiny", "sliding_window", "null", "sliding_window"},
           {"gpt-oss-tiny", "swiglu_limit", "0", "must be a positive float"},
           {"gpt-oss-tiny", "rope_parameters", "null", "rope_theta"},
           {"glm4-moe-tiny", "n_group", "3", "must divide 8 experts into groups of 2 or more"},
           {"glm4-moe-tiny", "n_group", "8", "must divide 8 experts into groups of 2 or more"},
           {"glm4-moe-tiny", "topk_group", "1", "must be at most n_group and leave num_experts_per_tok experts"},
           {"glm4-moe-tiny", "first_k_dense_replace", "4", "first_k_dense_replace"},
           {"glm4-moe-tiny", "rope_parameters", R"({"rope_theta": 10000})", "partial_rotary_factor"},
           {"deepseek-v3-tiny", "num_key_value_heads", "2", "must be the number of heads, 4"},
           {"deepseek-v3-tiny", "num_attention_heads", "16000000", "num_key_value_heads"},
           {"deepseek-v3-tiny", "kv_lora_rank", "16000000", "makes all heads together larger than any real model's"},
           {"deepseek-v3-tiny", "kv_lora_rank", "null", "kv_lora_rank"},
           {"deepseek-v3-tiny", "qk_rope_head_dim", "7", "must be even; RoPE turns pairs"},
           {"deepseek-v3-tiny", "v_head_dim", "-1", "v_head_dim"},
           {"deepseek-v3-tiny", "latent_norm_eps", "-1", "must lie between 0 and 1 as a float"},
           {"deepseek-v3-tiny", "moe_layer_freq", "2", "must be 1"},
           {"deepseek-v3-tiny", "scoring_func", R"("softmax")", "only 'sigmoid' is"},
           {"deepseek-v3-tiny", "topk_method", R"("greedy")", "only 'noaux_tc' is"},
           {"deepseek-v3-tiny", "routed_scaling_factor", "null", "routed_scaling_factor"},
           {"deepseek-v3-tiny", "first_k_dense_replace", "null", "first_k_dense_replace"},
           {"deepseek-v2-tiny", "topk_method", R"("best")", "only 'greedy' and 'group_limited_greedy' are"},
           {"deepseek-v2-tiny", "norm_topk_prob", "true", "weights that add up to 1 are not implemented here"},
           {"deepseek-v2-tiny-groups", "topk_group", "null", "topk_group"},
           {"glm4-moe-lite-tiny", "mlp_layer_types", R"(["dense", "sparse"])",
            "must list one type for each of the 3 layers"},
           {"glm4-moe-lite-tiny", "mlp_layer_types", R"(["dense", "sparse", "moe"])", "must be 'dense' or 'sparse'"},
           {"kimi-linear-tiny", "mla_use_nope", "false", "latent attention with RoPE is not implemented here"},
           {"kimi-linear-tiny", "moe_router_activation_func", R"("softmax")", "only 'sigmoid' is"},
           {"kimi-linear-tiny", "linear_attn_config", "null", "linear_num_heads"},
           {"kimi-linear-tiny", "linear_attn_config",
            R"({"num_heads": 4, "head_dim": 10, "short_conv_kernel_size": 4, "full_attn_layers": [2, 2],)"
            R"( "kda_layers": [1, 3]})",
            "must list each of the 4 layers once"},
           {"kimi-linear-tiny", "num_key_value_heads", "2", "must be the number of heads, 4"},
           {"kimi-linear-tiny", "qk_rope_head_dim", "3", "must be even"},
           {"kimi-linear-tiny", "gate_lower_bound", "-5", "is of another model of this type"},
           {"kimi-linear-tiny", "routed_scaling_factor", "null", "routed_scaling_factor"},
           {"kimi-linear-tiny-groups", "layer_types", R"(["full_attention"])",
            "must list one type for each of the 4 layers"},
           {"kimi-linear-tiny-groups", "use_grouped_topk", "false", "must be true where experts are in groups"},
           {"kimi-linear-tiny-groups", "topk_group", "5",
            "must be at most num_expert_group and leave num_experts_per_token experts"},
           {"minimax-m2-tiny", "rotary_dim", "8", "differs from partial_rotary_factor"},
           {"minimax-m2-tiny", "rotary_dim", "3", "must be even; RoPE turns pairs"},
           {"ernie45-moe-tiny", "use_bias", "true", "ERNIE 4.5 with experts has no biases"},
           {"ernie45-moe-tiny", "moe_norm_min", "-1", "must be at least 0"},
           {"llama4-tiny", "no_rope_layers", "[1]", "must have a number for each of the 4 layers"},
           {"llama4-tiny", "attention_chunk_size", "null", "attention_chunk_size is null"},
           {"llama4-tiny", "layer_types", R"(["full_attention"])", "must list one type for each of the 4 layers"},
           {"llama4-tiny", "attn_scale", "2", "must lie between 0 and 1"},
           {"llama4-tiny", "moe_layers", "[4]", "moe_layers"},
           {"llama4-tiny", "rope_parameters", "null", "rope_theta"}}) {
    const auto described = [&] { described_with(name, field, value); };
    EXPECT_THAT(error_of(described), testing::HasSubstr(words)) << name << " " << field;
  }
}

TEST(Variations, TheCapOfNanochatIs15UnlessItsConfigSaysOtherwise) {
  EXPECT_EQ(described_with("nanochat-tiny", "final_logit_softcapping", "null").logit_cap, 0);
  EXPECT_EQ(described_with("nanochat-tiny", "final_logit_softcapping", "2.5").logit_cap, 2.5F);
  const Fields plain = {{"model_type", R"("nanochat")"},   {"hidden_size", "8"},        {"num_hidden_layers", "1"},
                        {"intermediate_size", "8"},        {"vocab_size", "8"},         {"num_attention_heads", "2"},
                        {"max_position_embeddings", "16"}, {"hidden_act", R"("relu2")"}};
  EXPECT_EQ(describe(Json::parse(json_of(plain), "config.json")).logit_cap, 15);
}

TEST(Variations, TheContextOfLongropeIsThatOfItsShortFactorsOrOfItsLongOnes) {
  EXPECT_EQ(described_with("phi3-tiny-longrope", "unused", "true").context, 128);
  EXPECT_EQ(described_with("phi3-tiny-longrope", "unused", "true").long_context, 512);
  EXPECT_EQ(described_with("phi3-tiny", "unused", "true").context, 512);
}

TEST(Variations, DraftsWithLongropeEndWithItsOriginalContext) {
  Fields draft = good_target;
  draft["num_hidden_layers"] = "1";
  draft["rope_scaling"] = R"({"type": "longrope", "short_factor": [1], "long_factor": [2]})";
  draft["original_max_position_embeddings"] = "16";
  const TransformerConfig eagle3 = describe_eagle3(Json::parse(json_of(draft), "config.json")).transformer;
  EXPECT_EQ(eagle3.context, 16);
  EXPECT_EQ(eagle3.long_context, 64);
}

TEST(Architectures, EachIsFoundByEachOfItsNamesAndByTheModelTypeAlone) {
  for (const Architecture* const architecture : all_architectures()) {
    EXPECT_FALSE(architecture->names.empty());
    for (const auto& [type, name] : architecture->names) {
      const std::string stated = R"({"model_type": ")" + std::string(type) + R"(")";
      for (const std::string& also : {R"(, "architectures": [")" + std::string(name) + R"("]})", std::string("}")}) {
        const Json config = Json::parse(stated + also, "config.json");
        EXPECT_EQ(&architecture_of(config), architecture) << stated + also;
        EXPECT_EQ(architecture_name(config), name) << stated + also;
      }
    }
  }
}

TEST(TargetConfig, AnLmHeadInTheFileIsUsedWhateverTheConfigStates) {
  Fields folder_without_it = good_target;
  folder_without_it.erase("tie_word_embeddings");
  Fields tied = good_target;
  tied["tie_word_embeddings"] = "true";
  std::vector<Tensor> without_head = target_weights();
  std::erase_if(without_head, [](const Tensor& t) { return t.name == "lm_head.weight"; });
  std::vector<Tensor> other_head = target_weights();
  for (Tensor& t : other_head) {
    if (t.name == "lm_head.weight") t.bytes = tensor("another", t.shape).bytes;
  }
  const auto logits = [](const Fields& config, const std::vector<Tensor>& tensors) {
    const Folder folder(config, tensors);
    return read(*load_model(Checkpoint(folder.path()), best_kernels()), {1, 2, 3}, {}).logits;
  };
  EXPECT_EQ(logits(tied, without_head), logits(folder_without_it, without_head));
  EXPECT_NE(logits(tied, without_head), logits(tied, other_head)) << "as transformers 5 and llama.cpp have it";
  EXPECT_EQ(logits(good_target, other_head), logits(folder_without_it, other_head));
  EXPECT_EQ(logits(good_target, other_head), logits(tied, other_head));
  std::vector<Tensor> same_head = target_weights();
  for (Tensor& t : same_head) {
    if (t.name == "lm_head.weight") t.bytes = same_head[0].bytes;
  }
  ASSERT_EQ(same_head[0].name, "model.embed_tokens.weight");
  const auto weights = [](const std::vector<Tensor>& tensors) {
    const Folder folder(good_target, tensors);
    return model_need(Checkpoint(folder.path()), best_kernels()).weights.at("f32");
  };
  EXPECT_EQ(weights(same_head), weights(without_head)) << "one of the embedding's bytes is kept once";
  EXPECT_GT(weights(other_head), weights(without_head));
  for (const Fields& config : {good_target, folder_without_it, tied}) {
    EXPECT_EQ(logits(config, same_head), logits(tied, without_head));
  }
  const Folder folder(good_target, without_head);
  EXPECT_THAT(error_of([&] { load_target(folder.path()); }), testing::HasSubstr("lm_head.weight"));
}

/// A draft's config against a target, from real files.
std::function<void(const std::filesystem::path&)> loads_draft(const Model& target) {
  return [&target](const std::filesystem::path& folder) { DFlashNetwork(Checkpoint(folder), target, best_kernels()); };
}

TEST(DraftConfig, AValidConfigIsReadAndTensorNamesMayStartWithModel) {
  const auto model = target();
  std::vector<float> logits[2];
  for (const bool prefixed : {false, true}) {
    const Folder folder(good_draft, draft_weights(prefixed ? "model." : ""));
    DFlashNetwork draft(Checkpoint(folder.path()), *model, best_kernels());
    EXPECT_EQ(draft.config().block_size, 4);
    EXPECT_EQ(draft.config().mask, 9);
    EXPECT_EQ(draft.config().taps, (std::vector<int>{0, 2}));
    const auto context = draft.new_context(8, 8);
    const std::vector<float> features(24, 0.5F);
    const DFlashNetwork::ContextRows rows = {context.get(), features, 2};
    draft.append(std::span(&rows, 1));
    DFlashNetwork::Block block = {context.get(), 1, 3};
    draft.compute(std::span(&block, 1));
    logits[prefixed].assign(block.logits.begin(), block.logits.end());
  }
  EXPECT_EQ(logits[0].size(), 30U);
  EXPECT_EQ(logits[0], logits[1]);
}

TEST(DraftConfig, EveryBadFieldIsRejectedByName) {
  const auto model = target();
  const auto nested = [](const std::string& more) {
    return R"({"mask_token_id": 9, "target_layer_ids": [0, 2], )" + more + "}";
  };
  const auto taps = [](const std::string& ids) { return R"({"mask_token_id": 9, "target_layer_ids": )" + ids + "}"; };
  // Stored here for the lifetime of the table, which has pointers to them.
  std::vector<std::unique_ptr<std::string>> texts;
  const auto kept = [&texts](std::string text) {
    return texts.emplace_back(std::make_unique<std::string>(std::move(text)))->c_str();
  };
  std::vector<BadConfig> table = bad_in_both;
  const std::vector<BadConfig> own = {
      {"architectures", "", {"DFlashDraftModel"}},
      {"architectures", "[]", {"DFlashDraftModel"}},
      {"architectures", R"(["Qwen3ForCausalLM"])", {"DFlashDraftModel"}},
      {"architectures", R"(["DFlash2DraftModel"])", {"needs conv_kernel_size"}},
      {"hidden_size", "8", {"hidden_size", "does not fit the target", "6"}},
      {"vocab_size", "12", {"vocab_size", "does not fit the target", "10"}},
      {"num_target_layers", "5", {"num_target_layers", "does not fit the target", "4 layers"}},
      {"num_target_layers", "0", {"num_target_layers", "from 1"}},
      {"dflash_config", kept(nested(R"("num_target_layers": 36)")), {"dflash_config.num_target_layers", "4 layers"}},
      {"dflash_config", "", {"mask_token_id"}},
      {"architectures", R"(["Gemma4DSparkModel"])", {"Gemma4DSparkModel, a DSpark draft of another backbone"}},
      {"markov_rank", "-1", {"markov_rank", "from 0"}},
      {"markov_head_type", R"("gated")", {"markov_head_type", "'gated' is not implemented; only 'vanilla' is"}},
      {"dflash_config", kept(nested(R"("markov_head_type": "rnn")")), {"dflash_config.markov_head_type", "'rnn'"}},
      {"enable_confidence_head", "1", {"enable_confidence_head", "true or false"}},
      {"confidence_head_with_markov", "true", {"confidence_head_with_markov", "true needs a markov_rank"}},
      {"dflash_config",
       kept(nested(R"("markov_rank": 2, "output_multiplier": 0.5)")),
       {"output_multiplier", "disagree"}},
      {"dflash_config", kept(nested(R"("markov_rank": 2, "final_logit_softcapping": 30)")), {"final_logit_softc"}},
      {"dflash_config",
       kept(nested(R"("markov_rank": 2, "selector_rank": 2, "selector_top_k": 2)")),
       {"markov_rank", "with a candidate selector"}},
      {"dflash_config",
       kept(nested(R"("sample_from_anchor": true, "selector_rank": 2, "selector_top_k": 2)")),
       {"sample_from_anchor", "with a candidate selector"}},
      {"dflash_config", "[]", {"dflash_config", "object"}},
      {"dflash_config", R"({"target_layer_ids": [0, 2]})", {"dflash_config.mask_token_id"}},
      {"dflash_config",
       R"({"target_layer_ids": [0, 2], "mask_token_id": 10})",
       {"dflash_config.mask_token_id", "from 0 to 9"}},
      {"dflash_config", R"({"target_layer_ids": [0, 2], "mask_token_id": -1})", {"mask_token_id", "-1"}},
      {"dflash_config", R"({"target_layer_ids": [0, 2], "mask_token_id": "<mask>"})", {"mask_token_id", "integer"}},
      {"dflash_config", kept(taps("[]")), {"dflash_config.target_layer_ids", "at least one layer"}},
      {"dflash_config", kept(taps("[2, 0]")), {"dflash_config.target_layer_ids", "must ascend"}},
      {"dflash_config", kept(taps("[1, 1]")), {"dflash_config.target_layer_ids", "must ascend"}},
      {"dflash_config", kept(taps("[0, 4]")), {"dflash_config.target_layer_ids[1]", "from 0 to 3"}},
      {"dflash_config", kept(taps("[-1, 2]")), {"dflash_config.target_layer_ids[0]", "-1"}},
      {"dflash_config", kept(taps("2")), {"dflash_config.target_layer_ids", "array"}},
      {"dflash_config", kept(taps("[0, \"2\"]")), {"dflash_config.target_layer_ids[1]", "integer"}},
      {"block_size", "1", {"block_size", "from 2"}},
      {"block_size", "-4", {"block_size", "-4"}},
      {"block_size", "5000", {"block_size", "1024"}},
      {"block_size", "\"4\"", {"block_size", "integer"}},
      {"dflash_config", kept(nested(R"("block_size": 1)")), {"dflash_config.block_size", "from 2"}},
      {"dflash_config", kept(nested(R"("block_size": 8)")), {"block_size: contradicts dflash_config.block_size, 8"}},
      {"is_causal", "\"yes\"", {"is_causal", "true or false"}},
      {"dflash_config", kept(nested(R"("causal": 1)")), {"dflash_config.causal", "true or false"}},
      {"dflash_config", kept(nested(R"("use_swa": "on")")), {"dflash_config.use_swa", "true or false"}},
      {"dflash_config", kept(nested(R"("use_swa": true)")), {"use_swa", "swa_window_size or sliding_window"}},
      {"dflash_config", kept(nested(R"("use_swa": true, "swa_window_size": 0)")), {"swa_window_size", "from 1"}},
      {"dflash_config", kept(nested(R"("attention_sink_bias": 1)")), {"attention_sink_bias", "true or false"}},
      {"dflash_config", kept(nested(R"("sample_from_anchor": 1)")), {"sample_from_anchor", "true or false"}},
      {"dflash_config", kept(nested(R"("attention_value_scale": 0)")), {"attention_value_scale", "positive"}},
      {"attention_value_scale", "-0.5", {"attention_value_scale", "positive"}},
      {"backbone_rotary_base", "5e6", {"backbone_rotary_base", "5000000", "programs disagree"}},
      {"dflash_config", kept(nested(R"("projector_type": "domino")")), {"dflash_config.projector_type", "'domino'"}},
      {"dflash_config", kept(nested(R"("attention_mode": "mla")")), {"dflash_config.attention_mode", "'mla'"}},
      {"projector_type", R"("domino")", {"projector_type", "not implemented"}},
      {"attn_logit_softcapping", "50", {"attn_logit_softcapping", "not implemented"}},
      {"query_pre_attn_scalar", "256", {"query_pre_attn_scalar", "not implemented"}},
      {"rope_interleave", "true", {"rope_interleave", "true is not implemented"}},
      {"conv_kernel_size", "2", {"needs conv_group_size"}},
      {"dflash_config", kept(nested(R"("conv_group_size": 2)")), {"needs conv_kernel_size"}},
      {"dflash_config",
       kept(nested(R"("conv_kernel_size": 2, "conv_group_size": 4)")),
       {"dflash_config.conv_group_size", "must divide hidden_size, 6"}},
      {"dflash_config", kept(nested(R"("conv_kernel_size": 17, "conv_group_size": 2)")), {"conv_kernel_size", "16"}},
      {"dflash_config", kept(nested(R"("selector_rank": 256)")), {"needs selector_top_k"}},
      {"dflash_config", kept(nested(R"("selector_top_k": 16)")), {"needs selector_rank"}},
      {"dflash_config", kept(nested(R"("selector_rank": 0, "selector_top_k": 16)")), {"selector_rank", "from 1"}},
      {"draft_vocab_size", "11", {"draft_vocab_size", "from 1 to 10"}},
      {"speculators_model_type", R"("domino")", {"is not a DFlash draft"}},
      {"input_embedding_scale", "0", {"input_embedding_scale", "positive"}},
      {"dflash_config", kept(nested(R"("input_embedding_scale": -1)")), {"input_embedding_scale", "positive"}},
      {"output_multiplier", "0", {"output_multiplier", "positive"}},
      {"output_multiplier", "1e-60", {"output_multiplier"}},
      {"final_logit_softcapping", "-30", {"final_logit_softcapping", "positive"}},
      {"final_logit_softcapping", "1e300", {"final_logit_softcapping"}},
      {"final_logit_softcapping", "\"30\"", {"final_logit_softcapping", "number"}},
      {"layer_types", R"(["full_attention", "sliding_attention"])", {"layer_types[1]", "sliding_window is absent"}},
      {"layer_types", R"(["full_attention", "linear_attention"])", {"layer_types[1]", "'linear_attention'"}},
  };
  table.insert(table.end(), own.begin(), own.end());
  expect_refusals(good_draft, table, draft_weights(""), loads_draft(*model));
}

/// A DSpark draft in the words of its authors, with what stands behind its layers.
Fields good_dspark() {
  Fields fields = good_draft;
  fields.erase("dflash_config");
  fields["architectures"] = R"(["Qwen3DSparkModel"])";
  fields["mask_token_id"] = "9";
  fields["target_layer_ids"] = "[0, 2]";
  fields["markov_rank"] = "3";
  fields["markov_head_type"] = R"("vanilla")";
  fields["enable_confidence_head"] = "true";
  fields["confidence_head_with_markov"] = "true";
  return fields;
}

std::vector<Tensor> dspark_weights() {
  std::vector<Tensor> tensors = draft_weights("");
  tensors.push_back(tensor("markov_head.markov_w1.weight", {10, 3}));
  tensors.push_back(tensor("markov_head.markov_w2.weight", {10, 3}));
  tensors.push_back(tensor("confidence_head.proj.weight", {1, 9}));
  tensors.push_back(tensor("confidence_head.proj.bias", {1}));
  return tensors;
}

TEST(DSparkConfig, EveryBadFieldAndTensorIsRejectedByName) {
  const auto model = target();
  const std::vector<BadConfig> table = {
      {"block_size", "", {"block_size"}},
      {"mask_token_id", "", {"mask_token_id"}},
      {"target_layer_ids", "", {"needs target_layer_ids"}},
      {"target_layer_ids", "[-1, 2]", {"target_layer_ids[0]", "-1"}},
      {"architectures", R"(["Lfm2DSparkDraftModel"])", {"Lfm2DSparkDraftModel, a DSpark draft of another backbone"}},
      {"markov_rank", "0", {"confidence_head_with_markov", "true needs a markov_rank"}},
      {"markov_head_type", R"("rnn")", {"markov_head_type", "'rnn' is not implemented"}},
  };
  expect_refusals(good_dspark(), table, dspark_weights(), loads_draft(*model));
  const auto refusal_of = [&](const Fields& fields, const std::vector<Tensor>& tensors) {
    const Folder folder(fields, tensors);
    return error_of([&] { loads_draft (*model)(folder.path()); });
  };
  for (const char* missing :
       {"markov_head.markov_w1.weight", "markov_head.markov_w2.weight", "confidence_head.proj.weight"}) {
    std::vector<Tensor> tensors = dspark_weights();
    std::erase_if(tensors, [&](const Tensor& one) { return one.name == missing; });
    EXPECT_THAT(refusal_of(good_dspark(), tensors), testing::HasSubstr(missing));
  }
  const BadConfig of_tensors[] = {
      {"markov_rank", "4", {"markov_head.markov_w1.weight", "[10, 3]", "[10, 4]"}},
      {"confidence_head_with_markov", "false", {"confidence_head.proj.weight", "[1, 9]", "[1, 6]"}},
      {"enable_confidence_head", "false", {"confidence_head.proj.", "not part of the architecture"}},
  };
  for (const BadConfig& bad : of_tensors) {
    Fields fields = good_dspark();
    fields[bad.field] = bad.value;
    for (const std::string& word : bad.words) {
      EXPECT_THAT(refusal_of(fields, dspark_weights()), testing::HasSubstr(word));
    }
  }
}

/// What a draft of these weights draws its second token from, and how sure it is.
DFlashNetwork::Step second_step(DFlashNetwork& draft, Cache& context, DFlashNetwork::Block& block) {
  const std::vector<float> features(24, 0.5F);
  const DFlashNetwork::ContextRows rows = {&context, features, 2};
  draft.append(std::span(&rows, 1));
  block = {&context, 1, 4};
  draft.compute(std::span(&block, 1));
  DFlashNetwork::Step step = {.block = &block, .draft = 1, .previous = 6};
  draft.step(std::span(&step, 1));
  return step;
}

TEST(DSparkConfig, TheConfidenceHeadIsThereWhereItsTensorIsAndItsBiasMayBeMissing) {
  const auto model = target();
  double confidence[2];
  for (const bool biased : {false, true}) {
    Fields fields = good_dspark();
    for (const char* silent : {"enable_confidence_head", "confidence_head_with_markov", "markov_head_type"}) {
      fields.erase(silent);
    }
    std::vector<Tensor> tensors = dspark_weights();
    if (!biased) tensors.pop_back();
    const Folder folder(fields, tensors);
    DFlashNetwork draft(Checkpoint(folder.path()), *model, best_kernels());
    EXPECT_TRUE(draft.confident());
    EXPECT_TRUE(draft.config().from_anchor);
    EXPECT_EQ(draft.config().longest_chain(), 4);
    const auto context = draft.new_context(8, 8);
    DFlashNetwork::Block block = {};
    confidence[biased] = second_step(draft, *context, block).confidence;
    EXPECT_TRUE(confidence[biased] > 0 && confidence[biased] < 1);
  }
  EXPECT_NE(confidence[0], confidence[1]);
}

/// A target of some number of layers, of which only the sizes are used.
class Sizes final : public Model {
 public:
  explicit Sizes(int layers) : layers_(layers) {}
  int vocabulary() const override { return 10; }
  int context() const override { return 64; }
  int layers() const override { return layers_; }
  int hidden() const override { return 6; }
  std::unique_ptr<Cache> new_cache(int, int) const override { return nullptr; }
  void forward(std::span<const Segment>, Outputs&) override {}

 private:
  int layers_;
};

std::vector<bool> causal_of(const DFlashConfig& config) {
  std::vector<bool> causal;
  for (const DFlashSight& sight : config.sights) causal.push_back(sight.causal);
  return causal;
}

DFlashConfig draft_config(const Fields& more, int target_layers = 4) {
  Fields fields = good_draft;
  for (const auto& [name, value] : more) fields[name] = value;
  return read_dflash_config(Json::parse(json_of(fields), "config.json"), Sizes(target_layers));
}

std::vector<int> default_taps(int target_layers, int draft_layers) {
  return draft_config(
             {{"dflash_config", R"({"mask_token_id": 9})"}, {"num_hidden_layers", std::to_string(draft_layers)}},
             target_layers)
      .taps;
}

TEST(DraftConfig, MissingTapsAreTheAuthorsDefault) {
  using Taps = std::vector<int>;
  // round(1 + i (N - 4) / (L - 1)), halves to even; published for 36 layers, computed with Python's round elsewhere.
  EXPECT_EQ(default_taps(36, 5), (Taps{1, 9, 17, 25, 33}));
  EXPECT_EQ(default_taps(62, 5), (Taps{1, 16, 30, 44, 59}));
  EXPECT_EQ(default_taps(48, 8), (Taps{1, 7, 14, 20, 26, 32, 39, 45}));
  EXPECT_EQ(default_taps(28, 4), (Taps{1, 9, 17, 25}));
  EXPECT_EQ(default_taps(9, 3), (Taps{1, 4, 6}));   // 3.5 to 4
  EXPECT_EQ(default_taps(11, 3), (Taps{1, 4, 8}));  // 4.5 to 4
  EXPECT_EQ(default_taps(36, 1), (Taps{18}));
  EXPECT_EQ(default_taps(9, 1), (Taps{4}));
  EXPECT_THAT(error_of([] { default_taps(3, 2); }), testing::HasSubstr("too shallow"));
}

TEST(DraftConfig, NestedFieldsTakePrecedenceAndABlockHasSixteenRowsByDefault) {
  Fields folder_without_it = good_draft;
  folder_without_it.erase("block_size");
  const Sizes model(4);
  EXPECT_EQ(read_dflash_config(Json::parse(json_of(folder_without_it), "config.json"), model).block_size, 16);
  folder_without_it["dflash_config"] = R"({"mask_token_id": 9, "target_layer_ids": [0, 2], "block_size": 10})";
  EXPECT_EQ(read_dflash_config(Json::parse(json_of(folder_without_it), "config.json"), model).block_size, 10);
  const DFlashConfig top_level = draft_config({{"dflash_config", "{}"},
                                               {"mask_token_id", "3"},
                                               {"target_layer_ids", "[1, 3]"},
                                               {"output_multiplier", "0.5"},
                                               {"final_logit_softcapping", "20"},
                                               {"input_embedding_scale", "2"}});
  EXPECT_EQ(top_level.mask, 3);
  EXPECT_EQ(top_level.taps, (std::vector<int>{1, 3}));
  EXPECT_EQ(top_level.logit_multiplier, 0.5F);
  EXPECT_EQ(top_level.logit_cap, 20.0F);
  EXPECT_EQ(top_level.embedding_scale, 2.0F);
  EXPECT_EQ(draft_config({{"mask_token_id", "3"}}).mask, 9);
  EXPECT_EQ(draft_config({{"output_multiplier", "null"}, {"final_logit_softcapping", "null"}}).logit_cap, 0);
}

TEST(DraftConfig, CausalityAndSlidingWindowsFollowTheirOrderOfPrecedence) {
  using Causal = std::vector<bool>;
  using Windows = std::vector<int>;
  const auto block = [](const std::string& more) {
    return R"({"mask_token_id": 9, "target_layer_ids": [0, 2], )" + more + "}";
  };
  EXPECT_EQ(causal_of(draft_config({})), (Causal{false, false}));
  const Fields undeclared = {{"use_sliding_window", "true"}, {"max_window_layers", "0"}, {"sliding_window", "8"}};
  EXPECT_EQ(windows_of(draft_config(undeclared).transformer), (Windows{0, 0})) << "a draft slides by its layer_types";
  EXPECT_EQ(causal_of(draft_config(undeclared)), (Causal{false, false}));
  const Fields mixed = {{"layer_types", R"(["sliding_attention", "full_attention"])"}, {"sliding_window", "8"}};
  EXPECT_EQ(causal_of(draft_config(mixed)), (Causal{true, false}));
  EXPECT_EQ(windows_of(draft_config(mixed).transformer), (Windows{8, 0}));

  Fields nested = mixed;
  nested["dflash_config"] = block(R"("causal": false)");
  EXPECT_EQ(causal_of(draft_config(nested)), (Causal{false, false}));
  nested["is_causal"] = "true";
  EXPECT_EQ(causal_of(draft_config(nested)), (Causal{true, true}));

  Fields everywhere = mixed;
  everywhere["dflash_config"] = block(R"("use_swa": true)");
  EXPECT_EQ(windows_of(draft_config(everywhere).transformer), (Windows{8, 8}));
  EXPECT_EQ(causal_of(draft_config(everywhere)), (Causal{true, false})) << "use_swa leaves causality alone";
  everywhere["dflash_config"] = block(R"("use_swa": true, "swa_window_size": 3)");
  EXPECT_EQ(windows_of(draft_config(everywhere).transformer), (Windows{3, 3}));
  everywhere["dflash_config"] = block(R"("use_swa": false, "swa_window_size": 3)");
  EXPECT_EQ(windows_of(draft_config(everywhere).transformer), (Windows{8, 0}));
}

/// Each tensor is once missing, of another shape, of another type, with a NaN.
void expect_bad_weights_refused(const Fields& config, const std::vector<Tensor>& good,
                                const std::function<void(const std::filesystem::path&)>& load) {
  const auto expect = [&](const std::vector<Tensor>& tensors, const std::string& name, const std::string& word) {
    const Folder folder(config, tensors);
    const std::string message = error_of([&] { load(folder.path()); });
    EXPECT_THAT(message, testing::HasSubstr(folder.path().string()));
    EXPECT_THAT(message, testing::HasSubstr(name));
    EXPECT_THAT(message, testing::HasSubstr(word)) << name;
  };
  for (std::size_t i = 0; i < good.size(); ++i) {
    const std::string& name = good[i].name;
    std::vector<Tensor> tensors = good;
    tensors.erase(tensors.begin() + static_cast<std::ptrdiff_t>(i));
    expect(tensors, name, "no tensor");

    tensors = good;
    std::vector<std::int64_t> shape = good[i].shape;
    shape.back() += 1;
    tensors[i] = tensor(name, shape);
    expect(tensors, name, "shape");

    tensors = good;
    tensors[i].dtype = "I32";
    expect(tensors, name, "I32");

    tensors = good;
    tensors[i].bytes.replace(tensors[i].bytes.size() - 4, 4, bytes_of(std::vector<std::uint32_t>{0x7fc00000}));
    expect(tensors, name, "finite");
  }
}

TEST(TargetWeights, EveryTensorMustExistWithItsShapeAndTypeAndBeFinite) {
  expect_bad_weights_refused(good_target, target_weights(), load_target);
}

TEST(DraftWeights, EveryTensorMustExistWithItsShapeAndTypeAndBeFinite) {
  const auto model = target();
  expect_bad_weights_refused(good_draft, draft_weights(""), loads_draft(*model));
}

/// A tensor that would be ignored may change the meaning of the checkpoint, so it must be rejected.
void expect_other_tensors_refused(const Fields& config, const std::vector<Tensor>& good, const std::string& layer,
                                  const std::function<void(const std::filesystem::path&)>& load) {
  for (const std::string& name :
       {layer + "self_attn.q_proj.bias", layer + "self_attn.attention_sink_bias", layer + "mlp.router.weight",
        std::string("layers.9.input_layernorm.weight"), std::string("candidate_selector.successor_codebook")}) {
    std::vector<Tensor> tensors = good;
    tensors.push_back(tensor(name, {4}));
    const Folder folder(config, tensors);
    EXPECT_THAT(error_of([&] { load(folder.path()); }),
                testing::AllOf(testing::HasSubstr(folder.path().string()), testing::HasSubstr(name)));
  }
  std::vector<Tensor> tensors = good;
  tensors.push_back(tensor(layer + "self_attn.rotary_emb.inv_freq", {1}));
  const Folder folder(config, tensors);
  EXPECT_NO_THROW(load(folder.path())) << "old exports store the frequencies";
}

TEST(TargetWeights, TensorsOutsideTheArchitectureAreRejected) {
  expect_other_tensors_refused(good_target, target_weights(), "model.layers.0.", load_target);
}

TEST(DraftWeights, TensorsOutsideTheArchitectureAndAMaskEmbeddingAreRejected) {
  const auto model = target();
  expect_other_tensors_refused(good_draft, draft_weights(""), "layers.0.", loads_draft(*model));
  const Folder folder(good_draft, draft_weights(""));
  std::ofstream(folder.path() / "mask_embedding.pt") << "a side file";
  EXPECT_THAT(error_of([&] { loads_draft (*model)(folder.path()); }), testing::HasSubstr("mask_embedding.pt"));
}

TEST(TargetWeights, FiniteWeightsThatComputeNaNAreReportedAtTheLogits) {
  std::vector<Tensor> tensors = target_weights();
  // Products of 3e38 are infinite; whatever the signs of a row, they differ from those of one of these two outputs.
  std::vector<float> head(60, 3e38F);
  for (std::size_t k = 0; k < 6; k += 2) head[k] = -3e38F;
  for (Tensor& t : tensors) {
    if (t.name == "model.norm.weight") t.bytes = bytes_of(std::vector<float>(6, 3e38F));
    if (t.name == "lm_head.weight") t.bytes = bytes_of(head);
  }
  const Folder folder(good_target, tensors);
  const auto model = load_model(Checkpoint(folder.path()), best_kernels());
  EXPECT_THAT(error_of([&] {
                read(*model, {1, 2, 3}, {});
              }),
              testing::AllOf(testing::HasSubstr(folder.path().string()), testing::HasSubstr("NaN")));
}

TEST(StopTokens, AreOnlyThoseOfGenerationConfigWhenItHasAny) {
  const Folder folder(good_target, target_weights());
  EXPECT_TRUE(read_stop_tokens(Checkpoint(folder.path())).empty());
  folder.write("config.json", R"({"eos_token_id": 7})");
  EXPECT_EQ(read_stop_tokens(Checkpoint(folder.path())), (std::vector<Token>{7}));
  folder.write("generation_config.json", R"({"eos_token_id": [9, 2, 7]})");
  EXPECT_EQ(read_stop_tokens(Checkpoint(folder.path())), (std::vector<Token>{2, 7, 9}));
  folder.write("generation_config.json", R"({"eos_token_id": 9})");
  EXPECT_EQ(read_stop_tokens(Checkpoint(folder.path())), (std::vector<Token>{9}))
      << "not config.json's 7, as transformers";
  for (const char* without : {"{}", R"({"eos_token_id": null})"}) {
    folder.write("generation_config.json", without);
    EXPECT_EQ(read_stop_tokens(Checkpoint(folder.path())), (std::vector<Token>{7})) << without;
  }
}

TEST(StopTokens, InvalidOnesAreRejectedByFileAndField) {
  const Folder folder(good_target, target_weights());
  for (const char* name : {"config.json", "generation_config.json"}) {
    for (const char* value : {"-1", "\"</s>\"", "[3, -1]", "3000000000", "1.5", "{}"}) {
      folder.write(name, std::string(R"({"eos_token_id": )") + value + "}");
      EXPECT_THAT(error_of([&] { read_stop_tokens(Checkpoint(folder.path())); }),
                  testing::AllOf(testing::HasSubstr(std::string("/") + name), testing::HasSubstr("eos_token_id")));
    }
    folder.write(name, "{}");
  }
}

}  // namespace
}  // namespace draftproof::test::config_test
