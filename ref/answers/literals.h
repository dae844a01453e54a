// SPDX-License-Identifier: MIT
// Values as models write them, as JSON.
#pragma once

#include <string>
#include <string_view>

namespace draftproof {

/// A text as a string of JSON; what is not UTF-8 becomes U+FFFD.
std::string json_of_text(std::string_view text);
/// A value of JSON as it is, one of Python as JSON, anything else as a text.
std::string json_of_value(std::string_view text);
/// The text of a string of JSON with its quotes; empty for anything else.
std::string text_of_json(std::string_view string);

/// The end of (KEY=VALUE, ...) or {KEY:VALUE,...}, which a text begins with; npos while there is none. `quote`: stands
/// around strings.
std::size_t end_of_python_arguments(std::string_view text);
std::size_t end_of_gemma_arguments(std::string_view text, std::string_view quote);
/// Their JSON. A value that is not understood is a text.
std::string json_of_python_arguments(std::string_view text);
std::string json_of_gemma_arguments(std::string_view text, std::string_view quote);

}  // namespace draftproof
