// SPDX-License-Identifier: MIT
// Outputs that are sentences of a grammar. An output is complete when it is a sentence that nothing may follow; where
// it is one that may go on, a stop token may end it.
#pragma once

#include <memory>
#include <vector>

#include "ref/acceptance/constraint.h"
#include "ref/grammar/grammar.h"
#include "ref/grammar/token_trie.h"

namespace draftproof {

class GrammarConstraint final : public Constraint {
 public:
  /// `stops`: the stop tokens of the request.
  GrammarConstraint(std::shared_ptr<const Grammar> grammar, std::shared_ptr<const TokenTrie> tokens,
                    std::vector<Token> stops);

  /// Throws Error when a grammar is too ambiguous to be read, as all functions of the reader do.
  std::unique_ptr<ConstraintReader> reader() const override;

 private:
  std::shared_ptr<const Grammar> grammar_;
  std::shared_ptr<const TokenTrie> tokens_;
  std::vector<Token> stops_;
};

}  // namespace draftproof
