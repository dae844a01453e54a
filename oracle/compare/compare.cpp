// SPDX-License-Identifier: MIT
#include "oracle/compare/compare.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <map>
#include <optional>
#include <utility>

#include "oracle/compare/request_matrix.h"
#include "oracle/sequential/paired_texts.h"
#include "ref/base/error.h"
#include "ref/formats/printable.h"

namespace draftproof {
namespace {

constexpr int listed_logprobs = 5;
constexpr std::size_t shown_facts = 4;

/// One comparison of two answers: what was asked, and how.
struct Asked {
  std::string name;  // of the case
  std::string way;   // "alone", "together"
  std::size_t prompt = 0;
  EngineRequest request;

  std::string run() const { return fmt::format("{}, prompt {}, {}", name, prompt + 1, way); }
};

/// What one check has compared.
class Tally {
 public:
  Tally(std::string name, std::string blames) : name_(std::move(name)), blames_(std::move(blames)) {}

  void count() noexcept { ++examined_; }
  void tie(double gap) {
    ++ties_;
    largest_tie_ = std::max(largest_tie_, gap);
  }
  void not_explained(std::string what) {
    if (unexplained_++ == 0) first_unexplained_ = std::move(what);
  }
  void fail(Failure failure) {
    ++failures_;
    if (!first_) {
      first_ = std::move(failure);
      first_->blames = blames_;
    } else if (first_->facts.size() < shown_facts) {
      first_->facts.push_back(fmt::format("also {}: {} for {}", failure.run, failure.observed, failure.expected));
    }
  }

  bool failed() const noexcept { return failures_ > 0; }
  long unexplained() const noexcept { return unexplained_; }
  const std::string& first_unexplained() const noexcept { return first_unexplained_; }

  Finding finding() const {
    Finding found;
    found.check = name_;
    found.examined = examined_;
    found.failure = first_;
    found.outcome = failed() ? Outcome::fail : examined_ == 0 ? Outcome::vacuous : Outcome::pass;
    if (failed()) {
      found.message = fmt::format("{} of {} differ; the first: {}", failures_, examined_, message_of(*first_));
    } else {
      found.message = examined_ == 0 ? "nothing was compared" : fmt::format("{} compared", examined_);
    }
    if (ties_ > 0) found.message += fmt::format("; {} ties, gaps to {:.2g}", ties_, largest_tie_);
    if (unexplained() > 0) found.message += fmt::format("; {} not explained", unexplained());
    return found;
  }

 private:
  std::string name_;
  std::string blames_;
  long examined_ = 0;
  long failures_ = 0;
  long ties_ = 0;
  double largest_tie_ = 0;
  long unexplained_ = 0;
  std::string first_unexplained_;
  std::optional<Failure> first_;
};

std::string quoted(const std::optional<std::string>& text) { return text ? in_quotes(*text) : "no text"; }

/// The text from a place on, as an answer to the text before it.
EngineText tail_of(const EngineText& text, std::size_t from) {
  EngineText tail;
  tail.tokens.assign(text.tokens.begin() + static_cast<std::ptrdiff_t>(from), text.tokens.end());
  if (from < text.logprobs.size()) {
    tail.logprobs.assign(text.logprobs.begin() + static_cast<std::ptrdiff_t>(from), text.logprobs.end());
  }
  if (from < text.top_logprobs.size()) {
    tail.top_logprobs.assign(text.top_logprobs.begin() + static_cast<std::ptrdiff_t>(from), text.top_logprobs.end());
  }
  return tail;
}

class EngineComparison {
 public:
  EngineComparison(AskedEngine& plain, AskedEngine& speculative, const CompareSetup& setup)
      : plain_(plain), speculative_(speculative), setup_(setup) {}

  CompareResult run();

 private:
  using Answers = std::vector<EngineAnswer>;

  bool both_support(const EngineRequest& request) const {
    return can_ask(plain_, request) && can_ask(speculative_, request);
  }
  bool both_support(const char* field) const { return plain_.supports(field) && speculative_.supports(field); }
  bool over() const { return broken_ || (setup_.interrupted && setup_.interrupted()); }
  void say(const std::string& what) const {
    if (setup_.progress) setup_.progress(what);
  }
  EngineRequest greedy_request(std::size_t prompt) const;
  Answers ask_alone(AskedEngine& engine, std::span<const EngineRequest> requests);
  /// `at_once`: how many are asked together.
  Answers ask_together(AskedEngine& engine, std::span<const EngineRequest> requests, int at_once);
  Answers ask_together(AskedEngine& engine, std::span<const EngineRequest> requests) {
    return ask_together(engine, requests, setup_.together);
  }
  void count_drafts(const Answers& answers);

  void control();
  void read_again(const std::vector<EngineRequest>& requests);
  void greedy();
  void matrix();
  void certain_case(const std::string& name, const std::vector<std::size_t>& prompts,
                    const std::vector<EngineRequest>& requests);
  void end_of_context();
  void second_turns();
  struct Turns {
    EngineRequest second;
    std::optional<EngineAnswer> answer;  // to it; none where the first was not answered
  };
  Turns ask_turns(AskedEngine& engine, const EngineRequest& first, const EngineRequest& more);
  void cancelled();
  void sampled();
  void compare(const Asked& asked, const EngineAnswer& plain, const EngineAnswer& speculative, Tally& tokens);
  bool compare_errors(const Asked& asked, const EngineAnswer& plain, const EngineAnswer& speculative);
  EngineText with_listed(const Asked& asked, const EngineText& plain) const;
  void compare_texts(const Asked& asked, const EngineText& plain, const EngineText& speculative, Tally& tokens);
  void compare_logprobs(const Asked& asked, const EngineText& plain, const EngineText& speculative);
  void compare_streamed(const Asked& asked, const EngineAnswer& whole, const EngineAnswer& streamed);
  Failure failure_at(const Asked& asked, std::int64_t place, std::string expected, std::string observed,
                     std::vector<std::string> facts) const;
  void keep_divergence(const Asked& asked, std::size_t place, const EngineText& plain, const EngineText& speculative);
  Report report();

  AskedEngine& plain_;
  AskedEngine& speculative_;
  const CompareSetup& setup_;
  std::vector<EngineRequest> base_;  // greedy, of each prompt
  Answers base_plain_;
  Answers base_speculative_;
  ControlSpread spread_;
  Tally greedy_tokens_{"greedy_tokens", "the rule, caches and state after a rejection, positions, logits of a pass"};
  Tally option_tokens_{"option_tokens",
                       "how an option (penalties, bias, bans, stops, lengths, grammars) is applied to "
                       "the rows of a verification"};
  Tally second_turn_{"second_turn", "what a kept cache holds after speculation"};
  Tally after_cancel_{"after_cancel", "what a cancelled request leaves behind"};
  Tally text_{"text", "how tokens become text, stop strings"};
  Tally finish_{"finish_reason", "the end of a text inside accepted draft tokens"};
  Tally usage_{"usage", "the counts of an answer"};
  Tally logprobs_{"logprobs", "which rows the logprobs of accepted draft tokens are read from"};
  Tally streamed_{"stream_equals_whole", "how several tokens of a round are sent"};
  Tally answers_{"answers", "a request that plain decoding answers"};
  std::vector<std::string> unproved_;
  std::vector<Bets> bets_;
  std::vector<Divergence> divergences_;
  std::vector<TextDifference> differences_;
  std::vector<WrittenText> sampled_plain_;
  std::vector<WrittenText> sampled_speculative_;
  long compared_tokens_ = 0;
  long drafted_ = -1;
  long accepted_ = -1;
  double plain_seconds_ = 0;
  double speculative_seconds_ = 0;
  bool broken_ = false;
};

EngineRequest EngineComparison::greedy_request(std::size_t prompt) const {
  EngineRequest request;
  request.prompt = setup_.prompts[prompt].tokens;
  request.text = setup_.prompts[prompt].text;
  request.max_new_tokens = setup_.max_new_tokens;
  return request;
}

EngineComparison::Answers EngineComparison::ask_alone(AskedEngine& engine, std::span<const EngineRequest> requests) {
  Answers answers;
  for (const EngineRequest& request : requests) {
    if (over()) {
      answers.push_back({.error = "not asked any more"});
      continue;
    }
    answers.push_back(std::move(engine.ask(std::span(&request, 1)).front()));
    if (answers.back().broken && &engine == &speculative_) broken_ = true;
  }
  if (&engine == &speculative_) count_drafts(answers);
  return answers;
}

EngineComparison::Answers EngineComparison::ask_together(AskedEngine& engine, std::span<const EngineRequest> requests,
                                                         int at_once) {
  Answers answers;
  const auto step = static_cast<std::size_t>(at_once);
  for (std::size_t at = 0; at < requests.size(); at += step) {
    const auto part = requests.subspan(at, std::min(step, requests.size() - at));
    if (over()) {
      answers.resize(answers.size() + part.size(), {.error = "not asked any more"});
      continue;
    }
    for (EngineAnswer& answer : engine.ask(part)) {
      if (answer.broken && &engine == &speculative_) broken_ = true;
      answers.push_back(std::move(answer));
    }
  }
  if (&engine == &speculative_) count_drafts(answers);
  return answers;
}

void EngineComparison::count_drafts(const Answers& answers) {
  for (const EngineAnswer& answer : answers) {
    if (answer.drafted >= 0) drafted_ = std::max(drafted_, 0L) + answer.drafted;
    if (answer.accepted >= 0) accepted_ = std::max(accepted_, 0L) + answer.accepted;
  }
}

/// Plain against plain: alone, alone again, together, and with a part of its own text in the prompt.
void EngineComparison::control() {
  for (std::size_t i = 0; i < setup_.prompts.size(); ++i) {
    base_.push_back(greedy_request(i));
    if (both_support("logprobs")) base_.back().logprobs = listed_logprobs;
  }
  say("the plain engine, alone");
  base_plain_ = ask_alone(plain_, base_);
  for (const EngineAnswer& answer : base_plain_) {
    if (!answer.answered() && !over()) {
      throw Error(fmt::format("{} does not answer a greedy request: {}; nothing can be compared with it", plain_.name(),
                              answer.error.empty() ? "it sent no text" : answer.error));
    }
    plain_seconds_ += answer.seconds;
  }
  say("the plain engine, alone again and together");
  for (const Answers& again : {ask_alone(plain_, base_), ask_together(plain_, base_)}) {
    for (std::size_t i = 0; i < again.size(); ++i) {
      if (again[i].answered()) spread_.compare(base_plain_[i].texts[0], again[i].texts[0]);
    }
  }
  for (const EngineAnswer& answer : base_plain_) {
    if (answer.answered()) spread_.count_gaps(answer.texts[0]);
  }
  if (plain_.knows_tokens()) read_again(base_);
}

void EngineComparison::read_again(const std::vector<EngineRequest>& requests) {
  say("the plain engine, with its own text as the prompt");
  std::vector<EngineRequest> again;
  std::vector<EngineText> expected;
  for (std::size_t i = 0; i < requests.size(); ++i) {
    if (!base_plain_[i].answered() || requests[i].prompt.empty()) continue;
    const EngineText& text = base_plain_[i].texts[0];
    for (const std::size_t quarter : {1u, 2u, 3u}) {
      const std::size_t from = text.tokens.size() * quarter / 4;
      if (from == 0 || from >= text.tokens.size()) continue;
      EngineRequest request = requests[i];
      request.prompt.insert(request.prompt.end(), text.tokens.begin(),
                            text.tokens.begin() + static_cast<std::ptrdiff_t>(from));
      request.max_new_tokens -= static_cast<int>(from);
      again.push_back(std::move(request));
      expected.push_back(tail_of(text, from));
    }
  }
  const Answers answers = ask_alone(plain_, again);
  for (std::size_t i = 0; i < answers.size(); ++i) {
    if (answers[i].answered()) spread_.compare_read_again(expected[i], answers[i].texts[0]);
  }
}

Failure EngineComparison::failure_at(const Asked& asked, std::int64_t place, std::string expected, std::string observed,
                                     std::vector<std::string> facts) const {
  Failure failure;
  failure.run = asked.run();
  if (place >= 0) failure.position = static_cast<std::int64_t>(asked.request.prompt.size()) + place;
  failure.expected = std::move(expected);
  failure.observed = std::move(observed);
  failure.facts = std::move(facts);
  failure.facts.insert(failure.facts.begin(), "asked: " + settings_of(asked.request));
  failure.clears = "everything that plain and speculative decoding share: weights, tokenizer, prompt";
  const std::string plain = plain_.repeat(asked.request);
  failure.reproduce = plain + (plain.empty() ? "" : "\n") + speculative_.repeat(asked.request);
  return failure;
}

/// Returns whether both have answered.
bool EngineComparison::compare_errors(const Asked& asked, const EngineAnswer& plain, const EngineAnswer& speculative) {
  if (!plain.answered()) {
    if (!over()) {
      unproved_.push_back(fmt::format("{}: the plain engine does not answer: {}", asked.run(), plain.error));
    }
    return false;
  }
  if (over() && !speculative.broken && !speculative.answered()) return false;
  answers_.count();
  if (speculative.answered()) return true;
  answers_.fail(failure_at(asked, -1, "an answer, as plain decoding gives it",
                           speculative.error.empty() ? "no text" : printable(speculative.error, 400), {}));
  return false;
}

void EngineComparison::keep_divergence(const Asked& asked, std::size_t place, const EngineText& plain,
                                       const EngineText& speculative) {
  if (!divergences_.empty()) return;
  constexpr std::size_t around = 12;
  const auto part = [&](const EngineText& text, std::size_t from, std::size_t to) {
    const std::size_t end = std::min(to, text.tokens.size());
    return from < end ? plain_.spelled(std::span(text.tokens).subspan(from, end - from)) : std::string();
  };
  Divergence divergence;
  divergence.run = asked.run();
  divergence.position = static_cast<std::int64_t>(asked.request.prompt.size() + place);
  divergence.before = part(plain, place - std::min(place, around), place);
  divergence.plain = part(plain, place, place + around);
  divergence.observed = part(speculative, place, place + around);
  divergences_.push_back(std::move(divergence));
}

/// A text of a request without logprobs, with the most likely tokens of the greedy text that was asked for with them,
/// as far as both agree.
EngineText EngineComparison::with_listed(const Asked& asked, const EngineText& plain) const {
  EngineText text = plain;
  if (!text.top_logprobs.empty() || !base_plain_[asked.prompt].answered() ||
      asked.request.prompt != base_[asked.prompt].prompt) {
    return text;
  }
  const EngineText& base = base_plain_[asked.prompt].texts[0];
  const bool begins_alike = text.tokens.size() <= base.tokens.size() &&
                            std::equal(text.tokens.begin(), text.tokens.end(), base.tokens.begin());
  if (begins_alike) text.top_logprobs = base.top_logprobs;
  return text;
}

void EngineComparison::compare_texts(const Asked& asked, const EngineText& plain, const EngineText& speculative,
                                     Tally& tokens) {
  tokens.count();
  compared_tokens_ += static_cast<long>(std::min(plain.tokens.size(), speculative.tokens.size()));
  const std::optional<FirstDifference> found =
      first_difference(asked.request, with_listed(asked, plain), speculative, spread_, setup_.gap);
  if (found) {
    const auto named = [&](const EngineText& text) {
      if (found->place >= text.tokens.size()) return "the end (" + (text.finish.empty() ? "?" : text.finish) + ")";
      const std::string number = std::to_string(text.tokens[found->place]);
      const std::string spelled = plain_.spelled(std::span(text.tokens).subspan(found->place, 1));
      return "token " + number + (spelled == number ? "" : " " + in_quotes(spelled));
    };
    const std::string gap =
        found->gap
            ? fmt::format("its logit is {}{:.3g} below the best, says {}; numerics of this engine explain {:.2g}",
                          found->at_least ? "more than " : "", *found->gap, found->gap_from, spread_.tie())
            : "how far its logit is below the best is not known";
    TextDifference difference;
    difference.run = asked.run();
    difference.position = static_cast<std::int64_t>(asked.request.prompt.size() + found->place);
    difference.plain = named(plain);
    difference.observed = named(speculative);
    difference.explanation = name_of(found->explanation);
    difference.gap = found->gap;
    difference.gap_at_least = found->at_least;
    difference.gap_from = found->gap_from;
    differences_.push_back(std::move(difference));
    if (found->explanation == Explanation::tie) {
      tokens.tie(*found->gap);
      return;
    }
    keep_divergence(asked, found->place, plain, speculative);
    if (found->explanation == Explanation::not_explained) {
      tokens.not_explained(
          fmt::format("{}, token {}: {} for {}; {}", asked.run(), found->place, named(speculative), named(plain), gap));
      return;
    }
    tokens.fail(failure_at(asked, static_cast<std::int64_t>(found->place), named(plain), named(speculative),
                           {gap, "the plain engine with itself: " + spread_.describe()}));
    return;
  }
  if (plain.text || speculative.text) {
    text_.count();
    if (plain.text != speculative.text) {
      text_.fail(failure_at(asked, -1, quoted(plain.text), quoted(speculative.text), {"the tokens are equal"}));
    }
  }
  if (!plain.finish.empty() || !speculative.finish.empty()) {
    finish_.count();
    if (plain.finish != speculative.finish || plain.stop_string != speculative.stop_string) {
      finish_.fail(failure_at(asked, -1, in_quotes(plain.finish + plain.stop_string),
                              in_quotes(speculative.finish + speculative.stop_string), {"the tokens are equal"}));
    }
  }
  compare_logprobs(asked, plain, speculative);
}

void EngineComparison::compare_logprobs(const Asked& asked, const EngineText& plain, const EngineText& speculative) {
  if (!asked.request.logprobs || (plain.logprobs.empty() && speculative.logprobs.empty())) return;
  const auto stated = [](const EngineText& text, std::size_t place) {
    if (place >= text.logprobs.size()) return std::string("no logprob");
    return fmt::format("logprob {:.9g}", text.logprobs[place]);
  };
  for (std::size_t i = 0; i < std::max(plain.logprobs.size(), speculative.logprobs.size()); ++i) {
    logprobs_.count();
    const bool both = i < plain.logprobs.size() && i < speculative.logprobs.size();
    const double apart = both ? std::abs(plain.logprobs[i] - speculative.logprobs[i]) : 0;
    if (both && apart <= spread_.tie()) continue;
    if (!both || !(apart < spread_.beyond_numerics())) {
      logprobs_.fail(failure_at(asked, static_cast<std::int64_t>(i), stated(plain, i), stated(speculative, i),
                                {"the tokens are equal", "the plain engine with itself: " + spread_.describe()}));
      return;
    }
    logprobs_.not_explained(
        fmt::format("{}, token {}: {} for {}", asked.run(), i, stated(speculative, i), stated(plain, i)));
    return;
  }
  for (std::size_t i = 0; i < std::max(plain.top_logprobs.size(), speculative.top_logprobs.size()); ++i) {
    const std::size_t listed = i < plain.top_logprobs.size() ? plain.top_logprobs[i].size() : 0;
    const std::size_t also = i < speculative.top_logprobs.size() ? speculative.top_logprobs[i].size() : 0;
    logprobs_.count();
    if (listed == also) continue;
    logprobs_.fail(failure_at(asked, static_cast<std::int64_t>(i), fmt::format("{} most likely tokens", listed),
                              fmt::format("{} of them", also), {"the tokens are equal"}));
    return;
  }
}

void EngineComparison::compare(const Asked& asked, const EngineAnswer& plain, const EngineAnswer& speculative,
                               Tally& tokens) {
  if (!compare_errors(asked, plain, speculative)) return;
  if (plain.texts.size() != speculative.texts.size()) {
    answers_.fail(failure_at(asked, -1, fmt::format("{} texts", plain.texts.size()),
                             fmt::format("{} texts", speculative.texts.size()), {}));
    return;
  }
  bool same = true;
  for (std::size_t i = 0; i < plain.texts.size(); ++i) {
    compare_texts(asked, plain.texts[i], speculative.texts[i], tokens);
    same = same && plain.texts[i].tokens == speculative.texts[i].tokens;
  }
  if (!same) return;
  for (const auto& [what, of_plain, of_speculative] :
       {std::tuple("prompt tokens", plain.prompt_tokens, speculative.prompt_tokens),
        std::tuple("completion tokens", plain.completion_tokens, speculative.completion_tokens)}) {
    if (of_plain < 0 && of_speculative < 0) continue;
    usage_.count();
    if (of_plain == of_speculative) continue;
    usage_.fail(failure_at(asked, -1, fmt::format("{} {}", of_plain, what), fmt::format("{} {}", of_speculative, what),
                           {"the tokens are equal"}));
  }
}

void EngineComparison::compare_streamed(const Asked& asked, const EngineAnswer& whole, const EngineAnswer& streamed) {
  if (!whole.answered() || !streamed.answered()) return;
  const EngineText& a = whole.texts[0];
  const EngineText& b = streamed.texts[0];
  streamed_.count();
  if (a.tokens != b.tokens || a.text != b.text || a.finish != b.finish) {
    const auto shown = [](const EngineText& text) { return fmt::format("{} ({})", quoted(text.text), text.finish); };
    streamed_.fail(failure_at(asked, -1, shown(a), shown(b), {"both are of the speculative engine"}));
  }
}

void EngineComparison::greedy() {
  say("the speculative engine, alone");
  base_speculative_ = ask_alone(speculative_, base_);
  for (std::size_t i = 0; i < base_.size(); ++i) {
    compare({"greedy", "alone", i, base_[i]}, base_plain_[i], base_speculative_[i], greedy_tokens_);
    speculative_seconds_ += base_speculative_[i].seconds;
  }
  say("the speculative engine, together");
  std::vector<EngineRequest> many = base_;
  while (many.size() < 2 * static_cast<std::size_t>(setup_.together)) many.push_back(base_[many.size() % base_.size()]);
  const Answers together = ask_together(speculative_, many, 2 * setup_.together);
  for (std::size_t i = 0; i < many.size(); ++i) {
    const std::size_t prompt = i % base_.size();
    compare({"greedy", "together", prompt, many[i]}, base_plain_[prompt], together[i], greedy_tokens_);
  }
}

void EngineComparison::certain_case(const std::string& name, const std::vector<std::size_t>& prompts,
                                    const std::vector<EngineRequest>& requests) {
  say(name);
  const Answers plain = ask_alone(plain_, requests);
  const Answers alone = ask_alone(speculative_, requests);
  const Answers together = ask_together(speculative_, requests);
  for (std::size_t i = 0; i < requests.size(); ++i) {
    const Asked asked{name, "alone", prompts[i], requests[i]};
    compare(asked, plain[i], alone[i], option_tokens_);
    compare({name, "together", prompts[i], requests[i]}, plain[i], together[i], option_tokens_);
    if (requests[i].stream) compare_streamed(asked, base_speculative_[prompts[i]], alone[i]);
  }
}

void EngineComparison::matrix() {
  const std::size_t number = std::min(setup_.prompts.size(), static_cast<std::size_t>(setup_.matrix_prompts));
  for (const MatrixCase& each : certain_cases(setup_.cases)) {
    std::vector<std::size_t> prompts;
    std::vector<EngineRequest> requests;
    for (std::size_t i = 0; i < number; ++i) {
      EngineRequest request = greedy_request(i);
      if (base_plain_[i].answered() && each.change(request, base_plain_[i].texts[0]) && both_support(request)) {
        prompts.push_back(i);
        requests.push_back(std::move(request));
      }
    }
    if (over()) return;
    if (requests.empty()) {
      unproved_.push_back(each.name + ": the engine does not take it, or no text allows it");
      continue;
    }
    certain_case(each.name, prompts, requests);
  }
  if (setup_.cases.empty()) end_of_context();
}

/// Prompts that leave room for just the tokens that are asked for: few enough that a proposal does not fit, in several
/// numbers, as only some rounds end in the last positions.
void EngineComparison::end_of_context() {
  constexpr std::array<std::size_t, 3> rooms = {5, 8, 13};
  const auto context = static_cast<std::size_t>(setup_.context);
  if (context <= 2 * rooms.back() || !plain_.knows_tokens() || base_.front().prompt.empty()) {
    unproved_.push_back("end of the context: its length is not known");
    return;
  }
  std::vector<std::size_t> prompts;
  std::vector<EngineRequest> requests;
  for (std::size_t i = 0; i < rooms.size(); ++i) {
    prompts.push_back(i % base_.size());
    EngineRequest& request = requests.emplace_back(greedy_request(prompts.back()));
    while (request.prompt.size() < context - rooms[i]) {
      const std::vector<Token>& more = base_[request.prompt.size() % base_.size()].prompt;
      request.prompt.insert(request.prompt.end(), more.begin(), more.end());
    }
    request.prompt.resize(context - rooms[i]);
    request.max_new_tokens = static_cast<int>(rooms[i]);
  }
  certain_case("end of the context", prompts, requests);
}

/// The answer and a further prompt are appended to the first prompt: what follows reads a cache that speculation left.
void EngineComparison::second_turns() {
  if (!both_support("session")) {
    unproved_.push_back("second turns over a kept cache: the engine has none");
    return;
  }
  say("second turns");
  for (std::size_t i = 0; i < base_.size() && !over(); ++i) {
    EngineRequest first = greedy_request(i);
    // Several lengths: some end in the middle of a round, whose last token is not an accepted draft token.
    first.max_new_tokens = std::max(3, setup_.max_new_tokens / 2 - static_cast<int>(i % 4));
    first.session = "turns " + std::to_string(i);
    first.logprobs = base_[i].logprobs;  // which say how close two tokens were
    const EngineRequest& more = base_[(i + 1) % base_.size()];
    const Turns plain = ask_turns(plain_, first, more);
    const Turns speculative = ask_turns(speculative_, first, more);
    const bool both = plain.answer && speculative.answer;
    if (both && plain.second.prompt == speculative.second.prompt && plain.second.text == speculative.second.text) {
      compare({"second turn", "alone", i, speculative.second}, *plain.answer, *speculative.answer, second_turn_);
    }
  }
}

/// Asks `first`, and then the same with the answer and the prompt of `more` behind it.
EngineComparison::Turns EngineComparison::ask_turns(AskedEngine& engine, const EngineRequest& first,
                                                    const EngineRequest& more) {
  Turns turns;
  const EngineAnswer answer = std::move(ask_alone(engine, std::span(&first, 1)).front());
  if (!answer.answered()) return turns;
  const EngineText& text = answer.texts[0];
  turns.second = first;
  if (first.prompt.empty()) {
    turns.second.text += text.text.value_or("") + more.text;
  } else {
    turns.second.prompt.insert(turns.second.prompt.end(), text.tokens.begin(), text.tokens.end());
    turns.second.prompt.insert(turns.second.prompt.end(), more.prompt.begin(), more.prompt.end());
  }
  turns.answer = std::move(ask_alone(engine, std::span(&turns.second, 1)).front());
  return turns;
}

void EngineComparison::cancelled() {
  if (!both_support("cancel_after")) {
    unproved_.push_back("cancelled streams: the engine has none");
    return;
  }
  say("cancelled streams");
  std::vector<EngineRequest> going_away = base_;
  for (EngineRequest& request : going_away) {
    request.logprobs.reset();
    request.stream = true;
    request.cancel_after = 2;
  }
  ask_together(speculative_, going_away);
  const Answers again = ask_together(speculative_, base_);
  for (std::size_t i = 0; i < base_.size(); ++i) {
    compare({"after cancelled streams", "together", i, base_[i]}, base_plain_[i], again[i], after_cancel_);
  }
}

void EngineComparison::sampled() {
  const std::vector<MatrixCase> cases = sampled_cases(setup_.cases);
  for (std::size_t c = 0; c < cases.size() && !over(); ++c) {
    std::vector<EngineRequest> of_plain;
    std::vector<EngineRequest> of_speculative;
    for (int i = 0; i < setup_.pairs; ++i) {
      EngineRequest request = greedy_request(static_cast<std::size_t>(i) % setup_.prompts.size());
      cases[c].change(request, {});
      request.max_new_tokens = setup_.sampled_tokens;
      if (both_support("logprobs") && !logprobs_.failed() && !changes_logits(request)) request.logprobs = 0;
      if (both_support("seed")) {  // independent draws: not the same for both
        request.seed = setup_.seed + 1'000'003 * (c + 1) + static_cast<std::uint64_t>(2 * i);
      }
      of_plain.push_back(request);
      if (request.seed) ++*request.seed;
      of_speculative.push_back(std::move(request));
    }
    if (of_plain.empty()) continue;
    if (!both_support(of_plain.front())) {
      unproved_.push_back(cases[c].name + ": the engine does not take it");
      continue;
    }
    say("sampled: " + cases[c].name);
    const Answers plain = ask_together(plain_, of_plain);
    const Answers speculative = ask_together(speculative_, of_speculative);
    PairedTexts test(setup_.alpha);
    for (std::size_t i = 0; i < plain.size(); ++i) {
      const std::size_t prompt = i % setup_.prompts.size();
      if (!compare_errors({cases[c].name, "together", prompt, of_speculative[i]}, plain[i], speculative[i])) continue;
      const EngineText& a = plain[i].texts[0];
      const EngineText& b = speculative[i].texts[0];
      const bool logprobs = a.logprobs.size() == a.tokens.size() && b.logprobs.size() == b.tokens.size();
      const auto stated = [&](const EngineText& text) {
        return logprobs ? std::span<const double>(text.logprobs) : std::span<const double>();
      };
      const std::span<const Token> asked = plain_.knows_tokens() ? of_plain[i].prompt : std::span<const Token>();
      test.observe(static_cast<std::int64_t>(prompt), {a.tokens, stated(a)}, {b.tokens, stated(b)}, asked);
      sampled_plain_.push_back({of_plain[i], a});
      sampled_speculative_.push_back({of_speculative[i], b});
    }
    Bets bets;
    bets.about = "sampled, " + cases[c].name;
    bets.observed = test.unequal();
    bets.alpha = test.alpha();
    bets.e_value = test.e_value();
    bets.alarm = test.alarm();
    bets.message = fmt::format(
        "{} pairs of texts, {} unequal; e-value {:.3g}, alarm at {:.3g}; most evidence: {}; {}", test.pairs(),
        test.unequal(), test.e_value(), 1 / test.alpha(), test.suspect(),
        test.share_seen() < 1 ? fmt::format("a difference by which {:.0f} % of pairs can be told apart would have been "
                                            "found",
                                            100 * test.share_seen())
                              : "so few pairs show nothing");
    bets_.push_back(std::move(bets));
  }
}

Report EngineComparison::report() {
  Report report;
  report.subject = fmt::format("{} against {}", speculative_.name(), plain_.name());
  report.about = {{"prompts", std::to_string(setup_.prompts.size())},
                  {"new tokens", std::to_string(setup_.max_new_tokens)},
                  {"together", std::to_string(setup_.together)},
                  {"plain with itself", spread_.describe()}};
  if (plain_seconds_ > 0 && speculative_seconds_ > 0) {
    report.about.emplace_back("time alone, speculative over plain",
                              fmt::format("{:.2f}", speculative_seconds_ / plain_seconds_));
  }
  report.examined = {{"tokens compared", static_cast<double>(compared_tokens_)}};
  if (drafted_ >= 0) report.examined.emplace_back("draft tokens", static_cast<double>(drafted_));
  if (accepted_ >= 0) report.examined.emplace_back("accepted", static_cast<double>(accepted_));
  long unexplained = 0;
  std::string first;
  for (const Tally* tally : {&answers_, &greedy_tokens_, &option_tokens_, &second_turn_, &after_cancel_, &text_,
                             &finish_, &usage_, &logprobs_, &streamed_}) {
    const Finding finding = tally->finding();
    if (finding.outcome == Outcome::vacuous) {
      unproved_.push_back(finding.check + ": " + finding.message);
    } else {
      report.findings.push_back(finding);
    }
    unexplained += tally->unexplained();
    if (first.empty()) first = tally->first_unexplained();
  }
  std::ranges::stable_sort(report.findings, {}, [](const Finding& f) { return f.outcome != Outcome::fail; });
  report.unproved = unproved_;
  report.bets = bets_;
  report.divergences = divergences_;
  report.differences = differences_;
  const bool proven = std::ranges::any_of(report.findings, [](const Finding& f) { return f.outcome == Outcome::fail; });
  const bool alarm = std::ranges::any_of(bets_, &Bets::alarm);
  if (drafted_ < 0) {
    report.unproved.push_back("that anything was drafted: the engine does not say; only its time does");
  }
  if (proven) {
    report.verdict = ReportVerdict::bug_proven;
    if (broken_) report.reason = "the speculative engine is gone; what was to be asked after that was not";
  } else if (alarm) {
    report.verdict = ReportVerdict::bug_stat;
  } else if (setup_.interrupted && setup_.interrupted()) {
    report.verdict = ReportVerdict::undecided;
    report.reason = "interrupted";
  } else if (unexplained > 0) {
    const std::optional<double> ties = spread_.expected_ties(compared_tokens_);
    report.verdict = ReportVerdict::undecided;
    report.reason = fmt::format("{} difference{} neither a tie nor a certain fault{}; the first: {}", unexplained,
                                unexplained == 1 ? " is" : "s are",
                                ties ? fmt::format(" (ties that numerics explain: {:.2g})", *ties) : "", first);
  } else if (drafted_ == 0) {
    report.verdict = ReportVerdict::vacuous;
    report.reason = "the speculative engine says that it has drafted nothing; start it with a draft";
  } else {
    report.verdict = ReportVerdict::pass_stat;
  }
  return report;
}

CompareResult EngineComparison::run() {
  control();
  greedy();
  if (!over()) matrix();
  if (!over()) second_turns();
  if (!over()) cancelled();
  if (!over()) sampled();
  say("");
  CompareResult result;
  result.report = report();
  result.plain = std::move(sampled_plain_);
  result.speculative = std::move(sampled_speculative_);
  return result;
}

}  // namespace

CompareResult compare_engines(AskedEngine& plain, AskedEngine& speculative, const CompareSetup& setup) {
  if (setup.prompts.empty()) throw Error("there is nothing to ask; give at least one prompt");
  require_cases(setup.cases);
  return EngineComparison(plain, speculative, setup).run();
}

}  // namespace draftproof
