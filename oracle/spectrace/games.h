// SPDX-License-Identifier: MIT
// All bets on a trace: bets that no correct engine loses often. A game begins with wealth 1 and stakes it on
// values it has not seen yet. With a correct engine its expected wealth is at most 1 at every time. So its alarm, at a
// wealth of games / alpha, is false with probability alpha / games at most, and any alarm of all games with alpha.
//
// What makes each bet fair: it is known before the outcome that the bet will be made. Whether a trace states what a bet
// needs may depend on the outcome; so where it does not, the unknown_...() of that game is called, and every bet pays
// the least that it could have paid. The decisions that a game is about are those of the text: what is discarded,
// because the text ended before it, decided nothing and may be decided again by the same random number.
#pragma once

#include <array>
#include <optional>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "oracle/sequential/acceptance_evidence.h"
#include "oracle/sequential/coin_evidence.h"
#include "oracle/sequential/e_process.h"
#include "oracle/sequential/rare_events.h"
#include "oracle/sequential/rounded_distribution.h"

namespace draftproof::spectrace {

/// Outcome of one game.
struct Game {
  std::string name;
  long observed = 0;
  double e_value = 1;
  bool alarm = false;
  std::string message;
};

/// The e-value as a function of the token count, with at most points_max points for any number of tokens.
class EvidenceCurve {
 public:
  static constexpr std::size_t points_max = 512;

  void add(long tokens, double e_value);
  std::vector<std::pair<long, double>> points() const;

 private:
  std::vector<std::pair<long, double>> points_;
  std::pair<long, double> last_ = {0, 1};
  long every_ = 1;
};

class Games {
 public:
  static constexpr double alpha = 1e-9;
  static constexpr int count = 6;
  static constexpr double alpha_of_one = alpha / count;

  /// `suspects`: names of other models that tokens may come from.
  Games(int vocabulary, double slack, int u_bits, const std::vector<std::string>& suspects);

  /// Bets on a token that must come from p. `q`: what a draft token for it was drawn from, or null. `q_unknown`: there
  /// is, or may be, a draft token with another q. `rejected`: the draft token of this sequence that was rejected last;
  /// `rejected_unknown`: there may be a later one. `suspected`: what the suspects give the token, where known.
  void token(const Distribution& p, double slack, const Distribution* q, bool q_unknown, Token token,
             std::span<const Token> text, const std::optional<Token>& rejected, bool rejected_unknown,
             std::span<const std::optional<Distribution>> suspected);
  /// `slack`: the most that its p may have.
  void unknown_token(double slack);
  /// Bets on a token where p has one choice; an engine of other numerics may emit another with this probability at
  /// most.
  void token_of_a_point(double probability, bool other);
  void draft_token(const Distribution& q, double slack, Token token);
  void unknown_draft_token(double slack);
  void coin(Stream stream, double coin);
  void unknown_coin(Stream stream);
  void acceptance(double probability, bool accepted, double rounding);
  /// `accepted`: where that is known.
  void unknown_acceptance(std::optional<bool> accepted);
  /// `probability`: of a coin of this stream that lies where rounding decides; `is`: whether it does.
  void within_rounding(Stream stream, double probability, bool is);
  void unknown_within_rounding(Stream stream, double probability);

  const EProcess& tokens() const noexcept { return tokens_; }
  const EvidenceCurve& curve() const noexcept { return curve_; }
  const std::array<RareEvents, 3>& rounding() const noexcept { return rounding_; }  // by stream
  bool too_many_within_rounding() const noexcept;
  const RareEvents& points() const noexcept { return points_; }
  /// Returns the share of tokens of one choice that would have been found wrong; 1 when they are too few to show any.
  double points_seen() const { return points_.frequency_seen(alpha_of_one); }
  /// Returns the games that have seen something, without those on tokens and on rounding.
  std::vector<Game> others() const;

 private:
  EProcess tokens_;
  EProcess draft_tokens_;
  CoinEvidence coins_;
  AcceptanceEvidence acceptance_;
  RareEvents points_;
  std::array<RareEvents, 3> rounding_;
  EvidenceCurve curve_;
};

}  // namespace draftproof::spectrace
