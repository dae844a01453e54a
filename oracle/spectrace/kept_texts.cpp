// SPDX-License-Identifier: MIT
#include "oracle/spectrace/kept_texts.h"

#include <utility>

namespace draftproof::spectrace {

void KeptTexts::add(std::int64_t sequence, std::vector<Token> text) {
  tokens_ += text.size();
  texts_.emplace(sequence, std::move(text));
  for (; tokens_ > tokens_max; texts_.erase(texts_.begin())) tokens_ -= texts_.begin()->second.size();
}

const std::vector<Token>* KeptTexts::find(std::int64_t sequence) const {
  const auto found = texts_.find(sequence);
  return found == texts_.end() ? nullptr : &found->second;
}

}  // namespace draftproof::spectrace
