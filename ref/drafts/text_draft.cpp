// SPDX-License-Identifier: MIT
#include "ref/drafts/text_draft.h"

#include "ref/base/require.h"

namespace draftproof {

void TextDraft::propose(Token anchor, int limit, ProposalBuilder& builder) {
  REQUIRE(limit >= 1 && limit <= draft_max_, "a draft is asked for at most draft_max() draft tokens");
  for (; learned_ < text_.size(); ++learned_) learn(text_, learned_);
  draft_tokens_.clear();
  anchor_ = static_cast<int>(text_.size());
  text_.push_back(anchor);
  try {
    continue_text(text_, limit, draft_tokens_);
  } catch (...) {
    text_.pop_back();
    throw;
  }
  text_.pop_back();
  REQUIRE(draft_tokens_.size() <= static_cast<std::size_t>(limit), "a draft proposes at most `limit` draft tokens");
  for (const Token token : draft_tokens_) builder.add_token(token);
}

void TextDraft::forget() {
  text_ = {};
  learned_ = 0;
  clear();
}

void copy_on(std::span<const Token> text, int from, int count, std::vector<Token>& draft_tokens) {
  const std::size_t first = draft_tokens.size();
  for (int i = 0; i < count; ++i) {
    const std::size_t at = static_cast<std::size_t>(from) + static_cast<std::size_t>(i);
    draft_tokens.push_back(at < text.size() ? text[at] : draft_tokens[first + (at - text.size())]);
  }
}

Fingerprint TextDraft::digest() const {
  Digest digest;
  digest.add(std::span<const Token>(text_));
  return digest.value();
}

MemoryNeed need_of_text(std::uint64_t bytes_per_token) {
  MemoryNeed need;
  need.cache_per_position = sizeof(Token) + bytes_per_token;
  return need;
}

}  // namespace draftproof
