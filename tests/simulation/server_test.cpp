// SPDX-License-Identifier: MIT
// The whole server, as `serve` runs it, in a simulated system: its threads, its clock and its connections follow a seed
// (system.h), and so do its clients, who ask, read, dawdle, send rubbish and go. Whatever happens, an answer is what
// plain decoding of its request says, or a refusal, or an error behind the beginning of that; a patient client has the
// whole of it; every thread ends and every file is closed; and the same seed gives the same history.
#include <gtest/gtest.h>

#include <array>
#include <iostream>
#include <nlohmann/json.hpp>
#include <random>

#include "oracle/plain/plain.h"
#include "serve/api.h"
#include "serve/model_rotation.h"
#include "serve/server.h"
#include "ref/models/models.h"
#include "tests/sanitized.h"
#include "tests/simulation/system.h"
#include "tests/threads.h"

namespace draftproof::serve::simulated_server_test {
namespace {

using namespace std::chrono_literals;
using simulation::Mistake;
using simulation::System;
using Json = nlohmann::json;

const std::string models = std::string(DRAFTPROOF_SOURCE_DIR) + "/fixtures/models/";
const std::string draft = "suffix";

/// A request as it is sent, and what the answer is to say.
struct Asked {
  std::string bytes;
  int status = 200;
  bool stream = false;
  std::vector<std::string> texts;  // of each choice
  std::vector<std::string> finishes;
};

std::string request_of(const std::string& path, const std::string& body, const std::string& headers = "") {
  return "POST " + path + " HTTP/1.1\r\nHost: localhost\r\nContent-Length: " + std::to_string(body.size()) + "\r\n" +
         headers + "\r\n" + body;
}

/// The model, and what is asked of it, with the answers of plain decoding.
struct Stage {
  Stage()
      : files(models + "tale-small"),
        tokenizer(Tokenizer::load(files.target())),
        engine(files, LoadOptions(kernels_by_name(""))) {
    model.name = "tale";
    model.draft = draft;
    model.fingerprint = engine.numerics();
    model.tokenizer = &tokenizer;
    model.stops = read_stop_tokens(files.target());
    model.vocabulary = engine.target().vocabulary();
    model.context = engine.target().context();
    model.max_new_tokens = 40;
    const char* const prompts[] = {"Once upon a time", "Once upon a time there was a", "The miller",
                                   "In the village of"};
    for (int i = 0; i < 10; ++i) {
      Json body = {{"prompt", prompts[i % 4]},
                   {"max_tokens", 1 + 2 * i},
                   {"seed", i},
                   {"n", 1 + i % 2},
                   {"temperature", i % 3 == 0 ? 0.0 : 0.8},
                   {"stream", i % 2 == 1},
                   {"speculative", i % 5 != 4}};
      add(body, i == 7 ? "he" : "");
    }
    asked.push_back({request_of("/v1/completions", "{\"prompt\":"), 400, false, {}, {}});
    asked.push_back({request_of("/nowhere", "x"), 404, false, {}, {}});
    asked.push_back({"GET /v1/models HTTP/1.1\r\nHost: localhost\r\n\r\n", 200, false, {}, {}});
    rubbish = {"\x16\x03\x01 no HTTP\r\n\r\n", "GET / HTTP/1.1\r\nHost: a\r\nHost: b\r\n\r\n",
               "POST /v1/completions HTTP/1.1\r\nContent-Length: 5\r\nContent-Length: 6\r\n\r\nabcdef",
               "GET /" + std::string(70'000, 'a') + " HTTP/1.1\r\n\r\n",
               "POST /v1/completions HTTP/1.1\r\nTransfer-Encoding: chunked\r\n\r\nzz\r\n"};
  }

  /// `stop`: the text ends before it; empty: it does not.
  void add(Json body, const std::string& stop) {
    const std::string text = body.dump();
    const CompletionRequest read = openai_completions.read(text, model);
    const auto writer = openai_completions.writer(read, model, "id", text);
    for (std::size_t choice = 0; choice < read.job.choices.size(); ++choice) {
      PhiloxSource random(read.job.seed);
      const PlainRun run = plain(engine.target(), read.job.choices[choice], random);
      StreamRound round;
      round.tokens = run.output;
      StreamEnd end;
      end.finish = run.finish;
      writer->take({static_cast<int>(choice), {}, round, {}});
      writer->take({static_cast<int>(choice), {}, {}, end});
    }
    const Json whole = Json::parse(writer->whole());
    const bool stream = body.at("stream");
    if (!stop.empty()) body["stop"] = stop;
    Asked one = {request_of("/v1/completions", body.dump()), 200, stream, {}, {}};
    for (const Json& choice : whole.at("choices")) {
      const std::string all = choice.at("text");
      const std::size_t end = stop.empty() ? std::string::npos : all.find(stop);
      one.texts.push_back(all.substr(0, end));
      one.finishes.push_back(end == std::string::npos ? choice.at("finish_reason").get<std::string>() : "stop");
    }
    asked.push_back(one);
  }

  ModelFiles files;
  Tokenizer tokenizer;
  Engine engine;
  ServedModel model;
  std::vector<Asked> asked;
  std::vector<std::string> rubbish;
};

Stage& stage() {
  static Stage one;
  return one;
}

/// A response of HTTP/1.1, as far as it has come.
struct Response {
  int status = 0;
  std::string body;
  bool whole = false;
  bool closes = false;
  std::size_t size = 0;  // of all its bytes, once it is whole
};

/// Reads the first response in these bytes. Throws std::runtime_error when it is none.
Response read_response(const std::string& bytes) {
  Response read;
  const std::size_t head = bytes.find("\r\n\r\n");
  if (head == std::string::npos) return read;
  if (!bytes.starts_with("HTTP/1.1 ")) throw std::runtime_error("no response: " + bytes.substr(0, 80));
  read.status = std::stoi(bytes.substr(9, 3));
  const std::string fields = bytes.substr(0, head + 2);
  read.closes = fields.find("\r\nConnection: close\r\n") != std::string::npos;
  std::size_t at = head + 4;
  const std::string length = "\r\nContent-Length: ";
  if (const std::size_t found = fields.find(length); found != std::string::npos) {
    const std::size_t size = std::stoul(fields.substr(found + length.size()));
    read.body = bytes.substr(at, size);
    read.whole = read.body.size() == size;
    read.size = at + size;
    return read;
  }
  if (fields.find("\r\nTransfer-Encoding: chunked\r\n") == std::string::npos) {
    throw std::runtime_error("a response without a length: " + fields);
  }
  while (true) {
    const std::size_t line = bytes.find("\r\n", at);
    if (line == std::string::npos) return read;
    const std::size_t size = std::stoul(bytes.substr(at, line - at), nullptr, 16);
    if (size == 0) {
      read.size = line + 4;
      read.whole = bytes.size() >= read.size;
      if (read.whole && bytes.substr(line, 4) != "\r\n\r\n") throw std::runtime_error("a trailer");
      return read;
    }
    read.body += bytes.substr(line + 2, size);
    at = line + 2 + size + 2;
    if (bytes.size() < at) return read;
    if (bytes.substr(at - 2, 2) != "\r\n") throw std::runtime_error("a chunk that has no end");
  }
}

/// What an answer says, as far as it has come.
struct Told {
  std::vector<std::string> texts;
  std::vector<std::string> finishes;
  bool failed = false;
  bool ended = false;
};

Told read_stream(const std::string& body, std::size_t choices) {
  Told told{std::vector<std::string>(choices), std::vector<std::string>(choices)};
  for (std::size_t at = 0;;) {
    const std::size_t end = body.find("\n\n", at);
    if (end == std::string::npos) return told;
    const std::string event = body.substr(at, end - at);
    at = end + 2;
    if (!event.starts_with("data: ") || told.ended) throw std::runtime_error("no event of a stream: " + event);
    const std::string data = event.substr(6);
    if (data == "[DONE]") {
      told.ended = true;
      continue;
    }
    const Json json = Json::parse(data);
    told.failed = told.failed || json.contains("error");
    if (json.contains("error")) continue;
    for (const Json& choice : json.at("choices")) {
      const auto index = choice.at("index").get<std::size_t>();
      told.texts.at(index) += choice.at("text").get<std::string>();
      if (choice.at("finish_reason").is_string()) told.finishes.at(index) = choice.at("finish_reason");
    }
  }
}

Told read_whole(const std::string& body) {
  const Json json = Json::parse(body);
  Told told;
  told.ended = true;
  for (const Json& choice : json.at("choices")) {
    told.texts.push_back(choice.at("text"));
    told.finishes.push_back(choice.at("finish_reason"));
  }
  return told;
}

enum class Manner { patient, slow, leaves, ends_writing, rubbish };

/// Somebody who asks once or several times over one connection, some of it before the answer has come.
struct Client {
  System::Client connection;
  Manner manner = Manner::patient;
  std::vector<std::size_t> asks;
  bool ahead = false;  // it sends all of them at once
  std::size_t answered = 0;
  std::string to_send;
  std::string received;
  System::Duration acted{};  // when it sent or read the last time
  System::Duration sent{};   // when all of it was
  bool gone = false;
};

struct Counts {
  int whole = 0;
  int refused = 0;
  int cut = 0;
  std::size_t calls = 0;
  std::size_t threads_max = 0;
  System::Duration wait_max{};  // of a patient client for its answer
};

class World {
 public:
  World(std::uint64_t seed, Mistake mistake, Counts& counts)
      : random_(seed ^ 0x5eed),
        system_(seed, mistake),
        counts_(counts),
        failing_(seed % 3 == 2),
        clients_max_(seed % 2 == 0 ? 1 + seed % 5 : 12) {
    system_.spawn([this] { serve(); });
    while (!port_) go_on();
    if (failing_) system_.set_failures(8, 16);
  }

  /// Lets so many things happen, then the server ends. Returns what is wrong; empty: nothing.
  std::string live(int events) {
    for (int i = 0; i < events && wrong_.empty(); ++i) happen();
    if (wrong_.empty() && some(2) == 0) be_quiet();
    end();
    counts_.calls += system_.history().size();
    return wrong_;
  }

  const std::vector<std::uint64_t>& history() const { return system_.history(); }

 private:
  std::uint64_t some(std::uint64_t below) { return random_() % below; }
  void fail(const std::string& what) {
    if (!wrong_.empty()) return;
    const std::chrono::duration<double> time = system_.now();
    wrong_ = what + ", after " + std::to_string(system_.history().size()) + " calls and " +
             std::to_string(time.count()) + " seconds";
  }

  /// The main thread of the command `serve`.
  void serve() {
    ServiceOptions options;
    options.draft = draft;
    options.limits = {.rows_per_pass = 24, .reading_rows = 8, .running_max = 3};
    options.waiting_max = 4;
    options.drain_seconds = 2;
    PrefixCache prefixes(std::size_t{1} << 18);
    Metrics metrics({draft});
    Wakeup wakeup;
    Service service(&stage().tokenizer, metrics, wakeup, options);
    ModelRotation rotation({{service, 0, [&] { service.load(stage().engine, prefixes); }, [&] { service.unload(); }}},
                           0);
    const Log log(LogFormat::none);
    ServerOptions at;
    at.connections = 3;
    Server server({{service, stage().model, metrics}}, log, at);
    service_ = &service;
    port_ = server.start();
    rotation.run(wakeup);
    server.stop();
    if (metrics.running() != 0) left_running_ = true;
  }

  /// A thread makes its next call; where all wait, time goes on, at most so far.
  void go_on(System::Duration pass_max = 1h) {
    counts_.threads_max = std::max(counts_.threads_max, system_.threads());
    if (system_.step()) return;
    const auto next = system_.next();
    if (!next) fail("all threads wait for ever");
    else system_.pass(std::min(pass_max, *next - system_.now()));
  }

  void happen() {
    const std::uint64_t what = some(1000);
    if (what < 900 && system_.step()) return;
    if (what < 908 && clients_.size() < clients_max_) return connect();
    if (clients_.empty() || some(16) == 0) return go_on(100ms);  // at most so long does a patient client do nothing
    act(clients_[some(clients_.size())]);
    std::erase_if(clients_, [](const Client& client) { return client.gone; });
  }

  void connect() {
    Client client;
    client.connection = system_.connect();
    if (client.connection == nullptr) return fail("nobody listens");
    client.acted = system_.now();
    const std::uint64_t manner = some(12);
    client.manner = manner < 8     ? Manner::patient
                    : manner == 8  ? Manner::slow
                    : manner == 9  ? Manner::leaves
                    : manner == 10 ? Manner::ends_writing
                                   : Manner::rubbish;
    if (client.manner == Manner::rubbish) {
      client.to_send = stage().rubbish[some(stage().rubbish.size())];
    } else {
      for (std::uint64_t i = 1 + some(3); i > 0; --i) client.asks.push_back(some(stage().asked.size()));
      client.ahead = some(3) == 0 || client.manner == Manner::ends_writing;
      for (std::size_t i = 0; i < (client.ahead ? client.asks.size() : 1); ++i) {
        client.to_send += stage().asked[client.asks[i]].bytes;
      }
    }
    clients_.push_back(client);
  }

  /// A client sends some, or reads some.
  void act(Client& client) {
    System::Connection& connection = *client.connection;
    const System::Duration before = std::exchange(client.acted, system_.now());
    if (client.manner == Manner::patient && client.acted > before + 1s) client.manner = Manner::slow;
    if (!client.to_send.empty()) {
      if (client.manner == Manner::slow && some(8) > 0) return;
      const std::size_t size = some(3) == 0 ? 1 + some(client.to_send.size()) : client.to_send.size();
      client.to_send.erase(0, System::send(connection, client.to_send.substr(0, size)));
      if (client.to_send.empty()) client.sent = system_.now();
      if (client.to_send.empty() && client.manner == Manner::ends_writing) System::end_writing(connection);
    }
    if (client.manner == Manner::leaves && some(4) == 0) return leave(client);
    if (client.manner == Manner::slow && some(8) > 0) return;
    client.received += System::receive(connection, 1 + some(4096));
    read(client);
    if (!client.gone && System::ended(connection)) {
      const bool waited = client.manner == Manner::patient || client.manner == Manner::rubbish;
      if (System::was_reset(connection) && waited && !failing_ && !draining_) {
        fail("a client loses what was sent to it: " + std::to_string(static_cast<int>(client.manner)) + ", " +
             std::to_string(client.answered) + " answers, " + std::to_string(client.to_send.size()) + " to send");
      }
      broken_off(client);
      leave(client);
    }
    const bool waits = client.to_send.empty() && client.answered < client.asks.size();
    if (client.gone || !waits || client.manner != Manner::patient) return;
    counts_.wait_max = std::max(counts_.wait_max, system_.now() - client.sent);
    if (system_.now() > client.sent + 2s) fail("a patient client waits for its answer");
  }

  static void leave(Client& client) {
    System::close(*client.connection);
    client.gone = true;
  }

  void read(Client& client) {
    try {
      take_responses(client);
    } catch (const std::exception& thrown) {
      fail(thrown.what());
    }
  }

  /// Takes those that are whole.
  void take_responses(Client& client) {
    while (!client.received.empty()) {
      const Response response = read_response(client.received);
      if (response.status > 0) judge(client, response);
      if (!response.whole || !wrong_.empty()) return;
      client.received.erase(0, response.size);
      if (client.manner == Manner::rubbish && client.answered++ > 0) fail("rubbish is answered twice");
      if (client.manner == Manner::rubbish) continue;  // it waits for the end
      ++client.answered;
      if (response.closes || client.answered == client.asks.size()) {
        if (!client.received.empty()) fail("something comes behind the last answer");
        return leave(client);
      }
      if (!client.ahead) client.to_send += stage().asked[client.asks[client.answered]].bytes;
    }
  }

  /// Whether a refusal may be the answer.
  bool may_be(int status, const Client& client) const {
    switch (status) {
      case 429: return true;                           // full
      case 503: return draining_ || failing_;          // shutting down, or no thread
      case 408: return client.manner == Manner::slow;  // took too long
      case 500: return draining_;                      // its time was up
      case 499: return client.manner == Manner::ends_writing || draining_;
      default: return false;
    }
  }

  void judge(const Client& client, const Response& response) {
    if (client.manner == Manner::rubbish) {
      const bool refused = response.status >= 400 && response.status < 500;
      if (!refused && !may_be(response.status, client))
        fail("rubbish has the status " + std::to_string(response.status));
      return;
    }
    if (client.answered >= client.asks.size()) return fail("an answer that nobody asked for");
    const Asked& asked = stage().asked[client.asks[client.answered]];
    if (response.status != asked.status) {
      if (!may_be(response.status, client)) {
        fail("request " + std::to_string(client.asks[client.answered]) + " has the status " +
             std::to_string(response.status) + " (client " + std::to_string(static_cast<int>(client.manner)) + ", " +
             std::to_string(client.answered) + " answers, " + std::to_string(client.to_send.size()) +
             " bytes to send): " + response.body);
      }
      if (response.whole) ++counts_.refused;
      return;
    }
    if (asked.texts.empty() || (!asked.stream && !response.whole)) return;
    const Told told = asked.stream ? read_stream(response.body, asked.texts.size()) : read_whole(response.body);
    if (told.texts.size() != asked.texts.size()) return fail("another number of choices");
    for (std::size_t choice = 0; choice < told.texts.size(); ++choice) {
      if (!asked.texts[choice].starts_with(told.texts[choice])) fail("another text: " + told.texts[choice]);
      const bool ended = !told.finishes[choice].empty();
      const bool right = told.texts[choice] == asked.texts[choice] && told.finishes[choice] == asked.finishes[choice];
      if (ended && !right && !draining_) fail("an answer that ends too early: " + told.finishes[choice]);
      if (response.whole && !told.failed && !ended) fail("an answer without an end");
    }
    if (told.failed && !draining_) fail("an answer fails");
    if (response.whole) ++counts_.whole;
  }

  /// The server has closed the connection before the last answer.
  void broken_off(const Client& client) {
    ++counts_.cut;
    if (client.manner != Manner::patient || draining_) return;
    // With no file left, those that wait longest are closed; and a body may take a second only while others wait.
    const bool idle = client.received.empty() && !client.to_send.empty();
    if (failing_ || idle) return;
    fail("a patient client is left without its answer " + std::to_string(client.answered) + " of " +
         std::to_string(client.asks.size()) + ", " + std::to_string(client.to_send.size()) +
         " bytes to send, received " + client.received);
  }

  /// All clients have gone, or stay and do nothing more: what a server keeps then is its socket and its two threads.
  void be_quiet() {
    if (some(2) == 0) {
      for (Client& client : clients_) leave(client);
    } else {
      for (const std::string& rubbish : stage().rubbish) System::send(*system_.connect(), rubbish);
    }
    clients_.clear();
    const System::Duration until = system_.now() + 200s;
    while (system_.now() < until && wrong_.empty()) go_on();
    if (system_.threads() != 2) fail("a quiet server has " + std::to_string(system_.threads()) + " threads");
    if (system_.files() != 2) fail("a quiet server has " + std::to_string(system_.files()) + " files");
  }

  void end() {
    draining_ = true;
    system_.set_failures(0, 0);
    system_.spawn([this] { service_->drain(); });
    const System::Duration until = system_.now() + 9s;  // two of which answers have to come to their ends
    for (std::uint64_t i = 0; system_.threads() > 0; ++i) {
      go_on(20ms);
      for (Client& client : clients_) {
        if (wrong_.empty() && some(8) == 0) act(client);
      }
      std::erase_if(clients_, [](const Client& client) { return client.gone; });
      if (system_.now() > until) fail("a server does not end");
      if (i > 1'000'000) throw std::runtime_error("the threads of a server do not end: " + wrong_);
    }
    if (!wrong_.empty()) return;
    for (Client& client : clients_) {
      client.received += System::receive(*client.connection, std::size_t{1} << 20);
      read(client);
      if (!client.gone && !System::ended(*client.connection)) fail("a connection is not closed");
    }
    if (system_.files() > 0) fail(std::to_string(system_.files()) + " files are left open");
    if (left_running_) fail("a choice is left running");
  }

  std::mt19937_64 random_;
  System system_;
  Counts& counts_;
  bool failing_;  // now and then there is no thread, or no file
  std::size_t clients_max_;
  Service* service_ = nullptr;
  std::optional<int> port_;
  bool draining_ = false;
  bool left_running_ = false;
  std::vector<Client> clients_;
  std::string wrong_;
};

void live(int first, int seeds, int events) {
  if (test::sanitized) GTEST_SKIP() << "a sanitizer has functions of its own for threads and files";
  const Threads one(1);
  Counts all;
  World(0, Mistake::none, all).live(2000);  // what is made once in a program is made now
  all = {};
  const auto history = [events](int seed, Counts& counts) {
    World world(static_cast<std::uint64_t>(seed), Mistake::none, counts);
    EXPECT_EQ(world.live(events), "") << "seed " << seed;
    return world.history();
  };
  for (int seed = first; seed < first + seeds; ++seed) {
    const std::vector<std::uint64_t> one_history = history(seed, all);
    if (seed % 8 > 0) continue;
    Counts same;
    EXPECT_EQ(history(seed, same), one_history) << "seed " << seed << " has two histories";
  }
  for (const int count : {all.whole, all.refused, all.cut}) EXPECT_GT(count, 0) << "something never happens";
  std::cout << seeds << " seeds, " << events << " events each: " << all.calls << " calls; answers: " << all.whole
            << " whole, " << all.refused << " refusals, " << all.cut << " connections closed by the server; at most "
            << all.threads_max << " threads; the longest wait of a patient client "
            << std::chrono::duration<double>(all.wait_max).count() << " s\n";
}

TEST(SimulatedServer, EveryAnswerIsPlainDecodingWhateverHappens) { live(0, 9, 8'000); }

TEST(SimulatedServerSlow, EveryAnswerIsPlainDecodingWhateverHappens) { live(100, 10, 40'000); }

TEST(SimulatedServerSweep, EveryAnswerIsPlainDecodingWhateverHappens) { live(1000, 400, 40'000); }

TEST(SimulatedServer, SeesASystemThatIsWrong) {
  if (test::sanitized) GTEST_SKIP() << "a sanitizer has functions of its own for threads and files";
  const Threads one(1);
  Counts none;
  std::vector<std::uint64_t> histories[2];
  for (std::uint64_t seed = 0; seed < 2; ++seed) {
    World world(seed, Mistake::none, none);
    world.live(2000);
    histories[seed] = world.history();
  }
  EXPECT_NE(histories[0], histories[1]);
  for (const Mistake mistake :
       {Mistake::loses_bytes, Mistake::alters_bytes, Mistake::leaves_files_open, Mistake::loses_signals}) {
    World world(1, mistake, none);
    EXPECT_NE(world.live(20'000), "") << static_cast<int>(mistake);
  }
}

}  // namespace
}  // namespace draftproof::serve::simulated_server_test
