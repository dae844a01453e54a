// SPDX-License-Identifier: MIT
#include "ref/base/require.h"

#include <cstdio>
#include <cstdlib>

namespace draftproof {

void require_failed(const char* file, int line, const char* condition, const char* sentence) noexcept {
  std::fprintf(stderr, "%s:%d: broken invariant: %s (%s)\n", file, line, sentence, condition);
  std::abort();
}

}  // namespace draftproof
