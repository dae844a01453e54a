// SPDX-License-Identifier: MIT
// The config.json files of published checkpoints, in configs/ (a README there says where they are from): each one is
// read and counted without its weights, or refused in a sentence that names what cannot be read.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <fstream>
#include <set>
#include <sstream>

#include "ref/base/error.h"
#include "ref/models/memory.h"
#include "ref/models/models.h"
#include "tests/folder.h"

namespace draftproof::test::published_configs_test {
namespace {

const files::path folder = files::path(DRAFTPROOF_SOURCE_DIR) / "tests/models/configs";

/// "NAME 8030261248 parameters", or "NAME" and a part of the sentence that refuses it.
std::vector<std::pair<std::string, std::string>> expectations() {
  std::vector<std::pair<std::string, std::string>> list;
  std::ifstream file(folder / "expected.txt");
  for (std::string line; std::getline(file, line);) {
    if (line.empty() || line[0] == '#') continue;
    const std::size_t name_ends = line.find(' ');
    list.emplace_back(line.substr(0, name_ends), line.substr(line.find_first_not_of(' ', name_ends)));
  }
  return list;
}

std::string outcome(const std::string& name) {
  try {
    const Checkpoint files = Checkpoint::of_config(folder / (name + ".json"));
    const LoadOptions options(best_kernels(), Quantization::q4);
    EXPECT_GT(model_need(files, options).total(describe(files.config()).context), 0U);
    return std::to_string(parameters_by_config(files)) + " parameters";
  } catch (const Error& error) {
    return error.what();
  }
}

TEST(PublishedConfigs, AreReadOrRefusedByName) {
  std::set<std::string> names;
  for (const auto& [name, expected] : expectations()) {
    names.insert(name);
    const std::string found = outcome(name);
    if (expected.ends_with(" parameters")) {
      EXPECT_EQ(found, expected) << name;
      continue;
    }
    EXPECT_THAT(found, testing::StartsWith((folder / (name + ".json: ")).string()));
    EXPECT_THAT(found, testing::HasSubstr(expected)) << name;
    EXPECT_EQ(std::ranges::count(found, '\n'), 0) << found;
  }
  for (const auto& entry : files::directory_iterator(folder)) {
    if (entry.path().extension() != ".json") continue;
    EXPECT_TRUE(names.contains(entry.path().stem())) << entry.path() << " has no line in expected.txt";
  }
  EXPECT_GE(names.size(), 60U);
}

TEST(PublishedConfigs, NeedTheMemoryOfTheirWeights) {
  const Checkpoint llama = Checkpoint::of_config(folder / "meta-llama--Meta-Llama-3.1-8B.json");
  const auto weights = [&](Quantization quantize) {
    std::uint64_t bytes = 0;
    for (const auto& [format, of_format] : model_need(llama, LoadOptions(best_kernels(), quantize)).weights) {
      bytes += of_format;
    }
    return static_cast<double>(bytes);
  };
  constexpr double of_file = 16060522496;  // total_size of its index
  EXPECT_NEAR(weights(Quantization::none), of_file, 1e-3 * of_file);
  EXPECT_NEAR(weights(Quantization::q8), 8.5 / 16 * of_file, 1e-2 * of_file);
  EXPECT_LT(weights(Quantization::q4), 5.0 / 16 * of_file);
  EXPECT_FALSE(llama.has_weights());
  try {
    load_model(llama, LoadOptions(best_kernels()));
    ADD_FAILURE() << "there are no weights";
  } catch (const Error& error) {
    EXPECT_THAT(error.what(), testing::HasSubstr("is here without its weights"));
  }
}

TEST(PublishedConfigs, RefuseAConfigThatMeansMoreThanAnyModelHas) {
  const Folder own;
  std::string text = text_of(folder / "Qwen--Qwen3-235B-A22B.json");
  const std::string experts = "\"num_experts\": 128";
  text.replace(text.find(experts), experts.size(), "\"num_experts\": 65536");
  put(own.path() / "config.json", text);
  const Checkpoint vast = Checkpoint::of_config(own.path());
  try {
    parameters_by_config(vast);
    ADD_FAILURE() << "no model has so many";
  } catch (const Error& error) {
    EXPECT_THAT(error.what(), testing::HasSubstr("config.json: states more weights than any real model's"));
  }
}

}  // namespace
}  // namespace draftproof::test::published_configs_test
