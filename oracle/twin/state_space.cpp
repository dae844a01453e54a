// SPDX-License-Identifier: MIT
#include "oracle/twin/state_space.h"

#include "kernels/math64.h"
#include "oracle/twin/parts.h"

namespace draftproof::twin {

Matrix state_space(const TwinWeights& weights, const DecoderFacts& facts, const std::string& prefix, const Matrix& x,
                   LayerPast& kept) {
  const Matrix taps = weights[prefix + "conv1d"].cast<double>();  // [channels][taps], the newest row last
  const Row bias = weights.vector(prefix + "conv1d.bias");
  const Matrix rates = weights.rates(prefix);
  const Row dt_bias = weights.vector(prefix + "dt_bias");
  const Row skip = weights.vector(prefix + "D");
  const bool norms = weights.has(prefix + "norm.weight");
  const Row norm = norms ? weights.vector(prefix + "norm") : Row();
  const Eigen::Index heads = rates.size(), inner = weights[prefix + "out_proj"].cols(), channels = taps.rows(),
                     dim = inner / heads;
  const Eigen::Index groups = facts.state_groups, keys = (channels - inner) / 2, states = keys / groups;
  Matrix projected = times(x, weights[prefix + "in_proj"]);  // z, then x, B, C, then the steps
  Eigen::Index next = 0;
  for (std::size_t part = 0; part < facts.state_factors.size(); ++part) {
    const Eigen::Index widths[] = {inner, inner, keys, keys, heads};
    projected.middleCols(next, widths[part]) *= facts.state_factors[part];
    next += widths[part];
  }
  if (kept.states.empty()) {
    kept.inputs = Matrix::Zero(taps.cols() - 1, channels);
    kept.states.assign(static_cast<std::size_t>(heads), Matrix::Zero(states, dim));
  }
  Matrix inputs = kept.inputs;
  append(inputs, projected.middleCols(inner, channels));
  kept.inputs = inputs.bottomRows(taps.cols() - 1);

  Matrix mixed(x.rows(), inner);
  for (Eigen::Index r = 0; r < x.rows(); ++r) {
    Row c = bias;
    for (Eigen::Index tap = 0; tap < taps.cols(); ++tap) {
      c += inputs.row(r + tap).cwiseProduct(taps.col(tap).transpose());
    }
    c = c.unaryExpr(&silu);
    for (Eigen::Index h = 0; h < heads; ++h) {
      const Eigen::Index group = h / (heads / groups) * states;
      const Row of_head = c.segment(h * dim, dim);
      const double step = softplus(projected(r, inner + channels + h) + dt_bias[h]);
      Matrix& state = kept.states[static_cast<std::size_t>(h)];
      state *= exp64(-rates(h) * step);
      state += c.segment(inner + group, states).transpose() * (step * of_head);
      const Row o = c.segment(inner + keys + group, states) * state + skip[h] * of_head;
      mixed.row(r).segment(h * dim, dim) = o;
    }
    const Row gates = projected.row(r).leftCols(inner).unaryExpr(&silu);
    if (!facts.norm_before_gate || !norms) mixed.row(r) = mixed.row(r).cwiseProduct(gates);
    for (Eigen::Index at = 0; at < inner && norms; at += inner / groups) {
      const Row part = mixed.row(r).segment(at, inner / groups);
      mixed.row(r).segment(at, inner / groups) = normed(part, norm.segment(at, inner / groups), facts.epsilon);
    }
    if (facts.norm_before_gate && norms) mixed.row(r) = mixed.row(r).cwiseProduct(gates);
  }
  return times(mixed, weights[prefix + "out_proj"]);
}

Matrix selective_scan(const TwinWeights& weights, const DecoderFacts& facts, const std::string& prefix, const Matrix& x,
                      LayerPast& kept) {
  const Matrix taps = weights[prefix + "conv1d"].cast<double>();  // [channels][taps], the newest row last
  const Matrix rates = weights.rates(prefix);                     // [channels][states]
  const Row bias = weights.vector(prefix + "conv1d.bias");
  const Row step_bias = weights.vector(prefix + "dt_proj.bias");
  const Row skip = weights.vector(prefix + "D");
  const Eigen::Index channels = taps.rows(), states = rates.cols();
  const Matrix projected = times(x, weights[prefix + "in_proj"]);
  if (kept.states.empty()) {
    kept.inputs = Matrix::Zero(taps.cols() - 1, channels);
    kept.states.assign(1, Matrix::Zero(channels, states));
  }
  Matrix inputs = kept.inputs;
  append(inputs, projected.leftCols(channels));
  kept.inputs = inputs.bottomRows(taps.cols() - 1);
  Matrix& state = kept.states[0];

  Matrix mixed(x.rows(), channels);
  for (Eigen::Index r = 0; r < x.rows(); ++r) {
    Row c = bias;
    for (Eigen::Index tap = 0; tap < taps.cols(); ++tap) {
      c += inputs.row(r + tap).cwiseProduct(taps.col(tap).transpose());
    }
    c = c.unaryExpr(&silu);
    const Matrix selected = times(c, weights[prefix + "x_proj"]);
    const Eigen::Index rank = selected.cols() - 2 * states;
    const auto part = [&](const char* norm, Eigen::Index first, Eigen::Index width) {
      return normed(selected.middleCols(first, width), weights.vector(prefix + norm), facts.epsilon);
    };
    const Row key = part("b_layernorm", rank, states);
    const Row query = part("c_layernorm", rank + states, states);
    Row steps = times(part("dt_layernorm", 0, rank), weights[prefix + "dt_proj"]);
    steps = (steps + step_bias).unaryExpr(&softplus);
    for (Eigen::Index i = 0; i < channels; ++i) {
      const auto decay = [&](double rate) { return exp64(-rate * steps[i]); };
      state.row(i) = state.row(i).cwiseProduct(rates.row(i).unaryExpr(decay)) + key * (steps[i] * c[i]);
      mixed(r, i) = (query.dot(state.row(i)) + skip[i] * c[i]) * silu(projected(r, channels + i));
    }
  }
  return times(mixed, weights[prefix + "out_proj"]);
}

}  // namespace draftproof::twin
