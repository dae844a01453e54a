// SPDX-License-Identifier: MIT
// Replays every round from first principles: p from plain decoding, q as recorded, random answers by key. Shares no
// code with the rules it judges.
#include <algorithm>
#include <array>
#include <optional>

#include "oracle/checks/check.h"

namespace draftproof {
namespace {

Token drawn(RandomSource& random, const Key& key, std::span<const Token> tokens, std::span<const std::uint64_t> weights) {
  return tokens[random.sample_index(key, weights)];
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

/// The draft tokens that follow `last`, -1 being the anchor: one place, the first of which is judged by its q.
std::vector<int> following(const Proposal& proposal, int last) {
  std::vector<int> list;
  for (int draft_token = last + 1; draft_token < proposal.size() && proposal.depth(draft_token) > proposal.depth(last); ++draft_token) {
    if (proposal.depth(draft_token) == proposal.depth(last) + 1) list.push_back(draft_token);
  }
  return list;
}

/// The way down the tree of a round that its rows and the keys say.
struct Way {
  std::vector<int> draft_tokens;          // that stand
  long judged = 0;                   // places where something was drafted
  int refused = Proposal::no_node;  // the first draft token of the place where none stands
  std::optional<Token> next;         // the target's token there; none when what was drafted first has no weight in q
};

struct Replay {
  RandomSource& random;
  bool by_matching;
  int sequence;

  Key key(int position, Purpose purpose) const { return {sequence, position, purpose}; }

  Token target_draw(const Distribution& p, int position) const {
    return drawn(random, key(position, Purpose::target), p.tokens(), p.weights());
  }

  bool accepted(const Distribution& p, const Distribution& q, Token draft_token, int position) const {
    if (by_matching) return target_draw(p, position) == draft_token;
    const std::uint64_t wanted = p.weight(draft_token);
    const std::uint64_t offered = q.weight(draft_token);
    if (wanted >= offered) return true;
    return random.sample_index(key(position, Purpose::accept), std::array{wanted, offered - wanted}) == 0;
  }

  /// Why the draft token stands or falls, in numbers.
  std::vector<std::string> reasons(const Distribution& p, const Distribution& q, Token draft_token, int position) const {
    if (by_matching) {
      return {"the target draws token " + std::to_string(target_draw(p, position)) + " with " +
                  shown(key(position, Purpose::target)),
              "the draft token is token " + std::to_string(draft_token)};
    }
    std::vector<std::string> facts = {shown("p", p, draft_token), shown("q", q, draft_token)};
    if (p.weight(draft_token) < q.weight(draft_token)) {
      facts.push_back("by " + shown(key(position, Purpose::accept)) + " it " +
                      (accepted(p, q, draft_token, position) ? "stands" : "falls"));
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
    return drawn(random, key(position, Purpose::residual), tokens, weights);
  }

  /// `row(depth)` is p after `prefix`, which is the text and the draft tokens that stand so far.
  template <class Row>
  Way way(const Proposal& proposal, std::vector<Token>& prefix, const Row& row) const {
    Way way;
    for (;;) {
      const int position = static_cast<int>(prefix.size());
      const Distribution& p = row(way.draft_tokens.size());
      const std::vector<int> there = following(proposal, way.draft_tokens.empty() ? -1 : way.draft_tokens.back());
      if (there.empty()) {
        way.next = target_draw(p, position);
        return way;
      }
      ++way.judged;
      const auto first = static_cast<std::size_t>(there[0]);
      const Distribution& q = proposal.drawn_from[first];
      if (q.weight(proposal.tokens[first]) == 0) return way;
      Token token = proposal.tokens[first];
      if (!accepted(p, q, token, position)) token = after_refusal(p, q, position);
      const auto accepted_count = std::find_if(there.begin(), there.end(), [&](int draft_token) {
        return proposal.tokens[static_cast<std::size_t>(draft_token)] == token;
      });
      if (accepted_count == there.end()) {
        way.refused = there[0];
        way.next = token;
        return way;
      }
      way.draft_tokens.push_back(*accepted_count);
      prefix.push_back(token);
    }
  }
};

}  // namespace

Finding check_acceptance_correct(Trial& trial) {
  Examination examination("acceptance_correct");
  const Request& asked = trial.request;
  long rounds = 0;
  long judged = 0;
  for (const Run& run : trial.runs) {
    if (!run.variation.promises_tokens() && run.variation.rule->judge != rejection.judge) {
      return std::move(examination)
          .finding("", "there is no account of the rule " + std::string(run.variation.rule->name));
    }
    PhiloxSource random(trial.seed);
    const Replay replay{random, run.variation.promises_tokens(), asked.sequence};
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
      const auto& draft_tokens = round.proposal.tokens;
      expect(round.position == static_cast<int>(text.size()) && round.anchor == text.back(), text.size(), [&] {
        return What{"the text ends in " + std::to_string(text.back()) + ", which the round continues",
                    "it says it continues token " + std::to_string(round.anchor) + " at position " +
                        std::to_string(round.position),
                    {"the text is the prompt and what the rounds before emitted"}};
      });
      if (!expect(round.proposal.drawn_from.size() == draft_tokens.size(), text.size(), [&] {
            return What{std::to_string(draft_tokens.size()) + " draft tokens with a q each",
                        "a draft token comes without the q it was drawn from",
                        {"what is not stated cannot have been judged by"}};
          })) {
        break;
      }
      for (std::size_t i = 0; i < draft_tokens.size(); ++i) {
        const Distribution& q = round.proposal.drawn_from[i];
        const std::size_t position = text.size() + static_cast<std::size_t>(round.proposal.depth(static_cast<int>(i)));
        const Key key = replay.key(static_cast<int>(position), run.variation.rule->draft_noise);
        const bool possible = q.weight(draft_tokens[i]) > 0;
        const Token own = possible ? drawn(random, key, q.tokens(), q.weights()) : draft_tokens[i];
        expect(possible && own == draft_tokens[i], position, [&] {
          return What{"a draft token that is drawn from its stated q" +
                          (possible ? ", which gives token " + std::to_string(own) : std::string()),
                      "draft token " + std::to_string(draft_tokens[i]) + " was not drawn from its stated q",
                      {shown("q", q, draft_tokens[i]), "the draft draws with " + shown(key)}};
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
      const std::size_t accepted = way.draft_tokens.size();
      const int last = way.draft_tokens.empty() ? -1 : way.draft_tokens.back();
      const std::vector<Token> accepted_tokens(prefix.begin() + static_cast<std::ptrdiff_t>(text.size()), prefix.end());
      judged += way.judged;
      expect(round.verdict.accepted == static_cast<int>(accepted) && round.verdict.last == last, prefix.size(), [&] {
        std::vector<std::string> facts = {"the round has " + std::to_string(draft_tokens.size()) + " draft tokens"};
        const auto same = static_cast<std::size_t>(
            std::max(0, std::min(round.verdict.accepted, static_cast<int>(accepted))));
        const std::vector<int> there = following(round.proposal, same == 0 ? -1 : way.draft_tokens[same - 1]);
        if (!there.empty()) {
          std::vector<Token> before = text;
          before.insert(before.end(), accepted_tokens.begin(), accepted_tokens.begin() + static_cast<std::ptrdiff_t>(same));
          const Distribution& p = trial.row_after(run.variation, before).distribution;
          const auto first = static_cast<std::size_t>(there[0]);
          facts = replay.reasons(p, round.proposal.drawn_from[first], draft_tokens[first],
                                 static_cast<int>(before.size()));
        }
        const bool elsewhere = round.verdict.accepted == static_cast<int>(accepted);
        const auto to = [&](int draft_token) { return elsewhere ? ", to draft token " + std::to_string(draft_token) : std::string(); };
        return What{std::to_string(accepted) + " draft tokens stand" + to(last),
                    std::to_string(round.verdict.accepted) + " draft tokens were accepted" + to(round.verdict.last), facts};
      });

      // What is emitted are the draft tokens that stand and the target's token, cut by a stop token or by the budget only;
      // whether it had to be cut is for `budget` to say.
      const auto& emitted = round.emitted;
      const std::size_t accepted_count = std::min(accepted, emitted.size());
      expect(std::equal(emitted.begin(), emitted.begin() + static_cast<std::ptrdiff_t>(accepted_count), accepted_tokens.begin()),
             text.size(), [&] {
               return What{"the " + std::to_string(accepted) + " draft tokens that stand: " + listed(accepted_tokens, accepted),
                           "what is emitted are not the draft tokens that stand: " + listed(emitted, emitted.size()),
                           {"a draft token that stands is output"}};
             });
      if (way.next) {
        const int position = static_cast<int>(prefix.size());
        const Token next = *way.next;
        const Distribution& p = trial.row_after(run.variation, prefix).distribution;
        const bool cut = emitted.size() <= accepted;
        const bool said = cut || (emitted.size() == accepted + 1 && emitted.back() == next);
        expect(round.verdict.next == next && said, prefix.size(), [&] {
          const Token found = said ? round.verdict.next : emitted.back();
          const bool own = way.refused == Proposal::no_node || replay.by_matching;
          const Key key = replay.key(position, own ? Purpose::target : Purpose::residual);
          std::vector<std::string> facts = {shown("p", p, next), shown("p", p, found),
                                            "it is drawn with " + shown(key)};
          if (!own) {
            facts.insert(facts.begin() + 2,
                         shown("q", round.proposal.drawn_from[static_cast<std::size_t>(way.refused)], next));
          }
          return What{"p and the keys say token " + std::to_string(next) + " after the " + std::to_string(accepted) +
                          " draft tokens that stand",
                      "token " + std::to_string(found) + (said || emitted.back() != next ? "" : ", after one too many"),
                      facts};
        });
      }
      text.insert(text.end(), emitted.begin(), emitted.end());
      const bool cut = emitted.size() <= accepted;
      const bool filled = text.size() >= asked.prompt.size() + static_cast<std::size_t>(asked.max_new_tokens);
      expect(!cut || filled || std::find(asked.stops.begin(), asked.stops.end(), text.back()) != asked.stops.end(),
             text.size(), [&] {
               return What{"the draft tokens that stand and the token after them", "draft tokens that stand were not emitted",
                           {"there is neither a stop token at the end nor a budget used up"}};
             });
    }
  }
  return std::move(examination).finding(std::to_string(rounds) + " rounds replayed",
                                        judged > 0 ? "" : "no draft token was made, so there was nothing to judge");
}

}  // namespace draftproof
