// SPDX-License-Identifier: MIT
// Reads values that occur in every kind of line: tokens, integers in a range, real numbers, digests, rows. A value that
// does not fit throws Error, which names file, line and field.
#pragma once

#include <cstdint>
#include <limits>
#include <set>
#include <string>
#include <vector>

#include "oracle/spectrace/events.h"
#include "oracle/spectrace/row_parts.h"
#include "ref/formats/json.h"

namespace draftproof::spectrace {

inline constexpr std::int64_t position_max = std::numeric_limits<std::int32_t>::max();
inline constexpr std::int64_t exact_max = std::int64_t{1} << 53;  // every JSON reader keeps smaller integers exactly
inline constexpr std::int64_t draft_tokens_max = 1 << 16;
inline constexpr std::size_t tuned_draft_tokens_max = 1 << 10;
inline constexpr std::size_t stages_max = 64;  // drafts that are asked in order

using Names = std::set<std::string, std::less<>>;

/// Throws Error when `line` has a field that is not in `known` and does not begin with x_. An unknown field is refused,
/// because nobody would look at the evidence in a misspelt one.
void refuse_unknown(const Json& line, const Names& known);

/// Reads a C99 hexadecimal float in a string, such as "0x1.8p-1", which keeps every bit. Also reads what printf writes
/// for values that are no numbers (nan, inf): an engine that has one is at fault, not the file.
double real_or_not(const Json& value);
/// Reads a finite real.
double real_of(const Json& value);
/// Reads a real in [least, most].
double real_in(const Json& value, double min, double max);
/// Reads an integer in [least, most].
std::uint64_t integer_in(const Json& value, std::uint64_t min, std::uint64_t max);

/// Applies `read` to every element of a list.
template <class Read>
auto read_list(const Json& list, Read read) {
  std::vector<decltype(read(list))> values;
  const std::size_t count = list.size();
  values.reserve(count);
  for (std::size_t i = 0; i < count; ++i) values.push_back(read(list[i]));
  return values;
}

/// Throws Error unless `size`, the length of `field`, lies in [least, most].
void expect_size(const Json& line, const char* field, std::size_t size, std::size_t min, std::size_t max);
template <class Value>
void expect_size(const Json& line, const char* field, const std::vector<Value>& values, std::size_t min,
                 std::size_t max) {
  expect_size(line, field, values.size(), min, max);
}

/// Reads values whose range depends on the header. `header` outlives it.
class LineReader {
 public:
  explicit LineReader(const Header& header) : header_(header) {}

  Token token(const Json& value) const { return static_cast<Token>(value.integer(0, header_.vocabulary - 1)); }
  std::vector<Token> tokens(const Json& list) const;
  Fingerprint digest(const Json& value) const;

 protected:
  /// Reads a row: [token, weight, token, weight, ...].
  template <class Weight, class Read>
  RowParts<Weight> parts_of(const Json& list, const Read& read) const {
    const std::size_t count = list.size();
    if (count == 0 || count % 2 != 0) list.fail("must be a list of tokens, each followed by its weight");
    RowParts<Weight> parts(header_);
    for (std::size_t i = 0; i < count; i += 2) {
      if (const char* wrong = parts.add_token(token(list[i]))) list[i].fail(wrong);
      if (const char* wrong = parts.add_weight(read(list[i + 1]))) list[i + 1].fail(wrong);
    }
    if (const std::string wrong = parts.fault(); !wrong.empty()) list.fail(wrong);
    return parts;
  }

  const Header& header_;
};

}  // namespace draftproof::spectrace
