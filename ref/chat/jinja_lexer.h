// SPDX-License-Identifier: MIT
// Cuts the source of a template into tokens, with the white space rules of transformers' templates: trim_blocks (a line
// feed after a block is dropped) and lstrip_blocks (so are spaces before one that begins a line), `-` and `+`. Follows
// jinja2's lexer.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

namespace draftproof::jinja {

struct LexicalToken {
  enum class Kind {
    data,
    block_begin,
    block_end,
    variable_begin,
    variable_end,
    name,
    text,
    integer,
    number,
    mark,
    end
  };
  Kind kind;
  std::string text;  // of data, names and marks; of a string literal what it stands for
  std::int64_t integer = 0;
  double number = 0;
  int line = 1;
};

/// Throws Error, "ORIGIN: line N: ...", when the source is no template. The last token is an `end`.
std::vector<LexicalToken> cut_into_tokens(std::string_view source, const std::string& origin);

/// "ORIGIN: line N: ", which begins every message.
std::string at_line(const std::string& origin, int line);

}  // namespace draftproof::jinja
