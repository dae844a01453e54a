// SPDX-License-Identifier: MIT
#include "ref/grammar/schema_reader.h"

#include <algorithm>
#include <array>
#include <limits>
#include <set>
#include <utility>

#include "ref/base/error.h"
#include "ref/formats/printable.h"
#include "ref/grammar/json_schema.h"
#include "ref/grammar/number_texts.h"
#include "ref/grammar/regular_expression.h"
#include "ref/grammar/text_formats.h"

namespace draftproof {
namespace {

constexpr std::array<std::pair<const char*, unsigned>, 7> kind_names = {{
    {"null", ValueKinds::null},
    {"boolean", ValueKinds::boolean},
    {"integer", ValueKinds::integer},
    {"number", ValueKinds::integer | ValueKinds::fraction},
    {"string", ValueKinds::string},
    {"array", ValueKinds::array},
    {"object", ValueKinds::object},
}};

bool is_true(const Json& schema, std::string_view field) {
  const auto found = schema.find(field);
  return found && found->is_boolean() && found->boolean();
}

unsigned kind_named(const Json& name) {
  const auto known =
      std::ranges::find(kind_names, name.string(), [](const auto& row) { return std::string(row.first); });
  if (known == kind_names.end()) name.fail("type " + in_quotes(name.string()) + " does not exist");
  return known->second;
}

/// Of `type`; all where there is none.
unsigned kinds_named(const Json& schema) {
  const auto type = schema.find("type");
  if (!type) return ValueKinds::all;
  unsigned kinds = is_true(schema, "nullable") ? ValueKinds::null : 0;
  if (!type->is_array()) return kinds | kind_named(*type);
  for (std::size_t i = 0; i < type->size(); ++i) kinds |= kind_named((*type)[i]);
  return kinds;
}

unsigned kind_of(const Json& value) {
  if (value.is_null()) return ValueKinds::null;
  if (value.is_boolean()) return ValueKinds::boolean;
  if (value.is_string()) return ValueKinds::string;
  if (value.is_array()) return ValueKinds::array;
  if (value.is_object()) return ValueKinds::object;
  return decimal_of(value).fraction.empty() ? ValueKinds::integer : ValueKinds::fraction;
}

constexpr int certain_depth_max = 8;  // below it nothing is certain
constexpr std::int64_t counts_read_max = std::numeric_limits<std::int64_t>::max();

/// Calls a function; its errors say where.
template <class Function>
auto at(const Json& place, const Function& function) {
  try {
    return function();
  } catch (const Error& wrong) {
    place.fail(wrong.what());
  }
}

/// The keywords that restrict what is allowed.
const std::set<std::string, std::less<>> restricting = {"$ref",
                                                        "additionalItems",
                                                        "additionalProperties",
                                                        "allOf",
                                                        "anyOf",
                                                        "const",
                                                        "contains",
                                                        "dependencies",
                                                        "dependentRequired",
                                                        "dependentSchemas",
                                                        "enum",
                                                        "exclusiveMaximum",
                                                        "exclusiveMinimum",
                                                        "format",
                                                        "if",
                                                        "items",
                                                        "maxItems",
                                                        "maxLength",
                                                        "maxProperties",
                                                        "maximum",
                                                        "minItems",
                                                        "minLength",
                                                        "minProperties",
                                                        "minimum",
                                                        "multipleOf",
                                                        "not",
                                                        "oneOf",
                                                        "pattern",
                                                        "patternProperties",
                                                        "prefixItems",
                                                        "properties",
                                                        "propertyNames",
                                                        "required",
                                                        "type",
                                                        "uniqueItems"};

std::vector<std::string> restricting_fields(const Json& schema) {
  std::vector<std::string> fields = schema.fields();
  std::erase_if(fields, [](const std::string& field) { return !restricting.contains(field); });
  return fields;
}

/// Whether `not` of this schema is left to those who know the kind of value: it has one keyword of these.
bool is_excluded_directly(const Json& schema) {
  if (!schema.is_object()) return false;
  const std::vector<std::string> fields = restricting_fields(schema);
  if (fields.size() != 1) return false;
  return fields[0] == "enum" || fields[0] == "const" || fields[0] == "pattern" || fields[0] == "type";
}

bool is_false(const std::optional<Json>& schema) { return schema && schema->is_boolean() && !schema->boolean(); }

void refuse_unsupported(const Json& schema) {
  for (const char* const field : {"unevaluatedProperties", "unevaluatedItems", "$dynamicRef", "$recursiveRef",
                                  "extends", "disallow", "divisibleBy", "maxContains"}) {
    if (!schema.has(field) || is_true(schema, field)) continue;
    schema.fail("the keyword " + in_quotes(field) + " is not supported; leave it out");
  }
  const auto format = schema.find("format");
  if (format && format->string() == "regex") format->fail("'regex' is not supported; leave it out");
}

std::size_t length_of(std::string_view text) {
  return static_cast<std::size_t>(std::ranges::count_if(text, [](char c) { return (c & 0xC0) != 0x80; }));
}

/// What an array has at its first places.
std::optional<Json> places_in(const Json& schema) {
  if (auto list = schema.find("prefixItems")) return list;
  auto items = schema.find("items");
  return items && items->is_array() ? items : std::nullopt;
}

/// The bound of a number, and whether the bound itself is excluded.
struct Bound {
  Decimal value;
  bool excluded;
};
std::vector<Bound> bounds_of(const Json& schema, const char* field, const char* exclusive) {
  std::vector<Bound> bounds;
  const auto beside = schema.find(exclusive);
  const bool is_flag = beside && beside->is_boolean();  // in draft 4
  if (const auto bound = schema.find(field)) bounds.push_back({decimal_of(*bound), is_flag && beside->boolean()});
  if (beside && !is_flag) bounds.push_back({decimal_of(*beside), true});
  return bounds;
}

/// A bound of sizes, and the one that a size beyond it satisfies.
struct SizeBound {
  std::string_view field;
  const char* type;
  const char* opposite;
  int step;
};
constexpr std::array<SizeBound, 6> size_bounds = {{
    {"minLength", "string", "maxLength", -1},
    {"maxLength", "string", "minLength", 1},
    {"minItems", "array", "maxItems", -1},
    {"maxItems", "array", "minItems", 1},
    {"minProperties", "object", "maxProperties", -1},
    {"maxProperties", "object", "minProperties", 1},
}};

/// The bound that numbers beyond this one satisfy, with the same value; nullptr: it is no bound of numbers.
const char* opposite_bound(const Json& schema, std::string_view field) {
  if (field == "minimum") return is_true(schema, "exclusiveMinimum") ? "maximum" : "exclusiveMaximum";
  if (field == "maximum") return is_true(schema, "exclusiveMaximum") ? "minimum" : "exclusiveMinimum";
  if (field == "exclusiveMinimum") return "maximum";
  if (field == "exclusiveMaximum") return "minimum";
  return nullptr;
}

/// The text of a schema with a type and another field.
std::string type_and(std::string_view type, std::string_view field, const std::string& value) {
  return R"({"type":")" + std::string(type) + R"(",")" + std::string(field) + R"(":)" + value + "}";
}

}  // namespace

bool same_value(const Json& one, const Json& other) {
  if (one.is_number() && other.is_number()) {
    if (one.is_integer() && other.is_integer()) {
      constexpr std::int64_t min = std::numeric_limits<std::int64_t>::min();
      constexpr std::int64_t max = std::numeric_limits<std::int64_t>::max();
      return one.integer(min, max) == other.integer(min, max);
    }
    return one.number() == other.number();
  }
  if (one.is_string() && other.is_string()) return one.string() == other.string();
  if (one.is_boolean() && other.is_boolean()) return one.boolean() == other.boolean();
  if (one.is_array() && other.is_array()) {
    if (one.size() != other.size()) return false;
    for (std::size_t i = 0; i < one.size(); ++i) {
      if (!same_value(one[i], other[i])) return false;
    }
    return true;
  }
  if (one.is_object() && other.is_object()) {
    const std::vector<std::string> fields = one.fields();
    return fields.size() == other.fields().size() && std::ranges::all_of(fields, [&](const std::string& field) {
             const auto beside = other.member(field);
             return beside && same_value(*one.member(field), *beside);
           });
  }
  return one.is_null() && other.is_null();
}

SchemaReader::SchemaReader(const Json& root) : root_(root), references_(root) {}

void SchemaReader::count_work() {
  if (++work_ > work_max) root_.fail("is too complex: its parts combine in too many ways; simplify it");
}

Json SchemaReader::made(const std::string& text, const Json& schema) {
  made_.push_back(Json::parse(text, schema.where()));
  return made_.back();
}

Conjunction SchemaReader::conjunction_of(const Schemas& schemas) {
  Conjunction conjunction;
  std::vector<const void*> open;
  for (const Json& schema : schemas) add(schema, conjunction, open);
  const Schemas plain = conjunction.schemas;
  for (const Json& schema : plain) add_choices(schema, conjunction);
  return conjunction;
}

Conjunction SchemaReader::with_alternative(const Conjunction& conjunction, const Schemas& alternative) {
  Conjunction both = conjunction;
  both.choices.pop_back();
  const std::size_t before = both.schemas.size();
  std::vector<const void*> open;
  for (const Json& schema : alternative) add(schema, both, open);
  const Schemas fresh(both.schemas.begin() + static_cast<std::ptrdiff_t>(before), both.schemas.end());
  for (const Json& schema : fresh) add_choices(schema, both);
  return both;
}

/// Follows references and allOf. `open`: the schemas that lead here by these alone.
void SchemaReader::add(const Json& schema, Conjunction& conjunction, std::vector<const void*>& open) {
  count_work();
  if (schema.is_boolean()) {
    if (!schema.boolean()) conjunction.nothing = true;
    return;
  }
  if (!schema.is_object()) schema.fail("is not a schema: neither an object nor a boolean");
  if (std::ranges::find(open, schema.place()) != open.end()) schema.fail("refers to itself and says nothing else");
  if (std::ranges::find(conjunction.schemas, schema.place(), &Json::place) != conjunction.schemas.end()) return;
  if (open.size() > static_cast<std::size_t>(depth_max)) schema.fail("nests too deep, references included");
  refuse_unsupported(schema);
  open.push_back(schema.place());
  // Properties come in the order of the text.
  bool is_added = false;
  const auto add_itself = [&] {
    if (!is_added) conjunction.schemas.push_back(schema);
    is_added = true;
  };
  for (const std::string& field : schema.fields()) {
    if (field == "properties") add_itself();
    if (field == "allOf") {
      const Json all = schema.at(field);
      for (std::size_t i = 0; i < all.size(); ++i) add(all[i], conjunction, open);
    }
    if (field == "$ref") add(references_.target_of(schema.at(field)), conjunction, open);
  }
  add_itself();
  open.pop_back();
}

void SchemaReader::add_choice(Conjunction& conjunction, std::vector<Schemas> alternatives) {
  if (alternatives.empty()) conjunction.nothing = true;
  else conjunction.choices.push_back(std::move(alternatives));
}

void SchemaReader::add_choices(const Json& schema, Conjunction& conjunction) {
  if (const auto any = schema.find("anyOf")) {
    if (any->size() == 0) any->fail("is empty, which allows nothing");
    std::vector<Schemas> alternatives;
    for (std::size_t i = 0; i < any->size(); ++i) alternatives.push_back({(*any)[i]});
    add_choice(conjunction, std::move(alternatives));
  }
  if (const auto condition = schema.find("if"); condition && (schema.has("then") || schema.has("else"))) {
    Schemas holds = {*condition};
    if (const auto then = schema.find("then")) holds.push_back(*then);
    std::vector<Schemas> alternatives = {holds};
    for (Schemas fails : denied(*condition)) {
      if (const auto other = schema.find("else")) fails.push_back(*other);
      alternatives.push_back(std::move(fails));
    }
    add_choice(conjunction, std::move(alternatives));
  }
  if (const auto other = schema.find("not"); other && !is_excluded_directly(*other)) {
    add_choice(conjunction, denied(*other));
  }
  for (const char* const field : {"dependentRequired", "dependentSchemas", "dependencies"}) {
    const auto dependent = schema.find(field);
    if (!dependent) continue;
    for (const std::string& name : dependent->fields()) {
      const Json then = *dependent->member(name);
      const std::string quoted = json_string(name);
      const Json without = made(R"({"properties":{)" + quoted + ":false}}", then);
      Schemas with = {made(R"({"required":[)" + quoted + "]}", then)};
      with.push_back(then.is_array() ? made(R"({"required":)" + then.text() + "}", then) : then);
      add_choice(conjunction, {{without}, with});
    }
  }
  if (const auto one = schema.find("oneOf")) add_one_of(*one, conjunction);
}

/// Each alternative, and none of the others that a value may satisfy as well.
void SchemaReader::add_one_of(const Json& schemas, Conjunction& conjunction) {
  const std::size_t count = schemas.size();
  if (count == 0) schemas.fail("is empty, which allows nothing");
  std::vector<Schemas> alternatives(count);
  for (std::size_t i = 0; i < count; ++i) alternatives[i].push_back(schemas[i]);
  const Conjunction beside = {.schemas = conjunction.schemas, .choices = {{}}};
  const bool denying = std::exchange(denying_, true);  // what is not certain to be forbidden may be allowed
  expanding_.push_back(schemas.place());
  for (std::size_t i = 0; i < count; ++i) {
    for (std::size_t j = i + 1; j < count; ++j) {
      if (surely_nothing(with_alternative(beside, {schemas[i], schemas[j]}))) continue;
      alternatives[i].push_back(negation_of(schemas[j]));
      alternatives[j].push_back(negation_of(schemas[i]));
    }
  }
  expanding_.pop_back();
  denying_ = denying;
  add_choice(conjunction, std::move(alternatives));
}

bool SchemaReader::exclude_each_other(const Json& one, const Json& other) {
  const bool denying = std::exchange(denying_, true);
  const bool nothing = surely_nothing(conjunction_of({one, other}));
  denying_ = denying;
  return nothing;
}

Json SchemaReader::negation_of(const Json& schema) {
  const auto known = negations_.find(schema.place());
  if (known != negations_.end()) return known->second;
  return negations_.emplace(schema.place(), made(R"({"not":)" + schema.text() + "}", schema)).first->second;
}

std::vector<Schemas> SchemaReader::denied(const Json& schema) {
  count_work();
  if (schema.is_boolean())
    return schema.boolean() ? std::vector<Schemas>{} : std::vector<Schemas>{{made("true", schema)}};
  if (!schema.is_object()) schema.fail("is not a schema: neither an object nor a boolean");
  refuse_unsupported(schema);
  if (schema.has("$ref")) {
    for (const std::string& field : restricting_fields(schema)) {
      if (field != "$ref") schema.fail(field + " beside $ref is not supported under not, if and oneOf");
    }
    return {{negation_of(references_.target_of(schema.at("$ref")))}};
  }
  std::vector<Schemas> alternatives;
  const auto add = [&](const std::string& text) { alternatives.push_back({made(text, schema)}); };
  for (const std::string& field : restricting_fields(schema)) {
    const Json value = *schema.member(field);
    if (field == "type") {
      const std::string nullable = is_true(schema, "nullable") ? R"(,"nullable":true)" : "";
      add(R"({"not":{"type":)" + value.text() + nullable + "}}");
    } else if (field == "enum" || field == "const") {
      add(R"({"not":{")" + field + R"(":)" + value.text() + "}}");
    } else if (field == "pattern") {
      add(R"({"type":"string","not":{"pattern":)" + value.text() + "}}");
    } else if (field == "required") {
      for (std::size_t i = 0; i < value.size(); ++i) {
        add(R"({"type":"object","properties":{)" + value[i].text() + ":false}}");
      }
    } else if (field == "properties") {
      for (const std::string& name : value.fields()) {
        const Json property = *value.member(name);
        if (property.is_boolean() && property.boolean()) continue;
        const std::string quoted = json_string(name);
        add(R"({"type":"object","required":[)" + quoted + R"(],"properties":{)" + quoted + R"(:{"not":)" +
            property.text() + "}}}");
      }
    } else if (field == "items" && !value.is_array() && !schema.has("prefixItems")) {
      add(R"({"type":"array","contains":{"not":)" + value.text() + "}}");
    } else if (field == "anyOf") {
      Schemas all;
      for (std::size_t i = 0; i < value.size(); ++i) all.push_back(negation_of(value[i]));
      alternatives.push_back(std::move(all));
    } else if (field == "allOf") {
      for (std::size_t i = 0; i < value.size(); ++i) alternatives.push_back({negation_of(value[i])});
    } else if (field == "not") {
      alternatives.push_back({value});
    } else if (const auto size = std::ranges::find(size_bounds, field, &SizeBound::field); size != size_bounds.end()) {
      const std::int64_t beyond = value.integer(0, count_max) + size->step;
      if (beyond >= 0) add(type_and(size->type, size->opposite, std::to_string(beyond)));
    } else if (const char* const opposite = opposite_bound(schema, field); opposite != nullptr) {
      const bool is_flag = value.is_boolean() && field.starts_with("exclusive");  // of draft 4: the bound reads it
      if (!is_flag) add(type_and("number", opposite, value.text()));
    } else if (field == "format" && find_text_format(value.string()) == nullptr) {
      continue;
    } else if (field == "additionalProperties" && value.is_boolean() && value.boolean()) {
      continue;
    } else if (!is_false(value)) {
      value.fail("is not supported under not, if and oneOf with alternatives of which several may hold");
    }
  }
  return alternatives;
}

bool SchemaReader::leaves_only_choices(const Json& schema) {
  constexpr std::array<std::string_view, 9> choices = {
      "$ref", "allOf", "anyOf", "oneOf", "if", "dependentSchemas", "dependentRequired", "dependencies", "not"};
  const auto denied = schema.find("not");
  return !(denied && is_excluded_directly(*denied)) &&
         std::ranges::all_of(restricting_fields(schema), [&](const std::string& field) {
           return std::ranges::find(choices, field) != choices.end();
         });
}

unsigned SchemaReader::kinds_of(const Schemas& schemas) {
  unsigned kinds = ValueKinds::all;
  for (const Json& schema : schemas) {
    if (const auto denied = schema.find("not"); denied && is_excluded_directly(*denied)) {
      if (denied->has("pattern")) kinds &= ValueKinds::string;
      if (denied->has("type")) kinds &= ~kinds_named(*denied);
    }
    kinds &= kinds_named(schema);
  }
  return kinds;
}

std::optional<std::vector<Json>> SchemaReader::values_of(const Conjunction& conjunction) {
  for (const Json& schema : conjunction.schemas) {
    std::vector<Json> values;
    const auto list = schema.find("enum");
    if (auto value = schema.member("const")) {
      values.push_back(*value);
    } else if (list) {
      for (std::size_t i = 0; i < list->size(); ++i) values.push_back((*list)[i]);
    } else {
      continue;
    }
    const void* const asked = asked_;
    const void* const taken_from = std::exchange(taken_from_, schema.has("const") ? nullptr : list->place());
    std::erase_if(values, [&](const Json& value) {
      asked_ = value.place();
      return !std::ranges::all_of(conjunction.schemas, [&](const Json& one) { return satisfies(one, value); });
    });
    asked_ = asked;
    taken_from_ = taken_from;
    return values;
  }
  return std::nullopt;
}

std::vector<Json> SchemaReader::excluded_values(const Schemas& schemas) {
  std::vector<Json> values;
  for (const Json& schema : schemas) {
    const auto denied = schema.find("not");
    if (!denied || !is_excluded_directly(*denied)) continue;
    if (const auto value = denied->member("const")) values.push_back(*value);
    if (const auto list = denied->find("enum")) {
      for (std::size_t i = 0; i < list->size(); ++i) values.push_back((*list)[i]);
    }
  }
  return values;
}

bool SchemaReader::restrict_numbers(const Schemas& schemas) {
  constexpr std::array<const char*, 5> fields = {"minimum", "maximum", "exclusiveMinimum", "exclusiveMaximum",
                                                 "multipleOf"};
  const auto restricts = [&](const Json& schema) {
    return std::ranges::any_of(fields, [&](const char* field) { return schema.has(field); });
  };
  return std::ranges::any_of(schemas, restricts) || std::ranges::any_of(excluded_values(schemas), &Json::is_number);
}

RegularLanguage SchemaReader::numbers_of(const Schemas& schemas, unsigned kinds) {
  const bool integers = (kinds & ValueKinds::fraction) == 0;
  RegularLanguage numbers = number_texts(integers, true);
  if ((kinds & ValueKinds::integer) == 0) numbers = numbers.without(texts_matching("^-?[0-9]+(?:\\.0+)?$"));
  for (const Json& schema : schemas) {
    for (const Bound& bound : bounds_of(schema, "minimum", "exclusiveMinimum")) {
      numbers = numbers.both(texts_of_at_least(bound.value, bound.excluded));
    }
    for (const Bound& bound : bounds_of(schema, "maximum", "exclusiveMaximum")) {
      numbers = numbers.both(texts_of_at_most(bound.value, bound.excluded));
    }
    if (const auto divisor = schema.find("multipleOf")) {
      numbers = at(*divisor, [&] { return numbers.both(texts_of_multiples(decimal_of(*divisor))); });
    }
  }
  std::vector<RegularLanguage> excluded;
  for (const Json& value : excluded_values(schemas)) {
    if (value.is_number()) excluded.push_back(texts_of_number(decimal_of(value)));
  }
  for (; excluded.size() > 1; excluded.resize((excluded.size() + 1) / 2)) {  // two at a time, as they grow
    for (std::size_t i = 0; i < excluded.size() / 2; ++i) {
      excluded[i] = excluded[i].either(excluded[excluded.size() - 1 - i]);
    }
  }
  return excluded.empty() ? numbers : numbers.without(excluded.front());
}

const RegularLanguage& SchemaReader::pattern(const std::string& expression, const Json& schema) {
  const auto known = patterns_.find(expression);
  if (known != patterns_.end()) return known->second;
  return patterns_.emplace(expression, at(schema, [&] { return texts_matching(expression); })).first->second;
}

std::optional<RegularLanguage> SchemaReader::strings_of(const Schemas& schemas, bool only_whole) {
  std::optional<RegularLanguage> strings;
  const auto restrict_to = [&](const RegularLanguage& language) {
    strings = strings ? strings->both(language) : language;
  };
  for (const Json& schema : schemas) {
    if (const auto expression = schema.find("pattern")) {
      at(*expression, [&] { restrict_to(pattern(expression->string(), *expression)); });
    }
    if (const auto format = schema.find("format")) {
      const TextFormat* const known = find_text_format(format->string());
      if (known != nullptr && (known->whole || !only_whole)) at(*format, [&] { restrict_to(known->texts); });
    }
    const auto denied = schema.find("not");
    if (denied && is_excluded_directly(*denied) && denied->has("pattern")) {
      const Json expression = denied->at("pattern");
      at(expression,
         [&] { restrict_to(RegularLanguage::of_everything().without(pattern(expression.string(), expression))); });
    }
  }
  std::vector<std::string_view> excluded;
  const std::vector<Json> values = excluded_values(schemas);
  for (const Json& value : values) {
    if (value.is_string()) excluded.push_back(value.string());
  }
  if (!excluded.empty()) {
    restrict_to(RegularLanguage::of_everything().without(RegularLanguage::of_words(excluded)));
  }
  const Range lengths = range_of(schemas, "minLength", "maxLength");
  if (strings && (lengths.min > 0 || lengths.max >= 0)) {
    at(schemas.front(), [&] { strings = strings->both(RegularLanguage::of_lengths(lengths.min, lengths.max)); });
  }
  return strings;
}

RegularLanguage SchemaReader::names_of(const Conjunction& conjunction) {
  if (conjunction.nothing || (kinds_of(conjunction.schemas) & ValueKinds::string) == 0) return {};
  if (const auto values = values_of(conjunction)) {
    std::vector<std::string_view> words;
    for (const Json& value : *values) {
      if (value.is_string()) words.push_back(value.string());
    }
    return RegularLanguage::of_words(words);
  }
  if (!conjunction.choices.empty()) {
    RegularLanguage names;
    for (const Schemas& alternative : conjunction.choices.back()) {
      names = names.either(names_of(with_alternative(conjunction, alternative)));
    }
    return names;
  }
  if (const auto strings = strings_of(conjunction.schemas, false)) return *strings;
  const Range lengths = range_of(conjunction.schemas, "minLength", "maxLength");
  return lengths.min == 0 && lengths.max < 0 ? RegularLanguage::of_everything()
                                             : RegularLanguage::of_lengths(lengths.min, lengths.max);
}

SchemaReader::Range SchemaReader::range_of(const Schemas& schemas, const char* min, const char* max) {
  Range range;
  for (const Json& schema : schemas) {
    if (const auto lower = schema.find(min))
      range.min = std::max(range.min, static_cast<int>(lower->integer(0, count_max)));
    if (const auto upper = schema.find(max)) {
      const auto value = static_cast<int>(std::min<std::int64_t>(upper->integer(0, counts_read_max), count_max));
      range.max = range.max < 0 ? value : std::min(range.max, value);
    }
  }
  return range;
}

std::vector<std::string> SchemaReader::required_of(const Schemas& schemas) {
  std::vector<std::string> names;
  std::set<std::string> seen;
  for (const Json& schema : schemas) {
    const auto list = schema.find("required");
    for (std::size_t i = 0; list && i < list->size(); ++i) {
      if (seen.insert((*list)[i].string()).second) names.push_back((*list)[i].string());
    }
  }
  return names;
}

std::optional<Schemas> SchemaReader::property_of(const Schemas& schemas, const std::string& name) {
  Schemas all;
  for (const Json& schema : schemas) {
    bool is_named = false;
    if (const auto properties = schema.find("properties")) {
      if (auto property = properties->member(name)) {
        all.push_back(*property);
        is_named = true;
      }
    }
    if (const auto patterns = schema.find("patternProperties")) {
      for (const std::string& expression : patterns->fields()) {
        if (!pattern(expression, *patterns).has(name)) continue;
        all.push_back(*patterns->member(expression));
        is_named = true;
      }
    }
    const auto others = schema.find("additionalProperties");
    if (!is_named && others) all.push_back(*others);
    if (const auto names = schema.find("propertyNames")) {
      if (!names_of(conjunction_of({*names})).has(name)) return std::nullopt;
    }
  }
  for (const Json& one : all) {
    if (is_false(one)) return std::nullopt;
  }
  return all;
}

std::size_t SchemaReader::places_of(const Schemas& schemas) {
  std::size_t places = 0;
  for (const Json& schema : schemas) {
    if (const auto list = places_in(schema)) places = std::max(places, list->size());
  }
  return places;
}

int SchemaReader::contained_min(const Json& schema) {
  const auto min = schema.find("minContains");
  return min ? static_cast<int>(min->integer(0, count_max)) : 1;
}

std::optional<Schemas> SchemaReader::item_of(const Schemas& schemas, std::size_t place) {
  Schemas all;
  for (const Json& schema : schemas) {
    const auto list = places_in(schema);
    const auto items = schema.find("items");
    const bool is_list = items && items->is_array();  // up to draft 7
    if (list && place < list->size()) all.push_back((*list)[place]);
    else if (const auto others = is_list ? schema.find("additionalItems") : items) all.push_back(*others);
  }
  for (const Json& one : all) {
    if (is_false(one)) return std::nullopt;
  }
  return all;
}

bool SchemaReader::surely_nothing(const Conjunction& conjunction) {
  if (conjunction.nothing) return true;
  if (depth_ > certain_depth_max) return false;
  ++depth_;
  bool nothing = false;
  const unsigned kinds = kinds_of(conjunction.schemas);
  if (const auto values = values_of(conjunction)) {
    nothing = values->empty();
  } else {
    nothing = true;
    for (unsigned kind = 1; kind <= ValueKinds::object && nothing; kind *= 2) {
      nothing = (kinds & kind) == 0 || surely_no(kind, conjunction.schemas);
    }
    if (!nothing && !conjunction.choices.empty()) {
      nothing = std::ranges::all_of(conjunction.choices.back(), [&](const Schemas& alternative) {
        return surely_nothing(with_alternative(conjunction, alternative));
      });
    }
  }
  --depth_;
  return nothing;
}

bool SchemaReader::surely_no(unsigned kind, const Schemas& schemas) {
  switch (kind) {
    case ValueKinds::integer:
    case ValueKinds::fraction: return restrict_numbers(schemas) && numbers_of(schemas, kind).empty();
    case ValueKinds::string: {
      const auto strings = strings_of(schemas, true);
      return (strings && strings->empty()) || range_of(schemas, "minLength", "maxLength").empty();
    }
    case ValueKinds::array: {
      const Range items = range_of(schemas, "minItems", "maxItems");
      if (items.empty()) return true;
      for (std::size_t i = 0; i < std::min<std::size_t>(static_cast<std::size_t>(items.min), places_of(schemas) + 1);
           ++i) {
        const auto item = item_of(schemas, i);
        if (!item || surely_nothing(conjunction_of(*item))) return true;
      }
      return false;
    }
    case ValueKinds::object: {
      const std::vector<std::string> required = required_of(schemas);
      const Range count = range_of(schemas, "minProperties", "maxProperties");
      if (count.empty() || (count.max >= 0 && required.size() > static_cast<std::size_t>(count.max))) return true;
      return std::ranges::any_of(required, [&](const std::string& name) {
        const auto property = property_of(schemas, name);
        return !property || surely_nothing(conjunction_of(*property));
      });
    }
    case ValueKinds::null: return std::ranges::any_of(excluded_values(schemas), &Json::is_null);
    default: return false;
  }
}

bool SchemaReader::satisfies(const Json& schema, const Json& value) {
  count_work();
  if (schema.is_boolean()) return schema.boolean();
  if (!schema.is_object()) schema.fail("is not a schema: neither an object nor a boolean");
  refuse_unsupported(schema);
  if (++depth_ > depth_max) schema.fail("nests too deep, references included");
  const bool all = satisfies_all(schema, value);
  --depth_;
  return all;
}

bool SchemaReader::satisfies_all(const Json& schema, const Json& value) {
  const auto of = [&](const Json& list) {
    int count = 0;
    for (std::size_t i = 0; i < list.size(); ++i) count += satisfies(list[i], value) ? 1 : 0;
    return count;
  };
  const auto denied = [&](const Json& other) {
    const bool before = std::exchange(denying_, true);
    const bool no = !satisfies(other, value);
    denying_ = before;
    return no;
  };
  if ((kinds_of({schema}) & kind_of(value)) == 0) return false;
  const auto target = schema.find("$ref");
  if (target && !satisfies(references_.target_of(*target), value)) return false;
  if (const auto same = schema.member("const"); same && !same_value(*same, value)) return false;
  const bool is_asked = value.place() == asked_;
  if (const auto list = schema.find("enum"); list && !(is_asked && list->place() == taken_from_)) {
    bool found = false;
    for (std::size_t i = 0; i < list->size() && !found; ++i) {
      count_work();
      found = same_value((*list)[i], value);
    }
    if (!found) return false;
  }
  if (const auto list = schema.find("allOf"); list && of(*list) != static_cast<int>(list->size())) return false;
  if (const auto list = schema.find("anyOf"); list && of(*list) == 0) return false;
  const auto is_expanding = [&](const Json& list) {
    return is_asked && std::ranges::find(expanding_, list.place()) != expanding_.end();
  };
  if (const auto list = schema.find("oneOf"); list && !is_expanding(*list)) {
    const bool before = std::exchange(denying_, true);
    const int count = of(*list);
    denying_ = before;
    if (count != 1) return false;
  }
  if (const auto other = schema.find("not"); other && !denied(*other)) return false;
  if (const auto condition = schema.find("if")) {
    const auto then = schema.find(denied(*condition) ? "else" : "then");
    if (then && !satisfies(*then, value)) return false;
  }
  if (value.is_number()) {
    if (!restrict_numbers({schema})) return true;
    auto known = numbers_.find(schema.place());
    if (known == numbers_.end()) {
      known = numbers_.emplace(schema.place(), numbers_of({schema}, ValueKinds::integer | ValueKinds::fraction)).first;
    }
    return known->second.has(decimal_text(decimal_of(value)));
  }
  if (value.is_string()) return string_satisfies(schema, value);
  if (value.is_array()) return array_satisfies(schema, value);
  return !value.is_object() || object_satisfies(schema, value);
}

bool SchemaReader::string_satisfies(const Json& schema, const Json& value) {
  const Range lengths = range_of({schema}, "minLength", "maxLength");
  const auto length = static_cast<int>(length_of(value.string()));
  if (length < lengths.min || (lengths.max >= 0 && length > lengths.max)) return false;
  const auto format = schema.find("format");
  const TextFormat* const known = format ? find_text_format(format->string()) : nullptr;
  if (known != nullptr && !known->texts.has(value.string())) {
    if (denying_ && !known->whole) format->fail("is not supported under not, if and oneOf beside such values");
    return false;
  }
  const auto expression = schema.find("pattern");
  return !expression || pattern(expression->string(), *expression).has(value.string());
}

bool SchemaReader::array_satisfies(const Json& schema, const Json& value) {
  const Range count = range_of({schema}, "minItems", "maxItems");
  const std::size_t size = value.size();
  if (size < static_cast<std::size_t>(count.min) || (count.max >= 0 && size > static_cast<std::size_t>(count.max)))
    return false;
  std::size_t contained = 0;
  const auto contains = schema.find("contains");
  for (std::size_t i = 0; i < size; ++i) {
    const auto item = item_of({schema}, i);
    if (!item || !std::ranges::all_of(*item, [&](const Json& one) { return satisfies(one, value[i]); })) return false;
    if (contains && satisfies(*contains, value[i])) ++contained;
    for (std::size_t j = 0; j < i && is_true(schema, "uniqueItems"); ++j) {
      if (same_value(value[i], value[j])) return false;
    }
  }
  return !contains || contained >= static_cast<std::size_t>(contained_min(schema));
}

bool SchemaReader::object_satisfies(const Json& schema, const Json& value) {
  const std::vector<std::string> fields = value.fields();
  const Range count = range_of({schema}, "minProperties", "maxProperties");
  if (fields.size() < static_cast<std::size_t>(count.min)) return false;
  if (count.max >= 0 && fields.size() > static_cast<std::size_t>(count.max)) return false;
  if (!std::ranges::all_of(required_of({schema}), [&](const std::string& name) { return value.has(name); }))
    return false;
  for (const std::string& name : fields) {
    const auto property = property_of({schema}, name);
    const Json member = *value.member(name);
    if (!property) return false;
    if (!std::ranges::all_of(*property, [&](const Json& one) { return satisfies(one, member); })) return false;
  }
  for (const char* const field : {"dependentRequired", "dependentSchemas", "dependencies"}) {
    const auto dependent = schema.find(field);
    if (!dependent) continue;
    for (const std::string& name : dependent->fields()) {
      if (!value.has(name)) continue;
      const Json then = *dependent->member(name);
      if (!then.is_array() && !satisfies(then, value)) return false;
      for (std::size_t i = 0; then.is_array() && i < then.size(); ++i) {
        if (!value.has(then[i].string())) return false;
      }
    }
  }
  return true;
}

}  // namespace draftproof
