// SPDX-License-Identifier: MIT
// The vector table for NEON with byte dot products (Armv8.2), compiled for these instruction sets. Only the getter has
// external linkage.
#include "kernels/tables.h"

#ifdef __ARM_FEATURE_DOTPROD

#include "kernels/lanes_neon.h"
#include "kernels/vector.inc"

namespace draftproof {
namespace {
constexpr Kernels table = vector_kernels("neon", cpu_has_neon);
}  // namespace
const Kernels* neon_kernels() noexcept { return &table; }
}  // namespace draftproof

#else

namespace draftproof {
const Kernels* neon_kernels() noexcept { return nullptr; }
}  // namespace draftproof

#endif
