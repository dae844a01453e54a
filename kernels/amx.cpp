// SPDX-License-Identifier: MIT
// What AMX changes in the table avx512vnni: the matmul by bf16 and by quantized formats, and attention over bf16, use
// tile registers where there are many rows. Compiled for both instruction sets, and for AVX512_BF16 and GFNI, which
// every CPU with AMX has. Only the getter has external linkage.
#include "kernels/tables.h"

#ifdef __AMX_INT8__

#include "kernels/canonical.h"
#include "kernels/exp.h"
#include "kernels/lanes_avx512.h"

namespace draftproof {
namespace {

#include "kernels/tile_registers.inc"

#include "kernels/tiles.inc"

constexpr Extension extension = {
    .name = "amx",
    .supported = cpu_has_amx,
    .pack_activations = pack_activations_for_tiles,
    .matmul = matmul_in_tiles,
    .attention = attention_in_tiles,
};

}  // namespace
const Extension* amx_extension() noexcept { return &extension; }
}  // namespace draftproof

#else

namespace draftproof {
const Extension* amx_extension() noexcept { return nullptr; }
}  // namespace draftproof

#endif
