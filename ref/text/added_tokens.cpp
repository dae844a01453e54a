// SPDX-License-Identifier: MIT
#include "ref/text/added_tokens.h"

#include <algorithm>

#include "ref/base/utf8.h"
#include "ref/text/unicode.h"

namespace draftproof {
namespace {

constexpr std::size_t longest_character = 4;

char32_t first_character(std::string_view text) { return utf8::step(text, 0).code_point; }

std::size_t last_character_start(std::string_view text) {
  std::size_t start = text.size() - 1;
  while (start > 0 && text.size() - start < longest_character && (text[start] & 0xC0) == 0x80) --start;
  return start;
}

char32_t last_character(std::string_view text) { return utf8::step(text, last_character_start(text)).code_point; }

bool borders_on_words(std::string_view before, std::string_view after) {
  return (!before.empty() && unicode::is_word(last_character(before))) ||
         (!after.empty() && unicode::is_word(first_character(after)));
}

std::size_t leading_space(std::string_view text) {
  std::size_t end = 0;
  while (end < text.size() && unicode::is_space(first_character(text.substr(end)))) end += utf8::step(text, end).length;
  return end;
}

/// Returns where the trailing white space of `text` begins, at least `min`.
std::size_t trailing_space_start(std::string_view text, std::size_t min) {
  std::size_t start = text.size();
  while (start > min && unicode::is_space(last_character(text.substr(0, start)))) {
    start = last_character_start(text.substr(0, start));
  }
  return start;
}

}  // namespace

AddedTokenCutter::AddedTokenCutter(std::vector<AddedToken> tokens) : tokens_(std::move(tokens)) {
  std::sort(tokens_.begin(), tokens_.end(),
            [](const AddedToken& left, const AddedToken& right) { return left.pattern < right.pattern; });
  for (const AddedToken& token : tokens_) {
    first_bytes_.set(static_cast<unsigned char>(token.pattern.front()));
    has_special_ = has_special_ || token.special;
  }
}

const AddedToken* AddedTokenCutter::longest_at(std::string_view text) const {
  if (!first_bytes_.test(static_cast<unsigned char>(text.front()))) return nullptr;
  const AddedToken* longest = nullptr;
  auto first = tokens_.begin();
  auto last = tokens_.end();
  // [first, last) share their first `depth` bytes with the text, so the one of that length comes first.
  for (std::size_t depth = 0; first != last; ++depth) {
    if (first->pattern.size() == depth) longest = &*first++;
    if (depth == text.size()) break;
    const auto byte_of = [depth](const AddedToken& token) { return static_cast<unsigned char>(token.pattern[depth]); };
    const auto wanted = static_cast<unsigned char>(text[depth]);
    first = std::partition_point(first, last, [&](const AddedToken& token) { return byte_of(token) < wanted; });
    last = std::partition_point(first, last, [&](const AddedToken& token) { return byte_of(token) == wanted; });
  }
  return longest;
}

std::size_t AddedTokenCutter::longest_match(std::string_view text) const {
  const AddedToken* token = text.empty() ? nullptr : longest_at(text);
  return token != nullptr ? token->pattern.size() : 0;
}

std::vector<TextPart> AddedTokenCutter::cut(std::string_view text, std::span<const TextRange> special) const {
  std::vector<TextPart> parts;
  std::size_t done = 0;
  auto range = special.begin();
  for (std::size_t at = 0; at < text.size();) {
    const AddedToken* token = longest_at(text.substr(at));
    if (token == nullptr) {
      ++at;
      continue;
    }
    while (range != special.end() && range->end <= at) ++range;
    const bool inside = range != special.end() && range->begin <= at;
    if (token->special && !(inside && at + token->pattern.size() <= range->end)) {
      const AddedToken* const within = inside ? longest_at(text.substr(at, range->end - at)) : nullptr;
      if (within == nullptr) {
        at += token->pattern.size();  // as below: it hides shorter ones, but none that a later range may have
        const auto next = inside ? std::next(range) : range;
        if (next != special.end()) at = std::min(at, next->begin);
        continue;
      }
      token = within;
    }
    std::size_t begin = at;
    std::size_t end = at + token->pattern.size();
    at = end;  // as in the reference: a token rejected here hides shorter ones; rstrip hides none
    if (token->single_word && borders_on_words(text.substr(0, begin), text.substr(end))) continue;
    if (token->lstrip) begin = std::max(trailing_space_start(text.substr(0, begin), std::min(done, begin)), done);
    if (token->rstrip) end += leading_space(text.substr(end));
    if (done < begin) parts.push_back({text.substr(done, begin - done), -1});
    parts.push_back({{}, token->id});
    done = end;  // as in the reference: behind a token inside the white space that rstrip removed, its rest is text
  }
  if (done < text.size()) parts.push_back({text.substr(done), -1});
  return parts;
}

}  // namespace draftproof
