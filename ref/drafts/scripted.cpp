// SPDX-License-Identifier: MIT
#include "ref/drafts/scripted.h"

#include <algorithm>
#include <optional>

#include "ref/base/require.h"
#include "ref/drafts/oracular.h"

namespace draftproof {
namespace {

/// The best of those not guessed there, the smallest among equals.
std::optional<Token> likeliest(std::span<const float> logits, const Guesses& guesses) {
  std::optional<Token> best;
  for (Token token = 0; token < static_cast<Token>(logits.size()); ++token) {
    const auto logit = [&](Token t) { return logits[static_cast<std::size_t>(t)]; };
    if (!guesses.made(token) && (!best || logit(token) > logit(*best))) best = token;
  }
  return best;
}

}  // namespace

ScriptedDraft::ScriptedDraft(Model& target, int capacity, int draft_max, std::string_view script)
    : ModelDraft(target, capacity, draft_max), words_(1) {
  for (const char letter : script) {
    const bool number = letter >= '0' && letter <= '9' && letter - '0' < target.vocabulary();
    REQUIRE(number || std::string_view("+-~?*</").find(letter) != std::string_view::npos, "a script is of its letters");
    if (letter == '/') {
      words_.emplace_back();
    } else {
      words_.back() += letter;
    }
  }
}

void ScriptedDraft::propose(Token anchor, int limit, Guesses& guesses) {
  const std::string& word = words_[round_++ % words_.size()];
  for (const char letter : word) {
    if (letter == '<') {
      guesses.back_to(std::max(0, static_cast<int>(guesses.branch().size()) - 1));
    } else if (guesses.size() < limit) {
      guess(letter, row_after(anchor, guesses.branch()), guesses);
    }
  }
}

void ScriptedDraft::guess(char letter, std::span<const float> logits, Guesses& guesses) {
  if (letter == '+') {
    guesses.draw(logits);
  } else if (letter == '~') {
    std::vector<float> moved(logits.begin(), logits.end());
    std::rotate(moved.begin(), moved.end() - 1, moved.end());
    guesses.draw(moved);
  } else if (letter == '?') {
    guesses.draw(std::vector<float>(logits.size(), 0.0F));
  } else {
    const std::optional<Token> token = letter == '*'   ? likeliest(logits, guesses)
                                       : letter == '-' ? least_likely(logits)
                                                       : letter - '0';
    if (token && !guesses.made(*token)) guesses.name(*token);
  }
}

}  // namespace draftproof
