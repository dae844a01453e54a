// SPDX-License-Identifier: MIT
#include "ref/formats/hub_cache.h"

#include <gtest/gtest.h>

#include <cstdlib>

#include "tests/folder.h"

namespace draftproof::test::hub_cache_test {
namespace {

TEST(HubCache, KnowsTheNamesOfRepositoriesAndOfTheirFiles) {
  const auto name = read_hub_name("Qwen/Qwen3-0.6B:Q8_0");
  ASSERT_TRUE(name);
  EXPECT_EQ(name->repository(), "Qwen/Qwen3-0.6B");
  EXPECT_EQ(name->file, "Q8_0");
  EXPECT_TRUE(read_hub_name("a/b:sub/folder/c.gguf"));
  for (const char* other : {"", "a", "/a/b", "a/b/c", "./b", "../b", "a/..", "a/b.", "a--b/c", "a/b:", "a/b:../c",
                            "a/b:/c", "a b/c", "a/b\n", "-a/b"}) {
    EXPECT_FALSE(read_hub_name(other)) << other;
  }
}

TEST(HubCache, FindsModelsByTheirWholeNameOrAPartOfIt) {
  using Models = std::vector<std::vector<std::string>>;
  const std::vector<std::string> files = {"b-q4_K_m.gguf",
                                          "b-q4_K_m.txt",
                                          "big/b-F16-00002-of-00002.gguf",
                                          "big/b-F16-00001-of-00002.gguf",
                                          "big/b-F16-00001-of-00002.safetensors",
                                          "mmproj-b-F16.gguf",
                                          "sub/mmproj-b-Q8_0.gguf"};
  const std::vector<std::string> big = {"big/b-F16-00001-of-00002.gguf", "big/b-F16-00002-of-00002.gguf"};
  EXPECT_EQ(find_ggufs(files, "Q4_K_M"), Models{{"b-q4_K_m.gguf"}});
  EXPECT_EQ(find_ggufs(files, "b-q4_K_m.txt"), Models{{"b-q4_K_m.txt"}});
  EXPECT_EQ(find_ggufs(files, "f16"), Models{big}) << "not the encoder of images";
  EXPECT_EQ(find_ggufs(files, "BIG/"), Models{big}) << "a folder is part of the name";
  EXPECT_EQ(find_ggufs(files, "00002-of"), Models{big}) << "all parts of what one part names";
  EXPECT_EQ(find_ggufs(files, "mmproj-b-F16.gguf"), Models{{"mmproj-b-F16.gguf"}});
  EXPECT_EQ(find_ggufs(files, ""), (Models{{"b-q4_K_m.gguf"}, big}));
  EXPECT_EQ(find_ggufs(files, "Q8_0"), Models{});
}

TEST(HubCache, IsWhereTheEnvironmentSays) {
  struct Variable {
    Variable(const char* name, const char* value) : name_(name), was_(std::getenv(name) ? std::getenv(name) : "") {
      value == nullptr ? unsetenv(name) : setenv(name, value, 1);
    }
    ~Variable() { was_.empty() ? unsetenv(name_) : setenv(name_, was_.c_str(), 1); }
    const char* name_;
    std::string was_;
  };
  const Variable cache("HF_HUB_CACHE", nullptr);
  const Variable hub("HF_HOME", nullptr);
  const Variable caches("XDG_CACHE_HOME", nullptr);
  const Variable home("HOME", "/home/a");
  EXPECT_EQ(hub_cache(), "/home/a/.cache/huggingface/hub");
  const Variable other_caches("XDG_CACHE_HOME", "/caches");
  EXPECT_EQ(hub_cache(), "/caches/huggingface/hub");
  const Variable other_hub("HF_HOME", "/hf");
  EXPECT_EQ(hub_cache(), "/hf/hub");
  const Variable other_cache("HF_HUB_CACHE", "/exactly");
  EXPECT_EQ(hub_cache(), "/exactly");
}

TEST(HubCache, FindsTheSnapshotOfMainAndFilesInIt) {
  const Folder cache;
  const HubName name = {"a", "b", ""};
  EXPECT_FALSE(find_in_hub_cache(cache.path(), name));
  const files::path folder = hub_folder(cache.path(), name);
  EXPECT_EQ(folder.filename(), "models--a--b");
  files::create_directories(folder / "snapshots/old");
  EXPECT_EQ(find_in_hub_cache(cache.path(), name), folder / "snapshots/old") << "the only one";
  files::create_directories(folder / "snapshots/new");
  EXPECT_FALSE(find_in_hub_cache(cache.path(), name)) << "nothing says which";
  files::create_directories(folder / "refs");
  put(folder / "refs/main", "new");
  EXPECT_EQ(find_in_hub_cache(cache.path(), name), folder / "snapshots/new");
  put(folder / "refs/main", "../../x");
  EXPECT_FALSE(find_in_hub_cache(cache.path(), name));
  put(folder / "refs/main", "new");
  put(folder / "snapshots/new/b-Q8_0.gguf", "");
  put(folder / "snapshots/new/b-Q4_0.gguf", "");
  EXPECT_EQ(find_in_hub_cache(cache.path(), {"a", "b", "q8_0"}), folder / "snapshots/new/b-Q8_0.gguf");
  EXPECT_FALSE(find_in_hub_cache(cache.path(), {"a", "b", "Q"})) << "two have it";
  EXPECT_FALSE(find_in_hub_cache(cache.path(), {"a", "b", "q5"}));
  put(folder / "snapshots/new/b-Q4_1-00001-of-00002.gguf", "");
  EXPECT_FALSE(find_in_hub_cache(cache.path(), {"a", "b", "q4"})) << "a part of one model and another model";
  EXPECT_EQ(find_in_hub_cache(cache.path(), name), folder / "snapshots/new") << "none of several";
}

TEST(HubCache, TakesTheOnlyModelOfASnapshotAndNoSnapshotThatIsBeingFetched) {
  const Folder cache;
  const HubName name = {"a", "b", ""};
  const files::path folder = hub_folder(cache.path(), name);
  files::create_directories(folder / "snapshots/c/sub");
  files::create_directories(folder / "blobs");
  files::create_directories(folder / "snapshots/c/sub.gguf");
  for (const char* file : {"b-00001-of-00002.gguf", "b-00002-of-00002.gguf", "mmproj-b.gguf"}) {
    put(folder / "snapshots/c/sub" / file, "");
  }
  EXPECT_EQ(find_in_hub_cache(cache.path(), name), folder / "snapshots/c/sub/b-00001-of-00002.gguf");
  put(folder / "blobs/d.incomplete", "");
  EXPECT_FALSE(find_in_hub_cache(cache.path(), name));
  files::remove(folder / "blobs/d.incomplete");
  put(folder / "snapshots/c/model.safetensors", "");
  EXPECT_EQ(find_in_hub_cache(cache.path(), name), folder / "snapshots/c");
}

}  // namespace
}  // namespace draftproof::test::hub_cache_test
