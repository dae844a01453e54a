// SPDX-License-Identifier: MIT
// Whole operations: no cut, thread count or layout of memory may show in a bit.
#include "kernels/operations.h"

#include <algorithm>
#include <array>
#include <atomic>
#include <cstdint>

#include "support.h"

namespace draftproof::test {
namespace {

class Operations : public ::testing::Test {
 protected:
  void TearDown() override { set_threads(before_); }

 private:
  const int before_ = threads();
};

TEST_F(Operations, MatmulGivesTheSameBitsForEveryNumberOfThreads) {
  for (const Format format : {Format::f32, Format::bf16}) {
    const Weight weight(format, 333, 500, 3);
    const PackedMatrix w = weight.packed(best_kernels());
    const std::vector<float> x = Numbers(5).numbers(500 * 9);
    std::vector<float> expected(340 * 9, nan);
    best_kernels().matmul(w.view(), x.data(), 9, expected.data(), 340, 0, 333);
    for (const int count : {1, 2, 3, 64}) {
      set_threads(count);
      std::vector<float> y(340 * 9, nan);
      matmul(best_kernels(), w, x.data(), 9, y.data(), 340);
      EXPECT_TRUE(same_bits(y, expected)) << count << " threads";
    }
  }
}

TEST_F(Operations, AttentionGivesTheSameBitsForEveryNumberOfThreadsAndRowByRow) {
  const AttentionShape shape = {.heads = 4, .kv_heads = 2, .head_dim = 32, .scale = 0.3f};
  const Ring ring(shape, 8, 0, 128, 5);
  const int rows = 5;
  const int stride = 4 * 32 + 9;
  const std::vector<float> q = Numbers(5).numbers(rows * stride);
  std::vector<Visible> visible;
  for (int r = 0; r < rows; ++r) visible.push_back({r * 7, 100 + r});
  std::vector<float> scores(attention_scratch(shape, 128));
  std::vector<float> expected(rows * 128);
  for (int r = 0; r < rows; ++r) {
    best_kernels().attention(shape, ring.view(), q.data() + r * stride, visible[r], scores.data(),
                             expected.data() + r * 128, 0, 2);
  }
  for (const int count : {1, 2, 3, 64}) {
    set_threads(count);
    std::vector<float> out(rows * 128, nan);
    attention(best_kernels(), shape, ring.view(), q.data(), stride, visible.data(), rows, scores.data(), out.data());
    EXPECT_TRUE(same_bits(out, expected)) << count << " threads";
  }
}

TEST_F(Operations, AttentionDoesNotDependOnWhereTheRingHoldsAPosition) {
  const AttentionShape shape = {.heads = 4, .kv_heads = 2, .head_dim = 40, .scale = 0.3f};
  const Visible visible = {139, 207};
  const std::vector<float> q = Numbers(5).numbers(4 * 40);
  std::vector<float> scores(attention_scratch(shape, 100));
  set_threads(1);
  for (const Kernels* const* table = all_kernels(); *table != nullptr; ++table) {
    if (!(*table)->supported()) continue;
    std::vector<float> expected;
    for (const int blocks : {13, 6, 7, 11, 50}) {  // 13 blocks hold every position unwrapped
      const Ring ring(shape, blocks, visible.first, visible.end, 5);
      std::vector<float> out(4 * 40, nan);
      attention(**table, shape, ring.view(), q.data(), 160, &visible, 1, scores.data(), out.data());
      if (expected.empty()) expected = out;
      EXPECT_TRUE(same_bits(out, expected)) << (*table)->name << " " << blocks << " blocks";
    }
  }
}

TEST_F(Operations, AttentionNeverTakesInWhatLiesOutsideTheVisiblePositions) {
  const AttentionShape shape = {.heads = 3, .kv_heads = 1, .head_dim = 20, .scale = 0.3f};
  const Visible visible = {19, 45};
  const std::vector<float> q = Numbers(5).numbers(3 * 20);
  std::vector<float> scores(attention_scratch(shape, 100));
  set_threads(1);
  for (const Kernels* const* table = all_kernels(); *table != nullptr; ++table) {
    if (!(*table)->supported()) continue;
    std::vector<float> expected;
    for (const float stale : {nan, infinity, -infinity, 1e38f, 0.0f}) {
      Ring ring(shape, 5, 0, 80, 5);
      for (int p = 0; p < 80; ++p) {
        if (p >= visible.first && p < visible.end) continue;
        for (int d = 0; d < 20; ++d) ring.key(shape, 0, p, d) = ring.value(shape, 0, p, d) = stale;
      }
      std::fill(scores.begin(), scores.end(), stale);
      std::vector<float> out(3 * 20, nan);
      attention(**table, shape, ring.view(), q.data(), 60, &visible, 1, scores.data(), out.data());
      if (expected.empty()) expected = out;
      EXPECT_TRUE(same_bits(out, expected)) << (*table)->name << " " << stale;
      EXPECT_TRUE(std::none_of(out.begin(), out.end(), [](float x) { return std::isnan(x); }));
    }
  }
}

TEST_F(Operations, FusedPartsGiveTheOutputsOfThePartsAlone) {
  const Weight first(Format::bf16, 21, 30, 1);
  const Weight second(Format::bf16, 40, 30, 2);
  const Weight third(Format::f16, 5, 30, 3);
  const std::vector<float> x = Numbers(5).numbers(30 * 4);
  for (const Kernels* const* table = all_kernels(); *table != nullptr; ++table) {
    if (!(*table)->supported()) continue;
    for (const bool mixed : {false, true}) {
      std::vector<MatrixView> parts = {first.view(), second.view()};
      if (mixed) parts.push_back(third.view());
      const PackedMatrix fused(**table, parts);
      EXPECT_EQ(fused.view().format, mixed ? Format::f32 : Format::bf16);
      EXPECT_EQ(fused.outputs(), mixed ? 66 : 61);
      EXPECT_EQ(fused.inputs(), 30);
      std::vector<float> y(66 * 4, nan);
      matmul(**table, fused, x.data(), 4, y.data(), 66);
      int begin = 0;
      for (const MatrixView& part : parts) {
        const PackedMatrix alone(**table, {&part, 1});
        std::vector<float> expected(part.outputs * 4);
        matmul(**table, alone, x.data(), 4, expected.data(), part.outputs);
        for (int r = 0; r < 4; ++r) {
          const std::span<const float> mine(y.data() + r * 66 + begin, part.outputs);
          const std::span<const float> theirs(expected.data() + r * part.outputs, part.outputs);
          if ((*table)->numerics == std::string("canonical")) {
            EXPECT_TRUE(same_bits(mine, theirs)) << (*table)->name;
          }
        }
        begin += part.outputs;
      }
    }
  }
}

TEST_F(Operations, PackingGivesTheSameBytesForEveryNumberOfThreads) {
  const Weight weight(Format::bf16, 450, 301, 1);
  const MatrixView parts[] = {weight.view(), weight.view()};
  set_threads(1);
  const PackedMatrix expected(best_kernels(), parts);
  set_threads(3);
  const PackedMatrix w(best_kernels(), parts);
  ASSERT_EQ(w.bytes(), expected.bytes());
  EXPECT_EQ(std::memcmp(w.view().data, expected.view().data, w.bytes()), 0);
}

TEST_F(Operations, AlignedMemoryIsAlignedZeroedAndRefusesTheImpossible) {
  for (const std::size_t count : {std::size_t{0}, std::size_t{1}, std::size_t{1000}, std::size_t{3'000'000}}) {
    const Aligned<float> memory = aligned<float>(count);
    EXPECT_EQ(reinterpret_cast<std::uintptr_t>(memory.get()) % 64, 0u);
    EXPECT_TRUE(std::all_of(memory.get(), memory.get() + count, [](float x) { return bits(x) == 0; }));
  }
  EXPECT_THROW(aligned<double>(SIZE_MAX / 4), std::bad_alloc);
  EXPECT_THROW(allocate_aligned(SIZE_MAX - 100), std::bad_alloc);
}

TEST_F(Operations, ThreadsAreAtLeastOne) {
  set_threads(0);
  EXPECT_EQ(threads(), 1);
  set_threads(5);
  EXPECT_EQ(threads(), 5);
}

/// A table whose matmul computes nothing and writes down what it was asked for.
struct Witness {
  static inline std::array<std::atomic<int>, 100> units;  // how often each was asked for
  static inline std::atomic<int> calls;
  static inline std::atomic<bool> left_thread;  // a nested operation ran elsewhere than its caller
  static inline const PackedMatrix* nested = nullptr;
  static inline thread_local bool inside = false;

  static void matmul(const PackedView&, const float*, int, float*, std::ptrdiff_t, int begin, int end) noexcept {
    ++calls;
    for (int n = begin; n < end; n += lanes) ++units[static_cast<std::size_t>(n / lanes)];
    if (nested == nullptr) return;
    inside = true;
    draftproof::matmul(inner(), *nested, nullptr, 1000, nullptr, 0);
    inside = false;
  }
  static void inner_matmul(const PackedView&, const float*, int, float*, std::ptrdiff_t, int, int) noexcept {
    if (!inside) left_thread = true;
  }
  static Kernels outer() {
    Kernels table = scalar();
    table.matmul = matmul;
    return table;
  }
  static Kernels inner() {
    Kernels table = scalar();
    table.matmul = inner_matmul;
    return table;
  }
};

TEST_F(Operations, EveryUnitOfOutputsIsAskedForOnceAndSmallWorkStaysInOneCall) {
  set_threads(3);
  for (const int outputs : {1, 16, 17, 40, 112, 1600}) {
    for (const int rows : {1, 100'000}) {
      const PackedMatrix w = Weight(Format::bf16, outputs, 2, 1).packed(scalar());
      for (auto& unit : Witness::units) unit = 0;
      Witness::calls = 0;
      matmul(Witness::outer(), w, nullptr, rows, nullptr, 0);
      const int units = (outputs + lanes - 1) / lanes;
      for (int i = 0; i < 100; ++i) EXPECT_EQ(Witness::units[static_cast<std::size_t>(i)], i < units ? 1 : 0);
      EXPECT_EQ(Witness::calls, rows == 1 ? 1 : std::min(3, units));
    }
  }
}

TEST_F(Operations, AnOperationInsideAnotherOneStaysOnItsThread) {
  set_threads(3);
  const PackedMatrix w = Weight(Format::bf16, 160, 64, 1).packed(scalar());
  Witness::nested = &w;
  Witness::left_thread = false;
  matmul(Witness::outer(), w, nullptr, 1000, nullptr, 0);
  Witness::nested = nullptr;
  EXPECT_FALSE(Witness::left_thread);
}

}  // namespace
}  // namespace draftproof::test
