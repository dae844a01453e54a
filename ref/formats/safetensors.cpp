// SPDX-License-Identifier: MIT
#include "ref/formats/safetensors.h"

#include <algorithm>
#include <bit>
#include <limits>
#include <optional>
#include <string_view>
#include <utility>

#include "kernels/formats.h"
#include "ref/base/error.h"
#include "ref/formats/json.h"
#include "ref/formats/printable.h"

namespace draftproof {

namespace {

static_assert(std::endian::native == std::endian::little, "stored elements are little-endian and are not converted");

constexpr std::size_t length_bytes = 8;
constexpr std::uint64_t header_bytes_max = 100'000'000;  // the limit of Hugging Face's own reader
constexpr std::int64_t int64_max = std::numeric_limits<std::int64_t>::max();

std::optional<Format> format_of(std::string_view name) {
  if (name == "F32") return Format::f32;
  if (name == "F16") return Format::f16;
  if (name == "BF16") return Format::bf16;
  return std::nullopt;
}

/// Returns the bytes per element of a type; nothing for types that are newer than this list or have no whole bytes.
std::optional<std::uint64_t> element_bytes(std::string_view name) {
  constexpr std::pair<std::string_view, std::uint64_t> sizes[] = {
      {"F64", 8},  {"F32", 4}, {"F16", 2},     {"BF16", 2},    {"I64", 8},    {"U64", 8},
      {"I32", 4},  {"U32", 4}, {"I16", 2},     {"U16", 2},     {"I8", 1},     {"U8", 1},
      {"BOOL", 1}, {"C64", 8}, {"F8_E4M3", 1}, {"F8_E5M2", 1}, {"F8_E8M0", 1}};
  for (const auto& [known, bytes] : sizes) {
    if (known == name) return bytes;
  }
  return std::nullopt;
}

/// Reads one entry of the header and checks every number against the file's data, [data, data + data_bytes).
StoredTensor read_entry(const Json& entry, std::uint64_t data, std::uint64_t data_bytes) {
  StoredTensor tensor;
  tensor.type_name = entry.at("dtype").string();
  tensor.format = format_of(tensor.type_name);
  tensor.shape = entry.at("shape").integers(0, int64_max);
  const Json offsets = entry.at("data_offsets");
  if (offsets.size() != 2) offsets.fail("must be [begin, end]");
  const auto begin = static_cast<std::uint64_t>(offsets[0].integer(0, int64_max));
  const auto end = static_cast<std::uint64_t>(offsets[1].integer(0, int64_max));
  if (begin > end || end > data_bytes) {
    offsets.fail("bytes " + std::to_string(begin) + " to " + std::to_string(end) + " are not inside the file's " +
                 std::to_string(data_bytes) + " bytes of data; the file is damaged or cut short, fetch it again");
  }
  tensor.offset = data + begin;
  tensor.bytes = end - begin;

  const auto count = elements(tensor.shape);
  if (!count) entry.fail("shape " + shown(tensor.shape) + " has more elements than can be counted");
  if (const auto size = element_bytes(tensor.type_name)) {
    std::uint64_t expected = 0;
    if (__builtin_mul_overflow(*count, *size, &expected) || expected != tensor.bytes) {
      entry.fail("shape " + shown(tensor.shape) + " of " + tensor.type_name + " does not fill bytes " +
                 std::to_string(begin) + " to " + std::to_string(end));
    }
  }
  return tensor;
}

/// Throws Error unless every byte of data belongs to exactly one tensor, as the format requires.
void check_coverage(const std::filesystem::path& file, const std::map<std::string, StoredTensor>& tensors,
                    std::uint64_t data, std::uint64_t data_bytes) {
  std::vector<std::pair<const std::string*, const StoredTensor*>> order;
  for (const auto& [name, tensor] : tensors) order.emplace_back(&name, &tensor);
  std::ranges::sort(order, {}, [](const auto& item) { return std::pair(item.second->offset, item.second->bytes); });
  std::uint64_t covered = data;
  for (const auto& [name, tensor] : order) {
    if (tensor->offset != covered) {
      throw Error(file.string() + ": tensor " + in_quotes(*name) +
                  (tensor->offset < covered ? " overlaps the tensor before it" : " leaves a gap before it") +
                  " in the data; the file is damaged, fetch it again");
    }
    covered += tensor->bytes;
  }
  if (covered != data + data_bytes) {
    throw Error(file.string() + ": " + std::to_string(data + data_bytes - covered) +
                " bytes after the last tensor belong to none; the file is damaged, fetch it again");
  }
}

}  // namespace

SafeTensors::SafeTensors(const std::filesystem::path& file) : bytes_(std::make_shared<FileBytes>(file)) {
  const std::uint64_t size = bytes_->size();
  if (size < length_bytes) {
    throw Error(file.string() + ": " + std::to_string(size) + " bytes cannot be a safetensors file; fetch it again");
  }
  std::uint64_t header_bytes = 0;
  bytes_->read(0, length_bytes, &header_bytes);
  if (header_bytes == 0 || header_bytes > header_bytes_max || header_bytes > size - length_bytes) {
    throw Error(file.string() + ": states a header of " + std::to_string(header_bytes) + " bytes in a file of " +
                std::to_string(size) + "; not a safetensors file or cut short, fetch it again");
  }
  std::string text(header_bytes, '\0');
  bytes_->read(length_bytes, text.size(), text.data());
  const std::uint64_t data = length_bytes + header_bytes;

  const Json header = Json::parse(text, file.string() + ": header");
  for (const std::string& name : header.fields()) {
    if (name == "__metadata__") {
      const auto entry = header.find(name);  // null is none
      for (const std::string& field : entry ? entry->fields() : std::vector<std::string>()) {
        metadata_[field] = entry->at(field).string();
      }
    } else {
      StoredTensor& tensor = tensors_.emplace(name, read_entry(header.at(name), data, size - data)).first->second;
      tensor.name = name;
      tensor.file = bytes_;
    }
  }
  check_coverage(file, tensors_, data, size - data);
}

}  // namespace draftproof
