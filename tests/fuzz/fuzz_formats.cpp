// SPDX-License-Identifier: MIT
// Damages valid files in an endless loop and reads them: every outcome must be a value or an Error, never a crash, a
// hang or another exception. Files of quantized folders are read beside the other file of the folder; such folders are
// also damaged as a whole (folder_parts.h), and must then be refused by an Error of one line that names them, or have
// finite values that do not depend on how many rows are read together and that their format keeps. The damage is
// deterministic: a seed reproduces a run.
//
//     fuzz_formats [--seconds N] [--seed N] FILE-OR-FOLDER...
//
// On a failure the last line of the output names the file or the folder that caused it.
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <exception>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <map>
#include <optional>
#include <stdexcept>
#include <string>
#include <utility>
#include <vector>

#include "ref/base/error.h"
#include "ref/formats/checkpoint.h"
#include "ref/formats/gguf.h"
#include "ref/formats/safetensors.h"
#include "tests/fuzz/damage.h"
#include "tests/fuzz/folder_parts.h"
#include "tests/fuzz/options.h"

namespace draftproof {
namespace {

constexpr std::uintmax_t sample_bytes_max = 1 << 20;

std::string bytes_of_file(const std::filesystem::path& file) {
  std::ifstream stream(file, std::ios::binary);
  return {std::istreambuf_iterator<char>(stream), {}};
}

struct Sample {
  std::string extension;
  std::string bytes;
  std::string beside;  // in a quantized folder: the bytes of its config.json, or of its model.safetensors
  std::filesystem::path adapted = {};  // of an adapter: the target; `beside` is then the other file of its folder
};

/// Returns the bytes of the file that makes a quantized folder of this one; "" when it is not in one.
std::string bytes_beside(const std::filesystem::path& file) {
  const std::filesystem::path config = file.parent_path() / "config.json";
  const std::filesystem::path weights = file.parent_path() / "model.safetensors";
  if ((file != config && file != weights) || !std::filesystem::exists(config) || !std::filesystem::exists(weights)) {
    return {};
  }
  if (bytes_of_file(config).find("\"quantization") == std::string::npos) return {};
  return bytes_of_file(file == config ? weights : config);
}

constexpr const char* adapter_config = "adapter_config.json";
constexpr const char* adapter_weights = "adapter_model.safetensors";

/// "lora-TARGET" lies beside TARGET.
Sample sample_of(const std::filesystem::path& file) {
  Sample sample = {file.extension().string(), bytes_of_file(file), bytes_beside(file)};
  const std::filesystem::path folder = file.parent_path();
  const std::string name = file.filename().string();
  if (!std::filesystem::exists(folder / adapter_config) || name == "manifest.json") return sample;
  sample.adapted = folder.parent_path() / folder.filename().string().substr(std::string("lora-").size());
  if (name == adapter_config) sample.beside = bytes_of_file(folder / adapter_weights);
  if (name == adapter_weights) sample.beside = bytes_of_file(folder / adapter_config);
  return sample;
}

std::vector<Sample> samples_of(const std::vector<std::filesystem::path>& paths) {
  std::map<std::filesystem::path, Sample> found;  // in order of path
  const auto take = [&](const std::filesystem::path& file) {
    const std::string extension = file.extension().string();
    const bool known = extension == ".gguf" || extension == ".safetensors" || extension == ".json";
    if (known && std::filesystem::file_size(file) <= sample_bytes_max) {
      found[file] = sample_of(file);
    }
  };
  for (const auto& path : paths) {
    if (!std::filesystem::is_directory(path)) {
      take(path);
      continue;
    }
    for (const auto& entry : std::filesystem::recursive_directory_iterator(path)) {
      if (entry.is_regular_file()) take(entry.path());
    }
  }
  std::vector<Sample> samples;
  for (auto& [path, sample] : found) samples.push_back(std::move(sample));
  return samples;
}

void read_everything(const std::map<std::string, StoredTensor>& tensors) {
  for (const auto& [name, tensor] : tensors) {
    std::string bytes(tensor.bytes, '\0');
    tensor.file->read(tensor.offset, bytes.size(), bytes.data());
  }
}

void read_everything(const Checkpoint& checkpoint) {
  checkpoint.config();
  for (const auto& [name, tensor] : checkpoint.tensors()) {
    if (!tensor.format) continue;
    try {
      checkpoint.floats(name, tensor.shape);
    } catch (const Error&) {  // one that is not finite does not affect the next
    }
  }
}

/// Quantized folders among these paths and below them.
std::vector<FolderParts> folders_of(const std::vector<std::filesystem::path>& paths) {
  std::map<std::filesystem::path, FolderParts> found;  // in order of path
  for (const auto& path : paths) {
    if (!std::filesystem::is_directory(path)) continue;
    for (const auto& entry : std::filesystem::recursive_directory_iterator(path)) {
      const std::filesystem::path folder = entry.path().parent_path();
      if (entry.path().filename() == "config.json" && !bytes_beside(entry.path()).empty()) {
        found[folder] = take_apart(folder);
      }
    }
  }
  std::vector<FolderParts> folders;
  for (auto& [path, parts] : found) folders.push_back(std::move(parts));
  return folders;
}

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

/// Returns whether the folder is read; throws where an Error does not say what it should.
bool check_folder(const std::filesystem::path& folder) {
  const auto require_sentence = [&](const std::string& text) {
    if (text.find(folder.string()) == std::string::npos) throw std::runtime_error("an Error without its file: " + text);
    if (text.find('\n') != std::string::npos || text.size() > 4000) throw std::runtime_error("no sentence: " + text);
  };
  try {
    const Checkpoint checkpoint(folder);
    for (const auto& [name, tensor] : checkpoint.tensors()) {
      if (!tensor.format) continue;
      if (tensor.quantized != nullptr) check_values(checkpoint, name, tensor);
      try {
        checkpoint.floats(name, tensor.shape);
      } catch (const Error& error) {
        require_sentence(error.what());
      }
    }
    return true;
  } catch (const Error& error) {
    require_sentence(error.what());
    return false;
  }
}

/// The same of a folder of which one file is this one.
bool check_folder(const std::filesystem::path& file, const Sample& sample) {
  const std::filesystem::path folder = file.string() + ".folder";
  std::filesystem::remove_all(folder);
  std::filesystem::create_directory(folder);
  const bool config = sample.extension == ".json";
  std::filesystem::copy_file(file, folder / (config ? "config.json" : "model.safetensors"));
  std::ofstream(folder / (config ? "model.safetensors" : "config.json"), std::ios::binary) << sample.beside;
  return check_folder(folder);
}

/// The same of an adapter of which one file is this one, or that is this file.
bool check_adapter(const std::filesystem::path& file, const Sample& sample) {
  std::filesystem::path adapter = file;
  if (!sample.beside.empty()) {
    adapter = file.string() + ".folder";
    std::filesystem::remove_all(adapter);
    std::filesystem::create_directory(adapter);
    const bool config = sample.extension == ".json";
    std::filesystem::copy_file(file, adapter / (config ? adapter_config : adapter_weights));
    std::ofstream(adapter / (config ? adapter_weights : adapter_config), std::ios::binary) << sample.beside;
  }
  const auto require_sentence = [&](const std::string& text) {
    const bool named = text.find(adapter.string()) != std::string::npos;
    if (!named || text.find('\n') != std::string::npos) throw std::runtime_error("no sentence on it: " + text);
  };
  try {
    Checkpoint checkpoint(sample.adapted);
    checkpoint.merge({adapter});
    for (const auto& [name, tensor] : checkpoint.tensors()) {
      try {
        for (const float value : checkpoint.floats(name, tensor.shape)) {
          if (!std::isfinite(value)) fail(name, "has a value that is not finite");
        }
      } catch (const Error& error) {
        require_sentence(error.what());
      }
    }
    return true;
  } catch (const Error& error) {
    require_sentence(error.what());
    return false;
  }
}

/// Returns how many readers accepted the file.
int read(const std::filesystem::path& file, const Sample& sample) {
  const std::string& extension = sample.extension;
  if (!sample.adapted.empty()) return check_adapter(file, sample) ? 1 : 0;
  if (!sample.beside.empty()) return check_folder(file, sample) ? 1 : 0;
  if (extension == ".json") return accepted([&] { Json::read(file); });
  if (extension == ".safetensors") return accepted([&] { read_everything(SafeTensors(file).tensors()); });
  return accepted([&] { read_gguf_metadata(file); }) + accepted([&] { read_everything(Gguf(file).tensors()); }) +
         accepted([&] { read_everything(Checkpoint(file)); });
}

int fuzz(double seconds, std::uint64_t seed, const std::vector<std::filesystem::path>& paths) {
  const std::vector<Sample> samples = samples_of(paths);
  if (samples.empty()) throw Error("no .gguf, .safetensors or .json of at most 1 MiB there");
  const std::filesystem::path file =
      std::filesystem::temp_directory_path() /
      ("draftproof-fuzz-" + std::to_string(getpid()) + "-" + std::to_string(seed) + ".bytes");
  const auto start = std::chrono::steady_clock::now();
  Numbers numbers(seed);
  std::uint64_t rounds = 0;
  std::uint64_t accepted = 0;
  const std::vector<FolderParts> folders = folders_of(paths);
  const std::filesystem::path folder = file.string() + ".damaged";
  while (std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count() < seconds) {
    if (!folders.empty() && numbers.below(4) == 0) {
      FolderParts parts = folders[numbers.below(folders.size())];
      for (std::size_t times = numbers.below(4); times-- > 0;) damage(parts, numbers);
      put_together(parts, folder);
      try {
        accepted += check_folder(folder) ? 1 : 0;
      } catch (const std::exception& error) {
        std::printf("round %llu: %s\n%s\n", static_cast<unsigned long long>(rounds), error.what(), folder.c_str());
        return 1;
      }
      ++rounds;
      continue;
    }
    const Sample& sample = samples[numbers.below(samples.size())];
    std::string bytes = sample.bytes;
    for (std::size_t times = numbers.below(4); times-- > 0;) {
      damage(bytes, samples[numbers.below(samples.size())].bytes, numbers);
    }
    std::filesystem::remove(file);  // some file systems sync to disk when a file is truncated and rewritten
    std::ofstream(file, std::ios::binary) << bytes;
    try {
      accepted += static_cast<std::uint64_t>(read(file, sample));
    } catch (const std::exception& error) {
      std::printf("round %llu: %s\n%s\n", static_cast<unsigned long long>(rounds), error.what(), file.c_str());
      return 1;
    }
    ++rounds;
  }
  std::filesystem::remove(file);
  std::filesystem::remove_all(file.string() + ".folder");
  std::filesystem::remove_all(folder);
  std::printf("%llu damaged files of %zu samples, accepted %llu times\n", static_cast<unsigned long long>(rounds),
              samples.size(), static_cast<unsigned long long>(accepted));
  return rounds > 0 && accepted > 0 ? 0 : 1;
}

}  // namespace
}  // namespace draftproof

int main(int count, char** arguments) {
  const draftproof::FuzzOptions options = draftproof::read_fuzz_options(count, arguments);
  try {
    return draftproof::fuzz(options.seconds, options.seed, options.paths);
  } catch (const draftproof::Error& error) {
    std::fprintf(stderr, "%s\n", error.what());
    return 3;
  }
}
