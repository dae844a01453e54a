// SPDX-License-Identifier: MIT
// The state of a draft depends only on the text it was given: neither on the run nor on the tokens it proposed. And it
// is where the target is: it holds what the target's cache holds, and places the anchor behind that; behind the last
// position that it serves it proposes nothing. A draft that is wrong in this proposes worse draft tokens; the text
// stays right. So nothing here is a failure of the text.
#include <map>

#include "oracle/checks/checks.h"

namespace draftproof {
namespace {

class DraftStates {
 public:
  DraftStates(Trial& trial, Examination& examination) : trial_(trial), examination_(examination) {}

  void add(const Run& run) {
    const std::string draft = trial_.subject.numerics(run.variation) + "/" + run.variation.draft;
    expect_positions(run);
    compare_after_rounds(run, draft);
    compare_final(run, draft);
  }

  long states() const { return states_compared_; }

 private:
  using DraftAndText = std::pair<std::string, std::vector<Token>>;

  /// A draft with a cache shifts its context with the target's; one that reads the text only keeps all of it.
  void expect_positions(const Run& run) {
    std::int64_t at = -1;
    for (const Round& round : run.trace.rounds) {
      ++at;
      const int text = round.position - 1;
      const int shifted = trial_.positions_after(text + 1) - 1;  // the anchor is about to be read
      int stage = -1;
      for (const DraftPositions& draft : round.draft_positions) {
        ++stage;
        const bool proposed = round.proposal.size() > round.proposal.forced && stage == round.proposal.stage();
        const bool ended = round.position > run.trace.draft_reach && draft.held == 0;
        const bool alone = round.draft_positions.size() == 1;
        const int in_all = draft.held + draft.unread;
        const auto fail = [&](const std::string& expected, const std::string& observed) {
          return make_failure(run.variation, at, round.position, expected, observed,
                              {"the text before the anchor has " + std::to_string(text) + " tokens",
                               "the positions are those of the draft's own state when it had proposed"});
        };
        examination_.expect_of_draft(!proposed || !(ended || (alone && is_beyond_draft(run.trace, round))), [&] {
          return fail(
              "the draft, which serves " + std::to_string(run.trace.draft_reach) + " positions, proposes nothing",
              "it proposes " + std::to_string(round.proposal.size()) + " draft tokens");
        });
        if (ended) continue;
        examination_.expect_of_draft(in_all == text || in_all == shifted, [&] {
          return fail("the draft holds " + std::to_string(shifted) + " positions, as the target's cache does",
                      "it holds " + std::to_string(draft.held) + " and " + std::to_string(draft.unread) +
                          " that it has not read");
        });
        if (!proposed) continue;
        examination_.expect_of_draft(draft.anchor == text || draft.anchor == shifted, [&] {
          return fail("the draft places the anchor at position " + std::to_string(shifted),
                      "it places it at position " + std::to_string(draft.anchor));
        });
      }
    }
  }

  /// Compares the state after each round with that of other runs after the same text.
  void compare_after_rounds(const Run& run, const std::string& draft) {
    std::vector<Token> text = trial_.request.prompt;
    std::int64_t at = -1;
    for (const Round& round : run.trace.rounds) {
      ++at;
      text.insert(text.end(), round.emitted.begin(), round.emitted.end());
      const auto [place, fresh] = states_.try_emplace(DraftAndText(draft, text), round.draft);
      if (fresh || round.draft == Fingerprint{}) continue;  // a draft without state has nothing to compare
      ++states_compared_;
      examination_.expect_of_draft(place->second == round.draft, [&] {
        return make_failure(run.variation, at, static_cast<std::int64_t>(text.size()),
                            "the draft has the state it has in another run of the same text, " + place->second.hex(),
                            "the draft has another state: " + round.draft.hex(),
                            {"the text before the position is the same in both"});
      });
    }
  }

  /// Compares the final state with that of a draft that was only given the text and proposed nothing.
  void compare_final(const Run& run, const std::string& draft) {
    Request reading = trial_.request;
    reading.prompt.insert(reading.prompt.end(), run.trace.output.begin(), run.trace.output.end());
    reading.max_new_tokens = 0;
    const auto [place, fresh] = final_states_.try_emplace(DraftAndText(draft, reading.prompt));
    if (fresh) {
      PhiloxSource random(trial_.seed);
      place->second = trial_.subject.run(reading, run.variation, random).final_draft;
    }
    const Fingerprint& state = place->second;
    if (state == Fingerprint{}) return;
    ++states_compared_;
    examination_.expect_of_draft(state == run.trace.final_draft, [&] {
      return make_failure(run.variation, -1, -1,
                          "the final state of the draft is that of one that was only given the text, " + state.hex(),
                          "the draft has another state: " + run.trace.final_draft.hex(),
                          {"the text is the same in both"});
    });
  }

  Trial& trial_;
  Examination& examination_;
  std::map<DraftAndText, Fingerprint> states_;  // after a round
  std::map<DraftAndText, Fingerprint> final_states_;
  long states_compared_ = 0;
};

Finding examine_draft_state(Trial& trial) {
  Examination examination(draft_state);
  DraftStates drafts(trial, examination);
  for (const Run& run : trial.runs) drafts.add(run);
  return std::move(examination)
      .finding(std::to_string(drafts.states()) + " states of drafts follow from the text",
               drafts.states() == 0 ? "no draft keeps anything of the text" : "");
}

}  // namespace

const Check draft_state = {
    "draft_state",
    "what a draft keeps depends on the text alone, and ends where the target's cache ends",
    "the draft: what it keeps of rejected draft tokens, the rows and positions of what it observes, where it places "
    "the anchor; what the loop tells it",
    "the text, because no draft token becomes output that the target does not accept",
    examine_draft_state,
    [](const TrialCosts& trial) { return trial.texts * 2 * (trial.prompt + trial.output) * trial.plain_row; }};

}  // namespace draftproof
