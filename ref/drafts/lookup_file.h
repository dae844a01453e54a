// SPDX-License-Identifier: MIT
// A file of counted n-grams: that which llama.cpp's llama-lookup-create and common_ngram_cache_save write.
//
//   for each n-gram:  int32 tokens[4]   its 1 to 4 tokens, then -1
//                     int32 n           >= 1, the tokens that followed it
//                     n times: int32 token, int32 count >= 1
//
// in little-endian order, without a header. We write n-grams in the order of their tokens, and what followed in that of
// its tokens; other programs in any order.
#pragma once

#include <cstdint>
#include <filesystem>
#include <functional>
#include <span>
#include <string_view>

#include "ref/drafts/ngram_counts.h"

namespace draftproof {

inline constexpr std::uint64_t lookup_file_max = std::uint64_t{1} << 30;  // bytes

/// The memory of the counts in a file, at most. Throws Error when it is not a file of at most lookup_file_max bytes.
std::uint64_t memory_of_lookup_file(const std::filesystem::path& file);

/// Every weight is 1. Throws Error, naming the offset, for anything that llama.cpp would not write: a file that ends
/// early, no n-gram where one belongs, a number that is not a token below `vocabulary`, a count below 1, and an n-gram
/// or what followed it given twice.
NgramCounts read_lookup_file(const std::filesystem::path& file, int vocabulary);

/// Counts what followed every two tokens of a text, as llama-lookup-create does.
void count_pairs(std::span<const Token> text, NgramCounts& counts);

/// Gives the bytes of the file to `append`, piece by piece. Throws Error when they are more than lookup_file_max.
void write_lookup_file(const NgramCounts& counts, const std::function<void(std::string_view)>& append);

}  // namespace draftproof
