// SPDX-License-Identifier: MIT
// Templates in the part of Jinja that chat templates use, with the settings of transformers' apply_chat_template:
// expressions, if, for, set, macro, call, filter, with, generation, break and continue; the filters and tests of
// jinja_builtins.cpp. Whatever else a template contains is refused by name, with its line.
//
// A template is not trusted: its work, its nesting and the recursion of its macros are limited, and it sees only the
// variables it is given.
#pragma once

#include <cstdint>
#include <ctime>
#include <memory>
#include <string>
#include <string_view>

#include "ref/chat/jinja_value.h"

namespace draftproof::jinja {

class Template {
 public:
  static constexpr std::size_t source_bytes_max = std::size_t{1} << 20;
  /// Throws Error for a longer source.
  static void require_length(std::string_view source, const std::string& origin);
  /// A second or two. A conversation of 1 MiB needs about a twentieth of it.
  static constexpr std::uint64_t work_max = std::uint64_t{1} << 28;

  /// `origin` begins the messages of errors: the file. Throws Error, with the line, when the source is no template or
  /// needs what is not implemented.
  Template(std::string_view source, std::string origin);
  ~Template();
  Template(Template&&) noexcept;
  Template& operator=(Template&&) noexcept;

  const std::string& origin() const noexcept { return origin_; }
  const std::string& source() const noexcept { return source_; }

  /// `now`: what strftime_now formats. Throws Error, with the line, when the template raises an exception, fails, or
  /// does more work than `work`. Thread-safe.
  MarkedText render(const Dict& variables, const std::tm& now, std::uint64_t work = work_max) const;

 private:
  struct Parsed;
  std::string source_;
  std::string origin_;
  std::unique_ptr<const Parsed> parsed_;
};

}  // namespace draftproof::jinja
