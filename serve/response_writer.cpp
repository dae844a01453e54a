// SPDX-License-Identifier: MIT
#include "serve/response_writer.h"

#include <algorithm>
#include <nlohmann/json.hpp>
#include <utility>

namespace draftproof::serve {
namespace {

using Json = nlohmann::ordered_json;

std::string text_of(const Json& json) { return json.dump(-1, ' ', false, Json::error_handler_t::replace); }

std::string server_sent(const Json& json) { return "data: " + text_of(json) + "\n\n"; }

Json error_object(const std::string& message, const std::string& type) {
  return {{"error", {{"message", message}, {"type", type}, {"param", nullptr}, {"code", nullptr}}}};
}

Json usage_object(const Usage& usage) {
  return {{"prompt_tokens", usage.prompt_tokens},
          {"completion_tokens", usage.completion_tokens},
          {"total_tokens", usage.prompt_tokens + usage.completion_tokens},
          {"prompt_tokens_details", {{"cached_tokens", usage.cached_tokens}}},
          {"completion_tokens_details",
           {{"accepted_prediction_tokens", usage.accepted_prediction},
            {"rejected_prediction_tokens", usage.rejected_prediction}}},
          {"drafted_tokens", usage.drafted},
          {"accepted_tokens", usage.accepted},
          {"rounds_beyond_draft", usage.rounds_beyond_draft}};
}

Json model_object(const ServedModel& model) {
  Json one = {{"id", model.name},
              {"object", "model"},
              {"created", 0},
              {"owned_by", "draftproof"},
              {"draft", model.draft},
              {"max_model_len", model.context},
              {"numerics", model.fingerprint},
              {"chat", model.chat != nullptr}};
  if (!model.weights.empty()) one["weights"] = model.weights;
  return one;
}

/// The raw bytes of a token; of a model without a tokenizer, its id.
std::string bytes_of(const ServedModel& model, Token token) {
  std::string bytes;
  if (model.tokenizer == nullptr) return "token_id:" + std::to_string(token);
  model.tokenizer->append_bytes(token, false, bytes);
  return bytes;
}

/// A token in the list of a chat's logprobs.
Json token_object(const ServedModel& model, Token token, double logprob) {
  const std::string bytes = bytes_of(model, token);
  auto list = Json::array();
  for (const char byte : bytes) list.push_back(static_cast<unsigned char>(byte));
  return {{"token", bytes}, {"logprob", logprob}, {"bytes", std::move(list)}};
}

}  // namespace

std::string error_json(const std::string& message, const std::string& type) {
  return text_of(error_object(message, type));
}

std::string models_json(const ServedModel& model) {
  return text_of({{"object", "list"}, {"data", Json::array({model_object(model)})}});
}
std::string model_json(const ServedModel& model) { return text_of(model_object(model)); }

std::string tokens_json(const std::vector<Token>& tokens) { return text_of({{"tokens", tokens}}); }
std::string content_json(const std::string& content) { return text_of({{"content", content}}); }

/// One choice, as far as it was told.
struct ResponseWriter::Choice {
  Choice(const CompletionRequest& request, const ServedModel& model) : request(request), model(model) {
    if (model.tokenizer != nullptr) {
      stream.emplace(*model.tokenizer, request.job.stops, true, TextPlace::continuation);
    }
  }

  /// Appends tokens and returns the text that became certain.
  std::string push(const StreamRound& round, const std::vector<Token>& stops) {
    std::string more;
    for (const Token token : round.tokens) {
      const bool is_text = std::ranges::find(stops, token) == stops.end();
      if (stream && is_text) more += stream->push(token);
    }
    return more;
  }

  /// The logprobs of a round, as a list for a chat and as four for a completion.
  Json logprobs_of(const StreamRound& round) {
    if (round.logprobs.empty()) return nullptr;
    return request.chat ? chat_logprobs(round) : completion_logprobs(round);
  }

  const CompletionRequest& request;
  const ServedModel& model;
  std::optional<TextStream> stream;
  bool begun = false;
  std::string text;
  std::size_t offset = 0;  // bytes of the tokens with logprobs; the text may hold back some of them
  Json logprobs;           // null until there are some
  Json rounds = Json::array();
  Json finish;  // null until the choice has ended

 private:
  Json chat_logprobs(const StreamRound& round) const {
    auto content = Json::array();
    for (std::size_t i = 0; i < round.tokens.size(); ++i) {
      Json one = token_object(model, round.tokens[i], round.logprobs[i]);
      one["top_logprobs"] = Json::array();
      if (!round.top_logprobs.empty()) {
        for (const TokenLogprob& other : round.top_logprobs[i]) {
          one["top_logprobs"].push_back(token_object(model, other.token, other.logprob));
        }
      }
      content.push_back(std::move(one));
    }
    return {{"content", std::move(content)}, {"refusal", nullptr}};
  }

  Json completion_logprobs(const StreamRound& round) {
    Json lists = {{"tokens", Json::array()},
                  {"token_logprobs", Json::array()},
                  {"top_logprobs", nullptr},
                  {"text_offset", Json::array()}};
    for (std::size_t i = 0; i < round.tokens.size(); ++i) {
      const std::string bytes = bytes_of(model, round.tokens[i]);
      lists["tokens"].push_back(bytes);
      lists["token_logprobs"].push_back(round.logprobs[i]);
      lists["text_offset"].push_back(offset);
      if (model.tokenizer != nullptr) {
        std::string text_of_token;
        model.tokenizer->append_bytes(round.tokens[i], true, text_of_token);
        offset += text_of_token.size();
      }
      if (round.top_logprobs.empty()) continue;
      Json place = Json::object();
      for (const TokenLogprob& other : round.top_logprobs[i]) place[bytes_of(model, other.token)] = other.logprob;
      lists["top_logprobs"].push_back(std::move(place));
    }
    return lists;
  }
};

namespace {

/// Appends the lists of one object to those of another.
void append_lists(Json& all, const Json& more) {
  if (more.is_null()) return;
  if (all.is_null()) {
    all = more;
    return;
  }
  for (const auto& [name, list] : more.items()) {
    for (const Json& one : list) all[name].push_back(one);
  }
}

Json round_object(const StreamRound& round, const ServedModel& model) {
  auto tokens = Json::array();
  for (std::size_t i = 0; i < round.tokens.size(); ++i) {
    const bool accepted = static_cast<int>(i) < round.accepted;
    tokens.push_back({{"id", round.tokens[i]}, {"text", bytes_of(model, round.tokens[i])}, {"accepted", accepted}});
  }
  return {{"drafted", round.drafted}, {"accepted", round.accepted}, {"tokens", std::move(tokens)}};
}

/// What answers and chunks begin with.
Json head(const CompletionRequest& request, const ServedModel& model, const std::string& id, std::time_t created) {
  const char* const object = !request.chat    ? "text_completion"
                             : request.stream ? "chat.completion.chunk"
                                              : "chat.completion";
  return {{"id", id},
          {"object", object},
          {"created", created},
          {"model", model.name},
          {"system_fingerprint", model.fingerprint},
          {"seed", request.job.seed}};
}

}  // namespace

ResponseWriter::ResponseWriter(const CompletionRequest& request, const ServedModel& model, const std::string& id)
    : request_(request), model_(model), id_((request.chat ? "chatcmpl-" : "cmpl-") + id), created_(std::time(nullptr)) {
  for (std::size_t i = 0; i < request.job.choices.size(); ++i) {
    choices_.push_back(std::make_unique<Choice>(request, model));
  }
  const auto each = choices_.size() / static_cast<std::size_t>(request.prompts);
  for (std::size_t i = 0; i < choices_.size(); i += each) {
    usage_.prompt_tokens += static_cast<int>(request.job.choices[i].prompt.size());
  }
}

ResponseWriter::~ResponseWriter() = default;

std::string ResponseWriter::take(const StreamEvent& event) {
  Choice& choice = *choices_[static_cast<std::size_t>(event.choice)];
  std::string more;
  Json logprobs;
  Json round;
  if (event.round) {
    more = choice.push(*event.round, request_.job.choices[static_cast<std::size_t>(event.choice)].stops);
    logprobs = choice.logprobs_of(*event.round);
    if (request_.return_tokens) round = round_object(*event.round, model_);
    usage_.completion_tokens += static_cast<int>(event.round->tokens.size());
    usage_.drafted += event.round->drafted;
    usage_.accepted += event.round->accepted;
    const int predicted = std::min(event.round->accepted, event.round->predicted);
    usage_.accepted_prediction += predicted;
    usage_.rejected_prediction += event.round->predicted - predicted;
    usage_.rounds_beyond_draft += event.round->beyond_draft ? 1 : 0;
  }
  if (event.end) {
    if (choice.stream) more += choice.stream->finish();
    const auto each = static_cast<int>(choices_.size()) / request_.prompts;
    if (event.choice % each == 0) usage_.cached_tokens += event.end->reused;
    if (!event.end->error.empty()) {
      failure_ = event.end->error;
      return request_.stream ? server_sent(error_object(event.end->error, "server_error")) : "";
    }
    choice.finish = name_of(event.end->finish);
  }
  choice.text += more;
  if (!request_.stream) {
    append_lists(choice.logprobs, logprobs);
    if (!round.is_null()) choice.rounds.push_back(std::move(round));
    return "";
  }
  Json one = {{"index", event.choice}};
  if (request_.chat) {
    one["delta"] = Json::object();
    if (!std::exchange(choice.begun, true)) one["delta"]["role"] = "assistant";
    if (event.round || !more.empty()) one["delta"]["content"] = more;
  } else {
    one["text"] = more;
  }
  one["logprobs"] = std::move(logprobs);
  one["finish_reason"] = choice.finish;
  Json chunk = head(request_, model_, id_, created_);
  chunk["choices"] = Json::array({std::move(one)});
  if (request_.include_usage) chunk["usage"] = nullptr;
  if (!round.is_null()) chunk["round"] = std::move(round);
  return server_sent(chunk);
}

std::string ResponseWriter::end_of_stream() const {
  std::string end;
  if (request_.include_usage && !failure_) {
    Json chunk = head(request_, model_, id_, created_);
    chunk["choices"] = Json::array();
    chunk["usage"] = usage_object(usage_);
    end = server_sent(chunk);
  }
  return end + "data: [DONE]\n\n";
}

std::string ResponseWriter::whole() const {
  Json response = head(request_, model_, id_, created_);
  response["choices"] = Json::array();
  for (std::size_t i = 0; i < choices_.size(); ++i) {
    const Choice& choice = *choices_[i];
    Json one = {{"index", i}};
    if (request_.chat) one["message"] = {{"role", "assistant"}, {"content", choice.text}, {"refusal", nullptr}};
    else one["text"] = choice.text;
    one["logprobs"] = choice.logprobs;
    one["finish_reason"] = choice.finish;
    if (request_.return_tokens) one["rounds"] = choice.rounds;
    response["choices"].push_back(std::move(one));
  }
  response["usage"] = usage_object(usage_);
  return text_of(response);
}

}  // namespace draftproof::serve
