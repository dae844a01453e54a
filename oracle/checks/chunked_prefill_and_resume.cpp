// SPDX-License-Identifier: MIT
// Cuts a run where nothing may show: its prompt into pieces of several sizes, and the run itself after its first round
// and half-way, where it is cancelled and another run goes on from what it said.
#include <algorithm>

#include "oracle/checks/check.h"
#include "oracle/checks/same_run.h"

namespace draftproof {
Finding check_chunked_prefill_and_resume(Trial& trial) {
  Examination examination("chunked_prefill_and_resume");
  int prompts = 0;
  int cuts = 0;
  for (const Run* const run : trial.one_per_draft()) {
    const bool promised = trial.promises_tokens(run->variation);
    for (const int rows : first_of(prompt_piece_sizes, trial.effort.prompt_pieces)) {
      if (rows >= static_cast<int>(trial.request.prompt.size()) - 1) continue;  // the whole prompt is the run we have
      ++prompts;
      Variation variation = run->variation;
      variation.prefill_chunk = rows;
      PhiloxSource random(trial.seed);
      const Trace trace = trial.subject.run(trial.request, variation, random);
      auto what = difference(run->trace, 0, trace, true, promised);
      examination.expect(!what, [&] {
        what->run = run->variation.describe() + ", prompt read " + std::to_string(rows) + " at a time";
        return *what;
      });
    }

    const std::size_t rounds = run->trace.rounds.size();
    const std::size_t places[] = {rounds / 2, 1};
    for (const std::size_t& cut : first_of(places, trial.effort.cuts)) {
      if (cut == 0 || cut >= rounds || (&cut != &places[0] && cut == places[0])) continue;
      ++cuts;
      const auto expect_none = [&](std::optional<Failure> what, const char* more) {
        return examination.expect(!what, [&] {
          what->run = run->variation.describe() + ", cancelled after " + std::to_string(cut) + " rounds" + more;
          return *what;
        });
      };
      PhiloxSource random(trial.seed);
      std::size_t done = 0;
      const Trace begun =
          trial.subject.run_with_callback(trial.request, run->variation, random, [&](const Trace&) { return ++done < cut; });
      if (!expect_none(difference(run->trace, 0, begun, false, promised), "")) continue;
      const int text = static_cast<int>(trial.request.prompt.size() + begun.output.size());
      const auto resting = [](std::size_t after, Finish finish, int length) {
        return "it rests after " + std::to_string(after) + " rounds, " + name_of(finish) + ", with " +
               std::to_string(length) + " positions";
      };
      std::optional<Failure> unrest;
      if (begun.rounds.size() != cut || begun.finish != Finish::cancelled || begun.final_length != text - 1) {
        unrest = failure_of(run->variation, -1, -1, resting(cut, Finish::cancelled, text - 1),
                            resting(begun.rounds.size(), begun.finish, begun.final_length),
                            {"the text is " + std::to_string(text) + " tokens, of which the last is not read yet"});
      }
      if (!expect_none(unrest, "")) continue;
      std::vector<Token> said = trial.request.prompt;
      said.insert(said.end(), begun.output.begin(), begun.output.end());
      const Fingerprint& cache = trial.cache_along(run->variation, said).at(static_cast<std::size_t>(text - 1));
      if (begun.final_cache != cache) {
        unrest = failure_of(run->variation, -1, -1, "it rests with the cache of what it said, " + cache.hex(),
                            "it left another cache: " + begun.final_cache.hex(),
                            {"the text is " + std::to_string(text) + " tokens, of which the last is not read yet"});
      }
      if (!expect_none(unrest, "")) continue;
      Request rest = trial.request;
      rest.prompt.insert(rest.prompt.end(), begun.output.begin(), begun.output.end());
      rest.max_new_tokens = std::max(0, rest.max_new_tokens - static_cast<int>(begun.output.size()));
      PhiloxSource same_random(trial.seed);
      const Trace ended = trial.subject.run(rest, run->variation, same_random);
      expect_none(difference(run->trace, cut, ended, true, promised), " and gone on with");
    }
  }
  return std::move(examination)
      .finding(std::to_string(prompts) + " prompts in pieces, " + std::to_string(cuts) +
                   " runs cancelled and gone on with",
               cuts > 0 ? "" : "no run was long enough to be cancelled");
}

}  // namespace draftproof
