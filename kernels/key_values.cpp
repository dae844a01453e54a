// SPDX-License-Identifier: MIT
#include "kernels/key_values.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <limits>
#include <type_traits>

#include "kernels/formats.h"
#include "kernels/widths.h"

namespace draftproof {
namespace {

constexpr int lanes = 16;  // positions per KV block
constexpr std::size_t alignment = 64;
constexpr float nan = std::numeric_limits<float>::quiet_NaN();

/// Rows are converted in chunks of this many values, on the stack.
constexpr int chunk = 128;

std::size_t aligned_size(std::size_t bytes) { return (bytes + alignment - 1) / alignment * alignment; }

int even(int number) { return (number + 1) / 2 * 2; }

/// Byte offsets of the four arrays (the keys begin at 0), and their size together.
struct BlockLayout {
  std::size_t values;
  std::size_t key_scales;
  std::size_t value_scales;
  std::size_t end;
};

BlockLayout layout_of(KvFormat format, int kv_heads, int head_dim, int blocks, int latent) {
  const std::size_t positions =
      std::size_t{lanes} * static_cast<unsigned>(kv_heads) * static_cast<unsigned>(even(blocks));
  const std::size_t bytes = static_cast<unsigned>(traits(format).value_bytes);
  const int key_width = format == KvFormat::bf16 ? even(head_dim) : head_dim;
  const std::size_t scales = format == KvFormat::q8 ? positions * sizeof(float) : 0;
  BlockLayout layout{};
  layout.values = aligned_size(positions * static_cast<unsigned>(key_width) * bytes);
  const int width = latent != 0 ? 0 : value_width(head_dim);
  layout.key_scales = layout.values + aligned_size(positions * static_cast<unsigned>(width) * bytes);
  layout.value_scales = layout.key_scales + (latent != 0 ? 0 : scales);
  layout.end = layout.value_scales + scales;
  return layout;
}

/// Converts x to the stored type. `inverse` is 127 / a of q8.
float stored(float x, float, float*) {
  return std::fabs(x) < std::numeric_limits<float>::min() ? std::copysign(0.0F, x) : x;
}
std::uint16_t stored(float x, float, std::uint16_t*) { return bf16_factor(f32_to_bf16(x)); }
std::int8_t stored(float x, float inverse, std::int8_t*) {
  constexpr float shift = 0x1.8p+23F;  // adding it rounds to an integer, ties to even
  return static_cast<std::int8_t>(static_cast<std::int32_t>((x * inverse + shift) - shift));
}

float widened(float x) { return x; }
float widened(std::uint16_t x) { return bf16_to_f32(x); }
float widened(std::int8_t x) { return x; }

/// The value that marks a lane as never written.
constexpr float unwritten(float) { return nan; }
constexpr std::uint16_t unwritten(std::uint16_t) { return 0x7fc0; }
constexpr std::int8_t unwritten(std::int8_t) { return -128; }

/// The scale d of a q8 vector and its inverse; both are 0 for a vector of zeros. With d = NaN every q is 0.
struct Scale {
  float d;
  float inverse;
};

Scale scale_of(const float* x, int count) {
  float max = 0;
  bool finite = true;
  for (int i = 0; i < count; ++i) {
    const float size = std::fabs(x[i]);
    finite &= size <= std::numeric_limits<float>::max();
    max = size > max ? size : max;
  }
  if (!finite) return {nan, 0};
  if (max < 0x1p-100F) return {0, 0};
  return {max / 127.0F, 127.0F / max};
}

DRAFTPROOF_FOR_EACH_WIDTH void convert(const float* x, int count, float inverse, float* to) {
  for (int i = 0; i < count; ++i) to[i] = stored(x[i], inverse, to);
}
DRAFTPROOF_FOR_EACH_WIDTH void convert(const float* x, int count, float inverse, std::uint16_t* to) {
  for (int i = 0; i < count; ++i) to[i] = stored(x[i], inverse, to);
}
DRAFTPROOF_FOR_EACH_WIDTH void convert(const float* x, int count, float inverse, std::int8_t* to) {
  for (int i = 0; i < count; ++i) to[i] = stored(x[i], inverse, to);
}

/// Converts x [count], at most `chunk` of them. When d is NaN it writes zeros: x * inverse may be NaN then, which
/// cannot be converted to an integer.
template <class Stored>
void convert(const float* x, int count, Scale scale, Stored* to) {
  if (scale.d == scale.d) {
    convert(x, count, scale.inverse, to);
  } else {
    std::fill_n(to, count, Stored{});
  }
}

/// A place in the ring: a slot of a KV block and a lane of it.
struct Place {
  std::ptrdiff_t slot;
  int lane;
};

template <class Stored>
class LayerView {
 public:
  explicit LayerView(const KeyValues& kv) : kv_(kv) {}

  /// Fetches the cache lines that store() writes to: while they are waited for one by one, nothing else is done.
  void fetch(int head, int position, int rows) const {
    const Place place = place_of(position);
    for (int d = 0; d < kv_.head_dim; d += line / lanes) __builtin_prefetch(key(head, place, d), 1);
    if (kv_.latent != 0) return;
    for (int row = 0; row < rows; row += value_step) {
      const Place at = {place.slot, place.lane + row};
      for (int d = 0; d < kv_.head_dim; d += line / value_step) __builtin_prefetch(value(head, at, d), 1);
    }
  }

  /// Stores `rows` rows, whose keys and values are `stride` floats apart, in the KV block of `position`.
  void store(int head, int position, int rows, const float* keys, const float* values, std::ptrdiff_t stride) const {
    begin_block(head, position);
    store_keys(head, position, rows, keys, stride);
    if (kv_.latent != 0) return;
    const Place place = place_of(position);
    Scale scales[lanes];
    find_scales(values, stride, rows, scaled ? kv_.value_scales + scale_at(head, place) : nullptr, scales);
    Stored converted[lanes][chunk];
    for (int begin = 0; begin < kv_.head_dim; begin += chunk) {
      const int count = std::min(chunk, kv_.head_dim - begin);
      for (int row = 0; row < rows; ++row) {
        convert(values + row * stride + begin, count, scales[row], converted[row]);
      }
      for (int i = 0; i < count; i += lanes) {
        const int some = std::min(lanes, count - i);
        for (int row = 0; row < rows; ++row) {
          const Place at = {place.slot, place.lane + row};
          Stored* const to = value(head, at, begin + i);
          const Stored* const one = converted[row] + i;
          if (in_pairs && at.lane % 2 == 0 && row + 1 < rows) {  // both of a pair, side by side
            const Stored* const other = converted[++row] + i;
            for (int j = 0; j < some; ++j) {
              to[2 * j] = one[j];
              to[2 * j + 1] = other[j];
            }
          } else {
            for (int j = 0; j < some; ++j) to[j * value_step] = one[j];
          }
        }
      }
    }
  }

  /// The same for keys alone.
  void store_keys(int head, int position, int rows, const float* keys, std::ptrdiff_t stride) const {
    const Place place = place_of(position);
    Scale scales[lanes];
    find_scales(keys, stride, rows, scaled ? kv_.key_scales + scale_at(head, place) : nullptr, scales);
    Stored converted[lanes][chunk];
    for (int begin = 0; begin < kv_.head_dim; begin += chunk) {
      const int count = std::min(chunk, kv_.head_dim - begin);
      for (int row = 0; row < rows; ++row) {
        convert(keys + row * stride + begin, count, scales[row], converted[row]);
      }
      Stored* const to = key(head, place, begin);
      constexpr int step = in_pairs ? 2 : 1;  // dimensions that are side by side
      int d = 0;
      for (; d + step <= count; d += step) {
        for (int row = 0; row < rows; ++row) {
          std::memcpy(to + d * lanes + row * step, converted[row] + d, step * sizeof(Stored));
        }
      }
      for (int row = 0; d < count && row < rows; ++row) to[d * lanes + row * step] = converted[row][d];
    }
  }

  void read(int head, int position, float* key, float* value) const {
    const Place place = place_of(position);
    const float key_scale = scaled ? kv_.key_scales[scale_at(head, place)] : 1;
    const float value_scale = scaled ? kv_.value_scales[scale_at(head, place)] : 1;
    for (int d = 0; d < kv_.head_dim; ++d) key[d] = widened(*this->key(head, place, d)) * key_scale;
    if (kv_.latent != 0) {
      std::copy_n(key + kv_.head_dim - kv_.latent, kv_.latent, value);
      return;
    }
    for (int d = 0; d < kv_.head_dim; ++d) value[d] = widened(*this->value(head, place, d)) * value_scale;
  }

  void copy(int head, int position, const LayerView& to, int to_position) const {
    const Place place = place_of(position);
    const Place to_place = to.place_of(to_position);
    for (int d = 0; d < kv_.head_dim; ++d) *to.key(head, to_place, d) = *key(head, place, d);
    for (int d = 0; d < own_values(); ++d) *to.value(head, to_place, d) = *value(head, place, d);
    if (!scaled) return;
    to.kv_.key_scales[to.scale_at(head, to_place)] = kv_.key_scales[scale_at(head, place)];
    to.kv_.value_scales[to.scale_at(head, to_place)] = kv_.value_scales[scale_at(head, place)];
  }

  void pack(int head, int position, std::byte* packed) const {
    const Place place = place_of(position);
    for (int d = 0; d < kv_.head_dim; ++d) packed = put(packed, key(head, place, d));
    for (int d = 0; d < own_values(); ++d) packed = put(packed, value(head, place, d));
    if (!scaled) return;
    packed = put(packed, kv_.key_scales + scale_at(head, place));
    if (kv_.latent == 0) put(packed, kv_.value_scales + scale_at(head, place));
  }

  void unpack(const std::byte* packed, int head, int position) const {
    const Place place = place_of(position);
    begin_block(head, position);
    for (int d = 0; d < kv_.head_dim; ++d) packed = take(packed, key(head, place, d));
    for (int d = 0; d < own_values(); ++d) packed = take(packed, value(head, place, d));
    if (!scaled) return;
    packed = take(packed, kv_.key_scales + scale_at(head, place));
    if (kv_.latent == 0) take(packed, kv_.value_scales + scale_at(head, place));
  }

 private:
  static constexpr int line = 64 / static_cast<int>(sizeof(Stored));  // values of a cache line
  static constexpr bool scaled = std::is_same_v<Stored, std::int8_t>;
  static constexpr bool in_pairs = std::is_same_v<Stored, std::uint16_t>;
  static constexpr int value_step = in_pairs ? 2 : 1;  // from one of 16 dimensions to the next

  // Packed bytes have no alignment. Both return the place after the last byte.
  template <class T>
  static std::byte* put(std::byte* packed, const T* from) {
    std::memcpy(packed, from, sizeof(T));
    return packed + sizeof(T);
  }
  template <class T>
  static const std::byte* take(const std::byte* packed, T* to) {
    std::memcpy(to, packed, sizeof(T));
    return packed + sizeof(T);
  }

  /// Finds the scale of each row and writes it to `to`; not scaled formats have none.
  void find_scales(const float* x, std::ptrdiff_t stride, int rows, float* to, Scale (&scales)[lanes]) const {
    for (int row = 0; row < rows; ++row) {
      scales[row] = scaled ? scale_of(x + row * stride, kv_.head_dim) : Scale{};
      if (scaled) to[row] = scales[row].d;
    }
  }

  /// The dimensions that are stored for values alone.
  int own_values() const { return kv_.latent != 0 ? 0 : kv_.head_dim; }

  Place place_of(int position) const { return {position / lanes % kv_.blocks, position % lanes}; }
  std::ptrdiff_t block_at(int head, Place place) const { return std::ptrdiff_t{head} * kv_.blocks + place.slot; }
  std::ptrdiff_t scale_at(int head, Place place) const { return block_at(head, place) * lanes + place.lane; }

  Stored* key(int head, Place place, int d) const {
    const std::ptrdiff_t block = block_at(head, place);
    auto* const keys = static_cast<Stored*>(kv_.keys);
    if (!in_pairs) return keys + (block * kv_.head_dim + d) * lanes + place.lane;
    return keys + (block * (even(kv_.head_dim) / 2) + d / 2) * (2 * lanes) + 2 * place.lane + d % 2;
  }
  Stored* value(int head, Place place, int d) const {
    const int width = value_width(kv_.head_dim);
    auto* const values = static_cast<Stored*>(kv_.values);
    if (!in_pairs) return values + (block_at(head, place) * lanes + place.lane) * width + d;
    const std::ptrdiff_t panel = std::ptrdiff_t{head} * (width / lanes) + d / lanes;
    const std::ptrdiff_t pair = (panel * kv_.blocks + place.slot) * (lanes / 2) + place.lane / 2;
    return values + pair * (2 * lanes) + 2 * (d % lanes) + place.lane % 2;
  }

  /// Called before `position` is written.
  void begin_block(int head, int position) const {
    if (position % lanes != 0 || position / lanes >= kv_.blocks) return;
    const Place place = place_of(position);
    const int width = value_width(own_values());
    std::fill_n(key(head, place, 0), lanes * (in_pairs ? even(kv_.head_dim) : kv_.head_dim), unwritten(Stored{}));
    const int together = in_pairs ? lanes : width;  // dimensions whose values in this block are side by side
    for (int d = 0; d < width; d += together) {
      std::fill_n(value(head, place, d), lanes * together, unwritten(Stored{}));
    }
    if (!scaled) return;
    std::fill_n(kv_.key_scales + scale_at(head, place), lanes, nan);
    std::fill_n(kv_.value_scales + scale_at(head, place), lanes, nan);
  }

  const KeyValues& kv_;
};

template <class Function>
void with_layer(const KeyValues& kv, const Function& function) {
  switch (kv.format) {
    case KvFormat::f32: return function(LayerView<float>(kv));
    case KvFormat::bf16: return function(LayerView<std::uint16_t>(kv));
    case KvFormat::q8: return function(LayerView<std::int8_t>(kv));
  }
}

/// Calls use(row, count) for the parts of `rows` rows from `position` on that lie in one KV block each.
template <class Function>
void for_each_block(int position, int rows, const Function& use) {
  for (int row = 0; row < rows;) {
    const int count = std::min(rows - row, lanes - (position + row) % lanes);
    use(row, count);
    row += count;
  }
}

}  // namespace

std::size_t key_values_bytes(KvFormat format, int kv_heads, int head_dim, int blocks, int latent) noexcept {
  return layout_of(format, kv_heads, head_dim, blocks, latent).end;
}

KeyValues key_values_in(void* memory, KvFormat format, int kv_heads, int head_dim, int blocks, int latent) noexcept {
  const BlockLayout layout = layout_of(format, kv_heads, head_dim, blocks, latent);
  auto* const bytes = static_cast<std::byte*>(memory);
  const bool scaled = format == KvFormat::q8;
  return {
      .format = format,
      .kv_heads = kv_heads,
      .head_dim = head_dim,
      .latent = latent,
      .blocks = even(blocks),
      .keys = bytes,
      .values = latent != 0 ? nullptr : bytes + layout.values,
      .key_scales = scaled ? reinterpret_cast<float*>(bytes + layout.key_scales) : nullptr,
      .value_scales = scaled ? reinterpret_cast<float*>(bytes + layout.value_scales) : nullptr,
  };
}

void store_positions(const KeyValues& kv, int position, int rows, const float* keys, const float* values,
                     std::ptrdiff_t stride, int begin, int end) noexcept {
  with_layer(kv, [&](const auto& layer) {
    for_each_block(position, rows, [&](int row, int count) { layer.fetch(begin, position + row, count); });
    for (int head = begin; head < end; ++head) {
      const std::ptrdiff_t first = static_cast<std::ptrdiff_t>(head) * kv.head_dim;
      for_each_block(position, rows, [&](int row, int count) {
        if (head + 1 < end) layer.fetch(head + 1, position + row, count);
        const std::ptrdiff_t at = row * stride + first;
        layer.store(head, position + row, count, keys + at, kv.latent != 0 ? nullptr : values + at, stride);
      });
    }
  });
}

void store_keys(const KeyValues& kv, int position, int rows, const float* keys) noexcept {
  const std::ptrdiff_t stride = static_cast<std::ptrdiff_t>(kv.kv_heads) * kv.head_dim;
  with_layer(kv, [&](const auto& layer) {
    for (int head = 0; head < kv.kv_heads; ++head) {
      const std::ptrdiff_t first = static_cast<std::ptrdiff_t>(head) * kv.head_dim;
      for_each_block(position, rows, [&](int row, int count) {
        layer.store_keys(head, position + row, count, keys + row * stride + first, stride);
      });
    }
  });
}

void copy_position(const KeyValues& from, int from_position, const KeyValues& to, int to_position) noexcept {
  with_layer(from, [&](const auto& layer) {
    const std::decay_t<decltype(layer)> target(to);
    for (int head = 0; head < from.kv_heads; ++head) layer.copy(head, from_position, target, to_position);
  });
}

std::size_t packed_position_bytes(KvFormat format, int kv_heads, int head_dim, int latent) noexcept {
  const unsigned each = latent != 0 ? 1 : 2;
  const std::size_t scales = format == KvFormat::q8 ? each * sizeof(float) : 0;
  const std::size_t vectors = std::size_t{each} * static_cast<unsigned>(head_dim);
  return static_cast<unsigned>(kv_heads) * (vectors * static_cast<unsigned>(traits(format).value_bytes) + scales);
}

void pack_positions(const KeyValues& kv, int position, int rows, std::byte* packed) noexcept {
  const std::size_t head_bytes = packed_position_bytes(kv.format, 1, kv.head_dim, kv.latent);
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
  const std::size_t head_bytes = packed_position_bytes(kv.format, 1, kv.head_dim, kv.latent);
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
