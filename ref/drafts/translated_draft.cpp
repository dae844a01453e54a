// SPDX-License-Identifier: MIT
#include "ref/drafts/translated_draft.h"

#include <algorithm>

#include "ref/drafts/network_draft.h"

namespace draftproof {
namespace {

int passes_max(int limit) { return TranslatedDraft::passes_per_draft_token * (limit + 1); }

int capacity_of(const TranslatedModel& shared, int capacity) {
  const std::int64_t wanted = std::int64_t{TranslatedDraft::tokens_per_position} * capacity;
  return static_cast<int>(std::min<std::int64_t>(wanted, std::min(shared.context, shared.model->context())));
}

}  // namespace

TranslatedDraft::TranslatedDraft(const TranslatedModel& shared, int capacity, int draft_max)
    : TextDraft(draft_max), shared_(shared), capacity_(capacity_of(shared, capacity)) {
  clear();
}

void TranslatedDraft::clear() {
  text_.emplace(shared_.target_tokenizer, shared_.tokenizer);
  read_ = {};
  reach_ = TextDraft::reach();
  cache_.reset();  // first, so that the memory is never there twice
  cache_ = shared_.model->new_cache(capacity_, std::max(max_chunk, read_again + passes_max(draft_max())));
}

bool TranslatedDraft::can_read(std::span<const Token> tokens) const {
  const auto known = [&](Token token) { return token < shared_.model->vocabulary(); };
  return !tokens.empty() && std::ssize(tokens) <= capacity_ && std::ranges::all_of(tokens, known);
}

void TranslatedDraft::read(std::span<const Token> tokens, int logits_from) const {
  forward_alone(*shared_.model, {.cache = cache_.get(), .tokens = tokens, .logits_from = logits_from}, outputs_);
}

void TranslatedDraft::settle(std::span<const Token> tokens) const {
  const std::span<const Token> settled = tokens.first(tokens.size() - std::min(tokens.size(), std::size_t{read_again}));
  const auto differs = std::ranges::mismatch(read_, settled).in1;
  if (differs != read_.end()) {  // the text has another end now, or its end is encoded in another way
    auto same = differs - read_.begin();
    if (!cache_->truncate(static_cast<int>(same))) {
      cache_->clear();
      same = 0;
    }
    read_.resize(static_cast<std::size_t>(same));
  }
  read_.reserve(settled.size());
  while (read_.size() < settled.size()) {
    const std::size_t rows = std::min(settled.size() - read_.size(), std::size_t{max_chunk});
    const std::span<const Token> chunk = settled.subspan(read_.size(), rows);
    Transaction reading = cache_->begin(static_cast<int>(rows));
    read(chunk, static_cast<int>(rows));
    reading.commit(static_cast<int>(rows));
    read_.insert(read_.end(), chunk.begin(), chunk.end());
  }
}

void TranslatedDraft::continue_text(std::span<const Token> text, int limit, std::vector<Token>& draft_tokens) {
  TranslatedText with_anchor = *text_;
  with_anchor.append(text.back());
  const std::vector<Token> tokens = with_anchor.in_draft_tokens();
  if (std::ssize(tokens) > capacity_) reach_ = std::min(reach_, static_cast<int>(text.size()));
  else reach_ = TextDraft::reach();
  if (!can_read(tokens)) return;
  settle(tokens);
  const std::span<const Token> last = std::span(tokens).subspan(read_.size());
  const int passes = std::min(passes_max(limit), capacity_ - static_cast<int>(tokens.size()));
  const Transaction rolled_back = cache_->begin(static_cast<int>(last.size()) + passes);
  read(last, static_cast<int>(last.size()) - 1);
  TranslatedContinuation continuation(with_anchor);
  for (int pass = 0;; ++pass) {
    const std::span<const float> row = outputs_.logits_row(0, shared_.model->vocabulary());
    const auto token = static_cast<Token>(std::ranges::max_element(row) - row.begin());  // of equals, the smallest
    const bool goes_on = continuation.append(token);
    draft_tokens = continuation.in_target_tokens();
    if (!goes_on || std::ssize(draft_tokens) >= limit || pass == passes) break;
    read(std::span(&token, 1), 0);
  }
  const auto unknown = std::ranges::find_if(draft_tokens, [&](Token t) { return t >= shared_.target_vocabulary; });
  draft_tokens.erase(unknown, draft_tokens.end());
  if (std::ssize(draft_tokens) > limit) draft_tokens.resize(static_cast<std::size_t>(limit));
}

Fingerprint TranslatedDraft::digest() const {
  Digest digest;
  digest.add(text());
  TranslatedText whole(shared_.target_tokenizer, shared_.tokenizer);
  for (const Token token : text()) whole.append(token);
  const std::vector<Token> tokens = whole.in_draft_tokens();
  if (can_read(tokens)) {
    settle(tokens);
    const Fingerprint cache = cache_->digest();
    digest.add(cache.high);
    digest.add(cache.low);
  }
  return digest.value();
}

std::unique_ptr<Draft> TranslatedDrafter::open(int capacity, int draft_max) {
  return std::make_unique<TranslatedDraft>(shared_, capacity, draft_tokens_per_round(draft_max, capacity));
}

}  // namespace draftproof
