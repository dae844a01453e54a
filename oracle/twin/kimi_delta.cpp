// SPDX-License-Identifier: MIT
#include "oracle/twin/kimi_delta.h"

#include <cmath>

#include "kernels/math64.h"
#include "oracle/twin/parts.h"

namespace draftproof::twin {
namespace {

/// The convolution of the last rows, newest last, by taps [channels][taps].
Row convolved(const Matrix& inputs, Eigen::Index first, const Matrix& taps) {
  Row sums = Row::Zero(inputs.cols());
  for (Eigen::Index tap = 0; tap < taps.cols(); ++tap) {
    sums += inputs.row(first + tap).cwiseProduct(taps.col(tap).transpose());
  }
  return sums.unaryExpr(&silu);
}

}  // namespace

Matrix kimi_delta(const TwinWeights& weights, const std::string& prefix, const Matrix& x, LayerPast& kept) {
  const auto times_all = [&](std::initializer_list<const char*> parts) {
    Matrix rows = x;
    for (const char* part : parts) rows = times(rows, weights[prefix + part]);
    return rows;
  };
  const Matrix forget = times_all({"f_a_proj", "f_b_proj"});
  const Matrix gates = times_all({"g_a_proj", "g_b_proj"}).unaryExpr(&sigmoid);
  const Matrix betas = times_all({"b_proj"}).unaryExpr(&sigmoid);
  const Row bias = weights.vector(prefix + "dt_bias");
  const Row norm = weights.norm(prefix + "o_norm");
  const Matrix rates = weights.rates(prefix);
  const Eigen::Index dim = norm.size();
  const Eigen::Index heads = betas.cols();
  const Eigen::Index width = heads * dim;
  const double epsilon = weights.number("rms_norm_eps", 1e-5);

  Matrix taps(3 * width, weights[prefix + "q_conv1d"].cols());
  Matrix projected(x.rows(), 3 * width);
  for (Eigen::Index i = 0; const char part : {'q', 'k', 'v'}) {
    const std::string name = prefix + part;
    taps.middleRows(i * width, width) = weights[name + "_conv1d"].cast<double>();
    projected.middleCols(i++ * width, width) = times(x, weights[name + "_proj"]);
  }
  if (kept.states.empty()) {
    kept.inputs = Matrix::Zero(taps.cols() - 1, 3 * width);
    kept.states.assign(static_cast<std::size_t>(heads), Matrix::Zero(dim, dim));
  }
  Matrix inputs = kept.inputs;
  append(inputs, projected);
  kept.inputs = inputs.bottomRows(taps.cols() - 1);

  Matrix mixed(x.rows(), width);
  for (Eigen::Index r = 0; r < x.rows(); ++r) {
    const Row c = convolved(inputs, r, taps);
    for (Eigen::Index h = 0; h < heads; ++h) {
      const Row q = c.segment(h * dim, dim), k = c.segment(width + h * dim, dim);
      const Row query = q / std::sqrt((q.squaredNorm() + 1e-6) * static_cast<double>(dim));
      const Row key = k / std::sqrt(k.squaredNorm() + 1e-6);
      Matrix& state = kept.states[static_cast<std::size_t>(h)];
      for (Eigen::Index i = 0; i < dim; ++i) {
        state.row(i) *= exp64(-rates(h) * softplus(forget(r, h * dim + i) + bias[h * dim + i]));
      }
      const Row delta = betas(r, h) * (c.segment(2 * width + h * dim, dim) - key * state);
      state += key.transpose() * delta;
      const Row read = query * state;
      mixed.row(r).segment(h * dim, dim) = normed(read, norm, epsilon).cwiseProduct(gates.row(r).segment(h * dim, dim));
    }
  }
  return times(mixed, weights[prefix + "o_proj"]);
}

}  // namespace draftproof::twin
