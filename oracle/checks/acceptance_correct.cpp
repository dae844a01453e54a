// SPDX-License-Identifier: MIT
// Replays every round from first principles: p from plain decoding, q as recorded, random draws by key. Shares no code
// with the rules it examines.
#include <algorithm>
#include <array>
#include <optional>

#include "oracle/checks/block_walk.h"
#include "oracle/checks/checks.h"

namespace draftproof {
namespace {

Token drawn(RandomSource& random, const Key& key, std::span<const Token> tokens,
            std::span<const std::uint64_t> weights) {
  return tokens[random.sample_index(key, weights)];
}

struct Contradiction {
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
         name_of(key.purpose) + (key.depth == 0 ? "" : ", depth " + std::to_string(key.depth)) + ")";
}

/// Returns the children of draft token `last`, -1 being the anchor. The first of them is verified with its q.
std::vector<int> children_of(const Proposal& proposal, int last) {
  std::vector<int> list;
  for (int node = last + 1; node < proposal.size() && proposal.depth(node) > proposal.depth(last); ++node) {
    if (proposal.depth(node) == proposal.depth(last) + 1) list.push_back(node);
  }
  return list;
}

/// The path through the tree of a round that follows from its rows and the keys.
struct ExpectedPath {
  std::vector<int> nodes;            // the accepted draft tokens
  long judged = 0;                   // positions with draft tokens
  int rejected = Proposal::no_node;  // the first draft token of the position where none is accepted
  std::optional<Token> next;         // the target's token there; none when the first draft token has no weight in q, or
                                     // where it is free
  std::vector<std::uint64_t> shares = {};  // BlockWalk::shares

  int last() const { return nodes.empty() ? -1 : nodes.back(); }
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

  /// Returns why the draft token is accepted or rejected, in numbers.
  std::vector<std::string> reasons(const Distribution& p, const Distribution& q, Token draft_token,
                                   int position) const {
    if (by_matching) {
      return {"the target draws token " + std::to_string(target_draw(p, position)) + " with " +
                  shown(key(position, Purpose::target)),
              "the draft token is token " + std::to_string(draft_token)};
    }
    std::vector<std::string> facts = {shown("p", p, draft_token), shown("q", q, draft_token)};
    if (p.weight(draft_token) < q.weight(draft_token)) {
      facts.push_back("by " + shown(key(position, Purpose::accept)) + " it is " +
                      (accepted(p, q, draft_token, position) ? "accepted" : "rejected"));
    }
    return facts;
  }

  Token after_rejection(const Distribution& p, const Distribution& q, int position) const {
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

  /// Extends `prefix`, the text, with the accepted draft tokens. `row(depth)` is p after `prefix` at that depth, and
  /// `is_free(depth)` whether that row, and what is drawn from it, may be anything.
  template <class Row, class IsFree>
  ExpectedPath path(const Proposal& proposal, std::vector<Token>& prefix, const Row& row, const IsFree& is_free) const {
    ExpectedPath path;
    for (;;) {
      const int position = static_cast<int>(prefix.size());
      const std::vector<int> children = children_of(proposal, path.last());
      if (children.empty() && is_free(path.nodes.size())) return path;
      const Distribution& p = row(path.nodes.size());
      if (children.empty()) {
        path.next = target_draw(p, position);
        return path;
      }
      ++path.judged;
      const auto first = static_cast<std::size_t>(children[0]);
      const Distribution& q = proposal.drawn_from[first];
      if (q.weight(proposal.tokens[first]) == 0) return path;
      Token token = proposal.tokens[first];
      if (!accepted(p, q, token, position)) token = after_rejection(p, q, position);
      const auto node =
          std::find_if(children.begin(), children.end(), [&](int child) { return proposal.tokens[child] == token; });
      if (node == children.end()) {
        path.rejected = children[0];
        path.next = token;
        return path;
      }
      path.nodes.push_back(*node);
      prefix.push_back(token);
    }
  }
};

/// Replays the rounds of one run, in order.
class RunReplay {
 public:
  RunReplay(Trial& trial, const Run& run, Examination& examination)
      : trial_(trial),
        run_(run),
        examination_(examination),
        random_(trial.seed),
        replay_{random_, run.variation.promises_tokens(), trial.request.sequence},
        text_(trial.request.prompt) {}

  void replay() {
    for (const Round& round : run_.trace.rounds) {
      ++rounds_;
      expect_continuation(round);
      if (!expect_q_for_each(round)) return;
      expect_draws_from_q(round);
      replay(round);
    }
  }

  long rounds() const { return rounds_; }
  long judged() const { return judged_; }

 private:
  /// `contradiction` is called when the condition is false.
  template <class Describe>
  bool expect(bool condition, std::size_t position, const Describe& contradiction) {
    return examination_.expect(condition, [&] {
      const Contradiction found = contradiction();
      return make_failure(run_.variation, rounds_ - 1, static_cast<std::int64_t>(position), found.expected,
                          found.observed, found.facts);
    });
  }

  const Distribution& p_after(const std::vector<Token>& text) {
    return trial_.row_after(run_.variation, text).distribution;
  }

  void expect_continuation(const Round& round) {
    expect(round.position == static_cast<int>(text_.size()) && round.anchor == text_.back(), text_.size(), [&] {
      return Contradiction{
          "the text ends in " + std::to_string(text_.back()) + ", which the round continues",
          "it continues token " + std::to_string(round.anchor) + " at position " + std::to_string(round.position),
          {"the text is the prompt and what the rounds before emitted"}};
    });
  }

  bool expect_q_for_each(const Round& round) {
    const auto& draft_tokens = round.proposal.tokens;
    return expect(round.proposal.drawn_from.size() == draft_tokens.size(), text_.size(), [&] {
      return Contradiction{std::to_string(draft_tokens.size()) + " draft tokens with a q each",
                           "a draft token comes without the q it was drawn from",
                           {"a q that is not stated cannot have been used to verify"}};
    });
  }

  void expect_draws_from_q(const Round& round) {
    const auto& draft_tokens = round.proposal.tokens;
    for (std::size_t i = 0; i < draft_tokens.size(); ++i) {
      const Distribution& q = round.proposal.drawn_from[i];
      const int depth = round.proposal.depth(static_cast<int>(i));
      const std::size_t position = text_.size() + static_cast<std::size_t>(depth);
      const Key key =
          draft_key(replay_.sequence, static_cast<int>(text_.size()), depth, run_.variation.rule->draft_noise);
      const bool possible = q.weight(draft_tokens[i]) > 0;
      const Token own = possible ? drawn(random_, key, q.tokens(), q.weights()) : draft_tokens[i];
      expect(possible && own == draft_tokens[i], position, [&] {
        return Contradiction{"a draft token that is drawn from its stated q" +
                                 (possible ? ", which gives token " + std::to_string(own) : std::string()),
                             "draft token " + std::to_string(draft_tokens[i]) + " was not drawn from its stated q",
                             {shown("q", q, draft_tokens[i]), "the draft draws with " + shown(key)}};
      });
    }
  }

  void replay(const Round& round) {
    std::vector<Token> prefix = text_;
    // A constraint says nothing about the row behind the end of a text, so it may mask it in any way.
    const auto is_free = [&](const std::vector<Token>& text) {
      return text.size() > text_.size() && trial_.request.constraint && ends_at_last(trial_.request, text);
    };
    const auto row_after = [&](std::size_t row, const std::vector<Token>& text) -> const Distribution& {
      const Distribution& p = p_after(text);
      expect(row < round.targets.size() && round.targets[row] == p.fingerprint(), text.size(), [&] {
        return Contradiction{"p has the fingerprint " + p.fingerprint().hex(),
                             "row " + std::to_string(row) + " was verified with another p" +
                                 (row < round.targets.size() ? ": " + round.targets[row].hex() : ""),
                             {"the text before the position is the same in both"}};
      });
      return p;
    };
    ExpectedPath path;
    if (run_.variation.rule->judge == block.judge && round.proposal.is_chain()) {
      const BlockWalk walk = walk_block({round.proposal, text_, replay_.sequence, row_after, is_free}, random_);
      path = {walk.nodes, static_cast<long>(walk.shares.size()), walk.rejected, walk.next, walk.shares};
      for (const int node : walk.nodes) prefix.push_back(round.proposal.tokens[static_cast<std::size_t>(node)]);
    } else {
      path = replay_.path(
          round.proposal, prefix, [&](std::size_t row) -> const Distribution& { return row_after(row, prefix); },
          [&](std::size_t) { return is_free(prefix); });
    }
    judged_ += path.judged;
    const std::vector<Token> accepted(prefix.begin() + static_cast<std::ptrdiff_t>(text_.size()), prefix.end());
    expect_verdict(round, path, accepted);
    expect_accepted_emitted(round, accepted);
    if (path.next) expect_next(round, path, prefix);
    text_.insert(text_.end(), round.emitted.begin(), round.emitted.end());
    expect_no_early_end(round, accepted.size());
  }

  /// The numbers behind the first decision in which the verdict and the path differ.
  std::vector<std::string> facts_of_verdict(const Round& round, const ExpectedPath& path,
                                            const std::vector<Token>& accepted) {
    if (!path.shares.empty()) {
      std::vector<std::string> facts;
      for (std::size_t i = 0; i < path.shares.size(); ++i) {
        facts.push_back("p, q and the coins give " + std::to_string(i) + " draft tokens the share " +
                        std::to_string(path.shares[i]) + " / 2048");
      }
      return facts;
    }
    const auto same =
        static_cast<std::size_t>(std::max(0, std::min(round.verdict.accepted, static_cast<int>(accepted.size()))));
    const std::vector<int> children = children_of(round.proposal, same == 0 ? -1 : path.nodes[same - 1]);
    if (children.empty()) {
      return {"the round has " + std::to_string(round.proposal.tokens.size()) + " draft tokens"};
    }
    std::vector<Token> before = text_;
    before.insert(before.end(), accepted.begin(), accepted.begin() + static_cast<std::ptrdiff_t>(same));
    const auto first = static_cast<std::size_t>(children[0]);
    return replay_.reasons(p_after(before), round.proposal.drawn_from[first], round.proposal.tokens[first],
                           static_cast<int>(before.size()));
  }

  void expect_verdict(const Round& round, const ExpectedPath& path, const std::vector<Token>& accepted) {
    const int count = static_cast<int>(accepted.size());
    expect(round.verdict.accepted == count && round.verdict.last == path.last(), text_.size() + accepted.size(), [&] {
      const auto until = [&](int node) {  // named where only the branch differs
        return round.verdict.accepted == count ? ", up to draft token " + std::to_string(node) : std::string();
      };
      return Contradiction{
          "p, q and the keys accept " + std::to_string(count) + " draft tokens" + until(path.last()),
          std::to_string(round.verdict.accepted) + " draft tokens were accepted" + until(round.verdict.last),
          facts_of_verdict(round, path, accepted)};
    });
  }

  /// A round emits the accepted draft tokens and the target's token, cut only by a stop token or by the budget. Whether
  /// it had to be cut is examined by termination_and_counters.
  void expect_accepted_emitted(const Round& round, const std::vector<Token>& accepted) {
    const auto& emitted = round.emitted;
    const auto common = static_cast<std::ptrdiff_t>(std::min(accepted.size(), emitted.size()));
    expect(std::equal(emitted.begin(), emitted.begin() + common, accepted.begin()), text_.size(), [&] {
      return Contradiction{
          "the " + std::to_string(accepted.size()) + " accepted draft tokens: " + listed(accepted, accepted.size()),
          "the emitted tokens are not the accepted draft tokens: " + listed(emitted, emitted.size()),
          {"an accepted draft token is output"}};
    });
  }

  /// `prefix`: the text and the accepted draft tokens.
  void expect_next(const Round& round, const ExpectedPath& path, const std::vector<Token>& prefix) {
    const auto& emitted = round.emitted;
    const std::size_t accepted = path.nodes.size();
    const Token next = *path.next;
    const Distribution& p = p_after(prefix);
    const bool right = emitted.size() <= accepted || (emitted.size() == accepted + 1 && emitted.back() == next);
    expect(round.verdict.next == next && right, prefix.size(), [&] {
      const Token found = right ? round.verdict.next : emitted.back();
      const bool own = path.rejected == Proposal::no_node || replay_.by_matching;
      const Key key = replay_.key(static_cast<int>(prefix.size()), own ? Purpose::target : Purpose::residual);
      std::vector<std::string> facts = {shown("p", p, next), shown("p", p, found), "it is drawn with " + shown(key)};
      if (!own) {
        const Distribution& q = round.proposal.drawn_from[path.rejected];
        facts.insert(facts.begin() + 2, shown("q", q, next));
      }
      return Contradiction{
          "p and the keys give token " + std::to_string(next) + " after the " + std::to_string(accepted) +
              " accepted draft tokens",
          "token " + std::to_string(found) + (right || emitted.back() != next ? "" : ", after one token too many"),
          facts};
    });
  }

  /// `accepted`: how many draft tokens are.
  void expect_no_early_end(const Round& round, std::size_t accepted) {
    const Request& asked = trial_.request;
    const bool cut = round.emitted.size() <= accepted;
    const bool filled = text_.size() >= asked.prompt.size() + static_cast<std::size_t>(asked.max_new_tokens);
    const bool stopped = ends_at_last(asked, text_);
    expect(!cut || filled || stopped, text_.size(), [&] {
      return Contradiction{"the accepted draft tokens and the token after them",
                           "accepted draft tokens were not emitted",
                           {"nothing that was emitted ends the text, and the budget is not used up"}};
    });
  }

  Trial& trial_;
  const Run& run_;
  Examination& examination_;
  PhiloxSource random_;
  const Replay replay_;
  std::vector<Token> text_;
  long rounds_ = 0;
  long judged_ = 0;
};

Finding examine_acceptance_correct(Trial& trial) {
  Examination examination(acceptance_correct);
  long rounds = 0;
  long judged = 0;
  for (const Run& run : trial.runs) {
    if (const char* rule = unknown_rule(run.variation)) {
      return std::move(examination).finding("", "the rule " + std::string(rule) + " cannot be replayed");
    }
    RunReplay replay(trial, run, examination);
    replay.replay();
    rounds += replay.rounds();
    judged += replay.judged();
  }
  return std::move(examination)
      .finding(std::to_string(rounds) + " rounds replayed",
               judged > 0 ? "" : "nothing was drafted, so nothing could be accepted");
}

}  // namespace

const Check acceptance_correct = {
    "acceptance_correct",
    "every draft token was drawn from its stated q, and every verdict follows from p, q and the keys",
    "the rule, the stated q, sampling parameters on verification rows, keys of random draws, what the decode loop "
    "emits; the target's pass where logits_equal fails as well",
    "how good the draft tokens are, because any q is right that they are drawn from; the conversion of logits to a "
    "distribution and the random generator, which plain decoding shares",
    examine_acceptance_correct,
    costs_nothing};

}  // namespace draftproof
