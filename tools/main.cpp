// SPDX-License-Identifier: MIT
#include <cstdio>
#include <exception>
#include <new>

#include "ref/base/error.h"
#include "tools/commands.h"

int main(int argc, char** argv) {
  using namespace draftproof;
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
  try {
    app.parse(argc, argv);
  } catch (const CLI::ParseError& wrong) {
    return app.exit(wrong) == 0 ? 0 : static_cast<int>(Exit::bad_input);
  } catch (const Error& wrong) {
    std::fprintf(stderr, "draftproof: %s\n", wrong.what());
    return static_cast<int>(Exit::bad_input);
  } catch (const std::bad_alloc&) {
    std::fprintf(stderr, "draftproof: there is not enough memory; use a smaller model or fewer tokens\n");
    return static_cast<int>(Exit::bad_input);
  } catch (const std::exception& wrong) {  // what a library says of the outside world: a path too long, an odd name
    std::fprintf(stderr, "draftproof: %s\n", wrong.what());
    return static_cast<int>(Exit::bad_input);
  }
  return static_cast<int>(exit);
}
