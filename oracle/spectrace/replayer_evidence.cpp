// SPDX-License-Identifier: MIT
// Which decisions are evidence, and what bets pay where the trace does not state what they need: see
// oracle/spectrace/evidence.h.
#include <algorithm>

#include "oracle/spectrace/replayer.h"

namespace draftproof::spectrace {

void Statement::add(bool stated, long line) {
  if (stated) {
    ++stated_;
    return;
  }
  ++missing_;
  if (line == last_) return;
  last_ = line;
  ++rounds_;
  if (lines_.size() < lines_shown) lines_.push_back(line);
}

std::string Statement::lines() const {
  std::string text = lines_.size() == 1 ? "line " : "lines ";
  for (std::size_t i = 0; i < lines_.size(); ++i) text += (i == 0 ? "" : ", ") + std::to_string(lines_[i]);
  if (rounds_ > static_cast<long>(lines_.size())) text += ", ... (" + std::to_string(rounds_) + " lines)";
  return text;
}

bool Replayer::is_evidence(const OpenSequence& sequence, std::int64_t position) const {
  const bool may_be_missing = sequence.declared.hides_stop_tokens() &&
                              position == static_cast<std::int64_t>(sequence.declared.prompt.size());
  return !may_be_missing && fresh(sequence, position) && position < position_ + decided_;
}

std::int64_t Replayer::rows_of_the_text(const OpenSequence& sequence, const RoundEvent& round) const {
  const auto drafted = static_cast<std::int64_t>(round.draft_tokens.size());
  const bool together = rule_ == AcceptanceRule::block;
  std::int64_t rows = std::min(together ? drafted : round.accepted + std::int64_t{1}, sequence.left());
  const auto last = round.draft_tokens.begin() + std::min(drafted, rows);
  const auto is_stop = [&](Token token) { return sequence.stops_at(token); };
  const auto stop = std::find_if(round.draft_tokens.begin(), last, is_stop);
  if (stop != last) rows = stop - round.draft_tokens.begin() + 1;
  const auto emitted = static_cast<std::int64_t>(round.emitted.size());
  const bool hidden_stop = sequence.declared.hides_stop_tokens() && emitted + 1 == rows;
  return together || hidden_stop ? rows : std::min(rows, emitted);
}

double Replayer::unknown_slack() const { return header_.total == 0 || target_.slack > 0 ? slack_max : 0; }

void Replayer::forfeit_coin(Stream stream, double within_rounding) {
  coins_of_[static_cast<std::size_t>(stream)].add(false, line_);
  evidence_.unknown_coin(stream);
  if (header_.total == 0) evidence_.unknown_within_rounding(stream, within_rounding);
}

void Replayer::forfeit_unstated_coins(const OpenSequence& sequence, const RoundEvent& round, std::size_t row,
                                      const KnownRow& known) {
  const bool matching = rule_ == AcceptanceRule::matching;
  if (!matching && rule_ != AcceptanceRule::rejection) return;
  if (header_.draws_follow_from_seed() || !is_evidence(sequence, position_ + static_cast<std::int64_t>(row))) return;
  const bool reals = header_.total == 0;
  const auto drafted = round.draft_tokens.size();
  const auto accepted = static_cast<std::size_t>(round.accepted);
  const auto count = [&](Stream stream, bool stated, bool none_drawn, double within_rounding) {
    if (stated) coins_of_[static_cast<std::size_t>(stream)].add(true, line_);
    else if (!none_drawn) forfeit_coin(stream, within_rounding);
  };

  if (!matching && row < drafted) {
    const bool weights = round.p_draft && round.q_draft;
    const auto value = [&](const StatedNumber& n) { return reals ? n.real : static_cast<double>(n.integer); };
    const double p = weights ? value((*round.p_draft)[row]) : 0;
    const double q = weights ? value((*round.q_draft)[row]) : 0;
    // Coins so near to p / q are at most this likely, whatever p and q are.
    const double near = std::min(1.0, 16 * header_.unit);
    count(Stream::accept, weights && round.accept_u && (*round.accept_u)[row], weights && (p >= q || p == 0), near);
  }
  const bool has_row = row < round.p_reals.size();
  const bool point = (known.p && known.p->is_point()) || (has_row && round.p_reals[row].tokens.size() == 1);
  if (matching && row < accepted) {
    const bool stated = round.accept_u && (*round.accept_u)[row] && (reals || (round.p_draft && round.p_before));
    count(Stream::target, stated, point, 1);
  } else if (row == accepted) {
    const bool residual = !matching && row < drafted;
    const bool rows = has_row && (!residual || row < round.q_reals.size());
    const bool one_left =
        rows && residual && RealWeights(round.p_reals[row], round.q_reals[row], header_.unit).is_point();
    const bool stated = round.next ? round.next->u.has_value() : round.next_u && *round.next_u;
    const bool all = round.next && round.next->weight == round.next->bound;
    count(Stream::target, stated, point || one_left || all, 1);
    if (stated && reals && !rows) evidence_.unknown_within_rounding(Stream::target, 1);
  }
}

void Replayer::forfeit_all(const OpenSequence& sequence, std::int64_t position, std::int64_t draft_tokens) {
  if (!is_evidence(sequence, position)) return;
  const bool rejection = rule_ == AcceptanceRule::rejection;
  const bool drafts = (rejection || rule_ == AcceptanceRule::block) && sequence.declared.max_draft_tokens != 0;
  const bool coins = !header_.draws_follow_from_seed();
  for (std::int64_t i = 0; drafts && i < draft_tokens; ++i) {
    q_stated_.add(false, line_);
    evidence_.unknown_draft_token(header_.total == 0 ? 1 : 0);
    if (coins) forfeit_coin(Stream::draft, 1);
  }
  if (sequence.greedy()) return;
  if (rejection && drafts) {
    acceptance_stated_.add(false, line_);
    evidence_.unknown_acceptance(std::nullopt);
    if (coins) forfeit_coin(Stream::accept, 1);
  }
  if (coins && (rejection || rule_ == AcceptanceRule::matching)) forfeit_coin(Stream::target, 1);
}

void Replayer::forfeit_last_round(const OpenSequence& sequence, const EndEvent& end) {
  rule_ = sequence.rule();
  decided_ = 1;
  const SequenceEvent& declared = sequence.declared;
  const bool is_known = end.reason == Finish::stop && declared.hides_stop_tokens() && !declared.stop_strings;
  if (is_known && (sequence.stop_hidden || sequence.cut)) return;  // that round is stated
  // Draft tokens behind the first one were not verified, except in a block.
  constexpr std::int64_t drafted_most = 64;
  const bool together = rule_ == AcceptanceRule::block;
  forfeit_all(sequence, position_, together ? declared.max_draft_tokens.value_or(drafted_most) : 1);
  if (is_known || sequence.greedy() || !fresh(sequence, position_)) return;
  evidence_of(sequence.rule()).unknown_token(unknown_slack());
}

}  // namespace draftproof::spectrace
