// SPDX-License-Identifier: MIT
// The server as an operator sees it: signals, the prefix cache on disk, connections that are of no use.
#include <gmock/gmock.h>
#include <httplib.h>

#include <nlohmann/json.hpp>
#include <thread>

#include "tests/serve/serve_process.h"

namespace draftproof::test::process_test {
namespace {

using nlohmann::json;
using testing::HasSubstr;

json answer(const ServeProcess& server, const json& body) {
  httplib::Client client("127.0.0.1", server.port());
  client.set_read_timeout(60);
  const auto result = client.Post("/v1/completions", body.dump(), "application/json");
  return result && result->status == 200 ? json::parse(result->body) : json();
}

const json request = {{"prompt", "Once upon a time there lived in Crow Hill a gardener named David Rotherwood"},
                      {"max_tokens", 20}, {"temperature", 1}, {"seed", 3}};

int cached(const json& answer) { return answer["usage"]["prompt_tokens_details"]["cached_tokens"]; }

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
  { ServeProcess server(with_cache); answer(server, request); }
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
  const Folder folder;
  const Words with_cache = {"--prefix-cache", folder.path().string()};
  { ServeProcess server(with_cache); answer(server, request); }
  const Folder said;
  const std::string errors = (said.path() / "errors").string();
  {
    ServeProcess server(with_cache, 20000, errors);  // no file may become as large as the cache
    json other = request;
    other["prompt"] = "A recipe of Fallow Green";
    answer(server, other);
    EXPECT_EQ(server.end(), 0);
  }
  EXPECT_THAT(text_of(errors), HasSubstr("prefix cache not saved"));
  ServeProcess server(with_cache);
  EXPECT_GT(cached(answer(server, request)), 5);
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

TEST(ServeProcess, ConnectionsThatSayNothingOrHalfARequestHoldUpNobody) {
  ServeProcess server;
  std::vector<std::unique_ptr<httplib::Client>> clients;
  std::vector<int> files;
  for (int i = 0; i < 60; ++i) {
    const int file = socket(AF_INET, SOCK_STREAM, 0);
    sockaddr_in address{};
    address.sin_family = AF_INET;
    address.sin_port = htons(static_cast<std::uint16_t>(server.port()));
    address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    ASSERT_EQ(connect(file, reinterpret_cast<const sockaddr*>(&address), sizeof(address)), 0);
    const std::string half = "POST /v1/completions HTTP/1.1\r\nContent-Length: 1000\r\n\r\n{";
    if (i % 2 == 0) {
      ASSERT_GT(::send(file, half.data(), half.size(), 0), 0);
    }
    files.push_back(file);
  }
  const auto begin = std::chrono::steady_clock::now();
  EXPECT_EQ(answer(server, request)["usage"]["completion_tokens"], 20);
  EXPECT_LT(std::chrono::steady_clock::now() - begin, std::chrono::milliseconds(900));
  for (const int file : files) close(file);
}

TEST(ServeProcess, TwoServersDoNotShareAPort) {
  ServeProcess server;
  const Outcome second = run_command({"serve", target, "--port", std::to_string(server.port())});
  EXPECT_EQ(second.status, 3);
  EXPECT_THAT(second.err, HasSubstr("cannot listen on 127.0.0.1 port"));
}

}  // namespace
}  // namespace draftproof::test::process_test
