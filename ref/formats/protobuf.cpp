// SPDX-License-Identifier: MIT
#include "ref/formats/protobuf.h"

#include <bit>
#include <cmath>

#include "ref/base/error.h"
#include "ref/base/utf8.h"

namespace draftproof {

void ProtobufFields::fail(const std::string& what) const { throw Error(origin_ + ": " + what); }

std::uint64_t ProtobufFields::take_varint() {
  constexpr int bits_max = 64;
  std::uint64_t value = 0;
  for (int shift = 0; shift < bits_max; shift += 7) {
    const auto byte = static_cast<unsigned char>(take(1).front());
    const std::uint64_t digits = byte & 0x7F;
    if (digits << shift >> shift != digits) break;
    value |= digits << shift;
    if (byte < 0x80) return value;
  }
  fail("a number of the message is longer than 64 bits");
}

std::string_view ProtobufFields::take(std::uint64_t count) {
  if (count > rest_.size()) fail("the message ends inside a field");
  const std::string_view taken = rest_.substr(0, count);
  rest_.remove_prefix(count);
  return taken;
}

bool ProtobufFields::next() {
  if (rest_.empty()) return false;
  const std::uint64_t key = take_varint();
  if (key >> 3 == 0 || key >> 32 != 0) fail("the message has a field without a valid number");
  number_ = static_cast<std::uint32_t>(key >> 3);
  switch (key & 7) {
    case 0:
      wire_ = Wire::varint;
      varint_ = take_varint();
      break;
    case 1:
      wire_ = Wire::fixed64;
      value_ = take(8);
      break;
    case 2:
      wire_ = Wire::bytes;
      value_ = take(take_varint());
      break;
    case 5:
      wire_ = Wire::fixed32;
      value_ = take(4);
      break;
    default: fail("field " + std::to_string(number_) + " of the message has an unknown type");
  }
  return true;
}

void ProtobufFields::expect(Wire wire, std::string_view name) const {
  if (wire_ != wire) fail("field " + std::string(name) + " has the wrong type");
}

std::string_view ProtobufFields::bytes(std::string_view name) const {
  expect(Wire::bytes, name);
  return value_;
}

std::string ProtobufFields::text(std::string_view name) const {
  const std::string_view value = bytes(name);
  if (!utf8::is_valid(value)) fail("field " + std::string(name) + " is not UTF-8");
  return std::string(value);
}

std::int64_t ProtobufFields::integer(std::string_view name) const {
  expect(Wire::varint, name);
  return static_cast<std::int64_t>(varint_);
}

bool ProtobufFields::truth(std::string_view name) const {
  expect(Wire::varint, name);
  return varint_ != 0;
}

float ProtobufFields::real(std::string_view name) const {
  expect(Wire::fixed32, name);
  std::uint32_t bits = 0;
  for (std::size_t i = 4; i-- > 0;) bits = bits << 8 | static_cast<unsigned char>(value_[i]);
  const auto value = std::bit_cast<float>(bits);
  if (!std::isfinite(value)) fail("field " + std::string(name) + " is not a finite number");
  return value;
}

}  // namespace draftproof
