// SPDX-License-Identifier: MIT
// The layout, from ggml's docs/gguf.md: magic, version, counts of tensors and of keys; the keys with their values;
// name, extents, type and offset of each tensor; after padding to the alignment, the tensors' bytes.
#include "ref/formats/gguf.h"

#include <algorithm>
#include <bit>
#include <cstring>
#include <limits>
#include <type_traits>
#include <utility>

#include "kernels/formats.h"
#include "ref/base/error.h"
#include "ref/base/presence.h"
#include "ref/base/utf8.h"
#include "ref/formats/gguf_types.h"
#include "ref/formats/printable.h"

namespace draftproof {
namespace {

static_assert(std::endian::native == std::endian::little, "GGUF is read as it lies in the file");

constexpr std::uint32_t magic = 0x46554747;  // "GGUF"
constexpr std::uint64_t header_bytes_max = std::uint64_t{1} << 29;
constexpr std::uint64_t keys_max = std::uint64_t{1} << 16;
constexpr std::uint64_t key_bytes_max = (std::uint64_t{1} << 16) - 1;
constexpr std::uint64_t tensors_max = std::uint64_t{1} << 20;
constexpr std::uint64_t tensor_name_bytes_max = 64;
constexpr std::uint32_t extents_max = 4;
constexpr std::uint64_t array_length_max = std::uint64_t{1} << 24;
constexpr int array_depth_max = 4;
constexpr std::uint64_t alignment_max = std::uint64_t{1} << 20;
constexpr std::uint64_t parts_max = 9999;

template <typename Value>
using Widened = std::conditional_t<std::is_floating_point_v<Value>, double,
                                   std::conditional_t<std::is_signed_v<Value>, std::int64_t, std::uint64_t>>;

/// Names of types that files may have and this reader does not support, for the error message.
constexpr std::pair<std::uint32_t, const char*> other_types[] = {{9, "Q8_1"}, {15, "Q8_K"}, {41, "Q1_0"}};

std::string name_of_type(std::uint32_t id) {
  for (const auto& [known, name] : other_types) {
    if (known == id) return name;
  }
  return "number " + std::to_string(id);
}

/// Reads, in order, everything before the tensors' bytes.
class GgufHeader {
 public:
  struct Field {
    GgufValue value;
    std::uint64_t offset;
    std::uint64_t bytes;
  };
  using Fields = std::map<std::string, Field>;

  explicit GgufHeader(const FileBytes& file) : file_(file), end_(std::min(file.size(), header_bytes_max)) {
    if (end_ < 4 || number<std::uint32_t>() != magic) fail("is not GGUF; its first four bytes are not 'GGUF'");
    const auto version = number<std::uint32_t>();
    if (version == 0x02000000 || version == 0x03000000) {
      fail("is big-endian GGUF; only little-endian is read, fetch that form or convert it");
    }
    if (version != 2 && version != 3) {
      fail("is GGUF version " + std::to_string(version) + "; only versions 2 and 3, little-endian, are read");
    }
    tensors_ = number<std::uint64_t>();
    keys_ = number<std::uint64_t>();
    if (keys_ > keys_max) fail("claims " + std::to_string(keys_) + " metadata keys; at most 65536 are read");
    if (tensors_ > tensors_max) fail("claims " + std::to_string(tensors_) + " tensors; at most 2^20 are read");
  }

  Fields fields() {
    Fields fields;
    for (std::uint64_t index = 0; index < keys_; ++index) {
      place_ = "metadata key " + std::to_string(index);
      const std::string key = name(key_bytes_max);
      place_ = "field " + printable(key);
      const std::uint64_t offset = at_;
      GgufValue read = value(GgufType{number<std::uint32_t>()}, 0);
      if (!fields.emplace(key, Field{std::move(read), offset, at_ - offset}).second) fail("occurs twice");
    }
    place_.clear();
    return fields;
  }

  /// Call after fields(). Returns tensors whose offsets are relative to the start of the file.
  std::map<std::string, StoredTensor> tensors(std::uint64_t alignment, const std::shared_ptr<const FileBytes>& file) {
    std::map<std::string, StoredTensor> tensors;
    for (std::uint64_t index = 0; index < tensors_; ++index) {
      place_ = "tensor " + std::to_string(index);
      const std::string name = this->name(tensor_name_bytes_max);
      place_ = "tensor " + in_quotes(name);
      if (!tensors.emplace(name, tensor(name, alignment, file)).second) fail("occurs twice");
    }
    place_.clear();
    const std::uint64_t data = (at_ + alignment - 1) / alignment * alignment;
    for (auto& [name, tensor] : tensors) {
      place_ = "tensor " + in_quotes(name);
      // No overflow: a header has less than 2^29 bytes, and the offset and size of a tensor were checked to be below
      // 2^63.
      tensor.offset += data;
      if (tensor.offset > file_.size() || tensor.bytes > file_.size() - tensor.offset) {
        fail("claims bytes " + std::to_string(tensor.offset) + " to " + std::to_string(tensor.offset + tensor.bytes) +
             " of a file of " + std::to_string(file_.size()) + "; damaged or cut short, fetch the file again");
      }
    }
    refuse_overlaps(tensors);
    return tensors;
  }

 private:
  [[noreturn]] void fail(const std::string& what) const {
    throw Error(file_.file().string() + ": " + (place_.empty() ? "" : place_ + ": ") + what);
  }

  void take(void* to, std::uint64_t bytes) {
    if (bytes > end_ - at_) fail("reaches beyond the end of the file or of the 512 MiB that are read");
    auto* out = static_cast<char*>(to);
    while (bytes > 0) {
      if (at_ < buffer_at_ || at_ - buffer_at_ >= buffer_.size()) {
        buffer_.resize(std::min<std::uint64_t>(1 << 16, end_ - at_));
        file_.read(at_, buffer_.size(), buffer_.data());
        buffer_at_ = at_;
      }
      const std::size_t count = std::min<std::uint64_t>(bytes, buffer_.size() - (at_ - buffer_at_));
      std::memcpy(out, buffer_.data() + (at_ - buffer_at_), count);
      out += count;
      at_ += count;
      bytes -= count;
    }
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
    if (length > bytes_max || length > end_ - at_) {
      fail("is a string of " + std::to_string(length) + " bytes, too long here");
    }
    std::string read(length, '\0');
    take(read.data(), length);
    return read;
  }

  std::string name(std::uint64_t bytes_max) {
    std::string read = text(bytes_max);
    const bool ascii = std::all_of(read.begin(), read.end(), [](char byte) { return byte > ' ' && byte < 0x7F; });
    if (read.empty() || !ascii) fail("is not a name in ASCII");
    return read;
  }

  bool boolean() {
    const auto byte = number<std::uint8_t>();
    if (byte > 1) fail("is a boolean of value " + std::to_string(byte));
    return byte == 1;
  }

  GgufValue value(GgufType type, int depth) {
    switch (type) {
      case GgufType::uint8: return wide<std::uint8_t>();
      case GgufType::int8: return wide<std::int8_t>();
      case GgufType::uint16: return wide<std::uint16_t>();
      case GgufType::int16: return wide<std::int16_t>();
      case GgufType::uint32: return wide<std::uint32_t>();
      case GgufType::int32: return wide<std::int32_t>();
      case GgufType::float32: return wide<float>();
      case GgufType::boolean: return boolean();
      case GgufType::string: return text(header_bytes_max);
      case GgufType::array: return array(depth + 1);
      case GgufType::uint64: return wide<std::uint64_t>();
      case GgufType::int64: return wide<std::int64_t>();
      case GgufType::float64: return wide<double>();
    }
    fail_type(type);
  }

  GgufValue array(int depth) {
    if (depth > array_depth_max) fail("nests arrays deeper than " + std::to_string(array_depth_max) + " levels");
    const auto type = GgufType{number<std::uint32_t>()};
    const auto length = number<std::uint64_t>();
    if (length > array_length_max) {
      fail("is an array of " + std::to_string(length) + " elements; at most 2^24 are read");
    }
    switch (type) {
      case GgufType::uint8: return numbers<std::uint8_t>(length);
      case GgufType::int8: return numbers<std::int8_t>(length);
      case GgufType::uint16: return numbers<std::uint16_t>(length);
      case GgufType::int16: return numbers<std::int16_t>(length);
      case GgufType::uint32: return numbers<std::uint32_t>(length);
      case GgufType::int32: return numbers<std::int32_t>(length);
      case GgufType::float32: return numbers<float>(length);
      case GgufType::boolean: return many<std::uint64_t>(length, 1, [this] { return std::uint64_t{boolean()}; });
      case GgufType::string:
        return many<std::string>(length, sizeof(std::uint64_t), [this] { return text(header_bytes_max); });
      case GgufType::array:
        return many<GgufElement>(length, sizeof(std::uint32_t) + sizeof(std::uint64_t),
                                 [this, depth] { return GgufElement{array(depth + 1)}; });
      case GgufType::uint64: return numbers<std::uint64_t>(length);
      case GgufType::int64: return numbers<std::int64_t>(length);
      case GgufType::float64: return numbers<double>(length);
    }
    fail_type(type);
  }

  [[noreturn]] void fail_type(GgufType type) const {
    fail("has the unknown value type " + std::to_string(static_cast<std::uint32_t>(type)));
  }

  template <typename Value>
  std::vector<Widened<Value>> numbers(std::uint64_t length) {
    return many<Widened<Value>>(length, sizeof(Value), [this] { return wide<Value>(); });
  }

  /// `element_bytes`: the least size of an element in the file, so that no array is longer than the file.
  template <typename Element, typename Next>
  std::vector<Element> many(std::uint64_t length, std::uint64_t element_bytes, Next next) {
    if (length > (end_ - at_) / element_bytes) fail("is an array that reaches beyond the end of the file");
    std::vector<Element> elements;
    elements.reserve(length);
    for (std::uint64_t index = 0; index < length; ++index) elements.push_back(next());
    return elements;
  }

  const GgufTensorType& tensor_type() {
    const auto id = number<std::uint32_t>();
    for (const GgufTensorType& type : gguf_tensor_types) {
      if (type.id == id) return type;
    }
    std::string read;
    for (const GgufTensorType& type : gguf_tensor_types) {
      if (type.format) read += (read.empty() ? "" : ", ") + std::string(type.name);
    }
    fail("has type " + name_of_type(id) + "; only these are read, fetch or make one of them: " + read);
  }

  StoredTensor tensor(const std::string& name, std::uint64_t alignment, const std::shared_ptr<const FileBytes>& file) {
    StoredTensor tensor;
    tensor.name = name;
    tensor.file = file;
    const auto extents = number<std::uint32_t>();
    if (extents > extents_max) fail("has " + std::to_string(extents) + " extents; at most 4 are read");
    for (std::uint32_t i = 0; i < extents; ++i) {
      const auto extent = number<std::uint64_t>();
      if (extent > static_cast<std::uint64_t>(std::numeric_limits<std::int64_t>::max())) {
        fail("has an extent of " + std::to_string(extent));
      }
      tensor.shape.insert(tensor.shape.begin(), static_cast<std::int64_t>(extent));  // innermost first in the file
    }
    const GgufTensorType& type = tensor_type();
    tensor.type_name = type.name;
    tensor.format = type.format;
    tensor.unpacking = type.unpacking;
    const std::uint64_t row = tensor.shape.empty() ? 1 : static_cast<std::uint64_t>(tensor.shape.back());
    if (row % type.block_inputs != 0) {
      fail("has rows of " + std::to_string(row) + " values, no multiple of the " + std::to_string(type.block_inputs) +
           " of a block of " + type.name);
    }
    const auto count = elements(tensor.shape);
    if (!count || __builtin_mul_overflow(*count / type.block_inputs, type.block_bytes, &tensor.bytes) ||
        tensor.bytes > static_cast<std::uint64_t>(std::numeric_limits<std::int64_t>::max())) {
      fail("has the shape " + shown(tensor.shape) + ", more elements than can be counted");
    }
    tensor.offset = number<std::uint64_t>();
    if (tensor.offset % alignment != 0) {
      fail("begins at byte " + std::to_string(tensor.offset) + " of the data, which is not aligned to " +
           std::to_string(alignment));
    }
    if (tensor.offset > file_.size()) {
      fail("begins at byte " + std::to_string(tensor.offset) + " of the data, beyond the file's " +
           std::to_string(file_.size()) + "; damaged or cut short, fetch the file again");
    }
    return tensor;
  }

  void refuse_overlaps(const std::map<std::string, StoredTensor>& tensors) {
    std::vector<std::pair<const std::string*, const StoredTensor*>> order;
    for (const auto& [name, tensor] : tensors) {
      if (tensor.bytes > 0) order.emplace_back(&name, &tensor);
    }
    std::ranges::sort(order, {}, [](const auto& item) { return item.second->offset; });
    for (std::size_t i = 1; i < order.size(); ++i) {
      const auto& [name, tensor] = order[i];
      const auto& [name_before, before] = order[i - 1];
      if (tensor->offset >= before->offset + before->bytes) continue;
      place_ = "tensor " + in_quotes(*name);
      fail("overlaps tensor " + in_quotes(*name_before) + "; the file is damaged, fetch it again");
    }
  }

  const FileBytes& file_;
  std::string place_;
  std::uint64_t at_ = 0;
  std::uint64_t end_;
  std::vector<char> buffer_;
  std::uint64_t buffer_at_ = 0;  // offset of the buffer in the file
  std::uint64_t tensors_ = 0;
  std::uint64_t keys_ = 0;
};

[[noreturn]] void fail_field(const std::filesystem::path& file, const std::string& key, const std::string& what) {
  throw Error(file.string() + ": field " + key + ": " + what);
}

std::optional<std::int64_t> integer_of(const GgufValue& value) {
  if (const auto* wide = std::get_if<std::int64_t>(&value)) return *wide;
  if (const auto* wide = std::get_if<std::uint64_t>(&value); wide && std::in_range<std::int64_t>(*wide)) {
    return static_cast<std::int64_t>(*wide);
  }
  return std::nullopt;
}

/// Returns an integer of the metadata, which must be in [least, most] when present.
std::optional<std::uint64_t> bounded(const std::filesystem::path& file, const GgufHeader::Fields& fields,
                                     const std::string& key, std::uint64_t min, std::uint64_t max) {
  const auto found = fields.find(key);
  if (found == fields.end()) return std::nullopt;
  const auto value = integer_of(found->second.value);
  if (!value || *value < 0 || static_cast<std::uint64_t>(*value) < min || static_cast<std::uint64_t>(*value) > max) {
    fail_field(file, key,
               "must be an integer between " + std::to_string(min) + " and " + std::to_string(max) +
                   (value ? ", but is " + std::to_string(*value) : ""));
  }
  return static_cast<std::uint64_t>(*value);
}

std::uint64_t alignment_of(const std::filesystem::path& file, const GgufHeader::Fields& fields) {
  const std::string key = "general.alignment";
  const std::uint64_t alignment = bounded(file, fields, key, 1, alignment_max).value_or(gguf_default_alignment);
  if (!std::has_single_bit(alignment)) {
    fail_field(file, key, "must be a power of two, but is " + std::to_string(alignment));
  }
  return alignment;
}

std::string five_digits(std::uint64_t number) {
  const std::string digits = std::to_string(number);
  return std::string(digits.size() < 5 ? 5 - digits.size() : 0, '0') + digits;
}

/// Returns the end of the file name of part `number`, counted from 1, of `count`.
std::string part_ending(std::uint64_t number, std::uint64_t count) {
  return "-" + five_digits(number) + "-of-" + five_digits(count) + ".gguf";
}

/// The metadata of a file about its split.
struct Split {
  std::uint64_t number = 0;  // from 0 on
  std::uint64_t count = 1;
  std::optional<std::uint64_t> tensors;  // in all parts
};

Split split_of(const std::filesystem::path& file, const GgufHeader::Fields& fields) {
  Split split;
  split.count = std::max<std::uint64_t>(1, bounded(file, fields, "split.count", 0, parts_max).value_or(1));
  split.number = bounded(file, fields, "split.no", 0, split.count - 1).value_or(0);
  split.tensors = bounded(file, fields, "split.tensors.count", 0, std::numeric_limits<std::int64_t>::max());
  return split;
}

}  // namespace

GgufMetadata read_gguf_metadata(const std::filesystem::path& file) {
  const FileBytes bytes(file);
  GgufMetadata metadata;
  for (auto& [key, field] : GgufHeader(bytes).fields()) metadata.emplace(key, std::move(field.value));
  return metadata;
}

Gguf::Gguf(const std::filesystem::path& file) : file_(file), bytes_(std::make_shared<FileBytes>(file)) {
  GgufHeader header(*bytes_);
  GgufHeader::Fields fields = header.fields();
  const Split split = split_of(file, fields);
  tensors_ = header.tensors(alignment_of(file, fields), bytes_);
  for (auto& [key, field] : fields) {
    places_.emplace(key, Place{field.offset, field.bytes});
    metadata_.emplace(key, std::move(field.value));
  }
  if (split.count == 1) return;

  const std::string name = file.filename().string();
  const std::string ending = part_ending(split.number + 1, split.count);
  if (!name.ends_with(ending)) {
    throw Error(file.string() + ": is part " + std::to_string(split.number + 1) + " of " + std::to_string(split.count) +
                " of a split, so its name must end in " + ending);
  }
  const std::string stem = name.substr(0, name.size() - ending.size());
  if (split.number != 0) {
    throw Error(file.string() + ": is part " + std::to_string(split.number + 1) + " of " + std::to_string(split.count) +
                " of a split; open the first, " + stem + part_ending(1, split.count));
  }
  for (std::uint64_t number = 1; number < split.count; ++number) {
    const std::filesystem::path part = file.parent_path() / (stem + part_ending(number + 1, split.count));
    if (!is_present(part)) {
      throw Error(part.string() + ": is missing, part " + std::to_string(number + 1) + " of " +
                  std::to_string(split.count) + " of a split; fetch it");
    }
    const auto bytes = std::make_shared<FileBytes>(part);
    GgufHeader part_header(*bytes);
    const GgufHeader::Fields part_fields = part_header.fields();
    const Split found = split_of(part, part_fields);
    if (found.number != number || found.count != split.count) {
      throw Error(part.string() + ": states that it is part " + std::to_string(found.number + 1) + " of " +
                  std::to_string(found.count) + ", unlike its name and the first part; fetch all parts again");
    }
    if (found.tensors && split.tensors && *found.tensors != *split.tensors) {
      fail_field(part, "split.tensors.count", "is not that of the first part; fetch all parts again");
    }
    for (auto& [tensor, stored] : part_header.tensors(alignment_of(part, part_fields), bytes)) {
      const auto [place, is_new] = tensors_.emplace(tensor, std::move(stored));
      if (!is_new) {
        throw Error(part.string() + ": tensor " + in_quotes(tensor) + ": is also in " +
                    place->second.file->file().string() + "; remove it from one of the two files");
      }
    }
  }
  if (split.tensors && *split.tensors != tensors_.size()) {
    fail("split.tensors.count", "is " + std::to_string(*split.tensors) + ", but the parts hold " +
                                    std::to_string(tensors_.size()) + " tensors; fetch all parts again");
  }
}

void Gguf::fail(const std::string& key, const std::string& what) const { fail_field(file_, key, what); }

const std::string* Gguf::find_text(const std::string& key) const {
  const auto found = metadata_.find(key);
  if (found == metadata_.end()) return nullptr;
  const auto* text = std::get_if<std::string>(&found->second);
  if (text == nullptr) fail(key, "must be a string");
  if (!utf8::is_valid(*text)) fail(key, "is not UTF-8; the file is damaged, fetch it again");
  return text;
}

std::optional<std::int64_t> Gguf::find_integer(const std::string& key) const {
  const auto found = metadata_.find(key);
  if (found == metadata_.end()) return std::nullopt;
  const auto value = integer_of(found->second);
  if (!value) fail(key, "must be one integer below 2^63");
  return value;
}

std::optional<double> Gguf::find_number(const std::string& key) const {
  const auto found = metadata_.find(key);
  if (found == metadata_.end()) return std::nullopt;
  if (const auto* number = std::get_if<double>(&found->second)) return *number;
  if (const auto value = integer_of(found->second)) return static_cast<double>(*value);
  fail(key, "must be one number");
}

std::string Gguf::stored_value(const std::string& key) const {
  const auto found = places_.find(key);
  if (found == places_.end()) fail(key, "is missing");
  std::string bytes(found->second.bytes, '\0');
  bytes_->read(found->second.offset, bytes.size(), bytes.data());
  return bytes;
}

}  // namespace draftproof
