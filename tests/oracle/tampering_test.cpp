// SPDX-License-Identifier: MIT
// Tests of the checks. Right runs are changed in one place: every field of every round of every run, at every row,
// token, draft token and count it has. Each check that claims the field must flag every single change alone and name
// its place; so no check always passes, skips a round, a run or a row, or examines a wrong row. A field that no check
// claims states why, and a field that is not in the lists does not compile.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <functional>
#include <map>
#include <set>

#include "oracle/checks/checks.h"
#include "zoo/constraint.h"
#include "zoo/zoo_subject.h"

namespace draftproof::tampering_test {
namespace {

using testing::HasSubstr;
using Played = Run;  // inside a test, Run is one of googletest's own functions

constexpr int vocabulary = 4;

/// Hash models that record kernel table and threads of their runs, and whose traces can be changed.
class Changeable final : public Subject {
 public:
  std::function<void(int call, Trace&)> meddle;  // call of the subject, from 0

  Trace run_with_callback(const Request& request, const Variation& variation, RandomSource& random,
                          const OnRound& on_round) override {
    const int call = calls_++;
    Trace trace = sound_.run_with_callback(request, variation, random, on_round);
    trace.kernels = variation.kernels;
    trace.threads = variation.threads;
    if (meddle) meddle(call, trace);
    return trace;
  }
  Model& target(const Variation& variation) override { return sound_.target(variation); }
  std::string numerics(const Variation&) override { return "hash"; }
  int calls() const { return calls_; }

 private:
  zoo::ZooSubject sound_{{.vocabulary = vocabulary, .levels = 3, .seed = 5}};
  int calls_ = 0;
};

Variation with(const char* draft, int draft_max, const Rule& rule, Verification verification = Verification::batched) {
  Variation variation;
  variation.draft = draft;
  variation.draft_max = draft_max;
  variation.rule = &rule;
  variation.verification = verification;
  variation.kernels = "table";
  return variation;
}

Request asked(std::vector<Token> stops) {
  Request request;
  request.prompt = {1, 2, 3, 1};
  request.sampling.temperature = 1;
  request.stops = std::move(stops);
  request.max_new_tokens = 10;
  return request;
}

/// Returns variations with each draft with state in two runs of the same text, so that its state can be compared.
std::vector<Variation> variations(const Rule& rule) {
  return {with("none", 0, rule),
          with("perturbed", 3, rule),
          with("perturbed", 3, rule, Verification::serial),
          with("always-reject", 2, rule),
          with("always-reject", 2, rule, Verification::serial),
          with("scripted:+++/~-0/", 3, rule),
          with("scripted:+++/~-0/", 3, rule, Verification::serial),
          with("scripted:+&*~&*", 4, rule),
          with("scripted:+&*~&*", 4, rule, Verification::serial)};
}

/// The runs to be changed: under both rules, ended by the budget and by a stop token.
struct Input {
  const Rule* rule;
  Request request;
};
std::vector<Input> inputs() {
  std::vector<Input> list;
  for (const Rule* rule : {&matching, &rejection}) {
    for (const std::vector<Token>& stops : {std::vector<Token>{}, {0}}) list.push_back({rule, asked(stops)});
  }
  return list;
}

bool any(const Trial&, const Played&) { return true; }
bool tokens_promised(const Trial&, const Played& run) {
  return run.variation.promises_tokens() || run.variation.draft == "none";
}
bool remembers(const Trial&, const Played& run) { return run.variation.draft != "none"; }
bool is_run_again(const Trial& trial, const Played& run) {
  const auto list = trial.one_per_draft();
  return std::find(list.begin(), list.end(), &run) != list.end();
}

struct Claim {
  const Check* check;
  bool (*of)(const Trial&, const Played&) = any;
  bool names_place = true;
};

/// A way to change one field. `tamper` changes its `place`-th part, or returns false where there is none.
struct RoundField {
  const char* name;
  std::vector<Claim> claims;
  bool (*tamper)(Round&, std::size_t place);
};

Token other(Token token) { return (token + 1) % vocabulary; }

template <class List>
bool dropped(List& list, std::size_t place) {
  if (place > 0 || list.empty()) return false;
  list.pop_back();
  return true;
}

const std::vector<RoundField>& round_fields() {
  static const std::vector<RoundField> list = {
      {"position",
       {{&acceptance_correct}},
       [](Round& round, std::size_t place) { return round.position += place == 0 ? 1 : -1, place < 2; }},
      {"anchor",
       {{&acceptance_correct}},
       [](Round& round, std::size_t place) { return round.anchor = other(round.anchor), place < 1; }},
      {"proposal.tokens",
       {{&acceptance_correct}},
       [](Round& round, std::size_t place) {
         if (place >= round.proposal.tokens.size()) return false;
         round.proposal.tokens[place] = other(round.proposal.tokens[place]);
         return true;
       }},
      {"proposal.tokens",
       {{&acceptance_correct}},
       [](Round& round, std::size_t place) { return dropped(round.proposal.tokens, place); }},
      {"proposal.drawn_from",
       {{&acceptance_correct}},
       [](Round& round, std::size_t place) {
         if (place >= round.proposal.drawn_from.size()) return false;
         round.proposal.drawn_from[place] = Distribution::point(other(round.proposal.tokens[place]));
         return true;
       }},
      {"proposal.drawn_from",
       {{&acceptance_correct}},
       [](Round& round, std::size_t place) { return dropped(round.proposal.drawn_from, place); }},
      {"proposal.depths",
       {{&config_invariance, remembers}},
       [](Round& round, std::size_t place) {
         Proposal& proposal = round.proposal;
         if (place + 1 >= proposal.tokens.size()) return false;
         std::vector<int> depths;
         for (int node = 0; node < proposal.size(); ++node) depths.push_back(proposal.depth(node));
         depths[place + 1] = depths[place + 1] > 0 ? depths[place + 1] - 1 : 1;
         for (std::size_t draft_token = place + 2; draft_token < depths.size(); ++draft_token) {
           depths[draft_token] = std::min(depths[draft_token], depths[draft_token - 1] + 1);
         }
         proposal.depths = depths;
         return true;
       }},
      {"verdict.accepted",
       {{&acceptance_correct}},
       [](Round& round, std::size_t place) { return round.verdict.accepted += place == 0 ? 1 : -1, place < 2; }},
      {"verdict.next",
       {{&acceptance_correct}, {&repeatable, is_run_again}},
       [](Round& round, std::size_t place) { return round.verdict.next = other(round.verdict.next), place < 1; }},
      {"verdict.last",
       {{&acceptance_correct}},
       [](Round& round, std::size_t place) { return round.verdict.last += place == 0 ? 1 : -1, place < 2; }},
      {"emitted",
       {{&acceptance_correct}, {&termination_and_counters}, {&repeatable, is_run_again}},
       [](Round& round, std::size_t place) {
         if (place >= round.emitted.size()) return false;
         round.emitted[place] = other(round.emitted[place]);
         return true;
       }},
      {"emitted",
       {{&acceptance_correct}, {&termination_and_counters, any, false}},
       [](Round& round, std::size_t place) { return round.emitted.push_back(other(round.verdict.next)), place < 1; }},
      // What follows moves into its place.
      {"emitted",
       {{&acceptance_correct, any, false}, {&termination_and_counters, any, false}},
       [](Round& round, std::size_t place) { return dropped(round.emitted, place); }},
      {"accepted",
       {{&termination_and_counters}},
       [](Round& round, std::size_t place) { return round.accepted += place == 0 ? 1 : -1, place < 2; }},
      {"logits",
       {{&logits_equal}, {&repeatable, is_run_again}},
       [](Round& round, std::size_t place) {
         if (place >= std::min(round.logits.size(), round.emitted.size())) return false;
         round.logits[place].low ^= 1;
         return true;
       }},
      {"logits",
       {{&repeatable, is_run_again}, {&config_invariance, remembers}},  // of every row used
       [](Round& round, std::size_t place) {
         if (place >= round.logits.size()) return false;
         round.logits[place].high ^= 1;
         return true;
       }},
      {"targets",
       {{&acceptance_correct}, {&repeatable, is_run_again}},
       [](Round& round, std::size_t place) {
         if (place >= round.targets.size()) return false;
         round.targets[place].low ^= 1;
         return true;
       }},
      {"targets",
       {{&acceptance_correct}},
       [](Round& round, std::size_t place) { return dropped(round.targets, place); }},
      {"cache",
       {{&cache_rollback}, {&repeatable, is_run_again}},
       [](Round& round, std::size_t place) { return round.cache.low ^= 1, place < 1; }},
      {"cache_length",
       {{&cache_rollback}, {&repeatable, is_run_again}},
       [](Round& round, std::size_t place) { return round.cache_length += place == 0 ? 1 : -1, place < 2; }},
      {"positions_before",
       {{&cache_rollback}},
       [](Round& round, std::size_t place) { return round.positions_before += place == 0 ? 1 : -1, place < 2; }},
      {"draft_positions",
       {{&draft_state, remembers}},
       [](Round& round, std::size_t place) {
         if (round.draft_positions.empty()) return false;
         DraftPositions& draft = round.draft_positions.front();
         int* const numbers[] = {&draft.held, &draft.held, &draft.unread, &draft.anchor, &draft.anchor};
         if (place >= (round.proposal.size() == 0 ? 3 : 5)) return false;
         *numbers[place] += place % 2 == 0 ? 1 : -1;
         return true;
       }},
      {"draft",
       {{&draft_state, remembers}},
       [](Round& round, std::size_t place) { return round.draft.low ^= 1, place < 1; }},
  };
  return list;
}

struct TraceField {
  const char* name;
  std::vector<Claim> claims;
  bool (*tamper)(Trace&, std::size_t place);
};

template <auto field>
bool counted_differently(Trace& trace, std::size_t place) {
  return trace.statistics.*field += place == 0 ? 1 : -1, place < 2;
}

const std::vector<TraceField>& trace_fields() {
  static const std::vector<TraceField> list = {
      {"request.prompt",
       {{&termination_and_counters}},
       [](Trace& trace, std::size_t place) {
         if (place >= trace.request.prompt.size()) return false;
         trace.request.prompt[place] = other(trace.request.prompt[place]);
         return true;
       }},
      {"request.sampling",
       {{&termination_and_counters}},
       [](Trace& trace, std::size_t place) {
         std::size_t fields = 0;
         for_each_sampling_field([&](const auto& field) {
           if (fields++ == place) ++(trace.request.sampling.*field.member);
         });
         if (fields++ == place) trace.request.sampling.logit_bias.push_back({1, 0.5F});
         return place < fields;
       }},
      {"request.stops",
       {{&termination_and_counters}},
       [](Trace& trace, std::size_t place) { return trace.request.stops.push_back(3), place < 1; }},
      {"request.max_new_tokens",
       {{&termination_and_counters}},
       [](Trace& trace, std::size_t place) { return ++trace.request.max_new_tokens, place < 1; }},
      {"execution.draft_max",
       {{&termination_and_counters, remembers}},
       [](Trace& trace, std::size_t place) { return trace.execution.draft_max += place == 0 ? 1 : -1, place < 2; }},
      {"execution.prefill_chunk",
       {{&termination_and_counters}},
       [](Trace& trace, std::size_t place) { return ++trace.execution.prefill_chunk, place < 1; }},
      {"execution.verification",
       {{&termination_and_counters}},
       [](Trace& trace, std::size_t place) {
         const bool batched = trace.execution.verification == Verification::batched;
         trace.execution.verification = batched ? Verification::serial : Verification::batched;
         return place < 1;
       }},
      {"request.sequence",
       {{&termination_and_counters}},
       [](Trace& trace, std::size_t place) { return ++trace.request.sequence, place < 1; }},
      {"request.logprobs",
       {{&termination_and_counters}},
       [](Trace& trace, std::size_t place) { return trace.request.logprobs = true, place < 1; }},
      {"request.context_shift",
       {{&termination_and_counters}},
       [](Trace& trace, std::size_t place) {
         return trace.request.context_shift = {8, 0, 1}, place < 1;
       }},
      {"request.constraint",
       {{&termination_and_counters}},
       [](Trace& trace, std::size_t place) {
         trace.request.constraint = zoo::zoo_constraint(6, 100);
         return place < 1;
       }},
      {"request.constrained_prompt",
       {{&termination_and_counters}},
       [](Trace& trace, std::size_t place) { return ++trace.request.constrained_prompt, place < 1; }},
      {"request.top_logprobs",
       {{&termination_and_counters}},
       [](Trace& trace, std::size_t place) { return ++trace.request.top_logprobs, place < 1; }},
      {"request.prompt_logprobs",
       {{&termination_and_counters}},
       [](Trace& trace, std::size_t place) { return trace.request.prompt_logprobs ^= true, place < 1; }},
      {"kernels",
       {{&termination_and_counters}},
       [](Trace& trace, std::size_t place) { return trace.kernels += "s", place < 1; }},
      {"threads",
       {{&termination_and_counters}},
       [](Trace& trace, std::size_t place) { return ++trace.threads, place < 1; }},
      {"output",
       {{&termination_and_counters}, {&tokens_equal, tokens_promised}, {&repeatable, is_run_again}},
       [](Trace& trace, std::size_t place) {
         if (place >= trace.output.size()) return false;
         trace.output[place] = other(trace.output[place]);
         return true;
       }},
      {"output",
       {{&termination_and_counters}, {&tokens_equal, tokens_promised}},
       [](Trace& trace, std::size_t place) { return trace.output.push_back(1), place < 1; }},
      {"output",
       {{&termination_and_counters}, {&tokens_equal, tokens_promised}},
       [](Trace& trace, std::size_t place) { return dropped(trace.output, place); }},
      {"finish",
       {{&termination_and_counters}, {&tokens_equal, tokens_promised}, {&repeatable, is_run_again}},
       [](Trace& trace, std::size_t place) {
         if (place >= 4) return false;
         const auto finish = static_cast<Finish>(place);
         trace.finish = finish == trace.finish ? Finish::cancelled : finish;
         return true;
       }},
      {"rounds",
       {{&termination_and_counters}, {&acceptance_correct}},  // one is missing
       [](Trace& trace, std::size_t place) {
         // Without the last round only termination_and_counters fails.
         if (place + 1 >= trace.rounds.size()) return false;
         trace.rounds.erase(trace.rounds.begin() + static_cast<std::ptrdiff_t>(place));
         return true;
       }},
      {"rounds",
       {{&termination_and_counters}},
       [](Trace& trace, std::size_t place) { return dropped(trace.rounds, place); }},
      {"rounds",
       {{&termination_and_counters}, {&acceptance_correct}},  // one is there twice
       [](Trace& trace, std::size_t place) {
         if (place >= trace.rounds.size()) return false;
         const Round round = trace.rounds[place];
         trace.rounds.insert(trace.rounds.begin() + static_cast<std::ptrdiff_t>(place), round);
         return true;
       }},
      {"rounds",
       {{&acceptance_correct}},  // two have changed places
       [](Trace& trace, std::size_t place) {
         if (place + 1 >= trace.rounds.size()) return false;
         std::swap(trace.rounds[place], trace.rounds[place + 1]);
         return true;
       }},
      {"statistics.rounds", {{&termination_and_counters}}, counted_differently<&Statistics::rounds>},
      {"statistics.iterations", {{&termination_and_counters}}, counted_differently<&Statistics::iterations>},
      {"statistics.drafted", {{&termination_and_counters}}, counted_differently<&Statistics::drafted>},
      {"statistics.accepted", {{&termination_and_counters}}, counted_differently<&Statistics::accepted>},
      {"statistics.mismatches", {{&termination_and_counters}}, counted_differently<&Statistics::mismatches>},
      {"statistics.all_accepted", {{&termination_and_counters}}, counted_differently<&Statistics::all_accepted>},
      {"statistics.batched", {{&termination_and_counters}}, counted_differently<&Statistics::batched>},
      {"statistics.serial", {{&termination_and_counters}}, counted_differently<&Statistics::serial>},
      {"statistics.redecoded", {{&termination_and_counters}}, counted_differently<&Statistics::redecoded>},
      {"final_length",
       {{&termination_and_counters}, {&repeatable, is_run_again}},
       [](Trace& trace, std::size_t place) { return trace.final_length += place == 0 ? 1 : -1, place < 2; }},
      {"final_cache",
       {{&cache_rollback}},
       [](Trace& trace, std::size_t place) { return trace.final_cache.low ^= 1, place < 1; }},
      {"final_draft",
       {{&draft_state, remembers}},
       [](Trace& trace, std::size_t place) { return trace.final_draft.low ^= 1, place < 1; }},
  };
  return list;
}

struct Unclaimed {
  const char* name;
  const char* reason;
};
constexpr Unclaimed unclaimed[] = {
    {"logprobs", "recorded on request only; log_probabilities asks for them, in runs of its own"},
    {"prompt_logprobs", "recorded on request only; log_probabilities asks for them, in runs of its own"},
    {"top_logprobs", "recorded on request only; log_probabilities asks for them, in runs of its own"},
    {"costs", "why proposals have their lengths; every length is right"},
    {"draft_reach", "what the draft was made for; draft_state holds the draft to it, and nothing else depends on it"},
    {"seconds", "a clock says nothing about results"},
    {"proposal.asked", "why proposals have their lengths; every length is right"},
    {"proposal.cut", "draft tokens that were not verified; they decide nothing"},
    {"proposal.forced", "draft tokens that no draft proposed; they are verified like the others"},
    {"reused", "what a prefix cache saved; prefix_reuse compares the rest"},
    {"rows", "evidence for a trace file, recorded on request; there `trace check` holds it to targets"},
    {"statistics.prompt_seconds", "a clock says nothing about results"},
    {"statistics.target_seconds", "a clock says nothing about results"},
    {"statistics.draft_seconds", "a clock says nothing about results"},
    {"own_stages", "names of drafts, for statistics"},
    {"draft_times", "a clock says nothing about results"},
    {"final_positions", "a statistic; draft_state holds those of every round"},
    {"statistics.validate_seconds", "a clock says nothing about results"},
};

/// The names of all fields. Adding a field stops this from compiling: add its name here and a row above.
std::set<std::string> all_fields() {
  const Trace trace;
  [[maybe_unused]] const auto& [request, execution, kernels, threads, costs, draft_reach, reused, prompt_logprobs,
                                output, finish, rounds, statistics, own_stages, draft_times, final_length,
                                final_positions, final_cache, final_draft] = trace;
  [[maybe_unused]] const auto& [prompt, sampling, stops, max_new_tokens, sequence, asked_logprobs, asked_top_logprobs,
                                asked_prompt_logprobs, context_shift, constraint, constrained_prompt] = request;
  [[maybe_unused]] const auto& [draft_max, prefill_chunk, verification] = execution;
  [[maybe_unused]] const auto& [all_rounds, iterations, drafted, accepted, mismatches, all_accepted, batched, serial,
                                redecoded, prompt_seconds, target_seconds, draft_seconds, validate_seconds] =
      statistics;
  const Round round;
  [[maybe_unused]] const auto& [position, anchor, proposal, verdict, emitted, accepted_draft_tokens, logprobs,
                                top_logprobs, seconds, logits, targets, rows, cache, draft, cache_length,
                                positions_before, draft_positions] = round;
  [[maybe_unused]] const auto& [tokens, drawn_from, depths, asked, cut, forced] = proposal;
  [[maybe_unused]] const auto& [accepted_count, next, last] = verdict;
  return {"request.prompt",
          "request.sampling",
          "request.stops",
          "request.max_new_tokens",
          "execution.draft_max",
          "execution.prefill_chunk",
          "execution.verification",
          "request.sequence",
          "request.logprobs",
          "request.top_logprobs",
          "request.prompt_logprobs",
          "request.context_shift",
          "request.constraint",
          "request.constrained_prompt",
          "kernels",
          "threads",
          "costs",
          "draft_reach",
          "reused",
          "prompt_logprobs",
          "output",
          "finish",
          "rounds",
          "statistics.rounds",
          "statistics.iterations",
          "statistics.drafted",
          "statistics.accepted",
          "statistics.mismatches",
          "statistics.all_accepted",
          "statistics.batched",
          "statistics.serial",
          "statistics.redecoded",
          "statistics.prompt_seconds",
          "statistics.target_seconds",
          "statistics.draft_seconds",
          "statistics.validate_seconds",
          "own_stages",
          "draft_times",
          "final_length",
          "final_positions",
          "final_cache",
          "final_draft",
          "position",
          "anchor",
          "proposal.tokens",
          "proposal.drawn_from",
          "proposal.depths",
          "proposal.asked",
          "proposal.cut",
          "proposal.forced",
          "verdict.accepted",
          "verdict.next",
          "verdict.last",
          "emitted",
          "accepted",
          "logprobs",
          "top_logprobs",
          "seconds",
          "logits",
          "targets",
          "rows",
          "cache",
          "draft",
          "cache_length",
          "positions_before",
          "draft_positions"};
}

TEST(Tampering, EveryFieldIsClaimedOrStatesWhyNot) {
  std::set<std::string> listed;
  for (const RoundField& field : round_fields()) listed.insert(field.name);
  for (const TraceField& field : trace_fields()) listed.insert(field.name);
  for (const Unclaimed& field : unclaimed) {
    EXPECT_TRUE(listed.insert(field.name).second) << field.name << " is claimed";
    EXPECT_STRNE(field.reason, "");
  }
  EXPECT_EQ(listed, all_fields());
}

/// "round 7", not the beginning of "round 71".
bool names(const std::string& message, const std::string& word, std::int64_t number) {
  const std::string wanted = word + " " + std::to_string(number);
  for (std::size_t from = message.find(wanted); from != std::string::npos; from = message.find(wanted, from + 1)) {
    const std::size_t end = from + wanted.size();
    if (end == message.size() || message[end] < '0' || message[end] > '9') return true;
  }
  return false;
}

/// The place of a change: a round, the position of its first token, and the positions after it.
struct Place {
  std::string what;
  std::int64_t round = -1;  // -1: the whole trace
  std::int64_t position = -1;
  std::int64_t row = -1;    // of the verification; -1: no single row
  std::int64_t after = -1;  // the position after the round
};

bool names_run(const Played& run, const Finding& finding) {
  return finding.message.find("draft " + run.variation.draft) != std::string::npos;
}

bool is_named(const Place& place, const Finding& finding) {
  const std::string& message = finding.message;
  if (place.round < 0 || finding.check == "termination_and_counters") return true;  // it names the run only
  if (finding.check == "logits_equal") return names(message, "position", place.position + place.row);
  return names(message, "position", place.position) || names(message, "round", place.round) ||
         names(message, "position", place.after);
}

/// Runs a check on a trial whose run `number` was `sound` and was changed in round `round`. A check with a blind spot
/// is given the sound run there.
using Eye = std::function<Finding(const Check* check, Trial& trial, std::size_t number, std::int64_t round,
                                  const Played& sound)>;

Finding sees_all(const Check* check, Trial& trial, std::size_t, std::int64_t, const Played&) {
  return check->examine(trial);
}

/// Changes run `number` of the trial by `tamper`. Returns the claims on it that are not flagged with a message that
/// names the run and the place. `all` counts the claims.
template <class Tamper>
std::vector<std::string> unseen(Trial& trial, std::size_t number, const Place& place, const std::vector<Claim>& claims,
                                Tamper tamper, const Eye& eye, long& all) {
  Played& run = trial.runs[number];
  const Played sound = run;
  std::vector<std::string> list;
  for (const Claim& claim : claims) {
    if (!claim.of(trial, run)) continue;
    ++all;
    tamper(run);
    const Finding finding = eye(claim.check, trial, number, place.round, sound);
    run = sound;
    const bool named = names_run(run, finding) && (!claim.names_place || is_named(place, finding));
    if (!finding.failure || !named) {
      list.push_back(finding.check + " on " + place.what + ", " + run.variation.describe() + ": " + finding.message);
    }
  }
  return list;
}

/// Does so for every field of every round of every run. Returns by check how much was tried and what was missed.
struct Score {
  long asked = 0;
  std::vector<std::string> unseen;
};
std::map<const Check*, Score> scores_of_rounds(Trial& trial, const Eye& eye) {
  std::map<const Check*, Score> scores;
  for (std::size_t number = 0; number < trial.runs.size(); ++number) {
    for (std::size_t i = 0; i < trial.runs[number].trace.rounds.size(); ++i) {
      const Round round = trial.runs[number].trace.rounds[i];
      for (const RoundField& field : round_fields()) {
        Round changed = round;
        for (std::size_t place = 0; field.tamper(changed, place); ++place, changed = round) {
          const Place where = {
              std::string(field.name) + " of round " + std::to_string(i) + ", place " + std::to_string(place),
              static_cast<std::int64_t>(i), round.position, static_cast<std::int64_t>(place),
              round.position + static_cast<std::int64_t>(round.emitted.size())};
          for (const Claim& claim : field.claims) {
            Score& score = scores[claim.check];
            for (std::string& what : unseen(
                     trial, number, where, {claim}, [&](Played& run) { run.trace.rounds[i] = changed; }, eye,
                     score.asked)) {
              score.unseen.push_back(std::move(what));
            }
          }
        }
      }
    }
  }
  return scores;
}

TEST(Tampering, EveryChangedFieldOfARoundIsFoundByEachCheckThatClaimsIt) {
  for (const auto& [rule, request] : inputs()) {
    Changeable subject;
    Trial trial(subject, request, 3, variations(*rule));
    for (const Check* const check : all_checks()) {
      ASSERT_NE(check->examine(trial).outcome, Outcome::fail) << check->examine(trial).message;
    }
    for (const auto& [check, score] : scores_of_rounds(trial, sees_all)) {
      EXPECT_GT(score.asked, 20);
      EXPECT_THAT(score.unseen, testing::IsEmpty());
    }
  }
}

TEST(TamperingSlow, AChangeIsMissedByACheckWithABlindSpot) {
  Changeable subject;
  Trial trial(subject, asked({}), 3, variations(rejection));
  const auto blind = [](auto where) {
    return [where](const Check* check, Trial& changed, std::size_t number, std::int64_t round, const Played& sound) {
      if (where(number, round, static_cast<std::int64_t>(sound.trace.rounds.size()), changed.runs.size())) {
        changed.runs[number] = sound;
      }
      return check->examine(changed);
    };
  };
  const std::pair<const char*, Eye> eyes[] = {
      {"always passes",
       [](const Check* check, Trial& changed, std::size_t number, std::int64_t, const Played& sound) {
         changed.runs[number] = sound;
         return check->examine(changed);
       }},
      {"skips the first round", blind([](auto, auto round, auto, auto) { return round == 0; })},
      {"skips the last round", blind([](auto, auto round, auto rounds, auto) { return round + 1 == rounds; })},
      {"skips every second round", blind([](auto, auto round, auto, auto) { return round % 2 == 1; })},
      {"skips the first draft", blind([](auto run, auto, auto, auto) { return run == 1; })},
      {"skips the last draft", blind([](auto run, auto, auto, auto runs) { return run + 2 >= runs; })},
      {"examines the row after",
       [](const Check* check, Trial& changed, std::size_t number, std::int64_t at, const Played& sound) {
         std::vector<Fingerprint>& rows = changed.runs[number].trace.rounds[at].logits;
         const std::vector<Fingerprint>& was = sound.trace.rounds[at].logits;
         const std::size_t row =
             static_cast<std::size_t>(std::mismatch(rows.begin(), rows.end(), was.begin()).first - rows.begin());
         if (row < rows.size()) {
           rows[row] = was[row];
           rows[(row + 1) % rows.size()].low ^= 1;
         }
         return check->examine(changed);
       }},
  };
  for (const auto& [what, eye] : eyes) {
    for (const auto& [check, score] : scores_of_rounds(trial, eye)) {
      if (what == std::string("examines the row after") && check != &logits_equal) continue;
      EXPECT_THAT(score.unseen, testing::Not(testing::IsEmpty())) << what;
    }
  }
}

TEST(Tampering, EveryChangedFieldOfATraceIsFoundByEachCheckThatClaimsIt) {
  long seen = 0;
  for (const auto& [rule, request] : inputs()) {
    Changeable subject;
    Trial trial(subject, request, 3, variations(*rule));
    for (std::size_t number = 0; number < trial.runs.size(); ++number) {
      for (const TraceField& field : trace_fields()) {
        const Trace trace = trial.runs[number].trace;
        Trace changed = trace;
        for (std::size_t place = 0; field.tamper(changed, place); ++place, changed = trace) {
          const Place where = {std::string(field.name) + ", place " + std::to_string(place)};
          EXPECT_THAT(
              unseen(
                  trial, number, where, field.claims, [&](Played& run) { run.trace = changed; }, sees_all, seen),
              testing::IsEmpty());
        }
      }
    }
  }
  EXPECT_GT(seen, 1000) << "places times the checks that claim them";
}

TEST(Tampering, EveryChangedRecordedDrawIsFound) {
  // The counter is for messages and follows from the keys; the bound is that of weights that acceptance_correct
  // examines.
  [[maybe_unused]] const auto [seed, key, counter, bound] = RecordedDraw{};
  [[maybe_unused]] const auto [sequence, position, purpose, depth] = key;
  const std::vector<std::function<void(std::vector<RecordedDraw>&, std::size_t)>> ways = {
      [](auto& draws, std::size_t i) { ++draws[i].seed; },
      [](auto& draws, std::size_t i) { ++draws[i].key.sequence; },
      [](auto& draws, std::size_t i) { ++draws[i].key.position; },
      [](auto& draws, std::size_t i) { --draws[i].key.position; },
      [](auto& draws, std::size_t i) { ++draws[i].key.depth; },
      [](auto& draws, std::size_t i) {
        draws[i].key.purpose = static_cast<Purpose>((static_cast<int>(draws[i].key.purpose) + 1) % 4);
      },
      [](auto& draws, std::size_t i) { draws.erase(draws.begin() + static_cast<std::ptrdiff_t>(i)); },
      [](auto& draws, std::size_t i) {
        draws.insert(draws.begin() + static_cast<std::ptrdiff_t>(i), {3, {0, 99, Purpose::accept}, 0, 7});
      },
  };
  long seen = 0;
  for (const auto& [rule, request] : inputs()) {
    if (!request.stops.empty()) continue;  // a trace does not show whether draft tokens after a stop token were drawn
    Changeable subject;
    Trial trial(subject, request, 3, variations(*rule));
    for (std::size_t number = 0; number < trial.runs.size(); ++number) {
      const std::vector<RecordedDraw>& draws = trial.runs[number].draws;
      for (std::size_t i = 0; i < draws.size(); ++i) {
        // A number that is used twice in a row, by the draft and by the target, may be recorded once.
        const bool twice =
            (i > 0 && draws[i - 1].key == draws[i].key) || (i + 1 < draws.size() && draws[i + 1].key == draws[i].key);
        for (std::size_t way = 0; way < ways.size() && !twice; ++way) {
          EXPECT_THAT(unseen(
                          trial, number, {"way " + std::to_string(way) + ", entry " + std::to_string(i)},
                          {{&rng_accounting}}, [&](Played& run) { ways[way](run.draws, i); }, sees_all, seen),
                      testing::IsEmpty());
        }
      }
    }
  }
  EXPECT_GT(seen, 1000);
}

using Change = std::function<void(Trace&)>;

/// Returns every way in which two runs can differ, at every place; see oracle/checks/same_run.h.
std::vector<Change> differences(const Trace& trace) {
  std::vector<Change> list;
  for (std::size_t i = 0; i < trace.rounds.size(); ++i) {
    for (const RoundField& field : round_fields()) {
      for (const Claim& claim : field.claims) {
        if (claim.check != &repeatable) continue;
        Round changed = trace.rounds[i];
        for (std::size_t place = 0; field.tamper(changed, place); ++place, changed = trace.rounds[i]) {
          list.push_back([i, changed](Trace& other) { other.rounds[i] = changed; });
        }
      }
    }
  }
  for (std::size_t i = 0; i < trace.output.size(); ++i) {
    list.push_back([i](Trace& other) { other.output[i] = (other.output[i] + 1) % vocabulary; });
  }
  list.push_back([](Trace& other) { other.output.push_back(1); });
  list.push_back([](Trace& other) { ++other.final_length; });
  return list;
}

/// Runs the check once for every difference in every run that it makes itself, and expects each to be flagged.
void expect_every_repeated_run_is_examined(const Check* check, const Rule& rule) {
  Request request = asked({});
  request.max_new_tokens = 6;
  const std::vector<Variation> list = {with("perturbed", 2, rule), with("none", 0, rule)};
  Changeable listening;
  std::map<int, Trace> traces;  // by call
  listening.meddle = [&](int call, Trace& trace) { traces[call] = trace; };
  Trial sound(listening, request, 3, list);
  traces.clear();  // from now on these are the check's own runs
  const Finding found = check->examine(sound);
  ASSERT_EQ(found.outcome, Outcome::pass) << found.message;
  ASSERT_FALSE(traces.empty());
  for (const auto& [call, trace] : traces) {
    std::vector<Change> changes = differences(trace);
    // The text that begins the same is run for the state it leaves; only its first row is changed here.
    if (check == &repeatable && trace.request.prompt != request.prompt) {
      changes = {[](Trace& other) { other.rounds[0].logits[0].low ^= 1; }};
    }
    for (const Change& change : changes) {
      Changeable subject;
      subject.meddle = [&, call = call](int now, Trace& trace) {
        if (now == call) change(trace);
      };
      Trial trial(subject, request, 3, list);
      const Finding finding = check->examine(trial);
      EXPECT_EQ(finding.outcome, Outcome::fail) << finding.check << ", call " << call;
    }
  }
}

TEST(Tampering, EveryDifferenceInARepeatedRunIsFound) {
  for (const Rule* rule : {&matching, &rejection}) {
    for (const Check* const check : {&repeatable, &chunked_prefill_and_resume, &sequence_isolation}) {
      expect_every_repeated_run_is_examined(check, *rule);
    }
  }
}

/// The sound target except for one bit of one row in one of its passes.
class OneBitOff final : public OneByOneModel {
 public:
  OneBitOff(Model& sound, int pass, std::size_t row) : sound_(sound), pass_(pass), row_(row) {}
  int passes = 0;
  std::size_t rows = 0;  // of that pass

  int vocabulary() const override { return sound_.vocabulary(); }
  int context() const override { return sound_.context(); }
  std::unique_ptr<Cache> new_cache(int capacity, int max_pending_rows) const override {
    return sound_.new_cache(capacity, max_pending_rows);
  }

 private:
  void forward_one(const Segment& segment, Outputs& outputs) override {
    forward_alone(sound_, segment, outputs);
    if (passes++ != pass_) return;
    rows = outputs.logits.size() / static_cast<std::size_t>(vocabulary());
    if (row_ < rows) outputs.logits[row_ * static_cast<std::size_t>(vocabulary())] += 1;
  }

  Model& sound_;
  int pass_;
  std::size_t row_;
};

TEST(Tampering, EveryChangedRowOfBatchInvarianceIsFound) {
  Changeable told;
  Request request = asked({});
  request.max_new_tokens = 6;
  int seen = 0;
  for (int pass = 0, passes = 1; pass < passes; ++pass) {
    for (std::size_t row = 0, rows_of_pass = 1; row < rows_of_pass; ++row) {
      class Off final : public Subject {
       public:
        Off(Changeable& sound, int at_pass, std::size_t at_row)
            : model(sound.target({}), at_pass, at_row), sound_(sound) {}
        Trace run_with_callback(const Request& r, const Variation& v, RandomSource& c, const OnRound& a) override {
          return sound_.run_with_callback(r, v, c, a);
        }
        Model& target(const Variation&) override { return model; }
        std::string numerics(const Variation&) override { return "hash"; }
        OneBitOff model;

       private:
        Changeable& sound_;
      } subject(told, pass, row);
      Trial trial(subject, request, 3, {with("none", 0, matching)});
      const Finding finding = batch_invariance.examine(trial);
      passes = subject.model.passes;
      rows_of_pass = subject.model.rows;
      seen += finding.outcome == Outcome::fail;
    }
  }
  EXPECT_EQ(seen, 8 * 6) << "rows of plain decoding and of seven readings, except the rows of wrong draft tokens";
}

TEST(Tampering, EveryChangedLogprobIsFound) {
  Request request = asked({});
  std::vector<Variation> list = {with("none", 0, matching), with("perturbed", 2, matching)};
  list[1].threads = 2;  // another number of threads, so another run with logprobs
  const std::pair<const char*, void (*)(Round&)> changes[] = {
      {"logprob", [](Round& round) { round.logprobs.at(0) += 0x1p-50; }},
      {"most likely", [](Round& round) { round.top_logprobs.at(0).at(0).token ^= 1; }},
      {"last of the most likely", [](Round& round) { round.top_logprobs.at(0).back().logprob += 0x1p-50; }},
      {"one too few", [](Round& round) { round.top_logprobs.at(0).pop_back(); }},
      {"order", [](Round& round) { std::swap(round.top_logprobs.at(0).at(0), round.top_logprobs.at(0).at(1)); }},
      {"none", [](Round& round) { round.top_logprobs.clear(); }},
  };
  for (const auto& [what, change] : changes) {
    for (const int call : {2, 3}) {
      for (int round = 0; round < request.max_new_tokens; ++round) {
        Changeable subject;
        subject.meddle = [&, apply = change](int now, Trace& trace) {
          if (now == call) apply(trace.rounds.at(static_cast<std::size_t>(round)));
        };
        Trial trial(subject, request, 3, list);
        const Finding finding = log_probabilities.examine(trial);
        EXPECT_EQ(finding.outcome, Outcome::fail) << what << ", round " << round << " of call " << call;
        EXPECT_TRUE(names(finding.message, "position", 4 + round)) << what << ": " << finding.message;
      }
    }
  }
}

TEST(Tampering, EveryChangedLogprobOfThePromptIsFound) {
  const Request request = asked({});
  const std::pair<const char*, void (*)(std::vector<PromptLogprob>&, std::size_t)> changes[] = {
      {"logprob", [](auto& prompt, std::size_t i) { prompt.at(i).logprob += 0x1p-50; }},
      {"rank", [](auto& prompt, std::size_t i) { ++prompt.at(i).rank; }},
      {"most likely", [](auto& prompt, std::size_t i) { prompt.at(i).top.at(0).token ^= 1; }},
      {"one too few", [](auto& prompt, std::size_t i) { prompt.at(i).top.pop_back(); }},
      {"none from here", [](auto& prompt, std::size_t i) { prompt.resize(i); }},
      {"one too many", [](auto& prompt, std::size_t) { prompt.push_back(prompt.back()); }},
  };
  for (const auto& [what, change] : changes) {
    for (std::size_t place = 0; place + 1 < request.prompt.size(); ++place) {
      Changeable subject;
      subject.meddle = [&, apply = change](int now, Trace& trace) {
        if (now == 2) apply(trace.prompt_logprobs, place);
      };
      Trial trial(subject, request, 3, {with("none", 0, matching), with("perturbed", 2, matching)});
      const Finding finding = log_probabilities.examine(trial);
      EXPECT_EQ(finding.outcome, Outcome::fail) << what << ", place " << place;
      if (std::string(what).starts_with("none") || std::string(what).starts_with("one too many")) continue;
      EXPECT_TRUE(names(finding.message, "position", static_cast<int>(place) + 1)) << what << ": " << finding.message;
    }
  }
}

TEST(Tampering, APassReportsHowMuchWasExamined) {
  for (const auto& [rule, request] : inputs()) {
    Changeable subject;
    Trial trial(subject, request, 3, variations(*rule));
    long rounds = 0;
    long rows = 0;
    long answers = 0;
    long promised = 0;
    for (const Played& run : trial.runs) {
      rounds += static_cast<long>(run.trace.rounds.size());
      for (const Round& round : run.trace.rounds) rows += static_cast<long>(round.emitted.size());
      answers += static_cast<long>(run.draws.size());
      promised += tokens_promised(trial, run);
    }
    const auto says = [&](const Check* check, long number) {
      EXPECT_THAT(check->examine(trial).message, testing::StartsWith(std::to_string(number) + " "));
    };
    says(&tokens_equal, promised);
    says(&logits_equal, rows);
    says(&acceptance_correct, rounds);
    says(&cache_rollback, rounds);
    says(&batch_invariance, 7);
    says(&rng_accounting, answers);
    says(&repeatable, 2 * 5);
    says(&sequence_isolation, 5);
    says(&termination_and_counters, static_cast<long>(trial.runs.size()));
    const auto first_runs = trial.one_per_draft();
    const auto with_logprobs = 1 + std::ranges::count_if(first_runs, [&](const Played* run) {
                                 return run->variation.draft != "none" && trial.promises_tokens(run->variation);
                               });
    const auto tokens = std::ssize(request.prompt) - 1 + std::ssize(trial.plain_run(trial.runs[0].variation).output);
    says(&log_probabilities, with_logprobs * tokens);
  }
}

}  // namespace
}  // namespace draftproof::tampering_test
