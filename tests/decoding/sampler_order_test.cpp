// SPDX-License-Identifier: MIT
// What the order of samplers does to the text of a trained model (docs/numerics.md has these figures).
#include <gtest/gtest.h>

#include "kernels/kernels.h"
#include "oracle/plain/plain.h"
#include "ref/acceptance/sampler.h"
#include "ref/models/models.h"
#include "ref/text/tokenizer.h"

namespace draftproof::sampler_order_test {
namespace {

TEST(SamplerOrder, DecidesHowManyTokensATaleCanGoOnWith) {
  const std::filesystem::path folder = std::filesystem::path(DRAFTPROOF_SOURCE_DIR) / "fixtures/models/tale-target";
  const auto target = load_model(Checkpoint(folder), best_kernels());
  const std::vector<Token> text = Tokenizer::load(folder).encode("Once upon a time there lived in");
  const std::vector<float> logits = logits_after(*target, text);
  const auto possible = [&](Sampling sampling, const SamplerOrder& order) {
    sampling.order = order;
    return compute_distribution(logits, sampling, {text, {}}).tokens().size();
  };
  const Sampling hot{.temperature = 2, .top_p = 0.8F};
  EXPECT_EQ(possible(hot, transformers_order), 497U);
  EXPECT_EQ(possible(hot, llama_cpp_order), 36U);
  const Sampling cold{.temperature = 0.5F, .top_p = 0.8F};
  EXPECT_EQ(possible(cold, transformers_order), 16U);
  EXPECT_EQ(possible(cold, llama_cpp_order), 36U);
}

}  // namespace
}  // namespace draftproof::sampler_order_test
