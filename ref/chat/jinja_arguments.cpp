// SPDX-License-Identifier: MIT
#include "ref/chat/jinja_arguments.h"

#include <algorithm>

#include "ref/base/error.h"
#include "ref/formats/printable.h"

namespace draftproof::jinja {

ArgumentReader::ArgumentReader(std::string what, const GivenArguments& given, std::vector<std::string_view> names)
    : what_(std::move(what)) {
  if (given.positional.size() > names.size()) {
    throw Error(what_ + " takes at most " + std::to_string(names.size()) + " arguments here, and " +
                std::to_string(given.positional.size()) + " are given");
  }
  for (std::size_t i = 0; i < given.positional.size(); ++i) values_.emplace_back(names[i], &given.positional[i]);
  for (const auto& [name, value] : given.named) {
    if (std::ranges::find(names, name) == names.end()) throw Error(what_ + " has no argument " + in_quotes(name));
    if (find(name) != nullptr) throw Error(what_ + ": the argument " + in_quotes(name) + " is given twice");
    values_.emplace_back(name, &value);
  }
}

const Value* ArgumentReader::find(std::string_view name) const {
  const auto found = std::ranges::find(values_, name, [](const auto& value) { return value.first; });
  return found != values_.end() ? found->second : nullptr;
}

const Value& ArgumentReader::at(std::string_view name) const {
  const Value* value = find(name);
  if (value == nullptr) throw Error(what_ + " needs the argument " + in_quotes(name));
  return *value;
}

Value ArgumentReader::get(std::string_view name, Value absent) const {
  const Value* value = find(name);
  return value != nullptr ? *value : std::move(absent);
}

bool ArgumentReader::flag(std::string_view name, bool absent) const {
  const Value* value = find(name);
  return value != nullptr ? is_true(*value) : absent;
}

std::int64_t ArgumentReader::integer(std::string_view name, std::int64_t absent) const {
  const Value* value = find(name);
  return value != nullptr ? integer_of(*value, what_ + ": " + std::string(name)) : absent;
}

const MarkedText& ArgumentReader::text(std::string_view name) const {
  const Value& value = at(name);
  require_defined(value);
  if (const MarkedText* text = value.as<MarkedText>()) return *text;
  throw Error(what_ + ": " + std::string(name) + " must be a string, not a " + value.type_name());
}

}  // namespace draftproof::jinja
