// SPDX-License-Identifier: MIT
// The table for AMX: the AVX-512 VNNI table, except that matmuls of quantized weights with many rows use tile
// registers. Compiled for both instruction sets and for GFNI, which every CPU with AMX has. Only the getter has
// external linkage.
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
