// SPDX-License-Identifier: MIT
#include "ref/acceptance/bans.h"

#include <algorithm>
#include <utility>

#include "ref/base/require.h"

namespace draftproof {
namespace {

using Words = std::vector<std::vector<Token>>;

class BanReader final : public ConstraintReader {
 public:
  BanReader(std::unique_ptr<ConstraintReader> rest, int vocabulary, std::vector<Token> stops, int min_tokens,
            Words words)
      : rest_(std::move(rest)),
        stops_(std::move(stops)),
        min_tokens_(min_tokens),
        words_(std::move(words)),
        all_(vocabulary) {
    for (Token token = 0; token < vocabulary; ++token) all_.add(token);
  }

  bool possible(std::span<const Token> output) override {
    for (std::size_t size = 0; size < output.size(); ++size) {
      if (bans(output.first(size), output[size])) return false;
    }
    return !rest_ || rest_->possible(output);
  }
  const TokenSet& allowed(std::span<const Token> output) override {
    allowed_ = rest_ ? rest_->allowed(output) : all_;
    const auto remove = [&](Token token) {
      if (allowed_.has(token)) allowed_.remove(token);
    };
    if (too_short(output)) std::ranges::for_each(stops_, remove);
    for (const std::vector<Token>& word : words_) {
      if (begins(word, output)) remove(word.back());
    }
    return allowed_;
  }
  bool complete(std::span<const Token> output) override { return rest_ && rest_->complete(output); }

 private:
  bool too_short(std::span<const Token> output) const { return std::ssize(output) < min_tokens_; }
  /// Whether the output ends with all tokens of the word but the last.
  static bool begins(const std::vector<Token>& word, std::span<const Token> output) {
    const std::size_t size = word.size() - 1;
    return output.size() >= size && std::equal(word.begin(), word.end() - 1, output.end() - std::ssize(word) + 1);
  }
  bool bans(std::span<const Token> output, Token next) const {
    if (too_short(output) && std::ranges::find(stops_, next) != stops_.end()) return true;
    return std::ranges::any_of(
        words_, [&](const std::vector<Token>& word) { return word.back() == next && begins(word, output); });
  }

  std::unique_ptr<ConstraintReader> rest_;
  std::vector<Token> stops_;
  int min_tokens_;
  Words words_;
  TokenSet all_;
  TokenSet allowed_;
};

}  // namespace

Bans::Bans(std::shared_ptr<const Constraint> rest, int vocabulary, std::vector<Token> stops, int min_tokens,
           std::vector<std::vector<Token>> words)
    : rest_(std::move(rest)),
      vocabulary_(vocabulary),
      stops_(std::move(stops)),
      min_tokens_(min_tokens),
      words_(std::move(words)) {
  for (const std::vector<Token>& word : words_) REQUIRE(!word.empty(), "a word has a token");
}

std::unique_ptr<ConstraintReader> Bans::reader() const {
  return std::make_unique<BanReader>(rest_ ? rest_->reader() : nullptr, vocabulary_, stops_, min_tokens_, words_);
}

}  // namespace draftproof
