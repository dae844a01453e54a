// SPDX-License-Identifier: MIT
// `draftproof campaign`: which trials a file asks for, in which order; what is refused; and that the report is the same
// however the trials came about.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <filesystem>
#include <nlohmann/json.hpp>
#include <random>
#include <set>
#include <string>
#include <thread>
#include <vector>

#include "ref/base/error.h"
#include "tests/tools/command.h"
#include "tools/campaign/campaign_plan.h"

namespace draftproof::test::campaign_test {
namespace {

namespace files = std::filesystem;
using nlohmann::ordered_json;
using testing::AllOf;
using testing::HasSubstr;

const std::string target = fixture("external/llama-tiny-plain");
const std::string other = fixture("external/qwen3-tiny-tied");

/// All checks but the first, which are not what is tested here.
const ordered_json skipped = {"logits_equal",
                              "acceptance_correct",
                              "cache_rollback",
                              "batch_invariance",
                              "config_invariance",
                              "draft_state",
                              "rng_accounting",
                              "repeatable",
                              "chunked_prefill_and_resume",
                              "sequence_isolation",
                              "prefix_reuse",
                              "log_probabilities",
                              "termination_and_counters",
                              "distribution_exact",
                              "exhaustive_small_cases"};

/// Four trials, of which two are bet on.
ordered_json small_campaign() {
  return {{"targets", {target}},
          {"drafts", {"tree-test"}},
          {"sampling", {ordered_json::object(), {{"temperature", 1}}}},
          {"prompts", {{1, 2, 3, 1, 2, 3, 1, 2}}},
          {"seeds", {1, 2, 3}},
          {"max_new_tokens", 6},
          {"skip_checks", skipped}};
}

/// A folder with a campaign.
struct Place {
  Folder folder;
  std::string file = (folder.path() / "c.json").string();
  std::string results = (folder.path() / "c.results").string();

  explicit Place(const ordered_json& campaign) { put(file, campaign.dump()); }

  Words words() const { return {"campaign", file, "--json", "-", "--quiet"}; }
  Outcome run(const std::string& environment = "") const { return run_command(words(), environment); }
};

CampaignPlan plan_of(const ordered_json& campaign) { return read_campaign(Place(campaign).file); }

std::string word_behind(const CampaignTrial& trial, const std::string& option) {
  const auto found = std::ranges::find(trial.words, option);
  return found == trial.words.end() ? "" : *(found + 1);
}

TEST(CampaignPlan, IsTheProductOfItsListsInTheirOrder) {
  const CampaignPlan plan = plan_of({{"targets", {target, {{"target", other}, {"drafts", {"none"}}}}},
                                     {"drafts", {"suffix", "perfect"}},
                                     {"rules", {"rejection", "matching"}},
                                     {"sampling", {{{"temperature", 0.8}, {"top_k", 4}}, {{"temperature", 0}}}},
                                     {"numerics", {{{"kv", "f32"}}, {{"quantize", "q8"}}}},
                                     {"prompts", {"-a", {1, 2}}},
                                     {"seeds", {3, 1}}});
  // For each of (two drafts, then three) of two numerics by two rules: two prompts by two seeds, and greedily one.
  ASSERT_EQ(plan.trials.size(), (2U + 3U) * 2 * 2 * (4 + 2));
  std::set<std::string> ids;
  std::set<std::string> seeds;
  for (const CampaignTrial& trial : plan.trials) {
    ids.insert(trial.id);
    seeds.insert(word_behind(trial, "--seed"));
  }
  EXPECT_EQ(ids.size(), plan.trials.size());
  EXPECT_EQ(seeds.size(), plan.trials.size()) << "no two trials share random numbers";
  EXPECT_EQ(plan.trials[0].series, target + ", draft suffix, rule rejection, temperature 0.8, top-k 4, kv f32");
  EXPECT_THAT(plan.trials[0].words, testing::Contains("--prompt=-a"));
  EXPECT_EQ(word_behind(plan.trials[2], "--prompt-tokens"), "1,2");
  EXPECT_EQ(plan.trials[6].series, target + ", draft suffix, rule matching, temperature 0.8, top-k 4, kv f32");
  EXPECT_EQ(plan.trials.back().series, other + ", draft none, rule matching, greedy, quantize q8");
}

TEST(CampaignPlan, ATrialIsNamedByWhatItIsAlone) {
  ordered_json campaign = small_campaign();
  const CampaignPlan plan = plan_of(campaign);
  campaign["seeds"] = {3, 2};
  const CampaignPlan others = plan_of(campaign);
  ASSERT_EQ(plan.trials.size(), 4U);
  ASSERT_EQ(others.trials.size(), 3U);
  EXPECT_EQ(others.trials[1].words, plan.trials[3].words);
  EXPECT_EQ(others.trials[1].id, plan.trials[3].id);
  EXPECT_NE(others.digest, plan.digest);
  EXPECT_EQ(plan_of(small_campaign()).digest, plan.digest);
}

TEST(CampaignPlan, OneTrialOfEachRuleMakesTheChecksOfTheBuild) {
  ordered_json campaign = small_campaign();
  campaign.erase("skip_checks");
  campaign["rules"] = {"matching", "block"};
  std::vector<std::string> with;
  for (const CampaignTrial& trial : plan_of(campaign).trials) {
    if (word_behind(trial, "--skip-check").empty()) with.push_back(word_behind(trial, "--rule"));
  }
  EXPECT_THAT(with, testing::ElementsAre("matching", "block"));
}

TEST(CampaignPlan, ReadsPromptsOfAFile) {
  const Folder folder;
  const std::string file = (folder.path() / "prompts.txt").string();
  put(file, "Once\n[3,4]\n\n");
  ordered_json campaign = small_campaign();
  campaign["prompts"] = file;
  const CampaignPlan plan = plan_of(campaign);
  ASSERT_EQ(plan.trials.size(), 8U);
  EXPECT_THAT(plan.trials[0].words, testing::Contains("--prompt=Once"));
  EXPECT_EQ(word_behind(plan.trials[1], "--prompt-tokens"), "3,4");
}

TEST(CampaignPlan, AsksServersLastOncePerSeed) {
  ordered_json campaign = small_campaign();
  campaign["endpoints"] = {{{"url", "http://127.0.0.1:9"}, {"target", target}, {"requests", 5}}};
  const CampaignPlan plan = plan_of(campaign);
  ASSERT_EQ(plan.trials.size(), 7U);
  EXPECT_TRUE(plan.trials.back().of_endpoint);
  EXPECT_FALSE(plan.trials[3].of_endpoint);
  EXPECT_EQ(word_behind(plan.trials.back(), "--requests"), "5");
}

TEST(CampaignPlan, RefusesWhatIsNoCampaignInASentence) {
  const auto refused = [](const char* field, const ordered_json& value, const std::string& sentence) {
    ordered_json campaign = small_campaign();
    campaign[field] = value;
    const Place place(campaign);
    try {
      read_campaign(place.file);
      ADD_FAILURE() << campaign.dump();
    } catch (const Error& wrong) {
      EXPECT_THAT(wrong.what(), AllOf(HasSubstr(place.file), HasSubstr(sentence)));
    }
  };
  refused("color", 1, "a campaign has no field 'color'; there are targets, drafts, ");
  refused("targets", {"/no/such"}, "targets[0]");
  refused("targets", ordered_json::array(), "targets: is no list, or an empty one");
  refused("targets", {target, target}, "targets[1]: is in the list twice");
  refused("targets", {target, {{"target", target}, {"drafts", {"suffix"}}}}, "asks for the same trial twice: ");
  refused("targets", {{{"target", target}, {"draft", "none"}}}, "a target has no field 'draft'");
  refused("drafts", {"no-such-draft"}, "drafts[0]");
  refused("drafts", {"dflash:/no/such"}, "drafts[0]: there is no '/no/such'");
  refused("rules", {"hope"}, "rules[0]");
  refused("sampling", {{{"temperatur", 1}}}, "sampling has no field 'temperatur'");
  refused("sampling", {{{"top_p", 2}}}, "sampling[0].top_p: is 2; it is from 0 to 1");
  refused("sampling", {{{"top_k", 1.5}}}, "sampling[0].top_k");
  refused("numerics", {{{"threads", 2}}}, "numerics has no field 'threads'");
  refused("numerics", {{{"kernels", "abacus"}}}, "numerics[0].kernels");
  refused("numerics", {{{"kv", "q2"}}}, "numerics[0].kv");
  refused("seeds", {-1}, "seeds[0]");
  refused("prompts", {""}, "prompts[0]: is empty");
  refused("prompts", ordered_json::array({ordered_json::array()}), "prompts[0]: has no tokens");
  refused("prompts", "/no/such", "prompts: ");
  refused("max_new_tokens", 0, "max_new_tokens");
  refused("effort", "none", "effort");
  refused("skip_checks", {"hope"}, "there is no check 'hope'");
  refused("endpoints", {{{"url", "http://127.0.0.1:9"}}}, "target");
  refused("endpoints", {{{"url", "http://127.0.0.1:9"}, {"target", target}, {"seed", 1}}}, "an endpoint has no field");
  const Place empty(ordered_json::object());
  EXPECT_THROW(read_campaign(empty.file), Error);
  EXPECT_THAT(run_command({"campaign", empty.file}).err, HasSubstr("has no targets and no endpoints; give some"));
}

TEST(Campaign, OfRightTrialsPassesAndBetsOnWhatIsSampled) {
  const Place place(small_campaign());
  const Outcome outcome = place.run();
  ASSERT_EQ(outcome.status, 0) << outcome.err;
  const ordered_json report = ordered_json::parse(outcome.out);
  EXPECT_EQ(report["verdict"], "PASS_EXACT");
  EXPECT_EQ(report["examined"]["trials"], 4);
  EXPECT_EQ(report["examined"]["passed"], 4);
  ASSERT_EQ(report["checks"].size(), 1U);
  EXPECT_EQ(report["checks"][0]["name"], "tokens_equal");
  EXPECT_EQ(report["token_tests"][0]["tokens"], 3 * 6);
  ASSERT_EQ(report["bets"].size(), 1U);
  EXPECT_THAT(report["bets"][0]["about"].get<std::string>(), HasSubstr("temperature 1"));
  EXPECT_EQ(report["trials"].size(), 4U);

  // Once more: the same report, and no trial is made again.
  const auto times = [&] {
    std::vector<files::file_time_type> list;
    for (const auto& entry : files::directory_iterator(place.results + "/trials"))
      list.push_back(entry.last_write_time());
    return list;
  };
  const auto before = times();
  EXPECT_EQ(before.size(), 4U);
  EXPECT_EQ(place.run().out, outcome.out);
  EXPECT_EQ(times(), before);
}

/// Begins the campaign and kills it after so long. Returns whether it lived until then.
bool killed_after(const Place& place, std::chrono::milliseconds time) {
  const pid_t process = fork();
  if (process == 0) {
    setpgid(0, 0);
    freopen("/dev/null", "w", stdout);
    execl(DRAFTPROOF_BINARY, "draftproof", "campaign", place.file.c_str(), "--quiet", nullptr);
    _exit(127);
  }
  std::this_thread::sleep_for(time);
  kill(process, SIGKILL);
  int status = 0;
  waitpid(process, &status, 0);
  return WIFSIGNALED(status);
}

void expect_the_same_bytes_after_kills(int rounds, int kills_each) {
  const Place place(small_campaign());
  const Outcome whole = place.run();
  std::mt19937 random(7);
  int killed = 0;
  for (int round = 0; round < rounds; ++round) {
    files::remove_all(place.results);
    for (int i = 0; i < kills_each; ++i) killed += killed_after(place, std::chrono::milliseconds(random() % 200));
    files::create_directory(place.results);  // where it was killed before it did so
    for (const auto& entry : files::recursive_directory_iterator(place.results)) {
      if (entry.path().parent_path().filename() != "trials" || entry.path().extension() != ".json") continue;
      EXPECT_TRUE(ordered_json::accept(text_of(entry.path()))) << "a result is whole: " << entry.path();
    }
    const Outcome resumed = place.run();
    EXPECT_EQ(resumed.out, whole.out);
    EXPECT_EQ(resumed.status, whole.status) << resumed.err;
  }
  EXPECT_GT(killed, 0);
}

TEST(Campaign, ThatIsKilledAtAnyMomentGoesOnAndReportsTheSameBytes) { expect_the_same_bytes_after_kills(1, 3); }
TEST(CampaignSlow, ThatIsKilledAtAnyMomentGoesOnAndReportsTheSameBytes) { expect_the_same_bytes_after_kills(8, 4); }

TEST(Campaign, RefusesResultsThatAreNotItsOwn) {
  const Place place(small_campaign());
  files::create_directory(place.results);
  put(place.results + "/mine.txt", "text");
  Outcome outcome = place.run();
  EXPECT_EQ(outcome.status, 3);
  EXPECT_THAT(outcome.err, HasSubstr("has other files and no results of a campaign"));

  files::remove(place.results + "/mine.txt");
  put(place.results + "/campaign.json", R"({"schema": "draftproof-campaign/1", "digest": "0"})");
  outcome = place.run();
  EXPECT_EQ(outcome.status, 3);
  EXPECT_THAT(outcome.err, HasSubstr("has the results of another campaign, of other models, or of another build"));

  const CampaignPlan plan = read_campaign(place.file);
  put(place.results + "/campaign.json",
      ordered_json({{"schema", "draftproof-campaign/1"}, {"digest", plan.digest}}).dump());
  files::create_directory(place.results + "/trials");
  put(place.results + "/trials/" + plan.trials[0].id + ".json", R"({"schema": "draftproof-trial/1", "trial": "x"})");
  outcome = place.run();
  EXPECT_EQ(outcome.status, 3);
  EXPECT_THAT(outcome.err, HasSubstr("is no result of this trial; remove the file"));
}

TEST(Campaign, ATrialThatCannotBeMadeIsNamedAndMadeLater) {
  ordered_json campaign = small_campaign();
  campaign["endpoints"] = {{{"url", "http://127.0.0.1:9"}, {"target", target}}};
  campaign["seeds"] = {1};
  campaign.erase("sampling");
  const Place place(campaign);
  const Outcome outcome = place.run();
  EXPECT_EQ(outcome.status, 2);
  const ordered_json report = ordered_json::parse(outcome.out);
  EXPECT_EQ(report["verdict"], "UNDECIDED");
  EXPECT_EQ(report["reason"], "1 of 2 trials have no verdict; the same command makes them");
  EXPECT_THAT(report["unproved"][0].get<std::string>(), HasSubstr("http://127.0.0.1:9"));
  EXPECT_EQ(std::ranges::distance(files::directory_iterator(place.results + "/trials")), 1);
}

// End to end: kernels that mix rows in products of 48 inputs, which one of the two targets has.
TEST(CampaignSlow, FindsAndNamesTheTargetThatIsWrong) {
  ordered_json campaign = small_campaign();
  campaign["targets"] = {fixture("external/qwen3-tiny-odd"), target};
  campaign["numerics"] = {{{"kernels", "openblas"}}};
  campaign["skip_checks"].erase(0);  // logits_equal
  campaign.erase("sampling");
  const Place place(campaign);
  const std::string mixed = "LD_LIBRARY_PATH=" + quoted(CROSSED_ROWS_FOLDER) + " CROSSED_INPUTS=48";
  const Outcome outcome = place.run(mixed);
  EXPECT_EQ(outcome.status, 1) << outcome.err;
  const ordered_json report = ordered_json::parse(outcome.out);
  EXPECT_EQ(report["verdict"], "BUG_PROVEN");
  EXPECT_EQ(report["trials"][0]["verdict"], "PASS_EXACT");
  EXPECT_EQ(report["trials"][1]["verdict"], "BUG_PROVEN");
  EXPECT_EQ(report["trials"][1]["failed"].back(), "logits_equal");
  const ordered_json failure = report["checks"][0]["failure"];
  EXPECT_THAT(failure["run"].get<std::string>(),
              testing::StartsWith(target + ", draft tree-test, rule matching, greedy, kernels openblas: "));
  const std::string folder = place.results + "/failures/" + report["trials"][1]["id"].get<std::string>();
  EXPECT_EQ(failure["reproduce"], "draftproof reproduce " + folder);
  EXPECT_EQ(run_command({"reproduce", folder}, mixed).status, 1);
}

}  // namespace
}  // namespace draftproof::test::campaign_test
