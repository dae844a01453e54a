// SPDX-License-Identifier: MIT
// Damages valid files in an endless loop and reads them, those of quantized folders beside the other file of the
// folder: every outcome must be a value or an Error, never a crash, a hang or another exception. The damage is
// deterministic: a seed reproduces a run.
//
//     fuzz_formats [--seconds N] [--seed N] FILE-OR-FOLDER...
//
// On a failure the last line of the output names the file that caused it.
#include <unistd.h>

#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <exception>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <map>
#include <string>
#include <utility>
#include <vector>

#include "ref/base/error.h"
#include "ref/formats/checkpoint.h"
#include "ref/formats/gguf.h"
#include "ref/formats/safetensors.h"
#include "tests/fuzz/damage.h"
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

std::vector<Sample> samples_of(const std::vector<std::filesystem::path>& paths) {
  std::map<std::filesystem::path, Sample> found;  // in order of path
  const auto take = [&](const std::filesystem::path& file) {
    const std::string extension = file.extension().string();
    const bool known = extension == ".gguf" || extension == ".safetensors" || extension == ".json";
    if (known && std::filesystem::file_size(file) <= sample_bytes_max) {
      found[file] = {extension, bytes_of_file(file), bytes_beside(file)};
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

void read_exact_rows(const WeightSource& source) {
  std::vector<float> row(static_cast<std::size_t>(source.inputs));
  for (int i = 0; i < source.outputs; ++i) source.read_exact(i, 1, row.data());
}

void read_everything(const Checkpoint& checkpoint) {
  checkpoint.config();
  for (const auto& [name, tensor] : checkpoint.tensors()) {
    if (!tensor.format) continue;
    try {
      checkpoint.floats(name, tensor.shape);
      if (tensor.quantized != nullptr) read_exact_rows(checkpoint.weight(name, tensor.shape));
    } catch (const Error&) {  // one that is not finite does not affect the next
    }
  }
}

/// Reads a quantized folder of which one file is this one.
void read_folder(const std::filesystem::path& file, const Sample& sample) {
  const std::filesystem::path folder = file.string() + ".folder";
  std::filesystem::remove_all(folder);
  std::filesystem::create_directory(folder);
  const bool config = sample.extension == ".json";
  std::filesystem::copy_file(file, folder / (config ? "config.json" : "model.safetensors"));
  std::ofstream(folder / (config ? "model.safetensors" : "config.json"), std::ios::binary) << sample.beside;
  read_everything(Checkpoint(folder));
}

/// Returns how many readers accepted the file.
int read(const std::filesystem::path& file, const Sample& sample) {
  const std::string& extension = sample.extension;
  if (!sample.beside.empty()) return accepted([&] { read_folder(file, sample); });
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
  while (std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count() < seconds) {
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
