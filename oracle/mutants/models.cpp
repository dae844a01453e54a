// SPDX-License-Identifier: MIT
#include <algorithm>

#include "oracle/mutants/parts.h"

namespace draftproof::mutants {
namespace {

class Around : public Model {
 public:
  explicit Around(Model& sound) : sound_(sound) {}
  int vocabulary() const override { return sound_.vocabulary(); }
  int context() const override { return sound_.context(); }
  std::unique_ptr<Cache> new_cache(int capacity, int horizon_max) const override {
    return sound_.new_cache(capacity, horizon_max);
  }
  void forward(const Batch& batch, Cache& cache, Outputs& outputs) override { sound_.forward(batch, cache, outputs); }

 protected:
  /// Gives every token the logit of its neighbour `by` places on: a row that is certainly another one.
  static void turn(std::span<float> row, int by) {
    std::rotate(row.begin(), row.begin() + by % static_cast<int>(row.size()), row.end());
  }
  std::span<float> row_of(Outputs& outputs, int row) const {
    const auto width = static_cast<std::size_t>(vocabulary());
    return std::span(outputs.logits).subspan(static_cast<std::size_t>(row) * width, width);
  }
  Model& sound_;
};

class EvenPassesDiffer final : public Around {
 public:
  using Around::Around;
  void forward(const Batch& batch, Cache& cache, Outputs& outputs) override {
    sound_.forward(batch, cache, outputs);
    if (batch.tokens.size() % 2 != 0) return;
    for (float& logit : outputs.logits) logit *= 1.0078125F;
  }
};

class ThreadsDiffer final : public Around {
 public:
  ThreadsDiffer(Model& sound, int threads) : Around(sound), threads_(threads) {}
  void forward(const Batch& batch, Cache& cache, Outputs& outputs) override {
    sound_.forward(batch, cache, outputs);
    if (threads_ == 1) return;
    const int rows = static_cast<int>(batch.tokens.size()) - batch.logits_from;
    for (int row = 0; row < rows; ++row) turn(row_of(outputs, row), 1);
  }

 private:
  int threads_;
};

class LooksAhead final : public Around {
 public:
  using Around::Around;
  void forward(const Batch& batch, Cache& cache, Outputs& outputs) override {
    sound_.forward(batch, cache, outputs);
    const int rows = static_cast<int>(batch.tokens.size());
    for (int row = batch.logits_from; row + 1 < rows; ++row) {
      turn(row_of(outputs, row - batch.logits_from), batch.tokens[static_cast<std::size_t>(row) + 1]);
    }
  }
};

/// What was refused since the last pass, and what there was.
struct Refusal {
  std::size_t held;     // tokens in memory, the refused ones last
  std::size_t refused;  // so many
  bool all;             // nothing but the anchor was kept
  int in_a_row;         // rounds with a refusal before this one, without one in between
};
using Left = std::size_t (*)(const Refusal&);  // how many of the held tokens stay; sound: held - refused

/// Tokens as they were written; a refusal is dealt with when the next window is written.
class Memory final : public LayerCache {
 public:
  Memory(Left left, bool digests_residue) : left_(left), digests_residue_(digests_residue) {}

  void write(int position, Token token) {
    if (position == settled()) {
      const bool refusal = refused() > 0;
      tokens_ = held();
      refusals_ += refusal;
      in_a_row_ = refusal ? in_a_row_ + 1 : 0;
      begin_ = position;
      rows_ = 0;
    }
    claim(position);
    tokens_.push_back(token);
    ++rows_;
  }

  const std::vector<Token>& tokens() const { return tokens_; }
  int window_rows() const { return rows_; }
  int refusals() const { return refusals_; }

  void add_to(Digest& digest, int) const override {
    digest.add(std::span<const Token>(held()));
    if (digests_residue_ && !tokens_.empty()) digest.add(tokens_.back());
  }

 private:
  int refused() const { return rows_ - (settled() - begin_); }
  std::vector<Token> held() const {
    if (refused() == 0) return tokens_;
    const bool all = settled() == begin_ + 1;
    const std::size_t left = left_({tokens_.size(), static_cast<std::size_t>(refused()), all, in_a_row_});
    return {tokens_.begin(), tokens_.begin() + static_cast<std::ptrdiff_t>(left)};
  }

  Left left_;
  bool digests_residue_;
  std::vector<Token> tokens_;
  int begin_ = 0;     // of the last window
  int rows_ = 0;      // written in it
  int refusals_ = 0;
  int in_a_row_ = 0;
};

std::size_t sound_left(const Refusal& r) { return r.held - r.refused; }

/// The sound model, read afresh for every row on what this memory holds.
class Remembering : public Around {
 public:
  Remembering(Model& sound, Left left, bool digests_residue = false)
      : Around(sound), left_(left), digests_residue_(digests_residue) {}

  std::unique_ptr<Cache> new_cache(int capacity, int horizon_max) const override {
    std::vector<std::unique_ptr<LayerCache>> layers;
    layers.push_back(std::make_unique<Memory>(left_, digests_residue_));
    return std::make_unique<Cache>(std::move(layers), capacity, horizon_max);
  }

  void forward(const Batch& batch, Cache& cache, Outputs& outputs) override {
    auto& memory = cache.layer<Memory>(0);
    const int rows = static_cast<int>(batch.tokens.size());
    outputs.logits.clear();
    outputs.features.clear();
    for (int row = 0; row < rows; ++row) {
      memory.write(cache.end() + row, batch.tokens[static_cast<std::size_t>(row)]);
      if (row < batch.logits_from) continue;
      read(seen(memory, batch));
      turn(fresh_.logits, turned(memory));
      outputs.logits.insert(outputs.logits.end(), fresh_.logits.begin(), fresh_.logits.end());
    }
    cache.wrote(rows);
  }

 protected:
  virtual std::vector<Token> seen(const Memory& memory, const Batch&) const { return memory.tokens(); }
  virtual int turned(const Memory&) const { return 0; }

 private:
  void read(const std::vector<Token>& text) {
    const int length = static_cast<int>(text.size());
    const auto cache = sound_.new_cache(length, length);
    const Transaction window = cache->begin(length);
    sound_.forward({.tokens = text, .logits_from = length - 1}, *cache, fresh_);
  }

  Left left_;
  bool digests_residue_;
  Outputs fresh_;
};

class GuessesUnseen final : public Remembering {
 public:
  explicit GuessesUnseen(Model& sound) : Remembering(sound, sound_left) {}

 protected:
  std::vector<Token> seen(const Memory& memory, const Batch& batch) const override {
    std::vector<Token> text = memory.tokens();
    const bool verification = batch.logits_from == 0 && memory.window_rows() > 1;
    if (verification) text.erase(text.end() - memory.window_rows(), text.end() - 1);
    return text;
  }
};

class PositionsRunOn final : public Remembering {
 public:
  explicit PositionsRunOn(Model& sound) : Remembering(sound, sound_left) {}

 protected:
  int turned(const Memory& memory) const override { return memory.refusals(); }
};

constexpr std::size_t window = 8;

}  // namespace

std::unique_ptr<Model> even_passes_differ(Model& sound, int) { return std::make_unique<EvenPassesDiffer>(sound); }
std::unique_ptr<Model> threads_differ(Model& sound, int threads) {
  return std::make_unique<ThreadsDiffer>(sound, threads);
}
std::unique_ptr<Model> looks_ahead(Model& sound, int) { return std::make_unique<LooksAhead>(sound); }
std::unique_ptr<Model> guesses_unseen(Model& sound, int) { return std::make_unique<GuessesUnseen>(sound); }
std::unique_ptr<Model> positions_run_on(Model& sound, int) { return std::make_unique<PositionsRunOn>(sound); }

std::unique_ptr<Model> forgets_nothing(Model& sound, int) {
  return std::make_unique<Remembering>(sound, [](const Refusal& r) { return r.held; });
}
std::unique_ptr<Model> forgets_nothing_past_the_window(Model& sound, int) {
  return std::make_unique<Remembering>(sound,
                                       [](const Refusal& r) { return r.held > window ? r.held : sound_left(r); });
}
std::unique_ptr<Model> forgets_everything(Model& sound, int) {
  return std::make_unique<Remembering>(sound, [](const Refusal&) { return std::size_t{0}; });
}
std::unique_ptr<Model> forgets_unless_all_was_refused(Model& sound, int) {
  return std::make_unique<Remembering>(sound, [](const Refusal& r) { return r.all ? r.held : sound_left(r); });
}
std::unique_ptr<Model> forgets_once(Model& sound, int) {
  return std::make_unique<Remembering>(sound, [](const Refusal& r) { return sound_left(r) + (r.in_a_row > 0); });
}
std::unique_ptr<Model> unread_residue(Model& sound, int) {
  return std::make_unique<Remembering>(sound, sound_left, true);
}

}  // namespace draftproof::mutants
