// SPDX-License-Identifier: MIT
#include "ref/drafts/lookup_file.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <map>

#include "ref/base/error.h"
#include "tests/drafts/lookup_files.h"
#include "tests/drafts/texts.h"

namespace draftproof::lookup_file_test {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;

constexpr int vocabulary = 10;

const auto unweighted = [](Token) { return 1; };

/// The counts of all n-grams of a text.
NgramCounts counts_of(const Text& text) {
  NgramCounts counts;
  for (std::size_t i = 0; i < text.size(); ++i) {
    for (int n = 1; n <= Ngram::n_max && static_cast<std::size_t>(n) <= i; ++n) {
      counts.make_room(1);
      counts.add(Ngram(text, i, n), text[i], 1, unweighted);
    }
  }
  return counts;
}

TEST(NgramCounts, AreThoseOfLoopsOverTheText) {
  for (std::uint32_t seed = 1; seed <= 20; ++seed) {
    const Text text = random_text(200, 1 + seed % 5, seed);
    const NgramCounts counts = counts_of(text);
    std::map<Text, std::map<Token, int>> expected;
    for (std::size_t i = 0; i < text.size(); ++i) {
      for (std::size_t n = 1; n <= std::min<std::size_t>(4, i); ++n) {
        const auto end = text.begin() + static_cast<std::ptrdiff_t>(i);
        ++expected[Text(end - static_cast<std::ptrdiff_t>(n), end)][text[i]];
      }
    }
    std::size_t pairs = 0;
    for (const auto& [ngram, continuations] : expected) {
      int total = 0;
      Token best = continuations.begin()->first;
      for (const auto& [token, count] : continuations) {
        EXPECT_EQ(counts.count(Ngram(ngram), token), count);
        total += count;
        if (count > continuations.at(best)) best = token;
        ++pairs;
      }
      const NgramCounts::Continuations* const found = counts.find(Ngram(ngram));
      ASSERT_NE(found, nullptr);
      EXPECT_EQ(found->key.n(), static_cast<int>(ngram.size()));
      EXPECT_EQ(found->total, total);
      EXPECT_EQ(found->best, best) << "the smallest of several";
      EXPECT_EQ(found->best_count, continuations.at(best));
    }
    EXPECT_EQ(counts.sorted().size(), pairs);
    EXPECT_EQ(counts.find(Ngram(Text{9})), nullptr);
    EXPECT_EQ(counts.count(Ngram(Text{0}), 9), 0);
  }
}

TEST(NgramCounts, CompareProductsOfTheLargestCountsExactly) {
  constexpr int max = 2147483647;
  constexpr std::uint64_t heaviest = 100 * std::uint64_t{2147483647};
  EXPECT_TRUE(NgramCounts::better(1, max, heaviest, 2, max - 1, heaviest));
  EXPECT_FALSE(NgramCounts::better(1, max - 1, heaviest, 2, max, heaviest));
  EXPECT_TRUE(NgramCounts::better(9, max, heaviest, 2, max, heaviest - 1));
  EXPECT_TRUE(NgramCounts::better(1, max, heaviest, 2, max, heaviest)) << "the smaller token";
  EXPECT_FALSE(NgramCounts::better(2, max, heaviest, 1, max, heaviest));
}

TEST(LookupFile, HasTheLayoutOfLlamaCppInTheOrderOfTokens) {
  NgramCounts counts;
  for (const auto& [ngram, token, count] : {std::tuple(Text{7, 2}, 5, 1), std::tuple(Text{3}, 4, 300),
                                            std::tuple(Text{7, 2}, 1, 2), std::tuple(Text{1, 2, 3, 4}, 0, 9)}) {
    counts.make_room(1);
    counts.add(Ngram(ngram), token, count, unweighted);
  }
  const std::vector<std::int32_t> expected = {1, 2,  3,  4,  1, 0, 9,           // 1 2 3 4: 0 nine times
                                              3, -1, -1, -1, 1, 4, 300,         // 3: 4
                                              7, 2,  -1, -1, 2, 1, 2,   5, 1};  // 7 2: 1 twice, 5 once
  EXPECT_EQ(bytes_of(counts), std::string(reinterpret_cast<const char*>(expected.data()), 4 * expected.size()));
}

TEST(LookupFile, IsReadAsItWasWritten) {
  const test::Folder folder;
  const std::filesystem::path file = folder.path() / "lookup.bin";
  for (std::uint32_t seed = 1; seed <= 10; ++seed) {
    const std::string written = bytes_of(counts_of(random_text(300, 1 + seed % vocabulary, seed)));
    test::put(file, written);
    const NgramCounts read = read_lookup_file(file, vocabulary);
    EXPECT_EQ(bytes_of(read), written);
    EXPECT_LE(read.bytes(), memory_of_lookup_file(file) + 4096);
  }
}

TEST(LookupFile, IsReadInAnyOrder) {
  const test::Folder folder;
  const std::string ordered = bytes_of(read_lookup_file(file_of(folder, {1, 2, -1, -1, 2, 3, 1, 4, 1,  //
                                                                         7, -1, -1, -1, 1, 0, 2}),
                                                        vocabulary));
  const std::string other = bytes_of(read_lookup_file(file_of(folder, {7, -1, -1, -1, 1, 0, 2,  //
                                                                       1, 2, -1, -1, 2, 4, 1, 3, 1}),
                                                      vocabulary));
  EXPECT_EQ(ordered, other);
}

std::string error_of(const std::filesystem::path& file) {
  try {
    read_lookup_file(file, vocabulary);
  } catch (const Error& error) {
    return error.what();
  }
  return "";
}

TEST(LookupFile, ThatIsDamagedIsAnErrorThatNamesItAndTheOffset) {
  const test::Folder folder;
  const std::filesystem::path file = folder.path() / "lookup.bin";
  EXPECT_THAT(error_of(file), AllOf(HasSubstr(file.string()), HasSubstr("cannot be found")));
  EXPECT_THAT(error_of(folder.path()), HasSubstr("is not a file"));
  test::put(file, "");
  EXPECT_THAT(error_of(file), AllOf(HasSubstr(file.string() + ": is empty"), HasSubstr("int32")));
  test::put(file, std::string(30, '\0'));
  EXPECT_THAT(error_of(file), HasSubstr("ends within a token, at offset 28"));
  struct Row {
    std::vector<std::int32_t> numbers;
    const char* message;
  };
  for (const Row& row : std::vector<Row>{
           {{10, 2, -1, -1, 1, 0, 1},
            "10 in an n-gram is not one of the target\'s 10 tokens, before any -1, at offset 0"},
           {{-1, -1, -1, -1, 1, 0, 1},
            "-1 in an n-gram is not one of the target\'s 10 tokens, before any -1, at offset 0"},
           {{1, -1, 2, -1, 1, 0, 1},
            "2 in an n-gram is not one of the target\'s 10 tokens, before any -1, at offset 8"},
           {{1, -2, -1, -1, 1, 0, 1},
            "-2 in an n-gram is not one of the target\'s 10 tokens, before any -1, at offset 4"},
           {{1, 2, -1}, "ends within an n-gram, at offset 12"},
           {{1, 2, -1, -1}, "ends within an n-gram, at offset 16"},
           {{1, 2, -1, -1, 0}, "0 tokens follow an n-gram, at offset 16"},
           {{1, 2, -1, -1, -5}, "-5 tokens follow an n-gram, at offset 16"},
           {{1, 2, -1, -1, 2147483647, 0, 1}, "the file ends before the 2147483647 tokens that follow"},
           {{1, 2, -1, -1, 1, 0}, "the file ends before the 1 tokens that follow an n-gram, at offset 16"},
           {{1, 2, -1, -1, 1, 10, 1}, "10 is not one of the target's 10 tokens, at offset 20"},
           {{1, 2, -1, -1, 1, -1, 1}, "-1 is not one of the target's 10 tokens, at offset 20"},
           {{1, 2, -1, -1, 1, 0, 0}, "a token followed an n-gram 0 times, at offset 24"},
           {{1, 2, -1, -1, 1, 0, -1}, "a token followed an n-gram -1 times, at offset 24"},
           {{1, 2, -1, -1, 2, 5, 1, 5, 1}, "5 follows an n-gram twice, at offset 28"},
           {{1, -1, -1, -1, 1, 0, 1, 1, -1, -1, -1, 1, 3, 1}, "the n-gram that ends here is given twice, at offset 40"},
       }) {
    file_of(folder, row.numbers);
    EXPECT_THAT(error_of(file), AllOf(HasSubstr(file.string() + ": "), HasSubstr(row.message),
                                      HasSubstr("give a lookup file that was made with the target's tokenizer")));
  }
  std::filesystem::resize_file(file, lookup_file_max + 4);
  EXPECT_THAT(error_of(file), AllOf(HasSubstr("1073741828 bytes"), HasSubstr("at most 1073741824")));
}

/// Returns whether the bytes are read, and then checks that they say what is read. What is not read is an Error.
bool is_read(const std::filesystem::path& file, const std::string& bytes) {
  test::put(file, bytes);
  try {
    const NgramCounts counts = read_lookup_file(file, vocabulary);
    EXPECT_EQ(bytes_of(counts).size(), bytes.size());
    return true;
  } catch (const Error& error) {
    EXPECT_THAT(error.what(), HasSubstr(file.string()));
    return false;
  }
}

/// Damages every byte of a small file by some changes or all. Returns how many of the files are read.
int read_when_damaged(const std::vector<int>& changes) {
  const test::Folder folder;
  const std::string whole = bytes_of(counts_of({1, 2, 1, 3}));
  int read = 0;
  for (std::size_t i = 0; i < whole.size(); ++i) {
    for (const int change : changes) {
      std::string damaged = whole;
      damaged[i] = static_cast<char>(damaged[i] ^ change);
      read += is_read(folder.path() / "lookup.bin", damaged) ? 1 : 0;
    }
  }
  return read;
}

TEST(LookupFile, WithAnyDamagedByteIsAnotherFileOrAnError) {
  EXPECT_GT(read_when_damaged({1, 4, 128}), 50) << "counts and tokens may have other values";
}

TEST(LookupFileSlow, WithAnyFlippedBitIsAnotherFileOrAnError) {
  EXPECT_GT(read_when_damaged({1, 2, 4, 8, 16, 32, 64, 128}), 100);
}

TEST(LookupFileSweep, WithAnyDamageOfAByteIsAnotherFileOrAnError) {
  std::vector<int> changes;
  for (int change = 1; change < 256; ++change) changes.push_back(change);
  EXPECT_GT(read_when_damaged(changes), 2000);
}

TEST(LookupFile, ThatEndsEarlyIsAnErrorUnlessItEndsAfterAnNgram) {
  const test::Folder folder;
  const std::string whole = bytes_of(counts_of({1, 2, 1, 3}));
  int read = 0;
  for (std::size_t length = 1; length < whole.size(); ++length) {
    read += is_read(folder.path() / "lookup.bin", whole.substr(0, length)) ? 1 : 0;
  }
  EXPECT_EQ(read, 4) << "of 5 n-grams";
}

}  // namespace
}  // namespace draftproof::lookup_file_test
