// SPDX-License-Identifier: MIT
#include "serve/completion_request.h"

#include <sys/random.h>

#include <algorithm>
#include <limits>
#include <optional>
#include <sstream>
#include <string_view>
#include <type_traits>
#include <utility>

#include "ref/acceptance/bans.h"
#include "ref/answers/thought_budget.h"
#include "ref/base/error.h"
#include "ref/formats/json.h"
#include "ref/grammar/grammar_constraint.h"
#include "ref/grammar/json_schema.h"
#include "ref/text/breakers.h"
#include "ref/text/word_tokens.h"
#include "serve/chat_request.h"
#include "serve/foreign_json.h"
#include "serve/request_fields.h"

namespace draftproof::serve {
namespace {

constexpr int choices_max = 16;  // of one request
constexpr int prompts_max = 16;
constexpr std::size_t told_max = std::size_t{1} << 18;  // tokens whose logprobs are told, of all prompts

void read_real(const Json& json, const char* field, double min, double max, float& value) {
  const auto found = json.find(field);
  if (!found) return;
  const double number = found->number();
  if (number < min || number > max) {
    found->fail("lies outside " + std::to_string(min) + " to " + std::to_string(max));
  }
  value = static_cast<float>(number);
}

void read_integer(const Json& json, const char* field, int min, int max, int& value) {
  if (const auto found = json.find(field)) value = static_cast<int>(found->integer(min, max));
}

/// Refuses fields of the other kind of request, unless they say nothing.
void refuse_fields(const Json& json, std::initializer_list<const char*> fields) {
  for (const char* const field : fields) {
    const auto found = json.find(field);
    if (found && !is_blank_value(*found)) found->fail("is not supported here; leave it out");
  }
}

std::vector<std::string> read_texts(const Json& list) {
  std::vector<std::string> texts;
  for (std::size_t i = 0; i < list.size(); ++i) texts.push_back(list[i].string());
  return texts;
}

/// Calls read() and makes its error one of the field.
template <class Function>
auto of_field(const Json& field, const Function& read) {
  try {
    return read();
  } catch (const Error& wrong) {
    field.fail("is not right: " + std::string(wrong.what()));
  }
}

/// llama.cpp's `samplers`, a list of names or a text with ; between them, or koboldcpp's `sampler_order`.
void read_order(const Json& json, Sampling& sampling) {
  const auto samplers = json.find("samplers");
  const auto numbers = json.find("sampler_order");
  if (samplers && numbers) samplers->fail("and sampler_order say the same; leave one out");
  if (samplers) {
    std::vector<std::string> names;
    if (samplers->is_string()) {
      std::istringstream text(samplers->string());
      for (std::string name; std::getline(text, name, ';');) names.push_back(name);
    } else {
      names = read_texts(*samplers);
    }
    if (!names.empty()) of_field(*samplers, [&] { sampling.apply_named(names); });
  }
  if (!numbers || numbers->size() == 0) return;
  const std::vector<std::int64_t> list = numbers->integers(0, 6);
  const std::vector<int> steps(list.begin(), list.end());
  of_field(*numbers, [&] { sampling.apply_only(parse_kobold_order(steps)); });
}

/// Throws Error when the text of tokens is needed, and there is none.
const Tokenizer& tokenizer_for(const ServedModel& model, const char* what) {
  if (model.tokenizer != nullptr) return *model.tokenizer;
  throw Error(std::string(what) + " needs a tokenizer, and the model " + model.name +
              " has none; give prompts as token ids");
}

/// The texts over which no repetition that DRY sees goes on.
void read_breakers(const Json& json, const ServedModel& model, Sampling& sampling) {
  if (!sampling.dries()) return;
  const auto texts = json.find("dry_sequence_breakers");
  if (!texts) {
    if (model.tokenizer != nullptr) sampling.dry_breakers = breaking_tokens(*model.tokenizer, default_breakers());
    return;
  }
  const std::vector<std::string> list = read_texts(*texts);
  if (list.empty()) return;
  const Tokenizer& tokenizer = tokenizer_for(model, "dry_sequence_breakers");
  sampling.dry_breakers = of_field(*texts, [&] { return breaking_tokens(tokenizer, list); });
}

Sampling read_sampling(const Json& json, const ServedModel& model) {
  Sampling sampling = default_sampling();
  for_each_sampling_field([&]<class T>(const SamplingField<T>& field) {
    T& value = sampling.*field.member;
    if constexpr (std::is_same_v<T, float>) {
      read_real(json, field.api_name, field.min, field.max, value);
    } else {
      read_integer(json, field.api_name, std::min(field.min, -1), field.max, value);  // to clients -1 is off, or all
    }
    if (field.not_zero && value == 0) {
      json.at(field.api_name).fail(std::string("must be above 0; ") + field.help);
    }
  });
  if (sampling.mirostat == 1) json.at("mirostat").fail("must be 0 or 2; version 1 is not there");
  if (sampling.top_p == 0) sampling.top_p = std::numeric_limits<float>::min();  // 0 would be off: clients mean the best
  if (const auto biases = json.find("logit_bias")) {
    if (!biases->is_object()) biases->fail("is not an object of token ids and biases");
    for (const std::string& name : biases->fields()) {
      const Json bias = biases->at(name);
      const bool digits =
          !name.empty() && name.size() < 10 && std::ranges::all_of(name, [](char c) { return c >= '0' && c <= '9'; });
      if (!digits || std::stoi(name) >= model.vocabulary) bias.fail("is not a bias of a token id of this model");
      sampling.logit_bias.push_back({std::stoi(name), 0});
      read_real(*biases, name.c_str(), -LogitBias::max, LogitBias::max, sampling.logit_bias.back().bias);
    }
  }
  read_order(json, sampling);
  if (sampling.mirostat == 2) sampling.apply_mirostat_alone();
  read_breakers(json, model, sampling);
  return sampling;
}

StopStrings read_stops(const Json& json, const ServedModel& model) {
  const auto stop = json.find("stop");
  if (!stop) return {};
  std::vector<std::string> strings;
  if (stop->is_array()) strings = read_texts(*stop);
  else strings.push_back(stop->string());
  if (!strings.empty()) tokenizer_for(model, "stop");
  return StopStrings(std::move(strings));
}

std::uint64_t random_seed() {
  std::uint32_t seed = 0;  // of 32 bits: some clients keep no larger integers
  if (getrandom(&seed, sizeof(seed), 0) != sizeof(seed)) throw Error("the system gave no random seed; give one");
  return seed;
}

std::uint64_t read_seed(const Json& json) {
  const auto seed = json.find("seed");
  if (!seed) return random_seed();
  constexpr std::int64_t max = std::numeric_limits<std::int64_t>::max();
  return static_cast<std::uint64_t>(seed->integer(-max - 1, max));
}

/// vLLM's prompt_logprobs: with so many of the tokens that are the likeliest.
bool read_prompt_logprobs(const Json& json, Request& request) {
  const auto asked = json.find("prompt_logprobs");
  if (!asked) return false;
  const int count = static_cast<int>(asked->integer(0, Request::top_logprobs_max));
  if (request.logprobs && count != request.top_logprobs) {
    asked->fail("asks for " + std::to_string(count) + " of the likeliest tokens, and the rest of the request for " +
                std::to_string(request.top_logprobs) + "; ask for as many");
  }
  request.prompt_logprobs = true;
  request.top_logprobs = count;
  return true;
}

/// The number of new tokens that is asked for; nullopt: as many as the server gives.
std::optional<int> read_max_tokens(const Json& json) {
  int number = -1;
  read_integer(json, "max_tokens", 0, Request::text_max, number);
  return number < 0 ? std::nullopt : std::optional(number);
}

std::vector<Token> read_tokens(const Json& list, const ServedModel& model) {
  std::vector<Token> tokens;
  for (const std::int64_t token : list.integers(0, model.vocabulary - 1)) tokens.push_back(static_cast<Token>(token));
  return tokens;
}

/// A string, a list of token ids, or a list of either. `parse_special`: what spells a special token in a text is one.
std::vector<std::vector<Token>> read_prompts(const Json& prompt, bool parse_special, const ServedModel& model) {
  const auto one = [&](const Json& json) {
    if (!json.is_string()) return read_tokens(json, model);
    return tokenizer_for(model, "a prompt of text").encode(json.string(), true, parse_special);
  };
  const bool several = prompt.is_array() && prompt.size() > 0 && !prompt[0].is_number();
  if (!several) return {one(prompt)};
  if (prompt.size() > prompts_max) prompt.fail("has more than " + std::to_string(prompts_max) + " prompts");
  std::vector<std::vector<Token>> prompts;
  for (std::size_t i = 0; i < prompt.size(); ++i) prompts.push_back(one(prompt[i]));
  return prompts;
}

/// The prompts as they came: those of token ids as the texts of these.
std::vector<std::string> texts_of_prompts(const Json& prompt, const std::vector<std::vector<Token>>& prompts,
                                          const ServedModel& model) {
  if (prompt.is_string()) return {prompt.string()};
  std::vector<std::string> texts;
  for (std::size_t i = 0; i < prompts.size(); ++i) {
    if (!prompt[0].is_number() && prompt[i].is_string()) texts.push_back(prompt[i].string());
    else texts.push_back(model.tokenizer == nullptr ? "" : model.tokenizer->decode(prompts[i], false));
  }
  return texts;
}

/// The text that the answer is expected to be like: content as that of a message, or token ids; empty: none.
std::string read_cache_salt(const Json& json) {
  constexpr std::size_t bytes_max = 256;
  const auto salt = json.find("cache_salt");
  if (!salt) return "";
  if (salt->string().empty()) salt->fail("is empty; give a text, or leave it out");
  if (salt->string().size() > bytes_max) salt->fail("has more than " + std::to_string(bytes_max) + " bytes");
  return salt->string();
}

std::vector<Token> read_prediction(const Json& json, const ServedModel& model) {
  const auto prediction = json.find("prediction");
  if (!prediction) return {};
  const Json type = prediction->at("type");
  if (type.string() != "content") type.fail("is not content, the only kind of prediction");
  const Json content = prediction->at("content");
  if (content.is_array() && content.size() > 0 && content[0].is_number()) return read_tokens(content, model);
  return tokenizer_for(model, "a prediction of text").encode(read_content(*prediction), false);
}

/// One of these texts.
std::string choice_gbnf(const Json& choices) {
  if (choices.size() == 0) choices.fail("is empty; give the texts to choose from");
  std::string gbnf = "root ::=";
  for (std::size_t i = 0; i < choices.size(); ++i) {
    gbnf += (i == 0 ? " " : " | ") + gbnf_string(choices[i].string());
  }
  return gbnf;
}

/// vLLM's structured_outputs.
std::optional<std::string> read_structure(const Json& structure) {
  std::optional<std::string> gbnf;
  for (const std::string& name : structure.fields()) {
    const auto value = structure.find(name);
    if (!value || (value->is_boolean() && !value->boolean())) continue;
    if (gbnf) value->fail("is one of several; a request has one");
    if (name == "json") gbnf = schema_to_gbnf(*value);
    else if (name == "grammar") gbnf = value->string();
    else if (name == "choice") gbnf = choice_gbnf(*value);
    else if (name == "json_object") gbnf = json_object_gbnf();
    else value->fail("is not supported by this server; json, json_object, grammar and choice are");
  }
  return gbnf;
}

/// The grammar that the answer has to follow, as GBNF; nullopt: none.
std::optional<std::string> read_grammar(const Json& json) {
  const auto grammar = json.find("grammar");
  const auto format = json.find("response_format");
  const auto structure = json.find("structured_outputs");
  if (grammar && format) grammar->fail("and response_format exclude each other; leave one out");
  if (structure && (grammar || format)) structure->fail("and other grammars exclude each other; leave one out");
  if (structure) return read_structure(*structure);
  if (grammar) return grammar->string();
  if (!format) return std::nullopt;
  const Json type = format->at("type");
  if (type.string() == "text") return std::nullopt;
  if (const auto schema = format->find("schema")) return schema_to_gbnf(*schema);
  if (type.string() == "json_object") return json_object_gbnf();
  if (type.string() == "json_schema") return schema_to_gbnf(format->at("json_schema").at("schema"));
  type.fail("is not one of text, json_object and json_schema");
}

/// The grammar of the text, and the budget of thoughts in it. `chat`: nullptr for a completion, whose text is content.
std::shared_ptr<const Constraint> read_form(const Json& json, const ServedModel& model, const ChatRequest* chat,
                                            const std::vector<Token>& stops) {
  std::optional<std::string> gbnf = read_grammar(json);
  if (gbnf) tokenizer_for(model, "a grammar");
  if (chat != nullptr) {
    gbnf = answer_gbnf(chat->format, chat->terms.thinking, chat->calls, gbnf, *model.tokenizer);
  }
  std::shared_ptr<const Constraint> constraint;
  if (gbnf) {
    constraint = std::make_shared<GrammarConstraint>(
        std::make_shared<const Grammar>(Grammar::from_gbnf(*gbnf, "the grammar of the request", model.tokenizer)),
        model.tokens, stops);
  }
  int budget = -1;
  read_integer(json, "thinking_budget_tokens", -1, Request::text_max, budget);
  if (budget < 0 || chat == nullptr || chat->terms.thinking == Thinking::none) return constraint;
  if (chat->format.thoughts == nullptr) {
    json.at("thinking_budget_tokens").fail("cannot be obeyed in the channels of gpt-oss; leave it out");
  }
  return std::make_shared<ThoughtBudget>(*chat->format.thoughts, chat->terms.thinking, budget, *model.tokenizer,
                                         model.vocabulary, std::move(constraint));
}

/// The tokens of words that the output does not have: of each as it is, and with a space before it.
std::vector<std::vector<Token>> read_bad_words(const Json& json, const ServedModel& model) {
  const auto texts = json.find("bad_words");
  std::vector<std::vector<Token>> words;
  if (!texts) return words;
  for (const std::string& text : read_texts(*texts)) {
    if (text.empty()) texts->fail("has an empty text; leave it out");
    add_word_tokens(tokenizer_for(model, "bad_words"), text, words);
  }
  return words;
}

/// What the output has to follow; nullptr: nothing.
std::shared_ptr<const Constraint> read_constraint(const Json& json, const ServedModel& model, const ChatRequest* chat,
                                                  const std::vector<Token>& stops) {
  std::shared_ptr<const Constraint> form = read_form(json, model, chat, stops);
  int min_tokens = 0;
  read_integer(json, "min_tokens", 0, Request::text_max, min_tokens);
  std::vector<std::vector<Token>> words = read_bad_words(json, model);
  if (min_tokens == 0 && words.empty()) return form;
  return std::make_shared<Bans>(std::move(form), model.vocabulary, stops, min_tokens, std::move(words));
}

/// What chats and completions have in common. `request`: with its logprobs. `chat`: nullptr for a completion.
CompletionRequest read_common(const Json& json, const ServedModel& model, Request request, const ChatRequest* chat,
                              std::vector<std::vector<Token>> prompts) {
  CompletionRequest completion;
  completion.prompts = static_cast<int>(prompts.size());
  completion.stream = read_boolean(json, "stream", false);
  if (const auto options = json.find("stream_options")) {
    completion.include_usage = read_boolean(*options, "include_usage", false);
  }
  completion.return_tokens = read_boolean(json, "return_tokens", false);
  completion.job.speculative = read_boolean(json, "speculative", true);
  completion.job.cache_salt = read_cache_salt(json);
  completion.job.prediction = read_prediction(json, model);
  completion.job.stops = read_stops(json, model);
  completion.job.seed = read_seed(json);
  request.sampling = read_sampling(json, model);
  if (!read_boolean(json, "ignore_eos", false)) request.stops = model.stops;
  if (const auto more = json.find("stop_token_ids")) {
    for (const Token token : read_tokens(*more, model)) request.stops.push_back(token);
  }
  request.constraint = read_constraint(json, model, chat, request.stops);
  int choices = 1;
  read_integer(json, "n", 1, choices_max, choices);
  const std::optional<int> asked = read_max_tokens(json);
  std::size_t told = 0;
  for (std::vector<Token>& prompt : prompts) {
    if (prompt.empty()) throw Error("the prompt is empty; give at least one token to continue");
    const int room = model.context - static_cast<int>(prompt.size());
    if (room < (asked == 0 ? 0 : 1)) {
      throw Error("the prompt has " + std::to_string(prompt.size()) + " tokens" + beyond_context +
                  std::to_string(model.context) + "; give a shorter one");
    }
    told +=
        request.prompt_logprobs ? prompt.size() * static_cast<std::size_t>(choices * (1 + request.top_logprobs)) : 0;
    if (told > told_max) {
      throw Error("the logprobs of the prompts would be those of more than " + std::to_string(told_max) +
                  " tokens; ask for fewer prompts, choices or top logprobs at a time");
    }
    request.prompt = std::move(prompt);
    request.max_new_tokens = asked.value_or(std::min(model.max_new_tokens, room));
    for (int i = 0; i < choices; ++i) {
      completion.job.choices.push_back(request);
      ++request.sequence;
    }
  }
  return completion;
}

}  // namespace

Sampling default_sampling() { return {.temperature = 1, .repeat_last_n = -1}; }

CompletionRequest read_chat(const std::string& body, const ServedModel& model,
                            const std::map<std::string, std::string>& names) {
  const Json json = parse_request(body, names);
  refuse_fields(json, {"prompt", "echo", "parse_special"});
  Request request;
  request.logprobs = read_boolean(json, "logprobs", false);
  read_integer(json, "top_logprobs", 0, Request::top_logprobs_max, request.top_logprobs);
  if (request.top_logprobs > 0 && !request.logprobs) json.at("top_logprobs").fail("needs logprobs to be true");
  const bool tell_prompt = read_prompt_logprobs(json, request);
  if (model.chat == nullptr) {
    throw Error("the model " + model.name +
                " has no chat template; use /v1/completions, or start the server with "
                "--template FILE");
  }
  tokenizer_for(model, "a chat");
  const ChatRequest chat = read_conversation(json, model);
  CompletionRequest completion = read_common(json, model, request, &chat, {chat.prompt});
  completion.chat = true;
  completion.tell_prompt = tell_prompt;
  completion.include_thoughts = read_boolean(json, "include_reasoning", true);
  const auto format = json.find("reasoning_format");
  const bool apart = !format || format->string() != "none";
  if (apart && format && format->string() != "auto" && format->string() != "deepseek") {
    format->fail("is not one of none, auto and deepseek");
  }
  completion.format = chat.format;
  completion.terms = chat.terms;
  completion.terms.thoughts = apart;
  for (const Token token : shown_tokens(completion.format, *model.tokenizer)) completion.job.shown.push_back(token);
  return completion;
}

CompletionRequest read_completion(const std::string& body, const ServedModel& model,
                                  const std::map<std::string, std::string>& names) {
  const Json json = parse_request(body, names);
  refuse_fields(json, {"messages", "chat_template_kwargs", "top_logprobs", "tools", "tool_choice", "reasoning_effort",
                       "reasoning_format", "thinking_budget_tokens", "continue_final_message"});
  Request request;
  if (const auto logprobs = json.find("logprobs"); logprobs && !(logprobs->is_boolean() && !logprobs->boolean())) {
    request.logprobs = true;
    if (!logprobs->is_boolean()) {
      request.top_logprobs = static_cast<int>(logprobs->integer(0, Request::top_logprobs_max));
    }
  }
  const bool echo = read_boolean(json, "echo", false);
  const bool tell_prompt = read_prompt_logprobs(json, request);
  if (echo && request.logprobs) request.prompt_logprobs = true;
  std::vector<std::vector<Token>> prompts =
      read_prompts(json.at("prompt"), read_boolean(json, "parse_special", false), model);
  std::vector<std::string> texts =
      echo ? texts_of_prompts(json.at("prompt"), prompts, model) : std::vector<std::string>();
  CompletionRequest completion = read_common(json, model, request, nullptr, std::move(prompts));
  completion.echo = std::move(texts);
  completion.tell_prompt = tell_prompt;
  return completion;
}

std::vector<Token> read_tokenize(const std::string& body, const ServedModel& model) {
  const Json json = parse_foreign(body);
  return tokenizer_for(model, "/tokenize")
      .encode(json.at("content").string(), read_boolean(json, "add_special", false),
              read_boolean(json, "parse_special", true));
}

std::string read_detokenize(const std::string& body, const ServedModel& model) {
  const Json json = parse_foreign(body);
  return tokenizer_for(model, "/detokenize").decode(read_tokens(json.at("tokens"), model), false);
}

}  // namespace draftproof::serve
