// SPDX-License-Identifier: MIT
// We are wrong: a broken invariant of our own. Prints place and sentence and aborts, in every build.
#pragma once

namespace draftproof {

[[noreturn]] void require_failed(const char* file, int line, const char* condition, const char* message) noexcept;

}  // namespace draftproof

#define REQUIRE(condition, message)                                                                  \
  do {                                                                                                \
    if (!(condition)) [[unlikely]]                                                                    \
      ::draftproof::require_failed(__FILE__, __LINE__, #condition, message);                         \
  } while (false)
