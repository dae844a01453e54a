// SPDX-License-Identifier: MIT
// tokenizer.json as an untrusted file: every case is small_json() with one thing changed.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>

#include "ref/text/token_decoder.h"
#include "tests/folder.h"
#include "tests/text/tokenizer_files.h"

namespace draftproof::tokenizer_json_test {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

struct Change {
  const char* from;
  const char* to;
  const char* field;  // what the message must name besides the file
  const char* what;
};

class BadJson : public ::testing::TestWithParam<Change> {};

TEST_P(BadJson, IsRejectedByFileAndField) {
  const Change& change = GetParam();
  const std::string error =
      test::error_of([&] { test::load_json(test::replaced(test::small_json(), change.from, change.to)); });
  EXPECT_THAT(error, HasSubstr("tokenizer.json: "));
  EXPECT_THAT(error, HasSubstr(change.field));
  EXPECT_THAT(error, HasSubstr(change.what));
  EXPECT_EQ(error.find('\n'), std::string::npos) << error;
}

constexpr const char* merges = R"([["a", "b"], ["ab", "c"], ["Ġ", "a"]])";
constexpr const char* no_normalizer = R"("normalizer": null)";
constexpr const char* no_processor = R"("post_processor": null)";
constexpr const char* pre_tokenizer =
    R"({"type": "ByteLevel", "add_prefix_space": false, "trim_offsets": true, "use_regex": true})";
constexpr const char* decoder =
    R"({"type": "ByteLevel", "add_prefix_space": true, "trim_offsets": true, "use_regex": true})";

INSTANTIATE_TEST_SUITE_P(
    Vocabulary, BadJson,
    ::testing::Values(Change{R"("ab": 256)", R"("ab": -1)", "model.vocab.ab", "-1"},
                      Change{R"("ab": 256)", R"("ab": 4194304)", "model.vocab.ab", "4194304"},
                      Change{R"("ab": 256)", R"("ab": 1.5)", "model.vocab.ab", "integer"},
                      Change{R"("ab": 256)", R"("ab": "256")", "model.vocab.ab", "integer"},
                      Change{R"("ab": 256)", R"("ab": null)", "model.vocab.ab", "null"},
                      Change{R"("ab": 256)", R"("ab": 97)", "field model.vocab: ", "belongs to another entry"},
                      Change{R"("abc": 257)", R"("ab": 257)", "", "twice"},
                      Change{R"("vocab": {)", R"("vocab": [], "other": {)", "field model", "other"}));

INSTANTIATE_TEST_SUITE_P(Merges, BadJson,
                         ::testing::Values(Change{merges, R"([["a", "q"]])", "model.merges[0]",
                                                  "'aq', which is not in the vocabulary"},
                                           Change{merges, R"([["a", "b"], ["xy", "z"]])", "model.merges[1]", "'xy'"},
                                           Change{merges, R"([["a", "b"], ["a", "b"]])", "model.merges[1]", "twice"},
                                           Change{merges, R"(["a b c"])", "model.merges[0]", "one space"},
                                           Change{merges, R"(["ab"])", "model.merges[0]", "one space"},
                                           Change{merges, R"([" ab"])", "model.merges[0]", "empty"},
                                           Change{merges, R"([["a"]])", "model.merges[0]", "a pair"},
                                           Change{merges, R"([["a", 7]])", "model.merges[0][1]", "string"},
                                           Change{merges, R"({})", "model.merges", "array"},
                                           Change{merges, R"(null)", "model.merges", "null"}));

INSTANTIATE_TEST_SUITE_P(
    Model, BadJson,
    ::testing::Values(
        Change{R"("type": "BPE")", R"("type": "WordPiece")", "model.type", "'WordPiece' is not impl"},
        Change{R"("type": "BPE")", R"("type": "Unigram")", "model", "'dropout', which is not"},
        Change{R"("dropout": null)", R"("dropout": 0.1)", "model.dropout", "not implemented"},
        Change{R"("continuing_subword_prefix": "")", R"("continuing_subword_prefix": "##")",
               "model.continuing_subword_prefix", "not implemented"},
        Change{R"("end_of_word_suffix": "")", R"("end_of_word_suffix": "</w>")", "model.end_of_word_suffix",
               "not implemented"},
        Change{R"("byte_fallback": false)", R"("byte_fallback": true)", "model.byte_fallback", "not implemented"},
        Change{R"("ignore_merges": false)", R"("ignore_merges": 1)", "model.ignore_merges", "true or false"},
        Change{R"("truncation": null)", R"("truncation": {})", "truncation", "not implemented"},
        Change{R"("padding": null)", R"("padding": {})", "padding", "not implemented"},
        Change{R"("version": "1.0")", R"("version": "2.0")", "version", "2.0"},
        Change{R"("version": "1.0")", R"("surprise": 1)", "tokenizer.json", "surprise"}));

INSTANTIATE_TEST_SUITE_P(
    Steps, BadJson,
    ::testing::Values(
        Change{no_normalizer, R"("normalizer": {"type": "BertNormalizer"})", "normalizer.type", "'BertNormalizer'"},
        Change{no_normalizer,
               R"("normalizer": {"type": "Sequence", "normalizers": [{"type": "NFC"}, {"type": "Upper"}]})",
               "normalizer.normalizers[1].type", "'Upper'"},
        Change{no_normalizer, R"("normalizer": {"type": "NFC", "x": 1})", "normalizer", "'x'"},
        Change{no_normalizer, R"("normalizer": {"type": "Replace", "pattern": {"String": ""}, "content": "x"})",
               "normalizer.pattern.String", "is empty"},
        Change{no_normalizer, R"("normalizer": {"type": "Replace", "pattern": {"Regex": "(a"}, "content": "x"})",
               "normalizer.pattern.Regex", "does not compile"},
        Change{no_normalizer, R"("normalizer": {"type": "Precompiled", "precompiled_charsmap": "AAA"})",
               "normalizer.precompiled_charsmap", "base64"},
        Change{no_normalizer, R"("normalizer": {"type": "Precompiled", "precompiled_charsmap": "AAAAAAAA"})",
               "normalizer.precompiled_charsmap", "size of its trie"},
        Change{no_normalizer, R"("normalizer": "NFC")", "normalizer", "object"},
        Change{pre_tokenizer, R"({"type": "BertPreTokenizer"})", "pre_tokenizer.type", "'BertPreTokenizer'"},
        Change{pre_tokenizer, R"({"type": "Metaspace"})", "pre_tokenizer.replacement", "missing"},
        Change{pre_tokenizer, R"({"type": "Metaspace", "replacement": "_", "prepend_scheme": "last"})",
               "pre_tokenizer.prepend_scheme", "'last'"},
        Change{pre_tokenizer,
               R"({"type": "Metaspace", "replacement": "_", "prepend_scheme": "first", "add_prefix_space": false})",
               "pre_tokenizer.prepend_scheme", "contradicts"},
        Change{pre_tokenizer, R"({"type": "Sequence", "pretokenizers": [{"type": "ByteLevel"}, {"type": "Digits"}]})",
               "pre_tokenizer.pretokenizers[1]", "after ByteLevel"},
        Change{pre_tokenizer, R"({"type": "Split", "pattern": {"Regex": "a"}, "behavior": "Dropped", "invert": false})",
               "pre_tokenizer.behavior", "'Dropped'"},
        Change{pre_tokenizer,
               R"({"type": "Split", "pattern": {"Regex": "(a"}, "behavior": "Isolated", "invert": false})",
               "pre_tokenizer.pattern.Regex", "does not compile"},
        Change{pre_tokenizer,
               R"({"type": "Split", "pattern": {"Regex": "\\w"}, "behavior": "Isolated", "invert": false})",
               "pre_tokenizer.pattern.Regex", "unknown escape"},
        Change{pre_tokenizer, R"({"type": "Split", "pattern": "a", "behavior": "Isolated", "invert": false})",
               "pre_tokenizer.pattern", "object"},
        Change{decoder, R"(null)", "decoder", "null"},
        Change{decoder, R"({"type": "WordPiece"})", "decoder.type", "'WordPiece'"},
        Change{decoder, R"({"type": "Sequence", "decoders": [{"type": "Fuse"}, {"type": "ByteFallback"}]})",
               "decoder.decoders[1]", "comes after Fuse"},
        Change{decoder, R"({"type": "Replace", "pattern": {"String": "_"}, "content": "long"})", "decoder.content",
               "longer than what it replaces"},
        Change{no_processor, R"("post_processor": {"type": "BertProcessing"})", "post_processor.type",
               "'BertProcessing'"},
        Change{no_processor,
               R"("post_processor": {"type": "TemplateProcessing", "single": [{"SpecialToken": {"id": "x"}},
                  {"Sequence": {"id": "A"}}], "pair": [], "special_tokens": {}})",
               "post_processor.special_tokens.x", "missing"},
        Change{no_processor,
               R"("post_processor": {"type": "TemplateProcessing", "single": [{"SpecialToken": {"id": "x"}},
                  {"Sequence": {"id": "A"}}], "pair": [],
                  "special_tokens": {"x": {"id": "x", "ids": [900], "tokens": ["x"]}}})",
               "post_processor.special_tokens.x.ids", "900 is not a token"},
        Change{no_processor,
               R"("post_processor": {"type": "TemplateProcessing", "single": [], "pair": [], "special_tokens": {}})",
               "post_processor.single", "sequence A once"}));

INSTANTIATE_TEST_SUITE_P(
    AddedTokens, BadJson,
    ::testing::Values(Change{R"("id": 259)", R"("id": -7)", "added_tokens[0].id", "-7"},
                      Change{R"("id": 259)", R"("id": 2147483648)", "added_tokens[0].id", "2147483648"},
                      Change{R"("id": 259)", R"("id": 97)", "added_tokens[0]", "contradicts the vocabulary"},
                      Change{R"("content": "<mark>")", R"("content": "ab")", "added_tokens[0]", "contradicts"},
                      Change{R"("content": "<mark>")", R"("content": "")", "added_tokens[0]", "is empty"},
                      Change{R"("lstrip": false)", R"("lstrip": "no")", "added_tokens[0].lstrip", "true or false"},
                      Change{R"("special": true})", R"("special": true}, {"id": 259, "content": "x",
                             "single_word": false, "lstrip": false, "rstrip": false, "normalized": false,
                             "special": true})",
                             "added_tokens[1]", "another added token"},
                      Change{R"("special": true})", R"("special": true}, {"id": 260, "content": "<mark>",
                             "single_word": false, "lstrip": false, "rstrip": false, "normalized": false,
                             "special": true})",
                             "added_tokens[1]", "repeats"}));

/// Merges of characters: the bytes as "<0x00>".."<0xFF>" 0..255, "<unk>" 256, then the characters and what they become.
std::string characters_json() {
  std::string bytes;
  for (int byte = 0; byte < 256; ++byte) {
    bytes += '"' + fallback_entry(static_cast<unsigned char>(byte)) + "\": " + std::to_string(byte) + ", ";
  }
  return R"({
"added_tokens": [{"id": 256, "content": "<unk>", "single_word": false, "lstrip": false, "rstrip": false,
                  "normalized": false, "special": true}],
"normalizer": {"type": "Replace", "pattern": {"String": " "}, "content": "\u2581"},
"pre_tokenizer": null,
"decoder": {"type": "Sequence", "decoders": [{"type": "Replace", "pattern": {"String": "\u2581"}, "content": " "},
            {"type": "ByteFallback"}, {"type": "Fuse"}]},
"model": {"type": "BPE", "unk_token": "<unk>", "byte_fallback": true,
          "vocab": {)" +
         bytes + R"("<unk>": 256, "\u2581": 257, "a": 258, "b": 259, "ab": 260, "\u2581a": 261,
                    "<": 262, ">": 263, "0": 264, "x": 265, "4": 266, "1": 267, "0x": 268, "0x4": 269, "0x41": 270,
                    "0x41>": 271, "u": 272, "n": 273, "k": 274, "un": 275, "unk": 276, "unk>": 277},
          "merges": [["a", "b"], ["\u2581", "a"], ["0", "x"], ["0x", "4"], ["0x4", "1"], ["0x41", ">"],
                     ["<", "0x41>"], ["u", "n"], ["un", "k"], ["unk", ">"], ["<", "unk>"]]}
})";
}

TEST(TokenizerJson, MergesCharactersAndSpellsTheRestInBytes) {
  const Tokenizer tokenizer = test::load_json(characters_json());
  EXPECT_THAT(tokenizer.encode("ab a\u00E9"), ElementsAre(260, 261, 0xC3, 0xA9));
  EXPECT_EQ(tokenizer.decode(std::vector<Token>{261, 0xC3, 0xA9, 0xC3}), " a\u00E9\uFFFD");
}

TEST(TokenizerJson, TextIsNeverMergedToAByteOrASpecialToken) {
  const Tokenizer tokenizer = test::load_json(characters_json());
  EXPECT_THAT(tokenizer.encode("<0x41>"), ElementsAre(262, 271));
  EXPECT_THAT(tokenizer.encode("<unk>"), ElementsAre(262, 277));
}

TEST(TokenizerJson, NamesWhatAVocabularyOfCharactersLacks) {
  const auto error = [](std::string_view from, std::string_view to) {
    return test::error_of([&] { test::load_json(test::replaced(characters_json(), from, to)); });
  };
  EXPECT_THAT(error("\"<0x7F>\": 127, ", ""), HasSubstr("model.vocab: has no entry '<0x7F>'"));
  EXPECT_THAT(error(R"("unk_token": "<unk>")", R"("unk_token": "<no>")"), HasSubstr("model.unk_token: '<no>' is not"));
  EXPECT_THAT(error(R"(["a", "b"])", R"(["a", "\u4E16"])"), HasSubstr("model.merges[0]"));
}

/// A unigram model: "<unk>" 0, "▁" 1, "a" 2, "ab" 3, "▁a" 4, "<s>" 5.
std::string unigram_json() {
  return R"({
"added_tokens": [{"id": 5, "content": "<s>", "single_word": false, "lstrip": false, "rstrip": false,
                  "normalized": false, "special": true}],
"normalizer": null,
"pre_tokenizer": {"type": "Metaspace", "replacement": "\u2581", "add_prefix_space": true},
"decoder": {"type": "Metaspace", "replacement": "\u2581", "add_prefix_space": true},
"model": {"type": "Unigram", "unk_id": 0,
          "vocab": [["<unk>", 0.0], ["\u2581", -2.0], ["a", -3.0], ["ab", -1.5], ["\u2581a", -2.5], ["<s>", 0.0]]}
})";
}

TEST(TokenizerJson, ReadsUnigramModels) {
  const Tokenizer tokenizer = test::load_json(unigram_json());
  EXPECT_THAT(tokenizer.encode("ab a"), ElementsAre(1, 3, 4));
  EXPECT_THAT(tokenizer.encode("zz<s>"), ElementsAre(1, 0));  // not the BOS, although its score is the best
  EXPECT_THAT(tokenizer.encode("a<s>", true, true), ElementsAre(4, 5));
  EXPECT_EQ(tokenizer.decode(std::vector<Token>{1, 3, 4}), "ab a");
}

TEST(TokenizerJson, NamesWhatIsInvalidInAUnigramModel) {
  const auto error = [](std::string_view from, std::string_view to) {
    return test::error_of([&] { test::load_json(test::replaced(unigram_json(), from, to)); });
  };
  EXPECT_THAT(error(R"("unk_id": 0)", R"("unk_id": 6)"), HasSubstr("model.unk_id"));
  EXPECT_THAT(error(R"(["a", -3.0])", R"(["a"])"), HasSubstr("model.vocab[2]: is not a pair"));
  EXPECT_THAT(error(R"(["a", -3.0])", R"(["a", "b"])"), HasSubstr("model.vocab[2][1]"));
  EXPECT_THAT(error(R"(["a", -3.0])", R"(["ab", -3.0])"), HasSubstr("model.vocab[3]: the entry of id 3 has another"));
  EXPECT_THAT(error(R"("unk_id": 0)", R"("dropout": 0)"), HasSubstr("'dropout'"));
  const std::string strict = test::replaced(unigram_json(), R"("unk_id": 0,)", "");
  EXPECT_THAT(test::error_of([&] { test::load_json(strict).encode("z"); }),
              HasSubstr("model.vocab: has no entry for 'z'"));
}

TEST(TokenizerJson, RejectsFilesThatAreNotTokenizers) {
  for (const char* text : {"", "[]", "7", "{}", "{\"model\": 3}", "{\"model\": {}}", "\xFF"}) {
    EXPECT_THAT(test::error_of([&] { test::load_json(text); }), HasSubstr("tokenizer.json")) << text;
  }
  EXPECT_THAT(test::error_of([] { Tokenizer::load("nowhere/tokenizer.json"); }), HasSubstr("nowhere"));
}

TEST(Limits, OfTokenizerFiles) {
  const test::Folder folder;
  for (const auto& [name, what] : {std::pair("tokenizer.json", "268435457 bytes"), {"tokenizer.model", "256 MiB"}}) {
    const std::filesystem::path file = folder.path() / name;
    std::ofstream(file) << "{";
    std::filesystem::resize_file(file, (std::uintmax_t{1} << 28) + 1);  // sparse
    EXPECT_THAT(test::error_of([&] { Tokenizer::load(file); }), HasSubstr(what));
  }
}

TEST(TokenizerJson, RejectsLongAddedTokens) {
  const std::string json = test::replaced(test::small_json(), "<mark>", std::string(5000, 'x'));
  EXPECT_THAT(test::error_of([&] { test::load_json(json); }),
              HasSubstr("added_tokens[0]: the entry of id 259 is longer than 4096 bytes"));
}

TEST(TokenizerJson, AMissingByteIsAnErrorOnlyForTextsThatContainIt) {
  const Tokenizer tokenizer = test::load_json(test::replaced(test::small_json(), R"("z": 122, )", ""));
  EXPECT_THAT(tokenizer.encode("xy"), ElementsAre('x', 'y'));
  const std::string error = test::error_of([&] { tokenizer.encode("xyz"); });
  EXPECT_THAT(error, HasSubstr("tokenizer.json: field model.vocab: has no entry 'z' for byte 122"));
  EXPECT_EQ(tokenizer.bytes_of('z'), "");  // an unused id
}

TEST(TokenizerJson, AcceptsAnUnknownTokenOnlyWhenNoByteIsMissing) {
  const std::string json = test::replaced(test::small_json(), R"("unk_token": null)", R"("unk_token": "ab")");
  EXPECT_THAT(test::load_json(json).encode("abc"), ElementsAre(257));
  EXPECT_THAT(test::error_of([&] { test::load_json(test::replaced(json, R"("z": 122, )", "")); }),
              HasSubstr("model.unk_token"));
}

TEST(TokenizerJson, ReadsOlderForms) {
  std::string json = test::replaced(test::small_json(), R"("type": "BPE", )", "");
  json = test::replaced(json, merges, R"(["a b", "ab c", "Ġ a"])");
  EXPECT_THAT(test::load_json(json).encode("abc a"), ElementsAre(257, 258));
}

TEST(TokenizerJson, PutsASpaceBeforeEveryPieceWithoutOne) {
  std::string json = test::replaced(test::small_json(), R"("add_prefix_space": false)", R"("add_prefix_space": true)");
  EXPECT_THAT(test::load_json(json).encode("a<mark>a", true, true), ElementsAre(258, 259, 258));
  EXPECT_THAT(test::load_json(json).encode(""), ElementsAre());
  json = test::replaced(test::small_json(), pre_tokenizer, R"({"type": "Sequence", "pretokenizers": [
    {"type": "Split", "pattern": {"String": "."}, "behavior": "Isolated", "invert": false},
    {"type": "Digits", "individual_digits": true},
    {"type": "ByteLevel", "add_prefix_space": true, "use_regex": false}]})");
  EXPECT_THAT(test::load_json(json).encode("a.12"), ElementsAre(258, ' ', '.', ' ', '1', ' ', '2'));
}

TEST(TokenizerJson, AddsTheSpecialTokensOfTheTemplates) {
  const std::string json = test::replaced(test::small_json(), no_processor, R"("post_processor": {
    "type": "Sequence", "processors": [{"type": "ByteLevel"}, {"type": "TemplateProcessing",
    "single": [{"SpecialToken": {"id": "m", "type_id": 0}}, {"Sequence": {"id": "A", "type_id": 0}},
               {"SpecialToken": {"id": "m", "type_id": 0}}], "pair": [],
    "special_tokens": {"m": {"id": "m", "ids": [259, 256], "tokens": ["<mark>", "ab"]}}}]})");
  const Tokenizer tokenizer = test::load_json(json);
  EXPECT_THAT(tokenizer.encode("x"), ElementsAre(259, 256, 'x', 259, 256));
  EXPECT_THAT(tokenizer.encode("x", false), ElementsAre('x'));
}

}  // namespace
}  // namespace draftproof::tokenizer_json_test
