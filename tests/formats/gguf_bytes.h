// SPDX-License-Identifier: MIT
// GGUF files for tests, written key by key; what is wrong in them is wrong on purpose.
#pragma once

#include <cstdint>
#include <cstring>
#include <string>
#include <string_view>
#include <vector>

namespace draftproof::testing {

class GgufBytes {
 public:
  template <typename Number>
  static std::string raw(Number number) {
    std::string bytes(sizeof number, '\0');
    std::memcpy(bytes.data(), &number, sizeof number);
    return bytes;
  }
  static std::string raw_text(std::string_view text) { return raw(std::uint64_t{text.size()}) + std::string(text); }

  /// Any value: its type's number and its bytes.
  GgufBytes& put(std::string_view key, std::uint32_t type, std::string_view bytes) {
    body_ += raw_text(key) + raw(type) + std::string(bytes);
    ++keys_;
    return *this;
  }
  GgufBytes& text(std::string_view key, std::string_view value) { return put(key, 8, raw_text(value)); }
  GgufBytes& truth(std::string_view key, bool value) { return put(key, 7, raw(std::uint8_t{value})); }
  GgufBytes& number(std::string_view key, std::uint32_t value) { return put(key, 4, raw(value)); }
  GgufBytes& texts(std::string_view key, const std::vector<std::string>& values) {
    std::string bytes = array_head(8, values.size());
    for (const std::string& value : values) bytes += raw_text(value);
    return put(key, 9, bytes);
  }
  GgufBytes& integers(std::string_view key, const std::vector<std::int32_t>& values) {
    std::string bytes = array_head(5, values.size());
    for (const std::int32_t value : values) bytes += raw(value);
    return put(key, 9, bytes);
  }
  static std::string array_head(std::uint32_t type, std::uint64_t length) { return raw(type) + raw(length); }

  std::string bytes(std::uint32_t version = 3) const {
    return "GGUF" + raw(version) + raw(std::uint64_t{0}) + raw(keys_) + body_;
  }

 private:
  std::string body_;
  std::uint64_t keys_ = 0;
};

}  // namespace draftproof::testing
