// SPDX-License-Identifier: MIT
#include "ref/chat/jinja_lexer.h"

#include <algorithm>
#include <charconv>
#include <cmath>
#include <iterator>
#include <optional>

#include "ref/base/error.h"
#include "ref/base/utf8.h"
#include "ref/chat/jinja_text.h"
#include "ref/formats/printable.h"

namespace draftproof::jinja {
namespace {

using Kind = LexicalToken::Kind;

bool is_digit(char c) { return c >= '0' && c <= '9'; }
bool is_letter(char c) { return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || c == '_'; }

/// Line feeds only, and without the last one.
std::string with_plain_lines(std::string_view source) {
  std::string text;
  text.reserve(source.size());
  for (std::size_t i = 0; i < source.size(); ++i) {
    if (source[i] == '\r' && i + 1 < source.size() && source[i + 1] == '\n') continue;
    text += source[i] == '\r' ? '\n' : source[i];
  }
  if (text.ends_with('\n')) text.pop_back();
  return text;
}

class Lexer {
 public:
  Lexer(std::string_view source, const std::string& origin) : text_(with_plain_lines(source)), origin_(origin) {}

  std::vector<LexicalToken> run() {
    while (at_ < text_.size()) {
      const std::size_t begin = next_begin();
      data(begin);
      if (begin == text_.size()) break;
      const char what = text_[begin + 1];
      advance(begin + 2);
      sign();
      if (what == '#') {
        comment();
      } else if (what == '{') {
        expression(Kind::variable_begin, Kind::variable_end, "}}");
      } else if (!raw()) {
        expression(Kind::block_begin, Kind::block_end, "%}");
      }
    }
    add(Kind::end);
    return std::move(tokens_);
  }

 private:
  [[noreturn]] void fail(const std::string& what) const { throw Error(at_line(origin_, line_) + what); }

  char peek(std::size_t ahead = 0) const { return at_ + ahead < text_.size() ? text_[at_ + ahead] : '\0'; }
  bool next_is(std::string_view what) const { return std::string_view(text_).substr(at_).starts_with(what); }

  void advance(std::size_t to) {
    line_ += static_cast<int>(std::count(text_.begin() + static_cast<std::ptrdiff_t>(at_),
                                         text_.begin() + static_cast<std::ptrdiff_t>(to), '\n'));
    at_ = to;
  }

  void add(Kind kind, std::string text = {}) {
    tokens_.push_back({.kind = kind, .text = std::move(text), .line = line_});
  }

  /// Where the next construct begins.
  std::size_t next_begin() const {
    for (std::size_t at = text_.find('{', at_); at != std::string::npos; at = text_.find('{', at + 1)) {
      if (at + 1 < text_.size() && std::string_view("{%#").find(text_[at + 1]) != std::string_view::npos) return at;
    }
    return text_.size();
  }

  /// Returns where text that a construct at `begin` follows ends: white space before the construct may not count.
  std::size_t end_of_data(std::size_t from, std::size_t begin) const {
    if (begin == text_.size()) return begin;
    const char sign = begin + 2 < text_.size() ? text_[begin + 2] : '\0';
    const std::string_view before = std::string_view(text_).substr(from, begin - from);
    if (sign == '-') return from + trimmed_end(before);
    if (sign == '+' || text_[begin + 1] == '{') return begin;
    const std::size_t feed = before.rfind('\n');
    if (feed == std::string_view::npos && !line_starts_) return begin;
    const std::size_t line = feed == std::string_view::npos ? 0 : feed + 1;
    return trimmed_end(before.substr(line)) == 0 ? from + line : begin;
  }

  void data(std::size_t begin) {
    const std::size_t end = end_of_data(at_, begin);
    if (end > at_) add(Kind::data, text_.substr(at_, end - at_));
    advance(begin);
  }

  void sign() {
    if (peek() == '-' || peek() == '+') advance(at_ + 1);
  }

  std::size_t after_spaces(std::size_t at) const { return at + trimmed_begin(std::string_view(text_).substr(at)); }

  /// Reads `-`, `+` or nothing, and `close`; returns false, reading nothing, when something else follows.
  bool ends_with_close(std::string_view close, bool takes_plus) {
    const bool minus = peek() == '-';
    const bool plus = peek() == '+' && takes_plus;
    const std::size_t mark = at_ + (minus || plus ? 1 : 0);
    if (!std::string_view(text_).substr(mark).starts_with(close)) return false;
    std::size_t end = mark + close.size();
    if (minus) {
      end = after_spaces(end);
    } else if (!plus && close != "}}" && end < text_.size() && text_[end] == '\n') {
      ++end;
    }
    advance(end);
    line_starts_ = text_[end - 1] == '\n';
    return true;
  }

  /// Like Jinja, takes one that begins where the template ends for one that ends there; so does `raw`.
  void comment() {
    if (at_ == text_.size()) return;
    const std::size_t end = text_.find("#}", at_);
    if (end == std::string::npos) fail("a comment that does not end; close it with #}");
    const char before = end > at_ ? text_[end - 1] : '\0';
    advance(before == '-' || before == '+' ? end - 1 : end);
    ends_with_close("#}", true);
  }

  /// Reads a raw block when "{%" begins one.
  bool raw() {
    const std::size_t name = after_spaces(at_);
    if (!std::string_view(text_).substr(name).starts_with("raw")) return false;
    std::size_t end = after_spaces(name + 3);
    const bool minus = end < text_.size() && text_[end] == '-';
    if (!std::string_view(text_).substr(end + (minus ? 1 : 0)).starts_with("%}")) return false;
    end += minus ? 3 : 2;
    if (minus) end = after_spaces(end);
    advance(end);
    line_starts_ = text_[end - 1] == '\n';
    if (at_ == text_.size()) return true;
    for (std::size_t at = text_.find("{%", at_); at != std::string::npos; at = text_.find("{%", at + 1)) {
      std::size_t inside = at + 2;
      if (inside < text_.size() && (text_[inside] == '-' || text_[inside] == '+')) ++inside;
      inside = after_spaces(inside);
      if (!std::string_view(text_).substr(inside).starts_with("endraw")) continue;
      const std::size_t content_end = end_of_data(at_, at);
      const std::string content = text_.substr(at_, content_end - at_);
      const std::size_t line = at_;
      advance(after_spaces(inside + 6));
      if (!ends_with_close("%}", true)) {
        at_ = line;
        continue;
      }
      if (!content.empty()) add(Kind::data, content);
      return true;
    }
    fail("a raw block that does not end; close it with {% endraw %}");
  }

  void expression(Kind begin, Kind end, std::string_view close) {
    add(begin);
    std::string open;  // the brackets that wait for their other half
    while (true) {
      advance(after_spaces(at_));
      if (at_ == text_.size()) fail("the template ends inside {" + std::string(begin == Kind::block_begin ? "%" : "{"));
      if (open.empty() && ends_with_close(close, begin == Kind::block_begin)) break;
      token(open);
    }
    add(end);
  }

  void token(std::string& open) {
    const char c = peek();
    if (is_digit(c)) return number();
    if (is_letter(c)) return name();
    if (c == '\'' || c == '"') return literal(c);
    for (const std::string_view mark : {"//", "**", "==", "!=", ">=", "<="}) {
      if (next_is(mark)) return add_mark(mark.size());
    }
    if (std::string_view("+-/*%~[](){}<>=.:|,;").find(c) == std::string_view::npos) {
      const utf8::Character step = utf8::step(text_, at_);
      fail("unexpected character " + in_quotes(std::string_view(text_).substr(at_, step.length)));
    }
    if (std::string_view("([{").find(c) != std::string_view::npos) {
      open += c == '(' ? ')' : c == '[' ? ']' : '}';
    } else if (std::string_view(")]}").find(c) != std::string_view::npos) {
      if (open.empty() || open.back() != c) fail("unexpected " + in_quotes(std::string_view(&c, 1)));
      open.pop_back();
    }
    add_mark(1);
  }

  void add_mark(std::size_t size) {
    add(Kind::mark, text_.substr(at_, size));
    advance(at_ + size);
  }

  void name() {
    std::size_t end = at_;
    while (end < text_.size() && (is_letter(text_[end]) || is_digit(text_[end]))) ++end;
    add(Kind::name, text_.substr(at_, end - at_));
    advance(end);
  }

  /// Digits, between which single underscores may lie.
  std::size_t digits_end(std::size_t at, std::string& digits) const {
    while (at < text_.size() && (is_digit(text_[at]) || (text_[at] == '_' && at + 1 < text_.size() &&
                                                         is_digit(text_[at + 1]) && is_digit(text_[at - 1])))) {
      if (text_[at] != '_') digits += text_[at];
      ++at;
    }
    return at;
  }

  void number() {
    std::string digits;
    std::size_t end = digits_end(at_, digits);
    if (end < text_.size() && is_letter(text_[end]) && text_[end] != 'e' && text_[end] != 'E') {
      fail("a number that goes on with letters, which is not implemented");
    }
    bool integral = true;
    const auto digit_at = [&](std::size_t at) { return at < text_.size() && is_digit(text_[at]); };
    if (end < text_.size() && text_[end] == '.' && digit_at(end + 1)) {
      integral = false;
      digits += '.';
      end = digits_end(end + 1, digits);
    }
    if (end < text_.size() && (text_[end] == 'e' || text_[end] == 'E')) {
      const bool has_sign = end + 1 < text_.size() && (text_[end + 1] == '-' || text_[end + 1] == '+');
      const std::size_t first = end + (has_sign ? 2 : 1);
      if (!digit_at(first)) fail("a number that goes on with letters, which is not implemented");
      integral = false;
      digits += 'e';
      if (has_sign) digits += text_[end + 1];
      end = digits_end(first, digits);
    }
    LexicalToken token{.kind = integral ? Kind::integer : Kind::number, .text = {}, .line = line_};
    const char* const last = digits.data() + digits.size();
    const std::errc failure = integral ? std::from_chars(digits.data(), last, token.integer).ec
                                       : std::from_chars(digits.data(), last, token.number).ec;
    if (failure != std::errc{}) fail("the number " + printable(digits) + " is too large, which is not implemented");
    if (integral && digits.size() > 1 && digits[0] == '0' && digits.find_first_not_of('0') != std::string::npos) {
      fail("a number that begins with 0: " + printable(digits));
    }
    tokens_.push_back(std::move(token));
    advance(end);
  }

  void literal(char quote) {
    std::size_t end = at_ + 1;
    while (end < text_.size() && text_[end] != quote) end += text_[end] == '\\' ? 2 : 1;
    if (end >= text_.size()) fail("a string that does not end");
    add(Kind::text, unescaped(std::string_view(text_).substr(at_ + 1, end - at_ - 1)));
    advance(end + 1);
  }

  /// Reads up to `max` digits of `base` at `at`; throws Error when there are fewer than `min`.
  char32_t code_point(std::string_view text, std::size_t& at, std::size_t min, std::size_t max, int base) const {
    const std::string_view digits = text.substr(at, max);
    std::uint32_t value = 0;
    const auto [end, failure] = std::from_chars(digits.data(), digits.data() + digits.size(), value, base);
    const auto length = static_cast<std::size_t>(end - digits.data());
    if (failure != std::errc{} || length < min) fail("a string with a broken escape");
    if (value > 0x10FFFF || (value >= 0xD800 && value < 0xE000)) fail("a string with an escape of half a character");
    at += length;
    return value;
  }

  std::string unescaped(std::string_view text) const {
    constexpr std::string_view letters = "\\'\"abfnrtv";
    constexpr std::string_view meanings = "\\'\"\a\b\f\n\r\t\v";
    std::string result;
    for (std::size_t at = 0; at < text.size();) {
      if (text[at] != '\\') {
        result += text[at++];
        continue;
      }
      const char c = text[at + 1];
      at += 2;
      if (const std::size_t letter = letters.find(c); letter != std::string_view::npos) {
        result += meanings[letter];
      } else if (c == '\n') {
      } else if (c == 'x' || c == 'u' || c == 'U') {
        const std::size_t length = c == 'x' ? 2 : c == 'u' ? 4 : 8;
        utf8::append(result, code_point(text, at, length, length, 16));
      } else if (c >= '0' && c <= '7') {
        --at;
        utf8::append(result, code_point(text, at, 1, 3, 8));
      } else if (c == 'N') {
        fail("the escape \\N in a string is not implemented; write the character");
      } else {
        result += '\\';
        result += c;
      }
    }
    return result;
  }

  std::string text_;
  const std::string& origin_;
  std::size_t at_ = 0;
  int line_ = 1;
  bool line_starts_ = true;  // what was read last ends a line
  std::vector<LexicalToken> tokens_;
};

}  // namespace

std::string at_line(const std::string& origin, int line) { return origin + ": line " + std::to_string(line) + ": "; }

std::vector<LexicalToken> cut_into_tokens(std::string_view source, const std::string& origin) {
  if (!utf8::is_valid(source)) throw Error(origin + ": is not UTF-8; convert it first");
  return Lexer(source, origin).run();
}

}  // namespace draftproof::jinja
