// SPDX-License-Identifier: MIT
#include "tools/endpoint_answer.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstdint>
#include <limits>
#include <nlohmann/json.hpp>
#include <utility>

#include "ref/base/error.h"
#include "ref/formats/printable.h"

namespace draftproof {
namespace {

using AnswerJson = nlohmann::ordered_json;

/// JSON as text. Two numbers have the same text if and only if they have the same bits.
std::string text_of_json(const AnswerJson& json) {
  return json.dump(-1, ' ', false, AnswerJson::error_handler_t::replace);
}

/// As it comes back from JSON: bytes that are not UTF-8 are replaced there, and a number that is not finite is null.
AnswerJson told(const AnswerJson& json) { return AnswerJson::parse(text_of_json(json)); }

std::string bytes_of(const Tokenizer* tokenizer, Token token) {
  if (tokenizer == nullptr) return "token_id:" + std::to_string(token);
  std::string bytes;
  tokenizer->append_bytes(token, false, bytes);
  return bytes;
}

AnswerJson list_of_bytes(const std::string& bytes) {
  auto list = AnswerJson::array();
  for (const char byte : bytes) list.push_back(static_cast<unsigned char>(byte));
  return list;
}

// Values of an answer, which may be of any server. All throw Error, which begins with "it".

const AnswerJson& field_of(const AnswerJson& json, const char* field) {
  if (!json.is_object()) throw Error(fmt::format("it has no object where a field `{}` belongs", field));
  const auto found = json.find(field);
  if (found == json.end()) throw Error(fmt::format("it lacks the field `{}`", field));
  return *found;
}

const AnswerJson& list_in(const AnswerJson& json, const char* field) {
  const AnswerJson& list = field_of(json, field);
  if (!list.is_array()) throw Error(fmt::format("its field `{}` is not a list", field));
  return list;
}

const AnswerJson& element_of(const AnswerJson& json, const char* field, std::size_t place) {
  const AnswerJson& list = list_in(json, field);
  if (place >= list.size()) throw Error(fmt::format("its list `{}` is too short", field));
  return list[place];
}

std::string string_in(const AnswerJson& json, const char* field) {
  const AnswerJson& text = field_of(json, field);
  if (!text.is_string()) throw Error(fmt::format("its field `{}` is not a string", field));
  return text.get<std::string>();
}

int count_in(const AnswerJson& json, const char* field) {
  const AnswerJson& number = field_of(json, field);
  constexpr std::uint64_t max = std::numeric_limits<int>::max();
  if (!number.is_number_unsigned() || number.get<std::uint64_t>() > max) {
    throw Error(fmt::format("its field `{}` is not a count", field));
  }
  return number.get<int>();
}

/// A log-probability: one that is not finite is null.
AnswerJson logprob_of(const AnswerJson& json) {
  if (!json.is_number() && !json.is_null()) throw Error("a log-probability is no number");
  return json.is_number() ? AnswerJson(json.get<double>()) : json;
}

AnswerJson bytes_in(const AnswerJson& json) {
  const AnswerJson& list = list_in(json, "bytes");
  const auto is_byte = [](const AnswerJson& byte) { return byte.is_number_unsigned(); };
  if (!std::ranges::all_of(list, is_byte)) throw Error("its list `bytes` has more than numbers");
  return list;
}

}  // namespace

std::optional<std::string> error_message_in(std::string_view body) {
  const AnswerJson json = AnswerJson::parse(body, nullptr, false);
  if (!json.is_object() || !json.contains("error") || json["error"].is_null()) return std::nullopt;
  const AnswerJson& error = json["error"];
  const AnswerJson& message = error.is_object() && error.contains("message") ? error["message"] : error;
  return message.is_string() ? printable(message.get<std::string>()) : "no message";
}

AnswerReader::AnswerReader(const EndpointRequest& request) : request_(request) {
  answer_.choices.resize(request.choices.size());
}

void AnswerReader::read(std::string_view text, void (AnswerReader::*read)(const Json& answer)) {
  if (auto message = error_message_in(text)) return fail(std::move(*message));
  try {
    const Json json = Json::parse(text, nullptr, false);
    if (json.is_discarded()) throw Error("it is no JSON");
    (this->*read)(json);
  } catch (const Error& wrong) {
    throw Error(
        fmt::format("the answer to request {} is not one of draftproof's API: {}; see whether the address is "
                    "that of `draftproof serve`",
                    request_.number, wrong.what()));
  }
}

ReceivedChoice& AnswerReader::begin_choice(const Json& choice) {
  const int index = count_in(choice, "index");
  if (static_cast<std::size_t>(index) >= answer_.choices.size()) {
    throw Error(fmt::format("it has a choice {}, and {} were asked for", index, answer_.choices.size()));
  }
  ReceivedChoice& one = answer_.choices[static_cast<std::size_t>(index)];
  if (!field_of(choice, "finish_reason").is_null()) one.finish = string_in(choice, "finish_reason");
  if (const auto logprobs = choice.find("logprobs"); logprobs != choice.end() && !logprobs->is_null()) {
    read_logprobs(one, *logprobs);
  }
  if (choice.contains("prompt_logprobs")) read_prompt_logprobs(one, list_in(choice, "prompt_logprobs"));
  return one;
}

void AnswerReader::read_round(ReceivedChoice& choice, const Json& round) const {
  choice.drafted += count_in(round, "drafted");
  choice.accepted += count_in(round, "accepted");
  for (const Json& token : list_in(round, "tokens")) {
    choice.tokens.push_back(count_in(token, "id"));
    choice.token_texts.push_back(string_in(token, "text"));
  }
}

void AnswerReader::read_logprobs(ReceivedChoice& choice, const Json& logprobs) const {
  if (request_.chat) {
    for (const Json& token : list_in(logprobs, "content")) {
      Json kept = {
          {"logprob", logprob_of(field_of(token, "logprob"))}, {"bytes", bytes_in(token)}, {"top", Json::array()}};
      for (const Json& other : list_in(token, "top_logprobs")) {
        kept["top"].push_back({{"logprob", logprob_of(field_of(other, "logprob"))}, {"bytes", bytes_in(other)}});
      }
      choice.logprobs.push_back(text_of_json(kept));
    }
    return;
  }
  const Json& numbers = list_in(logprobs, "token_logprobs");
  const Json& top = field_of(logprobs, "top_logprobs");
  for (std::size_t i = 0; i < numbers.size(); ++i) {
    const Json& text = element_of(logprobs, "tokens", i);
    const Json& offset = element_of(logprobs, "text_offset", i);
    if (!text.is_string() || !offset.is_number_unsigned()) throw Error("it does not say where its tokens begin");
    Json kept = {{"logprob", logprob_of(numbers[i])}, {"text", text}, {"offset", offset}, {"top", Json::object()}};
    if (!top.is_null()) {
      for (const auto& [other, number] : element_of(logprobs, "top_logprobs", i).items()) {
        kept["top"][other] = logprob_of(number);
      }
    }
    choice.logprobs.push_back(text_of_json(kept));
  }
}

void AnswerReader::read_prompt_logprobs(ReceivedChoice& choice, const Json& places) {
  for (const Json& place : places) {
    Json kept = Json::object();
    for (const auto& [token, entry] : place.items()) {
      kept[token] = {{"logprob", logprob_of(field_of(entry, "logprob"))},
                     {"rank", count_in(entry, "rank")},
                     {"text", string_in(entry, "decoded_token")}};
    }
    choice.prompt_logprobs.push_back(text_of_json(kept));
  }
}

/// The message of an answer, or more of it.
void AnswerReader::read_message(ReceivedChoice& choice, const Json& message) const {
  const auto add = [&](const char* field, std::string& text) {
    if (message.contains(field) && !message[field].is_null()) text += string_in(message, field);
  };
  add("content", choice.text);
  add("reasoning_content", choice.thought);
  if (!message.contains("tool_calls")) return;
  for (const Json& call : list_in(message, "tool_calls")) {
    const Json& function = field_of(call, "function");
    if (function.contains("name")) {
      choice.calls += (choice.calls.empty() ? "" : ") ") + string_in(function, "name") + "(";
    }
    choice.calls += string_in(function, "arguments");
  }
}

void AnswerReader::read_usage(const Json& answer) {
  if (!answer.contains("usage") || answer["usage"].is_null()) return;
  answer_.prompt_tokens = count_in(answer["usage"], "prompt_tokens");
  answer_.completion_tokens = count_in(answer["usage"], "completion_tokens");
}

void AnswerReader::read_chunk(const Json& chunk) {
  for (const Json& one : list_in(chunk, "choices")) {
    ReceivedChoice& choice = begin_choice(one);
    if (request_.chat) read_message(choice, field_of(one, "delta"));
    else choice.text += string_in(one, "text");
    if (chunk.contains("round")) read_round(choice, chunk["round"]);
  }
  read_usage(chunk);
}

void AnswerReader::read_answer(const Json& answer) {
  for (const Json& one : list_in(answer, "choices")) {
    ReceivedChoice& choice = begin_choice(one);
    if (request_.chat) read_message(choice, field_of(one, "message"));
    else choice.text = string_in(one, "text");
    for (const Json& round : list_in(one, "rounds")) read_round(choice, round);
  }
  read_usage(answer);
}

void AnswerReader::read_event(std::string_view data) {
  ++chunks_;
  if (data == "[DONE]") answer_.ended = true;
  else read(data, &AnswerReader::read_chunk);
}

void AnswerReader::read_whole(std::string_view body) {
  read(body, &AnswerReader::read_answer);
  answer_.ended = true;
}

namespace {

/// What plain decoding answers, in the form of what is received.
struct PlainAnswer {
  std::vector<Token> tokens;
  std::vector<std::string> token_texts;
  std::vector<std::string> logprobs;
  std::string text, thought, calls;
  std::string finish;
};

/// Takes in parts of an answer, as AnswerReader keeps them.
void take(const std::vector<AnswerPart>& parts, PlainAnswer& answer) {
  for (const AnswerPart& part : parts) {
    switch (part.kind) {
      case AnswerPart::Kind::content: answer.text += part.text; break;
      case AnswerPart::Kind::thought: answer.thought += part.text; break;
      case AnswerPart::Kind::call: answer.calls += (answer.calls.empty() ? "" : ") ") + part.text + "("; break;
      case AnswerPart::Kind::arguments: answer.calls += part.text; break;
    }
  }
}

/// A token's logprobs as AnswerReader keeps them. `offset`: bytes of the text before it.
std::string logprobs_text(const EndpointRequest& request, const Request& choice, const PlainRun& run, std::size_t i,
                          std::size_t offset, const Tokenizer* tokenizer) {
  const std::string bytes = bytes_of(tokenizer, run.output[i]);
  const std::span<const TokenLogprob> top(
      run.top_logprobs[i].data(),
      std::min<std::size_t>(run.top_logprobs[i].size(), static_cast<std::size_t>(choice.top_logprobs)));
  AnswerJson kept = {{"logprob", run.logprobs[i]}};
  if (request.chat) {
    kept["bytes"] = list_of_bytes(bytes);
    kept["top"] = AnswerJson::array();
    for (const TokenLogprob& other : top) {
      kept["top"].push_back({{"logprob", other.logprob}, {"bytes", list_of_bytes(bytes_of(tokenizer, other.token))}});
    }
  } else {
    kept["text"] = bytes;
    kept["offset"] = offset;
    kept["top"] = AnswerJson::object();
    for (const TokenLogprob& other : top) kept["top"][bytes_of(tokenizer, other.token)] = other.logprob;
  }
  return text_of_json(told(kept));
}

/// What the server says of the tokens of a prompt, as AnswerReader keeps it: nothing of the first.
std::vector<std::string> plain_prompt_logprobs(const Request& choice, Model& target, const Tokenizer* tokenizer) {
  const std::span<const Token> prompt = choice.prompt;
  GrowingText text(target, static_cast<int>(prompt.size()), choice.context_shift);
  std::vector<std::string> places = {text_of_json(AnswerJson::object())};
  for (std::size_t read = 1; read < prompt.size(); ++read) {
    const PromptLogprob row = prompt_logprob(text.logits_after(prompt.first(read)), prompt[read], choice.top_logprobs);
    AnswerJson place = AnswerJson::object();
    const auto add = [&](const TokenLogprob& one, int rank) {
      const std::string id = std::to_string(one.token);
      if (place.contains(id)) return;
      place[id] = {{"logprob", one.logprob}, {"rank", rank}, {"text", bytes_of(tokenizer, one.token)}};
    };
    add({prompt[read], row.logprob}, row.rank);
    int rank = 0;
    for (const TokenLogprob& one : row.top) add(one, ++rank);
    places.push_back(text_of_json(told(place)));
  }
  return places;
}

/// Returns how many tokens the output has until its text contains a stop string: all when it never does.
std::size_t tokens_to_stop(const std::vector<Token>& output, const EndpointRequest& request, const Tokenizer* tokenizer,
                           bool& stopped) {
  std::string bytes;
  for (std::size_t i = 0; !request.stop_strings.empty() && i < output.size(); ++i) {
    const bool shown = std::ranges::find(request.shown, output[i]) != request.shown.end();
    tokenizer->append_bytes(output[i], !shown, bytes);
    stopped = std::ranges::any_of(request.stop_strings,
                                  [&](const std::string& stop) { return bytes.find(stop) != std::string::npos; });
    if (stopped) return i + 1;
  }
  return output.size();
}

/// `max`: new tokens, at most. `to_end`: the text is that of a choice that has ended.
PlainAnswer plain_answer(const EndpointRequest& request, Request choice, int max, bool to_end, Model& target,
                         const Tokenizer* tokenizer) {
  constexpr int fresh_rows = 1;  // all others continue a cache
  choice.max_new_tokens = max;
  PhiloxSource random(request.seed);
  const PlainRun run = plain(target, choice, random, fresh_rows);
  bool stopped = false;
  const std::size_t length = tokens_to_stop(run.output, request, tokenizer, stopped);
  PlainAnswer answer;
  answer.tokens.assign(run.output.begin(), run.output.begin() + static_cast<std::ptrdiff_t>(length));
  answer.finish = name_of(stopped ? Finish::stop : run.finish);
  const StopStrings stops(request.stop_strings);
  std::optional<TextStream> stream;
  if (tokenizer != nullptr) stream.emplace(*tokenizer, stops, false, TextPlace::continuation);
  const auto reader = PartReader::open(request.format, request.terms);
  std::string before;
  for (std::size_t i = 0; i < length; ++i) {
    const Token token = answer.tokens[i];
    answer.token_texts.push_back(told(bytes_of(tokenizer, token)).get<std::string>());
    if (choice.logprobs) {
      answer.logprobs.push_back(logprobs_text(request, choice, run, i, before.size(), tokenizer));
    }
    if (!stream || choice.stops_at(token)) continue;
    const bool shown = !tokenizer->is_special(token) || std::ranges::find(request.shown, token) != request.shown.end();
    if (shown) take(reader->push(stream->push(token)), answer);
    tokenizer->append_bytes(token, true, before);
  }
  if (stream && to_end) take(reader->push(stream->finish()), answer);
  if (to_end) take(reader->finish(), answer);
  const bool whole = !answer.calls.empty() && !stopped && !reader->cut_off();
  if (whole && answer.finish == name_of(Finish::stop)) answer.finish = "tool_calls";
  return answer;
}

/// The first place where two lists differ; as long as both are when they do not.
template <class Value>
std::size_t first_difference(const std::vector<Value>& a, const std::vector<Value>& b) {
  const auto [in_a, in_b] = std::mismatch(a.begin(), a.end(), b.begin(), b.end());
  return static_cast<std::size_t>(in_a - a.begin());
}

template <class Value>
bool differ_at(const std::vector<Value>& a, const std::vector<Value>& b, std::size_t place) {
  return place < a.size() || place < b.size();
}

std::string named(const std::vector<Token>& tokens, std::size_t place, const Tokenizer* tokenizer) {
  if (place >= tokens.size()) return "the end";
  if (tokenizer == nullptr || tokens[place] < 0) return std::to_string(tokens[place]);
  return fmt::format("{} {}", tokens[place], in_quotes(bytes_of(tokenizer, tokens[place])));
}

std::string nth(const std::vector<std::string>& texts, std::size_t place) {
  return place < texts.size() ? printable(texts[place], 400) : "nothing";
}

}  // namespace

std::optional<EndpointDivergence> find_divergence(const EndpointRequest& request, const ReceivedAnswer& answer,
                                                  std::size_t choice, Model& target, const Tokenizer* tokenizer) {
  const ReceivedChoice& received = answer.choices[choice];
  const bool begins_only = answer.cancelled && received.finish.empty();
  const Request& asked = request.choices[choice];
  const int max =
      begins_only ? std::min(asked.max_new_tokens, static_cast<int>(received.tokens.size())) : asked.max_new_tokens;
  if (max == 0 && begins_only) return std::nullopt;
  const PlainAnswer expected = plain_answer(request, asked, max, !begins_only, target, tokenizer);
  EndpointDivergence found{request.number, static_cast<int>(choice), -1, "", "", ""};
  const auto differ = [&](const std::string& what, std::ptrdiff_t place, std::string right, std::string wrong) {
    found.what = what;
    found.place = static_cast<int>(place);
    found.expected = std::move(right);
    found.received = std::move(wrong);
    return found;
  };
  const auto differ_in = [&](const std::string& what, const std::vector<std::string>& right,
                             const std::vector<std::string>& wrong) -> std::optional<EndpointDivergence> {
    const std::size_t place = first_difference(right, wrong);
    if (!differ_at(right, wrong, place)) return std::nullopt;
    return differ(what, static_cast<std::ptrdiff_t>(place), nth(right, place), nth(wrong, place));
  };
  if (const std::size_t place = first_difference(expected.tokens, received.tokens);
      differ_at(expected.tokens, received.tokens, place)) {
    return differ("token", static_cast<std::ptrdiff_t>(place), named(expected.tokens, place, tokenizer),
                  named(received.tokens, place, tokenizer));
  }
  if (!begins_only && expected.finish != received.finish) {
    return differ("finish reason", -1, expected.finish, received.finish.empty() ? "none" : received.finish);
  }
  if (auto logprobs = differ_in("logprobs", expected.logprobs, received.logprobs)) return logprobs;
  if (asked.prompt_logprobs && !begins_only) {
    const std::vector<std::string> right = plain_prompt_logprobs(asked, target, tokenizer);
    if (auto logprobs = differ_in("logprobs of the prompt", right, received.prompt_logprobs)) return logprobs;
  }
  if (auto texts = differ_in("text of the token", expected.token_texts, received.token_texts)) return texts;
  if (expected.text != received.text) {
    return differ("text", -1, in_quotes(expected.text), in_quotes(received.text));
  }
  if (expected.thought != received.thought) {
    return differ("thoughts", -1, in_quotes(expected.thought), in_quotes(received.thought));
  }
  if (expected.calls != received.calls) {
    return differ("calls of tools", -1, in_quotes(expected.calls), in_quotes(received.calls));
  }
  if (!request.speculative && received.drafted > 0) {
    return differ("number of draft tokens", -1, "0, because speculative is false", std::to_string(received.drafted));
  }
  return std::nullopt;
}

std::optional<EndpointDivergence> find_divergence(const EndpointRequest& request, const ReceivedAnswer& answer) {
  const auto differ = [&](const std::string& what, std::string expected, std::string received) {
    return EndpointDivergence{request.number, -1, -1, what, std::move(expected), std::move(received)};
  };
  if (!answer.error.empty()) return differ("answer", "that of plain decoding", "the error: " + answer.error);
  std::size_t prompt_tokens = 0;
  const std::size_t each = request.choices.size() / static_cast<std::size_t>(request.prompts);
  for (std::size_t i = 0; i < request.choices.size(); i += each) {
    prompt_tokens += request.choices[i].prompt.size();
  }
  if (answer.prompt_tokens >= 0 && static_cast<std::size_t>(answer.prompt_tokens) != prompt_tokens) {
    return differ("number of prompt tokens", std::to_string(prompt_tokens), std::to_string(answer.prompt_tokens));
  }
  if (answer.cancelled) return std::nullopt;
  std::size_t tokens = 0;
  for (const ReceivedChoice& choice : answer.choices) tokens += choice.tokens.size();
  if (answer.completion_tokens >= 0 && static_cast<std::size_t>(answer.completion_tokens) != tokens) {
    return differ("number of tokens in `usage`", std::to_string(tokens), std::to_string(answer.completion_tokens));
  }
  if (!answer.ended) return differ("end of the stream", "[DONE]", "nothing");
  return std::nullopt;
}

}  // namespace draftproof
