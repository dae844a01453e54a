// SPDX-License-Identifier: MIT
// The canonical layout of packed weights: panels of 16 outputs, one after the other. A panel is a sequence of units
// along k. Data that an instruction set reads together is stored together, in the order of reading. A unit holds the
// integers of sixteen outputs, followed by their scales. Four consecutive k of one output make one 32-bit lane, the
// operand of the integer dot products of all instruction sets.
//
//   f32   16 values of one k
//   f16   [2 k][16 outputs], one k is padding when `inputs` is odd; bf16 [16 outputs][2 k] likewise
//   q8_0  two quantization blocks of 32 (the last one may be absent): [2][8][16][4] bytes q, then [2][16] f16 d
//   q4_0  two quantization blocks: [2][4][16][4] bytes; the low four bits are q of k = 4j + t, the high four bits q of
//         k = 16 + 4j + t; then d
//   q5_0  as q4_0, with the fifth bits of a block after its low four: [2]([4][16][4] + [16][4]), bit v of a byte of the
//         latter belongs to k = 4v + t
//   iq4_nl  as q4_0, with codes for q; mxfp4 likewise, with [2][16] bytes e for d
//   q4_1  as q4_0, with m [2][16] f16 after d; q5_1 as q5_0 likewise
//   q4_k  one quantization block of 256: [8 groups][4][16][4] bytes as q4_0; s [8][16], m [4][16][2]; d [16],
//         dmin [16] f16
//   q5_k  as q4_k, with the fifth bits after the low four: [8 groups][16][4], bit v of a byte belongs to k = 4v + t
//   q6_k  [16 groups][3][16][4] bytes: the low six bits of vector v are q - 32 of k = 4v + t in two's complement, the
//         high two bits are bits 2v and 2v + 1 of q - 32 of k = 12 + t; s [16][16]; d [16]
//   iq4_xs  one quantization block of 256: codes as the q of q4_k; s [8][16]; d [16]
//   q2_k  one quantization block of 256: [8 groups][2][16][4] bytes, bits 2v and 2v + 1 of byte t of vector h are q of
//         k = 16h + 4v + t; [8][16][2] bytes, s of a group of 16 in the low and m in the high four bits; d [16],
//         dmin [16]
//   q3_k  one quantization block of 256: [8 groups][3][16][4] bytes: the low six bits of vector v are q of k = 8v + t
//         and k = 8v + 4 + t; q of k = 24 + t and k = 28 + t are the high two bits of the first and of the second
//         vector and one bit each of the third; s [8][16][2]; d [16]
//   iq1, iq2  one quantization block of 256: codes as the q of q3_k; s [16][16]; d [16]
//   iq3_xxs, iq3_s  the same with codes as the q of q4_k
//
// Only constants and declarations, because the instruction-set files include this header.
#pragma once

#include <cstddef>

#include "kernels/kernels.h"

namespace draftproof {

/// A unit: the number of inputs in it, its size in bytes, and the byte offsets of its parts.
struct Unit {
  int inputs;
  int bytes;
  int high;      // fifth bits of q
  int scales;    // s
  int minimums;  // m
  int d;         // f16, followed by dmin or m; or e
};

static inline constexpr Unit unit_of(Format format) {
  switch (format) {
    case Format::f32: return {1, 64, 0, 0, 0, 0};
    case Format::f16:
    case Format::bf16: return {2, 64, 0, 0, 0, 0};
    case Format::q8_0: return {64, 1088, 0, 0, 0, 1024};
    case Format::q4_0:
    case Format::iq4_nl: return {64, 576, 0, 0, 0, 512};
    case Format::q4_1: return {64, 640, 0, 0, 0, 512};
    case Format::q5_0: return {64, 704, 0, 0, 0, 640};
    case Format::q5_1: return {64, 768, 0, 0, 0, 640};
    case Format::q4_k: return {256, 2368, 0, 2048, 2176, 2304};
    case Format::q5_k: return {256, 2880, 2048, 2560, 2688, 2816};
    case Format::q6_k: return {256, 3392, 0, 3072, 0, 3328};
    case Format::iq4_xs: return {256, 2208, 0, 2048, 0, 2176};
    case Format::mxfp4: return {64, 544, 0, 0, 0, 512};
    case Format::q2_k: return {256, 1344, 0, 1024, 1024, 1280};
    case Format::q3_k:
    case Format::iq1:
    case Format::iq2: return {256, 1824, 0, 1536, 0, 1792};
    case Format::iq3_xxs:
    case Format::iq3_s: return {256, 2336, 0, 2048, 0, 2304};
  }
  return {};
}

/// Returns the size of a panel of 16 outputs in bytes.
static inline constexpr std::ptrdiff_t panel_bytes(Format format, int inputs) {
  const Unit unit = unit_of(format);
  return static_cast<std::ptrdiff_t>((inputs + unit.inputs - 1) / unit.inputs) * unit.bytes;
}

/// Whether the scales of two groups of 16 inputs lie beside each other, with their minimums: formats of two and three
/// bits, whose products of sixteen inputs fit 16 bits.
static inline constexpr bool has_paired_scales(Format format) {
  return format == Format::q2_k || format == Format::q3_k;
}

static inline constexpr ActivationFormat canonical_activation_format_of(Format format) {
  return format == Format::bf16              ? ActivationFormat::bf16
         : is_float(format)                  ? ActivationFormat::floats
         : traits(format).block_inputs == 32 ? ActivationFormat::int8_block32
                                             : ActivationFormat::int8_block256;
}

/// Returns the number of inputs per quantization block of activations packed as bytes.
static inline constexpr int block_inputs(ActivationFormat activation_format) {
  return activation_format == ActivationFormat::int8_block32 ? 32 : 256;
}

/// Entries that all canonical tables share.
ActivationFormat canonical_activation_format(Format format) noexcept;
std::size_t canonical_bytes(Format format, int outputs, int inputs) noexcept;
void canonical_pack(const MatrixView& rows, int first, void* packed) noexcept;
void canonical_unpack_row(const PackedView& matrix, int output, float* row) noexcept;

/// Returns quantization block `index` of an output.
QuantizationBlock canonical_block(const PackedView& matrix, int output, int index) noexcept;

/// Writes element k of the sixteen outputs of a panel to `values`, for float formats, converted exactly to f32.
/// `output` is the first output of the panel.
void canonical_values(const PackedView& matrix, int output, int k, float* values) noexcept;

}  // namespace draftproof
