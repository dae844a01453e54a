// SPDX-License-Identifier: MIT
#include "serve/foreign_json.h"

#include <algorithm>

#include "ref/base/error.h"

namespace draftproof::serve {

Json parse_foreign(const std::string& body) {
  const Json json = Json::parse(body, "the request");
  if (!json.is_object()) json.fail("is not a JSON object");
  require_few(json);
  return json;
}

void require_few(const Json& json) {
  constexpr std::size_t fields_max = 1024;
  if (json.is_array()) {
    for (std::size_t i = 0; i < json.size(); ++i) require_few(json[i]);
  } else if (json.is_object()) {
    const std::vector<std::string> names = json.fields();
    if (names.size() > fields_max) json.fail("has more than " + std::to_string(fields_max) + " fields");
    for (const std::string& name : names) {
      if (const auto value = json.find(name)) require_few(*value);
    }
  }
}

ForeignJson foreign(const Json& value) { return ForeignJson::parse(value.text()); }

bool read_boolean(const Json& object, const char* field, bool default_value) {
  const auto found = object.find(field);
  return found ? found->boolean() : default_value;
}

std::string read_texts_of(const Json& content, std::initializer_list<std::string_view> types) {
  if (!content.is_array()) return content.string();
  std::string text;
  for (std::size_t i = 0; i < content.size(); ++i) {
    const Json part = content[i];
    if (std::ranges::find(types, part.at("type").string()) == types.end()) {
      part.fail("is not text, and this server reads no other content");
    }
    text += part.at("text").string();
  }
  return text;
}

bool is_blank_value(const Json& value) {
  return (value.is_array() && value.size() == 0) || (value.is_boolean() && !value.boolean()) ||
         (value.is_string() && value.string().empty());
}

void refuse_unknown(const Json& object, std::initializer_list<std::string_view> known) {
  for (const std::string& name : object.fields()) {
    const auto value = object.find(name);
    if (!value || std::ranges::find(known, name) != known.end() || is_blank_value(*value)) continue;
    value->fail("is not supported by this server; leave it out");
  }
}

std::string text_of(const ForeignJson& json) {
  return json.dump(-1, ' ', false, ForeignJson::error_handler_t::replace);
}

ForeignJson object_or_empty(const std::string& text) {
  try {
    const Json json = Json::parse(text, "arguments");
    if (json.is_object()) return foreign(json);
  } catch (const Error&) {  // the model wrote something else
  }
  return ForeignJson::object();
}

}  // namespace draftproof::serve
