// SPDX-License-Identifier: MIT
// The definition: every operation of kernels.h as textbook loops. When another table disagrees, this one is right.
#include <cmath>
#include <cstring>

#include "kernels/exp.h"
#include "kernels/tables.h"

// The same loops, compiled twice where a CPU may have fma as an instruction and may not: without it std::fma is a call,
// of equal bits, that makes the definition ten times slower.
#if defined(__x86_64__)
#define DRAFTPROOF_WITH_AND_WITHOUT_FMA __attribute__((target_clones("default", "fma")))
#else
#define DRAFTPROOF_WITH_AND_WITHOUT_FMA
#endif

namespace draftproof {
namespace {

float from_bits(std::uint32_t bits) { return __builtin_bit_cast(float, bits); }

std::uint16_t half_word(const void* data, std::size_t i) {
  std::uint16_t word;
  std::memcpy(&word, static_cast<const char*>(data) + 2 * i, 2);
  return word;
}

float widened_f16(std::uint16_t h) {
  const std::uint32_t sign = std::uint32_t{h & 0x8000u} << 16;
  const std::uint32_t rest = std::uint32_t{h & 0x7fffu} << 13;
  if (rest >= 0x7c00u << 13) return from_bits(sign | 0x7f800000u | rest);  // infinity, NaN
  // The exponent biases differ by 112; multiplying makes denormals right as well, and is exact.
  const float magnitude = from_bits(rest) * 0x1p112f;
  return from_bits(sign | __builtin_bit_cast(std::uint32_t, magnitude));
}

std::size_t panel_words(Format format, int inputs) {  // elements in one panel
  const std::size_t k = static_cast<std::size_t>(inputs);
  return format == Format::bf16 ? (k + 1) / 2 * 2 * lanes : k * lanes;
}

/// Where element k of an output lies, counted in elements from the start of the weight.
std::size_t place(Format format, int inputs, int output, int k) {
  const std::size_t panel = panel_words(format, inputs) * static_cast<std::size_t>(output / lanes);
  const std::size_t lane = static_cast<std::size_t>(output % lanes);
  const std::size_t row = static_cast<std::size_t>(k);
  return format == Format::bf16 ? panel + row / 2 * (2 * lanes) + lane * 2 + row % 2 : panel + row * lanes + lane;
}

float tree(const float* lane) {
  float sum[lanes];
  std::memcpy(sum, lane, sizeof sum);
  for (int step = lanes / 2; step > 0; step /= 2) {
    for (int l = 0; l < step; ++l) sum[l] = sum[l] + sum[l + step];
  }
  return sum[0];
}

bool always() noexcept { return true; }

DRAFTPROOF_WITH_AND_WITHOUT_FMA
void matmul(const PackedView& w, const float* x, int rows, float* y, std::ptrdiff_t y_stride, int begin,
            int end) noexcept {
  for (int n = begin; n < end; n += lanes) {
    const int count = end - n < lanes ? end - n : lanes;
    for (int r = 0; r < rows; ++r) {
      const float* row = x + static_cast<std::size_t>(r) * w.inputs;
      float sum[lanes] = {};
      for (int k = 0; k < w.inputs; ++k) {
        for (int l = 0; l < count; ++l) {
          sum[l] = std::fma(row[k], widened(w.data, w.format, place(w.format, w.inputs, n + l, k)), sum[l]);
        }
      }
      for (int l = 0; l < count; ++l) y[r * y_stride + n + l] = sum[l];
    }
  }
}

void rms_norm(const float* x, std::ptrdiff_t x_stride, int rows, int groups, int width, const float* weight,
              float epsilon, float* y, std::ptrdiff_t y_stride) noexcept {
  for (int r = 0; r < rows; ++r) {
    for (int g = 0; g < groups; ++g) {
      const float* in = x + r * x_stride + static_cast<std::ptrdiff_t>(g) * width;
      float* out = y + r * y_stride + static_cast<std::ptrdiff_t>(g) * width;
      float squares[lanes] = {};
      for (int i = 0; i < width; ++i) squares[i % lanes] = std::fma(in[i], in[i], squares[i % lanes]);
      const float factor = 1.0f / std::sqrt(tree(squares) / static_cast<float>(width) + epsilon);
      for (int i = 0; i < width; ++i) out[i] = (in[i] * factor) * weight[i];
    }
  }
}

void rope(float* x, std::ptrdiff_t x_stride, int rows, int heads, int head_dim, int half, const float* cosine,
          const float* sine) noexcept {
  for (int r = 0; r < rows; ++r) {
    const float* c = cosine + static_cast<std::ptrdiff_t>(r) * half;
    const float* s = sine + static_cast<std::ptrdiff_t>(r) * half;
    for (int h = 0; h < heads; ++h) {
      float* head = x + r * x_stride + static_cast<std::ptrdiff_t>(h) * head_dim;
      for (int j = 0; j < half; ++j) {
        const float a = head[j];
        const float b = head[j + half];
        head[j] = std::fma(a, c[j], -(b * s[j]));
        head[j + half] = std::fma(b, c[j], a * s[j]);
      }
    }
  }
}

void silu_multiply(const float* x, int rows, int width, float* out) noexcept {
  for (int r = 0; r < rows; ++r) {
    const float* gate = x + static_cast<std::ptrdiff_t>(r) * 2 * width;
    const float* up = gate + width;
    float* row = out + static_cast<std::ptrdiff_t>(r) * width;
    for (int i = 0; i < width; ++i) row[i] = (gate[i] / (1.0f + exponential(-gate[i]))) * up[i];
  }
}

void add(const float* x, std::size_t count, float* y) noexcept {
  for (std::size_t i = 0; i < count; ++i) y[i] = y[i] + x[i];
}

DRAFTPROOF_WITH_AND_WITHOUT_FMA
void attention(const AttentionShape& shape, const KeyValues& memory, const float* q, Visible visible, float* scores,
               float* out, int begin, int end) noexcept {
  const int group = shape.heads / shape.kv_heads;
  const int dim = shape.head_dim;
  for (int h = begin * group; h < end * group; ++h) {
    const std::ptrdiff_t ring = static_cast<std::ptrdiff_t>(h / group) * memory.blocks;
    const auto key = [&](int p, int d) {
      return memory.keys[((ring + p / lanes % memory.blocks) * dim + d) * lanes + p % lanes];
    };
    const auto value = [&](int p, int d) {
      return memory.values[((ring + p / lanes % memory.blocks) * lanes + p % lanes) * dim + d];
    };
    const float* query = q + static_cast<std::ptrdiff_t>(h) * dim;
    float* head = out + static_cast<std::ptrdiff_t>(h) * dim;

    float largest = -__builtin_inff();
    for (int p = visible.first; p < visible.end; ++p) {
      float s = 0;
      for (int d = 0; d < dim; ++d) s = std::fma(query[d], key(p, d), s);
      s = s * shape.scale;
      scores[p - visible.first] = s;
      largest = s > largest ? s : largest;
    }
    float sums[lanes] = {};
    for (int p = visible.first; p < visible.end; ++p) {
      float& e = scores[p - visible.first];
      e = exponential(e - largest);
      sums[p % lanes] = sums[p % lanes] + e;
    }
    const float total = tree(sums);
    for (int d = 0; d < dim; ++d) {
      float sum = 0;
      for (int p = visible.first; p < visible.end; ++p) sum = std::fma(scores[p - visible.first], value(p, d), sum);
      head[d] = sum / total;
    }
  }
}

void exponentials(const float* x, float shift, float scale, std::size_t count, float* y) noexcept {
  for (std::size_t i = 0; i < count; ++i) y[i] = exponential((x[i] - shift) * scale);
}

constexpr Kernels table = {
    .name = "scalar",
    .numerics = "canonical",
    .unit = lanes,
    .supported = always,
    .packed_bytes = canonical_bytes,
    .pack = canonical_pack,
    .unpack_row = canonical_unpack_row,
    .matmul = matmul,
    .rms_norm = rms_norm,
    .rope = rope,
    .silu_multiply = silu_multiply,
    .add = add,
    .attention = attention,
    .exponentials = exponentials,
};

}  // namespace

const Kernels* scalar_kernels() noexcept { return &table; }

float widened(const void* data, Format format, std::size_t i) noexcept {
  if (format == Format::f16) return widened_f16(half_word(data, i));
  if (format == Format::bf16) return from_bits(std::uint32_t{half_word(data, i)} << 16);
  float value;
  std::memcpy(&value, static_cast<const char*>(data) + 4 * i, 4);
  return value;
}

std::size_t canonical_bytes(Format format, int outputs, int inputs) noexcept {
  const std::size_t panels = (static_cast<std::size_t>(outputs) + lanes - 1) / lanes;
  return panels * panel_words(format, inputs) * (format == Format::bf16 ? 2 : 4);
}

void canonical_pack(const MatrixView& rows, int first, Format format, void* packed) noexcept {
  for (int n = 0; n < rows.outputs; ++n) {
    const std::size_t row = static_cast<std::size_t>(n) * static_cast<std::size_t>(rows.inputs);
    const int output = first + n;
    if (format == Format::bf16) {
      auto* to = static_cast<std::uint16_t*>(packed) + place(format, rows.inputs, output, 0);
      for (int k = 0; k < rows.inputs; ++k) to[k / 2 * (2 * lanes) + k % 2] = half_word(rows.data, row + k);
    } else {
      float* to = static_cast<float*>(packed) + place(format, rows.inputs, output, 0);
      for (int k = 0; k < rows.inputs; ++k) to[k * lanes] = widened(rows.data, rows.format, row + k);
    }
  }
}

void canonical_unpack_row(const PackedView& matrix, int output, float* row) noexcept {
  for (int k = 0; k < matrix.inputs; ++k) {
    row[k] = widened(matrix.data, matrix.format, place(matrix.format, matrix.inputs, output, k));
  }
}

}  // namespace draftproof
