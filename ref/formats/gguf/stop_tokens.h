// SPDX-License-Identifier: MIT
// The stop tokens of a GGUF: those that keys name, and those that llama.cpp knows by their text.
#pragma once

#include <nlohmann/json_fwd.hpp>

#include "ref/formats/gguf.h"

namespace draftproof {

/// Adds the ids to eos_token_id of the config.
void put_stop_tokens(const Gguf& file, nlohmann::ordered_json& config);

}  // namespace draftproof
