// SPDX-License-Identifier: MIT
#include <algorithm>
#include <cmath>
#include <cstring>
#include <map>
#include <memory>
#include <utility>

#include "oracle/plain/plain.h"
#include "zoo/parts.h"

namespace draftproof::zoo {
namespace {

class Wrapper : public OneByOneModel {
 public:
  explicit Wrapper(Model& sound) : sound_(sound) {}
  int vocabulary() const override { return sound_.vocabulary(); }
  int context() const override { return sound_.context(); }
  std::unique_ptr<Cache> new_cache(int capacity, int max_pending_rows) const override {
    return sound_.new_cache(capacity, max_pending_rows);
  }

 protected:
  void forward_one(const Segment& segment, Outputs& outputs) override { forward_alone(sound_, segment, outputs); }

  /// Gives every token the logit of the token `by` places on, which makes a different row.
  static void rotate(std::span<float> row, int by) {
    std::rotate(row.begin(), row.begin() + by % static_cast<int>(row.size()), row.end());
  }
  std::span<float> row_of(Outputs& outputs, int row) const {
    const auto width = static_cast<std::size_t>(vocabulary());
    return std::span(outputs.logits).subspan(static_cast<std::size_t>(row) * width, width);
  }
  Model& sound_;
};

/// A wrapper that sees whole batches.
class BatchWrapper : public Model {
 public:
  explicit BatchWrapper(Model& sound) : sound_(sound) {}
  int vocabulary() const override { return sound_.vocabulary(); }
  int context() const override { return sound_.context(); }
  std::unique_ptr<Cache> new_cache(int capacity, int max_pending_rows) const override {
    return sound_.new_cache(capacity, max_pending_rows);
  }

 protected:
  std::span<float> last_row(SegmentOutput& output) const {
    return output.logits.last(static_cast<std::size_t>(vocabulary()));
  }
  Model& sound_;
};

/// The last rows of the first two segments that want any change places.
class RowsOfNeighbor final : public BatchWrapper {
 public:
  using BatchWrapper::BatchWrapper;
  void forward(std::span<const Segment> batch, Outputs& outputs) override {
    sound_.forward(batch, outputs);
    std::vector<SegmentOutput*> wanted;
    for (SegmentOutput& output : outputs.segments) {
      if (!output.logits.empty()) wanted.push_back(&output);
    }
    if (wanted.size() > 1) std::ranges::swap_ranges(last_row(*wanted[0]), last_row(*wanted[1]));
  }
};

/// Rows are handed out in the order of the pass before: after a change of the batch they reach another sequence.
class ScatteredByTheOrderBefore final : public BatchWrapper {
 public:
  using BatchWrapper::BatchWrapper;
  /// A cache where another one was is not that one.
  std::unique_ptr<Cache> new_cache(int capacity, int max_pending_rows) const override {
    auto cache = BatchWrapper::new_cache(capacity, max_pending_rows);
    std::ranges::replace(before_, cache.get(), nullptr);
    return cache;
  }
  void forward(std::span<const Segment> batch, Outputs& outputs) override {
    sound_.forward(batch, outputs);
    std::vector<const Cache*> order;
    for (const Segment& segment : batch) order.push_back(segment.cache);
    const std::size_t places = std::min(order.size(), before_.size());
    for (std::size_t place = 0; place < places; ++place) {
      const auto now = std::ranges::find(order, before_[place]);
      if (now == order.end() || static_cast<std::size_t>(now - order.begin()) <= place) continue;
      SegmentOutput& here = outputs.segments[place];
      SegmentOutput& there = outputs.segments[static_cast<std::size_t>(now - order.begin())];
      if (!here.logits.empty() && !there.logits.empty()) std::ranges::swap_ranges(last_row(here), last_row(there));
    }
    before_ = std::move(order);
  }

 private:
  mutable std::vector<const Cache*> before_;
};

class EvenPassesDiffer final : public Wrapper {
 public:
  using Wrapper::Wrapper;
  void forward_one(const Segment& segment, Outputs& outputs) override {
    forward_alone(sound_, segment, outputs);
    if (segment.tokens.size() % 2 != 0) return;
    for (float& logit : outputs.logits) logit *= 1.0078125F;
  }
};

/// Caps logits softly in passes of more than `rows_without` rows.
class SoftlyCapped final : public Wrapper {
 public:
  SoftlyCapped(Model& sound, std::size_t rows_without) : Wrapper(sound), rows_without_(rows_without) {}
  void forward_one(const Segment& segment, Outputs& outputs) override {
    forward_alone(sound_, segment, outputs);
    if (static_cast<std::size_t>(segment.rows_wanted()) <= rows_without_) return;
    for (float& logit : outputs.logits) logit /= 1 + std::abs(logit) / 4;
  }

 private:
  std::size_t rows_without_;
};

/// The sound model is one with an adapter; of a pass only the first row that is wanted gets it.
class AdapterOnFirstRow final : public Wrapper {
 public:
  using Wrapper::Wrapper;
  void forward_one(const Segment& segment, Outputs& outputs) override {
    forward_alone(sound_, segment, outputs);
    for (int row = 1; row < segment.rows_wanted(); ++row) rotate(row_of(outputs, row), 1);
  }
};

/// Replays a verification of as many rows as one before: its last token is still the one of then.
class ReplaysTheLastToken final : public Wrapper {
 public:
  using Wrapper::Wrapper;
  std::unique_ptr<Cache> new_cache(int capacity, int max_pending_rows) const override {
    last_.clear();
    return Wrapper::new_cache(capacity, max_pending_rows);
  }
  void forward_one(const Segment& segment, Outputs& outputs) override {
    if (segment.logits_from > 0 || segment.tokens.size() < 2) return forward_alone(sound_, segment, outputs);
    std::vector<Token> tokens(segment.tokens.begin(), segment.tokens.end());
    tokens.back() = last_.try_emplace(tokens.size(), tokens.back()).first->second;
    Segment replayed = segment;
    replayed.tokens = tokens;
    forward_alone(sound_, replayed, outputs);
  }

 private:
  mutable std::map<std::size_t, Token> last_;  // by rows
};

class ThreadsDiffer final : public Wrapper {
 public:
  ThreadsDiffer(Model& sound, int threads) : Wrapper(sound), threads_(threads) {}
  void forward_one(const Segment& segment, Outputs& outputs) override {
    forward_alone(sound_, segment, outputs);
    if (threads_ == 1) return;
    const int rows = segment.rows_wanted();
    for (int row = 0; row < rows; ++row) rotate(row_of(outputs, row), 1);
  }

 private:
  int threads_;
};

class LooksAhead final : public Wrapper {
 public:
  using Wrapper::Wrapper;
  void forward_one(const Segment& segment, Outputs& outputs) override {
    forward_alone(sound_, segment, outputs);
    const int rows = segment.rows();
    for (int row = segment.logits_from; row + 1 < rows; ++row) {
      rotate(row_of(outputs, row - segment.logits_from), segment.tokens[static_cast<std::size_t>(row) + 1]);
    }
  }
};

/// Holds the state of one sequence only: the one that began last.
class LastCacheOnly final : public Wrapper {
 public:
  using Wrapper::Wrapper;
  void forward_one(const Segment& segment, Outputs& outputs) override {
    if (segment.cache->length() == 0) last_ = segment.cache;
    forward_alone(sound_, segment, outputs);
    if (last_ == segment.cache) return;
    const int rows = segment.rows_wanted();
    for (int row = 0; row < rows; ++row) rotate(row_of(outputs, row), 1);
  }

 private:
  const Cache* last_ = nullptr;
};

/// What one transaction wrote, once it is known how much of it was committed.
struct Written {
  std::size_t rejected;   // as many of the last tokens held
  std::size_t committed;  // as many before them
  bool prefill;           // its rows were not requested
  int in_a_row;           // consecutive transactions with a rejection before this one
};
using Text = std::vector<Token>;
using Settle = void (*)(Text& held, const Written& written);

void drop(Text& held, std::size_t count) { held.resize(held.size() - std::min(held.size(), count)); }
void settle_soundly(Text& held, const Written& written) { drop(held, written.rejected); }

/// Slots of sequences: how many are in use, and what the last one that was given back held while others were.
struct Slots {
  int used = 0;
  Text left;
};

/// Tokens as they were written. What was committed of a transaction is settled when the next one is written.
class TokenCache final : public LayerCache {
 public:
  TokenCache(Settle settle, bool digests_residue, Slots* slots)
      : settle_(settle), digests_residue_(digests_residue), slots_(slots) {
    if (slots_ == nullptr) return;
    ++slots_->used;
    tokens_ = std::exchange(slots_->left, {});
  }
  ~TokenCache() override {
    if (slots_ != nullptr && --slots_->used > 0) slots_->left = tokens_;
  }

  void write(int position, Token token, bool prefill) {
    if (position == settled()) {
      const bool rejection = rejected() > 0;
      committed_ = prefill_ ? 0 : settled() - begin_;
      tokens_ = held();
      rejections_ += rejection;
      in_a_row_ = rejection ? in_a_row_ + 1 : 0;
      begin_ = position;
      rows_ = 0;
      prefill_ = prefill;
    }
    claim(position);
    tokens_.push_back(token);
    ++rows_;
  }

  void overwrite_last(Token token) { tokens_.back() = token; }

  const Text& tokens() const { return tokens_; }
  int pending_rows() const { return rows_; }
  int committed_before() const { return committed_; }  // rows of the last verification
  int rejections() const { return rejections_; }

  void add_to(Digest& digest, int) const override {
    digest.add(std::span<const Token>(held()));
    if (digests_residue_ && !tokens_.empty()) digest.add(tokens_.back());
  }

  LayerSnapshotPtr snapshot(int) const override {
    if (settled() == 0) return nullptr;
    LayerSnapshot copy = {"tokens", LayerSnapshot::Form::state, settled(), settled(), settled()};
    const Text text = held();
    const auto bytes = std::as_bytes(std::span(text));
    copy.data.assign(bytes.begin(), bytes.end());
    return std::make_shared<const LayerSnapshot>(std::move(copy));
  }
  bool fits(const LayerSnapshot& snapshot) const override { return snapshot.layout == "tokens"; }

 protected:
  void load(const LayerSnapshot& snapshot, int length) override {
    tokens_.resize(snapshot.data.size() / sizeof(Token));
    std::memcpy(tokens_.data(), snapshot.data.data(), snapshot.data.size());
    begin_ = length;
    rows_ = 0;
    prefill_ = true;
  }
  void on_clear() override {
    tokens_.clear();
    begin_ = rows_ = committed_ = rejections_ = in_a_row_ = 0;
    prefill_ = true;
  }

 private:
  int rejected() const { return rows_ - (settled() - begin_); }
  Text held() const {
    Text held = tokens_;
    if (rows_ == 0) return held;
    const auto committed = static_cast<std::size_t>(settled() - begin_);
    settle_(held, {static_cast<std::size_t>(rejected()), committed, prefill_, in_a_row_});
    return held;
  }

  Settle settle_;
  bool digests_residue_;
  Slots* slots_;
  Text tokens_;
  int begin_ = 0;  // of the last transaction
  int rows_ = 0;   // written in it
  bool prefill_ = true;
  int committed_ = 0;
  int rejections_ = 0;
  int in_a_row_ = 0;
};

/// The sound model, which reads all tokens of this cache again for every row.
class Rereading : public Wrapper {
 public:
  Rereading(Model& sound, Settle settle, bool digests_residue = false, bool reuses_slots = false)
      : Wrapper(sound), settle_(settle), digests_residue_(digests_residue), reuses_slots_(reuses_slots) {}

  std::unique_ptr<Cache> new_cache(int capacity, int max_pending_rows) const override {
    std::vector<std::unique_ptr<LayerCache>> layers;
    layers.push_back(std::make_unique<TokenCache>(settle_, digests_residue_, reuses_slots_ ? &slots_ : nullptr));
    return std::make_unique<Cache>(std::move(layers), capacity, max_pending_rows);
  }

  void forward_one(const Segment& segment, Outputs& outputs) override {
    Cache& cache = *segment.cache;
    auto& cache_layer = cache.layer<TokenCache>(0);
    const int rows = segment.rows();
    outputs.logits.clear();
    outputs.features.clear();
    for (int row = 0; row < rows; ++row) {
      cache_layer.write(cache.end() + row, segment.tokens[row], segment.logits_from > 0);
      if (row < segment.logits_from) continue;
      read(seen(cache_layer, segment, row));
      rotate(fresh_.logits, rotated_by(cache_layer));
      outputs.logits.insert(outputs.logits.end(), fresh_.logits.begin(), fresh_.logits.end());
    }
    cache.wrote(rows);
  }

 protected:
  virtual Text seen(const TokenCache& cache, const Segment&, int) const { return cache.tokens(); }
  virtual int rotated_by(const TokenCache&) const { return 0; }

 private:
  void read(const Text& text) {
    const int length = static_cast<int>(text.size());
    const auto cache = sound_.new_cache(length, length);
    const Transaction transaction = cache->begin(length);
    forward_alone(sound_, {.cache = cache.get(), .tokens = text, .logits_from = length - 1}, fresh_);
  }

  Settle settle_;
  bool digests_residue_;
  bool reuses_slots_;
  mutable Slots slots_;
  Outputs fresh_;
};

/// Shorter segments of a pass are padded to the longest: their last row sees a placeholder before its own token.
class PaddedToTheLongest final : public Rereading {
 public:
  explicit PaddedToTheLongest(Model& sound) : Rereading(sound, settle_soundly) {}
  void forward(std::span<const Segment> batch, Outputs& outputs) override {
    longest_ = 0;
    for (const Segment& segment : batch) longest_ = std::max(longest_, segment.rows());
    Rereading::forward(batch, outputs);
  }

 protected:
  Text seen(const TokenCache& cache, const Segment& segment, int row) const override {
    Text text = cache.tokens();
    if (row + 1 == segment.rows() && segment.rows() < longest_) text.insert(text.end() - 1, 0);
    return text;
  }

 private:
  int longest_ = 0;
};

/// Shorter segments of a pass are padded to the longest, and the placeholder is written over the last token of the
/// segment before.
class PlaceholderInTheNeighbor final : public Rereading {
 public:
  explicit PlaceholderInTheNeighbor(Model& sound) : Rereading(sound, settle_soundly) {}
  void forward(std::span<const Segment> batch, Outputs& outputs) override {
    Rereading::forward(batch, outputs);
    int longest = 0;
    for (const Segment& segment : batch) longest = std::max(longest, segment.rows());
    for (std::size_t i = 1; i < batch.size(); ++i) {
      if (batch[i].rows() < longest) batch[i - 1].cache->layer<TokenCache>(0).overwrite_last(0);
    }
  }
};

class DraftTokensUnseen final : public Rereading {
 public:
  explicit DraftTokensUnseen(Model& sound) : Rereading(sound, settle_soundly) {}

 protected:
  Text seen(const TokenCache& cache, const Segment& segment, int) const override {
    Text text = cache.tokens();
    const bool verification = segment.logits_from == 0 && cache.pending_rows() > 1;
    if (verification) text.erase(text.end() - cache.pending_rows(), text.end() - 1);
    return text;
  }
};

class PositionsRunOn final : public Rereading {
 public:
  explicit PositionsRunOn(Model& sound) : Rereading(sound, settle_soundly) {}

 protected:
  int rotated_by(const TokenCache& cache) const override { return cache.rejections(); }
};

/// A pass of one row continues from the state after the first row of the last verification, whatever was committed.
class StaleSlot final : public Rereading {
 public:
  explicit StaleSlot(Model& sound) : Rereading(sound, settle_soundly) {}

 protected:
  Text seen(const TokenCache& cache, const Segment& segment, int) const override {
    Text text = cache.tokens();
    const int extra = cache.committed_before() - 1;
    if (segment.tokens.size() == 1 && cache.pending_rows() == 1 && extra > 0) {
      text.erase(text.end() - 1 - extra, text.end() - 1);
    }
    return text;
  }
};

/// A row sees only the last tokens of the text: `reach(row, rows)` of them, for a row of a pass of `rows` rows.
using Reach = int (*)(int row, int rows);
class Windowed final : public Rereading {
 public:
  Windowed(Model& sound, Reach reach) : Rereading(sound, settle_soundly), reach_(reach) {}

 protected:
  Text seen(const TokenCache& cache, const Segment& segment, int row) const override {
    const Text& text = cache.tokens();
    const int reach = std::max(1, reach_(row, segment.rows()));
    return {text.end() - std::min<std::ptrdiff_t>(reach, std::ssize(text)), text.end()};
  }

 private:
  Reach reach_;
};

constexpr std::size_t window = 8;
constexpr int short_window = 5;

/// Caches what was read of every text under its first four tokens: a prompt that begins like an earlier text is taken
/// to continue like it, as far as that was read.
class PrefixesByTheirBeginning final : public Rereading {
 public:
  explicit PrefixesByTheirBeginning(Model& sound) : Rereading(sound, settle_soundly) {}

  void forward_one(const Segment& segment, Outputs& outputs) override {
    const std::size_t rows = segment.tokens.size();
    const bool prompt = segment.rows_wanted() == 0 && segment.cache->length() == 0 && rows > beginning;
    if (!prompt) {
      Rereading::forward_one(segment, outputs);
      return;
    }
    Text tokens(segment.tokens.begin(), segment.tokens.end());
    const Text& known = published_.try_emplace(Text(tokens.begin(), tokens.begin() + beginning), tokens).first->second;
    std::copy_n(known.begin(), std::min(rows, known.size()), tokens.begin());
    Rereading::forward_one({.cache = segment.cache, .tokens = tokens, .logits_from = segment.logits_from}, outputs);
  }

 private:
  static constexpr std::ptrdiff_t beginning = 4;
  std::map<Text, Text> published_;
};

// Targets for the prefix cache.

/// A history whose snapshots are copied in one way and restored in another.
class Published final : public LayerCache {
 public:
  /// Changes the tokens of a snapshot. `last`: the token that was written last, rejected or not.
  using Change = void (*)(Text& text, Token last);
  Published(Change copy, Change restore) : copy_(copy), restore_(restore) {}

  void write(int position, Token token) {
    claim(position);
    tokens_.resize(static_cast<std::size_t>(position));
    tokens_.push_back(token);
    last_ = token;
  }
  std::span<const Token> tokens() const { return std::span(tokens_).first(static_cast<std::size_t>(written())); }
  void add_to(Digest& digest, int length) const override {
    digest.add(std::span<const Token>(tokens_).first(static_cast<std::size_t>(length)));
  }
  LayerSnapshotPtr snapshot(int) const override {
    if (settled() == 0) return nullptr;
    LayerSnapshot copy = {"published", LayerSnapshot::Form::state, settled(), settled(), settled()};
    Text text(tokens().begin(), tokens().begin() + settled());
    copy_(text, last_);
    const auto bytes = std::as_bytes(std::span(text));
    copy.data.assign(bytes.begin(), bytes.end());
    return std::make_shared<const LayerSnapshot>(std::move(copy));
  }
  bool fits(const LayerSnapshot& snapshot) const override { return snapshot.layout == "published"; }

 protected:
  void load(const LayerSnapshot& snapshot, int) override {
    tokens_.resize(snapshot.data.size() / sizeof(Token));
    std::memcpy(tokens_.data(), snapshot.data.data(), snapshot.data.size());
    restore_(tokens_, last_);
  }

 private:
  Change copy_;
  Change restore_;
  Text tokens_;
  Token last_ = 0;
};

class Publishing final : public Wrapper {
 public:
  Publishing(Model& sound, Published::Change copy, Published::Change restore)
      : Wrapper(sound), copy_(copy), restore_(restore) {}
  std::unique_ptr<Cache> new_cache(int capacity, int max_pending_rows) const override {
    std::vector<std::unique_ptr<LayerCache>> layers;
    layers.push_back(std::make_unique<Published>(copy_, restore_));
    return std::make_unique<Cache>(std::move(layers), capacity, max_pending_rows);
  }

 protected:
  void forward_one(const Segment& segment, Outputs& outputs) override {
    Cache& cache = *segment.cache;
    auto& layer = cache.layer<Published>(0);
    outputs.logits.clear();
    outputs.features.clear();
    for (int row = 0; row < segment.rows(); ++row) {
      layer.write(cache.end() + row, segment.tokens[row]);
      if (row < segment.logits_from) continue;
      const std::vector<float> logits = logits_after(sound_, layer.tokens());
      outputs.logits.insert(outputs.logits.end(), logits.begin(), logits.end());
    }
    cache.wrote(segment.rows());
  }

 private:
  Published::Change copy_;
  Published::Change restore_;
};

void as_it_is(Text&, Token) {}

// Targets for trees.

class SeesOtherBranches final : public Wrapper {
 public:
  using Wrapper::Wrapper;
  void forward_one(const Segment& segment, Outputs& outputs) override {
    Segment chain = segment;
    chain.depths = {};
    forward_alone(sound_, chain, outputs);
  }
};

/// Commits the first rows of a transaction in place of those of the accepted branch.
class FirstRows final : public LayerCache {
 public:
  void write(int position, Token token) {
    claim(position);
    if (position == settled()) pending_.clear();
    pending_.push_back(token);
    put(token, position);
  }
  std::span<const Token> tokens() const { return std::span(tokens_).first(static_cast<std::size_t>(written())); }
  void add_to(Digest& digest, int length) const override {
    digest.add(std::span<const Token>(tokens_).first(static_cast<std::size_t>(length)));
  }

 protected:
  void restore(int, int position) override { put(pending_[position - settled()], position); }

 private:
  void put(Token token, int position) {
    tokens_.resize(static_cast<std::size_t>(position));
    tokens_.push_back(token);
  }
  Text tokens_;
  Text pending_;
};

class KeepsTheFirstBranch final : public Wrapper {
 public:
  using Wrapper::Wrapper;
  std::unique_ptr<Cache> new_cache(int capacity, int max_pending_rows) const override {
    std::vector<std::unique_ptr<LayerCache>> layers;
    layers.push_back(std::make_unique<FirstRows>());
    return std::make_unique<Cache>(std::move(layers), capacity, max_pending_rows);
  }
  void forward_one(const Segment& segment, Outputs& outputs) override {
    Cache& cache = *segment.cache;
    auto& cache_layer = cache.layer<FirstRows>(0);
    outputs.logits.clear();
    outputs.features.clear();
    for (std::size_t row = 0; row < segment.tokens.size(); ++row) {
      const bool tree = !segment.depths.empty();
      const int position = tree ? cache.length() + segment.depths[row] : cache.end() + static_cast<int>(row);
      if (tree) cache_layer.branch(position);
      cache_layer.write(position, segment.tokens[row]);
      if (static_cast<int>(row) < segment.logits_from) continue;
      const std::vector<float> logits = logits_after(sound_, cache_layer.tokens());
      outputs.logits.insert(outputs.logits.end(), logits.begin(), logits.end());
    }
    cache.wrote(segment.rows());
  }
};

}  // namespace

std::unique_ptr<Model> even_passes_differ(Model& sound, int) { return std::make_unique<EvenPassesDiffer>(sound); }
std::unique_ptr<Model> caps_long_passes(Model& sound, int) { return std::make_unique<SoftlyCapped>(sound, 1); }
std::unique_ptr<Model> caps_every_pass(Model& sound, int) { return std::make_unique<SoftlyCapped>(sound, 0); }
std::unique_ptr<Model> adapter_on_first_row(Model& sound, int) { return std::make_unique<AdapterOnFirstRow>(sound); }
std::unique_ptr<Model> replays_the_last_token(Model& sound, int) {
  return std::make_unique<ReplaysTheLastToken>(sound);
}
std::unique_ptr<Model> threads_differ(Model& sound, int threads) {
  return std::make_unique<ThreadsDiffer>(sound, threads);
}
std::unique_ptr<Model> looks_ahead(Model& sound, int) { return std::make_unique<LooksAhead>(sound); }
std::unique_ptr<Model> draft_tokens_unseen(Model& sound, int) { return std::make_unique<DraftTokensUnseen>(sound); }
std::unique_ptr<Model> positions_run_on(Model& sound, int) { return std::make_unique<PositionsRunOn>(sound); }

std::unique_ptr<Model> no_rollback(Model& sound, int) {
  return std::make_unique<Rereading>(sound, [](Text&, const Written&) {});
}
std::unique_ptr<Model> no_rollback_past_the_window(Model& sound, int) {
  return std::make_unique<Rereading>(sound, [](Text& held, const Written& w) {
    if (held.size() <= window) settle_soundly(held, w);
  });
}
std::unique_ptr<Model> rolls_back_everything(Model& sound, int) {
  return std::make_unique<Rereading>(sound, [](Text& held, const Written& w) {
    if (w.rejected > 0) held.clear();
  });
}
std::unique_ptr<Model> no_rollback_when_all_rejected(Model& sound, int) {
  return std::make_unique<Rereading>(sound, [](Text& held, const Written& w) {
    if (w.committed > 1) settle_soundly(held, w);
  });
}
std::unique_ptr<Model> second_rollback_one_short(Model& sound, int) {
  return std::make_unique<Rereading>(
      sound, [](Text& held, const Written& w) { drop(held, w.rejected - (w.rejected > 0 && w.in_a_row > 0)); });
}
std::unique_ptr<Model> keeps_three(Model& sound, int) {
  return std::make_unique<Rereading>(sound, [](Text& held, const Written& w) {
    settle_soundly(held, w);
    if (!w.prefill && w.committed > 3) drop(held, w.committed - 3);
  });
}
std::unique_ptr<Model> swaps_the_last_rows(Model& sound, int) {
  return std::make_unique<Rereading>(sound, [](Text& held, const Written& w) {
    settle_soundly(held, w);
    if (w.rejected > 0 && w.committed > 1) std::swap(held[held.size() - 1], held[held.size() - 2]);
  });
}
std::unique_ptr<Model> last_cache_only(Model& sound, int) { return std::make_unique<LastCacheOnly>(sound); }
std::unique_ptr<Model> prefixes_by_their_beginning(Model& sound, int) {
  return std::make_unique<PrefixesByTheirBeginning>(sound);
}
std::unique_ptr<Model> unread_residue(Model& sound, int) {
  return std::make_unique<Rereading>(sound, settle_soundly, true);
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
std::unique_ptr<Model> rows_of_neighbor(Model& sound, int) { return std::make_unique<RowsOfNeighbor>(sound); }
std::unique_ptr<Model> scattered_by_the_order_before(Model& sound, int) {
  return std::make_unique<ScatteredByTheOrderBefore>(sound);
}
std::unique_ptr<Model> padded_to_the_longest(Model& sound, int) { return std::make_unique<PaddedToTheLongest>(sound); }
std::unique_ptr<Model> slot_not_cleared(Model& sound, int) {
  return std::make_unique<Rereading>(sound, settle_soundly, false, true);
}
std::unique_ptr<Model> placeholder_in_the_neighbor(Model& sound, int) {
  return std::make_unique<PlaceholderInTheNeighbor>(sound);
}
std::unique_ptr<Model> publishes_rejected_rows(Model& sound, int) {
  return std::make_unique<Publishing>(
      sound, [](Text& text, Token last) { text.back() = last; }, as_it_is);
}
std::unique_ptr<Model> drops_the_reused_prefix(Model& sound, int) {
  return std::make_unique<Publishing>(sound, as_it_is, [](Text& text, Token) { std::ranges::fill(text, 0); });
}
std::unique_ptr<Model> forgets_the_scale(Model& sound, int) {
  return std::make_unique<Publishing>(sound, as_it_is, [](Text& text, Token) {
    for (Token& token : text) token /= 2;
  });
}
std::unique_ptr<Model> swaps_pages(Model& sound, int) {
  return std::make_unique<Publishing>(sound, as_it_is, [](Text& text, Token) {
    constexpr std::size_t page = 2;
    if (text.size() >= 2 * page) std::swap_ranges(text.begin(), text.begin() + page, text.begin() + page);
  });
}
std::unique_ptr<Model> keeps_prefixes_packed(Model& sound, int) {
  return std::make_unique<Publishing>(
      sound, [](Text& text, Token) { std::ranges::reverse(text); },
      [](Text& text, Token) { std::ranges::reverse(text); });
}
std::unique_ptr<Model> sees_other_branches(Model& sound, int) { return std::make_unique<SeesOtherBranches>(sound); }
std::unique_ptr<Model> keeps_the_first_branch(Model& sound, int) {
  return std::make_unique<KeepsTheFirstBranch>(sound);
}

}  // namespace draftproof::zoo
