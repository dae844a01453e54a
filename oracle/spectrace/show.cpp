// SPDX-License-Identifier: MIT
#include "oracle/spectrace/show.h"

#include <fmt/format.h>

#include <algorithm>

#include "oracle/spectrace/reader.h"
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
                                 h.loss.empty() ? name_of(h.rule) : "lossy:" + printable(h.loss), h.vocabulary);
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

std::string shown(const Step& s, const Header& header) {
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
      const std::uint64_t bound =
          header.rule == Judgement::rejection && s.q ? (*s.q)[j].whole : header.total;
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
  std::string text = fmt::format("sequence {} ends by {}", e.sequence, name_of(e.reason));
  if (e.count) text += fmt::format(" after {} tokens", *e.count);
  if (e.statistics) {
    const Statistics& s = *e.statistics;
    text += fmt::format("; {} rounds, {} of {} guesses accepted", s.rounds, s.accepted, s.drafted);
  }
  return text + "\n";
}

/// The tokens that a trace emits, one after the other.
class Tokens {
 public:
  explicit Tokens(const std::string& file) : file_(file), reader_(file) {}

  struct Place {
    std::int64_t sequence = 0;
    std::int64_t position = 0;
    Token token = 0;
  };
  /// False at the end of the file.
  bool next(Place& place) {
    while (!step_ || used_ == step_->emitted.size()) {
      const auto event = reader_.next();
      if (!event) return false;
      const auto* step = std::get_if<Step>(&event->what);
      if (step == nullptr) continue;
      step_ = *step;
      line_ = event->line;
      used_ = 0;
    }
    place = {step_->sequence, step_->position + static_cast<std::int64_t>(used_), step_->emitted[used_]};
    ++used_;
    return true;
  }
  /// Of the token given last.
  std::string where() const {
    std::string text = fmt::format("{}:{}: round {}", file_, line_, step_->round);
    if (step_->judged) {
      text += fmt::format(", guesses {}, {} of them stand, {} rows", listed(step_->guesses), step_->accepted,
                          step_->width);
    }
    return text;
  }

 private:
  std::string file_;
  Reader reader_;
  std::optional<Step> step_;
  std::size_t used_ = 0;
  long line_ = 0;
};

}  // namespace

long show(const std::string& file, const Wanted& wanted, const std::function<void(const std::string&)>& take) {
  Reader reader(file);
  if (!wanted.round) take(shown(reader.header()));
  long rounds = 0;
  const auto chosen = [&](std::int64_t sequence) { return !wanted.sequence || *wanted.sequence == sequence; };
  while (const auto event = reader.next()) {
    if (const auto* step = std::get_if<Step>(&event->what)) {
      if (!chosen(step->sequence) || (wanted.round && *wanted.round != step->round)) continue;
      take(shown(*step, reader.header()));
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
  Tokens a(file_a);
  Tokens b(file_b);
  Parting parting;
  Tokens::Place in_a, in_b;
  while (true) {
    const bool more_a = a.next(in_a);
    const bool more_b = b.next(in_b);
    if (!more_a && !more_b) break;
    if (more_a != more_b) {
      const Tokens& longer = more_a ? a : b;
      const Tokens::Place& place = more_a ? in_a : in_b;
      parting.sentence =
          fmt::format("{} goes on with token {} at position {} of sequence {}, {} has ended\n  {}\n",
                      more_a ? file_a : file_b, place.token, place.position, place.sequence, more_a ? file_b : file_a,
                      longer.where());
      return parting;
    }
    if (in_a.sequence != in_b.sequence || in_a.position != in_b.position || in_a.token != in_b.token) {
      parting.sentence = fmt::format(
          "after {} equal tokens: sequence {}, position {}, token {} against sequence {}, position {}, token {}\n"
          "  {}\n  {}\n",
          parting.tokens, in_a.sequence, in_a.position, in_a.token, in_b.sequence, in_b.position, in_b.token, a.where(),
          b.where());
      return parting;
    }
    ++parting.tokens;
  }
  parting.same = true;
  parting.sentence = fmt::format("all {} tokens are the same\n", parting.tokens);
  return parting;
}

}  // namespace draftproof::spectrace
