// SPDX-License-Identifier: MIT
// Replaces a file completely or not at all.
#pragma once

#include <filesystem>
#include <functional>
#include <string_view>

namespace draftproof {

/// Calls `write` to create a new file in the folder of `file`, syncs it to disk, and renames it to `file`. Whenever the
/// process is killed or the power fails, `file` is the old or the new one, complete. When `write` throws, nothing
/// changes. A killed process may leave its NAME.partial-PID behind, which nothing reads, and which the next that
/// replaces the file removes.
void replace_whole(const std::filesystem::path& file, const std::function<void(const std::filesystem::path&)>& write);

/// The second half of replace_whole: syncs `partial`, a file in the same folder, to disk and renames it to `file`.
void put_in_place(const std::filesystem::path& partial, const std::filesystem::path& file);

/// Removes every NAME.partial-PID in `folder` whose process has ended; it must be one of this machine. `name`: of one
/// file; empty: of all.
void remove_leftovers(const std::filesystem::path& folder, std::string_view name = "");

}  // namespace draftproof
