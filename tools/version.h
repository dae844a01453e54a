// SPDX-License-Identifier: MIT
#pragma once

#include <string>

namespace draftproof {

/// The git commit that was built, with "-dirty" after it when files differed from it; "unknown" outside of git. Its
/// definition is generated at build time (cmake/commit.cmake).
extern const char* const commit;

/// Version, commit and the kernel table that this machine uses, a line each.
std::string version_text();

}  // namespace draftproof
