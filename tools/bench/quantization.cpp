// SPDX-License-Identifier: MIT
// How far the weights of GGUF files are from those that they were made of: the root of the mean square of the
// differences, over that of the weights themselves, of all matrices of a type together.
#include <fmt/format.h>

#include <cmath>
#include <map>
#include <variant>

#include "ref/base/error.h"
#include "ref/formats/checkpoint.h"
#include "tools/bench/bench.h"
#include "tools/statistics.h"

namespace draftproof {
namespace {

struct BenchQuantizationOptions {
  std::string original;
  std::vector<std::string> files;
  std::string json_file;
  bool quiet = false;
};

/// What the matrices of one type add up to.
struct ErrorSums {
  int matrices = 0;
  double weights = 0;  // sum of squares
  double differences = 0;

  double relative() const { return std::sqrt(differences / weights); }
};

using ErrorsByType = std::map<std::string, ErrorSums>;

ErrorsByType errors_of(const Checkpoint& original, const Checkpoint& file) {
  ErrorsByType errors;
  for (const auto& [name, tensor] : file.tensors()) {
    const auto found = original.tensors().find(name);
    if (tensor.shape.size() != 2 || found == original.tensors().end() || found->second.shape != tensor.shape) continue;
    const std::vector<float> want = original.floats(name, tensor.shape);
    const std::vector<float> got = file.floats(name, tensor.shape);
    ErrorSums& error = errors[tensor.type_name];
    ++error.matrices;
    for (std::size_t i = 0; i < want.size(); ++i) {
      const double difference = double{got[i]} - want[i];
      error.weights += double{want[i]} * want[i];
      error.differences += difference * difference;
    }
  }
  if (errors.empty()) throw Error(file.path().string() + ": has no matrix of " + original.path().string());
  return errors;
}

Exit bench_quantization(const BenchQuantizationOptions& options) {
  std::vector<std::string> sources = options.files;
  sources.push_back(options.original);
  BenchOptions bench;
  bench.json_file = options.json_file;
  bench.quiet = options.quiet;
  const auto json_file = bench_json_file(bench, sources);
  const Checkpoint original(options.original);
  nlohmann::ordered_json json = {{"command", "bench quantization"}, {"original", options.original}};
  for (const std::string& path : options.files) {
    for (const auto& [type, error] : errors_of(original, Checkpoint(path))) {
      json["files"].push_back(
          {{"file", path}, {"type", type}, {"matrices", error.matrices}, {"relative_error", error.relative()}});
      if (shows_text(bench)) {
        fmt::print("{:<5} {:>4} matrices, relative error {:.5f}  {}\n", type, error.matrices, error.relative(), path);
      }
    }
  }
  if (json_file) json_file->write(dumped(json));
  return Exit::pass;
}

}  // namespace

void add_bench_quantization(Command& bench) {
  auto options = std::make_shared<BenchQuantizationOptions>();
  Command& command = bench.subcommand("quantization", "measure how far quantized weights are from the original ones");
  command.option("original", options->original, "the checkpoint that the files were made of").required();
  command.option("files", options->files, "GGUF files of it").required();
  add_result_options(command, options->json_file, options->quiet);
  command.action([options] { return bench_quantization(*options); });
}

}  // namespace draftproof
