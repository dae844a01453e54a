// SPDX-License-Identifier: MIT
// Replays every round from first principles: p from plain decoding, q as recorded, random answers by key. Shares no
// code with the rules it judges.
#include <algorithm>
#include <array>

#include "oracle/check.h"

namespace draftproof {
namespace {

Token drawn(Chance& chance, const Key& key, std::span<const Token> tokens, std::span<const std::uint64_t> weights) {
  return tokens[chance.pick(key, weights)];
}

struct Replay {
  Chance& chance;
  bool by_matching;
  int sequence;

  Key key(int position, Purpose purpose) const { return {sequence, position, purpose}; }

  Token target_draw(const Distribution& p, int position) const {
    return drawn(chance, key(position, Purpose::target), p.tokens(), p.weights());
  }

  bool stands(const Distribution& p, const Distribution& q, Token guess, int position) const {
    if (by_matching) return target_draw(p, position) == guess;
    const std::uint64_t wanted = p.weight(guess);
    const std::uint64_t offered = q.weight(guess);
    if (wanted >= offered) return true;
    return chance.pick(key(position, Purpose::accept), std::array{wanted, offered - wanted}) == 0;
  }

  Token after_refusal(const Distribution& p, const Distribution& q, int position) const {
    if (by_matching) return target_draw(p, position);
    std::vector<Token> tokens;
    std::vector<std::uint64_t> weights;
    for (const Token token : p.tokens()) {
      const std::uint64_t wanted = p.weight(token);
      const std::uint64_t offered = q.weight(token);
      if (wanted <= offered) continue;
      tokens.push_back(token);
      weights.push_back(wanted - offered);
    }
    return drawn(chance, key(position, Purpose::residual), tokens, weights);
  }
};

}  // namespace

Finding check_verdict_justified(Trial& trial) {
  Examination examination("verdict_justified");
  const Request& asked = trial.request;
  long rounds = 0;
  long judged = 0;
  for (const Run& run : trial.runs) {
    if (!run.variation.promises_tokens() && run.variation.rule->judge != rejection.judge) {
      return std::move(examination)
          .finding("", "there is no account of the rule " + std::string(run.variation.rule->name));
    }
    SeededChance chance(trial.seed);
    const Replay replay{chance, run.variation.promises_tokens(), asked.sequence};
    std::vector<Token> text = asked.prompt;
    for (const Round& round : run.trace.rounds) {
      ++rounds;
      const auto expect = [&](bool condition, const auto& what) {
        return examination.expect(condition, [&] {
          return run.variation.describe() + ": round at position " + std::to_string(text.size()) + ": " + what();
        });
      };
      const auto& guesses = round.proposal.tokens;
      expect(round.position == static_cast<int>(text.size()) && round.anchor == text.back(), [&] {
        return "it says it continues token " + std::to_string(round.anchor) + " at " + std::to_string(round.position) +
               ", the text ends in " + std::to_string(text.back());
      });
      if (!expect(round.proposal.drawn_from.size() == guesses.size(),
                  [] { return std::string("a guess comes without the q it was drawn from"); })) {
        break;
      }
      for (std::size_t i = 0; i < guesses.size(); ++i) {
        const Distribution& q = round.proposal.drawn_from[i];
        const Key key = replay.key(static_cast<int>(text.size() + i), run.variation.rule->draft_noise);
        expect(q.weight(guesses[i]) > 0 && drawn(chance, key, q.tokens(), q.weights()) == guesses[i],
               [&] { return "guess " + std::to_string(guesses[i]) + " was not drawn from its stated q"; });
      }
      std::vector<Token> prefix = text;
      const auto row_of_prefix = [&](std::size_t row) -> const Distribution& {
        const Distribution& p = trial.row_after(run.variation, prefix).distribution;
        expect(row < round.targets.size() && round.targets[row] == p.fingerprint(),
               [&] { return "row " + std::to_string(row) + " was judged by another p than plain's"; });
        return p;
      };

      std::size_t accepted = 0;
      bool possible = true;
      for (; accepted < guesses.size(); ++accepted) {
        ++judged;
        const int position = static_cast<int>(prefix.size());
        const Distribution& p = row_of_prefix(accepted);
        const Distribution& q = round.proposal.drawn_from[accepted];
        const Token guess = guesses[accepted];
        possible = q.weight(guess) > 0;
        if (!possible || !replay.stands(p, q, guess, position)) break;
        prefix.push_back(guess);
      }
      expect(round.verdict.accepted == static_cast<int>(accepted), [&] {
        return std::to_string(round.verdict.accepted) + " guesses were accepted, " + std::to_string(accepted) +
               " stand";
      });

      // What is emitted are the guesses that stand and the target's token, cut by a stop token or by the budget only;
      // whether it had to be cut is for `budget` to say.
      const auto& emitted = round.emitted;
      const std::size_t standing = std::min(accepted, emitted.size());
      expect(std::equal(emitted.begin(), emitted.begin() + static_cast<std::ptrdiff_t>(standing), guesses.begin()),
             [] { return std::string("what is emitted are not the guesses that stand"); });
      if (possible) {
        const int position = static_cast<int>(prefix.size());
        const bool all_stand = accepted == guesses.size();
        const Distribution& p =
            all_stand ? row_of_prefix(accepted) : trial.row_after(run.variation, prefix).distribution;
        const Token next = all_stand ? replay.target_draw(p, position)
                                     : replay.after_refusal(p, round.proposal.drawn_from[accepted], position);
        const bool cut = emitted.size() <= accepted;
        expect(round.verdict.next == next && (cut || (emitted.size() == accepted + 1 && emitted.back() == next)), [&] {
          return "the token after the accepted guesses is " +
                 std::to_string(cut || emitted.back() == next ? round.verdict.next : emitted.back()) +
                 ", p and the keys say " + std::to_string(next);
        });
      }
      text.insert(text.end(), emitted.begin(), emitted.end());
      const bool cut = emitted.size() <= accepted;
      const bool filled = text.size() >= asked.prompt.size() + static_cast<std::size_t>(asked.max_new_tokens);
      expect(!cut || filled || std::find(asked.stops.begin(), asked.stops.end(), text.back()) != asked.stops.end(),
             [] { return std::string("guesses that stand were not emitted"); });
    }
  }
  return std::move(examination).finding(std::to_string(rounds) + " rounds replayed",
                                        judged > 0 ? "" : "no guess was made, so there was nothing to judge");
}

}  // namespace draftproof
