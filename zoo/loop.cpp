// SPDX-License-Identifier: MIT
#include "zoo/loop.h"

#include <algorithm>
#include <limits>
#include <utility>

#include "oracle/plain/plain.h"

namespace draftproof::zoo {
namespace {

bool is_stop(const Request& request, Token token) {
  return std::find(request.stops.begin(), request.stops.end(), token) != request.stops.end();
}

void cut_after_stop(const Request& request, std::vector<Token>& tokens) {
  const auto stop = std::find_if(tokens.begin(), tokens.end(), [&](Token token) { return is_stop(request, token); });
  if (stop != tokens.end()) tokens.erase(stop + 1, tokens.end());
}

Distribution flat(const Distribution& q) {
  const std::uint64_t count = q.tokens().size();
  std::vector<std::uint64_t> weights(count, Distribution::total / count);
  weights.front() += Distribution::total % count;
  return Distribution::exact(q.tokens(), weights);
}

/// Every weight cut to its eight highest bits; what is lost goes to the first.
Distribution shortened(const Distribution& q) {
  std::vector<std::uint64_t> weights;
  std::uint64_t left = Distribution::total;
  for (const std::uint64_t weight : q.weights()) {
    std::uint64_t unit = 1;
    while (weight / unit >= 256) unit *= 2;
    weights.push_back(weight / unit * unit);
    left -= weights.back();
  }
  weights.front() += left;
  return Distribution::exact(q.tokens(), weights);
}

Token best_of(const Distribution& q) {
  const std::vector<std::uint64_t> weights = q.weights();
  const auto best = std::max_element(weights.begin(), weights.end()) - weights.begin();
  return q.tokens()[static_cast<std::size_t>(best)];
}

/// Tokens taken for what they are in the order of their weights, the largest first.
Distribution ranked(const Distribution& p) {
  std::vector<std::uint64_t> weights = p.weights();
  std::sort(weights.rbegin(), weights.rend());
  return Distribution::exact({}, weights);
}

/// `before`: what was drawn from in the round before.
void falsify(Proposal& proposal, const std::vector<Distribution>& before, Fault fault) {
  std::vector<Token>& tokens = proposal.tokens;
  std::vector<Distribution>& drawn_from = proposal.drawn_from;
  if (tokens.empty()) return;
  if (fault == Fault::best_stated_as_drawn) {
    tokens = {best_of(drawn_from[0])};
    drawn_from.resize(1);
  }
  if (fault == Fault::cut_after_drawing) {
    while (!tokens.empty() && drawn_from.back().weight(tokens.back()) < Distribution::total / 3) {
      tokens.pop_back();
      drawn_from.pop_back();
    }
  }
  const std::vector<Distribution> drawn = drawn_from;
  const auto state = [&](std::size_t i, const Distribution& q) {  // what cannot be drawn from q would be found at once
    if (q.weight(tokens[i]) > 0) drawn_from[i] = q;
  };
  for (std::size_t i = 0; i < tokens.size(); ++i) {
    if (fault == Fault::flat_q_stated) drawn_from[i] = flat(drawn_from[i]);
    if (fault == Fault::short_q_stated) drawn_from[i] = shortened(drawn_from[i]);
    if (fault == Fault::last_q_stated) state(i, drawn.back());
    if (fault == Fault::q_of_row_before_stated && i > 0) state(i, drawn[i - 1]);
    if (fault == Fault::q_of_round_before_stated && i < before.size()) state(i, before[i]);
  }
}

class Rows final : public TargetRows {
 public:
  /// `counted`: the text that penalties see.
  Rows(Model& target, Cache& cache, const Request& request, std::span<const Token> counted, Round& round, Fault fault)
      : target_(target), cache_(cache), request_(request), counted_(counted), round_(round), fault_(fault) {
    tokens_.push_back(round.anchor);
    tokens_.insert(tokens_.end(), round.proposal.tokens.begin(), round.proposal.tokens.end());
    if (request.verification == Verification::batched) read(tokens_.size());
  }

  const Distribution& row(int row) override {
    while (logits_.size() <= static_cast<std::size_t>(row)) read(1);
    std::vector<float> logits = logits_[static_cast<std::size_t>(row)];
    round_.logits.push_back(digest_of(logits));
    const int draft_tokens = round_.proposal.size();
    const bool bonus = row == draft_tokens;
    Sampling sampling = request_.sampling;
    auto drafted = std::span<const Token>(tokens_).subspan(1, static_cast<std::size_t>(row));
    if (fault_ == Fault::min_p_on_bonus_only && !bonus) sampling.min_p = 0;
    const bool by_default = (fault_ == Fault::default_sampling_on_draft_rows && !bonus) ||
                            (fault_ == Fault::default_sampling_on_bonus && bonus && draft_tokens > 0);
    if (by_default && !sampling.greedy()) {
      sampling.temperature = 1;
      sampling.top_k = 0;
      sampling.top_p = 1;
      sampling.min_p = 0;
    }
    if (fault_ == Fault::greedy_with_draft && draft_tokens > 0) sampling.temperature = 0;
    if (fault_ == Fault::softmax_with_draft && draft_tokens > 0 && sampling.greedy()) sampling.temperature = 1;
    if (fault_ == Fault::penalties_off_with_draft && draft_tokens > 0) sampling.repeat_last_n = 0;
    if (fault_ == Fault::penalties_off_without_draft && draft_tokens == 0) sampling.repeat_last_n = 0;
    if (fault_ == Fault::penalties_blind_to_draft) drafted = {};
    if (fault_ == Fault::penalty_window_too_long && row > 0 && sampling.repeat_last_n > 0) ++sampling.repeat_last_n;
    if (fault_ == Fault::stops_masked_on_draft_rows && !bonus) {
      for (const Token stop : request_.stops) {
        logits[static_cast<std::size_t>(stop)] = -std::numeric_limits<float>::infinity();
      }
    }
    if (fault_ == Fault::row_padded) logits.resize((logits.size() + 3) / 4 * 4);
    distribution_ = distribution_of(logits, sampling, {counted_, drafted});
    if (fault_ == Fault::ranks_for_tokens && sampling.top_k > 0) distribution_ = ranked(distribution_);
    round_.targets.push_back(distribution_.fingerprint());
    return distribution_;
  }

  int rows_read() const { return static_cast<int>(logits_.size()); }
  const std::vector<float>& logits(std::size_t row) const { return logits_[row]; }

 private:
  void read(std::size_t rows) {
    Outputs outputs;
    target_.forward({.tokens = std::span<const Token>(tokens_).subspan(logits_.size(), rows)}, cache_, outputs);
    ++round_.passes;
    for (int row = 0; row < static_cast<int>(rows); ++row) {
      const auto logits = outputs.logits_row(row, target_.vocabulary());
      logits_.emplace_back(logits.begin(), logits.end());
    }
  }

  Model& target_;
  Cache& cache_;
  const Request& request_;
  std::span<const Token> counted_;
  Round& round_;
  Fault fault_;
  std::vector<Token> tokens_;
  std::vector<std::vector<float>> logits_;
  Distribution distribution_;
};

void count(const Round& round, const Request& request, Fault fault, Statistics& s) {
  ++s.rounds;
  const int draft_tokens = round.proposal.size();
  if (draft_tokens == 0 && fault != Fault::plain_rounds_counted) return;
  ++s.iterations;
  s.accepted += round.accepted;
  s.drafted += fault == Fault::drafted_counted_as_accepted ? round.accepted
               : fault == Fault::drafted_counted_as_limit  ? request.draft_max
                                                           : draft_tokens;
  ++(round.verdict.accepted == draft_tokens ? s.all_accepted : s.mismatches);
  ++(request.verification == Verification::serial ? s.serial : s.batched);
}

}  // namespace

Trace run_loop(Model& target, Draft& draft, const Rule& rule, RandomSource& random, const Request& request,
               const OnRound& on_round, Fault fault) {
  Trace trace;
  trace.request = request;
  std::vector<Token> text = request.prompt;
  const int prefill_chunk = static_cast<int>(text.size()) - 1;
  const int capacity = static_cast<int>(text.size()) + (2 + request.draft_max) * request.max_new_tokens + slack;
  const auto cache = target.new_cache(capacity, std::max(prefill_chunk, 1 + request.draft_max));
  const int piece = request.prefill_chunk > 0 ? request.prefill_chunk : std::max(1, prefill_chunk);
  for (int at = 0; at < prefill_chunk; at += piece) {
    const int overlap = fault == Fault::pieces_overlap && at > 0 ? 1 : 0;
    const int rows = overlap + std::min(piece, prefill_chunk - at);
    const auto run = std::span<const Token>(text).subspan(static_cast<std::size_t>(at - overlap),
                                                          static_cast<std::size_t>(rows));
    Transaction transaction = cache->begin(rows);
    Outputs outputs;
    target.forward({.tokens = run, .logits_from = rows}, *cache, outputs);
    draft.observe(run.subspan(static_cast<std::size_t>(overlap)), {});
    transaction.commit(rows);
  }
  trace.final_length = cache->length();

  std::vector<Token> last_of_rounds = text;
  std::vector<Distribution> drawn_from_before;
  Token anchor_of_drafted = text.back();
  bool plain_before = false;
  int kept_before = 1;
  std::vector<float> row_before;
  int left = request.max_new_tokens;
  if (left == 0) trace.finish = Finish::length;
  while (trace.finish == Finish::unfinished) {
    Round round;
    round.position = static_cast<int>(text.size());
    round.anchor = fault == Fault::stale_anchor && plain_before ? anchor_of_drafted : text.back();

    // Draft token.
    const bool unlimited = fault == Fault::budget_ignored_by_block;
    const int limit = unlimited ? request.draft_max : std::min(request.draft_max, left - 1);
    if (limit > 0) {
      Sampler sampler;
      ProposalBuilder draft_tokens(request.sampling, text, request.sequence, round.position, rule.draft_noise, random,
                      sampler);
      draft.propose(text.back(), limit, draft_tokens);
      round.proposal = draft_tokens.proposal();
      cut_after_stop(request, round.proposal.tokens);
      round.proposal.drawn_from.resize(round.proposal.tokens.size());
      std::vector<Distribution> drawn_from = round.proposal.drawn_from;
      falsify(round.proposal, drawn_from_before, fault);
      drawn_from_before = std::move(drawn_from);
    }
    plain_before = round.proposal.size() == 0;
    if (!plain_before) anchor_of_drafted = text.back();

    // Open, verify, read, judge.
    Transaction transaction = cache->begin(1 + round.proposal.size());
    const bool last_only = fault == Fault::penalties_see_last_of_round;
    Rows rows(target, *cache, request, last_only ? last_of_rounds : text, round, fault);
    round.verdict = rule.judge(round.proposal, rows, request.sequence, round.position, random);

    if (request.logprobs) {
      std::vector<float> row = rows.logits(0);
      if (fault == Fault::logprob_of_row_before && !row_before.empty()) row = row_before;
      if (fault == Fault::logprob_after_temperature && !request.sampling.greedy()) {
        for (float& logit : row) logit /= request.sampling.temperature;
      }
      const bool in_row = static_cast<std::size_t>(round.verdict.next) < row.size();
      round.logprob = in_row ? log_probability(row, round.verdict.next) : 0;
      row_before = rows.logits(0);
    }

    // Stop.
    round.emitted.assign(round.proposal.tokens.begin(), round.proposal.tokens.begin() + round.verdict.accepted);
    const bool unused_slots = round.verdict.accepted == round.proposal.size() && round.verdict.accepted < limit;
    if (fault == Fault::unused_slots_accepted && round.verdict.accepted > 0 && unused_slots) {
      round.emitted.push_back(round.emitted.back());
    }
    round.emitted.push_back(round.verdict.next);
    const bool fills_budget = static_cast<int>(round.emitted.size()) >= left;
    const bool budget_first = fault == Fault::budget_before_stop && fills_budget;
    const bool stops = std::any_of(round.emitted.begin(), round.emitted.end(),
                                   [&](Token token) { return is_stop(request, token); });
    const bool searched = fault != Fault::stop_only_at_block_end && fault != Fault::stop_noticed_only;
    if (!budget_first && searched) cut_after_stop(request, round.emitted);
    round.accepted = std::min(round.verdict.accepted, static_cast<int>(round.emitted.size()));
    if (fault == Fault::bonus_counted_as_accepted) round.accepted = static_cast<int>(round.emitted.size());
    left -= fault == Fault::block_charged_whole ? 1 + round.proposal.size() : static_cast<int>(round.emitted.size());

    // Keep and tell.
    int kept = static_cast<int>(round.emitted.size());
    if (fault == Fault::stale_commit) kept = std::min(std::exchange(kept_before, kept), rows.rows_read());
    if (fault == Fault::block_committed) kept = rows.rows_read();
    kept = std::min(kept, rows.rows_read());
    std::vector<Token> run{text.back()};
    run.insert(run.end(), round.emitted.begin(), round.emitted.end() - 1);
    const bool all_accepted = round.accepted > 0 && round.accepted == round.proposal.size();
    if (fault == Fault::draft_hole && all_accepted) run.pop_back();
    if (fault == Fault::draft_told_ahead) run = round.emitted;
    if (!run.empty()) draft.observe(run, {});
    transaction.commit(kept);
    text.insert(text.end(), round.emitted.begin(), round.emitted.end());
    last_of_rounds.push_back(text.back());
    round.cache_length = cache->length();
    round.cache = cache->digest();
    round.draft = draft.digest();

    count(round, request, fault, trace.statistics);
    if (!budget_first && (is_stop(request, text.back()) || (stops && fault == Fault::stop_noticed_only))) {
      trace.finish = fault == Fault::stop_finishes_by_length ? Finish::length : Finish::stop;
    } else if (left <= 0) {
      trace.finish = Finish::length;
    }
    trace.final_length = cache->length();
    trace.rounds.push_back(std::move(round));
    if (on_round && !on_round(trace) && trace.finish == Finish::unfinished) {
      trace.finish = Finish::cancelled;
      if (fault == Fault::block_committed_on_cancel && kept < rows.rows_read()) {
        const auto refused = std::span<const Token>(trace.rounds.back().proposal.tokens)
                                 .subspan(static_cast<std::size_t>(kept) - 1);
        const int count = static_cast<int>(refused.size());
        Transaction behind = cache->begin(count);
        Outputs outputs;
        target.forward({.tokens = refused, .logits_from = count}, *cache, outputs);
        behind.commit(count);
      }
    }
  }
  trace.output.assign(text.begin() + static_cast<std::ptrdiff_t>(request.prompt.size()), text.end());
  trace.final_cache = cache->digest();
  trace.final_draft = draft.digest();
  return trace;
}

}  // namespace draftproof::zoo
