// SPDX-License-Identifier: MIT
#include "ref/formats/checkpoint.h"

#include <algorithm>
#include <cmath>

#include "kernels/formats.h"
#include "tests/formats/files.h"

namespace draftproof {
namespace {

using testing::HasSubstr;

const std::string f32_one = bytes_of<float>({1.0F});

/// The bytes of a matrix, read `rows` rows at a time.
std::string read_in_pieces(const WeightSource& source, int rows) {
  std::string bytes;
  for (int first = 0; first < source.outputs; first += rows) {
    const int count = std::min(rows, source.outputs - first);
    std::string piece(source.bytes_per_row() * static_cast<std::size_t>(count), '\0');
    source.read(first, count, piece.data());
    bytes += piece;
  }
  return bytes;
}

TEST(Checkpoint, ReadsOneFileAtEveryAlignmentOfItsData) {
  const TemporaryFolder folder;
  for (std::size_t padding = 0; padding < 8; ++padding) {
    folder.write("model.safetensors", safetensors({{"w", "F32", {2}, bytes_of<float>({1.5F, -0.0F})},
                                                   {"h", "F16", {1, 2}, bytes_of<std::uint16_t>({0x3C00, 0x0001})},
                                                   {"b", "BF16", {1}, bytes_of<std::uint16_t>({0xC040})}},
                                                  padding));
    const Checkpoint checkpoint(folder.path());
    EXPECT_EQ(checkpoint.path(), folder.path());
    EXPECT_EQ(checkpoint.floats("w", {2}), (std::vector<float>{1.5F, 0.0F}));
    EXPECT_TRUE(std::signbit(checkpoint.floats("w", {2})[1]));
    EXPECT_EQ(checkpoint.floats("h", {1, 2}), (std::vector<float>{1.0F, 0x1p-24F}));
    EXPECT_EQ(checkpoint.floats("b", {1}), (std::vector<float>{-3.0F}));
    EXPECT_EQ(checkpoint.bytes(), 14U);
    EXPECT_TRUE(checkpoint.has("b"));
    EXPECT_FALSE(checkpoint.has("c"));
  }
}

TEST(Checkpoint, NamesFileTensorAndExpectationWhenAWeightDoesNotFit) {
  const TemporaryFolder folder;
  const auto file = folder.write("model.safetensors", safetensors({{"w", "F32", {1, 1}, f32_one},
                                                                   {"i", "I32", {1}, bytes_of<std::int32_t>({1})}}));
  const Checkpoint checkpoint(folder.path());
  EXPECT_EQ(error_of([&] { checkpoint.floats("v", {1}); }),
            folder.path().string() + ": the weights have no tensor 'v' of shape [1]");
  EXPECT_EQ(error_of([&] { checkpoint.weight("w", 1, 2); }),
            file.string() + ": tensor 'w' has shape [1, 1], but the configuration asks for [1, 2]");
  EXPECT_EQ(error_of([&] { checkpoint.floats("i", {1}); }),
            file.string() + ": tensor 'i' has type 'I32', but F32, F16, BF16 or a block format is needed; "
                            "convert the checkpoint");
  EXPECT_THROW(checkpoint.floats("w", {1}), Error);
}

TEST(Checkpoint, FindsTheOneElementThatIsNotFiniteWhereverItIs) {
  struct Type {
    std::string name;
    std::size_t bytes;
    std::vector<std::pair<std::uint32_t, std::string>> not_finite;
    std::uint32_t largest;  // the finite neighbour of infinity
  };
  const std::vector<Type> types{
      {"F32", 4, {{0x7F800000, "inf"}, {0xFF800000, "-inf"}, {0x7FC00000, "nan"}, {0x7F800001, "nan"}}, 0x7F7FFFFF},
      {"F16", 2, {{0x7C00, "inf"}, {0xFC00, "-inf"}, {0x7E00, "nan"}, {0x7C01, "nan"}}, 0x7BFF},
      {"BF16", 2, {{0x7F80, "inf"}, {0xFF80, "-inf"}, {0x7FC0, "nan"}, {0x7F81, "nan"}}, 0x7F7F}};
  const TemporaryFolder folder;
  const std::size_t count = 40'000;  // beyond one piece that is read, and one block of the scan
  for (const Type& type : types) {
    std::string bytes(count * type.bytes, '\0');
    const auto put = [&](std::size_t index, std::uint32_t bits) {
      std::memcpy(bytes.data() + index * type.bytes, &bits, type.bytes);
    };
    for (std::size_t i = 0; i < count; ++i) put(i, type.largest);
    const std::vector<std::int64_t> shape{8, 5000};
    folder.write("model.safetensors", safetensors({{"w", type.name, shape, bytes}}));
    EXPECT_EQ(read_in_pieces(Checkpoint(folder.path()).weight("w", 8, 5000), 3), bytes) << type.name;
    EXPECT_EQ(Checkpoint(folder.path()).floats("w", shape).size(), count) << type.name;
    for (const std::size_t index : {std::size_t{0}, std::size_t{1}, std::size_t{16'383}, std::size_t{16'384},
                                    std::size_t{33'333}, count - 1}) {
      for (const auto& [bits, word] : type.not_finite) {
        put(index, bits);
        const auto file = folder.write("model.safetensors", safetensors({{"w", type.name, shape, bytes}}, index % 4));
        const Checkpoint checkpoint(folder.path());
        const std::string sentence = error_of([&] { read_in_pieces(checkpoint.weight("w", 8, 5000), 3); });
        EXPECT_EQ(error_of([&] { checkpoint.floats("w", shape); }), sentence);
        EXPECT_THAT(sentence, HasSubstr(file.string() + ": tensor 'w' has "));
        EXPECT_THAT(sentence, HasSubstr(word + " as element " + std::to_string(index) + ";"));
        put(index, type.largest);
      }
    }
  }
}

class ShardedCheckpoint : public testing::Test {
 protected:
  void SetUp() override {
    folder.write("one.safetensors", safetensors({{"a", "F32", {1}, f32_one}, {"extra", "F32", {1}, f32_one}}));
    folder.write("two.safetensors", safetensors({{"b", "F32", {1}, bytes_of<float>({2.0F})}}));
  }
  std::filesystem::path index(const std::string& text) const {
    return folder.write("model.safetensors.index.json", text);
  }
  std::string refusal() const {
    return error_of([&] { Checkpoint checkpoint(folder.path()); });
  }
  TemporaryFolder folder;
};

TEST_F(ShardedCheckpoint, JoinsTheTensorsOfAllShardsListedOrNot) {
  index(R"({"metadata":{"total_size":12},"weight_map":{"b":"two.safetensors","a":"one.safetensors"}})");
  const Checkpoint checkpoint(folder.path());
  EXPECT_EQ(checkpoint.tensors().size(), 3U);
  EXPECT_EQ(checkpoint.bytes(), 12U);
  EXPECT_EQ(checkpoint.floats("a", {1}), std::vector<float>{1.0F});
  EXPECT_EQ(checkpoint.floats("b", {1}), std::vector<float>{2.0F});
  EXPECT_TRUE(checkpoint.has("extra"));
  EXPECT_THAT(error_of([&] { checkpoint.floats("b", {2}); }), HasSubstr("two.safetensors: tensor 'b'"));
}

TEST_F(ShardedCheckpoint, StaysReadableAfterBeingMoved) {
  index(R"({"weight_map":{"b":"two.safetensors","a":"one.safetensors"}})");
  Checkpoint first(folder.path());
  const Checkpoint second(std::move(first));
  EXPECT_EQ(second.floats("b", {1}), std::vector<float>{2.0F});
}

TEST_F(ShardedCheckpoint, PrefersTheSingleFileAsTransformersDoes) {
  index("not even JSON");
  folder.write("model.safetensors", safetensors({{"only", "F32", {1}, f32_one}}));
  EXPECT_EQ(Checkpoint(folder.path()).tensors().size(), 1U);
}

TEST_F(ShardedCheckpoint, FollowsSymbolicLinksAsDownloadCachesUseThem) {
  const TemporaryFolder cache;
  std::filesystem::create_symlink(folder.path() / "two.safetensors", cache.path() / "model.safetensors");
  EXPECT_TRUE(Checkpoint(cache.path()).has("b"));
}

TEST_F(ShardedCheckpoint, NamesAShardThatIsMissing) {
  const auto file = index(R"({"weight_map":{"a":"one.safetensors","c":"three.safetensors"}})");
  EXPECT_EQ(refusal(), file.string() + ": shard 'three.safetensors' is not in the folder; fetch it");
}

TEST_F(ShardedCheckpoint, NamesATensorThatItsShardDoesNotHave) {
  index(R"({"weight_map":{"a":"one.safetensors","c":"two.safetensors"}})");
  EXPECT_EQ(refusal(), (folder.path() / "two.safetensors").string() +
                           ": has no tensor 'c', which the index says it has");
}

TEST_F(ShardedCheckpoint, RefusesATensorThatTwoShardsHave) {
  folder.write("two.safetensors", safetensors({{"a", "F32", {1}, f32_one}, {"b", "F32", {1}, f32_one}}));
  index(R"({"weight_map":{"a":"one.safetensors","b":"two.safetensors"}})");
  EXPECT_THAT(refusal(), HasSubstr("two.safetensors: tensor 'a' is also in " + folder.path().string()));
}

TEST_F(ShardedCheckpoint, NamesTheShardThatIsDamaged) {
  folder.write("two.safetensors", "");
  index(R"({"weight_map":{"a":"one.safetensors","b":"two.safetensors"}})");
  EXPECT_THAT(refusal(), HasSubstr((folder.path() / "two.safetensors").string() + ": 0 bytes"));
}

class BadIndex : public testing::TestWithParam<BadFile> {};

TEST_P(BadIndex, IsRefusedByName) {
  const TemporaryFolder outer;
  outer.write("x.safetensors", safetensors({{"a", "F32", {1}, f32_one}}));
  const auto folder = outer.path() / "model";
  std::filesystem::create_directory(folder);
  const auto file = outer.write("model/model.safetensors.index.json", GetParam().bytes);
  const std::string sentence = error_of([&] { Checkpoint checkpoint(folder); });
  EXPECT_TRUE(sentence.starts_with(file.string() + ": ")) << sentence;
  expect_words(sentence, GetParam());
}

INSTANTIATE_TEST_SUITE_P(
    Checkpoint, BadIndex,
    testing::Values(
        BadFile{"an_empty_file", "", {"line 1"}},
        BadFile{"an_array", "[]", {"must be an object"}},
        BadFile{"no_weight_map", "{}", {"weight_map", "missing"}},
        BadFile{"a_weight_map_that_is_a_list", R"({"weight_map":["a"]})", {"weight_map", "object"}},
        BadFile{"an_empty_weight_map", R"({"weight_map":{}})", {"weight_map", "names no tensor"}},
        BadFile{"a_shard_that_is_a_number", R"({"weight_map":{"a":1}})", {"weight_map.a", "string"}},
        BadFile{"a_shard_that_is_null", R"({"weight_map":{"a":null}})", {"weight_map.a", "null"}},
        BadFile{"a_shard_without_name", R"({"weight_map":{"a":""}})", {"weight_map.a", "same folder"}},
        BadFile{"a_shard_in_the_parent", R"({"weight_map":{"a":"../x.safetensors"}})", {"weight_map.a", "same folder"}},
        BadFile{"a_shard_through_a_folder", R"({"weight_map":{"a":"b/../../x.safetensors"}})", {"same folder"}},
        BadFile{"an_absolute_shard", R"({"weight_map":{"a":"/tmp/x.safetensors"}})", {"same folder"}},
        BadFile{"the_folder_itself", R"({"weight_map":{"a":"."}})", {"same folder"}},
        BadFile{"the_parent_itself", R"({"weight_map":{"a":".."}})", {"same folder"}},
        BadFile{"a_shard_cut_by_a_nul", R"({"weight_map":{"a":"x\u0000.safetensors"}})", {"same folder", "x\\x00"}},
        BadFile{"a_tensor_twice", R"({"weight_map":{"a":"x","a":"y"}})", {"'a'", "twice"}},
        BadFile{"a_missing_shard", R"({"weight_map":{"a":"x.safetensors"}})", {"'x.safetensors'", "fetch it"}}),
    name_of);

TEST(Checkpoint, SaysWhatItLookedForInAFolderWithoutWeights) {
  const TemporaryFolder folder;
  const std::string looked_for = ": has neither model.safetensors nor model.safetensors.index.json";
  folder.write("config.json", "{}");
  EXPECT_EQ(error_of([&] { Checkpoint checkpoint(folder.path()); }), folder.path().string() + looked_for);
  folder.write("pytorch_model.bin", "");
  folder.write("model-q4.gguf", "");
  EXPECT_EQ(error_of([&] { Checkpoint checkpoint(folder.path()); }),
            folder.path().string() + looked_for +
                "; it has 'model-q4.gguf', 'pytorch_model.bin', "
                "but of a folder only those two are read; a .gguf file is opened by its own name");
  EXPECT_EQ(error_of([&] { Checkpoint checkpoint(folder.path() / "no"); }),
            (folder.path() / "no").string() + ": no such folder or file");
  EXPECT_THROW(Checkpoint(folder.path() / "config.json"), Error);
}

}  // namespace
}  // namespace draftproof
