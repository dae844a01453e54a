// SPDX-License-Identifier: MIT
#include "oracle/spectrace/replay.h"

#include <algorithm>
#include <cmath>
#include <memory>
#include <optional>
#include <utility>

#include "oracle/spectrace/plain_reader.h"
#include "oracle/spectrace/reader.h"
#include "ref/acceptance/chance.h"
#include "ref/formats/printable.h"

namespace draftproof::spectrace {
namespace {

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
  std::shared_ptr<Model> target;       // none: p is not held to it
  std::unique_ptr<PlainReader> plain;  // of the target

  std::int64_t emitted() const { return static_cast<std::int64_t>(text.size() - opening.prompt.size()); }
  bool stops_at(Token token) const {
    const auto& stops = opening.stops;
    return std::find(stops.begin(), stops.end(), token) != stops.end();
  }
  bool stopped() const { return emitted() > 0 && stops_at(text.back()); }
};

struct TooManyFindings {};

class Replay {
 public:
  Replay(const Header& header, const Target& target, Report& report)
      : header_(header), target_(target), report_(report), chance_(header.seed.value_or(0)) {}

  void take(const Event& event) {
    line_ = event.line;
    if (const auto* opening = std::get_if<Opening>(&event.what)) open(*opening);
    if (const auto* step = std::get_if<Step>(&event.what)) judge(*step);
    if (const auto* ending = std::get_if<Ending>(&event.what)) end(*ending);
  }

  void finish() {
    for (const auto& [id, sequence] : sequences_) {
      report_.unproved.insert("sequence " + number(id) + " has no end line: the run was broken off");
    }
  }

 private:
  bool expect(bool right, const char* check, const auto& expected, const auto& observed) {
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

  void open(const Opening& opening) {
    ++report_.examined.sequences;
    Sequence sequence;
    sequence.opening = opening;
    sequence.text = opening.prompt;
    const bool given = target_.vocabulary > 0;
    if (given && header_.total == Distribution::total) sequence.target = target_.computing_in(opening.numerics);
    if (sequence.target) {
      sequence.plain = std::make_unique<PlainReader>(*sequence.target, opening.sampling);
    } else if (given) {
      report_.unproved.insert("sequence " + number(opening.sequence) + " was computed with the numerics '" +
                              printable(opening.numerics) +
                              "', which cannot be had here: its p are not held to the target");
    }
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

  /// The target's row after the text, which ends in `row` guesses: computed where it can be, else as the trace has it.
  std::optional<Distribution> row_after(Sequence& sequence, const Step& step, std::size_t row) {
    const std::vector<Token>& text = sequence.text;
    std::optional<Distribution> p;
    if (row < step.target_rows.size()) p = step.target_rows[row];
    if (sequence.plain) {
      const int context = sequence.target->context();
      if (text.size() > static_cast<std::size_t>(context)) {
        expect(
            false, "position", [&] { return "the target has " + number(context) + " positions"; },
            [&] { return number(static_cast<std::int64_t>(text.size())) + " tokens before a row"; });
        return p;
      }
      ++report_.examined.rows;
      const PlainRow& plain = sequence.plain->after(text);
      const std::string which = "row " + number(static_cast<std::int64_t>(row)) + " of the target";
      if (row < step.logits.size()) {
        expect(
            step.logits[row] == plain.logits, "p_row", [&] { return which + " has logits " + plain.logits.hex(); },
            [&] { return step.logits[row].hex(); });
      }
      if (p) {
        expect(
            *p == plain.distribution, "p_row", [&] { return which + " has other weights"; },
            [&] { return "P[" + number(static_cast<std::int64_t>(row)) + "]"; });
      }
      p = plain.distribution;
    }
    if (p && row < step.targets.size()) {
      const Fingerprint print = p->fingerprint();
      expect(
          step.targets[row] == print, "p_row",
          [&] { return "row " + number(static_cast<std::int64_t>(row)) + " of p has the fingerprint " + print.hex(); },
          [&] { return step.targets[row].hex(); });
    }
    return p;
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
    if (!sequence.plain) {
      report_.unproved.insert("rounds without d: what was guessed and how it was judged is not said");
      return;
    }
    for (const Token token : step.emitted) {
      const auto position = static_cast<std::int64_t>(sequence.text.size());
      const auto p = row_after(sequence, step, 0);
      const auto own = p ? token_of(*p, sequence, position) : std::nullopt;
      if (!own) {
        report_.unproved.insert("rounds without d: what was guessed and how it was judged is not said");
        break;
      }
      ++report_.examined.draws;
      expect_equal("own_draw", "at position " + number(position) + " plain decoding says", *own, token);
      sequence.text.push_back(token);
    }
    sequence.text.resize(static_cast<std::size_t>(position_));
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
        step.last == last, "kind",
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
      const auto p = row_after(sequence, step, row);
      judge_row(sequence, step, row, p);
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
    const bool matters = header_.rule == Judgement::rejection;  // else any guess will do
    constexpr const char* unsaid = "guesses do not say how they were drawn from q";
    if (!step.q || header_.total == 0) {
      if (matters) report_.unproved.insert(unsaid);
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
                    {guess, (*step.draft_coins)[j], header_.total, (*step.draft_before)[j], q, {}, {}});
      } else if (q < header_.total && matters) {
        report_.unproved.insert(unsaid);
      }
    }
  }

  void judge_row(Sequence& sequence, const Step& step, std::size_t row, const std::optional<Distribution>& p) {
    const bool guessed = row < step.guesses.size();
    if (guessed) ++report_.examined.guesses;
    if (guessed && p && step.p) {
      expect_equal("p_row", "p of guess " + number(step.guesses[row]) + " is", p->weight(step.guesses[row]),
                   (*step.p)[row].whole);
    }
    switch (header_.rule) {
      case Judgement::greedy: judge_best(step, row, p); break;
      case Judgement::matching: judge_match(sequence, step, row, p); break;
      case Judgement::rejection: judge_ratio(sequence, step, row, p); break;
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
      report_.unproved.insert("greedy rounds do not say what the best tokens are; give the target");
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
      if (!step.p || !step.coins || !step.before) {
        if (!own) report_.unproved.insert("guesses that stand do not say with which coin the target drew them");
        return;
      }
      const auto& coin = (*step.coins)[row];
      const Draw draw{guess, coin ? std::optional(coin->whole) : std::nullopt, header_.total, (*step.before)[row],
                      (*step.p)[row].whole, {}, {}};
      expect_draw("acceptance", sequence, position, Purpose::target, draw);
      if (p) expect_hit("p_row", Weights(*p).of(guess), draw);
      return;
    }
    if (row < step.guesses.size() && step.next) {
      expect(
          step.next->token != step.guesses[row], "acceptance",
          [&] { return "guess " + number(step.next->token) + " is the target's own draw and stands"; },
          [] { return std::string("it fell"); });
    }
    judge_next(sequence, step, row < step.guesses.size() ? "own_draw" : "bonus", position, p);
  }

  /// The target's own draw after the guesses.
  void judge_next(Sequence& sequence, const Step& step, const char* check, std::int64_t position,
                  const std::optional<Distribution>& p) {
    if (!step.next) {
      const auto own = p ? token_of(*p, sequence, position) : std::nullopt;
      if (!own) {
        report_.unproved.insert("tokens after the guesses do not say how they were drawn (field y)");
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
      report_.unproved.insert("guesses do not say with which p, q and coin they were judged");
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
    const double band = 4 * header_.unit * std::max(wanted, reach);
    if (offered > 0) report_.examined.band_mass += std::min(1.0, 2 * band / offered);
    if (std::fabs(reach - wanted) <= band && wanted > 0) {
      ++report_.examined.in_band;
      return;
    }
    const bool stands = coin ? reach < wanted : wanted >= offered;
    expect(
        stands == stood, "acceptance",
        [&] {
          return "guess " + number(step.guesses[row]) + " with p " + std::to_string(wanted) + ", q " +
                 std::to_string(offered) + (coin ? ", coin " + std::to_string(coin->real) : ", no coin") +
                 (stands ? " stands" : " falls");
        },
        [&] { return std::string(stood ? "it stood" : "it fell"); });
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
    if (!step.next) {
      report_.unproved.insert("tokens after the guesses do not say how they were drawn (field y)");
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
    if (row >= step.draft_rows.size()) return;
    const Distribution& q = step.draft_rows[row];
    expect_equal("q_row", "q of token " + number(draw.token) + " is", q.weight(draw.token), *draw.q);
    if (!p) return;
    const Weights residual(*p, q);
    expect_equal("residual", "max(p - q, 0) adds up to", residual.sum(), draw.bound);
    expect_hit("residual", residual.of(draw.token), draw);
  }

  void count(Sequence& sequence, const Step& step) {
    const auto guesses = static_cast<int>(step.guesses.size());
    if (guesses == 0) return;
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
  std::map<std::int64_t, Sequence> sequences_;  // open ones
  KeysAsked keys_;                              // of this round
  long line_ = 0;
  std::int64_t id_ = 0;
  std::int64_t round_ = 0;
  std::int64_t position_ = 0;
};

}  // namespace

const char* name_of(Verdict verdict) noexcept {
  switch (verdict) {
    case Verdict::pass_exact: return "PASS_EXACT";
    case Verdict::bug_proven: return "BUG_PROVEN";
    case Verdict::undecided: return "UNDECIDED";
    case Verdict::vacuous: return "VACUOUS";
    case Verdict::invalid_trace: return "INVALID_TRACE";
  }
  return "INVALID_TRACE";
}

Verdict Report::verdict() const {
  if (!invalid.empty()) return Verdict::invalid_trace;
  if (!findings.empty()) return Verdict::bug_proven;
  if (examined.rounds == 0) return Verdict::vacuous;
  if (!unproved.empty()) return Verdict::undecided;
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
    if (report.target_given && target.vocabulary != reader.header().vocabulary) {
      reader.fail("vocab", "is " + number(reader.header().vocabulary) + ", but the target's vocabulary has " +
                               number(target.vocabulary) + " tokens");
    }
    const Header header = reader.header();
    if (header.seed && !header.coins_follow()) {
      report.unproved.insert("coins of '" + printable(header.generator) + "' cannot be computed again from the seed");
    }
    Replay replay(header, target, report);
    while (const auto event = reader.next()) replay.take(*event);
    replay.finish();
  } catch (const InvalidTrace& wrong) {
    report.invalid = wrong.what();
  } catch (const TooManyFindings&) {
  }
  return report;
}

}  // namespace draftproof::spectrace
