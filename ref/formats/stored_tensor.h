// SPDX-License-Identifier: MIT
// The location of a tensor in a file. Checked: its format is known or named, its shape fits its bytes, and its bytes
// are in the file. Its values have not been read yet.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "kernels/formats.h"
#include "ref/formats/file_bytes.h"
#include "ref/formats/unpacking.h"

namespace draftproof {

struct QuantizedMatrix;
struct MergedMatrix;

struct StoredTensor {
  std::string name;                      // as in the file
  std::string type_name;                 // as in the file: "F32", "BF16", "I64", "Q4_K", ...
  std::optional<Format> format;          // after reading; none: no kernel supports the type
  const Unpacking* unpacking = nullptr;  // converts the stored type to `format`; nullptr: stored in `format`
  std::vector<std::int64_t> shape;       // outermost first; rows of shape.back() values
  /// Puts the tensor together, in `format`, from several tensors of a quantized folder; `file` and `offset` are then
  /// those of its codes. nullptr: it is one tensor.
  std::shared_ptr<const QuantizedMatrix> quantized;
  /// Adds what an adapter says to another tensor, and has the result in `format`. What says how values are stored is
  /// then left out, and all else is that tensor's. nullptr: nothing is added.
  std::shared_ptr<const MergedMatrix> merged;
  std::shared_ptr<const FileBytes> file;
  std::uint64_t offset = 0;  // from the start of the file
  std::uint64_t bytes = 0;
  /// The rows per head when the file stores the rows of heads interleaved, else 0: row 2j + part of a head in the file
  /// is row part * (rows_per_head / 2) + j of the tensor.
  int rows_per_head = 0;
};

/// A matrix in a checkpoint, read by rows. Keeps the file open.
struct WeightSource {
  Format format{};
  int outputs = 0;
  int inputs = 0;
  /// Reads rows [first, first + rows) to `to`, row_bytes(format, inputs) each. Thread-safe. Throws Error, naming file
  /// and tensor, when the file has become shorter or a value is not finite.
  std::function<void(int first, int rows, void* to)> read;
  /// The same as floats; empty unless `format` may hold the values of the file rounded.
  std::function<void(int first, int rows, float* to)> read_exact = {};
  std::size_t bytes_per_row() const noexcept;
  /// Reads rows as floats: by read_exact, or the values of what `read` gives.
  void read_values(int first, int rows, float* to) const;
};

/// Reads all rows, about a megabyte at a time, and passes their bytes on in order.
void for_bytes_of_rows(const WeightSource& rows, const std::function<void(const char* bytes, std::size_t count)>& take);

/// "FILE: tensor 'NAME'"
std::string where(const StoredTensor& tensor);

/// Returns the shape as "[2, 3]".
std::string shown(const std::vector<std::int64_t>& shape);

/// Returns the number of elements; none when it does not fit 63 bits. No dimension may be negative.
std::optional<std::uint64_t> elements(const std::vector<std::int64_t>& shape);

}  // namespace draftproof
