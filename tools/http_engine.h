// SPDX-License-Identifier: MIT
// An engine behind HTTP, as compare_engines asks it.
#pragma once

#include <chrono>
#include <memory>
#include <string>

#include "oracle/compare/asked_engine.h"
#include "ref/text/tokenizer.h"
#include "tools/http_api.h"

namespace draftproof {

struct HttpEngineOptions {
  std::string url;
  std::string api;  // a name of http_apis(); "auto": asks the server what it is
  std::string api_key;
  std::string role;                     // "plain": for people
  std::chrono::seconds limit{120};      // of an answer
  const Tokenizer* spelling = nullptr;  // of the target, for people; may be nullptr
};

class HttpEngine : public AskedEngine {
 public:
  /// Throws Error when the server cannot be reached or is none of these.
  HttpEngine(const HttpEngineOptions& options, std::shared_ptr<TokenNames> names);

  std::string name() const override;
  bool supports(std::string_view field) const override;
  std::vector<EngineAnswer> ask(std::span<const EngineRequest> requests) override;
  std::string repeat(const EngineRequest& request) const override;
  std::string spelled(std::span<const Token> tokens) const override;
  bool knows_tokens() const override;
  std::vector<std::string> sampler_order() const override { return api_->sampler_order; }

  const HttpApi& api() const noexcept { return *api_; }
  /// The length of its model's context; 0: it does not say.
  int context() const noexcept { return context_; }
  /// The server's tokens of a text; nullopt: it has no path for that.
  std::optional<std::vector<Token>> tokenize(const std::string& text) const;

 private:
  EngineAnswer ask_one(const EngineRequest& request) const;
  void find_api();
  void find_context();

  HttpEngineOptions options_;
  std::shared_ptr<TokenNames> names_;
  std::string address_;
  std::string model_;
  const HttpApi* api_ = nullptr;
  int context_ = 0;
};

}  // namespace draftproof
