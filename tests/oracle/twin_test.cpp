// SPDX-License-Identifier: MIT
// The float64 twin against outputs that transformers computed in float64.
#include "oracle/twin/twin.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <string>
#include <vector>

#include "ref/base/error.h"
#include "ref/formats/hdf5.h"
#include "tests/folder.h"

namespace draftproof::test::twin_test {
namespace {

const std::filesystem::path external = std::filesystem::path(DRAFTPROOF_SOURCE_DIR) / "fixtures" / "external";

/// The largest difference from the stored logits of a text, over the largest of them.
double worst_of(const Twin& twin, const Hdf5& file, const std::string& which, std::size_t piece) {
  const std::vector<std::int32_t> stored = file.read<std::int32_t>(which + "/tokens").values;
  const std::vector<Token> tokens(stored.begin(), stored.end());
  const std::vector<double> want = file.read<double>(which + "/float64/logits").values;
  const std::size_t width = want.size() / tokens.size();
  const double largest = std::abs(*std::ranges::max_element(want, {}, [](double v) { return std::abs(v); }));
  TwinText text(twin);
  double worst = 0;
  for (std::size_t read = 0; read < tokens.size(); read += piece) {
    const std::size_t count = std::min(piece, tokens.size() - read);
    const std::vector<double> row = text.read(std::span(tokens).subspan(read, count));
    EXPECT_EQ(row.size(), width);
    for (std::size_t i = 0; i < row.size(); ++i) {
      worst = std::max(worst, std::abs(row[i] - want[(read + count - 1) * width + i]) / largest);
    }
  }
  return worst;
}

class StoredTarget : public testing::TestWithParam<std::string> {};

TEST_P(StoredTarget, LogitsOfEveryRowAreThoseOfTransformersInFloat64HoweverTheTextIsRead) {
  const Twin twin{Checkpoint(external / GetParam())};
  const Hdf5 file = Hdf5::open(external / GetParam() / "answers.h5");
  for (const char* which : {"case0", "case1"}) {
    for (const std::size_t piece : {1, 5}) EXPECT_LE(worst_of(twin, file, which, piece), 1e-12) << which << piece;
  }
}

TEST(Twin, HasTheLongFactorsOfLongropeWhereTheyAreAskedFor) {
  const std::filesystem::path folder = external / "phi3-longrope";
  const Hdf5 file = Hdf5::open(folder / "answers.h5");
  EXPECT_LE(worst_of(Twin(Checkpoint(folder), true), file, "case0", 5), 1e-12);
  EXPECT_GT(worst_of(Twin(Checkpoint(folder)), file, "case0", 5), 1e-3);
}

INSTANTIATE_TEST_SUITE_P(
    All, StoredTarget,
    testing::Values("qwen3-tiny-tied", "qwen3-tiny-sharded", "qwen3-tiny-odd", "qwen2-tiny-tied", "qwen2-tiny-untied",
                    "llama-tiny-plain", "llama-tiny-stretched", "llama-tiny-biased", "llama-tiny-linear",
                    "llama-tiny-yarn", "qwen2-tiny-windowed", "mistral-tiny-windowed", "mistral-tiny-nemo",
                    "ministral3-tiny", "qwen3-moe-tiny-mixed", "qwen3-moe-tiny-unnormalized", "qwen35-tiny-nested",
                    "qwen35-tiny-irregular", "qwen35-tiny-rectangular", "qwen35-moe-tiny", "gemma2-tiny", "gemma3-tiny",
                    "gemma3-tiny-nested", "gemma4-tiny", "gemma4-tiny-shared", "gemma4-tiny-donors",
                    "gemma4-tiny-experts", "smollm3-tiny", "olmo2-tiny", "olmo3-tiny", "phi3-tiny",
                    "phi3-tiny-longrope", "granite-tiny", "granitemoe-tiny", "mixtral-tiny", "qwen2-moe-tiny",
                    "olmoe-tiny", "glm4-tiny", "cohere2-tiny", "exaone4-tiny", "seed-oss-tiny", "ernie45-tiny",
                    "stablelm-tiny", "stablelm-tiny-parallel", "arcee-tiny", "starcoder2-tiny", "lfm2-tiny",
                    "qwen3-next-tiny", "mamba2-tiny", "granite-hybrid-tiny", "granite-hybrid-tiny-experts",
                    "lfm2-moe-tiny", "phi-tiny", "apertus-tiny", "nanochat-tiny", "bitnet-tiny", "gemma3n-tiny",
                    "gpt-oss-tiny", "glm4-moe-tiny", "minimax-m2-tiny", "ernie45-moe-tiny", "falcon-h1-tiny",
                    "falcon-h1-tiny-normed", "nemotron-h-tiny", "nemotron-h-tiny-experts", "jamba-tiny",
                    "deepseek-v3-tiny", "deepseek-v3-tiny-biased", "deepseek-v2-tiny", "deepseek-v2-tiny-groups",
                    "glm4-moe-lite-tiny", "llama4-tiny", "llama4-tiny-published", "kimi-linear-tiny",
                    "kimi-linear-tiny-groups", "mimo-tiny", "nemotron-h-tiny-latent"),
    [](const auto& of) {
      std::string name = of.param;
      std::ranges::replace(name, '-', '_');
      return name;
    });

}  // namespace
}  // namespace draftproof::test::twin_test
