// SPDX-License-Identifier: MIT
// Texts of trained models that a grammar bounds, with every draft and without one: the tokens are equal, and the text
// ends in the same place, wherever the grammar lets it end or go on.
#include <gtest/gtest.h>

#include <filesystem>
#include <string>
#include <vector>

#include "ref/decoding/engine.h"
#include "ref/grammar/grammar_constraint.h"
#include "ref/models/models.h"
#include "ref/text/tokenizer.h"
#include "tests/decoding/support.h"
#include "tests/threads.h"

namespace draftproof::grammar_pairs_test {
namespace {

const std::filesystem::path models = std::filesystem::path(DRAFTPROOF_SOURCE_DIR) / "fixtures/models";

/// All but the second to last may end or go on after most tokens.
constexpr const char* grammars[] = {
    R"g(root ::= "no" "!"*)g",
    R"g(root ::= "a"?)g",
    R"g(root ::= "-"? [0-9]+ ("." [0-9]+)?)g",
    R"g(root ::= [a-z ]+)g",
    R"g(root ::= ("no" | "yes") ("!"|".")*)g",
    R"g(root ::= [A-Z] [a-z]+ (" " [a-z]+)*)g",
    R"g(root ::= "The " [a-z]+ ("s" | ""))g",
    R"g(root ::= ("- " [a-z ]+ "\n")+)g",
    R"g(root ::= "(" [a-z]* ")")g",
    R"g(root ::= .+)g",
};

constexpr const char* prompts[] = {"Once upon a time there lived in Crow Hill a gardener named David", "The year was",
                                   "Yes or no?", "Tell me"};

struct Pairs {
  int compared = 0;
  int stopped = 0;   // ended by a stop token
  int foreseen = 0;  // ... that was drafted
};

/// Compares texts of a target with each of the drafts and without; drafts that name files of the shipped models do so
/// without their folder.
void compare(const char* target, const std::vector<std::string>& drafts, std::size_t grammar_count,
             std::size_t prompt_count, Pairs& pairs) {
  const Threads one(1);
  ModelFiles files(models / target);
  Engine engine(files, best_kernels());
  const Tokenizer tokenizer = Tokenizer::load(models / target);
  const auto trie = std::make_shared<const TokenTrie>(tokenizer, engine.target().vocabulary());
  const std::vector<Token> stops = read_stop_tokens(Checkpoint(models / target));
  for (std::size_t g = 0; g < grammar_count; ++g) {
    const auto grammar = std::make_shared<const Grammar>(Grammar::from_gbnf(grammars[g], "grammar"));
    for (std::size_t p = 0; p < prompt_count; ++p) {
      for (const float temperature : {0.0F, 1.0F}) {
        Asked request = asked(tokenizer.encode(prompts[p]), 32, 0, {.temperature = temperature}, stops);
        request.constraint = std::make_shared<GrammarConstraint>(grammar, trie, stops);
        PhiloxSource plain_random(g * 16 + p);
        const Trace plain = engine.decode({.request = request, .random = plain_random});
        for (const std::string& draft : drafts) {
          const std::size_t colon = draft.find(':');
          const std::string name = colon == std::string::npos
                                       ? draft
                                       : draft.substr(0, colon + 1) + (models / draft.substr(colon + 1)).string();
          for (const Rule* const rule : {&matching, &rejection}) {
            PhiloxSource random(g * 16 + p);
            Trace trace;
            ASSERT_NO_THROW(trace = engine.decode({.request = request, .draft = name, .rule = *rule, .random = random}))
                << target << ", " << draft << ", " << rule->name << ": " << grammars[g] << ", " << prompts[p];
            const Round& last = trace.rounds.back();
            pairs.foreseen += trace.finish == Finish::stop && last.accepted == std::ssize(last.emitted) &&
                              request.stops_at(trace.output.back());
            if (rule == &rejection && temperature > 0) continue;  // another text of the same distribution
            ++pairs.compared;
            EXPECT_TRUE(trace.output == plain.output && trace.finish == plain.finish)
                << target << ", " << draft << ": " << grammars[g] << ", " << prompts[p];
          }
        }
        pairs.stopped += plain.finish == Finish::stop && request.stops_at(plain.output.back());
      }
    }
  }
}

TEST(GrammarPairs, TextsThatMayEndOrGoOnAreThoseOfPlainDecoding) {
  Pairs pairs;
  compare("tale-target", {"dflash:tale-dflash", "perfect"}, 3, 1, pairs);
  EXPECT_EQ(pairs.compared, 2 * 3 * 3);
  EXPECT_GT(pairs.stopped, 0);
  EXPECT_GT(pairs.foreseen, 0);
}

TEST(GrammarPairsSlow, TextsThatMayEndOrGoOnAreThoseOfPlainDecodingWithEveryDraft) {
  Pairs pairs;
  compare("tale-target",
          {"dflash:tale-dflash", "dflash:tale-dflash?tree=8", "dflash:tale-dspark", "eagle3:tale-eagle3",
           "eagle3:tale-eagle3?tree=12", "eagle3:tale-peagle", "mtp:tale-mtp", "medusa:tale-medusa",
           "medusa:tale-medusa?tree=12", "model:tale-small", "pard:tale-pard", "model:tale-llama?translate=1", "self",
           "perfect", "tree-test", "suffix"},
          std::size(grammars), std::size(prompts), pairs);
  compare("tale-hybrid", {"mtp:tale-hybrid-mtp?tree=8", "eagle3:tale-hybrid-eagle3", "perfect"}, std::size(grammars), 2,
          pairs);
  compare("tale-gemma", {"mtp:tale-gemma-assistant", "perfect"}, std::size(grammars), 2, pairs);
  EXPECT_GE(pairs.compared, 240);
  EXPECT_GT(pairs.stopped, 20);
  EXPECT_GT(pairs.foreseen, 50);
}

}  // namespace
}  // namespace draftproof::grammar_pairs_test
