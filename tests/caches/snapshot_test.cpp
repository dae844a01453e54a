// SPDX-License-Identifier: MIT
#include "ref/caches/snapshot.h"

#include <gtest/gtest.h>
#include <rapidcheck/gtest.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "ref/caches/attention_cache.h"
#include "ref/caches/cache.h"
#include "ref/caches/feature_cache.h"
#include "ref/caches/history_cache.h"

namespace draftproof::snapshot_test {
namespace {

constexpr int history = -1, features = -2;  // in place of a window
constexpr int kinds[] = {history, features, AttentionCache::everything, 1, 2, 3, 4, 5, 6, 7, 8, 9};

struct Size {
  int capacity;
  int pending_rows;
};
/// Snapshots of one are restored into the others.
constexpr Size sizes[] = {{40, 3}, {64, 1}, {48, 16}, {30, 10}};

std::unique_ptr<LayerCache> make_layer(int kind, Size size) {
  if (kind == history) return std::make_unique<HistoryCache>();
  if (kind == features) return std::make_unique<FeatureCache>(2, size.capacity);
  return std::make_unique<AttentionCache>(1, 1, kind, size.capacity, size.pending_rows);
}

void write_row(LayerCache& layer, int position, int tag) {
  if (auto* const tokens = dynamic_cast<HistoryCache*>(&layer)) return tokens->write(position, tag);
  const float key = static_cast<float>(tag);
  const float value = -key;
  if (auto* const rows = dynamic_cast<FeatureCache*>(&layer)) return rows->write(position, std::array{key, value});
  store_positions(dynamic_cast<AttentionCache&>(layer).claim_rows(position, 1), position, 1, &key, &value, 0, 0, 1);
}

/// Returns the tag at a position that the next row can see.
int read_row(const LayerCache& layer, int position) {
  if (const auto* const tokens = dynamic_cast<const HistoryCache*>(&layer)) return tokens->tokens(position + 1).back();
  float key = 0;
  float value = 0;
  if (const auto* const rows = dynamic_cast<const FeatureCache*>(&layer)) {
    key = rows->row(position)[0];
    value = rows->row(position)[1];
    return key == -value ? static_cast<int>(key) : -1;
  }
  read_position(dynamic_cast<const AttentionCache&>(layer).kv(), position, 0, &key, &value);
  return key == -value ? static_cast<int>(key) : -1;
}

Fingerprint digest_of(const LayerCache& layer, int length) {
  Digest digest;
  layer.add_to(digest, length);
  return digest.value();
}

/// A snapshot, and the text it was taken from as the naive model has it: rows [from, to) of rows, all of a state.
struct Taken {
  LayerSnapshotPtr snapshot;
  int from = 0;
  std::vector<int> tags;  // of positions from, from + 1, ...
  int to() const { return from + static_cast<int>(tags.size()); }
};

using Step = std::array<int, 4>;  // what to do, and numbers for it

/// One layer in caches of three sizes, beside a list of the tags of all positions. Every row ever written has another
/// tag, so that no mix-up stays unseen. `failure` says what went wrong first.
class Pair {
 public:
  explicit Pair(int kind) : kind_(kind) {
    for (const Size& size : sizes) caches_.push_back({make_layer(kind, size), {}});
  }

  void run(const Step& step) {
    const auto [what, a, b, c] = step;
    switch (what) {
      case 0:
      case 1: write(1 + a % here().size.pending_rows, b); break;
      case 2: take(a % 12 - 1); break;
      case 3:
      case 4: restore(a, b % (length() + 4) - 1); break;
      case 5: split_one(a, b % 24); break;
      case 6: merge_two(a, b); break;
      case 7: at_ = static_cast<std::size_t>(a) % caches_.size(); break;
      case 8: truncate(a % (length() + 3) - 1); break;
      case 10: discard(a, b); break;
      default:
        here().layer->clear();
        here().tags.clear();
        static_cast<void>(c);
    }
    expect_content();
  }

  void write(int rows, int kept) {
    rows = std::min(rows, here().size.capacity - length());
    if (rows == 0) return;
    kept %= rows + 1;
    LayerCache& layer = *here().layer;
    const int begin = length();
    layer.open(begin + rows);
    for (int row = 0; row < rows; ++row) {
      if (row < kept) here().tags.push_back(next_tag_);
      write_row(layer, begin + row, next_tag_++);
    }
    layer.settle(begin + kept);
  }

  void take(int from) {
    LayerSnapshotPtr snapshot = here().layer->snapshot(from);
    expect((snapshot == nullptr) == (length() == 0 || length() <= from), "snapshot gave something, or nothing");
    if (snapshot == nullptr) return;
    const bool rows = kind_ <= 0;
    const int first = rows ? std::max(0, from) : 0;
    expect(snapshot->to == length(), "its end");
    expect(!rows || snapshot->from == first, "its begin");
    expect(here().layer->fits(*snapshot), "fits");
    taken_.push_back({std::move(snapshot), first, {here().tags.begin() + first, here().tags.end()}});
  }

  void restore(int which, int length) {
    if (taken_.empty()) return;
    const Taken& taken = taken_[static_cast<std::size_t>(which) % taken_.size()];
    const bool rows = kind_ <= 0;
    bool possible = 0 <= length && length <= taken.to() && length <= here().size.capacity;
    if (rows) possible = possible && taken.from <= this->length();
    else possible = possible && (length == taken.to() || taken.to() <= kind_);
    if (length <= here().size.capacity) reach(taken.snapshot.get(), length, possible);
    if (!possible) return;
    std::vector<int>& tags = here().tags;
    if (!rows) tags.clear();
    tags.resize(std::min(static_cast<std::size_t>(taken.from), tags.size()));
    tags.insert(tags.end(), taken.tags.begin(), taken.tags.end());
    tags.resize(static_cast<std::size_t>(length));
  }

  void truncate(int length) {
    const bool may = kind_ <= 0 || this->length() <= kind_;
    const bool possible = 0 <= length && (length == this->length() || (length < this->length() && may));
    reach(nullptr, length, possible);
    if (possible) here().tags.resize(static_cast<std::size_t>(length));
  }

  /// Whether positions can be dropped follows from whether the rows that later ones will see are there.
  void discard(int from, int count) {
    if (length() == 0) return;
    from %= length();
    count = 1 + count % (length() - from);
    const int end = length() - count;
    const int lost = kind_ <= 0 || length() <= kind_ ? 0 : length() - kind_ + 1;  // positions before it
    const int needed = kind_ <= 0 || end <= kind_ ? 0 : end - kind_ + 1;
    const int first = needed < from ? needed : needed + count;  // its place now
    const bool possible = first >= lost || needed >= end;
    expect(here().layer->discard_error(length(), from, count).empty() == possible, "positions that can be dropped");
    if (!possible || !failure_.empty()) return;
    here().layer->discard(from, count);
    here().tags.erase(here().tags.begin() + from, here().tags.begin() + from + count);
  }

  void split_one(int which, int at) {
    if (taken_.empty()) return;
    Taken whole = taken_[static_cast<std::size_t>(which) % taken_.size()];
    auto [parent, child] = split(whole.snapshot, at);
    const bool rows = kind_ <= 0;
    expect((parent == nullptr) == (!rows || at <= whole.from), "the parent of a split");
    expect((child == nullptr) == (rows && at >= whole.to()), "the child of a split");
    if (parent == nullptr || child == nullptr) {
      expect((parent == nullptr ? child : parent) == whole.snapshot, "what is not cut is the same object");
      return;
    }
    expect(equal(merge(parent, child), whole.snapshot), "merge is the inverse of split");
    const auto cut = whole.tags.begin() + (at - whole.from);
    taken_.push_back({std::move(parent), whole.from, {whole.tags.begin(), cut}});
    taken_.push_back({std::move(child), at, {cut, whole.tags.end()}});
  }

  void merge_two(int one, int other) {
    if (taken_.empty()) return;
    Taken parent = taken_[static_cast<std::size_t>(one) % taken_.size()];
    const Taken child = taken_[static_cast<std::size_t>(other) % taken_.size()];
    if (kind_ > 0) {
      expect(merge(parent.snapshot, child.snapshot) == child.snapshot, "the child supersedes");
      expect(merge(parent.snapshot, nullptr) == nullptr, "a parent alone is lost");
      expect(merge(nullptr, child.snapshot) == child.snapshot, "a child alone remains");
      return;
    }
    expect(merge(parent.snapshot, nullptr) == nullptr && merge(nullptr, child.snapshot) == nullptr, "a gap is kept");
    if (parent.to() != child.from) return;
    const LayerSnapshotPtr merged = merge(parent.snapshot, child.snapshot);
    expect(equal(split(merged, child.from).first, parent.snapshot) &&
               equal(split(merged, child.from).second, child.snapshot),
           "split is the inverse of merge");
    parent.tags.insert(parent.tags.end(), child.tags.begin(), child.tags.end());
    taken_.push_back({merged, parent.from, parent.tags});
  }

  /// Returns the digest of a cache that read the same text from its start, one row at a time.
  Fingerprint cold_digest() const {
    const auto cold = make_layer(kind_, {64, 1});
    for (int position = 0; position < length(); ++position) {
      cold->open(position + 1);
      write_row(*cold, position, here().tags[static_cast<std::size_t>(position)]);
      cold->settle(position + 1);
    }
    return digest_of(*cold, length());
  }

  int length() const { return static_cast<int>(here().tags.size()); }
  Fingerprint digest() const { return digest_of(*here().layer, length()); }
  void expect(bool condition, const char* what) {
    if (!condition && failure_.empty()) failure_ = what;
  }
  const std::string& failure() const { return failure_; }

 private:
  struct One {
    std::unique_ptr<LayerCache> layer;
    std::vector<int> tags;
    Size size{};
  };
  One& here() {
    caches_[at_].size = sizes[at_];
    return caches_[at_];
  }
  const One& here() const { return caches_[at_]; }

  static bool equal(const LayerSnapshotPtr& one, const LayerSnapshotPtr& other) {
    return one->layout == other->layout && one->form == other->form && one->from == other->from &&
           one->to == other->to && one->shortest == other->shortest && one->data == other->data;
  }

  /// A refusal has no effect, however the text goes on.
  void reach(const LayerSnapshot* snapshot, int length, bool possible) {
    const Fingerprint before = digest();
    expect(here().layer->can_restore(snapshot, length) == possible, possible ? "refused" : "not refused");
    if (possible && failure_.empty()) here().layer->restore_snapshot(snapshot, length);
    else expect(digest() == before, "a refusal has changed the content");
  }

  /// Rows that no later one can see are read too, as long as a truncation could show them.
  void expect_content() {
    const bool all = kind_ <= 0 || length() <= kind_;
    const int first = all ? 0 : length() - kind_ + 1;
    for (int position = first; position < length(); ++position) {
      expect(read_row(*here().layer, position) == here().tags[static_cast<std::size_t>(position)], "content");
    }
  }

  int kind_;
  std::vector<One> caches_;
  std::size_t at_ = 0;
  std::vector<Taken> taken_;
  int next_tag_ = 1;
  std::string failure_;
};

const char* name_of(int kind) {
  if (kind == features) return "features";
  return kind == history ? "history" : kind == AttentionCache::everything ? "full attention" : "sliding window";
}

RC_GTEST_PROP(Snapshots, OfEveryKindBehaveAsTheNaiveModelInAnyOrder, ()) {
  const auto steps = *rc::gen::container<std::vector<Step>>(rc::gen::container<Step>(rc::gen::inRange(0, 1 << 16)));
  for (const int kind : kinds) {
    Pair pair(kind);
    for (Step step : steps) {
      step[0] %= 11;
      if (step[0] == 9 && step[1] % 4 != 0) step[0] = 0;  // clearing is rare
      pair.run(step);
      if (!pair.failure().empty()) {
        RC_FAIL(std::string(name_of(kind)) + " " + std::to_string(kind) + ": " + pair.failure());
      }
    }
    RC_ASSERT(pair.digest() == pair.cold_digest());
  }
}

/// Long random sequences, ten thousand of them; RapidCheck's are short.
TEST(Snapshots, OfLongTextsBehaveAsTheNaiveModel) {
  std::uint64_t state = 1;
  const auto below = [&](int end) {
    state = state * 6364136223846793005U + 1442695040888963407U;
    return static_cast<int>((state >> 33) % static_cast<unsigned>(end));
  };
  for (int round = 0; round < 1000; ++round) {
    for (const int kind : kinds) {
      Pair pair(kind);
      for (int i = 0; i < 60; ++i) {
        int what = below(11);
        if (what == 9 && below(5) != 0) what = 0;
        pair.run({what, below(1 << 16), below(1 << 16), 0});
        ASSERT_EQ(pair.failure(), "") << name_of(kind) << " " << kind << ", round " << round << ", step " << i;
      }
      ASSERT_EQ(pair.digest(), pair.cold_digest()) << name_of(kind) << " " << kind << ", round " << round;
    }
  }
}

/// What a layer can go through, in few letters.
constexpr int letters = 13;
void run_letter(Pair& pair, int letter) {
  switch (letter) {
    case 0: pair.run({0, 0, 1, 0}); return;                  // one row, kept
    case 1: pair.run({0, 1, 1, 0}); return;                  // two rows, one kept
    case 2: pair.run({0, 2, 3, 0}); return;                  // three rows, all kept
    case 3: pair.run({2, 1, 0, 0}); return;                  // snapshot from 0 on
    case 4: pair.run({2, 3, 0, 0}); return;                  // from 2 on
    case 5: pair.run({3, 0, pair.length() + 1, 0}); return;  // the oldest snapshot to the same length
    case 6: pair.run({3, 0, pair.length(), 0}); return;      // to one less
    case 7: pair.run({3, 1, 3, 0}); return;                  // another snapshot to length 2
    case 8: pair.run({8, pair.length(), 0, 0}); return;      // truncation by one
    case 9: pair.run({8, 2, 0, 0}); return;                  // truncation to length 1
    case 10: pair.run({5, 0, 1, 0}); return;                 // split at 1
    case 11: pair.run({10, 1, 1, 0}); return;                // one or two positions are dropped
    default: pair.run({7, 2, 0, 0});                         // go on with another cache
  }
}

int run_all(int kind, int depth) {
  std::vector<int> word(static_cast<std::size_t>(depth), 0);
  int runs = 0;
  for (bool more = true; more; ++runs) {
    Pair pair(kind);
    for (const int letter : word) run_letter(pair, letter);
    EXPECT_EQ(pair.failure(), "") << name_of(kind) << " " << kind << ": " << testing::PrintToString(word);
    EXPECT_EQ(pair.digest(), pair.cold_digest()) << kind << ": " << testing::PrintToString(word);
    if (testing::Test::HasFailure()) return runs;
    more = false;
    for (int& letter : word) {
      if (++letter < letters) {
        more = true;
        break;
      }
      letter = 0;
    }
  }
  return runs;
}

TEST(Snapshots, EverySequenceOfFourStepsBehavesAsTheNaiveModel) {
  for (const int kind : {history, features, AttentionCache::everything, 1, 2, 3}) {
    EXPECT_EQ(run_all(kind, 4), 28561);
  }
}

TEST(SnapshotsSlow, EverySequenceOfFiveStepsBehavesAsTheNaiveModel) {
  for (const int kind : {history, features, AttentionCache::everything, 1, 2, 3}) {
    EXPECT_EQ(run_all(kind, 5), 371293);
  }
}

TEST(SnapshotsSweep, EverySequenceOfSixStepsBehavesAsTheNaiveModel) {
  for (const int kind : {history, features, AttentionCache::everything, 1, 2, 3}) {
    EXPECT_EQ(run_all(kind, 6), 4826809);
  }
}

constexpr int heads = 2;
constexpr int dims = 5;

std::vector<float> floats_of(int position) {
  std::vector<float> row;
  for (int i = 0; i < heads * dims; ++i) row.push_back(std::sin(static_cast<float>(position * 31 + i * 7)) * 40);
  return row;
}

void read_until(AttentionCache& cache, int length, int begin = 0) {
  for (int position = begin; position < length; ++position) {
    const std::vector<float> row = floats_of(position);
    cache.open(position + 1);
    store_positions(cache.claim_rows(position, 1), position, 1, row.data(), row.data(), 0, 0, heads);
    cache.settle(position + 1);
  }
}

TEST(Snapshots, KeepEveryBitInEveryFormatAtAnyPlaceInTheRing) {
  for (const KvFormat format : {KvFormat::f32, KvFormat::bf16, KvFormat::q8}) {
    for (const int window : {AttentionCache::everything, 1, 3, 16, 20}) {
      for (const int length : {1, 2, 15, 16, 17, 20, 21, 33, 50}) {
        const int latent = length % 2 == 0 ? 0 : 3;  // of keys that end with their value
        AttentionCache cold(heads, dims, window, 70, 4, format, {}, latent);
        read_until(cold, length);
        const LayerSnapshotPtr snapshot = cold.snapshot(0);
        const std::size_t rows = static_cast<unsigned>(snapshot->to - snapshot->from);
        EXPECT_EQ(snapshot->data.size(), rows * packed_position_bytes(format, heads, dims, latent));
        AttentionCache warm(heads, dims, window, 100, 9, format, {}, latent);
        read_until(warm, 40);  // something else, and longer or shorter
        LayerCache& layer = warm;
        layer.restore_snapshot(snapshot.get(), length);
        EXPECT_EQ(digest_of(warm, length), digest_of(cold, length));
        // The bits themselves, denormals and NaN scales included: a snapshot of the copy is the snapshot.
        EXPECT_EQ(warm.snapshot(0)->data, snapshot->data);
        read_until(warm, length + 20, length);
        read_until(cold, length + 20, length);
        EXPECT_EQ(digest_of(warm, length + 20), digest_of(cold, length + 20));
      }
    }
  }
}

TEST(Snapshots, OfASlidingWindowHoldNoMoreThanTheWindow) {
  for (int window = 1; window <= 9; ++window) {
    AttentionCache cache(heads, dims, window, 40, 4);
    for (int length = 1; length <= 30; ++length) {
      read_until(cache, length, length - 1);
      const LayerSnapshotPtr snapshot = cache.snapshot(0);
      EXPECT_EQ(snapshot->to - snapshot->from, length <= window ? length : window - 1);
    }
  }
}

TEST(Snapshots, ThatAreNotOfTheLayerDoNotFit) {
  AttentionCache full(heads, dims, AttentionCache::everything, 40, 4);
  AttentionCache sliding(heads, dims, 4, 40, 4);
  FeatureCache rows(2, 40), wider(4, 40);
  HistoryCache tokens;
  rows.open(6);
  rows.write(0, std::vector<float>(12));
  rows.settle(6);
  EXPECT_EQ(rows.row(1).size(), 2U);
  const LayerSnapshot of_rows = *rows.snapshot(2);
  EXPECT_TRUE(rows.fits(of_rows));
  EXPECT_FALSE(wider.fits(of_rows));
  EXPECT_FALSE(tokens.fits(of_rows));
  read_until(full, 6);
  read_until(sliding, 6);
  const LayerSnapshot of_full = *full.snapshot(2);
  const LayerSnapshot of_sliding = *sliding.snapshot(0);
  EXPECT_TRUE(full.fits(of_full));
  EXPECT_TRUE(sliding.fits(of_sliding));
  EXPECT_FALSE(full.fits(of_sliding));
  EXPECT_FALSE(sliding.fits(of_full));
  EXPECT_FALSE(tokens.fits(of_full));
  for (const KvFormat format : {KvFormat::bf16, KvFormat::q8}) {
    EXPECT_FALSE(AttentionCache(heads, dims, AttentionCache::everything, 40, 4, format).fits(of_full));
  }
  EXPECT_FALSE(AttentionCache(dims, heads, AttentionCache::everything, 40, 4).fits(of_full));
  EXPECT_FALSE(AttentionCache(heads, dims, 5, 40, 4).fits(of_sliding));
  const auto changed = [](LayerSnapshot snapshot, auto change) {
    change(snapshot);
    return snapshot;
  };
  using Own = std::pair<const LayerCache*, LayerSnapshot>;
  for (const auto& [cache, good] : {Own{&full, of_full}, Own{&sliding, of_sliding}, Own{&rows, of_rows}}) {
    EXPECT_FALSE(cache->fits(changed(good, [](LayerSnapshot& s) { s.from = -1; })));
    EXPECT_FALSE(cache->fits(changed(good, [](LayerSnapshot& s) { s.from -= 1; })));
    EXPECT_FALSE(cache->fits(changed(good, [](LayerSnapshot& s) { s.to = 2147483647; })));
    EXPECT_FALSE(cache->fits(changed(good, [](LayerSnapshot& s) { s.to = s.from - 1; })));
    EXPECT_FALSE(cache->fits(changed(good, [](LayerSnapshot& s) { s.data.pop_back(); })));
    EXPECT_FALSE(cache->fits(changed(good, [](LayerSnapshot& s) { s.data.clear(); })));
    EXPECT_FALSE(cache->fits(changed(good, [](LayerSnapshot& s) { s.shortest += 1; })));
    EXPECT_FALSE(cache->fits(changed(good, [](LayerSnapshot& s) {
      s.form = s.form == LayerSnapshot::Form::rows ? LayerSnapshot::Form::state : LayerSnapshot::Form::rows;
    })));
  }
  tokens.open(1);
  tokens.write(0, 7);
  tokens.settle(1);
  const LayerSnapshot of_tokens = *tokens.snapshot(0);
  EXPECT_TRUE(tokens.fits(of_tokens));
  EXPECT_FALSE(tokens.fits(changed(of_tokens, [](LayerSnapshot& s) { s.data[3] = std::byte{0x80}; }))) << "a token < 0";
  EXPECT_FALSE(tokens.fits(changed(of_tokens, [](LayerSnapshot& s) { s.data.resize(2 * s.data.size()); })));
  EXPECT_FALSE(tokens.fits(changed(of_tokens, [](LayerSnapshot& s) { s.to += 1; })));
}

/// A cache of a model with layers of three kinds.
Cache mixed_cache(int window, int capacity, int pending_rows) {
  std::vector<std::unique_ptr<LayerCache>> layers;
  layers.push_back(make_layer(AttentionCache::everything, {capacity, pending_rows}));
  layers.push_back(make_layer(window, {capacity, pending_rows}));
  layers.push_back(make_layer(history, {capacity, pending_rows}));
  return Cache(std::move(layers), capacity, pending_rows);
}

void read_text(Cache& cache, const std::vector<int>& tags) {
  for (const int tag : tags) {
    Transaction transaction = cache.begin(1);
    write_row(cache.layer<AttentionCache>(0), cache.end(), tag);
    write_row(cache.layer<AttentionCache>(1), cache.end(), tag);
    write_row(cache.layer<HistoryCache>(2), cache.end(), tag);
    cache.wrote(1);
    transaction.commit(1);
  }
}

Cache cold_cache(const std::vector<int>& tags) {
  Cache cache = mixed_cache(3, 50, 2);
  read_text(cache, tags);
  return cache;
}

TEST(CacheSnapshots, RestoreAllLayersOrNone) {
  const std::vector<int> text = {11, 12, 13, 14, 15, 16};
  const Cache cold = cold_cache(text);
  const Snapshot snapshot = cold.snapshot(0);
  for (int length = -1; length <= 7; ++length) {
    Cache other = cold_cache({1, 2, 3, 4, 5, 6, 7, 8, 9});
    const Fingerprint before = other.digest();
    // The sliding window of 3 is at length 6 only; the other layers could do more.
    EXPECT_EQ(other.restore(snapshot, length), length == 6) << length;
    EXPECT_EQ(other.digest(), length == 6 ? cold.digest() : before) << length;
    EXPECT_EQ(other.length(), length == 6 ? 6 : 9);
    EXPECT_EQ(other.end(), other.length());
  }
  const Snapshot of_short = cold_cache({11, 12, 13}).snapshot(0);
  for (int length = 0; length <= 3; ++length) {
    Cache other = cold_cache({1, 2, 3, 4, 5, 6, 7, 8, 9});
    EXPECT_TRUE(other.restore(of_short, length));
    EXPECT_EQ(other.digest(), cold_cache({text.begin(), text.begin() + length}).digest());
    read_text(other, {text.begin() + length, text.end()});
    EXPECT_EQ(other.digest(), cold.digest());
  }
}

TEST(CacheSnapshots, TruncateOnlyWhileEveryLayerCan) {
  for (int length = 0; length <= 5; ++length) {
    for (int shorter = -1; shorter <= length + 1; ++shorter) {
      const std::vector<int> text = {11, 12, 13, 14, 15};
      Cache cache = cold_cache({text.begin(), text.begin() + length});
      const bool possible = 0 <= shorter && (shorter == length || (shorter < length && length <= 3));
      EXPECT_EQ(cache.truncate(shorter), possible) << length << " to " << shorter;
      const int now = possible ? shorter : length;
      EXPECT_EQ(cache.digest(), cold_cache({text.begin(), text.begin() + now}).digest());
    }
  }
}

TEST(CacheSnapshots, ArePathsOfAnyNumberOfParts) {
  const std::vector<int> text = {11, 12, 13, 14, 15, 16, 17, 18};
  const Cache cold = cold_cache(text);
  const Snapshot whole = cold.snapshot(0);
  for (int one = 1; one < 8; ++one) {
    const auto [first, rest] = split(whole, one);
    EXPECT_EQ(first.bytes() + rest.bytes(), whole.bytes());
    EXPECT_EQ(merge(first, rest).bytes(), whole.bytes());
    Cache other = cold_cache({1, 2, 3});
    EXPECT_FALSE(other.can_restore(std::array{&first}, one)) << "the state of the window went to the rest";
    EXPECT_EQ(other.can_restore(std::array{&rest}, 8), one <= 3) << "there is a gap between 3 and the rest";
    EXPECT_TRUE(other.restore(std::array{&first, &rest}, 8));
    EXPECT_EQ(other.digest(), cold.digest());
    for (int two = one + 1; two < 8; ++two) {
      const auto [second, third] = split(rest, two);
      Cache again = mixed_cache(3, 8, 2);
      EXPECT_FALSE(again.can_restore(std::array{&first, &second}, two));
      EXPECT_TRUE(again.restore(std::array{&first, &second, &third}, 8));
      EXPECT_EQ(again.digest(), cold.digest());
    }
  }
}

TEST(CacheSnapshots, NeverMixTextsWhereALayerHasNothing) {
  const auto [first, rest] = split(cold_cache({11, 12, 13, 14}).snapshot(0), 3);
  // The window has nothing here, and what it holds of another text is of the right length.
  Cache other = cold_cache({1, 2, 3});
  EXPECT_FALSE(other.restore(first, 3));
  // A snapshot that continues this text.
  Cache same = cold_cache({11, 12, 13});
  EXPECT_TRUE(same.restore(rest, 4));
  EXPECT_EQ(same.digest(), cold_cache({11, 12, 13, 14}).digest());
}

TEST(CacheSnapshots, BeyondTheCapacityAreRefused) {
  const Snapshot snapshot = cold_cache({1, 2, 3, 4, 5}).snapshot(0);
  Cache small = mixed_cache(3, 4, 2);
  EXPECT_FALSE(small.restore(snapshot, 5));
  EXPECT_EQ(small.length(), 0);
}

TEST(CacheSnapshots, AClearedCacheIsAsNew) {
  Cache cache = cold_cache({1, 2, 3, 4, 5, 6, 7});
  cache.clear();
  EXPECT_EQ(cache.length(), 0);
  EXPECT_EQ(cache.digest(), cold_cache({}).digest());
  for (const LayerSnapshotPtr& layer : cache.snapshot(0).layers) EXPECT_EQ(layer, nullptr);
  read_text(cache, {8, 9});
  EXPECT_EQ(cache.digest(), cold_cache({8, 9}).digest());
  EXPECT_TRUE(cache.truncate(1)) << "the ring is at its start again";
}

/// A kind without snapshots.
class Forgetful final : public LayerCache {
 public:
  void add_to(Digest&, int) const override {}
  void write(int position) { claim(position); }
};

TEST(CacheSnapshots, OfALayerWithoutThemAreRefused) {
  const auto make = [] {
    std::vector<std::unique_ptr<LayerCache>> layers;
    layers.push_back(std::make_unique<Forgetful>());
    return Cache(std::move(layers), 4, 2);
  };
  Cache cache = make();
  Transaction transaction = cache.begin(1);
  cache.layer<Forgetful>(0).write(0);
  cache.wrote(1);
  transaction.commit(1);
  const Snapshot snapshot = cache.snapshot(0);
  EXPECT_EQ(snapshot.bytes(), 0U);
  EXPECT_FALSE(make().restore(snapshot, 1));
  EXPECT_FALSE(cache.truncate(0));
  EXPECT_TRUE(cache.truncate(1));
  cache.clear();
  EXPECT_EQ(cache.length(), 0);
}

TEST(SnapshotDeathTest, BreachesOfTheContractAbort) {
  const Snapshot snapshot = cold_cache({1, 2, 3, 4, 5}).snapshot(0);
  const auto [first, rest] = split(snapshot, 2);
  const auto [second, third] = split(rest, 3);
  EXPECT_DEATH(merge(first, third), "adjacent");
  EXPECT_DEATH(merge(first.layers[0], third.layers[0]), "adjacent");
  EXPECT_DEATH(merge(third.layers[0], first.layers[0]), "adjacent");
  EXPECT_DEATH(merge(first.layers[0], second.layers[2]), "of one layer");
  Cache cache = cold_cache({1});
  EXPECT_DEATH(static_cast<void>(cache.restore(std::array{&first, &third}, 5)), "adjacent");
  Cache wider = mixed_cache(4, 50, 2);
  EXPECT_DEATH(static_cast<void>(wider.restore(snapshot, 5)), "same model");
  Cache none({}, 9, 1);
  EXPECT_DEATH(static_cast<void>(none.restore(snapshot, 5)), "same model");
  HistoryCache tokens;
  EXPECT_DEATH(static_cast<LayerCache&>(tokens).restore_snapshot(snapshot.layers[2].get(), 6), "can be restored");
  Transaction transaction = cache.begin(1);
  EXPECT_DEATH(cache.snapshot(0), "only a settled cache");
  EXPECT_DEATH(static_cast<void>(cache.restore(snapshot, 5)), "only a settled cache");
  EXPECT_DEATH(cache.clear(), "only a settled cache");
}

}  // namespace
}  // namespace draftproof::snapshot_test
