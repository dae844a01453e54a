// SPDX-License-Identifier: MIT
#include "ref/caches/attention_cache.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <iterator>
#include <memory>
#include <numeric>
#include <utility>
#include <vector>

namespace draftproof::attention_cache_test {
namespace {

void write_position(AttentionCache& cache, int position, const float* key, const float* value) {
  const KeyValues& kv = cache.claim_rows(position, 1);
  store_positions(kv, position, 1, key, value, 0, 0, kv.kv_heads);
}

/// How a round of a decoder uses the cache: it writes `rows` rows, in one call or one by one, and commits `kept` of
/// them; -1 destroys the transaction instead.
struct Step {
  int rows;
  int kept;
};

/// The naive model: a list of the tags of all positions. Every written row has a new tag, so a rejected row differs
/// from the one kept at its position.
class Pair {
 public:
  Pair(int window, int capacity, int pending_rows)
      : pending_rows_(pending_rows), cache_(make(window, capacity, pending_rows)), window_(window) {}

  void run(const Step& step) {
    // Room for more rows than are written must have no effect.
    Transaction transaction = cache_.begin(step.kept % 2 == 0 ? pending_rows_ : step.rows);
    std::vector<float> tags = kept_;
    for (int row = 0; row < step.rows; ++row) {
      tags.push_back(next_tag_);
      next_tag_ += 1;
      write(cache_, static_cast<int>(tags.size()) - 1, tags.back());
      if (step.rows % 2 == 0) cache_.wrote(1);
    }
    if (step.rows % 2 != 0) cache_.wrote(step.rows);
    // A model may read for any of the rows only after all of them were written.
    for (int row = 0; row < step.rows; ++row) expect_visible(static_cast<int>(kept_.size()) + row, tags);
    if (step.kept >= 0) {
      transaction.commit(step.kept);
      kept_.assign(tags.begin(), tags.begin() + static_cast<std::ptrdiff_t>(kept_.size()) + step.kept);
    }
  }

  int length() const { return static_cast<int>(kept_.size()); }
  int failures() const { return failures_; }
  Fingerprint digest() const { return cache_.digest(); }

  /// Returns the digest of a cache that saw only the kept rows, in transactions of at most `chunk` rows.
  Fingerprint digest_of_kept(int capacity, int chunk) const {
    Cache fresh = make(window_, capacity, chunk);
    for (int done = 0; done < length();) {
      const int rows = std::min(chunk, length() - done);
      Transaction transaction = fresh.begin(rows);
      for (int row = 0; row < rows; ++row) write(fresh, done + row, kept_[done + row]);
      fresh.wrote(rows);
      transaction.commit(rows);
      done += rows;
    }
    return fresh.digest();
  }

 private:
  static Cache make(int window, int capacity, int pending_rows) {
    std::vector<std::unique_ptr<LayerCache>> layers;
    layers.push_back(std::make_unique<AttentionCache>(1, 1, window, capacity, pending_rows));
    return Cache(std::move(layers), capacity, pending_rows);
  }

  static void write(Cache& cache, int position, float tag) {
    const float negated = -tag;
    write_position(cache.layer<AttentionCache>(0), position, &tag, &negated);
  }

  void expect_visible(int row, const std::vector<float>& tags) {
    const auto& layer = cache_.layer<AttentionCache>(0);
    const int first = window_ == AttentionCache::everything ? 0 : std::max(0, row + 1 - window_);
    failures_ += layer.first_visible(row) != first;
    for (int position = first; position <= row; ++position) {
      float key = 0;
      float value = 0;
      read_position(layer.kv(), position, 0, &key, &value);  // one head of one dimension
      failures_ += key != tags[position];
      failures_ += value != -tags[position];
    }
  }

  int pending_rows_;
  Cache cache_;
  int window_;
  std::vector<float> kept_;
  float next_tag_ = 1;
  int failures_ = 0;  // counted, not asserted: this runs tens of millions of times
};

std::vector<Step> steps_within(int pending_rows) {
  std::vector<Step> steps;
  for (int rows = 1; rows <= pending_rows; ++rows)
    for (int kept = -1; kept <= rows; ++kept) steps.push_back({rows, kept});
  return steps;
}

/// Runs every sequence of `depth` steps after `base` kept positions; returns how many there were.
int run_all(int window, int pending_rows, int base, int depth) {
  const std::vector<Step> steps = steps_within(pending_rows);
  const int capacity = base + depth * pending_rows;
  std::vector<std::size_t> sequence(static_cast<std::size_t>(depth), 0);
  int runs = 0;
  for (bool more = true; more; ++runs) {
    Pair pair(window, capacity, pending_rows);
    while (pair.length() < base) {
      const int rows = std::min(pending_rows, base - pair.length());
      pair.run({rows, rows});
    }
    for (const std::size_t step : sequence) pair.run(steps[step]);
    EXPECT_EQ(pair.failures(), 0) << "window " << window << ", pending rows " << pending_rows << ", base " << base;
    const int chunk = 1 + runs % 7;
    EXPECT_EQ(pair.digest(), pair.digest_of_kept(capacity, chunk))
        << "window " << window << ", pending rows " << pending_rows << ", base " << base << ", run " << runs;
    if (testing::Test::HasFailure()) return runs;

    more = false;
    for (std::size_t& step : sequence) {
      if (++step < steps.size()) {
        more = true;
        break;
      }
      step = 0;
    }
  }
  return runs;
}

// A ring has whole KV blocks, so it has no spare room only where window + max_pending_rows is a multiple of 16:
// windows 11 to 15, and 27 to 31, each with its max_pending_rows. The bases let the steps cross every boundary of the
// first two KV blocks.
constexpr int windows[] = {0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 11, 12, 13, 14, 15, 16, 17, 27, 28, 30, 31, 32};

TEST(Attention, EverySequenceOfRoundsFromTheStartReadsBackTheKeptRows) {
  int runs = 0;
  for (const int window : {0, 1, 2, 3, 5, 9}) {
    runs += run_all(window, 1, 0, 6);
    runs += run_all(window, 2, 0, 5);
    runs += run_all(window, 3, 0, 4);
  }
  runs += run_all(3, 2, 0, 6);
  EXPECT_EQ(runs, 6 * (729 + 16807 + 20736) + 117649);
}

TEST(AttentionSlow, EverySequenceOfRoundsAcrossTheEndOfTheRingReadsBackTheKeptRows) {
  int runs = 0;
  for (const int window : windows) {
    for (const int base : {14, 15, 16, 17, 30, 33}) {
      runs += run_all(window, 1, base, 5);
      runs += run_all(window, 2, base, 3);
      runs += run_all(window, 3, base, 3);
      runs += run_all(window, 4, base, 2);
      runs += run_all(window, 5, base, 2);
    }
  }
  EXPECT_EQ(runs, static_cast<int>(std::size(windows)) * 6 * (243 + 343 + 1728 + 324 + 625));
}

TEST(Attention, ALongTextInTransactionsOfFullSizeStaysCorrectThroughManyLapsOfTheRing) {
  for (int window = 1; window <= 40; ++window) {
    for (int pending_rows = 1; pending_rows <= 20; ++pending_rows) {
      Pair pair(window, 300, pending_rows);
      for (int round = 0; pair.length() + pending_rows <= 300 && round < 400; ++round)
        pair.run({pending_rows, (round * 7 + window) % (pending_rows + 1)});
      ASSERT_EQ(pair.failures(), 0) << "window " << window << ", pending rows " << pending_rows;
      ASSERT_EQ(pair.digest(), pair.digest_of_kept(300, 3)) << "window " << window << ", pending rows " << pending_rows;
    }
  }
}

TEST(Attention, RowsOfSeveralPositionsAreClaimedInOrderAndReadBack) {
  constexpr int heads = 3;
  constexpr int dims = 5;
  for (const KvFormat format : {KvFormat::f32, KvFormat::bf16, KvFormat::q8}) {
    for (const int window : {AttentionCache::everything, 20}) {
      AttentionCache cache(heads, dims, window, 40, 4, format);
      EXPECT_EQ(cache.kv().format, format);
      EXPECT_EQ(cache.kv().blocks, window == AttentionCache::everything ? 4 : 2);
      EXPECT_EQ(reinterpret_cast<std::uintptr_t>(cache.kv().keys) % 64, 0U);
      for (int position = 0; position < 40; position += 4) {
        std::vector<float> keys(4 * heads * dims);
        for (std::size_t i = 0; i < keys.size(); ++i) {  // every vector contains a 127, so q8 stores it exactly
          keys[i] = i % dims == 0 ? 127.0F : static_cast<float>((static_cast<std::size_t>(position) * 15 + i) % 120);
        }
        cache.open(position + 4);
        const KeyValues& kv = cache.claim_rows(position, 4);
        store_positions(kv, position, 4, keys.data(), keys.data(), heads * dims, 0, heads);
        cache.settle(position + 4);
        for (int i = 0; i < 4 * heads; ++i) {
          float key[dims];
          float value[dims];
          read_position(kv, position + i / heads, i % heads, key, value);
          for (int dim = 0; dim < dims; ++dim) {
            EXPECT_EQ(key[dim], keys[i * dims + dim]);
            EXPECT_EQ(value[dim], key[dim]);
          }
        }
      }
    }
  }
}

TEST(Attention, WarmEqualsColdInEveryFormat) {
  for (const KvFormat format : {KvFormat::f32, KvFormat::bf16, KvFormat::q8}) {
    const auto digest_after = [&](int rejected, int latent) {
      std::vector<std::unique_ptr<LayerCache>> layers;
      layers.push_back(std::make_unique<AttentionCache>(2, 9, 20, 64, 8, format, AttentionCache::TurnBack(), latent));
      Cache cache(std::move(layers), 64, 8);
      for (int round = 0; round < 12; ++round) {
        const int position = cache.length();
        Transaction transaction = cache.begin(4 + rejected);
        for (int row = 0; row < 4 + rejected; ++row) {
          std::vector<float> x(2 * 9);
          for (std::size_t i = 0; i < x.size(); ++i) {
            x[i] = std::sin(static_cast<float>(position + row) + 0.1F * static_cast<float>(i));
            if (row >= 4) x[i] += 9.0F;
          }
          write_position(cache.layer<AttentionCache>(0), position + row, x.data(), x.data());
        }
        cache.wrote(4 + rejected);
        transaction.commit(4);
      }
      return cache.digest();
    };
    for (const int latent : {0, 7}) EXPECT_EQ(digest_after(0, latent), digest_after(3, latent));
  }
}

TEST(Attention, AnyPathOfATreeIsKeptAsIfItHadBeenTheOnlyOneInEveryFormat) {
  constexpr int heads = 2;
  constexpr int dims = 5;
  constexpr int stride = heads * dims;
  const std::vector<int> depths = {0, 1, 2, 3, 1, 2, 2, 3, 1};
  const std::vector<std::vector<int>> paths = {{0}, {0, 1, 2, 3}, {0, 4, 5}, {0, 4, 6, 7}, {0, 8}, {0, 4}};
  const auto row_of = [&](int number) {
    std::vector<float> row;
    for (int i = 0; i < stride; ++i) row.push_back(static_cast<float>((number * 31 + i * 17) % 101) / 7 - 3);
    return row;
  };
  const auto write = [&](AttentionCache& cache, int position, int number) {
    const std::vector<float> row = row_of(number);
    store_positions(cache.claim_rows(position, 1), position, 1, row.data(), row.data(), stride, 0, heads);
    return row;
  };
  const int size = static_cast<int>(depths.size());
  for (const KvFormat format : {KvFormat::f32, KvFormat::bf16, KvFormat::q8}) {
    for (const int window : {AttentionCache::everything, 3, 20}) {
      // The tree crosses the boundaries of KV blocks and of the ring.
      for (const int before : {0, 13, 14, 15, 16, 30, 47}) {
        for (const auto& path : paths) {
          const int latent = before % 2 == 0 ? 0 : 3;  // of keys that end with their value
          AttentionCache warm(heads, dims, window, 100, size, format, {}, latent);
          AttentionCache cold(heads, dims, window, 100, size, format, {}, latent);
          for (int position = 0; position < before; ++position) {
            for (AttentionCache* cache : {&warm, &cold}) {
              cache->open(position + 1);
              write(*cache, position, position);
              cache->settle(position + 1);
            }
          }
          warm.open(before + size);
          for (int row = 0; row < size; ++row) {
            const int position = before + depths[row];
            warm.branch(position);
            const std::vector<float> values = write(warm, position, 200 + row);
            const AttentionCache::TreeRows tree = warm.tree_rows(1);
            EXPECT_EQ(tree.first, row);
            store_positions(tree.kv, tree.first, 1, values.data(), values.data(), stride, 0, heads);
          }
          warm.keep(path);
          const int end = before + static_cast<int>(path.size());
          warm.settle(end);
          cold.open(end);
          for (std::size_t i = 0; i < path.size(); ++i) write(cold, before + static_cast<int>(i), 200 + path[i]);
          cold.settle(end);
          Digest of_warm;
          Digest of_cold;
          warm.add_to(of_warm, end);
          cold.add_to(of_cold, end);
          ASSERT_EQ(of_warm.value(), of_cold.value()) << traits(format).name << ", window " << window << ", before "
                                                      << before << ", path to row " << path.back();
        }
      }
    }
  }
}

TEST(Attention, ARecalledRowOfATreeHasItsOwnAncestorsBeforeItAgain) {
  const std::vector<int> depths = {0, 1, 2, 3, 1, 2, 2, 3, 1};
  const int size = static_cast<int>(depths.size());
  constexpr int before = 14;
  for (const int window : {AttentionCache::everything, 3}) {
    AttentionCache cache(1, 1, window, 100, size);
    for (int position = 0; position < before; ++position) {
      cache.open(position + 1);
      const float row = -1;
      write_position(cache, position, &row, &row);
      cache.settle(position + 1);
    }
    cache.open(before + size);
    for (int row = 0; row < size; ++row) {
      const auto value = static_cast<float>(row);
      cache.branch(before + depths[row]);
      write_position(cache, before + depths[row], &value, &value);
      const AttentionCache::TreeRows tree = cache.tree_rows(1);
      store_positions(tree.kv, tree.first, 1, &value, &value, 0, 0, 1);
    }
    EXPECT_EQ(cache.rows_of_tree(), size);
    std::vector<int> path;
    for (int row = 0; row < size; ++row) {
      cache.recall(row, 1);
      path.resize(static_cast<std::size_t>(depths[row]));
      path.push_back(row);
      for (int position = std::max(before, cache.first_visible(before + depths[row])); position <= before + depths[row];
           ++position) {
        float key = 0;
        float value = 0;
        read_position(cache.kv(), position, 0, &key, &value);
        EXPECT_EQ(key, static_cast<float>(path[position - before])) << "row " << row << ", window " << window;
        EXPECT_EQ(value, key);
      }
    }
  }
}

TEST(Attention, TheDigestIsOfEveryKeyAndEveryValue) {
  constexpr int dims = 4, rows = AttentionCache::block + 2;
  std::vector<float> keys(rows * dims), values(rows * dims);
  std::iota(keys.begin(), keys.end(), 1.0F);
  std::iota(values.begin(), values.end(), 1000.0F);
  const auto digest = [&] {
    std::vector<std::unique_ptr<LayerCache>> layers;
    layers.push_back(std::make_unique<AttentionCache>(1, dims, AttentionCache::everything, rows, rows));
    Cache cache(std::move(layers), rows, rows);
    Transaction transaction = cache.begin(rows);
    for (int row = 0; row < rows; ++row) {
      write_position(cache.layer<AttentionCache>(0), row, &keys[row * dims], &values[row * dims]);
    }
    cache.wrote(rows);
    transaction.commit(rows);
    return cache.digest();
  };
  const Fingerprint before = digest();
  EXPECT_EQ(digest(), before);
  for (std::vector<float>* const some : {&keys, &values}) {
    for (float& number : *some) {
      number += 0.5F;
      EXPECT_NE(digest(), before) << number;
      number -= 0.5F;
    }
  }
}

TEST(Attention, APositionTakesTheBytesOfItsKeysAndValues) {
  EXPECT_EQ(AttentionCache::bytes_per_position(3, 32, KvFormat::f32), 3 * 32 * 2 * sizeof(float));
}

TEST(Attention, TheRingIsAsSmallAsTheWindowAndThePendingRowsAllow) {
  const auto blocks = [](int window, int capacity, int pending_rows) {
    return AttentionCache(1, 1, window, capacity, pending_rows).kv().blocks;
  };
  EXPECT_EQ(blocks(AttentionCache::everything, 100, 5), 8);
  EXPECT_EQ(blocks(27, 100, 5), 2);
  EXPECT_EQ(blocks(28, 100, 5), 4);
  EXPECT_EQ(blocks(1, 100, 100), 8);
  EXPECT_EQ(blocks(1 << 30, 100, 5), 8);
  EXPECT_EQ(blocks(2147483647, 16, 2147483647), 2);
}

TEST(AttentionDeathTest, ATransactionIsATreeOrAChain) {
  const float row = 0;
  AttentionCache cache(1, 1, 0, 100, 20);
  cache.open(2);
  write_position(cache, 0, &row, &row);
  EXPECT_DEATH(cache.keep(std::vector<int>{0}), "a path is kept of rows of a tree");
  write_position(cache, 1, &row, &row);
  EXPECT_DEATH(cache.tree_rows(1), "every row of a transaction with a tree");
  cache.tree_rows(2);
  EXPECT_DEATH(cache.recall(1, 2), "only rows of the tree are stored again");
  cache.branch(1);
  write_position(cache, 1, &row, &row);
  EXPECT_DEATH(cache.tree_rows(1), "inside the open transaction");
  cache.settle(0);
  cache.open(20);  // more rows than the tree before had
  for (int i = 0; i < 20; ++i) {
    write_position(cache, i, &row, &row);
    EXPECT_EQ(cache.tree_rows(1).first, i);
    EXPECT_EQ(cache.tree_rows(0).kv.blocks, 2);
  }
}

TEST(AttentionDeathTest, BreachesOfTheContractAbort) {
  EXPECT_DEATH(AttentionCache(0, 1, 0, 1, 1), "heads and dimensions");
  EXPECT_DEATH(AttentionCache(1, 1, -1, 1, 1), "number of positions");
  EXPECT_DEATH(AttentionCache(1, 1, 0, 0, 1), "room for at least one row");
  const float row = 0;
  AttentionCache narrow(1, 1, 3, 100, 2);
  narrow.open(100);
  write_position(narrow, 0, &row, &row);
  write_position(narrow, 1, &row, &row);
  EXPECT_DEATH(write_position(narrow, 2, &row, &row), "no transaction has more rows");
  AttentionCache small(1, 1, 3, 1, 9);
  small.open(2);
  write_position(small, 0, &row, &row);
  EXPECT_DEATH(write_position(small, 1, &row, &row), "within the capacity");
  EXPECT_DEATH(small.settle(2), "never written");
}

}  // namespace
}  // namespace draftproof::attention_cache_test
