// SPDX-License-Identifier: MIT
// A program that answers calls of tools.
#pragma once

#include <string>

namespace draftproof {

/// Runs a program with its arguments, which blanks divide, without a shell; `input` is its standard input. Returns what
/// it prints on standard output. Throws Error when it cannot be run, fails, or prints more than a megabyte.
std::string output_of_command(const std::string& command, const std::string& input);

}  // namespace draftproof
