// SPDX-License-Identifier: MIT
// The tokens of texts, for look-ups in a text that is never copied.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "ref/base/token.h"

namespace draftproof {

class TextTable {
 public:
  /// Room for so many texts, without growing meanwhile.
  void reserve(std::size_t texts);
  /// Returns false, and changes nothing, when the text has a token already.
  bool insert(std::string_view text, Token token);
  /// Says that a text will be asked for or inserted soon, so that its place comes from memory meanwhile.
  void expect(std::string_view text) const;
  /// Returns -1 when the text has no token.
  Token find(std::string_view text) const;
  std::size_t longest() const noexcept { return longest_; }  // in bytes

 private:
  struct Slot {
    std::uint32_t hash = 0;
    std::int32_t entry = -1;  // unused
  };
  struct Entry {
    std::string text;
    Token token;
  };

  std::size_t place_of(std::string_view text, std::uint32_t hash) const;
  void grow_to(std::size_t slots);

  std::vector<Slot> slots_;  // a power of two, at most half of them used
  std::vector<Entry> entries_;
  std::size_t longest_ = 0;
};

}  // namespace draftproof
