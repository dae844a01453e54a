// SPDX-License-Identifier: MIT
// Runs the request again at once, and again after another request whose text begins alike and then goes elsewhere, and
// which must say what plain decoding says: whatever a subject keeps between requests (a generator, prefixes, scratch,
// what was asked) must not be heard.
#include <algorithm>

#include "oracle/checks/check.h"
#include "oracle/checks/same_run.h"

namespace draftproof {

Finding check_repeatable(Trial& trial) {
  Examination examination("repeatable");
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
    const auto& output = run->trace.output;
    const std::size_t shared = output.size() / 2;
    const int left = trial.request.max_new_tokens - static_cast<int>(shared) - 2;
    if (left < 1) continue;  // no room for another text that begins alike
    const int vocabulary = trial.subject.target(variation).vocabulary();
    Request other = another_request(trial.request, vocabulary);
    other.prompt = trial.request.prompt;
    other.sequence = trial.request.sequence;
    other.prompt.insert(other.prompt.end(), output.begin(), output.begin() + static_cast<std::ptrdiff_t>(shared));
    other.prompt.push_back((output[shared] + 1) % vocabulary);
    other.prompt.push_back(output[shared]);
    other.max_new_tokens = std::min(left, 4);
    Trial warm(trial.subject, other, trial.seed, {variation}, trial.effort);
    if (!trial.standalone_failure()) {  // what is wrong in every request is for other checks to say
      examination.expect(!warm.standalone_failure(), [&] {
        Failure wrong = *warm.standalone_failure();
        wrong.run += ", a text that begins like an earlier one";
        return wrong;
      });
    }
    repeat(" after a text that begins alike");
  }
  return std::move(examination).finding(std::to_string(again) + " runs again, cold and warm, every one the same");
}

}  // namespace draftproof
