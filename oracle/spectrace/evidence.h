// SPDX-License-Identifier: MIT
// What is bet on and what is proved: which decision of a round goes into which game (games.h), what a game pays where
// the trace does not state what its bet needs, and what all of it comes to in the report. What makes each bet fair is
// that it is known before the outcome that it will be made; so every decision of a text is either bet on or forfeited.
//
//     Evidence evidence(header, target, rows, report);
//     evidence.bet_on_acceptance(sequence, round, row, known, place);  // for each row, as they were decided
//     evidence.bet_on_token(sequence, round, row, known, q, findings);
//     evidence.forfeit_unstated_coins(sequence, round, row, known, place);
//     evidence.finish(findings);
#pragma once

#include <cstdint>
#include <optional>

#include "oracle/spectrace/events.h"
#include "oracle/spectrace/findings.h"
#include "oracle/spectrace/games.h"
#include "oracle/spectrace/known_row.h"
#include "oracle/spectrace/open_sequence.h"
#include "oracle/spectrace/row_source.h"
#include "oracle/spectrace/stated_count.h"
#include "oracle/spectrace/trace_target.h"

namespace draftproof::spectrace {

/// What tokens are bet on with: the row that the trace states, the target's within the slack, top_logprobs. Which of
/// them must be known before the token.
enum class Basis : std::uint8_t { none, rows, target, top };

/// A distribution to bet on, which the caller keeps; none where p is null.
struct DistributionAt {
  const Distribution* p = nullptr;
  double slack = 0;
};

class Evidence {
 public:
  /// All outlive it.
  Evidence(const Header& header, const TraceTarget& target, RowSource& rows, TraceReport& report);

  Games& games() noexcept { return games_; }
  void open(const SequenceEvent& declared) { key_stated_ = key_stated_ || declared.rng_key_stated; }

  /// Bets on a token of the round, given the distribution it must come from; `q`: what a draft token for it was drawn
  /// from. A distribution of one token is no bet: it proves the token, or the fault, which is looked for while the
  /// round has no finding. A random number that was bet on before is no further evidence.
  void bet_on_token(OpenSequence& sequence, const RoundEvent& round, std::size_t row, const KnownRow& known,
                    const DistributionAt& q, const Findings& findings);
  /// Bets on draft token j, which was verified. One after the rejected draft token may be drawn again with the same
  /// number.
  void bet_on_draft(AcceptanceRule rule, const RoundEvent& round, std::size_t j, const TracePlace& place);
  /// Bets that a draft token is accepted with probability p / q, unless the coin is computed again.
  void bet_on_acceptance(const OpenSequence& sequence, const RoundEvent& round, std::size_t row, const KnownRow& known,
                         const TracePlace& place);
  /// From the next token on, tokens are bet on with this.
  void set_basis(Basis basis) noexcept { basis_ = basis; }

  /// Pays for the coins at a row that the trace does not state.
  void forfeit_unstated_coins(const OpenSequence& sequence, const RoundEvent& round, std::size_t row,
                              const KnownRow& known, const TracePlace& place);
  /// Pays for all that a round without draft tokens, or one that is not in the trace, may have decided at a position.
  void forfeit_all(const OpenSequence& sequence, std::int64_t position, std::int64_t draft_tokens,
                   const TracePlace& place);
  /// Pays for a last round that the trace does not have, because the text ended with a token that is not part of it.
  void forfeit_last_round(OpenSequence& sequence, const EndEvent& end, const TracePlace& place);

  /// Checks that no more decisions lie within rounding than is likely, and says what is open of greedy tokens.
  void finish(const Findings& findings);
  /// Writes the outcome of all bets into the report; also after a replay that ended early.
  void report();

 private:
  bool reals() const noexcept { return header_.total == 0; }
  /// Whether stated rows are another program's, which take the place of a target.
  bool is_reference() const noexcept { return target_.vocabulary == 0 && target_.slack > 0; }
  Games& games_of(AcceptanceRule rule) { return rule == AcceptanceRule::lossy ? of_lossy_ : games_; }
  const Games& tested() const { return games_.tokens().tokens() > 0 ? games_ : of_lossy_; }
  StatedCount& coins_of(Stream stream) { return coins_[static_cast<std::size_t>(stream)]; }

  DistributionAt basis_of(AcceptanceRule rule, const KnownRow& known, const std::optional<RoundedDistribution>& of_top);
  void expect_possible(Token token, bool is_possible, bool stated, std::int64_t position, const Findings& findings);
  void check_greedy_token(const OpenSequence& sequence, const BestToken& best, Token token, std::int64_t position,
                          const Findings& findings);
  void forfeit_coin(Stream stream, double within_rounding, const TracePlace& place);
  double unknown_slack() const;

  void name_statements();
  void name_untested_tokens();

  const Header& header_;
  const TraceTarget& target_;
  RowSource& rows_;
  TraceReport& report_;
  Games games_;
  Games of_lossy_;  // tokens of rules that are declared lossy: reported, never an alarm
  Basis basis_ = Basis::none;
  StatedCount p_stated_;           // of tokens
  StatedCount q_stated_;           // of verified draft tokens: rows
  StatedCount acceptance_stated_;  // p and q of verified draft tokens
  StatedCount coins_[3];           // by stream
  bool key_stated_ = false;        // of some sequence: its field rng_key
  long loose_ = 0;                 // tokens for which the slack leaves too much open
  long not_bet_ = 0;               // tokens drawn with random numbers of an earlier sequence
};

}  // namespace draftproof::spectrace
