// SPDX-License-Identifier: MIT
#include "ref/formats/safetensors_writer.h"

#include <fstream>
#include <nlohmann/json.hpp>

#include "ref/base/error.h"
#include "ref/base/require.h"
#include "ref/formats/whole_file.h"

namespace draftproof {
namespace {

constexpr std::size_t alignment = 8;  // of the tensors' bytes in the file

const char* type_of(Format format) {
  REQUIRE(format == Format::f32 || format == Format::f16 || format == Format::bf16, "safetensors have floats");
  return format == Format::f32 ? "F32" : format == Format::f16 ? "F16" : "BF16";
}

std::string header(std::span<const SafeTensor> tensors) {
  nlohmann::ordered_json json = {{"__metadata__", {{"format", "pt"}}}};  // transformers asks for it
  std::uint64_t begin = 0;
  for (const SafeTensor& tensor : tensors) {
    REQUIRE(!json.contains(tensor.name), "a tensor is written once");
    const WeightSource& rows = tensor.rows;
    const auto add = [&](const char* type, const std::vector<std::int64_t>& shape, std::uint64_t bytes) {
      json[tensor.name] = {{"dtype", type}, {"shape", shape}, {"data_offsets", {begin, begin + bytes}}};
      begin += bytes;
    };
    if (const auto count = static_cast<std::int64_t>(tensor.integers.size()); count > 0) {
      add("I64", {count}, sizeof(std::int64_t) * tensor.integers.size());
      continue;
    }
    std::vector<std::int64_t> shape = {rows.outputs, rows.inputs};
    if (rows.outputs == 1) shape.erase(shape.begin());
    add(type_of(rows.format), shape, rows.bytes_per_row() * static_cast<std::uint64_t>(rows.outputs));
  }
  std::string text = json.dump();
  text.resize((text.size() + alignment - 1) / alignment * alignment, ' ');
  return text;
}

}  // namespace

void write_safetensors(const std::filesystem::path& file, std::span<const SafeTensor> tensors) {
  replace_whole(file, [&](const std::filesystem::path& partial) {
    std::ofstream out(partial, std::ios::binary | std::ios::trunc);
    const auto write = [&](const char* bytes, std::size_t count) {
      out.write(bytes, static_cast<std::streamsize>(count));
      if (!out) throw Error(file.string() + ": cannot be written; check the folder and the space on the disk");
    };
    const std::string head = header(tensors);
    const auto write_little_endian = [&](std::uint64_t value) {
      for (std::size_t i = 0; i < sizeof value; ++i, value >>= 8) {
        const char byte = static_cast<char>(value & 0xFF);
        write(&byte, 1);
      }
    };
    write_little_endian(head.size());
    write(head.data(), head.size());
    for (const SafeTensor& tensor : tensors) {
      for (const std::int64_t integer : tensor.integers) write_little_endian(static_cast<std::uint64_t>(integer));
      if (tensor.integers.empty()) for_bytes_of_rows(tensor.rows, write);
    }
    out.close();
    if (!out) throw Error(file.string() + ": cannot be written; check the folder and the space on the disk");
  });
}

}  // namespace draftproof
