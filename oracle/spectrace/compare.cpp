// SPDX-License-Identifier: MIT
// Compares two traces sequence by sequence.
#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <deque>
#include <iterator>
#include <limits>
#include <map>
#include <utility>

#include "oracle/spectrace/reader.h"
#include "oracle/spectrace/show.h"
#include "ref/base/error.h"
#include "ref/formats/printable.h"

namespace draftproof::spectrace {
namespace {

/// Tokens of a round that are not compared yet.
struct Uncompared {
  std::int64_t position = 0;
  std::vector<Token> tokens;
  std::string where;
  std::int64_t accepted = -1;  // of the first tokens: accepted draft tokens; negative: not stated
};

/// A sequence of both traces, or so far of one. Only one trace at a time has waiting rounds: the one that is ahead.
struct SequencePair {
  std::array<bool, 2> opened{};
  std::array<bool, 2> ended{};
  std::vector<Token> prompt;  // until the other trace has opened it, too
  std::deque<Uncompared> waiting;
  int ahead = 0;  // the trace that the waiting rounds belong to
  long equal = 0;
  bool parted = false;              // no more of its tokens are compared
  std::array<bool, 2> rejection{};  // its rule in each trace
  std::array<ExpectedAcceptance::ByDepth, 2> expected;
};

class Comparer {
 public:
  Comparer(const std::string& file_a, const std::string& file_b)
      : files_{printable(file_a), printable(file_b)}, readers_{Reader(file_a), Reader(file_b)} {}

  TraceComparison compared() {
    for (int side = 0; more_[0] || more_[1]; side = more_[1 - side] ? 1 - side : side) {
      const auto event = readers_[side].next();
      if (!event) {
        more_[side] = false;
        pass_by(side, std::numeric_limits<std::int64_t>::max());
        continue;
      }
      if (const auto* declared = std::get_if<SequenceEvent>(&event->what)) take(side, event->line, *declared);
      if (const auto* round = std::get_if<RoundEvent>(&event->what)) take(side, event->line, *round);
      if (const auto* end = std::get_if<EndEvent>(&event->what)) take(side, *end);
    }
    while (!pairs_.empty()) close(pairs_.begin());
    return std::move(result_);
  }

 private:
  using Pairs = std::map<std::int64_t, SequencePair>;

  std::string where(int side, long line) const { return fmt::format("{}:{}", files_[side], line); }

  void take(int side, long line, const SequenceEvent& declared) {
    pass_by(side, declared.sequence);
    const auto at = pairs_.try_emplace(declared.sequence).first;
    SequencePair& pair = at->second;
    pair.opened[side] = true;
    pair.rejection[side] = declared.rule.kind == AcceptanceRule::rejection;
    if (!pair.opened[1 - side]) {
      pair.prompt = declared.prompt;
      if (passed_[1 - side] > declared.sequence) leave_alone(at);
    } else if (std::exchange(pair.prompt, {}) != declared.prompt) {
      pair.rejection = {};  // of another text nothing is compared
      part(pair,
           fmt::format("sequence {}: the prompts are not the same\n  {}\n", declared.sequence, where(side, line)));
    }
  }

  void take(int side, long line, const RoundEvent& round) {
    const auto at = pairs_.find(round.sequence);
    if (at == pairs_.end()) return;
    if (at->second.rejection[side]) expect_acceptance(side, at->second, round);
    if (at->second.parted || round.emitted.empty()) return;
    std::string place = fmt::format("{}: round {}", where(side, line), round.round);
    if (round.has_draft_tokens) {
      place += fmt::format(", draft tokens {}, {} of them accepted", listed(round.draft_tokens), round.accepted);
      if (round.width) place += fmt::format(", {} rows", *round.width);
    }
    const std::int64_t accepted = round.has_draft_tokens ? round.accepted : -1;
    compare(side, round.sequence, at->second, {round.position, round.emitted, std::move(place), accepted});
  }

  /// Adds the probabilities with which the verified draft tokens of a round are accepted.
  void expect_acceptance(int side, SequencePair& pair, const RoundEvent& round) {
    if (!round.p_draft || !round.q_draft) return;
    const bool reals = readers_[side].header().total == 0;
    const auto value = [&](const StatedNumber& stated) {
      return reals ? stated.real : static_cast<double>(stated.integer);
    };
    const auto verified = static_cast<std::size_t>(round.verified);
    for (std::size_t depth = 0; depth < std::min({verified, round.p_draft->size(), round.q_draft->size()}); ++depth) {
      const double p = value((*round.p_draft)[depth]);
      const double q = value((*round.q_draft)[depth]);
      if (q > 0) ExpectedAcceptance::add(pair.expected[side], depth, std::min(1.0, p / q));
    }
  }

  void take(int side, const EndEvent& end) {
    const auto at = pairs_.find(end.sequence);
    if (at == pairs_.end()) return;
    at->second.ended[side] = true;
    if (at->second.ended[1 - side]) close(at);
  }

  void compare(int side, std::int64_t sequence, SequencePair& pair, Uncompared round) {
    while (!round.tokens.empty() && pair.ahead != side && !pair.waiting.empty()) {
      Uncompared& other = pair.waiting.front();
      if (!take_equal_tokens(pair, round, other, side)) {
        const Uncompared& in_a = side == 0 ? round : other;
        const Uncompared& in_b = side == 0 ? other : round;
        return part(pair, fmt::format("sequence {}, after {} equal tokens: position {}, token {} against position {}, "
                                      "token {}\n  {}\n  {}\n",
                                      sequence, pair.equal, in_a.position, in_a.tokens.front(), in_b.position,
                                      in_b.tokens.front(), in_a.where, in_b.where));
      }
      if (other.tokens.empty()) {
        pair.waiting.pop_front();
        --waiting_;
      }
    }
    if (round.tokens.empty()) return;
    pair.ahead = side;
    pair.waiting.push_back(std::move(round));
    ++waiting_;
    if (pair.ended[1 - side] || !more_[1 - side]) return part_at_end(sequence, pair);
    if (waiting_ > waiting_max) {
      throw Error(
          fmt::format("{} and {} have their sequences in such different orders that {} rounds wait for a "
                      "counterpart; write both in one order",
                      files_[0], files_[1], waiting_));
    }
  }

  /// Removes the tokens that both begin with. Returns false when a differing token follows. `side`: of the first.
  bool take_equal_tokens(SequencePair& pair, Uncompared& a, Uncompared& b, int side) {
    const std::size_t count = std::min(a.tokens.size(), b.tokens.size());
    const auto end = a.tokens.begin() + static_cast<std::ptrdiff_t>(count);
    const auto differs_at = std::mismatch(a.tokens.begin(), end, b.tokens.begin()).first;
    const auto equal = a.position == b.position ? differs_at - a.tokens.begin() : 0;
    pair.equal += equal;
    result_.tokens += equal;
    if (a.accepted >= 0 && b.accepted >= 0) {
      for (std::int64_t i = 0; i < equal; ++i) compare_drafts(side == 0 ? a : b, side == 0 ? b : a, i);
    }
    for (Uncompared* const one : {&a, &b}) {
      one->tokens.erase(one->tokens.begin(), one->tokens.begin() + equal);
      one->position += equal;
      if (one->accepted >= 0) one->accepted = std::max<std::int64_t>(0, one->accepted - equal);
    }
    return static_cast<std::size_t>(equal) == count;
  }

  /// Compares whether the i-th token is an accepted draft token in both.
  void compare_drafts(const Uncompared& in_a, const Uncompared& in_b, std::int64_t i) {
    result_.drafts.observe(i < in_a.accepted, i < in_b.accepted,
                           [&] { return fmt::format("position {}, {}", in_b.position + i, in_b.where); });
  }

  /// Closes the sequences that `side` does not have: sequence numbers ascend, so it opens none below `sequence` any
  /// more.
  void pass_by(int side, std::int64_t sequence) {
    for (auto at = pairs_.upper_bound(passed_[side]); at != pairs_.end() && at->first < sequence;) {
      at = at->second.opened[side] ? std::next(at) : leave_alone(at);
    }
    passed_[side] = sequence;
  }

  Pairs::iterator leave_alone(Pairs::iterator at) {
    const SequencePair& pair = at->second;
    waiting_ -= pair.waiting.size();
    differs(fmt::format("sequence {}: only in {}\n", at->first, files_[pair.opened[0] ? 0 : 1]));
    ++result_.alone;
    return pairs_.erase(at);
  }

  void close(Pairs::iterator at) {
    SequencePair& pair = at->second;
    if (!pair.waiting.empty()) part_at_end(at->first, pair);
    if (!pair.parted) ++result_.equal;
    result_.expected.observe(pair.expected[0], pair.expected[1]);
    pairs_.erase(at);
  }

  void part_at_end(std::int64_t sequence, SequencePair& pair) {
    const Uncompared& longer = pair.waiting.front();
    part(pair, fmt::format("sequence {}, after {} equal tokens: {} goes on with token {} at position {}, {} has ended\n"
                           "  {}\n",
                           sequence, pair.equal, files_[pair.ahead], longer.tokens.front(), longer.position,
                           files_[1 - pair.ahead], longer.where));
  }

  void part(SequencePair& pair, const std::string& difference) {
    waiting_ -= pair.waiting.size();
    pair.waiting.clear();
    pair.parted = true;
    differs(difference);
    ++result_.parted;
  }

  void differs(const std::string& difference) {
    if (result_.differences.size() < TraceComparison::differences_max) result_.differences.push_back(difference);
  }

  static constexpr std::size_t waiting_max = std::size_t{1} << 20;
  std::array<std::string, 2> files_;
  std::array<Reader, 2> readers_;
  std::array<bool, 2> more_{true, true};
  std::array<std::int64_t, 2> passed_{-1, -1};  // the sequence opened last
  Pairs pairs_;
  std::size_t waiting_ = 0;  // rounds, of all pairs
  TraceComparison result_;
};

}  // namespace

std::string TraceComparison::text() const {
  const std::string of_drafts =
      drafts.text("the first file", "the second") + expected.text("the first file", "the second");
  if (same()) {
    return fmt::format("sequences: {} equal; all {} tokens are the same\n", equal, tokens) + of_drafts;
  }
  std::string text = fmt::format("sequences: {} equal, {} part, {} only in one file; {} tokens are the same\n", equal,
                                 parted, alone, tokens);
  for (const std::string& difference : differences) text += difference;
  const long more = parted + alone - static_cast<long>(differences.size());
  return (more == 0 ? text : text + fmt::format("and {} more\n", more)) + of_drafts;
}

TraceComparison compare(const std::string& file_a, const std::string& file_b) {
  return Comparer(file_a, file_b).compared();
}

}  // namespace draftproof::spectrace
