// SPDX-License-Identifier: MIT
// Answers as the JSON of OpenAI's API, in a stream of chunks or as a whole.
#pragma once

#include <ctime>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "serve/api.h"

namespace draftproof::serve {

/// OpenAI's error object, for an answer with this status.
std::string openai_error(const std::string& message, int status);
/// The answers of /v1/models, /v1/models/ID, /tokenize and /detokenize.
std::string models_json(std::span<const ListedModel> models);
std::string model_json(const ListedModel& model);
std::string tokens_json(const std::vector<Token>& tokens);
std::string content_json(const std::string& content);

/// Of chats and completions.
class OpenAiWriter final : public AnswerWriter {
 public:
  OpenAiWriter(const CompletionRequest& request, const ServedModel& model, const std::string& id);
  ~OpenAiWriter() override;

  std::string end_of_stream() override;
  std::string whole() const override;

 private:
  std::string tell(const News& news) override;
  std::string tell_failure() override;

  struct Extras;
  std::time_t created_;
  std::vector<std::unique_ptr<Extras>> extras_;  // of the choices
};

}  // namespace draftproof::serve
