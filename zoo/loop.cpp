// SPDX-License-Identifier: MIT
#include "zoo/loop.h"

#include <algorithm>
#include <cmath>
#include <functional>
#include <limits>
#include <memory>
#include <numeric>
#include <utility>

#include "oracle/plain/plain.h"
#include "ref/acceptance/sampler.h"
#include "ref/base/error.h"

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

/// Keeps the eight highest bits of every weight; the remainder goes to the first.
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

/// The two most likely tokens of q, as likely to each other as in q.
Distribution two_best(const Distribution& q) {
  std::vector<std::uint64_t> weights = q.weights();
  if (weights.size() < 3) return q;
  std::vector<std::uint64_t> sorted = weights;
  std::ranges::sort(sorted, std::greater());
  std::uint64_t sum = 0;
  std::size_t kept = 0;
  for (std::uint64_t& weight : weights) {
    if (weight < sorted[1] || kept == 2) weight = 0;
    kept += weight > 0;
    sum += weight;
  }
  std::uint64_t left = Distribution::total;
  for (std::uint64_t& weight : weights) {
    left -= weight = static_cast<std::uint64_t>(static_cast<unsigned __int128>(weight) * Distribution::total / sum);
  }
  *std::ranges::max_element(weights) += left;
  return Distribution::exact(q.tokens(), weights);
}

/// Gives each token the weight of the one after it, the last that of the first.
Distribution by_other_ids(const Distribution& q) {
  std::vector<std::uint64_t> weights = q.weights();
  std::ranges::rotate(weights, weights.begin() + 1);
  return Distribution::exact(q.tokens(), weights);
}

Token best_of(const Distribution& q) {
  const std::vector<std::uint64_t> weights = q.weights();
  const auto best = std::max_element(weights.begin(), weights.end()) - weights.begin();
  return q.tokens()[best];
}

/// Uses ranks as token ids: token i gets the i-th largest weight.
Distribution ranked(const Distribution& p) {
  std::vector<std::uint64_t> weights = p.weights();
  std::sort(weights.rbegin(), weights.rend());
  return Distribution::exact({}, weights);
}

/// Makes the larger of equal logits the best: those of the hash models, and what penalties make of them, are further
/// apart than what is added.
void prefer_larger(std::vector<float>& logits) {
  for (std::size_t token = 0; token < logits.size(); ++token) logits[token] += 0x1p-12F * static_cast<float>(token);
}

/// Returns how many logits are no smaller than the `count`-th largest.
int as_large_as_best(std::vector<float> logits, int count) {
  std::ranges::sort(logits, std::greater());
  const float last = logits[std::min(logits.size(), static_cast<std::size_t>(count)) - 1];
  return static_cast<int>(std::ranges::count_if(logits, [&](float logit) { return logit >= last; }));
}

/// Applies min-p at temperature 1.
void drop_unlikely(std::vector<float>& logits, float min_p) {
  const Distribution p = compute_distribution(logits, {.temperature = 1, .min_p = min_p}, {});
  for (std::size_t token = 0; token < logits.size(); ++token) {
    if (p.weight(static_cast<Token>(token)) == 0) logits[token] = -std::numeric_limits<float>::infinity();
  }
}

/// Applies top-p with sums of eight bits, as bfloat16 has them.
void drop_tail_in_eight_bits(std::vector<float>& logits, const Sampling& sampling) {
  const auto in_eight_bits = [](double value) {
    int exponent = 0;
    const double fraction = std::frexp(value, &exponent);
    return std::ldexp(std::nearbyint(fraction * 256) / 256, exponent);
  };
  const Distribution p = compute_distribution(logits, {.temperature = sampling.temperature}, {});
  std::vector<std::size_t> order(logits.size());
  std::iota(order.begin(), order.end(), std::size_t{0});
  std::ranges::stable_sort(order, [&](std::size_t a, std::size_t b) { return logits[a] > logits[b]; });
  double before = 0;
  for (const std::size_t token : order) {
    if (before >= sampling.top_p) logits[token] = -std::numeric_limits<float>::infinity();
    const auto weight = static_cast<double>(p.weight(static_cast<Token>(token)));
    before = in_eight_bits(before + in_eight_bits(weight / static_cast<double>(Distribution::total)));
  }
}

/// `before`: the q of the draft tokens of the round before.
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
  // A draft token that q cannot give would be found at once.
  const auto state = [&](std::size_t i, const Distribution& q) {
    if (q.weight(tokens[i]) > 0) drawn_from[i] = q;
  };
  for (std::size_t i = 0; i < tokens.size(); ++i) {
    if (fault == Fault::flat_q_stated) drawn_from[i] = flat(drawn_from[i]);
    if (fault == Fault::short_q_stated) drawn_from[i] = shortened(drawn_from[i]);
    if (fault == Fault::last_q_stated) state(i, drawn.back());
    if (fault == Fault::q_cut_after_drawing) state(i, two_best(drawn[i]));
    if (fault == Fault::q_of_other_ids) state(i, by_other_ids(drawn[i]));
    if (fault == Fault::placeholders_with_q && before.empty() && drawn[i].weight(0) > 0) tokens[i] = 0;
    if (fault == Fault::q_of_row_before_stated && i > 0) state(i, drawn[i - 1]);
    if (fault == Fault::q_of_round_before_stated && i < before.size()) state(i, before[i]);
  }
}

class FaultyRows final : public TargetRows {
 public:
  /// `counted`: the text that penalties count. `constrained`: the output that the constraint reads; it masks nothing
  /// when `unconstrained`. `row_before`: the last row of the round before; empty: there is none.
  FaultyRows(Model& target, Cache& cache, const Request& request, std::span<const Token> counted,
             std::span<const Token> constrained, bool unconstrained, const std::vector<float>& row_before, Round& round,
             Fault fault)
      : target_(target),
        cache_(cache),
        request_(request),
        counted_(counted),
        constrained_(constrained),
        unconstrained_(unconstrained),
        round_(round),
        fault_(fault) {
    tokens_.push_back(round.anchor);
    tokens_.insert(tokens_.end(), round.proposal.tokens.begin(), round.proposal.tokens.end());
    read();
    const bool without_draft = round.proposal.size() == 0 && !row_before.empty();
    if (fault == Fault::row_read_again_without_draft && without_draft) logits_[0] = row_before;
  }

  const Distribution& row(int row) override {
    std::vector<float> logits = logits_[row];
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
    if (fault_ == Fault::anchor_counted_twice && row > 0) {
      drafted = std::span<const Token>(tokens_).first(static_cast<std::size_t>(row) + 1);
    }
    if (fault_ == Fault::penalty_window_too_long && row > 0 && sampling.repeat_last_n > 0) ++sampling.repeat_last_n;
    if (fault_ == Fault::stops_masked_on_draft_rows && !bonus) {
      for (const Token stop : request_.stops) {
        logits[stop] = std::numeric_limits<float>::lowest();  // finite: a constraint may leave no other token
      }
    }
    if (fault_ == Fault::row_padded) logits.resize((logits.size() + 3) / 4 * 4);
    if (fault_ == Fault::biases_off_on_draft_rows && !bonus) sampling.logit_bias.clear();
    if (fault_ == Fault::biases_twice_on_draft_rows && !bonus) {
      for (LogitBias& bias : sampling.logit_bias) bias.bias *= 2;
    }
    if (fault_ == Fault::larger_wins_ties && draft_tokens > 0 && sampling.greedy()) prefer_larger(logits);
    if (fault_ == Fault::top_k_keeps_ties && !bonus && sampling.top_k > 0) {
      sampling.top_k = as_large_as_best(logits, sampling.top_k);
    }
    if (fault_ == Fault::min_p_before_temperature && !bonus && !sampling.greedy()) {
      drop_unlikely(logits, sampling.min_p);
      sampling.min_p = 0;
    }
    if (fault_ == Fault::top_p_in_eight_bits && !sampling.greedy() && sampling.top_p < 1) {
      drop_tail_in_eight_bits(logits, sampling);
      sampling.top_p = 1;
    }
    const bool unmasked = unconstrained_ || (fault_ == Fault::constraint_off_on_draft_rows && !bonus) ||
                          (fault_ == Fault::constraint_off_on_bonus && bonus && draft_tokens > 0);
    if (request_.constraint && !unmasked) {
      std::vector<Token> output(constrained_.begin(), constrained_.end());
      const bool ended = row > 0 && is_stop(request_, tokens_[row]);
      const bool late =
          row > 0 && (fault_ == Fault::constraint_a_row_late || (fault_ == Fault::stale_mask_behind_the_end && ended));
      const auto path = std::span<const Token>(tokens_).subspan(1, static_cast<std::size_t>(late ? row - 1 : row));
      if (fault_ != Fault::constraint_of_the_anchor) output.insert(output.end(), path.begin(), path.end());
      allowed_ = request_.constraint->reader()->allowed(output);
    }
    const bool empty = allowed_.empty() && fault_ != Fault::mask_behind_the_end;
    const bool masked = request_.constraint && !unmasked && !empty;
    History history = {counted_, drafted};
    if (fault_ == Fault::counts_taken_back) {
      record_.assign(counted_.begin(), counted_.end());
      record_.insert(record_.end(), drafted.begin(), drafted.end());
      history = {record_, {}};
    }
    distribution_ = compute_distribution(logits, sampling, history, masked ? &allowed_ : nullptr);
    if (fault_ == Fault::ranks_for_tokens && sampling.top_k > 0) distribution_ = ranked(distribution_);
    round_.targets.push_back(distribution_.fingerprint());
    return distribution_;
  }

  int rows_read() const { return static_cast<int>(logits_.size()); }
  const std::vector<float>& logits(std::size_t row) const { return logits_[row]; }

 private:
  void read() {
    Outputs outputs;
    forward_alone(target_, {.cache = &cache_, .tokens = tokens_}, outputs);
    for (int row = 0; row < static_cast<int>(tokens_.size()); ++row) {
      const auto logits = outputs.logits_row(row, target_.vocabulary());
      logits_.emplace_back(logits.begin(), logits.end());
    }
  }

  Model& target_;
  Cache& cache_;
  const Request& request_;
  std::span<const Token> counted_;
  std::span<const Token> constrained_;
  bool unconstrained_;
  TokenSet allowed_;
  std::vector<Token> record_;
  Round& round_;
  Fault fault_;
  std::vector<Token> tokens_;
  std::vector<std::vector<float>> logits_;
  Distribution distribution_;
};

void count(const Round& round, const Execution& execution, Fault fault, Statistics& s) {
  ++s.rounds;
  const int draft_tokens = round.proposal.size();
  if (draft_tokens == 0 && fault != Fault::plain_rounds_counted) return;
  ++s.iterations;
  s.accepted += round.accepted;
  s.drafted += fault == Fault::drafted_counted_as_accepted ? round.accepted
               : fault == Fault::drafted_counted_as_limit  ? execution.draft_max
                                                           : draft_tokens;
  ++(round.verdict.accepted == draft_tokens ? s.all_accepted : s.mismatches);
  ++(execution.verification == Verification::serial ? s.serial : s.batched);
}

class FaultyLoop {
 public:
  FaultyLoop(Model& target, Draft& draft, const Rule& rule, RandomSource& random, const Request& request,
             const Execution& execution, Fault fault)
      : target_(target),
        draft_(draft),
        rule_(rule),
        random_(random),
        request_(request),
        execution_(execution),
        fault_(fault),
        text_(request.prompt),
        penalized_text_(text_),
        cached_text_(text_),
        anchor_of_drafted_(text_.back()),
        left_(request.max_new_tokens) {
    const auto begun = request.constrained(text_);
    constrained_.assign(begun.begin(), begun.end());
    trace_.request = request;
    trace_.execution = execution;
    const int prefill_rows = static_cast<int>(text_.size()) - 1;
    const int capacity = static_cast<int>(text_.size()) + (2 + execution.draft_max) * request.max_new_tokens + slack;
    cache_ = target.new_cache(capacity, std::max(prefill_rows, 1 + execution.draft_max));
  }

  Trace run(const OnRound& on_round) && {
    prefill();
    if (left_ == 0) trace_.finish = Finish::length;
    while (trace_.finish == Finish::unfinished) {
      int rejected_from = 0;
      try {
        rejected_from = decode_round();
      } catch (const Error&) {
        if (fault_ != Fault::mask_behind_the_end) throw;
        break;
      }
      if (on_round && !on_round(trace_) && trace_.finish == Finish::unfinished) {
        trace_.finish = Finish::cancelled;
        if (fault_ == Fault::rejected_committed_on_cancel) commit_rejected(rejected_from);
      }
    }
    trace_.output.assign(text_.begin() + static_cast<std::ptrdiff_t>(request_.prompt.size()), text_.end());
    trace_.final_cache = cache_->digest();
    trace_.final_draft = draft_.digest();
    return std::move(trace_);
  }

 private:
  void prefill() {
    const int total = static_cast<int>(text_.size()) - 1;
    const int chunk = execution_.prefill_chunk > 0 ? execution_.prefill_chunk : std::max(1, total);
    int taken = 0;
    for (int at = 0; at < total; at += taken) {
      make_room(1);
      const int overlap = fault_ == Fault::chunks_overlap && at > 0 ? 1 : 0;
      taken = std::min({chunk, total - at, room()});
      const int rows = overlap + taken;
      const auto tokens =
          std::span<const Token>(text_).subspan(static_cast<std::size_t>(at - overlap), static_cast<std::size_t>(rows));
      Transaction transaction = cache_->begin(rows);
      Outputs outputs;
      const int from = request_.prompt_logprobs ? overlap : rows;
      forward_alone(target_, {.cache = cache_.get(), .tokens = tokens, .logits_from = from}, outputs);
      for (int row = 0; row < rows - from; ++row) {
        set_prompt_logprob(outputs.logits_row(row, target_.vocabulary()));
      }
      draft_.observe(tokens.subspan(static_cast<std::size_t>(overlap)), {});
      transaction.commit(rows);
    }
    trace_.final_length = cache_->length();
  }

  /// Of the next token of the prompt. `row`: the logits after those before it.
  void set_prompt_logprob(std::span<const float> row) {
    const std::size_t place = trace_.prompt_logprobs.size() + 1;
    const bool row_late = fault_ == Fault::prompt_logprob_of_row_before;
    const Token token = request_.prompt[row_late ? place - 1 : place];
    trace_.prompt_logprobs.push_back(prompt_logprob(row, token, request_.top_logprobs));
  }

  /// The rows that can be read before the context must be shifted.
  int room() const {
    const auto& shift = request_.context_shift;
    return shift ? std::max(1, shift->context - cache_->length()) : std::numeric_limits<int>::max();
  }

  /// Shifts the context when fewer than `rows` rows fit. A fault may have left less in a cache than is to be dropped.
  void make_room(int rows) {
    const auto& shift = request_.context_shift;
    if (!shift || cache_->length() + rows <= shift->context) return;
    for (Cache* const cache : {cache_.get(), draft_.context()}) {
      if (cache == nullptr || cache->length() < shift->keep + shift->discard) continue;
      cache->discard(shift->keep, shift->discard);
    }
    const auto size = static_cast<int>(cached_text_.size());
    const auto first = cached_text_.begin() + std::min(size, shift->keep);
    cached_text_.erase(first, cached_text_.begin() + std::min(size, shift->keep + shift->discard));
    dropped_ += shift->discard;
  }

  /// Returns the number of committed rows if rows after them were read and rejected; else 0.
  int decode_round() {
    Round round;
    round.position = static_cast<int>(text_.size());
    round.anchor = fault_ == Fault::stale_anchor && plain_before_ ? anchor_of_drafted_ : text_.back();
    const bool unlimited = fault_ == Fault::budget_ignored;
    int limit = unlimited ? execution_.draft_max : std::min(execution_.draft_max, left_ - 1);
    make_room(fault_ == Fault::shifted_for_a_round ? 1 + std::max(0, limit) : 1);
    limit = std::min(limit, room() - 1);
    const int key_position =
        round.position - (fault_ == Fault::keys_of_cache_positions ? dropped_ : 0) - positions_rewound_;
    if (limit > 0) propose(round, limit, key_position);
    plain_before_ = round.proposal.size() == 0;
    if (!plain_before_) anchor_of_drafted_ = text_.back();

    round.positions_before = cache_->length();
    round.draft_positions = draft_.positions();
    Transaction transaction = cache_->begin(1 + round.proposal.size());
    const std::vector<Token>& counted = counts_own_record()                        ? penalized_text_
                                        : fault_ == Fault::penalties_see_the_cache ? cached_text_
                                                                                   : text_;
    const auto& drafted = round.proposal.tokens;
    const bool ended = std::ranges::any_of(drafted, [&](Token token) { return is_stop(request_, token); });
    if (fault_ == Fault::constraint_ended_by_draft && ended) constraint_ended_ = true;
    const bool unconstrained = constraint_ended_ && !ended;  // in the rounds after it
    FaultyRows rows(target_, *cache_, request_, counted, constrained_, unconstrained, last_row_, round, fault_);
    round.verdict = rule_.judge(round.proposal, rows, request_.sequence, key_position, random_);
    const bool stops = emit(round, limit);
    if (request_.logprobs) set_logprobs(round, rows);
    const int committed = rows_to_commit(round, rows);
    update_draft(round);
    transaction.commit(committed);
    if (fault_ == Fault::keys_rewound_by_rejection && round.verdict.accepted < round.proposal.size()) {
      positions_rewound_ += static_cast<int>(round.emitted.size());
    }
    text_.insert(text_.end(), round.emitted.begin(), round.emitted.end());
    record_for_penalties(round);
    last_row_ = rows.logits(static_cast<std::size_t>(std::min(round.verdict.accepted, rows.rows_read() - 1)));
    const bool keeps_rejected = fault_ == Fault::constraint_keeps_rejected;
    const std::vector<Token>& read = keeps_rejected ? round.proposal.tokens : round.emitted;
    constrained_.insert(constrained_.end(), read.begin(), read.end());
    if (keeps_rejected) constrained_.push_back(text_.back());
    cached_text_.insert(cached_text_.end(), round.emitted.begin(), round.emitted.end());
    round.cache_length = cache_->length();
    round.cache = cache_->digest();
    round.draft = draft_.digest();

    count(round, execution_, fault_, trace_.statistics);
    if (stops) {
      trace_.finish = fault_ == Fault::stop_finishes_by_length ? Finish::length : Finish::stop;
    } else if (left_ <= 0) {
      trace_.finish = Finish::length;
    }
    trace_.final_length = cache_->length();
    trace_.rounds.push_back(std::move(round));
    return committed < rows.rows_read() ? committed : 0;
  }

  bool counts_own_record() const {
    return fault_ == Fault::penalties_see_last_of_round || fault_ == Fault::accepted_counted_twice ||
           fault_ == Fault::rejected_counted || fault_ == Fault::placeholders_counted;
  }

  void record_for_penalties(const Round& round) {
    const auto accepted = std::span<const Token>(round.emitted).first(round.emitted.size() - 1);
    std::vector<Token> more;
    if (fault_ == Fault::accepted_counted_twice) {
      for (const Token token : accepted) more.insert(more.end(), 2, token);
    }
    if (fault_ == Fault::rejected_counted) more = round.proposal.tokens;
    if (fault_ == Fault::placeholders_counted) more.assign(accepted.size(), target_.vocabulary() - 1);
    more.push_back(round.emitted.back());
    penalized_text_.insert(penalized_text_.end(), more.begin(), more.end());
  }

  void propose(Round& round, int limit, int key_position) {
    Sampler sampler;
    ProposalBuilder builder(request_.sampling, text_, request_.sequence, key_position, rule_.draft_noise, random_,
                            sampler);
    draft_.propose(text_.back(), limit, builder);
    round.proposal = builder.proposal();
    const int proposed = round.proposal.size();
    const bool whole = fault_ == Fault::cut_counted_as_accepted || fault_ == Fault::rows_behind_the_end_committed ||
                       fault_ == Fault::read_behind_the_end;
    if (!whole) cut_after_end(round.proposal.tokens);
    round.proposal.cut = proposed - round.proposal.size();
    round.proposal.drawn_from.resize(round.proposal.tokens.size());
    std::vector<Distribution> drawn_from = round.proposal.drawn_from;
    falsify(round.proposal, drawn_from_before_, fault_);
    drawn_from_before_ = std::move(drawn_from);
  }

  std::vector<TokenLogprob> top_of(const std::vector<float>& row) const {
    if (fault_ != Fault::top_logprobs_larger_first) return top_log_probabilities(row, request_.top_logprobs);
    const std::vector<float> reversed(row.rbegin(), row.rend());
    std::vector<TokenLogprob> list = top_log_probabilities(reversed, request_.top_logprobs);
    for (TokenLogprob& one : list) {
      one.token = static_cast<Token>(row.size()) - 1 - one.token;
      one.logprob = log_probability(row, one.token);
    }
    return list;
  }

  void set_logprobs(Round& round, const FaultyRows& rows) {
    for (std::size_t i = 0; i < round.emitted.size(); ++i) {
      std::vector<float> row = rows.logits(std::min(i, static_cast<std::size_t>(rows.rows_read()) - 1));
      const std::vector<float> own = row;
      if (fault_ == Fault::logprob_of_row_before && !row_before_.empty()) row = row_before_;
      if (fault_ == Fault::logprob_after_temperature && !request_.sampling.greedy()) {
        for (float& logit : row) logit /= request_.sampling.temperature;
      }
      const bool in_row = static_cast<std::size_t>(round.emitted[i]) < row.size();
      round.logprobs.push_back(in_row ? log_probability(row, round.emitted[i]) : 0);
      if (fault_ == Fault::top_logprobs_of_row_before && !row_before_.empty()) row = row_before_;
      if (request_.top_logprobs > 0) round.top_logprobs.push_back(top_of(row));
      row_before_ = own;
    }
  }

  /// Sets what the round emits, and takes it from the budget. Returns whether a stop token ends the text.
  bool emit(Round& round, int limit) {
    round.emitted.assign(round.proposal.tokens.begin(), round.proposal.tokens.begin() + round.verdict.accepted);
    const bool unused_slots = round.verdict.accepted == round.proposal.size() && round.verdict.accepted < limit;
    if (fault_ == Fault::unused_slots_accepted && round.verdict.accepted > 0 && unused_slots) {
      round.emitted.push_back(round.emitted.back());
    }
    round.emitted.push_back(round.verdict.next);
    const bool fills_budget = static_cast<int>(round.emitted.size()) >= left_;
    const bool budget_first = fault_ == Fault::budget_before_stop && fills_budget;
    const bool any_stop =
        std::any_of(round.emitted.begin(), round.emitted.end(), [&](Token token) { return is_stop(request_, token); });
    const bool searched = fault_ != Fault::stop_only_at_round_end && fault_ != Fault::tokens_kept_after_stop &&
                          !(fault_ == Fault::stop_in_last_two_tokens && !stop_in_last_two(round.emitted));
    if (!budget_first && searched) cut_after_end(round.emitted);
    if (fault_ == Fault::forced_behind_the_end) append_forced(round.emitted);
    round.accepted = std::min(round.verdict.accepted, static_cast<int>(round.emitted.size()));
    if (fault_ == Fault::cut_counted_as_accepted) round.accepted = round.verdict.accepted;
    if (fault_ == Fault::bonus_counted_as_accepted) round.accepted = static_cast<int>(round.emitted.size());
    left_ -=
        fault_ == Fault::proposal_charged_whole ? 1 + round.proposal.size() : static_cast<int>(round.emitted.size());
    const bool kept_after_stop = fault_ == Fault::tokens_kept_after_stop || fault_ == Fault::forced_behind_the_end;
    return !budget_first &&
           (is_stop(request_, round.emitted.back()) || is_complete(round.emitted) || (any_stop && kept_after_stop));
  }

  /// Appends to a round that ends with a stop token the only token that could follow without it, if there is one.
  void append_forced(std::vector<Token>& emitted) const {
    if (!request_.constraint || !is_stop(request_, emitted.back())) return;
    std::vector<Token> output(request_.constrained(text_).begin(), request_.constrained(text_).end());
    output.insert(output.end(), emitted.begin(), emitted.end() - 1);
    TokenSet allowed = request_.constraint->reader()->allowed(output);
    for (const Token stop : request_.stops) allowed.remove(stop);
    if (const auto only = allowed.only()) emitted.push_back(*only);
  }

  bool stop_in_last_two(std::span<const Token> emitted) const {
    return std::ranges::any_of(emitted.last(std::min<std::size_t>(2, emitted.size())),
                               [&](Token token) { return is_stop(request_, token); });
  }

  /// Whether nothing may follow the output with these tokens.
  bool is_complete(std::span<const Token> more) const {
    if (!request_.constraint) return false;
    std::vector<Token> text = text_;
    text.insert(text.end(), more.begin(), more.end());
    return request_.constraint->reader()->complete(request_.constrained(text));
  }

  /// Drops what follows a stop token or a complete output.
  void cut_after_end(std::vector<Token>& tokens) const {
    cut_after_stop(request_, tokens);
    if (fault_ == Fault::constraint_ends_rounds_only) return;
    for (std::size_t size = 1; size < tokens.size(); ++size) {
      if (is_complete(std::span(tokens).first(size))) tokens.resize(size);
    }
  }

  int rows_to_commit(const Round& round, const FaultyRows& rows) {
    int committed = static_cast<int>(round.emitted.size());
    if (fault_ == Fault::stale_commit) {
      committed = std::min(std::exchange(committed_before_, committed), rows.rows_read());
    }
    if (fault_ == Fault::all_rows_committed) committed = rows.rows_read();
    if (fault_ == Fault::rows_behind_the_end_committed) committed = 1 + round.verdict.accepted;
    return std::min(committed, rows.rows_read());
  }

  void update_draft(const Round& round) {
    std::vector<Token> committed{text_.back()};
    committed.insert(committed.end(), round.emitted.begin(), round.emitted.end() - 1);
    const bool all_accepted = round.accepted > 0 && round.accepted == round.proposal.size();
    if (fault_ == Fault::draft_hole && all_accepted) committed.pop_back();
    if (fault_ == Fault::draft_one_ahead) committed = round.emitted;
    if (!committed.empty()) draft_.observe(committed, {});
  }

  /// `committed`: rows of the last round that were; 0: nothing was rejected.
  void commit_rejected(int committed) {
    if (committed == 0) return;
    const auto rejected =
        std::span<const Token>(trace_.rounds.back().proposal.tokens).subspan(static_cast<std::size_t>(committed) - 1);
    const int rows = static_cast<int>(rejected.size());
    Transaction transaction = cache_->begin(rows);
    Outputs outputs;
    forward_alone(target_, {.cache = cache_.get(), .tokens = rejected, .logits_from = rows}, outputs);
    transaction.commit(rows);
  }

  Model& target_;
  Draft& draft_;
  const Rule& rule_;
  RandomSource& random_;
  const Request& request_;
  const Execution& execution_;
  const Fault fault_;
  Trace trace_;
  std::vector<Token> text_;
  std::vector<Token> penalized_text_;  // what a fault lets penalties count
  std::vector<Token> cached_text_;     // the text without what context shifts dropped
  std::vector<Token> constrained_;     // the output that the constraint has read
  bool constraint_ended_ = false;
  int dropped_ = 0;            // positions
  int positions_rewound_ = 0;  // of the keys of random draws
  std::unique_ptr<Cache> cache_;
  std::vector<Distribution> drawn_from_before_;
  Token anchor_of_drafted_;  // the anchor of the last round with draft tokens
  bool plain_before_ = false;
  int committed_before_ = 1;
  std::vector<float> row_before_;
  std::vector<float> last_row_;  // from which the token before was drawn
  int left_;                     // of the budget
};

}  // namespace

Trace run_loop(Model& target, Draft& draft, const Rule& rule, RandomSource& random, const Request& request,
               const Execution& execution, const OnRound& on_round, Fault fault) {
  return FaultyLoop(target, draft, rule, random, request, execution, fault).run(on_round);
}

}  // namespace draftproof::zoo
