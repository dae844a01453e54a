// SPDX-License-Identifier: MIT
#include "ref/grammar/token_trie.h"

#include <algorithm>
#include <limits>

#include "ref/base/error.h"

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

TokenTrie::TokenTrie(std::vector<std::string> bytes) : bytes_(std::move(bytes)) {
  std::vector<Token> sorted;
  for (Token token = 0; token < vocabulary(); ++token) {
    if (!this->bytes(token).empty()) sorted.push_back(token);
    if (this->bytes(token).size() > std::numeric_limits<unsigned short>::max()) {
      throw Error("token " + std::to_string(token) + " is too long for a grammar");
    }
  }
  std::ranges::stable_sort(sorted, {}, [&](Token token) { return this->bytes(token); });
  add_nodes(sorted, 0, sorted.size(), 0);
  nodes_.push_back({0, 0, static_cast<int>(nodes_.size()) + 1, static_cast<int>(tokens_.size())});
}

/// Adds the nodes below one that the tokens [first, last) of the sorted ones have in common: `depth` bytes of them.
void TokenTrie::add_nodes(const std::vector<Token>& sorted, std::size_t first, std::size_t last, std::size_t depth) {
  while (first < last) {
    const auto byte = static_cast<unsigned char>(bytes(sorted[first])[depth]);
    std::size_t end = first;
    while (end < last && static_cast<unsigned char>(bytes(sorted[end])[depth]) == byte) ++end;
    const std::size_t node = nodes_.size();
    nodes_.push_back({byte, static_cast<unsigned short>(depth + 1), 0, static_cast<int>(tokens_.size())});
    for (; first < end && bytes(sorted[first]).size() == depth + 1; ++first) tokens_.push_back(sorted[first]);
    add_nodes(sorted, first, end, depth + 1);
    nodes_[node].end = static_cast<int>(nodes_.size());
    first = end;
  }
}

}  // namespace draftproof
