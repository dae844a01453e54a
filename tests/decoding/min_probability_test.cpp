// SPDX-License-Identifier: MIT
// A draft that ends its proposals where it is not sure: by `rejection` the text has exactly the target's distribution,
// because the row decides. A draft that looks at the token that it drew is the counterexample.
#include <gtest/gtest.h>

#include "ref/acceptance/draw.h"
#include "ref/drafts/model_draft.h"
#include "tests/decoding/exact_texts.h"
#include "tests/drafts/support.h"

namespace draftproof::min_probability_test {
namespace {

constexpr int vocabulary = 3;
constexpr double min = 0.5;

/// Rows whose most probable token has a probability of 0.42 or 0.73, by the text before.
std::vector<float> row_after(std::span<const Token> text, int salt) {
  unsigned number = static_cast<unsigned>(salt);
  for (const Token token : text) number = (number + static_cast<unsigned>(token) + 1) * 2654435761U;
  std::vector<float> logits(vocabulary, 0.0F);
  logits[number >> 8 & 1] = number >> 11 & 1 ? 0.375F : 1.7F;
  return logits;
}

std::vector<float> of_target(std::span<const Token> text) { return row_after(text, 1); }
std::vector<float> of_draft(std::span<const Token> text) { return row_after(text, 12); }

/// Draws from the rows of the draft, and ends where the token that it would draw is less probable than `min`.
class LooksAtItsSample final : public Draft {
 public:
  explicit LooksAtItsSample(RandomSource& random) : random_(random) {}
  int draft_max() const override { return 3; }
  void observe(std::span<const Token> committed, std::span<const float>) override {
    text_.insert(text_.end(), committed.begin(), committed.end());
  }
  void propose(Token anchor, int limit, ProposalBuilder& builder) override {
    std::vector<Token> text = text_;
    text.push_back(anchor);
    const auto position = static_cast<int>(text.size());
    for (int depth = 0; depth < limit; ++depth) {
      const std::vector<float> row = of_draft(text);
      const Distribution q = compute_distribution(row, {.temperature = 1}, {});
      const Token token = draw(q, draft_key(0, position, depth, Purpose::draft), random_);
      if (static_cast<double>(q.weight(token)) < min * static_cast<double>(Distribution::total)) return;
      text.push_back(builder.draw(row));
      EXPECT_EQ(text.back(), token);
    }
  }
  void forget() override { text_.clear(); }
  bool needs_no_snapshot() const override { return true; }

 private:
  RandomSource& random_;
  std::vector<Token> text_;
};

struct Drafted {
  ExactTexts texts;
  int accepted = 0, rejected = 0, undrafted = 0;  // of all paths
};

template <class Open>
Drafted drafted_texts(Model& target, const Asked& request, const Open& open) {
  Drafted drafted;
  drafted.texts = exact_texts(target, rejection, request, open, [&](const Trace& trace) {
    drafted.accepted += trace.statistics.accepted;
    drafted.rejected += trace.statistics.mismatches;
    for (std::size_t i = 0; i + 1 < trace.rounds.size(); ++i) {  // the last one may have no room for any
      drafted.undrafted += trace.rounds[i].proposal.size() == 0;
    }
  });
  return drafted;
}

TEST(MinProbabilitySlow, DecidedByTheRowLeavesTheDistributionAndDecidedByTheSampleDoesNot) {
  TableModel target(vocabulary, of_target);
  const Asked request = asked({0, 1}, 5, 3, {.temperature = 1});
  const ExactTexts plain = exact_plain_texts(target, request);
  EXPECT_EQ(plain.size(), 243U);
  TableModel model(vocabulary, of_draft);
  const auto by_row = [&](MinProbability min_probability) {
    return drafted_texts(target, request, [&](RandomSource&, int capacity) {
      return std::make_unique<ModelDraft>(model, capacity, 3, min_probability);
    });
  };
  const Drafted always = by_row({});
  const Drafted sure = by_row(MinProbability(min));
  EXPECT_TRUE(always.texts == plain);
  EXPECT_TRUE(sure.texts == plain);
  EXPECT_EQ(distance(sure.texts, plain), 0);
  EXPECT_EQ(always.undrafted, 0);
  EXPECT_GT(sure.undrafted, 10) << "the first position is left out as well";
  EXPECT_GT(sure.accepted, 10);
  EXPECT_GT(sure.rejected, 10);
  const ExactTexts by_sample = exact_texts(
      target, rejection, request, [](RandomSource& random, int) { return std::make_unique<LooksAtItsSample>(random); });
  EXPECT_GT(distance(by_sample, plain), Rational(1, 100));
}

TEST(MinProbability, LeavesTheTextOfPlainDecodingByMatching) {
  TableModel target(vocabulary, of_target);
  TableModel model(vocabulary, of_draft);
  for (std::uint64_t seed = 1; seed <= 20; ++seed) {
    const Asked request = asked({0, 1}, 30, 3, {.temperature = 1});
    PhiloxSource random(seed);
    ModelDraft draft(model, request.positions(), 3, MinProbability(min));
    Decoder decoder(target, draft, matching, random, request, request, Recording::digests);
    decoder.run();
    EXPECT_EQ(decoder.trace().output, plain_output(target, request, seed));
  }
}

}  // namespace
}  // namespace draftproof::min_probability_test
