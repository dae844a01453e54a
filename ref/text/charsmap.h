// SPDX-License-Identifier: MIT
// SentencePiece's precompiled_charsmap: replacements of short texts, mostly NFKC. The bytes are the size of a trie
// (little-endian, 32 bits), the trie (a double array of darts-clone: 32-bit units) and the replacements, each ended by
// a zero byte. They are untrusted: no walk leaves the trie, and a replacement is always UTF-8.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace draftproof {

class Charsmap {
 public:
  /// `origin`: "FILE: field NAME", begins every message.
  Charsmap(std::string_view bytes, const std::string& origin);

  struct Match {
    std::size_t length;  // of the text that is replaced, whole characters
    std::string_view replacement;
  };
  /// The longest, or the shortest, beginning of `text` (UTF-8) that has a replacement. Throws Error when the map is
  /// damaged where the walk leads.
  std::optional<Match> longest(std::string_view text) const { return match(text, false); }
  std::optional<Match> shortest(std::string_view text) const { return match(text, true); }

 private:
  std::optional<Match> match(std::string_view text, bool first_only) const;
  std::string_view replacement_at(std::size_t offset) const;

  std::string origin_;
  std::vector<std::uint32_t> units_;
  std::string replacements_;
};

}  // namespace draftproof
