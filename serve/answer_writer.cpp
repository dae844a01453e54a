// SPDX-License-Identifier: MIT
#include "serve/answer_writer.h"

#include <algorithm>
#include <utility>

#include "ref/base/digest.h"

namespace draftproof::serve {
namespace {

/// Nine letters and digits, as the templates of Mistral demand. Calls of requests with different ids differ.
std::string call_id(const std::string& answer, int choice, std::size_t call) {
  constexpr std::size_t length = 9;
  Digest digest;
  digest.add_bytes(answer.data(), answer.size());
  digest.add(choice);
  digest.add(call);
  return digest.value().hex().substr(0, length);
}

}  // namespace

struct AnswerWriter::Choice {
  Choice(const CompletionRequest& request, const ServedModel& model) : request(request), model(model) {
    if (model.tokenizer != nullptr) {
      stream.emplace(*model.tokenizer, request.job.stops, false, TextPlace::continuation);
    }
  }

  /// The text that a token makes certain.
  std::string text_after(Token token, const std::vector<Token>& stops) {
    if (!stream || std::ranges::find(stops, token) != stops.end()) return "";
    const std::vector<Token>& shown = request.job.shown;
    const bool is_text = !model.tokenizer->is_special(token) || std::ranges::find(shown, token) != shown.end();
    return is_text ? stream->push(token) : "";
  }

  const CompletionRequest& request;
  const ServedModel& model;
  std::optional<TextStream> stream;
  std::unique_ptr<PartReader> reader = PartReader::open(request.format, request.terms);
  bool thinks = request.terms.thinking != Thinking::none && request.format.thoughts != nullptr;
  ToldChoice told;
};

AnswerWriter::AnswerWriter(const CompletionRequest& request, const ServedModel& model, std::string id)
    : request_(request), model_(model), id_(std::move(id)) {
  for (std::size_t i = 0; i < request.job.choices.size(); ++i) {
    choices_.push_back(std::make_unique<Choice>(request, model));
  }
  const auto each = choices_.size() / static_cast<std::size_t>(request.prompts);
  for (std::size_t i = 0; i < choices_.size(); i += each) {
    usage_.prompt_tokens += static_cast<int>(request.job.choices[i].prompt.size());
  }
}

AnswerWriter::~AnswerWriter() = default;

const ToldChoice& AnswerWriter::told(std::size_t choice) const { return choices_[choice]->told; }

std::string AnswerWriter::News::text() const {
  std::string content;
  for (const ToldPart& part : parts) {
    if (part.kind == AnswerPart::Kind::content) content += part.text;
  }
  return content;
}

std::string AnswerWriter::take(const StreamEvent& event) {
  Choice& choice = *choices_[static_cast<std::size_t>(event.choice)];
  News news = {event.choice, event.prompt ? &*event.prompt : nullptr, event.round ? &*event.round : nullptr, {}};
  std::vector<AnswerPart> parts;
  const auto add = [&](std::vector<AnswerPart> more) {
    for (AnswerPart& part : more) {
      const bool goes_on = !parts.empty() && parts.back().kind == part.kind && part.kind != AnswerPart::Kind::call;
      if (goes_on) parts.back().text += part.text;
      else parts.push_back(std::move(part));
    }
  };
  if (event.round) {
    if (first_ == begun_) first_ = Clock::now();
    const std::vector<Token>& stops = request_.job.choices[static_cast<std::size_t>(event.choice)].stops;
    for (const Token token : event.round->tokens) {
      add(choice.reader->push(choice.text_after(token, stops)));
      const auto is_thought = [](const AnswerPart& part) { return part.kind == AnswerPart::Kind::thought; };
      choice.thinks = choice.thinks && std::ranges::all_of(parts, is_thought);
      usage_.thought_tokens += choice.thinks ? 1 : 0;
    }
    usage_.completion_tokens += static_cast<int>(event.round->tokens.size());
    usage_.drafted += event.round->drafted;
    usage_.accepted += event.round->accepted;
    const int predicted = std::min(event.round->accepted, event.round->predicted);
    usage_.accepted_prediction += predicted;
    usage_.rejected_prediction += event.round->predicted - predicted;
    usage_.rounds_beyond_draft += event.round->beyond_draft ? 1 : 0;
  }
  if (event.end) {
    if (choice.stream) add(choice.reader->push(choice.stream->finish()));
    add(choice.reader->finish());
    const auto each = static_cast<int>(choices_.size()) / request_.prompts;
    if (event.choice % each == 0) usage_.cached_tokens += event.end->reused;
    usage_.draft_remark = event.end->draft_remark;
    if (!event.end->error.empty()) {
      failure_ = event.end->error;
      return tell_failure();
    }
    choice.told.finish = name_of(event.end->finish);
    if (choice.stream && choice.stream->match()) {
      choice.told.ended = request_.job.stops.strings()[choice.stream->match()->string];
    }
  }
  std::vector<ToldCall>& calls = choice.told.calls;
  for (AnswerPart& part : parts) {
    switch (part.kind) {
      case AnswerPart::Kind::content: choice.told.text += part.text; break;
      case AnswerPart::Kind::thought:
        if (!request_.include_thoughts) continue;
        choice.told.thought += part.text;
        break;
      case AnswerPart::Kind::call: calls.push_back({call_id(id_, event.choice, calls.size()), part.text, ""}); break;
      case AnswerPart::Kind::arguments: calls.back().arguments += part.text; break;
    }
    const ToldPart told = {part.kind, std::move(part.text), calls.empty() ? 0 : calls.size() - 1};
    std::vector<ToldPart>& items = choice.told.items;
    const bool goes_on = !items.empty() && items.back().kind == told.kind && told.kind != AnswerPart::Kind::call;
    if (goes_on) items.back().text += told.text;
    else if (told.kind != AnswerPart::Kind::arguments) items.push_back(told);
    news.parts.push_back(told);
  }
  // A call that a stop string or the number of tokens has cut off is none to act on.
  const bool whole = event.end && !calls.empty() && !choice.reader->cut_off() && !choice.told.ended;
  if (whole && choice.told.finish == name_of(Finish::stop)) choice.told.finish = "tool_calls";
  return tell(news);
}

}  // namespace draftproof::serve
