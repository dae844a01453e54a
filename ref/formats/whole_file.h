// SPDX-License-Identifier: MIT
// A file that is replaced whole or not at all.
#pragma once

#include <filesystem>
#include <functional>

namespace draftproof {

/// Lets `write` make a new file beside `file`, brings it to the disk, and puts it in `file`'s place. Whenever the
/// process is killed or the power fails, `file` is the old one or the new one, complete. When `write` throws, nothing
/// has changed. A killed process may leave its NAME.partial-PID behind, which nobody reads.
void replace_whole(const std::filesystem::path& file, const std::function<void(const std::filesystem::path&)>& write);

/// The second half of it: brings `partial`, a file in the same folder, to the disk and puts it in `file`'s place.
void put_in_place(const std::filesystem::path& partial, const std::filesystem::path& file);

}  // namespace draftproof
