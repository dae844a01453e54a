// SPDX-License-Identifier: MIT
#include "ref/text/vocabulary_match.h"

#include <algorithm>
#include <cstdlib>
#include <vector>

#include "ref/formats/printable.h"

namespace draftproof {
namespace {

VocabularyMatch broken(VocabularyRule rule, std::string why, Token token = -1) {
  return {false, rule, token, std::move(why)};
}

std::string shown(const std::vector<Token>& tokens) {
  std::string ids;
  for (const Token token : tokens) ids += " " + std::to_string(token);
  return tokens.empty() ? "nothing" : "token" + ids;
}

std::string added(const char* place, const std::vector<Token>& target, const std::vector<Token>& draft) {
  return "the target puts " + shown(target) + " " + place + " a text and the draft " + shown(draft);
}

}  // namespace

VocabularyMatch match_vocabularies(const Vocabulary& target, const Vocabulary& draft) {
  const Tokenizer& of_target = target.tokenizer;
  const Tokenizer& of_draft = draft.tokenizer;
  if (of_target.kind() != of_draft.kind()) {
    return broken(VocabularyRule::kind, "the target's is " + std::string(of_target.kind()) + " and the draft's " +
                                            std::string(of_draft.kind()));
  }
  const std::vector<Token>& target_before = of_target.tokens_before();
  const std::vector<Token>& draft_before = of_draft.tokens_before();
  const std::vector<Token>& target_after = of_target.tokens_after();
  const std::vector<Token>& draft_after = of_draft.tokens_after();
  const std::string before = added("before", target_before, draft_before);
  const std::string after = added("behind", target_after, draft_after);
  if (target_before.empty() != draft_before.empty()) return broken(VocabularyRule::add_bos, before);
  if (target_after.empty() != draft_after.empty()) return broken(VocabularyRule::add_eos, after);
  if (target_before != draft_before) return broken(VocabularyRule::bos, before);
  if (target_after != draft_after) return broken(VocabularyRule::eos, after);
  if (std::abs(target.rows - draft.rows) > vocabulary_size_difference) {
    return broken(VocabularyRule::size, "the target has " + std::to_string(target.rows) + " tokens and the draft " +
                                            std::to_string(draft.rows) + ", which differ by more than " +
                                            std::to_string(vocabulary_size_difference));
  }
  const Token end = std::min({target.rows, draft.rows, of_target.vocabulary(), of_draft.vocabulary()});
  for (Token token = first_compared_token; token < end; ++token) {
    if (of_target.text_of(token) == of_draft.text_of(token)) continue;
    const std::string why = "token " + std::to_string(token) + " is " + in_quotes(of_target.text_of(token)) +
                            " in the target and " + in_quotes(of_draft.text_of(token)) + " in the draft";
    return broken(VocabularyRule::text, why, token);
  }
  return {};
}

}  // namespace draftproof
