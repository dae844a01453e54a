// SPDX-License-Identifier: MIT
#include "oracle/spectrace/replay.h"

#include <fmt/format.h>

#include <utility>

#include "oracle/spectrace/reader.h"
#include "oracle/spectrace/replayer.h"
#include "ref/formats/printable.h"

namespace draftproof::spectrace {

void Replayer::take(const Event& event) {
  line_ = event.line;
  if (const auto* declared = std::get_if<SequenceEvent>(&event.what)) open(*declared);
  if (const auto* round = std::get_if<RoundEvent>(&event.what)) check_round(*round);
  if (const auto* shift = std::get_if<ShiftEvent>(&event.what)) shift_context(*shift);
  if (const auto* last = std::get_if<EndEvent>(&event.what)) end(*last);
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
  finish_rounding();
  finish_greedy();
  report_evidence();
}

void Replayer::finish_rounding() {
  Examined& examined = report_.examined;
  for (const RareEvents& of_stream : evidence_.rounding()) {
    examined.reals += of_stream.observed();
    examined.in_band += of_stream.happened();
    examined.band_mass += of_stream.expected();
  }
  if (examined.reals > 0) {
    expect(
        !evidence_.too_many_within_rounding(), "band",
        [&] { return "about " + std::to_string(examined.band_mass) + " decisions lie within rounding"; },
        [&] { return number(std::int64_t{examined.in_band}) + " of them"; });
  }
  if (examined.band_mass * 100 > static_cast<double>(examined.reals)) {
    report_.unproved.insert("rounding leaves more than one decision in a hundred open; "
                            "weights of a finer dtype leave fewer open");
  }
}

void Replayer::finish_greedy() {
  const GreedyTokens& greedy = report_.greedy;
  if (greedy.open <= 0) return;
  report_.unproved.insert(fmt::format(
      "{} of {} greedy tokens are not the target's best; the furthest lies {:.4g} below it in logits, at position {} "
      "(line {})",
      greedy.not_best, greedy.tokens, greedy.gap, greedy.position, greedy.line));
  // No smaller than the gap when it is rounded to three digits.
  report_.advice =
      fmt::format("--tie {:.3g} admits greedy tokens that far below the target's best", 1.01 * greedy.open);
}

void Replayer::report_evidence() {
  if (coins_stated_) {
    report_.missing.insert(
        header_.generator.empty()
            ? "coins are taken as the trace states them: it names no generator (field rng) to compute them again with"
            : "coins of '" + printable(header_.generator) + "' cannot be computed again from the seed");
  }
  const EProcess& tokens = evidence_.tokens().tokens() > 0 ? evidence_.tokens() : of_lossy_.tokens();
  if (tokens.tokens() > 0) {
    const bool lossy = &tokens == &of_lossy_.tokens();
    report_.token_test = TraceTokenTest{.tokens = tokens.tokens(),
                                   .alpha = Evidence::alpha_of_one,
                                   .slack = target_.slack,
                                   .e_value = tokens.e_value(),
                                   .alarm = tokens.alarm(),
                                   .of_lossy = lossy,
                                   .smallest_deviation = tokens.smallest_deviation(),
                                   .suspect = tokens.suspect(),
                                   .message = tokens.describe(),
                                   .curve = (lossy ? of_lossy_ : evidence_).curve().points()};
  }
  report_.games = evidence_.others();
  if (loose_ > 0) {
    report_.unread.insert("there is no bet on " + std::to_string(loose_) +
                          " tokens: the slack allows nearly every distribution there");
  }
  name_statements();
  if (!report_.missing.empty()) name_untested_tokens();
}

void Replayer::name_statements() {
  const auto name = [&](const Statement& statement, const std::string& what) {
    if (statement.stated() == 0 || statement.missing() == 0) return;
    report_.unread.insert(what + " not stated on " + statement.lines() +
                          ": whether they are may depend on what was decided, so bets on them count as lost there");
  };
  name(q_stated_, "rows of q are");
  name(acceptance_stated_, "p and q of draft tokens are");
  const char* const of_streams[] = {"coins of acceptances are", "coins of draft tokens are",
                                    "coins of the target's draws are"};
  for (std::size_t stream = 0; stream < std::size(of_streams); ++stream) name(coins_of_[stream], of_streams[stream]);
}

void Replayer::name_untested_tokens() {
  const EProcess& tokens = evidence_.tokens().tokens() > 0 ? evidence_.tokens() : of_lossy_.tokens();
  const auto count = [](long many, const std::string& what) { return std::to_string(many) + " " + what; };
  if (p_stated_.missing() > 0) {
    const std::string where = p_stated_.stated() > 0 ? " (" + p_stated_.lines() + ")" : "";
    report_.unproved.insert("p is not known of " +
                            count(p_stated_.missing(), "tokens" + where + ", so a bet on them cannot replace what the "
                                                                          "trace does not state") +
                            (target_.vocabulary == 0 ? "; give --target, or field p_rows of every round" : ""));
    if (target_.vocabulary == 0) report_.advice = "--target MODEL, or field p_rows, lets every token be tested";
  } else if (loose_ * 10 > report_.examined.tokens) {
    report_.unproved.insert("the slack allows nearly every distribution for more than one token in ten; a smaller "
                            "slack shows more");
  } else if (not_bet_ > 0) {
    report_.unproved.insert(
        count(not_bet_, "tokens were drawn with the random numbers of an earlier sequence, which has the same key: a "
                        "bet on them cannot replace what the trace does not state") +
        (key_stated_ ? ""
                     : ". No sequence states rng_key, so all have the default, 0: one stream for all of them. Where "
                       "each has a stream of its own, number them in rng_key; then a stream that is drawn twice is a "
                       "bug that the check can name"));
  } else if (tokens.tokens() > 0 && tokens.smallest_deviation() >= 1) {
    const auto missing = tokens.tokens_until(1);
    report_.unproved.insert(count(tokens.tokens(), "tokens are too few to show any deviation, however large; ") +
                            (missing ? count(*missing, "more would be enough to show the largest")
                                     : "with so much slack no number of tokens is enough"));
  }
}

void Replayer::add_finding(const TraceFinding& finding) {
  report_.findings.push_back(finding);
  if (report_.findings.size() == TraceReport::findings_max) throw TooManyFindings();
}

void Replayer::unread(const char* field, const std::string& why) {
  report_.unread.insert("field " + std::string(field) + " is not checked: " + why);
}

void Replayer::open(const SequenceEvent& declared) {
  ++report_.examined.sequences;
  OpenSequence sequence;
  sequence.declared = declared;
  sequence.text = declared.prompt;
  key_stated_ = key_stated_ || declared.rng_key_stated;
  if (header_.seed) sequence.fresh_from = numbers_.begin(declared.rng_key);
  if (sequence.rule() == AcceptanceRule::lossy) {
    report_.lossy = true;
    report_.unproved.insert("the rule '" + printable(declared.rule.lossy_name) +
                            "' is declared lossy: it does not promise the target's distribution");
  }
  name_adjustments(declared);
  if (target_.vocabulary > 0) hold_to_target(sequence);
  if (declared.draft_costs) {
    if (declared.max_new_tokens && declared.max_draft_tokens) sequence.tuner.emplace(*declared.draft_costs);
    else unread("draft_costs", "what a round may draft needs the fields max_new_tokens and max_draft_tokens");
  }
  sequences_.emplace(declared.sequence, std::move(sequence));
}

void Replayer::check_round(const RoundEvent& round) {
  OpenSequence& sequence = sequences_.at(round.sequence);
  rule_ = sequence.rule();
  if (sequence.cut) add_finding(*std::exchange(sequence.cut, std::nullopt));
  id_ = round.sequence;
  round_ = round.round;
  position_ = static_cast<std::int64_t>(sequence.text.size());
  ++report_.examined.rounds;
  report_.examined.rounds_with_drafts += round.has_draft_tokens ? 1 : 0;
  expect_equal("position", "the next position to decide is", position_, round.position);
  expect(
      !sequence.stopped(), "termination",
      [&] { return "the text ended with a stop token"; }, [] { return std::string("another round"); });
  if (!round.emitted.empty()) expect_open(sequence, {}, round.emitted.front());
  expect_held(sequence, round);
  expect_asked(sequence, round);
  drawn_ = {};
  std::fill(std::begin(drawn_unknown_), std::end(drawn_unknown_), false);
  found_before_ = report_.findings.size();
  decided_ =
      round.has_draft_tokens ? rows_of_the_text(sequence, round) : static_cast<std::int64_t>(round.emitted.size());
  if (!round.faults.empty()) {
    report_faults(sequence, round);
  } else if (round.has_draft_tokens) {
    check_draft_tokens(sequence, round);
  } else {
    sequence.all_have_draft_tokens = false;
    sequence.rejected_unknown = sequence.declared.max_draft_tokens != 0;
    replay_tokens(sequence, round);
  }
  for (std::size_t i = 0; i + 1 < round.emitted.size(); ++i) {
    expect(
        !sequence.stops_at(round.emitted[i]), "termination",
        [&] { return "the text ends with stop token " + number(round.emitted[i]); },
        [&] { return "emitted " + listed(round.emitted); });
    expect_open(sequence, std::span(round.emitted).first(i + 1), round.emitted[i + 1]);
  }
  const bool stated = !round.p_rows.empty() || !round.p_reals.empty();
  if (sequence.plain && sequence.foreign) basis_ = stated ? Basis::rows : Basis::target;
  ++sequence.counts.rounds;
  sequence.text.insert(sequence.text.end(), round.emitted.begin(), round.emitted.end());
  report_.examined.tokens += static_cast<std::int64_t>(round.emitted.size());
  if (const auto& budget = sequence.declared.max_new_tokens) {
    expect(
        sequence.emitted() <= *budget, "budget", [&] { return "at most " + number(*budget) + " tokens"; },
        [&] { return number(sequence.emitted()) + " tokens"; });
  }
}

void Replayer::expect_open(const OpenSequence& sequence, std::span<const Token> more, Token next) {
  if (!sequence.plain || sequence.declared.grammar.empty()) return;
  expect(
      !sequence.complete(more) || sequence.stops_at(next), "termination",
      [] { return std::string("the text ends where the grammar lets nothing follow"); },
      [] { return std::string("more tokens"); });
}

void Replayer::shift_context(const ShiftEvent& shift) {
  OpenSequence& sequence = sequences_.at(shift.sequence);
  sequence.dropped += shift.discard;
  if (sequence.tuner) {
    unread("draft_costs", "with context shifts a draft is asked for what fits the cache, whose size is not stated");
    sequence.tuner.reset();
  }
  ++report_.examined.shifts;
  if (!sequence.plain) return;
  const std::string why = sequence.plain->shift(static_cast<int>(shift.tokens_read), static_cast<int>(shift.keep),
                                                static_cast<int>(shift.discard));
  if (why.empty()) return;
  report_.unproved.insert("rows after a context shift are not held to the target, whose cache cannot be shifted so: " +
                          why);
  std::erase(readers_, sequence.plain.get());
  sequence.plain.reset();
}

void Replayer::report_faults(OpenSequence& sequence, const RoundEvent& round) {
  for (const Fault& fault : round.faults) {
    expect(
        false, fault.check,
        [&] {
          return fault.field + (fault.check == std::string_view("token") ? " is a token of the vocabulary"
                                                                         : " is a number in its range");
        },
        [&] { return printable(fault.observed); });
  }
  sequence.all_have_draft_tokens = false;
  std::erase(readers_, sequence.plain.get());
  sequence.plain.reset();
}

void Replayer::replay_tokens(OpenSequence& sequence, const RoundEvent& round) {
  for (std::size_t i = 0; i < round.emitted.size(); ++i) {
    const Token token = round.emitted[i];
    const auto position = static_cast<std::int64_t>(sequence.text.size());
    const KnownRow row = row_after(sequence, round, i);
    if (const auto own = row.p ? token_of(*row.p, sequence, position) : std::nullopt) {
      ++report_.examined.draws;
      expect_equal("own_draw", "at position " + number(position) + " plain decoding emits", *own, token);
    } else {
      report_.missing.insert("rounds without draft_tokens do not state what was drafted and how it was verified");
    }
    hold_logprobs(sequence, round, i, row);
    bet(sequence, round, i, row, {});
    forfeit_all(sequence, position, 1);
    sequence.text.push_back(token);
  }
  sequence.text.resize(static_cast<std::size_t>(position_));
}

void Replayer::count(OpenSequence& sequence, const RoundEvent& round) {
  const auto draft_tokens = static_cast<int>(round.draft_tokens.size());
  if (draft_tokens == 0) return;
  const auto by_rule = static_cast<std::size_t>(round.accepted);
  if (report_.accepted.size() <= by_rule) report_.accepted.resize(by_rule + 1);
  ++report_.accepted[by_rule];
  const int accepted = std::min(round.accepted, static_cast<int>(round.emitted.size()));
  Statistics& counts = sequence.counts;
  ++counts.iterations;
  counts.drafted += draft_tokens;
  counts.accepted += accepted;
  ++(round.accepted == draft_tokens ? counts.all_accepted : counts.mismatches);
  if (const auto& verification = sequence.declared.verification) {
    ++(*verification == Verification::serial ? counts.serial : counts.batched);
  }
  report_.examined.accepted += accepted;
}

void Replayer::end(const EndEvent& end) {
  const auto found = sequences_.find(end.sequence);
  OpenSequence& sequence = found->second;
  id_ = end.sequence;
  round_ = sequence.counts.rounds;
  position_ = static_cast<std::int64_t>(sequence.text.size());
  ++ended_;
  expect_ended(sequence, end);
  if (end.emitted_count) expect_equal("count", "tokens emitted are", sequence.emitted(), *end.emitted_count);
  if (end.emitted) {
    const auto first = sequence.text.begin() + static_cast<std::ptrdiff_t>(sequence.declared.prompt.size());
    expect(
        std::equal(first, sequence.text.end(), end.emitted->begin(), end.emitted->end()), "conservation",
        [] { return std::string("the whole output is what the rounds emitted"); },
        [&] { return number(static_cast<std::int64_t>(end.emitted->size())) + " other tokens"; });
  }
  if (end.statistics) reconcile(sequence, *end.statistics);
  if (header_.seed && header_.generator == our_generator && sequence.fresh_from != UsedNumbers::none_is_fresh) {
    numbers_.end(sequence.declared.rng_key, std::max(position_, sequence.fresh_from));
  }
  std::erase(readers_, sequence.plain.get());
  sequences_.erase(found);
}

void Replayer::expect_ended(OpenSequence& sequence, const EndEvent& end) {
  const auto& declared = sequence.declared;
  const bool full = declared.max_new_tokens && sequence.emitted() >= *declared.max_new_tokens;
  const bool unread_grammar = !declared.grammar.empty() && !sequence.plain;
  const bool unseen = !declared.stop_tokens || declared.stop_strings || !declared.stop_token_emitted || unread_grammar;
  const bool cancelled = end.reason == Finish::cancelled;
  const auto ended_by = [&](bool right, const std::string& why) {
    expect(
        right, "termination", [&] { return why; }, [&] { return "reason " + std::string(name_of(end.reason)); });
  };
  std::string unproved;
  if (!end.other.empty()) {
    unproved = "for reasons of the engine's own ('other:" + printable(end.other) + "')";
  } else if (sequence.stopped()) {
    ended_by(end.reason == Finish::stop, "the text ends with a stop token");
  } else if (sequence.complete()) {
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
  if (!unproved.empty()) forfeit_last_round(sequence, end);
  if (sequence.cut && cancelled) unproved = "within a round, as they were cancelled";
  if (!unproved.empty()) {
    report_.missing.insert("it is not proved that every sequence had to end where it did: some end " + unproved);
  } else if (sequence.cut) {
    add_finding(*sequence.cut);
  }
  sequence.cut.reset();
}

void Replayer::reconcile(const OpenSequence& sequence, const StatedCounts& stated) {
  const Statistics& counts = sequence.counts;
  const auto expect_count = [&](const char* what, int counted, const std::optional<int>& count) {
    if (count) expect_equal("statistics", what, counted, *count);
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

ReportVerdict TraceReport::verdict() const {
  if (!invalid.empty()) return ReportVerdict::invalid_trace;
  if (!findings.empty()) return ReportVerdict::bug_proven;
  if (examined.rounds == 0) return ReportVerdict::vacuous;
  const bool alarm = std::any_of(games.begin(), games.end(), [](const Game& game) { return game.alarm; });
  if (alarm || (token_test && token_test->alarm && !token_test->of_lossy)) return ReportVerdict::bug_stat;
  if (!slower.empty()) return ReportVerdict::perf_regression;
  if (!unproved.empty()) return ReportVerdict::undecided;
  if (!missing.empty()) return ReportVerdict::pass_stat;
  // Tokens that each equal plain decoding's are a proof, whatever was drafted.
  const bool nothing_verified = examined.draft_tokens == 0 && examined.rounds_with_drafts > 0;
  if (nothing_verified) return ReportVerdict::vacuous;
  return target_given ? ReportVerdict::pass_exact : ReportVerdict::pass_stat;
}

TraceReport replay(const std::string& file, const Target& target) {
  TraceReport report;
  report.file = file;
  report.target_given = target.vocabulary > 0;
  report.slack = target.slack;
  try {
    Reader reader(file);
    report.engine = reader.header().engine;
    report.rule = reader.header().rule ? reader.header().rule->name() : "by sequence";
    report.rows = reader.header().rows_file;
    if (report.target_given && target.vocabulary != reader.header().vocabulary) {
      reader.fail("vocabulary", "is " + number(reader.header().vocabulary) + ", but the target's vocabulary has " +
                                    number(target.vocabulary) + " tokens");
    }
    const Header header = reader.header();
    if (header.weights.starts_with("sha256:") && target.weights && target.slack == 0 && target.tie == 0) {
      if (const std::string own = target.weights(); own != header.weights) {
        reader.fail("weights", "is " + in_quotes(header.weights) + ", but the target here is '" + own +
                                   "': the trace was made with other weights; give the target it was made with");
      }
    }
    Replayer replay(header, target, report);
    try {
      while (const auto event = reader.next()) replay.take(*event);
      replay.finish();
    } catch (const TooManyFindings&) {
      replay.report_evidence();
    }
  } catch (const InvalidTrace& wrong) {
    report.invalid = wrong.what();
  }
  return report;
}

}  // namespace draftproof::spectrace
