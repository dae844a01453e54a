// SPDX-License-Identifier: MIT
// Qwen3.5, 3.6 and 3.8, the text model (Hugging Face `qwen3_5` with its text_config, `qwen3_5_text`, and the same of
// `qwen3_5_moe`; GGUF `qwen35` and `qwen35moe`): layers of gated delta net (gated_delta_net.h) and, at every
// full_attention_interval or as layer_types says, of gated full attention; SwiGLU or, in every layer, experts with a
// shared one (experts.h). The norms of the stream and of q and k multiply by 1 + weight, that of the delta net by its
// weight. RoPE turns the first head_dim * partial_rotary_factor dimensions of a head; for a text M-RoPE's three
// positions are one. The heads of the attention are multiplied by a gate before they are mixed: a / (1 + exp(-gate)).
//
// A GGUF stores 1 + weight, -exp(A_log), and value heads in an order in which head h belongs to key head h % key_heads;
// folders that MLX converted store 1 + weight. Tensors of vision stay in the file, those of MTP are for mtp.h.
// Source: transformers, models/qwen3_5 and qwen3_5_moe; llama.cpp's conversion of them.
#pragma once

#include <memory>

#include "ref/formats/json.h"
#include "ref/models/model.h"
#include "ref/models/mtp_block.h"
#include "ref/models/transformer_config.h"
#include "ref/models/weight_loader.h"

namespace draftproof {

TransformerConfig describe_qwen35(const Json& config);
std::unique_ptr<Model> load_qwen35(const WeightLoader& from, const TransformerConfig& config);
extern const MtpBlocks qwen35_blocks;

}  // namespace draftproof
