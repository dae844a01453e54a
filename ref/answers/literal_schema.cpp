// SPDX-License-Identifier: MIT
#include "ref/answers/literal_schema.h"

#include <algorithm>
#include <array>
#include <optional>
#include <set>
#include <string_view>
#include <vector>

#include "ref/answers/written_call.h"
#include "ref/base/error.h"
#include "ref/formats/printable.h"
#include "ref/grammar/json_schema.h"
#include "ref/grammar/schema_reader.h"

namespace draftproof {
namespace {

/// How a notation writes what all of them have.
struct Words {
  std::string_view yes, no, nothing;
  std::string_view separator;    // between values
  std::string_view open, close;  // of the arguments
};

Words words_of(const CallFormat& calls) {
  switch (calls.body) {
    case CallFormat::Body::python: return {"True", "False", "None", ", ", "(", ")"};
    case CallFormat::Body::gemma: return {"true", "false", "null", ",", "{", "}"};
    default: return {"true", "false", "null", "", "", ""};
  }
}

class LiteralCompiler {
 public:
  LiteralCompiler(const CallFormat& calls, std::string prefix, AnswerRules& rules)
      : calls_(calls), words_(words_of(calls)), prefix_(std::move(prefix)), rules_(rules) {}

  std::string arguments(const Json& schema) {
    const std::string other = other_field(schema, {"type", "properties", "required"});
    if (!other.empty()) unsupported(other);
    reader_.emplace(schema);
    if (is_empty(schema)) return no_literal_arguments(calls_);
    if (!schema.has("properties") && !schema.has("required")) return any_arguments();
    return literal(words_.open) + pairs(schema, true, 0, literal(words_.close));
  }

  std::string any_arguments() {
    switch (calls_.body) {
      case CallFormat::Body::python: return any_list(words_.open, "[a-zA-Z0-9_]+ \"=\" ", words_.close);
      case CallFormat::Body::gemma: return any_list(words_.open, "[a-zA-Z0-9_]+ \":\" ", words_.close);
      default: throw Error("calls as " + std::string(calls_.name) + " writes them need a schema");
    }
  }

 private:
  [[noreturn]] static void unsupported(const std::string& field) {
    throw Error("the keyword " + in_quotes(field) + " is not supported there");
  }

  /// Whether an object of it has no properties. Throws Error where its others have a schema.
  static bool is_empty(const Json& schema) {
    const auto others = schema.find("additionalProperties");
    if (others && !others->is_boolean()) unsupported("additionalProperties");
    return others && !others->boolean() && !schema.has("properties") && !schema.has("required");
  }

  static std::string literal(std::string_view text) { return text.empty() ? "" : gbnf_string(text) + " "; }
  std::string new_rule(const std::string& body) { return rules_.add(prefix_ + std::to_string(count_++), body) + " "; }

  std::string any_list(std::string_view open, const std::string& key, std::string_view close) {
    const std::string one = key + any();
    return literal(open) + "( " + one + "( " + literal(words_.separator) + one + ")* )? " + literal(close);
  }

  /// Any value.
  std::string any() {
    if (calls_.body == CallFormat::Body::elements) return string();
    const bool python = calls_.body == CallFormat::Body::python;
    const std::string self = AnswerRules::named("literal") + " ";
    const std::string key = python ? string() + "colon " : "[a-zA-Z0-9_]+ \":\" ";
    const std::string separator = literal(words_.separator);
    const auto list = [&](const std::string& one) { return "( " + one + "( " + separator + one + ")* )? "; };
    return rules_.add("literal", string() + "| number | " + literal(words_.yes) + "| " + literal(words_.no) + "| " +
                                     literal(words_.nothing) + "| \"[\" " + list(self) + "\"]\" | \"{\" " +
                                     list(key + self) + "\"}\"") +
           " ";
  }

  std::string string() {
    switch (calls_.body) {
      case CallFormat::Body::python:
        return rules_.add("quoted", R"("'" ( [^'\\\x00-\x1F] | "\\" ['"\\nrt] )* "'" | )"
                                    R"("\"" ( [^"\\\x00-\x1F] | "\\" ['"\\nrt] )* "\"")") +
               " ";
      case CallFormat::Body::gemma:
        return rules_.mark(calls_.quote) + rules_.text_without("quoted", calls_.quote) + " " +
               rules_.mark(calls_.quote);
      default: return rules_.text_without("value", calls_.before_key) + " ";
    }
  }

  /// One value that a schema states.
  std::string stated(const Json& value) {
    if (value.is_null()) return literal(words_.nothing);
    if (value.is_boolean()) return literal(value.boolean() ? words_.yes : words_.no);
    if (value.is_integer()) return literal(value.text());
    if (!value.is_string()) value.fail("is neither a text, an integer, a boolean nor null");
    const std::string& text = value.string();
    switch (calls_.body) {
      case CallFormat::Body::python: {
        if (text.find('\'') != std::string::npos) return literal(json_string(text));
        return "( " + literal(json_string(text)) + "| " + literal("'" + inside(json_string(text)) + "'") + ") ";
      }
      case CallFormat::Body::gemma: return rules_.mark(calls_.quote) + literal(text) + rules_.mark(calls_.quote);
      default: return text.empty() ? "\"\" " : literal(text);
    }
  }
  /// A string of JSON without its quotes, with single ones around it; quotes inside need no escapes.
  static std::string inside(std::string_view json) { return std::string(json.substr(1, json.size() - 2)); }

  std::string value(const Json& schema, int depth) {
    if (depth > depth_max) schema.fail("nests too deep");
    if (schema.is_boolean() && schema.boolean()) return any();
    if (!schema.is_object()) schema.fail("is not a schema that allows something");
    if (schema.has("const") || schema.has("enum")) {
      const auto values = reader_->values_of(reader_->conjunction_of({schema}));
      return alternatives(schema, values.value_or(Schemas()), [&](const Json& one) { return stated(one); });
    }
    for (const char* const several : {"anyOf", "oneOf"}) {
      const auto schemas = schema.find(several);
      if (!schemas) continue;
      const std::string other = other_field(schema, {several});
      if (!other.empty()) unsupported(other);
      if (several == std::string_view("oneOf")) require_exclusive(*schemas);
      return alternatives(schema, *schemas, [&](const Json& one) { return value(one, depth + 1); });
    }
    const auto type = schema.find("type");
    if (type && type->is_array()) {
      return alternatives(schema, *type, [&](const Json& one) { return of_type(schema, one.string(), depth); });
    }
    if (type) return of_type(schema, type->string(), depth);
    if (schema.has("properties")) return of_type(schema, "object", depth);
    if (schema.has("items")) return of_type(schema, "array", depth);
    const std::string other = other_field(schema, {});
    if (!other.empty()) unsupported(other);
    return any();
  }

  void require_exclusive(const Json& schemas) {
    for (std::size_t i = 0; i < schemas.size(); ++i) {
      for (std::size_t j = 0; j < i; ++j) {
        if (reader_->exclude_each_other(schemas[i], schemas[j])) continue;
        throw Error("the keyword 'oneOf' is not supported there with alternatives of which several may hold");
      }
    }
  }

  template <class List, class Body>
  std::string alternatives(const Json& schema, const List& list, const Body& body) {
    if (list.size() == 0) schema.fail("allows no value");
    std::string text;
    for (std::size_t i = 0; i < list.size(); ++i) text += (i == 0 ? "" : "| ") + body(list[i]);
    return new_rule(text);
  }

  std::string of_type(const Json& schema, const std::string& type, int depth) {
    const auto require = [&](std::initializer_list<std::string_view> known) {
      const std::string other = other_field(schema, known);
      if (!other.empty()) unsupported(other);
    };
    if (type == "string") return require({"type"}), string();
    if (type == "number") return require({"type"}), "number ";
    if (type == "boolean") return require({"type"}), "( " + literal(words_.yes) + "| " + literal(words_.no) + ") ";
    if (type == "null") return require({"type"}), literal(words_.nothing);
    if (type == "object") return require({"type", "properties", "required"}), object(schema, depth);
    if (type == "array") return require({"type", "items", "minItems", "maxItems"}), array(schema, depth);
    if (type != "integer") schema.fail("type " + in_quotes(type) + " does not exist");
    if (schema.at("type").is_array()) return require({"type"}), "integer ";
    require({"type", "minimum", "maximum", "exclusiveMinimum", "exclusiveMaximum"});
    const auto [body, rules] = schema_rules(schema, AnswerRules::named(prefix_ + std::to_string(count_++) + "-"));
    rules_.append(rules);
    return body + " ";
  }

  std::string array(const Json& schema, int depth) {
    const auto items = schema.find("items");
    std::string item = items ? value(*items, depth + 1) : any();
    const auto limit = [&](const char* field) {
      const auto found = schema.find(field);
      return found ? std::optional(found->integer(0, items_max)) : std::nullopt;
    };
    const auto min = limit("minItems").value_or(0);
    const auto max = limit("maxItems");
    if (max && *max < min) schema.fail("maxItems is less than minItems");
    const bool elements = calls_.body == CallFormat::Body::elements;
    if (elements) item = element("item", item);
    if (max && *max == 0) return elements ? "\"\" " : "\"[]\" ";
    const std::string range =
        "{" + std::to_string(std::max<std::int64_t>(0, min - 1)) + "," + (max ? std::to_string(*max - 1) : "") + "} ";
    std::string list = item + "( " + literal(words_.separator) + item + ")" + range;
    if (min == 0) list = "( " + list + ")? ";
    return new_rule(elements ? list : "\"[\" " + list + "\"]\" ");
  }

  std::string object(const Json& schema, int depth) {
    const bool elements = calls_.body == CallFormat::Body::elements;
    if (is_empty(schema)) return elements ? "\"\" " : "\"{}\" ";
    if (!schema.has("properties") && !schema.has("required")) {
      if (elements) throw Error("an object without properties is not supported there");
      const bool python = calls_.body == CallFormat::Body::python;
      return any_list("{", python ? string() + "colon " : "[a-zA-Z0-9_]+ \":\" ", "}");
    }
    return elements ? pairs(schema, false, depth, "") : "\"{\" " + pairs(schema, false, depth, "\"}\" ");
  }

  std::string element(const std::string& key, const std::string& value) {
    const auto mark = [&](std::string_view text) { return rules_.mark(text); };
    return mark(std::string(calls_.before_key) + key + std::string(calls_.after_key)) + value +
           mark(std::string(calls_.after_value) + key + std::string(calls_.after_key));
  }

  std::string pair(const std::string& key, const std::string& value, bool is_argument) {
    if (key.empty() || !std::ranges::all_of(key, is_of_name)) {
      throw Error("the name " + in_quotes(key) + " has other characters than letters, digits, _, - and .");
    }
    switch (calls_.body) {
      case CallFormat::Body::python:
        return is_argument ? literal(key + "=") + value
                           : "( " + literal("\"" + key + "\"") + "| " + literal("'" + key + "'") + ") colon " + value;
      case CallFormat::Body::gemma: return literal(key + ":") + value;
      default: return element(key, value);
    }
  }

  /// From the last property on: what may come at each, when a property came before it, and when none did.
  std::string pairs(const Json& schema, bool are_arguments, int depth, const std::string& close) {
    const std::vector<std::string> list = SchemaReader::required_of({schema});
    const std::set<std::string> required(list.begin(), list.end());
    const auto properties = schema.find("properties");
    const std::vector<std::string> names = properties ? properties->fields() : std::vector<std::string>();
    const std::set<std::string> is_property(names.begin(), names.end());
    for (const std::string& name : required) {
      if (is_property.contains(name)) continue;
      throw Error("the argument " + in_quotes(name) + " is required, and no property says what it is");
    }
    const std::string none = close.empty() ? "\"\" " : close;
    std::string after = none;
    std::string at_first = none;
    for (auto name = names.rbegin(); name != names.rend(); ++name) {
      const auto property = properties->find(*name);
      const std::string one = pair(*name, property ? value(*property, depth + 1) : any(), are_arguments);
      const bool needed = required.contains(*name);
      const std::string first = new_rule(one + after + (needed ? "" : "| " + at_first));
      after = new_rule(literal(words_.separator) + one + after + (needed ? "" : "| " + after));
      at_first = first;
    }
    return at_first;
  }

  static constexpr int depth_max = 64;
  static constexpr int items_max = 1000;

  const CallFormat& calls_;
  Words words_;
  std::string prefix_;
  AnswerRules& rules_;
  std::optional<SchemaReader> reader_;  // of the schema of the arguments
  int count_ = 0;
};

}  // namespace

bool has_literals(const CallFormat& calls) {
  using enum CallFormat::Body;
  return calls.body == python || calls.body == gemma || calls.body == elements;
}

std::string literal_arguments(const CallFormat& calls, const Json& schema, const std::string& prefix,
                              AnswerRules& rules) {
  return LiteralCompiler(calls, prefix, rules).arguments(schema);
}

std::string any_literal_arguments(const CallFormat& calls, AnswerRules& rules) {
  return LiteralCompiler(calls, "", rules).any_arguments();
}

std::string no_literal_arguments(const CallFormat& calls) {
  const Words words = words_of(calls);
  return words.open.empty() ? "" : gbnf_string(std::string(words.open) + std::string(words.close)) + " ";
}

std::string other_field(const Json& schema, std::initializer_list<std::string_view> known) {
  constexpr std::array<std::string_view, 15> notes = {
      "title",   "description", "default",     "examples", "$schema",
      "$id",     "$defs",       "definitions", "$comment", "deprecated",
      "example", "readOnly",    "writeOnly",   "name",     "additionalProperties"};
  for (const std::string& field : schema.fields()) {
    if (std::ranges::find(known, field) == known.end() && std::ranges::find(notes, field) == notes.end()) return field;
  }
  return "";
}

}  // namespace draftproof
