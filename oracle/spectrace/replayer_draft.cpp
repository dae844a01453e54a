// SPDX-License-Identifier: MIT
// What a draft held and was asked for: faults that cost speed and change no token.
#include "oracle/spectrace/replayer.h"

namespace draftproof::spectrace {

void Replayer::expect_held(OpenSequence& sequence, const RoundEvent& round) {
  const std::int64_t text = position_ - 1;
  const std::int64_t shifted = text - sequence.dropped;
  if (round.target_held) expect_equal("target_held", "positions before the anchor are", shifted, *round.target_held);
  // A draft with a cache shifts its context with the target's; one that reads the text only keeps all of it.
  const auto fits = [&](std::int64_t positions) { return positions == text || positions == shifted; };
  for (std::size_t stage = 0; round.draft_held && stage < round.draft_held->size(); ++stage) {
    const std::int64_t unread = round.draft_unread ? (*round.draft_unread)[stage] : 0;
    const std::int64_t held = (*round.draft_held)[stage];
    expect_of_draft(
        fits(held + unread), "draft_held", sequence.draft_astray,
        [&] { return "the draft holds the " + number(shifted) + " positions that the target holds"; },
        [&] { return number(held) + (unread > 0 ? " and " + number(unread) + " unread" : ""); });
  }
  if (!round.draft_anchor) return;
  expect_of_draft(
      fits(*round.draft_anchor), "draft_anchor", sequence.anchor_astray,
      [&] { return "the draft places the anchor at position " + number(shifted); },
      [&] { return number(*round.draft_anchor); });
}

bool Replayer::expect_asked_as(OpenSequence& sequence, bool right, const auto& expected, const auto& observed) {
  expect_of_draft(right, "draft_asked", sequence.asked_otherwise, expected, observed);
  if (!right) sequence.tuner.reset();  // from here on it has not learned what the engine's has
  return right;
}

void Replayer::expect_asked(OpenSequence& sequence, const RoundEvent& round) {
  if (sequence.tuner && !round.has_draft_tokens) {
    sequence.tuner.reset();
    unread("draft_costs", "a round does not state draft_tokens");
  }
  if (!sequence.tuner && !round.draft_asked) return;
  static const std::vector<int> nobody;
  const std::vector<int>& asked = round.draft_asked ? *round.draft_asked : nobody;
  const std::int64_t drafted =
      static_cast<std::int64_t>(round.draft_tokens.size()) + round.draft_cut - round.draft_forced;
  const std::int64_t most = asked.empty() ? 0 : asked.back();
  const bool enough = expect_asked_as(
      sequence, drafted <= most, [&] { return "at most " + number(most) + " draft tokens, as many as were asked for"; },
      [&] { return number(drafted); });
  if (enough && sequence.tuner) expect_chosen(sequence, asked, drafted, round);
}

void Replayer::expect_chosen(OpenSequence& sequence, const std::vector<int>& asked, std::int64_t drafted,
                             const RoundEvent& round) {
  const SequenceEvent& declared = sequence.declared;
  const std::int64_t limit = std::min(*declared.max_draft_tokens, *declared.max_new_tokens - sequence.emitted() - 1);
  const std::size_t drafts = limit < 1 ? 0 : declared.draft_costs->draft.size();
  const bool all = expect_asked_as(
      sequence, asked.size() == drafts || (drafted > 0 && asked.size() < drafts),
      [&] { return "of " + number(std::uint64_t{drafts}) + " drafts each is asked until one proposes"; },
      [&] { return number(std::uint64_t{asked.size()}) + " are asked"; });
  for (std::size_t draft = 0; all && draft < asked.size(); ++draft) {
    const int chosen = sequence.tuner->length(static_cast<int>(draft), static_cast<int>(limit));
    const bool right = expect_asked_as(
        sequence, asked[draft] == chosen,
        [&] {
          return "draft " + number(std::uint64_t{draft}) + " is asked for " + number(chosen) +
                 " draft tokens, by the costs and the rounds so far";
        },
        [&] { return "it is asked for " + number(asked[draft]); });
    if (!right) return;
  }
  if (!all || drafts == 0) return;
  const auto accepted = std::min(static_cast<std::int64_t>(round.emitted.size()) - 1, drafted);
  sequence.tuner->learn(asked, static_cast<int>(drafted), static_cast<int>(accepted), round.seconds);
}

}  // namespace draftproof::spectrace
