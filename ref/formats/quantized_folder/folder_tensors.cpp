// SPDX-License-Identifier: MIT
#include "ref/formats/quantized_folder/folder_tensors.h"

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstring>
#include <limits>
#include <utility>

#include "ref/base/error.h"
#include "ref/formats/printable.h"

namespace draftproof {
namespace {

constexpr std::size_t shown_max = 20;

/// Twice what a code of four bits stands for, as a float of four bits, with its sign of zero.
float fp4_number(std::uint32_t code) { return code == 8 ? -0.0F : static_cast<float>(fp4_numbers[code]); }

/// Four bits of exponent, three of fraction; the codes 0x7f and 0xff are no numbers.
float e4m3_to_f32(std::uint8_t code) {
  const std::uint32_t exponent = code >> 3 & 15U;
  const std::uint32_t fraction = code & 7U;
  float magnitude = static_cast<float>(fraction) * 0x1p-9F;
  if (exponent > 0) magnitude = std::bit_cast<float>((exponent + 120) << 23 | fraction << 20);
  if ((code & 0x7FU) == 0x7F) magnitude = std::numeric_limits<float>::quiet_NaN();
  return (code & 0x80U) != 0 ? -magnitude : magnitude;
}

/// 2^(code - 127); the code 255 is no number.
float e8m0_to_f32(std::uint8_t code) {
  if (code == 255) return std::numeric_limits<float>::quiet_NaN();
  return std::bit_cast<float>(code == 0 ? 0x00400000U : std::uint32_t{code} << 23);
}

std::uint64_t element_bytes(const StoredTensor& tensor) {
  const std::uint64_t count = *elements(tensor.shape);
  return count == 0 ? 1 : tensor.bytes / count;
}

QuantizedMatrix fp4_matrix(const StoredTensor& codes, const StoredTensor& scales, std::vector<std::int64_t> shape,
                           std::uint64_t inputs_per_scale, float factor, float divisor) {
  QuantizedMatrix matrix;
  matrix.parts = {codes, scales};
  matrix.shape = std::move(shape);
  matrix.group_inputs = inputs_per_scale;
  matrix.format = Format::bf16;
  matrix.decode = [factor, divisor](const QuantizedMatrix& of, std::uint64_t first, std::uint64_t rows) {
    CodeRows numbers;
    const std::uint64_t count = rows * of.inputs();
    const std::vector<std::uint8_t> bytes = read_bytes(of.parts[0], first * of.inputs() / 2, count / 2);
    numbers.codes.resize(count);
    for (std::uint64_t i = 0; i < count; ++i) numbers.codes[i] = fp4_number(code_at(bytes.data(), i, 4));
    numbers.scales = read_numbers(of.parts[1], first * of.groups(), rows * of.groups());
    for (float& scale : numbers.scales) scale = scale * factor / divisor / 2;
    return numbers;
  };
  return matrix;
}

}  // namespace

std::vector<std::string> FolderTensors::stems(std::string_view ending,
                                              const std::vector<std::string_view>& types) const {
  std::vector<std::string> stems;
  for (const auto& [name, tensor] : tensors_) {
    if (!name.ends_with(ending) || std::ranges::find(types, tensor.type_name) == types.end()) continue;
    stems.push_back(name.substr(0, name.size() - ending.size()));
  }
  return stems;
}

StoredTensor FolderTensors::need(const std::string& name) {
  auto tensor = take(name);
  if (!tensor) missing_.push_back(name);
  return tensor.value_or(StoredTensor{});
}

std::optional<StoredTensor> FolderTensors::take(const std::string& name) {
  auto node = tensors_.extract(name);
  if (node.empty()) return std::nullopt;
  return std::move(node.mapped());
}

void FolderTensors::need_codes(std::string_view part, std::string_view codes) {
  for (const auto& [name, tensor] : tensors_) {
    if (!name.ends_with(part)) continue;
    const std::string of = name.substr(0, name.size() - part.size()) + std::string(codes);
    if (const auto found = tensors_.find(of); found != tensors_.end()) {
      throw Error(where(tensor) + " belongs to quantized codes, but " + in_quotes(found->second.name) + " has type " +
                  in_quotes(found->second.type_name) + "; remove it, or quantize the model again");
    }
    if (std::ranges::find(missing_, of) == missing_.end()) missing_.push_back(of);
  }
}

void FolderTensors::drop(std::string_view ending) {
  dropped_ += std::erase_if(tensors_, [&](const auto& entry) { return entry.first.ends_with(ending); });
}

void FolderTensors::put(const std::string& name, QuantizedMatrix matrix) {
  StoredTensor tensor = matrix.parts[0];
  tensor.shape = matrix.shape;
  tensor.format = matrix.format;
  tensor.bytes = 0;
  for (const StoredTensor& part : matrix.parts) tensor.bytes += part.bytes;
  tensor.quantized = std::make_shared<const QuantizedMatrix>(std::move(matrix));
  const auto [place, is_new] = tensors_.emplace(name, tensor);
  if (!is_new) {
    throw Error(where(tensor) + " is a quantized matrix that " + place->second.file->file().string() +
                " also has unquantized, as " + in_quotes(place->second.name) + "; remove one of the two");
  }
  ++matrices_;
}

void FolderTensors::finish() const {
  if (missing_.empty()) return;
  std::string names;
  for (std::size_t i = 0; i < std::min(missing_.size(), shown_max); ++i) {
    names += (i == 0 ? "" : ", ") + in_quotes(missing_[i]);
  }
  if (missing_.size() > shown_max) names += ", and " + std::to_string(missing_.size() - shown_max) + " more";
  throw Error(folder_.string() + ": the quantized weights have no tensor " + names + "; fetch the folder again");
}

void require_type(const StoredTensor& tensor, const std::vector<std::string_view>& types) {
  if (std::ranges::find(types, tensor.type_name) != types.end()) return;
  std::string known;
  for (const std::string_view type : types) known += (known.empty() ? "" : " or ") + std::string(type);
  throw Error(where(tensor) + " has type " + in_quotes(tensor.type_name) + ", but its scheme stores " + known +
              "; quantize the model again");
}

void require_shape(const StoredTensor& tensor, const std::vector<std::int64_t>& shape, const StoredTensor& codes) {
  if (tensor.shape == shape) return;
  throw Error(where(tensor) + " has shape " + shown(tensor.shape) + ", but with " + in_quotes(codes.name) +
              " of shape " + shown(codes.shape) + " and the quantization of config.json it must have " + shown(shape) +
              "; correct the one that is wrong");
}

void require_matrix(const StoredTensor& codes, std::size_t dimensions) {
  const bool right = codes.shape.size() == dimensions &&
                     std::ranges::all_of(codes.shape, [](auto extent) { return extent > 0 && extent <= extent_max; });
  if (right) return;
  throw Error(where(codes) + " has shape " + shown(codes.shape) + ", but a quantized matrix has " +
              std::to_string(dimensions) + " dimensions of 1 to " + std::to_string(extent_max) +
              "; quantize the model again");
}

std::vector<std::uint8_t> read_bytes(const StoredTensor& tensor, std::uint64_t begin, std::uint64_t count) {
  std::vector<std::uint8_t> bytes(count);
  tensor.file->read(tensor.offset + begin, count, bytes.data());
  return bytes;
}

std::vector<float> read_numbers(const StoredTensor& tensor, std::uint64_t begin, std::uint64_t count) {
  const std::uint64_t size = element_bytes(tensor);
  const std::vector<std::uint8_t> bytes = read_bytes(tensor, begin * size, count * size);
  std::vector<float> numbers(count);
  if (tensor.format) {
    dequantize_row(*tensor.format, bytes.data(), static_cast<int>(count), numbers.data());
  } else if (tensor.type_name == "F8_E4M3") {
    std::ranges::transform(bytes, numbers.begin(), e4m3_to_f32);
  } else if (tensor.type_name == "I8") {
    std::ranges::transform(bytes, numbers.begin(), [](std::uint8_t b) { return static_cast<std::int8_t>(b); });
  } else {
    std::ranges::transform(bytes, numbers.begin(), e8m0_to_f32);
  }
  return numbers;
}

std::vector<std::uint32_t> read_words(const StoredTensor& tensor, std::uint64_t begin, std::uint64_t count) {
  std::vector<std::uint32_t> words(count);
  tensor.file->read(tensor.offset + sizeof(std::uint32_t) * begin, sizeof(std::uint32_t) * count, words.data());
  return words;
}

std::vector<float> read_code_rows(const StoredTensor& tensor, unsigned bits, std::uint64_t inputs, std::uint64_t first,
                                  std::uint64_t rows) {
  const std::uint64_t row_bytes = sizeof(std::uint32_t) * static_cast<std::uint64_t>(tensor.shape.back());
  const std::vector<std::uint8_t> bytes = read_bytes(tensor, first * row_bytes, rows * row_bytes);
  std::vector<float> codes(rows * inputs);
  for (std::uint64_t row = 0; row < rows; ++row) {
    for (std::uint64_t i = 0; i < inputs; ++i) {
      codes[row * inputs + i] = static_cast<float>(code_at(bytes.data() + row * row_bytes, i, bits));
    }
  }
  return codes;
}

std::vector<std::uint32_t> read_order(const StoredTensor& tensor, std::uint64_t groups, std::uint64_t group_inputs) {
  require_type(tensor, {"I32"});
  const std::vector<std::uint32_t> order = read_words(tensor, 0, *elements(tensor.shape));
  bool in_order = true;
  for (std::size_t i = 0; i < order.size(); ++i) {
    if (order[i] >= groups) {
      throw Error(where(tensor) + " puts input " + std::to_string(i) + " into group " +
                  std::to_string(static_cast<std::int32_t>(order[i])) + ", but there are " + std::to_string(groups) +
                  " from 0 on; the file is damaged, fetch it again");
    }
    in_order = in_order && order[i] == i / group_inputs;
  }
  return in_order ? std::vector<std::uint32_t>() : order;
}

std::vector<std::uint32_t> read_word_columns(const StoredTensor& tensor, std::uint64_t begin, std::uint64_t count) {
  const auto rows = static_cast<std::uint64_t>(tensor.shape[0]);
  const auto columns = static_cast<std::uint64_t>(tensor.shape[1]);
  std::vector<std::uint32_t> words(rows * count);
  for (std::uint64_t row = 0; row < rows; ++row) {
    tensor.file->read(tensor.offset + sizeof(std::uint32_t) * (row * columns + begin), sizeof(std::uint32_t) * count,
                      words.data() + row * count);
  }
  return words;
}

std::vector<float> read_number_columns(const StoredTensor& tensor, std::uint64_t begin, std::uint64_t count) {
  const auto rows = static_cast<std::uint64_t>(tensor.shape[0]);
  const auto columns = static_cast<std::uint64_t>(tensor.shape[1]);
  std::vector<float> turned(count * rows);
  for (std::uint64_t row = 0; row < rows; ++row) {
    const std::vector<float> numbers = read_numbers(tensor, row * columns + begin, count);
    for (std::uint64_t column = 0; column < count; ++column) turned[column * rows + row] = numbers[column];
  }
  return turned;
}

float read_positive(const StoredTensor& tensor) {
  require_type(tensor, {"F32", "BF16", "F16"});
  if (elements(tensor.shape) != 1U) require_shape(tensor, {1}, tensor);
  const float number = read_numbers(tensor, 0, 1)[0];
  if (!(number > 0 && number <= std::numeric_limits<float>::max())) {
    throw Error(where(tensor) + " is " + std::to_string(number) +
                ", but every scale depends on it; the file is damaged, fetch it again");
  }
  return number;
}

std::string bits_text(unsigned bits, std::int64_t group) {
  return std::to_string(bits) + " bits" + (group < 0 ? "" : ", groups of " + std::to_string(group));
}

QuantizedMatrix nvfp4_matrix(const StoredTensor& codes, const StoredTensor& scales, const ScaleOfScales& whole) {
  constexpr std::int64_t inputs_per_scale = 16;
  require_matrix(codes, codes.shape.size() == 3 ? 3 : 2);
  std::vector<std::int64_t> shape = codes.shape;
  shape.back() *= 2;
  std::vector<std::int64_t> grid = shape;
  grid.back() = (shape.back() + inputs_per_scale - 1) / inputs_per_scale;
  require_type(scales, {"F8_E4M3"});
  require_shape(scales, grid, codes);
  const float factor = whole.factor == nullptr ? 1 : read_positive(*whole.factor);
  const float divisor = whole.divisor == nullptr ? 1 : read_positive(*whole.divisor);
  QuantizedMatrix matrix = fp4_matrix(codes, scales, std::move(shape), inputs_per_scale, factor, divisor);
  for (const StoredTensor* const part : {whole.factor, whole.divisor}) {
    if (part != nullptr) matrix.parts.push_back(*part);
  }
  return matrix;
}

QuantizedMatrix mxfp4_matrix(const StoredTensor& codes, const StoredTensor& scales, std::vector<std::int64_t> shape) {
  QuantizedMatrix matrix = fp4_matrix(codes, scales, std::move(shape), 32, 1, 1);
  if (matrix.inputs() % matrix.group_inputs == 0) matrix.format = Format::mxfp4;
  return matrix;
}

}  // namespace draftproof
