// SPDX-License-Identifier: MIT
// The configs of architectures with Mamba-2 layers: what is read, and what is refused by name.
#include "ref/models/state_space.h"

#include <map>

#include "ref/models/memory.h"
#include "tests/models/fixtures.h"

namespace draftproof::test::state_space_test {
namespace {

/// A config by field; the values are JSON text.
using Fields = std::map<std::string, std::string>;

const Fields mamba2 = {
    {"architectures", R"(["Mamba2ForCausalLM"])"},
    {"model_type", R"("mamba2")"},
    {"vocab_size", "10"},
    {"hidden_size", "8"},
    {"num_hidden_layers", "2"},
    {"num_heads", "4"},
    {"head_dim", "4"},
    {"n_groups", "2"},
    {"state_size", "5"},
    {"conv_kernel", "4"},
    {"expand", "2"},
    {"layer_norm_epsilon", "1e-5"},
    {"time_step_limit", R"([0.0, {"__float__": "Infinity"}])"},
};
const Fields granite = {
    {"architectures", R"(["GraniteMoeHybridForCausalLM"])"},
    {"model_type", R"("granitemoehybrid")"},
    {"vocab_size", "10"},
    {"hidden_size", "8"},
    {"num_hidden_layers", "2"},
    {"num_attention_heads", "2"},
    {"max_position_embeddings", "64"},
    {"intermediate_size", "6"},
    {"shared_intermediate_size", "7"},
    {"num_local_experts", "0"},
    {"layer_types", R"(["mamba", "attention"])"},
    {"position_embedding_type", R"("nope")"},
    {"rope_theta", "1e4"},
    {"mamba_n_heads", "4"},
    {"mamba_d_head", "4"},
    {"mamba_n_groups", "1"},
    {"mamba_d_state", "5"},
    {"mamba_d_conv", "4"},
    {"mamba_expand", "2"},
};

const Fields falcon = {
    {"architectures", R"(["FalconH1ForCausalLM"])"},
    {"model_type", R"("falcon_h1")"},
    {"vocab_size", "10"},
    {"hidden_size", "8"},
    {"num_hidden_layers", "2"},
    {"num_attention_heads", "2"},
    {"max_position_embeddings", "64"},
    {"intermediate_size", "6"},
    {"rope_theta", "1e4"},
    {"attention_in_multiplier", "2"},
    {"key_multiplier", "0.5"},
    {"embedding_multiplier", "3"},
    {"lm_head_multiplier", "0.25"},
    {"mamba_n_heads", "4"},
    {"mamba_d_head", "5"},
    {"mamba_d_ssm", "20"},
    {"mamba_n_groups", "1"},
    {"mamba_d_state", "5"},
    {"mamba_d_conv", "4"},
    {"mamba_expand", "2"},
};
const Fields nemotron = {
    {"architectures", R"(["NemotronHForCausalLM"])"},
    {"model_type", R"("nemotron_h")"},
    {"vocab_size", "10"},
    {"hidden_size", "8"},
    {"hybrid_override_pattern", R"("M-*E")"},
    {"num_attention_heads", "2"},
    {"head_dim", "6"},
    {"max_position_embeddings", "64"},
    {"intermediate_size", "6"},
    {"mamba_num_heads", "4"},
    {"mamba_head_dim", "5"},
    {"n_groups", "1"},
    {"ssm_state_size", "5"},
    {"conv_kernel", "4"},
    {"expand", "2"},
    {"n_routed_experts", "4"},
    {"num_experts_per_tok", "2"},
    {"moe_intermediate_size", "7"},
    {"moe_shared_expert_intermediate_size", "9"},
};

const Fields jamba = {
    {"architectures", R"(["JambaForCausalLM"])"},
    {"model_type", R"("jamba")"},
    {"vocab_size", "10"},
    {"hidden_size", "20"},
    {"num_hidden_layers", "4"},
    {"num_attention_heads", "2"},
    {"max_position_embeddings", "64"},
    {"intermediate_size", "6"},
    {"num_experts", "3"},
    {"num_experts_per_tok", "2"},
    {"attn_layer_period", "3"},
    {"attn_layer_offset", "1"},
    {"expert_layer_period", "2"},
    {"expert_layer_offset", "1"},
    {"mamba_expand", "2"},
    {"mamba_d_state", "5"},
    {"mamba_d_conv", "4"},
    {"mamba_dt_rank", R"("auto")"},
};

/// The fields with others; empty: without that field.
TransformerConfig described(Fields fields, const Fields& others = {}) {
  for (const auto& [name, value] : others) {
    if (value.empty()) fields.erase(name);
    else fields[name] = value;
  }
  std::string text = "{";
  for (const auto& [name, value] : fields) text += (text.size() > 1 ? ", \"" : "\"") + name + "\": " + value;
  return describe(Json::parse(text + "}", "config.json"));
}

TEST(Mamba2, EveryLayerRecursAndNoneHasAnMlp) {
  const TransformerConfig config = described(mamba2);
  EXPECT_EQ(config.context, 1 << 20) << "a text may have any length";
  for (const LayerConfig& layer : config.layers) {
    const auto& shape = std::get<StateSpaceShape>(layer.mixer);
    EXPECT_EQ(shape.channels(), 16 + 2 * 2 * 5);
    EXPECT_EQ(layer.intermediate, 0);
  }
}

TEST(GraniteHybrid, LayersRecurOrAttendWithoutRope) {
  for (const char* types : {R"(["mamba", "attention"])", R"(["linear_attention", "full_attention"])"}) {
    const TransformerConfig config = described(granite, {{"layer_types", types}});
    EXPECT_EQ(std::get<StateSpaceShape>(config.layers[0].mixer).inner(), 16);
    EXPECT_EQ(config.attention(1).rope, AttentionLayer::no_rope);
    EXPECT_EQ(config.layers[0].intermediate, 7);
    EXPECT_EQ(config.layers[0].experts.count, 0);
  }
  EXPECT_EQ(described(granite, {{"position_embedding_type", R"("rope")"}}).attention(1).rope, 0);
  EXPECT_EQ(described(granite, {{"position_embedding_type", "null"}}).attention(1).rope, AttentionLayer::no_rope);
  const Fields experts = {{"num_local_experts", "3"}, {"num_experts_per_tok", "2"}};
  EXPECT_EQ(described(granite, experts).layers[1].experts.intermediate, 6);
}

TEST(FalconH1, EveryLayerAttendsAndRecurs) {
  const TransformerConfig config = described(falcon);
  EXPECT_EQ(config.layers[1].beside->inner(), 20);
  EXPECT_EQ(config.attention(1).shape.scale, 0.5F * 4 * 0.5F) << "of heads, what keys and queries read, keys";
  EXPECT_EQ(config.embedding_scale, 3);
  EXPECT_EQ(config.logit_scale, 0.25F);
  EXPECT_EQ(config.cache_of(1), 2);
  EXPECT_EQ(described(falcon, {{"mamba_d_ssm", ""}, {"mamba_d_head", "4"}}).layers[0].beside->inner(), 16);
}

TEST(NemotronH, ALayerIsOfOneKind) {
  const Fields listed = {{"hybrid_override_pattern", ""},
                         {"layers_block_type", R"(["mamba", "mlp", "full_attention", "moe"])"}};
  for (const Fields& spelling : {Fields(), listed}) {
    const TransformerConfig config = described(nemotron, spelling);
    EXPECT_EQ(std::get<StateSpaceShape>(config.layers[0].mixer).inner(), 20);
    EXPECT_EQ(config.layers[1].intermediate, 6);
    EXPECT_EQ(config.attention(2).rope, AttentionLayer::no_rope);
    EXPECT_EQ(config.attention(2).shape.head_dim, 6);
    EXPECT_EQ(config.layers[3].experts.shared, 9);
    EXPECT_FALSE(config.layers[3].experts.gated);
    EXPECT_EQ(config.cache_of(2), 1) << "an MLP has no cache";
  }
  const Fields older = {{"head_dim", ""}, {"attention_head_dim", "4"}};
  EXPECT_EQ(described(nemotron, older).attention(2).shape.head_dim, 4);
}

TEST(Jamba, LayersScanOrAttendAndSomeHaveExperts) {
  const TransformerConfig config = described(jamba);
  EXPECT_EQ(std::get<SelectiveScanShape>(config.layers[0].mixer).channels, 40);
  EXPECT_EQ(std::get<SelectiveScanShape>(config.layers[0].mixer).step_rank, 2)
      << "a sixteenth of the width, rounded up";
  EXPECT_EQ(config.attention(1).rope, AttentionLayer::no_rope);
  EXPECT_EQ(config.layers[1].experts.count, 3);
  EXPECT_EQ(config.layers[2].experts.count, 0);
  EXPECT_EQ(config.layers[2].intermediate, 6);
  EXPECT_EQ(described(jamba, {{"num_experts", "1"}}).layers[1].experts.count, 0);
}

TEST(StateSpace, EveryBadFieldIsRefusedByName) {
  struct Bad {
    const Fields& fields;
    const char* field;
    const char* value;
    const char* words;
  };
  for (const Bad& bad : std::vector<Bad>{
           {mamba2, "n_groups", "3", "field n_groups: must divide the number of heads, 4"},
           {mamba2, "num_heads", "", "num_heads is missing"},
           {mamba2, "state_size", "0", "field state_size"},
           {mamba2, "conv_kernel", "1", "field conv_kernel"},
           {mamba2, "expand", "3", "field expand: makes a width of 24, but that of the heads is 16"},
           {mamba2, "head_dim", "16777216", "field num_heads: makes all heads together larger"},
           {mamba2, "use_bias", "true", "field use_bias: biased projections are not implemented"},
           {mamba2, "use_conv_bias", "false", "field use_conv_bias: a convolution without a bias is not implemented"},
           {mamba2, "hidden_act", R"("gelu")", "field hidden_act: activation 'gelu' is not implemented"},
           {mamba2, "time_step_limit", "[0.0, 1.0]", "field time_step_limit: limits of steps are not implemented"},
           {mamba2, "time_step_limit", R"([0.1, {"__float__": "Infinity"}])", "field time_step_limit: limits of steps"},
           {granite, "mamba_proj_bias", "true", "field mamba_proj_bias: biased projections are not implemented"},
           {granite, "attention_bias", "true", "field attention_bias: biased projections are not implemented"},
           {granite, "layer_types", R"(["mamba"])", "field layer_types: must list one type for each of the 2 layers"},
           {granite, "layer_types", R"(["mamba", "conv"])", "field layer_types[1]: layer type 'conv' is not part"},
           {granite, "position_embedding_type", R"("alibi")",
            "field position_embedding_type: must be 'rope' or 'nope'"},
           {granite, "shared_intermediate_size", "", "shared_intermediate_size is missing"},
           {granite, "residual_multiplier", "-1", "field residual_multiplier: must be a positive float"},
           {falcon, "mamba_d_ssm", "21", "field mamba_d_ssm: makes a width of 21, but that of the heads is 20"},
           {falcon, "mamba_d_ssm", "", "field mamba_expand: makes a width of 16, but that of the heads is 20"},
           {falcon, "ssm_multipliers", "[1, 2]", "field ssm_multipliers: must list 5 factors"},
           {falcon, "ssm_multipliers", "[1, 2, 0, 1, 1]", "field ssm_multipliers[2]: must be a positive float"},
           {falcon, "mlp_multipliers", "3", "field mlp_multipliers: must list 2 factors"},
           {falcon, "key_multiplier", "1e60", "field key_multiplier: must be a positive float"},
           {falcon, "projectors_bias", "true", "field projectors_bias: biased projections are not implemented"},
           {falcon, "mamba_rms_norm", "1", "field mamba_rms_norm"},
           {nemotron, "hybrid_override_pattern", R"("M-*X")", "layer type 'X' is not part of this architecture"},
           {nemotron, "hybrid_override_pattern", R"("")",
            "field hybrid_override_pattern: must name between 1 and 1024"},
           {nemotron, "hybrid_override_pattern", "", "layers_block_type is missing"},
           {nemotron, "num_hidden_layers", "5", "field hybrid_override_pattern: must name one type for each of the 5"},
           {nemotron, "mlp_hidden_act", R"("silu")", "field mlp_hidden_act: activation 'silu' is not implemented"},
           {nemotron, "moe_latent_size", "0", "field moe_latent_size"},
           {nemotron, "sliding_window", "4", "field sliding_window: a window is not implemented"},
           {nemotron, "n_routed_experts", "0", "field n_routed_experts"},
           {jamba, "attn_layer_offset", "3", "field attn_layer_offset"},
           {jamba, "attn_layer_period", "0", "field attn_layer_period"},
           {jamba, "expert_layer_offset", "2", "field expert_layer_offset"},
           {jamba, "mamba_dt_rank", "0", "field mamba_dt_rank"},
           {jamba, "mamba_d_state", "0", "field mamba_d_state"},
           {jamba, "mamba_d_conv", "1", "field mamba_d_conv"},
           {jamba, "mamba_expand", "1e9", "field mamba_expand"},
           {jamba, "mamba_proj_bias", "true", "field mamba_proj_bias: biased projections are not implemented"},
           {jamba, "mamba_conv_bias", "false", "field mamba_conv_bias: a convolution without a bias"},
           {jamba, "sliding_window", "4", "field sliding_window: a window is not implemented"},
           {jamba, "num_experts_per_tok", "4", "field num_experts_per_tok"},
       }) {
    try {
      described(bad.fields, {{bad.field, bad.value}});
      ADD_FAILURE() << bad.field << " is read";
    } catch (const Error& error) {
      EXPECT_THAT(error.what(), testing::AllOf(testing::HasSubstr("config.json"), testing::HasSubstr(bad.words)));
    }
  }
}

TEST(StateSpace, MemoryCountsTheStatesOfATextOnce) {
  const Checkpoint files(external_dir / "mamba2-tiny");
  const MemoryNeed need = model_need(files, in_floats(best_kernels()));
  const ConvolvedSizes sizes = *recurrent_sizes(describe(files.config()).layers[0]);
  EXPECT_EQ(need.cache_fixed, 3 * (sizes.fixed_bytes() + prefill_chunk * sizes.bytes_per_pending_row()));
  EXPECT_EQ(need.cache_per_position, 0U);
}

TEST(StateSpace, MemoryCountsTheCachesOfMixersSideBySideAndOfLayersThatHaveNone) {
  const Checkpoint falcon_files(external_dir / "falcon-h1-tiny");
  const Checkpoint nemotron_files(external_dir / "nemotron-h-tiny");
  const Checkpoint jamba_files(external_dir / "jamba-tiny");
  for (const auto& [files, states, attended] :
       {std::tuple(&falcon_files, 2U, 2U), {&nemotron_files, 2U, 1U}, {&jamba_files, 3U, 1U}}) {
    const MemoryNeed need = model_need(*files, in_floats(best_kernels()));
    const TransformerConfig config = describe(files->config());
    const ConvolvedSizes sizes = *recurrent_sizes(config.layers[0]);
    EXPECT_EQ(need.cache_fixed, states * (sizes.fixed_bytes() + prefill_chunk * sizes.bytes_per_pending_row()));
    const int dim = config.attention(files == &nemotron_files ? 2 : 1).shape.head_dim;
    EXPECT_EQ(need.cache_per_position, attended * AttentionCache::bytes_per_position(2, dim, KvFormat::f32));
  }
}

TEST(StateSpace, ATensorThatIsMissingIsNamedAsInTheFile) {
  const TemporaryFolder copy;
  const std::filesystem::path folder = external_dir / "mamba2-tiny";
  std::filesystem::copy(folder / "config.json", copy.path() / "config.json");
  std::string bytes = bytes_of_file(folder / "model.safetensors");
  const std::string name = "backbone.layers.1.mixer.dt_bias";
  const std::size_t at = bytes.find(name);
  ASSERT_NE(at, std::string::npos);
  copy.write("model.safetensors", bytes.replace(at, name.size(), "backbone.layers.1.mixer.xx_bias"));
  try {
    load_model(Checkpoint(copy.path()), best_kernels());
    FAIL();
  } catch (const Error& error) {
    EXPECT_THAT(error.what(), testing::HasSubstr("'" + name + "'"));
  }
}

}  // namespace
}  // namespace draftproof::test::state_space_test
