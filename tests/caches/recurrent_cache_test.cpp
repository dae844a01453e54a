// SPDX-License-Identifier: MIT
#include "ref/caches/recurrent_cache.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <limits>
#include <memory>
#include <numeric>
#include <stdexcept>
#include <vector>

#include "kernels/kernels.h"
#include "ref/caches/attention_cache.h"
#include "ref/caches/history_cache.h"

namespace draftproof::recurrent_cache_test {
namespace {

const RecurrentShape small = {.delta = {.key_heads = 1, .value_heads = 2, .key_dim = 3, .value_dim = 5},
                              .conv_width = 4};

/// Reproducible numbers.
class Numbers {
 public:
  explicit Numbers(std::uint64_t seed) : state_(seed * 2 + 1) { next(); }
  std::uint32_t next() {
    state_ = state_ * 6364136223846793005u + 1442695040888963407u;
    return static_cast<std::uint32_t>(state_ >> 32);
  }
  float number() { return static_cast<float>(static_cast<std::int32_t>(next())) * 0x1p-31f; }
  int below(int end) { return static_cast<int>(std::uint64_t{next()} * static_cast<std::uint64_t>(end) >> 32); }

 private:
  std::uint64_t state_;
};

/// The numbers of a row, made of its tag: inputs of the convolution, keys, values, decays, betas. A negative tag gives
/// NaNs, which would spread to every later row.
std::vector<float> row_of(const RecurrentShape& shape, int tag) {
  const int gates = shape.decay_floats() + shape.delta.value_heads;
  const int width = shape.channels() + shape.key_floats() + shape.value_floats() + gates;
  Numbers numbers(static_cast<std::uint64_t>(tag));
  std::vector<float> row;
  for (int i = 0; i < width; ++i) row.push_back(tag < 0 ? std::numeric_limits<float>::quiet_NaN() : numbers.number());
  for (int i = 0; i < shape.decay_floats(); ++i) {
    float& decay = row[row.size() - static_cast<std::size_t>(gates - i)];
    decay = -std::fabs(decay);
  }
  return row;
}

void fold(const DeltaShape& shape, const DeltaRows& rows, int count, const float* from, float* to) {
  find_kernels("scalar")->gated_delta_rule(shape, rows, nullptr, 0, count, 0, shape.value_heads, from, to, nullptr);
}

/// The naive model: the content of a layer that read these tags, from nothing, in one pass.
struct Content {
  std::vector<float> tail;
  std::vector<float> state;

  Content(const RecurrentShape& shape, const std::vector<int>& tags)
      : tail(static_cast<std::size_t>((shape.conv_width - 1) * shape.channels())),
        state(delta_state_floats(shape.delta)) {
    std::vector<float> rows;
    std::vector<float> inputs = tail;
    for (const int tag : tags) {
      const std::vector<float> row = row_of(shape, tag);
      rows.insert(rows.end(), row.begin(), row.end());
      inputs.insert(inputs.end(), row.begin(), row.begin() + shape.channels());
    }
    std::copy(inputs.end() - static_cast<std::ptrdiff_t>(tail.size()), inputs.end(), tail.begin());
    if (tags.empty()) return;
    const float* const keys = rows.data() + shape.channels();
    const float* const values = keys + shape.key_floats();
    const float* const decays = values + shape.value_floats();
    const auto stride = static_cast<std::ptrdiff_t>(rows.size() / tags.size());
    const DeltaRows folded = {keys, values, decays, decays + shape.decay_floats(), stride};
    fold(shape.delta, folded, static_cast<int>(tags.size()), state.data(), state.data());
  }
};

bool same_bits(const float* a, const std::vector<float>& b) {
  return std::memcmp(a, b.data(), b.size() * sizeof(float)) == 0;
}

/// One row of a tree: its depth in the transaction and its tag. A chain is a tree whose depths ascend.
struct Node {
  int depth;
  int tag;
};

/// A cache of one layer beside the tags of its naive model.
class Pair {
 public:
  explicit Pair(const RecurrentShape& shape, int capacity = 100000, int max_pending_rows = 16)
      : shape_(shape), cache_(make(capacity, max_pending_rows)) {}

  Cache& cache() { return cache_; }
  int length() const { return static_cast<int>(tags_.size()); }
  int replays() const { return replays_; }
  int failures() const { return failures_; }
  Fingerprint digest() const { return cache_.digest(); }
  Fingerprint digest_of_kept() const { return digest_of(tags_); }

  /// Returns the digest of a cache that read these tags row by row.
  Fingerprint digest_of(const std::vector<int>& tags) const {
    Pair fresh(shape_);
    for (const int tag : tags) {
      Transaction transaction = fresh.cache_.begin(1);
      fresh.write({{0, tag}});
      transaction.commit(1);
      fresh.kept({0});
    }
    return fresh.digest();
  }

  /// Writes these rows as one call of a model would; the first of a transaction comes after begin().
  void write(const std::vector<Node>& rows) {
    if (cache_.end() == cache_.length()) nodes_.clear();
    auto& layer = cache_.layer<RecurrentCache>(0);
    for (std::size_t i = 0; i < rows.size();) {
      std::size_t end = i + 1;
      while (end < rows.size() && rows[end].depth == rows[end - 1].depth + 1) ++end;
      layer.branch(length() + rows[i].depth);
      path_.resize(static_cast<std::size_t>(rows[i].depth));
      write_range(layer, std::span(rows).subspan(i, end - i));
      i = end;
    }
    nodes_.insert(nodes_.end(), rows.begin(), rows.end());
    cache_.wrote(static_cast<int>(rows.size()));
  }

  /// Tells the naive model what was kept; of a rolled back transaction, nothing.
  void kept(const std::vector<int>& path) {
    for (const int row : path) tags_.push_back(nodes_[static_cast<std::size_t>(row)].tag);
    path_.clear();
  }

 private:
  Cache make(int capacity, int max_pending_rows) {
    std::vector<std::unique_ptr<LayerCache>> layers;
    layers.push_back(std::make_unique<RecurrentCache>(
        shape_, max_pending_rows,
        [this](const DeltaShape& shape, const DeltaRows& rows, int count, const float* from, float* to) {
          replays_ += count;
          fold(shape, rows, count, from, to);
        }));
    return Cache(std::move(layers), capacity, max_pending_rows);
  }

  void write_range(RecurrentCache& layer, std::span<const Node> range) {
    std::vector<int> before = tags_;
    before.insert(before.end(), path_.begin(), path_.end());
    const RecurrentCache::Rows rows = layer.claim_rows(length() + range[0].depth, static_cast<int>(range.size()));
    const Content expected(shape_, before);
    failures_ += !same_bits(rows.tail, expected.tail);
    failures_ += !same_bits(rows.from, expected.state);
    for (std::size_t i = 0; i < range.size(); ++i) {
      const std::vector<float> row = row_of(shape_, range[i].tag);
      const auto at = static_cast<std::ptrdiff_t>(i) * rows.stride;
      const float* from = row.data();
      const auto put = [&](float* to, int count) {
        std::copy_n(from, count, to + at);
        from += count;
      };
      put(rows.inputs, shape_.channels());
      put(rows.keys, shape_.key_floats());
      put(rows.values, shape_.value_floats());
      put(rows.decays, shape_.decay_floats());
      put(rows.betas, shape_.delta.value_heads);
      path_.push_back(range[i].tag);
    }
    fold(shape_.delta, rows.folded(), static_cast<int>(range.size()), rows.from, rows.to);
  }

  RecurrentShape shape_;
  int replays_ = 0;   // rows
  int failures_ = 0;  // counted, not asserted: this runs hundreds of thousands of times
  Cache cache_;
  std::vector<int> tags_;  // kept
  std::vector<int> path_;  // tags of the pending rows that lead to the next one
  std::vector<Node> nodes_;
};

std::vector<Node> chain(int first_tag, int rows, int first_depth = 0) {
  std::vector<Node> nodes;
  for (int i = 0; i < rows; ++i) nodes.push_back({first_depth + i, first_tag + i});
  return nodes;
}

std::vector<int> first_rows(int count) {
  std::vector<int> rows(static_cast<std::size_t>(count));
  std::iota(rows.begin(), rows.end(), 0);
  return rows;
}

/// Writes `nodes` in the calls that the bits of `cuts` make: bit i set, a cut after row i.
void write_cut(Pair& pair, const std::vector<Node>& nodes, unsigned cuts) {
  std::vector<Node> call;
  for (std::size_t i = 0; i < nodes.size(); ++i) {
    call.push_back(nodes[i]);
    if ((cuts >> i & 1) == 0 && i + 1 < nodes.size()) continue;
    pair.write(call);
    call.clear();
  }
}

/// Reads `rows` rows of kept text in one transaction.
void read(Pair& pair, int first_tag, int rows) {
  if (rows == 0) return;
  Transaction transaction = pair.cache().begin(rows);
  pair.write(chain(first_tag, rows));
  transaction.commit(rows);
  pair.kept(first_rows(rows));
}

void expect_sound(const Pair& pair) {
  EXPECT_EQ(pair.failures(), 0);
  EXPECT_EQ(pair.digest(), pair.digest_of_kept());
}

TEST(Recurrent, ABeginningCacheIsZeroAndStaysSoUntilACommit) {
  Pair pair(small);
  const Fingerprint empty = pair.digest();
  EXPECT_EQ(empty, Pair(small).digest());
  for (int round = 0; round < 3; ++round) {
    const Transaction transaction = pair.cache().begin(3);
    pair.write(chain(1, 3));  // compares tail and state with zeros
    pair.kept({});
  }
  EXPECT_EQ(pair.cache().length(), 0);
  EXPECT_EQ(pair.digest(), empty);
  EXPECT_EQ(pair.failures(), 0);
  read(pair, 1, 1);
  EXPECT_NE(pair.digest(), empty);
}

// More and fewer rows than the tail of the convolution holds, for several widths of it.
TEST(Recurrent, EveryDivisionOfATextIntoTransactionsGivesTheSameContent) {
  for (const int width : {2, 4, 7}) {
    RecurrentShape shape = small;
    shape.conv_width = width;
    constexpr int rows = 8;
    for (unsigned cuts = 0; cuts < 1U << (rows - 1); ++cuts) {
      Pair pair(shape);
      for (int row = 0; row < rows;) {
        int end = row + 1;
        while (end < rows && (cuts >> (end - 1) & 1) == 0) ++end;
        read(pair, 1 + row, end - row);
        row = end;
      }
      expect_sound(pair);
    }
  }
}

TEST(Recurrent, EveryNumberOfKeptRowsOfEveryDivisionIntoCallsGivesTheContentOfThoseRows) {
  for (const int width : {2, 4}) {
    RecurrentShape shape = small;
    shape.conv_width = width;
    for (const int before : {0, 1, 2, 5}) {
      for (int rows = 1; rows <= 6; ++rows) {
        for (unsigned cuts = 0; cuts < 1U << (rows - 1); ++cuts) {
          for (int keep = -1; keep <= rows; ++keep) {  // -1: destroyed without a commit
            Pair pair(shape);
            read(pair, 100, before);
            {
              Transaction transaction = pair.cache().begin(rows);
              write_cut(pair, chain(1, rows), cuts);
              if (keep >= 0) transaction.commit(keep);
            }
            pair.kept(first_rows(std::max(keep, 0)));
            ASSERT_EQ(pair.cache().length(), pair.length());
            read(pair, 200, 2);  // and the text goes on
            expect_sound(pair);
            ASSERT_FALSE(HasFailure()) << before << " rows before, " << keep << " of " << rows << " kept, " << cuts;
          }
        }
      }
    }
  }
}

/// Calls `use` for every forest of `size` rows: depths in preorder.
template <class Use>
void for_every_forest(std::vector<int>& depths, int size, const Use& use) {
  if (static_cast<int>(depths.size()) == size) return use(depths);
  const int max = depths.empty() ? 0 : depths.back() + 1;
  for (int depth = 0; depth <= max; ++depth) {
    depths.push_back(depth);
    for_every_forest(depths, size, use);
    depths.pop_back();
  }
}

/// The row numbers from the root to this row; none for -1.
std::vector<int> path_to(const std::vector<Node>& nodes, int row) {
  std::vector<int> path;
  if (row < 0) return path;
  for (int depth = nodes[static_cast<std::size_t>(row)].depth; row >= 0; --row) {
    if (nodes[static_cast<std::size_t>(row)].depth != depth) continue;
    path.insert(path.begin(), row);
    --depth;
  }
  return path;
}

TEST(Recurrent, AnyPathOfAnyTreeOfUpToFiveRowsCanBeKeptHoweverItComesInCalls) {
  int cases = 0;
  for (int size = 1; size <= 5; ++size) {
    std::vector<int> start;
    for_every_forest(start, size, [&](const std::vector<int>& depths) {
      std::vector<Node> nodes;
      for (const int depth : depths) nodes.push_back({depth, 1 + static_cast<int>(nodes.size())});
      for (unsigned cuts = 0; cuts < 1U << (size - 1); ++cuts) {
        for (int last = -1; last < size; ++last) {
          for (const int before : {0, 2}) {
            Pair pair(small);
            read(pair, 100, before);
            Transaction transaction = pair.cache().begin(size);
            write_cut(pair, nodes, cuts);
            const std::vector<int> path = path_to(nodes, last);
            transaction.commit(path);
            pair.kept(path);
            read(pair, 200, 1);
            expect_sound(pair);
            ASSERT_FALSE(HasFailure()) << testing::PrintToString(depths) << " kept up to row " << last;
            ++cases;
          }
        }
      }
    });
  }
  // 1, 2, 5, 14 and 42 forests, each in 2^(size - 1) divisions with size + 1 paths and two texts before.
  EXPECT_EQ(cases, 2 * (1 * 1 * 2 + 2 * 2 * 3 + 5 * 4 * 4 + 14 * 8 * 5 + 42 * 16 * 6));
}

/// Random transactions: chains and trees in one or several calls, commits of rows and of paths, rollbacks; rejected
/// rows are NaNs now and then.
void run_random(Pair& pair, Numbers& numbers, int rounds) {
  int tag = 1000;
  for (int round = 0; round < rounds; ++round) {
    const int size = 1 + numbers.below(8);
    const bool tree = numbers.below(2) == 0;
    std::vector<Node> nodes;
    for (int row = 0; row < size; ++row) {
      const int max = row == 0 ? 0 : nodes.back().depth + 1;
      nodes.push_back({tree ? (numbers.below(2) == 0 ? max : numbers.below(max + 1)) : row, tag++});
    }
    const int last = numbers.below(size + 1) - 1;
    const std::vector<int> path = path_to(nodes, last);
    if (numbers.below(4) == 0) {
      for (int row = 0; row < size; ++row) {
        if (row > last) nodes[static_cast<std::size_t>(row)].tag *= -1;  // behind the kept rows
      }
    }
    {
      Transaction transaction = pair.cache().begin(size + numbers.below(2));
      write_cut(pair, nodes, numbers.next());
      if (path.empty() && numbers.below(2) == 0) {
        // destroyed
      } else if (!tree && numbers.below(2) == 0) {
        transaction.commit(static_cast<int>(path.size()));
      } else {
        transaction.commit(path);
      }
    }
    pair.kept(path);
  }
}

TEST(Recurrent, ThousandsOfRandomTransactionsGiveTheContentOfTheKeptRows) {
  for (int seed = 0; seed < 4000; ++seed) {
    Numbers numbers(static_cast<std::uint64_t>(seed));
    const int heads = 1 + numbers.below(2);
    const RecurrentShape shape = {.delta = {.key_heads = heads,
                                            .value_heads = heads * (1 + numbers.below(2)),
                                            .key_dim = 1 + numbers.below(4),
                                            .value_dim = 1 + numbers.below(18),
                                            .channel_decays = numbers.below(2) == 1},
                                  .conv_width = 2 + numbers.below(4)};
    Pair pair(shape);
    run_random(pair, numbers, 1 + numbers.below(8));
    ASSERT_EQ(pair.failures(), 0) << "seed " << seed;
    ASSERT_EQ(pair.digest(), pair.digest_of_kept()) << "seed " << seed;
  }
}

TEST(Recurrent, AThousandRoundsOfPartialCommitsEqualReadingTheKeptRowsStraight) {
  RecurrentShape tiny = small;
  tiny.delta = {.key_heads = 1, .value_heads = 1, .key_dim = 2, .value_dim = 3};
  Pair pair(tiny);
  Numbers numbers(5);
  run_random(pair, numbers, 1000);
  EXPECT_GT(pair.length(), 1000);
  expect_sound(pair);
}

TEST(Recurrent, OnlyWhatAWorkingStateDoesNotHoldIsReplayed) {
  const auto replays_of = [](const std::vector<Node>& nodes, const std::vector<int>& path) {
    Pair pair(small);
    read(pair, 100, 3);
    Transaction transaction = pair.cache().begin(static_cast<int>(nodes.size()));
    pair.write(nodes);
    transaction.commit(path);
    EXPECT_EQ(pair.failures(), 0);
    return pair.replays();
  };
  const std::vector<Node> rows = chain(1, 6);
  EXPECT_EQ(replays_of(rows, first_rows(6)), 0);  // all were kept
  EXPECT_EQ(replays_of(rows, {}), 0);             // none was
  EXPECT_EQ(replays_of(rows, first_rows(4)), 4);
  // 0 -> 1 -> {2, 3}, 0 -> 4: the branch of row 3 replays rows 0 and 1, that of row 4 row 0.
  const std::vector<Node> tree = {{0, 1}, {1, 2}, {2, 3}, {2, 4}, {1, 5}};
  EXPECT_EQ(replays_of(tree, {0, 4}), 3);
  EXPECT_EQ(replays_of(tree, {0, 1, 2}), 3 + 3);
  EXPECT_EQ(replays_of(tree, {0}), 3 + 1);
}

TEST(Recurrent, TheDigestCoversWhatALaterRowCanReadAndNothingElse) {
  const int parts[] = {0, small.channels(), small.channels() + small.key_floats()};  // an input, a key, a value
  const auto digest_with = [&](int changed_row, int part) {
    RecurrentCache cache(small, 4, fold);
    cache.open(4);
    const RecurrentCache::Rows rows = cache.claim_rows(0, 4);
    for (int row = 0; row < 4; ++row) {
      std::vector<float> numbers = row_of(small, 1 + row);
      if (row == changed_row) numbers[static_cast<std::size_t>(part)] += 1;
      std::copy(numbers.begin(), numbers.end(), rows.inputs + row * rows.stride);
    }
    fold(small.delta, rows.folded(), 4, rows.from, rows.to);
    cache.settle(4);
    Digest digest;
    cache.add_to(digest, 4);
    return digest.value();
  };
  const Fingerprint unchanged = digest_with(-1, 0);
  for (int row = 0; row < 4; ++row) {
    EXPECT_EQ(digest_with(row, parts[0]) == unchanged, row == 0);  // the tail holds three inputs
    EXPECT_NE(digest_with(row, parts[1]), unchanged);
    EXPECT_NE(digest_with(row, parts[2]), unchanged);
  }
}

/// Layers of all kinds, as in a model that mixes them.
Cache mixed_cache() {
  std::vector<std::unique_ptr<LayerCache>> layers;
  layers.push_back(std::make_unique<RecurrentCache>(small, 4, fold));
  layers.push_back(std::make_unique<AttentionCache>(1, 1, AttentionCache::everything, 20, 4));
  layers.push_back(std::make_unique<HistoryCache>());
  return Cache(std::move(layers), 20, 4);
}

void write_layer(Cache& cache, int layer, int position, int tag) {
  if (layer == 0) {
    const RecurrentCache::Rows rows = cache.layer<RecurrentCache>(0).claim_rows(position, 1);
    const std::vector<float> row = row_of(small, tag);  // the parts of one row follow each other
    std::copy(row.begin(), row.end(), rows.inputs);
    fold(small.delta, rows.folded(), 1, rows.from, rows.to);
  } else if (layer == 1) {
    const float value = static_cast<float>(tag);
    store_positions(cache.layer<AttentionCache>(1).claim_rows(position, 1), position, 1, &value, &value, 0, 0, 1);
  } else {
    cache.layer<HistoryCache>(2).write(position, tag);
  }
}

void write(Cache& cache, const std::vector<int>& tags) {
  int position = cache.end();
  for (const int tag : tags) {
    for (int layer = 0; layer < 3; ++layer) write_layer(cache, layer, position, tag);
    ++position;
  }
  cache.wrote(static_cast<int>(tags.size()));
}

TEST(Recurrent, AnExceptionHalfWayThroughMixedLayersLeavesThemAsTheyWere) {
  Cache expected = mixed_cache();
  for (int tag = 1; tag <= 2; ++tag) {
    Transaction transaction = expected.begin(1);
    write(expected, {tag});
    transaction.commit(1);
  }
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
          for (int layer = 0; layer < written_layers; ++layer) write_layer(cache, layer, 1, -99);
          throw std::runtime_error("the model stopped");
        },
        std::runtime_error);
    Transaction transaction = cache.begin(3);
    write(cache, {2, -5, -6});
    transaction.commit(1);
    EXPECT_EQ(cache.digest(), expected.digest()) << written_layers << " layers were written";
  }
}

TEST(Recurrent, BytesAreThoseOfTailsStatesAndRows) {
  // The layers of Qwen3.5-4B: 32 value heads of 128 by 128.
  const RecurrentShape shape = {.delta = {.key_heads = 16, .value_heads = 32, .key_dim = 128, .value_dim = 128},
                                .conv_width = 4};
  EXPECT_EQ(shape.channels(), 8192);
  EXPECT_EQ(sizes_of(shape).fixed_bytes(), 2U * 4 * (32 * 128 * 128 + 3 * 8192));
  EXPECT_EQ(sizes_of(shape).bytes_per_pending_row(), 4U * (8192 + 16 * 128 + 32 * 128 + 2 * 32));
  RecurrentShape apart = shape;
  apart.delta.channel_decays = true;
  EXPECT_EQ(sizes_of(apart).bytes_per_pending_row(), 4U * (8192 + 16 * 128 + 32 * 128 + 32 * 128 + 32));
}

TEST(RecurrentDeathTest, ALayerThatMissedAKeptRowAbortsTheCommit) {
  Cache cache = mixed_cache();
  Transaction transaction = cache.begin(2);
  for (int layer = 0; layer < 3; ++layer) write_layer(cache, layer, 0, 1);
  for (int layer = 1; layer < 3; ++layer) write_layer(cache, layer, 1, 2);  // the recurrent one not
  cache.wrote(2);
  EXPECT_DEATH(transaction.commit(2), "never written into this layer");
  EXPECT_DEATH(transaction.commit(std::vector<int>{0, 1}), "never written into this layer");
}

TEST(RecurrentDeathTest, BreachesOfTheContractAbort) {
  RecurrentShape shape = small;
  shape.conv_width = 1;
  EXPECT_DEATH(RecurrentCache(shape, 1, fold), "has a tail");
  shape = small;
  shape.delta.value_heads = 3;
  shape.delta.key_heads = 2;
  EXPECT_DEATH(RecurrentCache(shape, 1, fold), "divide value heads");
  shape = small;
  shape.delta.key_dim = 0;
  EXPECT_DEATH(RecurrentCache(shape, 1, fold), "heads and dimensions");
  EXPECT_DEATH(RecurrentCache(small, 0, fold), "room for at least one row");
  EXPECT_DEATH(RecurrentCache(small, 1, nullptr), "can replay rows");
  RecurrentCache cache(small, 2, fold);
  EXPECT_DEATH(cache.claim_rows(0, 1), "inside the open transaction");
  cache.open(2);
  EXPECT_DEATH(cache.claim_rows(1, 1), "ascending order");
  EXPECT_DEATH(cache.claim_rows(0, 0), "at least one row");
  EXPECT_DEATH(cache.claim_rows(0, 3), "no transaction has more rows");
  cache.claim_rows(0, 2);
  cache.branch(1);
  EXPECT_DEATH(cache.claim_rows(1, 1), "no transaction has more rows");
  EXPECT_DEATH(cache.branch(2), "a branch begins");
  EXPECT_DEATH(cache.keep(std::vector<int>{0, 2}), "never written into this layer");
  EXPECT_DEATH(cache.settle(2), "never written");
}

}  // namespace
}  // namespace draftproof::recurrent_cache_test
