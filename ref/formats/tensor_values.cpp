// SPDX-License-Identifier: MIT
#include "ref/formats/tensor_values.h"

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <string>

#include "kernels/formats.h"
#include "ref/base/error.h"
#include "ref/formats/merged_matrix.h"
#include "ref/formats/quantized_folder/quantized_matrix.h"

namespace draftproof {
namespace {

/// Reads and unpacks values [begin, begin + count), which are whole quantization blocks of the file.
void unpack_values(const StoredTensor& tensor, std::uint64_t begin, std::uint64_t count, std::byte* to) {
  const Unpacking& unpacking = *tensor.unpacking;
  std::vector<std::uint8_t> packed(count / unpacking.block_inputs * unpacking.block_bytes);
  tensor.file->read(tensor.offset + begin / unpacking.block_inputs * unpacking.block_bytes, packed.size(),
                    packed.data());
  auto* at = reinterpret_cast<std::uint8_t*>(to);
  for (std::size_t from = 0; from < packed.size(); from += unpacking.block_bytes) {
    unpack_block(unpacking, packed.data() + from, at);
    at += row_bytes(unpacking.format, static_cast<int>(unpacking.block_inputs));
  }
}

/// Reads and checks values [begin, begin + count) in the tensor's format; they are whole quantization blocks of the
/// file, or whole rows of a matrix that is put together.
void read_values(const StoredTensor& tensor, std::uint64_t begin, std::uint64_t count, std::byte* to) {
  const FormatTraits& block = traits(*tensor.format);
  const auto block_inputs = static_cast<std::uint64_t>(block.block_inputs);
  const auto block_bytes = static_cast<std::uint64_t>(block.block_bytes);
  if (tensor.quantized != nullptr) {
    const std::uint64_t width = tensor.quantized->inputs();
    read_quantized_rows(*tensor.quantized, begin / width, count / width, to);
  } else if (tensor.unpacking != nullptr) {
    unpack_values(tensor, begin, count, to);
  } else {
    tensor.file->read(tensor.offset + begin / block_inputs * block_bytes, count / block_inputs * block_bytes, to);
  }
  const std::uint64_t bad = first_not_finite(*tensor.format, to, count);
  if (bad == count) return;
  std::string what = "a scale that is not finite";
  if (block_inputs == 1) {
    float value = 0;
    dequantize_row(*tensor.format, to + bad * block_bytes, 1, &value);
    what = std::to_string(value);
  }
  throw Error(where(tensor) + " has " + what + " as element " + std::to_string(begin + bad) +
              "; weights must be finite");
}

/// Returns the index of the row of the file that holds row `row` of the tensor.
std::uint64_t stored_row(const StoredTensor& tensor, std::uint64_t row) {
  if (tensor.rows_per_head == 0) return row;
  const auto rows = static_cast<std::uint64_t>(tensor.rows_per_head);
  const std::uint64_t in_head = row % rows;
  return row - in_head + in_head % (rows / 2) * 2 + in_head / (rows / 2);
}

/// Whether both have equal types, shapes and bytes.
bool same_bytes(const StoredTensor& a, const StoredTensor& b) {
  if (a.type_name != b.type_name || a.shape != b.shape || a.bytes != b.bytes || a.rows_per_head != b.rows_per_head) {
    return false;
  }
  constexpr std::uint64_t piece = std::uint64_t{1} << 20;
  std::string left;
  std::string right;
  for (std::uint64_t begin = 0; begin < a.bytes; begin += piece) {
    const std::uint64_t size = std::min(piece, a.bytes - begin);
    left.resize(size);
    right.resize(size);
    a.file->read(a.offset + begin, size, left.data());
    b.file->read(b.offset + begin, size, right.data());
    if (left != right) return false;
  }
  return true;
}

}  // namespace

WeightSource weight_of(const StoredTensor& tensor, int outputs, int inputs) {
  if (tensor.merged != nullptr) return merged_rows(tensor, outputs, inputs);
  WeightSource source = {*tensor.format, outputs, inputs, {}, {}};
  source.read = [tensor, inputs](int first, int rows, void* to) {
    const auto width = static_cast<std::uint64_t>(inputs);
    const auto row = static_cast<std::uint64_t>(first);
    auto* at = static_cast<std::byte*>(to);
    if (tensor.rows_per_head == 0) {
      read_values(tensor, row * width, static_cast<std::uint64_t>(rows) * width, at);
      return;
    }
    for (std::uint64_t r = row; r < row + static_cast<std::uint64_t>(rows); ++r) {
      read_values(tensor, stored_row(tensor, r) * width, width, at);
      at += row_bytes(*tensor.format, inputs);
    }
  };
  if (tensor.quantized != nullptr) {
    source.read_exact = [matrix = tensor.quantized](int first, int rows, float* to) {
      read_exact_values(*matrix, static_cast<std::uint64_t>(first), static_cast<std::uint64_t>(rows), to);
    };
  }
  return source;
}

std::vector<float> floats_of(const StoredTensor& tensor) {
  const std::uint64_t count = *elements(tensor.shape);
  std::vector<float> values(count);
  if (tensor.merged != nullptr) {
    const WeightSource rows = weight_of(tensor, static_cast<int>(tensor.shape[0]), static_cast<int>(tensor.shape[1]));
    rows.read_values(0, rows.outputs, values.data());
    return values;
  }
  const std::uint64_t together = tensor.quantized != nullptr
                                     ? tensor.quantized->inputs()
                                     : static_cast<std::uint64_t>(traits(*tensor.format).block_inputs);
  const std::uint64_t piece = std::max<std::uint64_t>(1, (1 << 18) / together) * together;
  std::vector<std::byte> bytes;
  for (std::uint64_t begin = 0; begin < count; begin += piece) {
    const int size = static_cast<int>(std::min(piece, count - begin));
    bytes.resize(row_bytes(*tensor.format, size));
    read_values(tensor, begin, static_cast<std::uint64_t>(size), bytes.data());
    dequantize_row(*tensor.format, bytes.data(), size, values.data() + begin);
  }
  if (tensor.rows_per_head == 0 || count == 0) return values;
  const std::uint64_t width = tensor.shape.size() < 2 ? 1 : static_cast<std::uint64_t>(tensor.shape.back());
  std::vector<float> ordered(count);
  for (std::uint64_t row = 0; row < count / width; ++row) {
    std::copy_n(values.data() + stored_row(tensor, row) * width, width, ordered.data() + row * width);
  }
  return ordered;
}

bool same_values(const StoredTensor& a, const StoredTensor& b) {
  if (a.merged != nullptr || b.merged != nullptr) return a.merged == b.merged;
  if (a.quantized == nullptr || b.quantized == nullptr) return a.quantized == b.quantized && same_bytes(a, b);
  return a.shape == b.shape && std::ranges::equal(a.quantized->parts, b.quantized->parts, same_bytes);
}

}  // namespace draftproof
