// SPDX-License-Identifier: MIT
#include "oracle/compare/request_matrix.h"

#include <algorithm>
#include <map>
#include <utility>

#include "ref/base/error.h"

namespace draftproof {
namespace {

using Change = std::function<bool(EngineRequest&, const EngineText&)>;

/// The same change for every text.
template <class Set>
Change always(Set set) {
  return [set](EngineRequest& request, const EngineText&) {
    set(request);
    return true;
  };
}

/// The token that the text has most often, of equals the first.
std::optional<Token> commonest(const EngineText& text) {
  std::map<Token, int> counts;
  for (const Token token : text.tokens) ++counts[token];
  const auto found = std::ranges::max_element(text.tokens, {}, [&](Token token) { return counts[token]; });
  return found == text.tokens.end() ? std::nullopt : std::optional(*found);
}

/// `length` bytes of the text from a third of it on; empty when it is too short, or would cut a character.
std::string piece_of(const EngineText& text, std::size_t length) {
  const std::string& all = text.text ? *text.text : "";
  const std::size_t begin = all.size() / 3;
  if (begin == 0 || begin + length > all.size()) return "";
  const std::string piece = all.substr(begin, length);
  const bool ascii = std::ranges::all_of(piece, [](char c) { return c >= ' ' && c < 127; });
  const bool blank = piece.find_first_not_of(' ') == std::string::npos;
  return ascii && !blank && all.find(piece) == begin ? piece : "";
}

Change stop_at_piece(std::size_t longest) {
  return [longest](EngineRequest& request, const EngineText& plain) {
    for (std::size_t length = longest; length > 0; --length) {
      if (const std::string piece = piece_of(plain, length); !piece.empty()) {
        request.stop_strings = {piece};
        return true;
      }
    }
    return false;
  };
}

Change with_token(std::function<void(EngineRequest&, Token)> set) {
  return [set = std::move(set)](EngineRequest& request, const EngineText& plain) {
    const std::optional<Token> token = commonest(plain);
    if (token) set(request, *token);
    return token.has_value();
  };
}

/// At temperature 1, where the draws of a seed are not the same for every engine.
template <class Set>
Change sampled(Set set) {
  return always([set](EngineRequest& request) {
    request.sampling.temperature = 1;
    set(request.sampling);
  });
}

constexpr const char* digits_schema = R"({"type":"object","properties":{"n":{"type":"integer"}},"required":["n"]})";

std::vector<MatrixCase> all_certain_cases() {
  return {
      {"one token", always([](EngineRequest& r) { r.max_new_tokens = 1; })},
      {"two tokens", always([](EngineRequest& r) { r.max_new_tokens = 2; })},
      {"seven tokens", always([](EngineRequest& r) { r.max_new_tokens = 7; })},
      {"top_k 1", sampled([](Sampling& s) { s.top_k = 1; })},
      {"repeat_penalty", always([](EngineRequest& r) { r.sampling.repeat_penalty = 1.3f; })},
      {"presence_penalty", always([](EngineRequest& r) { r.sampling.presence_penalty = 0.9f; })},
      {"frequency_penalty", always([](EngineRequest& r) { r.sampling.frequency_penalty = 0.6f; })},
      {"all penalties", always([](EngineRequest& r) {
         r.sampling.repeat_penalty = 1.2f;
         r.sampling.presence_penalty = 0.3f;
         r.sampling.frequency_penalty = 0.2f;
       })},
      {"logit_bias", with_token([](EngineRequest& r, Token token) {
         r.sampling.logit_bias = {{token, -6}};
       })},
      {"banned tokens", with_token([](EngineRequest& r, Token token) { r.banned = {token}; })},
      {"stop token", with_token([](EngineRequest& r, Token token) { r.stop_tokens = {token}; })},
      {"min_tokens", with_token([](EngineRequest& r, Token token) {
         r.stop_tokens = {token};
         r.min_tokens = 12;
       })},
      {"short stop string", stop_at_piece(2)},
      {"long stop string", stop_at_piece(9)},
      {"logprobs 0", always([](EngineRequest& r) { r.logprobs = 0; })},
      {"logprobs 5", always([](EngineRequest& r) { r.logprobs = 5; })},
      {"JSON schema", always([](EngineRequest& r) { r.json_schema = digits_schema; })},
      {"grammar", always([](EngineRequest& r) { r.grammar = "root ::= [a-z ]+ [.]"; })},
      {"two choices", always([](EngineRequest& r) { r.choices = 2; })},
      {"stream", always([](EngineRequest& r) { r.stream = true; })},
  };
}

std::vector<MatrixCase> all_sampled_cases() {
  return {
      {"temperature 1", sampled([](Sampling&) {})},
      {"top_k 5", sampled([](Sampling& s) { s.top_k = 5; })},
      {"top_p 0.7", sampled([](Sampling& s) { s.top_p = 0.7f; })},
      {"min_p 0.1", sampled([](Sampling& s) { s.min_p = 0.1f; })},
      {"temperature 0.8, top_k 20, top_p 0.9", sampled([](Sampling& s) {
         s.temperature = 0.8f;
         s.top_k = 20;
         s.top_p = 0.9f;
       })},
      {"temperature 1, repeat_penalty 1.3", sampled([](Sampling& s) { s.repeat_penalty = 1.3f; })},
  };
}

bool among(const std::vector<std::string>& names, const MatrixCase& one) {
  return std::ranges::find(names, one.name) != names.end();
}

std::vector<MatrixCase> picked(std::vector<MatrixCase> cases, const std::vector<std::string>& names) {
  if (!names.empty()) std::erase_if(cases, [&](const MatrixCase& one) { return !among(names, one); });
  return cases;
}

}  // namespace

std::vector<MatrixCase> certain_cases(const std::vector<std::string>& names) {
  return picked(all_certain_cases(), names);
}

std::vector<MatrixCase> sampled_cases(const std::vector<std::string>& names) {
  return picked(all_sampled_cases(), names);
}

void require_cases(const std::vector<std::string>& names) {
  std::string all;
  std::vector<std::string> known;
  for (const std::vector<MatrixCase>& cases : {all_certain_cases(), all_sampled_cases()}) {
    for (const MatrixCase& one : cases) {
      known.push_back(one.name);
      all += (all.empty() ? "" : "; ") + one.name;
    }
  }
  for (const std::string& name : names) {
    if (std::ranges::find(known, name) == known.end())
      throw Error("there is no case '" + name + "'; give one of: " + all);
  }
}

}  // namespace draftproof
