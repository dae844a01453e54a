// SPDX-License-Identifier: MIT
// Adapters against a merge that is written down here once more, and files that must be refused.
#include "ref/formats/lora_adapter.h"

#include <cmath>
#include <map>
#include <random>

#include "kernels/formats.h"
#include "ref/formats/checkpoint.h"
#include "tests/formats/files.h"
#include "tests/formats/gguf_bytes.h"

namespace draftproof::lora_adapter_test {
namespace {

using draftproof::test::GgufBytes;
using ::testing::HasSubstr;

/// Numbers with a few bits, of magnitudes from 1/64 to 4: their sums round.
std::vector<float> numbers(std::size_t count, unsigned seed) {
  std::mt19937 random(seed);
  std::vector<float> values(count);
  for (float& value : values) {
    value = static_cast<float>(static_cast<int>(random() % 20001) - 10000) / 7000.0F;
  }
  return values;
}

struct Matrix {
  std::int64_t rows;
  std::int64_t columns;
  std::vector<float> values;
  float at(std::int64_t row, std::int64_t column) const {
    return values[static_cast<std::size_t>(row * columns + column)];
  }
};

Matrix matrix(std::int64_t rows, std::int64_t columns, unsigned seed) {
  return {rows, columns, numbers(static_cast<std::size_t>(rows * columns), seed)};
}

Tensor f32(const std::string& name, const Matrix& m) { return {name, "F32", {m.rows, m.columns}, bytes_of(m.values)}; }

std::uint16_t half_of(const std::string& type, float value) {
  return type == "F16" ? f32_to_f16(value) : f32_to_bf16(value);
}

/// The value as this type keeps it.
float kept(const std::string& type, float value) {
  if (type == "F32") return value;
  return type == "F16" ? f16_to_f32(f32_to_f16(value)) : bf16_to_f32(f32_to_bf16(value));
}

Tensor stored(const std::string& name, const std::string& type, const Matrix& m) {
  if (type == "F32") return f32(name, m);
  std::vector<std::uint16_t> halves;
  for (const float value : m.values) halves.push_back(half_of(type, value));
  return {name, type, {m.rows, m.columns}, bytes_of(halves)};
}

/// The definition of merged_matrix.h. `left` [outputs][rank], `right` [rank][inputs].
std::vector<float> naive(const std::string& type, const Matrix& weights, const Matrix& left, const Matrix& right,
                         float scale) {
  std::vector<float> merged;
  for (std::int64_t o = 0; o < weights.rows; ++o) {
    for (std::int64_t i = 0; i < weights.columns; ++i) {
      float sum = 0;
      for (std::int64_t k = 0; k < left.columns; ++k) {
        const float product = left.at(o, k) * right.at(k, i);
        sum += product;
      }
      const float scaled = scale * sum;
      merged.push_back(kept(type, kept(type, weights.at(o, i)) + scaled));
    }
  }
  return merged;
}

/// adapter_config.json with these fields in place of the usual ones, or besides them.
std::string adapter_config(const std::map<std::string, std::string>& fields = {}) {
  std::map<std::string, std::string> all = {{"peft_type", R"("LORA")"}, {"r", "2"}, {"lora_alpha", "3"}};
  for (const auto& [name, value] : fields) all[name] = value;
  std::string text;
  for (const auto& [name, value] : all) text += (text.empty() ? "{\"" : ",\"") + name + "\":" + value;
  return text + "}";
}

const std::string q = "model.layers.0.self_attn.q_proj";
std::string peft(const std::string& rest) { return "base_model.model." + rest; }

/// A target of one matrix of 6 x 5, and an adapter of rank 2 of it.
struct LoraFiles : ::testing::Test {
  TemporaryFolder target;
  TemporaryFolder adapter;
  Matrix weights = matrix(6, 5, 1);
  Matrix left = matrix(6, 2, 2);
  Matrix right = matrix(2, 5, 3);

  LoraFiles() {
    put_target("F32");
    put_adapter({f32(peft(q + ".lora_A.weight"), right), f32(peft(q + ".lora_B.weight"), left)});
  }
  void put_target(const std::string& type) const {
    target.write("config.json", R"({"model_type": "llama", "hidden_size": 8, "num_attention_heads": 2})");
    target.write("model.safetensors", safetensors({stored(q + ".weight", type, weights)}));
  }
  void put_adapter(const std::vector<Tensor>& tensors, const std::map<std::string, std::string>& fields = {}) const {
    adapter.write("adapter_config.json", adapter_config(fields));
    adapter.write("adapter_model.safetensors", safetensors(tensors));
  }
  Checkpoint opened(double scale = 1) const {
    Checkpoint checkpoint(target.path());
    checkpoint.merge({adapter.path(), scale});
    return checkpoint;
  }
  std::string refusal() const {
    return error_of([&] { opened().floats(q + ".weight", {6, 5}); });
  }
  /// A .gguf adapter with the same matrices, whose tensor has this name.
  std::filesystem::path gguf_adapter(const std::string& name, const std::string& architecture = "qwen3",
                                     float alpha = 3) const {
    GgufBytes file;
    file.text("general.type", "adapter").text("general.architecture", architecture).text("adapter.type", "lora");
    file.put("adapter.lora.alpha", 6, GgufBytes::raw(alpha));
    std::string a = bytes_of(right.values);
    a.resize((a.size() + 31) / 32 * 32);
    file.tensor(name + ".lora_a", {5, 2}, 0, 0).tensor(name + ".lora_b", {2, 6}, 0, a.size());
    return adapter.write("adapter.gguf", file.data(a + bytes_of(left.values)).bytes());
  }
};

TEST_F(LoraFiles, GiveTheSumThatIsWrittenDownRoundedToTheTypeOfTheMatrix) {
  for (const char* const type : {"F32", "F16", "BF16"}) {
    put_target(type);
    for (const double scale : {1.0, 0.3, -2.0}) {
      const auto factor = static_cast<float>(scale * 3 / 2);
      EXPECT_EQ(opened(scale).floats(q + ".weight", {6, 5}), naive(type, weights, left, right, factor)) << type;
    }
    EXPECT_EQ(opened(0).floats(q + ".weight", {6, 5}), Checkpoint(target.path()).floats(q + ".weight", {6, 5}));
  }
}

TEST_F(LoraFiles, GiveTheSameRowsHoweverManyAreReadTogether) {
  const Checkpoint merged = opened();
  const std::vector<float> all = merged.floats(q + ".weight", {6, 5});
  const WeightSource rows = merged.weight(q + ".weight", 6, 5);
  for (int first = 0; first < 6; ++first) {
    std::vector<float> row(5);
    rows.read_values(first, 1, row.data());
    EXPECT_EQ(row, std::vector<float>(all.begin() + 5 * first, all.begin() + 5 * first + 5));
  }
}

TEST_F(LoraFiles, OfWidthsAndRanksOfAllKindsAreMerged) {
  unsigned seed = 100;
  for (const std::int64_t rank : {1, 3, 17}) {
    for (const std::int64_t inputs : {1, 31, 64, 130}) {
      for (const char* const type : {"F32", "F16", "BF16"}) {
        weights = matrix(9, inputs, ++seed);
        left = matrix(9, rank, ++seed);
        right = matrix(rank, inputs, ++seed);
        put_target(type);
        put_adapter({f32(peft(q + ".lora_A.weight"), right), stored(peft(q + ".lora_B.weight"), "F32", left)},
                    {{"r", std::to_string(rank)}, {"lora_alpha", "5"}});
        const auto scale = static_cast<float>(0.7 * 5 / static_cast<double>(rank));
        EXPECT_EQ(opened(0.7).floats(q + ".weight", {9, inputs}), naive(type, weights, left, right, scale));
      }
    }
  }
}

TEST_F(LoraFiles, HaveTheScaleThatTheConfigSaysForTheModule) {
  const std::vector<Tensor> tensors = {f32(peft(q + ".lora_A.weight"), right), f32(peft(q + ".lora_B.weight"), left)};
  const auto expect_scale = [&](const std::map<std::string, std::string>& fields, double scale) {
    put_adapter(tensors, fields);
    EXPECT_EQ(opened().floats(q + ".weight", {6, 5}), naive("F32", weights, left, right, static_cast<float>(scale)));
  };
  expect_scale({{"use_rslora", "true"}}, 3 / std::sqrt(2.0));
  expect_scale({{"alpha_pattern", R"({"q_proj": 7})"}}, 3.5);
  expect_scale({{"alpha_pattern", R"({"v_proj": 7, "proj": 8, "0.self_attn.q_proj": 9})"}}, 4.5);
  expect_scale({{"alpha_pattern", R"({"^q_proj": 7})"}}, 1.5);
  expect_scale({{"alpha_pattern", R"({"^model.layers.0.self_attn.q_proj": 7})"}}, 3.5);
  expect_scale({{"r", "8"}, {"rank_pattern", R"({"q_proj": 2})"}}, 1.5);
}

TEST_F(LoraFiles, AreMergedOneAfterTheOtherAsIfEachMergedModelHadBeenSaved) {
  put_target("BF16");
  Checkpoint twice = opened();
  twice.merge({adapter.path(), -0.4});
  const Matrix once = {6, 5, naive("BF16", weights, left, right, 1.5F)};
  EXPECT_EQ(twice.floats(q + ".weight", {6, 5}), naive("BF16", once, left, right, static_cast<float>(-0.4 * 3 / 2)));
  ASSERT_EQ(twice.adapters().size(), 2U);
  EXPECT_EQ(twice.adapters()[1].source.scale, -0.4);
  EXPECT_EQ(twice.adapters()[1].matrices, 1U);
  EXPECT_EQ(twice.adapters()[1].widened, 0U);
}

TEST_F(LoraFiles, InAGgufAreThoseOfAFolder) {
  const std::vector<float> expected = opened().floats(q + ".weight", {6, 5});
  target.write("config.json", R"({"model_type": "qwen3"})");
  const auto merged_with = [&](const std::filesystem::path& file) {
    Checkpoint checkpoint(target.path());
    checkpoint.merge({file});
    return checkpoint.floats(q + ".weight", {6, 5});
  };
  EXPECT_EQ(merged_with(gguf_adapter("blk.0.attn_q.weight")), expected);
  EXPECT_EQ(merged_with(gguf_adapter("blk.0.attn_q.weight", "qwen3", 0)), naive("F32", weights, left, right, 1));
  EXPECT_THAT(error_of([&] { merged_with(gguf_adapter("blk.0.attn_q.weight", "llama")); }),
              HasSubstr("is an adapter of models of architecture 'llama', which " + target.path().string()));
  EXPECT_THAT(error_of([&] { merged_with(gguf_adapter("blk.1.attn_q.weight")); }),
              HasSubstr("'blk.1.attn_q.weight.lora_a' changes 'model.layers.1.self_attn.q_proj.weight', which "));
}

TEST_F(LoraFiles, OfAnEmbeddingHaveItsRowsAsColumns) {
  const std::string table = "model.embed_tokens.weight";
  target.write("model.safetensors", safetensors({f32(table, weights)}));
  const Matrix by_token = {2, 6, numbers(12, 8)};  // [rank][tokens]
  const Matrix by_value = {5, 2, numbers(10, 9)};  // [hidden][rank]
  put_adapter({f32(peft("model.embed_tokens.lora_embedding_A"), by_token),
               f32(peft("model.embed_tokens.lora_embedding_B"), by_value)});
  const auto transposed = [](const Matrix& m) {
    Matrix result = {m.columns, m.rows, {}};
    for (std::int64_t r = 0; r < result.rows; ++r) {
      for (std::int64_t c = 0; c < result.columns; ++c) result.values.push_back(m.at(c, r));
    }
    return result;
  };
  const Checkpoint merged = opened();
  EXPECT_EQ(merged.floats(table, {6, 5}), naive("F32", weights, transposed(by_token), transposed(by_value), 1.5F));
  // The LM head of a model that ties both stays what it was.
  EXPECT_EQ(merged.floats("lm_head.weight", {6, 5}), weights.values);
  EXPECT_FALSE(merged.same(table, "lm_head.weight"));
  target.write("config.json", R"({"tie_word_embeddings": false})");
  EXPECT_FALSE(opened().has("lm_head.weight"));
}

TEST_F(LoraFiles, ReplaceTensorsAtAnyScale) {
  const Matrix other = matrix(6, 5, 20);
  const Matrix changed = matrix(6, 5, 21);
  target.write("model.safetensors", safetensors({f32(q + ".weight", weights), f32("lm_head.weight", other)}));
  for (const char* const name : {"lm_head.weight", "lm_head.modules_to_save.weight", "lm_head.base_layer.weight"}) {
    put_adapter({stored(peft(name), "BF16", changed)});
    const Checkpoint merged = opened(0.5);
    std::vector<float> expected = changed.values;
    for (float& value : expected) value = kept("BF16", value);
    EXPECT_EQ(merged.floats("lm_head.weight", {6, 5}), expected);
    EXPECT_EQ(merged.floats(q + ".weight", {6, 5}), weights.values);
    EXPECT_EQ(merged.adapters()[0].replaced, 1U);
  }
}

TEST_F(LoraFiles, OfATextModelAloneFitOneThatIsNested) {
  target.write("model.safetensors",
               safetensors({f32("model.language_model.layers.0.self_attn.q_proj.weight", weights)}));
  const std::vector<float> expected = naive("F32", weights, left, right, 1.5F);
  EXPECT_EQ(opened().floats(q + ".weight", {6, 5}), expected);
  const std::string nested = peft("model.language_model.layers.0.self_attn.q_proj");
  put_adapter({f32(nested + ".lora_A.weight", right), f32(nested + ".lora_B.weight", left)});
  EXPECT_EQ(opened().floats(q + ".weight", {6, 5}), expected);
}

TEST_F(LoraFiles, ThatAreNoPlainSumsAreRefusedByName) {
  const std::vector<Tensor> tensors = {f32(peft(q + ".lora_A.weight"), right), f32(peft(q + ".lora_B.weight"), left)};
  const std::vector<std::pair<std::map<std::string, std::string>, std::string>> wrong = {
      {{{"peft_type", R"("IA3")"}}, "field peft_type: is 'IA3'"},
      {{{"use_dora", "true"}}, "field use_dora"},
      {{{"lora_bias", "true"}}, "field lora_bias"},
      {{{"bias", R"("all")"}}, "field bias: is 'all'"},
      {{{"fan_in_fan_out", "true"}}, "field fan_in_fan_out"},
      {{{"target_parameters", R"(["mlp.experts.down_proj"])"}}, "field target_parameters"},
      {{{"layer_replication", "[[0, 1]]"}}, "field layer_replication"},
      {{{"trainable_token_indices", R"({"embed_tokens": [1]})"}}, "field trainable_token_indices"},
      {{{"ensure_weight_tying", "true"}}, "field ensure_weight_tying"},
      {{{"init_lora_weights", R"("pissa")"}}, "field init_lora_weights: is 'pissa'"},
      {{{"alpha_pattern", R"({".*q_proj": 7})"}}, "is named by a regular expression"},
      {{{"r", "3"}}, "has rank 2, which is not what adapter_config.json says"},
      {{{"rank_pattern", R"({"q_proj": 4})"}}, "has rank 2, which is not"},
      {{{"lora_alpha", "1e300"}}, "has a scale that is no finite float"},
      {{{"lora_alpha", R"("3")"}}, "field lora_alpha"}};
  for (const auto& [fields, words] : wrong) {
    put_adapter(tensors, fields);
    EXPECT_THAT(refusal(), HasSubstr(words));
    EXPECT_THAT(refusal(), HasSubstr(adapter.path().string()));
  }
  put_adapter(tensors, {{"use_dora", "false"},
                        {"target_parameters", "[]"},
                        {"trainable_token_indices", "null"},
                        {"bias", R"("none")"},
                        {"init_lora_weights", R"("gaussian")"}});
  EXPECT_EQ(opened().adapters().size(), 1U);
}

TEST_F(LoraFiles, ThatContradictThemselvesOrTheModelAreRefusedByTheTensor) {
  const Tensor a = f32(peft(q + ".lora_A.weight"), right);
  const Tensor b = f32(peft(q + ".lora_B.weight"), left);
  Matrix broken = right;
  broken.values[3] = NAN;
  Matrix huge = left;
  for (float& value : huge.values) value = 3e38F;
  const std::vector<std::pair<std::vector<Tensor>, std::string>> wrong = {
      {{a}, "lora_A.weight' has no partner"},
      {{b}, "lora_B.weight' has no partner"},
      {{f32(a.name, matrix(3, 5, 4)), b}, "is of another rank"},
      {{f32(a.name, left), f32(b.name, right)}, "of another rank"},
      {{f32(a.name, matrix(2, 4, 4)), b}, "which does not fit " + (target.path() / "model.safetensors").string()},
      {{a, f32(b.name, matrix(5, 2, 4))}, "which does not fit"},
      {{{a.name, "F32", {10}, bytes_of(right.values)}, b}, "must be a matrix of floats"},
      {{{a.name, "F32", {0, 5}, ""}, b}, "must be a matrix of floats"},
      {{{a.name, "I32", {2, 5}, bytes_of(right.values)}, b}, "must be a matrix of floats"},
      {{f32(a.name, broken), b}, "lora_A.weight' has nan as element 3; weights must be finite"},
      {{a, f32(b.name, huge)}, "has values too large for f32 after adding"},
      {{f32("model.layers.0.lora_A.weight", right)}, "has no name that PEFT writes"},
      {{a, b, {peft(q + ".lora_magnitude_vector"), "F32", {6}, bytes_of(numbers(6, 1))}}, "of a kind that is not read"},
      {{a, b, {peft(q + ".lora_B.bias"), "F32", {6}, bytes_of(numbers(6, 1))}}, "of a kind that is not read"},
      {{a, b, f32(peft("model.norm.weight"), left)}, "changes 'model.norm.weight', which"},
      {{f32(peft("model.layers.7.x.lora_A.weight"), right), f32(peft("model.layers.7.x.lora_B.weight"), left)},
       "changes 'model.layers.7.x.weight', which " + target.path().string() + " does not have"},
      {{f32(peft(q + ".weight"), left)}, "and cannot replace"},
      {{}, "the adapter has no tensors"}};
  for (const auto& [tensors, words] : wrong) {
    put_adapter(tensors);
    EXPECT_THAT(refusal(), HasSubstr(words));
    EXPECT_THAT(refusal(), HasSubstr(adapter.path().string()));
    EXPECT_THAT(refusal(), testing::Not(HasSubstr("\n")));
  }
}

TEST_F(LoraFiles, ThatAreNotThereOrNoAdaptersAreRefused) {
  EXPECT_THAT(error_of([&] { LoraAdapter({adapter.path() / "none"}); }), HasSubstr("no such folder or file"));
  EXPECT_THAT(error_of([&] { LoraAdapter({target.path()}); }), HasSubstr("has no adapter_config.json"));
  std::filesystem::remove(adapter.path() / "adapter_model.safetensors");
  EXPECT_THAT(error_of([&] { LoraAdapter({adapter.path()}); }), HasSubstr("has no adapter_model.safetensors"));
  const auto no_adapter = adapter.write("a.gguf", GgufBytes().text("general.type", "model").bytes());
  EXPECT_THAT(error_of([&] { LoraAdapter({no_adapter}); }), HasSubstr("general.type"));
  const auto no_alpha = adapter.write("b.gguf", GgufBytes()
                                                    .text("general.type", "adapter")
                                                    .text("adapter.type", "lora")
                                                    .text("general.architecture", "qwen3")
                                                    .bytes());
  EXPECT_THAT(error_of([&] { LoraAdapter({no_alpha}); }), HasSubstr("adapter.lora.alpha"));
  Checkpoint described = Checkpoint::of_config(target.path());
  EXPECT_THAT(error_of([&] { described.merge({adapter.path()}); }), HasSubstr("has no weights"));
  EXPECT_THAT(error_of([&] { Checkpoint opened(adapter.path()); }), HasSubstr("give it to --lora"));
  const auto file = gguf_adapter("blk.0.attn_q.weight");
  EXPECT_THAT(error_of([&] { Checkpoint opened(file); }), HasSubstr("give it to --lora"));
}

TEST(LoraSource, IsAPathAndANumberBehindTheLastEqualsSign) {
  EXPECT_EQ(read_lora_source("a/b").path, "a/b");
  EXPECT_EQ(read_lora_source("a/b").scale, 1);
  EXPECT_EQ(read_lora_source("a=b=0.5").path, "a=b");
  EXPECT_EQ(read_lora_source("a=b=0.5").scale, 0.5);
  EXPECT_EQ(read_lora_source("a=-2").scale, -2);
  for (const char* const wrong : {"a=", "a=x", "a=1x", "a=inf", "a=nan", "a=1e999"}) {
    EXPECT_THAT(error_of([&] { read_lora_source(wrong); }), HasSubstr("is no number to scale the adapter by"));
  }
  const TemporaryFolder folder;
  const auto there = folder.write("x=2", "");
  EXPECT_EQ(read_lora_source(there.string()).path, there);
}

}  // namespace
}  // namespace draftproof::lora_adapter_test
