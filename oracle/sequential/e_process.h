// SPDX-License-Identifier: MIT
// Do tokens come from the law they should come from? Judged by tokens alone, with p known at every position and every
// position different; looked at after every token, for as long as one likes.
//
// A gambler with wealth 1 bets on every token before it is seen: a bet pays e(x) for token x, and is fair when the
// tokens come from p, because sum of p(x) e(x) <= 1. Then no strategy makes money: P(wealth ever reaches 1 / alpha) <=
// alpha (Ville 1939), however many tokens are looked at and whenever one stops. So wealth is evidence, an e-value, and
// `alarm` is false for right decoders but with probability alpha, 1e-9. No asymptotics, no sample size, no vocabulary.
//
// Bets. For every law r of oracle/sequential/fault_models.h: e = (1 - w) + w r / p, w = 1, 1/4, 1/16; such a bet wins when the
// decoder is wrong in that way always, or only now and then. So for three laws that look at the text before the token:
// r is p restricted to the draft token that was rejected last, to the last token, to the last 16 tokens. For five ways
// to put tokens into cells (by q / p, by p, by rank, by id, by the text before) the learned bets of oracle/sequential/cell_bets.h;
// they find a deviation that has no name. One bet pays 1. Wealth is spread evenly over the bets at first; after every
// 64 tokens a share of 2^-14 of it is spread again, so a fault that begins late is still found. A token that p says
// never is proof, not evidence.
//
// The text is known before the token is drawn, so bets that hang on it are bets made before the token is seen, and
// fair: sum of p(x) e(x) <= 1 holds given any text.
//
// What would have been seen. Let the tokens come from one of the laws, in total variation e_t away from p at token t.
// Its bet with w = 1 began with 1 / B of the wealth and lost a factor 1 - 2^-14 a block to sharing; for the rest of its
// wealth W, E[W^-1/2] = product of the sums of sqrt(p r) <= product of sqrt(1 - e_t^2) <= exp(-sum of e_t^2 / 2). By
// Markov's inequality the wealth is below 1 / alpha with probability at most 1/100 as soon as
//     sum of e_t^2 >= ln(B / alpha) + 2 ln 100 + blocks * -ln(1 - 2^-14),
// whatever the laws: the smallest deviation is the square root of that over n. No approximation.
//
// Foreign numerics. An engine that computes p a little otherwise, by at most `slack` in total variation, is right too.
// For it E[e] <= 1 + slack (max e - min e), so each bet is divided by that. Every token may have its own slack; the
// largest counts for what would have been seen. Ratios r / p are then held below 8, and a
// token that p says never pays as the best other. A law whose r / p differs by at most 4 e from token to token (the
// flat deviation, the hardest to see) now needs n (e^2 - 4 slack e) to be as large: nothing below 4 slack is ever seen.
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
  static constexpr int cells = CellBets::cells;  // the last is for what p says never
  static constexpr std::size_t text_models = 3;
  static constexpr std::size_t looked_back = 16;  // tokens
  static constexpr std::array<double, 3> weights = {1, 1.0 / 4, 1.0 / 16};

  struct Settings {
    int vocabulary = 0;
    double alpha = 1e-9;
    double slack = 0;
  };

  /// What is known of a token before it is drawn. None of it may hang on the number that the token is drawn with: where
  /// draft and target share their noise position by position (matching), of the dropped draft tokens only the first may
  /// be given, for the others were drawn with the numbers that the next tokens are drawn with.
  struct Known {
    std::span<const Token> before;   // the text, newest last; its last `looked_back` tokens are looked at
    std::span<const Token> dropped;  // draft tokens of this sequence's last round that were not kept, the rejected one
                                     // first; as many are looked at
    double slack = 0;                // of this token's p, where that is more than the settings'
  };

  /// What every bet that does not learn pays for every token, made before the token is seen. For positions that come
  /// again; else observe() makes them.
  class Stakes {
   public:
    /// q: what a draft token was drawn from; nullptr where nothing was drafted.
    Stakes(const Settings& settings, const Distribution& p, const Distribution* q,
           std::span<const FaultModel> models = fault_models())
        : Stakes(settings, p, q, Known(), models, std::nullopt) {}

    /// Place of a token, for observe(); `never` where p is 0.
    std::size_t place_of(Token token) const noexcept;
    std::size_t never() const noexcept { return tokens_.size(); }

   private:
    friend class EProcess;
    /// `only`: what is paid for the others is left out.
    Stakes(const Settings& settings, const Distribution& p, const Distribution* q, const Known& known,
           std::span<const FaultModel> models, std::optional<Token> only);

    double slack_;
    std::vector<Token> tokens_;  // that p may say, ascending
    std::size_t first_ = 0;      // the place that pays_ begins with
    std::vector<double> pays_;   // [tokens_ and never][(laws, then text_laws) * weights]
    std::vector<std::array<std::uint8_t, partitions>> cells_;
    std::array<CellBets::Mass, partitions> mass_{};  // under p
  };

  explicit EProcess(const Settings& settings, std::span<const FaultModel> models = fault_models());

  /// The next token, and the p it should come from. For many sequences: one after another, in any order. Neither p nor
  /// q, nor whether there is a q, may hang on the number that the token is drawn with.
  void observe(const Distribution& p, const Distribution* q, Token token) { observe(p, q, token, Known()); }
  void observe(const Distribution& p, const Distribution* q, Token token, const Known& known);
  void observe(const Stakes& stakes, std::size_t place);

  long tokens() const noexcept { return observed_; }
  /// The most the wealth has ever been; infinite after a token that p says never. From 2^900 on it is not counted on.
  double e_value() const noexcept {
    return impossible_ ? std::numeric_limits<double>::infinity() : most_;
  }
  bool alarm() const noexcept { return e_value() * settings_.alpha >= 1; }
  /// The bet that has most of the wealth now: what the fault looks like.
  std::string suspect() const;
  /// See above; 1 when nothing would have been seen.
  double smallest_deviation() const { return smallest_deviation_of(observed_); }
  /// How many more tokens would show a deviation below that one; none where no number does, because of the slack.
  std::optional<long> tokens_until(double deviation) const;
  std::string describe() const;

 private:
  static constexpr long tokens_max = 1L << 40;

  double smallest_deviation_of(long tokens) const;
  double bets() const noexcept {
    return static_cast<double>(wealth_.size() + partitions * CellBets::caution.size() + 1);
  }

  Settings settings_;
  std::span<const FaultModel> models_;
  std::vector<double> wealth_;  // [(laws, then text_laws) * weights]
  std::array<CellBets, partitions> by_cell_;
  double kept_ = 0;  // by the bet that pays 1
  double slack_;     // the largest that a token was granted
  long observed_ = 0;
  double most_ = 1;
  bool impossible_ = false;
};

}  // namespace draftproof
