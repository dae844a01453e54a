// SPDX-License-Identifier: MIT
// The random numbers (coins) that a trace states: whether each is that of its key where the trace names our generator
// and a seed, whether it selects the token that it is said to have selected, and which numbers were drawn before.
//
//     StatedCoins coins(header, games, report);
//     coins.open(sequence);
//     coins.begin_round();
//     coins.expect_draw("bonus", sequence, position, Purpose::target, *round.next, findings);
//     if (round.rng_positions) coins.expect_keys(*round.rng_positions, sequence.rule(), findings);
//     coins.close(sequence);
#pragma once

#include <cstdint>
#include <optional>

#include "oracle/spectrace/draws.h"
#include "oracle/spectrace/events.h"
#include "oracle/spectrace/findings.h"
#include "oracle/spectrace/games.h"
#include "oracle/spectrace/open_sequence.h"
#include "oracle/spectrace/used_numbers.h"
#include "ref/acceptance/random_source.h"

namespace draftproof::spectrace {

/// Both return a stated coin as the number that it is; nothing where none was drawn.
inline std::optional<std::uint64_t> integer_coin(const std::optional<StatedNumber>& coin) {
  return coin ? std::optional(coin->integer) : std::nullopt;
}
inline std::optional<double> real_coin(const std::optional<StatedNumber>& coin) {
  return coin ? std::optional(coin->real) : std::nullopt;
}

class StatedCoins {
 public:
  /// All outlive it. Coins that cannot be computed again are bet on in `games`.
  StatedCoins(const Header& header, Games& games, TraceReport& report)
      : header_(header), games_(games), report_(report), random_(header.seed.value_or(0)) {}

  /// Sets from which position the sequence draws fresh numbers.
  void open(OpenSequence& sequence);
  void close(const OpenSequence& sequence);

  /// Begins a round: keys are compared round by round.
  void begin_round();
  /// Some coin of this purpose is not stated in this round.
  void draws_unknown(Purpose purpose) { unknown_[static_cast<std::size_t>(purpose)] = true; }

  /// Checks the coin of a key where it can be computed again; bets on it otherwise. `depth`: of the key of a draft's
  /// draw.
  void expect_coin(OpenSequence& sequence, std::int64_t position, Purpose purpose, std::uint64_t bound,
                   std::uint64_t coin, const Findings& findings, int depth = 0);
  /// Checks that the coin lies in the token's interval; there may be no coin only where one token has all the weight.
  void expect_interval(const char* check, const Draw& draw, const Findings& findings);
  /// Checks both of a draw.
  void expect_draw(const char* check, OpenSequence& sequence, std::int64_t position, Purpose purpose, const Draw& draw,
                   const Findings& findings);
  /// Checks a draw from real weights; there may be no coin only where one token has all the weight.
  /// `stream`: of the coin, where it is evidence.
  void expect_real_draw(const char* check, const RealWeights& row, const std::optional<double>& coin, Token token,
                        std::optional<Stream> stream, const Findings& findings);
  /// Checks that the stated keys of a round are those of its coins. A draft may draw more numbers than its draft tokens
  /// needed; under matching it may draw with any numbers, those of the target included.
  void expect_keys(const RngPositions& stated, AcceptanceRule rule, const Findings& findings) const;

  /// Bets on a coin that is only stated. `decides`: another coin might have led to another text.
  void bet_on_coin(OpenSequence& sequence, std::int64_t position, Stream stream, double coin, bool decides = true);

  /// Returns the token that plain decoding emits: the only token of p, or the draw with a known coin under matching.
  std::optional<Token> token_of(const Distribution& p, const OpenSequence& sequence, std::int64_t position);

 private:
  std::uint64_t below(const Key& key, std::uint64_t bound);
  void name_stated();

  const Header& header_;
  Games& games_;
  TraceReport& report_;
  PhiloxSource random_;
  UsedNumbers numbers_;
  bool named_ = false;    // some coins decided a token and could not be computed again; the report says so
  RngPositions drawn_;    // keys of the coins of this round
  bool unknown_[4] = {};  // by purpose: this round does not state every coin
};

}  // namespace draftproof::spectrace
