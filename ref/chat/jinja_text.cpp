// SPDX-License-Identifier: MIT
#include "ref/chat/jinja_text.h"

#include <algorithm>
#include <functional>

#include "ref/base/utf8.h"
#include "ref/text/unicode.h"

namespace draftproof::jinja {
namespace {

constexpr std::uint64_t part_work = 64;  // of a text that is cut into parts

/// Python counts the four separators of ASCII as white space, too.
bool is_space(char32_t c) { return (c >= 0x1C && c <= 0x1F) || unicode::is_space(c); }

bool is_line_end(char32_t c) {
  return (c >= 0x0A && c <= 0x0D) || (c >= 0x1C && c <= 0x1E) || c == 0x85 || c == 0x2028 || c == 0x2029;
}

std::size_t last_character(std::string_view text) {
  std::size_t at = text.size() - 1;
  while (at > 0 && (text[at] & 0xC0) == 0x80) --at;
  return at;
}

template <class Wanted>
std::size_t front_bytes(std::string_view text, const Wanted& wanted) {
  std::size_t at = 0;
  while (at < text.size()) {
    const utf8::Character step = utf8::step(text, at);
    if (!wanted(step.code_point)) break;
    at += step.length;
  }
  return at;
}

template <class Wanted>
std::size_t bytes_before_back(std::string_view text, const Wanted& wanted) {
  while (!text.empty()) {
    const std::size_t last = last_character(text);
    if (!wanted(utf8::step(text, last).code_point)) break;
    text = text.substr(0, last);
  }
  return text.size();
}

}  // namespace

std::size_t trimmed_begin(std::string_view text) { return front_bytes(text, is_space); }
std::size_t trimmed_end(std::string_view text) { return bytes_before_back(text, is_space); }

MarkedText stripped(const MarkedText& text, std::optional<std::string_view> characters, Side side) {
  std::u32string set;
  for (std::size_t at = 0; characters && at < characters->size();) {
    const utf8::Character step = utf8::step(*characters, at);
    set += step.code_point;
    at += step.length;
  }
  std::ranges::sort(set);
  const auto wanted = [&](char32_t c) { return characters ? std::ranges::binary_search(set, c) : is_space(c); };
  const std::string_view bytes = text.bytes();
  const std::size_t begin = side == Side::right ? 0 : front_bytes(bytes, wanted);
  const std::size_t end = side == Side::left ? bytes.size() : begin + bytes_before_back(bytes.substr(begin), wanted);
  return text.part(begin, end);
}

std::int64_t length(std::string_view text) {
  return std::count_if(text.begin(), text.end(), [](char c) { return (c & 0xC0) != 0x80; });
}

MarkedText characters_at(const MarkedText& text, const std::vector<std::size_t>& indexes) {
  std::vector<std::size_t> begins;
  for (std::size_t at = 0; at < text.size(); ++at) {
    if ((text.bytes()[at] & 0xC0) != 0x80) begins.push_back(at);
  }
  begins.push_back(text.size());
  MarkedText result;
  for (const std::size_t index : indexes) result.append(text, begins[index], begins[index + 1]);
  return result;
}

MarkedText in_letters(const MarkedText& text, Letters letters) {
  MarkedText result;
  bool inside = false;  // of a word; for `capitalized`, behind the first character
  for (MarkedCharacters characters(text); !characters.done();) {
    const auto character = characters.next();
    const char32_t c = character.code_point;
    const bool small = letters == Letters::lower || inside;
    result.append(letters == Letters::upper ? unicode::upper_case(c)
                  : small                   ? unicode::lower_case(c)
                                            : unicode::title_case(c),
                  character.by_user);
    inside = letters == Letters::capitalized || (letters == Letters::title && unicode::is_cased(c));
  }
  return result;
}

MarkedText with_capital_words(const MarkedText& text) {
  MarkedText result;
  bool inside = false;
  for (MarkedCharacters characters(text); !characters.done();) {
    const auto character = characters.next();
    const char32_t c = character.code_point;
    result.append(inside ? unicode::lower_case(c) : unicode::upper_case(c), character.by_user);
    inside = !is_space(c) && std::u32string_view(U"-({[<").find(c) == std::u32string_view::npos;
  }
  return result;
}

MarkedText escaped(const MarkedText& text) {
  MarkedText result;
  for (MarkedCharacters characters(text); !characters.done();) {
    const auto [bytes, c, by_user] = characters.next();
    const std::string_view entity = c == '&'    ? "&amp;"
                                    : c == '<'  ? "&lt;"
                                    : c == '>'  ? "&gt;"
                                    : c == '\'' ? "&#39;"
                                    : c == '"'  ? "&#34;"
                                                : "";
    result.append(entity.empty() ? bytes : entity, by_user);
  }
  return result;
}

MarkedText replaced(const MarkedText& text, std::string_view what, const MarkedText& with, std::int64_t count,
                    Budget& budget) {
  const std::string_view bytes = text.bytes();
  budget.charge_search(bytes, what);
  MarkedText result;
  std::size_t done = 0;
  std::size_t from = 0;
  for (; count != 0; --count) {
    const std::size_t found = what.empty() ? from : bytes.find(what, from);
    if (found == std::string_view::npos || found > bytes.size()) break;
    budget.charge(8 + with.size());
    result.append(text, done, found);
    result.append(with);
    done = found + what.size();
    if (what.empty() && found == bytes.size()) break;
    from = what.empty() ? found + utf8::step(bytes, found).length : done;
  }
  result.append(text, done, bytes.size());
  return result;
}

std::vector<MarkedText> split(const MarkedText& text, std::optional<std::string_view> at, std::int64_t count,
                              Budget& budget) {
  if (at) budget.charge_search(text.bytes(), *at);
  const std::string_view bytes = text.bytes();
  std::vector<MarkedText> parts;
  if (at) {
    std::size_t done = 0;
    for (std::size_t found = bytes.find(*at); found != std::string_view::npos && count != 0; --count) {
      budget.charge(part_work);
      parts.push_back(text.part(done, found));
      done = found + at->size();
      found = bytes.find(*at, done);
    }
    parts.push_back(text.part(done, bytes.size()));
    return parts;
  }
  std::size_t done = trimmed_begin(bytes);
  for (; done < bytes.size() && count != 0; --count) {
    budget.charge(part_work);
    const std::string_view rest = bytes.substr(done);
    const std::size_t word = front_bytes(rest, [](char32_t c) { return !is_space(c); });
    parts.push_back(text.part(done, done + word));
    done += word + trimmed_begin(rest.substr(word));
  }
  if (done < bytes.size()) parts.push_back(text.part(done, bytes.size()));
  return parts;
}

std::vector<MarkedText> split_from_right(const MarkedText& text, std::optional<std::string_view> at, std::int64_t count,
                                         Budget& budget) {
  if (at) budget.charge_search(text.bytes(), *at);
  const std::string_view bytes = text.bytes();
  std::vector<MarkedText> parts;
  std::size_t end = at ? bytes.size() : trimmed_end(bytes);
  bool more = at || end > 0;
  for (; more && count != 0; --count) {
    budget.charge(part_work);
    const std::string_view rest = bytes.substr(0, end);
    if (at) {
      const std::size_t found = rest.rfind(*at);
      if (found == std::string_view::npos) break;
      parts.push_back(text.part(found + at->size(), end));
      end = found;
    } else {
      const std::size_t begin = bytes_before_back(rest, [](char32_t c) { return !is_space(c); });
      parts.push_back(text.part(begin, end));
      end = trimmed_end(rest.substr(0, begin));
      more = end > 0;
    }
  }
  if (more) parts.push_back(text.part(0, end));
  std::reverse(parts.begin(), parts.end());
  return parts;
}

std::vector<MarkedText> split_lines(const MarkedText& text, bool keep_ends, Budget& budget) {
  const std::string_view bytes = text.bytes();
  std::vector<MarkedText> lines;
  std::size_t begin = 0;
  for (std::size_t at = 0; at < bytes.size();) {
    const utf8::Character step = utf8::step(bytes, at);
    if (is_line_end(step.code_point)) {
      budget.charge(part_work);
      const bool two = step.code_point == '\r' && bytes.substr(at + 1).starts_with('\n');
      const std::size_t end = at + step.length + (two ? 1 : 0);
      lines.push_back(text.part(begin, keep_ends ? end : at));
      begin = at = end;
    } else {
      at += step.length;
    }
  }
  if (begin < bytes.size()) lines.push_back(text.part(begin, bytes.size()));
  return lines;
}

std::int64_t find_text(std::string_view text, std::string_view what, bool from_right) {
  const std::size_t found = from_right ? text.rfind(what) : text.find(what);
  return found == std::string_view::npos ? -1 : length(text.substr(0, found));
}

std::int64_t count_text(std::string_view text, std::string_view what) {
  if (what.empty()) return length(text) + 1;
  std::int64_t times = 0;
  for (std::size_t at = text.find(what); at != std::string_view::npos; at = text.find(what, at + what.size())) ++times;
  return times;
}

}  // namespace draftproof::jinja
