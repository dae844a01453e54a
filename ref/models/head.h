// SPDX-License-Identifier: MIT
// A head: a few layers trained to continue a target's text from its features. EAGLE-3 heads, MTP (NextN) heads, and
// assistants, which also read the keys and values of their target.
//
// Row p reads the token at position p and the feature of position p - 1, and predicts the token at p + 1. The feature
// of a committed position is made from the target's tapped layers; that of a draft token is what the head itself
// returned for its row. So a row of committed text depends on the text and on nothing else. No feature comes before the
// first token: row 0 is computed from zeros, fills its place in the cache, and no other row sees it.
#pragma once

#include <memory>
#include <span>
#include <string>
#include <vector>

#include "ref/base/token.h"
#include "ref/caches/cache.h"

namespace draftproof {

class Head {
 public:
  virtual ~Head() = default;

  virtual int context() const = 0;                // most positions it is made for
  virtual int width() const = 0;                  // of a feature
  virtual std::span<const int> taps() const = 0;  // target layers, ascending

  /// Of a head that drafts in parallel: what the rows behind the anchor's read, in place of a draft token and of what
  /// the row before returned. So all rows of a round are one pass, and no draft token depends on another.
  struct Mask {
    Token token;
    std::vector<float> feature;
    int draft_tokens;  // that a round was trained to have; 0: not known
  };
  virtual const Mask* mask() const { return nullptr; }

  /// Creates the layers of the cache of one text. The cache may have more layers behind them, which the head leaves
  /// alone.
  virtual std::vector<std::unique_ptr<LayerCache>> new_layers(int capacity, int max_pending_rows) const = 0;

  /// Makes features [rows][width] from the target's tapped layers [rows][taps * hidden].
  virtual void fuse(std::span<const float> tapped, int rows, float* features) = 0;

  /// Rows that continue the text of one cache, inside its open transaction: a chain, or a tree in preorder as in
  /// Segment.
  struct Rows {
    Cache* cache = nullptr;
    const Cache* target = nullptr;  // the target's of the text, settled; needed for results only
    std::span<const Token> tokens;
    std::span<const int> depths = {};  // of a tree
    std::span<const float> features;   // [rows][width]: of the position before each row
    std::span<const int> wanted = {};  // the rows whose results are wanted, ascending

    // Results, valid until the next call.
    std::span<const float> logits = {};         // [wanted][vocabulary of the target]; -infinity: never proposed
    std::span<const float> next_features = {};  // [wanted][width]: of the positions of these rows
    std::string error = {};                     // why the logits cannot be used; empty when they can

    int rows() const noexcept { return static_cast<int>(tokens.size()); }
  };

  /// Computes the rows of several texts in one pass, and writes them to their caches, which are all different. Every
  /// row has the bits that it has alone. Where results are wanted, `target` holds the positions of the settled rows.
  virtual void forward(std::span<Rows> batch) = 0;
};

}  // namespace draftproof
