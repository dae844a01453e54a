// SPDX-License-Identifier: MIT
// docs/memory.md against what the system counts, and the refusal of what cannot fit before any weight is read.
#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <malloc.h>

#include <sstream>

#include "oracle/spectrace/writer.h"
#include "ref/base/error.h"
#include "ref/decoding/engine.h"
#include "tests/sanitized.h"
#include "tests/tools/command.h"
#include "tests/tools/vast_model.h"
#include "tools/engine_subject.h"
#include "tools/reproducer.h"

namespace draftproof::test::memory_test {
namespace {

const std::string target = fixture("models/tale-target");

/// A line of /proc/self/status, in bytes.
double status(const std::string& name) {
  std::istringstream lines(text_of("/proc/self/status"));
  for (std::string word; lines >> word;) {
    double kilobytes = 0;
    if (word == name + ":" && lines >> kilobytes) return 1024 * kilobytes;
  }
  return 0;
}

/// Returns the peak memory of f() in bytes, beyond the memory in use before.
template <class Function>
double peak_bytes(const Function& f) {
  malloc_trim(0);
  put("/proc/self/clear_refs", "5");  // resets the peak
  const double before = status("VmRSS");
  f();
  return status("VmHWM") - before;
}

/// Decoding needs at most as much memory beside the weights as the formula states, and not much less, with and without
/// a trace.
void expect_the_formula_holds(const std::string& model, const std::string& draft, KvFormat kv, int prompt, int text,
                              bool traced) {
  const LoadOptions load_options(best_kernels(), Quantization::none, kv);
  Request request;
  for (int i = 0; i < prompt; ++i) request.prompt.push_back(i * 7 % 1000);
  request.max_new_tokens = text - prompt;
  request.sampling.temperature = 1.5F;
  const Execution execution{.draft_max = draft == "none" ? 0 : 8};
  ModelFiles files(model);
  Engine engine(files, load_options);
  ASSERT_EQ(engine.gate(draft), draft == "none" ? Gate::no_draft : Gate::open);
  PhiloxSource random(1);
  {
    ModelFiles other_files(target);
    Engine other(other_files, load_options);  // what a process needs once: threads, pages of code
    Request brief;
    brief.prompt = {1, 2};
    brief.max_new_tokens = 2;
    other.decode({.request = brief, .rule = rule_by_name("rejection"), .random = random});
  }
  const Rule& rule = rule_by_name("rejection");
  std::size_t written = 0;
  const double peak = peak_bytes([&] {
    const auto take = [&](std::string_view line) { written += line.size(); };
    spectrace::Writer writer(take, "us", "", engine.target().vocabulary(), rule, 1);
    writer.begin({draft, "", ""});
    RoundCallback watch;
    if (traced) {
      watch.on_round = [&](const Trace& trace) {
        writer.add_round(trace);
        return Next::go_on;
      };
      watch.rows = true;
    }
    engine.decode(
        {.request = request, .execution = execution, .draft = draft, .rule = rule, .random = random, .watch = watch});
  });
  const double counted = static_cast<double>(
      memory_need(files, std::span(&draft, 1), load_options, traced).beside_weights(text, execution.draft_max));
  constexpr double spare = 768 * 1024;  // the system counts whole pages, and batches of them
  EXPECT_EQ(written > 1000, traced);
  EXPECT_LE(peak, counted + spare) << draft << (traced ? ", traced" : "");
  EXPECT_LE(counted, 1.5 * peak + spare) << draft;
  fmt::print("{}, {}: {:.2f} MB at most, {:.2f} MB counted\n", model, draft, 1e-6 * peak, 1e-6 * counted);
}

/// Of the drafts every stride-th.
void expect_close_bounds_of_shipped_models(int stride) {
  if (test::sanitized) GTEST_SKIP() << "the sanitizer keeps what was freed";
  int number = 0;
  const std::string of_dspark = "dflash:" + fixture("models/tale-dspark");
  for (const std::string& draft : {std::string("none"),
                                   "dflash:" + fixture("models/tale-dflash"),
                                   "dflash:" + fixture("models/tale-dflash") + "?window=64",
                                   of_dspark,
                                   of_dspark + "?min_confidence=0.5",
                                   of_dspark + "?type=q4,head=512",
                                   "eagle3:" + fixture("models/tale-eagle3"),
                                   "model:" + fixture("models/tale-small"),
                                   "mtp:" + fixture("models/tale-mtp"),
                                   "mtp:" + fixture("models/tale-mtp") + "?type=q4",
                                   "medusa:" + fixture("models/tale-medusa"),
                                   "medusa:" + fixture("models/tale-medusa") + "?tree=8",
                                   "medusa:" + fixture("models/tale-medusa") + "?type=q4",
                                   std::string("self"),
                                   std::string("tree-test"),
                                   "eagle3:" + fixture("models/tale-eagle3") + "?tree=8",
                                   "mtp:" + fixture("models/tale-mtp") + "?tree=8",
                                   "eagle3:" + fixture("models/tale-peagle"),
                                   "pard:" + fixture("models/tale-pard") + "?tree=8",
                                   "dflash:" + fixture("models/tale-dflash") + "?type=q4",
                                   "dflash:" + fixture("models/tale-dflash") + "?kv=f32,context=500",
                                   "eagle3:" + fixture("models/tale-eagle3") + "?type=q8,context=300",
                                   "mtp:" + fixture("models/tale-mtp") + "?kv=f32",
                                   "medusa:" + fixture("models/tale-medusa") + "?context=400",
                                   "model:" + fixture("models/tale-small") + "?kv=q8,context=500,type=q8",
                                   "dflash:" + fixture("models/tale-dflash") + "?head=512",
                                   "model:" + fixture("models/tale-small") + "?type=q4",
                                   "model:" + fixture("models/tale-small") + "?head=512",
                                   std::string("perfect")}) {
    if (number++ % stride != 0) continue;
    for (const KvFormat kv : {KvFormat::f32, KvFormat::q8}) {
      expect_the_formula_holds(target, draft, kv, 900, 930, false);
    }
    expect_the_formula_holds(target, draft, KvFormat::q8, 600, 900, true);
  }
}

TEST(MemoryFormulaSlow, BoundsAThirdOfTheShippedModelsClosely) { expect_close_bounds_of_shipped_models(3); }
TEST(MemoryFormulaSweep, BoundsTheShippedModelsClosely) { expect_close_bounds_of_shipped_models(1); }

TEST(MemoryFormulaSlow, BoundsARealShape) {
  const Folder folder;
  const std::string model = (folder.path() / "model.gguf").string();
  const Outcome written = run_command({"synth", model, "--shape", "qwen3-0.6b", "--type", "q4_0"});
  ASSERT_EQ(written.status, 0) << written.err;
  for (const std::string& draft : {std::string("none"), std::string("perfect")}) {
    for (const bool traced : {false, true}) expect_the_formula_holds(model, draft, KvFormat::q8, 140, 150, traced);
  }
}

/// Expects that a command refuses a text of so many positions, by what it needs, before it reads any weight.
void expect_refused(const Words& words, const std::string& models, int positions) {
  const Outcome outcome = run_command(words);
  const std::string sentence = fmt::format("{} for a text of {} positions needs 409", models, positions);
  EXPECT_EQ(outcome.status, 3) << words.front();
  EXPECT_THAT(outcome.err, testing::HasSubstr(sentence)) << words.front();
  EXPECT_EQ(outcome.out, "") << words.front();
}

TEST(MemoryShortage, OfADraftIsFoundBeforeWeightsAreRead) {
  const Folder folder;
  const Words length = {"--max-new-tokens", "4"};
  const Words text = Words{"--prompt-tokens", "1,2"} + length;
  for (const std::string& draft :
       {"dflash:" + vast_model(folder, "tale-dflash"), "eagle3:" + vast_model(folder, "tale-eagle3"),
        "model:" + vast_model(folder, "tale-small")}) {
    const auto refused = [&](const Words& command, const Words& more, int positions) {
      expect_refused(command + Words{target, "--draft", draft} + more, target + " with " + draft, positions);
    };
    refused({"generate"}, text, 6);
    refused({"verify"}, text, 6);
    refused({"chat"}, length, 5);
    refused({"serve"}, length, 5);
    refused({"fixture", "record"}, text + Words{(folder.path() / "f.h5").string(), "--reason", "a run"}, 6);
    refused({"bench", "batch"}, length + Words{"--prompt-length", "2"}, 6);
    refused({"bench", "drafters"}, text, 6);
    refused({"bench", "prefix"}, {"--prefix-lengths", "3,2"}, 12);
  }
}

TEST(MemoryShortage, OfACaseIsFoundBeforeWeightsAreRead) {
  const Folder folder;
  const std::string draft = "model:" + vast_model(folder, "tale-small");
  Reproducer reproducer;
  reproducer.command = "verify";
  reproducer.check = "tokens_equal";
  reproducer.target = target;
  reproducer.trial = Case{reproducer.check, {}, 1, std::vector<Variation>(1)};
  reproducer.trial->variations.front().draft = draft;
  reproducer.trial->request.prompt = {1, 2};
  reproducer.trial->request.max_new_tokens = 4;
  const std::string path = (folder.path() / "case").string();
  ReproducerFolder(path).write(reproducer);
  expect_refused({"reproduce", path}, "cannot be run: " + target + " with " + draft, 6);
}

TEST(MemoryShortage, OfATextIsCountedWithTheWeightsOfTheTarget) {
  const Folder folder;
  const std::string vast = vast_model(folder, "tale-target");
  expect_refused({"bench", "decode", vast, "--context", "8", "--rows", "4"}, vast, 12);
  expect_refused({"bench", "prefill", vast, "--prompt-lengths", "3,8,5"}, vast, 9);
}

TEST(MemoryShortage, IsLookedForAfterWhatCannotBeRecorded) {
  const Folder folder;
  const Outcome outcome =
      run_command({"fixture", "record", vast_model(folder, "tale-target"), (folder.path() / "f.h5").string(), "--draft",
                   "tree-test", "--prompt-tokens", "1", "--reason", "a run"});
  EXPECT_EQ(outcome.status, 3);
  EXPECT_THAT(outcome.err, testing::HasSubstr("proposes trees"));
}

TEST(MemoryShortage, OfKeptTracesIsFoundAfterTheFirstRun) {
  ModelFiles files(target);
  EngineSubject subject(files, LoadOptions(best_kernels()), nullptr);
  Request request;
  request.prompt = {1, 2, 3};
  request.max_new_tokens = 8;
  request.sampling.temperature = 1;
  Variation variation;
  variation.draft = "perfect";
  PhiloxSource random(1);
  subject.will_keep(2, [] {});
  EXPECT_NO_THROW(subject.run(request, variation, random));
  subject.will_keep(std::size_t{1} << 40, [] {});
  try {
    subject.run(request, variation, random);
    FAIL() << "2^40 runs were kept";
  } catch (const Error& error) {
    EXPECT_THAT(error.what(), testing::HasSubstr("of 1099511627775 more runs need "));
    EXPECT_THAT(error.what(), testing::HasSubstr("give --top-k, a smaller --max-new-tokens or a smaller --draft-max"));
  }
}

}  // namespace
}  // namespace draftproof::test::memory_test
