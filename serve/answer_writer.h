// SPDX-License-Identifier: MIT
// What every API's writer of answers has in common: it takes in what was decoded and knows each choice as far as it was
// told. How that is told is the writer's own: openai_writer.h, and one file for each other API.
#pragma once

#include <chrono>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "serve/completion_request.h"
#include "serve/token_stream.h"

namespace draftproof::serve {

/// What an answer took.
struct Usage {
  int prompt_tokens = 0;
  int cached_tokens = 0;  // of these, found in the prefix cache
  int completion_tokens = 0;
  int thought_tokens = 0;  // of these, up to the end of thoughts
  int drafted = 0;
  int accepted = 0;
  int accepted_prediction = 0;  // of these two, those of the request's prediction
  int rejected_prediction = 0;
  int rounds_beyond_draft = 0;
  std::string draft_remark = {};  // why no draft tokens pay; empty: they do
};

struct ToldCall {
  std::string id;
  std::string name;
  std::string arguments;  // JSON, as the model wrote it
};

/// A part of an answer; `call`: the number of the call that it is part of. That of a completion is content.
struct ToldPart {
  AnswerPart::Kind kind;
  std::string text;
  std::size_t call;
};

/// One choice, as far as it was told.
struct ToldChoice {
  std::string text;     // the content
  std::string thought;  // what the model thought before it, if the request wants to know
  std::vector<ToldCall> calls;
  std::vector<ToldPart> items;       // in order: thoughts, content, and calls with their names
  std::string finish;                // stop, length, ...; empty: it has not ended
  std::optional<std::string> ended;  // the stop string that ended it
};

class AnswerWriter {
 public:
  /// Everything outlives the writer. `id`: of the request.
  AnswerWriter(const CompletionRequest& request, const ServedModel& model, std::string id);
  virtual ~AnswerWriter();
  AnswerWriter(const AnswerWriter&) = delete;
  AnswerWriter& operator=(const AnswerWriter&) = delete;

  /// Takes in an event of the answer. Returns what a stream says of it.
  std::string take(const StreamEvent& event);
  /// Returns what ends a stream.
  virtual std::string end_of_stream() = 0;
  /// Returns the whole answer, once every choice has ended.
  virtual std::string whole() const = 0;

  /// Why a choice failed; nullopt: none did.
  const std::optional<std::string>& failure() const noexcept { return failure_; }
  const Usage& usage() const noexcept { return usage_; }

 protected:
  /// What came with an event; it is part of the choice by now.
  struct News {
    int choice;
    const std::vector<PromptLogprob>* prompt;  // nullptr: none
    const StreamRound* round;                  // nullptr: none
    std::vector<ToldPart> parts;
    std::string text() const;  // of the content
  };
  virtual std::string tell(const News& news) = 0;
  virtual std::string tell_failure() = 0;

  std::size_t choices() const noexcept { return choices_.size(); }
  const ToldChoice& told(std::size_t choice) const;

  using Clock = std::chrono::steady_clock;
  Clock::time_point begun() const noexcept { return begun_; }
  /// When its first token came; begun() as long as there was none.
  Clock::time_point first() const noexcept { return first_; }

  const CompletionRequest& request_;
  const ServedModel& model_;
  const std::string id_;

 private:
  struct Choice;
  std::vector<std::unique_ptr<Choice>> choices_;
  std::optional<std::string> failure_;
  Usage usage_;
  Clock::time_point begun_ = Clock::now();
  Clock::time_point first_ = begun_;
};

}  // namespace draftproof::serve
