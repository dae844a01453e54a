// SPDX-License-Identifier: MIT
#include "ref/models/hash.h"

#include <cstring>
#include <memory>
#include <utility>

#include "ref/base/require.h"
#include "ref/caches/folded_cache.h"
#include "ref/caches/history_cache.h"

namespace draftproof {
namespace {

std::uint64_t mixed(std::uint64_t state, std::uint64_t value) {  // splitmix64's finaliser
  std::uint64_t z = state + value + 0x9e3779b97f4a7c15ULL;
  z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9ULL;
  z = (z ^ (z >> 27)) * 0x94d049bb133111ebULL;
  return z ^ (z >> 31);
}

std::uint64_t with_token(std::uint64_t state, Token token) {
  return mixed(state, static_cast<std::uint64_t>(token) + 1);
}

/// The hash of the text, and no text.
class HashCache final : public FoldedCache {
 public:
  explicit HashCache(std::uint64_t seed) : seed_(seed), state_(seed) {}

  void write(int position, Token token) {
    const Claimed claimed = claim_rows(position, 1);
    pending_.resize(static_cast<std::size_t>(claimed.row));
    pending_.push_back(token);
    working_ = with_token(claimed.from_settled ? state_ : working_, token);
  }
  /// The hash of the text up to the token written last.
  std::uint64_t working() const { return working_; }

  void add_to(Digest& digest, int) const override { digest.add(state_); }

  LayerSnapshotPtr snapshot(int) const override {
    if (settled() == 0) return nullptr;
    LayerSnapshot copy = {"hash", LayerSnapshot::Form::state, settled(), settled(), settled()};
    copy.data.resize(sizeof state_);
    std::memcpy(copy.data.data(), &state_, sizeof state_);
    return std::make_shared<const LayerSnapshot>(std::move(copy));
  }
  bool fits(const LayerSnapshot& snapshot) const override {
    return snapshot.layout == "hash" && snapshot.form == LayerSnapshot::Form::state && snapshot.from == snapshot.to &&
           snapshot.shortest == snapshot.to && snapshot.to >= 1 && snapshot.data.size() == sizeof state_;
  }

 protected:
  void load(const LayerSnapshot& snapshot, int) override { std::memcpy(&state_, snapshot.data.data(), sizeof state_); }
  void on_clear() override { state_ = seed_; }
  void replay(int row, int rows, bool from_settled) override {
    if (from_settled) working_ = state_;
    for (int i = row; i < row + rows; ++i) working_ = with_token(working_, pending_.at(static_cast<std::size_t>(i)));
  }
  void adopt() override { state_ = working_; }

 private:
  std::uint64_t seed_;
  std::uint64_t state_;
  std::uint64_t working_ = 0;
  std::vector<Token> pending_;  // of the open transaction, in write order
};

class HashModel final : public OneByOneModel {
 public:
  explicit HashModel(const HashShape& shape) : shape_(shape) {}

  int vocabulary() const override { return shape_.vocabulary; }
  int context() const override { return shape_.context; }

  std::unique_ptr<Cache> new_cache(int capacity, int max_pending_rows) const override {
    std::vector<std::unique_ptr<LayerCache>> layers;
    if (shape_.recurrent) {
      layers.push_back(std::make_unique<HashCache>(shape_.seed));
    } else {
      layers.push_back(std::make_unique<HistoryCache>());
    }
    return std::make_unique<Cache>(std::move(layers), capacity, max_pending_rows);
  }

 private:
  void forward_one(const Segment& segment, Outputs& outputs) override {
    outputs.features.clear();
    outputs.logits.clear();
    if (shape_.recurrent) {
      read(segment, segment.cache->layer<HashCache>(0), outputs);
    } else {
      read(segment, segment.cache->layer<HistoryCache>(0), outputs);
    }
  }

  template <class Layer>
  void read(const Segment& segment, Layer& layer, Outputs& outputs) const {
    Cache& cache = *segment.cache;
    const bool tree = !segment.depths.empty();
    for (int row = 0; row < segment.rows(); ++row) {
      const int position = tree ? cache.length() + segment.depths[row] : cache.end() + row;
      if (tree) layer.branch(position);
      layer.write(position, segment.tokens[row]);
      if (row >= segment.logits_from) add_row(hash_up_to(layer, position), outputs);
    }
    cache.wrote(segment.rows());
  }

  std::uint64_t hash_up_to(const HashCache& layer, int) const { return layer.working(); }
  std::uint64_t hash_up_to(const HistoryCache& layer, int position) const {
    std::uint64_t state = shape_.seed;
    for (const Token token : layer.tokens(position + 1)) state = with_token(state, token);
    return state;
  }

  void add_row(std::uint64_t state, Outputs& outputs) const {
    if (shape_.perturbation != 0) {
      const std::uint64_t own = mixed(state, shape_.perturbation);
      if (own % static_cast<std::uint64_t>(shape_.disagreement) == 0) state = own;
    }
    for (int token = 0; token < shape_.vocabulary; ++token) {
      const std::uint64_t hash = mixed(state, ~static_cast<std::uint64_t>(token));
      outputs.logits.push_back(static_cast<float>(hash % static_cast<std::uint64_t>(shape_.levels)) *
                               static_cast<float>(shape_.spread));
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
