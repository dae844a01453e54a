// SPDX-License-Identifier: MIT
// A check for bugs of the program itself. When the condition is false, prints the source line and the message and
// aborts, in every build.
#pragma once

namespace draftproof {

[[noreturn]] void require_failed(const char* file, int line, const char* condition, const char* message) noexcept;

}  // namespace draftproof

#define REQUIRE(condition, message)                                          \
  do {                                                                       \
    if (!(condition)) [[unlikely]]                                           \
      ::draftproof::require_failed(__FILE__, __LINE__, #condition, message); \
  } while (false)
