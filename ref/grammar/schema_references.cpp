// SPDX-License-Identifier: MIT
#include "ref/grammar/schema_references.h"

#include <algorithm>
#include <charconv>
#include <optional>
#include <string_view>

namespace draftproof {
namespace {

/// A step of a JSON pointer in a reference.
std::string unescaped(std::string_view step) {
  std::string plain;
  for (std::size_t i = 0; i < step.size(); ++i) {
    unsigned byte = 0;
    const char* const digits = step.data() + i + 1;
    const bool is_escape =
        step[i] == '%' && i + 2 < step.size() && std::from_chars(digits, digits + 2, byte, 16).ptr == digits + 2;
    if (is_escape) i += 2;
    plain += is_escape ? static_cast<char>(byte) : step[i];
  }
  std::string result;
  for (std::size_t i = 0; i < plain.size(); ++i) {
    const bool is_escape = plain[i] == '~' && i + 1 < plain.size();
    result += !is_escape ? plain[i] : plain[++i] == '1' ? '/' : '~';
  }
  return result;
}

/// The schema with this name, of $anchor or, up to draft 7, of $id.
std::optional<Json> anchored(const Json& json, const std::string& name) {
  if (json.is_array()) {
    for (std::size_t i = 0; i < json.size(); ++i) {
      if (auto found = anchored(json[i], name)) return found;
    }
  }
  if (!json.is_object()) return std::nullopt;
  const auto is_named = [&](const char* field, const std::string& text) {
    const auto own = json.find(field);
    return own && own->is_string() && own->string() == text;
  };
  if (is_named("$anchor", name) || is_named("$id", "#" + name) || is_named("id", "#" + name)) return json;
  for (const std::string& field : json.fields()) {
    if (auto found = anchored(*json.member(field), name)) return found;
  }
  return std::nullopt;
}

/// Inside of a schema with a name of its own, references would start from there.
void refuse_inner_references(const Json& json, bool is_root, bool inside) {
  if (json.is_array()) {
    for (std::size_t i = 0; i < json.size(); ++i) refuse_inner_references(json[i], false, inside);
  }
  if (!json.is_object()) return;
  for (const char* const field : {"$id", "id"}) {
    const auto name = json.find(field);
    inside = inside || (!is_root && name && name->is_string() && !name->string().starts_with('#'));
  }
  const auto reference = json.find("$ref");
  if (inside && reference && reference->is_string()) {
    reference->fail("is inside of a schema with an $id of its own, which is not supported; remove that");
  }
  for (const std::string& field : json.fields()) refuse_inner_references(*json.member(field), false, inside);
}

}  // namespace

SchemaReferences::SchemaReferences(const Json& root) : root_(root) {
  if (!root.is_object()) return;
  refuse_inner_references(root, true, false);
  for (const char* const field : {"$id", "id"}) {
    const auto name = root.find(field);
    if (name && name->is_string()) own_name_ = name->string().substr(0, name->string().find('#'));
  }
}

Json SchemaReferences::target_of(const Json& reference) const {
  std::string_view pointer = reference.string();
  if (!own_name_.empty() && pointer.starts_with(own_name_)) pointer.remove_prefix(own_name_.size());
  if (pointer.empty() || pointer == "#") return root_;
  if (!pointer.starts_with('#')) reference.fail("does not point into the schema itself");
  pointer.remove_prefix(1);
  if (!pointer.starts_with('/')) {
    if (auto named = anchored(root_, std::string(pointer))) return *named;
    reference.fail("points to nothing");
  }
  Json target = root_;
  while (!pointer.empty()) {
    pointer.remove_prefix(1);
    const std::string step = unescaped(pointer.substr(0, pointer.find('/')));
    pointer.remove_prefix(std::min(pointer.find('/'), pointer.size()));
    std::optional<Json> next;
    if (target.is_object()) next = target.member(step);
    if (target.is_array() && !step.empty() && step.size() < 6 &&
        step.find_first_not_of("0123456789") == std::string::npos) {
      const auto index = static_cast<std::size_t>(std::stoi(step));
      if (index < target.size()) next = target[index];
    }
    if (!next) reference.fail("points to nothing");
    target = *next;
  }
  return target;
}

}  // namespace draftproof
