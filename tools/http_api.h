// SPDX-License-Identifier: MIT
// The HTTP interfaces of engines: what a request is in each, and what an answer says. One row of a table for each.
#pragma once

#include <map>
#include <memory>
#include <mutex>
#include <nlohmann/json_fwd.hpp>
#include <set>
#include <string>
#include <string_view>
#include <vector>

#include "oracle/compare/asked_engine.h"

namespace draftproof {

/// Strings that stand for tokens where an interface gives no ids: numbers from 256 on, below are bytes of text. Shared
/// by the engines that are compared and their clients' threads, so that equal strings have equal numbers.
class TokenNames {
 public:
  Token number(const std::string& name);
  /// Bytes and names of such numbers.
  std::string text(std::span<const Token> tokens) const;

 private:
  static constexpr Token first = 256;
  mutable std::mutex mutex_;
  std::map<std::string, Token> numbers_;
  std::vector<std::string> names_;
};

/// How one engine is asked over HTTP.
struct HttpApi {
  const char* name;                          // as --api takes it
  const char* path;                          // of a request
  bool token_ids;                            // takes and returns ids of the model's tokens
  std::set<std::string, std::less<>> takes;  // names of fields, as fields_of returns them
  nlohmann::ordered_json (*body)(const EngineRequest& request, const std::string& model);
  /// Reads a whole answer, or one event of a stream, into an answer. Throws Error, which begins with "it", for what is
  /// none.
  void (*read)(const nlohmann::ordered_json& json, TokenNames& names, EngineAnswer& answer);
  const char* tokenize;                         // a path that turns a text into tokens; empty: there is none
  std::vector<std::string> sampler_order = {};  // as in docs/spectrace.md; empty: not known
};

const std::vector<HttpApi>& http_apis();
std::vector<std::string> names_of_http_apis();

/// Puts text in the place of units that nothing names, once an answer is whole.
void finish_units(EngineAnswer& answer);

}  // namespace draftproof
