// SPDX-License-Identifier: MIT
// Uses the trained models of the repository; other tests compare the network with the authors' outputs.
#include "ref/drafts/dflash.h"
#include "ref/base/error.h"
#include "ref/drafts/drafts.h"
#include "ref/formats/hdf5.h"
#include "ref/models/models.h"
#include "tests/drafts/support.h"

#include <gtest/gtest.h>

#include <filesystem>
#include <limits>
#include <set>

namespace draftproof::dflash_test {
namespace {

class DFlash : public ::testing::Test {
 protected:
  static constexpr int length = 96;  // longer than the network's window of 64

  DFlash()
      : target_(load_model(Checkpoint(models() / "tale-target"), best_kernels())),
        network_(Checkpoint(models() / "tale-dflash"), *target_, best_kernels()) {
    set_threads(1);  // models are small; the bits do not depend on the threads
    for (int i = 0; i < length + 1; ++i) text_.push_back(3 + (i * 37) % 500);
    const auto cache = target_->new_cache(length, length);
    const Transaction transaction = cache->begin(length);
    Outputs outputs;
    forward_alone(*target_,
                  {.cache = cache.get(),
                   .tokens = std::span(text_).first(length),
                   .taps = network_.config().taps,
                   .logits_from = length},
                  outputs);
    features_ = outputs.features;
    width_ = features_.size() / length;
  }

  static std::filesystem::path models() { return std::filesystem::path(DRAFTPROOF_SOURCE_DIR) / "fixtures/models"; }

  /// Observes positions [from, from + rows).
  void observe(DFlashDraft& draft, int from, int rows) const {
    const auto first = static_cast<std::size_t>(from);
    const auto count = static_cast<std::size_t>(rows);
    draft.observe(std::span(text_).subspan(first, count), std::span(features_).subspan(first * width_, count * width_));
  }
  std::span<const Token> committed(int observed) const {
    return std::span(text_).first(static_cast<std::size_t>(observed) + 1);
  }

  std::unique_ptr<Model> target_;
  DFlashNetwork network_;
  std::vector<Token> text_;
  std::vector<float> features_;
  std::size_t width_ = 0;
};

TEST_F(DFlash, DependsOnTheObservedTextAndNothingElse) {
  PhiloxSource random(3);
  const Sampling sampling{.temperature = 1};
  DFlashDraft whole(network_, length + 8);
  observe(whole, 0, length);
  const Proposal expected = propose(whole, committed(length), 7, sampling, random);
  for (std::uint32_t number = 0; number < 6; ++number) {
    DFlashDraft draft(network_, length + 8);
    int done = 0;
    for (const int run : cuts(length, number == 0 ? 1 : 8 * static_cast<int>(number), number)) {
      const Fingerprint before = draft.digest();
      if (number != 1) propose(draft, committed(done), 1 + (done + run) % 7, sampling, random);
      ASSERT_EQ(draft.digest(), before) << "a proposal leaves a trace";
      observe(draft, done, run);
      done += run;
    }
    ASSERT_EQ(draft.digest(), whole.digest());
    const Proposal proposal = propose(draft, committed(length), 7, sampling, random);
    ASSERT_EQ(proposal.tokens, expected.tokens);
    ASSERT_EQ(proposal.drawn_from, expected.drawn_from);
  }
}

TEST_F(DFlash, TwoSequencesOfOneNetworkAreIndependent) {
  PhiloxSource random(3);
  DFlashDraft alone(network_, length + 8);
  observe(alone, 0, 20);
  DFlashDraft one(network_, length + 8), other(network_, length + 8);
  for (int i = 0; i < 20; ++i) {
    observe(one, i, 1);
    observe(other, 2 * i, 2);
    propose(other, committed(2 * i + 2), 7, {}, random);
  }
  EXPECT_EQ(one.digest(), alone.digest());
  EXPECT_NE(one.digest(), other.digest());
  EXPECT_EQ(propose(one, committed(20), 7, {}, random).tokens, propose(alone, committed(20), 7, {}, random).tokens);
}

TEST_F(DFlash, RecordsTheDistributionThatWasDrawnFrom) {
  PhiloxSource random(9);
  DFlashDraft draft(network_, length + 8);
  observe(draft, 0, 30);
  for (const Sampling& sampling :
       {Sampling{}, Sampling{.temperature = 1}, Sampling{.temperature = 0.7F, .top_k = 20, .presence_penalty = 2}}) {
    for (const Purpose noise : {Purpose::target, Purpose::draft}) {
      const Proposal proposal = propose(draft, committed(30), 7, sampling, random, noise, 4);
      expect_redrawn(proposal, 31, noise, 4, random);
    }
  }
}

TEST_F(DFlash, ProposesTheRequestedNumberOfDraftTokensAndAtMostABlockWithoutTheAnchor) {
  PhiloxSource random(9);
  DFlashDraft draft(network_, length + 8);
  EXPECT_EQ(draft.draft_max(), 7);
  EXPECT_EQ(std::vector<int>(draft.taps().begin(), draft.taps().end()), network_.config().taps);
  for (int limit = 1; limit <= 7; ++limit) {
    EXPECT_EQ(propose(draft, committed(0), limit, {}, random).size(), limit) << "an empty context will do";
  }
  EXPECT_DEATH(propose(draft, committed(0), 8, {}, random), "at most draft_max");
}

TEST_F(DFlash, ProposesUpToTheLastPositionOfItsCapacity) {
  PhiloxSource random(9);
  DFlashDraft draft(network_, 32);
  observe(draft, 0, 31);
  EXPECT_EQ(propose(draft, committed(31), 7, {}, random).size(), 7);
  observe(draft, 31, 1);
}

TEST_F(DFlash, FeaturesThatDoNotFitTheTokensAbort) {
  DFlashDraft draft(network_, length + 8);
  EXPECT_DEATH(draft.observe(std::span(text_).first(2), std::span(features_).first(width_)), "one row of taps");
}

TEST_F(DFlash, EndsBeforeTheFirstPositionThatIsNotSureEnough) {
  PhiloxSource random(9);
  DFlashDraft always(network_, length + 8);
  std::set<int> lengths;
  for (int observed = 0; observed < 40; ++observed) {
    const Sampling sampling{.temperature = 1};
    const Proposal all = propose(always, committed(observed), 7, sampling, random);
    for (const double min : {0.05, 0.3, 0.6, 0.9}) {
      DFlashDraft draft(network_, length + 8, {.min_probability = MinProbability(min)});
      if (observed > 0) observe(draft, 0, observed);
      const Proposal proposal = propose(draft, committed(observed), 7, sampling, random);
      int expected = 0;
      for (; expected < 7; ++expected) {  // at temperature 1 a row and what it is drawn from are one
        const std::vector<std::uint64_t> weights = all.drawn_from[static_cast<std::size_t>(expected)].weights();
        if (static_cast<double>(*std::ranges::max_element(weights)) < min * double(Distribution::total)) break;
      }
      ASSERT_EQ(proposal.size(), expected);
      ASSERT_TRUE(std::equal(proposal.tokens.begin(), proposal.tokens.end(), all.tokens.begin()));
      lengths.insert(expected);
    }
    observe(always, observed, 1);
  }
  EXPECT_EQ(*lengths.begin(), 0);
  EXPECT_GT(lengths.size(), 3U);
}

/// A DFlash2 draft and its stored questions.
class DFlash2 : public ::testing::TestWithParam<const char*> {
 protected:
  static std::filesystem::path external() { return std::filesystem::path(DRAFTPROOF_SOURCE_DIR) / "fixtures/external"; }
  std::filesystem::path folder() const { return external() / GetParam(); }
};

TEST_P(DFlash2, ChoosesThePathOfTheReferenceAndDrawsFromTheScoresOfItsCandidates) {
  set_threads(1);
  const Hdf5 answers = Hdf5::open(folder() / "answers.h5");
  const LoadOptions in_floats(best_kernels(), Quantization::f32, KvFormat::f32);
  const auto target = load_model(Checkpoint(external() / answers.read_string_attribute("/", "target")), in_floats);
  DFlashNetwork network(Checkpoint(folder()), *target, in_floats);
  const int kept = network.config().selector_candidates;
  for (const char* name : {"case0", "case1", "case2"}) {
    const std::string at = std::string(name) + "/";
    const auto read = [&](const char* field) -> std::vector<Token> {
      return answers.read<std::int32_t>(at + field).values;
    };
    const int observed = read("context_length").at(0);
    const std::vector<float> features = answers.read<float>(at + "features").values;
    const std::vector<Token> block = read("block_tokens");
    const std::vector<Token> path = read("path");
    const std::vector<Token> stored = read("candidates");
    std::vector<Token> committed(static_cast<std::size_t>(observed), 1);  // its tokens are not read
    committed.push_back(block[0]);
    DFlashDraft draft(network, 64);
    draft.observe(std::span(committed).first(static_cast<std::size_t>(observed)), features);
    PhiloxSource random(5);
    const int masks = static_cast<int>(path.size());
    EXPECT_EQ(propose(draft, committed, masks, {}, random).tokens, path);

    const Sampling sampling{.temperature = 1.5F, .top_k = 3};
    const Proposal drawn = propose(draft, committed, masks, sampling, random, Purpose::draft);
    expect_redrawn(drawn, observed + 1, Purpose::draft, 0, random);
    DFlashNetwork::Block computed = {draft.context(), block[0], masks};
    network.compute(std::span(&computed, 1));
    Token previous = block[0];
    for (int mask = 0; mask < masks; ++mask) {
      const auto first = static_cast<std::size_t>(mask * kept);
      const std::span<const Token> candidates = std::span(stored).subspan(first, static_cast<std::size_t>(kept));
      std::vector<float> scores(candidates.size());
      network.score(computed, mask, previous, candidates, scores);
      std::vector<float> row(static_cast<std::size_t>(target->vocabulary()), -std::numeric_limits<float>::infinity());
      for (std::size_t i = 0; i < scores.size(); ++i) row[static_cast<std::size_t>(candidates[i])] = scores[i];
      const Distribution q = compute_distribution(row, sampling, {});
      EXPECT_EQ(drawn.drawn_from[static_cast<std::size_t>(mask)], q);
      EXPECT_EQ(q.tokens().size(), 3U);
      previous = drawn.tokens[static_cast<std::size_t>(mask)];
    }
  }
}

TEST_P(DFlash2, ProposesNoTrees) {
  const std::string name = Hdf5::open(folder() / "answers.h5").read_string_attribute("/", "target");
  const auto target = load_model(Checkpoint(external() / name), best_kernels());
  const Checkpoint files(folder());
  const auto load = [&](const std::string& options) {
    const DraftStage stage = parse_draft_spec("dflash:" + folder().string() + options).stages[0];
    return stage.kind->load(stage, &files, *target, best_kernels());
  };
  EXPECT_NO_THROW(load("?window=9,min_prob=0.1"));
  try {
    load("?tree=3");
    ADD_FAILURE() << "its rows are no marginals";
  } catch (const Error& error) {
    EXPECT_NE(std::string(error.what()).find("candidate selector"), std::string::npos) << error.what();
  }
}

INSTANTIATE_TEST_SUITE_P(All, DFlash2, ::testing::Values("dflash2-published", "dflash2-three-taps"),
                         [](const auto& with) { return std::string(with.param).substr(8, 3); });

/// A DSpark draft and its stored questions.
class DSpark : public ::testing::TestWithParam<const char*> {
 protected:
  DSpark()
      : answers_(Hdf5::open(folder() / "answers.h5")),
        in_floats_(best_kernels(), Quantization::f32, KvFormat::f32),
        target_(load_model(Checkpoint(external() / answers_.read_string_attribute("/", "target")), in_floats_)),
        network_(Checkpoint(folder()), *target_, in_floats_) {
    set_threads(1);
  }
  static std::filesystem::path external() { return std::filesystem::path(DRAFTPROOF_SOURCE_DIR) / "fixtures/external"; }
  static std::filesystem::path folder() { return external() / GetParam(); }
  std::vector<Token> tokens(const std::string& field) const { return answers_.read<std::int32_t>(field).values; }

  /// A draft that has observed the context of a case, and the committed tokens.
  std::unique_ptr<DFlashDraft> observed(const std::string& at, std::vector<Token>& committed,
                                        const DFlashShape& shape = {}) {
    const int count = tokens(at + "context_length").at(0);
    committed.assign(static_cast<std::size_t>(count), 1);  // its tokens are not read
    committed.push_back(tokens(at + "block_tokens").at(0));
    auto draft = std::make_unique<DFlashDraft>(network_, 64, shape);
    draft->observe(std::span(committed).first(static_cast<std::size_t>(count)),
                   answers_.read<float>(at + "features").values);
    return draft;
  }

  Hdf5 answers_;
  LoadOptions in_floats_;
  std::unique_ptr<Model> target_;
  DFlashNetwork network_;
};

TEST_P(DSpark, ChoosesThePathOfTheAuthorsAndDrawsFromRowsBehindTheTokensThatItDrew) {
  PhiloxSource random(5);
  bool elsewhere = false;
  for (const char* at : {"case0/", "case1/", "case2/"}) {
    std::vector<Token> committed;
    const auto draft = observed(at, committed);
    const std::vector<Token> path = tokens(std::string(at) + "path");
    const int drafts = static_cast<int>(path.size());
    EXPECT_EQ(propose(*draft, committed, drafts, {}, random).tokens, path);

    const Sampling sampling{.temperature = 1.5F, .top_k = 9};
    const Proposal drawn = propose(*draft, committed, drafts, sampling, random, Purpose::draft);
    expect_redrawn(drawn, static_cast<int>(committed.size()), Purpose::draft, 0, random);
    elsewhere |= drawn.tokens != path;
    DFlashNetwork::Block block = {draft->context(), committed.back(), drafts};
    network_.compute(std::span(&block, 1));
    DFlashNetwork::Step step = {.block = &block, .draft = 0, .previous = committed.back()};
    for (const Token token : drawn.tokens) {
      network_.step(std::span(&step, 1));
      EXPECT_EQ(drawn.drawn_from[static_cast<std::size_t>(step.draft)],
                compute_distribution(step.logits, sampling, {}));
      step.previous = token;
      ++step.draft;
    }
  }
  EXPECT_TRUE(elsewhere);
}

TEST_P(DSpark, DraftsAsManyTokensAsItsBlockHasRowsOrOneLess) {
  const bool from_anchor = std::string(GetParam()) == "dspark-published";
  EXPECT_EQ(network_.config().from_anchor, from_anchor);
  std::vector<Token> committed;
  EXPECT_EQ(observed("case2/", committed)->draft_max(), network_.config().block_size - (from_anchor ? 0 : 1));
}

TEST_P(DSpark, EndsBeforeTheFirstDraftTokenThatItDoesNotTrust) {
  PhiloxSource random(9);
  std::set<int> lengths;
  for (const char* at : {"case0/", "case1/", "case2/"}) {
    const int drafts = static_cast<int>(tokens(std::string(at) + "path").size());
    std::vector<Token> committed;
    const auto always = observed(at, committed);
    for (int sequence = 0; sequence < 20; ++sequence) {
      const Sampling sampling{.temperature = 1};
      const Proposal all = propose(*always, committed, drafts, sampling, random, Purpose::draft, sequence);
      ASSERT_EQ(all.size(), drafts);
      DFlashNetwork::Block block = {always->context(), committed.back(), drafts};
      network_.compute(std::span(&block, 1));
      for (const double min : {0.1, 0.3, 0.5, 0.8}) {
        int expected = 0;
        for (Token previous = committed.back(); expected < drafts; ++expected) {
          DFlashNetwork::Step step = {.block = &block, .draft = expected, .previous = previous};
          network_.step(std::span(&step, 1));
          if (step.confidence < min) break;
          previous = all.tokens[static_cast<std::size_t>(expected)];
        }
        const auto draft = observed(at, committed, {.min_confidence = min});
        const Proposal proposal = propose(*draft, committed, drafts, sampling, random, Purpose::draft, sequence);
        ASSERT_EQ(proposal.size(), expected);
        ASSERT_TRUE(std::equal(proposal.tokens.begin(), proposal.tokens.end(), all.tokens.begin()));
        lengths.insert(expected);
        network_.compute(std::span(&block, 1));
      }
    }
  }
  EXPECT_EQ(*lengths.begin(), 0);
  EXPECT_GT(lengths.size(), 1U);
}

TEST_P(DSpark, DraftsOfSeveralTextsTogetherProposeWhatTheyWouldAlone) {
  DFlashDrafter drafter(std::make_unique<DFlashNetwork>(Checkpoint(folder()), *target_, in_floats_),
                        {.min_confidence = 0.3});
  const char* const cases[] = {"case0/", "case1/", "case2/"};
  std::vector<std::unique_ptr<Draft>> drafts;
  std::vector<ObserveJob> observe;
  std::vector<std::vector<Token>> committed(std::size(cases));
  std::vector<std::vector<float>> features;
  std::vector<Proposal> alone;
  const Sampling sampling{.temperature = 1};
  PhiloxSource random(4);
  for (std::size_t i = 0; i < std::size(cases); ++i) {
    const auto draft = observed(cases[i], committed[i], {.min_confidence = 0.3});
    alone.push_back(propose(*draft, committed[i], 3, sampling, random, Purpose::draft, static_cast<int>(i)));
    features.push_back(answers_.read<float>(std::string(cases[i]) + "features").values);
    drafts.push_back(drafter.open(64, 0));
  }
  for (std::size_t i = 0; i < std::size(cases); ++i) {
    observe.push_back({drafts[i].get(), std::span(committed[i]).first(committed[i].size() - 1), features[i]});
  }
  drafter.observe(observe);
  Sampler sampler;
  std::vector<ProposalBuilder> builders;
  builders.reserve(std::size(cases));
  std::vector<ProposeJob> jobs;
  for (std::size_t i = 0; i < std::size(cases); ++i) {
    builders.emplace_back(sampling, committed[i], static_cast<int>(i), static_cast<int>(committed[i].size()),
                          Purpose::draft, random, sampler);
    jobs.push_back({drafts[i].get(), committed[i].back(), 3, &builders.back()});
  }
  drafter.propose(jobs);
  for (std::size_t i = 0; i < std::size(cases); ++i) {
    EXPECT_EQ(jobs[i].error, nullptr);
    EXPECT_EQ(builders[i].proposal().tokens, alone[i].tokens);
    EXPECT_EQ(builders[i].proposal().drawn_from, alone[i].drawn_from);
  }
}

TEST_P(DSpark, ProposesNoTreesAndNeedsAConfidenceHeadForConfidences) {
  const auto refusal = [&](const std::string& path, const std::string& options) -> std::string {
    const Checkpoint files(path);
    const DraftStage stage = parse_draft_spec("dflash:" + path + options).stages[0];
    try {
      stage.kind->load(stage, &files, *target_, best_kernels());
    } catch (const Error& error) {
      return error.what();
    }
    return "";
  };
  EXPECT_EQ(refusal(folder(), "?window=9,min_prob=0.1,min_confidence=0.2,type=q4,head=64"), "");
  EXPECT_NE(refusal(folder(), "?tree=3").find("a Markov head, in which a token depends"), std::string::npos);
  if (target_->vocabulary() != 160) return;  // that of the other draft
  EXPECT_NE(refusal(external() / "dflash-full", "?min_confidence=0.2").find("no confidence head"), std::string::npos);
  EXPECT_EQ(refusal(external() / "dflash-full", ""), "");
}

INSTANTIATE_TEST_SUITE_P(All, DSpark, ::testing::Values("dspark-published", "dspark-behind-anchor"),
                         [](const auto& with) { return std::string(with.param).substr(7, 3); });

}  // namespace
}  // namespace draftproof::dflash_test
