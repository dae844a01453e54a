// SPDX-License-Identifier: MIT
// What counting says that weights take (WeightLoader::Mode::count) against what loading them took.
#include <functional>

#include "ref/base/error.h"
#include "ref/models/counted_target.h"
#include "ref/models/dflash.h"
#include "ref/models/eagle3.h"
#include "ref/models/gemma4_assistant.h"
#include "ref/models/medusa.h"
#include "ref/models/memory.h"
#include "ref/models/mtp.h"
#include "tests/models/fixtures.h"

namespace draftproof::test::counting_test {
namespace {

const std::filesystem::path models = source_dir / "fixtures" / "models";

/// Ways to load weights that differ in what is kept of them.
std::vector<LoadOptions> ways_to_load() {
  const LoadOptions plain(best_kernels());
  LoadOptions narrow(best_kernels(), Quantization::q4);
  narrow.requantize = true;
  narrow.small_tables = true;
  LoadOptions part(best_kernels(), Quantization::q8);
  part.head_tokens = 20;
  return {plain, LoadOptions(*find_kernels("scalar"), Quantization::f32), narrow, part};
}

TEST(Counting, ATargetTakesWhatLoadingItTakes) {
  std::vector<std::filesystem::path> targets = {models / "tale-target", models / "tale-hybrid"};
  for (const auto& names : {std::span<const std::string>(tiny_targets),
                            {tiny_hybrid_targets},
                            {tiny_recurrent_targets},
                            {tiny_gemma_targets},
                            {tiny_variations}}) {
    for (const std::string& name : names) targets.push_back(external_dir / name);
  }
  for (const char* name :
       {"llama-cpp-qwen2-q5_1", "llama-cpp-llama-q4_1", "llama-cpp-qwen3-q4_k_m", "gguf-mixed", "mtp-qwen35",
        "quantized-folders/fp8-block", "quantized-folders/gptq-4-ordered-v2", "quantized-folders/mlx-mixed"}) {
    targets.push_back(external_dir / name);
  }
  for (const std::filesystem::path& target : targets) {
    const Checkpoint files(target);
    for (const LoadOptions& options : ways_to_load()) {
      const TransformerConfig config = describe(files, options);
      const WeightLoader loaded(files, options);
      architecture_of(files.config()).load(loaded, config);
      loaded.finish(config.unused);
      EXPECT_FALSE(loaded.bytes().by_format.empty());
      EXPECT_EQ(model_need(files, options).weights, loaded.bytes().by_format) << target;
    }
  }
}

/// Compares what a head takes with what load(loader, target) took.
void expect_counted(const std::filesystem::path& draft, const std::filesystem::path& target_path,
                    const std::function<MemoryNeed(const Checkpoint&, const LoadOptions&)>& need,
                    const std::function<void(const WeightLoader&, const Model&)>& load) {
  const auto target = load_model(Checkpoint(target_path), best_kernels());
  const Checkpoint files(draft);
  for (const LoadOptions& options : ways_to_load()) {
    const WeightLoader loaded(files, options);
    load(loaded, *target);
    EXPECT_FALSE(loaded.bytes().by_format.empty());
    EXPECT_EQ(need(files, options).weights, loaded.bytes().by_format) << draft;
  }
}

std::filesystem::path target_of(const std::filesystem::path& draft) {
  return external_dir / Hdf5::open(draft / "answers.h5").read_string_attribute("/", "target");
}

TEST(Counting, AHeadTakesWhatLoadingItTakes) {
  const auto dflash = [](const std::filesystem::path& draft, const std::filesystem::path& target) {
    const auto need = [](const auto& files, const auto& options) { return DFlashNetwork::need(files, options); };
    expect_counted(draft, target, need, [](const WeightLoader& from, const Model& model) {
      DFlashNetwork(from, read_dflash_config(from.weights.config(), model), model);
    });
  };
  const auto eagle3 = [](const std::filesystem::path& draft, const std::filesystem::path& target) {
    expect_counted(draft, target, Eagle3Head::need, [](const WeightLoader& from, const Model& model) {
      const Eagle3Target fit = {model.layers(), model.hidden(), model.vocabulary()};
      Eagle3Head(from, read_eagle3_config(from.weights.config(), fit), model);
    });
  };
  const auto assistant = [](const std::filesystem::path& draft, const std::filesystem::path& target) {
    expect_counted(draft, target, Gemma4Assistant::need, [](const WeightLoader& from, const Model& model) {
      Gemma4Assistant(from, read_gemma4_assistant(from.weights, model), model);
    });
  };
  const auto mtp = [](const std::filesystem::path& draft, const std::filesystem::path& target) {
    expect_counted(draft, target, MtpHead::need, [](const WeightLoader& from, const Model& model) {
      MtpHead(from, read_mtp_config(from.weights), model);
    });
  };
  const auto medusa = [](const std::filesystem::path& draft, const std::filesystem::path& target) {
    expect_counted(draft, target, MedusaHeads::need, [](const WeightLoader& from, const Model& model) {
      MedusaHeads(from, read_medusa(from.weights, model), model);
    });
  };
  for (const char* name : {"dflash-full", "dflash-mixed", "dflash2-published", "dflash2-three-taps"}) {
    dflash(external_dir / name, target_of(external_dir / name));
  }
  for (const char* name :
       {"eagle3-chunks", "eagle3-midlayer", "eagle3-speculators", "eagle3-layers", "peagle-windowed"}) {
    eagle3(external_dir / name, target_of(external_dir / name));
  }
  for (const char* name : {"gemma4-assistant", "gemma4-assistant-ordered"}) {
    assistant(external_dir / name, target_of(external_dir / name));
  }
  for (const char* name : {"mtp-qwen35", "mtp-qwen35-moe", "mtp-qwen3-next", "mtp-qwen3-two", "mtp-deepseek-v3",
                           "mtp-glm4-moe", "mtp-ernie45-moe", "mtp-mimo", "mtp-nemotron-h"}) {
    mtp(external_dir / name, external_dir / name);
  }
  for (const char* name : {"medusa-authors", "medusa-vllm"}) {
    medusa(external_dir / name, target_of(external_dir / name));
  }
  dflash(models / "tale-dflash", models / "tale-target");
  dflash(models / "tale-dspark", models / "tale-target");
  eagle3(models / "tale-eagle3", models / "tale-target");
  eagle3(models / "tale-peagle", models / "tale-target");
  mtp(models / "tale-mtp", models / "tale-target");
  medusa(models / "tale-medusa", models / "tale-target");
  mtp(models / "tale-hybrid-mtp", models / "tale-hybrid");
  assistant(models / "tale-gemma-assistant", models / "tale-gemma");
}

TEST(Counting, WhatWasOnlyCountedAbortsWhereItIsRun) {
  const Checkpoint files(external_dir / "qwen3-tiny-tied");
  const LoadOptions options(best_kernels());
  const WeightLoader counted(files, options, WeightLoader::Mode::count);
  const auto model = architecture_of(files.config()).load(counted, describe(files, options));
  const auto cache = model->new_cache(4, 4);
  const Transaction open = cache->begin(1);
  const Token token = 1;
  Outputs outputs;
  EXPECT_DEATH(forward_alone(*model, {.cache = cache.get(), .tokens = std::span(&token, 1)}, outputs),
               "a matrix that was only counted is computed with");
  float row = 0;
  EXPECT_DEATH(CountedTarget(1, 1).embed(std::span(&token, 1), &row), "is not run");
}

TEST(Counting, TellsNobodyAndTakesNothingForTensorsThatLoadingRefuses) {
  LoadOptions options(best_kernels());
  options.observer = [](const std::filesystem::path&, std::uint64_t, std::uint64_t) { ADD_FAILURE() << "was told"; };
  const Checkpoint files(external_dir / "llama-tiny-plain");
  const WeightLoader counted(files, options, WeightLoader::Mode::count);
  EXPECT_EQ(load_matrix(counted, {{"no.such.weight", 8}}, 8).bytes(), 0U);
  EXPECT_EQ(load_matrix(counted, {{"model.norm.weight", 8}}, 8).bytes(), 0U);
  EXPECT_TRUE(counted.floats("model.norm.weight", {7}).empty());
  EXPECT_TRUE(counted.bytes().by_format.empty());
  EXPECT_NO_THROW(counted.finish());
  EXPECT_THROW(for (int i = 0; i < 1 << 20; ++i) counted.leaves_out("no.such.weight", {1}), Error);
}

}  // namespace
}  // namespace draftproof::test::counting_test
