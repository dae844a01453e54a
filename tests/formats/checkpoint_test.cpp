// SPDX-License-Identifier: MIT
#include "ref/formats/checkpoint.h"

#include <algorithm>
#include <cmath>

#include "kernels/formats.h"
#include "ref/formats/gguf_writer.h"
#include "tests/formats/files.h"
#include "tests/formats/gguf_bytes.h"

namespace draftproof::checkpoint_test {
namespace {

using draftproof::test::GgufBytes;
using ::testing::HasSubstr;

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
  const auto file =
      folder.write("model.safetensors",
                   safetensors({{"w", "F32", {1, 1}, f32_one}, {"i", "I32", {1}, bytes_of<std::int32_t>({1})}}));
  const Checkpoint checkpoint(folder.path());
  EXPECT_EQ(error_of([&] { checkpoint.floats("v", {1}); }),
            folder.path().string() + ": the weights have no tensor 'v' of shape [1]");
  EXPECT_EQ(error_of([&] { checkpoint.weight("w", 1, 2); }),
            file.string() + ": tensor 'w' has shape [1, 1], but the configuration asks for [1, 2]");
  EXPECT_EQ(error_of([&] { checkpoint.floats("i", {1}); }),
            file.string() +
                ": tensor 'i' has type 'I32', but F32, F16, BF16 or a block format is needed; "
                "convert the checkpoint");
  EXPECT_THROW(checkpoint.floats("w", {1}), Error);
}

TEST(Checkpoint, FindsTheOneElementThatIsNotFiniteInAnyPlace) {
  struct Type {
    std::string name;
    std::size_t bytes;
    std::vector<std::pair<std::uint32_t, std::string>> not_finite;
    std::uint32_t largest;  // the finite neighbor of infinity
  };
  const std::vector<Type> types{
      {"F32", 4, {{0x7F800000, "inf"}, {0xFF800000, "-inf"}, {0x7FC00000, "nan"}, {0x7F800001, "nan"}}, 0x7F7FFFFF},
      {"F16", 2, {{0x7C00, "inf"}, {0xFC00, "-inf"}, {0x7E00, "nan"}, {0x7C01, "nan"}}, 0x7BFF},
      {"BF16", 2, {{0x7F80, "inf"}, {0xFF80, "-inf"}, {0x7FC0, "nan"}, {0x7F81, "nan"}}, 0x7F7F}};
  const TemporaryFolder folder;
  const std::size_t count = 40'000;  // more than one read and one block of the scan
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
    for (const std::size_t index :
         {std::size_t{0}, std::size_t{1}, std::size_t{16'383}, std::size_t{16'384}, std::size_t{33'333}, count - 1}) {
      for (const auto& [bits, word] : type.not_finite) {
        put(index, bits);
        const auto file = folder.write("model.safetensors", safetensors({{"w", type.name, shape, bytes}}, index % 4));
        const Checkpoint checkpoint(folder.path());
        const std::string message = error_of([&] { read_in_pieces(checkpoint.weight("w", 8, 5000), 3); });
        EXPECT_EQ(error_of([&] { checkpoint.floats("w", shape); }), message);
        EXPECT_THAT(message, HasSubstr(file.string() + ": tensor 'w' has "));
        EXPECT_THAT(message, HasSubstr(word + " as element " + std::to_string(index) + ";"));
        put(index, type.largest);
      }
    }
  }
}

class ShardedCheckpoint : public ::testing::Test {
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

TEST_F(ShardedCheckpoint, FollowsSymbolicLinksOfDownloadCaches) {
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
  EXPECT_EQ(refusal(), (folder.path() / "two.safetensors").string() + ": has no tensor 'c', which the index lists");
}

TEST_F(ShardedCheckpoint, RejectsATensorThatTwoShardsHave) {
  folder.write("two.safetensors", safetensors({{"a", "F32", {1}, f32_one}, {"b", "F32", {1}, f32_one}}));
  index(R"({"weight_map":{"a":"one.safetensors","b":"two.safetensors"}})");
  EXPECT_THAT(refusal(), HasSubstr("two.safetensors: tensor 'a' is also in " + folder.path().string()));
}

TEST_F(ShardedCheckpoint, NamesTheShardThatIsDamaged) {
  folder.write("two.safetensors", "");
  index(R"({"weight_map":{"a":"one.safetensors","b":"two.safetensors"}})");
  EXPECT_THAT(refusal(), HasSubstr((folder.path() / "two.safetensors").string() + ": 0 bytes"));
}

class BadIndex : public ::testing::TestWithParam<BadFile> {};

TEST_P(BadIndex, IsRejectedByName) {
  const TemporaryFolder outer;
  outer.write("x.safetensors", safetensors({{"a", "F32", {1}, f32_one}}));
  const auto folder = outer.path() / "model";
  std::filesystem::create_directory(folder);
  const auto file = outer.write("model/model.safetensors.index.json", GetParam().bytes);
  const std::string message = error_of([&] { Checkpoint checkpoint(folder); });
  EXPECT_TRUE(message.starts_with(file.string() + ": ")) << message;
  expect_words(message, GetParam());
}

INSTANTIATE_TEST_SUITE_P(
    Checkpoint, BadIndex,
    ::testing::Values(
        BadFile{"an_empty_file", "", {"line 1"}}, BadFile{"an_array", "[]", {"must be an object"}},
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

TEST(Checkpoint, NamesTheExpectedFilesForAFolderWithoutWeights) {
  const TemporaryFolder folder;
  const std::string looked_for = ": has neither model.safetensors nor model.safetensors.index.json";
  folder.write("config.json", "{}");
  EXPECT_EQ(error_of([&] { Checkpoint checkpoint(folder.path()); }), folder.path().string() + looked_for);
  folder.write("pytorch_model.bin", "");
  folder.write("model-q4.gguf", "");
  folder.write("model-q8.gguf", "");
  EXPECT_EQ(error_of([&] { Checkpoint checkpoint(folder.path()); }),
            folder.path().string() + looked_for +
                "; it has 'model-q4.gguf', 'model-q8.gguf', 'pytorch_model.bin', "
                "but of a folder only those two are read; open a .gguf file by its own path");
  EXPECT_EQ(error_of([&] { Checkpoint checkpoint(folder.path() / "no"); }),
            (folder.path() / "no").string() + ": no such folder or file");
  EXPECT_EQ(error_of([&] { Checkpoint checkpoint("Owner/Name-0.6B"); }),
            "Owner/Name-0.6B: no such folder or file, and not in the cache of Hugging Face; get it with: draftproof "
            "fetch Owner/Name-0.6B (or: hf download Owner/Name-0.6B), then give this command again");
  EXPECT_THROW(Checkpoint(folder.path() / "config.json"), Error);
  EXPECT_EQ(error_of([&] { Checkpoint checkpoint("/dev/null"); }), "/dev/null: is neither a folder nor a file");
}

TEST(Checkpoint, IsTheOnlyGgufOfAFolder) {
  const TemporaryFolder folder;
  folder.write("README.md", "");
  write_gguf(folder.path() / "model.gguf", GgufFields(), {});
  EXPECT_EQ(checkpoint_file(folder.path()), folder.path() / "model.gguf");
  folder.write("model.safetensors", "");
  EXPECT_EQ(checkpoint_file(folder.path()), folder.path());
  std::filesystem::remove(folder.path() / "model.safetensors");
  folder.write("other.gguf", "");
  EXPECT_EQ(checkpoint_file(folder.path()), folder.path());
}

TEST(Checkpoint, RejectsReadsFromAFileThatWasTruncatedAfterOpening) {
  const TemporaryFolder folder;
  const auto file = folder.write("model.safetensors", safetensors({{"w", "F32", {4, 1024}, std::string(16384, '\0')}}));
  const Checkpoint checkpoint(folder.path());
  const WeightSource source = checkpoint.weight("w", 4, 1024);
  EXPECT_EQ(read_in_pieces(source, 1), std::string(16384, '\0'));
  std::filesystem::resize_file(file, std::filesystem::file_size(file) - 4096 - 1);
  std::vector<float> row(1024, 1.0F);
  source.read(1, 1, row.data());
  EXPECT_EQ(row, std::vector<float>(1024, 0.0F));
  EXPECT_THAT(error_of([&] { source.read(2, 1, row.data()); }), HasSubstr(file.string() + ": ends at byte "));
  EXPECT_THAT(error_of([&] { checkpoint.floats("w", {4, 1024}); }), HasSubstr(file.string() + ": ends at byte "));
}

/// A GGUF of one layer with heads of four rows; the first value of row r of every matrix is r.
class GgufCheckpoint : public ::testing::Test {
 protected:
  static GgufBytes keys(const std::string& architecture) {
    const std::string a = architecture + ".";
    GgufBytes file;
    file.text("general.architecture", architecture);
    file.number(a + "block_count", 1).number(a + "context_length", 64).number(a + "embedding_length", 8);
    file.number(a + "feed_forward_length", 16).number(a + "attention.head_count", 2);
    file.put(a + "attention.layer_norm_rms_epsilon", 6, GgufBytes::raw(1e-5F));
    return file;
  }
  /// Writes a file with these f32 matrices of 8 inputs and biases.
  Checkpoint open(GgufBytes file, const std::vector<std::pair<std::string, int>>& matrices) const {
    std::uint64_t offset = 0;
    for (const auto& [name, rows] : matrices) {
      if (name.ends_with("bias")) {
        file.tensor(name, {static_cast<std::uint64_t>(rows)}, 0, offset);
      } else {
        file.tensor(name, {8, static_cast<std::uint64_t>(rows)}, 0, offset);
      }
      std::vector<float> values;
      for (int row = 0; row < rows; ++row) {
        values.push_back(static_cast<float>(row));
        if (!name.ends_with("bias")) values.insert(values.end(), 7, 0.5F);
      }
      values.resize((values.size() + 7) / 8 * 8);
      file.data(bytes_of(values));
      offset += values.size() * 4;
    }
    return Checkpoint(folder_.write("x.gguf", file.bytes()));
  }
  static std::vector<float> first_values(const std::vector<float>& matrix) {
    std::vector<float> values;
    for (std::size_t i = 0; i < matrix.size(); i += 8) values.push_back(matrix[i]);
    return values;
  }

  TemporaryFolder folder_;
};

TEST_F(GgufCheckpoint, UndoesTheInterleavingOfLlamaRowsThatRopeRotates) {
  const Checkpoint checkpoint = open(keys("llama"), {{"token_embd.weight", 5},
                                                     {"blk.0.attn_q.weight", 8},
                                                     {"blk.0.attn_q.bias", 8},
                                                     {"blk.0.attn_k.weight", 8},
                                                     {"blk.0.attn_v.weight", 8}});
  // llama.cpp's converter makes rows (half, j) of a head rows (j, half): 0 1 2 3 is stored as 0 2 1 3.
  const std::vector<float> ours{0, 2, 1, 3, 4, 6, 5, 7};
  const std::string layer = "model.layers.0.self_attn.";
  for (const char* name : {"q_proj.weight", "k_proj.weight"}) {
    EXPECT_EQ(first_values(checkpoint.floats(layer + name, {8, 8})), ours) << name;
    const WeightSource source = checkpoint.weight(layer + name, 8, 8);
    for (const int rows : {1, 3, 8}) {
      const std::string bytes = read_in_pieces(source, rows);
      std::vector<float> values(64);
      std::memcpy(values.data(), bytes.data(), bytes.size());
      EXPECT_EQ(first_values(values), ours) << name << " " << rows;
    }
  }
  EXPECT_EQ(checkpoint.floats(layer + "q_proj.bias", {8}), ours);
  EXPECT_EQ(first_values(checkpoint.floats(layer + "v_proj.weight", {8, 8})),
            (std::vector<float>{0, 1, 2, 3, 4, 5, 6, 7}));
}

TEST_F(GgufCheckpoint, LeavesTheRowsOfQwenUnchanged) {
  const Checkpoint checkpoint = open(keys("qwen2"), {{"token_embd.weight", 5}, {"blk.0.attn_q.weight", 8}});
  EXPECT_EQ(first_values(checkpoint.floats("model.layers.0.self_attn.q_proj.weight", {8, 8})),
            (std::vector<float>{0, 1, 2, 3, 4, 5, 6, 7}));
}

TEST_F(GgufCheckpoint, TranslatesTensorNamesToHuggingFacesAndKeepsOtherNames) {
  const Checkpoint checkpoint = open(keys("qwen3"), {{"token_embd.weight", 5},
                                                     {"output.weight", 5},
                                                     {"blk.10.ffn_gate.weight", 3},
                                                     {"blk.0.ffn_norm.weight", 1},
                                                     {"blk.01.ffn_up.weight", 1},
                                                     {"blk.1.new.weight", 1},
                                                     {"odd", 1}});
  std::vector<std::string> names;
  for (const auto& [name, tensor] : checkpoint.tensors()) names.push_back(name);
  EXPECT_THAT(names, ::testing::UnorderedElementsAre("model.embed_tokens.weight", "lm_head.weight",
                                                     "model.layers.10.mlp.gate_proj.weight",
                                                     "model.layers.0.post_attention_layernorm.weight",
                                                     "blk.01.ffn_up.weight", "blk.1.new.weight", "odd"));
  EXPECT_EQ(checkpoint.floats("model.layers.0.post_attention_layernorm.weight", {8}).size(), 8U) << "[1, 8] is [8]";
}

TEST_F(GgufCheckpoint, TranslatesItsMetadataToConfigJson) {
  auto file = keys("llama");
  file.number("llama.attention.head_count_kv", 1).number("llama.rope.dimension_count", 4);
  file.put("llama.rope.freq_base", 6, GgufBytes::raw(500000.0F));
  file.number("tokenizer.ggml.eos_token_id", 3).number("tokenizer.ggml.eot_token_id", 4);
  const Json config = open(file, {{"token_embd.weight", 5}}).config();
  EXPECT_EQ(config.at("model_type").string(), "llama");
  EXPECT_EQ(config.at("architectures")[0].string(), "LlamaForCausalLM");
  for (const auto& [field, value] : std::vector<std::pair<std::string, std::int64_t>>{{"vocab_size", 5},
                                                                                      {"hidden_size", 8},
                                                                                      {"intermediate_size", 16},
                                                                                      {"num_hidden_layers", 1},
                                                                                      {"num_attention_heads", 2},
                                                                                      {"num_key_value_heads", 1},
                                                                                      {"head_dim", 4},
                                                                                      {"max_position_embeddings", 64},
                                                                                      {"rope_theta", 500000}}) {
    EXPECT_EQ(config.at(field).integer(0, 1 << 20), value) << field;
  }
  EXPECT_EQ(static_cast<float>(config.at("rms_norm_eps").number()), 1e-5F);
  EXPECT_TRUE(config.at("tie_word_embeddings").boolean());
  EXPECT_EQ(config.at("eos_token_id").integers(0, 100), (std::vector<std::int64_t>{3, 4}));
  EXPECT_FALSE(config.find("partial_rotary_factor"));
  EXPECT_FALSE(config.find("rope_scaling"));

  file = keys("qwen3").number("qwen3.attention.key_length", 8).number("qwen3.rope.dimension_count", 2);
  const Json other = open(file, {{"token_embd.weight", 5}, {"output.weight", 5}}).config();
  EXPECT_EQ(other.at("head_dim").integer(1, 100), 8);
  EXPECT_EQ(other.at("num_key_value_heads").integer(1, 100), 2);
  EXPECT_FALSE(other.at("tie_word_embeddings").boolean());
  EXPECT_EQ(other.at("partial_rotary_factor").number(), 0.25);
}

TEST_F(GgufCheckpoint, ReadsRopeScalingAsLlamaCppDoes) {
  const std::vector<std::pair<std::string, int>> embedding{{"token_embd.weight", 5}};
  struct Scaling {
    const char* type;  // empty: missing
    const char* key;
    float value;
    const char* refused;  // the key that the message names; empty: accepted
    const char* means;    // the type in Hugging Face's terms; empty: no scaling
  };
  // llama.cpp: a factor without a type is linear; rope.scale_linear is its older name; 0 is read as 1.
  for (const Scaling& scaling :
       {Scaling{"", "rope.scaling.factor", 4, "", "linear"},
        Scaling{"linear", "rope.scaling.factor", 0.5F, "", "linear"}, Scaling{"", "rope.scale_linear", 2, "", "linear"},
        Scaling{"yarn", "rope.scaling.factor", 4, "", "yarn"},
        Scaling{"longrope", "rope.scaling.factor", 1, "llama.rope.scaling.type: 'longrope'", ""},
        Scaling{"yarn", "rope.scaling.attn_factor", 2, "llama.rope.scaling.attn_factor: is not implemented", ""},
        Scaling{"yarn", "rope.scaling.yarn_ext_factor", 0, "llama.rope.scaling.yarn_ext_factor: is not", ""},
        Scaling{"", "rope.scaling.factor", 1, "", ""}, Scaling{"", "rope.scaling.factor", 0, "", ""},
        Scaling{"linear", "rope.scaling.factor", 1, "", ""}, Scaling{"linear", "rope.scale_linear", 1, "", ""},
        Scaling{"none", "rope.scaling.factor", 4, "", ""}}) {
    GgufBytes file = keys("llama");
    if (*scaling.type != '\0') file.text("llama.rope.scaling.type", scaling.type);
    file.put(std::string("llama.") + scaling.key, 6, GgufBytes::raw(scaling.value));
    SCOPED_TRACE(std::string(scaling.type) + " " + scaling.key + " " + std::to_string(scaling.value));
    if (*scaling.refused != '\0') {
      EXPECT_THAT(error_of([&] { open(file, embedding); }), HasSubstr(std::string("x.gguf: field ") + scaling.refused));
      continue;
    }
    const auto block = open(file, embedding).config().find("rope_scaling");
    ASSERT_EQ(block.has_value(), *scaling.means != '\0');
    if (!block) continue;
    EXPECT_EQ(block->at("rope_type").string(), scaling.means);
    EXPECT_EQ(block->at("factor").number(), scaling.value);
  }

  GgufBytes file = keys("llama").text("llama.rope.scaling.type", "yarn");
  file.number("llama.rope.scaling.original_context_length", 16);
  for (const auto& [key, value] : {std::pair("factor", 4.0F),
                                   {"yarn_beta_fast", 16.0F},
                                   {"yarn_beta_slow", 2.0F},
                                   {"yarn_log_multiplier", 1.0F}}) {
    file.put(std::string("llama.rope.scaling.") + key, 6, GgufBytes::raw(value));
  }
  const Json block = open(file, embedding).config().at("rope_scaling");
  for (const auto& [field, value] : {std::pair("factor", 4.0),
                                     {"original_max_position_embeddings", 16.0},
                                     {"beta_fast", 16.0},
                                     {"beta_slow", 2.0},
                                     {"mscale", 1.0},
                                     {"mscale_all_dim", 1.0}}) {
    EXPECT_EQ(block.at(field).number(), value) << field;
  }
}

TEST_F(GgufCheckpoint, AcceptsHarmlessKeysAndArraysOfEqualSizesAndNoOthers) {
  const std::vector<std::pair<std::string, int>> embedding{{"token_embd.weight", 5}};
  const auto harmless = [] {
    return keys("llama").truth("llama.attention.causal", true).number("llama.expert_count", 0);
  };
  const auto one_layer = harmless().number("llama.expert_used_count", 0).integers("llama.attention.head_count_kv", {1});
  const Json config = open(one_layer, embedding).config();
  EXPECT_EQ(config.at("num_key_value_heads").integer(0, 100), 1);
  const auto refusal = [&](const GgufBytes& file) { return error_of([&] { open(file, embedding); }); };
  EXPECT_THAT(refusal(keys("llama").truth("llama.attention.causal", false)),
              HasSubstr("field llama.attention.causal: must be true"));
  EXPECT_THAT(refusal(keys("llama").number("llama.expert_used_count", 2)),
              HasSubstr("field llama.expert_used_count: must be 0"));
  const auto layers = [](const std::vector<std::int32_t>& sizes) {
    GgufBytes file;
    file.text("general.architecture", "qwen3").number("qwen3.block_count", 3).number("qwen3.context_length", 64);
    file.number("qwen3.embedding_length", 8).put("qwen3.attention.layer_norm_rms_epsilon", 6, GgufBytes::raw(1e-5F));
    file.integers("qwen3.feed_forward_length", {16, 16, 16}).integers("qwen3.attention.head_count", {2, 2, 2});
    return file.integers("qwen3.attention.head_count_kv", sizes);
  };
  const Json equal = open(layers({2, 2, 2}), embedding).config();
  EXPECT_EQ(equal.at("intermediate_size").integer(0, 100), 16);
  EXPECT_EQ(equal.at("num_attention_heads").integer(0, 100), 2);
  EXPECT_EQ(equal.at("num_key_value_heads").integer(0, 100), 2);
  const std::string key = "x.gguf: field qwen3.attention.head_count_kv: ";
  EXPECT_THAT(refusal(layers({2, 2, 1})), HasSubstr(key + "differs from layer to layer"));
  EXPECT_THAT(refusal(layers({2, 2})), HasSubstr(key + "has 2 values for 3 layers"));
  EXPECT_THAT(refusal(layers({0, 0, 0})), HasSubstr(key + "must be at least 1"));
}

TEST_F(GgufCheckpoint, KnowsStopTokensByTheirTextAsLlamaCppDoes) {
  const auto stops = [&](const GgufBytes& more) {
    return open(more, {{"token_embd.weight", 5}}).config().at("eos_token_id").integers(0, 100);
  };
  const std::vector<std::string> tokens = {
      "a",           "<|endoftext|>",  "<|im_end|>",    "<|im_start|>", "</s>", "<|file_sep|>",
      "<|fim_pad|>", "<|fim_middle|>", "<|repo_name|>", "<s>"};
  EXPECT_THAT(stops(keys("qwen2").texts("tokenizer.ggml.tokens", tokens).number("tokenizer.ggml.eos_token_id", 2)),
              ::testing::UnorderedElementsAre(2, 1, 2, 4, 5, 6, 8))
      << "the id is also found by its spelling";
  EXPECT_THAT(stops(keys("qwen2").texts("tokenizer.ggml.tokens", tokens).number("tokenizer.ggml.fim_pad_token_id", 0)),
              ::testing::UnorderedElementsAre(0, 1, 2, 4, 5, 8))
      << "a key goes before spellings";
  EXPECT_FALSE(open(keys("qwen2").texts("tokenizer.ggml.tokens", {"a", "<|im_start|>", "<|endoftext|> "}),
                    {{"token_embd.weight", 5}})
                   .config()
                   .find("eos_token_id"));
}

TEST_F(GgufCheckpoint, ErrorsUseTheNamesOfTheFile) {
  const Checkpoint checkpoint = open(keys("llama").number("llama.attention.head_count_kv", 1),
                                     {{"token_embd.weight", 5}, {"blk.0.attn_v.weight", 4}});
  EXPECT_EQ(error_of([&] { checkpoint.config().at("num_key_value_heads").fail("is odd"); }),
            checkpoint.path().string() + ": field llama.attention.head_count_kv: is odd");
  EXPECT_EQ(error_of([&] {
              checkpoint.floats("model.layers.0.self_attn.v_proj.weight", {3, 8});
            }),
            checkpoint.path().string() +
                ": tensor 'blk.0.attn_v.weight' has shape [4, 8], but the configuration asks "
                "for [3, 8]");
  EXPECT_EQ(error_of([&] { checkpoint.floats("model.layers.12.self_attn.q_proj.bias", {8}); }),
            checkpoint.path().string() + ": the weights have no tensor 'blk.12.attn_q.bias' of shape [8]");
  EXPECT_EQ(error_of([&] {
              checkpoint.floats("lm_head.weight", {5, 8});
            }),
            checkpoint.path().string() + ": the weights have no tensor 'output.weight' of shape [5, 8]");
  EXPECT_EQ(checkpoint.name_in_file("model.layers.0.self_attn.q_proj.weight"), "blk.0.attn_q.weight");
  for (const char* name : {"model.layers.", "model.layers.0", "model.layers.0.weight", "weight", ".weight", "odd"}) {
    EXPECT_EQ(checkpoint.name_in_file(name), name);
  }
}

TEST_F(GgufCheckpoint, ReportsThatAFileWithOnlyAVocabularyHasNoTensors) {
  const GgufBytes file = GgufBytes().text("general.architecture", "qwen2").texts("tokenizer.ggml.tokens", {"a"});
  EXPECT_EQ(error_of([&] { open(file, {}); }), (folder_.path() / "x.gguf").string() +
                                                   ": has no tensors; it holds a vocabulary or other metadata, and no "
                                                   "model");
}

TEST_F(GgufCheckpoint, NamesTheKeyThatIsMissingInvalidOrNotImplemented) {
  const std::vector<std::pair<std::string, int>> embedding{{"token_embd.weight", 5}};
  const auto refusal = [&](const GgufBytes& file, const std::vector<std::pair<std::string, int>>& matrices) {
    const std::string message = error_of([&] { open(file, matrices); });
    EXPECT_TRUE(message.starts_with((folder_.path() / "x.gguf").string() + ": ")) << message;
    return message;
  };
  EXPECT_THAT(refusal(GgufBytes(), embedding), HasSubstr("field general.architecture: is missing"));
  EXPECT_THAT(refusal(GgufBytes().text("general.architecture", "gemma"), embedding),
              HasSubstr("'gemma' is not implemented"));
  EXPECT_THAT(refusal(GgufBytes().number("general.architecture", 1), embedding), HasSubstr("must be a string"));
  EXPECT_THAT(refusal(GgufBytes().text("general.architecture", "llama"), embedding), HasSubstr("field llama."));
  EXPECT_THAT(refusal(keys("llama").number("llama.expert_count", 8), embedding),
              HasSubstr("field llama.expert_used_count: is missing"));
  EXPECT_THAT(refusal(keys("llama").number("llama.attention.key_length", 0), embedding),
              HasSubstr("field llama.attention.key_length: must be at least 1"));
  EXPECT_THAT(refusal(keys("llama").number("llama.attention.value_length", 5), embedding),
              HasSubstr("field llama.attention.value_length"));
  EXPECT_THAT(refusal(keys("llama").text("llama.vocab_size", "5"), embedding), HasSubstr("field llama.vocab_size"));
  EXPECT_THAT(refusal(keys("llama"), {{"output.weight", 5}}), HasSubstr("field llama.vocab_size: is missing"));
  EXPECT_THAT(refusal(keys("llama"), {{"token_embd.weight", 5}, {"blk.0.attn_q.weight", 6}}),
              HasSubstr("tensor 'blk.0.attn_q.weight' has shape [6, 8], whose rows are not heads of 4 rows"));
  EXPECT_THAT(refusal(keys("llama"), {{"token_embd.weight", 5}, {"model.norm.weight", 1}, {"output_norm.weight", 1}}),
              HasSubstr("'model.norm.weight', which exists already"));
}

TEST(Checkpoint, ErrorsExplainHowToOpenAFile) {
  const TemporaryFolder folder;
  const auto file = folder.write("model.safetensors", safetensors({{"a", "F32", {1}, f32_one}}));
  EXPECT_EQ(error_of([&] { Checkpoint checkpoint(file); }),
            file.string() + ": open its folder instead, which has config.json as well");
  const auto text = folder.write("x.txt", "text");
  EXPECT_EQ(error_of([&] { Checkpoint checkpoint(text); }),
            text.string() + ": is not GGUF; its first four bytes are not 'GGUF'");
}

}  // namespace
}  // namespace draftproof::checkpoint_test
