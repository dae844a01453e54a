// SPDX-License-Identifier: MIT
#include <gtest/gtest.h>

#include <algorithm>

#include "tests/acceptance/numbers.h"
#include "tests/acceptance/tiny_decoders.h"

namespace draftproof::rejection_test {
namespace {

/// One verified position: p and q at the empty text, then a point distribution, so that paths end there.
TinyDecoder one_draft_token(const Distribution& p, const Distribution& q, Judge judge, Drafting drafting = {}) {
  const Rows target = [p](const Text& text) { return text.empty() ? p : Distribution::point(0); };
  const Rows draft = [q](const Text&) { return q; };
  return {target, draft, std::move(judge), std::move(drafting), always(1)};
}

struct Space {
  int vocabulary;
  std::uint64_t sum;
};

std::vector<Space> all_spaces() {
  constexpr std::uint64_t largest_sum[] = {0, 8, 8, 8, 6, 4};
  std::vector<Space> spaces;
  for (int vocabulary = 1; vocabulary <= 5; ++vocabulary)
    for (std::uint64_t sum = 1; sum <= largest_sum[vocabulary]; ++sum) spaces.push_back({vocabulary, sum});
  return spaces;
}

TEST(Rejection, OneDraftTokenPreservesTheDistributionForEveryPairOfSmallDistributions) {
  long pairs = 0;
  long paths = 0;
  for (const Space& space : all_spaces()) {
    const std::vector<Distribution> all = all_distributions(space.vocabulary, space.sum);
    for (const Distribution& p : all) {
      for (const Distribution& q : all) {
        const TinyDecoder decoder = one_draft_token(p, q, rejection.judge);
        ASSERT_EQ(compute_distribution(decoder, 2, &paths), plain_distribution(decoder.target, 2))
            << "vocabulary " << space.vocabulary << ", sum " << space.sum << ", pair " << pairs;
        ++pairs;
      }
    }
  }
  EXPECT_EQ(pairs, 8 + 284 + 4916 + 11933 + 6375);
  EXPECT_EQ(paths, 87898);
}

TEST(Rejection, TwoDraftTokensPreserveTheJointDistributionForEveryTreeOfHalves) {
  // Two tokens, weights of sum 2: every choice of the three judged rows of p and the three rows of q.
  const std::vector<Distribution> all = all_distributions(2, 2);
  const auto node = [](const Text& text) { return text.empty() ? 0 : 1 + text[0]; };
  long trees = 0;
  for (int code = 0; code < 729; ++code) {
    std::vector<Distribution> rows;
    for (int i = 0, rest = code; i < 6; ++i, rest /= 3) rows.push_back(all[rest % 3]);
    const Rows target = [&](const Text& text) {
      return text.size() < 2 ? rows[node(text)] : all[(text[0] + 2u * text[1] + 1u) % 3];
    };
    const Rows draft = [&](const Text& text) { return rows[3 + static_cast<std::size_t>(node(text))]; };
    const TinyDecoder decoder{target, draft, rejection.judge, {}, always(2)};
    ASSERT_EQ(compute_distribution(decoder, 3), plain_distribution(target, 3)) << "tree " << code;
    ++trees;
  }
  EXPECT_EQ(trees, 729);
}

TEST(Rejection, ChainsOfAnyLengthPreserveTheJointDistributionThroughSeveralRounds) {
  // Rows of p and q depend on the whole text. Up to three draft tokens per round, over up to three rounds: a later
  // round may draft a position again with the same draft key, which must not change the distribution either.
  const std::vector<Distribution> thirds = all_distributions(3, 4);
  const std::vector<Distribution> halves = all_distributions(2, 3);
  for (std::uint64_t salt = 0; salt < 400; ++salt) {
    const bool wide = salt % 4 == 0;
    const auto& all = wide ? thirds : halves;
    const int length = wide ? 3 : 4;
    for (int draft_tokens = 0; draft_tokens <= 3; ++draft_tokens) {
      const TinyDecoder decoder{
          mixed_rows(all, salt), mixed_rows(all, salt + 1000), rejection.judge, {}, always(draft_tokens)};
      ASSERT_EQ(compute_distribution(decoder, length), plain_distribution(decoder.target, length))
          << "salt " << salt << ", " << draft_tokens;
    }
  }
}

TEST(Rejection, ADraftTokenThatTheTargetPrefersIsAcceptedWithoutADraw) {
  class Forbidden final : public RandomSource {
   public:
    std::size_t sample_index(const Key&, std::span<const std::uint64_t>) override {
      ADD_FAILURE() << "the random source was called";
      return 0;
    }
  };
  const Distribution p = scaled({3, 1}, 4);
  const Distribution q = scaled({3, 1}, 4);
  Proposal proposal;
  proposal.tokens = {0, 1};
  proposal.drawn_from = {q, q};
  const Rows rows = [&](const Text& text) { return text.size() < 2 ? p : Distribution::point(1); };
  TextRows target(rows, {}, proposal);
  Forbidden random;
  EXPECT_EQ(rejection.judge(proposal, target, 0, 0, random), (Verdict{2, 1}));
}

TEST(Rejection, ReadsRowsInOrderAndNoneAfterTheFirstRejection) {
  const Distribution p = Distribution::point(2);
  Proposal proposal;
  proposal.tokens = {2, 1, 2};
  proposal.drawn_from = {p, Distribution::point(1), p};
  const Rows rows = [&](const Text&) { return p; };
  for (const Rule* const* rule = all_rules(); *rule != nullptr; ++rule) {
    TextRows target(rows, {}, proposal);
    PhiloxSource random(1);
    EXPECT_EQ((*rule)->judge(proposal, target, 0, 7, random), (Verdict{1, 2})) << (*rule)->name;
    EXPECT_TRUE(target.in_order);
    EXPECT_EQ(target.last(), 1) << (*rule)->name;
  }
}

TEST(Rejection, EveryDrawHasTheKeyOfItsPositionAndPurpose) {
  class Script final : public RandomSource {
   public:
    std::vector<Key> asked;
    std::vector<std::size_t> answers;
    std::size_t sample_index(const Key& key, std::span<const std::uint64_t>) override {
      asked.push_back(key);
      return answers[asked.size() - 1];
    }
  };
  const Distribution p = scaled({1, 3}, 4);
  const Distribution q = scaled({3, 1}, 4);
  Proposal proposal;
  proposal.tokens = {0, 0};
  proposal.drawn_from = {q, q};
  const Rows rows = [&](const Text&) { return p; };
  TextRows target(rows, {}, proposal);
  const Key first = {4, 9, Purpose::accept};
  const Key second = {4, 10, Purpose::accept};

  Script rejecting;
  rejecting.answers = {0, 1, 0};
  EXPECT_EQ(rejection.judge(proposal, target, 4, 9, rejecting), (Verdict{1, 1}));
  EXPECT_EQ(rejecting.asked, (std::vector<Key>{first, second, {4, 10, Purpose::residual}}));

  Script accepted;
  accepted.answers = {0, 0, 1};
  EXPECT_EQ(rejection.judge(proposal, target, 4, 9, accepted), (Verdict{2, 1}));
  EXPECT_EQ(accepted.asked, (std::vector<Key>{first, second, {4, 11, Purpose::target}}));
}

TEST(RejectionDeathTest, ADraftTokenOfProbabilityZeroInItsOwnDistributionAborts) {
  Proposal proposal;
  proposal.tokens = {1};
  proposal.drawn_from = {Distribution::point(0)};
  const Rows rows = [](const Text&) { return Distribution::point(1); };
  TextRows target(rows, {}, proposal);
  PhiloxSource random(1);
  EXPECT_DEATH(rejection.judge(proposal, target, 0, 0, random), "can be drawn from");
  proposal.drawn_from.clear();
  EXPECT_DEATH(rejection.judge(proposal, target, 0, 0, random), "comes with its distribution");
}

// ---- Wrong rules. Each must change the distribution of some pair, or the enumeration above proves nothing. ----

struct List {
  std::vector<Token> tokens;
  std::vector<std::uint64_t> weights;
};
template <class Weights>
List list_of(const Weights& weights) {
  return {weights.tokens(), weights.weights()};
}

/// The rule with a switch for every known mistake.
struct Mistakes {
  std::function<bool(std::uint64_t p_x, std::uint64_t q_x, const Key& accept, RandomSource& random)> accepted =
      [](std::uint64_t p_x, std::uint64_t q_x, const Key& key, RandomSource& random) {
        if (p_x >= q_x) return true;
        const std::uint64_t weights[] = {p_x, q_x - p_x};
        return random.sample_index(key, weights) == 0;
      };
  std::function<List(const Distribution& p, const Distribution& q, Token draft_token)> rest =
      [](const Distribution& p, const Distribution& q, Token) { return list_of(Residual(p, q)); };
  Purpose accept = Purpose::accept;
  Purpose replace = Purpose::residual;
  bool bonus_from_draft = false;
  bool next_row_after_rejection = false;
};

Judge with(const Mistakes& mistakes) {
  return [mistakes](const Proposal& proposal, TargetRows& rows, int sequence, int position,
                    RandomSource& random) -> Verdict {
    const int n = proposal.size();
    for (int i = 0; i < n; ++i) {
      const Token draft_token = proposal.tokens[i];
      const Distribution& q = proposal.drawn_from[i];
      const Distribution p = rows.row(i);
      const Key accept = {sequence, position + i, mistakes.accept};
      if (mistakes.accepted(p.weight(draft_token), q.weight(draft_token), accept, random)) continue;
      const List rest = mistakes.rest(mistakes.next_row_after_rejection ? rows.row(i + 1) : p, q, draft_token);
      if (rest.tokens.empty()) return {i, draft_token};
      return {i, rest.tokens[random.sample_index({sequence, position + i, mistakes.replace}, rest.weights)]};
    }
    const Distribution& last = mistakes.bonus_from_draft && n > 0 ? proposal.drawn_from.back() : rows.row(n);
    return {n, draw(last, {sequence, position + n, Purpose::target}, random)};
  };
}

/// Returns the number of pairs of distributions over three tokens, weights of sum 4, for which the mistake changes the
/// result.
int pairs_that_differ(const Judge& judge, const Drafting& drafting = {}) {
  const std::vector<Distribution> all = all_distributions(3, 4);
  int differing = 0;
  for (const Distribution& p : all) {
    for (const Distribution& q : all) {
      const TinyDecoder decoder = one_draft_token(p, q, judge, drafting);
      differing += compute_distribution(decoder, 2) != plain_distribution(decoder.target, 2);
    }
  }
  return differing;
}

constexpr int no_pair = 0;
constexpr int pairs = 15 * 15;

TEST(RejectionMutants, TheCorrectRulePasses) { EXPECT_EQ(pairs_that_differ(with({})), no_pair); }

TEST(RejectionMutants, EveryDraftTokenIsAccepted) {
  Mistakes mistakes;
  mistakes.accepted = [](std::uint64_t, std::uint64_t, const Key&, RandomSource&) { return true; };
  EXPECT_EQ(pairs_that_differ(with(mistakes)), pairs - 15);  // all but p == q
}

TEST(RejectionMutants, AThresholdOneUnitTooHighAcceptsImpossibleTokens) {
  Mistakes mistakes;  // u * q <= p instead of u * q < p: wrong by one part in 2^52
  mistakes.accepted = [](std::uint64_t p_x, std::uint64_t q_x, const Key& key, RandomSource& random) {
    if (p_x >= q_x) return true;
    const std::uint64_t weights[] = {p_x + 1, q_x - p_x - 1};
    return random.sample_index(key, weights) == 0;
  };
  EXPECT_EQ(pairs_that_differ(with(mistakes)), pairs - 15);
}

TEST(RejectionMutants, AThresholdOneUnitTooLowChangesTheDistribution) {
  Mistakes mistakes;
  mistakes.accepted = [](std::uint64_t p_x, std::uint64_t q_x, const Key& key, RandomSource& random) {
    if (p_x >= q_x) return true;
    const std::uint64_t weights[] = {p_x - (p_x > 0), q_x - p_x + (p_x > 0)};
    return random.sample_index(key, weights) == 0;
  };
  EXPECT_GT(pairs_that_differ(with(mistakes)), no_pair);
}

TEST(RejectionMutants, TheAcceptanceRatioIsInverted) {
  Mistakes mistakes;
  mistakes.accepted = [](std::uint64_t p_x, std::uint64_t q_x, const Key& key, RandomSource& random) {
    if (q_x >= p_x) return true;
    const std::uint64_t weights[] = {q_x, p_x - q_x};
    return random.sample_index(key, weights) == 0;
  };
  EXPECT_GT(pairs_that_differ(with(mistakes)), no_pair);
}

TEST(RejectionMutants, TheDraftTokenIsAcceptedWithProbabilityP) {
  Mistakes mistakes;  // without the division by q
  mistakes.accepted = [](std::uint64_t p_x, std::uint64_t, const Key& key, RandomSource& random) {
    const std::uint64_t weights[] = {p_x, Distribution::total - p_x};
    return random.sample_index(key, weights) == 0;
  };
  EXPECT_GT(pairs_that_differ(with(mistakes)), no_pair);
}

TEST(RejectionMutants, TheReplacementIsDrawnFromP) {
  Mistakes mistakes;
  mistakes.rest = [](const Distribution& p, const Distribution&, Token) { return list_of(p); };
  EXPECT_GT(pairs_that_differ(with(mistakes)), no_pair);
}

TEST(RejectionMutants, OnlyTheRejectedTokenIsSubtracted) {
  Mistakes mistakes;
  mistakes.rest = [](const Distribution& p, const Distribution& q, Token draft_token) {
    List rest = list_of(p);
    for (std::size_t i = 0; i < rest.tokens.size(); ++i)
      if (rest.tokens[i] == draft_token) rest.weights[i] -= std::min(rest.weights[i], q.weight(draft_token));
    return rest;
  };
  EXPECT_GT(pairs_that_differ(with(mistakes)), no_pair);
}

TEST(RejectionMutants, TheRejectedTokenIsOnlyRemoved) {
  Mistakes mistakes;  // right for a point q, wrong for any other
  mistakes.rest = [](const Distribution& p, const Distribution&, Token draft_token) {
    List rest = list_of(p);
    for (std::size_t i = 0; i < rest.tokens.size(); ++i)
      if (rest.tokens[i] == draft_token) rest.weights[i] = 0;
    return rest;
  };
  EXPECT_GT(pairs_that_differ(with(mistakes)), no_pair);
}

TEST(RejectionMutants, TheResidualIsQMinusP) {
  Mistakes mistakes;
  mistakes.rest = [](const Distribution& p, const Distribution& q, Token) { return list_of(Residual(q, p)); };
  EXPECT_GT(pairs_that_differ(with(mistakes)), no_pair);
}

TEST(RejectionMutants, TheReplacementIsDrawnFromTheNextRow) {
  Mistakes mistakes;
  mistakes.next_row_after_rejection = true;
  EXPECT_GT(pairs_that_differ(with(mistakes)), no_pair);
}

TEST(RejectionMutants, TheReplacementReusesTheRandomNumberOfTheRejection) {
  Mistakes mistakes;
  mistakes.replace = Purpose::accept;
  EXPECT_GT(pairs_that_differ(with(mistakes)), no_pair);
}

TEST(RejectionMutants, TheReplacementReusesTheRandomNumberOfTheDraftToken) {
  Drafting drafting;
  drafting.purpose = Purpose::residual;
  EXPECT_GT(pairs_that_differ(rejection.judge, drafting), no_pair);
}

TEST(RejectionMutants, TheRejectionReusesTheRandomNumberOfTheDraftToken) {
  Drafting drafting;
  drafting.purpose = Purpose::accept;
  EXPECT_GT(pairs_that_differ(rejection.judge, drafting), no_pair);
}

/// Returns how many of `salts` distributions of texts differ from plain decoding's, where the rows and lengths of a
/// draft depend on all that it drew in all rounds.
int distributions_with_memory_that_differ(int salts, const Drafting& drafting) {
  int differing = 0;
  for (int salt = 0; salt < salts; ++salt) {
    const std::vector<Distribution> all = all_distributions(2 + salt % 2, 4);
    std::uint64_t memory = 0;
    const auto draft_tokens = [&](const Text& text, const Proposal& last) {
      if (text.empty()) memory = static_cast<std::uint64_t>(salt);
      for (const Token token : last.tokens) memory = Numbers{memory + static_cast<std::uint64_t>(token)}.next();
      memory = Numbers{memory}.next();
      return 1 + static_cast<int>(memory >> 32) % 2;
    };
    const auto draft = [&](const Text& text) {
      std::uint64_t word = memory;
      for (const Token token : text) word = Numbers{word + static_cast<std::uint64_t>(token)}.next();
      return all[(word >> 32) % all.size()];
    };
    const auto target = mixed_rows(all, static_cast<std::uint64_t>(salt) + 1000);
    const TinyDecoder decoder{target, draft, rejection.judge, drafting, draft_tokens};
    differing += compute_distribution(decoder, 4) != plain_distribution(decoder.target, 4);
  }
  return differing;
}

TEST(RejectionControls, DraftsThatRememberAllTheirSamplesPreserveTheDistribution) {
  EXPECT_EQ(distributions_with_memory_that_differ(300, {}), 0);
}

TEST(RejectionControlsSlow, DraftsThatRememberAllTheirSamplesPreserveTenThousandDistributions) {
  EXPECT_EQ(distributions_with_memory_that_differ(10000, {}), 0);
}

TEST(RejectionMutants, ADraftRemembersASampleWhoseRandomNumberTheNextRoundUsesAgain) {
  Drafting drafting;
  drafting.draft_token = [](const Distribution& q, Key key, RandomSource& random) {
    key.depth = 0;
    return draw(q, key, random);
  };
  EXPECT_GT(distributions_with_memory_that_differ(300, drafting), 10);
}

TEST(RejectionMutants, TheRecordedDistributionIsFromBeforeTheTransforms) {
  Drafting drafting;  // the draft draws after top-k 2 but records the whole row
  drafting.draft_token = [](const Distribution& q, const Key& key, RandomSource& random) {
    std::vector<std::uint64_t> weights = q.weights();
    if (weights.size() == 3) *std::min_element(weights.begin(), weights.end()) = 0;
    return q.tokens()[random.sample_index(key, weights)];
  };
  EXPECT_GT(pairs_that_differ(rejection.judge, drafting), no_pair);
}

TEST(RejectionMutants, TheBonusTokenIsDrawnFromTheDraft) {
  Mistakes mistakes;
  mistakes.bonus_from_draft = true;
  EXPECT_GT(pairs_that_differ(with(mistakes)), no_pair);
}

// ---- Unusual but correct rules. None may be flagged. ----

TEST(RejectionControls, AnArgmaxDraftRecordedAsAPointPreservesTheDistribution) {
  Drafting drafting;
  const auto best = [](const Distribution& q) {
    const std::vector<std::uint64_t> weights = q.weights();
    const auto max = std::max_element(weights.begin(), weights.end());
    return q.tokens()[max - weights.begin()];
  };
  drafting.draft_token = [best](const Distribution& q, const Key&, RandomSource&) { return best(q); };
  drafting.stated = [best](const Distribution& q) { return Distribution::point(best(q)); };
  EXPECT_EQ(pairs_that_differ(rejection.judge, drafting), no_pair);
}

TEST(RejectionControls, ASampledDraftTokenRecordedAsDeterministicPreservesTheDistribution) {
  const std::vector<Distribution> all = all_distributions(3, 4);
  int differing = 0;
  for (const Distribution& p : all) {
    for (const Distribution& q : all) {
      Drafting drafting;
      Token drafted = 0;
      drafting.draft_token = [&](const Distribution& from, const Key& key, RandomSource& random) {
        return drafted = draw(from, key, random);
      };
      drafting.stated = [&](const Distribution&) { return Distribution::point(drafted); };
      const TinyDecoder decoder = one_draft_token(p, q, rejection.judge, drafting);
      differing += compute_distribution(decoder, 2) != plain_distribution(decoder.target, 2);
    }
  }
  // Given the draft token, a point distribution is exact; only fewer draft tokens are accepted.
  EXPECT_EQ(differing, no_pair);
}

TEST(RejectionControls, ADraftWithAnotherTopKPreservesTheDistribution) {
  Drafting drafting;
  const auto two_best = [](const Distribution& q) {
    std::vector<std::uint64_t> weights = q.weights();
    if (weights.size() < 3) return q;
    auto min = std::min_element(weights.begin(), weights.end());
    const std::uint64_t dropped = std::exchange(*min, 0);
    weights[min == weights.begin() ? 1 : 0] += dropped;
    return Distribution::exact(q.tokens(), weights);
  };
  drafting.draft_token = [two_best](const Distribution& q, const Key& key, RandomSource& random) {
    return draw(two_best(q), key, random);
  };
  drafting.stated = two_best;
  EXPECT_EQ(pairs_that_differ(rejection.judge, drafting), no_pair);
}

TEST(RejectionControls, AUselessDraftPreservesTheDistribution) {
  Drafting drafting;  // always the same token, outside the target's support
  drafting.draft_token = [](const Distribution&, const Key&, RandomSource&) { return 7; };
  drafting.stated = [](const Distribution&) { return Distribution::point(7); };
  EXPECT_EQ(pairs_that_differ(rejection.judge, drafting), no_pair);
}

TEST(RejectionControls, DrawingDraftTokensWithTheTargetsKeysPreservesTheDistribution) {
  // The random number of a verified draft token is never used again. That of a draft token after a rejection is used by
  // the target, and nothing depends on the first draw.
  const std::vector<Distribution> all = all_distributions(3, 4);
  Drafting drafting;
  drafting.purpose = Purpose::target;
  for (std::uint64_t salt = 0; salt < 60; ++salt) {
    const auto draft_tokens = [salt](const Text& text, const Proposal&) { return text.empty() ? 2 : int(salt % 3); };
    const TinyDecoder decoder{mixed_rows(all, salt), mixed_rows(all, salt + 1000), rejection.judge, drafting,
                              draft_tokens};
    ASSERT_EQ(compute_distribution(decoder, 3), plain_distribution(decoder.target, 3)) << salt;
  }
}

TEST(RejectionControls, AnUnneededDrawForACertainAcceptancePreservesTheDistribution) {
  Mistakes harmless;
  harmless.accepted = [](std::uint64_t p_x, std::uint64_t q_x, const Key& key, RandomSource& random) {
    const std::uint64_t accepted_count = std::min(p_x, q_x);
    const std::uint64_t weights[] = {accepted_count, q_x - accepted_count};
    return random.sample_index(key, weights) == 0;
  };
  EXPECT_EQ(pairs_that_differ(with(harmless)), no_pair);
}

TEST(RejectionControls, DraftLengthsThatDependOnTheTextPreserveTheDistribution) {
  const std::vector<Distribution> all = all_distributions(2, 3);
  for (std::uint64_t salt = 0; salt < 100; ++salt) {
    const auto draft_tokens = [salt](const Text& text, const Proposal&) {
      std::size_t n = salt;
      for (const Token token : text) n = n * 3 + static_cast<std::size_t>(token) + 1;
      return static_cast<int>(n % 4);
    };
    const TinyDecoder decoder{mixed_rows(all, salt), mixed_rows(all, salt + 500), rejection.judge, {}, draft_tokens};
    ASSERT_EQ(compute_distribution(decoder, 4), plain_distribution(decoder.target, 4)) << salt;
  }
}

}  // namespace
}  // namespace draftproof::rejection_test
