// SPDX-License-Identifier: MIT
#include "ref/grammar/token_trie.h"

#include <algorithm>
#include <limits>

#include "ref/base/error.h"
#include "ref/base/utf8.h"
#include "ref/grammar/rule_masks.h"

namespace draftproof {
namespace {

std::vector<std::string> bytes_of_tokens(const Tokenizer& tokenizer, int vocabulary) {
  std::vector<std::string> bytes(static_cast<std::size_t>(vocabulary));
  const int known = std::min(vocabulary, tokenizer.vocabulary());
  for (Token token = 0; token < known; ++token) {
    if (!tokenizer.is_special(token)) tokenizer.append_bytes(token, true, bytes[static_cast<std::size_t>(token)]);
  }
  return bytes;
}

}  // namespace

TokenTrie::TokenTrie(const Tokenizer& tokenizer, int vocabulary) : TokenTrie(bytes_of_tokens(tokenizer, vocabulary)) {}

TokenTrie::TokenTrie(std::vector<std::string> bytes)
    : bytes_(std::move(bytes)), rule_masks_(std::make_unique<RuleMasks>()) {
  std::vector<std::pair<std::string_view, Token>> texts;
  for (Token token = 0; token < vocabulary(); ++token) {
    if (!this->bytes(token).empty()) texts.emplace_back(this->bytes(token), token);
    if (this->bytes(token).size() > std::numeric_limits<unsigned short>::max()) {
      throw Error("token " + std::to_string(token) + " is too long for a grammar");
    }
  }
  tree_ = TextTree(std::move(texts));
}

TokenTrie::~TokenTrie() = default;

TextTree::TextTree(std::vector<std::pair<std::string_view, Token>> texts) {
  std::ranges::sort(texts);
  add_nodes(texts, 0, texts.size(), 0);
  nodes_.push_back({0, not_plain, 0, static_cast<int>(nodes_.size()) + 1, static_cast<int>(tokens_.size())});
  find_plain();
}

/// Sets Node::characters where a node begins a character.
void TextTree::find_plain() {
  struct Open {
    std::size_t node;
    std::string rest;  // of the character that is not whole yet, from its first byte
    int characters;    // that are whole, or that the node begins
    bool is_plain;
    bool begins;  // a character
    int deepest;  // characters below
  };
  std::vector<Open> path;
  const auto close = [&] {
    const Open done = std::move(path.back());
    path.pop_back();
    Node& node = nodes_[done.node];
    const int count = done.deepest - done.characters + 1;
    if (done.begins && done.is_plain && count < not_plain) node.characters = static_cast<unsigned char>(count);
    if (path.empty()) return;
    path.back().is_plain = path.back().is_plain && done.is_plain;
    path.back().deepest = std::max(path.back().deepest, done.deepest);
  };
  for (std::size_t i = 0; i + 1 < nodes_.size(); ++i) {
    while (path.size() >= nodes_[i].depth) close();
    Open open = {.node = i, .rest = "", .characters = 0, .is_plain = true, .begins = true, .deepest = 0};
    if (!path.empty()) {
      open.rest = path.back().rest;
      open.characters = path.back().characters;
    }
    open.begins = open.rest.empty();
    if (open.begins) ++open.characters;
    open.deepest = open.characters;
    open.rest += static_cast<char>(nodes_[i].byte);
    const utf8::Character step = utf8::step(open.rest, 0);
    if (step.status == utf8::Status::broken) open.is_plain = false;
    if (step.status == utf8::Status::character && !is_plain_character(step.code_point)) open.is_plain = false;
    if (step.status != utf8::Status::unfinished) open.rest.clear();
    path.push_back(std::move(open));
  }
  while (!path.empty()) close();
}

/// Adds the nodes below one that the texts [first, last) of the sorted ones have in common: `depth` bytes of them.
void TextTree::add_nodes(const std::vector<std::pair<std::string_view, Token>>& texts, std::size_t first,
                         std::size_t last, std::size_t depth) {
  while (first < last) {
    const auto byte = static_cast<unsigned char>(texts[first].first[depth]);
    std::size_t end = first;
    while (end < last && static_cast<unsigned char>(texts[end].first[depth]) == byte) ++end;
    const std::size_t node = nodes_.size();
    nodes_.push_back({byte, not_plain, static_cast<unsigned short>(depth + 1), 0, static_cast<int>(tokens_.size())});
    for (; first < end && texts[first].first.size() == depth + 1; ++first) tokens_.push_back(texts[first].second);
    add_nodes(texts, first, end, depth + 1);
    nodes_[node].end = static_cast<int>(nodes_.size());
    first = end;
  }
}

}  // namespace draftproof
