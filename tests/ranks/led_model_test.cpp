// SPDX-License-Identifier: MIT
// A model over ranks has the bits of the model in one process: rows, taps and caches of every architecture and every
// format, of chains and trees, after rollbacks, restores and discards.
#include "ref/ranks/led_model.h"

#include <algorithm>
#include <filesystem>
#include <set>

#include "ref/base/error.h"
#include "ref/models/memory.h"
#include "ref/models/models.h"
#include "tests/models/fixtures.h"
#include "tests/ranks/thread_ranks.h"

namespace draftproof::test::led_model_test {
namespace {

constexpr int ranks_max = 4;

/// The folders of all tiny targets.
std::vector<std::string> all_targets() {
  std::vector<std::string> names;
  for (const auto& entry : std::filesystem::directory_iterator(external_dir)) {
    const std::string name = entry.path().filename().string();
    if (name.find("-tiny") == std::string::npos) continue;
    if (std::filesystem::exists(entry.path() / "config.json")) names.push_back(name);
  }
  std::sort(names.begin(), names.end());
  return names;
}

std::vector<Token> some_text(const Model& model, int length) {
  std::vector<Token> text;
  for (int k = 0; k < length; ++k) text.push_back((k * k + 3 * k) % model.vocabulary());
  return text;
}

LoadOptions over(Ranks& ranks, LoadOptions options) {
  options.ranks = &ranks;
  return options;
}

/// Readings in calls of every kind.
std::vector<Reading> readings(Model& model) {
  const std::vector<Token> text = some_text(model, 19);
  const std::vector<int> taps = {0, model.layers() - 1};
  return {read(model, text, taps, {.piece = 7, .refused = 3}), read(model, text, taps, {.piece = 10, .branch = 2})};
}

void expect_same(const Checkpoint& files, const LoadOptions& options, const std::string& which) {
  const auto alone = load_model(files, options);
  const std::vector<Reading> expected = readings(*alone);
  for (int count = 1; count <= ranks_max; ++count) {
    with_ranks(count, [&](Ranks& ranks) {
      const auto model = load_led_model(files, over(ranks, options));
      EXPECT_TRUE(readings(*model) == expected) << which << " over " << count << " ranks";
    });
  }
}

class LedModel : public testing::TestWithParam<std::string> {};

TEST_P(LedModel, HasTheBitsOfOneProcess) {
  expect_same(Checkpoint(external_dir / GetParam()), best_kernels(), GetParam());
}

INSTANTIATE_TEST_SUITE_P(All, LedModel, testing::ValuesIn(all_targets()), printable_name);

TEST(LedModelFormats, AllHaveTheBitsOfOneProcess) {
  for (const char* const name : {"qwen3-tiny-sharded", "qwen3-moe-tiny-mixed", "qwen35-moe-tiny"}) {
    for (const Quantization quantize : {Quantization::f32, Quantization::q8, Quantization::q4}) {
      for (const KvFormat kv : {KvFormat::f32, KvFormat::q8}) {
        expect_same(Checkpoint(external_dir / name), {best_kernels(), quantize, kv},
                    name + std::string(name_of(quantize)));
      }
    }
  }
}

/// Every .gguf file that holds a model.
TEST(LedModelFormats, OfGgufFilesHaveTheBitsOfOneProcess) {
  int seen = 0;
  for (const auto& entry : std::filesystem::recursive_directory_iterator(external_dir)) {
    if (entry.path().extension() != ".gguf") continue;
    std::unique_ptr<Model> model;
    try {
      model = load_model(Checkpoint(entry.path()), best_kernels());
    } catch (const Error&) {
      continue;  // a vocabulary, an adapter, a part of a file
    }
    ++seen;
    expect_same(Checkpoint(entry.path()), best_kernels(), entry.path().filename().string());
  }
  EXPECT_GE(seen, 20);
}

TEST(LedModelFormats, OfQuantizedFoldersHaveTheBitsOfOneProcess) {
  int seen = 0;
  for (const auto& entry : std::filesystem::directory_iterator(external_dir / "quantized-folders")) {
    if (!entry.is_directory()) continue;
    const Checkpoint files(entry.path());
    if (!files.tensors().contains("model.norm.weight")) continue;  // experts alone
    ++seen;
    expect_same(files, best_kernels(), entry.path().filename().string());
  }
  EXPECT_GE(seen, 25);
}

TEST(LedModelFormats, WithALoraAdapterHaveTheBitsOfOneProcess) {
  Checkpoint plain(external_dir / "qwen3-tiny-tied");
  Checkpoint merged(external_dir / "qwen3-tiny-tied");
  merged.merge({.path = external_dir / "lora-qwen3-tiny-tied", .scale = 0.5});
  EXPECT_FALSE(readings(*load_model(plain, best_kernels())) == readings(*load_model(merged, best_kernels())));
  expect_same(merged, best_kernels(), "with an adapter");
}

/// Snapshots hold what each architecture keeps: keys and values, recurrent states, windows.
TEST_P(LedModel, HasTheSnapshotsOfOneProcess) {
  const Checkpoint files(external_dir / GetParam());
  const auto run = [&](Model& model) {
    const std::vector<Token> text = some_text(model, 20);
    Outputs outputs;
    const auto read_on = [&](Cache& to, int first, int count) {
      Transaction transaction = to.begin(count);
      forward_alone(model, {.cache = &to, .tokens = std::span(text).subspan(first, count)}, outputs);
      transaction.commit(count);
      return to.digest();
    };
    const auto cache = model.new_cache(32, 20);
    std::vector<Fingerprint> seen = {read_on(*cache, 0, 16)};
    const Snapshot snapshot = cache->snapshot(0);
    seen.push_back(read_on(*cache, 16, 4));
    const auto other = model.new_cache(32, 20);
    EXPECT_TRUE(other->restore(snapshot, 16));
    seen.push_back(read_on(*other, 16, 4));
    EXPECT_EQ(seen[1], seen[2]);
    return seen;
  };
  const std::vector<Fingerprint> expected = run(*load_model(files, best_kernels()));
  for (const int count : {2, 3}) {
    with_ranks(count, [&](Ranks& ranks) {
      const auto model = load_led_model(files, over(ranks, best_kernels()));
      EXPECT_EQ(run(*model), expected) << count << " ranks";
    });
  }
}

TEST(LedModelCache, IsRestoredAndShiftedAsInOneProcess) {
  const std::filesystem::path path = external_dir / "qwen3-tiny-sharded";
  const auto run = [&](Model& model) {
    const std::vector<Token> text = some_text(model, 24);
    const auto cache = model.new_cache(64, 24);
    Outputs outputs;
    std::vector<Fingerprint> seen;
    const auto read_on = [&](Cache& to, int first, int count) {
      Transaction transaction = to.begin(count);
      forward_alone(model, {.cache = &to, .tokens = std::span(text).subspan(first, count)}, outputs);
      transaction.commit(count);
      seen.push_back(to.digest());
    };
    read_on(*cache, 0, 16);
    const Snapshot snapshot = cache->snapshot(0);
    Digest digest;
    for (const LayerSnapshotPtr& layer : snapshot.layers) {
      for (const std::byte byte : layer->data) digest.add(std::to_integer<int>(byte));
    }
    seen.push_back(digest.value());
    const auto other = model.new_cache(40, 24);
    EXPECT_TRUE(other->restore(snapshot, 13));
    read_on(*other, 13, 9);
    EXPECT_TRUE(other->truncate(4));
    read_on(*other, 4, 3);
    cache->discard(2, 5);
    read_on(*cache, 11, 4);
    cache->clear();
    read_on(*cache, 0, 2);
    return seen;
  };
  const auto alone = load_model(Checkpoint(path), best_kernels());
  const std::vector<Fingerprint> expected = run(*alone);
  for (int count = 1; count <= ranks_max; ++count) {
    with_ranks(count, [&](Ranks& ranks) {
      const auto model = load_led_model(Checkpoint(path), over(ranks, best_kernels()));
      EXPECT_EQ(run(*model), expected) << count << " ranks";
    });
  }
}

TEST(LedModelEmbeddings, AreThoseOfOneProcess) {
  const std::filesystem::path path = external_dir / "qwen3-tiny-sharded";
  const auto run = [&](const Model& model) {
    const std::vector<Token> tokens = {5, 0, model.vocabulary() - 1, 5, 17};
    const auto width = static_cast<std::size_t>(model.hidden());
    std::vector<float> rows((tokens.size() + 1) * width);
    model.embeddings()->embed(tokens, rows.data());
    model.embeddings()->head_row(9, rows.data() + tokens.size() * width);
    std::vector<float> logits(tokens.size() * static_cast<std::size_t>(model.vocabulary()));
    PackedActivations scratch;
    EXPECT_TRUE(model.embeddings()->unembed(rows.data(), static_cast<int>(tokens.size()), scratch, logits.data()));
    rows.insert(rows.end(), logits.begin(), logits.end());
    return rows;
  };
  const auto alone = load_model(Checkpoint(path), best_kernels());
  const std::vector<float> expected = run(*alone);
  for (int count = 1; count <= ranks_max; ++count) {
    with_ranks(count, [&](Ranks& ranks) {
      const auto model = load_led_model(Checkpoint(path), over(ranks, best_kernels()));
      EXPECT_TRUE(same_bits(run(*model), expected)) << count << " ranks";
    });
  }
}

/// The mutant: all ranks take the outputs of the first two for each other's.
class CrossedRanks final : public ThreadRanks {
 public:
  using ThreadRanks::ThreadRanks;
  void exchange(void* table, std::size_t bytes, int rows, std::ptrdiff_t stride, std::span<const int> bounds) override {
    ThreadRanks::exchange(table, bytes, rows, stride, bounds);
    const int width = std::min(bounds[1] - bounds[0], bounds[2] - bounds[1]);
    auto* const first = static_cast<std::byte*>(table);
    for (std::ptrdiff_t row = 0; row < rows && sizeof(float) == bytes; ++row) {
      std::byte* const one = first + bytes * static_cast<std::size_t>(row * stride + bounds[0]);
      std::byte* const other = first + bytes * static_cast<std::size_t>(row * stride + bounds[1]);
      std::swap_ranges(one, one + bytes * static_cast<std::size_t>(width), other);
    }
  }
};

TEST(LedModelMutant, WithTwoSlicesSwappedHasOtherBits) {
  const std::filesystem::path path = external_dir / "qwen3-tiny-sharded";
  const auto alone = load_model(Checkpoint(path), best_kernels());
  const std::vector<Reading> expected = readings(*alone);
  with_ranks<CrossedRanks>(2, [&](Ranks& ranks) {
    const auto model = load_led_model(Checkpoint(path), over(ranks, best_kernels()));
    EXPECT_FALSE(readings(*model) == expected);
  });
}

TEST(LedModelLoading, RefusesKernelsWhoseBitsAreThoseOfOneMachine) {
  with_ranks(2, [&](Ranks& ranks) {
    const Checkpoint files(external_dir / "qwen3-tiny-sharded");
    EXPECT_THROW(load_led_model(files, over(ranks, *find_kernels("openblas"))), Error);
  });
}

/// A rank that is only counted.
class CountedRank final : public Ranks {
 public:
  CountedRank(int rank, int count) : Ranks(rank, count) {}
  void exchange(void*, std::size_t, int, std::ptrdiff_t, std::span<const int>) override {}
  void broadcast(std::vector<std::byte>&) override {}
};

TEST(LedModelMemory, OfAllRanksTogetherIsThatOfOneProcessAndWhatIsNotCut) {
  for (const std::string& name : all_targets()) {
    const Checkpoint files(external_dir / name);
    const auto total = [&](const LoadOptions& options) {
      std::uint64_t sum = 0;
      for (const auto& [format, bytes] : model_need(files, options).weights) sum += bytes;
      return sum;
    };
    const std::uint64_t alone = total(best_kernels());
    std::uint64_t together = 0;
    for (int rank = 0; rank < 2; ++rank) {
      CountedRank counted(rank, 2);
      together += total(over(counted, best_kernels()));
    }
    EXPECT_GE(together, alone) << name;
    EXPECT_LT(together, 2 * alone) << name;
  }
}

}  // namespace
}  // namespace draftproof::test::led_model_test
