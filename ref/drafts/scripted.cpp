// SPDX-License-Identifier: MIT
#include "ref/drafts/scripted.h"

#include <algorithm>
#include <optional>

#include "ref/base/require.h"
#include "ref/drafts/oracular.h"

namespace draftproof {
namespace {

/// The best of those not guessed after `branch`, the smallest among equals.
std::optional<Token> likeliest(std::span<const float> logits, const Guesses& guesses, std::span<const Token> branch) {
  std::optional<Token> best;
  for (Token token = 0; token < static_cast<Token>(logits.size()); ++token) {
    const auto logit = [&](Token t) { return logits[static_cast<std::size_t>(t)]; };
    if ((!best || logit(token) > logit(*best)) && !guesses.made(branch, token)) best = token;
  }
  return best;
}

}  // namespace

bool ScriptedDraft::reads(std::string_view script, int vocabulary) noexcept {
  return std::all_of(script.begin(), script.end(), [&](char letter) {
    const bool number = letter >= '0' && letter <= '9' && letter - '0' < vocabulary;
    return number || std::string_view("+-~?*&</").find(letter) != std::string_view::npos;
  });
}

ScriptedDraft::ScriptedDraft(Model& target, int capacity, int draft_max, std::string_view script)
    : ModelDraft(target, capacity, draft_max), words_(1) {
  REQUIRE(reads(script, target.vocabulary()), "a script is of its letters");
  for (const char letter : script) {
    if (letter == '/') {
      words_.emplace_back();
    } else {
      words_.back() += letter;
    }
  }
}

void ScriptedDraft::propose(Token anchor, int limit, Guesses& guesses) {
  const std::string& word = words_[round_++ % words_.size()];
  bool beside = false;
  for (const char letter : word) {
    const std::span<const Token> branch = guesses.branch();
    const std::size_t above = branch.empty() ? 0 : branch.size() - 1;
    const std::span<const Token> place = beside ? branch.first(above) : branch;
    const bool draws = std::string_view("+~?").find(letter) != std::string_view::npos;
    const bool possible = draws ? guesses.can_draw() && !beside : guesses.can_name(place);
    if (letter == '<') {
      guesses.back_to(static_cast<int>(above));
    } else if (letter != '&' && guesses.size() < limit && possible) {
      const std::span<const float> logits = row_after(anchor, place);
      draws ? draw(letter, logits, guesses) : name(letter, logits, guesses, place, beside && !branch.empty());
    }
    beside = letter == '&';
  }
}

void ScriptedDraft::draw(char letter, std::span<const float> logits, Guesses& guesses) {
  std::vector<float> row(logits.begin(), logits.end());
  if (letter == '~') std::rotate(row.begin(), row.end() - 1, row.end());
  if (letter == '?') std::fill(row.begin(), row.end(), 0.0F);
  guesses.draw(row);
}

void ScriptedDraft::name(char letter, std::span<const float> logits, Guesses& guesses, std::span<const Token> place,
                         bool beside) {
  const std::optional<Token> token = letter == '*'   ? likeliest(logits, guesses, place)
                                     : letter == '-' ? least_likely(logits)
                                                     : letter - '0';
  if (!token || guesses.made(place, *token)) return;
  beside ? guesses.name_beside(*token) : guesses.name(*token);
}

}  // namespace draftproof
