// SPDX-License-Identifier: MIT
// HDF5 for arrays that programs exchange: fixtures, recorded rows. Only the features that draftproof uses: datasets of
// float32, float64, int32, int64, uint8, uint64 of any rank, string and integer attributes, groups by path; and lists,
// which are written and read in parts and so may be larger than RAM.
//
// Sizes stated in a file are checked against the bytes that it really has. Links in a path, and datasets whose bytes
// are in another file, are rejected: every value that was read is in the file itself. The HDF5 library itself is not
// safe on every damaged file (1.10 reads past its buffers on some flipped bits of an attribute), and no check here can
// prevent that: read files of known origin, or in a process that may crash (ref/base/subprocess.h).
#pragma once

#include <cstdint>
#include <filesystem>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "ref/formats/file_bytes.h"

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
  /// Reads a file that is open; opens nothing.
  static Hdf5 open(std::shared_ptr<const FileBytes> bytes);
  /// Replaces the file if it exists.
  static Hdf5 create(const std::filesystem::path& file);
  ~Hdf5();
  Hdf5(Hdf5&&) noexcept;
  Hdf5& operator=(Hdf5&&) noexcept;

  bool has(const std::string& path) const;
  std::vector<std::string> children(const std::string& group) const;  // names, sorted

  /// Reads a dataset. Another numeric type is converted: to the nearest float or double, and to an integer type only
  /// when every value is representable. Throws Error, naming file and path, when the dataset is missing, not numeric,
  /// larger than 2^33 elements, or chunked: chunks are for lists, and compressed chunks could need a thousand times the
  /// RAM of the file's size.
  template <class T>
  Array<T> read(const std::string& path) const;
  /// Reads an attribute of the group or dataset at `path` ("/" is the root): one string, of fixed or variable length.
  std::string read_string_attribute(const std::string& path, const std::string& name) const;

  /// Writes a dataset and creates missing groups. Throws Error when `path` exists. An empty `shape` means a scalar. The
  /// bytes are passed to the operating system before this returns, so a full disk is reported here.
  template <class T>
  void write(const std::string& path, const Array<T>& array);
  /// Replaces the attribute if it exists. Trailing NUL characters are lost.
  void write_string_attribute(const std::string& path, const std::string& name, const std::string& value);

 private:
  template <class T>
  friend class Hdf5List;
  template <class T>
  friend class Hdf5ListWriter;

  Hdf5() = default;
  std::uint64_t size() const;  // in bytes

  std::filesystem::path file_;
  std::shared_ptr<const FileBytes> bytes_;  // nullptr: it is written
  std::int64_t handle_ = -1;
};

/// Reads parts of a one-dimensional dataset of int32, uint64 or float64. The file is not trusted: other types, values
/// in other files, chunks of more than chunk_bytes_max and filters that could return more bytes than were written (all
/// except shuffle, deflate and fletcher32, once each) are rejected.
template <class T>
class Hdf5List {
 public:
  /// Limit of a chunk's bytes in the file. Deflate expands them by a factor of at most 1032.
  static constexpr std::size_t chunk_bytes_max = std::size_t{1} << 16;

  /// Throws Error, naming file and path, when the dataset is rejected. The file must outlive the list.
  Hdf5List(const Hdf5& file, const std::string& path);
  ~Hdf5List();
  Hdf5List(const Hdf5List&) = delete;
  Hdf5List& operator=(const Hdf5List&) = delete;

  std::uint64_t size() const noexcept { return size_; }

  /// Reads the values from `first` on, which must lie within size(). Throws Error when they are damaged or were never
  /// written.
  void read(std::uint64_t first, std::span<T> to);

 private:
  [[noreturn]] void fail(const std::string& what) const;
  void expect_chunks(std::uint64_t first, std::uint64_t end);

  const Hdf5& file_;
  std::string path_;
  std::int64_t handle_ = -1;
  std::uint64_t size_ = 0;
  std::uint64_t chunk_ = 0;     // values per chunk; 0: not chunked
  std::uint64_t expected_ = 0;  // chunk that was checked last, counted from 1
};

/// Writes such a dataset sequentially, in compressed chunks.
template <class T>
class Hdf5ListWriter {
 public:
  /// Creates the dataset as Hdf5::write does. The file must outlive the writer.
  Hdf5ListWriter(Hdf5& file, const std::string& path);
  ~Hdf5ListWriter();
  Hdf5ListWriter(const Hdf5ListWriter&) = delete;
  Hdf5ListWriter& operator=(const Hdf5ListWriter&) = delete;

  /// Throws Error when the disk is full.
  void append(std::span<const T> values);
  void finish();  // call once, after the last value; writes the values that are still buffered

 private:
  void write_buffered();

  Hdf5& file_;
  std::string path_;
  std::int64_t handle_ = -1;
  std::uint64_t written_ = 0;
  std::vector<T> buffered_;  // less than a chunk
};

}  // namespace draftproof
