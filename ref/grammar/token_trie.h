// SPDX-License-Identifier: MIT
// The bytes of all tokens of a vocabulary as a tree, so that what tokens have in common is read once.
#pragma once

#include <memory>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "ref/base/token.h"
#include "ref/text/tokenizer.h"

namespace draftproof {

class RuleMasks;

/// Whether a string of JSON has this character as it is, and the expression `.` matches it.
constexpr bool is_plain_character(char32_t c) {
  return c >= 0x20 && c != '"' && c != '\\' && c != 0x2028 && c != 0x2029;
}

/// Texts, each with a token, as a tree of their bytes.
class TextTree {
 public:
  TextTree() : TextTree(std::vector<std::pair<std::string_view, Token>>()) {}
  /// None is empty. Several may be the same, or have the same token.
  explicit TextTree(std::vector<std::pair<std::string_view, Token>> texts);

  struct Node {
    unsigned char byte;        // that leads here
    unsigned char characters;  // of the longest text from here on, if all are plain
    unsigned short depth;      // bytes up to here
    int end;                   // the node after all nodes below
    int tokens;                // index in tokens(); those of the next node begin where these end
  };
  static constexpr unsigned char not_plain = 255;
  /// In preorder, the children of a node by ascending byte; the last is a node that only ends the tokens.
  const std::vector<Node>& nodes() const noexcept { return nodes_; }
  const std::vector<Token>& tokens() const noexcept { return tokens_; }

 private:
  void find_plain();
  void add_nodes(const std::vector<std::pair<std::string_view, Token>>& texts, std::size_t first, std::size_t last,
                 std::size_t depth);

  std::vector<Node> nodes_;
  std::vector<Token> tokens_;
};

class TokenTrie {
 public:
  /// The tokens of a model with `vocabulary` logits. Special tokens, and tokens without bytes, are not in it.
  TokenTrie(const Tokenizer& tokenizer, int vocabulary);
  /// Of these bytes, one string for each token; an empty one is not in it.
  explicit TokenTrie(std::vector<std::string> bytes);
  ~TokenTrie();

  const TextTree& tree() const noexcept { return tree_; }
  /// What all grammars over this vocabulary share.
  RuleMasks& rule_masks() const noexcept { return *rule_masks_; }

  int vocabulary() const noexcept { return static_cast<int>(bytes_.size()); }
  /// The bytes of a token; empty for one that is not in the tree.
  std::string_view bytes(Token token) const {
    return token < 0 || token >= vocabulary() ? std::string_view() : bytes_[static_cast<std::size_t>(token)];
  }

 private:
  std::vector<std::string> bytes_;
  TextTree tree_;
  std::unique_ptr<RuleMasks> rule_masks_;
};

}  // namespace draftproof
