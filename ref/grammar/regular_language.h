// SPDX-License-Identifier: MIT
// A regular language over characters, as a deterministic automaton. Strings of a schema are such languages, and so are
// the texts of its numbers: what several keywords say together is their intersection.
#pragma once

#include <cstddef>
#include <string_view>
#include <vector>

namespace draftproof {

class RegularLanguage {
 public:
  static constexpr std::size_t states_max = 8192;

  struct Edge {
    char32_t first;
    char32_t last;
    int to;
  };
  struct State {
    bool accepts = false;
    std::vector<Edge> edges = {};  // ascending; no character has two
  };

  /// The empty language.
  RegularLanguage() : states_(1) {}
  /// The first state is where texts begin. States that lead nowhere are dropped.
  explicit RegularLanguage(std::vector<State> states);

  static RegularLanguage of_everything();
  /// Of these texts, UTF-8.
  static RegularLanguage of_words(const std::vector<std::string_view>& words);
  /// Of texts with so many characters; `max` below 0: without end.
  static RegularLanguage of_lengths(int min, int max);

  /// These throw Error when the automaton would be too large.
  RegularLanguage both(const RegularLanguage& other) const;
  RegularLanguage either(const RegularLanguage& other) const;
  RegularLanguage without(const RegularLanguage& other) const;
  /// The texts of this one behind a character.
  RegularLanguage behind(char32_t first) const;

  bool empty() const { return states_.size() == 1 && !states_.front().accepts && states_.front().edges.empty(); }
  /// `text`: UTF-8.
  bool has(std::string_view text) const;
  const std::vector<State>& states() const noexcept { return states_; }
  /// Whether every text that reaches this state goes on as it likes.
  bool is_free(int state) const;

 private:
  enum class Keep { both, either, first_only };
  RegularLanguage product(const RegularLanguage& other, Keep keep) const;

  std::vector<State> states_;
};

/// Throws Error: an automaton has too many states.
[[noreturn]] void refuse_large_language();

}  // namespace draftproof
