// SPDX-License-Identifier: MIT
// The layout is that of ggml's docs/gguf.md: magic, version, counts of tensors and of keys, then the keys.
#include "ref/formats/gguf.h"

#include <algorithm>
#include <bit>
#include <cstring>
#include <fstream>
#include <type_traits>

#include "ref/base/error.h"

namespace draftproof {
namespace {

static_assert(std::endian::native == std::endian::little, "GGUF is read as it lies in the file");

constexpr std::uint64_t metadata_bytes_max = std::uint64_t{1} << 29;
constexpr std::uint64_t keys_max = std::uint64_t{1} << 16;
constexpr std::uint64_t key_bytes_max = (std::uint64_t{1} << 16) - 1;
constexpr std::uint64_t array_length_max = std::uint64_t{1} << 24;

enum class Type : std::uint32_t {
  uint8, int8, uint16, int16, uint32, int32, float32, boolean, string, array, uint64, int64, float64
};

template <typename Value>
using Widened = std::conditional_t<std::is_floating_point_v<Value>, double,
                                   std::conditional_t<std::is_signed_v<Value>, std::int64_t, std::uint64_t>>;

class Reader {
 public:
  explicit Reader(const std::filesystem::path& file) : name_(file.string()) {
    std::error_code error;
    if (!std::filesystem::is_regular_file(file, error)) fail("is not a file");
    const std::uint64_t size = std::filesystem::file_size(file, error);
    stream_.open(file, std::ios::binary);
    if (error || !stream_) fail("cannot be opened");
    left_ = std::min(size, metadata_bytes_max);
  }

  std::map<std::string, GgufValue> read() {
    if (left_ < 4 || number<std::uint32_t>() != 0x46554747) fail("is not GGUF; it does not begin so");
    const auto version = number<std::uint32_t>();
    if (version != 2 && version != 3) {
      fail("is GGUF version " + std::to_string(version) + "; only versions 2 and 3, little-endian, are read");
    }
    number<std::uint64_t>();  // tensors
    const auto keys = number<std::uint64_t>();
    if (keys > keys_max) fail("claims " + std::to_string(keys) + " metadata keys; at most 65536 are read");
    std::map<std::string, GgufValue> values;
    for (std::uint64_t index = 0; index < keys; ++index) {
      place_ = "metadata key " + std::to_string(index);
      const std::string key = text(key_bytes_max);
      const bool printable = std::all_of(key.begin(), key.end(), [](char byte) { return byte > ' ' && byte < 0x7F; });
      if (key.empty() || !printable) fail("is not a name in ASCII");
      place_ = "field " + key;
      GgufValue read = value(Type{number<std::uint32_t>()});
      if (!values.emplace(key, std::move(read)).second) fail("stands there twice");
    }
    return values;
  }

 private:
  [[noreturn]] void fail(const std::string& what) const {
    throw Error(name_ + ": " + (place_.empty() ? "" : place_ + ": ") + what);
  }

  void take(void* to, std::uint64_t bytes) {
    if (bytes > left_) fail("reaches beyond the end of the file or of the 512 MiB that are read");
    stream_.read(static_cast<char*>(to), static_cast<std::streamsize>(bytes));
    if (!stream_) fail("cannot be read");
    left_ -= bytes;
  }

  template <typename Value>
  Value number() {
    Value value;
    take(&value, sizeof value);
    return value;
  }

  template <typename Value>
  Widened<Value> wide() {
    return number<Value>();
  }

  std::string text(std::uint64_t bytes_max) {
    const auto length = number<std::uint64_t>();
    if (length > bytes_max || length > left_) {
      fail("is a string of " + std::to_string(length) + " bytes, too long here");
    }
    std::string read(length, '\0');
    take(read.data(), length);
    return read;
  }

  bool boolean() {
    const auto byte = number<std::uint8_t>();
    if (byte > 1) fail("is a truth value of " + std::to_string(byte));
    return byte == 1;
  }

  GgufValue value(Type type) {
    switch (type) {
      case Type::uint8: return wide<std::uint8_t>();
      case Type::int8: return wide<std::int8_t>();
      case Type::uint16: return wide<std::uint16_t>();
      case Type::int16: return wide<std::int16_t>();
      case Type::uint32: return wide<std::uint32_t>();
      case Type::int32: return wide<std::int32_t>();
      case Type::float32: return wide<float>();
      case Type::boolean: return boolean();
      case Type::string: return text(metadata_bytes_max);
      case Type::array: return array();
      case Type::uint64: return wide<std::uint64_t>();
      case Type::int64: return wide<std::int64_t>();
      case Type::float64: return wide<double>();
    }
    fail_type(type);
  }

  GgufValue array() {
    const auto type = Type{number<std::uint32_t>()};
    const auto length = number<std::uint64_t>();
    if (length > array_length_max) {
      fail("is an array of " + std::to_string(length) + " elements; at most 2^24 are read");
    }
    switch (type) {
      case Type::uint8: return numbers<std::uint8_t>(length);
      case Type::int8: return numbers<std::int8_t>(length);
      case Type::uint16: return numbers<std::uint16_t>(length);
      case Type::int16: return numbers<std::int16_t>(length);
      case Type::uint32: return numbers<std::uint32_t>(length);
      case Type::int32: return numbers<std::int32_t>(length);
      case Type::float32: return numbers<float>(length);
      case Type::boolean:
        return many<std::uint64_t>(length, 1, [this] { return std::uint64_t{boolean()}; });
      case Type::string:
        return many<std::string>(length, sizeof(std::uint64_t), [this] { return text(metadata_bytes_max); });
      case Type::array: fail("is an array of arrays, which is not read");
      case Type::uint64: return numbers<std::uint64_t>(length);
      case Type::int64: return numbers<std::int64_t>(length);
      case Type::float64: return numbers<double>(length);
    }
    fail_type(type);
  }

  [[noreturn]] void fail_type(Type type) const {
    fail("has the unknown value type " + std::to_string(static_cast<std::uint32_t>(type)));
  }

  template <typename Value>
  std::vector<Widened<Value>> numbers(std::uint64_t length) {
    return many<Widened<Value>>(length, sizeof(Value), [this] { return wide<Value>(); });
  }

  /// `element_bytes`: what an element takes in the file at least, so that no array is longer than the file.
  template <typename Element, typename Next>
  std::vector<Element> many(std::uint64_t length, std::uint64_t element_bytes, Next next) {
    if (length > left_ / element_bytes) fail("is an array that reaches beyond the end of the file");
    std::vector<Element> elements;
    elements.reserve(length);
    for (std::uint64_t index = 0; index < length; ++index) elements.push_back(next());
    return elements;
  }

  std::string name_;
  std::string place_;
  std::ifstream stream_;
  std::uint64_t left_ = 0;  // bytes we may still take
};

}  // namespace

std::map<std::string, GgufValue> read_gguf_metadata(const std::filesystem::path& file) { return Reader(file).read(); }

}  // namespace draftproof
