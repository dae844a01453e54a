// SPDX-License-Identifier: MIT
#include "ref/models/draft_tables.h"

#include <gtest/gtest.h>

#include <cmath>
#include <filesystem>
#include <limits>
#include <random>
#include <utility>

#include "kernels/formats.h"
#include "kernels/packed_activations.h"
#include "ref/models/models.h"

namespace draftproof::draft_tables_test {
namespace {

const std::filesystem::path models = std::filesystem::path(DRAFTPROOF_SOURCE_DIR) / "fixtures/models";

std::vector<float> logits_of(DraftTables& tables, const std::vector<float>& row) {
  PackedActivations scratch;
  std::vector<float> logits;
  EXPECT_TRUE(tables.unembed(row.data(), 1, scratch, logits));
  return logits;
}

/// Expects the logit of a token to be that of the target's head in this format.
void expect_copied(const Model& target, Format format, const std::vector<float>& row, Token token,
                   const std::vector<float>& logits, const std::string& where) {
  const int hidden = target.hidden();
  std::vector<float> weights(row.size());
  std::vector<std::byte> stored(row_bytes(format, hidden));
  target.embeddings()->head_row(token, weights.data());
  quantize_row(format, weights.data(), hidden, stored.data());
  dequantize_row(format, stored.data(), hidden, weights.data());
  double sum = 0;
  double magnitude = 0;
  float largest = 0;
  for (std::size_t i = 0; i < weights.size(); ++i) {
    sum += static_cast<double>(weights[i]) * row[i];
    magnitude += std::abs(weights[i]);
    largest = std::max(largest, std::abs(row[i]));
  }
  // Activations may be rounded to 8 bits, by half of their largest value over 127.
  ASSERT_NEAR(logits[static_cast<std::size_t>(token)], sum, magnitude * (largest / 254 + 1e-4)) << where;
}

TEST(DraftTables, In4BitsMultiplyWithTheTargetsHeadIn4BitsAndElseWithTheTargetsHead) {
  const Checkpoint of_target(models / "tale-target");
  const Checkpoint of_draft(models / "tale-dflash");  // it has neither embedding nor head
  for (const Kernels* const* table = all_kernels(); *table != nullptr; ++table) {
    if (!(*table)->supported()) continue;
    const Kernels& kernels = **table;
    const auto target = load_model(of_target, LoadOptions(kernels));
    const int hidden = target->hidden();
    const int vocabulary = target->vocabulary();
    const DraftTablesShape shape{hidden, vocabulary, vocabulary};
    LoadOptions as_they_are(kernels);
    LoadOptions in_4_bits(kernels, Quantization::q4);
    in_4_bits.small_tables = true;
    const WeightLoader plain_loader(of_draft, as_they_are);
    const WeightLoader loader(of_draft, in_4_bits);
    DraftTables plain(plain_loader, "", shape, *target);
    DraftTables tables(loader, "", shape, *target);

    std::mt19937 numbers(7);
    std::normal_distribution<float> normal;
    std::vector<float> row(static_cast<std::size_t>(hidden));
    for (float& value : row) value = normal(numbers);

    PackedActivations scratch;
    std::vector<float> of_head(static_cast<std::size_t>(vocabulary));
    ASSERT_TRUE(target->embeddings()->unembed(row.data(), 1, scratch, of_head.data()));
    EXPECT_EQ(logits_of(plain, row), of_head) << kernels.name;

    const std::vector<float> logits = logits_of(tables, row);
    EXPECT_NE(logits, of_head) << kernels.name;
    for (Token token = 0; token < vocabulary; ++token) {
      expect_copied(*target, Format::q4_0, row, token, logits, kernels.name);
    }
  }
}

TEST(DraftTables, OfTheFirstTokensGiveTheirLogitsOfTheWholeHeadAndNoOthers) {
  const Kernels& kernels = best_kernels();
  const Checkpoint of_target(models / "tale-target");
  const auto target = load_model(of_target, LoadOptions(kernels));
  const int hidden = target->hidden();
  const int vocabulary = target->vocabulary();
  std::mt19937 numbers(7);
  std::normal_distribution<float> normal;
  std::vector<float> row(static_cast<std::size_t>(hidden));
  for (float& value : row) value = normal(numbers);

  // The first has no head, the second one for 1024 of the target's tokens.
  for (const auto& [draft, draft_vocabulary] : {std::pair("tale-dflash", vocabulary), {"tale-eagle3", 1024}}) {
    const Checkpoint files(models / draft);
    const std::vector<Token> tokens = read_draft_vocabulary(files, draft_vocabulary, vocabulary);
    for (const bool in_4_bits : {false, true}) {
      LoadOptions options(kernels, in_4_bits ? Quantization::q4 : Quantization::none);
      options.small_tables = in_4_bits;
      const WeightLoader loader(files, options);
      DraftTables whole(loader, "", {hidden, vocabulary, draft_vocabulary}, *target);
      const std::vector<float> expected = logits_of(whole, row);
      for (const int known : {1, 100, draft_vocabulary}) {
        options.head_tokens = known;
        DraftTables part(loader, "", {hidden, vocabulary, draft_vocabulary}, *target);
        const std::vector<float> logits = logits_of(part, row);
        std::vector<bool> drafted(static_cast<std::size_t>(vocabulary));
        for (int i = 0; i < known; ++i) drafted[static_cast<std::size_t>(tokens[static_cast<std::size_t>(i)])] = true;
        // Without 4 bits, a part of the target's head is a copy in 8, and all of it the target's own.
        const bool in_8_bits = !files.has("lm_head.weight") && !in_4_bits && known < draft_vocabulary;
        for (std::size_t token = 0; token < drafted.size(); ++token) {
          if (!drafted[token]) {
            ASSERT_EQ(logits[token], -std::numeric_limits<float>::infinity()) << draft << " " << token;
          } else if (in_8_bits) {
            expect_copied(*target, Format::q8_0, row, static_cast<Token>(token), logits, draft);
          } else {
            ASSERT_EQ(logits[token], expected[token]) << draft << " " << token;
          }
        }
      }
    }
  }
}

}  // namespace
}  // namespace draftproof::draft_tables_test
