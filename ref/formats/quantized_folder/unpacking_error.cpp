// SPDX-License-Identifier: MIT
#include "ref/formats/quantized_folder/unpacking_error.h"

#include <algorithm>
#include <cmath>
#include <vector>

#include "ref/formats/quantized_folder/quantized_matrix.h"

namespace draftproof {

UnpackingError measure_unpacking(const Checkpoint& files) {
  constexpr std::uint64_t values_of_matrix = 1 << 20;
  constexpr std::uint64_t rows_together = 16;
  UnpackingError error;
  double squares = 0;
  double difference_squares = 0;
  for (const auto& [name, tensor] : files.tensors()) {
    if (tensor.quantized == nullptr) continue;
    ++error.matrices[traits(*tensor.format).name];
    const WeightSource source = files.weight(name, tensor.shape);
    const auto width = static_cast<std::uint64_t>(source.inputs);
    const auto all_rows = static_cast<std::uint64_t>(source.outputs);
    const std::uint64_t pieces = (all_rows + rows_together - 1) / rows_together;
    const std::uint64_t step = std::max<std::uint64_t>(1, all_rows * width / values_of_matrix);
    for (std::uint64_t piece = 0; piece < pieces; piece += step) {
      const std::uint64_t first = piece * rows_together;
      const std::uint64_t rows = std::min(rows_together, all_rows - first);
      std::vector<float> exact(rows * width);
      std::vector<float> kept(rows * width);
      std::vector<std::byte> bytes(source.bytes_per_row() * rows);
      source.read_exact(static_cast<int>(first), static_cast<int>(rows), exact.data());
      source.read(static_cast<int>(first), static_cast<int>(rows), bytes.data());
      for (std::uint64_t row = 0; row < rows; ++row) {
        dequantize_row(source.format, bytes.data() + row * source.bytes_per_row(), source.inputs,
                       kept.data() + row * width);
      }
      for (std::size_t i = 0; i < exact.size(); ++i) {
        const double difference = double{kept[i]} - double{exact[i]};
        squares += double{exact[i]} * double{exact[i]};
        difference_squares += difference * difference;
        if (exact[i] != 0) error.max = std::max(error.max, std::abs(difference / double{exact[i]}));
      }
      error.values += exact.size();
    }
  }
  if (squares > 0) error.rms = std::sqrt(difference_squares / squares);
  return error;
}

}  // namespace draftproof
