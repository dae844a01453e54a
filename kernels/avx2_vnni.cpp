// SPDX-License-Identifier: MIT
// What VNNI changes in the table avx2: the matmul by quantized formats. Compiled for AVX2, FMA and AVX-VNNI.
// Only the getter has external linkage.
#include "kernels/tables.h"

#ifdef __AVXVNNI__

#include "kernels/canonical.h"
#include "kernels/lanes_avx2.h"

namespace draftproof {
namespace {

#include "kernels/row_tiles.inc"

#include "kernels/matmul_quantized.inc"

void matmul(const PackedView& w, const void* activations, int rows, float* y, std::ptrdiff_t y_stride, int begin,
            int end) noexcept {
  if (is_float(w.format)) {
    return avx2_kernels()->matmul(w, activations, rows, y, y_stride, begin, end);
  }
  if (rows > 0 && begin < end) multiply_quantized(w, activations, rows, y, y_stride, begin, end);
}

constexpr Extension extension = {
    .name = "avx2vnni",
    .supported = cpu_has_avx2_vnni,
    .pack_activations = nullptr,
    .matmul = matmul,
    .attention = nullptr,
};

}  // namespace
const Extension* avx2_vnni_extension() noexcept { return &extension; }
}  // namespace draftproof

#else

namespace draftproof {
const Extension* avx2_vnni_extension() noexcept { return nullptr; }
}  // namespace draftproof

#endif
