// SPDX-License-Identifier: MIT
// A service in a simulated world. There are no threads, no sockets and no clock: a seed decides what is asked for, who
// reads, who goes away, when the engine runs a pass, how time goes on, when memory runs out, when the server drains or
// is killed, and what the disk then holds of its prefix cache. Whatever happens, an answer is what plain decoding of
// its request says, or an error behind the beginning of that; every answer ends; and the same seed gives the same
// history.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <iostream>
#include <random>

#include "oracle/plain/plain.h"
#include "ref/base/error.h"
#include "ref/decoding/prefix_file.h"
#include "ref/models/models.h"
#include "serve/service.h"
#include "tests/folder.h"
#include "tests/scarce_memory.h"
#include "tests/threads.h"

namespace draftproof::serve::simulated_service_test {
namespace {

using namespace std::chrono_literals;
using Clock = std::chrono::steady_clock;

const std::string models = std::string(DRAFTPROOF_SOURCE_DIR) + "/fixtures/models/";

/// What a wrong server would do.
enum class Mistake { none, loses_ends, alters_tokens };

struct Answer {
  std::vector<Token> tokens;
  Finish finish = Finish::unfinished;
};

/// The models, and what may be asked of them, with the answers of plain decoding.
struct Stage {
  Stage() : files(models + "tale-target"), engine(files, LoadOptions(kernels_by_name(""))) {
    const Tokenizer tokenizer = Tokenizer::load(files.target());
    const std::vector<Token> stops = read_stop_tokens(files.target());
    const char* const prompts[] = {"Once upon a time", "Once upon a time there was a", "The miller",
                                   "In the village of"};
    for (int i = 0; i < 12; ++i) {
      Job job;
      job.seed = static_cast<std::uint64_t>(i);
      job.speculative = i % 4 != 3;
      for (int choice = 0; choice <= i % 3; ++choice) {
        Request request;
        request.prompt = tokenizer.encode(prompts[i % std::size(prompts)]);
        request.sampling.temperature = i % 2 == 0 ? 0 : 0.8;
        request.stops = stops;
        request.max_new_tokens = i == 11 ? 0 : 2 + 3 * i;
        request.sequence = choice;
        job.choices.push_back(request);
      }
      if (i == 5) job.prediction = tokenizer.encode(" there was a king who lived in a house");
      std::vector<Answer> right;
      for (const Request& request : job.choices) {
        PhiloxSource random(job.seed);
        const PlainRun run = plain(engine.target(), request, random);
        right.push_back({run.output, run.finish});
      }
      jobs.push_back(job);
      answers.push_back(right);
    }
  }

  ModelFiles files;
  Engine engine;
  std::vector<Job> jobs;
  std::vector<std::vector<Answer>> answers;
};

Stage& stage() {
  static Stage one;
  return one;
}

const std::string draft = "dflash:" + models + "tale-dflash";

/// A client that reads its answer.
struct Client {
  std::size_t job;
  std::shared_ptr<TokenStream> stream;
  std::vector<Answer> answers;
  std::vector<int> ends;     // of each choice
  bool left = false;         // of its own will, or by a kill
  bool broken = false;       // the server had no memory for its answer
  std::vector<bool> failed;  // choices that ended with an error
};

struct Counts {
  int asked = 0;
  int refused = 0;
  int whole = 0;
  int failed = 0;
  int kills = 0;
  int drains = 0;
  int shortages = 0;
  int restored = 0;
  int damaged = 0;
};

class World {
 public:
  World(std::uint64_t seed, Mistake mistake, Counts& counts) : random_(seed), mistake_(mistake), counts_(counts) {
    start();
  }

  /// Lets so many things happen and then all answers end. Returns what is wrong; empty: nothing.
  std::string live(int events) {
    for (int i = 0; i < events && wrong_.empty(); ++i) happen();
    if (wrong_.empty()) drain();
    return wrong_;
  }

  const std::vector<std::uint64_t>& history() const { return events_; }

 private:
  std::uint64_t some(std::uint64_t below) { return random_() % below; }
  void note(std::uint64_t what, std::uint64_t which = 0) { events_.push_back(what << 32 | which); }
  void fail(const std::string& what) {
    if (wrong_.empty()) wrong_ = what + ", after " + std::to_string(events_.size()) + " events";
  }

  void start() {
    prefixes_ = std::make_unique<PrefixCache>(std::size_t{1} << 18);
    if (std::filesystem::exists(disk_)) {
      try {
        stage().engine.load_prefixes(*prefixes_, origin_, draft, disk_);
        ++counts_.restored;
      } catch (const draftproof::Error&) {
        ++counts_.damaged;
      }
    }
    ServiceOptions options;
    options.draft = draft;
    options.limits = {.rows_per_pass = 24, .reading_rows = 8, .running_max = 3};
    options.waiting_max = 4;
    options.drain_seconds = 2;
    options.now = [this] { return now_; };
    metrics_ = std::make_unique<Metrics>(std::vector<std::string>{"dflash"});
    service_ = std::make_unique<Service>(nullptr, *metrics_, wakeup_, options);
    service_->load(stage().engine, *prefixes_);
  }

  void happen() {
    const std::uint64_t what = some(100);
    if (what < 20) return ask();
    if (what < 60) return step();
    if (what < 86) return read();
    if (what < 90) return leave();
    if (what < 95) return wait();
    if (what < 97) return save();
    if (what < 98) return kill();
    if (some(4) == 0) drain();
  }

  void ask() {
    const std::size_t job = some(stage().jobs.size());
    ++counts_.asked;
    const Service::Submission taken = service_->submit(stage().jobs[job]);
    note(1, job * 4 + static_cast<std::uint64_t>(taken.refusal));
    if (taken.stream == nullptr) {
      ++counts_.refused;
      if (taken.refusal != Service::Refusal::full) fail("a request is refused, though there is room");
      return;
    }
    const std::size_t choices = stage().jobs[job].choices.size();
    clients_.push_back({job, taken.stream, std::vector<Answer>(choices), std::vector<int>(choices), false, false,
                        std::vector<bool>(choices)});
  }

  /// The engine runs a pass; now and then it gets no memory, once or for a while.
  void step() {
    const bool short_of_memory = some(12) == 0;
    if (short_of_memory) {
      ++counts_.shortages;
      const std::uint64_t allowed = some(3) == 0 ? some(40) : some(4000);
      test::failures_left = some(2) == 0 ? 1 : 60;
      test::allocations_left = static_cast<long>(allowed);
    }
    const bool more = service_->step();
    test::allocations_left = -1;
    note(2, more ? 1 : 0);
  }

  void read() {
    if (clients_.empty()) return;
    Client& client = clients_[some(clients_.size())];
    read(client);
  }

  void read(Client& client) {
    if (client.left || client.broken) return;
    std::vector<StreamEvent> events;
    try {
      events = client.stream->take(0ms);
    } catch (const std::bad_alloc&) {
      client.broken = true;
      ++counts_.failed;
      note(3, 1);
      return;
    }
    for (StreamEvent& event : events) take(client, event);
  }

  void take(Client& client, StreamEvent& event) {
    const auto choice = static_cast<std::size_t>(event.choice);
    if (client.ends[choice] > 0) return fail("something comes behind the end of an answer");
    if (event.round) {
      for (Token token : event.round->tokens) {
        if (mistake_ == Mistake::alters_tokens && some(500) == 0) ++token;
        client.answers[choice].tokens.push_back(token);
        note(4, static_cast<std::uint64_t>(token));
      }
    }
    if (!event.end || (mistake_ == Mistake::loses_ends && some(20) == 0)) return;
    ++client.ends[choice];
    client.answers[choice].finish = event.end->finish;
    client.failed[choice] = !event.end->error.empty();
    note(5, static_cast<std::uint64_t>(event.end->finish) * 2 + (client.failed[choice] ? 1 : 0));
    if (event.end->refused) fail("a request that is like others is refused: " + event.end->error);
    judge(client, choice);
  }

  void judge(const Client& client, std::size_t choice) {
    const Answer& found = client.answers[choice];
    const Answer& right = stage().answers[client.job][choice];
    const std::size_t same =
        static_cast<std::size_t>(std::ranges::mismatch(found.tokens, right.tokens).in1 - found.tokens.begin());
    if (same < found.tokens.size()) return fail("request " + std::to_string(client.job) + " has another text");
    if (client.failed[choice]) {
      ++counts_.failed;
    } else if (found.finish != right.finish || found.tokens != right.tokens) {
      fail("request " + std::to_string(client.job) + " ends too early");
    } else {
      ++counts_.whole;
    }
  }

  void leave() {
    if (clients_.empty()) return;
    Client& client = clients_[some(clients_.size())];
    client.stream->cancel();
    client.left = true;
    note(6);
  }

  void wait() {
    now_ += std::chrono::milliseconds(some(400));
    note(7);
  }

  void save() {
    save_prefix_cache(*prefixes_, origin_, disk_);
    note(8);
  }

  /// Without a word. What is not on the disk is lost, and the file can be damaged by whatever the disk is like.
  void kill() {
    ++counts_.kills;
    for (Client& client : clients_) client.left = true;
    clients_.clear();
    service_.reset();
    if (std::filesystem::exists(disk_) && some(3) == 0) {
      std::filesystem::resize_file(disk_, some(std::filesystem::file_size(disk_)));
    }
    start();
    note(9);
  }

  /// Everything that was taken ends, some of it because time is up; then a new server begins.
  void drain() {
    ++counts_.drains;
    service_->drain();
    const Service::Submission late = service_->submit(stage().jobs[0]);
    if (late.refusal != Service::Refusal::draining) fail("a draining server takes requests");
    for (int passes = 0; !service_->finished(); ++passes) {
      if (passes == 5000) return fail("a server does not end");
      step();
      wait();
    }
    for (Client& client : clients_) {
      read(client);
      if (client.left || client.broken) continue;
      if (!client.stream->finished() || std::ranges::count(client.ends, 1) != std::ssize(client.ends)) {
        fail("an answer has no end");
      }
    }
    clients_.clear();
    service_.reset();
    save();
    start();
  }

  std::mt19937_64 random_;
  Mistake mistake_;
  Counts& counts_;
  test::Folder folder_;
  std::filesystem::path disk_ = folder_.path() / "prefixes.h5";
  PrefixOrigin origin_ = {"tale", stage().engine.numerics()};
  Clock::time_point now_{};
  Wakeup wakeup_;
  std::unique_ptr<PrefixCache> prefixes_;
  std::unique_ptr<Metrics> metrics_;
  std::unique_ptr<Service> service_;
  std::vector<Client> clients_;
  std::vector<std::uint64_t> events_;
  std::string wrong_;
};

void live(int seeds, int events) {
  const Threads one(1);
  Counts all;
  for (int seed = 0; seed < seeds; ++seed) {
    World world(static_cast<std::uint64_t>(seed), Mistake::none, all);
    EXPECT_EQ(world.live(events), "") << "seed " << seed;
    if (seed % 10 > 0) continue;
    Counts same;
    World again(static_cast<std::uint64_t>(seed), Mistake::none, same);
    again.live(events);
    EXPECT_EQ(again.history(), world.history()) << "seed " << seed << " has two histories";
  }
  for (const int count : {all.refused, all.whole, all.failed, all.kills, all.restored, all.damaged}) {
    EXPECT_GT(count, 0) << "something never happens";
  }
  std::cout << seeds << " seeds, " << events << " events each: " << all.asked << " requests, " << all.refused
            << " refused; answers: " << all.whole << " whole, " << all.failed << " failed; " << all.shortages
            << " shortages of memory, " << all.kills << " kills, " << all.drains << " drains, " << all.restored
            << " prefix caches restored, " << all.damaged << " damaged\n";
}

TEST(Simulation, EveryAnswerIsPlainDecodingWhateverHappens) { live(8, 300); }

TEST(SimulationSlow, EveryAnswerIsPlainDecodingWhateverHappens) { live(40, 600); }

TEST(SimulationSweep, EveryAnswerIsPlainDecodingWhateverHappens) { live(200, 600); }

TEST(Simulation, SeesAWrongServer) {
  const Threads one(1);
  Counts none;
  World first(1, Mistake::none, none);
  World second(2, Mistake::none, none);
  first.live(50);
  second.live(50);
  EXPECT_NE(first.history(), second.history());
  for (const Mistake mistake : {Mistake::loses_ends, Mistake::alters_tokens}) {
    Counts counts;
    World world(1, mistake, counts);
    EXPECT_NE(world.live(2000), "") << static_cast<int>(mistake);
  }
}

}  // namespace
}  // namespace draftproof::serve::simulated_service_test
