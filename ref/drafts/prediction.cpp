// SPDX-License-Identifier: MIT
#include "ref/drafts/prediction.h"

#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "ref/base/error.h"
#include "ref/drafts/suffix.h"

namespace draftproof {
namespace {

constexpr int depth = 64;
constexpr double factor = 4;  // one token found again is followed by a short proposal, four by a full one

class PredictionDraft final : public TextDraft {
 public:
  PredictionDraft(std::vector<Token> looked_up, int draft_max)
      : TextDraft(draft_max), looked_up_(std::move(looked_up)) {}

 protected:
  void learn(std::span<const Token>, std::size_t) override {}
  void continue_text(std::span<const Token> text, int limit, std::vector<Token>& draft_tokens) override {
    if (!corpus_) {  // a text that waits for its turn takes no memory for it
      SuffixCorpus corpus(depth);
      corpus.append(looked_up_);
      corpus_ = std::move(corpus);
    }
    draft_tokens = corpus_->candidate(text, limit, settings_).tokens;
  }
  void clear() override { corpus_.reset(); }

 private:
  std::vector<Token> looked_up_;
  SuffixSettings settings_ = {
      .depth = depth, .min_match = 1, .min_prob = 0.1, .factor = factor, .offset = 0, .m = draft_max()};
  std::optional<SuffixCorpus> corpus_;  // of them, once it was asked
};

}  // namespace

MemoryNeed need_of_prediction(std::size_t tokens) {
  MemoryNeed need = need_of_text(0);
  need.cache_fixed = tokens * (sizeof(Token) + SuffixCorpus::bytes_per_token);
  return need;
}

std::unique_ptr<Draft> prediction_draft(std::span<const Token> prediction, std::span<const Token> prompt,
                                        const Model& target, int draft_max) {
  if (prediction.size() > static_cast<std::size_t>(target.context())) {
    throw Error("the prediction has " + std::to_string(prediction.size()) +
                " tokens, and the context of the target has " + std::to_string(target.context()) +
                "; give a shorter one");
  }
  for (const Token token : prediction) {
    if (token >= 0 && token < target.vocabulary()) continue;
    throw Error("the prediction: " + std::to_string(token) + " is no token of the target, 0 to " +
                std::to_string(target.vocabulary() - 1) + "; use the target's tokenizer");
  }
  const std::span<const Token> before = end_of_prompt(prompt);
  std::vector<Token> looked_up(before.begin(), before.end());
  looked_up.insert(looked_up.end(), prediction.begin(), prediction.end());
  return std::make_unique<PredictionDraft>(std::move(looked_up), draft_max);
}

}  // namespace draftproof
