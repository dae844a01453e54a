// SPDX-License-Identifier: MIT
// Answers as the JSON of OpenAI's API, in a stream of chunks or as a whole.
#pragma once

#include <ctime>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "serve/completion_request.h"
#include "serve/token_stream.h"

namespace draftproof::serve {

/// OpenAI's error object. `type`: "invalid_request_error", "server_error", ...
std::string error_json(const std::string& message, const std::string& type);
/// The answers of /v1/models, /v1/models/ID, /tokenize and /detokenize.
std::string models_json(const ServedModel& model);
std::string model_json(const ServedModel& model);
std::string tokens_json(const std::vector<Token>& tokens);
std::string content_json(const std::string& content);

/// What an answer took.
struct Usage {
  int prompt_tokens = 0;
  int cached_tokens = 0;  // of these, found in the prefix cache
  int completion_tokens = 0;
  int drafted = 0;
  int accepted = 0;
  int accepted_prediction = 0;  // of these two, those of the request's prediction
  int rejected_prediction = 0;
  int rounds_beyond_draft = 0;
};

class ResponseWriter {
 public:
  /// Everything outlives the writer. `id`: of the request.
  ResponseWriter(const CompletionRequest& request, const ServedModel& model, const std::string& id);
  ~ResponseWriter();
  ResponseWriter(const ResponseWriter&) = delete;
  ResponseWriter& operator=(const ResponseWriter&) = delete;

  /// Takes in an event of the answer. In a stream, returns its chunk as a server-sent event.
  std::string take(const StreamEvent& event);
  /// Returns what ends a stream.
  std::string end_of_stream() const;
  /// Returns the whole answer, once every choice has ended.
  std::string whole() const;

  /// Why a choice failed; nullopt: none did.
  const std::optional<std::string>& failure() const noexcept { return failure_; }
  const Usage& usage() const noexcept { return usage_; }

 private:
  struct Choice;
  const CompletionRequest& request_;
  const ServedModel& model_;
  std::string id_;
  std::time_t created_;
  std::vector<std::unique_ptr<Choice>> choices_;
  std::optional<std::string> failure_;
  Usage usage_;
};

}  // namespace draftproof::serve
