// SPDX-License-Identifier: MIT
#include "ref/models/draft_tables.h"

#include <gtest/gtest.h>

#include <cmath>
#include <filesystem>
#include <random>

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
    in_4_bits.requantize = true;
    const WeightLoader plain_loader(of_draft, as_they_are);
    const WeightLoader loader(of_draft, in_4_bits);
    DraftTables plain(plain_loader, "", shape, *target);
    DraftTables tables(loader, "", shape, *target);

    std::mt19937 numbers(7);
    std::normal_distribution<float> normal;
    std::vector<float> row(static_cast<std::size_t>(hidden));
    for (float& value : row) value = normal(numbers);
    float largest = 0;
    for (const float value : row) largest = std::max(largest, std::abs(value));

    PackedActivations scratch;
    std::vector<float> of_head(static_cast<std::size_t>(vocabulary));
    ASSERT_TRUE(target->embeddings()->unembed(row.data(), 1, scratch, of_head.data()));
    EXPECT_EQ(logits_of(plain, row), of_head) << kernels.name;

    const std::vector<float> logits = logits_of(tables, row);
    EXPECT_NE(logits, of_head) << kernels.name;
    std::vector<float> weights(static_cast<std::size_t>(hidden));
    std::vector<std::byte> stored(row_bytes(Format::q4_0, hidden));
    for (Token token = 0; token < vocabulary; ++token) {
      target->embeddings()->head_row(token, weights.data());
      quantize_row(Format::q4_0, weights.data(), hidden, stored.data());
      dequantize_row(Format::q4_0, stored.data(), hidden, weights.data());
      double sum = 0;
      double magnitude = 0;
      for (std::size_t i = 0; i < weights.size(); ++i) {
        sum += static_cast<double>(weights[i]) * row[i];
        magnitude += std::abs(weights[i]);
      }
      // Activations may be rounded to 8 bits, by half of their largest value over 127.
      ASSERT_NEAR(logits[static_cast<std::size_t>(token)], sum, magnitude * (largest / 254 + 1e-4)) << kernels.name;
    }
  }
}

}  // namespace
}  // namespace draftproof::draft_tables_test
