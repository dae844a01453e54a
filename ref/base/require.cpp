// SPDX-License-Identifier: MIT
#include "ref/base/require.h"

#include <cstdio>
#include <cstdlib>

namespace draftproof {

void require_failed(const char* file, int line, const char* condition, const char* message) noexcept {
  std::fprintf(stderr, "%s:%d: broken invariant: %s (%s)\n", file, line, message, condition);
  std::abort();
}

}  // namespace draftproof
