// SPDX-License-Identifier: MIT
// The world is wrong: a file, a flag, a checkpoint, a CPU. One sentence that names the thing and says what to do.
// Thrown where the outside comes in, caught once, in main, which prints the sentence and exits with status 3.
#pragma once

#include <stdexcept>
#include <string>

namespace draftproof {

class Error : public std::runtime_error {
 public:
  explicit Error(const std::string& message) : std::runtime_error(message) {}
};

}  // namespace draftproof
