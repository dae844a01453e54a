// SPDX-License-Identifier: MIT
// Everything under fixtures/ that other programs wrote must be readable to the last tensor and dataset.
#include <algorithm>
#include <map>

#include "ref/formats/hdf5.h"
#include "ref/formats/json.h"
#include "ref/formats/safetensors.h"
#include "tests/formats/files.h"

namespace draftproof {
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
  std::vector<std::filesystem::path> folders;
  for (const auto& file : fixtures(".safetensors")) {
    if (folders.empty() || folders.back() != file.parent_path()) folders.push_back(file.parent_path());
  }
  EXPECT_GE(folders.size(), 3U);
  std::map<TensorType, std::size_t> tensors;
  for (const auto& folder : folders) {
    const Checkpoint checkpoint(folder);
    EXPECT_FALSE(checkpoint.tensors().empty()) << folder;
    for (const auto& [name, tensor] : checkpoint.tensors()) {
      const std::vector<float> values = checkpoint.floats(name, tensor->shape);
      EXPECT_TRUE(std::ranges::any_of(values, [](float value) { return value != 0; })) << folder << " " << name;
      ++tensors[tensor->type];
    }
  }
  for (const TensorType type : {TensorType::f32, TensorType::f16, TensorType::bf16}) {
    EXPECT_GT(tensors[type], 0U) << "no fixture has weights of type " << static_cast<int>(type);
  }
}

TEST(Fixtures, EveryDatasetOfEveryAnswerIsReadable) {
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
}  // namespace draftproof
