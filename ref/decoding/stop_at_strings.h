// SPDX-License-Identifier: MIT
// Ends an output at the first stop string of its text, with the token that completes it.
#pragma once

#include <string>
#include <utility>
#include <vector>

#include "ref/decoding/request.h"
#include "ref/text/stop_strings.h"
#include "ref/text/tokenizer.h"

namespace draftproof {

/// Serves one sequence. Remembers what it read of the output, so that a whole text costs one look-up per byte: an
/// output without its last token must be the beginning of the one asked for last, or begin with all of it.
class StopAtStrings final : public StopCondition {
 public:
  /// Both outlive the condition. `shown`: special tokens that have a text all the same.
  StopAtStrings(const Tokenizer& tokenizer, const StopStrings& strings, std::vector<Token> shown = {})
      : tokenizer_(tokenizer), shown_(std::move(shown)), after_{StopSearch(strings)} {}

  /// Returns whether the text of the output contains a stop string. Other special tokens have no text, as in
  /// Tokenizer::decode.
  bool ends(std::span<const Token> output) override;

 private:
  const Tokenizer& tokenizer_;
  std::vector<Token> shown_;
  std::vector<StopSearch> after_;  // after no token, after one, ...
  std::string bytes_;              // of one token
};

}  // namespace draftproof
