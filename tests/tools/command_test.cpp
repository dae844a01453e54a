// SPDX-License-Identifier: MIT
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <nlohmann/json.hpp>
#include <set>
#include <tuple>

#include "tests/decoding/parallel_head.h"
#include "tests/tools/command.h"

namespace draftproof::test::command_test {
namespace {

using nlohmann::json;

const std::string target = fixture("external/qwen3-tiny-tied");
const std::string dflash = "dflash:" + fixture("external/dflash-full");

json json_of(const std::vector<std::string>& words, int status = 0) {
  std::vector<std::string> all = words;
  all.insert(all.end(), {"--json", "-", "--quiet"});
  const Outcome outcome = run_command(all);
  EXPECT_EQ(outcome.status, status) << outcome.err;
  return json::parse(outcome.out, nullptr, false);
}

TEST(Verify, ReportsVerdictChecksAcceptanceAndTimesAsJson) {
  const json report =
      json_of({"verify", fixture("models/tale-target"), "--draft", "dflash:" + fixture("models/tale-dflash"),
               "--max-new-tokens", "16", "--effort", "full"});
  EXPECT_EQ(report["verdict"], "PASS_EXACT");
  std::vector<std::string> checks;
  for (const json& check : report["checks"]) {
    checks.push_back(check["name"]);
    EXPECT_EQ(check["outcome"], "pass") << check.dump();
    EXPECT_GT(check["examined"], 0);
  }
  EXPECT_THAT(checks, testing::ElementsAre("tokens_equal", "logits_equal", "acceptance_correct", "cache_rollback",
                                           "batch_invariance", "config_invariance", "draft_state", "rng_accounting",
                                           "repeatable", "chunked_prefill_and_resume", "sequence_isolation",
                                           "prefix_reuse", "log_probabilities", "termination_and_counters",
                                           "distribution_exact", "exhaustive_small_cases"));
  EXPECT_GT(report["mean_accepted"].get<double>(), 1.0);
  EXPECT_GT(report["tokens_per_round"].get<double>(), 2.0);
  for (const char* way : {"plain", "speculative"}) EXPECT_GT(report["seconds"][way]["median"].get<double>(), 0.0);
}

// Hot enough for drafts of random weights to be accepted now and then.
const std::vector<std::string> hot{"--prompt-tokens", "5,6,7", "--max-new-tokens", "12",
                                   "--temperature",   "60",    "--seed",           "3"};

TEST(VerifySlow, PassesAtHighTemperatureWithBothRulesAndSeveralDrafts) {
  for (const char* rule : {"matching", "rejection"}) {
    std::vector<std::string> words{"verify", target, "--draft",  dflash, "model:" + target,
                                   "--rule", rule,   "--effort", "full"};
    words.insert(words.end(), hot.begin(), hot.end());
    const json report = json_of(words, 2);  // a model draft that is the target itself is never rejected
    EXPECT_THAT(report["reason"].get<std::string>(), testing::HasSubstr("was rejected")) << report.dump(2);
    for (const json& check : report["checks"]) EXPECT_EQ(check["outcome"], "pass") << check.dump();
    EXPECT_GT(report["drafts"][0]["accepted"], 0);
  }
}

/// A grammar that may end in many places, a schema whose numbers may always go on, and biases.
struct Bounded {
  const char* name;
  std::vector<std::string> flags;
};
std::vector<Bounded> bounded_outputs(const Folder& folder) {
  const std::string grammar = (folder.path() / "sentences.gbnf").string();
  const std::string schema = (folder.path() / "numbers.json").string();
  put(grammar, "root ::= \" \"? [a-zA-Z]+ ([ ,] [a-zA-Z]+)* \".\"?\n");
  put(schema, R"({"type": "array", "items": {"type": "number"}, "minItems": 8})");
  return {{"a grammar", {"--grammar", grammar}},
          {"a schema", {"--json-schema", schema}},
          {"biases", {"--logit-bias", "262=4", "--logit-bias", "2044=6", "--logit-bias", "2046=6.5"}}};
}

TEST(Verify, ProvesAnOutputThatAGrammarAndBiasesBound) {
  const Folder folder;
  const std::vector<Bounded> bounded = bounded_outputs(folder);
  std::vector<std::string> words = {"verify",           fixture("models/tale-target"),
                                    "--draft",          "dflash:" + fixture("models/tale-dflash"),
                                    "--effort",         "quick",
                                    "--max-new-tokens", "24",
                                    "--temperature",    "1"};
  for (const std::size_t which : {0, 2}) {
    words.insert(words.end(), bounded[which].flags.begin(), bounded[which].flags.end());
  }
  const json report = json_of(words);
  EXPECT_EQ(report["verdict"], "PASS_EXACT") << report["reason"];
  EXPECT_EQ(report["about"]["logit bias"], "token 262 +4, token 2044 +6, token 2046 +6.5");
  EXPECT_TRUE(report["about"].contains("grammar"));
}

/// Of the combinations every stride-th.
void expect_proof_of_bounded_outputs(int stride) {
  const Folder folder;
  int number = 0;
  for (const auto& [model, draft] : {std::pair("tale-target", "dflash:tale-dflash"),
                                     {"tale-target", "mtp:tale-mtp"},
                                     {"tale-target", "medusa:tale-medusa?tree=12"},
                                     {"tale-gemma", "mtp:tale-gemma-assistant"},
                                     {"tale-hybrid", "mtp:tale-hybrid-mtp"},
                                     {"tale-hybrid", "eagle3:tale-hybrid-eagle3"}}) {
    std::string spec = draft;
    spec.insert(spec.find(':') + 1, fixture("models/"));
    for (const auto& [name, flags] : bounded_outputs(folder)) {
      for (const char* rule : {"matching", "rejection"}) {
        if (number++ % stride != 0) continue;
        std::vector<std::string> words = {"verify",           fixture(std::string("models/") + model),
                                          "--draft",          spec,
                                          "--effort",         "quick",
                                          "--max-new-tokens", "48",
                                          "--temperature",    "1",
                                          "--rule",           rule,
                                          "--sequences",      "4"};
        words.insert(words.end(), flags.begin(), flags.end());
        const json report = json_of(words);
        EXPECT_EQ(report["verdict"], "PASS_EXACT") << model << ", " << spec << ", " << name << ", " << rule << ": "
                                                   << report["checks"].dump(1) << report["reason"];
      }
    }
  }
}

/// Each draft, bound and rule is among them.
TEST(VerifySlow, ProvesBoundedOutputsOfDenseSlidingAndHybridTargetsWithEitherRule) {
  expect_proof_of_bounded_outputs(7);
}
TEST(VerifySweep, ProvesBoundedOutputsOfDenseSlidingAndHybridTargetsWithBothRules) {
  expect_proof_of_bounded_outputs(1);
}

/// One draft token of each that looks things up has to be accepted, and one rejected. `which`: of the rows.
void expect_proof_of_every_draft(const std::set<int>& which) {
  struct Row {
    const char* target;
    std::vector<std::string> flags;
    std::vector<std::string> learned;  // the drafts with weights of their own
  };
  const std::vector<std::string> of_target = {"dflash:tale-dflash", "dflash:tale-dspark", "eagle3:tale-eagle3",
                                              "eagle3:tale-peagle", "mtp:tale-mtp",       "medusa:tale-medusa",
                                              "pard:tale-pard"};
  const std::vector<std::string> of_hybrid = {"dflash:tale-hybrid-dflash", "eagle3:tale-hybrid-eagle3",
                                              "mtp:tale-hybrid-mtp"};
  const std::vector<std::string> of_gemma = {"mtp:tale-gemma-assistant"};
  const std::vector<std::string> sampled = {"--temperature",    "1",   "--rule",      "rejection", "--seed", "3",
                                            "--max-new-tokens", "160", "--sequences", "4"};
  int number = 0;
  for (const Row& row : {Row{"tale-target", {}, of_target}, Row{"tale-target", sampled, of_target},
                         Row{"tale-hybrid", {"--sequences", "4"}, of_hybrid}, Row{"tale-gemma", {}, of_gemma},
                         Row{"tale-gemma", {"--temperature", "1", "--seed", "1", "--max-new-tokens", "96"}, of_gemma},
                         Row{"tale-gemma", sampled, of_gemma}}) {
    if (!which.contains(number++)) continue;
    std::vector<std::string> words = {
        "verify", fixture(std::string("models/") + row.target) + "/", "--draft", "all", "--effort", "quick"};
    words.insert(words.end(), row.flags.begin(), row.flags.end());
    const json report = json_of(words);
    EXPECT_EQ(report["verdict"], "PASS_EXACT") << report["reason"];
    std::vector<std::string> drafts;
    for (const json& draft : report["drafts"]) {
      EXPECT_EQ(draft["untested"], "") << draft["name"];
      std::string name = draft["name"];
      const std::string folder = fixture("models/");
      for (auto at = name.find(folder); at != std::string::npos; at = name.find(folder)) name.erase(at, folder.size());
      drafts.push_back(name);
    }
    for (const std::string& name : row.learned) EXPECT_THAT(drafts, testing::Contains(name));
    for (const char* name : {"self", "ngram-simple", "ngram-map-k", "ngram-map-k4v", "ngram-mod", "ngram-cache",
                             "suffix", "tree-test", "suffix+ngram-mod"}) {
      EXPECT_THAT(drafts, testing::Contains(name));
    }
    EXPECT_THAT(drafts, testing::Contains("suffix+ngram-mod+" + row.learned.front()));
  }
}

/// Two targets sampled by rejection, and one greedily.
TEST(VerifySlow, ProvesEveryDraftThatServesATargetAndThreeChains) { expect_proof_of_every_draft({1, 2, 5}); }
TEST(VerifySweep, ProvesEveryDraftThatServesATargetAndThreeChains) { expect_proof_of_every_draft({0, 1, 2, 3, 4, 5}); }

/// Batched, serially and by reading again, alone and together.
void expect_proof_of_learned_drafts(const std::vector<std::vector<std::string>>& ways) {
  for (const auto& [target, drafts] :
       {std::pair(
            "tale-target",
            std::vector<std::string>{"dflash:tale-dflash?type=q8,kv=f32", "dflash:tale-dflash?context=48",
                                     "eagle3:tale-eagle3?type=q4,kv=q8,context=48", "mtp:tale-mtp?type=q4",
                                     "mtp:tale-mtp?kv=f32,tree=8", "medusa:tale-medusa?type=q8,context=48",
                                     "dflash:tale-dspark?type=q4,context=48", "eagle3:tale-peagle?type=q4,kv=q8",
                                     "pard:tale-pard?type=q8,context=48", "model:tale-small?type=q8,kv=q8",
                                     "model:tale-small?context=48", "model:tale-llama?translate=1,type=q4,context=64"}),
        {"tale-gemma", {"mtp:tale-gemma-assistant?type=q4", "mtp:tale-gemma-assistant?type=q8,context=48"}},
        {"tale-hybrid", {"mtp:tale-hybrid-mtp?type=q8,kv=q8", "dflash:tale-hybrid-dflash?type=q4,context=48"}}}) {
    for (const std::vector<std::string>& flags : ways) {
      std::vector<std::string> words = {"verify",           fixture(std::string("models/") + target),
                                        "--effort",         "quick",
                                        "--sequences",      "4",
                                        "--max-new-tokens", "60",
                                        "--draft"};
      for (std::string draft : drafts) words.push_back(draft.insert(draft.find(':') + 1, fixture("models/")));
      words.insert(words.end(), flags.begin(), flags.end());
      const json report = json_of(words);
      EXPECT_EQ(report["verdict"], "PASS_EXACT") << target << ": " << report["reason"];
    }
  }
}

const std::vector<std::string> by_rejection = {"--temperature", "1", "--rule", "rejection"};
TEST(VerifySlow, ProvesLearnedDraftsOnTermsOfTheirOwn) { expect_proof_of_learned_drafts({by_rejection}); }
TEST(VerifySweep, ProvesLearnedDraftsOnTermsOfTheirOwn) { expect_proof_of_learned_drafts({{}, by_rejection}); }

/// P-EAGLE heads, a PARD model and a DSpark draft: chains, each token drawn from a row of its own, and trees, by the
/// three rules. Of the runs every stride-th.
void expect_proof_of_drafts_of_one_pass(int stride) {
  const Folder of_hybrid;
  const std::string pard = "pard:" + fixture("models/tale-pard");
  const std::string head = "eagle3:" + fixture("models/tale-peagle");
  const std::string hybrid_head = parallel_head(fixture("models/tale-hybrid-eagle3"), of_hybrid.path());
  const std::string dspark = "dflash:" + fixture("models/tale-dspark");
  const std::vector<std::string> sampled = {"--rule", "rejection", "--temperature", "1"};
  const std::vector<std::string> by_block = {"--rule", "block", "--temperature", "1", "--sequences", "4"};
  struct Row {
    const char* target;
    std::vector<std::string> drafts;
    std::vector<std::vector<std::string>> flags;
  };
  int number = 0;
  for (const Row& row :
       {Row{"tale-target", {pard, head, head + "?tree=9"}, {{}, sampled}},
        Row{"tale-target", {dspark, dspark + "?min_confidence=0.5"}, {{}, sampled, by_block}},
        Row{"tale-target", {pard, head}, {by_block}}, Row{"tale-hybrid", {pard, hybrid_head}, {by_block}},
        Row{"tale-gemma", {pard + "?tree=9"}, {{"--rule", "rejection", "--temperature", "1", "--sequences", "4"}}}}) {
    for (const std::vector<std::string>& flags : row.flags) {
      if (++number % stride != 0) continue;
      std::vector<std::string> words = {
          "verify", fixture(std::string("models/") + row.target), "--effort", "quick", "--max-new-tokens", "32"};
      words.insert(words.end(), flags.begin(), flags.end());
      words.push_back("--draft");
      words.insert(words.end(), row.drafts.begin(), row.drafts.end());
      const json report = json_of(words);
      EXPECT_EQ(report["verdict"], "PASS_EXACT") << row.target << ": " << report["reason"];
      for (const json& draft : report["drafts"]) EXPECT_EQ(draft["untested"], "") << draft["name"];
    }
  }
}

/// Those by rejection, and P-EAGLE and PARD by block.
TEST(VerifySlow, ProvesDraftsThatSayTheirTokensInOnePass) { expect_proof_of_drafts_of_one_pass(2); }
TEST(VerifySweep, ProvesDraftsThatSayTheirTokensInOnePass) { expect_proof_of_drafts_of_one_pass(1); }

/// The text repeats nothing, so drafts that look it up have nothing to propose.
TEST(VerifySlow, OfAllDraftsNamesThoseThatTheTextDoesNotTestAndJudgesTheOthers) {
  std::vector<std::string> words = {"verify",           fixture("models/tale-target"),
                                    "--draft",          "all",
                                    "--effort",         "quick",
                                    "--prompt",         "Once upon a time",
                                    "--max-new-tokens", "24"};
  const json report = json_of(words);
  EXPECT_EQ(report["verdict"], "PASS_EXACT") << report["reason"];
  std::vector<std::string> untested;
  for (const json& draft : report["drafts"]) {
    if (draft["untested"] == "") continue;
    untested.push_back(draft["name"].get<std::string>() + ": " + draft["untested"].get<std::string>());
    EXPECT_THAT(report["unproved"], testing::Contains(untested.back()));
  }
  EXPECT_THAT(untested, testing::Contains("ngram-simple: nothing was drafted"));
  words[3] = "ngram-simple";  // which is named
  words.insert(words.end(), {"--draft", "suffix"});
  const json named = json_of(words, 2);
  EXPECT_EQ(named["verdict"], "VACUOUS");
  EXPECT_EQ(named["reason"], "ngram-simple: nothing was drafted");
}

TEST(VerifySlow, ProvesDraftsThatAreTranslatedThroughText) {
  for (const auto& [model, draft] : {std::pair("tale-target", "tale-llama"), {"tale-llama", "tale-target"}}) {
    for (const std::vector<std::string>& flags : {std::vector<std::string>{},
                                                  {"--temperature", "1", "--rule", "matching"},
                                                  {"--temperature", "1", "--rule", "rejection"}}) {
      std::vector<std::string> words = {
          "verify",           fixture(std::string("models/") + model),
          "--draft",          "model:" + fixture(std::string("models/") + draft) + "?translate=1",
          "--sequences",      "4",
          "--effort",         "quick",
          "--max-new-tokens", "64"};
      words.insert(words.end(), flags.begin(), flags.end());
      const json report = json_of(words);
      EXPECT_EQ(report["verdict"], "PASS_EXACT") << model << ": " << report["reason"];
      EXPECT_GT(report["drafts"][0]["accepted"], 0);
    }
  }
}

TEST(VerifySlow, ProvesAnAssistantThatReadsTheTargetsCache) {
  const std::string assistant = "mtp:" + fixture("external/gemma4-assistant");
  for (const std::vector<std::string>& flags :
       {std::vector<std::string>{}, {"--temperature", "1"}, {"--temperature", "1", "--rule", "rejection"}}) {
    std::vector<std::string> words = {"verify",
                                      fixture("external/gemma4-tiny"),
                                      "--prompt-tokens",
                                      "1,5,9,2,7,4,4,8,3,11,12",
                                      "--draft",
                                      assistant,
                                      assistant + "?tree=7",
                                      "ngram-simple?n=1+" + assistant,
                                      "--effort",
                                      "quick",
                                      "--max-new-tokens",
                                      "60",
                                      "--sequences",
                                      "4"};
    words.insert(words.end(), flags.begin(), flags.end());
    EXPECT_EQ(json_of(words)["verdict"], "PASS_EXACT");
  }
}

TEST(Command, RefusesATunerWhereRunsAreRepeatedAndWhereTreesAreProposed) {
  const std::string tales = fixture("models/tale-target");
  const Folder folder;
  const std::string file = (folder.path() / "run.h5").string();
  struct Row {
    std::vector<std::string> words;
    const char* said;
  };
  for (const Row& row :
       {Row{{"verify", tales, "--draft", "suffix"}, "a proof has to be repeatable"},
        Row{{"verify", tales, "--draft", "all"}, "a proof has to be repeatable"},
        Row{{"fixture", "record", tales, file, "--prompt", "a", "--draft", "suffix", "--reason", "a test"},
            "a proof has to be repeatable"},
        Row{{"generate", tales, "--prompt", "Once", "--draft", "tree-test"}, "proposes trees"}}) {
    std::vector<std::string> words = row.words;
    words.insert(words.end(), {"--draft-max", "auto"});
    const Outcome outcome = run_command(words);
    EXPECT_EQ(outcome.status, 3) << outcome.err;
    EXPECT_THAT(outcome.err, testing::HasSubstr(row.said));
  }
}

TEST(Generate, WithATunerDecodesTextsTooShortForOne) {
  for (const char* tokens : {"0", "1", "2", "3"}) {
    const Outcome outcome = run_command({"generate", fixture("models/tale-target"), "--prompt-tokens", "5", "-n",
                                         tokens, "--draft", "ngram-simple", "--draft-max", "auto"});
    EXPECT_EQ(outcome.status, 0) << outcome.err;
  }
}

/// Nothing that this draft proposes is accepted, so that a tuner soon leaves it out.
TEST(Generate, LetsATunerChooseWhereThatCannotChangeTheText) {
  const auto drafted = [](std::vector<std::string> more) {
    std::vector<std::string> words = {
        "generate",     fixture("models/tale-target"), "--prompt", "Once upon a time", "-n", "100", "--draft",
        "always-reject"};
    words.insert(words.end(), more.begin(), more.end());
    return json_of(words)["statistics"]["drafted"].get<int>();
  };
  const int fixed = drafted({"--draft-max", "4"});
  EXPECT_GT(fixed, 300);
  EXPECT_LT(drafted({}), fixed / 2) << "by matching";
  EXPECT_LT(drafted({"--rule", "rejection", "--temperature", "0"}), fixed / 2) << "greedily";
  EXPECT_GT(drafted({"--rule", "rejection", "--temperature", "1"}), fixed / 2) << "by rejection as the draft prefers";
}

TEST(Verify, UsesTheRequestedDraftLength) {
  std::vector<std::string> words{"verify", target,      "--draft", dflash,     "--draft-max",
                                 "2",      "--kernels", "scalar",  "--effort", "quick"};
  words.insert(words.end(), hot.begin(), hot.end());
  const json report = json_of(words);
  EXPECT_LE(report["drafts"][0]["drafted"].get<int>(), 2 * report["drafts"][0]["iterations"].get<int>());
}

TEST(Verify, IsVacuousWhenNothingIsDrafted) {
  const json none = json_of({"verify", target, "--draft", "none", "--prompt-tokens", "5", "--max-new-tokens", "4",
                             "--kernels", "scalar", "--effort", "quick"},
                            2);
  EXPECT_EQ(none["verdict"], "VACUOUS");
  EXPECT_THAT(none["reason"].get<std::string>(), testing::HasSubstr("no_draft"));
}

TEST(Verify, WritesJUnitXml) {
  const Folder folder;
  const std::string file = (folder.path() / "report.xml").string();
  std::vector<std::string> words{"verify", target,      "--draft", dflash,     "--quiet", "--junit",
                                 file,     "--kernels", "scalar",  "--effort", "quick"};
  words.insert(words.end(), hot.begin(), hot.end());
  const Outcome outcome = run_command(words);
  EXPECT_EQ(outcome.status, 0) << outcome.err;
  EXPECT_THAT(text_of(file), testing::HasSubstr("<testcase"));
  EXPECT_THAT(text_of(file), testing::HasSubstr("failures=\"0\""));
}

TEST(GenerateSlow, GivesTheSameTokensWithAnyDraftLengthThreadsTableAndVerification) {
  for (const char* temperature : {"0", "1"}) {
    const std::vector<std::string> base{"generate", target,          "--prompt-tokens", "5,6,7",  "--max-new-tokens",
                                        "16",       "--temperature", temperature,       "--seed", "11"};
    const json plain = json_of(base);
    for (const std::vector<std::string>& change :
         std::vector<std::vector<std::string>>{{"--draft", dflash},
                                               {"--draft", dflash, "--verify", "serial"},
                                               {"--draft", dflash, "--verify", "redecode"},
                                               {"--draft", dflash, "--draft-max", "auto"},
                                               {"--draft", dflash, "--threads", "2"},
                                               {"--draft", dflash, "--kernels", "scalar"},
                                               {"--draft", dflash, "--draft-max", "1"},
                                               {"--draft", dflash, "--draft-max", "2"},
                                               {"--draft", "model:" + target},
                                               {"--draft", "always-reject"},
                                               {"--draft", "perfect", "--draft-max", "9"}}) {
      std::vector<std::string> words = base;
      words.insert(words.end(), change.begin(), change.end());
      EXPECT_EQ(json_of(words)["tokens"], plain["tokens"]) << testing::PrintToString(words);
    }
  }
}

TEST(Generate, RefusesADraftOfAnotherKindWhicheverItIs) {
  for (const auto& [draft, said] : {std::pair("dflash:" + target, "name it as model:PATH"),
                                    {"eagle3:" + fixture("models/tale-dflash"), "name it as dflash:PATH"},
                                    {"mtp:" + fixture("models/tale-eagle3"), "name it as eagle3:PATH"},
                                    {"medusa:" + fixture("models/tale-mtp"), "name it as mtp:PATH"},
                                    {"eagle3:" + fixture("external/medusa-authors"), "name it as medusa:PATH"}}) {
    const Outcome outcome =
        run_command({"generate", target, "--prompt-tokens", "5", "--max-new-tokens", "3", "--draft", draft});
    EXPECT_EQ(outcome.status, 3) << draft;
    EXPECT_EQ(outcome.out, "") << draft;
    EXPECT_THAT(outcome.err, testing::HasSubstr(said)) << draft;
  }
}

TEST(Generate, DecodesPlainlyAndStatesWhyWhenTheDraftCannotBeUsed) {
  const json logprobs = json_of({"generate", target, "--prompt-tokens", "5", "--max-new-tokens", "3", "--draft", dflash,
                                 "--logprobs", "--gate", "seed"});
  EXPECT_EQ(logprobs["gate"], "logprobs_requested");
  EXPECT_EQ(logprobs["logprobs"].size(), 3U);
  EXPECT_EQ(logprobs["statistics"]["drafted"], 0);
}

/// A copy of the shipped EAGLE-3 draft that was made for 48 positions.
std::string short_draft(const Folder& folder) {
  const files::path draft = folder.path() / "draft";
  files::copy(fixture("models/tale-eagle3"), draft);
  json config = json::parse(text_of(draft / "config.json"));
  config["max_position_embeddings"] = 48;
  put(draft / "config.json", config.dump());
  return "eagle3:" + draft.string();
}

TEST(Generate, GoesOnWhereADraftHasNoMorePositionsAndSaysSoOnce) {
  const Folder folder;
  const std::string tale = fixture("models/tale-target");
  const std::vector<std::string> asked = {"-p", "Once upon a time", "-n", "100", "--threads", "1"};
  std::vector<std::string> words = {"generate", tale};
  words.insert(words.end(), asked.begin(), asked.end());
  const Outcome plain = run_command(words);
  words.insert(words.end(), {"--draft", short_draft(folder), "--draft-max", "4", "--stats"});
  const Outcome outcome = run_command(words);
  EXPECT_EQ(outcome.status, 0);
  EXPECT_EQ(outcome.out, plain.out);
  EXPECT_THAT(outcome.err,
              testing::ContainsRegex("the draft serves 48 positions and the text may have 10[0-9]: behind"));
  EXPECT_THAT(outcome.err, testing::ContainsRegex("[0-9]+ rounds behind the draft's 48 positions"));
}

TEST(VerifySlow, ProvesATextThatOutgrowsItsDraft) {
  const Folder folder;
  const json report = json_of({"verify", fixture("models/tale-target"), "--draft", short_draft(folder), "-p",
                               "Once upon a time", "-n", "100", "--effort", "quick"});
  EXPECT_EQ(report["verdict"], "PASS_EXACT") << report.dump(1);
}

TEST(Generate, StatesOfEveryDraftInAChainWhatItProposedAndItsTimes) {
  const json report = json_of({"generate", target, "--prompt-tokens", "5,6,7", "--max-new-tokens", "12", "--draft",
                               "ngram-simple+" + dflash, "--draft-max", "4"});
  const json& statistics = report["statistics"];
  ASSERT_EQ(statistics["drafters"].size(), 2U);
  int drafted = 0;
  for (const json& one : statistics["drafters"]) {
    drafted += one["drafted"].get<int>();
    for (const char* const time : {"begin_seconds", "draft_seconds", "accept_seconds"}) {
      EXPECT_TRUE(one.contains(time)) << time;
    }
  }
  EXPECT_EQ(statistics["drafted"], drafted);
  EXPECT_GT(statistics["drafters"][1]["draft_seconds"], 0);
}

TEST(Generate, DraftsAPredictionWhereTheTextFollowsItAndWritesTheSame) {
  const Folder folder;
  const std::string text_file = folder.path() / "expected.txt";
  const auto generated = [&](std::vector<std::string> more) {
    std::vector<std::string> arguments = {"generate", fixture("models/tale-target"), "-p", "Once upon a time", "-n",
                                          "40"};
    arguments.insert(arguments.end(), more.begin(), more.end());
    return json_of(arguments);
  };
  const json plain = generated({});
  put(text_file, plain["text"]);
  for (const std::string& draft : {std::string("none"), "dflash:" + fixture("models/tale-dflash")}) {
    const json predicted = generated({"--draft", draft, "--prediction", text_file, "--draft-max", "8"});  // no tuner
    EXPECT_EQ(predicted["tokens"], plain["tokens"]);
    const json& first = predicted["statistics"]["drafters"][0];
    EXPECT_EQ(first["draft"], "prediction");
    EXPECT_GE(first["accepted"], 30);
  }
  const Outcome none = run_command({"generate", fixture("models/tale-target"), "-p", "a", "--prediction", "/nowhere"});
  EXPECT_EQ(none.status, 3);
  EXPECT_THAT(none.err, testing::HasSubstr("--prediction: /nowhere: "));
}

TEST(Generate, GivesTheSameLogprobsWithAndWithoutSpeculation) {
  const auto logprobs = [](const std::string& draft) {
    return json_of({"generate", target, "--prompt-tokens", "5", "--max-new-tokens", "12", "--logprobs", "--draft",
                    draft, "--draft-max", "4"});
  };
  const json plain = logprobs("none");
  const json drafted = logprobs(dflash);
  EXPECT_GT(drafted["statistics"]["drafted"], 0);
  EXPECT_EQ(drafted["tokens"], plain["tokens"]);
  EXPECT_EQ(drafted["logprobs"], plain["logprobs"]);
  EXPECT_EQ(plain["logprobs"].size(), 12U);
}

TEST(Generate, GivesTheSameTopLogprobsWithAndWithoutSpeculation) {
  const auto run = [](const std::string& draft) {
    return json_of({"generate", target, "--prompt-tokens", "5", "--max-new-tokens", "12", "--logprobs",
                    "--top-logprobs", "3", "--draft", draft, "--draft-max", "4"});
  };
  const json plain = run("none");
  const json drafted = run(dflash);
  EXPECT_GT(drafted["statistics"]["drafted"], 0);
  EXPECT_EQ(drafted["top_logprobs"], plain["top_logprobs"]);
  ASSERT_EQ(plain["top_logprobs"].size(), 12U);
  for (std::size_t i = 0; i < 12; ++i) {
    const json& place = plain["top_logprobs"][i];
    ASSERT_EQ(place.size(), 3U);
    EXPECT_EQ(place[0]["token"], plain["tokens"][i]) << "greedy";
    EXPECT_EQ(place[0]["logprob"], plain["logprobs"][i]);
    EXPECT_GE(place[0]["logprob"], place[1]["logprob"]);
    EXPECT_GE(place[1]["logprob"], place[2]["logprob"]);
  }
  const Outcome printed = run_command(
      {"generate", target, "--prompt-tokens", "5", "--max-new-tokens", "1", "--logprobs", "--top-logprobs", "2"});
  EXPECT_THAT(printed.out, testing::ContainsRegex("\n[0-9]+\t-[0-9.]+\t[0-9]+:-[0-9.]+\t[0-9]+:-[0-9.]+\n"));
  const Outcome texts = run_command(
      {"generate", fixture("models/tale-target"), "-p", "Once upon a", "-n", "1", "--logprobs", "--top-logprobs", "1"});
  EXPECT_THAT(texts.out, testing::ContainsRegex("\n([0-9]+ \" time\")\t-[0-9.]+\t[0-9]+ \" time\":-[0-9.]+\n"));
}

TEST(Generate, PrintsNothingBeforeAnErrorAndEndsTheLineThatOneInterrupts) {
  const std::string tale_target = fixture("models/tale-target");
  const Outcome refused = run_command({"generate", tale_target, "-p", "Once upon a time", "-n", "2000"});
  EXPECT_EQ(refused.status, 3);
  EXPECT_EQ(refused.out, "");
  const Outcome full = run_command({"generate", tale_target, "-p", "Once", "-n", "200", "--trace", "/dev/full"});
  EXPECT_EQ(full.status, 3);
  EXPECT_THAT(full.err, testing::HasSubstr("/dev/full: cannot be written: No space left on device"));
  EXPECT_THAT(full.out, testing::StartsWith("Once "));
  EXPECT_THAT(full.out, testing::EndsWith("\n"));
}

const std::vector<std::string> tale{"generate", fixture("models/tale-target"), "--prompt", "Once", "--max-new-tokens",
                                    "40"};

std::vector<std::string> with(std::vector<std::string> words, const std::vector<std::string>& more) {
  words.insert(words.end(), more.begin(), more.end());
  return words;
}

TEST(Generate, EndsTheTextBeforeAStopStringWithAndWithoutSpeculation) {
  const json whole = json_of(tale);
  const auto text = whole["text"].get<std::string>();
  ASSERT_GT(text.size(), 60U);
  for (std::size_t begin = 3; begin < 60; begin += 13) {
    const std::string stop = text.substr(begin, 4);
    const std::vector<std::string> words = with(tale, {"--stop=-no such text", "--stop", "[no,such]", "--stop", stop});
    const json plain = json_of(words);
    EXPECT_EQ(plain["text"], text.substr(0, text.find(stop)));
    EXPECT_EQ(plain["finish"], "stop");
    EXPECT_EQ(plain["stop_string"], stop);
    const std::size_t tokens = plain["tokens"].size();
    EXPECT_TRUE(std::equal(plain["tokens"].begin(), plain["tokens"].end(), whole["tokens"].begin()));
    const std::vector<std::string> drafted_words =
        with(words, {"--draft", "dflash:" + fixture("models/tale-dflash"), "--draft-max", "4"});
    const json drafted = json_of(drafted_words);
    EXPECT_GT(drafted["statistics"]["accepted"], 0);
    for (const char* field : {"tokens", "text", "finish", "stop_string"}) EXPECT_EQ(drafted[field], plain[field]);
    const Outcome printed = run_command(with(drafted_words, {"--logprobs"}));
    EXPECT_THAT(printed.out, testing::StartsWith("Once" + text.substr(0, text.find(stop)) + "\n"));
    EXPECT_EQ(std::count(printed.out.begin(), printed.out.end(), '\t'), std::ssize(plain["tokens"]));
    EXPECT_LT(tokens, whole["tokens"].size());
  }
}

TEST(Generate, PrintsTheWholeTextWhenNoStopStringIsFound) {
  const json whole = json_of(tale);
  const json stopped = json_of(with(tale, {"--stop", whole["text"].get<std::string>() + "?"}));
  EXPECT_EQ(stopped["text"], whole["text"]);
  EXPECT_EQ(stopped["finish"], whole["finish"]);
  EXPECT_FALSE(stopped.contains("stop_string"));
  // All of it was held back until the end.
  const Outcome printed = run_command(with(tale, {"--stop", whole["text"].get<std::string>() + "?"}));
  EXPECT_EQ(printed.out, "Once" + whole["text"].get<std::string>() + "\n");
}

TEST(Generate, TakesOneStopStringEachTimeAndRefusesWhatCannotBeLookedFor) {
  const Outcome outcome = run_command(
      {"generate", "--prompt", "Once", "--max-new-tokens", "4", "--stop", "no such", fixture("models/tale-target")});
  EXPECT_EQ(outcome.status, 0) << outcome.err;
  const std::pair<std::vector<std::string>, const char*> rows[] = {
      {with(tale, {"--stop", ""}), "--stop: is empty; give it, or leave it out"},
      {with(tale, {"--stop", "\xff"}), "--stop: '\\xff' is not UTF-8"},
      {with(tale, {"--stop", std::string(20000, 'a')}), "have 20000 bytes together; there may be 16384"},
      {{"generate", target, "--prompt-tokens", "5", "--stop", "a"}, "has no tokenizer"},
      {with(tale, {"--top-logprobs", "2"}), "--top-logprobs requires --logprobs"},
      {with(tale, {"--logprobs", "--top-logprobs", "21"}), "'21' is not a whole number from 0 to 20"},
  };
  for (const auto& [words, message] : rows) {
    const Outcome refused = run_command(words);
    EXPECT_EQ(refused.status, 3);
    EXPECT_EQ(refused.out, "");
    EXPECT_THAT(refused.err, testing::HasSubstr(message));
  }
}

TEST(Generate, AddsBiasesToLogitsAndRefusesWhatIsNone) {
  const json free = json_of(tale);
  const int first = free["tokens"][0];
  const json biased = json_of(with(tale, {"--logit-bias", std::to_string(first) + "=-100", "--draft", "self"}));
  EXPECT_THAT(biased["tokens"].get<std::vector<int>>(), testing::Not(testing::Contains(first)));
  EXPECT_EQ(biased["tokens"], json_of(with(tale, {"--logit-bias", std::to_string(first) + "=-100"}))["tokens"]);
  for (const char* wrong : {"5", "=1", "x=1", "2048=1", "-1=1", "5=101", "5=nan", "5=1 "}) {
    const Outcome refused = run_command(with(tale, {"--logit-bias", wrong}));
    EXPECT_EQ(refused.status, 3);
    EXPECT_THAT(refused.err, testing::HasSubstr("give a token id below 2048 and a bias from -100 to 100")) << wrong;
  }
}

TEST(Generate, EndsAndWordsAreThoseThatAreAskedFor) {
  const json free = json_of(tale);
  const int first = free["tokens"][0];
  const json stopped = json_of(with(tale, {"--stop-token", std::to_string(first)}));
  EXPECT_EQ(stopped["tokens"].size(), 1U);
  EXPECT_EQ(stopped["finish"], "stop");
  const json later = json_of(with(tale, {"--stop-token", std::to_string(first), "--min-tokens", "6"}));
  EXPECT_GE(later["tokens"].size(), 6U);
  EXPECT_THAT(std::vector<int>(later["tokens"].begin(), later["tokens"].begin() + 5),
              testing::Not(testing::Contains(first)));
  const json endless = json_of({"generate", fixture("models/tale-target"), "--prompt", "Once", "-n", "300",
                                "--ignore-eos", "--draft", "suffix"});
  EXPECT_EQ(endless["tokens"].size(), 300U);
  EXPECT_EQ(endless["finish"], "length");
  const std::string text = free["text"];
  const std::string word = text.substr(text.find_first_not_of(' '), text.find(' ', 1) - text.find_first_not_of(' '));
  for (const char* draft : {"none", "self"}) {
    const json other = json_of(with(tale, {"--bad-word", word, "--draft", draft}));
    EXPECT_THAT(other["text"].get<std::string>(), testing::Not(testing::StartsWith(" " + word))) << word;
  }
  for (const auto& [flag, value, sentence] : {std::tuple("--stop-token", "2048", "give a token id below 2048"),
                                              {"--stop-token", "x", "give a token id"},
                                              {"--bad-word", "", "--bad-word: is empty"}}) {
    const Outcome refused = run_command(with(tale, {flag, value}));
    EXPECT_EQ(refused.status, 3);
    EXPECT_THAT(refused.err, testing::HasSubstr(sentence));
  }
  const Outcome traced = run_command(with(tale, {"--min-tokens", "3", "--trace", "-"}));
  EXPECT_EQ(traced.status, 3);
  EXPECT_THAT(traced.err, testing::HasSubstr("--trace has no place for --min-tokens"));
}

// Random weights, so that every rounding of keys and values shows in the logits.
TEST(Generate, UsesTheRequestedKvFormat) {
  std::set<std::string> logprobs;
  for (const char* kv : {"f32", "bf16", "q8"}) {
    logprobs.insert(json_of({"generate", target, "--prompt-tokens", "5,6,7", "--max-new-tokens", "4", "--logprobs",
                             "--kv", kv})["logprobs"]
                        .dump());
  }
  EXPECT_EQ(logprobs.size(), 3U);
}

TEST(VerifySlow, UsesTheRequestedKvFormat) {
  std::set<std::string> logits;
  for (const char* kv : {"f32", "bf16", "q8"}) {
    std::vector<std::string> words{"verify", target, "--draft", dflash,     "--kernels",
                                   "scalar", "--kv", kv,        "--effort", "full"};
    words.insert(words.end(), hot.begin(), hot.end());
    logits.insert(json_of(words)["drafts"][0]["logits"]);
  }
  EXPECT_EQ(logits.size(), 3U);
}

TEST(Inspect, CountsTheKvCacheInTheRequestedFormat) {
  const auto bytes = [](const char* kv) {
    const Outcome outcome = run_command({"inspect", target, "--kv", kv, "--json"});
    return json::parse(outcome.out)["memory_bytes"]["cache_per_position"].get<int>();
  };
  const json inspected = json::parse(run_command({"inspect", target, "--kv", "q8", "--json"}).out);
  EXPECT_EQ(inspected["checkpoint"]["cache_bytes_per_position"], bytes("q8"));
  const int f32 = bytes("f32");
  EXPECT_EQ(2 * bytes("bf16"), f32);
  EXPECT_GT(4 * bytes("q8"), f32);  // a byte for each value, and scales
  EXPECT_LT(2 * bytes("q8"), f32);
}

TEST(Inspect, CountsTheMemoryOfADraftOnItsTerms) {
  const auto bytes = [](const std::string& draft) {
    const Outcome outcome = run_command({"inspect", target, "--draft", draft, "--json"});
    EXPECT_EQ(outcome.status, 0) << outcome.err;
    return json::parse(outcome.out)["memory_bytes"];
  };
  const json as_target = bytes(dflash);
  EXPECT_GT(as_target["total"], bytes("none")["total"]);
  EXPECT_LT(bytes(dflash + "?type=q4")["weights"]["f32"], as_target["weights"]["f32"]);
  EXPECT_LT(bytes(dflash + "?kv=q8")["total"], as_target["total"]);
  const json shorter = bytes(dflash + "?context=100");
  EXPECT_LT(shorter["total"], as_target["total"]);
  EXPECT_TRUE(shorter["cache_per_position_up_to"].contains("100")) << shorter.dump();
  EXPECT_EQ(run_command({"inspect", target, "--draft", "dflash"}).status, 3);
}

/// Every rank has a part of the target. `self` is cut as well; other drafts are on rank 0.
TEST(Inspect, CountsWhatEachRankHolds) {
  const std::string tale = fixture("models/tale-target");
  const auto weights = [&](const std::string& draft, int ranks) {
    const Outcome outcome =
        run_command({"inspect", tale, "--draft", draft, "--ranks", std::to_string(ranks), "--json"});
    EXPECT_EQ(outcome.status, 0) << outcome.err;
    const json said = json::parse(outcome.out);
    std::vector<int> of_ranks;
    for (int rank = 0; rank < ranks; ++rank) {
      of_ranks.push_back(said["memory_bytes_by_rank"][std::to_string(rank)]["weights"]);
    }
    return of_ranks;
  };
  int alone = 0;  // bytes of its weights in one process
  const json of_one_process = json::parse(run_command({"inspect", tale, "--json"}).out);
  for (const json& bytes : of_one_process["memory_bytes"]["weights"]) {
    alone += bytes.get<int>();
  }
  for (const int ranks : {2, 3}) {
    const std::vector<int> plain = weights("none", ranks);
    const std::vector<int> network = weights("dflash:" + fixture("models/tale-dflash"), ranks);
    const std::vector<int> self = weights("self", ranks);
    int together = 0;
    for (std::size_t rank = 0; rank < plain.size(); ++rank) {
      together += plain[rank];
      EXPECT_LT(plain[rank], alone);
      EXPECT_EQ(network[rank] > plain[rank], rank == 0);
      EXPECT_GT(self[rank], plain[rank]);
      EXPECT_LT(self[rank], 2 * plain[rank]);
    }
    EXPECT_GE(together, alone);
  }
}

TEST(Inspect, IsReadByPeopleWithoutJsonAndWithUnits) {
  const Outcome outcome = run_command({"inspect", fixture("models/tale-hybrid"), "--kv", "q8"});
  EXPECT_EQ(outcome.status, 0) << outcome.err;
  EXPECT_THAT(outcome.out, testing::Not(testing::ContainsRegex("[]{}[\"]")));
  EXPECT_THAT(outcome.out, testing::ContainsRegex("\ncache_bytes_per_position +[0-9]+ bytes\n"));
  EXPECT_THAT(outcome.out, testing::ContainsRegex("\nweight_bytes +[0-9.]+ MiB\n"));
  EXPECT_THAT(outcome.out, testing::ContainsRegex("\ncaches +keys and values: [0-9]+, recurrent state: [0-9]+\n"));
  EXPECT_THAT(outcome.out, testing::ContainsRegex("\npositions +[0-9]+\n"));
}

std::vector<std::string> llama_cpp_models() {
  std::vector<std::string> models;
  for (const auto& entry : files::directory_iterator(fixture("external"))) {
    const auto model = entry.path() / "model.gguf";
    const bool is_theirs = entry.path().filename().string().starts_with("llama-cpp-");
    if (is_theirs && files::exists(model)) models.push_back(model.string());
  }
  return models;
}

// Their merges make tokens that are not in the vocabulary.
TEST(GenerateSlow, NeedsATokenizerOnlyForAPromptOfText) {
  const std::vector<std::string> models = llama_cpp_models();
  ASSERT_EQ(models.size(), 21U);
  for (const std::string& model : models) {
    const std::vector<std::string> words{"generate", model, "--prompt-tokens", "1,2,3", "--max-new-tokens", "4"};
    const Outcome shown = run_command(words);
    EXPECT_EQ(shown.status, 0) << shown.err;
    EXPECT_THAT(shown.out, testing::MatchesRegex("[0-9]+(,[0-9]+)*\n")) << model;
    EXPECT_THAT(shown.err, testing::StartsWith("draftproof: printing token ids instead of text: " + model +
                                               ": field tokenizer.ggml.merges"));
    EXPECT_EQ(std::count(shown.err.begin(), shown.err.end(), '\n'), 1) << shown.err;
    const json said = json_of(words);  // --quiet
    EXPECT_GE(said["tokens"].size(), 1U);
    EXPECT_FALSE(said.contains("text"));
  }
  const Outcome text = run_command({"generate", models[0], "--prompt", "hello"});
  EXPECT_EQ(text.status, 3);
  EXPECT_THAT(text.err, testing::HasSubstr("tokenizer.ggml.merges"));
  EXPECT_THAT(text.err, testing::HasSubstr("--prompt-tokens"));
}

TEST(Verify, NeedsATokenizerOnlyForAPromptOfText) {
  const Outcome outcome =
      run_command({"verify", llama_cpp_models()[0], "--prompt-tokens", "1,2,3", "--draft", "always-reject",
                   "--max-new-tokens", "4", "--kernels", "scalar", "--effort", "quick"});
  EXPECT_EQ(outcome.status, 2) << outcome.err;
  EXPECT_THAT(outcome.out, testing::HasSubstr("always-reject: no draft token was accepted, by its design; choose a "
                                              "draft that is sometimes right"));
  EXPECT_EQ(std::count(outcome.err.begin(), outcome.err.end(), '\n'), 1) << "how long it takes: " << outcome.err;
  EXPECT_THAT(outcome.err, testing::StartsWith("effort quick: "));
}

TEST(Generate, StreamsTextThatEqualsTheWholeText) {
  const std::string tale = fixture("models/tale-target");
  const std::vector<std::string> words{"generate", tale, "--prompt", "In the old café", "--max-new-tokens", "12"};
  const Outcome streamed = run_command(words);
  ASSERT_EQ(streamed.status, 0) << streamed.err;
  const json whole = json_of(words);
  EXPECT_EQ(streamed.out, "In the old café" + whole["text"].get<std::string>() + "\n");
}

TEST(Generate, WritesNothingForZeroNewTokens) {
  const json none = json_of({"generate", target, "--prompt-tokens", "5", "--max-new-tokens", "0"});
  EXPECT_EQ(none["tokens"], json::array());
  EXPECT_EQ(none["finish"], "length");
}

TEST(Inspect, DescribesACheckpointAndTheKernels) {
  const Outcome outcome = run_command(
      {"inspect", fixture("external/dflash-mixed"), "--target", fixture("external/qwen3-tiny-sharded"), "--json"});
  ASSERT_EQ(outcome.status, 0) << outcome.err;
  const json said = json::parse(outcome.out);
  EXPECT_EQ(said["checkpoint"]["kind"], "DFlash draft");
  EXPECT_EQ(said["block_size"], 8);
  EXPECT_EQ(said["target_layer_ids"], json({0, 1, 2}));
  EXPECT_EQ(said["kernels"][0]["name"], "scalar");
}

TEST(Inspect, SaysHowAFolderIsQuantizedAndWhatUnpackingCosts) {
  const auto quantization = [](const char* name) {
    const Outcome outcome = run_command({"inspect", fixture(std::string("external/") + name), "--json"});
    EXPECT_EQ(outcome.status, 0) << outcome.err;
    return json::parse(outcome.out)["quantization"];
  };
  EXPECT_EQ(quantization("quantized-folders/gptq-4"), json({{"scheme", "gptq, 4 bits, groups of 32, symmetric"},
                                                            {"matrices", {{"q4_0", 14}}},
                                                            {"error_max", 0.0},
                                                            {"error_rms", 0.0},
                                                            {"values_compared", 61440}}));
  const json fp8 = quantization("quantized-folders/fp8-tensor");
  EXPECT_EQ(fp8["activations"], "not quantized to fp8, as other engines do; the stored scales are ignored");
  EXPECT_EQ(fp8["ignored_scales"], 14);
  EXPECT_GT(fp8["error_rms"], 0.001);
  EXPECT_LT(fp8["error_max"], 0.004);  // half a step of bf16
  EXPECT_TRUE(quantization("qwen3-tiny-tied").is_null());
}

TEST(Verify, AQuantizedFolderIsExactWithDraftsOfItself) {
  const Outcome outcome = run_command({"verify", fixture("external/quantized-folders/awq"), "--draft", "self", "suffix",
                                       "--effort", "quick", "--prompt-tokens", "1,5,9,2,7"});
  EXPECT_EQ(outcome.status, 0) << outcome.err;
  EXPECT_THAT(outcome.out, testing::HasSubstr("PASS_EXACT"));
}

TEST(Inspect, CountsTheMtpHeadsThatATargetHas) {
  for (const auto& [path, heads] : {std::pair("external/mtp-qwen3-two", 2),
                                    {"external/mtp-qwen35", 1},
                                    {"external/mtp-qwen3-next", 1},
                                    {"external/mtp-deepseek-v3", 1},
                                    {"external/mtp-ernie45-moe", 1},
                                    {"models/tale-hybrid", 0},
                                    {"models/tale-dflash", 0}}) {
    const Outcome outcome = run_command({"inspect", fixture(path), "--json"});
    ASSERT_EQ(outcome.status, 0) << outcome.err;
    EXPECT_EQ(json::parse(outcome.out)["checkpoint"]["mtp_heads"], heads) << path;
  }
}

TEST(Inspect, DescribesAConfigWithoutItsWeights) {
  const Folder folder;
  files::copy(target + "/config.json", folder.path() / "config.json");
  const json whole = json::parse(run_command({"inspect", target, "--json"}).out);
  for (const files::path& path : {folder.path(), folder.path() / "config.json"}) {
    const Outcome outcome = run_command({"inspect", path, "--json"});
    ASSERT_EQ(outcome.status, 0) << outcome.err;
    const json said = json::parse(outcome.out);
    EXPECT_EQ(said["checkpoint"]["weights"], false);
    EXPECT_FALSE(said["checkpoint"].contains("tensors"));
    for (const char* field : {"architecture", "caches", "features", "vocabulary", "parameters"}) {
      EXPECT_EQ(said["checkpoint"][field], whole["checkpoint"][field]) << field;
    }
    EXPECT_EQ(said["memory_bytes"]["cache_per_position"], whole["memory_bytes"]["cache_per_position"]);
    EXPECT_LT(said["memory_bytes_by_type"]["q4"]["512"], said["memory_bytes_by_type"]["none"]["512"]);
  }
  const Outcome text = run_command({"inspect", folder.path()});
  EXPECT_THAT(text.out, testing::StartsWith("no weights are here: this is what the config says\n"));
  EXPECT_THAT(text.out, testing::ContainsRegex("\nbytes, q4, 512 positions +[0-9.]+ [KM]iB\n"));
  put(folder.path() / "config.json", R"({"architectures": ["PerceiverForCausalLM"], "model_type": "perceiver"})");
  const Outcome unknown = run_command({"inspect", folder.path()});
  EXPECT_EQ(unknown.status, 3);
  EXPECT_THAT(unknown.err, testing::HasSubstr("config.json: architecture 'PerceiverForCausalLM' is not a target"));
  EXPECT_EQ(run_command({"generate", folder.path(), "--prompt-tokens", "1"}).status, 3);
}

TEST(Inspect, SaysWhichLayersOfItsTargetAnAssistantReads) {
  const Outcome outcome = run_command({"inspect", fixture("external/gemma4-assistant-ordered"), "--target",
                                       fixture("external/gemma4-tiny-donors"), "--json"});
  ASSERT_EQ(outcome.status, 0) << outcome.err;
  const json said = json::parse(outcome.out);
  EXPECT_EQ(said["checkpoint"]["kind"], "assistant of Gemma 4");
  EXPECT_EQ(said["checkpoint"]["architecture"], "Gemma4AssistantForCausalLM");
  EXPECT_EQ(said["checkpoint"]["caches"], json({{"those of the target", 4}}));
  EXPECT_EQ(said["memory_bytes"]["cache_per_position"], 16 * 4);
  EXPECT_EQ(said["reads_keys_of_target_layers"], json({1, 3, 3, 1}));
  const Outcome as_target =
      run_command({"generate", fixture("external/gemma4-assistant"), "--prompt-tokens", "1", "--max-new-tokens", "1"});
  EXPECT_EQ(as_target.status, 3);
  EXPECT_THAT(as_target.err, testing::HasSubstr("is an assistant of Gemma 4; name it as the draft of one, mtp:PATH"));
}

TEST(Inspect, DescribesAnEagle3DraftOfEitherLayout) {
  for (const auto& [name, architecture, tokens, normed] :
       {std::tuple("eagle3-midlayer", "LlamaForCausalLMEagle3", 61, false),
        {"eagle3-speculators", "Eagle3Speculator", 50, true}}) {
    const Outcome outcome = run_command({"inspect", fixture(std::string("external/") + name), "--target",
                                         fixture("external/qwen3-tiny-sharded"), "--json"});
    ASSERT_EQ(outcome.status, 0) << outcome.err;
    const json said = json::parse(outcome.out);
    EXPECT_EQ(said["checkpoint"]["kind"], "EAGLE-3 draft");
    EXPECT_EQ(said["checkpoint"]["architecture"], architecture);
    EXPECT_EQ(said["checkpoint"]["vocabulary"], 144);
    EXPECT_EQ(said["draft_vocabulary"], tokens);
    EXPECT_EQ(said["target_layer_ids"], json({1, 2, 3}));
    EXPECT_EQ(said["norm_output"], normed);
  }
}

TEST(Inspect, DescribesMedusaHeadsOfEitherLayout) {
  for (const auto& [name, said] :
       {std::pair("medusa-authors", json{{"hidden", nullptr}, {"vocabulary", nullptr}, {"layers", 2}}),
        {"medusa-vllm", {{"hidden", 56}, {"vocabulary", 144}, {"layers", 1}}}}) {
    const Outcome outcome = run_command({"inspect", fixture(std::string("external/") + name), "--target",
                                         fixture("external/qwen3-tiny-sharded"), "--json"});
    ASSERT_EQ(outcome.status, 0) << outcome.err;
    const json got = json::parse(outcome.out);
    EXPECT_EQ(got["checkpoint"]["kind"], "Medusa heads");
    for (const auto& [field, value] : said.items()) EXPECT_EQ(got["checkpoint"][field], value) << name << " " << field;
    EXPECT_EQ(got["medusa_heads"], 3);
    EXPECT_EQ(got["draft_vocabulary"], name == std::string("medusa-vllm") ? 50 : 144);
    EXPECT_EQ(got["memory_bytes"]["cache_per_position"], 4 * 56);
  }
}

TEST(Inspect, NamesTheUnreadablePartOfATokenizerAndRefusesAFileWithoutTensors) {
  const auto checkpoint = [](const files::path& path) {
    const Outcome outcome = run_command({"inspect", path, "--json"});
    EXPECT_EQ(outcome.status, 0) << outcome.err;
    return json::parse(outcome.out, nullptr, false)["checkpoint"];
  };
  EXPECT_EQ(checkpoint(fixture("models/tale-target"))["tokenizer"], true);
  EXPECT_EQ(checkpoint(fixture("models/tale-target"))["tokenizer_why_not"], "");
  EXPECT_EQ(checkpoint(target)["tokenizer"], false);
  EXPECT_EQ(checkpoint(target)["tokenizer_why_not"], "the checkpoint has none");

  const Folder folder;
  std::string bytes = text_of(fixture("external/llama-cpp-qwen3-q5_0/model.gguf"));
  const std::size_t name = bytes.find("qwen2", bytes.find("tokenizer.ggml.pre"));
  ASSERT_NE(name, std::string::npos);
  put(folder.path() / "new.gguf", bytes.replace(name, 5, "qwen9"));
  const json unread = checkpoint(folder.path() / "new.gguf");
  EXPECT_EQ(unread["tokenizer"], false);
  EXPECT_THAT(unread["tokenizer_why_not"].get<std::string>(),
              testing::HasSubstr("new.gguf: field tokenizer.ggml.pre: 'qwen9' is not implemented; implemented are"));

  put(folder.path() / "vocabulary.gguf", std::string("GGUF\3\0\0\0", 8) + std::string(16, '\0'));  // nothing in it
  const Outcome vocabulary = run_command({"inspect", folder.path() / "vocabulary.gguf"});
  EXPECT_EQ(vocabulary.status, 3);
  EXPECT_THAT(vocabulary.err, testing::HasSubstr("vocabulary.gguf: has no tensors; it holds a vocabulary"));
}

TEST(Command, WithoutASubcommandIsAUsageErrorButHelpIsNot) {
  EXPECT_EQ(run_command({}).status, 3);
  EXPECT_EQ(run_command({"--help"}).status, 0);
}

}  // namespace
}  // namespace draftproof::test::command_test
