// SPDX-License-Identifier: MIT
#include "ref/acceptance/bans.h"

#include <gtest/gtest.h>

#include <algorithm>

namespace draftproof::bans_test {
namespace {

using Output = std::vector<Token>;

constexpr int vocabulary = 4;
const std::vector<Token> stops = {0};
const std::vector<std::vector<Token>> words = {{3}, {1, 2}, {2, 2, 1}};

/// Says it by looking at the whole output, in the simplest way.
bool naive_possible(const Output& output, int min_tokens) {
  for (std::size_t i = 0; i < output.size(); ++i) {
    if (output[i] == 0 && static_cast<int>(i) < min_tokens) return false;
  }
  return std::ranges::none_of(words, [&](const auto& word) { return !std::ranges::search(output, word).empty(); });
}

/// Calls visit for every output of at most this many tokens.
void for_each_output(std::size_t size, const auto& visit) {
  std::vector<Output> outputs = {{}};
  for (std::size_t i = 0; i < outputs.size(); ++i) {
    const Output output = outputs[i];
    visit(output);
    for (Token token = 0; output.size() < size && token < vocabulary; ++token) {
      outputs.push_back(output);
      outputs.back().push_back(token);
    }
  }
}

TEST(Bans, AllowWhatMakesAnOutputThatIsPossible) {
  for (const int min_tokens : {0, 1, 3}) {
    const auto reader = Bans(nullptr, vocabulary, stops, min_tokens, words).reader();
    for_each_output(5, [&](Output output) {
      EXPECT_EQ(reader->possible(output), naive_possible(output, min_tokens));
      EXPECT_FALSE(reader->complete(output));
      if (!naive_possible(output, min_tokens)) return;
      output.push_back(0);
      for (Token token = 0; token < vocabulary; ++token) {
        output.back() = token;
        EXPECT_EQ(reader->allowed(std::span(output).first(output.size() - 1)).has(token),
                  naive_possible(output, min_tokens));
      }
    });
  }
}

/// Tokens 1 and 2 in turn, three of them.
class Alternating final : public Constraint {
 public:
  std::unique_ptr<ConstraintReader> reader() const override { return std::make_unique<Reader>(); }

 private:
  class Reader final : public ConstraintReader {
   public:
    bool possible(std::span<const Token> output) override {
      for (std::size_t i = 0; i < output.size(); ++i) {
        if (output[i] != 1 + static_cast<Token>(i % 2)) return false;
      }
      return output.size() <= 3;
    }
    const TokenSet& allowed(std::span<const Token> output) override {
      set_ = TokenSet(vocabulary);
      if (output.size() < 3) set_.add(1 + static_cast<Token>(output.size() % 2));
      return set_;
    }
    bool complete(std::span<const Token> output) override { return output.size() == 3; }

   private:
    TokenSet set_;
  };
};

TEST(Bans, AskWhatElseTheOutputHasToFollow) {
  const auto reader = Bans(std::make_shared<Alternating>(), vocabulary, stops, 0, {{2, 1}}).reader();
  EXPECT_TRUE(reader->possible(Output{1, 2}));
  EXPECT_FALSE(reader->possible(Output{2}));
  EXPECT_FALSE(reader->possible(Output{1, 2, 1}));
  EXPECT_EQ(reader->allowed(Output{1}).only(), 2);
  EXPECT_TRUE(reader->allowed(Output{1, 2}).empty());
  EXPECT_TRUE(reader->complete(Output{1, 2, 1}));
}

}  // namespace
}  // namespace draftproof::bans_test
