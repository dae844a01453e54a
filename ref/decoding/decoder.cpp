// SPDX-License-Identifier: MIT
#include "ref/decoding/decoder.h"

#include <algorithm>
#include <chrono>
#include <numeric>
#include <string>

#include "kernels/math64.h"
#include "ref/base/require.h"

namespace draftproof {
namespace {

/// Adds the time it lives to a statistic.
class Stopwatch {
 public:
  explicit Stopwatch(double& seconds) : seconds_(seconds), start_(std::chrono::steady_clock::now()) {}
  ~Stopwatch() { seconds_ += std::chrono::duration<double>(std::chrono::steady_clock::now() - start_).count(); }
  Stopwatch(const Stopwatch&) = delete;
  Stopwatch& operator=(const Stopwatch&) = delete;

 private:
  double& seconds_;
  std::chrono::steady_clock::time_point start_;
};

/// Of each row of a window, row 0 being the anchor, the rows above it; empty for a chain.
std::vector<int> depths_of_rows(const Proposal& proposal) {
  std::vector<int> depths;
  if (proposal.is_chain()) return depths;
  for (int guess = -1; guess < proposal.size(); ++guess) depths.push_back(proposal.depth(guess) + 1);
  return depths;
}

/// The target's rows of one round, read in one pass or one by one as the rule asks.
class VerifiedRows final : public TargetRows {
 public:
  VerifiedRows(Model& target, Cache& cache, std::span<const int> taps, const Request& request,
               std::span<const Token> committed, const Proposal& proposal, bool digests, bool rows,
               Statistics& statistics, Outputs& outputs, Sampler& sampler, Distribution& distribution, Round& round)
      : target_(target), cache_(cache), taps_(taps), request_(request), committed_(committed), proposal_(proposal),
        digests_(digests), keep_rows_(rows), statistics_(statistics), outputs_(outputs), sampler_(sampler),
        distribution_(distribution), round_(round) {
    tokens_.push_back(committed.back());
    tokens_.insert(tokens_.end(), proposal.tokens.begin(), proposal.tokens.end());
    if (!serial()) read(tokens_, depths_of_rows(proposal));
  }

  const Distribution& row(int row) override {
    REQUIRE(row >= asked_ && row < static_cast<int>(tokens_.size()), "rows are asked for in ascending order");
    asked_ = row;
    const std::vector<int> path = proposal_.path_to(row - 1);
    guessed_.clear();
    for (const int guess : path) guessed_.push_back(proposal_.tokens[static_cast<std::size_t>(guess)]);
    while (serial() && rows_read_ <= static_cast<int>(path.size())) {
      read(std::span(rows_read_ == 0 ? &tokens_[0] : &guessed_[static_cast<std::size_t>(rows_read_ - 1)], 1), {});
    }
    const auto logits = outputs_.logits_row(serial() ? 0 : row, target_.vocabulary());
    sampler_.read(logits, request_.sampling, {committed_, guessed_}, distribution_);
    if (digests_) {
      round_.logits.push_back(digest_of(logits));
      round_.targets.push_back(distribution_.fingerprint());
    }
    if (keep_rows_) round_.rows.push_back(distribution_);
    return distribution_;
  }

  /// Whether the window holds a tree: read row by row, it holds the guesses that were asked for and no others.
  bool tree() const { return !serial() && !proposal_.is_chain(); }

  /// Where in the window the anchor and the first guesses on the way to `last` lie, `count` rows in all.
  std::vector<int> rows_towards(int last, int count) const {
    std::vector<int> rows(static_cast<std::size_t>(count));
    std::iota(rows.begin(), rows.end(), 0);
    if (!tree()) return rows;
    const std::vector<int> path = proposal_.path_to(last);
    for (std::size_t i = 1; i < rows.size(); ++i) rows[i] = path[i - 1] + 1;
    return rows;
  }

  /// The features of these rows, in ascending order. Once: they are moved together.
  std::span<const float> take_features(std::span<const int> rows) {
    const std::size_t width = taps_.size() * static_cast<std::size_t>(target_.hidden());
    for (std::size_t i = 0; i < rows.size(); ++i) {
      const auto row = static_cast<std::size_t>(rows[i]);
      if (row != i) std::copy_n(features_.data() + row * width, width, features_.data() + i * width);
    }
    return std::span(features_).first(rows.size() * width);
  }

 private:
  bool serial() const { return request_.verification == Verification::serial; }

  void read(std::span<const Token> tokens, std::span<const int> depths) {
    const Stopwatch watch(statistics_.target_seconds);
    target_.forward({.tokens = tokens, .depths = depths, .taps = taps_}, cache_, outputs_);
    features_.insert(features_.end(), outputs_.features.begin(), outputs_.features.end());
    rows_read_ += static_cast<int>(tokens.size());
    ++round_.passes;
  }

  Model& target_;
  Cache& cache_;
  std::span<const int> taps_;
  const Request& request_;
  std::span<const Token> committed_;
  const Proposal& proposal_;
  bool digests_;
  bool keep_rows_;
  Statistics& statistics_;
  Outputs& outputs_;
  Sampler& sampler_;
  Distribution& distribution_;
  Round& round_;
  std::vector<Token> tokens_;   // anchor and guesses
  std::vector<Token> guessed_;  // above the row asked for last, and its own
  std::vector<float> features_;
  int rows_read_ = 0;
  int asked_ = 0;
};

/// z_token - log(sum of exp(z)), in double, token ascending.
double log_probability(std::span<const float> logits, Token token) {
  const double best = *std::max_element(logits.begin(), logits.end());
  double sum = 0;
  for (const float logit : logits) sum += exp64(logit - best);
  return logits[static_cast<std::size_t>(token)] - best - log64(sum);
}

/// Cuts after the first stop token: nothing after it can become text.
void cut_after_stop(const Request& request, std::vector<Token>& tokens) {
  const auto stop = std::find_if(tokens.begin(), tokens.end(), [&](Token token) { return request.stops_at(token); });
  if (stop != tokens.end()) tokens.erase(stop + 1, tokens.end());
}

}  // namespace

std::string misfit(const Request& request, const Model& target) {
  if (request.prompt.empty()) return "the prompt is empty; give at least one token to continue";
  for (const Token token : request.prompt) {
    if (token < 0 || token >= target.vocabulary()) {
      return "prompt token " + std::to_string(token) + " lies outside the vocabulary of " +
             std::to_string(target.vocabulary());
    }
  }
  if (request.max_new_tokens < 0) return "the number of new tokens is negative";
  const auto wanted = request.prompt.size() + static_cast<std::size_t>(request.max_new_tokens);
  if (wanted > static_cast<std::size_t>(target.context())) {
    return "the prompt of " + std::to_string(request.prompt.size()) + " tokens and " +
           std::to_string(request.max_new_tokens) + " new ones need " + std::to_string(wanted) +
           " positions, the target has " + std::to_string(target.context());
  }
  return "";
}

Decoder::Decoder(Model& target, Draft& draft, const Rule& rule, Chance& chance, Request request, Recording recording)
    : target_(target), draft_(draft), rule_(rule), chance_(chance), recording_(recording), text_(request.prompt) {
  REQUIRE(misfit(request, target).empty(), "the request fits the target");
  const int capacity = static_cast<int>(request.prompt.size()) + request.max_new_tokens;
  horizon_ = 1 + std::clamp(std::min(request.draft_max, draft.draft_max()), 0, std::max(0, request.max_new_tokens - 1));
  cache_ = target.new_cache(capacity, std::max(Draft::run_max, horizon_));
  // Room for the whole run now: recording a round cannot fail half-way.
  text_.reserve(static_cast<std::size_t>(capacity));
  trace_.output.reserve(static_cast<std::size_t>(request.max_new_tokens));
  trace_.rounds.reserve(static_cast<std::size_t>(request.max_new_tokens));
  trace_.request = std::move(request);
}

int Decoder::tokens_left() const { return trace_.request.max_new_tokens - static_cast<int>(trace_.output.size()); }

bool Decoder::read_prompt(const std::atomic<bool>* cancelled) {
  const Stopwatch watch(trace_.statistics.prompt_seconds);
  const int before_anchor = static_cast<int>(trace_.request.prompt.size()) - 1;
  const int asked = trace_.request.prompt_rows;
  const int rows_max = asked > 0 ? std::min(asked, Draft::run_max) : Draft::run_max;
  while (cache_->length() < before_anchor) {
    if (cancelled != nullptr && cancelled->load()) return false;
    const int rows = std::min(rows_max, before_anchor - cache_->length());
    const auto tokens = std::span<const Token>(trace_.request.prompt)
                            .subspan(static_cast<std::size_t>(cache_->length()), static_cast<std::size_t>(rows));
    Transaction window = cache_->begin(rows);
    target_.forward({.tokens = tokens, .taps = draft_.taps(), .logits_from = rows}, *cache_, outputs_);
    draft_.observe(tokens, outputs_.features);
    window.commit(rows);
  }
  return true;
}

void Decoder::run(const Watcher& watch, const std::atomic<bool>* cancelled) {
  trace_.finish = Finish::unfinished;
  const bool ready = read_prompt(cancelled);
  trace_.resting_length = cache_->length();
  if (recording_ != Recording::counts) {
    trace_.resting_cache = cache_->digest();
    trace_.resting_draft = draft_.digest();
  }
  while (trace_.finish == Finish::unfinished) {
    if (!trace_.output.empty() && trace_.request.stops_at(text_.back())) {
      trace_.finish = Finish::stop;
    } else if (ready && tokens_left() == 0) {
      trace_.finish = Finish::length;
    } else if (!ready || (cancelled != nullptr && cancelled->load())) {
      trace_.finish = Finish::cancelled;
    } else {
      step(watch.rows);
      if (watch.look) watch.look(trace_);
      forget_rows();
    }
  }
}

void Decoder::forget_rows() {
  Round& round = trace_.rounds.back();
  round.rows = {};
  if (recording_ != Recording::counts) return;
  round.logits = {};
  round.targets = {};
  sampler_.give_back(round.proposal.drawn_from);
}

void Decoder::step(bool rows_watched) {
  const Request& request = trace_.request;
  Statistics& statistics = trace_.statistics;
  Round round;
  round.anchor = text_.back();
  round.position = static_cast<int>(text_.size());
  REQUIRE(cache_->length() == round.position - 1, "the cache holds everything before the anchor");

  // Guess. A round emits one token more than it has guesses, so one less than the budget wastes nothing.
  if (const int limit = std::min(horizon_ - 1, tokens_left() - 1); limit > 0) {
    const Stopwatch watch(statistics.draft_seconds);
    Guesses guesses(request.sampling, text_, request.sequence, round.position, rule_.draft_noise, chance_,
                    sampler_);
    draft_.propose(round.anchor, limit, guesses);
    REQUIRE(guesses.size() <= limit, "a draft makes at most as many guesses as it was asked for");
    round.proposal = std::move(guesses).proposal();
    round.proposal.cut_below([&](Token token) { return request.stops_at(token); });
  }

  // Open, verify, read, judge.
  Transaction window = cache_->begin(1 + round.proposal.size());
  VerifiedRows rows(target_, *cache_, draft_.taps(), request, text_, round.proposal,
                    rows_watched || recording_ != Recording::counts, rows_watched, statistics, outputs_, sampler_, row_,
                    round);
  {
    const double reading = statistics.target_seconds;
    const Stopwatch watch(statistics.validate_seconds);
    round.verdict = rule_.judge(round.proposal, rows, request.sequence, round.position, chance_);
    statistics.validate_seconds -= statistics.target_seconds - reading;  // serial rows are read while judging
    REQUIRE(round.proposal.depth(round.verdict.last) + 1 == round.verdict.accepted, "what stands is a path");
  }
  if (request.logprobs) {
    REQUIRE(round.proposal.size() == 0, "log-probabilities are served by plain decoding");
    round.logprob = log_probability(outputs_.logits_row(0, target_.vocabulary()), round.verdict.next);
  }

  // Stop.
  for (const int guess : round.proposal.path_to(round.verdict.last)) {
    round.emitted.push_back(round.proposal.tokens[static_cast<std::size_t>(guess)]);
  }
  round.emitted.push_back(round.verdict.next);
  cut_after_stop(request, round.emitted);
  round.accepted = std::min(round.verdict.accepted, static_cast<int>(round.emitted.size()));

  // Keep: the anchor and all emitted tokens but the last, which is the next anchor.
  const int kept = static_cast<int>(round.emitted.size());
  const std::vector<int> kept_rows = rows.rows_towards(round.verdict.last, kept);
  {
    const Stopwatch watch(statistics.draft_seconds);
    std::vector<Token> run{round.anchor};
    run.insert(run.end(), round.emitted.begin(), round.emitted.end() - 1);
    draft_.observe(run, rows.take_features(kept_rows));
  }
  rows.tree() ? window.commit(kept_rows) : window.commit(kept);  // nothing fails from here to the end of the record
  text_.insert(text_.end(), round.emitted.begin(), round.emitted.end());
  trace_.output.insert(trace_.output.end(), round.emitted.begin(), round.emitted.end());

  trace_.resting_length = cache_->length();

  // Tell.
  round.cache_length = cache_->length();
  ++statistics.rounds;
  if (const int guesses = round.proposal.size(); guesses > 0) {
    ++statistics.iterations;
    statistics.drafted += guesses;
    statistics.accepted += round.accepted;
    ++(round.nothing_fell() ? statistics.all_accepted : statistics.mismatches);
    ++(request.verification == Verification::serial ? statistics.serial : statistics.batched);
  }
  trace_.rounds.push_back(std::move(round));
  if (recording_ != Recording::counts) {
    trace_.rounds.back().cache = trace_.resting_cache = cache_->digest();
    trace_.rounds.back().draft = trace_.resting_draft = draft_.digest();
  }
}

}  // namespace draftproof
