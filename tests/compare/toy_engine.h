// SPDX-License-Identifier: MIT
// An engine for comparisons: plain decoding of a hash model, and what may be done to its requests and answers to make
// it another engine, right or wrong.
#pragma once

#include <algorithm>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "oracle/compare/asked_engine.h"
#include "oracle/plain/plain.h"
#include "ref/models/hash.h"

namespace draftproof::toy_engine {

inline constexpr int vocabulary = 24;
inline constexpr Token stop = vocabulary - 1;  // loses every tie, so that texts are long

/// Before a request is answered, and after. `number`: of the request, over the life of the engine. `together`: how many
/// are asked at once.
struct Ways {
  std::function<void(EngineRequest&, int number, int together)> before = {};
  std::function<void(const EngineRequest&, EngineAnswer&, int number, int together)> after = {};
  long drafted = 10;
};

class ToyEngine : public AskedEngine {
 public:
  explicit ToyEngine(Ways ways = {}) : ways_(std::move(ways)), model_(make_hash_model(shape())) {}

  static HashShape shape() {
    HashShape shape;
    shape.vocabulary = vocabulary;
    shape.context = 256;
    shape.levels = 16;
    return shape;
  }

  std::string name() const override { return "toy"; }
  bool supports(std::string_view field) const override {
    return field != "grammar" && field != "json_schema" && field != "repeat_last_n";
  }
  std::string repeat(const EngineRequest&) const override { return "ask the toy"; }

  std::vector<EngineAnswer> ask(std::span<const EngineRequest> requests) override {
    std::vector<EngineAnswer> answers;
    for (EngineRequest request : requests) {
      const int number = asked_++;
      const EngineRequest original = request;
      const int together = static_cast<int>(requests.size());
      if (ways_.before) ways_.before(request, number, together);
      answers.push_back(answer(request, number));
      if (ways_.after) ways_.after(original, answers.back(), number, together);
    }
    return answers;
  }

 private:
  EngineAnswer answer(const EngineRequest& asked, int number) {
    EngineAnswer answer;
    for (int choice = 0; choice < asked.choices; ++choice) {
      Request request;
      request.prompt = asked.prompt;
      request.sampling = asked.sampling;
      for (const Token token : asked.banned) request.sampling.logit_bias.push_back({token, -100});
      request.stops = asked.stop_tokens;
      request.stops.push_back(stop);
      request.max_new_tokens = std::min(asked.max_new_tokens, 256 - static_cast<int>(asked.prompt.size()));
      request.sequence = choice;
      PhiloxSource random(asked.seed.value_or(1000 + static_cast<std::uint64_t>(number)));
      PlainRun run = plain(*model_, request, random, 1);
      EngineText text;
      text.text = "";
      for (const Token token : run.output) {
        *text.text += static_cast<char>('a' + token);
        text.tokens.push_back(token);
        for (const std::string& end : asked.stop_strings) {
          if (text.text->ends_with(end)) text.stop_string = end;
        }
        if (!text.stop_string.empty()) break;
      }
      text.finish = run.finish == Finish::stop || !text.stop_string.empty() ? "stop" : "length";
      if (asked.logprobs) {
        text.logprobs.assign(run.logprobs.begin(),
                             run.logprobs.begin() + static_cast<std::ptrdiff_t>(text.tokens.size()));
        for (std::size_t i = 0; i < text.tokens.size(); ++i) {
          text.top_logprobs.emplace_back(run.top_logprobs[i].begin(), run.top_logprobs[i].begin() + *asked.logprobs);
        }
      }
      answer.completion_tokens = std::max(answer.completion_tokens, 0L) + static_cast<long>(text.tokens.size());
      answer.texts.push_back(std::move(text));
    }
    answer.prompt_tokens = static_cast<long>(asked.prompt.size());
    answer.drafted = ways_.drafted;
    answer.accepted = ways_.drafted;
    return answer;
  }

  Ways ways_;
  std::unique_ptr<Model> model_;
  int asked_ = 0;
};

}  // namespace draftproof::toy_engine
