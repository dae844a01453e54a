// SPDX-License-Identifier: MIT
#include "ref/formats/gguf_writer.h"

#include <cerrno>
#include <cstring>
#include <fstream>
#include <system_error>

#include "kernels/formats.h"
#include "ref/base/error.h"
#include "ref/base/require.h"
#include "ref/formats/gguf_types.h"
#include "ref/formats/whole_file.h"

namespace draftproof {
namespace {

template <typename Number>
std::string raw(Number number) {
  std::string bytes(sizeof number, '\0');
  std::memcpy(bytes.data(), &number, sizeof number);
  return bytes;
}

std::string raw_type(GgufType type) { return raw(static_cast<std::uint32_t>(type)); }

std::string raw_text(const std::string& text) { return raw(std::uint64_t{text.size()}) + text; }

std::string array_head(GgufType type, std::size_t length) {
  return raw_type(GgufType::array) + raw_type(type) + raw(std::uint64_t{length});
}

std::uint64_t padding(std::uint64_t position) {
  return (gguf_default_alignment - position % gguf_default_alignment) % gguf_default_alignment;
}

std::uint64_t tensor_bytes(const GgufTensor& tensor) {
  if (!tensor.integers.empty()) return tensor.integers.size() * sizeof(std::int64_t);
  return tensor.rows.bytes_per_row() * static_cast<std::uint64_t>(tensor.rows.outputs);
}

std::string header(const GgufFields& fields, std::span<const GgufTensor> tensors) {
  std::string bytes = "GGUF" + raw(std::uint32_t{3}) + raw(std::uint64_t{tensors.size()}) + raw(fields.count());
  bytes += fields.bytes();
  std::uint64_t offset = 0;
  std::set<std::string> names;
  for (const GgufTensor& tensor : tensors) {
    REQUIRE(names.insert(tensor.name).second, "a tensor is written once");
    const bool integers = !tensor.integers.empty();
    std::vector<int> extents = {integers ? static_cast<int>(tensor.integers.size())
                                         : tensor.rows.inputs};  // innermost first
    if (!integers && tensor.rows.outputs != 1) extents.push_back(tensor.rows.outputs / tensor.matrices);
    if (tensor.matrices != 1) extents.push_back(tensor.matrices);
    bytes += raw_text(tensor.name) + raw(static_cast<std::uint32_t>(extents.size()));
    for (const int extent : extents) bytes += raw(static_cast<std::uint64_t>(extent));
    bytes += raw(integers ? gguf_integers : gguf_tensor_type(tensor.rows.format)->id) + raw(offset);
    offset += tensor_bytes(tensor);
    offset += padding(offset);
  }
  return bytes + std::string(padding(bytes.size()), '\0');
}

}  // namespace

std::uint32_t gguf_file_type(Format format) noexcept { return gguf_tensor_type(format)->file_type; }

void GgufFields::put(const std::string& key, const std::string& stored_value) {
  REQUIRE(keys_.insert(key).second, "a key is added once");
  bytes_ += raw_text(key) + stored_value;
}

void GgufFields::text(const std::string& key, const std::string& value) {
  put(key, raw_type(GgufType::string) + raw_text(value));
}

void GgufFields::size(const std::string& key, std::uint32_t value) {
  put(key, raw_type(GgufType::uint32) + raw(value));
}

void GgufFields::number(const std::string& key, float value) { put(key, raw_type(GgufType::float32) + raw(value)); }

void GgufFields::truth(const std::string& key, bool value) {
  put(key, raw_type(GgufType::boolean) + raw(std::uint8_t{value}));
}

void GgufFields::texts(const std::string& key, const std::vector<std::string>& values) {
  std::string bytes = array_head(GgufType::string, values.size());
  for (const std::string& value : values) bytes += raw_text(value);
  put(key, bytes);
}

void GgufFields::truths(const std::string& key, const std::vector<bool>& values) {
  std::string bytes = array_head(GgufType::boolean, values.size());
  for (const bool value : values) bytes += raw(std::uint8_t{value});
  put(key, bytes);
}

void GgufFields::integers(const std::string& key, const std::vector<std::int32_t>& values) {
  std::string bytes = array_head(GgufType::int32, values.size());
  for (const std::int32_t value : values) bytes += raw(value);
  put(key, bytes);
}

void GgufFields::numbers(const std::string& key, const std::vector<float>& values) {
  std::string bytes = array_head(GgufType::float32, values.size());
  for (const float value : values) bytes += raw(value);
  put(key, bytes);
}

void GgufFields::copy(const Gguf& from, const std::string& key) { put(key, from.stored_value(key)); }

void write_gguf(const std::filesystem::path& file, const GgufFields& fields, std::span<const GgufTensor> tensors) {
  replace_whole(file, [&](const std::filesystem::path& partial) {
    std::ofstream out(partial, std::ios::binary);
    const auto check = [&] {
      if (!out) throw Error(file.string() + ": cannot be written: " + std::generic_category().message(errno));
    };
    const auto write = [&](const char* bytes, std::size_t count) {
      out.write(bytes, static_cast<std::streamsize>(count));
      check();
    };
    const std::string head = header(fields, tensors);
    write(head.data(), head.size());
    for (const GgufTensor& tensor : tensors) {
      if (tensor.integers.empty()) for_bytes_of_rows(tensor.rows, write);
      else write(reinterpret_cast<const char*>(tensor.integers.data()), tensor_bytes(tensor));
      const std::string zeros(padding(tensor_bytes(tensor)), '\0');
      write(zeros.data(), zeros.size());
    }
    out.close();
    check();
  });
}

}  // namespace draftproof
