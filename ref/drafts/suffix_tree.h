// SPDX-License-Identifier: MIT
// How often every short substring occurs in a text that grows at its end: a compressed suffix tree of limited depth.
//
// n(s): occurrences of s in the text, for every s of at most `depth` tokens. f(s): those that a token follows, the sum
// of n(sc) over all tokens c. A text may consist of several, with a separator between them: no substring contains one,
// and none follows another token.
//
// The tree does not own the text. Every call is given a text that begins with all tokens appended.
//
// Memory: at most 2 nodes per token and the root. A node has 24 bytes, in an array with room for at most twice as many,
// and up to 4 slots of 4 bytes in a hash table. So at most 128 bytes per token, and a few KiB: room for all nodes that
// one more token can need is kept. Appending a token gives leaves to some of the last `depth` suffixes. A suffix gets
// one leaf at most, and with it at most one edge is split.
// Time: expected O(depth) per token, over all tokens together; O(length of the string) for find.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "ref/base/token.h"

namespace draftproof {

class SuffixTree {
 public:
  static constexpr Token separator = -1;
  static constexpr int bytes_per_token = 2 * (2 * 24 + 4 * 4);

  /// `depth` >= 1.
  explicit SuffixTree(int depth);

  int depth() const noexcept { return depth_; }
  /// The number of tokens appended.
  int size() const noexcept { return size_; }
  /// The number of nodes, with the root.
  int nodes() const noexcept { return static_cast<int>(nodes_.size()); }

  /// Appends text[size()], a token or the separator. On an exception nothing changes.
  void append(std::span<const Token> text);

  /// A substring: the first `length` tokens on the way from the root to `node`, on the edge to it.
  struct Place {
    int node = 0;
    int length = 0;
  };
  /// Returns the place of a string of tokens; nothing when it does not occur or is longer than `depth`.
  std::optional<Place> find(std::span<const Token> text, std::span<const Token> string) const;

  /// What follows s most often: the token c with the largest n(sc), the smallest of several.
  struct Next {
    Token token = 0;
    double share = 0;  // n(sc) / f(s)
    Place place = {};  // of sc
  };
  /// Nothing when no token follows, or when s has `depth` tokens.
  std::optional<Next> most_frequent(std::span<const Token> text, Place place) const;

  /// Returns n(s) of a string that is not empty.
  int count(Place place) const;

  void clear();

  /// Compares every node with counts made by loops over the text. Returns what is wrong, or an empty string. Takes
  /// O(size * nodes * depth).
  std::string fault(std::span<const Token> text) const;

 private:
  static constexpr int root = 0;
  static constexpr int none = -1;

  struct Node {
    int origin;  // the token at depth d on its edge is text[origin + d - 1]
    int depth;   // of its end; `depth_` for a leaf, whose edge ends earlier where its text does
    int parent;
    int entered;   // occurrences of the string that ends with the first token of its edge
    int followed;  // f of the string that ends here
    int best;      // the child with the most frequent first token; none when no token follows
  };
  static_assert(sizeof(Node) == 24);

  Node& node(int index) { return nodes_[static_cast<std::size_t>(index)]; }
  const Node& node(int index) const { return nodes_[static_cast<std::size_t>(index)]; }
  /// The first token of the edge to a node.
  Token first_token(std::span<const Token> text, int index) const;
  std::size_t slot_of(std::span<const Token> text, int parent, Token token) const;
  int child(std::span<const Token> text, int parent, Token token) const;

  void make_room(std::span<const Token> text);
  bool step(std::span<const Token> text, int length);
  void enter(std::span<const Token> text, int parent, int child);
  void add_leaf(std::span<const Token> text, int parent);
  int split(std::span<const Token> text, int lower, int at);
  int ended(int index, int at) const;

  int depth_;
  int size_ = 0;
  std::vector<Node> nodes_;
  std::vector<int> slots_;   // children by parent and first token, in open addressing; a power of two
  std::vector<int> active_;  // [k - 1]: the node of the last k tokens, for every k < depth_ with n > 1
};

}  // namespace draftproof
