// SPDX-License-Identifier: MIT
// Folders of quantized weights, and adapters: two files. A folder must be refused by an Error of one line that names
// it, or have finite values that do not depend on how many rows are read together and that its format keeps.
#include <algorithm>
#include <cmath>
#include <exception>
#include <map>
#include <optional>
#include <set>
#include <stdexcept>
#include <string>
#include <utility>
#include <vector>

#include "ref/base/error.h"
#include "ref/formats/checkpoint.h"
#include "tests/fuzz/folder_parts.h"
#include "tests/fuzz/target.h"
#include "tests/fuzz/two_parts.h"

namespace draftproof::fuzz {
namespace {

/// Rows as floats, so many read together; none when a row is refused.
std::optional<std::vector<float>> rows_of(const WeightSource& source, int together, bool exact) {
  const auto width = static_cast<std::size_t>(source.inputs);
  std::vector<float> rows(static_cast<std::size_t>(source.outputs) * width);
  std::vector<std::byte> bytes(source.bytes_per_row() * static_cast<std::size_t>(together));
  try {
    for (int first = 0; first < source.outputs; first += together) {
      const int count = std::min(together, source.outputs - first);
      float* const to = rows.data() + static_cast<std::size_t>(first) * width;
      if (exact) {
        source.read_exact(first, count, to);
        continue;
      }
      source.read(first, count, bytes.data());
      for (std::size_t row = 0; row < static_cast<std::size_t>(count); ++row) {
        dequantize_row(source.format, bytes.data() + source.bytes_per_row() * row, source.inputs, to + row * width);
      }
    }
  } catch (const Error&) {
    return std::nullopt;
  }
  return rows;
}

void fail(const std::string& tensor, const std::string& what) { throw std::runtime_error(tensor + ": " + what); }

/// Throws where values are not finite, depend on how they are read, or differ more from the exact ones than by one
/// rounding to the type of a scale or to their own.
void check_values(const Checkpoint& checkpoint, const std::string& name, const StoredTensor& tensor) {
  const WeightSource source = checkpoint.weight(name, tensor.shape);
  const auto kept = rows_of(source, 1, false);
  if (rows_of(source, 13, false) != kept) fail(name, "has other values in 13 rows than in one");
  const auto exact = rows_of(source, 1, true);
  if (rows_of(source, 13, true) != exact) fail(name, "has other exact values in 13 rows than in one");
  if (!kept || !exact) return;
  for (std::size_t i = 0; i < kept->size(); ++i) {
    const double value = (*exact)[i];
    if (!std::isfinite(value) || !std::isfinite((*kept)[i])) fail(name, "has a value that is not finite");
    const double difference = std::abs(double{(*kept)[i]} - value);
    const bool added = traits(source.format).has_minimums;  // and may have been cancelled
    if (!added && difference > 0x1p-8 * std::abs(value) + 255 * 0x1p-25) {
      fail(name, "has " + std::to_string((*kept)[i]) + " for " + std::to_string(value));
    }
  }
}

void require_sentence(const std::string& text, const std::filesystem::path& about) {
  if (text.find(about.string()) == std::string::npos) throw std::runtime_error("an Error without its file: " + text);
  if (text.find('\n') != std::string::npos || text.size() > 4000) throw std::runtime_error("no sentence: " + text);
}

/// Returns whether `read` comes to its end; an Error of it is to be a sentence about this path.
template <class Read>
bool reads(const std::filesystem::path& about, const Read& read) {
  try {
    read();
    return true;
  } catch (const Error& error) {
    require_sentence(error.what(), about);
    return false;
  }
}

bool run_folder(const std::string& input) {
  const auto [config, weights] = parted(input);
  const std::filesystem::path path = scratch("folder/config.json", config).parent_path();
  scratch("folder/model.safetensors", weights);
  return reads(path, [&] {
    const Checkpoint checkpoint(path);
    for (const auto& [name, tensor] : checkpoint.tensors()) {
      if (!tensor.format) continue;
      if (tensor.quantized != nullptr) check_values(checkpoint, name, tensor);
      reads(path, [&] { checkpoint.floats(name, tensor.shape); });
    }
  });
}

/// The folder with the tensors of some of its modules only, as long as it is still one: it is read faster, and what is
/// damaged matters more often.
std::string smaller(const std::string& seed) {
  const auto [config, weights] = parted(seed);
  FolderParts parts = take_apart(config, weights);
  const auto module_of = [](const FolderPart& part) { return part.name.substr(0, part.name.rfind('.')); };
  std::map<std::string, int> tensors;
  for (const FolderPart& part : parts.tensors) ++tensors[module_of(part)];
  std::set<std::string> kept;
  for (const int count : {1, 2}) {  // one that is not quantized, and three that are of several tensors
    int left = count == 1 ? 1 : 3;
    for (const auto& [module, has] : tensors) {
      if (std::min(has, 2) == count && left-- > 0) kept.insert(module);
    }
  }
  std::erase_if(parts.tensors, [&](const FolderPart& part) { return !kept.contains(module_of(part)); });
  const std::string cut = joined(parts.config.dump(), weights_of(parts));
  return run_folder(cut) ? cut : seed;
}

std::vector<std::string> seeds_of_folder() {
  std::vector<std::string> seeds;
  for (const auto& file : files_of(fixtures() / "external", {"config.json"})) {
    const std::filesystem::path weights = file.parent_path() / "model.safetensors";
    if (file.filename() != "config.json" || !std::filesystem::exists(weights)) continue;
    const std::string config = bytes_of_file(file);
    if (config.find("\"quantization") != std::string::npos) {
      seeds.push_back(smaller(joined(config, bytes_of_file(weights))));
    }
  }
  return seeds;
}

void change_folder(std::string& input, const std::string& other, Numbers& numbers) {
  auto [config, weights] = parted(input);
  const auto [other_config, other_weights] = parted(other);
  const std::size_t how = numbers.below(4);
  if (how == 0) damage(config, other_config, numbers);
  else if (how == 1) damage(weights, other_weights, numbers);
  else {
    try {
      FolderParts parts = take_apart(config, weights);
      damage(parts, numbers);
      config = parts.config.dump();
      weights = weights_of(parts);
    } catch (const std::exception&) {  // it is no folder any more
      damage(weights, other_weights, numbers);
    }
  }
  input = joined(config, weights);
}

/// The targets of the adapters that are seeds; the first byte of an input chooses.
constexpr const char* adapted[] = {"llama-tiny-biased", "qwen2-tiny-untied", "qwen3-tiny-tied"};

bool run_adapter(const std::string& input) {
  if (input.empty()) return false;
  const char* const target = adapted[static_cast<unsigned char>(input[0]) % std::size(adapted)];
  const auto [config, weights] = parted(input.substr(1));
  std::filesystem::path path;
  if (weights.starts_with("GGUF")) {
    path = scratch("adapter.gguf", weights);
  } else {
    path = scratch("adapter/adapter_config.json", config).parent_path();
    scratch("adapter/adapter_model.safetensors", weights);
  }
  static std::map<std::string, Checkpoint> bases;
  auto base = bases.find(target);
  if (base == bases.end()) base = bases.emplace(target, fixtures() / "external" / target).first;
  return reads(path, [&] {
    Checkpoint checkpoint = base->second;
    checkpoint.merge({path});
    for (const auto& [name, tensor] : checkpoint.tensors()) {
      if (tensor.merged == nullptr) continue;  // of the target alone
      reads(path, [&] {
        for (const float value : checkpoint.floats(name, tensor.shape)) {
          if (!std::isfinite(value)) fail(name, "has a value that is not finite");
        }
      });
    }
  });
}

std::vector<std::string> seeds_of_adapter() {
  std::vector<std::string> seeds;
  for (std::size_t i = 0; i < std::size(adapted); ++i) {
    const std::filesystem::path folder = fixtures() / "external" / (std::string("lora-") + adapted[i]);
    const auto bytes = [&](const char* name) { return bytes_of_file(folder / name); };
    const std::string chosen(1, static_cast<char>(i));
    seeds.push_back(chosen + joined(bytes("adapter_config.json"), bytes("adapter_model.safetensors")));
    if (std::filesystem::exists(folder / "adapter.gguf")) seeds.push_back(chosen + joined("", bytes("adapter.gguf")));
  }
  return seeds;
}

void change_adapter(std::string& input, const std::string& other, Numbers& numbers) {
  if (input.empty() || other.empty()) return;
  auto [config, weights] = parted(input.substr(1));
  const auto [other_config, other_weights] = parted(other.substr(1));
  if (!config.empty() && numbers.below(2) == 0) damage(config, other_config, numbers);
  else damage(weights, other_weights, numbers);
  input = input.substr(0, 1) + joined(config, weights);
}

}  // namespace

const Target folder = {"folder", run_folder, seeds_of_folder, change_folder};
const Target adapter = {"adapter", run_adapter, seeds_of_adapter, change_adapter};

}  // namespace draftproof::fuzz
