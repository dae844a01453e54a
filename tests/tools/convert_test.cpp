// SPDX-License-Identifier: MIT
// A GGUF that was written of a folder is the model of the folder.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <functional>
#include <map>
#include <nlohmann/json.hpp>
#include <set>

#include "kernels/threads.h"
#include "oracle/twin/twin.h"
#include "ref/base/error.h"
#include "ref/acceptance/rule.h"
#include "ref/chat/chat_template.h"
#include "ref/decoding/engine.h"
#include "ref/models/dflash.h"
#include "ref/models/draft_tables.h"
#include "ref/models/models.h"
#include "ref/models/mtp.h"
#include "ref/models/transformer_config.h"
#include "tests/models/draft_with_sinks.h"
#include "tests/tools/command.h"
#include "tools/convert/gguf_model.h"
#include "tools/weights_digest.h"

namespace draftproof::test::convert_test {
namespace {

using nlohmann::json;

std::string external(const std::string& name) { return fixture("external/" + name); }

/// Writes the model without a tokenizer.
std::string converted(const Checkpoint& from, Format type, const Folder& folder,
                      GgufReader reader = GgufReader::llama_cpp) {
  const std::string file = (folder.path() / "model.gguf").string();
  const GgufFamily& family = gguf_family_for(from.config(), reader);
  GgufFields fields;
  add_model_fields(from, family, type, fields);
  write_gguf(file, fields, gguf_tensors(from, family, type));
  return file;
}

/// The logits of all rows of a fixed text that is longer than every window and chunk of the models.
std::vector<float> logits_of(Model& model, int length = 40) {
  std::vector<Token> text;
  for (int i = 0; i < length; ++i) text.push_back((i * 37 + 5) % model.vocabulary());
  const std::unique_ptr<Cache> cache = model.new_cache(length, length);
  const Transaction transaction = cache->begin(length);
  Outputs outputs;
  forward_alone(model, {.cache = cache.get(), .tokens = text}, outputs);
  return {outputs.logits.begin(), outputs.logits.end()};
}

/// Weights of bf16 as the floats that a GGUF of f32 has, and keys and values as floats.
LoadOptions in_floats() { return {best_kernels(), Quantization::f32, KvFormat::f32}; }

std::vector<float> logits_of(const Checkpoint& files, const LoadOptions& options) {
  return logits_of(*load_model(files, options));
}

const char* const exact_names[] = {"qwen3-tiny-tied",
                                   "qwen3-tiny-odd",
                                   "qwen2-tiny-tied",
                                   "qwen2-tiny-untied",
                                   "llama-tiny-plain",
                                   "llama-tiny-biased",
                                   "llama-tiny-linear",
                                   "llama-tiny-yarn",
                                   "mistral-tiny-nemo",
                                   "ministral3-tiny",
                                   "gemma4-tiny",
                                   "gemma4-tiny-shared",
                                   "gemma4-tiny-donors",
                                   "gemma4-tiny-experts",
                                   "olmo2-tiny",
                                   "olmo3-tiny",
                                   "phi3-tiny",
                                   "granite-tiny",
                                   "qwen2-moe-tiny",
                                   "olmoe-tiny",
                                   "glm4-tiny",
                                   "cohere2-tiny",
                                   "exaone4-tiny",
                                   "seed-oss-tiny",
                                   "ernie45-tiny",
                                   "stablelm-tiny",
                                   "stablelm-tiny-parallel",
                                   "arcee-tiny",
                                   "starcoder2-tiny",
                                   "lfm2-tiny",
                                   "granitemoe-tiny",
                                   "minimax-m2-tiny",
                                   "ernie45-moe-tiny",
                                   "phi-tiny",
                                   "bitnet-tiny",
                                   "phi3-tiny-longrope",
                                   "deepseek-v2-tiny",
                                   "llama4-tiny-published"};

TEST(Convert, InFloatsHasTheBitsOfTheFolder) {
  for (const char* name : exact_names) {
    const Checkpoint from(external(name));
    const Folder folder;
    const Checkpoint gguf(converted(from, Format::f32, folder));
    EXPECT_EQ(logits_of(gguf, in_floats()), logits_of(from, in_floats())) << name;
  }
}

void expect_equal_twins(const Checkpoint& from, const std::string& name) {
  const Folder folder;
  const Twin of_folder(from, false);
  const Twin of_file(Checkpoint(converted(from, Format::f32, folder)), false);
  TwinText expected(of_folder);
  TwinText text(of_file);
  const std::vector<Token> tokens = {3, 1, 4, 1, 5, 9, 2, 6, 5, 3, 5, 8};
  const std::vector<double> want = expected.read(tokens);
  const std::vector<double> got = text.read(tokens);
  ASSERT_EQ(got.size(), want.size()) << name;
  for (std::size_t i = 0; i < want.size(); ++i) EXPECT_NEAR(got[i], want[i], 1e-4) << name << " " << i;
}

/// What a GGUF has in another form than a folder: rates of states, norms, the order of heads, factors in weights.
TEST(Convert, TheFloat64TwinOfTheFileIsThatOfTheFolder) {
  for (const char* name :
       {"qwen35-tiny-nested", "qwen35-tiny-irregular", "qwen35-moe-tiny", "qwen3-next-tiny", "mamba2-tiny",
        "granite-hybrid-tiny", "granite-hybrid-tiny-experts", "falcon-h1-tiny", "nemotron-h-tiny", "jamba-tiny",
        "lfm2-tiny", "deepseek-v2-tiny", "llama4-tiny-published", "gemma3n-tiny", "gemma4-tiny", "gemma4-tiny-shared",
        "gemma4-tiny-donors", "kimi-linear-tiny"}) {
    expect_equal_twins(Checkpoint(external(name)), name);
  }
}

TEST(Convert, ExpertsMayBeginWithTheFirstLayer) {
  const Folder swapped;
  files::copy(external("nemotron-h-tiny-experts"), swapped.path());
  json config = json::parse(text_of(swapped.path() / "config.json"));
  std::swap(config["layers_block_type"][0], config["layers_block_type"][1]);
  ASSERT_EQ(config["layers_block_type"][0], "moe");
  put(swapped.path() / "config.json", config.dump());
  std::string weights = text_of(swapped.path() / "model.safetensors");
  for (std::size_t at = 0; (at = weights.find("layers.", at)) != std::string::npos; ++at) {
    char& number = weights[at + 7];
    if (number == '0' || number == '1') number = number == '0' ? '1' : '0';
  }
  put(swapped.path() / "model.safetensors", weights);
  expect_equal_twins(Checkpoint(swapped.path()), "swapped layers");
}

/// A copy of a folder with another config of the text model.
void copy_with(const std::string& name, const Folder& copy, const std::function<void(json& text)>& change) {
  files::copy(external(name), copy.path());
  json config = json::parse(text_of(copy.path() / "config.json"));
  change(config.contains("text_config") ? config["text_config"] : config);
  put(copy.path() / "config.json", config.dump());
}

/// A copy of a folder whose scores have the scale that llama.cpp has.
void copy_with_usual_scale(const std::string& name, const Folder& copy) {
  copy_with(name, copy, [](json& text) { text["query_pre_attn_scalar"] = text["head_dim"]; });
}

TEST(Convert, SaysWhichMaskTokenAGgufCannotName) {
  const Folder copy;
  const Folder written;
  const std::string file = written.path() / "pard.gguf";
  files::copy(fixture("models/tale-small"), copy.path());
  EXPECT_EQ(run_command({"convert", copy.path(), file}).err.find("pard_token"), std::string::npos);
  json config = json::parse(text_of(copy.path() / "config.json"));
  config["pard_token"] = 5;
  put(copy.path() / "config.json", config.dump());
  const Outcome outcome = run_command({"convert", copy.path(), file});
  EXPECT_EQ(outcome.status, 0) << outcome.err;
  EXPECT_THAT(outcome.err,
              testing::HasSubstr("a GGUF has no field for pard_token; draft with pard:" + file + "?mask=5"));
}

/// Folders with what a GGUF cannot say, and the change that leaves it out.
const std::pair<const char*, void (*)(json& text)> nearly_exact[] = {
    {"mixtral-tiny", [](json& text) { text["sliding_window"] = nullptr; }},
    {"gpt-oss-tiny", [](json& text) { text["swiglu_limit"] = 7.0; }},
    {"glm4-moe-tiny", [](json& text) { text["n_group"] = text["topk_group"] = 1; }},
    {"deepseek-v3-tiny", [](json& text) { text["rope_parameters"]["mscale"] = 0.7; }},
    {"glm4-moe-lite-tiny", [](json& text) { text["rms_norm_eps"] = 1e-6; }},
};

TEST(Convert, OfExpertsInFloatsHasTheBitsOfTheFolder) {
  for (const auto& [name, change] : nearly_exact) {
    const Folder copy;
    copy_with(name, copy, change);
    const Checkpoint from(copy.path());
    const Folder folder;
    const Checkpoint gguf(converted(from, Format::f32, folder));
    EXPECT_EQ(logits_of(gguf, in_floats()), logits_of(from, in_floats())) << name;
  }
}

/// In which the published files have them.
TEST(Convert, ExpertsOfGptOssInMxfp4HaveTheSameBitsInEveryTable) {
  const Folder copy;
  copy_with("gpt-oss-tiny", copy, [](json& text) { text["swiglu_limit"] = 7.0; });
  const Folder folder;
  const Checkpoint gguf(converted(Checkpoint(copy.path()), Format::mxfp4, folder));
  int experts = 0;
  for (const auto& [name, tensor] : gguf.tensors()) {
    if (tensor.shape.size() == 3 && tensor.format == Format::mxfp4) ++experts;
  }
  EXPECT_GE(experts, 2);
  const std::vector<float> expected = logits_of(gguf, LoadOptions(*find_kernels("scalar")));
  EXPECT_EQ(logits_of(gguf, LoadOptions(best_kernels())), expected);
}

/// Before llama.cpp's form of today the keys' and values' matrices of heads were one tensor, and lengths those of
/// heads.
TEST(Convert, AnOlderFileOfLatentAttentionHasTheBitsOfTheFolder) {
  const Checkpoint from(external("deepseek-v2-tiny"));
  const json config = json::parse(text_of(external("deepseek-v2-tiny") + "/config.json"));
  GgufFields fields;
  fields.text("general.architecture", "deepseek2");
  const std::pair<const char*, int> sizes[] = {
      {"block_count", config["num_hidden_layers"]},
      {"context_length", config["max_position_embeddings"]},
      {"embedding_length", config["hidden_size"]},
      {"feed_forward_length", config["intermediate_size"]},
      {"attention.head_count", config["num_attention_heads"]},
      {"attention.head_count_kv", config["num_attention_heads"]},
      {"attention.key_length", config["qk_nope_head_dim"].get<int>() + config["qk_rope_head_dim"].get<int>()},
      {"attention.value_length", config["v_head_dim"]},
      {"attention.kv_lora_rank", config["kv_lora_rank"]},
      {"rope.dimension_count", config["qk_rope_head_dim"]},
      {"leading_dense_block_count", config["first_k_dense_replace"]},
      {"expert_count", config["n_routed_experts"]},
      {"expert_used_count", config["num_experts_per_tok"]},
      {"expert_shared_count", config["n_shared_experts"]},
      {"expert_feed_forward_length", config["moe_intermediate_size"]}};
  for (const auto& [key, value] : sizes)
    fields.size(std::string("deepseek2.") + key, static_cast<std::uint32_t>(value));
  fields.number("deepseek2.attention.layer_norm_rms_epsilon", config["rms_norm_eps"]);
  std::vector<GgufTensor> tensors;
  for (GgufTensor& tensor : gguf_tensors(from, gguf_family_for(from.config()), Format::f32)) {
    const bool apart =
        tensor.name.find("attn_k_b") != std::string::npos || tensor.name.find("attn_v_b") != std::string::npos;
    if (!apart) tensors.push_back(std::move(tensor));
  }
  for (int i = 0; i < config["num_hidden_layers"].get<int>(); ++i) {
    const std::string name = "model.layers." + std::to_string(i) + ".self_attn.kv_b_proj.weight";
    tensors.push_back({.name = "blk." + std::to_string(i) + ".attn_kv_b.weight",
                       .rows = from.weight(name, from.tensors().at(name).shape)});
  }
  const Folder folder;
  const std::string file = (folder.path() / "older.gguf").string();
  write_gguf(file, fields, tensors);
  EXPECT_EQ(logits_of(Checkpoint(file), in_floats()), logits_of(from, in_floats()));
}

/// llama.cpp has no table for the tokens of images and sounds, which Gemma 3n gives the first row.
TEST(Convert, EveryTokenAndLayerOfGemma3nHasTheTensorsThatLlamaCppAsksFor) {
  const Checkpoint from(external("gemma3n-tiny"));
  const Folder folder;
  const Checkpoint gguf(converted(from, Format::f32, folder));
  const std::string name = "model.embed_tokens_per_layer.weight";
  const std::vector<float> stored = from.floats(name, {60, 40});
  std::vector<float> wanted = stored;
  for (int token = 60; token < 64; ++token) wanted.insert(wanted.end(), stored.begin(), stored.begin() + 40);
  EXPECT_EQ(gguf.floats(name, {64, 40}), wanted);
  const std::string keys = ".self_attn.k_proj.weight";  // of a layer that reads those of another, which llama.cpp wants
  EXPECT_FALSE(from.has("model.layers.4" + keys));
  EXPECT_EQ(gguf.floats("model.layers.4" + keys, {16, 32}), from.floats("model.layers.1" + keys, {16, 32}));
}

TEST(Convert, AGgufOfGemma3nOrKimiLinearWithoutAKeyIsRefusedByName) {
  const std::pair<const char*, const char*> keys[] = {
      {"gemma3n-tiny", "gemma3n.activation_sparsity_scale"},
      {"gemma3n-tiny", "gemma3n.altup.num_inputs"},
      {"kimi-linear-tiny", "kimi-linear.kda.head_dim"},
      {"kimi-linear-tiny", "kimi-linear.ssm.conv_kernel"},
  };
  for (const auto& [name, key] : keys) {
    const Checkpoint from(external(name));
    const Folder folder;
    const Gguf whole(converted(from, Format::f32, folder));
    GgufFields fields;
    for (const auto& [other, value] : whole.metadata()) {
      if (other != key) fields.copy(whole, other);
    }
    const files::path file = folder.path() / "less.gguf";
    write_gguf(file, fields, gguf_tensors(from, gguf_family_for(from.config()), Format::f32));
    try {
      Checkpoint(file.string());
      ADD_FAILURE() << key;
    } catch (const Error& error) {
      EXPECT_THAT(error.what(), testing::AllOf(testing::HasSubstr("less.gguf"), testing::HasSubstr(key)));
    }
  }
}

TEST(Convert, GemmaInFloatsHasTheBitsOfTheFolder) {
  for (const char* name : {"gemma2-tiny", "gemma3-tiny"}) {
    const Folder copy;
    copy_with_usual_scale(name, copy);
    const Checkpoint from(copy.path());
    const Folder folder;
    const Checkpoint gguf(converted(from, Format::f32, folder));
    EXPECT_EQ(logits_of(gguf, in_floats()), logits_of(from, in_floats())) << name;
  }
}

TEST(Convert, KeepsBothListsOfLongrope) {
  for (const bool long_context : {false, true}) {
    LoadOptions options = in_floats();
    options.long_context = long_context;
    const Checkpoint from(external("phi3-longrope"));
    const Folder folder;
    const Checkpoint gguf(converted(from, Format::f32, folder));
    EXPECT_EQ(describe(gguf, options).context, long_context ? 512 : 16);
    const int rows = long_context ? 40 : 16;
    EXPECT_EQ(logits_of(*load_model(gguf, options), rows), logits_of(*load_model(from, options), rows));
  }
}

TEST(Convert, QuantizedHasTheBitsOfTheFolderQuantizedOnLoad) {
  const Checkpoint from(fixture("models/tale-target"));
  const Folder folder;
  const Checkpoint gguf(converted(from, Format::q8_0, folder));
  EXPECT_EQ(logits_of(gguf, best_kernels()), logits_of(from, {best_kernels(), Quantization::q8}));
  EXPECT_NE(logits_of(gguf, best_kernels()), logits_of(from, best_kernels()));
}

/// llama3's divisors are rounded once more; so are -exp(A_log) and Gemma 3n's cutoffs, and Qwen3.5's out_proj adds
/// heads in another order.
TEST(Convert, WhatIsStoredInAnotherFormIsTheSameButForRounding) {
  for (const char* name :
       {"llama-tiny-stretched", "apertus-tiny", "qwen35-tiny-nested", "qwen35-tiny-irregular",
        "qwen35-tiny-rectangular", "qwen35-moe-tiny", "qwen3-next-tiny", "mamba2-tiny", "granite-hybrid-tiny",
        "granite-hybrid-tiny-experts", "falcon-h1-tiny", "nemotron-h-tiny", "nemotron-h-tiny-experts",
        "nemotron-h-tiny-latent", "jamba-tiny", "gemma3n-tiny", "kimi-linear-tiny"}) {
    const Checkpoint from(external(name));
    const Folder folder;
    const std::vector<float> got = logits_of(Checkpoint(converted(from, Format::f32, folder)), in_floats());
    const std::vector<float> want = logits_of(from, in_floats());
    ASSERT_EQ(got.size(), want.size());
    double largest = 0;
    double difference = 0;
    for (std::size_t i = 0; i < got.size(); ++i) {
      largest = std::max(largest, std::fabs(double{want[i]}));
      difference = std::max(difference, std::fabs(double{got[i]} - want[i]));
    }
    EXPECT_LE(difference, 1e-4 * largest) << name;
  }
}

/// Expects that the config which is read of a GGUF has the keys that were written of the folder's. Returns the family.
const GgufFamily* expect_keys_kept(const std::string& path, GgufReader reader = GgufReader::llama_cpp) {
  const Checkpoint from(path);
  const GgufFamily& family = gguf_family_for(from.config(), reader);
  const Folder folder;
  const Checkpoint gguf(converted(from, Format::f32, folder, reader));
  GgufFields fields;
  add_model_fields(gguf, family, Format::f32, fields);
  const files::path again = folder.path() / "again.gguf";
  write_gguf(again, fields, {});
  GgufMetadata wanted = *gguf.metadata();
  GgufMetadata got = read_gguf_metadata(again);
  wanted.erase("general.name");  // of the folder
  got.erase("general.name");
  EXPECT_EQ(got, wanted) << path;
  return &family;
}

/// A copy of LFM2 with experts whose weights have no scale, which its GGUF cannot say.
void copy_unscaled(const Folder& copy) {
  copy_with("lfm2-moe-tiny", copy, [](json& text) { text["routed_scaling_factor"] = 1; });
}

TEST(Convert, ExpertsWithABiasInFloatsHaveTheBitsOfTheFolder) {
  const Folder copy;
  copy_unscaled(copy);
  const Checkpoint from(copy.path());
  const Folder folder;
  const Checkpoint gguf(converted(from, Format::f32, folder));
  EXPECT_EQ(logits_of(gguf, in_floats()), logits_of(from, in_floats()));
}

/// A copy of an EAGLE-3 draft of speculators, without what llama.cpp does not compute.
void copy_of_speculators(const Folder& copy) {
  files::copy(external("eagle3-speculators"), copy.path());
  json config = json::parse(text_of(copy.path() / "config.json"));
  config["norm_output"] = false;
  for (const char* name : {"layer_types", "sliding_window", "use_sliding_window"}) {
    config["transformer_layer_config"].erase(name);
  }
  put(copy.path() / "config.json", config.dump());
}

TEST(Convert, EveryFamilyReadsTheConfigThatItWrote) {
  std::set<const GgufFamily*> families;
  for (const char* name : exact_names) families.insert(expect_keys_kept(external(name)));
  for (const char* name : {"qwen35-tiny-nested",
                           "qwen35-tiny-irregular",
                           "qwen35-moe-tiny",
                           "qwen3-next-tiny",
                           "mamba2-tiny",
                           "granite-hybrid-tiny",
                           "granite-hybrid-tiny-experts",
                           "mtp-qwen3-two",
                           "mtp-qwen35",
                           "mtp-qwen35-moe",
                           "mtp-qwen3-next",
                           "mtp-nemotron-h",
                           "gemma4-assistant",
                           "dflash-full",
                           "dflash-mixed",
                           "dspark-published",
                           "apertus-tiny",
                           "falcon-h1-tiny",
                           "nemotron-h-tiny",
                           "nemotron-h-tiny-experts",
                           "nemotron-h-tiny-latent",
                           "jamba-tiny",
                           "gemma3n-tiny",
                           "kimi-linear-tiny"}) {
    families.insert(expect_keys_kept(external(name)));
  }
  families.insert(expect_keys_kept(external("dflash-full"), GgufReader::ik_llama_cpp));
  families.insert(expect_keys_kept(external("eagle3-midlayer")));
  const Folder speculators;
  copy_of_speculators(speculators);
  families.insert(expect_keys_kept(speculators.path().string()));
  for (const char* name : {"gemma2-tiny", "gemma3-tiny", "gemma3-tiny-nested"}) {
    const Folder copy;
    copy_with_usual_scale(name, copy);
    families.insert(expect_keys_kept(copy.path().string()));
  }
  const Folder unscaled;
  copy_unscaled(unscaled);
  families.insert(expect_keys_kept(unscaled.path().string()));
  for (const auto& [name, change] : nearly_exact) {
    const Folder copy;
    copy_with(name, copy, change);
    families.insert(expect_keys_kept(copy.path().string()));
  }
  const Folder all_turned;
  copy_with("smollm3-tiny", all_turned, [](json& text) { text["no_rope_layers"] = {1, 1, 1}; });
  families.insert(expect_keys_kept(all_turned.path().string()));
  const Folder experts;
  copy_with("qwen3-moe-tiny-unnormalized", experts, [](json& text) { text["norm_topk_prob"] = true; });
  families.insert(expect_keys_kept(experts.path().string()));
  for (const GgufFamily* const family : all_gguf_families()) {
    EXPECT_TRUE(families.contains(family)) << family->architecture;
  }
}

/// llama.cpp gives a pair of RoPE that no section covers the position 0.
TEST(Convert, TheSectionsOfMRopeCoverAllPairs) {
  const Folder folder;
  const Gguf file(converted(Checkpoint(external("qwen35-tiny-nested")), Format::f32, folder));
  const auto& sections = std::get<std::vector<std::int64_t>>(file.metadata().at("qwen35.rope.dimension_sections"));
  const std::int64_t pairs = *file.find_integer("qwen35.rope.dimension_count") / 2;
  EXPECT_EQ(sections.size(), 4U);
  for (std::int64_t pair = 0; pair < pairs; ++pair) EXPECT_LT(pair, 3 * sections[static_cast<std::size_t>(pair % 3)]);
}

/// Of each layer, whether it recurs or slides.
std::vector<std::uint64_t> marked_layers(const Json& config) {
  const Json types = text_config(config).at("layer_types");
  std::vector<std::uint64_t> marked;
  for (std::size_t i = 0; i < types.size(); ++i) marked.push_back(types[i].string() == "full_attention" ? 0 : 1);
  return marked;
}

/// As llama.cpp's own converter writes them. Our reader makes unsigned numbers of booleans, signed ones of int32.
TEST(Convert, WhichLayersRecurOrSlideIsAnArrayOfBooleans) {
  const std::pair<const char*, const char*> patterns[] = {
      {"qwen35-tiny-irregular", "qwen35.attention.recurrent_layers"},
      {"gemma4-tiny", "gemma4.attention.sliding_window_pattern"},
      {"dflash-mixed", "dflash.attention.sliding_window_pattern"}};
  for (const auto& [name, key] : patterns) {
    const Folder folder;
    const Checkpoint from(external(name));
    const Checkpoint gguf(converted(from, Format::f32, folder));
    const std::vector<std::uint64_t> wanted = marked_layers(from.config());
    EXPECT_EQ(gguf.metadata()->at(key), GgufValue(wanted)) << name;
    EXPECT_EQ(marked_layers(gguf.config()), wanted) << name;
  }
}

TEST(Convert, KeepsTheSinksOfADraft) {
  const Folder copy;
  copy_with_sinks(external("dflash-full"), copy.path());
  const Checkpoint from(copy.path());
  const Folder folder;
  const Checkpoint gguf(converted(from, Format::q8_0, folder));
  EXPECT_TRUE(gguf.config().at("dflash_config").at("attention_sink_bias").boolean());
  for (const char* name : {"layers.0.self_attn.attention_sink_bias", "layers.1.self_attn.attention_sink_bias"}) {
    EXPECT_EQ(gguf.floats(name, {4}), from.floats(name, {4}));
  }
}

/// A block of three draft tokens behind the token 4 and nine positions.
struct ComputedBlock {
  DFlashNetwork network;
  std::unique_ptr<Cache> context = network.new_context(32, 32);
  DFlashNetwork::Block block = {context.get(), 4, 3};

  ComputedBlock(const Checkpoint& draft, const Model& target) : network(draft, target, in_floats()) {
    const std::size_t width = network.config().taps.size() * static_cast<std::size_t>(target.hidden());
    std::vector<float> features(9 * width);
    for (std::size_t i = 0; i < features.size(); ++i) features[i] = static_cast<float>(i * 37 % 101) / 50 - 1;
    const DFlashNetwork::ContextRows rows = {context.get(), features, 9};
    network.append(std::span(&rows, 1));
    network.compute(std::span(&block, 1));
  }
};

/// The logits of a block of a draft, and of one that selects the scores of some tokens at its last mask.
std::vector<float> block_of(const Checkpoint& draft, const Model& target) {
  const ComputedBlock computed(draft, target);
  std::vector<float> values(computed.block.logits.begin(), computed.block.logits.end());
  if (computed.network.config().selector_rank == 0) return values;
  const std::vector<Token> candidates = {0, 1, 2, 9};
  std::vector<float> scores(candidates.size());
  computed.network.score(computed.block, 2, 4, candidates, scores);
  values.insert(values.end(), scores.begin(), scores.end());
  return values;
}

TEST(Convert, ADFlash2DraftInFloatsHasTheBitsOfTheFolder) {
  const std::pair<const char*, const char*> drafts[] = {{"dflash2-published", "qwen3-tiny-odd"},
                                                        {"dflash2-three-taps", "qwen3-tiny-tied"}};
  for (const auto& [name, its_target] : drafts) {
    const Folder copy;
    files::copy(external(name), copy.path());
    json config = json::parse(text_of(copy.path() / "config.json"));
    for (const char* not_yet : {"final_logit_softcapping", "output_multiplier", "attention_value_scale"}) {
      config.erase(not_yet);
      config["dflash_config"].erase(not_yet);
    }
    put(copy.path() / "config.json", config.dump());
    const Checkpoint from(copy.path());
    const auto target = load_model(Checkpoint(external(its_target)), best_kernels());
    const Folder folder;
    const Checkpoint gguf(converted(from, Format::f32, folder));
    EXPECT_EQ(block_of(gguf, *target), block_of(from, *target)) << name;
  }
}

/// What the second token of a DSpark draft is drawn from behind the token 6, and how sure it is.
std::pair<std::vector<float>, double> second_step_of(const Checkpoint& draft, const Model& target) {
  ComputedBlock computed(draft, target);
  DFlashNetwork::Step step = {.block = &computed.block, .draft = 1, .previous = 6};
  computed.network.step(std::span(&step, 1));
  return {{step.logits.begin(), step.logits.end()}, step.confidence};
}

TEST(Convert, ADSparkDraftInFloatsHasTheBitsOfTheFolderAndTheWordsOfLlamaCpp) {
  const auto target = load_model(Checkpoint(external("qwen3-tiny-tied")), in_floats());
  for (const bool confident : {true, false}) {
    const Folder copy;
    files::copy(external("dspark-published"), copy.path());
    if (!confident) {
      json config = json::parse(text_of(copy.path() / "config.json"));
      config["enable_confidence_head"] = false;
      config["sample_from_anchor"] = false;
      put(copy.path() / "config.json", config.dump());
      std::vector<Tensor> tensors;
      const Checkpoint files(external("dspark-published"));
      for (const auto& [name, tensor] : files.tensors()) {
        if (name.starts_with("confidence_head")) continue;
        tensors.push_back({name, tensor.type_name, tensor.shape, stored_bytes(tensor)});
      }
      put(copy.path() / "model.safetensors", safetensors(tensors));
    }
    const Checkpoint from(copy.path());
    const Folder folder;
    const std::string file = converted(from, Format::f32, folder);
    EXPECT_EQ(second_step_of(Checkpoint(file), *target), second_step_of(from, *target));
    const Gguf gguf(file);
    const Json config = Checkpoint(file).config();
    EXPECT_EQ(config.at("sample_from_anchor").boolean(), confident);
    EXPECT_EQ(config.at("enable_confidence_head").boolean(), confident);
    for (const char* key : {"dflash.sample_from_anchor", "dflash.has_confidence_head"}) {
      EXPECT_TRUE(gguf.metadata().contains(key)) << key;
    }
    for (const char* name : {"markov_w1.weight", "markov_w2.weight"}) {
      EXPECT_EQ(gguf.tensors().at(name).shape, (std::vector<std::int64_t>{160, 8})) << name;
    }
    EXPECT_EQ(gguf.tensors().contains("conf_proj.weight"), confident);
    EXPECT_EQ(gguf.tensors().contains("conf_proj.bias"), confident);
  }
}

TEST(Convert, RefusesDSparkDraftsForWhichNoProgramHasAForm) {
  const auto refusal = [](const char* name, const std::function<void(json&)>& change, GgufReader reader) {
    const Folder copy;
    files::copy(external(name), copy.path());
    json config = json::parse(text_of(copy.path() / "config.json"));
    change(config);
    put(copy.path() / "config.json", config.dump());
    const Folder folder;
    try {
      converted(Checkpoint(copy.path()), Format::f32, folder, reader);
    } catch (const Error& error) {
      return std::string(error.what());
    }
    return std::string();
  };
  const auto as_it_is = [](json&) {};
  EXPECT_THAT(refusal("dspark-published", as_it_is, GgufReader::ik_llama_cpp), testing::HasSubstr("DSpark"));
  EXPECT_THAT(refusal("dspark-behind-anchor", as_it_is, GgufReader::llama_cpp),
              testing::HasSubstr("confidence head that does not read the token before"));
  EXPECT_THAT(refusal(
                  "dflash-full", [](json& config) { config["sample_from_anchor"] = true; }, GgufReader::llama_cpp),
              testing::HasSubstr("no Markov head"));
}

/// A copy of a DFlash draft that knows every third token, with an LM head of these.
void copy_with_part_of_the_vocabulary(const Folder& copy) {
  constexpr int tokens = 48;
  const files::path original = external("dflash-full");
  json config = json::parse(text_of(original / "config.json"));
  const int hidden = config["hidden_size"];
  config["draft_vocab_size"] = tokens;
  put(copy.path() / "config.json", config.dump());
  const Checkpoint from(original);
  std::vector<Tensor> tensors;
  for (const auto& [name, tensor] : from.tensors()) {
    tensors.push_back({name, tensor.type_name, tensor.shape, stored_bytes(tensor)});
  }
  std::vector<float> head;
  std::vector<std::int64_t> offsets;
  for (int i = 0; i < tokens; ++i) {
    offsets.push_back(2 * i + 1);
    for (int k = 0; k < hidden; ++k) head.push_back(static_cast<float>((i * 31 + k * 17) % 23 - 11) / 16);
  }
  tensors.push_back({"lm_head.weight", "F32", {tokens, hidden}, bytes_of(head)});
  tensors.push_back({"d2t", "I64", {tokens}, bytes_of(offsets)});
  put(copy.path() / "model.safetensors", safetensors(tensors));
}

TEST(Convert, ADFlashDraftWithAPartOfTheVocabularyHasTheBitsOfTheFolder) {
  const Folder copy;
  copy_with_part_of_the_vocabulary(copy);
  const Checkpoint from(copy.path());
  const auto target = load_model(Checkpoint(external("qwen3-tiny-tied")), in_floats());
  const Folder folder;
  const std::string file = converted(from, Format::f32, folder);
  const std::vector<float> want = block_of(from, *target);
  EXPECT_EQ(block_of(Checkpoint(file), *target), want);
  EXPECT_TRUE(std::isfinite(want[1]) && std::isinf(want[2]) && std::isinf(want[3]) && std::isfinite(want[4]));
  EXPECT_EQ(Gguf(file).tensors().at("d2t").type_name, "I64");

  const auto refusal = [&](GgufReader reader) {
    const Folder other;
    try {
      converted(Checkpoint(copy.path()), Format::f32, other, reader);
    } catch (const Error& error) {
      return std::string(error.what());
    }
    return std::string();
  };
  EXPECT_THAT(refusal(GgufReader::ik_llama_cpp), testing::HasSubstr("draft_vocab_size: is of a vocabulary"));
  std::vector<Tensor> headless;
  for (const auto& [name, tensor] : from.tensors()) {
    if (name == "lm_head.weight") continue;
    headless.push_back({name, tensor.type_name, tensor.shape, stored_bytes(tensor)});
  }
  put(copy.path() / "model.safetensors", safetensors(headless));
  EXPECT_THAT(refusal(GgufReader::llama_cpp), testing::HasSubstr("draft_vocab_size: needs an LM head"));
}

/// A text that is decoded with an EAGLE-3 draft.
Trace drafted_by_eagle3(const std::string& draft) {
  ModelFiles files(external("qwen3-tiny-sharded"));
  Engine engine(files, in_floats());
  PhiloxSource random(3);
  Request request;
  request.prompt = {1, 2, 3, 4, 5};
  request.max_new_tokens = 40;
  request.sampling.temperature = 1;
  return engine.decode({.request = request,
                        .draft = "eagle3:" + draft,
                        .rule = rejection,
                        .random = random,
                        .recording = Recording::digests});
}

TEST(Convert, AnEagle3DraftInFloatsHasTheBitsOfTheFolder) {
  const Folder speculators;
  copy_of_speculators(speculators);
  for (const std::string& name : {external("eagle3-midlayer"), speculators.path().string()}) {
    const Folder folder;
    const Trace got = drafted_by_eagle3(converted(Checkpoint(name), Format::f32, folder));
    const Trace want = drafted_by_eagle3(name);
    EXPECT_EQ(got.output, want.output) << name;
    EXPECT_EQ(got.final_draft, want.final_draft) << name << ": keys, values and features of the text";
    EXPECT_GT(want.statistics.drafted, 0);
    ASSERT_EQ(got.rounds.size(), want.rounds.size());
    for (std::size_t i = 0; i < want.rounds.size(); ++i) {
      EXPECT_EQ(got.rounds[i].proposal.tokens, want.rounds[i].proposal.tokens) << name << ", round " << i;
      EXPECT_EQ(got.rounds[i].draft, want.rounds[i].draft) << name << ", round " << i;
    }
  }
}

/// The names and keys of llama.cpp's converter; d2t holds tokens, where the folder has offsets.
TEST(Convert, AnEagle3DraftHasTheNamesAndKeysOfLlamaCpp) {
  const Checkpoint from(external("eagle3-midlayer"));
  const Folder folder;
  const Gguf gguf(converted(from, Format::f32, folder));
  std::set<std::string> names;
  for (const auto& [name, tensor] : gguf.tensors()) names.insert(name);
  std::set<std::string> wanted = {"fc.weight", "output_norm.weight", "output.weight", "d2t"};
  for (const char* name : {"attn_norm", "attn_norm_2", "attn_q", "attn_k", "attn_v", "attn_output", "ffn_norm",
                           "ffn_gate", "ffn_up", "ffn_down"}) {
    wanted.insert("blk.0." + std::string(name) + ".weight");
  }
  if (from.has("embed_tokens.weight")) wanted.insert("token_embd.weight");
  EXPECT_EQ(names, wanted);
  EXPECT_EQ(*gguf.find_text("general.architecture"), "eagle3");
  EXPECT_EQ(gguf.metadata().at("eagle3.target_layers"), GgufValue(std::vector<std::int64_t>{1, 2, 3}));
  EXPECT_EQ(gguf.find_integer("eagle3.target_hidden_size"), 56);
  EXPECT_EQ(gguf.metadata().at("eagle3.norm_before_residual"), GgufValue(false));
  EXPECT_EQ(gguf.tensors().at("d2t").type_name, "I64");
  const Checkpoint read(gguf.file());
  EXPECT_EQ(read_draft_vocabulary(read, 61, 144), read_draft_vocabulary(from, 61, 144));
}

/// Says why a folder is not converted; empty when it is.
std::string error_of_folder(const files::path& path) {
  const Folder folder;
  try {
    converted(Checkpoint(path), Format::f32, folder);
  } catch (const Error& error) {
    return error.what();
  }
  return "";
}

/// Says why a model with a changed config is not converted; empty when it is.
std::string error_of(const std::string& name, const std::function<void(json& config)>& change) {
  const Folder copy;
  files::copy(external(name), copy.path());
  json config = json::parse(text_of(copy.path() / "config.json"));
  change(config);
  put(copy.path() / "config.json", config.dump());
  return error_of_folder(copy.path());
}

TEST(Convert, AnEagle3DraftThatAGgufCannotHoldIsRefusedInOneSentence) {
  using testing::HasSubstr;
  EXPECT_THAT(error_of("eagle3-speculators", [](json&) {}), HasSubstr("norm_output: has no form in a GGUF of eagle3"));
  EXPECT_THAT(error_of("eagle3-chunks", [](json&) {}), HasSubstr("fc_norm: has no form in a GGUF of eagle3"));
  EXPECT_THAT(error_of("eagle3-midlayer", [](json& config) { config.erase("eagle_config"); }),
              HasSubstr("names no eagle_aux_hidden_state_layer_ids; give the folder of the target with --tokenizer"));
  EXPECT_THAT(error_of("eagle3-midlayer",
                       [](json& config) {
                         config["eagle_config"]["eagle_aux_hidden_state_layer_ids"] = {1, 2};
                       }),
              HasSubstr("must name three layers in a GGUF"));
  EXPECT_THAT(error_of("eagle3-midlayer", [](json& config) { config.erase("vocab_size"); }), HasSubstr("vocab_size"));
  EXPECT_THAT(error_of("eagle3-layers", [](json&) {}), HasSubstr("num_hidden_layers: must be 1 in a GGUF of eagle3"));
  EXPECT_THAT(error_of("eagle3-midlayer", [](json& config) { config["ptd_token_id"] = 3; }),
              HasSubstr("ptd_token_id: says that it drafts in parallel, which has no form in a GGUF of eagle3"));
}

TEST(Convert, AnEagle3FileOfSeveralLayersIsRefused) {
  const Folder folder;
  const std::string path = converted(Checkpoint(external("eagle3-midlayer")), Format::f32, folder);
  std::string bytes = text_of(path);
  const std::string key = "eagle3.block_count";
  bytes[bytes.find(key) + key.size() + 4] = 2;  // behind the type of the value
  put(path, bytes);
  try {
    Checkpoint(path).config();
    ADD_FAILURE() << "was read";
  } catch (const Error& error) {
    EXPECT_THAT(error.what(), testing::HasSubstr("eagle3.block_count: must be 1"));
  }
}

TEST(Convert, WhatAGgufCannotSayIsRefusedByName) {
  const std::pair<const char*, const char*> refused[] = {
      {"mistral-tiny-windowed", "sliding_window: layers with a sliding window have no form in a GGUF of llama"},
      {"qwen2-tiny-windowed", "sliding_window"},
      {"qwen3-moe-tiny-mixed", "layers with and without experts have no form in a GGUF of qwen3moe"},
      {"qwen3-moe-tiny-unnormalized", "norm_topk_prob: must be true in a GGUF of qwen3moe"},
      {"mixtral-tiny", "sliding_window: layers with a sliding window have no form in a GGUF of llama"},
      {"gpt-oss-tiny", "swiglu_limit: must be 7 in a GGUF of gpt-oss"},
      {"llama4-tiny", "attention_chunk_size: must be 8192 in a GGUF of llama4"},
      {"glm4-moe-tiny", "n_group: must be 1 in a GGUF of glm4moe"},
      {"deepseek-v3-tiny", "must have mscale and mscale_all_dim, the same and not 0, in a GGUF of deepseek2"},
      {"deepseek-v3-tiny-biased", "attention_bias: must be false in a GGUF of deepseek2"},
      {"deepseek-v2-tiny-groups", "n_group: must be 1 in a GGUF of deepseek2"},
      {"gemma2-tiny", "query_pre_attn_scalar: must be 8 in a GGUF of gemma2"},
      {"kimi-linear-tiny-groups", "moe_renormalize: must be true in a GGUF of kimi-linear"},
      {"smollm3-tiny", "no_rope_layers: leaves RoPE to other layers than a GGUF of smollm3"}};
  for (const auto& [name, words] : refused) {
    const Folder folder;
    try {
      converted(Checkpoint(external(name)), Format::f32, folder);
      ADD_FAILURE() << name;
    } catch (const Error& error) {
      EXPECT_THAT(error.what(), testing::AllOf(testing::HasSubstr(name), testing::HasSubstr(words)));
    }
  }
}

TEST(Convert, AYarnWithoutItsFactorOfScoresHasNoFormForDeepSeek) {
  const auto scaled = [](double all) {
    return [all](json& config) {
      config["rope_parameters"]["mscale"] = config["rope_parameters"]["mscale_all_dim"] = all;
    };
  };
  EXPECT_EQ(error_of("deepseek-v3-tiny", scaled(0.5)), "");
  EXPECT_THAT(error_of("deepseek-v3-tiny", scaled(0)), testing::HasSubstr("the same and not 0"));
}

TEST(Convert, AFileOfLlama4WithoutItsChunksIsRefused) {
  const Checkpoint from(external("llama4-tiny-published"));
  const GgufFamily& family = gguf_family_for(from.config(), GgufReader::llama_cpp);
  for (const auto& [key, value] : {std::pair("sliding_window", 0U), {"sliding_window_pattern", 2U}}) {
    const Folder folder;
    const std::string file = (folder.path() / "model.gguf").string();
    GgufFields fields;
    add_model_fields(from, family, Format::f32, fields);
    fields.size(std::string("llama4.attention.") + key, value);
    write_gguf(file, fields, gguf_tensors(from, family, Format::f32));
    try {
      Checkpoint(file).config();
      ADD_FAILURE() << key;
    } catch (const Error& error) {
      EXPECT_THAT(error.what(), testing::AllOf(testing::HasSubstr(file), testing::HasSubstr(key)));
    }
  }
}

/// llama.cpp's converter writes it of every config that has groups.
TEST(Convert, AFileOfGlm4MayHaveOneGroupOfExperts) {
  const Checkpoint from(external("mtp-glm4-moe"));
  const GgufFamily& family = gguf_family_for(from.config(), GgufReader::llama_cpp);
  for (const std::uint32_t groups : {1U, 2U}) {
    const Folder folder;
    const std::string file = (folder.path() / "model.gguf").string();
    GgufFields fields;
    add_model_fields(from, family, Format::f32, fields);
    fields.size("glm4moe.expert_group_count", groups);
    fields.size("glm4moe.expert_group_used_count", 1);
    write_gguf(file, fields, gguf_tensors(from, family, Format::f32));
    if (groups == 1) EXPECT_EQ(logits_of(Checkpoint(file), in_floats()), logits_of(from, in_floats()));
    else EXPECT_THROW(Checkpoint(file).config(), Error);
  }
}

/// llama.cpp's converter writes that of the config's head_dim.
TEST(Convert, AFileOfKimiLinearMaySayAnyLengthOfAValue) {
  const Checkpoint from(external("kimi-linear-tiny"));
  const Folder folder;
  const std::string file = converted(from, Format::f32, folder);
  std::string bytes = text_of(file);
  const std::string key = "kimi-linear.attention.value_length";
  const std::size_t value = bytes.find(key) + key.size() + 4;  // behind the type
  ASSERT_EQ(bytes[value], 20);
  const auto expected = logits_of(Checkpoint(file), in_floats());
  bytes[value] = 6;
  put(file, bytes);
  EXPECT_EQ(logits_of(Checkpoint(file), in_floats()), expected);
}

TEST(Convert, PartsOfOneTensorMustHaveOneShape) {
  const Folder copy;
  files::copy(external("gemma3n-tiny"), copy.path());
  std::string weights = text_of(copy.path() / "model.safetensors");
  const std::size_t shape = weights.find("[32,32]", weights.find("altup_projections.1.weight"));
  ASSERT_NE(shape, std::string::npos);
  weights.replace(shape, 7, "[16,64]");  // as many values, in longer rows
  put(copy.path() / "model.safetensors", weights);
  EXPECT_THAT(error_of_folder(copy.path()), testing::HasSubstr("altup_projections.1.weight' must have the shape"));
}

/// The text that a model generates, and its tokens.
json told(const std::string& model, std::vector<std::string> more) {
  more.insert(more.begin(), {"generate", model, "--prompt", "Long ago, near the mill", "--max-new-tokens", "40",
                             "--draft-max", "4", "--quiet", "--json", "-"});
  const Outcome outcome = run_command(more);
  EXPECT_EQ(outcome.status, 0) << outcome.err;
  return json::parse(outcome.out);
}

TEST(Convert, ATargetWithItsTokenizerAndItsDraftTellTheTaleOfTheFolders) {
  const Folder folder;
  const std::string target = (folder.path() / "target.gguf").string();
  const std::string draft = (folder.path() / "draft.gguf").string();
  const std::string tale = fixture("models/tale-target");
  const Outcome one = run_command({"convert", tale, target});
  ASSERT_EQ(one.status, 0) << one.err;
  EXPECT_THAT(one.out, testing::HasSubstr("qwen3, "));
  const json want = told(tale, {});
  const json drafted = told(tale, {"--draft", "dflash:" + fixture("models/tale-dflash")});
  for (const std::string reader : {"llama.cpp", "ik_llama.cpp"}) {
    const Outcome two =
        run_command({"convert", fixture("models/tale-dflash"), draft, "--tokenizer", tale, "--for", reader, "--quiet"});
    ASSERT_EQ(two.status, 0) << two.err;
    EXPECT_EQ(two.out, "");
    const json got = told(target, {"--draft", "dflash:" + draft});
    EXPECT_EQ(got["text"], want["text"]) << reader;
    EXPECT_EQ(got["tokens"], want["tokens"]) << reader;
    EXPECT_EQ(got["statistics"]["accepted"], drafted["statistics"]["accepted"]) << reader;
    EXPECT_EQ(got["statistics"]["rounds"], drafted["statistics"]["rounds"]) << reader;
  }
}

/// What a target generates from tokens with its own MTP heads.
json drafted_by_heads(const std::string& model) {
  const Outcome outcome = run_command({"generate", model, "--prompt-tokens", "1,2,3", "-n", "40", "--draft", "mtp",
                                       "--draft-max", "2", "--quantize", "f32", "--quiet", "--json", "-"});
  EXPECT_EQ(outcome.status, 0) << outcome.err;
  const json told = json::parse(outcome.out, nullptr, false);
  EXPECT_GT(told["statistics"]["drafted"], 0) << model;
  return {told["tokens"], told["statistics"]["drafted"], told["statistics"]["accepted"]};
}

TEST(Convert, KeepsTheMtpHeadsOfATarget) {
  for (const auto& [name, heads] : {std::pair("mtp-qwen3-two", 2U),
                                    {"mtp-qwen35", 1U},
                                    {"mtp-qwen35-moe", 1U},
                                    {"mtp-qwen3-next", 1U},
                                    {"mtp-nemotron-h", 1U},
                                    {"mtp-deepseek-v3", 1U},
                                    {"mtp-glm4-moe", 1U}}) {
    const Folder folder;
    const Checkpoint from(external(name));
    const std::string file = converted(from, Format::f32, folder);
    EXPECT_EQ(read_mtp_config(Checkpoint(file)).heads.size(), heads) << name;
    const json got = drafted_by_heads(file);
    const json want = drafted_by_heads(external(name));
    // Of Qwen3.5 a GGUF has some values in another form, rounded once more, so that texts may part.
    if (std::string(name).starts_with("mtp-qwen35")) continue;
    const auto text = want[0].get<std::vector<int>>();
    auto same = got[0].get<std::vector<int>>();
    const bool stops = text.size() < same.size();  // by a token that a file without a tokenizer does not name
    same.resize(text.size());
    EXPECT_EQ(same, text) << name;
    for (std::size_t i = 1; i < 3 && !stops; ++i) EXPECT_EQ(got[i], want[i]) << name;
  }
}

/// llama.cpp's files of ERNIE have no heads.
TEST(Convert, TheMtpHeadOfErnieDraftsAndHasNoNameInAGguf) {
  const Checkpoint from(external("mtp-ernie45-moe"));
  const Folder folder;
  const Checkpoint gguf(converted(from, Format::f32, folder));
  EXPECT_TRUE(has_mtp_heads(from));
  EXPECT_FALSE(has_mtp_heads(gguf));
  EXPECT_EQ(logits_of(gguf, in_floats()), logits_of(from, in_floats()));
  drafted_by_heads(external("mtp-ernie45-moe"));
}

/// llama.cpp does not have MiMo-7B.
TEST(Convert, MiMoHasNoFormInAGguf) {
  const Folder folder;
  const Outcome outcome =
      run_command({"convert", external("mtp-mimo"), (folder.path() / "model.gguf").string(), "--quiet"});
  EXPECT_EQ(outcome.status, 3);
  EXPECT_THAT(outcome.err, testing::HasSubstr("a GGUF of 'mimo' cannot be written yet"));
  drafted_by_heads(external("mtp-mimo"));
}

/// In the folder of MTP heads there is nothing but these; each is quantized apart from its target.
TEST(Convert, DraftsApartDraftAsTheirFoldersDo) {
  struct Pair {
    const char* target;
    const char* kind;
    const char* draft;
  };
  for (const auto& [target, kind, draft] : {Pair{"tale-target", "mtp:", "tale-mtp"},
                                            {"tale-hybrid", "mtp:", "tale-hybrid-mtp"},
                                            {"tale-gemma", "mtp:", "tale-gemma-assistant"},
                                            {"tale-target", "eagle3:", "tale-eagle3"},
                                            {"tale-target", "dflash:", "tale-dspark"}}) {
    const std::string model = fixture("models/") + target;
    const std::string folder_of_draft = fixture("models/") + draft;
    const json want = told(model, {"--draft", kind + folder_of_draft});
    const json small = told(model, {"--draft", kind + folder_of_draft + "?type=q4"});
    for (const std::string type : {"bf16", "q4_0"}) {
      const Folder folder;
      const std::string file = (folder.path() / "draft.gguf").string();
      const Outcome outcome = run_command({"convert", folder_of_draft, file, "--type", type, "--tokenizer", model});
      ASSERT_EQ(outcome.status, 0) << outcome.err;
      const json got = told(model, {"--draft", kind + file});
      EXPECT_EQ(got["tokens"], want["tokens"]) << draft << " " << type;
      EXPECT_GT(got["statistics"]["accepted"], 0) << draft << " " << type;
      EXPECT_TRUE(type != "bf16" || got["statistics"]["accepted"] == want["statistics"]["accepted"]) << draft;
      EXPECT_EQ(run_command({"inspect", file}).status, 0) << draft;
    }
    EXPECT_EQ(small["tokens"], want["tokens"]) << draft;
  }
}

TEST(Convert, ADraftForIkLlamaCppHasItsNamesAndKeys) {
  const Checkpoint from(fixture("models/tale-dflash"));
  const GgufFamily& family = gguf_family_for(from.config(), GgufReader::ik_llama_cpp);
  EXPECT_STREQ(family.architecture, "dflash-draft");
  const Folder folder;
  const std::string file = (folder.path() / "draft.gguf").string();
  GgufFields fields;
  add_model_fields(from, family, Format::bf16, fields);
  write_gguf(file, fields, gguf_tensors(from, family, Format::bf16));
  const Gguf gguf(file);
  EXPECT_EQ(gguf.find_integer("dflash-draft.dflash.block_size"), 8);
  EXPECT_EQ(gguf.find_integer("dflash-draft.dflash.mask_token_id"), 2047);
  EXPECT_EQ(gguf.find_integer("dflash-draft.dflash.n_target_features"), 3 * 192);
  for (const char* name : {"dflash_fc.weight", "dflash_hidden_norm.weight", "blk.0.post_attention_norm.weight"}) {
    EXPECT_TRUE(gguf.tensors().contains(name)) << name;
  }
}

/// What the templates of a model render, without and with tools.
std::pair<std::string, std::string> rendered(const std::filesystem::path& model) {
  const ChatTemplate text = *ChatTemplate::find(Checkpoint(model));
  Chat chat;
  chat.messages = jinja::Value::list({});
  const std::string plain = text_of(text.render(chat));
  chat.tools = jinja::Value::list({});
  return {plain, text_of(text.render(chat))};
}

TEST(Convert, KeepsEveryChatTemplate) {
  const auto list_of = [](const std::string& other) {
    const json list = {{{"name", "default"}, {"template", "in a list"}},
                       {{"name", "tool_use"}, {"template", "with tools"}},
                       {{"name", other}, {"template", "with documents"}}};
    return json{{"eos_token", "<|im_end|>"}, {"chat_template", list}}.dump();
  };
  const Folder model;
  for (const char* name : {"config.json", "model.safetensors", "tokenizer.json"}) {
    files::create_symlink(fixture("models/tale-target/") + name, model.path() / name);
  }
  const Folder folder;
  const files::path file = folder.path() / "model.gguf";
  const auto convert = [&] { return run_command({"convert", model.path().string(), file.string(), "--quiet"}); };

  put(model.path() / "tokenizer_config.json", list_of("rag-2"));
  ASSERT_EQ(convert().status, 0);
  EXPECT_EQ(rendered(file), rendered(model.path()));
  EXPECT_EQ(rendered(file), std::pair(std::string("in a list"), std::string("with tools")));
  const GgufMetadata metadata = read_gguf_metadata(file);
  EXPECT_EQ(metadata.at("tokenizer.chat_template.rag_2"), GgufValue("with documents"));
  EXPECT_EQ(metadata.at("tokenizer.chat_templates"), GgufValue(std::vector<std::string>{"rag_2", "tool_use"}));

  put(model.path() / "chat_template.jinja", "in a file");
  files::create_directory(model.path() / "additional_chat_templates");
  put(model.path() / "additional_chat_templates/tool_use.jinja", "{{ 'with' }} a file");
  ASSERT_EQ(convert().status, 0);
  EXPECT_EQ(rendered(file), rendered(model.path()));
  EXPECT_EQ(rendered(file), std::pair(std::string("in a file"), std::string("with a file")));

  files::remove(model.path() / "chat_template.jinja");
  put(model.path() / "tokenizer_config.json", list_of("tool use"));
  EXPECT_THAT(convert().err, testing::HasSubstr("is the second template that a GGUF would name 'tool_use'; give it"));
}

TEST(Convert, LosesNothingInTheTypeOfTheFolderAndLittleInOthers) {
  const Folder folder;
  const std::string tale = fixture("models/tale-target");
  const std::string exact = (folder.path() / "exact.gguf").string();
  const std::string close = (folder.path() / "close.gguf").string();
  ASSERT_EQ(run_command({"convert", tale, exact, "--type", "bf16"}).status, 0);
  ASSERT_EQ(run_command({"convert", tale, close, "--type", "q4_0"}).status, 0);
  const Outcome outcome = run_command({"bench", "quantization", tale, exact, close, "--json", "-"});
  ASSERT_EQ(outcome.status, 0) << outcome.err;
  const Folder alone;
  files::copy(exact, alone.path() / "model.gguf");
  EXPECT_EQ(weights_digest(Checkpoint(alone.path())), weights_digest(Checkpoint(exact)))
      << "a folder with one GGUF is that file";
  std::map<std::string, double> errors;
  const json result = json::parse(outcome.out);
  for (const json& row : result["files"]) errors[row["type"]] = row["relative_error"];
  EXPECT_EQ(errors.at("BF16"), 0);
  EXPECT_GT(errors.at("Q8_0"), 0) << "the embedding, whose rows are no multiple of q6_k's blocks";
  EXPECT_LT(errors.at("Q8_0"), 0.01);
  EXPECT_GT(errors.at("Q4_0"), errors.at("Q8_0"));
  EXPECT_LT(errors.at("Q4_0"), 0.12);
}

TEST(Convert, RefusesBadInputInOneSentenceAndWritesNothing) {
  const Folder folder;
  const std::string file = (folder.path() / "model.gguf").string();
  struct Case {
    std::vector<std::string> words;
    const char* message;
  };
  for (const Case& bad : std::vector<Case>{
           {{"convert", external("qwen3-tiny-tied"), file}, "has neither tokenizer.json nor tokenizer.model; give"},
           {{"convert", external("qwen3-tiny-tied"), file, "--tokenizer", fixture("models/tale-target")},
            "has 2048 tokens, but the model only"},
           {{"convert", fixture("models/tale-target"), file, "--type", "q3"}, "there is no type of weights named 'q3'"},
           {{"convert", folder.path().string(), file}, "has neither model.safetensors nor"},
           {{"convert", external("medusa-authors"), file}, "is of Medusa heads, for which no GGUF has a form"}}) {
    const Outcome outcome = run_command(bad.words);
    EXPECT_EQ(outcome.status, 3) << bad.message;
    EXPECT_THAT(outcome.err, testing::HasSubstr(bad.message));
    EXPECT_FALSE(std::filesystem::exists(file));
  }
}

/// What cannot be kept is known before anything is written, and a file of an earlier run stays.
TEST(Convert, KeepsTheOldFileWhereATokenizerHasNoForm) {
  const Folder copy;
  const Folder written;
  const std::string file = (written.path() / "model.gguf").string();
  files::copy(fixture("models/tale-small"), copy.path());
  const json sound = json::parse(text_of(copy.path() / "tokenizer.json"));
  ASSERT_EQ(run_command({"convert", copy.path(), file, "--quiet"}).status, 0);
  const std::string before = text_of(file);

  json eats_spaces = sound;  // behind a word
  eats_spaces["added_tokens"].back().update({{"content", "Hello,"}, {"rstrip", true}, {"special", false}});
  json lacks_a_byte = sound;
  lacks_a_byte["model"]["vocab"]["**"] = lacks_a_byte["model"]["vocab"]["*"];
  lacks_a_byte["model"]["vocab"].erase("*");
  for (const auto& [tokenizer, message] :
       {std::pair(eats_spaces, file + ": is not written, because its tokenizer would not divide texts as "),
        std::pair(lacks_a_byte, std::string("tokenizer.json: field model.vocab: has no entry '*'"))}) {
    put(copy.path() / "tokenizer.json", tokenizer.dump());
    const Outcome outcome = run_command({"convert", copy.path(), file, "--quiet"});
    EXPECT_EQ(outcome.status, 3);
    EXPECT_THAT(outcome.err, testing::HasSubstr(message));
    EXPECT_EQ(text_of(file), before);
    EXPECT_EQ(std::distance(files::directory_iterator(written.path()), {}), 1) << "nothing else is left";
  }
}

TEST(Convert, WritesOverNothingButAGguf) {
  const Folder folder;
  const files::path model = folder.path() / "model";
  files::copy(fixture("models/tale-small"), model);
  const std::string notes = (folder.path() / "notes.txt").string();
  put(notes, "precious");
  files::create_symlink(model / "model.safetensors", folder.path() / "link.gguf");
  std::vector<std::string> outputs = {notes, (folder.path() / "link.gguf").string(), (model / "new.gguf").string()};
  std::map<files::path, std::string> before;
  for (const auto& entry : files::directory_iterator(model)) {
    before[entry.path()] = text_of(entry.path());
    outputs.push_back(entry.path().string());
  }
  for (const std::string& output : outputs) {
    const Outcome outcome = run_command({"convert", model.string(), output});
    EXPECT_EQ(outcome.status, 3) << output;
    EXPECT_THAT(outcome.err, testing::HasSubstr(output + "'")) << output;
  }
  EXPECT_EQ(run_command({"synth", "--shape", "tiny", "--type", "f32", notes}).status, 3);
  EXPECT_EQ(text_of(notes), "precious");
  for (const auto& [file, bytes] : before) EXPECT_EQ(text_of(file), bytes) << file;
  EXPECT_FALSE(files::exists(model / "new.gguf"));
}

/// A cache that was fetched in part has such links. Without the file, the model would have other stop tokens or no
/// chat template.
TEST(Convert, RefusesALinkToNothingInPlaceOfAFile) {
  for (const char* name : {"config.json", "generation_config.json", "model.safetensors", "tokenizer.json",
                           "tokenizer_config.json", "chat_template.jinja"}) {
    const Folder folder;
    const files::path model = folder.path() / "model";
    const std::string file = (folder.path() / "model.gguf").string();
    files::copy(fixture("models/tale-small"), model);
    files::remove(model / name);
    files::create_symlink("nothing", model / name);
    for (const std::vector<std::string>& words :
         {std::vector<std::string>{"convert", model.string(), file}, {"chat", model.string(), "-n", "1"}}) {
      const Outcome outcome = run_command(words);
      EXPECT_EQ(outcome.status, 3) << name;
      EXPECT_THAT(outcome.err, testing::HasSubstr(std::string(name) + ": is a link to something")) << words[0];
    }
    EXPECT_FALSE(files::exists(file)) << name;
  }
}

}  // namespace
}  // namespace draftproof::test::convert_test
