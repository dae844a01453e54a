// SPDX-License-Identifier: MIT
#include "ref/answers/answer_grammar.h"

#include <algorithm>
#include <array>
#include <set>
#include <utility>

#include "ref/base/error.h"
#include "ref/base/utf8.h"
#include "ref/formats/printable.h"
#include "ref/grammar/grammar.h"
#include "ref/grammar/json_schema.h"

namespace draftproof {
namespace {

/// Every rule but `root` and those of JSON begins with this.
constexpr std::string_view prefix = "answer-";

std::string in_class(char32_t c) {
  std::string text;
  if (c == ']' || c == '[' || c == '\\' || c == '^' || c == '-') text += '\\';
  if (c == '\n') return "\\n";
  utf8::append(text, c);
  return text;
}

bool is_text(const Json& schema) {
  const auto type = schema.is_object() ? schema.find("type") : std::nullopt;
  return type && type->is_string() && type->string() == "string";
}

class AnswerCompiler {
 public:
  AnswerCompiler(const AnswerFormat& format, const Tokenizer& tokenizer)
      : format_(format), calls_(format.calls), tokenizer_(tokenizer) {}

  std::string compiled(Thinking thinking, const CallTerms& calls, const std::optional<std::string>& content) {
    std::string body;
    std::string others;
    if (content) {
      body = rule("content-root");
      others = with_root_named(*content, body) + "\n";
      if (is_harmony()) body = mark("<|channel|>final<|message|>") + body;
    } else {
      body = calls_body(calls);
      others = json_rules();
    }
    const std::string before = thoughts(thinking);
    return others + "root ::= " + before + body + "\n" + rules_;
  }

 private:
  static std::string rule(std::string_view name) { return std::string(prefix) + std::string(name); }
  std::string add(std::string_view name, const std::string& body) {
    if (added_.insert(std::string(name)).second) rules_ += rule(name) + " ::= " + body + "\n";
    require_size(rules_);
    return rule(name);
  }
  static void require_size(const std::string& text) {
    if (text.size() > Grammar::text_max) throw Error("the schemas of the tools are too large together; simplify them");
  }
  std::string blanks() { return add("blanks", "[ \\t\\n]{0,8}") + " "; }

  /// Where a text as it is stands beside a mark, a line end between them is one.
  enum class Beside { nothing, text_behind, text_before };

  /// The text of a mark, in which special tokens are tokens, an asterisk digits, and line ends blanks.
  std::string mark(std::string_view text, Beside beside = Beside::nothing) {
    const std::string line_end = "\"\\n\" ";
    std::string gbnf;
    bool is_first = true;
    for (const std::string_view part : parts_of_mark(text)) {
      if (!is_first) gbnf += blanks();
      else if (text.starts_with('\n')) gbnf += beside == Beside::text_before ? line_end : blanks();
      is_first = false;
      for (std::size_t at = 0; at < part.size();) {
        const std::size_t star = std::min(part.find('*', at), part.size());
        std::string plain;
        for (const Token token : tokenizer_.encode(part.substr(at, star - at), false, true)) {
          if (!tokenizer_.is_special(token)) {
            tokenizer_.append_bytes(token, false, plain);
            continue;
          }
          if (!plain.empty()) gbnf += gbnf_string(plain) + " ";
          plain.clear();
          gbnf += "<[" + std::to_string(token) + "]> ";
        }
        if (!plain.empty()) gbnf += gbnf_string(plain) + " ";
        if (star < part.size()) gbnf += "[0-9]{1,9} ";
        at = star + 1;
      }
    }
    if (text.ends_with('\n')) gbnf += beside == Beside::text_behind ? line_end : blanks();
    return gbnf;
  }

  /// Any text in which `end` does not occur, by the automaton of Knuth, Morris and Pratt. The mark may be a special
  /// token, which no text is, but it is not spelled by other tokens either: a reader would take that for the mark.
  std::string text_without(std::string_view name, std::string_view end) {
    if (added_.contains(std::string(name))) return rule(name);
    std::vector<char32_t> letters;
    for (std::size_t at = 0; at < end.size();) {
      const utf8::Character step = utf8::step(end, at);
      letters.push_back(step.code_point);
      at += step.length;
    }
    const auto count = letters.size();
    const auto state = [&](std::size_t read) {
      return std::string(name) + (read == 0 ? "" : "-" + std::to_string(read));
    };
    /// How many letters of `end` the text ends with that has these and `next` behind them.
    const auto after = [&](std::size_t read, char32_t next) {
      std::vector<char32_t> text(letters.begin(), letters.begin() + static_cast<std::ptrdiff_t>(read));
      text.push_back(next);
      for (std::size_t longest = std::min(count, text.size()); longest > 0; --longest) {
        if (std::equal(letters.begin(), letters.begin() + static_cast<std::ptrdiff_t>(longest),
                       text.end() - static_cast<std::ptrdiff_t>(longest))) {
          return longest;
        }
      }
      return std::size_t{0};
    };
    const std::set<char32_t> alphabet(letters.begin(), letters.end());
    std::string others = "[^";
    for (const char32_t letter : alphabet) others += in_class(letter);
    others += "] " + rule(state(0));
    for (std::size_t read = 0; read < count; ++read) {
      std::string body = "\"\" | " + others;
      for (const char32_t letter : alphabet) {
        const std::size_t next = after(read, letter);
        if (next < count) body += " | [" + in_class(letter) + "] " + rule(state(next));
      }
      add(state(read), body);
    }
    return rule(name);
  }

  bool is_harmony() const { return calls_ != nullptr && calls_->body == CallFormat::Body::harmony; }

  std::string thoughts(Thinking thinking) {
    if (is_harmony()) {
      const std::string begin = mark("<|channel|>analysis<|message|>");
      return "( " + begin + text_without("thought", "<|end|>") + " " + mark("<|end|><|start|>assistant") + ")* ";
    }
    if (thinking == Thinking::none || format_.thoughts == nullptr) return "";
    const auto& [begin, end] = *format_.thoughts;
    const std::string thought = text_without("thought", parts_of_mark(end).front()) + " " + mark(end) + blanks();
    return thinking == Thinking::begun ? thought : "( " + blanks() + mark(begin) + thought + ")? ";
  }

  static std::string no_schema(const std::string& tool, const std::string& why) {
    return "the parameters of the tool " + in_quotes(tool) + " cannot be held to: " + why;
  }

  /// What the arguments of a tool may be. Where nothing demands its schema, one that is not supported is any object.
  std::string arguments(const Tool& tool, int number) {
    if (!tool.parameters) return "\"{}\"";
    try {
      const auto [body, rules] = schema_rules(*tool.parameters, rule("tool" + std::to_string(number) + "-"));
      rules_ += rules;
      return body;
    } catch (const Error& wrong) {
      if (tool.strict) throw Error(no_schema(tool.name, wrong.what()));
      return "object";
    }
  }

  /// Throws Error for a strict tool; where nothing demands its schema, the arguments are any.
  static void demand(const Tool& tool, const std::string& why) {
    if (tool.strict) throw Error(no_schema(tool.name, why));
  }

  /// The first field of a schema that is none of these and may restrict what is allowed; empty: none is.
  static std::string other_field(const Json& schema, std::initializer_list<std::string_view> known) {
    constexpr std::array<std::string_view, 12> notes = {"title",    "description", "default", "examples",
                                                        "$schema",  "$id",         "$defs",   "definitions",
                                                        "$comment", "deprecated",  "example", "additionalProperties"};
    for (const std::string& field : schema.fields()) {
      if (std::ranges::find(known, field) == known.end() && std::ranges::find(notes, field) == notes.end())
        return field;
    }
    return "";
  }

  /// One argument after the other, in the order of the schema.
  std::string parameters(const Tool& tool, int number) {
    if (!tool.parameters) return "";
    const std::string before = mark(calls_->before_key);
    const std::string after = mark(calls_->after_key, Beside::text_behind);
    const std::string end = mark(calls_->after_value, Beside::text_before);
    const std::string any = "( " + before + "[a-zA-Z0-9_]+ " + after +
                            text_without("value", parts_of_mark(calls_->after_value).front()) + " " + end + ")* ";
    const std::string other = other_field(*tool.parameters, {"type", "properties", "required"});
    if (!other.empty()) {
      demand(tool, "the keyword " + in_quotes(other) + " is not supported there");
      return any;
    }
    std::vector<std::string> required;
    if (const auto list = tool.parameters->find("required")) {
      for (std::size_t i = 0; i < list->size(); ++i) required.push_back((*list)[i].string());
    }
    const auto properties = tool.parameters->find("properties");
    const std::vector<std::string> names = properties ? properties->fields() : std::vector<std::string>();
    const std::set<std::string> is_required(required.begin(), required.end());
    std::string body;
    int place = 0;
    for (const std::string& name : names) {
      const std::string own = "tool" + std::to_string(number) + "-" + std::to_string(place++) + "-";
      body += "( " + before + gbnf_string(name) + " " + after + value(tool, properties->find(name), own) + " " + end +
              (is_required.contains(name) ? ") " : ")? ");
      require_size(body);
    }
    const std::set<std::string> is_property(names.begin(), names.end());
    for (const std::string& name : is_required) {
      if (is_property.contains(name)) continue;
      demand(tool, "the argument " + in_quotes(name) + " is required, and no property says what it is");
      return any;
    }
    return body;
  }

  /// A text as it is, or JSON.
  std::string value(const Tool& tool, const std::optional<Json>& schema, const std::string& own) {
    const std::string text = text_without("value", parts_of_mark(calls_->after_value).front());
    if (!schema) return text;
    if (!is_text(*schema)) {
      try {
        const auto [body, rules] = schema_rules(*schema, rule(own), &*tool.parameters);
        rules_ += rules;
        require_size(rules_);
        return body;
      } catch (const Error& wrong) {
        demand(tool, wrong.what());
        return "value";
      }
    }
    const std::string other = other_field(*schema, {"type", "enum"});
    if (!other.empty()) {
      demand(tool, "the keyword " + in_quotes(other) + " is not supported for its texts");
      return text;
    }
    const auto values = schema->find("enum");
    if (!values) return text;
    std::string alternatives;
    for (std::size_t i = 0; i < values->size(); ++i) {
      if (!(*values)[i].is_string()) {
        demand(tool, "a text is said to be one of several values that are no texts");
        return text;
      }
      alternatives += (i == 0 ? "" : " | ") + gbnf_string((*values)[i].string());
    }
    return "( " + alternatives + " )";
  }

  std::string call(const Tool& tool, int number) {
    const std::string begin = mark(calls_->begin);
    const std::string end = mark(calls_->end);
    switch (calls_->body) {
      case CallFormat::Body::object:
        return begin + "\"{\" " + gbnf_string(json_string(calls_->name_key)) + " colon " +
               gbnf_string(json_string(tool.name)) + " comma " + gbnf_string(json_string(calls_->arguments_key)) +
               " colon " + arguments(tool, number) + " \"}\" " + end;
      case CallFormat::Body::arguments:
      case CallFormat::Body::harmony:
        return begin + gbnf_string(tool.name) + " " + mark(calls_->after_name) + arguments(tool, number) + " " + end;
      case CallFormat::Body::parameters:
        return begin + gbnf_string(tool.name) + " " + mark(calls_->after_name) + parameters(tool, number) + end;
      default: break;
    }
    throw Error("calls as " + std::string(calls_->name) +
                " writes them cannot be held to a schema; use tool_choice auto without strict tools");
  }

  std::string calls_body(const CallTerms& terms) {
    std::string one;
    int number = 0;
    for (const Tool& tool : terms.tools) {
      one += (number == 0 ? "" : " | ") + call(tool, number);
      ++number;
    }
    add("call", one);
    const std::string call = rule("call") + " ";
    std::string calls = mark(calls_->section) + call;
    if (terms.several && !calls_->one) {
      const std::string separator = mark(calls_->separator);
      calls += "( " + blanks() + separator + call + ")* ";
    }
    calls += mark(calls_->section_end);
    if (terms.choice == CallChoice::forced) return calls;
    const std::string_view section = calls_->section.empty() ? calls_->begin : calls_->section;
    if (section.empty()) {  // an answer that begins as a call is one
      return "[ \\t\\r\\n]* ( " + calls + "| [^{ \\t\\r\\n] .* )?";
    }
    if (is_harmony()) return "( " + calls + "| " + mark("<|channel|>final<|message|>") + add("any", ".*") + " )";
    const std::string content = text_without("content", parts_of_mark(section).front());
    return content + " ( " + calls + (terms.several ? content : blanks()) + " )" + (terms.several ? "*" : "?");
  }

  const AnswerFormat& format_;
  const CallFormat* calls_;
  const Tokenizer& tokenizer_;
  std::string rules_;
  std::set<std::string> added_;
};

}  // namespace

TextArguments text_arguments(const std::vector<Tool>& tools) {
  TextArguments texts;
  for (const Tool& tool : tools) {
    const auto properties = tool.parameters ? tool.parameters->find("properties") : std::nullopt;
    if (!properties || !properties->is_object()) continue;
    for (const std::string& name : properties->fields()) {
      const auto schema = properties->find(name);
      if (schema && is_text(*schema)) texts.emplace(tool.name, name);
    }
  }
  return texts;
}

bool can_be_held(const CallFormat& calls) {
  return calls.body != CallFormat::Body::python && calls.body != CallFormat::Body::gemma;
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
  if (content && thinking == Thinking::none) return content;
  return AnswerCompiler(format, tokenizer).compiled(thinking, held, content);
}

}  // namespace draftproof
