// SPDX-License-Identifier: MIT
#include "ref/text/word_tokens.h"

#include <algorithm>

namespace draftproof {

void add_word_tokens(const Tokenizer& tokenizer, const std::string& word, std::vector<std::vector<Token>>& list) {
  for (const std::string& spelled : {word, " " + word}) {
    std::vector<Token> tokens = tokenizer.encode(spelled, false);
    if (!tokens.empty() && std::ranges::find(list, tokens) == list.end()) list.push_back(std::move(tokens));
  }
}

}  // namespace draftproof
