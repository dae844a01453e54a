// SPDX-License-Identifier: MIT
// Compares runs with each other. Under greedy and `matching`, all runs of one numerics class say the same; under
// `rejection`, all runs that differ only in table, threads or verification do, round by round. A draft's memory depends
// on the text it was told and on nothing else.
#include <map>

#include "oracle/check.h"

namespace draftproof {

Finding check_independence(Trial& trial) {
  Examination examination("independence");
  std::map<std::string, const Run*> first_of;                            // by what must not differ
  std::map<std::pair<std::string, std::vector<Token>>, Fingerprint> told;  // draft and text to digest
  int pairs = 0;
  for (const Run& run : trial.runs) {
    const Variation& variation = run.variation;
    const std::string numerics = trial.subject.numerics(variation);
    const bool any_draft = trial.request.sampling.greedy() || variation.rule == &matching;
    const std::string group =
        numerics + (any_draft ? "" : "/" + variation.draft + "/" + std::to_string(variation.draft_max));
    const Run& other = *first_of.try_emplace(group, &run).first->second;
    if (&other != &run) {
      ++pairs;
      examination.expect(run.trace.output == other.trace.output && run.trace.finish == other.trace.finish, [&] {
        return "two runs differ in their text: " + variation.describe() + " and " + other.variation.describe();
      });
      const bool same_rounds = variation.draft == other.variation.draft &&
                               variation.draft_max == other.variation.draft_max &&
                               variation.rule == other.variation.rule;
      for (std::size_t i = 0; same_rounds && i < std::max(run.trace.rounds.size(), other.trace.rounds.size()); ++i) {
        const bool both = i < run.trace.rounds.size() && i < other.trace.rounds.size();
        examination.expect(both && run.trace.rounds[i].verdict == other.trace.rounds[i].verdict &&
                               run.trace.rounds[i].proposal.tokens == other.trace.rounds[i].proposal.tokens &&
                               run.trace.rounds[i].logits == other.trace.rounds[i].logits,
                           [&] {
                             return "round " + std::to_string(i) + " differs between " + variation.describe() + " and " +
                                    other.variation.describe();
                           });
      }
    }
    std::vector<Token> text = trial.request.prompt;
    for (const Round& round : run.trace.rounds) {
      text.insert(text.end(), round.emitted.begin(), round.emitted.end());
      const auto [place, fresh] = told.try_emplace(std::pair(numerics + "/" + variation.draft, text), round.draft);
      examination.expect(place->second == round.draft, [&] {
        return variation.describe() + ": after position " + std::to_string(text.size()) +
               " the draft remembers something else than in another run of the same text";
      });
    }
  }
  return std::move(examination).finding(std::to_string(pairs) + " pairs of runs agree");
}

}  // namespace draftproof
