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
#include <vector>

namespace draftproof {

/// The only file of weights of Medusa heads, as their authors publish them. Checkpoint reads it where a folder has
/// neither model.safetensors nor shards.
inline constexpr const char* medusa_file = "medusa_lm_head.safetensors";

/// A repository, and maybe one file of it: OWNER/NAME or OWNER/NAME:FILE.
struct HubName {
  std::string owner;
  std::string name;
  std::string file;  // a .gguf, by its whole name or by a part that only one has, as "Q4_K_M"; may be empty

  std::string repository() const { return owner + "/" + name; }
};

/// Returns what a text of this form names; nullopt for any other.
std::optional<HubName> read_hub_name(std::string_view text);

/// Returns the models among the files of a repository that `wanted` names, each as its parts in order: the one that a
/// whole name belongs to, or else every .gguf whose name has the text, in either case. "" names all. Encoders of images
/// (mmproj) are named by their whole name only.
std::vector<std::vector<std::string>> find_ggufs(const std::vector<std::string>& files, const std::string& wanted);

/// Returns where the cache is: HF_HUB_CACHE, or hub in HF_HOME, or in huggingface of XDG_CACHE_HOME or ~/.cache.
std::filesystem::path hub_cache();

/// Returns the folder of a repository in a cache.
std::filesystem::path hub_folder(const std::filesystem::path& cache, const HubName& name);

/// Returns the folder of the snapshot that a cache has, or the .gguf in it that is named or is its only model; of
/// several parts the first. nullopt when it has none, or when its only snapshot is still being fetched.
std::optional<std::filesystem::path> find_in_hub_cache(const std::filesystem::path& cache, const HubName& name);

/// Returns `path`, or what it names in the cache when nothing is there.
std::filesystem::path here_or_in_hub_cache(const std::filesystem::path& path);

}  // namespace draftproof
