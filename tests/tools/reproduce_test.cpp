// SPDX-License-Identifier: MIT
// Reproducers: what --reproducer writes fails again, what is mended passes, and a bad case.json is one sentence.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <functional>
#include <nlohmann/json.hpp>
#include <sstream>

#include "tests/tools/command.h"
#include "tools/reproducer.h"

namespace draftproof::test::reproduce_test {
namespace {

using nlohmann::ordered_json;
using testing::HasSubstr;

const std::string target = fixture("external/llama-tiny-plain");

/// A case of the engine, which is right.
Reproducer of_engine() {
  Reproducer r;
  r.command = "verify";
  r.check = "tokens_equal";
  r.target = target;
  r.failure.expected = "token 1";
  r.failure.observed = "token 2";
  Variation variation;
  variation.draft = "always-reject";
  variation.draft_max = 2;
  r.trial = Case{r.check, {}, 18446744073709551615ULL, {variation}};
  r.trial->request.prompt = {1, 2, 3};
  r.trial->request.max_new_tokens = 4;
  r.trial->request.sampling = {.temperature = 0.7F, .top_p = 0.9F};
  return r;
}

Outcome reproduce(const std::string& folder) { return run_command({"reproduce", folder}); }

void expect_failing_again(const std::vector<std::string>& mutants) {
  for (const std::string& id : mutants) {
    const Folder folder;
    const std::string path = (folder.path() / "case").string();
    const Outcome written = run_command({"zoo", "--only", id, "--reproducer", path, "--quiet"});
    ASSERT_EQ(written.status, 0) << id << written.err;
    const Outcome again = reproduce(path);
    EXPECT_EQ(again.status, 1) << id << again.out << again.err;
    EXPECT_THAT(again.out, HasSubstr("fail"));
    EXPECT_THAT(again.out, HasSubstr("BUG_PROVEN"));
    // The same case, of a decoder that is right.
    ordered_json json = ordered_json::parse(text_of(path + "/case.json"));
    json["mutant"] = id == "A27" || id == "E15b" ? "N15" : "N06";
    put(path + "/case.json", json.dump());
    EXPECT_EQ(reproduce(path).status, 0) << id << reproduce(path).out;
  }
}

TEST(Reproduce, CheckThatAMutantFailsFailsAgain) { expect_failing_again({"A01"}); }
TEST(ReproduceSlow, CheckThatAMutantFailsFailsAgain) {
  expect_failing_again({"E15b", "B03", "C01", "S01", "R15", "A27", "C14b"});
}

const std::string crossed_rows = "LD_LIBRARY_PATH=" + quoted(CROSSED_ROWS_FOLDER);

TEST(Verify, RefusesKernelsThatMixRows) {
  const Outcome outcome = run_command(
      {"verify", target, "--draft", "always-reject", "--kernels", "openblas", "--prompt-tokens", "1"}, crossed_rows);
  EXPECT_EQ(outcome.status, 3);
  EXPECT_THAT(outcome.err, HasSubstr("breaks the row law here, a row's bits depend on the rows beside it"));
}

// End to end: an engine that is really wrong, the report of verify, and its smallest case.
TEST(ReproduceSlow, FailureOfAnEngineThatMixesRowsFailsAgainThereAndPassesElsewhere) {
  const std::string mixed = crossed_rows + " CROSSED_INPUTS=48";  // as many as the model's layers have
  const Folder folder;
  const std::string path = (folder.path() / "case").string();
  const Outcome found = run_command(
      {"verify", target, "--draft", "always-reject", "--draft-max", "2", "--kernels", "openblas", "--effort", "full",
       "--prompt-tokens", "1,2,3", "--max-new-tokens", "6", "--reproducer", path, "--json", "-", "--quiet"},
      mixed);
  EXPECT_EQ(found.status, 1) << found.err;
  const ordered_json report = ordered_json::parse(found.out);
  EXPECT_EQ(report["verdict"], "BUG_PROVEN");
  for (const ordered_json& check : report["checks"]) {
    const bool of_rows = check["name"] == "logits_equal";
    const bool of_rules = check["name"] == "rng_accounting" || check["name"] == "termination_and_counters" ||
                          check["name"] == "distribution_exact" || check["name"] == "exhaustive_small_cases";
    EXPECT_TRUE(!of_rows || check["outcome"] == "fail") << check.dump();
    EXPECT_TRUE(!of_rules || check["outcome"] != "fail") << "the rows are wrong, not the rules: " << check.dump();
  }
  EXPECT_THAT(found.out, HasSubstr("draftproof reproduce " + path));
  EXPECT_LE(read_reproducer(path).trial->request.max_new_tokens, 6);
  EXPECT_EQ(read_reproducer(path).trial->variations.size(), 1U) << "one run shows it";
  const Outcome again = run_command({"reproduce", path}, mixed);
  EXPECT_EQ(again.status, 1) << again.out << again.err;
  EXPECT_THAT(again.out, HasSubstr("BUG_PROVEN"));
  EXPECT_EQ(reproduce(path).status, 0) << reproduce(path).out;
}

TEST(ReproduceSlow, FailureThatIsNotReproducibleIsReportedWithoutACase) {
  const Folder folder;
  const std::string path = (folder.path() / "case").string();
  const Outcome found =
      run_command({"verify", target, "--draft", "always-reject", "--draft-max", "2", "--kernels", "openblas",
                   "--effort", "full", "--prompt-tokens", "1,2,3", "--max-new-tokens", "6", "--reproducer", path},
                  crossed_rows + " CROSSED_INPUTS=48 CROSSED_CALLS=2000");
  EXPECT_EQ(found.status, 1) << found.err;
  EXPECT_THAT(found.out, HasSubstr("not reproducible from a fresh load"));
  EXPECT_THAT(found.out, testing::Not(HasSubstr("draftproof reproduce")));
  EXPECT_FALSE(files::exists(path));
}

TEST(Reproduce, TheReportContainsTheCommandLine) {
  const Folder folder;
  const std::string path = (folder.path() / "a b").string();
  const Outcome written = run_command({"zoo", "--only", "A01", "--reproducer", path});
  EXPECT_EQ(written.status, 0) << written.err;
  EXPECT_THAT(written.out, HasSubstr("reproduce: draftproof reproduce '" + path + "'\n"));
}

TEST(Reproduce, ACaseOfACorrectEnginePasses) {
  const Folder folder;
  const std::string path = (folder.path() / "case").string();
  ReproducerFolder(path).write(of_engine());
  const Outcome outcome = reproduce(path);
  EXPECT_EQ(outcome.status, 0) << outcome.out << outcome.err;
  EXPECT_THAT(outcome.out, HasSubstr("tokens_equal"));
  const Reproducer read = read_reproducer(path);
  EXPECT_EQ(read.trial->seed, 18446744073709551615ULL);
  EXPECT_EQ(read.trial->request.sampling, of_engine().trial->request.sampling) << "to the last bit";
  EXPECT_EQ(read.trial->request.prompt, of_engine().trial->request.prompt);
  EXPECT_EQ(read.trial->variations.at(0).describe(), of_engine().trial->variations.at(0).describe());
}

TEST(Reproduce, ACaseOfABuildRunsTheCheckAgain) {
  const Folder folder;
  const std::string path = (folder.path() / "case").string();
  Reproducer r;
  r.command = "build";
  r.check = "exhaustive_small_cases";
  r.rule = "matching";
  ReproducerFolder(path).write(r);
  const Outcome outcome = reproduce(path);
  EXPECT_EQ(outcome.status, 0) << outcome.out << outcome.err;
}

TEST(Reproduce, ATraceIsCutToTheWrongRound) {
  const Folder folder;
  const std::string trace = folder.path() / "t.jsonl";
  for (const std::string rule : {"matching", "rejection"}) {
    ASSERT_EQ(run_command({"generate", target, "--draft", "perfect", "--rule", rule, "--seed", "3", "--temperature",
                           "1", "--max-new-tokens", "24", "--prompt-tokens", "1,2,3", "--trace", trace, "--quiet"})
                  .status,
              0);
    std::string text;
    int line_number = 0;
    std::istringstream lines(text_of(trace));
    for (std::string line; std::getline(lines, line);) {
      ordered_json json = ordered_json::parse(line);
      if (++line_number == 5) json["next"]["u"] = json["next"]["u"].get<std::int64_t>() / 2;
      if (json["type"] == "end") json.erase("sha256");
      text += json.dump() + "\n";
    }
    put(trace, text);
    const std::string path = (folder.path() / rule).string();
    const Outcome checked = run_command({"trace", "check", trace, "--reproducer", path, "--json", "-"});
    EXPECT_EQ(checked.status, 1) << checked.err;
    const auto json = ordered_json::parse(checked.out);
    EXPECT_EQ(json["checks"][0]["failure"]["reproduce"], "draftproof reproduce " + path);
    const std::string cut = text_of(path + "/trace.jsonl");
    EXPECT_EQ(std::count(cut.begin(), cut.end(), '\n'), 3) << "header, opening, one round\n" << cut;
    const Outcome again = reproduce(path);
    EXPECT_EQ(again.status, 1) << again.out << again.err;
    EXPECT_THAT(again.out, HasSubstr("coin"));
  }
}

TEST(Reproduce, AWrongCountKeepsTheWholeSequence) {
  const Folder folder;
  const std::string trace = folder.path() / "t.jsonl";
  ASSERT_EQ(run_command({"generate", target, "--draft", "always-reject", "--max-new-tokens", "6", "--prompt-tokens",
                         "1,2,3", "--trace", trace, "--quiet"})
                .status,
            0);
  std::string text = text_of(trace);
  const std::size_t end = text.rfind("{\"type\":\"end\"");
  ordered_json ending = ordered_json::parse(text.substr(end));
  ending["statistics"]["drafted"] = 99;
  ending.erase("sha256");
  put(trace, text.substr(0, end) + ending.dump() + "\n");
  const std::string path = (folder.path() / "case").string();
  EXPECT_EQ(run_command({"trace", "check", trace, "--reproducer", path, "--quiet"}).status, 1);
  const Outcome again = reproduce(path);
  EXPECT_EQ(again.status, 1) << again.out << again.err;
  EXPECT_THAT(again.out, HasSubstr("drafted are"));
}

TEST(Reproduce, RefusesAFolderThatIsNotEmpty) {
  const Folder folder;
  put(folder.path() / "mine.txt", "mine");
  const std::vector<std::string> zoo{"zoo", "--only", "A01", "--quiet", "--reproducer"};
  const auto refused = [&](const std::string& path) {
    std::vector<std::string> words = zoo;
    words.push_back(path);
    const Outcome outcome = run_command(words);
    EXPECT_EQ(outcome.status, 3) << path;
    return outcome.err;
  };
  EXPECT_THAT(refused(folder.path().string()), HasSubstr("is not empty"));
  EXPECT_THAT(refused((folder.path() / "mine.txt").string()), HasSubstr("is not a folder"));
  EXPECT_THAT(refused((folder.path() / "no" / "such").string()), HasSubstr("its parent folder does not exist"));
  EXPECT_EQ(text_of(folder.path() / "mine.txt"), "mine");
  const Outcome many = run_command({"zoo", "--only", "A01", "B03", "--reproducer", (folder.path() / "x").string()});
  EXPECT_EQ(many.status, 3);
  EXPECT_THAT(many.err, HasSubstr("for one decoder"));
}

struct BadCase {
  const char* name;
  std::function<void(ordered_json&)> change;
  std::vector<const char*> said;
};

std::vector<BadCase> bad_cases() {
  const auto leave = [](ordered_json&) {};
  return {
      {"schema", [](auto& c) { c["schema"] = "draftproof-case/9"; }, {"field schema", "draftproof-case/2"}},
      {"no schema", [](auto& c) { c.erase("schema"); }, {"schema"}},
      {"command", [](auto& c) { c["command"] = "rm"; }, {"field command"}},
      {"check", [](auto& c) { c["check"] = "no_such"; }, {"field check", "no_such"}},
      {"check of a build", [](auto& c) { c["check"] = "exhaustive_small_cases"; }, {"field check", "verify"}},
      {"unknown field", [](auto& c) { c["sede"] = "3"; }, {"sede"}},
      {"no target", [](auto& c) { c.erase("target"); }, {"target"}},
      {"target that is not there", [](auto& c) { c["target"] = "/nonexistent/model"; }, {"/nonexistent/model"}},
      {"quantize", [](auto& c) { c["quantize"] = "q99"; }, {"q99"}},
      {"seed", [](auto& c) { c["seed"] = 3; }, {"field seed"}},
      {"seed too large", [](auto& c) { c["seed"] = "18446744073709551616"; }, {"field seed"}},
      {"seed with words", [](auto& c) { c["seed"] = "3 "; }, {"field seed"}},
      {"prompt empty", [](auto& c) { c["request"]["prompt"] = ordered_json::array(); }, {"request.prompt"}},
      {"prompt of text", [](auto& c) { c["request"]["prompt"] = "hello"; }, {"request.prompt"}},
      {"prompt negative", [](auto& c) { c["request"]["prompt"] = {-1}; }, {"request.prompt"}},
      {"prompt beyond", [](auto& c) { c["request"]["prompt"] = {2000000000}; }, {"request.prompt", "2000000000"}},
      {"stop beyond", [](auto& c) { c["request"]["stops"] = {2000000000}; }, {"request.stops"}},
      {"tokens", [](auto& c) { c["request"]["max_new_tokens"] = -4; }, {"request.max_new_tokens"}},
      {"tokens many", [](auto& c) { c["request"]["max_new_tokens"] = 1000000000; }, {"request.max_new_tokens"}},
      {"tokens beyond the model", [](auto& c) { c["request"]["max_new_tokens"] = 1000000; }, {"1000000"}},
      {"temperature", [](auto& c) { c["request"]["sampling"]["temperature"] = -1; }, {"sampling.temperature"}},
      {"top-p", [](auto& c) { c["request"]["sampling"]["top_p"] = "x"; }, {"sampling.top_p"}},
      {"sampling gone", [](auto& c) { c["request"].erase("sampling"); }, {"sampling"}},
      {"no variation", [](auto& c) { c["variations"] = ordered_json::array(); }, {"field variations"}},
      {"variation no object", [](auto& c) { c["variations"][0] = 4; }, {"variations[0]"}},
      {"rule", [](auto& c) { c["variations"][0]["rule"] = "luck"; }, {"variations[0].rule", "luck"}},
      {"kernels", [](auto& c) { c["variations"][0]["kernels"] = "abacus"; }, {"abacus"}},
      {"threads", [](auto& c) { c["variations"][0]["threads"] = 0; }, {"variations[0].threads"}},
      {"draft", [](auto& c) { c["variations"][0]["draft"] = "oracle of delphi"; }, {"oracle of delphi"}},
      {"draft length", [](auto& c) { c["variations"][0]["draft_max"] = 1e9; }, {"variations[0].draft_max"}},
      {"verification", [](auto& c) { c["variations"][0]["verification"] = "none"; }, {"variations[0].verification"}},
      {"mutant",
       [](auto& c) {
         c["command"] = "zoo";
         c["mutant"] = "Q99";
         c["model"] = {{"vocabulary", 6}, {"levels", 3}, {"seed", "1"}};
       },
       {"field mutant", "Q99"}},
      {"model",
       [](auto& c) {
         c["command"] = "zoo";
         c["mutant"] = "A01";
         c["model"] = {{"vocabulary", 1 << 30}, {"levels", 3}, {"seed", "1"}};
       },
       {"model.vocabulary"}},
      {"draft of the zoo",
       [](auto& c) {
         c["command"] = "zoo";
         c["mutant"] = "A01";
         c["model"] = {{"vocabulary", 6}, {"levels", 3}, {"seed", "1"}};
         c["variations"][0]["draft"] = "dflash:/etc";
       },
       {"variations", "dflash:/etc"}},
      {"check of no trace", [](auto& c) { c["command"] = "trace check"; }, {"field check", "tokens_equal"}},
      {"trace gone",
       [](auto& c) {
         c["command"] = "trace check";
         c["check"] = "coin";
       },
       {"trace.jsonl"}},
      {"fine", leave, {}},
  };
}

TEST(Reproduce, ABadCaseIsRefusedNamingFileAndField) {
  const Folder folder;
  const std::string path = (folder.path() / "case").string();
  ReproducerFolder(path).write(of_engine());
  const std::string file = path + "/case.json";
  const ordered_json good = ordered_json::parse(text_of(file));
  for (const BadCase& bad : bad_cases()) {
    ordered_json json = good;
    bad.change(json);
    put(file, json.dump());
    const Outcome outcome = reproduce(path);
    EXPECT_EQ(outcome.status, bad.said.empty() ? 0 : 3) << bad.name << outcome.out << outcome.err;
    for (const char* const words : bad.said) EXPECT_THAT(outcome.err, HasSubstr(words)) << bad.name;
    const auto messages = std::count(outcome.err.begin(), outcome.err.end(), '\n');
    EXPECT_EQ(messages, bad.said.empty() ? 0 : 1) << outcome.err;
  }
}

TEST(Reproduce, ATraceThatIsNotARegularFileIsRefused) {
  const Folder folder;
  put(folder.path() / "case.json",
      R"({"schema":"draftproof-case/2","version":"1","command":"trace check","check":"coin"})");
  for (const char* const other : {"/dev/zero", "/"}) {
    const auto trace = folder.path() / "trace.jsonl";
    std::filesystem::remove(trace);
    std::filesystem::create_symlink(other, trace);
    const Outcome outcome = reproduce(folder.path().string());
    EXPECT_EQ(outcome.status, 3) << other;
    EXPECT_THAT(outcome.err, HasSubstr("trace.jsonl is missing")) << other;
  }
}

TEST(Reproduce, AFileThatIsNotACaseIsRefused) {
  const Folder folder;
  const std::string file = (folder.path() / "case.json").string();
  EXPECT_EQ(reproduce(folder.path().string()).status, 3) << "there is none";
  for (const std::string text : {"", "{", "[]", "null", "\xff\xfe", "{\"schema\":\"draftproof-case/1\"}"}) {
    put(file, text);
    const Outcome outcome = reproduce(folder.path().string());
    EXPECT_EQ(outcome.status, 3) << text;
    EXPECT_THAT(outcome.err, HasSubstr("case.json"));
  }
  put(file, std::string(1 << 20, '['));
  EXPECT_EQ(reproduce(folder.path().string()).status, 3);
}

}  // namespace
}  // namespace draftproof::test::reproduce_test
