// SPDX-License-Identifier: MIT
// Runs the request again at once, and again after another request whose text begins alike and then goes elsewhere:
// whatever a subject keeps between requests (a generator, prefixes, scratch) must not be heard.
#include <algorithm>

#include "oracle/check.h"
#include "oracle/same_history.h"

namespace draftproof {

Finding check_repeatable(Trial& trial) {
  Examination examination("repeatable");
  int again = 0;
  for (const Run* const run : trial.one_per_draft()) {
    const Variation& variation = run->variation;
    const auto repeat = [&](const char* when) {
      SeededChance chance(trial.seed);
      const Trace trace = trial.subject.run(trial.request, variation, chance);
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
    Request other = trial.request;
    other.prompt.insert(other.prompt.end(), output.begin(), output.begin() + static_cast<std::ptrdiff_t>(shared));
    other.prompt.push_back((output[shared] + 1) % trial.subject.target(variation).vocabulary());
    other.prompt.push_back(output[shared]);
    other.max_new_tokens = std::max(0, trial.request.max_new_tokens - static_cast<int>(shared) - 2);
    SeededChance chance(trial.seed);
    const Trace warm = trial.subject.run(other, variation, chance);
    if (!warm.rounds.empty()) {
      const Fingerprint& row = trial.row_after(variation, other.prompt).logits;
      examination.expect(!warm.rounds[0].logits.empty() && warm.rounds[0].logits[0] == row, [&] {
        return failure_of(variation, 0, static_cast<std::int64_t>(other.prompt.size()),
                          "the row after the prompt has logits " + row.hex(),
                          "a text that begins like an earlier one has other rows" +
                              (warm.rounds[0].logits.empty() ? "" : ": " + warm.rounds[0].logits[0].hex()),
                          {"the first " + std::to_string(trial.request.prompt.size() + shared) +
                               " tokens of its prompt were in the text decoded before",
                           "the text before the position is the same as in plain decoding"});
      });
    }
    repeat(" after a text that begins alike");
  }
  return std::move(examination).finding(std::to_string(again) + " runs again, cold and warm, every one the same");
}

}  // namespace draftproof
