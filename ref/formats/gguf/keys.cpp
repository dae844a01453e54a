// SPDX-License-Identifier: MIT
#include "ref/formats/gguf/keys.h"

#include <algorithm>
#include <cmath>

#include "ref/base/error.h"
#include "ref/formats/printable.h"

namespace draftproof {

std::optional<std::int64_t> GgufKeys::find_size(const std::string& name) const {
  const auto value = find_integer(name);
  if (value && *value < 1) fail(name, "must be at least 1, but is " + std::to_string(*value));
  return value;
}

std::optional<double> GgufKeys::find_number(const std::string& name) const {
  const auto value = file_.find_number(prefix_ + name);
  if (value && !(*value > -1e300 && *value < 1e300)) fail(name, "must be a finite number");
  return value;
}

std::optional<bool> GgufKeys::find_boolean(const std::string& name) const {
  const auto found = file_.metadata().find(prefix_ + name);
  if (found == file_.metadata().end()) return std::nullopt;
  if (const bool* const value = std::get_if<bool>(&found->second)) return *value;
  fail(name, "must be a boolean");
}

std::optional<std::vector<std::int64_t>> GgufKeys::find_integers(const std::string& name) const {
  const auto found = file_.metadata().find(prefix_ + name);
  if (found == file_.metadata().end()) return std::nullopt;
  if (const auto* const values = std::get_if<std::vector<std::int64_t>>(&found->second)) return *values;
  const auto* const values = std::get_if<std::vector<std::uint64_t>>(&found->second);
  if (values == nullptr) fail(name, "must be an array of integers");
  return std::vector<std::int64_t>(values->begin(), values->end());
}

std::optional<std::vector<double>> GgufKeys::find_numbers(const std::string& name) const {
  const auto found = file_.metadata().find(prefix_ + name);
  if (found == file_.metadata().end()) return std::nullopt;
  if (const auto* const values = std::get_if<std::vector<double>>(&found->second)) return *values;
  fail(name, "must be an array of numbers");
}

std::int64_t GgufKeys::rows(const std::string& matrix) const {
  const auto found = file_.tensors().find(matrix);
  return found != file_.tensors().end() && found->second.shape.size() == 2 ? found->second.shape[0] : 0;
}

std::int64_t GgufKeys::layers() const {
  constexpr std::int64_t layers_max = 1 << 16;
  const std::int64_t layers = size("block_count");
  if (layers > layers_max) fail("block_count", "is more than any real model's, " + std::to_string(layers));
  return layers;
}

std::vector<double> GgufKeys::layer_numbers(const std::string& whole_key) const {
  const auto layers = static_cast<std::size_t>(this->layers());
  const auto found = file_.metadata().find(whole_key);
  if (found == file_.metadata().end()) file_.fail(whole_key, "is missing; the file does not describe the model");
  const auto* const listed = std::get_if<std::vector<double>>(&found->second);
  const std::vector<double> numbers =
      listed != nullptr ? *listed : std::vector<double>(layers, *file_.find_number(whole_key));
  if (numbers.size() != layers) {
    file_.fail(whole_key,
               "has " + std::to_string(numbers.size()) + " values for " + std::to_string(layers) + " layers");
  }
  for (const double value : numbers) {
    if (!(value > -1e30 && value < 1e30)) file_.fail(whole_key, "must be finite numbers");
  }
  return numbers;
}

bool GgufKeys::listed(const std::string& name) const {
  const auto found = file_.metadata().find(prefix_ + name);
  return found != file_.metadata().end() && (std::holds_alternative<std::vector<std::int64_t>>(found->second) ||
                                             std::holds_alternative<std::vector<std::uint64_t>>(found->second));
}

std::vector<std::int64_t> GgufKeys::layer_sizes(const std::string& name) const {
  const auto layers = static_cast<std::size_t>(this->layers());
  if (!listed(name)) return std::vector<std::int64_t>(layers, size(name));
  std::vector<std::int64_t> sizes = *find_integers(name);
  if (sizes.size() != layers) {
    fail(name, "has " + std::to_string(sizes.size()) + " values for " + std::to_string(layers) + " layers");
  }
  for (const std::int64_t value : sizes) {
    if (value < 1) fail(name, "must be at least 1, but is " + std::to_string(value));
  }
  return sizes;
}

std::optional<std::int64_t> GgufKeys::find_layer_size(const std::string& name) const {
  if (!listed(name)) return find_size(name);
  const std::vector<std::int64_t> sizes = layer_sizes(name);
  if (std::ranges::any_of(sizes, [&](std::int64_t value) { return value != sizes[0]; })) {
    fail(name, "differs from layer to layer, which is not implemented");
  }
  return sizes[0];
}

std::vector<std::int64_t> GgufKeys::attention_sizes(const std::string& name) const {
  const auto layers = static_cast<std::size_t>(this->layers());
  std::vector<std::int64_t> sizes = listed(name) ? *find_integers(name) : std::vector(layers, size(name));
  if (sizes.size() != layers) {
    fail(name, "has " + std::to_string(sizes.size()) + " values for " + std::to_string(layers) + " layers");
  }
  const std::int64_t one = *std::ranges::max_element(sizes);
  if (one < 1) fail(name, "must be at least 1 for some layer");
  if (std::ranges::any_of(sizes, [one](std::int64_t value) { return value != 0 && value != one; })) {
    fail(name, "must be 0 or one other number; other layers are not implemented");
  }
  return sizes;
}

std::vector<float> GgufKeys::vector(const std::string& name) const {
  const StoredTensor& tensor = file_.tensors().at(name);
  if (tensor.format != Format::f32 || tensor.shape.size() != 1) {
    throw Error(file_.file().string() + ": tensor " + in_quotes(name) + " must be a vector of F32");
  }
  std::vector<float> values(static_cast<std::size_t>(tensor.shape[0]));
  tensor.file->read(tensor.offset, values.size() * sizeof(float), values.data());
  for (const float value : values) {
    if (!std::isfinite(value))
      throw Error(file_.file().string() + ": tensor " + in_quotes(name) + " has a value that is not finite");
  }
  return values;
}

void GgufKeys::refuse_all_but(std::initializer_list<std::span<const std::string_view>> known) const {
  for (auto at = file_.metadata().lower_bound(prefix_); at != file_.metadata().end(); ++at) {
    if (!at->first.starts_with(prefix_)) return;
    const std::string_view name = std::string_view(at->first).substr(prefix_.size());
    const auto has = [name](std::span<const std::string_view> names) { return std::ranges::count(names, name) > 0; };
    if (std::ranges::any_of(known, has)) continue;
    file_.fail(printable(at->first), "is not implemented; ignoring it could compute something else");
  }
}

void GgufKeyWriter::one_or_all(const std::string& name, const std::vector<std::int32_t>& values) {
  if (std::ranges::count(values, values.front()) == std::ssize(values)) size(name, values.front());
  else integers(name, values);
}

}  // namespace draftproof
