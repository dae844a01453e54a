// SPDX-License-Identifier: MIT
// Targets with an adapter, against PEFT's model and the float64 twin (lora_tiny.py).
#include <algorithm>
#include <cmath>

#include "kernels/formats.h"
#include "ref/formats/quantized_folder/unpacking_error.h"
#include "ref/models/memory.h"
#include "tests/models/fixtures.h"

namespace draftproof::test::lora_test {
namespace {

const std::string adapted_targets[] = {"llama-tiny-biased", "qwen2-tiny-untied", "qwen3-tiny-tied"};

std::filesystem::path adapter_of(const std::string& target) { return external_dir / ("lora-" + target); }

Checkpoint with_adapter(const std::filesystem::path& target, const std::filesystem::path& adapter, double scale = 1) {
  Checkpoint checkpoint(target);
  checkpoint.merge({adapter, scale});
  return checkpoint;
}

/// The largest difference, relative to the largest magnitude of the second.
double difference(const std::vector<float>& ours, const std::vector<double>& theirs) {
  double largest = 0;
  double distance = 0;
  for (std::size_t i = 0; i < theirs.size(); ++i) {
    largest = std::max(largest, std::abs(theirs[i]));
    distance = std::max(distance, std::abs(static_cast<double>(ours[i]) - theirs[i]));
  }
  return distance / largest;
}

TEST(Lora, GivesTheLogitsOfTheFloat64TwinAndTheGreedyTokensOfPeft) {
  for (const std::string& name : adapted_targets) {
    const Hdf5 answers = Hdf5::open(adapter_of(name) / "answers.h5");
    const std::vector<Token> tokens = stored_tokens(answers, "/tokens");
    const std::vector<double> exact = stored<double>(answers, "/float64/logits");
    const auto logits_with = [&](const Checkpoint& files, const std::vector<Token>& text) {
      return read(*load_model(files, in_floats(best_kernels())), text, {}).logits;
    };
    const Checkpoint merged = with_adapter(external_dir / name, adapter_of(name));
    const double found = difference(logits_with(merged, tokens), exact);
    EXPECT_LE(found, 2e-5) << name;
    // What a wrong scale or no adapter gives is far from it.
    for (const double scale : {0.0, 0.99, 2.0}) {
      const Checkpoint wrong = with_adapter(external_dir / name, adapter_of(name), scale);
      EXPECT_GT(difference(logits_with(wrong, tokens), exact), 1e-3) << name << " " << scale;
    }
    const std::vector<Token> greedy = stored_tokens(answers, "/greedy");
    std::vector<Token> text = tokens;
    text.insert(text.end(), greedy.begin(), greedy.end() - 1);
    const std::vector<float> logits = logits_with(merged, text);
    const std::size_t width = logits.size() / text.size();
    for (std::size_t i = 0; i < greedy.size(); ++i) {
      const auto row = logits.begin() + static_cast<std::ptrdiff_t>((tokens.size() - 1 + i) * width);
      EXPECT_EQ(std::max_element(row, row + static_cast<std::ptrdiff_t>(width)) - row, greedy[i]) << name << " " << i;
    }
  }
}

TEST(Lora, AsLlamaCppConvertsItHasTheBitsOfTheFolder) {
  const std::string name = "llama-tiny-biased";
  const Checkpoint folder = with_adapter(external_dir / name, adapter_of(name));
  const Checkpoint file = with_adapter(external_dir / name, adapter_of(name) / "adapter.gguf");
  ASSERT_EQ(folder.adapters()[0].matrices, 14U);
  ASSERT_EQ(file.adapters()[0].matrices, 14U);
  for (const auto& [tensor, stored] : folder.tensors()) {
    EXPECT_TRUE(same_bits(folder.floats(tensor, stored.shape), file.floats(tensor, stored.shape))) << tensor;
  }
}

TEST(Lora, TakesTheMemoryThatIsCounted) {
  for (const std::string& name : adapted_targets) {
    const Checkpoint files = with_adapter(external_dir / name, adapter_of(name));
    const Checkpoint alone(external_dir / name);
    for (const Quantization quantize : {Quantization::none, Quantization::f32, Quantization::q8}) {
      const LoadOptions options(best_kernels(), quantize);
      const TransformerConfig config = describe(files, options);
      const WeightLoader loaded(files, options);
      architecture_of(files.config()).load(loaded, config);
      loaded.finish(config.unused);
      EXPECT_EQ(model_need(files, options).weights, loaded.bytes().by_format) << name;
      // An embedding and an LM head that differ are two.
      EXPECT_EQ(model_need(files, options).weights != model_need(alone, options).weights, name == "qwen3-tiny-tied");
    }
  }
}

/// An adapter of rank 1 of the first layer's down_proj, of this shape.
struct NarrowAdapter {
  TemporaryFolder folder;
  std::vector<float> left;
  std::vector<float> right;

  explicit NarrowAdapter(const std::vector<std::int64_t>& shape) {
    for (std::int64_t i = 0; i < shape[0]; ++i) left.push_back(static_cast<float>(i % 7) / 16);
    for (std::int64_t i = 0; i < shape[1]; ++i) right.push_back(static_cast<float>(i % 5) / 8 - 0.25F);
    const std::string module = "base_model.model.model.layers.0.mlp.down_proj";
    folder.write("adapter_config.json", R"({"peft_type": "LORA", "r": 1, "lora_alpha": 2})");
    folder.write("adapter_model.safetensors",
                 safetensors({{module + ".lora_A.weight", "F32", {1, shape[1]}, bytes_of(right)},
                              {module + ".lora_B.weight", "F32", {shape[0], 1}, bytes_of(left)}}));
  }
};

std::vector<float> exact_values(const WeightSource& rows) {
  std::vector<float> values(static_cast<std::size_t>(rows.outputs) * static_cast<std::size_t>(rows.inputs));
  rows.read_values(0, rows.outputs, values.data());
  return values;
}

TEST(Lora, IsAddedToWhatAQuantizedMatrixSaysAndRoundedOnce) {
  const std::string name = "model.layers.0.mlp.down_proj.weight";
  for (const char* const target : {"llama-cpp-qwen3-q8_0/model.gguf", "llama-cpp-qwen3-q4_k_m/model.gguf",
                                   "quantized-folders/fp8-block", "quantized-folders/gptq-4-ordered-v2"}) {
    const Checkpoint alone(external_dir / target);
    const std::vector<std::int64_t>& shape = alone.tensors().at(name).shape;
    const NarrowAdapter adapter(shape);
    const Checkpoint merged = with_adapter(external_dir / target, adapter.folder.path());
    const WeightSource before = alone.weight(name, shape);
    const WeightSource after = merged.weight(name, shape);
    const std::vector<float> stored = exact_values(before);
    const std::vector<float> sums = exact_values(after);
    const auto rounded = [&](float value) {
      return after.format == Format::f16 ? f16_to_f32(f32_to_f16(value)) : bf16_to_f32(f32_to_bf16(value));
    };
    const std::size_t inputs = adapter.right.size();
    for (std::size_t i = 0; i < sums.size(); ++i) {
      ASSERT_EQ(sums[i], rounded(stored[i] + 2 * (adapter.left[i / inputs] * adapter.right[i % inputs]))) << target;
    }
    const bool blocks = !is_float(before.format);
    EXPECT_EQ(after.format, blocks ? Format::bf16 : before.format) << target;
    EXPECT_EQ(merged.adapters()[0].widened, blocks ? 1U : 0U);
    const std::size_t more = after.bytes_per_row() - before.bytes_per_row();
    EXPECT_EQ(merged.adapters()[0].bytes_more, static_cast<std::size_t>(shape[0]) * more);
    if (alone.quantization() == nullptr) continue;
    const auto matrices = [](const Checkpoint& files) {
      std::uint64_t count = 0;
      for (const auto& [format, found] : measure_unpacking(files).matrices) count += found;
      return count;
    };
    EXPECT_EQ(matrices(merged), matrices(alone) - 1);
  }
}

TEST(Lora, OfAMatrixInQuantizationBlocksCanBeQuantizedAgain) {
  const std::filesystem::path target = external_dir / "llama-cpp-qwen3-q8_0" / "model.gguf";
  const Checkpoint alone(target);
  const NarrowAdapter adapter(alone.tensors().at("model.layers.0.mlp.down_proj.weight").shape);
  const Checkpoint merged = with_adapter(target, adapter.folder.path());
  const auto bytes = [&](const Checkpoint& files, Quantization quantize) {
    return model_need(files, {best_kernels(), quantize}).weights;
  };
  EXPECT_GT(bytes(merged, Quantization::none)["bf16"], 0U);
  EXPECT_EQ(bytes(merged, Quantization::q8), bytes(alone, Quantization::q8));
}

}  // namespace
}  // namespace draftproof::test::lora_test
