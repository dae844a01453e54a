// SPDX-License-Identifier: MIT
// A tensor where it lies in a file, checked: its format is known or named, its shape fills its bytes, its bytes are in
// the file. What it holds has not been read yet.
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

struct StoredTensor {
  std::string name;                     // as the file has it
  std::string type_name;                // as the file spells it: "F32", "BF16", "I64", "Q4_K", ...
  std::optional<Format> format;         // as it is read; none: listed, but nothing that we compute with
  const Unpacking* unpacking = nullptr; // from what the file has to `format`; nullptr: it is that already
  std::vector<std::int64_t> shape;  // outermost first; rows of shape.back() values
  std::shared_ptr<const FileBytes> file;
  std::uint64_t offset = 0;  // from the start of the file
  std::uint64_t bytes = 0;
  /// 0, or how many rows a head has, when they are stored in another order than ours: row 2j + part of a head in the
  /// file is row part * (rows_per_head / 2) + j of the tensor.
  int rows_per_head = 0;
};

/// A matrix in a checkpoint, read by rows. Keeps its file open.
struct WeightSource {
  Format format{};
  int outputs = 0;
  int inputs = 0;
  /// Rows [first, first + rows) to `to`, row_bytes(format, inputs) each. From any thread. Throws Error naming file and
  /// tensor when the file has become shorter or a value is not finite.
  std::function<void(int first, int rows, void* to)> read;
  std::size_t bytes_per_row() const noexcept;
};

/// "[2, 3]"
std::string shown(const std::vector<std::int64_t>& shape);

/// The number of elements; none when it cannot be counted in 63 bits. No extent is negative.
std::optional<std::uint64_t> elements(const std::vector<std::int64_t>& shape);

}  // namespace draftproof
