// SPDX-License-Identifier: MIT
// What VNNI changes in the table avx512: the matmul by quantized formats. Compiled for AVX-512 F, BW, VL, DQ and VNNI.
// Only the getter has external linkage.
#include "kernels/tables.h"

#ifdef __AVX512VNNI__

#include "kernels/canonical.h"
#include "kernels/lanes_avx512.h"

namespace draftproof {
namespace {

#include "kernels/row_tiles.inc"

#include "kernels/matmul_quantized.inc"

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
    .pack_activations = nullptr,
    .matmul = matmul,
};

}  // namespace
const Extension* avx512_vnni_extension() noexcept { return &extension; }
}  // namespace draftproof

#else

namespace draftproof {
const Extension* avx512_vnni_extension() noexcept { return nullptr; }
}  // namespace draftproof

#endif
