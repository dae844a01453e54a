// SPDX-License-Identifier: MIT
// Compares the recorded draws of every run with the draws its rounds need: which draws, in which order, under which
// keys, and no others. So no key serves two decisions (except one draw that uses its number twice, and drafts under
// `matching`, which share the target's number), no draw is discarded, every draw uses the requested seed and sequence,
// and a key depends only on position, purpose and, of a draft's draw, its round.
#include <algorithm>

#include "oracle/checks/block_walk.h"
#include "oracle/checks/checks.h"

namespace draftproof {
namespace {

/// A draw that the rounds need. Not `needed`: it may or may not have been made, which the trace does not show.
struct ExpectedDraw {
  Key key;
  bool needed = true;
};

bool is_draw(const Distribution& distribution) { return !distribution.is_point(); }

class ExpectedDraws {
 public:
  ExpectedDraws(Trial& trial, const Run& run) : trial_(trial), run_(run), text_(trial.request.prompt) {}

  std::vector<ExpectedDraw> expected() && {
    for (const Round& round : run_.trace.rounds) {
      add_draft_tokens(round);
      if (run_.variation.promises_tokens()) add_matching(round);
      else if (run_.variation.rule->judge == block.judge && round.proposal.is_chain()) add_block(round);
      else add_rejection(round);
      text_.insert(text_.end(), round.emitted.begin(), round.emitted.end());
    }
    return std::move(expected_);
  }

 private:
  void add(int position, Purpose purpose, bool needed = true) {
    expected_.push_back({{trial_.request.sequence, position, purpose}, needed});
  }
  void add_draft_draw(int depth, bool needed) {
    const Purpose noise = run_.variation.rule->draft_noise;
    expected_.push_back({draft_key(trial_.request.sequence, position(), depth, noise), needed});
  }

  void add_draft_tokens(const Round& round) {
    const Proposal& proposal = round.proposal;
    for (int i = 0; i < static_cast<int>(proposal.drawn_from.size()); ++i) {
      if (is_draw(proposal.drawn_from[i])) add_draft_draw(proposal.depth(i), true);
    }
    // The trace does not show whether draft tokens were drawn that were cut off: after a stop token, or where a
    // constraint did not allow them. Only the first branch is drawn.
    int branch = 0;
    while (branch < proposal.size() - proposal.forced && proposal.depth(branch) == branch) ++branch;
    const bool stopped = branch > 0 && trial_.request.stops_at(proposal.tokens[branch - 1]);
    if (!stopped && proposal.cut == 0) return;
    const int max = std::max(run_.variation.draft_max, run_.trace.execution.draft_max);
    for (int i = branch; i < max; ++i) add_draft_draw(i, false);
  }

  /// The accepted draft tokens.
  static std::vector<int> path(const Round& round) {
    return round.proposal.path_to(std::clamp(round.verdict.last, -1, round.proposal.size() - 1));
  }

  /// Returns the text after the first `count` draft tokens of a path.
  std::vector<Token> text_after(const Round& round, const std::vector<int>& path, std::size_t count) const {
    std::vector<Token> text = text_;
    for (std::size_t i = 0; i < count; ++i) text.push_back(round.proposal.tokens[path[i]]);
    return text;
  }

  /// Returns p there.
  const Distribution& row(const Round& round, const std::vector<int>& path, std::size_t count) {
    return trial_.row_after(run_.variation, text_after(round, path, count)).distribution;
  }

  /// Whether the text ends with an accepted draft token and a constraint may mask the row behind it in any way, so that
  /// it may need a draw or none.
  bool is_free_behind(const Round& round, const std::vector<int>& accepted) const {
    return !accepted.empty() && trial_.request.constraint &&
           ends_at_last(trial_.request, text_after(round, accepted, accepted.size()));
  }

  void add_matching(const Round& round) {
    const std::vector<int> accepted = path(round);
    for (std::size_t i = 0; i <= accepted.size(); ++i) {
      const bool needed = i < accepted.size() || !is_free_behind(round, accepted);
      if (!needed || is_draw(row(round, accepted, i))) {
        add(position() + static_cast<int>(i), Purpose::target, needed);
      }
    }
  }

  void add_rejection(const Round& round) {
    const Proposal& proposal = round.proposal;
    const std::vector<int> accepted = path(round);
    for (std::size_t i = 0; i <= accepted.size(); ++i) {
      const int at = position() + static_cast<int>(i);
      const int first = proposal.first_child(i == 0 ? -1 : accepted[i - 1]);
      if (first == Proposal::no_node && is_free_behind(round, accepted)) {
        add(at, Purpose::target, false);
        continue;
      }
      const Distribution& p = row(round, accepted, i);
      if (first == Proposal::no_node) {
        if (is_draw(p)) add(at, Purpose::target);
        continue;
      }
      const auto place = static_cast<std::size_t>(first);
      const Token draft_token = proposal.tokens[place];
      if (p.weight(draft_token) < proposal.drawn_from[place].weight(draft_token)) add(at, Purpose::accept);
      if (i == accepted.size() || accepted[i] != first) add(at, Purpose::residual);
    }
  }

  void add_block(const Round& round) {
    const auto row_after = [&](std::size_t, const std::vector<Token>& text) -> const Distribution& {
      return trial_.row_after(run_.variation, text).distribution;
    };
    const auto is_free = [&](const std::vector<Token>& text) {
      return text.size() > text_.size() && trial_.request.constraint && ends_at_last(trial_.request, text);
    };
    PhiloxSource random(trial_.seed);
    const BlockWalk walk = walk_block({round.proposal, text_, trial_.request.sequence, row_after, is_free}, random);
    for (const Key& key : walk.draws) expected_.push_back({key});
    if (!walk.next) add(position() + static_cast<int>(walk.nodes.size()), Purpose::target, false);
  }

  int position() const { return static_cast<int>(text_.size()); }

  Trial& trial_;
  const Run& run_;
  std::vector<Token> text_;
  std::vector<ExpectedDraw> expected_;
};

std::string name_of(const Key& key) {
  return "position " + std::to_string(key.position) + ", purpose " + draftproof::name_of(key.purpose) +
         (key.depth == 0 ? "" : ", depth " + std::to_string(key.depth)) +
         (key.sequence == 0 ? "" : ", sequence " + std::to_string(key.sequence));
}

/// Merges the two halves of a draw: it selects a token block and then a token in it, both with one number.
std::vector<RecordedDraw> decisions(const std::vector<RecordedDraw>& draws) {
  std::vector<RecordedDraw> list;
  for (const RecordedDraw& entry : draws) {
    if (list.empty() || list.back().key != entry.key || list.back().bound != entry.bound) list.push_back(entry);
  }
  return list;
}

/// Compares the draws of a run, merged, with those that its rounds need.
class DrawComparison {
 public:
  DrawComparison(const Run& run, std::vector<RecordedDraw> found, std::vector<ExpectedDraw> expected,
                 Examination& examination)
      : run_(run), found_(std::move(found)), expected_(std::move(expected)), examination_(examination) {}

  /// Returns false when a needed draw is missing: nothing after it can be matched.
  bool compare() {
    for (std::size_t i = 0; i < expected_.size();) {
      if (!expected_[i].needed) {
        i = skip_optional(i);
      } else if (!expect_draw(expected_[i++].key)) {
        return false;
      }
    }
    expect_end();
    return true;
  }

 private:
  bool is_at(std::size_t place, const Key& key) const { return place < found_.size() && found_[place].key == key; }

  /// Takes as many of the optional draws from `i` on as leave the next needed draw in its place. Returns the index of
  /// that draw.
  std::size_t skip_optional(std::size_t i) {
    std::size_t taken = 0;
    for (; i < expected_.size() && !expected_[i].needed; ++i) taken += is_at(at_ + taken, expected_[i].key);
    while (taken > 0 && i < expected_.size() && !is_at(at_ + taken, expected_[i].key)) --taken;
    at_ += taken;
    return i;
  }

  bool expect_draw(const Key& key) {
    const bool found = is_at(at_, key);
    const bool shared = before_ == key;  // the draft and the target use one number, one right after the other
    before_ = key;
    if (found) ++at_;
    return examination_.expect(found || shared, [&] {
      return make_failure(run_.variation, -1, key.position, "the rounds need a draw for " + name_of(key),
                          at_ < found_.size() ? "the next draw is for " + name_of(found_[at_].key)
                                              : std::string("there is no further draw"),
                          {"each of the " + std::to_string(at_) + " draws before serves one decision of the rounds"});
    });
  }

  void expect_end() {
    examination_.expect(at_ == found_.size(), [&] {
      return make_failure(
          run_.variation, -1, found_[at_].key.position,
          "the " + std::to_string(at_) + " draws that the decisions of the rounds need",
          "there is a draw for " + name_of(found_[at_].key) + (found_[at_].counter > 0 ? " once more" : ""),
          {"no decision of the rounds used it"});
    });
  }

  const Run& run_;
  const std::vector<RecordedDraw> found_;
  const std::vector<ExpectedDraw> expected_;
  Examination& examination_;
  std::size_t at_ = 0;  // of found_
  Key before_{-1, -1, Purpose::target};
};

Finding examine_rng_accounting(Trial& trial) {
  Examination examination(rng_accounting);
  long draws = 0;
  for (const Run& run : trial.runs) {
    if (const char* rule = unknown_rule(run.variation)) {
      return std::move(examination).finding("", "the draws of the rule " + std::string(rule) + " are not known");
    }
    for (const RecordedDraw& entry : run.draws) {
      ++draws;
      examination.expect(entry.seed == trial.seed && entry.key.sequence == trial.request.sequence, [&] {
        return make_failure(
            run.variation, -1, entry.key.position,
            "draws of seed " + std::to_string(trial.seed) + ", sequence " + std::to_string(trial.request.sequence),
            "the draw for " + name_of(entry.key) + " has seed " + std::to_string(entry.seed),
            {"that is another random stream than the requested one"});
      });
    }
    DrawComparison comparison(run, decisions(run.draws), ExpectedDraws(trial, run).expected(), examination);
    if (!comparison.compare()) return std::move(examination).finding("");
  }
  return std::move(examination).finding(std::to_string(draws) + " random draws, each for one decision");
}

}  // namespace

const Check rng_accounting = {
    "rng_accounting",
    "every random draw serves one decision, under a key of its own",
    "keys of random draws, the rule, the draft's draws, a random source other than the given one; the verified rows "
    "where logits_equal fails as well",
    "the numbers that the generator returns, which are not examined; the end of the text and its counters",
    examine_rng_accounting,
    costs_nothing};

}  // namespace draftproof
