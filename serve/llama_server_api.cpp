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

  std::string end_of_stream() override { return failure() ? "" : event(answer(0, "")); }

  /// Of several prompts or choices a list.
  std::string whole() const override {
    if (choices() == 1) return text_of(answer(0, told(0).text));
    auto list = ForeignJson::array();
    for (std::size_t i = 0; i < choices(); ++i) list.push_back(answer(i, told(i).text));
    return text_of(list);
  }

 private:
  using Clock = std::chrono::steady_clock;

  static std::string event(const ForeignJson& json) { return "data: " + text_of(json) + "\n\n"; }

  ForeignJson answer(std::size_t choice, const std::string& text) const {
    const ToldChoice& one = told(choice);
    const char* const type = one.ended ? "word" : one.finish == "length" ? "limit" : "eos";
    const auto milliseconds = [](Clock::time_point from, Clock::time_point to) {
      return std::chrono::duration<double, std::milli>(to - from).count();
    };
    const Clock::time_point end = Clock::now();
    return {{"index", choice},
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
              {"prompt_ms", milliseconds(begun_, first_)},
              {"predicted_n", usage().completion_tokens},
              {"predicted_ms", milliseconds(first_, end)},
              {"draft_n", usage().drafted},
              {"draft_n_accepted", usage().accepted}}}};
  }

  std::string tell(const News& news) override {
    if (first_ == begun_) first_ = Clock::now();
    if (!request_.stream || news.text.empty()) return "";
    return event({{"index", news.choice}, {"content", news.text}, {"stop", false}});
  }
  std::string tell_failure() override {
    return request_.stream ? event(ForeignJson::parse(openai_error(*failure(), 500))) : "";
  }

  Clock::time_point begun_ = Clock::now();
  Clock::time_point first_ = begun_;
};

std::unique_ptr<AnswerWriter> llama_server_writer(const CompletionRequest& request, const ServedModel& model,
                                                  const std::string& id, const std::string&) {
  return std::make_unique<LlamaServerWriter>(request, model, id);
}

}  // namespace

const Api llama_server_completions = {.read = read_completion, .writer = llama_server_writer, .error = openai_error};

std::string llama_server_props_json(const ServedModel& model) {
  return text_of({{"default_generation_settings", {{"n_ctx", model.context}}},
                  {"model_path", model.name},
                  {"chat_template", model.chat != nullptr ? model.chat->source(false) : ""},
                  {"modalities", {{"vision", false}, {"audio", false}}},
                  {"build_info", "draftproof " + model.fingerprint}});
}

}  // namespace draftproof::serve
