// SPDX-License-Identifier: MIT
#include "tools/fetch/fetch_model.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/file.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <fstream>
#include <limits>
#include <set>
#include <system_error>
#include <utility>

#include "ref/base/error.h"
#include "ref/base/presence.h"
#include "ref/formats/json.h"
#include "ref/formats/printable.h"
#include "ref/formats/whole_file.h"
#include "tools/fetch/blob_digest.h"

namespace draftproof {
namespace {

namespace fs = std::filesystem;

constexpr const char* index_name = "model.safetensors.index.json";

bool is_hex(const std::string& text, std::size_t digits) {
  return text.size() == digits && text.find_first_not_of("0123456789abcdef") == std::string::npos;
}

/// What may become a path below the folder of a snapshot.
bool is_plain_path(const std::string& name) {
  if (name.empty() || name.find('\\') != std::string::npos || name.find('\0') != std::string::npos) return false;
  const fs::path path(name);
  return path.is_relative() && path.has_filename() &&
         std::ranges::none_of(path, [](const fs::path& part) { return part == ".." || part == "."; });
}

struct Repository {
  std::string commit;
  std::vector<HubFile> files;
};

Repository list_repository(const HubName& name, const HubAccess& access) {
  const std::string url = access.endpoint + "/api/models/" + name.repository() + "/revision/main?blobs=true";
  const Json json = Json::parse(get_text(url, access, name.repository()), url);
  Repository repository;
  const Json commit = json.at("sha");
  repository.commit = commit.string();
  if (!is_hex(repository.commit, 40)) commit.fail("must be a commit");
  const Json siblings = json.at("siblings");
  for (std::size_t i = 0; i < siblings.size(); ++i) {
    const Json entry = siblings[i];
    HubFile file;
    file.name = entry.at("rfilename").string();
    if (!is_plain_path(file.name)) entry.at("rfilename").fail("must be a path in the repository");
    const auto lfs = entry.find("lfs");
    const Json stated = lfs ? *lfs : entry;
    file.size = static_cast<std::uint64_t>(stated.at("size").integer(0, std::numeric_limits<std::int64_t>::max()));
    const Json digest = lfs ? lfs->at("sha256") : entry.at("blobId");
    file.digest = digest.string();
    if (!is_hex(file.digest, lfs ? 64 : 40)) digest.fail("must be a digest");
    repository.files.push_back(std::move(file));
  }
  return repository;
}

/// An open descriptor.
class Descriptor {
 public:
  Descriptor(const fs::path& file, int flags) : path_(file), number_(open(file.c_str(), flags | O_CLOEXEC, 0666)) {
    if (number_ < 0) fail();
  }
  ~Descriptor() { close(number_); }
  Descriptor(const Descriptor&) = delete;
  Descriptor& operator=(const Descriptor&) = delete;

  int number() const noexcept { return number_; }
  void write_all(std::string_view bytes) const {
    while (!bytes.empty()) {
      const ssize_t written = write(number_, bytes.data(), bytes.size());
      if (written < 0 && errno != EINTR) fail();
      if (written > 0) bytes.remove_prefix(static_cast<std::size_t>(written));
    }
  }
  void truncate() const {
    if (ftruncate(number_, 0) != 0 || lseek(number_, 0, SEEK_SET) < 0) fail();
  }
  void sync() const {
    if (fsync(number_) != 0) fail();
  }
  [[noreturn]] void fail() const {
    throw Error(fmt::format("{}: cannot be written: {}; what came is kept, run the command again to go on",
                            printable(path_.string()), std::generic_category().message(errno)));
  }

 private:
  fs::path path_;
  int number_;
};

/// Lets one process at a time write a blob, programs of Hugging Face included.
class BlobLock {
 public:
  explicit BlobLock(const fs::path& file) : file_(file, O_RDWR | O_CREAT) {
    while (flock(file_.number(), LOCK_EX) != 0) {
      if (errno != EINTR) file_.fail();
    }
  }

 private:
  Descriptor file_;
};

/// A fetch of one repository into a cache.
class Fetch {
 public:
  Fetch(const HubName& name, fs::path cache, const HubAccess& access,
        const std::function<void(const std::string&, std::uint64_t, std::uint64_t)>& progress)
      : name_(name),
        cache_(std::move(cache)),
        folder_(hub_folder(cache_, name)),
        access_(access),
        progress_(progress),
        repository_(list_repository(name, access)),
        snapshot_(folder_ / "snapshots" / repository_.commit) {}

  Fetched run() {
    std::vector<HubFile> wanted = files_of_model(repository_.files, name_);
    create_folders();
    for (const HubFile& file : wanted) {
      if (file.name == index_name) get(file);
    }
    if (const fs::path index = snapshot_ / index_name; is_wanted(wanted, index_name)) keep_shards_of(index, wanted);
    require_space(wanted);
    for (const HubFile& file : wanted) get(file);
    replace_whole(folder_ / "refs" / "main", [&](const fs::path& path) {
      const Descriptor reference(path, O_WRONLY);
      reference.write_all(repository_.commit);
    });
    fetched_.path = find_in_hub_cache(cache_, name_).value_or(snapshot_);
    return fetched_;
  }

 private:
  static bool is_wanted(const std::vector<HubFile>& files, const std::string& name) {
    return std::ranges::any_of(files, [&](const HubFile& file) { return file.name == name; });
  }

  std::string shown(const HubFile& file) const { return name_.repository() + ": " + printable(file.name); }

  void create_folders() const {
    for (const fs::path& folder : {folder_ / "blobs", folder_ / "refs", snapshot_, locks()}) {
      std::error_code failure;
      fs::create_directories(folder, failure);
      if (failure) throw Error(printable(folder.string()) + ": cannot be created: " + failure.message());
    }
  }
  fs::path locks() const { return cache_ / ".locks" / folder_.filename(); }

  /// Of a repository with weights in several files, those that the index names.
  static void keep_shards_of(const fs::path& index, std::vector<HubFile>& wanted) {
    const Json map = Json::read(index).at("weight_map");
    std::set<std::string> shards;
    for (const std::string& tensor : map.fields()) shards.insert(map.at(tensor).string());
    for (const std::string& shard : shards) {
      if (!is_wanted(wanted, shard)) map.fail("names " + in_quotes(shard) + ", which the repository does not have");
    }
    std::erase_if(wanted, [&](const HubFile& file) {
      return file.name.ends_with(".safetensors") && !shards.contains(file.name);
    });
  }

  void require_space(const std::vector<HubFile>& files) const {
    std::uint64_t needed = 0;
    for (const HubFile& file : files) {
      if (is_present(blob(file))) continue;
      std::error_code failure;
      const std::uintmax_t there = fs::file_size(partial(file), failure);
      needed += file.size - (failure ? 0 : std::min<std::uint64_t>(there, file.size));
    }
    std::error_code failure;
    const fs::space_info space = fs::space(folder_, failure);
    if (failure || space.available >= needed) return;
    throw Error(fmt::format("{}: {} MB are still to come, and {} has room for {} MB; nothing was fetched",
                            name_.repository(), needed / 1'000'000, printable(cache_.string()),
                            space.available / 1'000'000));
  }

  fs::path blob(const HubFile& file) const { return folder_ / "blobs" / file.digest; }
  fs::path partial(const HubFile& file) const { return folder_ / "blobs" / (file.digest + ".incomplete"); }

  void get(const HubFile& file) {
    const BlobLock lock(locks() / (file.digest + ".lock"));
    if (!is_present(blob(file)) || fs::file_size(blob(file)) != file.size) transfer(file);
    link(file);
  }

  void transfer(const HubFile& file) {
    BlobDigest digest(file.digest, file.size);
    std::uint64_t done = hash_partial(file, digest);
    const Descriptor to(partial(file), O_WRONLY | O_CREAT);
    if (lseek(to.number(), 0, SEEK_END) < 0) to.fail();
    if (done > 0 && done >= file.size) done = start_over(file, to, digest, done == file.size && digest.fits());
    progress_(file.name, done, file.size);
    if (done < file.size) {
      carry_out({.url = access_.endpoint + "/" + name_.repository() + "/resolve/" + repository_.commit + "/" +
                        escaped(file.name),
                 .from = done,
                 .start_over = [&] { done = start_over(file, to, digest, false); },
                 .take =
                     [&](std::string_view bytes) {
                       if (bytes.size() > file.size - done) {
                         to.truncate();
                         throw Error(fmt::format("{}: is longer than the {} bytes that the repository states",
                                                 shown(file), file.size));
                       }
                       to.write_all(bytes);
                       digest.add(bytes);
                       done += bytes.size();
                       fetched_.bytes += bytes.size();
                       progress_(file.name, done, file.size);
                     }},
                access_, shown(file));
    } else if (file.size == 0) {
      to.truncate();
    }
    if (done < file.size) {
      throw Error(fmt::format("{}: the server sent {} of {} bytes; what came is kept, run the command again to go on",
                              shown(file), done, file.size));
    }
    if (!digest.fits()) {
      to.truncate();
      throw Error(shown(file) +
                  ": does not have the digest that the repository states; it was removed, run the command "
                  "again");
    }
    to.sync();
    fs::rename(partial(file), blob(file));
    ++fetched_.files;
  }

  /// Adds what an earlier run left to the digest, and returns how much that is.
  std::uint64_t hash_partial(const HubFile& file, BlobDigest& digest) const {
    std::ifstream stream(partial(file), std::ios::binary);
    std::string piece(std::size_t{1} << 20, '\0');
    std::uint64_t done = 0;
    while (stream) {
      stream.read(piece.data(), static_cast<std::streamsize>(piece.size()));
      const auto count = static_cast<std::size_t>(stream.gcount());
      digest.add(std::string_view(piece).substr(0, count));
      done += count;
    }
    return done;
  }

  /// Returns how much is done: all, or nothing of a file that is begun again.
  static std::uint64_t start_over(const HubFile& file, const Descriptor& to, BlobDigest& digest, bool whole) {
    if (whole) return file.size;
    to.truncate();
    digest = BlobDigest(file.digest, file.size);
    return 0;
  }

  static std::string escaped(const std::string& path) {
    std::string text;
    for (const char c : path) {
      const bool plain = (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') ||
                         std::string_view("/-._~").find(c) != std::string_view::npos;
      text += plain ? std::string(1, c) : fmt::format("%{:02X}", static_cast<unsigned char>(c));
    }
    return text;
  }

  /// Makes the name of a file in the snapshot a link to its content.
  void link(const HubFile& file) const {
    const fs::path place = snapshot_ / file.name;
    fs::create_directories(place.parent_path());
    const fs::path content = fs::relative(blob(file), place.parent_path());
    std::error_code failure;
    if (fs::is_symlink(place, failure) && fs::read_symlink(place, failure) == content) return;
    const fs::path made = place.string() + ".partial";  // whoever makes it has the lock of its content
    fs::remove(made, failure);
    fs::create_symlink(content, made);
    fs::rename(made, place, failure);
    if (!failure) return;
    const fs::filesystem_error wrong("rename", place, failure);
    fs::remove(made, failure);
    throw wrong;
  }

  const HubName& name_;
  fs::path cache_;
  fs::path folder_;
  const HubAccess& access_;
  const std::function<void(const std::string&, std::uint64_t, std::uint64_t)>& progress_;
  Repository repository_;
  fs::path snapshot_;
  Fetched fetched_;
};

std::vector<HubFile> gguf_files(const std::vector<HubFile>& all, const HubName& name) {
  std::vector<std::string> names;
  for (const HubFile& file : all) names.push_back(file.name);
  const auto models = find_ggufs(names, name.file);
  if (models.size() == 1) {
    std::vector<HubFile> parts;
    for (const std::string& part : models[0]) parts.push_back(*std::ranges::find(all, part, &HubFile::name));
    return parts;
  }
  std::string list;
  for (const HubFile& file : all) {
    if (!file.name.ends_with(".gguf")) continue;
    list += fmt::format("{}{} ({} MB)", list.empty() ? "" : ", ", printable(file.name), file.size / 1'000'000);
  }
  if (list.empty()) {
    throw Error(name.repository() + ": has neither model.safetensors, nor " + index_name + ", nor a .gguf file");
  }
  throw Error(fmt::format("{}: {}; name one of its .gguf files, {}:FILE: {}", name.repository(),
                          name.file.empty() ? "has several"
                          : models.empty()  ? "has no " + in_quotes(name.file)
                                            : in_quotes(name.file) + " names several",
                          name.repository(), list));
}

}  // namespace

std::vector<HubFile> files_of_model(const std::vector<HubFile>& all, const HubName& name) {
  const auto has = [&](const std::string& wanted) {
    return std::ranges::any_of(all, [&](const HubFile& file) { return file.name == wanted; });
  };
  const char* const single = has("model.safetensors")               ? "model.safetensors"
                             : !has(index_name) && has(medusa_file) ? medusa_file
                                                                    : nullptr;
  if (!name.file.empty() || (single == nullptr && !has(index_name))) return gguf_files(all, name);
  std::vector<HubFile> wanted;
  for (const HubFile& file : all) {
    if (file.name.find('/') != std::string::npos) continue;
    const bool described =
        file.name.ends_with(".json") && file.name != index_name && !file.name.ends_with(".index.json");
    const bool text =
        file.name == "tokenizer.model" || file.name == "tiktoken.model" || file.name == "chat_template.jinja";
    const bool weights =
        single != nullptr ? file.name == single : file.name == index_name || file.name.ends_with(".safetensors");
    if (described || text || weights) wanted.push_back(file);
  }
  return wanted;
}

Fetched fetch_model(
    const HubName& name, const fs::path& cache, const HubAccess& access,
    const std::function<void(const std::string& file, std::uint64_t done, std::uint64_t all)>& progress) {
  return Fetch(name, cache, access, progress).run();
}

}  // namespace draftproof
