// SPDX-License-Identifier: MIT
// The probes for AMX. Compiled for it: nothing here but the getter has linkage.
#include "bench/roofline/probes.h"
#include "kernels/tables.h"

#ifdef __AMX_INT8__

#include "kernels/lanes_avx512.h"
#include "bench/roofline/probes.inc"

namespace draftproof {
namespace {

#include "kernels/tile_registers.inc"

constexpr int slower = 8;  // a product of tiles than one of vectors: so many times fewer of them

/// Multiplies whole tiles, whose bytes are all `byte`, into four sums.
template <class Multiply>
void multiply_tiles(int loops, char byte, const Multiply& multiply) {
  alignas(64) char factors[1024];
  for (char& one : factors) one = byte;
  configure_tiles({16, 16, 16, 16, 16, 16, 16, 16}, {64, 64, 64, 64, 64, 64, 64, 64});
  clear_tile<0>();
  clear_tile<1>();
  clear_tile<2>();
  clear_tile<3>();
  load_tile<4>(factors, 64);
  load_tile<5>(factors, 64);
  load_tile<6>(factors, 64);
  load_tile<7>(factors, 64);
  for (int i = 0; i < loops / slower; ++i) multiply();
  release_tiles();
}

double multiply_bf16_tiles(int loops) noexcept {
  multiply_tiles(loops, 0x3e, [] {  // 0.19
    multiply_bf16<0, 4, 6>();
    multiply_bf16<1, 4, 7>();
    multiply_bf16<2, 5, 6>();
    multiply_bf16<3, 5, 7>();
  });
  return 4.0 * 16 * 16 * 32 * (loops / slower);
}

double multiply_byte_tiles(int loops) noexcept {
  multiply_tiles(loops, 1, [] {
    multiply_signed<0, 4, 6>();
    multiply_signed<1, 4, 7>();
    multiply_signed<2, 5, 6>();
    multiply_signed<3, 5, 7>();
  });
  return 4.0 * 16 * 16 * 64 * (loops / slower);
}

constexpr Probes with_tiles(Probes probes) {
  probes.multiply_bf16 = multiply_bf16_tiles;
  probes.multiply_bytes = multiply_byte_tiles;
  return probes;
}

constexpr Probes table = with_tiles(probes_of("amx", cpu_has_amx));

}  // namespace
const Probes* amx_probes() noexcept { return &table; }
}  // namespace draftproof

#else

namespace draftproof {
const Probes* amx_probes() noexcept { return nullptr; }
}  // namespace draftproof

#endif
