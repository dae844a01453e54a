// SPDX-License-Identifier: MIT
// Files of tokens that are made of texts, and the drafts that read them.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <map>
#include <nlohmann/json.hpp>

#include "ref/drafts/lookup_file.h"
#include "ref/text/tokenizer.h"
#include "tests/tools/command.h"

namespace draftproof::test::corpus_test {
namespace {

using nlohmann::json;
using testing::HasSubstr;

const std::string target = fixture("models/tale-target");

struct Texts {
  Folder folder;
  std::string first = (folder.path() / "first.txt").string();
  std::string second = (folder.path() / "second.txt").string();
  std::string out = (folder.path() / "out.bin").string();

  Texts() {
    put(first, "Once upon a time there was a king. Once upon a time there was a queen.");
    put(second, "Once upon a hill");
  }
  std::vector<Token> tokens(const std::string& file) const { return Tokenizer::load(target).encode(text_of(file)); }
};

std::vector<Token> numbers_in(const std::string& file) {
  const std::string bytes = text_of(file);
  std::vector<Token> numbers(bytes.size() / sizeof(Token));
  std::copy(bytes.begin(), bytes.end(), reinterpret_cast<char*>(numbers.data()));
  return numbers;
}

TEST(Corpus, ForSuffixHoldsTheTokensOfTheTextsWithASeparatorBetweenThem) {
  const Texts texts;
  const Outcome outcome =
      run_command({"corpus", target, texts.first, texts.second, "--for", "suffix", "--out", texts.out});
  EXPECT_EQ(outcome.status, 0) << outcome.err;
  std::vector<Token> expected = texts.tokens(texts.first);
  const std::vector<Token> second = texts.tokens(texts.second);
  const std::size_t tokens = expected.size() + second.size();
  EXPECT_EQ(outcome.out, texts.out + ": for suffix, " + std::to_string(tokens) + " tokens of 2 texts\n");
  expected.push_back(-1);
  expected.insert(expected.end(), second.begin(), second.end());
  EXPECT_EQ(numbers_in(texts.out), expected);
}

TEST(Corpus, WithAnIndexIsReadBySuffixAndGivesTheSameDraftTokens) {
  const Texts texts;
  const std::string indexed = (texts.folder.path() / "indexed.bin").string();
  for (const std::string& out : {texts.out, indexed}) {
    std::vector<std::string> words = {"corpus", target, texts.first, texts.second, "--for", "suffix", "--out", out};
    if (out == indexed) words.emplace_back("--index");
    ASSERT_EQ(run_command(words).status, 0);
  }
  const auto drafted = [](const std::string& file) {
    const Outcome outcome = run_command({"generate", target, "--prompt", "Once upon", "-n", "24", "--draft",
                                         "suffix:" + file, "--draft-max", "8", "--json", "-", "--quiet"});
    return json::parse(outcome.out)["statistics"]["drafted"].get<int>();
  };
  EXPECT_GT(drafted(indexed), 0);
  EXPECT_EQ(drafted(indexed), drafted(texts.out));
  EXPECT_THAT(run_command({"generate", target, "--prompt", "Once", "--draft", "suffix:" + indexed + "?legacy=1"}).err,
              HasSubstr("make a corpus without --index"));
  EXPECT_THAT(run_command({"corpus", target, texts.first, "--for", "ngram-cache", "--index", "--out", texts.out}).err,
              HasSubstr("--index is for the draft suffix"));
}

TEST(LookupUpdate, CountsTheTextOfEveryRunIntoTheFileThatNgramCacheReads) {
  const Texts texts;
  const std::string& file = texts.out;
  std::vector<Token> text;
  for (int run = 1; run <= 2; ++run) {
    const Outcome outcome =
        run_command({"generate", target, "--prompt", "Once upon a time", "-n", "12", "--lookup-update", file, "--draft",
                     run == 1 ? "ngram-cache" : "ngram-cache:" + file, "--json", "-", "--quiet"});
    ASSERT_EQ(outcome.status, 0) << outcome.err;
    text = Tokenizer::load(target).encode("Once upon a time");
    const json said = json::parse(outcome.out);
    for (const json& token : said["tokens"]) text.push_back(token);
    std::map<std::vector<Token>, int> expected;
    for (std::size_t i = 2; i < text.size(); ++i) expected[{text[i - 2], text[i - 1], text[i]}] += run;
    std::map<std::vector<Token>, int> counted;
    for (const NgramCounts::Row& row : read_lookup_file(file, 1 << 20).sorted()) {
      counted[{row.ngram.places()[0], row.ngram.places()[1], row.token}] = row.count;
    }
    EXPECT_EQ(counted, expected) << run;
  }
  put(file, "no counts");
  const Outcome damaged =
      run_command({"generate", target, "--prompt", "Once", "-n", "4", "--lookup-update", file, "--quiet"});
  EXPECT_EQ(damaged.status, 3);
  EXPECT_THAT(damaged.err, HasSubstr(file));
  EXPECT_EQ(text_of(file), "no counts") << "it is left as it was";
}

TEST(Corpus, ForNgramCacheHoldsWhatFollowedTwoTokensOfOneText) {
  const Texts texts;
  const Outcome outcome =
      run_command({"corpus", "-m", target, texts.first, texts.second, "--for", "ngram-cache", "--out", texts.out});
  EXPECT_EQ(outcome.status, 0) << outcome.err;
  std::map<std::vector<Token>, int> expected;
  for (const std::string& file : {texts.first, texts.second}) {
    const std::vector<Token> text = texts.tokens(file);
    for (std::size_t i = 2; i < text.size(); ++i) ++expected[{text[i - 2], text[i - 1], text[i]}];
  }
  const NgramCounts counts = read_lookup_file(texts.out, Tokenizer::load(target).vocabulary());
  EXPECT_EQ(counts.sorted().size(), expected.size());
  int max = 0;
  for (const auto& [tokens, count] : expected) {
    EXPECT_EQ(counts.count(Ngram(std::span(tokens).first(2)), tokens[2]), count);
    max = std::max(max, count);
  }
  EXPECT_EQ(max, 2);
}

TEST(Corpus, GivesADraftTokensThatAreAccepted) {
  const Texts texts;
  const std::vector<std::string> words = {"generate", target,   "--prompt", "Everybody in Marl knew", "-n", "24",
                                          "--quiet",  "--json", "-"};
  const auto told = [&](const std::string& draft) {
    std::vector<std::string> more = words;
    more.insert(more.end(), {"--draft", draft, "--draft-max", "8"});
    const Outcome outcome = run_command(more);
    EXPECT_EQ(outcome.status, 0) << outcome.err;
    return json::parse(outcome.out, nullptr, false);
  };
  const json plain = told("none");
  put(texts.first, "Everybody in Marl knew" + plain["text"].get<std::string>());
  put(texts.second, text_of(texts.first));
  for (const std::string kind : {"suffix", "ngram-cache"}) {
    ASSERT_EQ(run_command({"corpus", target, texts.first, texts.second, "--for", kind, "--out", texts.out}).status, 0);
    const json drafted = told(kind + ":" + texts.out);
    EXPECT_EQ(drafted["tokens"], plain["tokens"]) << kind;
    EXPECT_GT(drafted["statistics"]["accepted"], 12) << kind;
  }
}

TEST(Corpus, OfBadInputIsOneMessageAndLeavesTheOldFile) {
  const Texts texts;
  put(texts.out, "old");
  const std::string bad = (texts.folder.path() / "bad").string();
  put(bad, "\xff\xfe");
  const std::string empty = (texts.folder.path() / "empty").string();
  put(empty, "");
  const std::string brief = (texts.folder.path() / "brief").string();
  put(brief, "a");
  struct Case {
    std::vector<std::string> words;
    std::string message;
  };
  for (const Case& c :
       std::vector<Case>{{{target, texts.first, bad, "--for", "suffix"}, bad + ": the text to encode is not UTF-8"},
                         {{target, empty, "--for", "suffix"}, empty + ": is empty"},
                         {{target, texts.first + "x", "--for", "suffix"}, texts.first + "x"},
                         {{target, brief, "--for", "ngram-cache"}, "no text has three tokens"},
                         {{fixture("external/qwen3-tiny-tied"), texts.first, "--for", "suffix"}, "has no tokenizer"},
                         {{target, texts.first, "--for", "dflash"}, "--for: 'dflash' is none of suffix, ngram-cache"},
                         {{target, texts.out, "--for", "suffix"}, "would overwrite an input"},
                         {{target, "--for", "suffix"}, "FILE"}}) {
    std::vector<std::string> words = {"corpus", "--out", texts.out};
    words.insert(words.end(), c.words.begin(), c.words.end());
    const Outcome outcome = run_command(words);
    EXPECT_EQ(outcome.status, 3);
    EXPECT_EQ(outcome.out, "");
    EXPECT_THAT(outcome.err, HasSubstr(c.message));
    EXPECT_EQ(text_of(texts.out), "old") << c.message;
  }
  for (const auto& entry : files::directory_iterator(texts.folder.path())) {
    EXPECT_THAT(entry.path().filename().string(), testing::Not(HasSubstr("partial")));
  }
}

}  // namespace
}  // namespace draftproof::test::corpus_test
