// SPDX-License-Identifier: MIT
#include "ref/decoding/sequence.h"

#include <algorithm>
#include <map>
#include <numeric>

#include "kernels/math64.h"
#include "kernels/threads.h"
#include "ref/base/error.h"
#include "ref/base/require.h"
#include "ref/base/stopwatch.h"
#include "ref/models/read_text.h"

namespace draftproof {
namespace {

/// The most rows of a pass that reads a prompt whose log-probabilities are asked for: each has logits.
constexpr int prompt_rows_max = 32;

/// The log-probabilities of a row: z_token - log(sum of exp(z)), in double, summed in order of token.
class LogProbabilities {
 public:
  explicit LogProbabilities(std::span<const float> logits)
      : logits_(logits), best_(*std::max_element(logits.begin(), logits.end())) {
    double sum = 0;
    for (const float logit : logits) sum += exp64(logit - best_);
    log_sum_ = log64(sum);
  }

  double of(Token token) const { return logits_[token] - best_ - log_sum_; }

  int rank_of(Token token) const {
    return 1 + static_cast<int>(std::ranges::count_if(logits_, [&](float logit) { return logit > logits_[token]; }));
  }

  /// Returns the tokens with the highest logits, of equal ones the smaller token first.
  std::vector<TokenLogprob> top(int count) const {
    std::vector<Token> tokens;
    if (count == 0) return {};
    for (Token token = 0; token < std::ssize(logits_); ++token) {
      const bool full = std::ssize(tokens) == count;
      if (full && !(logits_[token] > logits_[tokens.back()])) continue;
      if (full) tokens.pop_back();
      tokens.insert(std::upper_bound(tokens.begin(), tokens.end(), token,
                                     [&](Token a, Token b) { return logits_[a] > logits_[b]; }),
                    token);
    }
    std::vector<TokenLogprob> list;
    for (const Token token : tokens) list.push_back({token, of(token)});
    return list;
  }

 private:
  std::span<const float> logits_;
  double best_;
  double log_sum_ = 0;
};

/// What the constraint reads of a text with these draft tokens after it.
std::vector<Token> constrained_of(const Request& request, std::span<const Token> text, std::span<const Token> drafted) {
  const auto output = request.constrained(text);
  std::vector<Token> tokens(output.begin(), output.end());
  tokens.insert(tokens.end(), drafted.begin(), drafted.end());
  return tokens;
}

/// The feedback along a tree of draft tokens: that of each row, made from the one of the row before it.
class PathFeedback {
 public:
  /// `committed`: after the committed text.
  PathFeedback(const Feedback& committed, const Proposal& proposal) : committed_(committed), proposal_(proposal) {}

  /// Makes of a row what a token is drawn from.
  void apply(int row, Distribution& distribution) {
    const Feedback feedback = row == 0 ? committed_ : after(proposal_.parent(row - 1) + 1, proposal_.tokens[row - 1]);
    rows_.insert_or_assign(row, std::pair(feedback, distribution));
    distribution = feedback.applied_to(distribution);
  }
  /// Returns the feedback after this token, which follows a row that was read.
  Feedback after(int row, Token token) const {
    const auto& [feedback, distribution] = rows_.at(row);
    return feedback.after(distribution, token);
  }

 private:
  const Feedback& committed_;
  const Proposal& proposal_;
  std::map<int, std::pair<Feedback, Distribution>> rows_;
};

/// The distributions of one verification pass, read from its logits when the rule asks for them.
class VerifiedRows final : public TargetRows {
 public:
  using EndsWith = std::function<bool(std::span<const Token> drafted)>;

  /// `ends_with`: whether the text ends with the last of these draft tokens. `digests`, `rows`: what the round shall
  /// record of every row.
  VerifiedRows(const SegmentOutput& output, int vocabulary, const Request& request, std::span<const Token> committed,
               ConstraintReader* constraint, PathFeedback* feedback, EndsWith ends_with, Round& round,
               SequenceScratch& scratch, bool digests, bool rows)
      : output_(output),
        vocabulary_(vocabulary),
        request_(request),
        committed_(committed),
        constraint_(constraint),
        feedback_(feedback),
        ends_with_(std::move(ends_with)),
        round_(round),
        scratch_(scratch),
        digests_(digests),
        rows_(rows) {}

  const Distribution& row(int row) override {
    REQUIRE(row >= last_row_ && row <= round_.proposal.size(), "a rule reads rows in ascending order");
    last_row_ = row;
    drafted_.clear();
    for (const int node : round_.proposal.path_to(row - 1)) drafted_.push_back(round_.proposal.tokens[node]);
    const auto logits = output_.logits_row(row, vocabulary_);
    read(logits);
    if (feedback_ != nullptr) feedback_->apply(row, scratch_.row);
    if (digests_) {
      round_.logits.push_back(digest_of(logits));
      round_.targets.push_back(scratch_.row.fingerprint());
    }
    if (rows_) round_.rows.push_back(scratch_.row);
    return scratch_.row;
  }

 private:
  /// A row behind the end of the text decides nothing: one that cannot be read there is no failure of the request.
  void read(std::span<const float> logits) {
    try {
      scratch_.sampler.read(logits, request_.sampling, {committed_, drafted_}, scratch_.row, allowed());
    } catch (const Error&) {
      if (!ends_with_(drafted_)) throw;
      scratch_.row.become_point(0);
    }
  }

  /// What masks the row. No token is needed of one behind the end of the text, or after a draft token that is not
  /// allowed; the constraint has nothing to say about them.
  const TokenSet* allowed() {
    if (constraint_ == nullptr || ends_with_(drafted_)) return nullptr;
    const std::vector<Token> output = constrained_of(request_, committed_, drafted_);
    if (!constraint_->possible(output)) return nullptr;
    return &constraint_->allowed(output);
  }

  const SegmentOutput& output_;
  int vocabulary_;
  const Request& request_;
  std::span<const Token> committed_;
  ConstraintReader* constraint_;
  PathFeedback* feedback_;
  EndsWith ends_with_;
  Round& round_;
  SequenceScratch& scratch_;
  bool digests_;
  bool rows_;
  std::vector<Token> drafted_;  // the draft tokens on the path to the row read last
  int last_row_ = 0;
};

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
  if (request.top_logprobs < 0 || request.top_logprobs > Request::top_logprobs_max) {
    return "the most likely tokens of a place can be 0 to " + std::to_string(Request::top_logprobs_max) + ", not " +
           std::to_string(request.top_logprobs);
  }
  const auto wanted = request.prompt.size() + static_cast<std::size_t>(request.max_new_tokens);
  const auto max = static_cast<std::size_t>(request.context_shift ? Request::text_max : target.context());
  if (wanted > max) {
    return "the prompt of " + std::to_string(request.prompt.size()) + " tokens and " +
           std::to_string(request.max_new_tokens) + " new ones need " + std::to_string(wanted) + " positions, " +
           (request.context_shift ? "a text can have " : "the target has ") + std::to_string(max);
  }
  return request.context_shift ? context_shift_error(*request.context_shift, target) : "";
}

int draft_reach(const Request& request, Draft& draft) {
  const int reach = draft.reach();
  if (!request.context_shift || draft.context() == nullptr) return reach;
  const ContextShift& shift = *request.context_shift;
  if (request.positions() < shift.context || reach < shift.context) return reach;  // nothing of it will be shifted
  const std::string why = draft.context()->discard_error(shift.context, shift.keep, shift.discard);
  return why.empty() ? reach : shift.context;
}

Sequence::Sequence(const Collaborators& with, Request request, const Execution& execution, Recording recording)
    : with_(with), recording_(recording), text_(request.prompt) {
  REQUIRE(request_error(request, with.target).empty(), "the request fits the target");
  const int capacity = request.positions();
  const int draft_tokens_max = std::max(0, request.max_new_tokens - 1);
  pending_rows_ = 1 + std::clamp(std::min(execution.draft_max, with.draft.draft_max()), 0, draft_tokens_max);
  cache_ = with.target.new_cache(capacity, std::max(Draft::max_chunk, pending_rows_));
  with.draft.use_target_cache(*cache_);
  trace_.request = std::move(request);
  trace_.execution = execution;
  if (trace_.request.constraint) constraint_ = trace_.request.constraint->reader();
  if (trace_.request.sampling.feeds_back()) feedback_.emplace(trace_.request.sampling);
  draft_reach_ = draft_reach(trace_.request, with.draft);
  trace_.draft_reach = draft_reach_;
  trace_.own_stages = with_.own_stages;
  if (const DraftCosts* const costs = with.draft.costs()) trace_.costs = *costs;
  if (with.draft.draft_max() > 0) trace_.draft_times.resize(std::max<std::size_t>(1, with.draft.times().size()));
  note_end();
}

void Sequence::watch(RoundCallback callback, const std::atomic<bool>* cancelled) {
  callback_ = std::move(callback);
  cancelled_ = cancelled;
}

void Sequence::resume() {
  error_ = nullptr;
  trace_.finish = Finish::unfinished;
  if (next_ == Next::cancel) next_ = Next::go_on;
}

void Sequence::preempt() {
  REQUIRE(!transaction_, "a pass is never interrupted");
  const int pending = cache_->max_pending_rows();
  const int capacity = cache_->capacity();
  cache_.reset();  // first, so that the memory is never there twice
  cache_ = with_.target.new_cache(capacity, pending);
  dropped_ = 0;
  with_.draft.forget();
  with_.draft.use_target_cache(*cache_);
}

PrefixCache::Parts parts_in_prefix_cache(Cache& target, Draft& draft, const std::string& draft_name) {
  PrefixCache::Parts parts = {{"target", &target}};
  if (draft_name.empty()) return parts;
  Cache* const context = draft.context();
  if (context == nullptr) return draft.needs_no_snapshot() ? parts : PrefixCache::Parts();
  parts[draft_name] = context;
  return parts;
}

void Sequence::reuse(PrefixCache& prefixes) {
  REQUIRE(!transaction_ && !builder_, "a pass is never interrupted");
  PrefixCache::Parts parts = this->parts();
  if (positions() - 1 > with_.draft.reach()) parts.erase(with_.draft_name);  // it keeps nothing of this text
  if (cache_->length() > 0 || parts.empty() || prompt_rows_left() > 0) return;
  std::vector<std::string> names;
  for (const auto& [name, cache] : parts) names.push_back(name);
  const PrefixCache::Lease found =
      prefixes.find(text_, std::min(positions() - 1, capacity()), names, with_.prefix_owner);
  if (found.length() == 0) return;
  prefixes.restore(found, parts);
  with_.draft.skip(std::span<const Token>(text_).first(static_cast<std::size_t>(found.length())));
  trace_.reused = found.length();
  note_end();
}

void Sequence::publish(PrefixCache& prefixes) {
  REQUIRE(!transaction_ && !builder_, "a pass is never interrupted");
  const PrefixCache::Parts parts = this->parts();
  if (cache_->length() == 0 || parts.empty()) return;
  if (dropped_ > 0) return;  // what is left of the text is not what reading it would give
  prefixes.insert(std::span<const Token>(text_).first(static_cast<std::size_t>(cache_->length())), parts,
                  with_.prefix_owner);
}

int Sequence::tokens_left() const noexcept {
  return trace_.request.max_new_tokens - static_cast<int>(trace_.output.size());
}

int Sequence::prompt_rows_left() const noexcept {
  const auto all = trace_.request.prompt_logprobs ? std::ssize(trace_.request.prompt) - 1 : 0;
  return static_cast<int>(all - std::ssize(trace_.prompt_logprobs));
}

/// The first row of a chunk of the text whose logits are wanted.
int Sequence::logits_from() const noexcept {
  const int rows = static_cast<int>(tokens_.size());
  if (prompt_rows_left() == 0) return rows;
  return std::clamp(static_cast<int>(std::ssize(trace_.prompt_logprobs)) - read(), 0, rows);
}

int Sequence::rows_next() const noexcept {
  const auto& shift = trace_.request.context_shift;
  const int room = shift ? shift->room(cache_->length()) : capacity() - cache_->length();
  const int max = 1 + std::min(pending_rows_ - 1, draft_limit_);
  if (!reading()) return std::max(1, std::min({max, tokens_left(), room}));
  const int asked = trace_.execution.prefill_chunk;
  const int longest = prompt_rows_left() > 0 ? prompt_rows_max : Draft::max_chunk;
  const int chunk = asked > 0 ? std::min(asked, longest) : longest;
  return std::min({chunk, positions() - 1 - read(), room});
}

void Sequence::finish_if_due() {
  const bool cancelled = next_ == Next::cancel || (cancelled_ != nullptr && cancelled_->load());
  if (reading()) {
    if (!cancelled) return;
    trace_.finish = Finish::cancelled;
    note_end();
  } else if (next_ == Next::stop || (!trace_.output.empty() && trace_.request.stops_at(text_.back()))) {
    trace_.finish = Finish::stop;
  } else if (tokens_left() == 0) {
    trace_.finish = Finish::length;
  } else if (cancelled) {
    trace_.finish = Finish::cancelled;
  }
}

/// Records where the sequence is now: its end, as far as is known, and the digests of the last round. A draft may
/// compute something for its own; if that fails, this is done again before the next pass.
void Sequence::note_end() {
  noted_ = false;
  trace_.final_length = cache_->length();
  trace_.final_positions = with_.draft.positions();
  if (digests()) {
    trace_.final_cache = cache_->digest();
    trace_.final_draft = with_.draft.digest();
    if (!reading() && !trace_.rounds.empty()) {
      trace_.rounds.back().cache = trace_.final_cache;
      trace_.rounds.back().draft = trace_.final_draft;
    }
  }
  noted_ = true;
}

bool Sequence::prepare(int rows_max, SequenceScratch& scratch) {
  REQUIRE(!transaction_ && !builder_ && !error_, "a pass begins after the last one has ended");
  try {
    if (!noted_) note_end();
    finish_if_due();
    if (finished()) return false;
    is_round_ = !reading();
    make_room();
  } catch (...) {
    fail(std::current_exception());
    return false;
  }
  if (is_round_) {
    REQUIRE(rows_max >= rows_next(), "a round is not cut");
    begin_round(scratch);
  } else {
    REQUIRE(rows_max >= 1, "a chunk has at least one row");
    const auto first = text_.begin() + read();
    tokens_.assign(first, first + std::min(rows_max, rows_next()));
  }
  return true;
}

/// Shifts the context when no other row fits the cache, and reserves the memory to record a round, so that recording
/// cannot fail half-way.
void Sequence::make_room() {
  const auto reserve = [](auto& list, std::size_t more) {
    if (list.capacity() - list.size() < more) list.reserve(std::max(2 * list.size(), list.size() + more));
  };
  const auto rows = static_cast<std::size_t>(pending_rows_);
  reserve(text_, rows);
  reserve(trace_.output, rows);
  reserve(trace_.rounds, 1);
  if (!trace_.request.context_shift || cache_->length() < trace_.request.context_shift->context) return;
  try {
    with_.draft.make_room(*trace_.request.context_shift);
    dropped_ += trace_.request.context_shift->make_room(*cache_);
  } catch (...) {  // no memory; the text will be read again
    cache_->clear();
    with_.draft.forget();
    dropped_ = 0;
    throw;
  }
}

void Sequence::begin_round(SequenceScratch& scratch) {
  round_ = {};
  round_.anchor = text_.back();
  round_.position = positions();
  REQUIRE(read() == round_.position - 1, "the cache has read everything before the anchor");
  with_.draft.begin_rounds();
  const Request& request = trace_.request;
  if (rows_next() > 1) {
    builder_.emplace(request.sampling, text_, request.sequence, round_.position, with_.rule.draft_noise, with_.random,
                     scratch.sampler, constraint_.get(), text_.size() - request.constrained(text_).size());
  }
}

/// Whether the text ends with the last of these tokens behind it, however the rounds before are cut: with a stop token,
/// by the stop condition, or where nothing may follow by the constraint. Everything that looks for the end asks here.
/// (The budget ends no text inside of a proposal: a round has fewer draft tokens than tokens are left.)
bool Sequence::ends_with(std::span<const Token> more) {
  const Request& request = trace_.request;
  if (!more.empty() && request.stops_at(more.back())) return true;
  if (!more.empty() && with_.stop != nullptr) {
    std::vector<Token> output(text_.begin() + std::ssize(request.prompt), text_.end());
    output.insert(output.end(), more.begin(), more.end());
    if (with_.stop->ends(output)) return true;
  }
  return constraint_ && constraint_->complete(constrained_of(request, text_, more));
}

/// Removes what cannot be accepted: what is below a draft token that ends the text or is not allowed, and such a draft
/// token itself when it was not drawn. (To drop a drawn one for its value would change the distribution.)
void Sequence::prune(Proposal& proposal) {
  std::vector<Token> path;
  proposal.prune([&](int node) {
    path.clear();
    for (const int one : proposal.path_to(node)) path.push_back(proposal.tokens[one]);
    if (constraint_) {
      const auto before = std::span(path).first(path.size() - 1);
      if (!constraint_->allowed(constrained_of(trace_.request, text_, before)).has(path.back())) {
        return proposal.drawn_from[node].is_point() ? Proposal::Kept::nothing : Proposal::Kept::alone;
      }
    }
    return ends_with(path) ? Proposal::Kept::alone : Proposal::Kept::whole;
  });
}

/// Appends to a chain the draft tokens that the constraint leaves no choice about, up to the end of the text.
void Sequence::jump_ahead(Proposal& proposal) {
  if (!constraint_ || !proposal.is_chain()) return;
  while (proposal.size() < rows_next() - 1 && !ends_with(proposal.tokens)) {
    const std::optional<Token> only =
        constraint_->allowed(constrained_of(trace_.request, text_, proposal.tokens)).only();
    if (!only) return;
    proposal.force(*only);
  }
}

/// A round emits up to one token more than it has draft tokens, so it wants fewer of them than tokens are left.
std::optional<ProposeJob> Sequence::wanted() {
  if (!builder_) return std::nullopt;
  return ProposeJob{&with_.draft, round_.anchor, rows_next() - 1, &*builder_};
}

std::optional<Segment> Sequence::plan(const ProposeJob* proposed, double seconds) {
  add_seconds(&Statistics::draft_seconds, seconds);
  if (proposed != nullptr) {
    time_draft(&DraftTimes::draft, seconds);
    if (with_.draft.times().empty()) {
      DraftTimes& times = trace_.draft_times.front();
      if (proposed->error) ++times.failed;
      else times.count(proposed->builder->size());
    }
  }
  try {
    if (proposed != nullptr && proposed->error) std::rethrow_exception(proposed->error);
    depths_.clear();
    if (is_round_) {
      if (builder_) {
        REQUIRE(builder_->size() <= rows_next() - 1, "a draft proposes at most `limit` draft tokens");
        round_.proposal = std::move(*builder_).proposal();
        builder_.reset();
        prune(round_.proposal);
        jump_ahead(round_.proposal);
        const bool as_proposed = round_.proposal.cut == 0 && round_.proposal.forced == 0;
        if (with_.draft.wants_times() && as_proposed) round_.seconds = {.draft = seconds};
      }
      if (digests() || callback_.rows) {
        round_.positions_before = cache_->length();
        round_.draft_positions = with_.draft.positions();
      }
      tokens_ = {round_.anchor};
      tokens_.insert(tokens_.end(), round_.proposal.tokens.begin(), round_.proposal.tokens.end());
      if (!round_.proposal.is_chain()) {
        for (int node = -1; node < round_.proposal.size(); ++node) depths_.push_back(round_.proposal.depth(node) + 1);
      }
    }
    const int rows = static_cast<int>(tokens_.size());
    transaction_.emplace(cache_->begin(rows));
    return Segment{cache_.get(), tokens_, depths_, with_.draft.taps(), is_round_ ? 0 : logits_from()};
  } catch (...) {
    fail(std::current_exception());
    return std::nullopt;
  }
}

std::optional<ObserveJob> Sequence::absorb(const SegmentOutput& output, double seconds, SequenceScratch& scratch) {
  add_seconds(&Statistics::target_seconds, seconds);
  try {
    if (!output.error.empty()) throw Error(output.error);
    if (!is_round_) {
      record_prompt(output);
      return ObserveJob{&with_.draft, tokens_, output.features};
    }
    if (round_.seconds) {
      round_.seconds->verify = seconds;
      with_.draft.took(*round_.seconds);
    }
    {
      const Stopwatch watch(trace_.statistics.validate_seconds);
      judge(output, scratch);
    }
    std::span<const float> features = output.features;
    const std::size_t width = with_.draft.taps().size() * static_cast<std::size_t>(with_.target.hidden());
    if (depths_.empty()) {
      features = features.first(kept_rows_.size() * width);
    } else {
      features_.clear();
      for (const int row : kept_rows_) {
        const auto one = features.subspan(static_cast<std::size_t>(row) * width, width);
        features_.insert(features_.end(), one.begin(), one.end());
      }
      features = features_;
    }
    if (trace_.execution.verification == Verification::redecode) redecode(scratch);
    return ObserveJob{&with_.draft, committed_, features};
  } catch (...) {
    fail(std::current_exception());
    return std::nullopt;
  }
}

/// Records what the rows of a chunk say of the prompt's next tokens.
void Sequence::record_prompt(const SegmentOutput& output) {
  const Request& request = trace_.request;
  const int from = logits_from();
  const int rows = std::min(static_cast<int>(tokens_.size()) - from, prompt_rows_left());
  if (rows == 0) return;
  REQUIRE(std::ssize(trace_.prompt_logprobs) == read() + from, "no row of the prompt is left out");
  const int vocabulary = with_.target.vocabulary();
  std::vector<std::optional<LogProbabilities>> all(static_cast<std::size_t>(rows));
  for_rows(rows, static_cast<double>(rows) * vocabulary, [&](int begin, int end) {
    for (int row = begin; row < end; ++row) all[row].emplace(output.logits_row(row, vocabulary));
  });
  for (const auto& logprobs : all) {
    const Token token = request.prompt[trace_.prompt_logprobs.size() + 1];
    trace_.prompt_logprobs.push_back(
        {logprobs->of(token), logprobs->rank_of(token), logprobs->top(request.top_logprobs)});
  }
}

/// Sets the verdict and what follows from it.
void Sequence::judge(const SegmentOutput& output, SequenceScratch& scratch) {
  const int vocabulary = with_.target.vocabulary();
  std::optional<PathFeedback> path;
  if (feedback_) path.emplace(*feedback_, round_.proposal);
  VerifiedRows rows(
      output, vocabulary, trace_.request, text_, constraint_.get(), path ? &*path : nullptr,
      [this](std::span<const Token> drafted) { return ends_with(drafted); }, round_, scratch,
      callback_.rows || digests(), callback_.rows);
  round_.verdict = with_.rule.judge(round_.proposal, rows, trace_.request.sequence, round_.position, with_.random);
  REQUIRE(round_.proposal.depth(round_.verdict.last) + 1 == round_.verdict.accepted,
          "the accepted draft tokens are a path");
  if (path) next_feedback_ = path->after(round_.verdict.last + 1, round_.verdict.next);
  emit();
  round_.accepted = std::min(round_.verdict.accepted, static_cast<int>(round_.emitted.size()));

  // The rows of the anchor and of all emitted tokens but the last, which is the next anchor, are kept.
  kept_rows_.resize(round_.emitted.size());
  std::iota(kept_rows_.begin(), kept_rows_.end(), 0);
  if (!depths_.empty()) {
    const std::vector<int> path = round_.proposal.path_to(round_.verdict.last);
    for (std::size_t i = 1; i < kept_rows_.size(); ++i) kept_rows_[i] = path[i - 1] + 1;
  }
  committed_ = {round_.anchor};
  committed_.insert(committed_.end(), round_.emitted.begin(), round_.emitted.end() - 1);
  const Request& request = trace_.request;
  if (!request.logprobs && request.top_logprobs == 0) return;
  for (std::size_t i = 0; i < kept_rows_.size(); ++i) {
    const LogProbabilities logprobs(output.logits_row(kept_rows_[i], vocabulary));
    if (request.logprobs) round_.logprobs.push_back(logprobs.of(round_.emitted[i]));
    if (request.top_logprobs > 0) round_.top_logprobs.push_back(logprobs.top(request.top_logprobs));
  }
}

/// Rolls the pass back, and reads the kept rows again, if there are others.
void Sequence::redecode(SequenceScratch& scratch) {
  if (kept_rows_.size() == tokens_.size()) return;
  const Stopwatch watch(trace_.statistics.target_seconds);
  const int rows = static_cast<int>(committed_.size());
  transaction_.reset();
  transaction_.emplace(cache_->begin(rows));
  forward_alone(with_.target, {.cache = cache_.get(), .tokens = committed_, .logits_from = rows}, scratch.again);
  depths_.clear();
}

/// Sets the emitted tokens: the accepted draft tokens and the target's token, cut after the first that ends the text.
void Sequence::emit() {
  std::vector<Token>& emitted = round_.emitted;
  for (const int node : round_.proposal.path_to(round_.verdict.last)) emitted.push_back(round_.proposal.tokens[node]);
  emitted.push_back(round_.verdict.next);
  next_ = Next::go_on;
  for (std::size_t size = 1; size <= emitted.size() && next_ == Next::go_on; ++size) {
    if (!ends_with(std::span(emitted).first(size))) continue;
    emitted.resize(size);
    next_ = Next::stop;
  }
}

void Sequence::commit(const ObserveJob& observed, double seconds, SequenceScratch& scratch) {
  add_seconds(&Statistics::draft_seconds, seconds);
  time_draft(is_round_ ? &DraftTimes::accept : &DraftTimes::begin, seconds);
  if (observed.error) {
    if (with_.draft.times().empty() && !trace_.draft_times.empty()) ++trace_.draft_times.front().failed;
    fail(observed.error);
    return;
  }
  const auto keep_error = [&](const auto& step) {
    try {
      step();
    } catch (...) {
      error_ = std::current_exception();
    }
  };
  if (!is_round_) {
    transaction_->commit(static_cast<int>(tokens_.size()));
    transaction_.reset();
    if (!reading()) keep_error([&] { note_end(); });
  } else {
    depths_.empty() ? transaction_->commit(static_cast<int>(kept_rows_.size())) : transaction_->commit(kept_rows_);
    transaction_.reset();  // from here on recording cannot fail
    record();
    keep_error([&] { note_end(); });
    keep_error([&] { call_back(scratch); });
  }
  if (!error_) keep_error([&] { finish_if_due(); });
}

void Sequence::record() {
  text_.insert(text_.end(), round_.emitted.begin(), round_.emitted.end());
  feedback_ = next_feedback_;
  trace_.output.insert(trace_.output.end(), round_.emitted.begin(), round_.emitted.end());
  round_.cache_length = cache_->length();
  Statistics& statistics = trace_.statistics;
  ++statistics.rounds;
  if (const int draft_tokens = round_.proposal.size(); draft_tokens > 0) {
    ++statistics.iterations;
    statistics.drafted += draft_tokens;
    statistics.accepted += round_.accepted;
    ++(round_.all_accepted() ? statistics.all_accepted : statistics.mismatches);
    ++(trace_.execution.verification == Verification::serial ? statistics.serial : statistics.batched);
    const bool again = trace_.execution.verification == Verification::redecode && kept_rows_.size() < tokens_.size();
    if (again) statistics.redecoded += static_cast<int>(kept_rows_.size());
  }
  trace_.draft_reach = std::min(draft_reach_, with_.draft.reach());  // that of a translated draft depends on the text
  trace_.rounds.push_back(std::move(round_));
}

/// Calls back, then drops what the round holds for the call only.
void Sequence::call_back(SequenceScratch& scratch) {
  if (callback_.on_round) {
    const Next next = callback_.on_round(trace_);
    if (next_ == Next::go_on) next_ = next;
  }
  Round& round = trace_.rounds.back();
  round.rows = {};
  if (digests()) return;
  round.logits = {};
  round.targets = {};
  scratch.sampler.give_back(round.proposal.drawn_from);
}

void Sequence::fail(std::exception_ptr error) noexcept {
  error_ = std::move(error);
  next_ = Next::go_on;
  builder_.reset();
  transaction_.reset();
}

/// Adds to the times of a draft alone; those of several they have taken themselves.
void Sequence::time_draft(double DraftTimes::*spent, double seconds) noexcept {
  if (trace_.draft_times.empty()) return;
  const std::span<const DraftTimes> of_stages = with_.draft.times();
  if (of_stages.empty()) trace_.draft_times.front().*spent += seconds;
  else std::ranges::copy(of_stages, trace_.draft_times.begin());
}

void Sequence::add_seconds(double Statistics::*of_rounds, double seconds) noexcept {
  trace_.statistics.*(is_round_ ? of_rounds : &Statistics::prompt_seconds) += seconds;
}

}  // namespace draftproof
