// SPDX-License-Identifier: MIT
// The replay of one trace: what it keeps of open sequences, and what it does with each line. A contradiction becomes a
// finding. What the trace merely states is bet on. A field that could not be checked is named. The members are in
// eight files: replay.cpp has sequences, rounds and ends; replayer_draft.cpp what the draft held and was asked for;
// replayer_draft_tokens.cpp a round with draft tokens; replayer_acceptance.cpp the decisions at each row;
// replayer_draws.cpp single draws; replayer_evidence.cpp which of all this is evidence; replayer_rows.cpp the target's
// rows and the tokens that must come from them; replayer_logprobs.cpp log-probabilities.
#pragma once

#include <algorithm>
#include <limits>
#include <map>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "oracle/spectrace/draws.h"
#include "oracle/spectrace/evidence.h"
#include "oracle/spectrace/nearby_distribution.h"
#include "oracle/spectrace/plain_reader.h"
#include "oracle/spectrace/replay.h"
#include "oracle/spectrace/used_numbers.h"
#include "ref/acceptance/random_source.h"
#include "ref/drafts/tuner.h"

namespace draftproof::spectrace {

inline std::string number(std::uint64_t value) { return std::to_string(value); }
inline std::string number(std::int64_t value) { return std::to_string(value); }
inline std::string number(Token value) { return std::to_string(value); }

/// Returns whether sampling drops tokens that have a probability.
inline bool cuts(const Sampling& s) { return s.top_k > 0 || (s.top_p > 0 && s.top_p < 1) || s.min_p > 0; }

struct OpenSequence {
  SequenceEvent declared;
  std::vector<Token> text;             // prompt and emitted tokens
  Statistics counts;
  bool all_have_draft_tokens = true;   // every round so far states its draft tokens
  std::shared_ptr<Model> target;       // null: p is taken as the trace states it
  std::unique_ptr<PlainReader> plain;  // reads rows of the target
  bool foreign = false;                // computed in other numerics: its rows need not be the target's own
  bool coins_begun = false;
  std::int64_t fresh_from = 0;         // the first position whose random numbers no earlier sequence drew
  std::optional<Token> rejected;       // the draft token rejected last
  bool rejected_unknown = false;       // some round does not state its draft tokens
  std::int64_t dropped = 0;            // positions, by context shifts
  bool draft_astray = false;           // its draft has held something else than the target; found once
  bool anchor_astray = false;          // its draft has placed an anchor elsewhere; found once
  std::optional<Tuner> tuner;          // learns from the rounds so far
  bool asked_otherwise = false;        // its draft was asked for another number of draft tokens; found once
  std::optional<TraceFinding> cut;          // the last round lacks accepted tokens, which only some ends explain
  bool stop_hidden = false;            // the last round ends with a stop token that is not part of the text
  std::optional<std::size_t> top_likeliest;  // how many of the likeliest tokens a list in top_logprobs has, at least
  std::size_t top_shortest = 0;              // how many tokens the shortest of them so far had

  std::int64_t emitted() const { return static_cast<std::int64_t>(text.size() - declared.prompt.size()); }
  bool stops_at(Token token) const {
    return declared.stop_tokens &&
           std::find(declared.stop_tokens->begin(), declared.stop_tokens->end(), token) != declared.stop_tokens->end();
  }
  bool stopped() const { return stop_hidden || (emitted() > 0 && stops_at(text.back())); }
  std::int64_t left() const {  // tokens that may be emitted
    return declared.max_new_tokens ? std::max<std::int64_t>(*declared.max_new_tokens - emitted(), 0)
                                  : std::numeric_limits<std::int64_t>::max();
  }
  /// Whether nothing may follow the text, with these tokens behind it, by a grammar that is known here.
  bool complete(std::span<const Token> more = {}) const {
    if (!plain || declared.grammar.empty()) return false;
    std::vector<Token> whole = text;
    whole.insert(whole.end(), more.begin(), more.end());
    return plain->complete(whole);
  }
  AcceptanceRule rule() const { return declared.rule.kind; }
  bool greedy() const { return rule() == AcceptanceRule::greedy || declared.sampling.greedy(); }
};

struct TooManyFindings {};

/// A row with this much slack or more excludes too little to bet on it.
inline constexpr double slack_max = 0.25;

/// How often a trace states what a bet needs, and where it does not.
class Statement {
 public:
  void add(bool stated, long line);
  long stated() const noexcept { return stated_; }
  long missing() const noexcept { return missing_; }
  /// Returns "lines 3, 4, 9, ... (57 rounds)": where it is missing.
  std::string lines() const;

 private:
  static constexpr std::size_t lines_shown = 8;
  long stated_ = 0;
  long missing_ = 0;
  long rounds_ = 0;  // where it is missing
  long last_ = 0;    // line of these
  std::vector<long> lines_;
};

/// What tokens are bet on with: the row that the trace states, the target's within the slack, top_logprobs. Which of
/// them must be known before the token.
enum class Basis : std::uint8_t { none, rows, target, top };

/// What is known of the target's row after a text: at most one row from the target, and one that the trace states.
struct KnownRow {
  std::optional<Distribution> p;            // exact: the target's, or stated
  std::optional<RoundedDistribution> reals; // stated
  std::optional<NearbyDistribution> near;   // the target's, where the sequence was computed in other numerics
  std::optional<BestToken> best;            // the same, of a greedy sequence
};

/// A distribution to bet on, which the caller keeps; none where p is null.
struct DistributionAt {
  const Distribution* p = nullptr;
  double slack = 0;
};

class Replayer {
 public:
  Replayer(const Header& header, const Target& target, TraceReport& report)
      : header_(header), target_(target), report_(report), random_(header.seed.value_or(0)),
        evidence_(header.vocabulary, target.slack, header.u_bits),
        of_lossy_(header.vocabulary, target.slack, header.u_bits) {}

  /// Replays one line.
  void take(const Event& event);

  /// Ends the replay after the last line.
  void finish();

  /// Writes the outcome of all bets into the report; also after a replay that ended early.
  void report_evidence();

 private:
  /// Counts one check; adds a finding, with `expected()` and `observed()`, unless `right`. Returns `right`.
  bool expect(bool right, const char* check, const auto& expected, const auto& observed) {
    ++report_.looked[check];
    if (right) return true;
    add_finding({check, line_, id_, round_, position_, expected(), observed()});
    return false;
  }
  template <class Value>
  bool expect_equal(const char* check, const std::string& what, Value expected, Value observed) {
    return expect(
        expected == observed, check, [&] { return what + " " + number(expected); },
        [&] { return number(observed); });
  }
  void add_finding(const TraceFinding& finding);
  /// The same of what costs speed only, where all later rounds may be wrong for one reason: `found` says whether there
  /// is a finding of this sequence already. It never ends the replay.
  void expect_of_draft(bool right, const char* check, bool& found, const auto& expected, const auto& observed) {
    ++report_.looked[check];
    if (right || found) return;
    found = true;
    if (slower_++ < TraceReport::slower_max) {
      report_.slower.push_back({check, line_, id_, round_, position_, expected(), observed()});
    }
  }
  /// Names a field that is present and that could not be checked.
  void unread(const char* field, const std::string& why);

  // Sequences, rounds, ends: replay.cpp.

  void open(const SequenceEvent& declared);
  void check_round(const RoundEvent& round);
  /// Checks that `next` may follow the text with these tokens behind it: where a grammar lets nothing follow, some
  /// engines end the text, and others emit a stop token.
  void expect_open(const OpenSequence& sequence, std::span<const Token> more, Token next);
  /// Lets rows of the target be those of a shifted context; without a target that can do so, they are not known.
  void shift_context(const ShiftEvent& shift);

  /// Reports values that no right engine states. The rest of that round, and every later row of the target, means
  /// nothing.
  void report_faults(OpenSequence& sequence, const RoundEvent& round);

  /// Replays a round without draft tokens: checks what the target alone decides.
  void replay_tokens(OpenSequence& sequence, const RoundEvent& round);
  void count(OpenSequence& sequence, const RoundEvent& round);
  void end(const EndEvent& end);

  /// Checks that a text ends with a stop token, with its budget, or for a reason that tokens cannot show (a string, a
  /// tool call, a grammar).
  void expect_ended(OpenSequence& sequence, const EndEvent& end);
  void reconcile(const OpenSequence& sequence, const StatedCounts& stated);
  void finish_rounding();
  void name_statements();
  void finish_greedy();
  void name_untested_tokens();

  // Single draws: replayer_draws.cpp.

  std::uint64_t below(const Key& key, std::uint64_t bound);

  bool fresh(const OpenSequence& sequence, std::int64_t position) const { return position >= sequence.fresh_from; }

  /// Returns whether what was decided at this position, by a coin or by a draft token, is evidence. It is not where the
  /// text had ended before, because the same coin may decide again; where an earlier sequence was decided by the same
  /// coins; and at the first position where stop tokens are hidden, because a sequence of only such a token may be
  /// missing in the trace.
  bool is_evidence(const OpenSequence& sequence, std::int64_t position) const;
  /// Returns how many rows of the round (of block verification: draft tokens) had a part in the text or its end.
  std::int64_t rows_of_the_text(const OpenSequence& sequence, const RoundEvent& round) const;
  /// Pays for the coins at a row that the trace does not state.
  void forfeit_unstated_coins(const OpenSequence& sequence, const RoundEvent& round, std::size_t row,
                              const KnownRow& known);
  /// `within_rounding`: the most likely it can be that such a coin lies where rounding decides.
  void forfeit_coin(Stream stream, double within_rounding);
  /// The same for all that a round without draft tokens, or one that is not in the trace, may have decided at a
  /// position.
  void forfeit_all(const OpenSequence& sequence, std::int64_t position, std::int64_t draft_tokens);
  /// Pays for a last round that the trace does not have, because the text ended with a token that is not part of it.
  void forfeit_last_round(const OpenSequence& sequence, const EndEvent& end);
  Evidence& evidence_of(AcceptanceRule rule) { return rule == AcceptanceRule::lossy ? of_lossy_ : evidence_; }
  std::optional<Stream> target_stream(const OpenSequence& sequence, std::int64_t position) const {
    return is_evidence(sequence, position) ? std::optional(Stream::target) : std::nullopt;
  }
  double unknown_slack() const;  // the most slack of a row that is not stated and would be bet on

  /// Bets on a coin that is only stated. `decides`: another coin might have led to another text.
  void bet_on_coin(OpenSequence& sequence, std::int64_t position, Stream stream, double coin, bool decides = true);

  static Stream stream_of(Purpose purpose);

  /// Checks the coin of a key where the trace names our generator and a seed; bets on it otherwise. `depth`: of the key
  /// of a draft's draw.
  void expect_coin(OpenSequence& sequence, std::int64_t position, Purpose purpose, std::uint64_t bound,
                   std::uint64_t coin, int depth = 0);

  /// Checks that the coin lies in the token's interval; there may be no coin only where one token has all the weight.
  void expect_interval(const char* check, const Draw& draw);
  void expect_draw(const char* check, OpenSequence& sequence, std::int64_t position, Purpose purpose, const Draw& draw);
  void expect_hit(const char* check, const Hit& hit, const Draw& draw);

  /// Checks a draw from real weights; there may be no coin only where one token has all the weight.
  /// `stream`: of the coin, where it is evidence.
  void expect_real_draw(const char* check, const RealWeights& row, const std::optional<double>& coin, Token token,
                        std::optional<Stream> stream);

  /// Checks that the stated keys of a round are those of its coins. A draft may draw more numbers than its draft tokens
  /// needed; under matching it may draw with any numbers, those of the target included.
  void expect_keys(const RngPositions& stated);

  /// Checks that a stated probability equals that of the row, up to rounding.
  void expect_stated(const char* check, Token token, double of_row, double stated);

  static std::optional<std::uint64_t> integer(const std::optional<StatedNumber>& coin);

  // What costs speed only: replayer_draft.cpp.

  /// Checks that target and draft hold the text before the anchor, and where the draft places the anchor.
  void expect_held(OpenSequence& sequence, const RoundEvent& round);
  /// Checks that a draft proposes no more than it was asked for and, where a tuner chooses that, that it is what the
  /// tuner chooses, which learns from the rounds of the sequence.
  void expect_asked(OpenSequence& sequence, const RoundEvent& round);
  void expect_chosen(OpenSequence& sequence, const std::vector<int>& asked, std::int64_t drafted,
                     const RoundEvent& round);
  bool expect_asked_as(OpenSequence& sequence, bool right, const auto& expected, const auto& observed);

  // A round with draft tokens: replayer_draft_tokens.cpp.

  void check_draft_tokens(OpenSequence& sequence, const RoundEvent& round);

  /// Checks where the next token comes from, the width of the pass and the number of draft tokens.
  void expect_shape(const OpenSequence& sequence, const RoundEvent& round);
  /// Returns whether the text ends with the round, by a stop token or its budget.
  static bool ends(const OpenSequence& sequence, const RoundEvent& round);
  /// Returns a likely cause of a finding about `accepted`: that it was counted after the text was cut. Else empty.
  static std::string about_accepted(const OpenSequence& sequence, const RoundEvent& round);
  void name_unread_fields(const OpenSequence& sequence, const RoundEvent& round);
  void count_depth(std::size_t depth, bool accepted, const Distribution& p, const Distribution& q);

  /// Checks that a round emits the accepted draft tokens and the next token, cut only where the text has to end.
  void expect_emitted(OpenSequence& sequence, const RoundEvent& round);

  /// Checks that draft token j was drawn from its q.
  void expect_drafted(OpenSequence& sequence, const RoundEvent& round, std::size_t j);

  /// Bets on a draft token that was verified. One after the rejected draft token may be drawn again with the same
  /// number.
  void bet_on_draft(const RoundEvent& round, std::size_t j);
  bool expect_weight_in_q(Token draft_token, bool has_weight);
  std::string draft_draw_missing(const RoundEvent& round, std::size_t j) const;

  /// Both return false when the trace does not state how the draft token was drawn from its q.
  bool drafted_from_integers(OpenSequence& sequence, const RoundEvent& round, std::size_t j);
  bool drafted_from_reals(OpenSequence& sequence, const RoundEvent& round, std::size_t j, bool bet);

  /// Some coin of this purpose is not stated in this round.
  void draws_unknown(Purpose purpose) { drawn_unknown_[static_cast<std::size_t>(purpose)] = true; }

  // The decisions at each row: replayer_acceptance.cpp.

  void check_row(OpenSequence& sequence, const RoundEvent& round, std::size_t row, const KnownRow& known);
  void check_greedy_row(const OpenSequence& sequence, const RoundEvent& round, std::size_t row,
                        const std::optional<Distribution>& p);
  void check_matching_row(OpenSequence& sequence, const RoundEvent& round, std::size_t row,
                          const std::optional<Distribution>& p);

  /// Checks the target's draw that a draft token equaled. `computed`: that draw was computed from p and the seed.
  void check_accepted_match(OpenSequence& sequence, const RoundEvent& round, std::size_t row,
                            const std::optional<Distribution>& p, bool computed);
  void check_rejection_row(OpenSequence& sequence, const RoundEvent& round, std::size_t row, const KnownRow& known);
  void check_integer_acceptance(OpenSequence& sequence, const RoundEvent& round, std::size_t row);
  static std::string decision_on(const OpenSequence& sequence, const RoundEvent& round, std::size_t row);

  /// Checks an acceptance of real numbers: only what rounding cannot turn is a finding.
  void check_real_acceptance(OpenSequence& sequence, const RoundEvent& round, std::size_t row);

  /// Bets that a draft token is accepted with probability p / q, unless the coin is computed again.
  void bet_on_acceptance(const OpenSequence& sequence, const RoundEvent& round, std::size_t row, const KnownRow& known);

  /// Checks the target's own draw after the draft tokens.
  void check_next(OpenSequence& sequence, const RoundEvent& round, const char* check, std::int64_t position,
                  const std::optional<Distribution>& p);

  /// Bets on the coin of the next token for real weights; returns false where it is not stated.
  bool bet_on_next(OpenSequence& sequence, const RoundEvent& round, std::int64_t position);
  std::string next_draw_missing() const;

  /// Returns what the draft token was drawn from, where all of it is stated: a row, or one token with all the weight.
  std::optional<Distribution> draft_row(const RoundEvent& round, std::size_t row) const;
  void check_residual(OpenSequence& sequence, const RoundEvent& round, std::size_t row, std::int64_t position,
                      const std::optional<Distribution>& p);

  // The target's rows: replayer_rows.cpp.

  /// Gives the sequence a target in the numerics it was computed in, or any target when slack is granted.
  void hold_to_target(OpenSequence& sequence);
  /// `compared`: its tokens are, with a target of other numerics.
  void name_missing_target(OpenSequence& sequence, bool compared, bool own_order);

  /// The first foreign numerics, so that the report has one message however many there are.
  const std::string& foreign(const std::string& numerics);
  static bool is_our_order(const SequenceEvent& declared);

  /// Names what changes the logits and is not known here.
  void name_adjustments(const SequenceEvent& declared);
  /// Returns the reader of the grammar of a sequence; nullptr without one. Throws Error where it cannot be compiled.
  std::unique_ptr<ConstraintReader> constraint_of(const SequenceEvent& declared) const;

  /// Returns the target's row after the text. All sequences' KV caches together have no more positions than the longest
  /// text of one could take; the caches read longest ago are released.
  const PlainRow& read(OpenSequence& sequence);

  /// Returns the row after the text, which ends in the first `row` tokens of the round: computed where possible, else
  /// as the trace states it.
  KnownRow row_after(OpenSequence& sequence, const RoundEvent& round, std::size_t row);
  void expect_own(const std::string& which, const RoundEvent& round, std::size_t row, const PlainRow& plain,
                  KnownRow& known);

  /// Checks that a row of other numerics lies no further from the target's own than was granted.
  void expect_near(const std::string& which, OpenSequence& sequence, KnownRow& known);

  /// Checks that a stated row agrees with the declared sampling and with the stated logits.
  void expect_declared(const OpenSequence& sequence, const RoundEvent& round, std::size_t row);
  /// Checks that a token of a stated row is as much likelier than another as their logits say.
  void expect_ratio(const std::string& which, const OpenSequence& sequence, const TopTwo& best, double first,
                    double second);
  /// Returns what an engine may lose of a probability of a stated row, besides rounding in proportion to it: integer
  /// weights of ours end at 2^-40, the smallest float16 is 2^-24.
  double least_weight() const { return header_.total > 0 ? 0x1p-38 : header_.unit * 0x1p-14; }

  /// Bets on a token of the round, given the distribution it must come from; `q`: what a draft token for it was drawn
  /// from. A distribution of one token is no bet: it proves the token, or the fault. A random number that was bet on
  /// before is no further evidence.
  void bet(OpenSequence& sequence, const RoundEvent& round, std::size_t row, const KnownRow& known,
           const DistributionAt& q);
  /// Returns what to bet on a token with; nothing where it is not known. Call once for each token.
  DistributionAt basis_of(const OpenSequence& sequence, const KnownRow& known,
                          const std::optional<RoundedDistribution>& of_top);

  /// Checks a greedy token of other numerics: it may differ from the target's best token where the two are near ties.
  void check_greedy_token(const OpenSequence& sequence, const BestToken& best, Token token, std::int64_t position);

  /// Returns the token that plain decoding emits: the only token of p, or the draw with a known coin under matching.
  std::optional<Token> token_of(const Distribution& p, const OpenSequence& sequence, std::int64_t position);

  // Log-probabilities: replayer_logprobs.cpp.

  /// Returns the stated top log-probabilities as a distribution, with one more token, the vocabulary's size, for all
  /// others; nothing where they are not of the distribution that tokens are drawn from.
  std::optional<RoundedDistribution> distribution_of_top(const OpenSequence& sequence, const RoundEvent& round,
                                                         std::size_t row) const;
  Token place_in(const Distribution& top, Token token) const;
  void hold_logprobs(const OpenSequence& sequence, const RoundEvent& round, std::size_t row, const KnownRow& known);
  /// `least`: what the probability of `own` may lack, besides rounding in proportion to it.
  void expect_logprob(Token token, double stated, double own, double slack, double least, const char* to);
  /// Returns whether tokens are drawn from the softmax of the raw logits.
  static bool draws_from_softmax(const OpenSequence& sequence);

  const Header& header_;
  const Target& target_;
  TraceReport& report_;
  PhiloxSource random_;
  Evidence evidence_;
  Evidence of_lossy_;             // tokens of rules that are declared lossy: reported, never an alarm
  std::optional<std::string> foreign_;  // numerics
  bool coins_stated_ = false;     // some coins decided a token and could not be computed again
  Statement p_stated_;            // of tokens
  Statement q_stated_;            // of verified draft tokens: rows
  Statement acceptance_stated_;   // p and q of verified draft tokens
  Statement coins_of_[3];         // by stream
  Basis basis_ = Basis::none;
  std::int64_t decided_ = 0;      // rows of this round that had a part in the text
  long ended_ = 0;                // sequences
  bool key_stated_ = false;       // of some sequence: its field rng_key
  long loose_ = 0;                // tokens for which the slack leaves too much open
  std::size_t slower_ = 0;        // findings about drafts
  long not_bet_ = 0;              // tokens drawn with random numbers of an earlier sequence
  UsedNumbers numbers_;
  std::size_t found_before_ = 0;  // findings before this round
  std::map<std::int64_t, OpenSequence> sequences_;  // open ones
  std::vector<PlainReader*> readers_;           // theirs, with a KV cache; the one read last is the last
  AcceptanceRule rule_ = AcceptanceRule::rejection;  // of this round
  RngPositions drawn_;            // keys of the coins of this round
  bool drawn_unknown_[4] = {};    // by purpose: this round does not state every coin
  long line_ = 0;
  std::int64_t id_ = 0;
  std::int64_t round_ = 0;
  std::int64_t position_ = 0;
};

}  // namespace draftproof::spectrace
