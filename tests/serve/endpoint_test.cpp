// SPDX-License-Identifier: MIT
// `draftproof verify --endpoint`: a right server passes, and a proxy before it that spoils one answer is caught at the
// place where it did.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <httplib.h>

#include <atomic>
#include <chrono>
#include <cmath>
#include <functional>
#include <limits>
#include <mutex>
#include <nlohmann/json.hpp>
#include <thread>

#include "tests/serve/serve_process.h"
#include "tests/tools/command.h"
#include "tests/tools/vast_model.h"

namespace draftproof::test::endpoint_test {
namespace {

using nlohmann::ordered_json;
using testing::AllOf;
using testing::Gt;
using testing::HasSubstr;
using testing::Not;

struct Verified {
  Outcome outcome;
  ordered_json json;  // null when it wrote none
};

Verified verify_endpoint(const std::string& url, const Words& more = {}) {
  const Folder folder;
  const std::string file = (folder.path() / "result.json").string();
  Verified verified;
  verified.outcome = run_command(Words{"verify", target, "--endpoint", url, "--json", file} + more);
  if (const std::string text = text_of(file); !text.empty()) verified.json = ordered_json::parse(text);
  return verified;
}

// A server that deserves it passes, and the report says what was exercised.

TEST(Endpoint, AServerWithADraftPasses) {
  ServeProcess server({"--draft", dflash, "--draft-max", "5"});
  const auto [outcome, json] = verify_endpoint(server.url(), {"--requests", "32", "--seed", "1"});
  ASSERT_EQ(outcome.status, 0) << outcome.out << outcome.err;
  EXPECT_THAT(outcome.out, AllOf(HasSubstr("plain decoding, bit for bit"), HasSubstr("beginnings of it"),
                                 HasSubstr("no choice was preempted")));
  EXPECT_EQ(json["verdict"], "PASS_EXACT");
  EXPECT_EQ(json["answers"].get<int>() + json["cancelled_answers"].get<int>(), 32);
  EXPECT_THAT(json["cancelled_answers"].get<int>(), Gt(0));
  EXPECT_THAT(json["logprobs"].get<int>(), Gt(0));
  EXPECT_THAT(json["constrained_answers"].get<int>(), Gt(0));
  EXPECT_THAT(json["server"]["passes_shared_total"].get<int>(), Gt(0));
  EXPECT_THAT(json["server"]["prompt_tokens_reused_total"].get<int>(), Gt(0));
  EXPECT_THAT(json["server"]["draft_rounds_accepted_total"].get<int>(), Gt(0));
  EXPECT_THAT(json["server"]["cancelled"].get<int>(), Gt(0));
  EXPECT_EQ(server.end(), 0);
}

TEST(EndpointSlow, PreemptedAnswersPass) {
  ServeProcess server({"--draft", dflash, "--draft-max", "5", "--parallel", "8", "--kv-budget", "768KiB"});
  const auto [outcome, json] = verify_endpoint(server.url(), {"--requests", "32", "--seed", "3"});
  ASSERT_EQ(outcome.status, 0) << outcome.out << outcome.err;
  EXPECT_THAT(json["server"]["preemptions_total"].get<int>(), Gt(0));
  EXPECT_THAT(outcome.out, Not(HasSubstr("no choice was preempted")));
}

TEST(Endpoint, AServerWithoutADraftPassesAndTheReportSaysWhatDidNotHappen) {
  ServeProcess server({"--parallel", "1"});
  const auto [outcome, json] = verify_endpoint(server.url(), {"--requests", "6", "--clients", "1"});
  ASSERT_EQ(outcome.status, 0) << outcome.out << outcome.err;
  EXPECT_THAT(outcome.out, AllOf(HasSubstr("no pass was shared"), HasSubstr("no draft token was accepted")));
}

TEST(EndpointSlow, AFullServerIsAskedAgain) {
  ServeProcess server({"--parallel", "1", "--waiting-max", "6"});
  const auto [outcome, json] =
      verify_endpoint(server.url(), {"--requests", "12", "--clients", "6", "--max-new-tokens", "200"});
  ASSERT_EQ(outcome.status, 0) << outcome.out << outcome.err;
  EXPECT_THAT(json["told_to_come_back"].get<int>(), Gt(0));
}

TEST(Endpoint, WhereTheTextOfATokenBeginsDoesNotDependOnTheRounds) {
  ServeProcess server({"--draft", dflash});
  httplib::Client client(server.url());
  // A special token, which has no text, and more after it in the same round.
  ordered_json asked = {
      {"prompt", {1296, 321,  6,    1014, 1483, 218, 752,  894, 1254, 583,  427, 1812, 1876, 913, 1496, 1689, 82,
                  1729, 1314, 1402, 281,  943,  152, 1834, 302, 1026, 1875, 879, 1293, 612,  544, 1941, 943}},
      {"seed", 3291180044284597},
      {"max_tokens", 49},
      {"ignore_eos", true},
      {"temperature", 0.8},
      {"top_k", 7},
      {"logprobs", 0}};
  const auto offsets = [&] {
    const auto reply = client.Post("/v1/completions", asked.dump(), "application/json");
    return ordered_json::parse(reply->body)["choices"][0]["logprobs"]["text_offset"];
  };
  const ordered_json speculative = offsets();
  asked["speculative"] = false;
  EXPECT_EQ(speculative, offsets());
}

// Mutants.

/// The events of a stream, without the last, [DONE].
using Events = std::vector<ordered_json>;

/// Stands before a right server and changes what it says.
class Proxy {
 public:
  /// Spoils an answer, given what was asked; returns whether it did. `done`: whether [DONE] follows.
  using SpoilStream = std::function<bool(const ordered_json& asked, Events& events, bool& done)>;
  using SpoilWhole = std::function<bool(const ordered_json& asked, ordered_json& answer)>;

  explicit Proxy(const std::string& upstream) : upstream_(upstream) {
    std::signal(SIGPIPE, SIG_IGN);
    const auto forward = [this](const httplib::Request& request, httplib::Response& response) {
      httplib::Client client(upstream_);
      const auto got = client.Get(request.path);
      ASSERT_TRUE(got);
      response.status = got->status;
      const std::lock_guard lock(mutex_);
      response.set_content(request.path == "/v1/models" && models ? models(got->body) : got->body, "text/plain");
    };
    server_.Get("/v1/models", forward);
    server_.Get("/metrics", forward);
    server_.Post("/v1/.*", [this](const httplib::Request& request, httplib::Response& response) {
      ++requests_;
      httplib::Client client(upstream_);
      const ordered_json asked = ordered_json::parse(request.body);
      const auto got = client.Post(request.path, upstream_body(asked), "application/json");
      ASSERT_TRUE(got);
      response.status = got->status;
      response.set_content(
          asked.value("stream", false) ? spoiled_stream(asked, got->body) : spoiled_whole(asked, got->body),
          "text/plain");
    });
    port_ = server_.bind_to_any_port("127.0.0.1");
    thread_ = std::thread([this] { server_.listen_after_bind(); });
    while (!server_.is_running()) std::this_thread::sleep_for(std::chrono::milliseconds(1));
  }
  ~Proxy() {
    server_.stop();
    thread_.join();
  }

  /// The callbacks are set before the call.
  std::string url() {
    const std::lock_guard lock(mutex_);
    return "http://127.0.0.1:" + std::to_string(port_);
  }
  /// 0: none. What a callback wrote before can be read behind the call.
  int spoiled_request() {
    const std::lock_guard lock(mutex_);
    return spoiled_;
  }

  SpoilStream stream;
  SpoilWhole whole;
  std::function<std::string(const std::string&)> models;
  std::function<ordered_json(ordered_json asked)> input;  // what is asked upstream
  bool every_time = false;                                // spoils the request again when it is asked again

 private:
  bool may_spoil(const ordered_json& asked) const { return spoiled_ == 0 || (every_time && asked == spoiled_one_); }
  void spoil(const ordered_json& asked) {
    if (spoiled_ == 0) spoiled_ = requests_.load();
    spoiled_one_ = asked;
  }

  std::string upstream_body(const ordered_json& asked) {
    const std::lock_guard lock(mutex_);
    return (input ? input(asked) : asked).dump();
  }
  std::string spoiled_stream(const ordered_json& asked, const std::string& body) {
    const std::lock_guard lock(mutex_);
    if (!stream || !may_spoil(asked)) return body;
    Events events;
    std::size_t at = 0;
    for (std::size_t end = 0; (end = body.find("\n\n", at)) != std::string::npos; at = end + 2) {
      const std::string data = body.substr(at + 6, end - at - 6);
      if (data != "[DONE]") events.push_back(ordered_json::parse(data));
    }
    bool done = true;
    if (!stream(asked, events, done)) return body;
    spoil(asked);
    std::string text;
    for (const ordered_json& event : events) text += "data: " + event.dump() + "\n\n";
    return text + (done ? "data: [DONE]\n\n" : "");
  }
  std::string spoiled_whole(const ordered_json& asked, const std::string& body) {
    const std::lock_guard lock(mutex_);
    if (!whole || !may_spoil(asked)) return body;
    ordered_json answer = ordered_json::parse(body);
    if (!whole(asked, answer)) return body;
    spoil(asked);
    return answer.dump();
  }

  std::string upstream_;
  httplib::Server server_;
  std::thread thread_;
  int port_ = 0;
  std::atomic<int> requests_{0};
  std::mutex mutex_;  // of what follows and of the callbacks, as every request has a thread
  int spoiled_ = 0;
  ordered_json spoiled_one_;
};

constexpr int new_tokens_max = 24;

/// Requests that are cancelled ask for the most tokens, and go on at the end of the text.
bool may_be_cancelled(const ordered_json& asked) {
  const char* const field = asked.contains("max_tokens") ? "max_tokens" : "max_completion_tokens";
  return asked[field] == new_tokens_max && asked.contains("ignore_eos");
}

/// The events with rounds of choice 0.
std::vector<std::size_t> rounds_of_first_choice(const Events& events) {
  std::vector<std::size_t> places;
  for (std::size_t i = 0; i < events.size(); ++i) {
    if (events[i].contains("round") && events[i]["choices"][0]["index"] == 0) places.push_back(i);
  }
  return places;
}

struct Mutants : testing::Test {
  static void SetUpTestSuite() { server = new ServeProcess({"--draft", dflash, "--draft-max", "5"}); }
  static void TearDownTestSuite() { delete server; }

  /// One client, so that the order of the requests is that of the plan.
  Verified verify(const Words& more = {}) {
    return verify_endpoint(proxy.url(), Words{"--requests", std::to_string(requests), "--clients", "1",
                                              "--max-new-tokens", std::to_string(new_tokens), "--seed", "5"} +
                                            more);
  }
  /// Verifies, and returns the only divergence, which is in the request that was spoiled.
  ordered_json caught(const std::string& what) {
    const auto [outcome, json] = verify();
    EXPECT_GT(proxy.spoiled_request(), 0) << "no request of the plan is of the kind that the mutant spoils";
    EXPECT_EQ(outcome.status, 1) << outcome.out << outcome.err;
    if (!json.contains("divergences") || json["divergences"].size() != 1) {
      ADD_FAILURE() << json.dump(2);
      return ordered_json::object();
    }
    EXPECT_EQ(json["verdict"], "BUG_PROVEN");
    const ordered_json found = json["divergences"][0];
    EXPECT_EQ(found["request"], proxy.spoiled_request());
    EXPECT_EQ(found["what"], what);
    EXPECT_THAT(outcome.out, AllOf(HasSubstr("\n  curl -sN " + proxy.url() + found["path"].get<std::string>() + " "),
                                   HasSubstr(proxy.every_time ? "is wrong too" : "its answer is right")));
    return found;
  }

  static ServeProcess* server;
  Proxy proxy{server->url()};
  int requests = 16;
  int new_tokens = new_tokens_max;
};
ServeProcess* Mutants::server = nullptr;

TEST_F(Mutants, NoMutantNoDivergence) {
  const auto [outcome, json] = verify();
  EXPECT_EQ(outcome.status, 0) << outcome.out << outcome.err;
  EXPECT_EQ(json["divergences"].size(), 0);
}

TEST_F(Mutants, AWrongToken) {
  int right = 0;
  std::size_t place = 0;
  proxy.stream = [&](const ordered_json& asked, Events& events, bool&) {
    const auto rounds = rounds_of_first_choice(events);
    if (may_be_cancelled(asked) || rounds.size() < 3) return false;
    place = events[rounds[0]]["round"]["tokens"].size() + events[rounds[1]]["round"]["tokens"].size();
    ordered_json& token = events[rounds[2]]["round"]["tokens"][0]["id"];
    right = token.get<int>();
    token = (right + 1) % 2048;
    return true;
  };
  proxy.every_time = true;
  const ordered_json found = caught("token");
  EXPECT_EQ(found["choice"], 0);
  EXPECT_EQ(found["token"], place);
  EXPECT_EQ(found["expected"].get<std::string>().find(std::to_string(right) + " "), 0);
  EXPECT_EQ(found["received"].get<std::string>().find(std::to_string((right + 1) % 2048) + " "), 0);
}

using MutantsSlow = Mutants;

TEST_F(MutantsSlow, AWrongTokenOfAWholeAnswer) {
  std::size_t choice = 0;
  proxy.whole = [&](const ordered_json&, ordered_json& answer) {
    if (answer["choices"].size() < 2) return false;
    choice = answer["choices"].size() - 1;
    ordered_json& token = answer["choices"][choice]["rounds"][0]["tokens"][0]["id"];
    token = (token.get<int>() + 1) % 2048;
    return true;
  };
  const ordered_json found = caught("token");
  EXPECT_EQ(found["choice"], choice);
  EXPECT_EQ(found["token"], 0);
}

TEST_F(MutantsSlow, ACampaignFindsAndNamesTheServerThatIsWrong) {
  proxy.whole = [](const ordered_json&, ordered_json& answer) {
    ordered_json& token = answer["choices"][0]["rounds"][0]["tokens"][0]["id"];
    token = (token.get<int>() + 1) % 2048;
    return true;
  };
  const Folder folder;
  const std::string file = (folder.path() / "servers.json").string();
  ordered_json campaign = {{"seeds", {5}}, {"max_new_tokens", new_tokens}, {"endpoints", ordered_json::array()}};
  for (const std::string& url : {server->url(), proxy.url()}) {
    campaign["endpoints"].push_back({{"url", url}, {"target", target}, {"requests", requests}, {"clients", 1}});
  }
  put(file, campaign.dump());
  const Outcome outcome = run_command({"campaign", file, "--json", "-"});
  EXPECT_EQ(outcome.status, 1) << outcome.err;
  const ordered_json report = ordered_json::parse(outcome.out);
  EXPECT_EQ(report["trials"][0]["verdict"], "PASS_EXACT");
  EXPECT_EQ(report["trials"][1]["verdict"], "BUG_PROVEN");
  ASSERT_EQ(report["checks"].size(), 1U);
  EXPECT_THAT(report["checks"][0]["failure"]["run"].get<std::string>(),
              testing::StartsWith(proxy.url() + ": request "));
}

TEST_F(MutantsSlow, AWrongTokenAtTheBeginningOfACancelledAnswer) {
  proxy.stream = [](const ordered_json& asked, Events& events, bool&) {
    if (!may_be_cancelled(asked) || !events[0].contains("round")) return false;
    ordered_json& token = events[0]["round"]["tokens"][0]["id"];
    token = (token.get<int>() + 1) % 2048;
    return true;
  };
  EXPECT_EQ(caught("token")["token"], 0);
}

TEST_F(MutantsSlow, ALogprobThatIsOneUlpOff) {
  std::size_t place = 0;
  proxy.stream = [&](const ordered_json& asked, Events& events, bool&) {
    const auto rounds = rounds_of_first_choice(events);
    if (!asked.contains("logprobs") || asked.contains("messages") || may_be_cancelled(asked) || rounds.size() < 2) {
      return false;
    }
    place = events[rounds[0]]["round"]["tokens"].size();
    ordered_json& logprob = events[rounds[1]]["choices"][0]["logprobs"]["token_logprobs"][0];
    logprob = std::nextafter(logprob.get<double>(), -std::numeric_limits<double>::infinity());
    return true;
  };
  EXPECT_EQ(caught("logprobs")["token"], place);
}

TEST_F(MutantsSlow, ALogprobOfThePromptIsThatOfTheTokenBefore) {
  proxy.stream = [&](const ordered_json& asked, Events& events, bool&) {
    if (!asked.contains("prompt_logprobs") || may_be_cancelled(asked)) return false;
    for (ordered_json& event : events) {
      for (ordered_json& choice : event["choices"]) {
        const bool told = choice.contains("prompt_logprobs") && choice["prompt_logprobs"].size() > 2;
        if (!told || choice["prompt_logprobs"][1] == choice["prompt_logprobs"][2]) continue;
        choice["prompt_logprobs"][2] = choice["prompt_logprobs"][1];
        return true;
      }
    }
    return false;
  };
  EXPECT_EQ(caught("logprobs of the prompt")["token"], 2);
}

TEST_F(MutantsSlow, AWrongFinishReason) {
  proxy.stream = [](const ordered_json& asked, Events& events, bool&) {
    if (may_be_cancelled(asked)) return false;
    for (ordered_json& event : events) {
      if (event["choices"].empty() || event["choices"][0]["finish_reason"].is_null()) continue;
      ordered_json& reason = event["choices"][0]["finish_reason"];
      reason = reason == "length" ? "stop" : "length";
      return true;
    }
    return false;
  };
  caught("finish reason");
}

/// Names another tool: tokens and content stay right.
bool spoil_call(ordered_json& message) {
  if (!message.contains("tool_calls")) return false;
  for (ordered_json& call : message["tool_calls"]) {
    if (!call["function"].contains("name")) continue;
    call["function"]["name"] = "delete_all";
    return true;
  }
  return false;
}

TEST_F(MutantsSlow, AWrongCallOfAToolInAStream) {
  requests = 160;
  new_tokens = 80;  // a call has to be written
  proxy.stream = [](const ordered_json& asked, Events& events, bool&) {
    const auto spoil = [](ordered_json& event) {
      return !event["choices"].empty() && event["choices"][0].contains("delta") &&
             spoil_call(event["choices"][0]["delta"]);
    };
    return !asked.contains("ignore_eos") && std::ranges::any_of(events, spoil);  // such a one may be cancelled
  };
  caught("calls of tools");
}

TEST_F(MutantsSlow, AWrongCallOfAToolInAWholeAnswer) {
  requests = 160;
  new_tokens = 80;  // a call has to be written
  proxy.whole = [](const ordered_json&, ordered_json& answer) {
    return answer["choices"][0].contains("message") && spoil_call(answer["choices"][0]["message"]);
  };
  caught("calls of tools");
}

TEST_F(Mutants, ADroppedChunk) {
  std::size_t place = 0;
  proxy.stream = [&](const ordered_json& asked, Events& events, bool&) {
    const auto rounds = rounds_of_first_choice(events);
    if (may_be_cancelled(asked) || rounds.size() < 3) return false;
    const ordered_json& dropped = events[rounds[1]]["round"]["tokens"];
    const ordered_json& next = events[rounds[2]]["round"]["tokens"];
    if (dropped[0]["id"] == next[0]["id"]) return false;  // would be seen later
    place = events[rounds[0]]["round"]["tokens"].size();
    events.erase(events.begin() + static_cast<std::ptrdiff_t>(rounds[1]));
    return true;
  };
  EXPECT_EQ(caught("token")["token"], place);
}

TEST_F(MutantsSlow, AnAnswerThatEndsEarly) {
  std::size_t place = 0;
  proxy.stream = [&](const ordered_json& asked, Events& events, bool&) {
    const auto rounds = rounds_of_first_choice(events);
    if (may_be_cancelled(asked) || rounds.size() < 2) return false;
    place = 0;
    for (std::size_t i = 0; i + 1 < rounds.size(); ++i) place += events[rounds[i]]["round"]["tokens"].size();
    events.erase(events.begin() + static_cast<std::ptrdiff_t>(rounds.back()));
    return true;
  };
  const ordered_json found = caught("token");
  EXPECT_EQ(found["token"], place);
  EXPECT_EQ(found["received"], "the end");
}

TEST_F(MutantsSlow, AStreamWithoutItsEnd) {
  proxy.stream = [](const ordered_json& asked, Events&, bool& done) {
    done = false;
    return !may_be_cancelled(asked);
  };
  caught("end of the stream");
}

TEST_F(MutantsSlow, AWrongText) {
  proxy.stream = [](const ordered_json& asked, Events& events, bool&) {
    const auto rounds = rounds_of_first_choice(events);
    if (may_be_cancelled(asked) || asked.contains("messages") || rounds.empty()) return false;
    ordered_json& text = events[rounds[0]]["choices"][0]["text"];
    text = text.get<std::string>() + "!";
    return true;
  };
  caught("text");
}

TEST_F(MutantsSlow, APromptThatWasReadDifferently) {
  proxy.whole = [](const ordered_json&, ordered_json& answer) {
    ordered_json& tokens = answer["usage"]["prompt_tokens"];
    tokens = tokens.get<int>() + 1;
    return true;
  };
  caught("number of prompt tokens");
}

TEST_F(MutantsSlow, AGrammarThatIsForgotten) {
  proxy.input = [](ordered_json asked) {
    asked.erase("grammar");
    asked.erase("response_format");
    return asked;
  };
  const auto [outcome, json] = verify();
  EXPECT_EQ(outcome.status, 1) << outcome.out << outcome.err;
  for (const ordered_json& found : json["divergences"]) {
    EXPECT_TRUE(found["body"].contains("grammar") || found["body"].contains("response_format"));
    EXPECT_EQ(found["what"], "token");
  }
  EXPECT_EQ(json["divergences"].size(), json["constrained_answers"]);
}

TEST_F(MutantsSlow, ARequestThatDies) {
  proxy.every_time = true;
  proxy.stream = [](const ordered_json& asked, Events& events, bool&) {
    if (may_be_cancelled(asked)) return false;
    events = {{{"error", {{"message", "something failed"}, {"type", "server_error"}}}}};
    return true;
  };
  EXPECT_THAT(caught("answer")["received"].get<std::string>(), HasSubstr("something failed"));
}

// What is no answer proves nothing: one sentence, and the exit code for bad input.

TEST_F(MutantsSlow, ARequestThatDiesOnceProvesNothing) {
  proxy.stream = [](const ordered_json& asked, Events& events, bool&) {
    if (may_be_cancelled(asked)) return false;
    events = {{{"error", {{"message", "there is not enough memory now"}}}}};
    return true;
  };
  const auto [outcome, json] = verify();
  EXPECT_EQ(outcome.status, 3);
  EXPECT_THAT(outcome.err, AllOf(HasSubstr("not enough memory"), HasSubstr("asked again, alone")));
}

TEST_F(MutantsSlow, BrokenJsonIsRefused) {
  proxy.whole = [](const ordered_json&, ordered_json& answer) {
    answer.erase("choices");
    return true;
  };
  const auto [outcome, json] = verify();
  EXPECT_EQ(outcome.status, 3);
  EXPECT_THAT(outcome.err, HasSubstr("the answer to request " + std::to_string(proxy.spoiled_request()) + " is not"));
}

TEST_F(MutantsSlow, AServerOfOtherWeightsIsRefused) {
  proxy.models = [](const std::string& body) {
    ordered_json models = ordered_json::parse(body);
    models["data"][0]["weights"] = "xxh3:00";
    return models.dump();
  };
  const auto [outcome, json] = verify();
  EXPECT_EQ(outcome.status, 3);
  EXPECT_THAT(outcome.err, AllOf(HasSubstr("tale-target has the weights xxh3:00, and"), HasSubstr("has xxh3:"),
                                 HasSubstr("give the model that is served")));
}

TEST_F(MutantsSlow, AServerThatDoesNotStateItsWeightsIsProvenAndTheReportSaysWhatIsOpen) {
  proxy.models = [](const std::string& body) {
    ordered_json models = ordered_json::parse(body);
    models["data"][0].erase("weights");
    return models.dump();
  };
  const auto [outcome, json] = verify();
  EXPECT_EQ(outcome.status, 0) << outcome.err;
  EXPECT_THAT(outcome.out, HasSubstr("does not state a digest of its weights"));
  EXPECT_EQ(json["weights"], "");
}

TEST_F(MutantsSlow, AModelThatDoesNotFitHereIsRefusedBeforeItIsLoaded) {
  const Folder folder;
  const std::string vast = vast_model(folder, "tale-target");
  proxy.models = [](const std::string& body) {
    ordered_json models = ordered_json::parse(body);
    models["data"][0].erase("weights");
    return models.dump();
  };
  const Outcome outcome = run_command({"verify", vast, "--endpoint", proxy.url(), "--max-new-tokens", "24"});
  EXPECT_EQ(outcome.status, 3);
  EXPECT_THAT(outcome.err, HasSubstr(vast + " for a text of 25 positions needs 409"));
}

TEST_F(MutantsSlow, AServerOfAnotherNumericsClassIsRefused) {
  proxy.models = [](const std::string& body) {
    ordered_json models = ordered_json::parse(body);
    models["data"][0]["numerics"] = "canonical, quantize q8";
    return models.dump();
  };
  const auto [outcome, json] = verify();
  EXPECT_EQ(outcome.status, 3);
  EXPECT_THAT(outcome.err, AllOf(HasSubstr("\"canonical, quantize q8\""), HasSubstr("--quantize")));
}

TEST_F(MutantsSlow, AnotherServerIsRefused) {
  for (const char* const models :
       {R"({"object":"list","data":[{"id":"gpt"}]})", R"({"data":[{"id":7}]})", R"({"data":[]})", R"({"data":{}})",
        R"([])", "<html>", "", "{\"data\":[{\"id\":\"\xff\"}]}"}) {
    proxy.models = [&](const std::string&) { return models; };
    const Outcome outcome = verify().outcome;
    EXPECT_EQ(outcome.status, 3);
    EXPECT_THAT(outcome.err, AllOf(HasSubstr("/v1/models"), HasSubstr("this is no `draftproof serve`"),
                                   Not(HasSubstr("json.exception"))));
  }
}

TEST(Endpoint, AnAnswerThatComesByteByByteForEverIsGivenUp) {
  httplib::Server dripping;
  dripping.Get("/v1/models", [](const httplib::Request&, httplib::Response& response) {
    response.set_chunked_content_provider("application/json", [](std::size_t, httplib::DataSink& sink) {
      std::this_thread::sleep_for(std::chrono::milliseconds(100));
      return sink.write(" ", 1);
    });
  });
  const int port = dripping.bind_to_any_port("127.0.0.1");
  std::thread thread([&] { dripping.listen_after_bind(); });
  const auto begin = std::chrono::steady_clock::now();
  const Outcome outcome =
      verify_endpoint("http://127.0.0.1:" + std::to_string(port), {"--answer-seconds", "1"}).outcome;
  EXPECT_LT(std::chrono::steady_clock::now() - begin, std::chrono::seconds(20));
  EXPECT_EQ(outcome.status, 3);
  EXPECT_THAT(outcome.err, HasSubstr("did not end its answer within 1 seconds"));
  dripping.stop();
  thread.join();
}

TEST(Endpoint, WhatCannotBeAskedIsRefusedInOneSentence) {
  const auto refused = [](const Words& words, const std::string& sentence) {
    const Outcome outcome = run_command(Words{"verify", target} + words);
    EXPECT_EQ(outcome.status, 3);
    EXPECT_THAT(outcome.err, HasSubstr(sentence));
  };
  refused({"--endpoint", "http://127.0.0.1:1"}, "cannot be reached");
  refused({"--endpoint", "ftp://127.0.0.1"}, "is not the address of a server");
  refused({"--endpoint", "http://127.0.0.1:1", "--draft", "suffix"}, "--draft does nothing with --endpoint");
  refused({"--endpoint", "http://127.0.0.1:1", "--top-k", "3"}, "--top-k does nothing with --endpoint");
  refused({"--clients", "3"}, "--endpoint");
}

TEST(Endpoint, AKeyIsSent) {
  const Folder folder;
  put(folder.path() / "keys", "secret\n");
  ServeProcess server({"--api-key-file", (folder.path() / "keys").string()});
  EXPECT_EQ(verify_endpoint(server.url(), {"--requests", "2"}).outcome.status, 3);
  const auto [outcome, json] = verify_endpoint(server.url(), {"--requests", "2", "--api-key", "secret"});
  EXPECT_EQ(outcome.status, 0) << outcome.out << outcome.err;
}

}  // namespace
}  // namespace draftproof::test::endpoint_test
