// SPDX-License-Identifier: MIT
// What is generated from the definitions of the command line: completions for shells, and the man page.
#include <iostream>

#include "ref/base/error.h"
#include "tools/command_text.h"
#include "tools/commands.h"

namespace draftproof {
namespace {

Exit print(const std::string& text) {
  std::cout << text << std::flush;
  return Exit::pass;
}

}  // namespace

void add_completion(Command& app) {
  auto shell = std::make_shared<std::string>();
  Command& command = app.subcommand("completion", "print the completion script of a shell");
  command.option("shell", *shell, "bash, zsh or fish").choices({"bash", "zsh", "fish"}).required();
  command.action([shell, &app] { return print(completion_script(app, *shell)); });
}

void add_man(Command& app) {
  Command& command = app.subcommand("man", "print the man page in troff");
  command.action([&app] { return print(man_page(app, DRAFTPROOF_VERSION)); });
}

}  // namespace draftproof
