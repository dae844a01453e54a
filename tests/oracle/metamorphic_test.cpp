// SPDX-License-Identifier: MIT
// The checks that run a subject again in another way, on a subject that is wrong only in that way.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <functional>

#include "oracle/checks/checks.h"
#include "oracle/checks/same_run.h"
#include "tests/oracle/told.h"
#include "zoo/zoo_subject.h"

namespace draftproof::metamorphic_test {
namespace {

using testing::HasSubstr;

/// A finished run.
struct Moment {
  const Request& request;
  const Variation& variation;
  int depth;  // 1: inside of another run
  int call;   // of the subject, from 0
};
using Meddle = std::function<void(const Moment&, Trace&)>;

class Meddling final : public Subject {
 public:
  explicit Meddling(Meddle meddle) : meddle_(std::move(meddle)) {}
  Trace run_with_callback(const Request& request, const Variation& variation, RandomSource& random,
                          const OnRound& on_round) override {
    const int call = calls_++;
    ++depth_;
    Trace trace = sound_.run_with_callback(request, variation, random, on_round);
    --depth_;
    if (meddle_) meddle_({request, variation, depth_, call}, trace);
    return trace;
  }
  Model& target(const Variation& variation) override { return sound_.target(variation); }
  std::string numerics(const Variation&) override { return "hash"; }

 private:
  zoo::ZooSubject sound_{{.vocabulary = 4, .levels = 3, .seed = 5}};
  Meddle meddle_;
  int depth_ = 0;
  int calls_ = 0;
};

Request asked() {
  Request request;
  request.prompt = {1, 2, 3, 1, 2, 0};
  request.sampling.temperature = 1;
  request.max_new_tokens = 12;
  return request;
}

Variation with(const char* draft, const Rule& rule) {
  Variation variation;
  variation.draft = draft;
  variation.draft_max = draft == std::string("none") ? 0 : 3;
  variation.rule = &rule;
  return variation;
}

Finding make_finding(const Check& check, const Rule& rule, Meddle meddle) {
  Meddling subject(std::move(meddle));
  Trial trial(subject, asked(), 3, {with("perturbed", rule), with("none", rule), with("always-reject", rule)});
  return check.examine(trial);
}

/// Expects the check to pass a sound subject under both rules, and to fail this one with a message that contains
/// `words`.
void expect_caught(const Check& check, const Meddle& meddle, const char* words) {
  for (const Rule* rule : {&matching, &rejection}) {
    const Finding sound = make_finding(check, *rule, {});
    EXPECT_EQ(sound.outcome, Outcome::pass) << sound.message;
    EXPECT_GT(sound.examined, 3);
    const Finding found = make_finding(check, *rule, meddle);
    EXPECT_EQ(found.outcome, Outcome::fail) << rule->name << ", wanted: " << words;
    EXPECT_THAT(told(found), HasSubstr(words));
    expect_whole(found);
  }
}

constexpr int runs_of_the_trial = 3;

TEST(Repeatable, FindsARunThatDiffersTheSecondTime) {
  expect_caught(
      repeatable,
      [](const Moment& moment, Trace& trace) {
        if (moment.call >= runs_of_the_trial) trace.rounds[2].logits[0].low ^= 1;
      },
      ", run again, round ");
}

TEST(Repeatable, FindsStateLeftByAnEarlierText) {
  expect_caught(
      repeatable,
      [](const Moment& moment, Trace& trace) {
        if (moment.request.prompt.size() > 6) trace.rounds[0].logits[0].low ^= 1;
      },
      "a text that begins like an earlier one, round 0");
  bool warm = false;
  expect_caught(
      repeatable,
      [&warm](const Moment& moment, Trace& trace) {
        if (moment.call < runs_of_the_trial) warm = false;
        warm = warm || moment.request.prompt.size() > 6;
        if (warm && moment.request.prompt.size() == 6) trace.rounds[1].cache.low ^= 1;
      },
      "run again after a text that begins the same, round ");
}

TEST(Repeatable, NeedsNoMoreContextThanTheRequest) {
  for (const int tokens : {1, 2, 3, 4}) {
    zoo::ZooSubject subject({.vocabulary = 4, .context = 16, .levels = 3, .seed = 5});
    Request request = asked();
    request.prompt.resize(static_cast<std::size_t>(16 - tokens), 1);
    request.max_new_tokens = tokens;
    Trial trial(subject, request, 3, {with("perturbed", rejection), with("none", rejection)});
    EXPECT_EQ(repeatable.examine(trial).outcome, Outcome::pass) << repeatable.examine(trial).message;
    EXPECT_NE(sequence_isolation.examine(trial).outcome, Outcome::fail) << sequence_isolation.examine(trial).message;
    EXPECT_NE(chunked_prefill_and_resume.examine(trial).outcome, Outcome::fail)
        << chunked_prefill_and_resume.examine(trial).message;
  }
}

TEST(ChunkedPrefillAndResume, FindsAPrefillThatDependsOnItsChunks) {
  expect_caught(
      chunked_prefill_and_resume,
      [](const Moment& moment, Trace& trace) {
        if (moment.variation.prefill_chunk == 3) trace.rounds[0].logits[0].low ^= 1;
      },
      "prefill in chunks of 3");
}

TEST(ChunkedPrefillAndResume, FindsACancelledRunThatKeepsTooMuchOrDiffers) {
  const auto when_cancelled = [](auto change) {
    return [change](const Moment&, Trace& trace) {
      if (trace.finish == Finish::cancelled) change(trace);
    };
  };
  expect_caught(chunked_prefill_and_resume, when_cancelled([](Trace& trace) { ++trace.final_length; }),
                "positions in the cache; the text has ");
  expect_caught(chunked_prefill_and_resume, when_cancelled([](Trace& trace) { trace.finish = Finish::length; }),
                "rounds, length,");
  expect_caught(chunked_prefill_and_resume, when_cancelled([](Trace& trace) { trace.rounds.back().cache.low ^= 1; }),
                "left another cache");
  expect_caught(chunked_prefill_and_resume, when_cancelled([](Trace& trace) { trace.output.back() ^= 1; }),
                "it emits another token");
}

TEST(ChunkedPrefillAndResume, CancelsARunOfEveryDraftInItsMiddleAndBehindItsFirstRound) {
  EXPECT_THAT(make_finding(chunked_prefill_and_resume, matching, nullptr).message, HasSubstr(" 6 runs cancelled"));
}

TEST(ChunkedPrefillAndResume, FindsARunThatResumesDifferently) {
  expect_caught(
      chunked_prefill_and_resume,
      [](const Moment& moment, Trace& trace) {
        if (moment.request.prompt.size() > 6) trace.rounds.back().verdict.next ^= 1;
      },
      "and resumed, round ");
  expect_caught(
      chunked_prefill_and_resume,
      [](const Moment& moment, Trace& trace) {
        if (moment.request.prompt.size() > 6) trace.finish = Finish::stop;
      },
      "and resumed: expected: finished by");
}

TEST(SequenceIsolation, FindsEffectsOfOneSequenceOnAnother) {
  expect_caught(
      sequence_isolation,
      [](const Moment& moment, Trace& trace) {
        if (moment.depth == 1) trace.rounds[0].logits[0].low ^= 1;
      },
      "a sequence between the rounds of another, round 0, position 6");
  expect_caught(
      sequence_isolation,
      [](const Moment& moment, Trace& trace) {
        if (moment.call >= runs_of_the_trial && moment.request.sequence == 0) trace.rounds[1].targets[0].low ^= 1;
      },
      "a sequence with another between its rounds, round ");
}

TEST(LogProbabilities, FindsADifferenceInTheLastBit) {
  expect_caught(
      log_probabilities,
      [](const Moment& moment, Trace& trace) {
        if (!moment.request.logprobs || moment.variation.draft != "none") return;
        double& logprob = trace.rounds[5].logprobs[0];
        logprob = std::nextafter(logprob, 0);
      },
      "position 11: expected: token ");
}

TEST(LogProbabilities, FindsATextThatDiffersOrEndsEarlyWithLogprobs) {
  expect_caught(
      log_probabilities,
      [](const Moment& moment, Trace& trace) {
        const bool asked = moment.request.logprobs && moment.variation.draft == "none";
        if (asked) trace.output[5] = trace.rounds[5].emitted[0] ^= 1;
      },
      "position 11: expected: plain decoding emits token ");
  expect_caught(
      log_probabilities,
      [](const Moment& moment, Trace& trace) {
        if (!moment.request.logprobs || moment.variation.draft != "none") return;
        trace.rounds.resize(5);
        trace.output.resize(5);
      },
      "output 5 is the end");
}

TEST(SameRun, AllowsOtherDraftTokensWhereTheTextDoesNotDependOnThem) {
  Meddling subject({});
  PhiloxSource random(3);
  const Trace trace = subject.run(asked(), with("perturbed", rejection), random);
  Trace other = trace;
  other.rounds[1].proposal.tokens.push_back(0);
  other.output.back() ^= 1;
  EXPECT_FALSE(difference(trace, 0, other, true, false));
  EXPECT_THAT(difference(trace, 0, other, true, true)->observed, HasSubstr("it emits another token"));
  other.rounds[0].emitted[0] ^= 1;
  EXPECT_THAT(difference(trace, 0, other, true, false)->observed, HasSubstr("it has another verdict"));
}

}  // namespace
}  // namespace draftproof::metamorphic_test
