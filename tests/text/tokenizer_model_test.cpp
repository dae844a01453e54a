// SPDX-License-Identifier: MIT
// tokenizer.model as an untrusted file: every case is small_model() with one thing changed.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <limits>

#include "tests/text/model_proto.h"
#include "tests/text/tokenizer_files.h"

namespace draftproof::tokenizer_model_test {
namespace {

using test::piece_proto;
using test::ProtoBytes;
using ::testing::ElementsAre;
using ::testing::HasSubstr;

Tokenizer load(const ProtoBytes& model) {
  return Tokenizer::load(test::ScratchFile(model.bytes(), "tokenizer.model").path());
}

TEST(TokenizerModel, MergesByScore) {
  const Tokenizer tokenizer = load(test::small_model());
  EXPECT_THAT(tokenizer.encode("ab a", false), ElementsAre(3, 6, 7));
  EXPECT_THAT(tokenizer.encode("a"), ElementsAre(1, 7));
  EXPECT_EQ(tokenizer.decode(std::vector<Token>{1, 3, 6, 7}), "ab a");
  EXPECT_THAT(tokenizer.encode(""), ElementsAre(1));
  EXPECT_THAT(tokenizer.encode("zz", false), ElementsAre(3, 0));  // neighboring unknown characters are one token
}

TEST(TokenizerModel, TellsControlPiecesFromTheirText) {
  const Tokenizer tokenizer = load(test::small_model());
  EXPECT_THAT(tokenizer.encode("<s>a", false, true), ElementsAre(1, 7));
  EXPECT_THAT(tokenizer.encode("<s>a", false, false), ElementsAre(3, 0, 4));
}

TEST(TokenizerModel, TheConfigurationBesideItSaysWhatIsAdded) {
  const test::ScratchFile model(test::small_model().bytes(), "tokenizer.model");
  const auto config = model.path().parent_path() / "tokenizer_config.json";
  std::ofstream(config) << R"({"add_bos_token": false, "add_eos_token": true, "other": []})";
  EXPECT_THAT(Tokenizer::load(model.path()).encode("a"), ElementsAre(7, 2));
  EXPECT_THAT(Tokenizer::load(model.path().parent_path()).encode("a"), ElementsAre(7, 2));
  std::ofstream(config) << R"({"add_bos_token": "no"})";
  EXPECT_THAT(test::error_of([&] { Tokenizer::load(model.path()); }),
              HasSubstr("tokenizer_config.json: field add_bos_token"));
}

TEST(TokenizerModel, AFolderWithBothFormatsUsesTheJson) {
  const test::ScratchFile model(test::small_model().bytes(), "tokenizer.model");
  std::ofstream(model.path().parent_path() / "tokenizer.json") << test::small_json();
  EXPECT_EQ(Tokenizer::load(model.path().parent_path()).vocabulary(), 260);
}

TEST(TokenizerModel, NamesWhatIsInvalid) {
  const auto expect = [](const ProtoBytes& model, const std::string& field, const std::string& what) {
    const std::string error = test::error_of([&] { load(model); });
    EXPECT_THAT(error, HasSubstr("tokenizer.model: field " + field));
    EXPECT_THAT(error, HasSubstr(what));
  };
  const auto with_piece = [](const ProtoBytes& piece) { return test::small_model().message(1, piece); };
  expect(with_piece(piece_proto("a", -1, 1)), "pieces: the entry of id 8", "has another id");
  expect(with_piece(piece_proto("", -1, 1)), "pieces[8]", "is empty");
  expect(with_piece(piece_proto("\xFF", -1, 1)), "pieces[8]", "not UTF-8");
  expect(with_piece(piece_proto("x", std::numeric_limits<float>::infinity(), 1)), "pieces[8]", "finite");
  expect(with_piece(piece_proto("x", -1, 7)), "pieces[8]", "type 7");
  expect(with_piece(piece_proto("x", -1, 0)), "pieces[8]", "type 0");
  expect(with_piece(piece_proto("x", -1, 5)), "pieces[8]", "unused piece");
  expect(with_piece(piece_proto("x", -1, 6)), "pieces[8]", "no byte like <0x41>");
  expect(with_piece(piece_proto(std::string(5000, 'x'), -1, 1)), "pieces: the entry of id 8", "4096 bytes");
  expect(test::small_pieces().message(2, ProtoBytes().integer(3, 4)), "trainer_spec", "model_type 4");
  expect(test::small_pieces().message(2, ProtoBytes().integer(24, 1)), "trainer_spec", "treat_whitespace_as_suffix");
  expect(test::small_pieces().message(2, test::bpe_trainer().integer(41, 77)), "trainer_spec.bos_id", "77 is not");
  expect(test::small_pieces().message(3, ProtoBytes().text(2, "ab")), "normalizer_spec", "size of its trie");
  expect(test::small_model().message(5, ProtoBytes().text(2, "ab")), "denormalizer_spec", "not implemented");
  expect(ProtoBytes().message(2, test::bpe_trainer()), "pieces", "no entries");
  expect(test::small_model().integer(1, 1), "pieces[8]", "wrong type");
  EXPECT_THAT(test::error_of([] { Tokenizer::load("nowhere/tokenizer.model"); }), HasSubstr("nowhere"));
}

// Whatever a file was cut to, it is an error or a smaller vocabulary that encodes.
TEST(TokenizerModel, EveryTruncationIsAnErrorOrAVocabulary) {
  const std::string bytes = test::small_model().bytes();
  int errors = 0;
  for (std::size_t size = 0; size < bytes.size(); ++size) {
    const test::ScratchFile file(bytes.substr(0, size), "tokenizer.model");
    const std::string error = test::error_of([&] { Tokenizer::load(file.path()).encode("ab"); });
    errors += error.empty() ? 0 : 1;
    EXPECT_EQ(error.find('\n'), std::string::npos);
  }
  EXPECT_GT(errors, 100);
}

}  // namespace
}  // namespace draftproof::tokenizer_model_test
