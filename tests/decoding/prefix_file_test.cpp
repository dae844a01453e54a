// SPDX-License-Identifier: MIT
#include "ref/decoding/prefix_file.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <functional>
#include <iterator>
#include <limits>
#include <string>
#include <vector>

#include "ref/base/error.h"
#include "tests/decoding/prefix_parts.h"
#include "tests/folder.h"

namespace draftproof::prefix_file_test {
namespace {

using prefix_parts::FileParts;
using testing::AllOf;
using testing::HasSubstr;
using testing::StartsWith;
using texts::Both;
using texts::Text;

constexpr std::size_t unlimited = std::size_t{1} << 40;

std::string error_of(const std::function<void()>& action) {
  try {
    action();
  } catch (const Error& error) {
    return error.what();
  }
  return "";
}

class PrefixFile : public testing::Test {
 protected:
  PrefixFile() {
    prefix_parts::fill(prefixes_);
    save_prefix_cache(prefixes_, prefix_parts::origin(), file_);
  }

  /// What is said when the file is loaded; nothing is loaded then.
  std::string refusal() const {
    PrefixCache other(unlimited);
    const std::string error = error_of([&] { prefix_parts::load(other, file_); });
    EXPECT_EQ(other.nodes().empty(), !error.empty());
    EXPECT_TRUE(error.empty() || error.starts_with(file_.string())) << error;
    return error;
  }

  /// The same for a file put together with one thing changed, under a right hash.
  std::string refusal_of(const std::function<void(FileParts&)>& change) {
    FileParts parts(file_);
    const FileParts good = parts;
    change(parts);
    parts.write(file_);
    const std::string error = refusal();
    good.write(file_);
    return error;
  }

  const test::Folder folder_;
  const std::filesystem::path file_ = folder_.path() / "prefixes.h5";
  PrefixCache prefixes_{unlimited};
};

TEST_F(PrefixFile, BringsEverythingBack) {
  PrefixCache other(unlimited);
  prefix_parts::load(other, file_);
  EXPECT_EQ(other.bytes(), prefixes_.bytes());
  EXPECT_EQ(other.nodes().size(), prefixes_.nodes().size());
  for (const Text& text : prefix_parts::sample_texts()) {
    const int length = static_cast<int>(text.size());
    for (int limit = 0; limit <= length; ++limit) {
      const PrefixCache::Lease lease = other.find(text, limit, {"target", "draft"});
      EXPECT_EQ(lease.length(), prefixes_.find(text, limit, {"target", "draft"}).length());
      Both warm;
      other.restore(lease, warm.parts());
      Both cold(Text(text.begin(), text.begin() + lease.length()));
      EXPECT_EQ(warm.target.digest(), cold.target.digest());
      EXPECT_EQ(warm.draft.digest(), cold.draft.digest());
    }
    EXPECT_EQ(other.find(text, length, {"target", "draft"}).length(), length);
  }
  const std::filesystem::path again = folder_.path() / "again.h5";
  PrefixCache third(unlimited);
  prefix_parts::load(third, file_);
  save_prefix_cache(third, prefix_parts::origin(), again);
  EXPECT_EQ(test::text_of(again), test::text_of(file_)) << "equal content gives equal files";
}

TEST_F(PrefixFile, OfAnEmptyPrefixCacheIsEmpty) {
  save_prefix_cache(PrefixCache(unlimited), prefix_parts::origin(), file_);
  PrefixCache other(unlimited);
  prefix_parts::load(other, file_);
  EXPECT_TRUE(other.nodes().empty());
}

TEST_F(PrefixFile, IsCutToTheBudget) {
  PrefixCache small(prefixes_.bytes() / 3);
  prefix_parts::load(small, file_);
  EXPECT_LE(small.bytes(), small.budget());
  EXPECT_GT(small.bytes(), 0U);
}

TEST_F(PrefixFile, LeavesOutPartsThatAreNotAskedFor) {
  PrefixCache other(unlimited);
  Both both;
  load_prefix_cache(other, prefix_parts::origin(), {{"target", &both.target}}, file_);
  EXPECT_EQ(other.find(Text{7, 7}, 2, {"target"}).length(), 2);
  EXPECT_EQ(other.find(Text{7, 7}, 2, {"draft"}).length(), 0);
  EXPECT_LT(other.bytes(), prefixes_.bytes());
}

TEST_F(PrefixFile, OfAnotherOriginIsRefused) {
  PrefixCache other(unlimited);
  Both both;
  EXPECT_THAT(error_of([&] {
                load_prefix_cache(other, {"other model", "canonical q8"}, both.parts(), file_);
              }),
              AllOf(StartsWith(file_.string()), HasSubstr("'model' is 'some model'"), HasSubstr("delete the file")));
  EXPECT_THAT(error_of([&] {
                load_prefix_cache(other, {"some model", "bf16"}, both.parts(), file_);
              }),
              AllOf(StartsWith(file_.string()), HasSubstr("'numerics' is 'canonical q8'")));
  EXPECT_THAT(refusal_of([](FileParts& parts) {
                parts.texts[{"/", "schema"}] = "draftproof.prefix_cache/0";
              }),
              HasSubstr("'schema' is 'draftproof.prefix_cache/0'"));
  EXPECT_TRUE(other.nodes().empty());
}

TEST_F(PrefixFile, OfCachesOfOtherKindsIsRefused) {
  PrefixCache other(unlimited);
  for (const texts::Windows windows : {texts::Windows{2, 4}, texts::Windows{3, 0}}) {
    Both both({}, windows);
    EXPECT_THAT(error_of([&] { load_prefix_cache(other, prefix_parts::origin(), both.parts(), file_); }),
                HasSubstr("does not fit the caches of this model"));
  }
  Both both;
  EXPECT_THAT(
      error_of([&] {
        load_prefix_cache(other, prefix_parts::origin(), {{"target", &both.draft}, {"draft", &both.target}}, file_);
      }),
      HasSubstr("does not fit the caches of this model"));
}

TEST_F(PrefixFile, ThatIsMissingOrNoneIsRefused) {
  std::filesystem::remove(file_);
  EXPECT_THAT(refusal(), HasSubstr("no such file"));
  test::put(file_, "");
  EXPECT_THAT(refusal(), HasSubstr("not an HDF5 file"));
  std::filesystem::remove(file_);
  std::filesystem::create_directory(file_);
  EXPECT_NE(refusal(), "");
}

TEST_F(PrefixFile, CutShortAnywhereIsRefused) {
  const std::string good = test::text_of(file_);
  for (std::size_t size = 0; size < good.size(); size += 1 + size / 31) {
    test::put(file_, good.substr(0, size));
    EXPECT_NE(refusal(), "") << size;
  }
  test::put(file_, good.substr(0, good.size() - 1));
  EXPECT_NE(refusal(), "");
  test::put(file_, good + "x");
  EXPECT_NE(refusal(), "");
}

TEST_F(PrefixFile, WithOneBitChangedIsRefused) {
  const std::string good = test::text_of(file_);
  for (std::size_t bit = 0; bit < good.size() * 8; bit += bit < 256 ? 1 : 401) {
    std::string bytes = good;
    bytes[bit / 8] = static_cast<char>(bytes[bit / 8] ^ 1 << bit % 8);
    test::put(file_, bytes);
    EXPECT_NE(refusal(), "") << bit;
  }
}

using PrefixFileSlow = PrefixFile;

TEST_F(PrefixFileSlow, WithWrongNumbersUnderARightHashIsRefused) {
  constexpr auto max = std::numeric_limits<std::int64_t>::max();
  constexpr auto min = std::numeric_limits<std::int64_t>::min();
  // Every number that says where something is or how large it is.
  for (const char* path : {"nodes", "0/snapshots", "1/snapshots", "parts"}) {
    const std::size_t count = FileParts(file_).integers(path).size();
    for (std::size_t i = 0; i < count; ++i) {
      const bool use = std::string(path) == "nodes" && i % 3 == 2;  // any number that is not below 0 will do
      const std::int64_t wrongs[] = {max, min, -2, std::int64_t{1} << 32};
      for (std::size_t n = 0; n < std::size(wrongs); ++n) {
        const std::int64_t wrong = wrongs[n];
        if ((use && wrong >= 0) || (i > 12 && i % std::size(wrongs) != n)) continue;
        EXPECT_NE(refusal_of([&](FileParts& parts) { parts.integers(path)[i] = wrong; }), "")
            << path << " " << i << " " << wrong;
      }
    }
  }
}

TEST_F(PrefixFile, WithArraysThatAreMissingSwappedOrOfAnotherSizeIsRefused) {
  const FileParts good(file_);
  for (const auto& [path, array] : good.arrays) {
    EXPECT_NE(refusal_of([&](FileParts& parts) { parts.arrays.erase(path); }), "") << path;
    EXPECT_NE(refusal_of([&](FileParts& parts) { parts.arrays[path] = Array<double>{{1}, {0.5}}; }), "") << path;
    if (path == "parts") continue;  // one part less is another good file
    EXPECT_NE(refusal_of([&](FileParts& parts) {
                std::visit(
                    [](auto& content) {
                      content.values.pop_back();
                      content.shape = {static_cast<std::int64_t>(content.values.size())};
                    },
                    parts.arrays[path]);
              }),
              "")
        << path;
  }
  for (const auto& [place, text] : good.texts) {
    EXPECT_NE(refusal_of([&](FileParts& parts) { parts.texts.erase(place); }), "") << place.first << place.second;
  }
  EXPECT_THAT(refusal_of([](FileParts& parts) {
                parts.texts[{"1/present", "name"}] = "draft";
              }),
              HasSubstr("two parts"));
  const auto negative = [](FileParts& parts) { std::get<Array<std::int32_t>>(parts.arrays["tokens"]).values[0] = -1; };
  EXPECT_THAT(refusal_of(negative), HasSubstr("token below 0"));
}

TEST_F(PrefixFile, ReplacesTheFileOnlyWhenItIsComplete) {
  const std::string good = test::text_of(file_);
  const std::filesystem::path nowhere = folder_.path() / "missing" / "prefixes.h5";
  EXPECT_NE(error_of([&] { save_prefix_cache(prefixes_, prefix_parts::origin(), nowhere); }), "");
  EXPECT_EQ(test::text_of(file_), good);
  int files = 0;
  for (const auto& entry : std::filesystem::directory_iterator(folder_.path())) files += entry.is_regular_file();
  EXPECT_EQ(files, 1) << "nothing is left beside it";
}

TEST(PrefixFileDeathTest, AnOriginIsNeverEmpty) {
  const test::Folder folder;
  EXPECT_DEATH(save_prefix_cache(PrefixCache(1), {"", "x"}, folder.path() / "x"), "has an origin");
}

}  // namespace
}  // namespace draftproof::prefix_file_test
