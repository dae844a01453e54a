// SPDX-License-Identifier: MIT
// How models write what is not content: what they think, and calls of tools. A family of models has one way, which its
// chat template shows.
//
// The marks below are texts of the template. Where one has a line end, a model may write any blanks or none. An
// asterisk stands for what a name may have: letters, digits, and a few signs.
#pragma once

#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "ref/text/tokenizer.h"

namespace draftproof {

/// How calls are written: section, then calls with separators between them, then section_end. A call is
///     object      begin {"NAME_KEY": "NAME", "ARGUMENTS_KEY": {...}} end
///     arguments   begin NAME after_name {...} end
///     parameters  begin NAME after_name, for each argument before_key KEY after_key VALUE after_value, then end; a
///                 VALUE is a text as it is, or JSON
///     elements    begin NAME after_name, for each argument before_key KEY after_key VALUE after_value KEY after_key,
///                 then end; in a VALUE objects are elements, too, and so are items of arrays, with the key `item`
///     python      begin NAME(KEY=VALUE, ...) end, with values as Python writes them
///     gemma       begin NAME{KEY:VALUE,...} end, keys without quotes and strings between `quote`
///     harmony     a message whose recipient is functions.NAME, in the channel commentary
struct CallFormat {
  enum class Body { object, arguments, parameters, elements, python, gemma, harmony };

  std::string_view name;
  std::vector<std::string_view> signs;         // texts that its templates have
  std::vector<std::string_view> strange = {};  // ... and have not
  Body body = Body::object;
  std::string_view section = "";
  std::string_view begin = "";
  std::string_view after_name = "";
  std::string_view end = "";
  std::string_view separator = "";
  std::string_view section_end = "";
  std::string_view name_key = "name";
  std::string_view arguments_key = "arguments";
  std::string_view before_key = "";
  std::string_view after_key = "";
  std::string_view after_value = "";
  std::string_view quote = "";
  /// What after_key has for its asterisk: the word of a text, then those of JSON.
  std::vector<std::string_view> kinds = {};
  /// Marks around content, which belong to nothing; it begins with the first.
  std::vector<std::string_view> frame = {};
  bool one = false;     // call at a time
  bool opened = false;  // the text before an answer ends with `begin`
};

std::span<const CallFormat> call_formats();

/// What a model thinks stands between these.
struct ThoughtMarks {
  std::string_view begin;
  std::string_view end;
  std::string_view sign = "";  // a text that its templates have; empty: `end`
};

/// What answers of a model can have besides content.
struct AnswerFormat {
  const CallFormat* calls = nullptr;
  const ThoughtMarks* thoughts = nullptr;

  /// Of the text of a chat template.
  static AnswerFormat of_template(std::string_view source);
};

/// Where an answer begins, by the rendered text before it.
enum class Thinking {
  none,      // the model does not think, or has been kept from it
  possible,  // its answer may begin with it
  begun      // the text before it ends inside
};
Thinking thinking_after(const AnswerFormat& format, std::string_view rendered);

/// The special tokens among the marks, which the text that an answer is read from has to show.
std::vector<Token> shown_tokens(const AnswerFormat& format, const Tokenizer& tokenizer);

/// The parts of a mark between its line ends: what it consists of wherever a model puts its blanks.
std::vector<std::string_view> parts_of_mark(std::string_view mark);

}  // namespace draftproof
