// SPDX-License-Identifier: MIT
#include "oracle/twin/parts.h"

#include <cmath>
#include <numbers>
#include <numeric>

#include "kernels/math64.h"

namespace draftproof::twin {

double sigmoid(double x) { return 1 / (1 + exp64(-x)); }

double softplus(double x) { return std::max(x, 0.0) + log64(1 + exp64(-std::fabs(x))); }

double silu(double x) { return x * sigmoid(x); }

double tangent(double x) { return 1 - 2 / (1 + exp64(2 * x)); }

double gelu(double x) { return 0.5 * x * (1 + tangent(std::sqrt(2 / std::numbers::pi) * (x + 0.044715 * x * x * x))); }

Matrix normed(const Matrix& x, const Row& weight, double epsilon) {
  Matrix y = x;
  for (Eigen::Index r = 0; r < y.rows(); ++r) {
    for (Eigen::Index at = 0; at < y.cols(); at += weight.size()) {
      auto v = y.row(r).segment(at, weight.size());
      const double mean = v.squaredNorm() / static_cast<double>(weight.size());
      v = v.cwiseProduct(weight) / std::sqrt(mean + epsilon);
    }
  }
  return y;
}

Matrix biased(const TwinWeights& weights, const std::string& name, Matrix x) {
  if (weights.has(name)) x.rowwise() += weights.vector(name);
  return x;
}

Row softmax(const Row& scores) {
  const double best = scores.maxCoeff();
  Row p = scores.unaryExpr([best](double score) { return exp64(score - best); });
  return p / p.sum();
}

std::vector<int> largest(const Row& row, int count) {
  std::vector<int> places(static_cast<std::size_t>(row.size()));
  std::iota(places.begin(), places.end(), 0);
  std::ranges::stable_sort(places, [&](int a, int b) { return row[a] > row[b]; });
  places.resize(std::min(places.size(), static_cast<std::size_t>(count)));
  std::ranges::sort(places);
  return places;
}

Matrix attend(const TwinAttention& how, const Matrix& queries, const Matrix& keys, const Matrix& values, int first) {
  const int d = how.head_dim;
  const int v = how.value_dim != 0 ? how.value_dim : d;
  Matrix mixed(queries.rows(), how.heads * v);
  for (Eigen::Index r = 0; r < queries.rows(); ++r) {
    const Eigen::Index end = first + r + 1;  // of what it sees
    const Eigen::Index begin = how.window == unlimited ? 0
                               : how.chunked           ? (end - 1) / how.window * how.window
                                                       : std::max<Eigen::Index>(0, end - how.window);
    for (int h = 0; h < how.heads; ++h) {
      const int kv = h / (how.heads / how.kv_heads);
      const auto seen_keys = keys.block(begin, kv * d, end - begin, d);
      const auto seen_values = values.block(begin, kv * v, end - begin, v);
      Row scores = queries.row(r).segment(h * d, d) * seen_keys.transpose() * how.scale;
      if (how.cap != 0) scores = scores.unaryExpr([&](double score) { return how.cap * tangent(score / how.cap); });
      if (how.sinks.size() > 0) {
        scores.conservativeResize(scores.size() + 1);
        scores[scores.size() - 1] = how.sinks[h];
      }
      mixed.row(r).segment(h * v, v) = softmax(scores).head(end - begin) * seen_values;
    }
  }
  return mixed;
}

Matrix gated_mlp(const TwinWeights& weights, const std::string& prefix, const Matrix& x) {
  const auto project = [&](const char* part, const Matrix& from) {
    const std::string name = prefix + part + "_proj";
    return biased(weights, name + ".bias", times(from, weights[name]));
  };
  const DecoderFacts& facts = weights.facts();
  const auto squared = [](double v) { return v > 0 ? v * v : 0; };
  if (weights.has(prefix + "act_fn.alpha_p")) {
    const auto of_layer = [&](const char* name) { return weights.vector(prefix + "act_fn." + name)[0]; };
    const double beta = of_layer("beta"), epsilon = of_layer("eps");
    const double positive = softplus(of_layer("alpha_p")), negative = beta + softplus(of_layer("alpha_n"));
    return project("down", project("up", x).unaryExpr([=](double v) {
      return beta * v + (v > 0 ? positive * v * v : negative * (exp64(std::min(v, epsilon)) - 1 - v));
    }));
  }
  if (!weights.has(prefix + "gate_proj.weight")) {
    const bool by_gelu = facts.gelu;
    return project("down",
                   by_gelu ? Matrix(project("up", x).unaryExpr(&gelu)) : Matrix(project("up", x).unaryExpr(squared)));
  }
  if (const double limit = facts.swiglu_limit; limit != 0) {
    const Matrix gates = project("gate", x).cwiseMin(limit);
    const Matrix ups = project("up", x).cwiseMin(limit).cwiseMax(-limit);
    const auto share = [&](double gate) { return gate * sigmoid(facts.swiglu_alpha * gate); };
    return project("down", gates.unaryExpr(share).cwiseProduct(ups + Matrix::Ones(ups.rows(), ups.cols())));
  }
  const Matrix gate = project("gate", x) * facts.gate_factor;
  Matrix inner = facts.relu2 ? Matrix(gate.unaryExpr(squared)) : Matrix(gate.unaryExpr(&silu));
  inner = inner.cwiseProduct(project("up", x));
  const std::string sub_norm = prefix + "ffn_sub_norm";
  if (weights.has(sub_norm + ".weight")) inner = normed(inner, weights.norm(sub_norm), facts.epsilon);
  return project("down", inner);
}

}  // namespace draftproof::twin
