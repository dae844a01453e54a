// SPDX-License-Identifier: MIT
// Translates names of tensors in a GGUF to those of Hugging Face, and back. Each family has its table (gguf/family.h).
#pragma once

#include <array>
#include <cstddef>
#include <span>
#include <string>
#include <string_view>

namespace draftproof {

struct GgufName {
  const char* gguf = nullptr;          // "attn_q" of "blk.3.attn_q.weight", or of "attn_q.weight"
  const char* hugging_face = nullptr;  // "self_attn.q_proj" of "model.layers.3.self_attn.q_proj.weight"
  bool in_heads = false;               // rows belong to heads that RoPE rotates
  bool whole = false;                  // nothing follows either name, ".weight" neither
};

template <std::size_t A, std::size_t B>
constexpr std::array<GgufName, A + B> joined(const GgufName (&first)[A], const std::array<GgufName, B>& then) {
  std::array<GgufName, A + B> names = {};
  for (std::size_t i = 0; i < A; ++i) names[i] = first[i];
  for (std::size_t i = 0; i < B; ++i) names[A + i] = then[i];
  return names;
}

template <std::size_t A, std::size_t B>
constexpr std::array<GgufName, A + B> joined(const GgufName (&first)[A], const GgufName (&then)[B]) {
  return joined(first, std::to_array(then));
}

/// How a folder stores the experts of a layer where one tensor has all of them. Names follow the layer's number; of
/// quantized folders ".weight" follows them.
struct GgufFusedExperts {
  const char* gate_up = "mlp.experts.gate_up_proj";
  const char* down = "mlp.experts.down_proj";
  bool interleaved = false;  // gates at even rows, ups at odd ones; else the ups behind the gates
  bool transposed = false;   // [experts][inputs][outputs], unless ".weight" follows
};

/// Those of one family. Of several spellings in GGUF files the first is written.
struct GgufNames {
  std::span<const GgufName> whole;       // tensors outside of the layers
  std::span<const GgufName> layer;       // of each layer
  const char* layers = "model.layers.";  // prefix of a layer's number
  /// Whether the converter interleaved the two halves of each head's rows, so that RoPE rotates neighboring rows.
  bool pairs_rows = false;
  GgufFusedExperts fused = {};
};

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
