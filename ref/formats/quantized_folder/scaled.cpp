// SPDX-License-Identifier: MIT
#include "ref/formats/quantized_folder/scaled.h"

#include <algorithm>
#include <utility>

#include "ref/base/error.h"
#include "ref/formats/printable.h"

namespace draftproof {
namespace {

constexpr std::string_view endings_of_scales[] = {"_scale_inv", "_scale"};

/// The rows and inputs of one scale.
ScaleBlock block_of(const StoredTensor& codes, const StoredTensor& scales, ScaleBlock configured) {
  const std::int64_t outputs = codes.shape[codes.shape.size() - 2];
  const std::int64_t inputs = codes.shape.back();
  const std::vector<std::int64_t> matrices(codes.shape.begin(), codes.shape.end() - 2);
  const auto grid = [&](std::int64_t rows, std::int64_t columns) {
    std::vector<std::int64_t> shape = matrices;
    shape.insert(shape.end(), {rows, columns});
    return shape;
  };
  std::vector<std::int64_t> rows = matrices;
  rows.push_back(outputs);
  if (matrices.empty() && elements(scales.shape) == 1U) return {outputs, inputs};
  if (scales.shape == rows || scales.shape == grid(outputs, 1)) return {1, inputs};
  if (configured.rows == 0) {
    require_shape(scales, grid(outputs, 1), codes);
    return {1, inputs};
  }
  const auto blocks = [](std::int64_t extent, std::int64_t size) { return (extent + size - 1) / size; };
  require_shape(scales, grid(blocks(outputs, configured.rows), blocks(inputs, configured.inputs)), codes);
  return configured;
}

QuantizedMatrix matrix_of(const StoredTensor& codes, const StoredTensor& scales,
                          const std::optional<StoredTensor>& zeros, ScaleBlock configured) {
  if (codes.shape.size() != 3) require_matrix(codes);
  else require_matrix(codes, 3);
  require_type(scales, {"F32", "BF16", "F16", "F8_E8M0", "U8"});
  const ScaleBlock block = block_of(codes, scales, configured);
  QuantizedMatrix matrix;
  matrix.parts = {codes, scales};
  matrix.shape = codes.shape;
  matrix.group_inputs = static_cast<std::uint64_t>(block.inputs);
  matrix.signed_scales = codes.type_name == "I8";
  matrix.format = Format::bf16;
  if (codes.type_name == "I8" && zeros) choose_format(matrix, -255, 255, false);
  else if (codes.type_name == "I8") choose_format(matrix, -128, 127, false);
  if (zeros) {
    require_type(*zeros, {"I8"});
    require_shape(*zeros, scales.shape, codes);
    matrix.parts.push_back(*zeros);
  }
  matrix.decode = [block_rows = static_cast<std::uint64_t>(block.rows)](const QuantizedMatrix& of, std::uint64_t first,
                                                                        std::uint64_t rows) {
    const std::uint64_t groups = of.groups();
    const auto outputs = static_cast<std::uint64_t>(of.shape[of.shape.size() - 2]);
    const std::uint64_t grid_rows = (outputs + block_rows - 1) / block_rows;  // of each matrix
    const auto grid_row = [&](std::uint64_t row) { return row / outputs * grid_rows + row % outputs / block_rows; };
    const std::uint64_t begin = grid_row(first);
    const std::uint64_t count = (grid_row(first + rows - 1) - begin + 1) * groups;
    /// The numbers of a grid as numbers of rows.
    const auto spread = [&](const StoredTensor& grid) {
      const std::vector<float> stored = read_numbers(grid, begin * groups, count);
      std::vector<float> of_rows;
      of_rows.reserve(rows * groups);
      for (std::uint64_t row = first; row < first + rows; ++row) {
        const auto at = stored.begin() + static_cast<std::ptrdiff_t>((grid_row(row) - begin) * groups);
        of_rows.insert(of_rows.end(), at, at + static_cast<std::ptrdiff_t>(groups));
      }
      return of_rows;
    };
    CodeRows numbers;
    numbers.codes = read_numbers(of.parts[0], first * of.inputs(), rows * of.inputs());
    numbers.scales = spread(of.parts[1]);
    if (of.parts.size() > 2) numbers.zeros = spread(of.parts[2]);
    return numbers;
  };
  return matrix;
}

}  // namespace

void put_scaled_matrices(FolderTensors& tensors, const ScaledWeights& weights) {
  for (const std::string& name : tensors.stems("", {weights.type})) {
    if (name.ends_with("_scale") || name.ends_with("_zero_point")) continue;
    const bool inverse = tensors.has(name + std::string(endings_of_scales[0]));
    const StoredTensor scales = tensors.need(name + std::string(endings_of_scales[inverse ? 0 : 1]));
    const std::string zeros_name = name + "_zero_point";
    const auto zeros = weights.symmetric ? tensors.take(zeros_name) : tensors.need(zeros_name);
    const StoredTensor codes = tensors.need(name);
    if (tensors.complete()) tensors.put(name, matrix_of(codes, scales, zeros, weights.block));
  }
}

void need_scaled_codes(FolderTensors& tensors) {
  for (const std::string_view codes : {".weight", "_proj"}) {
    for (const char* const part : {"_scale_inv", "_scale", "_zero_point"}) {
      tensors.need_codes(std::string(codes) + part, codes);
    }
  }
}

void drop_activation_scales(FolderTensors& tensors) {
  for (const char* const ending :
       {".input_scale", ".input_zero_point", ".input_global_scale", ".activation_scale", ".output_scale",
        ".output_zero_point", ".k_scale", ".v_scale", ".q_scale", ".k_zero_point", ".v_zero_point", ".q_zero_point"}) {
    tensors.drop(ending);
  }
}

std::string activations_text(const std::string& to, bool stored_scales) {
  return "not quantized to " + to + ", as other engines do" + (stored_scales ? "; the stored scales are ignored" : "");
}

}  // namespace draftproof
