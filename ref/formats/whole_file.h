// SPDX-License-Identifier: MIT
// The only way in which result files are written: completely or not at all.
#pragma once

#include <filesystem>
#include <functional>
#include <string_view>

namespace draftproof {

/// A new file beside `file`, with a name that no other process or thread writes to, until it takes the place of `file`.
/// Whenever the process is killed or the power fails, `file` is the old or the new one, complete. A killed process
/// leaves FILE.partial-PID-N behind; the next one that writes `file` removes it.
class PartialFile {
 public:
  /// Creates an empty file. Throws Error when it cannot be created.
  explicit PartialFile(const std::filesystem::path& file);
  /// Removes it, unless it has taken its place.
  ~PartialFile();
  PartialFile(const PartialFile&) = delete;
  PartialFile& operator=(const PartialFile&) = delete;

  /// To be written to, not to be replaced.
  const std::filesystem::path& path() const noexcept { return path_; }
  /// Syncs the content to disk, renames it to `file` and syncs the folder. Call once, when everything is written.
  /// Throws Error when that fails.
  void take_place();

 private:
  std::filesystem::path file_;
  std::filesystem::path path_;
  int lock_ = -1;  // a descriptor; locked, it says that the writer lives
};

/// Calls `write` with the path of a PartialFile, which then takes the place of `file`. When `write` throws, nothing
/// changes.
void replace_whole(const std::filesystem::path& file, const std::function<void(const std::filesystem::path&)>& write);

/// Removes the partial files in `folder` that nobody writes any more, because their process was killed. `name`: of this
/// file; empty: of all.
void remove_leftovers(const std::filesystem::path& folder, std::string_view name = "");

}  // namespace draftproof
