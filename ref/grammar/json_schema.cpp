// SPDX-License-Identifier: MIT
#include "ref/grammar/json_schema.h"

#include <algorithm>
#include <array>
#include <cstdint>
#include <limits>
#include <map>
#include <optional>
#include <set>
#include <string_view>
#include <vector>

#include "ref/formats/printable.h"
#include "ref/grammar/grammar.h"

namespace draftproof {

std::string gbnf_string(std::string_view text) {
  std::string result = "\"";
  for (const char c : text) {
    if (c == '"' || c == '\\') result += '\\';
    if (c == '\n') result += "\\n";
    else if (c == '\r') result += "\\r";
    else result += c;
  }
  return result + '"';
}

std::string json_string(std::string_view text) {
  constexpr const char* digits = "0123456789abcdef";
  std::string result = "\"";
  for (const char c : text) {
    const auto byte = static_cast<unsigned char>(c);
    if (c == '"' || c == '\\') {
      result += '\\';
      result += c;
    } else if (c == '\n') {
      result += "\\n";
    } else if (c == '\t') {
      result += "\\t";
    } else if (byte < 0x20) {
      result += std::string("\\u00") + digits[byte >> 4] + digits[byte & 15];
    } else {
      result += c;
    }
  }
  return result + '"';
}

namespace {

constexpr int digits_max = 18;
constexpr std::int64_t integer_max = 999'999'999'999'999'999;
constexpr int count_max = 100'000;  // of characters or items

/// A value as JSON with the blanks of the grammar's texts.
std::string json_text(const Json& value) {
  if (value.is_null()) return "null";
  if (value.is_boolean()) return value.boolean() ? "true" : "false";
  if (value.is_string()) return json_string(value.string());
  if (value.is_integer()) {
    return std::to_string(
        value.integer(std::numeric_limits<std::int64_t>::min(), std::numeric_limits<std::int64_t>::max()));
  }
  if (value.is_number()) value.fail("is a number with a point, which is not supported here");
  std::string text;
  if (value.is_array()) {
    for (std::size_t i = 0; i < value.size(); ++i) text += (i == 0 ? "" : ", ") + json_text(value[i]);
    return "[" + text + "]";
  }
  for (const std::string& name : value.fields()) {
    text += (text.empty() ? "" : ", ") + json_string(name) + ": ";
    text += value.find(name) ? json_text(*value.find(name)) : "null";
  }
  return "{" + text + "}";
}

/// The rules of JSON, for any value.
constexpr const char* rules_of_json = R"gbnf(
value   ::= object | array | string | number | "true" | "false" | "null"
object  ::= "{" ( pair ( comma pair )* )? "}"
pair    ::= string colon value
array   ::= "[" ( value ( comma value )* )? "]"
colon   ::= ":" " "?
comma   ::= "," " "?
string  ::= "\"" char* "\""
char    ::= [^"\\\x00-\x1F] | "\\" ( ["\\/bfnrt] | "u" unit )
unit    ::= [0-9a-cefA-CEF] hex{3} | [dD] [0-7] hex{2} | [dD] [89abAB] hex{2} "\\u" [dD] [c-fC-F] hex{2}
hex     ::= [0-9a-fA-F]
integer ::= "-"? ( "0" | [1-9] [0-9]{0,17} )
number  ::= integer ( "." [0-9]{1,16} )? ( [eE] [-+]? [0-9]{1,2} )?
date    ::= [0-9]{4} "-" ( "0" [1-9] | "1" [0-2] ) "-" ( "0" [1-9] | "1" [0-9] | "2" [0-8] )
time    ::= ( [01] [0-9] | "2" [0-3] ) ":" [0-5] [0-9] ":" [0-5] [0-9] ( "." [0-9]{1,6} )? zone
zone    ::= "Z" | [-+] ( [01] [0-9] | "2" [0-3] ) ":" [0-5] [0-9]
uuid    ::= hex{8} "-" hex{4} "-" hex{4} "-" hex{4} "-" hex{12}
)gbnf";

/// The digits from `low` to `high`, which are equally many.
std::string digits_between(const std::string& low, const std::string& high) {
  if (low.empty()) return "";
  const bool all = low == std::string(low.size(), '0') && high == std::string(low.size(), '9');
  if (all) return "[0-9]{" + std::to_string(low.size()) + "}";
  const std::string rest = std::to_string(low.size() - 1);
  const auto any_digits = [&] { return low.size() == 1 ? std::string() : " [0-9]{" + rest + "}"; };
  const auto digit = [](char c) { return std::string("\"") + c + "\" "; };
  if (low.front() == high.front()) return digit(low.front()) + digits_between(low.substr(1), high.substr(1));
  std::string alternatives = digit(low.front()) + digits_between(low.substr(1), std::string(low.size() - 1, '9'));
  if (high.front() - low.front() > 1) {
    alternatives += std::string(" | [") + static_cast<char>(low.front() + 1) + "-" +
                    static_cast<char>(high.front() - 1) + "]" + any_digits();
  }
  alternatives += " | " + digit(high.front()) + digits_between(std::string(low.size() - 1, '0'), high.substr(1));
  return "( " + alternatives + " )";
}

/// The numbers from `low` to `high`, both not negative.
std::string numbers_between(std::int64_t low, std::int64_t high) {
  std::string alternatives;
  std::int64_t power = 1;  // the least number with so many digits
  for (int digits = 1; digits <= digits_max && low <= high; ++digits) {
    const std::int64_t max = power * 10 - 1;
    if (low <= max) {
      const std::int64_t last = std::min(high, max);
      alternatives += (alternatives.empty() ? "" : " | ") + digits_between(std::to_string(low), std::to_string(last));
      low = last + 1;
    }
    power *= 10;
  }
  return "( " + alternatives + " )";
}

class SchemaCompiler {
 public:
  SchemaCompiler(const Json& root, std::string_view prefix) : root_(root), prefix_(prefix) {}

  SchemaRules compiled(const Json& schema) && {
    SchemaRules result = {body_of(schema), ""};
    for (const auto& [name, rule] : rules_) result.rules += name + " ::= " + rule + "\n";
    return result;
  }

 private:
  /// Adds a rule and returns its name.
  std::string rule(const std::string& body) {
    size_ += body.size();
    if (size_ > Grammar::text_max) root_.fail("is too large for a grammar; simplify it");
    const std::string name = prefix_ + "r" + std::to_string(rules_.size());
    rules_.emplace_back(name, body);
    return name;
  }

  static void refuse_unknown(const Json& schema) {
    constexpr std::array<std::string_view, 36> known = {
        "type", "properties", "required", "additionalProperties", "items", "prefixItems", "minItems", "maxItems",
        "enum", "const", "anyOf", "oneOf", "allOf", "$ref", "minLength", "maxLength", "format", "minimum", "maximum",
        "exclusiveMinimum", "exclusiveMaximum",
        // These restrict nothing.
        "title", "description", "default", "examples", "$schema", "$id", "$comment", "$defs", "definitions",
        "deprecated", "readOnly", "writeOnly", "$anchor", "example", "name"};
    for (const std::string& field : schema.fields()) {
      if (std::ranges::find(known, field) != known.end()) continue;
      schema.fail("the keyword " + in_quotes(field) + " is not supported; leave it out");
    }
  }

  /// What a schema allows, as an element of GBNF.
  std::string body_of(const Json& schema) {
    if (++depth_ > depth_max) schema.fail("nests too deep, references included");
    std::string body = body_at_depth(schema);
    --depth_;
    return body;
  }

  std::string body_at_depth(const Json& schema) {
    if (schema.is_boolean()) {
      if (!schema.boolean()) schema.fail("allows nothing");
      return "value";
    }
    if (!schema.is_object()) schema.fail("is not a schema: neither an object nor a boolean");
    refuse_unknown(schema);
    if (const auto reference = schema.find("$ref")) return referenced(*reference);
    if (schema.has("const")) return gbnf_string(json_text(*value_of(schema, "const")));
    if (const auto values = schema.find("enum"))
      return alternatives_of(*values, [](const Json& one) { return gbnf_string(json_text(one)); });
    for (const char* const several : {"anyOf", "oneOf", "allOf"}) {
      const auto schemas = schema.find(several);
      if (!schemas) continue;
      for (const char* const beside : {"properties", "items", "prefixItems", "additionalProperties", "required"}) {
        if (schema.has(beside)) schemas->fail(std::string("beside ") + beside + " is not supported");
      }
      if (several == std::string_view("allOf") && schemas->size() != 1) {
        schemas->fail("is supported with one schema only; merge them");
      }
      return alternatives_of(*schemas, [&](const Json& one) { return body_of(one); });
    }
    const auto type = schema.find("type");
    if (!type) return of_type(schema, implied_type(schema));
    if (!type->is_array()) return of_type(schema, type->string());
    return alternatives_of(*type, [&](const Json& one) { return of_type(schema, one.string()); });
  }

  static std::optional<Json> value_of(const Json& schema, std::string_view field) {
    const auto value = schema.find(field);
    if (!value) schema.fail(std::string(field) + " null is not supported; give the type null");
    return value;
  }

  template <class Body>
  std::string alternatives_of(const Json& list, const Body& body) {
    if (list.size() == 0) list.fail("is empty, which allows nothing");
    std::string text;
    for (std::size_t i = 0; i < list.size(); ++i) text += (i == 0 ? "" : " | ") + body(list[i]);
    return rule(text);
  }

  static std::string implied_type(const Json& schema) {
    const auto has_one = [&](std::initializer_list<const char*> fields) {
      return std::ranges::any_of(fields, [&](const char* field) { return schema.has(field); });
    };
    if (has_one({"properties", "required", "additionalProperties"})) return "object";
    if (has_one({"items", "prefixItems", "minItems", "maxItems"})) return "array";
    if (has_one({"minLength", "maxLength", "format"})) return "string";
    if (has_one({"minimum", "maximum", "exclusiveMinimum", "exclusiveMaximum"})) return "number";
    return "";
  }

  std::string of_type(const Json& schema, const std::string& type) {
    if (type.empty()) return "value";
    if (type == "object") return object(schema);
    if (type == "array") return array(schema);
    if (type == "string") return string(schema);
    if (type == "integer") return integer(schema);
    if (type == "number") {
      for (const char* const bound : {"minimum", "maximum", "exclusiveMinimum", "exclusiveMaximum"}) {
        if (const auto found = schema.find(bound)) found->fail("is supported for integers only");
      }
      return "number";
    }
    if (type == "boolean") return rule(R"("true" | "false")");
    if (type == "null") return R"("null")";
    schema.fail("type " + in_quotes(type) + " does not exist");
  }

  /// A schema elsewhere in the schema, as a JSON pointer says; each becomes one rule, so it may contain itself.
  std::string referenced(const Json& reference) {
    const std::string& pointer = reference.string();
    const auto [known, fresh] = references_.try_emplace(pointer, prefix_ + "ref" + std::to_string(references_.size()));
    const std::string name = known->second;
    if (!fresh) return name;
    if (pointer != "#" && !pointer.starts_with("#/")) reference.fail("does not point into the schema itself");
    Json target = root_;
    for (std::size_t at = 1; at < pointer.size();) {
      const std::size_t end = std::min(pointer.find('/', at + 1), pointer.size());
      std::string step;
      for (std::size_t i = at + 1; i < end; ++i) {
        const bool escaped = pointer[i] == '~' && i + 1 < end;
        step += !escaped ? pointer[i] : pointer[++i] == '1' ? '/' : '~';
      }
      const auto next = target.is_object() ? target.find(step) : std::nullopt;
      if (!next) reference.fail("points to nothing");
      target = *next;
      at = end;
    }
    const std::string body = body_of(target);
    rules_.emplace_back(name, body);
    return name;
  }

  static int count_of(const Json& schema, const char* field, int default_value) {
    const auto found = schema.find(field);
    return found ? static_cast<int>(found->integer(0, count_max)) : default_value;
  }

  std::string object(const Json& schema) {
    struct Property {
      std::string name;
      std::string pair;
      bool required;
    };
    std::vector<Property> properties;
    std::vector<std::string> required;
    if (const auto list = schema.find("required")) {
      for (std::size_t i = 0; i < list->size(); ++i) required.push_back((*list)[i].string());
    }
    const std::set<std::string> is_required(required.begin(), required.end());
    std::set<std::string> named_properties;
    const auto pair = [&](const std::string& name, const std::string& value) {
      return gbnf_string(json_string(name)) + " colon " + value;
    };
    if (const auto named = schema.find("properties")) {
      for (const std::string& name : named->fields()) {
        properties.push_back({name, pair(name, body_of(*value_of(*named, name))), is_required.contains(name)});
        named_properties.insert(name);
      }
    }
    for (const std::string& name : required) {
      if (named_properties.insert(name).second) properties.push_back({name, pair(name, "value"), true});
    }
    if (properties.empty()) {
      const auto others = schema.find("additionalProperties");
      if (schema.has("properties") && !others) return R"("{}")";
      if (!others) return "object";
      if (others->is_boolean()) return others->boolean() ? "object" : R"("{}")";
      const std::string one = rule("string colon " + body_of(*others));
      return rule("\"{\" ( " + one + " ( comma " + one + " )* )? \"}\"");
    }
    // From the last property on: what may come at each, when a property came before it, and when none did.
    std::string after = R"("}")";
    std::string at_first = R"("}")";
    for (auto property = properties.rbegin(); property != properties.rend(); ++property) {
      const std::string then = property->pair + " " + after;
      const std::string later = "comma " + then + (property->required ? "" : " | " + after);
      const std::string first = then + (property->required ? "" : " | " + at_first);
      at_first = rule(first);
      after = rule(later);
    }
    return rule("\"{\" " + at_first);
  }

  std::string array(const Json& schema) {
    int min = count_of(schema, "minItems", 0);
    int max = count_of(schema, "maxItems", -1);
    const bool limited = max >= 0;
    if (limited && max < min) schema.fail("maxItems is less than minItems");
    std::string begin;
    if (const auto prefix = schema.find("prefixItems")) {
      const auto count = static_cast<int>(prefix->size());
      if (limited && max < count) prefix->fail("has more schemas than maxItems");
      for (std::size_t i = 0; i < prefix->size(); ++i) begin += (i == 0 ? "" : " comma ") + body_of((*prefix)[i]);
      const auto items = schema.find("items");
      const bool more = items && !(items->is_boolean() && !items->boolean());
      min = std::max(0, min - count);
      if (!more) {
        if (min > 0) schema.fail("minItems is more than prefixItems has, and there are no other items");
        return rule("\"[\" " + begin + " \"]\"");
      }
      const std::string range = "{" + std::to_string(min) + "," + (limited ? std::to_string(max - count) : "") + "}";
      const std::string item = body_of(*items);
      if (count > 0) return rule("\"[\" " + begin + " ( comma " + item + " )" + range + " \"]\"");
    }
    const auto items = schema.find("items");
    const bool nothing = limited && max == 0;
    if (nothing || (items && items->is_boolean() && !items->boolean())) {
      if (min > 0) schema.fail("minItems asks for items, and there are none");
      return R"("[]")";
    }
    const std::string item = items ? body_of(*items) : "value";
    const std::string range =
        "{" + std::to_string(std::max(0, min - 1)) + "," + (limited ? std::to_string(max - 1) : "") + "}";
    const std::string list = item + " ( comma " + item + " )" + range;
    return rule(min > 0 ? "\"[\" " + list + " \"]\"" : "\"[\" ( " + list + " )? \"]\"");
  }

  std::string string(const Json& schema) {
    if (const auto format = schema.find("format")) {
      const std::string& name = format->string();
      if (schema.has("minLength") || schema.has("maxLength")) format->fail("with a length is not supported");
      if (name == "date" || name == "time" || name == "uuid") return rule(R"("\"" )" + name + R"( "\"")");
      if (name == "date-time") return rule(R"("\"" date "T" time "\"")");
      format->fail(in_quotes(name) + " is not supported; date, time, date-time and uuid are");
    }
    if (!schema.has("minLength") && !schema.has("maxLength")) return "string";
    const int min = count_of(schema, "minLength", 0);
    const int max = count_of(schema, "maxLength", -1);
    if (max >= 0 && max < min) schema.fail("maxLength is less than minLength");
    return rule(R"("\"" char{)" + std::to_string(min) + "," + (max >= 0 ? std::to_string(max) : "") + R"(} "\"")");
  }

  std::string integer(const Json& schema) {
    std::int64_t low = -integer_max;
    std::int64_t high = integer_max;
    const auto bound = [&](const char* field, std::int64_t step) -> std::optional<std::int64_t> {
      const auto found = schema.find(field);
      if (!found) return std::nullopt;
      return found->integer(-integer_max, integer_max) + step;
    };
    for (const auto& one : {bound("minimum", 0), bound("exclusiveMinimum", 1)}) low = std::max(low, one.value_or(low));
    for (const auto& one : {bound("maximum", 0), bound("exclusiveMaximum", -1)}) {
      high = std::min(high, one.value_or(high));
    }
    if (low > high) schema.fail("minimum and maximum allow no integer");
    if (low == -integer_max && high == integer_max) return "integer";
    std::string body;
    if (low < 0) body = "\"-\" " + numbers_between(std::max<std::int64_t>(1, -high), -low);
    if (high >= 0) body += (body.empty() ? "" : " | ") + numbers_between(std::max<std::int64_t>(0, low), high);
    return rule(body);
  }

  static constexpr int depth_max = 512;

  const Json& root_;
  std::string prefix_;
  int depth_ = 0;
  std::size_t size_ = 0;  // bytes of the rules
  std::vector<std::pair<std::string, std::string>> rules_;
  std::map<std::string, std::string> references_;  // the rules, by pointer
};

}  // namespace

std::string json_object_gbnf() { return std::string("root ::= object\n") + rules_of_json; }

std::string schema_to_gbnf(const Json& schema) {
  const auto [body, rules] = schema_rules(schema, "");
  return "root ::= " + body + "\n" + rules + rules_of_json;
}

SchemaRules schema_rules(const Json& schema, std::string_view prefix, const Json* root) {
  return SchemaCompiler(root != nullptr ? *root : schema, prefix).compiled(schema);
}

std::string_view json_rules() { return rules_of_json; }

}  // namespace draftproof
