// SPDX-License-Identifier: MIT
// Holds the ledger of every run to the account its rounds give: which questions had to be asked, in which order, under
// which key, and no other. So no key serves two decisions (but one draw that looks twice at its number, and drafts of
// `matching`, which share the target's), no number is drawn and dropped, all come from the seed and the sequence that
// were asked for, and a key depends on nothing but position and purpose.
#include <algorithm>

#include "oracle/checks/check.h"

namespace draftproof {
namespace {

/// A question the account names; `needed` unless nobody can know whether it was asked.
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
      run_.variation.promises_tokens() ? add_matching(round) : add_rejection(round);
      text_.insert(text_.end(), round.emitted.begin(), round.emitted.end());
    }
    return std::move(expected_);
  }

 private:
  void add(int position, Purpose purpose, bool needed = true) {
    expected_.push_back({{trial_.request.sequence, position, purpose}, needed});
  }

  void add_draft_tokens(const Round& round) {
    const Purpose noise = run_.variation.rule->draft_noise;
    const Proposal& proposal = round.proposal;
    for (int i = 0; i < static_cast<int>(proposal.drawn_from.size()); ++i) {
      if (is_draw(proposal.drawn_from[static_cast<std::size_t>(i)])) add(position() + proposal.depth(i), noise);
    }
    // Draft tokens behind a stop token are cut off, and nobody can tell whether they were drawn. Only the first branch is.
    int branch = 0;
    while (branch < proposal.size() && proposal.depth(branch) == branch) ++branch;
    if (branch == 0 || !trial_.request.stops_at(proposal.tokens[static_cast<std::size_t>(branch - 1)])) return;
    const int most = std::max(run_.variation.draft_max, run_.trace.request.draft_max);
    for (int i = branch; i < most; ++i) add(position() + i, noise, false);
  }

  /// The draft tokens that stand.
  static std::vector<int> path(const Round& round) {
    return round.proposal.path_to(std::clamp(round.verdict.last, -1, round.proposal.size() - 1));
  }

  /// p after the first `count` draft tokens of a path.
  const Distribution& row(const Round& round, const std::vector<int>& path, std::size_t count) {
    std::vector<Token> text = text_;
    for (std::size_t i = 0; i < count; ++i) {
      text.push_back(round.proposal.tokens[static_cast<std::size_t>(path[i])]);
    }
    return trial_.row_after(run_.variation, text).distribution;
  }

  void add_matching(const Round& round) {
    const std::vector<int> accepted = path(round);
    for (std::size_t i = 0; i <= accepted.size(); ++i) {
      if (is_draw(row(round, accepted, i))) add(position() + static_cast<int>(i), Purpose::target);
    }
  }

  void add_rejection(const Round& round) {
    const Proposal& proposal = round.proposal;
    const std::vector<int> accepted = path(round);
    for (std::size_t i = 0; i <= accepted.size(); ++i) {
      const int at = position() + static_cast<int>(i);
      const Distribution& p = row(round, accepted, i);
      const int first = proposal.first_child(i == 0 ? -1 : accepted[i - 1]);
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

  int position() const { return static_cast<int>(text_.size()); }

  Trial& trial_;
  const Run& run_;
  std::vector<Token> text_;
  std::vector<ExpectedDraw> expected_;
};

std::string name_of(const Key& key) {
  return "position " + std::to_string(key.position) + ", purpose " + draftproof::name_of(key.purpose) +
         (key.sequence == 0 ? "" : ", sequence " + std::to_string(key.sequence));
}

/// A draw asks for a block of tokens and then for a token in it, both of one number: one posting.
std::vector<RecordedDraw> decisions(const std::vector<RecordedDraw>& ledger) {
  std::vector<RecordedDraw> list;
  for (const RecordedDraw& entry : ledger) {
    if (list.empty() || list.back().key != entry.key || list.back().bound != entry.bound) list.push_back(entry);
  }
  return list;
}

}  // namespace

Finding check_rng_accounting(Trial& trial) {
  Examination examination("rng_accounting");
  long answers = 0;
  for (const Run& run : trial.runs) {
    if (!run.variation.promises_tokens() && run.variation.rule->judge != rejection.judge) {
      return std::move(examination)
          .finding("", "there is no account of the rule " + std::string(run.variation.rule->name));
    }
    for (const RecordedDraw& entry : run.ledger) {
      ++answers;
      examination.expect(entry.seed == trial.seed && entry.key.sequence == trial.request.sequence, [&] {
        return failure_of(run.variation, -1, entry.key.position,
                          "numbers of seed " + std::to_string(trial.seed) + ", sequence " +
                              std::to_string(trial.request.sequence),
                          "a number for " + name_of(entry.key) + " is of the seed " + std::to_string(entry.seed),
                          {"that is another stream than was asked for"});
      });
    }
    const std::vector<RecordedDraw> found = decisions(run.ledger);
    const std::vector<ExpectedDraw> expected = ExpectedDraws(trial, run).expected();
    std::size_t at = 0;
    Key before{-1, -1, Purpose::target};
    const auto is_at = [&](std::size_t place, const Key& key) {
      return place < found.size() && found[place].key == key;
    };
    for (std::size_t i = 0; i < expected.size(); ++i) {
      if (!expected[i].needed) {
        // As many as leave what follows in its place.
        std::size_t end = i;
        std::size_t taken = 0;
        for (; end < expected.size() && !expected[end].needed; ++end) taken += is_at(at + taken, expected[end].key);
        while (taken > 0 && end < expected.size() && !is_at(at + taken, expected[end].key)) --taken;
        at += taken;
        i = end - 1;
        continue;
      }
      const Key& key = expected[i].key;
      const bool there = is_at(at, key);
      const bool once = before == key;  // the same number for a draft token and for the target, without a break
      before = key;
      if (there) ++at;
      const bool kept = examination.expect(there || once, [&] {
        return failure_of(run.variation, -1, key.position, "the rounds need a number for " + name_of(key),
                          at < found.size() ? "the next one drawn is for " + name_of(found[at].key)
                                            : std::string("none was drawn"),
                          {"the " + std::to_string(at) + " numbers before each serve one decision of the rounds"});
      });
      if (!kept) return std::move(examination).finding("");
    }
    examination.expect(at == found.size(), [&] {
      return failure_of(run.variation, -1, found[at].key.position,
                        "the " + std::to_string(at) + " numbers that the decisions of the rounds need",
                        "a number was drawn for " + name_of(found[at].key) +
                            (found[at].counter > 0 ? " once more" : ""),
                        {"no decision of the rounds used it"});
    });
  }
  return std::move(examination).finding(std::to_string(answers) + " random answers, each for one decision");
}

}  // namespace draftproof
