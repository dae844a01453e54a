// SPDX-License-Identifier: MIT
// Full rows of a trace in a file beside it; the trace states which rows belong to which round (docs/spectrace.md). The
// file is HDF5, sealed (ref/formats/hdf5_seal.h), with the root attribute schema, "spectrace.rows/1", and three lists:
// `tokens` and `weights` of one row after the other, and `offsets`, where each row begins and the last ends.
#pragma once

#include <cstdint>
#include <filesystem>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "oracle/spectrace/events.h"
#include "ref/base/sha256.h"
#include "ref/base/subprocess.h"
#include "ref/formats/hdf5.h"
#include "ref/formats/whole_file.h"

namespace draftproof::spectrace {

inline constexpr const char* rows_schema = "spectrace.rows/1";

/// Returns the path of the file `name` in the folder of the trace, after following links to the trace.
std::filesystem::path rows_beside(const std::filesystem::path& trace, const std::string& name);

/// A range of rows in the file, as a round names them.
struct RowsPlace {
  std::uint64_t first = 0;
  std::size_t count = 0;
  std::string digest;  // sha256 of their content: for each row the number of tokens, the tokens, the weights
};

/// Reads rows, and holds no more of the file than those requested. The rows are well-formed and are those the trace was
/// written with; everything else throws Error, which names file and row. The HDF5 library reads the file in a process
/// of its own, because a hostile file can crash it.
class RowsReader {
 public:
  /// Limit on the tokens of the rows of one request.
  static constexpr std::uint64_t tokens_max = std::uint64_t{1} << 24;

  /// `header` outlives it and determines the type of weights.
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

/// Writes rows while a run goes on, and holds none of them. The complete file exists when finish() returns; the partial
/// file that grows until then cannot be read. The HDF5 library writes in a process of its own, because it can crash for
/// lack of memory.
class RowsWriter {
 public:
  /// The type of weights: integers, as distributions have them, or reals.
  enum class Weights { integers, reals };

  explicit RowsWriter(const std::filesystem::path& file, Weights weights = Weights::integers);
  RowsWriter(const RowsWriter&) = delete;
  RowsWriter& operator=(const RowsWriter&) = delete;

  /// Appends rows; returns the reference that a round states.
  RowsPlace append(const std::vector<Distribution>& rows);
  /// The same of a file of reals.
  RowsPlace append_reals(const std::vector<RealRow>& rows);
  /// Seals the file and moves it to its place. Call once.
  void finish();

  /// Returns the name that the header of the trace states.
  std::string name() const { return path_.filename().string(); }

 private:
  template <class Weight>
  void add(Sha256& digest, const std::vector<Token>& tokens, const std::vector<Weight>& weights);

  std::filesystem::path path_;
  Weights weights_;
  PartialFile partial_;
  std::optional<Subprocess> library_;
  std::uint64_t rows_ = 0;
};

}  // namespace draftproof::spectrace
