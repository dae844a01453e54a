// SPDX-License-Identifier: MIT
// JSON as a grammar: any object, or what a schema describes. The grammar is GBNF (ref/grammar/grammar.h).
//
// Every text of the grammar satisfies the schema; not every document that does is a text of it:
// - Blanks: at most one space after a colon and after a comma, and nowhere else.
// - Properties come in the order of the schema, then those that it does not name. These come where
//   additionalProperties or patternProperties ask for them, or where no property is named at all.
// - A schema without a type that has keywords of one type is of that type.
// - Integers have up to 18 digits and no point, fractions up to 16. Numbers with bounds have no exponents and at
//   most 15 digits, which a double keeps.
// - Where a pattern, a format or other names restrict a string, each character is written in its shortest form.
// - Of formats, rare forms are left out (ref/grammar/text_formats.cpp). A format that the specification does not know
//   restricts nothing.
// - Strings, arrays and objects have at most 100 000 characters, items and properties where maxLength and the like say
//   more.
//
// Supported: type, nullable (of OpenAPI), enum, const; properties, required, additionalProperties, patternProperties,
// propertyNames, minProperties, maxProperties, dependentRequired, dependentSchemas, dependencies; items, prefixItems,
// additionalItems, minItems, maxItems, contains, minContains; minLength, maxLength, pattern, format; minimum, maximum
// and their exclusive forms, multipleOf; allOf, anyOf, $ref within the schema, $anchor.
//
// Supported as far as they can be obeyed exactly, or else refused by name: oneOf, not and if, of keywords whose
// opposite is a schema; uniqueItems of items that are one of a few values. Keywords of the specification that are not
// named here are refused if they restrict what is allowed; others are notes, as the specification has it.
#pragma once

#include <string>
#include <string_view>

#include "ref/formats/json.h"

namespace draftproof {

std::string json_object_gbnf();
/// Throws Error, naming the field, for a schema that is none or that needs what is not supported.
std::string schema_to_gbnf(const Json& schema);

/// Parts of larger grammars.
struct SchemaRules {
  std::string body;   // an element of GBNF: what the schema allows
  std::string rules;  // that it names, but for those of JSON
};
/// Every rule has a name that begins with `prefix`. `root`: what references point into; nullptr: the schema itself.
/// Throws Error as schema_to_gbnf does.
SchemaRules schema_rules(const Json& schema, std::string_view prefix, const Json* root = nullptr);
/// The rules of JSON, of which `object` and `value` are any.
std::string_view json_rules();
/// A text as a string of GBNF; of JSON, each character in its shortest form.
std::string gbnf_string(std::string_view text);
std::string json_string(std::string_view text);

}  // namespace draftproof
