// SPDX-License-Identifier: MIT
// An engine that is compared with itself: plain against speculative. Whatever runs it (an HTTP server, a Python
// callable) is behind one interface; what it does wrong comes back as a value.
#pragma once

#include <cstdint>
#include <optional>
#include <set>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "ref/decoding/request.h"
#include "ref/decoding/trace.h"

namespace draftproof {

/// A request as an engine is asked it. Fields at their defaults are not sent, and need not be supported.
struct EngineRequest {
  std::vector<Token> prompt;  // empty: the prompt is `text`
  std::string text;
  int max_new_tokens = 32;
  Sampling sampling = {.temperature = 0, .repeat_last_n = -1};  // penalties see the whole text
  std::vector<Token> banned;                                    // tokens that must not be written
  int min_tokens = 0;                                           // no stop token before so many
  std::vector<Token> stop_tokens;                               // beside the model's own
  std::vector<std::string> stop_strings;
  std::optional<int> logprobs;  // of each token, and of so many of the most likely ones
  std::string json_schema;
  std::string grammar;  // GBNF
  std::optional<std::uint64_t> seed;
  std::string session;  // requests of one session may share a kept prompt cache: the turns of a chat
  int choices = 1;
  bool stream = false;
  int cancel_after = 0;  // chunks of a stream, after which the client goes away; 0: never
};

/// One text of an answer. What the engine does not say is empty, or -1.
struct EngineText {
  std::vector<Token> tokens;  // or units of a text whose tokens are not known
  std::optional<std::string> text;
  std::string finish;  // "stop", "length", ...
  std::string stop_string;
  std::vector<double> logprobs;
  std::vector<std::vector<TokenLogprob>> top_logprobs;
};

struct EngineAnswer {
  std::vector<EngineText> texts = {};  // one for each choice
  std::string error = {};              // with which the engine refused or failed; empty: it did not
  bool refused = false;                // the error says that the request is not supported
  bool broken = false;                 // ... that the engine is gone, or gave no answer in time
  long prompt_tokens = -1;
  long completion_tokens = -1;
  long drafted = -1;  // draft tokens that were verified
  long accepted = -1;
  double seconds = 0;

  bool answered() const noexcept { return error.empty() && !texts.empty(); }
};

class AskedEngine {
 public:
  virtual ~AskedEngine() = default;
  /// For people.
  virtual std::string name() const = 0;
  /// Whether requests may set a field: a name that fields_of returns.
  virtual bool supports(std::string_view field) const = 0;
  /// Returns an answer for each request. They are asked together: batched, or by so many clients.
  virtual std::vector<EngineAnswer> ask(std::span<const EngineRequest> requests) = 0;
  /// Returns a command line, or lines of code, that repeat a request; empty where there is none.
  virtual std::string repeat(const EngineRequest& request) const = 0;
  /// Returns tokens as text, or as their numbers.
  virtual std::string spelled(std::span<const Token> tokens) const;
  /// Names of samplers in the order of application, as in docs/spectrace.md; empty: not known.
  virtual std::vector<std::string> sampler_order() const { return {}; }
  /// Whether tokens of answers are the model's, so that they may go into prompts.
  virtual bool knows_tokens() const { return true; }
};

/// Names of the fields that a request sets beside prompt and max_new_tokens.
std::set<std::string> fields_of(const EngineRequest& request);
/// Whether the engine supports all of them.
bool can_ask(const AskedEngine& engine, const EngineRequest& request);
/// The fields in words: "temperature 1, top_k 5"; "greedy" for none.
std::string settings_of(const EngineRequest& request);

}  // namespace draftproof
