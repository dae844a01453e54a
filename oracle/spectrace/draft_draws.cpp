// SPDX-License-Identifier: MIT
#include "oracle/spectrace/draft_draws.h"

#include <string>

namespace draftproof::spectrace {
namespace {

std::string draft_draw_missing(const ReplayedRound& r, std::size_t j) {
  const RoundEvent& round = r.round;
  std::string fields;
  const auto lacks = [&](const char* field, bool is_there) {
    if (!is_there) fields += (fields.empty() ? "" : ", ") + std::string(field);
  };
  lacks("q_draft", round.q_draft.has_value());
  lacks("draft_u", round.draft_u && j < round.draft_u->size());
  if (r.reals()) lacks("q_rows", j < round.q_reals.size());
  else lacks("q_before", round.q_before && j < round.q_before->size());
  return "the trace does not state how draft tokens were drawn from q: it lacks " + fields;
}

bool expect_weight_in_q(const ReplayedRound& r, Token draft_token, bool has_weight) {
  return r.findings.expect(
      has_weight, "draft_draw",
      [&] { return "draft token " + number(draft_token) + " has a weight in the q it is drawn from"; },
      [] { return std::string("q 0"); });
}

/// Checks that the weight of draft token j, and the weight before it, are those of its row.
void expect_weight_of_row(const ReplayedRound& r, std::size_t j) {
  const RoundEvent& round = r.round;
  const Token draft_token = round.draft_tokens[j];
  const Fingerprint digest = round.q_rows[j].fingerprint();
  r.findings.expect(
      j >= round.q_digests.size() || round.q_digests[j] == digest, "q_row",
      [&] { return "the q of draft token " + number(draft_token) + " has the digest " + digest.hex(); },
      [&] { return round.q_digests[j].hex(); });
  const Hit hit = SparseWeights(round.q_rows[j]).of(draft_token);
  r.findings.expect_equal("q_row", "draft token " + number(draft_token) + " has in its row q the weight", hit.weight,
                          (*round.q_draft)[j].integer);
  if (round.q_before && j < round.q_before->size()) {
    r.findings.expect_equal("q_row", "the weight before it is", hit.before, (*round.q_before)[j]);
  }
}

/// Both return false when the trace does not state how the draft token was drawn from its q.
bool drafted_from_integers(const ReplayedRound& r, std::size_t j) {
  const RoundEvent& round = r.round;
  const Token draft_token = round.draft_tokens[j];
  const std::uint64_t q = (*round.q_draft)[j].integer;
  if (j < round.q_rows.size()) expect_weight_of_row(r, j);
  if (!expect_weight_in_q(r, draft_token, q > 0)) return true;
  if (!round.draft_u || j >= round.draft_u->size() || !round.q_before || j >= round.q_before->size()) {
    return q == r.header.total;
  }
  const Draw draw{draft_token, integer_coin((*round.draft_u)[j]), r.header.total, (*round.q_before)[j], q, {}, {}};
  r.coins.expect_interval("draft_draw", draw, r.findings);
  // Under another rule a draft token may be drawn with any numbers. One that was not verified decides nothing, and its
  // number may be stated again.
  const bool decides = r.header.draws_follow_from_seed() || round.verifies(j);
  const bool keyed = r.rule() == AcceptanceRule::rejection ||
                     (r.sequence.declared.rule.variant == our_block && r.header.draws_follow_from_seed());
  if (!draw.u || !keyed || !decides) return true;
  r.coins.expect_coin(r.sequence, r.position_of_draft_token(j), Purpose::draft, draw.bound, *draw.u, r.findings,
                      round.depth(j));
  return true;
}

bool drafted_from_reals(const ReplayedRound& r, std::size_t j, bool bet) {
  const RoundEvent& round = r.round;
  const double q = (*round.q_draft)[j].real;
  const Token draft_token = round.draft_tokens[j];
  if (!expect_weight_in_q(r, draft_token, q > 0)) return true;
  const auto* const coin = round.draft_u && j < round.draft_u->size() ? &(*round.draft_u)[j] : nullptr;
  if (coin != nullptr && *coin && bet) {
    r.coins.bet_on_coin(r.sequence, r.position_of_draft_token(j), Stream::draft, (*coin)->real, q < 1);
  }
  if (j >= round.q_reals.size()) return q == 1;
  expect_stated(r, "q_row", draft_token, round.q_reals[j].weight(draft_token), q);
  if (coin == nullptr) return q == 1;
  r.coins.expect_real_draw("draft_draw", RealWeights(round.q_reals[j], r.header.unit), real_coin(*coin), draft_token,
                           bet ? std::optional(Stream::draft) : std::nullopt, r.findings);
  return true;
}

}  // namespace

void expect_drafted(const ReplayedRound& r, std::size_t j) {
  const RoundEvent& round = r.round;
  // By the other rules every draft token is as good as any.
  const bool matters = r.rule() == AcceptanceRule::rejection || r.rule() == AcceptanceRule::block;
  const bool verified = r.rule() == AcceptanceRule::block || round.verifies(j);
  const bool bet = matters && verified && r.sequence.is_evidence(r.position_of_draft_token(j));
  if (bet) r.evidence.bet_on_draft(r.rule(), round, j, r.findings.place());
  const bool of_verified = round.q_draft && j >= round.q_draft->size();  // the others decide nothing
  const bool stated =
      !of_verified && round.q_draft && (r.reals() ? drafted_from_reals(r, j, bet) : drafted_from_integers(r, j));
  if (!stated) {
    r.coins.draws_unknown(Purpose::draft);
    if (matters && !of_verified) r.report.missing.insert(draft_draw_missing(r, j));
  }
  if (round.draft_u && !matters && r.reals()) {
    r.findings.unread("draft_u", "under this rule a draft token may be drawn with any numbers");
  }
}

}  // namespace draftproof::spectrace
