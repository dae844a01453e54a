// SPDX-License-Identifier: MIT
#include "serve/chunks.h"

#include <algorithm>

namespace draftproof::serve {
namespace {

constexpr std::size_t size_max = std::size_t{1} << 40;

/// The value of a hexadecimal digit; -1: it is none.
int value_of(char c) {
  if (c >= '0' && c <= '9') return c - '0';
  if (c >= 'a' && c <= 'f') return c - 'a' + 10;
  if (c >= 'A' && c <= 'F') return c - 'A' + 10;
  return -1;
}

}  // namespace

bool Chunks::take(std::string_view bytes) {
  while (!bytes.empty()) {
    if (next_ == Next::data) {
      const std::size_t taken = std::min(size_, bytes.size());
      bytes.remove_prefix(taken);
      size_ -= taken;
      if (size_ == 0) next_ = Next::data_cr;
      continue;
    }
    if (!take(bytes.front())) return false;
    bytes.remove_prefix(1);
  }
  return true;
}

bool Chunks::take(char byte) {
  const auto expect = [&](char wanted, Next then) {
    next_ = then;
    return byte == wanted;
  };
  switch (next_) {
    case Next::digit:
      if (byte == '\r') return expect('\r', Next::size_lf);
      if (byte == ';') return expect(';', Next::extension);
      [[fallthrough]];
    case Next::first_digit:
      if (value_of(byte) < 0 || size_ > size_max) return false;
      size_ = 16 * size_ + static_cast<std::size_t>(value_of(byte));
      next_ = Next::digit;
      return true;
    case Next::extension:
      if (byte == '\r') next_ = Next::size_lf;
      return byte != '\n';
    case Next::size_lf: return expect('\n', size_ > 0 ? Next::data : Next::end_cr);
    case Next::data_cr: return expect('\r', Next::data_lf);
    case Next::data_lf: return expect('\n', Next::first_digit);
    case Next::end_cr: return expect('\r', Next::end_lf);
    case Next::end_lf: return expect('\n', Next::nothing);
    case Next::data:
    case Next::nothing: break;
  }
  return false;
}

}  // namespace draftproof::serve
