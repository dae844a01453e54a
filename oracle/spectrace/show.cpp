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

std::string shown(const SequenceEvent& s) {
  std::string text = fmt::format("sequence {}: a prompt of {} tokens, temperature {:g}", s.sequence, s.prompt.size(),
                                 s.sampling.temperature);
  if (s.max_new_tokens) text += fmt::format(", at most {} new tokens", *s.max_new_tokens);
  if (!s.draft.empty()) text += ", draft " + printable(s.draft);
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

std::string shown_draft_token(const RoundEvent& r, std::size_t j, const Header& header, AcceptanceRule rule) {
  std::string text = fmt::format("  {:>8}  draft token {:>7}", r.position + r.depth(j), r.draft_tokens[j]);
  if (r.q_draft && j < r.q_draft->size()) text += "  q " + probability((*r.q_draft)[j], header);
  if (r.p_draft && j < r.p_draft->size() && r.verifies(j)) text += "  p " + probability((*r.p_draft)[j], header);
  if (r.accept_u && j < r.accept_u->size() && (*r.accept_u)[j]) {
    const StatedNumber& u = *(*r.accept_u)[j];
    const bool below_q = rule == AcceptanceRule::rejection && r.q_draft && j < r.q_draft->size();
    const std::uint64_t bound = below_q ? (*r.q_draft)[j].integer : header.total;
    text += "  u " + (header.total > 0 ? fraction(u.integer, bound) : fmt::format("{:.6f}", u.real));
  }
  if (!r.verifies(j)) return text + "  not verified\n";
  if (r.accepts(j)) return text + "  accepted\n";
  const bool sibling = j < r.accepted_tokens.size();
  return text + "  rejected" + (sibling ? fmt::format(", its sibling {} accepted\n", r.accepted_tokens[j]) : "\n");
}

std::string shown(const RoundEvent& r, const Header& header, AcceptanceRule rule) {
  std::string text = fmt::format("round {} of sequence {}, from position {}: ", r.round, r.sequence, r.position);
  if (!r.has_draft_tokens) return text + "emitted " + listed(r.emitted) + "\n";
  text += fmt::format("{} of {} draft tokens{} accepted", r.accepted, r.draft_tokens.size(),
                      r.depths.empty() ? "" : " of a tree");
  text += r.width ? fmt::format(", {} rows\n", *r.width) : "\n";
  if (r.target_held && r.draft_held) {
    text += "  the target holds " + std::to_string(*r.target_held) + " positions, the draft";
    for (const std::int64_t held : *r.draft_held) text += " " + std::to_string(held);
    text += (r.draft_anchor ? "; its anchor is at position " + std::to_string(*r.draft_anchor) : "") + "\n";
  }
  for (std::size_t j = 0; j < r.draft_tokens.size(); ++j) text += shown_draft_token(r, j, header, rule);
  const bool cut = r.emitted.size() <= static_cast<std::size_t>(r.accepted);
  text += fmt::format("  {:>8}  {} ", r.position + r.accepted, name_of(r.next_from));
  if (!r.next && r.emitted.empty()) return text + "not stated\n  emitted []\n";
  text += fmt::format("{:>7}", r.next ? r.next->token : r.emitted.back());
  if (r.next && header.total > 0) {
    text += fmt::format("  has {:.6f} of {}", static_cast<double>(r.next->weight) / static_cast<double>(r.next->bound),
                        r.next_from == NextFrom::residual ? "max(p - q, 0)" : "p");
    if (r.next->u) text += "  u " + fraction(*r.next->u, r.next->bound);
  }
  return text + std::string(cut ? "  cut" : "") + "\n  emitted " + listed(r.emitted) + "\n";
}

std::string shown(const ShiftEvent& s) {
  return fmt::format("context shift of sequence {}, {} tokens read: {} positions kept, {} dropped\n", s.sequence,
                     s.tokens_read, s.keep, s.discard);
}

std::string shown(const EndEvent& e) {
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

bool emits_at(const RoundEvent& round, std::int64_t position) {
  return position >= round.position && position - round.position < std::ssize(round.emitted);
}

}  // namespace

long show(const std::string& file, const ShownPart& wanted, const std::function<void(const std::string&)>& take) {
  Reader reader(file);
  if (!wanted.is_part()) take(shown(reader.header()));
  long rounds = 0;
  std::map<std::int64_t, AcceptanceRule> rules;  // by sequence
  const auto chosen = [&](std::int64_t sequence) { return !wanted.sequence || *wanted.sequence == sequence; };
  while (const auto event = reader.next()) {
    const auto* const declared = std::get_if<SequenceEvent>(&event->what);
    if (declared != nullptr) rules[declared->sequence] = declared->rule.kind;
    if (const auto* round = std::get_if<RoundEvent>(&event->what)) {
      if (!chosen(round->sequence) || (wanted.round && *wanted.round != round->round)) continue;
      if (wanted.position && !emits_at(*round, *wanted.position)) continue;
      take(shown(*round, reader.header(), rules[round->sequence]));
      ++rounds;
    }
    if (wanted.is_part()) continue;
    if (declared != nullptr && chosen(declared->sequence)) take(shown(*declared));
    if (const auto* shift = std::get_if<ShiftEvent>(&event->what); shift && chosen(shift->sequence)) {
      take(shown(*shift));
    }
    if (const auto* end = std::get_if<EndEvent>(&event->what); end && chosen(end->sequence)) {
      take(shown(*end));
    }
  }
  return rounds;
}

}  // namespace draftproof::spectrace
