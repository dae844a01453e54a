// SPDX-License-Identifier: MIT
#include "ref/text/vocabulary_match.h"

#include <gtest/gtest.h>

#include <fstream>

#include "tests/text/model_proto.h"
#include "tests/text/tokenizer_files.h"

namespace draftproof::vocabulary_match_test {
namespace {

/// A tokenizer.model of eight pieces, ids 0 to 7.
struct Pieces {
  std::vector<std::string> texts = {"<unk>", "<s>", "</s>", "\u2581", "a", "b", "ab", "\u2581a"};
  std::uint64_t kind = 2;  // BPE; 1: unigram
  std::uint64_t bos = 1;
  std::uint64_t eos = 2;
  bool add_bos = true;
  bool add_eos = false;
};

Tokenizer load(const Pieces& pieces) {
  test::ProtoBytes model;
  for (std::size_t id = 0; id < pieces.texts.size(); ++id) {
    model.message(1, test::piece_proto(pieces.texts[id], -1, id == 0 ? 2 : id < 3 ? 3 : 1));
  }
  model.message(2, test::ProtoBytes().integer(3, pieces.kind).integer(41, pieces.bos).integer(42, pieces.eos));
  model.message(3, test::plain_normalizer());
  const test::ScratchFile file(model.bytes(), "tokenizer.model");
  std::ofstream(file.path().parent_path() / "tokenizer_config.json")
      << R"({"add_bos_token": )" << (pieces.add_bos ? "true" : "false") << R"(, "add_eos_token": )"
      << (pieces.add_eos ? "true" : "false") << "}";
  return Tokenizer::load(file.path());
}

VocabularyMatch match(const Pieces& target, const Pieces& draft, int target_rows = 8, int draft_rows = 8) {
  const Tokenizer of_target = load(target);
  const Tokenizer of_draft = load(draft);
  return match_vocabularies({of_target, target_rows}, {of_draft, draft_rows});
}

void expect_broken(VocabularyRule rule, const Pieces& draft, const std::string& why, const Pieces& target = {}) {
  const VocabularyMatch found = match(target, draft);
  EXPECT_FALSE(found.matches) << why;
  EXPECT_EQ(found.broken, rule);
  EXPECT_EQ(found.why, why);
}

TEST(VocabularyMatch, HoldsForEqualTokenizers) {
  EXPECT_TRUE(match({}, {}).matches);
  EXPECT_EQ(match({}, {}).why, "");
}

TEST(VocabularyMatch, NeedsTheSameModelOfTokens) {
  expect_broken(VocabularyRule::kind, {.kind = 1}, "the target's is BPE of characters and the draft's a unigram model");
  const Tokenizer bytes = test::load_json(test::small_json());
  const Tokenizer characters = load({});
  EXPECT_EQ(match_vocabularies({bytes, 260}, {characters, 260}).why,
            "the target's is BPE of bytes and the draft's BPE of characters");
}

TEST(VocabularyMatch, NeedsTheSameTokensAroundATextIfThereAreAny) {
  const std::string before = "the target puts token 1 before a text and the draft ";
  expect_broken(VocabularyRule::add_bos, {.add_bos = false}, before + "nothing");
  expect_broken(VocabularyRule::bos, {.bos = 2}, before + "token 2");
  EXPECT_TRUE(match({.add_bos = false}, {.bos = 2, .add_bos = false}).matches) << "neither adds it";
  expect_broken(VocabularyRule::add_eos, {.add_eos = true},
                "the target puts nothing behind a text and the draft token 2");
  expect_broken(VocabularyRule::eos, {.eos = 1, .add_eos = true},
                "the target puts token 2 behind a text and the draft token 1", {.add_eos = true});
  EXPECT_TRUE(match({}, {.eos = 1}).matches) << "neither adds it";
}

TEST(VocabularyMatch, AdmitsADifferenceOf128RowsToBothSides) {
  EXPECT_TRUE(match({}, {}, 1000, 1128).matches);
  EXPECT_TRUE(match({}, {}, 1000, 872).matches);
  for (const int rows : {1129, 871}) {
    const VocabularyMatch found = match({}, {}, 1000, rows);
    EXPECT_FALSE(found.matches);
    EXPECT_EQ(found.broken, VocabularyRule::size);
    EXPECT_EQ(found.why,
              "the target has 1000 tokens and the draft " + std::to_string(rows) + ", which differ by more than 128");
  }
}

TEST(VocabularyMatch, NeedsEqualTextsFromId5ToTheLastCommonOne) {
  const auto with = [](std::size_t id, const std::string& text) {
    Pieces pieces;
    pieces.texts[id] = text;
    return pieces;
  };
  for (std::size_t id = 0; id < 8; ++id) {
    const VocabularyMatch found = match({}, with(id, "other"));
    EXPECT_EQ(found.matches, id < 5) << id;
    if (id < 5) continue;
    EXPECT_EQ(found.broken, VocabularyRule::text);
    EXPECT_EQ(found.token, static_cast<Token>(id));
  }
  expect_broken(VocabularyRule::text, with(7, "\u2581b"),
                "token 7 is '\u2581a' in the target and '\u2581b' in the draft");
  Pieces two = with(6, "x");
  two.texts[7] = "y";
  EXPECT_EQ(match({}, two).token, 6) << "the first one";
  EXPECT_EQ(match(two, {}).token, 6);
}

TEST(VocabularyMatch, ComparesNoIdsThatATokenizerOrAModelLacks) {
  Pieces longer;
  longer.texts.push_back("more");
  EXPECT_TRUE(match({}, longer, 9, 9).matches) << "the target's id 8 is padding";
  EXPECT_TRUE(match(longer, {}, 9, 9).matches);
  Pieces other;
  other.texts[7] = "other";
  EXPECT_TRUE(match({}, other, 8, 7).matches) << "the draft's model has no row 7";
  EXPECT_TRUE(match({}, other, 7, 8).matches);
}

TEST(VocabularyMatch, ComparesWholeTexts) {
  Pieces target, draft;
  target.texts[6] = std::string("a\0b", 3);
  draft.texts[6] = std::string("a\0c", 3);
  EXPECT_EQ(match(target, draft).token, 6) << "C strings would be equal";
  EXPECT_TRUE(match(target, target).matches);
}

}  // namespace
}  // namespace draftproof::vocabulary_match_test
