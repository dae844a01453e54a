// SPDX-License-Identifier: MIT
#include "kernels/tables.h"

namespace draftproof {

const Kernels* openblas_kernels() noexcept { return nullptr; }
const char* openblas_problem() noexcept { return ""; }

}  // namespace draftproof
