// SPDX-License-Identifier: MIT
#include "tools/verify_endpoint.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <chrono>
#include <cmath>
#include <exception>
#include <map>
#include <mutex>
#include <nlohmann/json.hpp>
#include <sstream>
#include <thread>
#include <utility>

#include "kernels/threads.h"
#include "ref/base/error.h"
#include "ref/decoding/engine.h"
#include "ref/formats/json.h"
#include "ref/formats/printable.h"
#include "ref/models/models.h"
#include "serve/client.h"
#include "tools/endpoint_answer.h"
#include "tools/endpoint_plan.h"
#include "tools/interrupt.h"
#include "tools/opened_model.h"
#include "tools/weights_digest.h"

namespace draftproof {
namespace {

using EndpointClock = std::chrono::steady_clock;
using EndpointJson = nlohmann::ordered_json;

constexpr auto endpoint_poll = std::chrono::milliseconds(50);
constexpr std::size_t divergences_shown = 3;

/// What prompts are taken from when none is given: some text, of which some repeats and some is not ASCII.
constexpr std::array<const char*, 3> built_in_texts = {
    "Once upon a time there lived in a village by the sea a young potter. One morning she found an old map.",
    "The fox ran to the old oak. The owl sat on the old oak. The fox ran to the old oak. The owl sat on the old oak. "
    "The fox ran to the old",
    "Long ago, near the mill of Grünau, there lived a shepherd called Émile, and his friend was named Zoë."};

/// "5 123"
std::string grouped(std::uint64_t number) {
  std::string text = std::to_string(number);
  for (std::size_t place = text.size(); place > 3; place -= 3) text.insert(place - 3, " ");
  return text;
}

/// "1 answer", "5 123 answers"
std::string counted(std::uint64_t number, const std::string& one, const std::string& several) {
  return grouped(number) + " " + (number == 1 ? one : several);
}
std::string counted(std::uint64_t number, const std::string& one) { return counted(number, one, one + "s"); }

/// The message of an error's body, or its beginning.
std::string message_of(const serve::Reply& reply) {
  return error_message_in(reply.body).value_or(printable(reply.body));
}

/// What a server says of its model.
struct EndpointModel {
  std::string name;
  std::string draft;
  std::string numerics;
  std::string weights;  // weights_fingerprint; empty: it does not say
  int context = 0;
  bool chat = false;
};

EndpointModel model_of(serve::Client& client) {
  const serve::Reply reply = client.get("/v1/models");
  const std::string page = client.address() + "/v1/models";
  if (reply.status != 200) {
    throw Error(fmt::format("{} answers with status {}: {}; {}", page, reply.status, message_of(reply),
                            reply.status == 401 ? "give --api-key" : "give the address of `draftproof serve`"));
  }
  try {
    const Json model = Json::parse(reply.body, page).at("data")[0];
    EndpointModel served = {model.at("id").string(),
                            model.at("draft").string(),
                            model.at("numerics").string(),
                            "",
                            static_cast<int>(model.at("max_model_len").integer(1, Request::text_max)),
                            model.at("chat").boolean()};
    if (const auto weights = model.find("weights")) served.weights = weights->string();
    return served;
  } catch (const Error& wrong) {
    throw Error(
        fmt::format("{}; this is no `draftproof serve`, and only its answers can be compared: give the address "
                    "of one",
                    wrong.what()));
  }
}

/// What a server has counted since it was started.
struct ServerCounts {
  std::map<std::string, double> values;  // by name; labels of one name are added up
  double cancelled = 0;

  double of(const std::string& name) const {
    const auto found = values.find("draftproof_" + name);
    return found == values.end() ? 0 : found->second;
  }
};

ServerCounts counts_of(serve::Client& client) {
  const serve::Reply reply = client.get("/metrics");
  if (reply.status != 200) {
    throw Error(fmt::format("{}/metrics answers with status {}; give the address of `draftproof serve`",
                            client.address(), reply.status));
  }
  ServerCounts counts;
  std::stringstream lines(reply.body);
  for (std::string line; std::getline(lines, line);) {
    const std::size_t space = line.rfind(' ');
    if (line.empty() || line[0] == '#' || space == std::string::npos) continue;
    const double value = std::strtod(line.c_str() + space, nullptr);
    if (!std::isfinite(value)) continue;
    counts.values[line.substr(0, line.find_first_of("{ "))] += value;
    if (line.starts_with("draftproof_answers_total{outcome=\"cancelled\"}")) counts.cancelled = value;
  }
  return counts;
}

/// The same once the server has nothing more to do, or after two seconds: it may have other clients.
ServerCounts counts_at_rest(serve::Client& client) {
  for (int i = 0; i < 40; ++i) {
    const ServerCounts counts = counts_of(client);
    if (counts.of("answers_running") == 0 && counts.of("answers_waiting") == 0) return counts;
    std::this_thread::sleep_for(endpoint_poll);
  }
  return counts_of(client);
}

/// Asks one request, again while the server is full, but no longer than `limit`. `retries` counts that. `stopped`:
/// nothing more is wanted.
ReceivedAnswer ask(serve::Client& client, const EndpointRequest& request, std::chrono::seconds limit,
                   const std::atomic<bool>& stopped, std::atomic<int>& retries) {
  const auto begin = EndpointClock::now();
  while (true) {
    AnswerReader reader(request);
    const auto take = [&](std::string_view data) {
      reader.read_event(data);
      const bool enough = request.cancel_after > 0 && reader.chunks() >= request.cancel_after;
      if ((enough || stopped) && !reader.answer().ended) reader.cancel();
      return !reader.answer().cancelled;
    };
    const serve::Reply reply =
        client.post(request.path(), request.body, request.stream ? serve::EventReader::Take(take) : nullptr);
    if (reply.status == 200) {
      if (!request.stream) reader.read_whole(reply.body);
      return reader.answer();
    }
    if (reply.status == 500) {
      reader.fail(message_of(reply));
      return reader.answer();
    }
    if (reply.status != 429 || EndpointClock::now() - begin > limit) {
      throw Error(fmt::format("the server refuses request {} with status {}: {}", request.number, reply.status,
                              message_of(reply)));
    }
    ++retries;
    constexpr int longest = 60;
    const auto until =
        EndpointClock::now() + std::chrono::seconds(std::clamp(std::atoi(reply.retry_after.c_str()), 1, longest));
    while (EndpointClock::now() < until && !stopped) std::this_thread::sleep_for(endpoint_poll);
    if (stopped) {
      reader.cancel();
      return reader.answer();
    }
  }
}

/// The growth of a counter, which may be of any server.
std::uint64_t gained(double before, double after) {
  constexpr double max = 0x1p53;
  return static_cast<std::uint64_t>(std::clamp(after - before, 0.0, max));
}

/// One execution of the command.
class EndpointProof {
 public:
  EndpointProof(const CommonOptions& common, const EndpointOptions& options);
  Exit run();

 private:
  std::chrono::seconds limit() const { return std::chrono::seconds(options_.answer_seconds); }
  EndpointSetup setup();
  void ask_all();
  void require_failure_alone(EndpointRequest request, const ReceivedAnswer& answer);
  void compare_all();
  void ask_again();
  void report() const;
  std::string proven() const;
  std::string exercised() const;
  EndpointJson json() const;
  /// What the server has counted meanwhile.
  std::uint64_t counted_since(const std::string& name) const { return gained(before_.of(name), after_.of(name)); }
  std::uint64_t cancelled_meanwhile() const { return gained(before_.cancelled, after_.cancelled); }

  const CommonOptions& common_;
  const EndpointOptions& options_;
  const std::atomic<bool>* const interrupted_;
  std::optional<OutputFile> json_file_;
  serve::Client client_;
  OpenedModel model_;
  const Tokenizer* tokenizer_ = nullptr;
  std::optional<ChatTemplate> chat_;
  EndpointModel served_;
  Model* target_ = nullptr;
  std::vector<EndpointRequest> plan_;
  std::vector<std::optional<ReceivedAnswer>> answers_;  // of each request; nullopt: it was not asked
  std::atomic<int> retries_{0};
  ServerCounts before_;
  ServerCounts after_;

  // What was compared.
  std::size_t whole_ = 0;      // answers
  std::size_t choices_ = 0;    // of them
  std::size_t tokens_ = 0;     // of them
  std::size_t cancelled_ = 0;  // answers
  std::size_t cancelled_tokens_ = 0;
  std::size_t logprobs_ = 0;
  std::size_t constrained_ = 0;  // answers, by a grammar or a JSON schema
  std::vector<EndpointDivergence> divergences_;
  std::string alone_;  // what the first one does when nobody else asks
};

EndpointProof::EndpointProof(const CommonOptions& common, const EndpointOptions& options)
    : common_(common),
      options_(options),
      interrupted_(watch_for_interrupt()),
      client_(options.url, options.api_key, limit()),
      model_({common.target, common.load_options, {.number = threads_to_use(common)}, common.quiet}) {
  if (!common.json_file.empty()) json_file_.emplace(common.json_file, std::vector{common.target, common.prompt_file});
  served_ = model_of(client_);
  if (const std::string here = numerics_of(model_.load_options()); here != served_.numerics) {
    throw Error(
        fmt::format("the server computes as \"{}\" and this command as \"{}\", which gives other bits; give "
                    "the server's --kernels, --quantize and --kv",
                    served_.numerics, here));
  }
  if (const std::string here = served_.weights.empty() ? "" : weights_fingerprint(model_.files().target());
      here != served_.weights) {
    throw Error(fmt::format(
        "the server's model {} has the weights {}, and {} has {}; give the model that is served, and its --lora",
        served_.name, printable(served_.weights), in_quotes(common.target), here));
  }
  tokenizer_ = model_.tokenizer();
  if (tokenizer_ != nullptr && served_.chat) {
    const Checkpoint& files = model_.files().target();
    chat_ =
        options.template_file.empty() ? ChatTemplate::find(files) : ChatTemplate::read(options.template_file, files);
    if (chat_ && prints_the_time(*chat_)) chat_.reset();
  }
  target_ = &model_.load({}, request_of_size(1, common.max_new_tokens)).target();
  if (const int context = target_->context(); context != served_.context) {
    throw Error(
        fmt::format("the server's model {} has a context of {} positions and {} one of {}; give the model that "
                    "is served",
                    served_.name, served_.context, common.target, context));
  }
}

EndpointSetup EndpointProof::setup() {
  EndpointSetup setup;
  setup.requests = options_.requests;
  setup.seed = common_.seed;
  setup.max_new_tokens = common_.max_new_tokens;
  setup.model = served_.name;
  setup.vocabulary = target_->vocabulary();
  setup.context = target_->context();
  setup.stops = read_stop_tokens(model_.files().target());
  setup.tokenizer = tokenizer_;
  if (tokenizer_ != nullptr) {
    auto trie = std::make_shared<const TokenTrie>(*tokenizer_, setup.vocabulary);
    if (spells_every_text(*trie)) setup.trie = std::move(trie);
  }
  setup.chat = chat_ ? &*chat_ : nullptr;
  const bool given = !common_.prompt.empty() || !common_.prompt_file.empty() || !common_.prompt_tokens.empty();
  if (given) {
    setup.tokens = make_request(common_, model_.files().target(), tokenizer_).prompt;
    if (common_.prompt_tokens.empty()) {
      setup.texts = {common_.prompt_file.empty() ? common_.prompt : read_text_file(common_.prompt_file)};
    }
  } else if (tokenizer_ != nullptr) {
    for (const char* const text : built_in_texts) {
      try {
        const std::vector<Token> more = tokenizer_->encode(text);
        setup.tokens.insert(setup.tokens.end(), more.begin(), more.end());
        setup.texts.emplace_back(text);
      } catch (const Error&) {  // a byte that the vocabulary lacks
      }
    }
  }
  return setup;
}

/// The clients. Each takes the next request that nobody has taken.
void EndpointProof::ask_all() {
  answers_.resize(plan_.size());
  std::atomic<std::size_t> next{0};
  std::atomic<int> answered{0};
  std::atomic<bool> stopped{false};
  std::atomic<int> running{options_.clients};
  std::mutex mutex;
  std::exception_ptr failure;
  const auto begin = EndpointClock::now();
  const auto time_is_up = [&] {
    return options_.seconds > 0 && EndpointClock::now() - begin > std::chrono::seconds(options_.seconds);
  };
  const auto serve_requests = [&] {
    try {
      serve::Client client(options_.url, options_.api_key, limit());
      while (!stopped && !time_is_up()) {
        const std::size_t i = next++;
        if (i >= plan_.size()) break;
        answers_[i] = ask(client, plan_[i], limit(), stopped, retries_);
        ++answered;
      }
    } catch (...) {
      const std::lock_guard lock(mutex);
      if (!failure) failure = std::current_exception();
      stopped = true;
    }
    --running;
  };
  {
    std::vector<std::jthread> clients;
    for (int i = 0; i < options_.clients; ++i) clients.emplace_back(serve_requests);
    while (running > 0) {
      model_.progress().show(fmt::format("{} of {} requests answered", answered.load(), plan_.size()));
      if (*interrupted_) stopped = true;
      std::this_thread::sleep_for(endpoint_poll);
    }
  }
  if (failure) std::rethrow_exception(failure);
}

/// Throws Error when the request that failed does not fail again: then a lack of memory or the like has ended it, which
/// proves nothing.
void EndpointProof::require_failure_alone(EndpointRequest request, const ReceivedAnswer& answer) {
  const std::atomic<bool> stopped{false};
  request.cancel_after = 0;
  if (!ask(client_, request, limit(), stopped, retries_).error.empty()) return;
  throw Error(
      fmt::format("the server has ended request {} with the error \"{}\", and has answered it when it was "
                  "asked again, alone; see what its log says",
                  request.number, answer.error));
}

void EndpointProof::compare_all() {
  for (std::size_t i = 0; i < plan_.size() && !*interrupted_; ++i) {
    if (!answers_[i]) continue;
    model_.progress().show(fmt::format("decoding request {} of {} plainly", i + 1, plan_.size()));
    const ReceivedAnswer& answer = *answers_[i];
    std::optional<EndpointDivergence> found;
    if (!answer.error.empty()) {
      require_failure_alone(plan_[i], answer);
      found = find_divergence(plan_[i], answer);
    }
    std::size_t tokens = 0;
    for (std::size_t choice = 0; choice < answer.choices.size(); ++choice) {
      if (!found) found = find_divergence(plan_[i], answer, choice, *target_, tokenizer_);
      tokens += answer.choices[choice].tokens.size();
      logprobs_ += answer.choices[choice].logprobs.size();
    }
    if (!found) found = find_divergence(plan_[i], answer);
    ++(answer.cancelled ? cancelled_ : whole_);
    (answer.cancelled ? cancelled_tokens_ : tokens_) += tokens;
    if (!answer.cancelled) choices_ += answer.choices.size();
    if (plan_[i].has_grammar) ++constrained_;
    if (found) divergences_.push_back(std::move(*found));
  }
}

/// Asks the first request that failed once more, alone.
void EndpointProof::ask_again() {
  const EndpointDivergence& first = divergences_.front();
  EndpointRequest request = plan_[static_cast<std::size_t>(first.request) - 1];
  request.cancel_after = 0;
  try {
    const std::atomic<bool> stopped{false};
    const ReceivedAnswer answer = ask(client_, request, limit(), stopped, retries_);
    std::optional<EndpointDivergence> found = find_divergence(request, answer);
    for (std::size_t choice = 0; choice < answer.choices.size() && !found; ++choice) {
      found = find_divergence(request, answer, choice, *target_, tokenizer_);
    }
    alone_ = found ? "asked again, alone, its answer is wrong too"
                   : "asked again, alone, its answer is right: it depends on what else the server does";
  } catch (const Error& wrong) {
    alone_ = fmt::format("it could not be asked again: {}", wrong.what());
  }
}

std::string EndpointProof::proven() const {
  std::string text = fmt::format("{} of {} tokens {} plain decoding, bit for bit", counted(whole_, "answer"),
                                 grouped(tokens_), whole_ == 1 ? "equals" : "equal");
  if (cancelled_ > 0) {
    text +=
        fmt::format("; {} cancelled {} of {} tokens {} of it", grouped(cancelled_), cancelled_ == 1 ? "one" : "ones",
                    grouped(cancelled_tokens_), cancelled_ == 1 ? "is a beginning" : "are beginnings");
  }
  return text + ".";
}

/// What the server has done meanwhile, a line each: of what did not happen nothing is proven.
std::string EndpointProof::exercised() const {
  const auto since = [&](const char* name) { return counted_since(name); };
  std::string lines;
  const auto add = [&](std::uint64_t number, const std::string& one, const std::string& several,
                       const std::string& happened, std::uint64_t of = 0) {
    const std::string what = of > 0 && number > 0 ? fmt::format("{} of {} {}", grouped(number), grouped(of), several)
                             : number > 0         ? counted(number, one, several)
                                                  : "no " + one;
    lines += fmt::format("  {} {} {}\n", what, number > 1 || (of > 1 && number > 0) ? "were" : "was", happened);
  };
  add(constrained_, "answer", "answers", "constrained by a grammar or a JSON schema");
  add(since("passes_shared_total"), "pass", "passes", "shared by several requests", since("passes_total"));
  add(since("preemptions_total"), "choice", "choices", "preempted");
  add(since("prompt_tokens_reused_total"), "prompt token", "prompt tokens", "reused", since("prompt_tokens_total"));
  add(since("draft_rounds_accepted_total"), "draft token", "draft tokens", "accepted", since("draft_rounds_total"));
  add(cancelled_meanwhile(), "choice", "choices", "cancelled");
  add(static_cast<std::uint64_t>(retries_.load()), "request", "requests", "told to come back later");
  return lines;
}

void EndpointProof::report() const {
  fmt::print("{} at {}, draft {}, numerics {}\n", served_.name, client_.address(), served_.draft, served_.numerics);
  if (served_.weights.empty()) {
    fmt::print("The server does not state a digest of its weights, so it may serve another model.\n");
  }
  if (divergences_.empty()) {
    fmt::print("{}\n", proven());
  } else {
    fmt::print("{} of {} answers differ from plain decoding of {}.\n", grouped(divergences_.size()),
               grouped(whole_ + cancelled_), common_.target);
  }
  fmt::print("Meanwhile, as the server counts:\n{}", exercised());
  for (std::size_t i = 0; i < divergences_.size() && i < divergences_shown; ++i) {
    const EndpointDivergence& one = divergences_[i];
    fmt::print("\nrequest {}{}{}: {} is wrong\n  expected  {}\n  received  {}\n", one.request,
               one.choice < 0 ? "" : fmt::format(", choice {}", one.choice),
               one.place < 0 ? "" : fmt::format(", token {}", one.place), one.what, one.expected, one.received);
    if (i == 0) fmt::print("  {}\n", alone_);
    const EndpointRequest& asked = plan_[static_cast<std::size_t>(one.request) - 1];
    fmt::print("  {}\n", serve::curl_line(client_.address() + asked.path(), asked.body, !options_.api_key.empty()));
  }
}

EndpointJson EndpointProof::json() const {
  EndpointJson result = {{"command", "verify --endpoint"},
                         {"version", DRAFTPROOF_VERSION},
                         {"verdict", divergences_.empty() ? "PASS_EXACT" : "BUG_PROVEN"},
                         {"endpoint", client_.address()},
                         {"model", served_.name},
                         {"draft", served_.draft},
                         {"numerics", served_.numerics},
                         {"weights", served_.weights},
                         {"seed", common_.seed},
                         {"clients", options_.clients},
                         {"answers", whole_},
                         {"choices", choices_},
                         {"tokens", tokens_},
                         {"logprobs", logprobs_},
                         {"constrained_answers", constrained_},
                         {"cancelled_answers", cancelled_},
                         {"cancelled_tokens", cancelled_tokens_},
                         {"told_to_come_back", retries_.load()}};
  EndpointJson& server = result["server"] = EndpointJson::object();
  for (const char* const name : {"passes_total", "passes_shared_total", "preemptions_total", "prompt_tokens_total",
                                 "prompt_tokens_reused_total", "draft_rounds_total", "draft_rounds_accepted_total"}) {
    server[name] = counted_since(name);
  }
  server["cancelled"] = cancelled_meanwhile();
  result["divergences"] = EndpointJson::array();
  for (const EndpointDivergence& one : divergences_) {
    const EndpointRequest& request = plan_[static_cast<std::size_t>(one.request) - 1];
    EndpointJson shown = {{"request", one.request},   {"what", one.what},
                          {"expected", one.expected}, {"received", one.received},
                          {"path", request.path()},   {"body", EndpointJson::parse(request.body)}};
    if (one.choice >= 0) shown["choice"] = one.choice;
    if (one.place >= 0) shown["token"] = one.place;
    result["divergences"].push_back(std::move(shown));
  }
  return result;
}

Exit EndpointProof::run() {
  plan_ = endpoint_plan(setup());
  before_ = counts_of(client_);
  ask_all();
  after_ = counts_at_rest(client_);
  with_workers([&] {
    compare_all();
    if (!divergences_.empty()) ask_again();
  });
  model_.progress().show("");
  if (*interrupted_) {
    fmt::print("Interrupted; what was done so far proves nothing.\n");
    return Exit::undecided;
  }
  if (whole_ + cancelled_ == 0) throw Error("no request was answered in time; give more --seconds");
  if (!common_.quiet && !(json_file_ && is_standard_output(common_.json_file))) report();
  if (json_file_) {
    json_file_->write(json().dump(2, ' ', false, EndpointJson::error_handler_t::replace) + "\n");
  }
  return divergences_.empty() ? Exit::pass : Exit::divergence;
}

}  // namespace

Exit verify_endpoint(const CommonOptions& common, const EndpointOptions& endpoint) {
  return EndpointProof(common, endpoint).run();
}

}  // namespace draftproof
