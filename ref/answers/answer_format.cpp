// SPDX-License-Identifier: MIT
#include "ref/answers/answer_format.h"

#include <algorithm>
#include <utility>

#include "ref/answers/blanks.h"

namespace draftproof {
namespace {

using enum CallFormat::Body;

CallFormat lfm2(std::vector<std::string_view> signs) {
  return {.name = "LFM2",
          .signs = std::move(signs),
          .body = python,
          .section = "<|tool_call_start|>[",
          .separator = ", ",
          .section_end = "]<|tool_call_end|>"};
}

/// The first that fits a template is its format.
const std::vector<CallFormat> table = {
    {.name = "gpt-oss",
     .signs = {"<|channel|>", "functions."},
     .body = harmony,
     .begin = "<|channel|>commentary to=functions.",
     .after_name = " <|constrain|>json<|message|>",
     .one = true},
    {.name = "Gemma 4",
     .signs = {"<|tool_call>", "<tool_call|>"},
     .body = gemma,
     .begin = "<|tool_call>call:",
     .end = "<tool_call|>",
     .quote = "<|\"|>"},
    {.name = "FunctionGemma",
     .signs = {"<start_function_call>call:"},
     .body = gemma,
     .begin = "<start_function_call>call:",
     .end = "<end_function_call>",
     .quote = "<escape>"},
    lfm2({"<|tool_call_start|>"}),
    lfm2({"List of tools: ", "<|im_start|>"}),
    {.name = "OLMo 3",
     .signs = {"<function_calls>"},
     .body = python,
     .section = "<function_calls>\n",
     .separator = "\n",
     .section_end = "\n</function_calls>"},
    {.name = "Llama 4",
     .signs = {"[func_name1(params_name1=params_value1"},
     .body = python,
     .section = "[",
     .separator = ", ",
     .section_end = "]"},
    {.name = "Seed-OSS",
     .signs = {"<seed:tool_call>"},
     .body = parameters,
     .begin = "<seed:tool_call>\n<function=",
     .after_name = ">\n",
     .end = "</function>\n</seed:tool_call>",
     .separator = "\n",
     .before_key = "<parameter=",
     .after_key = ">",
     .after_value = "</parameter>\n"},
    {.name = "Qwen3-Coder",
     .signs = {"<tool_call>", "<function=", "<parameter="},
     .body = parameters,
     .begin = "<tool_call>\n<function=",
     .after_name = ">\n",
     .end = "</function>\n</tool_call>",
     .separator = "\n",
     .before_key = "<parameter=",
     .after_key = ">\n",
     .after_value = "\n</parameter>\n"},
    {.name = "GLM-4.5",
     .signs = {"<tool_call>", "<arg_key>"},
     .body = parameters,
     .begin = "<tool_call>",
     .after_name = "\n",
     .end = "</tool_call>",
     .separator = "\n",
     .before_key = "<arg_key>",
     .after_key = "</arg_key>\n<arg_value>",
     .after_value = "</arg_value>\n"},
    {.name = "Hy3",
     .signs = {"<tool_calls{}>", "<arg_key{}>", ":opensource"},
     .body = parameters,
     .section = "<tool_calls:opensource>\n",
     .begin = "<tool_call:opensource>",
     .after_name = "<tool_sep:opensource>\n",
     .end = "</tool_call:opensource>\n",
     .section_end = "</tool_calls:opensource>",
     .before_key = "<arg_key:opensource>",
     .after_key = "</arg_key:opensource>\n<arg_value:opensource>",
     .after_value = "</arg_value:opensource>\n"},
    {.name = "DeepSeek V3.2",
     .signs = {"｜DSML｜", "function_calls>"},
     .body = parameters,
     .section = "<｜DSML｜function_calls>\n",
     .begin = "<｜DSML｜invoke name=\"",
     .after_name = "\">\n",
     .end = "</｜DSML｜invoke>\n",
     .section_end = "</｜DSML｜function_calls>",
     .before_key = "<｜DSML｜parameter name=\"",
     .after_key = "\" string=\"*\">",
     .after_value = "</｜DSML｜parameter>\n",
     .kinds = {"true", "false"}},
    {.name = "DeepSeek V4",
     .signs = {"｜DSML｜", "tool_calls>"},
     .body = parameters,
     .section = "<｜DSML｜tool_calls>\n",
     .begin = "<｜DSML｜invoke name=\"",
     .after_name = "\">\n",
     .end = "</｜DSML｜invoke>\n",
     .section_end = "</｜DSML｜tool_calls>",
     .before_key = "<｜DSML｜parameter name=\"",
     .after_key = "\" string=\"*\">",
     .after_value = "</｜DSML｜parameter>\n",
     .kinds = {"true", "false"}},
    {.name = "Kimi K3",
     .signs = {"<|open|>", "<|close|>", "<|end_of_msg|>"},
     .body = parameters,
     .section = "<|open|>tools<|sep|>",
     .begin = "<|open|>call tool=\"",
     .after_name = "\" index=\"*\"<|sep|>",
     .end = "<|close|>call<|sep|>",
     .section_end = "<|close|>tools<|sep|>",
     .before_key = "<|open|>argument key=\"",
     .after_key = "\" type=\"*\"<|sep|>",
     .after_value = "<|close|>argument<|sep|>",
     .kinds = {"string", "number", "boolean", "null", "array", "object"},
     .frame = {"<|open|>response<|sep|>", "<|close|>response<|sep|>", "<|close|>message<|sep|>", "<|end_of_msg|>"}},
    {.name = "Muse Glimmer",
     .signs = {"<atem:function_calls>"},
     .body = parameters,
     .begin = "\nto=*<|message|>\n<atem:function_calls>\n<atem:invoke name=\"",
     .after_name = "\">\n",
     .end = "</atem:invoke>\n</atem:function_calls>",
     .separator = "<|eom|><|start|>assistant",
     .before_key = "<atem:parameter name=\"",
     .after_key = "\">",
     .after_value = "</atem:parameter>\n",
     .frame = {"to=user<|message|>", "<|eom|>", "<|eot|>", "<|start|>assistant"}},
    {.name = "MiniMax-M3",
     .signs = {"]<]minimax[>["},
     .body = elements,
     .section = "]<]minimax[>[<tool_call>\n",
     .begin = "]<]minimax[>[<invoke name=\"",
     .after_name = "\">",
     .end = "]<]minimax[>[</invoke>\n",
     .section_end = "]<]minimax[>[</tool_call>",
     .before_key = "]<]minimax[>[<",
     .after_key = ">",
     .after_value = "]<]minimax[>[</"},
    {.name = "Solar Open",
     .signs = {"<|tool_call:begin|>", "<|tool_call:args|>"},
     .body = arguments,
     .section = "<|tool_calls|>",
     .begin = "<|tool_call:begin|>*<|tool_call:name|>",
     .after_name = "<|tool_call:args|>",
     .end = "<|tool_call:end|>",
     .section_end = "<|calls|>",
     .frame = {"<|content|>", "<|begin|>assistant", "<|end|>"}},
    {.name = "Functionary 3.2",
     .signs = {">>>all"},
     .body = arguments,
     .begin = ">>>",
     .after_name = "\n",
     .frame = {">>>all\n"},
     .opened = true},
    {.name = "LongCat",
     .signs = {"<longcat_tool_call>", "<longcat_arg_key>"},
     .body = parameters,
     .begin = "<longcat_tool_call>",
     .after_name = "\n",
     .end = "</longcat_tool_call>",
     .separator = "\n",
     .before_key = "<longcat_arg_key>",
     .after_key = "</longcat_arg_key>\n<longcat_arg_value>",
     .after_value = "</longcat_arg_value>\n"},
    {.name = "LongCat-Flash",
     .signs = {"<longcat_tool_call>"},
     .body = object,
     .begin = "<longcat_tool_call>\n",
     .end = "\n</longcat_tool_call>",
     .separator = "\n"},
    {.name = "MiniMax-M2",
     .signs = {"<minimax:tool_call>"},
     .body = parameters,
     .section = "<minimax:tool_call>\n",
     .begin = "<invoke name=\"",
     .after_name = "\">\n",
     .end = "</invoke>\n",
     .section_end = "</minimax:tool_call>",
     .before_key = "<parameter name=\"",
     .after_key = "\">",
     .after_value = "</parameter>\n"},
    {.name = "MiniCPM5",
     .signs = {"<function name=", "<param name="},
     .body = parameters,
     .begin = "<function name=\"",
     .after_name = "\">",
     .end = "</function>",
     .separator = "\n",
     .before_key = "<param name=\"",
     .after_key = "\">",
     .after_value = "</param>"},
    {.name = "Kimi K2",
     .signs = {"<|tool_calls_section_begin|>", "<|tool_call_argument_begin|>"},
     .body = arguments,
     .section = "<|tool_calls_section_begin|>",
     .begin = "<|tool_call_begin|>functions.",
     .after_name = ":*<|tool_call_argument_begin|>",
     .end = "<|tool_call_end|>",
     .section_end = "<|tool_calls_section_end|>"},
    {.name = "DeepSeek V3",
     .signs = {"<｜tool▁calls▁begin｜>", "```json"},
     .body = arguments,
     .section = "<｜tool▁calls▁begin｜>",
     .begin = "<｜tool▁call▁begin｜>function<｜tool▁sep｜>",
     .after_name = "\n```json\n",
     .end = "\n```<｜tool▁call▁end｜>",
     .separator = "\n",
     .section_end = "<｜tool▁calls▁end｜>"},
    {.name = "DeepSeek V3.1",
     .signs = {"<｜tool▁calls▁begin｜>"},
     .body = arguments,
     .section = "<｜tool▁calls▁begin｜>",
     .begin = "<｜tool▁call▁begin｜>",
     .after_name = "<｜tool▁sep｜>",
     .end = "<｜tool▁call▁end｜>",
     .section_end = "<｜tool▁calls▁end｜>"},
    {.name = "Mistral",
     .signs = {"[TOOL_CALLS]", "[ARGS]"},
     .strange = {"[CALL_ID]"},
     .body = arguments,
     .begin = "[TOOL_CALLS]",
     .after_name = "[ARGS]"},
    {.name = "Mistral Small 3.2",
     .signs = {"[TOOL_CALLS]", "[ARGS]"},
     .body = arguments,
     .begin = "[TOOL_CALLS]",
     .after_name = "[CALL_ID]*[ARGS]"},
    {.name = "Mistral v0.3",
     .signs = {"[TOOL_CALLS]"},
     .body = object,
     .section = "[TOOL_CALLS][",
     .separator = ", ",
     .section_end = "]"},
    {.name = "Granite 3",
     .signs = {"<|tool_call|>"},
     .strange = {"<tool_call>"},
     .body = object,
     .section = "<|tool_call|>[",
     .separator = ", ",
     .section_end = "]"},
    {.name = "Phi-4-mini",
     .signs = {"<|/tool|>"},
     .body = object,
     .section = "<|tool_call|>[",
     .separator = ", ",
     .section_end = "]<|/tool_call|>"},
    {.name = "Command R7B",
     .signs = {"<|START_ACTION|>"},
     .body = object,
     .section = "<|START_ACTION|>[\n",
     .separator = ",\n",
     .section_end = "\n]<|END_ACTION|>",
     .name_key = "tool_name",
     .arguments_key = "parameters"},
    {.name = "Nemotron",
     .signs = {"<TOOLCALL>"},
     .body = object,
     .section = "<TOOLCALL>[",
     .separator = ", ",
     .section_end = "]</TOOLCALL>"},
    {.name = "MiniMax-M1",
     .signs = {"<tool_calls>"},
     .strange = {"<tool_calls>["},
     .body = object,
     .section = "<tool_calls>\n",
     .separator = "\n",
     .section_end = "\n</tool_calls>"},
    {.name = "GigaChat 3",
     .signs = {"<|role_sep|>", "<|message_sep|>", "'function call'"},
     .strange = {"<|function_call|>"},
     .body = object,
     .begin = "<|message_sep|>\nfunction call<|role_sep|>\n",
     .one = true},
    {.name = "GigaChat 3.1", .signs = {"<|function_call|>"}, .body = object, .begin = "<|function_call|>", .one = true},
    {.name = "Apertus",
     .signs = {"<|tools_prefix|>"},
     .body = arguments,
     .section = "<|tools_prefix|>[",
     .begin = "{\"",
     .after_name = "\": ",
     .end = "}",
     .separator = ", ",
     .section_end = "]<|tools_suffix|>"},
    {.name = "Apriel",
     .signs = {"<tool_calls>["},
     .body = object,
     .section = "<tool_calls>[",
     .separator = ", ",
     .section_end = "]</tool_calls>"},
    {.name = "Functionary 3.1",
     .signs = {"<function=", "</function>"},
     .strange = {"<tool_call>"},
     .body = arguments,
     .begin = "<function=",
     .after_name = ">",
     .end = "</function>"},
    {.name = "Hermes",
     .signs = {"<tool_call>"},
     .body = object,
     .begin = "<tool_call>\n",
     .end = "\n</tool_call>",
     .separator = "\n"},
    {.name = "xLAM",
     .signs = {"[{\"name\": \"tool_call_name\""},
     .body = object,
     .section = "[",
     .separator = ", ",
     .section_end = "]"},
    {.name = "Llama 3",
     .signs = {"\"parameters\": ", "<|start_header_id|>"},
     .body = object,
     .arguments_key = "parameters",
     .one = true},
};

constexpr ThoughtMarks thought_marks[] = {
    {"<seed:think>", "</seed:think>"},
    {"[THINK]", "[/THINK]"},
    {"Here are my reasoning steps:", "[BEGIN FINAL RESPONSE]"},
    {"<|START_THINKING|>", "<|END_THINKING|>"},
    {"<|channel>thought\n", "<channel|>"},
    {"<|think|>", "<|end|>\n<|begin|>assistant", "<|begin|>assistant<|think|>"},
    {"to=self<|message|>", "<|eom|>\n<|start|>assistant", "to=self<|message|>"},
    {"<|open|>think<|sep|>", "<|close|>think<|sep|>", "close_tag('think')"},
    {"<think:opensource>", "</think:opensource>", "</think{}>"},
    {"<mm:think>", "</mm:think>"},
    {"<longcat_think>", "</longcat_think>"},
    {"<think>", "</think>"},
};

bool has(std::string_view text, std::string_view part) { return text.find(part) != std::string_view::npos; }

std::string_view trimmed(std::string_view text) { return text.substr(0, without_blanks_behind(text)); }

}  // namespace

std::span<const CallFormat> call_formats() { return table; }

AnswerFormat AnswerFormat::of_template(std::string_view source) {
  AnswerFormat format;
  for (const CallFormat& one : table) {
    const auto is_there = [&](std::string_view sign) { return has(source, sign); };
    if (!std::ranges::all_of(one.signs, is_there) || std::ranges::any_of(one.strange, is_there)) continue;
    format.calls = &one;
    break;
  }
  for (const ThoughtMarks& marks : thought_marks) {
    if (!has(source, marks.sign.empty() ? parts_of_mark(marks.end).front() : marks.sign)) continue;
    format.thoughts = &marks;
    break;
  }
  return format;
}

Thinking thinking_after(const AnswerFormat& format, std::string_view rendered) {
  if (format.calls != nullptr && format.calls->body == CallFormat::Body::harmony) return Thinking::possible;
  if (format.thoughts == nullptr) return Thinking::none;
  const std::string_view text = trimmed(rendered);
  if (text.ends_with(trimmed(format.thoughts->end))) return Thinking::none;
  const bool is_framed = format.calls != nullptr && !format.calls->frame.empty();
  if (is_framed && text.ends_with(format.calls->frame.front())) return Thinking::none;
  return text.ends_with(trimmed(format.thoughts->begin)) ? Thinking::begun : Thinking::possible;
}

std::vector<Token> shown_tokens(const AnswerFormat& format, const Tokenizer& tokenizer) {
  std::string marks;
  if (format.calls != nullptr) {
    const CallFormat& calls = *format.calls;
    for (const std::string_view mark : {calls.section, calls.begin, calls.after_name, calls.end, calls.section_end,
                                        calls.before_key, calls.after_key, calls.after_value, calls.quote}) {
      marks += std::string(mark) + "\n";
    }
    for (const std::string_view mark : calls.frame) marks += std::string(mark) + "\n";
    if (calls.body == harmony) marks += "<|channel|><|message|><|start|><|end|><|call|><|return|>";
  }
  if (format.thoughts != nullptr) marks += std::string(format.thoughts->begin) + std::string(format.thoughts->end);
  std::vector<Token> tokens;
  for (const Token token : tokenizer.encode(marks, false, true)) {
    if (tokenizer.is_special(token) && std::ranges::find(tokens, token) == tokens.end()) tokens.push_back(token);
  }
  return tokens;
}

std::vector<std::string_view> parts_of_mark(std::string_view mark) {
  std::vector<std::string_view> parts;
  for (std::size_t at = 0; at < mark.size();) {
    const std::size_t end = std::min(mark.find('\n', at), mark.size());
    if (end > at) parts.push_back(mark.substr(at, end - at));
    at = end + 1;
  }
  return parts;
}

}  // namespace draftproof
