// SPDX-License-Identifier: MIT
// Reads the arguments of a filter, a test, a function or a method by name or position.
#pragma once

#include <initializer_list>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "ref/chat/jinja_builtins.h"

namespace draftproof::jinja {

class ArgumentReader {
 public:
  /// `what` is called: "the filter 'join'". Throws Error for more arguments than `names`, and for one of another name.
  ArgumentReader(std::string what, const GivenArguments& given, std::vector<std::string_view> names);

  const Value* find(std::string_view name) const;  // nullptr when it is not given
  const Value& at(std::string_view name) const;    // throws Error when it is not given
  Value get(std::string_view name, Value absent = {}) const;
  bool flag(std::string_view name, bool absent) const;
  std::int64_t integer(std::string_view name, std::int64_t absent) const;
  /// Throws Error when it is not a string.
  const MarkedText& text(std::string_view name) const;

 private:
  std::string what_;
  std::vector<std::pair<std::string_view, const Value*>> values_;
};

}  // namespace draftproof::jinja
