// SPDX-License-Identifier: MIT
#include "oracle/spectrace/replay.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <memory>
#include <optional>
#include <utility>

#include "oracle/e_process.h"
#include "oracle/agreement.h"
#include "oracle/spectrace/plain_reader.h"
#include "oracle/spectrace/reader.h"
#include "ref/acceptance/chance.h"
#include "ref/formats/printable.h"

namespace draftproof::spectrace {
namespace {

constexpr double law_alpha = 1e-9;

/// Token and weight before it, of what a coin falls on.
struct Hit {
  Token token = 0;
  std::uint64_t before = 0;
  std::uint64_t weight = 0;
};

/// Integer weights by token, ascending: a row, or what one row has more than another.
struct Weights {
  std::vector<Token> tokens;
  std::vector<std::uint64_t> weights;

  explicit Weights(const Distribution& row) : tokens(row.tokens()), weights(row.weights()) {}
  Weights(const Distribution& p, const Distribution& q) {
    for (const Token token : p.tokens()) {
      if (p.weight(token) <= q.weight(token)) continue;
      tokens.push_back(token);
      weights.push_back(p.weight(token) - q.weight(token));
    }
  }
  std::uint64_t sum() const {
    std::uint64_t sum = 0;
    for (const std::uint64_t weight : weights) sum += weight;
    return sum;
  }
  Hit at(std::uint64_t coin) const {
    std::uint64_t before = 0;
    std::size_t i = 0;
    for (; coin - before >= weights[i]; ++i) before += weights[i];
    return {tokens[i], before, weights[i]};
  }
  Hit of(Token token) const {
    std::uint64_t before = 0;
    for (std::size_t i = 0; i < tokens.size(); ++i) {
      if (tokens[i] == token) return {token, before, weights[i]};
      if (tokens[i] > token) break;
      before += weights[i];
    }
    return {token, before, 0};
  }
};

/// Whether a coin falls on a token, where every edge between tokens is known but for rounding.
enum class Fall { on_it, within_rounding, elsewhere };

/// Real weights by token, ascending, as a draw walks through them: a row, or what one row has more than another. The
/// sum of i tokens of a row may be off by i rounding units of itself, however it is added up; of a difference, by four
/// units more of what it was taken from.
class RealWeights {
 public:
  RealWeights(const RealRow& row, double unit) {
    double sum = 0;
    for (std::size_t i = 0; i < row.tokens.size(); ++i) {
      sum += row.weights[i];
      add(row.tokens[i], sum, unit * static_cast<double>(i + 5) * sum);
    }
    scale(sum);
  }
  RealWeights(const RealRow& p, const RealRow& q, double unit) {
    double sum = 0;
    double taken_from = 0;
    for (std::size_t i = 0; i < p.tokens.size(); ++i) {
      const double of_q = q.weight(p.tokens[i]);
      taken_from += p.weights[i] + of_q;
      if (p.weights[i] <= of_q) continue;
      sum += p.weights[i] - of_q;
      add(p.tokens[i], sum, unit * (static_cast<double>(tokens_.size() + 5) * sum + 4 * taken_from));
    }
    scale(sum);
  }

  bool is_point() const noexcept { return tokens_.size() == 1; }
  bool has(Token token) const { return std::binary_search(tokens_.begin(), tokens_.end(), token); }

  Fall of(double coin, Token token) const {
    const auto place = std::lower_bound(tokens_.begin(), tokens_.end(), token);
    if (place == tokens_.end() || *place != token) return Fall::elsewhere;
    const auto i = static_cast<std::size_t>(place - tokens_.begin());
    const double above = i == 0 ? 1.0 : coin - ends_[i - 1];
    const double below = i + 1 == tokens_.size() ? 1.0 : ends_[i] - coin;
    const double blur_above = i == 0 ? 0 : blurs_[i - 1];
    if (above < -blur_above || below < -blurs_[i]) return Fall::elsewhere;
    return above > blur_above && (i + 1 == tokens_.size() || below > blurs_[i]) ? Fall::on_it : Fall::within_rounding;
  }

  /// How likely a coin is to fall so near to an edge; `unit` is the most that coins are apart.
  double blurred(double unit) const {
    double mass = 0;
    for (std::size_t i = 0; i + 1 < tokens_.size(); ++i) mass += 2 * blurs_[i] + unit;
    return std::min(mass, 1.0);
  }

 private:
  void add(Token token, double end, double blur) {
    tokens_.push_back(token);
    ends_.push_back(end);
    blurs_.push_back(blur);
  }
  void scale(double sum) {
    for (double& end : ends_) end /= sum;
    for (double& blur : blurs_) blur /= sum;
  }

  std::vector<Token> tokens_;
  std::vector<double> ends_;
  std::vector<double> blurs_;  // of ends
};

/// Evidence that more decisions lie within rounding than should. For coins that are what they should be, each is there
/// with the probability that is stated before it is seen, or a smaller one; then 2^(j n) exp(-(2^j - 1) sum of
/// probabilities) is a fair bet for every j, and so is the mean of those for j = 1 ... 20: above 10^9 with probability
/// 10^-9 at most, whenever one looks.
bool too_many_in_band(long in_band, double mass) {
  constexpr double log_of_2 = 0x1.62e42fefa39efp-1;
  constexpr double log_of_20_times_1e9 = 23.72;
  for (int j = 1; j <= 20; ++j) {
    const double log_wealth = j * log_of_2 * static_cast<double>(in_band) - ((1 << j) - 1) * mass;
    if (log_wealth >= log_of_20_times_1e9) return true;
  }
  return false;
}

/// Numbers that were seen, in memory that is bounded: runs of them, which is what engines number by. With too many runs
/// every further number counts as seen.
class Seen {
 public:
  static constexpr std::size_t runs_max = std::size_t{1} << 20;

  /// False when the number was seen, or may have been.
  bool add(std::int64_t number) {
    const auto after = runs_.upper_bound(number);
    const auto before = after == runs_.begin() ? runs_.end() : std::prev(after);
    if (before != runs_.end() && number < before->second) return false;
    const bool joins_before = before != runs_.end() && before->second == number;
    const bool joins_after = after != runs_.end() && after->first == number + 1;
    if (!joins_before && !joins_after && runs_.size() == runs_max) return false;
    const std::int64_t end = joins_after ? after->second : number + 1;
    if (joins_after) runs_.erase(after);
    if (joins_before) before->second = end;
    else runs_.emplace(number, end);
    return true;
  }

 private:
  std::map<std::int64_t, std::int64_t> runs_;  // [first, second)
};

/// Evidence over tokens, at most so many points of it whatever the number of tokens.
class Curve {
 public:
  void add(long tokens, double e_value) {
    last_ = {tokens, e_value};
    if (tokens % every_ != 0) return;
    if (points_.size() + 1 == LawFromTokens::points_max) {
      every_ *= 2;
      std::erase_if(points_, [&](const auto& point) { return point.first % every_ != 0; });
      if (tokens % every_ != 0) return;
    }
    points_.push_back(last_);
  }
  std::vector<std::pair<long, double>> points() const {
    std::vector<std::pair<long, double>> points = points_;
    if (points.empty() || points.back() != last_) points.push_back(last_);
    return points;
  }

 private:
  std::vector<std::pair<long, double>> points_;
  std::pair<long, double> last_ = {0, 1};
  long every_ = 1;
};

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
  std::vector<Token> text;         // prompt and what was emitted
  Statistics counts;
  bool all_judged = true;
  std::shared_ptr<Model> target;       // none: p is as the trace states it
  std::unique_ptr<PlainReader> plain;  // of the target
  bool foreign = false;                // its rows need not be the target's own
  bool numbers_again = false;          // it draws with the random numbers of an earlier one

  std::int64_t emitted() const { return static_cast<std::int64_t>(text.size() - opening.prompt.size()); }
  bool stops_at(Token token) const {
    const auto& stops = opening.stops;
    return std::find(stops.begin(), stops.end(), token) != stops.end();
  }
  bool stopped() const { return emitted() > 0 && stops_at(text.back()); }
};

struct TooManyFindings {};

/// What is known of the target's row after a text.
struct KnownRow {
  std::optional<Distribution> p;     // exact
  std::optional<Distribution> near;  // the target's own, where the sequence was computed in other numerics
};

class Replay {
 public:
  Replay(const Header& header, const Target& target, Report& report)
      : header_(header), target_(target), report_(report), chance_(header.seed.value_or(0)),
        law_({header.vocabulary, law_alpha, target.slack}) {}

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
    const Examined& examined = report_.examined;
    expect(
        !too_many_in_band(examined.in_band, examined.band_mass), "band",
        [&] { return "about " + std::to_string(examined.band_mass) + " decisions lie within rounding"; },
        [&] { return number(static_cast<std::int64_t>(examined.in_band)) + " of them"; });
    if (examined.band_mass * 100 > static_cast<double>(examined.reals)) {
      report_.unproved.insert("rounding leaves more than one decision in a hundred open; "
                              "weights of a finer dtype say more");
    }
    if (header_.rule == Judgement::lossy) {
      report_.lossy = true;
      report_.unproved.insert("the rule '" + printable(header_.loss) +
                              "' is declared lossy: it does not promise the target's law");
    }
    tell_law();
  }

  /// What was seen of the tokens' law, findings or not.
  void tell_law() {
    if (law_.tokens() > 0) {
      report_.law = {law_.tokens(),   law_alpha,
                     target_.slack,   law_.e_value(),
                     law_.alarm(),    law_.smallest_deviation(),
                     law_.suspect(),  law_.describe(),
                     curve_.points()};
    }
    if (report_.unsaid.empty() || report_.lossy) return;
    if (unknown_ > 0) {
      report_.unproved.insert("of " + number(static_cast<std::int64_t>(unknown_)) +
                              " tokens p is not known, so that their law cannot stand in for what is not said" +
                              (target_.vocabulary == 0 ? "; give --target, or rows P" : ""));
    } else if (not_bet_ > 0) {
      report_.unproved.insert(number(static_cast<std::int64_t>(not_bet_)) +
                              " tokens were drawn with the random numbers of an earlier sequence, which has the same "
                              "key: their law cannot stand in for what is not said");
    } else if (law_.tokens() > 0 && law_.smallest_deviation() >= 1) {
      const auto missing = law_.tokens_until(1);
      report_.unproved.insert(number(static_cast<std::int64_t>(law_.tokens())) +
                              " tokens show no deviation however large; " +
                              (missing ? number(static_cast<std::int64_t>(*missing)) + " more would begin to"
                                       : "with so much slack no number of them does"));
    }
  }

 private:
  bool expect(bool right, const char* check, const auto& expected, const auto& observed) {
    ++report_.looked[check];
    if (right) return true;
    report_.findings.push_back({check, line_, id_, round_, position_, expected(), observed()});
    if (report_.findings.size() == Report::findings_max) throw TooManyFindings();
    return false;
  }
  template <class Value>
  bool expect_equal(const char* check, const std::string& what, Value expected, Value observed) {
    return expect(
        expected == observed, check, [&] { return what + " " + number(expected); },
        [&] { return number(observed); });
  }

  /// The first such, so that there is one sentence however many there are.
  const std::string& foreign(const std::string& numerics) {
    if (!foreign_) foreign_ = printable(numerics);
    return *foreign_;
  }

  void open(const Opening& opening) {
    ++report_.examined.sequences;
    Sequence sequence;
    sequence.opening = opening;
    sequence.text = opening.prompt;
    sequence.numbers_again = header_.seed && !numbers_used_.add(opening.key);
    const bool given = target_.vocabulary > 0;
    if (given && header_.total == Distribution::total) sequence.target = target_.computing_in(opening.numerics);
    if (given && !sequence.target) {
      sequence.foreign = true;
      if (target_.slack > 0) sequence.target = target_.computing_anyhow();
      (target_.slack > 0 ? report_.unsaid : report_.unproved)
          .insert("p were computed with the numerics '" + foreign(opening.numerics) +
                  "', which cannot be had here: they are not held to the target" +
                  (target_.slack > 0 ? "" : "; tokens are, with --slack"));
    }
    Sampling sampling = opening.sampling;
    if (header_.rule == Judgement::greedy) sampling.temperature = 0;
    if (sequence.target) sequence.plain = std::make_unique<PlainReader>(*sequence.target, sampling);
    sequences_.emplace(opening.sequence, std::move(sequence));
  }

  std::uint64_t below(const Key& key, std::uint64_t bound) {
    ++report_.examined.coins;
    return chance_.below(key, bound);
  }

  /// The coin of a key, where the trace says which generator and seed.
  void expect_coin(const Sequence& sequence, std::int64_t position, Purpose purpose, std::uint64_t bound,
                   std::uint64_t coin) {
    keys_.add(purpose, position);
    if (!header_.coins_follow() || bound == 0) return;
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
  void expect_draw(const char* check, const Sequence& sequence, std::int64_t position, Purpose purpose,
                   const Draw& draw) {
    ++report_.examined.draws;
    if (!draw.coin) {
      expect(
          draw.weight == draw.bound, check,
          [&] { return "a coin is asked, as token " + number(draw.token) + " has not all the weight"; },
          [] { return std::string("no coin"); });
      return;
    }
    expect_coin(sequence, position, purpose, draw.bound, *draw.coin);
    expect(
        *draw.coin >= draw.before && *draw.coin - draw.before < draw.weight, check,
        [&] { return "coin " + number(*draw.coin) + " falls on another token"; },
        [&] {
          return "token " + number(draw.token) + ", which has [" + number(draw.before) + ", " +
                 number(draw.before + draw.weight) + ")";
        });
  }

  void expect_hit(const char* check, const Hit& hit, const Draw& draw) {
    expect_equal(check, "token " + number(hit.token) + " has the weight", hit.weight, draw.weight);
    expect_equal(check, "the weight before token " + number(hit.token) + " is", hit.before, draw.before);
  }

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

  /// A row of other numerics lies no further from the target's own than was granted.
  void expect_near(const std::string& which, const Distribution& p, const Distribution& own) {
    const auto apart = static_cast<double>(Distribution::total - overlap(p, own)) /
                       static_cast<double>(Distribution::total);
    expect(
        apart <= target_.slack, "p_row",
        [&] { return fmt::format("P is at most {:g} away from {} in total variation", target_.slack, which); },
        [&] { return fmt::format("{:g}", apart); });
  }

  /// The target's row after the text, which ends in `row` guesses: computed where it can be, else as the trace has it.
  KnownRow row_after(Sequence& sequence, const Step& step, std::size_t row) {
    const std::vector<Token>& text = sequence.text;
    KnownRow known;
    std::optional<Distribution>& p = known.p;
    if (row < step.target_rows.size()) p = step.target_rows[row];
    if (sequence.plain) {
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
      if (sequence.foreign) {
        known.near = plain.distribution;
        if (p) expect_near(which, *p, plain.distribution);
      }
      if (!sequence.foreign && row < step.logits.size()) {
        expect(
            step.logits[row] == plain.logits, "p_row", [&] { return which + " has logits " + plain.logits.hex(); },
            [&] { return step.logits[row].hex(); });
      }
      if (!sequence.foreign && p) {
        expect(
            *p == plain.distribution, "p_row", [&] { return which + " has other weights"; },
            [&] { return "P[" + number(static_cast<std::int64_t>(row)) + "]"; });
      }
      if (!sequence.foreign) p = plain.distribution;
    }
    if (p && row < step.targets.size()) {
      const Fingerprint print = p->fingerprint();
      expect(
          step.targets[row] == print, "p_row",
          [&] { return "row " + number(static_cast<std::int64_t>(row)) + " of p has the fingerprint " + print.hex(); },
          [&] { return step.targets[row].hex(); });
    }
    return known;
  }

  void judge(const Step& step) {
    Sequence& sequence = sequences_.at(step.sequence);
    id_ = step.sequence;
    round_ = step.round;
    position_ = static_cast<std::int64_t>(sequence.text.size());
    ++report_.examined.rounds;
    expect_equal("position", "the text decides position", position_, step.position);
    expect(
        !sequence.stopped(), "termination",
        [&] { return "the text ended with stop token " + number(sequence.text.back()); },
        [] { return std::string("another round"); });
    keys_ = {};
    found_before_ = report_.findings.size();
    if (step.judged) {
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

  /// Tokens only: what the target alone decides can still be said.
  void replay_tokens(Sequence& sequence, const Step& step) {
    for (const Token token : step.emitted) {
      const auto position = static_cast<std::int64_t>(sequence.text.size());
      const KnownRow row = row_after(sequence, step, 0);
      if (const auto own = row.p ? token_of(*row.p, sequence, position) : std::nullopt) {
        ++report_.examined.draws;
        expect_equal("own_draw", "at position " + number(position) + " plain decoding says", *own, token);
      } else {
        report_.unsaid.insert("rounds without d: what was guessed and how it was judged is not said");
      }
      bet(sequence, row, nullptr, token, position);
      sequence.text.push_back(token);
    }
    sequence.text.resize(static_cast<std::size_t>(position_));
  }

  /// A token and the law it should come from. One choice is no bet: there the token is proved, or proves the fault.
  /// Nor is a number that was bet on before: what it says again is no further evidence, however often.
  void bet(const Sequence& sequence, const KnownRow& row, const Distribution* q, Token token, std::int64_t position) {
    const bool exact = row.p.has_value();
    const std::optional<Distribution>& p = exact ? row.p : row.near;
    // Not the law: of greedy tokens a row that is no point; of other numerics a point, which may be another's there.
    if (!p || (exact ? header_.rule == Judgement::greedy && !p->is_point() : p->is_point())) {
      ++unknown_;
      return;
    }
    if (exact && header_.rule != Judgement::lossy && report_.findings.size() == found_before_) {
      expect(
          p->weight(token) > 0, "law",
          [&] { return "p at position " + number(position) + " has nothing for token " + number(token); },
          [&] { return "token " + number(token); });
    }
    if (p->is_point()) return;
    if (sequence.numbers_again) {
      ++not_bet_;
      return;
    }
    law_.observe(*p, q, token);
    curve_.add(law_.tokens(), law_.e_value());
  }

  /// The token that plain decoding has to say: of one choice, or with a coin that is known and shared.
  std::optional<Token> token_of(const Distribution& p, const Sequence& sequence, std::int64_t position) {
    if (p.is_point()) return p.tokens().front();
    if (header_.rule != Judgement::matching || !header_.coins_follow()) return std::nullopt;
    const Key key{sequence.opening.key, static_cast<std::int32_t>(position), Purpose::target};
    return Weights(p).at(below(key, Distribution::total)).token;
  }

  void judge_guesses(Sequence& sequence, const Step& step) {
    const auto guesses = static_cast<std::int64_t>(step.guesses.size());
    const auto accepted = static_cast<std::size_t>(step.accepted);
    const bool refused = step.accepted < guesses;
    const Last last = header_.rule == Judgement::greedy ? Last::greedy
                      : !refused                        ? Last::bonus
                      : header_.rule == Judgement::matching ? Last::own
                                                            : Last::residual;
    expect(
        step.last == last || header_.rule == Judgement::lossy, "kind",
        [&] {
          return number(step.accepted) + " of " + number(guesses) + " guesses stand, so the last token is " +
                 name_of(last);
        },
        [&] { return std::string(name_of(step.last)); });
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
    expect_conserved(sequence, step);
    expect_drafted(sequence, step);

    for (std::size_t row = 0; row <= accepted; ++row) {
      const KnownRow known = row_after(sequence, step, row);
      judge_row(sequence, step, row, known.p);
      const Distribution* const q = row < step.draft_rows.size() ? &step.draft_rows[row] : nullptr;
      if (row < step.emitted.size()) {
        // Where a guess is drawn with the number that draws the token, whether it is made at all may hang on that
        // number; so a q that is there is no news from before the token.
        const Distribution* const known_before = header_.rule == Judgement::matching ? nullptr : q;
        bet(sequence, known, known_before, step.emitted[row], position_ + static_cast<std::int64_t>(row));
      }
      if (q != nullptr && known.p) count_depth(row, row < accepted, *known.p, *q);
      if (row < accepted) sequence.text.push_back(step.guesses[row]);
    }
    sequence.text.resize(static_cast<std::size_t>(position_));
    if (step.keys) {
      expect(
          *step.keys == keys_, "keys", [&] { return "the coins have the keys " + shown(keys_); },
          [&] { return shown(*step.keys); });
    }
    count(sequence, step);
  }

  void count_depth(std::size_t depth, bool stood, const Distribution& p, const Distribution& q) {
    if (report_.depths.size() <= depth) report_.depths.resize(depth + 1);
    Depth& sum = report_.depths[depth];
    ++sum.judged;
    sum.stood += stood ? 1 : 0;
    const bool by_draw = header_.rule == Judgement::matching;
    sum.expected += static_cast<double>(by_draw ? agreement(p, q) : overlap(p, q)) /
                    static_cast<double>(Distribution::total);
  }

  /// Emitted is what stands and the token after it, cut only where the text has to end.
  void expect_conserved(const Sequence& sequence, const Step& step) {
    std::vector<Token> whole(step.guesses.begin(), step.guesses.begin() + step.accepted);
    const bool cut = step.emitted.size() <= whole.size();
    whole.push_back(step.next ? step.next->token : step.emitted.back());
    if (cut) {
      const bool stopped = sequence.stops_at(step.emitted.back());
      const auto emitted = sequence.emitted() + static_cast<std::int64_t>(step.emitted.size());
      const bool full = sequence.opening.budget && emitted >= *sequence.opening.budget;
      expect(
          stopped || full, "conservation", [&] { return "what stands is emitted: " + listed(whole); },
          [&] { return listed(step.emitted); });
      whole.resize(step.emitted.size());
    }
    expect(
        whole == step.emitted, "conservation",
        [&] { return "the guesses that stand and the token after them: " + listed(whole); },
        [&] { return listed(step.emitted); });
  }

  /// Every guess was drawn from its q.
  void expect_drafted(const Sequence& sequence, const Step& step) {
    if (step.guesses.empty()) return;
    // Else any guess will do.
    const bool matters = header_.rule == Judgement::rejection || header_.rule == Judgement::block;
    constexpr const char* undrawn = "guesses do not say how they were drawn from q";
    if (!step.q) {
      if (matters) report_.unsaid.insert(undrawn);
      return;
    }
    if (header_.total == 0) {
      for (std::size_t j = 0; j < step.guesses.size(); ++j) {
        if (!drafted_from_reals(step, j) && matters) report_.unsaid.insert(undrawn);
      }
      return;
    }
    const Purpose purpose = header_.rule == Judgement::matching ? Purpose::target : Purpose::draft;
    for (std::size_t j = 0; j < step.guesses.size(); ++j) {
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
        continue;
      }
      if (step.draft_coins && step.draft_before) {
        expect_draw("draft_draw", sequence, position, purpose,
                    {guess, whole((*step.draft_coins)[j]), header_.total, (*step.draft_before)[j], q, {}, {}});
      } else if (q < header_.total && matters) {
        report_.unsaid.insert(undrawn);
      }
    }
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
    ++report_.examined.reals;
    report_.examined.band_mass += row.blurred(header_.unit);
    const Fall fall = row.of(*coin, token);
    if (fall == Fall::within_rounding) ++report_.examined.in_band;
    expect(
        fall != Fall::elsewhere, check,
        [&] { return "coin " + std::to_string(*coin) + " falls on another token"; },
        [&] { return "token " + number(token); });
  }

  /// False when it is not said how the guess was drawn from its q.
  bool drafted_from_reals(const Step& step, std::size_t j) {
    const double q = (*step.q)[j].real;
    const Token guess = step.guesses[j];
    if (!expect(
            q > 0, "draft_draw", [&] { return "guess " + number(guess) + " has a weight in the q it is drawn from"; },
            [] { return std::string("q 0"); })) {
      return true;
    }
    if (j < step.draft_reals.size()) {
      expect_stated("q_row", guess, step.draft_reals[j].weight(guess), q);
      if (!step.draft_coins) return q == 1;
      const auto& coin = (*step.draft_coins)[j];
      const RealWeights row(step.draft_reals[j], header_.unit);
      expect_real_draw("draft_draw", row, coin ? std::optional(coin->real) : std::nullopt, guess);
      return true;
    }
    return q == 1;
  }

  void judge_row(Sequence& sequence, const Step& step, std::size_t row, const std::optional<Distribution>& p) {
    const bool guessed = row < step.guesses.size();
    if (guessed) ++report_.examined.guesses;
    if (guessed && p && step.p && row < step.p->size()) {
      expect_equal("p_row", "p of guess " + number(step.guesses[row]) + " is", p->weight(step.guesses[row]),
                   (*step.p)[row].whole);
    }
    if (guessed && step.p && row < step.p->size() && row < step.target_reals.size()) {
      expect_stated("p_row", step.guesses[row], step.target_reals[row].weight(step.guesses[row]), (*step.p)[row].real);
    }
    switch (header_.rule) {
      case Judgement::greedy: judge_best(step, row, p); break;
      case Judgement::matching: judge_match(sequence, step, row, p); break;
      case Judgement::rejection: judge_ratio(sequence, step, row, p); break;
      case Judgement::block:
        report_.unsaid.insert("block verification judges guesses together: which of them stand is not replayed");
        break;
      case Judgement::lossy: break;
    }
  }

  void judge_best(const Step& step, std::size_t row, const std::optional<Distribution>& p) {
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
      report_.unsaid.insert("greedy rounds do not say what the best tokens are; give the target");
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
      if (header_.total == 0 && step.coins && row < step.target_reals.size()) {
        const auto& coin = (*step.coins)[row];
        expect_real_draw("acceptance", RealWeights(step.target_reals[row], header_.unit),
                         coin ? std::optional(coin->real) : std::nullopt, guess);
        return;
      }
      if (!step.p || !step.coins || !step.before) {
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

  /// The target's own draw after the guesses.
  void judge_next(Sequence& sequence, const Step& step, const char* check, std::int64_t position,
                  const std::optional<Distribution>& p) {
    if (step.next_coin && static_cast<std::size_t>(step.accepted) < step.target_reals.size()) {
      if (step.emitted.size() <= static_cast<std::size_t>(step.accepted)) return;  // cut: it is not said
      const RealRow& row = step.target_reals[static_cast<std::size_t>(step.accepted)];
      expect_real_draw(check, RealWeights(row, header_.unit), *step.next_coin, step.emitted.back());
      return;
    }
    if (!step.next) {
      const auto own = p ? token_of(*p, sequence, position) : std::nullopt;
      if (!own) {
        report_.unsaid.insert(undrawn_next());
      } else if (step.emitted.size() > static_cast<std::size_t>(step.accepted)) {
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

  void judge_ratio(Sequence& sequence, const Step& step, std::size_t row, const std::optional<Distribution>& p) {
    const std::int64_t position = position_ + static_cast<std::int64_t>(row);
    const auto accepted = static_cast<std::size_t>(step.accepted);
    if (row == step.guesses.size()) return judge_next(sequence, step, "bonus", position, p);
    if (!step.p || !step.q || !step.coins) {
      report_.unsaid.insert("guesses do not say with which p, q and coin they were judged");
    } else if (header_.total == 0) {
      judge_reals(step, row);
    } else {
      const std::uint64_t wanted = (*step.p)[row].whole;
      const std::uint64_t offered = (*step.q)[row].whole;
      const auto& coin = (*step.coins)[row];
      if (coin) expect_coin(sequence, position, Purpose::accept, offered, coin->whole);
      expect(
          coin || wanted >= offered, "acceptance",
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
    if (row == accepted) judge_residual(sequence, step, row, position, p);
  }

  /// Real numbers: only what rounding cannot turn is a fault.
  void judge_reals(const Step& step, std::size_t row) {
    const double wanted = (*step.p)[row].real;
    const double offered = (*step.q)[row].real;
    const auto& coin = (*step.coins)[row];
    const bool stood = row < static_cast<std::size_t>(step.accepted);
    const double reach = coin ? coin->real * offered : offered;
    const double wide = 4 * header_.unit;
    const bool near = std::fabs(reach - wanted) <= wide * std::max(wanted, reach) && wanted > 0;
    if (coin && offered > 0) {
      // The coins that lie so near, whatever the coin was; and coins lie apart.
      const double most = std::min(1.0, wanted / (1 - wide) / offered);
      const double least = std::min(1.0, wanted * (1 - wide) / offered);
      ++report_.examined.reals;
      report_.examined.band_mass += std::min(1.0, most - least + header_.unit);
      report_.examined.in_band += near ? 1 : 0;
    }
    const std::string guess = "guess " + number(step.guesses[row]) + " with p " + std::to_string(wanted) + ", q " +
                              std::to_string(offered);
    const auto observed = [&] { return std::string(stood ? "it stood" : "it fell"); };
    if (!coin) {
      const bool reached = wanted >= offered || near;
      expect(
          stood && reached, "acceptance",
          [&] { return guess + (reached ? " stands, as no coin is asked" : " is judged by a coin"); },
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
    if (step.next_coin && row < step.target_reals.size() && row < step.draft_reals.size()) {
      if (step.emitted.size() <= row) return;  // cut: it is not said
      expect_real_draw("residual", RealWeights(step.target_reals[row], step.draft_reals[row], header_.unit),
                       *step.next_coin, step.emitted.back());
      return;
    }
    if (!step.next) {
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

  void end(const Ending& ending) {
    const auto found = sequences_.find(ending.sequence);
    const Sequence& sequence = found->second;
    id_ = ending.sequence;
    round_ = sequence.counts.rounds;
    position_ = static_cast<std::int64_t>(sequence.text.size());
    const auto& budget = sequence.opening.budget;
    const bool full = budget && sequence.emitted() >= *budget;
    const auto ended_by = [&](bool right, const std::string& why) {
      expect(
          right, "termination", [&] { return why; }, [&] { return "reason " + std::string(name_of(ending.reason)); });
    };
    if (sequence.stopped()) {
      ended_by(ending.reason == Finish::stop, "the text ends with stop token " + number(sequence.text.back()));
    } else if (full) {
      ended_by(ending.reason == Finish::length, "all of " + number(*budget) + " tokens are there");
    } else {
      const bool known = ending.reason == Finish::cancelled || (ending.reason == Finish::length && !budget);
      ended_by(known, "there is neither a stop token at the end nor a budget used up");
    }
    if (ending.count) expect_equal("count", "tokens emitted are", sequence.emitted(), *ending.count);
    if (ending.emitted) {
      const auto first = sequence.text.begin() + static_cast<std::ptrdiff_t>(sequence.opening.prompt.size());
      expect(
          std::equal(first, sequence.text.end(), ending.emitted->begin(), ending.emitted->end()), "conservation",
          [] { return std::string("the whole output is what the rounds emitted"); },
          [&] { return number(static_cast<std::int64_t>(ending.emitted->size())) + " other tokens"; });
    }
    if (ending.statistics) reconcile(sequence, *ending.statistics);
    std::erase(readers_, sequence.plain.get());
    sequences_.erase(found);
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
  EProcess law_;
  Curve curve_;
  std::optional<std::string> foreign_;  // numerics
  long unknown_ = 0;              // tokens of which no p is known
  long not_bet_ = 0;              // tokens drawn with numbers that others were drawn with
  Seen numbers_used_;             // keys of sequences, where a seed is named
  std::size_t found_before_ = 0;  // findings before this round
  std::map<std::int64_t, Sequence> sequences_;  // open ones
  std::vector<PlainReader*> readers_;  // of those, with a cache; the one read last is the last
  KeysAsked keys_;                              // of this round
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
  if (law && law->alarm && !lossy) return Verdict::bug_stat;
  if (!unproved.empty()) return Verdict::undecided;
  if (!unsaid.empty()) return Verdict::pass_stat;
  return examined.guesses == 0 ? Verdict::vacuous : Verdict::pass_exact;
}

Report replay(const std::string& file, const Target& target) {
  Report report;
  report.file = file;
  report.target_given = target.vocabulary > 0;
  try {
    Reader reader(file);
    report.engine = reader.header().engine;
    report.rule = name_of(reader.header().rule);
    report.rows = reader.header().rows;
    if (!reader.header().loss.empty()) report.rule += ":" + reader.header().loss;
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
    if (header.seed && !header.coins_follow()) {
      report.unsaid.insert("coins of '" + printable(header.generator) + "' cannot be computed again from the seed");
    }
    Replay replay(header, target, report);
    try {
      while (const auto event = reader.next()) replay.take(*event);
      replay.finish();
    } catch (const TooManyFindings&) {
      replay.tell_law();
    }
  } catch (const InvalidTrace& wrong) {
    report.invalid = wrong.what();
  }
  return report;
}

}  // namespace draftproof::spectrace
