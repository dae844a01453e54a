// SPDX-License-Identifier: MIT
// Compares targets from GGUF files with outputs of llama.cpp and with float64.
#include <fmt/format.h>

#include "tests/models/fixtures.h"
#include "tests/models/float64_twin.h"

namespace draftproof::test::gguf_target_test {
namespace {

struct Answers {
  std::vector<Token> tokens;
  int prompt_length;
  int logits_from;
  std::vector<float> twin;  // of rows logits_from, ...

  explicit Answers(const std::filesystem::path& folder) {
    const Hdf5 file = Hdf5::open(folder / "answers.h5");
    tokens = stored_tokens(file, "/tokens");
    prompt_length = stored<std::int32_t>(file, "/prompt_length")[0];
    logits_from = stored<std::int32_t>(file, "/logits_from")[0];
    twin = stored<float>(file, "/twin/logits");
  }
};

/// From row `first` on.
template <class Value>
std::vector<Value> rows_from(const std::vector<Value>& values, int first, int width) {
  return {values.begin() + static_cast<std::ptrdiff_t>(first) * width, values.end()};
}

class LlamaCppFixture : public testing::TestWithParam<std::string> {
 protected:
  std::filesystem::path folder() const { return external_dir / ("llama-cpp-" + GetParam()); }
  std::filesystem::path file() const { return folder() / "model.gguf"; }

  /// Returns the largest |ours - exact| / bound of our logits, where exact is the twin's output.
  void expect_within_the_bound() const {
    const Answers answers(folder());
    const TwinCheckpoint twin(file());
    const Bounds bounds = bounds_of([&](Rounding round) { return target_answers(twin, answers.tokens, round); });
    const std::vector<double> bound = rows_from(bounds.back(), answers.logits_from, 1);
    for (const char* numerics : {"canonical", "openblas"}) {
      for (const Kernels* kernels : usable_kernels(numerics)) {
        const auto model = load_model(Checkpoint(file()), in_floats(*kernels));
        const int width = model->vocabulary();
        const auto ours = rows_from(read(*model, answers.tokens, {}).logits, answers.logits_from, width);
        const double ratio = worst_ratio(ours, answers.twin, width, bound);
        EXPECT_LE(ratio, 1) << kernels->name;
        fmt::print("{} {}: observed/bound {:.2f}; bound {:.1e}\n", GetParam(), kernels->name, ratio,
                   *std::ranges::max_element(bound));
      }
    }
  }
};

TEST_P(LlamaCppFixture, TheFloat64TwinEqualsTheStoredReference) {
  const Answers answers(folder());
  const TwinCheckpoint twin(file());
  const auto logits = target_answers(twin, answers.tokens, Rounding()).back();
  const auto got = rows_from(logits.at, answers.logits_from, logits.width);
  double largest = 0;
  for (const float v : answers.twin) largest = std::max(largest, std::abs(static_cast<double>(v)));
  // These were rounded to float when they were stored; rope_freqs and epsilon are floats as well.
  const std::vector<double> tolerance(answers.twin.size() / static_cast<std::size_t>(logits.width), 1e-6 * largest);
  EXPECT_LE(worst_ratio(got, answers.twin, logits.width, tolerance), 1);
}

TEST_P(LlamaCppFixture, GreedyTokensEqualLlamaCppsInEveryNumericsClass) {
  const Answers answers(folder());
  for (const char* numerics : {"canonical", "openblas"}) {
    if (usable_kernels(numerics).empty()) continue;
    const LoadOptions as_theirs(*usable_kernels(numerics).back(), Quantization::none, KvFormat::f32);
    const auto model = load_model(Checkpoint(file()), as_theirs);
    const Reading ours = read(*model, answers.tokens, {});
    const auto width = static_cast<std::size_t>(model->vocabulary());
    for (std::size_t next = static_cast<std::size_t>(answers.prompt_length); next < answers.tokens.size(); ++next) {
      const std::span<const float> row = std::span(ours.logits).subspan((next - 1) * width, width);
      const auto chosen = static_cast<Token>(std::ranges::max_element(row) - row.begin());
      EXPECT_EQ(chosen, answers.tokens[next])
          << numerics << " token " << next << "; logits " << row[chosen] << " and " << row[answers.tokens[next]];
    }
  }
}

INSTANTIATE_TEST_SUITE_P(All, LlamaCppFixture,
                         testing::Values("llama-f16", "llama-f32", "llama-q4_0", "llama-q4_1", "llama-q4_k_m_narrow",
                                         "llama-q5_k", "qwen2-bf16", "qwen2-f32", "qwen2-q4_k_m", "qwen2-q5_1",
                                         "qwen2-q8_0", "qwen3-bf16", "qwen3-f16", "qwen3-f32", "qwen3-q4_0",
                                         "qwen3-q4_k", "qwen3-q4_k_m", "qwen3-q5_0", "qwen3-q5_k", "qwen3-q6_k",
                                         "qwen3-q8_0"),
                         printable_name);

class LlamaCppBound : public LlamaCppFixture {};
TEST_P(LlamaCppBound, LogitsAreWithinTheRoundingBoundOfFloat64) { expect_within_the_bound(); }
INSTANTIATE_TEST_SUITE_P(Few, LlamaCppBound, testing::Values("llama-f32", "llama-q4_0", "qwen2-q8_0"), printable_name);
INSTANTIATE_TEST_SUITE_P(OthersSlow, LlamaCppBound,
                         testing::Values("llama-f16", "llama-q4_1", "llama-q4_k_m_narrow", "llama-q5_k", "qwen2-bf16",
                                         "qwen2-f32", "qwen2-q4_k_m", "qwen2-q5_1", "qwen3-bf16", "qwen3-f16",
                                         "qwen3-f32", "qwen3-q4_0", "qwen3-q4_k", "qwen3-q4_k_m", "qwen3-q5_0",
                                         "qwen3-q5_k", "qwen3-q6_k", "qwen3-q8_0"),
                         printable_name);

TEST(GgufTarget, TheCausalLawHoldsForQuantizedWeights) {
  for (const char* name : {"llama-cpp-llama-q4_0", "llama-cpp-qwen2-q8_0", "llama-cpp-llama-q4_k_m_narrow",
                           "llama-cpp-qwen2-q5_1", "gguf-mixed"}) {
    std::vector<Reading> reference;
    for (const Kernels* kernels : usable_kernels("canonical")) {
      const auto model = load_model(Checkpoint(external_dir / name / "model.gguf"), *kernels);
      const std::vector<Token> text = some_text(40, model->vocabulary());
      if (reference.empty()) reference.push_back(read(*model, text, all_layers(*model)));
      for (const Division& how : {Division{0, 0, 0, false}, Division{1, 0, 0, false}, Division{3, 5, 23, true}}) {
        EXPECT_EQ(read(*model, text, all_layers(*model), how), reference[0]) << name << " " << kernels->name;
      }
    }
  }
}

}  // namespace
}  // namespace draftproof::test::gguf_target_test
