// SPDX-License-Identifier: MIT
// The tokens over which no repetition that DRY sees goes on (Sampling::dry_breakers), from texts.
#pragma once

#include <span>
#include <string>
#include <vector>

#include "ref/base/token.h"
#include "ref/text/tokenizer.h"

namespace draftproof {

/// Those of llama.cpp.
const std::vector<std::string>& default_breakers();

/// Returns the tokens that contain one of these texts, ascending. A text that two tokens share is not seen there.
/// Throws Error for a text that no token contains.
std::vector<Token> breaking_tokens(const Tokenizer& tokenizer, std::span<const std::string> texts);

}  // namespace draftproof
