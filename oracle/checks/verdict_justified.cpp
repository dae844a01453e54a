// SPDX-License-Identifier: MIT
// Replays every round from first principles: p from plain decoding, q as recorded, random answers by key. Shares no
// code with the rules it judges.
#include <algorithm>
#include <array>
#include <optional>

#include "oracle/check.h"

namespace draftproof {
namespace {

Token drawn(Chance& chance, const Key& key, std::span<const Token> tokens, std::span<const std::uint64_t> weights) {
  return tokens[chance.pick(key, weights)];
}

struct What {
  std::string expected;
  std::string observed;
  std::vector<std::string> facts;
};

std::string listed(const std::vector<Token>& tokens, std::size_t count) {
  std::string text;
  for (std::size_t i = 0; i < count; ++i) text += (i == 0 ? "" : " ") + std::to_string(tokens[i]);
  return "[" + text + "]";
}

std::string shown(const char* name, const Distribution& row, Token token) {
  return std::string(name) + " of token " + std::to_string(token) + " is " + std::to_string(row.weight(token)) +
         " / 2^52";
}

std::string shown(const Key& key) {
  return "the key (sequence " + std::to_string(key.sequence) + ", position " + std::to_string(key.position) + ", " +
         name_of(key.purpose) + ")";
}

/// The guesses that follow `last`, -1 being the anchor: one place, the first of which is judged by its q.
std::vector<int> following(const Proposal& proposal, int last) {
  std::vector<int> list;
  for (int guess = last + 1; guess < proposal.size() && proposal.depth(guess) > proposal.depth(last); ++guess) {
    if (proposal.depth(guess) == proposal.depth(last) + 1) list.push_back(guess);
  }
  return list;
}

/// The way down the tree of a round that its rows and the keys say.
struct Way {
  std::vector<int> guesses;          // that stand
  long judged = 0;                   // places where something was guessed
  int refused = Proposal::no_guess;  // the first guess of the place where none stands
  std::optional<Token> next;         // the target's token there; none when what was guessed first has no weight in q
};

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

  /// Why the guess stands or falls, in numbers.
  std::vector<std::string> reasons(const Distribution& p, const Distribution& q, Token guess, int position) const {
    if (by_matching) {
      return {"the target draws token " + std::to_string(target_draw(p, position)) + " with " +
                  shown(key(position, Purpose::target)),
              "the guess is token " + std::to_string(guess)};
    }
    std::vector<std::string> facts = {shown("p", p, guess), shown("q", q, guess)};
    if (p.weight(guess) < q.weight(guess)) {
      facts.push_back("by " + shown(key(position, Purpose::accept)) + " it " +
                      (stands(p, q, guess, position) ? "stands" : "falls"));
    }
    return facts;
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

  /// `row(depth)` is p after `prefix`, which is the text and the guesses that stand so far.
  template <class Row>
  Way way(const Proposal& proposal, std::vector<Token>& prefix, const Row& row) const {
    Way way;
    for (;;) {
      const int position = static_cast<int>(prefix.size());
      const Distribution& p = row(way.guesses.size());
      const std::vector<int> there = following(proposal, way.guesses.empty() ? -1 : way.guesses.back());
      if (there.empty()) {
        way.next = target_draw(p, position);
        return way;
      }
      ++way.judged;
      const auto first = static_cast<std::size_t>(there[0]);
      const Distribution& q = proposal.drawn_from[first];
      if (q.weight(proposal.tokens[first]) == 0) return way;
      Token token = proposal.tokens[first];
      if (!stands(p, q, token, position)) token = after_refusal(p, q, position);
      const auto standing = std::find_if(there.begin(), there.end(), [&](int guess) {
        return proposal.tokens[static_cast<std::size_t>(guess)] == token;
      });
      if (standing == there.end()) {
        way.refused = there[0];
        way.next = token;
        return way;
      }
      way.guesses.push_back(*standing);
      prefix.push_back(token);
    }
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
    std::int64_t at = -1;  // the round looked at
    for (const Round& round : run.trace.rounds) {
      ++rounds;
      ++at;
      // `what` gives expected, observed and the facts.
      const auto expect = [&](bool condition, std::size_t position, const auto& what) {
        return examination.expect(condition, [&] {
          const What said = what();
          return failure_of(run.variation, at, static_cast<std::int64_t>(position), said.expected, said.observed,
                            said.facts);
        });
      };
      const auto& guesses = round.proposal.tokens;
      expect(round.position == static_cast<int>(text.size()) && round.anchor == text.back(), text.size(), [&] {
        return What{"the text ends in " + std::to_string(text.back()) + ", which the round continues",
                    "it says it continues token " + std::to_string(round.anchor) + " at position " +
                        std::to_string(round.position),
                    {"the text is the prompt and what the rounds before emitted"}};
      });
      if (!expect(round.proposal.drawn_from.size() == guesses.size(), text.size(), [&] {
            return What{std::to_string(guesses.size()) + " guesses with a q each",
                        "a guess comes without the q it was drawn from",
                        {"what is not stated cannot have been judged by"}};
          })) {
        break;
      }
      for (std::size_t i = 0; i < guesses.size(); ++i) {
        const Distribution& q = round.proposal.drawn_from[i];
        const std::size_t position = text.size() + static_cast<std::size_t>(round.proposal.depth(static_cast<int>(i)));
        const Key key = replay.key(static_cast<int>(position), run.variation.rule->draft_noise);
        const bool possible = q.weight(guesses[i]) > 0;
        const Token own = possible ? drawn(chance, key, q.tokens(), q.weights()) : guesses[i];
        expect(possible && own == guesses[i], position, [&] {
          return What{"a guess that is drawn from its stated q" +
                          (possible ? ", which gives token " + std::to_string(own) : std::string()),
                      "guess " + std::to_string(guesses[i]) + " was not drawn from its stated q",
                      {shown("q", q, guesses[i]), "the draft draws with " + shown(key)}};
        });
      }
      std::vector<Token> prefix = text;
      const auto row_of_prefix = [&](std::size_t row) -> const Distribution& {
        const Distribution& p = trial.row_after(run.variation, prefix).distribution;
        expect(row < round.targets.size() && round.targets[row] == p.fingerprint(), prefix.size(), [&] {
          return What{"p has the fingerprint " + p.fingerprint().hex(),
                      "row " + std::to_string(row) + " was judged by another p" +
                          (row < round.targets.size() ? ": " + round.targets[row].hex() : ""),
                      {"the text before the position is the same in both"}};
        });
        return p;
      };

      const Way way = replay.way(round.proposal, prefix, row_of_prefix);
      const std::size_t accepted = way.guesses.size();
      const int last = way.guesses.empty() ? -1 : way.guesses.back();
      const std::vector<Token> stood(prefix.begin() + static_cast<std::ptrdiff_t>(text.size()), prefix.end());
      judged += way.judged;
      expect(round.verdict.accepted == static_cast<int>(accepted) && round.verdict.last == last, prefix.size(), [&] {
        std::vector<std::string> facts = {"the round has " + std::to_string(guesses.size()) + " guesses"};
        const auto same = static_cast<std::size_t>(
            std::max(0, std::min(round.verdict.accepted, static_cast<int>(accepted))));
        const std::vector<int> there = following(round.proposal, same == 0 ? -1 : way.guesses[same - 1]);
        if (!there.empty()) {
          std::vector<Token> before = text;
          before.insert(before.end(), stood.begin(), stood.begin() + static_cast<std::ptrdiff_t>(same));
          const Distribution& p = trial.row_after(run.variation, before).distribution;
          const auto first = static_cast<std::size_t>(there[0]);
          facts = replay.reasons(p, round.proposal.drawn_from[first], guesses[first],
                                 static_cast<int>(before.size()));
        }
        const bool elsewhere = round.verdict.accepted == static_cast<int>(accepted);
        const auto to = [&](int guess) { return elsewhere ? ", to guess " + std::to_string(guess) : std::string(); };
        return What{std::to_string(accepted) + " guesses stand" + to(last),
                    std::to_string(round.verdict.accepted) + " guesses were accepted" + to(round.verdict.last), facts};
      });

      // What is emitted are the guesses that stand and the target's token, cut by a stop token or by the budget only;
      // whether it had to be cut is for `budget` to say.
      const auto& emitted = round.emitted;
      const std::size_t standing = std::min(accepted, emitted.size());
      expect(std::equal(emitted.begin(), emitted.begin() + static_cast<std::ptrdiff_t>(standing), stood.begin()),
             text.size(), [&] {
               return What{"the " + std::to_string(accepted) + " guesses that stand: " + listed(stood, accepted),
                           "what is emitted are not the guesses that stand: " + listed(emitted, emitted.size()),
                           {"a guess that stands is output"}};
             });
      if (way.next) {
        const int position = static_cast<int>(prefix.size());
        const Token next = *way.next;
        const Distribution& p = trial.row_after(run.variation, prefix).distribution;
        const bool cut = emitted.size() <= accepted;
        const bool said = cut || (emitted.size() == accepted + 1 && emitted.back() == next);
        expect(round.verdict.next == next && said, prefix.size(), [&] {
          const Token found = said ? round.verdict.next : emitted.back();
          const bool own = way.refused == Proposal::no_guess || replay.by_matching;
          const Key key = replay.key(position, own ? Purpose::target : Purpose::residual);
          std::vector<std::string> facts = {shown("p", p, next), shown("p", p, found),
                                            "it is drawn with " + shown(key)};
          if (!own) {
            facts.insert(facts.begin() + 2,
                         shown("q", round.proposal.drawn_from[static_cast<std::size_t>(way.refused)], next));
          }
          return What{"p and the keys say token " + std::to_string(next) + " after the " + std::to_string(accepted) +
                          " guesses that stand",
                      "token " + std::to_string(found) + (said || emitted.back() != next ? "" : ", after one too many"),
                      facts};
        });
      }
      text.insert(text.end(), emitted.begin(), emitted.end());
      const bool cut = emitted.size() <= accepted;
      const bool filled = text.size() >= asked.prompt.size() + static_cast<std::size_t>(asked.max_new_tokens);
      expect(!cut || filled || std::find(asked.stops.begin(), asked.stops.end(), text.back()) != asked.stops.end(),
             text.size(), [&] {
               return What{"the guesses that stand and the token after them", "guesses that stand were not emitted",
                           {"there is neither a stop token at the end nor a budget used up"}};
             });
    }
  }
  return std::move(examination).finding(std::to_string(rounds) + " rounds replayed",
                                        judged > 0 ? "" : "no guess was made, so there was nothing to judge");
}

}  // namespace draftproof
