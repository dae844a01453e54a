// SPDX-License-Identifier: MIT
// Information about the library of the openblas table. Both functions load the library on first use.
#pragma once

namespace draftproof {

/// Returns the core type whose kernels OpenBLAS has chosen, such as "SkylakeX"; "none" when the library is missing. A
/// run records it, because within the numerics class "openblas" the bits depend on the core type.
const char* openblas_core() noexcept;

/// Returns an empty string when the library is loaded and uses kernels that fit this CPU; else a message that states
/// what to do.
const char* openblas_problem() noexcept;

}  // namespace draftproof
