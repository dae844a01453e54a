// SPDX-License-Identifier: MIT
#include "ref/decoding/draft_costs.h"

#include <algorithm>
#include <cmath>
#include <functional>
#include <limits>
#include <vector>

#include "ref/acceptance/proposal.h"
#include "ref/acceptance/sampler.h"
#include "ref/base/stopwatch.h"

namespace draftproof {
namespace {

constexpr int text_length = 64;
constexpr double seconds_to_measure = 0.5;
constexpr int repeats_min = 2;
constexpr int repeats_max = 40;
constexpr int observed_each_time = DraftCosts::observed;
constexpr int times_read = 2;  // the text again; the first leaves the CPU's caches as a decoding loop finds them

/// The counts of draft tokens that are measured; what lies between is interpolated.
std::vector<int> measured_counts(int draft_max) {
  std::vector<int> counts;
  for (int n = 0; n < draft_max; n = std::max(1, 2 * n)) counts.push_back(n);
  counts.push_back(draft_max);
  return counts;
}

/// Least seconds by count of draft tokens.
class CostCurve {
 public:
  explicit CostCurve(std::vector<int> counts)
      : counts_(std::move(counts)), seconds_(counts_.size(), std::numeric_limits<double>::infinity()) {}

  /// Runs every count twice: the first run leaves the CPU's caches as a decoding loop finds them.
  void measure(const std::function<void(int n)>& run) {
    for (std::size_t i = 0; i < counts_.size(); ++i) {
      run(counts_[i]);
      double seconds = 0;
      {
        const Stopwatch watch(seconds);
        run(counts_[i]);
      }
      seconds_[i] = std::min(seconds_[i], seconds);
    }
  }

  std::vector<double> at_every_count() const {
    std::vector<double> all;
    for (std::size_t i = 0; i + 1 < counts_.size(); ++i) {
      const int steps = counts_[i + 1] - counts_[i];
      for (int step = 0; step < steps; ++step) {
        all.push_back(seconds_[i] + (seconds_[i + 1] - seconds_[i]) * step / steps);
      }
    }
    all.push_back(seconds_.back());
    return all;
  }

 private:
  std::vector<int> counts_;  // ascending
  std::vector<double> seconds_;
};

}  // namespace

DraftCosts measure_draft_costs(Model& target, std::span<const std::shared_ptr<Drafter>> stages, int draft_max,
                               int positions, const Sampling& sampling) {
  const int rows = 1 + draft_max;
  const int observed = (1 + times_read) * text_length + repeats_max * observed_each_time;
  const int capacity = std::min(positions, observed + rows);
  const int length = std::min(text_length, capacity - rows);
  std::vector<Token> text;
  for (int i = 0; i < capacity; ++i) text.push_back((i * 37 + 1) % target.vocabulary());

  const auto cache = target.new_cache(capacity, std::max(Draft::max_chunk, rows));
  Outputs outputs;
  const auto pass = [&](std::span<const Token> tokens, std::span<const int> taps, int logits_from) {
    forward_alone(target, {.cache = cache.get(), .tokens = tokens, .taps = taps, .logits_from = logits_from}, outputs);
  };
  struct Stage {
    std::unique_ptr<Draft> draft;
    std::vector<float> features;  // of the text
    CostCurve rounds;             // a proposal and the pass that verifies it
    double observing = std::numeric_limits<double>::infinity();
  };
  std::vector<Stage> measured;
  const auto begin = std::span(text).first(static_cast<std::size_t>(length));
  for (const auto& drafter : stages) {
    auto draft = drafter->open(capacity, draft_max);
    draft->use_target_cache(*cache);
    {
      const Transaction rolled_back = cache->begin(length);
      pass(begin, draft->taps(), length);
    }
    const std::span<const float> features = outputs.segments[0].features;
    draft->observe(begin, features);
    CostCurve curve(measured_counts(std::min(draft_max, draft->draft_max())));
    measured.push_back({std::move(draft), {features.begin(), features.end()}, std::move(curve)});
  }
  const auto unread = [&](int rows_wanted) {
    return std::span<const Token>(text).subspan(static_cast<std::size_t>(cache->length()),
                                                static_cast<std::size_t>(rows_wanted));
  };
  const auto read = [&](int rows_wanted) {
    Transaction reading = cache->begin(rows_wanted);
    pass(unread(rows_wanted), {}, rows_wanted);
    reading.commit(rows_wanted);
  };
  read(length);

  CostCurve verifying(measured_counts(draft_max));
  PhiloxSource random(0);
  Sampler sampler;
  double spent = 0;
  for (int repeat = 0; repeat < repeats_max && (repeat < repeats_min || spent < seconds_to_measure); ++repeat) {
    const Stopwatch watch(spent);
    const auto verify = [&](int n, std::span<const int> taps) {
      const Transaction rolled_back = cache->begin(1 + n);
      pass(unread(1 + n), taps, 0);
    };
    verifying.measure([&](int n) { verify(n, {}); });
    for (Stage& stage : measured) {
      stage.rounds.measure([&](int n) {
        if (n > 0) {
          const int position = cache->length() + 1;
          const auto committed = std::span(text).first(static_cast<std::size_t>(position));
          ProposalBuilder builder(sampling, committed, 0, position, Purpose::draft, random, sampler);
          stage.draft->propose(committed.back(), n, builder);
        }
        verify(n, stage.draft->taps());
      });
    }
    if (cache->length() + observed_each_time + rows > capacity - times_read * length) continue;
    for (Stage& stage : measured) {
      double seconds = 0;
      {
        const Stopwatch observe(seconds);
        const std::size_t width = stage.features.size() / static_cast<std::size_t>(length);
        stage.draft->observe(unread(observed_each_time), std::span(stage.features).first(width * observed_each_time));
      }
      stage.observing = std::min(stage.observing, seconds);
    }
    read(observed_each_time);
  }

  DraftCosts costs{.verify = verifying.at_every_count(), .draft = {}, .reading = {}};
  for (Stage& stage : measured) {
    double reading = stage.observing / observed_each_time;  // of a text too short to measure it
    int first = cache->length();
    for (int time = 0; time < times_read && first + length <= capacity; ++time) {
      reading = 0;
      {
        const Stopwatch observe(reading);
        stage.draft->observe(std::span(text).subspan(static_cast<std::size_t>(first), begin.size()), stage.features);
      }
      reading /= length;
      first += length;
    }
    costs.reading.push_back(std::isfinite(reading) ? reading : 0);
    std::vector<double> draft = stage.rounds.at_every_count();
    const double observing = std::isfinite(stage.observing) ? stage.observing : 0;
    for (std::size_t n = 0; n < draft.size(); ++n) {
      draft[n] = std::max(0.0, draft[n] - costs.verify[n]) + (n > 0 ? observing : 0);
    }
    costs.draft.push_back(std::move(draft));
  }
  return costs;
}

}  // namespace draftproof
