// SPDX-License-Identifier: MIT
#include "ref/drafts/scripted.h"

#include <algorithm>

#include "ref/base/require.h"
#include "ref/drafts/oracular.h"

namespace draftproof {

ScriptedDraft::ScriptedDraft(Model& target, int capacity, int draft_max, std::string_view script)
    : ModelDraft(target, capacity, draft_max), words_(1) {
  for (const char letter : script) {
    const bool number = letter >= '0' && letter <= '9' && letter - '0' < target.vocabulary();
    REQUIRE(number || std::string_view("+-~?/").find(letter) != std::string_view::npos, "a script is of its letters");
    if (letter == '/') {
      words_.emplace_back();
    } else {
      words_.back() += letter;
    }
  }
}

void ScriptedDraft::propose(Token anchor, int limit, Guesses& guesses) {
  const std::string& word = words_[round_++ % words_.size()];
  if (const int size = std::min(limit, static_cast<int>(word.size())); size > 0) {
    ModelDraft::propose(anchor, size, guesses);
  }
}

Token ScriptedDraft::guess(std::span<const float> logits, Guesses& guesses) {
  const std::string& word = words_[(round_ - 1) % words_.size()];
  const char letter = word[static_cast<std::size_t>(guesses.size())];
  if (letter == '+') return guesses.draw(logits);
  if (letter == '~') {
    std::vector<float> moved(logits.begin(), logits.end());
    std::rotate(moved.begin(), moved.end() - 1, moved.end());
    return guesses.draw(moved);
  }
  if (letter == '?') return guesses.draw(std::vector<float>(logits.size(), 0.0F));
  const Token token = letter == '-' ? least_likely(logits) : letter - '0';
  guesses.name(token);
  return token;
}

}  // namespace draftproof
