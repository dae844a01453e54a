// SPDX-License-Identifier: MIT
// The cache of a Mamba-1 layer against states that are computed row by row from the text.
#include "ref/caches/selective_scan_cache.h"

#include <gtest/gtest.h>

#include <memory>
#include <vector>

namespace draftproof::selective_scan_cache_test {
namespace {

constexpr SelectiveScanShape shape = {.channels = 3, .state_size = 2, .conv_width = 3, .step_rank = 1};
constexpr float rates[] = {0.5F, 0.25F, 0.75F, 1, 0.125F, 0.375F};

/// The number `i` of what a row of this tag stores: its inputs, then keys, values and steps.
float number(int tag, int i) { return static_cast<float>((tag * 31 + i * 7) % 17) / 16.0F - 0.5F; }

/// Folds rows with decays that need the rates, as those of the model do.
void fold(const float* by, const SelectiveScanRows& rows, int count, const float* from, float* to) {
  for (int row = 0; row < count; ++row) {
    const float* const old = row == 0 ? from : to;
    const std::ptrdiff_t at = row * rows.stride;
    for (int i = 0; i < shape.state_size * shape.channels; ++i) {
      const int channel = i % shape.channels;
      to[i] =
          old[i] * by[i] * rows.steps[at + channel] + rows.keys[at + i / shape.channels] * rows.values[at + channel];
    }
  }
}

Cache new_cache() {
  std::vector<std::unique_ptr<LayerCache>> layers;
  layers.push_back(std::make_unique<SelectiveScanCache>(shape, 8, fold));
  return Cache(std::move(layers), 100, 8);
}

/// Writes rows of these tags behind `depth` pending rows, as one call of a model would.
void write(Cache& cache, int depth, const std::vector<int>& tags) {
  auto& layer = cache.layer<SelectiveScanCache>(0);
  layer.branch(cache.length() + depth);
  const auto rows = layer.claim_rows(rates, cache.length() + depth, static_cast<int>(tags.size()));
  for (std::size_t row = 0; row < tags.size(); ++row) {
    const std::ptrdiff_t at = static_cast<std::ptrdiff_t>(row) * rows.stride;
    int i = 0;
    const auto put = [&](float* to, int count) {
      for (int k = 0; k < count; ++k) to[at + k] = number(tags[row], i++);
    };
    put(rows.inputs, shape.channels);
    put(rows.keys, shape.state_size);
    put(rows.values, shape.channels);
    put(rows.steps, shape.channels);
  }
  fold(rates, rows.folded(), static_cast<int>(tags.size()), rows.from, rows.to);
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

TEST(SelectiveScanCache, ARejectedRowLeavesNoTrace) {
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
  }
}

TEST(SelectiveScanCache, ABranchOfATreeBeginsWithTheStatesOfItsAncestors) {
  Cache cache = new_cache();
  read(cache, {1, 2});
  Transaction transaction = cache.begin(6);
  write(cache, 0, {3, 4, 5});  // rows 0 to 2
  write(cache, 1, {6, 7});     // rows 3 and 4, behind row 0
  write(cache, 2, {8});        // row 5, behind row 3
  transaction.commit(std::vector<int>{0, 3, 5});
  EXPECT_EQ(cache.digest(), digest_of({1, 2, 3, 6, 8}));
}

TEST(SelectiveScanCache, ASnapshotRestoresItsLengthIntoTheSameShape) {
  Cache cache = new_cache();
  read(cache, {1, 2, 3, 4});
  const Snapshot snapshot = cache.snapshot(0);
  Cache other = new_cache();
  EXPECT_FALSE(other.restore(snapshot, 3));
  EXPECT_TRUE(other.restore(snapshot, 4));
  EXPECT_EQ(other.digest(), cache.digest());
  SelectiveScanShape wider = shape;
  wider.state_size = 3;
  std::vector<std::unique_ptr<LayerCache>> layers;
  layers.push_back(std::make_unique<SelectiveScanCache>(wider, 8, fold));
  EXPECT_FALSE(Cache(std::move(layers), 100, 8).fits(snapshot));
}

TEST(SelectiveScanCache, BytesAreThoseOfTailsStatesAndRows) {
  // Jamba Mini: 8192 channels of 16.
  const ConvolvedSizes sizes = sizes_of({.channels = 8192, .state_size = 16, .conv_width = 4, .step_rank = 256});
  EXPECT_EQ(sizes.fixed_bytes(), 2U * 4 * (3 * 8192 + 8192 * 16));
  EXPECT_EQ(sizes.bytes_per_pending_row(), 4U * (8192 + 16 + 2 * 8192));
}

TEST(SelectiveScanCacheDeathTest, AShapeThatIsNotOfALayerAborts) {
  SelectiveScanShape wrong = shape;
  wrong.state_size = 0;
  EXPECT_DEATH(SelectiveScanCache(wrong, 1, fold), "channels and states");
  EXPECT_DEATH(SelectiveScanCache(shape, 1, nullptr), "can replay rows");
}

}  // namespace
}  // namespace draftproof::selective_scan_cache_test
