// SPDX-License-Identifier: MIT
// The table for AMX: that of AVX-512 VNNI, but quantized weights meet many rows in tile registers. Compiled for both,
// and GFNI, which every CPU with AMX has: nothing here but the getter has linkage.
#include "kernels/tables.h"

#ifdef __AMX_INT8__

#include "kernels/lanes_avx512.h"
#include "kernels/vector.inc"

namespace draftproof {
namespace {

#include "kernels/matmul_tiles.inc"

constexpr Kernels amx_table() {
  Kernels table = vector_kernels("amx", cpu_has_amx);
  table.pack_activations = pack_activations_for_tiles;
  table.matmul = matmul_in_tiles;
  return table;
}
constexpr Kernels table = amx_table();

}  // namespace
const Kernels* amx_kernels() noexcept { return &table; }
}  // namespace draftproof

#else

namespace draftproof {
const Kernels* amx_kernels() noexcept { return nullptr; }
}  // namespace draftproof

#endif
