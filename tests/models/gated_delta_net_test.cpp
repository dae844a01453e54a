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

  Rows exact(Rounding round, Slip slip = Slip::none) const {
    const auto matrix = [](const std::vector<float>& values, int width) {
      Rows result(static_cast<int>(values.size()) / width, width);
      result.at.assign(values.begin(), values.end());
      return result;
    };
    const auto vector = [](const std::vector<float>& values) {
      return std::vector<double>(values.begin(), values.end());
    };
    const DeltaLayer layer = {.shape = shape,
                              .epsilon = epsilon,
                              .in = matrix(in, hidden),
                              .out = matrix(out, shape.value_floats()),
                              .convolution = matrix(convolution, shape.channels()),
                              .a_log = vector(a_log),
                              .dt_bias = vector(dt_bias),
                              .norm = vector(norm)};
    return delta_net_of(layer, matrix(n, hidden), round, slip);
  }

  std::vector<float> ours(const Kernels& kernels) const {
    const int width = shape.channels() + shape.value_floats() + 2 * shape.delta.value_heads;
    GatedDeltaNetWeights weights;
    const MatrixView in_view = {in.data(), Format::f32, width, hidden};
    const MatrixView out_view = {out.data(), Format::f32, hidden, shape.value_floats()};
    weights.in = PackedMatrix(kernels, {&in_view, 1});
    weights.out = PackedMatrix(kernels, {&out_view, 1});
    weights.convolution = convolution;
    weights.rates = rates_of(a_log);
    weights.dt_bias = dt_bias;
    weights.norm = norm;
    std::vector<std::unique_ptr<LayerCache>> layers;
    layers.push_back(new_gated_delta_net_cache(kernels, shape, rows));
    Cache cache(std::move(layers), rows, rows);
    const Transaction transaction = cache.begin(rows);
    const RowRange range = {.segment = 0, .row = 0, .rows = rows, .position = 0, .turn = 0};
    GatedDeltaNetScratch scratch;
    std::vector<float> y(n.size());
    RecurrentCache* const states = &cache.layer<RecurrentCache>(0);
    gated_delta_net(kernels, shape, weights, epsilon, n.data(), rows, {&range, 1}, scratch, {&states, 1}, y.data());
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

TEST(GatedDeltaNet, IsWithinTheRoundingBoundOfTheFormulasWithEveryTableAndEveryMistakeIsNot) {
  const Layer layer;
  const Bounds bounds = bounds_of([&](Rounding round) { return std::vector{layer.exact(round)}; });
  const Rows right = layer.exact(Rounding());
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
    const double ratio = worst_ratio(ours, layer.exact(Rounding(), slip).at, hidden, bounds[0]);
    EXPECT_GT(ratio, 100) << "mistake " << static_cast<int>(slip);
    smallest = std::min(smallest, ratio);
  }
  fmt::print("the smallest mistake is {:.1e} times the bound\n", smallest);
}

}  // namespace
}  // namespace draftproof::test::gated_delta_net_test
