// SPDX-License-Identifier: MIT
#include "ref/text/tokenizer.h"

#include <algorithm>

#include "ref/base/error.h"
#include "ref/base/presence.h"
#include "ref/base/utf8.h"
#include "ref/text/tokenizer_parts.h"

namespace draftproof {
namespace {

constexpr std::size_t text_bytes_max = std::size_t{1} << 30;  // positions in a text are 32 bits

/// The tokenizer file of a folder; tokenizer.json, which more programs read, if there is none.
std::filesystem::path file_in(const std::filesystem::path& folder) {
  const std::filesystem::path json = folder / "tokenizer.json";
  if (is_present(json)) return json;
  for (const char* const other : {"tokenizer.model", "tiktoken.model"}) {
    if (is_present(folder / other)) return folder / other;
  }
  return json;
}

TokenizerParts read_parts(const std::filesystem::path& path) {
  if (std::filesystem::is_directory(path)) return read_parts(file_in(path));
  if (path.extension() == ".gguf") return read_tokenizer_gguf(path.string(), read_gguf_metadata(path));
  if (path.filename() == "tiktoken.model") return read_tokenizer_tiktoken(path);
  return path.extension() == ".model" ? read_tokenizer_model(path) : read_tokenizer_json(path);
}

/// The parts of the ranges inside of [begin, end), counted from `begin`.
std::vector<TextRange> ranges_within(std::span<const TextRange> ranges, std::size_t begin, std::size_t end) {
  std::vector<TextRange> inside;
  auto range = std::ranges::partition_point(ranges, [&](const TextRange& r) { return r.end <= begin; });
  for (; range != ranges.end() && range->begin < end; ++range) {
    inside.push_back({std::max(range->begin, begin) - begin, std::min(range->end, end) - begin});
  }
  return inside;
}

}  // namespace

struct Tokenizer::Impl {
  explicit Impl(TokenizerParts from)
      : parts(std::move(from)), raw_cutter(parts.added_raw), normalized_cutter(parts.added_normalized) {}

  const TokenizerParts::Entry* entry(Token token) const {
    const auto index = static_cast<std::size_t>(token);
    return token >= 0 && index < parts.entries.size() ? &parts.entries[index] : nullptr;
  }

  /// What one call of encode has in common.
  struct Encoding {
    MatchBudget budget;
    PieceWork work;
    std::vector<Token> tokens;
  };
  /// Encodes a part between added tokens, before it is normalized. `first`: the whole text begins here. `special`:
  /// where special tokens may be.
  void encode_part(std::string_view text, bool first, std::span<const TextRange> special, Encoding& encoding) const;
  void encode_normalized(std::string_view text, bool first, std::span<const TextRange> special,
                         Encoding& encoding) const;
  /// Returns the ranges of `text` in `normalized`, what the normalizer makes of it. A range whose place is not certain,
  /// because characters on both sides of its border became one, is left out.
  std::vector<TextRange> ranges_of_normalized(std::string_view text, std::string_view normalized,
                                              std::span<const TextRange> ranges, Encoding& encoding) const;

  TokenizerParts parts;
  AddedTokenCutter raw_cutter;
  AddedTokenCutter normalized_cutter;
};

std::vector<TextRange> Tokenizer::Impl::ranges_of_normalized(std::string_view text, std::string_view normalized,
                                                             std::span<const TextRange> ranges,
                                                             Encoding& encoding) const {
  const auto place_of = [&](std::size_t border) -> std::optional<std::size_t> {
    if (border == 0 || border == text.size()) return border == 0 ? 0 : normalized.size();
    const std::string before = parts.normalizer.apply(text.substr(0, border), encoding.budget);
    return normalized.starts_with(before) ? std::optional(before.size()) : std::nullopt;
  };
  std::vector<TextRange> result;
  if (!normalized_cutter.has_special()) return result;
  for (const TextRange& range : ranges) {
    const auto begin = place_of(range.begin);
    const auto end = place_of(range.end);
    if (begin && end && *begin < *end) result.push_back({*begin, *end});
  }
  return result;
}

void Tokenizer::Impl::encode_part(std::string_view text, bool first, std::span<const TextRange> special,
                                  Encoding& encoding) const {
  if (parts.normalizer.empty()) return encode_normalized(text, first, special, encoding);
  const std::string normalized = parts.normalizer.apply(text, encoding.budget);
  encode_normalized(normalized, first, ranges_of_normalized(text, normalized, special, encoding), encoding);
}

void Tokenizer::Impl::encode_normalized(std::string_view text, bool first, std::span<const TextRange> special,
                                        Encoding& encoding) const {
  for (const TextPart& part : normalized_cutter.cut(text, special)) {
    if (part.token >= 0) {
      encoding.tokens.push_back(part.token);
    } else {
      const bool begins = first && part.text.data() == text.data();
      const Pieces pieces = parts.pre_tokenizer.split(part.text, begins, encoding.budget);
      parts.model->encode(pieces.list, encoding.work, encoding.tokens);
    }
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
  return files.metadata() == nullptr ? load(files.path()) : load(files.path().string(), *files.metadata());
}

Tokenizer Tokenizer::load(const std::string& file, const GgufMetadata& metadata) {
  return Tokenizer(std::make_unique<Impl>(read_tokenizer_gguf(file, metadata)));
}

bool Tokenizer::is_in(const Checkpoint& files) {
  if (const GgufMetadata* const metadata = files.metadata()) return metadata->contains("tokenizer.ggml.tokens");
  return is_present(file_in(files.path()));
}

std::vector<Token> Tokenizer::encode(std::string_view text, bool add_special, bool parse_special) const {
  const TextRange whole{0, text.size()};
  return encode(text, add_special, std::span(&whole, parse_special ? 1 : 0));
}

std::vector<Token> Tokenizer::encode(std::string_view text, bool add_special,
                                     std::span<const TextRange> special) const {
  if (text.size() > text_bytes_max) throw Error("the text to encode is longer than 1 GiB; encode it in parts");
  if (!utf8::is_valid(text)) throw Error("the text to encode is not UTF-8; convert it first");
  const TokenizerParts& parts = impl_->parts;
  Impl::Encoding encoding{MatchBudget(text.size()), {}, {}};
  std::vector<Token>& tokens = encoding.tokens;
  if (add_special) tokens = parts.before;
  for (const TextPart& part : impl_->raw_cutter.cut(text, special)) {
    if (part.token >= 0) {
      tokens.push_back(part.token);
    } else {
      const auto begin = static_cast<std::size_t>(part.text.data() - text.data());
      impl_->encode_part(part.text, begin == 0, ranges_within(special, begin, begin + part.text.size()), encoding);
    }
  }
  if (add_special) tokens.insert(tokens.end(), parts.after.begin(), parts.after.end());
  return std::move(encoding.tokens);
}

const std::vector<Token>& Tokenizer::tokens_before() const noexcept { return impl_->parts.before; }
const std::vector<Token>& Tokenizer::tokens_after() const noexcept { return impl_->parts.after; }

void Tokenizer::append_bytes(Token token, bool skip_special, std::string& bytes) const {
  if (token < 0) throw Error("token " + std::to_string(token) + " cannot be decoded; tokens are not negative");
  const TokenizerParts::Entry* entry = impl_->entry(token);
  if (entry != nullptr && !(skip_special && entry->special)) bytes += entry->bytes;
}

std::string Tokenizer::decode(std::span<const Token> tokens, bool skip_special) const {
  std::string bytes;
  Detokenizer detokenizer(*this, skip_special, TextPlace::beginning);
  for (const Token token : tokens) detokenizer.append(token, bytes);
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

Token Tokenizer::find(std::string_view token_text) const { return impl_->parts.find(token_text); }

std::string_view Tokenizer::text_of(Token token) const {
  const TokenizerParts::Entry* entry = impl_->entry(token);
  return entry != nullptr ? std::string_view(entry->text) : std::string_view();
}

std::string_view Tokenizer::kind() const { return impl_->parts.model->kind(); }

Detokenizer::Detokenizer(const Tokenizer& tokenizer, bool skip_special, TextPlace place)
    : tokenizer_(tokenizer), skip_special_(skip_special) {
  if (place == TextPlace::continuation) return;
  spaces_left_ = tokenizer.impl_->parts.start.spaces;
  in_first_token_ = tokenizer.impl_->parts.start.whole_token;
}

void Detokenizer::append(Token token, std::string& bytes) {
  const std::size_t begin = bytes.size();
  tokenizer_.append_bytes(token, skip_special_, bytes);
  if (bytes.size() == begin) return;
  if (in_first_token_) bytes.erase(std::remove(bytes.begin() + begin, bytes.end(), ' '), bytes.end());
  in_first_token_ = false;
  while (spaces_left_ > 0 && bytes.size() > begin) {
    const bool space = bytes[begin] == ' ';
    if (space) bytes.erase(begin, 1);
    spaces_left_ = space ? spaces_left_ - 1 : 0;
  }
}

TextStream::TextStream(const Tokenizer& tokenizer, const StopStrings& stops, bool skip_special, TextPlace place)
    : detokenizer_(tokenizer, skip_special, place), text_(stops) {}

std::string TextStream::push(Token token) {
  std::string bytes;
  detokenizer_.append(token, bytes);
  return text_.push(bytes);
}

std::string TextStream::finish() { return text_.finish(); }

}  // namespace draftproof
