// SPDX-License-Identifier: MIT
// The walk of docs/adding.md: a subcommand.
#include <fmt/format.h>

#include "tools/commands.h"

namespace draftproof {

void add_hello(Command& app) {
  Command& command = app.subcommand("hello", "print a greeting");
  command.action([] {
    fmt::print("hello\n");
    return Exit::pass;
  });
}

}  // namespace draftproof
