// SPDX-License-Identifier: MIT
// Tests whether tokens come from the distribution they should come from, using tokens alone. p is known at every
// position and differs from position to position. The test may be looked at after every token and for any length of
// time.
//
// A gambler with wealth 1 bets on every token before it is seen. A bet pays e(x) for token x, and is fair when the
// tokens come from p, because sum of p(x) e(x) <= 1. Then no strategy gains on average: P(wealth ever reaches 1 /
// alpha) <= alpha (Ville 1939), however many tokens are used and whenever one stops. So wealth is evidence, an e-value,
// and a right decoder raises `alarm` with probability alpha at most, 1e-9. This needs no asymptotics, no sample size
// and no limit on the vocabulary.
//
// Bets. For every fault model r of oracle/sequential/fault_models.h: e = (1 - w) + w r / p, w = 1, 1/4, 1/16; such a
// bet wins when the decoder is wrong in that way always, or only now and then. The same holds for three models that use
// the text before the token: r is p restricted to the draft token that was rejected last, to the last token, to the
// last 16 tokens. And for other models that somebody suspects: r is their own distribution after the same text. For
// five ways to put tokens into cells (by q / p, by p, by rank, by id, by the text before) there are the learned bets of
// oracle/sequential/cell_bets.h, which find deviations without a name. One bet pays 1. Wealth is spread evenly over the
// bets at first; after every 64 tokens a share of 2^-14 of it is spread again, so that a fault that begins late is
// still found. A token to which p gives no probability is proof, not evidence.
//
// The text is known before the token is drawn, so bets that depend on it are made before the token is seen, and are
// fair: sum of p(x) e(x) <= 1 holds given any text.
//
// A bet is fair only where it is known before the token that it will be made. Whether an engine states p or q may
// depend on the token: rows that are stated after rejections only belong to tokens that are not distributed as p. So a
// token that is drawn from an unknown p pays, in every bet, the least that any token could have paid: 1 - w, and least
// t / most t in the learned bets. Where only q is unknown the bets that use q pay that. Wealth is then at most what it
// would be if every row were known, whatever decides which are, so P(wealth ever reaches 1 / alpha) <= alpha still
// holds.
//
// What would have been seen. Let the tokens come from one of the models, e_t away from p in total variation at token t.
// Its bet with w = 1 began with 1 / B of the wealth and lost a factor 1 - 2^-14 per interval of 64 tokens to sharing;
// for the rest of its wealth W, E[W^-1/2] = product of the sums of sqrt(p r) <= product of sqrt(1 - e_t^2) <= exp(-sum
// of e_t^2 / 2). By Markov's inequality the wealth is below 1 / alpha with probability at most 1/100 as soon as
//     sum of e_t^2 >= ln(B / alpha) + 2 ln 100 + intervals * -ln(1 - 2^-14),
// whatever the models: the smallest deviation is the square root of that over n. This is no approximation. F tokens of
// unknown p leave nothing to the bet with w = 1, so it counts up to the first of them; with w = 1/4 the deviation is
// w e_t, and F ln(1 / (1 - w)) more is needed.
//
// Foreign numerics. An engine that computes p slightly differently, by at most `slack` in total variation, is right
// too. For it E[e] <= 1 + slack (max e - min e), so each bet is divided by that. Every token may have its own slack;
// the largest one determines what would have been seen. Ratios r / p are then limited to 8, and a token to which p
// gives no probability pays as the best other. A model whose r / p differs by at most 4 e from token to token (the flat
// deviation, the hardest to see) now needs n (e^2 - 4 slack e) to be as large: nothing below 4 slack is ever seen.
//
// Rounding. p is exact. A payment is off by less than 2^-30 of itself for vocabularies below 2^20 (sums of that many
// doubles), so each is lowered by that: what is fair on paper is fair as computed.
#pragma once

#include <array>
#include <cstdint>
#include <limits>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "oracle/sequential/cell_bets.h"
#include "oracle/sequential/fault_models.h"
#include "ref/acceptance/distribution.h"

namespace draftproof {

class EProcess {
 public:
  static constexpr std::size_t partitions = 5;
  static constexpr int cells = CellBets::cells;  // the last is for tokens with p = 0
  static constexpr std::size_t text_models = 3;
  static constexpr std::size_t looked_back = 16;  // tokens
  static constexpr std::array<double, 3> weights = {1, 1.0 / 4, 1.0 / 16};

  struct Settings {
    int vocabulary = 0;
    double alpha = 1e-9;
    double slack = 0;
    std::vector<std::string> suspects = {};  // names of other models
    bool spreads = true;                     // wealth, again and again; if not, each bet alone is an e-value: by_bet()
  };

  /// What is known of a token before it is drawn. None of it may depend on the random number that the token is drawn
  /// with: where draft and target share their noise position by position (matching), only the first of the dropped
  /// draft tokens may be given, because the others were drawn with the numbers that the next tokens are drawn with.
  struct Known {
    std::span<const Token> before;   // the text, newest last; its last `looked_back` tokens are used
    std::span<const Token> dropped;  // draft tokens of this sequence's last round that were not accepted, the rejected
                                     // one first; as many are used
    double slack = 0;                // of this token's p, where it is larger than that of the settings
    bool q_unknown = false;          // a draft token was, or may have been, drawn from a q that is not known
    bool dropped_unknown = false;    // there may be other such draft tokens: bets that use them pay the least
    /// Of the suspected models, in their order; one that is not known, or none at all, is not bet on.
    std::span<const std::optional<Distribution>> suspected = {};
  };

  /// What each bet that does not learn pays for every token, computed before the token is seen. For positions that
  /// occur repeatedly; otherwise observe() computes it.
  class Stakes {
   public:
    /// q: the distribution a draft token was drawn from; nullptr where nothing was drafted.
    Stakes(const Settings& settings, const Distribution& p, const Distribution* q,
           std::span<const FaultModel> models = fault_models())
        : Stakes(settings, p, q, Known(), models, std::nullopt) {}

    /// Returns the place of a token, for observe(); never() where p is 0.
    std::size_t place_of(Token token) const noexcept;
    std::size_t never() const noexcept { return tokens_.size(); }

   private:
    friend class EProcess;
    /// `only`: the payments for other tokens are left out.
    Stakes(const Settings& settings, const Distribution& p, const Distribution* q, const Known& known,
           std::span<const FaultModel> models, std::optional<Token> only);

    double slack_;
    std::vector<Token> tokens_;  // with p > 0, ascending
    std::size_t first_ = 0;      // the place that pays_ begins with
    std::vector<double> pays_;   // [tokens_ and never][(models, text_models, suspects) * weights]
    std::vector<std::array<std::uint8_t, partitions>> cells_;
    std::array<CellBets::Mass, partitions> mass_{};  // under p
    bool q_unknown_;
    bool dropped_unknown_;
  };

  explicit EProcess(const Settings& settings, std::span<const FaultModel> models = fault_models());

  /// Bets on the next token, with the p it should come from. Several sequences may be passed one after another, in any
  /// order. Neither p nor q, nor whether there is a q, may depend on the random number that the token is drawn with.
  void observe(const Distribution& p, const Distribution* q, Token token) { observe(p, q, token, Known()); }
  void observe(const Distribution& p, const Distribution* q, Token token, const Known& known);
  void observe(const Stakes& stakes, std::size_t place);
  /// Pays for a token whose p is not known. `slack`: the most that its p may have.
  void forfeit(double slack);

  long tokens() const noexcept { return observed_; }
  /// Returns the largest wealth so far; infinite after a token with p = 0. From 2^900 on it is not updated.
  double e_value() const noexcept { return impossible_ ? std::numeric_limits<double>::infinity() : max_; }
  bool alarm() const noexcept { return e_value() * settings_.alpha >= 1; }
  /// Returns what the fault looks like: the bet that has most of the wealth now.
  std::string suspect() const;
  /// Returns the deviation defined above; 1 when nothing would have been seen.
  double smallest_deviation() const { return smallest_deviation_of(observed_); }
  /// Returns how many more tokens would show a deviation below `deviation`; nothing where no number does, because of
  /// the slack.
  std::optional<long> tokens_until(double deviation) const;
  std::string describe() const;

  /// Of a process that does not spread: what each bet has made of 1 by now, the one that pays 1 last. Each is an
  /// e-value, and those of independent texts multiply (oracle/sequential/pooled_evidence.h). All are infinite after a
  /// token with p = 0.
  std::vector<double> by_bet() const;
  /// What bet number `bet` of by_bet() bets on; of a process without suspects.
  static std::string name_of_bet(std::size_t bet, std::span<const FaultModel> models = fault_models());

 private:
  static constexpr long tokens_max = 1L << 40;

  double smallest_deviation_of(long tokens) const;
  double smallest_deviation_of(long tokens, long forfeited) const;
  double bets() const noexcept {
    return static_cast<double>(wealth_.size() + partitions * CellBets::caution.size() + 1);
  }

  Settings settings_;
  std::span<const FaultModel> models_;
  std::vector<double> wealth_;  // [(models, text_models, suspects) * weights]
  std::array<CellBets, partitions> by_cell_;
  double kept_ = 0;  // by the bet that pays 1
  double slack_;     // the largest of any token
  long observed_ = 0;
  long forfeited_ = 0;
  long before_forfeits_ = 0;  // tokens observed before the first one
  double max_ = 1;
  bool impossible_ = false;
};

}  // namespace draftproof
