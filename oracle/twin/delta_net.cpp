// SPDX-License-Identifier: MIT
#include "oracle/twin/delta_net.h"

#include <cmath>

#include "kernels/math64.h"
#include "oracle/twin/parts.h"

namespace draftproof::twin {
namespace {

/// A vector of length 1.
Row unit(const Row& x) { return x / std::sqrt(x.squaredNorm() + 1e-6); }

}  // namespace

Matrix delta_net(const TwinWeights& weights, const std::string& prefix, const Matrix& x, LayerPast& kept) {
  const int key_heads = weights.integer("linear_num_key_heads");
  const int value_heads = weights.integer("linear_num_value_heads");
  const int key_dim = weights.integer("linear_key_head_dim");
  const int value_dim = weights.integer("linear_value_head_dim");
  const int keys = key_heads * key_dim;
  const double epsilon = weights.number("rms_norm_eps", 1e-6);
  const auto project = [&](const char* part) { return times(x, weights[prefix + part]); };
  const Matrix qkv = project("in_proj_qkv"), z = project("in_proj_z"), b = project("in_proj_b");
  const Matrix a = project("in_proj_a");
  const Matrix taps = weights[prefix + "conv1d"].cast<double>();  // [channels][taps], the newest row last
  const Matrix rates = weights.rates(prefix);
  const Row dt_bias = weights.vector(prefix + "dt_bias");
  const Row norm = weights.norm(prefix + "norm");
  if (kept.states.empty()) {
    kept.inputs = Matrix::Zero(taps.cols() - 1, qkv.cols());
    kept.states.assign(static_cast<std::size_t>(value_heads), Matrix::Zero(key_dim, value_dim));
  }
  Matrix inputs = kept.inputs;
  append(inputs, qkv);
  kept.inputs = inputs.bottomRows(taps.cols() - 1);

  Matrix mixed(x.rows(), value_heads * value_dim);
  for (Eigen::Index r = 0; r < x.rows(); ++r) {
    Row c = Row::Zero(qkv.cols());
    for (Eigen::Index tap = 0; tap < taps.cols(); ++tap) {
      c += inputs.row(r + tap).cwiseProduct(taps.col(tap).transpose());
    }
    c = c.unaryExpr(&silu);
    for (int h = 0; h < value_heads; ++h) {
      const int key_head = weights.deals_heads() ? h % key_heads : h / (value_heads / key_heads);
      const Row q = unit(c.segment(key_head * key_dim, key_dim)) / std::sqrt(static_cast<double>(key_dim));
      const Row k = unit(c.segment(keys + key_head * key_dim, key_dim));
      const Row v = c.segment(2 * keys + h * value_dim, value_dim);
      Matrix& state = kept.states[static_cast<std::size_t>(h)];
      state *= exp64(-rates(h) * softplus(a(r, h) + dt_bias[h]));
      const Row delta = sigmoid(b(r, h)) * (v - k * state);
      state += k.transpose() * delta;
      const Row o = q * state;
      const auto gate = z.row(r).segment(h * value_dim, value_dim).unaryExpr(&silu);
      mixed.row(r).segment(h * value_dim, value_dim) = normed(o, norm, epsilon).cwiseProduct(gate);
    }
  }
  return times(mixed, weights[prefix + "out_proj"]);
}

}  // namespace draftproof::twin
