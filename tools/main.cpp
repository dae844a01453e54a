// SPDX-License-Identifier: MIT
#include <fcntl.h>
#include <unistd.h>

#include <cstdio>
#include <exception>
#include <filesystem>
#include <iostream>
#include <new>
#include <system_error>

#include "ref/base/error.h"
#include "tools/commands.h"
#include "tools/complaint.h"
#include "tools/version.h"

namespace draftproof {
namespace {

/// Opens /dev/null in place of closed standard streams. Otherwise the next file to be opened would get the descriptor
/// of standard output, and receive what is printed. It is opened for reading only, so that printing is an error.
void occupy_standard_streams() {
  int file = 0;
  while (file >= 0 && file <= STDERR_FILENO) file = open("/dev/null", O_RDONLY);
  if (file >= 0) close(file);
}

Exit run(int argc, char** argv) {
  CommandLine line("draftproof", "Speculative decoding you can prove.", version_text);
  Command& app = line.root();
  add_verify(app);
  add_generate(app);
  add_chat(app);
  add_serve(app);
  add_inspect(app);
  add_signature(app);
  add_convert(app);
  add_synth(app);
  add_grow(app);
  add_corpus(app);
  add_bench(app);
  add_fixture(app);
  add_trace(app);
  add_reproduce(app);
  add_zoo(app);
  add_completion(app);
  add_man(app);
  const Exit status = line.run(argc, argv);
  const bool printed = std::cout.flush() && std::fflush(stdout) == 0 && std::ferror(stdout) == 0;
  if (!printed) throw Error("standard output cannot be written to");
  return status;
}

}  // namespace
}  // namespace draftproof

int main(int argc, char** argv) {
  using namespace draftproof;
  occupy_standard_streams();
  try {
    return static_cast<int>(run(argc, argv));
  } catch (const std::bad_alloc&) {
    complain("there is not enough memory; use a smaller model or fewer tokens");
  } catch (const std::filesystem::filesystem_error& wrong) {
    complain(wrong.path1().string() + ": " + wrong.code().message());
  } catch (const std::system_error& wrong) {
    const bool threads = wrong.code() == std::errc::resource_unavailable_try_again;
    complain(threads ? "the system gives no more threads; end other processes, or raise the limit (ulimit -u)"
                     : wrong.what());
  } catch (const std::exception& wrong) {  // our Error, or an error of a library
    complain(wrong.what());
  }
  return static_cast<int>(Exit::bad_input);
}
