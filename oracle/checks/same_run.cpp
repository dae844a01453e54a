// SPDX-License-Identifier: MIT
#include "oracle/checks/same_run.h"

#include <algorithm>

namespace draftproof {
namespace {

std::string listed(const std::vector<Token>& tokens) {
  std::string text;
  for (const Token token : tokens) text += (text.empty() ? "" : " ") + std::to_string(token);
  return "[" + text + "]";
}

/// Compares two rounds with the same draft tokens.
std::optional<Failure> difference(const Round& expected, const Round& found) {
  Failure failure;
  failure.position = expected.position;
  failure.facts = {"request, seed and the rounds before are the same in both"};
  const auto differs = [&](const std::string& what, const std::string& as, const std::string& is) {
    failure.expected = what + " " + as;
    failure.observed = is;
    return failure;
  };
  if (found.position != expected.position || found.anchor != expected.anchor) {
    return differs(
        "the round begins after token", std::to_string(expected.anchor),
        "it begins after token " + std::to_string(found.anchor) + ", at position " + std::to_string(found.position));
  }
  failure.facts = {"the text before the position and the draft tokens of the round are the same in both"};
  const auto first = [](const auto& prints, const auto& others) {
    std::size_t row = 0;
    while (row < prints.size() && row < others.size() && prints[row] == others[row]) ++row;
    return row;
  };
  const auto print = [](const auto& prints, std::size_t row) {
    return row < prints.size() ? prints[row].hex() : std::string("missing");
  };
  if (const std::size_t row = first(expected.logits, found.logits); found.logits != expected.logits) {
    return differs("the logits of row " + std::to_string(row) + " are", print(expected.logits, row),
                   "the round was verified with other bits: " + print(found.logits, row));
  }
  if (const std::size_t row = first(expected.targets, found.targets); found.targets != expected.targets) {
    return differs("p of row " + std::to_string(row) + " is", print(expected.targets, row),
                   "the round was verified with other distributions: " + print(found.targets, row));
  }
  if (found.verdict != expected.verdict || found.emitted != expected.emitted) {
    return differs("the round emits", listed(expected.emitted),
                   "it has another verdict and emits " + listed(found.emitted));
  }
  if (found.cache != expected.cache || found.cache_length != expected.cache_length) {
    return differs("the round leaves the cache", expected.cache.hex(), "it left another cache: " + found.cache.hex());
  }
  return std::nullopt;
}

std::string ending(const Trace& trace) {
  return std::string("finished by ") + name_of(trace.finish) + ", with " + std::to_string(trace.final_length) +
         " positions in the cache";
}

/// Compares the texts, and how the runs end. `done`: tokens of `expected` that `found` does not repeat.
std::optional<Failure> difference_of_texts(const Trace& expected, std::size_t done, const Trace& found, bool whole) {
  const auto rest = expected.output.begin() + static_cast<std::ptrdiff_t>(done);
  const auto left = static_cast<std::size_t>(expected.output.end() - rest);
  Failure failure;
  if (found.output.size() > left || (whole && found.output.size() < left)) {
    failure.expected = std::to_string(left) + " tokens";
    failure.observed = "it emits " + std::to_string(found.output.size()) + " tokens";
    failure.facts = {"request and seed are the same in both"};
    return failure;
  }
  if (const auto [other, one] = std::mismatch(found.output.begin(), found.output.end(), rest);
      other != found.output.end()) {
    failure.position = static_cast<std::int64_t>(expected.request.prompt.size()) + (one - expected.output.begin());
    failure.round = round_that_emitted(expected, static_cast<std::size_t>(one - expected.output.begin()));
    failure.expected = "token " + std::to_string(*one);
    failure.observed = "it emits another token, " + std::to_string(*other);
    failure.facts = {"the text before the position is the same in both"};
    return failure;
  }
  if (whole && (found.finish != expected.finish || found.final_length != expected.final_length)) {
    failure.expected = ending(expected);
    failure.observed = "it ends otherwise: " + ending(found);
    failure.facts = {"the whole text is the same in both"};
    return failure;
  }
  return std::nullopt;
}

}  // namespace

std::optional<Failure> difference(const Trace& expected, std::size_t rounds, const Trace& found, bool whole,
                                  bool tokens_promised) {
  std::size_t done = 0;  // tokens of the first rounds
  for (std::size_t i = 0; i < rounds; ++i) done += expected.rounds[i].emitted.size();

  bool same_draft_tokens = true;
  for (std::size_t i = 0; i < found.rounds.size() && rounds + i < expected.rounds.size(); ++i) {
    const Round& round = expected.rounds[rounds + i];
    const Proposal& proposal = found.rounds[i].proposal;
    same_draft_tokens = round.proposal.tokens == proposal.tokens && round.proposal.depths == proposal.depths &&
                        round.proposal.drawn_from == proposal.drawn_from;
    if (!same_draft_tokens) break;
    if (auto failure = difference(round, found.rounds[i])) {
      failure->round = static_cast<std::int64_t>(rounds + i);
      return failure;
    }
  }
  if (!same_draft_tokens && !tokens_promised) return std::nullopt;
  return difference_of_texts(expected, done, found, whole);
}

}  // namespace draftproof
