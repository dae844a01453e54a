// SPDX-License-Identifier: MIT
// Bodies of requests of every API, and of what counts and names tokens; the first byte of an input chooses the reader,
// and for an API whether the model's chat template knows tools and thinking. What is accepted can be decoded, and what
// is refused is refused in a sentence that the API can send.
#include <memory>
#include <nlohmann/json.hpp>
#include <stdexcept>
#include <string>
#include <vector>

#include "ref/chat/chat_template.h"
#include "ref/formats/checkpoint.h"
#include "ref/formats/json.h"
#include "serve/anthropic_api.h"
#include "serve/api.h"
#include "serve/completion_request.h"
#include "serve/response_store.h"
#include "tests/fuzz/request_json.h"
#include "tests/fuzz/target.h"

namespace draftproof::serve::request_target {

const Api* const apis[] = {&openai_completions,       &openai_chats, &openai_responses, &anthropic_messages,
                           &llama_server_completions, &ollama_chats, &ollama_generates};

/// A store with one response, "r".
const ResponseStore& store() {
  static const auto one = [] {
    auto empty = std::make_unique<ResponseStore>(1 << 20, 1 << 14);
    empty->add(R"({"input":"a"})",
               R"({"id":"r","output":[{"role":"assistant","content":[{"type":"output_text","text":"b"}]}]})", 0);
    return empty;
  }();
  return *one;
}

/// Readers of bodies that ask for no completion, or go on with a response. They are chosen by the bytes behind those
/// for the APIs.
using Reader = void (*)(const std::string&, const ServedModel&);
const Reader readers[] = {
    [](const std::string& body, const ServedModel& model) { read_tokenize(body, model); },
    [](const std::string& body, const ServedModel& model) { read_detokenize(body, model); },
    [](const std::string& body, const ServedModel& model) { count_tokens_json(body, model); },
    [](const std::string& body, const ServedModel& model) { openai_responses.read(store().resolve(body, 0), model); },
};
constexpr std::size_t first_reader = 2 * std::size(apis);

/// The shipped model, without its weights; or the same with the template of Qwen 3.
const ServedModel& served(bool knows_tools) {
  static const std::string folder = (fuzz::fixtures() / "models" / "tale-target").string();
  static const Tokenizer tokenizer = Tokenizer::load(folder);
  static const auto own = ChatTemplate::find(Checkpoint(folder));
  static const std::string file = (fuzz::fixtures() / "external" / "chat-templates" / "qwen-3.template.json").string();
  static const ChatTemplate other(Json::read(file).at("template").string(), file, jinja::Dict());
  static const auto with = [](const ChatTemplate* chat) {
    ServedModel of;
    of.name = "tale";
    of.tokenizer = &tokenizer;
    of.chat = chat;
    of.vocabulary = static_cast<int>(tokenizer.vocabulary());
    of.tokens = std::make_shared<const TokenTrie>(tokenizer, of.vocabulary);
    of.context = 1024;
    of.max_new_tokens = 40;
    return of;
  };
  static const ServedModel models[] = {with(own ? &*own : nullptr), with(&other)};
  return models[knows_tools ? 1 : 0];
}

bool run(const std::string& input) {
  if (input.empty()) return false;
  const auto choice = static_cast<unsigned char>(input[0]);
  const Api& api = *apis[choice % std::size(apis)];
  const ServedModel& model = served(choice / std::size(apis) % 2 == 1);
  const std::string body = input.substr(1);
  try {
    if (choice >= first_reader) {
      readers[(choice - first_reader) % std::size(readers)](body, model);
      return true;
    }
    if (api.at_once != nullptr && api.at_once(body, model)) return true;
    const CompletionRequest request = api.read(body, model);
    if (request.job.choices.empty()) throw std::runtime_error("a request without a choice was accepted");
    return true;
  } catch (const Error& error) {
    if (nlohmann::json::parse(api.error(error.what(), 400), nullptr, false).is_discarded()) {
      throw std::runtime_error(std::string("an error is not JSON: ") + error.what());
    }
    return false;
  }
}

/// Bodies for the APIs, by their place in `apis`. Together with those of request_json.h they have all fields that are
/// obeyed but `reasoning_effort`, which neither template knows, and all are accepted.
const std::pair<std::size_t, const char*> bodies[] = {
    {0, R"({"prompt":["a b",[5,6]],"echo":true,"logprobs":3,"max_tokens":3,"stop_token_ids":[2],"ignore_eos":true,)"
        R"("dry_multiplier":0.8,"dry_sequence_breakers":["\n"],"xtc_probability":0.5,"xtc_threshold":0.1,"nsigma":1})"},
    {0, R"({"prompt":"a","min_tokens":2,"bad_words":["the","a b"],"guided_json":{"type":"array","items":{}},)"
        R"("logit_bias":{"5":-1.5,"7":100},"dynatemp_range":0.5,)"
        R"("adaptive_target":0.5,"adaptive_decay":0.8,"parse_special":false})"},
    {0, R"({"prompt":"a","presence_penalty":0.5,"frequency_penalty":-0.5,"repetition_penalty":1.1,"speculative":false,)"
        R"("top_n_sigma":1,"typical_p":0.9,"dynatemp_range":0.2,"dynatemp_exponent":2,"cache_salt":"s",)"
        R"("dry_multiplier":0.5,"dry_base":1.5,"dry_allowed_length":3,"dry_penalty_last_n":8})"},
    {0, R"({"prompt":"a","structured_outputs":{"choice":["p","q"]},"prediction":{"type":"content","content":"b"},)"
        R"("samplers":"transformers"})"},
    {1, R"({"messages":[{"role":"user","content":"hi"}],"tools":[{"type":"function")"
        R"(,"function":{"name":"f","parameters":)"
        R"({"type":"object","properties":{"a":{"type":"string"}}},"strict":true}}],"tool_choice":"required"})"},
    {1, R"({"messages":[{"role":"system","content":"s"},{"role":"user","name":"u",)"
        R"("content":[{"type":"text","text":"x"}]},)"
        R"({"role":"assistant","reasoning_content":"r","content":null,"tool_calls":[{"id":"1","type":"function",)"
        R"("function":{"name":"f","arguments":"{\"a\":[1,{}]}"}},{"function":{"name":"g","arguments":{"b":true}}}]},)"
        R"({"role":"tool","tool_call_id":"1","name":"f","content":"5"}],"tools":[{"type":"function","function":)"
        R"({"name":"f","description":"d","parameters":{"type":"object","properties":{"a":{"type":"array"}}}}},)"
        R"({"type":"function","function":{"name":"g"}}],"tool_choice":{"type":"function","function":{"name":"g"}},)"
        R"("parallel_tool_calls":false,"logprobs":true,"top_logprobs":2,"prompt_logprobs":2})"},
    {1, R"({"messages":[{"role":"developer","content":"s"},{"role":"user","content":"a"},)"
        R"({"role":"assistant","content":" b "}],"continue_final_message":true,"include_reasoning":false,)"
        R"("chat_template_kwargs":{"enable_thinking":false,"x":[null,1.5,{"y":"z"}]},"thinking_budget_tokens":9})"},
    {1,
     R"({"messages":[{"role":"user","content":"a"}],"sampler_order":[6,0,1,3,4,2,5],"reasoning_format":"none","n":3,)"
     R"("response_format":{"type":"json_object"},"add_generation_prompt":true,"stop":"x","min_p":0.1,"seed":-1})"},
    {2, R"({"input":[{"role":"user","content":"hi"}],"instructions":"x","text":{"format":{"type":"json_object"}}})"},
    {2, R"({"input":[{"type":"message","role":"user","content":[{"type":"input_text","text":"a"}]},)"
        R"({"type":"reasoning","content":[{"type":"reasoning_text","text":"r"}],"summary":[]},)"
        R"({"type":"function_call","call_id":"1","name":"f","arguments":"{}","status":"completed"},)"
        R"({"type":"function_call_output","call_id":"1","output":[{"type":"output_text","text":"5"}]},)"
        R"({"role":"assistant","content":[{"type":"output_text","text":"b"}],"id":"m"}],"include":)"
        R"(["reasoning.encrypted_content"],"truncation":"disabled","reasoning":{"summary":"auto"},)"
        R"("tools":[{"type":"function","name":"f","description":"d","parameters":{"type":"object"},"strict":true}],)"
        R"("tool_choice":{"type":"function","name":"f"},"store":false,"max_output_tokens":3,"top_p":0.5})"},
    {2, R"({"input":"hi","text":{"verbosity":"medium","format":{"type":"json_schema","name":"n","schema":)"
        R"({"type":"object","properties":{"a":{"type":"number"}},"additionalProperties":false}}},"seed":1})"},
    {3, R"({"model":"m","max_tokens":4,"system":"x","messages":[{"role":"user")"
        R"(,"content":[{"type":"text","text":"hi"}]}],)"
        R"("tools":[{"name":"f","input_schema":{"type":"object"}}],"tool_choice":{"type":"any"}})"},
    {3,
     R"({"model":"m","max_tokens":4,"system":[{"type":"text","text":"s"}],"messages":[{"role":"user","content":"a"},)"
     R"({"role":"assistant","content":[{"type":"thinking","thinking":"t","signature":"s"},)"
     R"({"type":"redacted_thinking","data":"d"},{"type":"text","text":"b"},)"
     R"({"type":"tool_use","id":"1","name":"f","input":{"a":1}}]},{"role":"user","content":[)"
     R"({"type":"tool_result","tool_use_id":"1","is_error":true,"content":[{"type":"text","text":"5"}]},)"
     R"({"type":"text","text":"c"}]},{"role":"assistant","content":"d"}],"tools":[{"type":"custom","name":"f",)"
     R"("description":"d","strict":true,"input_schema":{"type":"object","properties":{"a":{"type":"integer"}}}}],)"
     R"("tool_choice":{"type":"tool","name":"f","disable_parallel_tool_use":true},"stop_sequences":["x"],)"
     R"("thinking":{"type":"enabled","budget_tokens":20,"display":"omitted"},"top_k":5,"stream":true})"},
    {4, R"({"prompt":"a","n_predict":3,"samplers":["top_k","temperature"],"mirostat":2,"dry_multiplier":0.5})"},
    {4, R"({"prompt":[5,6],"json_schema":{"enum":[1,"b",null]},"n_probs":0,"cache_prompt":true,"id_slot":-1,)"
        R"("repeat_last_n":-1,"t_max_predict_ms":0,"mirostat":2,"mirostat_tau":3,"mirostat_eta":0.2,"typ_p":0.9})"},
    {5, R"({"model":"m","messages":[{"role":"user","content":"hi"}],"options":{"num_predict":3)"
        R"(,"seed":4},"format":"json"})"},
    {5, R"({"model":"m","messages":[{"role":"user","content":"a"},{"role":"assistant","thinking":"t","tool_calls":)"
        R"([{"function":{"name":"f","arguments":{"a":1}}}]},{"role":"tool","tool_name":"f","content":"5"}],)"
        R"("tools":[{"type":"function","function":{"name":"f","parameters":{"type":"object"}}}],"think":true,)"
        R"("format":{"type":"object","required":["a"]},"stream":false,"keep_alive":"5m",)"
        R"("options":{"stop":["x"],"num_ctx":64,"tfs_z":1,"mirostat":0,"num_predict":-1}})"},
    {5, R"({"model":"m","messages":[],"keep_alive":0})"},
    {6, R"({"model":"m","prompt":"hi","raw":true,"options":{"stop":["a"],"min_p":0.1}})"},
    {6, R"({"model":"m","prompt":"a","system":"s","think":false,"format":{"type":"string","pattern":"^a+$"}})"},
};

/// Bodies for the readers, by their place.
const std::pair<std::size_t, const char*> other_bodies[] = {
    {0, R"({"content":"a b","add_special":true,"parse_special":false})"},
    {1, R"({"tokens":[5,6,7]})"},
    {2, R"({"model":"m","system":"x","messages":[{"role":"user","content":"hi"}],)"
        R"("tools":[{"name":"f","input_schema":{"type":"object"}}],"thinking":{"type":"enabled","budget_tokens":20}})"},
    {3, R"({"previous_response_id":"r","input":"hi"})"},
    {3, R"({"previous_response_id":"r","input":[{"role":"user","content":"hi"}],"max_output_tokens":3})"},
};

std::vector<std::string> seeds() {
  std::vector<std::string> all;
  for (const std::string& body : completion_bodies) all.push_back('\0' + body);
  for (const std::string& body : chat_bodies) all.push_back('\1' + body);
  for (const auto& [api, body] : bodies) {
    for (const std::size_t knows_tools : {0, 1}) {
      all.push_back(std::string(1, static_cast<char>(api + knows_tools * std::size(apis))) + body);
    }
  }
  for (const auto& [reader, body] : other_bodies) {
    all.push_back(std::string(1, static_cast<char>(first_reader + reader)) + body);
  }
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
