// SPDX-License-Identifier: MIT
#include "oracle/spectrace/replay.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <memory>
#include <optional>
#include <utility>

#include "oracle/agreement.h"
#include "oracle/spectrace/draws.h"
#include "oracle/spectrace/evidence.h"
#include "oracle/spectrace/near_law.h"
#include "oracle/spectrace/plain_reader.h"
#include "oracle/spectrace/reader.h"
#include "oracle/spectrace/used_numbers.h"
#include "kernels/math64.h"
#include "ref/acceptance/chance.h"
#include "ref/formats/printable.h"

namespace draftproof::spectrace {
namespace {

std::string number(std::uint64_t value) { return std::to_string(value); }
std::string number(std::int64_t value) { return std::to_string(value); }
std::string number(Token value) { return std::to_string(value); }

std::string listed(const std::vector<Token>& tokens) {
  std::string text;
  for (const Token token : tokens) text += (text.empty() ? "" : ",") + number(token);
  return "[" + text + "]";
}

std::string shown(const KeysAsked& keys) {
  std::string text;
  for (const Purpose purpose : {Purpose::target, Purpose::draft, Purpose::accept, Purpose::residual}) {
    for (const std::int64_t position : keys.of(purpose)) {
      text += (text.empty() ? "" : ", ") + std::string(name_of(purpose)) + " " + number(position);
    }
  }
  return text.empty() ? "none" : text;
}

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
  Judgement rule() const { return opening.judged_by.rule; }
  bool greedy() const { return rule() == Judgement::greedy || opening.sampling.greedy(); }
};

struct TooManyFindings {};

/// What is known of the target's row after a text: of these at most one from the target, and one as stated.
struct KnownRow {
  std::optional<Distribution> p;  // exact: of the target or as stated
  std::optional<RealLaw> reals;   // as stated
  std::optional<NearLaw> near;    // of the target, where the sequence was computed in other numerics
  std::optional<BestToken> best;  // the same, of a greedy sequence
};

/// From this much slack on a row says too little to bet on it.
constexpr double slack_max = 0.25;

/// Of integer coins: below fewer they are no fine grain of [0, 1).
constexpr std::uint64_t coin_bound_min = std::uint64_t{1} << 24;

class Replay {
 public:
  Replay(const Header& header, const Target& target, Report& report)
      : header_(header), target_(target), report_(report), chance_(header.seed.value_or(0)),
        evidence_(header.vocabulary, target.slack, header.coin_bits),
        of_lossy_(header.vocabulary, target.slack, header.coin_bits) {}

  void take(const Event& event) {
    line_ = event.line;
    if (const auto* opening = std::get_if<Opening>(&event.what)) open(*opening);
    if (const auto* step = std::get_if<Step>(&event.what)) judge(*step);
    if (const auto* ending = std::get_if<Ending>(&event.what)) end(*ending);
  }

  void finish() {
    if (!sequences_.empty()) {
      const std::size_t more = sequences_.size() - 1;
      report_.unproved.insert("sequence " + number(sequences_.begin()->first) + " has no end line" +
                              (more > 0 ? ", nor have " + number(std::uint64_t{more}) + " others" : "") +
                              ": the run was broken off");
    }
    const RareEvents& rounding = evidence_.rounding();
    report_.examined.reals = rounding.observed();
    report_.examined.in_band = rounding.happened();
    report_.examined.band_mass = rounding.expected();
    if (rounding.observed() > 0) {
      expect(
          !evidence_.too_many_within_rounding(), "band",
          [&] { return "about " + std::to_string(rounding.expected()) + " decisions lie within rounding"; },
          [&] { return number(std::int64_t{rounding.happened()}) + " of them"; });
    }
    if (rounding.expected() * 100 > static_cast<double>(rounding.observed())) {
      report_.unproved.insert("rounding leaves more than one decision in a hundred open; "
                              "weights of a finer dtype say more");
    }
    tell();
  }

  /// What was seen of chance, findings or not.
  void tell() {
    if (coins_stated_) {
      report_.unsaid.insert(
          header_.generator.empty()
              ? "coins are as the trace states them: it names no generator (field rng) to compute them again with"
              : "coins of '" + printable(header_.generator) + "' cannot be computed again from the seed");
    }
    const EProcess& tokens = evidence_.tokens().tokens() > 0 ? evidence_.tokens() : of_lossy_.tokens();
    if (tokens.tokens() > 0) {
      const bool lossy = &tokens == &of_lossy_.tokens();
      report_.law = {tokens.tokens(),   Evidence::alpha_of_one,
                     target_.slack,     tokens.e_value(),
                     tokens.alarm(),    lossy, tokens.smallest_deviation(),
                     tokens.suspect(),  tokens.describe(),
                     (lossy ? of_lossy_ : evidence_).curve().points()};
    }
    report_.games = evidence_.others();
    if (report_.unsaid.empty()) return;
    const auto count = [](long many, const char* things) { return std::to_string(many) + " " + things; };
    if (unknown_ > 0) {
      report_.unproved.insert("of " + count(unknown_, "tokens p is not known, so that their law cannot stand in for "
                                                      "what is not said") +
                              (target_.vocabulary == 0 ? "; give --target, or rows P" : ""));
    } else if (loose_ > 0) {
      report_.unproved.insert("of " + count(loose_, "tokens the slack leaves nearly every law open: ") +
                              "a smaller one says more");
    } else if (not_bet_ > 0) {
      report_.unproved.insert(count(not_bet_, "tokens were drawn with the random numbers of an earlier sequence, which "
                                              "has the same key: their law cannot stand in for what is not said"));
    } else if (tokens.tokens() > 0 && tokens.smallest_deviation() >= 1) {
      const auto missing = tokens.tokens_until(1);
      report_.unproved.insert(count(tokens.tokens(), "tokens show no deviation however large; ") +
                              (missing ? count(*missing, "more would begin to")
                                       : "with so much slack no number of them does"));
    }
  }

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
  void add_finding(const Finding& finding) {
    report_.findings.push_back(finding);
    if (report_.findings.size() == Report::findings_max) throw TooManyFindings();
  }
  /// A field that is there and that nobody could look at.
  void unread(const char* field, const std::string& why) {
    report_.unread.insert("field " + std::string(field) + " is not looked at: " + why);
  }

  void open(const Opening& opening) {
    ++report_.examined.sequences;
    Sequence sequence;
    sequence.opening = opening;
    sequence.text = opening.prompt;
    if (header_.seed) sequence.fresh_from = numbers_.begin(opening.key);
    if (sequence.rule() == Judgement::lossy) {
      report_.lossy = true;
      report_.unproved.insert("the rule '" + printable(opening.judged_by.loss) +
                              "' is declared lossy: it does not promise the target's law");
    }
    if (target_.vocabulary > 0) hold_to_target(sequence);
    sequences_.emplace(opening.sequence, std::move(sequence));
  }

  /// The target, in the class of equal bits that the sequence was computed in, or to hold it to with slack.
  void hold_to_target(Sequence& sequence) {
    const Opening& opening = sequence.opening;
    const bool own_order = !opening.order || is_our_order(*opening.order);
    if (header_.total == Distribution::total && own_order) sequence.target = target_.computing_in(opening.numerics);
    Sampling sampling = opening.sampling;
    if (sequence.greedy()) sampling.temperature = 0;
    if (!sequence.target) {
      sequence.foreign = true;
      const bool granted = target_.slack > 0 || (target_.tie > 0 && sequence.greedy());
      if (granted && target_.computing_anyhow) sequence.target = target_.computing_anyhow();
      const std::string why =
          header_.total == 0 ? "p are reals, and the target's own are integers"
          : header_.total != Distribution::total ? "W is not 2^52, of which the target's own rows are made"
          : !own_order ? "the samplers were applied in an order that is not ours"
          : opening.numerics.empty() ? "the trace does not say in which numerics p were computed (field numerics)"
                                     : "p were computed with the numerics '" + foreign(opening.numerics) +
                                           "', which cannot be had here";
      (granted ? report_.unsaid : report_.unproved)
          .insert(why + ": they are not held to the target's bits" +
                  (granted ? "" : sequence.greedy() ? "; tokens are, with --slack or --tie" : "; tokens are, with --slack"));
      const Sampling& s = opening.sampling;
      const bool cuts = s.top_k > 0 || (s.top_p > 0 && s.top_p < 1) || s.min_p > 0;
      if (granted && !sequence.greedy() && !opening.order && (cuts || s.penalises())) {
        report_.assumed.insert("penalties, temperature, top-k, top-p, min-p were applied in this order (field order)");
      }
    }
    if (sequence.target) sequence.plain = std::make_unique<PlainReader>(*sequence.target, sampling);
  }

  /// The first such, so that there is one sentence however many there are.
  const std::string& foreign(const std::string& numerics) {
    if (!foreign_) foreign_ = printable(numerics);
    return *foreign_;
  }

  static bool is_our_order(const std::vector<std::string>& order) {
    auto place = our_order().begin();
    for (const std::string& name : order) {
      place = std::find(place, our_order().end(), name);
      if (place == our_order().end()) return false;
    }
    return true;
  }

  // Coins.

  std::uint64_t below(const Key& key, std::uint64_t bound) {
    ++report_.examined.coins;
    return chance_.below(key, bound);
  }

  bool fresh(const Sequence& sequence, std::int64_t position) const { return position >= sequence.fresh_from; }

  /// A coin that is only stated. `decides`: with another one the text might be another.
  void bet_on_coin(Sequence& sequence, std::int64_t position, Stream stream, double coin, bool decides = true) {
    coins_stated_ = coins_stated_ || decides;
    if (!std::exchange(sequence.coins_begun, true) && !numbers_.first_coin(sequence.opening.key, coin)) {
      sequence.fresh_from = UsedNumbers::none_is_fresh;
    }
    if (fresh(sequence, position)) evidence_.coin(stream, coin);
  }

  static Stream stream_of(Purpose purpose) {
    switch (purpose) {
      case Purpose::draft: return Stream::draft;
      case Purpose::accept: return Stream::accept;
      default: return Stream::target;
    }
  }

  /// The coin of a key, where the trace says which generator and seed.
  void expect_coin(Sequence& sequence, std::int64_t position, Purpose purpose, std::uint64_t bound,
                   std::uint64_t coin) {
    keys_.add(purpose, position);
    if (bound == 0) return;
    if (!header_.coins_follow()) {
      if (bound >= coin_bound_min) {
        bet_on_coin(sequence, position, stream_of(purpose), static_cast<double>(coin) / static_cast<double>(bound));
      }
      coins_stated_ = true;
      return;
    }
    const Key key{sequence.opening.key, static_cast<std::int32_t>(position), purpose};
    const std::uint64_t own = below(key, bound);
    expect(
        own == coin, "coin",
        [&] {
          return "key (" + number(key.sequence) + ", " + number(key.position) + ", " + name_of(purpose) + ") below " +
                 number(bound) + " gives " + number(own);
        },
        [&] { return "coin " + number(coin); });
  }

  /// A draw by interval: the coin falls on the token; no coin only where one token has everything.
  void expect_interval(const char* check, const Draw& draw) {
    ++report_.examined.draws;
    if (!draw.coin) {
      expect(
          draw.weight == draw.bound, check,
          [&] { return "a coin is asked, as token " + number(draw.token) + " has not all the weight"; },
          [] { return std::string("no coin"); });
      return;
    }
    expect(
        *draw.coin >= draw.before && *draw.coin - draw.before < draw.weight, check,
        [&] { return "coin " + number(*draw.coin) + " falls on another token"; },
        [&] {
          return "token " + number(draw.token) + ", which has [" + number(draw.before) + ", " +
                 number(draw.before + draw.weight) + ")";
        });
  }
  void expect_draw(const char* check, Sequence& sequence, std::int64_t position, Purpose purpose, const Draw& draw) {
    if (draw.coin) expect_coin(sequence, position, purpose, draw.bound, *draw.coin);
    expect_interval(check, draw);
  }

  void expect_hit(const char* check, const Hit& hit, const Draw& draw) {
    expect_equal(check, "token " + number(hit.token) + " has the weight", hit.weight, draw.weight);
    expect_equal(check, "the weight before token " + number(hit.token) + " is", hit.before, draw.before);
  }

  /// A draw from real weights; no coin only where one token has everything.
  void expect_real_draw(const char* check, const RealWeights& row, const std::optional<double>& coin, Token token) {
    ++report_.examined.draws;
    if (!coin || row.is_point()) {
      expect(
          row.is_point() && row.has(token), check,
          [&] { return row.is_point() ? "the one token that can be drawn" : std::string("a coin is asked"); },
          [&] { return (row.is_point() ? "" : "no coin for ") + ("token " + number(token)); });
      return;
    }
    const Fall fall = row.of(*coin, token);
    evidence_.within_rounding(row.blurred(header_.unit), fall == Fall::within_rounding);
    expect(
        fall != Fall::elsewhere, check, [&] { return "coin " + std::to_string(*coin) + " falls on another token"; },
        [&] { return "token " + number(token); });
  }

  // Rows.

  /// The target's row after the text. The sequences' caches together have no more positions than the longest text of
  /// one could take: those that were read longest ago are given back.
  const PlainRow& read(Sequence& sequence) {
    const PlainRow& row = sequence.plain->after(sequence.text);
    std::erase(readers_, sequence.plain.get());
    readers_.push_back(sequence.plain.get());
    std::size_t positions = 0;
    for (const PlainReader* const reader : readers_) positions += reader->capacity();
    while (readers_.size() > 1 && positions > static_cast<std::size_t>(sequence.target->context())) {
      positions -= readers_.front()->capacity();
      readers_.front()->forget();
      readers_.erase(readers_.begin());
    }
    return row;
  }

  /// The row after the text, which ends in the first `row` tokens of the round: computed where it can be, else as the
  /// trace has it.
  KnownRow row_after(Sequence& sequence, const Step& step, std::size_t row) {
    KnownRow known;
    if (row < step.target_rows.size()) known.p = step.target_rows[row];
    if (row < step.target_reals.size()) {
      known.reals = real_law(step.target_reals[row].tokens, step.target_reals[row].weights, header_.unit);
    }
    if (row < std::max(step.target_rows.size(), step.target_reals.size())) expect_declared(sequence, step, row);
    if (sequence.plain) {
      const std::vector<Token>& text = sequence.text;
      const int context = sequence.target->context();
      if (text.size() > static_cast<std::size_t>(context)) {
        expect(
            false, "position", [&] { return "the target has " + number(context) + " positions"; },
            [&] { return number(static_cast<std::int64_t>(text.size())) + " tokens before a row"; });
        return known;
      }
      ++report_.examined.rows;
      const PlainRow& plain = read(sequence);
      const std::string which = "row " + number(static_cast<std::int64_t>(row)) + " of the target";
      if (sequence.foreign) expect_near(which, sequence, known);
      else expect_own(which, step, row, plain, known);
    }
    if (known.p && row < step.targets.size()) {
      const Fingerprint print = known.p->fingerprint();
      expect(
          step.targets[row] == print, "p_row",
          [&] { return "row " + number(static_cast<std::int64_t>(row)) + " of p has the fingerprint " + print.hex(); },
          [&] { return step.targets[row].hex(); });
    }
    return known;
  }

  void expect_own(const std::string& which, const Step& step, std::size_t row, const PlainRow& plain,
                  KnownRow& known) {
    if (row < step.logits.size()) {
      expect(
          step.logits[row] == plain.logits, "p_row", [&] { return which + " has logits " + plain.logits.hex(); },
          [&] { return step.logits[row].hex(); });
    }
    if (known.p) {
      expect(
          *known.p == plain.distribution, "p_row", [&] { return which + " has other weights"; },
          [&] { return "P[" + number(static_cast<std::int64_t>(row)) + "]"; });
    }
    known.p = plain.distribution;
  }

  /// A row of other numerics lies no further from the target's own than was granted.
  void expect_near(const std::string& which, Sequence& sequence, KnownRow& known) {
    const Sampling& sampling = sequence.opening.sampling;
    const auto logits = sequence.plain->logits();
    if (sequence.greedy()) {
      known.best.emplace(logits, sampling, sequence.text);
      return;
    }
    known.near = near_law(logits, sampling, sequence.opening.order.value_or(our_order()), sequence.text, target_.slack);
    if (!known.near) {
      report_.unproved.insert("the order of samplers names one that is not known here, or in a place that is not: "
                              "tokens are not held to the target");
      return;
    }
    if (!known.p && !known.reals) return;
    const double rounding = known.reals ? known.reals->slack : 0;
    const double apart = static_cast<double>(Distribution::total - overlap(known.p ? *known.p : known.reals->law,
                                                                           known.near->p)) /
                         static_cast<double>(Distribution::total);
    report_.furthest_row = std::max(report_.furthest_row.value_or(0), apart);
    expect(
        apart <= known.near->slack + rounding, "p_row",
        [&] {
          return fmt::format("P is at most {:g} away from {} in total variation", known.near->slack + rounding, which);
        },
        [&] { return fmt::format("{:g}", apart); });
  }

  /// What the sequence declares of its sampling shows in a row that is stated.
  void expect_declared(const Sequence& sequence, const Step& step, std::size_t row) {
    const Sampling& s = sequence.opening.sampling;
    const RealRow* const reals = row < step.target_reals.size() ? &step.target_reals[row] : nullptr;
    RealRow stated;
    if (reals == nullptr) {
      const Distribution& whole = step.target_rows[row];
      stated.tokens = whole.tokens();
      for (const std::uint64_t weight : whole.weights()) stated.weights.push_back(static_cast<double>(weight));
    } else {
      stated = *reals;
    }
    const std::string which = "row " + number(static_cast<std::int64_t>(row)) + " of p ";
    const auto tokens = [&] { return std::to_string(stated.tokens.size()) + " tokens"; };
    std::vector<double> sizes = stated.weights;
    std::sort(sizes.begin(), sizes.end(), std::greater<>());
    const double fine = 1 + 4 * header_.unit;  // within rounding they are equal
    if (s.greedy()) {
      expect(
          sizes.size() == 1, "declared", [&] { return which + "has one token, as the temperature is 0"; }, tokens);
    } else if (s.top_k > 0) {
      const auto above = std::count_if(sizes.begin(), sizes.end(), [&](double size) { return size > sizes.back() * fine; });
      expect(
          sizes.size() <= static_cast<std::size_t>(s.top_k) || above < s.top_k, "declared",
          [&] { return which + "has at most " + number(s.top_k) + " tokens, and others only as likely as the last"; },
          tokens);
    }
    if (row >= step.best.size() || s.penalises()) return;
    const Best& best = step.best[row];
    const auto is_of_size = [&](Token token, double size) { return stated.weight(token) * fine >= size; };
    expect(
        is_of_size(best.first, sizes[0]) && (sizes.size() < 2 || is_of_size(best.second, sizes[1])), "declared",
        [&] { return which + "has its likeliest tokens first in top"; },
        [&] { return "tokens " + number(best.first) + ", " + number(best.second); });
  }

  // Rounds.

  void judge(const Step& step) {
    Sequence& sequence = sequences_.at(step.sequence);
    rule_ = sequence.rule();
    if (sequence.cut) add_finding(*std::exchange(sequence.cut, std::nullopt));
    id_ = step.sequence;
    round_ = step.round;
    position_ = static_cast<std::int64_t>(sequence.text.size());
    ++report_.examined.rounds;
    report_.examined.judged_rounds += step.judged ? 1 : 0;
    expect_equal("position", "the text decides position", position_, step.position);
    expect(
        !sequence.stopped(), "termination",
        [&] { return "the text ended with stop token " + number(sequence.text.back()); },
        [] { return std::string("another round"); });
    keys_ = {};
    std::fill(std::begin(keys_unknown_), std::end(keys_unknown_), false);
    found_before_ = report_.findings.size();
    if (!step.faults.empty()) {
      report_faults(sequence, step);
    } else if (step.judged) {
      judge_guesses(sequence, step);
    } else {
      sequence.all_judged = false;
      replay_tokens(sequence, step);
    }
    for (std::size_t i = 0; i + 1 < step.emitted.size(); ++i) {
      expect(
          !sequence.stops_at(step.emitted[i]), "termination",
          [&] { return "the text ends with stop token " + number(step.emitted[i]); },
          [&] { return "emitted " + listed(step.emitted); });
    }
    ++sequence.counts.rounds;
    sequence.text.insert(sequence.text.end(), step.emitted.begin(), step.emitted.end());
    report_.examined.tokens += static_cast<std::int64_t>(step.emitted.size());
    if (const auto& budget = sequence.opening.budget) {
      expect(
          sequence.emitted() <= *budget, "budget", [&] { return "at most " + number(*budget) + " tokens"; },
          [&] { return number(sequence.emitted()) + " tokens"; });
    }
  }

  /// The rest of such a round means nothing; after a token that is none, no row of the target does.
  void report_faults(Sequence& sequence, const Step& step) {
    for (const Fault& fault : step.faults) {
      expect(
          false, fault.check,
          [&] {
            return fault.field + (fault.check == std::string_view("token") ? " is a token of the vocabulary"
                                                                           : " is a number it can be");
          },
          [&] { return printable(fault.observed); });
    }
    sequence.all_judged = false;
    std::erase(readers_, sequence.plain.get());
    sequence.plain.reset();
  }

  /// Tokens only: what the target alone decides can still be said.
  void replay_tokens(Sequence& sequence, const Step& step) {
    for (std::size_t i = 0; i < step.emitted.size(); ++i) {
      const Token token = step.emitted[i];
      const auto position = static_cast<std::int64_t>(sequence.text.size());
      const KnownRow row = row_after(sequence, step, i);
      if (const auto own = row.p ? token_of(*row.p, sequence, position) : std::nullopt) {
        ++report_.examined.draws;
        expect_equal("own_draw", "at position " + number(position) + " plain decoding says", *own, token);
      } else {
        report_.unsaid.insert("rounds without d: what was guessed and how it was judged is not said");
      }
      hold_logprobs(sequence, step, i, row);
      bet(sequence, step, i, row, std::nullopt);
      sequence.text.push_back(token);
    }
    sequence.text.resize(static_cast<std::size_t>(position_));
  }

  /// A token of the round and the law it should come from. One choice is no bet: there the token is proved, or proves
  /// the fault. Nor is a number that was bet on before: what it says again is no further evidence, however often.
  /// q: what a guess for it was drawn from.
  void bet(Sequence& sequence, const Step& step, std::size_t row, const KnownRow& known,
           const std::optional<RealLaw>& q) {
    const Token token = step.emitted[row];
    const std::int64_t position = position_ + static_cast<std::int64_t>(row);
    if (known.best) return judge_greedy(*known.best, token, position);
    std::optional<RealLaw> stated;
    // Of greedy tokens a row that is no point is not their law.
    const auto is_law = [&](const Distribution& p) { return rule_ != Judgement::greedy || p.is_point(); };
    if (known.p && is_law(*known.p)) stated = RealLaw{*known.p, 0};
    else if (known.reals && is_law(known.reals->law)) stated = known.reals;
    else if (!known.near) stated = law_of_top(sequence, step, row);
    if (!stated && !known.near) {
      ++unknown_;
      return;
    }
    RealLaw law = stated ? *stated : RealLaw{known.near->p, known.near->slack};
    // Rows of another program, which stand in for a target.
    const bool of_reference = stated && target_.vocabulary == 0 && target_.slack > 0;
    if (of_reference) law.slack += target_.slack;
    // A token that was judged against a guess is off by the rounding of q, too (oracle/real_law.h).
    if (known.reals && row < step.guesses.size()) law.slack += (q ? q->slack : known.reals->slack) + 4 * header_.unit;
    const Token said = stated && !known.p && !known.reals ? place_in(law.law, token) : token;
    if (!of_reference && rule_ != Judgement::lossy && report_.findings.size() == found_before_) {
      expect(
          stated ? law.law.weight(said) > 0 : known.near->allows(said), "law",
          [&] {
            return stated ? "p at position " + number(position) + " has nothing for token " + number(token)
                          : fmt::format("at position {} no law within {:g} of the target's says token {}", position,
                                        target_.slack, token);
          },
          [&] { return "token " + number(token); });
    }
    if (law.law.is_point() && stated && !of_reference) return;
    if (law.slack >= slack_max) {
      ++loose_;
    } else if (!fresh(sequence, position)) {
      ++not_bet_;
    } else if (law.law.is_point()) {
      evidence_.token_of_a_point(law.slack, law.law.weight(said) == 0);
    } else {
      // Where a guess is drawn with the number that draws the token, whether it is made at all may hang on that number;
      // so a q that is there is no news from before the token.
      const Distribution* const before = rule_ == Judgement::matching || !q ? nullptr : &q->law;
      (rule_ == Judgement::lossy ? of_lossy_ : evidence_).token(law, before, said, sequence.text, sequence.rejected);
    }
  }

  /// Of other numerics: another token than the target's best may be theirs, where it lies near enough.
  void judge_greedy(const BestToken& best, Token token, std::int64_t position) {
    GreedyTokens& greedy = report_.greedy;
    ++greedy.tokens;
    const double gap = best.gap(token);
    const double apart = best.apart(token);
    const bool tie = gap <= target_.tie || apart <= 2 * target_.slack;
    if (token != best.token()) {
      ++greedy.not_best;
      greedy.gap = std::max(greedy.gap, gap);
      greedy.apart = std::max(greedy.apart, apart);
    }
    expect(
        tie || rule_ == Judgement::lossy, "best",
        [&] {
          return fmt::format("at position {} the target's best token is {}", position, best.token());
        },
        [&] {
          return fmt::format("token {}, {:.4g} below it in logits, {:.4g} in probability: no near tie", token, gap, apart);
        });
  }

  // Log-probabilities that were told.

  /// Those of some tokens, as a law of these and of one token more, the vocabulary's size, for all others.
  std::optional<RealLaw> law_of_top(const Sequence& sequence, const Step& step, std::size_t row) const {
    if (row >= step.top_logprobs.size() || step.top_logprobs[row].tokens.empty()) return std::nullopt;
    const Sampling& s = sequence.opening.sampling;
    const bool is_law = sequence.opening.logprobs_of_law ||
                        (s.temperature == 1 && s.top_k <= 0 && !(s.top_p > 0 && s.top_p < 1) && s.min_p <= 0 &&
                         !s.penalises());
    if (!is_law) return std::nullopt;
    RealRow row_of_top;
    double sum = 0;
    for (std::size_t i = 0; i < step.top_logprobs[row].tokens.size(); ++i) {
      const double p = exp64(step.top_logprobs[row].weights[i]);
      if (p <= 0) continue;
      row_of_top.tokens.push_back(step.top_logprobs[row].tokens[i]);
      row_of_top.weights.push_back(p);
      sum += p;
    }
    const double rounding = 16 * header_.unit;
    if (row_of_top.tokens.empty() || sum > 1 + rounding * static_cast<double>(row_of_top.tokens.size())) {
      return std::nullopt;  // hold_logprobs says so
    }
    if (1 - sum > rounding) {
      row_of_top.tokens.push_back(header_.vocabulary);
      row_of_top.weights.push_back(1 - sum);
    }
    RealLaw law = real_law(row_of_top.tokens, row_of_top.weights, header_.unit);
    law.slack += rounding * static_cast<double>(row_of_top.tokens.size());
    return law;
  }
  Token place_in(const Distribution& top, Token token) const {
    return top.weight(token) > 0 ? token : header_.vocabulary;
  }

  void hold_logprobs(const Sequence& sequence, const Step& step, std::size_t row, const KnownRow& known) {
    const RealRow* const top = row < step.top_logprobs.size() ? &step.top_logprobs[row] : nullptr;
    const bool told = row < step.logprobs.size();
    if (top == nullptr && !told) return;
    const double unit = 16 * header_.unit;
    if (top != nullptr) {
      double sum = 0;
      for (const double log : top->weights) sum += exp64(log);
      expect(
          sum <= 1 + unit * static_cast<double>(top->weights.size() + 1), "log_probability",
          [] { return std::string("probabilities add up to at most 1"); }, [&] { return std::to_string(sum); });
    }
    const auto hold = [&](Token token, double log, double own, double slack, const char* to) {
      const double apart = std::fabs(exp64(log) - exp64(own));
      if (slack > 0) report_.furthest_logprob = std::max(report_.furthest_logprob.value_or(0), apart);
      expect(
          apart <= slack + unit * exp64(own) * std::max(1.0, -own) + 0x1p-60, "log_probability",
          [&] { return fmt::format("token {} has the log-probability {:.6g} {}", token, own, to); },
          [&] { return fmt::format("{:.6g}", log); });
    };
    bool held = false;
    const auto hold_all = [&](const auto& own_of, double slack, const char* to) {
      held = true;
      if (told) hold(step.emitted[row], step.logprobs[row], own_of(step.emitted[row]), slack, to);
      for (std::size_t i = 0; top != nullptr && i < top->tokens.size(); ++i) {
        hold(top->tokens[i], top->weights[i], own_of(top->tokens[i]), slack, to);
      }
    };
    const Distribution* const law = known.p ? &*known.p : known.reals ? &known.reals->law : nullptr;
    if (sequence.opening.logprobs_of_law && law != nullptr) {
      const auto of_law = [&](Token token) {
        return log64(static_cast<double>(law->weight(token)) / static_cast<double>(Distribution::total));
      };
      hold_all(of_law, 0, "in its row");
    } else if (!sequence.opening.logprobs_of_law && sequence.plain &&
               sequence.text.size() <= static_cast<std::size_t>(sequence.target->context())) {
      const auto logits = sequence.plain->logits();
      hold_all([&](Token token) { return log_probability(logits, token); }, sequence.foreign ? target_.slack : 0,
               "by the target");
    }
    if (told && top != nullptr && std::binary_search(top->tokens.begin(), top->tokens.end(), step.emitted[row])) {
      held = true;
      hold(step.emitted[row], step.logprobs[row], top->weight(step.emitted[row]), 0, "in top_lp");
    }
    if (!held && told) unread("lp", "there is no row to hold log-probabilities to");
    if (!held && top != nullptr && !law_of_top(sequence, step, row)) {
      unread("top_lp", "there is no row to hold log-probabilities to, and they are not of the law tokens are drawn from");
    }
  }

  /// The token that plain decoding has to say: of one choice, or with a coin that is known and shared.
  std::optional<Token> token_of(const Distribution& p, const Sequence& sequence, std::int64_t position) {
    if (p.is_point()) return p.tokens().front();
    if (rule_ != Judgement::matching || !header_.coins_follow()) return std::nullopt;
    const Key key{sequence.opening.key, static_cast<std::int32_t>(position), Purpose::target};
    return Weights(p).at(below(key, Distribution::total)).token;
  }

  // Guesses.

  void judge_guesses(Sequence& sequence, const Step& step) {
    const auto guesses = static_cast<std::int64_t>(step.guesses.size());
    const auto accepted = static_cast<std::size_t>(step.accepted);
    const bool refused = step.accepted < guesses;
    if (rule_ != Judgement::lossy) {
      const Last last = rule_ == Judgement::greedy     ? Last::greedy
                        : !refused                     ? Last::bonus
                        : rule_ == Judgement::matching ? Last::own
                                                       : Last::residual;
      expect(
          step.last == last, "kind",
          [&] {
            return number(step.accepted) + " of " + number(guesses) + " guesses stand, so the last token is " +
                   name_of(last);
          },
          [&] { return std::string(name_of(step.last)); });
    }
    if (const auto& verification = sequence.opening.verification) {
      const bool batched = *verification == Verification::batched;
      expect_equal("width", "rows of the target's pass are", batched ? guesses + 1 : step.accepted + std::int64_t{1},
                   std::int64_t{step.width});
    }
    if (const auto& most = sequence.opening.draft_max) {
      expect(
          guesses <= *most, "draft_length", [&] { return "at most " + number(*most) + " guesses"; },
          [&] { return number(guesses) + " guesses"; });
    }
    name_what_is_unread(sequence, step);
    expect_conserved(sequence, step);
    expect_drafted(sequence, step);

    for (std::size_t row = 0; row <= accepted; ++row) {
      const KnownRow known = row_after(sequence, step, row);
      judge_row(sequence, step, row, known);
      std::optional<RealLaw> q;
      if (row < step.draft_rows.size()) q = RealLaw{step.draft_rows[row], 0};
      if (row < step.draft_reals.size()) {
        q = real_law(step.draft_reals[row].tokens, step.draft_reals[row].weights, header_.unit);
      }
      if (row < step.emitted.size()) {
        hold_logprobs(sequence, step, row, known);
        bet(sequence, step, row, known, q);
      }
      const Distribution* const p = known.p ? &*known.p : known.reals ? &known.reals->law : nullptr;
      if (q && p) count_depth(row, row < accepted, *p, q->law);
      if (row < accepted) sequence.text.push_back(step.guesses[row]);
    }
    sequence.text.resize(static_cast<std::size_t>(position_));
    if (step.keys) expect_keys(*step.keys);
    if (refused) sequence.rejected = step.guesses[accepted];
    count(sequence, step);
  }

  void name_what_is_unread(const Sequence& sequence, const Step& step) {
    const bool reals = header_.total == 0;
    if (!step.logits.empty() && (!sequence.plain || sequence.foreign)) {
      unread("h", "logits are at hand only of a target that computes in the numerics of the trace");
    }
    if (!step.targets.empty() && reals) unread("ph", "fingerprints are of integer weights");
    else if (!step.targets.empty() && step.target_rows.empty() && (!sequence.plain || sequence.foreign)) {
      unread("ph", "there is no row to compare it with (--target, or rows P)");
    }
    if (!step.drafts.empty() && reals) unread("qh", "fingerprints are of integer weights");
    else if (!step.drafts.empty() && step.draft_rows.empty()) unread("qh", "there is no row Q to compare it with");
    const bool rows = !step.target_rows.empty() || !step.target_reals.empty();
    if (!step.best.empty() && rule_ != Judgement::greedy && !rows) {
      unread("top", "there is no row P to compare it with");
    }
    if (!step.best.empty() && rows && rule_ != Judgement::greedy && sequence.opening.sampling.penalises()) {
      unread("top", "penalties may change the order of tokens");
    }
    const bool by_one = rule_ == Judgement::matching || rule_ == Judgement::rejection;
    const char* const together = "by this rule it is not known what it decides";
    if (step.coins && !by_one) unread("u", together);
    if (step.next && !by_one) unread("y", together);
    if (step.next_coin && !by_one) unread("ur", together);
    if (step.keys && !(by_one && header_.coins_follow())) {
      unread("rc", "keys are compared where coins are computed again, from generator and seed");
    }
  }

  void count_depth(std::size_t depth, bool stood, const Distribution& p, const Distribution& q) {
    if (report_.depths.size() <= depth) report_.depths.resize(depth + 1);
    Depth& sum = report_.depths[depth];
    ++sum.judged;
    sum.stood += stood ? 1 : 0;
    const bool by_draw = rule_ == Judgement::matching;
    sum.expected += static_cast<double>(by_draw ? agreement(p, q) : overlap(p, q)) /
                    static_cast<double>(Distribution::total);
  }

  /// The keys of a round are those of its coins. A draft may ask for more than its guesses were drawn with; by matching
  /// it may draw with what numbers it likes, those of the target included.
  void expect_keys(const KeysAsked& stated) {
    const bool by_one = rule_ == Judgement::matching || rule_ == Judgement::rejection;
    if (!header_.coins_follow() || !by_one) return;
    const bool matching = rule_ == Judgement::matching;
    KeysAsked held;
    for (const Purpose purpose : {Purpose::target, Purpose::draft, Purpose::accept, Purpose::residual}) {
      if (keys_unknown_[static_cast<std::size_t>(purpose)] || (matching && purpose == Purpose::draft)) {
        held.of(purpose) = keys_.of(purpose);
        continue;
      }
      held.of(purpose) = stated.of(purpose);
      const bool more_is_legal = purpose == Purpose::draft || (matching && purpose == Purpose::target);
      if (!more_is_legal) continue;
      const auto& asked = keys_.of(purpose);
      std::erase_if(held.of(purpose), [&](std::int64_t position) {
        return !std::binary_search(asked.begin(), asked.end(), position);
      });
    }
    expect(
        held == keys_, "keys", [&] { return "the coins have the keys " + shown(keys_); },
        [&] { return shown(stated); });
  }
  void keys_unknown(Purpose purpose) { keys_unknown_[static_cast<std::size_t>(purpose)] = true; }

  /// Emitted is what stands and the token after it, cut only where the text has to end.
  void expect_conserved(Sequence& sequence, const Step& step) {
    std::vector<Token> whole(step.guesses.begin(), step.guesses.begin() + step.accepted);
    const bool cut = step.emitted.size() <= whole.size();
    whole.push_back(step.next ? step.next->token : step.emitted.back());
    if (cut) {
      const bool stopped = sequence.stops_at(step.emitted.back());
      const auto emitted = sequence.emitted() + static_cast<std::int64_t>(step.emitted.size());
      const bool full = sequence.opening.budget && emitted >= *sequence.opening.budget;
      if (!stopped && !full) {
        sequence.cut = Finding{"conservation", line_,     id_, round_, position_, "what stands is emitted: " + listed(whole),
                               listed(step.emitted)};
      }
      whole.resize(step.emitted.size());
    }
    expect(
        whole == step.emitted, "conservation",
        [&] { return "the guesses that stand and the token after them: " + listed(whole); },
        [&] { return listed(step.emitted); });
  }

  /// Every guess was drawn from its q.
  void expect_drafted(Sequence& sequence, const Step& step) {
    // Else any guess will do.
    const bool matters = rule_ == Judgement::rejection || rule_ == Judgement::block;
    for (std::size_t j = 0; j < step.guesses.size(); ++j) {
      const bool judged = rule_ == Judgement::block || j <= static_cast<std::size_t>(step.accepted);
      if (matters && judged) bet_on_draft(sequence, step, j);
      const bool drawn = step.q && (header_.total == 0 ? drafted_from_reals(sequence, step, j, matters && judged)
                                                       : drafted_from_integers(sequence, step, j));
      if (drawn) continue;
      keys_unknown(Purpose::draft);
      if (matters) report_.unsaid.insert("guesses do not say how they were drawn from q");
    }
    if (step.draft_coins && !matters && header_.total == 0) {
      unread("qc", "by this rule a guess may be drawn with any numbers");
    }
  }

  /// A guess that is judged is drawn afresh; one after the one that fell may be drawn again with the same number.
  void bet_on_draft(const Sequence& sequence, const Step& step, std::size_t j) {
    if (!fresh(sequence, position_ + static_cast<std::int64_t>(j))) return;
    if (rule_ == Judgement::rejection && header_.coins_follow() && step.draft_coins) return;  // computed again
    if (j < step.draft_rows.size()) evidence_.draft_token({step.draft_rows[j], 0}, step.guesses[j]);
    if (j >= step.draft_reals.size()) return;
    const RealRow& row = step.draft_reals[j];
    evidence_.draft_token(real_law(row.tokens, row.weights, header_.unit), step.guesses[j]);
  }

  /// False when it is not said how the guess was drawn from its q.
  bool drafted_from_integers(Sequence& sequence, const Step& step, std::size_t j) {
    const std::int64_t position = position_ + static_cast<std::int64_t>(j);
    const Token guess = step.guesses[j];
    const std::uint64_t q = (*step.q)[j].whole;
    if (j < step.draft_rows.size()) {
      const Fingerprint print = step.draft_rows[j].fingerprint();
      expect(
          j >= step.drafts.size() || step.drafts[j] == print, "q_row",
          [&] { return "the q of guess " + number(guess) + " has the fingerprint " + print.hex(); },
          [&] { return step.drafts[j].hex(); });
      const Hit hit = Weights(step.draft_rows[j]).of(guess);
      expect_equal("q_row", "guess " + number(guess) + " has in Q the weight", hit.weight, q);
      if (step.draft_before) expect_equal("q_row", "the weight before it is", hit.before, (*step.draft_before)[j]);
    }
    if (!expect(
            q > 0, "draft_draw", [&] { return "guess " + number(guess) + " has a weight in the q it is drawn from"; },
            [] { return std::string("q 0"); })) {
      return true;
    }
    if (!step.draft_coins || !step.draft_before) return q == header_.total;
    const Draw draw{guess, whole((*step.draft_coins)[j]), header_.total, (*step.draft_before)[j], q, {}, {}};
    expect_interval("draft_draw", draw);
    // By another rule a guess may be drawn with any numbers; one that is not judged decides nothing, and its number may
    // be stated again.
    const bool judged = j <= static_cast<std::size_t>(step.accepted);
    if (!draw.coin || rule_ != Judgement::rejection || !(header_.coins_follow() || judged)) return true;
    expect_coin(sequence, position, Purpose::draft, draw.bound, *draw.coin);
    return true;
  }

  bool drafted_from_reals(Sequence& sequence, const Step& step, std::size_t j, bool decides) {
    const double q = (*step.q)[j].real;
    const Token guess = step.guesses[j];
    if (!expect(
            q > 0, "draft_draw", [&] { return "guess " + number(guess) + " has a weight in the q it is drawn from"; },
            [] { return std::string("q 0"); })) {
      return true;
    }
    const auto* const coin = step.draft_coins ? &(*step.draft_coins)[j] : nullptr;
    if (coin != nullptr && *coin && decides) {
      bet_on_coin(sequence, position_ + static_cast<std::int64_t>(j), Stream::draft, (*coin)->real, q < 1);
    }
    if (j >= step.draft_reals.size()) return q == 1;
    expect_stated("q_row", guess, step.draft_reals[j].weight(guess), q);
    if (coin == nullptr) return q == 1;
    const RealWeights row(step.draft_reals[j], header_.unit);
    expect_real_draw("draft_draw", row, *coin ? std::optional((*coin)->real) : std::nullopt, guess);
    return true;
  }

  static std::optional<std::uint64_t> whole(const std::optional<Amount>& coin) {
    return coin ? std::optional(coin->whole) : std::nullopt;
  }

  /// A stated probability is that of the row, but for rounding.
  void expect_stated(const char* check, Token token, double of_row, double stated) {
    expect(
        std::fabs(of_row - stated) <= 4 * header_.unit * std::max(of_row, stated), check,
        [&] { return "token " + number(token) + " has in the row " + std::to_string(of_row); },
        [&] { return std::to_string(stated); });
  }

  void judge_row(Sequence& sequence, const Step& step, std::size_t row, const KnownRow& known) {
    const bool guessed = row < step.guesses.size();
    if (guessed) ++report_.examined.guesses;
    if (guessed && known.p && step.p && row < step.p->size()) {
      expect_equal("p_row", "p of guess " + number(step.guesses[row]) + " is", known.p->weight(step.guesses[row]),
                   (*step.p)[row].whole);
    }
    if (guessed && step.p && row < step.p->size() && row < step.target_reals.size()) {
      expect_stated("p_row", step.guesses[row], step.target_reals[row].weight(step.guesses[row]), (*step.p)[row].real);
    }
    switch (rule_) {
      case Judgement::greedy: judge_best(sequence, step, row, known.p); break;
      case Judgement::matching: judge_match(sequence, step, row, known.p); break;
      case Judgement::rejection: judge_ratio(sequence, step, row, known); break;
      case Judgement::block:
        report_.unsaid.insert("block verification judges guesses together: which of them stand is not replayed");
        break;
      case Judgement::lossy: break;
    }
  }

  void judge_best(const Sequence& sequence, const Step& step, std::size_t row, const std::optional<Distribution>& p) {
    std::optional<Token> best;
    if (p && p->is_point()) best = p->tokens().front();
    if (row < step.best.size()) {
      const Best& stated = step.best[row];
      expect(
          stated.first_logit >= stated.second_logit, "best", [] { return std::string("the best token comes first"); },
          [&] { return "token " + number(stated.second) + " has more than token " + number(stated.first); });
      if (best) expect_equal("best", "the best token is", *best, stated.first);
      if (!best) best = stated.first;
    }
    if (!best) {
      report_.unsaid.insert(sequence.foreign
                                ? "greedy rounds do not say which tokens are best in their own numerics (field top)"
                                : "greedy rounds do not say what the best tokens are; give the target");
      return;
    }
    const auto accepted = static_cast<std::size_t>(step.accepted);
    if (row < accepted) {
      expect_equal("acceptance", "a guess stands when it is the best token,", *best, step.guesses[row]);
      return;
    }
    ++report_.examined.draws;
    if (row < step.guesses.size()) {
      expect(
          step.guesses[row] != *best, "acceptance",
          [&] { return "guess " + number(*best) + " is the best and stands"; },
          [] { return std::string("it fell"); });
    }
    if (step.emitted.size() > accepted) {
      expect_equal("own_draw", "the best token is", *best, step.emitted.back());
    }
  }

  void judge_match(Sequence& sequence, const Step& step, std::size_t row, const std::optional<Distribution>& p) {
    const std::int64_t position = position_ + static_cast<std::int64_t>(row);
    const auto own = p ? token_of(*p, sequence, position) : std::nullopt;
    const auto accepted = static_cast<std::size_t>(step.accepted);
    if (row < accepted) {
      const Token guess = step.guesses[row];
      if (own) expect_equal("acceptance", "a guess stands when it is the target's own draw,", *own, guess);
      if (header_.total == 0 && step.coins) {
        const auto& coin = (*step.coins)[row];
        if (coin) bet_on_coin(sequence, position, Stream::target, coin->real);
        if (row < step.target_reals.size()) {
          expect_real_draw("acceptance", RealWeights(step.target_reals[row], header_.unit),
                           coin ? std::optional(coin->real) : std::nullopt, guess);
          return;
        }
      }
      if (!step.p || !step.coins || !step.before) {
        keys_unknown(Purpose::target);
        if (!own) report_.unsaid.insert("guesses that stand do not say with which coin the target drew them");
        return;
      }
      const auto& coin = (*step.coins)[row];
      const Draw draw{guess, whole(coin), header_.total, (*step.before)[row], (*step.p)[row].whole, {}, {}};
      expect_draw("acceptance", sequence, position, Purpose::target, draw);
      if (p) expect_hit("p_row", Weights(*p).of(guess), draw);
      return;
    }
    const bool cut = step.emitted.size() <= accepted;
    if (row < step.guesses.size() && (step.next || !cut)) {
      const Token next = step.next ? step.next->token : step.emitted.back();
      expect(
          next != step.guesses[row], "acceptance",
          [&] { return "guess " + number(next) + " is the target's own draw and stands"; },
          [] { return std::string("it fell"); });
    }
    judge_next(sequence, step, row < step.guesses.size() ? "own_draw" : "bonus", position, p);
  }

  std::string undrawn_next() const {
    return std::string("tokens after the guesses do not say how they were drawn (") +
           (header_.total > 0 ? "field y)" : "field ur, with rows P and Q)");
  }

  /// The coin of the token after the guesses, where weights are reals; false where it is not said.
  bool bet_on_next(Sequence& sequence, const Step& step, std::int64_t position) {
    if (!step.next_coin) return false;
    const bool cut = step.emitted.size() <= static_cast<std::size_t>(step.accepted);
    if (*step.next_coin && !cut) bet_on_coin(sequence, position, Stream::target, **step.next_coin);
    return true;
  }

  /// The target's own draw after the guesses.
  void judge_next(Sequence& sequence, const Step& step, const char* check, std::int64_t position,
                  const std::optional<Distribution>& p) {
    const auto accepted = static_cast<std::size_t>(step.accepted);
    if (bet_on_next(sequence, step, position) && accepted < step.target_reals.size()) {
      if (step.emitted.size() <= accepted) return;  // cut: it is not said
      expect_real_draw(check, RealWeights(step.target_reals[accepted], header_.unit), *step.next_coin,
                       step.emitted.back());
      return;
    }
    if (!step.next) {
      keys_unknown(Purpose::target);
      const auto own = p ? token_of(*p, sequence, position) : std::nullopt;
      if (!own) {
        report_.unsaid.insert(undrawn_next());
      } else if (step.emitted.size() > accepted) {
        ++report_.examined.draws;
        expect_equal(check, "the target's own draw is", *own, step.emitted.back());
      }
      return;
    }
    const Draw& draw = *step.next;
    expect_equal(check, "the target draws below", header_.total, draw.bound);
    expect(
        !draw.p && !draw.q, check, [] { return std::string("only a residual has p and q"); },
        [] { return std::string("p or q"); });
    expect_draw(check, sequence, position, Purpose::target, draw);
    if (p) expect_hit("p_row", Weights(*p).of(draw.token), draw);
  }

  void judge_ratio(Sequence& sequence, const Step& step, std::size_t row, const KnownRow& known) {
    const std::int64_t position = position_ + static_cast<std::int64_t>(row);
    const auto accepted = static_cast<std::size_t>(step.accepted);
    if (row == step.guesses.size()) return judge_next(sequence, step, "bonus", position, known.p);
    bet_on_acceptance(sequence, step, row, known);
    if (!step.p || !step.q || !step.coins) {
      keys_unknown(Purpose::accept);
      report_.unsaid.insert("guesses do not say with which p, q and coin they were judged");
    } else if (header_.total == 0) {
      judge_reals(sequence, step, row);
    } else {
      const std::uint64_t wanted = (*step.p)[row].whole;
      const std::uint64_t offered = (*step.q)[row].whole;
      const auto& coin = (*step.coins)[row];
      if (coin) expect_coin(sequence, position, Purpose::accept, offered, coin->whole);
      expect(
          coin || wanted >= offered || wanted == 0, "acceptance",
          [&] { return "a coin is asked, as p " + number(wanted) + " < q " + number(offered); },
          [] { return std::string("no coin"); });
      const bool stands = wanted >= offered || (coin && coin->whole < wanted);
      expect(
          stands == (row < accepted), "acceptance",
          [&] {
            return "guess " + number(step.guesses[row]) + " with p " + number(wanted) + ", q " + number(offered) +
                   (coin ? ", coin " + number(coin->whole) : "") + (stands ? " stands" : " falls");
          },
          [&] { return std::string(row < accepted ? "it stood" : "it fell"); });
    }
    if (row == accepted) judge_residual(sequence, step, row, position, known.p);
  }

  /// Whether the guess stands is a matter of chance that p and q have named; where coins are computed again, of none.
  void bet_on_acceptance(const Sequence& sequence, const Step& step, std::size_t row, const KnownRow& known) {
    if (header_.coins_follow() && step.coins) return;
    if (!fresh(sequence, position_ + static_cast<std::int64_t>(row))) return;
    const auto weight = [&](const std::optional<std::vector<Amount>>& stated, const Distribution* of_row) {
      if (stated && row < stated->size()) {
        return header_.total == 0 ? (*stated)[row].real
                                  : static_cast<double>((*stated)[row].whole) / static_cast<double>(header_.total);
      }
      return of_row == nullptr ? -1.0
                               : static_cast<double>(of_row->weight(step.guesses[row])) /
                                     static_cast<double>(Distribution::total);
    };
    const double p = weight(step.p, known.p ? &*known.p : known.reals ? &known.reals->law : nullptr);
    const Distribution* const q_row = row < step.draft_rows.size() ? &step.draft_rows[row] : nullptr;
    double q = weight(step.q, q_row);
    if (q < 0 && row < step.draft_reals.size()) q = step.draft_reals[row].weight(step.guesses[row]);
    if (p <= 0 || q <= p) return;
    evidence_.acceptance(p / q, row < static_cast<std::size_t>(step.accepted),
                         header_.total == 0 ? 8 * header_.unit : 0);
  }

  /// Real numbers: only what rounding cannot turn is a fault.
  void judge_reals(Sequence& sequence, const Step& step, std::size_t row) {
    const double wanted = (*step.p)[row].real;
    const double offered = (*step.q)[row].real;
    const auto& coin = (*step.coins)[row];
    const bool stood = row < static_cast<std::size_t>(step.accepted);
    const double reach = coin ? coin->real * offered : offered;
    const double wide = 4 * header_.unit;
    const bool near = std::fabs(reach - wanted) <= wide * std::max(wanted, reach) && wanted > 0;
    if (coin) {
      const bool decides = wanted > 0 && wanted < offered;
      bet_on_coin(sequence, position_ + static_cast<std::int64_t>(row), Stream::accept, coin->real, decides);
    }
    if (coin && offered > 0) {
      // The coins that lie so near, whatever the coin was; and coins lie apart.
      const double most = std::min(1.0, wanted / (1 - wide) / offered);
      const double least = std::min(1.0, wanted * (1 - wide) / offered);
      evidence_.within_rounding(std::min(1.0, most - least + header_.unit), near);
    }
    const std::string guess = "guess " + number(step.guesses[row]) + " with p " + std::to_string(wanted) + ", q " +
                              std::to_string(offered);
    const auto observed = [&] { return std::string(stood ? "it stood" : "it fell"); };
    if (!coin) {
      const bool reached = wanted >= offered || near;
      expect(
          wanted == 0 ? !stood : stood && reached, "acceptance",
          [&] {
            return guess + (wanted == 0 ? " falls, as p is 0"
                            : reached   ? " stands, as no coin is asked"
                                        : " is judged by a coin");
          },
          [&] { return observed() + " without a coin"; });
      return;
    }
    if (near) return;
    const bool stands = reach < wanted;
    expect(
        stands == stood, "acceptance",
        [&] { return guess + ", coin " + std::to_string(coin->real) + (stands ? " stands" : " falls"); }, observed);
  }

  /// What the guess was drawn from, where all of it is said: as a row, or as the one token that has everything.
  std::optional<Distribution> draft_row(const Step& step, std::size_t row) const {
    if (row < step.draft_rows.size()) return step.draft_rows[row];
    if (step.q && (*step.q)[row].whole == header_.total) return Distribution::point(step.guesses[row]);
    return std::nullopt;
  }

  void judge_residual(Sequence& sequence, const Step& step, std::size_t row, std::int64_t position,
                      const std::optional<Distribution>& p) {
    const Token guess = step.guesses[row];
    if (step.emitted.size() > row) {
      expect(
          step.emitted.back() != guess, "residual",
          [&] { return "a guess that fell has nothing left in max(p - q, 0)"; },
          [&] { return "token " + number(guess) + " again"; });
    }
    if (bet_on_next(sequence, step, position) && row < step.target_reals.size() && row < step.draft_reals.size()) {
      if (step.emitted.size() <= row) return;  // cut: it is not said
      expect_real_draw("residual", RealWeights(step.target_reals[row], step.draft_reals[row], header_.unit),
                       *step.next_coin, step.emitted.back());
      return;
    }
    if (!step.next) {
      keys_unknown(Purpose::residual);
      report_.unsaid.insert(undrawn_next());
      return;
    }
    const Draw& draw = *step.next;
    if (!expect(
            draw.p && draw.q, "residual", [] { return std::string("a residual draw says p and q of its token"); },
            [] { return std::string("one is missing"); })) {
      return;
    }
    expect_equal("residual", "max(p - q, 0) is", *draw.p > *draw.q ? *draw.p - *draw.q : 0, draw.weight);
    expect_draw("residual", sequence, position, Purpose::residual, draw);
    if (p) expect_equal("p_row", "p of token " + number(draw.token) + " is", p->weight(draw.token), *draw.p);
    const std::optional<Distribution> q = draft_row(step, row);
    if (!q) {
      report_.unsaid.insert(
          "residuals do not say the rows of q that they are taken from (field Q; --trace-rows writes it)");
      return;
    }
    expect_equal("q_row", "q of token " + number(draw.token) + " is", q->weight(draw.token), *draw.q);
    if (!p) return;
    const Weights residual(*p, *q);
    expect_equal("residual", "max(p - q, 0) adds up to", residual.sum(), draw.bound);
    expect_hit("residual", residual.of(draw.token), draw);
  }

  void count(Sequence& sequence, const Step& step) {
    const auto guesses = static_cast<int>(step.guesses.size());
    if (guesses == 0) return;
    const auto stood = static_cast<std::size_t>(step.accepted);
    if (report_.stood.size() <= stood) report_.stood.resize(stood + 1);
    ++report_.stood[stood];
    const int accepted = std::min(step.accepted, static_cast<int>(step.emitted.size()));
    Statistics& counts = sequence.counts;
    ++counts.iterations;
    counts.drafted += guesses;
    counts.accepted += accepted;
    ++(step.accepted == guesses ? counts.all_accepted : counts.mismatches);
    if (const auto& verification = sequence.opening.verification) {
      ++(*verification == Verification::batched ? counts.batched : counts.serial);
    }
    report_.examined.accepted += accepted;
  }

  // Ends.

  void end(const Ending& ending) {
    const auto found = sequences_.find(ending.sequence);
    Sequence& sequence = found->second;
    id_ = ending.sequence;
    round_ = sequence.counts.rounds;
    position_ = static_cast<std::int64_t>(sequence.text.size());
    expect_ended(sequence, ending);
    if (ending.count) expect_equal("count", "tokens emitted are", sequence.emitted(), *ending.count);
    if (ending.emitted) {
      const auto first = sequence.text.begin() + static_cast<std::ptrdiff_t>(sequence.opening.prompt.size());
      expect(
          std::equal(first, sequence.text.end(), ending.emitted->begin(), ending.emitted->end()), "conservation",
          [] { return std::string("the whole output is what the rounds emitted"); },
          [&] { return number(static_cast<std::int64_t>(ending.emitted->size())) + " other tokens"; });
    }
    if (ending.statistics) reconcile(sequence, *ending.statistics);
    if (header_.seed && header_.generator == our_generator && sequence.fresh_from != UsedNumbers::none_is_fresh) {
      numbers_.end(sequence.opening.key, std::max(position_, sequence.fresh_from));
    }
    std::erase(readers_, sequence.plain.get());
    sequences_.erase(found);
  }

  /// A text ends with a stop token, with its budget, or as nothing here can tell: by a text, a tool call, a grammar.
  void expect_ended(Sequence& sequence, const Ending& ending) {
    const auto& opening = sequence.opening;
    const bool full = opening.budget && sequence.emitted() >= *opening.budget;
    const bool unseen = !opening.stops || opening.stop_strings || !opening.stop_emitted;
    const bool cancelled = ending.reason == Finish::cancelled;
    const auto ended_by = [&](bool right, const std::string& why) {
      expect(
          right, "termination", [&] { return why; }, [&] { return "reason " + std::string(name_of(ending.reason)); });
    };
    std::string untold;
    if (!ending.other.empty()) {
      untold = "for reasons of the engine's own ('other:" + printable(ending.other) + "')";
    } else if (sequence.stopped()) {
      ended_by(ending.reason == Finish::stop, "the text ends with stop token " + number(sequence.text.back()));
    } else if (ending.reason == Finish::stop && unseen) {
      untold = !opening.stops           ? "by stop tokens that are not said (field stops)"
               : !opening.stop_emitted ? "by stop tokens that are not part of the text (field stop_emitted)"
                                        : "by a text, of which tokens say nothing (field stop_strings)";
    } else if (full) {
      ended_by(ending.reason == Finish::length || cancelled, "all of " + number(*opening.budget) + " tokens are there");
    } else {
      ended_by(cancelled || (ending.reason == Finish::length && !opening.budget),
               "there is neither a stop token at the end nor a budget used up");
    }
    if (sequence.cut && cancelled) untold = "within a round, as they were cancelled";
    if (!untold.empty()) {
      report_.unsaid.insert("that sequences had to end where they did is not proved: some end " + untold);
    } else if (sequence.cut) {
      add_finding(*sequence.cut);
    }
    sequence.cut.reset();
  }

  void reconcile(const Sequence& sequence, const Statistics& stated) {
    const Statistics& counts = sequence.counts;
    expect_equal("statistics", "rounds are", counts.rounds, stated.rounds);
    if (!sequence.all_judged) return;
    expect_equal("statistics", "iterations are", counts.iterations, stated.iterations);
    expect_equal("statistics", "drafted are", counts.drafted, stated.drafted);
    expect_equal("statistics", "accepted are", counts.accepted, stated.accepted);
    expect_equal("statistics", "mismatches are", counts.mismatches, stated.mismatches);
    expect_equal("statistics", "all accepted are", counts.all_accepted, stated.all_accepted);
    if (sequence.opening.verification) {
      expect_equal("statistics", "batched are", counts.batched, stated.batched);
      expect_equal("statistics", "serial are", counts.serial, stated.serial);
    } else {
      expect_equal("statistics", "batched and serial are", counts.iterations, stated.batched + stated.serial);
    }
  }

  const Header& header_;
  const Target& target_;
  Report& report_;
  SeededChance chance_;
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
  Judgement rule_ = Judgement::rejection;       // of this round
  KeysAsked keys_;                              // of this round
  bool keys_unknown_[4] = {};                   // by purpose: not every coin of this round is said
  long line_ = 0;
  std::int64_t id_ = 0;
  std::int64_t round_ = 0;
  std::int64_t position_ = 0;
};

}  // namespace

Verdict Report::verdict() const {
  if (!invalid.empty()) return Verdict::invalid_trace;
  if (!findings.empty()) return Verdict::bug_proven;
  if (examined.rounds == 0) return Verdict::vacuous;
  const bool alarm = std::any_of(games.begin(), games.end(), [](const Game& game) { return game.alarm; });
  if (alarm || (law && law->alarm && !law->of_lossy)) return Verdict::bug_stat;
  if (!unproved.empty()) return Verdict::undecided;
  if (!unsaid.empty()) return Verdict::pass_stat;
  // Tokens that each are plain decoding's prove whatever was guessed.
  return examined.guesses == 0 && examined.judged_rounds > 0 ? Verdict::vacuous : Verdict::pass_exact;
}

Report replay(const std::string& file, const Target& target) {
  Report report;
  report.file = file;
  report.target_given = target.vocabulary > 0;
  report.slack = target.slack;
  try {
    Reader reader(file);
    report.engine = reader.header().engine;
    report.rule = reader.header().judged_by ? reader.header().judged_by->name() : "by sequence";
    report.rows = reader.header().rows;
    if (report.target_given && target.vocabulary != reader.header().vocabulary) {
      reader.fail("vocab", "is " + number(reader.header().vocabulary) + ", but the target's vocabulary has " +
                               number(target.vocabulary) + " tokens");
    }
    const Header header = reader.header();
    if (header.weights.starts_with("sha256:") && target.weights && target.slack == 0) {
      if (const std::string own = target.weights(); own != header.weights) {
        reader.fail("weights", "is " + in_quotes(header.weights) + ", but the target here is '" + own +
                                   "': the trace was made with other weights; give the target it was made with");
      }
    }
    Replay replay(header, target, report);
    try {
      while (const auto event = reader.next()) replay.take(*event);
      replay.finish();
    } catch (const TooManyFindings&) {
      replay.tell();
    }
  } catch (const InvalidTrace& wrong) {
    report.invalid = wrong.what();
  }
  return report;
}

}  // namespace draftproof::spectrace
