// SPDX-License-Identifier: MIT
// Python's two ways to format values into a string. Keep marks. Throw Error for what Python would raise an exception.
#pragma once

#include "ref/chat/jinja_builtins.h"

namespace draftproof::jinja {

/// format % arguments: a tuple, a dictionary, or one value.
Value formatted_with_percent(const Value& format, const Value& arguments, Rendering& rendering);
/// format.format(...)
Value formatted_with_braces(const Value& format, const GivenArguments& given, Rendering& rendering);

/// The number with so many digits behind the point; rounded as Python does it.
std::string with_digits(double number, int digits);

enum class Alignment { left, right, middle };
/// The text with `fill` on one side or both, so that it has `width` characters.
MarkedText aligned(const MarkedText& text, std::int64_t width, std::string_view fill, Alignment alignment,
                   Budget& budget);

}  // namespace draftproof::jinja
