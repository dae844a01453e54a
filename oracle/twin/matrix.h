// SPDX-License-Identifier: MIT
// Matrices of the float64 twin. Eigen stays inside this folder.
#pragma once

#include <Eigen/Dense>
#include <algorithm>

namespace draftproof::twin {

/// Rows of a text, one below the other.
using Matrix = Eigen::Matrix<double, Eigen::Dynamic, Eigen::Dynamic, Eigen::RowMajor>;
using Row = Eigen::RowVectorXd;
/// [outputs][inputs]. Floats hold the values of every stored format exactly, in half the memory of doubles.
using Weight = Eigen::Matrix<float, Eigen::Dynamic, Eigen::Dynamic, Eigen::RowMajor>;

/// Returns x times the transposed weight, in double. A part of the weight at a time becomes doubles.
inline Matrix times(const Matrix& x, const Eigen::Ref<const Weight>& weight) {
  constexpr Eigen::Index part = 128;
  Matrix y(x.rows(), weight.rows());
  for (Eigen::Index first = 0; first < weight.rows(); first += part) {
    const Eigen::Index count = std::min(part, weight.rows() - first);
    const Matrix doubles = weight.middleRows(first, count).cast<double>();
    y.middleCols(first, count).noalias() = x * doubles.transpose();
  }
  return y;
}

/// Appends the rows of `more` to a matrix, which may be empty.
inline void append(Matrix& rows, const Matrix& more) {
  const Eigen::Index before = rows.rows();
  rows.conservativeResize(before + more.rows(), more.cols());
  rows.bottomRows(more.rows()) = more;
}

}  // namespace draftproof::twin
