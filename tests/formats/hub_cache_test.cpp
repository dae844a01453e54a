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
  EXPECT_TRUE(is_gguf_named("b-q4_K_m.gguf", "Q4_K_M"));
  EXPECT_FALSE(is_gguf_named("b-q4_K_m.txt", "Q4_K_M"));
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
}

}  // namespace
}  // namespace draftproof::test::hub_cache_test
