// SPDX-License-Identifier: MIT
// All tensors and datasets under fixtures/ that other programs wrote must be readable.
#include <algorithm>
#include <map>

#include "kernels/formats.h"
#include "ref/formats/checkpoint.h"
#include "ref/formats/hdf5.h"
#include "ref/formats/json.h"
#include "tests/formats/files.h"

namespace draftproof::fixtures_test {
namespace {

std::vector<std::filesystem::path> fixtures(const std::string& extension) {
  std::vector<std::filesystem::path> files;
  for (const char* folder : {"fixtures/external", "fixtures/models"}) {
    std::error_code error;
    for (const auto& entry : std::filesystem::recursive_directory_iterator(source_dir / folder, error)) {
      if (entry.is_regular_file() && entry.path().extension() == extension) files.push_back(entry.path());
    }
  }
  std::ranges::sort(files);
  return files;
}

std::size_t read_all(const Hdf5& file, const std::string& group) {
  std::size_t datasets = 0;
  for (const std::string& name : file.children(group)) {
    const std::string path = group + name;
    bool is_group = true;
    try {
      file.children(path);
    } catch (const Error&) {
      is_group = false;
    }
    if (is_group) {
      datasets += read_all(file, path + "/");
    } else {
      EXPECT_FALSE(file.read<double>(path).values.empty()) << path;
      ++datasets;
    }
  }
  return datasets;
}

TEST(Fixtures, EveryCheckpointIsReadableToTheLastTensor) {
  std::vector<std::filesystem::path> paths;
  for (const auto& file : fixtures(".safetensors")) {
    if (file.filename() == "adapter_model.safetensors") continue;  // lora_test opens adapters
    if (paths.empty() || paths.back() != file.parent_path()) paths.push_back(file.parent_path());
  }
  EXPECT_GE(paths.size(), 3U);
  for (const auto& file : fixtures(".gguf")) {
    if (file.filename() == "model.gguf") paths.push_back(file);
  }
  EXPECT_GE(paths.size(), 12U);
  std::map<std::optional<Format>, std::size_t> tensors;
  for (const auto& path : paths) {
    const Checkpoint checkpoint(path);
    EXPECT_FALSE(checkpoint.tensors().empty()) << path;
    const Json whole = checkpoint.config();
    const Json config = whole.find("text_config").value_or(whole.find("transformer_layer_config").value_or(whole));
    const bool of_its_target = config.has("medusa_num_heads");
    EXPECT_TRUE(of_its_target || config.at("hidden_size").integer(1, 1 << 20) > 0) << path;
    for (const auto& [name, tensor] : checkpoint.tensors()) {
      const bool lists_tokens =
          name == "d2t" || name == "t2d" || name == "token_map" || name.ends_with("token_ordering");
      if (lists_tokens) continue;
      const std::vector<float> values = checkpoint.floats(name, tensor.shape);
      EXPECT_TRUE(std::ranges::any_of(values, [](float value) { return value != 0; })) << path << " " << name;
      ++tensors[tensor.format];
    }
  }
  for (int format = 0; format < formats; ++format) {
    EXPECT_GT(tensors[Format(format)], 0U) << "no fixture has weights of type " << traits(Format(format)).name;
  }
}

TEST(Fixtures, EveryDatasetOfEveryReferenceFileIsReadable) {
  const auto files = fixtures(".h5");
  EXPECT_GE(files.size(), 3U);
  for (const auto& path : files) EXPECT_GT(read_all(Hdf5::open(path), "/"), 0U) << path;
}

TEST(Fixtures, EveryJsonFileIsReadable) {
  const auto files = fixtures(".json");
  EXPECT_GE(files.size(), 3U);
  for (const auto& path : files) EXPECT_NO_THROW(Json::read(path)) << path;
}

}  // namespace
}  // namespace draftproof::fixtures_test
