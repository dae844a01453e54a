// SPDX-License-Identifier: MIT
#include "ref/text/tokenizer_parts.h"

#include "ref/base/error.h"
#include "ref/base/utf8.h"
#include "ref/formats/file_bytes.h"
#include "ref/formats/printable.h"

namespace draftproof {
namespace {

constexpr std::size_t entry_bytes_max = 4096;  // the search takes up to this many steps per byte of text

void check_text(const std::string& text, const std::string& origin, Token id) {
  const auto fail = [&](const char* what) { throw Error(origin + ": the entry of id " + std::to_string(id) + what); };
  if (text.size() > entry_bytes_max) fail(" is longer than 4096 bytes");
  if (!utf8::is_valid(text)) fail(" is not UTF-8");
}

}  // namespace

std::string read_tokenizer_file(const std::filesystem::path& path) {
  constexpr std::uint64_t file_bytes_max = std::uint64_t{1} << 28;
  const FileBytes file(path);
  if (file.size() > file_bytes_max) throw Error(printable(path.string()) + ": is larger than 256 MiB");
  std::string bytes(file.size(), '\0');
  file.read(0, bytes.size(), bytes.data());
  return bytes;
}

TokenizerPartsBuilder::TokenizerPartsBuilder(TokenDecoder decoder, Normalizer normalizer)
    : decoder_(std::move(decoder)) {
  parts_.normalizer = std::move(normalizer);
}

TokenizerParts::Entry& TokenizerPartsBuilder::entry(Token id, const std::string& origin) {
  if (id < 0 || id > token_max) throw Error(origin + ": id " + std::to_string(id) + " is out of range");
  const auto index = static_cast<std::size_t>(id);
  if (index >= parts_.entries.size()) parts_.entries.resize(index + 1);
  return parts_.entries[index];
}

void TokenizerPartsBuilder::reserve(std::size_t entries) {
  parts_.entries.reserve(entries);
  parts_.vocabulary.reserve(entries);
}

void TokenizerPartsBuilder::add_entry(const std::string& text, Token id, const std::string& origin,
                                      std::optional<std::string> bytes) {
  TokenizerParts::Entry& mine = entry(id, origin);
  if (mine.taken) throw Error(origin + ": id " + std::to_string(id) + " belongs to another entry already");
  check_text(text, origin, id);
  if (!parts_.vocabulary.insert(text, id)) {
    throw Error(origin + ": the entry of id " + std::to_string(id) + " has another id already");
  }
  mine = {.text = text, .bytes = bytes ? std::move(*bytes) : decoder_.bytes_of(text), .taken = true};
}

void TokenizerPartsBuilder::add_token(AddedToken token, const std::string& origin, std::optional<std::string> bytes) {
  TokenizerParts::Entry& mine = entry(token.id, origin);
  const std::string named = ": id " + std::to_string(token.id);
  if (token.content.empty()) throw Error(origin + ": an added token is empty");
  check_text(token.content, origin, token.id);
  if (mine.added) throw Error(origin + named + " belongs to another added token already");
  const Token known = parts_.vocabulary.find(token.content);
  if (known >= 0 ? known != token.id : mine.taken) {
    throw Error(origin + named + " contradicts the vocabulary, which has another id or entry there");
  }
  if (!parts_.added.insert(token.content, token.id)) throw Error(origin + named + " repeats an added token");

  if (token.pattern.empty()) {
    MatchBudget budget(token.content.size());
    token.pattern = token.normalized ? parts_.normalizer.apply(token.content, budget) : token.content;
    if (token.pattern.empty()) throw Error(origin + named + " is an empty text once normalized");
    check_text(token.pattern, origin, token.id);
  }
  mine = {token.content, bytes ? std::move(*bytes) : decoder_.bytes_of(token.pattern), true, true, token.special};
  if (token.normalized && !normalized_patterns_.insert(token.pattern).second) {
    throw Error(origin + named + " is another added token once normalized");
  }
  (token.normalized ? parts_.added_normalized : parts_.added_raw).push_back(std::move(token));
}

Token TokenizerPartsBuilder::merged(std::string_view text, const std::string& origin) const {
  const Token token = find(text);
  if (token < 0)
    throw Error(origin + ": the merge needs " + in_quotes(std::string(text)) + ", which is not in the vocabulary");
  return token;
}

void TokenizerPartsBuilder::add_merge(MergeTable& merges, std::string_view left, std::string_view right,
                                      const std::string& origin) const {
  if (left.empty() || right.empty()) throw Error(origin + ": one side of the merge is empty");
  const Token left_token = merged(left, origin);
  const Token right_token = merged(right, origin);
  const Token result = merged(std::string(left).append(right), origin);
  if (parts_.entries[result].special || parts_.entries[result].byte) return;
  if (!merges.add(left_token, right_token, result)) {
    throw Error(origin + ": the merge of " + in_quotes(std::string(left)) + " and " + in_quotes(std::string(right)) +
                " occurs twice");
  }
}

void TokenizerPartsBuilder::add_merge(MergeTable& merges, std::string_view both, const std::string& origin) const {
  const std::size_t space = both.find(' ');
  if (space == std::string_view::npos || both.find(' ', space + 1) != std::string_view::npos) {
    throw Error(origin + ": a merge is two spellings with one space between them");
  }
  add_merge(merges, both.substr(0, space), both.substr(space + 1), origin);
}

bool TokenizerPartsBuilder::has_token(std::int64_t id) const {
  return id >= 0 && id < static_cast<std::int64_t>(parts_.entries.size()) && parts_.entries[id].taken;
}

Token TokenizerParts::find(std::string_view text) const {
  const Token token = added.find(text);
  return token >= 0 ? token : vocabulary.find(text);
}

}  // namespace draftproof
