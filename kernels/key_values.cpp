// SPDX-License-Identifier: MIT
#include "kernels/key_values.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <limits>

#include "kernels/formats.h"

namespace draftproof {
namespace {

constexpr int lanes = 16;  // positions per KV block
constexpr std::size_t alignment = 64;
constexpr float nan = std::numeric_limits<float>::quiet_NaN();

/// Rows are converted in chunks of this many values, on the stack.
constexpr int chunk = 256;

std::size_t aligned_size(std::size_t bytes) { return (bytes + alignment - 1) / alignment * alignment; }

/// Byte offsets of the four arrays (the keys begin at 0), and their size together.
struct Layout {
  std::size_t values;
  std::size_t key_scales;
  std::size_t value_scales;
  std::size_t end;
};

Layout layout_of(KvFormat format, int kv_heads, int head_dim, int blocks) {
  const std::size_t positions = std::size_t{lanes} * static_cast<unsigned>(kv_heads) * static_cast<unsigned>(blocks);
  const std::size_t bytes = static_cast<unsigned>(traits(format).value_bytes);
  const std::size_t scales = format == KvFormat::q8 ? positions * sizeof(float) : 0;
  Layout layout{};
  layout.values = aligned_size(positions * static_cast<unsigned>(head_dim) * bytes);
  layout.key_scales = layout.values + aligned_size(positions * static_cast<unsigned>(value_width(head_dim)) * bytes);
  layout.value_scales = layout.key_scales + scales;
  layout.end = layout.value_scales + scales;
  return layout;
}

/// Converts x to the stored type. `inverse` is 127 / a of q8.
float stored(float x, float, float*) {
  return std::fabs(x) < std::numeric_limits<float>::min() ? std::copysign(0.0F, x) : x;
}
std::uint16_t stored(float x, float, std::uint16_t*) {
  const std::uint16_t word = f32_to_bf16(x);
  return (word & 0x7f80U) == 0 ? static_cast<std::uint16_t>(word & 0x8000U) : word;
}
std::int8_t stored(float x, float inverse, std::int8_t*) {
  constexpr float shift = 0x1.8p+23F;  // adding it rounds to an integer, ties to even
  return static_cast<std::int8_t>(static_cast<std::int32_t>((x * inverse + shift) - shift));
}

float widened(float x) { return x; }
float widened(std::uint16_t x) { return bf16_to_f32(x); }
float widened(std::int8_t x) { return x; }

/// Set x to the value that marks a lane as never written.
void mark_unwritten(float& x) { x = nan; }
void mark_unwritten(std::uint16_t& x) { x = 0x7fc0; }
void mark_unwritten(std::int8_t& x) { x = -128; }

/// The scale d of a q8 vector and its inverse; both are 0 for a vector of zeros. With d = NaN every q is 0.
struct Scale {
  float d;
  float inverse;
};

Scale scale_of(const float* x, int count) {
  float most = 0;
  bool finite = true;
  for (int i = 0; i < count; ++i) {
    const float size = std::fabs(x[i]);
    finite &= size <= std::numeric_limits<float>::max();
    most = size > most ? size : most;
  }
  if (!finite) return {nan, 0};
  if (most < 0x1p-100F) return {0, 0};
  return {most / 127.0F, 127.0F / most};
}

/// Stores x [count] with the given stride in `to`. When d is NaN it stores zeros: x * inverse may be NaN then, which
/// cannot be converted to an integer.
template <class Stored>
void store_vector(const float* x, int count, Scale scale, Stored* to, std::ptrdiff_t stride) {
  Stored row[chunk];
  for (int begin = 0; begin < count; begin += chunk) {
    const int length = std::min(chunk, count - begin);
    if (scale.d == scale.d) {
      for (int i = 0; i < length; ++i) row[i] = stored(x[begin + i], scale.inverse, row);
    } else {
      std::fill_n(row, length, Stored{});
    }
    for (int i = 0; i < length; ++i) to[(begin + i) * stride] = row[i];
  }
}

template <class Stored>
class Layer {
 public:
  explicit Layer(const KeyValues& kv) : kv_(kv) {}

  void store(int head, int position, const float* key, const float* value) const {
    const std::ptrdiff_t block = block_of(head, position);
    const int lane = position % lanes;
    begin_block(block, position);
    store_key(head, position, key);
    Scale scale{};
    if (kv_.format == KvFormat::q8) {
      scale = scale_of(value, kv_.head_dim);
      kv_.value_scales[block * lanes + lane] = scale.d;
    }
    store_vector(value, kv_.head_dim, scale, values(block, lane), 1);
  }

  void store_key(int head, int position, const float* key) const {
    const std::ptrdiff_t block = block_of(head, position);
    const int lane = position % lanes;
    Scale scale{};
    if (kv_.format == KvFormat::q8) {
      scale = scale_of(key, kv_.head_dim);
      kv_.key_scales[block * lanes + lane] = scale.d;
    }
    store_vector(key, kv_.head_dim, scale, keys(block) + lane, lanes);
  }

  void read(int head, int position, float* key, float* value) const {
    const std::ptrdiff_t block = block_of(head, position);
    const int lane = position % lanes;
    const bool scaled = kv_.format == KvFormat::q8;
    const float key_scale = scaled ? kv_.key_scales[block * lanes + lane] : 1;
    const float value_scale = scaled ? kv_.value_scales[block * lanes + lane] : 1;
    for (int d = 0; d < kv_.head_dim; ++d) {
      key[d] = widened(keys(block)[d * lanes + lane]) * key_scale;
      value[d] = widened(values(block, lane)[d]) * value_scale;
    }
  }

  void copy(int head, int position, const Layer& to, int to_position) const {
    const std::ptrdiff_t block = block_of(head, position);
    const std::ptrdiff_t to_block = to.block_of(head, to_position);
    const int lane = position % lanes;
    const int to_lane = to_position % lanes;
    for (int d = 0; d < kv_.head_dim; ++d) to.keys(to_block)[d * lanes + to_lane] = keys(block)[d * lanes + lane];
    std::copy_n(values(block, lane), kv_.head_dim, to.values(to_block, to_lane));
    if (kv_.format != KvFormat::q8) return;
    to.kv_.key_scales[to_block * lanes + to_lane] = kv_.key_scales[block * lanes + lane];
    to.kv_.value_scales[to_block * lanes + to_lane] = kv_.value_scales[block * lanes + lane];
  }

  void pack(int head, int position, std::byte* packed) const {
    const std::ptrdiff_t block = block_of(head, position);
    const int lane = position % lanes;
    for (int d = 0; d < kv_.head_dim; ++d) packed = put(packed, &keys(block)[d * lanes + lane], 1);
    packed = put(packed, values(block, lane), kv_.head_dim);
    if (kv_.format != KvFormat::q8) return;
    packed = put(packed, kv_.key_scales + block * lanes + lane, 1);
    put(packed, kv_.value_scales + block * lanes + lane, 1);
  }

  void unpack(const std::byte* packed, int head, int position) const {
    const std::ptrdiff_t block = block_of(head, position);
    const int lane = position % lanes;
    begin_block(block, position);
    for (int d = 0; d < kv_.head_dim; ++d) packed = take(packed, &keys(block)[d * lanes + lane], 1);
    packed = take(packed, values(block, lane), kv_.head_dim);
    if (kv_.format != KvFormat::q8) return;
    packed = take(packed, kv_.key_scales + block * lanes + lane, 1);
    take(packed, kv_.value_scales + block * lanes + lane, 1);
  }

 private:
  // Packed bytes have no alignment. Both return the place after the last byte.
  template <class T>
  static std::byte* put(std::byte* packed, const T* from, int count) {
    std::memcpy(packed, from, static_cast<unsigned>(count) * sizeof(T));
    return packed + static_cast<unsigned>(count) * sizeof(T);
  }
  template <class T>
  static const std::byte* take(const std::byte* packed, T* to, int count) {
    std::memcpy(to, packed, static_cast<unsigned>(count) * sizeof(T));
    return packed + static_cast<unsigned>(count) * sizeof(T);
  }

  std::ptrdiff_t block_of(int head, int position) const {
    return static_cast<std::ptrdiff_t>(head) * kv_.blocks + position / lanes % kv_.blocks;
  }
  Stored* keys(std::ptrdiff_t block) const {
    return static_cast<Stored*>(kv_.keys) + block * lanes * kv_.head_dim;
  }
  Stored* values(std::ptrdiff_t block, int lane) const {
    return static_cast<Stored*>(kv_.values) + (block * lanes + lane) * value_width(kv_.head_dim);
  }
  /// Called before `position` is written.
  void begin_block(std::ptrdiff_t block, int position) const {
    if (position % lanes == 0 && position / lanes < kv_.blocks) mark_block_unwritten(block);
  }
  void mark_block_unwritten(std::ptrdiff_t block) const {
    const int width = value_width(kv_.head_dim);
    std::for_each_n(keys(block), lanes * kv_.head_dim, [](Stored& x) { mark_unwritten(x); });
    std::for_each_n(values(block, 0), lanes * width, [](Stored& x) { mark_unwritten(x); });
    if (kv_.format != KvFormat::q8) return;
    std::fill_n(kv_.key_scales + block * lanes, lanes, nan);
    std::fill_n(kv_.value_scales + block * lanes, lanes, nan);
  }

  const KeyValues& kv_;
};

template <class Function>
void with_layer(const KeyValues& kv, const Function& function) {
  switch (kv.format) {
    case KvFormat::f32: return function(Layer<float>(kv));
    case KvFormat::bf16: return function(Layer<std::uint16_t>(kv));
    case KvFormat::q8: return function(Layer<std::int8_t>(kv));
  }
}

}  // namespace

std::size_t key_values_bytes(KvFormat format, int kv_heads, int head_dim, int blocks) noexcept {
  return layout_of(format, kv_heads, head_dim, blocks).end;
}

KeyValues key_values_in(void* memory, KvFormat format, int kv_heads, int head_dim, int blocks) noexcept {
  const Layout layout = layout_of(format, kv_heads, head_dim, blocks);
  auto* const bytes = static_cast<std::byte*>(memory);
  const bool scaled = format == KvFormat::q8;
  return {
      .format = format,
      .kv_heads = kv_heads,
      .head_dim = head_dim,
      .blocks = blocks,
      .keys = bytes,
      .values = bytes + layout.values,
      .key_scales = scaled ? reinterpret_cast<float*>(bytes + layout.key_scales) : nullptr,
      .value_scales = scaled ? reinterpret_cast<float*>(bytes + layout.value_scales) : nullptr,
  };
}

void store_positions(const KeyValues& kv, int position, int rows, const float* keys, const float* values,
                     std::ptrdiff_t stride, int begin, int end) noexcept {
  with_layer(kv, [&](const auto& layer) {
    for (int head = begin; head < end; ++head) {
      const std::ptrdiff_t first = static_cast<std::ptrdiff_t>(head) * kv.head_dim;
      for (int row = 0; row < rows; ++row) {
        layer.store(head, position + row, keys + row * stride + first, values + row * stride + first);
      }
    }
  });
}

void store_keys(const KeyValues& kv, int position, int rows, const float* keys) noexcept {
  with_layer(kv, [&](const auto& layer) {
    for (int row = 0; row < rows; ++row) {
      for (int head = 0; head < kv.kv_heads; ++head, keys += kv.head_dim) layer.store_key(head, position + row, keys);
    }
  });
}

void copy_position(const KeyValues& from, int from_position, const KeyValues& to, int to_position) noexcept {
  with_layer(from, [&](const auto& layer) {
    const std::decay_t<decltype(layer)> target(to);
    for (int head = 0; head < from.kv_heads; ++head) layer.copy(head, from_position, target, to_position);
  });
}

std::size_t packed_position_bytes(KvFormat format, int kv_heads, int head_dim) noexcept {
  const std::size_t scales = format == KvFormat::q8 ? 2 * sizeof(float) : 0;
  const std::size_t vectors = std::size_t{2} * static_cast<unsigned>(head_dim);
  return static_cast<unsigned>(kv_heads) * (vectors * static_cast<unsigned>(traits(format).value_bytes) + scales);
}

void pack_positions(const KeyValues& kv, int position, int rows, std::byte* packed) noexcept {
  const std::size_t head_bytes = packed_position_bytes(kv.format, 1, kv.head_dim);
  const auto heads = static_cast<unsigned>(kv.kv_heads);
  with_layer(kv, [&](const auto& layer) {
    for (unsigned head = 0; head < heads; ++head) {
      std::byte* to = packed + head * head_bytes;
      for (int row = 0; row < rows; ++row, to += heads * head_bytes) {
        layer.pack(static_cast<int>(head), position + row, to);
      }
    }
  });
}

void unpack_positions(const std::byte* packed, const KeyValues& kv, int position, int rows) noexcept {
  const std::size_t head_bytes = packed_position_bytes(kv.format, 1, kv.head_dim);
  const auto heads = static_cast<unsigned>(kv.kv_heads);
  with_layer(kv, [&](const auto& layer) {
    for (unsigned head = 0; head < heads; ++head) {
      const std::byte* from = packed + head * head_bytes;
      for (int row = 0; row < rows; ++row, from += heads * head_bytes) {
        layer.unpack(from, static_cast<int>(head), position + row);
      }
    }
  });
}

void read_position(const KeyValues& kv, int position, int head, float* key, float* value) noexcept {
  with_layer(kv, [&](const auto& layer) { layer.read(head, position, key, value); });
}

}  // namespace draftproof
