// SPDX-License-Identifier: MIT
#include "ref/drafts/scripted.h"

#include <algorithm>
#include <optional>

#include "ref/base/require.h"
#include "ref/drafts/control_drafts.h"

namespace draftproof {
namespace {

/// The best of those not drafted after `branch`, the smallest among equals.
std::optional<Token> likeliest(std::span<const float> logits, const ProposalBuilder& builder, std::span<const Token> branch) {
  std::optional<Token> best;
  for (Token token = 0; token < static_cast<Token>(logits.size()); ++token) {
    const auto logit = [&](Token t) { return logits[static_cast<std::size_t>(t)]; };
    if ((!best || logit(token) > logit(*best)) && !builder.contains(branch, token)) best = token;
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

void ScriptedDraft::propose(Token anchor, int limit, ProposalBuilder& builder) {
  const std::string& word = words_[round_++ % words_.size()];
  bool beside = false;
  for (const char letter : word) {
    const std::span<const Token> branch = builder.branch();
    const std::size_t above = branch.empty() ? 0 : branch.size() - 1;
    const std::span<const Token> place = beside ? branch.first(above) : branch;
    const bool draws = std::string_view("+~?").find(letter) != std::string_view::npos;
    const bool possible = draws ? builder.can_draw() && !beside : builder.can_add_token(place);
    if (letter == '<') {
      builder.rewind_to(static_cast<int>(above));
    } else if (letter != '&' && builder.size() < limit && possible) {
      const std::span<const float> logits = row_after(anchor, place);
      draws ? draw(letter, logits, builder) : name(letter, logits, builder, place, beside && !branch.empty());
    }
    beside = letter == '&';
  }
}

void ScriptedDraft::draw(char letter, std::span<const float> logits, ProposalBuilder& builder) {
  std::vector<float> row(logits.begin(), logits.end());
  if (letter == '~') std::rotate(row.begin(), row.end() - 1, row.end());
  if (letter == '?') std::fill(row.begin(), row.end(), 0.0F);
  builder.draw(row);
}

void ScriptedDraft::name(char letter, std::span<const float> logits, ProposalBuilder& builder, std::span<const Token> place,
                         bool beside) {
  const std::optional<Token> token = letter == '*'   ? likeliest(logits, builder, place)
                                     : letter == '-' ? least_likely(logits)
                                                     : letter - '0';
  if (!token || builder.contains(place, *token)) return;
  beside ? builder.add_sibling(*token) : builder.add_token(*token);
}

}  // namespace draftproof
