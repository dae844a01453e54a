// SPDX-License-Identifier: MIT
// Dropping positions out of the middle of a cache, against a list of what every position must hold.
#include <gtest/gtest.h>

#include <algorithm>
#include <memory>
#include <optional>
#include <vector>

#include "ref/caches/attention_cache.h"
#include "ref/caches/context_shift.h"
#include "ref/caches/history_cache.h"
#include "ref/caches/recurrent_cache.h"

namespace draftproof::discard_test {
namespace {

constexpr int pending_rows = 3;

/// A position of a cache with one head of one dimension: its key was `tag` and moved down by `moved` since.
struct Row {
  float tag;
  int moved = 0;
};

AttentionCache::TurnBack subtracting() {
  return [](float* keys, int count, int positions) {
    for (int i = 0; i < count; ++i) keys[i] -= static_cast<float>(positions);
  };
}

/// A cache of one layer, and what each position must hold.
class Pair {
 public:
  Pair(int window, int capacity) : window_(window), cache_(layers(window, capacity), capacity, pending_rows) {}

  /// Writes rows, checks what each can see, and keeps some of them.
  void write(int rows, int kept) {
    Transaction transaction = cache_.begin(rows);
    const auto settled = rows_.size();
    for (int i = 0; i < rows; ++i) {
      rows_.push_back({next_tag_});
      next_tag_ += 1000;
      const float key = rows_.back().tag;
      const float value = -key;
      const int position = static_cast<int>(rows_.size()) - 1;
      store_positions(layer().claim_rows(position, 1), position, 1, &key, &value, 0, 0, 1);
    }
    cache_.wrote(rows);
    for (std::size_t row = settled; row < rows_.size(); ++row) expect_visible(static_cast<int>(row));
    transaction.commit(kept);
    rows_.resize(settled + static_cast<std::size_t>(kept));
    lowest_ = std::max(lowest_, lowest_stored());
  }

  /// Drops positions if the cache can; it must be able to exactly if what later rows can see is there.
  bool discard(int from, int count) {
    const int end = length() - count;
    const int first = window_ == AttentionCache::everything || end <= window_ ? 0 : end - window_ + 1;
    bool there = true;
    for (int position = first; position < end; ++position) {
      there = there && (position < from ? position : position + count) >= lowest_;
    }
    const std::string why = cache_.discard_error(length(), from, count);
    EXPECT_EQ(why.empty(), there) << "window " << window_ << ": " << count << " from " << from << " of " << length()
                                  << ": " << why;
    if (!why.empty()) return false;
    cache_.discard(from, count);
    rows_.erase(rows_.begin() + from, rows_.begin() + from + count);
    for (int i = from; i < length(); ++i) rows_[static_cast<std::size_t>(i)].moved += count;
    lowest_ = first;
    EXPECT_EQ(cache_.length(), length());
    return true;
  }

  int length() const { return static_cast<int>(rows_.size()); }
  Fingerprint digest() const { return cache_.digest(); }
  int failures() const { return failures_; }

 private:
  static std::vector<std::unique_ptr<LayerCache>> layers(int window, int capacity) {
    std::vector<std::unique_ptr<LayerCache>> list;
    list.push_back(
        std::make_unique<AttentionCache>(1, 1, window, capacity, pending_rows, KvFormat::f32, subtracting()));
    return list;
  }
  AttentionCache& layer() { return cache_.layer<AttentionCache>(0); }
  int lowest_stored() const {
    return window_ == AttentionCache::everything || length() <= window_ ? 0 : length() - window_ + 1;
  }

  void expect_visible(int row) {
    for (int position = layer().first_visible(row); position <= row; ++position) {
      const Row& wanted = rows_[static_cast<std::size_t>(position)];
      float key = 0;
      float value = 0;
      read_position(layer().kv(), position, 0, &key, &value);
      failures_ += key != wanted.tag - static_cast<float>(wanted.moved);
      failures_ += value != -wanted.tag;
    }
  }

  int window_;
  Cache cache_;
  std::vector<Row> rows_;
  float next_tag_ = 1000;
  int lowest_ = 0;  // positions below are lost
  int failures_ = 0;
};

TEST(Discard, KeepsWhatLaterRowsSeeForEveryWindowLengthAndPlace) {
  long dropped = 0;
  long refused = 0;
  for (int window = 0; window <= 9; ++window) {
    for (int length = 1; length <= 24; ++length) {
      for (int from = 0; from < length; ++from) {
        for (int count = 1; count <= length - from; ++count) {
          Pair pair(window, 40);
          while (pair.length() < length) pair.write(std::min(pending_rows, length - pair.length()), 1);
          if (!pair.discard(from, count)) {
            ++refused;
            continue;
          }
          ++dropped;
          for (int i = 0; i < 6; ++i) pair.write(1 + i % pending_rows, i % 3 == 2 ? 0 : 1);
          if (pair.length() > 3) pair.discard(1, 2);
          for (int i = 0; i < 8; ++i) pair.write(pending_rows, i % 4);
          ASSERT_EQ(pair.failures(), 0) << "window " << window << ": " << count << " from " << from << " of " << length;
        }
      }
    }
  }
  EXPECT_GT(dropped, 10000);
  EXPECT_GT(refused, 5000);
}

TEST(Discard, MovesLongTextsInParts) {
  for (const int count : {1, 5, 15, 16, 17, 100, 255, 256, 257}) {
    for (const int from : {0, 1, 15, 16, 40}) {
      Pair pair(AttentionCache::everything, 1000);
      while (pair.length() < 900) pair.write(pending_rows, pending_rows);
      ASSERT_TRUE(pair.discard(from, count));
      pair.write(1, 1);
      ASSERT_EQ(pair.failures(), 0) << count << " from " << from;
    }
  }
}

TEST(Discard, KeepsTheBitsOfValuesAndRoundsKeysOnceMore) {
  constexpr int heads = 2;
  constexpr int dims = 20;
  constexpr int length = 40;
  constexpr int from = 7;
  constexpr int count = 9;
  const auto turn = [](float* keys, int vectors, int positions) {
    for (int i = 0; i < vectors * dims; ++i) keys[i] *= 1 + 0.1F * static_cast<float>(positions);
  };
  for (const KvFormat format : {KvFormat::f32, KvFormat::bf16, KvFormat::q8}) {
    AttentionCache cache(heads, dims, AttentionCache::everything, length, length, format, turn);
    AttentionCache turned(heads, dims, AttentionCache::everything, length, length, format);  // holds the turned keys
    std::vector<float> row(heads * dims);
    cache.open(length);
    for (int position = 0; position < length; ++position) {
      for (std::size_t i = 0; i < row.size(); ++i) {
        row[i] = static_cast<float>((position * 31 + static_cast<int>(i) * 17) % 101) / 7 - 6;
      }
      store_positions(cache.claim_rows(position, 1), position, 1, row.data(), row.data(), 0, 0, heads);
    }
    cache.settle(length);
    const std::vector<std::byte> before = cache.snapshot(0)->data;
    turned.open(length - count);
    for (int position = 0; position < length - count; ++position) {
      const int source = position < from ? position : position + count;
      std::vector<float> keys(heads * dims), values(heads * dims);
      for (int head = 0; head < heads; ++head) {
        read_position(cache.kv(), source, head, keys.data() + head * dims, values.data() + head * dims);
      }
      if (position >= from) turn(keys.data(), heads, count);
      store_positions(turned.claim_rows(position, 1), position, 1, keys.data(), values.data(), 0, 0, heads);
    }
    cache.discard(from, count);
    const std::vector<std::byte> after = cache.snapshot(0)->data;
    const std::size_t head_bytes = before.size() / length / heads;  // a key, a value, and in q8 both scales
    const std::size_t vector_bytes = static_cast<std::size_t>(dims * traits(format).value_bytes);
    for (int position = from; position < length - count; ++position) {
      for (std::size_t head = 0; head < heads; ++head) {
        std::vector<float> key(dims), value(dims), wanted(dims), ignored(dims);
        read_position(cache.kv(), position, static_cast<int>(head), key.data(), value.data());
        read_position(turned.kv(), position, static_cast<int>(head), wanted.data(), ignored.data());
        ASSERT_EQ(key, wanted) << traits(format).name << ", position " << position;
        const auto value_in = [&](const std::vector<std::byte>& data, int place) {
          const std::byte* const first = data.data() + (static_cast<std::size_t>(place) * heads + head) * head_bytes;
          return std::vector<std::byte>(first + vector_bytes, first + 2 * vector_bytes);
        };
        ASSERT_EQ(value_in(after, position), value_in(before, position + count)) << traits(format).name;
      }
    }
  }
}

TEST(Discard, RemovesTokensOfAHistory) {
  std::vector<std::unique_ptr<LayerCache>> layers;
  layers.push_back(std::make_unique<HistoryCache>());
  Cache cache(std::move(layers), 10, 10);
  Transaction transaction = cache.begin(8);
  for (int i = 0; i < 8; ++i) cache.layer<HistoryCache>(0).write(i, i);
  cache.wrote(8);
  transaction.commit(6);
  ASSERT_EQ(cache.discard_error(6, 1, 2), "");
  cache.discard(1, 2);
  const auto kept = cache.layer<HistoryCache>(0).tokens(4);
  EXPECT_EQ(std::vector<Token>(kept.begin(), kept.end()), (std::vector<Token>{0, 3, 4, 5}));
}

TEST(Discard, IsRefusedByAStateWithTheNumberOfTheLayer) {
  std::vector<std::unique_ptr<LayerCache>> layers;
  layers.push_back(std::make_unique<HistoryCache>());
  const RecurrentShape shape = {.delta = {.key_heads = 1, .value_heads = 1, .key_dim = 16, .value_dim = 16},
                                .conv_width = 2};
  layers.push_back(std::make_unique<RecurrentCache>(
      shape, 2, [](const DeltaShape&, const DeltaRows&, int, const float*, float*) {}));
  Cache cache(std::move(layers), 10, 2);
  EXPECT_EQ(cache.discard_error(5, 1, 2), "layer 1 keeps one state of the whole text, of which no part can be dropped");
  EXPECT_DEATH(cache.discard(0, 1), "positions that can be dropped|positions that the cache can hold");
}

TEST(ContextShift, CountsWhatWasDroppedAsAReaderDoes) {
  for (int context = 2; context <= 9; ++context) {
    for (int discard = 1; discard < context; ++discard) {
      for (int keep = 0; keep < context - discard; ++keep) {
        const ContextShift shift = {context, keep, discard};
        ASSERT_EQ(shift.error(), "");
        int length = 0;
        int dropped = 0;
        for (int tokens = 0; tokens < 60; ++tokens) {
          ASSERT_EQ(shift.dropped(tokens), dropped);
          ASSERT_EQ(shift.room(length), length == context ? discard : context - length);
          if (length == context) {
            length -= discard;
            dropped += discard;
          }
          ++length;
        }
      }
    }
  }
}

TEST(ContextShift, RefusesNumbersThatLeaveNoRoom) {
  for (const ContextShift& shift :
       {ContextShift{4, 0, 0}, ContextShift{4, -1, 1}, ContextShift{4, 2, 2}, ContextShift{4, 3, 1},
        ContextShift{0, 0, 1}, ContextShift{2147483647, 2147483647, 1}}) {
    EXPECT_NE(shift.error(), "");
  }
  EXPECT_EQ((ContextShift{4, 2, 1}).error(), "");
}

}  // namespace
}  // namespace draftproof::discard_test
