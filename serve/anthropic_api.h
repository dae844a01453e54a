// SPDX-License-Identifier: MIT
// Anthropic's API (serve/api.h has its messages).
#pragma once

#include <string>

#include "serve/api.h"

namespace draftproof::serve {

/// The answer of /v1/messages/count_tokens. Throws Error, with a sentence for the client.
std::string count_tokens_json(const std::string& body, const ServedModel& model);

}  // namespace draftproof::serve
