// SPDX-License-Identifier: MIT
#include "ref/drafts/prediction.h"

#include <algorithm>
#include <string>

#include "ref/base/error.h"
#include "ref/drafts/suffix.h"

namespace draftproof {
namespace {

/// Four draft tokens for each that is the same: one token found again is followed by a short proposal, four by a full
/// one. So that the first proposal is a full one, the last four of the prompt stand before the prediction.
constexpr std::size_t from_prompt = 4;
const SuffixSettings settings_of_predictions = {
    .depth = 64, .min_match = 1, .min_prob = 0.1, .factor = 4, .offset = 0, .m = prediction_draft_max};

class PredictionDraft final : public TextDraft {
 public:
  explicit PredictionDraft(const SuffixSettings& settings) : TextDraft(settings.m), settings_(settings) {}

 protected:
  void learn(std::span<const Token>, std::size_t) override {}
  void continue_text(std::span<const Token> text, int limit, std::vector<Token>& draft_tokens) override {
    const SuffixCorpus& prediction = *settings_.corpus;
    draft_tokens = best_candidate(prediction.tree(), prediction.text(), text, limit, settings_).tokens;
  }
  void clear() override {}

 private:
  SuffixSettings settings_;
};

}  // namespace

MemoryNeed need_of_prediction(std::size_t tokens) {
  MemoryNeed need = need_of_text(0);
  need.cache_fixed = (tokens + from_prompt) * (sizeof(Token) + SuffixTree::bytes_per_token);
  return need;
}

std::unique_ptr<Draft> prediction_draft(std::span<const Token> prediction, std::span<const Token> prompt,
                                        int vocabulary, int draft_max) {
  for (const Token token : prediction) {
    if (token >= 0 && token < vocabulary) continue;
    throw Error("the prediction: " + std::to_string(token) + " is no token of the target, 0 to " +
                std::to_string(vocabulary - 1) + "; use the target's tokenizer");
  }
  SuffixSettings settings = settings_of_predictions;
  const auto before = prompt.last(std::min(prompt.size(), from_prompt));
  std::vector<Token> text(before.begin(), before.end());
  text.insert(text.end(), prediction.begin(), prediction.end());
  settings.corpus = std::make_shared<const SuffixCorpus>(std::move(text), settings.depth);
  settings.m = draft_max;
  return std::make_unique<PredictionDraft>(settings);
}

}  // namespace draftproof
