// SPDX-License-Identifier: MIT
#include "tools/tool_command.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <csignal>
#include <sstream>
#include <string_view>
#include <vector>

#include "ref/base/error.h"
#include "ref/formats/printable.h"

namespace draftproof {
namespace {

constexpr std::size_t output_max = std::size_t{1} << 20;
constexpr int not_run = 127;

/// A file in memory that has been written, at its beginning.
int file_of(std::string_view text) {
  const int file = memfd_create("input", MFD_CLOEXEC);
  while (file >= 0 && !text.empty()) {
    const ssize_t count = write(file, text.data(), text.size());
    if (count < 0 && errno != EINTR) break;
    text.remove_prefix(static_cast<std::size_t>(std::max<ssize_t>(count, 0)));
  }
  if (file < 0 || !text.empty() || lseek(file, 0, SEEK_SET) != 0) throw Error("there is no memory for a file");
  return file;
}

}  // namespace

std::string output_of_command(const std::string& command, const std::string& input) {
  std::istringstream text(command);
  std::vector<std::string> words;
  for (std::string word; text >> word;) words.push_back(word);
  if (words.empty()) throw Error("the command is empty; give a program and its arguments");
  std::vector<char*> arguments;
  for (std::string& word : words) arguments.push_back(word.data());
  arguments.push_back(nullptr);
  const int in = file_of(input);
  int ends[2];
  const pid_t process = pipe2(ends, O_CLOEXEC) == 0 ? fork() : -1;
  if (process == 0) {
    dup2(in, STDIN_FILENO);
    dup2(ends[1], STDOUT_FILENO);
    execvp(arguments[0], arguments.data());
    _exit(not_run);
  }
  close(in);
  if (process < 0) throw Error("no process can be made for " + in_quotes(words[0]));
  close(ends[1]);
  std::string output;
  char bytes[4096];
  for (ssize_t count = 1; count != 0 && output.size() <= output_max;) {
    count = read(ends[0], bytes, sizeof bytes);
    if (count < 0 && errno != EINTR) break;
    output.append(bytes, static_cast<std::size_t>(std::max<ssize_t>(count, 0)));
  }
  close(ends[0]);
  if (output.size() > output_max) kill(process, SIGKILL);
  int status = 0;
  while (waitpid(process, &status, 0) < 0 && errno == EINTR) {
  }
  if (output.size() > output_max) throw Error(in_quotes(words[0]) + " prints more than a megabyte");
  if (WIFEXITED(status) && WEXITSTATUS(status) == 0) return output;
  if (WIFEXITED(status) && WEXITSTATUS(status) == not_run) throw Error(in_quotes(words[0]) + " cannot be run");
  throw Error(in_quotes(words[0]) + (WIFEXITED(status) ? " ended with status " + std::to_string(WEXITSTATUS(status))
                                                       : " was ended by signal " + std::to_string(WTERMSIG(status))));
}

}  // namespace draftproof
