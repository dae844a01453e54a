// SPDX-License-Identifier: MIT
// The cache that Hugging Face's programs share, as huggingface_hub lays it out: what it holds of a repository.
//
//     models--OWNER--NAME/refs/main             the commit that "main" was when it was last fetched
//     models--OWNER--NAME/snapshots/COMMIT/...  the files of a commit, links to
//     models--OWNER--NAME/blobs/DIGEST          their content
#pragma once

#include <filesystem>
#include <optional>
#include <string>
#include <string_view>

namespace draftproof {

/// A repository, and maybe one file of it: OWNER/NAME or OWNER/NAME:FILE.
struct HubName {
  std::string owner;
  std::string name;
  std::string file;  // a .gguf, by its whole name or by a part that only one has, as "Q4_K_M"; may be empty

  std::string repository() const { return owner + "/" + name; }
};

/// Returns what a text of this form names; nullopt for any other.
std::optional<HubName> read_hub_name(std::string_view text);

/// Whether a file of a repository is the .gguf that `wanted` names, the letters of a part in either case.
bool is_gguf_named(const std::string& file, const std::string& wanted);

/// Returns where the cache is: HF_HUB_CACHE, or hub in HF_HOME, or in huggingface of XDG_CACHE_HOME or ~/.cache.
std::filesystem::path hub_cache();

/// Returns the folder of a repository in a cache.
std::filesystem::path hub_folder(const std::filesystem::path& cache, const HubName& name);

/// Returns the folder of the snapshot that a cache has, or the file in it; nullopt when it has none.
std::optional<std::filesystem::path> find_in_hub_cache(const std::filesystem::path& cache, const HubName& name);

/// Returns `path`, or what it names in the cache when nothing is there.
std::filesystem::path here_or_in_hub_cache(const std::filesystem::path& path);

}  // namespace draftproof
