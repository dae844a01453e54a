// SPDX-License-Identifier: MIT
#include "ref/text/character_bpe.h"

#include <algorithm>
#include <numeric>

#include "ref/base/utf8.h"

namespace draftproof {
namespace {

std::uint64_t hash_of(char32_t left, char32_t right) {
  const std::uint64_t mixed = ((std::uint64_t{left} << 21) | right) * 0x9E3779B97F4A7C15u;
  return mixed >> 40;
}

}  // namespace

void CharacterBpe::add_entry(std::string_view text, Token token) {
  entries_.insert(text, token);
  char32_t left = 0;
  for (std::size_t at = 0; at < text.size();) {
    const utf8::Character next = utf8::step(text, at);
    if (at > 0) {
      const std::uint64_t bit = hash_of(left, next.code_point) % neighbor_bits;
      neighbors_[bit / 64] |= std::uint64_t{1} << bit % 64;
    }
    left = next.code_point;
    at += next.length;
  }
}

void CharacterBpe::set_scores(const std::vector<double>& scores) {
  std::vector<std::uint32_t> order(scores.size());
  std::iota(order.begin(), order.end(), 0);
  const auto is_before = [&](auto one, auto other) { return scores[one] > scores[other]; };
  std::ranges::stable_sort(order, is_before);  // many are in order already
  ranks_.resize(scores.size());
  for (std::size_t at = 1; at < order.size(); ++at) {
    ranks_[order[at]] = ranks_[order[at - 1]] + (scores[order[at]] < scores[order[at - 1]] ? 1 : 0);
  }
}

bool CharacterBpe::may_be_joined(char32_t left, char32_t right) const {
  const std::uint64_t bit = hash_of(left, right) % neighbor_bits;
  return (neighbors_[bit / 64] >> bit % 64 & 1) != 0;
}

bool CharacterBpe::taken_whole(std::string_view piece) const {
  return entries_whole_ || (line_feeds_whole_ && piece.find_first_not_of('\n') == std::string_view::npos);
}

void CharacterBpe::merge(std::string_view part, Merger& merger) const {
  if (ranks_.empty()) {
    merger.merge([this](const Symbol& left, const Symbol& right) { return merges_.find(left.token, right.token); });
  } else {
    merger.merge([this, part](const Symbol& left, const Symbol& right) {
      const Token token = entries_.find(part.substr(left.begin, left.size + right.size));
      return token < 0 ? Joined{0, -1} : Joined{ranks_[token], token};
    });
  }
}

void CharacterBpe::encode_part(std::string_view part, bool& after_unknown, PieceWork& work,
                               std::vector<Token>& tokens) const {
  if (work.memory.recall(part, tokens)) {
    after_unknown = false;
    return;
  }
  std::vector<Symbol>& symbols = work.merger.symbols();
  symbols.clear();
  for (std::size_t at = 0; at < part.size();) {
    const std::size_t length = utf8::step(part, at).length;
    symbols.push_back(
        {entries_.find(part.substr(at, length)), static_cast<std::int32_t>(at), static_cast<std::int32_t>(length)});
    at += length;
  }
  merge(part, work.merger);
  bool known = true;
  for (const Symbol& symbol : symbols) {
    if (symbol.token >= 0) {
      tokens.push_back(symbol.token);
    } else {
      unknown_.encode(part.substr(symbol.begin, symbol.size), after_unknown, tokens);
      known = false;
    }
    after_unknown = symbol.token < 0;
  }
  if (known) work.memory.keep(part, std::span(tokens).last(symbols.size()));
}

void CharacterBpe::encode_piece(std::string_view piece, PieceWork& work, std::vector<Token>& tokens) const {
  bool after_unknown = false;
  std::size_t begin = 0;
  char32_t left = 0;
  for (std::size_t at = 0; at < piece.size();) {
    const utf8::Character next = utf8::step(piece, at);
    if (at > begin && !may_be_joined(left, next.code_point)) {
      encode_part(piece.substr(begin, at - begin), after_unknown, work, tokens);
      begin = at;
    }
    left = next.code_point;
    at += next.length;
  }
  encode_part(piece.substr(begin), after_unknown, work, tokens);
}

void CharacterBpe::encode(std::span<const std::string_view> pieces, PieceWork& work, std::vector<Token>& tokens) const {
  for (const std::string_view piece : pieces) {
    const Token whole = taken_whole(piece) ? entries_.find(piece) : -1;
    if (whole >= 0) {
      tokens.push_back(whole);
    } else {
      encode_piece(piece, work, tokens);
    }
  }
}

}  // namespace draftproof
