// SPDX-License-Identifier: MIT
// Cuts a run where the cut may have no effect: the prefill into chunks of several sizes, and the run itself after its
// first round and half-way, where it is cancelled and another run continues its text.
#include <algorithm>

#include "oracle/checks/checks.h"
#include "oracle/checks/same_run.h"

namespace draftproof {
namespace {

/// Returns the number of chunk sizes tried.
int run_in_chunks(Trial& trial, const Run& run, Examination& examination) {
  int sizes = 0;
  for (const int rows : first_of(prompt_piece_sizes, trial.effort.prompt_pieces)) {
    if (rows >= static_cast<int>(trial.request.prompt.size()) - 1) continue;  // one chunk: the run we have
    ++sizes;
    Variation variation = run.variation;
    variation.prefill_chunk = rows;
    PhiloxSource random(trial.seed);
    const Trace trace = trial.subject.run(trial.request, variation, random);
    auto what = difference(run.trace, 0, trace, true, trial.promises_tokens(run.variation));
    examination.expect(!what, [&] {
      what->run = run.variation.describe() + ", prefill in chunks of " + std::to_string(rows);
      return *what;
    });
  }
  return sizes;
}

std::string ending(std::size_t rounds, Finish finish, int length) {
  return "the run ends after " + std::to_string(rounds) + " rounds, " + name_of(finish) + ", with " +
         std::to_string(length) + " positions in the cache";
}

/// The last token of a text is emitted and not read yet.
std::string fact_about(int text) {
  return "the text has " + std::to_string(text) + " tokens, the last of which is not read yet";
}

/// Returns how the end of a run cancelled after `cut` rounds is wrong.
std::optional<Failure> wrong_end(const Trial& trial, const Run& run, std::size_t cut, const Trace& begun, int text) {
  const int length = trial.positions_after(text - 1);
  if (begun.rounds.size() == cut && begun.finish == Finish::cancelled && begun.final_length == length) return {};
  return make_failure(run.variation, -1, -1, ending(cut, Finish::cancelled, length),
                      ending(begun.rounds.size(), begun.finish, begun.final_length), {fact_about(text)});
}

/// Returns how the cache that a cancelled run leaves is wrong.
std::optional<Failure> wrong_cache(Trial& trial, const Run& run, const Trace& begun, int text) {
  std::vector<Token> tokens = trial.request.prompt;
  tokens.insert(tokens.end(), begun.output.begin(), begun.output.end());
  const Fingerprint& cache = trial.cache_along(run.variation, tokens).at(static_cast<std::size_t>(text - 1));
  if (begun.final_cache == cache) return {};
  return make_failure(run.variation, -1, -1, "the cancelled run leaves the cache of its text, " + cache.hex(),
                      "it left another cache: " + begun.final_cache.hex(), {fact_about(text)});
}

/// Cancels the run after `cut` rounds and continues its text in a new run.
void cancel_and_resume(Trial& trial, const Run& run, std::size_t cut, Examination& examination) {
  const bool promised = trial.promises_tokens(run.variation);
  const auto expect_none = [&](std::optional<Failure> what, const char* more) {
    return examination.expect(!what, [&] {
      what->run = run.variation.describe() + ", cancelled after " + std::to_string(cut) + " rounds" + more;
      return *what;
    });
  };
  PhiloxSource random(trial.seed);
  std::size_t done = 0;
  const Trace begun =
      trial.subject.run_with_callback(trial.request, run.variation, random, [&](const Trace&) { return ++done < cut; });
  if (!expect_none(difference(run.trace, 0, begun, false, promised), "")) return;
  const int text = static_cast<int>(trial.request.prompt.size() + begun.output.size());
  if (!expect_none(wrong_end(trial, run, cut, begun, text), "")) return;
  if (!expect_none(wrong_cache(trial, run, begun, text), "")) return;
  if (trial.request.sampling.feeds_back()) return;  // another run begins anew what is fed back
  Request rest = trial.request;
  rest.prompt.insert(rest.prompt.end(), begun.output.begin(), begun.output.end());
  rest.constrained_prompt += static_cast<int>(begun.output.size());
  rest.max_new_tokens = std::max(0, rest.max_new_tokens - static_cast<int>(begun.output.size()));
  PhiloxSource same_random(trial.seed);
  const Trace resumed = trial.subject.run(rest, run.variation, same_random);
  expect_none(difference(run.trace, cut, resumed, true, promised), " and resumed");
}

Finding examine_chunked_prefill_and_resume(Trial& trial) {
  Examination examination(chunked_prefill_and_resume);
  int prefills = 0;
  int cuts = 0;
  for (const Run* const run : trial.one_per_draft()) {
    prefills += run_in_chunks(trial, *run, examination);
    const std::size_t rounds = run->trace.rounds.size();
    const std::size_t places[] = {rounds / 2, 1};
    for (const std::size_t& cut : first_of(places, trial.effort.cuts)) {
      if (cut == 0 || cut >= rounds || (&cut != &places[0] && cut == places[0])) continue;
      ++cuts;
      cancel_and_resume(trial, *run, cut, examination);
    }
  }
  return std::move(examination)
      .finding(std::to_string(prefills) + " chunked prefills, " + std::to_string(cuts) + " runs cancelled" +
                   (trial.request.sampling.feeds_back() ? "" : " and resumed"),
               cuts > 0 ? "" : "no run was long enough to be cancelled");
}

double cost_of_chunked_prefill_and_resume(const TrialCosts& trial) {
  const std::size_t pieces = trial.prompt > 8 ? first_of(prompt_piece_sizes, trial.effort.prompt_pieces).size() : 0;
  return (static_cast<double>(pieces) + 1.5 * std::min(trial.effort.cuts, 2)) * trial.repeated_runs;
}

}  // namespace

const Check chunked_prefill_and_resume = {
    "chunked_prefill_and_resume",
    "a prefill in chunks of any size, and a run cancelled and resumed, give the same run",
    "the prefill, the KV caches, the state that a cancelled run leaves, random draws numbered by call",
    "what is wrong in the same way however a run is cut: the model, the rule, sampling",
    examine_chunked_prefill_and_resume,
    cost_of_chunked_prefill_and_resume};

}  // namespace draftproof
