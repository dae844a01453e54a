// SPDX-License-Identifier: MIT
// Constraints in the production loop. That texts and distributions are plain decoding's is proven by the zoo, whose
// controls are asked with constraints too; here is what only the trace shows.
#include <gtest/gtest.h>

#include "oracle/plain/plain.h"
#include "ref/decoding/scheduler.h"
#include "tests/decoding/support.h"
#include "zoo/constraint.h"

namespace draftproof::constraint_test {
namespace {

constexpr int vocabulary = 6;

/// After a first token everything is forced: the same token again and again, up to a length.
class Echo final : public Constraint {
 public:
  explicit Echo(int length) : length_(length) {}
  std::unique_ptr<ConstraintReader> reader() const override { return std::make_unique<Reader>(length_); }

 private:
  class Reader final : public ConstraintReader {
   public:
    explicit Reader(int length) : length_(length), set_(vocabulary) {}
    bool possible(std::span<const Token> output) override {
      const bool same = std::ranges::all_of(output, [&](Token token) { return token == output.front(); });
      return same && static_cast<int>(output.size()) <= length_;
    }
    bool complete(std::span<const Token> output) override {
      return possible(output) && static_cast<int>(output.size()) == length_;
    }
    const TokenSet& allowed(std::span<const Token> output) override {
      set_.clear();
      if (!possible(output) || complete(output)) return set_;
      for (Token token = 0; token < vocabulary; ++token) {
        if (output.empty() || token == output.front()) set_.add(token);
      }
      return set_;
    }

   private:
    int length_;
    TokenSet set_;
  };
  int length_;
};

TEST(Constraint, ForcedTokensAreDraftedAndAcceptedWithoutADraftThatKnowsThem) {
  const auto target = make_hash_model({.vocabulary = vocabulary, .levels = 3, .seed = 5});
  for (const Rule* const rule : {&matching, &rejection, &block}) {
    Asked request = asked({1, 2, 3}, 40, 4, {.temperature = 1});
    request.constraint = std::make_shared<Echo>(17);
    const Script empty = [](int, int) { return std::vector<Slot>(); };
    KnowingDraft draft(empty, {}, vocabulary, 0, 4);
    PhiloxSource random(3);
    Decoder decoder(*target, draft, *rule, random, request, request, Recording::digests);
    decoder.run();
    const Trace& trace = decoder.trace();
    EXPECT_EQ(trace.output, std::vector<Token>(17, trace.output.front()));
    EXPECT_EQ(trace.finish, Finish::stop);
    EXPECT_EQ(trace.rounds.size(), 1 + 4);  // one token, then rounds of four draft tokens and one of the target
    for (std::size_t i = 1; i < trace.rounds.size(); ++i) {
      EXPECT_EQ(trace.rounds[i].proposal.forced, trace.rounds[i].proposal.size());
      EXPECT_EQ(trace.rounds[i].accepted, trace.rounds[i].proposal.size());
    }
  }
}

TEST(Constraint, WhatADraftNamesAndIsNotAllowedIsNotVerified) {
  const auto target = make_hash_model({.vocabulary = vocabulary, .levels = 3, .seed = 6});
  int cut = 0;
  for (const NamedScript& script : all_scripts()) {
    Asked request = asked({1, 2, 3, 1}, 12, 5, {.temperature = 1});
    request.constraint = zoo::zoo_constraint(vocabulary, 9);
    PhiloxSource plain_random(4);
    const std::vector<Token> plain = draftproof::plain(*target, request, plain_random).output;
    std::vector<Token> truth = request.prompt;
    truth.insert(truth.end(), plain.begin(), plain.end());
    KnowingDraft draft(script.script, truth, vocabulary, 0, 5);
    PhiloxSource random(4);
    Decoder decoder(*target, draft, matching, random, request, request, Recording::digests);
    decoder.run();
    EXPECT_EQ(decoder.trace().output, plain) << script.name;
    std::vector<Token> output;
    for (const Round& round : decoder.trace().rounds) {
      std::vector<Token> path = output;
      for (const Token token : round.proposal.tokens) {
        path.push_back(token);
        EXPECT_TRUE(request.constraint->reader()->possible(path)) << script.name;
      }
      cut += round.proposal.cut;
      output.insert(output.end(), round.emitted.begin(), round.emitted.end());
    }
  }
  EXPECT_GT(cut, 20);
}

TEST(Constraint, ADraftThatForeseesAnOptionalEndChangesNothing) {
  const auto target = make_hash_model({.vocabulary = vocabulary, .levels = 3, .seed = 6});
  int ended = 0, foreseen = 0;
  for (const Rule* const rule : {&matching, &rejection, &block}) {
    for (const float temperature : {0.0F, 1.0F}) {
      for (std::uint64_t seed = 1; seed <= 12; ++seed) {
        Asked request = asked({1, 2, 3, 1}, 12, 5, {.temperature = temperature}, {0, 3});
        request.prompt.back() = static_cast<Token>(seed) % vocabulary;
        request.constraint = zoo::zoo_constraint(vocabulary, 9, request.stops);
        PhiloxSource plain_random(seed);
        const PlainRun plain = draftproof::plain(*target, request, plain_random);
        std::vector<Token> truth = request.prompt;
        truth.insert(truth.end(), plain.output.begin(), plain.output.end());
        for (const NamedScript& script : all_scripts()) {
          KnowingDraft draft(script.script, truth, vocabulary, 0, 5);
          PhiloxSource random(seed);
          Decoder decoder(*target, draft, *rule, random, request, request, Recording::digests);
          ASSERT_NO_THROW(decoder.run()) << script.name;
          const Trace& trace = decoder.trace();
          const Round& last = trace.rounds.back();
          foreseen += trace.finish == Finish::stop && last.accepted == std::ssize(last.emitted);
          if (rule != &matching && temperature > 0) continue;  // another text of the same distribution
          ASSERT_EQ(trace.output, plain.output) << script.name;
          ASSERT_EQ(trace.finish, plain.finish) << script.name;
        }
        ended += plain.finish == Finish::stop && request.stops_at(plain.output.back());
      }
    }
  }
  EXPECT_GT(ended, 10);
  EXPECT_GT(foreseen, 20);
}

TEST(Constraint, NothingIsDraftedBehindTheEndOfATextWhateverEndsIt) {
  class EndsBefore final : public StopCondition {
   public:
    explicit EndsBefore(std::size_t tokens) : tokens_(tokens) {}
    bool ends(std::span<const Token> output) override { return output.size() >= tokens_; }

   private:
    std::size_t tokens_;
  };
  const auto target = make_hash_model({.vocabulary = vocabulary, .levels = 3, .seed = 6});
  const Script accept_all = reject_at(100);
  const auto drafted_in_the_last_round = [&](Asked request, StopCondition* stop) {
    PhiloxSource plain_random(4);
    std::vector<Token> truth = request.prompt;
    const std::vector<Token> plain = draftproof::plain(*target, request, plain_random).output;
    truth.insert(truth.end(), plain.begin(), plain.end());
    truth.resize(64, 1);
    KnowingDraft draft(accept_all, truth, vocabulary, 0, 8);
    PhiloxSource random(4);
    Sequence sequence({*target, draft, matching, random, nullptr, stop}, request, request, Recording::digests);
    Scheduler scheduler(*target);
    scheduler.add(sequence);
    while (scheduler.step()) {
    }
    const Trace& trace = sequence.trace();
    EXPECT_EQ(sequence.error(), nullptr);
    EXPECT_LE(trace.rounds.back().proposal.size(), std::ssize(trace.rounds.back().emitted));
    return trace.rounds.back().proposal.size();
  };
  const Asked free = asked({1, 2, 3, 1}, 12, 8);
  Asked constrained = free;
  constrained.constraint = std::make_shared<Echo>(3);
  EXPECT_EQ(drafted_in_the_last_round(constrained, nullptr), 3);
  EndsBefore third(3);
  EXPECT_EQ(drafted_in_the_last_round(free, &third), 3);
  PhiloxSource plain_random(4);
  Asked stopped = free;
  stopped.stops = {draftproof::plain(*target, free, plain_random).output[2]};
  EXPECT_LE(drafted_in_the_last_round(stopped, nullptr), 3);
  Asked short_text = free;
  short_text.max_new_tokens = 3;
  EXPECT_EQ(drafted_in_the_last_round(short_text, nullptr), 2);
}

TEST(Constraint, ATextThatIsContinuedKeepsToTheConstraintOfItsWholeOutput) {
  const auto target = make_hash_model({.vocabulary = vocabulary, .levels = 3, .seed = 7});
  Asked request = asked({1, 2, 3, 1}, 12, 0, {.temperature = 1});
  request.constraint = zoo::zoo_constraint(vocabulary, 9);
  PhiloxSource random(4);
  const std::vector<Token> whole = draftproof::plain(*target, request, random).output;
  ASSERT_EQ(whole.size(), 9);
  for (int begun = 1; begun < 9; ++begun) {
    Asked rest = request;
    rest.prompt.insert(rest.prompt.end(), whole.begin(), whole.begin() + begun);
    rest.constrained_prompt = begun;
    NoDraft draft;
    PhiloxSource same_random(4);
    Decoder decoder(*target, draft, matching, same_random, rest, rest, Recording::counts);
    decoder.run();
    EXPECT_EQ(decoder.trace().output, std::vector<Token>(whole.begin() + begun, whole.end()));
  }
}

TEST(Constraint, AConstraintThatAllowsNothingIsAnErrorOfTheSequence) {
  class Nothing final : public Constraint, public ConstraintReader {
   public:
    std::unique_ptr<ConstraintReader> reader() const override { return std::make_unique<Nothing>(); }
    bool possible(std::span<const Token>) override { return true; }
    bool complete(std::span<const Token>) override { return false; }
    const TokenSet& allowed(std::span<const Token>) override { return set_; }

   private:
    TokenSet set_{vocabulary};
  };
  const auto target = make_hash_model({.vocabulary = vocabulary, .levels = 3, .seed = 7});
  Asked request = asked({1, 2, 3, 1}, 12, 0, {.temperature = 1});
  request.constraint = std::make_shared<Nothing>();
  NoDraft draft;
  PhiloxSource random(4);
  Decoder decoder(*target, draft, matching, random, request, request, Recording::counts);
  EXPECT_THROW(decoder.run(), Error);
}

}  // namespace
}  // namespace draftproof::constraint_test
