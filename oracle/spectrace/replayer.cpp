// SPDX-License-Identifier: MIT
#include "oracle/spectrace/replayer.h"

#include <algorithm>
#include <utility>

#include "oracle/spectrace/round_replay.h"
#include "ref/formats/printable.h"

namespace draftproof::spectrace {
namespace {

/// Checks the counts that the end of a sequence states, as far as its rounds state what is counted.
void reconcile(const OpenSequence& sequence, const StatedCounts& stated, const Findings& findings) {
  const Statistics& counts = sequence.counts;
  const auto expect_count = [&](const char* what, int counted, const std::optional<int>& count) {
    if (count) findings.expect_equal("statistics", what, counted, *count);
  };
  expect_count("rounds are", counts.rounds, stated.rounds);
  if (!sequence.all_have_draft_tokens) return;
  expect_count("iterations are", counts.iterations, stated.iterations);
  expect_count("drafted are", counts.drafted, stated.drafted);
  expect_count("accepted are", counts.accepted, stated.accepted);
  expect_count("mismatches are", counts.mismatches, stated.mismatches);
  expect_count("all accepted are", counts.all_accepted, stated.all_accepted);
  if (sequence.declared.verification) {
    expect_count("batched are", counts.batched, stated.batched);
    expect_count("serial are", counts.serial, stated.serial);
  } else if (stated.batched && stated.serial) {
    expect_count("batched and serial are", counts.iterations, *stated.batched + *stated.serial);
  }
}

}  // namespace

void Replayer::take(const Event& event) {
  place_.line = event.line;
  if (const auto* declared = std::get_if<SequenceEvent>(&event.what)) open(*declared);
  if (const auto* round = std::get_if<RoundEvent>(&event.what)) check_round(*round);
  if (const auto* shift = std::get_if<ShiftEvent>(&event.what)) shift_context(*shift);
  if (const auto* last = std::get_if<EndEvent>(&event.what)) end(*last);
}

void Replayer::open(const SequenceEvent& declared) {
  ++report_.examined.sequences;
  OpenSequence& sequence = sequences_.try_emplace(declared.sequence, declared, here()).first->second;
  if (sequence.rule() == AcceptanceRule::lossy) {
    report_.lossy = true;
    report_.unproved.insert("the rule '" + printable(declared.rule.variant) +
                            "' is declared lossy: it does not promise the target's distribution");
  }
  place_ = {place_.line, declared.sequence, 0, static_cast<std::int64_t>(declared.prompt.size())};
  rows_.open(sequence);
  expect_reused(sequence);
  coins_.open(sequence);
  evidence_.open(declared);
}

/// Checks that a cache which was kept is reused as far as its text and the prompt agree, and that the last token of the
/// prompt is read: its row is drawn from.
void Replayer::expect_reused(const OpenSequence& sequence) {
  const SequenceEvent& declared = sequence.declared;
  if (!declared.reused) return;
  const Findings findings = here();
  const auto expect_at_most = [&](std::int64_t positions, const std::string& what) {
    findings.expect(
        *declared.reused <= positions, "reused", [&] { return "at most " + number(positions) + " positions" + what; },
        [&] { return number(*declared.reused); });
  };
  expect_at_most(static_cast<std::int64_t>(declared.prompt.size()) - 1, ", as the prompt's last token is read");
  if (!declared.continues) {
    // A target in the same numerics shows it by the rows.
    const bool by_rows = rows_.has_target(declared.sequence) && !rows_.is_foreign(declared.sequence);
    if (!by_rows) findings.unread("reused", "field continues does not say whose cache was kept");
    return;
  }
  const auto open = sequences_.find(*declared.continues);
  const std::vector<Token>* const text =
      open != sequences_.end() ? &open->second.text : kept_.find(*declared.continues);
  if (text == nullptr) {
    findings.unread("reused", "the text of sequence " + number(*declared.continues) +
                                  " is not known any more, or its context was shifted");
    return;
  }
  const auto part = std::ranges::mismatch(*text, declared.prompt).in1;
  expect_at_most(part - text->begin(),
                 ": so far the text of sequence " + number(*declared.continues) + " and the prompt agree");
}

void Replayer::check_round(const RoundEvent& round) {
  OpenSequence& sequence = sequences_.at(round.sequence);
  if (sequence.cut) here().add(*std::exchange(sequence.cut, std::nullopt));  // it has not ended by that round
  place_ = {place_.line, round.sequence, round.round, static_cast<std::int64_t>(sequence.text.size())};
  replay_round({header_, target_, round, sequence, rows_, coins_, evidence_, report_, here()});
}

void Replayer::shift_context(const ShiftEvent& shift) {
  OpenSequence& sequence = sequences_.at(shift.sequence);
  ++report_.examined.shifts;
  sequence.dropped += shift.discard;
  sequence.draft.shift_context(here());
  rows_.shift(shift);
}

void Replayer::end(const EndEvent& end) {
  const auto found = sequences_.find(end.sequence);
  OpenSequence& sequence = found->second;
  place_ = {place_.line, end.sequence, sequence.counts.rounds, static_cast<std::int64_t>(sequence.text.size())};
  const Findings findings = here();
  ++ended_;
  expect_ended(sequence, end);
  if (end.emitted_count) findings.expect_equal("count", "tokens emitted are", sequence.emitted(), *end.emitted_count);
  if (end.emitted) {
    const auto first = sequence.text.begin() + static_cast<std::ptrdiff_t>(sequence.declared.prompt.size());
    findings.expect(
        std::equal(first, sequence.text.end(), end.emitted->begin(), end.emitted->end()), "conservation",
        [] { return std::string("the whole output is what the rounds emitted"); },
        [&] { return number(static_cast<std::int64_t>(end.emitted->size())) + " other tokens"; });
  }
  if (end.statistics) reconcile(sequence, *end.statistics, findings);
  coins_.close(sequence);
  rows_.close(end.sequence);
  if (sequence.dropped == 0) kept_.add(end.sequence, std::move(sequence.text));
  sequences_.erase(found);
}

/// Checks that a text ends with a stop token, with its budget, or for a reason that tokens cannot show (a string, a
/// tool call, a grammar).
void Replayer::expect_ended(OpenSequence& sequence, const EndEvent& end) {
  const SequenceEvent& declared = sequence.declared;
  const Findings findings = here();
  const bool full = declared.max_new_tokens && sequence.emitted() >= *declared.max_new_tokens;
  const bool unread_grammar = !declared.grammar.empty() && !rows_.has_target(end.sequence);
  const bool unseen = !declared.stop_tokens || declared.stop_strings || !declared.stop_token_emitted || unread_grammar;
  const bool cancelled = end.reason == Finish::cancelled;
  const auto ended_by = [&](bool right, const std::string& why) {
    findings.expect(
        right, "termination", [&] { return why; }, [&] { return "reason " + std::string(name_of(end.reason)); });
  };
  std::string unproved;
  if (!end.other.empty()) {
    unproved = "for reasons of the engine's own ('other:" + printable(end.other) + "')";
  } else if (sequence.stopped()) {
    ended_by(end.reason == Finish::stop, "the text ends with a stop token");
  } else if (rows_.complete(sequence)) {
    ended_by(end.reason == Finish::stop, "the text ends where the grammar lets nothing follow");
  } else if (end.reason == Finish::stop && unseen) {
    unproved = !declared.stop_tokens ? "by stop tokens that the trace does not list (field stop_tokens)"
               : !declared.stop_token_emitted
                   ? "by stop tokens that are not part of the text (field stop_token_emitted)"
               : unread_grammar ? "by a grammar, which only a target can read (--target)"
                                : "by a string, which tokens do not show (field stop_strings)";
  } else if (full) {
    ended_by(end.reason == Finish::length || cancelled,
             "all " + number(*declared.max_new_tokens) + " tokens are emitted");
  } else {
    ended_by(cancelled || (end.reason == Finish::length && !declared.max_new_tokens),
             "the text neither ends with a stop token nor uses up its budget");
  }
  if (!unproved.empty()) evidence_.forfeit_last_round(sequence, end, place_);
  if (sequence.cut && cancelled) unproved = "within a round, as they were cancelled";
  if (!unproved.empty()) {
    report_.missing.insert("it is not proved that every sequence had to end where it did: some end " + unproved);
  } else if (sequence.cut) {
    findings.add(*sequence.cut);
  }
  sequence.cut.reset();
}

void Replayer::finish() {
  if (!sequences_.empty()) {
    const std::size_t more = sequences_.size() - 1;
    const std::string open = "sequence " + number(sequences_.begin()->first) + " has no end line" +
                             (more > 0 ? ", nor have " + number(std::uint64_t{more}) + " others" : "") +
                             ": the run was interrupted";
    if (ended_ == 0) report_.unproved.insert(open);
    else report_.unread.insert(open + "; the verdict is about the " + std::to_string(ended_) + " that ended");
  }
  evidence_.finish(here());
}

}  // namespace draftproof::spectrace
