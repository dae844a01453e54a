// SPDX-License-Identifier: MIT
// What a GGUF says, in Hugging Face's terms: names of tensors, order of rows, config.json. One dialect per
// general.architecture.
#pragma once

#include <span>
#include <string>

#include "ref/formats/gguf.h"
#include "ref/formats/json.h"

namespace draftproof {

struct GgufName {
  const char* gguf;          // "attn_q" of "blk.3.attn_q.weight", or of "attn_q.weight"
  const char* hugging_face;  // "self_attn.q_proj" of "model.layers.3.self_attn.q_proj.weight"
  bool in_heads = false;     // rows belong to heads that RoPE turns
};

struct GgufNames {
  const char* architecture;
  std::span<const GgufName> whole;   // tensors of the whole model
  std::span<const GgufName> layer;   // of each layer
  const char* layers;                // what stands before a layer's number
  /// The converter put the two halves of each head's rows, which RoPE turns together, into pairs of neighbors.
  bool pairs_rows;
  /// What config.json would say. Errors name the key, those about its fields as well.
  Json (*config)(const Gguf& file);
};

/// Error when the file names no architecture, or one without a dialect.
const GgufNames& dialect_of(const Gguf& file);

/// Of the tensor `name` as the file has it; empty when the dialect has no word for it.
struct GgufTranslation {
  std::string name;
  bool in_heads = false;
};
GgufTranslation translated(const GgufNames& dialect, const std::string& name);

/// The other way: how a file has, or would have, the tensor `hugging_face`; of several spellings the first. What the
/// dialect has no word for stays.
std::string name_in_gguf(const GgufNames& dialect, const std::string& hugging_face);

}  // namespace draftproof
