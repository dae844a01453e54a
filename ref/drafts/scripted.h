// SPDX-License-Identifier: MIT
// A draft for proofs that follows a script. The script has one word per round, with / between the words, and starts
// over after the last word. A word has one letter per draft token:
//
//   +       drawn from the target's own row, so q is p: it is accepted
//   -       the token that the target finds least likely before penalties, deterministic: it is rejected where the
//     target
//           cannot emit it
//   ~       drawn from the target's row with every logit shifted by one token: another q with another support
//   ?       drawn from a flat row: all tokens are equally likely
//   0 to 9  this token, deterministic: for example one that ends the text, or one that the target cannot emit
//   *       the most likely token of the target that is not a draft token in this place yet, deterministic
//   &       no draft token: the next letter adds a sibling of the last draft token, and the branch stays as it is
//   <       no draft token: the branch loses its last draft token, so the next letter starts another branch in its
//   place
//
// Examples: "++-" proposes three draft tokens a round, of which two are accepted. "-/-/+" is rejected in two rounds,
// then accepted. "++//" proposes two draft tokens in one round and none in the next two. "+0" proposes the end of the
// text. "+&*-" proposes two siblings and a child of the first; "+<*-" two siblings and a child of the second.
//
// ProposalBuilder allows only deterministic siblings and branches. A letter adds no draft token when it would draw as a
// sibling or after a <, when its token is already a draft token in this place, or when its place is above a drawn draft
// token. The script advances by rounds, not by tokens: its position is not part of what is observed.
#pragma once

#include <string>
#include <string_view>

#include "ref/drafts/model_draft.h"

namespace draftproof {

class ScriptedDraft final : public ModelDraft {
 public:
  /// Whether `script` has only the letters above and tokens below `vocabulary`.
  static bool is_script(std::string_view script, int vocabulary) noexcept;

  /// `target` outlives the draft. `script` is a script for the target's vocabulary, see is_script().
  ScriptedDraft(Model& target, int capacity, int draft_max, std::string_view script);

  void propose(Token anchor, int limit, ProposalBuilder& builder) override;

 private:
  void draw(char letter, std::span<const float> logits, ProposalBuilder& builder);
  void add_chosen(char letter, std::span<const float> logits, ProposalBuilder& builder, std::span<const Token> place,
                  bool as_sibling);

  std::vector<std::string> rounds_;  // the letters of each round; at least one round
  std::size_t next_round_ = 0;
};

}  // namespace draftproof
