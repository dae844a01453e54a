// SPDX-License-Identifier: MIT
// Caches of a target and a draft whose rows depend on the whole text before them, so that any mix-up of texts or
// positions shows.
#pragma once

#include <algorithm>
#include <cstdint>
#include <memory>
#include <utility>
#include <vector>

#include "ref/caches/attention_cache.h"
#include "ref/caches/history_cache.h"
#include "ref/caches/prefix_cache.h"

namespace draftproof::texts {

using Text = std::vector<Token>;

/// The windows of the target's and the draft's attention layers.
struct Windows {
  int target = 3;
  int draft = 4;
};

inline std::unique_ptr<LayerCache> attention(int heads, int dims, int window, int capacity, KvFormat format) {
  return std::make_unique<AttentionCache>(heads, dims, window, capacity, 4, format);
}

/// Layers of full attention, of a sliding window and of tokens.
inline Cache target_cache(Windows windows = {}, int capacity = 40) {
  std::vector<std::unique_ptr<LayerCache>> layers;
  layers.push_back(attention(2, 3, AttentionCache::everything, capacity, KvFormat::q8));
  layers.push_back(attention(1, 2, windows.target, capacity, KvFormat::bf16));
  layers.push_back(std::make_unique<HistoryCache>());
  return Cache(std::move(layers), capacity, 4);
}

inline Cache draft_cache(Windows windows = {}, int capacity = 40) {
  std::vector<std::unique_ptr<LayerCache>> layers;
  layers.push_back(attention(1, 1, windows.draft, capacity, KvFormat::f32));
  return Cache(std::move(layers), capacity, 4);
}

inline void write_row(AttentionCache& layer, int position, std::uint64_t tag) {
  const KeyValues& kv = layer.claim_rows(position, 1);
  std::vector<float> row;
  for (int i = 0; i < kv.kv_heads * kv.head_dim; ++i) row.push_back(static_cast<float>((tag >> 4 * i) % 4096));
  store_positions(kv, position, 1, row.data(), row.data(), 0, 0, kv.kv_heads);
}

/// Reads the tokens that the cache does not hold yet, each in a transaction that also writes rejected rows.
inline void read_text(Cache& cache, const Text& text, bool target) {
  std::uint64_t tag = 1;
  for (std::size_t i = 0; i < text.size(); ++i) {
    tag = (tag + static_cast<std::uint64_t>(text[i])) * 6364136223846793005U + 1442695040888963407U;
    const int position = static_cast<int>(i);
    if (position < cache.length()) continue;
    const int rows = std::min(1 + position % 4, cache.capacity() - position);
    Transaction transaction = cache.begin(rows);
    for (int row = 0; row < rows; ++row) {
      const std::uint64_t here = row == 0 ? tag : ~tag;
      write_row(cache.layer<AttentionCache>(0), position + row, here >> 20);
      if (!target) continue;
      write_row(cache.layer<AttentionCache>(1), position + row, here >> 24);
      cache.layer<HistoryCache>(2).write(position + row, row == 0 ? text[i] : 77);
    }
    cache.wrote(rows);
    transaction.commit(1);
  }
}

/// Target and draft of one sequence.
struct Both {
  Cache target;
  Cache draft;

  explicit Both(const Text& text = {}, Windows windows = {}, int capacity = 40)
      : target(target_cache(windows, capacity)), draft(draft_cache(windows, capacity)) {
    read(text);
  }
  void read(const Text& text) {
    read_text(target, text, true);
    read_text(draft, text, false);
  }
  PrefixCache::Parts parts() { return {{"target", &target}, {"draft", &draft}}; }
};

}  // namespace draftproof::texts
