// SPDX-License-Identifier: MIT
// What AVX512_BF16 changes in the table avx512vnni: the matmul by bf16. Compiled for both instruction sets. Only the
// getter has external linkage.
#include "kernels/tables.h"

#ifdef __AVX512BF16__

#include "kernels/canonical.h"
#include "kernels/lanes_avx512.h"

namespace draftproof {
namespace {

#include "kernels/row_tiles.inc"

#include "kernels/matmul_floats.inc"

#include "kernels/matmul_bf16_dots.inc"

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

constexpr Extension extension = {
    .name = "avx512bf16",
    .supported = cpu_has_avx512_bf16,
    .pack_activations = pack_activations,
    .matmul = matmul,
};

}  // namespace
const Extension* avx512_bf16_extension() noexcept { return &extension; }
}  // namespace draftproof

#else

namespace draftproof {
const Extension* avx512_bf16_extension() noexcept { return nullptr; }
}  // namespace draftproof

#endif
