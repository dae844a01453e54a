// SPDX-License-Identifier: MIT
// Reads the plain text again in other ways: one token at a time, all at once, in chunks of small sizes, and with wrong
// draft tokens after each chunk that are then rolled back. Every row must keep its bits.
#include <algorithm>
#include <set>

#include "oracle/checks/checks.h"

namespace draftproof {
namespace {

/// Reads `chunk` tokens per pass, followed by `draft_tokens` wrong draft tokens. Returns the digests of the rows after
/// each token from `first` on.
std::vector<Fingerprint> read(Model& target, std::span<const Token> text, const std::optional<ContextShift>& shift,
                              int first, int chunk, int draft_tokens) {
  const int length = static_cast<int>(text.size());
  const int capacity = shift ? std::min(length, shift->context) : length;
  const auto cache = target.new_cache(capacity + draft_tokens, chunk + draft_tokens);
  std::vector<Fingerprint> rows;
  Outputs outputs;
  int now = 0;
  for (int at = 0; at < length; at += now) {
    now = std::min(chunk, length - at);
    if (shift) {
      now = std::min(now, shift->room(cache->length()));
      shift->make_room(*cache);
    }
    std::vector<Token> tokens(text.begin() + at, text.begin() + at + now);
    for (int i = 0; i < draft_tokens; ++i) {
      tokens.push_back((text[at] + 1 + i) % target.vocabulary());
    }
    Transaction transaction = cache->begin(now + draft_tokens);
    const int from = std::clamp(first - at, 0, now);
    forward_alone(target, {.cache = cache.get(), .tokens = tokens, .logits_from = from}, outputs);
    for (int row = from; row < now; ++row) {
      rows.push_back(digest_of(outputs.logits_row(row - from, target.vocabulary())));
    }
    transaction.commit(now);
  }
  return rows;
}

Finding examine_batch_invariance(Trial& trial) {
  Examination examination(batch_invariance);
  std::set<std::string> seen;  // one run per kernel table and number of threads
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
      const auto rows =
          read(trial.subject.target(run.variation), text, trial.request.context_shift, first, chunk, draft_tokens);
      for (std::size_t i = 0; i < expected.rows.size(); ++i) {
        examination.expect(rows[i] == expected.rows[i].logits, [&] {
          return make_failure(run.variation, -1, static_cast<std::int64_t>(i) + first + 1,
                              "the row that decides this token has logits " + expected.rows[i].logits.hex(),
                              "read " + std::to_string(chunk) + " tokens per pass, followed by " +
                                  std::to_string(draft_tokens) +
                                  " wrong draft tokens, the row has other bits: " + rows[i].hex(),
                              {"the text before the position is the same in both", "only the target was run"});
        });
      }
    }
  }
  return std::move(examination)
      .finding(std::to_string(readings) + " other ways to read the text, the same bits in every row");
}

double cost_of_batch_invariance(const TrialCosts& trial) {
  const double text = trial.prompt + trial.output;
  double readings = 0;
  for (const Reading& reading : first_of(other_readings, trial.effort.readings)) {
    const double calls = reading.chunk == 0 ? 0 : text / reading.chunk;
    readings += calls * trial.plain_token + (text + calls * reading.draft_tokens) * trial.plain_row;
  }
  return trial.ways * readings + trial.loading;
}

}  // namespace

const Check batch_invariance = {
    "batch_invariance",
    "the bits of a row depend on the text before it only, not on how the text was cut into passes or what else a pass "
    "computed",
    "the target's pass: masks, positions, kernels, threads; its KV caches",
    "the draft, the rule, the decode loop, sampling and random draws, because none of them runs",
    examine_batch_invariance,
    cost_of_batch_invariance};

}  // namespace draftproof
