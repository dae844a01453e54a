// SPDX-License-Identifier: MIT
#include "oracle/spectrace/line_reader.h"

#include <fmt/format.h>

#include <charconv>
#include <cmath>
#include <string_view>

#include "ref/formats/printable.h"

namespace draftproof::spectrace {

void refuse_unknown(const Json& line, const Names& known) {
  for (const std::string& name : line.fields()) {
    if (known.contains(name) || name.starts_with("x_")) continue;
    line.fail("field " + in_quotes(name) + " is not one of " + schema_name + "; names of your own begin with x_");
  }
}

double real_or_not(const Json& value) {
  if (value.is_number()) {
    value.fail(
        "must be a hexadecimal float in a string, such as \"0x1.8p-1\" (x.hex() in Python, %a in C), because "
        "decimals are often written with too few digits");
  }
  const std::string& text = value.string();
  for (const char* name : {"nan", "-nan", "inf", "-inf"}) {
    if (text != name) continue;
    using Limits = std::numeric_limits<double>;
    const double special = text.ends_with("nan") ? Limits::quiet_NaN() : Limits::infinity();
    return *name == '-' ? -special : special;
  }
  std::string_view digits = text;
  const bool negative = digits.starts_with('-');
  if (negative) digits.remove_prefix(1);
  double real = 0;
  const bool prefixed = digits.starts_with("0x") && digits.size() > 2 && digits[2] != '-';
  if (prefixed) digits.remove_prefix(2);
  const char* const last = digits.data() + digits.size();
  const auto [end, failure] = std::from_chars(digits.data(), last, real, std::chars_format::hex);
  if (!prefixed || failure != std::errc() || end != last || !std::isfinite(real)) {
    value.fail("must be a hexadecimal float such as \"0x1.8p-1\", but is " + in_quotes(text));
  }
  return negative ? -real : real;
}

double real_of(const Json& value) {
  const double real = real_or_not(value);
  if (!std::isfinite(real)) value.fail("must be a number, but is " + in_quotes(value.string()));
  return real;
}

double real_in(const Json& value, double min, double max) {
  const double real = real_of(value);
  if (!(real >= min && real <= max)) {
    value.fail(fmt::format("must lie in [{}, {}], but is {}", min, max, real));
  }
  return real;
}

std::uint64_t integer_in(const Json& value, std::uint64_t min, std::uint64_t max) {
  return static_cast<std::uint64_t>(value.integer(static_cast<std::int64_t>(min), static_cast<std::int64_t>(max)));
}

void expect_size(const Json& line, const char* field, std::size_t size, std::size_t min, std::size_t max) {
  if (size >= min && size <= max) return;
  const std::string wanted = min == max ? std::to_string(min) : std::to_string(min) + " to " + std::to_string(max);
  line.at(field).fail("has " + std::to_string(size) + " elements, but this round needs " + wanted);
}

std::vector<Token> LineReader::tokens(const Json& list) const {
  return read_list(list, [&](const Json& value) { return token(value); });
}

Fingerprint LineReader::digest(const Json& value) const {
  const std::string& text = value.string();
  Fingerprint result;
  const auto part = [&](std::size_t from, std::uint64_t& number) {
    const auto [end, failure] = std::from_chars(text.data() + from, text.data() + from + 16, number, 16);
    return failure == std::errc() && end == text.data() + from + 16;
  };
  if (text.size() != 32 || !part(0, result.high) || !part(16, result.low) || result.hex() != text) {
    value.fail("must be 32 lower-case hexadecimal digits, but is " + in_quotes(text));
  }
  return result;
}

}  // namespace draftproof::spectrace
