// SPDX-License-Identifier: MIT
// The fake head keeps what its rows read as integers, so a token that is paired with a wrong feature is seen as one.
#include "ref/drafts/head_draft.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <map>
#include <numeric>
#include <optional>
#include <set>
#include <stdexcept>

#include "ref/caches/history_cache.h"
#include "tests/drafts/support.h"

namespace draftproof::head_draft_test {
namespace {

using testing::ElementsAre;
using testing::ElementsAreArray;

constexpr int vocabulary = 7;
constexpr int taps_per_row = 2;
constexpr Token zeros = 0;         // the feature of no position
constexpr Token of_target = 1000;  // + position: a feature that the target gave
constexpr Token of_head = 100000;  // + number: one that the head returned

/// Layers 0 and 1 of its cache hold the token and the feature that each row read. The feature that a row returns stands
/// for all that the row has seen.
class FakeHead final : public Head {
 public:
  std::function<void()> written;      // called when a pass has written its rows; may throw
  std::string error;                  // of rows whose logits are wanted
  std::vector<int> batches;           // the texts of each pass
  std::vector<const Cache*> targets;  // of the texts of the last pass
  std::optional<Mask> masks;          // of a head that drafts in parallel

  const Mask* mask() const override { return masks ? &*masks : nullptr; }
  int context() const override { return 4096; }
  int width() const override { return 1; }
  std::span<const int> taps() const override { return taps_; }
  std::vector<std::unique_ptr<LayerCache>> new_layers(int, int) const override {
    std::vector<std::unique_ptr<LayerCache>> layers;
    for (int i = 0; i < 2; ++i) layers.push_back(std::make_unique<HistoryCache>());
    return layers;
  }
  void fuse(std::span<const float> tapped, int rows, float* features) override {
    ASSERT_EQ(tapped.size(), static_cast<std::size_t>(rows) * taps_per_row);
    for (int row = 0; row < rows; ++row) features[row] = tapped[row * taps_per_row] + tapped[row * taps_per_row + 1];
  }
  void forward(std::span<Rows> batch) override {
    batches.push_back(static_cast<int>(batch.size()));
    targets.clear();
    for (const Rows& rows : batch) targets.push_back(rows.target);
    logits_.clear();
    next_.clear();
    logits_.reserve(batch.size() * 64 * vocabulary);
    next_.reserve(batch.size() * 64);
    for (Rows& rows : batch) {
      auto& tokens = rows.cache->layer<HistoryCache>(0);
      auto& features = rows.cache->layer<HistoryCache>(1);
      std::size_t wanted = 0;
      for (int row = 0; row < rows.rows(); ++row) {
        const bool tree = !rows.depths.empty();
        const int position = tree ? rows.cache->length() + rows.depths[row] : rows.cache->end() + row;
        if (tree) tokens.branch(position);
        if (tree) features.branch(position);
        tokens.write(position, rows.tokens[row]);
        features.write(position, static_cast<Token>(rows.features[row]));
        if (wanted == rows.wanted.size() || rows.wanted[wanted] != row) continue;
        ++wanted;
        const int seen = number_of({tokens.tokens(position + 1), features.tokens(position + 1)});
        for (int token = 0; token < vocabulary; ++token) {
          logits_.push_back(static_cast<float>(seen * (token + 3) * 7 % 11) / 3);
        }
        next_.push_back(static_cast<float>(of_head + seen));
      }
      if (written) written();
      rows.logits = std::span(logits_).last(wanted * vocabulary);
      rows.next_features = std::span(next_).last(wanted);
      rows.error = wanted > 0 ? error : "";
      rows.cache->wrote(rows.rows());
    }
  }

 private:
  using Seen = std::pair<std::span<const Token>, std::span<const Token>>;
  /// A number for what a row has seen: all tokens and features before it but row 0, and its own.
  int number_of(const Seen& seen) {
    std::vector<Token> key(seen.first.begin() + 1, seen.first.end());
    key.insert(key.end(), seen.second.begin() + 1, seen.second.end());
    if (seen.first.size() == 1) key = {seen.first[0], -1};
    return numbers_.emplace(key, static_cast<int>(numbers_.size())).first->second;
  }

  std::vector<int> taps_ = {1, 4};
  std::map<std::vector<Token>, int> numbers_;
  std::vector<float> logits_, next_;
};

/// The target's taps at positions [from, from + rows), which the head makes into of_target + position.
std::vector<float> tapped(int from, int rows) {
  std::vector<float> features;
  for (int position = from; position < from + rows; ++position) {
    features.push_back(static_cast<float>(of_target));
    features.push_back(static_cast<float>(position));
  }
  return features;
}

void observe(HeadDraft& draft, std::span<const Token> text, int from, int rows) {
  draft.observe(text.subspan(static_cast<std::size_t>(from), static_cast<std::size_t>(rows)), tapped(from, rows));
}

std::vector<Token> rows_of(HeadDraft& draft, int layer) {
  const auto tokens = draft.context()->layer<HistoryCache>(layer).tokens(draft.context()->length());
  return {tokens.begin(), tokens.end()};
}

TEST(HeadDraft, ARowPairsItsTokenWithTheFeatureBeforeIt) {
  const std::vector<Token> text = some_text(40);
  for (std::uint32_t number = 0; number < 50; ++number) {
    FakeHead head;
    HeadDraft draft(head, 80, 4);
    int done = 0;
    for (const int run : cuts(40, 1 + static_cast<int>(number % 20), number)) {
      observe(draft, text, done, run);
      done += run;
    }
    ASSERT_EQ(rows_of(draft, 0), text);
    std::vector<Token> features = {zeros};
    for (int position = 1; position < 40; ++position) features.push_back(of_target + position - 1);
    ASSERT_EQ(rows_of(draft, 1), features);
  }
}

constexpr Token mask_token = 5;
constexpr Token of_mask = 77;  // its feature

/// What the rows of a pass read.
struct Pass {
  std::vector<Token> tokens, features;
};

TEST(HeadDraft, BehindTheAnchorMasksAreReadInOnePass) {
  for (int observed = 0; observed < 4; ++observed) {
    const std::vector<Token> text = some_text(observed + 1);
    FakeHead head;
    head.masks = {mask_token, {of_mask}, 0};
    HeadDraft draft(head, 80, 4);
    if (observed > 0) observe(draft, text, 0, observed);
    head.batches.clear();
    Pass pass;
    head.written = [&] {
      const auto of = [&](int layer) {
        const auto rows = draft.context()->layer<HistoryCache>(layer).tokens(observed + 4);
        return std::vector<Token>(rows.end() - 4, rows.end());
      };
      pass = {of(0), of(1)};
    };
    PhiloxSource random(1);
    const Fingerprint before = draft.digest();
    const Proposal proposal = propose(draft, text, 4, {.temperature = 1}, random);
    EXPECT_EQ(proposal.size(), 4);
    expect_redrawn(proposal, observed + 1, Purpose::target, 0, random);
    EXPECT_THAT(head.batches, ElementsAre(1));
    EXPECT_THAT(pass.tokens, ElementsAre(text.back(), mask_token, mask_token, mask_token));
    EXPECT_THAT(pass.features, ElementsAre(observed > 0 ? of_target + observed - 1 : zeros, of_mask, of_mask, of_mask));
    EXPECT_EQ(draft.digest(), before) << "no mask is kept";
    EXPECT_EQ(draft.work(), ProposalWork::one_pass);
  }
}

TEST(HeadDraft, InParallelAsManyRowsAsAreAskedForAndTheSameOnes) {
  FakeHead head;
  head.masks = {mask_token, {of_mask}, 0};
  HeadDraft draft(head, 80, 6);
  const std::vector<Token> text = some_text(9);
  observe(draft, text, 0, 8);
  PhiloxSource random(1);
  const Proposal all = propose(draft, text, 6, {.temperature = 1}, random);
  for (int limit = 1; limit <= 6; ++limit) {
    const Proposal some = propose(draft, text, limit, {.temperature = 1}, random);
    ASSERT_EQ(some.size(), limit);
    EXPECT_TRUE(std::equal(some.tokens.begin(), some.tokens.end(), all.tokens.begin()));
  }
}

TEST(HeadDraft, InParallelATreeIsAsDeepAsRoundsWereTrainedToBe) {
  auto owned = std::make_unique<FakeHead>();
  owned->masks = {mask_token, {of_mask}, 3};
  FakeHead& head = *owned;
  HeadDrafter drafter(std::move(owned), 70);
  const auto draft = drafter.open(80, 0);
  EXPECT_EQ(draft->draft_max(), 70);
  const std::vector<Token> text = some_text(9);
  observe(static_cast<HeadDraft&>(*draft), text, 0, 8);
  head.batches.clear();
  PhiloxSource random(1);
  const Proposal tree = propose(*draft, text, 70, {.temperature = 1}, random);
  EXPECT_EQ(tree.size(), 70) << "more than there are paths of one token and of two";
  EXPECT_EQ(*std::ranges::max_element(tree.depths), 2);
  EXPECT_THAT(head.batches, ElementsAre(1));
  for (const Distribution& q : tree.drawn_from) EXPECT_TRUE(q.is_point());
  HeadDrafter chains(std::make_unique<FakeHead>(head));
  EXPECT_EQ(chains.open(80, 0)->draft_max(), 3);
  EXPECT_EQ(chains.open(80, 7)->draft_max(), 7);
}

TEST(HeadDraft, TheAnchorReadsTheLastObservedFeatureAndDraftTokensTheHeadsOwn) {
  for (int observed = 0; observed < 4; ++observed) {
    const std::vector<Token> text = some_text(observed + 1);
    FakeHead head;
    HeadDraft draft(head, 80, 4);
    if (observed > 0) observe(draft, text, 0, observed);
    std::vector<Token> tokens, features;
    head.written = [&] {  // the row that was written last
      tokens.push_back(draft.context()->layer<HistoryCache>(0).tokens(draft.context()->end() + 1).back());
      features.push_back(draft.context()->layer<HistoryCache>(1).tokens(draft.context()->end() + 1).back());
    };
    PhiloxSource random(1);
    const Proposal proposal = propose(draft, text, 4, {}, random);
    ASSERT_THAT(tokens, ElementsAre(text.back(), proposal.tokens[0], proposal.tokens[1], proposal.tokens[2]));
    ASSERT_THAT(features,
                ElementsAre(observed == 0 ? zeros : of_target + observed - 1, of_head, of_head + 1, of_head + 2));
  }
}

TEST(HeadDraft, EndsBeforeTheFirstTokenThatIsNotSureEnough) {
  const std::vector<Token> text = some_text(40);
  const Sampling sampling{.temperature = 1};  // so that a row and what it is drawn from are one
  PhiloxSource random(3);
  std::set<int> lengths;
  FakeHead head;
  for (int observed = 1; observed < 39; ++observed) {
    HeadDraft always(head, 80, 4);
    HeadDraft draft(head, 80, 4, HeadDraft::Shape::chain, MinProbability(0.4));
    observe(always, text, 0, observed);
    observe(draft, text, 0, observed);
    const auto committed = std::span(text).first(static_cast<std::size_t>(observed) + 1);
    const Proposal all = propose(always, committed, 4, sampling, random);
    const Proposal proposal = propose(draft, committed, 4, sampling, random);
    int expected = 0;
    for (; expected < 4; ++expected) {
      const std::vector<std::uint64_t> weights = all.drawn_from[static_cast<std::size_t>(expected)].weights();
      if (static_cast<double>(*std::ranges::max_element(weights)) < 0.4 * double(Distribution::total)) break;
    }
    ASSERT_EQ(proposal.size(), expected);
    ASSERT_TRUE(std::equal(proposal.tokens.begin(), proposal.tokens.end(), all.tokens.begin()));
    lengths.insert(expected);
  }
  EXPECT_TRUE(lengths.contains(0));
  EXPECT_GT(lengths.size(), 2U);
}

TEST(HeadDraft, DependsOnTheObservedTextAndNothingElse) {
  const std::vector<Token> text = some_text(60);
  const Sampling sampling{.temperature = 1};
  PhiloxSource random(3);
  FakeHead head;
  HeadDraft whole(head, 80, 4);
  observe(whole, text, 0, 59);
  const Proposal expected = propose(whole, text, 4, sampling, random);
  for (std::uint32_t number = 0; number < 200; ++number) {
    HeadDraft draft(head, 80, 4);
    int done = 0;
    for (const int run : cuts(59, 1 + static_cast<int>(number % 20), number)) {
      const Fingerprint before = draft.digest();
      const auto committed = std::span(text).first(static_cast<std::size_t>(done) + 1);
      propose(draft, committed, 1 + static_cast<int>(number % 4), sampling, random);
      ASSERT_EQ(draft.digest(), before) << "a proposal leaves a trace";
      observe(draft, text, done, run);
      done += run;
    }
    ASSERT_EQ(draft.digest(), whole.digest());
    const Proposal proposal = propose(draft, text, 4, sampling, random);
    ASSERT_EQ(proposal.tokens, expected.tokens);
    ASSERT_EQ(proposal.drawn_from, expected.drawn_from);
  }
}

TEST(HeadDraft, ATreeDependsOnTheObservedTextAndNothingElse) {
  const std::vector<Token> text = some_text(40);
  PhiloxSource random(3);
  FakeHead head;
  HeadDraft whole(head, 80, 12, HeadDraft::Shape::tree);
  observe(whole, text, 0, 39);
  const Proposal expected = propose(whole, text, 12, {.temperature = 1}, random);
  EXPECT_EQ(expected.size(), 12);
  EXPECT_FALSE(expected.is_chain());
  for (std::uint32_t number = 0; number < 50; ++number) {
    HeadDraft draft(head, 80, 12, HeadDraft::Shape::tree);
    int done = 0;
    for (const int run : cuts(39, 1 + static_cast<int>(number % 20), number)) {
      const Fingerprint before = draft.digest();
      const auto committed = std::span(text).first(static_cast<std::size_t>(done) + 1);
      const int limit = 1 + static_cast<int>(number % 12);
      ASSERT_EQ(propose(draft, committed, limit, {}, random).size(), limit);
      ASSERT_EQ(draft.digest(), before) << "a proposal leaves a trace";
      observe(draft, text, done, run);
      done += run;
    }
    ASSERT_EQ(draft.digest(), whole.digest());
    const Proposal proposal = propose(draft, text, 12, {.temperature = 1}, random);
    ASSERT_EQ(proposal.tokens, expected.tokens);
    ASSERT_EQ(proposal.depths, expected.depths);
  }
}

/// Every row of a branch reads what it would read if the branch were a chain: the tokens after a node are those that
/// the chain to it is likeliest to go on with.
TEST(HeadDraft, ATreeHoldsTheLikeliestContinuationsOfEachOfItsBranches) {
  const std::vector<Token> text = some_text(9);
  PhiloxSource random(3);
  FakeHead head;
  HeadDraft draft(head, 80, 12, HeadDraft::Shape::tree);
  observe(draft, text, 0, 8);
  const Proposal tree = propose(draft, text, 12, {}, random);
  for (int node = -1; node < tree.size(); ++node) {
    std::vector<float> feature = {static_cast<float>(of_target + 7)};
    std::vector<float> logits;
    std::vector<Token> tokens = {text.back()};
    for (const int above : tree.path_to(node)) tokens.push_back(tree.tokens[static_cast<std::size_t>(above)]);
    const Transaction rolled_back = draft.context()->begin(static_cast<int>(tokens.size()));
    for (const Token token : tokens) {
      constexpr int wanted[] = {0};
      Head::Rows one = {
          .cache = draft.context(), .tokens = std::span(&token, 1), .features = feature, .wanted = wanted};
      head.forward(std::span(&one, 1));
      feature.assign(one.next_features.begin(), one.next_features.end());
      logits.assign(one.logits.begin(), one.logits.end());
    }
    std::vector<Token> likeliest(vocabulary);
    std::iota(likeliest.begin(), likeliest.end(), 0);
    std::ranges::stable_sort(likeliest, [&](Token a, Token b) { return logits[a] > logits[b]; });
    std::size_t place = 0;
    for (int child = tree.first_child(node); child != Proposal::no_node; child = tree.next_sibling(child)) {
      ASSERT_EQ(tree.tokens[static_cast<std::size_t>(child)], likeliest[place++]) << "below " << node;
    }
  }
}

TEST(HeadDraft, DistinguishesTextsAndFeatures) {
  FakeHead head;
  HeadDraft a(head, 10, 2), b(head, 10, 2), c(head, 10, 2), empty(head, 10, 2);
  a.observe(std::vector<Token>{1, 2, 3}, tapped(0, 3));
  b.observe(std::vector<Token>{1, 3, 2}, tapped(0, 3));
  std::vector<float> other = tapped(0, 3);
  other.back() += 1;  // read by the row of the next anchor
  c.observe(std::vector<Token>{1, 2, 3}, other);
  EXPECT_NE(a.digest(), b.digest());
  EXPECT_NE(a.digest(), c.digest());
  EXPECT_NE(a.digest(), empty.digest());
  a.forget();
  EXPECT_EQ(a.digest(), empty.digest());
}

TEST(HeadDraft, RestoredFromAnyPrefixItIsAsIfItHadReadTheText) {
  const std::vector<Token> text = some_text(30);
  const Sampling sampling{.temperature = 1};
  PhiloxSource random(3);
  FakeHead head;
  HeadDraft longer(head, 40, 4);
  observe(longer, text, 0, 30);
  const Snapshot snapshot = longer.context()->snapshot(0);
  for (int length = 1; length < 30; ++length) {
    HeadDraft draft(head, 40, 4), fresh(head, 40, 4);
    observe(fresh, text, 0, length);
    ASSERT_TRUE(draft.context()->restore(snapshot, length));
    ASSERT_EQ(draft.digest(), fresh.digest());
    const auto committed = std::span(text).first(static_cast<std::size_t>(length) + 1);
    ASSERT_EQ(propose(draft, committed, 4, sampling, random).drawn_from,
              propose(fresh, committed, 4, sampling, random).drawn_from);
    observe(draft, text, length, 30 - length);
    ASSERT_EQ(draft.digest(), longer.digest());
  }
}

TEST(HeadDraft, AShiftedContextStillGivesTheNextRowTheLastFeature) {
  const std::vector<Token> text = some_text(12);
  FakeHead head;
  HeadDraft draft(head, 40, 4);
  observe(draft, text, 0, 10);
  ASSERT_EQ(draft.context()->discard_error(10, 2, 5), "");
  draft.context()->discard(2, 5);
  observe(draft, text, 10, 2);
  EXPECT_THAT(rows_of(draft, 0), ElementsAre(text[0], text[1], text[7], text[8], text[9], text[10], text[11]));
  EXPECT_THAT(rows_of(draft, 1), ElementsAre(zeros, of_target, of_target + 6, of_target + 7, of_target + 8,
                                             of_target + 9, of_target + 10));
}

TEST(HeadDraft, RecordsTheDistributionThatWasDrawnFrom) {
  const std::vector<Token> text = some_text(9);
  PhiloxSource random(8);
  FakeHead head;
  for (const Sampling& sampling : {Sampling{}, Sampling{.temperature = 1}, Sampling{.temperature = 2, .top_k = 3}}) {
    for (const Purpose noise : {Purpose::target, Purpose::draft}) {
      HeadDraft draft(head, 30, 6);
      observe(draft, text, 0, 8);
      expect_redrawn(propose(draft, text, 6, sampling, random, noise, 2), 9, noise, 2, random);
    }
  }
}

TEST(HeadDraft, ProposesTheRequestedNumberOfDraftTokens) {
  const std::vector<Token> text = some_text(5);
  PhiloxSource random(1);
  FakeHead head;
  HeadDraft draft(head, 10, 6);
  EXPECT_EQ(draft.draft_max(), 6);
  EXPECT_THAT(draft.taps(), ElementsAre(1, 4));
  observe(draft, text, 0, 4);
  for (int limit = 1; limit <= 6; ++limit) EXPECT_EQ(propose(draft, text, limit, {}, random).size(), limit);
  HeadDraft of_trees(head, 10, 6, HeadDraft::Shape::tree);
  for (int limit = 1; limit <= 6; ++limit) EXPECT_EQ(propose(of_trees, text, limit, {}, random).size(), limit);
  EXPECT_DEATH(propose(draft, text, 7, {}, random), "at most draft_max\\(\\) draft tokens");
  EXPECT_DEATH(propose(draft, text, 0, {}, random), "at most draft_max\\(\\) draft tokens");
}

TEST(HeadDraft, AFailedPassIsRolledBack) {
  const std::vector<Token> text = some_text(6);
  PhiloxSource random(1);
  FakeHead head;
  int calls = 0, fail_at = 0;
  head.written = [&] {
    if (calls++ == fail_at) throw std::runtime_error("a pass fails");
  };
  HeadDraft draft(head, 30, 4);
  HeadDraft of_trees(head, 30, 4, HeadDraft::Shape::tree);
  const Fingerprint empty = draft.digest();
  EXPECT_THROW(observe(draft, text, 0, 5), std::runtime_error);
  EXPECT_EQ(draft.digest(), empty) << "a run is observed whole or not at all";
  observe(draft, text, 0, 5);
  const Fingerprint before = draft.digest();
  for (int k = 0; k < 4; ++k) {
    calls = 0;
    fail_at = k;
    EXPECT_THROW(propose(draft, text, 4, {}, random), std::runtime_error);
    EXPECT_EQ(draft.digest(), before) << "a proposal that failed half-way leaves a trace";
  }
  observe(of_trees, text, 0, 5);
  for (int k = 0; k < 2; ++k) {
    calls = 0;
    fail_at = k;
    EXPECT_THROW(propose(of_trees, text, 4, {}, random), std::runtime_error);
    EXPECT_EQ(of_trees.digest(), before);
  }
  head.error = "the head computes NaN logits";
  EXPECT_THROW(propose(draft, text, 4, {}, random), std::runtime_error);
  EXPECT_THROW(propose(of_trees, text, 4, {}, random), std::runtime_error);
  head.error = "";
  EXPECT_EQ(propose(draft, text, 4, {}, random).size(), 4);
  EXPECT_EQ(propose(of_trees, text, 4, {}, random).size(), 4);
}

/// Returns how many texts each pass of the proposals had.
std::vector<int> expect_as_alone(int tree) {
  auto own = std::make_unique<FakeHead>();
  FakeHead& head = *own;
  HeadDrafter drafter(std::move(own), tree);
  const Sampling sampling{.temperature = 1};
  PhiloxSource random(3);
  constexpr int count = 4;
  std::vector<std::unique_ptr<Draft>> together, alone;
  std::vector<std::vector<Token>> texts;
  std::vector<std::vector<float>> features;
  for (int i = 0; i < count; ++i) {
    together.push_back(drafter.open(40, 4));
    alone.push_back(drafter.open(40, 4));
    texts.push_back(some_text(4 + 3 * i));
    features.push_back(tapped(10 * i, 3 + 3 * i));
  }
  std::vector<ObserveJob> observed;
  for (int i = 0; i < count; ++i) {
    const auto committed = std::span<const Token>(texts[i]).first(texts[i].size() - 1);
    observed.push_back({together[i].get(), committed, features[i]});
    alone[i]->observe(committed, features[i]);
  }
  head.batches.clear();
  drafter.observe(observed);
  EXPECT_THAT(head.batches, ElementsAre(count));

  Sampler sampler;
  std::vector<ProposalBuilder> builders;
  for (int i = 0; i < count; ++i) {
    builders.emplace_back(sampling, texts[i], i, static_cast<int>(texts[i].size()), Purpose::draft, random, sampler);
  }
  std::vector<ProposeJob> jobs;
  for (int i = 0; i < count; ++i) jobs.push_back({together[i].get(), texts[i].back(), 1 + i, &builders[i]});
  head.batches.clear();
  drafter.propose(jobs);
  std::vector<int> batches = head.batches;
  for (int i = 0; i < count; ++i) {
    const Proposal expected = propose(*alone[i], texts[i], 1 + i, sampling, random, Purpose::draft, i);
    EXPECT_EQ(builders[i].proposal().tokens, expected.tokens);
    EXPECT_EQ(builders[i].proposal().depths, expected.depths);
    EXPECT_EQ(builders[i].proposal().drawn_from, expected.drawn_from);
    EXPECT_EQ(together[i]->digest(), alone[i]->digest());
  }
  return batches;
}

TEST(HeadDrafter, GivesTheHeadTheTargetsCacheOfEachText) {
  const auto new_cache = [] { return Cache({}, 8, 8); };
  Cache first = new_cache(), second = new_cache(), instead = new_cache();
  const std::vector<Token> text = some_text(4);
  PhiloxSource random(3);
  Sampler sampler;
  for (const int tree : {0, 8}) {
    auto own = std::make_unique<FakeHead>();
    FakeHead& head = *own;
    HeadDrafter drafter(std::move(own), tree);
    std::vector<std::unique_ptr<Draft>> drafts;
    for (Cache* const cache : {&first, &second}) {
      drafts.push_back(drafter.open(40, 4));
      drafts.back()->use_target_cache(*cache);
      drafts.back()->observe(std::span(text).first(3), tapped(0, 3));
    }
    const auto targets = [&] {
      std::vector<ProposalBuilder> builders;
      for (int i = 0; i < 2; ++i) builders.emplace_back(Sampling{}, text, i, 4, Purpose::draft, random, sampler);
      std::vector<ProposeJob> jobs;
      for (std::size_t i = 0; i < 2; ++i) jobs.push_back({drafts[i].get(), text.back(), 1, &builders[i]});
      drafter.propose(jobs);
      return head.targets;
    };
    EXPECT_THAT(targets(), ElementsAre(&first, &second));
    drafts[1]->forget();
    drafts[1]->use_target_cache(instead);
    drafts[1]->observe(std::span(text).first(3), tapped(0, 3));
    EXPECT_THAT(targets(), ElementsAre(&first, &instead));
  }
}

TEST(HeadDrafter, DraftsOfOnePassAreAsTheyAreAlone) {
  EXPECT_THAT(expect_as_alone(0), ElementsAre(4, 3, 2, 1));
  const std::vector<int> passes = expect_as_alone(8);
  EXPECT_EQ(passes.front(), 4);
  EXPECT_TRUE(std::ranges::is_sorted(passes, std::greater<>()));
}

}  // namespace
}  // namespace draftproof::head_draft_test
