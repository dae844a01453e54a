// SPDX-License-Identifier: MIT
// HDF5 for arrays that travel between programs: fixtures, recorded rows. Only what we use: datasets of float32,
// float64, int32, int64, uint8, uint64 of any rank, string and integer attributes, groups by path.
//
// Sizes in a file are believed only as far as its own bytes go. A dataset whose bytes lie in another file is refused.
// The HDF5 library itself is not safe on every damaged file (1.10 reads past its buffers on some flipped bits of an
// attribute), and no check here can prevent that: read files of known origin.
#pragma once

#include <cstdint>
#include <filesystem>
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

  /// Reads a dataset; of another numeric type, it is converted: to the nearest float or double, and to an integer type
  /// only when every value survives. Error naming file and path when absent, not numeric or beyond 2^33 elements.
  template <class T>
  Array<T> read(const std::string& path) const;
  /// An attribute of the group or dataset at `path` ("/" is the root): one string, of fixed or variable length.
  std::string read_string_attribute(const std::string& path, const std::string& name) const;
  std::int64_t read_integer_attribute(const std::string& path, const std::string& name) const;

  /// Creates missing groups on the way; Error when `path` is taken. `shape` empty means a scalar. The bytes are handed
  /// to the system before this returns, so a full disk is noticed here.
  template <class T>
  void write(const std::string& path, const Array<T>& array);
  /// Replaces the attribute if it exists. Trailing NUL characters do not survive.
  void write_string_attribute(const std::string& path, const std::string& name, const std::string& value);

 private:
  Hdf5() = default;
  std::filesystem::path file_;
  std::int64_t handle_ = -1;
};

}  // namespace draftproof
