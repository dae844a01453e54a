// SPDX-License-Identifier: MIT
// What a server makes of connections, byte by byte: limits of what a client may send, requests that follow each other
// on a connection, clients that go away or do not read, and the end of a server while it answers.
#include "serve/connection.h"

#include <arpa/inet.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <poll.h>
#include <sys/socket.h>
#include <unistd.h>

#include <csignal>

#include "tests/serve/running_server.h"
#include "tests/serve/serve_process.h"

namespace draftproof::serve::connection_test {
namespace {

using testing::AllOf;
using testing::HasSubstr;
using testing::Not;
using testing::StartsWith;
using Json = nlohmann::json;
using Clock = std::chrono::steady_clock;
using namespace std::chrono_literals;

/// A client that sends and receives bytes.
class Client {
 public:
  /// `buffer`: bytes that may come without being read; 0: the system's default.
  explicit Client(int port, int buffer = 0) : file_(socket(AF_INET, SOCK_STREAM, 0)) {
    if (buffer > 0) setsockopt(file_, SOL_SOCKET, SO_RCVBUF, &buffer, sizeof(buffer));
    sockaddr_in address{};
    address.sin_family = AF_INET;
    address.sin_port = htons(static_cast<std::uint16_t>(port));
    address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    EXPECT_EQ(connect(file_, reinterpret_cast<const sockaddr*>(&address), sizeof(address)), 0);
  }
  ~Client() { close(file_); }
  Client(const Client&) = delete;
  Client& operator=(const Client&) = delete;

  /// Returns how many bytes were taken before the server had enough of them.
  std::size_t send(const std::string& bytes) const {
    std::size_t sent = 0;
    while (sent < bytes.size()) {
      const ssize_t more = ::send(file_, bytes.data() + sent, bytes.size() - sent, MSG_NOSIGNAL);
      if (more <= 0) break;
      sent += static_cast<std::size_t>(more);
    }
    return sent;
  }
  /// All that comes until the server closes, or until there is `until`, or nothing for so long.
  std::string receive(const std::string& until = "", std::chrono::milliseconds timeout = 20s) const {
    std::string bytes;
    char buffer[4096];
    while (until.empty() || bytes.find(until) == std::string::npos) {
      pollfd state = {file_, POLLIN, 0};
      if (poll(&state, 1, static_cast<int>(timeout.count())) <= 0) return bytes + "<nothing more came>";
      const ssize_t size = recv(file_, buffer, sizeof(buffer), 0);
      if (size <= 0) break;
      bytes.append(buffer, static_cast<std::size_t>(size));
    }
    return bytes;
  }

 private:
  int file_;
};

const RunningServer& server() {
  static const RunningServer running;
  return running;
}

std::string get(const std::string& path, const std::string& headers = "") {
  return "GET " + path + " HTTP/1.1\r\nHost: localhost\r\n" + headers + "\r\n";
}
std::string post(const std::string& headers, const std::string& body) {
  return "POST /v1/completions HTTP/1.1\r\nHost: localhost\r\n" + headers + "\r\n" + body;
}
std::string with_length(const std::string& body, const std::string& headers = "") {
  return post("Content-Length: " + std::to_string(body.size()) + "\r\n" + headers, body);
}
std::string answer_to(const std::string& bytes) {
  const Client client(server().port());
  client.send(bytes);
  return client.receive();
}
std::string many(const std::string& text, int times) {
  std::string all;
  for (int i = 0; i < times; ++i) all += text;
  return all;
}
std::size_t times_in(const std::string& bytes, const std::string& what) {
  std::size_t count = 0;
  for (std::size_t at = bytes.find(what); at != std::string::npos; at = bytes.find(what, at + 1)) ++count;
  return count;
}
std::size_t answers_in(const std::string& bytes) { return times_in(bytes, "HTTP/1.1 "); }

const Json request = {{"prompt", "Once upon a time"}, {"max_tokens", 8}, {"temperature", 1}, {"seed", 3}};
Json long_request(int tokens, bool stream) {
  return {{"prompt", "Once upon a time"}, {"max_tokens", tokens}, {"temperature", 1}, {"seed", 4},
          {"ignore_eos", true},           {"stream", stream},     {"logprobs", 5}};
}
const std::string closing = "Connection: close\r\n";

TEST(Connection, RangesAreIgnored) {
  const std::string whole = answer_to(get("/health", closing));
  EXPECT_THAT(whole, HasSubstr(R"({"status":"ok"})"));
  for (const std::string& range : {std::string("5-8"), "0-" + many(",0-", 2000), std::string("900-")}) {
    EXPECT_THAT(answer_to(get("/health", closing + "Range: bytes=" + range + "\r\n")),
                AllOf(StartsWith("HTTP/1.1 200 OK"), HasSubstr("\r\n\r\n{\"status\":\"ok\"}"),
                      Not(HasSubstr("Content-Range"))));
  }
}

TEST(Connection, ARequestWithoutALengthHasNoBodyAndIsAnsweredAtOnce) {
  const auto begin = Clock::now();
  EXPECT_THAT(answer_to(post(closing, "")), StartsWith("HTTP/1.1 400"));
  EXPECT_LT(Clock::now() - begin, 5s);
}

TEST(Connection, ABodyMayComeInChunksUpToTheSameSize) {
  const std::string body = request.dump();
  std::string chunks;
  for (std::size_t at = 0; at < body.size(); at += 7) {
    const std::string chunk = body.substr(at, 7);
    chunks += std::to_string(chunk.size()) + "\r\n" + chunk + "\r\n";
  }
  const std::string chunked = closing + "Transfer-Encoding: chunked\r\n";
  EXPECT_THAT(answer_to(post(chunked, chunks + "0\r\n\r\n")), StartsWith("HTTP/1.1 200"));
  const std::string megabyte = "100000\r\n" + std::string(1 << 20, ' ') + "\r\n";
  EXPECT_THAT(answer_to(post(chunked, many(megabyte, 9) + "0\r\n\r\n")),
              AllOf(StartsWith("HTTP/1.1 413"), HasSubstr("longer than 8 MiB")));
  EXPECT_THAT(answer_to(post(chunked, many(megabyte, 40))),
              AllOf(StartsWith("HTTP/1.1 413"), HasSubstr("longer than 8 MiB")));
}

TEST(Connection, ABodyOfAnyContentTypeIsReadAsJson) {
  Json padded = request;
  padded["user"] = std::string(20000, 'u');
  for (const char* const type :
       {"application/x-www-form-urlencoded", "multipart/form-data; boundary=x", "multipart/form-data", "text/plain"}) {
    EXPECT_THAT(answer_to(with_length(padded.dump(), closing + "Content-Type: " + type + "\r\n")),
                StartsWith("HTTP/1.1 200"))
        << type;
  }
}

TEST(Connection, ACompressedBodyIsRefusedUnread) {
  for (const char* const coding : {"gzip", "br", "deflate", "zstd"}) {
    EXPECT_THAT(answer_to(with_length("abcd", std::string("Content-Encoding: ") + coding + "\r\n")),
                AllOf(StartsWith("HTTP/1.1 415"), HasSubstr("compressed"), HasSubstr("invalid_request_error")));
  }
}

TEST(Connection, AHeadThatDoesNotEndIsCutOff) {
  const std::string megabytes(4 << 20, 'a');
  EXPECT_THAT(answer_to("GET /" + megabytes), StartsWith("HTTP/1.1 414"));
  EXPECT_THAT(answer_to("GET / HTTP/1.1\r\nName: " + megabytes), StartsWith("HTTP/1.1 431"));
  EXPECT_THAT(answer_to("GET / HTTP/1.1\r\n" + many("A: b\r\n", 500000)), StartsWith("HTTP/1.1 431"));
}

TEST(Connection, ALengthThatIsNoNumberOrLiesIsToldSo) {
  EXPECT_THAT(answer_to(post("Content-Length: -1\r\n", "{}")), StartsWith("HTTP/1.1 400"));
  for (const char* const length : {"8388609", "99999999999", "18446744073709551616", "999999999999999999999999"}) {
    EXPECT_THAT(answer_to(post("Content-Length: " + std::string(length) + "\r\n", "{}")), StartsWith("HTTP/1.1 413"));
  }
  EXPECT_THAT(answer_to(post("Content-Length: ten\r\n" + closing, "{}")), StartsWith("HTTP/1.1 400"));
  EXPECT_THAT(answer_to(post("Content-Length: 5\r\nContent-Length: 500\r\n", "{}")), StartsWith("HTTP/1.1 400"));
  EXPECT_THAT(answer_to(post("Content-Length: 5\r\nTransfer-Encoding: chunked\r\n", "2\r\n{}\r\n0\r\n\r\n")),
              StartsWith("HTTP/1.1 400"));
}

TEST(Connection, ABodyIsNeverASecondRequestHoweverItsLengthIsHidden) {
  const std::string inside = get("/v1/models");
  const std::string length = std::to_string(inside.size());
  for (const std::string& lines :
       {"Content-Length : " + length, "Content-Length\t: " + length, "X: a\r\n Content-Length: " + length,
        std::string(1, '\0') + "Content-Length: " + length, "Content_Length: " + length,
        std::string("Content-Length: "), "Content-Length: " + length + "\nX: a", "Content-Length: %3" + length,
        std::string("Transfer-Encoding: "), std::string("Transfer-Encoding: chunke%64"),
        std::string("Transfer-Encoding: chunked\r\nContent-Length: 0")}) {
    const std::string answers = answer_to(get("/health", lines + "\r\n") + inside);
    EXPECT_THAT(answers, AllOf(StartsWith("HTTP/1.1 400"), HasSubstr("Connection: close"))) << lines;
    EXPECT_EQ(answers_in(answers), 1) << lines;
  }
}

TEST(Connection, AChunkThatDoesNotEndWhereItSaysIsNotFollowedByARequest) {
  for (const char* const chunks : {"2\r\n{}", "0x2\r\n{}\r\n0\r\n\r\n", "2\n{}\r\n0\r\n\r\n"}) {
    const std::string answers = answer_to(post("Transfer-Encoding: chunked\r\n", chunks + get("/health")));
    EXPECT_THAT(answers, StartsWith("HTTP/1.1 400")) << chunks;
    EXPECT_EQ(answers_in(answers), 1U) << chunks;
  }
}

TEST(Connection, WhetherItIsClosedIsSaidOnce) {
  const std::string closed =
      answer_to("GET /health HTTP/1.1\r\nHost: localhost\r\nContent-Length: 3\r\n" + closing + "\r\nabc");
  EXPECT_EQ(times_in(closed, "Connection: close"), 1U);
  const std::string refused = answer_to(with_length("abcd", closing + "Content-Encoding: gzip\r\n"));
  EXPECT_EQ(times_in(refused, "Connection: close"), 1U);
  EXPECT_EQ(times_in(refused, "Keep-Alive"), 0U);
}

TEST(Connection, RequestsThatAreSentAheadAreAnsweredInOrder) {
  const std::string first = with_length(request.dump());
  const std::string answers = answer_to(first + get("/health") + first + get("/v1/models", closing));
  EXPECT_EQ(answers_in(answers), 4);
  EXPECT_LT(answers.find("text_completion"), answers.find("\"ok\""));
  EXPECT_LT(answers.find("\"ok\""), answers.rfind("text_completion"));
  EXPECT_LT(answers.rfind("text_completion"), answers.find("\"list\""));
}

TEST(Connection, ABodyThatWasRefusedIsNeverTakenForARequest) {
  const RunningServer locked({.draft = "none", .api_keys = {"secret"}});
  const std::string inside = get("/health");
  for (const std::string& head : {with_length(inside, ""), with_length(inside, "Content-Encoding: gzip\r\n")}) {
    const Client client(locked.port());
    client.send(head.substr(0, head.size() - inside.size()));
    std::this_thread::sleep_for(50ms);
    client.send(inside + get("/health", closing));
    const std::string answers = client.receive();
    EXPECT_THAT(answers, StartsWith("HTTP/1.1 4"));
    EXPECT_EQ(answers_in(answers), 1);
  }
}

TEST(Connection, AClientThatGoesIsCancelledWhateverItWaitsForAndTheOthersAnswersStay) {
  const RunningServer small({.draft = "none", .limits = {.rows_per_pass = 64, .running_max = 2}});
  const Json other = long_request(150, false);
  const Json alone = small.answer("/v1/completions", other)["choices"];
  auto beside = std::async(std::launch::async, [&] { return small.answer("/v1/completions", other)["choices"]; });
  {
    std::vector<std::unique_ptr<Client>> clients;
    for (const bool stream : {true, false, true, false}) {  // the last ones are still in the queue
      clients.push_back(std::make_unique<Client>(small.port()));
      clients.back()->send(with_length(long_request(1000, stream).dump()));
    }
    while (small.metric("draftproof_answers_waiting") < 3) std::this_thread::yield();
  }
  const auto gone = Clock::now();
  while (small.metric("draftproof_answers_total{outcome=\"cancelled\"}") < 4 && Clock::now() - gone < 10s) {
    std::this_thread::sleep_for(5ms);
  }
  EXPECT_EQ(small.metric("draftproof_answers_total{outcome=\"cancelled\"}"), 4);
  EXPECT_LT(Clock::now() - gone, 3s);
  EXPECT_EQ(beside.get(), alone);
}

TEST(Connection, AClientThatDoesNotReadHoldsUpNobody) {
  const Json expected = server().answer("/v1/completions", request)["choices"];
  std::vector<std::unique_ptr<Client>> clients;
  for (int i = 0; i < 4; ++i) {
    clients.push_back(std::make_unique<Client>(server().port(), 1024));
    clients.back()->send(with_length(long_request(500, true).dump()));
  }
  for (int i = 0; i < 4; ++i) {
    const auto begin = Clock::now();
    EXPECT_EQ(server().answer("/v1/completions", request)["choices"], expected);
    EXPECT_LT(Clock::now() - begin, 15s);  // a writer waits for its client for 30
  }
  for (const auto& client : clients) EXPECT_THAT(client->receive("data: [DONE]"), HasSubstr("data: [DONE]"));
}

TEST(Connection, AStreamReachesItsEndThoughItsClientReadsItAfterTheServerWasToldToEnd) {
  auto ending = std::make_unique<RunningServer>(RunOptions{.draft = "none"});
  const Client client(ending->port(), 4096);
  Json several = long_request(900, true);  // of more bytes than the system keeps for a client
  several["n"] = 4;
  several["logprobs"] = 20;
  client.send(with_length(several.dump()));
  while (ending->metric("draftproof_answers_running") < 1) std::this_thread::yield();
  httplib::Client other("127.0.0.1", ending->port());
  ending->drain();
  auto ended = std::async(std::launch::async, [&] { ending.reset(); });
  while (other.Get("/health")) std::this_thread::sleep_for(10ms);  // until all is decoded
  std::this_thread::sleep_for(200ms);
  EXPECT_THAT(client.receive(), HasSubstr("data: [DONE]"));
  EXPECT_EQ(ended.wait_for(5s), std::future_status::ready);
}

/// Asks for /health, and returns how long the answer took.
std::chrono::duration<double> time_to_health(int port) {
  const auto begin = Clock::now();
  const Client client(port);
  client.send(get("/health", closing));
  EXPECT_THAT(client.receive("", 8s), StartsWith("HTTP/1.1 200"));
  return Clock::now() - begin;
}

TEST(Connection, ThoseThatSayNothingOrHalfAHeadHoldUpNobodyHoweverFewThreadsThereAre) {
  const RunningServer few({.draft = "none", .connections = 2});
  std::vector<std::unique_ptr<Client>> clients;
  for (int i = 0; i < 40; ++i) {
    clients.push_back(std::make_unique<Client>(few.port()));
    if (i % 2 == 0) clients.back()->send("GET /health HTTP/1.1\r\nHost: x\r\n");
  }
  EXPECT_LT(time_to_health(few.port()), 2s);
  EXPECT_EQ(few.answer("/v1/completions", request)["usage"]["completion_tokens"], 8);
  clients[0]->send("\r\n");
  EXPECT_THAT(clients[0]->receive("}"), StartsWith("HTTP/1.1 200"));  // its head is whole now
}

TEST(Connection, ABodyThatDoesNotComeIsGivenUpWhileOthersWaitForAThread) {
  const RunningServer few({.draft = "none", .connections = 2});
  std::vector<std::unique_ptr<Client>> clients;
  for (int i = 0; i < 6; ++i) {
    clients.push_back(std::make_unique<Client>(few.port()));
    clients.back()->send(post("Content-Length: 1000\r\n", "{"));
  }
  EXPECT_LT(time_to_health(few.port()), 8s);  // a body has ten seconds from one byte to the next where nobody waits
}

TEST(Connection, AServerEndsAtOnceHoweverEarlyAndWhoeverIsConnected) {
  for (int i = 0; i < 3; ++i) {
    const auto begun = std::make_unique<RunningServer>(RunOptions{.draft = "none"});
  }
  auto ending = std::make_unique<RunningServer>(RunOptions{.draft = "none"});
  std::vector<std::unique_ptr<Client>> clients;
  for (const char* const bytes : {"", "GET", "GET / HTTP/1.1\r\n",
                                  "POST /v1/completions HTTP/1.1\r\nHost: localhost\r\nContent-Length: 9\r\n\r\n"}) {
    clients.push_back(std::make_unique<Client>(ending->port()));
    clients.back()->send(bytes);
  }
  EXPECT_EQ(ending->client().Get("/health")->status, 200);
  const auto begin = Clock::now();
  ending.reset();
  EXPECT_LT(Clock::now() - begin, 5s);
}

TEST(Connection, AProcessThatIsToldToEndAsItBeginsEndsInOrder) {
  for (int i = 0; i < 3; ++i) {
    test::ServeProcess process;
    EXPECT_EQ(process.end(), 0);
  }
}

}  // namespace
}  // namespace draftproof::serve::connection_test
