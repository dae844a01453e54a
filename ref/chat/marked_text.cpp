// SPDX-License-Identifier: MIT
#include "ref/chat/marked_text.h"

#include <algorithm>

#include "ref/base/utf8.h"

namespace draftproof::jinja {

MarkedText MarkedText::of_user(std::string bytes) {
  MarkedText text(std::move(bytes));
  text.mark(0, text.size());
  return text;
}

void MarkedText::mark(std::size_t begin, std::size_t end) {
  if (begin == end) return;
  if (!user_.empty() && user_.back().end == begin) {
    user_.back().end = end;
  } else {
    user_.push_back({begin, end});
  }
}

void MarkedText::append(const MarkedText& text, std::size_t begin, std::size_t end) {
  const std::size_t moved = bytes_.size();
  bytes_.append(text.bytes_, begin, end - begin);
  auto range = std::ranges::partition_point(text.user_, [&](const ByteRange& r) { return r.end <= begin; });
  for (; range != text.user_.end() && range->begin < end; ++range) {
    mark(moved + std::max(range->begin, begin) - begin, moved + std::min(range->end, end) - begin);
  }
}

void MarkedText::append(std::string_view bytes, bool by_user) {
  const std::size_t begin = bytes_.size();
  bytes_ += bytes;
  if (by_user) mark(begin, bytes_.size());
}

MarkedText MarkedText::part(std::size_t begin, std::size_t end) const {
  MarkedText result;
  result.append(*this, begin, end);
  return result;
}

MarkedCharacters::Character MarkedCharacters::next() {
  const utf8::Character step = utf8::step(text_.bytes(), at_);
  const std::vector<ByteRange>& ranges = text_.user_ranges();
  while (range_ < ranges.size() && ranges[range_].end <= at_) ++range_;
  const bool by_user = range_ < ranges.size() && ranges[range_].begin <= at_;
  const std::size_t begin = at_;
  at_ += step.length;
  return {std::string_view(text_.bytes()).substr(begin, step.length), step.code_point, by_user};
}

}  // namespace draftproof::jinja
