// SPDX-License-Identifier: MIT
// suffix: what follows the end of the text most often where it occurred before, followed on as long as it is likely
// (SuffixDecoding, Oliaro et al. 2024; the rules are those of ArcticInference). It is not told what was accepted.
//
// With the committed text t, whose last token is the anchor, and n(s), f(s) of suffix_tree.h: for len = min_match,
// min_match + 1, ..., depth - 1, as long as the last len tokens s have f(s) > 0, a candidate is
//
//   p = 1; until there are floor(len * factor + offset + 1e-6) draft tokens, at most m, or s has `depth` tokens or
//   f(s) = 0: c = the token with the largest n(sc), the smallest of several; p = p * (n(sc) / f(s)); stop when
//   p < min_prob; else c is the next draft token, p is added to the score, and s = sc
//
// in doubles, in this order. The draft tokens are the candidate with the largest score, of several the longest match.
// A corpus has a tree of its own, or an index that is mapped into memory (suffix_index.h), in which the last tokens of
// t are looked up by the same rule. Its candidate is taken when its score is larger.
//
// Example: min_match = 1, min_prob = 0.1, factor = 1, offset = 0, t = [1, 2, 3, 1, 2, 4, 1, 2, 3, 1, 2]. After `2` came
// 3 in two of three places: [3], score 2/3. After `1 2` the same, then 1: [3, 1], score 4/3. After `3 1 2` came 4:
// [4, 1, 2], score 3. After `2 3 1 2`: [4, 1, 2, 3], score 4. After `1 2 3 1 2`: [4, 1, 2, 3, 1], score 5; this one is
// drafted.
//
// Time: expected O(depth) per token, O(depth^2) per proposal. Memory: of a sequence, 4 bytes per token of the text and
// those of its tree (suffix_tree.h); of a corpus, the same once, and none of one with an index.
#pragma once

#include <filesystem>
#include <memory>

#include "ref/drafts/suffix_index.h"
#include "ref/drafts/suffix_tree.h"
#include "ref/drafts/text_draft.h"

namespace draftproof {

struct SuffixSettings;

/// What is drafted after a text, by one tree.
struct SuffixCandidate {
  double score = 0;
  std::vector<Token> tokens;
};

/// Texts to look things up in, besides the text itself. A file of int32 in little-endian order: tokens, and -1 between
/// two texts.
class SuffixCorpus {
 public:
  static constexpr int max_tokens = 1 << 24;
  /// Of one that grows, whose text is in an array with room for at most twice as many.
  static constexpr int bytes_per_token = 2 * sizeof(Token) + SuffixTree::bytes_per_token;

  /// Returns the number of tokens. Throws Error when it is not a file of 1 to max_tokens whole numbers.
  static int tokens_in(const std::filesystem::path& file);

  /// Throws Error, naming the offset, for a number that is neither a token below `vocabulary` nor -1.
  SuffixCorpus(const std::filesystem::path& file, int vocabulary, int depth);
  explicit SuffixCorpus(int depth) : tree_(depth) {}

  /// Adds tokens, or SuffixTree::separator, at the end.
  void append(std::span<const Token> tokens);
  /// Returns the candidate with the largest score of those for the ends of `text`.
  SuffixCandidate candidate(std::span<const Token> text, int limit, const SuffixSettings& settings) const;

  std::span<const Token> text() const noexcept { return text_; }
  const SuffixTree& tree() const noexcept { return tree_; }

 private:
  std::vector<Token> text_;
  SuffixTree tree_;
};

struct SuffixSettings {
  int depth = 0;        // tokens of a match and what follows it, at most
  int min_match = 0;    // tokens that must be the same
  double min_prob = 0;  // of a draft token
  double factor = 0;    // draft tokens per token of the match
  double offset = 0;    // and beside them
  int m = 0;            // draft tokens, at most
  std::shared_ptr<const SuffixCorpus> corpus = nullptr;
  std::shared_ptr<const SuffixIndex> index = nullptr;  // of a corpus, in its place
};

/// What stands before an output in a corpus, so that its first tokens are found too: the last tokens of its prompt.
std::span<const Token> end_of_prompt(std::span<const Token> prompt);

class SuffixDraft final : public TextDraft {
 public:
  SuffixDraft(int draft_max, const SuffixSettings& settings)
      : TextDraft(std::min(draft_max, settings.m)), settings_(settings), tree_(settings.depth) {}

 protected:
  void learn(std::span<const Token> text, std::size_t learned) override;
  void continue_text(std::span<const Token> text, int limit, std::vector<Token>& draft_tokens) override;
  void clear() override { tree_.clear(); }

 private:
  SuffixSettings settings_;
  SuffixTree tree_;   // of the text, and of the anchor when it was asked for a proposal last
  Token anchor_ = 0;  // that one
};

}  // namespace draftproof
