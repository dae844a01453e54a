// SPDX-License-Identifier: MIT
#include "tools/endpoint_plan.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <bitset>
#include <nlohmann/json.hpp>
#include <utility>

#include "ref/acceptance/bans.h"
#include "ref/acceptance/random_source.h"
#include "ref/base/error.h"
#include "ref/formats/json.h"
#include "ref/grammar/grammar_constraint.h"
#include "ref/grammar/json_schema.h"
#include "ref/text/breakers.h"
#include "serve/chat_request.h"

namespace draftproof {
namespace {

using PlanJson = nlohmann::ordered_json;

/// Some must end, some may end and go on, and some are recursive.
constexpr std::array<const char*, 5> planned_grammars = {
    "root ::= \"yes\" | \"no\" \"!\"*", "root ::= [0-9]{1,4} | \"(\" root \")\"",
    "root ::= \"the \"? \"old \" \"oak\"+", "root ::= [a-z]+ (\" \" [a-z]+){0,8} \".\"",
    "root ::= ([^\\x00-\\x1F]* \"\\n\"){1,3}"};
constexpr std::array<const char*, 5> planned_schemas = {
    R"({"type":"number"})", R"({"enum":["red","green",7,null]})",
    R"({"type":"array","items":{"type":"boolean"},"maxItems":4})",
    R"({"type":"object","properties":{"name":{"type":"string","maxLength":12},"age":{"type":"integer"}},)"
    R"("required":["name"]})",
    R"({"type":"object","properties":{"at":{"type":"string","format":"date"},"tags":{"type":"array",)"
    R"("items":{"type":"string"}}},"required":["at","tags"]})"};

/// Short, as they are part of the prompt. Of one only some arguments are required; the other has none.
constexpr const char* planned_tools =
    R"([{"type":"function","function":{"name":"go","parameters":{"type":"object","properties":)"
    R"({"n":{"type":"integer"},"to":{"enum":["a","b"]}},"required":["n"]}}},)"
    R"({"type":"function","function":{"name":"stay"}}])";

struct PlannedMessage {
  const char* role;
  std::string content;
};

/// Makes one request. Every choice is a draw of the project's own generator, keyed by the request and by how many
/// draws came before.
class RequestMaker {
 public:
  RequestMaker(const EndpointSetup& setup, const std::vector<std::vector<Token>>& stems, int number)
      : setup_(setup), stems_(stems), draws_(setup.seed), number_(number) {}

  EndpointRequest make();

 private:
  /// A number from 0 to bound - 1.
  int below(int bound) {
    const Key key{number_, draws_made_++, Purpose::target};
    return static_cast<int>(draws_.below(key, static_cast<std::uint64_t>(bound)));
  }
  int from(int min, int max) { return max <= min ? min : min + below(max - min + 1); }
  bool one_in(int number) { return below(number) == 0; }
  template <class Values>
  auto one_of(const Values& values) {
    return values[static_cast<std::size_t>(below(static_cast<int>(std::size(values))))];
  }

  /// Whether an answer fits behind a prompt that was a text.
  bool fits(const std::vector<Token>& prompt) const {
    return !prompt.empty() && static_cast<int>(prompt.size()) <= setup_.context / 2;
  }

  std::string text();
  std::vector<Token> tokens();
  void add_prompt();
  void add_chat();
  void add_tools();
  void add_conversation();
  void add_sampling();
  void add_sampler(Sampling& sampling);
  void add_bans();
  void add_end();
  void add_form();
  void add_constraint();
  std::string add_grammar();
  void add_choices();

  const EndpointSetup& setup_;
  const std::vector<std::vector<Token>>& stems_;  // beginnings that prompts share
  PhiloxSource draws_;
  int number_;
  int draws_made_ = 0;
  EndpointRequest made_;
  Request like_;  // what its choices have in common
  std::optional<serve::ChatRequest> conversation_;
  std::vector<std::vector<Token>> prompts_;
  PlanJson body_ = PlanJson::object();
};

/// A part of a text, cut between characters.
std::string RequestMaker::text() {
  constexpr int bytes_max = 160;
  const std::string& whole = setup_.texts[static_cast<std::size_t>(below(static_cast<int>(setup_.texts.size())))];
  const auto between_characters = [&](std::size_t place) {
    while (place < whole.size() && (whole[place] & 0xc0) == 0x80) ++place;
    return std::min(place, whole.size());
  };
  const auto half = static_cast<int>(whole.size() / 2);
  const std::size_t begin = one_in(2) ? 0 : between_characters(static_cast<std::size_t>(from(0, half)));
  const std::size_t end = between_characters(begin + static_cast<std::size_t>(from(8, bytes_max)));
  return whole.substr(begin, end - begin);
}

/// A prompt as token ids: a beginning that others have too, or none, and a part of its own.
std::vector<Token> RequestMaker::tokens() {
  std::vector<Token> prompt;
  const int max = std::max(1, setup_.context / 2);
  if (one_in(2)) prompt = one_of(stems_);
  if (!prompt.empty() && one_in(4)) prompt.resize(static_cast<std::size_t>(from(1, static_cast<int>(prompt.size()))));
  const int own = from(prompt.empty() ? 1 : 0, one_in(4) ? 96 : 12);
  const auto all = one_in(4) ? 0 : static_cast<int>(setup_.tokens.size());
  const int first = all > own ? below(all - own) : 0;
  for (int i = 0; i < own; ++i) {
    prompt.push_back(first + i < all ? setup_.tokens[static_cast<std::size_t>(first + i)]
                                     : static_cast<Token>(below(setup_.vocabulary)));
  }
  if (static_cast<int>(prompt.size()) > max) prompt.resize(static_cast<std::size_t>(max));
  return prompt;
}

void RequestMaker::add_prompt() {
  if (!setup_.texts.empty() && one_in(4)) {
    const std::string prompt = text();
    const std::vector<Token> tokens = setup_.tokenizer->encode(prompt);
    if (fits(tokens)) {
      prompts_.push_back(tokens);
      body_["prompt"] = prompt;
      return;
    }
  }
  prompts_.push_back(tokens());
  if (one_in(8)) {
    prompts_.push_back(tokens());
    body_["prompt"] = prompts_;
  } else {
    body_["prompt"] = prompts_.front();
  }
}

void RequestMaker::add_chat() {
  std::vector<PlannedMessage> messages;
  const int turns = from(1, 2);
  for (int i = 0; i < turns; ++i) {
    if (i > 0) messages.push_back({"assistant", text()});
    messages.push_back({"user", text()});
  }
  body_["messages"] = PlanJson::array();
  for (const PlannedMessage& message : messages) {
    body_["messages"].push_back({{"role", message.role}, {"content", message.content}});
  }
  if (setup_.trie != nullptr && one_in(2)) add_tools();
  add_conversation();
  if (fits(prompts_.front())) return;
  made_.chat = false;
  made_.format = {};
  made_.terms = {};
  made_.shown.clear();
  conversation_.reset();
  prompts_.clear();
  for (const char* const field : {"messages", "tools", "tool_choice", "parallel_tool_calls"}) body_.erase(field);
  add_prompt();
}

/// A client that goes away leaves an answer that would have gone on, so it has none that a grammar may end.
void RequestMaker::add_tools() {
  body_["tools"] = PlanJson::parse(planned_tools);
  if (made_.cancel_after > 0) return;
  switch (below(8)) {
    case 0: break;
    case 1: body_["tool_choice"] = "none"; break;
    case 2:
    case 3:
    case 4: body_["tool_choice"] = "required"; break;
    case 5:
    case 6: body_["tool_choice"] = {{"type", "function"}, {"function", {{"name", "go"}}}}; break;
    default: body_["tools"][0]["function"]["strict"] = true;
  }
  if (one_in(3)) body_["parallel_tool_calls"] = false;
}

/// Reads the messages and tools as the server does.
void RequestMaker::add_conversation() {
  serve::ServedModel model;
  model.name = setup_.model;
  model.tokenizer = setup_.tokenizer;
  model.chat = setup_.chat;
  const auto read = [&] {
    conversation_ = serve::read_conversation(Json::parse(body_.dump(), "a request of the plan"), model);
  };
  try {
    read();
  } catch (const Error&) {  // the template has no place for tools
    for (const char* const field : {"tools", "tool_choice", "parallel_tool_calls"}) body_.erase(field);
    read();
  }
  prompts_.push_back(conversation_->prompt);
  made_.format = conversation_->format;
  made_.terms = conversation_->terms;
  made_.shown = shown_tokens(made_.format, *setup_.tokenizer);
}

/// One of the samplers that only some requests have.
void RequestMaker::add_sampler(Sampling& sampling) {
  const auto tenths = [&](int min, int max) { return static_cast<float>(from(min, max)) / 10; };
  switch (below(8)) {
    case 0: sampling.top_n_sigma = tenths(5, 20); break;
    case 1: sampling.typical_p = tenths(3, 9); break;
    case 2: sampling.dynatemp_range = tenths(1, 5); break;
    case 3:
      sampling.xtc_probability = tenths(2, 10);
      sampling.xtc_threshold = tenths(1, 3);
      break;
    case 4:
      sampling.dry_multiplier = tenths(4, 12);
      if (setup_.tokenizer != nullptr) {
        sampling.dry_breakers = breaking_tokens(*setup_.tokenizer, default_breakers());
      }
      break;
    case 5:
      sampling.mirostat = 2;
      sampling.mirostat_tau = tenths(20, 60);
      sampling.apply_mirostat_alone();
      break;
    case 6: sampling.adaptive_target = tenths(2, 8); break;
    default: body_["samplers"] = "llama.cpp"; sampling.apply_named({"llama.cpp"});
  }
}

/// Words that the answer does not have, as vLLM has them, and stop tokens that do not end it yet.
void RequestMaker::add_bans() {
  if (made_.cancel_after > 0 || setup_.texts.empty() || !one_in(6)) return;
  const int min_tokens = from(0, 8);
  body_["min_tokens"] = min_tokens;
  std::vector<std::vector<Token>> words;
  if (one_in(2)) {
    constexpr std::array<const char*, 4> banned = {"the", "er", ".", "a"};
    const std::string word = one_of(banned);
    body_["bad_words"] = {word};
    words = {setup_.tokenizer->encode(word, false), setup_.tokenizer->encode(" " + word, false)};
  }
  if (min_tokens == 0 && words.empty()) return;
  like_.constraint = std::make_shared<Bans>(like_.constraint, setup_.vocabulary, like_.stops, min_tokens, words);
}

/// The fields that say how tokens are drawn, without those that ask for what is the default.
void RequestMaker::add_sampling() {
  Sampling& sampling = like_.sampling;
  sampling = serve::default_sampling();
  const auto hundredths = [&](int min, int max) { return static_cast<float>(from(min, max)) / 100; };
  const auto tenths = [&](int min, int max) { return static_cast<float>(from(min, max)) / 10; };
  switch (below(7)) {
    case 0:
    case 1: sampling.temperature = 0; break;
    case 2: break;
    case 3:
      sampling.temperature = 0.8F;
      sampling.top_k = from(1, 40);
      break;
    case 4: sampling.top_p = static_cast<float>(from(10, 19)) / 20; break;
    case 5:
      sampling.temperature = 1.3F;
      sampling.min_p = hundredths(1, 20);
      break;
    default:
      sampling.temperature = 0.7F;
      sampling.top_k = 40;
      sampling.top_p = 0.95F;
      sampling.min_p = 0.01F;
  }
  if (one_in(4)) {
    sampling.presence_penalty = tenths(-5, 10);
    sampling.frequency_penalty = tenths(-5, 10);
    if (one_in(2)) sampling.repeat_penalty = 1.1F;
    if (one_in(2)) sampling.repeat_last_n = from(0, 32);
  }
  if (one_in(3)) add_sampler(sampling);
  for_each_sampling_field([&](const auto& field) {
    const auto value = sampling.*field.member;
    if (value == serve::default_sampling().*field.member) return;
    body_[field.api_name] = PlanJson::parse(fmt::format("{}", value));  // 0.8, without the digits of its double
  });
  if (one_in(4)) {
    PlanJson biases = PlanJson::object();
    for (int i = from(1, 3); i > 0; --i) {
      const double bias = 0.5 * from(-10, 6);
      const int token = below(setup_.vocabulary);
      if (biases.contains(std::to_string(token))) continue;
      biases[std::to_string(token)] = bias;
      sampling.logit_bias.push_back({token, static_cast<float>(bias)});
    }
    body_["logit_bias"] = std::move(biases);
  }
}

/// Where the answer ends.
void RequestMaker::add_end() {
  std::size_t longest = 0;
  for (const auto& prompt : prompts_) longest = std::max(longest, prompt.size());
  const int max = std::min(setup_.max_new_tokens, setup_.context - static_cast<int>(longest));
  // A client that goes away leaves an answer that would have gone on.
  like_.max_new_tokens = made_.cancel_after > 0 ? max : one_in(12) ? 0 : from(1, max);
  body_[made_.chat ? "max_completion_tokens" : "max_tokens"] = like_.max_new_tokens;
  if (made_.cancel_after > 0 || one_in(3)) {
    body_["ignore_eos"] = true;
  } else {
    like_.stops = setup_.stops;
  }
  if (setup_.texts.empty() || made_.cancel_after > 0 || !one_in(4)) return;
  constexpr std::array<const char*, 6> ends = {" the", ".", "er", ", and", "\n", "s t"};
  made_.stop_strings.emplace_back(one_of(ends));
  if (one_in(2)) made_.stop_strings.emplace_back(one_of(ends));
  body_["stop"] = made_.stop_strings;
}

/// How the answer is told.
void RequestMaker::add_form() {
  if (made_.stream) body_["stream"] = true;
  if (made_.stream && one_in(2)) body_["stream_options"] = {{"include_usage", true}};
  body_["return_tokens"] = true;
  if (!made_.speculative) body_["speculative"] = false;
  like_.prompt_logprobs = !made_.chat && one_in(6);
  like_.logprobs = one_in(3);
  if (like_.logprobs || like_.prompt_logprobs) like_.top_logprobs = from(0, 5);
  if (like_.prompt_logprobs) body_["prompt_logprobs"] = like_.top_logprobs;
  if (!like_.logprobs) return;
  if (!made_.chat) {
    body_["logprobs"] = like_.top_logprobs;
  } else {
    body_["logprobs"] = true;
    body_["top_logprobs"] = like_.top_logprobs;
  }
}

/// What the answer may be. A client that goes away leaves an answer that would have gone on, so it has none.
void RequestMaker::add_constraint() {
  if (!setup_.trie || made_.cancel_after > 0) return;
  const auto strict = [](const Tool& tool) { return tool.strict; };
  const bool held =
      conversation_ && (conversation_->calls.choice == CallChoice::forced ||
                        (conversation_->calls.choice == CallChoice::free &&
                         (!conversation_->calls.several || std::ranges::any_of(conversation_->calls.tools, strict))));
  std::optional<std::string> gbnf;
  if (!held && one_in(4)) gbnf = add_grammar();
  if (conversation_) {
    gbnf = answer_gbnf(conversation_->format, conversation_->terms.thinking, conversation_->calls, gbnf,
                       *setup_.tokenizer);
  }
  if (!gbnf) return;
  made_.has_grammar = true;
  like_.constraint = std::make_shared<GrammarConstraint>(
      std::make_shared<const Grammar>(Grammar::from_gbnf(*gbnf, "the grammar of a request")), setup_.trie, like_.stops);
}

/// Returns the grammar of the content.
std::string RequestMaker::add_grammar() {
  std::string gbnf;
  switch (below(3)) {
    case 0:
      gbnf = one_of(planned_grammars);
      body_["grammar"] = gbnf;
      break;
    case 1:
      gbnf = json_object_gbnf();
      body_["response_format"] = {{"type", "json_object"}};
      break;
    default: {
      const char* const schema = one_of(planned_schemas);
      gbnf = schema_to_gbnf(Json::parse(schema, "the schema of a request"));
      body_["response_format"] = {{"type", "json_schema"},
                                  {"json_schema", {{"name", "planned"}, {"schema", PlanJson::parse(schema)}}}};
    }
  }
  return gbnf;
}

void RequestMaker::add_choices() {
  constexpr std::array<int, 4> counts = {1, 1, 2, 3};
  const int each = one_of(counts);
  if (each > 1) body_["n"] = each;
  for (const std::vector<Token>& prompt : prompts_) {
    like_.prompt = prompt;
    for (int i = 0; i < each; ++i) {
      made_.choices.push_back(like_);
      ++like_.sequence;
    }
  }
  made_.prompts = static_cast<int>(prompts_.size());
}

EndpointRequest RequestMaker::make() {
  constexpr std::uint64_t seeds = std::uint64_t{1} << 53;  // as many as a double counts, as some clients do
  made_.number = number_;
  body_["model"] = setup_.model;
  made_.chat = setup_.chat != nullptr && one_in(4);
  if (one_in(5)) made_.cancel_after = from(1, 6);
  made_.stream = made_.cancel_after > 0 || !one_in(3);
  made_.speculative = !one_in(4);
  if (made_.chat) add_chat();
  else add_prompt();
  made_.seed = draws_.below({number_, draws_made_++, Purpose::target}, seeds);
  body_["seed"] = made_.seed;
  add_end();
  add_sampling();
  add_form();
  add_constraint();
  add_bans();
  add_choices();
  made_.body = body_.dump();
  return std::move(made_);
}

/// Beginnings of prompts that several requests share.
std::vector<std::vector<Token>> make_stems(const EndpointSetup& setup) {
  constexpr int stems = 4;
  constexpr int request = 0;  // the numbers of requests begin with 1
  PhiloxSource draws(setup.seed);
  int made = 0;
  const auto below = [&](std::size_t bound) {
    return static_cast<std::size_t>(draws.below({request, made++, Purpose::target}, bound));
  };
  std::vector<std::vector<Token>> list;
  for (int i = 0; i < stems; ++i) {
    const std::size_t length =
        std::max<std::size_t>(1, std::min<std::size_t>(24 + below(105), static_cast<std::size_t>(setup.context) / 3));
    const std::size_t all = i == stems - 1 ? 0 : setup.tokens.size();
    const std::size_t first = all > length ? below(all - length) : 0;
    std::vector<Token> stem;
    for (std::size_t at = first; stem.size() < length; ++at) {
      stem.push_back(at < all ? setup.tokens[at]
                              : static_cast<Token>(below(static_cast<std::size_t>(setup.vocabulary))));
    }
    list.push_back(std::move(stem));
  }
  return list;
}

}  // namespace

std::vector<EndpointRequest> endpoint_plan(const EndpointSetup& setup) {
  const auto stems = make_stems(setup);
  std::vector<EndpointRequest> plan;
  for (int number = 1; number <= setup.requests; ++number) {
    plan.push_back(RequestMaker(setup, stems, number).make());
  }
  return plan;
}

bool spells_every_text(const TokenTrie& trie) {
  std::bitset<256> alone;
  for (const Token token : trie.tree().tokens()) {
    const std::string_view bytes = trie.bytes(token);
    if (bytes.size() == 1) alone.set(static_cast<unsigned char>(bytes[0]));
  }
  const auto in_utf8 = [](std::size_t byte) { return byte < 0xc0 || (byte > 0xc1 && byte < 0xf5); };
  for (std::size_t byte = ' '; byte < alone.size(); ++byte) {
    if (in_utf8(byte) && byte != 0x7f && !alone[byte]) return false;
  }
  return alone['\n'];
}

bool prints_the_time(const ChatTemplate& chat) {
  const auto printed = [&](std::tm now) {
    Chat one;
    one.messages = jinja::Value::list({chat_message("user", "?")});
    one.now = now;
    return text_of(chat.render(one));
  };
  std::tm later{};
  later.tm_sec = 1;
  later.tm_min = 1;
  later.tm_hour = 1;
  later.tm_mday = 2;
  later.tm_mon = 1;
  later.tm_year = 1;
  later.tm_wday = 1;
  later.tm_yday = 32;
  return printed({}) != printed(later);
}

}  // namespace draftproof
