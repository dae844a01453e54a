// SPDX-License-Identifier: MIT
#include "ref/formats/hub_cache.h"

#include <algorithm>
#include <cstdlib>
#include <fstream>
#include <map>
#include <set>
#include <utility>

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

/// Of a model in several files: what its name is without "-00001-of-00003.gguf".
std::string without_part(const std::string& name) {
  const std::size_t of = name.rfind("-of-");
  const bool parts = of != std::string::npos && of >= 6 && name[of - 6] == '-';
  return parts ? name.substr(0, of - 6) : name;
}

bool is_for_images(const std::string& name) {
  return std::string_view(name).substr(name.rfind('/') + 1).starts_with("mmproj");
}

/// The files of a snapshot, in order of name.
std::vector<std::string> files_of(const std::filesystem::path& snapshot) {
  std::vector<std::string> files;
  std::error_code failure;
  std::filesystem::recursive_directory_iterator entry(snapshot, failure);
  for (; !failure && entry != std::filesystem::recursive_directory_iterator(); entry.increment(failure)) {
    std::error_code of_entry;
    if (entry->is_directory(of_entry)) continue;
    files.push_back(entry->path().lexically_relative(snapshot).generic_string());
  }
  std::ranges::sort(files);
  return files;
}

/// Whether a transfer has begun and has not ended.
bool is_being_fetched(const std::filesystem::path& folder) {
  std::error_code failure;
  std::filesystem::directory_iterator entry(folder / "blobs", failure);
  for (; !failure && entry != std::filesystem::directory_iterator(); entry.increment(failure)) {
    if (entry->path().extension() == ".incomplete") return true;
  }
  return false;
}

/// The commit that a reference names; where it names none, that of the only snapshot.
std::optional<std::filesystem::path> find_snapshot(const std::filesystem::path& folder) {
  std::string commit;
  std::ifstream(folder / "refs" / "main") >> commit;
  std::error_code failure;
  if (commit.find('/') == std::string::npos && !commit.empty() && commit[0] != '.' &&
      std::filesystem::is_directory(folder / "snapshots" / commit, failure)) {
    return folder / "snapshots" / commit;
  }
  std::vector<std::filesystem::path> found;
  std::filesystem::directory_iterator entry(folder / "snapshots", failure);
  for (; !failure && entry != std::filesystem::directory_iterator(); entry.increment(failure)) {
    found.push_back(entry->path());
  }
  if (found.size() != 1 || is_being_fetched(folder)) return std::nullopt;
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

std::vector<std::vector<std::string>> find_ggufs(const std::vector<std::string>& files, const std::string& wanted) {
  const bool whole_name = std::ranges::find(files, wanted) != files.end();
  std::set<std::string> named;
  for (const std::string& file : files) {
    const bool has_text =
        file.ends_with(".gguf") && !is_for_images(file) && lower(file).find(lower(wanted)) != std::string::npos;
    if (whole_name ? file == wanted : has_text) named.insert(without_part(file));
  }
  std::map<std::string, std::vector<std::string>> models;
  for (const std::string& file : files) {
    const std::string model = without_part(file);
    if (named.contains(model) && (file == wanted || file.ends_with(".gguf"))) models[model].push_back(file);
  }
  std::vector<std::vector<std::string>> found;
  for (auto& [model, parts] : models) {
    std::ranges::sort(parts);
    found.push_back(std::move(parts));
  }
  return found;
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
  if (!snapshot) return std::nullopt;
  const std::vector<std::string> files = files_of(*snapshot);
  const bool folder =
      name.file.empty() && std::ranges::any_of(files, [](const auto& file) { return file.ends_with(".safetensors"); });
  const auto models = find_ggufs(files, name.file);
  if (!folder && models.size() == 1) return *snapshot / models[0][0];
  return name.file.empty() ? snapshot : std::nullopt;
}

std::filesystem::path here_or_in_hub_cache(const std::filesystem::path& path) {
  if (is_present(path)) return path;
  const auto name = read_hub_name(path.generic_string());
  return name ? find_in_hub_cache(hub_cache(), *name).value_or(path) : path;
}

}  // namespace draftproof
