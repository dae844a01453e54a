// SPDX-License-Identifier: MIT
#include "ref/answers/written_call.h"

#include "ref/answers/blanks.h"
#include "ref/answers/literals.h"

namespace draftproof {
namespace {

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

std::string_view before_star(std::string_view mark) { return mark.substr(0, mark.find('*')); }

/// Whether a value is a text, as the mark before it says, or else the tool.
bool is_text(const CallFormat& format, std::string_view after_key, bool is_text_of_tool) {
  if (format.kinds.empty()) return is_text_of_tool;
  const std::string_view kind = after_key.substr(before_star(format.after_key).size());
  for (const std::string_view one : format.kinds) {
    if (kind.starts_with(one)) return one == format.kinds.front();
  }
  return is_text_of_tool;
}

/// The arguments between marks, and the end of the call.
Match read_parameters(const CallFormat& format, std::string_view text, std::size_t& at, const TextArguments& texts,
                      WrittenCall& call) {
  const std::string_view key_mark = before_star(parts_of_mark(format.after_key).front());
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
    const bool text_value = is_text(format, text.substr(key_end, after.end), texts.contains({call.name, name}));
    if (call.arguments.size() > 1) call.arguments += ", ";
    call.arguments += json_of_text(name) + ": " + (text_value ? json_of_text(value) : json_of_value(value));
    at = value_end + value_mark.size();
  }
}

/// Reads elements, <KEY>VALUE</KEY> in the marks of a format. What a VALUE has is other elements or a text.
class ElementReader {
 public:
  ElementReader(const CallFormat& format, const TextArguments& texts, const std::string& tool, std::string_view text)
      : format_(format), texts_(texts), tool_(tool), text_(text) {}

  struct Element {
    Match match;
    std::string key = {};
    std::string json = {};  // its value
  };
  /// Moves `at` behind the element. `path`: the keys around it, each with a dot behind it.
  Element read(std::size_t& at, const std::string& path, int depth) const {
    const MarkMatch open = match_mark(rest(at), format_.before_key);
    if (open.match != Match::yes) return {open.match};
    const std::size_t begin = at + open.end;
    std::size_t end = begin;
    while (end < text_.size() && is_of_name(text_[end])) ++end;
    if (end == text_.size()) return {Match::maybe};
    const MarkMatch after = match_mark(rest(end), format_.after_key);
    if (end == begin || depth > depth_max) return {Match::no};
    if (after.match != Match::yes) return {after.match};
    Element element = {Match::yes, std::string(text_.substr(begin, end - begin))};
    const std::string close = std::string(format_.after_value) + element.key + std::string(format_.after_key);
    at = end + after.end;
    if (format_.after_value.starts_with(rest(at))) return {Match::maybe};
    const bool is_text = !rest(at).starts_with(format_.before_key) || rest(at).starts_with(format_.after_value);
    const std::string own = path + element.key;
    element.match = is_text ? read_text(at, own, close, element.json) : read_inner(at, own, close, depth, element.json);
    return element;
  }

 private:
  std::string_view rest(std::size_t at) const { return text_.substr(at); }

  Match read_text(std::size_t& at, const std::string& path, std::string_view close, std::string& json) const {
    const std::size_t end = text_.find(format_.before_key, at);
    if (end == std::string_view::npos || close.starts_with(rest(end))) return Match::maybe;
    if (!rest(end).starts_with(close)) return Match::no;
    const std::string_view value = text_.substr(at, end - at);
    json = texts_.contains({tool_, path}) ? json_of_text(value) : json_of_value(value);
    at = end + close.size();
    return Match::yes;
  }

  Match read_inner(std::size_t& at, const std::string& path, std::string_view close, int depth,
                   std::string& json) const {
    for (; !rest(at).starts_with(close); at = behind_blanks(text_, at)) {
      if (close.starts_with(rest(at))) return Match::maybe;
      const Element inner = read(at, path + ".", depth + 1);
      if (inner.match != Match::yes) return inner.match;
      const bool is_item = inner.key == "item";
      if (!json.empty() && is_item != json.starts_with('[')) return Match::no;
      json += json.empty() ? (is_item ? "[" : "{") : ", ";
      json += (is_item ? "" : json_of_text(inner.key) + ": ") + inner.json;
    }
    json += json.starts_with('[') ? ']' : '}';
    at += close.size();
    return Match::yes;
  }

  static constexpr int depth_max = 64;

  const CallFormat& format_;
  const TextArguments& texts_;
  const std::string& tool_;
  std::string_view text_;
};

Match read_elements(const CallFormat& format, std::string_view text, std::size_t& at, const TextArguments& texts,
                    WrittenCall& call) {
  const ElementReader reader(format, texts, call.name, text);
  call.arguments = "{";
  while (true) {
    const MarkMatch end = match_mark(text.substr(at), format.end);
    if (end.match == Match::maybe) return end.match;
    const auto element = end.match == Match::yes ? ElementReader::Element{Match::no} : reader.read(at, "", 0);
    if (element.match == Match::maybe) return element.match;
    if (element.match == Match::no) {
      call.arguments += '}';
      return end.match;
    }
    if (call.arguments.size() > 1) call.arguments += ", ";
    call.arguments += json_of_text(element.key) + ": " + element.json;
  }
}

Match read_literals(const CallFormat& format, std::string_view text, std::size_t& at, WrittenCall& call) {
  const bool python = format.body == CallFormat::Body::python;
  const std::size_t begin = behind_blanks(text, at);
  const std::string_view rest = text.substr(begin);
  if (!rest.starts_with(python ? '(' : '{')) {
    call.name.clear();
    return rest.empty() ? Match::maybe : Match::no;
  }
  const std::size_t end = python ? end_of_python_arguments(rest) : end_of_gemma_arguments(rest, format.quote);
  if (end == std::string_view::npos) return Match::maybe;
  const std::string_view list = rest.substr(0, end);
  call.arguments = python ? json_of_python_arguments(list) : json_of_gemma_arguments(list, format.quote);
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
    case CallFormat::Body::elements: return read_elements(format, text, at, texts, call);
    case CallFormat::Body::python:
    case CallFormat::Body::gemma: return read_literals(format, text, at, call);
    default: break;
  }
  at = behind_blanks(text, at);
  if (at == text.size() || text[at] != '{') {
    call.name.clear();
    return at == text.size() ? Match::maybe : Match::no;
  }
  const std::size_t end = end_of_json(text, at);
  call.arguments = text.substr(at, end - at);
  if (end == std::string_view::npos) return Match::maybe;
  at = end;
  return Match::yes;
}

}  // namespace

bool is_of_name(char c) {
  return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '_' || c == '-' || c == '.';
}

MarkMatch match_part(std::string_view text, std::string_view part) {
  std::size_t at = 0;
  for (const char c : part) {
    if (c == '*') {
      while (at < text.size() && is_of_name(text[at])) ++at;
      continue;
    }
    if (at >= text.size()) return {Match::maybe};
    if (text[at] != c) return {Match::no};
    ++at;
  }
  return {Match::yes, at};
}

MarkMatch match_mark(std::string_view text, std::string_view mark) {
  std::size_t end = 0;
  for (const std::string_view part : parts_of_mark(mark)) {
    end = behind_blanks(text, end);
    const MarkMatch matched = match_part(text.substr(end), part);
    if (matched.match != Match::yes) return matched;
    end += matched.end;
  }
  return {Match::yes, end};
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
