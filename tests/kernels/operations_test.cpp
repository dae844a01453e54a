// SPDX-License-Identifier: MIT
// Whole operations: no split into ranges, thread count or memory layout may change a bit.
#include "kernels/operations.h"
#include "kernels/aligned.h"
#include "kernels/threads.h"

#include <algorithm>
#include <array>
#include <atomic>
#include <cstdint>
#include <cstring>
#include <stdexcept>
#include <vector>

#include "support.h"

namespace draftproof::test::operations_test {
namespace {

class Operations : public ::testing::Test {
 protected:
  void TearDown() override { set_threads(before_); }

 private:
  const int before_ = threads();
};

TEST_F(Operations, MatmulGivesTheSameBitsForEveryNumberOfThreads) {
  for (const Format format : all_formats) {
    const Weight weight(format, 333, 512, 3);
    const PackedMatrix w = weight.packed(best_kernels());
    const std::vector<float> x = Numbers(5).numbers(512 * 9);
    std::vector<float> expected(340 * 9, nan);
    multiply(best_kernels(), w, x.data(), 512, 9, expected.data(), 340, 0, 333);
    for (const int count : {1, 2, 3, 8, 64}) {
      set_threads(count);
      std::vector<float> y(340 * 9, nan);
      multiply(best_kernels(), w, x.data(), 9, y.data(), 340);
      EXPECT_TRUE(same_bits(y, expected)) << count << " threads";
    }
  }
}

TEST_F(Operations, RowsAreUnpackedInOrderWhateverTheThreadsAndHoweverOftenAnOutputComes) {
  constexpr int inputs = 1024;
  const std::vector<std::int32_t> outputs = {20, 7, 7, 7, 0, 20, 20, 7, 7, 7, 7, 7};
  for (const Format format : all_formats) {
    const PackedMatrix w = Weight(format, 21, inputs, 3).packed(best_kernels());
    std::vector<float> expected(outputs.size() * inputs);
    for (std::size_t i = 0; i < outputs.size(); ++i) {
      w.unpack_row(best_kernels(), outputs[i], expected.data() + i * inputs);
    }
    for (const int count : {1, 2, 5}) {
      set_threads(count);
      std::vector<float> rows(expected.size(), nan);
      unpack_rows(best_kernels(), w, outputs, rows.data());
      EXPECT_TRUE(same_bits(rows, expected)) << traits(format).name << ", " << count << " threads";
    }
  }
}

TEST_F(Operations, FusedPartsGiveTheOutputsOfTheSeparatePartsWhateverTheirFormats) {
  const std::vector<float> x = Numbers(5).numbers(256 * 4);
  for (const Kernels* const* table = all_kernels(); *table != nullptr; ++table) {
    if ((*table)->supported()) {
      const bool tiled = (*table)->unit != lanes;  // openblas: a sum depends on the place of an output in its tile
      for (const Format second : all_formats) {
        const Weight weights[] = {Weight(Format::bf16, 21, 256, 1), Weight(Format::bf16, 40, 256, 2),
                                  Weight(second, 5, 256, 3), Weight(Format::q4_0, 30, 256, 4)};
        std::vector<MatrixView> parts;
        for (const Weight& weight : weights) parts.push_back(weight.view());
        const PackedMatrix fused(**table, parts);
        EXPECT_EQ(fused.parts().size(), second == Format::bf16 || second == Format::q4_0 ? 2u : 3u);
        EXPECT_EQ(fused.outputs(), 96);
        EXPECT_EQ(fused.inputs(), 256);
        std::vector<float> y(96 * 4, nan);
        multiply(**table, fused, x.data(), 4, y.data(), 96);
        int begin = 0;
        for (const MatrixView& part : parts) {
          const PackedMatrix alone(**table, {&part, 1});
          std::vector<float> expected(part.outputs * 4);
          multiply(**table, alone, x.data(), 4, expected.data(), part.outputs);
          for (int r = 0; r < 4; ++r) {
            const std::span<const float> mine(y.data() + r * 96 + begin, part.outputs);
            const std::span<const float> theirs(expected.data() + r * part.outputs, part.outputs);
            EXPECT_TRUE(tiled || same_bits(mine, theirs)) << (*table)->name << " " << traits(second).name;
          }
          begin += part.outputs;
        }
      }
    }
  }
}

TEST_F(Operations, MatmulFromAnOutputOnGivesTheBitsOfTheWhole) {
  const Weight weights[] = {Weight(Format::bf16, 50, 256, 1), Weight(Format::q8_0, 70, 256, 2)};
  const MatrixView parts[] = {weights[0].view(), weights[1].view()};
  const PackedMatrix w(best_kernels(), parts);
  const std::vector<float> x = Numbers(5).numbers(256 * 3);
  PackedActivations activation_formats;
  pack_activations(best_kernels(), w, x.data(), 256, 3, activation_formats);
  std::vector<float> whole(120 * 3);
  matmul(best_kernels(), w, activation_formats, whole.data(), 120);
  for (const int first : {0, 1, 16, 49, 50, 66, 119}) {
    std::vector<float> y(120 * 3, nan);
    matmul_from(best_kernels(), w, first, activation_formats, y.data(), 120);
    for (int r = 0; r < 3; ++r) {
      EXPECT_TRUE(same_bits(std::span(y).subspan(r * 120 + first, 120 - first),
                            std::span(whole).subspan(r * 120 + first, 120 - first)))
          << first;
    }
  }
}

TEST_F(Operations, PackingRethrowsAnExceptionOfTheSource) {
  for (const int count : {1, 3}) {
    set_threads(count);
    const MatrixSource source = {Format::q8_0, 5000, 256, [](int first, int, void*) {
                                   if (first > 3000) throw std::runtime_error("short");
                                 }};
    EXPECT_THROW(PackedMatrix(best_kernels(), {&source, 1}), std::runtime_error);
  }
}

TEST_F(Operations, ACountedMatrixHasShapeAndBytesOfThePackedOneAndIsNeitherReadNorRun) {
  for (const Kernels* const* table = all_kernels(); *table != nullptr; ++table) {
    if (!(*table)->supported()) continue;
    const Weight weights[] = {Weight(Format::bf16, 50, 256, 1), Weight(Format::bf16, 3, 256, 2),
                              Weight(Format::q8_0, 70, 256, 3)};
    std::vector<MatrixView> views;
    std::vector<MatrixSource> sources;
    for (const Weight& weight : weights) {
      views.push_back(weight.view());
      sources.push_back({views.back().format, views.back().outputs, 256, [](int, int, void*) { ADD_FAILURE(); }});
    }
    const PackedMatrix packed(**table, views);
    const PackedMatrix counted = PackedMatrix::counted(**table, sources);
    EXPECT_EQ(counted.bytes(), packed.bytes());
    EXPECT_EQ(counted.outputs(), packed.outputs());
    EXPECT_EQ(counted.inputs(), packed.inputs());
    EXPECT_EQ(counted.parts().size(), packed.parts().size());
    std::vector<float> row(256);
    EXPECT_DEATH(counted.unpack_row(**table, 0, row.data()), "only counted");
    PackedActivations x;
    EXPECT_DEATH(pack_activations(**table, counted, row.data(), 256, 1, x), "only counted");
  }
}

TEST_F(Operations, NoSourceIsReadWithoutRoomForItsRows) {
  Kernels table = scalar();
  table.unit = 1 << 20;
  table.packed_bytes = [](Format, int, int) noexcept { return std::size_t{1}; };
  table.pack = [](const MatrixView&, int, void*) noexcept {};
  for (const int count : {1, 3}) {
    set_threads(count);
    std::atomic<int> reads{0};
    const MatrixSource source = {Format::f32, 64 * table.unit, 1 << 28, [&](int, int, void*) { ++reads; }};
    EXPECT_THROW(PackedMatrix(table, {&source, 1}), std::bad_alloc);  // a unit of rows takes 2^50 bytes
    EXPECT_EQ(reads, 0);
  }
}

TEST_F(Operations, PackingGivesTheSameBytesForEveryNumberOfThreads) {
  for (const Format format : all_formats) {
    const Weight weight(format, 450, 512, 1);
    const MatrixView parts[] = {weight.view(), weight.view()};
    set_threads(1);
    const PackedMatrix expected(best_kernels(), parts);
    set_threads(3);
    const PackedMatrix w(best_kernels(), parts);
    ASSERT_EQ(w.bytes(), expected.bytes());
    EXPECT_EQ(std::memcmp(w.parts()[0].view.data, expected.parts()[0].view.data, w.bytes()), 0);
  }
}

TEST_F(Operations, AlignedMemoryIsAlignedAndZeroedAndAnImpossibleSizeIsAnError) {
  for (const std::size_t count : {std::size_t{0}, std::size_t{1}, std::size_t{1000}, std::size_t{3'000'000}}) {
    const Aligned<float> memory = aligned<float>(count);
    EXPECT_EQ(reinterpret_cast<std::uintptr_t>(memory.get()) % 64, 0u);
    EXPECT_TRUE(std::all_of(memory.get(), memory.get() + count, [](float x) { return bits(x) == 0; }));
  }
  EXPECT_THROW(aligned<double>(SIZE_MAX / 4), std::bad_alloc);
  EXPECT_THROW(allocate_aligned(SIZE_MAX - 100), std::bad_alloc);
}

TEST_F(Operations, PartsOfSharedPagesAreAlignedZeroedAndTheirOwnUntilTheyAreFreed) {
  std::vector<Aligned<std::byte>> parts;
  std::vector<std::size_t> sizes;
  for (std::size_t i = 0; i < 200; ++i) {  // more than one set of pages
    const std::size_t size = i % 40 == 39 ? std::size_t{3} << 20 : 1 + 7919 * i % (std::size_t{1} << 20);
    Aligned<std::byte> part = allocate_shared_pages(size);
    EXPECT_EQ(reinterpret_cast<std::uintptr_t>(part.get()) % 64, 0U);
    EXPECT_TRUE(std::all_of(part.get(), part.get() + size, [](std::byte b) { return b == std::byte{0}; })) << i;
    std::memset(part.get(), static_cast<int>(i), size);
    if (i % 3 == 0) continue;  // freed at once
    parts.push_back(std::move(part));
    sizes.push_back(size);
  }
  for (std::size_t i = 0; i < parts.size(); ++i) {
    const std::byte first = parts[i][0];
    EXPECT_TRUE(std::all_of(parts[i].get(), parts[i].get() + sizes[i], [&](std::byte b) { return b == first; })) << i;
    EXPECT_TRUE(i == 0 || first != parts[i - 1][0]);
  }
}

TEST_F(Operations, ThreadsAreAtLeastOne) {
  set_threads(0);
  EXPECT_EQ(threads(), 1);
  set_threads(5);
  EXPECT_EQ(threads(), 5);
}

/// A table whose matmul computes nothing and records its calls.
struct Witness {
  static inline std::array<std::atomic<int>, 100> units;  // number of calls for each
  static inline std::atomic<int> calls;
  static inline std::atomic<bool> left_thread;  // a nested operation ran elsewhere than its caller
  static inline const PackedMatrix* nested = nullptr;
  static inline PackedActivations activation_formats;
  static inline thread_local bool inside = false;

  static void matmul(const PackedView&, const void*, int, float*, std::ptrdiff_t, int begin, int end) noexcept {
    ++calls;
    for (int n = begin; n < end; n += lanes) ++units[n / lanes];
    if (nested == nullptr) return;
    inside = true;
    draftproof::matmul(inner(), *nested, activation_formats, nullptr, 0);
    inside = false;
  }
  static void inner_matmul(const PackedView&, const void*, int, float*, std::ptrdiff_t, int, int) noexcept {
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

TEST_F(Operations, EveryUnitOfOutputsIsComputedOnceAndSmallWorkStaysInOneCall) {
  for (const int count : {1, 2, 3, 8}) {
    set_threads(count);
    for (const int outputs : {1, 16, 17, 40, 112, 1600}) {
      for (const int rows : {1, 100'000}) {
        const PackedMatrix w = Weight(Format::bf16, outputs, 2, 1).packed(scalar());
        PackedActivations activation_formats;
        activation_formats.reserve(scalar(), w, rows);
        for (auto& unit : Witness::units) unit = 0;
        Witness::calls = 0;
        matmul(Witness::outer(), w, activation_formats, nullptr, 0);
        const int units = (outputs + lanes - 1) / lanes;
        for (int i = 0; i < 100; ++i) EXPECT_EQ(Witness::units[i], i < units ? 1 : 0);
        EXPECT_TRUE(Witness::calls == 1 || (rows > 1 && count > 1));
      }
    }
  }
}

TEST_F(Operations, ConvolutionsAndTheDeltaRuleGiveTheSameBitsForEveryNumberOfThreads) {
  const DeltaInputs inputs({2, 6, 64, 80, false, true}, 5, 1);
  const int channels = 1000;
  const std::vector<float> x = Numbers(1).numbers(std::size_t{8} * channels, 3);
  const std::vector<float> weight = Numbers(2).numbers(std::size_t{4} * channels);
  const auto run = [&] {
    std::vector<float> y(std::size_t{5} * channels, nan);
    causal_conv_silu(best_kernels(), x.data(), x.data() + 3 * channels, channels, 5, channels, 4, weight.data(), 7,
                     channels - 2, y.data(), channels);
    std::vector<float> out(static_cast<std::size_t>(5 * inputs.values));
    std::vector<float> state(inputs.state.size());
    gated_delta_rule(best_kernels(), inputs.shape, inputs.from(0), inputs.query(0), inputs.q_stride, 5,
                     inputs.state.data(), state.data(), out.data());
    y.insert(y.end(), out.begin(), out.end());
    y.insert(y.end(), state.begin(), state.end());
    return y;
  };
  set_threads(1);
  const std::vector<float> expected = run();
  EXPECT_TRUE(std::isnan(expected[6]) && !std::isnan(expected[7]));
  EXPECT_TRUE(!std::isnan(expected[channels - 3]) && std::isnan(expected[channels - 2]));
  for (const int count : {2, 3, 8, 64}) {
    set_threads(count);
    EXPECT_TRUE(same_bits(run(), expected)) << count << " threads";
  }
}

TEST_F(Operations, AnOperationInsideAnotherOneStaysOnItsThread) {
  set_threads(3);
  const PackedMatrix w = Weight(Format::bf16, 160, 64, 1).packed(scalar());
  Witness::activation_formats.reserve(scalar(), w, 1000);
  Witness::nested = &w;
  Witness::left_thread = false;
  matmul(Witness::outer(), w, Witness::activation_formats, nullptr, 0);
  Witness::nested = nullptr;
  EXPECT_FALSE(Witness::left_thread);
}

TEST_F(Operations, ThousandsOfRangesInOneCrewAreEachDoneOnceAndInOrder) {
  for (const int count : {1, 2, 3, 8}) {  // more threads than cores: a late thread must neither block nor repeat work
    set_threads(count);
    std::vector<int> done(64);
    int mistakes = 0;
    with_workers([&] {
      for (int turn = 1; turn <= 3000; ++turn) {
        parallel_ranges(64, 1e9, 64, [&](int begin, int end, int) {
          for (int i = begin; i < end; ++i) done[i] += 1;
        });
        for (const int times : done) mistakes += times != turn;
      }
    });
    EXPECT_EQ(mistakes, 0) << count << " threads";
  }
}

TEST_F(Operations, AnExceptionOfTheLeaderIsRethrownAndTheNextCrewWorks) {
  set_threads(3);
  EXPECT_THROW(with_workers([] { throw std::runtime_error("stop"); }), std::runtime_error);
  std::atomic<int> sum{0};
  with_workers([&] { parallel_ranges(10, 1e9, 10, [&](int begin, int end, int) { sum += end - begin; }); });
  EXPECT_EQ(sum, 10);
}

}  // namespace
}  // namespace draftproof::test::operations_test
