// SPDX-License-Identifier: MIT
// A draft for proofs that does as it is told. Its script has one word per round, with / between the words, and begins
// again after the last; a word has one letter per draft token:
//
//   +       drawn from the target's own row, so q is p: it stands
//   -       the token the target likes least before penalties, for certain: it falls where the target cannot say it
//   ~       drawn from the target's row with every logit one token further on: another q, with another support
//   ?       drawn from a flat row: every token alike
//   0 to 9  that token, for certain: one that ends the text, or one the target cannot say
//   *       the token the target likes best of those not drafted there, for certain
//   &       no draft token: the next letter's is another in the place of the last one, and what follows still follows that
//   <       no draft token: back to where the last one was made, so that the next is another in its place
//
// "++-" makes three draft tokens a round, of which two stand; "-/-/+" is refused twice in a row; "++//" makes two draft tokens
// and then, for two rounds, none; "+0" says that the text ends; "+&*-" draft tokens two tokens in the same place and one
// after the first, "+<*-" one after the second. What is drafted beside another or after a < is named: a letter
// that draws makes no draft token there, nor does one whose token is there already or whose place lies above a drawn draft token
// (Draft tokens). The rounds are counted, not the tokens: where a script has come to is no part of what is observed.
#pragma once

#include <string>
#include <string_view>

#include "ref/drafts/model_draft.h"

namespace draftproof {

class ScriptedDraft final : public ModelDraft {
 public:
  /// Whether this is a script for so many tokens.
  static bool reads(std::string_view script, int vocabulary) noexcept;

  /// `target` outlives the draft, whose script is one for its vocabulary.
  ScriptedDraft(Model& target, int capacity, int draft_max, std::string_view script);

  void propose(Token anchor, int limit, ProposalBuilder& builder) override;

 private:
  void draw(char letter, std::span<const float> logits, ProposalBuilder& builder);
  void name(char letter, std::span<const float> logits, ProposalBuilder& builder, std::span<const Token> place, bool beside);

  std::vector<std::string> words_;  // at least one
  std::size_t round_ = 0;
};

}  // namespace draftproof
