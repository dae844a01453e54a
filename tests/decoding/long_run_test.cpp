// SPDX-License-Identifier: MIT
// Sessions that come and go for a long time: texts whose context wraps or whose layers slide, texts that go on with
// earlier ones, some that are given up, and more of them than the budget of caches holds. Now and then a round is
// checked from scratch: its text is decoded again from its first token, with a new cache, and every token, the logits
// of the round and the cache must be the same bits. What the process keeps in memory must not grow.
#include <gtest/gtest.h>
#include <malloc.h>
#include <unistd.h>

#include <algorithm>
#include <cstdio>
#include <deque>
#include <filesystem>
#include <fstream>
#include <iostream>
#include <memory>
#include <random>
#include <string>
#include <vector>

#include "oracle/plain/plain.h"
#include "ref/decoding/engine.h"
#include "tests/decoding/support.h"
#include "tests/sanitized.h"
#include "tests/threads.h"

namespace draftproof::long_run_test {
namespace {

const std::filesystem::path models = std::filesystem::path(DRAFTPROOF_SOURCE_DIR) / "fixtures/models";

/// What is wrong on purpose, so that it can be found.
enum class Planted { nothing, stale_row, leak };

struct Plan {
  std::string target;  // a folder of fixtures/models
  std::string draft;
  long tokens = 0;        // of output, at least
  long check_every = 0;   // rounds
  bool may_shift = true;  // whether the caches can drop positions
  Planted planted = Planted::nothing;
};

struct MemorySample {
  double heap = 0;      // MiB in use
  double resident = 0;  // MiB
};

struct LongRun {
  long tokens = 0, rounds = 0, checks = 0, checked_tokens = 0, sessions = 0, given_up = 0, wrapped = 0, planted = 0;
  SchedulerCounts counts;
  std::vector<MemorySample> memory;
  std::string fault;  // the first difference

  double median(double MemorySample::*of, int third) const {
    const auto size = std::ssize(memory) / 3;
    std::vector<double> values;
    for (auto i = third * size; i < (third + 1) * size; ++i) values.push_back(memory[i].*of);
    if (values.empty()) return 0;
    std::ranges::nth_element(values, values.begin() + std::ssize(values) / 2);
    return values[values.size() / 2];
  }
  /// From the middle third of the run to the last; in the first, caches fill up.
  double growth(double MemorySample::*of) const { return median(of, 2) / median(of, 1) - 1; }
};

std::ostream& operator<<(std::ostream& out, const LongRun& run) {
  out << run.tokens << " tokens in " << run.rounds << " rounds of " << run.sessions << " sessions, " << run.given_up
      << " given up, " << run.wrapped << " wrapped; " << run.counts.preemptions << " preemptions, " << run.counts.reused
      << " positions reused, " << run.counts.rows << " rows in " << run.counts.passes << " passes; " << run.checks
      << " rounds checked from scratch with " << run.checked_tokens << " tokens";
  for (const auto& [name, of] :
       {std::pair("heap", &MemorySample::heap), std::pair("resident", &MemorySample::resident)}) {
    out << "; " << name << " by thirds of the run";
    for (int third = 0; third < 3; ++third) out << " " << run.median(of, third);
    out << " MiB";
  }
  return out;
}

MemorySample memory_now() {
  constexpr double mebibyte = 1 << 20;
  const struct mallinfo2 heap = mallinfo2();
  std::ifstream file("/proc/self/statm");
  double size = 0;
  double resident = 0;
  file >> size >> resident;
  return {static_cast<double>(heap.uordblks + heap.hblkhd) / mebibyte,
          resident * static_cast<double>(sysconf(_SC_PAGESIZE)) / mebibyte};
}

class Sessions {
 public:
  explicit Sessions(const Plan& plan)
      : plan_(plan),
        files_(models / plan.target),
        engine_(files_, best_kernels()),
        prefixes_(std::size_t{4} << 20),
        scheduler_(engine_.target(), limits(), &prefixes_) {}

  LongRun run() {
    long next_check = plan_.check_every;
    long next_sample = 0;
    long next_news = 1'000'000;
    while (run_.tokens < plan_.tokens && run_.fault.empty()) {
      while (sessions_.size() < sessions_at_a_time) begin();
      if (run_.rounds + 1 >= next_check && !checked_) watch_one();
      scheduler_.step();
      for (const auto& session : sessions_) {
        if (plan_.planted == Planted::stale_row) make_stale(*session);
      }
      end_some();
      if (was_checked_) {
        next_check += plan_.check_every;
        was_checked_ = false;
      }
      if (run_.rounds >= next_sample) {
        run_.memory.push_back(memory_now());
        next_sample += std::max(1L, plan_.tokens / 300);
      }
      if (run_.tokens >= next_news) {
        run_.counts = scheduler_.counts();
        std::cout << plan_.target << ": " << run_ << "\n" << std::flush;
        next_news += 1'000'000;
      }
    }
    run_.counts = scheduler_.counts();
    for (const auto& session : sessions_) scheduler_.remove(*session->opened.sequence);
    return run_;
  }

 private:
  static constexpr std::size_t sessions_at_a_time = 8;
  static constexpr int positions_max = 400;  // of a text that is not shifted

  struct Session {
    explicit Session(std::uint64_t seed) : random(seed) {}
    PhiloxSource random;
    Engine::Opened opened;
    const Rule* rule = &matching;
    int rounds_max = 0;  // then it is given up; 0: it is not
    bool stale = false;  // it has a stale row
  };

  SchedulerLimits limits() {
    // Room for two of the longest texts, or five that have begun where states of fixed size are most of it: eight
    // sessions do not fit, and those that are admitted outgrow it.
    PhiloxSource random(1);
    const Engine::Opened longest =
        engine_.open({.request = asked({1, 2}, positions_max - 2), .draft = plan_.draft, .random = random});
    return {.cache_bytes = std::max(2 * longest.cost.of(positions_max + 64), 5 * longest.cost.of(100))};
  }

  int below(int limit) { return std::uniform_int_distribution<int>(0, limit - 1)(numbers_); }

  std::vector<Token> some_tokens(int count, std::uint64_t seed) {
    std::mt19937_64 numbers(seed);
    std::vector<Token> tokens;
    for (int i = 0; i < count; ++i) {
      tokens.push_back(std::uniform_int_distribution<Token>(3, engine_.target().vocabulary() - 8)(numbers));
    }
    return tokens;
  }

  Asked request() {
    Asked request = asked(some_tokens(40, static_cast<std::uint64_t>(below(8))), 1 + below(300), 1 + below(6));
    if (!earlier_.empty() && below(2) == 0) request.prompt = earlier_[below(static_cast<int>(earlier_.size()))];
    const std::vector<Token> more = some_tokens(1 + below(20), numbers_());
    request.prompt.insert(request.prompt.end(), more.begin(), more.end());
    const Sampling samplings[] = {{}, {.temperature = 1}, {.temperature = 0.7F, .top_k = 20, .repeat_penalty = 1.2F}};
    request.sampling = samplings[below(3)];
    request.sequence = static_cast<int>(run_.sessions);
    if (plan_.may_shift && below(3) > 0) {
      request.context_shift = {.context = 80 + below(120), .keep = below(16), .discard = 1 + below(40)};
      request.max_new_tokens = 100 + below(1000);
    }
    return request;
  }

  void begin() {
    Asked asked = request();
    auto session = std::make_unique<Session>(seed);
    if (below(4) == 0) session->rule = &rejection;
    if (below(8) == 0) session->rounds_max = 1 + below(60);
    session->opened = engine_.open({.request = asked,
                                    .execution = asked,
                                    .draft = plan_.draft,
                                    .rule = *session->rule,
                                    .random = session->random});
    watch(*session, false);
    ++run_.sessions;
    scheduler_.add(*session->opened.sequence, session->opened.cost);
    sessions_.push_back(std::move(session));
  }

  void watch(Session& session, bool rows) {
    session.opened.sequence->watch({[this, &session](const Trace& trace) { return on_round(session, trace); }, rows},
                                   nullptr);
  }

  /// Lets the next round of a session show its rows, so that it can be checked.
  void watch_one() {
    std::vector<Session*> decoding;
    for (const auto& session : sessions_) {
      if (!session->opened.sequence->reading()) decoding.push_back(session.get());
    }
    if (decoding.empty()) return;
    checked_ = decoding[static_cast<std::size_t>(below(static_cast<int>(decoding.size())))];
    watch(*checked_, true);
  }

  Next on_round(Session& session, const Trace& trace) {
    ++run_.rounds;
    run_.tokens += std::ssize(trace.rounds.back().emitted);
    if (plan_.planted == Planted::leak) leaked_.push_back(std::make_unique<std::string>(10'000, 'x'));
    if (checked_ == &session && !was_checked_) {
      check(session, trace);
      was_checked_ = true;
    }
    return std::ssize(trace.rounds) == session.rounds_max ? Next::cancel : Next::go_on;
  }

  /// Decodes the text of the session from its first token and compares.
  void check(const Session& session, const Trace& trace) {
    const Request& request = trace.request;
    const Round& round = trace.rounds.back();
    std::vector<Token> text = request.prompt;
    text.insert(text.end(), trace.output.begin(), trace.output.end());
    const std::span<const Token> read(text.data(), text.size() - 1);
    const std::size_t prompt = request.prompt.size();
    const std::vector<PlainRow> rows = plain_rows(engine_.target(), request, read, prompt, 1);
    PhiloxSource random(seed);
    const auto fail = [&](const std::string& what) {
      if (run_.fault.empty()) {
        run_.fault = what + " of session " + std::to_string(request.sequence) + " in its round " +
                     std::to_string(trace.rounds.size());
      }
    };
    if (session.rule == &matching) {
      for (std::size_t i = 0; i < trace.output.size(); ++i) {
        const Key key{request.sequence, static_cast<int>(prompt + i), Purpose::target};
        if (draw(rows[i].distribution, key, random) != trace.output[i]) fail("token " + std::to_string(i));
      }
    }
    const std::size_t first = static_cast<std::size_t>(round.position) - prompt;
    if (round.logits.size() < round.emitted.size()) fail("the number of rows");
    for (std::size_t i = 0; i < round.emitted.size() && run_.fault.empty(); ++i) {
      if (round.logits[i] != rows[first + i].logits) fail("the logits of row " + std::to_string(i));
    }
    GrowingText again(engine_.target(), request.positions(), request.context_shift);
    again.logits_after(read);
    if (session.opened.sequence->cache().digest() != again.digest()) fail("the cache");
    ++run_.checks;
    run_.checked_tokens += std::ssize(text);
  }

  /// Leaves, once in every eighth session, the row of another token in the last position of the cache, as a rollback
  /// that forgets a rejected draft token would.
  void make_stale(Session& session) {
    const Trace& trace = session.opened.sequence->trace();
    auto& cache = const_cast<Cache&>(session.opened.sequence->cache());
    if (session.stale || trace.request.sequence % 8 != 0 || trace.rounds.size() < 3 || cache.length() < 2) return;
    session.stale = true;
    ++run_.planted;
    cache.discard(cache.length() - 1, 1);
    const Token other[] = {(trace.rounds.back().anchor + 1) % engine_.target().vocabulary()};
    Outputs outputs;
    Transaction transaction = cache.begin(1);
    forward_alone(engine_.target(), {.cache = &cache, .tokens = other, .logits_from = 1}, outputs);
    transaction.commit(1);
  }

  /// Removes the sessions that are over. What was finished can be gone on with.
  void end_some() {
    std::erase_if(sessions_, [&](const std::unique_ptr<Session>& session) {
      const Trace& trace = session->opened.sequence->trace();
      if (session->opened.sequence->error()) {
        run_.fault = "session " + std::to_string(trace.request.sequence) + " failed";
        scheduler_.remove(*session->opened.sequence);
        return true;
      }
      if (checked_ == session.get() && was_checked_) {
        watch(*session, false);
        checked_ = nullptr;
      }
      if (!session->opened.sequence->finished()) return false;
      if (checked_ == session.get()) checked_ = nullptr;  // it ended before its next round
      if (trace.finish == Finish::cancelled) {
        ++run_.given_up;
      } else if (trace.request.prompt.size() + trace.output.size() < positions_max / 2) {
        earlier_.push_back(trace.request.prompt);
        earlier_.back().insert(earlier_.back().end(), trace.output.begin(), trace.output.end());
        if (earlier_.size() > 8) earlier_.pop_front();
      }
      const int text = static_cast<int>(trace.request.prompt.size() + trace.output.size());
      run_.wrapped += trace.request.context_shift && text > trace.request.context_shift->context + 1;
      return true;
    });
  }

  static constexpr std::uint64_t seed = 11;
  Plan plan_;
  ModelFiles files_;
  Engine engine_;
  PrefixCache prefixes_;
  Scheduler scheduler_;
  std::mt19937_64 numbers_{7};
  std::vector<std::unique_ptr<Session>> sessions_;
  std::deque<std::vector<Token>> earlier_;  // texts
  Session* checked_ = nullptr;              // whose next round is checked
  bool was_checked_ = false;                // in this pass
  std::vector<std::unique_ptr<std::string>> leaked_;
  LongRun run_;
};

Plan small_model(long tokens, long check_every) {
  return {.target = "tale-small", .draft = "suffix", .tokens = tokens, .check_every = check_every};
}

/// Of a model whose caches cannot drop positions.
Plan unshifted(const char* target, const char* head) {
  return {.target = target,
          .draft = "mtp:" + (models / head).string(),
          .tokens = 1'000'000,
          .check_every = 10'000,
          .may_shift = false};
}

/// `growth_max`: of memory.
void expect_sound(const Plan& plan, double growth_max) {
  const Threads one(1);
  mallopt(M_MMAP_THRESHOLD, 128 << 10);  // as the command does: KV caches stay out of the heap, which they would tear
  const LongRun run = Sessions(plan).run();
  std::cout << plan.target << ": " << run << "\n";
  EXPECT_EQ(run.fault, "");
  EXPECT_GE(run.tokens, plan.tokens);
  EXPECT_GE(run.checks, run.rounds / plan.check_every * 9 / 10);
  EXPECT_GT(run.given_up, 0);
  EXPECT_GT(run.counts.preemptions, 0);
  EXPECT_GT(run.counts.reused, 0);
  EXPECT_EQ(run.wrapped > 0, plan.may_shift);
  if (test::sanitized) return;
  EXPECT_LT(run.growth(&MemorySample::heap), growth_max);
  EXPECT_LT(run.growth(&MemorySample::resident), growth_max);
}

TEST(LongRun, OfSessionsThatComeAndGoKeepsItsBits) { expect_sound(small_model(20'000, 100), 0.5); }

TEST(LongRun, FindsTheRowOfAnotherTokenInACache) {
  const Threads one(1);
  Plan plan = small_model(100'000, 20);
  plan.planted = Planted::stale_row;
  const LongRun run = Sessions(plan).run();
  EXPECT_GT(run.planted, 0);
  EXPECT_NE(run.fault, "") << run;
}

TEST(LongRun, FindsALeakOfTenThousandBytesARound) {
  if (test::sanitized) GTEST_SKIP() << "a sanitizer has memory of its own";
  const Threads one(1);
  Plan plan = small_model(10'000, 1'000'000);
  plan.planted = Planted::leak;
  const LongRun run = Sessions(plan).run();
  EXPECT_GT(run.growth(&MemorySample::heap), 0.5) << run;
}

/// Ten million tokens together.
TEST(LongRunSweep, OfASmallModelWhoseContextWraps) { expect_sound(small_model(7'000'000, 10'000), 0.02); }

TEST(LongRunSweep, OfAModelOfTheFormOfLlamaWithADraftOfItsOwn) {
  expect_sound({.target = "tale-llama", .draft = "self", .tokens = 1'000'000, .check_every = 10'000}, 0.02);
}

TEST(LongRunSweep, OfAModelWhoseLayersSlide) { expect_sound(unshifted("tale-gemma", "tale-gemma-assistant"), 0.02); }

TEST(LongRunSweep, OfAModelWithRecurrentStates) { expect_sound(unshifted("tale-hybrid", "tale-hybrid-mtp"), 0.02); }

}  // namespace
}  // namespace draftproof::long_run_test
