// SPDX-License-Identifier: MIT
// llama-server's /completion: fields are those of a completion (request_fields.h has its names), answers its own.
#include "serve/llama_server_api.h"

#include <chrono>
#include <nlohmann/json.hpp>

#include "serve/foreign_json.h"
#include "serve/openai_writer.h"

namespace draftproof::serve {
namespace {

class LlamaServerWriter final : public AnswerWriter {
 public:
  LlamaServerWriter(const CompletionRequest& request, const ServedModel& model, const std::string& id)
      : AnswerWriter(request, model, id) {}

  std::string end_of_stream() override { return failure() ? "" : event(answer("")); }
  std::string whole() const override { return text_of(answer(told(0).text)); }

 private:
  static std::string event(const ForeignJson& json) { return "data: " + text_of(json) + "\n\n"; }

  ForeignJson answer(const std::string& text) const {
    const ToldChoice& one = told(0);
    const char* const type = one.ended ? "word" : one.finish == "length" ? "limit" : "eos";
    const auto milliseconds = [](Clock::time_point from, Clock::time_point to) {
      return std::chrono::duration<double, std::milli>(to - from).count();
    };
    const Clock::time_point end = Clock::now();
    return {{"index", 0},
            {"content", text},
            {"stop", true},
            {"model", model_.name},
            {"tokens_predicted", usage().completion_tokens},
            {"tokens_evaluated", usage().prompt_tokens},
            {"tokens_cached", usage().cached_tokens},
            {"truncated", false},
            {"stop_type", type},
            {"stopping_word", one.ended.value_or("")},
            {"generation_settings", {{"seed", request_.job.seed}}},
            {"timings",
             {{"prompt_n", usage().prompt_tokens - usage().cached_tokens},
              {"prompt_ms", milliseconds(begun(), first())},
              {"predicted_n", usage().completion_tokens},
              {"predicted_ms", milliseconds(first(), end)},
              {"draft_n", usage().drafted},
              {"draft_n_accepted", usage().accepted}}}};
  }

  std::string tell(const News& news) override {
    const std::string text = news.text();
    if (!request_.stream || text.empty()) return "";
    return event({{"index", news.choice}, {"content", text}, {"stop", false}});
  }
  std::string tell_failure() override {
    return request_.stream ? event(ForeignJson::parse(openai_error(*failure(), 500))) : "";
  }
};

/// One prompt, and a number of tokens that may be -1, for as many as the server gives.
CompletionRequest read_llama_server(const std::string& body, const ServedModel& model) {
  const Json request = parse_foreign(body);
  for (const char* const field : {"logprobs", "prompt_logprobs", "echo", "return_tokens", "n"}) {
    if (const auto value = request.find(field)) value->fail("is told by /v1/completions, not here; leave it out");
  }
  const Json prompt = request.at("prompt");
  if (prompt.is_array() && prompt.size() > 1 && !prompt[0].is_number()) prompt.fail("has several texts; ask for one");
  ForeignJson completion = foreign(request);
  const auto count = request.find("n_predict");
  if (count && count->is_number() && count->number() < 0) completion.erase("n_predict");
  return read_completion(completion.dump(), model);
}

std::unique_ptr<AnswerWriter> llama_server_writer(const CompletionRequest& request, const ServedModel& model,
                                                  const std::string& id, const std::string&) {
  return std::make_unique<LlamaServerWriter>(request, model, id);
}

}  // namespace

const Api llama_server_completions = {.read = read_llama_server, .writer = llama_server_writer, .error = openai_error};

std::string llama_server_props_json(const ServedModel& model) {
  return text_of({{"default_generation_settings", {{"n_ctx", model.context}}},
                  {"model_path", model.name},
                  {"chat_template", model.chat != nullptr ? model.chat->source(false) : ""},
                  {"modalities", {{"vision", false}, {"audio", false}}},
                  {"build_info", "draftproof " + model.fingerprint}});
}

std::string llama_server_slots_json(const ServedModel& model, int parallel, int running) {
  auto slots = ForeignJson::array();
  for (int id = 0; id < parallel; ++id) {
    slots.push_back({{"id", id},
                     {"n_ctx", model.context},
                     {"speculative", model.draft != "none"},
                     {"is_processing", id < running}});
  }
  return text_of(slots);
}

}  // namespace draftproof::serve
