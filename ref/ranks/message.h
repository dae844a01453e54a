// SPDX-License-Identifier: MIT
// What rank 0 tells the others: numbers, texts and lists of numbers, in the order in which they were added.
#pragma once

#include <cstddef>
#include <cstring>
#include <span>
#include <string>
#include <type_traits>
#include <vector>

#include "ref/base/require.h"

namespace draftproof {

class Message {
 public:
  template <class T>
  requires std::is_trivially_copyable_v<T> Message& add(const T& value) {
    const auto* const first = reinterpret_cast<const std::byte*>(&value);
    bytes_.insert(bytes_.end(), first, first + sizeof value);
    return *this;
  }
  template <class T>
  Message& add_list(std::span<const T> values) {
    add(values.size());
    const auto bytes = std::as_bytes(values);
    bytes_.insert(bytes_.end(), bytes.begin(), bytes.end());
    return *this;
  }
  Message& add_text(const std::string& text) { return add_list(std::span(text.data(), text.size())); }

  const std::vector<std::byte>& bytes() const noexcept { return bytes_; }

 private:
  std::vector<std::byte> bytes_;
};

class MessageReader {
 public:
  explicit MessageReader(std::span<const std::byte> bytes) : left_(bytes) {}

  bool at_end() const noexcept { return left_.empty(); }

  template <class T>
  T take() {
    T value;
    std::memcpy(&value, take_bytes(sizeof value), sizeof value);
    return value;
  }
  template <class T>
  std::vector<T> take_list() {
    std::vector<T> values(take<std::size_t>());
    const std::size_t size = values.size() * sizeof(T);
    if (size > 0) std::memcpy(values.data(), take_bytes(size), size);
    return values;
  }
  std::string take_text() {
    const std::vector<char> text = take_list<char>();
    return {text.begin(), text.end()};
  }

 private:
  const std::byte* take_bytes(std::size_t size) {
    REQUIRE(size <= left_.size(), "a message is read as it was written");
    const std::byte* const first = left_.data();
    left_ = left_.subspan(size);
    return first;
  }

  std::span<const std::byte> left_;
};

}  // namespace draftproof
