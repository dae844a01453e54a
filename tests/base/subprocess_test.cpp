// SPDX-License-Identifier: MIT
#include "ref/base/subprocess.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <signal.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>

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
      while (true) pause();
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
