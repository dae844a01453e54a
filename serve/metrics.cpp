// SPDX-License-Identifier: MIT
#include "serve/metrics.h"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

namespace draftproof::serve {
namespace {

std::string head(const std::string& name, const std::string& type, const std::string& help) {
  return fmt::format("# HELP {} {}\n# TYPE {} {}\n", name, help, name, type);
}

template <class Number>
std::string single(const std::string& name, const std::string& type, const std::string& help, Number value) {
  return head(name, type, help) + fmt::format("{} {}\n", name, value);
}

/// The value of a label: backslash, quote and line end are escaped.
std::string label(const std::string& value) {
  std::string text;
  for (const char c : value) {
    if (c == '\\' || c == '"') text += '\\';
    text += c == '\n' ? std::string("\\n") : std::string(1, c);
  }
  return text;
}

}  // namespace

void Histogram::add(double seconds, std::uint64_t times) {
  const auto bound = std::ranges::lower_bound(bounds, seconds);
  counts_[static_cast<std::size_t>(bound - bounds.begin())] += times;
  sum_ += seconds * static_cast<double>(times);
}

std::string Histogram::text(const std::string& name, const std::string& help) const {
  std::string text = head(name, "histogram", help);
  std::uint64_t below = 0;
  for (std::size_t i = 0; i < bounds.size(); ++i) {
    below += counts_[i];
    text += fmt::format("{}_bucket{{le=\"{}\"}} {}\n", name, bounds[i], below);
  }
  below += counts_.back();
  return text +
         fmt::format("{}_bucket{{le=\"+Inf\"}} {}\n{}_sum {}\n{}_count {}\n", name, below, name, sum_, name, below);
}

void Metrics::count_answer(const std::string& outcome) {
  const std::lock_guard lock(mutex_);
  ++answers_[outcome];
}

void Metrics::count_prompt(int tokens, int reused) {
  const std::lock_guard lock(mutex_);
  prompt_tokens_ += static_cast<std::uint64_t>(tokens);
  reused_tokens_ += static_cast<std::uint64_t>(reused);
}

void Metrics::add_first_token(double seconds) {
  const std::lock_guard lock(mutex_);
  first_token_.add(seconds);
}

void Metrics::add_tokens(int tokens, double seconds) {
  const std::lock_guard lock(mutex_);
  output_tokens_ += static_cast<std::uint64_t>(tokens);
  if (seconds >= 0) between_tokens_.add(seconds / tokens, static_cast<std::uint64_t>(tokens));
}

std::string Metrics::name_of_stage(const Trace& trace, std::size_t stage) const {
  if (stage < trace.own_stages.size()) return trace.own_stages[stage];
  stage -= trace.own_stages.size();
  return stage < stages_.size() ? stages_[stage] : std::to_string(stage);
}

void Metrics::add_rounds(const Trace& trace) {
  const std::vector<StageStatistics> by_stage = statistics_by_stage(trace);
  const std::lock_guard lock(mutex_);
  beyond_draft_ += static_cast<std::uint64_t>(rounds_beyond_draft(trace));
  for (std::size_t stage = 0; stage < by_stage.size(); ++stage) {
    const StageStatistics& one = by_stage[stage];
    const std::string name = name_of_stage(trace, stage);
    OfStage& counts = drafts_[name];
    counts.asked += static_cast<std::uint64_t>(one.times.asked);
    counts.silent += static_cast<std::uint64_t>(one.times.silent);
    counts.failed += static_cast<std::uint64_t>(one.times.failed);
    counts.positions += static_cast<std::uint64_t>(one.positions);
    counts.passed += static_cast<std::uint64_t>(one.passed);
    for (std::size_t depth = 0; depth < one.drafted_by_depth.size(); ++depth) {
      auto& [drafted, accepted] = drafted_[{name, depth}];
      drafted += static_cast<std::uint64_t>(one.drafted_by_depth[depth]);
      if (depth < one.accepted_by_depth.size()) accepted += static_cast<std::uint64_t>(one.accepted_by_depth[depth]);
    }
  }
}

void Metrics::count_load() {
  const std::lock_guard lock(mutex_);
  ++loads_;
  loaded_ = true;
}

void Metrics::count_drop() {
  const std::lock_guard lock(mutex_);
  loaded_ = false;
  running_ = waiting_ = 0;
  counts_before_ += std::exchange(counts_, {});
}

void Metrics::set_queue(int running, int waiting, const SchedulerCounts& counts) {
  const std::lock_guard lock(mutex_);
  running_ = running;
  waiting_ = waiting;
  counts_ = counts;
}

void Metrics::set_draft_speedup(double speedup) {
  const std::lock_guard lock(mutex_);
  draft_speedup_ = speedup;
}

std::string Metrics::text() const {
  const std::lock_guard lock(mutex_);
  std::string text = single("draftproof_answers_running", "gauge", "choices that have KV caches now", running_) +
                     single("draftproof_answers_waiting", "gauge", "choices in the queue now", waiting_);
  text += head("draftproof_answers_total", "counter", "choices that have ended, by how");
  for (const auto& [outcome, count] : answers_) {
    text += fmt::format("draftproof_answers_total{{outcome=\"{}\"}} {}\n", label(outcome), count);
  }
  text += single("draftproof_prompt_tokens_total", "counter", "tokens of prompts", prompt_tokens_) +
          single("draftproof_prompt_tokens_reused_total", "counter", "of these, found in the prefix cache",
                 reused_tokens_) +
          single("draftproof_output_tokens_total", "counter", "tokens of answers", output_tokens_);
  const auto by_stage = [&](const std::string& name, const std::string& help, std::uint64_t OfStage::*count) {
    text += head(name, "counter", help);
    for (const auto& [stage, counts] : drafts_) {
      text += fmt::format("{}{{drafter=\"{}\"}} {}\n", name, label(stage), counts.*count);
    }
  };
  by_stage("draftproof_draft_asked_total", "rounds in which a draft was asked for a proposal", &OfStage::asked);
  by_stage("draftproof_draft_silent_total", "of these, rounds in which it proposed nothing", &OfStage::silent);
  by_stage("draftproof_draft_failed_total", "texts that ended because a draft failed", &OfStage::failed);
  by_stage("draftproof_draft_positions_total", "positions of texts that a draft has read", &OfStage::positions);
  by_stage("draftproof_draft_positions_passed_total", "of these, passed by its window at the end of the text",
           &OfStage::passed);
  const auto by_depth = [&](const std::string& name, const std::string& help, const auto& count_of) {
    text += head(name, "counter", help);
    for (const auto& [place, counts] : drafted_) {
      text += fmt::format("{}{{drafter=\"{}\",depth=\"{}\"}} {}\n", name, label(place.first), place.second,
                          count_of(counts));
    }
  };
  by_depth("draftproof_draft_rounds_total", "rounds with a draft token at this depth",
           [](const auto& counts) { return counts.first; });
  by_depth("draftproof_draft_rounds_accepted_total", "of these, rounds in which one was accepted",
           [](const auto& counts) { return counts.second; });
  text += single("draftproof_rounds_beyond_draft_total", "counter",
                 "rounds of texts that have outgrown the draft's positions", beyond_draft_);
  if (draft_speedup_ > 0) {
    text += single("draftproof_draft_speedup", "gauge",
                   "expected of draft tokens with as many answers as now; below 1 none are drafted", draft_speedup_);
  }
  text += first_token_.text("draftproof_first_token_seconds", "from the request to the first token of a choice") +
          between_tokens_.text("draftproof_token_seconds",
                               "from one round of a choice to the next, divided by the tokens that it gave");
  text += single("draftproof_model_loaded", "gauge", "whether the model is in memory", loaded_ ? 1 : 0) +
          single("draftproof_model_loads_total", "counter", "how often it was loaded", loads_);
  SchedulerCounts counts = counts_before_;
  counts += counts_;
  return text + single("draftproof_passes_total", "counter", "forward passes of the target", counts.passes) +
         single("draftproof_passes_shared_total", "counter", "of these, with rows of more than one choice",
                counts.shared) +
         single("draftproof_rows_total", "counter", "rows of all passes", counts.rows) +
         single("draftproof_preemptions_total", "counter", "choices whose caches were taken", counts.preemptions);
}

}  // namespace draftproof::serve
