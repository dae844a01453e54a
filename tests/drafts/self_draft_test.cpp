// SPDX-License-Identifier: MIT
#include "ref/drafts/self_draft.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <memory>
#include <stdexcept>

#include "ref/drafts/chain.h"
#include "ref/drafts/model_draft.h"
#include "ref/drafts/ngram_map_k.h"
#include "ref/models/hash.h"
#include "tests/drafts/support.h"

namespace draftproof::self_draft_test {
namespace {

/// Lets the model read the tokens into the cache.
void read(Model& model, Cache& cache, std::span<const Token> tokens) {
  const int rows = static_cast<int>(tokens.size());
  Transaction reading = cache.begin(rows);
  Outputs outputs;
  forward_alone(model, {.cache = &cache, .tokens = tokens, .logits_from = rows}, outputs);
  reading.commit(rows);
}

TEST(SelfDraft, ProposesWhatADraftWithACacheOfItsOwnDoesAndLeavesTheTargetsCacheAsItWas) {
  const auto model = make_hash_model({.vocabulary = 7});
  const std::vector<Token> text = some_text(40);
  const auto cache = model->new_cache(60, 8);
  SelfDraft draft(*model, 4);
  draft.use_target_cache(*cache);
  PhiloxSource random(3);
  for (std::size_t length = 1; length < text.size(); ++length) {
    read(*model, *cache, std::span(text).subspan(length - 1, 1));
    const auto committed = std::span(text).first(length + 1);
    ModelDraft own(*model, 60, 4);
    own.observe(committed.first(length), {});
    const Fingerprint before = cache->digest();
    for (int limit = 1; limit <= 4; ++limit) {
      const Proposal expected = propose(own, committed, limit, {.temperature = 1}, random);
      const Proposal proposal = propose(draft, committed, limit, {.temperature = 1}, random);
      ASSERT_EQ(proposal.tokens, expected.tokens);
      ASSERT_EQ(proposal.drawn_from, expected.drawn_from);
      ASSERT_EQ(cache->digest(), before);
    }
    const int held = static_cast<int>(length);
    ASSERT_EQ(draft.positions().at(0), (DraftPositions{.held = held, .unread = 0, .anchor = held}));
  }
}

TEST(SelfDraft, ThatFailsLeavesTheTargetsCacheAsItWas) {
  TableModel model(3, [](std::span<const Token> text) {
    return std::vector<float>{static_cast<float>(text.size() % 3), 1, 1};
  });
  const std::vector<Token> text = {0, 1, 2, 0, 1};
  const auto cache = model.new_cache(30, 8);
  read(model, *cache, std::span(text).first(4));
  const Fingerprint before = cache->digest();
  SelfDraft draft(model, 5);
  draft.use_target_cache(*cache);
  PhiloxSource random(1);
  for (int fail_at = 0; fail_at < 5; ++fail_at) {
    int calls = 0;
    model.written = [&](int) {
      if (calls++ == fail_at) throw std::runtime_error("a pass fails");
    };
    EXPECT_THROW(propose(draft, text, 5, {}, random), std::runtime_error);
    EXPECT_EQ(cache->digest(), before) << fail_at;
  }
  model.written = {};
  EXPECT_EQ(propose(draft, text, 5, {}, random).size(), 5);
}

TEST(SelfDraft, InAChainKeepsNothingToReadLater) {
  const auto model = make_hash_model({.vocabulary = 7});
  const std::vector<Token> text = some_text(20);
  const auto cache = model->new_cache(60, 32);
  std::vector<std::unique_ptr<Draft>> stages;
  stages.push_back(std::make_unique<NgramMapKDraft>(3, NgramMapKSettings{.n = 6, .m = 3, .min_hits = 1}));
  stages.push_back(std::make_unique<SelfDraft>(*model, 4));
  ChainDraft chain(std::move(stages));
  EXPECT_TRUE(chain.needs_no_snapshot());
  EXPECT_EQ(chain.context(), nullptr);
  chain.use_target_cache(*cache);
  read(*model, *cache, std::span(text).first(19));
  chain.observe(std::span(text).first(19), {});
  PhiloxSource random(3);
  EXPECT_EQ(propose(chain, text, 4, {}, random).size(), 4);
  for (const DraftPositions& of_stage : chain.positions()) {
    EXPECT_EQ(of_stage.held, 19);
    EXPECT_EQ(of_stage.unread, 0);
  }
}

}  // namespace
}  // namespace draftproof::self_draft_test
