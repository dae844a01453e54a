// SPDX-License-Identifier: MIT
#include "oracle/spectrace/show.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <deque>
#include <map>

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
std::string share(const Amount& amount, const Header& header) {
  const double total = header.total > 0 ? static_cast<double>(header.total) : 1.0;
  return fmt::format("{:.6f}", header.total > 0 ? static_cast<double>(amount.whole) / total : amount.real);
}

/// A coin as the part of its bound.
std::string part(std::uint64_t coin, std::uint64_t bound) {
  return fmt::format("{:.6f}", static_cast<double>(coin) / static_cast<double>(std::max<std::uint64_t>(bound, 1)));
}

std::string shown(const Step& s, const Header& header, Judgement rule) {
  std::string text = fmt::format("round {} of sequence {}, from position {}: ", s.round, s.sequence, s.position);
  if (!s.judged) return text + "emitted " + listed(s.emitted) + "\n";
  text += fmt::format("{} of {} guesses stand, {} rows\n", s.accepted, s.guesses.size(), s.width);
  for (std::size_t j = 0; j < s.guesses.size(); ++j) {
    const auto accepted = static_cast<std::size_t>(s.accepted);
    text += fmt::format("  {:>8}  guess {:>7}", s.position + static_cast<std::int64_t>(j), s.guesses[j]);
    if (s.q) text += "  q " + share((*s.q)[j], header);
    if (s.p && j < s.p->size() && j <= accepted) text += "  p " + share((*s.p)[j], header);
    if (s.coins && j < s.coins->size() && (*s.coins)[j]) {
      const Amount& coin = *(*s.coins)[j];
      const std::uint64_t bound = rule == Judgement::rejection && s.q ? (*s.q)[j].whole : header.total;
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
    text += fmt::format("; {} rounds, {} of {} guesses accepted", s.rounds, s.accepted, s.drafted);
  }
  return text + "\n";
}

/// What a round says of a sequence, as far as it is not compared yet.
struct Said {
  std::int64_t position = 0;
  std::vector<Token> tokens;
  std::string where;
};

/// What a trace emits, round after round.
class Rounds {
 public:
  explicit Rounds(const std::string& file) : file_(file), reader_(file) {}

  /// The next round and its sequence; nothing at the end of the file.
  std::optional<std::pair<std::int64_t, Said>> next() {
    while (const auto event = reader_.next()) {
      const auto* step = std::get_if<Step>(&event->what);
      if (step == nullptr || step->emitted.empty()) continue;
      std::string where = fmt::format("{}:{}: round {}", file_, event->line, step->round);
      if (step->judged) {
        where += fmt::format(", guesses {}, {} of them stand, {} rows", listed(step->guesses), step->accepted,
                             step->width);
      }
      return std::pair(step->sequence, Said{step->position, step->emitted, std::move(where)});
    }
    return std::nullopt;
  }

 private:
  std::string file_;
  Reader reader_;
};

/// What one trace has said of a sequence and the other has not yet.
struct Ahead {
  bool of_a = false;
  std::deque<Said> rounds;
};

}  // namespace

long show(const std::string& file, const Wanted& wanted, const std::function<void(const std::string&)>& take) {
  Reader reader(file);
  if (!wanted.round) take(shown(reader.header()));
  long rounds = 0;
  std::map<std::int64_t, Judgement> rules;  // of sequences
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

Parting first_parting(const std::string& file_a, const std::string& file_b) {
  constexpr std::size_t rounds_max = std::size_t{1} << 20;
  Rounds a(file_a);
  Rounds b(file_b);
  std::map<std::int64_t, Ahead> sequences;  // of which one trace is ahead
  std::size_t waiting = 0;                  // rounds of them
  Parting parting;
  std::array<bool, 2> more{true, true};
  for (bool of_a = true; more[0] || more[1]; of_a = more[of_a ? 1 : 0] ? !of_a : of_a) {
    auto round = (of_a ? a : b).next();
    if (!round) {
      more[of_a ? 0 : 1] = false;
      continue;
    }
    auto& [sequence, said] = *round;
    Ahead& ahead = sequences[sequence];
    while (!said.tokens.empty() && ahead.of_a != of_a && !ahead.rounds.empty()) {
      Said& other = ahead.rounds.front();
      const std::size_t count = std::min(said.tokens.size(), other.tokens.size());
      const auto end = said.tokens.begin() + static_cast<std::ptrdiff_t>(count);
      const auto parts_at = std::mismatch(said.tokens.begin(), end, other.tokens.begin()).first;
      const auto equal = said.position == other.position ? parts_at - said.tokens.begin() : 0;
      parting.tokens += equal;
      if (static_cast<std::size_t>(equal) < count) {
        const Said& in_a = of_a ? said : other;
        const Said& in_b = of_a ? other : said;
        parting.sentence = fmt::format(
            "after {} equal tokens: sequence {}, position {}, token {} against position {}, token {}\n  {}\n  {}\n",
            parting.tokens, sequence, in_a.position + equal, in_a.tokens[static_cast<std::size_t>(equal)],
            in_b.position + equal, in_b.tokens[static_cast<std::size_t>(equal)], in_a.where, in_b.where);
        return parting;
      }
      for (Said* const part : {&said, &other}) {
        part->tokens.erase(part->tokens.begin(), part->tokens.begin() + equal);
        part->position += equal;
      }
      if (other.tokens.empty()) {
        ahead.rounds.pop_front();
        --waiting;
      }
    }
    if (said.tokens.empty()) {
      if (ahead.rounds.empty()) sequences.erase(sequence);
      continue;
    }
    ahead.of_a = of_a;
    ahead.rounds.push_back(std::move(said));
    if (++waiting > rounds_max) {
      throw Error(fmt::format("{} and {} have their sequences in orders so different that {} rounds wait for their "
                              "like; write them in one order",
                              file_a, file_b, waiting));
    }
  }
  if (!sequences.empty()) {
    const auto& [sequence, ahead] = *sequences.begin();
    const Said& said = ahead.rounds.front();
    parting.sentence = fmt::format("{} goes on with token {} at position {} of sequence {}, {} has ended\n  {}\n",
                                   ahead.of_a ? file_a : file_b, said.tokens.front(), said.position, sequence,
                                   ahead.of_a ? file_b : file_a, said.where);
    return parting;
  }
  parting.same = true;
  parting.sentence = fmt::format("all {} tokens are the same\n", parting.tokens);
  return parting;
}

}  // namespace draftproof::spectrace
