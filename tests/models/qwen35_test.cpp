// SPDX-License-Identifier: MIT
// The configs and folders of Qwen3.5: what is read, and what is refused by name.
#include <map>

#include "ref/models/memory.h"
#include "tests/models/fixtures.h"

namespace draftproof::test::qwen35_test {
namespace {

/// A text model's config by field; the values are JSON text.
using Fields = std::map<std::string, std::string>;

const Fields good = {
    {"architectures", R"(["Qwen3_5ForCausalLM"])"},
    {"model_type", R"("qwen3_5_text")"},
    {"vocab_size", "10"},
    {"hidden_size", "8"},
    {"num_hidden_layers", "5"},
    {"num_attention_heads", "2"},
    {"num_key_value_heads", "1"},
    {"head_dim", "16"},
    {"intermediate_size", "5"},
    {"max_position_embeddings", "64"},
    {"rms_norm_eps", "1e-6"},
    {"hidden_act", R"("silu")"},
    {"full_attention_interval", "2"},
    {"rope_parameters", R"({"rope_type": "default", "rope_theta": 1e4, "partial_rotary_factor": 0.5})"},
    {"linear_conv_kernel_dim", "4"},
    {"linear_num_key_heads", "2"},
    {"linear_num_value_heads", "6"},
    {"linear_key_head_dim", "4"},
    {"linear_value_head_dim", "3"},
};

std::string json_of(const Fields& fields) {
  std::string text = "{";
  for (const auto& [name, value] : fields) text += (text.size() > 1 ? ", \"" : "\"") + name + "\": " + value;
  return text + "}";
}

TransformerConfig described(const std::string& json) { return describe(Json::parse(json, "config.json")); }

/// The fields of `good` with others; empty: without that field.
Fields with(const Fields& others) {
  Fields fields = good;
  for (const auto& [name, value] : others) {
    if (value.empty()) fields.erase(name);
    else fields[name] = value;
  }
  return fields;
}

/// One letter for each layer: a for attention, r for a recurrence.
std::string kinds_of(const TransformerConfig& config) {
  std::string kinds;
  for (const LayerConfig& layer : config.layers) {
    kinds += std::holds_alternative<AttentionLayer>(layer.mixer) ? 'a' : 'r';
  }
  return kinds;
}

TEST(Qwen35, ReadsAConfigFlatOrNested) {
  const std::string nested = R"({"model_type": "qwen3_5", "architectures": ["Qwen3_5ForConditionalGeneration"],)"
                             R"( "vision_config": {"hidden_size": 3}, "text_config": )" +
                             json_of(good) + "}";
  for (const std::string& json : {json_of(good), nested}) {
    const TransformerConfig config = described(json);
    EXPECT_EQ(kinds_of(config), "rarar");
    EXPECT_EQ(config.attention(1).q_width(), 32);
    EXPECT_EQ(config.attention(1).projected(), 32 + 16 + 16 + 32);
    EXPECT_EQ(config.ropes[0].frequencies, default_rope(1e4, 8).frequencies) << "8 of 16 dimensions";
    EXPECT_EQ(std::get<RecurrentShape>(config.layers[0].mixer).channels(), 2 * 8 + 18);
    EXPECT_EQ(config.norm_offset, 1);
  }
  EXPECT_EQ(kinds_of(described(json_of(with({{"full_attention_interval", ""}})))), "rrrar");
  EXPECT_EQ(kinds_of(described(json_of(with({{"layer_types", R"(["full_attention", "linear_attention",
      "linear_attention", "full_attention", "full_attention"])"}})))),
            "arraa")
      << "the list decides";
  const Fields by_default = with({{"rope_parameters", ""}, {"rope_theta", "1e4"}});
  EXPECT_EQ(described(json_of(by_default)).ropes[0].frequencies.size(), 2U) << "a quarter of 16 dimensions";
}

TEST(Qwen35, EveryBadFieldIsRefusedByName) {
  struct Bad {
    const char* field;
    const char* value;
    const char* words;
  };
  for (const Bad& bad : std::vector<Bad>{
           {"head_dim", "", "head_dim is missing"},
           {"num_key_value_heads", "", "num_key_value_heads is missing"},
           {"hidden_act", R"("gelu")", "field hidden_act: activation 'gelu' is not implemented"},
           {"attention_bias", "true", "field attention_bias: biased projections are not implemented"},
           {"attn_output_gate", "false", "field attn_output_gate: attention without a gate is not implemented"},
           {"output_gate_type", R"("sigmoid")", "field output_gate_type: gate 'sigmoid' is not implemented"},
           {"use_sliding_window", "true", "field use_sliding_window: sliding windows are not part"},
           {"final_logit_softcapping", "30", "field final_logit_softcapping: soft-capped logits"},
           {"full_attention_interval", "0", "field full_attention_interval"},
           {"layer_types", R"(["full_attention"])", "field layer_types: must list one type for each of the 5 layers"},
           {"layer_types",
            R"(["full_attention", "full_attention", "full_attention", "full_attention", "sliding_attention"])",
            "field layer_types[4]: layer type 'sliding_attention' is not part of this architecture"},
           {"linear_num_value_heads", "5", "field linear_num_key_heads: must divide the number of value heads, 5"},
           {"linear_key_head_dim", "16777216", "field linear_num_key_heads: makes all heads together larger"},
           {"linear_conv_kernel_dim", "1", "field linear_conv_kernel_dim"},
           {"linear_value_head_dim", "", "linear_value_head_dim is missing"},
           {"partial_rotary_factor", "0.25", "partial_rotary_factor: differs from another partial_rotary_factor"},
           {"rope_parameters", R"({"partial_rotary_factor": 0.2})", "makes RoPE turn 3 of 16 values of a head"},
           {"rope_parameters", R"({"partial_rotary_factor": 2})", "partial_rotary_factor: must lie above 0"},
           {"mtp_num_hidden_layers", "-1", "field mtp_num_hidden_layers"},
           {"model_type", R"("qwen3_next")", "is not a target draftproof knows"},
       }) {
    try {
      described(json_of(with({{bad.field, bad.value}})));
      ADD_FAILURE() << bad.field << " is read";
    } catch (const Error& error) {
      EXPECT_THAT(error.what(), testing::AllOf(testing::HasSubstr("config.json"), testing::HasSubstr(bad.words)));
    }
  }
}

/// A copy of a folder in which the names of tensors that contain `from` say `to`, which is as long.
void copy_renamed(const std::filesystem::path& folder, const std::string& from, const std::string& to,
                  const TemporaryFolder& copy) {
  std::filesystem::copy(folder / "config.json", copy.path() / "config.json");
  std::string bytes = bytes_of_file(folder / "model.safetensors");
  const std::size_t at = bytes.find(from);
  ASSERT_NE(at, std::string::npos);
  ASSERT_EQ(from.size(), to.size());
  copy.write("model.safetensors", bytes.replace(at, from.size(), to));
}

TEST(Qwen35, TensorsThatAreMissingOrUnknownAreRefusedUnderTheirNamesInTheFile) {
  const std::filesystem::path folder = external_dir / "qwen35-tiny-nested";
  const auto error_of_renamed = [&](const std::string& from, const std::string& to) -> std::string {
    const TemporaryFolder copy;
    copy_renamed(folder, from, to, copy);
    try {
      load_model(Checkpoint(copy.path()), best_kernels());
    } catch (const Error& error) {
      return error.what();
    }
    return "";
  };
  EXPECT_THAT(error_of_renamed("layers.2.linear_attn.dt_bias", "layers.2.linear_attn.xx_bias"),
              testing::HasSubstr("'model.language_model.layers.2.linear_attn.dt_bias'"));
  EXPECT_THAT(error_of_renamed("model.visual.blocks.0.norm1.bias", "model.visuaX.blocks.0.norm1.bias"),
              testing::HasSubstr("tensor model.visuaX.blocks.0.norm1.bias is not part of the architecture"));
  EXPECT_EQ(error_of_renamed("mtp.fc.weight", "mtp.xx.weight"), "") << "MTP stays in the file";
}

/// A copy as MLX's converter leaves it: its names, the taps of convolutions last but one, norms with 1 added, those of
/// delta nets as they are. With `add_one` false that step is forgotten.
void copy_as_mlx(const std::filesystem::path& original, bool add_one, const TemporaryFolder& copy) {
  const Checkpoint from(original);
  std::vector<Tensor> tensors;
  for (const auto& [name, tensor] : from.tensors()) {
    Tensor one = {"language_model." + name, tensor.type_name, tensor.shape, stored_bytes(tensor)};
    if (name.ends_with("conv1d.weight")) one.shape = {tensor.shape[0], tensor.shape[2], 1};
    if (add_one && name.ends_with("norm.weight") && !name.ends_with("linear_attn.norm.weight")) {
      std::vector<float> values = from.floats(name, tensor.shape);
      for (float& value : values) value += 1;
      one = {one.name, "F32", tensor.shape, bytes_of(values)};
    }
    tensors.push_back(one);
  }
  copy.write("model.safetensors", safetensors(tensors));
  std::filesystem::copy(original / "config.json", copy.path() / "config.json");
}

TEST(Qwen35, AFolderOfMlxHasTheBitsOfTheOriginal) {
  const std::filesystem::path folder = external_dir / "qwen35-tiny-irregular";
  const auto reading = [](const std::filesystem::path& path) {
    const auto model = load_model(Checkpoint(path), best_kernels());
    return read(*model, some_text(30, model->vocabulary()), {0});
  };
  const Reading want = reading(folder);
  const TemporaryFolder copy;
  copy_as_mlx(folder, true, copy);
  EXPECT_EQ(reading(copy.path()), want);
  const TemporaryFolder forgotten;
  copy_as_mlx(folder, false, forgotten);
  EXPECT_FALSE(reading(forgotten.path()) == want);
}

TEST(Qwen35, MemoryCountsTheStatesOfATextOnce) {
  const std::filesystem::path folder = external_dir / "qwen35-tiny-nested";
  const MemoryNeed need = model_need(Checkpoint(folder), in_floats(best_kernels()));
  const RecurrentShape shape = std::get<RecurrentShape>(describe(Checkpoint(folder).config()).layers[0].mixer);
  EXPECT_EQ(need.cache_fixed,
            3 * (sizes_of(shape).fixed_bytes() + prefill_chunk * sizes_of(shape).bytes_per_pending_row()));
  EXPECT_EQ(need.cache_per_position, AttentionCache::bytes_per_position(1, 16, KvFormat::f32));
}

}  // namespace
}  // namespace draftproof::test::qwen35_test
