// SPDX-License-Identifier: MIT
// Models of quantized folders in every scheme: they decode as the same model does when its folder holds the values that
// they are unpacked to, and speculation changes nothing.
#include <gtest/gtest.h>

#include <filesystem>

#include "ref/decoding/engine.h"
#include "ref/formats/checkpoint.h"
#include "tests/decoding/support.h"
#include "tests/folder.h"
#include "tests/formats/files.h"
#include "tests/threads.h"

namespace draftproof::quantized_folders_test {
namespace {

const std::filesystem::path folders =
    std::filesystem::path(DRAFTPROOF_SOURCE_DIR) / "fixtures/external/quantized-folders";

std::vector<std::string> models() {
  std::vector<std::string> names;
  for (const auto& entry : std::filesystem::directory_iterator(folders)) {
    const std::string name = entry.path().filename().string();
    if (entry.is_directory() && name != "mxfp4-experts") names.push_back(name);
  }
  std::sort(names.begin(), names.end());
  return names;
}

/// Writes the model with its values: in their own type where they are floats, else as f32.
void write_unpacked(const Checkpoint& quantized, const std::filesystem::path& folder) {
  std::vector<Tensor> tensors;
  for (const auto& [name, tensor] : quantized.tensors()) {
    const char* const type = tensor.format == Format::bf16 ? "BF16" : tensor.format == Format::f16 ? "F16" : "F32";
    std::string bytes;
    if (is_float(*tensor.format)) {
      for_bytes_of_rows(quantized.weight(name, tensor.shape),
                        [&](const char* rows, std::size_t count) { bytes.append(rows, count); });
    } else {
      bytes = bytes_of(quantized.floats(name, tensor.shape));
    }
    tensors.push_back({name, type, tensor.shape, bytes});
  }
  test::put(folder / "model.safetensors", safetensors(tensors));
  test::put(folder / "config.json", R"({"architectures": ["LlamaForCausalLM"], "model_type": "llama", "vocab_size": 64,
 "hidden_size": 64, "intermediate_size": 96, "num_hidden_layers": 2, "num_attention_heads": 4, "num_key_value_heads": 2,
 "head_dim": 16, "rms_norm_eps": 1e-5, "max_position_embeddings": 256, "rope_theta": 10000.0, "hidden_act": "silu",
 "tie_word_embeddings": false})");
}

std::vector<Token> text_of(ModelFiles& files, const std::string& draft, float temperature) {
  Engine engine(files, best_kernels());
  Asked request = asked({1, 5, 9, 2, 7, 4, 4, 8, 3}, 20, 3, {.temperature = temperature});
  PhiloxSource random(11);
  return engine.decode({.request = request, .execution = request, .draft = draft, .rule = matching, .random = random})
      .output;
}

class QuantizedFolderModel : public testing::TestWithParam<std::string> {};

TEST_P(QuantizedFolderModel, DecodesAsItsUnpackedValuesDoAndSpeculatesToTheSameText) {
  const Threads one(1);
  ModelFiles files(folders / GetParam());
  const test::Folder unpacked;
  write_unpacked(files.target(), unpacked.path());
  ModelFiles floats(unpacked.path());
  const std::vector<Token> greedy = text_of(files, "none", 0);
  EXPECT_EQ(greedy, text_of(floats, "none", 0));
  for (const float temperature : {0.0F, 1.0F}) {
    const std::vector<Token> plain = text_of(files, "none", temperature);
    ASSERT_EQ(plain.size(), 20U);
    EXPECT_EQ(text_of(files, "model:" + (folders / GetParam()).string(), temperature), plain);
    EXPECT_EQ(text_of(files, "model:" + unpacked.path().string(), temperature), plain);
    EXPECT_EQ(text_of(files, "always-reject", temperature), plain);
  }
}

INSTANTIATE_TEST_SUITE_P(All, QuantizedFolderModel, testing::ValuesIn(models()), [](const auto& param) {
  std::string name = param.param;
  std::replace(name.begin(), name.end(), '-', '_');
  return name;
});

}  // namespace
}  // namespace draftproof::quantized_folders_test
