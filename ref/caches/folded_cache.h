// SPDX-License-Identifier: MIT
// The cache of a layer whose content is one state, into which every row of the text is folded: such a layer cannot drop
// rows. There are two states. Only a commit changes the settled one; the rows of a transaction change the working one,
// and what each of them folds in is kept, by row number, until the transaction ends. So any path of pending rows can be
// replayed from the settled state, and no state per row is stored:
//
// - rows that continue those of the working state cost nothing extra;
// - another branch of a tree replays its ancestors, unless the working state is the state after some of them;
// - a commit adopts the working state when it is the state after the kept rows, and else replays these; a rollback
//   costs nothing.
#pragma once

#include <span>
#include <vector>

#include "ref/caches/cache.h"

namespace draftproof {

class FoldedCache : public LayerCache {
 protected:
  struct Claimed {
    int row;            // number of the first row in the transaction
    bool from_settled;  // the state before it is the settled one; else the working one
  };
  /// Claims positions [position, position + rows), the next ones of the open transaction. Whoever claims rows sets the
  /// working state to that after the last of them, before anything else is asked of the cache.
  Claimed claim_rows(int position, int rows);

  /// Sets the working state to that after pending rows [row, row + rows), starting with the settled or the working one.
  virtual void replay(int row, int rows, bool from_settled) = 0;

  /// Makes the working state, which is that after all rows of path(), the settled one.
  virtual void adopt() = 0;

  void restore(int row, int position) final;
  void on_settle() final;

 private:
  /// Makes the working state that after these pending rows.
  void fold(std::span<const int> path);

  /// Row numbers: the working state is the settled one after these rows; when there are none, it is not used. The path
  /// of the first rows of a transaction is empty, so nothing remains from the last one.
  std::vector<int> folded_;
};

}  // namespace draftproof
