// SPDX-License-Identifier: MIT
// Translates a GGUF to the conventions of Hugging Face: names of tensors, order of rows, config.json. One table of
// names per general.architecture.
#pragma once

#include <span>
#include <string>
#include <string_view>

#include "ref/formats/gguf.h"
#include "ref/formats/json.h"

namespace draftproof {

struct GgufName {
  const char* gguf;          // "attn_q" of "blk.3.attn_q.weight", or of "attn_q.weight"
  const char* hugging_face;  // "self_attn.q_proj" of "model.layers.3.self_attn.q_proj.weight"
  bool in_heads = false;     // rows belong to heads that RoPE rotates
  bool whole = false;        // nothing follows either name, ".weight" neither
};

struct GgufNames {
  const char* architecture;
  std::span<const GgufName> whole;   // tensors outside of the layers
  std::span<const GgufName> layer;   // of each layer
  const char* layers;                // prefix of a layer's number
  /// Whether the converter interleaved the two halves of each head's rows, so that RoPE rotates neighboring rows.
  bool pairs_rows;
  /// Returns the equivalent config.json. Errors about its fields name the GGUF key, too.
  Json (*config)(const Gguf& file);
};

/// Returns the names of an architecture; nullptr when it is not implemented.
const GgufNames* find_gguf_names(std::string_view architecture) noexcept;

/// Returns the names of the file's architecture. Throws Error when the file has none, or one that is not implemented.
const GgufNames& gguf_names_of(const Gguf& file);

struct GgufTranslation {
  std::string name;
  bool in_heads = false;
};
/// Translates the name of a tensor in the file to Hugging Face's; returns an empty name when the table does not have
/// it.
GgufTranslation translated(const GgufNames& table, const std::string& name);

/// Translates a name of Hugging Face to the name in the file; the first one when there are several spellings. Returns a
/// name that the table does not have unchanged.
std::string name_in_gguf(const GgufNames& table, const std::string& hugging_face);

}  // namespace draftproof
