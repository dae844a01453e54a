// SPDX-License-Identifier: MIT
// What the files of numbers that drafts read have in common.
#pragma once

#include <cstdint>
#include <filesystem>
#include <string>

namespace draftproof {

/// Returns the bytes of a file that shall hold numbers of 32 bits. Throws Error when there is no such file, when it is
/// empty, and when it ends within a number. `wanted`: what it should be, "a corpus is a file of ...".
std::uint64_t bytes_in_token_file(const std::filesystem::path& file, const std::string& wanted);

}  // namespace draftproof
