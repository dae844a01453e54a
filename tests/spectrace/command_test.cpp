// SPDX-License-Identifier: MIT
// The command on traces: what generate and verify write, check passes; its exit statuses; show and diff; and a trace of
// 100 000 rounds in bounded time and memory.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <sys/resource.h>

#include "tests/sanitized.h"
#include "tests/spectrace/float_engine.h"
#include "tests/spectrace/support.h"
#include "tests/tools/command.h"

namespace draftproof::spectrace {
namespace {

using test::fixture;
using test::Folder;
using test::run_command;
using testing::HasSubstr;

const std::string target = fixture("external/llama-tiny-plain");

TEST(TraceCommand, PassesWhatGenerateWroteAndNothingThatWasChangedInIt) {
  const Folder folder;
  const std::string trace = folder.path() / "t.jsonl";
  for (const std::string rule : {"matching", "rejection"}) {
    const auto generated = run_command({"generate", target, "--draft", "hostile", "--rule", rule, "--seed",
                                        "3", "--temperature", "1", "--max-new-tokens", "24", "--prompt-tokens", "1,2,3",
                                        "--trace", trace});
    ASSERT_EQ(generated.status, 0) << generated.err;
    const auto held = run_command({"trace", "check", trace, "--target", target, "--quiet", "--json", "-"});
    EXPECT_EQ(held.status, 0) << held.out << held.err;
    EXPECT_EQ(Json::parse(held.out)["verdict"], "PASS_EXACT");
    EXPECT_EQ(Json::parse(held.out)["examined"]["tokens"], 24);

    std::vector<std::string> lines = lines_of(test::text_of(trace));
    Json round = Json::parse(lines[2]);
    round["y"]["c"] = round["y"]["c"].get<std::int64_t>() / 2;
    lines[2] = round.dump();
    test::put(trace, joined(lines));
    EXPECT_EQ(run_command({"trace", "check", trace}).status, 3) << "its digest tells";
    test::put(trace, sealed(lines));
    const auto changed = run_command({"trace", "check", trace});
    EXPECT_EQ(changed.status, 1);
    EXPECT_THAT(changed.out, HasSubstr("coin               fail    sequence 0, line 3, round 0, position 3: expected: "
                                       "key (0, 3, "));
    EXPECT_THAT(changed.out, HasSubstr("at " + trace + ":3\n"));
    EXPECT_THAT(changed.out, HasSubstr("BUG_PROVEN"));

    lines.pop_back();
    test::put(trace, joined({lines[0], lines[1], lines[3]}));
    const auto invalid = run_command({"trace", "check", trace});
    EXPECT_EQ(invalid.status, 3);
    EXPECT_THAT(invalid.out, HasSubstr("INVALID_TRACE: " + trace + ":3: field n"));
  }
}

TEST(TraceCommandSlow, PassesEveryRunThatVerifyWrote) {
  const Folder folder;
  const std::string trace = folder.path() / "t.jsonl";
  const auto verified = run_command({"verify", target, "--draft", "oracular", "--max-new-tokens", "12",
                                     "--prompt-tokens", "1,2,3", "--effort", "full", "--trace", trace, "--quiet"});
  ASSERT_NE(verified.status, 3) << verified.err;
  const auto held = run_command({"trace", "check", trace, "--target", target});
  EXPECT_EQ(held.status, 0) << "every run in its own class of equal bits: " << held.out << held.err;
  EXPECT_THAT(held.out, HasSubstr("PASS_EXACT"));
}

/// Dozens of runs that draw with the same numbers say the same again: no evidence, however often.
TEST(TraceCommandSlow, DoesNotTakeRunsWithTheSameNumbersForEvidence) {
  const Folder folder;
  const std::string trace = folder.path() / "t.jsonl";
  for (const std::string rule : {"matching", "rejection"}) {
    const auto verified =
        run_command({"verify", target, "--draft", "oracular", "--max-new-tokens", "24", "--prompt-tokens", "1,2,3",
                     "--rule", rule, "--temperature", "1", "--seed", "9", "--effort", "full", "--trace",
                     trace, "--quiet"});
    ASSERT_NE(verified.status, 3) << verified.err;
    const auto held = run_command({"trace", "check", trace, "--target", target});
    EXPECT_EQ(held.status, 0) << held.out << held.err;
    EXPECT_THAT(held.out, HasSubstr("PASS_EXACT"));
  }
}

TEST(TraceCommand, HoldsARunToATargetThatComputesAsItWasComputedAndToNoOther) {
  const Folder folder;
  const std::string trace = folder.path() / "t.jsonl";
  const auto generated = run_command({"generate", target, "--draft", "oracular", "--kv", "bf16", "--max-new-tokens",
                                      "12", "--prompt-tokens", "1,2,3", "--trace", trace});
  ASSERT_EQ(generated.status, 0) << generated.err;
  const auto held = run_command({"trace", "check", trace, "--target", target, "--kv", "bf16"});
  EXPECT_EQ(held.status, 0) << held.out << held.err;
  const auto other = run_command({"trace", "check", trace, "--target", target});
  EXPECT_EQ(other.status, 2) << other.out << other.err;
  EXPECT_THAT(other.out, HasSubstr("the numerics 'canonical, kv bf16', which cannot be had here"));
}

/// Rows of another temperature than is said: too far away for what is granted to other numerics.
TEST(TraceCommand, AReproducerRemembersTheSlack) {
  const Folder folder;
  const std::string trace = folder.path() / "t.jsonl";
  const auto generated =
      run_command({"generate", target, "--draft", "hostile", "--rule", "rejection", "--temperature", "3", "--top-k",
                   "8", "--max-new-tokens", "12", "--prompt-tokens", "1,2,3", "--trace", trace, "--quiet"});
  ASSERT_EQ(generated.status, 0) << generated.err;
  std::vector<std::string> lines = lines_of(test::text_of(trace));
  Json opening = Json::parse(lines[1]);
  opening["T"] = "0x1p-2";
  opening["numerics"] = "elsewhere";
  lines[1] = opening.dump();
  test::put(trace, sealed(lines));
  const std::string path = folder.path() / "case";
  const auto held =
      run_command({"trace", "check", trace, "--target", target, "--slack", "0.02", "--reproducer", path});
  EXPECT_EQ(held.status, 1) << held.out << held.err;
  EXPECT_THAT(held.out, HasSubstr("P is at most 0.02 away from row 0 of the target in total variation"));
  const auto again = run_command({"reproduce", path});
  EXPECT_EQ(again.status, 1) << again.out << again.err;
}

TEST(TraceCommand, AFailureOfNoOneSequenceIsReportedThoughThereIsNoReproducer) {
  const auto hide = [](float drawn, float p, float q) { return drawn * q < p || p == 0 ? drawn : p / q; };
  Json header = Json::parse(lines_of(FloatEngine(3).trace("rejection", 1))[0]);
  const Json opening = {{"t", "seq"}, {"T", header["T"]}, {"prompt", header["prompt"]}};
  for (const char* field : {"T", "prompt"}) header.erase(field);
  std::vector<std::string> lines{header.dump()};
  for (int s = 0; s < 2; ++s) {  // what ends the file is right
    auto part = lines_of(FloatEngine(3).trace("rejection", 100, s == 0 ? +hide : nullptr));
    part[0] = opening.dump();
    for (const std::string& line : part) {
      lines.push_back(Json::parse(line).dump());
      lines.back().insert(1, "\"s\":" + std::to_string(s) + ",");
    }
  }
  const Folder folder;
  const std::string trace = folder.path() / "t.jsonl";
  test::put(trace, joined(lines));
  const std::string path = folder.path() / "case";
  const auto checked = run_command({"trace", "check", trace, "--reproducer", path});
  EXPECT_EQ(checked.status, 1) << checked.err;
  EXPECT_THAT(checked.out, HasSubstr("band               fail"));
  EXPECT_THAT(checked.out, HasSubstr("reproducer none: no sequence fails by itself"));
  EXPECT_FALSE(std::filesystem::exists(path));
  const auto once = run_command({"trace", "check", "/dev/null", "--reproducer", path});
  EXPECT_EQ(once.status, 3);
  EXPECT_THAT(once.err, HasSubstr("/dev/null can be read once; put it into a file"));
}

/// Sequences that are never ended: a short trace must not make the target's cache for each of them.
TEST(TraceCommand, HoldsTheTargetsMemoryHoweverManySequencesAreOpen) {
  if (test::sanitized) GTEST_SKIP() << "the sanitizer needs more address space than the limit leaves";
  Json header = {{"t", "hdr"}, {"schema", "spectrace/1"}, {"engine", "e"}, {"vocab", 131}, {"rule", "rejection"},
                 {"W", Distribution::total}};
  std::string text = header.dump() + "\n";
  for (int s = 0; s < 1500; ++s) {
    text += Json({{"t", "seq"}, {"s", s}, {"key", s}, {"prompt", {1}}, {"T", "0x1p+0"},
                  {"numerics", "canonical"}}).dump() + "\n" +
            Json({{"t", "step"}, {"s", s}, {"n", 0}, {"pos", 1}, {"o", {2}}}).dump() + "\n";
  }
  const File file(text);
  const Folder folder;
  const std::string out = folder.path() / "out";
  const std::string limited = "ulimit -v 400000; exec " + test::quoted(DRAFTPROOF_BINARY) + " trace check " +
                              test::quoted(file.path()) + " --target " + test::quoted(target) + " --threads 1 >" +
                              test::quoted(out);
  EXPECT_EQ(WEXITSTATUS(std::system(limited.c_str())), 1) << "always the same token is no draw\n" << test::text_of(out);
  EXPECT_THAT(test::text_of(out), HasSubstr("rows 1500"));
}

TEST(TraceCommand, RefusesATargetOfAnotherVocabulary) {
  Recorded recorded;
  const File file(recorded.text(cases().front()));
  const auto refused = run_command({"trace", "check", file.path(), "--target", target});
  EXPECT_EQ(refused.status, 3);
  EXPECT_THAT(refused.out, HasSubstr(":1: field vocab: is 6, but"));
}

TEST(TraceCommand, ShowsARoundAndSaysWhereTwoTextsPart) {
  Recorded recorded;
  const Case c{"", &rejection, {.temperature = 1}, "dialect", Verification::batched, {}, 24};
  const File a(recorded.text(c));
  const auto shown = run_command({"trace", "show", a.path(), "--round", "0"});
  EXPECT_EQ(shown.status, 0) << shown.err;
  EXPECT_THAT(shown.out, HasSubstr("round 0 of sequence 0, from position 3: "));
  EXPECT_THAT(shown.out, HasSubstr("guess"));
  EXPECT_EQ(run_command({"trace", "show", a.path()}).status, 0);
  EXPECT_EQ(run_command({"trace", "show", a.path(), "--round", "9999"}).status, 3);

  const auto same = run_command({"trace", "diff", a.path(), a.path()});
  EXPECT_EQ(same.status, 0);
  EXPECT_THAT(same.out, HasSubstr("all 24 tokens are the same"));
  std::vector<std::string> lines = lines_of(test::text_of(a.path()));
  Json round = Json::parse(lines[4]);
  const std::int64_t position = round["pos"];
  round["o"][0] = (round["o"][0].get<int>() + 1) % 6;
  lines[4] = round.dump();
  const File b(sealed(lines));
  const auto parted = run_command({"trace", "diff", a.path(), b.path()});
  EXPECT_EQ(parted.status, 1);
  EXPECT_THAT(parted.out, HasSubstr("after " + std::to_string(position - 3) + " equal tokens: sequence 0, position " +
                                    std::to_string(position)));
  EXPECT_THAT(parted.out, HasSubstr(b.path() + ":5: round 2"));
}

TEST(TraceCommand, DiffComparesTextsNotRounds) {
  Recorded recorded;
  const auto text = [&](const char* draft) {
    return recorded.text({"", &matching, {.temperature = 1}, draft, Verification::batched, {}, 24});
  };
  const File plain(text("none"));
  const File guessed(text("dialect"));
  EXPECT_EQ(run_command({"trace", "diff", plain.path(), guessed.path()}).status, 0);
}

TEST(TraceCommand, DiffComparesSequencesHoweverTheirLinesAreMixed) {
  const auto step = [](int sequence, int round, int position, std::vector<int> said) {
    return Json({{"t", "step"}, {"s", sequence}, {"n", round}, {"pos", position}, {"o", said}}).dump();
  };
  const auto trace = [](const std::vector<std::string>& steps) {
    std::string text = Json({{"t", "hdr"}, {"schema", "spectrace/1"}, {"engine", "e"}, {"vocab", 131},
                             {"rule", "rejection"}, {"W", Distribution::total}}).dump() + "\n";
    for (int s = 0; s < 2; ++s) text += Json({{"t", "seq"}, {"s", s}, {"prompt", {1}}, {"T", "0x1p+0"}}).dump() + "\n";
    for (const std::string& line : steps) text += line + "\n";
    return text;
  };
  const File one(trace({step(0, 0, 1, {2, 3}), step(0, 1, 3, {4}), step(1, 0, 1, {5}), step(1, 1, 2, {6, 7})}));
  const auto diff = [&](const std::vector<std::string>& steps) {
    return run_command({"trace", "diff", one.path(), File(trace(steps)).path()});
  };
  const auto mixed = diff({step(1, 0, 1, {5, 6}), step(0, 0, 1, {2}), step(1, 1, 3, {7}), step(0, 1, 2, {3, 4})});
  EXPECT_EQ(mixed.status, 0) << mixed.out;
  EXPECT_THAT(mixed.out, HasSubstr("all 6 tokens are the same"));
  const auto other = diff({step(1, 0, 1, {5, 6}), step(0, 0, 1, {2}), step(1, 1, 3, {8}), step(0, 1, 2, {3, 4})});
  EXPECT_EQ(other.status, 1);
  EXPECT_THAT(other.out, HasSubstr("sequence 1, position 3, token 7 against position 3, token 8"));
  const auto shorter = diff({step(1, 0, 1, {5, 6}), step(0, 0, 1, {2, 3, 4})});
  EXPECT_EQ(shorter.status, 1);
  EXPECT_THAT(shorter.out, HasSubstr("goes on with token 7 at position 3 of sequence 1"));
}

/// Of computing, so that what else the machine does is no matter: one thread checks.
double seconds_of_children() {
  rusage usage{};
  getrusage(RUSAGE_CHILDREN, &usage);
  const auto seconds = [](const timeval& t) {
    return static_cast<double>(t.tv_sec) + 1e-6 * static_cast<double>(t.tv_usec);
  };
  return seconds(usage.ru_utime) + seconds(usage.ru_stime);
}

TEST(TraceCommandSlow, ChecksAHundredThousandRoundsInTenSecondsAndTwoHundredMegabytes) {
  Recorded recorded({.vocabulary = 40, .levels = 4, .seed = 5});
  const Case c{"", &rejection, {.temperature = 1, .top_k = 8}, "dialect", Verification::batched, {}, 25000};
  long rounds = 0;
  const std::string text = recorded.text(*c.rule, [&](Writer& writer) {
    for (int sequence = 0; rounds < 100000; ++sequence) {
      rounds += static_cast<long>(recorded.write(writer, c, sequence).rounds.size());
    }
  });
  const File file(text);
  const Folder folder;
  const std::string out = folder.path() / "out";
  const std::string limited = "ulimit -v 200000; exec " + test::quoted(DRAFTPROOF_BINARY) + " trace check " +
                              test::quoted(file.path()) + " >" + test::quoted(out);
  const double before = seconds_of_children();
  const int status = std::system(limited.c_str());
  const double seconds = seconds_of_children() - before;
  EXPECT_EQ(status, 0) << test::text_of(out);
  EXPECT_THAT(test::text_of(out), HasSubstr("rounds " + std::to_string(rounds) + ","));
  std::printf("%ld rounds, %.1f MB: %.2f s of one core\n", rounds, 1e-6 * static_cast<double>(text.size()), seconds);
  EXPECT_LT(seconds, 10);
}

}  // namespace
}  // namespace draftproof::spectrace
