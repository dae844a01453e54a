// SPDX-License-Identifier: MIT
// Thoughts that end after so many tokens: from then on only the tokens of the mark that ends them may come, one after
// the other. What follows is held to what it would be held to without the budget.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "ref/acceptance/constraint.h"
#include "ref/answers/answer_format.h"

namespace draftproof {

class ThoughtBudget final : public Constraint {
 public:
  /// `tokens`: of thoughts, at most, the marks not counted. `held`: what answers are held to besides; nullptr: nothing.
  /// `tokenizer` outlives the constraint, as `marks` do.
  ThoughtBudget(const ThoughtMarks& marks, Thinking thinking, int tokens, const Tokenizer& tokenizer, int vocabulary,
                std::shared_ptr<const Constraint> held);

  std::unique_ptr<ConstraintReader> reader() const override;

 private:
  const ThoughtMarks& marks_;
  Thinking thinking_;
  int tokens_;
  const Tokenizer& tokenizer_;
  std::vector<Token> end_;  // the tokens of the mark
  TokenSet all_;
  std::shared_ptr<const Constraint> held_;

  class Reader;
};

}  // namespace draftproof
