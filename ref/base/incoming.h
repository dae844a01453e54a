// SPDX-License-Identifier: MIT
// Reads a file or a pipe as a stream. The writer of a pipe may take any time; but a named pipe without a writer is
// waited for only a few seconds.
#pragma once

#include <streambuf>
#include <string>
#include <vector>

namespace draftproof {

class Incoming final : public std::streambuf {
 public:
  static constexpr int timeout_seconds = 3;

  /// Throws Error when the file cannot be opened, or when it is a pipe that nobody opens for writing. A failed read
  /// throws Error as well; a std::istream catches exceptions, so there it shows as bad().
  explicit Incoming(const std::string& file);
  ~Incoming() override;
  Incoming(const Incoming&) = delete;
  Incoming& operator=(const Incoming&) = delete;

 private:
  int_type underflow() override;
  void await_writer();

  std::string file_;
  int descriptor_;
  std::vector<char> bytes_;
};

}  // namespace draftproof
