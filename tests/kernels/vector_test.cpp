// SPDX-License-Identifier: MIT
// Compares every canonical table with the scalar table, bit by bit, through the tables' own entries.
#include "support.h"

namespace draftproof::test::vector_test {
namespace {

/// Compares a table's matmul with that of the scalar table, with NaN around x and y and in their gaps.
void expect_same_matmul(const Kernels& table, const Weight& weight, const std::vector<int>& row_counts, int begin,
                        int end) {
  SCOPED_TRACE(::testing::Message() << table.name << " " << weight.outputs << "x" << weight.inputs << " "
                                    << traits(weight.format).name << " outputs " << begin << ".." << end);
  int rows_max = 0;
  for (const int rows : row_counts) rows_max = std::max(rows_max, rows);
  const std::size_t x_stride = static_cast<std::size_t>(weight.inputs) + 3;
  std::vector<float> x(x_stride * rows_max + 1 + lanes, nan);  // and unaligned
  Numbers numbers(11);
  for (int r = 0; r < rows_max; ++r) {
    const float scale = r % 3 == 0 ? 1.0f : 40.0f;
    for (int k = 0; k < weight.inputs; ++k) x[x_stride * r + 1 + k] = numbers.number() * scale;
  }
  const PackedMatrix w = weight.packed(table);
  const int stride = weight.outputs + 5;

  const auto run = [&](const Kernels& kernels, int rows) {
    std::vector<float> y(static_cast<std::size_t>(stride) * rows + lanes, nan);
    multiply(kernels, w, x.data() + 1, static_cast<std::ptrdiff_t>(x_stride), rows, y.data(), stride, begin, end);
    return y;
  };
  const std::vector<float> expected = run(scalar(), rows_max);
  for (const int rows : row_counts) {
    const std::vector<float> y = run(table, rows);
    const std::size_t written = static_cast<std::size_t>(stride) * rows;
    ASSERT_TRUE(same_bits(std::span(y).first(written), std::span(expected).first(written))) << rows << " rows";
    for (std::size_t i = written; i < y.size(); ++i) ASSERT_TRUE(std::isnan(y[i])) << "written past the end";
  }
}

std::vector<int> one_to(int last) {
  std::vector<int> counts;
  for (int i = 1; i <= last; ++i) counts.push_back(i);
  return counts;
}

TEST(Vector, MatmulOfAnySmallShapeAndAnyNumberOfRowsHasTheBitsOfTheScalarTable) {
  for (const Kernels* table : canonical_tables()) {
    Numbers numbers(3);
    for (int outputs = 1; outputs <= 50; ++outputs) {
      for (const Format format : all_formats) {
        const int block = traits(format).block_inputs;
        const int inputs = block * (1 + numbers.below(block == 1 ? 70 : block == 32 ? 6 : 3));
        const Weight weight(format, outputs, inputs, 5);
        const std::vector<int> rows = outputs % 10 == 1 ? one_to(33) : std::vector{1, 2 + numbers.below(31), 33};
        expect_same_matmul(*table, weight, rows, 0, outputs);
      }
    }
  }
}

TEST(Vector, MatmulOfRealShapesHasTheBitsOfTheScalarTable) {
  for (const Kernels* table : canonical_tables()) {
    for (const Format format : all_formats) {
      const int odd = is_float(format) ? 1031 : 1024;
      expect_same_matmul(*table, Weight(format, 1200, 1024, 5), {1, 2, 4, 5, 8, 16, 31, 32}, 1024, 1024 + 80);
      expect_same_matmul(*table, Weight(format, 100, 3072, 5), {1, 7, 16, 24, 32, 33}, 16, 100);
      expect_same_matmul(*table, Weight(format, 70, odd, 5), {64, 65}, 0, 70);
      expect_same_matmul(*table, Weight(format, 33, odd / 2 / 256 * 256 + odd % 2, 5), {25, 127, 512}, 0, 33);
    }
  }
}

TEST(Vector, MatmulOfMoreRowsThanTheCpuCacheHoldsHasTheBitsOfTheScalarTable) {
  for (const Kernels* table : canonical_tables()) {
    for (const Format format : {Format::bf16, Format::q8_0, Format::q4_k}) {
      expect_same_matmul(*table, Weight(format, 20, 2048, 5), {300}, 0, 20);
    }
  }
}

TEST(Vector, MatmulGivesTheSameBitsHoweverTheRangeOfOutputsIsSplit) {
  for (const Kernels* table : canonical_tables()) {
    for (const Format format : all_formats) {
      for (const int end : {16, 48, 131}) {
        for (int begin = 0; begin < end; begin += 16) {
          expect_same_matmul(*table, Weight(format, 131, is_float(format) ? 37 : 256, 5), {1, 6, 16}, begin, end);
        }
      }
    }
  }
}

TEST(Vector, PackingActivationsInPartsGivesTheSameBytesAsPackingThemAtOnce) {
  std::vector<const Kernels*> tables = canonical_tables();
  tables.push_back(&scalar());
  for (const Kernels* table : tables) {
    for (int i = 0; i < activation_formats; ++i) {
      const ActivationFormat activation_format = static_cast<ActivationFormat>(i);
      const int rest = is_float(activation_format) ? 3 : activation_format == ActivationFormat::int8_block32 ? 64 : 0;
      for (const int inputs : {256, 512 + rest, 1024}) {
        const int rows = 19;
        const std::vector<float> x = Numbers(5).numbers(static_cast<std::size_t>(rows) * inputs);
        const std::size_t bytes = table->activation_bytes(activation_format, rows, inputs);
        const auto whole = aligned<std::byte>(bytes);
        const auto pieces = aligned<std::byte>(bytes);
        table->pack_activations(activation_format, x.data(), inputs, rows, inputs, 0, inputs, whole.get());
        for (int k = 0; k < inputs; k += 256) {
          const int end = std::min(k + 256, inputs);
          table->pack_activations(activation_format, x.data(), inputs, rows, inputs, k, end, pieces.get());
        }
        EXPECT_EQ(std::memcmp(whole.get(), pieces.get(), bytes), 0) << table->name << " " << i << " " << inputs;
      }
    }
  }
}

TEST(Vector, MatmulHandlesInfinitiesAndSignedZerosAsTheScalarTableDoes) {
  for (const Kernels* table : canonical_tables()) {
    for (const Format format : all_formats) {
      const int inputs = format == Format::bf16 ? 96 : is_float(format) ? 21 : 512;
      const Weight weight(format, 18, inputs, 9);
      const PackedMatrix w = weight.packed(*table);
      for (const float odd : {infinity, -infinity, -0.0f, 0x1p-149f, 0x1p-101f, 0x1.fffffep127f, nan}) {
        for (const int rows : {3, 16}) {
          std::vector<float> x(static_cast<std::size_t>(inputs) * rows, -0.0f);
          x[static_cast<std::size_t>(inputs) + 4] = odd;
          std::vector<float> y(std::size_t{18} * rows);
          std::vector<float> expected(y.size());
          multiply(*table, w, x.data(), inputs, rows, y.data(), 18, 0, 18);
          multiply(scalar(), w, x.data(), inputs, rows, expected.data(), 18, 0, 18);
          EXPECT_TRUE(same_bits(y, expected)) << table->name << " " << traits(format).name << " " << odd;
          EXPECT_TRUE(is_float(format) || std::isfinite(odd) || std::isnan(expected[18]));
        }
      }
    }
  }
}

TEST(Vector, IntegerSumsAreExactWhenEveryFieldOfABlockAndOfARowIsExtreme) {
  for (const Format format : quantized_formats()) {
    for (const int byte : {0x00, 0x7f, 0x80, 0xff}) {
      Weight weight(format, 16, 512, 1);
      for (std::byte& field : weight.data) field = static_cast<std::byte>(byte);
      const std::uint16_t one = 0x3c00;
      const std::size_t block = static_cast<std::size_t>(traits(format).block_bytes);
      for (std::size_t at = 0; at < weight.data.size(); at += block) {
        for (int i = 0; i < traits(format).scales; ++i) weight.put_scale(&weight.data[at], i, one);
        if (traits(format).scales == 0) weight.put_power(&weight.data[at], 128);
      }
      const int rows = 16;
      std::vector<float> x(std::size_t{rows} * 512, 127.0f);
      for (std::size_t i = 512; i < x.size(); ++i) x[i] = i / 512 % 2 == 0 || i % 3 == 0 ? 127.0f : -127.0f;
      std::vector<float> expected(std::size_t{rows} * 16);
      multiply(scalar(), weight.packed(scalar()), x.data(), 512, rows, expected.data(), 16, 0, 16);
      for (const Kernels* table : canonical_tables()) {
        for (const int count : {2, rows}) {
          std::vector<float> y(static_cast<std::size_t>(count) * 16);
          multiply(*table, weight.packed(*table), x.data(), 512, count, y.data(), 16, 0, 16);
          EXPECT_TRUE(same_bits(y, std::span(expected).first(y.size())))
              << table->name << " " << traits(format).name << " " << byte << " " << count << " rows";
        }
      }
    }
  }
}

TEST(Vector, PackedRowsUnpackExactlyInEveryFormat) {
  for (const Format format : all_formats) {
    const int block = traits(format).block_inputs;
    for (const int inputs : {1, 2, 15, 16, 33}) {
      const Weight weight(format, 37, block == 1 ? inputs : block * (1 + inputs % 4), 8);
      const PackedMatrix expected = weight.packed(scalar());
      for (const Kernels* table : canonical_tables()) {
        const PackedMatrix w = weight.packed(*table);
        ASSERT_EQ(w.bytes(), expected.bytes());
        EXPECT_EQ(std::memcmp(w.parts()[0].view.data, expected.parts()[0].view.data, w.bytes()), 0);
        std::vector<float> row(weight.inputs);
        std::vector<float> other(weight.inputs);
        for (int n = 0; n < 37; ++n) {
          w.unpack_row(*table, n, row.data());
          dequantize_row(format, &weight.data[row_bytes(format, weight.inputs) * n], weight.inputs, other.data());
          EXPECT_TRUE(same_bits(row, other)) << traits(format).name;
        }
      }
    }
  }
}

TEST(Vector, WeightsThatAreTooSmallBecomeZerosOfTheirSignInEveryTable) {
  const std::uint32_t floats[] = {1,          0x80000001, 0x007fffff, 0x807fffff, 0x00800000, 0x80800000,
                                  0x237f0000, 0xa37f0000, 0x23800000, 0xa3800000, 0,          0x80000000};
  for (const Kernels* const* table = all_kernels(); *table != nullptr; ++table) {
    if (!(*table)->supported()) continue;
    for (const Format format : {Format::f32, Format::bf16}) {
      std::vector<std::byte> data(row_bytes(format, 12));
      for (std::size_t k = 0; k < 12; ++k) {
        const std::uint16_t top = static_cast<std::uint16_t>(floats[k] >> 16 | (floats[k] & 1));
        if (format == Format::f32) std::memcpy(&data[4 * k], &floats[k], 4);
        if (format == Format::bf16) std::memcpy(&data[2 * k], &top, 2);
      }
      const MatrixView view = {data.data(), format, 1, 12};
      const PackedMatrix w(**table, {&view, 1});
      float row[12];
      w.unpack_row(**table, 0, row);
      for (std::size_t k = 0; k < 12; ++k) {
        const bool canonical = std::string((*table)->numerics) == "canonical";
        const float min = format == Format::bf16 && canonical ? 0x1p-56f : 0x1p-126f;
        const bool kept = std::abs(__builtin_bit_cast(float, floats[k])) >= min;
        EXPECT_EQ(bits(row[k]), kept ? floats[k] : floats[k] & 0x80000000) << (*table)->name << " " << k;
      }
    }
  }
}

TEST(Vector, RmsNormHasTheBitsOfTheScalarTableForEveryWidthStrideAndInPlace) {
  for (const Kernels* table : canonical_tables()) {
    for (int width = 1; width <= 130; ++width) {
      const int rows = 2;
      const int groups = 3;
      const int stride = groups * width + 3;
      const std::vector<float> x = Numbers(width).numbers(stride * rows + 1);
      const std::vector<float> weight = Numbers(99).numbers(width);
      const auto run = [&](const Kernels& kernels, bool in_place) {
        std::vector<float> y = in_place ? x : std::vector<float>(x.size(), nan);
        const float* from = in_place ? y.data() + 1 : x.data() + 1;
        kernels.rms_norm(from, stride, rows, groups, width, weight.data(), 1e-6f, y.data() + 1, stride);
        return y;
      };
      for (const bool in_place : {false, true}) {
        ASSERT_TRUE(same_bits(run(*table, in_place), run(scalar(), in_place))) << table->name << " width " << width;
      }
    }
  }
}

TEST(Vector, RopeHasTheBitsOfTheScalarTableAndLeavesTheOtherDimensionsUnchanged) {
  for (const Kernels* table : canonical_tables()) {
    for (int half = 1; half <= 66; ++half) {
      const int head_dim = 2 * half + half % 5;
      const int heads = 3;
      const int rows = 2;
      const int stride = heads * head_dim + 7;
      const std::vector<float> x = Numbers(half).numbers(rows * stride);
      const std::vector<float> cosine = Numbers(1).numbers(rows * half);
      const std::vector<float> sine = Numbers(2).numbers(rows * half);
      std::vector<float> y = x;
      std::vector<float> expected = x;
      table->rope(y.data(), stride, rows, heads, head_dim, half, cosine.data(), sine.data());
      scalar().rope(expected.data(), stride, rows, heads, head_dim, half, cosine.data(), sine.data());
      ASSERT_TRUE(same_bits(y, expected)) << table->name << " half " << half;
      for (int d = 2 * half; d < head_dim; ++d) EXPECT_EQ(bits(y[d]), bits(x[d]));
    }
  }
}

TEST(Vector, SiluGeluAddAndExponentialsHaveTheBitsOfTheScalarTableForEveryLength) {
  for (const Kernels* table : canonical_tables()) {
    for (int width = 0; width <= 130; ++width) {
      SCOPED_TRACE(::testing::Message() << table->name << " width " << width);
      std::vector<float> x = Numbers(width).numbers(4 * width + 1, 40);
      if (width > 7) x[4] = infinity, x[5] = -infinity, x[6] = nan, x[7] = -0.0f;
      const float* from = x.data() + 1;
      const auto run = [&](const Kernels& kernels) {
        std::vector<float> y(7 * width + lanes, nan);
        kernels.silu_multiply(from, 2, width, 0, width, y.data());
        kernels.exponentials(from, 1.5f, 0.7f, width, y.data() + 2 * width);
        std::copy_n(from, width, y.data() + 3 * width);
        kernels.add(from + width, width, y.data() + 3 * width);
        kernels.gelu_multiply(from, 2, width, 0, width, y.data() + 4 * width);
        return y;
      };
      ASSERT_TRUE(same_bits(run(*table), run(scalar())));
    }
  }
}

TEST(Vector, ConvolutionsHaveTheBitsOfTheScalarTableHoweverRowsAndChannelsAreCut) {
  Numbers numbers(17);
  for (const Kernels* table : canonical_tables()) {
    for (int channels = 1; channels <= 70; ++channels) {
      const int width = 2 + numbers.below(6);
      const int rows = 1 + numbers.below(9);
      const int stride = channels + 3;
      std::vector<float> tail = numbers.numbers(static_cast<std::size_t>(width - 1) * channels, 4);
      std::vector<float> x = numbers.numbers(static_cast<std::size_t>(rows) * stride + 1, 4);
      const std::vector<float> weight = numbers.numbers(static_cast<std::size_t>(width) * channels);
      if (channels > 4) x[1] = infinity, x[2] = -infinity, x[3] = nan, tail[0] = -0.0f, x[4] = 0x1p-140f;
      const auto run = [&](const Kernels& kernels, int begin, int end) {
        std::vector<float> y(static_cast<std::size_t>(rows) * (channels + 1), nan);
        kernels.causal_conv_silu(tail.data(), x.data() + 1, stride, rows, channels, width, weight.data(), begin, end,
                                 y.data(), channels + 1);
        return y;
      };
      ASSERT_TRUE(same_bits(run(*table, 0, channels), run(scalar(), 0, channels))) << table->name << " " << channels;
      const int begin = numbers.below(channels);
      ASSERT_TRUE(same_bits(run(*table, begin, channels), run(scalar(), begin, channels)));
      ASSERT_TRUE(same_bits(run(*table, 0, begin), run(scalar(), 0, begin)));
    }
  }
}

TEST(Vector, TheDeltaRuleHasTheBitsOfTheScalarTableHoweverRowsAndHeadsAreCut) {
  Numbers numbers(23);
  for (const Kernels* table : canonical_tables()) {
    for (int value_dim = 1; value_dim <= 150; value_dim += 1 + value_dim / 20) {
      const int key_heads = 1 + numbers.below(3);
      const DeltaShape shape = {key_heads,
                                key_heads * (1 + numbers.below(3)),
                                1 + numbers.below(40),
                                value_dim,
                                numbers.below(2) == 1,
                                numbers.below(2) == 1};
      const DeltaInputs inputs(shape, 1 + numbers.below(7), static_cast<std::uint64_t>(value_dim));
      const std::vector<float> expected = inputs.run(scalar(), inputs.rows, shape.value_heads);
      for (const int pieces : {1, 2, 3, inputs.rows}) {
        for (const int heads : {1, 2, shape.value_heads}) {
          ASSERT_TRUE(same_bits(inputs.run(*table, pieces, heads), expected))
              << table->name << " " << pieces << " rows and " << heads << " heads at once, " << value_dim;
          ASSERT_TRUE(same_bits(inputs.run(scalar(), pieces, heads), expected));
        }
      }
      std::vector<float> replayed(inputs.state.size());
      table->gated_delta_rule(shape, inputs.from(0), nullptr, 0, inputs.rows, 0, shape.value_heads, inputs.state.data(),
                              replayed.data(), nullptr);
      const std::vector<float> elements = inputs.without_padding(replayed);
      ASSERT_TRUE(same_bits(elements, std::span(expected).last(elements.size()))) << table->name;
    }
  }
}

TEST(Vector, TheDeltaRuleHandlesInfinitiesAndSignedZerosAsTheScalarTableDoes) {
  for (const Kernels* table : canonical_tables()) {
    for (const bool channel_decays : {false, true}) {
      const DeltaShape shape = {1, 2, 5, 37, false, channel_decays};
      for (const float odd : {infinity, -infinity, -0.0f, 0x1p-149f, 0x1.fffffep127f, -1000.0f, nan}) {
        DeltaInputs inputs(shape, 3, 9);
        const std::ptrdiff_t decays = inputs.keys + inputs.values;
        for (const std::ptrdiff_t at : {std::ptrdiff_t{0}, inputs.keys + 36, decays, decays + inputs.decays}) {
          DeltaInputs changed = inputs;  // a key, a value, a decay, a beta
          changed.folded[inputs.stride + at] = odd;
          EXPECT_TRUE(same_bits(changed.run(*table, 3, 2), changed.run(scalar(), 3, 2))) << table->name << " " << odd;
        }
      }
    }
  }
}

}  // namespace
}  // namespace draftproof::test::vector_test
