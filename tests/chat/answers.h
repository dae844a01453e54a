// SPDX-License-Identifier: MIT
// What transformers answered (fixtures/external/chat-templates), and what we answer.
#pragma once

#include <filesystem>
#include <optional>
#include <string>
#include <vector>

#include "ref/base/error.h"
#include "ref/chat/chat_template.h"

namespace draftproof::test {

/// A text, or the sentence of a refusal.
struct Answer {
  std::optional<std::string> text;
  std::string error;
};

inline std::tm fixture_time() {  // 2025-03-09 14:05:07, a Sunday
  std::tm time{};
  time.tm_year = 125;
  time.tm_mon = 2;
  time.tm_mday = 9;
  time.tm_hour = 14;
  time.tm_min = 5;
  time.tm_sec = 7;
  time.tm_wday = 0;
  time.tm_yday = 67;
  return time;
}

inline Answer expected_in(const Json& answer) {
  if (const auto text = answer.find("text")) return {text->string(), ""};
  return {std::nullopt, answer.at("error").string()};
}

template <class Render>
Answer answer_of(const Render& render) {
  try {
    return {render(), ""};
  } catch (const Error& wrong) {
    return {std::nullopt, wrong.what()};
  }
}

inline jinja::Dict dict_in(const Json& object, bool by_user) {
  return *jinja::Value::from_json(object, by_user).as<jinja::Dict>();
}

/// The chat of an entry of conversations.json.
inline Chat chat_in(const Json& entry) {
  Chat chat;
  chat.now = fixture_time();
  chat.messages = jinja::Value::from_json(entry.at("messages"), true);
  if (const auto tools = entry.find("tools")) chat.tools = jinja::Value::from_json(*tools, true);
  if (const auto prompt = entry.find("add_generation_prompt")) chat.add_generation_prompt = prompt->boolean();
  if (const auto more = entry.find("more")) {
    for (const std::string& name : more->fields()) {
      const jinja::Value value = jinja::Value::from_json(more->at(name), true);
      if (name == "documents") chat.documents = value;
      if (name != "documents") chat.more.set(name, value);
    }
  }
  return chat;
}

inline std::vector<std::filesystem::path> template_files(const std::filesystem::path& folder) {
  std::vector<std::filesystem::path> files;
  for (const auto& entry : std::filesystem::directory_iterator(folder)) {
    if (entry.path().string().ends_with(".template.json")) files.push_back(entry.path());
  }
  std::sort(files.begin(), files.end());
  return files;
}

}  // namespace draftproof::test
