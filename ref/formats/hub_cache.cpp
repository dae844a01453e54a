// SPDX-License-Identifier: MIT
#include "ref/formats/hub_cache.h"

#include <algorithm>
#include <cstdlib>
#include <fstream>
#include <vector>

#include "ref/base/error.h"
#include "ref/base/presence.h"

namespace draftproof {
namespace {

/// What Hugging Face allows in the names of owners and of repositories.
bool is_name(std::string_view text) {
  const bool letters = std::ranges::all_of(text, [](char c) {
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '-' || c == '_' ||
           c == '.';
  });
  const bool ends =
      !text.empty() && text.front() != '.' && text.front() != '-' && text.back() != '.' && text.back() != '-';
  const bool inside = text.find("..") == std::string_view::npos && text.find("--") == std::string_view::npos;
  return letters && ends && inside && text.size() <= 96;
}

std::string lower(std::string text) {
  std::ranges::transform(text, text.begin(), [](char c) { return c >= 'A' && c <= 'Z' ? char(c - 'A' + 'a') : c; });
  return text;
}

/// The value of an environment variable; "" where it is not set.
std::string variable(const char* name) {
  const char* const value = std::getenv(name);
  return value == nullptr ? "" : value;
}

/// The commit that a reference names; where it names none, that of the only snapshot.
std::optional<std::filesystem::path> find_snapshot(const std::filesystem::path& folder) {
  std::string commit;
  std::ifstream(folder / "refs" / "main") >> commit;
  std::error_code failure;
  if (commit.find('/') == std::string::npos && !commit.empty() &&
      std::filesystem::is_directory(folder / "snapshots" / commit, failure)) {
    return folder / "snapshots" / commit;
  }
  std::vector<std::filesystem::path> found;
  std::filesystem::directory_iterator entry(folder / "snapshots", failure);
  for (; !failure && entry != std::filesystem::directory_iterator(); entry.increment(failure)) {
    found.push_back(entry->path());
  }
  if (found.size() != 1) return std::nullopt;
  return found[0];
}

}  // namespace

std::optional<HubName> read_hub_name(std::string_view text) {
  HubName name;
  if (const std::size_t colon = text.find(':'); colon != std::string_view::npos) {
    name.file = text.substr(colon + 1);
    text = text.substr(0, colon);
    if (name.file.empty() || name.file[0] == '/' || name.file.find("..") != std::string::npos) return std::nullopt;
  }
  const std::size_t slash = text.find('/');
  if (slash == std::string_view::npos || !is_name(text.substr(0, slash)) || !is_name(text.substr(slash + 1))) {
    return std::nullopt;
  }
  name.owner = text.substr(0, slash);
  name.name = text.substr(slash + 1);
  return name;
}

bool is_gguf_named(const std::string& file, const std::string& wanted) {
  if (file == wanted) return true;
  return file.ends_with(".gguf") && lower(file).find(lower(wanted)) != std::string::npos;
}

std::filesystem::path hub_cache() {
  if (const std::string cache = variable("HF_HUB_CACHE"); !cache.empty()) return cache;
  if (const std::string home = variable("HF_HOME"); !home.empty()) return std::filesystem::path(home) / "hub";
  const std::string caches = variable("XDG_CACHE_HOME");
  const std::filesystem::path all = caches.empty() ? variable("HOME") + "/.cache" : caches;
  return all / "huggingface" / "hub";
}

std::filesystem::path hub_folder(const std::filesystem::path& cache, const HubName& name) {
  return cache / ("models--" + name.owner + "--" + name.name);
}

std::optional<std::filesystem::path> find_in_hub_cache(const std::filesystem::path& cache, const HubName& name) {
  const auto snapshot = find_snapshot(hub_folder(cache, name));
  if (!snapshot || name.file.empty()) return snapshot;
  if (is_present(*snapshot / name.file)) return *snapshot / name.file;
  std::error_code failure;
  std::vector<std::filesystem::path> found;
  std::filesystem::recursive_directory_iterator entry(*snapshot, failure);
  for (; !failure && entry != std::filesystem::recursive_directory_iterator(); entry.increment(failure)) {
    if (is_gguf_named(entry->path().filename().string(), name.file)) found.push_back(entry->path());
  }
  std::ranges::sort(found);
  const bool parts = found.size() > 1 && found[0].string().find("-00001-of-") != std::string::npos;
  if (found.size() == 1 || parts) return found[0];
  return std::nullopt;
}

std::filesystem::path here_or_in_hub_cache(const std::filesystem::path& path) {
  if (is_present(path)) return path;
  const auto name = read_hub_name(path.generic_string());
  return name ? find_in_hub_cache(hub_cache(), *name).value_or(path) : path;
}

}  // namespace draftproof
