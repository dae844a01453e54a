// SPDX-License-Identifier: MIT
#include "ref/drafts/suffix.h"

#include <algorithm>
#include <cmath>
#include <string>

#include "ref/base/error.h"
#include "ref/base/incoming.h"
#include "ref/drafts/drafts.h"
#include "ref/drafts/legacy_suffix.h"
#include "ref/drafts/token_file.h"

namespace draftproof {
namespace {

/// Returns the candidate with the largest score of those for the ends of `text`. `find` and `most_frequent` look
/// strings up; the second may leave out what is less probable than min_prob.
template <class Find, class Follow>
SuffixCandidate candidate_by(const Find& find, const Follow& most_frequent, std::span<const Token> text, int limit,
                             const SuffixSettings& settings) {
  SuffixCandidate best;
  SuffixCandidate tried;
  const auto max = static_cast<int>(std::min(text.size(), static_cast<std::size_t>(settings.depth - 1)));
  for (int len = settings.min_match; len <= max; ++len) {
    const auto match = find(text.last(static_cast<std::size_t>(len)));
    if (!match) break;  // nor does a longer one occur
    auto next = most_frequent(*match);
    if (!next) continue;
    const double wanted = std::floor(len * settings.factor + settings.offset + 1e-6);
    tried.score = 0;
    tried.tokens.clear();
    for (double p = 1; next && std::ssize(tried.tokens) < limit; next = most_frequent(next->place)) {
      if (static_cast<double>(tried.tokens.size()) >= wanted) break;
      p = p * next->share;
      if (p < settings.min_prob) break;
      tried.tokens.push_back(next->token);
      tried.score += p;
    }
    if (tried.score >= best.score) std::swap(best, tried);
  }
  return best;
}

/// The same, looked up in the tree of `learned`.
SuffixCandidate best_candidate(const SuffixTree& tree, std::span<const Token> learned, std::span<const Token> text,
                               int limit, const SuffixSettings& settings) {
  return candidate_by([&](std::span<const Token> string) { return tree.find(learned, string); },
                      [&](SuffixTree::Place place) { return tree.most_frequent(learned, place); }, text, limit,
                      settings);
}

/// The same in an index.
SuffixCandidate best_candidate(const SuffixIndex& index, std::span<const Token> text, int limit,
                               const SuffixSettings& settings) {
  const auto most_frequent = [&](const SuffixIndex::Place& place) {
    return place.length < settings.depth ? index.most_frequent(place, settings.min_prob) : std::nullopt;
  };
  return candidate_by([&](std::span<const Token> string) { return index.find(string); }, most_frequent, text, limit,
                      settings);
}

}  // namespace

void SuffixDraft::learn(std::span<const Token> text, std::size_t learned) {
  const auto size = static_cast<int>(learned);
  if (tree_.size() > size && text[learned] != anchor_) tree_.clear();  // it was asked about another anchor
  while (tree_.size() <= size) tree_.append(text);
}

void SuffixDraft::continue_text(std::span<const Token> text, int limit, std::vector<Token>& draft_tokens) {
  learn(text, text.size() - 1);
  anchor_ = text.back();
  SuffixCandidate best = best_candidate(tree_, text, text, limit, settings_);
  SuffixCandidate other;
  if (settings_.corpus) other = settings_.corpus->candidate(text, limit, settings_);
  if (settings_.index) other = best_candidate(*settings_.index, text, limit, settings_);
  if (other.score > best.score) std::swap(best, other);
  draft_tokens.insert(draft_tokens.end(), best.tokens.begin(), best.tokens.end());
}

int SuffixCorpus::tokens_in(const std::filesystem::path& file) {
  const std::string wanted = "a corpus is a file of int32 in little-endian order: tokens, and -1 between two texts";
  const std::uint64_t tokens = bytes_in_token_file(file, wanted) / sizeof(Token);
  if (tokens > max_tokens) {
    throw Error(file.string() + ": has " + std::to_string(tokens) + " tokens, and a corpus at most " +
                std::to_string(max_tokens) + "; take a part of it");
  }
  return static_cast<int>(tokens);
}

SuffixCorpus::SuffixCorpus(const std::filesystem::path& file, int vocabulary, int depth)
    : text_(static_cast<std::size_t>(tokens_in(file))), tree_(depth) {
  const auto bytes = static_cast<std::streamsize>(text_.size() * sizeof(Token));
  Incoming stream(file.string());
  if (stream.sgetn(reinterpret_cast<char*>(text_.data()), bytes) != bytes) {
    throw Error(file.string() + ": became shorter while it was read; try again");
  }
  for (std::size_t i = 0; i < text_.size(); ++i) {
    if (text_[i] >= SuffixTree::separator && text_[i] < vocabulary) continue;
    throw Error(file.string() + ": " + std::to_string(text_[i]) + " at offset " + std::to_string(i * sizeof(Token)) +
                " is neither a token of the target, 0 to " + std::to_string(vocabulary - 1) +
                ", nor -1 between two texts; use the target's tokenizer");
  }
  for (std::size_t i = 0; i < text_.size(); ++i) tree_.append(text_);
}

void SuffixCorpus::append(std::span<const Token> tokens) {
  text_.insert(text_.end(), tokens.begin(), tokens.end());
  while (tree_.size() < std::ssize(text_)) tree_.append(text_);
}

SuffixCandidate SuffixCorpus::candidate(std::span<const Token> text, int limit, const SuffixSettings& settings) const {
  return best_candidate(tree_, text_, text, limit, settings);
}

std::span<const Token> end_of_prompt(std::span<const Token> prompt) {
  return prompt.last(std::min<std::size_t>(prompt.size(), 4));
}

namespace {

constexpr DraftOption options[] = {
    {"depth", 64, 2, 1024, "tokens of a match and of what follows it, at most"},
    {"min_match", 1, 1, 1023, "tokens that must have occurred before"},
    {"min_prob", 0.1, 0, 1, "least probability of a draft token", false},
    {"factor", 1, 0, 64, "draft tokens per token of the match", false},
    {"offset", 0, -1024, 1024, "draft tokens beside those", false},
    {"m", 16, 1, 1024, "draft tokens, at most"},
    legacy_option,
};

MemoryNeed memory_need(const DraftStage& stage, const Checkpoint*, const MemoryNeed&, const LoadOptions&) {
  constexpr int legacy_bytes = LegacySuffixDraft::bytes_per_token;
  const bool legacy = is_legacy(stage);
  MemoryNeed need = need_of_text(legacy ? legacy_bytes + LegacyDraft::bytes_per_round : SuffixTree::bytes_per_token);
  if (stage.path.empty() || SuffixIndex::is_in(stage.path)) return need;  // pages of a mapped file can be given back
  const auto tokens = static_cast<std::uint64_t>(SuffixCorpus::tokens_in(stage.path));
  need.weights["corpus"] = tokens * (sizeof(Token) + SuffixTree::bytes_per_token);
  if (legacy) need.cache_fixed = tokens * legacy_bytes;
  return need;
}

std::unique_ptr<Drafter> load(const DraftStage& stage, const Checkpoint*, const DraftTarget& target,
                              const LoadOptions&) {
  SuffixSettings settings = {.depth = stage.integer("depth"),
                             .min_match = stage.integer("min_match"),
                             .min_prob = stage.option("min_prob"),
                             .factor = stage.option("factor"),
                             .offset = stage.option("offset"),
                             .m = stage.integer("m")};
  if (SuffixIndex::is_in(stage.path)) {
    if (is_legacy(stage)) {
      throw Error(stage.path.string() +
                  ": is an index, which a suffix draft with legacy=1 does not read; make a corpus without --index");
    }
    settings.index = std::make_shared<SuffixIndex>(stage.path, target.model.vocabulary());
  } else if (!stage.path.empty()) {
    settings.corpus = std::make_shared<SuffixCorpus>(stage.path, target.model.vocabulary(), settings.depth);
  }
  if (!is_legacy(stage)) return text_drafter<SuffixDraft>(settings);
  if (settings.corpus && std::ranges::count(settings.corpus->text(), SuffixTree::separator) > 0) {
    throw Error(stage.path.string() +
                ": has -1 between texts, which a suffix draft with legacy=1 does not know; make a corpus of one text");
  }
  return text_drafter<LegacySuffixDraft>(settings);
}

}  // namespace

const DraftKind suffix_kind = {
    .name = "suffix",
    .summary = "what followed the longest likely ends where they occurred before, in the text or in a file of tokens",
    .takes_path = TakesPath::optional,
    .keeps = Keeps::tokens,
    .options = options,
    .need = memory_need,
    .load = load};

}  // namespace draftproof
