// SPDX-License-Identifier: MIT
#include "ref/chat/jinja_methods.h"

#include <algorithm>
#include <array>

#include "ref/base/error.h"
#include "ref/base/utf8.h"
#include "ref/chat/jinja_arguments.h"
#include "ref/chat/jinja_format.h"
#include "ref/chat/jinja_printing.h"
#include "ref/chat/jinja_text.h"
#include "ref/formats/printable.h"
#include "ref/text/unicode.h"

namespace draftproof::jinja {
namespace {

using Names = std::initializer_list<std::string_view>;

bool among(std::string_view name, Names names) { return std::find(names.begin(), names.end(), name) != names.end(); }

const Names string_methods = {"capitalize", "center",       "count",        "endswith", "find",       "format",
                              "index",      "isalnum",      "isalpha",      "isdigit",  "islower",    "isspace",
                              "isupper",    "join",         "ljust",        "lower",    "lstrip",     "partition",
                              "replace",    "removeprefix", "removesuffix", "rfind",    "rindex",     "rjust",
                              "rpartition", "rsplit",       "rstrip",       "split",    "splitlines", "startswith",
                              "strip",      "swapcase",     "title",        "upper",    "zfill"};
const Names other_string_methods = {"casefold",     "encode",    "expandtabs",  "format_map", "isascii",   "isdecimal",
                                    "isidentifier", "isnumeric", "isprintable", "istitle",    "maketrans", "translate"};
const Names dict_methods = {"copy", "get", "items", "keys", "values"};
const Names list_methods = {"count", "index"};

std::vector<Value> values_of(std::vector<MarkedText> texts) {
  std::vector<Value> values;
  for (MarkedText& text : texts) values.emplace_back(std::move(text));
  return values;
}

/// Whether the text begins or ends with the argument, a string or a tuple of them.
bool has_end(const MarkedText& text, const Value& argument, bool front, const std::string& what, Budget& budget) {
  require_defined(argument);
  budget.charge(16);
  const List* list = argument.as_list();
  if (list != nullptr && list->kind == List::Kind::tuple) {
    return std::ranges::any_of(list->items, [&](const Value& one) {
      if (one.as<MarkedText>() == nullptr) throw Error(what + " needs strings");
      return has_end(text, one, front, what, budget);
    });
  }
  const MarkedText* end = argument.as<MarkedText>();
  if (end == nullptr) throw Error(what + " needs a string, not a " + argument.type_name());
  return front ? text.bytes().starts_with(end->bytes()) : text.bytes().ends_with(end->bytes());
}

Value partitioned(const MarkedText& text, const MarkedText& at, bool from_right, Budget& budget) {
  if (at.empty()) throw Error("the separator of partition is empty");
  budget.charge_search(text.bytes(), at.bytes());
  const std::size_t found = from_right ? text.bytes().rfind(at.bytes()) : text.bytes().find(at.bytes());
  std::vector<Value> parts;
  if (found == std::string::npos) {
    parts = {MarkedText(), MarkedText(), MarkedText()};
    parts[from_right ? 2 : 0] = text;
  } else {
    parts = {text.part(0, found), at, text.part(found + at.size(), text.size())};
  }
  return Value::of(List{List::Kind::tuple, std::move(parts)});
}

Value split_text(const MarkedText& text, const ArgumentReader& arguments, bool from_right, Budget& budget) {
  const Value at = arguments.get("sep");
  const std::int64_t max = arguments.integer("maxsplit", -1);
  std::optional<std::string_view> separator;
  if (!at.is_none()) separator = arguments.text("sep").bytes();
  if (separator && separator->empty()) throw Error("the separator of split is empty");
  return Value::list(
      values_of(from_right ? split_from_right(text, separator, max, budget) : split(text, separator, max, budget)));
}

/// What safe text takes into itself: as it is shown, and escaped unless it is safe.
MarkedText escaped_unless_safe(const Value& value, Budget& budget) {
  const MarkedText text = text_of(value, budget);
  return value.is_safe() ? text : escaped(text);
}

MarkedText joined(const Value& between, const Value& parts, Rendering& rendering) {
  const MarkedText& text_between = *between.as<MarkedText>();
  MarkedText result;
  bool follows = false;
  for (const Value& part : items_of(parts, rendering)) {
    require_defined(part);
    if (!between.is_safe() && part.as<MarkedText>() == nullptr) {
      throw Error(std::string("join needs strings, not a ") + part.type_name());
    }
    const MarkedText text = between.is_safe() ? escaped_unless_safe(part, rendering.budget) : *part.as<MarkedText>();
    rendering.budget.charge(text_between.size() + text.size());
    if (std::exchange(follows, true)) result.append(text_between);
    result.append(text);
  }
  return result;
}

/// A text, or a list of texts, that was made of safe text.
Value made_safe(const Value& made) {
  if (made.as<MarkedText>() != nullptr) return made.made_safe();
  const List* list = made.as_list();
  if (list == nullptr) return made;
  List safe = *list;
  for (Value& item : safe.items) item = item.made_safe();
  return Value::of(std::move(safe));
}

Value padded(const MarkedText& text, std::string_view name, const ArgumentReader& arguments, Rendering& rendering) {
  std::int64_t width = integer_of(arguments.at("width"), name);
  const MarkedText fill = arguments.find("fillchar") != nullptr ? arguments.text("fillchar") : MarkedText(" ");
  if (length(fill.bytes()) != 1) throw Error("the fill of " + std::string(name) + " is one character");
  if (name == "ljust") return aligned(text, width, fill.bytes(), Alignment::left, rendering.budget);
  if (name == "rjust") return aligned(text, width, fill.bytes(), Alignment::right, rendering.budget);
  // Where one more is on one side, Python has it on the left for odd widths.
  const std::int64_t count = length(text.bytes());
  const bool left_first = width > count && (width - count) % 2 != 0 && width % 2 != 0;
  if (left_first) --width;
  const MarkedText middle = aligned(text, width, fill.bytes(), Alignment::middle, rendering.budget);
  return left_first ? aligned(middle, width + 1, fill.bytes(), Alignment::right, rendering.budget) : middle;
}

Value filled_with_zeros(const MarkedText& text, std::int64_t width, Rendering& rendering) {
  const std::size_t sign = text.bytes().starts_with('-') || text.bytes().starts_with('+') ? 1 : 0;
  MarkedText result = text.part(0, sign);
  const std::int64_t rest = std::max<std::int64_t>(width, 1) - static_cast<std::int64_t>(sign);
  result.append(aligned(text.part(sign, text.size()), rest, "0", Alignment::right, rendering.budget));
  return result;
}

/// The methods that ask what a string consists of.
bool consists_of(const std::string& text, std::string_view name) {
  if (std::ranges::any_of(text, [](char c) { return (c & 0x80) != 0; })) {
    throw Error(std::string(name) + " of characters beyond ASCII is not implemented");
  }
  const auto lower = [](char c) { return c >= 'a' && c <= 'z'; };
  const auto upper = [](char c) { return c >= 'A' && c <= 'Z'; };
  const auto digit = [](char c) { return c >= '0' && c <= '9'; };
  if (name == "islower") return std::ranges::any_of(text, lower) && std::ranges::none_of(text, upper);
  if (name == "isupper") return std::ranges::any_of(text, upper) && std::ranges::none_of(text, lower);
  return !text.empty() && std::ranges::all_of(text, [&](char c) {
    if (name == "isspace") return c == ' ' || (c >= 0x1C && c <= 0x1F) || (c >= '\t' && c <= '\r');
    return (name != "isdigit" && (lower(c) || upper(c))) || (name != "isalpha" && digit(c));
  });
}

Value with_swapped_case(const MarkedText& text) {
  MarkedText result;
  for (MarkedCharacters characters(text); !characters.done();) {
    const auto [bytes, c, by_user] = characters.next();
    const std::string lower = unicode::lower_case(c);
    result.append(lower == bytes ? unicode::upper_case(c) : lower, by_user);
  }
  return result;
}

Value call_string_method(const Value& receiver, std::string_view name, const GivenArguments& given,
                         Rendering& rendering) {
  const MarkedText& text = *receiver.as<MarkedText>();
  rendering.budget.charge(4 * text.size());
  if (name == "format") return formatted_with_braces(receiver, given, rendering);
  const std::string what = "the method " + in_quotes(name);
  const auto read = [&](std::vector<std::string_view> names) { return ArgumentReader(what, given, std::move(names)); };
  const std::string& bytes = text.bytes();
  if (among(name, {"upper", "lower", "capitalize", "title"})) {
    read({});
    return in_letters(text, name == "upper"   ? Letters::upper
                            : name == "lower" ? Letters::lower
                            : name == "title" ? Letters::title
                                              : Letters::capitalized);
  }
  if (among(name, {"strip", "lstrip", "rstrip"})) {
    const ArgumentReader arguments = read({"chars"});
    std::optional<std::string_view> characters;
    if (!arguments.get("chars").is_none()) characters = arguments.text("chars").bytes();
    rendering.budget.charge(8, characters.value_or("").size());
    return stripped(text, characters, name == "strip" ? Side::both : name == "lstrip" ? Side::left : Side::right);
  }
  if (name == "startswith" || name == "endswith") {
    return has_end(text, read({"prefix"}).at("prefix"), name == "startswith", what, rendering.budget);
  }
  if (name == "split" || name == "rsplit") {
    return split_text(text, read({"sep", "maxsplit"}), name == "rsplit", rendering.budget);
  }
  if (name == "splitlines") {
    const bool keep_ends = read({"keepends"}).flag("keepends", false);
    return Value::list(values_of(split_lines(text, keep_ends, rendering.budget)));
  }
  if (name == "replace") {
    const ArgumentReader arguments = read({"old", "new", "count"});
    const std::string& what = arguments.text("old").bytes();
    const std::int64_t count = arguments.integer("count", -1);
    const MarkedText& put_in = arguments.text("new");
    const bool as_it_is = !receiver.is_safe() || arguments.at("new").is_safe();
    return replaced(text, what, as_it_is ? put_in : escaped(put_in), count, rendering.budget);
  }
  if (among(name, {"count", "find", "index", "rfind", "rindex"})) {
    const ArgumentReader arguments = read({"sub"});
    const std::string& what = arguments.text("sub").bytes();
    rendering.budget.charge_search(bytes, what);
    if (name == "count") return count_text(bytes, what);
    const std::int64_t place = find_text(bytes, what, name.starts_with('r'));
    if (place < 0 && name.ends_with("index")) throw Error("index: the string does not contain this one");
    return place;
  }
  if (among(name, {"center", "ljust", "rjust"})) return padded(text, name, read({"width", "fillchar"}), rendering);
  if (name == "zfill") return filled_with_zeros(text, integer_of(read({"width"}).at("width"), what), rendering);
  if (among(name, {"isalnum", "isalpha", "isdigit", "islower", "isspace", "isupper"})) {
    read({});
    return consists_of(bytes, name);
  }
  if (name == "swapcase") {
    read({});
    return with_swapped_case(text);
  }
  if (name == "join") return joined(receiver, read({"iterable"}).at("iterable"), rendering);
  if (name == "removeprefix" || name == "removesuffix") {
    const bool front = name == "removeprefix";
    const ArgumentReader arguments = read({"prefix"});
    const MarkedText& end = arguments.text("prefix");
    if (front ? !bytes.starts_with(end.bytes()) : !bytes.ends_with(end.bytes())) return text;
    return front ? text.part(end.size(), text.size()) : text.part(0, text.size() - end.size());
  }
  return partitioned(text, read({"sep"}).text("sep"), name == "rpartition", rendering.budget);
}

Value call_dict_method(const Dict& dict, std::string_view name, const GivenArguments& given, Rendering& rendering) {
  rendering.budget.charge(32 * dict.entries.size());
  const std::string what = "the method " + in_quotes(name);
  if (name == "get") {
    const ArgumentReader arguments(what, given, {"key", "default"});
    if (!contains(Value::of(dict), arguments.at("key"), rendering)) return arguments.get("default");
    return *dict.find(arguments.at("key"), rendering.budget);
  }
  const ArgumentReader none(what, given, {});
  if (name == "copy") return Value::of(dict);
  List view{List::Kind::view, {}, "dict_" + std::string(name)};
  for (const auto& [key, value] : dict.entries) {
    if (name == "keys") view.items.push_back(key);
    if (name == "values") view.items.push_back(value);
    if (name == "items") view.items.push_back(Value::of(List{List::Kind::tuple, {key, value}}));
  }
  return Value::of(std::move(view));
}

Value call_list_method(const List& list, std::string_view name, const GivenArguments& given, Rendering& rendering) {
  const ArgumentReader arguments("the method " + in_quotes(name), given, {"value"});
  const Value& wanted = arguments.at("value");
  const auto is_it = [&](const Value& item) { return equal(item, wanted, rendering.budget); };
  if (name == "count") return static_cast<std::int64_t>(std::ranges::count_if(list.items, is_it));
  const auto found = std::ranges::find_if(list.items, is_it);
  if (found == list.items.end()) throw Error("index: the list does not contain this value");
  return static_cast<std::int64_t>(found - list.items.begin());
}

bool is_list(const Value& value) {
  const List* list = value.as_list();
  return list != nullptr && (list->kind == List::Kind::list || list->kind == List::Kind::tuple);
}

}  // namespace

bool is_method(const Value& value, std::string_view name) {
  if (value.as<MarkedText>() != nullptr) return among(name, string_methods);
  if (value.as<Dict>() != nullptr) return among(name, dict_methods);
  return is_list(value) && among(name, list_methods);
}

bool is_unsafe_method(const Value& value, std::string_view name) {
  if (value.as<Dict>() != nullptr) return among(name, {"clear", "pop", "popitem", "setdefault", "update"});
  const List* list = value.as_list();
  return list != nullptr && list->kind == List::Kind::list &&
         among(name, {"append", "clear", "extend", "insert", "pop", "remove", "reverse", "sort"});
}

bool is_other_method(const Value& value, std::string_view name) {
  if (value.as<MarkedText>() != nullptr) return among(name, other_string_methods);
  if (value.as<Dict>() != nullptr) return name == "fromkeys";
  return value.as_list() != nullptr && value.as_list()->kind == List::Kind::list && name == "copy";
}

Value call_method(const Value& receiver, std::string_view name, const GivenArguments& given, Rendering& rendering) {
  if (receiver.as<MarkedText>() != nullptr) {
    const Value made = call_string_method(receiver, name, given, rendering);
    return receiver.is_safe() ? made_safe(made) : made;
  }
  if (const Dict* dict = receiver.as<Dict>()) return call_dict_method(*dict, name, given, rendering);
  return call_list_method(*receiver.as_list(), name, given, rendering);
}

}  // namespace draftproof::jinja
