// SPDX-License-Identifier: MIT
// Continues several texts by one model, a token of each in every pass.
#pragma once

#include <optional>
#include <span>
#include <vector>

#include "ref/base/error.h"
#include "ref/drafts/draft.h"
#include "ref/models/model.h"

namespace draftproof {

struct Continuation {
  ProposeJob& job;
  Cache& cache;
  Transaction rows;           // of the cache, rolled back unless they are committed
  std::vector<Token> tokens;  // what the first pass reads, the anchor last, then what the text goes on with
  std::size_t written = 0;    // tokens whose rows are in the cache
  bool done = false;
};

/// Adds at most `limit` draft tokens to every job that has no error. `next(i, logits)`: adds one to the i-th job, by
/// the row of logits after the tokens so far, and returns it; nothing when the proposal ends there. What it throws is
/// the error of its job.
template <class Next>
void continue_texts(Model& model, std::span<Continuation> texts, Outputs& outputs, const Next& next) {
  std::vector<Segment> batch;
  std::vector<std::size_t> in_batch;
  for (int step = 0;; ++step) {
    batch.clear();
    in_batch.clear();
    for (std::size_t i = 0; i < texts.size(); ++i) {
      Continuation& text = texts[i];
      if (text.job.error || text.done || step >= text.job.limit) continue;
      const auto tokens = std::span<const Token>(text.tokens).subspan(text.written);
      const int last = static_cast<int>(tokens.size()) - 1;
      batch.push_back({.cache = &text.cache, .tokens = tokens, .logits_from = last});
      in_batch.push_back(i);
    }
    if (batch.empty()) return;
    model.forward(batch, outputs);
    for (std::size_t k = 0; k < batch.size(); ++k) {
      Continuation& text = texts[in_batch[k]];
      const SegmentOutput& output = outputs.segments[k];
      text.written = text.tokens.size();
      try {
        if (!output.error.empty()) throw Error(output.error);
        const std::optional<Token> token = next(in_batch[k], output.logits);
        if (token) text.tokens.push_back(*token);
        else text.done = true;
      } catch (...) {
        text.job.error = std::current_exception();
      }
    }
  }
}

}  // namespace draftproof
