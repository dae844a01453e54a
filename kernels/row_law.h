// SPDX-License-Identifier: MIT
// The row law of kernels.h as a check that a program can afford before first use, and that tests can turn on a mutant.
#pragma once

#include "kernels/kernels.h"

namespace draftproof {

/// Does the table's matmul give a row the same bits whatever its position, the number and the content of the rows
/// beside it, and the range of outputs asked for? A few shapes, some milliseconds, one thread. Allocates; false when
/// there is no memory.
bool keeps_row_law(const Kernels& table) noexcept;

}  // namespace draftproof
