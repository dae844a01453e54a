// SPDX-License-Identifier: MIT
// Texts that end at stop strings, decoded plainly and speculatively.
#include "ref/decoding/stop_at_strings.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <random>

#include "ref/base/error.h"
#include "tests/decoding/support.h"
#include "tests/text/tokenizer_files.h"

namespace draftproof::stop_at_strings_test {
namespace {

constexpr std::uint64_t seed = 11;

/// Tokens of one byte and of several, half of a character among them: a, b, ab, bab and the first byte of é.
Tokenizer toy_tokenizer() {
  const std::string json = test::small_json();
  const std::size_t vocabulary = json.find("\"vocab\"");
  return test::load_json(json.substr(0, vocabulary) +
                         R"("vocab": {"a": 0, "b": 1, "ab": 2, "bab": 3, "Ã": 4},
                            "merges": [["a", "b"], ["b", "ab"]]}})");
}

std::string bytes_of(const Tokenizer& tokenizer, std::span<const Token> tokens) {
  std::string bytes;
  for (const Token token : tokens) tokenizer.append_bytes(token, true, bytes);
  return bytes;
}

bool contains_one(const std::string& bytes, const StopStrings& stops) {
  return std::ranges::any_of(stops.strings(), [&](const std::string& s) { return bytes.find(s) != bytes.npos; });
}

/// Returns the shortest beginning whose text contains a stop string; all when there is none.
std::vector<Token> cut(const Tokenizer& tokenizer, const std::vector<Token>& output, const StopStrings& stops) {
  std::vector<Token> tokens;
  for (const Token token : output) {
    tokens.push_back(token);
    if (contains_one(bytes_of(tokenizer, tokens), stops)) break;
  }
  return tokens;
}

class StopAtStringsTest : public ::testing::Test {
 protected:
  static constexpr int drafts = 5;

  std::unique_ptr<Draft> new_draft(int kind, const Asked& asked) {
    const int capacity = static_cast<int>(asked.prompt.size()) + asked.max_new_tokens;
    if (kind == 0) return std::make_unique<NoDraft>();
    if (kind == 1) return std::make_unique<ModelDraft>(*perturbed_, capacity, asked.draft_max);
    if (kind == 2) return std::make_unique<PerfectDraft>(*target_, capacity, asked.draft_max);
    if (kind == 3) return std::make_unique<AlwaysRejectDraft>(*target_, capacity, asked.draft_max);
    std::vector<Token> truth = asked.prompt;
    const std::vector<Token> output = plain_output(*target_, asked, seed);
    truth.insert(truth.end(), output.begin(), output.end());
    return std::make_unique<TreeDraft>(*perturbed_, capacity, asked.draft_max, truth, true);
  }

  Trace run(const Asked& asked, int kind, const Rule& rule, StopCondition* stop) {
    const std::unique_ptr<Draft> draft = new_draft(kind, asked);
    PhiloxSource random(seed);
    Sequence sequence({.target = *target_, .draft = *draft, .rule = rule, .random = random, .stop = stop}, asked, asked,
                      Recording::counts);
    run_to_end(sequence);
    if (sequence.error()) std::rethrow_exception(sequence.error());
    return sequence.trace();
  }

  void run_to_end(Sequence& sequence) {
    Scheduler scheduler(*target_);
    scheduler.add(sequence);
    while (scheduler.step()) {
    }
  }

  static std::vector<Asked> requests() {
    std::vector<Asked> list;
    for (const float temperature : {0.0F, 1.0F}) {
      for (int sequence = 0; sequence < 3; ++sequence) {
        list.push_back(asked({sequence, 1, 2}, 16, 4, {.temperature = temperature}));
        list.back().sequence = sequence;
      }
    }
    return list;
  }

  /// Stop strings that the text contains, and some that it may not contain.
  std::vector<StopStrings> stop_strings(const std::string& text) const {
    std::vector<StopStrings> list;
    for (std::size_t begin = 0; begin < text.size(); begin += 2) {
      for (std::size_t length = 1; length <= 7 && begin + length <= text.size(); length += 2) {
        const std::string string = text.substr(begin, length);
        list.emplace_back(std::vector<std::string>{string});
        list.emplace_back(std::vector<std::string>{"bbbbb", string + "a", string});
      }
    }
    return list;
  }

  Tokenizer tokenizer_ = toy_tokenizer();
  std::unique_ptr<Model> target_ = make_hash_model({.vocabulary = 5, .levels = 3, .seed = 3});
  std::unique_ptr<Model> perturbed_ =
      make_hash_model({.vocabulary = 5, .levels = 3, .seed = 3, .perturbation = 77, .disagreement = 2});
};

TEST_F(StopAtStringsTest, EndsTheTextAtTheSameTokenWithEveryDraftAndRule) {
  long stopped = 0;
  long inside_a_round = 0;
  for (const Asked& asked : requests()) {
    for (const Rule* const rule : {&matching, &rejection}) {
      for (int draft = 0; draft < drafts; ++draft) {
        const Trace whole = run(asked, draft, *rule, nullptr);
        if (rule == &matching) {
          ASSERT_EQ(whole.output, plain_output(*target_, asked, seed));
        }
        for (const StopStrings& stops : stop_strings(bytes_of(tokenizer_, whole.output))) {
          StopAtStrings stop(tokenizer_, stops);
          const Trace trace = run(asked, draft, *rule, &stop);
          ASSERT_EQ(trace.output, cut(tokenizer_, whole.output, stops));
          ASSERT_EQ(trace.finish, Finish::stop);
          ASSERT_EQ(trace.final_length, static_cast<int>(asked.prompt.size() + trace.output.size()) - 1);
          stopped += trace.output.size() < whole.output.size();
          const Round& last = trace.rounds.back();
          inside_a_round += std::ssize(last.emitted) <= last.verdict.accepted;
        }
      }
    }
  }
  EXPECT_GT(stopped, 1000);
  EXPECT_GT(inside_a_round, 200);
}

TEST_F(StopAtStringsTest, DoesNotEndATextWithoutAStopString) {
  const Asked asked = requests().front();
  const StopStrings stops({"c", std::string(20, 'b')});
  StopAtStrings stop(tokenizer_, stops);
  const Trace trace = run(asked, 1, matching, &stop);
  EXPECT_EQ(trace.output, plain_output(*target_, asked, seed));
  EXPECT_EQ(trace.finish, Finish::length);
}

TEST_F(StopAtStringsTest, MayBeAskedAgainFromAnEarlierTokenOn) {
  std::mt19937 random(5);
  const StopStrings stops({"abba", "bbb",
                           "\xC3"
                           "a"});
  for (int text = 0; text < 200; ++text) {
    StopAtStrings stop(tokenizer_, stops);
    std::vector<Token> output;
    for (int step = 0; step < 60; ++step) {
      if (random() % 6 == 0) output.resize(random() % (output.size() + 1));
      output.push_back(static_cast<Token>(random() % 5));
      ASSERT_EQ(stop.ends(output), contains_one(bytes_of(tokenizer_, output), stops));
    }
  }
}

TEST_F(StopAtStringsTest, ARoundThatFailsAndIsRepeatedChangesNothing) {
  const Asked asked = requests().back();
  const std::vector<Token> plain = plain_output(*target_, asked, seed);
  long failed = 0;
  for (const StopStrings& stops : stop_strings(bytes_of(tokenizer_, plain))) {
    for (int call = 0; call < 6; ++call) {
      WatchedDraft draft(new_draft(1, asked));
      int left = call;
      draft.before = [&](WatchedDraft::Call which) {
        if (which == WatchedDraft::Call::observe && left-- == 0) throw Error("the draft fails");
      };
      PhiloxSource random(seed);
      StopAtStrings stop(tokenizer_, stops);
      Sequence sequence({.target = *target_, .draft = draft, .rule = matching, .random = random, .stop = &stop}, asked,
                        asked, Recording::counts);
      run_to_end(sequence);
      if (sequence.error()) {
        ++failed;
        sequence.resume();
        run_to_end(sequence);
      }
      ASSERT_EQ(sequence.trace().output, cut(tokenizer_, plain, stops));
    }
  }
  EXPECT_GT(failed, 50);
}

}  // namespace
}  // namespace draftproof::stop_at_strings_test
