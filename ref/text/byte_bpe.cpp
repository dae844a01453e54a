// SPDX-License-Identifier: MIT
#include "ref/text/byte_bpe.h"

#include "ref/base/error.h"
#include "ref/text/byte_alphabet.h"

namespace draftproof {

ByteBpe::ByteBpe(std::string origin) : origin_(std::move(origin)) { of_byte_.fill(-1); }

int ByteBpe::missing_byte() const {
  for (int byte = 0; byte < 0xF5; ++byte) {
    const bool used = byte != 0xC0 && byte != 0xC1;
    if (used && of_byte_[byte] < 0) return byte;
  }
  return -1;
}

void ByteBpe::encode(std::span<const std::string_view> pieces, PieceWork& work, std::vector<Token>& tokens) const {
  std::vector<Symbol>& symbols = work.merger.symbols();
  const auto join = [this](const Symbol& left, const Symbol& right) { return merges_.find(left.token, right.token); };
  for (const std::string_view piece : pieces) {
    if (work.memory.recall(piece, tokens)) continue;
    if (const Token whole = whole_.find(piece); whole >= 0) {
      tokens.push_back(whole);
      continue;
    }
    symbols.clear();
    for (std::size_t at = 0; at < piece.size(); ++at) {
      const auto byte = static_cast<unsigned char>(piece[at]);
      if (of_byte_[byte] < 0) {
        throw Error(origin_ + ": has no entry '" + byte_alphabet::spelling(byte) + "' for byte " +
                    std::to_string(byte) + ", which the text to encode contains");
      }
      symbols.push_back({of_byte_[byte], static_cast<std::int32_t>(at), 1});
    }
    work.merger.merge(join);
    for (const Symbol& symbol : symbols) tokens.push_back(symbol.token);
    work.memory.keep(piece, std::span(tokens).last(symbols.size()));
  }
}

}  // namespace draftproof
