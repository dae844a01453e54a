// SPDX-License-Identifier: MIT
#include "ref/caches/attention_cache.h"

#include <algorithm>
#include <cstdint>
#include <cstring>
#include <span>
#include <utility>
#include <vector>

#include "ref/base/require.h"

namespace draftproof {
namespace {

int blocks_of(int window, int capacity, int max_pending_rows) {
  // In 64 bits, because a window may be as large as the largest int.
  const std::int64_t sliding = std::int64_t{window} + std::min(max_pending_rows, capacity);
  const std::int64_t places =
      window == AttentionCache::everything ? capacity : std::min<std::int64_t>(capacity, sliding);
  return static_cast<int>((places + AttentionCache::block - 1) / AttentionCache::block);
}

}  // namespace

AttentionCache::AttentionCache(int kv_heads, int head_dim, int window, int capacity, int max_pending_rows,
                               KvFormat format, TurnBack turn_back, int latent, Ranks* ranks)
    : window_(window),
      capacity_(capacity),
      max_pending_rows_(max_pending_rows),
      kv_heads_(kv_heads),
      ranks_(ranks),
      held_(held_heads(kv_heads, kv_heads, ranks)),
      turn_back_(std::move(turn_back)) {
  REQUIRE(kv_heads >= 1 && head_dim >= 1, "a layer has heads and dimensions");
  REQUIRE(latent >= 0 && latent <= head_dim, "latent values are a part of a key");
  REQUIRE(latent == 0 || (head_dim - latent) % 2 == 0, "latent values lie behind an even number of others");
  REQUIRE(window >= 0, "a window is a number of positions, or `everything`");
  REQUIRE(capacity >= 1 && max_pending_rows >= 1, "a cache has room for at least one row");
  const int blocks = blocks_of(window, capacity, max_pending_rows);
  data_ = allocate_aligned(key_values_bytes(format, held_.kv_heads, head_dim, blocks, latent));
  kv_ = key_values_in(data_.get(), format, held_.kv_heads, head_dim, blocks, latent);
}

std::size_t AttentionCache::bytes_per_position(int kv_heads, int head_dim, KvFormat format, int latent) noexcept {
  return key_values_bytes(format, kv_heads, head_dim, 2, latent) / (2 * block);
}

const KeyValues& AttentionCache::claim_rows(int position, int rows) {
  for (int row = position; row < position + rows; ++row) {
    claim(row);
    REQUIRE(row < capacity_, "the text stays within the capacity of the layer");
    REQUIRE(row - settled() < max_pending_rows_, "no transaction has more rows than max_pending_rows");
  }
  return kv_;
}

AttentionCache::TreeRows AttentionCache::tree_rows(int rows) {
  const int blocks = (transaction_rows() + block - 1) / block;
  if (tree_positions_.empty() && tree_.blocks < blocks) {
    tree_data_ = allocate_aligned(key_values_bytes(kv_.format, kv_.kv_heads, kv_.head_dim, blocks, kv_.latent));
    tree_ = key_values_in(tree_data_.get(), kv_.format, kv_.kv_heads, kv_.head_dim, blocks, kv_.latent);
  }
  const int first = rows_of_tree();
  for (int position = written() - rows; position < written(); ++position) tree_positions_.push_back(position);
  REQUIRE(rows_of_tree() == pending_rows(), "every row of a transaction with a tree is a row of the tree");
  REQUIRE(rows_of_tree() <= transaction_rows(), "rows are written only inside the open transaction");
  return {tree_, first};
}

void AttentionCache::recall(int first, int rows) {
  REQUIRE(first >= 0 && rows >= 0 && first + rows <= rows_of_tree(), "only rows of the tree are stored again");
  for (int row = first; row < first + rows; ++row) {
    copy_position(tree_, row, kv_, tree_positions_[static_cast<std::size_t>(row)]);
  }
}

void AttentionCache::on_open() { tree_positions_.clear(); }

void AttentionCache::restore(int row, int position) {
  REQUIRE(row < rows_of_tree(), "a path is kept of rows of a tree");
  copy_position(tree_, row, kv_, position);
}

int AttentionCache::first_visible(int position) const noexcept {
  return window_ == everything ? 0 : std::max(0, position - window_ + 1);
}

std::string AttentionCache::layout() const {
  const std::string kind =
      window_ == everything ? "full attention" : "sliding window of " + std::to_string(window_) + " positions";
  return kind + ", " + std::to_string(kv_heads_) + " KV heads of " + std::to_string(kv_.head_dim) + " dimensions" +
         (kv_.latent != 0 ? ", " + std::to_string(kv_.latent) + " of them the value," : "") + " in " +
         traits(kv_.format).name;
}

int AttentionCache::first_stored(int length) const noexcept {
  return window_ == everything || length <= window_ ? 0 : first_visible(length);
}

bool AttentionCache::may_truncate() const { return window_ == everything || settled() <= window_; }

std::size_t AttentionCache::head_bytes() const noexcept {
  return packed_position_bytes(kv_.format, 1, kv_.head_dim, kv_.latent);
}

LayerSnapshotPtr AttentionCache::snapshot(int from) const {
  const int to = settled();
  if (to <= from || to == 0) return nullptr;
  LayerSnapshot copy{.layout = layout(), .from = std::max(0, from), .to = to};
  if (window_ != everything) {
    copy.form = LayerSnapshot::Form::state;
    copy.from = first_stored(to);
    copy.shortest = may_truncate() ? 0 : to;
  }
  const int rows = to - copy.from;
  const std::size_t position_bytes = head_bytes() * static_cast<unsigned>(kv_heads_);
  copy.data.resize(position_bytes * static_cast<unsigned>(rows));
  if (ranks_ == nullptr) {
    pack_positions(kv_, copy.from, rows, copy.data.data());
  } else {
    const std::size_t held_bytes = head_bytes() * static_cast<unsigned>(held_.kv_heads);
    std::vector<std::byte> held(held_bytes * static_cast<unsigned>(rows));
    pack_positions(kv_, copy.from, rows, held.data());
    std::byte* to_held = copy.data.data() + head_bytes() * static_cast<unsigned>(held_.kv_first);
    for (std::size_t at = 0; at < held.size(); at += held_bytes, to_held += position_bytes) {
      std::memcpy(to_held, held.data() + at, held_bytes);
    }
    ranks_->exchange(copy.data.data(), head_bytes(), rows, kv_heads_, kv_head_bounds(kv_heads_, *ranks_));
  }
  return std::make_shared<LayerSnapshot>(std::move(copy));
}

bool AttentionCache::fits(const LayerSnapshot& snapshot) const {
  if (snapshot.layout != layout() || snapshot.from < 0 || snapshot.to < snapshot.from || snapshot.to == 0) return false;
  const std::size_t position_bytes = head_bytes() * static_cast<unsigned>(kv_heads_);
  const auto rows = static_cast<unsigned>(snapshot.to - snapshot.from);
  if (snapshot.data.size() % position_bytes != 0 || snapshot.data.size() / position_bytes != rows) return false;
  if (window_ == everything) {
    return snapshot.form == LayerSnapshot::Form::rows && rows > 0 && snapshot.shortest == 0;
  }
  const bool whole = snapshot.to <= window_;
  return snapshot.form == LayerSnapshot::Form::state && snapshot.from == first_stored(snapshot.to) &&
         snapshot.shortest == (whole ? 0 : snapshot.to);
}

void AttentionCache::load(const LayerSnapshot& snapshot, int length) {
  REQUIRE(length <= capacity_, "the text stays within the capacity of the layer");
  if (length <= snapshot.from) return;
  const int rows = length - snapshot.from;
  if (ranks_ == nullptr) {
    unpack_positions(snapshot.data.data(), kv_, snapshot.from, rows);
    return;
  }
  const std::size_t position_bytes = head_bytes() * static_cast<unsigned>(kv_heads_);
  const std::size_t held_bytes = head_bytes() * static_cast<unsigned>(held_.kv_heads);
  std::vector<std::byte> held(held_bytes * static_cast<unsigned>(rows));
  const std::byte* of_held = snapshot.data.data() + head_bytes() * static_cast<unsigned>(held_.kv_first);
  for (std::size_t at = 0; at < held.size(); at += held_bytes, of_held += position_bytes) {
    std::memcpy(held.data() + at, of_held, held_bytes);
  }
  unpack_positions(held.data(), kv_, snapshot.from, rows);
}

std::string AttentionCache::discard_error(int length, int from, int count) const {
  // The first position that must be there afterwards, and where its row is now.
  const int first = first_stored(length - count);
  const int source = first < from ? first : first + count;
  if (source >= length || source >= first_stored(length)) return "";
  return "has a sliding window of " + std::to_string(window_) + " positions and no longer keeps position " +
         std::to_string(source) + " of " + std::to_string(length);
}

void AttentionCache::on_discard(int from, int count) {
  const int end = settled() - count;
  const std::size_t position_bytes = packed_position_bytes(kv_.format, kv_.kv_heads, kv_.head_dim, kv_.latent);
  const auto key_floats = static_cast<std::size_t>(kv_.kv_heads) * static_cast<unsigned>(kv_.head_dim);
  std::vector<float> value(static_cast<std::size_t>(kv_.head_dim));
  std::vector<float> keys;
  std::vector<std::byte> packed;
  int rows = 0;
  for (int first = std::max(from, first_stored(end)); first < end; first += rows) {
    // Storing marks whole KV blocks as not written yet, so a part ends with a KV block. In the ring of a sliding window
    // any place may be that of a row still to be moved; there all rows, which are few, are one part.
    rows = end - first;
    if (window_ == everything) rows = std::min(rows, 16 * block - first % block);
    packed.resize(static_cast<std::size_t>(rows) * position_bytes);
    keys.resize(static_cast<std::size_t>(rows) * key_floats);
    pack_positions(kv_, first + count, rows, packed.data());
    for (int row = 0; row < rows; ++row) {
      for (int head = 0; head < kv_.kv_heads; ++head) {
        read_position(kv_, first + count + row, head, keys.data() + row * key_floats + head * kv_.head_dim,
                      value.data());
      }
    }
    unpack_positions(packed.data(), kv_, first, rows);
    if (!turn_back_) continue;
    turn_back_(keys.data(), rows * kv_.kv_heads, count);
    store_keys(kv_, first, rows, keys.data());
  }
}

void AttentionCache::add_to(Digest& digest, int length) const {
  const auto dims = static_cast<std::size_t>(kv_.head_dim);
  const std::size_t stored = kv_.latent != 0 ? dims : 2 * dims;
  const auto heads = static_cast<std::size_t>(kv_heads_);
  std::vector<float> rows(2 * dims * heads * block);  // of one head after the other, of some positions
  for (int first = first_visible(length); first < length; first += block) {
    const int count = std::min(block, length - first);
    for (int position = 0; position < count; ++position) {
      float* row = rows.data() + (static_cast<std::size_t>(position) * heads + held_.kv_first) * 2 * dims;
      for (int head = 0; head < kv_.kv_heads; ++head, row += 2 * dims) {
        read_position(kv_, first + position, head, row, row + dims);
      }
    }
    if (ranks_ != nullptr) {
      ranks_->exchange(rows.data(), 2 * dims * sizeof(float), count, kv_heads_, kv_head_bounds(kv_heads_, *ranks_));
    }
    for (std::size_t head = 0; head < heads * static_cast<std::size_t>(count); ++head) {
      digest.add(std::span<const float>(rows).subspan(head * 2 * dims, stored));
    }
  }
}

}  // namespace draftproof
