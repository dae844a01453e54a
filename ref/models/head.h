// SPDX-License-Identifier: MIT
// A head: a few layers trained to continue a target's text from its features. EAGLE-3 heads and MTP (NextN) heads.
//
// Row i reads the token at position i + 1 and the feature of position i, and predicts the token at position i + 2. The
// feature of a committed position is made from the target's tapped layers; that of a draft token is what the head itself
// returned for the row before. So a row of committed text depends on the text and on nothing else.
#pragma once

#include <memory>
#include <span>
#include <string>

#include "ref/base/token.h"
#include "ref/caches/cache.h"

namespace draftproof {

class Head {
 public:
  virtual ~Head() = default;

  virtual int vocabulary() const = 0;  // of the target
  virtual int context() const = 0;
  virtual int width() const = 0;  // of a feature
  virtual std::span<const int> taps() const = 0;

  /// Creates the cache of one text. Position i of it is row i.
  virtual std::unique_ptr<Cache> new_cache(int capacity, int max_pending_rows) const = 0;

  /// Makes features [rows][width] from the target's tapped layers [rows][taps * hidden].
  virtual void fuse(std::span<const float> tapped, int rows, float* features) = 0;

  /// Rows that continue the text of one cache, inside its open transaction: a chain, or a tree in preorder as in Segment.
  struct Rows {
    Cache* cache = nullptr;
    std::span<const Token> tokens;
    std::span<const int> depths = {};
    std::span<const float> features;         // [rows][width]
    int logits_from = 0;                     // logits and features are wanted for rows [logits_from, rows)
    std::span<const float> logits = {};      // result: [rows wanted][vocabulary]; valid until the next call
    std::span<const float> next_features = {};  // result: [rows wanted][width]; valid until the next call
    std::string error = {};                  // result: why the logits cannot be used; empty when they can
  };
  /// Computes the rows of several texts in one pass.
  virtual void forward(std::span<Rows> batch) = 0;
};

}  // namespace draftproof
