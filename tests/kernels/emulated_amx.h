// SPDX-License-Identifier: MIT
#pragma once

#include "kernels/kernels.h"

namespace draftproof::test {

/// Returns the table amx with tile registers in memory, so that its code runs where there is no AMX; nullptr on CPUs
/// without AVX-512, VNNI and GFNI.
const Kernels* emulated_amx() noexcept;

}  // namespace draftproof::test
