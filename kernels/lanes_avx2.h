// SPDX-License-Identifier: MIT
// Sixteen floats in two AVX2 registers, a lane type as vector.inc describes it.
#pragma once

#include <immintrin.h>

#include <cstdint>

namespace draftproof {
namespace {

struct Lanes {
  __m256 low;   // lanes 0 to 7
  __m256 high;  // lanes 8 to 15
};

// There are 16 registers and a sum takes two, so one matmul tile has at most rows * panels = 6 sums.
constexpr int tile_rows_max = 6;
constexpr int panels_at_once(int rows, int bytes) {  // measured: two panels of f32 are read faster than one
  return rows == 1 ? 4 : rows <= 3 && bytes == 4 ? 2 : 1;
}
constexpr int byte_rows_max([[maybe_unused]] int block) { return 4; }
constexpr int byte_panels_at_once([[maybe_unused]] int rows) { return 1; }
constexpr int attention_sums = 4;
constexpr int delta_panels_at_once = 2;

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

inline Lanes load_f16(const char* from) {
  return {_mm256_cvtph_ps(_mm_loadu_si128(reinterpret_cast<const __m128i*>(from))),
          _mm256_cvtph_ps(_mm_loadu_si128(reinterpret_cast<const __m128i*>(from + 16)))};
}
inline Lanes magnitude(Lanes a) {
  const __m256 sign = _mm256_set1_ps(-0.0f);
  return {_mm256_andnot_ps(sign, a.low), _mm256_andnot_ps(sign, a.high)};
}

inline __m256 rounded_to_bf16(__m256 x) {
  const __m256i bits = _mm256_castps_si256(x);
  const __m256i odd = _mm256_and_si256(_mm256_srli_epi32(bits, 16), _mm256_set1_epi32(1));
  const __m256i up = _mm256_add_epi32(bits, _mm256_add_epi32(odd, _mm256_set1_epi32(0x7fff)));
  const __m256 upper = _mm256_castsi256_ps(_mm256_and_si256(up, _mm256_set1_epi32(-65536)));
  const __m256 quiet = _mm256_or_ps(x, _mm256_castsi256_ps(_mm256_set1_epi32(0x400000)));
  return _mm256_blendv_ps(upper, quiet, _mm256_cmp_ps(x, x, _CMP_UNORD_Q));
}
inline Lanes rounded_to_bf16(Lanes a) { return {rounded_to_bf16(a.low), rounded_to_bf16(a.high)}; }

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
inline Lanes zero_below(Lanes limit, Lanes x, Lanes y) {
  return {_mm256_andnot_ps(_mm256_cmp_ps(x.low, limit.low, _CMP_LT_OQ), y.low),
          _mm256_andnot_ps(_mm256_cmp_ps(x.high, limit.high, _CMP_LT_OQ), y.high)};
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

struct Ints {
  __m256i low;
  __m256i high;
};
struct Bytes {
  __m256i low;
  __m256i high;
};
struct Pairs {
  __m256i low;
  __m256i high;
};

inline Ints spread_int(std::int32_t x) { return {_mm256_set1_epi32(x), _mm256_set1_epi32(x)}; }
inline Ints operator+(Ints a, Ints b) { return {_mm256_add_epi32(a.low, b.low), _mm256_add_epi32(a.high, b.high)}; }
inline Ints operator*(Ints a, Ints b) { return {_mm256_mullo_epi32(a.low, b.low), _mm256_mullo_epi32(a.high, b.high)}; }
inline Lanes to_floats(Ints a) { return {_mm256_cvtepi32_ps(a.low), _mm256_cvtepi32_ps(a.high)}; }
inline Ints bits_of(Lanes a) { return {_mm256_castps_si256(a.low), _mm256_castps_si256(a.high)}; }
inline Lanes of_bits(Ints a) { return {_mm256_castsi256_ps(a.low), _mm256_castsi256_ps(a.high)}; }
inline Ints at_least(Ints limit, Ints x) {
  return {_mm256_max_epi32(limit.low, x.low), _mm256_max_epi32(limit.high, x.high)};
}
inline std::int32_t largest(Ints a) {
  const __m256i eight = _mm256_max_epi32(a.low, a.high);
  const __m128i four = _mm_max_epi32(_mm256_castsi256_si128(eight), _mm256_extracti128_si256(eight, 1));
  const __m128i two = _mm_max_epi32(four, _mm_shuffle_epi32(four, 0x4e));
  return _mm_cvtsi128_si32(_mm_max_epi32(two, _mm_shuffle_epi32(two, 0xb1)));
}
inline Ints to_ints(Lanes a) { return {_mm256_cvtps_epi32(a.low), _mm256_cvtps_epi32(a.high)}; }
inline std::int32_t sum_of(Ints a) {
  const __m256i eight = _mm256_add_epi32(a.low, a.high);
  const __m128i four = _mm_add_epi32(_mm256_castsi256_si128(eight), _mm256_extracti128_si256(eight, 1));
  const __m128i two = _mm_add_epi32(four, _mm_unpackhi_epi64(four, four));
  return _mm_cvtsi128_si32(_mm_add_epi32(two, _mm_shuffle_epi32(two, 1)));
}
inline void store_bytes(signed char* to, Ints a) {
  const __m256i words = _mm256_permute4x64_epi64(_mm256_packs_epi32(a.low, a.high), 0xd8);
  const __m256i bytes = _mm256_packs_epi16(words, words);
  _mm_storeu_si128(reinterpret_cast<__m128i*>(to),
                   _mm_unpacklo_epi64(_mm256_castsi256_si128(bytes), _mm256_extracti128_si256(bytes, 1)));
}
inline __m128i eight_bytes(const char* from) { return _mm_loadl_epi64(reinterpret_cast<const __m128i*>(from)); }
inline Ints load_signed(const char* from) {
  return {_mm256_cvtepi8_epi32(eight_bytes(from)), _mm256_cvtepi8_epi32(eight_bytes(from + 8))};
}
inline Ints load_unsigned(const char* from) {
  return {_mm256_cvtepu8_epi32(eight_bytes(from)), _mm256_cvtepu8_epi32(eight_bytes(from + 8))};
}

inline Bytes load_bytes(const char* from) { return {eight_pairs(from), eight_pairs(from + 32)}; }
inline Bytes bytes_of(int value) {
  return {_mm256_set1_epi8(static_cast<char>(value)), _mm256_set1_epi8(static_cast<char>(value))};
}
inline Bytes operator|(Bytes a, Bytes b) { return {_mm256_or_si256(a.low, b.low), _mm256_or_si256(a.high, b.high)}; }
inline Bytes operator^(Bytes a, Bytes b) { return {_mm256_xor_si256(a.low, b.low), _mm256_xor_si256(a.high, b.high)}; }
inline Bytes operator&(Bytes a, Bytes b) { return {_mm256_and_si256(a.low, b.low), _mm256_and_si256(a.high, b.high)}; }
template <int bits>
inline Bytes shifted_left(Bytes a) {
  return {_mm256_slli_epi16(a.low, bits), _mm256_slli_epi16(a.high, bits)};
}
template <int bits>
inline Bytes shifted_right(Bytes a) {
  return {_mm256_srli_epi16(a.low, bits), _mm256_srli_epi16(a.high, bits)};
}
inline Bytes shifted_right(Bytes a, int bits) {
  const __m128i count = _mm_cvtsi32_si128(bits);
  return {_mm256_srl_epi16(a.low, count), _mm256_srl_epi16(a.high, count)};
}
inline Bytes looked_up(Bytes codes, const std::int8_t* numbers) {
  const __m256i table = _mm256_broadcastsi128_si256(_mm_loadu_si128(reinterpret_cast<const __m128i*>(numbers)));
  return {_mm256_shuffle_epi8(table, codes.low), _mm256_shuffle_epi8(table, codes.high)};
}
inline Bytes low_fours(Bytes a) { return a & bytes_of(15); }
inline Bytes high_fours(Bytes a) { return shifted_right<4>(a) & bytes_of(15); }

#ifdef __AVXVNNI__
constexpr bool unsigned_weights = true;
inline Ints dot_unsigned(Ints sum, Bytes w, Ints x) {
  return {_mm256_dpbusd_avx_epi32(sum.low, w.low, x.low), _mm256_dpbusd_avx_epi32(sum.high, w.high, x.high)};
}
inline Ints dot_signed(Ints sum, Bytes, Ints) { return sum; }
#else
constexpr bool unsigned_weights = false;  // the sum of two products of 255 and 127 would saturate 16 bits
// The instructions of a dot product are one statement: GCC puts the same instruction of several products together, and
// spills what lies between.
inline __m256i dot_unsigned(__m256i sum, __m256i w, __m256i x, __m256i ones) {
  __m256i product;
  asm("vpmaddubsw %[x], %[w], %[product]\n\t"
      "vpmaddwd %[ones], %[product], %[product]\n\t"
      "vpaddd %[product], %[sum], %[sum]"
      : [sum] "+x"(sum), [product] "=&x"(product)
      : [w] "x"(w), [x] "x"(x), [ones] "x"(ones));
  return sum;
}
inline Ints dot_unsigned(Ints sum, Bytes w, Ints x) {
  const __m256i ones = _mm256_set1_epi16(1);
  return {dot_unsigned(sum.low, w.low, x.low, ones), dot_unsigned(sum.high, w.high, x.high, ones)};
}
/// `size` is |w|.
inline __m256i dot_signed(__m256i sum, __m256i w, __m256i size, __m256i x, __m256i ones) {
  __m256i product;
  asm("vpsignb %[w], %[x], %[product]\n\t"
      "vpmaddubsw %[product], %[size], %[product]\n\t"
      "vpmaddwd %[ones], %[product], %[product]\n\t"
      "vpaddd %[product], %[sum], %[sum]"
      : [sum] "+x"(sum), [product] "=&x"(product)
      : [w] "x"(w), [size] "x"(size), [x] "x"(x), [ones] "x"(ones));
  return sum;
}
/// Multiplies |w| with x times the sign of w: |w| <= 128 fits an unsigned byte, and |x| <= 127.
inline Ints dot_signed(Ints sum, Bytes w, Ints x) {
  const __m256i ones = _mm256_set1_epi16(1);
  return {dot_signed(sum.low, w.low, _mm256_abs_epi8(w.low), x.low, ones),
          dot_signed(sum.high, w.high, _mm256_abs_epi8(w.high), x.high, ones)};
}

#define PAIRS_OF_PRODUCTS

inline Pairs pairs_in(Ints a) { return {a.low, a.high}; }
inline Pairs products(Bytes w, Ints x) {
  return {_mm256_maddubs_epi16(w.low, x.low), _mm256_maddubs_epi16(w.high, x.high)};
}
inline __m256i add_products(__m256i sum, __m256i w, __m256i x) {
  __m256i product;
  asm("vpmaddubsw %[x], %[w], %[product]\n\t"
      "vpaddw %[product], %[sum], %[sum]"
      : [sum] "+x"(sum), [product] "=&x"(product)
      : [w] "x"(w), [x] "x"(x));
  return sum;
}
inline Pairs add_products(Pairs sum, Bytes w, Ints x) {
  return {add_products(sum.low, w.low, x.low), add_products(sum.high, w.high, x.high)};
}
#endif

inline Pairs load_pairs(const char* from) {
  return {_mm256_cvtepu8_epi16(_mm_loadu_si128(reinterpret_cast<const __m128i*>(from))),
          _mm256_cvtepu8_epi16(_mm_loadu_si128(reinterpret_cast<const __m128i*>(from + 16)))};
}
inline Pairs load_signed_pairs(const char* from) {
  return {_mm256_cvtepi8_epi16(_mm_loadu_si128(reinterpret_cast<const __m128i*>(from))),
          _mm256_cvtepi8_epi16(_mm_loadu_si128(reinterpret_cast<const __m128i*>(from + 16)))};
}
inline Pairs low_fours(Pairs a) {
  return {_mm256_and_si256(a.low, _mm256_set1_epi16(15)), _mm256_and_si256(a.high, _mm256_set1_epi16(15))};
}
inline Pairs high_fours(Pairs a) { return {_mm256_srli_epi16(a.low, 4), _mm256_srli_epi16(a.high, 4)}; }
inline Ints paired(Ints a, Ints b) {
  return {_mm256_blend_epi16(a.low, _mm256_slli_epi32(b.low, 16), 0xaa),
          _mm256_blend_epi16(a.high, _mm256_slli_epi32(b.high, 16), 0xaa)};
}
inline Ints dot_pairs(Ints sum, Pairs w, Ints x) {
  return {_mm256_add_epi32(sum.low, _mm256_madd_epi16(w.low, x.low)),
          _mm256_add_epi32(sum.high, _mm256_madd_epi16(w.high, x.high))};
}

}  // namespace
}  // namespace draftproof
