// SPDX-License-Identifier: MIT
// What all families of the float64 twin are made of, each as its paper writes it.
#pragma once

#include <string>
#include <vector>

#include "oracle/twin/facts.h"
#include "oracle/twin/matrix.h"
#include "oracle/twin/weights.h"

namespace draftproof::twin {

double sigmoid(double x);
double softplus(double x);
double silu(double x);     // x sigmoid(x)
double tangent(double x);  // hyperbolic
double gelu(double x);     // its tanh form

/// RMSNorm of the vectors in each row, as wide as the weight.
Matrix normed(const Matrix& x, const Row& weight, double epsilon);

/// Adds the bias NAME to every row, where the checkpoint has it.
Matrix biased(const TwinWeights& weights, const std::string& name, Matrix x);

struct TwinAttention {
  int heads = 0;
  int kv_heads = 0;
  int head_dim = 0;
  double scale = 1;        // of scores
  double cap = 0;          // soft cap of scores; 0: none
  int window = unlimited;  // a row sees itself and the window - 1 positions before it
  bool chunked = false;    // or of these the ones in its chunk
  Row sinks = {};          // a score of each head's own, without a value
  int value_dim = 0;       // of a head's value; 0: head_dim
};

/// Returns softmax(scale queries keys') values per head. Row r of the queries is at position first + r, row p of keys
/// and values at position p.
Matrix attend(const TwinAttention& how, const Matrix& queries, const Matrix& keys, const Matrix& values, int first);

/// Returns down(activation(gate x) * up x) or the clamped form of it, or of an MLP without a gate down(activation(up
/// x)).
Matrix gated_mlp(const TwinWeights& weights, const std::string& prefix, const Matrix& x);

/// Returns the probabilities of a softmax.
Row softmax(const Row& scores);
/// Returns the `count` largest places of a row, of equal ones the first, ascending.
std::vector<int> largest(const Row& row, int count);

}  // namespace draftproof::twin
