// SPDX-License-Identifier: MIT
// The texts of sequences that have ended, whose caches a later turn may go on with.
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <vector>

#include "ref/base/token.h"

namespace draftproof::spectrace {

class KeptTexts {
 public:
  /// All texts together have at most this many tokens; those of the lowest numbers are dropped.
  static constexpr std::size_t tokens_max = std::size_t{1} << 22;

  void add(std::int64_t sequence, std::vector<Token> text);
  /// Returns the text of a sequence; nullptr when it is not kept.
  const std::vector<Token>* find(std::int64_t sequence) const;

 private:
  std::map<std::int64_t, std::vector<Token>> texts_;  // by sequence
  std::size_t tokens_ = 0;
};

}  // namespace draftproof::spectrace
