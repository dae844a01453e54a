// SPDX-License-Identifier: MIT
#include "ref/models/hash.h"

#include "ref/base/require.h"
#include "ref/caches/history_cache.h"

namespace draftproof {
namespace {

std::uint64_t mixed(std::uint64_t state, std::uint64_t value) {  // splitmix64's finaliser
  std::uint64_t z = state + value + 0x9e3779b97f4a7c15ULL;
  z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9ULL;
  z = (z ^ (z >> 27)) * 0x94d049bb133111ebULL;
  return z ^ (z >> 31);
}

class HashModel final : public OneByOneModel {
 public:
  explicit HashModel(const HashShape& shape) : shape_(shape) {}

  int vocabulary() const override { return shape_.vocabulary; }
  int context() const override { return shape_.context; }

  std::unique_ptr<Cache> new_cache(int capacity, int max_pending_rows) const override {
    std::vector<std::unique_ptr<LayerCache>> layers;
    layers.push_back(std::make_unique<HistoryCache>());
    return std::make_unique<Cache>(std::move(layers), capacity, max_pending_rows);
  }

 private:
  void forward_one(const Segment& segment, Outputs& outputs) override {
    Cache& cache = *segment.cache;
    const bool tree = !segment.depths.empty();
    auto& history = cache.layer<HistoryCache>(0);
    outputs.features.clear();
    outputs.logits.clear();
    for (int row = 0; row < segment.rows(); ++row) {
      const int position = tree ? cache.length() + segment.depths[row] : cache.end() + row;
      if (tree) history.branch(position);
      history.write(position, segment.tokens[row]);
      if (row >= segment.logits_from) add_row(history.tokens(position + 1), outputs);
    }
    cache.wrote(segment.rows());
  }

  void add_row(std::span<const Token> text, Outputs& outputs) const {
    std::uint64_t state = shape_.seed;
    for (const Token token : text) state = mixed(state, static_cast<std::uint64_t>(token) + 1);
    if (shape_.perturbation != 0) {
      const std::uint64_t own = mixed(state, shape_.perturbation);
      if (own % static_cast<std::uint64_t>(shape_.disagreement) == 0) state = own;
    }
    for (int token = 0; token < shape_.vocabulary; ++token) {
      const std::uint64_t hash = mixed(state, ~static_cast<std::uint64_t>(token));
      outputs.logits.push_back(
          static_cast<float>(hash % static_cast<std::uint64_t>(shape_.levels)) * static_cast<float>(shape_.spread));
    }
  }

  HashShape shape_;
};

}  // namespace

HashShape disagreeing(HashShape shape) {
  shape.perturbation = 77;
  shape.disagreement = 2;
  return shape;
}

std::unique_ptr<Model> make_hash_model(const HashShape& shape) {
  REQUIRE(shape.vocabulary >= 1 && shape.levels >= 1 && shape.disagreement >= 1, "a hash model has a vocabulary");
  return std::make_unique<HashModel>(shape);
}

}  // namespace draftproof
