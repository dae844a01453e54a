// SPDX-License-Identifier: MIT
#include "oracle/spectrace/rows_file.h"

#include <algorithm>
#include <array>
#include <chrono>
#include <cstring>
#include <memory>
#include <span>
#include <string_view>
#include <system_error>

#include "oracle/spectrace/row_parts.h"
#include "ref/base/error.h"
#include "ref/base/sha256.h"
#include "ref/base/utf8.h"
#include "ref/formats/hdf5_seal.h"
#include "ref/formats/printable.h"

namespace draftproof::spectrace {
namespace {

template <class Value>
void add(Sha256& digest, std::span<const Value> values) {
  digest.add({reinterpret_cast<const char*>(values.data()), values.size_bytes()});
}

/// Adds the content of one row, little-endian.
template <class Weight>
void add_row(Sha256& digest, std::span<const Token> tokens, std::span<const Weight> weights) {
  const std::uint64_t count = tokens.size();
  add(digest, std::span(&count, 1));
  add(digest, tokens);
  add(digest, weights);
}

constexpr std::size_t piece = 4096;  // values per request

/// A request to the process that reads: which list, and which part of it.
struct RowsQuery {
  std::uint32_t list = 0;
  std::uint32_t count = 0;
  std::uint64_t first = 0;
};
enum RowsList : std::uint32_t { sizes_of_all, offsets_list, tokens_list, weights_list };

template <class Value>
std::string bytes_of(std::span<const Value> values) {
  return {reinterpret_cast<const char*>(values.data()), values.size_bytes()};
}

template <class Value>
std::string part(Hdf5List<Value>& list, const RowsQuery& query) {
  std::vector<Value> values(query.count);
  list.read(query.first, values);
  return bytes_of<Value>(values);
}

/// The file as the reading process has it open.
template <class Weight>
struct Lists {
  explicit Lists(Hdf5 opened)
      : file(std::move(opened)), offsets(file, "offsets"), tokens(file, "tokens"), weights(file, "weights") {}

  std::string answer(const RowsQuery& query) {
    const std::uint64_t sizes[] = {offsets.size(), tokens.size(), weights.size()};
    switch (query.list) {
      case offsets_list: return part(offsets, query);
      case tokens_list: return part(tokens, query);
      case weights_list: return part(weights, query);
      default: return bytes_of<std::uint64_t>(sizes);
    }
  }

  Hdf5 file;
  Hdf5List<std::uint64_t> offsets;
  Hdf5List<Token> tokens;
  Hdf5List<Weight> weights;
};

/// Checks the seal and returns the name. The HDF5 library takes no part, however long this takes.
std::string sealed(const std::filesystem::path& path) {
  expect_seal(path);
  return path.string();
}

Hdf5 opened(const std::shared_ptr<const FileBytes>& bytes) {
  Hdf5 file = Hdf5::open(bytes);
  if (const std::string schema = file.read_string_attribute("/", "schema"); schema != rows_schema) {
    throw Error(bytes->file().string() + ": attribute 'schema' is " + in_quotes(schema) + ", this program reads " +
                rows_schema);
  }
  return file;
}

template <class Weight>
Subprocess::Handler lists_of(const std::filesystem::path& path) {
  return [bytes = std::make_shared<const FileBytes>(path),
          lists = std::shared_ptr<Lists<Weight>>()](const std::string& query) mutable {
    if (!lists) lists = std::make_shared<Lists<Weight>>(opened(bytes));
    RowsQuery asked;
    std::memcpy(&asked, query.data(), sizeof asked);
    return lists->answer(asked);
  };
}

constexpr char before_others = '+';  // a part of a row
constexpr char last_of_row = '.';

/// The file as the writing process has it open.
template <class Weight>
struct GrowingLists {
  explicit GrowingLists(const std::filesystem::path& path)
      : file(created(path)), offsets(file, "offsets"), tokens(file, "tokens"), weights(file, "weights") {
    offsets.append(std::span(&end, 1));
  }

  static Hdf5 created(const std::filesystem::path& path) {
    Hdf5 file = Hdf5::create(path);
    prepare_seal(file);
    file.write_string_attribute("/", "schema", rows_schema);
    return file;
  }

  /// A letter, tokens, and as many weights.
  void take(const std::string& part) {
    const std::size_t count = (part.size() - 1) / (sizeof(Token) + sizeof(Weight));
    std::vector<Token> of_part(count);
    std::vector<Weight> their(count);
    if (count > 0) {
      std::memcpy(of_part.data(), part.data() + 1, count * sizeof(Token));
      std::memcpy(their.data(), part.data() + 1 + count * sizeof(Token), count * sizeof(Weight));
    }
    tokens.append(of_part);
    weights.append(their);
    end += count;
    if (part[0] == last_of_row) offsets.append(std::span(&end, 1));
  }

  void finish() {
    offsets.finish();
    tokens.finish();
    weights.finish();
  }

  Hdf5 file;
  Hdf5ListWriter<std::uint64_t> offsets;
  Hdf5ListWriter<Token> tokens;
  Hdf5ListWriter<Weight> weights;
  std::uint64_t end = 0;  // of the last row
};

/// Takes parts of rows; nothing ends the file.
template <class Weight>
Subprocess::Handler taker_of_rows(const std::filesystem::path& path) {
  return [lists = std::make_shared<GrowingLists<Weight>>(path)](const std::string& part) mutable {
    if (!part.empty()) {
      lists->take(part);
    } else {
      lists->finish();
      lists.reset();
    }
    return std::string();
  };
}

}  // namespace

std::filesystem::path rows_beside(const std::filesystem::path& trace, const std::string& name) {
  std::error_code failure;
  return std::filesystem::weakly_canonical(trace, failure).parent_path() / name;
}

RowsReader::RowsReader(const std::filesystem::path& file, const Header& header)
    : path_(file),
      header_(header),
      library_(
          sealed(file), [&] { return header.total > 0 ? lists_of<std::uint64_t>(file) : lists_of<double>(file); },
          piece * sizeof(std::uint64_t)) {
  std::array<std::uint64_t, 3> sizes;
  fetch<std::uint64_t>(sizes_of_all, 0, sizes);
  const auto [offsets, tokens, weights] = sizes;
  if (weights != tokens) {
    fail("'tokens' has " + std::to_string(tokens) + " values, 'weights' " + std::to_string(weights));
  }
  if (offsets == 0) fail("'offsets' is empty; it must begin with 0 and have the end of every row");
  rows_ = offsets - 1;
  tokens_ = tokens;
}

void RowsReader::fail(const std::string& what) const { throw Error(path_.string() + ": " + what); }

void RowsReader::fail(std::uint64_t row, const std::string& what) const {
  fail("row " + std::to_string(row) + ": " + what);
}

template <class Value>
void RowsReader::fetch(std::uint32_t list, std::uint64_t first, std::span<Value> to) {
  const RowsQuery query = {list, static_cast<std::uint32_t>(to.size()), first};
  const std::string answer = library_.ask({reinterpret_cast<const char*>(&query), sizeof query});
  if (answer.size() != to.size_bytes()) {
    fail("its reader returned another number of values than requested; the file is damaged");
  }
  std::memcpy(to.data(), answer.data(), answer.size());
}

template <class Weight, class Take>
void RowsReader::read(const RowsPlace& place, const Take& take) {
  if (place.first > rows_ || place.count > rows_ - place.first) {
    fail("holds " + std::to_string(rows_) + " rows, none from " + std::to_string(place.first) + " to " +
         std::to_string(place.first + place.count));
  }
  Sha256 digest;
  std::uint64_t read = 0;
  std::array<Token, piece> some_tokens;
  std::array<Weight, piece> some_weights;
  for (std::uint64_t row = place.first; row < place.first + place.count; ++row) {
    std::array<std::uint64_t, 2> bounds;
    fetch<std::uint64_t>(offsets_list, row, bounds);
    const auto [begin, end] = bounds;
    if (begin > end || end > tokens_) {
      fail(row, "'offsets' gives it the values " + std::to_string(begin) + " to " + std::to_string(end) + " of " +
                    std::to_string(tokens_));
    }
    read += end - begin;
    if (read > tokens_max) {
      fail(row,
           "brings its field to " + std::to_string(read) + " tokens; one field may have " + std::to_string(tokens_max));
    }
    RowParts<Weight> parts(header_);
    // Memory is allocated piece by piece, as far as the row proves well-formed.
    for (std::uint64_t at = begin; at < end;) {
      const auto count = static_cast<std::size_t>(std::min<std::uint64_t>(end - at, some_tokens.size()));
      fetch<Token>(tokens_list, at, std::span(some_tokens).first(count));
      fetch<Weight>(weights_list, at, std::span(some_weights).first(count));
      for (std::size_t i = 0; i < count; ++i) {
        if (const char* wrong = parts.add_token(some_tokens[i])) {
          fail(row, "token " + std::to_string(some_tokens[i]) + ": " + wrong);
        }
        if (const char* wrong = parts.add_weight(some_weights[i])) {
          fail(row, "weight " + std::to_string(some_weights[i]) + " of token " + std::to_string(some_tokens[i]) + ": " +
                        wrong);
        }
      }
      at += count;
    }
    if (const std::string wrong = parts.fault(); !wrong.empty()) fail(row, wrong);
    add_row<Weight>(digest, parts.tokens, parts.weights);
    take(std::move(parts));
  }
  if (digest.hex() != place.digest) {
    fail("rows " + std::to_string(place.first) + " to " + std::to_string(place.first + place.count) +
         " have the sha256 " + digest.hex() + ", not " + in_quotes(place.digest) +
         ": they are not those that the trace was written with");
  }
}

std::vector<Distribution> RowsReader::distributions(const RowsPlace& place) {
  std::vector<Distribution> rows;
  read<std::uint64_t>(place, [&](RowParts<std::uint64_t>&& parts) {
    rows.push_back(Distribution::exact(parts.tokens, parts.weights));
  });
  return rows;
}

std::vector<RealRow> RowsReader::reals(const RowsPlace& place) {
  std::vector<RealRow> rows;
  read<double>(place, [&](RowParts<double>&& parts) {
    rows.push_back({std::move(parts.tokens), std::move(parts.weights)});
  });
  return rows;
}

RowsWriter::RowsWriter(const std::filesystem::path& file, Weights weights)
    : path_(file), weights_(weights), partial_(file) {
  if (!utf8::is_valid(name())) throw Error(in_quotes(name()) + ": the name must be UTF-8, since the trace states it");
  constexpr std::size_t error_bytes_max = std::size_t{1} << 16;
  const auto begin = [&] {
    return weights == Weights::integers ? taker_of_rows<std::uint64_t>(partial_.path())
                                        : taker_of_rows<double>(partial_.path());
  };
  library_.emplace(path_.string(), begin, error_bytes_max, std::chrono::hours(1), Subprocess::Does::write);
}

template <class Weight>
void RowsWriter::add(Sha256& digest, const std::vector<Token>& tokens, const std::vector<Weight>& weights) {
  add_row<Weight>(digest, tokens, weights);
  std::string part;
  for (std::size_t at = 0; at == 0 || at < tokens.size(); at += piece) {
    const std::size_t count = std::min(tokens.size() - at, piece);
    part.assign(1, at + count == tokens.size() ? last_of_row : before_others);
    part += bytes_of<Token>(std::span(tokens).subspan(at, count));
    part += bytes_of<Weight>(std::span(weights).subspan(at, count));
    library_->ask(part);
  }
  ++rows_;
}

RowsPlace RowsWriter::append(const std::vector<Distribution>& rows) {
  if (weights_ != Weights::integers) throw Error(path_.string() + ": is of reals; distributions have integers");
  RowsPlace place{rows_, rows.size(), {}};
  Sha256 digest;
  for (const Distribution& row : rows) add<std::uint64_t>(digest, row.tokens(), row.weights());
  place.digest = digest.hex();
  return place;
}

RowsPlace RowsWriter::append_reals(const std::vector<RealRow>& rows) {
  if (weights_ != Weights::reals) throw Error(path_.string() + ": is of integers, not of reals");
  RowsPlace place{rows_, rows.size(), {}};
  Sha256 digest;
  for (const RealRow& row : rows) add<double>(digest, row.tokens, row.weights);
  place.digest = digest.hex();
  return place;
}

void RowsWriter::finish() {
  library_->ask("");
  library_.reset();
  seal(partial_.path());
  partial_.take_place();
}

}  // namespace draftproof::spectrace
