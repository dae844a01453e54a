// SPDX-License-Identifier: MIT
// What VNNI changes in the table avx512: the matmul by quantized formats, and the tiles of its rows. Compiled for
// AVX-512 F, BW, VL, DQ and VNNI. Only the getter has external linkage.
#include "kernels/tables.h"

#ifdef __AVX512VNNI__

#include "kernels/canonical.h"
#include "kernels/lanes_avx512.h"

namespace draftproof {
namespace {

#include "kernels/row_tiles.inc"

#include "kernels/matmul_quantized.inc"

void pack_activations(ActivationFormat activation_format, const float* x, std::ptrdiff_t x_stride, int rows, int inputs,
                      int begin, int end, void* activations) noexcept {
  if (is_float(activation_format)) {
    avx512_kernels()->pack_activations(activation_format, x, x_stride, rows, inputs, begin, end, activations);
  } else {
    pack_bytes(activation_format, x, x_stride, rows, inputs, begin, end, static_cast<std::int32_t*>(activations));
  }
}

void matmul(const PackedView& w, const void* activations, int rows, float* y, std::ptrdiff_t y_stride, int begin,
            int end) noexcept {
  if (is_float(w.format)) {
    return avx512_kernels()->matmul(w, activations, rows, y, y_stride, begin, end);
  }
  if (rows > 0 && begin < end) multiply_quantized(w, activations, rows, y, y_stride, begin, end);
}

constexpr Extension extension = {
    .name = "avx512vnni",
    .supported = cpu_has_avx512_vnni,
    .pack_activations = pack_activations,
    .matmul = matmul,
    .attention = nullptr,
};

}  // namespace
const Extension* avx512_vnni_extension() noexcept { return &extension; }
}  // namespace draftproof

#else

namespace draftproof {
const Extension* avx512_vnni_extension() noexcept { return nullptr; }
}  // namespace draftproof

#endif
