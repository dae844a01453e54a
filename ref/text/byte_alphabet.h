// SPDX-License-Identifier: MIT
// The printable character that stands for each byte in a byte-level vocabulary (GPT-2's bytes_to_unicode: printable
// Latin-1 for itself, the other 68 bytes as U+0100 and on, in byte order).
#pragma once

#include <optional>
#include <string>
#include <string_view>

namespace draftproof::byte_alphabet {

/// The character of one byte, as UTF-8.
const std::string& spelling(unsigned char byte);

/// Every byte spelled.
std::string spell(std::string_view bytes);

/// The bytes that `spelled` (UTF-8) stands for; nothing when a character in it is not of the alphabet.
std::optional<std::string> unspell(std::string_view spelled);

}  // namespace draftproof::byte_alphabet
