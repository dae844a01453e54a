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

/// Four bytes of an output, as a lane has them: byte t is the lowest but t.
using Four = std::uint32_t;

constexpr Four in_each_byte(int byte) { return 0x01010101u * static_cast<Four>(byte); }

Four four_at(const std::int8_t* q) {
  Four bytes;
  std::memcpy(&bytes, q, sizeof(bytes));
  return bytes;
}
void put_lane(Byte* to, int vector, int lane, Four bytes) {
  std::memcpy(to + byte_of(vector, lane, 0), &bytes, sizeof(bytes));
}

/// Writes 32 inputs of four bits each: k = 4j + t in the low bits, k = 16 + 4j + t in the high bits.
void put_fours(Byte* to, int lane, const std::int8_t* q) {
  constexpr Four low = in_each_byte(15);
  for (int v = 0; v < 4; ++v) put_lane(to, v, lane, (four_at(q + 4 * v) & low) | (four_at(q + 4 * v + 16) & low) << 4);
}
void get_fours(const Byte* from, int lane, std::int8_t* q) {
  for (int k = 0; k < 16; ++k) {
    const Byte both = from[byte_of(k / 4, lane, k % 4)];
    q[k] = static_cast<std::int8_t>(both & 15);
    q[k + 16] = static_cast<std::int8_t>(both >> 4);
  }
}

/// Writes 16 inputs of six bits each: four vectors, the last one in the high two bits of the others.
void put_sixes(Byte* to, int lane, const std::int8_t* q) {
  const Four last = four_at(q + 12);
  for (int v = 0; v < 3; ++v) {
    put_lane(to, v, lane, (four_at(q + 4 * v) & in_each_byte(63)) | (last >> 2 * v & in_each_byte(3)) << 6);
  }
}
void get_sixes(const Byte* from, int lane, std::int8_t* q) {
  const auto with_sign = [](int six) { return static_cast<std::int8_t>((six ^ 32) - 32); };
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

/// Writes the fifth bits of 32 inputs.
void put_fifths(Byte* to, int lane, const std::int8_t* q) {
  Four bits = 0;
  for (int v = 0; v < 8; ++v) bits |= (four_at(q + 4 * v) >> 4 & in_each_byte(1)) << v;
  put_lane(to, 0, lane, bits);
}
void add_fifths(const Byte* from, int lane, std::int8_t* q) {
  for (int k = 0; k < 32; ++k) {
    q[k] = static_cast<std::int8_t>(q[k] | (from[byte_of(0, lane, k % 4)] >> k / 4 & 1) << 4);
  }
}

/// Writes 32 inputs of two bits each: two vectors of sixteen.
void put_twos(Byte* to, int lane, const std::int8_t* q) {
  for (int v = 0; v < 2; ++v) {
    Four bits = 0;
    for (int i = 0; i < 4; ++i) bits |= four_at(q + 16 * v + 4 * i) << 2 * i;
    put_lane(to, v, lane, bits);
  }
}
void get_twos(const Byte* from, int lane, std::int8_t* q) {
  for (int k = 0; k < 32; ++k) {
    q[k] = static_cast<std::int8_t>(from[byte_of(k / 16, lane, k % 4)] >> k % 16 / 4 * 2 & 3);
  }
}

/// Writes 32 inputs of three bits each: six vectors, two in each of three, and two more in the high two bits of these.
void put_threes(Byte* to, int lane, const std::int8_t* q) {
  constexpr Four bit = in_each_byte(1);
  const Four seventh = four_at(q + 24);
  const Four eighth = four_at(q + 28);
  const Four third_bits = (seventh >> 2 & bit) | (eighth >> 2 & bit) << 1;
  const Four high[3] = {seventh & in_each_byte(3), eighth & in_each_byte(3), third_bits};
  for (int v = 0; v < 3; ++v) {
    put_lane(to, v, lane, four_at(q + 8 * v) | four_at(q + 8 * v + 4) << 3 | high[v] << 6);
  }
}
void get_threes(const Byte* from, int lane, std::int8_t* q) {
  for (int t = 0; t < 4; ++t) {
    int high[3];
    for (int v = 0; v < 3; ++v) {
      const int both = from[byte_of(v, lane, t)];
      q[8 * v + t] = static_cast<std::int8_t>(both & 7);
      q[8 * v + 4 + t] = static_cast<std::int8_t>(both >> 3 & 7);
      high[v] = both >> 6;
    }
    q[24 + t] = static_cast<std::int8_t>(high[0] | (high[2] & 1) << 2);
    q[28 + t] = static_cast<std::int8_t>(high[1] | high[2] >> 1 << 2);
  }
}

/// Turns numbers into the codes that stand for them, and back.
void to_codes(Format format, std::int8_t* q, int count) {
  const FormatTraits& kind = traits(format);
  if (kind.numbers == nullptr) {
    for (int k = 0; k < count; ++k) q[k] = static_cast<std::int8_t>(q[k] + kind.offset);
  } else {
    const std::uint8_t* const code_of = codes_of_numbers(format) + 128;
    for (int k = 0; k < count; ++k) q[k] = static_cast<std::int8_t>(code_of[q[k]]);
  }
}
void from_codes(const FormatTraits& kind, std::int8_t* q, int count) {
  for (int k = 0; k < count; ++k) {
    q[k] = kind.numbers == nullptr ? static_cast<std::int8_t>(q[k] - kind.offset) : kind.numbers[q[k]];
  }
}

/// Returns the bytes of the codes of 32 inputs of sixteen outputs.
int code_bytes(Format format) { return 64 * traits(format).code_bits; }

/// Writes a quantization block of 32 to its half of a unit.
void put_32(Format format, Byte* unit, int half, int lane, const Byte* from) {
  const FormatTraits& kind = traits(format);
  std::int8_t q[32];
  read_numbers(format, from, q);
  to_codes(format, q, 32);
  Byte* const to = unit + half * code_bytes(format);
  if (kind.code_bits == 8) {
    for (int v = 0; v < 8; ++v) put_lane(to, v, lane, four_at(q + 4 * v));
  } else {
    put_fours(to, lane, q);
    if (kind.code_bits == 5) put_fifths(to + 256, lane, q);
  }
  if (kind.scales == 0) unit[unit_of(format).d + half * lanes + lane] = from[kind.scale];
  for (int i = 0; i < kind.scales; ++i) {
    put_word(unit + unit_of(format).d, static_cast<std::size_t>((2 * i + half) * lanes + lane),
             word_at(from, static_cast<std::size_t>(i)));
  }
}

QuantizationBlock get_32(Format format, const Byte* unit, int half, int lane) {
  const FormatTraits& kind = traits(format);
  const Byte* const from = unit + half * code_bytes(format);
  QuantizationBlock block = {};
  if (kind.code_bits == 8) {
    for (int k = 0; k < 32; ++k) block.q[k] = static_cast<std::int8_t>(from[byte_of(k / 4, lane, k % 4)]);
  } else {
    get_fours(from, lane, block.q);
    if (kind.code_bits == 5) add_fifths(from + 256, lane, block.q);
  }
  from_codes(kind, block.q, 32);
  block.s[0] = block.s[1] = 1;
  const auto half_at = [&](int i) {
    return f16_to_f32(word_at(unit + unit_of(format).d, static_cast<std::size_t>(i * lanes + lane)));
  };
  block.d = kind.scales == 0 ? power_of_two(unit[unit_of(format).d + half * lanes + lane]) : half_at(half);
  if (kind.has_minimums) {
    block.dmin = -half_at(2 + half);
    block.m[0] = block.m[1] = 1;
  }
  return block;
}

/// Returns the place of the scale of group j of sixteen inputs.
int paired_scale(const Unit& places, int lane, int j) { return places.scales + (j / 2 * lanes + lane) * 2 + j % 2; }

void put_256(Format format, Byte* unit, int lane, const Byte* from) {
  const FormatTraits& kind = traits(format);
  const Unit places = unit_of(format);
  QuantizationBlock block = read_block(format, from);
  for (int i = 0; i < kind.scales; ++i) {
    put_word(unit + places.d, static_cast<std::size_t>(i * lanes + lane),
             word_at(from + kind.scale, static_cast<std::size_t>(i)));
  }
  if (format == Format::q6_k) {
    for (int j = 0; j < 16; ++j) {
      put_sixes(unit + 192 * j, lane, block.q + 16 * j);
      unit[places.scales + j * lanes + lane] = static_cast<Byte>(block.s[j]);
    }
    return;
  }
  to_codes(format, block.q, 256);
  if (has_paired_scales(format)) {
    for (int g = 0; g < 8; ++g) {
      (format == Format::q2_k ? put_twos : put_threes)(unit + g * code_bytes(format), lane, block.q + g * 32);
    }
    for (int j = 0; j < 16; ++j) unit[paired_scale(places, lane, j)] = static_cast<Byte>(block.s[j] | block.m[j] << 4);
    return;
  }
  if (is_iq1_to_iq3(format)) {
    for (int g = 0; g < 8; ++g) {
      (kind.code_bits == 3 ? put_threes : put_fours)(unit + g * code_bytes(format), lane, block.q + g * 32);
    }
    for (int j = 0; j < 16; ++j) unit[places.scales + j * lanes + lane] = static_cast<Byte>(block.s[j]);
    return;
  }
  for (int g = 0; g < 8; ++g) {
    const std::int8_t* const q = block.q + g * 32;
    put_fours(unit + g * 256, lane, q);
    if (kind.code_bits == 5) put_fifths(unit + places.high + g * 64, lane, q);
    unit[places.scales + g * lanes + lane] = static_cast<Byte>(block.s[2 * g]);
    if (kind.has_minimums) {
      unit[places.minimums + (g / 2 * lanes + lane) * 2 + g % 2] = static_cast<Byte>(block.m[2 * g]);
    }
  }
}

QuantizationBlock get_256(Format format, const Byte* unit, int lane) {
  const FormatTraits& kind = traits(format);
  const Unit places = unit_of(format);
  const auto half_at = [&](int i) {
    return f16_to_f32(word_at(unit + places.d, static_cast<std::size_t>(i * lanes + lane)));
  };
  QuantizationBlock block = {};
  block.d = half_at(0) * kind.unit;
  if (format == Format::q6_k) {
    for (int j = 0; j < 16; ++j) {
      get_sixes(unit + 192 * j, lane, block.q + 16 * j);
      block.s[j] = static_cast<std::int8_t>(unit[places.scales + j * lanes + lane]);
    }
    return block;
  }
  if (has_paired_scales(format)) {
    for (int g = 0; g < 8; ++g) {
      (format == Format::q2_k ? get_twos : get_threes)(unit + g * code_bytes(format), lane, block.q + g * 32);
    }
    from_codes(kind, block.q, 256);
    if (kind.has_minimums) block.dmin = half_at(1);
    for (int j = 0; j < 16; ++j) {
      const Byte s = unit[paired_scale(places, lane, j)];
      block.s[j] = kind.has_minimums ? s & 15 : int{static_cast<std::int8_t>(s)};
      if (kind.has_minimums) block.m[j] = s >> 4;
    }
    return block;
  }
  if (is_iq1_to_iq3(format)) {
    for (int g = 0; g < 8; ++g) {
      (kind.code_bits == 3 ? get_threes : get_fours)(unit + g * code_bytes(format), lane, block.q + g * 32);
    }
    from_codes(kind, block.q, 256);
    for (int j = 0; j < 16; ++j) block.s[j] = static_cast<std::int8_t>(unit[places.scales + j * lanes + lane]);
    return block;
  }
  for (int g = 0; g < 8; ++g) {
    get_fours(unit + g * 256, lane, block.q + g * 32);
    if (kind.code_bits == 5) add_fifths(unit + places.high + g * 64, lane, block.q + g * 32);
  }
  from_codes(kind, block.q, 256);
  if (kind.has_minimums) block.dmin = half_at(1);
  for (int j = 0; j < 16; ++j) {
    const Byte s = unit[places.scales + j / 2 * lanes + lane];
    block.s[j] = kind.has_minimums ? int{s} : int{static_cast<std::int8_t>(s)};
    if (kind.has_minimums) block.m[j] = unit[places.minimums + (j / 4 * lanes + lane) * 2 + j / 2 % 2];
  }
  return block;
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
  const bool short_block = traits(format).block_inputs == 32;
  const int lane = output % lanes;
  const Byte* const unit =
      unit_at(static_cast<const Byte*>(matrix.data), format, matrix.inputs, output, short_block ? index / 2 : index);
  return short_block ? get_32(format, unit, index % 2, lane) : get_256(format, unit, lane);
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
    values_of_block(canonical_block(matrix, output, b), inputs, row + b * inputs);
  }
}

}  // namespace draftproof
