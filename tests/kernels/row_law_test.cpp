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

/// A single row is convolved as if it were the first of the text.
Kernels forgets_the_tail() {
  Kernels table = scalar();
  table.causal_conv_silu = [](const float* tail, const float* x, std::ptrdiff_t x_stride, int rows, int channels,
                              int width, const float* weight, int begin, int end, float* out,
                              std::ptrdiff_t out_stride) noexcept {
    std::vector<float> zeros(static_cast<std::size_t>(width - 1) * channels);
    scalar().causal_conv_silu(rows == 1 ? zeros.data() : tail, x, x_stride, rows, channels, width, weight, begin, end,
                              out, out_stride);
  };
  return table;
}

/// The sound delta rule, which flips a bit of the state that it leaves where Change says so.
template <class Change>
Kernels delta_rule_with() {
  Kernels table = scalar();
  table.gated_delta_rule = [](const DeltaShape& shape, const DeltaRows& folded, const float* q, std::ptrdiff_t q_stride,
                              int rows, int begin, int end, const float* from, float* to, float* out) noexcept {
    scalar().gated_delta_rule(shape, folded, q, q_stride, rows, begin, end, from, to, out);
    float& last = to[delta_state_at(shape, end - 1, shape.key_dim - 1, shape.value_dim - 1)];
    if (Change{}(rows, begin, q)) last = __builtin_bit_cast(float, bits(last) ^ 1u);
  };
  return table;
}
struct NoChange {
  bool operator()(int, int, const float*) const { return false; }
};
struct OtherBitsForSeveralRows {
  bool operator()(int rows, int, const float*) const { return rows > 1; }
};
struct OtherBitsInALaterRange {
  bool operator()(int, int begin, const float*) const { return begin > 0; }
};
struct OtherBitsInAReplay {
  bool operator()(int, int, const float* q) const { return q == nullptr; }
};

TEST(RowLaw, CheckDetectsAConvolutionThatForgetsItsTail) { EXPECT_FALSE(keeps_row_law(forgets_the_tail())); }

TEST(RowLaw, CheckDetectsADeltaRuleThatDependsOnTheCut) {
  EXPECT_TRUE(keeps_row_law(delta_rule_with<NoChange>()));
  EXPECT_FALSE(keeps_row_law(delta_rule_with<OtherBitsForSeveralRows>()));
  EXPECT_FALSE(keeps_row_law(delta_rule_with<OtherBitsInALaterRange>()));
  EXPECT_FALSE(keeps_row_law(delta_rule_with<OtherBitsInAReplay>()));
}

TEST(RowLaw, ABrokenTableFailsTheSelfTestWithAMessage) {
  EXPECT_NE(std::string(self_test(table_with<OtherSumForASingleRow>())).find("row law"), std::string::npos);
}

}  // namespace
}  // namespace draftproof::test::row_law_test
