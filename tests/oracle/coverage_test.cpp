// SPDX-License-Identifier: MIT
// Short traces written by hand, each with all events that are counted in it and no others.
#include "oracle/exact/coverage.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <limits>
#include <memory>
#include <set>

#include "ref/acceptance/sampler.h"
#include "tests/oracle/constant_model.h"
#include "zoo/constraint.h"

namespace draftproof::coverage_test {
namespace {

using enum CoverageEvent;
using Counts = std::map<CoverageEvent, long>;

constexpr float never = -std::numeric_limits<float>::infinity();
const std::vector<float> row = {2, 1, 0, never};  // 67, 24, 9 and 0 in a hundred
const Distribution p = compute_distribution(row, {.temperature = 1}, {});
const Distribution flat = compute_distribution(std::vector<float>(4, 0.0F), {.temperature = 1}, {});
const Distribution of_two = compute_distribution(std::vector<float>{never, 0, 0, never}, {.temperature = 1}, {});
Distribution only(Token token) { return Distribution::point(token); }

struct Told {
  std::vector<Token> draft_tokens;
  std::vector<Distribution> drawn_from;
  int accepted;
  std::vector<Token> emitted;
  std::vector<int> depths = {};
  int last = accepted - 1;
};

Request asked(float repeat_penalty = 1) {
  Request request;
  request.prompt = {1};
  request.sampling = {.temperature = 1, .repeat_penalty = repeat_penalty};
  request.stops = {0};
  request.max_new_tokens = 6;
  return request;
}

Trace trace_of(const std::vector<Told>& rounds, Finish finish) {
  Trace trace;
  trace.finish = finish;
  for (const Told& told : rounds) {
    Round round;
    round.proposal = {told.draft_tokens, told.drawn_from, told.depths};
    round.verdict = {told.accepted, 0, told.last};
    round.emitted = told.emitted;
    trace.rounds.push_back(std::move(round));
  }
  return trace;
}

Counts counts_of(const Coverage& met) {
  Counts counts;
  for (CoverageEvent event{}; event != CoverageEvent::count;
       event = static_cast<CoverageEvent>(static_cast<int>(event) + 1)) {
    if (met[event] > 0) counts[event] = met[event];
  }
  return counts;
}

Counts counts_in(const Trace& trace, const Rule& rule = rejection, const Request& request = asked()) {
  ConstantModel target(row);
  Variation variation;
  variation.rule = &rule;
  CoverageCounter watch(target, request, variation);
  watch.add(trace);
  return counts_of(watch.met());
}

struct History {
  std::vector<Told> rounds;
  Counts expected;
  Finish finish = Finish::length;
  float repeat_penalty = 1;
  std::shared_ptr<const Constraint> constraint = {};
};

/// Lets texts of an odd sum end with token 0 or go on.
std::shared_ptr<const Constraint> optional_ends() { return zoo::zoo_constraint(4, 6, {0}); }

const std::vector<History>& histories() {
  static const std::vector<History> list = {
      {{}, {{cut, 1}}},
      {{}, {{stopped, 1}}, Finish::stop},
      // Accepted draft tokens: with p >= q, by coin, at every depth.
      {{{{1, 2}, {p, flat}, 2, {1, 2, 1}}},
       {{first_accepted, 1},
        {second_accepted, 1},
        {all_accepted, 1},
        {q_is_p, 1},
        {q_is_other, 1},
        {accepted_by_coin, 1},
        {cut, 1}}},
      {{{{1, 1, 1, 1}, {p, p, p, p}, 4, {1, 1, 1, 1, 2}}},
       {{first_accepted, 1},
        {second_accepted, 1},
        {third_accepted, 1},
        {fourth_accepted, 1},
        {all_accepted, 1},
        {q_is_p, 4},
        {cut, 1}}},
      // Rejected draft tokens: at every depth, in consecutive rounds and not.
      {{{{3}, {only(3)}, 0, {1}}, {{3}, {only(3)}, 0, {2}}},
       {{first_rejected, 2},
        {rejected_twice, 1},
        {p_is_zero, 2},
        {q_is_point, 2},
        {several_residual_tokens, 2},
        {cut, 1}}},
      {{{{3}, {only(3)}, 0, {1}}, {{1}, {p}, 1, {1, 2}}, {{3}, {only(3)}, 0, {2}}},
       {{first_rejected, 2},
        {first_accepted, 1},
        {all_accepted, 1},
        {p_is_zero, 2},
        {q_is_point, 2},
        {q_is_p, 1},
        {several_residual_tokens, 2},
        {cut, 1}}},
      {{{{1, 2}, {p, of_two}, 1, {1, 1}}},
       {{first_accepted, 1},
        {second_rejected, 1},
        {q_is_p, 1},
        {q_is_other, 1},
        {rejected_by_coin, 1},
        {one_residual_token, 1},
        {cut, 1}}},
      {{{{1, 1, 1, 2}, {p, p, p, flat}, 3, {1, 1, 1, 1}}},
       {{first_accepted, 1},
        {second_accepted, 1},
        {third_accepted, 1},
        {fourth_rejected, 1},
        {q_is_p, 3},
        {q_is_other, 1},
        {rejected_by_coin, 1},
        {one_residual_token, 1},
        {cut, 1}}},
      // Numbers of draft tokens: another number, none, or what the budget leaves.
      {{{{1}, {p}, 1, {1, 1}}, {{1, 1}, {p, p}, 2, {1, 1, 1}}},
       {{first_accepted, 2}, {second_accepted, 1}, {all_accepted, 2}, {q_is_p, 3}, {other_length, 1}, {cut, 1}}},
      {{{{}, {}, 0, {1}}, {{1}, {p}, 1, {1, 1}}, {{}, {}, 0, {1}}, {{}, {}, 0, {1}}, {{}, {}, 0, {1}}},
       {{first_accepted, 1},
        {all_accepted, 1},
        {q_is_p, 1},
        {nothing_drafted, 3},
        {nothing_drafted_after_all, 1},
        {cut, 1}}},
      {{{{1, 1, 1, 1}, {p, p, flat, p}, 2, {1, 1, 2}}, {{1, 1}, {p, p}, 2, {1, 1, 1}}},
       {{first_accepted, 2},
        {second_accepted, 2},
        {third_rejected, 1},
        {all_accepted, 1},
        {q_is_p, 4},
        {q_is_other, 1},
        {rejected_by_coin, 1},
        {one_residual_token, 1},
        {cut_by_budget, 1},
        {budget_filled, 1},
        {cut, 1}}},
      // Stop tokens: an accepted draft token, a rejected one, its replacement, and the bonus token.
      {{{{0}, {p}, 1, {0}}}, {{first_accepted, 1}, {q_is_p, 1}, {stop_accepted, 1}, {stopped, 1}}, Finish::stop},
      {{{{0}, {only(0)}, 0, {1}}},
       {{first_rejected, 1},
        {q_is_point, 1},
        {stop_rejected, 1},
        {rejected_by_coin, 1},
        {several_residual_tokens, 1},
        {cut, 1}}},
      {{{{3}, {only(3)}, 0, {0}}},
       {{first_rejected, 1},
        {p_is_zero, 1},
        {q_is_point, 1},
        {several_residual_tokens, 1},
        {stop_after_rejection, 1},
        {stopped, 1}},
       Finish::stop},
      {{{{1}, {p}, 1, {1, 0}}},
       {{first_accepted, 1}, {all_accepted, 1}, {q_is_p, 1}, {stop_after_all, 1}, {stopped, 1}},
       Finish::stop},
      // Trees: an accepted sibling, and a token below it; an accepted sibling below an accepted sibling; none.
      {{{{3, 1, 1}, {only(3), only(1), p}, 2, {1, 1, 2}, {0, 0, 1}, 2}},
       {{first_rejected, 1},
        {second_accepted, 1},
        {all_accepted, 1},
        {p_is_zero, 1},
        {q_is_point, 1},
        {q_is_p, 1},
        {several_residual_tokens, 1},
        {sibling_accepted, 1},
        {accepted_below_sibling, 1},
        {cut, 1}}},
      {{{{3, 1, 3, 2}, {only(3), only(1), only(3), only(2)}, 2, {1, 2, 2}, {0, 0, 1, 1}, 3}},
       {{first_rejected, 1},
        {second_rejected, 1},
        {all_accepted, 1},
        {p_is_zero, 2},
        {q_is_point, 2},
        {several_residual_tokens, 2},
        {sibling_accepted, 2},
        {sibling_accepted_below, 1},
        {cut, 1}}},
      {{{{3, 1}, {only(3), only(1)}, 0, {2}, {0, 0}}},
       {{first_rejected, 1},
        {p_is_zero, 1},
        {q_is_point, 1},
        {several_residual_tokens, 1},
        {no_sibling_accepted, 1},
        {cut, 1}}},
      // Row 1 sees a penalized draft token; the prompt's token was penalized before.
      {{{{2}, {only(2)}, 1, {2, 2}}},
       {{first_accepted, 1}, {all_accepted, 1}, {q_is_point, 1}, {accepted_by_coin, 1}, {cut, 1}}},
      {{{{0}, {only(0)}, 1, {0, 2}}},
       {{first_accepted, 1},
        {all_accepted, 1},
        {q_is_point, 1},
        {accepted_by_coin, 1},
        {penalized_by_draft, 1},
        {cut, 1}},
       Finish::length,
       1.5F},
      {{{{1}, {only(1)}, 1, {1, 2}}},
       {{first_accepted, 1}, {all_accepted, 1}, {q_is_point, 1}, {accepted_by_coin, 1}, {cut, 1}},
       Finish::length,
       1.5F},
      // A drafted stop token where the text may go on: accepted, and rejected.
      {{{{}, {}, 0, {1}}, {{0}, {only(0)}, 1, {0}}},
       {{nothing_drafted, 1},
        {first_accepted, 1},
        {q_is_point, 1},
        {accepted_by_coin, 1},
        {stop_accepted, 1},
        {optional_end_accepted, 1},
        {stopped, 1}},
       Finish::stop,
       1,
       optional_ends()},
      {{{{}, {}, 0, {1}}, {{0}, {only(0)}, 0, {1}}},
       {{nothing_drafted, 1},
        {first_rejected, 1},
        {q_is_point, 1},
        {rejected_by_coin, 1},
        {stop_rejected, 1},
        {one_residual_token, 1},
        {optional_end_rejected, 1},
        {cut, 1}},
       Finish::length,
       1,
       optional_ends()},
  };
  return list;
}

bool of_rejection_only(CoverageEvent event) {
  return event == accepted_by_coin || event == rejected_by_coin || event == one_residual_token ||
         event == several_residual_tokens;
}

bool of_trees_only(CoverageEvent event) { return event >= sibling_accepted && event <= no_sibling_accepted; }

bool of_constraints_only(CoverageEvent event) { return event > no_sibling_accepted; }

constexpr Possible everything = {.rejection = true, .trees = true, .constraints = true};

TEST(Coverage, CountsTheEventsOfATraceAndNoOthers) {
  for (std::size_t i = 0; i < histories().size(); ++i) {
    const History& history = histories()[i];
    const Trace trace = trace_of(history.rounds, history.finish);
    Request request = asked(history.repeat_penalty);
    request.constraint = history.constraint;
    EXPECT_EQ(counts_in(trace, rejection, request), history.expected) << i;
    Counts without;
    for (const auto& [event, times] : history.expected) {
      if (!of_rejection_only(event)) without[event] = times;
    }
    EXPECT_EQ(counts_in(trace, matching, request), without) << i;
  }
}

TEST(Coverage, EveryEventHasATraceAndAUniqueName) {
  std::set<CoverageEvent> seen;
  for (const History& history : histories()) {
    for (const auto& [event, times] : history.expected) seen.insert(event);
  }
  EXPECT_EQ(seen.size(), static_cast<std::size_t>(CoverageEvent::count));
  std::set<std::string> names;
  for (const CoverageEvent event : seen) EXPECT_TRUE(names.insert(name_of(event)).second) << name_of(event);
}

TEST(Coverage, MissingEventsArePossibleAndNeverMet) {
  Coverage nothing;
  EXPECT_EQ(nothing.missing(everything).size(), static_cast<std::size_t>(CoverageEvent::count));
  EXPECT_EQ(nothing.missing({.trees = true}).size(), static_cast<std::size_t>(CoverageEvent::count) - 6);
  EXPECT_EQ(nothing.missing({.rejection = true}).size(), static_cast<std::size_t>(CoverageEvent::count) - 6);
  EXPECT_EQ(nothing.missing({.constraints = true}).size(), static_cast<std::size_t>(CoverageEvent::count) - 8);
  for (CoverageEvent event{}; event != CoverageEvent::count;
       event = static_cast<CoverageEvent>(static_cast<int>(event) + 1)) {
    Coverage all_but_one;
    for (CoverageEvent other{}; other != CoverageEvent::count;
         other = static_cast<CoverageEvent>(static_cast<int>(other) + 1)) {
      if (other != event) all_but_one.add(other, 2);
    }
    EXPECT_THAT(all_but_one.missing(everything), testing::ElementsAre(event));
    const bool elsewhere = of_constraints_only(event);
    EXPECT_EQ(all_but_one.missing({.trees = true}).size(), of_rejection_only(event) || elsewhere ? 0U : 1U);
    EXPECT_EQ(all_but_one.missing({.rejection = true}).size(), of_trees_only(event) || elsewhere ? 0U : 1U);
    EXPECT_EQ(all_but_one.rarest(everything), event);
    Coverage once;
    once.add(event);
    all_but_one.add(once);
    EXPECT_THAT(all_but_one.missing(everything), testing::IsEmpty());
    EXPECT_EQ(all_but_one.rarest(everything), event);
  }
}

TEST(Coverage, IgnoresAnInconsistentRoundAndWhatFollows) {
  const Told sound = {{1}, {p}, 1, {1, 1}};
  const Counts of_sound = {{first_accepted, 1}, {all_accepted, 1}, {q_is_p, 1}};
  for (const Told& wrong : std::vector<Told>{{{1}, {p}, 2, {1, 1}},
                                             {{1}, {p}, -1, {1}},
                                             {{1}, {}, 1, {1, 1}},
                                             {{1}, {p}, 1, {}},
                                             {{4}, {only(4)}, 0, {1}},
                                             {{-1}, {only(1)}, 0, {1}},
                                             {{1}, {p}, 1, {1, 4}}}) {
    EXPECT_EQ(counts_in(trace_of({sound, wrong, sound}, Finish::length)), of_sound);
  }
  const Told long_one = {{}, {}, 0, {1, 1, 1, 1}};
  EXPECT_EQ(
      counts_in(trace_of({sound, long_one, sound}, Finish::length)),
      (Counts{
          {first_accepted, 1}, {all_accepted, 1}, {q_is_p, 1}, {nothing_drafted, 1}, {nothing_drafted_after_all, 1}}))
      << "nothing is counted after the budget";
}

}  // namespace
}  // namespace draftproof::coverage_test
