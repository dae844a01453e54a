// SPDX-License-Identifier: MIT
// The server as a process of its own, on the shipped models.
#pragma once

#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <csignal>
#include <cstdint>
#include <string>
#include <vector>

#include "tests/tools/command.h"

namespace draftproof::test {

inline const std::string target = fixture("models/tale-target");
inline const std::string dflash = "dflash:" + fixture("models/tale-dflash");

/// `draftproof serve`, as a user starts and ends it.
class ServeProcess {
 public:
  /// `file_size_max`: of every file that it writes, in bytes; 0: any. `errors`: receives standard error.
  explicit ServeProcess(const Words& more = {}, std::uint64_t file_size_max = 0, const std::string& errors = "",
                        const std::string& model = target) {
    const std::string log = errors.empty() ? "none" : "json";
    const Words words = Words{DRAFTPROOF_BINARY, "serve", model, "--port", "0", "--log-format", log} + more;
    int ends[2];
    EXPECT_EQ(pipe(ends), 0);
    process_ = fork();
    if (process_ == 0) {
      prctl(PR_SET_PDEATHSIG, SIGTERM);  // no test leaves a server behind
      dup2(ends[1], STDOUT_FILENO);
      close(ends[0]);
      const rlimit limit = {file_size_max, file_size_max};
      if (file_size_max > 0) setrlimit(RLIMIT_FSIZE, &limit);
      if (file_size_max > 0) std::signal(SIGXFSZ, SIG_IGN);
      if (!errors.empty()) dup2(open(errors.c_str(), O_WRONLY | O_CREAT | O_APPEND, 0600), STDERR_FILENO);
      std::vector<char*> list;
      for (const std::string& word : words) list.push_back(const_cast<char*>(word.c_str()));
      list.push_back(nullptr);
      execv(list[0], list.data());
      _exit(127);
    }
    close(ends[1]);
    std::string line;
    for (char c = 0; read(ends[0], &c, 1) == 1 && c != '\n';) line += c;
    close(ends[0]);
    const std::string begin = "listening on ";
    EXPECT_EQ(line.substr(0, begin.size()), begin);
    url_ = line.substr(std::min(line.size(), begin.size()));
  }
  ~ServeProcess() { end(); }
  ServeProcess(const ServeProcess&) = delete;
  ServeProcess& operator=(const ServeProcess&) = delete;

  const std::string& url() const { return url_; }
  int port() const { return std::stoi(url_.substr(url_.rfind(':') + 1)); }
  void send(int signal) const {
    if (process_ > 0) kill(process_, signal);  // -1, where there is no server, would be every process
  }
  /// Returns the exit status after a signal; 128 when that killed it.
  int end(int signal = SIGTERM) {
    if (process_ <= 0) return -1;
    send(signal);
    int status = 0;
    waitpid(process_, &status, 0);
    process_ = -1;
    return WIFEXITED(status) ? WEXITSTATUS(status) : 128;
  }

 private:
  pid_t process_ = -1;
  std::string url_;
};

}  // namespace draftproof::test
