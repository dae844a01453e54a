// SPDX-License-Identifier: MIT
// Every error message of the command is printed here.
#pragma once

#include <string_view>

namespace draftproof {

/// Prints one line to standard error: "draftproof: " and the message, with unprintable bytes escaped, and with its
/// middle left out when it is longer than 800 bytes.
void complain(std::string_view message);

/// The same without asking for memory, for where there is none. `line`: "draftproof: ...", with its newline.
void complain_without_memory(std::string_view line) noexcept;

}  // namespace draftproof
