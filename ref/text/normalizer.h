// SPDX-License-Identifier: MIT
// The steps that a text goes through before it is cut into pieces, each a function of the text before it.
#pragma once

#include <functional>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "ref/text/added_tokens.h"
#include "ref/text/charsmap.h"
#include "ref/text/pattern.h"
#include "ref/text/unicode.h"

namespace draftproof {

inline constexpr std::string_view space_mark = "\u2581";  // what SentencePiece writes for a space

class Normalizer {
 public:
  /// Takes and gives UTF-8.
  using Step = std::function<std::string(std::string_view text, MatchBudget& budget)>;

  void add(Step step) { steps_.push_back(std::move(step)); }
  bool empty() const noexcept { return steps_.empty(); }

  /// Throws Error when the text of a step is longer than 2 GiB.
  std::string apply(std::string_view text, MatchBudget& budget) const;

 private:
  std::vector<Step> steps_;
};

/// The steps of Hugging Face's `tokenizers`.
namespace normalizers {

Normalizer::Step form(unicode::Form form);
Normalizer::Step lower_case();
Normalizer::Step strip(bool left, bool right);  // white space
Normalizer::Step strip_accents();               // and all other marks
Normalizer::Step nmt();
Normalizer::Step prepend(const std::string& text);  // to a text that is not empty
Normalizer::Step replace(const std::string& text, const std::string& with);
Normalizer::Step replace(Pattern pattern, const std::string& with);
/// Replaces grapheme clusters of fewer than six bytes, and single characters, by the replacement of their shortest
/// beginning that has one: what `tokenizers` makes of SentencePiece's map.
Normalizer::Step replace_graphemes(Charsmap map);

/// SentencePiece's own normalization, in one walk.
struct SentencePiece {
  std::shared_ptr<const Charsmap> map;           // null: no character is replaced
  std::shared_ptr<const AddedTokenCutter> kept;  // texts that the map leaves alone
  bool remove_extra_spaces = false;              // leading, trailing and repeated ones
  bool add_space = false;                        // before the text
  bool mark_spaces = true;
};
Normalizer::Step sentencepiece(SentencePiece rules);

}  // namespace normalizers

}  // namespace draftproof
