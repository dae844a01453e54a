// SPDX-License-Identifier: MIT
#include "ref/caches/cache.h"

#include <gtest/gtest.h>

#include <stdexcept>
#include <utility>

#include "ref/caches/attention_cache.h"
#include "ref/caches/history_cache.h"

namespace draftproof::cache_test {
namespace {

constexpr int capacity = 12;
constexpr int max_pending_rows = 4;

/// Three layers with three kinds of caches, as in a model with mixed layers.
Cache mixed_cache() {
  std::vector<std::unique_ptr<LayerCache>> layers;
  layers.push_back(std::make_unique<AttentionCache>(1, 1, AttentionCache::everything, capacity, max_pending_rows));
  layers.push_back(std::make_unique<AttentionCache>(1, 1, 3, capacity, max_pending_rows));
  layers.push_back(std::make_unique<HistoryCache>());
  return Cache(std::move(layers), capacity, max_pending_rows);
}

void write_layer(Cache& cache, int layer, int position, Token tag) {
  const float row = static_cast<float>(tag);
  if (layer < 2) {
    const KeyValues& kv = cache.layer<AttentionCache>(layer).claim_rows(position, 1);
    store_positions(kv, position, 1, &row, &row, 0, 0, 1);
  } else {
    cache.layer<HistoryCache>(layer).write(position, tag);
  }
}

void write(Cache& cache, std::initializer_list<Token> tags) {
  int position = cache.end();
  for (const Token tag : tags) {
    for (int layer = 0; layer < 3; ++layer) write_layer(cache, layer, position, tag);
    ++position;
  }
  cache.wrote(static_cast<int>(tags.size()));
}

Fingerprint digest_after(std::initializer_list<Token> tags) {
  Cache cache = mixed_cache();
  for (const Token tag : tags) {
    Transaction transaction = cache.begin(1);
    write(cache, {tag});
    transaction.commit(1);
  }
  return cache.digest();
}

TEST(Cache, EndIsAheadOfLengthOnlyInsideATransaction) {
  Cache cache = mixed_cache();
  Transaction transaction = cache.begin(3);
  EXPECT_EQ(cache.end(), 0);
  write(cache, {10, 11});
  EXPECT_EQ(cache.length(), 0);
  EXPECT_EQ(cache.end(), 2);
  write(cache, {12});
  EXPECT_EQ(cache.end(), 3);
  transaction.commit(2);
  EXPECT_EQ(cache.length(), 2);
  EXPECT_EQ(cache.end(), 2);
}

TEST(Cache, EveryNumberOfKeptRowsLeavesTheDigestOfACacheThatSawOnlyThose) {
  const std::initializer_list<Token> kept[] = {{1, 2}, {1, 2, 3}, {1, 2, 3, 4}, {1, 2, 3, 4, 5}};
  for (int rows = 0; rows <= 3; ++rows) {
    Cache cache = mixed_cache();
    {
      Transaction transaction = cache.begin(2);
      write(cache, {1, 2});
      transaction.commit(2);
    }
    Transaction transaction = cache.begin(4);
    write(cache, {3, 4, 5});
    transaction.commit(rows);
    EXPECT_EQ(cache.digest(), digest_after(kept[rows])) << rows;
  }
}

TEST(Cache, DigestsDistinguishTextsOfDifferentLengthOrContent) {
  EXPECT_NE(digest_after({}), digest_after({1}));
  EXPECT_NE(digest_after({1, 2}), digest_after({2, 1}));
  // The first token is outside of the sliding window, but visible to the other layers.
  EXPECT_NE(digest_after({1, 2, 3, 4}), digest_after({9, 2, 3, 4}));
}

TEST(Cache, ADestroyedTransactionKeepsNothing) {
  Cache cache = mixed_cache();
  {
    Transaction transaction = cache.begin(4);
    write(cache, {7, 8, 9});
  }
  EXPECT_EQ(cache.length(), 0);
  EXPECT_EQ(cache.digest(), mixed_cache().digest());
  Transaction transaction = cache.begin(4);
  write(cache, {1, 2});
  transaction.commit(2);
  EXPECT_EQ(cache.digest(), digest_after({1, 2}));
}

TEST(Cache, AnExceptionHalfWayThroughTheLayersLeavesTheCacheAsItWas) {
  for (int written_layers = 0; written_layers <= 3; ++written_layers) {
    Cache cache = mixed_cache();
    {
      Transaction transaction = cache.begin(1);
      write(cache, {1});
      transaction.commit(1);
    }
    EXPECT_THROW(
        {
          Transaction transaction = cache.begin(2);
          for (int layer = 0; layer < written_layers; ++layer) write_layer(cache, layer, 1, 99);
          throw std::runtime_error("the model stopped");
        },
        std::runtime_error);
    EXPECT_EQ(cache.digest(), digest_after({1}));
    Transaction transaction = cache.begin(2);
    write(cache, {2});
    transaction.commit(1);
    EXPECT_EQ(cache.digest(), digest_after({1, 2})) << written_layers << " layers were written";
  }
}

TEST(Cache, AMovedTransactionCommitsOnce) {
  Cache cache = mixed_cache();
  {
    Transaction transaction = cache.begin(2);
    write(cache, {1});
    Transaction moved = std::move(transaction);
    moved.commit(1);
  }
  EXPECT_EQ(cache.length(), 1);
}

TEST(Cache, CanBeFilledToItsCapacity) {
  Cache cache = mixed_cache();
  for (Token tag = 0; tag < capacity; ++tag) {
    Transaction transaction = cache.begin(1);
    write(cache, {tag});
    transaction.commit(1);
  }
  EXPECT_EQ(cache.length(), capacity);
}

TEST(Cache, WithoutLayersStillCountsPositions) {
  Cache cache({}, 2, 1);
  Transaction transaction = cache.begin(1);
  cache.wrote(1);
  transaction.commit(1);
  EXPECT_EQ(cache.length(), 1);
}

TEST(CacheDeathTest, BeginWhileOpenAborts) {
  Cache cache = mixed_cache();
  Transaction transaction = cache.begin(1);
  EXPECT_DEATH(cache.begin(1), "at most one open transaction");
}

TEST(CacheDeathTest, BeginBeyondMaxPendingRowsOrCapacityAborts) {
  Cache cache = mixed_cache();
  EXPECT_DEATH(cache.begin(0), "between one row");
  EXPECT_DEATH(cache.begin(max_pending_rows + 1), "between one row");
  for (int i = 0; i < 3; ++i) {
    Transaction transaction = cache.begin(3);
    write(cache, {1, 2, 3});
    transaction.commit(3);
  }
  EXPECT_DEATH(cache.begin(4), "within the capacity");
}

TEST(CacheDeathTest, AReaderOfAnOpenCacheAborts) {
  Cache cache = mixed_cache();
  const Cache& read = cache;
  {
    Transaction transaction = cache.begin(1);
    write(cache, {1});
    EXPECT_DEATH(read.layer<HistoryCache>(2), "pending rows are read by the model only that writes them");
    transaction.commit(1);
  }
  EXPECT_EQ(&read.layer<HistoryCache>(2), &cache.layer<HistoryCache>(2));
  EXPECT_DEATH(read.layer<HistoryCache>(0), "of another kind");
}

TEST(CacheDeathTest, CommitOutOfRangeAborts) {
  Cache cache = mixed_cache();
  Transaction transaction = cache.begin(3);
  write(cache, {1, 2});
  EXPECT_DEATH(transaction.commit(3), "only rows that were written");
  EXPECT_DEATH(transaction.commit(-1), "only rows that were written");
  transaction.commit(1);
  EXPECT_DEATH(transaction.commit(0), "commits once");
}

TEST(CacheDeathTest, RowsOutsideTheTransactionAbort) {
  Cache cache = mixed_cache();
  EXPECT_DEATH(cache.wrote(1), "inside a transaction");
  EXPECT_DEATH(write_layer(cache, 0, 0, 1), "inside the open transaction");
  EXPECT_DEATH(write_layer(cache, 2, 0, 1), "inside the open transaction");
  Transaction transaction = cache.begin(2);
  EXPECT_DEATH(write(cache, {1, 2, 3}), "inside the open transaction");
  EXPECT_DEATH(cache.wrote(3), "inside the open transaction");
  EXPECT_DEATH(cache.wrote(0), "inside the open transaction");
  EXPECT_DEATH(write_layer(cache, 1, 1, 1), "ascending order");
  write(cache, {1});
  EXPECT_DEATH(write_layer(cache, 1, 0, 1), "ascending order");
  transaction.commit(1);
  EXPECT_DEATH(write_layer(cache, 1, 1, 1), "inside the open transaction");
}

TEST(CacheDeathTest, ALayerThatMissedAKeptRowAborts) {
  Cache cache = mixed_cache();
  Transaction transaction = cache.begin(2);
  write_layer(cache, 0, 0, 1);
  write_layer(cache, 1, 0, 1);
  cache.wrote(1);
  EXPECT_DEATH(transaction.commit(1), "never written into this layer");
}

TEST(CacheDeathTest, DigestOfAnOpenCacheAborts) {
  Cache cache = mixed_cache();
  Transaction transaction = cache.begin(1);
  EXPECT_DEATH(cache.digest(), "only a settled cache");
}

TEST(CacheDeathTest, AMissingOrMisnamedLayerAborts) {
  std::vector<std::unique_ptr<LayerCache>> layers(1);
  EXPECT_DEATH(Cache(std::move(layers), 1, 1), "every layer has a cache");
  Cache cache = mixed_cache();
  EXPECT_DEATH(cache.layer<HistoryCache>(0), "of another kind");
}

}  // namespace
}  // namespace draftproof::cache_test
