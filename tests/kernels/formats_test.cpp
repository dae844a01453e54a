// SPDX-License-Identifier: MIT
// Compares formats with gguf-py's values for the same bytes (fixtures/external/gguf-blocks), and with their
// definitions.
#include "kernels/formats.h"

#include <algorithm>
#include <cmath>
#include <limits>

#include "tests/formats/files.h"

namespace draftproof::formats_test {
namespace {

const std::filesystem::path blocks_dir = source_dir / "fixtures/external/gguf-blocks";

template <class T>
std::vector<T> read(const std::string& name) {
  const std::string bytes = bytes_of_file(blocks_dir / name);
  std::vector<T> values(bytes.size() / sizeof(T));
  if (!values.empty()) std::memcpy(values.data(), bytes.data(), values.size() * sizeof(T));
  return values;
}

std::uint32_t bits(float x) { return __builtin_bit_cast(std::uint32_t, x); }

/// Reproducible numbers in (-1, 1), the same on every machine.
class Numbers {
 public:
  float next() {
    state_ = state_ * 6364136223846793005u + 1442695040888963407u;
    return static_cast<float>(static_cast<std::int32_t>(state_ >> 32)) * 0x1p-31f;
  }

 private:
  std::uint64_t state_ = 1;
};

constexpr Format every_format[] = {Format::f32,  Format::f16,  Format::bf16,   Format::q8_0,    Format::q4_0,
                                   Format::q4_1, Format::q5_0, Format::q5_1,   Format::iq4_nl,  Format::q4_k,
                                   Format::q5_k, Format::q6_k, Format::iq4_xs, Format::mxfp4,   Format::q2_k,
                                   Format::q3_k, Format::iq1,  Format::iq2,    Format::iq3_xxs, Format::iq3_s};
static_assert(std::size(every_format) == formats);

class Blocks : public testing::TestWithParam<Format> {};

TEST_P(Blocks, DequantizeToTheBitsOfGgufPyInOneRowAndInMany) {
  const Format format = GetParam();
  const FormatTraits& block = traits(format);
  const auto bytes = read<std::uint8_t>(std::string(block.name) + ".blocks");
  const auto expected = read<float>(std::string(block.name) + ".values");
  ASSERT_GE(bytes.size() / static_cast<std::size_t>(block.block_bytes), 32U);
  ASSERT_EQ(bytes.size() / static_cast<std::size_t>(block.block_bytes) * block.block_inputs, expected.size());
  const int inputs = static_cast<int>(expected.size());
  EXPECT_EQ(row_bytes(format, inputs), bytes.size());
  std::vector<std::uint8_t> unaligned(bytes.size() + 1);
  std::copy(bytes.begin(), bytes.end(), unaligned.begin() + 1);
  std::vector<float> found(expected.size());
  dequantize_row(format, unaligned.data() + 1, inputs, found.data());
  for (std::size_t i = 0; i < expected.size(); ++i) ASSERT_EQ(bits(found[i]), bits(expected[i])) << i;
  for (int first = 0; first < inputs; first += block.block_inputs) {
    dequantize_row(format, bytes.data() + row_bytes(format, first), block.block_inputs, found.data());
    ASSERT_EQ(std::memcmp(found.data(), expected.data() + first, sizeof(float) * block.block_inputs), 0) << first;
  }
}

TEST_P(Blocks, ReportWhichScaleIsNotFinite) {
  const Format format = GetParam();
  const FormatTraits& block = traits(format);
  auto bytes = read<std::uint8_t>(std::string(block.name) + ".blocks");
  const int blocks = static_cast<int>(bytes.size()) / block.block_bytes;
  const int inputs = blocks * block.block_inputs;
  const auto count = static_cast<std::size_t>(inputs);
  EXPECT_EQ(first_not_finite(format, bytes.data(), count), count);
  std::vector<float> values(static_cast<std::size_t>(inputs));
  int found = 0;
  // Replaces every pair of bytes by an infinity or a NaN, or by powers of two that are too large: the result must be
  // whether the values are finite.
  const std::vector<int> words =
      block.scales == 0 ? std::vector{0x00FD, 0x77FE, 0x77FF, 0xFFFF} : std::vector{0x7C00, 0xFC00, 0x7E00, 0xFC01};
  for (const int word : words) {
    const auto half = static_cast<std::uint16_t>(word);
    for (int at = (blocks - 1) * block.block_bytes; at + 1 < blocks * block.block_bytes; ++at) {
      auto changed = bytes;
      std::memcpy(changed.data() + at, &half, 2);
      dequantize_row(format, changed.data(), inputs, values.data());
      const std::size_t answer = first_not_finite(format, changed.data(), count);
      // An infinite scale may affect no value: more blocks than the values show may be reported, never fewer.
      const bool shows = !std::ranges::all_of(values, [](float value) { return std::isfinite(value); });
      if (shows || answer != count) {
        EXPECT_EQ(answer, count - static_cast<std::size_t>(block.block_inputs)) << at;
      }
      found += answer != count ? 1 : 0;
    }
  }
  EXPECT_GE(found, 4);
  EXPECT_LT(found, 4 * block.block_bytes / 2) << "most bytes are no scales";
}

std::string format_name(const testing::TestParamInfo<Format>& info) { return traits(info.param).name; }

// Of the last four no file has blocks; Unpacked (tests/formats) has those that become them.
INSTANTIATE_TEST_SUITE_P(Formats, Blocks, testing::ValuesIn(std::begin(every_format) + 3, std::end(every_format) - 4),
                         format_name);

TEST(Formats, QuantizeToTheBytesOfGgufPy) {
  const auto rows = read<float>("rows.f32");
  ASSERT_GE(rows.size(), 32U * 200);
  const int inputs = static_cast<int>(rows.size());
  for (const Format format :
       {Format::q8_0, Format::q4_0, Format::q4_1, Format::q5_0, Format::q5_1, Format::f16, Format::bf16}) {
    const auto expected = read<std::uint8_t>(std::string("rows.") + traits(format).name);
    ASSERT_EQ(expected.size(), row_bytes(format, inputs));
    std::vector<std::uint8_t> found(expected.size());
    quantize_row(format, rows.data(), inputs, found.data());
    for (std::size_t i = 0; i < expected.size(); ++i) {
      ASSERT_EQ(found[i], expected[i]) << traits(format).name << ", byte " << i;
    }
  }
}

// Returns the value of a binary floating-point format by its definition, in double, which represents all of them
// exactly.
double value_of(std::uint16_t word, int exponent_bits, int fraction_bits) {
  const int bias = (1 << (exponent_bits - 1)) - 1;
  const int exponent = word >> fraction_bits & ((1 << exponent_bits) - 1);
  const int fraction = word & ((1 << fraction_bits) - 1);
  double value = 0;
  if (exponent == (1 << exponent_bits) - 1) {
    value = fraction == 0 ? std::numeric_limits<double>::infinity() : std::numeric_limits<double>::quiet_NaN();
  } else if (exponent == 0) {
    value = std::ldexp(fraction, 1 - bias - fraction_bits);
  } else {
    value = std::ldexp(fraction + (1 << fraction_bits), exponent - bias - fraction_bits);
  }
  return std::copysign(value, word & 0x8000 ? -1.0 : 1.0);
}

struct HalfFormat {
  const char* name;
  int exponent_bits;
  int fraction_bits;
  float (*widened)(std::uint16_t);
  std::uint16_t (*narrowed)(float);
};

const HalfFormat half_formats[] = {{"f16", 5, 10, f16_to_f32, f32_to_f16}, {"bf16", 8, 7, bf16_to_f32, f32_to_bf16}};

TEST(Formats, ConvertEveryHalfToFloatExactly) {
  for (const HalfFormat& half : half_formats) {
    for (int word = 0; word < 65'536; ++word) {
      const double expected = value_of(static_cast<std::uint16_t>(word), half.exponent_bits, half.fraction_bits);
      const float found = half.widened(static_cast<std::uint16_t>(word));
      if (std::isnan(expected)) {
        ASSERT_TRUE(std::isnan(found)) << half.name << " " << word;
      } else {
        ASSERT_EQ(static_cast<double>(found), expected) << half.name << " " << word;
      }
      ASSERT_EQ(std::signbit(found), std::signbit(expected)) << half.name << " " << word;
    }
  }
}

TEST(Formats, ConvertFloatsToTheNearestHalfTiesToEvenAtEveryBoundary) {
  for (const HalfFormat& half : half_formats) {
    const int infinity = ((1 << half.exponent_bits) - 1) << half.fraction_bits;
    const auto magnitude = [&](int word) {
      return value_of(static_cast<std::uint16_t>(word), half.exponent_bits, half.fraction_bits);
    };
    for (const int sign : {0, 0x8000}) {
      for (int word = 0; word < infinity; ++word) {
        const auto here = static_cast<std::uint16_t>(word | sign);
        const auto next = static_cast<std::uint16_t>((word + 1) | sign);
        ASSERT_EQ(half.narrowed(half.widened(here)), here) << half.name;
        // After the largest value, the next one would be the next power of two.
        const double below = magnitude(word);
        const double above = word + 1 == infinity ? 2 * below - magnitude(word - 1) : magnitude(word + 1);
        const auto middle = static_cast<float>((below + above) / 2);
        const float sign_of = sign ? -1.0F : 1.0F;
        ASSERT_EQ(static_cast<double>(middle), (below + above) / 2) << half.name << " " << word;
        ASSERT_EQ(half.narrowed(sign_of * middle), word % 2 == 0 ? here : next) << half.name << " " << word;
        ASSERT_EQ(half.narrowed(sign_of * std::nextafter(middle, 0.0F)), here) << half.name << " " << word;
        ASSERT_EQ(half.narrowed(sign_of * std::nextafter(middle, std::numeric_limits<float>::infinity())), next)
            << half.name << " " << word;
      }
      const float infinite = half.widened(static_cast<std::uint16_t>(infinity | sign));
      EXPECT_EQ(half.narrowed(infinite), infinity | sign) << half.name;
    }
    for (const std::uint32_t payload : {0x7F800001U, 0xFFC00000U, 0x7FFFFFFFU}) {
      EXPECT_TRUE(std::isnan(half.widened(half.narrowed(__builtin_bit_cast(float, payload))))) << half.name;
    }
  }
}

/// Returns the inputs that share a scale.
int group_size(Format format) { return format == Format::q4_k || format == Format::q5_k ? 32 : 16; }

/// Returns the largest error that a group may have, from the stored scales of its block: half a step inside the range;
/// at its ends, the part cut off by rounding scale and minimum.
double group_error(Format format, const std::uint8_t* block, const std::vector<float>& values, int group) {
  const FormatTraits& kind = traits(format);
  const auto half = [&](int i) {
    const std::uint8_t* const at = block + kind.scale + 2 * i;
    return static_cast<double>(f16_to_f32(at[0] | at[1] << 8));
  };
  double min = 0;
  double greatest = -std::numeric_limits<double>::infinity();
  const int size = group_size(format);
  for (int j = 0; j < size; ++j) {
    min = std::min(min, static_cast<double>(values[group * size + j]));
    greatest = std::max(greatest, static_cast<double>(values[group * size + j]));
  }
  if (!kind.has_minimums) {
    const double step = std::max(greatest, -min) / kind.offset;
    return 0.5 * step + kind.offset * 0.5 * half(0);  // plus a whole step for the value opposite the largest
  }
  const int max = (1 << kind.code_bits) - 1;
  const double step = (greatest - min) / max;
  return 0.5 * step + max * 0.5 * half(0) + 0.5 * half(1);
}

TEST(Formats, KQuantizersStayWithinTheErrorTheirStepsAllow) {
  Numbers numbers;
  for (const Format format : {Format::q2_k, Format::q3_k, Format::q4_k, Format::q5_k, Format::q6_k}) {
    const int size = group_size(format);
    for (int trial = 0; trial < 400; ++trial) {
      std::vector<float> row(256);
      for (int i = 0; i < 256; ++i) {
        // Groups of different sizes; some on one side of zero, some constant, some zero, some far apart.
        const int kind = (trial + i / size) % 6;
        const float scale = std::ldexp(1.0F, (trial * 7 + i / size * 3) % 12 - 10);
        const float x = numbers.next();
        row[i] = scale * (kind == 0   ? x
                          : kind == 1 ? std::fabs(x)
                          : kind == 2 ? -std::fabs(x)
                          : kind == 3 ? 0.75F
                          : kind == 4 ? 0.0F
                                      : x * x * x);
      }
      std::vector<std::uint8_t> block(row_bytes(format, 256));
      quantize_row(format, row.data(), 256, block.data());
      std::vector<float> back(256);
      dequantize_row(format, block.data(), 256, back.data());
      for (int i = 0; i < 256; ++i) {
        const double limit = group_error(format, block.data(), row, i / size) * (1 + 0x1p-9);
        const auto at = static_cast<std::size_t>(i);
        const double slack = traits(format).has_minimums ? 0 : std::fabs(row[at]) / traits(format).offset;
        ASSERT_LE(std::fabs(static_cast<double>(back[at]) - row[at]), limit + slack)
            << traits(format).name << " trial " << trial << " value " << i;
      }
    }
  }
}

TEST(Formats, APowerOfTwoThatMakesValuesTooLargeForAFloatIsNotFinite) {
  std::vector<std::uint8_t> block(row_bytes(Format::mxfp4, 32), 0x77);
  std::vector<float> values(32);
  for (const int exponent : {0, 1, 2, 252, 253, 254, 255}) {
    block[0] = static_cast<std::uint8_t>(exponent);
    EXPECT_EQ(exponent_of(power_of_two(block[0])), exponent);
    dequantize_row(Format::mxfp4, block.data(), 32, values.data());
    EXPECT_EQ(static_cast<double>(values[0]) == std::ldexp(12, exponent - 128), exponent <= 252) << exponent;
    EXPECT_EQ(first_not_finite(Format::mxfp4, block.data(), 32) == 32, exponent <= 252) << exponent;
  }
}

TEST(Formats, ABlockOfMxfp4IsWrittenWithTheNumbersThatItHas) {
  const auto blocks = read<std::uint8_t>("mxfp4.blocks");
  const std::size_t size = row_bytes(Format::mxfp4, 32);
  std::vector<float> expected(32);
  std::vector<float> found(32);
  std::vector<std::uint8_t> written(size);
  for (std::size_t at = 0; at < blocks.size(); at += size) {
    write_block(Format::mxfp4, read_block(Format::mxfp4, &blocks[at]), written.data());
    EXPECT_EQ(written[0], blocks[at]);
    dequantize_row(Format::mxfp4, &blocks[at], 32, expected.data());
    dequantize_row(Format::mxfp4, written.data(), 32, found.data());
    EXPECT_EQ(found, expected) << at;
  }
}

TEST(Formats, QuantizingAZeroOrAnExtremeRowIsDefined) {
  for (const Format format : every_format) {
    for (const float value : {0.0F, -0.0F, 1e-45F, -1e-40F, 1e-30F, 60000.0F, -60000.0F}) {
      const std::vector<float> row(256, value);
      std::vector<std::uint8_t> bytes(row_bytes(format, 256));
      quantize_row(format, row.data(), 256, bytes.data());
      EXPECT_EQ(first_not_finite(format, bytes.data(), 256), 256U) << traits(format).name << " " << value;
      std::vector<float> back(256);
      dequantize_row(format, bytes.data(), 256, back.data());
      const float steps = format == Format::mxfp4 ? 5 : 100;  // 12 is the last number below 16
      for (const float found : back) ASSERT_NEAR(found, value, std::fabs(value) / steps + 1e-6) << traits(format).name;
    }
    const float largest = std::numeric_limits<float>::max();
    std::vector<float> row(256, largest);
    row[7] = -largest;
    std::vector<std::uint8_t> bytes(row_bytes(format, 256));
    quantize_row(format, row.data(), 256, bytes.data());
    const bool fits = format == Format::f32 || format == Format::mxfp4;
    EXPECT_EQ(first_not_finite(format, bytes.data(), 256) < 256, !fits) << traits(format).name;
  }
}

}  // namespace
}  // namespace draftproof::formats_test
