// SPDX-License-Identifier: MIT
// The bytes of all tokens of a vocabulary as a tree, so that what tokens have in common is read once.
#pragma once

#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "ref/base/token.h"
#include "ref/text/tokenizer.h"

namespace draftproof {

class TokenTrie {
 public:
  /// The tokens of a model with `vocabulary` logits. Special tokens, and tokens without bytes, are not in it.
  TokenTrie(const Tokenizer& tokenizer, int vocabulary);
  /// Of these bytes, one string for each token; an empty one is not in it.
  explicit TokenTrie(std::vector<std::string> bytes);

  struct Node {
    unsigned char byte;    // that leads here
    unsigned short depth;  // bytes up to here
    int end;               // the node after all nodes below
    int tokens;            // index in tokens(); those of the next node begin where these end
  };
  /// In preorder, the children of a node by ascending byte; the last is a node that only ends the tokens.
  const std::vector<Node>& nodes() const noexcept { return nodes_; }
  const std::vector<Token>& tokens() const noexcept { return tokens_; }

  int vocabulary() const noexcept { return static_cast<int>(bytes_.size()); }
  /// The bytes of a token; empty for one that is not in the tree.
  std::string_view bytes(Token token) const {
    return token < 0 || token >= vocabulary() ? std::string_view() : bytes_[static_cast<std::size_t>(token)];
  }

 private:
  void add_nodes(const std::vector<Token>& sorted, std::size_t first, std::size_t last, std::size_t depth);

  std::vector<std::string> bytes_;
  std::vector<Node> nodes_;
  std::vector<Token> tokens_;
};

}  // namespace draftproof
