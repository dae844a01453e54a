// SPDX-License-Identifier: MIT
// Compares runs with each other. When greedy or under `matching`, all runs of one numerics class have the same text.
// Under `rejection`, all runs that differ only in kernel table, threads or verification have it, round by round.
#include <algorithm>
#include <map>

#include "oracle/checks/checks.h"

namespace draftproof {
namespace {

bool same_draft_tokens(const Round& a, const Round& b) {
  return a.proposal.tokens == b.proposal.tokens && a.proposal.depths == b.proposal.depths;
}

std::string differing(const Trace& a, const Trace& b, std::size_t round) {
  if (round >= a.rounds.size() || round >= b.rounds.size()) return ": only one run has it";
  const Round& mine = a.rounds[round];
  const Round& other = b.rounds[round];
  if (!same_draft_tokens(mine, other)) return " in its draft tokens";
  return mine.logits != other.logits ? " in its rows" : " in its verdict";
}

class ConfigComparison {
 public:
  ConfigComparison(Trial& trial, Examination& examination) : trial_(trial), examination_(examination) {}

  void add(const Run& run) {
    const Variation& variation = run.variation;
    const std::string numerics = trial_.subject.numerics(variation);
    const std::string drafted = numerics + "/" + variation.draft + "/" + std::to_string(variation.draft_max);
    const bool any_draft = trial_.request.sampling.greedy() || variation.promises_tokens();
    const Run& like = *same_text_.try_emplace(any_draft ? numerics : drafted, &run).first->second;
    if (&like != &run) compare_texts(run, like);
    const Run& twin = *same_rounds_.try_emplace(drafted + "/" + variation.rule->name, &run).first->second;
    if (&twin != &run) compare_rounds(run, twin);
  }

  int pairs() const { return pairs_; }

 private:
  void compare_texts(const Run& run, const Run& like) {
    ++pairs_;
    examination_.expect(run.trace.output == like.trace.output && run.trace.finish == like.trace.finish, [&] {
      const auto [mine, other] = std::mismatch(run.trace.output.begin(), run.trace.output.end(),
                                               like.trace.output.begin(), like.trace.output.end());
      const auto emitted = [](const Trace& trace, auto token) {
        return token == trace.output.end() ? std::string("finished by ") + name_of(trace.finish)
                                           : "token " + std::to_string(*token);
      };
      const std::int64_t place = mine - run.trace.output.begin();
      return make_failure(run.variation, round_that_emitted(run.trace, static_cast<std::size_t>(place)),
                          static_cast<std::int64_t>(trial_.request.prompt.size()) + place,
                          "as in the run " + like.variation.describe() + ": " + emitted(like.trace, other),
                          "the two texts differ: " + emitted(run.trace, mine),
                          {"request and seed are the same in both", "the text before is the same in both"});
    });
  }

  void compare_rounds(const Run& run, const Run& twin) {
    const auto& rounds = run.trace.rounds;
    const auto& others = twin.trace.rounds;
    for (std::size_t i = 0; i < std::max(rounds.size(), others.size()); ++i) {
      const bool both = i < rounds.size() && i < others.size();
      examination_.expect(both && rounds[i].verdict == others[i].verdict && same_draft_tokens(rounds[i], others[i]) &&
                              rounds[i].logits == others[i].logits,
                          [&] {
                            return make_failure(run.variation, static_cast<std::int64_t>(i),
                                                i < rounds.size() ? rounds[i].position : -1,
                                                "the round of the run " + twin.variation.describe(),
                                                "the round differs" + differing(run.trace, twin.trace, i),
                                                {"the runs differ only in kernel table, threads or verification, which "
                                                 "decide nothing"});
                          });
    }
  }

  Trial& trial_;
  Examination& examination_;
  std::map<std::string, const Run*> same_text_;    // the first run of those that must have the same text
  std::map<std::string, const Run*> same_rounds_;  // ... and the same rounds
  int pairs_ = 0;
};

Finding examine_config_invariance(Trial& trial) {
  Examination examination(config_invariance);
  ConfigComparison comparison(trial, examination);
  for (const Run& run : trial.runs) comparison.add(run);
  return std::move(examination).finding(std::to_string(comparison.pairs()) + " pairs of runs agree");
}

}  // namespace

const Check config_invariance = {
    "config_invariance",
    "the result does not depend on the draft, the draft length, the kernel table, threads or batched/serial "
    "verification",
    "the decode loop, kernels and threads, keys of random draws",
    "what is wrong in the same way in all runs: the model, the conversion of logits to a distribution, the rule",
    examine_config_invariance,
    costs_nothing};

}  // namespace draftproof
