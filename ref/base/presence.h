// SPDX-License-Identifier: MIT
// Whether a file is there. Only "not found" is absence.
#pragma once

#include <filesystem>

namespace draftproof {

/// True when there is a file, a folder or anything else of this name. Throws Error, naming it, for a link to nothing
/// and where the system cannot tell: what cannot be looked at is not absent.
bool is_present(const std::filesystem::path& path);

}  // namespace draftproof
