// SPDX-License-Identifier: MIT
#include "ref/base/subprocess.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <fcntl.h>
#include <signal.h>
#include <sys/mman.h>
#include <sys/ptrace.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "ref/base/error.h"
#include "tests/folder.h"
#include "tests/sanitized.h"

namespace draftproof::subprocess_test {
namespace {

using testing::HasSubstr;

std::string error_of(const std::function<void()>& action) {
  try {
    action();
  } catch (const Error& error) {
    return error.what();
  }
  return "no error";
}

Subprocess::Handler answers() {
  return [calls = 0](const std::string& request) mutable {
    ++calls;
    if (request == "crash") raise(SIGSEGV);
    if (request == "end") _exit(7);
    if (request == "hang")
      while (true) ++calls;
    if (request == "refuse") throw Error("that is refused");
    if (request == "much") return std::string(101, 'x');
    return request + " " + std::to_string(calls);
  };
}

TEST(Subprocess, AnswersInAnotherProcessThatKeepsItsState) {
  Subprocess there("it", answers, 100);
  EXPECT_EQ(there.ask("a"), "a 1");
  EXPECT_EQ(there.ask(std::string(90, 'b')), std::string(90, 'b') + " 2");
  EXPECT_EQ(there.ask(""), " 3");
  const int own = getpid();
  Subprocess process(
      "it", [] { return [](const std::string&) { return std::to_string(getpid()); }; }, 100);
  EXPECT_NE(process.ask(""), std::to_string(own));
}

TEST(Subprocess, ErrorsAreThrownInTheCallerAndTheProcessContinues) {
  Subprocess there("it", answers, 100);
  EXPECT_EQ(error_of([&] { there.ask("refuse"); }), "that is refused");
  EXPECT_EQ(there.ask("a"), "a 2");
  Subprocess never(
      "it", []() -> Subprocess::Handler { throw Error("there is nothing to begin with"); }, 100);
  EXPECT_EQ(error_of([&] { never.ask("a"); }), "there is nothing to begin with");
}

TEST(Subprocess, ACrashAHangAndATooLargeAnswerAreErrors) {
  if (test::sanitized) GTEST_SKIP() << "the sanitizer answers the signal";
  const std::pair<const char*, const char*> cases[] = {{"crash", "it: its reader was ended by signal 11"},
                                                       {"end", "it: its reader ended with status 7"},
                                                       {"hang", "it: takes more than 1 s to read"},
                                                       {"much", "it: its reader was ended by signal 9"}};
  for (const auto& [request, words] : cases) {
    Subprocess there("it", answers, 100, std::chrono::seconds(1));
    EXPECT_EQ(there.ask("a"), "a 1");
    EXPECT_THAT(error_of([&] { there.ask(request); }), HasSubstr(words));
    EXPECT_EQ(error_of([&] { there.ask("a"); }), "it: its reader has ended");
  }
}

TEST(Subprocess, AReaderUsesWhatItBeganWithAndCanOpenNothingElse) {
  const test::Folder folder;
  const std::filesystem::path file = folder.path() / "file";
  std::ofstream(file) << "content";
  const auto begin = [&]() -> Subprocess::Handler {
    const int descriptor = open(file.c_str(), O_RDONLY);
    return [descriptor](const std::string& path) -> std::string {
      if (path.empty()) {
        char bytes[7];
        return {bytes, static_cast<std::size_t>(pread(descriptor, bytes, sizeof bytes, 0))};
      }
      return open(path.c_str(), O_RDONLY) < 0 ? std::strerror(errno) : "opened";
    };
  };
  Subprocess there("it", begin, 100);
  EXPECT_EQ(there.ask(""), "content");
  EXPECT_EQ(there.ask(file.string()), "Permission denied");
  EXPECT_EQ(there.ask("/dev/null"), "Permission denied");
}

TEST(Subprocess, AReaderThatTriesWhatReadingDoesNotNeedIsStopped) {
  const int self = getpid();
  const std::pair<const char*, std::function<void()>> attempts[] = {
      {"socket", [] { socket(AF_INET, SOCK_STREAM, 0); }},
      {"fork", [] { fork(); }},
      {"thread", [] { std::thread([] {}).detach(); }},
      {"program", [] { execl("/bin/true", "/bin/true", nullptr); }},
      {"signal", [self] { kill(self, SIGUSR1); }},
      {"signal to a thread", [self] { syscall(SYS_tgkill, self, self, SIGUSR1); }},
      {"code", [] { mmap(nullptr, 4096, PROT_READ | PROT_EXEC, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0); }},
      {"remove", [] { unlink("/nowhere"); }},
      {"another process's memory", [self] { ptrace(PTRACE_ATTACH, self, nullptr, nullptr); }},
  };
  for (const auto& [name, attempt] : attempts) {
    const auto begin = [&attempt]() -> Subprocess::Handler {
      return [&attempt](const std::string&) {
        attempt();
        return std::string("went on");
      };
    };
    EXPECT_EQ(error_of([&] { Subprocess("it", begin, 100).ask(""); }),
              "it: its reader was stopped when it tried what reading does not need; trust nothing of this file")
        << name;
  }
}

TEST(Subprocess, AReaderHasLimits) {
  if (test::sanitized) GTEST_SKIP() << "the sanitizer has taken its memory already";
  const auto begin = []() -> Subprocess::Handler {
    std::string limits;
    for (const auto resource : {RLIMIT_CORE, RLIMIT_FSIZE, RLIMIT_NPROC, RLIMIT_CPU}) {
      rlimit limit;
      getrlimit(resource, &limit);
      limits += std::to_string(limit.rlim_cur) + " " + std::to_string(limit.rlim_max) + ", ";
    }
    return [limits](const std::string& bytes) {
      return bytes.empty() ? limits : std::to_string(std::vector<char>(std::stoull(bytes), 'x').size());
    };
  };
  Subprocess there("it", begin, 100);
  EXPECT_EQ(there.ask(""), "0 0, 0 0, 0 0, 3600 3600, ");
  EXPECT_EQ(there.ask("100000000"), "100000000");
  EXPECT_EQ(error_of([&] { there.ask("400000000"); }),
            "it: takes more memory to read than its size explains, or than there is");
  EXPECT_EQ(there.ask("100000000"), "100000000");
}

TEST(Subprocess, WhatItPrintsIsNotSaidInTheNameOfTheCaller) {
  const auto begin = []() -> Subprocess::Handler {
    return [](const std::string&) { return std::to_string(write(STDOUT_FILENO, "PASS\n", 5)); };
  };
  testing::internal::CaptureStdout();
  EXPECT_EQ(Subprocess("it", begin, 100).ask(""), "5");
  EXPECT_EQ(testing::internal::GetCapturedStdout(), "");
}

TEST(WriteInSubprocess, WritesAndThrowsWhatItThrowsAndACrashIsAnError) {
  if (test::sanitized) GTEST_SKIP() << "the sanitizer answers the signal";
  const test::Folder folder;
  const std::filesystem::path file = folder.path() / "written";
  write_in_subprocess("it", [&] { std::ofstream(file) << "all"; });
  EXPECT_EQ(std::filesystem::file_size(file), 3u);
  const std::string full = "the disk is full " + std::string(1000, '!');
  EXPECT_EQ(error_of([&] { write_in_subprocess("it", [&] { throw Error(full); }); }), full);
  EXPECT_EQ(error_of([] { write_in_subprocess("it", [] { raise(SIGSEGV); }); }),
            "it: its writer was ended by signal 11; it was not written, and the file that it replaces is kept");
}

}  // namespace
}  // namespace draftproof::subprocess_test
