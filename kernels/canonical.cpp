// SPDX-License-Identifier: MIT
#include "kernels/canonical.h"

#include <cstring>

namespace draftproof {
namespace {

using Byte = std::uint8_t;

std::uint16_t word_at(const void* data, std::size_t i) {
  std::uint16_t word;
  std::memcpy(&word, static_cast<const char*>(data) + 2 * i, 2);
  return word;
}
void put_word(void* data, std::size_t i, std::uint16_t word) {
  std::memcpy(static_cast<char*>(data) + 2 * i, &word, 2);
}

/// Replaces denormals by zeros of the same sign.
std::uint32_t flushed_f32(std::uint32_t bits) { return (bits & 0x7f800000u) == 0 ? bits & 0x80000000u : bits; }

/// Returns the start of unit `unit` of the panel that contains `output`.
template <class Memory>
Memory* unit_at(Memory* packed, Format format, int inputs, int output, int unit) {
  return packed + output / lanes * panel_bytes(format, inputs) + std::ptrdiff_t{unit} * unit_of(format).bytes;
}

/// Returns the offset of byte t of vector v: [v][16 outputs][4].
int byte_of(int vector, int lane, int t) { return (vector * lanes + lane) * 4 + t; }

/// Returns the offset of element k of a float format, in elements from the start of the panel.
std::size_t float_place(Format format, int lane, int k) {
  const int pair = k / 2 * 2 * lanes;
  if (format == Format::f32) return static_cast<std::size_t>(k * std::ptrdiff_t{lanes} + lane);
  return static_cast<std::size_t>(format == Format::f16 ? pair + k % 2 * lanes + lane : pair + lane * 2 + k % 2);
}

/// Reads eight scales and eight minimums of six bits each from twelve bytes.
void read_six_bits(const Byte* from, int* s, int* m) {
  for (int j = 0; j < 4; ++j) {
    s[j] = from[j] & 63;
    m[j] = from[j + 4] & 63;
    s[j + 4] = (from[j + 8] & 15) | from[j] >> 6 << 4;
    m[j + 4] = from[j + 8] >> 4 | from[j + 4] >> 6 << 4;
  }
}

/// Reads a quantization block in the format of checkpoints.
QuantizationBlock read_block(Format format, const Byte* from) {
  QuantizationBlock block = {};
  switch (format) {
    case Format::q8_0:
      block.d = f16_to_f32(word_at(from, 0));
      for (int k = 0; k < 32; ++k) block.q[k] = static_cast<std::int8_t>(from[2 + k]);
      break;
    case Format::q4_0:
      block.d = f16_to_f32(word_at(from, 0));
      for (int k = 0; k < 32; ++k) block.q[k] = (k < 16 ? from[2 + k] & 15 : from[2 + k - 16] >> 4) - 8;
      break;
    case Format::q4_k:
    case Format::q5_k: {
      const bool five = format == Format::q5_k;
      const Byte* const low = from + (five ? 48 : 16);
      block.d = f16_to_f32(word_at(from, 0));
      block.dmin = f16_to_f32(word_at(from, 1));
      read_six_bits(from + 4, block.s, block.m);
      for (int k = 0; k < 256; ++k) {
        const Byte both = low[k / 64 * 32 + k % 32];
        const int fifth = five ? from[16 + k % 32] >> k / 32 & 1 : 0;
        block.q[k] = (k % 64 < 32 ? both & 15 : both >> 4) | fifth << 4;
      }
      break;
    }
    case Format::q6_k:
      for (int k = 0; k < 256; ++k) {
        const int half = k / 128;
        const int quarter = k % 128 / 32;  // of the half
        const Byte both = from[half * 64 + quarter % 2 * 32 + k % 32];
        const int high = from[128 + half * 32 + k % 32] >> 2 * quarter & 3;
        block.q[k] = ((quarter < 2 ? both & 15 : both >> 4) | high << 4) - 32;
      }
      for (int j = 0; j < 16; ++j) block.s[j] = static_cast<std::int8_t>(from[192 + j]);
      block.d = f16_to_f32(word_at(from, 104));
      break;
    default: break;
  }
  return block;
}

/// Writes 32 inputs of four bits each: k = 4j + t in the low bits, k = 16 + 4j + t in the high bits.
void put_fours(Byte* to, int lane, const int* q) {
  for (int k = 0; k < 16; ++k) to[byte_of(k / 4, lane, k % 4)] = static_cast<Byte>((q[k] & 15) | (q[k + 16] & 15) << 4);
}
void get_fours(const Byte* from, int lane, int* q) {
  for (int k = 0; k < 16; ++k) {
    const Byte both = from[byte_of(k / 4, lane, k % 4)];
    q[k] = both & 15;
    q[k + 16] = both >> 4;
  }
}

/// Writes 16 inputs of six bits each: four vectors, the last one in the high two bits of the others.
void put_sixes(Byte* to, int lane, const int* q) {
  for (int t = 0; t < 4; ++t) {
    for (int v = 0; v < 3; ++v) {
      to[byte_of(v, lane, t)] = static_cast<Byte>((q[4 * v + t] & 63) | (q[12 + t] >> 2 * v & 3) << 6);
    }
  }
}
void get_sixes(const Byte* from, int lane, int* q) {
  const auto with_sign = [](int six) { return (six ^ 32) - 32; };
  for (int t = 0; t < 4; ++t) {
    int last = 0;
    for (int v = 0; v < 3; ++v) {
      const int both = from[byte_of(v, lane, t)];
      q[4 * v + t] = with_sign(both & 63);
      last |= both >> 6 << 2 * v;
    }
    q[12 + t] = with_sign(last);
  }
}

/// Writes a quantization block of 32 to its half of a unit.
void put_32(Format format, Byte* unit, int half, int lane, const Byte* from) {
  const QuantizationBlock block = read_block(format, from);
  if (format == Format::q8_0) {
    Byte* const to = unit + half * 512;
    for (int k = 0; k < 32; ++k) to[byte_of(k / 4, lane, k % 4)] = static_cast<Byte>(block.q[k]);
  } else {
    int q[32];
    for (int k = 0; k < 32; ++k) q[k] = block.q[k] + 8;
    put_fours(unit + half * 256, lane, q);
  }
  put_word(unit + unit_of(format).d, static_cast<std::size_t>(half * lanes + lane), word_at(from, 0));
}

void put_256(Format format, Byte* unit, int lane, const Byte* from) {
  const Unit places = unit_of(format);
  const QuantizationBlock block = read_block(format, from);
  if (format == Format::q6_k) {
    for (int j = 0; j < 16; ++j) {
      put_sixes(unit + 192 * j, lane, block.q + 16 * j);
      unit[places.scales + j * lanes + lane] = static_cast<Byte>(block.s[j]);
    }
    put_word(unit + places.d, static_cast<std::size_t>(lane), word_at(from, 104));
    return;
  }
  for (int g = 0; g < 8; ++g) {
    const int* const q = block.q + g * 32;
    put_fours(unit + g * 256, lane, q);
    for (int k = 0; format == Format::q5_k && k < 32; ++k) {
      unit[places.high + g * 64 + byte_of(0, lane, k % 4)] |= static_cast<Byte>(q[k] >> 4 << k / 4);
    }
  }
  for (int j = 0; j < 8; ++j) {
    unit[places.scales + j * lanes + lane] = static_cast<Byte>(block.s[j]);
    unit[places.minimums + (j / 2 * lanes + lane) * 2 + j % 2] = static_cast<Byte>(block.m[j]);
  }
  put_word(unit + places.d, static_cast<std::size_t>(lane), word_at(from, 0));
  put_word(unit + places.d, static_cast<std::size_t>(lanes + lane), word_at(from, 1));
}

void pack_floats(const MatrixView& rows, int first, Byte* packed) {
  const auto* const data = static_cast<const Byte*>(rows.data);
  for (int n = 0; n < rows.outputs; ++n) {
    const Byte* const row = data + row_bytes(rows.format, rows.inputs) * static_cast<std::size_t>(n);
    Byte* const panel = unit_at(packed, rows.format, rows.inputs, first + n, 0);
    const int lane = (first + n) % lanes;
    for (int k = 0; k < rows.inputs; ++k) {
      const std::size_t place = float_place(rows.format, lane, k);
      if (rows.format == Format::f32) {
        std::uint32_t bits;
        std::memcpy(&bits, row + 4 * static_cast<std::size_t>(k), 4);
        bits = flushed_f32(bits);
        std::memcpy(panel + 4 * place, &bits, 4);
      } else {
        const std::uint16_t bits = word_at(row, static_cast<std::size_t>(k));
        put_word(panel, place, rows.format == Format::bf16 ? bf16_factor(bits) : bits);
      }
    }
  }
}

/// Input k of one output of a panel of floats.
float value_at(const Byte* panel, Format format, int lane, int k) {
  const std::size_t place = float_place(format, lane, k);
  if (format == Format::f32) {
    float value;
    std::memcpy(&value, panel + 4 * place, 4);
    return value;
  }
  const std::uint16_t word = word_at(panel, place);
  return format == Format::f16 ? f16_to_f32(word) : bf16_to_f32(word);
}

}  // namespace

ActivationFormat canonical_activation_format(Format format) noexcept { return canonical_activation_format_of(format); }

std::size_t canonical_bytes(Format format, int outputs, int inputs) noexcept {
  const std::size_t panels = (static_cast<std::size_t>(outputs) + lanes - 1) / lanes;
  return panels * static_cast<std::size_t>(panel_bytes(format, inputs));
}

void canonical_pack(const MatrixView& rows, int first, void* packed) noexcept {
  auto* const to = static_cast<Byte*>(packed);
  if (is_float(rows.format)) {
    pack_floats(rows, first, to);
    return;
  }
  const FormatTraits& block = traits(rows.format);
  const Byte* from = static_cast<const Byte*>(rows.data);
  for (int n = 0; n < rows.outputs; ++n) {
    const int lane = (first + n) % lanes;
    for (int b = 0; b < rows.inputs / block.block_inputs; ++b, from += block.block_bytes) {
      if (block.block_inputs == 32) {
        put_32(rows.format, unit_at(to, rows.format, rows.inputs, first + n, b / 2), b % 2, lane, from);
      } else {
        put_256(rows.format, unit_at(to, rows.format, rows.inputs, first + n, b), lane, from);
      }
    }
  }
}

QuantizationBlock canonical_block(const PackedView& matrix, int output, int index) noexcept {
  const Format format = matrix.format;
  const Unit places = unit_of(format);
  const int lane = output % lanes;
  const bool short_block = traits(format).block_inputs == 32;
  const int half = short_block ? index % 2 : 0;
  const Byte* const unit =
      unit_at(static_cast<const Byte*>(matrix.data), format, matrix.inputs, output, short_block ? index / 2 : index);
  const auto half_at = [&](int i) { return f16_to_f32(word_at(unit + places.d, static_cast<std::size_t>(i))); };

  QuantizationBlock block = {};
  block.d = half_at(half * lanes + lane);
  if (format == Format::q8_0) {
    for (int k = 0; k < 32; ++k) block.q[k] = static_cast<std::int8_t>(unit[half * 512 + byte_of(k / 4, lane, k % 4)]);
    return block;
  }
  if (format == Format::q4_0) {
    get_fours(unit + half * 256, lane, block.q);
    for (int k = 0; k < 32; ++k) block.q[k] -= 8;
    return block;
  }
  if (format == Format::q6_k) {
    for (int j = 0; j < 16; ++j) {
      get_sixes(unit + 192 * j, lane, block.q + 16 * j);
      block.s[j] = static_cast<std::int8_t>(unit[places.scales + j * lanes + lane]);
    }
    return block;
  }
  for (int g = 0; g < 8; ++g) {
    int* const q = block.q + g * 32;
    get_fours(unit + g * 256, lane, q);
    for (int k = 0; format == Format::q5_k && k < 32; ++k) {
      q[k] |= (unit[places.high + g * 64 + byte_of(0, lane, k % 4)] >> k / 4 & 1) << 4;
    }
  }
  block.dmin = half_at(lanes + lane);
  for (int j = 0; j < 8; ++j) {
    block.s[j] = unit[places.scales + j * lanes + lane];
    block.m[j] = unit[places.minimums + (j / 2 * lanes + lane) * 2 + j % 2];
  }
  return block;
}

void canonical_values(const PackedView& matrix, int output, int k, float* values) noexcept {
  const Byte* const panel = unit_at(static_cast<const Byte*>(matrix.data), matrix.format, matrix.inputs, output, 0);
  for (int lane = 0; lane < lanes; ++lane) values[lane] = value_at(panel, matrix.format, lane, k);
}

void canonical_unpack_row(const PackedView& matrix, int output, float* row) noexcept {
  if (is_float(matrix.format)) {
    const Byte* const panel = unit_at(static_cast<const Byte*>(matrix.data), matrix.format, matrix.inputs, output, 0);
    for (int k = 0; k < matrix.inputs; ++k) row[k] = value_at(panel, matrix.format, output % lanes, k);
    return;
  }
  const int inputs = traits(matrix.format).block_inputs;
  for (int b = 0; b < matrix.inputs / inputs; ++b) {
    const QuantizationBlock block = canonical_block(matrix, output, b);
    for (int k = 0; k < inputs; ++k) {
      const float q = static_cast<float>(block.q[k]);
      float& value = row[b * inputs + k];
      if (inputs == 32) {
        value = block.d * q;
      } else if (matrix.format == Format::q6_k) {
        value = (block.d * static_cast<float>(block.s[k / 16])) * q;
      } else {
        const float scale = block.d * static_cast<float>(block.s[k / 32]);
        value = scale * q - block.dmin * static_cast<float>(block.m[k / 32]);
      }
    }
  }
}

}  // namespace draftproof
