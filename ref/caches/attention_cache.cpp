// SPDX-License-Identifier: MIT
#include "ref/caches/attention_cache.h"

#include <algorithm>
#include <cstdint>
#include <span>
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
                               KvFormat format)
    : window_(window), capacity_(capacity), max_pending_rows_(max_pending_rows) {
  REQUIRE(kv_heads >= 1 && head_dim >= 1, "a layer has heads and dimensions");
  REQUIRE(window >= 0, "a window is a number of positions, or `everything`");
  REQUIRE(capacity >= 1 && max_pending_rows >= 1, "a cache has room for at least one row");
  const int blocks = blocks_of(window, capacity, max_pending_rows);
  data_ = allocate_aligned(key_values_bytes(format, kv_heads, head_dim, blocks));
  kv_ = key_values_in(data_.get(), format, kv_heads, head_dim, blocks);
}

std::size_t AttentionCache::bytes_per_position(int kv_heads, int head_dim, KvFormat format) noexcept {
  return key_values_bytes(format, kv_heads, head_dim, 1) / block;
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
  if (tree_rows_ == 0 && tree_.blocks < blocks) {
    tree_data_ = allocate_aligned(key_values_bytes(kv_.format, kv_.kv_heads, kv_.head_dim, blocks));
    tree_ = key_values_in(tree_data_.get(), kv_.format, kv_.kv_heads, kv_.head_dim, blocks);
  }
  tree_rows_ += rows;
  REQUIRE(tree_rows_ == pending_rows(), "every row of a transaction with a tree is a row of the tree");
  REQUIRE(tree_rows_ <= transaction_rows(), "rows are written only inside the open transaction");
  return {tree_, tree_rows_ - rows};
}

void AttentionCache::on_open() { tree_rows_ = 0; }

void AttentionCache::restore(int row, int position) {
  REQUIRE(row < tree_rows_, "a path is kept of rows of a tree");
  copy_position(tree_, row, kv_, position);
}

int AttentionCache::first_visible(int position) const noexcept {
  return window_ == everything ? 0 : std::max(0, position - window_ + 1);
}

std::string AttentionCache::layout() const {
  const std::string kind =
      window_ == everything ? "full attention" : "sliding window of " + std::to_string(window_) + " positions";
  return kind + ", " + std::to_string(kv_.kv_heads) + " KV heads of " + std::to_string(kv_.head_dim) +
         " dimensions in " + traits(kv_.format).name;
}

bool AttentionCache::may_truncate() const { return window_ == everything || settled() <= window_; }

LayerSnapshotPtr AttentionCache::snapshot(int from) const {
  const int to = settled();
  if (to <= from || to == 0) return nullptr;
  LayerSnapshot copy{.layout = layout(), .from = std::max(0, from), .to = to};
  if (window_ != everything) {
    copy.form = LayerSnapshot::Form::state;
    copy.from = may_truncate() ? 0 : first_visible(to);
    copy.shortest = may_truncate() ? 0 : to;
  }
  const std::size_t position_bytes = packed_position_bytes(kv_.format, kv_.kv_heads, kv_.head_dim);
  copy.data.resize(position_bytes * static_cast<unsigned>(to - copy.from));
  pack_positions(kv_, copy.from, to - copy.from, copy.data.data());
  return std::make_shared<LayerSnapshot>(std::move(copy));
}

bool AttentionCache::fits(const LayerSnapshot& snapshot) const {
  if (snapshot.layout != layout() || snapshot.from < 0 || snapshot.to < snapshot.from || snapshot.to == 0) return false;
  const std::size_t position_bytes = packed_position_bytes(kv_.format, kv_.kv_heads, kv_.head_dim);
  const auto rows = static_cast<unsigned>(snapshot.to - snapshot.from);
  if (snapshot.data.size() % position_bytes != 0 || snapshot.data.size() / position_bytes != rows) return false;
  if (window_ == everything) {
    return snapshot.form == LayerSnapshot::Form::rows && rows > 0 && snapshot.shortest == 0;
  }
  const bool whole = snapshot.to <= window_;
  return snapshot.form == LayerSnapshot::Form::state && snapshot.from == (whole ? 0 : first_visible(snapshot.to)) &&
         snapshot.shortest == (whole ? 0 : snapshot.to);
}

void AttentionCache::load(const LayerSnapshot& snapshot, int length) {
  REQUIRE(length <= capacity_, "the text stays within the capacity of the layer");
  if (length > snapshot.from) unpack_positions(snapshot.data.data(), kv_, snapshot.from, length - snapshot.from);
}

void AttentionCache::add_to(Digest& digest, int length) const {
  const auto dims = static_cast<std::size_t>(kv_.head_dim);
  std::vector<float> row(2 * dims);
  for (int position = first_visible(length); position < length; ++position) {
    for (int head = 0; head < kv_.kv_heads; ++head) {
      read_position(kv_, position, head, row.data(), row.data() + dims);
      digest.add(std::span<const float>(row));
    }
  }
}

}  // namespace draftproof
