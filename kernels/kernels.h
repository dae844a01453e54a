// SPDX-License-Identifier: MIT
// One table of operations per instruction set. An entry works on a range of the output, on one thread, allocates
// nothing and cannot fail; kernels/operations.h cuts whole operations into ranges and runs them on all threads.
//
// Row law: row r of an output depends on row r of the input and on the weights, never on the rows beside it, on the
// range it was computed in, on the thread count or, within one numerics class, on the table.
//
// This header holds plain data and function pointers only: the instruction-set files include it, and nothing compiled
// there may have linkage that the rest of the program could pick up.
//
// Orders of summation. "Sequential": one accumulator from +0, one fma per term, index ascending. "Sixteen lanes":
// term i goes to accumulator i mod 16 by fma (or add), i ascending; then lanes l and l+8 are added, l and l+4, l and
// l+2, l and l+1. No other sum exists.
//
// Bits are promised for every result that is a number; where the formula gives a NaN every table gives a NaN, but its
// sign and payload are the CPU's. No table changes the rounding or flushing mode of a thread: denormals are computed
// with as IEEE 754 says, and kept out where they would be frequent: of weights (`pack`), of stored keys and values
// (key_values.h), and of exponentials (exp.h).
#pragma once

#include <cstddef>
#include <cstdint>

#include "kernels/formats.h"
#include "kernels/key_values.h"

namespace draftproof {

inline constexpr int lanes = 16;

/// A weight as checkpoints hold it: row-major [outputs][inputs], see kernels/formats.h.
struct MatrixView {
  const void* data;
  Format format;
  int outputs;
  int inputs;
};

/// A weight as a table's `pack` laid it out; absent outputs are zero. canonical: panels of 16 outputs, see
/// kernels/canonical.h; openblas: f32, row-major.
struct PackedView {
  const void* data;
  Format format;
  int outputs;
  int inputs;
};

/// What matmul multiplies a weight with: the rows as they are, or as bytes.
///
/// A block of a row becomes bytes so: a = the largest magnitude in it; if a < 2^-100, d and every q are 0; else
/// d = a / 127 and q_k = x_k * (127 / a), rounded to the nearest integer, ties to even. A block that holds an infinity
/// or a NaN has d = NaN. The blocks are 32 or 256 inputs long, as q8_0 and q8_K are in GGUF's terms; a block of a row
/// depends on nothing else.
enum class ActivationFormat : std::uint8_t { floats, int8_block32, int8_block256 };
inline constexpr int activation_formats = 3;

/// The positions [first, end) that a row attends to; at least one.
struct Visible {
  int first;
  int end;
};

struct AttentionShape {
  int heads;
  int kv_heads;  // divides heads; head h reads kv head h / (heads / kv_heads)
  int head_dim;
  float scale;
};

/// Queries that one call of `attention` takes at most, and the floats of scratch that it needs for `queries` of them,
/// the positions that some of them see being `positions` in a row.
inline constexpr int attention_queries_max = 32;
inline constexpr int attention_wide_blocks = 4;  // of keys or values as floats, in scratch
static inline constexpr std::size_t attention_floats(const AttentionShape& shape, int queries, int positions) {
  const std::size_t width = static_cast<std::size_t>(value_width(shape.head_dim));
  const std::size_t blocks = static_cast<std::size_t>(positions) / lanes + 2;
  return static_cast<std::size_t>(queries) * (blocks * lanes + 2 * lanes + 2 * width) +
         attention_wide_blocks * lanes * width;
}

struct Kernels {
  const char* name;      // "scalar", "avx2", "avx512", "amx", "openblas"
  const char* numerics;  // "canonical" or "openblas": tables of one class give equal bits
  int unit;              // outputs per unit of matmul work; ranges are cut at multiples of it

  bool (*supported)() noexcept;  // can this CPU run the table?

  std::size_t (*packed_bytes)(Format format, int outputs, int inputs) noexcept;

  /// Lays the rows down as outputs [first, first + rows.outputs) of `packed`, which is zeroed before the first call and
  /// 64-byte aligned. Calls for different rows may run at the same time. Weights that are denormal floats become zeros
  /// of their sign: they would slow every multiplication on some CPUs, and no CPU may treat them in its own way.
  void (*pack)(const MatrixView& rows, int first, void* packed) noexcept;
  void (*unpack_row)(const PackedView& matrix, int output, float* row) noexcept;  // row [inputs], as widen_row gives it

  /// The form of the rows that a weight of this format is multiplied with.
  ActivationFormat (*activation_format)(Format format) noexcept;

  /// Lays inputs [begin, end) of the rows of x [rows][x_stride] down in `prepared` [prepared_bytes], 64-byte aligned.
  /// begin is a multiple of 256, end is one too or is `inputs`. Calls for different inputs may run at the same time.
  std::size_t (*activation_bytes)(ActivationFormat activation_format, int rows, int inputs) noexcept;
  void (*pack_activations)(ActivationFormat activation_format, const float* x, std::ptrdiff_t x_stride, int rows, int inputs, int begin, int end,
                  void* activations) noexcept;

  /// y[r][n] = sum over k of x[r][k] * w[n][k], for n in [begin, end), x being the `rows` rows of `prepared`.
  /// begin is a multiple of `unit`; end is one too, or is w.outputs. Only y [rows][y_stride], [begin, end) is written.
  ///
  /// canonical order, by format:
  /// f32, f16, bf16: sequential in k.
  /// q8_0, q4_0: for each block b of 32, ascending, with the integer dot_b = sum of w.q * x.q:
  ///   y = fma(dot_b, w.d_b * x.d_b, y).
  /// q6_k: for each block b of 256, with the integer dot_b = sum of w.s * w.q * x.q: y = fma(dot_b, w.d_b * x.d_b, y).
  /// q4_k, q5_k: the same, then, with min_b = sum of w.m * x.q: y = fma(-min_b, w.dmin_b * x.d_b, y).
  /// Integers are exact, so they have no order; as floats they are rounded to nearest. y starts at +0.
  /// openblas: whatever one fixed sgemm tile gives, see kernels/openblas.cpp.
  void (*matmul)(const PackedView& w, const void* activations, int rows, float* y, std::ptrdiff_t y_stride, int begin,
                 int end) noexcept;

  /// Each row holds `groups` vectors of `width`: y = (x * r) * weight, r = 1 / sqrt(sum(x*x) / width + epsilon), the
  /// sum in sixteen lanes. In place when y == x.
  void (*rms_norm)(const float* x, std::ptrdiff_t x_stride, int rows, int groups, int width, const float* weight,
                   float epsilon, float* y, std::ptrdiff_t y_stride) noexcept;

  /// Rotate-half RoPE in place on `heads` vectors per row, pairs (j, j + half): with c = cosine[row][j] and
  /// s = sine[row][j], a' = fma(a, c, -(b * s)), b' = fma(b, c, a * s). Dimensions from 2 * half on pass through.
  void (*rope)(float* x, std::ptrdiff_t x_stride, int rows, int heads, int head_dim, int half, const float* cosine,
               const float* sine) noexcept;

  /// out[r][i] = (gate / (1 + exp(-gate))) * up with gate = x[r][i], up = x[r][width + i], for i in [begin, end);
  /// exp of kernels/exp.h. x [rows][2 * width], out [rows][width].
  void (*silu_multiply)(const float* x, int rows, int width, int begin, int end, float* out) noexcept;

  /// y[i] = y[i] + x[i].
  void (*add)(const float* x, std::size_t count, float* y) noexcept;

  /// Queries [begin, end) of one kv head, at least one and at most attention_queries_max: with `group` query heads to a
  /// kv head, query i is that of row i / group and head kv_head * group + i % group. For each, over its row's visible
  /// positions: s_p = (sequential q.k over head_dim) * scale; m = max s, from -inf, a NaN never wins; e_p = exp(s_p -
  /// m); total in sixteen lanes by p mod 16 (add); out_d = (sequential over p ascending of fma(e_p, v_pd)) / total.
  /// k and v are the stored values, exactly; for q8 they are the bytes, and s_p = (q.k * d of the key) * scale, and
  /// e_p * (d of the value) stands in for e_p once that was added to the total. Positions outside `visible` enter no
  /// sum. q [rows][q_stride], visible [rows], out [rows][heads * head_dim]; scratch: attention_floats, 64-byte aligned.
  void (*attention)(const AttentionShape& shape, const KeyValues& kv, const float* q, std::ptrdiff_t q_stride,
                    const Visible* visible, int kv_head, int begin, int end, float* scratch, float* out) noexcept;

  /// y[i] = exp((x[i] - shift) * scale), exp of kernels/exp.h.
  void (*exponentials)(const float* x, float shift, float scale, std::size_t count, float* y) noexcept;
};

/// Every table this build holds, definition first, in order of preference last to first. Ends with nullptr.
const Kernels* const* all_kernels() noexcept;

/// The fastest supported canonical table; `scalar` always qualifies.
const Kernels& best_kernels() noexcept;

/// nullptr when there is none of that name.
const Kernels* find_kernels(const char* name) noexcept;

/// Runs the row law on small shapes. Empty when the table keeps it and may be used here; else one sentence saying why
/// not and what to do. Every table's own tests are far larger; this one runs before first use, in milliseconds.
const char* self_test(const Kernels& table) noexcept;

}  // namespace draftproof
