// SPDX-License-Identifier: MIT
#include "oracle/check.h"

namespace draftproof {

Finding check_logits_equal(Trial& trial) {
  Examination examination("logits_equal");
  long rows = 0;
  for (const Run& run : trial.runs) {
    std::vector<Token> text = trial.request.prompt;
    for (const Round& round : run.trace.rounds) {
      for (std::size_t j = 0; j < round.emitted.size(); ++j) {
        const PlainRow& expected = trial.row_after(run.variation, text);
        ++rows;
        examination.expect(j < round.logits.size() && round.logits[j] == expected.logits, [&] {
          return run.variation.describe() + ": the row that decided position " + std::to_string(text.size()) +
                 " (row " + std::to_string(j) + " of its verification) has other bits than plain decoding's";
        });
        text.push_back(round.emitted[j]);
      }
    }
  }
  return std::move(examination).finding(std::to_string(rows) + " rows have plain decoding's bits");
}

}  // namespace draftproof
