// SPDX-License-Identifier: MIT
// A table of operations ("kernel table") per instruction set. An entry works on a range of the output on one thread,
// allocates nothing and cannot fail. kernels/operations.h splits whole operations into ranges and runs them on all
// threads.
//
// Row law (batch invariance): row r of an output depends on row r of the input and on the weights only. It does not
// depend on other rows, on the range that it was computed in, on the thread count or, within one numerics class, on the
// table.
//
// Only plain data and function pointers, because the instruction-set files include this header, and nothing compiled
// there may have linkage that the rest of the program could pick up.
//
// Orders of summation. "Sequential": one accumulator from +0, one fma per term, index ascending. "Sixteen lanes":
// term i goes to accumulator i mod 16 by fma (or add), i ascending; then lanes l and l+8 are added, l and l+4, l and
// l+2, l and l+1. "Pairs in runs of 32", the order of a tile unit: for each run of 32 terms, ascending, e =
// sequential over its even terms, o = sequential over its odd ones, sum = sum + (e + o), from +0. No other order of
// summation is used.
//
// Every result that is a number has the same bits in every table. Where the formula gives a NaN every table gives a
// NaN, but its sign and payload are the CPU's. No table changes the rounding or flushing mode of a thread: denormals
// follow IEEE 754, and are removed where they would be frequent: from weights (`pack`), from stored keys and values
// (key_values.h), and from exponentials (exp.h). No sum of bf16 products can be denormal: both factors are 0 or at
// least 2^-56 (bf16_factor), with eight significant bits, so all products and sums are multiples of 2^-126. Tile units,
// which flush denormals, therefore give the bits of IEEE 754.
#pragma once

#include <cstddef>
#include <cstdint>

#include "kernels/delta_state.h"
#include "kernels/formats.h"
#include "kernels/key_values.h"

namespace draftproof {

inline constexpr int lanes = 16;

/// A weight in the layout of checkpoints: row-major [outputs][inputs], see kernels/formats.h.
struct MatrixView {
  const void* data;
  Format format;
  int outputs;
  int inputs;
};

/// A weight in the layout of a table's `pack`; padding outputs are zero. canonical: panels of 16 outputs, see
/// kernels/canonical.h; openblas: f32, row-major.
struct PackedView {
  const void* data;
  Format format;
  int outputs;
  int inputs;
};

/// The format of the activations that matmul multiplies a weight with: floats, floats rounded to bf16, or rows
/// quantized to bytes.
///
/// bf16: the nearest bf16, ties to even, and a zero of its sign below 2^-56 (bf16_factor).
///
/// A quantization block of a row is converted to bytes as follows. Let a be its largest magnitude. If a < 2^-100, d and
/// every q are 0. Otherwise d = a / 127 and q_k = x_k * (127 / a), rounded to the nearest integer, ties to even. A
/// block that contains an infinity or a NaN has d = NaN. Quantization blocks have 32 or 256 inputs, as q8_0 and q8_K of
/// GGUF; the bytes of a block depend on its inputs only.
enum class ActivationFormat : std::uint8_t { floats, bf16, int8_block32, int8_block256 };
inline constexpr int activation_formats = 4;
static inline constexpr bool is_float(ActivationFormat format) { return format <= ActivationFormat::bf16; }

/// A row of bf16 products is summed in runs of this many.
inline constexpr int bf16_run = 32;

/// The positions [first, end) that a row attends to, at least one.
struct Visible {
  int first;
  int end;
};

struct AttentionShape {
  int heads;
  int kv_heads;  // divides heads; head h reads kv head h / (heads / kv_heads)
  int head_dim;
  float scale;
  float cap = 0;                 // scores become cap * tanh(score / cap); 0: they stay
  const float* sinks = nullptr;  // [heads]: a score of each head's own, without a value; nullptr: none
  int latent = 0;                // values at the end of a key that are its value, behind an even number of others;
                                 // 0: values are their own
};

/// Returns the dimensions of a value, and of what attention gives a head.
static inline constexpr int value_dim(const AttentionShape& shape) { return value_dim(shape.head_dim, shape.latent); }

/// The most queries that one call of `attention` accepts.
inline constexpr int attention_queries_max = 32;
inline constexpr int attention_wide_blocks = 4;  // KV blocks of keys or values as floats, in scratch
/// Returns the floats of scratch memory for `queries` queries whose visible positions span `positions` positions.
static inline constexpr std::size_t attention_floats(const AttentionShape& shape, int queries, int positions) {
  const std::size_t width = static_cast<std::size_t>(value_width(shape.head_dim));
  const std::size_t blocks = static_cast<std::size_t>(positions) / lanes + 4;  // from and to multiples of 32
  return static_cast<std::size_t>(queries) * (blocks * lanes + 3 * lanes + 2 * width) +
         attention_wide_blocks * lanes * width;
}

struct Kernels {
  const char* name;      // "scalar", "avx2", "avx512", "amx", "openblas"
  const char* numerics;  // "canonical" or "openblas": tables of one class give equal bits
  int unit;              // outputs per unit of matmul work; ranges begin at multiples of it

  bool (*supported)() noexcept;  // whether this CPU can run the table

  std::size_t (*packed_bytes)(Format format, int outputs, int inputs) noexcept;

  /// Packs the rows as outputs [first, first + rows.outputs) of `packed`, which is 64-byte aligned and was zeroed
  /// before the first call. Calls for different rows may run concurrently. Weights that are denormal floats, and bf16
  /// weights below 2^-56, become zeros of their sign: denormals slow multiplications on some CPUs, and the results must
  /// not depend on a CPU's denormal mode.
  void (*pack)(const MatrixView& rows, int first, void* packed) noexcept;
  /// Writes the values of one output to `row` [inputs], equal to those of dequantize_row.
  void (*unpack_row)(const PackedView& matrix, int output, float* row) noexcept;

  /// Returns the format of the activations that a weight of this format is multiplied with.
  ActivationFormat (*activation_format)(Format format) noexcept;

  /// Packs inputs [begin, end) of the rows of x [rows][x_stride] to `activations` [activation_bytes], 64-byte aligned.
  /// begin is a multiple of 256; end is one too, or is `inputs`. Calls for different inputs may run concurrently.
  std::size_t (*activation_bytes)(ActivationFormat activation_format, int rows, int inputs) noexcept;
  void (*pack_activations)(ActivationFormat activation_format, const float* x, std::ptrdiff_t x_stride, int rows,
                           int inputs, int begin, int end, void* activations) noexcept;

  /// y[r][n] = sum over k of x[r][k] * w[n][k], for n in [begin, end), where x are the `rows` rows of
  /// `activations`. begin is a multiple of `unit`; end is one too, or is w.outputs. Writes only columns [begin, end) of
  /// y [rows][y_stride].
  ///
  /// Order of summation of canonical tables, by weight format:
  /// f32, f16: sequential in k.
  /// bf16: pairs in runs of 32, by fma, with x rounded to bf16.
  /// q8_0, q4_0, q5_0, iq4_nl, mxfp4: for each quantization block b of 32, ascending, with the integer dot_b = sum of
  /// w.q * x.q:
  ///   y = fma(dot_b, w.d_b * x.d_b, y).
  /// q4_1, q5_1: the same, then, with sum_b = sum of x.q: y = fma(sum_b, w.m_b * x.d_b, y).
  /// q3_k, q6_k, iq1 to iq3_s, iq4_xs: for each quantization block b of 256, with the integer dot_b = sum of w.s * w.q
  /// * x.q:
  ///   y = fma(dot_b, w.d_b * x.d_b, y).
  /// q2_k, q4_k, q5_k: the same, then, with min_b = sum of w.m * x.q: y = fma(-min_b, w.dmin_b * x.d_b, y).
  /// Integer sums are exact in any order; their conversion to float rounds to nearest. y starts at +0.
  /// openblas: the order of one fixed sgemm tile, see kernels/openblas.cpp.
  void (*matmul)(const PackedView& w, const void* activations, int rows, float* y, std::ptrdiff_t y_stride, int begin,
                 int end) noexcept;

  /// Normalizes the `groups` vectors of `width` in each row: y = (x * r) * weight, r = 1 / sqrt(sum(x*x) / width +
  /// epsilon), the sum in sixteen lanes. Works in place when y == x.
  void (*rms_norm)(const float* x, std::ptrdiff_t x_stride, int rows, int groups, int width, const float* weight,
                   float epsilon, float* y, std::ptrdiff_t y_stride) noexcept;

  /// Applies rotate-half RoPE in place to `heads` vectors per row, pairs (j, j + half): with c = cosine[row][j] and
  /// s = sine[row][j], a' = fma(a, c, -(b * s)), b' = fma(b, c, a * s). Dimensions from 2 * half on stay unchanged.
  void (*rope)(float* x, std::ptrdiff_t x_stride, int rows, int heads, int head_dim, int half, const float* cosine,
               const float* sine) noexcept;

  /// out[r][i] = (gate / (1 + exp(-gate))) * up with gate = x[r][i], up = x[r][width + i], for i in [begin, end);
  /// exp of kernels/exp.h. x [rows][2 * width], out [rows][width].
  void (*silu_multiply)(const float* x, int rows, int width, int begin, int end, float* out) noexcept;

  /// The same with the tanh form of GELU for SiLU: (gate / (1 + exp(-w))) * up, w = gate * (a + b * (gate * gate)),
  /// a = 2 * sqrt(2 / pi), b = 0.044715 * a, both rounded to float.
  void (*gelu_multiply)(const float* x, int rows, int width, int begin, int end, float* out) noexcept;

  /// y[i] = y[i] + x[i].
  void (*add)(const float* x, std::size_t count, float* y) noexcept;

  /// Computes attention for queries [begin, end) of one kv head, between 1 and attention_queries_max of them. With
  /// `group` query heads per kv head, query i is that of row i / group and head kv_head * group + i % group. For each
  /// query, over the visible positions of its row: s_p = (sequential q.k over head_dim) * scale; unless shape.cap is 0,
  /// s_p = cap * tanh(s_p / cap), tanh of kernels/exp.h; m = max s, from the head's sink or else -inf, which ignores
  /// NaNs; e_p = exp(s_p - m); total in sixteen lanes by p mod 16 (add), plus exp(sink - m) when there are sinks;
  /// out_d = (sequential over p ascending of fma(e_p, v_pd)) / total. k and v are the stored values, exactly. bf16: q,
  /// and each e_p before it enters a sum, are rounded as ActivationFormat::bf16 says; q.k is summed in pairs in runs of
  /// 32, and so is out_d, with runs from multiples of 32. q8: k and v are the bytes, s_p = (q.k * d of the key) *
  /// scale, and e_p, once added to the total, is replaced by e_p * (d of the value). Positions outside `visible` enter
  /// no sum. q [rows][q_stride], visible [rows], out [rows][heads * value_dim]; scratch: attention_floats floats,
  /// 64-byte aligned.
  void (*attention)(const AttentionShape& shape, const KeyValues& kv, const float* q, std::ptrdiff_t q_stride,
                    const Visible* visible, int kv_head, int begin, int end, float* scratch, float* out) noexcept;

  /// Causal depthwise convolution, then SiLU: out[r][c] = s / (1 + exp(-s)), s = sum over j < width, sequential, of
  /// weight[j][c] * x[r - (width - 1) + j][c], for channels c in [begin, end); exp of kernels/exp.h. Row -i of x is row
  /// width - 1 - i of `tail`. width is at least 2. tail [width - 1][channels], x [rows][x_stride], weight
  /// [width][channels], out [rows][out_stride].
  void (*causal_conv_silu)(const float* tail, const float* x, std::ptrdiff_t x_stride, int rows, int channels,
                           int width, const float* weight, int begin, int end, float* out,
                           std::ptrdiff_t out_stride) noexcept;

  /// The gated delta rule, row by row, for value heads [begin, end). With a row's decay g, beta b, key k, value and q
  /// of a head, and the state S [key_dim][value_dim] before it, for every value dimension v: S_iv = S_iv * exp(g)
  /// (with channel_decays exp(g_i)); r = sequential over i of S_iv * k_i; d = b * (value_v - r); S_iv = fma(k_i, d,
  /// S_iv); out_v = sequential over i of S_iv * q_i; exp of kernels/exp.h. The first row reads the state `from`, the
  /// last one leaves it in `to`; they may be the same. q [rows][q_stride], each row [key_heads][key_dim]; out
  /// [rows][value_heads][value_dim]. Without q, nullptr, out is not written. Layout of the state and of `folded`:
  /// delta_state.h.
  void (*gated_delta_rule)(const DeltaShape& shape, const DeltaRows& folded, const float* q, std::ptrdiff_t q_stride,
                           int rows, int begin, int end, const float* from, float* to, float* out) noexcept;

  /// y[i] = exp((x[i] - shift) * scale), exp of kernels/exp.h.
  void (*exponentials)(const float* x, float shift, float scale, std::size_t count, float* y) noexcept;
};

/// Returns all tables of this build, the reference table first and preferred tables later. Ends with nullptr.
const Kernels* const* all_kernels() noexcept;

/// Returns the fastest supported canonical table; `scalar` is always supported.
const Kernels& best_kernels() noexcept;

/// Returns the table of this name, or nullptr.
const Kernels* find_kernels(const char* name) noexcept;

/// Checks the row law on small shapes. Returns an empty string when the table keeps it and may be used on this CPU;
/// else a message that states why not and what to do. Runs in milliseconds, before first use; the unit tests of a table
/// are far larger.
const char* self_test(const Kernels& table) noexcept;

}  // namespace draftproof
