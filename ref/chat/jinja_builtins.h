// SPDX-License-Identifier: MIT
// What a template can apply and call that it did not define: filters, tests, functions, and the attributes and methods
// of values. Follows jinja2 and Python. Everything throws Error, a sentence without place, for what Python would raise
// an exception; the interpreter adds file and line.
#pragma once

#include <ctime>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "ref/chat/jinja_value.h"

namespace draftproof::jinja {

/// A call's arguments.
struct GivenArguments {
  std::vector<Value> positional;
  std::vector<std::pair<std::string, Value>> named;
};

/// What one rendering shares.
struct Rendering {
  Budget budget;
  std::tm now;  // what strftime_now formats
  std::vector<std::unique_ptr<Namespace>> namespaces = {};
};

bool is_filter(std::string_view name);
bool is_test(std::string_view name);
bool is_function(std::string_view name);

Value apply_filter(std::string_view name, const Value& value, const GivenArguments& given, Rendering& rendering);
bool apply_test(std::string_view name, const Value& value, const GivenArguments& given, Rendering& rendering);
/// Calls a function or a method.
Value call(const Callable& callable, const GivenArguments& given, Rendering& rendering);

/// value.name: an attribute or a method, or else the item of that name; undefined when there is neither.
Value attribute_of(const Value& value, const std::string& name, Rendering& rendering);
/// value[index]: the item, or else the attribute of that name.
Value item_of(const Value& value, const Value& index, Rendering& rendering);
/// value[from:to:step]; None for what is left out.
Value slice_of(const Value& value, const Value& from, const Value& to, const Value& step, Rendering& rendering);

/// Returns what a loop over the value visits: items, keys, characters. An iterator gives its items once.
std::vector<Value> items_of(const Value& value, Rendering& rendering);
bool contains(const Value& container, const Value& item, Rendering& rendering);
/// Whether `left` is less; throws Error for values without an order.
bool less(const Value& left, const Value& right, Budget& budget);
/// Returns the integer that a value is, a bool too; throws Error, naming `what`, for another type.
std::int64_t integer_of(const Value& value, std::string_view what);
/// Throws the Error that using an undefined value is; does nothing for others.
void require_defined(const Value& value);

}  // namespace draftproof::jinja
