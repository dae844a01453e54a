// SPDX-License-Identifier: MIT
// The canonical layout of packed weights: panels of 16 outputs, one after the other, each a run of units along k. What
// an instruction set reads together lies together, in the order of reading; a unit holds the integers of sixteen
// outputs and, behind them, their scales. Four consecutive k of one output make one 32-bit lane, which is what the
// integer dot products of all instruction sets take.
//
//   f32   16 values of one k
//   f16   [2 k][16 outputs], one k wasted when `inputs` is odd; bf16 [16 outputs][2 k] likewise
//   q8_0  two blocks of 32 (the last may be absent): [2][8][16][4] bytes q, then [2][16] f16 d
//   q4_0  two blocks: [2][4][16][4] bytes, low four bits the q of k = 4j + t, high four bits of 16 + 4j + t; then d
//   q4_k  one block of 256: [8 groups][4][16][4] bytes as q4_0; s [8][16], m [4][16][2]; d [16], dmin [16] f16
//   q5_k  the same with the fifth bits behind the low four: [8 groups][16][4], bit v of a byte belongs to k = 4v + t
//   q6_k  [8 groups][4][16][4] bytes as q4_0; [8][2][16][4] high bits, two for each of four v; s [16][16]; d [16]
//
// Constants and declarations only, for the instruction-set files.
#pragma once

#include <cstddef>

#include "kernels/kernels.h"

namespace draftproof {

/// A unit: the inputs it holds, its bytes, and where its parts begin.
struct Unit {
  int inputs;
  int bytes;
  int high;     // more bits of q
  int scales;   // s
  int minimums; // m
  int d;        // f16, then dmin
};

static inline constexpr Unit unit_of(Format format) {
  switch (format) {
    case Format::f32: return {1, 64, 0, 0, 0, 0};
    case Format::f16:
    case Format::bf16: return {2, 64, 0, 0, 0, 0};
    case Format::q8_0: return {64, 1088, 0, 0, 0, 1024};
    case Format::q4_0: return {64, 576, 0, 0, 0, 512};
    case Format::q4_k: return {256, 2368, 0, 2048, 2176, 2304};
    case Format::q5_k: return {256, 2880, 2048, 2560, 2688, 2816};
    case Format::q6_k: return {256, 3392, 2048, 3072, 0, 3328};
  }
  return {};
}

/// Bytes of a panel of 16 outputs.
static inline constexpr std::ptrdiff_t panel_bytes(Format format, int inputs) {
  const Unit unit = unit_of(format);
  return static_cast<std::ptrdiff_t>((inputs + unit.inputs - 1) / unit.inputs) * unit.bytes;
}

static inline constexpr ActivationFormat canonical_activation_format_of(Format format) {
  return format <= Format::bf16   ? ActivationFormat::floats
         : format <= Format::q4_0 ? ActivationFormat::int8_block32
                                  : ActivationFormat::int8_block256;
}

/// Inputs per block of an operand of bytes.
static inline constexpr int block_inputs(ActivationFormat activation_format) { return activation_format == ActivationFormat::int8_block32 ? 32 : 256; }

/// The entries of a canonical table.
ActivationFormat canonical_activation_format(Format format) noexcept;
std::size_t canonical_bytes(Format format, int outputs, int inputs) noexcept;
void canonical_pack(const MatrixView& rows, int first, void* packed) noexcept;
void canonical_unpack_row(const PackedView& matrix, int output, float* row) noexcept;

/// A block of quantized weights of one output, or a run of 32 of its inputs, as numbers; what is absent is 0.
struct QuantBlock {
  float d;
  float dmin;
  int s[16];   // of q4_k and q5_k eight, of q6_k sixteen
  int m[8];
  int q[256];  // signed for q8_0, q4_0 and q6_k
};
/// Block `index` of an output: of 32 inputs for q8_0 and q4_0, of 256 for the others.
QuantBlock canonical_block(const PackedView& matrix, int output, int index) noexcept;

/// Element k of the sixteen outputs of a panel, `output` the first, of a float format, widened exactly.
void canonical_values(const PackedView& matrix, int output, int k, float* values) noexcept;

}  // namespace draftproof
