// SPDX-License-Identifier: MIT
#include "ref/answers/written_call.h"

#include "ref/answers/blanks.h"
#include "ref/answers/literals.h"

namespace draftproof {
namespace {

bool is_alphanumeric(char c) { return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9'); }
bool is_of_name(char c) { return is_alphanumeric(c) || c == '_' || c == '-' || c == '.'; }

MarkMatch match_part(std::string_view text, std::size_t at, std::string_view part) {
  for (const char c : part) {
    if (c == '*') {
      while (at < text.size() && is_alphanumeric(text[at])) ++at;
      continue;
    }
    if (at >= text.size()) return {Match::maybe};
    if (text[at] != c) return {Match::no};
    ++at;
  }
  return {Match::yes, at};
}

/// The end of the JSON value that begins at `begin`, where there is one; npos while it may go on.
std::size_t end_of_json(std::string_view text, std::size_t begin) {
  int depth = 0;
  bool in_string = false;
  for (std::size_t at = begin; at < text.size(); ++at) {
    const char c = text[at];
    if (in_string) {
      if (c == '\\') ++at;
      else if (c == '"') in_string = false;
      if (!in_string && depth == 0) return at + 1;
    } else if (c == '"') {
      in_string = true;
    } else if (c == '{' || c == '[') {
      ++depth;
    } else if (c == '}' || c == ']') {
      if (depth == 0) return at;
      if (--depth == 0) return at + 1;
    } else if (depth == 0 && at > begin && (c == ',' || is_blank(c))) {
      return at;
    }
  }
  return std::string_view::npos;
}

/// {"name": ..., "arguments": ...} from `at` on, which is moved behind it.
Match read_object(const CallFormat& format, std::string_view text, std::size_t& at, WrittenCall& call) {
  const auto next = [&] { return at = behind_blanks(text, at); };
  if (next() == text.size()) return Match::maybe;
  if (text[at++] != '{') return Match::no;
  while (next() < text.size() && text[at] != '}') {
    if (text[at] != '"') return Match::no;
    const std::size_t key_end = end_of_json(text, at);
    if (key_end == std::string_view::npos) return Match::maybe;
    const std::string key = text_of_json(text.substr(at, key_end - at));
    at = key_end;
    if (next() == text.size()) return Match::maybe;
    if (text[at++] != ':') return Match::no;
    const std::size_t begin = next();
    const std::size_t end = end_of_json(text, begin);
    const std::string_view value = text.substr(begin, end - begin);
    if (key == format.arguments_key && call.arguments.empty()) call.arguments = value;
    if (end == std::string_view::npos) return Match::maybe;
    if (key == format.name_key && call.name.empty()) {
      call.name = text_of_json(value);
      if (call.name.empty()) return Match::no;
    }
    at = end;
    if (next() < text.size() && text[at] == ',') ++at;
    else if (at < text.size() && text[at] != '}') return Match::no;
  }
  if (at == text.size()) return Match::maybe;
  ++at;
  if (call.name.empty()) return Match::no;
  if (call.arguments.empty()) call.arguments = "{}";
  return Match::yes;
}

constexpr std::string_view quoted_begin = "<![CDATA[";
constexpr std::string_view quoted_end = "]]>";

/// The arguments between marks, and the end of the call.
Match read_parameters(const CallFormat& format, std::string_view text, std::size_t& at, const TextArguments& texts,
                      WrittenCall& call) {
  const std::string_view key_mark = parts_of_mark(format.after_key).front();
  const std::string_view value_mark = parts_of_mark(format.after_value).front();
  call.arguments = "{";
  const auto close = [&](Match match) {
    if (match != Match::maybe) call.arguments += '}';
    return match;
  };
  while (true) {
    const MarkMatch end = match_mark(text.substr(at), format.end);
    if (end.match == Match::yes) return close(Match::yes);
    const MarkMatch before = match_mark(text.substr(at), format.before_key);
    if (before.match != Match::yes) return close(end.match == Match::maybe ? end.match : before.match);
    const std::size_t key = at + before.end;
    const std::size_t key_end = text.find(key_mark, key);
    if (key_end == std::string_view::npos) return Match::maybe;
    const MarkMatch after = match_mark(text.substr(key_end), format.after_key);
    if (after.match != Match::yes) return close(after.match);
    const std::size_t begin = key_end + after.end;
    const std::size_t value_end = text.find(value_mark, begin);
    if (value_end == std::string_view::npos) return Match::maybe;
    std::string_view value = text.substr(begin, value_end - begin);
    if (format.after_key.ends_with('\n') && value.starts_with('\n')) value.remove_prefix(1);
    if (format.after_value.starts_with('\n') && value.ends_with('\n')) value.remove_suffix(1);
    if (value.starts_with(quoted_begin) && value.ends_with(quoted_end)) {
      value = value.substr(quoted_begin.size(), value.size() - quoted_begin.size() - quoted_end.size());
    }
    const std::string name(text.substr(key, key_end - key));
    const bool is_text = texts.contains({call.name, name});
    if (call.arguments.size() > 1) call.arguments += ", ";
    call.arguments += json_of_text(name) + ": " + (is_text ? json_of_text(value) : json_of_value(value));
    at = value_end + value_mark.size();
  }
}

Match read_literals(bool python, std::string_view text, std::size_t& at, WrittenCall& call) {
  const std::size_t begin = behind_blanks(text, at);
  const std::string_view rest = text.substr(begin);
  if (!rest.starts_with(python ? '(' : '{')) {
    call.name.clear();
    return rest.empty() ? Match::maybe : Match::no;
  }
  const std::size_t end = python ? end_of_python_arguments(rest) : end_of_gemma_arguments(rest);
  if (end == std::string_view::npos) return Match::maybe;
  const std::string_view list = rest.substr(0, end);
  call.arguments = python ? json_of_python_arguments(list) : json_of_gemma_arguments(list);
  at = begin + end;
  return Match::yes;
}

/// The name of the tool, which is certain once something else follows.
Match read_name(const CallFormat& format, std::string_view text, std::size_t& at, WrittenCall& call) {
  const std::size_t begin = behind_blanks(text, at);
  std::size_t end = begin;
  while (end < text.size() && is_of_name(text[end])) ++end;
  if (end == text.size()) return Match::maybe;
  if (end == begin) return Match::no;
  const MarkMatch after = match_mark(text.substr(end), format.after_name);
  if (after.match != Match::yes) return after.match;
  call.name = text.substr(begin, end - begin);
  at = end + after.end;
  return Match::yes;
}

Match read_body(const CallFormat& format, std::string_view text, std::size_t& at, const TextArguments& texts,
                WrittenCall& call) {
  if (format.body == CallFormat::Body::object) return read_object(format, text, at, call);
  if (const Match match = read_name(format, text, at, call); match != Match::yes) return match;
  switch (format.body) {
    case CallFormat::Body::parameters: return read_parameters(format, text, at, texts, call);
    case CallFormat::Body::python: return read_literals(true, text, at, call);
    case CallFormat::Body::gemma: return read_literals(false, text, at, call);
    default: break;
  }
  at = behind_blanks(text, at);
  const std::size_t end = end_of_json(text, at);
  call.arguments = text.substr(at, end - at);
  if (end == std::string_view::npos) return Match::maybe;
  at = end;
  return Match::yes;
}

}  // namespace

MarkMatch match_mark(std::string_view text, std::string_view mark) {
  MarkMatch matched = {Match::yes, 0};
  for (const std::string_view part : parts_of_mark(mark)) {
    matched = match_part(text, behind_blanks(text, matched.end), part);
    if (matched.match != Match::yes) return matched;
  }
  return matched;
}

WrittenCall read_call(const CallFormat& format, std::string_view text, const TextArguments& texts) {
  WrittenCall call;
  const MarkMatch begin = match_mark(text, format.begin);
  call.match = begin.match;
  if (begin.match != Match::yes) return call;
  std::size_t at = begin.end;
  call.match = read_body(format, text, at, texts, call);
  if (call.match != Match::yes) return call;
  const MarkMatch end = match_mark(text.substr(at), format.end);
  call.match = end.match;
  call.end = at + end.end;
  return call;
}

}  // namespace draftproof
