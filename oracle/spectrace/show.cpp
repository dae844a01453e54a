// SPDX-License-Identifier: MIT
#include "oracle/spectrace/show.h"

#include <fmt/format.h>

#include <algorithm>
#include <map>

#include "oracle/spectrace/reader.h"
#include "ref/formats/printable.h"

namespace draftproof::spectrace {
namespace {

std::string shown(const Header& h) {
  std::string text = fmt::format("{}, rule {}, vocabulary of {}", printable(h.engine),
                                 h.rule ? printable(h.rule->name()) : "by sequence", h.vocabulary);
  text += h.total > 0 ? fmt::format(", integer weights of {}", h.total) : ", real weights";
  if (h.seed) text += fmt::format(", random numbers of {} with seed {}", printable(h.generator), *h.seed);
  return text + "\n";
}

std::string shown(const Opening& o) {
  std::string text = fmt::format("sequence {}: a prompt of {} tokens, temperature {:g}", o.sequence, o.prompt.size(),
                                 o.sampling.temperature);
  if (o.max_new_tokens) text += fmt::format(", at most {} new tokens", *o.max_new_tokens);
  if (!o.draft.empty()) text += ", draft " + printable(o.draft);
  return text + "\n";
}

/// Returns a weight as a probability.
std::string probability(const StatedNumber& weight, const Header& header) {
  const double total = header.total > 0 ? static_cast<double>(header.total) : 1.0;
  return fmt::format("{:.6f}", header.total > 0 ? static_cast<double>(weight.integer) / total : weight.real);
}

/// Returns a random number as a fraction of its bound.
std::string fraction(std::uint64_t u, std::uint64_t bound) {
  return fmt::format("{:.6f}", static_cast<double>(u) / static_cast<double>(std::max<std::uint64_t>(bound, 1)));
}

std::string shown_draft_token(const Step& s, std::size_t j, const Header& header, AcceptanceRule rule) {
  const auto accepted = static_cast<std::size_t>(s.accepted);
  std::string text =
      fmt::format("  {:>8}  draft token {:>7}", s.position + static_cast<std::int64_t>(j), s.draft_tokens[j]);
  if (s.q_draft && j < s.q_draft->size()) text += "  q " + probability((*s.q_draft)[j], header);
  if (s.p_draft && j < s.p_draft->size() && j <= accepted) text += "  p " + probability((*s.p_draft)[j], header);
  if (s.accept_u && j < s.accept_u->size() && (*s.accept_u)[j]) {
    const StatedNumber& u = *(*s.accept_u)[j];
    const bool below_q = rule == AcceptanceRule::rejection && s.q_draft && j < s.q_draft->size();
    const std::uint64_t bound = below_q ? (*s.q_draft)[j].integer : header.total;
    text += "  u " + (header.total > 0 ? fraction(u.integer, bound) : fmt::format("{:.6f}", u.real));
  }
  return text + (j < accepted ? "  accepted\n" : j == accepted ? "  rejected\n" : "  not verified\n");
}

std::string shown(const Step& s, const Header& header, AcceptanceRule rule) {
  std::string text = fmt::format("round {} of sequence {}, from position {}: ", s.round, s.sequence, s.position);
  if (!s.has_draft_tokens) return text + "emitted " + listed(s.emitted) + "\n";
  text += fmt::format("{} of {} draft tokens accepted", s.accepted, s.draft_tokens.size());
  text += s.width ? fmt::format(", {} rows\n", *s.width) : "\n";
  if (s.target_held && s.draft_held) {
    text += "  the target holds " + std::to_string(*s.target_held) + " positions, the draft";
    for (const std::int64_t held : *s.draft_held) text += " " + std::to_string(held);
    text += (s.draft_anchor ? "; its anchor is at position " + std::to_string(*s.draft_anchor) : "") + "\n";
  }
  for (std::size_t j = 0; j < s.draft_tokens.size(); ++j) text += shown_draft_token(s, j, header, rule);
  const bool cut = s.emitted.size() <= static_cast<std::size_t>(s.accepted);
  text += fmt::format("  {:>8}  {} ", s.position + s.accepted, name_of(s.next_from));
  if (!s.next && s.emitted.empty()) return text + "not stated\n  emitted []\n";
  text += fmt::format("{:>7}", s.next ? s.next->token : s.emitted.back());
  if (s.next && header.total > 0) {
    text += fmt::format("  has {:.6f} of {}", static_cast<double>(s.next->weight) / static_cast<double>(s.next->bound),
                        s.next_from == NextFrom::residual ? "max(p - q, 0)" : "p");
    if (s.next->u) text += "  u " + fraction(*s.next->u, s.next->bound);
  }
  return text + std::string(cut ? "  cut" : "") + "\n  emitted " + listed(s.emitted) + "\n";
}

std::string shown(const Shift& s) {
  return fmt::format("context shift of sequence {}, {} tokens read: {} positions kept, {} dropped\n", s.sequence,
                     s.tokens_read, s.keep, s.discard);
}

std::string shown(const Ending& e) {
  std::string text = fmt::format("sequence {} ends by {}", e.sequence,
                                 e.other.empty() ? name_of(e.reason) : "other:" + printable(e.other));
  if (e.emitted_count) text += fmt::format(" after {} tokens", *e.emitted_count);
  if (const StatedCounts counts = e.statistics.value_or(StatedCounts{}); counts.rounds) {
    text += fmt::format("; {} rounds", *counts.rounds);
    if (counts.accepted && counts.drafted) {
      text += fmt::format(", {} of {} draft tokens accepted", *counts.accepted, *counts.drafted);
    }
  }
  return text + "\n";
}

bool emits_at(const Step& step, std::int64_t position) {
  return position >= step.position && position - step.position < std::ssize(step.emitted);
}

}  // namespace

long show(const std::string& file, const Wanted& wanted, const std::function<void(const std::string&)>& take) {
  Reader reader(file);
  if (!wanted.is_part()) take(shown(reader.header()));
  long rounds = 0;
  std::map<std::int64_t, AcceptanceRule> rules;  // by sequence
  const auto chosen = [&](std::int64_t sequence) { return !wanted.sequence || *wanted.sequence == sequence; };
  while (const auto event = reader.next()) {
    if (const auto* opening = std::get_if<Opening>(&event->what)) rules[opening->sequence] = opening->rule.kind;
    if (const auto* step = std::get_if<Step>(&event->what)) {
      if (!chosen(step->sequence) || (wanted.round && *wanted.round != step->round)) continue;
      if (wanted.position && !emits_at(*step, *wanted.position)) continue;
      take(shown(*step, reader.header(), rules[step->sequence]));
      ++rounds;
    }
    if (wanted.is_part()) continue;
    if (const auto* opening = std::get_if<Opening>(&event->what); opening && chosen(opening->sequence)) {
      take(shown(*opening));
    }
    if (const auto* shift = std::get_if<Shift>(&event->what); shift && chosen(shift->sequence)) take(shown(*shift));
    if (const auto* ending = std::get_if<Ending>(&event->what); ending && chosen(ending->sequence)) {
      take(shown(*ending));
    }
  }
  return rounds;
}

}  // namespace draftproof::spectrace
