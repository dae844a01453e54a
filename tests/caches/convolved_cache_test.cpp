// SPDX-License-Identifier: MIT
// The caches of Mamba-2 and Mamba-1 layers against states that are computed row by row from the text.
#include "ref/caches/convolved_cache.h"

#include <gtest/gtest.h>

#include <memory>
#include <utility>
#include <vector>

#include "ref/caches/selective_scan_cache.h"
#include "ref/caches/state_space_cache.h"

namespace draftproof::test::convolved_cache_test {
namespace {

/// The number `i` of what a row of this tag stores: its inputs, then what it folds.
float number(int tag, int i) { return static_cast<float>((tag * 31 + i * 7) % 17) / 16.0F - 0.5F; }

int folded_rows = 0;

struct StateSpace {
  using LayerCache = StateSpaceCache;
  static constexpr StateSpaceShape shape = {.heads = 2, .head_dim = 3, .groups = 1, .state_size = 2, .conv_width = 3};

  /// As the model folds rows; counts them.
  static void fold(const StateSpaceShape& of, const StateSpaceRows& rows, int count, const float* from, float* to) {
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

  static auto new_layer(const StateSpaceShape& of) { return std::make_unique<StateSpaceCache>(of, 8, fold); }
  static auto claim(StateSpaceCache& layer, int position, int rows) { return layer.claim_rows(position, rows); }
  /// What a row stores, and how many floats of it.
  static std::vector<std::pair<float*, int>> parts(const StateSpaceCache::Rows& rows) {
    return {{rows.inputs, shape.channels()},
            {rows.keys, shape.key_floats()},
            {rows.values, shape.inner()},
            {rows.decays, shape.heads}};
  }
  static void fold_all(const StateSpaceCache::Rows& rows, int count) {
    fold(shape, rows.folded(), count, rows.from, rows.to);
  }
};

struct SelectiveScan {
  using LayerCache = SelectiveScanCache;
  static constexpr SelectiveScanShape shape = {.channels = 3, .state_size = 2, .conv_width = 3, .step_rank = 1};
  static constexpr float rates[] = {0.5F, 0.25F, 0.75F, 1, 0.125F, 0.375F};

  /// Folds rows with decays that need the rates, as those of the model do; counts them.
  static void fold(const float* by, const SelectiveScanRows& rows, int count, const float* from, float* to) {
    folded_rows += count;
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

  static auto new_layer(const SelectiveScanShape& of) {
    return std::make_unique<SelectiveScanCache>(
        of, 8, [](const float* by, const SelectiveScanRows& rows, int count, const float* from, float* to) {
          fold(by, rows, count, from, to);
        });
  }
  static auto claim(SelectiveScanCache& layer, int position, int rows) {
    return layer.claim_rows(rates, position, rows);
  }
  static std::vector<std::pair<float*, int>> parts(const SelectiveScanCache::Rows& rows) {
    return {{rows.inputs, shape.channels},
            {rows.keys, shape.state_size},
            {rows.values, shape.channels},
            {rows.steps, shape.channels}};
  }
  static void fold_all(const SelectiveScanCache::Rows& rows, int count) {
    fold(rates, rows.folded(), count, rows.from, rows.to);
  }
};

template <class Kind>
class ConvolvedCaches : public testing::Test {
 protected:
  static Cache new_cache() { return new_cache(Kind::shape); }
  template <class Shape>
  static Cache new_cache(const Shape& shape) {
    std::vector<std::unique_ptr<LayerCache>> layers;
    layers.push_back(Kind::new_layer(shape));
    return Cache(std::move(layers), 100, 8);
  }

  /// Writes rows of these tags behind `depth` pending rows, as one call of a model would.
  static void write(Cache& cache, int depth, const std::vector<int>& tags) {
    auto& layer = cache.layer<typename Kind::LayerCache>(0);
    layer.branch(cache.length() + depth);
    const auto rows = Kind::claim(layer, cache.length() + depth, static_cast<int>(tags.size()));
    for (std::size_t row = 0; row < tags.size(); ++row) {
      const std::ptrdiff_t at = static_cast<std::ptrdiff_t>(row) * rows.stride;
      int i = 0;
      for (const auto& [to, count] : Kind::parts(rows)) {
        for (int k = 0; k < count; ++k) to[at + k] = number(tags[row], i++);
      }
    }
    Kind::fold_all(rows, static_cast<int>(tags.size()));
    cache.wrote(static_cast<int>(tags.size()));
  }

  static void read(Cache& cache, const std::vector<int>& tags) {
    Transaction transaction = cache.begin(static_cast<int>(tags.size()));
    write(cache, 0, tags);
    transaction.commit(static_cast<int>(tags.size()));
  }

  static Fingerprint digest_of(const std::vector<int>& tags) {
    Cache cache = new_cache();
    for (const int tag : tags) read(cache, {tag});
    return cache.digest();
  }
};

using Kinds = testing::Types<StateSpace, SelectiveScan>;
TYPED_TEST_SUITE(ConvolvedCaches, Kinds);

TYPED_TEST(ConvolvedCaches, ARejectedRowLeavesNoTrace) {
  for (int kept = 0; kept <= 4; ++kept) {
    Cache cache = this->new_cache();
    this->read(cache, {1, 2});
    {
      Transaction transaction = cache.begin(4);
      this->write(cache, 0, {3, 4, 5, 6});
      if (kept > 0) transaction.commit(kept);
    }
    std::vector<int> text = {1, 2, 3, 4, 5, 6};
    text.resize(static_cast<std::size_t>(2 + kept));
    EXPECT_EQ(cache.digest(), this->digest_of(text)) << kept;
    this->read(cache, {7});
    text.push_back(7);
    EXPECT_EQ(cache.digest(), this->digest_of(text)) << kept;
  }
}

TYPED_TEST(ConvolvedCaches, ABranchOfATreeBeginsWithTheStatesOfItsAncestors) {
  Cache cache = this->new_cache();
  this->read(cache, {1, 2});
  Transaction transaction = cache.begin(6);
  this->write(cache, 0, {3, 4, 5});  // rows 0 to 2
  this->write(cache, 1, {6, 7});     // rows 3 and 4, behind row 0
  this->write(cache, 2, {8});        // row 5, behind row 3
  transaction.commit(std::vector<int>{0, 3, 5});
  EXPECT_EQ(cache.digest(), this->digest_of({1, 2, 3, 6, 8}));
}

TYPED_TEST(ConvolvedCaches, KeptRowsThatMadeTheWorkingStatesAreNotFoldedAgain) {
  Cache cache = this->new_cache();
  Transaction transaction = cache.begin(3);
  this->write(cache, 0, {1, 2, 3});
  folded_rows = 0;
  transaction.commit(3);
  EXPECT_EQ(folded_rows, 0);
}

TYPED_TEST(ConvolvedCaches, ASnapshotRestoresItsLengthIntoTheSameShape) {
  Cache cache = this->new_cache();
  this->read(cache, {1, 2, 3, 4});
  const Snapshot snapshot = cache.snapshot(0);
  Cache other = this->new_cache();
  EXPECT_FALSE(other.restore(snapshot, 3));
  EXPECT_TRUE(other.restore(snapshot, 4));
  EXPECT_EQ(other.digest(), cache.digest());
  other.clear();
  EXPECT_EQ(other.digest(), this->new_cache().digest());
  auto wider = TypeParam::shape;
  wider.state_size = 3;
  EXPECT_FALSE(this->new_cache(wider).fits(snapshot));
}

TYPED_TEST(ConvolvedCaches, TheDigestIsOfTheStateToo) {
  const std::vector<int> tail = {2, 3, 4, 5, 6};  // more than the inputs that are kept
  std::vector<int> text = tail, other = tail;
  text.insert(text.begin(), 1);
  other.insert(other.begin(), 9);
  EXPECT_NE(this->digest_of(text), this->digest_of(other));
}

TYPED_TEST(ConvolvedCaches, TheFirstPositionHasASnapshotAndOnlyTheStateBehindItsLastFits) {
  Cache cache = this->new_cache();
  EXPECT_EQ(cache.snapshot(0).layers[0], nullptr);
  this->read(cache, {1});
  const Snapshot snapshot = cache.snapshot(0);
  ASSERT_NE(snapshot.layers[0], nullptr);
  EXPECT_TRUE(cache.fits(snapshot));
  const auto fits = [&](auto change) {
    LayerSnapshot changed = *snapshot.layers[0];
    change(changed);
    return cache.layer<typename TypeParam::LayerCache>(0).fits(changed);
  };
  EXPECT_TRUE(fits([](LayerSnapshot& s) { s.from = s.to = s.shortest = 9; }));
  EXPECT_FALSE(fits([](LayerSnapshot& s) { s.from = s.to = s.shortest = 0; }));
  EXPECT_FALSE(fits([](LayerSnapshot& s) { s.from -= 1; }));
  EXPECT_FALSE(fits([](LayerSnapshot& s) { s.shortest -= 1; }));
  EXPECT_FALSE(fits([](LayerSnapshot& s) { s.form = LayerSnapshot::Form::rows; }));
  EXPECT_FALSE(fits([](LayerSnapshot& s) { s.layout += "?"; }));
  EXPECT_FALSE(fits([](LayerSnapshot& s) { s.data.pop_back(); }));
}

TEST(SizesOfConvolvedCaches, BytesAreThoseOfTailsStatesAndRows) {
  // Mamba-Codestral-7B: 128 heads of 64, 8 groups of 128.
  const StateSpaceShape mamba2 = {.heads = 128, .head_dim = 64, .groups = 8, .state_size = 128, .conv_width = 4};
  EXPECT_EQ(mamba2.channels(), 8192 + 2048);
  EXPECT_EQ(sizes_of(mamba2).fixed_bytes(), 2U * 4 * (3 * 10240 + 8192 * 128));
  EXPECT_EQ(sizes_of(mamba2).bytes_per_pending_row(), 4U * (10240 + 1024 + 8192 + 128));
  // Jamba Mini: 8192 channels of 16.
  const ConvolvedSizes jamba = sizes_of({.channels = 8192, .state_size = 16, .conv_width = 4, .step_rank = 256});
  EXPECT_EQ(jamba.fixed_bytes(), 2U * 4 * (3 * 8192 + 8192 * 16));
  EXPECT_EQ(jamba.bytes_per_pending_row(), 4U * (8192 + 16 + 2 * 8192));
}

TEST(ConvolvedCacheDeathTest, AShapeThatIsNotOfALayerAborts) {
  StateSpaceShape mamba2 = StateSpace::shape;
  mamba2.groups = 3;
  EXPECT_DEATH(StateSpace::new_layer(mamba2), "groups divide heads");
  mamba2 = StateSpace::shape;
  mamba2.state_size = 0;
  EXPECT_DEATH(StateSpace::new_layer(mamba2), "heads and states");
  EXPECT_DEATH(StateSpaceCache(StateSpace::shape, 1, nullptr), "can replay rows");
  SelectiveScanShape jamba = SelectiveScan::shape;
  jamba.state_size = 0;
  EXPECT_DEATH(SelectiveScan::new_layer(jamba), "channels and states");
  EXPECT_DEATH(SelectiveScanCache(SelectiveScan::shape, 1, nullptr), "can replay rows");
}

}  // namespace
}  // namespace draftproof::test::convolved_cache_test
