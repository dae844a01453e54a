// SPDX-License-Identifier: MIT
#include "ref/formats/hdf5_reader.h"

#include <cstdint>
#include <cstring>
#include <functional>
#include <memory>

#include "ref/base/error.h"
#include "ref/formats/hdf5_seal.h"

namespace draftproof {
namespace {

// A request is a letter and a path; for an attribute, its name behind a new line.
constexpr char is_there = '?';
constexpr char attribute = '@';
template <class T>
constexpr char type_letter = 0;
template <>
constexpr char type_letter<float> = 'f';
template <>
constexpr char type_letter<std::int32_t> = 'i';
template <>
constexpr char type_letter<std::int64_t> = 'l';
template <>
constexpr char type_letter<std::uint8_t> = 'b';
template <>
constexpr char type_letter<std::uint64_t> = 'u';

template <class T>
void append(std::string& to, const T* from, std::size_t count) {
  to.append(reinterpret_cast<const char*>(from), count * sizeof(T));
}

/// The rank, the shape and the values.
template <class T>
std::string array_at(const Hdf5& file, const std::string& path) {
  const Array<T> array = file.read<T>(path);
  std::string bytes;
  const std::uint64_t rank = array.shape.size();
  append(bytes, &rank, 1);
  append(bytes, array.shape.data(), array.shape.size());
  append(bytes, array.values.data(), array.values.size());
  return bytes;
}

std::string answer(const Hdf5& file, const std::string& request) {
  const std::string path = request.substr(1);
  switch (request[0]) {
    case is_there: return file.has(path) ? "yes" : "no";
    case type_letter<float>: return array_at<float>(file, path);
    case type_letter<std::int32_t>: return array_at<std::int32_t>(file, path);
    case type_letter<std::int64_t>: return array_at<std::int64_t>(file, path);
    case type_letter<std::uint8_t>: return array_at<std::uint8_t>(file, path);
    case type_letter<std::uint64_t>: return array_at<std::uint64_t>(file, path);
    default: break;
  }
  const std::size_t end = path.find('\n');
  return file.read_string_attribute(path.substr(0, end), path.substr(end + 1));
}

std::function<Subprocess::Handler()> begin(const std::filesystem::path& file) {
  return [file] {
    return [bytes = std::make_shared<const FileBytes>(file),
            opened = std::shared_ptr<Hdf5>()](const std::string& request) mutable {
      if (!opened) opened = std::make_shared<Hdf5>(Hdf5::open(bytes));
      return answer(*opened, request);
    };
  };
}

/// Checks the hash, and returns how long an answer can be: values take their bytes in the file, or are of a type that
/// is at most eight times as long.
std::size_t answer_max(const std::filesystem::path& file) {
  expect_seal(file);
  constexpr std::size_t head = 4096;
  return 8 * static_cast<std::size_t>(std::filesystem::file_size(file)) + head;
}

}  // namespace

Hdf5Reader::Hdf5Reader(const std::filesystem::path& file)
    : file_(file), library_(file.string(), begin(file), answer_max(file)) {}

bool Hdf5Reader::has(const std::string& path) { return library_.ask(is_there + path) == "yes"; }

template <class T>
Array<T> Hdf5Reader::read(const std::string& path) {
  const std::string bytes = library_.ask(type_letter<T> + path);
  std::uint64_t rank = 0;
  std::size_t at = sizeof rank;
  if (bytes.size() >= at) std::memcpy(&rank, bytes.data(), sizeof rank);
  if (bytes.size() < at || rank > (bytes.size() - at) / sizeof(std::int64_t)) {
    throw Error(file_.string() + ": its reader answered with what is no array; it is damaged");
  }
  Array<T> array;
  array.shape.resize(rank);
  if (rank > 0) std::memcpy(array.shape.data(), bytes.data() + at, rank * sizeof(std::int64_t));
  at += rank * sizeof(std::int64_t);
  array.values.resize((bytes.size() - at) / sizeof(T));
  if (!array.values.empty()) std::memcpy(array.values.data(), bytes.data() + at, array.values.size() * sizeof(T));
  return array;
}

std::string Hdf5Reader::read_string_attribute(const std::string& path, const std::string& name) {
  return library_.ask(attribute + path + "\n" + name);
}

template Array<float> Hdf5Reader::read(const std::string&);
template Array<std::int32_t> Hdf5Reader::read(const std::string&);
template Array<std::int64_t> Hdf5Reader::read(const std::string&);
template Array<std::uint8_t> Hdf5Reader::read(const std::string&);
template Array<std::uint64_t> Hdf5Reader::read(const std::string&);

}  // namespace draftproof
