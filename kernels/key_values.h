// SPDX-License-Identifier: MIT
// How the keys and values of one attention layer lie in memory, and how rows come into it and out of it again.
// Attention itself is an entry of the table (kernels.h).
//
// Positions lie in blocks of 16, the blocks in a ring: position p in slot (p / 16) % blocks, lane p % 16. A vector (the
// key or the value of one position and kv head) depends on nothing else:
//
// f32: the floats. bf16: to nearest, ties to even. In both a denormal becomes a zero of its sign: it would slow every
// multiplication on some CPUs.
// q8: a scale d and bytes q, each value standing for q * d. a = the largest magnitude; if a < 2^-100, d and every q are
// 0; else d = a / 127 and q = x * (127 / a), to nearest, ties to even. A vector that holds an infinity or a NaN has
// d = NaN.
//
// Plain data and declarations: the instruction-set files include this header.
#pragma once

#include <cstddef>
#include <cstdint>

namespace draftproof {

enum class KvFormat : std::uint8_t { f32, bf16, q8 };
inline constexpr int kv_formats = 3;

struct KvTraits {
  const char* name;  // as --kv names it
  int value_bytes;
};
inline constexpr KvTraits kv_traits[kv_formats] = {{"f32", 4}, {"bf16", 2}, {"q8", 1}};

static inline constexpr const KvTraits& traits(KvFormat format) { return kv_traits[static_cast<int>(format)]; }

/// head_dim rounded up to whole lanes: what a row of values takes.
static inline constexpr int value_width(int head_dim) { return (head_dim + 15) / 16 * 16; }

struct KeyValues {
  KvFormat format;
  int kv_heads;
  int head_dim;
  int blocks;           // of each kv head
  void* keys;           // [kv_heads][blocks][head_dim][16]
  void* values;         // [kv_heads][blocks][16][value_width]
  float* key_scales;    // [kv_heads][blocks][16], of q8
  float* value_scales;  // the same
};

/// Bytes that keys, values and scales of one layer take together, and where each lies in such a piece of memory, which
/// is 64-byte aligned.
std::size_t key_values_bytes(KvFormat format, int kv_heads, int head_dim, int blocks) noexcept;
KeyValues key_values_in(void* memory, KvFormat format, int kv_heads, int head_dim, int blocks) noexcept;

/// Stores kv heads [begin, end) of positions [position, position + rows); keys and values: [rows][stride], a row being
/// [kv_heads][head_dim]. The lanes of a block that comes after them are made NaN when the block's first is stored for
/// the first time, so that a read of an unwritten position shows. Different heads may be stored at the same time.
void store_positions(const KeyValues& kv, int position, int rows, const float* keys, const float* values,
                     std::ptrdiff_t stride, int begin, int end) noexcept;

/// Copies the stored bits of position `from_position` to position `to_position` of another memory of the same format,
/// heads and dimensions, for all kv heads.
void copy_position(const KeyValues& from, int from_position, const KeyValues& to, int to_position) noexcept;

/// The key and the value of one position and head as the floats they stand for, [head_dim] each.
void read_position(const KeyValues& kv, int position, int head, float* key, float* value) noexcept;

}  // namespace draftproof
