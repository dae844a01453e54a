// SPDX-License-Identifier: MIT
// The printable character that represents each byte in a byte-level vocabulary (GPT-2's bytes_to_unicode: printable
// Latin-1 represents itself, the other 68 bytes are U+0100 and following, in byte order).
#pragma once

#include <optional>
#include <string>
#include <string_view>

namespace draftproof::byte_alphabet {

/// Returns the character of one byte, as UTF-8.
const std::string& spelling(unsigned char byte);

/// Returns the characters of all bytes.
std::string spell(std::string_view bytes);

/// Returns the bytes that `spelled` (UTF-8) represents; nothing when one of its characters is not in the alphabet.
std::optional<std::string> unspell(std::string_view spelled);

}  // namespace draftproof::byte_alphabet
