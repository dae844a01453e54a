// SPDX-License-Identifier: MIT
// One replay while it goes on: what it keeps of open sequences, and what it does with a line. Whatever cannot be right
// is a finding; what is merely stated is bet on; what nobody could look at is named. Its members stand in three files:
// replay.cpp has sequences, rounds and ends, replayer_draft_tokens.cpp the decisions of a round and their coins,
// replayer_rows.cpp the rows of the target and the tokens that should come from them.
#pragma once

#include <algorithm>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "oracle/spectrace/draws.h"
#include "oracle/spectrace/evidence.h"
#include "oracle/spectrace/nearby_distribution.h"
#include "oracle/spectrace/plain_reader.h"
#include "oracle/spectrace/replay.h"
#include "oracle/spectrace/used_numbers.h"
#include "ref/acceptance/random_source.h"

namespace draftproof::spectrace {

inline std::string number(std::uint64_t value) { return std::to_string(value); }
inline std::string number(std::int64_t value) { return std::to_string(value); }
inline std::string number(Token value) { return std::to_string(value); }
std::string listed(const std::vector<Token>& tokens);

struct Sequence {
  Opening opening;
  std::vector<Token> text;             // prompt and what was emitted
  Statistics counts;
  bool all_judged = true;
  std::shared_ptr<Model> target;       // none: p is as the trace states it
  std::unique_ptr<PlainReader> plain;  // of the target
  bool foreign = false;                // its rows need not be the target's own
  bool coins_begun = false;
  std::int64_t fresh_from = 0;         // the first position whose random numbers no earlier sequence drew with
  std::optional<Token> rejected;       // the draft token rejected last
  std::optional<Finding> cut;          // of its last round, which only some ends explain

  std::int64_t emitted() const { return static_cast<std::int64_t>(text.size() - opening.prompt.size()); }
  bool stops_at(Token token) const {
    return opening.stops && std::find(opening.stops->begin(), opening.stops->end(), token) != opening.stops->end();
  }
  bool stopped() const { return emitted() > 0 && stops_at(text.back()); }
  Judging rule() const { return opening.judged_by.rule; }
  bool greedy() const { return rule() == Judging::greedy || opening.sampling.greedy(); }
};

struct TooManyFindings {};

/// What is known of the target's row after a text: of these at most one from the target, and one as stated.
struct KnownRow {
  std::optional<Distribution> p;  // exact: of the target or as stated
  std::optional<RoundedDistribution> reals;   // as stated
  std::optional<NearbyDistribution> near;    // of the target, where the sequence was computed in other numerics
  std::optional<BestToken> best;  // the same, of a greedy sequence
};

/// A row to bet on, which somebody else keeps; none where p is null.
struct DistributionAt {
  const Distribution* p = nullptr;
  double slack = 0;
};

class Replayer {
 public:
  Replayer(const Header& header, const Target& target, Report& report)
      : header_(header), target_(target), report_(report), random_(header.seed.value_or(0)),
        evidence_(header.vocabulary, target.slack, header.coin_bits),
        of_lossy_(header.vocabulary, target.slack, header.coin_bits) {}

  void take(const Event& event);

  void finish();

  /// What was seen of chance, findings or not.
  void tell();

 private:
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
  void add_finding(const Finding& finding);
  /// A field that is there and that nobody could look at.
  void unread(const char* field, const std::string& why);

  void open(const Opening& opening);

  /// The target, in the class of equal bits that the sequence was computed in, or to hold it to with slack.
  void hold_to_target(Sequence& sequence);

  /// The first such, so that there is one sentence however many there are.
  const std::string& foreign(const std::string& numerics);

  static bool is_our_order(const std::vector<std::string>& order);

  // Coins.

  std::uint64_t below(const Key& key, std::uint64_t bound);

  bool fresh(const Sequence& sequence, std::int64_t position) const { return position >= sequence.fresh_from; }

  /// A coin that is only stated. `decides`: with another one the text might be another.
  void bet_on_coin(Sequence& sequence, std::int64_t position, Stream stream, double coin, bool decides = true);

  static Stream stream_of(Purpose purpose);

  /// The coin of a key, where the trace says which generator and seed.
  void expect_coin(Sequence& sequence, std::int64_t position, Purpose purpose, std::uint64_t bound,
                   std::uint64_t coin);

  /// A draw by interval: the coin falls on the token; no coin only where one token has everything.
  void expect_interval(const char* check, const Draw& draw);
  void expect_draw(const char* check, Sequence& sequence, std::int64_t position, Purpose purpose, const Draw& draw);

  void expect_hit(const char* check, const Hit& hit, const Draw& draw);

  /// A draw from real weights; no coin only where one token has everything.
  void expect_real_draw(const char* check, const RealWeights& row, const std::optional<double>& coin, Token token);

  // Rows.

  /// The target's row after the text. The sequences' caches together have no more positions than the longest text of
  /// one could take: those that were read longest ago are given back.
  const PlainRow& read(Sequence& sequence);

  /// The row after the text, which ends in the first `row` tokens of the round: computed where it can be, else as the
  /// trace has it.
  KnownRow row_after(Sequence& sequence, const Step& step, std::size_t row);

  void expect_own(const std::string& which, const Step& step, std::size_t row, const PlainRow& plain,
                  KnownRow& known);

  /// A row of other numerics lies no further from the target's own than was granted.
  void expect_near(const std::string& which, Sequence& sequence, KnownRow& known);

  /// What the sequence declares of its sampling shows in a row that is stated.
  void expect_declared(const Sequence& sequence, const Step& step, std::size_t row);

  // Rounds.

  void judge(const Step& step);

  /// The rest of such a round means nothing; after a token that is none, no row of the target does.
  void report_faults(Sequence& sequence, const Step& step);

  /// Tokens only: what the target alone decides can still be said.
  void replay_tokens(Sequence& sequence, const Step& step);

  /// A token of the round and the law it should come from. One choice is no bet: there the token is proved, or proves
  /// the fault. Nor is a number that was bet on before: what it says again is no further evidence, however often.
  /// q: what a draft token for it was drawn from.
  void bet(Sequence& sequence, const Step& step, std::size_t row, const KnownRow& known,
           const DistributionAt& q);

  /// Of other numerics: another token than the target's best may be theirs, where it lies near enough.
  void judge_greedy(const BestToken& best, Token token, std::int64_t position);

  // Log-probabilities that were told.

  /// Those of some tokens, as a law of these and of one token more, the vocabulary's size, for all others.
  std::optional<RoundedDistribution> distribution_of_top(const Sequence& sequence, const Step& step, std::size_t row) const;
  Token place_in(const Distribution& top, Token token) const;

  void hold_logprobs(const Sequence& sequence, const Step& step, std::size_t row, const KnownRow& known);

  /// The token that plain decoding has to say: of one choice, or with a coin that is known and shared.
  std::optional<Token> token_of(const Distribution& p, const Sequence& sequence, std::int64_t position);

  // Draft tokens.

  void judge_draft_tokens(Sequence& sequence, const Step& step);

  void name_what_is_unread(const Sequence& sequence, const Step& step);

  void count_depth(std::size_t depth, bool accepted, const Distribution& p, const Distribution& q);

  /// The keys of a round are those of its coins. A draft may ask for more than its draft tokens were drawn with; by matching
  /// it may draw with what numbers it likes, those of the target included.
  void expect_keys(const KeysAsked& stated);
  void keys_unknown(Purpose purpose) { keys_unknown_[static_cast<std::size_t>(purpose)] = true; }

  /// Emitted is what stands and the token after it, cut only where the text has to end.
  void expect_conserved(Sequence& sequence, const Step& step);

  /// Every draft token was drawn from its q.
  void expect_drafted(Sequence& sequence, const Step& step);

  /// A draft token that is judged is drawn afresh; one after the one that fell may be drawn again with the same number.
  void bet_on_draft(const Sequence& sequence, const Step& step, std::size_t j);

  /// False when it is not said how the draft token was drawn from its q.
  bool drafted_from_integers(Sequence& sequence, const Step& step, std::size_t j);

  bool drafted_from_reals(Sequence& sequence, const Step& step, std::size_t j, bool decides);

  static std::optional<std::uint64_t> whole(const std::optional<Quantity>& coin);

  /// A stated probability is that of the row, but for rounding.
  void expect_stated(const char* check, Token token, double of_row, double stated);

  void judge_row(Sequence& sequence, const Step& step, std::size_t row, const KnownRow& known);

  void judge_best(const Sequence& sequence, const Step& step, std::size_t row, const std::optional<Distribution>& p);

  void judge_match(Sequence& sequence, const Step& step, std::size_t row, const std::optional<Distribution>& p);

  std::string undrawn_next() const;

  /// The coin of the token after the draft tokens, where weights are reals; false where it is not said.
  bool bet_on_next(Sequence& sequence, const Step& step, std::int64_t position);

  /// The target's own draw after the draft tokens.
  void judge_next(Sequence& sequence, const Step& step, const char* check, std::int64_t position,
                  const std::optional<Distribution>& p);

  void judge_ratio(Sequence& sequence, const Step& step, std::size_t row, const KnownRow& known);

  /// Whether the draft token stands is a matter of chance that p and q have named; where coins are computed again, of none.
  void bet_on_acceptance(const Sequence& sequence, const Step& step, std::size_t row, const KnownRow& known);

  /// Real numbers: only what rounding cannot turn is a fault.
  void judge_reals(Sequence& sequence, const Step& step, std::size_t row);

  /// What the draft token was drawn from, where all of it is said: as a row, or as the one token that has everything.
  std::optional<Distribution> draft_row(const Step& step, std::size_t row) const;

  void judge_residual(Sequence& sequence, const Step& step, std::size_t row, std::int64_t position,
                      const std::optional<Distribution>& p);

  void count(Sequence& sequence, const Step& step);

  // Ends.

  void end(const Ending& ending);

  /// A text ends with a stop token, with its budget, or as nothing here can tell: by a text, a tool call, a grammar.
  void expect_ended(Sequence& sequence, const Ending& ending);

  void reconcile(const Sequence& sequence, const Statistics& stated);

  const Header& header_;
  const Target& target_;
  Report& report_;
  PhiloxSource random_;
  Evidence evidence_;
  Evidence of_lossy_;             // tokens of rules that are declared lossy: told, and no alarm
  std::optional<std::string> foreign_;  // numerics
  bool coins_stated_ = false;     // some decided, and none could compute them again
  long unknown_ = 0;              // tokens of which no p is known
  long loose_ = 0;                // tokens of which the slack leaves too much open
  long not_bet_ = 0;              // tokens drawn with numbers that others were drawn with
  UsedNumbers numbers_;
  std::size_t found_before_ = 0;  // findings before this round
  std::map<std::int64_t, Sequence> sequences_;  // open ones
  std::vector<PlainReader*> readers_;  // of those, with a cache; the one read last is the last
  Judging rule_ = Judging::rejection;       // of this round
  KeysAsked keys_;                              // of this round
  bool keys_unknown_[4] = {};                   // by purpose: not every coin of this round is said
  long line_ = 0;
  std::int64_t id_ = 0;
  std::int64_t round_ = 0;
  std::int64_t position_ = 0;
};

}  // namespace draftproof::spectrace
