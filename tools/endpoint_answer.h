// SPDX-License-Identifier: MIT
// An answer of a server, and where it differs from plain decoding of the same request.
#pragma once

#include <nlohmann/json_fwd.hpp>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "oracle/plain/plain.h"
#include "tools/endpoint_plan.h"

namespace draftproof {

/// A choice of an answer, as far as it was received.
struct ReceivedChoice {
  std::vector<Token> tokens;
  std::vector<std::string> token_texts;
  std::vector<std::string> logprobs;         // of each token, with the most likely ones: JSON, compared as text
  std::vector<std::string> prompt_logprobs;  // the same of each of the prompt's tokens
  std::string text;                          // of a chat: its content
  std::string thought;                       // of a chat
  std::string calls;                         // of a chat: NAME(ARGUMENTS), one after the other
  std::string finish;                        // empty: it has not ended
  int drafted = 0;
  int accepted = 0;
};

struct ReceivedAnswer {
  std::vector<ReceivedChoice> choices;
  bool cancelled = false;  // the client went away
  bool ended = false;      // nothing is missing
  std::string error;       // with which the server gave up; empty: it did not
  int prompt_tokens = -1;  // as the server counts them; -1: it did not say
  int completion_tokens = -1;
};

/// The message of the body of an error; nullopt: it is none.
std::optional<std::string> error_message_in(std::string_view body);

/// Puts an answer together. Throws Error, with a sentence, for what is not an answer of this API.
class AnswerReader {
 public:
  explicit AnswerReader(const EndpointRequest& request);

  /// Takes the data of an event of a stream.
  void read_event(std::string_view data);
  /// Takes a whole answer.
  void read_whole(std::string_view body);
  /// The server gives up.
  void fail(std::string message) { answer_.error = std::move(message); }
  /// The client goes away.
  void cancel() noexcept { answer_.cancelled = true; }

  int chunks() const noexcept { return chunks_; }
  const ReceivedAnswer& answer() const noexcept { return answer_; }

 private:
  using Json = nlohmann::ordered_json;
  void read(std::string_view text, void (AnswerReader::*read)(const Json& answer));
  void read_chunk(const Json& chunk);
  void read_answer(const Json& answer);
  ReceivedChoice& begin_choice(const Json& choice);
  void read_message(ReceivedChoice& choice, const Json& message) const;
  void read_round(ReceivedChoice& choice, const Json& round) const;
  void read_logprobs(ReceivedChoice& choice, const Json& logprobs) const;
  static void read_prompt_logprobs(ReceivedChoice& choice, const Json& places);
  void read_usage(const Json& answer);

  const EndpointRequest& request_;
  ReceivedAnswer answer_;
  int chunks_ = 0;
};

struct EndpointDivergence {
  int request = 0;
  int choice = -1;   // -1: it concerns the whole answer
  int place = -1;    // of the token, from 0; -1: it concerns the whole choice
  std::string what;  // "token", "finish reason", ...
  std::string expected;
  std::string received;
};

/// Decodes the choice plainly, as far as it was received, and returns where it differs.
std::optional<EndpointDivergence> find_divergence(const EndpointRequest& request, const ReceivedAnswer& answer,
                                                  std::size_t choice, Model& target, const Tokenizer* tokenizer);
/// Where the answer differs beside its choices.
std::optional<EndpointDivergence> find_divergence(const EndpointRequest& request, const ReceivedAnswer& answer);

}  // namespace draftproof
