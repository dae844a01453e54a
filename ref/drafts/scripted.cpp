// SPDX-License-Identifier: MIT
#include "ref/drafts/scripted.h"

#include <algorithm>
#include <optional>

#include "ref/base/require.h"
#include "ref/drafts/control_drafts.h"
#include "ref/drafts/drafts.h"
#include "ref/drafts/network_draft.h"

namespace draftproof {
namespace {

/// Returns the token of the largest logit that is not a draft token after `branch` yet, the smallest among equals.
std::optional<Token> most_likely(std::span<const float> logits, const ProposalBuilder& builder,
                                 std::span<const Token> branch) {
  std::optional<Token> best;
  for (Token token = 0; token < static_cast<Token>(logits.size()); ++token) {
    const auto logit = [&](Token t) { return logits[t]; };
    if ((!best || logit(token) > logit(*best)) && !builder.contains(branch, token)) best = token;
  }
  return best;
}

}  // namespace

bool ScriptedDraft::is_script(std::string_view script, int vocabulary) noexcept {
  return std::all_of(script.begin(), script.end(), [&](char letter) {
    const bool number = letter >= '0' && letter <= '9' && letter - '0' < vocabulary;
    return number || std::string_view("+-~?*&</").find(letter) != std::string_view::npos;
  });
}

ScriptedDraft::ScriptedDraft(Model& target, int capacity, int draft_max, std::string_view script)
    : ModelDraft(target, capacity, draft_max), rounds_(1) {
  REQUIRE(is_script(script, target.vocabulary()), "a script contains only the letters of scripted.h");
  for (const char letter : script) {
    if (letter == '/') {
      rounds_.emplace_back();
    } else {
      rounds_.back() += letter;
    }
  }
}

void ScriptedDraft::propose(Token anchor, int limit, ProposalBuilder& builder) {
  const std::string& letters = rounds_[next_round_++ % rounds_.size()];
  bool as_sibling = false;
  for (const char letter : letters) {
    const std::span<const Token> branch = builder.branch();
    const std::size_t parent_depth = branch.empty() ? 0 : branch.size() - 1;
    const std::span<const Token> place = as_sibling ? branch.first(parent_depth) : branch;
    const bool draws = std::string_view("+~?").find(letter) != std::string_view::npos;
    const bool possible = draws ? builder.can_draw() && !as_sibling : builder.can_add_token(place);
    if (letter == '<') {
      builder.rewind_to(static_cast<int>(parent_depth));
    } else if (letter != '&' && builder.size() < limit && possible) {
      const std::span<const float> logits = row_after(anchor, place);
      draws ? draw(letter, logits, builder) : add_chosen(letter, logits, builder, place, as_sibling && !branch.empty());
    }
    as_sibling = letter == '&';
  }
}

void ScriptedDraft::draw(char letter, std::span<const float> logits, ProposalBuilder& builder) {
  std::vector<float> row(logits.begin(), logits.end());
  if (letter == '~') std::rotate(row.begin(), row.end() - 1, row.end());
  if (letter == '?') std::fill(row.begin(), row.end(), 0.0F);
  builder.draw(row);
}

void ScriptedDraft::add_chosen(char letter, std::span<const float> logits, ProposalBuilder& builder,
                               std::span<const Token> place, bool as_sibling) {
  const std::optional<Token> token = letter == '*'   ? most_likely(logits, builder, place)
                                     : letter == '-' ? least_likely(logits)
                                                     : letter - '0';
  if (!token || builder.contains(place, *token)) return;
  as_sibling ? builder.add_sibling(*token) : builder.add_token(*token);
}

namespace {

/// Alternates between a sampled branch with siblings, and a branch that starts wrong and is right in other places.
class TreeTestDrafter final : public Drafter {
 public:
  explicit TreeTestDrafter(Model& target) : target_(target) {}
  std::unique_ptr<Draft> open(int capacity, int draft_max) override {
    return std::make_unique<ScriptedDraft>(target_, capacity, draft_tokens_per_round(draft_max, capacity),
                                           "+&*+&*-/-<*-<**");
  }

 private:
  Model& target_;
};

std::unique_ptr<Drafter> load(const DraftStage&, const Checkpoint*, const DraftTarget& target, const LoadOptions&) {
  return std::make_unique<TreeTestDrafter>(target.model);
}

}  // namespace

const DraftKind tree_test_kind = {.name = "tree-test",
                                  .summary = "trees in which one branch is right (for proofs)",
                                  .trees = true,
                                  .keeps = Keeps::cache,
                                  .need = need_of_target,
                                  .load = load};

}  // namespace draftproof
