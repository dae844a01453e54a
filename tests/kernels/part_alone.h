// SPDX-License-Identifier: MIT
// What an editor reads before a .inc file of kernels/ (see .clangd); no program includes it. Such a file is a part of
// others: it stands in their namespaces, behind the parts that it uses. PARTS_BEFORE says how many of those come first.
#pragma once

#include "kernels/canonical.h"
#include "kernels/exp.h"
#include "kernels/lanes_avx512.h"
#include "kernels/tables.h"

using namespace draftproof;

#if PARTS_BEFORE >= 1
#include "kernels/tile_registers.inc"
#endif
#if PARTS_BEFORE >= 2
namespace draftproof {
namespace {
// The functions of exp.h find these by the namespace of Lanes.
#include "kernels/row_tiles.inc"
}  // namespace
}  // namespace draftproof
#endif
#if PARTS_BEFORE >= 3
#include "kernels/matmul_floats.inc"
#endif
#if PARTS_BEFORE >= 4
#include "kernels/matmul_bytes.inc"
#endif
#if PARTS_BEFORE >= 5
#include "kernels/matmul_bf16_tiles.inc"
#endif
#if PARTS_BEFORE >= 6
#include "kernels/attention_bf16.inc"
#endif
