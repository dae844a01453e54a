// SPDX-License-Identifier: MIT
#include "oracle/spectrace/plain_reader.h"

#include <algorithm>

#include "ref/base/require.h"

namespace draftproof::spectrace {

void PlainReader::release() noexcept {
  growing_.reset();
  exact_.reset();
  capacity_ = 0;
  next_drop_ = 0;
  read_.clear();
}

std::string PlainReader::shift(int tokens_read, int keep, int discard) {
  if (twin_) return "the float64 twin does not shift its context";
  const int length = tokens_read - dropped_;
  if (length > target_.context()) return "the target has no room for " + std::to_string(length) + " positions";
  if (std::string why = target_.new_cache(length, 1)->discard_error(length, keep, discard); !why.empty()) return why;
  drops_.push_back({static_cast<std::size_t>(tokens_read), keep, discard});
  dropped_ += discard;
  return "";
}

/// Reads the rest of the text.
void PlainReader::read(std::span<const Token> text) {
  const auto read_to = [&](std::size_t tokens) {
    if (tokens == read_.size()) return;
    row_logits_ = growing_->logits_after(text.first(tokens));
    read_.assign(text.begin(), text.begin() + static_cast<std::ptrdiff_t>(tokens));
  };
  for (; next_drop_ < drops_.size() && drops_[next_drop_].tokens_read < text.size(); ++next_drop_) {
    const Drop& drop = drops_[next_drop_];
    read_to(drop.tokens_read);
    growing_->discard(drop.keep, drop.discard);
  }
  read_to(text.size());
}

/// A text that cannot go on masks nothing: that it went on is a finding of its own.
void PlainReader::mask(std::span<const Token> text, const TokenSet* stated) {
  by_constraint_.reset();
  if (constraint_ && constraint_->possible(text.subspan(constrained_from_))) {
    const auto output = text.subspan(constrained_from_);
    TokenSet allowed = constraint_->allowed(output);
    if (constraint_->complete(output)) {
      for (const Token stop : stops_) allowed.add(stop);
    }
    if (!allowed.empty()) by_constraint_ = std::move(allowed);
  }
  if (stated != nullptr) allowed_ = *stated;
  else allowed_ = by_constraint_;
}

std::optional<Fingerprint> PlainReader::state_after(std::span<const Token> text) {
  if (twin_ || text.empty() || text.size() < constrained_from_) return std::nullopt;
  after(text);
  return growing_->digest();
}

void PlainReader::read_exactly(std::span<const Token> text) {
  const auto continues = [&] {
    const std::span<const Token> read = exact_->tokens();
    return read.size() < text.size() && std::equal(read.begin(), read.end(), text.begin());
  };
  if (!exact_ || !continues()) exact_ = std::make_unique<TwinText>(*twin_);
  logits_ = exact_->read(text.subspan(exact_->tokens().size()));
}

/// Reads the rows that the feedback after this text depends on.
void PlainReader::read_before(std::span<const Token> text) {
  const auto same = static_cast<std::size_t>(std::ranges::mismatch(fed_, text).in1 - fed_.begin());
  if (same < fed_.size()) {
    const std::size_t kept = same < prompt_ ? 0 : std::min(fed_rows_.size(), same + 1 - prompt_);
    fed_rows_.erase(fed_rows_.begin() + static_cast<std::ptrdiff_t>(kept), fed_rows_.end());
    fed_.resize(same);
  }
  while (prompt_ + fed_rows_.size() < text.size()) after(text.first(prompt_ + fed_rows_.size()));
}

/// Applies the feedback to the row after this text.
void PlainReader::feed_back(std::span<const Token> text) {
  const std::size_t place = text.size() - prompt_;
  const Feedback feedback = place == 0
                                ? Feedback(sampling_)
                                : fed_rows_[place - 1].feedback.after(fed_rows_[place - 1].distribution, text.back());
  fed_rows_.erase(fed_rows_.begin() + static_cast<std::ptrdiff_t>(place), fed_rows_.end());
  fed_rows_.push_back({feedback, row_.distribution});
  fed_.assign(text.begin(), text.end());
  row_.distribution = feedback.applied_to(row_.distribution);
}

const PlainRow& PlainReader::after(std::span<const Token> text, const TokenSet* stated) {
  const auto context = static_cast<std::size_t>(target_.context());
  const auto dropped = static_cast<std::size_t>(dropped_);
  REQUIRE(!text.empty() && text.size() <= context + dropped, "a row follows some text, which fits the target");
  if (twin_) {
    if (!exact_ || !std::ranges::equal(exact_->tokens(), text)) read_exactly(text);
    mask(text, stated);
    return row_;
  }
  const bool feeds = sampling_.feeds_back() && text.size() >= prompt_;
  if (feeds) read_before(text);
  const bool continues = text.size() >= read_.size() && std::equal(read_.begin(), read_.end(), text.begin());
  if (growing_ && continues && text.size() == read_.size() && stated == nullptr) return row_;
  if (!growing_ || !continues || (text.size() > capacity_ && capacity_ < context)) {
    release();
    capacity_ = std::min(context, std::max<std::size_t>(2 * text.size(), 256));
    growing_.emplace(target_, static_cast<int>(capacity_));
  }
  read(text);
  mask(text, stated);
  row_ = row_of(row_logits_, sampling_, text, allowed());
  if (feeds) feed_back(text);
  logits_.assign(row_logits_.begin(), row_logits_.end());
  return row_;
}

}  // namespace draftproof::spectrace
