// SPDX-License-Identifier: MIT
// The configs of LFM2: what is read, and what is refused by name.
#include <map>

#include "ref/models/memory.h"
#include "tests/models/fixtures.h"

namespace draftproof::test::lfm2_test {
namespace {

/// A config by field; the values are JSON text.
using Fields = std::map<std::string, std::string>;

const Fields good = {
    {"architectures", R"(["Lfm2ForCausalLM"])"},
    {"model_type", R"("lfm2")"},
    {"vocab_size", "10"},
    {"hidden_size", "8"},
    {"num_hidden_layers", "3"},
    {"num_attention_heads", "2"},
    {"num_key_value_heads", "1"},
    {"block_ff_dim", "90"},
    {"rope_theta", "1e6"},
    {"conv_L_cache", "3"},
    {"full_attn_idxs", "[1]"},
};

/// The fields of `good` with others; empty: without that field.
TransformerConfig described(const Fields& others = {}) {
  Fields fields = good;
  for (const auto& [name, value] : others) {
    if (value.empty()) fields.erase(name);
    else fields[name] = value;
  }
  std::string text = "{";
  for (const auto& [name, value] : fields) text += (text.size() > 1 ? ", \"" : "\"") + name + "\": " + value;
  return describe(Json::parse(text + "}", "config.json"));
}

TEST(Lfm2, ReadsWhichLayersConvolveInEitherSpelling) {
  for (const Fields& fields : {Fields{}, {{"layer_types", R"(["conv", "full_attention", "conv"])"}}}) {
    const TransformerConfig config = described(fields);
    EXPECT_EQ(std::get<ConvolutionShape>(config.layers[0].mixer).width, 3);
    EXPECT_EQ(std::get<ConvolutionShape>(config.layers[2].mixer).channels, 8);
    EXPECT_EQ(config.attention(1).qk_norm, QkNorm::heads);
    EXPECT_EQ(config.epsilon, 1e-5F);
  }
}

TEST(Lfm2, TheWidthOfTheMlpIsAdjustedAsTransformersDoes) {
  EXPECT_EQ(described().layers[0].intermediate, 256) << "60, made a multiple of 256";
  EXPECT_EQ(described({{"block_multiple_of", "8"}}).layers[0].intermediate, 64);
  EXPECT_EQ(described({{"block_multiple_of", "8"}, {"block_ffn_dim_multiplier", "1.3"}}).layers[0].intermediate, 80);
  EXPECT_EQ(described({{"block_ffn_dim_multiplier", "null"}}).layers[0].intermediate, 60);
  EXPECT_EQ(described({{"block_auto_adjust_ff_dim", "false"}}).layers[0].intermediate, 90);
  EXPECT_EQ(described({{"block_ff_dim", ""}, {"intermediate_size", "12"}, {"block_auto_adjust_ff_dim", "false"}})
                .layers[0]
                .intermediate,
            12);
}

TEST(Lfm2, ExpertsBeginBehindTheDenseLayers) {
  const Fields mixed = {{"architectures", R"(["Lfm2MoeForCausalLM"])"},
                        {"model_type", R"("lfm2_moe")"},
                        {"block_ff_dim", ""},
                        {"intermediate_size", "12"},
                        {"num_dense_layers", "1"},
                        {"num_experts", "4"},
                        {"num_experts_per_tok", "2"},
                        {"moe_intermediate_size", "6"}};
  const TransformerConfig config = described(mixed);
  EXPECT_EQ(config.layers[0].intermediate, 12) << "not adjusted";
  EXPECT_EQ(config.layers[0].experts.count, 0);
  EXPECT_EQ(config.layers[1].experts.count, 4);
  EXPECT_TRUE(config.layers[2].experts.normalized) << "by default";
}

TEST(Lfm2, EveryBadFieldIsRefusedByName) {
  struct Bad {
    const char* field;
    const char* value;
    const char* words;
  };
  for (const Bad& bad : std::vector<Bad>{
           {"conv_bias", "true", "field conv_bias: biased convolutions are not implemented"},
           {"conv_L_cache", "1", "field conv_L_cache"},
           {"conv_L_cache", "", "conv_L_cache is missing"},
           {"rope_theta", "", "rope_theta is missing"},
           {"full_attn_idxs", "[3]", "field full_attn_idxs"},
           {"full_attn_idxs", "", "layer_types is missing"},
           {"layer_types", R"(["conv"])", "field layer_types: must list one type for each of the 3 layers"},
           {"layer_types", R"(["conv", "conv", "linear_attention"])",
            "field layer_types[2]: layer type 'linear_attention' is not part of this architecture"},
           {"block_ffn_dim_multiplier", "-1", "field block_ffn_dim_multiplier: makes an MLP of another size"},
           {"norm_eps", "0", "field norm_eps: must lie between 0 and 1"},
       }) {
    try {
      described({{bad.field, bad.value}});
      ADD_FAILURE() << bad.field << " is read";
    } catch (const Error& error) {
      EXPECT_THAT(error.what(), testing::AllOf(testing::HasSubstr("config.json"), testing::HasSubstr(bad.words)));
    }
  }
}

TEST(Lfm2, MemoryCountsTheInputsOfAConvolutionOnce) {
  const Checkpoint files(external_dir / "lfm2-tiny");
  const MemoryNeed need = model_need(files, in_floats(best_kernels()));
  const ConvolvedSizes sizes = sizes_of(std::get<ConvolutionShape>(describe(files.config()).layers[1].mixer));
  EXPECT_EQ(need.cache_fixed, 3 * (sizes.fixed_bytes() + prefill_chunk * sizes.bytes_per_pending_row()));
  EXPECT_EQ(need.cache_per_position, 2 * AttentionCache::bytes_per_position(2, 8, KvFormat::f32));
}

}  // namespace
}  // namespace draftproof::test::lfm2_test
