// SPDX-License-Identifier: MIT
// Every kind of draft that reads the text only, in the decoding loop.
#include <gtest/gtest.h>

#include <map>

#include "oracle/exact/enumerate.h"
#include "ref/decoding/scheduler.h"
#include "ref/drafts/drafts.h"
#include "tests/decoding/support.h"
#include "tests/drafts/support.h"

namespace draftproof::text_drafts_test {
namespace {

constexpr int period = 5;

/// A model of texts that repeat themselves: it prefers the token `period` places before. In one place of `surprise`, it
/// prefers another one.
TableModel repeating_model(int vocabulary, std::size_t surprise) {
  return {vocabulary, [=](std::span<const Token> text) {
            std::vector<float> logits(static_cast<std::size_t>(vocabulary), 0.0F);
            const Token likely = text.size() < period ? 0 : text[text.size() - period];
            const Token next = text.size() % surprise == 0 ? (likely + 1) % vocabulary : likely;
            logits[static_cast<std::size_t>(next)] = 5;
            logits[static_cast<std::size_t>(likely)] += 3;
            return logits;
          }};
}

std::vector<Token> repetition(int length, int vocabulary, int first) {
  std::vector<Token> text;
  for (int i = 0; i < length; ++i) text.push_back((first + i % period) % vocabulary);
  return text;
}

/// Every kind as it is by default and, where it has one, in its legacy mode, with short n-grams.
std::vector<std::string> draft_names() {
  std::vector<std::string> names;
  for (const DraftKind* const kind : all_draft_kinds()) {
    if (kind->keeps != Keeps::tokens) continue;
    names.emplace_back(kind->name);
    std::string legacy;
    for (const DraftOption& option : kind->options) {
      if (option.name == std::string("legacy")) legacy = std::string(kind->name) + "?legacy=1" + legacy;
      if (option.name == std::string("n")) legacy += ",n=2";
      if (option.name == std::string("m")) legacy += ",m=4";
    }
    if (legacy.find('?') != std::string::npos) names.push_back(legacy);
  }
  EXPECT_GE(names.size(), 6U);
  return names;
}

std::unique_ptr<Drafter> drafter_of(const std::string& name, Model& target) {
  const DraftStage stage = parse_draft_spec(name).stages[0];
  return stage.kind->load(stage, nullptr, target, best_kernels());
}

Trace decoded(Model& target, Draft& draft, const Rule& rule, RandomSource& random, const Asked& asked) {
  Decoder decoder(target, draft, rule, random, asked, asked, Recording::digests);
  decoder.run();
  return std::move(decoder).trace();
}

TEST(TextDrafts, LeaveThePlainTextAndHaveDraftTokensAcceptedAndRejected) {
  TableModel target = repeating_model(7, 11);
  for (const std::string& name : draft_names()) {
    const auto drafter = drafter_of(name, target);
    for (const float temperature : {0.0F, 1.0F}) {
      int accepted = 0, rejected = 0;
      for (std::uint64_t seed = 1; seed <= 3; ++seed) {
        PhiloxSource random(seed);
        const Asked request = asked(repetition(23, 7, static_cast<int>(seed)), 60, 4, {.temperature = temperature});
        const auto draft = drafter->open(request.positions(), 4);
        const Trace trace = decoded(target, *draft, matching, random, request);
        EXPECT_EQ(trace.output, plain_output(target, request, seed)) << name;
        accepted += trace.statistics.accepted;
        rejected += trace.statistics.mismatches;
      }
      EXPECT_GT(accepted, 20) << name;
      EXPECT_GT(rejected, 0) << name;
    }
  }
}

TEST(TextDrafts, UnderRejectionHaveExactlyTheDistributionOfPlainDecoding) {
  constexpr int vocabulary = 3;
  TableModel target = repeating_model(vocabulary, 3);
  using Distribution = std::map<std::vector<Token>, Rational>;
  for (const int prompt : {22, 23}) {
    const Asked request = asked(repetition(prompt, vocabulary, 0), 5, 3, {.temperature = 1});
    Distribution plain;
    NoDraft none;
    EnumeratedSource random;
    do {
      random.begin_path();
      const Trace trace = decoded(target, none, matching, random, request);
      plain[trace.output] += random.probability();
    } while (random.next_path());
    EXPECT_EQ(plain.size(), 243U);
    for (const std::string& name : draft_names()) {
      const auto drafter = drafter_of(name, target);
      Distribution distribution;
      int accepted = 0, rejected = 0;
      EnumeratedSource paths;
      do {
        paths.begin_path();
        const auto draft = drafter->open(request.positions(), 3);
        const Trace trace = decoded(target, *draft, rejection, paths, request);
        distribution[trace.output] += paths.probability();
        accepted += trace.statistics.accepted;
        rejected += trace.statistics.mismatches;
      } while (paths.next_path());
      EXPECT_TRUE(distribution == plain) << name;
      EXPECT_GT(accepted, 10) << name;
      EXPECT_GT(rejected, 10) << name;
    }
  }
}

/// Sequences with drafts of one drafter.
struct Player {
  Player(Model& target, Drafter& drafter, const Rule& rule, const Asked& asked)
      : random(3), draft(drafter.open(asked.positions(), 4)) {
    const Collaborators with = {
        .target = target, .draft = *draft, .rule = rule, .random = random, .drafter = &drafter, .draft_name = "draft"};
    sequence = std::make_unique<Sequence>(with, asked, asked, Recording::digests);
  }
  PhiloxSource random;
  std::unique_ptr<Draft> draft;
  std::unique_ptr<Sequence> sequence;
};

TEST(TextDrafts, OfManySequencesAreAsTheyAreAloneAlsoAfterAPreemption) {
  TableModel target = repeating_model(7, 11);
  for (const std::string& name : draft_names()) {
    const auto drafter = drafter_of(name, target);
    for (const Rule* const rule : {&matching, &rejection}) {
      std::vector<Trace> alone;
      std::vector<std::unique_ptr<Player>> players;
      Scheduler scheduler(target);
      int accepted = 0;
      for (int i = 0; i < 4; ++i) {
        Asked request = asked(repetition(19 + 3 * i, 7, i), 40, 4, {.temperature = i % 2 == 0 ? 0.0F : 1.0F});
        request.sequence = i;
        PhiloxSource random(3);
        const auto draft = drafter->open(request.positions(), 4);
        alone.push_back(decoded(target, *draft, *rule, random, request));
        accepted += alone.back().statistics.accepted;
        players.push_back(std::make_unique<Player>(target, *drafter, *rule, request));
        scheduler.add(*players.back()->sequence);
      }
      for (int step = 0; scheduler.step(); ++step) {
        if (step == 6) scheduler.preempt(*players[1]->sequence);
        if (step == 9) scheduler.preempt(*players[2]->sequence);
      }
      EXPECT_EQ(scheduler.counts().preemptions, 2);
      EXPECT_GT(accepted, 10) << name;
      for (std::size_t i = 0; i < players.size(); ++i) {
        EXPECT_EQ(difference(players[i]->sequence->trace(), alone[i]), "") << name << " of sequence " << i;
      }
    }
  }
}

}  // namespace
}  // namespace draftproof::text_drafts_test
