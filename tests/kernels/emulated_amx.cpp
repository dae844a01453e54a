// SPDX-License-Identifier: MIT
// Compiled for the instruction sets of kernels/amx.cpp but AMX. Only the getter has external linkage.
#include "emulated_amx.h"

#include "kernels/tables.h"

#if defined(__AVX512VNNI__) && defined(__GFNI__)

#include "kernels/canonical.h"
#include "kernels/exp.h"
#include "kernels/lanes_avx512.h"

namespace draftproof {
namespace {

#include "emulated_tile_registers.inc"

#include "kernels/tiles.inc"

}  // namespace

const Kernels* test::emulated_amx() noexcept {
  if (!cpu_has_avx512_vnni() || !__builtin_cpu_supports("gfni")) return nullptr;
  static const Kernels table = [] {
    Kernels result = *avx512_vnni_kernels();
    result.name = "amx, emulated";
    result.pack_activations = pack_activations_for_tiles;
    result.matmul = matmul_in_tiles;
    result.attention = attention_in_tiles;
    return result;
  }();
  return &table;
}

}  // namespace draftproof

#else

const draftproof::Kernels* draftproof::test::emulated_amx() noexcept { return nullptr; }

#endif
