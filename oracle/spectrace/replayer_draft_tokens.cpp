// SPDX-License-Identifier: MIT
#include "oracle/spectrace/replayer.h"

#include <cmath>
#include <utility>

#include "oracle/checks/acceptance_statistics.h"

namespace draftproof::spectrace {
namespace {

/// Of integer coins: below fewer they are no fine grain of [0, 1).
constexpr std::uint64_t coin_bound_min = std::uint64_t{1} << 24;

std::string shown(const KeysAsked& keys) {
  std::string text;
  for (const Purpose purpose : {Purpose::target, Purpose::draft, Purpose::accept, Purpose::residual}) {
    for (const std::int64_t position : keys.of(purpose)) {
      text += (text.empty() ? "" : ", ") + std::string(name_of(purpose)) + " " + number(position);
    }
  }
  return text.empty() ? "none" : text;
}

}  // namespace

std::uint64_t Replayer::below(const Key& key, std::uint64_t bound) {
  ++report_.examined.coins;
  return random_.below(key, bound);
}

void Replayer::bet_on_coin(Sequence& sequence, std::int64_t position, Stream stream, double coin, bool decides) {
  coins_stated_ = coins_stated_ || decides;
  if (!std::exchange(sequence.coins_begun, true) && !numbers_.first_coin(sequence.opening.key, coin)) {
    sequence.fresh_from = UsedNumbers::none_is_fresh;
  }
  if (fresh(sequence, position)) evidence_.coin(stream, coin);
}

Stream Replayer::stream_of(Purpose purpose) {
  switch (purpose) {
    case Purpose::draft: return Stream::draft;
    case Purpose::accept: return Stream::accept;
    default: return Stream::target;
  }
}

void Replayer::expect_coin(Sequence& sequence, std::int64_t position, Purpose purpose, std::uint64_t bound,
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

void Replayer::expect_interval(const char* check, const Draw& draw) {
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

void Replayer::expect_draw(const char* check, Sequence& sequence, std::int64_t position, Purpose purpose,
                           const Draw& draw) {
  if (draw.coin) expect_coin(sequence, position, purpose, draw.bound, *draw.coin);
  expect_interval(check, draw);
}

void Replayer::expect_hit(const char* check, const Hit& hit, const Draw& draw) {
  expect_equal(check, "token " + number(hit.token) + " has the weight", hit.weight, draw.weight);
  expect_equal(check, "the weight before token " + number(hit.token) + " is", hit.before, draw.before);
}

void Replayer::expect_real_draw(const char* check, const RealWeights& row, const std::optional<double>& coin,
                                Token token) {
  ++report_.examined.draws;
  if (!coin || row.is_point()) {
    expect(
        row.is_point() && row.has(token), check,
        [&] { return row.is_point() ? "the one token that can be drawn" : std::string("a coin is asked"); },
        [&] { return (row.is_point() ? "" : "no coin for ") + ("token " + number(token)); });
    return;
  }
  const Rejection reject = row.of(*coin, token);
  evidence_.within_rounding(row.blurred(header_.unit), reject == Rejection::within_rounding);
  expect(
      reject != Rejection::elsewhere, check, [&] { return "coin " + std::to_string(*coin) + " falls on another token"; },
      [&] { return "token " + number(token); });
}

void Replayer::judge_draft_tokens(Sequence& sequence, const Step& step) {
  const auto draft_tokens = static_cast<std::int64_t>(step.draft_tokens.size());
  const auto accepted = static_cast<std::size_t>(step.accepted);
  const bool refused = step.accepted < draft_tokens;
  if (rule_ != Judging::lossy) {
    const Last last = rule_ == Judging::greedy     ? Last::greedy
                      : !refused                     ? Last::bonus
                      : rule_ == Judging::matching ? Last::own
                                                     : Last::residual;
    expect(
        step.last == last, "kind",
        [&] {
          return number(step.accepted) + " of " + number(draft_tokens) + " draft tokens stand, so the last token is " +
                 name_of(last);
        },
        [&] { return std::string(name_of(step.last)); });
  }
  if (const auto& verification = sequence.opening.verification) {
    const bool batched = *verification == Verification::batched;
    expect_equal("width", "rows of the target's pass are", batched ? draft_tokens + 1 : step.accepted + std::int64_t{1},
                 std::int64_t{step.width});
  }
  if (const auto& most = sequence.opening.draft_max) {
    expect(
        draft_tokens <= *most, "draft_length", [&] { return "at most " + number(*most) + " draft tokens"; },
        [&] { return number(draft_tokens) + " draft tokens"; });
  }
  name_what_is_unread(sequence, step);
  expect_conserved(sequence, step);
  expect_drafted(sequence, step);

  for (std::size_t row = 0; row <= accepted; ++row) {
    const KnownRow known = row_after(sequence, step, row);
    judge_row(sequence, step, row, known);
    DistributionAt q;
    RoundedDistribution of_reals;
    if (row < step.draft_rows.size()) q.p = &step.draft_rows[row];
    if (row < step.draft_reals.size()) {
      of_reals = rounded_distribution(step.draft_reals[row].tokens, step.draft_reals[row].weights, header_.unit);
      q = {&of_reals.distribution, of_reals.slack};
    }
    if (row < step.emitted.size()) {
      hold_logprobs(sequence, step, row, known);
      bet(sequence, step, row, known, q);
    }
    const Distribution* const p = known.p ? &*known.p : known.reals ? &known.reals->distribution : nullptr;
    if (q.p && p) count_depth(row, row < accepted, *p, *q.p);
    if (row < accepted) sequence.text.push_back(step.draft_tokens[row]);
  }
  sequence.text.resize(static_cast<std::size_t>(position_));
  if (step.keys) expect_keys(*step.keys);
  if (refused) sequence.rejected = step.draft_tokens[accepted];
  count(sequence, step);
}

void Replayer::name_what_is_unread(const Sequence& sequence, const Step& step) {
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
  if (!step.best.empty() && rule_ != Judging::greedy && !rows) {
    unread("top", "there is no row P to compare it with");
  }
  if (!step.best.empty() && rows && rule_ != Judging::greedy && sequence.opening.sampling.penalizes()) {
    unread("top", "penalties may change the order of tokens");
  }
  const bool by_one = rule_ == Judging::matching || rule_ == Judging::rejection;
  const char* const together = "by this rule it is not known what it decides";
  if (step.coins && !by_one) unread("u", together);
  if (step.next && !by_one) unread("y", together);
  if (step.next_coin && !by_one) unread("ur", together);
  if (step.keys && !(by_one && header_.coins_follow())) {
    unread("rc", "keys are compared where coins are computed again, from generator and seed");
  }
}

void Replayer::count_depth(std::size_t depth, bool accepted, const Distribution& p, const Distribution& q) {
  if (report_.depths.size() <= depth) report_.depths.resize(depth + 1);
  Depth& sum = report_.depths[depth];
  ++sum.judged;
  sum.accepted += accepted ? 1 : 0;
  const bool by_draw = rule_ == Judging::matching;
  sum.expected += static_cast<double>(by_draw ? agreement(p, q) : overlap(p, q)) /
                  static_cast<double>(Distribution::total);
}

void Replayer::expect_keys(const KeysAsked& stated) {
  const bool by_one = rule_ == Judging::matching || rule_ == Judging::rejection;
  if (!header_.coins_follow() || !by_one) return;
  const bool matching = rule_ == Judging::matching;
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

void Replayer::expect_conserved(Sequence& sequence, const Step& step) {
  std::vector<Token> whole(step.draft_tokens.begin(), step.draft_tokens.begin() + step.accepted);
  const bool cut = step.emitted.size() <= whole.size();
  whole.push_back(step.next ? step.next->token : step.emitted.back());
  if (cut) {
    const bool stopped = sequence.stops_at(step.emitted.back());
    const auto emitted = sequence.emitted() + static_cast<std::int64_t>(step.emitted.size());
    const bool full = sequence.opening.budget && emitted >= *sequence.opening.budget;
    if (!stopped && !full) {
      const std::string expected = "what stands is emitted: " + listed(whole);
      sequence.cut = Finding{"conservation", line_, id_, round_, position_, expected, listed(step.emitted)};
    }
    whole.resize(step.emitted.size());
  }
  expect(
      whole == step.emitted, "conservation",
      [&] { return "the draft tokens that stand and the token after them: " + listed(whole); },
      [&] { return listed(step.emitted); });
}

void Replayer::expect_drafted(Sequence& sequence, const Step& step) {
  // Else any draft token will do.
  const bool matters = rule_ == Judging::rejection || rule_ == Judging::block;
  for (std::size_t j = 0; j < step.draft_tokens.size(); ++j) {
    const bool judged = rule_ == Judging::block || j <= static_cast<std::size_t>(step.accepted);
    if (matters && judged) bet_on_draft(sequence, step, j);
    const bool drawn = step.q && (header_.total == 0 ? drafted_from_reals(sequence, step, j, matters && judged)
                                                     : drafted_from_integers(sequence, step, j));
    if (drawn) continue;
    keys_unknown(Purpose::draft);
    if (matters) report_.missing.insert("draft tokens do not say how they were drawn from q");
  }
  if (step.draft_coins && !matters && header_.total == 0) {
    unread("qc", "by this rule a draft token may be drawn with any numbers");
  }
}

void Replayer::bet_on_draft(const Sequence& sequence, const Step& step, std::size_t j) {
  if (!fresh(sequence, position_ + static_cast<std::int64_t>(j))) return;
  if (rule_ == Judging::rejection && header_.coins_follow() && step.draft_coins) return;  // computed again
  if (j < step.draft_rows.size()) evidence_.draft_token(step.draft_rows[j], 0, step.draft_tokens[j]);
  if (j >= step.draft_reals.size()) return;
  const RealRow& row = step.draft_reals[j];
  const RoundedDistribution q = rounded_distribution(row.tokens, row.weights, header_.unit);
  evidence_.draft_token(q.distribution, q.slack, step.draft_tokens[j]);
}

bool Replayer::drafted_from_integers(Sequence& sequence, const Step& step, std::size_t j) {
  const std::int64_t position = position_ + static_cast<std::int64_t>(j);
  const Token draft_token = step.draft_tokens[j];
  const std::uint64_t q = (*step.q)[j].whole;
  if (j < step.draft_rows.size()) {
    const Fingerprint print = step.draft_rows[j].fingerprint();
    expect(
        j >= step.drafts.size() || step.drafts[j] == print, "q_row",
        [&] { return "the q of draft token " + number(draft_token) + " has the fingerprint " + print.hex(); },
        [&] { return step.drafts[j].hex(); });
    const Hit hit = Weights(step.draft_rows[j]).of(draft_token);
    expect_equal("q_row", "draft token " + number(draft_token) + " has in Q the weight", hit.weight, q);
    if (step.draft_before) expect_equal("q_row", "the weight before it is", hit.before, (*step.draft_before)[j]);
  }
  if (!expect(
          q > 0, "draft_draw", [&] { return "draft token " + number(draft_token) + " has a weight in the q it is drawn from"; },
          [] { return std::string("q 0"); })) {
    return true;
  }
  if (!step.draft_coins || !step.draft_before) return q == header_.total;
  const Draw draw{draft_token, whole((*step.draft_coins)[j]), header_.total, (*step.draft_before)[j], q, {}, {}};
  expect_interval("draft_draw", draw);
  // By another rule a draft token may be drawn with any numbers; one that is not judged decides nothing, and its number may
  // be stated again.
  const bool judged = j <= static_cast<std::size_t>(step.accepted);
  if (!draw.coin || rule_ != Judging::rejection || !(header_.coins_follow() || judged)) return true;
  expect_coin(sequence, position, Purpose::draft, draw.bound, *draw.coin);
  return true;
}

bool Replayer::drafted_from_reals(Sequence& sequence, const Step& step, std::size_t j, bool decides) {
  const double q = (*step.q)[j].real;
  const Token draft_token = step.draft_tokens[j];
  if (!expect(
          q > 0, "draft_draw", [&] { return "draft token " + number(draft_token) + " has a weight in the q it is drawn from"; },
          [] { return std::string("q 0"); })) {
    return true;
  }
  const auto* const coin = step.draft_coins ? &(*step.draft_coins)[j] : nullptr;
  if (coin != nullptr && *coin && decides) {
    bet_on_coin(sequence, position_ + static_cast<std::int64_t>(j), Stream::draft, (*coin)->real, q < 1);
  }
  if (j >= step.draft_reals.size()) return q == 1;
  expect_stated("q_row", draft_token, step.draft_reals[j].weight(draft_token), q);
  if (coin == nullptr) return q == 1;
  const RealWeights row(step.draft_reals[j], header_.unit);
  expect_real_draw("draft_draw", row, *coin ? std::optional((*coin)->real) : std::nullopt, draft_token);
  return true;
}

std::optional<std::uint64_t> Replayer::whole(const std::optional<Quantity>& coin) {
  return coin ? std::optional(coin->whole) : std::nullopt;
}

void Replayer::expect_stated(const char* check, Token token, double of_row, double stated) {
  expect(
      std::fabs(of_row - stated) <= 4 * header_.unit * std::max(of_row, stated), check,
      [&] { return "token " + number(token) + " has in the row " + std::to_string(of_row); },
      [&] { return std::to_string(stated); });
}

void Replayer::judge_row(Sequence& sequence, const Step& step, std::size_t row, const KnownRow& known) {
  const bool drafted = row < step.draft_tokens.size();
  if (drafted) ++report_.examined.draft_tokens;
  if (drafted && known.p && step.p && row < step.p->size()) {
    expect_equal("p_row", "p of draft token " + number(step.draft_tokens[row]) + " is", known.p->weight(step.draft_tokens[row]),
                 (*step.p)[row].whole);
  }
  if (drafted && step.p && row < step.p->size() && row < step.target_reals.size()) {
    expect_stated("p_row", step.draft_tokens[row], step.target_reals[row].weight(step.draft_tokens[row]), (*step.p)[row].real);
  }
  switch (rule_) {
    case Judging::greedy: judge_best(sequence, step, row, known.p); break;
    case Judging::matching: judge_match(sequence, step, row, known.p); break;
    case Judging::rejection: judge_ratio(sequence, step, row, known); break;
    case Judging::block:
      report_.missing.insert("block verification judges draft tokens together: which of them stand is not replayed");
      break;
    case Judging::lossy: break;
  }
}

void Replayer::judge_best(const Sequence& sequence, const Step& step, std::size_t row,
                          const std::optional<Distribution>& p) {
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
    report_.missing.insert(sequence.foreign
                              ? "greedy rounds do not say which tokens are best in their own numerics (field top)"
                              : "greedy rounds do not say what the best tokens are; give the target");
    return;
  }
  const auto accepted = static_cast<std::size_t>(step.accepted);
  if (row < accepted) {
    expect_equal("acceptance", "a draft token stands when it is the best token,", *best, step.draft_tokens[row]);
    return;
  }
  ++report_.examined.draws;
  if (row < step.draft_tokens.size()) {
    expect(
        step.draft_tokens[row] != *best, "acceptance",
        [&] { return "draft token " + number(*best) + " is the best and stands"; },
        [] { return std::string("it fell"); });
  }
  if (step.emitted.size() > accepted) {
    expect_equal("own_draw", "the best token is", *best, step.emitted.back());
  }
}

void Replayer::judge_match(Sequence& sequence, const Step& step, std::size_t row,
                           const std::optional<Distribution>& p) {
  const std::int64_t position = position_ + static_cast<std::int64_t>(row);
  const auto own = p ? token_of(*p, sequence, position) : std::nullopt;
  const auto accepted = static_cast<std::size_t>(step.accepted);
  if (row < accepted) {
    const Token draft_token = step.draft_tokens[row];
    if (own) expect_equal("acceptance", "a draft token stands when it is the target's own draw,", *own, draft_token);
    if (header_.total == 0 && step.coins) {
      const auto& coin = (*step.coins)[row];
      if (coin) bet_on_coin(sequence, position, Stream::target, coin->real);
      if (row < step.target_reals.size()) {
        expect_real_draw("acceptance", RealWeights(step.target_reals[row], header_.unit),
                         coin ? std::optional(coin->real) : std::nullopt, draft_token);
        return;
      }
    }
    if (!step.p || !step.coins || !step.before) {
      keys_unknown(Purpose::target);
      if (!own) report_.missing.insert("draft tokens that stand do not say with which coin the target drew them");
      return;
    }
    const auto& coin = (*step.coins)[row];
    const Draw draw{draft_token, whole(coin), header_.total, (*step.before)[row], (*step.p)[row].whole, {}, {}};
    expect_draw("acceptance", sequence, position, Purpose::target, draw);
    if (p) expect_hit("p_row", Weights(*p).of(draft_token), draw);
    return;
  }
  const bool cut = step.emitted.size() <= accepted;
  if (row < step.draft_tokens.size() && (step.next || !cut)) {
    const Token next = step.next ? step.next->token : step.emitted.back();
    expect(
        next != step.draft_tokens[row], "acceptance",
        [&] { return "draft token " + number(next) + " is the target's own draw and stands"; },
        [] { return std::string("it fell"); });
  }
  judge_next(sequence, step, row < step.draft_tokens.size() ? "own_draw" : "bonus", position, p);
}

std::string Replayer::undrawn_next() const {
  return std::string("tokens after the draft tokens do not say how they were drawn (") +
         (header_.total > 0 ? "field y)" : "field ur, with rows P and Q)");
}

bool Replayer::bet_on_next(Sequence& sequence, const Step& step, std::int64_t position) {
  if (!step.next_coin) return false;
  const bool cut = step.emitted.size() <= static_cast<std::size_t>(step.accepted);
  if (*step.next_coin && !cut) bet_on_coin(sequence, position, Stream::target, **step.next_coin);
  return true;
}

void Replayer::judge_next(Sequence& sequence, const Step& step, const char* check, std::int64_t position,
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
      report_.missing.insert(undrawn_next());
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

void Replayer::judge_ratio(Sequence& sequence, const Step& step, std::size_t row, const KnownRow& known) {
  const std::int64_t position = position_ + static_cast<std::int64_t>(row);
  const auto accepted = static_cast<std::size_t>(step.accepted);
  if (row == step.draft_tokens.size()) return judge_next(sequence, step, "bonus", position, known.p);
  bet_on_acceptance(sequence, step, row, known);
  if (!step.p || !step.q || !step.coins) {
    keys_unknown(Purpose::accept);
    report_.missing.insert("draft tokens do not say with which p, q and coin they were judged");
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
    const bool due = wanted >= offered || (coin && coin->whole < wanted);
    expect(
        due == (row < accepted), "acceptance",
        [&] {
          return "draft token " + number(step.draft_tokens[row]) + " with p " + number(wanted) + ", q " + number(offered) +
                 (coin ? ", coin " + number(coin->whole) : "") + (due ? " is accepted" : " is rejected");
        },
        [&] { return std::string(row < accepted ? "it was accepted" : "it was rejected"); });
  }
  if (row == accepted) judge_residual(sequence, step, row, position, known.p);
}

void Replayer::bet_on_acceptance(const Sequence& sequence, const Step& step, std::size_t row, const KnownRow& known) {
  if (header_.coins_follow() && step.coins) return;
  if (!fresh(sequence, position_ + static_cast<std::int64_t>(row))) return;
  const auto weight = [&](const std::optional<std::vector<Quantity>>& stated, const Distribution* of_row) {
    if (stated && row < stated->size()) {
      return header_.total == 0 ? (*stated)[row].real
                                : static_cast<double>((*stated)[row].whole) / static_cast<double>(header_.total);
    }
    return of_row == nullptr ? -1.0
                             : static_cast<double>(of_row->weight(step.draft_tokens[row])) /
                                   static_cast<double>(Distribution::total);
  };
  const double p = weight(step.p, known.p ? &*known.p : known.reals ? &known.reals->distribution : nullptr);
  const Distribution* const q_row = row < step.draft_rows.size() ? &step.draft_rows[row] : nullptr;
  double q = weight(step.q, q_row);
  if (q < 0 && row < step.draft_reals.size()) q = step.draft_reals[row].weight(step.draft_tokens[row]);
  if (p <= 0 || q <= p) return;
  evidence_.acceptance(p / q, row < static_cast<std::size_t>(step.accepted),
                       header_.total == 0 ? 8 * header_.unit : 0);
}

void Replayer::judge_reals(Sequence& sequence, const Step& step, std::size_t row) {
  const double wanted = (*step.p)[row].real;
  const double offered = (*step.q)[row].real;
  const auto& coin = (*step.coins)[row];
  const bool accepted = row < static_cast<std::size_t>(step.accepted);
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
  const std::string draft_token = "draft token " + number(step.draft_tokens[row]) + " with p " + std::to_string(wanted) + ", q " +
                            std::to_string(offered);
  const auto observed = [&] { return std::string(accepted ? "it stood" : "it fell"); };
  if (!coin) {
    const bool reached = wanted >= offered || near;
    expect(
        wanted == 0 ? !accepted : accepted && reached, "acceptance",
        [&] {
          return draft_token + (wanted == 0 ? " falls, as p is 0"
                          : reached   ? " stands, as no coin is asked"
                                      : " is judged by a coin");
        },
        [&] { return observed() + " without a coin"; });
    return;
  }
  if (near) return;
  const bool due = reach < wanted;
  expect(
      due == accepted, "acceptance",
      [&] { return draft_token + ", coin " + std::to_string(coin->real) + (due ? " is accepted" : " is rejected"); }, observed);
}

std::optional<Distribution> Replayer::draft_row(const Step& step, std::size_t row) const {
  if (row < step.draft_rows.size()) return step.draft_rows[row];
  if (step.q && (*step.q)[row].whole == header_.total) return Distribution::point(step.draft_tokens[row]);
  return std::nullopt;
}

void Replayer::judge_residual(Sequence& sequence, const Step& step, std::size_t row, std::int64_t position,
                              const std::optional<Distribution>& p) {
  const Token draft_token = step.draft_tokens[row];
  if (step.emitted.size() > row) {
    expect(
        step.emitted.back() != draft_token, "residual",
        [&] { return "a draft token that fell has nothing left in max(p - q, 0)"; },
        [&] { return "token " + number(draft_token) + " again"; });
  }
  if (bet_on_next(sequence, step, position) && row < step.target_reals.size() && row < step.draft_reals.size()) {
    if (step.emitted.size() <= row) return;  // cut: it is not said
    expect_real_draw("residual", RealWeights(step.target_reals[row], step.draft_reals[row], header_.unit),
                     *step.next_coin, step.emitted.back());
    return;
  }
  if (!step.next) {
    keys_unknown(Purpose::residual);
    report_.missing.insert(undrawn_next());
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
    report_.missing.insert(
        "residuals do not say the rows of q that they are taken from (field Q; --trace-rows writes it)");
    return;
  }
  expect_equal("q_row", "q of token " + number(draw.token) + " is", q->weight(draw.token), *draw.q);
  if (!p) return;
  const Weights residual(*p, *q);
  expect_equal("residual", "max(p - q, 0) adds up to", residual.sum(), draw.bound);
  expect_hit("residual", residual.of(draw.token), draw);
}

}  // namespace draftproof::spectrace
