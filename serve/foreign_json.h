// SPDX-License-Identifier: MIT
// JSON of requests and answers.
#pragma once

#include <initializer_list>
#include <map>
#include <nlohmann/json.hpp>
#include <string>
#include <string_view>
#include <utility>

#include "ref/formats/json.h"

namespace draftproof::serve {

using ForeignJson = nlohmann::ordered_json;

/// Throws Error for what is no JSON object, nests too deep, or has an object of more fields than require_few takes.
Json parse_foreign(const std::string& body);
/// Throws Error for an object of more than a thousand fields in it: ForeignJson looks through all of them for each.
void require_few(const Json& json);

/// A request of another API as that of a chat or a completion.
struct TranslatedRequest {
  ForeignJson fields = ForeignJson::object();
  std::map<std::string, std::string> names = {};  // what its client calls them

  void set(const std::string& field, ForeignJson value, const std::string& name) {
    fields[field] = std::move(value);
    names[field] = name;
  }
  /// Adds an element to a list.
  void add(const std::string& field, ForeignJson value, const std::string& name) {
    names[field + "[" + std::to_string(fields[field].size()) + "]"] = name;
    fields[field].push_back(std::move(value));
  }
};

/// The same value, to be written.
ForeignJson foreign(const Json& value);
bool read_boolean(const Json& object, const char* field, bool default_value);
/// The text of a string, or of parts that are texts: objects of one of these types with a `text`.
std::string read_texts_of(const Json& content, std::initializer_list<std::string_view> types);
/// Whether a field asks for nothing: false, an empty text or an empty list.
bool is_blank_value(const Json& value);
/// Throws Error for a field that is none of these, unless it asks for nothing.
void refuse_unknown(const Json& object, std::initializer_list<std::string_view> known);
/// JSON as text; what is not UTF-8 becomes U+FFFD.
std::string text_of(const ForeignJson& json);
/// The object that a text is, as the arguments of a call are; an empty one for anything else.
ForeignJson object_or_empty(const std::string& text);

}  // namespace draftproof::serve
