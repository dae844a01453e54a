// SPDX-License-Identifier: MIT
#include "ref/formats/gguf.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <tuple>

#include "kernels/formats.h"
#include "ref/base/error.h"
#include "ref/formats/gguf_writer.h"
#include "tests/formats/files.h"
#include "tests/formats/gguf_bytes.h"

namespace draftproof::gguf_test {
namespace {

using test::GgufBytes;
using ::testing::HasSubstr;
using ::testing::StartsWith;

class GgufHeader : public ::testing::Test {
 protected:
  std::map<std::string, GgufValue> read(const std::string& bytes) {
    folder_.write("x.gguf", bytes);
    return read_gguf_metadata(path_);
  }
  std::string error(const std::string& bytes) {
    try {
      read(bytes);
    } catch (const Error& error) {
      EXPECT_THAT(error.what(), StartsWith(path_.string() + ": "));
      return error.what();
    }
    return {};
  }

  TemporaryFolder folder_;
  std::filesystem::path path_ = folder_.path() / "x.gguf";
};

TEST_F(GgufHeader, ReadsEveryTypeInBothVersions) {
  GgufBytes file;
  file.put("u8", 0, GgufBytes::raw(std::uint8_t{200}));
  file.put("i8", 1, GgufBytes::raw(std::int8_t{-3}));
  file.put("u16", 2, GgufBytes::raw(std::uint16_t{60000}));
  file.put("i16", 3, GgufBytes::raw(std::int16_t{-300}));
  file.put("u32", 4, GgufBytes::raw(std::uint32_t{4000000000}));
  file.put("i32", 5, GgufBytes::raw(std::int32_t{-70000}));
  file.put("f32", 6, GgufBytes::raw(0.5F));
  file.truth("yes", true);
  file.text("text", "h\xC3\xA9");
  file.put("u64", 10, GgufBytes::raw(~std::uint64_t{0}));
  file.put("i64", 11, GgufBytes::raw(std::int64_t{-5}));
  file.put("f64", 12, GgufBytes::raw(-2.25));
  file.texts("texts", {"a", "", "bc"});
  file.integers("i32s", {1, -2});
  file.put("truths", 9, GgufBytes::array_head(7, 2) + std::string("\1\0", 2));
  file.put("f32s", 9, GgufBytes::array_head(6, 1) + GgufBytes::raw(1.5F));
  file.put("arrays", 9,
           GgufBytes::array_head(9, 2) + GgufBytes::array_head(0, 2) + "\1\2" + GgufBytes::array_head(8, 1) +
               GgufBytes::raw_text("x"));
  file.put("u8s", 9, GgufBytes::array_head(0, 1) + "\xFF");
  for (const std::uint32_t version : {2u, 3u}) {
    const auto values = read(file.bytes(version));
    EXPECT_EQ(values.size(), 18u);
    EXPECT_EQ(values.at("u8"), GgufValue(std::uint64_t{200}));
    EXPECT_EQ(values.at("i8"), GgufValue(std::int64_t{-3}));
    EXPECT_EQ(values.at("u16"), GgufValue(std::uint64_t{60000}));
    EXPECT_EQ(values.at("i16"), GgufValue(std::int64_t{-300}));
    EXPECT_EQ(values.at("u32"), GgufValue(std::uint64_t{4000000000}));
    EXPECT_EQ(values.at("i32"), GgufValue(std::int64_t{-70000}));
    EXPECT_EQ(values.at("f32"), GgufValue(0.5));
    EXPECT_EQ(values.at("yes"), GgufValue(true));
    EXPECT_EQ(values.at("text"), GgufValue(std::string("h\xC3\xA9")));
    EXPECT_EQ(values.at("u64"), GgufValue(~std::uint64_t{0}));
    EXPECT_EQ(values.at("i64"), GgufValue(std::int64_t{-5}));
    EXPECT_EQ(values.at("f64"), GgufValue(-2.25));
    EXPECT_EQ(values.at("texts"), GgufValue(std::vector<std::string>{"a", "", "bc"}));
    EXPECT_EQ(values.at("i32s"), GgufValue(std::vector<std::int64_t>{1, -2}));
    EXPECT_EQ(values.at("truths"), GgufValue(std::vector<std::uint64_t>{1, 0}));
    EXPECT_EQ(values.at("f32s"), GgufValue(std::vector<double>{1.5}));
    EXPECT_EQ(values.at("arrays"),
              GgufValue(std::vector<GgufElement>{{std::vector<std::uint64_t>{1, 2}}, {std::vector<std::string>{"x"}}}));
    EXPECT_EQ(values.at("u8s"), GgufValue(std::vector<std::uint64_t>{255}));
  }
}

TEST_F(GgufHeader, RejectsOtherFiles) {
  EXPECT_THAT(error(""), HasSubstr("is not GGUF"));
  EXPECT_THAT(error("GGML????????????????????"), HasSubstr("is not GGUF"));
  EXPECT_THAT(error(GgufBytes().bytes(1)), HasSubstr("GGUF version 1"));
  EXPECT_THAT(error(GgufBytes().bytes(0x03000000)), HasSubstr("little-endian"));
  EXPECT_THAT(error("GGUF" + GgufBytes::raw(std::uint32_t{3}) + GgufBytes::raw(std::uint64_t{0}) +
                    GgufBytes::raw(std::uint64_t{1} << 60)),
              HasSubstr("metadata keys"));
  EXPECT_THROW(read_gguf_metadata(path_ / "absent"), Error);
  EXPECT_THROW(read_gguf_metadata(std::filesystem::temp_directory_path()), Error);
}

TEST_F(GgufHeader, NamesTheInvalidKey) {
  const auto one = [](std::uint32_t type, const std::string& bytes) {
    return GgufBytes().put("k", type, bytes).bytes();
  };
  const std::uint64_t huge = std::uint64_t{1} << 62;
  const auto nested = [](int depth) {
    std::string heads;
    for (int level = 0; level < depth; ++level) heads += GgufBytes::array_head(9, 1);
    return heads;
  };
  const std::pair<std::string, std::string> cases[] = {
      {one(13, ""), "unknown value type 13"},
      {one(0xFFFFFFFF, ""), "unknown value type"},
      {one(9, nested(5) + GgufBytes::array_head(0, 0)), "deeper than 4 levels"},
      {one(9, nested(100'000)), "deeper than 4 levels"},
      {one(9, GgufBytes::array_head(9, 2) + GgufBytes::array_head(0, 0)), "beyond the end"},
      {one(9, GgufBytes::array_head(13, 0)), "unknown value type 13"},
      {one(9, GgufBytes::array_head(0, huge)), "elements"},
      {one(9, GgufBytes::array_head(10, 1000)), "beyond the end"},
      {one(9, GgufBytes::array_head(8, 1000)), "beyond the end"},
      {one(8, GgufBytes::raw(huge)), "too long here"},
      {one(10, "1234"), "beyond the end"},
      {one(7, "\2"), "boolean of value 2"},
      {GgufBytes().number("k", 1).number("k", 2).bytes(), "occurs twice"},
  };
  for (const auto& [bytes, what] : cases) {
    EXPECT_THAT(error(bytes), HasSubstr(what));
    EXPECT_THAT(error(bytes), HasSubstr(": field k: "));
  }
  EXPECT_THAT(error(GgufBytes().number("", 1).bytes()), HasSubstr("metadata key 0"));
  EXPECT_THAT(error(GgufBytes().number("a\n", 1).bytes()), HasSubstr("metadata key 0"));
}

TEST_F(GgufHeader, RejectsEveryPrefixAndSurvivesEveryChangedByte) {
  const std::string good =
      GgufBytes().text("a", "text").texts("b", {"x", "y"}).integers("c", {1, 2}).truth("d", true).bytes();
  for (std::size_t length = 0; length < good.size(); ++length) EXPECT_NE(error(good.substr(0, length)), "") << length;
  for (std::size_t at = 0; at < good.size(); ++at) {
    for (const char changed : {'\1', '\xFF'}) {
      std::string bytes = good;
      bytes[at] = changed;
      error(bytes);
    }
  }
}

const std::filesystem::path blocks_dir = source_dir / "fixtures/external/gguf-blocks";

/// Returns the floats of all tensors with a supported format, by name.
std::string all_values(const std::map<std::string, StoredTensor>& tensors) {
  std::string values;
  for (const auto& [name, tensor] : tensors) {
    if (!tensor.format) continue;
    const std::string bytes = stored_bytes(tensor);
    std::vector<float> row(*elements(tensor.shape));
    dequantize_row(*tensor.format, bytes.data(), static_cast<int>(row.size()), row.data());
    values += bytes_of(row);
  }
  return values;
}

TEST(GgufFiles, OfGgufPyAreReadAsOneFileAsASplitAndAtAnotherAlignment) {
  for (const char* name : {"small.gguf", "aligned64.gguf", "split-00001-of-00003.gguf"}) {
    const Gguf file(blocks_dir / name);
    EXPECT_EQ(file.tensors().size(), 11U) << name;
    EXPECT_EQ(all_values(file.tensors()), bytes_of_file(blocks_dir / "small.values")) << name;
    EXPECT_EQ(file.tensors().at("f32").shape, (std::vector<std::int64_t>{3, 5})) << name;
    EXPECT_EQ(file.tensors().at("q8_0").shape, (std::vector<std::int64_t>{3, 64})) << name;
    EXPECT_EQ(file.tensors().at("q4_k").shape, (std::vector<std::int64_t>{2, 256})) << name;
    for (const auto& [tensor, type, format] : {std::tuple{"i32", "I32", std::optional<Format>()},
                                               {"i64", "I64", {}},
                                               {"f64", "F64", {}},
                                               {"f16", "F16", Format::f16},
                                               {"bf16", "BF16", Format::bf16},
                                               {"q6_k", "Q6_K", Format::q6_k}}) {
      EXPECT_EQ(file.tensors().at(tensor).type_name, type) << name;
      EXPECT_EQ(file.tensors().at(tensor).format, format) << name;
    }
    EXPECT_EQ(stored_bytes(file.tensors().at("i64")), bytes_of<std::int64_t>({0, 1})) << name;
    EXPECT_EQ(*file.find_text("text"), "größe") << name;
    EXPECT_EQ(file.find_integer("number"), 4'000'000'000) << name;
    EXPECT_EQ(file.find_integer("negative"), -(std::int64_t{1} << 40)) << name;
    EXPECT_EQ(file.find_number("third"), 1.0 / 3) << name;
    EXPECT_EQ(file.metadata().at("texts"), GgufValue(std::vector<std::string>{"a", "", "bc"})) << name;
    EXPECT_EQ(file.metadata().at("nested"),
              GgufValue(std::vector<GgufElement>{{std::vector<std::int64_t>{1, 2}}, {std::vector<std::int64_t>{3}}}));
    EXPECT_EQ(file.stored_value("number"), GgufBytes::raw(std::uint32_t{4}) + GgufBytes::raw(4'000'000'000U)) << name;
  }
}

/// What a model is said to be becomes JSON, which is UTF-8.
TEST(GgufFiles, TextsOfAModelThatAreNotUtf8AreRefusedByTheirKey) {
  const TemporaryFolder folder;
  const std::filesystem::path path = folder.path() / "x.gguf";
  GgufFields fields;
  fields.text("general.architecture", "bitnet");
  fields.text("bitnet.hidden_activation", "\x8Elu2");
  write_gguf(path, fields, {});
  const Gguf file(path);
  EXPECT_EQ(*file.find_text("general.architecture"), "bitnet");
  EXPECT_EQ(error_of([&] { file.find_text("bitnet.hidden_activation"); }),
            path.string() + ": field bitnet.hidden_activation: is not UTF-8; the file is damaged, fetch it again");
}

}  // namespace
}  // namespace draftproof::gguf_test
