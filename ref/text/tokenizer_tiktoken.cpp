// SPDX-License-Identifier: MIT
// Reads tiktoken.model, which Kimi's folders have in place of a tokenizer.json: byte-level BPE whose tokens are ranks.
// Every line is the bytes of a token in base64 and its rank, which is its id. Neighbors are joined to the token of the
// smallest rank that both make, wherever the border between them is; a piece that is a token is taken whole.
//
// Special tokens follow the last rank: 256, named by `added_tokens_decoder` of the tokenizer_config.json beside the
// file, else <|reserved_token_ID|>. The expression that cuts a text into pieces stands in Kimi's program, not in a
// file. (That program also cuts texts of 400 000 characters, and of 25 000 without a white space between; here they are
// whole.)
#include <map>

#include "ref/base/error.h"
#include "ref/formats/json.h"
#include "ref/formats/printable.h"
#include "ref/text/base64.h"
#include "ref/text/byte_alphabet.h"
#include "ref/text/byte_bpe.h"
#include "ref/text/gguf_pre_tokenizers.h"
#include "ref/text/tokenizer_parts.h"

namespace draftproof {
namespace {

constexpr Token reserved = 256;
constexpr const char* kimi_class = "TikTokenTokenizer";

/// The bytes of every token, by its rank.
std::vector<std::string> read_ranks(const std::filesystem::path& file) {
  const std::string name = printable(file.string());
  const std::string text = read_tokenizer_file(file);
  std::vector<std::string> ranks;
  for (std::size_t at = 0; at < text.size();) {
    const std::size_t end = std::min(text.find('\n', at), text.size());
    const std::string_view line = std::string_view(text).substr(at, end - at);
    at = end + 1;
    if (line.empty()) continue;
    const std::size_t space = line.find(' ');
    const std::string rank = std::to_string(ranks.size());
    const auto bytes = base64_decoded(line.substr(0, space));
    if (space == std::string_view::npos || !bytes || bytes->empty() || line.substr(space + 1) != rank) {
      throw Error(name + ": line " + std::to_string(ranks.size() + 1) +
                  " is not the bytes of a token in base64 and its rank, " + rank + "; fetch the file again");
    }
    if (ranks.size() > static_cast<std::size_t>(token_max - reserved)) throw Error(name + ": has too many tokens");
    ranks.push_back(*bytes);
  }
  return ranks;
}

/// The special tokens that a config names.
std::map<std::string, AddedToken> read_named(const std::filesystem::path& config) {
  std::map<std::string, AddedToken> named;
  const Json json = Json::read(config);
  const Json name = json.at("tokenizer_class");
  if (name.string() != kimi_class) {
    name.fail(std::string("is not ") + kimi_class + ", Kimi's, the only one whose tiktoken.model is read");
  }
  const auto tokens = json.find("added_tokens_decoder");
  if (!tokens) return named;
  for (const std::string& id : tokens->fields()) {
    const Json one = tokens->at(id);
    const auto flag = [&](const char* field, bool absent) {
      const auto found = one.find(field);
      return found ? found->boolean() : absent;
    };
    AddedToken& token = named[id];
    token.content = one.at("content").string();
    token.special = flag("special", true);
    token.single_word = flag("single_word", false);
    token.lstrip = flag("lstrip", false);
    token.rstrip = flag("rstrip", false);
  }
  return named;
}

}  // namespace

TokenizerParts read_tokenizer_tiktoken(const std::filesystem::path& file) {
  const std::string name = printable(file.string());
  const std::filesystem::path config = file.parent_path() / "tokenizer_config.json";
  std::map<std::string, AddedToken> named = read_named(config);
  const std::vector<std::string> ranks = read_ranks(file);
  TokenDecoder decoder;
  decoder.add(token_decoders::byte_level());
  TokenizerPartsBuilder builder(std::move(decoder), Normalizer());
  TokenizerParts& parts = builder.parts();
  for (const std::string& expression : find_gguf_pre_tokenizer("kimi-k2")->expressions) {
    parts.pre_tokenizer.add(SplitStep{{expression, name}});
  }
  auto bpe = std::make_unique<ByteBpe>(name);
  std::unordered_map<std::string_view, Token> of_bytes;
  for (const std::string& bytes : ranks) {
    const auto id = static_cast<Token>(of_bytes.size());
    builder.add_entry(byte_alphabet::spell(bytes), id, name + ": line " + std::to_string(id + 1));
    of_bytes.emplace(bytes, id);
    if (bytes.size() == 1) bpe->set_byte(static_cast<unsigned char>(bytes.front()), id);
    bpe->take_whole(bytes, id);
  }
  if (const int byte = bpe->missing_byte(); byte >= 0) {
    throw Error(name + ": has no token for the byte " + std::to_string(byte) + "; fetch the file again");
  }
  for (const std::string& bytes : ranks) {
    const Token id = of_bytes.at(bytes);
    for (std::size_t border = 1; border < bytes.size(); ++border) {
      const auto left = of_bytes.find(std::string_view(bytes).substr(0, border));
      const auto right = of_bytes.find(std::string_view(bytes).substr(border));
      if (left == of_bytes.end() || right == of_bytes.end()) continue;
      bpe->merges().add_with_rank(left->second, right->second, id, static_cast<std::uint32_t>(id));
    }
  }
  parts.model = std::move(bpe);
  const auto first = static_cast<Token>(ranks.size());
  for (Token id = first; id < first + reserved; ++id) {
    const auto found = named.find(std::to_string(id));
    AddedToken token;
    if (found != named.end()) {
      token = std::move(found->second);
      named.erase(found);
    } else {
      token.content = "<|reserved_token_" + std::to_string(id) + "|>";
      token.special = true;
    }
    token.id = id;
    const std::string content = token.content;
    builder.add_token(std::move(token), printable(config.string()) + ": field added_tokens_decoder", content);
  }
  if (!named.empty()) {
    throw Error(printable(config.string()) + ": field added_tokens_decoder." + named.begin()->first +
                ": is not one of the 256 ids behind the last rank, " + std::to_string(first) + " to " +
                std::to_string(first + reserved - 1));
  }
  return std::move(parts);
}

}  // namespace draftproof
