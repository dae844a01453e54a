// SPDX-License-Identifier: MIT
// Reads UTF-8 one character at a time, and turns arbitrary bytes into text by the Unicode rule of maximal subparts (the
// rule of Rust's from_utf8_lossy and of WHATWG decoders).
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>

namespace draftproof::utf8 {

enum class Status {
  character,   // a well-formed character
  broken,      // `length` bytes that no continuation makes well-formed; they become one U+FFFD
  unfinished,  // the bytes end inside a character that is well-formed so far
};

struct Character {
  Status status;
  std::size_t length;   // length in bytes, at least 1
  char32_t code_point;  // of a character
};

/// Reads the character at `offset` < bytes.size().
Character step(std::string_view bytes, std::size_t offset);

bool is_valid(std::string_view bytes);

/// Appends `code_point` (a Unicode scalar value).
void append(std::string& text, char32_t code_point);

/// Removes from the front of `bytes` everything that more bytes cannot change and returns it as UTF-8; an unfinished
/// character at the end stays in `bytes`, and so does all from the first character on that does not end within `limit`
/// bytes.
std::string take_finished(std::string& bytes, std::size_t limit = std::string::npos);

/// Returns all of `bytes` as UTF-8; an unfinished character at the end becomes one U+FFFD.
std::string replace_broken(std::string_view bytes);

}  // namespace draftproof::utf8
