// SPDX-License-Identifier: MIT
#include "ref/ranks/led_model.h"

#include <algorithm>
#include <atomic>
#include <cstdio>
#include <cstdlib>
#include <exception>
#include <filesystem>
#include <map>
#include <mutex>
#include <optional>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "kernels/operations.h"
#include "kernels/packed_activations.h"
#include "kernels/threads.h"
#include "ref/base/error.h"
#include "ref/base/presence.h"
#include "ref/base/require.h"
#include "ref/models/models.h"
#include "ref/ranks/message.h"

namespace draftproof {
namespace {

/// Begins every part of a message.
enum class Order : std::uint8_t {
  dismiss,
  load,
  drop_model,
  new_cache,
  drop_cache,
  begin,
  keep_rows,
  keep_path,
  clear,
  restore,
  discard,
  digest,
  snapshot,
  forward,
  embed,
  unembed,
  head_row,
  attend
};

/// Every rank says what went wrong, if something did. Returns the first complaint, with the rank; empty: there is none.
std::string complaint_of_ranks(Ranks& ranks, const std::string& own) {
  constexpr std::size_t size = 1024;
  const auto count = static_cast<std::size_t>(ranks.count());
  std::vector<char> said(size * count);
  own.copy(said.data() + static_cast<std::size_t>(ranks.rank()) * size, size - 1);
  std::vector<int> bounds;
  for (int rank = 0; rank <= ranks.count(); ++rank) bounds.push_back(rank);
  ranks.exchange(said.data(), size, 1, ranks.count(), bounds);
  for (std::size_t rank = 0; rank < count; ++rank) {
    const std::string one = said.data() + rank * size;
    if (!one.empty()) return rank == 0 ? one : "rank " + std::to_string(rank) + ": " + one;
  }
  return "";
}

/// The turn of a model, in which all ranks do the same. An exception out of it, for want of memory, would leave them in
/// different places; so it ends this process, and with it all.
class Turn {
 public:
  explicit Turn(std::mutex& of_all_models) : lock_(of_all_models) {}
  ~Turn() {
    if (std::uncaught_exceptions() == before_) return;
    std::fputs("draftproof: rank 0 failed amid a pass, and ends; is there enough memory?\n", stderr);
    std::_Exit(3);
  }
  Turn(const Turn&) = delete;
  Turn& operator=(const Turn&) = delete;

 private:
  std::unique_lock<std::mutex> lock_;
  int before_ = std::uncaught_exceptions();
};

/// What rank 0 has to say of one model. Parts that need no answer wait for the next one that does, so a pass is one
/// broadcast.
class RankLeader {
 public:
  explicit RankLeader(Ranks& ranks) : ranks_(ranks) {
    static std::atomic<int> models = 0;
    model_ = models++;
  }

  int model() const noexcept { return model_; }
  Ranks& ranks() const noexcept { return ranks_; }

  void tell(const Message& part) {
    const std::lock_guard lock(mutex_);
    add(part);
  }
  /// Tells all. The ranks carry it out together: this one does its part while it holds the result.
  [[nodiscard]] std::unique_ptr<Turn> call(const Message& part) {
    static std::mutex of_all_models;
    auto turn = std::make_unique<Turn>(of_all_models);
    const std::lock_guard lock(mutex_);
    add(part);
    ranks_.broadcast(waiting_);
    waiting_.clear();
    return turn;
  }
  /// Takes over what waits for another model, whose caches this one is about to read.
  void take_over(RankLeader& other) {
    if (&other == this) return;
    const std::scoped_lock lock(mutex_, other.mutex_);
    waiting_.insert(waiting_.end(), other.waiting_.begin(), other.waiting_.end());
    other.waiting_.clear();
  }

 private:
  void add(const Message& part) { waiting_.insert(waiting_.end(), part.bytes().begin(), part.bytes().end()); }

  Ranks& ranks_;
  int model_;
  std::mutex mutex_;
  std::vector<std::byte> waiting_;
};

void add_snapshot(const Snapshot& snapshot, Message& to) {
  to.add(snapshot.from).add(snapshot.to).add(snapshot.layers.size());
  for (const LayerSnapshotPtr& layer : snapshot.layers) {
    to.add(layer != nullptr);
    if (layer == nullptr) continue;
    to.add_text(layer->layout).add(layer->form).add(layer->from).add(layer->to).add(layer->shortest);
    to.add_list(std::span<const std::byte>(layer->data));
  }
}

Snapshot take_snapshot(MessageReader& from) {
  Snapshot snapshot;
  snapshot.from = from.take<int>();
  snapshot.to = from.take<int>();
  snapshot.layers.resize(from.take<std::size_t>());
  for (LayerSnapshotPtr& layer : snapshot.layers) {
    if (!from.take<bool>()) continue;
    LayerSnapshot one;
    one.layout = from.take_text();
    one.form = from.take<LayerSnapshot::Form>();
    one.from = from.take<int>();
    one.to = from.take<int>();
    one.shortest = from.take<int>();
    one.data = from.take_list<std::byte>();
    layer = std::make_shared<LayerSnapshot>(std::move(one));
  }
  return snapshot;
}

/// The part of a cache that rank 0 keeps. Whatever is done to it is done on all ranks.
class LedCache final : public Cache {
 public:
  LedCache(Cache&& own, std::shared_ptr<RankLeader> lead) : Cache(std::move(own)), lead_(std::move(lead)) {
    static std::atomic<int> caches = 0;
    id_ = caches++;
    lead_->tell(part(Order::new_cache).add(lead_->model()).add(capacity()).add(max_pending_rows()));
  }
  ~LedCache() override { lead_->tell(part(Order::drop_cache)); }

  int id() const noexcept { return id_; }
  RankLeader& lead() const noexcept { return *lead_; }

  Transaction begin(int pending_rows) override {
    lead_->tell(part(Order::begin).add(pending_rows));
    return Cache::begin(pending_rows);
  }
  Fingerprint digest() const override {
    const auto together = lead_->call(part(Order::digest));
    return Cache::digest();
  }
  Snapshot snapshot(int from) const override {
    const auto together = lead_->call(part(Order::snapshot).add(from));
    return Cache::snapshot(from);
  }
  bool restore(SnapshotPath path, int length) override {
    if (!can_restore(path, length)) return false;
    Message message = part(Order::restore).add(length).add(path.size());
    for (const Snapshot* const snapshot : path) add_snapshot(*snapshot, message);
    lead_->tell(message);
    return Cache::restore(path, length);
  }
  void clear() override {
    lead_->tell(part(Order::clear));
    Cache::clear();
  }
  void discard(int from, int count) override {
    lead_->tell(part(Order::discard).add(from).add(count));
    Cache::discard(from, count);
  }

 private:
  void close(int rows) override {
    lead_->tell(part(Order::keep_rows).add(rows));
    Cache::close(rows);
  }
  void close(std::span<const int> path) override {
    lead_->tell(part(Order::keep_path).add_list(path));
    Cache::close(path);
  }
  Message part(Order order) const { return Message().add(order).add(id_); }

  std::shared_ptr<RankLeader> lead_;
  int id_;
};

/// The part of a model that rank 0 has loaded. Every pass is one of all ranks.
class LedModel final : public Model, public Embeddings {
 public:
  LedModel(std::shared_ptr<RankLeader> lead, std::unique_ptr<Model> own)
      : lead_(std::move(lead)), own_(std::move(own)) {}
  ~LedModel() override { const auto together = lead_->call(part(Order::drop_model)); }  // nothing comes behind it

  int vocabulary() const override { return own_->vocabulary(); }
  int context() const override { return own_->context(); }
  int layers() const override { return own_->layers(); }
  int hidden() const override { return own_->hidden(); }
  const Embeddings* embeddings() const override { return own_->embeddings() == nullptr ? nullptr : this; }
  const TransformerConfig* transformer() const override { return own_->transformer(); }

  std::unique_ptr<Cache> new_cache(int capacity, int max_pending_rows) const override {
    return std::make_unique<LedCache>(std::move(*own_->new_cache(capacity, max_pending_rows)), lead_);
  }

  void forward(std::span<const Segment> batch, Outputs& outputs) override {
    Message message = part(Order::forward).add(batch.size());
    for (const Segment& segment : batch) {
      const LedCache& cache = led(segment.cache);
      lead_->take_over(cache.lead());
      message.add(cache.id()).add(segment.logits_from).add_list(segment.tokens).add_list(segment.depths);
    }
    const auto together = lead_->call(message);
    own_->forward(batch, outputs);
  }

  void embed(std::span<const Token> tokens, float* rows) const override {
    const auto together = lead_->call(part(Order::embed).add_list(tokens));
    own_->embeddings()->embed(tokens, rows);
  }
  void normalize(const float* rows, int count, float* normed) const override {
    own_->embeddings()->normalize(rows, count, normed);
  }
  bool unembed(const float* rows, int count, PackedActivations& scratch, float* logits) const override {
    const std::size_t floats = static_cast<std::size_t>(count) * static_cast<std::size_t>(hidden());
    const auto together = lead_->call(part(Order::unembed).add(count).add_list(std::span(rows, floats)));
    return own_->embeddings()->unembed(rows, count, scratch, logits);
  }
  void head_row(Token token, float* row) const override {
    const auto together = lead_->call(part(Order::head_row).add(token));
    own_->embeddings()->head_row(token, row);
  }
  void attend(int layer, const AttentionShape& shape, int stride, std::span<const LentRows> texts,
              AttentionScratch& scratch) const override {
    REQUIRE(shape.sinks == nullptr, "a shape is sent without what it points to");
    Message message = part(Order::attend).add(layer).add(shape).add(stride).add(texts.size());
    for (const LentRows& text : texts) {
      const auto floats = static_cast<std::size_t>(text.rows) * static_cast<std::size_t>(stride);
      message.add(led(text.cache).id()).add(text.rows).add_list(std::span(text.queries, floats));
    }
    const auto together = lead_->call(message);
    own_->embeddings()->attend(layer, shape, stride, texts, scratch);
  }

 private:
  static const LedCache& led(const Cache* cache) {
    const auto* const found = dynamic_cast<const LedCache*>(cache);
    REQUIRE(found != nullptr, "a model over ranks has caches over ranks");
    return *found;
  }
  Message part(Order order) const { return Message().add(order).add(lead_->model()); }

  std::shared_ptr<RankLeader> lead_;
  std::unique_ptr<Model> own_;
};

/// The table that a rank computes with, if rank 0 does with this one: the same, or the best of its class here.
const Kernels& kernels_like(const std::string& name) {
  const Kernels* const same = find_kernels(name.c_str());
  return same != nullptr && same->supported() ? *same : best_kernels();
}

Message load_message(const Checkpoint& files, const LoadOptions& options, int model) {
  Message message;
  message.add(Order::load).add(model).add_text(std::filesystem::absolute(files.path()).string()).add(files.bytes());
  message.add(files.adapters().size());
  for (const MergedAdapter& adapter : files.adapters()) {
    const std::filesystem::path& path = adapter.source.path;  // or a name in the hub cache
    message.add_text((is_present(path) ? std::filesystem::absolute(path) : path).string()).add(adapter.source.scale);
  }
  message.add_text(options.kernels.name).add(options.quantize).add(options.kv).add(options.requantize);
  message.add(options.small_tables).add(options.long_context).add(options.layers).add(options.head_tokens);
  return message.add(threads());
}

class Follower {
 public:
  explicit Follower(Ranks& ranks) : ranks_(ranks) {}

  void run() {
    while (!dismissed_) {
      std::vector<std::byte> bytes;
      ranks_.broadcast(bytes);
      MessageReader message(bytes);
      while (!message.at_end()) carry_out(message.take<Order>(), message);
    }
  }

 private:
  struct OwnCache {
    std::unique_ptr<Cache> cache;
    std::optional<Transaction> transaction;
  };

  void carry_out(Order order, MessageReader& message) {
    if (order == Order::dismiss) {
      dismissed_ = true;
      return;
    }
    const int id = message.take<int>();
    switch (order) {
      case Order::dismiss: return;
      case Order::load: load(id, message); return;
      case Order::drop_model: models_.erase(id); return;
      case Order::forward: forward(*models_.at(id), message); return;
      case Order::embed: embed(*models_.at(id), message); return;
      case Order::unembed: unembed(*models_.at(id), message); return;
      case Order::head_row: head_row(*models_.at(id), message); return;
      case Order::attend: attend(*models_.at(id), message); return;
      case Order::new_cache: {
        const Model& model = *models_.at(message.take<int>());
        const int capacity = message.take<int>();
        caches_[id].cache = model.new_cache(capacity, message.take<int>());
        return;
      }
      case Order::drop_cache: caches_.erase(id); return;
      case Order::begin: {
        OwnCache& own = caches_.at(id);
        own.transaction.reset();
        own.transaction.emplace(own.cache->begin(message.take<int>()));
        return;
      }
      case Order::keep_rows: caches_.at(id).transaction->commit(message.take<int>()); return;
      case Order::keep_path: caches_.at(id).transaction->commit(message.take_list<int>()); return;
      case Order::clear: caches_.at(id).cache->clear(); return;
      case Order::restore: restore(*caches_.at(id).cache, message); return;
      case Order::discard: {
        const int from = message.take<int>();
        caches_.at(id).cache->discard(from, message.take<int>());
        return;
      }
      case Order::digest: caches_.at(id).cache->digest(); return;
      case Order::snapshot: caches_.at(id).cache->snapshot(message.take<int>()); return;
    }
  }

  void load(int id, MessageReader& message) {
    const std::filesystem::path path = message.take_text();
    const auto bytes = message.take<std::uint64_t>();
    std::vector<LoraSource> adapters(message.take<std::size_t>());
    for (LoraSource& adapter : adapters) {
      adapter.path = message.take_text();
      adapter.scale = message.take<double>();
    }
    const std::string table = message.take_text();
    const Kernels& kernels = kernels_like(table);
    const auto quantize = message.take<Quantization>();
    LoadOptions options(kernels, quantize, message.take<KvFormat>());
    options.requantize = message.take<bool>();
    options.small_tables = message.take<bool>();
    options.long_context = message.take<bool>();
    options.layers = message.take<int>();
    options.head_tokens = message.take<int>();
    options.ranks = &ranks_;
    set_threads(std::min(threads(), message.take<int>()));
    std::string wrong;
    try {
      Checkpoint files(path);
      for (const LoraSource& adapter : adapters) files.merge(adapter);
      if (files.bytes() != bytes) throw Error(path.string() + ": is not the model that rank 0 has there");
      with_workers([&] { models_[id] = load_model(files, options); });
    } catch (const std::exception& error) {
      wrong = error.what();
    }
    complaint_of_ranks(ranks_, wrong);
  }

  void forward(Model& model, MessageReader& message) {
    const auto count = message.take<std::size_t>();
    std::vector<Segment> batch(count);
    std::vector<std::vector<Token>> tokens(count);
    std::vector<std::vector<int>> depths(count);
    for (std::size_t i = 0; i < count; ++i) {
      batch[i].cache = caches_.at(message.take<int>()).cache.get();
      batch[i].logits_from = message.take<int>();
      tokens[i] = message.take_list<Token>();
      depths[i] = message.take_list<int>();
      batch[i].tokens = tokens[i];
      batch[i].depths = depths[i];
    }
    model.forward(batch, outputs_);
  }

  void embed(const Model& model, MessageReader& message) {
    const std::vector<Token> tokens = message.take_list<Token>();
    std::vector<float> rows(tokens.size() * static_cast<std::size_t>(model.hidden()));
    model.embeddings()->embed(tokens, rows.data());
  }

  void unembed(const Model& model, MessageReader& message) {
    const int count = message.take<int>();
    const std::vector<float> rows = message.take_list<float>();
    std::vector<float> logits(static_cast<std::size_t>(count) * static_cast<std::size_t>(model.vocabulary()));
    model.embeddings()->unembed(rows.data(), count, activations_, logits.data());
  }

  void head_row(const Model& model, MessageReader& message) {
    std::vector<float> row(static_cast<std::size_t>(model.hidden()));
    model.embeddings()->head_row(message.take<Token>(), row.data());
  }

  void attend(const Model& model, MessageReader& message) {
    const int layer = message.take<int>();
    const auto shape = message.take<AttentionShape>();
    const int stride = message.take<int>();
    std::vector<LentRows> texts(message.take<std::size_t>());
    std::vector<std::vector<float>> queries;
    std::vector<std::vector<float>> attended;
    for (LentRows& text : texts) {
      text.cache = caches_.at(message.take<int>()).cache.get();
      text.rows = message.take<int>();
      text.queries = queries.emplace_back(message.take_list<float>()).data();
      text.attended =
          attended.emplace_back(static_cast<std::size_t>(text.rows * shape.heads * value_dim(shape))).data();
    }
    with_workers([&] { model.embeddings()->attend(layer, shape, stride, texts, attention_); });
  }

  static void restore(Cache& cache, MessageReader& message) {
    const int length = message.take<int>();
    std::vector<Snapshot> snapshots(message.take<std::size_t>());
    std::vector<const Snapshot*> path;
    for (Snapshot& snapshot : snapshots) {
      snapshot = take_snapshot(message);
      path.push_back(&snapshot);
    }
    const bool restored = cache.restore(path, length);
    REQUIRE(restored, "all ranks can restore what one can");
  }

  Ranks& ranks_;
  bool dismissed_ = false;
  std::map<int, std::unique_ptr<Model>> models_;
  std::map<int, OwnCache> caches_;
  Outputs outputs_;
  PackedActivations activations_;
  AttentionScratch attention_;
};

}  // namespace

std::unique_ptr<Model> load_led_model(const Checkpoint& files, const LoadOptions& options) {
  if (options.ranks == nullptr) return load_model(files, options);
  if (std::string(options.kernels.numerics) != "canonical") {
    throw Error(std::string("--kernels ") + options.kernels.name + ": has bits of each machine's own; over several " +
                "ranks leave it out");
  }
  const auto lead = std::make_shared<RankLeader>(*options.ranks);
  std::unique_ptr<Model> own;
  std::string wrong;
  {
    const auto together = lead->call(load_message(files, options, lead->model()));
    try {
      own = load_model(files, options);
    } catch (const std::exception& error) {
      wrong = error.what();
    }
    wrong = complaint_of_ranks(*options.ranks, wrong);
  }
  if (!wrong.empty()) throw Error(wrong);
  return std::make_unique<LedModel>(lead, std::move(own));
}

void follow(Ranks& ranks) { Follower(ranks).run(); }

void dismiss(Ranks& ranks) {
  std::vector<std::byte> bytes = Message().add(Order::dismiss).bytes();
  ranks.broadcast(bytes);
}

}  // namespace draftproof
