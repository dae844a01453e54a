// SPDX-License-Identifier: MIT
#include <fcntl.h>
#include <unistd.h>

#include <exception>
#include <filesystem>
#include <new>

#include "ref/base/error.h"
#include "tools/commands.h"
#include "tools/complaint.h"

namespace draftproof {
namespace {

/// A file that is opened where standard output was closed would be taken for it. This cannot be written, which is an
/// error like any other.
void occupy_standard_streams() {
  int file = 0;
  while (file >= 0 && file <= STDERR_FILENO) file = open("/dev/null", O_RDONLY);
  if (file >= 0) close(file);
}

/// No flag means anything by an empty value; a script's variable that was never set would pass for a flag left out.
void refuse_empty_values(CLI::App& app) {
  const auto is_empty = [](const std::string& value) {
    return value.empty() ? "is empty; give it, or leave it out" : "";
  };
  for (CLI::Option* const option : app.get_options()) option->check(is_empty);
  for (CLI::App* const command : app.get_subcommands({})) refuse_empty_values(*command);
}

int run(int argc, char** argv) {
  CLI::App app("Speculative decoding you can prove.", "draftproof");
  app.set_version_flag("--version", DRAFTPROOF_VERSION);
  app.require_subcommand(1);
  Exit exit = Exit::pass;
  add_verify(app, exit);
  add_generate(app, exit);
  add_inspect(app, exit);
  add_signature(app, exit);
  add_synth(app, exit);
  add_bench(app, exit);
  add_fixture(app, exit);
  add_trace(app, exit);
  add_reproduce(app, exit);
  add_zoo(app, exit);
  refuse_empty_values(app);
  try {
    app.parse(argc, argv);
  } catch (const CLI::ParseError& wrong) {
    if (wrong.get_exit_code() == 0) return app.exit(wrong);  // --help, --version
    throw Error(std::string(wrong.what()) + "; --help says what there is");
  }
  return static_cast<int>(exit);
}

}  // namespace
}  // namespace draftproof

int main(int argc, char** argv) {
  using namespace draftproof;
  occupy_standard_streams();
  try {
    return run(argc, argv);
  } catch (const std::bad_alloc&) {
    complain("there is not enough memory; use a smaller model or fewer tokens");
  } catch (const std::filesystem::filesystem_error& wrong) {
    complain(wrong.path1().string() + ": " + wrong.code().message());
  } catch (const std::exception& wrong) {  // our Error, or what a library says of the outside world
    complain(wrong.what());
  }
  return static_cast<int>(Exit::bad_input);
}
