// SPDX-License-Identifier: MIT
#include "ref/formats/stored_tensor.h"

#include "kernels/formats.h"

namespace draftproof {

std::size_t WeightSource::bytes_per_row() const noexcept { return row_bytes(format, inputs); }

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
