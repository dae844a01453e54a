// SPDX-License-Identifier: MIT
#include "oracle/spectrace/block_decisions.h"

#include <algorithm>

#include "oracle/checks/block_walk.h"

namespace draftproof::spectrace {
namespace {

/// Returns why the round cannot be decided again; empty when it can.
std::string reason_not_to(const ReplayedRound& r) {
  if (r.sequence.declared.rule.variant != our_block || !r.header.draws_follow_from_seed())
    return "its coins follow only from our own generator and seed";
  if (r.round.p_rows.size() <= r.accepted()) return "field p_rows is missing";
  if (r.round.q_rows.size() != r.round.draft_tokens.size()) return "field q_rows is missing";
  const auto drawable = [&](std::size_t j) { return r.round.q_rows[j].weight(r.round.draft_tokens[j]) > 0; };
  for (std::size_t j = 0; j < r.round.draft_tokens.size(); ++j) {
    if (!drawable(j)) return "a draft token has no weight in its q";
  }
  return "";
}

}  // namespace

void check_block(const ReplayedRound& r) {
  if (const std::string why = reason_not_to(r); !why.empty()) {
    r.report.missing.insert(
        "block verification decides about all draft tokens together, and which of them are accepted is not replayed: " +
        why);
    return;
  }
  if (r.round.p_rows.size() > r.accepted() + 1) {
    r.report.missing.insert(
        "by the rule block rows behind the accepted draft tokens decide, too: they are taken as the trace states them");
  }
  const Proposal proposal{.tokens = r.round.draft_tokens, .drawn_from = r.round.q_rows};
  bool missing = false;
  const auto row = [&](std::size_t index, const std::vector<Token>&) -> const Distribution& {
    missing = missing || index >= r.round.p_rows.size();
    return r.round.p_rows[std::min(index, r.round.p_rows.size() - 1)];
  };
  const auto position = static_cast<std::size_t>(r.position_of(0));
  std::vector<Token> text(r.sequence.text.begin(), r.sequence.text.begin() + static_cast<std::ptrdiff_t>(position));
  PhiloxSource random(r.header.seed.value_or(0));
  const BlockWalk walk = walk_block({proposal, std::move(text), static_cast<int>(r.sequence.declared.rng_key), row,
                                     [](const std::vector<Token>&) { return false; }},
                                    random);
  for (std::size_t i = r.accepted() + 1; i < std::min(r.round.p_rows.size(), r.round.p_digests.size()); ++i) {
    const Fingerprint digest = r.round.p_rows[i].fingerprint();
    r.findings.expect(
        digest == r.round.p_digests[i], "p_row",
        [&] { return "row " + number(static_cast<std::int64_t>(i)) + " of p has the digest " + digest.hex(); },
        [&] { return r.round.p_digests[i].hex(); });
  }
  const bool same = !missing && walk.nodes.size() == r.accepted();
  r.findings.expect(
      same, "acceptance",
      [&] {
        return missing ? "a row in p_rows for every draft token that is still possible"
                       : "p_rows, q_rows and the coins accept " + number(static_cast<std::int64_t>(walk.nodes.size())) +
                             " of " + number(static_cast<std::int64_t>(proposal.tokens.size())) + " draft tokens";
      },
      [&] {
        return missing ? number(static_cast<std::int64_t>(r.round.p_rows.size())) + " rows"
                       : number(std::int64_t{r.round.accepted}) + r.about_accepted();
      });
  if (!same || r.round.emitted.size() <= r.accepted()) return;
  r.findings.expect(
      r.round.emitted.back() == *walk.next, r.round.verifies(r.accepted()) ? "residual" : "bonus",
      [&] { return "the coins give token " + number(*walk.next); },
      [&] { return "token " + number(r.round.emitted.back()); });
}

}  // namespace draftproof::spectrace
