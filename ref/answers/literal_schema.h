// SPDX-License-Identifier: MIT
// The arguments of a call that are written in another notation than JSON, as a grammar: any, or what a schema allows.
//
// Supported: type (string, integer, number, boolean, null, array, object, or several of them); enum and const, beside
// whatever ref/grammar/schema_reader.h knows; anyOf; oneOf of alternatives that surely exclude each other; properties,
// required, items, minItems, maxItems, and the bounds of integers. Properties come in the order of the schema, and
// there are no others. Every other keyword that restricts what is allowed is an error that names it.
#pragma once

#include <string>

#include "ref/answers/answer_format.h"
#include "ref/answers/answer_rules.h"
#include "ref/formats/json.h"

namespace draftproof {

/// Whether a format writes the values of arguments in a notation of its own.
bool has_literals(const CallFormat& calls);
/// Every rule has a name that begins with `prefix`. Throws Error, naming the keyword.
std::string literal_arguments(const CallFormat& calls, const Json& schema, const std::string& prefix,
                              AnswerRules& rules);
std::string any_literal_arguments(const CallFormat& calls, AnswerRules& rules);
std::string no_literal_arguments(const CallFormat& calls);

/// The first field of a schema that is none of these and may restrict what is allowed; empty: none is.
std::string other_field(const Json& schema, std::initializer_list<std::string_view> known);

}  // namespace draftproof
