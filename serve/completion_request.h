// SPDX-License-Identifier: MIT
// What a request of OpenAI's API asks. HTTP is serve/server.h, the answer serve/answer_writer.h.
//
// The fields are rows of request_fields.h. Those of a wrong type are errors that name the field. Fields beyond OpenAI's
// API: top_k, min_p, repetition_penalty, repeat_last_n, ignore_eos, stop_token_ids, chat_template_kwargs, and
//     structured_outputs   vLLM's; `json`, `grammar` or `choice`
//     grammar         GBNF that the answer has to follow, in place of response_format
//     prediction      as in chats; its content may be token ids
//     reasoning_format  none: what the model thinks is content, too
//     thinking_budget_tokens  after so many tokens of thoughts their end is written
//     echo            of completions: the text begins with the prompt, and `logprobs` are those of its tokens, too
//     prompt_logprobs vLLM's; as many as `logprobs` or top_logprobs, where both are asked for
//     speculative     false: this request is decoded plainly, which gives the same answer
//     return_tokens   every part of the answer has "round": the tokens of one decoding round
#pragma once

#include <map>
#include <memory>
#include <string>
#include <vector>

#include "ref/answers/part_reader.h"
#include "ref/chat/chat_template.h"
#include "ref/grammar/token_trie.h"
#include "ref/text/tokenizer.h"
#include "serve/service.h"

namespace draftproof::serve {

/// What requests and their answers need to know of the model that is served.
struct ServedModel {
  std::string name;
  std::string draft;                     // its name, which anyone may know: without the folders of this machine
  std::string fingerprint;               // of what can change a bit of an answer: the numerics class
  std::string weights = {};              // identifies the files of the target by their content; empty: not stated
  const Tokenizer* tokenizer = nullptr;  // nullptr: prompts are token ids, and answers have no text
  const ChatTemplate* chat = nullptr;    // nullptr: no chats
  std::shared_ptr<const TokenTrie> tokens = nullptr;  // nullptr: no grammars
  std::vector<Token> stops;
  int vocabulary = 0;
  int context = 0;
  int max_new_tokens = 0;  // of an answer whose request does not say
};

/// A model in a list.
struct ListedModel {
  const ServedModel* model;
  bool loaded;
};

/// Part of the sentence about a prompt that is too long, which clients of OpenAI's API know by a code.
inline constexpr const char* beyond_context = ", and the context of the model has ";

struct CompletionRequest {
  bool chat = false;
  bool stream = false;
  bool include_usage = false;  // in a stream
  bool return_tokens = false;
  std::vector<std::string> echo = {};  // of a completion: what the answers to each prompt begin with
  bool tell_prompt = false;            // the log-probabilities of the prompt, as vLLM tells them
  int prompts = 1;                     // the choices of a job are those of the first prompt, then those of the next
  AnswerFormat format = {};
  AnswerTerms terms = {};  // what answers consist of besides content, if it is told apart
  bool include_thoughts = true;
  Job job;
};

/// What a request asks for that says nothing about sampling: the values of OpenAI's API, and penalties that see the
/// whole text.
Sampling default_sampling();

/// Read the body of a request. Throw Error, with a sentence for the client. `names`: what it calls fields, where it
/// calls them otherwise.
CompletionRequest read_chat(const std::string& body, const ServedModel& model,
                            const std::map<std::string, std::string>& names = {});
CompletionRequest read_completion(const std::string& body, const ServedModel& model,
                                  const std::map<std::string, std::string>& names = {});

/// The texts of /tokenize, and the tokens of /detokenize, with the fields of llama-server. Throw Error.
std::vector<Token> read_tokenize(const std::string& body, const ServedModel& model);
std::string read_detokenize(const std::string& body, const ServedModel& model);

}  // namespace draftproof::serve
