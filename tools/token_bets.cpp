// SPDX-License-Identifier: MIT
#include "tools/token_bets.h"

#include <algorithm>
#include <optional>
#include <span>
#include <vector>

#include "oracle/sequential/e_process.h"
#include "oracle/spectrace/games.h"

namespace draftproof {

TokenTest bet_on_tokens(Trial& trial, const Run& run) {
  const EProcess::Settings settings = {.vocabulary = trial.subject.target(run.variation).vocabulary(),
                                       .spreads = false};
  EProcess process(settings);
  spectrace::EvidenceCurve curve;
  std::vector<Token> text = trial.request.prompt;
  std::optional<Token> rejected;  // in the round before
  // What is not known before the token is not bet with: by matching, a draft token may be drawn with the token's own
  // number; by block, how far a round reaches is decided by draft tokens behind the token.
  const bool with_q = run.variation.rule->judge == rejection.judge;
  const bool with_rejected = run.variation.rule->judge != block.judge;
  for (const Round& round : run.trace.rounds) {
    const Proposal& proposal = round.proposal;
    const bool chain = proposal.is_chain();
    for (std::size_t i = 0; i < round.emitted.size(); ++i) {
      const Distribution& p = trial.row_after(run.variation, text).distribution;
      const bool drawn = with_q && chain && i < proposal.drawn_from.size();
      const auto dropped = rejected ? std::span<const Token>(&*rejected, 1) : std::span<const Token>();
      process.observe(p, drawn ? &proposal.drawn_from[i] : nullptr, round.emitted[i],
                      {.before = text, .dropped = dropped});
      curve.add(process.tokens(), process.e_value());
      text.push_back(round.emitted[i]);
    }
    const auto accepted = static_cast<std::size_t>(std::max(0, round.verdict.accepted));
    rejected.reset();
    if (with_rejected && chain && accepted < proposal.tokens.size()) rejected = proposal.tokens[accepted];
  }
  return {.tokens = process.tokens(),
          .alpha = settings.alpha,
          .e_value = process.e_value(),
          .smallest_deviation = process.smallest_deviation(),
          .suspect = process.suspect(),
          .curve = curve.points(),
          .by_bet = process.by_bet()};
}

}  // namespace draftproof
