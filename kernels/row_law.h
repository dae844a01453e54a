// SPDX-License-Identifier: MIT
// Checks the row law of kernels.h: fast enough to run before first use, and applicable by tests to a broken table.
#pragma once

#include "kernels/kernels.h"

namespace draftproof {

/// Returns whether the table's matmul gives a row the same bits whatever its position, the number and the content of
/// the other rows, and the range of outputs. Checks a few shapes on one thread, in some milliseconds. Allocates;
/// returns false when there is no memory.
bool keeps_row_law(const Kernels& table) noexcept;

}  // namespace draftproof
