// SPDX-License-Identifier: MIT
// Weight matrices, laid out once for one table of kernels.
#pragma once

#include <array>
#include <cstddef>
#include <functional>
#include <span>
#include <vector>

#include "kernels/aligned.h"
#include "kernels/kernels.h"

namespace draftproof {

/// Rows of a weight as a checkpoint gives them: `read` puts rows [first, first + count) as the format lays them down to
/// `rows`, 64-byte aligned, and may be called from several threads at once. What it throws comes out of PackedMatrix.
struct MatrixSource {
  Format format;
  int outputs;
  int inputs;
  std::function<void(int first, int count, void* rows)> read;
};

/// A weight packed for one table: one part, or several with equal inputs whose outputs follow each other.
class PackedMatrix {
 public:
  PackedMatrix() = default;
  /// Copies; parts keep their formats. Beside the packed form only some rows are in memory at a time. Throws
  /// std::bad_alloc.
  PackedMatrix(const Kernels& kernels, std::span<const MatrixSource> parts);
  PackedMatrix(const Kernels& kernels, std::span<const MatrixView> parts);
  /// Has shape, formats and bytes() of the matrix that would be packed, but neither reads nor packs the parts. Aborts
  /// where it is computed with.
  static PackedMatrix counted(const Kernels& kernels, std::span<const MatrixSource> parts);

  int outputs() const noexcept { return outputs_; }
  int inputs() const noexcept { return inputs_; }
  std::size_t bytes() const noexcept { return bytes_; }

  /// Neighbors of one format are one part.
  struct Part {
    PackedView view;
    int first;  // output
  };
  std::span<const Part> parts() const noexcept { return parts_; }

  /// Output `output` as a row of floats.
  void unpack_row(const Kernels& kernels, int output, float* row) const noexcept;

  /// Which operands the parts are multiplied with.
  bool wants(ActivationFormat format) const noexcept { return wants_[static_cast<std::size_t>(format)]; }

  /// Aborts when the matrix was only counted.
  void require_packed() const noexcept;

 private:
  void lay_out(const Kernels& kernels, std::span<const MatrixSource> parts);

  int outputs_ = 0;
  int inputs_ = 0;
  std::size_t bytes_ = 0;
  std::vector<Part> parts_;
  std::vector<Aligned<std::byte>> data_;  // of each part
  std::array<bool, activation_formats> wants_{};
};

}  // namespace draftproof
