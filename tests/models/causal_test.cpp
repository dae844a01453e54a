// SPDX-License-Identifier: MIT
// The causal law (batch invariance) on the real code path: the bits of a row depend on the tokens up to that row only.
#include <functional>
#include <map>

#include "ref/models/delta_net.h"
#include "ref/models/hash.h"
#include "tests/models/fixtures.h"

namespace draftproof::test::causal_test {
namespace {

std::string shown(const Division& how) {
  return "pieces of " + std::to_string(how.piece) + ", " + std::to_string(how.refused) + " refused, spare " +
         std::to_string(how.spare) + (how.retry ? ", each read twice" : "") +
         (how.branch > 0 ? ", among branches of " + std::to_string(how.branch) : "") +
         (how.tree_call > 0 ? ", " + std::to_string(how.tree_call) + " rows of the tree at once" : "");
}

std::vector<Division> divisions() {
  std::vector<Division> all;
  for (const int piece : {1, 2, 3, 16, 0}) {
    for (const int refused : {0, 1, 5}) {
      for (const int spare : {0, 23}) {
        for (const bool retry : {false, true}) all.push_back({piece, refused, spare, retry});
      }
    }
    for (const int branch : {1, 2, 5}) all.push_back({.piece = piece, .branch = branch});
    for (const int tree_call : {1, 3}) all.push_back({.piece = piece, .branch = 2, .tree_call = tree_call});
  }
  return all;
}

const std::vector<Division> few_divisions = {{0, 0, 0, false},
                                             {1, 0, 0, false},
                                             {2, 5, 0, true},
                                             {3, 1, 23, true},
                                             {16, 5, 0, false},
                                             {.piece = 4, .branch = 3},
                                             {.piece = 5, .branch = 2, .tree_call = 4}};

using MakeModel = std::function<std::unique_ptr<Model>(const Kernels& kernels)>;

/// Compares chunked runs, some of them on more threads, with the whole text in one pass by the first table of the
/// class. The last table of the class, its fastest, runs all of them.
void expect_causal_law(const MakeModel& make, const std::vector<const Kernels*>& tables, int length) {
  std::vector<Reading> reference;
  for (const Kernels* kernels : tables) {
    const auto model = make(*kernels);
    const std::vector<Token> text = some_text(length, model->vocabulary());
    const std::vector<int> taps = all_layers(*model);
    if (reference.empty()) reference.push_back(read(*model, text, taps));
    for (const Division& how : kernels == tables.back() ? divisions() : few_divisions) {
      EXPECT_EQ(read(*model, text, taps, how), reference[0]) << kernels->name << ", " << shown(how);
    }
    for (const int count : {2, 3}) {
      const Threads guard(count);
      for (const Division& how : few_divisions) {
        EXPECT_EQ(read(*model, text, taps, how), reference[0])
            << kernels->name << ", " << count << " threads, " << shown(how);
      }
    }
  }
}

void expect_causal_law(const std::filesystem::path& folder, const std::vector<const Kernels*>& tables, int length) {
  expect_causal_law([&](const Kernels& kernels) { return load_model(Checkpoint(folder), kernels); }, tables, length);
}

class CausalLaw : public testing::TestWithParam<std::string> {};

TEST_P(CausalLaw, BitsDoNotDependOnChunksRejectedRowsBranchesCapacityThreadsOrCanonicalTable) {
  expect_causal_law(external_dir / GetParam(), usable_kernels("canonical"), 40);
}

TEST_P(CausalLaw, HoldsInTheOpenblasClass) {
  if (usable_kernels("openblas").empty()) GTEST_SKIP() << "the openblas table may not be used here";
  expect_causal_law(external_dir / GetParam(), usable_kernels("openblas"), 40);
}

class SlidingCausalLaw : public testing::TestWithParam<std::string> {};

TEST_P(SlidingCausalLaw, HoldsWithWindowsWhoseRingWrapsManyTimes) {
  const WindowedCopy copy(external_dir / GetParam(), 4);
  expect_causal_law(copy.path(), usable_kernels("canonical"), 75);
}

void expect_later_rows_to_change(Model& model) {
  const std::vector<int> taps = all_layers(model);
  constexpr int length = 20;
  const std::vector<Token> text = some_text(length, model.vocabulary());
  const Reading before = read(model, text, taps);
  const auto width = static_cast<std::size_t>(model.vocabulary());
  for (std::size_t changed = 0; changed < length; ++changed) {
    std::vector<Token> other = text;
    other[changed] = (other[changed] + 1) % model.vocabulary();
    const Reading after = read(model, other, taps);
    for (std::size_t row = 0; row < length; ++row) {
      EXPECT_EQ(same_bits(std::span(before.logits).subspan(row * width, width),
                          std::span(after.logits).subspan(row * width, width)),
                row < changed);
    }
  }
}

TEST_P(CausalLaw, ATokenChangesNoEarlierRowAndEveryRowFromItsOwnOn) {
  expect_later_rows_to_change(*load_model(Checkpoint(external_dir / GetParam()), best_kernels()));
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

/// Compares each row of every small tree, in one call and in several, with the last row of its own path as a chain.
void expect_trees_to_equal_chains(Model& model) {
  const std::vector<Token> text = some_text(5, model.vocabulary());
  const auto width = static_cast<std::size_t>(model.vocabulary());
  std::map<std::vector<Token>, std::vector<float>> chains;
  const auto chain = [&](const std::vector<Token>& branch) -> const std::vector<float>& {
    std::vector<float>& logits = chains[branch];
    if (!logits.empty()) return logits;
    std::vector<Token> tokens = text;
    tokens.insert(tokens.end(), branch.begin(), branch.end());
    const std::vector<float> all = read(model, tokens, {}).logits;
    logits.assign(all.end() - static_cast<std::ptrdiff_t>(width), all.end());
    return logits;
  };
  Outputs outputs;
  for (int size = 1; size <= 5; ++size) {
    std::vector<int> start;
    for_every_forest(start, size, [&](const std::vector<int>& depths) {
      std::vector<Token> tokens;
      for (int row = 0; row < size; ++row) tokens.push_back((row * 5 + 2) % model.vocabulary());
      for (unsigned cuts = 0; cuts < 1U << (size - 1); ++cuts) {
        const auto cache = model.new_cache(10, 5);
        {
          Transaction transaction = cache->begin(5);
          forward_alone(model, {.cache = cache.get(), .tokens = text, .logits_from = 5}, outputs);
          transaction.commit(5);
        }
        const Transaction transaction = cache->begin(size);
        std::vector<Token> branch;
        for (std::size_t row = 0; row < depths.size();) {
          std::size_t end = row + 1;
          while (end < depths.size() && (cuts >> (end - 1) & 1) == 0) ++end;
          forward_alone(model,
                        {.cache = cache.get(),
                         .tokens = std::span(tokens).subspan(row, end - row),
                         .depths = std::span(depths).subspan(row, end - row)},
                        outputs);
          for (std::size_t i = 0; row < end; ++row, ++i) {
            branch.resize(static_cast<std::size_t>(depths[row]));
            branch.push_back(tokens[row]);
            ASSERT_TRUE(same_bits(std::span(outputs.logits).subspan(i * width, width), chain(branch)))
                << testing::PrintToString(depths) << ", row " << row << ", cuts " << cuts;
          }
        }
      }
    });
  }
}

TEST(CausalLawOfTrees, EveryRowOfEverySmallTreeEqualsItsOwnPathAsAChainHoweverItComesInCalls) {
  expect_trees_to_equal_chains(*make_hash_model({.levels = 1 << 20}));
  expect_trees_to_equal_chains(*make_hash_model({.levels = 1 << 20, .recurrent = true}));
  for (const Kernels* kernels : usable_kernels("canonical")) {
    expect_trees_to_equal_chains(*make_delta_net_model({}, *kernels));
  }
  for (const char* name : {"qwen3-tiny-tied", "qwen35-tiny-irregular", "gemma4-tiny-shared", "gemma4-tiny-donors"}) {
    expect_trees_to_equal_chains(*load_model(Checkpoint(external_dir / name), best_kernels()));
  }
  const WindowedCopy sliding(external_dir / "qwen3-tiny-tied", 4);
  expect_trees_to_equal_chains(*load_model(Checkpoint(sliding.path()), best_kernels()));
}

/// Shapes of delta net layers: more value heads than key heads; a wide one, whose operations run on all threads; one
/// whose tail is one row.
std::vector<DeltaNetShape> delta_net_shapes() {
  DeltaNetShape wide = {.hidden = 128, .layers = 1};
  wide.layer.delta = {.key_heads = 2, .value_heads = 4, .key_dim = 64, .value_dim = 80};
  DeltaNetShape narrow = {.layers = 3};
  narrow.layer = {.delta = {.key_heads = 2, .value_heads = 2, .key_dim = 5, .value_dim = 3}, .conv_width = 2};
  return {{}, wide, narrow};
}

TEST(DeltaNetCausalLaw, BitsDoNotDependOnChunksRejectedRowsBranchesCapacityThreadsOrCanonicalTable) {
  for (const DeltaNetShape& shape : delta_net_shapes()) {
    const auto make = [&](const Kernels& kernels) { return make_delta_net_model(shape, kernels); };
    expect_causal_law(make, usable_kernels("canonical"), shape.hidden > 100 ? 17 : 40);
  }
}

TEST(DeltaNetCausalLaw, HoldsInTheOpenblasClass) {
  if (usable_kernels("openblas").empty()) GTEST_SKIP() << "the openblas table may not be used here";
  const auto make = [](const Kernels& kernels) { return make_delta_net_model({}, kernels); };
  expect_causal_law(make, usable_kernels("openblas"), 40);
}

TEST(DeltaNetCausalLaw, ATokenChangesNoEarlierRowAndEveryRowFromItsOwnOn) {
  for (const DeltaNetShape& shape : delta_net_shapes()) {
    expect_later_rows_to_change(*make_delta_net_model(shape, best_kernels()));
  }
}

TEST(HashCausalLaw, HoldsWithAHistoryAndWithAFoldedState) {
  for (const bool recurrent : {false, true}) {
    const auto make = [=](const Kernels&) { return make_hash_model({.levels = 1 << 20, .recurrent = recurrent}); };
    expect_causal_law(make, usable_kernels("canonical"), 60);
    expect_later_rows_to_change(*make(best_kernels()));
  }
}

INSTANTIATE_TEST_SUITE_P(Some, CausalLaw,
                         testing::Values("qwen3-tiny-sharded", "qwen2-tiny-windowed", "qwen3-moe-tiny-mixed"),
                         printable_name);
INSTANTIATE_TEST_SUITE_P(SlowAll, CausalLaw, testing::ValuesIn(varied_targets), printable_name);
INSTANTIATE_TEST_SUITE_P(Gemma, CausalLaw, testing::Values("gemma2-tiny", "gemma4-tiny-shared"), printable_name);
INSTANTIATE_TEST_SUITE_P(Variations, CausalLaw, testing::Values("cohere2-tiny", "granitemoe-tiny", "olmo3-tiny"),
                         printable_name);
INSTANTIATE_TEST_SUITE_P(Hybrid, CausalLaw,
                         testing::Values("qwen35-tiny-irregular", "qwen35-tiny-rectangular", "lfm2-tiny", "mamba2-tiny",
                                         "granite-hybrid-tiny", "falcon-h1-tiny", "nemotron-h-tiny", "jamba-tiny",
                                         "kimi-linear-tiny"),
                         printable_name);

/// So long that heads of latent attention are shared out among threads.
TEST(LatentCausalLaw, HoldsWhereThreadsMultiplyWholeHeads) {
  expect_causal_law(external_dir / "deepseek-v3-tiny", usable_kernels("canonical"), 90);
}

INSTANTIATE_TEST_SUITE_P(One, SlidingCausalLaw, testing::Values("qwen2-tiny-tied"), printable_name);
INSTANTIATE_TEST_SUITE_P(SlowOne, SlidingCausalLaw, testing::Values("qwen3-tiny-sharded"), printable_name);

TEST(CausalLawTale, HoldsForATrainedModelOnEveryThreadCount) {
  if (!std::filesystem::exists(tale_target / "model.safetensors")) GTEST_SKIP() << "no trained model is here";
  const auto model = load_model(Checkpoint(tale_target), best_kernels());
  const std::vector<Token> text = some_text(50, model->vocabulary());
  const std::vector<int> taps = all_layers(*model);
  const Reading reference = read(*model, text, taps);
  for (const Division& how :
       {Division{1, 0, 0, false}, Division{2, 3, 0, false}, Division{3, 5, 9, true}, Division{16, 2, 0, false}}) {
    EXPECT_EQ(read(*model, text, taps, how), reference) << shown(how);
  }
  for (const int count : {2, 3}) {
    const Threads guard(count);
    for (const Division& how : {Division{}, Division{16, 5, 0, false}}) {
      EXPECT_EQ(read(*model, text, taps, how), reference) << count << " threads, " << shown(how);
    }
  }
}

TEST(CausalLawTaleSlow, HoldsForATrainedModelWithEveryTableAndChunking) {
  if (!std::filesystem::exists(tale_target / "model.safetensors")) GTEST_SKIP() << "no trained model is here";
  expect_causal_law(tale_target, usable_kernels("canonical"), 50);
  expect_causal_law(tale_target, usable_kernels("openblas"), 50);
}

}  // namespace
}  // namespace draftproof::test::causal_test
