// SPDX-License-Identifier: MIT
// The numbers of types in a GGUF file, from ggml's docs/gguf.md.
#pragma once

#include <cstdint>
#include <optional>

#include "kernels/formats.h"
#include "ref/formats/unpacking.h"

namespace draftproof {

inline constexpr std::uint64_t gguf_default_alignment = 32;

/// Types of metadata values.
enum class GgufType : std::uint32_t {
  uint8,
  int8,
  uint16,
  int16,
  uint32,
  int32,
  float32,
  boolean,
  string,
  array,
  uint64,
  int64,
  float64
};

/// A type of tensors. Tensors of a type without a format can only be listed. Tensors of a type with an unpacking are
/// converted to `format` when they are read.
struct GgufTensorType {
  std::uint32_t id;
  const char* name;
  std::optional<Format> format;
  std::uint64_t block_inputs;
  std::uint64_t block_bytes;
  const Unpacking* unpacking = nullptr;
  std::uint32_t file_type = 0;  // of a file with weights of this type; only of types that are written
};

constexpr GgufTensorType gguf_computed(std::uint32_t id, const char* name, Format format, std::uint32_t file_type) {
  return {id,
          name,
          format,
          static_cast<std::uint64_t>(traits(format).block_inputs),
          static_cast<std::uint64_t>(traits(format).block_bytes),
          nullptr,
          file_type};
}

constexpr GgufTensorType gguf_unpacked(std::uint32_t id, const char* name, const Unpacking& how) {
  return {id, name, how.format, how.block_inputs, how.block_bytes, &how};
}

inline constexpr std::uint32_t gguf_integers = 27;

inline constexpr GgufTensorType gguf_tensor_types[] = {
    gguf_computed(0, "F32", Format::f32, 0),
    gguf_computed(1, "F16", Format::f16, 1),
    gguf_computed(30, "BF16", Format::bf16, 32),
    gguf_computed(2, "Q4_0", Format::q4_0, 2),
    gguf_computed(3, "Q4_1", Format::q4_1, 3),
    gguf_computed(6, "Q5_0", Format::q5_0, 8),
    gguf_computed(7, "Q5_1", Format::q5_1, 9),
    gguf_computed(8, "Q8_0", Format::q8_0, 7),
    gguf_computed(20, "IQ4_NL", Format::iq4_nl, 25),
    gguf_computed(23, "IQ4_XS", Format::iq4_xs, 30),
    gguf_computed(39, "MXFP4", Format::mxfp4, 38),
    gguf_computed(10, "Q2_K", Format::q2_k, 10),
    gguf_computed(11, "Q3_K", Format::q3_k, 12),
    gguf_computed(12, "Q4_K", Format::q4_k, 14),
    gguf_computed(13, "Q5_K", Format::q5_k, 16),
    gguf_computed(14, "Q6_K", Format::q6_k, 18),
    gguf_unpacked(16, "IQ2_XXS", iq2_xxs),
    gguf_unpacked(17, "IQ2_XS", iq2_xs),
    gguf_unpacked(18, "IQ3_XXS", iq3_xxs),
    gguf_unpacked(19, "IQ1_S", iq1_s),
    gguf_unpacked(21, "IQ3_S", iq3_s),
    gguf_unpacked(22, "IQ2_S", iq2_s),
    gguf_unpacked(29, "IQ1_M", iq1_m),
    gguf_unpacked(34, "TQ1_0", tq1_0),
    gguf_unpacked(35, "TQ2_0", tq2_0),
    gguf_unpacked(40, "NVFP4", nvfp4),
    {24, "I8", std::nullopt, 1, 1},
    {25, "I16", std::nullopt, 1, 2},
    {26, "I32", std::nullopt, 1, 4},
    {gguf_integers, "I64", std::nullopt, 1, 8},
    {28, "F64", std::nullopt, 1, 8},
};

/// Returns the type that stores `format` without unpacking, or nullptr: what only memory holds.
constexpr const GgufTensorType* gguf_tensor_type(Format format) {
  for (const GgufTensorType& type : gguf_tensor_types) {
    if (type.format == format && type.unpacking == nullptr) return &type;
  }
  return nullptr;
}

}  // namespace draftproof
