// SPDX-License-Identifier: MIT
// What `verify --endpoint` asks a server: a list of requests that depends on a seed, the model and the given texts
// only. Each is there twice: as the JSON that is sent, and as the requests that plain decoding answers here.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "ref/answers/part_reader.h"
#include "ref/chat/chat_template.h"
#include "ref/decoding/request.h"
#include "ref/grammar/token_trie.h"
#include "ref/text/tokenizer.h"

namespace draftproof {

/// What the plan is made of.
struct EndpointSetup {
  int requests = 0;
  std::uint64_t seed = 0;
  int max_new_tokens = 0;  // of an answer, at most
  std::string model;       // as the server names it
  int vocabulary = 0;
  int context = 0;
  std::vector<Token> stops;
  const Tokenizer* tokenizer = nullptr;             // nullptr: token ids only
  std::shared_ptr<const TokenTrie> trie = nullptr;  // of the tokenizer; nullptr: no grammars
  const ChatTemplate* chat = nullptr;               // nullptr: no chats
  std::vector<std::string> texts;                   // that prompts are taken from; empty without a tokenizer
  std::vector<Token> tokens;                        // the same as tokens; empty: any tokens of the vocabulary
};

struct EndpointRequest {
  int number = 0;  // from 1
  bool chat = false;
  bool stream = false;
  bool speculative = true;
  bool has_grammar = false;  // or a schema
  int cancel_after = 0;      // chunks, after which the client goes away; 0: never
  std::uint64_t seed = 0;
  std::vector<std::string> stop_strings;
  std::vector<Request> choices;  // `n` of the first prompt, then those of the next
  int prompts = 1;
  std::string body;
  AnswerFormat format = {};  // of the answer of a chat
  AnswerTerms terms = {};
  std::vector<Token> shown = {};  // special tokens that its text has

  const char* path() const noexcept { return chat ? "/v1/chat/completions" : "/v1/completions"; }
};

std::vector<EndpointRequest> endpoint_plan(const EndpointSetup& setup);

/// Whether the tokens can spell every text. Otherwise a grammar may come to where it wants a byte that no token has.
bool spells_every_text(const TokenTrie& trie);

/// Whether what the template prints depends on the time; then two machines may print different texts.
bool prints_the_time(const ChatTemplate& chat);

}  // namespace draftproof
