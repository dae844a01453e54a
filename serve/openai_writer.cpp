// SPDX-License-Identifier: MIT
#include "serve/openai_writer.h"

#include <algorithm>
#include <optional>
#include <utility>

#include "serve/foreign_json.h"

namespace draftproof::serve {
namespace {

std::string server_sent(const ForeignJson& json) { return "data: " + text_of(json) + "\n\n"; }

/// The field that a sentence about a request names: "the request: field a.b[2]: is ..."; null where it names none.
ForeignJson field_in(const std::string& message) {
  constexpr std::string_view begin = "the request: field ";
  if (!message.starts_with(begin)) return nullptr;
  return message.substr(begin.size(), message.find_first_of(": ", begin.size()) - begin.size());
}

ForeignJson error_object(const std::string& message, int status) {
  const bool too_long = message.find(beyond_context) != std::string::npos;
  const char* const type = status == 401   ? "authentication_error"
                           : status == 429 ? "rate_limit_error"
                           : status < 500  ? "invalid_request_error"
                                           : "server_error";
  return {{"error",
           {{"message", message},
            {"type", type},
            {"param", field_in(message)},
            {"code", too_long ? ForeignJson("context_length_exceeded") : ForeignJson()}}}};
}

ForeignJson usage_object(const Usage& usage) {
  ForeignJson told = {{"prompt_tokens", usage.prompt_tokens},
                      {"completion_tokens", usage.completion_tokens},
                      {"total_tokens", usage.prompt_tokens + usage.completion_tokens},
                      {"prompt_tokens_details", {{"cached_tokens", usage.cached_tokens}}},
                      {"completion_tokens_details",
                       {{"reasoning_tokens", usage.thought_tokens},
                        {"accepted_prediction_tokens", usage.accepted_prediction},
                        {"rejected_prediction_tokens", usage.rejected_prediction}}},
                      {"drafted_tokens", usage.drafted},
                      {"accepted_tokens", usage.accepted},
                      {"rounds_beyond_draft", usage.rounds_beyond_draft}};
  if (!usage.draft_remark.empty()) told["draft_remark"] = usage.draft_remark;
  return told;
}

/// With the status that llama-server's router tells.
ForeignJson model_object(const ListedModel& listed) {
  const ServedModel& model = *listed.model;
  ForeignJson one = {{"id", model.name},
                     {"object", "model"},
                     {"created", 0},
                     {"owned_by", "draftproof"},
                     {"draft", model.draft},
                     {"max_model_len", model.context},
                     {"numerics", model.fingerprint},
                     {"chat", model.chat != nullptr},
                     {"status", {{"value", listed.loaded ? "loaded" : "unloaded"}}}};
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
ForeignJson token_object(const ServedModel& model, Token token, double logprob) {
  const std::string bytes = bytes_of(model, token);
  auto list = ForeignJson::array();
  for (const char byte : bytes) list.push_back(static_cast<unsigned char>(byte));
  return {{"token", bytes}, {"logprob", logprob}, {"bytes", std::move(list)}};
}

}  // namespace

std::string openai_error(const std::string& message, int status) { return text_of(error_object(message, status)); }

std::string models_json(std::span<const ListedModel> models) {
  auto list = ForeignJson::array();
  for (const ListedModel& model : models) list.push_back(model_object(model));
  return text_of({{"object", "list"}, {"data", std::move(list)}});
}
std::string model_json(const ListedModel& model) { return text_of(model_object(model)); }

std::string tokens_json(const std::vector<Token>& tokens) { return text_of({{"tokens", tokens}}); }
std::string content_json(const std::string& content) { return text_of({{"content", content}}); }

/// What is told of a choice besides its text.
struct OpenAiWriter::Extras {
  Extras(const CompletionRequest& request, const ServedModel& model) : request(request), model(model) {}

  /// The logprobs of a round, as a list for a chat and as four for a completion.
  ForeignJson logprobs_of(const StreamRound* round) {
    if (round == nullptr || round->logprobs.empty()) return nullptr;
    return request.chat ? chat_logprobs(*round) : completion_logprobs(*round);
  }

  /// Those of the prompt's tokens, for a completion that begins with it; null: it does not.
  ForeignJson echoed_logprobs(const std::vector<Token>& prompt, const std::vector<PromptLogprob>& told) {
    if (request.echo.empty() || !request.job.choices.front().logprobs) return nullptr;
    ForeignJson lists = new_lists();
    std::size_t all = 0, before = 0;  // bytes of tokens
    for (const Token token : prompt) all += bytes_of(model, token).size();
    const std::size_t no_text = all - std::min(all, echo.size());  // of tokens before the text, as BOS
    for (std::size_t i = 0; i < prompt.size(); ++i) {
      offset = std::min(before - std::min(before, no_text), echo.size());
      before += bytes_of(model, prompt[i]).size();
      if (i > 0) add_place(lists, prompt[i], told[i - 1].logprob, told[i - 1].top);
      else add_place(lists, prompt[i], {}, {});
    }
    offset = echo.size();
    return lists;
  }

  /// The prompt's, as vLLM tells them: null for its first token, then an object of tokens for each.
  ForeignJson vllm_prompt_logprobs(const std::vector<Token>& prompt, const std::vector<PromptLogprob>& told) const {
    auto places = ForeignJson::array({nullptr});
    for (std::size_t i = 0; i < told.size(); ++i) {
      const auto entry = [&](const TokenLogprob& one, int rank) -> ForeignJson {
        return {{"logprob", one.logprob}, {"rank", rank}, {"decoded_token", bytes_of(model, one.token)}};
      };
      const Token token = prompt[i + 1];
      ForeignJson place = {{std::to_string(token), entry({token, told[i].logprob}, told[i].rank)}};
      for (std::size_t k = 0; k < told[i].top.size(); ++k) {
        const TokenLogprob& one = told[i].top[k];
        if (one.token != token) place[std::to_string(one.token)] = entry(one, static_cast<int>(k) + 1);
      }
      places.push_back(std::move(place));
    }
    return places;
  }

  const CompletionRequest& request;
  const ServedModel& model;
  std::string echo = {};  // what the text begins with
  bool begun = false;
  std::size_t offset = 0;  // bytes of the tokens with logprobs; the text may hold back some of them
  ForeignJson logprobs;    // null until there are some
  ForeignJson prompt;      // its logprobs as vLLM tells them; null: not asked for
  ForeignJson rounds = ForeignJson::array();

 private:
  ForeignJson chat_logprobs(const StreamRound& round) const {
    auto content = ForeignJson::array();
    for (std::size_t i = 0; i < round.tokens.size(); ++i) {
      ForeignJson one = token_object(model, round.tokens[i], round.logprobs[i]);
      one["top_logprobs"] = ForeignJson::array();
      if (!round.top_logprobs.empty()) {
        for (const TokenLogprob& other : round.top_logprobs[i]) {
          one["top_logprobs"].push_back(token_object(model, other.token, other.logprob));
        }
      }
      content.push_back(std::move(one));
    }
    return {{"content", std::move(content)}, {"refusal", nullptr}};
  }

  ForeignJson completion_logprobs(const StreamRound& round) {
    ForeignJson lists = new_lists();
    for (std::size_t i = 0; i < round.tokens.size(); ++i) {
      add_place(lists, round.tokens[i], round.logprobs[i],
                round.top_logprobs.empty() ? std::vector<TokenLogprob>() : round.top_logprobs[i]);
      if (model.tokenizer == nullptr) continue;
      std::string text_of_token;
      model.tokenizer->append_bytes(round.tokens[i], true, text_of_token);
      offset += text_of_token.size();
    }
    return lists;
  }

  static ForeignJson new_lists() {
    return {{"tokens", ForeignJson::array()},
            {"token_logprobs", ForeignJson::array()},
            {"top_logprobs", nullptr},
            {"text_offset", ForeignJson::array()}};
  }

  /// `logprob`: nullopt for the first token of a prompt, which no row is before.
  void add_place(ForeignJson& lists, Token token, std::optional<double> logprob, const std::vector<TokenLogprob>& top) {
    lists["tokens"].push_back(bytes_of(model, token));
    lists["token_logprobs"].push_back(logprob ? ForeignJson(*logprob) : ForeignJson());
    lists["text_offset"].push_back(offset);
    if (request.job.choices.front().top_logprobs == 0) return;
    ForeignJson place = logprob ? ForeignJson::object() : ForeignJson();
    for (const TokenLogprob& other : top) place[bytes_of(model, other.token)] = other.logprob;
    lists["top_logprobs"].push_back(std::move(place));
  }
};

namespace {

/// Appends the lists of one object to those of another.
void append_lists(ForeignJson& all, const ForeignJson& more) {
  if (more.is_null()) return;
  if (all.is_null()) {
    all = more;
    return;
  }
  for (const auto& [name, list] : more.items()) {
    for (const ForeignJson& one : list) all[name].push_back(one);
  }
}

ForeignJson round_object(const StreamRound& round, const ServedModel& model) {
  auto tokens = ForeignJson::array();
  for (std::size_t i = 0; i < round.tokens.size(); ++i) {
    const bool accepted = static_cast<int>(i) < round.accepted;
    tokens.push_back({{"id", round.tokens[i]}, {"text", bytes_of(model, round.tokens[i])}, {"accepted", accepted}});
  }
  return {{"drafted", round.drafted}, {"accepted", round.accepted}, {"tokens", std::move(tokens)}};
}

/// What answers and chunks begin with.
ForeignJson head(const CompletionRequest& request, const ServedModel& model, const std::string& id,
                 std::time_t created) {
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

/// A call of a tool, or the beginning of one in a stream.
ForeignJson call_object(const ToldCall& call, const std::string& arguments) {
  return {{"id", call.id}, {"type", "function"}, {"function", {{"name", call.name}, {"arguments", arguments}}}};
}

/// The whole message of a chat.
ForeignJson message_object(const ToldChoice& told) {
  ForeignJson message = {{"role", "assistant"}, {"content", told.text}, {"refusal", nullptr}};
  if (!told.thought.empty()) message["reasoning_content"] = told.thought;
  if (told.calls.empty()) return message;
  if (told.text.empty()) message["content"] = nullptr;
  for (const ToldCall& call : told.calls) message["tool_calls"].push_back(call_object(call, call.arguments));
  return message;
}

ForeignJson finish_of(const ToldChoice& told) { return told.finish.empty() ? ForeignJson() : ForeignJson(told.finish); }

}  // namespace

OpenAiWriter::OpenAiWriter(const CompletionRequest& request, const ServedModel& model, const std::string& id)
    : AnswerWriter(request, model, (request.chat ? "chatcmpl-" : "cmpl-") + id), created_(std::time(nullptr)) {
  for (std::size_t i = 0; i < choices(); ++i) {
    extras_.push_back(std::make_unique<Extras>(request, model));
    if (!request.echo.empty()) extras_.back()->echo = request.echo[i * request.echo.size() / choices()];
  }
}

OpenAiWriter::~OpenAiWriter() = default;

std::string OpenAiWriter::tell_failure() { return request_.stream ? server_sent(error_object(*failure(), 500)) : ""; }

std::string OpenAiWriter::tell(const News& news) {
  Extras& extras = *extras_[static_cast<std::size_t>(news.choice)];
  const ToldChoice& told = this->told(static_cast<std::size_t>(news.choice));
  ForeignJson logprobs = extras.logprobs_of(news.round);
  if (news.prompt != nullptr) {
    const std::vector<Token>& prompt = request_.job.choices[static_cast<std::size_t>(news.choice)].prompt;
    logprobs = extras.echoed_logprobs(prompt, *news.prompt);
    if (request_.tell_prompt) extras.prompt = extras.vllm_prompt_logprobs(prompt, *news.prompt);
  }
  ForeignJson round;
  if (news.round != nullptr && request_.return_tokens) round = round_object(*news.round, model_);
  if (!request_.stream) {
    append_lists(extras.logprobs, logprobs);
    if (!round.is_null()) extras.rounds.push_back(std::move(round));
    return "";
  }
  ForeignJson one = {{"index", news.choice}};
  if (request_.chat) {
    ForeignJson delta = ForeignJson::object();
    if (!std::exchange(extras.begun, true)) delta["role"] = "assistant";
    const auto add = [&](const char* field, const std::string& text) {
      if (!delta.contains(field)) delta[field] = "";
      delta[field].get_ref<std::string&>() += text;
    };
    for (const ToldPart& part : news.parts) {
      ForeignJson call;
      switch (part.kind) {
        case AnswerPart::Kind::content: add("content", part.text); continue;
        case AnswerPart::Kind::thought: add("reasoning_content", part.text); continue;
        case AnswerPart::Kind::call: call = call_object(told.calls[part.call], ""); break;
        case AnswerPart::Kind::arguments: call = {{"function", {{"arguments", part.text}}}}; break;
      }
      call["index"] = part.call;
      delta["tool_calls"].push_back(std::move(call));
    }
    one["delta"] = std::move(delta);
  } else {
    one["text"] = (std::exchange(extras.begun, true) ? "" : extras.echo) + news.text();
  }
  one["logprobs"] = std::move(logprobs);
  one["finish_reason"] = finish_of(told);
  ForeignJson chunk = head(request_, model_, id_, created_);
  if (news.prompt != nullptr && request_.tell_prompt) one["prompt_logprobs"] = extras.prompt;
  chunk["choices"] = ForeignJson::array({std::move(one)});
  if (request_.include_usage) chunk["usage"] = nullptr;
  if (!round.is_null()) chunk["round"] = std::move(round);
  return server_sent(chunk);
}

std::string OpenAiWriter::end_of_stream() {
  std::string end;
  if (request_.include_usage && !failure()) {
    ForeignJson chunk = head(request_, model_, id_, created_);
    chunk["choices"] = ForeignJson::array();
    chunk["usage"] = usage_object(usage());
    end = server_sent(chunk);
  }
  return end + "data: [DONE]\n\n";
}

std::string OpenAiWriter::whole() const {
  ForeignJson response = head(request_, model_, id_, created_);
  response["choices"] = ForeignJson::array();
  for (std::size_t i = 0; i < choices(); ++i) {
    ForeignJson one = {{"index", i}};
    if (request_.chat) one["message"] = message_object(told(i));
    else one["text"] = extras_[i]->echo + told(i).text;
    if (request_.tell_prompt && !request_.chat) one["prompt_logprobs"] = extras_[i]->prompt;
    one["logprobs"] = extras_[i]->logprobs;
    one["finish_reason"] = finish_of(told(i));
    if (request_.return_tokens) one["rounds"] = extras_[i]->rounds;
    response["choices"].push_back(std::move(one));
  }
  if (request_.tell_prompt && request_.chat) response["prompt_logprobs"] = extras_[0]->prompt;
  response["usage"] = usage_object(usage());
  return text_of(response);
}

namespace {

std::unique_ptr<AnswerWriter> openai_writer(const CompletionRequest& request, const ServedModel& model,
                                            const std::string& id, const std::string&) {
  return std::make_unique<OpenAiWriter>(request, model, id);
}

}  // namespace

const Api openai_chats = {
    .read = [](const std::string& body, const ServedModel& model) { return read_chat(body, model); },
    .writer = openai_writer,
    .error = openai_error};
const Api openai_completions = {
    .read = [](const std::string& body, const ServedModel& model) { return read_completion(body, model); },
    .writer = openai_writer,
    .error = openai_error};

}  // namespace draftproof::serve
