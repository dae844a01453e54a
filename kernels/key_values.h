// SPDX-License-Identifier: MIT
// The memory layout of the KV cache of one attention layer, and functions that store and read its rows. Attention
// itself is an entry of the kernel table (kernels.h).
//
// Positions are stored in KV blocks of 16, and the KV blocks form a ring: position p is in slot (p / 16) % blocks, lane
// p % 16. The stored form of a vector (the key or the value of one position and kv head) depends on nothing but the
// vector and the format:
//
// f32: the floats; a denormal becomes a zero of its sign, because denormals would slow every multiplication on some
// CPUs. bf16: rounded to nearest, ties to even, and a zero of its sign below 2^-56, as factors of bf16 products are.
// q8: a scale d and bytes q; an element is q * d. Let a be the largest magnitude. If a < 2^-100, d and every q are 0.
// Otherwise d = a / 127 and q = x * (127 / a), to nearest, ties to even. A vector that contains an infinity or a NaN
// has d = NaN.
//
// Latent keys end with their value, which is then stored nowhere else: a layer of multi-head latent attention keeps one
// vector per position. In q8 such a value has the scale of its key.
//
// The keys of a KV block, and the values of all of them, are bf16 weights in panels of canonical.h: keys have 16
// positions as outputs and the dimensions as inputs, values 16 dimensions as outputs and the positions as inputs.
//
// Only plain data and declarations, because the instruction-set files include this header.
#pragma once

#include <cstddef>
#include <cstdint>

namespace draftproof {

enum class KvFormat : std::uint8_t { f32, bf16, q8 };
inline constexpr int kv_formats = 3;

struct KvTraits {
  const char* name;  // as in --kv
  int value_bytes;
};
inline constexpr KvTraits kv_traits[kv_formats] = {{"f32", 4}, {"bf16", 2}, {"q8", 1}};

static inline constexpr const KvTraits& traits(KvFormat format) { return kv_traits[static_cast<int>(format)]; }

/// Returns the stride of a row of values: head_dim rounded up to a multiple of 16.
static inline constexpr int value_width(int head_dim) { return (head_dim + 15) / 16 * 16; }

struct KeyValues {
  KvFormat format;
  int kv_heads;
  int head_dim;
  int latent;           // values at the end of a key that are its value; 0: values are stored of their own
  int blocks;           // KV blocks per kv head, an even number
  void* keys;           // [kv_heads][blocks][head_dim][16]; bf16: [kv_heads][blocks][head_dim / 2, rounded up][16][2]
  void* values;         // [kv_heads][blocks][16][width]; bf16: [kv_heads][width / 16][blocks * 8][16][2]; latent: none
  float* key_scales;    // [kv_heads][blocks][16]; q8 only
  float* value_scales;  // the same; latent: those of the keys
};

/// Returns the dimensions of a value.
static inline constexpr int value_dim(int head_dim, int latent) { return latent != 0 ? latent : head_dim; }

/// Returns the bytes of the keys, values and scales of one layer together. An odd number of blocks becomes even, here
/// and in key_values_in, so that 32 positions from a multiple of 32 follow each other in the ring.
std::size_t key_values_bytes(KvFormat format, int kv_heads, int head_dim, int blocks, int latent = 0) noexcept;
/// Returns the arrays of one layer within `memory`, which has key_values_bytes() bytes and is 64-byte aligned.
KeyValues key_values_in(void* memory, KvFormat format, int kv_heads, int head_dim, int blocks, int latent = 0) noexcept;

/// Stores kv heads [begin, end) of positions [position, position + rows). keys and values: [rows][stride], each row is
/// [kv_heads][head_dim]; values of latent keys are not read. Storing lane 0 of a KV block of the first lap of the ring
/// first fills that block with NaN, so that reading a position that was never written shows. Different heads may be
/// stored concurrently.
void store_positions(const KeyValues& kv, int position, int rows, const float* keys, const float* values,
                     std::ptrdiff_t stride, int begin, int end) noexcept;

/// Stores the keys [rows][kv_heads][head_dim] of positions [position, position + rows), all kv heads, in place of those
/// that are stored there; their values stay.
void store_keys(const KeyValues& kv, int position, int rows, const float* keys) noexcept;

/// Copies the stored bits of position `from_position` to position `to_position` of another layer with the same format,
/// heads and dimensions, for all kv heads.
void copy_position(const KeyValues& from, int from_position, const KeyValues& to, int to_position) noexcept;

/// Returns the bytes of one position outside of the KV blocks: for each kv head the stored key [head_dim], the stored
/// value [head_dim] and, in q8, the two scales; without the value and its scale where keys are latent.
std::size_t packed_position_bytes(KvFormat format, int kv_heads, int head_dim, int latent = 0) noexcept;
/// Copies the stored bits of positions [position, position + rows) to `packed` [rows][packed_position_bytes].
void pack_positions(const KeyValues& kv, int position, int rows, std::byte* packed) noexcept;
/// The inverse. Marks KV blocks as never written where store_positions does.
void unpack_positions(const std::byte* packed, const KeyValues& kv, int position, int rows) noexcept;

/// Reads the key [head_dim] and the value [value_dim] of one position and head, dequantized to floats.
void read_position(const KeyValues& kv, int position, int head, float* key, float* value) noexcept;

}  // namespace draftproof
