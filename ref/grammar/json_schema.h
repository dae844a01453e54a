// SPDX-License-Identifier: MIT
// JSON as a grammar: any object, or what a schema describes. The grammar is GBNF (ref/grammar/grammar.h).
//
// Every text of the grammar satisfies the schema; not every document that does is a text of it:
// - Blanks: at most one space after a colon and after a comma, and nowhere else.
// - Properties come in the order of the schema, and those that are not required may be left out. There are no others,
//   unless the schema names none at all.
// - Integers have up to 18 digits.
// - All of `prefixItems` are there.
//
// Supported: type, properties, required, additionalProperties, items, prefixItems, minItems, maxItems, enum, const,
// anyOf, oneOf (as anyOf), allOf of one schema, $ref within the schema, minLength, maxLength, format (date, time,
// date-time, uuid), and minimum, maximum and their exclusive forms for integers. Every other keyword that restricts
// what is allowed is an error that names it.
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
/// A text as a string of GBNF; as JSON.
std::string gbnf_string(std::string_view text);
std::string json_string(std::string_view text);

}  // namespace draftproof
