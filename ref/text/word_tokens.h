// SPDX-License-Identifier: MIT
// The tokens of a word wherever it may stand, as vLLM's bad_words takes them.
#pragma once

#include <string>
#include <vector>

#include "ref/base/token.h"
#include "ref/text/tokenizer.h"

namespace draftproof {

/// Adds the tokens of the word as it is, and with a space before it, where they are not in the list yet.
void add_word_tokens(const Tokenizer& tokenizer, const std::string& word, std::vector<std::vector<Token>>& list);

}  // namespace draftproof
