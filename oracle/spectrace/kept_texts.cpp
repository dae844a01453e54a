// SPDX-License-Identifier: MIT
#include "oracle/spectrace/kept_texts.h"

#include <algorithm>

namespace draftproof::spectrace {

void KeptTexts::add(std::int64_t sequence, std::vector<Token> text) {
  tokens_ += text.size();
  texts_.emplace_back(sequence, std::move(text));
  for (; tokens_ > tokens_max; texts_.pop_front()) tokens_ -= texts_.front().second.size();
}

const std::vector<Token>* KeptTexts::find(std::int64_t sequence) const {
  const auto found = std::ranges::find(texts_, sequence, [](const auto& kept) { return kept.first; });
  return found == texts_.end() ? nullptr : &found->second;
}

}  // namespace draftproof::spectrace
