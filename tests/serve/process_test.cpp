// SPDX-License-Identifier: MIT
// The server as an operator sees it: signals, the prefix cache on disk, connections that are of no use.
#include <arpa/inet.h>
#include <gmock/gmock.h>
#include <httplib.h>
#include <poll.h>
#include <sys/socket.h>

#include <algorithm>
#include <atomic>
#include <cerrno>
#include <chrono>
#include <filesystem>
#include <fstream>
#include <future>
#include <map>
#include <nlohmann/json.hpp>
#include <sstream>
#include <thread>

#include "ref/drafts/lookup_file.h"
#include "ref/text/tokenizer.h"
#include "tests/sanitized.h"
#include "tests/serve/serve_process.h"

namespace draftproof::test::process_test {
namespace {

using nlohmann::json;
using testing::AllOf;
using testing::Contains;
using testing::HasSubstr;
using testing::Not;

json answer(const ServeProcess& server, const json& body) {
  httplib::Client client("127.0.0.1", server.port());
  client.set_read_timeout(60);
  const auto result = client.Post("/v1/completions", body.dump(), "application/json");
  return result && result->status == 200 ? json::parse(result->body) : json();
}

const json request = {{"prompt", "Once upon a time there lived in Crow Hill a gardener named David Rotherwood"},
                      {"max_tokens", 20},
                      {"temperature", 1},
                      {"seed", 3}};

int cached(const json& answer) { return answer["usage"]["prompt_tokens_details"]["cached_tokens"]; }

TEST(ServeProcess, AnswersOfSeveralModelsAreThoseOfEachAlone) {
  const Folder folder;
  const std::string pair = (folder.path() / "small.json").string();
  std::ofstream(pair) << json{{"target", fixture("models/tale-llama")}, {"draft", "suffix"}};
  const std::vector<std::string> names = {"tale-target", "tale-llama", "tale-hybrid"};
  const auto ask = [](const ServeProcess& server, const std::string& model, int seed) {
    json body = request;
    if (!model.empty()) body["model"] = model;
    body["seed"] = seed;
    body["max_tokens"] = 40;
    return answer(server, body);
  };
  std::map<std::string, json> alone;
  for (const std::string& name : names) {
    const ServeProcess server(Words{"--kv-budget", "64MiB"}, 0, "", fixture("models/" + name));
    alone[name] = ask(server, "any name", 3)["choices"];
  }
  ServeProcess server({"--draft", dflash, "--also", pair, "--also", fixture("models/tale-hybrid")});
  httplib::Client client("127.0.0.1", server.port());
  const json list = json::parse(client.Get("/v1/models")->body)["data"];
  ASSERT_EQ(list.size(), names.size());
  std::vector<std::future<json>> together;
  for (int i = 0; i < 12; ++i) {
    EXPECT_EQ(list[static_cast<std::size_t>(i) % 3]["id"], names[static_cast<std::size_t>(i) % 3]);
    together.push_back(std::async(
        std::launch::async, [&, i] { return ask(server, names[static_cast<std::size_t>(i) % 3], i < 6 ? 3 : i); }));
  }
  for (int i = 0; i < 12; ++i) {
    const json answer = together[static_cast<std::size_t>(i)].get();
    EXPECT_EQ(answer["model"], names[static_cast<std::size_t>(i) % 3]);
    if (i >= 6) continue;
    EXPECT_EQ(answer["choices"], alone[names[static_cast<std::size_t>(i) % 3]]);
  }
  EXPECT_EQ(ask(server, "", 3)["choices"], alone["tale-target"]);
  EXPECT_EQ(ask(server, "tale-llama:latest", 3)["choices"], alone["tale-llama"]);
  const auto unknown = client.Post("/v1/completions", R"({"prompt": "x", "model": "gpt-9"})", "application/json");
  EXPECT_EQ(unknown->status, 404);
  EXPECT_THAT(unknown->body, HasSubstr("tale-target, tale-llama, tale-hybrid"));
  EXPECT_THAT(client.Get("/metrics?model=tale-llama")->body, HasSubstr("draftproof_answers_total"));
  EXPECT_EQ(json::parse(client.Get("/props?model=tale-hybrid")->body)["model_path"], "tale-hybrid");
  EXPECT_EQ(json::parse(client.Get("/api/tags")->body)["models"].size(), names.size());
  EXPECT_EQ(server.end(), 0);
}

/// There is memory for the first, or for the others.
TEST(ServeProcess, ModelsThatDoNotFitTogetherAreLoadedWhenTheyAreAskedAndAnswerAsAlone) {
  const Folder folder;
  const std::vector<std::string> names = {"tale-target", "tale-llama", "tale-hybrid"};
  const auto ask = [](const ServeProcess& server, const std::string& name, int tokens) {
    return answer(server, {{"prompt", "Once upon a time"}, {"model", name}, {"seed", 3}, {"max_tokens", tokens}});
  };
  std::map<std::string, json> alone;
  for (const std::string& name : names) {
    const ServeProcess server({"--kv-budget", "64MiB"}, 0, "", fixture("models/" + name));
    alone[name] = ask(server, "any name", 40)["choices"];
  }
  ServeProcess server({"--draft", dflash, "--also", fixture("models/tale-llama"), "--also",
                       fixture("models/tale-hybrid"), "--model-memory", "12MiB", "--prefix-cache",
                       folder.path().string()});
  httplib::Client client("127.0.0.1", server.port());
  const auto loaded = [&] {
    std::vector<std::string> list;
    const json all = json::parse(client.Get("/v1/models")->body);
    for (const json& one : all["data"]) {
      if (one["status"]["value"] == "loaded") list.push_back(one["id"]);
    }
    return list;
  };
  EXPECT_EQ(loaded(), std::vector<std::string>{"tale-target"});
  // One is never idle, and the others get their turns.
  std::atomic<bool> end = false;
  std::vector<std::future<int>> busy;
  for (int i = 0; i < 6; ++i) {
    busy.push_back(std::async(std::launch::async, [&, i] {
      const json first = ask(server, "tale-target", 100 + 20 * i)["choices"];
      int asked = 1;
      for (; !end; ++asked) EXPECT_EQ(ask(server, "tale-target", 100 + 20 * i)["choices"], first);
      return asked;
    }));
  }
  for (int i = 0; i < 3; ++i) {
    for (const std::string& name : {names[1], names[2]}) EXPECT_EQ(ask(server, name, 40)["choices"], alone[name]);
  }
  end = true;
  for (auto& one : busy) EXPECT_GT(one.get(), 1);
  EXPECT_EQ(ask(server, "tale-target", 40)["choices"], alone["tale-target"]);
  const json again = ask(server, "tale-llama", 40);
  EXPECT_EQ(again["choices"], alone["tale-llama"]);
  EXPECT_THAT(loaded(), AllOf(Contains("tale-llama"), Not(Contains("tale-target"))));
  EXPECT_GT(cached(again), 0);  // its prefix cache was saved when it was dropped
  EXPECT_EQ(json::parse(client.Get("/api/ps")->body)["models"].size(), loaded().size());
  EXPECT_THAT(client.Get("/metrics?model=tale-llama")->body, HasSubstr("draftproof_model_loaded 1"));
  EXPECT_THAT(client.Get("/metrics?model=tale-target")->body, HasSubstr("draftproof_model_loaded 0"));
  EXPECT_EQ(server.end(), 0);
}

TEST(ServeProcess, AModelThatCannotBeLoadedAnyMoreIsAnErrorOfItsRequests) {
  const Folder folder;
  const std::string copy = folder.path().string() + "/copy";
  std::filesystem::copy(fixture("models/tale-llama"), copy);
  ServeProcess server({"--also", copy, "--model-memory", "7MiB"});
  httplib::Client client("127.0.0.1", server.port());
  for (const auto& file : std::filesystem::directory_iterator(copy)) {
    if (file.path().extension() == ".safetensors") std::filesystem::resize_file(file.path(), 100);
  }
  const auto failed = client.Post("/v1/completions", R"({"prompt": "x", "model": "copy"})", "application/json");
  EXPECT_EQ(failed->status, 500);
  EXPECT_THAT(failed->body, HasSubstr("the model cannot be loaded: "));
  EXPECT_EQ(answer(server, request)["object"], "text_completion");
  EXPECT_EQ(server.end(), 0);
}

TEST(ServeProcess, MemoryForLessThanAModelIsRefused) {
  const Outcome result = run_command({"serve", target, "--model-memory", "1MiB", "--port", "0"});
  EXPECT_NE(result.status, 0);
  EXPECT_THAT(result.err, HasSubstr("--model-memory 1.0 MiB: tale-target alone takes "));
}

TEST(ServeProcess, SaysWhyADraftDoesNotPay) {
  const Folder folder;
  const std::string log = (folder.path() / "log").string();
  ServeProcess server({"--draft", "always-reject"}, 0, log);
  json body = request;
  body["max_tokens"] = 100;
  body["ignore_eos"] = true;
  std::string remark;
  for (int i = 0; i < 100 && remark.empty(); ++i) {  // until what passes cost is known, on a busy machine
    remark = answer(server, body)["usage"].value("draft_remark", "");
  }
  EXPECT_THAT(remark, HasSubstr("draft tokens do not pay now: with "));
  body["speculative"] = false;
  EXPECT_FALSE(answer(server, body)["usage"].contains("draft_remark"));
  httplib::Client client("127.0.0.1", server.port());
  EXPECT_THAT(client.Get("/metrics")->body, HasSubstr("\ndraftproof_draft_speedup "));
  EXPECT_EQ(server.end(), 0);
  std::stringstream text;
  text << std::ifstream(log).rdbuf();
  EXPECT_THAT(text.str(), HasSubstr("\"draft_remark\":\"draft tokens do not pay now"));
}

TEST(ServeProcess, APromptThatIsKnownIsReadForNoTokens) {
  ServeProcess server({"--draft", dflash});  // load decides the lengths of its drafts
  json body = request;
  for (const int tokens : {1, 0, 0, 5}) {
    body["max_tokens"] = tokens;
    EXPECT_EQ(answer(server, body)["usage"]["completion_tokens"], tokens);
  }
  EXPECT_EQ(server.end(), 0);
}

TEST(ServeProcess, TwoModelsOfOneNameAreRefused) {
  const Outcome result = run_command({"serve", target, "--also", target, "--port", "0"});
  EXPECT_NE(result.status, 0);
  EXPECT_THAT(result.err, HasSubstr("two models have the name tale-target"));
}

TEST(ServeProcess, KeepsThePrefixCacheFromOneRunToTheNextAndSurvivesAKill) {
  const Folder folder;
  const Words with_cache = {"--draft", dflash, "--draft-max", "5", "--prefix-cache", folder.path().string()};
  json first;
  {
    ServeProcess server(with_cache);
    first = answer(server, request);
    EXPECT_EQ(cached(first), 0);
    EXPECT_EQ(server.end(), 0);
  }
  {
    ServeProcess server(with_cache);
    const json warm = answer(server, request);
    EXPECT_GT(cached(warm), 5);
    EXPECT_EQ(warm["choices"], first["choices"]);
    EXPECT_EQ(server.end(SIGKILL), 128);  // the file of the run before is untouched
  }
  ServeProcess server(with_cache);
  const json warm = answer(server, request);
  EXPECT_GT(cached(warm), 5);
  EXPECT_EQ(warm["choices"], first["choices"]);
}

TEST(ServeProcess, StartsWithoutAPrefixCacheThatIsDamagedAndSaysSo) {
  const Folder folder;
  const Words with_cache = {"--prefix-cache", folder.path().string()};
  {
    ServeProcess server(with_cache);
    answer(server, request);
  }
  int damaged = 0;
  for (const auto& file : std::filesystem::directory_iterator(folder.path())) {
    std::filesystem::resize_file(file, std::filesystem::file_size(file) / 2);
    ++damaged;
  }
  ASSERT_EQ(damaged, 1);
  const Folder said;
  const std::string errors = (said.path() / "errors").string();
  ServeProcess server(with_cache, 0, errors);
  EXPECT_EQ(cached(answer(server, request)), 0);
  EXPECT_EQ(server.end(), 0);
  EXPECT_THAT(text_of(errors), HasSubstr("the prefix cache starts empty"));
}

TEST(ServeProcess, EndsInOrderWhenTheDiskIsFullAndKeepsTheOldPrefixCache) {
  if (test::threads_sanitized) GTEST_SKIP() << "under the thread sanitizer no program starts with such a limit";
  const Folder folder;
  const Words with_cache = {"--prefix-cache", folder.path().string()};
  {
    ServeProcess server(with_cache);
    answer(server, request);
  }
  const Folder said;
  const std::string errors = (said.path() / "errors").string();
  {
    ServeProcess server(with_cache, 20000, errors);  // no file may become as large as the cache
    json other = request;
    other["prompt"] = "A recipe of Fallow Green";
    answer(server, other);
    EXPECT_EQ(server.end(), 0);
  }
  EXPECT_THAT(text_of(errors), AllOf(HasSubstr("prefix cache not saved"), HasSubstr(folder.path().string()),
                                     HasSubstr("File too large"), Not(HasSubstr("errno"))));
  ServeProcess server(with_cache);
  EXPECT_GT(cached(answer(server, request)), 5);
}

/// What followed two tokens, and how often.
std::map<std::vector<Token>, int> counted_in(const std::string& file) {
  std::map<std::vector<Token>, int> counted;
  for (const NgramCounts::Row& row : read_lookup_file(file, 1 << 20).sorted()) {
    counted[{row.ngram.places()[0], row.ngram.places()[1], row.token}] = row.count;
  }
  return counted;
}

TEST(ServeProcess, CountsItsAnswersIntoALookupFileThatTheNextRunDraftsFrom) {
  const Folder folder;
  const std::string file = (folder.path() / "counts").string();
  std::map<std::vector<Token>, int> expected;
  for (int run = 1; run <= 2; ++run) {
    ServeProcess server({"--lookup-update", file, "--draft", run == 1 ? "ngram-cache" : "ngram-cache:" + file});
    for (const std::string prompt : {"Once upon a time there lived", "The fox by the old oak", "Long ago"}) {
      const json said = answer(server, {{"prompt", prompt}, {"max_tokens", 20}, {"temperature", 0}});
      EXPECT_EQ(said["usage"]["completion_tokens"], 20);
      const json alone =
          json::parse(run_command({"generate", target, "-p", prompt, "-n", "20", "--json", "-", "--quiet"}).out);
      std::vector<Token> text = Tokenizer::load(target).encode(prompt);
      for (const json& token : alone["tokens"]) text.push_back(token);
      for (std::size_t i = 2; i < text.size(); ++i) ++expected[{text[i - 2], text[i - 1], text[i]}];
      if (run == 2 || prompt != "Once upon a time there lived") continue;
      for (int wait = 0; wait < 100 && !std::filesystem::exists(file); ++wait) {
        std::this_thread::sleep_for(std::chrono::milliseconds(20));
      }
      EXPECT_EQ(counted_in(file), expected) << "the first answer is saved when it has ended";
    }
    EXPECT_EQ(server.end(), 0);
    EXPECT_EQ(counted_in(file), expected) << run;
  }
}

TEST(ServeProcess, CountsNoAnswersOfSeveralKeysTogetherAndRefusesAFileThatHoldsNoCounts) {
  const Folder folder;
  const std::string file = (folder.path() / "counts").string();
  const std::string keys = (folder.path() / "keys").string();
  put(keys, "one\ntwo\n");
  const Words serve = {"serve", target, "--port", "0", "--lookup-update", file};
  const Outcome of_two = run_command(serve + Words{"--api-key-file", keys});
  EXPECT_EQ(of_two.status, 3);
  EXPECT_THAT(of_two.err, AllOf(HasSubstr("several API keys"), HasSubstr(keys)));
  EXPECT_FALSE(std::filesystem::exists(file));
  put(file, "no counts");
  const Outcome damaged = run_command(serve);
  EXPECT_EQ(damaged.status, 3);
  EXPECT_THAT(damaged.err, HasSubstr(file));
  EXPECT_EQ(text_of(file), "no counts") << "it is left as it was";
}

TEST(ServeProcess, SavesNoPrefixesOfSeveralKeysUnlessTheyShareThem) {
  const Folder folder;
  const std::string keys = (folder.path() / "keys").string();
  const std::string saved = (folder.path() / "saved").string();
  put(keys, "one\ntwo\n");
  const Outcome apart = run_command({"serve", target, "--port", "0", "--prefix-cache", saved, "--api-key-file", keys});
  EXPECT_EQ(apart.status, 3);
  EXPECT_THAT(apart.err, AllOf(HasSubstr("several API keys"), HasSubstr("--share-prefixes")));
  EXPECT_FALSE(std::filesystem::exists(saved));
  { const ServeProcess shared({"--prefix-cache", saved, "--api-key-file", keys, "--share-prefixes"}); }
  EXPECT_TRUE(std::filesystem::exists(saved));
}

TEST(ServeProcess, GoesOnWhereTheLookupFileCannotBeWrittenAndKeepsTheOldOne) {
  if (test::threads_sanitized) GTEST_SKIP() << "under the thread sanitizer no program starts with such a limit";
  const Folder folder;
  const std::string file = (folder.path() / "counts").string();
  json longer = request;
  longer["max_tokens"] = 400;
  longer["ignore_eos"] = true;
  {
    ServeProcess server({"--lookup-update", file});
    answer(server, longer);
  }
  const auto before = counted_in(file);
  const Folder said;
  const std::string errors = (said.path() / "errors").string();
  ServeProcess server({"--lookup-update", file}, 6000, errors);  // no file may become as large as the counts
  EXPECT_FALSE(answer(server, longer).is_null());
  EXPECT_EQ(server.end(), 0);
  EXPECT_THAT(text_of(errors), AllOf(HasSubstr("lookup file not saved"), HasSubstr(file)));
  EXPECT_EQ(counted_in(file), before);
}

TEST(ServeProcess, ASecondSignalEndsItAtOnce) {
  ServeProcess server({"--drain-seconds", "60"});
  std::thread asking([&] {
    json endless = request;
    endless["max_tokens"] = 1000;
    endless["ignore_eos"] = true;
    endless["n"] = 16;
    answer(server, endless);
  });
  httplib::Client client("127.0.0.1", server.port());
  while (client.Get("/metrics")->body.find("answers_running 16") == std::string::npos) std::this_thread::yield();
  server.send(SIGTERM);
  while (client.Get("/health")->status != 503) std::this_thread::yield();
  EXPECT_EQ(server.end(), 3);
  asking.join();
}

TEST(ServeProcess, AHangupDrainsItToo) {
  ServeProcess server;
  EXPECT_EQ(server.end(SIGHUP), 0);
}

TEST(ServeProcess, EndsWhenAStepOfItsStartFails) {
  const Words words = {"serve", target, "--port", "0", "--threads", "1", "--log-format", "none"};
  const Outcome full = run_command(words, "timeout -s KILL 60", "</dev/null >/dev/full");
  EXPECT_EQ(full.status, 3);
  EXPECT_THAT(full.err, HasSubstr("standard output cannot be written"));
  const std::string few = "timeout -s KILL 60 setpriv --reuid=64217 --regid=64217 --clear-groups prlimit --nproc=2";
  if (std::system((few + " " DRAFTPROOF_BINARY " --version >/dev/null 2>&1").c_str()) != 0) {
    GTEST_SKIP() << "only root can give a process a limit of threads that counts no other process";
  }
  const Outcome none = run_command(words, few);
  EXPECT_EQ(none.status, 3);
  EXPECT_THAT(none.err, HasSubstr("the system gives no more threads; end other processes"));
}

TEST(ServeProcess, SaysWhetherTheHostOrThePortIsWrong) {
  const auto complaint = [](const std::string& host) {
    const Outcome outcome = run_command({"serve", target, "--port", "0", "--host", host});
    EXPECT_EQ(outcome.status, 3);
    return outcome.err;
  };
  EXPECT_THAT(complaint("127.0.0.1:8080"), AllOf(HasSubstr("--host 127.0.0.1:8080"), HasSubstr("--port")));
  EXPECT_THAT(complaint("192.0.2.1"), HasSubstr("--host 192.0.2.1: is no address of this machine"));
  EXPECT_THAT(complaint("256.0.0.1.invalid"), HasSubstr("--host 256.0.0.1.invalid: is no name or address"));
}

TEST(ServeProcess, ReadsKeysFromAFileAsEditorsWriteIt) {
  const Folder folder;
  const std::string file = (folder.path() / "keys").string();
  put(file,
      "\xEF\xBB\xBF"
      "first\r\n\r\n \tsecond \t\r\n");
  ServeProcess server({"--api-key-file", file});
  for (const char* const key : {"first", "second"}) {
    httplib::Client client("127.0.0.1", server.port());
    client.set_bearer_token_auth(key);
    EXPECT_EQ(client.Get("/v1/models")->status, 200) << key;
  }
  put(file, "first\nse cond\n");
  const Outcome odd = run_command({"serve", target, "--port", "0", "--api-key-file", file});
  EXPECT_EQ(odd.status, 3);
  EXPECT_THAT(odd.err, HasSubstr("keys: line 2: an API key has"));
}

TEST(ServeProcess, WarnsWhereAnyoneMayAsk) {
  const Folder said;
  const auto warnings = [&](const Words& more) {
    const std::string errors = (said.path() / std::to_string(more.size())).string();
    ServeProcess server(more, 0, errors);
    server.end();
    return text_of(errors);
  };
  EXPECT_THAT(warnings({"--host", "0.0.0.0"}), HasSubstr("anyone who reaches this machine may ask"));
  EXPECT_THAT(warnings({}), Not(HasSubstr("anyone")));
  put(said.path() / "keys", "secret\n");
  EXPECT_THAT(warnings({"--host", "0.0.0.0", "--api-key-file", (said.path() / "keys").string()}),
              Not(HasSubstr("anyone")));
}

TEST(ServeProcess, TellsNobodyWhereItsFilesLie) {
  ServeProcess server({"--draft", dflash + "+ngram-simple"});
  httplib::Client client("127.0.0.1", server.port());
  EXPECT_EQ(json::parse(client.Get("/v1/models")->body)["data"][0]["draft"], "dflash:tale-dflash+ngram-simple");
  answer(server, request);
  for (const char* const path : {"/v1/models", "/v1/models/tale-target", "/metrics"}) {
    EXPECT_THAT(client.Get(path)->body, Not(HasSubstr("fixtures"))) << path;
  }
}

TEST(ServeProcess, RemovesWhatKilledServersLeftInItsFolder) {
  const Folder folder;
  const pid_t child = fork();
  if (child == 0) _exit(0);
  waitpid(child, nullptr, 0);
  const auto left = folder.path() / ("other-12345678.h5.partial-" + std::to_string(child));
  put(left, "half");
  ServeProcess server({"--prefix-cache", folder.path().string()});
  EXPECT_FALSE(files::exists(left));
}

/// A connection that sent `bytes`; of no use to the server.
int connected(const ServeProcess& server, const std::string& bytes) {
  const int file = socket(AF_INET, SOCK_STREAM | SOCK_NONBLOCK, 0);
  sockaddr_in address{};
  address.sin_family = AF_INET;
  address.sin_port = htons(static_cast<std::uint16_t>(server.port()));
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  connect(file, reinterpret_cast<const sockaddr*>(&address), sizeof(address));
  pollfd state = {file, POLLOUT, 0};
  poll(&state, 1, 1000);
  ::send(file, bytes.data(), bytes.size(), MSG_NOSIGNAL);
  return file;
}

TEST(ServeProcess, ConnectionsThatSayNothingOrHalfARequestHoldUpNobody) {
  ServeProcess server;
  std::vector<int> files;
  for (int i = 0; i < 60; ++i) {
    const char* const half = "POST /v1/completions HTTP/1.1\r\nHost: localhost\r\nContent-Length: 1000\r\n\r\n{";
    files.push_back(connected(server, i % 2 == 0 ? half : ""));
  }
  const auto begin = std::chrono::steady_clock::now();
  EXPECT_EQ(answer(server, request)["usage"]["completion_tokens"], 20);
  EXPECT_LT(std::chrono::steady_clock::now() - begin, std::chrono::milliseconds(900));
  for (const int file : files) close(file);
}

/// 1500 that say nothing and 400 that send half a head, each opened again when the server closes it: more than it has
/// threads, and more than may wait.
TEST(ServeProcessSlow, IsThereForTheOthersWhileHundredsOfConnectionsAreOpenedInVain) {
  const rlim_t needed = 2500;
  rlimit max{};
  getrlimit(RLIMIT_NOFILE, &max);
  if (max.rlim_max < needed) GTEST_SKIP() << "needs " << needed << " open files";
  max.rlim_cur = std::max(max.rlim_cur, needed);
  setrlimit(RLIMIT_NOFILE, &max);
  ServeProcess server;
  const std::string half = "GET /health HTTP/1.1\r\nHost: localhost\r\n";
  std::vector<std::pair<int, std::string>> attackers;
  for (int i = 0; i < 1900; ++i) {
    const std::string bytes = i < 1500 ? "" : half;
    attackers.emplace_back(connected(server, bytes), bytes);
  }
  std::atomic<bool> ending = false;
  std::thread attack([&] {
    while (!ending) {
      for (auto& [file, bytes] : attackers) {
        char c;
        if (recv(file, &c, 1, MSG_DONTWAIT) < 0 && errno == EAGAIN) continue;
        close(file);
        file = connected(server, bytes);
      }
    }
  });
  for (int i = 0; i < 6; ++i) {
    const auto begin = std::chrono::steady_clock::now();
    httplib::Client client("127.0.0.1", server.port());
    const auto health = client.Get("/health");
    EXPECT_TRUE(health && health->status == 200);
    EXPECT_EQ(answer(server, request)["usage"]["completion_tokens"], 20);
    EXPECT_LT(std::chrono::steady_clock::now() - begin, std::chrono::seconds(5));
    std::this_thread::sleep_for(std::chrono::seconds(1));
  }
  ending = true;
  attack.join();
  for (const auto& [file, bytes] : attackers) close(file);
}

TEST(ServeProcess, TwoServersDoNotShareAPort) {
  ServeProcess server;
  const Outcome second = run_command({"serve", target, "--port", std::to_string(server.port())});
  EXPECT_EQ(second.status, 3);
  EXPECT_THAT(second.err, HasSubstr("cannot listen on 127.0.0.1 port"));
}

}  // namespace
}  // namespace draftproof::test::process_test
