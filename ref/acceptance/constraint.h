// SPDX-License-Identifier: MIT
// What the output of a request may be, for example the sentences of a grammar. Every row that a token is drawn from is
// masked: those of plain decoding, those of a verification along each drafted path, and those of drafts.
//
// What may follow an output depends on its tokens only. So there is no state that a rejected draft token could spoil.
#pragma once

#include <memory>
#include <span>

#include "ref/acceptance/token_set.h"
#include "ref/base/token.h"

namespace draftproof {

/// Reads the output of one sequence. Remembers what it has read, so that an output costs little when it goes on from
/// one that was asked for before.
class ConstraintReader {
 public:
  virtual ~ConstraintReader() = default;
  /// Returns whether the output is allowed, as a whole one or as the beginning of one.
  virtual bool possible(std::span<const Token> output) = 0;
  /// Returns the tokens that may follow this output; the set lives until the next call. Where the output may end, the
  /// request's stop tokens are among them. Nothing may follow an output that is complete or not possible.
  virtual const TokenSet& allowed(std::span<const Token> output) = 0;
  /// Returns whether the output is whole and nothing can follow it: the text ends there, without a stop token.
  virtual bool complete(std::span<const Token> output) = 0;
};

/// Thread-safe.
class Constraint {
 public:
  virtual ~Constraint() = default;
  virtual std::unique_ptr<ConstraintReader> reader() const = 0;
};

}  // namespace draftproof
