// SPDX-License-Identifier: MIT
// The openblas numerics class. When the library is missing or fails its self-test, these tests are skipped with the
// reason.
#include "kernels/openblas.h"
#include "kernels/packed_matrix.h"
#include "kernels/threads.h"
#include "support.h"

#include <algorithm>
#include <cstdlib>

namespace draftproof::test::openblas_test {
namespace {

class OpenBlas : public ::testing::Test {
 protected:
  void SetUp() override {
    if (*self_test(table_) != '\0') GTEST_SKIP() << self_test(table_);
  }
  const Kernels& table_ = *find_kernels("openblas");
};

TEST_F(OpenBlas, NamesItsCoreTypeAndLeavesTheEnvironmentAsItWas) {
  EXPECT_STRNE(openblas_core(), "none");
  EXPECT_STRNE(openblas_core(), "");
  if (std::getenv("OPENBLAS_CORETYPE") == nullptr && std::string(best_kernels().name).starts_with("avx512")) {
    EXPECT_STREQ(openblas_core(), "SkylakeX");
  }
}

TEST_F(OpenBlas, GivesARowTheSameBitsWhateverTheOtherRows) {
  Numbers numbers(3);
  for (const auto& [outputs, inputs] : {std::pair{50, 70}, {129, 333}, {300, 1024}, {64, 2500}, {1, 1}}) {
    const PackedMatrix w = Weight(Format::f32, outputs, inputs, 2).packed(table_);
    const std::size_t width = static_cast<std::size_t>(inputs);
    const std::vector<float> row = numbers.numbers(width);
    std::vector<float> alone(outputs);
    multiply(table_, w, row.data(), inputs, 1, alone.data(), outputs, 0, outputs);
    for (const int rows : {2, 3, 7, 8, 9, 12, 13, 16, 17, 24, 33}) {
      for (const float beside : {0.0f, 1.0f, 1e30f}) {
        std::vector<float> x = numbers.numbers(width * rows, beside);
        const int at = numbers.below(rows);
        std::copy(row.begin(), row.end(), x.begin() + static_cast<std::ptrdiff_t>(width) * at);
        std::vector<float> y(static_cast<std::size_t>(rows) * (outputs + 3), nan);
        multiply(table_, w, x.data(), inputs, rows, y.data(), outputs + 3, 0, outputs);
        const std::span<const float> mine(y.data() + static_cast<std::ptrdiff_t>(at) * (outputs + 3), outputs + 3);
        ASSERT_TRUE(same_bits(mine.first(outputs), alone)) << outputs << "x" << inputs << " rows " << rows;
        for (int gap = 0; gap < 3; ++gap) ASSERT_TRUE(std::isnan(mine[outputs + gap]));
      }
    }
  }
}

TEST_F(OpenBlas, GivesTheSameBitsForEveryNumberOfThreads) {
  const int before = threads();
  const PackedMatrix w = Weight(Format::bf16, 700, 1030, 2).packed(table_);
  const std::vector<float> x = Numbers(4).numbers(1030 * 5);
  std::vector<float> expected;
  for (const int count : {1, 2, 3}) {
    set_threads(count);
    std::vector<float> y(700 * 5);
    multiply(table_, w, x.data(), 5, y.data(), 700);
    if (expected.empty()) expected = y;
    EXPECT_TRUE(same_bits(y, expected)) << count << " threads";
  }
  set_threads(before);
}

// For any order of summation of n products |y - exact| <= gamma_n sum |x| |w|, so two orders differ by at most twice
// that.
TEST_F(OpenBlas, AgreesWithTheScalarTableWithinTheDerivedBound) {
  const Weight weight(Format::f32, 140, 1500, 2);
  const PackedMatrix ours = weight.packed(scalar());
  const PackedMatrix theirs = weight.packed(table_);
  const std::vector<float> x = Numbers(4).numbers(1500 * 2);
  std::vector<float> expected(140 * 2);
  std::vector<float> y(140 * 2);
  multiply(scalar(), ours, x.data(), 1500, 2, expected.data(), 140, 0, 140);
  multiply(table_, theirs, x.data(), 1500, 2, y.data(), 140, 0, 140);
  std::vector<float> row(1500);
  std::vector<float> same(1500);
  for (int n = 0; n < 140; ++n) {
    ours.unpack_row(scalar(), n, row.data());
    theirs.unpack_row(table_, n, same.data());
    ASSERT_TRUE(same_bits(row, same));
    for (int r = 0; r < 2; ++r) {
      double size = 0;
      for (int k = 0; k < 1500; ++k) size += std::abs(double{x[r * 1500 + k]} * row[k]);
      EXPECT_NEAR(y[r * 140 + n], expected[r * 140 + n], 2 * gamma(1500) * size);
    }
  }
}

TEST_F(OpenBlas, TakesEveryOtherEntryFromTheBestCanonicalTable) {
  EXPECT_EQ(table_.attention, best_kernels().attention);
  EXPECT_EQ(table_.rms_norm, best_kernels().rms_norm);
  EXPECT_EQ(table_.exponentials, best_kernels().exponentials);
  EXPECT_EQ(table_.causal_conv_silu, best_kernels().causal_conv_silu);
  EXPECT_EQ(table_.gated_delta_rule, best_kernels().gated_delta_rule);
  EXPECT_STREQ(table_.numerics, "openblas");
}

}  // namespace
}  // namespace draftproof::test::openblas_test
