// SPDX-License-Identifier: MIT
// What the openblas table knows about its library. Either call loads it, on first use.
#pragma once

namespace draftproof {

/// The core type that OpenBLAS chose its kernels for, such as "SkylakeX"; "none" when it is not there. A run records
/// it: within the numerics class "openblas" the bits belong to the core type.
const char* openblas_core() noexcept;

/// Empty when the library is loaded and serves this CPU well; else one sentence saying what to do.
const char* openblas_problem() noexcept;

}  // namespace draftproof
