// SPDX-License-Identifier: MIT
// GGUF files for tests, written key by key; errors in them are intended.
#pragma once

#include <cstdint>
#include <cstring>
#include <string>
#include <string_view>
#include <vector>

namespace draftproof::test {

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
  GgufBytes& reals(std::string_view key, const std::vector<float>& values) {
    std::string bytes = array_head(6, values.size());
    for (const float value : values) bytes += raw(value);
    return put(key, 9, bytes);
  }
  /// Dimensions are innermost first; `offset` is relative to the start of the data.
  GgufBytes& tensor(std::string_view name, const std::vector<std::uint64_t>& extents, std::uint32_t type,
                    std::uint64_t offset) {
    infos_ += raw_text(name) + raw(static_cast<std::uint32_t>(extents.size()));
    for (const std::uint64_t extent : extents) infos_ += raw(extent);
    infos_ += raw(type) + raw(offset);
    ++tensors_;
    return *this;
  }
  GgufBytes& data(std::string_view bytes) {
    data_ += bytes;
    return *this;
  }

  static std::string array_head(std::uint32_t type, std::uint64_t length) { return raw(type) + raw(length); }

  std::string bytes(std::uint32_t version = 3) const {
    std::string file = "GGUF" + raw(version) + raw(tensors_) + raw(keys_) + body_ + infos_;
    if (!data_.empty()) file += std::string((32 - file.size() % 32) % 32, '\0') + data_;
    return file;
  }

 private:
  std::string body_;
  std::uint64_t keys_ = 0;
  std::string infos_;
  std::uint64_t tensors_ = 0;
  std::string data_;
};

}  // namespace draftproof::test
