// SPDX-License-Identifier: MIT
#include "ref/text/tokenizer.h"

#include "ref/base/error.h"
#include "ref/base/utf8.h"
#include "ref/text/byte_alphabet.h"
#include "ref/text/tokenizer_parts.h"
#include "ref/text/unicode.h"

namespace draftproof {
namespace {

constexpr std::size_t text_bytes_max = std::size_t{1} << 30;  // positions in a text are 32 bits

TokenizerParts read_parts(const std::filesystem::path& path) {
  if (path.extension() == ".gguf") return read_tokenizer_gguf(path.string(), read_gguf_metadata(path));
  return read_tokenizer_json(std::filesystem::is_directory(path) ? path / "tokenizer.json" : path);
}

}  // namespace

struct Tokenizer::Impl {
  explicit Impl(TokenizerParts from)
      : parts(std::move(from)), raw_cutter(parts.added_raw), normalized_cutter(parts.added_normalized) {}

  const TokenizerParts::Entry* entry(Token token) const {
    const auto index = static_cast<std::size_t>(token);
    return token >= 0 && index < parts.entries.size() ? &parts.entries[index] : nullptr;
  }

  void encode_piece(std::string_view piece, std::vector<Token>& tokens) const;
  void encode_normalized(std::string_view text, MatchBudget& budget, std::vector<Token>& tokens) const;

  TokenizerParts parts;
  AddedTokenCutter raw_cutter;
  AddedTokenCutter normalized_cutter;
};

void Tokenizer::Impl::encode_piece(std::string_view piece, std::vector<Token>& tokens) const {
  if (parts.ignore_merges) {
    const auto whole = parts.vocabulary.find(byte_alphabet::spell(piece));
    if (whole != parts.vocabulary.end()) return tokens.push_back(whole->second);
  }
  for (const char character : piece) {
    const auto byte = static_cast<unsigned char>(character);
    if (parts.bpe.of_byte(byte) < 0) {
      throw Error(parts.vocabulary_origin + ": has no entry '" + byte_alphabet::spelling(byte) + "' for byte " +
                  std::to_string(byte) + ", which the text to encode contains");
    }
  }
  parts.bpe.encode(piece, tokens);
}

void Tokenizer::Impl::encode_normalized(std::string_view text, MatchBudget& budget, std::vector<Token>& tokens) const {
  std::vector<std::string> pieces;
  for (const TextPart& segment : normalized_cutter.cut(text)) {
    if (segment.token >= 0) {
      tokens.push_back(segment.token);
      continue;
    }
    pieces.clear();
    parts.pre_tokenizer.split(segment.text, budget, pieces);
    for (const std::string& piece : pieces) encode_piece(piece, tokens);
  }
}

Tokenizer::Tokenizer(std::unique_ptr<Impl> impl) : impl_(std::move(impl)) {}
Tokenizer::~Tokenizer() = default;
Tokenizer::Tokenizer(Tokenizer&&) noexcept = default;
Tokenizer& Tokenizer::operator=(Tokenizer&&) noexcept = default;

Tokenizer Tokenizer::load(const std::filesystem::path& path) {
  return Tokenizer(std::make_unique<Impl>(read_parts(path)));
}

Tokenizer Tokenizer::load(const Checkpoint& files) {
  if (files.metadata() == nullptr) return load(files.path());
  return Tokenizer(std::make_unique<Impl>(read_tokenizer_gguf(files.path().string(), *files.metadata())));
}

bool Tokenizer::is_in(const Checkpoint& files) {
  if (const GgufMetadata* const metadata = files.metadata()) return metadata->contains("tokenizer.ggml.tokens");
  std::error_code failure;
  return std::filesystem::exists(files.path() / "tokenizer.json", failure);
}

std::vector<Token> Tokenizer::encode(std::string_view text, bool add_special) const {
  if (text.size() > text_bytes_max) throw Error("the text to encode is longer than 1 GiB; encode it in parts");
  if (!utf8::is_valid(text)) throw Error("the text to encode is not UTF-8; convert it first");
  const TokenizerParts& parts = impl_->parts;
  MatchBudget budget(text.size());
  std::vector<Token> tokens;
  if (add_special) tokens = parts.before;
  for (const TextPart& segment : impl_->raw_cutter.cut(text)) {
    if (segment.token >= 0) {
      tokens.push_back(segment.token);
    } else if (parts.nfc) {
      impl_->encode_normalized(unicode::nfc(segment.text), budget, tokens);
    } else {
      impl_->encode_normalized(segment.text, budget, tokens);
    }
  }
  if (add_special) tokens.insert(tokens.end(), parts.after.begin(), parts.after.end());
  return tokens;
}

void Tokenizer::append_bytes(Token token, bool skip_special, std::string& bytes) const {
  if (token < 0) throw Error("token " + std::to_string(token) + " cannot be decoded; tokens are not negative");
  const TokenizerParts::Entry* entry = impl_->entry(token);
  if (entry != nullptr && !(skip_special && entry->special)) bytes += entry->bytes;
}

std::string Tokenizer::decode(std::span<const Token> tokens, bool skip_special) const {
  std::string bytes;
  for (const Token token : tokens) append_bytes(token, skip_special, bytes);
  return utf8::replace_broken(bytes);
}

std::string Tokenizer::bytes_of(Token token) const {
  const TokenizerParts::Entry* entry = impl_->entry(token);
  if (entry == nullptr) {
    throw Error("token " + std::to_string(token) + " is not in the vocabulary of " + std::to_string(vocabulary()));
  }
  return entry->bytes;
}

bool Tokenizer::is_special(Token token) const {
  const TokenizerParts::Entry* entry = impl_->entry(token);
  return entry != nullptr && entry->special;
}

int Tokenizer::vocabulary() const { return static_cast<int>(impl_->parts.entries.size()); }

Token Tokenizer::find(std::string_view token_text) const {
  const std::string text(token_text);
  for (const auto* map : {&impl_->parts.added, &impl_->parts.vocabulary}) {
    if (const auto found = map->find(text); found != map->end()) return found->second;
  }
  return -1;
}

TextStream::TextStream(const Tokenizer& tokenizer, const StopStrings& stops, bool skip_special)
    : tokenizer_(tokenizer), skip_special_(skip_special), text_(stops) {}

std::string TextStream::push(Token token) {
  std::string bytes;
  tokenizer_.append_bytes(token, skip_special_, bytes);
  return text_.push(bytes);
}

std::string TextStream::finish() { return text_.finish(); }

}  // namespace draftproof
