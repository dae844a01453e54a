// SPDX-License-Identifier: MIT
// HDF5 for arrays that travel between programs: fixtures, recorded rows. Only what we use: datasets of float32,
// float64, int32, int64, uint8, uint64 of any rank, string and integer attributes, groups by path.
#pragma once

#include <cstdint>
#include <filesystem>
#include <memory>
#include <string>
#include <vector>

namespace draftproof {

template <class T>
struct Array {
  std::vector<std::int64_t> shape;
  std::vector<T> values;  // row-major
};

class Hdf5 {
 public:
  /// Throws Error naming the file when it is missing, truncated or not HDF5.
  static Hdf5 open(const std::filesystem::path& file);
  /// Replaces the file if it exists.
  static Hdf5 create(const std::filesystem::path& file);
  ~Hdf5();
  Hdf5(Hdf5&&) noexcept;
  Hdf5& operator=(Hdf5&&) noexcept;

  bool has(const std::string& path) const;
  std::vector<std::string> children(const std::string& group) const;  // names, sorted

  /// Reads a dataset, converted by HDF5 when stored as another numeric type. Error naming file and path when absent.
  template <class T>
  Array<T> read(const std::string& path) const;
  std::string read_string_attribute(const std::string& path, const std::string& name) const;
  std::int64_t read_integer_attribute(const std::string& path, const std::string& name) const;

  /// Creates missing groups on the way. `shape` empty means a scalar.
  template <class T>
  void write(const std::string& path, const Array<T>& array);
  void write_string_attribute(const std::string& path, const std::string& name, const std::string& value);

 private:
  Hdf5() = default;
  std::filesystem::path file_;
  std::int64_t handle_ = -1;
};

}  // namespace draftproof
