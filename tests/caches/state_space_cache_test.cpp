// SPDX-License-Identifier: MIT
// The cache of a Mamba-2 layer against states that are computed row by row from the text.
#include "ref/caches/state_space_cache.h"

#include <gtest/gtest.h>

#include <memory>
#include <vector>

namespace draftproof::state_space_cache_test {
namespace {

constexpr StateSpaceShape shape = {.heads = 2, .head_dim = 3, .groups = 1, .state_size = 2, .conv_width = 3};

/// The number `i` of what a row of this tag stores: its inputs, then keys, values and decays.
float number(int tag, int i) { return static_cast<float>((tag * 31 + i * 7) % 17) / 16.0F - 0.5F; }

/// As the model folds rows; counts them.
int folded_rows = 0;
void fold(const StateSpaceShape& of, const StateSpaceRows& rows, int count, const float* from, float* to) {
  folded_rows += count;
  for (int row = 0; row < count; ++row) {
    const float* const old = row == 0 ? from : to;
    const std::ptrdiff_t at = row * rows.stride;
    for (int head = 0; head < of.heads; ++head) {
      for (int n = 0; n < of.state_size; ++n) {
        for (int p = 0; p < of.head_dim; ++p) {
          const int i = (head * of.state_size + n) * of.head_dim + p;
          to[i] = old[i] * rows.decays[at + head] + rows.keys[at + n] * rows.values[at + head * of.head_dim + p];
        }
      }
    }
  }
}

Cache new_cache() {
  std::vector<std::unique_ptr<LayerCache>> layers;
  layers.push_back(std::make_unique<StateSpaceCache>(shape, 8, fold));
  return Cache(std::move(layers), 100, 8);
}

/// Writes rows of these tags behind `depth` pending rows, as one call of a model would.
void write(Cache& cache, int depth, const std::vector<int>& tags) {
  auto& layer = cache.layer<StateSpaceCache>(0);
  layer.branch(cache.length() + depth);
  const StateSpaceCache::Rows rows = layer.claim_rows(cache.length() + depth, static_cast<int>(tags.size()));
  for (std::size_t row = 0; row < tags.size(); ++row) {
    const std::ptrdiff_t at = static_cast<std::ptrdiff_t>(row) * rows.stride;
    int i = 0;
    const auto put = [&](float* to, int count) {
      for (int k = 0; k < count; ++k) to[at + k] = number(tags[row], i++);
    };
    put(rows.inputs, shape.channels());
    put(rows.keys, shape.key_floats());
    put(rows.values, shape.inner());
    put(rows.decays, shape.heads);
  }
  fold(shape, rows.folded(), static_cast<int>(tags.size()), rows.from, rows.to);
  cache.wrote(static_cast<int>(tags.size()));
}

void read(Cache& cache, const std::vector<int>& tags) {
  Transaction transaction = cache.begin(static_cast<int>(tags.size()));
  write(cache, 0, tags);
  transaction.commit(static_cast<int>(tags.size()));
}

Fingerprint digest_of(const std::vector<int>& tags) {
  Cache cache = new_cache();
  for (const int tag : tags) read(cache, {tag});
  return cache.digest();
}

TEST(StateSpaceCache, ARejectedRowLeavesNoTrace) {
  for (int kept = 0; kept <= 4; ++kept) {
    Cache cache = new_cache();
    read(cache, {1, 2});
    {
      Transaction transaction = cache.begin(4);
      write(cache, 0, {3, 4, 5, 6});
      if (kept > 0) transaction.commit(kept);
    }
    std::vector<int> text = {1, 2, 3, 4, 5, 6};
    text.resize(static_cast<std::size_t>(2 + kept));
    EXPECT_EQ(cache.digest(), digest_of(text)) << kept;
    read(cache, {7});
    text.push_back(7);
    EXPECT_EQ(cache.digest(), digest_of(text)) << kept;
  }
}

TEST(StateSpaceCache, ABranchOfATreeBeginsWithTheStatesOfItsAncestors) {
  Cache cache = new_cache();
  read(cache, {1, 2});
  Transaction transaction = cache.begin(6);
  write(cache, 0, {3, 4, 5});  // rows 0 to 2
  write(cache, 1, {6, 7});     // rows 3 and 4, behind row 0
  write(cache, 2, {8});        // row 5, behind row 3
  transaction.commit(std::vector<int>{0, 3, 5});
  EXPECT_EQ(cache.digest(), digest_of({1, 2, 3, 6, 8}));
}

TEST(StateSpaceCache, KeptRowsThatMadeTheWorkingStatesAreNotFoldedAgain) {
  Cache cache = new_cache();
  Transaction transaction = cache.begin(3);
  write(cache, 0, {1, 2, 3});
  folded_rows = 0;
  transaction.commit(3);
  EXPECT_EQ(folded_rows, 0);
}

TEST(StateSpaceCache, ASnapshotRestoresItsLengthIntoTheSameShape) {
  Cache cache = new_cache();
  read(cache, {1, 2, 3, 4});
  const Snapshot snapshot = cache.snapshot(0);
  Cache other = new_cache();
  EXPECT_FALSE(other.restore(snapshot, 3));
  EXPECT_TRUE(other.restore(snapshot, 4));
  EXPECT_EQ(other.digest(), cache.digest());
  other.clear();
  EXPECT_EQ(other.digest(), new_cache().digest());
  StateSpaceShape wider = shape;
  wider.state_size = 3;
  std::vector<std::unique_ptr<LayerCache>> layers;
  layers.push_back(std::make_unique<StateSpaceCache>(wider, 8, fold));
  EXPECT_FALSE(Cache(std::move(layers), 100, 8).fits(snapshot));
}

TEST(StateSpaceCache, BytesAreThoseOfTailsStatesAndRows) {
  // Mamba-Codestral-7B: 128 heads of 64, 8 groups of 128.
  const StateSpaceShape large = {.heads = 128, .head_dim = 64, .groups = 8, .state_size = 128, .conv_width = 4};
  EXPECT_EQ(large.channels(), 8192 + 2048);
  EXPECT_EQ(sizes_of(large).fixed_bytes(), 2U * 4 * (3 * 10240 + 8192 * 128));
  EXPECT_EQ(sizes_of(large).bytes_per_pending_row(), 4U * (10240 + 1024 + 8192 + 128));
}

TEST(StateSpaceCacheDeathTest, AShapeThatIsNotOfALayerAborts) {
  StateSpaceShape wrong = shape;
  wrong.groups = 3;
  EXPECT_DEATH(StateSpaceCache(wrong, 1, fold), "groups divide heads");
  wrong = shape;
  wrong.state_size = 0;
  EXPECT_DEATH(StateSpaceCache(wrong, 1, fold), "heads and states");
  EXPECT_DEATH(StateSpaceCache(shape, 1, nullptr), "can replay rows");
}

}  // namespace
}  // namespace draftproof::state_space_cache_test
