// SPDX-License-Identifier: MIT
// Outputs of at least some tokens, without some words: a stop token does not end a shorter one, and no word is
// completed. What else the output has to follow, a grammar, is asked as well.
#pragma once

#include <memory>
#include <vector>

#include "ref/acceptance/constraint.h"

namespace draftproof {

class Bans final : public Constraint {
 public:
  /// `rest`: what else the output has to follow; nullptr: nothing. `stops`: the stop tokens of the request, which no
  /// output of less than `min_tokens` has. `words`: their tokens, at least one each; their last one does not follow the
  /// others in the output.
  Bans(std::shared_ptr<const Constraint> rest, int vocabulary, std::vector<Token> stops, int min_tokens,
       std::vector<std::vector<Token>> words);

  std::unique_ptr<ConstraintReader> reader() const override;

 private:
  std::shared_ptr<const Constraint> rest_;
  int vocabulary_;
  std::vector<Token> stops_;
  int min_tokens_;
  std::vector<std::vector<Token>> words_;
};

}  // namespace draftproof
