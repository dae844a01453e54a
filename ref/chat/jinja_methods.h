// SPDX-License-Identifier: MIT
// The methods of strings, lists and dictionaries that templates call.
#pragma once

#include <string_view>

#include "ref/chat/jinja_builtins.h"

namespace draftproof::jinja {

bool is_method(const Value& value, std::string_view name);
/// Whether the sandbox forbids this method of Python, because it changes the value.
bool is_unsafe_method(const Value& value, std::string_view name);
/// Whether Python has this method too, which is not implemented.
bool is_other_method(const Value& value, std::string_view name);

Value call_method(const Value& receiver, std::string_view name, const GivenArguments& given, Rendering& rendering);

}  // namespace draftproof::jinja
