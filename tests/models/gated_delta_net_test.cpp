// SPDX-License-Identifier: MIT
// Compares the layer with the formulas of the paper and of the published model code, in float64.
#include "ref/models/gated_delta_net.h"

#include <fmt/format.h>

#include "tests/models/fixtures.h"
#include "tests/models/float64_twin.h"

namespace draftproof::test::gated_delta_net_test {
namespace {

constexpr int hidden = 24;
constexpr int rows = 12;
constexpr float epsilon = 1e-6F;
const RecurrentShape shape = {.delta = {.key_heads = 2, .value_heads = 6, .key_dim = 16, .value_dim = 20},
                              .conv_width = 4};

/// The layer's weights and inputs, as numbers of a fixed sequence.
struct Layer {
  std::vector<float> in, out, convolution, a_log, dt_bias, norm, n;

  Layer() {
    const auto values = static_cast<std::size_t>(shape.value_floats());
    const auto heads = static_cast<std::size_t>(shape.delta.value_heads);
    const auto channels = static_cast<std::size_t>(shape.channels());
    in = numbers((channels + values + 2 * heads) * hidden, 0, 0.3F);
    out = numbers(values * hidden, 0, 0.2F);
    convolution = numbers(channels * static_cast<std::size_t>(shape.conv_width), 0, 1);
    a_log = numbers(heads, -1, 1);
    dt_bias = numbers(heads, 0, 1);
    norm = numbers(static_cast<std::size_t>(shape.delta.value_dim), 1, 0.5F);
    n = numbers(std::size_t{rows} * hidden, 0, 2);
  }

  std::vector<float> ours(const Kernels& kernels) const {
    const int width = shape.channels() + shape.value_floats() + 2 * shape.delta.value_heads;
    GatedDeltaNetWeights weights;
    const MatrixView in_view = {in.data(), Format::f32, width, hidden};
    const MatrixView out_view = {out.data(), Format::f32, hidden, shape.value_floats()};
    weights.in = PackedMatrix(kernels, {&in_view, 1});
    weights.out = PackedMatrix(kernels, {&out_view, 1});
    weights.convolution = convolution;
    weights.a_log = a_log;
    weights.dt_bias = dt_bias;
    weights.norm = norm;
    std::vector<std::unique_ptr<LayerCache>> layers;
    layers.push_back(new_gated_delta_net_cache(kernels, shape, rows));
    Cache cache(std::move(layers), rows, rows);
    const Transaction transaction = cache.begin(rows);
    const RowRange range = {.segment = 0, .row = 0, .rows = rows, .position = 0, .turn = 0};
    GatedDeltaNetScratch scratch;
    std::vector<float> y(n.size());
    gated_delta_net(kernels, shape, weights, epsilon, n.data(), rows, {&range, 1}, scratch,
                    cache.layer<RecurrentCache>(0), y.data());
    return y;
  }

 private:
  std::vector<float> numbers(std::size_t count, float middle, float reach) {
    std::vector<float> values(count);
    for (float& value : values) {
      state_ = state_ * 6364136223846793005u + 1442695040888963407u;
      value = middle + reach * (static_cast<float>(state_ >> 40) * 0x1p-23F - 1.0F);
    }
    return values;
  }
  std::uint64_t state_ = 5;
};

/// Mistakes that change no shape.
enum class Slip {
  none,
  reversed_taps,
  inputs_after_activation,  // the tail keeps SiLU(u)
  heads_dealt_out,          // value head h reads key head h mod key_heads, the order of GGUF files
  old_state_read,           // o before the row is folded in
  decay_after_read,         // r from the state before its decay
  unscaled_queries,
  mean_in_key_norm,
  no_beta,
  gate_of_attention,        // sigmoid(z) in place of SiLU(z)
  norm_after_gate,
  swapped_a_and_b,
};

double sigmoid(double x) { return 1 / (1 + std::exp(-x)); }

/// The layer in float64, every result rounded as `round` says, in the order in which a float32 program computes it.
Rows twin(const Layer& layer, Rounding round, Slip slip = Slip::none) {
  const DeltaShape& d = shape.delta;
  const int channels = shape.channels();
  const int keys = shape.key_floats();
  const int values = shape.value_floats();
  const int taps = shape.conv_width;
  const auto silu = [&](double x) { return round(x / round(1 + round.by(std::exp(-x), 2))); };
  std::vector<std::vector<double>> inputs;  // of the convolution
  std::vector<double> state(static_cast<std::size_t>(d.value_heads) * d.key_dim * d.value_dim);
  Rows result(rows, hidden);
  for (int r = 0; r < rows; ++r) {
    std::vector<double> projected(layer.in.size() / hidden);
    for (std::size_t o = 0; o < projected.size(); ++o) {
      for (int i = 0; i < hidden; ++i) {
        projected[o] = round(projected[o] + double{layer.in[o * hidden + i]} * layer.n[r * hidden + i]);
      }
    }
    const double* const z = projected.data() + channels;
    const double* b = z + values;
    const double* a = b + d.value_heads;
    if (slip == Slip::swapped_a_and_b) std::swap(a, b);
    inputs.emplace_back(projected.begin(), projected.begin() + channels);
    std::vector<double> c(channels);
    for (int ch = 0; ch < channels; ++ch) {
      for (int j = 0; j < taps; ++j) {
        const int at = r - (taps - 1) + j;
        if (at < 0) continue;
        const int tap = slip == Slip::reversed_taps ? taps - 1 - j : j;
        double input = inputs[at][ch];
        if (slip == Slip::inputs_after_activation && at < r) input *= sigmoid(input);
        c[ch] = round(c[ch] + layer.convolution[tap * channels + ch] * input);
      }
      c[ch] = silu(c[ch]);
    }
    for (int vector = 0; vector < 2 * d.key_heads; ++vector) {  // of q, then of k
      double* const x = &c[vector * d.key_dim];
      double sum = 0;
      for (int i = 0; i < d.key_dim; ++i) sum = round(sum + x[i] * x[i]);
      if (slip == Slip::mean_in_key_norm) sum /= d.key_dim;
      const double factor = round(1 / round(std::sqrt(round(sum + 1e-6))));
      const bool is_query = vector < d.key_heads && slip != Slip::unscaled_queries;
      const double scale = round(is_query ? 1 / std::sqrt(double{1} * d.key_dim) : 1);
      for (int i = 0; i < d.key_dim; ++i) x[i] = round(round(round(x[i] * factor) * scale));
    }
    std::vector<double> mixed(values);
    for (int h = 0; h < d.value_heads; ++h) {
      const int group = d.value_heads / d.key_heads;
      const int key_head = slip == Slip::heads_dealt_out ? h % d.key_heads : h / group;
      const double* const q = &c[key_head * d.key_dim];
      const double* const k = &c[keys + key_head * d.key_dim];
      const double* const v = &c[2 * keys + h * d.value_dim];
      const double beta = slip == Slip::no_beta ? 1 : round(sigmoid(b[h]));
      const double g = round(-std::exp(double{layer.a_log[h]}) * std::log1p(std::exp(a[h] + layer.dt_bias[h])));
      const double decay = round.by(std::exp(g), 2);
      double* const s = &state[static_cast<std::size_t>(h) * d.key_dim * d.value_dim];
      std::vector<double> o(d.value_dim);
      for (int j = 0; j < d.value_dim; ++j) {
        double read = 0;
        for (int i = 0; i < d.key_dim; ++i) {
          double& element = s[i * d.value_dim + j];
          const double before = element;
          element = round(element * decay);
          read = round(read + (slip == Slip::decay_after_read ? before : element) * k[i]);
        }
        const double delta = round(beta * round(v[j] - read));
        for (int i = 0; i < d.key_dim; ++i) {
          double& element = s[i * d.value_dim + j];
          if (slip == Slip::old_state_read) o[j] = round(o[j] + element * q[i]);
          element = round(element + k[i] * delta);
          if (slip != Slip::old_state_read) o[j] = round(o[j] + element * q[i]);
        }
      }
      const double* const gates = z + h * d.value_dim;
      if (slip == Slip::norm_after_gate) {
        for (int j = 0; j < d.value_dim; ++j) o[j] *= silu(gates[j]);
      }
      double sum = 0;
      for (const double x : o) sum = round(sum + x * x);
      const double factor = round(1 / round(std::sqrt(round(round(sum / d.value_dim) + epsilon))));
      for (int j = 0; j < d.value_dim; ++j) {
        const double normed = round(round(o[j] * factor) * layer.norm[j]);
        const double gate = slip == Slip::gate_of_attention  ? sigmoid(gates[j])
                            : slip == Slip::norm_after_gate ? 1
                                                            : silu(gates[j]);
        mixed[h * d.value_dim + j] = round(gate * normed);
      }
    }
    for (int o = 0; o < hidden; ++o) {
      double& y = result.row(r)[o];
      for (int i = 0; i < values; ++i) y = round(y + double{layer.out[o * values + i]} * mixed[i]);
    }
  }
  return result;
}

TEST(GatedDeltaNet, IsWithinTheRoundingBoundOfTheFormulasWithEveryTableAndEveryMistakeIsNot) {
  const Layer layer;
  const Bounds bounds = bounds_of([&](Rounding round) { return std::vector{twin(layer, round)}; });
  const Rows right = twin(layer, Rounding());
  for (const char* numerics : {"canonical", "openblas"}) {
    for (const Kernels* kernels : usable_kernels(numerics)) {
      const double ratio = worst_ratio(layer.ours(*kernels), right.at, hidden, bounds[0]);
      EXPECT_LE(ratio, 1) << kernels->name;
      if (kernels == &best_kernels()) fmt::print("observed/bound {:.2f}\n", ratio);
    }
  }
  const std::vector<float> ours = layer.ours(best_kernels());
  double smallest = std::numeric_limits<double>::infinity();
  for (const Slip slip : {Slip::reversed_taps, Slip::inputs_after_activation, Slip::heads_dealt_out,
                          Slip::old_state_read, Slip::decay_after_read, Slip::unscaled_queries, Slip::mean_in_key_norm,
                          Slip::no_beta, Slip::gate_of_attention, Slip::norm_after_gate, Slip::swapped_a_and_b}) {
    const double ratio = worst_ratio(ours, twin(layer, Rounding(), slip).at, hidden, bounds[0]);
    EXPECT_GT(ratio, 100) << "mistake " << static_cast<int>(slip);
    smallest = std::min(smallest, ratio);
  }
  fmt::print("the smallest mistake is {:.1e} times the bound\n", smallest);
}

}  // namespace
}  // namespace draftproof::test::gated_delta_net_test
