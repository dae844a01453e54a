// SPDX-License-Identifier: MIT
// What is read from the configs of Gemma 2, 3 and 4, and what is refused; the memory of layers that keep nothing; keys
// that are turned in part of their pairs.
#include <cmath>
#include <map>

#include "ref/models/memory.h"
#include "ref/models/rope.h"
#include "ref/models/transformer.h"
#include "tests/models/fixtures.h"

namespace draftproof::test::gemma_test {
namespace {

/// A config.json by top-level field; the values are JSON text.
using Fields = std::map<std::string, std::string>;

TransformerConfig described(const Fields& fields) {
  std::string text = "{";
  for (const auto& [name, value] : fields) text += (text.size() > 1 ? ", \"" : "\"") + name + "\": " + value;
  return describe(Json::parse(text + "}", "config.json"));
}

Fields with(Fields fields, const Fields& others) {
  for (const auto& [name, value] : others) fields[name] = value;
  return fields;
}

const Fields sizes = {{"hidden_size", "64"}, {"intermediate_size", "96"}, {"num_hidden_layers", "6"}};
const Fields gemma2 = with(sizes, {{"model_type", R"("gemma2")"}});
const Fields gemma3 = with(sizes, {{"model_type", R"("gemma3_text")"}});
const Fields gemma4 = with(sizes, {{"model_type", R"("gemma4_text")"}});

/// s and f for layers that slide or see everything.
std::string kinds_of(const TransformerConfig& config) {
  std::string kinds;
  for (int i = 0; i < config.depth(); ++i) {
    kinds += config.attention(i).window == AttentionCache::everything ? 'f' : 's';
  }
  return kinds;
}

TEST(GemmaConfig, WhatAConfigLeavesOutIsTheDefaultOfItsClass) {
  const TransformerConfig two = described(gemma2);
  EXPECT_EQ(two.vocabulary, 256000);
  EXPECT_EQ(two.context, 8192);
  EXPECT_EQ(two.logit_cap, 30);
  EXPECT_EQ(two.attention(0).shape.cap, 50);
  EXPECT_EQ(two.attention(0).shape.scale, 0.0625F);
  EXPECT_EQ(two.embedding_scale, 8);
  EXPECT_EQ(two.norm_offset, 1);
  EXPECT_EQ(two.activation, Activation::gelu);
  EXPECT_EQ(kinds_of(two), "sfsfsf");
  EXPECT_EQ(two.attention(0).window, 4096);

  const TransformerConfig three = described(gemma3);
  EXPECT_EQ(three.vocabulary, 262208);
  EXPECT_EQ(three.context, 131072);
  EXPECT_EQ(three.logit_cap, 0);
  EXPECT_EQ(three.attention(0).shape.cap, 0);
  EXPECT_EQ(three.attention(0).shape.heads, 8);
  EXPECT_EQ(three.attention(0).shape.kv_heads, 4);
  EXPECT_EQ(three.attention(0).shape.head_dim, 256);
  EXPECT_EQ(kinds_of(three), "sssssf");
  EXPECT_EQ(three.ropes[0].frequencies, default_rope(1e6, 256).frequencies);
  EXPECT_EQ(three.ropes[1].frequencies, default_rope(1e4, 256).frequencies);

  const TransformerConfig four = described(gemma4);
  EXPECT_EQ(four.vocabulary, 262144);
  EXPECT_EQ(four.layer_embedding, 256);
  EXPECT_EQ(four.norm_offset, 0);
  EXPECT_EQ(kinds_of(four), "sssssf");
  EXPECT_EQ(four.attention(0).window, 512);
  EXPECT_EQ(four.attention(0).shape.scale, 1);
  EXPECT_EQ(four.attention(5).shape.head_dim, 512);
  EXPECT_EQ(four.ropes[0].frequencies, proportional_rope(1e6, 512, 0.25).frequencies);
  EXPECT_EQ(four.ropes[1].frequencies, default_rope(1e4, 256).frequencies);

  const TransformerConfig unified = described(with(gemma4, {{"model_type", R"("gemma4_unified_text")"}}));
  EXPECT_EQ(unified.context, 262144);
  EXPECT_EQ(unified.attention(0).window, 1024);
  EXPECT_EQ(unified.layer_embedding, 0);
}

TEST(GemmaConfig, NullMeansNoneWhereAMissingFieldIsADefault) {
  const TransformerConfig two =
      described(with(gemma2, {{"final_logit_softcapping", "null"}, {"attn_logit_softcapping", "null"}}));
  EXPECT_EQ(two.logit_cap, 0);
  EXPECT_EQ(two.attention(0).shape.cap, 0);
  EXPECT_EQ(described(with(gemma4, {{"hidden_size_per_layer_input", "null"}})).layer_embedding, 0);
}

TEST(GemmaConfig, OnlyFullLayersOfGemma3AreStretchedHoweverItIsSpelled) {
  const std::vector<float> stretched = linear_rope(1e6, 256, 8).frequencies;
  for (const Fields& spelled : {
           Fields{{"rope_theta", "1e6"},
                  {"rope_local_base_freq", "1e4"},
                  {"rope_scaling", R"({"rope_type": "linear", "factor": 8.0})"}},
           Fields{{"rope_parameters", R"({"full_attention": {"rope_type": "linear", "factor": 8.0, "rope_theta": 1e6},)"
                                      R"( "sliding_attention": {"rope_type": "default", "rope_theta": 1e4}})"}},
           Fields{{"rope_parameters", R"({"full_attention": {"rope_type": "linear", "factor": 8.0}})"},
                  {"rope_theta", "1e6"},
                  {"rope_local_base_freq", "1e4"},
                  {"rope_scaling", "null"}},
       }) {
    const TransformerConfig config = described(with(gemma3, spelled));
    EXPECT_EQ(config.ropes[0].frequencies, stretched);
    EXPECT_EQ(config.ropes[1].frequencies, default_rope(1e4, 256).frequencies);
  }
}

TEST(GemmaConfig, LayersOfGemma4HaveTheShapesAndDonorsOfTheirKind) {
  const Fields shared = {
      {"layer_types", R"(["sliding_attention", "full_attention", "sliding_attention", "sliding_attention",)"
                      R"( "sliding_attention", "sliding_attention"])"},
      {"num_kv_shared_layers", "2"},
      {"attention_k_eq_v", "true"},
      {"num_global_key_value_heads", "2"},
      {"use_double_wide_mlp", "true"}};
  const TransformerConfig config = described(with(gemma4, shared));
  EXPECT_EQ(kinds_of(config), "sfsssf") << "the last layer always sees everything";
  EXPECT_EQ(config.cached_layers(), 4);
  EXPECT_EQ(config.attention(4).donor, 3);
  EXPECT_EQ(config.attention(5).donor, 1);
  EXPECT_EQ(config.attention(1).shape.kv_heads, 2);
  EXPECT_EQ(config.attention(0).shape.kv_heads, 4);
  EXPECT_TRUE(config.attention(1).values_from_keys);
  EXPECT_FALSE(config.attention(0).values_from_keys);
  EXPECT_EQ(config.layers[3].intermediate, 96);
  EXPECT_EQ(config.layers[4].intermediate, 192);
  const TransformerConfig apart =
      described(with(gemma4, {{"num_global_key_value_heads", "2"}, {"hidden_size_per_layer_input", "0"}}));
  EXPECT_EQ(apart.attention(5).shape.kv_heads, 4) << "counts only where values are those of keys";
}

/// A field, and words of the message.
struct Bad {
  Fields good;
  const char* field;
  const char* value;
  std::vector<std::string> words;
};

TEST(GemmaConfig, EveryBadFieldIsRefusedByName) {
  const Bad table[] = {
      {gemma2, "hidden_activation", R"("gelu")", {"hidden_activation", "'gelu' is not implemented"}},
      {gemma3, "hidden_act", R"("silu")", {"hidden_act", "only 'gelu_pytorch_tanh' is"}},
      {gemma2, "attention_bias", "true", {"attention_bias", "not implemented"}},
      {gemma2, "use_bidirectional_attention", "true", {"use_bidirectional_attention", "see later rows"}},
      {gemma3, "use_bidirectional_attention", "true", {"use_bidirectional_attention", "see later rows"}},
      {gemma4, "use_bidirectional_attention", R"("all")", {"use_bidirectional_attention", "see later rows"}},
      {gemma2, "final_logit_softcapping", "0", {"final_logit_softcapping", "positive float"}},
      {gemma2, "attn_logit_softcapping", "-1", {"attn_logit_softcapping", "positive float"}},
      {gemma3, "attn_logit_softcapping", "50", {"attn_logit_softcapping", "Gemma 3 caps no scores"}},
      {gemma2, "query_pre_attn_scalar", "0", {"query_pre_attn_scalar", "positive float"}},
      {gemma2, "num_attention_heads", "6", {"num_attention_heads", "multiple of that of KV heads, 4"}},
      {gemma2, "sliding_window", "null", {"sliding_window", "missing"}},
      {gemma3, "sliding_window", "0", {"sliding_window", "from 1"}},
      {gemma3, "sliding_window_pattern", "0", {"sliding_window_pattern", "from 1"}},
      {gemma3, "layer_types", R"(["full_attention"])", {"layer_types", "one type for each of the 6 layers"}},
      {gemma3, "rope_parameters", R"({"rope_type": "default"})", {"rope_parameters.rope_type", "a layer type"}},
      {gemma3, "rope_parameters", R"({"full_attention": {"rope_type": "dynamic"}})", {"rope_type", "among calls"}},
      {gemma3,
       "rope_parameters",
       R"({"full_attention": {"partial_rotary_factor": 0.5}})",
       {"partial_rotary_factor", "'proportional' RoPE only"}},
      {gemma4,
       "rope_parameters",
       R"({"full_attention": {"rope_type": "proportional"}})",
       {"rope_parameters.sliding_attention", "missing"}},
      {gemma4, "rope_scaling", R"({"type": "linear", "factor": 8})", {"rope_scaling", "for each layer type"}},
      {gemma4, "hidden_size_per_layer_input", "-1", {"hidden_size_per_layer_input", "-1"}},
      {gemma4, "vocab_size_per_layer_input", "7", {"vocab_size_per_layer_input", "below vocab_size, 262144"}},
      {gemma4, "num_kv_shared_layers", "6", {"num_kv_shared_layers", "6"}},
      {gemma4, "num_kv_shared_layers", "2", {"num_kv_shared_layers", "layer 5 with keys of its own"}},
      {gemma4, "enable_moe_block", "true", {"num_experts", "missing"}},
      {gemma4, "global_head_dim", "3", {"odd number of values"}},
      {gemma4, "per_layer_config", R"({"5": {"sliding_window": 4}})", {"per_layer_config.5.sliding_window"}},
      {gemma4, "per_layer_config", R"({"5": {"num_key_value_heads": 3}})", {"3 KV heads", "divide"}},
      {gemma4, "per_layer_config", R"({"0": {"head_dim": 8}})", {"per_layer_config", "different sizes"}},
  };
  for (const Bad& bad : table) {
    SCOPED_TRACE(std::string(bad.field) + ": " + bad.value);
    const std::string message = error_of([&] { described(with(bad.good, {{bad.field, bad.value}})); });
    EXPECT_THAT(message, testing::HasSubstr("config.json"));
    for (const std::string& word : bad.words) EXPECT_THAT(message, testing::HasSubstr(word));
  }
  EXPECT_EQ(described(with(gemma4, {{"use_bidirectional_attention", R"("vision")"}})).depth(), 6)
      << "means images only";
}

TEST(Gemma4, LayersThatReadTheKeysOfOthersNeedNoCache) {
  const std::filesystem::path folder = external_dir / "gemma4-tiny-shared";  // ssf, and ssf that keep nothing
  const MemoryNeed need = model_need(Checkpoint(folder), in_floats(best_kernels()));
  EXPECT_EQ(need.cache_per_position, AttentionCache::bytes_per_position(2, 16, KvFormat::f32));
  EXPECT_EQ(need.cache_fixed, 2 * AttentionCache::bytes_per_position(2, 8, KvFormat::f32) * (4 + prefill_chunk));
  const auto model = load_model(Checkpoint(folder), best_kernels());
  const auto cache = model->new_cache(20, 20);
  EXPECT_EQ(model->layers(), 6);
  EXPECT_EQ(cache->snapshot(0).layers.size(), 3U);
}

TEST(ProportionalRope, TurnsAPartOfThePairsAndBack) {
  const Rope rope = proportional_rope(10000, 16, 0.5);
  EXPECT_EQ(rope.half(), 8);
  EXPECT_EQ(rope.frequencies[3], default_rope(10000, 16).frequencies[3]);
  EXPECT_EQ(rope.frequencies[4], 0);
  const Kernels& kernels = best_kernels();
  std::vector<float> key(16);
  for (std::size_t i = 0; i < key.size(); ++i) key[i] = static_cast<float>(i * i % 7) - 2.5F;
  const auto turned = [&](int position) {
    std::vector<float> cosine, sine;
    rope.angles(std::span(&position, 1), cosine, sine);
    std::vector<float> result = key;
    kernels.rope(result.data(), 0, 1, 1, 16, 8, cosine.data(), sine.data());
    return result;
  };
  std::vector<float> back = turned(33);
  for (const int j : {4, 7, 12, 15}) EXPECT_EQ(back[static_cast<std::size_t>(j)], key[static_cast<std::size_t>(j)]);
  EXPECT_GT(std::abs(back[0] - key[0]), 0.01F);
  rope.turn_back(kernels, 16)(back.data(), 1, 12);
  const std::vector<float> expected = turned(21);
  for (std::size_t i = 0; i < key.size(); ++i) EXPECT_NEAR(back[i], expected[i], 1e-5F);
}

}  // namespace
}  // namespace draftproof::test::gemma_test
