// SPDX-License-Identifier: MIT
#include "ref/answers/literals.h"

#include <algorithm>
#include <optional>

#include "ref/answers/blanks.h"
#include "ref/base/error.h"
#include "ref/base/utf8.h"
#include "ref/formats/json.h"
#include "ref/grammar/json_schema.h"

namespace draftproof {
namespace {

constexpr int depth_max = 64;  // of containers

/// nullopt: it is no JSON.
std::optional<Json> parsed(std::string_view text) {
  try {
    return Json::parse(text, "a value");
  } catch (const Error&) {
    return std::nullopt;
  }
}

/// Reads the values of one notation and writes JSON. A value that is none of them is a text up to the next separator.
class LiteralReader {
 public:
  struct Notation {
    std::string_view quotes;  // each a character that begins and ends a string
    std::string_view mark;    // ... or this
    char after_key;
    bool bare_keys;  // of objects
  };

  LiteralReader(std::string_view text, const Notation& notation) : text_(text), notation_(notation) {}

  /// The whole list between `open` and `close`, as an object.
  std::string arguments(char close) {
    ++at_;
    return object(close, notation_.after_key, true, 0);
  }

  /// The whole text as a value; nullopt where it is none of the notation.
  std::optional<std::string> whole() {
    const bool is_word = text_ == "True" || text_ == "False" || text_ == "None";
    if (!is_word && !text_.starts_with('[') && !text_.starts_with('{')) return std::nullopt;
    std::string json = value("", 0);
    skip();
    return is_open() ? std::nullopt : std::optional(std::move(json));
  }

 private:
  void skip() { at_ = behind_blanks(text_, at_); }
  char peek() const { return at_ < text_.size() ? text_[at_] : '\0'; }
  bool is_open() const { return at_ < text_.size(); }

  std::string object(char close, char after_key, bool bare, int depth) {
    std::string json = "{";
    for (skip(); is_open() && peek() != close; skip()) {
      const std::size_t begin = at_;
      if (json.size() > 1) json += ", ";
      if (bare && !begins_string()) json += json_of_text(until(std::string(1, after_key) + close));
      else json += value(std::string(1, after_key) + close, depth);
      skip();
      if (peek() == after_key) ++at_;
      skip();
      json += ": " + value(std::string(",") + close, depth + 1);
      skip();
      if (peek() == ',') ++at_;
      if (at_ == begin) ++at_;
    }
    ++at_;
    return json + "}";
  }

  std::string array(int depth) {
    std::string json = "[";
    for (skip(); is_open() && peek() != ']'; skip()) {
      const std::size_t begin = at_;
      json += (json.size() > 1 ? ", " : "") + value(",]", depth + 1);
      skip();
      if (peek() == ',') ++at_;
      if (at_ == begin) ++at_;
    }
    ++at_;
    return json + "]";
  }

  bool begins_string() const {
    return (!notation_.mark.empty() && text_.substr(at_).starts_with(notation_.mark)) ||
           notation_.quotes.find(peek()) != std::string_view::npos;
  }

  std::string value(const std::string& ends, int depth) {
    if (!notation_.mark.empty() && text_.substr(at_).starts_with(notation_.mark)) {
      at_ += notation_.mark.size();
      const std::size_t end = std::min(text_.find(notation_.mark, at_), text_.size());
      const std::string json = json_of_text(text_.substr(at_, end - at_));
      at_ = std::min(end + notation_.mark.size(), text_.size());
      return json;
    }
    if (begins_string()) return quoted();
    if (depth < depth_max && peek() == '[') return ++at_, array(depth);
    if (depth < depth_max && peek() == '{') return ++at_, object('}', ':', notation_.bare_keys, depth);
    const std::string_view word = until(ends);
    if (word == "True") return "true";
    if (word == "False") return "false";
    if (word == "None") return "null";
    return parsed(word) ? std::string(word) : json_of_text(word);
  }

  std::string_view until(const std::string& ends) {
    const std::size_t begin = at_;
    at_ = std::min(text_.find_first_of(ends, at_), text_.size());
    const std::string_view word = text_.substr(begin, at_ - begin);
    return word.substr(0, without_blanks_behind(word));
  }

  /// With the escapes that Python and JSON have in common.
  std::string quoted() {
    const char quote = text_[at_++];
    std::string text;
    for (; is_open() && peek() != quote; ++at_) {
      if (peek() != '\\' || at_ + 1 == text_.size()) {
        text += peek();
        continue;
      }
      ++at_;
      if (peek() == 'u') {
        text += text_of_json("\"\\" + std::string(text_.substr(at_, 5)) + "\"");
        at_ = std::min(at_ + 4, text_.size() - 1);
        continue;
      }
      constexpr std::string_view letters = "nrtbf";
      const std::size_t place = letters.find(peek());
      text += place == std::string_view::npos ? peek() : "\n\r\t\b\f"[place];
    }
    if (is_open()) ++at_;
    return json_of_text(text);
  }

  std::string_view text_;
  const Notation& notation_;
  std::size_t at_ = 0;
};

constexpr LiteralReader::Notation of_python = {.quotes = "'\"", .mark = "", .after_key = '=', .bare_keys = false};

LiteralReader::Notation of_gemma(std::string_view quote) {
  return {.quotes = "\"", .mark = quote, .after_key = ':', .bare_keys = true};
}

}  // namespace

std::string json_of_text(std::string_view text) { return json_string(utf8::replace_broken(text)); }

std::string json_of_value(std::string_view text) {
  if (parsed(text)) return std::string(text);
  return LiteralReader(text, of_python).whole().value_or(json_of_text(text));
}

std::string text_of_json(std::string_view string) {
  const auto json = parsed(string);
  return json && json->is_string() ? json->string() : "";
}

std::size_t end_of_python_arguments(std::string_view text) {
  int depth = 0;
  char quote = 0;
  for (std::size_t at = 0; at < text.size(); ++at) {
    const char c = text[at];
    if (quote != 0) {
      if (c == '\\') ++at;
      else if (c == quote) quote = 0;
    } else if (c == '\'' || c == '"') {
      quote = c;
    } else if (c == '(' || c == '[' || c == '{') {
      ++depth;
    } else if ((c == ')' || c == ']' || c == '}') && --depth <= 0) {
      return at + 1;
    }
  }
  return std::string_view::npos;
}

std::size_t end_of_gemma_arguments(std::string_view text, std::string_view quote) {
  int depth = 0;
  for (std::size_t at = 0; at < text.size(); ++at) {
    if (text.substr(at).starts_with(quote)) {
      const std::size_t end = text.find(quote, at + quote.size());
      if (end == std::string_view::npos) return end;
      at = end + quote.size() - 1;
    } else if (text[at] == '{' || text[at] == '[') {
      ++depth;
    } else if ((text[at] == '}' || text[at] == ']') && --depth <= 0) {
      return at + 1;
    }
  }
  return std::string_view::npos;
}

std::string json_of_python_arguments(std::string_view text) { return LiteralReader(text, of_python).arguments(')'); }
std::string json_of_gemma_arguments(std::string_view text, std::string_view quote) {
  const LiteralReader::Notation notation = of_gemma(quote);
  return LiteralReader(text, notation).arguments('}');
}

}  // namespace draftproof
