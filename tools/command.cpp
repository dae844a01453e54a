// SPDX-License-Identifier: MIT
#include "tools/command.h"

#include <fcntl.h>
#include <unistd.h>

#include <algorithm>
#include <cfenv>
#include <clocale>
#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <exception>
#include <filesystem>
#include <iostream>
#include <iterator>
#include <new>
#include <string_view>
#include <system_error>

#include "ref/base/error.h"
#include "ref/ranks/led_model.h"
#include "ref/ranks/process_ranks.h"
#include "tools/campaign/dealing.h"
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

constexpr const char* no_memory = "draftproof: there is not enough memory; use a smaller model or fewer tokens\n";

/// Whether a command has said its exit status.
bool concluded = false;

/// A library may end the process by itself, as OpenMP's does with status 1 when it gets no memory. Such an end is no
/// verdict, so it has the status of bad input.
void refuse_early_end() {
  if (concluded) return;
  complain_without_memory("draftproof: ended by a library, for want of threads or memory; this is no verdict\n");
  _exit(static_cast<int>(Exit::bad_input));
}

/// Where no exception can be caught, as in a destructor that needs memory, want of memory still is no bug of ours.
[[noreturn]] void end_without_handler() noexcept {
  try {
    if (std::current_exception()) throw;
  } catch (const std::bad_alloc&) {
    complain_without_memory(no_memory);
    _exit(static_cast<int>(Exit::bad_input));
  } catch (const std::exception& wrong) {
    complain_without_memory("draftproof: an exception that nothing catches: ");
    complain_without_memory(wrong.what());
    complain_without_memory("\n");
  } catch (...) {
  }
  std::abort();
}

/// A file that is mapped into memory and made shorter by others has no bytes to give any more.
void refuse_cut_file(int) {
  complain_without_memory("draftproof: a file was made shorter while it was read; write a new one and rename it\n");
  _exit(static_cast<int>(Exit::bad_input));
}

int conclude(Exit status) {
  concluded = true;
  return static_cast<int>(status);
}

Exit run(int argc, char** argv) {
  CommandLine line("draftproof", "Speculative decoding you can prove.", version_text);
  Command& app = line.root();
  add_verify(app);
  add_campaign(app);
  add_generate(app);
  add_chat(app);
  add_serve(app);
  add_inspect(app);
  add_signature(app);
  add_fetch(app);
  add_convert(app);
  add_synth(app);
  add_grow(app);
  add_corpus(app);
  add_bench(app);
  add_fixture(app);
  add_trace(app);
  add_endpoint(app);
  add_reproduce(app);
  add_zoo(app);
  add_completion(app);
  add_man(app);
  const Exit status = line.run(argc, argv);
  const bool printed = std::cout.flush() && std::fflush(stdout) == 0 && std::ferror(stdout) == 0;
  if (!printed) throw Error("standard output cannot be written to");
  return status;
}

/// A campaign, whose trials are dealt out to the ranks.
Exit run_campaign_as(Mail& mail, int argc, char** argv) {
  if (mail.rank() != 0) {
    make_dealt_trials(mail);
    leave_ranks();
    return Exit::pass;
  }
  struct Dealer {
    Mail& mail;
    ~Dealer() {
      end_dealing(mail);
      leave_ranks();
    }
  } const dealer = {mail};
  return run(argc, argv);
}

/// The same as one of the ranks that mpirun has started.
Exit run_as(Ranks& ranks, int argc, char** argv) {
  if (argc > 1 && std::string_view(argv[1]) == "campaign") return run_campaign_as(*process_mail(), argc, argv);
  if (ranks.rank() != 0) {
    follow(ranks);
    leave_ranks();
    return Exit::pass;
  }
  /// Whatever happens, the others are let go.
  struct Leader {
    Ranks& ranks;
    ~Leader() {
      dismiss(ranks);
      leave_ranks();
    }
  } const leader = {ranks};
  constexpr std::string_view led[] = {"generate", "chat", "verify", "serve"};
  if (argc < 2 || std::ranges::find(led, argv[1]) == std::end(led)) {
    throw Error("over several ranks run generate, chat, verify, serve or campaign; all else leave mpirun out for");
  }
  return run(argc, argv);
}

}  // namespace

int run_command(int argc, char** argv) {
  occupy_standard_streams();
  std::set_terminate(end_without_handler);
  std::atexit(refuse_early_end);
  std::fesetenv(FE_DFL_ENV);    // whatever a library has set that was loaded before
  std::setlocale(LC_ALL, "C");  // so that numbers have points
  std::signal(SIGBUS, refuse_cut_file);
  try {
    Ranks* const ranks = process_ranks();
    return conclude(ranks == nullptr ? run(argc, argv) : run_as(*ranks, argc, argv));
  } catch (const std::bad_alloc&) {
    complain_without_memory(no_memory);
  } catch (const std::filesystem::filesystem_error& wrong) {
    complain(wrong.path1().string() + ": " + wrong.code().message());
  } catch (const std::system_error& wrong) {
    const bool threads = wrong.code() == std::errc::resource_unavailable_try_again;
    const bool printing = std::string_view(wrong.what()).starts_with("cannot write to file");  // fmt::print
    complain(printing  ? "standard output cannot be written to"
             : threads ? "the system gives no more threads; end other processes, or raise the limit (ulimit -u)"
                       : wrong.what());
  } catch (const std::exception& wrong) {  // our Error, or an error of a library
    complain(wrong.what());
  }
  return conclude(Exit::bad_input);
}

}  // namespace draftproof
