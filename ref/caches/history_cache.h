// SPDX-License-Identifier: MIT
// The memory of the models used for proofs (hash and table models): the tokens themselves. Any mistake about positions
// or forgetting changes the next row at once, with no floating point in sight.
#pragma once

#include <span>
#include <vector>

#include "ref/base/token.h"
#include "ref/caches/cache.h"

namespace draftproof {

class HistoryCache final : public LayerCache {
 public:
  void write(int position, Token token);
  /// Tokens at [0, end); end is at most what was written.
  std::span<const Token> tokens(int end) const;

  void add_to(Digest& digest, int length) const override;

 protected:
  void restore(int row, int position) override;

 private:
  std::vector<Token> tokens_;  // may hold forgotten tokens past what is written; nothing reads them
  std::vector<Token> window_;  // all that was written into the last window, row by row
};

}  // namespace draftproof
