// SPDX-License-Identifier: MIT
#include "oracle/spectrace/plain_reader.h"

#include <algorithm>

#include "ref/base/require.h"

namespace draftproof::spectrace {

void PlainReader::release() noexcept {
  growing_.reset();
  capacity_ = 0;
  read_.clear();
}

const PlainRow& PlainReader::after(std::span<const Token> text) {
  const auto context = static_cast<std::size_t>(target_.context());
  REQUIRE(!text.empty() && text.size() <= context, "a row follows some text, which fits the target");
  const bool continues = text.size() >= read_.size() && std::equal(read_.begin(), read_.end(), text.begin());
  if (growing_ && continues && text.size() == read_.size()) return row_;
  if (!growing_ || !continues || text.size() > capacity_) {
    release();
    capacity_ = std::min(context, std::max<std::size_t>(2 * text.size(), 256));
    growing_.emplace(target_, static_cast<int>(capacity_));
  }
  logits_ = growing_->logits_after(text);
  read_.insert(read_.end(), text.begin() + static_cast<std::ptrdiff_t>(read_.size()), text.end());
  row_ = row_of(logits_, sampling_, text);
  return row_;
}

}  // namespace draftproof::spectrace
