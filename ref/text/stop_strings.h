// SPDX-License-Identifier: MIT
// Stop strings: a text ends before the first of them, wherever tokens or UTF-8 characters divide it. They are looked
// for in the bytes that tokens spell, before broken UTF-8 becomes U+FFFD.
//
// The first stop string is the one that ends first; of several that end at the same byte, the longest. So of two where
// one begins the other the shorter ends the text, and where a text ends never depends on its division into tokens.
#pragma once

#include <array>
#include <cstddef>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace draftproof {

/// The automaton of Aho and Corasick for several strings, as a table: one look-up per byte of the text, 1 KiB for each
/// byte of the strings. A state stands for all bytes of a text up to a place.
class StopStrings {
 public:
  static constexpr std::size_t bytes_max = std::size_t{1} << 14;  // of all strings together

  StopStrings() : StopStrings(std::vector<std::string>()) {}  // no string ends a text
  /// Throws Error for an empty string, and for more bytes than bytes_max.
  explicit StopStrings(std::vector<std::string> strings);

  const std::vector<std::string>& strings() const noexcept { return strings_; }

  static constexpr int start = 0;  // the state of an empty text
  int next(int state, char byte) const noexcept {
    return states_[static_cast<std::size_t>(state)].next[static_cast<unsigned char>(byte)];
  }
  /// Returns how many of the last bytes could become a stop string: the longest end of the text that begins one.
  std::size_t begun(int state) const noexcept { return states_[static_cast<std::size_t>(state)].begun; }
  /// Returns the index of the longest stop string that the text ends with; nullopt when it ends with none.
  std::optional<std::size_t> complete(int state) const noexcept;

 private:
  struct State {
    std::array<int, 256> next{};
    std::size_t begun = 0;
    int complete = -1;
  };

  std::vector<std::string> strings_;
  std::vector<State> states_;
};

struct StopMatch {
  std::size_t string;  // index of the stop string
  std::size_t begin;   // bytes of the text before it
  std::size_t end;     // bytes of the text with it

  bool operator==(const StopMatch&) const = default;
};

/// Looks for the first stop string in a text that arrives in pieces.
class StopSearch {
 public:
  /// The strings outlive the search.
  explicit StopSearch(const StopStrings& strings) : strings_(&strings) {}

  /// Returns how many of these bytes belong to the text or to the stop string that ends it: all without a match.
  std::size_t read(std::string_view bytes) noexcept;
  const std::optional<StopMatch>& match() const noexcept { return match_; }
  /// How many of the last bytes read could become a stop string. Without a match only.
  std::size_t begun() const noexcept { return strings_->begun(state_); }

 private:
  const StopStrings* strings_;
  int state_ = StopStrings::start;
  std::size_t bytes_ = 0;  // read so far
  std::optional<StopMatch> match_;
};

/// A text that arrives in pieces of bytes and ends before the first stop string. What it returns is UTF-8: broken bytes
/// become U+FFFD. It holds back only what is not certain: bytes that could become a stop string, and an unfinished
/// character.
class StoppedText {
 public:
  explicit StoppedText(const StopStrings& strings) : search_(strings) {}

  /// Returns the text that became certain. Nothing follows a stop string.
  std::string push(std::string_view bytes);
  /// Returns what was held back; the text ends here.
  std::string finish();
  const std::optional<StopMatch>& match() const noexcept { return search_.match(); }

 private:
  StopSearch search_;
  std::string held_;
};

}  // namespace draftproof
