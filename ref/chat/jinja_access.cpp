// SPDX-License-Identifier: MIT
// Attributes, items, slices, order and membership of values.
#include <algorithm>
#include <array>
#include <compare>

#include "ref/base/error.h"
#include "ref/base/utf8.h"
#include "ref/chat/jinja_builtins.h"
#include "ref/chat/jinja_methods.h"
#include "ref/chat/jinja_text.h"
#include "ref/formats/printable.h"

namespace draftproof::jinja {
namespace {

Value missing(const Value& value, const std::string& what) {
  return Value::undefined(in_quotes(value.type_name()) + " has no " + what);
}

Value loop_attribute(const Loop& loop, const std::string& name, const Value& value) {
  const auto index = static_cast<std::int64_t>(*loop.index);
  const auto count = static_cast<std::int64_t>(loop.items->size());
  if (name == "index") return index + 1;
  if (name == "index0") return index;
  if (name == "revindex") return count - index;
  if (name == "revindex0") return count - index - 1;
  if (name == "first") return index == 0;
  if (name == "last") return index + 1 == count;
  if (name == "length") return count;
  if (name == "depth") return std::int64_t{1};  // of recursive loops only it is more
  if (name == "depth0") return std::int64_t{0};
  if (name == "previtem") {
    return index > 0 ? (*loop.items)[*loop.index - 1] : Value::undefined("there is no previous item");
  }
  if (name == "nextitem") {
    return index + 1 < count ? (*loop.items)[*loop.index + 1] : Value::undefined("there is no next item");
  }
  if (name == "cycle") return Value::of(Callable{.name = name, .receiver = value});
  if (name == "changed") throw Error("loop.changed is not implemented");
  return missing(value, "attribute " + in_quotes(name));
}

/// The attribute or method that Python has; nothing when it has none.
std::optional<Value> python_attribute(const Value& value, const std::string& name) {
  if (const Loop* loop = value.as<Loop>()) return loop_attribute(*loop, name, value);
  if (const Namespace* space = value.as_namespace()) {
    const auto found = space->attributes.find(name);
    if (found != space->attributes.end()) return found->second;
    const bool is_method = space->kind == Namespace::Kind::cycler && (name == "next" || name == "reset");
    if (is_method) return Value::of(Callable{.name = name, .receiver = value});
    return std::nullopt;
  }
  if (const List* const list = value.as_list(); list != nullptr && list->view == List::group) {
    if (name == "grouper") return list->items[0];
    if (name == "list") return list->items[1];
  }
  if (is_unsafe_method(value, name)) {
    throw Error(std::string("the method ") + in_quotes(name) + " of a " + value.type_name() +
                " would change it, which templates may not");
  }
  if (is_method(value, name)) return Value::of(Callable{.name = name, .receiver = value});
  if (is_other_method(value, name)) {
    throw Error(std::string("the method ") + in_quotes(name) + " of a " + value.type_name() + " is not implemented");
  }
  return std::nullopt;
}

/// The place of an index that counts from the end when it is negative; nothing when it is outside.
std::optional<std::size_t> place_of(std::int64_t index, std::size_t count) {
  const auto end = static_cast<std::int64_t>(count);
  if (index < 0) index += end;
  return index >= 0 && index < end ? std::optional(static_cast<std::size_t>(index)) : std::nullopt;
}

std::optional<std::int64_t> index_in(const Value& index) {
  if (const auto* boolean = index.as<bool>()) return *boolean ? 1 : 0;
  if (const auto* integer = index.as<std::int64_t>()) return *integer;
  return std::nullopt;
}

std::optional<Value> python_item(const Value& value, const Value& index, Rendering& rendering) {
  require_defined(value);
  if (const Dict* dict = value.as<Dict>()) {
    const Value* found = dict->find(index, rendering.budget);
    return found != nullptr ? std::optional(*found) : std::nullopt;
  }
  const auto number = index_in(index);
  if (!number) return std::nullopt;
  if (const MarkedText* text = value.as<MarkedText>()) {
    rendering.budget.charge(text->size());
    const auto place = place_of(*number, static_cast<std::size_t>(length(text->bytes())));
    if (!place) return std::nullopt;
    const Value character = characters_at(*text, {*place});
    return value.is_safe() ? character.made_safe() : character;
  }
  const List* list = value.as_list();
  if (list == nullptr || list->kind == List::Kind::view || list->kind == List::Kind::iterator) return std::nullopt;
  const auto place = place_of(*number, list->items.size());
  return place ? std::optional(list->items[*place]) : std::nullopt;
}

/// The places that a slice of `count` items visits, as Python's slice.indices finds them.
std::vector<std::size_t> places_in_slice(std::size_t count, const Value& from, const Value& to, const Value& step,
                                         Budget& budget) {
  const auto bound = [](const Value& value, std::int64_t absent) {
    return value.is_none() ? absent : integer_of(value, "a slice");
  };
  const std::int64_t stride = bound(step, 1);
  if (stride == 0) throw Error("the step of a slice cannot be 0");
  const auto end = static_cast<std::int64_t>(count);
  const std::int64_t min = stride > 0 ? 0 : -1;
  const std::int64_t max = stride > 0 ? end : end - 1;
  const auto clamped = [&](const Value& value, std::int64_t absent) {
    if (value.is_none()) return absent;
    const std::int64_t place = integer_of(value, "a slice");
    return place < 0 ? std::max(place + end, min) : std::min(place, max);
  };
  const std::int64_t first = clamped(from, stride > 0 ? min : max);
  const std::int64_t stop = clamped(to, stride > 0 ? max : min);
  std::vector<std::size_t> places;
  for (std::int64_t at = first; stride > 0 ? at < stop : at > stop;) {
    places.push_back(static_cast<std::size_t>(at));
    if (stride > 0 ? stride >= stop - at : stride <= stop - at) break;
    at += stride;
  }
  budget.charge(16 * places.size());
  return places;
}

}  // namespace

void require_defined(const Value& value) {
  if (const Undefined* undefined = value.as<Undefined>()) throw Error(undefined->why);
}

std::int64_t integer_of(const Value& value, std::string_view what) {
  require_defined(value);
  if (const auto integer = index_in(value)) return *integer;
  throw Error(std::string(what) + " needs an integer, not a " + value.type_name());
}

Value attribute_of(const Value& value, const std::string& name, Rendering& rendering) {
  require_defined(value);
  if (name.starts_with("__")) {
    throw Error("the attribute " + in_quotes(name) + " of Python's objects is not implemented");
  }
  if (auto attribute = python_attribute(value, name)) return std::move(*attribute);
  if (auto item = python_item(value, Value::text(name), rendering)) return std::move(*item);
  return missing(value, "attribute " + in_quotes(name));
}

Value item_of(const Value& value, const Value& index, Rendering& rendering) {
  if (auto item = python_item(value, index, rendering)) return std::move(*item);
  if (const MarkedText* name = index.as<MarkedText>()) {
    if (name->bytes().starts_with("__")) {
      throw Error("the attribute " + in_quotes(name->bytes()) + " of Python's objects is not implemented");
    }
    if (value.as_namespace() != nullptr) return missing(value, "item " + in_quotes(name->bytes()));
    if (auto attribute = python_attribute(value, name->bytes())) return std::move(*attribute);
    return missing(value, "item " + in_quotes(name->bytes()));
  }
  return missing(value, "such item");
}

Value slice_of(const Value& value, const Value& from, const Value& to, const Value& step, Rendering& rendering) {
  require_defined(value);
  if (const MarkedText* text = value.as<MarkedText>()) {
    rendering.budget.charge(2 * text->size());
    const auto count = static_cast<std::size_t>(length(text->bytes()));
    const Value part = characters_at(*text, places_in_slice(count, from, to, step, rendering.budget));
    return value.is_safe() ? part.made_safe() : part;
  }
  const List* list = value.as_list();
  if (list == nullptr || list->kind == List::Kind::view || list->kind == List::Kind::iterator) {
    throw Error(std::string("a ") + value.type_name() + " cannot be sliced");
  }
  std::vector<Value> items;
  for (const std::size_t place : places_in_slice(list->items.size(), from, to, step, rendering.budget)) {
    items.push_back(list->items[place]);
  }
  return Value::of(List{list->kind, std::move(items)});
}

std::vector<Value> items_of(const Value& value, Rendering& rendering) {
  if (value.is_undefined()) return {};
  if (List* list = value.as_list()) {
    rendering.budget.charge(16 * list->items.size());
    return list->kind == List::Kind::iterator ? std::exchange(list->items, {}) : list->items;
  }
  std::vector<Value> items;
  if (const Dict* dict = value.as<Dict>()) {
    rendering.budget.charge(16 * dict->entries.size());
    for (const auto& [key, item] : dict->entries) items.push_back(key);
  } else if (const MarkedText* text = value.as<MarkedText>()) {
    rendering.budget.charge(64 * text->size());
    for (MarkedCharacters characters(*text); !characters.done();) {
      const auto character = characters.next();
      MarkedText one;
      one.append(character.bytes, character.by_user);
      items.emplace_back(std::move(one));
    }
  } else {
    throw Error(std::string("a ") + value.type_name() + " cannot be iterated over");
  }
  return items;
}

bool contains(const Value& container, const Value& item, Rendering& rendering) {
  if (const MarkedText* text = container.as<MarkedText>()) {
    require_defined(item);
    const MarkedText* part = item.as<MarkedText>();
    if (part == nullptr) throw Error(std::string("'in' of a string needs a string, not a ") + item.type_name());
    rendering.budget.charge_search(text->bytes(), part->bytes());
    return text->bytes().find(part->bytes()) != std::string::npos;
  }
  if (const Dict* dict = container.as<Dict>()) {
    if (item.as<Dict>() != nullptr || (item.as_list() != nullptr && item.as_list()->kind == List::Kind::list)) {
      throw Error(std::string("a ") + item.type_name() + " cannot be a key of a dictionary");
    }
    return dict->find(item, rendering.budget) != nullptr;
  }
  const std::vector<Value> items = items_of(container, rendering);
  return std::ranges::any_of(items, [&](const Value& one) { return equal(one, item, rendering.budget); });
}

bool less(const Value& left, const Value& right, Budget& budget) {
  budget.charge(8);
  require_defined(left);
  require_defined(right);
  if (index_in(left) && index_in(right)) return *index_in(left) < *index_in(right);
  if (number_of(left) && number_of(right)) return *number_of(left) < *number_of(right);
  const MarkedText* text = left.as<MarkedText>();
  const MarkedText* other = right.as<MarkedText>();
  if (text != nullptr && other != nullptr) {
    budget.charge(text->size() / 8);
    return text->bytes() < other->bytes();
  }
  const List* list = left.as_list();
  const List* others = right.as_list();
  const bool ordered = list != nullptr && others != nullptr && list->kind == others->kind &&
                       (list->kind == List::Kind::list || list->kind == List::Kind::tuple);
  if (!ordered) {
    throw Error(std::string("a ") + left.type_name() + " and a " + right.type_name() + " have no order");
  }
  for (std::size_t i = 0; i < std::min(list->items.size(), others->items.size()); ++i) {
    if (!equal(list->items[i], others->items[i], budget)) return less(list->items[i], others->items[i], budget);
  }
  return list->items.size() < others->items.size();
}

}  // namespace draftproof::jinja
