// SPDX-License-Identifier: MIT
#include "serve/server.h"

#include <fmt/format.h>
#include <httplib.h>
#include <strings.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <thread>
#include <utility>

#include "ref/base/error.h"
#include "serve/anthropic_api.h"
#include "serve/api_keys.h"
#include "serve/browser_rules.h"
#include "serve/http_server.h"
#include "serve/page.h"
#include "serve/llama_server_api.h"
#include "serve/ollama_api.h"
#include "serve/openai_writer.h"
#include "serve/response_store.h"

namespace draftproof::serve {
namespace {

using namespace std::chrono_literals;
using Clock = std::chrono::steady_clock;

constexpr ConnectionLimits limits;
constexpr auto poll_interval = 50ms;  // how often a waiting thread looks whether its client is still there
constexpr std::size_t stored_bytes_max = std::size_t{64} << 20;  // of responses that requests may go on with
constexpr const char* request_id_header = "X-Request-Id";

/// An id that came with the request, if it can stand in a header and a log.
bool is_request_id(const std::string& id) {
  return !id.empty() && id.size() <= 128 && std::ranges::all_of(id, [](char c) { return c > ' ' && c < 127; });
}

/// An answer on its way to a client.
struct ActiveResponse {
  /// `body`: of the request, with what it goes on with.
  ActiveResponse(const Api& api, const ServedModel& model, std::string request_id, const httplib::Request& http,
                 const std::string& body, const Connection& over)
      : request(api.read(body, model)),
        id(std::move(request_id)),
        writer(api.writer(request, model, id, body)),
        stored_as(&api == &openai_responses ? body : ""),
        connection(over),
        client(http.remote_addr),
        path(http.path) {}

  CompletionRequest request;
  std::string id;
  std::unique_ptr<AnswerWriter> writer;
  std::string stored_as;         // the request of an answer that others may go on with; empty: of no other API
  const Connection& connection;  // outlives the answer
  std::string client;
  std::string path;
  std::shared_ptr<TokenStream> stream = nullptr;
  Clock::time_point begun = Clock::now();
};

}  // namespace

class Server::Http {
 public:
  Http(std::vector<HostedModel> models, const Log& log, ServerOptions options)
      : models_(std::move(models)),
        log_(log),
        options_(std::move(options)),
        keys_(options_.api_keys),
        http_(limits, static_cast<std::size_t>(options_.connections),
              [this](const Connection& connection, int status, std::string_view why) {
                log_.write("request", {{"client", connection.client()}, {"status", status}, {"why", std::string(why)}});
                return openai_error(std::string(why), status);
              }) {
    require_origins(options_.cors);
    http_.set_payload_max_length(limits.body_max);
    http_.set_pre_routing_handler(
        [this](const httplib::Request& request, httplib::Response& response) { return admit(request, response); });
    http_.set_error_handler([this](const httplib::Request& request, httplib::Response& response) {
      if (response.body.empty()) explain(request, response);
    });
    http_.set_exception_handler(
        [](const httplib::Request& request, httplib::Response& response, std::exception_ptr thrown) {
          try {
            std::rethrow_exception(std::move(thrown));
          } catch (const std::exception& wrong) {
            fail(request, response, 500, wrong.what());
          }
        });
    add_routes();
  }

  int start() {
    const ListeningSocket& socket = http_.listen_on(options_.host, options_.port);
    on_loopback_ = socket.on_loopback();
    const int port = socket.port();
    thread_ = std::thread([this] { http_.run(); });
    return port;
  }

  bool on_loopback() const { return on_loopback_; }

  void stop() {
    if (!thread_.joinable()) return;
    http_.end();
    thread_.join();
  }

 private:
  using Request = httplib::Request;
  using Response = httplib::Response;
  using Route = void (Http::*)(const Request&, Response&);

  /// In the form of the API whose path was asked for.
  static void fail(const Request& request, Response& response, int status, const std::string& message) {
    const Api& api = request.path.starts_with("/api/")          ? ollama_chats
                     : request.path.starts_with("/v1/messages") ? anthropic_messages
                                                                : openai_chats;
    response.status = status;
    response.set_content(api.error(message, status), "application/json");
  }

  static std::string sentence_of(int status) {
    switch (status) {
      case 404: return "there is no such path; POST to /v1/chat/completions or /v1/completions";
      case 408: return "the request took too long to arrive";
      case 413: return fmt::format("the request is longer than {} MiB", limits.body_max >> 20);
      default: return "the request is not HTTP that this server understands";
    }
  }

  /// Says why cpp-httplib has refused a request.
  void explain(const Request& request, Response& response) {
    const Connection* const connection = http_.find_connection(request);
    int status = response.status;
    if (connection != nullptr && connection->over_limit()) status = 413;
    if (connection != nullptr && connection->timed_out()) status = 408;
    fail(request, response, status, sentence_of(status));
    if (connection != nullptr && status != 404) http_.close_after(request);
    log_request(request, response);
  }

  void add_routes() {
    const auto route = [this](Route handler) {
      return [this, handler](const Request& request, Response& response) {
        if (take(request, response)) (this->*handler)(request, response);
        log_request(request, response);
      };
    };
    http_.Get("/", route(&Http::get_page));
    http_.Get("(?:/v1)?/models/?", route(&Http::get_models));
    http_.Get("/v1/models/(.+)", route(&Http::get_model));
    http_.Get("(?:/v1)?/responses/([^/]+)", route(&Http::get_response));
    http_.Delete("(?:/v1)?/responses/([^/]+)", route(&Http::delete_response));
    http_.Get("/health", route(&Http::get_health));
    http_.Get("/metrics", route(&Http::get_metrics));
    http_.Get("/props", route(&Http::get_props));
    http_.Get("/slots", route(&Http::get_slots));
    http_.Post("(?:/v1)?/(embeddings|rerank|responses/.+|audio/.*|images/.*)", route(&Http::refuse_by_name));
    http_.Post("/tokenize", route(&Http::tokenize));
    http_.Post("/detokenize", route(&Http::detokenize));
    http_.Post("/v1/messages/count_tokens", route(&Http::count_tokens));
    http_.Get("/api/tags", route(&Http::get_ollama));
    http_.Get("/api/ps", route(&Http::get_ollama));
    http_.Get("/api/version", route(&Http::get_ollama));
    http_.Post("/api/show", route(&Http::show));
    // Paths of OpenAI's API may end with a slash and lack /v1, as clients put them together.
    for (const auto& [path, api] : {std::pair("(?:/v1)?/completions/?", &openai_completions),
                                    {"(?:/v1)?/chat/completions/?", &openai_chats},
                                    {"(?:/v1)?/responses/?", &openai_responses},
                                    {"/completion", &llama_server_completions},
                                    {"/v1/messages", &anthropic_messages},
                                    {"/api/chat", &ollama_chats},
                                    {"/api/generate", &ollama_generates}}) {
      http_.Post(path, [this, api](const Request& request, Response& response) { answer(request, response, *api); });
    }
  }

  /// A request has arrived. Returns whether it is to be answered; else the response says why not.
  bool take(const Request& request, Response& response) {
    http_.begin_answer(request);
    if (request.body.size() <= limits.body_max) return true;
    fail(request, response, 413, sentence_of(413));
    return false;
  }

  /// `digits`: of a number, which may have any size.
  static bool is_too_long(const std::string& digits) {
    const std::size_t first = std::min(digits.find_first_not_of('0'), digits.size());
    const std::string max = std::to_string(limits.body_max);
    const std::size_t count = digits.size() - first;
    return count != max.size() ? count > max.size() : digits.compare(first, count, max) > 0;
  }

  /// Names the request, and refuses one that may not be answered, or whose body cannot be read.
  httplib::Server::HandlerResponse admit(const Request& request, Response& response) {
    const std::string given = request.get_header_value(request_id_header);
    response.set_header(request_id_header, is_request_id(given) ? given : fmt::format("{}-{}", start_, ++requests_));
    const bool empty = request.get_header_value("Content-Length") == "0";
    const auto refuse = [&](int status, const std::string& message) {
      fail(request, response, status, message);
      if (!empty) http_.close_after(request);
      log_request(request, response);
      return httplib::Server::HandlerResponse::Handled;
    };
    if (is_foreign_host(request)) {
      return refuse(421, fmt::format("this server answers to the names of its own machine, localhost and 127.0.0.1; "
                                     "start it with --host {} or with --api-key-file to have it answer others",
                                     host_name(request.get_header_value("Host"))));
    }
    const bool permitted = permit_origin(request, response);
    if (!permitted && is_cross_site(request)) {
      return refuse(403, "pages of " + request.get_header_value("Origin") +
                             " may not ask this server; start it with --cors ORIGIN to permit that");
    }
    if (permitted && request.has_header("Access-Control-Request-Method")) {  // asks what it may ask
      log_request(request, response);
      response.status = 200;
      return httplib::Server::HandlerResponse::Handled;
    }
    if (is_too_long(request.get_header_value("Content-Length"))) return refuse(413, sentence_of(413));
    const std::string coding = request.get_header_value("Content-Encoding");
    if (!coding.empty() && coding != "identity") {
      return refuse(415, "compressed requests are not read; leave out Content-Encoding: " + coding);
    }
    if (!is_authorized(request)) {
      response.set_header("WWW-Authenticate", "Bearer");
      return refuse(401, "the API key is missing or wrong; send it as \"Authorization: Bearer KEY\"");
    }
    // The bodies of these are not read, and are not to be taken for the next request.
    const bool has_none = request.method == "GET" || request.method == "HEAD" || request.method == "OPTIONS";
    if (has_none && !empty) http_.close_after(request);
    return httplib::Server::HandlerResponse::Unhandled;
  }

  /// Whether a page may have led here a name that is not this machine's. A key would stop it too.
  bool is_foreign_host(const Request& request) const {
    const std::string host = request.get_header_value("Host");
    return on_loopback_ && keys_.empty() && request.path != "/health" && !host.empty() && !is_loopback(host) &&
           host_name(host) != host_name(options_.host);
  }

  /// Whether a page of another site asks more than to be shown something.
  bool is_cross_site(const Request& request) const {
    const std::string origin = request.get_header_value("Origin");
    const bool is_preflight = request.has_header("Access-Control-Request-Method");  // no key comes with it
    const bool is_guarded = !keys_.empty() && !is_preflight;
    return !origin.empty() && !is_guarded && request.method != "GET" && request.method != "HEAD" &&
           !is_same(origin, request.get_header_value("Host"));
  }

  /// Tells the browser when pages of the request's origin may ask and read. Returns whether they may.
  bool permit_origin(const Request& request, Response& response) const {
    const std::string origin = request.get_header_value("Origin");
    const auto is_permitted = [&](const std::string& one) { return one == "*" || one == origin; };
    if (!options_.cors.empty()) response.set_header("Vary", "Origin");
    if (origin.empty() || std::ranges::none_of(options_.cors, is_permitted)) return false;
    response.set_header("Access-Control-Allow-Origin", origin);
    response.set_header("Access-Control-Expose-Headers", request_id_header);
    if (!request.has_header("Access-Control-Request-Method")) return true;
    response.set_header("Access-Control-Allow-Methods", "GET, POST, DELETE");
    response.set_header("Access-Control-Max-Age", "600");
    if (request.has_header("Access-Control-Request-Headers")) {
      response.set_header("Access-Control-Allow-Headers", request.get_header_value("Access-Control-Request-Headers"));
    }
    return true;
  }

  bool is_authorized(const Request& request) const {
    const bool open = request.path == "/" || request.path == "/health" || request.path == "/metrics";
    return open || tenant_of(request).has_value();
  }

  /// The number of the API key that came with a request; nullopt: none of those that are known.
  std::optional<int> tenant_of(const Request& request) const {
    if (keys_.empty()) return 0;
    constexpr std::string_view scheme = "Bearer ";
    const std::string header = request.get_header_value("Authorization");
    const bool is_bearer = strncasecmp(header.c_str(), scheme.data(), scheme.size()) == 0;
    return keys_.number_of(is_bearer ? header.substr(scheme.size()) : request.get_header_value("x-api-key"));
  }

  void log_request(const Request& request, const Response& response) const {
    if (request.path == "/health" || request.path == "/metrics") return;
    const int status = response.status > 0 ? response.status : 200;
    log_.write("request", {{"id", response.get_header_value(request_id_header)},
                           {"client", request.remote_addr},
                           {"method", request.method},
                           {"path", request.path},
                           {"status", status}});
  }

  void get_page(const Request&, Response& response) {
    const std::string_view html = page();
    response.set_content(html.data(), html.size(), "text/html; charset=utf-8");
  }

  static ListedModel listed(const HostedModel& one) { return {&one.model, one.service.loaded()}; }
  std::vector<ListedModel> listed() const {
    std::vector<ListedModel> list;
    for (const HostedModel& one : models_) list.push_back(listed(one));
    return list;
  }

  const HostedModel* find_model(std::string name) const {
    constexpr std::string_view latest = ":latest";  // of Ollama's clients
    if (name.ends_with(latest)) name.resize(name.size() - latest.size());
    const auto found = std::ranges::find_if(models_, [&](const HostedModel& one) { return one.model.name == name; });
    return found == models_.end() ? nullptr : &*found;
  }

  /// Returns the model that a request means; nullptr: the response says that there is none.
  const HostedModel* hosted(const Request& request, Response& response, const std::string& name) const {
    if (models_.size() == 1 || name.empty()) return &models_.front();
    const HostedModel* const found = find_model(name);
    if (found == nullptr) refuse_model(request, response, name);
    return found;
  }
  const HostedModel* hosted_in_query(const Request& request, Response& response) const {
    return hosted(request, response, request.get_param_value("model"));
  }
  /// What is no request is left to its reader.
  const HostedModel* hosted_in_body(const Request& request, Response& response) const {
    if (models_.size() == 1) return &models_.front();
    std::string name;
    try {
      const Json json = Json::parse(request.body, "the request");
      for (const char* const field : {"model", "name"}) {
        const auto found = json.is_object() && name.empty() ? json.find(field) : std::nullopt;
        if (found && found->is_string()) name = found->string();
      }
    } catch (const Error&) {
      name.clear();
    }
    return hosted(request, response, name);
  }
  void refuse_model(const Request& request, Response& response, const std::string& name) const {
    std::string names;
    for (const HostedModel& one : models_) names += (names.empty() ? "" : ", ") + one.model.name;
    fail(request, response, 404, "there is no model " + name + "; this server has " + names);
  }

  void get_models(const Request&, Response& response) {
    response.set_content(models_json(listed()), "application/json");
  }
  void get_model(const Request& request, Response& response) {
    const std::string name = request.matches[1];
    const HostedModel* const found = find_model(name);
    if (found != nullptr) response.set_content(model_json(listed(*found)), "application/json");
    else refuse_model(request, response, name);
  }
  void get_response(const Request& request, Response& response) {
    const std::string id = request.matches[1];
    if (const auto stored = responses_.find(id, tenant_of(request).value_or(0))) {
      response.set_content(*stored, "application/json");
    } else {
      fail(request, response, 404, "there is no response " + id);
    }
  }
  void delete_response(const Request& request, Response& response) {
    const std::string id = request.matches[1];
    if (responses_.remove(id, tenant_of(request).value_or(0))) {
      response.set_content(text_of({{"id", id}, {"object", "response"}, {"deleted", true}}), "application/json");
    } else {
      fail(request, response, 404, "there is no response " + id);
    }
  }
  void get_health(const Request&, Response& response) {
    const bool draining = models_.front().service.draining();
    response.status = draining ? 503 : 200;
    response.set_content(draining ? R"({"status":"draining"})" : R"({"status":"ok"})", "application/json");
  }
  void get_metrics(const Request& request, Response& response) {
    if (const HostedModel* const of = hosted_in_query(request, response)) {
      response.set_content(of->metrics.text(), "text/plain; version=0.0.4");
    }
  }
  void get_props(const Request& request, Response& response) {
    if (const HostedModel* const of = hosted_in_query(request, response)) {
      response.set_content(llama_server_props_json(of->model), "application/json");
    }
  }
  void refuse_by_name(const Request& request, Response& response) {
    fail(request, response, 404, "this server continues texts and has no " + request.matches[1].str());
  }
  void get_slots(const Request& request, Response& response) {
    if (const HostedModel* const of = hosted_in_query(request, response)) {
      response.set_content(llama_server_slots_json(of->model, of->service.parallel(), of->metrics.running()),
                           "application/json");
    }
  }
  void get_ollama(const Request& request, Response& response) {
    response.set_content(request.path == "/api/tags" ? ollama_tags_json(listed())
                         : request.path == "/api/ps" ? ollama_ps_json(listed())
                                                     : ollama_version_json(),
                         "application/json");
  }

  /// Answers what a body asks of a model's texts, without decoding.
  template <class Function>
  void tell(const Request& request, Response& response, const Function& json) const {
    const HostedModel* const of = hosted_in_body(request, response);
    if (of == nullptr) return;
    try {
      response.set_content(json(request.body, of->model), "application/json");
    } catch (const Error& wrong) {
      fail(request, response, 400, wrong.what());
    }
  }
  void show(const Request& request, Response& response) {
    tell(request, response, [](const auto&, const ServedModel& model) { return ollama_show_json(model); });
  }
  void count_tokens(const Request& request, Response& response) { tell(request, response, count_tokens_json); }
  void tokenize(const Request& request, Response& response) {
    tell(request, response,
         [](const auto& body, const auto& model) { return tokens_json(read_tokenize(body, model)); });
  }
  void detokenize(const Request& request, Response& response) {
    tell(request, response,
         [](const auto& body, const auto& model) { return content_json(read_detokenize(body, model)); });
  }

  void answer(const Request& request, Response& response, const Api& api) {
    if (!take(request, response)) {
      log_request(request, response);
      return;
    }
    const HostedModel* const of = hosted_in_body(request, response);
    if (of == nullptr) {
      log_request(request, response);
      return;
    }
    std::shared_ptr<ActiveResponse> active;
    const int tenant = tenant_of(request).value_or(0);
    try {
      if (const auto told = api.at_once != nullptr ? api.at_once(request.body, of->model) : std::nullopt) {
        response.set_content(*told, "application/json");
        log_request(request, response);
        return;
      }
      const std::string resolved = &api == &openai_responses ? responses_.resolve(request.body, tenant) : "";
      active =
          std::make_shared<ActiveResponse>(api, of->model, response.get_header_value(request_id_header), request,
                                           resolved.empty() ? request.body : resolved, http_.connection_of(request));
    } catch (const Error& wrong) {
      fail(request, response, 400, wrong.what());
      log_request(request, response);
      return;
    }
    active->request.job.tenant = tenant;
    if (!begin(request, of->service, *active, response)) {
      log_request(request, response);
    } else if (active->request.stream) {
      response.set_header("Cache-Control", "no-cache");
      response.set_chunked_content_provider(
          api.stream_type, [this, active](std::size_t, httplib::DataSink& sink) { return write_more(*active, sink); },
          [this, active](bool) {  // in a destructor, so nothing may leave it
            active->stream->cancel();
            try {
              log_response(*active, 200);
            } catch (const std::bad_alloc&) {  // it is not logged
            }
          });
    } else {
      write_whole(request, *active, response);
    }
  }

  /// Submits the request, and waits until it is certain whether there will be an answer. Returns whether there will be
  /// one; else the response says why not.
  bool begin(const Request& request, Service& service, ActiveResponse& active, Response& response) {
    const Service::Submission submission = service.submit(active.request.job);
    if (submission.refusal == Service::Refusal::never) {
      fail(request, response, 400,
           "the request has more choices (n, for each prompt) than the server takes; ask for fewer");
      return false;
    }
    if (submission.refusal == Service::Refusal::full) {
      response.set_header("Retry-After", "1");
      fail(request, response, 429,
           "the server is full: as many requests as it takes are being answered or wait; ask again");
      return false;
    }
    if (submission.refusal == Service::Refusal::draining) {
      response.set_header("Retry-After", "5");
      fail(request, response, 503, "the server is shutting down; ask again once it is back");
      return false;
    }
    active.stream = submission.stream;
    while (!active.stream->wait_for_start(poll_interval)) {
      if (active.connection.closed()) break;
    }
    if (const auto why = active.stream->refusal()) {
      active.stream->cancel();
      fail(request, response, 400, *why);
      return false;
    }
    return true;
  }

  /// Sends what there is. Returns whether the connection is alive.
  bool write_more(ActiveResponse& active, httplib::DataSink& sink) {
    const std::vector<StreamEvent> events = active.stream->take(poll_interval);
    std::string chunks;
    for (const StreamEvent& event : events) chunks += active.writer->take(event);
    const bool finished = active.stream->finished();
    if (finished) {
      chunks += active.writer->end_of_stream();
      store(active);
    }
    if (active.connection.closed()) return false;
    if (!chunks.empty() && !sink.write(chunks.data(), chunks.size())) return false;
    if (finished) sink.done();
    return true;
  }

  /// Keeps an answer that has ended.
  void store(const ActiveResponse& active) {
    if (active.stored_as.empty() || active.writer->failure()) return;
    responses_.add(active.stored_as, active.writer->whole(), active.request.job.tenant);
  }

  void write_whole(const Request& request, ActiveResponse& active, Response& response) {
    while (!active.stream->finished() && !active.connection.closed()) {
      for (const StreamEvent& event : active.stream->take(poll_interval)) active.writer->take(event);
    }
    active.stream->cancel();
    if (active.writer->failure()) {
      fail(request, response, 500, *active.writer->failure());
    } else if (active.stream->finished()) {
      store(active);
      response.set_content(active.writer->whole(), "application/json");
    } else {
      fail(request, response, 499, "the client has closed the connection");
    }
    log_response(active, response.status > 0 ? response.status : 200);
  }

  void log_response(const ActiveResponse& active, int status) const {
    const Usage& usage = active.writer->usage();
    const std::chrono::duration<double> seconds = Clock::now() - active.begun;
    const bool finished = active.stream->finished();
    std::vector<LogField> fields = {{"id", active.id},
                                    {"client", active.client},
                                    {"path", active.path},
                                    {"status", status},
                                    {"outcome", active.writer->failure() ? *active.writer->failure()
                                                : finished               ? "whole"
                                                                         : "client has gone"},
                                    {"seconds", seconds.count()},
                                    {"prompt_tokens", usage.prompt_tokens},
                                    {"cached_tokens", usage.cached_tokens},
                                    {"completion_tokens", usage.completion_tokens},
                                    {"drafted_tokens", usage.drafted},
                                    {"accepted_tokens", usage.accepted},
                                    {"rounds_beyond_draft", usage.rounds_beyond_draft}};
    if (!usage.draft_remark.empty()) fields.emplace_back("draft_remark", usage.draft_remark);
    log_.write("answer", fields);
  }

  std::vector<HostedModel> models_;
  const Log& log_;
  ServerOptions options_;
  ApiKeys keys_;
  ResponseStore responses_{stored_bytes_max, limits.body_max};
  HttpServer http_;
  std::thread thread_;
  bool on_loopback_ = false;
  std::atomic<std::uint64_t> requests_{0};
  std::string start_ = fmt::format("{:x}", std::chrono::system_clock::now().time_since_epoch().count());
};

Server::Server(std::vector<HostedModel> models, const Log& log, ServerOptions options)
    : http_(std::make_unique<Http>(std::move(models), log, std::move(options))) {}

Server::~Server() { stop(); }

int Server::start() { return http_->start(); }
bool Server::on_loopback() const { return http_->on_loopback(); }
void Server::stop() { http_->stop(); }

}  // namespace draftproof::serve
