// SPDX-License-Identifier: MIT
#include "ref/text/translated_text.h"

#include <algorithm>

#include "ref/base/error.h"
#include "ref/base/utf8.h"

namespace draftproof {
namespace {

/// Empty when the tokenizer cannot encode the text.
std::vector<Token> encoded(const Tokenizer& tokenizer, std::string_view text, std::span<const TextRange> special) {
  try {
    return tokenizer.encode(text, false, special);
  } catch (const Error&) {  // it lacks a byte, or a regular expression takes too long
    return {};
  }
}

bool is_inside_character(char byte) { return (static_cast<unsigned char>(byte) & 0xC0) == 0x80; }

}  // namespace

TranslatedText::TranslatedText(const Tokenizer& target, const Tokenizer& draft)
    : target_(target), draft_(draft), detokenizer_(target, false, TextPlace::beginning) {}

void TranslatedText::append(Token token) {
  const std::vector<Token>& before = target_.tokens_before();
  const bool is_before = before_ == appended_ && before_ < before.size() && token == before[before_];
  ++appended_;
  if (is_before) {
    ++before_;
    return;
  }
  const std::size_t unfinished = unfinished_.size();
  detokenizer_.append(token, unfinished_);
  const std::size_t size = unfinished_.size() - unfinished;
  text_ += utf8::take_finished(unfinished_);
  if (target_.is_special(token)) special_.push_back({text_.size() - size, text_.size()});
}

std::vector<Token> TranslatedText::in_draft_tokens() const {
  std::vector<Token> tokens = draft_.tokens_before();
  if (text_.empty()) return tokens;
  const std::vector<Token> of_text = encoded(draft_, text_, special_);
  if (of_text.empty()) return {};
  tokens.insert(tokens.end(), of_text.begin(), of_text.end());
  return tokens;
}

TranslatedContinuation::TranslatedContinuation(const TranslatedText& text)
    : text_(text),
      detokenizer_(text.draft_, false, text.text_.empty() ? TextPlace::beginning : TextPlace::continuation) {
  const std::string& whole = text.text_;
  std::size_t begin = whole.size() - std::min(whole.size(), context_bytes);
  if (!text.special_.empty()) begin = std::max(begin, text.special_.back().end);
  while (begin < whole.size() && (whole[begin] == ' ' || is_inside_character(whole[begin]))) ++begin;
  context_ = whole.substr(begin);
}

bool TranslatedContinuation::append(Token token) {
  const Tokenizer& draft = text_.draft_;
  if (draft.is_special(token)) {
    ended_ = true;
    end_ = text_.target_.find(draft.text_of(token));
    if (!text_.target_.is_special(end_)) end_ = -1;
    return false;
  }
  const std::size_t size = bytes_.size();
  detokenizer_.append(token, bytes_);
  const std::size_t common = std::min(bytes_.size(), text_.unfinished_.size());
  return bytes_.size() > size && bytes_.compare(0, common, text_.unfinished_, 0, common) == 0;
}

std::vector<Token> TranslatedContinuation::in_target_tokens() const {
  std::string bytes = bytes_;
  const std::string text = context_ + utf8::take_finished(bytes);
  const std::string committed = context_ + text_.unfinished_;
  std::vector<Token> tokens = encoded(text_.target_, text, {});
  Detokenizer detokenizer(text_.target_, false, TextPlace::beginning);
  std::string decoded;
  std::size_t first = 0;
  while (decoded.size() < committed.size() && first < tokens.size()) detokenizer.append(tokens[first++], decoded);
  if (decoded != committed) return {};
  tokens.erase(tokens.begin(), tokens.begin() + static_cast<std::ptrdiff_t>(first));
  if (!ended_ && !tokens.empty()) tokens.pop_back();
  if (ended_ && end_ >= 0) tokens.push_back(end_);
  return tokens;
}

}  // namespace draftproof
