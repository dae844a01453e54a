// SPDX-License-Identifier: MIT
#include "ref/text/piece_model.h"

#include <algorithm>

#include "ref/base/error.h"
#include "ref/formats/printable.h"

namespace draftproof {

void UnknownText::encode(std::string_view character, bool continues, std::vector<Token>& tokens) const {
  const auto token_of = [this](char byte) { return of_byte(static_cast<unsigned char>(byte)); };
  if (std::ranges::all_of(character, [&](char byte) { return token_of(byte) >= 0; })) {
    for (const char byte : character) tokens.push_back(token_of(byte));
    return;
  }
  if (unknown_ < 0) {
    throw Error(origin_ + ": has no entry for " + in_quotes(character) +
                ", which the text to encode contains, nor byte tokens or an unknown token for it");
  }
  if (!continues || !fused_) tokens.push_back(unknown_);
}

}  // namespace draftproof
