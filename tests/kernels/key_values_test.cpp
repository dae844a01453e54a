// SPDX-License-Identifier: MIT
// The stored values of keys and values, and their layout.
#include "kernels/key_values.h"

#include <algorithm>

#include "support.h"

namespace draftproof::test::key_values_test {
namespace {

struct Layer {
  Aligned<std::byte> data;
  KeyValues view;
  Layer(KvFormat format, int kv_heads, int head_dim, int blocks)
      : data(aligned<std::byte>(key_values_bytes(format, kv_heads, head_dim, blocks))),
        view(key_values_in(data.get(), format, kv_heads, head_dim, blocks)) {}
};

/// A second implementation of the definition, for one vector.
std::vector<float> kept(KvFormat format, std::vector<float> x) {
  float max = 0;
  for (const float value : x) max = std::fmax(max, std::fabs(value));
  for (float& value : x) {
    if (format == KvFormat::q8) {
      const float d = max < 0x1p-100f ? 0 : max / 127.0f;
      const float q = d == 0 ? 0 : std::nearbyint(value * (127.0f / max)) + 0.0f;  // an integer has no -0
      value = q * d;
    } else {
      if (format == KvFormat::bf16) value = bf16_to_f32(f32_to_bf16(value));
      if (std::fpclassify(value) == FP_SUBNORMAL) value = std::copysign(0.0f, value);
    }
  }
  return x;
}

TEST(KeyValues, EveryPositionReadsBackAsItsFormatDefines) {
  for (const KvFormat format : all_kv_formats) {
    for (const int head_dim : {1, 5, 16, 300}) {
      constexpr int heads = 3;
      const Layer layer(format, heads, head_dim, 4);
      const int stride = heads * head_dim + 7;
      std::vector<float> keys = Numbers(1).numbers(static_cast<std::size_t>(stride) * 40);
      std::vector<float> values = Numbers(2).numbers(keys.size());
      for (std::size_t i = 0; i < keys.size(); i += 3) keys[i] *= 0x1p-130f;  // denormal, some of them
      for (int from = 0; from < 40; from += 8) {                              // in two calls, for different heads
        const std::ptrdiff_t at = static_cast<std::ptrdiff_t>(from) * stride;
        store_positions(layer.view, from, 8, keys.data() + at, values.data() + at, stride, 0, 1);
        store_positions(layer.view, from, 8, keys.data() + at, values.data() + at, stride, 1, heads);
      }
      for (int p = 0; p < 40; ++p) {
        for (int head = 0; head < heads; ++head) {
          std::vector<float> key(static_cast<std::size_t>(head_dim), nan);
          std::vector<float> value(key);
          read_position(layer.view, p, head, key.data(), value.data());
          const auto at = static_cast<std::ptrdiff_t>(p) * stride + static_cast<std::ptrdiff_t>(head) * head_dim;
          ASSERT_TRUE(same_bits(key, kept(format, {keys.begin() + at, keys.begin() + at + head_dim})));
          ASSERT_TRUE(same_bits(value, kept(format, {values.begin() + at, values.begin() + at + head_dim})));
        }
      }
    }
  }
}

TEST(KeyValues, HaveTheLayoutThatTheKernelsRead) {
  constexpr int heads = 2;
  constexpr int head_dim = 19;
  constexpr int blocks = 4;
  const Layer f32(KvFormat::f32, heads, head_dim, blocks);
  const Layer bf16(KvFormat::bf16, heads, head_dim, blocks);
  const Layer q8(KvFormat::q8, heads, head_dim, blocks);
  for (int p = 0; p < 70; ++p) {
    std::vector<float> keys(heads * head_dim);
    std::vector<float> values(heads * head_dim);
    for (int i = 0; i < heads * head_dim; ++i) {
      keys[i] = static_cast<float>((p + i) % 127);
      values[i] = static_cast<float>((p + 2 * i) % 127);
      if (i % head_dim == 0) keys[i] = values[i] = 127;  // d = 1
    }
    for (const Layer* layer : {&f32, &bf16, &q8}) {
      store_positions(layer->view, p, 1, keys.data(), values.data(), 0, 0, heads);
    }
    for (int head = 0; head < heads; ++head) {
      const int block = head * blocks + p / 16 % blocks;
      const int scale = block * 16 + p % 16;
      EXPECT_EQ(q8.view.key_scales[scale], 1);
      EXPECT_EQ(q8.view.value_scales[scale], 1);
      for (int d = 0; d < head_dim; ++d) {
        const int key = (block * head_dim + d) * 16 + p % 16;
        const int value = (block * 16 + p % 16) * 32 + d;
        const int key_in_pairs = ((block * 10 + d / 2) * 16 + p % 16) * 2 + d % 2;
        const int value_pair = (head * 2 + d / 16) * blocks * 8 + p % (blocks * 16) / 2;
        const int value_in_pairs = (value_pair * 16 + d % 16) * 2 + p % 2;
        const float expected_key = keys[head * head_dim + d];
        const float expected_value = values[head * head_dim + d];
        ASSERT_EQ(static_cast<const float*>(f32.view.keys)[key], expected_key);
        ASSERT_EQ(static_cast<const float*>(f32.view.values)[value], expected_value);
        ASSERT_EQ(bf16_to_f32(static_cast<const std::uint16_t*>(bf16.view.keys)[key_in_pairs]), expected_key);
        ASSERT_EQ(bf16_to_f32(static_cast<const std::uint16_t*>(bf16.view.values)[value_in_pairs]), expected_value);
        ASSERT_EQ(static_cast<const std::int8_t*>(q8.view.keys)[key], expected_key);
        ASSERT_EQ(static_cast<const std::int8_t*>(q8.view.values)[value], expected_value);
      }
    }
  }
}

TEST(KeyValues, AVectorWithAnInfinityOrANaNReadsBackNotFinite) {
  for (const float odd : {infinity, -infinity, nan}) {
    for (const KvFormat format : all_kv_formats) {
      const Layer layer(format, 1, 3, 1);
      const float row[] = {1, odd, -1};
      store_positions(layer.view, 0, 1, row, row, 0, 0, 1);
      float key[3];
      float value[3];
      read_position(layer.view, 0, 0, key, value);
      EXPECT_FALSE(std::isfinite(key[1]));
      EXPECT_FALSE(std::isfinite(value[1]));
      EXPECT_EQ(std::isnan(key[0]), format == KvFormat::q8);
    }
  }
}

TEST(KeyValues, TheRestOfABlockIsNaNWhenItsFirstPositionIsStoredAndKeptOnLaterLaps) {
  for (const KvFormat format : all_kv_formats) {
    const Layer layer(format, 1, 4, 2);
    const float row[] = {1, 2, 3, 4};
    float key[4];
    float value[4];
    for (int p = 0; p < 64; ++p) {
      store_positions(layer.view, p, 1, row, row, 0, 0, 1);
      for (int other = p + 1; other < p + 16; ++other) {
        read_position(layer.view, other, 0, key, value);
        const bool unwritten = p < 32 && other / 16 == p / 16;
        if (unwritten || p >= 32) {
          EXPECT_EQ(std::isnan(key[0]), unwritten) << p << " " << other;
          EXPECT_EQ(std::isnan(value[3]), unwritten) << p << " " << other;
        }
      }
    }
  }
}

TEST(KeyValues, HaveTheSizeOfTheirFormat) {
  EXPECT_EQ(key_values_bytes(KvFormat::f32, 8, 128, 10), 2u * 4 * 8 * 128 * 160);
  EXPECT_EQ(key_values_bytes(KvFormat::bf16, 8, 128, 10), 2u * 2 * 8 * 128 * 160);
  EXPECT_EQ(key_values_bytes(KvFormat::q8, 8, 128, 10), 2u * 8 * (128 + 4) * 160);
  EXPECT_EQ(key_values_bytes(KvFormat::bf16, 8, 127, 10), 2u * 2 * 8 * 128 * 160) << "dimensions are stored in pairs";
}

TEST(KeyValues, HaveAnEvenNumberOfBlocks) {
  for (const KvFormat format : all_kv_formats) {
    EXPECT_EQ(key_values_bytes(format, 8, 128, 9), key_values_bytes(format, 8, 128, 10));
    EXPECT_EQ(Layer(format, 1, 4, 9).view.blocks, 10);
    EXPECT_EQ(Layer(format, 1, 4, 10).view.blocks, 10);
  }
}

}  // namespace
}  // namespace draftproof::test::key_values_test
