// SPDX-License-Identifier: MIT
// What the files of other APIs need of JSON.
#pragma once

#include <initializer_list>
#include <nlohmann/json.hpp>
#include <string>
#include <string_view>

#include "ref/formats/json.h"

namespace draftproof::serve {

using ForeignJson = nlohmann::ordered_json;

/// Throws Error for what is no JSON object, nests too deep, or has an object of more fields than require_few takes.
Json parse_foreign(const std::string& body);
/// Throws Error for an object of more than a thousand fields in it: ForeignJson looks through all of them for each.
void require_few(const Json& json);
/// The same value, to be written.
ForeignJson foreign(const Json& value);
/// Throws Error for a field that is none of these, unless it says nothing.
void refuse_unknown(const Json& object, std::initializer_list<std::string_view> known);
/// JSON as text; what is not UTF-8 becomes U+FFFD.
std::string text_of(const ForeignJson& json);
/// The object that a text is, as the arguments of a call are; an empty one for anything else.
ForeignJson object_or_empty(const std::string& text);

}  // namespace draftproof::serve
