// SPDX-License-Identifier: MIT
// The cache of one sequence, one LayerCache per layer: keys and values, or the state of a recurrence.
//
//        begin(pending_rows)           commit(rows)
//   SETTLED ----------> OPEN (rows are written) ----------> SETTLED, longer by `rows`
//                        |  the transaction is destroyed
//                        +--------------------------------> SETTLED, as before
//
// C1  When settled, every layer holds the same positions [0, length()).
// C2  Pending rows are written past the end into spare room; a commit moves the end. Nothing ever has to be restored,
//     so a rollback cannot fail, and an exception between begin and commit leaves the cache as it was. A layer whose
//     content is one state (folded_cache.h) writes a second, working state, and only a commit changes the first.
// C3  After a commit the cache has the same digest as one that never saw the rejected rows.
// C4  Positions are absolute: row p of the text is position p in every layer, whatever the layer's storage. Only
//     discard() moves rows.
// C5  After a restore the cache has the same digest as one that read the same text from its start; a restore that is
//     refused changes nothing. All layers are restored, or none.
//
// The rows of a transaction may come in several calls of a model. They are numbered from 0 in the order of writing. In
// a tree they are written in preorder, each at settled length + depth, whatever call it comes in.
//
// A cache knows no tokens, drafts or verdicts.
#pragma once

#include <memory>
#include <span>
#include <string>
#include <vector>

#include "ref/base/digest.h"
#include "ref/base/require.h"
#include "ref/caches/snapshot.h"

namespace draftproof {

/// The cache of one layer. Derived classes define how rows are written and read (attention_cache.h, history_cache.h,
/// recurrent_cache.h). This base class tracks which row may be written next, so that a stray write aborts in every
/// derived class, and which pending rows lead to it.
class LayerCache {
 public:
  virtual ~LayerCache() = default;

  /// Allows writes to positions [settled length, until), each once and in ascending order.
  void open(int until);

  /// Starts another branch of a tree: the next row is written at `position`, which is at most that of the next row. All
  /// pending rows at and after `position` belong to other branches.
  void branch(int position);

  /// Keeps this root-to-leaf path of the pending tree, given by row numbers in write order; its rows become positions
  /// settled, settled + 1, ...
  void keep(std::span<const int> path);

  /// Keeps positions [0, length) and drops all others; no row may be written until the next open(). `length` is at
  /// least the last settled length, and all of its rows must have been written.
  void settle(int length);

  /// Adds to `digest` what a later row can read of positions [0, length), in order of position, and nothing else.
  virtual void add_to(Digest& digest, int length) const = 0;

  // What follows is called only when settled. A kind that can be restored implements snapshot, fits and load;
  // may_truncate, if it can forget its last positions; on_clear, if it keeps more than rows that later ones replace.
  // Without these, snapshots are empty and no restore with them succeeds.

  /// Copies what a later restore needs: as rows, positions [max(0, from), settled length), or nothing if there are
  /// none; as a state, all that the layer's kind keeps, whatever `from` is.
  virtual LayerSnapshotPtr snapshot(int from) const;

  /// Returns whether the snapshot can have come from this layer of a cache of this model. The snapshot may be from a
  /// file and hold anything; load() may rely on all that was found right here, its sizes above all.
  virtual bool fits(const LayerSnapshot& snapshot) const;

  /// Returns whether `restore_snapshot` can reach this length; a null snapshot means truncation. Refused are: lengths
  /// below 0 and beyond the snapshot or, without one, the settled length; rows whose first position is beyond the
  /// settled length; lengths that a state or a truncation of this kind cannot reach (snapshot.h).
  bool can_restore(const LayerSnapshot* snapshot, int length) const;
  /// Makes the layer hold positions [0, length). Aborts unless can_restore.
  void restore_snapshot(const LayerSnapshot* snapshot, int length);

  /// Drops all positions; always possible.
  void clear();

  /// Returns why positions [from, from + count) cannot be dropped out of `length`, a clause about the layer; empty when
  /// they can. By default they cannot.
  virtual std::string discard_error(int length, int from, int count) const;
  /// Drops these positions and moves the later ones down by `count`. Aborts when discard_error says why not. An
  /// exception (no memory) leaves rows of which nothing is known; then the layer must be cleared.
  void discard(int from, int count);

 protected:
  /// Copies the snapshot's content up to `length` into the layer. The base class has checked that it fits, and sets
  /// the settled length afterwards.
  virtual void load(const LayerSnapshot& snapshot, int length);
  /// Returns whether the layer still has all that a later row can see at any smaller length.
  virtual bool may_truncate() const { return false; }
  /// Called before the settled length becomes 0.
  virtual void on_clear() {}
  /// Called before the settled length becomes smaller by `count`; moves the rows.
  virtual void on_discard(int from, int count);

  /// Every write calls this first. Aborts unless `position` is the next row of the open transaction.
  void claim(int position);
  /// Copies pending row `row` to `position`. Called only on caches that support trees, for the rows of a kept path.
  virtual void restore(int row, int position);
  /// Called by open() and by settle(), once they have checked their arguments. In on_settle, settled() is the length
  /// before, and path() are the rows that are kept.
  virtual void on_open() {}
  virtual void on_settle() {}

  int settled() const noexcept { return settled_; }
  /// The next position to write.
  int written() const noexcept { return settled_ + static_cast<int>(path_.size()); }
  /// The most rows of the open transaction.
  int transaction_rows() const noexcept { return open_until_ - settled_; }
  /// The number of rows written in this transaction, on all branches.
  int pending_rows() const noexcept { return pending_rows_; }
  /// The numbers of the pending rows at positions settled(), settled() + 1, ..., written() - 1: the ancestors of the
  /// next row.
  std::span<const int> path() const noexcept { return path_; }

 private:
  int settled_ = 0;
  int open_until_ = 0;
  int pending_rows_ = 0;
  std::vector<int> path_;
};

class Transaction;

/// What is virtual is told to other ranks, where they keep a part of the cache (ref/ranks/led_model.cpp).
class Cache {
 public:
  /// `capacity` positions in all; at most `max_pending_rows` rows per transaction.
  Cache(std::vector<std::unique_ptr<LayerCache>> layers, int capacity, int max_pending_rows);
  /// Takes the layers of a settled cache.
  Cache(Cache&& other) = default;
  virtual ~Cache() = default;
  Cache(const Cache&) = delete;
  Cache& operator=(const Cache&) = delete;

  int length() const noexcept { return length_; }
  int capacity() const noexcept { return capacity_; }
  int max_pending_rows() const noexcept { return max_pending_rows_; }

  /// Opens a transaction of at most `pending_rows` rows. Requires 1 <= pending_rows <= max_pending_rows() and
  /// length() + pending_rows <= capacity().
  virtual Transaction begin(int pending_rows);

  /// Returns length() plus the number of pending rows; for a chain, the position of the next row to write.
  int end() const noexcept { return end_; }

  /// Records that a model wrote the next `rows` rows of the transaction into every layer: at [end(), end() + rows), or
  /// rows of a tree. Only inside a transaction.
  void wrote(int rows);

  template <class Kind>
  Kind& layer(int index) {
    auto* kind = dynamic_cast<Kind*>(layers_.at(static_cast<std::size_t>(index)).get());
    REQUIRE(kind != nullptr, "the layer's cache is of another kind");
    return *kind;
  }
  /// The same for a reader, who sees no pending rows. Only when settled.
  template <class Kind>
  const Kind& layer(int index) const {
    REQUIRE(open_until_ < 0, "pending rows are read by the model only that writes them");
    const auto* kind = dynamic_cast<const Kind*>(layers_.at(static_cast<std::size_t>(index)).get());
    REQUIRE(kind != nullptr, "the layer's cache is of another kind");
    return *kind;
  }

  /// Returns the digest of the settled content. Only when settled.
  virtual Fingerprint digest() const;

  /// Copies what a later restore needs (LayerCache::snapshot). Only when settled.
  virtual Snapshot snapshot(int from) const;

  /// Returns whether restore() would succeed.
  bool can_restore(SnapshotPath path, int length) const;

  /// Makes the cache hold positions [0, length) of the text of the path, and returns true; or returns false and changes
  /// nothing. The cache must hold the same text up to the path's first position. Of the states of a layer the last one
  /// is restored; of rows each, and none may be missing. An empty path means truncation, which fails where a kind
  /// cannot forget (snapshot.h). Only when settled. Aborts when a snapshot is of another model.
  [[nodiscard]] virtual bool restore(SnapshotPath path, int length);
  [[nodiscard]] bool restore(const Snapshot& snapshot, int length);
  [[nodiscard]] bool truncate(int length) { return restore(SnapshotPath{}, length); }

  /// Drops all positions; always possible when settled.
  virtual void clear();

  /// Returns why positions [from, from + count) cannot be dropped out of `length`, a clause that names the layer; empty
  /// when they can. Requires 0 <= from, 1 <= count and from + count <= length <= capacity().
  std::string discard_error(int length, int from, int count) const;

  /// Drops positions [from, from + count) and moves the later ones down, keys turned to their new positions. What is
  /// left is not what reading the shorter text would give (context_shift.h). Only when settled. Aborts when
  /// discard_error(length(), from, count) says why not. On an exception (no memory) the cache is cleared.
  virtual void discard(int from, int count);

  /// Returns whether each layer's snapshot, if there is one, fits this cache (LayerCache::fits).
  bool fits(const Snapshot& snapshot) const;

 protected:
  friend class Transaction;
  virtual void close(int rows);
  virtual void close(std::span<const int> path);

 private:
  std::vector<std::unique_ptr<LayerCache>> layers_;
  int capacity_;
  int max_pending_rows_;
  int length_ = 0;
  int end_ = 0;
  int open_until_ = -1;  // end of the open transaction; -1 when settled
};

/// The open transaction of a cache. Its destructor rolls back all pending rows unless they were committed.
class Transaction {
 public:
  Transaction(Transaction&& other) noexcept : cache_(other.cache_) { other.cache_ = nullptr; }
  Transaction(const Transaction&) = delete;
  Transaction& operator=(const Transaction&) = delete;
  Transaction& operator=(Transaction&&) = delete;
  ~Transaction();

  /// Keeps the first `rows` of the pending rows, 0 <= rows <= written, and ends the transaction.
  void commit(int rows);

  /// Keeps this root-to-leaf path of the pending tree, given by row numbers in write order, and ends the transaction.
  void commit(std::span<const int> path);

 private:
  friend class Cache;
  explicit Transaction(Cache& cache) : cache_(&cache) {}
  Cache* cache_;
};

}  // namespace draftproof
