// SPDX-License-Identifier: MIT
// Attention: every table has the bits of the scalar table, whatever is computed in one call.
#include <algorithm>
#include <memory>

#include "kernels/aligned.h"
#include "kernels/threads.h"
#include "support.h"

namespace draftproof::test::attention_test {
namespace {

int whole_blocks(int positions) { return (positions + lanes - 1) / lanes; }

std::vector<float> queries_of(const AttentionShape& shape, int rows) {
  return Numbers(77).numbers(static_cast<std::size_t>(rows) * shape.heads * shape.head_dim);
}

/// Calls the table's entry with NaN in the memory that it must not write and in scratch; checks that it writes nothing
/// else.
std::vector<float> call(const Kernels& table, const AttentionShape& shape, const KeyValues& kv,
                        const std::vector<Visible>& visible, int kv_head, int begin, int end) {
  const int width = shape.heads * shape.head_dim;
  const int rows = static_cast<int>(visible.size());
  const std::vector<float> q = queries_of(shape, rows);
  std::vector<float> out(static_cast<std::size_t>(rows * shape.heads * value_dim(shape)) + lanes, nan);
  const int group = shape.heads / shape.kv_heads;
  int first = visible[begin / group].first;
  int last = 0;
  for (int row = begin / group; row <= (end - 1) / group; ++row) {
    first = std::min(first, visible[row].first);
    last = std::max(last, visible[row].end);
  }
  const std::size_t floats = attention_floats(shape, end - begin, last - first);
  const Aligned<float> scratch = aligned<float>(floats + lanes);
  std::fill_n(scratch.get(), floats + lanes, nan);
  table.attention(shape, kv, q.data(), width, visible.data(), kv_head, begin, end, scratch.get(), out.data());
  for (int i = 0; i < lanes; ++i) EXPECT_TRUE(std::isnan(scratch[floats + static_cast<unsigned>(i)])) << "overrun";
  return out;
}

/// Row `row` of the scalar table, computed alone, so that every comparison includes the row law.
std::vector<float> defined(const AttentionShape& shape, const KeyValues& kv, const std::vector<Visible>& visible,
                           int kv_head, int begin, int end) {
  std::vector<float> out(visible.size() * static_cast<std::size_t>(shape.heads * value_dim(shape)) + lanes, nan);
  for (int i = begin; i < end; ++i) {
    const std::vector<float> one = call(scalar(), shape, kv, visible, kv_head, i, i + 1);
    for (std::size_t k = 0; k < one.size(); ++k) {
      if (!std::isnan(one[k])) out[k] = one[k];
    }
  }
  return out;
}

/// The rows of a verification pass that ends at `end`: causal, each sees `window` positions.
std::vector<Visible> causal(int rows, int end, int window) {
  std::vector<Visible> visible;
  for (int r = 0; r < rows; ++r) {
    const int own_end = end - rows + r + 1;
    visible.push_back({std::max(0, own_end - window), own_end});
  }
  return visible;
}

TEST(Attention, HasTheBitsOfTheScalarTableForEveryGroupingHeadDimensionAndFormat) {
  for (const Kernels* table : canonical_tables()) {
    Numbers numbers(21);
    for (const KvFormat format : all_kv_formats) {
      for (const int group : {1, 2, 3, 4, 5, 7, 8, 16}) {
        for (const int head_dim : {1, 8, 16, 31, 64, 80, 128, 160}) {
          const float cap = head_dim % 16 == 0 ? 0 : 1.5f;
          const std::vector<float> sinks = some_sinks(2 * group);
          const AttentionShape shape = {.heads = 2 * group,
                                        .kv_heads = 2,
                                        .head_dim = head_dim,
                                        .scale = 0.37f,
                                        .cap = cap,
                                        .sinks = head_dim >= 31 && head_dim <= 80 ? sinks.data() : nullptr};
          const int end = 8 + numbers.below(200);
          const int window = 1 + numbers.below(end);
          const int rows = 1 + numbers.below(std::min(attention_queries_max / group, 8));
          const std::vector<Visible> visible = causal(rows, end, window);
          const Stored stored(shape, format, whole_blocks(end) + 1, visible.front().first, end);
          for (const int head : {0, 1}) {
            ASSERT_TRUE(same_bits(call(*table, shape, stored.view(), visible, head, 0, rows * group),
                                  defined(shape, stored.view(), visible, head, 0, rows * group)))
                << table->name << " " << traits(format).name << " group " << group << " head_dim " << head_dim
                << " rows " << rows << " end " << end << " window " << window;
          }
        }
      }
    }
  }
}

TEST(Attention, HasTheBitsOfTheScalarTableForLatentKeys) {
  for (const Kernels* table : canonical_tables()) {
    Numbers numbers(28);
    for (const KvFormat format : all_kv_formats) {
      for (const int group : {1, 3, 8}) {
        for (const auto& [head_dim, latent] : {std::pair{12, 8}, {24, 16}, {72, 56}, {144, 128}}) {
          const AttentionShape shape = {
              .heads = 2 * group, .kv_heads = 2, .head_dim = head_dim, .scale = 0.37f, .latent = latent};
          const int end = 8 + numbers.below(300);
          const int window = group == 3 ? 1 + numbers.below(end) : end;
          const int rows = 1 + numbers.below(std::min(attention_queries_max / group, 8));
          const std::vector<Visible> visible = causal(rows, end, window);
          const Stored stored(shape, format, whole_blocks(end) + 1, visible.front().first, end);
          for (const int head : {0, 1}) {
            ASSERT_TRUE(same_bits(call(*table, shape, stored.view(), visible, head, 0, rows * group),
                                  defined(shape, stored.view(), visible, head, 0, rows * group)))
                << table->name << " " << traits(format).name << " group " << group << " head_dim " << head_dim
                << " rows " << rows << " end " << end << " window " << window;
          }
        }
      }
    }
  }
}

TEST(Attention, LatentKeysGiveWhatTheSameValuesGiveThatAreStoredOfTheirOwn) {
  constexpr int head_dim = 40;
  constexpr int latent = 24;
  const AttentionShape apart = {.heads = 4, .kv_heads = 1, .head_dim = head_dim, .scale = 0.3f};
  AttentionShape together = apart;
  together.latent = latent;
  const std::vector<Visible> visible = causal(3, 90, 90);
  for (const KvFormat format : {KvFormat::f32, KvFormat::bf16}) {
    Stored twice(apart, format, 6, 0, 0);
    Stored once(together, format, 6, 0, 0);
    EXPECT_LT(key_values_bytes(format, 1, head_dim, 6, latent), key_values_bytes(format, 1, head_dim, 6));
    Numbers numbers(29);
    for (int p = 0; p < 90; ++p) {
      const std::vector<float> key = numbers.numbers(head_dim);
      std::vector<float> value(key.end() - latent, key.end());
      value.resize(head_dim);
      twice.put(p, key, value);
      once.put(p, key, {});
    }
    const std::vector<float> expected = call(scalar(), apart, twice.view(), visible, 0, 0, 12);
    const std::vector<float> found = call(scalar(), together, once.view(), visible, 0, 0, 12);
    for (std::size_t i = 0; i < 12 * latent; ++i) {
      EXPECT_EQ(found[i], expected[i / latent * head_dim + i % latent]) << traits(format).name << " " << i;
    }
  }
}

TEST(Attention, HasTheBitsOfTheScalarTableForEveryNumberOfRowsAndEveryRangeOfQueries) {
  for (const Kernels* table : canonical_tables()) {
    Numbers numbers(22);
    for (const KvFormat format : all_kv_formats) {
      for (const int group : {1, 2, 3}) {
        const float cap = group == 2 ? 2.0f : 0.0f;
        const std::vector<float> sinks = some_sinks(group);
        const AttentionShape shape = {.heads = group,
                                      .kv_heads = 1,
                                      .head_dim = 48,
                                      .scale = 0.3f,
                                      .cap = cap,
                                      .sinks = group == 3 ? sinks.data() : nullptr};
        for (int rows = 1; rows <= 33; ++rows) {
          const int end = rows + numbers.below(150);
          const int window = rows % 3 == 0 ? 1 + numbers.below(20) : end;
          const std::vector<Visible> visible = causal(rows, end, window);
          const Stored stored(shape, format, whole_blocks(end), 0, end);
          for (int begin = 0; begin < rows * group;) {
            const int part = std::min(1 + numbers.below(attention_queries_max), rows * group - begin);
            ASSERT_TRUE(same_bits(call(*table, shape, stored.view(), visible, 0, begin, begin + part),
                                  defined(shape, stored.view(), visible, 0, begin, begin + part)))
                << table->name << " " << traits(format).name << " group " << group << " rows " << rows << " end " << end
                << " window " << window << " queries " << begin << "+" << part;
            begin += part;
          }
        }
      }
    }
  }
}

TEST(Attention, HasTheBitsOfTheScalarTableForEveryFirstAndLastVisiblePosition) {
  for (const KvFormat format : all_kv_formats) {
    const float cap = format == KvFormat::bf16 ? 1.0f : 0.0f;
    const AttentionShape shape = {.heads = 2, .kv_heads = 1, .head_dim = 16, .scale = 0.25f, .cap = cap};
    const Stored stored(shape, format, 5, 0, 80);
    for (const Kernels* table : canonical_tables()) {
      for (int first = 0; first < 40; ++first) {
        for (int end = first + 1; end <= 70; end += 1 + end / 20) {
          // Rows that see the range, the range without its ends, only its start, and only positions outside of it.
          const std::vector<Visible> visible = {
              {first, end}, {std::min(first + 1, end - 1), end}, {first, first + 1}, {end, end + 9}, {0, end}};
          ASSERT_TRUE(same_bits(call(*table, shape, stored.view(), visible, 0, 0, 10),
                                defined(shape, stored.view(), visible, 0, 0, 10)))
              << table->name << " " << first << ".." << end;
        }
      }
    }
  }
}

// Weights of so many positions are multiplied in several parts, so that each stays in the cache.
TEST(Attention, HasTheBitsOfTheScalarTableInALongText) {
  const AttentionShape shape = {.heads = 2, .kv_heads = 1, .head_dim = 32, .scale = 0.3f};
  const std::vector<Visible> visible = causal(16, 4500, 4470);
  const Stored stored(shape, KvFormat::bf16, whole_blocks(4500), 0, 4500);
  const std::vector<float> expected = defined(shape, stored.view(), visible, 0, 0, 32);
  for (const Kernels* table : canonical_tables()) {
    EXPECT_TRUE(same_bits(call(*table, shape, stored.view(), visible, 0, 0, 32), expected)) << table->name;
  }
}

TEST(Attention, DoesNotDependOnThePlaceOfAPositionInTheRing) {
  const AttentionShape shape = {.heads = 4, .kv_heads = 2, .head_dim = 40, .scale = 0.3f};
  const std::vector<Visible> visible = causal(3, 207, 66);
  for (const Kernels* const* table = all_kernels(); *table != nullptr; ++table) {
    if (!(*table)->supported()) continue;
    for (const KvFormat format : all_kv_formats) {
      std::vector<float> expected;
      for (const int blocks : {13, 6, 7, 11, 50}) {  // 13 KV blocks have room for every position without wrapping
        const Stored stored(shape, format, blocks, visible.front().first, 207);
        const std::vector<float> out = call(**table, shape, stored.view(), visible, 1, 0, 6);
        if (expected.empty()) expected = out;
        EXPECT_TRUE(same_bits(out, expected)) << (*table)->name << " " << blocks << " blocks";
      }
    }
  }
}

TEST(Attention, NeverUsesPositionsThatARowDoesNotSee) {
  // Two rows of one call: positions that only the second sees must not affect the first. Without and with runs of 32
  // positions that both see whole.
  const std::vector<std::vector<Visible>> ranges = {{{19, 45}, {21, 48}}, {{3, 75}, {5, 79}}, {{0, 65}, {0, 66}}};
  for (const Kernels* const* table = all_kernels(); *table != nullptr; ++table) {
    if (!(*table)->supported()) continue;
    for (const KvFormat format : all_kv_formats) {
      for (const int head_dim : {20, 32}) {
        const AttentionShape shape = {.heads = 8, .kv_heads = 1, .head_dim = head_dim, .scale = 0.3f};
        for (const std::vector<Visible>& visible : ranges) {
          const int last = visible[0].end;
          std::vector<float> expected;
          for (const float stale : {nan, infinity, -infinity, 1e38f, 0.0f}) {
            Stored stored(shape, format, 5, 0, 0);
            for (int p = 0; p < 80; ++p) {
              const bool seen = p >= visible[0].first && p < last;
              const std::vector<float> row =
                  seen ? Numbers(static_cast<unsigned>(p)).numbers(head_dim) : std::vector<float>(head_dim, stale);
              stored.put(p, row, row);
            }
            std::vector<float> out = call(**table, shape, stored.view(), visible, 0, 0, 16);
            out.resize(static_cast<std::size_t>(8 * head_dim));
            if (expected.empty()) expected = out;
            EXPECT_TRUE(same_bits(out, expected))
                << (*table)->name << " " << traits(format).name << " " << stale << " " << head_dim << " " << last;
            EXPECT_TRUE(std::none_of(out.begin(), out.end(), [](float x) { return std::isnan(x); }));
          }
        }
      }
    }
  }
}

TEST(Attention, WithEveryScoreMinusInfinityIsNaNInEveryTable) {
  const AttentionShape shape = {.heads = 1, .kv_heads = 1, .head_dim = 16, .scale = -infinity};
  const Stored stored(shape, KvFormat::f32, 2, 0, 20);
  const std::vector<Visible> visible = {{3, 20}};
  const std::vector<float> expected = call(scalar(), shape, stored.view(), visible, 0, 0, 1);
  EXPECT_TRUE(std::isnan(expected[0]));
  for (const Kernels* table : canonical_tables()) {
    EXPECT_TRUE(same_bits(call(*table, shape, stored.view(), visible, 0, 0, 1), expected)) << table->name;
  }
}

TEST(Attention, ASinkAboveEveryScoreTakesAllAndOneOfMinusInfinityNothing) {
  AttentionShape shape = {.heads = 2, .kv_heads = 1, .head_dim = 16, .scale = 0.3f};
  const Stored stored(shape, KvFormat::f32, 2, 0, 20);
  const std::vector<Visible> visible = {{3, 20}};
  const std::vector<float> without = call(scalar(), shape, stored.view(), visible, 0, 0, 2);
  const float sinks[] = {-infinity, 1000};
  shape.sinks = sinks;
  for (const Kernels* const* table = all_kernels(); *table != nullptr; ++table) {
    if (!(*table)->supported()) continue;
    const std::vector<float> with = call(**table, shape, stored.view(), visible, 0, 0, 2);
    EXPECT_TRUE(same_bits(std::span(with).first(16), std::span(without).first(16))) << (*table)->name;
    for (const float x : std::span(with).subspan(16, 16)) EXPECT_EQ(x, 0) << (*table)->name;
  }
}

class AttentionThreads : public ::testing::Test {
 protected:
  void TearDown() override { set_threads(before_); }

 private:
  const int before_ = threads();
};

TEST_F(AttentionThreads, AWholeCallGivesTheSameBitsForEveryNumberOfThreadsAndForSingleRows) {
  for (const int kv_heads : {1, 2, 5}) {
    const AttentionShape shape = {.heads = 3 * kv_heads, .kv_heads = kv_heads, .head_dim = 32, .scale = 0.3f};
    const int width = shape.heads * shape.head_dim;
    for (const KvFormat format : all_kv_formats) {
      const Stored stored(shape, format, whole_blocks(400), 0, 400);
      for (const int rows : {1, 5, 16, 40, 130}) {
        const std::vector<Visible> visible = causal(rows, 400, rows == 16 ? 33 : 400);
        const std::vector<float> q = queries_of(shape, rows);
        std::vector<float> expected(q.size());
        AttentionScratch scratch;
        set_threads(1);
        scratch.reserve(shape, 1, 400);
        for (int r = 0; r < rows; ++r) {
          const std::ptrdiff_t at = static_cast<std::ptrdiff_t>(r) * width;
          const KeyValues kv = stored.view();
          const AttentionJob job = {&kv, q.data() + at, visible.data() + r, 1, expected.data() + at};
          attention(best_kernels(), shape, std::span(&job, 1), width, scratch);
        }
        for (const int count : {1, 2, 3, 8, 64}) {
          set_threads(count);
          std::vector<float> out(q.size(), nan);
          scratch.reserve(shape, rows, 400);
          const KeyValues kv = stored.view();
          const AttentionJob job = {&kv, q.data(), visible.data(), rows, out.data()};
          attention(best_kernels(), shape, std::span(&job, 1), width, scratch);
          ASSERT_TRUE(same_bits(out, expected)) << count << " threads, " << rows << " rows, " << kv_heads << " heads";
        }
      }
    }
  }
}

TEST_F(AttentionThreads, AReservedScratchIsNotReplaced) {
  const AttentionShape shape = {.heads = 4, .kv_heads = 2, .head_dim = 32, .scale = 0.3f};
  set_threads(3);
  AttentionScratch scratch;
  scratch.reserve(shape, 16, 500);
  EXPECT_EQ(scratch.workers(), 3);
  const float* const kv = scratch.of(0);
  for (const int rows : {1, 7, 15, 16}) {
    scratch.reserve(shape, rows, 500);
    EXPECT_EQ(scratch.of(0), kv);
  }
}

}  // namespace
}  // namespace draftproof::test::attention_test
