// SPDX-License-Identifier: MIT
// Requests of the kind that other servers' advisories describe (docs/security.md): each is answered with an error, and
// the next request as if nothing had been.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/socket.h>
#include <unistd.h>

#include <nlohmann/json.hpp>
#include <string>

#include "serve/chunks.h"
#include "tests/serve/running_server.h"

namespace draftproof::serve::advisories_test {
namespace {

using testing::HasSubstr;
using Json = nlohmann::json;

const char* const completions = "/v1/completions";
const char* const chats = "/v1/chat/completions";

const RunningServer& server() {
  static const RunningServer running;
  return running;
}

void expect_refused(const char* path, const Json& body, const std::string& what) {
  const auto answer = server().post(path, body);
  ASSERT_TRUE(answer) << body.dump();
  EXPECT_EQ(answer->status, 400) << body.dump();
  EXPECT_THAT(answer->body, HasSubstr(what));
  EXPECT_EQ(server().post(completions, {{"prompt", "Once"}, {"max_tokens", 1}})->status, 200)
      << "after " << body.dump();
}

TEST(AdvisoriesOfServers, NumbersOutOfRange) {
  const Json prompt = {{"prompt", "Once"}, {"max_tokens", 1}};
  for (const auto& [field, value] :
       std::initializer_list<std::pair<const char*, Json>>{{"n_discard", -1000},  // CVE-2026-21869
                                                           {"n", 100'000'000},    // CVE-2026-34756
                                                           {"n", std::numeric_limits<std::int64_t>::max()},
                                                           {"best_of", 100'000'000},
                                                           {"max_tokens", std::numeric_limits<std::int64_t>::min()},
                                                           {"repeat_last_n", -1000},
                                                           {"logprobs", -1}}) {
    Json body = prompt;
    body[field] = value;
    expect_refused(completions, body, std::string("field ") + field);
  }
}

TEST(AdvisoriesOfServers, SchemasThatAreNone) {  // CVE-2025-48944
  const auto with_schema = [](const Json& schema) {
    return Json{
        {"messages", {{{"role", "user"}, {"content", "x"}}}},
        {"tools", {{{"type", "function"}, {"function", {{"name", "f"}, {"strict", true}, {"parameters", schema}}}}}},
        {"tool_choice", "required"},
        {"max_tokens", 4}};
  };
  expect_refused(chats, with_schema({{"type", "object"}, {"properties", {{"a", {{"type", "nothing"}}}}}}), "nothing");
  for (const char* const pattern : {"[", "({", "(?<!a)b", "a{1,99999999}", "(((((a*)*)*)*)*"}) {
    const Json schema = {{"type", "string"}, {"pattern", pattern}};
    const auto answer = server().post(chats, with_schema({{"type", "object"}, {"properties", {{"a", schema}}}}));
    ASSERT_TRUE(answer) << pattern;
    EXPECT_THAT(answer->status, testing::AnyOf(200, 400)) << pattern;
  }
}

/// What comes back for these bytes.
std::string sent(const std::string& bytes) {
  const int file = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
  sockaddr_in address = {};
  address.sin_family = AF_INET;
  address.sin_port = htons(static_cast<std::uint16_t>(server().port()));
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  std::string answer;
  if (connect(file, reinterpret_cast<const sockaddr*>(&address), sizeof address) == 0) {
    send(file, bytes.data(), bytes.size(), MSG_NOSIGNAL);
    char piece[4096];
    for (ssize_t count = 0; (count = recv(file, piece, sizeof piece, 0)) > 0;) {
      answer.append(piece, static_cast<std::size_t>(count));
    }
  }
  close(file);
  return answer;
}

TEST(AdvisoriesOfServers, HeadsAndBodiesOfNoEnd) {
  const std::string head = "POST /v1/completions HTTP/1.1\r\nHost: localhost\r\n";
  for (const char* const size : {"-2", "-1", "ffffffffffffffff", "fffffffffffffffe"}) {  // CVE-2026-45352
    EXPECT_THAT(sent(head + "Transfer-Encoding: chunked\r\n\r\n" + size + "\r\nx"), HasSubstr("HTTP/1.1 4")) << size;
    EXPECT_FALSE(Chunks().take(std::string(size) + "\r\n") && size[0] == '-') << size;
  }
  std::string endless = head + "Transfer-Encoding: chunked\r\n\r\n";  // CVE-2025-46728
  for (int mebibyte = 0; mebibyte < 17; ++mebibyte) endless += "100000\r\n" + std::string(1 << 20, 'x') + "\r\n";
  EXPECT_THAT(sent(endless), HasSubstr("HTTP/1.1 413"));
  EXPECT_THAT(sent("GET /" + std::string(1 << 20, 'a')), HasSubstr("HTTP/1.1 4"));  // CVE-2025-53628
  std::string fields = head;                                                        // CVE-2025-52887
  for (int i = 0; i < 100'000; ++i) fields += "X-" + std::to_string(i) + ": a\r\n";
  EXPECT_THAT(sent(fields), HasSubstr("HTTP/1.1 4"));
  EXPECT_EQ(server().post(completions, {{"prompt", "Once"}, {"max_tokens", 1}})->status, 200);
}

TEST(Limits, OfRequests) {
  expect_refused(completions, {{"prompt", std::vector<std::string>(17, "a")}}, "has more than 16 prompts");
  expect_refused(completions, {{"prompt", "a"}, {"n", 17}}, "field n");
  const Json message = {{"role", "user"}, {"content", "x"}};
  expect_refused(chats, {{"messages", std::vector<Json>(4097, message)}}, "has more than 4096 messages");
}

TEST(Limits, OfConnections) {
  std::string requests;
  for (int i = 0; i < 1001; ++i) requests += "GET /health HTTP/1.1\r\nHost: localhost\r\n\r\n";
  const std::string answers = sent(requests);
  int answered = 0;
  for (std::size_t at = 0; (at = answers.find("HTTP/1.1 200", at)) != std::string::npos; ++at) ++answered;
  EXPECT_EQ(answered, 1000);
}

}  // namespace
}  // namespace draftproof::serve::advisories_test
