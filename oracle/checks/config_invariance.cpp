// SPDX-License-Identifier: MIT
// Compares runs with each other. Under greedy and `matching`, all runs of one numerics class say the same; under
// `rejection`, all runs that differ only in table, threads or verification do, round by round. A draft's memory depends
// on the text it was told and on nothing else: not on the run, and a draft that only reads the text has the same.
#include <algorithm>
#include <map>

#include "oracle/checks/check.h"

namespace draftproof {
namespace {

bool same_draft_tokens(const Round& a, const Round& b) {
  return a.proposal.tokens == b.proposal.tokens && a.proposal.depths == b.proposal.depths;
}

std::string differing(const Trace& a, const Trace& b, std::size_t round) {
  if (round >= a.rounds.size() || round >= b.rounds.size()) return "in being there";
  const Round& mine = a.rounds[round];
  const Round& theirs = b.rounds[round];
  if (!same_draft_tokens(mine, theirs)) return "in its draft tokens";
  return mine.logits != theirs.logits ? "in its rows" : "in its verdict";
}

}  // namespace

Finding check_config_invariance(Trial& trial) {
  Examination examination("config_invariance");
  std::map<std::string, const Run*> same_text;    // the first run of those that must say the same
  std::map<std::string, const Run*> same_rounds;  // ... round by round
  std::map<std::pair<std::string, std::vector<Token>>, Fingerprint> told;  // draft and text to digest
  std::map<std::pair<std::string, std::vector<Token>>, Fingerprint> memory_of;
  int pairs = 0;
  for (const Run& run : trial.runs) {
    const Variation& variation = run.variation;
    const std::string numerics = trial.subject.numerics(variation);
    const std::string drafted = numerics + "/" + variation.draft + "/" + std::to_string(variation.draft_max);
    const bool any_draft = trial.request.sampling.greedy() || variation.promises_tokens();
    const Run& like = *same_text.try_emplace(any_draft ? numerics : drafted, &run).first->second;
    if (&like != &run) {
      ++pairs;
      examination.expect(run.trace.output == like.trace.output && run.trace.finish == like.trace.finish, [&] {
        const auto [mine, theirs] = std::mismatch(run.trace.output.begin(), run.trace.output.end(),
                                                  like.trace.output.begin(), like.trace.output.end());
        const auto said = [](const Trace& trace, auto token) {
          return token == trace.output.end() ? std::string("finished by ") + name_of(trace.finish)
                                             : "token " + std::to_string(*token);
        };
        const std::int64_t place = mine - run.trace.output.begin();
        return failure_of(variation, round_that_emitted(run.trace, static_cast<std::size_t>(place)),
                          static_cast<std::int64_t>(trial.request.prompt.size()) + place,
                          "as in the run " + like.variation.describe() + ": " + said(like.trace, theirs),
                          "the two differ in their text: " + said(run.trace, mine),
                          {"request and seed are the same in both", "the text before is the same in both"});
      });
    }
    const Run& twin = *same_rounds.try_emplace(drafted + "/" + variation.rule->name, &run).first->second;
    for (std::size_t i = 0; &twin != &run && i < std::max(run.trace.rounds.size(), twin.trace.rounds.size()); ++i) {
      const bool both = i < run.trace.rounds.size() && i < twin.trace.rounds.size();
      examination.expect(both && run.trace.rounds[i].verdict == twin.trace.rounds[i].verdict &&
                             same_draft_tokens(run.trace.rounds[i], twin.trace.rounds[i]) &&
                             run.trace.rounds[i].logits == twin.trace.rounds[i].logits,
                         [&] {
                           return failure_of(
                               variation, static_cast<std::int64_t>(i),
                               i < run.trace.rounds.size() ? run.trace.rounds[i].position : -1,
                               "the round of the run " + twin.variation.describe(),
                               "the round differs " + differing(run.trace, twin.trace, i),
                               {"they differ in table, threads or verification only, which decide nothing"});
                         });
    }
    // A draft that was merely told the text must remember what this one does.
    Request retold = trial.request;
    retold.prompt.insert(retold.prompt.end(), run.trace.output.begin(), run.trace.output.end());
    retold.max_new_tokens = 0;
    const auto [memory, untold] = memory_of.try_emplace(std::pair(numerics + "/" + variation.draft, retold.prompt));
    if (untold) {
      PhiloxSource random(trial.seed);
      memory->second = trial.subject.run(retold, variation, random).final_draft;
    }
    if (memory->second != Fingerprint{}) {
      examination.expect(memory->second == run.trace.final_draft, [&] {
        return failure_of(variation, -1, -1,
                          "in the end the draft remembers what one does that was only told the text, " +
                              memory->second.hex(),
                          "the draft remembers something else: " + run.trace.final_draft.hex(),
                          {"the text is the same in both"});
      });
    }

    std::vector<Token> text = trial.request.prompt;
    std::int64_t at = -1;
    for (const Round& round : run.trace.rounds) {
      ++at;
      text.insert(text.end(), round.emitted.begin(), round.emitted.end());
      const auto [place, fresh] = told.try_emplace(std::pair(numerics + "/" + variation.draft, text), round.draft);
      if (fresh || round.draft == Fingerprint{}) continue;  // a draft without memory has nothing to compare
      examination.expect(place->second == round.draft, [&] {
        return failure_of(variation, at, static_cast<std::int64_t>(text.size()),
                          "the draft remembers what it does in another run of the same text, " + place->second.hex(),
                          "the draft remembers something else: " + round.draft.hex(),
                          {"the text before the position is the same in both"});
      });
    }
  }
  return std::move(examination).finding(std::to_string(pairs) + " pairs of runs agree");
}

}  // namespace draftproof
