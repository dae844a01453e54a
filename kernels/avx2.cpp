// SPDX-License-Identifier: MIT
#include "kernels/tables.h"

namespace draftproof {

const Kernels* avx2_kernels() noexcept { return nullptr; }

}  // namespace draftproof
