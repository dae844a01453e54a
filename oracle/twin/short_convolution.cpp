// SPDX-License-Identifier: MIT
#include "oracle/twin/short_convolution.h"

namespace draftproof::twin {

Matrix short_convolution(const TwinWeights& weights, const std::string& prefix, const Matrix& x, LayerPast& kept) {
  const Matrix taps = weights[prefix + "conv"].cast<double>();  // [channels][taps], the newest row last
  const Eigen::Index channels = taps.rows();
  const Matrix projected = times(x, weights[prefix + "in_proj"]);
  if (kept.inputs.size() == 0) kept.inputs = Matrix::Zero(taps.cols() - 1, channels);
  Matrix inputs = kept.inputs;
  append(inputs, projected.leftCols(channels).cwiseProduct(projected.rightCols(channels)));
  kept.inputs = inputs.bottomRows(taps.cols() - 1);

  Matrix mixed = Matrix::Zero(x.rows(), channels);
  for (Eigen::Index r = 0; r < x.rows(); ++r) {
    for (Eigen::Index tap = 0; tap < taps.cols(); ++tap) {
      mixed.row(r) += inputs.row(r + tap).cwiseProduct(taps.col(tap).transpose());
    }
  }
  return times(mixed.cwiseProduct(projected.middleCols(channels, channels)), weights[prefix + "out_proj"]);
}

}  // namespace draftproof::twin
