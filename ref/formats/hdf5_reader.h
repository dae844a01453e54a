// SPDX-License-Identifier: MIT
// Reads a sealed HDF5 file in another process, as the library is safe neither on every file nor without memory: what
// would end this process becomes an Error.
#pragma once

#include <filesystem>
#include <string>

#include "ref/base/subprocess.h"
#include "ref/formats/hdf5.h"

namespace draftproof {

class Hdf5Reader {
 public:
  /// Checks the seal and opens the file. Throws Error, naming it, as the functions below do.
  explicit Hdf5Reader(const std::filesystem::path& file);

  // As those of Hdf5.

  bool has(const std::string& path);
  template <class T>
  Array<T> read(const std::string& path);
  std::string read_string_attribute(const std::string& path, const std::string& name);

 private:
  std::filesystem::path file_;
  Subprocess library_;
};

}  // namespace draftproof
