// SPDX-License-Identifier: MIT
#include "ref/models/delta_net.h"

#include <cmath>
#include <cstring>
#include <utility>
#include <vector>

#include "kernels/operations.h"
#include "kernels/threads.h"
#include "ref/base/error.h"
#include "ref/base/require.h"
#include "ref/models/gated_delta_net.h"

namespace draftproof {
namespace {

constexpr float epsilon = 1e-6F;

/// Weights: numbers with full mantissas, the same on every machine.
class PseudorandomWeights {
 public:
  explicit PseudorandomWeights(std::uint64_t seed) : state_(seed) {}

  /// In [middle - reach, middle + reach).
  std::vector<float> numbers(std::size_t count, float middle, float reach) {
    std::vector<float> values(count);
    for (float& value : values) value = middle + reach * (static_cast<float>(next() >> 40) * 0x1p-23F - 1.0F);
    return values;
  }
  /// Outputs have about the size of the inputs.
  PackedMatrix matrix(const Kernels& kernels, int outputs, int inputs) {
    const float reach = std::sqrt(3.0F / static_cast<float>(inputs));
    const auto values = numbers(static_cast<std::size_t>(outputs) * static_cast<std::size_t>(inputs), 0, reach);
    const MatrixView view = {values.data(), Format::f32, outputs, inputs};
    return PackedMatrix(kernels, {&view, 1});
  }

 private:
  std::uint64_t next() {  // splitmix64
    state_ += 0x9e3779b97f4a7c15ULL;
    std::uint64_t z = state_;
    z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9ULL;
    z = (z ^ (z >> 27)) * 0x94d049bb133111ebULL;
    return z ^ (z >> 31);
  }
  std::uint64_t state_;
};

class DeltaNetModel final : public OneByOneModel {
 public:
  DeltaNetModel(const DeltaNetShape& shape, const Kernels& kernels) : shape_(shape), kernels_(kernels) {
    PseudorandomWeights weights(shape.seed);
    const RecurrentShape& layer = shape.layer;
    const auto heads = static_cast<std::size_t>(layer.delta.value_heads);
    const auto width = static_cast<std::size_t>(shape.hidden);
    const int projected = layer.channels() + layer.value_floats() + 2 * layer.delta.value_heads;
    embedding_ = weights.matrix(kernels, shape.vocabulary, shape.hidden);
    head_ = weights.matrix(kernels, shape.vocabulary, shape.hidden);
    norm_ = weights.numbers(width, 2, 1);
    for (int i = 0; i < shape.layers; ++i) {
      norms_.push_back(weights.numbers(width, 1, 0.5F));
      GatedDeltaNetWeights mixer;
      mixer.in = weights.matrix(kernels, projected, shape.hidden);
      mixer.out = weights.matrix(kernels, shape.hidden, layer.value_floats());
      mixer.convolution = weights.numbers(
          static_cast<std::size_t>(layer.conv_width) * static_cast<std::size_t>(layer.channels()), 0, 1);
      mixer.rates = rates_of(weights.numbers(heads, -2, 2));
      mixer.dt_bias = weights.numbers(heads, -1, 2);
      mixer.norm = weights.numbers(static_cast<std::size_t>(layer.delta.value_dim), 1, 0.5F);
      mixers_.push_back(std::move(mixer));
    }
  }

  int vocabulary() const override { return shape_.vocabulary; }
  int context() const override { return shape_.context; }
  int layers() const override { return shape_.layers; }
  int hidden() const override { return shape_.hidden; }

  std::unique_ptr<Cache> new_cache(int capacity, int max_pending_rows) const override {
    std::vector<std::unique_ptr<LayerCache>> layers;
    for (int i = 0; i < shape_.layers; ++i) {
      layers.push_back(new_gated_delta_net_cache(kernels_, shape_.layer, max_pending_rows));
    }
    return std::make_unique<Cache>(std::move(layers), capacity, max_pending_rows);
  }

 private:
  void forward_one(const Segment& segment, Outputs& outputs) override {
    with_workers([&] { read(segment, outputs); });
  }

  void read(const Segment& segment, Outputs& outputs) {
    Cache& cache = *segment.cache;
    const int rows = segment.rows();
    const int width = shape_.hidden;
    const std::vector<RowRange> ranges = ranges_of(segment);
    hidden_.resize(segment.tokens.size() * static_cast<std::size_t>(width));
    normed_.resize(hidden_.size());
    mixed_.resize(hidden_.size());
    outputs.features.resize(hidden_.size() * segment.taps.size());
    for (const Token token : segment.tokens) {
      REQUIRE(token >= 0 && token < shape_.vocabulary, "a token lies in the vocabulary");
    }
    unpack_rows(kernels_, embedding_, segment.tokens, hidden_.data());
    for (int i = 0; i < shape_.layers; ++i) {
      const auto at = static_cast<std::size_t>(i);
      kernels_.rms_norm(hidden_.data(), width, rows, 1, width, norms_[at].data(), epsilon, normed_.data(), width);
      RecurrentCache* const states = &cache.layer<RecurrentCache>(i);
      gated_delta_net(kernels_, shape_.layer, mixers_[at], epsilon, normed_.data(), rows, ranges, scratch_,
                      {&states, 1}, mixed_.data());
      kernels_.add(mixed_.data(), hidden_.size(), hidden_.data());
      tap(segment, i, outputs);
    }
    cache.wrote(rows);

    const int wanted = segment.rows_wanted();
    outputs.logits.resize(static_cast<std::size_t>(wanted) * static_cast<std::size_t>(shape_.vocabulary));
    if (wanted == 0) return;
    kernels_.rms_norm(hidden_.data() + std::ptrdiff_t{segment.logits_from} * width, width, wanted, 1, width,
                      norm_.data(), epsilon, normed_.data(), width);
    pack_activations(kernels_, head_, normed_.data(), width, wanted, scratch_.activations);
    if (!matmul_of_numbers(kernels_, head_, scratch_.activations, outputs.logits.data(), shape_.vocabulary)) {
      throw Error("the delta net model computes NaN logits");
    }
  }

  /// Rows whose positions follow each other make one range; other ranges are branches.
  static std::vector<RowRange> ranges_of(const Segment& segment) {
    const Placement placement = placement_of(segment);
    std::vector<RowRange> ranges;
    for (int row = 0; row < segment.rows(); ++row) {
      const int position = placement.position + (segment.depths.empty() ? row : segment.depths[row]);
      if (ranges.empty() || position != ranges.back().position + ranges.back().rows) {
        ranges.push_back({0, row, 0, position, static_cast<int>(ranges.size())});
      }
      ++ranges.back().rows;
    }
    return ranges;
  }

  /// Copies the stream after layer `layer` into every tap that asks for it.
  void tap(const Segment& segment, int layer, Outputs& outputs) const {
    const auto width = static_cast<std::size_t>(shape_.hidden);
    for (std::size_t t = 0; t < segment.taps.size(); ++t) {
      if (segment.taps[t] != layer) continue;
      for (std::size_t row = 0; row < segment.tokens.size(); ++row) {
        std::memcpy(outputs.features.data() + (row * segment.taps.size() + t) * width, hidden_.data() + row * width,
                    width * sizeof(float));
      }
    }
  }

  DeltaNetShape shape_;
  const Kernels& kernels_;
  PackedMatrix embedding_;
  PackedMatrix head_;
  std::vector<float> norm_;
  std::vector<std::vector<float>> norms_;  // before each layer
  std::vector<GatedDeltaNetWeights> mixers_;
  std::vector<float> hidden_, normed_, mixed_;
  GatedDeltaNetScratch scratch_;
};

}  // namespace

std::unique_ptr<Model> make_delta_net_model(const DeltaNetShape& shape, const Kernels& kernels) {
  REQUIRE(shape.vocabulary >= 1 && shape.hidden >= 1 && shape.layers >= 1, "a model has tokens and layers");
  return std::make_unique<DeltaNetModel>(shape, kernels);
}

}  // namespace draftproof
