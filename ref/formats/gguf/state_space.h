// SPDX-License-Identifier: MIT
#pragma once

#include <array>
#include <nlohmann/json_fwd.hpp>

#include "ref/formats/gguf/keys.h"
#include "ref/formats/gguf_names.h"

namespace draftproof {

/// Of models whose layers are Mamba-2, or also that.
inline constexpr GgufName mamba2_whole[] = {
    {"token_embd", "model.embeddings"}, {"output_norm", "model.norm_f"}, {"output", "lm_head"}};
inline constexpr auto mamba2_layer = std::to_array<GgufName>({{"attn_norm", "norm"},
                                                              {"ssm_in", "mixer.in_proj"},
                                                              {"ssm_conv1d", "mixer.conv1d"},
                                                              {"ssm_dt.bias", "mixer.dt_bias", false, true},
                                                              {"ssm_a", "mixer.A_log", false, true},
                                                              {"ssm_d", "mixer.D", false, true},
                                                              {"ssm_norm", "mixer.norm"},
                                                              {"ssm_out", "mixer.out_proj"}});

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
