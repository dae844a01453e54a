// SPDX-License-Identifier: MIT
// An error outside of the program: in a file, a flag, a checkpoint or the CPU. Its message is one sentence that names
// the object and states what to do. Thrown where input is read, and caught once, in main, which prints the message and
// exits with status 3.
#pragma once

#include <stdexcept>
#include <string>

namespace draftproof {

class Error : public std::runtime_error {
 public:
  explicit Error(const std::string& message) : std::runtime_error(message) {}
};

}  // namespace draftproof
