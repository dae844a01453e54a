// SPDX-License-Identifier: MIT
// llama-server's own API (serve/api.h has its completions): what it says of the server and its model.
#pragma once

#include <string>

#include "serve/api.h"

namespace draftproof::serve {

/// The answer of /props.
std::string llama_server_props_json(const ServedModel& model);
/// /slots: so many of the answers that can be decoded together are.
std::string llama_server_slots_json(const ServedModel& model, int parallel, int running);

}  // namespace draftproof::serve
