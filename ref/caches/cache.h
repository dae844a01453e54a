// SPDX-License-Identifier: MIT
// The memory of one sequence, one LayerCache per layer.
//
//        begin(horizon)                commit(rows)
//   SETTLED ----------> OPEN (rows are written) ----------> SETTLED, longer by `rows`
//                        |  the transaction is destroyed
//                        +--------------------------------> SETTLED, as before
//
// C1  Every layer holds the same positions [0, length()) when settled.
// C2  Rows are written ahead of the end into spare room; committing moves the end. Nothing is ever restored, so
//     forgetting cannot fail, and an exception between begin and commit leaves the cache as it was.
// C3  After a commit the cache cannot be told, by digest, from one that never saw the refused rows.
// C4  Positions are absolute: row p of the text is position p in every layer, whatever the layer's storage.
//
// A cache knows nothing of tokens, drafts or verdicts.
#pragma once

#include <memory>
#include <span>
#include <vector>

#include "ref/base/digest.h"
#include "ref/base/require.h"

namespace draftproof {

/// One layer's kind of memory. Concrete kinds add how rows are written and read (see attention.h, history.h). What is
/// the same for all of them is kept here: which row may be written next, so that a stray write aborts in any kind.
class LayerCache {
 public:
  virtual ~LayerCache() = default;

  /// Positions [settled length, until) may be written from now on, each once, in ascending order.
  void open(int until);

  /// The next row is one of `position` again, and all rows at and after it are of another branch: a tree of rows is
  /// written in preorder, each row at the position of its depth. position is at most that of the next row.
  void branch(int position);

  /// The positions from the settled length on hold these rows of the window from now on, counted as they were written:
  /// a path of the tree, from its root.
  void keep(std::span<const int> path);

  /// Positions [0, length) stay, all others are forgotten; no row may be written until the next open. length is at
  /// least the last settled length, and all of its rows were written.
  void settle(int length);

  /// What a later row could read of positions [0, length), in order of position, and nothing else.
  virtual void add_to(Digest& digest, int length) const = 0;

 protected:
  /// Every write starts with this: aborts unless `position` is the next row of the open window.
  void claim(int position);
  /// Row `row` of the window is put at `position` again. Only kinds that hold trees are asked.
  virtual void restore(int row, int position);
  int settled() const noexcept { return settled_; }
  int written() const noexcept { return written_; }

 private:
  int settled_ = 0;
  int written_ = 0;
  int open_until_ = 0;
};

class Transaction;

class Cache {
 public:
  /// `capacity` positions in all; at most `horizon_max` rows per transaction.
  Cache(std::vector<std::unique_ptr<LayerCache>> layers, int capacity, int max_pending_rows);

  int length() const noexcept { return length_; }
  int capacity() const noexcept { return capacity_; }
  int max_pending_rows() const noexcept { return max_pending_rows_; }

  /// Opens a window of at most `horizon` rows, 1 <= horizon <= horizon_max, length() + horizon <= capacity().
  Transaction begin(int pending_rows);

  /// Position of the next row to be written: length() when settled, beyond it when open.
  int end() const noexcept { return end_; }

  /// A model wrote `rows` rows at [end(), end() + rows) into every layer, or a tree of so many as the first and only
  /// rows of the window. Only inside a transaction.
  void wrote(int rows);

  template <class Kind>
  Kind& layer(int index) {
    auto* kind = dynamic_cast<Kind*>(layers_.at(static_cast<std::size_t>(index)).get());
    REQUIRE(kind != nullptr, "the layer's cache is of another kind");
    return *kind;
  }

  /// Of the settled content. Only when settled.
  Fingerprint digest() const;

 private:
  friend class Transaction;
  void close(int rows);
  void close(std::span<const int> path);

  std::vector<std::unique_ptr<LayerCache>> layers_;
  int capacity_;
  int max_pending_rows_;
  int length_ = 0;
  int end_ = 0;
  int open_until_ = -1;  // end of the open window; -1 when settled
};

/// The open window. Destroyed without commit it keeps nothing.
class Transaction {
 public:
  Transaction(Transaction&& other) noexcept : cache_(other.cache_) { other.cache_ = nullptr; }
  Transaction(const Transaction&) = delete;
  Transaction& operator=(const Transaction&) = delete;
  Transaction& operator=(Transaction&&) = delete;
  ~Transaction();

  /// Keeps the first `rows` of the rows written since begin, 0 <= rows <= written. Closes the window.
  void commit(int rows);

  /// Keeps this path of the tree written since begin, from its root on, by the numbers of its rows. Closes the window.
  void commit(std::span<const int> path);

 private:
  friend class Cache;
  explicit Transaction(Cache& cache) : cache_(&cache) {}
  Cache* cache_;
};

}  // namespace draftproof
