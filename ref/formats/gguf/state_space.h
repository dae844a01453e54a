// SPDX-License-Identifier: MIT
#pragma once

#include <nlohmann/json_fwd.hpp>

#include "ref/formats/gguf/keys.h"

namespace draftproof {

/// The fields of a config that name the sizes of layers of Mamba-2.
struct GgufStateSpaceFields {
  const char* heads;
  const char* head_dim;
  const char* groups;
  const char* state_size;
  const char* conv_width;
  const char* expand;           // nullptr: the config has none
  const char* inner = nullptr;  // the same
};
void put_state_space(const GgufKeys& keys, const GgufStateSpaceFields& fields, nlohmann::ordered_json& config);

}  // namespace draftproof
