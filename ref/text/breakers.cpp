// SPDX-License-Identifier: MIT
#include "ref/text/breakers.h"

#include "ref/base/error.h"

namespace draftproof {

const std::vector<std::string>& default_breakers() {
  static const std::vector<std::string> texts = {"\n", ":", "\"", "*"};
  return texts;
}

std::vector<Token> breaking_tokens(const Tokenizer& tokenizer, std::span<const std::string> texts) {
  std::vector<bool> found(texts.size());
  std::vector<Token> tokens;
  for (Token token = 0; token < tokenizer.vocabulary(); ++token) {
    if (tokenizer.is_special(token)) continue;
    const std::string bytes = tokenizer.bytes_of(token);
    bool breaks = false;
    for (std::size_t i = 0; i < texts.size(); ++i) {
      if (bytes.find(texts[i]) == std::string::npos) continue;
      found[i] = breaks = true;
    }
    if (breaks) tokens.push_back(token);
  }
  for (std::size_t i = 0; i < texts.size(); ++i) {
    if (texts[i].empty()) throw Error("a sequence breaker is empty; give a text");
    if (!found[i]) throw Error("no token contains the sequence breaker \"" + texts[i] + "\"; give a shorter one");
  }
  return tokens;
}

}  // namespace draftproof
