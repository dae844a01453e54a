// SPDX-License-Identifier: MIT
// Engines assembled by name, and the guarantee end to end on the trained models of the repository.
#include "ref/decoding/engine.h"
#include "ref/base/error.h"
#include "ref/decoding/draft_lengths.h"
#include "ref/decoding/scheduler.h"
#include "ref/decoding/stop_at_strings.h"
#include "ref/models/models.h"
#include "ref/text/tokenizer.h"
#include "tests/decoding/support.h"
#include "tests/folder.h"
#include "tests/threads.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <map>

namespace draftproof::engine_test {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;

const std::filesystem::path models = std::filesystem::path(DRAFTPROOF_SOURCE_DIR) / "fixtures/models";

std::string dflash() { return "dflash:" + (models / "tale-dflash").string(); }
std::string eagle3() { return "eagle3:" + (models / "tale-eagle3").string(); }
std::string medusa() { return "medusa:" + (models / "tale-medusa").string(); }
std::string small_model() { return "model:" + (models / "tale-small").string(); }

template <class Call>
std::string error_of(const Call& call) {
  try {
    call();
  } catch (const Error& error) {
    return error.what();
  }
  return "";
}

Asked tale_request(int max_new_tokens) {
  const Tokenizer tokenizer = Tokenizer::load(models / "tale-target");
  Asked request = asked(tokenizer.encode("Once upon a time there was a king who"), max_new_tokens);
  request.stops = read_stop_tokens(Checkpoint(models / "tale-target"));
  return request;
}

TEST(Names, OfKernelsAreThoseOfTheTablesAndAnEmptyNameMeansTheBest) {
  EXPECT_EQ(&kernels_by_name(""), &best_kernels());
  for (const Kernels* const* table = all_kernels(); *table != nullptr; ++table) {
    if ((*table)->supported() && std::string(self_test(**table)).empty()) {
      EXPECT_EQ(&kernels_by_name((*table)->name), *table);
    } else {
      EXPECT_NE(error_of([&] { kernels_by_name((*table)->name); }), "");
    }
  }
  EXPECT_THAT(error_of([] { kernels_by_name("abacus"); }),
              AllOf(HasSubstr("'abacus'"), HasSubstr(" scalar"), HasSubstr(" avx2"), HasSubstr(" openblas")));
  EXPECT_NE(error_of([] { kernels_by_name("Scalar"); }), "");
}

TEST(Names, OfRulesAreThoseOfTheList) {
  EXPECT_EQ(&rule_by_name("matching"), &matching);
  EXPECT_EQ(&rule_by_name("rejection"), &rejection);
  EXPECT_THAT(error_of([] { rule_by_name("typical"); }),
              AllOf(HasSubstr("'typical'"), HasSubstr("matching"), HasSubstr("rejection")));
  EXPECT_NE(error_of([] { rule_by_name(""); }), "");
}

TEST(Engine, OpensTheGateForEveryKindOfDraftAndReportsTheReasonWhenItIsClosed) {
  ModelFiles files(models / "tale-target");
  Engine engine(files, best_kernels());
  EXPECT_EQ(engine.gate("none"), Gate::no_draft);
  EXPECT_EQ(engine.gate("none", true), Gate::no_draft);
  for (const std::string& draft :
       {dflash(), eagle3(), medusa(), small_model(), std::string("always-reject"), std::string("perfect"),
        std::string("tree-test"), std::string("ngram-simple"), "ngram-simple+" + dflash()}) {
    EXPECT_EQ(engine.gate(draft), Gate::open) << draft;
    EXPECT_EQ(engine.gate(draft, true), Gate::logprobs_requested) << draft;
    EXPECT_EQ(engine.gate(draft), Gate::open) << "an earlier question leaves nothing behind";
  }
  const std::string plain_checkpoint = "dflash:" + (models / "tale-small").string();
  for (const bool logprobs : {false, true}) {
    EXPECT_THAT(error_of([&] { engine.gate(plain_checkpoint, logprobs); }),
                HasSubstr("is not a draft of the kind dflash; name it as model:PATH"));
  }
}

TEST(Engine, TakesTheKindOfADraftFromItsConfig) {
  for (const auto& [target, draft, kind] : {std::tuple("tale-target", "tale-dflash", "dflash"),
                                            {"tale-target", "tale-dspark", "dflash"},
                                            {"tale-target", "tale-eagle3", "eagle3"},
                                            {"tale-target", "tale-peagle", "eagle3"},
                                            {"tale-target", "tale-mtp", "mtp"},
                                            {"tale-target", "tale-medusa", "medusa"},
                                            {"tale-target", "tale-small", "model"},
                                            {"tale-target", "tale-pard", "pard"},
                                            {"tale-gemma", "tale-gemma-assistant", "mtp"}}) {
    const std::string path = (models / draft).string();
    const DraftSpec spec = parse_draft_spec(path + "?min_prob=0.5+ngram-simple");
    ASSERT_EQ(spec.stages.size(), 2U);
    EXPECT_EQ(spec.stages[0].name_with(spec.stages[0].path), std::string(kind) + ":" + path + "?min_prob=0.5");
    ModelFiles files(models / target);
    EXPECT_EQ(Engine(files, best_kernels()).gate(path), Gate::open) << draft;
  }
}

TEST(Engine, DecodesThePlainTextWithMtpHeadsAndAnAssistantInFourBits) {
  const Threads one(1);
  for (const auto& [target, draft] : {std::pair("tale-target", "tale-mtp"), {"tale-gemma", "tale-gemma-assistant"}}) {
    const std::string named = "mtp:" + (models / draft).string();
    ModelFiles files(models / target);
    Engine engine(files, best_kernels());
    PhiloxSource random(1);
    const Asked request = tale_request(60);
    const Trace plain = engine.decode({.request = request, .random = random});
    const Trace small = engine.decode({.request = request, .draft = named + "?type=q4", .random = random});
    EXPECT_EQ(small.output, plain.output) << draft;
    EXPECT_GT(small.statistics.accepted, 0) << draft;
    const auto bytes = [&](const std::string& spec) {
      std::uint64_t sum = 0;
      for (const auto& [format, size] : memory_need(files, std::span(&spec, 1), best_kernels()).weights) sum += size;
      return sum;
    };
    EXPECT_LT(bytes(named + "?type=q4"), bytes(named)) << draft;
  }
}

/// A draft, and the terms that it takes.
struct OnTerms {
  const char* target;
  const char* kind;
  const char* folder;  // empty: it has none
  bool has_cache = true;
};
constexpr OnTerms learned[] = {
    {"tale-target", "dflash", "tale-dflash"}, {"tale-target", "dflash", "tale-dspark"},
    {"tale-target", "eagle3", "tale-eagle3"}, {"tale-target", "eagle3", "tale-peagle"},
    {"tale-target", "mtp", "tale-mtp"},       {"tale-target", "medusa", "tale-medusa", false},
    {"tale-target", "model", "tale-small"},   {"tale-target", "pard", "tale-pard"},
    {"tale-target", "self", "", false},       {"tale-gemma", "mtp", "tale-gemma-assistant", false}};

std::string name_of(const OnTerms& draft) {
  return *draft.folder == '\0' ? draft.kind : draft.kind + (":" + (models / draft.folder).string());
}

/// In every way to verify: the text is that of plain decoding, and the draft is another than the one without the term.
TEST(Engine, DecodesThePlainTextWithLearnedDraftsOnTermsOfTheirOwn) {
  const Threads one(1);
  constexpr int context = 40;
  for (const OnTerms& draft : learned) {
    ModelFiles files(models / draft.target);
    Engine engine(files, best_kernels());
    Asked request = tale_request(60);
    request.sampling.temperature = 1;
    request.stops = {};
    const auto decode = [&](const std::string& name) {
      PhiloxSource random(21);
      return engine.decode(
          {.request = request, .execution = request, .draft = name, .random = random, .recording = Recording::digests});
    };
    const Trace plain = decode("none");
    const Trace as_target = decode(name_of(draft));
    const bool is_self = draft.kind == std::string("self");
    std::vector<std::string> terms = {"type=q8"};
    if (!is_self) terms.insert(terms.end(), {"type=q4", "context=" + std::to_string(context)});
    if (draft.has_cache)
      terms.insert(terms.end(), {"kv=f32", "kv=q8", "kv=q8,type=q4,context=" + std::to_string(context)});
    for (const std::string& term : terms) {
      for (const Verification verification : {Verification::batched, Verification::serial, Verification::redecode}) {
        request.verification = verification;
        const Trace trace = decode(name_of(draft) + "?" + term);
        ASSERT_EQ(trace.output, plain.output) << draft.folder << " " << term << " " << name_of(verification);
        EXPECT_GT(trace.statistics.accepted, 0) << draft.folder << " " << term;
        if (term.find("type") != std::string::npos) {
          EXPECT_NE(trace.rounds[1].proposal.drawn_from, as_target.rounds[1].proposal.drawn_from)
              << draft.folder << " " << term;
        } else if (term.find("kv") != std::string::npos) {
          EXPECT_NE(trace.rounds[0].draft, as_target.rounds[0].draft) << draft.folder << " " << term;
        }
        if (term.find("context") == std::string::npos) continue;
        EXPECT_EQ(trace.draft_reach, context) << draft.folder;
        EXPECT_GT(rounds_beyond_draft(trace), 0) << draft.folder;
        for (const Round& round : trace.rounds) {
          ASSERT_LE(round.position + round.proposal.size(), std::max(context, round.position)) << draft.folder;
        }
      }
      request.verification = Verification::batched;
    }
  }
}

TEST(Engine, CountsTheMemoryOfADraftByItsOwnTerms) {
  constexpr int positions = 900;
  for (const OnTerms& draft : learned) {
    ModelFiles files(models / draft.target);
    const auto need = [&](const std::string& terms) {
      const std::string name = name_of(draft) + (terms.empty() ? "" : "?" + terms);
      return memory_need(files, std::span(&name, 1), best_kernels());
    };
    const auto weights = [&](const std::string& terms) {
      std::uint64_t sum = 0;
      for (const auto& [format, size] : need(terms).weights) sum += size;
      return sum;
    };
    EXPECT_LT(weights("type=q4"), weights("type=f32")) << draft.folder;
    EXPECT_LT(weights("type=q8"), weights("type=f32")) << draft.folder;
    if (draft.kind == std::string("self")) continue;
    EXPECT_EQ(weights("type=none"), weights("")) << draft.folder;
    const auto caches = [&](const std::string& terms) { return need(terms).beside_weights(positions, 0); };
    EXPECT_LT(caches("context=300"), caches("")) << draft.folder;
    EXPECT_EQ(caches("context=5000"), caches("")) << draft.folder;
    if (!draft.has_cache) continue;
    EXPECT_LT(caches("kv=q8"), caches("kv=bf16")) << draft.folder;
    EXPECT_LT(caches("kv=bf16"), caches("kv=f32")) << draft.folder;
    EXPECT_EQ(caches("kv=bf16"), caches("")) << draft.folder;
  }
}

TEST(Engine, RefusesAKvFormatOfAnAssistantThatHasNoKeysOfItsOwn) {
  ModelFiles files(models / "tale-gemma");
  Engine engine(files, best_kernels());
  EXPECT_THAT(error_of([&] { engine.gate("mtp:" + (models / "tale-gemma-assistant").string() + "?kv=q8"); }),
              AllOf(HasSubstr("tale-gemma-assistant: is an assistant"), HasSubstr("leave out kv")));
}

TEST(Engine, DecodesThePlainTextWithTheTargetInFourBitsAsItsDraft) {
  const Threads one(1);
  ModelFiles files(models / "tale-target");
  Engine engine(files, best_kernels());
  PhiloxSource random(1);
  const Asked request = tale_request(60);
  const Trace plain = engine.decode({.request = request, .random = random});
  const Trace all = engine.decode({.request = request, .draft = "self", .random = random});
  const Trace some = engine.decode({.request = request, .draft = "self?layers=2", .random = random});
  EXPECT_EQ(all.output, plain.output);
  EXPECT_EQ(some.output, plain.output);
  EXPECT_GT(all.statistics.accepted, all.statistics.drafted / 2);
  EXPECT_LT(some.statistics.accepted, all.statistics.accepted);
  EXPECT_THAT(error_of([&] { engine.gate("self?layers=7"); }), HasSubstr("cannot be loaded with 7 layers; it has 6"));

  for (const Kernels* const* table = all_kernels(); *table != nullptr; ++table) {
    if (!(*table)->supported() || !std::string(self_test(**table)).empty()) continue;
    Engine other(files, **table);
    EXPECT_EQ(other.gate("self"), Gate::open) << (*table)->name;
  }
  Engine quantized(files, LoadOptions(best_kernels(), Quantization::q4));
  EXPECT_THAT(error_of([&] { quantized.gate("self"); }), HasSubstr("as its own draft it would be as slow"));
  EXPECT_EQ(quantized.gate("self?layers=2"), Gate::open);
}

TEST(Engine, ReusesPrefixesWithEveryKindOfDraft) {
  const Threads one(1);
  ModelFiles files(models / "tale-target");
  Engine engine(files, best_kernels());
  PhiloxSource random(1);
  const Asked request = tale_request(80);
  for (const std::string& draft :
       {std::string("ngram-simple?n=1,m=4"), "ngram-simple?n=2+" + dflash(), eagle3(), medusa(), small_model(),
        std::string("self"), std::string("ngram-simple?n=2+self")}) {
    PrefixCache prefixes(std::size_t{1} << 26);
    const auto decode = [&](PrefixCache* with) {
      return engine.decode({.request = request, .draft = draft, .random = random, .recording = Recording::digests},
                           with);
    };
    const Trace alone = decode(nullptr);
    decode(&prefixes);
    const Trace again = decode(&prefixes);
    EXPECT_GT(again.reused, 0) << draft;
    EXPECT_EQ(again.output, alone.output) << draft;
    EXPECT_EQ(again.final_draft, alone.final_draft) << draft;
    ASSERT_EQ(again.rounds.size(), alone.rounds.size()) << draft;
    for (std::size_t i = 0; i < again.rounds.size(); ++i) {
      EXPECT_EQ(again.rounds[i].proposal.tokens, alone.rounds[i].proposal.tokens) << draft;
    }
  }
}

TEST(Engine, GivesALogProbabilityWithEveryTokenOfASpeculativeRound) {
  const Threads one(1);
  ModelFiles files(models / "tale-target");
  Engine engine(files, best_kernels());
  Asked request = tale_request(12);
  PhiloxSource random(1);
  const Trace plain = engine.decode({.request = request, .random = random});
  request.logprobs = true;
  const Trace logged = engine.decode({.request = request, .draft = dflash(), .random = random});
  EXPECT_EQ(logged.output, plain.output);
  EXPECT_GT(logged.statistics.iterations, 0);
  for (const Round& round : logged.rounds) {
    EXPECT_EQ(round.logprobs.size(), round.emitted.size());
    for (const double logprob : round.logprobs) EXPECT_LT(logprob, 0);
  }
}

TEST(Engine, ExplainsWhyADraftOrARequestIsInvalid) {
  const Threads one(1);
  ModelFiles files(models / "tale-target");
  Engine engine(files, best_kernels());
  PhiloxSource random(1);
  const auto error_for = [&](const Asked& request, const std::string& draft) {
    const DecodeJob job = {.request = request, .execution = request, .draft = draft, .random = random};
    return error_of([&] { engine.decode(job); });
  };
  EXPECT_THAT(error_for(asked({}, 1), "none"), HasSubstr("the prompt is empty"));
  EXPECT_THAT(error_for(asked({1}, 2000), "none"), HasSubstr("the target has 1024"));
  EXPECT_THAT(error_for(asked({1 << 20}, 1), "none"), HasSubstr("outside the vocabulary of 2048"));
  EXPECT_THAT(error_for(asked({1}, 1), "crystal-ball"), HasSubstr("'crystal-ball' is not known"));
  EXPECT_THAT(error_for(asked({1}, 1), "dflash:" + (models / "nowhere").string()), HasSubstr("nowhere"));
  EXPECT_THAT(error_for(asked({1}, 1), "model:" + (models / "nowhere").string()), HasSubstr("nowhere"));
  const auto other = std::filesystem::path(DRAFTPROOF_SOURCE_DIR) / "fixtures/external/qwen3-tiny-tied";
  EXPECT_THAT(error_for(asked({1}, 1), "model:" + other.string()), HasSubstr("does not fit the target's of 2048"));
}

TEST(Engine, CountsTwentyBytesPerDraftTokenAndTokenOfTheVocabulary) {
  ModelFiles files(models / "tale-target");
  const MemoryNeed need = memory_need(files, {}, best_kernels());
  const auto vocabulary = static_cast<std::uint64_t>(files.target().config().at("vocab_size").integer(1, 1 << 24));
  EXPECT_EQ(need.total(10, 3) - need.total(10), 3 * 20 * vocabulary);
}

TEST(Engine, TakesALlamaFolderWithoutRopeThetaAsTargetAndAsDraft) {
  const Threads one(1);
  const auto with_theta = std::filesystem::path(DRAFTPROOF_SOURCE_DIR) / "fixtures/external/llama-tiny-plain";
  const test::Folder without_theta;
  std::filesystem::copy(with_theta, without_theta.path());
  std::string config = test::text_of(with_theta / "config.json");
  const std::string field = R"("rope_theta": 10000.0,)";
  ASSERT_NE(config.find(field), std::string::npos);
  test::put(without_theta.path() / "config.json", config.erase(config.find(field), field.size()));
  const std::vector<std::string> draft = {"model:" + without_theta.path().string()};
  const Asked request = asked({1, 2, 3}, 12);
  ModelFiles files(with_theta);
  ModelFiles other_files(without_theta.path());
  EXPECT_EQ(error_of([&] { refuse_shortage(other_files, draft, best_kernels(), request, 0, true); }), "");
  PhiloxSource random(1);
  const Trace plain = Engine(files, best_kernels()).decode({.request = request, .random = random});
  EXPECT_EQ(plain.output.size(), 12U);
  for (const std::string& drafter : {std::string("none"), draft[0]}) {
    Engine other(other_files, best_kernels());
    EXPECT_EQ(other.decode({.request = request, .draft = drafter, .random = random}).output, plain.output);
  }
}

TEST(Engine, UsesTheDraftsDefaultLengthUnlessOneIsRequested) {
  const Threads one(1);
  ModelFiles files(models / "tale-target");
  Engine engine(files, best_kernels());
  PhiloxSource random(1);
  const std::map<std::string, int> suited = {{dflash(), 7}, {eagle3(), 5},      {eagle3() + "?tree=12", 12},
                                             {medusa(), 4}, {small_model(), 5}, {"perfect", 5},
                                             {"none", 0}};
  for (const auto& [draft, expected] : suited) {
    Asked request = tale_request(20);
    const Trace own = engine.decode({.request = request, .draft = draft, .random = random});
    EXPECT_EQ(own.execution.draft_max, expected) << draft;
    request.draft_max = 2;
    const Trace two = engine.decode({.request = request, .execution = request, .draft = draft, .random = random});
    int max = 0;
    for (const Round& round : two.rounds) {
      max = std::max(max, round.proposal.size());
    }
    EXPECT_EQ(max, std::min(expected, 2)) << draft;
  }
}

/// Checks that a tuner with the costs of the trace, told of its rounds and times, asks every stage as the trace says.
void expect_lengths_follow_from_costs(const Trace& trace) {
  Tuner tuner(trace.costs);
  int tokens_left = trace.request.max_new_tokens;
  for (std::size_t i = 0; i < trace.rounds.size(); ++i) {
    const Round& round = trace.rounds[i];
    const Proposal& proposal = round.proposal;
    const int limit = std::min(trace.execution.draft_max, tokens_left - 1);
    tokens_left -= static_cast<int>(round.emitted.size());
    if (limit < 1) continue;
    for (std::size_t stage = 0; stage < proposal.asked.size(); ++stage) {
      ASSERT_EQ(proposal.asked[stage], tuner.length(static_cast<int>(stage), limit)) << "round " << i;
    }
    const int drafted = proposal.size() + proposal.cut;
    ASSERT_TRUE(drafted > 0 || proposal.asked.size() == trace.costs.draft.size()) << "round " << i;
    ASSERT_EQ(round.seconds.has_value(), proposal.cut == 0) << "round " << i;
    tuner.learn(proposal.asked, drafted, std::min(static_cast<int>(round.emitted.size()) - 1, drafted), round.seconds);
  }
}

TEST(Engine, WithATunerGivesTheTextOfPlainDecodingByLengthsThatFollowFromTheCostsAndTimesInTheTrace) {
  const Threads one(1);
  ModelFiles files(models / "tale-target");
  Engine engine(files, best_kernels());
  Asked request = tale_request(60);
  for (const float temperature : {0.0F, 1.0F}) {
    request.sampling.temperature = temperature;
    PhiloxSource random(3);
    const Trace plain = engine.decode({.request = request, .random = random});
    EXPECT_TRUE(plain.costs.verify.empty());
    const Execution tuned = {.draft_max = Execution::draft_max_auto};
    for (const std::string& draft : {dflash(), "self?layers=2+" + std::string("suffix"), std::string("ngram-simple")}) {
      for (const Rule* const rule : {&matching, &rejection, &block}) {
        const Trace trace =
            engine.decode({.request = request, .execution = tuned, .draft = draft, .rule = *rule, .random = random});
        const bool same_text = rule == &matching || temperature == 0;
        if (same_text) {
          EXPECT_EQ(trace.output, plain.output) << draft;
        }
        ASSERT_EQ(trace.costs.verify.size(), 17U);
        EXPECT_GE(*std::ranges::min_element(trace.costs.verify), 0);
        expect_lengths_follow_from_costs(trace);
      }
    }
  }
}

/// Returns the digests of the logits that decided every token of the output, in order.
std::vector<Fingerprint> deciding_rows(const Trace& trace) {
  std::vector<Fingerprint> rows;
  for (const Round& round : trace.rounds) {
    rows.insert(rows.end(), round.logits.begin(),
                round.logits.begin() + static_cast<std::ptrdiff_t>(round.emitted.size()));
  }
  return rows;
}

/// Compares every draft, chunking and thread count with plain decoding in the numerics class of the scalar table.
/// On a busy machine two threads wait for each other far longer than they compute, so only one
/// variation of the first table runs on them.
void expect_the_promise(const std::vector<std::string>& tables, int tokens) {
  std::map<bool, Trace> plain;  // by greedy or not; one for all tables
  for (const std::string& table : tables) {
    const Kernels* const kernels = find_kernels(table.c_str());
    ASSERT_NE(kernels, nullptr);
    if (!kernels->supported()) continue;
    ModelFiles files(models / "tale-target");
    Engine engine(files, *kernels);
    for (const bool greedy : {true, false}) {
      Asked request = tale_request(tokens);
      request.sampling.temperature = greedy ? 0 : 1;
      {
        const Threads one(1);
        PhiloxSource random(21);
        const Trace trace = engine.decode({.request = request, .random = random, .recording = Recording::digests});
        ASSERT_EQ(trace.output, plain_output(engine.target(), request, 21)) << table;
        if (!plain.contains(greedy)) plain[greedy] = trace;
        ASSERT_EQ(difference(trace, plain[greedy]), "") << table << " is of another class";
      }
      const Trace& expected = plain[greedy];
      for (const std::string& draft :
           {dflash(), dflash() + "?type=q4", dflash() + "?head=500", eagle3(), eagle3() + "?type=q4,tree=8", medusa(),
            medusa() + "?type=q4", medusa() + "?tree=9", medusa() + "?head=600", small_model(),
            small_model() + "?type=q4", small_model() + "?head=700", std::string("always-reject"),
            std::string("perfect"), std::string("tree-test")}) {
        for (const int threads : {1, 2}) {
          for (const Verification verification : {Verification::batched, Verification::serial}) {
            for (const int draft_max : {0, 3}) {
              const bool representative = table == tables.front() && !greedy && draft == dflash() && draft_max == 0 &&
                                          verification == Verification::batched;
              if (threads == 2 && !representative) continue;
              const Threads some(threads);
              request.verification = verification;
              request.draft_max = draft_max;
              PhiloxSource random(21);
              const Trace trace = engine.decode({.request = request,
                                                 .execution = request,
                                                 .draft = draft,
                                                 .random = random,
                                                 .recording = Recording::digests});
              const auto where = [&] {
                return table + " " + draft + " temperature " + (greedy ? "0" : "1") + " threads " +
                       std::to_string(threads) + " " + name_of(verification) + " " + std::to_string(draft_max);
              };
              ASSERT_EQ(trace.output, expected.output) << where();
              ASSERT_EQ(trace.finish, expected.finish) << where();
              ASSERT_EQ(trace.final_length, expected.final_length) << where();
              ASSERT_EQ(trace.rounds.back().cache, expected.rounds.back().cache) << where();
              ASSERT_EQ(deciding_rows(trace), deciding_rows(expected)) << where();
              ASSERT_GT(trace.statistics.drafted, 0) << where();
              ASSERT_TRUE(draft != "perfect" || trace.statistics.mismatches == 0) << where();
              ASSERT_TRUE(draft != "always-reject" || !greedy || trace.statistics.accepted == 0) << where();
            }
          }
        }
      }
    }
  }
}

TEST(Engine, TrainedModelsGiveTheSameTextWithEveryDraftOnEveryVectorTable) {
  expect_the_promise({"avx512", "avx2"}, 24);
}
TEST(EngineSlow, TrainedModelsGiveTheSameTextOnTheScalarTableToo) {
  expect_the_promise({"scalar", "avx2", "avx512"}, 40);
}

/// Chains and trees are verified in one pass, and every run rolls back recurrent states or rows that other layers read.
TEST(Engine, HybridAndSharingTargetsVerifyInOnePassAndGiveTheTextOfPlainDecoding) {
  const std::filesystem::path external = std::filesystem::path(DRAFTPROOF_SOURCE_DIR) / "fixtures/external";
  const Threads one(1);
  for (const auto& [name, other] : {std::pair("qwen35-tiny-nested", "qwen35-tiny-irregular"),
                                    {"qwen35-tiny-irregular", "qwen35-tiny-nested"},
                                    {"qwen35-tiny-rectangular", "qwen35-tiny-nested"},
                                    {"gemma4-tiny-shared", "gemma4-tiny-donors"}}) {
    ModelFiles files(external / name);
    Engine engine(files, best_kernels());
    for (const float temperature : {0.0F, 1.0F}) {
      Asked request = asked({5, 40, 3, 22, 41, 9}, 40, 6);
      request.sampling.temperature = temperature;
      PhiloxSource random(21);
      const Trace plain = engine.decode({.request = request, .random = random, .recording = Recording::digests});
      EXPECT_EQ(plain.output, plain_output(engine.target(), request, 21)) << name;
      for (const std::string& draft :
           {"model:" + (external / other).string(), std::string("always-reject"), std::string("tree-test")}) {
        PhiloxSource again(21);
        const Trace trace = engine.decode({.request = request,
                                           .execution = request,
                                           .draft = draft,
                                           .random = again,
                                           .recording = Recording::digests});
        const std::string where = std::string(name) + " " + draft + " at " + std::to_string(temperature);
        EXPECT_EQ(trace.output, plain.output) << where;
        EXPECT_EQ(trace.rounds.back().cache, plain.rounds.back().cache) << where;
        EXPECT_EQ(deciding_rows(trace), deciding_rows(plain)) << where;
        EXPECT_EQ(trace.statistics.serial, 0) << where;
        EXPECT_GT(trace.statistics.batched, 0) << where;
        EXPECT_GT(trace.statistics.drafted, trace.statistics.accepted) << where;
        EXPECT_TRUE(draft == "tree-test" || trace.statistics.mismatches > 0) << where;
      }
    }
  }
}

TEST(Engine, GreedyRejectionGivesTheSameTextToo) {
  const Threads one(1);
  ModelFiles files(models / "tale-target");
  Engine engine(files, best_kernels());
  const Asked request = tale_request(24);
  PhiloxSource random(3);
  const Trace plain = engine.decode({.request = request, .random = random});
  for (const std::string& draft :
       {dflash(), dflash() + "?window=16,min_prob=0.3", eagle3(), eagle3() + "?tree=8", eagle3() + "?min_prob=0.3",
        medusa() + "?min_prob=0.3", small_model(), small_model() + "?min_prob=0.3", std::string("always-reject"),
        std::string("perfect"), std::string("tree-test")}) {
    const Trace trace =
        engine.decode({.request = request, .execution = request, .draft = draft, .rule = rejection, .random = random});
    EXPECT_EQ(trace.output, plain.output) << draft;
  }
}

TEST(Engine, RefusesMinProbWhereItCannotBeHadByName) {
  ModelFiles files(models / "tale-target");
  Engine engine(files, best_kernels());
  PhiloxSource random(3);
  const auto refusal = [&](const Execution& execution, const std::string& draft) {
    try {
      engine.decode({.request = tale_request(20), .execution = execution, .draft = draft, .random = random});
    } catch (const Error& error) {
      return std::string(error.what());
    }
    return std::string();
  };
  const Execution tuned = {.draft_max = Execution::draft_max_auto};
  for (const std::string& draft :
       {dflash() + "?min_prob=0.3", eagle3() + "?min_prob=0.3", medusa() + "?min_prob=0.3"}) {
    for (const Execution& execution : {tuned, Execution()}) EXPECT_EQ(refusal(execution, draft), "");
  }
  EXPECT_THAT(refusal(tuned, eagle3() + "?tree=4"), AllOf(HasSubstr("tree=4"), HasSubstr("--draft-max auto")));
  EXPECT_THAT(refusal({}, eagle3() + "?min_prob=0.3,tree=4"), HasSubstr("leave it out for a tree"));
}

TEST(Engine, APromptOfOneTokenGivesADraftAnEmptyContext) {
  const Threads one(1);
  ModelFiles files(models / "tale-target");
  Engine engine(files, best_kernels());
  PhiloxSource random(3);
  const Trace plain = engine.decode({.request = asked({100}, 10), .random = random});
  for (const std::string& draft : {dflash(), eagle3(), medusa()}) {
    const Trace drafted = engine.decode({.request = asked({100}, 10), .draft = draft, .random = random});
    EXPECT_EQ(drafted.output, plain.output);
    EXPECT_GT(drafted.statistics.drafted, 0);
  }
}

TEST(Engine, EndToEndLogProbabilitiesEqualAComputationInDouble) {
  const Threads one(1);
  ModelFiles files(models / "tale-target");
  Engine engine(files, best_kernels());
  Asked request = tale_request(8);
  request.logprobs = true;
  PhiloxSource random(3);
  const Trace trace = engine.decode({.request = request, .draft = dflash(), .random = random});
  std::vector<Token> text = request.prompt;
  Outputs outputs;
  for (const Round& round : trace.rounds) {
    for (std::size_t i = 0; i < round.emitted.size(); ++i) {
      const int length = static_cast<int>(text.size());
      const auto cache = engine.target().new_cache(length, length);
      const Transaction transaction = cache->begin(length);
      forward_alone(engine.target(), {.cache = cache.get(), .tokens = text, .logits_from = length - 1}, outputs);
      long double sum = 0;
      for (const float logit : outputs.logits) sum += std::exp(static_cast<long double>(logit));
      const long double expected = outputs.logits[round.emitted[i]] - std::log(sum);
      // 2048 terms summed in double: at most 2048 roundings of 2^-53 each, and a few more.
      EXPECT_NEAR(round.logprobs.at(i), static_cast<double>(expected), 2100 * 0x1p-53);
      text.push_back(round.emitted[i]);
    }
  }
}

TEST(Engine, EndsTextsAtStopStringsWithTheSameTokensForEveryDraft) {
  const Threads one(1);
  ModelFiles files(models / "tale-target");
  Engine engine(files, best_kernels());
  const Tokenizer tokenizer = Tokenizer::load(models / "tale-target");
  const Asked request = tale_request(40);
  PhiloxSource random(1);
  const std::string whole = tokenizer.decode(engine.decode({.request = request, .random = random}).output);
  ASSERT_GT(whole.size(), 60U);
  long inside_a_round = 0;
  for (std::size_t begin = 7; begin + 5 < whole.size(); begin += 9) {
    const StopStrings stops({"no such text", whole.substr(begin, 5)});
    StopAtStrings plainly(tokenizer, stops);
    const Trace plain = engine.decode({.request = request, .random = random, .stop = &plainly});
    ASSERT_EQ(plain.finish, Finish::stop);
    ASSERT_NE(tokenizer.decode(plain.output).find(stops.strings()[1]), std::string::npos);
    for (const std::string& draft :
         {dflash(), eagle3(), medusa(), small_model(), std::string("perfect"), std::string("tree-test")}) {
      StopAtStrings stop(tokenizer, stops);
      const Trace drafted = engine.decode({.request = request, .draft = draft, .random = random, .stop = &stop});
      EXPECT_EQ(drafted.output, plain.output) << draft;
      EXPECT_EQ(drafted.finish, Finish::stop) << draft;
      inside_a_round += std::ssize(drafted.rounds.back().emitted) <= drafted.rounds.back().verdict.accepted;
    }
  }
  EXPECT_GT(inside_a_round, 10);
}

TEST(Engine, CountsHowOftenEachDraftIsAskedAndWhatItHasRead) {
  const Threads one(1);
  ModelFiles files(models / "tale-target");
  Engine engine(files, best_kernels());
  PhiloxSource random(1);
  Asked request = tale_request(60);
  request.stops = {};
  for (const std::string& draft : {dflash(), dflash() + "?window=16", "ngram-simple+" + dflash()}) {
    const Trace trace = engine.decode({.request = request, .draft = draft, .random = random});
    const std::vector<StageStatistics> stages = statistics_by_stage(trace);
    const int read = static_cast<int>(request.prompt.size() + trace.output.size()) - 1;
    int asked = 0;  // rounds in which there was room for a draft token
    for (const Round& round : trace.rounds) asked += round.position + 1 < read + 1 ? 1 : 0;
    EXPECT_EQ(stages.front().times.asked, asked) << draft;
    for (std::size_t i = 0; i < stages.size(); ++i) {
      const StageStatistics& stage = stages[i];
      EXPECT_EQ(stage.times.asked, stage.times.silent + stage.drafts) << draft;
      if (i > 0) {
        EXPECT_EQ(stage.times.asked, stages[i - 1].times.silent) << draft << ": the next one is asked";
      }
      EXPECT_EQ(stage.positions, read) << draft;
    }
    EXPECT_EQ(stages.front().times.silent > 0, stages.size() > 1) << draft;
    // Its widest layers have a window of 64: a row sees itself and 63 positions before it.
    EXPECT_EQ(stages.back().passed, draft.ends_with("window=16") ? read - 63 : 0) << draft;
  }
  EXPECT_TRUE(statistics_by_stage(engine.decode({.request = request, .random = random})).empty());
}

TEST(Engine, ADraftThatLoadLeavesNoTokensReadsThePromptOnlyUntilItsCacheIsKept) {
  const Threads one(1);
  ModelFiles files(models / "tale-target");
  Engine engine(files, best_kernels());
  PhiloxSource random(1);
  Asked request = tale_request(20);
  request.stops = {};
  const std::vector<Token> plain = engine.decode({.request = request, .random = random}).output;
  const DraftCosts dear = {.verify = {1, 2}, .draft = {{1, 1e9}}, .reading = {0}};  // a proposal never pays
  for (const std::string& draft : {dflash(), eagle3()}) {
    for (const bool limited : {false, true}) {
      DraftLengths lengths(dear);
      const Engine::Opened opened =
          engine.open({.request = request, .draft = draft, .random = random, .limited_by_load = limited});
      Scheduler scheduler(engine.target({}), {}, nullptr, &lengths);
      scheduler.add(*opened.sequence, opened.cost);
      while (scheduler.step()) {
      }
      EXPECT_EQ(opened.sequence->trace().output, plain) << draft;
      const int read = static_cast<int>(request.prompt.size() + plain.size()) - 1;
      const int held = limited ? static_cast<int>(request.prompt.size()) - 1 : read;
      EXPECT_EQ(opened.draft->positions().at(0).held, held) << draft;
      EXPECT_EQ(opened.draft->positions().at(0).unread, read - held) << draft;
      ASSERT_NE(opened.draft->context(), nullptr);
      EXPECT_EQ(opened.draft->context()->length(), read) << draft;
    }
  }
}

/// Its draft tokens are the target's whatever its own tokenizer says, so the text stays and a remark says why fewer may
/// be accepted.
TEST(Engine, RemarksOnADraftWhoseOwnTokenizerIsAnother) {
  const test::Folder folder;
  ModelFiles files(models / "tale-target");
  Engine engine(files, best_kernels());
  const auto remark = [&](const char* name, const char* tokenizer) {
    const std::filesystem::path draft = folder.path() / name;
    std::filesystem::copy(models / "tale-dflash", draft, std::filesystem::copy_options::recursive);
    std::filesystem::copy(models / tokenizer, draft / std::filesystem::path(tokenizer).filename());
    return engine.draft_remark("ngram-simple+dflash:" + draft.string());
  };
  EXPECT_EQ(engine.draft_remark(dflash()), "");
  EXPECT_EQ(remark("same", "tale-target/tokenizer.json"), "");
  EXPECT_THAT(remark("other", "tale-llama/tokenizer.model"),
              HasSubstr("the draft's own tokenizer is not the target's: "));
}

/// A clock inside another measures no more than that one does.
TEST(Engine, CountsTheTimesOfADraftWithinThoseOfTheRun) {
  const Threads one(1);
  ModelFiles files(models / "tale-target");
  Engine engine(files, best_kernels());
  PhiloxSource random(1);
  const auto times = [&](const std::string& draft) {
    return engine.decode({.request = tale_request(40), .draft = draft, .random = random});
  };
  EXPECT_TRUE(times("none").draft_times.empty());
  for (const std::string& draft : {dflash(), "ngram-simple+" + dflash()}) {
    const Trace trace = times(draft);
    ASSERT_EQ(trace.draft_times.size(), draft == dflash() ? 1U : 2U);
    DraftTimes sum;
    for (const DraftTimes& stage : trace.draft_times) {
      sum.begin += stage.begin;
      sum.draft += stage.draft;
      sum.accept += stage.accept;
    }
    const double rounding = 1e-9;
    EXPECT_LE(sum.begin, trace.statistics.prompt_seconds + rounding);
    EXPECT_LE(sum.draft + sum.accept, trace.statistics.draft_seconds + rounding);
    const DraftTimes& network = trace.draft_times.back();
    EXPECT_TRUE(network.begin > 0 && network.draft > 0 && network.accept > 0) << draft;
  }
}

}  // namespace
}  // namespace draftproof::engine_test
