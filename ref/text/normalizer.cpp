// SPDX-License-Identifier: MIT
#include "ref/text/normalizer.h"

#include "ref/base/error.h"
#include "ref/base/utf8.h"

namespace draftproof {
namespace {

constexpr std::size_t text_bytes_max = (std::size_t{1} << 31) - 1;  // positions in a text are 32 bits

void check_size(std::size_t bytes) {
  if (bytes <= text_bytes_max) return;
  throw Error("the text to encode is longer than 2 GiB once normalized; encode it in parts");
}

void append_checked(std::string& text, std::string_view more) {
  check_size(text.size() + more.size());
  text += more;
}

/// Calls `act` with each character and its bytes.
template <typename Act>
void for_each_character(std::string_view text, const Act& act) {
  for (std::size_t at = 0; at < text.size();) {
    const utf8::Character next = utf8::step(text, at);
    act(next.code_point, text.substr(at, next.length));
    at += next.length;
  }
}

bool is_removed_by_nmt(char32_t character) {
  return (character >= 0x1 && character <= 0x8) || character == 0xB || (character >= 0xE && character <= 0x1F) ||
         character == 0x7F || character == 0x8F || character == 0x9F;
}

bool is_space_for_nmt(char32_t character) {
  constexpr std::u32string_view spaces = U"\t\n\f\r\u1680\u2028\u2029\u2581\uFEFF\uFFFD";
  return spaces.find(character) != std::u32string_view::npos || (character >= 0x200B && character <= 0x200F);
}

}  // namespace

std::string Normalizer::apply(std::string_view text, MatchBudget& budget) const {
  std::string result(text);
  for (const Step& step : steps_) {
    result = step(result, budget);
    check_size(result.size());
  }
  return result;
}

namespace normalizers {

Normalizer::Step form(unicode::Form form) {
  return [form](std::string_view text, MatchBudget&) { return unicode::normalized(form, text); };
}

Normalizer::Step lower_case() {
  return [](std::string_view text, MatchBudget&) { return unicode::lower_case(text); };
}

Normalizer::Step strip(bool left, bool right) {
  return [left, right](std::string_view text, MatchBudget&) {
    std::size_t begin = 0;
    std::size_t end = 0;  // of the last character that is no space
    bool leading = true;
    for_each_character(text, [&](char32_t character, std::string_view bytes) {
      const auto after = static_cast<std::size_t>(bytes.data() + bytes.size() - text.data());
      leading = leading && unicode::is_space(character);
      if (leading) begin = after;
      if (!unicode::is_space(character)) end = after;
    });
    if (!left) begin = 0;
    if (!right) end = text.size();
    return std::string(text.substr(begin, std::max(begin, end) - begin));
  };
}

Normalizer::Step strip_accents() {
  return [](std::string_view text, MatchBudget&) {
    std::string result;
    for_each_character(text, [&](char32_t character, std::string_view bytes) {
      if (!unicode::is_mark(character)) result += bytes;
    });
    return result;
  };
}

Normalizer::Step nmt() {
  return [](std::string_view text, MatchBudget&) {
    std::string result;
    for_each_character(text, [&](char32_t character, std::string_view bytes) {
      if (!is_removed_by_nmt(character)) result += is_space_for_nmt(character) ? " " : bytes;
    });
    return result;
  };
}

Normalizer::Step prepend(const std::string& text) {
  return [first = text](std::string_view text, MatchBudget&) {
    return text.empty() ? std::string() : first + std::string(text);
  };
}

Normalizer::Step replace(const std::string& what, const std::string& with) {
  return [what, with](std::string_view text, MatchBudget&) {
    std::string result;
    std::size_t done = 0;
    for (std::size_t at = text.find(what); at != std::string_view::npos; at = text.find(what, done)) {
      result += text.substr(done, at - done);
      append_checked(result, with);
      done = at + what.size();
    }
    result += text.substr(done);
    return result;
  };
}

Normalizer::Step replace(Pattern pattern, const std::string& with) {
  const auto shared = std::make_shared<const Pattern>(std::move(pattern));
  return [shared, with](std::string_view text, MatchBudget& budget) {
    std::vector<PatternPart> parts;
    shared->split(text, budget, parts);
    std::string result;
    for (const PatternPart& part : parts) append_checked(result, part.matches ? with : part.text);
    return result;
  };
}

Normalizer::Step replace_graphemes(Charsmap map) {
  const auto shared = std::make_shared<const Charsmap>(std::move(map));
  return [shared](std::string_view text, MatchBudget&) {
    constexpr std::size_t whole_bytes_max = 5;
    std::string result;
    for (const std::string_view cluster : unicode::graphemes(text)) {
      const auto whole = cluster.size() <= whole_bytes_max ? shared->shortest(cluster) : std::nullopt;
      if (whole) {
        append_checked(result, whole->replacement);
        continue;
      }
      for_each_character(cluster, [&](char32_t, std::string_view bytes) {
        const auto single = shared->shortest(bytes);
        append_checked(result, single ? single->replacement : bytes);
      });
    }
    return result;
  };
}

Normalizer::Step sentencepiece(SentencePiece rules) {
  return [rules](std::string_view text, MatchBudget&) {
    const std::string_view space = rules.mark_spaces ? space_mark : " ";
    std::string result;
    bool after_space = rules.remove_extra_spaces;
    if (rules.add_space && !text.empty()) result += space;
    for (std::size_t at = 0; at < text.size();) {
      const std::string_view rest = text.substr(at);
      std::size_t length = rules.kept ? rules.kept->longest_match(rest) : 0;
      std::string_view next = rest.substr(0, length);
      if (const auto found = length == 0 && rules.map ? rules.map->longest(rest) : std::nullopt) {
        length = found->length;
        next = found->replacement;
      } else if (length == 0) {
        length = utf8::step(rest, 0).length;
        next = rest.substr(0, length);
      }
      at += length;
      while (after_space && next.starts_with(' ')) next.remove_prefix(1);
      if (next.empty()) continue;
      check_size(result.size() + next.size() * space.size());
      for (const char byte : next) byte == ' ' ? result += space : result += byte;
      after_space = rules.remove_extra_spaces && next.ends_with(' ');
    }
    while (rules.remove_extra_spaces && result.ends_with(space)) result.resize(result.size() - space.size());
    return result;
  };
}

}  // namespace normalizers

}  // namespace draftproof
