// SPDX-License-Identifier: MIT
#include "oracle/plain/plain.h"

#include <algorithm>
#include <numeric>
#include <utility>

#include "kernels/math64.h"
#include "ref/acceptance/feedback.h"
#include "ref/acceptance/sampler.h"
#include "ref/base/require.h"
#include "ref/models/read_text.h"

namespace draftproof {

PlainRow row_of(std::span<const float> logits, const Sampling& sampling, std::span<const Token> text,
                const TokenSet* allowed) {
  return {digest_of(logits), compute_distribution(logits, sampling, {text, {}}, allowed)};
}

std::optional<TokenSet> allowed_after(const Request& request, std::span<const Token> text) {
  if (!request.constraint || ends_at_last(request, text)) return std::nullopt;
  const auto reader = request.constraint->reader();
  const auto output = request.constrained(text);
  if (!reader->possible(output)) return std::nullopt;
  return reader->allowed(output);
}

namespace {

/// The rows after a text of the request and after longer ones, each longer by a token.
class GrowingRows {
 public:
  explicit GrowingRows(const Request& request) : request_(request) {
    if (request.sampling.feeds_back()) feedback_.emplace(request.sampling);
  }

  PlainRow after(std::span<const float> logits, std::span<const Token> text) {
    if (feedback_ && !last_.blocks().empty()) feedback_ = feedback_->after(last_, text.back());
    const auto allowed = allowed_after(request_, text);
    PlainRow row = row_of(logits, request_.sampling, text, allowed ? &*allowed : nullptr);
    if (!feedback_) return row;
    last_ = row.distribution;
    row.distribution = feedback_->applied_to(last_);
    return row;
  }

 private:
  const Request& request_;
  std::optional<Feedback> feedback_;  // before the last token
  Distribution last_;                 // the row before it, without the feedback
};

/// Returns the log-probabilities of these tokens.
template <class Real>
std::vector<TokenLogprob> compute_log_probabilities(std::span<const Real> logits, std::span<const Token> tokens) {
  const double best = *std::max_element(logits.begin(), logits.end());
  double sum = 0;
  for (const Real logit : logits) sum += exp64(logit - best);
  const double log_sum = log64(sum);
  std::vector<TokenLogprob> list;
  for (const Token token : tokens) list.push_back({token, logits[token] - best - log_sum});
  return list;
}

}  // namespace

bool ends_at_last(const Request& request, std::span<const Token> text) {
  const bool complete = request.constraint && request.constraint->reader()->complete(request.constrained(text));
  return complete || (text.size() > request.prompt.size() && request.stops_at(text.back()));
}

double log_probability(std::span<const float> logits, Token token) {
  return compute_log_probabilities(logits, {&token, 1}).front().logprob;
}

double log_probability(std::span<const double> logits, Token token) {
  return compute_log_probabilities(logits, {&token, 1}).front().logprob;
}

std::vector<TokenLogprob> top_log_probabilities(std::span<const float> logits, int count) {
  std::vector<Token> tokens(logits.size());
  std::iota(tokens.begin(), tokens.end(), 0);
  const auto end = tokens.begin() + std::min<std::ptrdiff_t>(count, std::ssize(tokens));
  std::partial_sort(tokens.begin(), end, tokens.end(),
                    [&](Token a, Token b) { return logits[a] > logits[b] || (logits[a] == logits[b] && a < b); });
  return compute_log_probabilities(logits, {tokens.begin(), end});
}

PromptLogprob prompt_logprob(std::span<const float> logits, Token token, int top) {
  const auto larger = std::ranges::count_if(logits, [&](float logit) { return logit > logits[token]; });
  return {log_probability(logits, token), 1 + static_cast<int>(larger), top_log_probabilities(logits, top)};
}

std::vector<float> logits_after(Model& target, std::span<const Token> text, const std::optional<ContextShift>& shift) {
  const int length = static_cast<int>(text.size());
  const int capacity = shift ? std::min(length, shift->context) : length;
  const auto cache = target.new_cache(capacity, capacity);
  std::vector<float> last;
  read_text(target, *cache, text, capacity, shift, length - 1,
            [&](int, std::span<const float> logits) { last.assign(logits.begin(), logits.end()); });
  return last;
}

bool is_fresh_row(const Request& request, std::size_t tokens, int max) {
  const int stride = std::max(1, request.max_new_tokens / max + (request.max_new_tokens % max != 0));
  const auto last = static_cast<std::int64_t>(request.prompt.size()) + request.max_new_tokens - 1;
  return (last - static_cast<std::int64_t>(tokens)) % stride == 0;
}

std::vector<float> GrowingText::logits_after(std::span<const Token> text) {
  if (!cache_) cache_ = target_.new_cache(capacity_, prefill_chunk);
  REQUIRE(text.size() > read_, "the text has grown since the last call");
  const std::span<const Token> rest = text.subspan(read_);
  std::vector<float> last;
  read_text(target_, *cache_, rest, prefill_chunk, shift_, static_cast<int>(rest.size()) - 1,
            [&](int, std::span<const float> logits) { last.assign(logits.begin(), logits.end()); });
  read_ = text.size();
  return last;
}

PlainRow plain_row(Model& target, const Sampling& sampling, std::span<const Token> text) {
  return row_of(logits_after(target, text), sampling, text);
}

std::vector<PlainRow> plain_rows(Model& target, const Request& request, std::span<const Token> text, std::size_t from,
                                 int fresh_rows) {
  const std::optional<ContextShift>& shift = request.context_shift;
  GrowingText growing(target, static_cast<int>(text.size()), shift);
  GrowingRows reader(request);
  std::vector<PlainRow> rows;
  const std::size_t first = request.sampling.feeds_back() ? request.prompt.size() : from;
  for (std::size_t tokens = first; tokens <= text.size(); ++tokens) {
    const auto before = text.first(tokens);
    PlainRow row = reader.after(
        is_fresh_row(request, tokens, fresh_rows) ? logits_after(target, before, shift) : growing.logits_after(before),
        before);
    if (tokens >= from) rows.push_back(std::move(row));
  }
  return rows;
}

PlainRun plain(Model& target, const Request& request, RandomSource& random, int fresh_rows) {
  PlainRun run;
  std::vector<Token> text = request.prompt;
  const std::optional<ContextShift>& shift = request.context_shift;
  GrowingText growing(target, request.positions(), shift);
  GrowingRows rows(request);
  run.finish = Finish::length;
  while (static_cast<int>(run.output.size()) < request.max_new_tokens) {
    const std::vector<float> logits =
        is_fresh_row(request, text.size(), fresh_rows) ? logits_after(target, text, shift) : growing.logits_after(text);
    run.rows.push_back(rows.after(logits, text));
    const Distribution& p = run.rows.back().distribution;
    const Key key{request.sequence, static_cast<int>(text.size()), Purpose::target};
    const Token token = p.tokens()[random.sample_index(key, p.weights())];
    run.logprobs.push_back(log_probability(logits, token));
    run.top_logprobs.push_back(top_log_probabilities(logits, Request::top_logprobs_max));
    text.push_back(token);
    run.output.push_back(token);
    if (ends_at_last(request, text)) {
      run.finish = Finish::stop;
      break;
    }
  }
  return run;
}

}  // namespace draftproof
