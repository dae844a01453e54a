// SPDX-License-Identifier: MIT
#include "ref/text/tokenizer_parts.h"

#include "ref/base/error.h"
#include "ref/base/utf8.h"
#include "ref/formats/printable.h"
#include "ref/text/byte_alphabet.h"
#include "ref/text/unicode.h"

namespace draftproof {
namespace {

constexpr std::size_t added_token_bytes_max = 4096;  // the search takes up to this many steps per byte of text

}  // namespace

TokenizerPartsBuilder::TokenizerPartsBuilder(std::string vocabulary_origin, bool nfc) {
  parts_.vocabulary_origin = std::move(vocabulary_origin);
  parts_.nfc = nfc;
}

TokenizerParts::Entry& TokenizerPartsBuilder::entry(Token id, const std::string& origin) {
  if (id < 0 || id > token_most) throw Error(origin + ": id " + std::to_string(id) + " is out of range");
  const auto index = static_cast<std::size_t>(id);
  if (index >= parts_.entries.size()) parts_.entries.resize(index + 1);
  return parts_.entries[index];
}

void TokenizerPartsBuilder::add_entry(const std::string& spelled, Token id, const std::string& origin) {
  TokenizerParts::Entry& mine = entry(id, origin);
  if (mine.taken) throw Error(origin + ": id " + std::to_string(id) + " belongs to another entry already");
  if (!utf8::is_valid(spelled)) throw Error(origin + ": the entry of id " + std::to_string(id) + " is not UTF-8");
  if (!parts_.vocabulary.emplace(spelled, id).second) {
    throw Error(origin + ": the entry of id " + std::to_string(id) + " has another id already");
  }
  mine.taken = true;
  const auto bytes = byte_alphabet::unspell(spelled);
  mine.bytes = bytes.value_or(spelled);
  // An entry of one character of the alphabet is the token of that byte.
  if (bytes && bytes->size() == 1) parts_.bpe.set_byte(static_cast<unsigned char>(bytes->front()), id);
}

Token TokenizerPartsBuilder::merged(const std::string& spelled, const std::string& origin) const {
  const auto found = parts_.vocabulary.find(spelled);
  if (found == parts_.vocabulary.end()) {
    throw Error(origin + ": the merge needs " + in_quotes(spelled) + ", which is not in the vocabulary");
  }
  return found->second;
}

void TokenizerPartsBuilder::add_merge(const std::string& left, const std::string& right, const std::string& origin) {
  if (left.empty() || right.empty()) throw Error(origin + ": one side of the merge is empty");
  const Token left_token = merged(left, origin);
  const Token right_token = merged(right, origin);
  if (!parts_.bpe.add_merge(left_token, right_token, merged(left + right, origin))) {
    throw Error(origin + ": the merge of " + in_quotes(left) + " and " + in_quotes(right) + " occurs twice");
  }
}

void TokenizerPartsBuilder::add_merge(const std::string& both, const std::string& origin) {
  const std::size_t space = both.find(' ');
  if (space == std::string::npos || both.find(' ', space + 1) != std::string::npos) {
    throw Error(origin + ": a merge is two spellings with one space between them");
  }
  add_merge(both.substr(0, space), both.substr(space + 1), origin);
}

void TokenizerPartsBuilder::add_token(AddedToken token, bool spelled, const std::string& origin) {
  if (token.content.empty()) throw Error(origin + ": an added token is empty");
  if (token.content.size() > added_token_bytes_max) throw Error(origin + ": an added token is longer than 4096 bytes");
  if (!utf8::is_valid(token.content)) throw Error(origin + ": an added token is not UTF-8");
  TokenizerParts::Entry& mine = entry(token.id, origin);
  const std::string named = ": id " + std::to_string(token.id);
  if (mine.added) throw Error(origin + named + " belongs to another added token already");
  const auto known = parts_.vocabulary.find(token.content);
  if (known != parts_.vocabulary.end() ? known->second != token.id : mine.taken) {
    throw Error(origin + named + " contradicts the vocabulary, which has another id or entry there");
  }
  if (!parts_.added.emplace(token.content, token.id).second) throw Error(origin + named + " repeats an added token");

  token.pattern = token.normalized && parts_.nfc ? unicode::nfc(token.content) : token.content;
  token.bytes = spelled ? byte_alphabet::unspell(token.pattern).value_or(token.pattern) : token.content;
  mine = {token.bytes, true, true, token.special};
  if (token.normalized && !normalized_patterns_.insert(token.pattern).second) {
    throw Error(origin + named + " is another added token once normalized");
  }
  (token.normalized ? parts_.added_normalized : parts_.added_raw).push_back(std::move(token));
}

bool TokenizerPartsBuilder::has_token(std::int64_t id) const {
  return id >= 0 && id < static_cast<std::int64_t>(parts_.entries.size()) &&
         parts_.entries[id].taken;
}

int TokenizerPartsBuilder::missing_byte() const {
  for (int byte = 0; byte < 0xF5; ++byte) {
    const bool used = byte != 0xC0 && byte != 0xC1;
    if (used && parts_.bpe.of_byte(static_cast<unsigned char>(byte)) < 0) return byte;
  }
  return -1;
}

}  // namespace draftproof
