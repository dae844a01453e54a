// SPDX-License-Identifier: MIT
// What a request demands of the text of an answer, as one grammar: thoughts first, where a model has them, then what
// the answer is held to. The text before it is free, but for the mark that ends it.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "ref/answers/answer_format.h"
#include "ref/answers/written_call.h"
#include "ref/formats/json.h"
#include "ref/text/tokenizer.h"

namespace draftproof {

/// A tool that may be called.
struct Tool {
  std::string name;
  std::optional<Json> parameters = {};  // the schema of its arguments, an object; nullopt: it has none
  bool strict = false;                  // calls are held to it also where nothing forces one
};

/// The arguments of these tools, and values in them, that are texts, which some formats write as they are.
TextArguments text_arguments(const std::vector<Tool>& tools);

enum class CallChoice {
  none,    // no tool is called
  free,    // the model decides; a call of a strict tool, and one that has to be the only one, follows its schema
  forced,  // the answer is calls, one or more
};

struct CallTerms {
  std::vector<Tool> tools = {};
  CallChoice choice = CallChoice::none;
  bool several = true;  // calls in one answer
};

/// Returns GBNF, whose `root` is the whole answer; nullopt where anything is allowed. `content`: the grammar of what is
/// not thought, which calls exclude. Special tokens among the marks are those of the tokenizer. Throws Error, with a
/// sentence for who asks, for a schema of a tool that is strict or forced and that is none, or needs what is not
/// supported.
std::optional<std::string> answer_gbnf(const AnswerFormat& format, Thinking thinking, const CallTerms& calls,
                                       const std::optional<std::string>& content, const Tokenizer& tokenizer);

}  // namespace draftproof
