// SPDX-License-Identifier: MIT
// Many sequences in one pass: each gets what it gets alone, whatever the others do.
#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <numeric>
#include <random>

#include "ref/base/error.h"
#include "ref/decoding/batch_run.h"
#include "ref/decoding/scheduler.h"
#include "tests/decoding/support.h"

namespace draftproof::scheduler_test {
namespace {

constexpr int vocabulary = 5;
constexpr std::uint64_t seed = 11;

/// Makes one model's drafts propose and observe together.
class Pool {
 public:
  Pool()
      : target_(make_hash_model({.vocabulary = vocabulary, .levels = 3, .seed = 3})),
        perturbed_(make_hash_model(disagreeing({.vocabulary = vocabulary, .levels = 3, .seed = 3}))),
        drafter_(*perturbed_) {}
  Model& target() { return *target_; }
  Model& perturbed() { return *perturbed_; }
  Drafter& drafter() { return drafter_; }

 private:
  std::unique_ptr<Model> target_;
  std::unique_ptr<Model> perturbed_;
  ModelDrafter drafter_;
};

/// What one sequence is asked for.
struct Input {
  Asked asked;
  int draft = 0;  // 0: none; 1: a model of its own; 2: a model together with others; 3: rejected; 4: accepted; 5: trees
  const Rule* rule = &matching;
};

/// A sequence with all that belongs to it.
struct Player {
  Player(Pool& pool, const Input& input, Recording recording = Recording::digests) : random(seed) {
    const Asked& asked = input.asked;
    const int capacity = static_cast<int>(asked.prompt.size()) + asked.max_new_tokens;
    switch (input.draft) {
      case 0: draft = std::make_unique<NoDraft>(); break;
      case 1: draft = std::make_unique<ModelDraft>(pool.perturbed(), capacity, asked.draft_max); break;
      case 2: draft = pool.drafter().open(capacity, asked.draft_max); break;
      case 3: draft = std::make_unique<AlwaysRejectDraft>(pool.target(), capacity, asked.draft_max); break;
      case 4: draft = std::make_unique<PerfectDraft>(pool.target(), capacity, asked.draft_max); break;
      default:
        draft = std::make_unique<TreeDraft>(pool.perturbed(), capacity, asked.draft_max,
                                            plain_text(pool.target(), asked), true);
    }
    const Collaborators with = {.target = pool.target(),
                                .draft = *draft,
                                .rule = *input.rule,
                                .random = random,
                                .drafter = input.draft == 2 ? &pool.drafter() : nullptr,
                                .draft_name = input.draft == 0 ? "" : "draft " + std::to_string(input.draft)};
    sequence = std::make_unique<Sequence>(with, asked, asked, recording);
  }

  static std::vector<Token> plain_text(Model& target, const Asked& asked) {
    std::vector<Token> text = asked.prompt;
    const std::vector<Token> output = plain_output(target, asked, seed);
    text.insert(text.end(), output.begin(), output.end());
    return text;
  }

  PhiloxSource random;
  std::unique_ptr<Draft> draft;
  std::unique_ptr<Sequence> sequence;
};

Trace alone(Pool& pool, const Input& input) {
  Player player(pool, input);
  Scheduler scheduler(pool.target());
  scheduler.add(*player.sequence);
  while (scheduler.step()) {
  }
  return player.sequence->trace();
}

/// Sequences that differ in everything: prompt, sampling, stops, budget, draft, rule, execution.
std::vector<Input> different_inputs() {
  std::vector<Input> list;
  const Sampling samplings[] = {
      {},
      {.temperature = 1},
      {.temperature = 0.7F, .top_k = 3},
      {.temperature = 1.5F, .repeat_penalty = 1.5F, .frequency_penalty = 0.5F, .repeat_last_n = 3}};
  for (int i = 0; i < 14; ++i) {
    Input input;
    for (int k = 0; k <= (i * 5) % 11; ++k) input.asked.prompt.push_back((i + k * k) % vocabulary);
    input.asked.sampling = samplings[i % 4];
    if (i % 3 == 1) input.asked.stops = {i % vocabulary};
    input.asked.max_new_tokens = 3 + (i * 7) % 13;
    input.asked.sequence = i;
    input.asked.logprobs = i % 5 == 2;
    input.asked.prompt_logprobs = i >= 12;  // which reuse nothing of their prompts
    input.asked.draft_max = 1 + i % 4;
    input.asked.prefill_chunk = i % 4;
    input.draft = i % 6;
    input.rule = i % 4 < 2 ? &matching : i % 8 < 4 ? &rejection : &block;
    if (i % 5 >= 3) input.asked.context_shift = {.context = 4 + i % 5, .keep = i % 3, .discard = 1 + i % 2};
    list.push_back(input);
  }
  return list;
}

/// Returns a message when one of the sequences is not what it is alone.
std::string fault_of(std::span<const Trace> expected, std::span<const std::unique_ptr<Player>> players) {
  for (std::size_t i = 0; i < players.size(); ++i) {
    if (players[i]->sequence->error()) return "sequence " + std::to_string(i) + " failed";
    if (const std::string fault = difference(players[i]->sequence->trace(), expected[i]); !fault.empty()) {
      return "sequence " + std::to_string(i) + ": " + fault;
    }
  }
  return "";
}

std::vector<std::unique_ptr<Player>> players_of(Pool& pool, std::span<const Input> inputs) {
  std::vector<std::unique_ptr<Player>> players;
  for (const Input& input : inputs) players.push_back(std::make_unique<Player>(pool, input));
  return players;
}

class Batches : public ::testing::Test {
 protected:
  void SetUp() override {
    for (const Input& input : inputs_) expected_.push_back(alone(pool_, input));
  }
  /// Runs the first `count` sequences by this timetable.
  SchedulerCounts run(std::size_t count, const SchedulerLimits& limits, const CacheCost& cost,
                      const std::function<Timetable(std::size_t)>& timetable) {
    const auto players = players_of(pool_, std::span(inputs_).first(count));
    std::vector<Scheduled> scheduled;
    for (std::size_t i = 0; i < count; ++i) scheduled.push_back({players[i]->sequence.get(), cost, timetable(i)});
    Scheduler scheduler(pool_.target(), limits);
    run_batch(scheduler, scheduled);
    EXPECT_EQ(fault_of(std::span(expected_).first(count), players), "");
    EXPECT_EQ(scheduler.running() + scheduler.waiting(), 0);
    return scheduler.counts();
  }

  Pool pool_;
  std::vector<Input> inputs_ = different_inputs();
  std::vector<Trace> expected_;
};

TEST_F(Batches, GiveEverySequenceWhatItGetsAloneInEveryOrderOfJoining) {
  std::array<int, 4> order = {0, 1, 2, 3};
  long orders = 0;
  do {
    for (const int gap : {0, 1, 3}) {
      const SchedulerCounts counts =
          run(4, {}, {}, [&](std::size_t i) { return Timetable{.joins_after = gap * order[i]}; });
      EXPECT_GT(counts.shared, 0);
      ++orders;
    }
  } while (std::next_permutation(order.begin(), order.end()));
  EXPECT_EQ(orders, 72);
}

TEST_F(Batches, GiveEverySequenceWhatItGetsAloneUnderEveryLimit) {
  for (const int rows : {1, 2, 3, 5, 8, 13, 64}) {
    for (const int running : {1, 2, 5, 100}) {
      const SchedulerCounts counts = run(inputs_.size(), {.rows_per_pass = rows, .running_max = running}, {},
                                         [](std::size_t) { return Timetable{}; });
      EXPECT_EQ(counts.shared > 0, running > 1 && rows > 1) << rows << " rows, " << running << " running";
      EXPECT_EQ(counts.preemptions, 0);
    }
  }
}

TEST_F(Batches, PreemptWhatDoesNotFitAndResumeItWithTheSameBits) {
  const CacheCost cost{.fixed = 10, .per_position = 1};
  long preemptions = 0;
  for (const std::uint64_t bytes : {40, 60, 90, 150}) {
    const SchedulerCounts counts = run(inputs_.size(), {.cache_bytes = bytes}, cost,
                                       [](std::size_t i) { return Timetable{.joins_after = static_cast<int>(i)}; });
    preemptions += counts.preemptions;
  }
  EXPECT_GT(preemptions, 5);
  for (int round = 1; round <= 12; ++round) {
    const SchedulerCounts counts =
        run(inputs_.size(), {}, {}, [&](std::size_t) { return Timetable{.preempted_after = round}; });
    EXPECT_TRUE(round > 1 || counts.preemptions > 3);
  }
}

TEST_F(Batches, MayBeCancelledAtEveryRoundWithoutHarmToTheOthers) {
  for (std::size_t victim = 0; victim < inputs_.size(); ++victim) {
    for (int round = 1; round <= static_cast<int>(expected_[victim].rounds.size()); ++round) {
      const auto players = players_of(pool_, inputs_);
      std::vector<Scheduled> scheduled;
      for (std::size_t i = 0; i < players.size(); ++i) {
        scheduled.push_back({players[i]->sequence.get(), {}, {.cancelled_after = i == victim ? round : 0}});
      }
      Scheduler scheduler(pool_.target());
      run_batch(scheduler, scheduled);
      Sequence& cancelled = *players[victim]->sequence;
      const Trace& trace = cancelled.trace();
      ASSERT_EQ(std::ssize(trace.rounds), round);
      ASSERT_TRUE(std::equal(trace.output.begin(), trace.output.end(), expected_[victim].output.begin()));
      // It continues, alone, to what it would have been.
      cancelled.watch({}, nullptr);
      cancelled.resume();
      scheduler.add(cancelled);
      while (scheduler.step()) {
      }
      ASSERT_EQ(fault_of(expected_, players), "") << "sequence " << victim << " cancelled after round " << round;
    }
  }
}

/// Throws at the k-th draw.
class FailingSource final : public RandomSource {
 public:
  explicit FailingSource(int draw) : left_(draw) {}
  std::size_t sample_index(const Key& key, std::span<const std::uint64_t> weights) override {
    if (left_-- == 0) throw Error("no more numbers");
    return source_.sample_index(key, weights);
  }

 private:
  PhiloxSource source_{seed};
  int left_;
};

TEST_F(Batches, KeepAFailureWithTheSequenceThatFails) {
  for (std::size_t victim = 1; victim < inputs_.size(); ++victim) {
    for (int draw = 0; draw < 12; ++draw) {
      const auto players = players_of(pool_, inputs_);
      FailingSource random(draw);
      const Input& input = inputs_[victim];
      const Collaborators own = players[victim]->sequence->with();
      const Collaborators with = {own.target, own.draft, own.rule, random, own.drafter};
      players[victim]->sequence = std::make_unique<Sequence>(with, input.asked, input.asked, Recording::digests);
      Scheduler scheduler(pool_.target());
      for (const auto& player : players) scheduler.add(*player->sequence);
      while (scheduler.step()) {
      }
      Sequence& failed = *players[victim]->sequence;
      for (std::size_t i = 0; i < players.size(); ++i) {
        if (i == victim) continue;
        ASSERT_EQ(difference(players[i]->sequence->trace(), expected_[i]), "") << "sequence " << i;
      }
      if (!failed.error()) continue;  // it needs fewer numbers
      EXPECT_FALSE(failed.finished());
      failed.resume();
      scheduler.add(failed);
      while (scheduler.step()) {
      }
      ASSERT_EQ(fault_of(expected_, players), "") << "sequence " << victim << " failed at draw " << draw;
    }
  }
}

/// Computes NaN, or throws, for one cache.
class FaultyModel final : public OneByOneModel {
 public:
  FaultyModel(Model& inner, const Cache*& faulty) : inner_(inner), faulty_(faulty) {}
  int vocabulary() const override { return inner_.vocabulary(); }
  int context() const override { return inner_.context(); }
  std::unique_ptr<Cache> new_cache(int capacity, int max_pending_rows) const override {
    return inner_.new_cache(capacity, max_pending_rows);
  }

 private:
  void forward_one(const Segment& segment, Outputs& outputs) override {
    forward_alone(inner_, segment, outputs);
    if (segment.cache == faulty_) throw Error("the model computes NaN logits");
  }
  Model& inner_;
  const Cache*& faulty_;
};

TEST_F(Batches, GiveTheErrorOfASegmentToItsSequenceOnly) {
  const Cache* faulty = nullptr;
  FaultyModel target(pool_.target(), faulty);
  std::vector<std::unique_ptr<Player>> players = players_of(pool_, inputs_);
  Scheduler scheduler(target);
  for (std::size_t i = 0; i < players.size(); ++i) {
    const Collaborators own = players[i]->sequence->with();
    const Collaborators with = {target, own.draft, own.rule, own.random, own.drafter};
    const Asked& asked = inputs_[i].asked;
    players[i]->sequence = std::make_unique<Sequence>(with, asked, asked, Recording::digests);
    scheduler.add(*players[i]->sequence);
  }
  scheduler.step();
  faulty = &players[7]->sequence->cache();
  while (scheduler.step()) {
  }
  EXPECT_TRUE(players[7]->sequence->error());
  faulty = nullptr;
  players[7]->sequence->resume();
  scheduler.add(*players[7]->sequence);
  while (scheduler.step()) {
  }
  EXPECT_EQ(fault_of(expected_, players), "");
}

TEST_F(Batches, AreWhatTheyAreAloneAfterAnyInterleavingOfAllOperations) {
  long preempted = 0, removed = 0, reused = 0;
  for (unsigned number = 0; number < 300; ++number) {
    std::mt19937 dice(number);
    const auto below = [&](int bound) { return static_cast<int>(dice() % static_cast<unsigned>(bound)); };
    const auto players = players_of(pool_, inputs_);
    std::vector<std::atomic<bool>> cancelled(players.size());
    PrefixCache prefixes(static_cast<std::size_t>(1 + below(4000)));
    const SchedulerLimits limits = {
        .rows_per_pass = 1 + below(20), .reading_rows = 1 + below(9), .running_max = 1 + below(6)};
    Scheduler scheduler(pool_.target(), limits, number % 2 == 0 ? nullptr : &prefixes);
    std::vector<std::size_t> outside(players.size());
    std::iota(outside.begin(), outside.end(), std::size_t{0});
    for (std::size_t i = 0; i < players.size(); ++i) players[i]->sequence->watch({}, &cancelled[i]);
    const auto all_finished = [&] {
      return std::ranges::all_of(players, [](const auto& player) {
        const Finish finish = player->sequence->trace().finish;
        return finish == Finish::stop || finish == Finish::length;
      });
    };
    while (!all_finished()) {
      switch (below(8)) {
        case 0:
          if (!outside.empty()) {
            const auto place = outside.begin() + below(static_cast<int>(outside.size()));
            cancelled[*place] = false;
            players[*place]->sequence->resume();
            scheduler.add(*players[*place]->sequence);
            outside.erase(place);
          }
          break;
        case 1: cancelled[static_cast<std::size_t>(below(12))] = true; break;
        case 2: {
          scheduler.preempt(*players[static_cast<std::size_t>(below(12))]->sequence);
          preempted = scheduler.counts().preemptions;
          break;
        }
        case 3: {
          const auto who = static_cast<std::size_t>(below(12));
          scheduler.remove(*players[who]->sequence);
          if (std::ranges::find(outside, who) == outside.end()) outside.push_back(who);
          ++removed;
          break;
        }
        default: scheduler.step();
      }
      for (std::size_t i = 0; i < players.size(); ++i) {
        if (players[i]->sequence->trace().finish == Finish::cancelled &&
            std::ranges::find(outside, i) == outside.end()) {
          outside.push_back(i);
        }
      }
    }
    ASSERT_EQ(fault_of(expected_, players), "") << "interleaving " << number;
    reused += scheduler.counts().reused;
  }
  EXPECT_GT(preempted + removed, 100);
  EXPECT_GT(reused, 1000);
}

TEST(Scheduler, ReadsFewRowsAtATimeWhileARoundWaits) {
  Pool pool;
  std::vector<Token> text(40, 1);
  Player decodes(pool, {.asked = asked({1, 2, 3}, 5)});
  Player reads(pool, {.asked = asked(text, 3)});
  Scheduler scheduler(pool.target(), {.rows_per_pass = 16, .reading_rows = 4});
  scheduler.add(*decodes.sequence);
  while (decodes.sequence->reading()) scheduler.step();
  scheduler.add(*reads.sequence);
  std::vector<int> rows;
  while (reads.sequence->reading()) {
    const int before = reads.sequence->cache().length();
    scheduler.step();
    rows.push_back(reads.sequence->cache().length() - before);
  }
  EXPECT_EQ(rows, (std::vector<int>{4, 4, 4, 4, 4, 16, 3})) << "after five passes no round waits any more";
}

TEST(Scheduler, RefusesASequenceThatCanNeverFitWithTheNumbers) {
  Pool pool;
  const Input input{.asked = asked({1, 2, 3}, 17)};
  Player player(pool, input);
  Scheduler scheduler(pool.target(), {.cache_bytes = 1 << 20});
  try {
    scheduler.add(*player.sequence, {.fixed = 1 << 19, .per_position = 1 << 16});
    ADD_FAILURE() << "20 positions of 64 KiB do not fit";
  } catch (const Error& error) {
    EXPECT_STREQ(error.what(),
                 "the caches of a text of 20 positions need 1.8 MiB, and all caches together may have 1.0 MiB; ask for "
                 "fewer new tokens or allow more memory for caches");
  }
  EXPECT_FALSE(scheduler.step());
}

TEST(Scheduler, TakesSequencesThatACallbackAdds) {
  Pool pool;
  const std::vector<Input> inputs = different_inputs();
  std::vector<Trace> expected;
  for (const Input& input : inputs) expected.push_back(alone(pool, input));
  const auto players = players_of(pool, inputs);
  Scheduler scheduler(pool.target());
  for (std::size_t i = 0; i < players.size(); ++i) {
    players[i]->sequence->watch({[&, i](const Trace& trace) {
                                  if (trace.rounds.size() == 2 && i + 1 < players.size()) {
                                    scheduler.add(*players[i + 1]->sequence);
                                  }
                                  return Next::go_on;
                                }},
                                nullptr);
  }
  scheduler.add(*players[0]->sequence);
  while (scheduler.step()) {
  }
  std::size_t joined = 1;
  while (joined < players.size() && players[joined]->sequence->finished()) ++joined;
  EXPECT_GT(joined, 2U);
  EXPECT_EQ(fault_of(std::span(expected).first(joined), std::span(players).first(joined)), "");
}

/// Ends a text after these tokens.
class StopsAfter final : public StopCondition {
 public:
  explicit StopsAfter(std::vector<Token> end) : end_(std::move(end)) {}
  bool ends(std::span<const Token> output) override {
    return output.size() >= end_.size() && std::equal(end_.rbegin(), end_.rend(), output.rbegin());
  }

 private:
  std::vector<Token> end_;
};

TEST(StopConditions, EndTheTextAtTheSameTokenWithAndWithoutSpeculation) {
  Pool pool;
  long stopped = 0;
  for (Input input : different_inputs()) {
    input.asked.stops = {};
    input.rule = &matching;
    const std::vector<Token> plain = plain_output(pool.target(), input.asked, seed);
    for (std::size_t at = 1; at < plain.size(); ++at) {
      StopsAfter stop({plain[at - 1], plain[at]});
      std::vector<Token> expected(plain.begin(), plain.begin() + 1);
      while (!stop.ends(expected)) expected.push_back(plain[expected.size()]);
      Player player(pool, input);
      const Collaborators own = player.sequence->with();
      const Collaborators with = {own.target, own.draft, own.rule, own.random, own.drafter, &stop};
      Sequence sequence(with, input.asked, input.asked, Recording::counts);
      Scheduler scheduler(pool.target());
      scheduler.add(sequence);
      while (scheduler.step()) {
      }
      ASSERT_EQ(sequence.trace().output, expected);
      EXPECT_EQ(sequence.trace().finish, Finish::stop);
      std::vector<Token> read = input.asked.prompt;
      read.insert(read.end(), expected.begin(), expected.end() - 1);
      EXPECT_EQ(sequence.cache().length(), std::ssize(kept_of(read, input.asked.context_shift)));
      stopped += expected.size() < plain.size();
    }
  }
  EXPECT_GT(stopped, 50);
}

TEST(Callbacks, MayStopARunWhichThenCountsAsStopped) {
  Pool pool;
  const Input input{.asked = asked({1, 2, 3}, 12, 3), .draft = 1};
  const Trace whole = alone(pool, input);
  Player player(pool, input);
  player.sequence->watch({[](const Trace& trace) { return trace.rounds.size() == 2 ? Next::stop : Next::go_on; }},
                         nullptr);
  Scheduler scheduler(pool.target());
  scheduler.add(*player.sequence);
  while (scheduler.step()) {
  }
  EXPECT_EQ(player.sequence->trace().finish, Finish::stop);
  EXPECT_EQ(player.sequence->trace().rounds.size(), 2U);
  EXPECT_TRUE(
      std::equal(player.sequence->trace().output.begin(), player.sequence->trace().output.end(), whole.output.begin()));
}

}  // namespace
}  // namespace draftproof::scheduler_test
