// SPDX-License-Identifier: MIT
// A corpus whose index is a part of its file: the file is mapped into memory, so a process that starts reads nothing of
// it but what a check needs, and several share one copy (REST, He et al. 2023, looks drafts up in such a store).
//
// n(s) and f(s) are those of suffix_tree.h. The suffixes of the text in lexicographic order make the occurrences of s
// neighbors, and among them those that a token follows are in the order of that token; -1 between two texts and the end
// come first. So s is found by two binary searches, and what follows it most often by a few more.
//
// The file, little-endian: "dpsuffix", the version 1 and the number of tokens n as uint32, the fingerprint of all that
// follows (Digest: high, low), n tokens as int32, and n places of suffixes in their order as uint32. Suffixes that are
// equal in their first `order` tokens may stand in any order.
//
// Time: O(length of the string * log n) for find. Memory: none but the pages that the system keeps of the file.
#pragma once

#include <cstdint>
#include <filesystem>
#include <functional>
#include <optional>
#include <span>
#include <string_view>

#include "ref/base/mapped_file.h"
#include "ref/base/token.h"

namespace draftproof {

class SuffixIndex {
 public:
  static constexpr int order = 1024;  // tokens by which suffixes are sorted

  /// Whether a file begins as an index does.
  static bool is_in(const std::filesystem::path& file);

  /// Appends the file of a text with separators. Memory: 16 bytes per token.
  static void write(std::span<const Token> text, const std::function<void(std::string_view)>& append);

  /// Throws Error, naming the file, when it is not an index of tokens below `vocabulary`.
  SuffixIndex(const std::filesystem::path& file, int vocabulary);

  std::span<const Token> text() const noexcept { return text_; }

  /// The occurrences of a string: so many, from this one on in the order of suffixes.
  struct Place {
    std::size_t first = 0;
    std::size_t count = 0;
    int length = 0;  // of the string
  };
  /// Nothing when the string does not occur.
  std::optional<Place> find(std::span<const Token> string) const;

  /// What follows a string s most often: the token c with the largest n(sc), the smallest of several.
  struct Next {
    Token token = 0;
    double share = 0;  // n(sc) / f(s)
    Place place = {};  // of sc
  };
  /// Nothing when no token follows, and when none has at least about this share.
  std::optional<Next> most_frequent(const Place& place, double min_share) const;

 private:
  /// The token at this distance from the beginning of a suffix; less than 0 behind the end of its text.
  Token at(std::size_t rank, int distance) const;
  /// Of the suffixes in [first, last), the first whose token at this distance is not below `token`.
  std::size_t first_with(std::size_t first, std::size_t last, int distance, Token token) const;

  MappedFile file_;
  Token vocabulary_;
  std::span<const Token> text_;
  std::span<const std::uint32_t> places_;
};

}  // namespace draftproof
