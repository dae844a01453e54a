// SPDX-License-Identifier: MIT
#include "oracle/spectrace/draft_watch.h"

#include <algorithm>

namespace draftproof::spectrace {

DraftWatch::DraftWatch(const SequenceEvent& declared, const Findings& findings) {
  if (!declared.draft_costs) return;
  if (!declared.max_new_tokens || !declared.max_draft_tokens) {
    findings.unread("draft_costs", "what a round may draft needs the fields max_new_tokens and max_draft_tokens");
    return;
  }
  tuner_.emplace(*declared.draft_costs);
  max_new_tokens_ = *declared.max_new_tokens;
  max_draft_tokens_ = *declared.max_draft_tokens;
}

void DraftWatch::expect_held(const RoundEvent& round, std::int64_t dropped, const Findings& findings) {
  const std::int64_t text = findings.place().position - 1;
  const std::int64_t shifted = text - dropped;
  if (round.target_held) {
    findings.expect_equal("target_held", "positions before the anchor are", shifted, *round.target_held);
  }
  // A draft with a cache shifts its context with the target's; one that reads the text only keeps all of it.
  const auto fits = [&](std::int64_t positions) { return positions == text || positions == shifted; };
  for (std::size_t stage = 0; round.draft_held && stage < round.draft_held->size(); ++stage) {
    const std::int64_t unread = round.draft_unread ? (*round.draft_unread)[stage] : 0;
    const std::int64_t held = (*round.draft_held)[stage];
    findings.expect_of_draft(
        fits(held + unread), "draft_held", astray_,
        [&] { return "the draft holds the " + number(shifted) + " positions that the target holds"; },
        [&] { return number(held) + (unread > 0 ? " and " + number(unread) + " unread" : ""); });
  }
  if (!round.draft_anchor) return;
  findings.expect_of_draft(
      fits(*round.draft_anchor), "draft_anchor", anchor_astray_,
      [&] { return "the draft places the anchor at position " + number(shifted); },
      [&] { return number(*round.draft_anchor); });
}

void DraftWatch::shift_context(const Findings& findings) {
  if (!tuner_) return;
  findings.unread("draft_costs",
                  "with context shifts a draft is asked for what fits the cache, whose size is not stated");
  tuner_.reset();
}

bool DraftWatch::expect_asked_as(bool right, const Findings& findings, const auto& expected, const auto& observed) {
  findings.expect_of_draft(right, "draft_asked", asked_differently_, expected, observed);
  if (!right) tuner_.reset();  // from here on it has not learned what the engine's has
  return right;
}

void DraftWatch::expect_asked(const RoundEvent& round, std::int64_t emitted, const Findings& findings) {
  if (tuner_ && !round.has_draft_tokens) {
    tuner_.reset();
    findings.unread("draft_costs", "a round does not state draft_tokens");
  }
  if (!tuner_ && !round.draft_asked) return;
  static const std::vector<int> nobody;
  const std::vector<int>& asked = round.draft_asked ? *round.draft_asked : nobody;
  const std::int64_t drafted =
      static_cast<std::int64_t>(round.draft_tokens.size()) + round.draft_cut - round.draft_forced;
  const std::int64_t max = asked.empty() ? 0 : asked.back();
  const bool enough = expect_asked_as(
      drafted <= max, findings, [&] { return "at most " + number(max) + " draft tokens, as many as were asked for"; },
      [&] { return number(drafted); });
  if (enough && tuner_) expect_chosen(round, asked, drafted, emitted, findings);
}

void DraftWatch::expect_chosen(const RoundEvent& round, const std::vector<int>& asked, std::int64_t drafted,
                               std::int64_t emitted, const Findings& findings) {
  const std::int64_t limit = std::min(max_draft_tokens_, max_new_tokens_ - emitted - 1);
  const std::size_t drafts = limit < 1 ? 0 : tuner_->costs().draft.size();
  const bool all = expect_asked_as(
      asked.size() == drafts || (drafted > 0 && asked.size() < drafts), findings,
      [&] { return "of " + number(std::uint64_t{drafts}) + " drafts each is asked until one proposes"; },
      [&] { return number(std::uint64_t{asked.size()}) + " are asked"; });
  for (std::size_t draft = 0; all && draft < asked.size(); ++draft) {
    const int chosen = tuner_->length(static_cast<int>(draft), static_cast<int>(limit));
    const bool right = expect_asked_as(
        asked[draft] == chosen, findings,
        [&] {
          return "draft " + number(std::uint64_t{draft}) + " is asked for " + number(chosen) +
                 " draft tokens, by the costs and the rounds so far";
        },
        [&] { return "it is asked for " + number(asked[draft]); });
    if (!right) return;
  }
  if (!all || drafts == 0) return;
  const auto accepted = std::min(static_cast<std::int64_t>(round.emitted.size()) - 1, drafted);
  tuner_->learn(asked, static_cast<int>(drafted), static_cast<int>(accepted), round.seconds);
}

}  // namespace draftproof::spectrace
