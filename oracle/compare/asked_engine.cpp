// SPDX-License-Identifier: MIT
#include "oracle/compare/asked_engine.h"

#include <fmt/format.h>

#include <algorithm>

namespace draftproof {
namespace {

/// Calls visit(name, value as text) for every field that the request sets.
template <class Visit>
void for_each_set_field(const EngineRequest& request, const Visit& visit) {
  const Sampling unset = EngineRequest().sampling;
  for_each_sampling_field([&](const auto& field) {
    const auto value = request.sampling.*field.member;
    if (value != unset.*field.member) visit(field.name, fmt::format("{}", value));
  });
  const auto set = [&](const char* name, bool is_set, const std::string& value) {
    if (is_set) visit(name, value);
  };
  const auto number = [](auto value) { return fmt::format("{}", value); };
  set("logit_bias", !request.sampling.logit_bias.empty(), number(request.sampling.logit_bias.size()));
  set("banned_tokens", !request.banned.empty(), number(request.banned.size()));
  set("min_tokens", request.min_tokens > 0, number(request.min_tokens));
  set("stop_tokens", !request.stop_tokens.empty(), number(request.stop_tokens.size()));
  set("stop", !request.stop_strings.empty(), number(request.stop_strings.size()));
  set("logprobs", request.logprobs.has_value(), number(request.logprobs.value_or(0)));
  set("json_schema", !request.json_schema.empty(), "");
  set("grammar", !request.grammar.empty(), "");
  set("seed", request.seed.has_value(), number(request.seed.value_or(0)));
  set("session", !request.session.empty(), "");
  set("choices", request.choices != 1, number(request.choices));
  set("stream", request.stream, "");
  set("cancel_after", request.cancel_after > 0, number(request.cancel_after));
}

}  // namespace

std::string AskedEngine::spelled(std::span<const Token> tokens) const {
  std::string text;
  for (const Token token : tokens) text += (text.empty() ? "" : " ") + std::to_string(token);
  return text;
}

std::set<std::string> fields_of(const EngineRequest& request) {
  std::set<std::string> fields;
  for_each_set_field(request, [&](const char* name, const std::string&) { fields.insert(name); });
  return fields;
}

bool can_ask(const AskedEngine& engine, const EngineRequest& request) {
  return std::ranges::all_of(fields_of(request), [&](const std::string& field) { return engine.supports(field); });
}

std::string settings_of(const EngineRequest& request) {
  std::string settings;
  for_each_set_field(request, [&](const std::string& name, const std::string& value) {
    settings += (settings.empty() ? "" : ", ") + name + (value.empty() ? "" : " " + value);
  });
  return settings.empty() ? "greedy" : settings;
}

}  // namespace draftproof
