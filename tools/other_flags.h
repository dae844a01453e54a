// SPDX-License-Identifier: MIT
// Flags as users of llama.cpp type them.
#pragma once

#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace draftproof {

class Command;

struct OtherFlag {
  enum class Use {
    obeyed,  // the option `ours` of draftproof, where the command has it
    moot,    // asks for something that changes no text here; `text` says why
    refused  // `text` says what to do
  };
  enum class Value { none, one, maybe };  // maybe: one of on, off, auto

  std::string_view name;
  Use use;
  Value value;
  std::string_view ours = {};
  std::string_view text = {};
};

std::span<const OtherFlag> other_flags();

/// Writes the words in draftproof's flags where one of them is obeyed, and takes out those that are moot. Returns what
/// is to be said of the latter. Words that the command defines, and values of its options, stay.
std::vector<std::string> translate_flags(const Command& command, std::vector<std::string>& words);

/// What to do instead of a flag; empty: it is none of these.
std::string_view instead_of(std::string_view flag);

}  // namespace draftproof
