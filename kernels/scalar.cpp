// SPDX-License-Identifier: MIT
// The reference table: every operation of kernels.h as textbook loops. It defines the correct bits for all canonical
// tables.
#include <cmath>
#include <cstring>

#include "kernels/canonical.h"
#include "kernels/exp.h"
#include "kernels/tables.h"
#include "kernels/widths.h"

// Compiles a function twice, with and without the fma instruction. Without it std::fma is a library call, which gives
// equal bits and is ten times slower.
#if defined(__x86_64__) && !defined(DRAFTPROOF_ONE_VERSION)
#define DRAFTPROOF_WITH_AND_WITHOUT_FMA __attribute__((target_clones("default", "fma")))
#else
#define DRAFTPROOF_WITH_AND_WITHOUT_FMA
#endif

namespace draftproof {
namespace {

float tree(const float* lane) {
  float sum[lanes];
  std::memcpy(sum, lane, sizeof sum);
  for (int step = lanes / 2; step > 0; step /= 2) {
    for (int l = 0; l < step; ++l) sum[l] = sum[l] + sum[l + step];
  }
  return sum[0];
}

bool always() noexcept { return true; }

/// Packed activations are floats [rows][inputs], or these blocks [rows][blocks].
struct Int8Block {
  float d;
  std::int8_t q[256];  // one per input of the block
};

std::size_t activation_bytes(ActivationFormat activation_format, int rows, int inputs) noexcept {
  const std::size_t values = static_cast<std::size_t>(rows) * inputs;
  if (is_float(activation_format)) return values * sizeof(float);
  return values / static_cast<std::size_t>(block_inputs(activation_format)) * sizeof(Int8Block);
}

Int8Block bytes_of(const float* x, int count) {
  Int8Block block = {};
  float largest = 0;
  for (int k = 0; k < count; ++k) {
    if (!(std::fabs(x[k]) < __builtin_inff())) block.d = __builtin_nanf("");
    largest = std::fabs(x[k]) > largest ? std::fabs(x[k]) : largest;
  }
  if (!(largest >= 0x1p-100f) || block.d != 0) return block;
  block.d = largest / 127.0f;
  const float inverse = 127.0f / largest;
  for (int k = 0; k < count; ++k) {
    constexpr float shift = 0x1.8p+23f;  // adding it rounds to an integer, ties to even
    block.q[k] = static_cast<std::int8_t>((x[k] * inverse + shift) - shift);
  }
  return block;
}

float rounded_to_bf16_factor(float x) { return bf16_to_f32(bf16_factor(f32_to_bf16(x))); }

void pack_activations(ActivationFormat activation_format, const float* x, std::ptrdiff_t x_stride, int rows, int inputs,
                      int begin, int end, void* activations) noexcept {
  for (int r = 0; r < rows; ++r) {
    const float* row = x + r * x_stride;
    if (is_float(activation_format)) {
      const bool rounded = activation_format == ActivationFormat::bf16;
      float* to = static_cast<float*>(activations) + static_cast<std::ptrdiff_t>(r) * inputs;
      for (int k = begin; k < end; ++k) to[k] = rounded ? rounded_to_bf16_factor(row[k]) : row[k];
      continue;
    }
    const int count = block_inputs(activation_format);
    auto* blocks = static_cast<Int8Block*>(activations) + static_cast<std::ptrdiff_t>(r) * (inputs / count);
    for (int b = begin / count; b < end / count; ++b) blocks[b] = bytes_of(row + b * count, count);
  }
}

void clear_rows(int rows, int width, float* y, std::ptrdiff_t y_stride) {
  for (int r = 0; r < rows; ++r) {
    for (int i = 0; i < width; ++i) y[r * y_stride + i] = 0;
  }
}

DRAFTPROOF_WITH_AND_WITHOUT_FMA
void multiply_floats(const PackedView& w, const float* x, int rows, float* y, std::ptrdiff_t y_stride, int begin,
                     int end) {
  for (int n = begin; n < end; n += lanes) {
    const int count = end - n < lanes ? end - n : lanes;
    clear_rows(rows, count, y + n, y_stride);
    for (int k = 0; k < w.inputs; ++k) {
      float weights[lanes];
      canonical_values(w, n, k, weights);
      for (int r = 0; r < rows; ++r) {
        const float value = x[static_cast<std::ptrdiff_t>(r) * w.inputs + k];
        float* const to = y + r * y_stride + n;
        for (int l = 0; l < count; ++l) to[l] = std::fma(value, weights[l], to[l]);
      }
    }
  }
}

DRAFTPROOF_WITH_AND_WITHOUT_FMA
void multiply_bf16(const PackedView& w, const float* x, int rows, float* y, std::ptrdiff_t y_stride, int begin,
                   int end) {
  for (int n = begin; n < end; n += lanes) {
    const int count = end - n < lanes ? end - n : lanes;
    clear_rows(rows, count, y + n, y_stride);
    for (int run = 0; run < w.inputs; run += bf16_run) {
      const int run_end = run + bf16_run < w.inputs ? run + bf16_run : w.inputs;
      float weights[bf16_run][lanes];
      for (int k = run; k < run_end; ++k) canonical_values(w, n, k, weights[k - run]);
      for (int r = 0; r < rows; ++r) {
        float sums[2][lanes] = {};  // of the even k and of the odd ones
        for (int k = run; k < run_end; ++k) {
          const float value = x[static_cast<std::ptrdiff_t>(r) * w.inputs + k];
          float* const to = sums[k % 2];
          for (int l = 0; l < lanes; ++l) to[l] = std::fma(value, weights[k - run][l], to[l]);
        }
        float* const to = y + r * y_stride + n;
        for (int l = 0; l < count; ++l) to[l] = to[l] + (sums[0][l] + sums[1][l]);
      }
    }
  }
}

void multiply_bytes(const PackedView& w, const Int8Block* x, int rows, float* y, std::ptrdiff_t y_stride, int begin,
                    int end) {
  const int inputs = traits(w.format).block_inputs;
  const int blocks = w.inputs / inputs;
  for (int n = begin; n < end; ++n) {
    for (int r = 0; r < rows; ++r) y[r * y_stride + n] = 0;
    for (int b = 0; b < blocks; ++b) {
      const QuantizationBlock block = canonical_block(w, n, b);
      for (int r = 0; r < rows; ++r) {
        const Int8Block& row = x[static_cast<std::ptrdiff_t>(r) * blocks + b];
        std::int32_t dot = 0;
        std::int32_t minimum = 0;
        for (int k = 0; k < inputs; ++k) {
          dot += block.s[k / 16] * block.q[k] * row.q[k];
          minimum += block.m[k / 16] * row.q[k];
        }
        float& sum = y[r * y_stride + n];
        sum = std::fma(static_cast<float>(dot), block.d * row.d, sum);
        if (traits(w.format).has_minimums) {
          sum = std::fma(-static_cast<float>(minimum), block.dmin * row.d, sum);
        }
      }
    }
  }
}

void matmul(const PackedView& w, const void* activations, int rows, float* y, std::ptrdiff_t y_stride, int begin,
            int end) noexcept {
  if (w.format == Format::bf16) {
    multiply_bf16(w, static_cast<const float*>(activations), rows, y, y_stride, begin, end);
  } else if (is_float(w.format)) {
    multiply_floats(w, static_cast<const float*>(activations), rows, y, y_stride, begin, end);
  } else {
    multiply_bytes(w, static_cast<const Int8Block*>(activations), rows, y, y_stride, begin, end);
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

void silu_multiply(const float* x, int rows, int width, int begin, int end, float* out) noexcept {
  for (int r = 0; r < rows; ++r) {
    const float* gate = x + static_cast<std::ptrdiff_t>(r) * 2 * width;
    const float* up = gate + width;
    float* row = out + static_cast<std::ptrdiff_t>(r) * width;
    for (int i = begin; i < end; ++i) row[i] = (gate[i] / (1.0f + exponential(-gate[i]))) * up[i];
  }
}

void gelu_multiply(const float* x, int rows, int width, int begin, int end, float* out) noexcept {
  for (int r = 0; r < rows; ++r) {
    const float* gate = x + static_cast<std::ptrdiff_t>(r) * 2 * width;
    const float* up = gate + width;
    float* row = out + static_cast<std::ptrdiff_t>(r) * width;
    for (int i = begin; i < end; ++i) row[i] = gelu(gate[i]) * up[i];
  }
}

void add(const float* x, std::size_t count, float* y) noexcept {
  for (std::size_t i = 0; i < count; ++i) y[i] = y[i] + x[i];
}

/// Reads stored keys and values as floats.
struct Stored {
  const KeyValues& kv;

  float element(const void* data, std::ptrdiff_t i) const {
    if (kv.format == KvFormat::f32) return static_cast<const float*>(data)[i];
    if (kv.format == KvFormat::bf16) return bf16_to_f32(static_cast<const std::uint16_t*>(data)[i]);
    return static_cast<const std::int8_t*>(data)[i];
  }
  std::ptrdiff_t block(int head, int p) const {
    return static_cast<std::ptrdiff_t>(head) * kv.blocks + p / lanes % kv.blocks;
  }
  float key(int head, int p, int d) const {
    if (kv.format == KvFormat::bf16) {
      const std::ptrdiff_t pair = block(head, p) * ((kv.head_dim + 1) / 2) + d / 2;
      return element(kv.keys, (pair * lanes + p % lanes) * 2 + d % 2);
    }
    return element(kv.keys, (block(head, p) * kv.head_dim + d) * lanes + p % lanes);
  }
  float value(int head, int p, int d) const {
    if (kv.latent != 0) return key(head, p, kv.head_dim - kv.latent + d);
    const int width = value_width(kv.head_dim);
    if (kv.format == KvFormat::bf16) {
      const std::ptrdiff_t panel = static_cast<std::ptrdiff_t>(head) * (width / lanes) + d / lanes;
      const std::ptrdiff_t pair = (panel * kv.blocks * lanes + p % (kv.blocks * lanes)) / 2;
      return element(kv.values, (pair * lanes + d % lanes) * 2 + p % 2);
    }
    return element(kv.values, (block(head, p) * lanes + p % lanes) * width + d);
  }
  float scaled(float x, const float* scales, int head, int p) const {
    return kv.format == KvFormat::q8 ? x * scales[block(head, p) * lanes + p % lanes] : x;
  }
};

/// Returns the factor by which x enters a product with a stored key or value.
float factor(float x, KvFormat format) { return format == KvFormat::bf16 ? rounded_to_bf16_factor(x) : x; }

/// Adds terms [begin, end) of a * b in the order of the format; runs of bf16 begin at multiples of 32.
template <class A, class B>
[[gnu::always_inline]] inline float sum_of_products(KvFormat format, int begin, int end, const A& a, const B& b) {
  float sum = 0;
  if (format != KvFormat::bf16) {
    for (int i = begin; i < end; ++i) sum = std::fma(a(i), b(i), sum);
    return sum;
  }
  for (int run = begin / bf16_run * bf16_run; run < end; run += bf16_run) {
    float side[2] = {};
    for (int i = run < begin ? begin : run; i < end && i < run + bf16_run; ++i) {
      side[i % 2] = std::fma(a(i), b(i), side[i % 2]);
    }
    sum = sum + (side[0] + side[1]);
  }
  return sum;
}

/// Computes the attention of one query.
DRAFTPROOF_WITH_AND_WITHOUT_FMA
void attend(const AttentionShape& shape, const Stored& stored, const float* query, Visible visible, int kv_head,
            const float* sink, float* weights, float* out) {
  const KvFormat format = stored.kv.format;
  float largest = sink != nullptr ? *sink : -__builtin_inff();
  for (int p = visible.first; p < visible.end; ++p) {
    float s = sum_of_products(
        format, 0, shape.head_dim, [&](int d) { return factor(query[d], format); },
        [&](int d) { return stored.key(kv_head, p, d); });
    s = stored.scaled(s, stored.kv.key_scales, kv_head, p) * shape.scale;
    if (shape.cap != 0) s = shape.cap * hyperbolic_tangent(s / shape.cap);
    weights[p - visible.first] = s;
    largest = s > largest ? s : largest;
  }
  float sums[lanes] = {};
  for (int p = visible.first; p < visible.end; ++p) {
    float& weight = weights[p - visible.first];
    weight = factor(exponential(weight - largest), format);
    sums[p % lanes] = sums[p % lanes] + weight;
    weight = stored.scaled(weight, stored.kv.value_scales, kv_head, p);
  }
  float total = tree(sums);
  if (sink != nullptr) total = total + exponential(*sink - largest);
  for (int d = 0; d < value_dim(shape); ++d) {
    out[d] = sum_of_products(
                 format, visible.first, visible.end, [&](int p) { return weights[p - visible.first]; },
                 [&](int p) { return stored.value(kv_head, p, d); }) /
             total;
  }
}

void attention(const AttentionShape& shape, const KeyValues& kv, const float* q, std::ptrdiff_t q_stride,
               const Visible* visible, int kv_head, int begin, int end, float* scratch, float* out) noexcept {
  const int group = shape.heads / shape.kv_heads;
  const std::ptrdiff_t width = static_cast<std::ptrdiff_t>(shape.heads) * value_dim(shape);
  for (int i = begin; i < end; ++i) {
    const int row = i / group;
    const int head = kv_head * group + i % group;
    const float* const query = q + row * q_stride + static_cast<std::ptrdiff_t>(head) * shape.head_dim;
    const std::ptrdiff_t at = row * width + static_cast<std::ptrdiff_t>(head) * value_dim(shape);
    const float* const sink = shape.sinks != nullptr ? shape.sinks + head : nullptr;
    attend(shape, {kv}, query, visible[row], kv_head, sink, scratch, out + at);
  }
}

DRAFTPROOF_WITH_AND_WITHOUT_FMA
void convolve(const float* tail, const float* x, std::ptrdiff_t x_stride, int rows, int channels, int width,
              const float* weight, int begin, int end, float* out, std::ptrdiff_t out_stride) {
  for (int r = 0; r < rows; ++r) {
    for (int c = begin; c < end; ++c) {
      float sum = 0;
      for (int j = 0; j < width; ++j) {
        const int row = r - (width - 1) + j;
        const float input =
            row < 0 ? tail[static_cast<std::ptrdiff_t>(width - 1 + row) * channels + c] : x[row * x_stride + c];
        sum = std::fma(weight[static_cast<std::ptrdiff_t>(j) * channels + c], input, sum);
      }
      out[r * out_stride + c] = sum / (1.0f + exponential(-sum));
    }
  }
}

void causal_conv_silu(const float* tail, const float* x, std::ptrdiff_t x_stride, int rows, int channels, int width,
                      const float* weight, int begin, int end, float* out, std::ptrdiff_t out_stride) noexcept {
  convolve(tail, x, x_stride, rows, channels, width, weight, begin, end, out, out_stride);
}

/// Folds one row into the column of one value dimension; its elements are 16 floats apart. Returns the dot product of
/// the new column and q, 0 without q.
DRAFTPROOF_WITH_AND_WITHOUT_FMA
float fold(const DeltaShape& shape, const float* key, const float* decays, float beta, float value, const float* q,
           const float* from, float* to) {
  const float shared = exponential(decays[0]);
  float read = 0;
  for (int i = 0; i < shape.key_dim; ++i) {
    const float decay = shape.channel_decays ? exponential(decays[i]) : shared;
    read = std::fma(from[i * lanes] * decay, key[i], read);
  }
  const float delta = beta * (value - read);
  float out = 0;
  for (int i = 0; i < shape.key_dim; ++i) {
    const float decay = shape.channel_decays ? exponential(decays[i]) : shared;
    to[i * lanes] = std::fma(key[i], delta, from[i * lanes] * decay);
    if (q != nullptr) out = std::fma(to[i * lanes], q[i], out);
  }
  return out;
}

void gated_delta_rule(const DeltaShape& shape, const DeltaRows& folded, const float* q, std::ptrdiff_t q_stride,
                      int rows, int begin, int end, const float* from, float* to, float* out) noexcept {
  const std::ptrdiff_t width = static_cast<std::ptrdiff_t>(shape.value_heads) * shape.value_dim;
  for (int head = begin; head < end; ++head) {
    const std::ptrdiff_t key_at = static_cast<std::ptrdiff_t>(key_head_of(shape, head)) * shape.key_dim;
    for (int v = 0; v < shape.value_dim; ++v) {
      const std::size_t column = delta_state_at(shape, head, 0, v);
      const std::ptrdiff_t value_at = static_cast<std::ptrdiff_t>(head) * shape.value_dim + v;
      for (int r = 0; r < rows; ++r) {
        const std::ptrdiff_t row = r * folded.stride;
        const float read =
            fold(shape, folded.keys + row + key_at, folded.decays + row + head * delta_decays(shape),
                 folded.betas[row + head], folded.values[row + value_at],
                 q == nullptr ? nullptr : q + r * q_stride + key_at, (r == 0 ? from : to) + column, to + column);
        if (q != nullptr) out[r * width + value_at] = read;
      }
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
    .activation_format = canonical_activation_format,
    .activation_bytes = activation_bytes,
    .pack_activations = pack_activations,
    .matmul = matmul,
    .rms_norm = rms_norm,
    .rope = rope,
    .silu_multiply = silu_multiply,
    .gelu_multiply = gelu_multiply,
    .add = add,
    .attention = attention,
    .causal_conv_silu = causal_conv_silu,
    .gated_delta_rule = gated_delta_rule,
    .exponentials = exponentials,
};

}  // namespace

const Kernels* scalar_kernels() noexcept { return &table; }

}  // namespace draftproof
