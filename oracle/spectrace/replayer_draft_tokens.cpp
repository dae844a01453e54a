// SPDX-License-Identifier: MIT
// A round with draft tokens as a whole: how the draft tokens were drawn, which tokens were emitted, which fields went
// unread. replayer_acceptance.cpp has what happens at each row.
#include <utility>

#include "oracle/checks/acceptance_statistics.h"
#include "oracle/spectrace/replayer.h"

namespace draftproof::spectrace {

void Replayer::check_draft_tokens(OpenSequence& sequence, const RoundEvent& round) {
  const auto accepted = static_cast<std::size_t>(round.accepted);
  expect_shape(sequence, round);
  name_unread_fields(sequence, round);
  expect_emitted(sequence, round);
  // A draft token is verified only where those before it were accepted, so it is bet on after their acceptance.
  for (std::size_t row = 0; row <= accepted; ++row) {
    if (row < round.draft_tokens.size()) expect_drafted(sequence, round, row);
    const KnownRow known = row_after(sequence, round, row);
    check_row(sequence, round, row, known);
    DistributionAt q;
    RoundedDistribution of_reals;
    if (row < round.q_rows.size()) q.p = &round.q_rows[row];
    if (row < round.q_reals.size()) {
      of_reals = rounded_distribution(round.q_reals[row].tokens, round.q_reals[row].weights, header_.unit);
      q = {&of_reals.distribution, of_reals.slack};
    }
    if (row < round.emitted.size()) {
      hold_logprobs(sequence, round, row, known);
      bet(sequence, round, row, known, q);
    }
    const Distribution* const p = known.p ? &*known.p : known.reals ? &known.reals->distribution : nullptr;
    if (q.p && p) count_depth(row, row < accepted, *p, *q.p);
    if (row < accepted) sequence.text.push_back(round.draft_tokens[row]);
  }
  for (std::size_t j = accepted + 1; j < round.draft_tokens.size(); ++j) expect_drafted(sequence, round, j);
  sequence.text.resize(static_cast<std::size_t>(position_));
  if (round.rng_positions) expect_keys(*round.rng_positions);
  if (accepted < round.draft_tokens.size()) sequence.rejected = round.draft_tokens[accepted];
  count(sequence, round);
}

void Replayer::expect_shape(const OpenSequence& sequence, const RoundEvent& round) {
  const auto drafted = static_cast<std::int64_t>(round.draft_tokens.size());
  if (rule_ != AcceptanceRule::lossy) {
    const NextFrom next_from = rule_ == AcceptanceRule::greedy     ? NextFrom::greedy
                               : round.accepted == drafted          ? NextFrom::bonus
                               : rule_ == AcceptanceRule::matching ? NextFrom::target
                                                                   : NextFrom::residual;
    expect(
        round.next_from == next_from, "kind",
        [&] {
          return number(round.accepted) + " of " + number(drafted) +
                 " draft tokens are accepted, so the next token comes from '" + name_of(next_from) + "'";
        },
        [&] { return name_of(round.next_from) + about_accepted(sequence, round); });
  }
  if (const auto& verification = sequence.declared.verification; verification && round.width) {
    const bool batched = *verification != Verification::serial;
    expect_equal("width", "rows of the verification pass are",
                 batched ? drafted + 1 : round.accepted + std::int64_t{1}, std::int64_t{*round.width});
  }
  if (const auto& most = sequence.declared.max_draft_tokens) {
    expect(
        drafted <= *most, "draft_length", [&] { return "at most " + number(*most) + " draft tokens"; },
        [&] { return number(drafted) + " draft tokens"; });
  }
}

std::string Replayer::about_accepted(const OpenSequence& sequence, const RoundEvent& round) {
  const auto accepted = static_cast<std::size_t>(round.accepted);
  const bool cut_after = round.emitted.size() == accepted && accepted < round.draft_tokens.size();
  return cut_after && ends(sequence, round)
             ? "; the text ends in this round: `accepted` counts every draft token that the rule accepts, those behind "
               "that end too"
             : "";
}

bool Replayer::ends(const OpenSequence& sequence, const RoundEvent& round) {
  const bool stopped =
      !round.emitted.empty() && (sequence.stops_at(round.emitted.back()) || sequence.complete(round.emitted));
  return stopped || static_cast<std::int64_t>(round.emitted.size()) >= sequence.left();
}

void Replayer::name_unread_fields(const OpenSequence& sequence, const RoundEvent& round) {
  const bool reals = header_.total == 0;
  const bool own_target = sequence.plain && !sequence.foreign;
  if (!round.logits_digests.empty() && !own_target) {
    unread("logits_digests", "logits are known only of a target that computes in the numerics of the trace");
  }
  if (!round.p_digests.empty() && reals) {
    unread("p_digests", "digests are of integer weights");
  } else if (!round.p_digests.empty() && round.p_rows.empty() && !own_target) {
    unread("p_digests", "there is no row to compare it with (--target, or field p_rows)");
  }
  if (!round.q_digests.empty() && reals) {
    unread("q_digests", "digests are of integer weights");
  } else if (!round.q_digests.empty() && round.q_rows.empty()) {
    unread("q_digests", "there is no row to compare it with (field q_rows)");
  }
  const bool rows = !round.p_rows.empty() || !round.p_reals.empty();
  if (!round.top_logits.empty() && sequence.declared.changes_logits()) {
    unread("top_logits", "penalties, biases, a grammar or other adjustments may change the order of tokens");
  } else if (!round.top_logits.empty() && rule_ != AcceptanceRule::greedy && !rows) {
    unread("top_logits", "there is no row to compare it with (field p_rows)");
  }
  const bool one_by_one = rule_ == AcceptanceRule::matching || rule_ == AcceptanceRule::rejection;
  const char* const other_rule = "under this rule it is not known what it decides";
  if (round.accept_u && !one_by_one) unread("accept_u", other_rule);
  if (round.next && !one_by_one) unread("next", other_rule);
  if (round.next_u && !one_by_one) unread("next_u", other_rule);
  if (round.rng_positions && !(one_by_one && header_.draws_follow_from_seed())) {
    unread("rng_positions", "keys are compared only where coins are computed again from generator and seed");
  }
}

void Replayer::count_depth(std::size_t depth, bool accepted, const Distribution& p, const Distribution& q) {
  if (report_.depths.size() <= depth) report_.depths.resize(depth + 1);
  Depth& sum = report_.depths[depth];
  ++sum.judged;
  sum.accepted += accepted ? 1 : 0;
  const bool matching = rule_ == AcceptanceRule::matching;
  sum.expected += static_cast<double>(matching ? agreement(p, q) : overlap(p, q)) /
                  static_cast<double>(Distribution::total);
}

void Replayer::expect_emitted(OpenSequence& sequence, const RoundEvent& round) {
  std::vector<Token> tokens(round.draft_tokens.begin(), round.draft_tokens.begin() + round.accepted);
  const bool cut = round.emitted.size() <= tokens.size();
  if (round.next) tokens.push_back(round.next->token);
  else if (!cut) tokens.push_back(round.emitted.back());
  if (cut) {
    const std::size_t count = round.emitted.size();
    const bool ended = ends(sequence, round);
    sequence.stop_hidden = !ended && sequence.declared.hides_stop_tokens() && count < tokens.size() &&
                           sequence.stops_at(tokens[count]);
    if (!ended && !sequence.stop_hidden) {
      const std::string expected = "all accepted tokens are emitted: " + listed(tokens);
      sequence.cut = TraceFinding{"conservation", line_, id_, round_, position_, expected, listed(round.emitted)};
    }
    tokens.resize(round.emitted.size());
  }
  expect(
      tokens == round.emitted, "conservation",
      [&] { return "the accepted draft tokens and the token after them: " + listed(tokens); },
      [&] { return listed(round.emitted); });
}

void Replayer::expect_drafted(OpenSequence& sequence, const RoundEvent& round, std::size_t j) {
  // By the other rules every draft token is as good as any.
  const bool matters = rule_ == AcceptanceRule::rejection || rule_ == AcceptanceRule::block;
  const bool verified = rule_ == AcceptanceRule::block || j <= static_cast<std::size_t>(round.accepted);
  const bool bet = matters && verified && is_evidence(sequence, position_ + static_cast<std::int64_t>(j));
  if (bet) bet_on_draft(round, j);
  const bool of_verified = round.q_draft && j >= round.q_draft->size();  // the others decide nothing
  const bool stated = !of_verified && round.q_draft &&
                      (header_.total == 0 ? drafted_from_reals(sequence, round, j, bet)
                                          : drafted_from_integers(sequence, round, j));
  if (!stated) {
    draws_unknown(Purpose::draft);
    if (matters && !of_verified) report_.missing.insert(draft_draw_missing(round, j));
  }
  if (round.draft_u && !matters && header_.total == 0) {
    unread("draft_u", "under this rule a draft token may be drawn with any numbers");
  }
}

std::string Replayer::draft_draw_missing(const RoundEvent& round, std::size_t j) const {
  std::string fields;
  const auto lacks = [&](const char* field, bool is_there) {
    if (!is_there) fields += (fields.empty() ? "" : ", ") + std::string(field);
  };
  lacks("q_draft", round.q_draft.has_value());
  lacks("draft_u", round.draft_u && j < round.draft_u->size());
  if (header_.total == 0) lacks("q_rows", j < round.q_reals.size());
  else lacks("q_before", round.q_before && j < round.q_before->size());
  return "the trace does not state how draft tokens were drawn from q: it lacks " + fields;
}

void Replayer::bet_on_draft(const RoundEvent& round, std::size_t j) {
  const bool reals = header_.total == 0;
  const bool point =
      round.q_draft && (reals ? (*round.q_draft)[j].real == 1 : (*round.q_draft)[j].integer == header_.total);
  const bool coin = round.q_draft && round.draft_u && (*round.draft_u)[j] && (reals || round.q_before);
  if (!header_.draws_follow_from_seed() && (reals || rule_ == AcceptanceRule::rejection)) {
    if (coin) coins_of_[static_cast<std::size_t>(Stream::draft)].add(true, line_);
    else if (!point) forfeit_coin(Stream::draft, 1);
    if (coin && reals && j >= round.q_reals.size()) evidence_.unknown_within_rounding(Stream::draft, 1);
  }

  // A draw that is computed again needs no bet.
  const bool computed = rule_ == AcceptanceRule::rejection && header_.draws_follow_from_seed() && round.draft_u;
  if (j < round.q_rows.size() && !computed) {
    evidence_.draft_token(round.q_rows[j], 0, round.draft_tokens[j]);
  } else if (j < round.q_reals.size()) {
    const RealRow& row = round.q_reals[j];
    const RoundedDistribution q = rounded_distribution(row.tokens, row.weights, header_.unit);
    evidence_.draft_token(q.distribution, q.slack, round.draft_tokens[j]);
  } else if (!point) {
    if (!computed) q_stated_.add(false, line_);
    evidence_.unknown_draft_token(reals ? 1 : 0);
    return;
  }
  q_stated_.add(true, line_);
}

bool Replayer::expect_weight_in_q(Token draft_token, bool has_weight) {
  return expect(
      has_weight, "draft_draw",
      [&] { return "draft token " + number(draft_token) + " has a weight in the q it is drawn from"; },
      [] { return std::string("q 0"); });
}

bool Replayer::drafted_from_integers(OpenSequence& sequence, const RoundEvent& round, std::size_t j) {
  const std::int64_t position = position_ + static_cast<std::int64_t>(j);
  const Token draft_token = round.draft_tokens[j];
  const std::uint64_t q = (*round.q_draft)[j].integer;
  if (j < round.q_rows.size()) {
    const Fingerprint digest = round.q_rows[j].fingerprint();
    expect(
        j >= round.q_digests.size() || round.q_digests[j] == digest, "q_row",
        [&] { return "the q of draft token " + number(draft_token) + " has the digest " + digest.hex(); },
        [&] { return round.q_digests[j].hex(); });
    const Hit hit = Weights(round.q_rows[j]).of(draft_token);
    expect_equal("q_row", "draft token " + number(draft_token) + " has in its row q the weight", hit.weight, q);
    if (round.q_before && j < round.q_before->size()) {
      expect_equal("q_row", "the weight before it is", hit.before, (*round.q_before)[j]);
    }
  }
  if (!expect_weight_in_q(draft_token, q > 0)) return true;
  if (!round.draft_u || j >= round.draft_u->size() || !round.q_before || j >= round.q_before->size()) {
    return q == header_.total;
  }
  const Draw draw{draft_token, integer((*round.draft_u)[j]), header_.total, (*round.q_before)[j], q, {}, {}};
  expect_interval("draft_draw", draw);
  // Under another rule a draft token may be drawn with any numbers. One that was not verified decides nothing, and its
  // number may be stated again.
  const bool verified = j <= static_cast<std::size_t>(round.accepted);
  if (!draw.u || rule_ != AcceptanceRule::rejection || !(header_.draws_follow_from_seed() || verified)) return true;
  expect_coin(sequence, position, Purpose::draft, draw.bound, *draw.u, static_cast<int>(j));
  return true;
}

bool Replayer::drafted_from_reals(OpenSequence& sequence, const RoundEvent& round, std::size_t j, bool bet) {
  const double q = (*round.q_draft)[j].real;
  const Token draft_token = round.draft_tokens[j];
  if (!expect_weight_in_q(draft_token, q > 0)) return true;
  const auto* const coin = round.draft_u && j < round.draft_u->size() ? &(*round.draft_u)[j] : nullptr;
  if (coin != nullptr && *coin && bet) {
    bet_on_coin(sequence, position_ + static_cast<std::int64_t>(j), Stream::draft, (*coin)->real, q < 1);
  }
  if (j >= round.q_reals.size()) return q == 1;
  expect_stated("q_row", draft_token, round.q_reals[j].weight(draft_token), q);
  if (coin == nullptr) return q == 1;
  const RealWeights row(round.q_reals[j], header_.unit);
  expect_real_draw("draft_draw", row, *coin ? std::optional((*coin)->real) : std::nullopt, draft_token,
                   bet ? std::optional(Stream::draft) : std::nullopt);
  return true;
}

}  // namespace draftproof::spectrace
