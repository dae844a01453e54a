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
#include "kernels/ranks.h"

namespace draftproof {

/// Rows of a weight as a checkpoint gives them: `read` puts rows [first, first + count) as the format lays them down to
/// `rows`, 64-byte aligned, and may be called from several threads at once. What it throws comes out of PackedMatrix.
struct MatrixSource {
  Format format;
  int outputs;
  int inputs;
  std::function<void(int first, int count, void* rows)> read;
};

/// A weight packed for one table: one part, or several with equal inputs whose outputs follow each other. Of one that
/// is cut each rank packs some of the outputs, whole units that follow each other.
class PackedMatrix {
 public:
  PackedMatrix() = default;
  /// Copies; parts keep their formats. Beside the packed form only some rows are in memory at a time. `ranks`: cuts it,
  /// and outlives it; nullptr: it is whole. Throws std::bad_alloc.
  PackedMatrix(const Kernels& kernels, std::span<const MatrixSource> parts, Ranks* ranks = nullptr);
  PackedMatrix(const Kernels& kernels, std::span<const MatrixView> parts);
  /// Has shape, formats and bytes() of the matrix that would be packed, but neither reads nor packs the parts. Aborts
  /// where it is computed with.
  static PackedMatrix counted(const Kernels& kernels, std::span<const MatrixSource> parts, Ranks* ranks = nullptr);

  int outputs() const noexcept { return outputs_; }
  int inputs() const noexcept { return inputs_; }
  std::size_t bytes() const noexcept { return bytes_; }  // packed here

  /// Of those that are cut: who has the other outputs, and from which output on each rank has them. Else nullptr.
  Ranks* ranks() const noexcept { return ranks_; }
  std::span<const int> bounds() const noexcept { return bounds_; }

  /// What is packed here. Neighbors of one format are one part.
  struct Part {
    PackedView view;
    int first;  // output
  };
  std::span<const Part> parts() const noexcept { return parts_; }

  /// Output `output`, which is packed here, as a row of floats.
  void unpack_row(const Kernels& kernels, int output, float* row) const noexcept;

  /// Which operands the parts are multiplied with.
  bool wants(ActivationFormat format) const noexcept { return wants_[static_cast<std::size_t>(format)]; }

  /// Aborts when the matrix was only counted.
  void require_packed() const noexcept;

 private:
  /// Returns the sources of what is packed here.
  std::vector<MatrixSource> lay_out(const Kernels& kernels, std::span<const MatrixSource> parts, Ranks* ranks);

  int outputs_ = 0;
  int inputs_ = 0;
  std::size_t bytes_ = 0;
  std::vector<Part> parts_;
  std::vector<Aligned<std::byte>> data_;  // of each part
  std::array<bool, activation_formats> wants_{};
  Ranks* ranks_ = nullptr;
  std::vector<int> bounds_;
};

}  // namespace draftproof
