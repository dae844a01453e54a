// SPDX-License-Identifier: MIT
#include "ref/chat/jinja_builtins.h"

#include <algorithm>
#include <charconv>
#include <cmath>

#include "ref/base/error.h"
#include "ref/chat/jinja_arguments.h"
#include "ref/chat/jinja_format.h"
#include "ref/chat/jinja_methods.h"
#include "ref/chat/jinja_operators.h"
#include "ref/chat/jinja_printing.h"
#include "ref/chat/jinja_text.h"
#include "ref/formats/json.h"
#include "ref/formats/printable.h"
#include "ref/text/unicode.h"

namespace draftproof::jinja {
namespace {

/// What a filter or a test is applied to.
struct Input {
  std::string what;  // "the filter 'join'"
  const Value& value;
  const GivenArguments& given;
  Rendering& rendering;

  Budget& budget() const { return rendering.budget; }
  ArgumentReader read(std::vector<std::string_view> names) const { return {what, given, std::move(names)}; }
  /// The value as a string, as most filters of text take it.
  MarkedText text() const {
    MarkedText text = text_of(value, budget());
    budget().charge(4 * text.size());
    return text;
  }
  std::vector<Value> items() const { return items_of(value, rendering); }
  /// What map and select visit: nothing of a value that counts as false, None too.
  std::vector<Value> items_if_true() const { return is_true(value) ? items() : std::vector<Value>(); }
};

Value iterator(std::vector<Value> items) { return Value::of(List{List::Kind::iterator, std::move(items)}); }

/// "a.b.0" of an item; an integer is an index.
Value attribute_path(const Value& item, const Value& path, Rendering& rendering) {
  if (path.as<MarkedText>() == nullptr) return item_of(item, path, rendering);
  Value value = item;
  for (const MarkedText& part : split(*path.as<MarkedText>(), ".", -1, rendering.budget)) {
    const std::string& name = part.bytes();
    const bool index = !name.empty() && name.size() < 10 && name.find_first_not_of("0123456789") == std::string::npos;
    value = item_of(value, index ? Value(std::int64_t{std::stol(name)}) : Value(part), rendering);
  }
  return value;
}

/// What Jinja compares when it ignores case.
Value key_of(const Value& value, bool case_sensitive, Rendering& rendering) {
  const MarkedText* text = value.as<MarkedText>();
  if (case_sensitive || text == nullptr) return value;
  rendering.budget.charge(4 * text->size());
  return in_letters(*text, Letters::lower);
}

/// The items in the order of their keys, equal ones as they come.
std::vector<Value> sorted(const std::vector<Value>& items, const std::vector<Value>& keys, bool reverse,
                          Rendering& rendering) {
  std::vector<std::size_t> order(items.size());
  for (std::size_t i = 0; i < order.size(); ++i) order[i] = i;
  std::stable_sort(order.begin(), order.end(), [&](std::size_t left, std::size_t right) {
    return reverse ? less(keys[right], keys[left], rendering.budget) : less(keys[left], keys[right], rendering.budget);
  });
  std::vector<Value> result;
  for (const std::size_t index : order) result.push_back(items[index]);
  return result;
}

Value tojson(const Input& in) {
  const ArgumentReader arguments = in.read({"ensure_ascii", "indent", "separators", "sort_keys"});
  JsonStyle style{.ensure_ascii = arguments.flag("ensure_ascii", false),
                  .sort_keys = arguments.flag("sort_keys", false)};
  const Value indent = arguments.get("indent");
  if (const MarkedText* text = indent.as<MarkedText>()) {
    style.indent = *text;
  } else if (!indent.is_none()) {
    const std::int64_t spaces = std::max<std::int64_t>(integer_of(indent, in.what), 0);
    in.budget().charge(static_cast<std::uint64_t>(spaces));
    style.indent = MarkedText(std::string(static_cast<std::size_t>(spaces), ' '));
  }
  if (style.indent) style.between_items = MarkedText(",");
  if (const Value separators = arguments.get("separators"); !separators.is_none()) {
    const std::vector<Value> pair = items_of(separators, in.rendering);
    if (pair.size() != 2 || pair[0].as<MarkedText>() == nullptr || pair[1].as<MarkedText>() == nullptr) {
      throw Error(in.what + ": separators are two strings");
    }
    style.between_items = *pair[0].as<MarkedText>();
    style.after_key = *pair[1].as<MarkedText>();
  }
  return json_of(in.value, style, in.budget());
}

Value trim(const Input& in) {
  const ArgumentReader arguments = in.read({"chars"});
  std::optional<std::string_view> characters;
  if (!arguments.get("chars").is_none()) characters = arguments.text("chars").bytes();
  in.budget().charge(8, characters.value_or("").size());
  return stripped(in.text(), characters, Side::both);
}

Value length_filter(const Input& in) {
  in.read({});
  if (in.value.is_undefined()) return std::int64_t{0};
  if (const MarkedText* text = in.value.as<MarkedText>()) {
    in.budget().charge(text->size());
    return length(text->bytes());
  }
  if (const Dict* dict = in.value.as<Dict>()) return static_cast<std::int64_t>(dict->entries.size());
  const List* list = in.value.as_list();
  if (list != nullptr && list->kind != List::Kind::iterator) return static_cast<std::int64_t>(list->items.size());
  if (const Loop* loop = in.value.as<Loop>()) return static_cast<std::int64_t>(loop->items->size());
  throw Error(std::string("a ") + in.value.type_name() + " has no length");
}

Value join(const Input& in) {
  const ArgumentReader arguments = in.read({"d", "attribute"});
  const MarkedText between = text_of(arguments.get("d", Value(MarkedText())), in.budget());
  const Value attribute = arguments.get("attribute");
  MarkedText result;
  bool follows = false;
  for (const Value& item : in.items()) {
    in.budget().charge(64 + between.size());
    if (std::exchange(follows, true)) result.append(between);
    append_text_of(attribute.is_none() ? item : attribute_path(item, attribute, in.rendering), result, in.budget());
  }
  return result;
}

Value default_filter(const Input& in) {
  const ArgumentReader arguments = in.read({"default_value", "boolean"});
  const bool absent = in.value.is_undefined() || (arguments.flag("boolean", false) && !is_true(in.value));
  return absent ? arguments.get("default_value", Value(MarkedText())) : in.value;
}

Value first(const Input& in) {
  in.read({});
  if (List* list = in.value.as_list(); list != nullptr && list->kind == List::Kind::iterator && !list->items.empty()) {
    in.budget().charge(16, list->items.size());
    const Value item = list->items.front();
    list->items.erase(list->items.begin());
    return item;
  }
  const std::vector<Value> items = in.items();
  return items.empty() ? Value::undefined("No first item, sequence was empty.") : items.front();
}

Value last(const Input& in) {
  in.read({});
  const List* list = in.value.as_list();
  if (list != nullptr && list->kind == List::Kind::iterator) throw Error("a generator has no last item; use `list`");
  const std::vector<Value> items = in.items();
  return items.empty() ? Value::undefined("No last item, sequence was empty.") : items.back();
}

/// The arguments without the first ones.
GivenArguments rest_of(const GivenArguments& given, std::size_t used) {
  return {{given.positional.begin() + static_cast<std::ptrdiff_t>(used), given.positional.end()}, given.named};
}

const std::string& name_in(const Value& value, const std::string& what) {
  const MarkedText* name = value.as<MarkedText>();
  if (name == nullptr) throw Error(what + " needs the name of a filter or a test");
  return name->bytes();
}

Value map(const Input& in) {
  std::vector<Value> results;
  if (in.given.positional.empty()) {
    const ArgumentReader arguments = in.read({"attribute", "default"});
    const Value& attribute = arguments.at("attribute");
    const Value absent = arguments.get("default");
    for (const Value& item : in.items_if_true()) {
      Value value = attribute_path(item, attribute, in.rendering);
      results.push_back(value.is_undefined() && !absent.is_none() ? absent : std::move(value));
    }
    return iterator(std::move(results));
  }
  const std::string& name = name_in(in.given.positional[0], in.what);
  if (!is_filter(name)) throw Error("the filter " + in_quotes(name) + " is not implemented");
  const GivenArguments rest = rest_of(in.given, 1);
  for (const Value& item : in.items_if_true()) results.push_back(apply_filter(name, item, rest, in.rendering));
  return iterator(std::move(results));
}

/// select, reject, selectattr and rejectattr.
Value selected(const Input& in, bool wanted, bool by_attribute) {
  const std::size_t used = by_attribute ? 1 : 0;
  if (in.given.positional.size() < used) throw Error(in.what + " needs the name of an attribute");
  const bool tested = in.given.positional.size() > used;
  const std::string& name = tested ? name_in(in.given.positional[used], in.what) : in.what;
  if (tested && !is_test(name)) throw Error("the test " + in_quotes(name) + " is not implemented");
  const GivenArguments rest = tested ? rest_of(in.given, used + 1) : GivenArguments();
  std::vector<Value> results;
  for (const Value& item : in.items_if_true()) {
    const Value value = by_attribute ? attribute_path(item, in.given.positional[0], in.rendering) : item;
    if ((tested ? apply_test(name, value, rest, in.rendering) : is_true(value)) == wanted) results.push_back(item);
  }
  return iterator(std::move(results));
}

Value list_filter(const Input& in) {
  in.read({});
  return Value::list(in.items());
}

Value items_filter(const Input& in) {
  in.read({});
  if (in.value.is_undefined()) return iterator({});
  const Dict* dict = in.value.as<Dict>();
  if (dict == nullptr) throw Error("the filter 'items' needs a dictionary, not a " + std::string(in.value.type_name()));
  in.budget().charge(128, dict->entries.size());
  std::vector<Value> items;
  for (const auto& [key, value] : dict->entries) items.push_back(Value::of(List{List::Kind::tuple, {key, value}}));
  return iterator(std::move(items));
}

Value dictsort(const Input& in) {
  const ArgumentReader arguments = in.read({"case_sensitive", "by", "reverse"});
  require_defined(in.value);
  const Dict* dict = in.value.as<Dict>();
  if (dict == nullptr) {
    throw Error("the filter 'dictsort' needs a dictionary, not a " + std::string(in.value.type_name()));
  }
  const std::string by = arguments.find("by") != nullptr ? arguments.text("by").bytes() : "key";
  if (by != "key" && by != "value") throw Error("the filter 'dictsort' sorts by 'key' or by 'value'");
  in.budget().charge(128, dict->entries.size());
  std::vector<Value> items;
  std::vector<Value> keys;
  for (const auto& [key, value] : dict->entries) {
    items.push_back(Value::of(List{List::Kind::tuple, {key, value}}));
    keys.push_back(key_of(by == "key" ? key : value, arguments.flag("case_sensitive", false), in.rendering));
  }
  return Value::list(sorted(items, keys, arguments.integer("reverse", 0) != 0, in.rendering));
}

/// A key is a list of the attributes, or of the item: equal keys need no order, so two of undefined are no error.
Value sort(const Input& in) {
  const ArgumentReader arguments = in.read({"reverse", "case_sensitive", "attribute"});
  const Value attribute = arguments.get("attribute");
  std::vector<Value> paths = {attribute};
  if (const MarkedText* text = attribute.as<MarkedText>()) {
    paths.clear();
    for (const MarkedText& path : split(*text, ",", -1, in.budget())) paths.emplace_back(path);
  }
  const std::vector<Value> items = in.items();
  std::vector<Value> keys;
  for (const Value& item : items) {
    std::vector<Value> key;
    for (const Value& path : paths) {
      key.push_back(key_of(path.is_none() ? item : attribute_path(item, path, in.rendering),
                           arguments.flag("case_sensitive", false), in.rendering));
    }
    keys.push_back(Value::list(std::move(key)));
  }
  return Value::list(sorted(items, keys, arguments.integer("reverse", 0) != 0, in.rendering));
}

Value unique(const Input& in) {
  const ArgumentReader arguments = in.read({"case_sensitive", "attribute"});
  const Value attribute = arguments.get("attribute");
  Dict seen;
  std::vector<Value> results;
  for (const Value& item : in.items()) {
    const Value key = key_of(attribute.is_none() ? item : attribute_path(item, attribute, in.rendering),
                             arguments.flag("case_sensitive", false), in.rendering);
    if (key.is_undefined()) throw Error("undefined values in `unique` are not implemented");
    const std::size_t before = seen.entries.size();
    seen.set(key, Value(), in.budget());
    if (seen.entries.size() > before) results.push_back(item);
  }
  return iterator(std::move(results));
}

/// min and max: of equal items the first.
Value extreme(const Input& in, bool is_max) {
  const ArgumentReader arguments = in.read({"case_sensitive", "attribute"});
  const Value attribute = arguments.get("attribute");
  std::optional<Value> found;
  Value key_found;
  for (const Value& item : in.items()) {
    Value key = key_of(attribute.is_none() ? item : attribute_path(item, attribute, in.rendering),
                       arguments.flag("case_sensitive", false), in.rendering);
    const bool is_better = !found || (is_max ? less(key_found, key, in.budget()) : less(key, key_found, in.budget()));
    if (!is_better) continue;
    found = item;
    key_found = std::move(key);
  }
  return found ? *found : Value::undefined("No aggregated item, sequence was empty.");
}

Value sum(const Input& in) {
  const ArgumentReader arguments = in.read({"attribute", "start"});
  const Value attribute = arguments.get("attribute");
  Value total = arguments.get("start", Value(std::int64_t{0}));
  if (total.as<MarkedText>() != nullptr) throw Error("the filter 'sum' does not add strings; use `join`");
  for (const Value& item : in.items()) {
    const Value value = attribute.is_none() ? item : attribute_path(item, attribute, in.rendering);
    total = arithmetic(BinaryOperator::add, total, value, in.rendering);
  }
  return total;
}

/// Pairs of a value and the list of items that have it, in the order of the values.
Value groupby(const Input& in) {
  const ArgumentReader arguments = in.read({"attribute", "default", "case_sensitive"});
  const Value& attribute = arguments.at("attribute");
  const Value absent = arguments.get("default");
  const std::vector<Value> items = in.items();
  std::vector<Value> keys;
  std::vector<Value> pairs;
  for (const Value& item : items) {
    Value value = attribute_path(item, attribute, in.rendering);
    if (value.is_undefined() && !absent.is_none()) value = absent;
    keys.push_back(key_of(value, arguments.flag("case_sensitive", false), in.rendering));
    pairs.push_back(Value::of(List{List::Kind::tuple, {value, item, keys.back()}}));
  }
  std::vector<Value> groups;
  std::vector<Value> group;
  const auto close = [&](const Value& value) {
    const Value list = Value::list(std::exchange(group, {}));
    groups.push_back(Value::of(List{List::Kind::tuple, {value, list}, std::string(List::group)}));
  };
  Value first;  // what the items of the group have
  Value key;
  for (const Value& pair : sorted(pairs, keys, false, in.rendering)) {
    const std::vector<Value>& parts = pair.as_list()->items;
    if (!group.empty() && !equal(parts[2], key, in.budget())) close(first);
    if (group.empty()) first = parts[0];
    key = parts[2];
    group.push_back(parts[1]);
  }
  if (!group.empty()) close(first);
  return Value::list(std::move(groups));
}

std::size_t count_above_zero(const ArgumentReader& arguments, std::string_view name) {
  const std::int64_t count = integer_of(arguments.at(name), name);
  if (count < 1) throw Error(std::string(name) + " must be above 0");
  return static_cast<std::size_t>(count);
}

/// Lists of so many items; the last one is filled up.
Value batch(const Input& in) {
  const ArgumentReader arguments = in.read({"linecount", "fill_with"});
  const std::size_t count = count_above_zero(arguments, "linecount");
  const Value fill = arguments.get("fill_with");
  std::vector<Value> lines;
  std::vector<Value> line;
  for (const Value& item : in.items()) {
    if (line.size() == count) lines.push_back(Value::list(std::exchange(line, {})));
    line.push_back(item);
  }
  while (!line.empty() && !fill.is_none() && line.size() < count) {
    in.budget().charge(16);
    line.push_back(fill);
  }
  if (!line.empty()) lines.push_back(Value::list(std::move(line)));
  return iterator(std::move(lines));
}

/// So many lists, as equally long as can be.
Value slice(const Input& in) {
  const ArgumentReader arguments = in.read({"slices", "fill_with"});
  const std::size_t count = count_above_zero(arguments, "slices");
  const Value fill = arguments.get("fill_with");
  const std::vector<Value> items = in.items();
  in.budget().charge(64, count);
  std::vector<Value> slices;
  std::size_t at = 0;
  for (std::size_t i = 0; i < count; ++i) {
    const bool is_longer = i < items.size() % count;
    const std::size_t end = at + items.size() / count + (is_longer ? 1 : 0);
    std::vector<Value> part(items.begin() + static_cast<std::ptrdiff_t>(at),
                            items.begin() + static_cast<std::ptrdiff_t>(end));
    if (!is_longer && !fill.is_none()) part.push_back(fill);
    slices.push_back(Value::list(std::move(part)));
    at = end;
  }
  return iterator(std::move(slices));
}

Value reverse(const Input& in) {
  in.read({});
  const MarkedText* text = in.value.as<MarkedText>();
  std::vector<Value> items = in.items();
  if (const List* list = in.value.as_list(); list != nullptr && list->kind == List::Kind::iterator && !items.empty()) {
    throw Error("a generator cannot be reversed; use `list`");
  }
  std::reverse(items.begin(), items.end());
  if (text == nullptr) return iterator(std::move(items));
  MarkedText result;
  for (const Value& item : items) result.append(*item.as<MarkedText>());
  return result;
}

template <Letters letters>
Value letters_filter(const Input& in) {
  in.read({});
  return in_letters(in.text(), letters);
}

Value title(const Input& in) {
  in.read({});
  return with_capital_words(in.text());
}

Value replace(const Input& in) {
  const ArgumentReader arguments = in.read({"old", "new", "count"});
  const MarkedText what = text_of(arguments.at("old"), in.budget());
  const MarkedText with = text_of(arguments.at("new"), in.budget());
  const bool all = arguments.get("count").is_none();
  return replaced(in.text(), what.bytes(), with, all ? -1 : arguments.integer("count", -1), in.budget());
}

Value string(const Input& in) {
  in.read({});
  return in.text();
}

/// What int() of Python makes of a text, or nothing.
std::optional<std::int64_t> parsed_integer(const std::string& text) {
  const std::size_t sign = text.starts_with('-') || text.starts_with('+') ? 1 : 0;
  std::string digits;
  for (std::size_t i = sign; i < text.size(); ++i) {
    const bool between = text[i] == '_' && i > sign && i + 1 < text.size() && text[i - 1] != '_';
    if (!between) digits += text[i];
  }
  if (digits.empty() || digits.find_first_not_of("0123456789") != std::string::npos) return std::nullopt;
  if (text[0] == '-') digits.insert(0, "-");
  std::int64_t value = 0;
  if (std::from_chars(digits.data(), digits.data() + digits.size(), value).ec != std::errc{}) {
    throw Error("integers beyond 64 bits are not implemented");
  }
  return value;
}

std::optional<double> parsed_number(std::string text) {
  if (text.starts_with('+') && text.size() > 1 && text[1] != '-') text.erase(0, 1);
  double value = 0;
  const auto [end, failure] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (failure == std::errc::result_out_of_range) throw Error("numbers beyond a double are not implemented");
  if (failure != std::errc{} || end != text.data() + text.size()) return std::nullopt;
  return value;
}

std::int64_t truncated(double number) {
  if (!(std::fabs(number) < 9223372036854775808.0)) throw Error("integers beyond 64 bits are not implemented");
  return static_cast<std::int64_t>(number);
}

Value int_filter(const Input& in) {
  const ArgumentReader arguments = in.read({"default", "base"});
  if (arguments.integer("base", 10) != 10) throw Error("the filter 'int' with a base is not implemented");
  require_defined(in.value);
  if (const auto* number = in.value.as<double>()) {
    if (!std::isfinite(*number)) return arguments.get("default", Value(std::int64_t{0}));
    return truncated(*number);
  }
  if (const MarkedText* text = in.value.as<MarkedText>()) {
    in.budget().charge(4 * text->size());
    const std::string trimmed = stripped(*text, std::nullopt, Side::both).bytes();
    if (const auto integer = parsed_integer(trimmed)) return *integer;
    if (const auto number = parsed_number(trimmed); number && std::isfinite(*number)) return truncated(*number);
    return arguments.get("default", Value(std::int64_t{0}));
  }
  if (in.value.as<bool>() == nullptr && in.value.as<std::int64_t>() == nullptr) {
    return arguments.get("default", Value(std::int64_t{0}));
  }
  return integer_of(in.value, in.what);
}

Value float_filter(const Input& in) {
  const ArgumentReader arguments = in.read({"default"});
  require_defined(in.value);
  if (const auto number = number_of(in.value)) return *number;
  if (const MarkedText* text = in.value.as<MarkedText>()) {
    in.budget().charge(4 * text->size());
    if (const auto number = parsed_number(stripped(*text, std::nullopt, Side::both).bytes())) return *number;
  }
  return arguments.get("default", Value(0.0));
}

Value safe(const Input& in) {
  in.read({});
  return Value(in.text()).made_safe();
}

Value indent(const Input& in) {
  const ArgumentReader arguments = in.read({"width", "first", "blank"});
  require_defined(in.value);
  if (in.value.as<MarkedText>() == nullptr) throw Error("the filter 'indent' needs a string");
  MarkedText space;
  if (const MarkedText* text = arguments.get("width").as<MarkedText>()) {
    space = *text;
  } else {
    const std::int64_t width = std::max<std::int64_t>(arguments.integer("width", 4), 0);
    in.budget().charge(static_cast<std::uint64_t>(width));
    space = MarkedText(std::string(static_cast<std::size_t>(width), ' '));
  }
  MarkedText text = in.text();
  text.append("\n");
  MarkedText result;
  if (arguments.flag("first", false)) result.append(space);
  bool follows = false;
  for (const MarkedText& line : split_lines(text, false, in.budget())) {
    in.budget().charge(space.size() + line.size());
    if (std::exchange(follows, true)) {
      result.append("\n");
      if (!line.empty() || arguments.flag("blank", false)) result.append(space);
    }
    result.append(line);
  }
  return result;
}

Value round(const Input& in) {
  const ArgumentReader arguments = in.read({"precision", "method"});
  const std::int64_t precision = arguments.integer("precision", 0);
  if (precision < 0 || precision > 300) throw Error("the filter 'round' with such a precision is not implemented");
  const std::string method = arguments.find("method") != nullptr ? arguments.text("method").bytes() : "common";
  require_defined(in.value);
  const auto number = number_of(in.value);
  if (!number) throw Error(std::string("a ") + in.value.type_name() + " cannot be rounded");
  const double scale = *parsed_number("1e" + std::to_string(precision));
  if (method == "ceil") return std::ceil(*number * scale) / scale;
  if (method == "floor") return std::floor(*number * scale) / scale;
  if (method != "common") throw Error("the filter 'round' knows the methods 'common', 'ceil' and 'floor'");
  if (in.value.as<double>() == nullptr) return integer_of(in.value, in.what);
  if (precision == 0 || !std::isfinite(*number)) return std::nearbyint(*number);
  return *parsed_number(with_digits(*number, static_cast<int>(precision)));
}

/// As llama.cpp has it; transformers has no such filter.
Value from_json(const Input& in) {
  in.read({});
  const MarkedText* const text = in.value.as<MarkedText>();
  require_defined(in.value);
  if (text == nullptr) throw Error("the filter 'from_json' needs a string, not a " + std::string(in.value.type_name()));
  in.budget().charge(64 * text->size());
  return Value::from_json(Json::parse(text->bytes(), in.what), !text->user_ranges().empty());
}

Value format(const Input& in) {
  if (!in.given.positional.empty() && !in.given.named.empty()) {
    throw Error("the filter 'format' takes values or names, not both");
  }
  Dict named;
  for (const auto& [name, value] : in.given.named) named.set(name, value);
  const Value arguments =
      in.given.named.empty() ? Value::of(List{List::Kind::tuple, in.given.positional}) : Value::of(std::move(named));
  return formatted_with_percent(in.value.is_safe() ? in.value : Value(in.text()), arguments, in.rendering);
}

Value center(const Input& in) {
  const std::int64_t width = in.read({"width"}).integer("width", 80);
  return call_method(in.text(), "center", {{Value(width)}, {}}, in.rendering);
}

/// Jinja counts what the expression \w+ finds.
Value wordcount(const Input& in) {
  in.read({});
  const MarkedText text = in.text();
  std::int64_t count = 0;
  bool within = false;
  for (MarkedCharacters characters(text); !characters.done();) {
    const bool is_word = unicode::is_word(characters.next().code_point);
    count += is_word && !within ? 1 : 0;
    within = is_word;
  }
  return count;
}

Value truncate(const Input& in) {
  const ArgumentReader arguments = in.read({"length", "killwords", "end", "leeway"});
  const std::int64_t max = arguments.integer("length", 255);
  MarkedText end = arguments.find("end") != nullptr ? arguments.text("end") : MarkedText("...");
  const std::int64_t leeway = arguments.integer("leeway", 5);
  in.budget().charge(4 * end.size());
  if (max < length(end.bytes()) || leeway < 0)
    throw Error("the filter 'truncate' needs a length above that of its end");
  if (!in.value.is_undefined() && in.value.as<MarkedText>() == nullptr) {
    const Value size = length_filter({in.what, in.value, {}, in.rendering});
    if (*size.as<std::int64_t>() - leeway <= max) return in.value;
    throw Error("the filter 'truncate' is implemented for strings only");
  }
  const MarkedText text = in.text();
  if (length(text.bytes()) - leeway <= max) return in.value;
  const Value kept = slice_of(text, Value(), Value(max - length(end.bytes())), Value(), in.rendering);
  MarkedText cut = *kept.as<MarkedText>();
  const std::size_t blank = cut.bytes().rfind(' ');
  if (!arguments.flag("killwords", false) && blank != std::string::npos) cut = cut.part(0, blank);
  if (in.value.is_safe() && !arguments.get("end").is_safe()) end = escaped(end);
  cut.append(end);
  return cut;
}

Value absolute(const Input& in) {
  in.read({});
  require_defined(in.value);
  if (const auto* number = in.value.as<double>()) return std::fabs(*number);
  const std::int64_t integer = integer_of(in.value, in.what);
  if (integer == std::numeric_limits<std::int64_t>::min()) throw Error("integers beyond 64 bits are not implemented");
  return integer < 0 ? -integer : integer;
}

struct FilterEntry {
  std::string_view name;
  Value (*apply)(const Input&);
  bool keeps_safe = false;  // a text that it makes of safe text is safe
};

constexpr FilterEntry filters[] = {
    {"abs", absolute},
    {"batch", batch},
    {"capitalize", letters_filter<Letters::capitalized>, true},
    {"center", center, true},
    {"count", length_filter},
    {"d", default_filter},
    {"default", default_filter},
    {"dictsort", dictsort},
    {"first", first},
    {"float", float_filter},
    {"format", format},
    {"from_json", from_json},
    {"groupby", groupby},
    {"indent", indent, true},
    {"int", int_filter},
    {"items", items_filter},
    {"join", join},
    {"last", last, true},
    {"length", length_filter},
    {"list", list_filter},
    {"lower", letters_filter<Letters::lower>, true},
    {"map", map},
    {"max", [](const Input& in) { return extreme(in, true); }},
    {"min", [](const Input& in) { return extreme(in, false); }},
    {"reject", [](const Input& in) { return selected(in, false, false); }},
    {"rejectattr", [](const Input& in) { return selected(in, false, true); }},
    {"replace", replace},
    {"reverse", reverse, true},
    {"round", round},
    {"safe", safe},
    {"select", [](const Input& in) { return selected(in, true, false); }},
    {"selectattr", [](const Input& in) { return selected(in, true, true); }},
    {"slice", slice},
    {"sort", sort},
    {"string", string, true},
    {"sum", sum},
    {"title", title},
    {"tojson", tojson},
    {"trim", trim, true},
    {"truncate", truncate, true},
    {"unique", unique},
    {"upper", letters_filter<Letters::upper>, true},
    {"wordcount", wordcount},
};

template <bool (*holds)(const Value&)>
bool plain_test(const Input& in) {
  in.read({});
  return holds(in.value);
}

template <bool (*holds)(const Value&, const Value&, Rendering&)>
bool against(const Input& in) {
  return holds(in.value, in.read({"other"}).at("other"), in.rendering);
}

bool is_integer(const Value& value) { return value.as<std::int64_t>() != nullptr; }
bool is_number(const Value& value) { return number_of(value).has_value(); }
bool is_mapping(const Value& value) { return value.as<Dict>() != nullptr; }
bool is_callable(const Value& value) { return value.as<Callable>() != nullptr || value.is_undefined(); }
bool is_iterable(const Value& value) {
  return value.is_undefined() || value.as<MarkedText>() != nullptr || value.as_list() != nullptr || is_mapping(value) ||
         value.as<Loop>() != nullptr;
}
bool is_sequence(const Value& value) {
  const List* list = value.as_list();
  if (list != nullptr) return list->kind != List::Kind::view && list->kind != List::Kind::iterator;
  return value.is_undefined() || value.as<MarkedText>() != nullptr || is_mapping(value);
}

std::int64_t remainder(const Input& in, std::int64_t divisor) {
  if (in.value.as<double>() != nullptr) throw Error(in.what + " of a float is not implemented");
  const std::int64_t value = integer_of(in.value, in.what);
  if (divisor == 0) throw Error("division by zero");
  return divisor == -1 ? 0 : value % divisor;
}

bool test_in(const Value& value, const Value& other, Rendering& rendering) { return contains(other, value, rendering); }
bool test_equal(const Value& value, const Value& other, Rendering& r) { return equal(value, other, r.budget); }
bool test_unequal(const Value& value, const Value& other, Rendering& r) { return !equal(value, other, r.budget); }
bool test_less(const Value& value, const Value& other, Rendering& r) { return less(value, other, r.budget); }
bool test_greater(const Value& value, const Value& other, Rendering& r) { return less(other, value, r.budget); }
bool test_at_most(const Value& value, const Value& other, Rendering& r) {
  return less(value, other, r.budget) || equal(value, other, r.budget);
}
bool test_at_least(const Value& value, const Value& other, Rendering& r) {
  return less(other, value, r.budget) || equal(value, other, r.budget);
}

struct TestEntry {
  std::string_view name;
  bool (*holds)(const Input&);
};

constexpr TestEntry tests[] = {
    {"!=", against<test_unequal>},
    {"<", against<test_less>},
    {"<=", against<test_at_most>},
    {"==", against<test_equal>},
    {">", against<test_greater>},
    {">=", against<test_at_least>},
    {"boolean", plain_test<[](const Value& v) { return v.as<bool>() != nullptr; }>},
    {"callable", plain_test<is_callable>},
    {"defined", plain_test<[](const Value& v) { return !v.is_undefined(); }>},
    {"divisibleby", [](const Input& in) { return remainder(in, in.read({"num"}).integer("num", 0)) == 0; }},
    {"eq", against<test_equal>},
    {"equalto", against<test_equal>},
    {"even", [](const Input& in) { return in.read({}), remainder(in, 2) == 0; }},
    {"false", plain_test<[](const Value& v) { return v.as<bool>() != nullptr && !is_true(v); }>},
    {"float", plain_test<[](const Value& v) { return v.as<double>() != nullptr; }>},
    {"ge", against<test_at_least>},
    {"greaterthan", against<test_greater>},
    {"gt", against<test_greater>},
    {"in", against<test_in>},
    {"integer", plain_test<is_integer>},
    {"iterable", plain_test<is_iterable>},
    {"le", against<test_at_most>},
    {"lessthan", against<test_less>},
    {"lt", against<test_less>},
    {"mapping", plain_test<is_mapping>},
    {"ne", against<test_unequal>},
    {"none", plain_test<[](const Value& v) { return v.is_none(); }>},
    {"number", plain_test<is_number>},
    {"odd", [](const Input& in) { return in.read({}), remainder(in, 2) != 0; }},
    {"sequence", plain_test<is_sequence>},
    {"string", plain_test<[](const Value& v) { return v.as<MarkedText>() != nullptr; }>},
    {"true", plain_test<[](const Value& v) { return v.as<bool>() != nullptr && is_true(v); }>},
    {"undefined", plain_test<[](const Value& v) { return v.is_undefined(); }>},
};

template <class Entries>
auto entry_in(const Entries& entries, std::string_view name) {
  const auto found = std::ranges::find(entries, name, [](const auto& entry) { return entry.name; });
  return found != std::end(entries) ? found : nullptr;
}

/// Of the function cycler: gives its items in turn, over and over.
Value call_cycler(const GivenArguments& given, Rendering& rendering) {
  if (given.positional.empty() || !given.named.empty()) throw Error("cycler needs values");
  auto space = std::make_unique<Namespace>();
  space->kind = Namespace::Kind::cycler;
  space->items = given.positional;
  space->attributes.insert_or_assign("current", given.positional.front());
  rendering.namespaces.push_back(std::move(space));
  return *rendering.namespaces.back();
}

/// The method next or reset of a cycler.
Value turn(Namespace& cycler, std::string_view name) {
  const Value current = cycler.items[cycler.next];
  cycler.next = name == "reset" ? 0 : (cycler.next + 1) % cycler.items.size();
  cycler.attributes.insert_or_assign("current", cycler.items[cycler.next]);
  return name == "reset" ? Value() : current;
}

/// Of the function joiner: when it is called, nothing the first time, then what is to be between others.
Value call_joiner(const GivenArguments& given, Rendering& rendering) {
  const ArgumentReader arguments("joiner", given, {"sep"});
  auto space = std::make_unique<Namespace>();
  space->kind = Namespace::Kind::joiner;
  space->items = {Value(MarkedText()), arguments.get("sep", Value::text(", "))};
  rendering.namespaces.push_back(std::move(space));
  return Value::of(Callable{.name = "joiner", .receiver = Value(*rendering.namespaces.back())});
}

Dict dict_of(const GivenArguments& given, const char* what, Rendering& rendering) {
  if (given.positional.size() > 1) throw Error(std::string(what) + " takes one dictionary, or names and values");
  Dict dict;
  if (!given.positional.empty()) {
    const Value& from = given.positional[0];
    require_defined(from);
    if (const Dict* other = from.as<Dict>()) {
      rendering.budget.charge(128, other->entries.size());
      dict = *other;
    } else {
      for (const Value& entry : items_of(from, rendering)) {
        const std::vector<Value> pair = items_of(entry, rendering);
        if (pair.size() != 2) throw Error(std::string(what) + " needs pairs of a key and a value");
        dict.set(pair[0], pair[1], rendering.budget);
      }
    }
  }
  for (const auto& [name, value] : given.named) dict.set(name, value);
  return dict;
}

Value call_range(const GivenArguments& given, Rendering& rendering) {
  constexpr std::int64_t items_max = 100000;  // as in Jinja's sandbox
  if (!given.named.empty() || given.positional.empty() || given.positional.size() > 3) {
    throw Error("range takes one to three integers");
  }
  std::vector<std::int64_t> bounds;
  for (const Value& value : given.positional) bounds.push_back(integer_of(value, "range"));
  const std::int64_t first = bounds.size() == 1 ? 0 : bounds[0];
  const std::int64_t end = bounds.size() == 1 ? bounds[0] : bounds[1];
  const std::int64_t step = bounds.size() == 3 ? bounds[2] : 1;
  if (step == 0) throw Error("the step of range cannot be 0");
  List list{List::Kind::range, {}};
  for (std::int64_t at = first; step > 0 ? at < end : at > end;) {
    if (std::ssize(list.items) == items_max) throw Error("range has more than 100000 items; use a shorter one");
    list.items.emplace_back(at);
    if (__builtin_add_overflow(at, step, &at)) break;
  }
  rendering.budget.charge(16 * list.items.size());
  return Value::of(std::move(list));
}

Value call_namespace(const GivenArguments& given, Rendering& rendering) {
  const Dict dict = dict_of(given, "namespace", rendering);
  auto space = std::make_unique<Namespace>();
  for (const auto& [key, value] : dict.entries) {
    const MarkedText* name = key.as<MarkedText>();
    if (name == nullptr) throw Error("the names of a namespace are strings");
    if (name->bytes().starts_with('_')) {
      throw Error("the attribute " + in_quotes(name->bytes()) + " of a namespace begins with _; rename it");
    }
    space->attributes.insert_or_assign(name->bytes(), value);
  }
  rendering.namespaces.push_back(std::move(space));
  return *rendering.namespaces.back();
}

[[noreturn]] void raise_exception(const GivenArguments& given, Rendering& rendering) {
  const ArgumentReader arguments("raise_exception", given, {"message"});
  throw Error("the template refuses this conversation: " +
              printable(text_of(arguments.at("message"), rendering.budget).bytes(), 500));
}

Value strftime_now(const GivenArguments& given, Rendering& rendering) {
  const ArgumentReader arguments("strftime_now", given, {"format"});
  const MarkedText& format = arguments.text("format");
  if (format.size() > 256) throw Error("the format of strftime_now is longer than 256 bytes");
  const std::string with_end = format.bytes() + " ";  // so that nothing means too long
  std::string text(16384, '\0');
  text.resize(std::strftime(text.data(), text.size(), with_end.c_str(), &rendering.now));
  if (text.empty()) throw Error("the date of strftime_now is too long");
  text.pop_back();
  return Value::text(std::move(text));
}

Value cycle(const Loop& loop, const GivenArguments& given) {
  if (!given.named.empty() || given.positional.empty()) throw Error("loop.cycle needs values");
  return given.positional[*loop.index % given.positional.size()];
}

}  // namespace

bool is_filter(std::string_view name) { return entry_in(filters, name) != nullptr; }
bool is_test(std::string_view name) { return entry_in(tests, name) != nullptr; }

bool is_function(std::string_view name) {
  constexpr std::string_view names[] = {"cycler",          "dict",  "joiner",      "namespace",
                                        "raise_exception", "range", "strftime_now"};
  return std::ranges::find(names, name) != std::end(names);
}

Value apply_filter(std::string_view name, const Value& value, const GivenArguments& given, Rendering& rendering) {
  rendering.budget.charge(64);
  const FilterEntry& filter = *entry_in(filters, name);
  Value made = filter.apply({"the filter " + in_quotes(name), value, given, rendering});
  return filter.keeps_safe && value.is_safe() && made.as<MarkedText>() != nullptr ? made.made_safe() : made;
}

bool apply_test(std::string_view name, const Value& value, const GivenArguments& given, Rendering& rendering) {
  rendering.budget.charge(64);
  return entry_in(tests, name)->holds({"the test " + in_quotes(name), value, given, rendering});
}

Value call(const Callable& callable, const GivenArguments& given, Rendering& rendering) {
  rendering.budget.charge(64);
  if (callable.receiver) {
    if (const Loop* loop = callable.receiver->as<Loop>()) return cycle(*loop, given);
    if (Namespace* const space = callable.receiver->as_namespace()) {
      const ArgumentReader none("the method " + in_quotes(callable.name), given, {});
      if (space->kind == Namespace::Kind::cycler) return turn(*space, callable.name);
      return space->items[std::exchange(space->next, 1)];
    }
    return call_method(*callable.receiver, callable.name, given, rendering);
  }
  if (callable.name == "cycler") return call_cycler(given, rendering);
  if (callable.name == "joiner") return call_joiner(given, rendering);
  if (callable.name == "dict") return Value::of(dict_of(given, "dict", rendering));
  if (callable.name == "namespace") return call_namespace(given, rendering);
  if (callable.name == "range") return call_range(given, rendering);
  if (callable.name == "strftime_now") return strftime_now(given, rendering);
  raise_exception(given, rendering);
}

}  // namespace draftproof::jinja
