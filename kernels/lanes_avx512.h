// SPDX-License-Identifier: MIT
// Sixteen floats in one AVX-512 register, a lane type as vector.inc describes it.
#pragma once

#ifndef __clang__
// g++ 12 warns about the deliberately undefined operands inside its own intrinsics (GCC bug 105593).
#pragma GCC diagnostic ignored "-Wmaybe-uninitialized"
#pragma GCC diagnostic ignored "-Wuninitialized"
#endif

#include <immintrin.h>

#include <cstdint>

namespace draftproof {
namespace {

struct Lanes {
  __m512 v;
};

// There are 32 registers. One matmul tile has rows * panels sums, about 24, so that weights stay in registers too and
// loads stay well below the two that a cycle can have; measured, see the notebook.
constexpr int tile_rows_max = 14;
constexpr int panels_at_once(int rows, [[maybe_unused]] int bytes) { return rows <= 6 ? 4 : rows <= 8 ? 3 : 2; }
#ifdef __AVX512VNNI__
constexpr int byte_rows_max(int block) { return block == 32 ? 6 : 16; }
constexpr int byte_panels_at_once(int rows) { return rows <= 3 ? 4 : 2; }
#else
constexpr int byte_rows_max([[maybe_unused]] int block) { return 16; }
constexpr int byte_panels_at_once(int rows) { return rows == 1 ? 4 : rows <= 6 ? 2 : 1; }
#endif
constexpr int attention_sums = 16;       // at least 8, for two fma units with four cycles of latency
constexpr int delta_panels_at_once = 4;  // 4 panels of 128 key dimensions fit the first-level cache

inline __mmask16 first_lanes(int count) { return static_cast<__mmask16>((1u << count) - 1u); }

inline Lanes spread(float x) { return {_mm512_set1_ps(x)}; }
inline Lanes load(const float* from) { return {_mm512_loadu_ps(from)}; }
inline Lanes load(const float* from, int count) { return {_mm512_maskz_loadu_ps(first_lanes(count), from)}; }
inline void store(float* to, Lanes a) { _mm512_storeu_ps(to, a.v); }
inline void store(float* to, Lanes a, int count) { _mm512_mask_storeu_ps(to, first_lanes(count), a.v); }

inline Lanes even_bf16(const char* pairs) {
  return {_mm512_castsi512_ps(_mm512_slli_epi32(_mm512_loadu_si512(pairs), 16))};
}
inline Lanes odd_bf16(const char* pairs) {
  return {_mm512_castsi512_ps(_mm512_and_si512(_mm512_loadu_si512(pairs), _mm512_set1_epi32(-65536)))};
}

inline Lanes load_f16(const char* from) {
  return {_mm512_cvtph_ps(_mm256_loadu_si256(reinterpret_cast<const __m256i*>(from)))};
}
inline Lanes magnitude(Lanes a) { return {_mm512_abs_ps(a.v)}; }

/// Sixteen bf16 as floats.
inline Lanes floats_of(__m256i a) { return {_mm512_castsi512_ps(_mm512_slli_epi32(_mm512_cvtepu16_epi32(a), 16))}; }
/// Sixteen bf16, to nearest as rounded_to_bf16 says.
#ifdef __AVX512BF16__
inline __m256i to_bf16(Lanes a) { return reinterpret_cast<__m256i>(_mm512_cvtneps_pbh(a.v)); }
inline Lanes rounded_to_bf16(Lanes a) { return floats_of(to_bf16(a)); }
#else
inline Lanes rounded_to_bf16(Lanes a) {
  const __m512i bits = _mm512_castps_si512(a.v);
  const __m512i odd = _mm512_and_si512(_mm512_srli_epi32(bits, 16), _mm512_set1_epi32(1));
  const __m512i up = _mm512_add_epi32(bits, _mm512_add_epi32(odd, _mm512_set1_epi32(0x7fff)));
  const __m512 upper = _mm512_castsi512_ps(_mm512_and_si512(up, _mm512_set1_epi32(-65536)));
  const __m512 quiet = _mm512_or_ps(a.v, _mm512_castsi512_ps(_mm512_set1_epi32(0x400000)));
  return {_mm512_mask_blend_ps(_mm512_cmp_ps_mask(a.v, a.v, _CMP_UNORD_Q), upper, quiet)};
}
inline __m256i to_bf16(Lanes a) {
  return _mm512_cvtepi32_epi16(_mm512_srli_epi32(_mm512_castps_si512(rounded_to_bf16(a).v), 16));
}
#endif

inline Lanes operator+(Lanes a, Lanes b) { return {_mm512_add_ps(a.v, b.v)}; }
inline Lanes operator-(Lanes a, Lanes b) { return {_mm512_sub_ps(a.v, b.v)}; }
inline Lanes operator*(Lanes a, Lanes b) { return {_mm512_mul_ps(a.v, b.v)}; }
inline Lanes operator/(Lanes a, Lanes b) { return {_mm512_div_ps(a.v, b.v)}; }
inline Lanes operator-(Lanes a) { return {_mm512_xor_ps(a.v, _mm512_set1_ps(-0.0f))}; }
inline Lanes fused(Lanes a, Lanes b, Lanes c) { return {_mm512_fmadd_ps(a.v, b.v, c.v)}; }

inline Lanes at_least(Lanes limit, Lanes x) { return {_mm512_max_ps(limit.v, x.v)}; }
inline Lanes at_most(Lanes limit, Lanes x) { return {_mm512_min_ps(limit.v, x.v)}; }

inline Lanes only(Lanes a, int first, int end, Lanes other) {
  const __mmask16 inside = static_cast<__mmask16>(first_lanes(end) & ~first_lanes(first));
  return {_mm512_mask_blend_ps(inside, other.v, a.v)};
}

inline Lanes times_power(Lanes x, Lanes shifted) {
  return {_mm512_scalef_ps(x.v, _mm512_sub_ps(shifted.v, _mm512_set1_ps(0x1.8p+23f)))};
}
inline Lanes zero_below(Lanes limit, Lanes x, Lanes y) {
  return {_mm512_maskz_mov_ps(_mm512_cmp_ps_mask(x.v, limit.v, _CMP_NLT_UQ), y.v)};
}

inline float tree(Lanes a) {
  const __m256 eight = _mm256_add_ps(_mm512_castps512_ps256(a.v), _mm512_extractf32x8_ps(a.v, 1));
  const __m128 four = _mm_add_ps(_mm256_castps256_ps128(eight), _mm256_extractf128_ps(eight, 1));
  const __m128 two = _mm_add_ps(four, _mm_movehl_ps(four, four));
  return _mm_cvtss_f32(_mm_add_ss(two, _mm_movehdup_ps(two)));
}

inline float largest(Lanes a) { return _mm512_reduce_max_ps(a.v); }

struct Ints {
  __m512i v;
};
struct Bytes {
  __m512i v;
};
struct Pairs {
  __m512i v;
};

inline Ints spread_int(std::int32_t x) { return {_mm512_set1_epi32(x)}; }
inline Ints operator+(Ints a, Ints b) { return {_mm512_add_epi32(a.v, b.v)}; }
inline Ints operator*(Ints a, Ints b) { return {_mm512_mullo_epi32(a.v, b.v)}; }
inline Lanes to_floats(Ints a) { return {_mm512_cvtepi32_ps(a.v)}; }
inline Ints bits_of(Lanes a) { return {_mm512_castps_si512(a.v)}; }
inline Lanes of_bits(Ints a) { return {_mm512_castsi512_ps(a.v)}; }
inline Ints at_least(Ints limit, Ints x) { return {_mm512_max_epi32(limit.v, x.v)}; }
inline std::int32_t largest(Ints a) { return _mm512_reduce_max_epi32(a.v); }
inline Ints to_ints(Lanes a) { return {_mm512_cvtps_epi32(a.v)}; }
inline std::int32_t sum_of(Ints a) { return _mm512_reduce_add_epi32(a.v); }
inline void store_bytes(signed char* to, Ints a) {
  _mm_storeu_si128(reinterpret_cast<__m128i*>(to), _mm512_cvtepi32_epi8(a.v));
}
inline Ints load_signed(const char* from) {
  return {_mm512_cvtepi8_epi32(_mm_loadu_si128(reinterpret_cast<const __m128i*>(from)))};
}
inline Ints load_unsigned(const char* from) {
  return {_mm512_cvtepu8_epi32(_mm_loadu_si128(reinterpret_cast<const __m128i*>(from)))};
}

inline Bytes load_bytes(const char* from) { return {_mm512_loadu_si512(from)}; }
inline Bytes bytes_of(int value) { return {_mm512_set1_epi8(static_cast<char>(value))}; }
inline Bytes operator|(Bytes a, Bytes b) { return {_mm512_or_si512(a.v, b.v)}; }
inline Bytes operator^(Bytes a, Bytes b) { return {_mm512_xor_si512(a.v, b.v)}; }
inline Bytes operator&(Bytes a, Bytes b) { return {_mm512_and_si512(a.v, b.v)}; }
template <int bits>
inline Bytes shifted_left(Bytes a) {
  return {_mm512_slli_epi16(a.v, bits)};
}
template <int bits>
inline Bytes shifted_right(Bytes a) {
  return {_mm512_srli_epi16(a.v, bits)};
}
inline Bytes shifted_right(Bytes a, int bits) { return {_mm512_srl_epi16(a.v, _mm_cvtsi32_si128(bits))}; }
inline Bytes looked_up(Bytes codes, const std::int8_t* numbers) {
  const __m128i table = _mm_loadu_si128(reinterpret_cast<const __m128i*>(numbers));
  return {_mm512_shuffle_epi8(_mm512_broadcast_i32x4(table), codes.v)};
}
inline Bytes low_fours(Bytes a) { return a & bytes_of(15); }
inline Bytes high_fours(Bytes a) { return shifted_right<4>(a) & bytes_of(15); }

#ifdef __AVX512VNNI__
constexpr bool unsigned_weights = true;
inline Ints dot_unsigned(Ints sum, Bytes w, Ints x) {
  asm("vpdpbusd %2, %1, %0" : "+v"(sum.v) : "v"(w.v), "v"(x.v));  // the intrinsic is given copies of the sum in loops
  return sum;
}
inline Ints dot_pairs(Ints sum, Pairs w, Ints x) { return {_mm512_dpwssd_epi32(sum.v, w.v, x.v)}; }
inline Ints dot_signed(Ints sum, Bytes, Ints) { return sum; }
#else
constexpr bool unsigned_weights = false;  // the sum of two products of 255 and 127 would saturate 16 bits
inline Ints dot_unsigned(Ints sum, Bytes w, Ints x) {
  return {_mm512_add_epi32(sum.v, _mm512_madd_epi16(_mm512_maddubs_epi16(w.v, x.v), _mm512_set1_epi16(1)))};
}
inline Ints dot_pairs(Ints sum, Pairs w, Ints x) { return {_mm512_add_epi32(sum.v, _mm512_madd_epi16(w.v, x.v))}; }
/// Multiplies |w| with x times the sign of w: |w| <= 128 fits an unsigned byte, and |x| <= 127.
inline Ints dot_signed(Ints sum, Bytes w, Ints x) {
  const __m512i turned = _mm512_mask_sub_epi8(x.v, _mm512_movepi8_mask(w.v), _mm512_setzero_si512(), x.v);
  return dot_unsigned(sum, {_mm512_abs_epi8(w.v)}, {turned});
}
#endif

inline Pairs load_pairs(const char* from) {
  return {_mm512_cvtepu8_epi16(_mm256_loadu_si256(reinterpret_cast<const __m256i*>(from)))};
}
inline Pairs load_signed_pairs(const char* from) {
  return {_mm512_cvtepi8_epi16(_mm256_loadu_si256(reinterpret_cast<const __m256i*>(from)))};
}
inline Pairs low_fours(Pairs a) { return {_mm512_and_si512(a.v, _mm512_set1_epi16(15))}; }
inline Pairs high_fours(Pairs a) { return {_mm512_srli_epi16(a.v, 4)}; }
inline Ints paired(Ints a, Ints b) { return {_mm512_mask_blend_epi16(0xaaaaaaaa, a.v, _mm512_slli_epi32(b.v, 16))}; }

}  // namespace
}  // namespace draftproof
