// SPDX-License-Identifier: MIT
// How many draft tokens of a tree are accepted: as many as any rule can whose output is the target's.
#include <gtest/gtest.h>

#include "ref/acceptance/rule.h"
#include "ref/drafts/scripted.h"
#include "ref/models/hash.h"
#include "tests/decoding/exact_texts.h"

namespace draftproof::tree_acceptance_test {
namespace {

/// The probability that a text begins so.
Rational probability(const ExactTexts& texts, const std::vector<Token>& beginning) {
  Rational sum = 0;
  for (const auto& [text, probability] : texts) {
    if (std::equal(beginning.begin(), beginning.end(), text.begin())) sum += probability;
  }
  return sum;
}

TEST(TreeAcceptance, IsTheTextsWayInsideTheTreeWhichNoRuleCanExceed) {
  struct Case {
    const char* script;
    std::vector<std::vector<Token>> nodes;
  };
  const std::vector<Case> cases = {{"0&101", {{0}, {1}, {0, 0}, {0, 0, 1}}},
                                   {"2&1&0", {{2}, {1}, {0}}},
                                   {"01<<10&2", {{0}, {0, 1}, {1}, {1, 0}, {1, 2}}}};
  const auto target = make_hash_model({.vocabulary = 3});
  const Asked request = asked({0, 1}, 6, 5, {.temperature = 1});
  const ExactTexts plain = exact_plain_texts(*target, request);
  for (const auto& [script, nodes] : cases) {
    Rational inside = 0;
    for (const auto& node : nodes) inside += probability(plain, node);
    for (const Rule* const* rule = all_rules(); *rule != nullptr; ++rule) {
      Rational accepted = 0;
      EnumeratedSource random;
      do {
        random.begin_path();
        ScriptedDraft draft(*target, request.positions(), 5, script);
        Decoder decoder(*target, draft, **rule, random, request, request, Recording::digests);
        decoder.run();
        const Round& first = decoder.trace().rounds.front();
        ASSERT_EQ(first.proposal.tokens.size(), nodes.size());
        accepted += random.probability() * first.accepted;
      } while (random.next_path());
      EXPECT_EQ(accepted, inside) << script << " " << (*rule)->name;
    }
  }
}

}  // namespace
}  // namespace draftproof::tree_acceptance_test
