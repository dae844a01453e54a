// SPDX-License-Identifier: MIT
// Models of quantized folders in every scheme: they decode as a GGUF does that has the blocks and floats that their
// matrices are unpacked to, and speculation changes nothing.
#include <gtest/gtest.h>

#include <filesystem>

#include "ref/decoding/engine.h"
#include "ref/formats/checkpoint.h"
#include "ref/formats/gguf/family.h"
#include "ref/formats/gguf_names.h"
#include "ref/formats/gguf_writer.h"
#include "tests/decoding/support.h"
#include "tests/folder.h"
#include "tests/threads.h"

namespace draftproof::quantized_folders_test {
namespace {

const std::filesystem::path folders =
    std::filesystem::path(DRAFTPROOF_SOURCE_DIR) / "fixtures/external/quantized-folders";

constexpr int head_dim = 16;

std::vector<std::string> models() {
  std::vector<std::string> names;
  for (const auto& entry : std::filesystem::directory_iterator(folders)) {
    const std::string name = entry.path().filename().string();
    if (entry.is_directory() && !name.ends_with("-experts")) names.push_back(name);
  }
  std::sort(names.begin(), names.end());
  return names;
}

/// Writes the model as a GGUF of the blocks and floats that its matrices are unpacked to.
std::filesystem::path write_unpacked(const Checkpoint& folder, const std::filesystem::path& file) {
  GgufFields fields;
  fields.text("general.architecture", "llama");
  for (const auto& [key, value] :
       std::initializer_list<std::pair<const char*, std::uint32_t>>{{"block_count", 2},
                                                                    {"context_length", 256},
                                                                    {"embedding_length", 64},
                                                                    {"feed_forward_length", 96},
                                                                    {"attention.head_count", 4},
                                                                    {"attention.head_count_kv", 2},
                                                                    {"attention.key_length", head_dim},
                                                                    {"attention.value_length", head_dim}}) {
    fields.size(std::string("llama.") + key, value);
  }
  fields.number("llama.attention.layer_norm_rms_epsilon", 1e-5F);
  fields.number("llama.rope.freq_base", 10000);
  std::vector<GgufTensor> tensors;
  for (const auto& [name, tensor] : folder.tensors()) {
    const std::string stored = name_in_gguf(gguf_llama.names, name);
    WeightSource rows = folder.weight(name, tensor.shape);
    if (translated(gguf_llama.names, stored).in_heads) {  // the two halves of each head alternate there
      rows.read = [read = rows.read, bytes = rows.bytes_per_row()](int first, int count, void* to) {
        for (int i = 0; i < count; ++i) {
          const int row = (first + i) % head_dim;
          read(first + i - row + row % 2 * head_dim / 2 + row / 2, 1,
               static_cast<std::byte*>(to) + static_cast<std::size_t>(i) * bytes);
        }
      };
    }
    tensors.push_back({stored, rows});
  }
  write_gguf(file, fields, tensors);
  return file;
}

std::vector<Token> text_of(ModelFiles& files, const std::string& draft, float temperature) {
  Engine engine(files, best_kernels());
  Asked request = asked({1, 5, 9, 2, 7, 4, 4, 8, 3}, 20, 3, {.temperature = temperature});
  PhiloxSource random(11);
  return engine.decode({.request = request, .execution = request, .draft = draft, .rule = matching, .random = random})
      .output;
}

class QuantizedFolderModel : public testing::TestWithParam<std::string> {};

TEST_P(QuantizedFolderModel, DecodesAsItsUnpackedBlocksDoAndSpeculatesToTheSameText) {
  const Threads one(1);
  ModelFiles files(folders / GetParam());
  const test::Folder unpacked;
  const std::filesystem::path copy = write_unpacked(files.target(), unpacked.path() / "copy.gguf");
  ModelFiles copied(copy);
  for (const float temperature : {0.0F, 1.0F}) {
    const std::vector<Token> plain = text_of(files, "none", temperature);
    ASSERT_EQ(plain.size(), 20U);
    EXPECT_EQ(text_of(copied, "none", temperature), plain);
    EXPECT_EQ(text_of(files, "model:" + (folders / GetParam()).string(), temperature), plain);
    EXPECT_EQ(text_of(files, "model:" + copy.string(), temperature), plain);
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
