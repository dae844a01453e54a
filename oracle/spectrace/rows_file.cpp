// SPDX-License-Identifier: MIT
#include "oracle/spectrace/rows_file.h"

#include <algorithm>
#include <array>
#include <span>
#include <string_view>
#include <system_error>

#include "oracle/spectrace/row_parts.h"
#include "ref/base/error.h"
#include "ref/base/utf8.h"
#include "ref/formats/hdf5_seal.h"
#include "ref/formats/printable.h"
#include "ref/formats/whole_file.h"

namespace draftproof::spectrace {
namespace {

template <class Value>
void add(Sha256& digest, std::span<const Value> values) {
  digest.add({reinterpret_cast<const char*>(values.data()), values.size_bytes()});
}

/// The content of one row, little-endian.
template <class Weight>
void add_row(Sha256& digest, std::span<const Token> tokens, std::span<const Weight> weights) {
  const std::uint64_t count = tokens.size();
  add(digest, std::span(&count, 1));
  add(digest, tokens);
  add(digest, weights);
}

}  // namespace

std::filesystem::path rows_beside(const std::filesystem::path& trace, const std::string& name) {
  std::error_code failure;
  return std::filesystem::weakly_canonical(trace, failure).parent_path() / name;
}

RowsReader::RowsReader(const std::filesystem::path& file, const Header& header)
    : path_(file), header_(header), file_(open_sealed(file)) {
  if (const std::string schema = file_.read_string_attribute("/", "schema"); schema != rows_schema) {
    fail("attribute 'schema' is " + in_quotes(schema) + ", this program reads " + rows_schema);
  }
  offsets_.emplace(file_, "offsets");
  tokens_.emplace(file_, "tokens");
  if (header.total > 0) weights_.emplace(file_, "weights");
  else real_weights_.emplace(file_, "weights");
  const std::uint64_t weights = header.total > 0 ? weights_->size() : real_weights_->size();
  if (weights != tokens_->size()) {
    fail("'tokens' has " + std::to_string(tokens_->size()) + " values, 'weights' " + std::to_string(weights));
  }
  if (offsets_->size() == 0) fail("'offsets' is empty; it begins with 0 and has the end of every row");
}

void RowsReader::fail(const std::string& what) const { throw Error(path_.string() + ": " + what); }

void RowsReader::fail(std::uint64_t row, const std::string& what) const {
  fail("row " + std::to_string(row) + ": " + what);
}

template <class Weight, class Take>
void RowsReader::read(const RowsPlace& place, Hdf5List<Weight>& weights, const Take& take) {
  const std::uint64_t rows = offsets_->size() - 1;
  if (place.first > rows || place.count > rows - place.first) {
    fail("holds " + std::to_string(rows) + " rows, none from " + std::to_string(place.first) + " to " +
         std::to_string(place.first + place.count));
  }
  Sha256 digest;
  std::uint64_t read = 0;
  std::array<Token, 4096> some_tokens;
  std::array<Weight, 4096> some_weights;
  for (std::uint64_t row = place.first; row < place.first + place.count; ++row) {
    std::array<std::uint64_t, 2> bounds;
    offsets_->read(row, bounds);
    const auto [begin, end] = bounds;
    if (begin > end || end > tokens_->size()) {
      fail(row, "'offsets' says that it has values " + std::to_string(begin) + " to " + std::to_string(end) + " of " +
                    std::to_string(tokens_->size()));
    }
    read += end - begin;
    if (read > tokens_max) {
      fail(row, "ends " + std::to_string(read) + " tokens; one field may have " + std::to_string(tokens_max));
    }
    RowParts<Weight> parts(header_);
    // Memory is asked for as the row shows that it is one.
    for (std::uint64_t at = begin; at < end;) {
      const auto count = static_cast<std::size_t>(std::min<std::uint64_t>(end - at, some_tokens.size()));
      tokens_->read(at, std::span(some_tokens).first(count));
      weights.read(at, std::span(some_weights).first(count));
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
  read(place, *weights_, [&](RowParts<std::uint64_t>&& parts) {
    rows.push_back(Distribution::exact(parts.tokens, parts.weights));
  });
  return rows;
}

std::vector<RealRow> RowsReader::reals(const RowsPlace& place) {
  std::vector<RealRow> rows;
  read(place, *real_weights_, [&](RowParts<double>&& parts) {
    rows.push_back({std::move(parts.tokens), std::move(parts.weights)});
  });
  return rows;
}

RowsWriter::RowsWriter(const std::filesystem::path& file) : path_(file), partial_(file.string() + ".partial") {
  if (!utf8::is_valid(name())) throw Error(in_quotes(name()) + ": must be UTF-8, for a trace to name it");
  file_.emplace(Hdf5::create(partial_));
  prepare_seal(*file_);
  file_->write_string_attribute("/", "schema", rows_schema);
  offsets_.emplace(*file_, "offsets");
  tokens_.emplace(*file_, "tokens");
  weights_.emplace(*file_, "weights");
  offsets_->append(std::span(&end_, 1));
}

RowsWriter::~RowsWriter() {
  std::error_code ignored;
  std::filesystem::remove(partial_, ignored);
}

RowsPlace RowsWriter::append(const std::vector<Distribution>& rows) {
  RowsPlace place{rows_, rows.size(), {}};
  Sha256 digest;
  for (const Distribution& row : rows) {
    const std::vector<Token> tokens = row.tokens();
    const std::vector<std::uint64_t> weights = row.weights();
    add_row<std::uint64_t>(digest, tokens, weights);
    tokens_->append(tokens);
    weights_->append(weights);
    end_ += tokens.size();
    offsets_->append(std::span(&end_, 1));
    ++rows_;
  }
  place.digest = digest.hex();
  return place;
}

void RowsWriter::finish() {
  offsets_->finish();
  tokens_->finish();
  weights_->finish();
  file_.reset();
  seal(partial_);
  put_in_place(partial_, path_);
}

}  // namespace draftproof::spectrace
