// SPDX-License-Identifier: MIT
// The bytes of a file or a pipe, as they come. Who writes into a pipe may take as long as it likes; but a pipe by name,
// into which nobody writes, is waited for a few seconds only.
#pragma once

#include <streambuf>
#include <string>
#include <vector>

namespace draftproof {

class Incoming final : public std::streambuf {
 public:
  static constexpr int patience_seconds = 3;

  /// Error when it cannot be opened, or nobody comes to write into the pipe it is. Reading throws Error when it fails:
  /// through a std::istream, which keeps exceptions to itself, that is its bad().
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
