// SPDX-License-Identifier: MIT
// Full rows of a trace in a file beside it, of which the trace says which rows are whose (docs/spectrace.md). HDF5,
// sealed (ref/formats/hdf5_seal.h); root attribute schema, "spectrace.rows/1", and three lists: `tokens` and `weights`
// of one row after the other, and `offsets`, where each row begins and the last ends.
#pragma once

#include <cstdint>
#include <filesystem>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "oracle/spectrace/events.h"
#include "ref/base/subprocess.h"
#include "ref/formats/hdf5.h"

namespace draftproof::spectrace {

inline constexpr const char* rows_schema = "spectrace.rows/1";

/// Where the file of that name lies: beside the trace, wherever a link leads to it.
std::filesystem::path rows_beside(const std::filesystem::path& trace, const std::string& name);

/// Rows that follow one another in the file, as a step names them.
struct RowsPlace {
  std::uint64_t first = 0;
  std::size_t count = 0;
  std::string digest;  // sha256 of their content: of each row its number of tokens, the tokens, the weights
};

/// Holds no more of the file than the rows asked for. What comes out is well-formed and is what the trace was written
/// with; Error, naming file and row, for everything else. The HDF5 library, which a file made to harm can crash, sees
/// it in a process of its own.
class RowsReader {
 public:
  /// Of the rows asked for at once.
  static constexpr std::uint64_t tokens_max = std::uint64_t{1} << 24;

  /// `header` outlives it and says what weights are.
  RowsReader(const std::filesystem::path& file, const Header& header);

  std::vector<Distribution> distributions(const RowsPlace& place);
  std::vector<RealRow> reals(const RowsPlace& place);

 private:
  [[noreturn]] void fail(const std::string& what) const;
  [[noreturn]] void fail(std::uint64_t row, const std::string& what) const;
  template <class Value>
  void fetch(std::uint32_t list, std::uint64_t first, std::span<Value> to);
  template <class Weight, class Take>
  void read(const RowsPlace& place, const Take& take);

  std::filesystem::path path_;
  const Header& header_;
  Subprocess library_;
  std::uint64_t rows_ = 0;
  std::uint64_t tokens_ = 0;  // of all rows
};

/// Writes rows while they happen: a chunk of them is here at a time. The file is there, whole, when finish() returns;
/// until then FILE.partial grows beside it, which is no such file.
class RowsWriter {
 public:
  explicit RowsWriter(const std::filesystem::path& file);
  ~RowsWriter();
  RowsWriter(const RowsWriter&) = delete;
  RowsWriter& operator=(const RowsWriter&) = delete;

  RowsPlace append(const std::vector<Distribution>& rows);
  void finish();  // once

  /// As the trace's header names it.
  std::string name() const { return path_.filename().string(); }

 private:
  std::filesystem::path path_;
  std::filesystem::path partial_;
  std::optional<Hdf5> file_;
  std::optional<Hdf5ListWriter<std::uint64_t>> offsets_;
  std::optional<Hdf5ListWriter<Token>> tokens_;
  std::optional<Hdf5ListWriter<std::uint64_t>> weights_;
  std::uint64_t rows_ = 0;
  std::uint64_t end_ = 0;  // of the last row
};

}  // namespace draftproof::spectrace
