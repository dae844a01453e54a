// SPDX-License-Identifier: MIT
// Sixteen floats in four NEON registers, a lane type as vector.inc describes it.
#pragma once

#include <arm_neon.h>

#include <cstdint>

namespace draftproof {
namespace {

/// Four registers: lanes 0 to 3, 4 to 7, 8 to 11, 12 to 15.
template <class Register>
struct Four {
  Register a, b, c, d;
};
struct Lanes : Four<float32x4_t> {};
struct Ints : Four<int32x4_t> {};
struct Bytes : Four<uint8x16_t> {};
struct Pairs : Four<int16x8_t> {};

/// Applies `operation` to each of the registers.
template <class To, class X, class Operation>
inline To each(const Four<X>& x, const Operation& operation) {
  return {{operation(x.a), operation(x.b), operation(x.c), operation(x.d)}};
}
template <class To, class X, class Y, class Operation>
inline To each(const Four<X>& x, const Four<Y>& y, const Operation& operation) {
  return {{operation(x.a, y.a), operation(x.b, y.b), operation(x.c, y.c), operation(x.d, y.d)}};
}
template <class To, class X, class Y, class Z, class Operation>
inline To each(const Four<X>& x, const Four<Y>& y, const Four<Z>& z, const Operation& operation) {
  return {{operation(x.a, y.a, z.a), operation(x.b, y.b, z.b), operation(x.c, y.c, z.c), operation(x.d, y.d, z.d)}};
}

// There are 32 registers and a sum takes four, so one matmul tile has at most rows * panels = 6 sums.
constexpr int tile_rows_max = 6;
constexpr int panels_at_once(int rows, [[maybe_unused]] int bytes) { return rows == 1 ? 3 : rows == 2 ? 2 : 1; }
constexpr int byte_rows_max([[maybe_unused]] int block) { return 4; }
constexpr int byte_panels_at_once([[maybe_unused]] int rows) { return 1; }
constexpr int attention_sums = 4;
constexpr int delta_panels_at_once = 2;

inline Lanes spread(float x) { return {{vdupq_n_f32(x), vdupq_n_f32(x), vdupq_n_f32(x), vdupq_n_f32(x)}}; }
inline Lanes load(const float* from) {
  return {{vld1q_f32(from), vld1q_f32(from + 4), vld1q_f32(from + 8), vld1q_f32(from + 12)}};
}
inline Lanes load(const float* from, int count) {
  if (count == 16) return load(from);
  float some[16] = {};
  __builtin_memcpy(some, from, sizeof(float) * static_cast<unsigned>(count));
  return load(some);
}
inline void store(float* to, Lanes x) {
  vst1q_f32(to, x.a);
  vst1q_f32(to + 4, x.b);
  vst1q_f32(to + 8, x.c);
  vst1q_f32(to + 12, x.d);
}
inline void store(float* to, Lanes x, int count) {
  if (count == 16) return store(to, x);
  float all[16];
  store(all, x);
  __builtin_memcpy(to, all, sizeof(float) * static_cast<unsigned>(count));
}

inline Bytes load_bytes(const char* from) {
  const auto* const bytes = reinterpret_cast<const std::uint8_t*>(from);
  return {{vld1q_u8(bytes), vld1q_u8(bytes + 16), vld1q_u8(bytes + 32), vld1q_u8(bytes + 48)}};
}
inline Lanes even_bf16(const char* pairs) {
  return each<Lanes>(load_bytes(pairs),
                     [](uint8x16_t x) { return vreinterpretq_f32_u32(vshlq_n_u32(vreinterpretq_u32_u8(x), 16)); });
}
inline Lanes odd_bf16(const char* pairs) {
  return each<Lanes>(load_bytes(pairs), [](uint8x16_t x) {
    return vreinterpretq_f32_u32(vandq_u32(vreinterpretq_u32_u8(x), vdupq_n_u32(0xffff0000u)));
  });
}

inline float32x4_t widened(uint16x4_t halves) { return vcvt_f32_f16(vreinterpret_f16_u16(halves)); }
inline Lanes load_f16(const char* from) {
  const auto* const bytes = reinterpret_cast<const std::uint8_t*>(from);
  const uint16x8_t low = vreinterpretq_u16_u8(vld1q_u8(bytes));
  const uint16x8_t high = vreinterpretq_u16_u8(vld1q_u8(bytes + 16));
  return {{widened(vget_low_u16(low)), widened(vget_high_u16(low)), widened(vget_low_u16(high)),
           widened(vget_high_u16(high))}};
}

inline Lanes magnitude(Lanes x) {
  return each<Lanes>(x, [](float32x4_t v) { return vabsq_f32(v); });
}
inline Lanes rounded_to_bf16(Lanes x) {
  return each<Lanes>(x, [](float32x4_t v) {
    const uint32x4_t bits = vreinterpretq_u32_f32(v);
    const uint32x4_t odd = vandq_u32(vshrq_n_u32(bits, 16), vdupq_n_u32(1));
    const uint32x4_t up = vaddq_u32(bits, vaddq_u32(odd, vdupq_n_u32(0x7fff)));
    const uint32x4_t upper = vandq_u32(up, vdupq_n_u32(0xffff0000u));
    const float32x4_t quiet = vreinterpretq_f32_u32(vorrq_u32(bits, vdupq_n_u32(0x400000)));
    return vbslq_f32(vceqq_f32(v, v), vreinterpretq_f32_u32(upper), quiet);
  });
}
inline Lanes operator-(Lanes x) {
  return each<Lanes>(x, [](float32x4_t v) { return vnegq_f32(v); });
}
inline Lanes operator+(Lanes x, Lanes y) {
  return each<Lanes>(x, y, [](float32x4_t v, float32x4_t w) { return vaddq_f32(v, w); });
}
inline Lanes operator-(Lanes x, Lanes y) {
  return each<Lanes>(x, y, [](float32x4_t v, float32x4_t w) { return vsubq_f32(v, w); });
}
inline Lanes operator*(Lanes x, Lanes y) {
  return each<Lanes>(x, y, [](float32x4_t v, float32x4_t w) { return vmulq_f32(v, w); });
}
inline Lanes operator/(Lanes x, Lanes y) {
  return each<Lanes>(x, y, [](float32x4_t v, float32x4_t w) { return vdivq_f32(v, w); });
}
inline Lanes fused(Lanes x, Lanes y, Lanes sum) {
  return each<Lanes>(x, y, sum, [](float32x4_t v, float32x4_t w, float32x4_t s) { return vfmaq_f32(s, v, w); });
}

// Not vmaxq and vminq, which return NaN when either operand is NaN.
inline Lanes at_least(Lanes limit, Lanes x) {
  return each<Lanes>(limit, x, [](float32x4_t l, float32x4_t v) { return vbslq_f32(vcgtq_f32(l, v), l, v); });
}
inline Lanes at_most(Lanes limit, Lanes x) {
  return each<Lanes>(limit, x, [](float32x4_t l, float32x4_t v) { return vbslq_f32(vcltq_f32(l, v), l, v); });
}

inline Lanes only(Lanes x, int first, int end, Lanes other) {
  static constexpr std::int32_t numbers[16] = {0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15};
  const Ints lane = {{vld1q_s32(numbers), vld1q_s32(numbers + 4), vld1q_s32(numbers + 8), vld1q_s32(numbers + 12)}};
  return each<Lanes>(x, other, lane, [=](float32x4_t v, float32x4_t o, int32x4_t l) {
    return vbslq_f32(vandq_u32(vcgeq_s32(l, vdupq_n_s32(first)), vcltq_s32(l, vdupq_n_s32(end))), v, o);
  });
}

inline Lanes times_power(Lanes x, Lanes shifted) {
  return each<Lanes>(x, shifted, [](float32x4_t v, float32x4_t s) {
    const int32x4_t n = vsubq_s32(vreinterpretq_s32_f32(s), vdupq_n_s32(0x4b400000));
    const int32x4_t half = vshrq_n_s32(n, 1);
    const int32x4_t bias = vdupq_n_s32(127);
    const int32x4_t first = vshlq_n_s32(vaddq_s32(half, bias), 23);
    const int32x4_t second = vshlq_n_s32(vaddq_s32(vsubq_s32(n, half), bias), 23);
    return vmulq_f32(vmulq_f32(v, vreinterpretq_f32_s32(first)), vreinterpretq_f32_s32(second));
  });
}

inline Lanes zero_below(Lanes limit, Lanes x, Lanes y) {
  return each<Lanes>(limit, x, y, [](float32x4_t l, float32x4_t v, float32x4_t w) {
    return vreinterpretq_f32_u32(vbicq_u32(vreinterpretq_u32_f32(w), vcltq_f32(v, l)));
  });
}

inline float tree(Lanes x) {
  const float32x4_t four = vaddq_f32(vaddq_f32(x.a, x.c), vaddq_f32(x.b, x.d));
  const float32x2_t two = vadd_f32(vget_low_f32(four), vget_high_f32(four));
  return vget_lane_f32(two, 0) + vget_lane_f32(two, 1);
}

inline float largest(Lanes x) { return vmaxvq_f32(vmaxq_f32(vmaxq_f32(x.a, x.b), vmaxq_f32(x.c, x.d))); }

inline Ints spread_int(std::int32_t x) { return {{vdupq_n_s32(x), vdupq_n_s32(x), vdupq_n_s32(x), vdupq_n_s32(x)}}; }
inline Ints operator+(Ints x, Ints y) {
  return each<Ints>(x, y, [](int32x4_t v, int32x4_t w) { return vaddq_s32(v, w); });
}
inline Ints operator*(Ints x, Ints y) {
  return each<Ints>(x, y, [](int32x4_t v, int32x4_t w) { return vmulq_s32(v, w); });
}
inline Lanes to_floats(Ints x) {
  return each<Lanes>(x, [](int32x4_t v) { return vcvtq_f32_s32(v); });
}
inline Ints bits_of(Lanes x) {
  return each<Ints>(x, [](float32x4_t v) { return vreinterpretq_s32_f32(v); });
}
inline Lanes of_bits(Ints x) {
  return each<Lanes>(x, [](int32x4_t v) { return vreinterpretq_f32_s32(v); });
}
inline Ints at_least(Ints limit, Ints x) {
  return each<Ints>(limit, x, [](int32x4_t l, int32x4_t v) { return vmaxq_s32(l, v); });
}
inline std::int32_t largest(Ints x) { return vmaxvq_s32(vmaxq_s32(vmaxq_s32(x.a, x.b), vmaxq_s32(x.c, x.d))); }
inline Ints to_ints(Lanes x) {
  return each<Ints>(x, [](float32x4_t v) { return vcvtnq_s32_f32(v); });
}
inline std::int32_t sum_of(Ints x) { return vaddvq_s32(vaddq_s32(vaddq_s32(x.a, x.b), vaddq_s32(x.c, x.d))); }
inline void store_bytes(signed char* to, Ints x) {
  const int16x8_t low = vcombine_s16(vmovn_s32(x.a), vmovn_s32(x.b));
  const int16x8_t high = vcombine_s16(vmovn_s32(x.c), vmovn_s32(x.d));
  vst1q_s8(to, vcombine_s8(vmovn_s16(low), vmovn_s16(high)));
}
inline Ints widened(int16x8_t low, int16x8_t high) {
  return {{vmovl_s16(vget_low_s16(low)), vmovl_s16(vget_high_s16(low)), vmovl_s16(vget_low_s16(high)),
           vmovl_s16(vget_high_s16(high))}};
}
inline Ints load_signed(const char* from) {
  const int8x16_t bytes = vld1q_s8(reinterpret_cast<const std::int8_t*>(from));
  return widened(vmovl_s8(vget_low_s8(bytes)), vmovl_s8(vget_high_s8(bytes)));
}
inline int16x8_t widened(uint8x8_t bytes) { return vreinterpretq_s16_u16(vmovl_u8(bytes)); }
inline Ints load_unsigned(const char* from) {
  const uint8x16_t bytes = vld1q_u8(reinterpret_cast<const std::uint8_t*>(from));
  return widened(widened(vget_low_u8(bytes)), widened(vget_high_u8(bytes)));
}

inline Bytes bytes_of(int value) {
  const uint8x16_t all = vdupq_n_u8(static_cast<std::uint8_t>(value));
  return {{all, all, all, all}};
}
inline Bytes operator|(Bytes x, Bytes y) {
  return each<Bytes>(x, y, [](uint8x16_t v, uint8x16_t w) { return vorrq_u8(v, w); });
}
inline Bytes operator^(Bytes x, Bytes y) {
  return each<Bytes>(x, y, [](uint8x16_t v, uint8x16_t w) { return veorq_u8(v, w); });
}
inline Bytes operator&(Bytes x, Bytes y) {
  return each<Bytes>(x, y, [](uint8x16_t v, uint8x16_t w) { return vandq_u8(v, w); });
}
template <int bits>
inline Bytes shifted_left(Bytes x) {
  return each<Bytes>(x, [](uint8x16_t v) { return vshlq_n_u8(v, bits); });
}
template <int bits>
inline Bytes shifted_right(Bytes x) {
  return each<Bytes>(x, [](uint8x16_t v) { return vshrq_n_u8(v, bits); });
}
inline Bytes shifted_right(Bytes x, int bits) {
  const int8x16_t left = vdupq_n_s8(static_cast<std::int8_t>(-bits));
  return each<Bytes>(x, [left](uint8x16_t v) { return vshlq_u8(v, left); });
}
inline Bytes looked_up(Bytes codes, const std::int8_t* numbers) {
  const uint8x16_t table = vreinterpretq_u8_s8(vld1q_s8(numbers));
  return each<Bytes>(codes, [table](uint8x16_t v) { return vqtbl1q_u8(table, v); });
}
inline Bytes low_fours(Bytes x) { return x & bytes_of(15); }
inline Bytes high_fours(Bytes x) { return shifted_right<4>(x); }

constexpr bool unsigned_weights = false;  // both sides of vdotq_s32 are signed
inline Ints dot_signed(Ints sum, Bytes w, Ints x) {
  return each<Ints>(sum, w, x, [](int32x4_t s, uint8x16_t v, int32x4_t u) {
    return vdotq_s32(s, vreinterpretq_s8_u8(v), vreinterpretq_s8_s32(u));
  });
}
/// w is at most 127, so its sign bit is 0.
inline Ints dot_unsigned(Ints sum, Bytes w, Ints x) { return dot_signed(sum, w, x); }

inline Pairs load_pairs(const char* from) {
  const auto* const bytes = reinterpret_cast<const std::uint8_t*>(from);
  return {{widened(vld1_u8(bytes)), widened(vld1_u8(bytes + 8)), widened(vld1_u8(bytes + 16)),
           widened(vld1_u8(bytes + 24))}};
}
inline Pairs load_signed_pairs(const char* from) {
  const auto* const bytes = reinterpret_cast<const std::int8_t*>(from);
  return {{vmovl_s8(vld1_s8(bytes)), vmovl_s8(vld1_s8(bytes + 8)), vmovl_s8(vld1_s8(bytes + 16)),
           vmovl_s8(vld1_s8(bytes + 24))}};
}
inline Pairs low_fours(Pairs x) {
  return each<Pairs>(x, [](int16x8_t v) { return vandq_s16(v, vdupq_n_s16(15)); });
}
inline Pairs high_fours(Pairs x) {
  return each<Pairs>(x, [](int16x8_t v) { return vshrq_n_s16(v, 4); });
}
inline Ints paired(Ints x, Ints y) {
  return each<Ints>(x, y, [](int32x4_t v, int32x4_t w) { return vsliq_n_s32(v, w, 16); });
}
inline Ints dot_pairs(Ints sum, Pairs w, Ints x) {
  return each<Ints>(sum, w, x, [](int32x4_t s, int16x8_t v, int32x4_t u) {
    const int16x8_t t = vreinterpretq_s16_s32(u);
    return vaddq_s32(s, vpaddq_s32(vmull_s16(vget_low_s16(v), vget_low_s16(t)), vmull_high_s16(v, t)));
  });
}

}  // namespace
}  // namespace draftproof
