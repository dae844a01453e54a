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

/// Adds its lifetime in seconds to a statistic.
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

/// Returns the number of ancestors of each row of the verification pass, whose row 0 is the anchor; empty for a chain.
std::vector<int> depths_of_rows(const Proposal& proposal) {
  std::vector<int> depths;
  if (proposal.is_chain()) return depths;
  for (int node = -1; node < proposal.size(); ++node) depths.push_back(proposal.depth(node) + 1);
  return depths;
}

/// The target's rows of one round. Batched verification computes them in one pass, serial verification one by one when
/// the rule reads them.
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
    REQUIRE(row >= last_row_ && row < static_cast<int>(tokens_.size()), "a rule reads rows in ascending order");
    last_row_ = row;
    const std::vector<int> path = proposal_.path_to(row - 1);
    drafted_.clear();
    for (const int node : path) drafted_.push_back(proposal_.tokens[node]);
    while (serial() && rows_read_ <= static_cast<int>(path.size())) {
      read(std::span(rows_read_ == 0 ? &tokens_[0] : &drafted_[rows_read_ - 1], 1), {});
    }
    const auto logits = outputs_.logits_row(serial() ? 0 : row, target_.vocabulary());
    sampler_.read(logits, request_.sampling, {committed_, drafted_}, distribution_);
    if (digests_) {
      round_.logits.push_back(digest_of(logits));
      round_.targets.push_back(distribution_.fingerprint());
    }
    if (keep_rows_) round_.rows.push_back(distribution_);
    return distribution_;
  }

  /// Whether the pending rows form a tree. Serial verification writes only the rows that the rule reads, which form a
  /// chain.
  bool tree() const { return !serial() && !proposal_.is_chain(); }

  /// Returns the row numbers of the anchor and the first draft tokens on the path to `last`, `count` rows in all.
  std::vector<int> rows_towards(int last, int count) const {
    std::vector<int> rows(static_cast<std::size_t>(count));
    std::iota(rows.begin(), rows.end(), 0);
    if (!tree()) return rows;
    const std::vector<int> path = proposal_.path_to(last);
    for (std::size_t i = 1; i < rows.size(); ++i) rows[i] = path[i - 1] + 1;
    return rows;
  }

  /// Returns the features of these rows, which must be ascending. May be called only once: it compacts them in place.
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
  std::vector<Token> tokens_;   // anchor and draft tokens
  std::vector<Token> drafted_;  // the draft tokens on the path to the row read last
  std::vector<float> features_;
  int rows_read_ = 0;
  int last_row_ = 0;
};

/// Returns z_token - log(sum of exp(z)), in double, summed in order of token.
double log_probability(std::span<const float> logits, Token token) {
  const double best = *std::max_element(logits.begin(), logits.end());
  double sum = 0;
  for (const float logit : logits) sum += exp64(logit - best);
  return logits[token] - best - log64(sum);
}

/// Removes all tokens after the first stop token.
void cut_after_stop(const Request& request, std::vector<Token>& tokens) {
  const auto stop = std::find_if(tokens.begin(), tokens.end(), [&](Token token) { return request.stops_at(token); });
  if (stop != tokens.end()) tokens.erase(stop + 1, tokens.end());
}

}  // namespace

std::string request_error(const Request& request, const Model& target) {
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

Decoder::Decoder(Model& target, Draft& draft, const Rule& rule, RandomSource& random, Request request,
                 Recording recording)
    : target_(target), draft_(draft), rule_(rule), random_(random), recording_(recording), text_(request.prompt) {
  REQUIRE(request_error(request, target).empty(), "the request fits the target");
  const int capacity = static_cast<int>(request.prompt.size()) + request.max_new_tokens;
  const int most_draft_tokens = std::max(0, request.max_new_tokens - 1);
  pending_rows_ = 1 + std::clamp(std::min(request.draft_max, draft.draft_max()), 0, most_draft_tokens);
  cache_ = target.new_cache(capacity, std::max(Draft::max_chunk, pending_rows_));
  // Reserves the memory for all rounds, so that recording a round cannot fail half-way.
  text_.reserve(static_cast<std::size_t>(capacity));
  trace_.output.reserve(static_cast<std::size_t>(request.max_new_tokens));
  trace_.rounds.reserve(static_cast<std::size_t>(request.max_new_tokens));
  trace_.request = std::move(request);
}

int Decoder::tokens_left() const { return trace_.request.max_new_tokens - static_cast<int>(trace_.output.size()); }

bool Decoder::read_prompt(const std::atomic<bool>* cancelled) {
  const Stopwatch watch(trace_.statistics.prompt_seconds);
  const int before_anchor = static_cast<int>(trace_.request.prompt.size()) - 1;
  const int asked = trace_.request.prefill_chunk;
  const int rows_max = asked > 0 ? std::min(asked, Draft::max_chunk) : Draft::max_chunk;
  while (cache_->length() < before_anchor) {
    if (cancelled != nullptr && cancelled->load()) return false;
    const int rows = std::min(rows_max, before_anchor - cache_->length());
    const auto tokens = std::span<const Token>(trace_.request.prompt)
                            .subspan(static_cast<std::size_t>(cache_->length()), static_cast<std::size_t>(rows));
    Transaction transaction = cache_->begin(rows);
    target_.forward({.tokens = tokens, .taps = draft_.taps(), .logits_from = rows}, *cache_, outputs_);
    draft_.observe(tokens, outputs_.features);
    transaction.commit(rows);
  }
  return true;
}

void Decoder::run(const RoundCallback& watch, const std::atomic<bool>* cancelled) {
  trace_.finish = Finish::unfinished;
  const bool ready = read_prompt(cancelled);
  trace_.final_length = cache_->length();
  if (recording_ != Recording::counts) {
    trace_.final_cache = cache_->digest();
    trace_.final_draft = draft_.digest();
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
      if (watch.on_round) watch.on_round(trace_);
      drop_rows();
    }
  }
}

void Decoder::drop_rows() {
  Round& round = trace_.rounds.back();
  round.rows = {};
  if (recording_ != Recording::counts) return;
  round.logits = {};
  round.targets = {};
  sampler_.give_back(round.proposal.drawn_from);
}

/// A round emits up to one token more than it has draft tokens, so more than tokens_left() - 1 of them are useless.
void Decoder::propose(Round& round) {
  const Request& request = trace_.request;
  const int limit = std::min(pending_rows_ - 1, tokens_left() - 1);
  if (limit <= 0) return;
  const Stopwatch watch(trace_.statistics.draft_seconds);
  ProposalBuilder builder(request.sampling, text_, request.sequence, round.position, rule_.draft_noise, random_,
                          sampler_);
  draft_.propose(round.anchor, limit, builder);
  REQUIRE(builder.size() <= limit, "a draft proposes at most `limit` draft tokens");
  round.proposal = std::move(builder).proposal();
  round.proposal.cut_below([&](Token token) { return request.stops_at(token); });
}

void Decoder::step(bool rows_wanted) {
  const Request& request = trace_.request;
  Statistics& statistics = trace_.statistics;
  Round round;
  round.anchor = text_.back();
  round.position = static_cast<int>(text_.size());
  REQUIRE(cache_->length() == round.position - 1, "the cache holds everything before the anchor");

  propose(round);

  // Verify: open a transaction, run the target, and apply the rule.
  Transaction transaction = cache_->begin(1 + round.proposal.size());
  VerifiedRows rows(target_, *cache_, draft_.taps(), request, text_, round.proposal,
                    rows_wanted || recording_ != Recording::counts, rows_wanted, statistics, outputs_, sampler_, row_,
                    round);
  {
    const double reading = statistics.target_seconds;
    const Stopwatch watch(statistics.validate_seconds);
    round.verdict = rule_.judge(round.proposal, rows, request.sequence, round.position, random_);
    // Serial verification runs the target while the rule reads rows; that time counts as target_seconds only.
    statistics.validate_seconds -= statistics.target_seconds - reading;
    REQUIRE(round.proposal.depth(round.verdict.last) + 1 == round.verdict.accepted,
            "the accepted draft tokens are a path");
  }
  if (request.logprobs) {
    REQUIRE(round.proposal.size() == 0, "log-probabilities are served by plain decoding");
    round.logprob = log_probability(outputs_.logits_row(0, target_.vocabulary()), round.verdict.next);
  }

  // Stop.
  for (const int node : round.proposal.path_to(round.verdict.last)) {
    round.emitted.push_back(round.proposal.tokens[node]);
  }
  round.emitted.push_back(round.verdict.next);
  cut_after_stop(request, round.emitted);
  round.accepted = std::min(round.verdict.accepted, static_cast<int>(round.emitted.size()));

  // Keep the rows of the anchor and of all emitted tokens but the last, which is the next anchor.
  const int kept = static_cast<int>(round.emitted.size());
  const std::vector<int> kept_rows = rows.rows_towards(round.verdict.last, kept);
  {
    const Stopwatch watch(statistics.draft_seconds);
    std::vector<Token> committed{round.anchor};
    committed.insert(committed.end(), round.emitted.begin(), round.emitted.end() - 1);
    draft_.observe(committed, rows.take_features(kept_rows));
  }
  rows.tree() ? transaction.commit(kept_rows) : transaction.commit(kept);  // from here on recording cannot fail
  text_.insert(text_.end(), round.emitted.begin(), round.emitted.end());
  trace_.output.insert(trace_.output.end(), round.emitted.begin(), round.emitted.end());
  trace_.final_length = cache_->length();
  record(std::move(round));
}

void Decoder::record(Round round) {
  Statistics& statistics = trace_.statistics;
  round.cache_length = cache_->length();
  ++statistics.rounds;
  if (const int draft_tokens = round.proposal.size(); draft_tokens > 0) {
    ++statistics.iterations;
    statistics.drafted += draft_tokens;
    statistics.accepted += round.accepted;
    ++(round.all_accepted() ? statistics.all_accepted : statistics.mismatches);
    ++(trace_.request.verification == Verification::serial ? statistics.serial : statistics.batched);
  }
  trace_.rounds.push_back(std::move(round));
  if (recording_ != Recording::counts) {
    trace_.rounds.back().cache = trace_.final_cache = cache_->digest();
    trace_.rounds.back().draft = trace_.final_draft = draft_.digest();
  }
}

}  // namespace draftproof
