// SPDX-License-Identifier: MIT
// Shared by the tests of the drafts: rows of chosen logits, and a single proposal outside of the decoding loop.
#pragma once

#include <gtest/gtest.h>

#include <algorithm>
#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <utility>
#include <vector>

#include "ref/acceptance/draw.h"
#include "ref/acceptance/sampler.h"
#include "ref/caches/history_cache.h"
#include "ref/drafts/draft.h"
#include "ref/models/model.h"

namespace draftproof {

/// A model whose logits are any function of the text before the row.
class TableModel final : public OneByOneModel {
 public:
  using LogitsFunction = std::function<std::vector<float>(std::span<const Token> text)>;
  std::function<void(int rows)> written;  // called when a pass has written its rows; may throw

  TableModel(int vocabulary, LogitsFunction logits_of) : vocabulary_(vocabulary), logits_of_(std::move(logits_of)) {}

  int vocabulary() const override { return vocabulary_; }
  int context() const override { return 4096; }
  std::unique_ptr<Cache> new_cache(int capacity, int max_pending_rows) const override {
    std::vector<std::unique_ptr<LayerCache>> layers;
    layers.push_back(std::make_unique<HistoryCache>());
    return std::make_unique<Cache>(std::move(layers), capacity, max_pending_rows);
  }

 private:
  void forward_one(const Segment& segment, Outputs& outputs) override {
    Cache& cache = *segment.cache;
    auto& history = cache.layer<HistoryCache>(0);
    const int rows = segment.rows();
    for (int row = 0; row < rows; ++row) history.write(cache.end() + row, segment.tokens[row]);
    if (written) written(rows);
    outputs.logits.clear();
    outputs.features.clear();
    for (int row = segment.logits_from; row < rows; ++row) {
      const std::vector<float> logits = logits_of_(history.tokens(cache.end() + row + 1));
      outputs.logits.insert(outputs.logits.end(), logits.begin(), logits.end());
    }
    cache.wrote(rows);
  }

  int vocabulary_;
  LogitsFunction logits_of_;
};

inline std::vector<Token> some_text(int size, int vocabulary = 7) {
  std::vector<Token> text;
  for (int i = 0; i < size; ++i) text.push_back((i * i + i / 3) % vocabulary);
  return text;
}

/// Returns the proposal of `draft` after `committed`, of which it has observed all but the last token.
inline Proposal propose(Draft& draft, std::span<const Token> committed, int limit, const Sampling& sampling,
                        RandomSource& random, Purpose noise = Purpose::target, int sequence = 0) {
  Sampler sampler;
  const int position = static_cast<int>(committed.size());
  ProposalBuilder builder(sampling, committed, sequence, position, noise, random, sampler);
  draft.propose(committed.back(), limit, builder);
  return std::move(builder).proposal();
}

/// Checks that drawing from every recorded distribution with its key gives its token again.
inline void expect_redrawn(const Proposal& proposal, int position, Purpose noise, int sequence, RandomSource& random) {
  ASSERT_EQ(proposal.tokens.size(), proposal.drawn_from.size());
  for (int i = 0; i < proposal.size(); ++i) {
    const auto index = static_cast<std::size_t>(i);
    EXPECT_GT(proposal.drawn_from[index].weight(proposal.tokens[index]), 0U);
    EXPECT_EQ(draw(proposal.drawn_from[index], draft_key(sequence, position, i, noise), random),
              proposal.tokens[index]);
  }
}

/// Splits [0, size) into ranges of at most `max`; each digit of `number` selects one split point.
inline std::vector<int> cuts(int size, int max, std::uint32_t number) {
  std::vector<int> runs;
  while (size > 0) {
    number = number * 1664525U + 1013904223U;
    runs.push_back(1 + static_cast<int>((number >> 16) % static_cast<std::uint32_t>(std::min(max, size))));
    size -= runs.back();
  }
  return runs;
}

}  // namespace draftproof
