// SPDX-License-Identifier: MIT
#include "tools/http_engine.h"

#include <fmt/format.h>

#include <algorithm>
#include <mutex>
#include <nlohmann/json.hpp>
#include <thread>
#include <utility>

#include "ref/base/error.h"
#include "ref/formats/printable.h"
#include "serve/client.h"
#include "tools/endpoint_answer.h"

namespace draftproof {
namespace {

using HttpJson = nlohmann::ordered_json;

const HttpApi& api_named(std::string_view name) {
  return *std::ranges::find_if(http_apis(), [&](const HttpApi& api) { return api.name == name; });
}

/// What a page says; discarded when it is no JSON, or not there.
HttpJson page_of(serve::Client& client, const std::string& path) {
  const serve::Reply reply = client.get(path);
  return reply.status == 200 ? HttpJson::parse(reply.body, nullptr, false) : HttpJson(HttpJson::value_t::discarded);
}

HttpJson first_model(const HttpJson& models) {
  const bool there = models.is_object() && models.contains("data") && models["data"].is_array() &&
                     !models["data"].empty() && models["data"][0].is_object();
  return there ? models["data"][0] : HttpJson::object();
}

std::string text_or(const HttpJson& json, const char* name, const std::string& default_value) {
  return json.contains(name) && json[name].is_string() ? json[name].get<std::string>() : default_value;
}

int count_or_0(const HttpJson& json, const char* name) {
  constexpr double max = 1e9;
  const bool there = json.is_object() && json.contains(name) && json[name].is_number();
  const double count = there ? json[name].get<double>() : 0;
  return count > 0 && count < max ? static_cast<int>(count) : 0;
}

std::string text_of_body(const HttpJson& json) { return json.dump(-1, ' ', false, HttpJson::error_handler_t::replace); }

constexpr int too_many_requests = 429;

bool refuses(int status) { return status == 400 || status == 404 || status == 422 || status == 501; }

}  // namespace

HttpEngine::HttpEngine(const HttpEngineOptions& options, std::shared_ptr<TokenNames> names)
    : options_(options), names_(std::move(names)) {
  address_ = serve::Client(options_.url, options_.api_key, options_.limit).address();
  find_api();
  find_context();
}

void HttpEngine::find_api() {
  serve::Client client(options_.url, options_.api_key, options_.limit);
  const HttpJson models = page_of(client, "/v1/models");
  const HttpJson model = first_model(models);
  model_ = text_or(model, "id", "");
  context_ = count_or_0(model, "max_model_len");
  if (options_.api != "auto") {
    api_ = &api_named(options_.api);
    return;
  }
  const std::string owner = text_or(model, "owned_by", "");
  if (model.contains("numerics")) {
    api_ = &api_named("draftproof");
  } else if (owner == "llamacpp") {
    api_ = &api_named("llama-server");
  } else if (owner == "vllm") {
    api_ = &api_named("vllm");
  } else if (owner == "library" || page_of(client, "/api/tags").is_object()) {
    api_ = &api_named("ollama");
  } else if (page_of(client, "/info").is_object()) {
    api_ = &api_named("tgi");
  } else if (!model_.empty()) {
    api_ = &api_named("openai");
  } else {
    throw Error(
        fmt::format("{} has no page /v1/models, /api/tags or /info, so what it speaks is not known; say it with "
                    "--api",
                    address_));
  }
}

void HttpEngine::find_context() {
  if (context_ > 0 || api_->name != std::string_view("llama-server")) return;
  serve::Client client(options_.url, options_.api_key, options_.limit);
  const HttpJson properties = page_of(client, "/props");
  if (!properties.is_object() || !properties.contains("default_generation_settings")) return;
  context_ = count_or_0(properties["default_generation_settings"], "n_ctx");
}

std::string HttpEngine::name() const {
  return fmt::format("the {} engine at {} ({}{}{})", options_.role, address_, api_->name, model_.empty() ? "" : ", ",
                     printable(model_));
}

bool HttpEngine::supports(std::string_view field) const { return api_->takes.contains(field); }

bool HttpEngine::knows_tokens() const { return api_->token_ids; }

std::string HttpEngine::spelled(std::span<const Token> tokens) const {
  if (!api_->token_ids) return names_->text(tokens);
  if (options_.spelling == nullptr) return AskedEngine::spelled(tokens);
  std::string bytes;
  for (const Token token : tokens) options_.spelling->append_bytes(token, false, bytes);
  return bytes;
}

std::string HttpEngine::repeat(const EngineRequest& request) const {
  return serve::curl_line(address_ + api_->path, text_of_body(api_->body(request, model_)), !options_.api_key.empty());
}

std::optional<std::vector<Token>> HttpEngine::tokenize(const std::string& text) const {
  if (*api_->tokenize == '\0') return std::nullopt;
  serve::Client client(options_.url, options_.api_key, options_.limit);
  const HttpJson body = {{"model", model_}, {"content", text}, {"prompt", text}, {"add_special", true}};
  const serve::Reply reply = client.post(api_->tokenize, text_of_body(body));
  const HttpJson json = HttpJson::parse(reply.body, nullptr, false);
  if (reply.status != 200 || !json.is_object() || !json.contains("tokens") || !json["tokens"].is_array()) {
    return std::nullopt;
  }
  std::vector<Token> tokens;
  for (const HttpJson& token : json["tokens"]) {
    if (!token.is_number_integer()) return std::nullopt;
    tokens.push_back(token.get<Token>());
  }
  return tokens;
}

EngineAnswer HttpEngine::ask_one(const EngineRequest& request) const {
  EngineAnswer answer;
  const auto begin = std::chrono::steady_clock::now();
  try {
    serve::Client client(options_.url, options_.api_key, options_.limit);
    std::string wrong;
    int chunks = 0;
    const auto read = [&](std::string_view text) {
      if (const auto message = error_message_in(text)) {
        wrong = *message;
        return;
      }
      const HttpJson json = HttpJson::parse(text, nullptr, false);
      if (json.is_discarded()) throw Error("it is no JSON");
      api_->read(json, *names_, answer);
    };
    std::string not_understood;
    const auto take = [&](std::string_view data) {
      if (data == "[DONE]") return true;
      try {
        read(data);
      } catch (const Error& error) {
        not_understood = error.what();
        return false;
      }
      return !(request.cancel_after > 0 && ++chunks >= request.cancel_after);
    };
    const std::string body = text_of_body(api_->body(request, model_));
    serve::Reply reply;
    while (true) {  // a server that is full says when to come back
      reply = client.post(api_->path, body, request.stream ? serve::EventReader::Take(take) : nullptr);
      if (reply.status != too_many_requests || std::chrono::steady_clock::now() - begin > options_.limit) break;
      std::this_thread::sleep_for(std::chrono::seconds(std::clamp(std::atoi(reply.retry_after.c_str()), 1, 10)));
    }
    if (reply.status != 200) {
      answer.error =
          fmt::format("status {}: {}", reply.status, error_message_in(reply.body).value_or(printable(reply.body, 200)));
      answer.refused = refuses(reply.status);
    } else {
      if (!request.stream) read(reply.body);
      if (!not_understood.empty()) throw Error(not_understood);
      answer.error = wrong;
      finish_units(answer);
    }
  } catch (const Error& wrong) {
    answer.error = std::string_view(wrong.what()).starts_with("it")
                       ? fmt::format("its answer is none: {}", wrong.what())
                       : wrong.what();
  }
  answer.seconds = std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count();
  if (!answer.error.empty() && !answer.refused) {
    try {
      serve::Client(options_.url, options_.api_key, std::chrono::seconds(10)).get("/health");
    } catch (const Error&) {
      answer.broken = true;
    }
  }
  return answer;
}

std::vector<EngineAnswer> HttpEngine::ask(std::span<const EngineRequest> requests) {
  std::vector<EngineAnswer> answers(requests.size());
  std::vector<std::jthread> clients;
  for (std::size_t i = 0; i + 1 < requests.size(); ++i) {
    clients.emplace_back([&, i] { answers[i] = ask_one(requests[i]); });
  }
  if (!requests.empty()) answers.back() = ask_one(requests.back());
  clients.clear();
  return answers;
}

}  // namespace draftproof
