// SPDX-License-Identifier: MIT
#include "ref/text/pattern_syntax.h"

#include <algorithm>
#include <array>
#include <charconv>
#include <optional>
#include <utility>

#include "ref/base/error.h"
#include "ref/base/utf8.h"
#include "ref/text/newer_characters.h"

namespace draftproof {
namespace {

constexpr std::array<std::string_view, 37> general_categories = {
    "C",  "Cc", "Cf", "Cn", "Co", "Cs", "L",  "Ll", "Lm", "Lo", "Lt", "Lu", "M",  "Mc", "Me", "Mn", "N",  "Nd", "Nl",
    "No", "P",  "Pc", "Pd", "Pe", "Pf", "Pi", "Po", "Ps", "S",  "Sc", "Sk", "Sm", "So", "Z",  "Zl", "Zp", "Zs"};

bool is_digit(char character) { return character >= '0' && character <= '9'; }
bool is_ascii_punctuation(char character) {
  return character > ' ' && character < 0x7F && !is_digit(character) && !(character >= 'A' && character <= 'Z') &&
         !(character >= 'a' && character <= 'z');
}

class Translation {
 public:
  Translation(std::string_view expression, const std::string& origin) : expression_(expression), origin_(origin) {}

  std::string run() {
    bool repeatable = false;  // whether a quantifier may follow
    while (at_ < expression_.size()) {
      const char next = expression_[at_];
      if (next == '*' || next == '+' || next == '?' || next == '{') {
        if (!repeatable) refuse("a quantifier with nothing to repeat");
        quantifier();
        repeatable = false;
      } else if (next == '(') {
        group();
        repeatable = false;
      } else if (next == '|') {
        copy(1);
        repeatable = false;
      } else {
        if (next == '\\') {
          escape();
        } else if (next == '[') {
          character_class();
        } else if (next == '^' || next == '$') {
          refuse("a line anchor");  // of lines in Ruby's syntax, of the text in PCRE2's
        } else {
          copy(1);
        }
        repeatable = true;
      }
    }
    return std::move(translated_);
  }

 private:
  [[noreturn]] void refuse(const std::string& what) const {
    throw Error(origin_ + ": the expression has " + what + " at byte " + std::to_string(at_) +
                ", which is not implemented");
  }

  bool starts_with(std::string_view text) const { return expression_.substr(at_).starts_with(text); }

  void copy(std::size_t count) {
    translated_ += expression_.substr(at_, count);
    at_ += count;
  }

  void group() {
    for (const std::string_view opening : {"(?:", "(?=", "(?!", "(?<=", "(?<!", "(?>", "(?i:"}) {
      if (starts_with(opening)) return copy(opening.size());
    }
    if (starts_with("(?") || starts_with("(*")) refuse("a group of an unknown kind");
    copy(1);
  }

  void quantifier() {
    const bool counted = expression_[at_] == '{';
    bool range = false;
    if (counted) {
      std::size_t end = at_ + 1;
      const auto digits = [&] {
        const std::size_t first = end;
        while (end < expression_.size() && is_digit(expression_[end])) ++end;
        return end > first;
      };
      bool fine = digits();
      if (end < expression_.size() && expression_[end] == ',') {
        range = true;
        ++end;
        digits();
      }
      fine = fine && end < expression_.size() && expression_[end] == '}';
      if (!fine) refuse("a brace that is not {n}, {n,} or {n,m}");
      copy(end + 1 - at_);
    } else {
      copy(1);
    }
    if (starts_with("+")) {
      if (counted) refuse("a '+' after a counted repeat");  // possessive in PCRE2, a second repeat in Ruby's syntax
      copy(1);
    } else if (starts_with("?")) {
      if (counted && !range) refuse("a '?' after {n}");  // lazy in PCRE2, optional in Ruby's syntax
      copy(1);
    }
  }

  void character_class() {
    copy(1);
    if (starts_with("^")) copy(1);
    if (starts_with("]")) refuse("an empty character class");
    while (!starts_with("]")) {
      if (at_ == expression_.size()) refuse("a character class without end");
      if (starts_with("[")) refuse("a class inside a class");
      if (starts_with("&&")) refuse("an intersection of classes");
      if (starts_with("\\")) {
        escape();
      } else {
        copy(1);
      }
    }
    copy(1);
  }

  /// Translates one escape, inside or outside of a class.
  void escape() {
    const char name = at_ + 1 < expression_.size() ? expression_[at_ + 1] : '\0';
    switch (name) {
      case 's': return replace("\\p{White_Space}");
      case 'S': return replace("\\P{White_Space}");
      case 'd': return replace("\\p{Nd}");
      case 'D': return replace("\\P{Nd}");
      case 'n':
      case 'r':
      case 't':
      case 'f':
      case 'a':
      case 'e': return copy(2);
      case 'p':
      case 'P': return property();
      case 'x':  // two digits would be a byte in Ruby's syntax
        if (!starts_with("\\x{")) refuse("\\x without braces");
        return code_point(at_ + 3, expression_.find('}', at_), 1);
      case 'u': return code_point(at_ + 2, at_ + 6, 0);
      default: break;
    }
    if (!is_ascii_punctuation(name) && name != ' ') refuse("an unknown escape");
    copy(2);
  }

  void replace(std::string_view with) {
    translated_ += with;
    at_ += 2;
  }

  void property() {
    const std::size_t end = expression_.find('}', at_);
    if (at_ + 2 >= expression_.size() || expression_[at_ + 2] != '{' || end == std::string_view::npos) {
      refuse("a property without braces");
    }
    const std::string_view name = expression_.substr(at_ + 3, end - at_ - 3);
    if (name == "Han") {  // PCRE2 would add what only shares the script
      translated_ += std::string("\\") + expression_[at_ + 1] + "{sc:Han}";
      at_ = end + 1;
      return;
    }
    if (std::ranges::find(general_categories, name) == general_categories.end()) {
      refuse("a property that is neither a general category nor the script Han");
    }
    copy(end + 1 - at_);
  }

  /// Reads the hexadecimal digits in [first, last), then skips `closing` bytes.
  void code_point(std::size_t first, std::size_t last, std::size_t closing) {
    if (last == std::string_view::npos || last > expression_.size()) refuse("an unfinished escape");
    const std::string_view digits = expression_.substr(first, last - first);
    unsigned value = 0;
    const auto [stop, error] = std::from_chars(digits.data(), digits.data() + digits.size(), value, 16);
    if (digits.empty() || error != std::errc() || stop != digits.data() + digits.size()) refuse("a malformed escape");
    translated_ += "\\x{";
    translated_ += digits;
    translated_ += '}';
    at_ = last + closing;
  }

  std::string_view expression_;
  const std::string& origin_;
  std::size_t at_ = 0;
  std::string translated_;
};

}  // namespace

bool names_replaced_characters(std::string_view translated) {
  std::optional<char32_t> before;  // a character that a '-' follows
  std::optional<char32_t> last;
  for (std::size_t at = 0; at < translated.size();) {
    if (translated[at] == '-' && last && !before) {
      before = std::exchange(last, std::nullopt);
      ++at;
      continue;
    }
    char32_t character = 0;
    const bool is_number = translated.substr(at).starts_with("\\x{");
    const bool is_property = translated.substr(at).starts_with("\\p{") || translated.substr(at).starts_with("\\P{");
    if (is_number || is_property) {
      const std::size_t end = translated.find('}', at);
      unsigned value = 0;
      if (is_number) std::from_chars(translated.data() + at + 3, translated.data() + end, value, 16);
      character = value;
      at = end + 1;
    } else {
      if (translated[at] == '\\') ++at;
      const utf8::Character next = utf8::step(translated, at);
      character = next.code_point;
      at += next.length;
    }
    if (is_property) {
      last.reset();
    } else {
      last = character;
      if (is_replaced_among(before.value_or(character), character)) return true;
    }
    before.reset();
  }
  return false;
}

std::string translate_pattern(std::string_view expression, const std::string& origin) {
  return Translation(expression, origin).run();
}

}  // namespace draftproof
