// SPDX-License-Identifier: MIT
// Quantized formats of GGUF files that no kernel supports. They are unpacked, when they are read, to a format that
// represents the same values to the last bit, those of ggml's dequantize_row: where the block of another format does,
// to that, else to floats. The layouts are described at their readers in unpacking.cpp.
#pragma once

#include <cstdint>

#include "kernels/formats.h"

namespace draftproof {

struct Unpacking {
  Format format;               // after unpacking: q3_k, iq1 to iq3_s, or bf16
  std::uint64_t block_inputs;  // values per quantization block in the file
  std::uint64_t block_bytes;   // in the file
  void (*read)(const std::uint8_t* from, QuantizationBlock& block);
};

/// Unpacks one block; `to` has row_bytes(format, block_inputs) bytes. No alignment is needed. The values are finite
/// when the scales are.
void unpack_block(const Unpacking& how, const std::uint8_t* from, std::uint8_t* to);

void read_iq1_s(const std::uint8_t* from, QuantizationBlock& block);
void read_iq1_m(const std::uint8_t* from, QuantizationBlock& block);
void read_iq2_xxs(const std::uint8_t* from, QuantizationBlock& block);
void read_iq2_xs(const std::uint8_t* from, QuantizationBlock& block);
void read_iq2_s(const std::uint8_t* from, QuantizationBlock& block);
void read_iq3_xxs(const std::uint8_t* from, QuantizationBlock& block);
void read_iq3_s(const std::uint8_t* from, QuantizationBlock& block);
void read_tq1_0(const std::uint8_t* from, QuantizationBlock& block);
void read_tq2_0(const std::uint8_t* from, QuantizationBlock& block);
void read_nvfp4(const std::uint8_t* from, QuantizationBlock& block);

inline constexpr Unpacking iq1_s = {Format::iq1, 256, 50, read_iq1_s};
inline constexpr Unpacking iq1_m = {Format::iq1, 256, 56, read_iq1_m};
inline constexpr Unpacking iq2_xxs = {Format::iq2, 256, 66, read_iq2_xxs};
inline constexpr Unpacking iq2_xs = {Format::iq2, 256, 74, read_iq2_xs};
inline constexpr Unpacking iq2_s = {Format::iq2, 256, 82, read_iq2_s};
inline constexpr Unpacking iq3_xxs = {Format::iq3_xxs, 256, 98, read_iq3_xxs};
inline constexpr Unpacking iq3_s = {Format::iq3_s, 256, 110, read_iq3_s};
inline constexpr Unpacking tq1_0 = {Format::q3_k, 256, 54, read_tq1_0};
inline constexpr Unpacking tq2_0 = {Format::q3_k, 256, 66, read_tq2_0};
inline constexpr Unpacking nvfp4 = {Format::bf16, 64, 36, read_nvfp4};

}  // namespace draftproof
