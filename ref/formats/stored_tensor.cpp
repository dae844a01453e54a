// SPDX-License-Identifier: MIT
#include "ref/formats/stored_tensor.h"

#include <algorithm>

#include "kernels/formats.h"
#include "ref/formats/printable.h"

namespace draftproof {

std::size_t WeightSource::bytes_per_row() const noexcept { return row_bytes(format, inputs); }

void WeightSource::read_values(int first, int rows, float* to) const {
  if (read_exact) {
    read_exact(first, rows, to);
    return;
  }
  const std::size_t row = bytes_per_row();
  std::vector<char> bytes(row * static_cast<std::size_t>(rows));
  read(first, rows, bytes.data());
  for (std::size_t i = 0; i < static_cast<std::size_t>(rows); ++i) {
    dequantize_row(format, bytes.data() + row * i, inputs, to + i * static_cast<std::size_t>(inputs));
  }
}

void for_bytes_of_rows(const WeightSource& rows,
                       const std::function<void(const char* bytes, std::size_t count)>& take) {
  constexpr std::size_t bytes_max = std::size_t{1} << 20;
  const std::size_t row = rows.bytes_per_row();
  const auto at_once = static_cast<int>(std::max<std::size_t>(1, bytes_max / row));
  std::vector<char> bytes;
  for (int first = 0; first < rows.outputs; first += at_once) {
    const int count = std::min(at_once, rows.outputs - first);
    bytes.resize(row * static_cast<std::size_t>(count));
    rows.read(first, count, bytes.data());
    take(bytes.data(), bytes.size());
  }
}

std::string where(const StoredTensor& tensor) {
  return tensor.file->file().string() + ": tensor " + in_quotes(tensor.name);
}

std::string shown(const std::vector<std::int64_t>& shape) {
  std::string text = "[";
  for (std::size_t i = 0; i < shape.size(); ++i) text += (i ? ", " : "") + std::to_string(shape[i]);
  return text + "]";
}

std::optional<std::uint64_t> elements(const std::vector<std::int64_t>& shape) {
  std::int64_t count = 1;
  bool none = false;
  for (const std::int64_t extent : shape) {
    none = none || extent == 0;
    if (__builtin_mul_overflow(count, extent == 0 ? 1 : extent, &count)) return std::nullopt;
  }
  return none ? 0 : static_cast<std::uint64_t>(count);
}

}  // namespace draftproof
