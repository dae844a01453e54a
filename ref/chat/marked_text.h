// SPDX-License-Identifier: MIT
// UTF-8 text that knows which of its bytes a user wrote. Every operation of a template keeps the marks of the bytes
// that it copies, so that a rendered text still shows where no special token may come from.
#pragma once

#include <cstddef>
#include <string>
#include <string_view>
#include <vector>

namespace draftproof::jinja {

/// Bytes [begin, end) of a text.
struct ByteRange {
  std::size_t begin;
  std::size_t end;

  bool operator==(const ByteRange&) const = default;
};

class MarkedText {
 public:
  MarkedText() = default;
  /// Text of the template.
  explicit MarkedText(std::string bytes) : bytes_(std::move(bytes)) {}
  static MarkedText of_user(std::string bytes);

  const std::string& bytes() const noexcept { return bytes_; }
  std::size_t size() const noexcept { return bytes_.size(); }
  bool empty() const noexcept { return bytes_.empty(); }
  /// What the user wrote: ranges in order, not empty, none touching the next.
  const std::vector<ByteRange>& user_ranges() const noexcept { return user_; }

  void append(std::string_view of_template) { bytes_ += of_template; }
  void append(const MarkedText& text) { append(text, 0, text.size()); }
  /// Appends bytes [begin, end) of `text`, another one, with their marks.
  void append(const MarkedText& text, std::size_t begin, std::size_t end);
  /// Appends what became of one or more bytes with such a mark.
  void append(std::string_view bytes, bool by_user);

  MarkedText part(std::size_t begin, std::size_t end) const;

 private:
  void mark(std::size_t begin, std::size_t end);

  std::string bytes_;
  std::vector<ByteRange> user_;
};

/// Walks the characters of a text from its beginning, with their marks.
class MarkedCharacters {
 public:
  struct Character {
    std::string_view bytes;
    char32_t code_point;
    bool by_user;
  };

  /// `text` outlives it.
  explicit MarkedCharacters(const MarkedText& text) : text_(text) {}
  bool done() const noexcept { return at_ == text_.size(); }
  Character next();

 private:
  const MarkedText& text_;
  std::size_t at_ = 0;
  std::size_t range_ = 0;
};

}  // namespace draftproof::jinja
