// SPDX-License-Identifier: MIT
// The definitions of the command line as texts: --help, a man page, completions for shells.
#pragma once

#include <string>

#include "tools/command_line.h"

namespace draftproof {

std::string help_text(const Command& command);

/// Returns the manual of all commands as one page of section 1, in troff with the man macros.
std::string man_page(const Command& root, const std::string& version);

/// Returns the completion script of one of the shells bash, zsh and fish.
std::string completion_script(const Command& root, const std::string& shell);

}  // namespace draftproof
