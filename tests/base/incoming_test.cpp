// SPDX-License-Identifier: MIT
#include "ref/base/incoming.h"

#include <fcntl.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/stat.h>
#include <unistd.h>

#include <chrono>
#include <iterator>
#include <thread>

#include "ref/base/error.h"
#include "tests/folder.h"

namespace draftproof::incoming_test {
namespace {

using testing::HasSubstr;

std::string all_of(Incoming& bytes) {
  return {std::istreambuf_iterator<char>(&bytes), std::istreambuf_iterator<char>()};
}

std::string error_of(const std::string& file) {
  try {
    Incoming bytes(file);
    return "no error: " + all_of(bytes);
  } catch (const Error& error) {
    return error.what();
  }
}

struct Pipe {
  test::Folder folder;
  std::string path = folder.path() / "pipe";
  Pipe() { EXPECT_EQ(mkfifo(path.c_str(), 0600), 0); }
};

void put(int file, const std::string& text) {
  EXPECT_EQ(write(file, text.data(), text.size()), static_cast<ssize_t>(text.size()));
}

constexpr std::chrono::milliseconds a_while(300);

TEST(Incoming, ReadsAFileOfAnyLength) {
  const test::Folder folder;
  for (const std::size_t length : {0U, 1U, 65536U, 65537U, 200000U}) {
    std::string text(length, 'x');
    for (std::size_t i = 0; i < length; ++i) text[i] = static_cast<char>(i * i);
    test::put(folder.path() / "file", text);
    Incoming bytes(folder.path() / "file");
    EXPECT_EQ(all_of(bytes), text);
  }
}

TEST(IncomingSlow, WaitsForALateWriterAndThenForAllItsBytes) {
  const Pipe pipe;
  std::thread writer([&] {
    std::this_thread::sleep_for(a_while);
    const int file = open(pipe.path.c_str(), O_WRONLY);
    std::this_thread::sleep_for(std::chrono::seconds(Incoming::timeout_seconds) + a_while);
    put(file, "late");
    std::this_thread::sleep_for(a_while);
    put(file, " but whole");
    close(file);
  });
  Incoming bytes(pipe.path);
  EXPECT_EQ(all_of(bytes), "late but whole");
  writer.join();
}

TEST(IncomingSlow, RejectsAPipeWithoutAWriterAfterAFewSeconds) {
  const Pipe pipe;
  const auto begin = std::chrono::steady_clock::now();
  EXPECT_THAT(error_of(pipe.path), HasSubstr(pipe.path + ": a pipe into which nobody writes"));
  EXPECT_LT(std::chrono::steady_clock::now() - begin, std::chrono::seconds(3 * Incoming::timeout_seconds));
}

TEST(Incoming, ReadsTheRestOfAPipeWhoseWriterHasClosedItWithoutWaiting) {
  for (const std::string text : {"", "all"}) {
    int ends[2];
    ASSERT_EQ(pipe(ends), 0);
    put(ends[1], text);
    close(ends[1]);
    const auto begin = std::chrono::steady_clock::now();
    Incoming bytes("/dev/fd/" + std::to_string(ends[0]));
    EXPECT_EQ(all_of(bytes), text);
    EXPECT_LT(std::chrono::steady_clock::now() - begin, std::chrono::seconds(Incoming::timeout_seconds));
    close(ends[0]);
  }
}

TEST(Incoming, NamesAFileThatCannotBeRead) {
  EXPECT_THAT(error_of("/nonexistent"), HasSubstr("/nonexistent: cannot be read: No such file"));
  EXPECT_THAT(error_of("/"), HasSubstr("/: cannot be read: Is a directory"));
}

}  // namespace
}  // namespace draftproof::incoming_test
