// SPDX-License-Identifier: MIT
#include "ref/models/causal_transformer.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <utility>

#include "kernels/packed_activations.h"
#include "kernels/packed_matrix.h"
#include "kernels/threads.h"
#include "ref/base/error.h"
#include "ref/base/require.h"

namespace draftproof {

CausalTransformer::CausalTransformer(const WeightLoader& from, TransformerConfig config, const TensorNames& names)
    : kernels_(from.options.kernels),
      kv_(from.options.kv),
      ranks_(from.options.ranks),
      config_(std::move(config)),
      origin_(from.weights.path().string()),
      head_tokens_(tokens_of_head(from.options, config_.vocabulary)) {
  norm_ = load_norm(from, config_, names.norm, config_.hidden);
  embedding_ = load_table(from, {names.embedding, config_.vocabulary}, config_.hidden);

  // A head in the file is the head, whatever the config says, as the reference implementation has it; one of the same
  // bytes as the embedding is kept once.
  const auto tie = from.weights.config().find("tie_word_embeddings");
  tied_ = !tie || tie->boolean();
  if (from.weights.has("lm_head.weight")) tied_ = from.weights.same("lm_head.weight", names.embedding);
  const char* const name = tied_ ? names.embedding : "lm_head.weight";
  if (tied_) from.loaded("lm_head.weight");
  tied_ = tied_ && head_tokens_ == config_.vocabulary;
  if (!tied_) head_ = load_table(from, {name, head_tokens_, 0, {config_.vocabulary, config_.hidden}}, config_.hidden);
  if (config_.head_bias) head_bias_ = from.floats("lm_head.bias", {config_.vocabulary});
}

std::unique_ptr<Cache> CausalTransformer::new_cache(int capacity, int max_pending_rows) const {
  return new_transformer_cache(config_, kernels_, kv_, capacity, max_pending_rows, ranks_);
}

void CausalTransformer::forward(std::span<const Segment> batch, Outputs& outputs) {
  with_workers([&] { read(batch, outputs); });
}

void CausalTransformer::embed(std::span<const Token> tokens, float* rows) const {
  for (const Token token : tokens) {
    REQUIRE(token >= 0 && token < config_.vocabulary, "a token lies in the vocabulary");
  }
  unpack_rows(kernels_, embedding_, tokens, rows);
  if (config_.embedding_norm) normalize(rows, static_cast<int>(tokens.size()), rows);
  if (config_.embedding_scale == 1) return;
  const std::size_t count = tokens.size() * static_cast<std::size_t>(config_.hidden);
  for (float& value : std::span(rows, count)) value *= config_.embedding_scale;
}

void CausalTransformer::normalize(const float* rows, int count, float* normed) const {
  normalize_rows(kernels_, config_, norm_, rows, count, normed);
}

bool CausalTransformer::unembed(const float* rows, int count, PackedActivations& scratch, float* logits) const {
  pack_activations(kernels_, head_matrix(), rows, config_.hidden, count, scratch);
  if (head_tokens_ < config_.vocabulary) {
    const std::size_t all = static_cast<std::size_t>(count) * static_cast<std::size_t>(config_.vocabulary);
    leave_out_tokens(head_tokens_, config_.vocabulary, {logits, all});
  }
  const bool numbers = matmul_of_numbers(kernels_, head_matrix(), scratch, logits, config_.vocabulary);
  if (!head_bias_.empty()) {
    for (std::ptrdiff_t row = 0; row < count; ++row) {
      kernels_.add(head_bias_.data(), head_bias_.size(), logits + row * config_.vocabulary);
    }
  }
  if (config_.logit_scale != 1) {
    const std::size_t all = static_cast<std::size_t>(count) * static_cast<std::size_t>(config_.vocabulary);
    for (float& logit : std::span(logits, all)) logit *= config_.logit_scale;
  }
  return numbers;
}

void CausalTransformer::head_row(Token token, float* row) const {
  unpack_rows(kernels_, head_matrix(), {&token, 1}, row);
}

void CausalTransformer::attend(int layer, const AttentionShape& shape, int stride, std::span<const LentRows> texts,
                               AttentionScratch& scratch) const {
  const HeldHeads held = held_heads(shape.heads, shape.kv_heads, ranks_);
  AttentionShape here = shape;
  here.heads = held.heads;
  here.kv_heads = held.kv_heads;
  const std::ptrdiff_t width = shape.heads * value_dim(shape);
  const std::ptrdiff_t width_here = held.heads * value_dim(shape);
  std::size_t rows = 0;
  for (const LentRows& text : texts) rows += static_cast<std::size_t>(text.rows);
  std::vector<Visible> visible;
  visible.reserve(rows);  // jobs point to it
  std::vector<float> attended_here(ranks_ == nullptr ? 0 : rows * static_cast<std::size_t>(width_here));
  std::vector<AttentionJob> jobs;
  std::vector<const LentRows*> seeing;  // of each job
  int rows_max = 0;
  int positions_max = 0;
  for (const LentRows& text : texts) {
    const AttentionCache& cache = text.cache->layer<AttentionCache>(config_.cache_of(layer));
    const int position = text.cache->length();
    const Visible seen = {cache.first_visible(position), position};
    if (seen.first == seen.end) {
      std::fill_n(text.attended, text.rows * width, 0.0F);
      continue;
    }
    float* const to = ranks_ == nullptr
                          ? text.attended
                          : attended_here.data() + static_cast<std::ptrdiff_t>(visible.size()) * width_here;
    jobs.push_back(
        {&cache.kv(), text.queries + held.first * shape.head_dim, visible.data() + visible.size(), text.rows, to});
    visible.insert(visible.end(), static_cast<std::size_t>(text.rows), seen);
    seeing.push_back(&text);
    rows_max = std::max(rows_max, text.rows);
    positions_max = std::max(positions_max, position);
  }
  scratch.reserve(here, rows_max, positions_max);
  attention(kernels_, here, jobs, stride, scratch);
  for (std::size_t i = 0; ranks_ != nullptr && i < jobs.size(); ++i) {
    exchange_heads(shape, *ranks_, jobs[i].rows, jobs[i].out, seeing[i]->attended);
  }
}

void CausalTransformer::read(std::span<const Segment> batch, Outputs& outputs) {
  placements_.clear();
  for (const Segment& segment : batch) placements_.push_back(placement_of(segment));
  scratch_.lay_out(config_, placements_);
  float* rows = scratch_.hidden_states.data();
  for (const Segment& segment : batch) {
    embed(segment.tokens, rows);
    rows += segment.tokens.size() * static_cast<std::size_t>(config_.hidden);
  }
  outputs.lay_out(batch, config_.vocabulary, config_.hidden);

  const TransformerPass pass = {kernels_, config_, scratch_, scratch_.rows()};
  begin(pass, batch);
  for (int i = 0; i < layers(); ++i) {
    layer(pass, i);
    tap(batch, i, outputs);
  }
  end(pass);
  for (const Segment& segment : batch) segment.cache->wrote(segment.rows());
  head(batch, outputs);
}

/// Copies the hidden states after layer `layer` into every tap that asks for it.
void CausalTransformer::tap(std::span<const Segment> batch, int layer, Outputs& outputs) const {
  const auto width = static_cast<std::size_t>(config_.hidden);
  const float* hidden = scratch_.hidden_states.data();
  for (std::size_t i = 0; i < batch.size(); ++i) {
    const std::span<const int> taps = batch[i].taps;
    for (std::size_t t = 0; t < taps.size(); ++t) {
      if (taps[t] != layer) continue;
      for (std::size_t row = 0; row < batch[i].tokens.size(); ++row) {
        std::memcpy(outputs.segments[i].features.data() + (row * taps.size() + t) * width, hidden + row * width,
                    width * sizeof(float));
      }
    }
    hidden += batch[i].tokens.size() * width;
  }
}

/// Computes the logits that are wanted, all in one matmul.
void CausalTransformer::head(std::span<const Segment> batch, Outputs& outputs) {
  const auto width = static_cast<std::ptrdiff_t>(config_.hidden);
  int wanted = 0;
  for (std::size_t i = 0; i < batch.size(); ++i) {
    const std::ptrdiff_t first = scratch_.first_rows[i] + batch[i].logits_from;
    normalize(scratch_.hidden_states.data() + first * width, batch[i].rows_wanted(),
              scratch_.normed.data() + wanted * width);
    wanted += batch[i].rows_wanted();
  }
  if (wanted == 0) return;
  const bool numbers = unembed(scratch_.normed.data(), wanted, scratch_.activations, outputs.logits.data());
  if (config_.logit_cap != 0) soft_cap(outputs.logits, config_.logit_cap);
  if (numbers) return;
  for (SegmentOutput& output : outputs.segments) {
    if (std::ranges::any_of(output.logits, [](float logit) { return std::isnan(logit); })) {
      output.error = origin_ + ": the model computes NaN logits; its weights are damaged";
    }
  }
}

}  // namespace draftproof
