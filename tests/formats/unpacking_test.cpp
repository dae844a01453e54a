// SPDX-License-Identifier: MIT
// Compares formats that are unpacked when read with the values of gguf-py for the same bytes
// (fixtures/external/gguf-blocks); and through a file, by rows and as a whole.
#include "ref/formats/unpacking.h"

#include "ref/formats/checkpoint.h"
#include "ref/formats/gguf_types.h"
#include "tests/formats/files.h"
#include "tests/formats/gguf_bytes.h"

namespace draftproof::unpacking_test {
namespace {

using draftproof::test::GgufBytes;
using ::testing::HasSubstr;

struct Kind {
  const char* name;
  std::uint32_t id;  // in GGUF
  const Unpacking* how;
  std::vector<int> scales;  // offsets of the scales in a block
};

class Unpacked : public ::testing::TestWithParam<Kind> {
 protected:
  std::string stored(const std::string& ending) const {
    return bytes_of_file(source_dir / "fixtures/external/gguf-blocks" / (GetParam().name + ending));
  }
  std::size_t block_bytes() const { return GetParam().how->block_bytes; }
  std::size_t block_inputs() const { return GetParam().how->block_inputs; }
  std::vector<float> values() const {
    const std::string bytes = stored(".values");
    std::vector<float> values(bytes.size() / sizeof(float));
    std::memcpy(values.data(), bytes.data(), bytes.size());
    return values;
  }

  /// A target's file with the blocks as rows of its embedding, `blocks` per row.
  Checkpoint file_of(const std::string& blocks, std::size_t in_row) const {
    const std::uint64_t rows = blocks.size() / block_bytes() / in_row;
    GgufBytes file;
    file.text("general.architecture", "qwen3").number("qwen3.block_count", 1).number("qwen3.context_length", 64);
    file.number("qwen3.embedding_length", 8).number("qwen3.feed_forward_length", 16);
    file.number("qwen3.attention.head_count", 2);
    file.put("qwen3.attention.layer_norm_rms_epsilon", 6, GgufBytes::raw(1e-5F));
    file.tensor("token_embd.weight", {in_row * block_inputs(), rows}, GetParam().id, 0).data(blocks);
    return Checkpoint(folder_.write("x.gguf", file.bytes()));
  }
  TemporaryFolder folder_;
};

TEST_P(Unpacked, BlocksEqualGgufPysValuesBitForBit) {
  const std::string blocks = stored(".blocks");
  const std::vector<float> expected = values();
  ASSERT_GE(blocks.size() / block_bytes(), 32U);
  ASSERT_EQ(blocks.size() / block_bytes() * block_inputs(), expected.size());
  const Format format = GetParam().how->format;
  const int inputs = static_cast<int>(block_inputs());
  std::vector<std::uint8_t> unpacked(row_bytes(format, inputs));
  std::vector<float> found(block_inputs());
  for (std::size_t i = 0; i < blocks.size() / block_bytes(); ++i) {
    unpack_block(*GetParam().how, reinterpret_cast<const std::uint8_t*>(blocks.data()) + i * block_bytes(),
                 unpacked.data());
    dequantize_row(format, unpacked.data(), inputs, found.data());
    const float* const exact = expected.data() + i * block_inputs();
    ASSERT_EQ(std::memcmp(found.data(), exact, block_inputs() * sizeof(float)), 0) << i;
  }
}

TEST_P(Unpacked, RowsOfAFileEqualThoseValuesHoweverManyAreReadAtATime) {
  const std::string blocks = stored(".blocks");
  const std::vector<float> expected = values();
  constexpr std::size_t in_row = 4;
  const Checkpoint checkpoint = file_of(blocks, in_row);
  const int inputs = static_cast<int>(in_row * block_inputs());
  const int outputs = static_cast<int>(expected.size()) / inputs;
  EXPECT_EQ(checkpoint.bytes(), blocks.size());
  EXPECT_EQ(checkpoint.floats("model.embed_tokens.weight", {outputs, inputs}), expected);
  const WeightSource source = checkpoint.weight("model.embed_tokens.weight", outputs, inputs);
  ASSERT_EQ(source.format, GetParam().how->format);
  for (const int rows : {1, 3, outputs}) {
    std::vector<float> found(expected.size());
    for (int first = 0; first < outputs; first += rows) {
      const int count = std::min(rows, outputs - first);
      std::vector<std::uint8_t> bytes(source.bytes_per_row() * static_cast<std::size_t>(count));
      source.read(first, count, bytes.data());
      float* const at = found.data() + static_cast<std::ptrdiff_t>(first) * inputs;
      dequantize_row(source.format, bytes.data(), count * inputs, at);
    }
    EXPECT_EQ(found, expected) << rows;
  }
}

TEST_P(Unpacked, AScaleThatIsNotFiniteIsRejectedWithItsPlace) {
  for (const std::uint16_t half : {0x7C00, 0xFC00, 0x7E00}) {
    for (const int scale : GetParam().scales) {
      std::string blocks(stored(".blocks"), 0, 8 * block_bytes());
      char* const at = blocks.data() + 5 * block_bytes() + scale;
      std::memcpy(at, &half, 2);
      if (GetParam().how == &iq1_m) {  // the high four bits of four words
        for (int i = 0; i < 4; ++i) at[2 * i + 1] = static_cast<char>(half >> 4 * i << 4);
      }
      const Checkpoint checkpoint = file_of(blocks, 2);
      EXPECT_THAT(
          error_of([&] {
            checkpoint.floats("model.embed_tokens.weight", {4, static_cast<int>(2 * block_inputs())});
          }),
          ::testing::AllOf(HasSubstr("x.gguf: tensor 'token_embd.weight' has "),
                           HasSubstr(" as element " + std::to_string(5 * block_inputs()) + "; weights must be finite")))
          << half << " " << scale;
    }
  }
}

TEST_P(Unpacked, RowsThatAreNotWholeBlocksAreRejected) {
  const std::string blocks(stored(".blocks"), 0, 3 * block_bytes());
  GgufBytes file;
  file.text("general.architecture", "qwen3")
      .tensor("token_embd.weight", {block_inputs() * 3 / 2, 2}, GetParam().id, 0)
      .data(blocks);
  const auto path = folder_.write("x.gguf", file.bytes());
  EXPECT_THAT(error_of([&] { Checkpoint checkpoint(path); }),
              HasSubstr("has rows of " + std::to_string(block_inputs() * 3 / 2) + " values, no multiple of the " +
                        std::to_string(block_inputs()) + " of a block of "));
}

const Kind kinds[] = {
    {"iq2_xxs", 16, &iq2_xxs, {0}}, {"iq2_xs", 17, &iq2_xs, {0}}, {"iq3_xxs", 18, &iq3_xxs, {0}},
    {"iq1_s", 19, &iq1_s, {0}},     {"iq3_s", 21, &iq3_s, {0}},   {"iq2_s", 22, &iq2_s, {0}},
    {"iq1_m", 29, &iq1_m, {48}},    {"tq1_0", 34, &tq1_0, {52}},  {"tq2_0", 35, &tq2_0, {64}},
    {"nvfp4", 40, &nvfp4, {}},
};
INSTANTIATE_TEST_SUITE_P(Blocks, Unpacked, ::testing::ValuesIn(kinds),
                         [](const auto& kind) { return std::string(kind.param.name); });

TEST(Unpacking, ATypeThatIsUnpackedIsNeverWritten) {
  for (int i = 0; i < formats; ++i) {
    const auto format = static_cast<Format>(i);
    const GgufTensorType* const type = gguf_tensor_type(format);
    EXPECT_EQ(type == nullptr, is_iq1_to_iq3(format)) << i;
    EXPECT_TRUE(type == nullptr || type->unpacking == nullptr) << i;
  }
}

}  // namespace
}  // namespace draftproof::unpacking_test
