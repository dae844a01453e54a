// SPDX-License-Identifier: MIT
// HDF5 for arrays that travel between programs: fixtures, recorded rows. Only what we use: datasets of float32,
// float64, int32, int64, uint8, uint64 of any rank, string and integer attributes, groups by path; and lists, which
// are written and read piece by piece and so may be longer than memory.
//
// Sizes in a file are believed only as far as its own bytes go. A link on the way, and a dataset whose bytes lie in
// another file, are refused: what was read, the file holds.
// The HDF5 library itself is not safe on every damaged file (1.10 reads past its buffers on some flipped bits of an
// attribute), and no check here can prevent that: read files of known origin, or in a process that may crash
// (ref/base/subprocess.h).
#pragma once

#include <cstdint>
#include <filesystem>
#include <span>
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
  /// only when every value survives. Error naming file and path when absent, not numeric, beyond 2^33 elements, or in
  /// chunks: those are for lists, and compressed ones would ask for a thousand times the memory that the file takes.
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
  template <class T>
  friend class Hdf5List;
  template <class T>
  friend class Hdf5ListWriter;

  Hdf5() = default;
  std::filesystem::path file_;
  std::int64_t handle_ = -1;
};

/// A dataset of one dimension, int32, uint64 or float64, of which a part is in memory at a time. Nothing that the file
/// says of it is believed: other types, values in other files, chunks of more than chunk_bytes_max and filters that may
/// give back more than was put in (any but shuffle, deflate and fletcher32, once each) are refused.
template <class T>
class Hdf5List {
 public:
  /// Deflate gives back at most 1032 times the bytes that a chunk has in the file, and those are bounded by this.
  static constexpr std::size_t chunk_bytes_max = std::size_t{1} << 16;

  /// Error naming file and path. The file outlives the list.
  Hdf5List(const Hdf5& file, const std::string& path);
  ~Hdf5List();
  Hdf5List(const Hdf5List&) = delete;
  Hdf5List& operator=(const Hdf5List&) = delete;

  std::uint64_t size() const noexcept { return size_; }

  /// Values from `first` on, which lie within size(). Error when they are damaged or were never written.
  void read(std::uint64_t first, std::span<T> to);

 private:
  [[noreturn]] void fail(const std::string& what) const;
  void expect_chunks(std::uint64_t first, std::uint64_t end);

  const Hdf5& file_;
  std::string path_;
  std::int64_t handle_ = -1;
  std::uint64_t size_ = 0;
  std::uint64_t chunk_ = 0;    // values in one; 0: not chunked
  std::uint64_t expected_ = 0;  // chunk that was looked at last, counted from 1
};

/// Writes such a dataset from its start to its end, in compressed chunks.
template <class T>
class Hdf5ListWriter {
 public:
  /// As Hdf5::write. The file outlives the writer.
  Hdf5ListWriter(Hdf5& file, const std::string& path);
  ~Hdf5ListWriter();
  Hdf5ListWriter(const Hdf5ListWriter&) = delete;
  Hdf5ListWriter& operator=(const Hdf5ListWriter&) = delete;

  /// Error when the disk is full.
  void append(std::span<const T> values);
  void finish();  // once, after the last value: until then some of them wait here

 private:
  void write_waiting();

  Hdf5& file_;
  std::string path_;
  std::int64_t handle_ = -1;
  std::uint64_t written_ = 0;
  std::vector<T> waiting_;  // less than a chunk
};

}  // namespace draftproof
