// SPDX-License-Identifier: MIT
// Values as text: Python's str() and repr(), and JSON as json.dumps writes it. Keeps marks. Throws Error for a value
// that has no such text, and when the budget does not suffice.
#pragma once

#include <optional>
#include <string>

#include "ref/chat/jinja_value.h"

namespace draftproof::jinja {

/// str(): a string itself, nothing for what is undefined.
MarkedText text_of(const Value& value, Budget& budget);
void append_text_of(const Value& value, MarkedText& text, Budget& budget);

/// repr().
MarkedText representation_of(const Value& value, Budget& budget);

/// Python's repr() of a float.
std::string shortest(double number);

struct JsonStyle {
  bool ensure_ascii = false;
  bool sort_keys = false;
  std::optional<MarkedText> indent = {};  // of each level
  MarkedText between_items = MarkedText(", ");
  MarkedText after_key = MarkedText(": ");
};
MarkedText json_of(const Value& value, const JsonStyle& style, Budget& budget);

}  // namespace draftproof::jinja
