// SPDX-License-Identifier: MIT
// Targets with one state of the whole text (FoldedCache), which restore it wrongly after a rejection.
#include "oracle/plain/plain.h"
#include "ref/caches/folded_cache.h"
#include "zoo/parts.h"

namespace draftproof::zoo {
namespace {

using Text = std::vector<Token>;

enum class StateFault {
  continues_the_working_state,  // a replay does not begin with the settled state
  replays_the_row_after,        // a replay of rows takes those one row later, where there are any
  replays_by_position,          // a replay takes rows by position, which is wrong where a tree has branches
};

/// A state that holds the text itself, so that the row after it can be looked up in the sound model.
class StateCache final : public FoldedCache {
 public:
  explicit StateCache(StateFault fault) : fault_(fault) {}

  void write(int position, Token token) {
    const Claimed claimed = claim_rows(position, 1);
    pending_.resize(static_cast<std::size_t>(claimed.row));
    pending_.push_back(token);
    if (claimed.from_settled) working_ = state_;
    working_.push_back(token);
  }
  const Text& working() const { return working_; }

  void add_to(Digest& digest, int) const override { digest.add(std::span<const Token>(state_)); }

 protected:
  void on_clear() override { state_.clear(); }
  void replay(int row, int rows, bool from_settled) override {
    if (from_settled && fault_ != StateFault::continues_the_working_state) working_ = state_;
    const int count = static_cast<int>(pending_.size());
    int first = row;
    if (fault_ == StateFault::replays_the_row_after && row + rows < count) ++first;
    if (fault_ == StateFault::replays_by_position) first = static_cast<int>(working_.size() - state_.size());
    for (int i = first; i < first + rows; ++i) working_.push_back(pending_.at(static_cast<std::size_t>(i)));
  }
  void adopt() override { state_ = working_; }

 private:
  StateFault fault_;
  Text state_;
  Text working_;
  Text pending_;  // of the open transaction, in write order
};

class StateModel final : public OneByOneModel {
 public:
  StateModel(Model& sound, StateFault fault) : sound_(sound), fault_(fault) {}
  int vocabulary() const override { return sound_.vocabulary(); }
  int context() const override { return sound_.context(); }
  std::unique_ptr<Cache> new_cache(int capacity, int max_pending_rows) const override {
    std::vector<std::unique_ptr<LayerCache>> layers;
    layers.push_back(std::make_unique<StateCache>(fault_));
    return std::make_unique<Cache>(std::move(layers), capacity, max_pending_rows);
  }

 private:
  void forward_one(const Segment& segment, Outputs& outputs) override {
    Cache& cache = *segment.cache;
    auto& layer = cache.layer<StateCache>(0);
    const bool tree = !segment.depths.empty();
    outputs.logits.clear();
    outputs.features.clear();
    for (int row = 0; row < segment.rows(); ++row) {
      const int position = tree ? cache.length() + segment.depths[row] : cache.end() + row;
      if (tree) layer.branch(position);
      layer.write(position, segment.tokens[row]);
      if (row < segment.logits_from) continue;
      const std::vector<float> logits = logits_after(sound_, layer.working());
      outputs.logits.insert(outputs.logits.end(), logits.begin(), logits.end());
    }
    cache.wrote(segment.rows());
  }

  Model& sound_;
  StateFault fault_;
};

}  // namespace

std::unique_ptr<Model> state_not_restored(Model& sound, int) {
  return std::make_unique<StateModel>(sound, StateFault::continues_the_working_state);
}
std::unique_ptr<Model> state_replayed_a_row_late(Model& sound, int) {
  return std::make_unique<StateModel>(sound, StateFault::replays_the_row_after);
}
std::unique_ptr<Model> state_replayed_by_position(Model& sound, int) {
  return std::make_unique<StateModel>(sound, StateFault::replays_by_position);
}

}  // namespace draftproof::zoo
