// SPDX-License-Identifier: MIT
// What AVX512_BF16 changes in the table avx512vnni: the matmul by bf16. Compiled for both instruction sets. Only the
// getter has external linkage.
#include "kernels/tables.h"

#ifdef __AVX512BF16__

#include "kernels/canonical.h"
#include "kernels/exp.h"
#include "kernels/lanes_avx512.h"

namespace draftproof {
namespace {

#include "kernels/row_tiles.inc"

#include "kernels/matmul_floats.inc"

#include "kernels/matmul_bf16_dots.inc"

#include "kernels/attention_bf16.inc"

inline bool in_dots(ActivationFormat activation_format, int inputs) {
  return activation_format == ActivationFormat::bf16 && inputs % bf16_run == 0;
}

void pack_activations(ActivationFormat activation_format, const float* x, std::ptrdiff_t x_stride, int rows, int inputs,
                      int begin, int end, void* activations) noexcept {
  if (in_dots(activation_format, inputs)) {
    pack_floats<Bf16Dots>(x, x_stride, rows, inputs, begin, end, static_cast<float*>(activations));
  } else {
    avx512_vnni_kernels()->pack_activations(activation_format, x, x_stride, rows, inputs, begin, end, activations);
  }
}

void matmul(const PackedView& w, const void* activations, int rows, float* y, std::ptrdiff_t y_stride, int begin,
            int end) noexcept {
  if (!in_dots(canonical_activation_format_of(w.format), w.inputs)) {
    avx512_vnni_kernels()->matmul(w, activations, rows, y, y_stride, begin, end);
  } else if (rows > 0 && begin < end) {
    multiply_floats<Bf16Dots>(w, static_cast<const float*>(activations), rows, y, y_stride, begin, end);
  }
}

void attention(const AttentionShape& shape, const KeyValues& kv, const float* q, std::ptrdiff_t q_stride,
               const Visible* visible, int kv_head, int begin, int end, float* scratch, float* out) noexcept {
  const bool dots = kv.format == KvFormat::bf16 && shape.head_dim % bf16_run == 0;
  const auto attend = dots ? attention_in_bf16<Bf16Dots> : avx512_vnni_kernels()->attention;
  attend(shape, kv, q, q_stride, visible, kv_head, begin, end, scratch, out);
}

constexpr Extension extension = {
    .name = "avx512bf16",
    .supported = cpu_has_avx512_bf16,
    .pack_activations = pack_activations,
    .matmul = matmul,
    .attention = attention,
};

}  // namespace
const Extension* avx512_bf16_extension() noexcept { return &extension; }
}  // namespace draftproof

#else

namespace draftproof {
const Extension* avx512_bf16_extension() noexcept { return nullptr; }
}  // namespace draftproof

#endif
