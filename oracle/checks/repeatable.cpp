// SPDX-License-Identifier: MIT
// Runs the request again at once, and again after another request whose text begins the same and then continues
// differently. The results must be the same, and the other request must match plain decoding: nothing that a subject
// keeps between requests (a generator, cached prefixes, scratch buffers, the earlier request) may have an effect.
#include <algorithm>

#include "oracle/checks/checks.h"
#include "oracle/checks/same_run.h"

namespace draftproof {
namespace {

/// Returns a request whose prompt is the run's text up to the middle of its output and then another token; nothing when
/// no room is left for one more token.
std::optional<Request> request_with_the_same_beginning(const Trial& trial, const Run& run, int vocabulary) {
  const auto& output = run.trace.output;
  const std::size_t shared = output.size() / 2;
  const int left = trial.request.max_new_tokens - static_cast<int>(shared) - 2;
  if (left < 1) return std::nullopt;
  Request other = another_request(trial.request, vocabulary);
  other.prompt = trial.request.prompt;
  other.sequence = trial.request.sequence;
  other.prompt.insert(other.prompt.end(), output.begin(), output.begin() + static_cast<std::ptrdiff_t>(shared));
  other.prompt.push_back((output[shared] + 1) % vocabulary);
  other.prompt.push_back(output[shared]);
  other.max_new_tokens = std::min(left, 4);
  return other;
}

Finding examine_repeatable(Trial& trial) {
  Examination examination(repeatable);
  int again = 0;
  for (const Run* const run : trial.one_per_draft()) {
    const Variation& variation = run->variation;
    const auto repeat = [&](const char* when) {
      PhiloxSource random(trial.seed);
      const Trace trace = trial.subject.run(trial.request, variation, random);
      auto what = difference(run->trace, 0, trace, true, trial.promises_tokens(variation));
      ++again;
      return examination.expect(!what, [&] {
        what->run = variation.describe() + ", run again" + when;
        return *what;
      });
    };
    if (run->trace.output.empty() || !repeat("")) continue;
    const int vocabulary = trial.subject.target(variation).vocabulary();
    const auto other = request_with_the_same_beginning(trial, *run, vocabulary);
    if (!other) continue;
    Trial warm(trial.subject, *other, trial.seed, {variation}, trial.effort);
    if (!trial.standalone_failure()) {  // a fault of every request is reported by other checks
      examination.expect(!warm.standalone_failure(), [&] {
        Failure wrong = *warm.standalone_failure();
        wrong.run += ", a text that begins like an earlier one";
        return wrong;
      });
    }
    repeat(" after a text that begins the same");
  }
  return std::move(examination).finding(std::to_string(again) + " repeated runs, cold and warm, are all the same");
}

}  // namespace

const Check repeatable = {
    "repeatable",
    "the same seed gives the same run again, also after another request that begins the same and is itself right",
    "what is kept between requests: a generator, cached prefixes, scratch buffers, the earlier request; data races; "
    "where the other request fails alone, everything that tokens_equal, logits_equal, acceptance_correct and "
    "termination_and_counters blame",
    "what is wrong in the same way every time in this request: the model, the rule, sampling",
    examine_repeatable,
    [](const TrialCosts& trial) { return 2.2 * trial.repeated_runs; }};

}  // namespace draftproof
