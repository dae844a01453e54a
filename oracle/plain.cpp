// SPDX-License-Identifier: MIT
#include "oracle/plain.h"

#include <algorithm>

#include "kernels/math64.h"
#include "ref/acceptance/sampling.h"

namespace draftproof {

namespace {

PlainRow row_of(std::span<const float> logits, const Sampling& sampling, std::span<const Token> text) {
  return {digest_of(logits), distribution_of(logits, sampling, {text, {}})};
}

}  // namespace

double log_probability(std::span<const float> logits, Token token) {
  const double best = *std::max_element(logits.begin(), logits.end());
  double sum = 0;
  for (const float logit : logits) sum += exp64(logit - best);
  return logits[static_cast<std::size_t>(token)] - best - log64(sum);
}

std::vector<float> logits_after(Model& target, std::span<const Token> text) {
  const int length = static_cast<int>(text.size());
  const auto cache = target.new_cache(length, length);
  Transaction window = cache->begin(length);
  Outputs outputs;
  target.forward({.tokens = text, .logits_from = length - 1}, *cache, outputs);
  return std::move(outputs.logits);
}

PlainRow plain_row(Model& target, const Sampling& sampling, std::span<const Token> text) {
  return row_of(logits_after(target, text), sampling, text);
}

PlainRun plain(Model& target, const Request& request, Chance& chance) {
  PlainRun run;
  std::vector<Token> text = request.prompt;
  run.finish = Finish::length;
  while (static_cast<int>(run.output.size()) < request.max_new_tokens) {
    const std::vector<float> logits = logits_after(target, text);
    run.rows.push_back(row_of(logits, request.sampling, text));
    const Distribution& p = run.rows.back().distribution;
    const Key key{request.sequence, static_cast<int>(text.size()), Purpose::target};
    const Token token = p.tokens()[chance.pick(key, p.weights())];
    run.logprobs.push_back(log_probability(logits, token));
    text.push_back(token);
    run.output.push_back(token);
    if (request.stops_at(token)) {
      run.finish = Finish::stop;
      break;
    }
  }
  return run;
}

}  // namespace draftproof
