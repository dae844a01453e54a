// SPDX-License-Identifier: MIT
// The cache of a short convolution against the inputs that a text gives it, row by row.
#include "ref/caches/convolution_cache.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <memory>
#include <vector>

namespace draftproof::convolution_cache_test {
namespace {

constexpr int channels = 3;

/// The input of channel `c` in the row of a tag.
float input_of(int tag, int c) { return static_cast<float>(tag * 10 + c); }

/// A cache of one layer, and the tags that it must hold.
class Pair {
 public:
  explicit Pair(int width, int max_pending_rows = 12) : width_(width), cache_(make(width, max_pending_rows)) {}

  Cache& cache() { return cache_; }

  /// Writes rows of these tags behind `depth` pending rows, and expects the tail to be that of the text before them.
  void write(int depth, const std::vector<int>& tags) {
    auto& layer = cache_.layer<ConvolutionCache>(0);
    const int position = cache_.length() + depth;
    layer.branch(position);
    before_.resize(static_cast<std::size_t>(position));
    const ConvolutionCache::Rows rows = layer.claim_rows(position, static_cast<int>(tags.size()));
    for (int i = 0; i < width_ - 1; ++i) {
      const int at = position - (width_ - 1) + i;
      for (int c = 0; c < channels; ++c) {
        const float expected = at < 0 ? 0 : input_of(before_[static_cast<std::size_t>(at)], c);
        EXPECT_EQ(rows.tail[i * channels + c], expected) << "position " << position << ", input " << i;
      }
    }
    for (std::size_t row = 0; row < tags.size(); ++row) {
      for (int c = 0; c < channels; ++c) {
        rows.inputs[static_cast<std::ptrdiff_t>(row) * rows.stride + c] = input_of(tags[row], c);
      }
      before_.push_back(tags[row]);
    }
    cache_.wrote(static_cast<int>(tags.size()));
  }

  /// Reads tags in one transaction.
  void read(const std::vector<int>& tags) {
    before_ = text_;
    Transaction transaction = cache_.begin(static_cast<int>(tags.size()));
    write(0, tags);
    transaction.commit(static_cast<int>(tags.size()));
    text_.insert(text_.end(), tags.begin(), tags.end());
  }

  /// What the next transactions write behind.
  void holds(const std::vector<int>& tags) { text_ = before_ = tags; }

 private:
  static Cache make(int width, int max_pending_rows) {
    std::vector<std::unique_ptr<LayerCache>> layers;
    layers.push_back(std::make_unique<ConvolutionCache>(ConvolutionShape{channels, width}, max_pending_rows));
    return Cache(std::move(layers), 1000, max_pending_rows);
  }

  int width_;
  Cache cache_;
  std::vector<int> text_;
  std::vector<int> before_;  // of the next row
};

Fingerprint digest_of(int width, const std::vector<int>& tags) {
  Pair one_by_one(width);
  for (const int tag : tags) one_by_one.read({tag});
  return one_by_one.cache().digest();
}

TEST(ConvolutionCache, HasTheDigestOfATextReadRowByRowHoweverItIsCut) {
  for (int width = 2; width <= 5; ++width) {
    const std::vector<int> text = {1, 2, 3, 4, 5, 6, 7};
    for (std::size_t cut = 1; cut < text.size(); ++cut) {
      Pair pair(width);
      pair.read({text.begin(), text.begin() + static_cast<std::ptrdiff_t>(cut)});
      pair.read({text.begin() + static_cast<std::ptrdiff_t>(cut), text.end()});
      EXPECT_EQ(pair.cache().digest(), digest_of(width, text)) << width << " " << cut;
    }
  }
}

TEST(ConvolutionCache, ARejectedRowLeavesNoTrace) {
  for (int width = 2; width <= 5; ++width) {
    for (int kept = 0; kept <= 4; ++kept) {
      Pair pair(width);
      pair.read({1, 2});
      {
        Transaction transaction = pair.cache().begin(4);
        pair.holds({1, 2});
        pair.write(0, {3, 4, 5, 6});
        if (kept > 0) transaction.commit(kept);
      }
      std::vector<int> text = {1, 2, 3, 4, 5, 6};
      text.resize(static_cast<std::size_t>(2 + kept));
      EXPECT_EQ(pair.cache().digest(), digest_of(width, text)) << width << " " << kept;
      pair.holds(text);
      pair.read({7});  // compares the tail
    }
  }
}

TEST(ConvolutionCache, ABranchOfATreeSeesItsAncestorsAndAKeptPathIsTheText) {
  for (int width = 2; width <= 5; ++width) {
    Pair pair(width);
    pair.read({1, 2});
    Transaction transaction = pair.cache().begin(6);
    pair.holds({1, 2});
    pair.write(0, {3, 4, 5});  // rows 0 to 2
    pair.holds({1, 2, 3});
    pair.write(1, {6, 7});  // rows 3 and 4, behind row 0
    pair.holds({1, 2, 3, 6});
    pair.write(2, {8});  // row 5, behind row 3
    transaction.commit(std::vector<int>{0, 3, 5});
    EXPECT_EQ(pair.cache().digest(), digest_of(width, {1, 2, 3, 6, 8}));
  }
}

TEST(ConvolutionCache, ASnapshotRestoresItsLengthAndNoOther) {
  Pair pair(4);
  pair.read({1, 2, 3, 4, 5});
  const Snapshot snapshot = pair.cache().snapshot(0);
  const Fingerprint wanted = pair.cache().digest();
  EXPECT_EQ(snapshot.bytes(), sizeof(float) * 3 * channels);
  Pair other(4);
  EXPECT_FALSE(other.cache().restore(snapshot, 4));
  EXPECT_TRUE(other.cache().restore(snapshot, 5));
  EXPECT_EQ(other.cache().digest(), wanted);
  EXPECT_FALSE(other.cache().truncate(3)) << "a state cannot forget";
  other.cache().clear();
  EXPECT_EQ(other.cache().digest(), Pair(4).cache().digest());
  EXPECT_FALSE(Pair(3).cache().fits(snapshot)) << "another width";
  EXPECT_TRUE(pair.cache().layer<ConvolutionCache>(0).fits(*snapshot.layers[0]));
  EXPECT_FALSE(ConvolutionCache(ConvolutionShape{3 * channels, 2}, 12).fits(*snapshot.layers[0])) << "as many numbers";
}

TEST(ConvolutionCache, BytesAreThoseOfTailsAndRows) {
  const ConvolvedSizes sizes = sizes_of(ConvolutionShape{2048, 3});  // LFM2-1.2B
  EXPECT_EQ(sizes.fixed_bytes(), 2U * 4 * 2 * 2048);
  EXPECT_EQ(sizes.bytes_per_pending_row(), 4U * 2048);
}

TEST(ConvolutionCacheDeathTest, AShapeWithoutATailAborts) {
  EXPECT_DEATH(ConvolutionCache(ConvolutionShape{4, 1}, 1), "has a tail");
  EXPECT_DEATH(ConvolutionCache(ConvolutionShape{4, 3}, 0), "room for at least one row");
}

}  // namespace
}  // namespace draftproof::convolution_cache_test
