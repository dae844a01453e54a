// SPDX-License-Identifier: MIT
// Replays every round from first principles: p from plain decoding, q as recorded, random answers by key. Shares no
// code with the rules it judges.
#include <array>

#include "oracle/check.h"

namespace draftproof {
namespace {

Token drawn(Chance& chance, const Key& key, std::span<const Token> tokens, std::span<const std::uint64_t> weights) {
  return tokens[chance.pick(key, weights)];
}

struct Replay {
  Chance& chance;
  const Rule& rule;
  int sequence;

  Key key(int position, Purpose purpose) const { return {sequence, position, purpose}; }

  Token target_draw(const Distribution& p, int position) const {
    return drawn(chance, key(position, Purpose::target), p.tokens(), p.weights());
  }

  bool stands(const Distribution& p, const Distribution& q, Token guess, int position) const {
    if (&rule == &matching) return target_draw(p, position) == guess;
    const std::uint64_t wanted = p.weight(guess);
    const std::uint64_t offered = q.weight(guess);
    if (wanted >= offered) return true;
    return chance.pick(key(position, Purpose::accept), std::array{wanted, offered - wanted}) == 0;
  }

  Token after_refusal(const Distribution& p, const Distribution& q, int position) const {
    if (&rule == &matching) return target_draw(p, position);
    std::vector<Token> tokens;
    std::vector<std::uint64_t> weights;
    for (std::size_t i = 0; i < p.tokens().size(); ++i) {
      const std::uint64_t wanted = p.weights()[i];
      const std::uint64_t offered = q.weight(p.tokens()[i]);
      if (wanted <= offered) continue;
      tokens.push_back(p.tokens()[i]);
      weights.push_back(wanted - offered);
    }
    return drawn(chance, key(position, Purpose::residual), tokens, weights);
  }
};

}  // namespace

Finding check_verdict_justified(Trial& trial) {
  Examination examination("verdict_justified");
  long rounds = 0;
  for (const Run& run : trial.runs) {
    SeededChance chance(trial.seed);
    const Rule& rule = *run.variation.rule;
    const Replay replay{chance, rule, trial.request.sequence};
    std::vector<Token> text = trial.request.prompt;
    for (const Round& round : run.trace.rounds) {
      ++rounds;
      const auto where = [&](const std::string& what) {
        return run.variation.describe() + ": round at position " + std::to_string(text.size()) + ": " + what;
      };
      const int guesses = round.proposal.size();
      std::vector<Token> prefix = text;
      int accepted = 0;
      for (; accepted < guesses; ++accepted) {
        const auto j = static_cast<std::size_t>(accepted);
        const int position = static_cast<int>(prefix.size());
        const PlainRow& row = trial.row_after(run.variation, prefix);
        const Distribution& q = round.proposal.drawn_from[j];
        const Token guess = round.proposal.tokens[j];
        examination.expect(j < round.targets.size() && round.targets[j] == row.distribution.fingerprint(),
                           [&] { return where("row " + std::to_string(j) + " was judged by another p than plain's"); });
        examination.expect(
            drawn(chance, replay.key(position, rule.draft_noise), q.tokens(), q.weights()) == guess,
            [&] { return where("guess " + std::to_string(guess) + " was not drawn from its stated q"); });
        if (!replay.stands(row.distribution, q, guess, position)) break;
        prefix.push_back(guess);
      }
      examination.expect(round.verdict.accepted == accepted, [&] {
        return where(std::to_string(round.verdict.accepted) + " guesses were accepted, " + std::to_string(accepted) +
                     " stand");
      });
      const bool next_emitted = static_cast<int>(round.emitted.size()) == accepted + 1;
      if (next_emitted) {
        const PlainRow& row = trial.row_after(run.variation, prefix);
        const int position = static_cast<int>(prefix.size());
        const Token next = accepted == guesses
                               ? replay.target_draw(row.distribution, position)
                               : replay.after_refusal(row.distribution,
                                                      round.proposal.drawn_from[static_cast<std::size_t>(accepted)],
                                                      position);
        examination.expect(round.emitted.back() == next, [&] {
          return where("the token after the accepted guesses is " + std::to_string(round.emitted.back()) +
                       ", p and the keys say " + std::to_string(next));
        });
      }
      text.insert(text.end(), round.emitted.begin(), round.emitted.end());
    }
  }
  return std::move(examination).finding(std::to_string(rounds) + " rounds replayed");
}

}  // namespace draftproof
