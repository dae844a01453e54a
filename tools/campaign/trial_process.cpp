// SPDX-License-Identifier: MIT
#include "tools/campaign/trial_process.h"

#include <fcntl.h>
#include <signal.h>
#include <stdlib.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <fstream>
#include <iterator>
#include <string_view>
#include <system_error>

#include "ref/base/error.h"
#include "ref/formats/printable.h"
#include "ref/ranks/process_ranks.h"
#include "tools/command_line.h"

extern char** environ;

namespace draftproof {
namespace {

namespace files = std::filesystem;

constexpr const char* this_program = "/proc/self/exe";

/// The environment of a process that is no rank. Trials share cores, so their threads sleep where they wait, unless the
/// user says otherwise; circling took most of the processor's time.
std::vector<char*> environment_of_trial() {
  static char passive[] = "OMP_WAIT_POLICY=passive";
  std::vector<char*> list;
  for (char** entry = environ; *entry != nullptr; ++entry) {
    const std::string_view name = std::string_view(*entry).substr(0, std::string_view(*entry).find('='));
    if (std::ranges::find(variables_of_ranks(), name) == variables_of_ranks().end()) list.push_back(*entry);
  }
  if (getenv("OMP_WAIT_POLICY") == nullptr) list.push_back(passive);
  list.push_back(nullptr);
  return list;
}

std::string text_of_file(const files::path& path) {
  std::ifstream file(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(file), std::istreambuf_iterator<char>()};
}

/// The last line that is not empty: what went wrong.
std::string last_line(const std::string& text) {
  const std::string_view lines = std::string_view(text).substr(0, text.find_last_not_of('\n') + 1);
  return printable(lines.substr(lines.rfind('\n') + 1), 2000);
}

}  // namespace

TrialProcess::TrialProcess() {
  std::string name = (files::temp_directory_path() / "draftproof-trial-XXXXXX").string();
  if (mkdtemp(name.data()) == nullptr) throw Error(name + ": cannot be created; give another folder as TMPDIR");
  folder_ = name;
}

TrialProcess::~TrialProcess() {
  end();
  std::error_code ignored;
  files::remove_all(folder_, ignored);
}

void TrialProcess::start(const std::vector<std::string>& words, bool reproduces) {
  for (const char* const name : {"report.json", "errors", "case"}) files::remove_all(folder_ / name);
  std::vector<std::string> all = {"draftproof"};
  all.insert(all.end(), words.begin(), words.end());
  all.insert(all.end(), {"--json", (folder_ / "report.json").string(), "--quiet"});
  if (reproduces) all.insert(all.end(), {"--reproducer", (folder_ / "case").string()});
  std::vector<char*> arguments;
  for (std::string& word : all) arguments.push_back(word.data());
  arguments.push_back(nullptr);
  const std::vector<char*> environment = environment_of_trial();
  const std::string errors = (folder_ / "errors").string();
  const pid_t campaign = getpid();
  process_ = fork();
  if (process_ < 0)
    throw Error("no process can be started for a trial; end other processes, or raise the limit (ulimit -u)");
  if (process_ > 0) return;
  // Only what a signal handler may call: the process that was copied has threads.
  setpgid(0, 0);  // Ctrl-C is for the campaign, which ends this one
  prctl(PR_SET_PDEATHSIG, SIGKILL);
  if (getppid() != campaign) _exit(127);
  const int nowhere = open("/dev/null", O_RDWR);
  dup2(nowhere, STDIN_FILENO);
  dup2(nowhere, STDOUT_FILENO);
  const int file = open(errors.c_str(), O_WRONLY | O_CREAT | O_TRUNC, 0600);
  dup2(file, STDERR_FILENO);
  close_range(STDERR_FILENO + 1, ~0U, 0);
  execve(this_program, arguments.data(), environment.data());
  _exit(127);
}

std::optional<TrialResult> TrialProcess::poll() {
  int status = 0;
  if (waitpid(process_, &status, WNOHANG) == 0) return std::nullopt;
  process_ = -1;
  TrialResult result;
  const std::string complaint = last_line(text_of_file(folder_ / "errors"));
  if (WIFEXITED(status) && WEXITSTATUS(status) != static_cast<int>(Exit::bad_input)) {
    result.report = text_of_file(folder_ / "report.json");
    result.reproducer = text_of_file(folder_ / "case" / "case.json");
  }
  if (!result.report.empty()) return result;
  constexpr std::string_view name = "draftproof: ";
  result.complaint = complaint.starts_with(name) ? complaint.substr(name.size()) : complaint;
  if (WIFSIGNALED(status)) {
    const std::string by_signal = "it was ended by signal " + std::to_string(WTERMSIG(status));
    result.complaint = complaint.empty() ? by_signal : by_signal + ": " + result.complaint;
  } else if (complaint.empty()) {
    result.complaint = "it has said nothing";
  }
  return result;
}

void TrialProcess::end() {
  if (process_ <= 0) return;
  kill(process_, SIGKILL);
  waitpid(process_, nullptr, 0);
  process_ = -1;
}

}  // namespace draftproof
