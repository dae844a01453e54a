// SPDX-License-Identifier: MIT
#include "ref/models/model.h"

#include <algorithm>

#include "ref/base/error.h"
#include "ref/base/require.h"

namespace draftproof {

void Outputs::lay_out(std::span<const Segment> batch, int vocabulary, int hidden) {
  const auto logits_of = [&](const Segment& segment) {
    REQUIRE(segment.logits_from >= 0 && segment.rows_wanted() >= 0, "logits are wanted for rows of the segment");
    return static_cast<std::size_t>(segment.rows_wanted()) * static_cast<std::size_t>(vocabulary);
  };
  const auto features_of = [&](const Segment& segment) {
    return segment.tokens.size() * segment.taps.size() * static_cast<std::size_t>(hidden);
  };
  std::size_t logits_size = 0;
  std::size_t features_size = 0;
  for (const Segment& segment : batch) {
    logits_size += logits_of(segment);
    features_size += features_of(segment);
  }
  logits.resize(logits_size);
  features.resize(features_size);
  segments.resize(batch.size());
  std::span<float> logits_left = logits;
  std::span<float> features_left = features;
  for (std::size_t i = 0; i < batch.size(); ++i) {
    segments[i].logits = logits_left.first(logits_of(batch[i]));
    segments[i].features = features_left.first(features_of(batch[i]));
    segments[i].error.clear();
    logits_left = logits_left.subspan(segments[i].logits.size());
    features_left = features_left.subspan(segments[i].features.size());
  }
}

void forward_alone(Model& model, const Segment& segment, Outputs& outputs) {
  model.forward(std::span(&segment, 1), outputs);
  if (const std::string& error = outputs.segments[0].error; !error.empty()) throw Error(error);
}

void OneByOneModel::forward(std::span<const Segment> batch, Outputs& outputs) {
  outputs.lay_out(batch, vocabulary(), hidden());
  for (std::size_t i = 0; i < batch.size(); ++i) {
    SegmentOutput& output = outputs.segments[i];
    try {
      forward_one(batch[i], one_);
    } catch (const Error& error) {
      output.error = error.what();
      continue;
    }
    REQUIRE(one_.logits.size() == output.logits.size() && one_.features.size() == output.features.size(),
            "a model computes the rows that are wanted");
    std::copy(one_.logits.begin(), one_.logits.end(), output.logits.begin());
    std::copy(one_.features.begin(), one_.features.end(), output.features.begin());
  }
}

}  // namespace draftproof
