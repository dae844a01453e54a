// SPDX-License-Identifier: MIT
#include "ref/answers/answer_grammar.h"

#include <algorithm>
#include <set>
#include <utility>

#include "ref/answers/answer_rules.h"
#include "ref/answers/literal_schema.h"
#include "ref/base/error.h"
#include "ref/formats/printable.h"
#include "ref/grammar/grammar.h"
#include "ref/grammar/json_schema.h"
#include "ref/grammar/schema_reader.h"

namespace draftproof {
namespace {

bool is_text(const Json& schema) {
  const auto type = schema.is_object() ? schema.find("type") : std::nullopt;
  return type && type->is_string() && type->string() == "string";
}

/// `path`: the keys to the schema, each with a dot behind it.
void add_texts(const Json& schema, const std::string& tool, const std::string& path, int depth, TextArguments& texts) {
  constexpr int depth_max = 64;
  if (!schema.is_object() || depth > depth_max) return;
  const auto add = [&](const std::optional<Json>& value, const std::string& key) {
    if (!value) return;
    if (is_text(*value)) texts.emplace(tool, path + key);
    add_texts(*value, tool, path + key + ".", depth + 1, texts);
  };
  if (const auto properties = schema.find("properties"); properties && properties->is_object()) {
    for (const std::string& name : properties->fields()) add(properties->find(name), name);
  }
  add(schema.find("items"), "item");
}

using Beside = AnswerRules::Beside;

class AnswerCompiler {
 public:
  AnswerCompiler(const AnswerFormat& format, const Tokenizer& tokenizer)
      : format_(format), calls_(format.calls), rules_(tokenizer) {}

  std::string compiled(Thinking thinking, const CallTerms& calls, const std::optional<std::string>& content) {
    std::string body;
    std::string others;
    if (content) {
      body = AnswerRules::named("content-root");
      others = with_root_named(*content, body) + "\n";
      body = content_begin() + body;
    } else {
      body = calls_body(calls);
      others = json_rules();
    }
    const std::string before = thoughts(thinking);
    return others + "root ::= " + before + body + "\n" + rules_.text();
  }

 private:
  std::string mark(std::string_view text, Beside beside = Beside::nothing) { return rules_.mark(text, beside); }
  std::string blanks() { return rules_.blanks(); }

  bool is_harmony() const { return calls_ != nullptr && calls_->body == CallFormat::Body::harmony; }

  /// What stands before content. Where the text before an answer may end with it, it may be missing.
  std::string content_begin() {
    if (is_harmony()) return mark("<|channel|>final<|message|>");
    if (calls_ == nullptr || calls_->frame.empty()) return "";
    const std::string_view begin = calls_->frame.front();
    if (calls_->opened) return mark(begin.substr(calls_->begin.size()), Beside::text_behind);
    return "( " + blanks() + mark(begin) + ")? ";
  }

  std::string thoughts(Thinking thinking) {
    if (is_harmony()) {
      const std::string begin = mark("<|channel|>analysis<|message|>");
      return "( " + begin + rules_.text_without("thought", "<|end|>") + " " + mark("<|end|><|start|>assistant") + ")* ";
    }
    if (thinking == Thinking::none || format_.thoughts == nullptr) return "";
    const auto& [begin, end, sign] = *format_.thoughts;
    const std::string thought = rules_.text_without("thought", parts_of_mark(end).front()) + " " + mark(end) + blanks();
    return thinking == Thinking::begun ? thought : "( " + blanks() + mark(begin) + thought + ")? ";
  }

  static std::string no_schema(const std::string& tool, const std::string& why) {
    return "the parameters of the tool " + in_quotes(tool) + " cannot be held to: " + why;
  }

  static std::string prefix(int number) { return "tool" + std::to_string(number) + "-"; }

  /// What the arguments of a tool may be. Where nothing demands its schema, one that is not supported is any object.
  std::string arguments(const Tool& tool, int number) {
    const bool literals = has_literals(*calls_);
    if (!tool.parameters) return literals ? no_literal_arguments(*calls_) : "\"{}\"";
    try {
      if (literals) return literal_arguments(*calls_, *tool.parameters, prefix(number), rules_);
      const auto [body, rules] = schema_rules(*tool.parameters, AnswerRules::named(prefix(number)));
      rules_.append(rules);
      return body;
    } catch (const Error& wrong) {
      demand(tool, wrong.what());
      return literals ? any_literal_arguments(*calls_, rules_) : "object";
    }
  }

  /// Throws Error for a strict tool; where nothing demands its schema, the arguments are any.
  static void demand(const Tool& tool, const std::string& why) {
    if (tool.strict) throw Error(no_schema(tool.name, why));
  }

  /// One argument after the other, in the order of the schema.
  std::string parameters(const Tool& tool, int number) {
    if (!tool.parameters) return "";
    const std::string before = mark(calls_->before_key);
    const std::string any = "( " + before + "[a-zA-Z0-9_]+ " + any_value() + ")* ";
    const std::string other = other_field(*tool.parameters, {"type", "properties", "required"});
    if (!other.empty()) {
      demand(tool, "the keyword " + in_quotes(other) + " is not supported there");
      return any;
    }
    const std::vector<std::string> required = SchemaReader::required_of({*tool.parameters});
    const auto properties = tool.parameters->find("properties");
    const std::vector<std::string> names = properties ? properties->fields() : std::vector<std::string>();
    const std::set<std::string> is_required(required.begin(), required.end());
    std::string body;
    int place = 0;
    for (const std::string& name : names) {
      const std::string own = prefix(number) + std::to_string(place++) + "-";
      body += "( " + before + gbnf_string(name) + " " + value(tool, properties->find(name), own) +
              (is_required.contains(name) ? ") " : ")? ");
      AnswerRules::require_size(body);
    }
    const std::set<std::string> is_property(names.begin(), names.end());
    for (const std::string& name : is_required) {
      if (is_property.contains(name)) continue;
      demand(tool, "the argument " + in_quotes(name) + " is required, and no property says what it is");
      return any;
    }
    return body;
  }

  /// What follows the key of an argument whose value is a text.
  std::string text_value(const std::string& text) {
    const std::string kind = calls_->kinds.empty() ? "" : gbnf_string(calls_->kinds.front());
    return value_of_kind(kind, text);
  }
  std::string any_text() {
    return text_value(rules_.text_without("value", parts_of_mark(calls_->after_value).front()));
  }
  /// ... and JSON.
  std::string json_value(const std::string& json) {
    std::string kinds;
    for (std::size_t i = 1; i < calls_->kinds.size(); ++i)
      kinds += (i > 1 ? "| " : "") + gbnf_string(calls_->kinds[i]) + " ";
    return value_of_kind("( " + kinds + ")", json);
  }
  std::string value_of_kind(std::string_view kind, const std::string& value) {
    return rules_.mark(calls_->after_key, Beside::text_behind, kind) + value + " " +
           mark(calls_->after_value, Beside::text_before);
  }
  std::string any_value() {
    return calls_->kinds.empty() ? any_text() : "( " + any_text() + "| " + json_value("value") + ") ";
  }

  /// What follows the key of an argument, and its value: a text as it is, or JSON.
  std::string value(const Tool& tool, const std::optional<Json>& schema, const std::string& own) {
    if (!schema) return any_value();
    if (!is_text(*schema)) {
      try {
        const auto [body, rules] = schema_rules(*schema, AnswerRules::named(own), &*tool.parameters);
        rules_.append(rules);
        return json_value(body);
      } catch (const Error& wrong) {
        demand(tool, wrong.what());
        return json_value("value");
      }
    }
    const std::string other = other_field(*schema, {"type", "enum"});
    if (!other.empty()) {
      demand(tool, "the keyword " + in_quotes(other) + " is not supported for its texts");
      return any_text();
    }
    const auto values = schema->find("enum");
    if (!values) return any_text();
    std::string alternatives;
    for (std::size_t i = 0; i < values->size(); ++i) {
      if (!(*values)[i].is_string()) {
        demand(tool, "a text is said to be one of several values that are no texts");
        return any_text();
      }
      alternatives += (i == 0 ? "" : " | ") + gbnf_string((*values)[i].string());
    }
    return text_value("( " + alternatives + " )");
  }

  /// A call of a tool behind its `begin`.
  std::string rest_of_call(const Tool& tool, int number) {
    const std::string name = gbnf_string(tool.name) + " ";
    const std::string end = mark(calls_->end);
    std::string rest;
    switch (calls_->body) {
      case CallFormat::Body::object:
        rest = "\"{\" " + gbnf_string(json_string(calls_->name_key)) + " colon " + gbnf_string(json_string(tool.name)) +
               " comma " + gbnf_string(json_string(calls_->arguments_key)) + " colon " + arguments(tool, number) +
               " \"}\" " + end;
        break;
      case CallFormat::Body::parameters: rest = name + mark(calls_->after_name) + parameters(tool, number) + end; break;
      default: rest = name + mark(calls_->after_name) + arguments(tool, number) + " " + end;
    }
    return rules_.add(prefix(number) + "call", rest) + " ";
  }

  std::string calls_body(const CallTerms& terms) {
    std::string call;
    std::string opened;  // behind a `begin` in the text before the answer
    int number = 0;
    for (const Tool& tool : terms.tools) {
      const std::string rest = rest_of_call(tool, number);
      const std::string star = "( " + gbnf_string(tool.name) + " | [0-9]{1,9} )";
      call += (number == 0 ? "" : "| ") + rules_.mark(calls_->begin, Beside::nothing, star) + rest;
      opened += (number == 0 ? "" : "| ") + rest;
      ++number;
    }
    call = rules_.add("call", call) + " ";
    const std::string more =
        terms.several && !calls_->one ? "( " + blanks() + mark(calls_->separator) + call + ")* " : std::string();
    const std::string end = more + mark(calls_->section_end);
    const std::string calls = mark(calls_->section) + call + end;
    if (terms.choice == CallChoice::forced) return calls_->opened ? "( " + opened + ") " + end : calls;
    const std::string_view section = calls_->section.empty() ? calls_->begin : calls_->section;
    if (section.empty() || section == "[") {  // an answer that begins as a call is one
      const std::string_view other = section.empty() ? "[^{ \\t\\r\\n]" : "[^\\[ \\t\\r\\n]";
      return "[ \\t\\r\\n]* ( " + calls + "| " + std::string(other) + " .* )?";
    }
    if (is_harmony()) return "( " + calls + "| " + content_begin() + rules_.add("any", ".*") + " )";
    const std::string content = rules_.text_without("content", spelled(parts_of_mark(section).front())) + " ";
    std::string frame;
    for (const std::string_view one : calls_->frame) frame += "| " + mark(one, Beside::text_behind);
    const std::string begin =
        calls_->opened ? "( " + content_begin() + content + "| ( " + opened + ") " + end + ") " : content;
    if (terms.several) return begin + "( ( " + calls + frame + ") " + content + ")*";
    const std::string framed = frame.empty() ? "" : "( ( " + frame.substr(2) + ") " + content + ")* ";
    return begin + framed + "( " + calls + blanks() + ")?";
  }

  /// The longest piece of a mark without an asterisk.
  static std::string_view spelled(std::string_view part) {
    const std::size_t star = part.find('*');
    if (star == std::string_view::npos) return part;
    return star > part.size() - star ? part.substr(0, star) : part.substr(star + 1);
  }

  const AnswerFormat& format_;
  const CallFormat* calls_;
  AnswerRules rules_;
};

}  // namespace

TextArguments text_arguments(const std::vector<Tool>& tools) {
  TextArguments texts;
  for (const Tool& tool : tools) {
    if (tool.parameters) add_texts(*tool.parameters, tool.name, "", 0, texts);
  }
  return texts;
}

std::optional<std::string> answer_gbnf(const AnswerFormat& format, Thinking thinking, const CallTerms& calls,
                                       const std::optional<std::string>& content, const Tokenizer& tokenizer) {
  const bool free = calls.several && std::ranges::none_of(calls.tools, &Tool::strict);
  CallTerms held = calls;
  if (calls.choice == CallChoice::free && free) held.choice = CallChoice::none;
  if (held.choice == CallChoice::none && !content) return std::nullopt;
  if (held.choice != CallChoice::none && content) {
    throw Error(
        "tools that have to be called, strict ones or one call at most, and a grammar of the content exclude each "
        "other; leave one out");
  }
  const bool framed = format.calls != nullptr && !format.calls->frame.empty();
  if (content && thinking == Thinking::none && !framed) return content;
  return AnswerCompiler(format, tokenizer).compiled(thinking, held, content);
}

}  // namespace draftproof
