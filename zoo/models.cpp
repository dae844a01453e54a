// SPDX-License-Identifier: MIT
#include <algorithm>
#include <map>

#include "oracle/plain/plain.h"
#include "zoo/parts.h"

namespace draftproof::zoo {
namespace {

class Around : public Model {
 public:
  explicit Around(Model& sound) : sound_(sound) {}
  int vocabulary() const override { return sound_.vocabulary(); }
  int context() const override { return sound_.context(); }
  std::unique_ptr<Cache> new_cache(int capacity, int max_pending_rows) const override {
    return sound_.new_cache(capacity, max_pending_rows);
  }
  void forward(const Batch& batch, Cache& cache, Outputs& outputs) override { sound_.forward(batch, cache, outputs); }

 protected:
  /// Gives every token the logit of its neighbor `by` places on: a row that is certainly another one.
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

/// Holds the state of one sequence: that of whoever began last.
class LastCacheOnly final : public Around {
 public:
  using Around::Around;
  void forward(const Batch& batch, Cache& cache, Outputs& outputs) override {
    if (cache.length() == 0) last_ = &cache;
    sound_.forward(batch, cache, outputs);
    if (last_ == &cache) return;
    const int rows = static_cast<int>(batch.tokens.size()) - batch.logits_from;
    for (int row = 0; row < rows; ++row) turn(row_of(outputs, row), 1);
  }

 private:
  const Cache* last_ = nullptr;
};

/// What one window wrote, once it is known what of it was kept.
struct Window {
  std::size_t refused;  // the last so many of the tokens held
  std::size_t kept;     // the ones before
  bool read_prompt;     // nobody asked for its rows
  int in_a_row;         // windows with a refusal before this one, without one in between
};
using Text = std::vector<Token>;
using Settle = void (*)(Text& held, const Window& transaction);

void drop(Text& held, std::size_t count) { held.resize(held.size() - std::min(held.size(), count)); }
void settle_soundly(Text& held, const Window& transaction) { drop(held, transaction.refused); }

/// Tokens as they were written; what is kept of a window is settled when the next one is written.
class Memory final : public LayerCache {
 public:
  Memory(Settle settle, bool digests_residue) : settle_(settle), digests_residue_(digests_residue) {}

  void write(int position, Token token, bool reads_prompt) {
    if (position == settled()) {
      const bool refusal = refused() > 0;
      kept_ = read_prompt_ ? 0 : settled() - begin_;
      tokens_ = held();
      refusals_ += refusal;
      in_a_row_ = refusal ? in_a_row_ + 1 : 0;
      begin_ = position;
      rows_ = 0;
      read_prompt_ = reads_prompt;
    }
    claim(position);
    tokens_.push_back(token);
    ++rows_;
  }

  const Text& tokens() const { return tokens_; }
  int window_rows() const { return rows_; }
  int kept_before() const { return kept_; }  // rows of the last verification
  int refusals() const { return refusals_; }

  void add_to(Digest& digest, int) const override {
    digest.add(std::span<const Token>(held()));
    if (digests_residue_ && !tokens_.empty()) digest.add(tokens_.back());
  }

 private:
  int refused() const { return rows_ - (settled() - begin_); }
  Text held() const {
    Text held = tokens_;
    if (rows_ == 0) return held;
    const auto kept = static_cast<std::size_t>(settled() - begin_);
    settle_(held, {static_cast<std::size_t>(refused()), kept, read_prompt_, in_a_row_});
    return held;
  }

  Settle settle_;
  bool digests_residue_;
  Text tokens_;
  int begin_ = 0;  // of the last window
  int rows_ = 0;   // written in it
  bool read_prompt_ = true;
  int kept_ = 0;
  int refusals_ = 0;
  int in_a_row_ = 0;
};

/// The sound model, read afresh for every row on what this memory holds.
class Remembering : public Around {
 public:
  Remembering(Model& sound, Settle settle, bool digests_residue = false)
      : Around(sound), settle_(settle), digests_residue_(digests_residue) {}

  std::unique_ptr<Cache> new_cache(int capacity, int max_pending_rows) const override {
    std::vector<std::unique_ptr<LayerCache>> layers;
    layers.push_back(std::make_unique<Memory>(settle_, digests_residue_));
    return std::make_unique<Cache>(std::move(layers), capacity, max_pending_rows);
  }

  void forward(const Batch& batch, Cache& cache, Outputs& outputs) override {
    auto& memory = cache.layer<Memory>(0);
    const int rows = static_cast<int>(batch.tokens.size());
    outputs.logits.clear();
    outputs.features.clear();
    for (int row = 0; row < rows; ++row) {
      memory.write(cache.end() + row, batch.tokens[static_cast<std::size_t>(row)], batch.logits_from > 0);
      if (row < batch.logits_from) continue;
      read(seen(memory, batch, row));
      turn(fresh_.logits, turned(memory));
      outputs.logits.insert(outputs.logits.end(), fresh_.logits.begin(), fresh_.logits.end());
    }
    cache.wrote(rows);
  }

 protected:
  virtual Text seen(const Memory& memory, const Batch&, int) const { return memory.tokens(); }
  virtual int turned(const Memory&) const { return 0; }

 private:
  void read(const Text& text) {
    const int length = static_cast<int>(text.size());
    const auto cache = sound_.new_cache(length, length);
    const Transaction transaction = cache->begin(length);
    sound_.forward({.tokens = text, .logits_from = length - 1}, *cache, fresh_);
  }

  Settle settle_;
  bool digests_residue_;
  Outputs fresh_;
};

class DraftTokensUnseen final : public Remembering {
 public:
  explicit DraftTokensUnseen(Model& sound) : Remembering(sound, settle_soundly) {}

 protected:
  Text seen(const Memory& memory, const Batch& batch, int) const override {
    Text text = memory.tokens();
    const bool verification = batch.logits_from == 0 && memory.window_rows() > 1;
    if (verification) text.erase(text.end() - memory.window_rows(), text.end() - 1);
    return text;
  }
};

class PositionsRunOn final : public Remembering {
 public:
  explicit PositionsRunOn(Model& sound) : Remembering(sound, settle_soundly) {}

 protected:
  int turned(const Memory& memory) const override { return memory.refusals(); }
};

/// A pass of one row goes on from the state after the first row of the last verification, whatever was kept of it.
class StaleSlot final : public Remembering {
 public:
  explicit StaleSlot(Model& sound) : Remembering(sound, settle_soundly) {}

 protected:
  Text seen(const Memory& memory, const Batch& batch, int) const override {
    Text text = memory.tokens();
    const int behind = memory.kept_before() - 1;
    if (batch.tokens.size() == 1 && memory.window_rows() == 1 && behind > 0) {
      text.erase(text.end() - 1 - behind, text.end() - 1);
    }
    return text;
  }
};

/// A row sees the last few tokens only; so many of them as `reach` says, given its place in a pass of so many rows.
using Reach = int (*)(int row, int rows);
class Windowed final : public Remembering {
 public:
  Windowed(Model& sound, Reach reach) : Remembering(sound, settle_soundly), reach_(reach) {}

 protected:
  Text seen(const Memory& memory, const Batch& batch, int row) const override {
    const Text& text = memory.tokens();
    const int reach = std::max(1, reach_(row, static_cast<int>(batch.tokens.size())));
    return {text.end() - std::min<std::ptrdiff_t>(reach, std::ssize(text)), text.end()};
  }

 private:
  Reach reach_;
};

constexpr std::size_t transaction = 8;
constexpr int short_window = 5;

/// Keeps what was read of every text, and finds it again by its first four tokens: a prompt that begins like an earlier
/// text is taken to go on like it for as long as that was kept.
class PrefixesByTheirBeginning final : public Remembering {
 public:
  explicit PrefixesByTheirBeginning(Model& sound) : Remembering(sound, settle_soundly) {}

  void forward(const Batch& batch, Cache& cache, Outputs& outputs) override {
    const std::size_t rows = batch.tokens.size();
    const bool prompt = batch.logits_from == static_cast<int>(rows) && cache.length() == 0 && rows > beginning;
    if (!prompt) {
      Remembering::forward(batch, cache, outputs);
      return;
    }
    Text tokens(batch.tokens.begin(), batch.tokens.end());
    const Text& known = published_.try_emplace(Text(tokens.begin(), tokens.begin() + beginning), tokens).first->second;
    std::copy_n(known.begin(), std::min(rows, known.size()), tokens.begin());
    Remembering::forward({.tokens = tokens, .logits_from = batch.logits_from}, cache, outputs);
  }

 private:
  static constexpr std::ptrdiff_t beginning = 4;
  std::map<Text, Text> published_;
};

// Targets of trees.

class SeesOtherBranches final : public Around {
 public:
  using Around::Around;
  void forward(const Batch& batch, Cache& cache, Outputs& outputs) override {
    sound_.forward({.tokens = batch.tokens, .taps = batch.taps, .logits_from = batch.logits_from}, cache, outputs);
  }
};

/// Puts the first rows of a window where those of the branch that is kept belong.
class FirstRows final : public LayerCache {
 public:
  void write(int position, Token token) {
    claim(position);
    if (position == settled()) window_.clear();
    window_.push_back(token);
    put(token, position);
  }
  std::span<const Token> tokens() const { return std::span(tokens_).first(static_cast<std::size_t>(written())); }
  void add_to(Digest& digest, int length) const override {
    digest.add(std::span<const Token>(tokens_).first(static_cast<std::size_t>(length)));
  }

 protected:
  void restore(int, int position) override { put(window_[static_cast<std::size_t>(position - settled())], position); }

 private:
  void put(Token token, int position) {
    tokens_.resize(static_cast<std::size_t>(position));
    tokens_.push_back(token);
  }
  Text tokens_;
  Text window_;
};

class KeepsTheFirstBranch final : public Around {
 public:
  using Around::Around;
  std::unique_ptr<Cache> new_cache(int capacity, int max_pending_rows) const override {
    std::vector<std::unique_ptr<LayerCache>> layers;
    layers.push_back(std::make_unique<FirstRows>());
    return std::make_unique<Cache>(std::move(layers), capacity, max_pending_rows);
  }
  void forward(const Batch& batch, Cache& cache, Outputs& outputs) override {
    auto& memory = cache.layer<FirstRows>(0);
    outputs.logits.clear();
    outputs.features.clear();
    for (std::size_t row = 0; row < batch.tokens.size(); ++row) {
      const int position = cache.end() + (batch.depths.empty() ? static_cast<int>(row) : batch.depths[row]);
      if (!batch.depths.empty()) memory.branch(position);
      memory.write(position, batch.tokens[row]);
      if (static_cast<int>(row) < batch.logits_from) continue;
      const std::vector<float> logits = logits_after(sound_, memory.tokens());
      outputs.logits.insert(outputs.logits.end(), logits.begin(), logits.end());
    }
    cache.wrote(static_cast<int>(batch.tokens.size()));
  }
};

}  // namespace

std::unique_ptr<Model> even_passes_differ(Model& sound, int) { return std::make_unique<EvenPassesDiffer>(sound); }
std::unique_ptr<Model> threads_differ(Model& sound, int threads) {
  return std::make_unique<ThreadsDiffer>(sound, threads);
}
std::unique_ptr<Model> looks_ahead(Model& sound, int) { return std::make_unique<LooksAhead>(sound); }
std::unique_ptr<Model> draft_tokens_unseen(Model& sound, int) { return std::make_unique<DraftTokensUnseen>(sound); }
std::unique_ptr<Model> positions_run_on(Model& sound, int) { return std::make_unique<PositionsRunOn>(sound); }

std::unique_ptr<Model> forgets_nothing(Model& sound, int) {
  return std::make_unique<Remembering>(sound, [](Text&, const Window&) {});
}
std::unique_ptr<Model> forgets_nothing_past_the_window(Model& sound, int) {
  return std::make_unique<Remembering>(sound, [](Text& held, const Window& w) {
    if (held.size() <= transaction) settle_soundly(held, w);
  });
}
std::unique_ptr<Model> forgets_everything(Model& sound, int) {
  return std::make_unique<Remembering>(sound, [](Text& held, const Window& w) {
    if (w.refused > 0) held.clear();
  });
}
std::unique_ptr<Model> forgets_unless_all_was_refused(Model& sound, int) {
  return std::make_unique<Remembering>(sound, [](Text& held, const Window& w) {
    if (w.kept > 1) settle_soundly(held, w);
  });
}
std::unique_ptr<Model> forgets_once(Model& sound, int) {
  return std::make_unique<Remembering>(sound, [](Text& held, const Window& w) {
    drop(held, w.refused - (w.refused > 0 && w.in_a_row > 0));
  });
}
std::unique_ptr<Model> keeps_three(Model& sound, int) {
  return std::make_unique<Remembering>(sound, [](Text& held, const Window& w) {
    settle_soundly(held, w);
    if (!w.read_prompt && w.kept > 3) drop(held, w.kept - 3);
  });
}
std::unique_ptr<Model> moves_to_the_wrong_places(Model& sound, int) {
  return std::make_unique<Remembering>(sound, [](Text& held, const Window& w) {
    settle_soundly(held, w);
    if (w.refused > 0 && w.kept > 1) std::swap(held[held.size() - 1], held[held.size() - 2]);
  });
}
std::unique_ptr<Model> last_cache_only(Model& sound, int) { return std::make_unique<LastCacheOnly>(sound); }
std::unique_ptr<Model> prefixes_by_their_beginning(Model& sound, int) {
  return std::make_unique<PrefixesByTheirBeginning>(sound);
}
std::unique_ptr<Model> unread_residue(Model& sound, int) {
  return std::make_unique<Remembering>(sound, settle_soundly, true);
}
std::unique_ptr<Model> stale_slot(Model& sound, int) { return std::make_unique<StaleSlot>(sound); }
std::unique_ptr<Model> sees_a_window(Model& sound, int) {
  return std::make_unique<Windowed>(sound, [](int, int) { return short_window; });
}
std::unique_ptr<Model> window_grows_with_the_pass(Model& sound, int) {
  return std::make_unique<Windowed>(sound, [](int, int rows) { return short_window + rows - 1; });
}
std::unique_ptr<Model> ring_without_room(Model& sound, int) {
  return std::make_unique<Windowed>(sound, [](int row, int rows) { return short_window - (rows - 1 - row); });
}
std::unique_ptr<Model> sees_other_branches(Model& sound, int) { return std::make_unique<SeesOtherBranches>(sound); }
std::unique_ptr<Model> keeps_the_first_branch(Model& sound, int) {
  return std::make_unique<KeepsTheFirstBranch>(sound);
}

}  // namespace draftproof::zoo
