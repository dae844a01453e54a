// SPDX-License-Identifier: MIT
#include "ref/drafts/suffix_pool.h"

#include <algorithm>
#include <utility>

#include "ref/base/require.h"

namespace draftproof {
namespace {

constexpr int depth = 64;

class PoolDraft final : public TextDraft {
 public:
  PoolDraft(std::shared_ptr<const SuffixPool> pool, int draft_max) : TextDraft(draft_max), pool_(std::move(pool)) {}

 protected:
  void learn(std::span<const Token>, std::size_t) override {}
  void continue_text(std::span<const Token> text, int limit, std::vector<Token>& draft_tokens) override {
    draft_tokens = pool_->continuation(text, limit);
  }
  void clear() override {}

 private:
  std::shared_ptr<const SuffixPool> pool_;
};

}  // namespace

SuffixPool::SuffixPool(int max_tokens)
    : half_max_(static_cast<std::size_t>(max_tokens) / 2), halves_{SuffixCorpus(depth), SuffixCorpus(depth)} {
  REQUIRE(max_tokens >= max_tokens_min, "a pool has room for some texts");
}

int SuffixPool::tokens() const noexcept {
  return static_cast<int>(halves_[0].text().size() + halves_[1].text().size());
}

void SuffixPool::add(std::span<const Token> prompt, std::span<const Token> output) {
  const std::span<const Token> before = end_of_prompt(prompt);
  const std::size_t more = 1 + before.size();  // with a separator
  output = output.last(std::min(output.size(), half_max_ - more));
  if (halves_[0].text().size() + output.size() + more > half_max_) {
    std::swap(halves_[0], halves_[1]);
    halves_[0] = SuffixCorpus(depth);
  }
  halves_[0].append(std::array{SuffixTree::separator});
  halves_[0].append(before);
  halves_[0].append(output);
}

std::vector<Token> SuffixPool::continuation(std::span<const Token> text, int limit) const {
  const SuffixSettings settings = {
      .depth = depth, .min_match = 2, .min_prob = 0.1, .factor = 1, .offset = 0, .m = limit};
  SuffixCandidate best;
  for (const SuffixCorpus& half : halves_) {
    SuffixCandidate one = half.candidate(text, limit, settings);
    if (one.score > best.score) best = std::move(one);
  }
  return std::move(best.tokens);
}

std::unique_ptr<Draft> pool_draft(std::shared_ptr<const SuffixPool> pool, int draft_max) {
  return std::make_unique<PoolDraft>(std::move(pool), draft_max);
}

}  // namespace draftproof
