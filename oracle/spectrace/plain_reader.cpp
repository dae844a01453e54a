// SPDX-License-Identifier: MIT
#include "oracle/spectrace/plain_reader.h"

#include <algorithm>

#include "ref/acceptance/sampling.h"
#include "ref/base/require.h"

namespace draftproof::spectrace {

void PlainReader::make_room(std::size_t positions) {
  const auto context = static_cast<std::size_t>(target_.context());
  REQUIRE(positions <= context, "the text fits the target");
  capacity_ = std::min(context, std::max<std::size_t>(2 * positions, 256));
  cache_ = target_.new_cache(static_cast<int>(capacity_), prompt_rows);
  read_.clear();
}

void PlainReader::forget() noexcept {
  cache_.reset();
  capacity_ = 0;
  read_.clear();
}

const PlainRow& PlainReader::after(std::span<const Token> text) {
  REQUIRE(!text.empty(), "a row follows some text");
  const bool continues = text.size() >= read_.size() && std::equal(read_.begin(), read_.end(), text.begin());
  if (cache_ && continues && text.size() == read_.size()) return row_;
  if (!cache_ || !continues || text.size() > capacity_) make_room(text.size());
  while (read_.size() < text.size()) {
    const std::size_t rows = std::min<std::size_t>(prompt_rows, text.size() - read_.size());
    const auto tokens = text.subspan(read_.size(), rows);
    Transaction window = cache_->begin(static_cast<int>(rows));
    target_.forward({.tokens = tokens, .logits_from = static_cast<int>(rows) - 1}, *cache_, outputs_);
    window.commit(static_cast<int>(rows));
    read_.insert(read_.end(), tokens.begin(), tokens.end());
  }
  const auto logits = outputs_.logits_row(0, target_.vocabulary());
  row_ = {digest_of(logits), distribution_of(logits, sampling_, {text, {}})};
  return row_;
}

}  // namespace draftproof::spectrace
