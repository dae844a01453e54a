// SPDX-License-Identifier: MIT
#include "oracle/plain.h"

#include <algorithm>

#include "ref/acceptance/sampling.h"

namespace draftproof {

PlainRow plain_row(Model& target, const Sampling& sampling, std::span<const Token> text) {
  const int length = static_cast<int>(text.size());
  const auto cache = target.new_cache(length, length);
  Transaction window = cache->begin(length);
  Outputs outputs;
  target.forward({.tokens = text, .logits_from = length - 1}, *cache, outputs);
  const auto logits = outputs.logits_row(0, target.vocabulary());
  return {digest_of(logits), distribution_of(logits, sampling, {text, {}})};
}

PlainRun plain(Model& target, const Request& request, Chance& chance) {
  PlainRun run;
  std::vector<Token> text = request.prompt;
  run.finish = Finish::length;
  while (static_cast<int>(run.output.size()) < request.max_new_tokens) {
    run.rows.push_back(plain_row(target, request.sampling, text));
    const Distribution& p = run.rows.back().distribution;
    const Key key{request.sequence, static_cast<int>(text.size()), Purpose::target};
    const Token token = p.tokens()[chance.pick(key, p.weights())];
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
