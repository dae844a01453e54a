// SPDX-License-Identifier: MIT
// Bodies of requests of every API; the first byte of an input chooses the API. What is accepted can be decoded, and
// what is refused is refused in a sentence that the API can send.
#include <nlohmann/json.hpp>
#include <stdexcept>
#include <string>
#include <vector>

#include "ref/chat/chat_template.h"
#include "ref/formats/checkpoint.h"
#include "serve/api.h"
#include "serve/completion_request.h"
#include "tests/fuzz/request_json.h"
#include "tests/fuzz/target.h"

namespace draftproof::serve::request_target {

const Api* const apis[] = {&openai_completions,       &openai_chats, &openai_responses, &anthropic_messages,
                           &llama_server_completions, &ollama_chats, &ollama_generates};

/// The shipped model, without its weights.
const ServedModel& served() {
  static const std::string folder = (fuzz::fixtures() / "models" / "tale-target").string();
  static const Tokenizer tokenizer = Tokenizer::load(folder);
  static const auto chat = ChatTemplate::find(Checkpoint(folder));
  static const ServedModel model = [] {
    ServedModel of;
    of.name = "tale";
    of.tokenizer = &tokenizer;
    of.chat = chat ? &*chat : nullptr;
    of.vocabulary = static_cast<int>(tokenizer.vocabulary());
    of.tokens = std::make_shared<const TokenTrie>(tokenizer, of.vocabulary);
    of.context = 1024;
    of.max_new_tokens = 40;
    return of;
  }();
  return model;
}

bool run(const std::string& input) {
  if (input.empty()) return false;
  const Api& api = *apis[static_cast<unsigned char>(input[0]) % std::size(apis)];
  const std::string body = input.substr(1);
  try {
    if (api.at_once != nullptr && api.at_once(body, served())) return true;
    const CompletionRequest request = api.read(body, served());
    if (request.job.choices.empty()) throw std::runtime_error("a request without a choice was accepted");
    return true;
  } catch (const Error& error) {
    if (nlohmann::json::parse(api.error(error.what(), 400), nullptr, false).is_discarded()) {
      throw std::runtime_error(std::string("an error is not JSON: ") + error.what());
    }
    return false;
  }
}

std::vector<std::string> seeds() {
  const std::pair<int, const char*> bodies[] = {
      {1, R"({"messages":[{"role":"user","content":"hi"}],"tools":[{"type":"function")"
          R"(,"function":{"name":"f","parameters":)"
          R"({"type":"object","properties":{"a":{"type":"string"}}},"strict":true}}],"tool_choice":"required"})"},
      {2, R"({"input":[{"role":"user","content":"hi"}],"instructions":"x","text":{"format":{"type":"json_object"}}})"},
      {3, R"({"model":"m","max_tokens":4,"system":"x","messages":[{"role":"user")"
          R"(,"content":[{"type":"text","text":"hi"}]}],)"
          R"("tools":[{"name":"f","input_schema":{"type":"object"}}],"tool_choice":{"type":"any"}})"},
      {4, R"({"prompt":"a","n_predict":3,"samplers":["top_k","temperature"],"mirostat":2,"dry_multiplier":0.5})"},
      {5, R"({"model":"m","messages":[{"role":"user","content":"hi"}],"options":{"num_predict":3)"
          R"(,"seed":4},"format":"json"})"},
      {6, R"({"model":"m","prompt":"hi","raw":true,"options":{"stop":["a"],"min_p":0.1}})"}};
  std::vector<std::string> all;
  for (const std::string& body : completion_bodies) all.push_back('\0' + body);
  for (const std::string& body : chat_bodies) all.push_back('\1' + body);
  for (const auto& [api, body] : bodies) all.push_back(std::string(1, static_cast<char>(api)) + body);
  return all;
}

void change(std::string& body, const std::string& other, Numbers& numbers) {
  if (numbers.below(2) == 0) damage(body, other, numbers);
  else replace_value(body, numbers);
}

}  // namespace draftproof::serve::request_target

namespace draftproof::fuzz {

const Target request = {"request", serve::request_target::run, serve::request_target::seeds,
                        serve::request_target::change};

}  // namespace draftproof::fuzz
