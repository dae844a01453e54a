// SPDX-License-Identifier: MIT
// Files that are read whole or by their headers: JSON, GGUF, safetensors.
#include <stdexcept>
#include <string>

#include "ref/base/error.h"
#include "ref/formats/checkpoint.h"
#include "ref/formats/gguf.h"
#include "ref/formats/json.h"
#include "ref/formats/safetensors.h"
#include "tests/fuzz/target.h"

namespace draftproof::fuzz {
namespace {

std::vector<std::string> seeds_of(const std::string& end, std::uintmax_t bytes_max) {
  std::vector<std::string> seeds;
  for (const auto& file : files_of(fixtures(), {end})) {
    if (std::filesystem::file_size(file) <= bytes_max) seeds.push_back(bytes_of_file(file));
  }
  return seeds;
}

/// Takes every value for what it is, and numbers for integers of a range, which many are not. Only the first `wrong` of
/// these are tried: all give the same sentence, and an exception takes as long as a hundred values.
void walk(const Json& value, int& wrong, int depth = 0) {
  if (depth > 300) throw std::runtime_error("JSON nests deeper than it may");
  if (value.is_object()) {
    for (const std::string& name : value.fields()) {
      if (!value.has(name)) throw std::runtime_error("JSON without a field of its own");
      if (const auto field = value.find(name)) walk(*field, wrong, depth + 1);
    }
  } else if (value.is_array()) {
    if (wrong > 0 && !accepted([&] { value.integers(0, 1 << 20); })) --wrong;
    for (std::size_t i = 0; i < value.size(); ++i) walk(value[i], wrong, depth + 1);
  } else if (value.is_string()) {
    value.string();
  } else if (value.is_number()) {
    value.number();
    if (wrong > 0 && !accepted([&] { value.integer(0, 1 << 20); })) --wrong;
  } else if (value.is_boolean()) {
    value.boolean();
  } else if (!value.is_null()) {
    throw std::runtime_error("JSON of no type");
  }
}

bool run_json(const std::string& input) {
  return accepted([&] {
    // As a file some of the time, where infinity may be spelled; it takes longer.
    const bool is_file = input.size() % 4 == 0 || input.find("Infinity") != std::string::npos;
    const Json value = is_file ? Json::read(scratch("x.json", input)) : Json::parse(input, "it");
    int wrong = 8;
    walk(value, wrong);
    Json::parse(value.text(), "it again");
  });
}

void read_everything(const std::map<std::string, StoredTensor>& tensors) {
  for (const auto& [name, tensor] : tensors) {
    std::string bytes(tensor.bytes, '\0');
    tensor.file->read(tensor.offset, bytes.size(), bytes.data());
  }
}

bool run_gguf(const std::string& input) {
  const std::filesystem::path file = scratch("x.gguf", input);
  const bool whole = accepted([&] { read_everything(Gguf(file).tensors()); });
  accepted([&] { read_gguf_metadata(file); });
  accepted([&] {
    const Checkpoint checkpoint(file);
    checkpoint.config();
    for (const auto& [name, tensor] : checkpoint.tensors()) {
      if (tensor.format) accepted([&] { checkpoint.floats(name, tensor.shape); });
    }
  });
  return whole;
}

bool run_safetensors(const std::string& input) {
  const std::filesystem::path file = scratch("x.safetensors", input);
  return accepted([&] { read_everything(SafeTensors(file).tensors()); });
}

}  // namespace

// Small seeds: what is damaged in them matters more often, and libFuzzer cuts those that are longer than its inputs.
const Target json = {"json", run_json, [] { return seeds_of(".json", 1 << 12); }};
const Target gguf = {"gguf", run_gguf, [] { return seeds_of(".gguf", 70'000); }};
const Target safetensors = {"safetensors", run_safetensors, [] { return seeds_of(".safetensors", 1 << 15); }};

}  // namespace draftproof::fuzz
