// SPDX-License-Identifier: MIT
#include "ref/text/unigram.h"

#include <algorithm>

#include "ref/base/utf8.h"

namespace draftproof {
namespace {

std::uint64_t child_key(std::int32_t node, char byte) {
  return (std::uint64_t{static_cast<std::uint32_t>(node)} << 8) | static_cast<unsigned char>(byte);
}

}  // namespace

/// The best division of the bytes before a place, by its last entry.
struct Unigram::Best {
  double score = 0;
  std::int32_t size = 0;  // of the last entry; 0: no division is known
  Token token = -1;       // of the last entry; -1: an unknown character
};

void Unigram::add_entry(std::string_view text, Token token, double score) {
  std::int32_t node = 0;
  for (const char byte : text) {
    const std::int32_t* child = children_.find(child_key(node, byte));
    if (child == nullptr) {
      const auto added = static_cast<std::int32_t>(at_node_.size());
      children_.insert(child_key(node, byte), added);
      at_node_.emplace_back();
      node = added;
    } else {
      node = *child;
    }
  }
  at_node_[node] = {token, score};
}

void Unigram::emit(std::string_view part, const std::vector<Best>& best, bool& after_unknown,
                   std::vector<Token>& tokens) const {
  std::vector<std::size_t> ends;
  for (std::size_t end = part.size(); end > 0; end -= best[end].size) ends.push_back(end);
  std::reverse(ends.begin(), ends.end());
  for (const std::size_t end : ends) {
    if (best[end].token >= 0) {
      tokens.push_back(best[end].token);
    } else {
      unknown_.encode(part.substr(end - best[end].size, best[end].size), after_unknown, tokens);
    }
    after_unknown = best[end].token < 0;
  }
}

void Unigram::encode_piece(std::string_view piece, std::vector<Best>& best, std::vector<Token>& tokens) const {
  bool after_unknown = false;
  std::size_t done = 0;     // begin of the current part
  std::size_t spanned = 0;  // no entry that begins before spans beyond
  best.assign(1, Best());
  const auto offer = [&](std::size_t end, Best offered) {
    if (best.size() <= end - done) best.resize(end - done + 1);
    Best& known = best[end - done];
    if (known.size == 0 || offered.score > known.score) known = offered;
    spanned = std::max(spanned, end);
  };
  for (std::size_t at = 0; at < piece.size();) {
    if (at == spanned && at > done) {
      emit(piece.substr(done, at - done), best, after_unknown, tokens);
      done = at;
      best.assign(1, Best());
    }
    const double before = best[at - done].score;
    const std::size_t character = utf8::step(piece, at).length;
    bool is_entry = false;
    std::int32_t node = 0;
    for (std::size_t end = at; end < piece.size();) {
      const std::int32_t* child = children_.find(child_key(node, piece[end]));
      if (child == nullptr) break;
      node = *child;
      ++end;
      if (at_node_[node].token < 0) continue;
      offer(end, {before + at_node_[node].score, static_cast<std::int32_t>(end - at), at_node_[node].token});
      is_entry = is_entry || end - at == character;
    }
    if (!is_entry) offer(at + character, {before + unknown_score_, static_cast<std::int32_t>(character), -1});
    at += character;
  }
  emit(piece.substr(done), best, after_unknown, tokens);
}

void Unigram::encode(std::span<const std::string_view> pieces, PieceWork& work, std::vector<Token>& tokens) const {
  std::vector<Best> best;
  for (const std::string_view piece : pieces) {
    if (work.memory.recall(piece, tokens)) continue;
    const std::size_t before = tokens.size();
    encode_piece(piece, best, tokens);
    work.memory.keep(piece, std::span(tokens).subspan(before));
  }
}

}  // namespace draftproof
