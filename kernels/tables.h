// SPDX-License-Identifier: MIT
// What the files of this folder share; nobody else includes it. Declarations only, for the instruction-set files.
#pragma once

#include <cstddef>

#include "kernels/kernels.h"

namespace draftproof {

/// One table per file. nullptr where the file was compiled for an architecture that cannot have it.
const Kernels* scalar_kernels() noexcept;
const Kernels* openblas_kernels() noexcept;
const Kernels* avx2_kernels() noexcept;
const Kernels* avx512_kernels() noexcept;

/// The CPU, and the operating system, can run what the file is compiled to.
bool cpu_has_avx2() noexcept;
bool cpu_has_avx512() noexcept;

/// The canonical layout (PackedView), in scalar.cpp. Element k of output n of a panel is at [k][n % 16] in f32; in bf16
/// two k share a row of 32: [k / 2][n % 16][k % 2], one slot unused when `inputs` is odd.
std::size_t canonical_bytes(Format format, int outputs, int inputs) noexcept;
void canonical_pack(const MatrixView& rows, int first, Format format, void* packed) noexcept;
void canonical_unpack_row(const PackedView& matrix, int output, float* row) noexcept;

/// Element i of a stored weight, widened exactly to f32.
float widened(const void* data, Format format, std::size_t i) noexcept;

}  // namespace draftproof
