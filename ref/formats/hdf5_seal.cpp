// SPDX-License-Identifier: MIT
#include "ref/formats/hdf5_seal.h"

#include <algorithm>
#include <fstream>
#include <string>
#include <string_view>

#include "ref/base/error.h"
#include "ref/base/presence.h"
#include "ref/base/require.h"
#include "ref/base/sha256.h"
#include "ref/formats/file_bytes.h"

namespace draftproof {
namespace {

constexpr std::size_t hash_digits = 64;
constexpr std::size_t piece_bytes = std::size_t{1} << 20;

bool is_digit(char c) { return (c >= '0' && c <= '9') || (c >= 'a' && c <= 'f'); }

/// Returns the first bytes of a file, which must contain the attribute.
std::string head_of(const FileBytes& bytes) {
  std::string head(static_cast<std::size_t>(std::min<std::uint64_t>(bytes.size(), piece_bytes)), '\0');
  bytes.read(0, head.size(), head.data());
  return head;
}

/// Returns the offset of the attribute's digits, after its name, type and shape; npos when they are missing.
std::size_t place_of_hash(std::string_view head) {
  constexpr std::size_t between_max = 64;
  constexpr std::string_view name("sha256\0", 7);
  for (std::size_t at = head.find(name); at != std::string::npos; at = head.find(name, at + 1)) {
    std::size_t digits = 0;
    const std::size_t end = std::min(head.size(), at + name.size() + between_max + hash_digits);
    for (std::size_t i = at + name.size(); i < end; ++i) {
      digits = is_digit(head[i]) ? digits + 1 : 0;
      if (digits == hash_digits) return i + 1 - hash_digits;
    }
  }
  return std::string::npos;
}

/// Returns the hash that the file should contain at this place.
std::string hash_of(const FileBytes& bytes, std::size_t place) {
  Sha256 hash;
  std::string piece = head_of(bytes);
  piece.replace(place, hash_digits, hash_digits, '0');
  hash.add(piece);
  for (std::uint64_t at = piece.size(); at < bytes.size(); at += piece.size()) {
    piece.resize(static_cast<std::size_t>(std::min<std::uint64_t>(bytes.size() - at, piece_bytes)));
    bytes.read(at, piece.size(), piece.data());
    hash.add(piece);
  }
  return hash.hex();
}

}  // namespace

void prepare_seal(Hdf5& file) { file.write_string_attribute("/", "sha256", std::string(hash_digits, '0')); }

void seal(const std::filesystem::path& path) {
  std::size_t place = 0;
  std::string hash;
  {
    const FileBytes bytes(path);
    place = place_of_hash(head_of(bytes));
    REQUIRE(place != std::string::npos, "HDF5 stores an attribute's name, type, shape and value together");
    hash = hash_of(bytes, place);
  }
  std::fstream file(path, std::ios::binary | std::ios::in | std::ios::out);
  file.seekp(static_cast<std::streamoff>(place));
  file << hash;
  file.close();
  if (!file) throw Error(path.string() + ": cannot be written; is the disk full?");
}

void expect_seal(const std::filesystem::path& file) {
  if (!is_present(file)) throw Error(file.string() + ": no such file");
  const FileBytes bytes(file);
  const std::string head = head_of(bytes);
  if (!head.starts_with("\x89HDF\r\n\x1a\n")) throw Error(file.string() + ": not an HDF5 file");
  const std::size_t place = place_of_hash(head);
  if (place == std::string::npos) {
    throw Error(file.string() + ": attribute 'sha256' is missing or cut off; the file is not whole");
  }
  const std::string stated = head.substr(place, hash_digits);
  if (const std::string found = hash_of(bytes, place); stated != found) {
    throw Error(file.string() + ": attribute 'sha256' is " + stated + ", its bytes have " + found +
                "; it was damaged or edited: record it again");
  }
}

Hdf5 open_sealed(const std::filesystem::path& file) {
  expect_seal(file);
  return Hdf5::open(file);
}

}  // namespace draftproof
