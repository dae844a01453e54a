// SPDX-License-Identifier: MIT
// The conversation of a chat's request: messages, tools, and what its answer may consist of.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "ref/answers/answer_grammar.h"
#include "ref/answers/part_reader.h"
#include "ref/formats/json.h"
#include "serve/completion_request.h"

namespace draftproof::serve {

/// The text of a message or a prediction: a string, or a list of parts of text.
std::string read_content(const Json& message);
/// Whether the chat template of a model knows a variable, for example enable_thinking.
bool names_variable(const ServedModel& model, std::string_view name);

/// A chat as it was asked.
struct ChatRequest {
  std::vector<Token> prompt;
  AnswerFormat format;
  AnswerTerms terms;  // of the reader of its answer
  CallTerms calls;    // of the grammar of its answer
};

/// Reads messages, tools, tool_choice, parallel_tool_calls, reasoning_effort and chat_template_kwargs. A template that
/// knows no tools is given them in a system message, with calls as Hermes writes them.
ChatRequest read_conversation(const Json& json, const ServedModel& model);

}  // namespace draftproof::serve
