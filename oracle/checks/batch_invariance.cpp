// SPDX-License-Identifier: MIT
// Reads the plain text again in other ways: one token at a time, all at once, in chunks of every small size, and with
// wrong draft tokens behind each chunk that are then forgotten. Every row must keep its bits.
#include <algorithm>
#include <set>

#include "oracle/checks/check.h"

namespace draftproof {
namespace {

/// Digests of the rows after each token from `first` on, reading `chunk` tokens per pass with `draft tokens` wrong ones
/// behind them.
std::vector<Fingerprint> read(Model& target, std::span<const Token> text, int first, int chunk, int draft_tokens) {
  const int length = static_cast<int>(text.size());
  const auto cache = target.new_cache(length + draft_tokens, chunk + draft_tokens);
  std::vector<Fingerprint> rows;
  Outputs outputs;
  for (int at = 0; at < length; at += chunk) {
    const int now = std::min(chunk, length - at);
    std::vector<Token> tokens(text.begin() + at, text.begin() + at + now);
    for (int g = 0; g < draft_tokens; ++g) {
      tokens.push_back((text[static_cast<std::size_t>(at)] + 1 + g) % target.vocabulary());
    }
    Transaction transaction = cache->begin(now + draft_tokens);
    const int from = std::clamp(first - at, 0, now);
    target.forward({.tokens = tokens, .logits_from = from}, *cache, outputs);
    for (int row = from; row < now; ++row) {
      rows.push_back(digest_of(outputs.logits_row(row - from, target.vocabulary())));
    }
    transaction.commit(now);
  }
  return rows;
}

}  // namespace

Finding check_batch_invariance(Trial& trial) {
  Examination examination("batch_invariance");
  std::set<std::string> seen;  // one reading per way of computing
  int readings = 0;
  for (const Run& run : trial.runs) {
    if (!seen.insert(run.variation.kernels + "/" + std::to_string(run.variation.threads)).second) continue;
    const PlainRun& expected = trial.plain_run(run.variation);
    std::vector<Token> text = trial.request.prompt;
    if (expected.output.empty()) continue;
    text.insert(text.end(), expected.output.begin(), expected.output.end() - 1);
    const int first = static_cast<int>(trial.request.prompt.size()) - 1;
    const int whole = static_cast<int>(text.size());
    for (const Reading& reading : first_of(other_readings, trial.effort.readings)) {
      ++readings;
      const int chunk = reading.chunk == 0 ? whole : std::min(reading.chunk, whole);
      const int draft_tokens = reading.draft_tokens;
      const auto rows = read(trial.subject.target(run.variation), text, first, chunk, draft_tokens);
      for (std::size_t i = 0; i < expected.rows.size(); ++i) {
        examination.expect(rows[i] == expected.rows[i].logits, [&] {
          return failure_of(run.variation, -1, static_cast<std::int64_t>(i) + first + 1,
                            "the row that decides it has logits " + expected.rows[i].logits.hex(),
                            "read " + std::to_string(chunk) + " tokens at a time with " + std::to_string(draft_tokens) +
                                " wrong draft tokens behind, the row has other bits: " + rows[i].hex(),
                            {"the text before the position is the same in both", "only the target was run"});
        });
      }
    }
  }
  return std::move(examination).finding(std::to_string(readings) + " other readings of the text, every row the same");
}

}  // namespace draftproof
