// SPDX-License-Identifier: MIT
#include "tools/http_api.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <nlohmann/json.hpp>
#include <optional>

#include "ref/base/error.h"

namespace draftproof {
namespace {

using ApiJson = nlohmann::ordered_json;

// Reading. Answers come from any engine, so every step may be missing.

const ApiJson* field_in(const ApiJson& json, const char* name) {
  if (!json.is_object()) return nullptr;
  const auto found = json.find(name);
  return found == json.end() || found->is_null() ? nullptr : &*found;
}

const ApiJson& list_named(const ApiJson& json, const char* name) {
  const ApiJson* const list = field_in(json, name);
  if (list == nullptr || !list->is_array()) throw Error(fmt::format("it has no list `{}`", name));
  return *list;
}

std::optional<std::string> text_named(const ApiJson& json, const char* name) {
  const ApiJson* const text = field_in(json, name);
  if (text == nullptr) return std::nullopt;
  if (!text->is_string()) throw Error(fmt::format("its field `{}` is not a string", name));
  return text->get<std::string>();
}

std::optional<long> count_named(const ApiJson& json, const char* name) {
  const ApiJson* const count = field_in(json, name);
  if (count == nullptr) return std::nullopt;
  constexpr double max = 0x1p31;
  if (!count->is_number() || count->get<double>() < 0 || count->get<double>() > max) {
    throw Error(fmt::format("its field `{}` is not a count", name));
  }
  return static_cast<long>(count->get<double>());
}

double logprob_in(const ApiJson& json) {
  return json.is_number() ? json.get<double>() : -std::numeric_limits<double>::infinity();
}

Token token_in(const ApiJson& json) {
  constexpr std::int64_t max = std::numeric_limits<Token>::max();
  if (!json.is_number_integer() || json.get<std::int64_t>() < 0 || json.get<std::int64_t>() > max) {
    throw Error("it has a token that is no token id");
  }
  return static_cast<Token>(json.get<std::int64_t>());
}

void append_tokens(const ApiJson& json, const char* name, EngineText& text) {
  for (const ApiJson& token : list_named(json, name)) text.tokens.push_back(token_in(token));
}

EngineText& text_number(EngineAnswer& answer, long index) {
  constexpr long max = 64;
  if (index >= max) throw Error("it has more choices than were asked for");
  if (static_cast<long>(answer.texts.size()) <= index) answer.texts.resize(static_cast<std::size_t>(index) + 1);
  return answer.texts[static_cast<std::size_t>(index)];
}

void append_text(EngineText& text, const std::optional<std::string>& more) {
  if (more) text.text = text.text.value_or("") + *more;
}

/// "token_id:7", as vLLM names tokens when asked to, is 7; other names get numbers of their own.
Token token_named(const std::string& name, TokenNames& names) {
  constexpr std::string_view prefix = "token_id:";
  const bool id = name.starts_with(prefix) && name.size() > prefix.size() && name.size() < prefix.size() + 10 &&
                  std::all_of(name.begin() + prefix.size(), name.end(), [](char c) { return c >= '0' && c <= '9'; });
  return id ? std::stoi(name.substr(prefix.size())) : names.number(name);
}

// OpenAI's completions.

ApiJson sampling_fields_of(const EngineRequest& request, bool api_names) {
  ApiJson json = ApiJson::object();
  const Sampling unset = EngineRequest().sampling;
  for_each_sampling_field([&](const auto& field) {
    const auto value = request.sampling.*field.member;
    const bool always = std::string_view(field.name) == "temperature";
    if (always || value != unset.*field.member) json[api_names ? field.api_name : field.name] = value;
  });
  return json;
}

ApiJson openai_body(const EngineRequest& request, const std::string& model) {
  ApiJson json = {{"model", model}};
  if (request.prompt.empty()) json["prompt"] = request.text;
  else json["prompt"] = request.prompt;
  json["max_tokens"] = request.max_new_tokens;
  json.update(sampling_fields_of(request, true));
  for (const LogitBias& bias : request.sampling.logit_bias) json["logit_bias"][std::to_string(bias.token)] = bias.bias;
  for (const Token token : request.banned) json["logit_bias"][std::to_string(token)] = -LogitBias::max;
  if (!request.stop_strings.empty()) json["stop"] = request.stop_strings;
  if (request.logprobs) json["logprobs"] = *request.logprobs;
  if (request.seed) json["seed"] = *request.seed;
  if (request.choices != 1) json["n"] = request.choices;
  if (!request.json_schema.empty()) {
    json["response_format"] = {{"type", "json_schema"},
                               {"json_schema", {{"name", "answer"}, {"schema", ApiJson::parse(request.json_schema)}}}};
  }
  if (request.stream) {
    json["stream"] = true;
    json["stream_options"] = {{"include_usage", true}};
  }
  return json;
}

ApiJson draftproof_body(const EngineRequest& request, const std::string& model) {
  ApiJson json = openai_body(request, model);
  json["return_tokens"] = true;
  if (!request.grammar.empty()) json["grammar"] = request.grammar;
  return json;
}

ApiJson vllm_body(const EngineRequest& request, const std::string& model) {
  ApiJson json = openai_body(request, model);
  json["return_token_ids"] = true;
  if (request.logprobs) json["return_tokens_as_token_ids"] = true;
  if (request.min_tokens > 0) json["min_tokens"] = request.min_tokens;
  if (!request.stop_tokens.empty()) json["stop_token_ids"] = request.stop_tokens;
  return json;
}

void read_openai_logprobs(const ApiJson& logprobs, TokenNames& names, EngineText& text, bool ids) {
  const ApiJson& tokens = list_named(logprobs, "tokens");
  const ApiJson& values = list_named(logprobs, "token_logprobs");
  const ApiJson* const top = field_in(logprobs, "top_logprobs");
  for (std::size_t i = 0; i < std::min(tokens.size(), values.size()); ++i) {
    if (!tokens[i].is_string()) throw Error("it names a token by something else than a string");
    if (!ids) text.tokens.push_back(token_named(tokens[i].get<std::string>(), names));
    text.logprobs.push_back(logprob_in(values[i]));
    if (top == nullptr || !top->is_array() || i >= top->size() || !(*top)[i].is_object()) continue;
    std::vector<TokenLogprob>& listed = text.top_logprobs.emplace_back();
    for (const auto& [name, logprob] : (*top)[i].items()) {
      listed.push_back({token_named(name, names), logprob_in(logprob)});
    }
  }
}

void read_rounds(const ApiJson& round, EngineText& text) {
  for (const ApiJson& token : list_named(round, "tokens")) {
    const ApiJson* const id = field_in(token, "id");
    if (id == nullptr) throw Error("it has a token without an id");
    text.tokens.push_back(token_in(*id));
  }
}

void read_usage(const ApiJson& json, EngineAnswer& answer) {
  const ApiJson* const usage = field_in(json, "usage");
  if (usage == nullptr) return;
  const auto read = [&](const char* name, long& value) {
    if (const auto count = count_named(*usage, name)) value = *count;
  };
  read("prompt_tokens", answer.prompt_tokens);
  read("completion_tokens", answer.completion_tokens);
  read("drafted_tokens", answer.drafted);
  read("accepted_tokens", answer.accepted);
}

void read_openai(const ApiJson& json, TokenNames& names, EngineAnswer& answer) {
  for (const ApiJson& choice : list_named(json, "choices")) {
    EngineText& text = text_number(answer, count_named(choice, "index").value_or(0));
    append_text(text, text_named(choice, "text"));
    if (const auto finish = text_named(choice, "finish_reason")) text.finish = *finish;
    if (field_in(choice, "stop_reason") != nullptr) text.stop_string = choice["stop_reason"].dump();
    const bool ids = field_in(choice, "token_ids") != nullptr || field_in(choice, "rounds") != nullptr ||
                     field_in(json, "round") != nullptr;
    if (field_in(choice, "token_ids") != nullptr) append_tokens(choice, "token_ids", text);
    if (const ApiJson* const rounds = field_in(choice, "rounds"); rounds != nullptr && rounds->is_array()) {
      for (const ApiJson& round : *rounds) read_rounds(round, text);
    }
    if (const ApiJson* const round = field_in(json, "round")) read_rounds(*round, text);
    if (const ApiJson* const logprobs = field_in(choice, "logprobs")) {
      read_openai_logprobs(*logprobs, names, text, ids);
    }
  }
  read_usage(json, answer);
}

// llama-server.

ApiJson llama_body(const EngineRequest& request, const std::string&) {
  ApiJson json;
  if (request.prompt.empty()) json["prompt"] = request.text;
  else json["prompt"] = request.prompt;
  json["n_predict"] = request.max_new_tokens;
  json["return_tokens"] = true;
  // Its own defaults are on.
  json["top_k"] = 0;
  json["top_p"] = 1.0;
  json["min_p"] = 0.0;
  if (request.sampling.penalizes()) {  // the whole text; it takes no -1
    constexpr std::size_t of_a_text = 4096;
    json["repeat_last_n"] =
        static_cast<std::size_t>(request.max_new_tokens) + (request.prompt.empty() ? of_a_text : request.prompt.size());
  }
  json["cache_prompt"] = !request.session.empty();
  json.update(sampling_fields_of(request, false));
  for (const LogitBias& bias : request.sampling.logit_bias) json["logit_bias"].push_back({bias.token, bias.bias});
  for (const Token token : request.banned) json["logit_bias"].push_back({token, false});
  if (!request.stop_strings.empty()) json["stop"] = request.stop_strings;
  if (request.logprobs) json["n_probs"] = std::max(1, *request.logprobs);
  if (request.seed) json["seed"] = static_cast<std::uint32_t>(*request.seed);
  if (!request.json_schema.empty()) json["json_schema"] = ApiJson::parse(request.json_schema);
  if (!request.grammar.empty()) json["grammar"] = request.grammar;
  if (request.stream) json["stream"] = true;
  return json;
}

void read_llama(const ApiJson& json, TokenNames&, EngineAnswer& answer) {
  const auto content = text_named(json, "content");
  if (!content) throw Error("it has no field `content`");
  EngineText& text = text_number(answer, 0);
  append_text(text, content);
  if (field_in(json, "tokens") != nullptr) append_tokens(json, "tokens", text);
  if (const ApiJson* const all = field_in(json, "completion_probabilities"); all != nullptr && all->is_array()) {
    for (const ApiJson& each : *all) {
      const ApiJson* const logprob = field_in(each, "logprob");
      text.logprobs.push_back(logprob == nullptr ? logprob_in(nullptr) : logprob_in(*logprob));
      std::vector<TokenLogprob>& listed = text.top_logprobs.emplace_back();
      const ApiJson* const top = field_in(each, "top_logprobs");
      for (std::size_t i = 0; top != nullptr && top->is_array() && i < top->size(); ++i) {
        const ApiJson* const id = field_in((*top)[i], "id");
        const ApiJson* const value = field_in((*top)[i], "logprob");
        if (id != nullptr && value != nullptr) listed.push_back({token_in(*id), logprob_in(*value)});
      }
    }
  }
  if (const auto type = text_named(json, "stop_type"); type && *type != "none") {
    text.finish = *type == "limit" ? "length" : *type == "eos" || *type == "word" ? "stop" : *type;
    text.stop_string = text_named(json, "stopping_word").value_or("");
  }
  if (const auto count = count_named(json, "tokens_evaluated")) answer.prompt_tokens = *count;
  if (const auto count = count_named(json, "tokens_predicted")) answer.completion_tokens = *count;
  if (const ApiJson* const timings = field_in(json, "timings")) {
    if (const auto count = count_named(*timings, "draft_n")) answer.drafted = *count;
    if (const auto count = count_named(*timings, "draft_n_accepted")) answer.accepted = *count;
  }
}

// Text Generation Inference.

ApiJson tgi_body(const EngineRequest& request, const std::string&) {
  ApiJson parameters = {{"max_new_tokens", request.max_new_tokens}, {"details", true}};
  const Sampling& sampling = request.sampling;
  if (!sampling.greedy()) {
    parameters["do_sample"] = true;
    parameters["temperature"] = sampling.temperature;
    if (sampling.top_k > 0) parameters["top_k"] = sampling.top_k;
    if (sampling.top_p < 1) parameters["top_p"] = sampling.top_p;
  }
  if (sampling.repeats()) parameters["repetition_penalty"] = sampling.repeat_penalty;
  if (sampling.frequency_penalty != 0) parameters["frequency_penalty"] = sampling.frequency_penalty;
  if (!request.stop_strings.empty()) parameters["stop"] = request.stop_strings;
  if (request.logprobs && *request.logprobs > 0) parameters["top_n_tokens"] = *request.logprobs;
  if (request.seed) parameters["seed"] = *request.seed;
  return {{"inputs", request.text}, {"parameters", parameters}};
}

void read_tgi(const ApiJson& json, TokenNames& names, EngineAnswer& answer) {
  if (json.is_array() && !json.empty()) return read_tgi(json[0], names, answer);
  const auto generated = text_named(json, "generated_text");
  if (!generated) throw Error("it has no field `generated_text`");
  EngineText& text = text_number(answer, 0);
  text.text = generated;
  const ApiJson* const details = field_in(json, "details");
  if (details == nullptr) return;
  const std::string finish = text_named(*details, "finish_reason").value_or("");
  text.finish = finish == "eos_token" || finish == "stop_sequence" ? "stop" : finish;
  if (const auto count = count_named(*details, "generated_tokens")) answer.completion_tokens = *count;
  for (const ApiJson& token : list_named(*details, "tokens")) {
    const ApiJson* const id = field_in(token, "id");
    if (id == nullptr) throw Error("it has a token without an id");
    text.tokens.push_back(token_in(*id));
    const ApiJson* const logprob = field_in(token, "logprob");
    text.logprobs.push_back(logprob == nullptr ? logprob_in(nullptr) : logprob_in(*logprob));
  }
}

// Ollama.

ApiJson ollama_body(const EngineRequest& request, const std::string& model) {
  ApiJson options = {{"num_predict", request.max_new_tokens},
                     {"top_k", 0},
                     {"top_p", 1.0},
                     {"min_p", 0.0},
                     {"repeat_penalty", 1.0},
                     {"repeat_last_n", -1}};
  options.update(sampling_fields_of(request, false));
  if (!request.stop_strings.empty()) options["stop"] = request.stop_strings;
  if (request.seed) options["seed"] = static_cast<std::int32_t>(*request.seed & 0x7fffffff);
  ApiJson json = {{"model", model}, {"prompt", request.text}, {"raw", true}, {"stream", false}, {"options", options}};
  if (!request.json_schema.empty()) json["format"] = ApiJson::parse(request.json_schema);
  return json;
}

void read_ollama(const ApiJson& json, TokenNames&, EngineAnswer& answer) {
  const auto response = text_named(json, "response");
  if (!response) throw Error("it has no field `response`");
  EngineText& text = text_number(answer, 0);
  append_text(text, response);
  text.finish = text_named(json, "done_reason").value_or("");
  if (const auto count = count_named(json, "prompt_eval_count")) answer.prompt_tokens = *count;
  if (const auto count = count_named(json, "eval_count")) answer.completion_tokens = *count;
}

using Fields = std::set<std::string, std::less<>>;

Fields openai_fields(std::initializer_list<const char*> more) {
  Fields fields = {
      "temperature", "top_p",   "presence_penalty", "frequency_penalty", "logit_bias", "stop",        "logprobs",
      "seed",        "choices", "stream",           "cancel_after",      "session",    "json_schema", "banned_tokens"};
  fields.insert(more.begin(), more.end());
  return fields;
}

}  // namespace

Token TokenNames::number(const std::string& name) {
  const std::lock_guard lock(mutex_);
  const auto [place, is_new] = numbers_.try_emplace(name, first + static_cast<Token>(names_.size()));
  if (is_new) names_.push_back(name);
  return place->second;
}

std::string TokenNames::text(std::span<const Token> tokens) const {
  const std::lock_guard lock(mutex_);
  std::string all;
  for (const Token token : tokens) {
    if (token < first) all += static_cast<char>(token);
    else if (static_cast<std::size_t>(token - first) < names_.size())
      all += names_[static_cast<std::size_t>(token - first)];
  }
  return all;
}

const std::vector<HttpApi>& http_apis() {
  static const std::vector<HttpApi> apis = {
      {"draftproof",
       "/v1/completions",
       true,
       openai_fields({"top_k", "min_p", "repeat_penalty", "repeat_last_n", "grammar"}),
       draftproof_body,
       read_openai,
       "/tokenize",
       {"penalties", "temperature", "top_k", "top_p", "min_p"}},
      {"vllm",
       "/v1/completions",
       true,
       openai_fields({"top_k", "min_p", "repeat_penalty", "min_tokens", "stop_tokens"}),
       vllm_body,
       read_openai,
       "/tokenize",
       {"penalties", "temperature", "min_p", "top_k", "top_p"}},
      {"llama-server",
       "/completion",
       true,
       {"temperature", "top_k", "top_p", "min_p", "repeat_penalty", "repeat_last_n", "presence_penalty",
        "frequency_penalty", "logit_bias", "banned_tokens", "stop", "logprobs", "json_schema", "grammar", "seed",
        "session", "stream", "cancel_after"},
       llama_body,
       read_llama,
       "/tokenize",
       {"penalties", "top_k", "top_p", "min_p", "temperature"}},
      {"openai", "/v1/completions", false, openai_fields({}), openai_body, read_openai, "", {}},
      {"tgi",
       "/generate",
       false,
       {"temperature", "top_k", "top_p", "repeat_penalty", "frequency_penalty", "stop", "logprobs", "seed", "session"},
       tgi_body,
       read_tgi,
       ""},
      {"ollama",
       "/api/generate",
       false,
       {"temperature", "top_k", "top_p", "min_p", "repeat_penalty", "presence_penalty", "frequency_penalty", "stop",
        "seed", "session", "json_schema"},
       ollama_body,
       read_ollama,
       ""},
  };
  return apis;
}

std::vector<std::string> names_of_http_apis() {
  std::vector<std::string> names;
  for (const HttpApi& api : http_apis()) names.emplace_back(api.name);
  return names;
}

void finish_units(EngineAnswer& answer) {
  for (EngineText& text : answer.texts) {
    if (!text.tokens.empty() || !text.text) continue;
    for (const char byte : *text.text) text.tokens.push_back(static_cast<unsigned char>(byte));
  }
}

}  // namespace draftproof
