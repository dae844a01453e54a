// SPDX-License-Identifier: MIT
// Sends damaged requests to a server in this process, in an endless loop: damaged JSON and schemas in sound HTTP, which
// must be answered with JSON whatever they are; and damaged HTTP, which must do no harm. Some clients leave without
// waiting. From time to time a sound request has to get its answer, and at the end nothing may be running any more. The
// damage is deterministic: a seed reproduces it.
//
//     fuzz_serve [--seconds N] [--rounds N] [--seed N]
#include <arpa/inet.h>
#include <netinet/in.h>
#include <sys/socket.h>
#include <unistd.h>

#include <chrono>
#include <csignal>
#include <cstdio>
#include <exception>
#include <stdexcept>

#include "tests/fuzz/damage.h"
#include "tests/fuzz/options.h"
#include "tests/fuzz/request_json.h"
#include "tests/serve/running_server.h"

namespace draftproof::serve {
namespace {

std::vector<std::string> all_bodies() {
  std::vector<std::string> all = {R"({"content":"Once \u00e4 \ud83d\ude00","add_special":true,"parse_special":false})",
                                  R"({"tokens":[1,2,3,400]})"};
  for (const auto* bodies : {&completion_bodies, &chat_bodies}) all.insert(all.end(), bodies->begin(), bodies->end());
  return all;
}
const std::vector<std::string> paths = {"/v1/completions", "/v1/chat/completions", "/tokenize", "/detokenize"};

std::string http(const std::string& path, const std::string& body) {
  return "POST " + path +
         " HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\nConnection: close\r\n"
         "Content-Length: " +
         std::to_string(body.size()) + "\r\n\r\n" + body;
}

std::string many(const std::string& text, int times) {
  std::string all;
  for (int i = 0; i < times; ++i) all += text;
  return all;
}

/// What damage alone would not make.
const std::vector<std::string> hostile = {
    "GET / HTTP/1.1\r\nRange: bytes=" + std::string(7000, '1') + "-\r\n\r\n",
    "GET / HTTP/1.1\r\nRange: bytes=0-1" + many(",1-2", 1500) + "\r\n\r\n",
    "GET / HTTP/1.1\r\n" + many("A: b\r\n", 2000) + "\r\n",
    "GET /" + std::string(9000, 'a') + " HTTP/1.1\r\n\r\n",
    "GET / HTTP/1.1\r\n" + std::string(9000, 'a') + ": b\r\n\r\n",
    "POST /v1/completions HTTP/1.1\r\nContent-Length: -1\r\n\r\n{}",
    "POST /v1/completions HTTP/1.1\r\nContent-Length: 99999999999999999999\r\n\r\n{}",
    "POST /v1/completions HTTP/1.1\r\nTransfer-Encoding: chunked\r\n\r\nFFFFFFFFFFFFFFFF\r\n{}\r\n0\r\n\r\n",
    "POST /v1/completions HTTP/1.1\r\nTransfer-Encoding: chunked\r\n\r\n-1\r\n{}\r\n0\r\n\r\n",
    "POST /v1/completions HTTP/1.1\r\nContent-Type: multipart/form-data; boundary=x\r\nContent-Length: 8\r\n\r\n"
    "--x\r\n\r\n--",
    "POST /v1/completions HTTP/1.1\r\nContent-Encoding: gzip\r\nContent-Length: 4\r\n\r\nabcd",
    "POST /v1/completions HTTP/1.1\r\nTransfer-Encoding: chunked\r\n\r\n" + many("1\r\n{\r\n", 5000),
    "POST /v1/completions HTTP/1.1\r\nTransfer-Encoding: gzip, chunked\r\n\r\n2\r\n{}\r\n0\r\n\r\n",
    "POST /v1/completions HTTP/1.1\r\nContent-Length: 2\r\nTransfer-Encoding: chunked\r\n\r\n2\r\n{}\r\n0\r\n\r\n",
    "POST /v1/completions HTTP/1.1\r\nContent-Length: 2\r\nContent-Length: 20\r\n\r\n{}",
    "GET /health HTTP/1.1\r\nContent-Length: 25\r\n\r\nGET /metrics HTTP/1.1\r\n\r\n",
    "GET /" + std::string(300000, 'a'),
    "GET / HTTP/1.1\r\n" + many("A: b\r\n", 50000),
    "POST /v1/completions HTTP/1.1\r\nExpect: 100-continue\r\nContent-Length: 2\r\n\r\n{}",
    "GET /metrics HTTP/1.1\r\n\r\nGET /metrics HTTP/1.1\r\n\r\nGET /health HTTP/1.1\r\nConnection: close\r\n\r\n",
    "\r\n\r\n\r\n",
    "GET",
    std::string(100, '\0'),
    "PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n",
    "GET * HTTP/1.1\r\n\r\n",
    "GET http://[::1/ HTTP/1.1\r\n\r\n",
    "GET /%00%ff%zz HTTP/1.1\r\n\r\n",
    "DELETE /v1/models HTTP/1.1\r\n\r\n",
};

/// Sends bytes and returns what comes back, until the server closes or takes too long. `leaves`: does not wait.
std::string exchange(int port, const std::string& bytes, bool leaves, int milliseconds) {
  const int file = socket(AF_INET, SOCK_STREAM, 0);
  sockaddr_in address{};
  address.sin_family = AF_INET;
  address.sin_port = htons(static_cast<std::uint16_t>(port));
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  const timeval timeout = {milliseconds / 1000, milliseconds % 1000 * 1000};
  setsockopt(file, SOL_SOCKET, SO_RCVTIMEO, &timeout, sizeof(timeout));
  setsockopt(file, SOL_SOCKET, SO_SNDTIMEO, &timeout, sizeof(timeout));
  std::string answer;
  if (connect(file, reinterpret_cast<const sockaddr*>(&address), sizeof(address)) != 0) {
    close(file);
    throw std::runtime_error("the server takes no connection");
  }
  send(file, bytes.data(), bytes.size(), MSG_NOSIGNAL);
  if (!leaves) {
    char buffer[4096];
    for (ssize_t size = 0; (size = recv(file, buffer, sizeof(buffer), 0)) > 0;) {
      answer.append(buffer, static_cast<std::size_t>(size));
    }
  }
  close(file);
  return answer;
}

int fuzz_server(const FuzzOptions& options) {
  std::signal(SIGPIPE, SIG_IGN);
  RunOptions run_options;
  run_options.limits.running_max = 4;
  const RunningServer server(run_options);
  const nlohmann::json sound = {
      {"prompt", "Once upon a time"}, {"max_tokens", 12}, {"temperature", 1}, {"seed", 5}, {"logprobs", 1},
      {"speculative", false}};
  const nlohmann::json expected = server.answer("/v1/completions", sound)["choices"];
  const std::vector<std::string> bodies = all_bodies();
  Numbers numbers(options.seed);
  long rounds = 0;
  long answered = 0;
  const auto begin = std::chrono::steady_clock::now();
  const auto seconds = [&] { return std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count(); };
  for (; seconds() < options.seconds || rounds < options.rounds; ++rounds) {
    if (rounds % 200 == 0) {
      nlohmann::json drafted = sound;
      drafted["speculative"] = rounds % 400 == 0;
      if (server.answer("/v1/completions", drafted)["choices"] != expected) {
        throw std::runtime_error("a sound request got another answer");
      }
    }
    if (numbers.below(16) == 0) {
      exchange(server.port(), hostile[numbers.below(hostile.size())], numbers.below(2) == 0, 20);
      continue;
    }
    std::string body = bodies[numbers.below(bodies.size())];
    for (std::size_t left = numbers.below(4); left > 0; --left) {
      if (numbers.below(2) == 0) replace_value(body, numbers);
      else damage(body, bodies[numbers.below(bodies.size())], numbers);
    }
    std::string bytes = http(paths[numbers.below(paths.size())], body);
    const bool sound_http = numbers.below(4) != 0;
    if (!sound_http) damage(bytes, hostile[numbers.below(hostile.size())], numbers);
    const bool leaves = numbers.below(8) == 0;
    const std::string answer = exchange(server.port(), bytes, leaves, sound_http ? 10000 : 20);
    if (leaves || !sound_http) continue;
    const std::size_t head = answer.find("\r\n\r\n");
    if (!answer.starts_with("HTTP/1.1 ") || head == std::string::npos) {
      throw std::runtime_error("there was no answer to " + body);
    }
    const bool streamed = answer.find("text/event-stream") < head;
    const std::string content = answer.substr(head + 4);
    if (!streamed && nlohmann::json::parse(content, nullptr, false).is_discarded()) {
      throw std::runtime_error("the answer is not JSON: " + content + " to " + body);
    }
    if (streamed && content.find("data: [DONE]") == std::string::npos) {
      throw std::runtime_error("the stream has no end: " + content + " to " + body);
    }
    ++answered;
  }
  for (int wait = 0; wait < 1000 && server.metric("draftproof_answers_running") > 0; ++wait) usleep(10000);
  if (server.metric("draftproof_answers_running") > 0) throw std::runtime_error("something is still running");
  std::printf("%ld requests, %ld of them sound HTTP that was answered\n", rounds, answered);
  return 0;
}

}  // namespace
}  // namespace draftproof::serve

int main(int count, char** arguments) {
  try {
    return draftproof::serve::fuzz_server(draftproof::read_fuzz_options(count, arguments));
  } catch (const std::exception& wrong) {
    std::fprintf(stderr, "fuzz_serve: %s\n", wrong.what());
    return 1;
  }
}
