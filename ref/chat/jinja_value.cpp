// SPDX-License-Identifier: MIT
#include "ref/chat/jinja_value.h"

#include <algorithm>
#include <charconv>
#include <cmath>
#include <limits>

#include "ref/base/error.h"

namespace draftproof::jinja {
namespace {

int deepest(const std::vector<Value>& items) {
  int depth = 0;
  for (const Value& item : items) depth = std::max(depth, item.depth());
  return depth;
}

int checked(int depth) {
  if (depth > value_depth_max) throw Error("values nest deeper than 256 levels; use flatter ones");
  return depth;
}

std::optional<std::int64_t> integer_of(const Value& value) {
  if (const auto* v = value.as<bool>()) return *v ? 1 : 0;
  if (const auto* v = value.as<std::int64_t>()) return *v;
  return std::nullopt;
}

/// Exact, as in Python: no integer is rounded to a double.
bool equal_numbers(const Value& left, const Value& right) {
  const auto a = integer_of(left);
  const auto b = integer_of(right);
  if (a && b) return *a == *b;
  if (!a && !b) return *number_of(left) == *number_of(right);
  const double number = a ? *number_of(right) : *number_of(left);
  constexpr double max = 9223372036854775808.0;
  return number >= -max && number < max && std::trunc(number) == number &&
         static_cast<std::int64_t>(number) == (a ? *a : *b);
}

bool equal_items(const std::vector<Value>& left, const std::vector<Value>& right, Budget& budget) {
  return left.size() == right.size() &&
         std::equal(left.begin(), left.end(), right.begin(),
                    [&](const Value& one, const Value& other) { return equal(one, other, budget); });
}

bool equal_dicts(const Dict& left, const Dict& right, Budget& budget) {
  if (left.entries.size() != right.entries.size()) return false;
  return std::all_of(left.entries.begin(), left.entries.end(), [&](const auto& entry) {
    const Value* other = right.find(entry.first, budget);
    return other != nullptr && equal(entry.second, *other, budget);
  });
}

std::string identity_of_number(const Value& key) {
  if (const auto integer = integer_of(key)) return "n" + std::to_string(*integer);
  const double number = *key.as<double>();
  constexpr double max = 9223372036854775808.0;
  if (number >= -max && number < max && std::trunc(number) == number) {
    return "n" + std::to_string(static_cast<std::int64_t>(number));
  }
  char digits[64];
  return "n" + std::string(digits, std::to_chars(digits, std::end(digits), number).ptr);
}

}  // namespace

std::optional<double> number_of(const Value& value) {
  if (const auto* v = value.as<bool>()) return *v ? 1.0 : 0.0;
  if (const auto* v = value.as<std::int64_t>()) return static_cast<double>(*v);
  if (const auto* v = value.as<double>()) return *v;
  return std::nullopt;
}

void Budget::charge(std::uint64_t units, std::uint64_t times) {
  std::uint64_t all = 0;
  if (__builtin_mul_overflow(units, times, &all) || all > left_) {
    throw Error("does too much work; use a template that repeats less");
  }
  left_ -= all;
}

Value Value::undefined(std::string why) { return Value(Data(Undefined{std::move(why)})); }

Value Value::list(std::vector<Value> items) { return of(List{List::Kind::list, std::move(items)}); }

Value Value::of(List list) {
  list.depth = checked(1 + deepest(list.items));
  return Value(Data(std::make_shared<List>(std::move(list))));
}

Value Value::of(Dict dict) {
  dict.depth = 1;
  for (const auto& [key, value] : dict.entries) {
    dict.depth = checked(std::max({dict.depth, 1 + key.depth(), 1 + value.depth()}));
  }
  return Value(Data(std::make_shared<const Dict>(std::move(dict))));
}

Value Value::of(Loop loop) {
  loop.depth = checked(1 + deepest(*loop.items));
  return Value(Data(std::make_shared<const Loop>(std::move(loop))));
}

Value Value::of(Callable callable) {
  callable.depth = checked(1 + (callable.receiver ? callable.receiver->depth() : 0));
  return Value(Data(std::make_shared<const Callable>(std::move(callable))));
}

Value Value::from_json(const Json& json, bool by_user) {
  if (json.is_boolean()) return json.boolean();
  if (json.is_float()) return json.number();
  if (json.is_number()) {
    return json.integer(std::numeric_limits<std::int64_t>::min(), std::numeric_limits<std::int64_t>::max());
  }
  if (json.is_string()) return by_user ? Value(MarkedText::of_user(json.string())) : Value::text(json.string());
  if (json.is_array()) {
    std::vector<Value> items;
    for (std::size_t i = 0; i < json.size(); ++i) items.push_back(from_json(json[i], by_user));
    return list(std::move(items));
  }
  if (!json.is_object()) return {};
  Dict dict;
  for (const std::string& name : json.fields()) {
    const auto field = json.find(name);
    dict.set(by_user ? MarkedText::of_user(name) : MarkedText(name), field ? from_json(*field, by_user) : Value());
  }
  return of(std::move(dict));
}

List* Value::as_list() const noexcept {
  const auto* held = std::get_if<std::shared_ptr<List>>(&data_);
  return held != nullptr ? held->get() : nullptr;
}

Namespace* Value::as_namespace() const noexcept {
  Namespace* const* held = std::get_if<Namespace*>(&data_);
  return held != nullptr ? *held : nullptr;
}

int Value::depth() const noexcept {
  if (const List* list = as_list()) return list->depth;
  if (const Dict* dict = as<Dict>()) return dict->depth;
  if (const Loop* loop = as<Loop>()) return loop->depth;
  if (const Callable* callable = as<Callable>()) return callable->depth;
  return 0;
}

const char* Value::type_name() const noexcept {
  if (is_undefined()) return "Undefined";
  if (is_none()) return "NoneType";
  if (as<bool>() != nullptr) return "bool";
  if (as<std::int64_t>() != nullptr) return "int";
  if (as<double>() != nullptr) return "float";
  if (as<MarkedText>() != nullptr) return "str";
  if (const List* list = as_list()) {
    switch (list->kind) {
      case List::Kind::list: return "list";
      case List::Kind::tuple: return "tuple";
      case List::Kind::range: return "range";
      case List::Kind::view: return list->view.c_str();
      case List::Kind::iterator: return "generator";
    }
  }
  if (as<Dict>() != nullptr) return "dict";
  if (as<Loop>() != nullptr) return "LoopContext";
  if (as_namespace() != nullptr) return "Namespace";
  return "function";
}

void Dict::set(const Value& key, std::string identity, Value value) {
  const auto [place, added] = places.try_emplace(std::move(identity), entries.size());
  if (added) {
    entries.emplace_back(key, std::move(value));
  } else {
    entries[place->second].second = std::move(value);
  }
}

void Dict::set(const Value& key, Value value, Budget& budget) {
  auto identity = identity_of(key, budget);
  if (!identity) throw Error(std::string("a ") + key.type_name() + " cannot be a key of a dictionary");
  set(key, std::move(*identity), std::move(value));
}

void Dict::set(MarkedText key, Value value) {
  std::string identity = "s" + key.bytes();
  set(Value(std::move(key)), std::move(identity), std::move(value));
}

const Value* Dict::find(const Value& key, Budget& budget) const {
  const auto identity = identity_of(key, budget);
  const auto found = identity ? places.find(*identity) : places.end();
  return found != places.end() ? &entries[found->second].second : nullptr;
}

const Value* Dict::find(std::string_view key) const {
  const auto found = places.find("s" + std::string(key));
  return found != places.end() ? &entries[found->second].second : nullptr;
}

bool is_true(const Value& value) {
  if (value.is_undefined() || value.is_none()) return false;
  if (const auto number = number_of(value)) return *number != 0;
  if (const MarkedText* text = value.as<MarkedText>()) return !text->empty();
  if (const List* list = value.as_list()) return list->kind == List::Kind::iterator || !list->items.empty();
  if (const Dict* dict = value.as<Dict>()) return !dict->entries.empty();
  return true;
}

bool equal(const Value& left, const Value& right, Budget& budget) {
  budget.charge(8);
  if (number_of(left) && number_of(right)) return equal_numbers(left, right);
  if (left.is_undefined() || left.is_none()) {
    return left.is_undefined() == right.is_undefined() && left.is_none() == right.is_none();
  }
  if (const MarkedText* text = left.as<MarkedText>()) {
    const MarkedText* other = right.as<MarkedText>();
    budget.charge(text->size() / 8);
    return other != nullptr && text->bytes() == other->bytes();
  }
  if (const List* list = left.as_list()) {
    const List* other = right.as_list();
    if (other == nullptr || list == other) return other != nullptr;
    return list->kind == other->kind && list->kind != List::Kind::iterator &&
           equal_items(list->items, other->items, budget);
  }
  if (const Dict* dict = left.as<Dict>()) {
    const Dict* other = right.as<Dict>();
    return other != nullptr && (dict == other || equal_dicts(*dict, *other, budget));
  }
  if (const Namespace* space = left.as_namespace()) return space == right.as_namespace();
  return false;
}

std::optional<std::string> identity_of(const Value& key, Budget& budget) {
  if (const MarkedText* text = key.as<MarkedText>()) {
    budget.charge(8 + text->size() / 4);
    return "s" + text->bytes();
  }
  if (number_of(key)) return identity_of_number(key);
  if (key.is_none()) return "0";
  const List* list = key.as_list();
  if (list == nullptr || list->kind != List::Kind::tuple) return std::nullopt;
  std::string identity = "t";
  for (const Value& item : list->items) {
    const auto inner = identity_of(item, budget);
    if (!inner) return std::nullopt;
    budget.charge(8 + inner->size());
    identity += std::to_string(inner->size()) + ":" + *inner;
  }
  return identity;
}

}  // namespace draftproof::jinja
