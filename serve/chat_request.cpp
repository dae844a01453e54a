// SPDX-License-Identifier: MIT
#include "serve/chat_request.h"

#include <algorithm>
#include <array>
#include <ctime>
#include <string_view>
#include <utility>

#include "ref/answers/blanks.h"
#include "ref/base/error.h"
#include "serve/foreign_json.h"

namespace draftproof::serve {
namespace {

using jinja::MarkedText;
using jinja::Value;

constexpr std::size_t messages_max = 4096;
constexpr std::size_t tools_max = 1024;
constexpr std::size_t name_max = 256;  // bytes of a tool's name

std::string read_name(const Json& name) {
  const std::string& text = name.string();
  if (text.empty() || text.size() > name_max || !std::ranges::all_of(text, is_of_name)) {
    name.fail("is not the name of a tool: letters, digits, _ - and .");
  }
  return text;
}

std::vector<Tool> read_tools(const Json& json) {
  std::vector<Tool> tools;
  const auto list = json.find("tools");
  if (!list) return tools;
  if (list->size() > tools_max) list->fail("has more than " + std::to_string(tools_max) + " tools");
  for (std::size_t i = 0; i < list->size(); ++i) {
    const Json one = (*list)[i];
    const Json type = one.at("type");
    if (type.string() != "function") type.fail("is not function, the only type of tools here");
    const Json function = one.at("function");
    Tool tool = {.name = read_name(function.at("name"))};
    const auto is_same = [&](const Tool& other) { return other.name == tool.name; };
    if (std::ranges::any_of(tools, is_same)) function.at("name").fail("names two tools");
    if (const auto parameters = function.find("parameters"); parameters && !parameters->fields().empty()) {
      tool.parameters = parameters;
    }
    tool.strict = read_boolean(function, "strict", false);
    tools.push_back(std::move(tool));
  }
  return tools;
}

/// tool_choice: none, auto, required, or one tool by its name, which is then the only one of the terms.
CallTerms read_calls(const Json& json) {
  CallTerms calls = {.tools = read_tools(json)};
  calls.several = read_boolean(json, "parallel_tool_calls", true);
  const auto choice = json.find("tool_choice");
  if (!calls.tools.empty()) calls.choice = CallChoice::free;
  if (!choice) return calls;
  const bool named = choice->is_object();
  const std::string word = named ? "required" : choice->string();
  if (word == "none") calls.choice = CallChoice::none;
  else if (word == "required") calls.choice = CallChoice::forced;
  else if (word != "auto") choice->fail("is not one of none, auto, required and a named function");
  if (word == "required" && calls.tools.empty()) choice->fail("asks for a call, and there are no tools; give some");
  if (!named) return calls;
  const Json name = choice->at("function").at("name");
  std::erase_if(calls.tools, [&](const Tool& tool) { return tool.name != name.string(); });
  if (calls.tools.empty()) name.fail("is none of the tools");
  calls.several = false;
  return calls;
}

/// A call of an earlier answer.
struct PastCall {
  std::string id;
  std::string name;
  Json arguments;  // an object
  std::string arguments_text;
};

std::vector<PastCall> read_past_calls(const Json& message) {
  std::vector<PastCall> calls = {};
  const auto list = message.find("tool_calls");
  if (!list) return calls;
  for (std::size_t i = 0; i < list->size(); ++i) {
    const Json one = (*list)[i];
    const Json function = one.at("function");
    const auto id = one.find("id");
    const Json given = function.at("arguments");
    std::string text = given.is_string() ? given.string() : "";
    if (given.is_string() && text.empty()) text = "{}";
    const Json parsed = given.is_string() ? Json::parse(text, given.where()) : given;
    if (!parsed.is_object()) given.fail("are not a JSON object");
    calls.push_back({id ? id->string() : "", read_name(function.at("name")), parsed, std::move(text)});
  }
  return calls;
}

struct ChatMessage {
  std::string role;
  std::string content;
  std::string thought = {};
  std::vector<PastCall> calls = {};
  std::string name = {};     // of a tool or of who speaks
  std::string call_id = {};  // that a tool's message answers
};

std::vector<ChatMessage> read_messages(const Json& json) {
  constexpr std::array<std::string_view, 5> roles = {"system", "developer", "user", "assistant", "tool"};
  const Json messages = json.at("messages");
  if (messages.size() == 0) messages.fail("is empty; give at least one message");
  if (messages.size() > messages_max) messages.fail("has more than " + std::to_string(messages_max) + " messages");
  std::vector<ChatMessage> list;
  for (std::size_t i = 0; i < messages.size(); ++i) {
    const Json message = messages[i];
    const Json role = message.at("role");
    if (std::ranges::find(roles, role.string()) == roles.end()) {
      role.fail("is not one of system, developer, user, assistant and tool");
    }
    refuse_unknown(message, {"role", "content", "name", "tool_calls", "tool_call_id", "reasoning_content", "reasoning",
                             "refusal", "annotations", "index"});
    const auto text = [&](const char* field) {
      const auto found = message.find(field);
      return found ? found->string() : std::string();
    };
    std::string thought = text("reasoning_content");
    if (thought.empty()) thought = text("reasoning");
    list.push_back({role.string(), read_content(message), std::move(thought), read_past_calls(message), text("name"),
                    text("tool_call_id")});
  }
  return list;
}

enum class ArgumentForm { object, text };

/// A message as templates know it. Most of them read the arguments of a call as an object, some as a text.
Value value_of(const ChatMessage& message, ArgumentForm form) {
  jinja::Dict fields;
  fields.set("role", Value::text(message.role));
  fields.set("content", MarkedText::of_user(message.content));
  if (!message.thought.empty()) fields.set("reasoning_content", MarkedText::of_user(message.thought));
  if (!message.name.empty()) fields.set("name", MarkedText::of_user(message.name));
  if (!message.call_id.empty()) fields.set("tool_call_id", MarkedText::of_user(message.call_id));
  std::vector<Value> calls;
  for (const PastCall& call : message.calls) {
    jinja::Dict function;
    function.set("name", MarkedText::of_user(call.name));
    const bool as_text = form == ArgumentForm::text;
    function.set("arguments",
                 as_text ? Value(MarkedText::of_user(call.arguments_text)) : Value::from_json(call.arguments, true));
    jinja::Dict one;
    one.set("type", Value::text("function"));
    one.set("id", MarkedText::of_user(call.id));
    one.set("function", Value::of(std::move(function)));
    calls.push_back(Value::of(std::move(one)));
  }
  if (!calls.empty()) fields.set("tool_calls", Value::list(std::move(calls)));
  return Value::of(std::move(fields));
}

/// Of a template that knows no tools: the tools in the first message, and calls and their answers as texts.
void write_tools_as_text(const Json* tools, std::vector<ChatMessage>& messages) {
  if (tools != nullptr) {
    std::string text = "You may call functions. These are their signatures, as JSON schemas:\n";
    for (std::size_t i = 0; i < tools->size(); ++i) text += (*tools)[i].text() + "\n";
    text +=
        "To call one, answer with\n<tool_call>\n{\"name\": \"NAME\", \"arguments\": {...}}\n</tool_call>\n"
        "and nothing else. What it returns comes between <tool_response> and </tool_response>.";
    const bool begins = messages.front().role == "system" || messages.front().role == "developer";
    if (begins) messages.front().content += "\n\n" + text;
    else messages.insert(messages.begin(), ChatMessage{.role = "system", .content = std::move(text)});
  }
  for (ChatMessage& message : messages) {
    for (const PastCall& call : message.calls) {
      const std::string arguments = call.arguments_text.empty() ? call.arguments.text() : call.arguments_text;
      message.content += (message.content.empty() ? "" : "\n") + std::string("<tool_call>\n{\"name\": \"") + call.name +
                         "\", \"arguments\": " + arguments + "}\n</tool_call>";
    }
    message.calls.clear();
    if (message.role != "tool") continue;
    message.role = "user";
    message.content = "<tool_response>\n" + message.content + "\n</tool_response>";
    message.name.clear();
    message.call_id.clear();
  }
}

const CallFormat& hermes() { return *std::ranges::find(call_formats(), std::string_view("Hermes"), &CallFormat::name); }

/// Ends the text with that of the last message, as transformers does: without the blanks that the template drops.
void cut_behind(const std::string& content, std::vector<Piece>& pieces, const Json& field) {
  const std::size_t first = behind_blanks(content);
  const std::string_view bare = std::string_view(content).substr(0, without_blanks_behind(content)).substr(first);
  std::size_t last = pieces.size();  // the last piece that users wrote, if it has the text
  for (std::size_t i = 0; i < pieces.size(); ++i) {
    if (!pieces[i].from_template) last = i;
  }
  const std::size_t at = last == pieces.size() ? std::string::npos : pieces[last].text.rfind(bare);
  if (at == std::string::npos)
    field.fail("cannot be obeyed: the chat template does not write the last message as it is");
  const std::string_view whole = std::string_view(content).substr(first);
  std::string& text = pieces[last].text;
  text.resize(at + (std::string_view(text).substr(at).starts_with(whole) ? whole.size() : bare.size()));
  pieces.resize(last + 1);
}

/// The variables of the template that the request sets.
jinja::Dict read_variables(const Json& json, const std::string& source) {
  jinja::Dict variables;
  if (const auto effort = json.find("reasoning_effort")) {
    if (source.find("reasoning_effort") == std::string::npos) {
      effort->fail("is nothing that the chat template of this model knows; leave it out");
    }
    variables.set("reasoning_effort", Value::from_json(*effort, true));
  }
  if (const auto more = json.find("chat_template_kwargs")) {
    for (const std::string& name : more->fields()) variables.set(name, Value::from_json(more->at(name), true));
  }
  return variables;
}

}  // namespace

std::string read_content(const Json& message) {
  const auto content = message.find("content");
  return content ? read_texts_of(*content, {"text"}) : "";
}

bool names_variable(const ServedModel& model, std::string_view name) {
  return model.chat != nullptr && model.chat->source(false).find(name) != std::string::npos;
}

ChatRequest read_conversation(const Json& json, const ServedModel& model) {
  ChatRequest request;
  request.calls = read_calls(json);
  std::vector<ChatMessage> messages = read_messages(json);
  const auto tools = json.find("tools");
  const bool offered = request.calls.choice != CallChoice::none;
  const bool talked = std::ranges::any_of(messages, [](const ChatMessage& one) { return !one.calls.empty(); });
  const std::string& source = model.chat->source(offered);
  request.format = AnswerFormat::of_template(source);
  Chat chat;
  if (request.format.calls == nullptr && source.find("tools") == std::string::npos && (offered || talked)) {
    write_tools_as_text(offered ? &*tools : nullptr, messages);
    request.format.calls = &hermes();
  } else if (offered) {
    if (request.format.calls == nullptr) {
      tools->fail("cannot be offered: how this model writes calls is not known here; leave it out");
    }
    chat.tools = Value::from_json(*tools, true);
  }
  chat.more = read_variables(json, source);
  const bool goes_on = read_boolean(json, "continue_final_message", false);
  chat.add_generation_prompt = read_boolean(json, "add_generation_prompt", !goes_on);
  if (goes_on) {
    const Json field = json.at("continue_final_message");
    const ChatMessage& last = messages.back();
    if (chat.add_generation_prompt) field.fail("and add_generation_prompt exclude each other; leave one out");
    if (last.role != "assistant" || behind_blanks(last.content) == last.content.size()) {
      field.fail("needs a last message of the assistant, with a text");
    }
  }
  const std::time_t now = std::time(nullptr);
  localtime_r(&now, &chat.now);
  const auto rendered = [&](ArgumentForm form) {
    std::vector<Value> values;
    for (const ChatMessage& message : messages) values.push_back(value_of(message, form));
    chat.messages = Value::list(std::move(values));
    return model.chat->render(chat);
  };
  std::vector<Piece> pieces;
  try {
    pieces = rendered(ArgumentForm::object);
  } catch (const Error&) {
    if (!talked) throw;
    pieces = rendered(ArgumentForm::text);
  }
  if (goes_on) cut_behind(messages.back().content, pieces, json.at("continue_final_message"));
  request.prompt = encode(*model.tokenizer, pieces);
  request.terms.thinking = goes_on ? Thinking::none : thinking_after(request.format, text_of(pieces));
  request.terms.calls = offered;
  request.terms.texts = text_arguments(request.calls.tools);
  return request;
}

}  // namespace draftproof::serve
