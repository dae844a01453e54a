// SPDX-License-Identifier: MIT
// Trials at each level of effort: how many plain rows they read, and that faults are still found.
#include "oracle/checks/effort.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <utility>

#include "oracle/checks/checks.h"
#include "ref/base/error.h"
#include "ref/decoding/decoder.h"
#include "ref/drafts/control_drafts.h"
#include "ref/drafts/none.h"
#include "ref/models/hash.h"
#include "tools/engine_subject.h"

namespace draftproof::effort_test {
namespace {

using testing::HasSubstr;

constexpr int never = 1 << 20;

/// A hash model that counts the tokens it reads, and whose rows are wrong where `cached` tokens or more came from the
/// cache.
class Watched final : public OneByOneModel {
 public:
  explicit Watched(int cached = never) : cached_(cached) {}
  int vocabulary() const override { return sound_->vocabulary(); }
  int context() const override { return sound_->context(); }
  std::unique_ptr<Cache> new_cache(int capacity, int max_pending_rows) const override {
    return sound_->new_cache(capacity, max_pending_rows);
  }
  long tokens = 0;

 private:
  void forward_one(const Segment& segment, Outputs& outputs) override {
    tokens += segment.rows();
    const bool wrong = segment.cache->length() >= cached_;
    forward_alone(*sound_, segment, outputs);
    for (float& logit : outputs.logits) logit += wrong ? static_cast<float>(&logit - outputs.logits.data()) : 0.0F;
  }

  std::unique_ptr<Model> sound_ = make_hash_model({.vocabulary = 5, .levels = 3, .seed = 7});
  int cached_;
};

/// The production loop over that model.
class WatchedSubject final : public Subject {
 public:
  explicit WatchedSubject(int cached = never) : model(cached) {}
  Trace run_with_callback(const Request& request, const Variation& variation, RandomSource& random,
                          const OnRound& on_round) override {
    const int capacity = static_cast<int>(request.prompt.size()) + request.max_new_tokens;
    std::unique_ptr<Draft> draft = std::make_unique<NoDraft>();
    if (variation.draft == "always-reject") {
      draft = std::make_unique<AlwaysRejectDraft>(model, capacity, variation.draft_max);
    }
    Decoder decoder(model, *draft, *variation.rule, random, request, variation, Recording::digests);
    decoder.run({[&](const Trace& trace) { return !on_round || on_round(trace) ? Next::go_on : Next::cancel; }});
    return decoder.trace();
  }
  Model& target(const Variation&) override { return model; }
  std::string numerics(const Variation&) override { return "hash"; }

  Watched model;
};

Request asked(int max_new_tokens) {
  Request request;
  request.prompt = {1, 2, 3};
  request.sampling.temperature = 1;
  request.max_new_tokens = max_new_tokens;
  return request;
}

std::vector<Variation> variations() {
  Variation none;
  Variation hostile;
  hostile.draft = "always-reject";
  hostile.draft_max = 2;
  return {hostile, none};
}

TEST(Effort, EveryLevelIncludesTheLevelBefore) {
  const Effort* before = nullptr;
  for (const Effort& effort : all_efforts()) {
    EXPECT_EQ(&effort_by_name(effort.name), &effort);
    const Effort* const previous = std::exchange(before, &effort);
    if (previous == nullptr) continue;
    for (const auto number : {&Effort::ways_elsewhere, &Effort::controls, &Effort::drafts_again, &Effort::prompt_pieces,
                              &Effort::cuts, &Effort::readings, &Effort::fresh_rows, &Effort::timed_repeats}) {
      EXPECT_GE(effort.*number, previous->*number) << effort.name;
    }
    EXPECT_GE(effort.tables, previous->tables);
    EXPECT_GE(effort.lengths, previous->lengths);
    EXPECT_GE(effort.all_serially, previous->all_serially);
  }
  EXPECT_EQ(all_efforts().size(), 3U);
  EXPECT_EQ(before, &full_effort()) << "the last of them";
  EXPECT_GE(full_effort().readings, static_cast<int>(std::size(other_readings)));
  EXPECT_GE(full_effort().prompt_pieces, static_cast<int>(std::size(prompt_piece_sizes)));
}

TEST(Effort, AnUnknownNameIsRefusedWithAListOfLevels) {
  try {
    effort_by_name("nonsense");
    ADD_FAILURE() << "the name was accepted";
  } catch (const Error& wrong) {
    EXPECT_STREQ(wrong.what(), "--effort: 'nonsense' is not known; there are quick, standard, full");
  }
}

TEST(PlainRows, AtMostTheRequestedRowsAreFreshAndTheLastIsOneOfThem) {
  for (const int max : {1, 8, 64, every_row}) {
    for (int length = 1; length <= 200; ++length) {
      const Request request = asked(length);
      const auto end = static_cast<std::size_t>(3 + length);
      int rows = 0;
      for (std::size_t tokens = 3; tokens < end; ++tokens) rows += is_fresh_row(request, tokens, max);
      EXPECT_LE(rows, max);
      EXPECT_GE(2 * rows, std::min(max, length)) << "or nearly as many";
      EXPECT_TRUE(is_fresh_row(request, end - 1, max)) << length;
    }
  }
}

TEST(PlainRows, CachedRowsEqualFreshRows) {
  Watched model;
  PhiloxSource random(3);
  const Request request = asked(300);
  const PlainRun recomputed = plain(model, request, random);
  for (const int max : {1, 7, 299}) {
    const PlainRun run = plain(model, request, random, max);
    EXPECT_EQ(run.output, recomputed.output);
    EXPECT_EQ(run.logprobs, recomputed.logprobs);
    std::vector<Token> text = request.prompt;
    text.insert(text.end(), run.output.begin(), run.output.end() - 1);
    const std::vector<PlainRow> along = plain_rows(model, request, text, 150, max);
    ASSERT_EQ(along.size(), text.size() - 149);
    for (std::size_t i = 0; i < run.rows.size(); ++i) EXPECT_EQ(run.rows[i].logits, recomputed.rows[i].logits);
    for (std::size_t i = 0; i < along.size(); ++i) EXPECT_EQ(along[i].logits, recomputed.rows[147 + i].logits);
  }
}

/// Returns the tokens the target reads for all comparisons with plain rows, in runs with different texts.
long tokens_read(int length, const Effort& effort) {
  WatchedSubject subject;
  std::vector<Variation> list = variations();
  for (Variation& variation : list) variation.rule = &rejection;
  Trial trial(subject, asked(length), 3, list, effort);
  const long before = subject.model.tokens;
  for (const Check* const check : {&tokens_equal, &logits_equal, &acceptance_correct, &rng_accounting}) {
    EXPECT_EQ(check->examine(trial).outcome, Outcome::pass);
  }
  return subject.model.tokens - before;
}

TEST(Trial, ReadsALinearNumberOfTokensForPlainRows) {
  const double once = static_cast<double>(tokens_read(64, effort_by_name("quick")));
  const double twice = static_cast<double>(tokens_read(128, effort_by_name("quick")));
  EXPECT_LT(twice, 2.2 * once);
  EXPECT_LT(once, 2 * 64 * (1 + 8));
  EXPECT_GT(tokens_read(128, full_effort()), 3.5 * static_cast<double>(tokens_read(64, full_effort())))
      << "recomputing every row is quadratic, and would be found";
}

TEST(Trial, ACacheFaultSharedByLoopAndPlainRowsIsFoundAtEveryEffort) {
  for (const Effort& effort : all_efforts()) {
    for (const int cached : {1, 20, 60, 98, never}) {  // of 102 tokens read
      WatchedSubject subject(cached);
      Trial trial(subject, asked(100), 3, variations(), effort);
      const Finding finding = logits_equal.examine(trial);
      EXPECT_EQ(finding.outcome, cached == never ? Outcome::pass : Outcome::fail) << effort.name << ", " << cached;
    }
  }
}

TEST(Trial, RepeatsTheRequestForAsManyDraftsAsTheEffortStates) {
  WatchedSubject subject;
  EXPECT_EQ(Trial(subject, asked(4), 3, variations(), effort_by_name("quick")).one_per_draft().size(), 1U);
  EXPECT_EQ(Trial(subject, asked(4), 3, variations()).one_per_draft().size(), 2U);
}

}  // namespace
}  // namespace draftproof::effort_test
