// SPDX-License-Identifier: MIT
// The command `trace`: check passes what generate and verify write; exit codes; show and diff; a trace of 100 000
// rounds in bounded time and memory.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <sys/resource.h>
#include <sys/stat.h>

#include "ref/formats/json.h"
#include "tests/sanitized.h"
#include "tests/spectrace/float_engine.h"
#include "tests/spectrace/support.h"
#include "tests/tools/command.h"

namespace draftproof::spectrace::command_test {
namespace {

using test::fixture;
using test::Folder;
using test::run_command;
using testing::HasSubstr;
using testing::Not;

const std::string target = fixture("external/llama-tiny-plain");

TEST(TraceCommand, ATraceWithAGrammarPassesExactlyAndOneWhoseGrammarWasForgottenDoesNot) {
  const Folder folder;
  const std::string trace = folder.path() / "t.jsonl";
  const std::string tale = fixture("models/tale-target");
  test::put(folder.path() / "g.gbnf", "root ::= \"no\" \"!\"* | [a-z ]+ \".\"");
  test::put(folder.path() / "s.json", R"({"type":"object","properties":{"a":{"type":"number"}},"required":["a"]})");
  for (const auto& [flag, file] : {std::pair("--grammar", "g.gbnf"), std::pair("--json-schema", "s.json")}) {
    for (const std::string rule : {"matching", "rejection"}) {
      const auto generated = run_command({"generate", tale, "--draft", "dflash:" + fixture("models/tale-dflash"),
                                          "--rule", rule, "--temperature", "0.8", "--max-new-tokens", "24", "--prompt",
                                          "Once upon a time", flag, folder.path() / file, "--trace", trace});
      ASSERT_EQ(generated.status, 0) << generated.err;
      const auto held = run_command({"trace", "check", trace, "--target", tale, "--quiet", "--json", "-"});
      EXPECT_EQ(held.status, 0) << flag << rule << held.out << held.err;
      EXPECT_EQ(Json::parse(held.out)["verdict"], "PASS_EXACT");
    }
  }
  std::vector<std::string> lines = lines_of(test::text_of(trace));
  Json opening = Json::parse(lines[1]);
  EXPECT_THAT(opening["grammar"].get<std::string>(), HasSubstr("root ::="));
  opening.erase("grammar");
  lines[1] = opening.dump();
  test::put(trace, sealed(lines));
  EXPECT_EQ(run_command({"trace", "check", trace, "--target", tale, "--quiet"}).status, 1);
}

TEST(TraceCommand, AnUnchangedTraceOfGeneratePassesAndAChangedOneDoesNot) {
  const Folder folder;
  const std::string trace = folder.path() / "t.jsonl";
  for (const std::string rule : {"matching", "rejection"}) {
    const auto generated =
        run_command({"generate", target, "--draft", "always-reject", "--rule", rule, "--seed", "3", "--temperature",
                     "1", "--max-new-tokens", "24", "--prompt-tokens", "1,2,3", "--trace", trace});
    ASSERT_EQ(generated.status, 0) << generated.err;
    const auto held = run_command({"trace", "check", trace, "--target", target, "--quiet", "--json", "-"});
    EXPECT_EQ(held.status, 0) << held.out << held.err;
    EXPECT_EQ(Json::parse(held.out)["verdict"], "PASS_EXACT");
    EXPECT_EQ(Json::parse(held.out)["examined"]["tokens"], 24);

    std::vector<std::string> lines = lines_of(test::text_of(trace));
    Json round = Json::parse(lines[2]);
    round["next"]["u"] = round["next"]["u"].get<std::int64_t>() / 2;
    lines[2] = round.dump();
    test::put(trace, joined(lines));
    EXPECT_EQ(run_command({"trace", "check", trace}).status, 3) << "the digest no longer matches";
    test::put(trace, sealed(lines));
    const auto changed = run_command({"trace", "check", trace});
    EXPECT_EQ(changed.status, 1);
    EXPECT_THAT(changed.out,
                HasSubstr("coin                       fail    sequence 0, line 3, round 0, position 3: expected: "
                          "key (0, 3, "));
    EXPECT_THAT(changed.out, HasSubstr("at " + trace + ":3\n"));
    EXPECT_THAT(changed.out, HasSubstr("BUG_PROVEN"));

    lines.pop_back();
    test::put(trace, joined({lines[0], lines[1], lines[3]}));
    const auto invalid = run_command({"trace", "check", trace});
    EXPECT_EQ(invalid.status, 3);
    EXPECT_THAT(invalid.out, HasSubstr("INVALID_TRACE: " + trace + ":3: field round"));
  }
}

TEST(TraceCommand, ATraceStatesStopStringsAndPassesButAnEndByOneIsNotProved) {
  const Folder folder;
  const std::string trace = folder.path() / "t.jsonl";
  const std::string tale = fixture("models/tale-target");
  const std::pair<std::string, const char*> rows[] = {
      {"no such \"text\"\n\\", "\n  PASS_EXACT\n"},
      {"strong", "some end by a string, which tokens do not show (field stop_strings)\n"}};
  for (const auto& [stop, verdict] : rows) {
    const auto generated =
        run_command({"generate", tale, "--prompt", "Once upon a time there was a king who", "--max-new-tokens", "16",
                     "--draft", "perfect", "--stop", stop, "--stop", "caf\u00e9", "--trace", trace});
    ASSERT_EQ(generated.status, 0) << generated.err;
    const Json opening = Json::parse(lines_of(test::text_of(trace))[1]);
    EXPECT_EQ(opening["stop_strings"], Json({stop, "caf\u00e9"}));
    const auto held = run_command({"trace", "check", trace, "--target", tale});
    EXPECT_EQ(held.status, 0) << held.out << held.err;
    EXPECT_THAT(held.out, HasSubstr(verdict));
  }
}

TEST(TraceCommandSlow, EveryRunThatVerifyWritesPasses) {
  const Folder folder;
  const std::string trace = folder.path() / "t.jsonl";
  const auto verified = run_command({"verify", target, "--draft", "perfect", "--max-new-tokens", "12",
                                     "--prompt-tokens", "1,2,3", "--effort", "full", "--trace", trace, "--quiet"});
  ASSERT_NE(verified.status, 3) << verified.err;
  const auto held = run_command({"trace", "check", trace, "--target", target});
  EXPECT_EQ(held.status, 0) << "every run in its own class of equal bits: " << held.out << held.err;
  EXPECT_THAT(held.out, HasSubstr("PASS_EXACT"));
}

/// verify repeats a run dozens of times with the same random numbers, which is no further evidence.
TEST(TraceCommandSlow, RunsWithTheSameRandomNumbersAreNoFurtherEvidence) {
  const Folder folder;
  const std::string trace = folder.path() / "t.jsonl";
  for (const std::string rule : {"matching", "rejection"}) {
    const auto verified = run_command({"verify", target, "--draft", "perfect", "--max-new-tokens", "24",
                                       "--prompt-tokens", "1,2,3", "--rule", rule, "--temperature", "1", "--seed", "9",
                                       "--effort", "full", "--trace", trace, "--quiet"});
    ASSERT_NE(verified.status, 3) << verified.err;
    const auto held = run_command({"trace", "check", trace, "--target", target});
    EXPECT_EQ(held.status, 0) << held.out << held.err;
    EXPECT_THAT(held.out, HasSubstr("PASS_EXACT"));
  }
}

TEST(TraceCommand, ARunIsComparedOnlyWithATargetOfItsNumericsClass) {
  const Folder folder;
  const std::string trace = folder.path() / "t.jsonl";
  const auto generated = run_command({"generate", target, "--draft", "perfect", "--kv", "q8", "--max-new-tokens", "12",
                                      "--prompt-tokens", "1,2,3", "--trace", trace});
  ASSERT_EQ(generated.status, 0) << generated.err;
  const auto held = run_command({"trace", "check", trace, "--target", target, "--kv", "q8"});
  EXPECT_EQ(held.status, 0) << held.out << held.err;
  const auto other = run_command({"trace", "check", trace, "--target", target});
  EXPECT_EQ(other.status, 0) << other.out << other.err;
  EXPECT_THAT(other.out, HasSubstr("the numerics 'canonical, kv q8', which are not available here"));
  EXPECT_THAT(other.out, HasSubstr("\n  PASS_STAT\n")) << "its greedy tokens are the target's best";
}

/// Decodes 60 tokens greedily with `options`. Returns the prompt, which is all tokens but the last 60, and the text.
std::vector<Token> greedy_text(const std::string& model, std::vector<std::string> options) {
  const Folder folder;
  const std::string trace = folder.path() / "t.jsonl";
  options.insert(options.begin(), {"generate", model, "--prompt", "Once upon a time there lived", "--max-new-tokens",
                                   "60", "--quiet", "--trace", trace});
  const auto generated = run_command(options);
  EXPECT_EQ(generated.status, 0) << generated.err;
  std::vector<Token> text;
  for (const std::string& line : lines_of(test::text_of(trace))) {
    const Json json = Json::parse(line);
    for (const char* field : {"prompt", "emitted"}) {
      if (json["type"] == "end" || !json.contains(field)) continue;
      for (const Json& token : json[field]) text.push_back(token.get<Token>());
    }
  }
  return text;
}

/// Writes these tokens as a trace of tokens only, 60 of them emitted greedily by an engine of unknown numerics.
std::string as_trace_of_tokens(const std::vector<Token>& text, int vocabulary) {
  const auto begin = text.end() - 60;
  const Json header = {{"type", "header"},
                       {"schema", "spectrace/2"},
                       {"engine", "x"},
                       {"vocabulary", vocabulary},
                       {"rule", "greedy"},
                       {"temperature", "0x0p+0"},
                       {"stop_tokens", Json::array()},
                       {"prompt", std::vector<Token>(text.begin(), begin)}};
  const Json round = {{"type", "round"},
                      {"round", 0},
                      {"position", begin - text.begin()},
                      {"emitted", std::vector<Token>(begin, text.end())}};
  return header.dump() + "\n" + round.dump() + "\n{\"type\":\"end\",\"reason\":\"length\"}\n";
}

TEST(TraceCommand, ADoubledASkippedAndAMovedGreedyTokenAreProvedWithoutAFlag) {
  const std::string model = fixture("models/tale-target");
  const std::vector<Token> right = greedy_text(model, {});
  const auto changed_at = [&](const auto& change) {
    std::vector<Token> text = right;
    change(text, text.end() - 40);
    return text;
  };
  const auto doubled = changed_at([](auto& text, auto at) { text.insert(at, *at), text.pop_back(); });
  auto skipped = changed_at([](auto& text, auto at) { text.erase(at), text.push_back(text.back()); });
  const auto moved = changed_at([](auto&, auto at) { std::iter_swap(at, at + 1); });
  for (const auto& text : {doubled, skipped, moved}) {
    const auto wrong = run_command({"trace", "check", File(as_trace_of_tokens(text, 2048)).path(), "--target", model});
    EXPECT_EQ(wrong.status, 1) << wrong.out << wrong.err;
    EXPECT_THAT(wrong.out, HasSubstr("more than numerics explain"));
    EXPECT_THAT(wrong.out, HasSubstr("greedy tokens "));
    EXPECT_THAT(wrong.out, HasSubstr("(line 2)")) << "the report says where the furthest token is";
  }
  const auto held = run_command({"trace", "check", File(as_trace_of_tokens(right, 2048)).path(), "--target", model});
  EXPECT_EQ(held.status, 0) << held.out << held.err;
  EXPECT_THAT(held.out, HasSubstr("0 of 60 are not the target's best"));
  EXPECT_THAT(held.out, HasSubstr("\n  PASS_STAT\n"));
}

TEST(TraceCommand, GreedyEnginesOfLowerPrecisionAreNotAccusedAndTheLastLineNamesTheFlagThatAdmitsThem) {
  int differ = 0;
  const std::string model = fixture("models/tale-llama");
  for (const std::vector<std::string>& engine :
       {std::vector<std::string>{"--quantize", "q4"}, {"--quantize", "q8"}, {"--kv", "q8"}}) {
    const File trace(as_trace_of_tokens(greedy_text(model, engine), 512));
    const std::vector<std::string> check = {"trace", "check", trace.path(), "--target", model};
    const auto held = run_command(check);
    EXPECT_THAT(held.status, testing::AnyOf(0, 2)) << engine[1] << held.out << held.err;
    if (held.status == 0) continue;
    ++differ;
    const std::string flag = "UNDECIDED: --tie ";
    ASSERT_THAT(held.out, HasSubstr(flag));
    const std::size_t value = held.out.find(flag) + flag.size();
    std::vector<std::string> granted = check;
    granted.insert(granted.end(), {"--tie", held.out.substr(value, held.out.find(' ', value) - value)});
    const auto passed = run_command(granted);
    EXPECT_EQ(passed.status, 0) << engine[1] << passed.out << passed.err;
  }
  EXPECT_GT(differ, 0) << "some of these engines emit a token that is not the target's best";
}

/// files/draftproof_0_1.jsonl: 24 tokens of `generate --draft tale-dflash --temperature 0.8 --top-k 20 --seed 3`.
TEST(TraceCommand, ATraceThatTheFirstVersionWroteIsReadAndProved) {
  const std::string kept = DRAFTPROOF_SOURCE_DIR "/tests/spectrace/files/draftproof_0_1.jsonl";
  const auto alone = run_command({"trace", "check", kept});
  EXPECT_EQ(alone.status, 0) << alone.out << alone.err;
  EXPECT_THAT(alone.out, HasSubstr("\n  PASS_STAT\n"));
  const auto with_target = run_command({"trace", "check", kept, "--target", fixture("models/tale-target")});
  EXPECT_EQ(with_target.status, 0) << with_target.out << with_target.err;
  EXPECT_THAT(with_target.out, HasSubstr("23 draft tokens verified, 14 accepted"));
  EXPECT_THAT(with_target.out, HasSubstr("\n  PASS_EXACT\n"));
}

/// files/transformers_float32.jsonl: two greedy texts of transformers 5.24 in float32, on the shipped model.
TEST(TraceCommand, AnEngineIsComparedWithAFloat32ReferenceAndAReproducerKeepsAnother) {
  const Folder folder;
  const std::string engine = DRAFTPROOF_SOURCE_DIR "/tests/spectrace/files/transformers_float32.jsonl";
  const std::vector<std::string> check = {"trace", "check", engine, "--target", fixture("models/tale-target"),
                                          "--tie", "1e-4"};
  const auto held = run_command(check);
  EXPECT_EQ(held.status, 0) << held.out << held.err;
  EXPECT_THAT(held.out, HasSubstr("reference canonical, quantize f32, greedy tokens 0 of 219 are not the target's"));
  EXPECT_THAT(held.out, HasSubstr("\n  PASS_STAT\n"));

  EXPECT_THAT(held.out, HasSubstr("reference's distance from exact at most "));
  // Our bf16 values are not as close to float32. What lies within their own error is no finding.
  std::vector<std::string> own = check;
  own.insert(own.end(), {"--reference", "own", "--reproducer", folder.path() / "case"});
  const auto passed = run_command(own);
  EXPECT_EQ(passed.status, 0) << passed.out << passed.err;
  EXPECT_THAT(passed.out, HasSubstr("reference canonical, kv bf16, greedy tokens 2 of 219"));

  const auto with_token = [&](Token token) {  // the first text
    std::vector<std::string> lines = lines_of(test::text_of(engine));
    lines.resize(4);
    Json round = Json::parse(lines[2]);
    round["emitted"][27] = token;
    lines[2] = round.dump();
    return joined(lines);
  };
  const File far_below(with_token(5));
  own[2] = far_below.path();
  EXPECT_EQ(run_command(own).status, 1);
  EXPECT_EQ(run_command({"reproduce", folder.path() / "case"}).status, 1);
  EXPECT_THAT(test::text_of(folder.path() / "case" / "case.json"), HasSubstr("\"own\""));

  const File second_best(with_token(382));  // 1.7e-4 below the best
  std::vector<std::string> exactly = check;
  exactly[2] = second_best.path();
  exactly.insert(exactly.end(), {"--reference", "f64", "--tie", "1e-3"});
  exactly.erase(exactly.begin() + 5, exactly.begin() + 7);  // the other tie
  EXPECT_THAT(run_command(exactly).out, HasSubstr("reference float64, exact, greedy tokens 2 of 124"));
  std::vector<std::string> wrong = check;
  wrong[2] = second_best.path();
  EXPECT_THAT(run_command(wrong).out, HasSubstr("at position 38 the target's best token is 637; observed: token 382"));
}

/// files/llama_cpp_bf16_cuts.jsonl and openvino_plain_cuts.jsonl: texts under top-k, top-p and min-p of llama.cpp in
/// bf16, and of OpenVINO without speculation.
TEST(TraceCommandSlow, TextsUnderCutsReachAVerdictByTheTokensOfOneChoice) {
  const std::string files = DRAFTPROOF_SOURCE_DIR "/tests/spectrace/files/";
  const auto check = [](const std::string& trace, const char* slack) {
    return run_command({"trace", "check", trace, "--target", fixture("models/tale-target"), "--slack", slack});
  };
  const auto llama_cpp = check(files + "llama_cpp_bf16_cuts.jsonl", "0.01");
  EXPECT_EQ(llama_cpp.status, 0) << llama_cpp.out << llama_cpp.err;
  EXPECT_THAT(llama_cpp.out, HasSubstr("0 of 1920 tokens are not the target's one choice; 38.4 are explained by "
                                       "what is granted; a share of 0.067 of them would have been found\n"));
  EXPECT_THAT(llama_cpp.out, HasSubstr("\n  PASS_STAT\n"));
  const auto openvino = check(files + "openvino_plain_cuts.jsonl", "1e-4");
  EXPECT_EQ(openvino.status, 0) << openvino.out << openvino.err;
  EXPECT_THAT(openvino.out, HasSubstr("not proved: 1083 tokens are too few to show any deviation"));
}

/// The same texts with what a control shows: OpenVINO's own, and one that is too far away.
TEST(TraceCommandSlow, TextsUnderCutsReachAVerdictWithTheSlackOfAControl) {
  const std::string files = DRAFTPROOF_SOURCE_DIR "/tests/spectrace/files/";
  const std::string engine = files + "openvino_plain_cuts.jsonl";
  const std::vector<std::string> check = {"trace",   "check", engine, "--target", fixture("models/tale-target"),
                                          "--slack", "auto"};
  EXPECT_THAT(run_command(check).err, HasSubstr("give --control, a trace of the same engine without speculation"));
  std::vector<std::string> controlled = check;
  controlled.insert(controlled.end(), {"--control", engine});
  const auto passed = run_command(controlled);
  EXPECT_EQ(passed.status, 0) << passed.out << passed.err;
  EXPECT_THAT(passed.out, HasSubstr("slack granted "));
  EXPECT_THAT(passed.out, HasSubstr("\n  PASS_STAT\n"));
  controlled.insert(controlled.end(), {"--tie", "auto"});
  EXPECT_THAT(run_command(controlled).err, HasSubstr("has 0 greedy tokens that can be compared"));
}

TEST(TraceCommandSlow, AnotherModelInPlaceOfTheTargetIsNamedAndTheTargetIsNot) {
  const Folder folder;
  const std::string tale = fixture("models/tale-target");
  const std::string other = fixture("models/tale-small");
  const std::string trace = folder.path() / "trace.jsonl";
  const auto check = [&](const std::string& suspect) {
    return run_command({"trace", "check", trace, "--target", tale, "--slack", "0.001", "--suspect", suspect});
  };
  for (const std::string& served : {tale, other}) {
    const auto generated = run_command({"generate", served, "-p", "Once upon a time", "-n", "40", "--temperature", "1",
                                        "--seed", "1", "--trace", trace, "--kv", "f32", "--quiet"});
    EXPECT_EQ(generated.status, 0) << generated.err;
    const auto checked = check(other);
    EXPECT_EQ(checked.status, 0) << checked.out << checked.err;
    const std::string named = "best bet: " + other;
    if (served == other) EXPECT_THAT(checked.out, HasSubstr(named));
    else EXPECT_THAT(checked.out, Not(HasSubstr(named)));
  }
  EXPECT_THAT(check(fixture("external/llama-tiny-plain")).err, HasSubstr("a suspect has the target's vocabulary"));
  EXPECT_THAT(check("q5").err, HasSubstr("q5: no such folder or file"));
}

TEST(TraceCommand, WhatIsMeasuredNeedsSomethingToMeasure) {
  const std::string engine = DRAFTPROOF_SOURCE_DIR "/tests/spectrace/files/transformers_float32.jsonl";
  const auto error_of = [&](std::vector<std::string> more) {
    std::vector<std::string> check = {"trace", "check", engine, "--target", fixture("models/tale-target")};
    check.insert(check.end(), more.begin(), more.end());
    const auto refused = run_command(check);
    EXPECT_EQ(refused.status, 3) << refused.out;
    return refused.err;
  };
  EXPECT_THAT(error_of({"--tie", "auto"}), HasSubstr("give --control FILE"));
  EXPECT_THAT(error_of({"--control", engine}), HasSubstr("give one of them, too"));
  EXPECT_THAT(error_of({"--slack", "some"}), HasSubstr("'some' is not a number from 0 to 1, nor the word auto"));
  EXPECT_EQ(run_command({"trace", "check", engine, "--slack", "auto"}).status, 3);
}

/// The rows have another temperature than the trace states, which is more than the slack allows.
TEST(TraceCommand, AReproducerKeepsTheSlack) {
  const Folder folder;
  const std::string trace = folder.path() / "t.jsonl";
  const auto generated =
      run_command({"generate", target, "--draft", "always-reject", "--rule", "rejection", "--temperature", "3",
                   "--top-k", "8", "--max-new-tokens", "12", "--prompt-tokens", "1,2,3", "--trace", trace, "--quiet"});
  ASSERT_EQ(generated.status, 0) << generated.err;
  std::vector<std::string> lines = lines_of(test::text_of(trace));
  Json opening = Json::parse(lines[1]);
  opening["temperature"] = "0x1p-2";
  opening["numerics"] = "elsewhere";
  lines[1] = opening.dump();
  test::put(trace, sealed(lines));
  const std::string path = folder.path() / "case";
  const auto held = run_command({"trace", "check", trace, "--target", target, "--slack", "0.02", "--reproducer", path});
  EXPECT_EQ(held.status, 1) << held.out << held.err;
  EXPECT_THAT(held.out, HasSubstr(" away from row 0 of the target in total variation"));
  const auto again = run_command({"reproduce", path});
  EXPECT_EQ(again.status, 1) << again.out << again.err;
}

TEST(TraceCommand, AFailureOfSeveralSequencesTogetherIsReportedWithoutReproducer) {
  const auto hide = [](float drawn, float p, float q) { return drawn * q < p || p == 0 ? drawn : p / q; };
  Json header = Json::parse(lines_of(FloatEngine(3).trace("rejection", 1))[0]);
  const Json opening = {{"type", "sequence"}, {"temperature", header["temperature"]}, {"prompt", header["prompt"]}};
  for (const char* field : {"temperature", "prompt"}) header.erase(field);
  std::vector<std::string> lines{header.dump()};
  for (int s = 0; s < 2; ++s) {  // the last sequence of the file is right
    auto part = lines_of(FloatEngine(3).trace("rejection", 100, s == 0 ? +hide : nullptr));
    part[0] = opening.dump();
    for (const std::string& line : part) {
      lines.push_back(Json::parse(line).dump());
      lines.back().insert(1, "\"sequence\":" + std::to_string(s) + ",");
    }
  }
  const Folder folder;
  const std::string trace = folder.path() / "t.jsonl";
  test::put(trace, joined(lines));
  const std::string path = folder.path() / "case";
  const auto checked = run_command({"trace", "check", trace, "--reproducer", path});
  EXPECT_EQ(checked.status, 1) << checked.err;
  EXPECT_THAT(checked.out, HasSubstr("band                       fail"));
  EXPECT_THAT(checked.out, HasSubstr("reproducer none: no single sequence fails on its own"));
  EXPECT_FALSE(std::filesystem::exists(path));
  const auto once = run_command({"trace", "check", "/dev/null", "--reproducer", path});
  EXPECT_EQ(once.status, 3);
  EXPECT_THAT(once.err, HasSubstr("'/dev/null' can be read only once; write the trace to a file"));
}

/// The sequences never end. A short trace must not make the target allocate a KV cache for each of them. 430 MB suffice
/// with these sequences; a cache for each takes more than 600.
TEST(TraceCommand, MemoryOfTheTargetIsBoundedHoweverManySequencesAreOpen) {
  if (test::sanitized) GTEST_SKIP() << "the sanitizer needs more address space than the limit leaves";
  Json header = {{"type", "header"},  {"schema", "spectrace/2"}, {"engine", "e"},
                 {"vocabulary", 131}, {"rule", "rejection"},     {"total_weight", Distribution::total}};
  std::string text = header.dump() + "\n";
  for (int s = 0; s < 1500; ++s) {
    text += Json({{"type", "sequence"},
                  {"sequence", s},
                  {"rng_key", s},
                  {"prompt", {1}},
                  {"temperature", "0x1p+0"},
                  {"numerics", "canonical, kv bf16"}})
                .dump() +
            "\n" + Json({{"type", "round"}, {"sequence", s}, {"round", 0}, {"position", 1}, {"emitted", {2}}}).dump() +
            "\n";
  }
  const File file(text);
  const Folder folder;
  const std::string out = folder.path() / "out";
  const std::string limited = "ulimit -v 600000; exec " + test::quoted(DRAFTPROOF_BINARY) + " trace check " +
                              test::quoted(file.path()) + " --target " + test::quoted(target) + " --threads 1 >" +
                              test::quoted(out);
  EXPECT_EQ(WEXITSTATUS(std::system(limited.c_str())), 1) << "a constant token is no draw\n" << test::text_of(out);
  EXPECT_THAT(test::text_of(out), HasSubstr("rows 1500"));
}

TEST(TraceCommand, ATargetWithAnotherVocabularyIsRefused) {
  Recorded recorded;
  const File file(recorded.text(cases().front()));
  const auto refused = run_command({"trace", "check", file.path(), "--target", target});
  EXPECT_EQ(refused.status, 3);
  EXPECT_THAT(refused.out, HasSubstr(":1: field vocabulary: is 6, but"));
}

TEST(TraceCommand, ShowPrintsTheRoundThatDecidesAPosition) {
  const std::string path = std::string(DRAFTPROOF_SOURCE_DIR) + "/docs/examples/coin_of_zero.jsonl";
  const auto shown_at = [&](const std::string& position) {
    return run_command({"trace", "show", path, "--position", position});
  };
  const auto accepted = shown_at("4");
  EXPECT_EQ(accepted.status, 0) << accepted.err;
  EXPECT_THAT(accepted.out, testing::StartsWith("round 1 of sequence 0, from position 4: 1 of 1 draft tokens"));
  EXPECT_THAT(accepted.out, HasSubstr("         4  draft token       2  q 0.500000  p 0.000000"));
  const auto bonus = shown_at("3");
  EXPECT_THAT(bonus.out, testing::StartsWith("round 0 of sequence 0, from position 2: "));
  EXPECT_THAT(bonus.out, testing::Not(HasSubstr("round 1"))) << "the round before position 4 only";
  for (const char* outside : {"1", "6"}) {
    const auto none = shown_at(outside);
    EXPECT_EQ(none.status, 3);
    EXPECT_THAT(none.err, HasSubstr("there is no such round")) << "in the prompt, or behind the end";
  }
}

TEST(TraceCommand, ShowPrintsOneRoundForAPositionWhereADraftTokenWasRejected) {
  Recorded recorded;
  const File file(recorded.text({"", &rejection, {.temperature = 1}, "perturbed", Verification::batched, {}, 24}));
  const auto all = run_command({"trace", "show", file.path()});
  const std::string mark = "  rejected\n";
  std::size_t rejections = 0;
  for (std::size_t at = all.out.find(mark); at != std::string::npos; at = all.out.find(mark, at + 1)) {
    const std::size_t line = all.out.rfind('\n', at) + 1;
    const std::string position = std::to_string(std::stoi(all.out.substr(line)));
    const auto shown = run_command({"trace", "show", file.path(), "--position", position});
    EXPECT_THAT(shown.out, HasSubstr(all.out.substr(line, at - line))) << position;
    EXPECT_EQ(shown.out.find("round ", 1), std::string::npos) << "what an earlier round drafted there decides nothing";
    ++rejections;
  }
  EXPECT_GT(rejections, 0U);
}

TEST(TraceCommand, ShowPrintsARoundAndDiffNamesWhereTwoTextsDiffer) {
  Recorded recorded;
  const Case c{"", &rejection, {.temperature = 1}, "perturbed", Verification::batched, {}, 24};
  const File a(recorded.text(c));
  const auto shown = run_command({"trace", "show", a.path(), "--round", "0"});
  EXPECT_EQ(shown.status, 0) << shown.err;
  EXPECT_THAT(shown.out, HasSubstr("round 0 of sequence 0, from position 3: "));
  EXPECT_THAT(shown.out, HasSubstr("draft token"));
  EXPECT_EQ(run_command({"trace", "show", a.path()}).status, 0);
  EXPECT_EQ(run_command({"trace", "show", a.path(), "--round", "9999"}).status, 3);

  const auto same = run_command({"trace", "diff", a.path(), a.path()});
  EXPECT_EQ(same.status, 0);
  EXPECT_THAT(same.out, HasSubstr("all 24 tokens are the same"));
  std::vector<std::string> lines = lines_of(test::text_of(a.path()));
  Json round = Json::parse(lines[4]);
  const std::int64_t position = round["position"];
  round["emitted"][0] = (round["emitted"][0].get<int>() + 1) % 6;
  lines[4] = round.dump();
  const File b(sealed(lines));
  const auto parted = run_command({"trace", "diff", a.path(), b.path()});
  EXPECT_EQ(parted.status, 1);
  EXPECT_THAT(parted.out, HasSubstr("sequences: 0 equal, 1 part, 0 only in one file; "));
  EXPECT_THAT(parted.out, HasSubstr("sequence 0, after " + std::to_string(position - 3) + " equal tokens: position " +
                                    std::to_string(position)));
  EXPECT_THAT(parted.out, HasSubstr(b.path() + ":5: round 2"));
}

TEST(TraceCommand, DiffComparesTextsNotRounds) {
  Recorded recorded;
  const auto text = [&](const char* draft) {
    return recorded.text({"", &matching, {.temperature = 1}, draft, Verification::batched, {}, 24});
  };
  const File plain(text("none"));
  const File drafted(text("perturbed"));
  EXPECT_EQ(run_command({"trace", "diff", plain.path(), drafted.path()}).status, 0);
}

std::string a_header() {
  return Json({{"type", "header"},
               {"schema", "spectrace/2"},
               {"engine", "e"},
               {"vocabulary", 131},
               {"rule", "rejection"},
               {"total_weight", Distribution::total}})
             .dump() +
         "\n";
}
std::string a_seq(int sequence, int prompt = 1) {
  return Json({{"type", "sequence"}, {"sequence", sequence}, {"prompt", {prompt}}, {"temperature", "0x1p+0"}}).dump() +
         "\n";
}
std::string a_step(int sequence, int round, int position, const std::vector<int>& said) {
  return Json({{"type", "round"}, {"sequence", sequence}, {"round", round}, {"position", position}, {"emitted", said}})
             .dump() +
         "\n";
}
std::string an_end(int sequence) {
  return Json({{"type", "end"}, {"sequence", sequence}, {"reason", "cancelled"}}).dump() + "\n";
}

/// Under `rejection` texts part early, and what a draft is worth shows in p and q alone.
TEST(TraceCommand, DiffSeesAWorseDraftUnderRejectionBehindTheFirstDifferentToken) {
  // Sequence s emits token s % 7 + `more` first; its draft tokens are accepted with a probability of about a half.
  const auto trace = [](int more, std::uint64_t p_of_second) {
    std::string text = a_header();
    for (int s = 0; s < 80; ++s) {
      const std::uint64_t q = Distribution::total / 2;
      const std::uint64_t p[] = {q / 2 + static_cast<std::uint64_t>((s * 37 + more) % 80), p_of_second};
      text += a_seq(s);
      for (int n = 0; n < 2; ++n) {
        text += Json({{"type", "round"},
                      {"sequence", s},
                      {"round", n},
                      {"position", 1 + n},
                      {"draft_tokens", {20}},
                      {"accepted", 0},
                      {"next_from", "residual"},
                      {"emitted", {s % 7 + more}},
                      {"q_draft", {q}},
                      {"p_draft", {p[n]}}})
                    .dump() +
                "\n";
      }
      text += an_end(s);
    }
    return text;
  };
  const File good(trace(0, Distribution::total / 4));
  const File same(trace(40, Distribution::total / 4));
  const File worse(trace(40, Distribution::total / 8));
  const auto right = run_command({"trace", "diff", good.path(), same.path()});
  EXPECT_THAT(right.out, HasSubstr("in the first file and the second: 0.500 and 0.500\n")) << right.err;
  EXPECT_THAT(right.out, testing::Not(HasSubstr("PERF_REGRESSION")));
  const auto slower = run_command({"trace", "diff", good.path(), worse.path()});
  EXPECT_THAT(slower.out, HasSubstr("in the first file and the second: 0.500 and 0.375\n")) << slower.err;
  EXPECT_THAT(slower.out, HasSubstr("PERF_REGRESSION: the draft is worse in the second: in 0 of 80 sequences"));
  EXPECT_EQ(slower.status, 1) << "the texts differ";
}

TEST(TraceCommand, DiffComparesAllSequencesAndNamesWhereTheFirstTenDiffer) {
  // Of 40 sequences the even ones differ, each at another place; every fifth is in one file only. Sequence 3 has
  // another prompt, 1 goes on where the other has ended, 7 has the same tokens in other rounds.
  std::string one = a_header();
  std::string other = a_header();
  for (int s = 0; s < 40; ++s) {
    one += a_seq(s) + a_step(s, 0, 1, {5, 6, 7, 8}) + (s == 1 ? a_step(s, 1, 5, {9}) : "") + an_end(s);
    if (s % 5 == 4) continue;
    other += a_seq(s, s == 3 ? 2 : 1);
    if (s == 7) {
      other += a_step(s, 0, 1, {5}) + a_step(s, 1, 2, {6, 7, 8});
    } else {
      std::vector<int> said{5, 6, 7, 8};
      if (s % 2 == 0) said[s / 2 % 4] = 99;
      other += a_step(s, 0, 1, said);
    }
    other += an_end(s);
  }
  const File a(one);
  const File b(other);
  const auto found = run_command({"trace", "diff", a.path(), b.path()});
  EXPECT_EQ(found.status, 1);
  EXPECT_EQ(found.err, "");
  EXPECT_THAT(found.out, testing::StartsWith("sequences: 14 equal, 18 part, 8 only in one file; "));
  EXPECT_THAT(found.out, HasSubstr("sequence 0, after 0 equal tokens: position 1, token 5 against position 1, "
                                   "token 99\n  " +
                                   a.path() + ":3: round 0\n  " + b.path() + ":3: round 0\n"));
  EXPECT_THAT(found.out, HasSubstr("sequence 1, after 4 equal tokens: " + a.path() +
                                   " goes on with token 9 at position 5, " + b.path() + " has ended\n"));
  EXPECT_THAT(found.out, HasSubstr("sequence 2, after 1 equal tokens: position 2, token 6 against position 2, "));
  EXPECT_THAT(found.out, HasSubstr("sequence 3: the prompts are not the same\n"));
  EXPECT_THAT(found.out, HasSubstr("sequence 4: only in " + a.path() + "\n"));
  EXPECT_THAT(found.out, testing::Not(HasSubstr("sequence 7")));
  EXPECT_THAT(found.out, testing::EndsWith("and 16 more\n"));
  const auto same = run_command({"trace", "diff", a.path(), a.path()});
  EXPECT_EQ(same.status, 0);
  EXPECT_EQ(same.out, "sequences: 40 equal; all 161 tokens are the same\n");
}

TEST(TraceCommand, NoReproducerIsWrittenForTokensThatAreWrongOnlyTogetherAndTheReportNamesIt) {
  std::string text = a_header() + a_seq(0);
  const std::vector<std::uint64_t> row = {2, Distribution::total / 2, 3, Distribution::total / 2};
  for (int n = 0; n < 200; ++n) {  // always the same of two tokens
    text += Json({{"type", "round"},
                  {"sequence", 0},
                  {"round", n},
                  {"position", n + 1},
                  {"emitted", {2}},
                  {"draft_tokens", Json::array()},
                  {"accepted", 0},
                  {"width", 1},
                  {"next_from", "bonus"},
                  {"p_rows", {row}}})
                .dump() +
            "\n";
  }
  const File file(text + an_end(0));
  const Folder folder;
  const std::string path = folder.path() / "case";
  const auto checked = run_command({"trace", "check", file.path(), "--reproducer", path});
  EXPECT_EQ(checked.status, 1) << checked.out << checked.err;
  EXPECT_THAT(checked.out, HasSubstr("BUG_STAT"));
  EXPECT_THAT(checked.out, HasSubstr("reproducer none: no single decision is wrong, only all tokens together"));
  EXPECT_FALSE(std::filesystem::exists(path));
  EXPECT_THAT(run_command({"trace", "check", file.path()}).out, testing::Not(HasSubstr("reproducer")));
}

/// Exits with 124 instead of hanging.
const std::string limited_time = "timeout 30";

TEST(TraceCommandSlow, APipeWithoutWriterIsRefusedAfterABoundedWait) {
  const Folder folder;
  const std::string pipe = folder.path() / "pipe";
  ASSERT_EQ(mkfifo(pipe.c_str(), 0600), 0);
  const File file(a_header());
  for (const std::vector<std::string>& words : {std::vector<std::string>{"trace", "check", pipe},
                                                {"trace", "show", pipe},
                                                {"trace", "diff", file.path(), pipe}}) {
    const auto refused = run_command(words, limited_time);
    EXPECT_EQ(refused.status, 3) << words[1];
    EXPECT_THAT(refused.out + refused.err, HasSubstr(pipe + ": a pipe into which nobody writes"));
  }
  const auto generated =
      run_command({"generate", fixture("external/qwen3-tiny-tied"), "--prompt-file", pipe}, limited_time);
  EXPECT_EQ(generated.status, 3);
  EXPECT_THAT(generated.err, HasSubstr("--prompt-file: " + pipe + ": a pipe into which nobody writes"));
}

TEST(TraceCommandSlow, APipeIsReadHoweverSlowItsWriterIs) {
  const Folder folder;
  const std::string pipe = test::quoted(folder.path() / "pipe");
  ASSERT_EQ(mkfifo((folder.path() / "pipe").c_str(), 0600), 0);
  const File file(a_header() + a_seq(0) + a_step(0, 0, 1, {5, 6}) + an_end(0));
  const std::string text = test::quoted(file.path());
  const std::string diff = "timeout 30 " + test::quoted(DRAFTPROOF_BINARY) + " trace diff " + text + " ";
  for (const std::string& line :
       {"(sleep 4; cat " + text + ") | " + diff + "/dev/stdin",
        "(sleep 1; cat " + text + " >" + pipe + ") & " + diff + pipe,
        "(head -c 100 " + text + "; sleep 4; tail -c +101 " + text + ") >" + pipe + " & " + diff + pipe}) {
    EXPECT_EQ(std::system((line + " >" + test::quoted((folder.path() / "out").string())).c_str()), 0) << line;
    EXPECT_EQ(test::text_of(folder.path() / "out"), "sequences: 1 equal; all 2 tokens are the same\n");
  }
}

TEST(TraceCommand, DiffComparesSequencesHoweverTheirLinesAreInterleaved) {
  const auto trace = [](const std::vector<std::string>& steps) {
    std::string text = a_header() + a_seq(0) + a_seq(1);
    for (const std::string& line : steps) text += line;
    return text;
  };
  const File one(trace({a_step(0, 0, 1, {2, 3}), a_step(0, 1, 3, {4}), a_step(1, 0, 1, {5}), a_step(1, 1, 2, {6, 7})}));
  const auto diff = [&](const std::vector<std::string>& steps) {
    return run_command({"trace", "diff", one.path(), File(trace(steps)).path()});
  };
  const auto mixed =
      diff({a_step(1, 0, 1, {5, 6}), a_step(0, 0, 1, {2}), a_step(1, 1, 3, {7}), a_step(0, 1, 2, {3, 4})});
  EXPECT_EQ(mixed.status, 0) << mixed.out;
  EXPECT_THAT(mixed.out, HasSubstr("all 6 tokens are the same"));
  const auto other =
      diff({a_step(1, 0, 1, {5, 6}), a_step(0, 0, 1, {2}), a_step(1, 1, 3, {8}), a_step(0, 1, 2, {3, 4})});
  EXPECT_EQ(other.status, 1);
  EXPECT_THAT(other.out, HasSubstr("sequence 1, after 2 equal tokens: position 3, token 7 against position 3, "));
  const auto shorter = diff({a_step(1, 0, 1, {5, 6}), a_step(0, 0, 1, {2, 3, 4})});
  EXPECT_EQ(shorter.status, 1);
  EXPECT_THAT(shorter.out, HasSubstr(" goes on with token 7 at position 3"));
}

/// Returns CPU seconds, so that other load on the machine does not matter; the check has one thread.
double seconds_of(int who) {
  rusage usage{};
  getrusage(who, &usage);
  const auto seconds = [](const timeval& t) {
    return static_cast<double>(t.tv_sec) + 1e-6 * static_cast<double>(t.tv_usec);
  };
  return seconds(usage.ru_utime) + seconds(usage.ru_stime);
}

TEST(TraceCommandSlow, AHundredThousandRoundsAreCheckedInFiveTimesTheirParsingTimeAndTwoHundredMegabytes) {
  Recorded recorded({.vocabulary = 40, .levels = 4, .seed = 5});
  const Case c{"", &rejection, {.temperature = 1, .top_k = 8}, "perturbed", Verification::batched, {}, 25000};
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
  const double before = seconds_of(RUSAGE_CHILDREN);
  const int status = std::system(limited.c_str());
  const double seconds = seconds_of(RUSAGE_CHILDREN) - before;
  // Machines differ, so the time is compared with that of parsing alone.
  const double before_parsing = seconds_of(RUSAGE_SELF);
  for (const std::string& line : lines_of(text)) draftproof::Json::parse(line, "line");
  const double parsing = seconds_of(RUSAGE_SELF) - before_parsing;
  EXPECT_EQ(status, 0) << test::text_of(out);
  EXPECT_THAT(test::text_of(out), HasSubstr("rounds " + std::to_string(rounds) + ","));
  std::printf("%ld rounds, %.1f MB: %.2f s of one core, %.2f of them parsing\n", rounds,
              1e-6 * static_cast<double>(text.size()), seconds, parsing);
  EXPECT_LT(seconds, 5 * parsing);
}

}  // namespace
}  // namespace draftproof::spectrace::command_test
