// SPDX-License-Identifier: MIT
// Compares the scalar table with the same formulas in double, with bounds derived next to each test. The errors of the
// doubles are below 2^-40 of any bound here and are neglected.
#include <Eigen/Dense>
#include <cmath>
#include <numbers>

#include "support.h"

namespace draftproof::test::scalar_test {
namespace {

using Row = Eigen::RowVectorXd;
using Matrix = Eigen::Matrix<double, Eigen::Dynamic, Eigen::Dynamic, Eigen::RowMajor>;

Matrix doubles(const float* from, int rows, int columns) {
  using Floats = Eigen::Matrix<float, Eigen::Dynamic, Eigen::Dynamic, Eigen::RowMajor>;
  return Eigen::Map<const Floats>(from, rows, columns).cast<double>();
}

/// exp.h: below 0.98 units in the last place, that is below 0.98 * 2 u relative where no result is denormal.
constexpr double exp_error = 1.96 * unit_roundoff;

/// The factors that bf16 weights are multiplied with.
void round_to_bf16(std::vector<float>& x) {
  for (float& value : x) value = bf16_to_f32(bf16_factor(f32_to_bf16(value)));
}

// A sum of n fma in a row has n roundings, each at most u of a partial sum: |y - exact| <= gamma_n sum |x| |w|. In
// pairs in runs of 32 a term passes fewer. Products of bf16 weights are of activations rounded to bf16.
TEST(Scalar, MatmulAgreesWithEigenInDoubleWithinTheDerivedBound) {
  for (const Format format : {Format::f32, Format::bf16, Format::f16}) {
    for (const auto& [outputs, inputs] : {std::pair{5, 3}, {48, 257}, {33, 1024}}) {
      const Weight weight(format, outputs, inputs, 4);
      const PackedMatrix w = weight.packed(scalar());
      const std::vector<float> x = Numbers(6).numbers(7 * static_cast<std::size_t>(inputs));
      std::vector<float> wide(static_cast<std::size_t>(outputs) * inputs);
      for (int n = 0; n < outputs; ++n) w.unpack_row(scalar(), n, &wide[static_cast<std::size_t>(n) * inputs]);
      std::vector<float> y(7 * static_cast<std::size_t>(outputs));
      multiply(scalar(), w, x.data(), inputs, 7, y.data(), outputs, 0, outputs);

      std::vector<float> factors = x;
      if (format == Format::bf16) round_to_bf16(factors);
      const Matrix left = doubles(factors.data(), 7, inputs);
      const Matrix right = doubles(wide.data(), outputs, inputs);
      const Matrix error = (doubles(y.data(), 7, outputs) - left * right.transpose()).cwiseAbs();
      const Matrix bound = gamma(inputs) * left.cwiseAbs() * right.cwiseAbs().transpose();
      EXPECT_TRUE((error.array() <= bound.array()).all()) << outputs << "x" << inputs;
      // The comparison is not vacuous; three products of eight bits each are exact.
      EXPECT_TRUE(error.maxCoeff() > 0 || (format == Format::bf16 && inputs == 3));
    }
  }
}

/// A denormal becomes a zero of its sign.
float flushed(float x) { return std::abs(x) < 0x1p-126f ? std::copysign(0.0f, x) : x; }

/// One result of the instruction tdpbf16ps, a run of 32 products at a time: Intel's manual, and equal to the
/// instruction on 5 million results of each kind (normal numbers, any bit pattern, products around 2^-126).
float of_tile_unit(std::span<const float> x, std::span<const float> w) {
  float sum = 0;
  for (std::size_t run = 0; run < x.size(); run += 32) {
    float even = 0;
    float odd = 0;
    for (std::size_t k = run; k < run + 32; k += 2) {
      even = flushed(std::fma(flushed(x[k]), flushed(w[k]), even));
      odd = flushed(std::fma(flushed(x[k + 1]), flushed(w[k + 1]), odd));
    }
    sum = flushed(flushed(sum) + flushed(even + odd));
  }
  return sum;
}

// In every table: instructions for pairs of bf16 flush denormals, fma does not.
TEST(Scalar, MatmulByBf16HasTheBitsOfATileUnitThatFlushesDenormalsAtEveryBorderOfTheirRangeAsHaveAllTables) {
  constexpr int outputs = 32;
  constexpr int inputs = 96;
  constexpr int rows = 6;
  std::vector<const Kernels*> tables = canonical_tables();
  tables.push_back(&scalar());
  for (const int x_exponent : {0, -40, -50, -55, -56, -57, -63, -70, -126, -133}) {
    for (const int w_exponent : {0, -40, -50, -55, -56, -57, -63, -70, -126, -133}) {
      Numbers numbers(static_cast<std::uint64_t>(2000 - x_exponent * 17 - w_exponent));
      // Half of the numbers have few significant bits and like magnitudes, so that sums cancel; half have all bits of
      // bf16 and unlike ones, so that sums round, and another order is another result.
      const auto some = [&](int exponent) {
        if (numbers.below(2) == 0) return std::ldexp(std::round(numbers.number() * 8) / 4, exponent + numbers.below(3));
        return std::ldexp(numbers.number(), exponent + numbers.below(14));
      };
      std::vector<float> x(rows * inputs);
      for (float& value : x) value = static_cast<float>(some(x_exponent));
      // Below 2^-56, but some of them round to it.
      for (int r = 0; r < rows; ++r) {
        float* row = &x[static_cast<std::size_t>(r * inputs)];
        for (const float value : {0x1.fffffep-57f, -0x1.ff8p-57f, 0x1.ffp-57f, -0x1.fefffep-57f}) *row++ = value;
      }
      Weight weight(Format::bf16, outputs, inputs, 1);
      for (int i = 0; i < outputs * inputs; ++i) {
        const std::uint16_t word = f32_to_bf16(static_cast<float>(some(w_exponent)));
        std::memcpy(&weight.data[2 * static_cast<std::size_t>(i)], &word, 2);
      }
      const PackedMatrix w = weight.packed(scalar());
      std::vector<std::vector<float>> results;
      for (const Kernels* table : tables) {
        std::vector<float>& y = results.emplace_back(rows * outputs);
        multiply(*table, w, x.data(), inputs, rows, y.data(), outputs, 0, outputs);
      }
      round_to_bf16(x);
      std::vector<float> row(inputs);
      for (int n = 0; n < outputs; ++n) {
        w.unpack_row(scalar(), n, row.data());
        for (int r = 0; r < rows; ++r) {
          const float expected = of_tile_unit(std::span(x).subspan(static_cast<std::size_t>(r) * inputs, inputs), row);
          for (std::size_t t = 0; t < tables.size(); ++t) {
            ASSERT_EQ(bits(results[t][static_cast<std::size_t>(r * outputs + n)]), bits(expected))
                << tables[t]->name << " " << x_exponent << " " << w_exponent;
          }
        }
      }
    }
  }
}

// A quantization block of x becomes d * q with |x - d q| <= d / 2 and two roundings of x * (127 / a), below 2^-15 of d;
// d = a / 127 rounds once. Then one product and one fma per block, and the rounding of the integers to floats.
TEST(Scalar, MatmulByQuantizedWeightsAgreesWithDoublesWithinTheRoundingOfItsRows) {
  for (const Format format : quantized_formats()) {
    const int outputs = 19;
    const int inputs = 768;
    const int block = traits(format).block_inputs;
    const Weight weight(format, outputs, inputs, 4);
    const PackedMatrix w = weight.packed(scalar());
    const std::vector<float> x = Numbers(6).numbers(3 * inputs);
    std::vector<float> y(3 * outputs);
    multiply(scalar(), w, x.data(), inputs, 3, y.data(), outputs, 0, outputs);
    std::vector<float> row(inputs);
    double max = 0;
    for (int n = 0; n < outputs; ++n) {
      w.unpack_row(scalar(), n, row.data());
      for (int r = 0; r < 3; ++r) {
        double exact = 0;
        double slack = 0;
        double size = 0;
        for (int b = 0; b < inputs; b += block) {
          double a = 0;
          for (int k = b; k < b + block; ++k) a = std::max(a, std::abs(double{x[r * inputs + k]}));
          for (int k = b; k < b + block; ++k) {
            exact += double{x[r * inputs + k]} * row[k];
            slack += (0.5 + 0x1p-15) * a / 127 * std::abs(double{row[k]});
            size += std::abs(double{x[r * inputs + k]}) * std::abs(double{row[k]});
          }
        }
        const double error = std::abs(y[r * outputs + n] - exact);
        EXPECT_LE(error, slack + 0x1p-16 * size) << traits(format).name;
        max = std::max(max, error / slack);
      }
    }
    EXPECT_GT(max, 1e-3) << traits(format).name;  // the comparison is not vacuous
  }
}

TEST(Scalar, PackingConvertsEveryHalfPrecisionNumberExactly) {
  std::vector<std::uint16_t> all(65536);
  for (std::size_t i = 0; i < all.size(); ++i) all[i] = static_cast<std::uint16_t>(i);
  for (const Format format : {Format::f16, Format::bf16}) {
    const MatrixView part = {all.data(), format, 256, 256};
    const PackedMatrix w(scalar(), {&part, 1});
    std::vector<float> row(256);
    for (int n = 0; n < 256; ++n) {
      w.unpack_row(scalar(), n, row.data());
      for (int k = 0; k < 256; ++k) {
        const int word = n * 256 + k;
        const int exponent_bits = format == Format::f16 ? 5 : 8;
        const int mantissa_bits = 15 - exponent_bits;
        const int exponent = (word & 0x7fff) >> mantissa_bits;
        const int mantissa = word & ((1 << mantissa_bits) - 1);
        const int bias = (1 << (exponent_bits - 1)) - 1;
        const float sign = word >> 15 != 0 ? -1.0f : 1.0f;
        if (exponent == (1 << exponent_bits) - 1) {
          EXPECT_EQ(std::isnan(row[k]), mantissa != 0);
          EXPECT_EQ(std::isinf(row[k]), mantissa == 0);
          continue;
        }
        // Weights of bf16 below 2^-56 are flushed; denormals of f16 are not denormal as floats.
        const bool flushed = format == Format::bf16 && exponent < bias - 56;
        const double significand = flushed ? 0 : mantissa + (exponent > 0 ? 1 << mantissa_bits : 0);
        const double value = std::ldexp(significand, std::max(exponent, 1) - bias - mantissa_bits);
        ASSERT_EQ(bits(row[k]), bits(std::copysign(static_cast<float>(value), sign))) << word;
      }
    }
  }
}

// The sum of squares passes at most ceil(n/16) fma and 4 additions; division by the width, addition of epsilon, root,
// reciprocal and two products round once each. All terms are positive, so the relative error of the result is at most
// half of that of the sum (the root halves it) and five roundings: below gamma_(n/16 + 12).
TEST(Scalar, RmsNormAgreesWithTheFormulaInDoubleWithinTheDerivedBound) {
  for (const int width : {1, 16, 77, 1024}) {
    const std::vector<float> x = Numbers(1).numbers(width);
    const std::vector<float> weight = Numbers(2).numbers(width);
    std::vector<float> y(width);
    scalar().rms_norm(x.data(), width, 1, 1, width, weight.data(), 1e-5f, y.data(), width);
    const Row in = doubles(x.data(), 1, width);
    const double factor = 1 / std::sqrt(in.squaredNorm() / width + double{1e-5f});
    for (int i = 0; i < width; ++i) {
      const double correct = in[i] * factor * weight[i];
      EXPECT_LE(std::abs(y[i] - correct), gamma(width / 16.0 + 12) * std::abs(correct)) << width << " " << i;
    }
  }
}

// fma(a, c, -(b s)): the product rounds, then the sum: |error| <= u |b s| + u (|a c| + |b s|)(1 + u).
TEST(Scalar, RopeRotatesEveryPairByItsAngleWithinTheDerivedBound) {
  const int half = 20;
  const int head_dim = 44;
  const std::vector<float> x = Numbers(1).numbers(2 * head_dim);
  std::vector<float> cosine(half);
  std::vector<float> sine(half);
  for (int j = 0; j < half; ++j) {
    cosine[j] = static_cast<float>(std::cos(0.3 * j));
    sine[j] = static_cast<float>(std::sin(0.3 * j));
  }
  std::vector<float> y = x;
  scalar().rope(y.data(), 2 * head_dim, 1, 2, head_dim, half, cosine.data(), sine.data());
  for (int h = 0; h < 2; ++h) {
    for (int j = 0; j < half; ++j) {
      const double a = x[h * head_dim + j];
      const double b = x[h * head_dim + j + half];
      const double c = cosine[j];
      const double s = sine[j];
      EXPECT_NEAR(y[h * head_dim + j], a * c - b * s, gamma(2) * (std::abs(a * c) + std::abs(b * s)));
      EXPECT_NEAR(y[h * head_dim + j + half], b * c + a * s, gamma(2) * (std::abs(b * c) + std::abs(a * s)));
    }
    for (int d = 2 * half; d < head_dim; ++d) EXPECT_EQ(y[h * head_dim + d], x[h * head_dim + d]);
  }
}

// exp rounds as exp.h says; 1 + e, the division and the product round once each.
TEST(Scalar, SiluAgreesWithTheFormulaInDoubleWithinTheDerivedBound) {
  const int width = 500;
  const std::vector<float> x = Numbers(1).numbers(2 * width, 30);
  std::vector<float> y(width);
  scalar().silu_multiply(x.data(), 1, width, 0, width, y.data());
  for (int i = 0; i < width; ++i) {
    const double correct = x[i] / (1 + std::exp(-double{x[i]})) * x[width + i];
    EXPECT_LE(std::abs(y[i] - correct), (gamma(4) + exp_error) * std::abs(correct)) << x[i];
  }
}

// w = g (a + b g^2), all terms of one sign, rounds five times, its two constants once each. The logarithm of 1 + e, e
// the exponential, moves by no more than w and the error of e, and GELU by as much of itself. It rounds three times.
TEST(Scalar, GeluAgreesWithTheFormulaInDoubleWithinTheDerivedBound) {
  const int width = 500;
  const std::vector<float> x = Numbers(1).numbers(2 * width, 8);
  std::vector<float> y(width);
  scalar().gelu_multiply(x.data(), 1, width, 0, width, y.data());
  for (int i = 0; i < width; ++i) {
    const double g = x[i];
    const double w = 2 * std::sqrt(2 / std::numbers::pi) * (g + 0.044715 * g * g * g);
    const double correct = g / (1 + std::exp(-w)) * x[width + i];
    const double bound = (gamma(7) * std::abs(w) + exp_error + gamma(3)) * std::abs(correct);
    EXPECT_LE(std::abs(y[i] - correct), 1.001 * bound) << x[i];  // products of errors
  }
}

// A sum of `width` fma, gamma_width of the sum of magnitudes, moves SiLU by at most 1.1 times as much (its slope lies
// between -0.1 and 1.1). Then SiLU rounds as above, without the product.
TEST(Scalar, ConvolutionAgreesWithTheFormulaInDoubleWithinTheDerivedBound) {
  const int channels = 33;
  const int rows = 6;
  for (const int width : {2, 4, 7}) {
    const std::vector<float> inputs = Numbers(1).numbers(static_cast<std::size_t>(width - 1 + rows) * channels, 5);
    const std::vector<float> weight = Numbers(2).numbers(static_cast<std::size_t>(width) * channels);
    std::vector<float> y(static_cast<std::size_t>(rows) * channels);
    scalar().causal_conv_silu(inputs.data(), &inputs[static_cast<std::size_t>(width - 1) * channels], channels, rows,
                              channels, width, weight.data(), 0, channels, y.data(), channels);
    double max = 0;
    for (int r = 0; r < rows; ++r) {
      for (int c = 0; c < channels; ++c) {
        double sum = 0;
        double size = 0;
        for (int j = 0; j < width; ++j) {
          const double term = double{weight[j * channels + c]} * inputs[(r + j) * channels + c];
          sum += term;
          size += std::abs(term);
        }
        const double correct = sum / (1 + std::exp(-sum));
        const double error = std::abs(y[r * channels + c] - correct);
        const double slack = 1.1 * gamma(width) * size;
        EXPECT_LE(error, slack + (gamma(4) + exp_error) * (std::abs(correct) + slack));
        max = std::max(max, error);
      }
    }
    EXPECT_GT(max, 0);
  }
}

// Beside each element of the state S stands a bound e of its error. A row multiplies it by its decay a, which has a
// relative error of exp_error, and rounds: e' = e a + |S| a (exp_error + u). The sums have n = key_dim fma each,
// gamma_n of the sum of magnitudes, and their terms the errors e'. The last factor covers the products of two errors.
TEST(Scalar, TheDeltaRuleAgreesWithTheFormulaInDoubleWithinTheDerivedBound) {
  for (const DeltaShape& shape :
       {DeltaShape{1, 2, 24, 5}, DeltaShape{2, 2, 128, 17}, DeltaShape{2, 6, 8, 3}, DeltaShape{2, 6, 8, 3, true},
        DeltaShape{2, 2, 24, 5, false, true}, DeltaShape{2, 6, 8, 3, true, true}}) {
    const DeltaInputs inputs(shape, 12, 3);
    const std::vector<float> got = inputs.run(scalar(), 12, shape.value_heads);
    const float* const state = got.data() + inputs.rows * inputs.values;
    const int n = shape.key_dim;
    double max = 0;
    for (int h = 0; h < shape.value_heads; ++h) {
      for (int v = 0; v < shape.value_dim; ++v) {
        std::vector<double> s(n);
        std::vector<double> e(n);
        for (int i = 0; i < n; ++i) s[i] = inputs.state[delta_state_at(shape, h, i, v)];
        const int group = shape.value_heads / shape.key_heads;
        const int key_at = (shape.dealt ? h % shape.key_heads : h / group) * n;
        for (int r = 0; r < inputs.rows; ++r) {
          const DeltaRows row = inputs.from(r);
          const float* const k = row.keys + key_at;
          const float* const q = inputs.query(r) + key_at;
          const auto decay = [&](int i) { return std::exp(double{row.decays[shape.channel_decays ? h * n + i : h]}); };
          const double beta = row.betas[h];
          const double value = row.values[h * shape.value_dim + v];
          double read = 0;
          double slack = 0;
          for (int i = 0; i < n; ++i) {
            e[i] = e[i] * decay(i) + std::abs(s[i]) * decay(i) * (exp_error + unit_roundoff);
            s[i] *= decay(i);
            read += s[i] * k[i];
            slack += std::abs(k[i]) * (e[i] + gamma(n) * std::abs(s[i]));
          }
          const double delta = beta * (value - read);
          slack = beta * slack + gamma(2) * std::abs(delta);
          double out = 0;
          double out_slack = 0;
          for (int i = 0; i < n; ++i) {
            s[i] += k[i] * delta;
            e[i] += std::abs(k[i]) * slack + unit_roundoff * std::abs(s[i]);
            out += s[i] * q[i];
            out_slack += std::abs(q[i]) * (e[i] + gamma(n) * std::abs(s[i]));
          }
          const double error = std::abs(got[r * inputs.values + h * shape.value_dim + v] - out);
          EXPECT_LE(error, out_slack * (1 + 1e-3)) << "row " << r;
          max = std::max(max, error / out_slack);
        }
        for (int i = 0; i < n; ++i) {
          EXPECT_LE(std::abs(state[(h * n + i) * shape.value_dim + v] - s[i]), e[i] * (1 + 1e-3));
        }
      }
    }
    EXPECT_GT(max, 1e-4);  // the comparison is not vacuous
  }
}

TEST(Scalar, AddAddsOnceAndExponentialsShiftThenScale) {
  std::vector<float> x = {1.5f, -2.25f, 0x1p-30f};
  std::vector<float> y = {1, 2, 1};
  scalar().add(x.data(), 3, y.data());
  EXPECT_TRUE(same_bits(y, std::vector{2.5f, -0.25f, 1.0f}));
  scalar().exponentials(x.data(), 1.5f, 0.5f, 2, y.data());
  EXPECT_EQ(y[0], 1);
  const double correct = std::exp(-1.875);
  EXPECT_NEAR(y[1], correct, exp_error * correct);
}

// A score s has head_dim fma, one product, for q8 another, and there the stored key is read with one more:
// |error| <= eps_p = gamma_(dim + 3) |scale| sum |q k|. Shifted by the same computed maximum, s - m rounds once more,
// absolutely by u |s - m|. So the weight e_p, up to a factor common to all p, is off by a relative
// rho <= exp(eps_p + u |s - m|) (1 + exp_error) - 1. Numerator and total are sums of positive weights with n + 1
// roundings at most each, two more for q8, the division rounds once:
// |out - exact| <= (sum w_p |v_p|) ((1 + rho) (1 + gamma_(n + 3)) (1 + u) / ((1 - rho) (1 - gamma_(n + 1))) - 1).
// A capped score is off by no more than the score, then by two roundings and an error of tanh of three units in the
// last place, relative to at most cap. A sink is one more score, exact, in the total only.
// For bf16 the query is the rounded one, its sums are regrouped by two more additions in each run, and each weight is
// rounded by at most a relative 2^-8, or by less than 2^-56 to zero; the total, of the largest weight or sink, is at
// least about 1.
void expect_attention_within_the_bound(KvFormat format, float cap = 0, const float* sinks = nullptr) {
  const AttentionShape shape = {.heads = 6, .kv_heads = 2, .head_dim = 24, .scale = 0.2f, .cap = cap, .sinks = sinks};
  const Visible visible = {37, 150};
  const Stored stored(shape, format, 9, 30, 150);
  const bool rounded = format == KvFormat::bf16;
  std::vector<float> q = Numbers(8).numbers(shape.heads * shape.head_dim);
  const Aligned<float> scratch = aligned<float>(attention_floats(shape, 3, 150));
  std::vector<float> out(q.size());
  for (const int kv : {0, 1}) {
    scalar().attention(shape, stored.view(), q.data(), 0, &visible, kv, 0, 3, scratch.get(), out.data());
  }

  if (rounded) round_to_bf16(q);
  const int n = visible.end - visible.first;
  for (int h = 0; h < shape.heads; ++h) {
    std::vector<float> keys(static_cast<std::size_t>(n) * shape.head_dim);
    std::vector<float> values(keys.size());
    for (int p = 0; p < n; ++p) {
      const std::size_t at = static_cast<std::size_t>(p) * shape.head_dim;
      read_position(stored.view(), visible.first + p, h / 3, &keys[at], &values[at]);
    }
    const Matrix k = doubles(keys.data(), n, shape.head_dim);
    const Matrix v = doubles(values.data(), n, shape.head_dim);
    Row score(n);
    double slack = 0;
    for (int p = 0; p < n; ++p) {
      double sum = 0;
      double size = 0;
      for (int d = 0; d < shape.head_dim; ++d) {
        const double term = double{q[h * shape.head_dim + d]} * k(p, d);
        sum += term;
        size += std::abs(term);
      }
      score[p] = sum * shape.scale;
      if (cap != 0) score[p] = cap * std::tanh(score[p] / cap);
      slack = std::max(slack, gamma(shape.head_dim + 3) * shape.scale * size);
    }
    slack += 8 * unit_roundoff * cap;
    const double sink = sinks != nullptr ? sinks[h] : -std::numeric_limits<double>::infinity();
    const double max = std::max(score.maxCoeff(), sink);
    const double min = sinks != nullptr ? std::min(score.minCoeff(), sink) : score.minCoeff();
    slack += unit_roundoff * (max - min + 2 * slack);
    const double rho = std::exp(slack) * (1 + exp_error) * (rounded ? 1 + 0x1p-8 : 1) - 1;
    const double growth = (1 + rho) * (1 + gamma(n + 3)) * (1 + unit_roundoff) / ((1 - rho) * (1 - gamma(n + 1))) - 1;
    const Row weights = (score.array() - max).exp();
    const double total = weights.sum() + std::exp(sink - max);
    for (int d = 0; d < shape.head_dim; ++d) {
      double sum = 0;
      double size = 0;
      for (int p = 0; p < n; ++p) {
        const double term = weights[p] / total * v(p, d);
        sum += term;
        size += std::abs(term);
      }
      const double lost = rounded ? 0x1p-55 * v.col(d).cwiseAbs().sum() : 0;
      EXPECT_LE(std::abs(out[h * shape.head_dim + d] - sum), growth * size + lost) << h << " " << d;
    }
  }
}

TEST(Scalar, AttentionOverBf16IsTwoProductsByBf16Weights) {
  const AttentionShape shape = {.heads = 2, .kv_heads = 1, .head_dim = 88, .scale = 0.2f};
  const int positions = 150;
  const Visible visible = {0, positions};
  const Stored stored(shape, KvFormat::bf16, 10, 0, positions);
  const std::vector<float> q = Numbers(8).numbers(shape.heads * shape.head_dim);
  const Aligned<float> scratch = aligned<float>(attention_floats(shape, shape.heads, positions));
  std::vector<float> out(q.size());
  scalar().attention(shape, stored.view(), q.data(), 0, &visible, 0, 0, shape.heads, scratch.get(), out.data());

  Weight keys(Format::bf16, positions, shape.head_dim, 1);
  Weight values(Format::bf16, shape.head_dim, positions, 1);
  std::vector<float> key(shape.head_dim);
  std::vector<float> value(shape.head_dim);
  for (int p = 0; p < positions; ++p) {
    read_position(stored.view(), p, 0, key.data(), value.data());
    for (int d = 0; d < shape.head_dim; ++d) {
      const std::uint16_t words[] = {f32_to_bf16(key[d]), f32_to_bf16(value[d])};
      std::memcpy(&keys.data[2 * static_cast<std::size_t>(p * shape.head_dim + d)], &words[0], 2);
      std::memcpy(&values.data[2 * static_cast<std::size_t>(d * positions + p)], &words[1], 2);
    }
  }
  std::vector<float> weights(shape.heads * positions);
  multiply(scalar(), keys.packed(scalar()), q.data(), shape.head_dim, shape.heads, weights.data(), positions, 0,
           positions);
  std::vector<float> totals;
  for (int h = 0; h < shape.heads; ++h) {
    float* const row = &weights[h * positions];
    for (int p = 0; p < positions; ++p) row[p] *= shape.scale;
    const float max = *std::max_element(row, row + positions);
    scalar().exponentials(row, max, 1, positions, row);
    float sums[lanes] = {};
    for (int p = 0; p < positions; ++p) sums[p % lanes] += row[p] = bf16_to_f32(f32_to_bf16(row[p]));
    for (int step = lanes / 2; step > 0; step /= 2) {
      for (int l = 0; l < step; ++l) sums[l] += sums[l + step];
    }
    totals.push_back(sums[0]);
  }
  std::vector<float> expected(q.size());
  multiply(scalar(), values.packed(scalar()), weights.data(), positions, shape.heads, expected.data(), shape.head_dim,
           0, shape.head_dim);
  for (std::size_t i = 0; i < expected.size(); ++i) expected[i] /= totals[i / shape.head_dim];
  EXPECT_TRUE(same_bits(out, expected));
}

TEST(Scalar, AttentionAgreesWithTheNaiveFormulaInDoubleWithinTheDerivedBound) {
  for (const KvFormat format : all_kv_formats) {
    expect_attention_within_the_bound(format);
    expect_attention_within_the_bound(format, 1.5f);
    const float sinks[] = {-50, 0.1f, 3, -0.7f, 0, 60};
    expect_attention_within_the_bound(format, 0, sinks);
    expect_attention_within_the_bound(format, 1.5f, sinks);
  }
}

}  // namespace
}  // namespace draftproof::test::scalar_test
