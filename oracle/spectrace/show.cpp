// SPDX-License-Identifier: MIT
#include "oracle/spectrace/show.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <deque>
#include <iterator>
#include <limits>
#include <map>
#include <utility>

#include "oracle/spectrace/reader.h"
#include "ref/base/error.h"
#include "ref/formats/printable.h"

namespace draftproof::spectrace {
namespace {

std::string listed(const std::vector<Token>& tokens) {
  std::string text;
  for (const Token token : tokens) text += (text.empty() ? "" : ",") + std::to_string(token);
  return "[" + text + "]";
}

std::string shown(const Header& h) {
  std::string text = fmt::format("{}, rule {}, vocabulary of {}", printable(h.engine),
                                 h.judged_by ? printable(h.judged_by->name()) : "by sequence", h.vocabulary);
  text += h.total > 0 ? fmt::format(", integer weights of {}", h.total) : ", real weights";
  if (h.seed) text += fmt::format(", coins of {} with seed {}", printable(h.generator), *h.seed);
  return text + "\n";
}

std::string shown(const Opening& o) {
  std::string text = fmt::format("sequence {}: a prompt of {} tokens, temperature {:g}", o.sequence, o.prompt.size(),
                                 o.sampling.temperature);
  if (o.budget) text += fmt::format(", at most {} new", *o.budget);
  if (!o.draft.empty()) text += ", draft " + printable(o.draft);
  return text + "\n";
}

/// A weight as what it is: the token's probability.
std::string share(const Quantity& amount, const Header& header) {
  const double total = header.total > 0 ? static_cast<double>(header.total) : 1.0;
  return fmt::format("{:.6f}", header.total > 0 ? static_cast<double>(amount.whole) / total : amount.real);
}

/// A coin as the part of its bound.
std::string part(std::uint64_t coin, std::uint64_t bound) {
  return fmt::format("{:.6f}", static_cast<double>(coin) / static_cast<double>(std::max<std::uint64_t>(bound, 1)));
}

std::string shown(const Step& s, const Header& header, Judging rule) {
  std::string text = fmt::format("round {} of sequence {}, from position {}: ", s.round, s.sequence, s.position);
  if (!s.judged) return text + "emitted " + listed(s.emitted) + "\n";
  text += fmt::format("{} of {} draft tokens stand, {} rows\n", s.accepted, s.draft_tokens.size(), s.width);
  for (std::size_t j = 0; j < s.draft_tokens.size(); ++j) {
    const auto accepted = static_cast<std::size_t>(s.accepted);
    text += fmt::format("  {:>8}  draft token {:>7}", s.position + static_cast<std::int64_t>(j), s.draft_tokens[j]);
    if (s.q) text += "  q " + share((*s.q)[j], header);
    if (s.p && j < s.p->size() && j <= accepted) text += "  p " + share((*s.p)[j], header);
    if (s.coins && j < s.coins->size() && (*s.coins)[j]) {
      const Quantity& coin = *(*s.coins)[j];
      const std::uint64_t bound = rule == Judging::rejection && s.q ? (*s.q)[j].whole : header.total;
      text += "  coin " + (header.total > 0 ? part(coin.whole, bound) : fmt::format("{:.6f}", coin.real));
    }
    text += j < accepted ? "  stands\n" : j == accepted ? "  falls\n" : "  not judged\n";
  }
  const bool cut = s.emitted.size() <= static_cast<std::size_t>(s.accepted);
  text += fmt::format("  {:>8}  {} ", s.position + s.accepted, name_of(s.last));
  text += fmt::format("{:>7}", s.next ? s.next->token : s.emitted.back());
  if (s.next && header.total > 0) {
    text += fmt::format("  has {:.6f} of {}", static_cast<double>(s.next->weight) / static_cast<double>(s.next->bound),
                        s.last == Last::residual ? "max(p - q, 0)" : "p");
    if (s.next->coin) text += "  coin " + part(*s.next->coin, s.next->bound);
  }
  return text + std::string(cut ? "  cut off" : "") + "\n  emitted " + listed(s.emitted) + "\n";
}

std::string shown(const Ending& e) {
  std::string text = fmt::format("sequence {} ends by {}", e.sequence,
                                 e.other.empty() ? name_of(e.reason) : "other:" + printable(e.other));
  if (e.count) text += fmt::format(" after {} tokens", *e.count);
  if (e.statistics) {
    const Statistics& s = *e.statistics;
    text += fmt::format("; {} rounds, {} of {} draft tokens accepted", s.rounds, s.accepted, s.drafted);
  }
  return text + "\n";
}

/// What a round says of a sequence, as far as it is not compared yet.
struct Said {
  std::int64_t position = 0;
  std::vector<Token> tokens;
  std::string where;
};

/// A sequence of both traces, or of one so far. Rounds that wait are of one trace only: the other has not said so much.
struct Pair {
  std::array<bool, 2> opened{};
  std::array<bool, 2> ended{};
  std::vector<Token> prompt;  // until the other trace has opened it, too
  std::deque<Said> waiting;
  int ahead = 0;  // whose they are
  long equal = 0;
  bool parted = false;  // what else is said of it is no matter
};

class Comparer {
 public:
  Comparer(const std::string& file_a, const std::string& file_b)
      : files_{printable(file_a), printable(file_b)}, readers_{Reader(file_a), Reader(file_b)} {}

  Comparison compared() {
    for (int side = 0; more_[0] || more_[1]; side = more_[1 - side] ? 1 - side : side) {
      const auto event = readers_[side].next();
      if (!event) {
        more_[side] = false;
        pass_by(side, std::numeric_limits<std::int64_t>::max());
        continue;
      }
      if (const auto* opening = std::get_if<Opening>(&event->what)) take(side, event->line, *opening);
      if (const auto* step = std::get_if<Step>(&event->what)) take(side, event->line, *step);
      if (const auto* ending = std::get_if<Ending>(&event->what)) take(side, *ending);
    }
    while (!pairs_.empty()) close(pairs_.begin());
    return std::move(result_);
  }

 private:
  using Pairs = std::map<std::int64_t, Pair>;

  std::string where(int side, long line) const { return fmt::format("{}:{}", files_[side], line); }

  void take(int side, long line, const Opening& opening) {
    pass_by(side, opening.sequence);
    const auto at = pairs_.try_emplace(opening.sequence).first;
    Pair& pair = at->second;
    pair.opened[side] = true;
    if (!pair.opened[1 - side]) {
      pair.prompt = opening.prompt;
      if (passed_[1 - side] > opening.sequence) leave_alone(at);
    } else if (std::exchange(pair.prompt, {}) != opening.prompt) {
      part(pair, fmt::format("sequence {}: the prompts are not the same\n  {}\n", opening.sequence, where(side, line)));
    }
  }

  void take(int side, long line, const Step& step) {
    const auto at = pairs_.find(step.sequence);
    if (at == pairs_.end() || at->second.parted || step.emitted.empty()) return;
    std::string place = fmt::format("{}: round {}", where(side, line), step.round);
    if (step.judged) {
      place += fmt::format(", draft tokens {}, {} of them stand, {} rows", listed(step.draft_tokens), step.accepted, step.width);
    }
    compare(side, step.sequence, at->second, {step.position, step.emitted, std::move(place)});
  }

  void take(int side, const Ending& ending) {
    const auto at = pairs_.find(ending.sequence);
    if (at == pairs_.end()) return;
    at->second.ended[side] = true;
    if (at->second.ended[1 - side]) close(at);
  }

  void compare(int side, std::int64_t sequence, Pair& pair, Said said) {
    while (!said.tokens.empty() && pair.ahead != side && !pair.waiting.empty()) {
      Said& other = pair.waiting.front();
      const std::size_t count = std::min(said.tokens.size(), other.tokens.size());
      const auto end = said.tokens.begin() + static_cast<std::ptrdiff_t>(count);
      const auto parts_at = std::mismatch(said.tokens.begin(), end, other.tokens.begin()).first;
      const auto equal = said.position == other.position ? parts_at - said.tokens.begin() : 0;
      pair.equal += equal;
      result_.tokens += equal;
      for (Said* const one : {&said, &other}) {
        one->tokens.erase(one->tokens.begin(), one->tokens.begin() + equal);
        one->position += equal;
      }
      if (static_cast<std::size_t>(equal) < count) {
        const Said& in_a = side == 0 ? said : other;
        const Said& in_b = side == 0 ? other : said;
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
    if (said.tokens.empty()) return;
    pair.ahead = side;
    pair.waiting.push_back(std::move(said));
    ++waiting_;
    if (pair.ended[1 - side] || !more_[1 - side]) return part_at_end(sequence, pair);
    if (waiting_ > waiting_max) {
      throw Error(fmt::format("{} and {} have their sequences in orders so different that {} rounds wait for their "
                              "like; write them in one order",
                              files_[0], files_[1], waiting_));
    }
  }

  /// Names ascend: what `side` has not opened before it opens `sequence` it does not have.
  void pass_by(int side, std::int64_t sequence) {
    for (auto at = pairs_.upper_bound(passed_[side]); at != pairs_.end() && at->first < sequence;) {
      at = at->second.opened[side] ? std::next(at) : leave_alone(at);
    }
    passed_[side] = sequence;
  }

  Pairs::iterator leave_alone(Pairs::iterator at) {
    const Pair& pair = at->second;
    waiting_ -= pair.waiting.size();
    differs(fmt::format("sequence {}: only in {}\n", at->first, files_[pair.opened[0] ? 0 : 1]));
    ++result_.alone;
    return pairs_.erase(at);
  }

  void close(Pairs::iterator at) {
    Pair& pair = at->second;
    if (!pair.waiting.empty()) part_at_end(at->first, pair);
    if (!pair.parted) ++result_.equal;
    pairs_.erase(at);
  }

  void part_at_end(std::int64_t sequence, Pair& pair) {
    const Said& said = pair.waiting.front();
    part(pair, fmt::format("sequence {}, after {} equal tokens: {} goes on with token {} at position {}, {} has ended\n"
                           "  {}\n",
                           sequence, pair.equal, files_[pair.ahead], said.tokens.front(), said.position,
                           files_[1 - pair.ahead], said.where));
  }

  void part(Pair& pair, const std::string& difference) {
    waiting_ -= pair.waiting.size();
    pair.waiting.clear();
    pair.parted = true;
    differs(difference);
    ++result_.parted;
  }

  void differs(const std::string& difference) {
    if (result_.differences.size() < Comparison::differences_max) result_.differences.push_back(difference);
  }

  static constexpr std::size_t waiting_max = std::size_t{1} << 20;
  std::array<std::string, 2> files_;
  std::array<Reader, 2> readers_;
  std::array<bool, 2> more_{true, true};
  std::array<std::int64_t, 2> passed_{-1, -1};  // the sequence opened last
  Pairs pairs_;
  std::size_t waiting_ = 0;  // rounds, of all pairs
  Comparison result_;
};

}  // namespace

long show(const std::string& file, const Wanted& wanted, const std::function<void(const std::string&)>& take) {
  Reader reader(file);
  if (!wanted.round) take(shown(reader.header()));
  long rounds = 0;
  std::map<std::int64_t, Judging> rules;  // of sequences
  const auto chosen = [&](std::int64_t sequence) { return !wanted.sequence || *wanted.sequence == sequence; };
  while (const auto event = reader.next()) {
    if (const auto* opening = std::get_if<Opening>(&event->what)) rules[opening->sequence] = opening->judged_by.rule;
    if (const auto* step = std::get_if<Step>(&event->what)) {
      if (!chosen(step->sequence) || (wanted.round && *wanted.round != step->round)) continue;
      take(shown(*step, reader.header(), rules[step->sequence]));
      ++rounds;
    }
    if (wanted.round) continue;
    if (const auto* opening = std::get_if<Opening>(&event->what); opening && chosen(opening->sequence)) {
      take(shown(*opening));
    }
    if (const auto* ending = std::get_if<Ending>(&event->what); ending && chosen(ending->sequence)) {
      take(shown(*ending));
    }
  }
  return rounds;
}

std::string Comparison::text() const {
  if (same()) return fmt::format("sequences: {} equal; all {} tokens are the same\n", equal, tokens);
  std::string text = fmt::format("sequences: {} equal, {} part, {} only in one file; {} tokens are the same\n", equal,
                                 parted, alone, tokens);
  for (const std::string& difference : differences) text += difference;
  const long more = parted + alone - static_cast<long>(differences.size());
  return more == 0 ? text : text + fmt::format("and {} more\n", more);
}

Comparison compare(const std::string& file_a, const std::string& file_b) {
  return Comparer(file_a, file_b).compared();
}

}  // namespace draftproof::spectrace
