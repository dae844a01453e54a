// SPDX-License-Identifier: MIT
// Regular languages as rules of GBNF.
#pragma once

#include <string>
#include <utility>
#include <vector>

#include "ref/grammar/regular_language.h"

namespace draftproof {

/// The texts of a language as they are, or what is behind the first quote of their strings of JSON, each character in
/// its shortest form.
enum class Writing { plain, json };

/// Names and bodies of rules, one for each state: `name`-0, where texts begin, `name`-1, ... Those of json use rules of
/// json_rules(). The language is not empty.
std::vector<std::pair<std::string, std::string>> language_rules(const RegularLanguage& language,
                                                                const std::string& name, Writing writing);

}  // namespace draftproof
