// SPDX-License-Identifier: MIT
// The cache of the models used for proofs (hash and table models): it stores the tokens themselves. Any mistake about
// positions or rollback changes the next row at once, without any floating point.
#pragma once

#include <span>
#include <string>
#include <vector>

#include "ref/base/token.h"
#include "ref/caches/cache.h"

namespace draftproof {

class HistoryCache final : public LayerCache {
 public:
  void write(int position, Token token);
  /// Returns the tokens at [0, end); `end` is at most the number of positions written.
  std::span<const Token> tokens(int end) const;

  void add_to(Digest& digest, int length) const override;

  LayerSnapshotPtr snapshot(int from) const override;
  bool fits(const LayerSnapshot& snapshot) const override;
  std::string discard_error(int, int, int) const override { return ""; }

 protected:
  void restore(int row, int position) override;
  void on_open() override;
  void load(const LayerSnapshot& snapshot, int length) override;
  bool may_truncate() const override { return true; }
  void on_discard(int from, int count) override;

 private:
  std::vector<Token> tokens_;   // may hold dropped tokens past the written positions; nothing reads them
  std::vector<Token> pending_;  // all rows of the last transaction, in write order
};

}  // namespace draftproof
