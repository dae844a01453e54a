// SPDX-License-Identifier: MIT
// The fields of requests, as clients of OpenAI, llama-server, vLLM, SGLang, text-generation-inference and koboldcpp
// send them, and what the server does with each. A field that changes an answer is obeyed or refused by name; only
// fields that change none are ignored. A field that is in no row is refused, as it may be a misspelled one.
#pragma once

#include <map>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "ref/formats/json.h"

namespace draftproof::serve {

enum class FieldUse {
  obeyed,
  alias,     // another name of a field that is obeyed
  harmless,  // ignored: it changes no answer
  refused,   // unless its value says nothing: null, false, an empty text, list or object, or one of `off`
};

struct ApiField {
  std::string_view name;
  FieldUse use;
  std::string_view note;         // alias: the field that it names, a.b inside of an object; refused: what to do instead
  std::vector<double> off = {};  // of a refused field: numbers that say nothing
  std::vector<std::string> off_words = {};  // ... and texts
  bool off_true = false;                    // ... and true
};

std::span<const ApiField> api_fields();

/// Parses the body of a request; aliases have the names of the fields that they name. Throws Error, naming the field,
/// for one that is refused or unknown, and for two names of one field. `names`: what the client calls fields, where it
/// calls them otherwise.
Json parse_request(const std::string& body, std::map<std::string, std::string> names = {});

}  // namespace draftproof::serve
