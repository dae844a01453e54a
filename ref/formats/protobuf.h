// SPDX-License-Identifier: MIT
// Walks the fields of one Protocol Buffers message. Messages are untrusted: every length is checked before it is used,
// nothing is copied, and groups, which proto3 no longer has, are refused.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

namespace draftproof {

class ProtobufFields {
 public:
  /// `origin`: "FILE: field NAME" of the message, or the file; begins every message of an Error. The bytes outlive the
  /// walk.
  ProtobufFields(std::string_view bytes, std::string origin) : rest_(bytes), origin_(std::move(origin)) {}

  /// Reads the next field; returns false at the end of the message.
  bool next();
  std::uint32_t number() const noexcept { return number_; }  // of the field, at least 1

  /// Return the value of the field. Throw Error, naming `name`, when it has another type.
  std::string_view bytes(std::string_view name) const;
  std::string text(std::string_view name) const;  // UTF-8
  std::int64_t integer(std::string_view name) const;
  bool truth(std::string_view name) const;
  float real(std::string_view name) const;  // finite

 private:
  enum class Wire { varint = 0, fixed64 = 1, bytes = 2, fixed32 = 5 };

  std::uint64_t take_varint();
  std::string_view take(std::uint64_t count);
  void expect(Wire wire, std::string_view name) const;
  [[noreturn]] void fail(const std::string& what) const;

  std::string_view rest_;
  std::string origin_;
  std::uint32_t number_ = 0;
  Wire wire_ = Wire::varint;
  std::uint64_t varint_ = 0;
  std::string_view value_;
};

}  // namespace draftproof
