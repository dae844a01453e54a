// SPDX-License-Identifier: MIT
// The check must detect violations: each mutant computes the formula and breaks the row law in one way.
#include "kernels/row_law.h"

#include "support.h"

namespace draftproof::test::row_law_test {
namespace {

/// Adds x . w over [begin, end) to `sum`.
float dot(const float* x, const std::vector<float>& w, int begin, int end, float sum) {
  for (int k = begin; k < end; ++k) sum = std::fma(x[k], w[k], sum);
  return sum;
}

/// Two partial sums, as in BLAS for vectors.
float split_dot(const float* x, const std::vector<float>& w, int inputs) {
  return dot(x, w, 0, inputs / 2, 0) + dot(x, w, inputs / 2, inputs, 0);
}

/// A table whose matmul calls Formula for each output, with all rows and the place of the output.
template <class Formula>
Kernels table_with() {
  Kernels table = scalar();
  table.matmul = [](const PackedView& w, const void* activations, int rows, float* y, std::ptrdiff_t stride, int begin,
                    int end) noexcept {
    const auto* const x = static_cast<const float*>(activations);
    std::vector<float> weights(w.inputs);
    for (int n = begin; n < end; ++n) {
      scalar().unpack_row(w, n, weights.data());
      for (int r = 0; r < rows; ++r) y[r * stride + n] = Formula{}(x, weights, w.inputs, r, rows, begin);
    }
  };
  return table;
}

struct Lawful {
  float operator()(const float* x, const std::vector<float>& w, int inputs, int r, int, int) const {
    return dot(x + r * inputs, w, 0, inputs, 0);
  }
};
struct OtherSumForASingleRow {
  float operator()(const float* x, const std::vector<float>& w, int inputs, int r, int rows, int) const {
    return rows == 1 ? split_dot(x, w, inputs) : dot(x + r * inputs, w, 0, inputs, 0);
  }
};
struct SplitsTheSumByTheNumberOfRows {
  float operator()(const float* x, const std::vector<float>& w, int inputs, int r, int rows, int) const {
    const int cut = inputs / (rows > 16 ? 2 : 1);
    return dot(x + r * inputs, w, 0, cut, 0) + dot(x + r * inputs, w, cut, inputs, 0);
  }
};
struct OtherSumForTheRowsLeftOverFromBlocksOfFour {
  float operator()(const float* x, const std::vector<float>& w, int inputs, int r, int rows, int) const {
    return rows > 4 && r >= rows / 4 * 4 ? split_dot(x + r * inputs, w, inputs) : dot(x + r * inputs, w, 0, inputs, 0);
  }
};
struct LeaksALittleOfTheRowBefore {
  float operator()(const float* x, const std::vector<float>& w, int inputs, int r, int, int) const {
    const float before = r > 0 ? x[(r - 1) * inputs] * 0x1p-100f : 0;
    return dot(x + r * inputs, w, 0, inputs, before);
  }
};
struct OtherSumInALaterRange {
  float operator()(const float* x, const std::vector<float>& w, int inputs, int r, int, int begin) const {
    return begin > 0 ? split_dot(x + r * inputs, w, inputs) : dot(x + r * inputs, w, 0, inputs, 0);
  }
};

TEST(RowLaw, HoldsForAMatmulThatReadsOneRowOnly) { EXPECT_TRUE(keeps_row_law(table_with<Lawful>())); }

TEST(RowLaw, CheckDetectsASeparatePathForASingleRow) {
  EXPECT_FALSE(keeps_row_law(table_with<OtherSumForASingleRow>()));
}

TEST(RowLaw, CheckDetectsASumThatDependsOnTheNumberOfRows) {
  EXPECT_FALSE(keeps_row_law(table_with<SplitsTheSumByTheNumberOfRows>()));
}

TEST(RowLaw, CheckDetectsAnotherSumForLeftOverRows) {
  EXPECT_FALSE(keeps_row_law(table_with<OtherSumForTheRowsLeftOverFromBlocksOfFour>()));
}

TEST(RowLaw, CheckDetectsALeakFromTheRowBefore) {
  EXPECT_FALSE(keeps_row_law(table_with<LeaksALittleOfTheRowBefore>()));
}

TEST(RowLaw, CheckDetectsASumThatDependsOnTheRange) {
  EXPECT_FALSE(keeps_row_law(table_with<OtherSumInALaterRange>()));
}

TEST(RowLaw, ABrokenTableFailsTheSelfTestWithAMessage) {
  EXPECT_NE(std::string(self_test(table_with<OtherSumForASingleRow>())).find("row law"), std::string::npos);
}

}  // namespace
}  // namespace draftproof::test::row_law_test
