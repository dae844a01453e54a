// SPDX-License-Identifier: MIT
// Sixteen floats in two AVX2 registers, for vector.inc, which lists what a lane type offers.
#pragma once

#include <immintrin.h>

#include <cstdint>

namespace draftproof {
namespace {

struct Lanes {
  __m256 low;   // lanes 0 to 7
  __m256 high;  // lanes 8 to 15
};

// 16 registers, a sum takes two. Sums of one tile of matmul: rows * panels, 6 at most.
constexpr int tile_rows_max = 6;
constexpr int panels_at_once(int rows) { return rows == 1 ? 4 : rows <= 3 ? 2 : 1; }
constexpr int attention_sums = 4;

inline __m256i first_lanes(int count, int from) {
  const __m256i lane = _mm256_setr_epi32(0, 1, 2, 3, 4, 5, 6, 7);
  return _mm256_cmpgt_epi32(_mm256_set1_epi32(count - from), lane);
}

inline Lanes spread(float x) { return {_mm256_set1_ps(x), _mm256_set1_ps(x)}; }
inline Lanes load(const float* from) { return {_mm256_loadu_ps(from), _mm256_loadu_ps(from + 8)}; }
inline Lanes load(const float* from, int count) {
  return {_mm256_maskload_ps(from, first_lanes(count, 0)), _mm256_maskload_ps(from + 8, first_lanes(count, 8))};
}
inline void store(float* to, Lanes a) {
  _mm256_storeu_ps(to, a.low);
  _mm256_storeu_ps(to + 8, a.high);
}
inline void store(float* to, Lanes a, int count) {
  _mm256_maskstore_ps(to, first_lanes(count, 0), a.low);
  _mm256_maskstore_ps(to + 8, first_lanes(count, 8), a.high);
}

inline __m256i eight_pairs(const char* pairs) { return _mm256_loadu_si256(reinterpret_cast<const __m256i*>(pairs)); }
inline Lanes even_bf16(const char* pairs) {
  return {_mm256_castsi256_ps(_mm256_slli_epi32(eight_pairs(pairs), 16)),
          _mm256_castsi256_ps(_mm256_slli_epi32(eight_pairs(pairs + 32), 16))};
}
inline Lanes odd_bf16(const char* pairs) {
  const __m256i upper = _mm256_set1_epi32(-65536);
  return {_mm256_castsi256_ps(_mm256_and_si256(eight_pairs(pairs), upper)),
          _mm256_castsi256_ps(_mm256_and_si256(eight_pairs(pairs + 32), upper))};
}

inline Lanes operator+(Lanes a, Lanes b) { return {_mm256_add_ps(a.low, b.low), _mm256_add_ps(a.high, b.high)}; }
inline Lanes operator-(Lanes a, Lanes b) { return {_mm256_sub_ps(a.low, b.low), _mm256_sub_ps(a.high, b.high)}; }
inline Lanes operator*(Lanes a, Lanes b) { return {_mm256_mul_ps(a.low, b.low), _mm256_mul_ps(a.high, b.high)}; }
inline Lanes operator/(Lanes a, Lanes b) { return {_mm256_div_ps(a.low, b.low), _mm256_div_ps(a.high, b.high)}; }
inline Lanes operator-(Lanes a) {
  const __m256 sign = _mm256_set1_ps(-0.0f);
  return {_mm256_xor_ps(a.low, sign), _mm256_xor_ps(a.high, sign)};
}
inline Lanes fused(Lanes a, Lanes b, Lanes c) {
  return {_mm256_fmadd_ps(a.low, b.low, c.low), _mm256_fmadd_ps(a.high, b.high, c.high)};
}

inline Lanes at_least(Lanes limit, Lanes x) {
  return {_mm256_max_ps(limit.low, x.low), _mm256_max_ps(limit.high, x.high)};
}
inline Lanes at_most(Lanes limit, Lanes x) {
  return {_mm256_min_ps(limit.low, x.low), _mm256_min_ps(limit.high, x.high)};
}

inline __m256 only(__m256 a, int first, int end, __m256 other, int from) {
  const __m256i inside = _mm256_andnot_si256(first_lanes(first, from), first_lanes(end, from));
  return _mm256_blendv_ps(other, a, _mm256_castsi256_ps(inside));
}
inline Lanes only(Lanes a, int first, int end, Lanes other) {
  return {only(a.low, first, end, other.low, 0), only(a.high, first, end, other.high, 8)};
}

inline __m256 times_power(__m256 x, __m256 shifted) {
  const __m256i n = _mm256_sub_epi32(_mm256_castps_si256(shifted), _mm256_set1_epi32(0x4b400000));
  const __m256i half = _mm256_srai_epi32(n, 1);
  const __m256i bias = _mm256_set1_epi32(127);
  const __m256i first = _mm256_slli_epi32(_mm256_add_epi32(half, bias), 23);
  const __m256i second = _mm256_slli_epi32(_mm256_add_epi32(_mm256_sub_epi32(n, half), bias), 23);
  return _mm256_mul_ps(_mm256_mul_ps(x, _mm256_castsi256_ps(first)), _mm256_castsi256_ps(second));
}
inline Lanes times_power(Lanes x, Lanes shifted) {
  return {times_power(x.low, shifted.low), times_power(x.high, shifted.high)};
}

inline float tree(Lanes a) {
  const __m256 eight = _mm256_add_ps(a.low, a.high);
  const __m128 four = _mm_add_ps(_mm256_castps256_ps128(eight), _mm256_extractf128_ps(eight, 1));
  const __m128 two = _mm_add_ps(four, _mm_movehl_ps(four, four));
  return _mm_cvtss_f32(_mm_add_ss(two, _mm_movehdup_ps(two)));
}

inline float largest(Lanes a) {
  const __m256 eight = _mm256_max_ps(a.low, a.high);
  const __m128 four = _mm_max_ps(_mm256_castps256_ps128(eight), _mm256_extractf128_ps(eight, 1));
  const __m128 two = _mm_max_ps(four, _mm_movehl_ps(four, four));
  return _mm_cvtss_f32(_mm_max_ss(two, _mm_movehdup_ps(two)));
}

}  // namespace
}  // namespace draftproof
