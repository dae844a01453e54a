// SPDX-License-Identifier: MIT
// An API that the server answers: how its requests are read, and how its answers and errors are written. All decode
// the same jobs, so what holds for an answer of one holds for those of all.
#pragma once

#include <memory>
#include <optional>
#include <string>

#include "serve/answer_writer.h"

namespace draftproof::serve {

struct Api {
  /// Reads the body of a request. Throws Error, with a sentence for the client.
  CompletionRequest (*read)(const std::string& body, const ServedModel& model);
  /// `body`: that of the request, for APIs that repeat some of it. Both outlive the writer.
  std::unique_ptr<AnswerWriter> (*writer)(const CompletionRequest& request, const ServedModel& model,
                                          const std::string& id, const std::string& body);
  std::string (*error)(const std::string& message, int status);
  const char* stream_type = "text/event-stream";
  /// The answer to a request that asks for no text; nullopt: to any other one. nullptr: there are none.
  std::optional<std::string> (*at_once)(const std::string& body, const ServedModel& model) = nullptr;
};

extern const Api openai_chats;
extern const Api openai_completions;
extern const Api openai_responses;  // /v1/responses
extern const Api anthropic_messages;
extern const Api llama_server_completions;  // /completion
extern const Api ollama_chats;              // /api/chat
extern const Api ollama_generates;          // /api/generate

}  // namespace draftproof::serve
