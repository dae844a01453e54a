// SPDX-License-Identifier: MIT
// Token blocks: a vocabulary in pieces of 64 tokens. Rows are read, and distributions stored, block by block.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

namespace draftproof {

inline constexpr std::size_t token_block_size = 64;

using TokenBlocks = std::span<const std::uint32_t>;  // indices of token blocks, ascending

}  // namespace draftproof
