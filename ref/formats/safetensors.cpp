// SPDX-License-Identifier: MIT
#include "ref/formats/safetensors.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <bit>
#include <cerrno>
#include <cstring>
#include <limits>
#include <optional>
#include <string_view>
#include <system_error>
#include <utility>

#include "ref/base/error.h"
#include "ref/formats/json.h"
#include "ref/formats/printable.h"

namespace draftproof {

namespace {

static_assert(std::endian::native == std::endian::little, "stored elements are little-endian and read as they are");

constexpr std::size_t length_bytes = 8;
constexpr std::uint64_t header_bytes_max = 100'000'000;  // the limit of Hugging Face's own reader
constexpr std::int64_t int64_max = std::numeric_limits<std::int64_t>::max();

TensorType type_of(std::string_view name) {
  if (name == "F32") return TensorType::f32;
  if (name == "F16") return TensorType::f16;
  if (name == "BF16") return TensorType::bf16;
  return TensorType::other;
}

/// Of a type the format defines with whole bytes; nothing for types younger than this list.
std::optional<std::uint64_t> element_bytes(std::string_view name) {
  constexpr std::pair<std::string_view, std::uint64_t> sizes[] = {
      {"F64", 8}, {"F32", 4},  {"F16", 2}, {"BF16", 2}, {"I64", 8},     {"U64", 8},     {"I32", 4}, {"U32", 4},
      {"I16", 2}, {"U16", 2},  {"I8", 1},  {"U8", 1},   {"BOOL", 1},    {"C64", 8},     {"F8_E4M3", 1},
      {"F8_E5M2", 1}, {"F8_E8M0", 1}};
  for (const auto& [known, bytes] : sizes) {
    if (known == name) return bytes;
  }
  return std::nullopt;
}

std::string shown(const std::vector<std::int64_t>& shape) {
  std::string text = "[";
  for (std::size_t i = 0; i < shape.size(); ++i) text += (i ? ", " : "") + std::to_string(shape[i]);
  return text + "]";
}

struct Mapping {
  void* address = nullptr;
  std::size_t bytes = 0;
};

Mapping map_file(const std::filesystem::path& file) {
  const int descriptor = ::open(file.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK);
  if (descriptor < 0) {
    throw Error(file.string() + ": cannot be opened: " + std::generic_category().message(errno));
  }
  struct stat status {};
  const bool is_file = ::fstat(descriptor, &status) == 0 && S_ISREG(status.st_mode);
  const auto bytes = is_file ? static_cast<std::size_t>(status.st_size) : 0;
  void* const address =
      bytes < length_bytes ? MAP_FAILED : ::mmap(nullptr, bytes, PROT_READ, MAP_PRIVATE, descriptor, 0);
  const int mmap_error = errno;
  ::close(descriptor);
  if (!is_file) throw Error(file.string() + ": not a file");
  if (bytes < length_bytes) {
    throw Error(file.string() + ": " + std::to_string(bytes) + " bytes cannot be a safetensors file; fetch it again");
  }
  if (address == MAP_FAILED) {
    throw Error(file.string() + ": cannot be mapped: " + std::generic_category().message(mmap_error));
  }
  return {address, bytes};
}

/// One entry of the header, with every number checked against the `data_bytes` that follow the header.
TensorView read_entry(const Json& entry, const std::byte* data, std::size_t data_bytes) {
  TensorView tensor;
  tensor.type_name = entry.at("dtype").string();
  tensor.type = type_of(tensor.type_name);
  tensor.shape = entry.at("shape").integers(0, int64_max);
  const Json offsets = entry.at("data_offsets");
  if (offsets.size() != 2) offsets.fail("must be [begin, end]");
  const auto begin = static_cast<std::uint64_t>(offsets[0].integer(0, int64_max));
  const auto end = static_cast<std::uint64_t>(offsets[1].integer(0, int64_max));
  if (begin > end || end > data_bytes) {
    offsets.fail("bytes " + std::to_string(begin) + " to " + std::to_string(end) + " are not inside the file's " +
                 std::to_string(data_bytes) + " bytes of data; the file is damaged or cut short, fetch it again");
  }
  tensor.data = data + begin;
  tensor.bytes = end - begin;

  std::uint64_t count = 1;
  for (const std::int64_t extent : tensor.shape) {
    if (__builtin_mul_overflow(count, static_cast<std::uint64_t>(extent), &count)) {
      entry.fail("shape " + shown(tensor.shape) + " has more elements than can be counted");
    }
  }
  if (const auto size = element_bytes(tensor.type_name)) {
    std::uint64_t expected = 0;
    if (__builtin_mul_overflow(count, *size, &expected) || expected != tensor.bytes) {
      entry.fail("shape " + shown(tensor.shape) + " of " + tensor.type_name + " does not fill bytes " +
                 std::to_string(begin) + " to " + std::to_string(end));
    }
  }
  return tensor;
}

/// The format allows no byte of data that belongs to no tensor or to two.
void check_coverage(const std::filesystem::path& file, const std::map<std::string, TensorView>& tensors,
                    const std::byte* data, std::size_t data_bytes) {
  std::vector<std::pair<const std::string*, const TensorView*>> order;
  for (const auto& [name, tensor] : tensors) order.emplace_back(&name, &tensor);
  std::ranges::sort(order, {}, [](const auto& item) { return std::pair(item.second->data, item.second->bytes); });
  const std::byte* covered = data;
  for (const auto& [name, tensor] : order) {
    if (tensor->data != covered) {
      throw Error(file.string() + ": tensor " + in_quotes(*name) +
                  (tensor->data < covered ? " overlaps the tensor before it" : " leaves a gap before it") +
                  " in the data; the file is damaged, fetch it again");
    }
    covered += tensor->bytes;
  }
  if (covered != data + data_bytes) {
    throw Error(file.string() + ": " + std::to_string(data + data_bytes - covered) +
                " bytes after the last tensor belong to none; the file is damaged, fetch it again");
  }
}

bool any_not_finite(const std::byte* data, std::size_t count, TensorType type) {
  // Not finite means: every exponent bit is set. No branch inside, so that the compiler makes vectors of it.
  if (type == TensorType::f32) {
    std::uint32_t found = 0;
    for (std::size_t i = 0; i < count; ++i) {
      std::uint32_t bits;
      std::memcpy(&bits, data + 4 * i, 4);
      found |= (bits & 0x7F800000U) == 0x7F800000U;
    }
    return found != 0;
  }
  const auto exponent = static_cast<std::uint16_t>(type == TensorType::f16 ? 0x7C00U : 0x7F80U);
  std::uint16_t found = 0;
  for (std::size_t i = 0; i < count; ++i) {
    std::uint16_t bits;
    std::memcpy(&bits, data + 2 * i, 2);
    found |= (bits & exponent) == exponent;
  }
  return found != 0;
}

float element(const TensorView& tensor, std::size_t index) {
  if (tensor.type == TensorType::f32) {
    float value;
    std::memcpy(&value, tensor.data + 4 * index, 4);
    return value;
  }
  std::uint16_t bits;
  std::memcpy(&bits, tensor.data + 2 * index, 2);
  return tensor.type == TensorType::f16 ? widen_f16(bits) : widen_bf16(bits);
}

/// A floating-point tensor's index of its first element that is not finite.
std::optional<std::size_t> first_not_finite(const TensorView& tensor) {
  constexpr std::size_t block = 1 << 14;
  const std::size_t size = tensor.type == TensorType::f32 ? 4 : 2;
  const std::size_t count = tensor.bytes / size;
  for (std::size_t begin = 0; begin < count; begin += block) {
    const std::size_t end = std::min(count, begin + block);
    if (!any_not_finite(tensor.data + begin * size, end - begin, tensor.type)) continue;
    for (std::size_t i = begin; i < end; ++i) {
      if (any_not_finite(tensor.data + i * size, 1, tensor.type)) return i;
    }
  }
  return std::nullopt;
}

/// The shard files an index names, in name order; each a plain file name, so that none can lead out of the folder.
std::map<std::string, std::vector<std::string>> tensors_by_shard(const std::filesystem::path& index_file) {
  std::map<std::string, std::vector<std::string>> shards;
  const Json map = Json::read(index_file).at("weight_map");
  for (const std::string& tensor : map.fields()) {
    const Json entry = map.at(tensor);
    const std::string& shard = entry.string();
    if (shard.empty() || shard == "." || shard == ".." || shard.find('/') != std::string::npos ||
        shard.find('\0') != std::string::npos) {
      entry.fail("must name a file in the same folder, but is " + in_quotes(shard));
    }
    shards[shard].push_back(tensor);
  }
  if (shards.empty()) map.fail("names no tensor");
  return shards;
}

[[noreturn]] void fail_without_weights(const std::filesystem::path& folder) {
  std::string found;
  std::error_code error;
  std::vector<std::string> names;
  for (const auto& entry : std::filesystem::directory_iterator(folder, error)) {
    names.push_back(entry.path().filename().string());
  }
  std::ranges::sort(names);
  for (const std::string& name : names) {
    const bool weights = name.ends_with(".safetensors") || name.ends_with(".gguf") || name.ends_with(".bin") ||
                         name.ends_with(".pth") || name.ends_with(".pt");
    if (weights) found += (found.empty() ? "" : ", ") + in_quotes(name);
  }
  std::string sentence = folder.string() + ": has neither model.safetensors nor model.safetensors.index.json";
  if (!found.empty()) {
    sentence += "; it has " + printable(found, 400) + ", but only those two, in the safetensors format, are read";
  }
  throw Error(sentence);
}

}  // namespace

SafeTensors::SafeTensors(const std::filesystem::path& file) : file_(file) {
  const Mapping mapping = map_file(file);
  mapping_ = mapping.address;
  mapped_bytes_ = mapping.bytes;
  try {
    read_header();
  } catch (...) {
    ::munmap(mapping_, mapped_bytes_);
    throw;
  }
}

void SafeTensors::read_header() {
  const auto* const start = static_cast<const std::byte*>(mapping_);
  std::uint64_t header_bytes = 0;
  std::memcpy(&header_bytes, start, length_bytes);
  if (header_bytes == 0 || header_bytes > header_bytes_max || header_bytes > mapped_bytes_ - length_bytes) {
    throw Error(file_.string() + ": says its header has " + std::to_string(header_bytes) + " bytes, in a file of " +
                std::to_string(mapped_bytes_) + "; not a safetensors file or cut short, fetch it again");
  }
  const std::string_view text(reinterpret_cast<const char*>(start + length_bytes), header_bytes);
  const std::byte* const data = start + length_bytes + header_bytes;
  const std::size_t data_bytes = mapped_bytes_ - length_bytes - header_bytes;

  const Json header = Json::parse(text, file_.string() + ": header");
  for (const std::string& name : header.fields()) {
    const Json entry = header.at(name);
    if (name == "__metadata__") {
      for (const std::string& field : entry.fields()) metadata_[field] = entry.at(field).string();
    } else {
      tensors_.emplace(name, read_entry(entry, data, data_bytes));
    }
  }
  check_coverage(file_, tensors_, data, data_bytes);
}

SafeTensors::~SafeTensors() {
  if (mapping_ != nullptr) ::munmap(mapping_, mapped_bytes_);
}

SafeTensors::SafeTensors(SafeTensors&& other) noexcept
    : file_(std::move(other.file_)),
      mapping_(std::exchange(other.mapping_, nullptr)),
      mapped_bytes_(std::exchange(other.mapped_bytes_, 0)),
      tensors_(std::move(other.tensors_)),
      metadata_(std::move(other.metadata_)) {}

SafeTensors& SafeTensors::operator=(SafeTensors&& other) noexcept {
  // The old mapping leaves with `other`, whose tensors still point into it.
  std::swap(file_, other.file_);
  std::swap(mapping_, other.mapping_);
  std::swap(mapped_bytes_, other.mapped_bytes_);
  std::swap(tensors_, other.tensors_);
  std::swap(metadata_, other.metadata_);
  return *this;
}

Checkpoint::Checkpoint(const std::filesystem::path& folder) : folder_(folder) {
  std::error_code error;
  if (!std::filesystem::is_directory(folder, error)) throw Error(folder.string() + ": no such folder");
  const std::filesystem::path single = folder / "model.safetensors";
  const std::filesystem::path index = folder / "model.safetensors.index.json";
  std::map<std::string, std::vector<std::string>> promised;
  if (std::filesystem::exists(single, error)) {
    promised[single.filename().string()] = {};
  } else if (std::filesystem::exists(index, error)) {
    promised = tensors_by_shard(index);
  } else {
    fail_without_weights(folder);
  }

  shards_.reserve(promised.size());
  for (const auto& [shard, names] : promised) {
    if (!std::filesystem::exists(folder / shard, error)) {
      throw Error(index.string() + ": shard " + in_quotes(shard) + " is not in the folder; fetch it");
    }
    const SafeTensors& file = shards_.emplace_back(folder / shard);
    for (const std::string& name : names) {
      if (!file.tensors().contains(name)) {
        throw Error(file.file().string() + ": has no tensor " + in_quotes(name) + ", which the index says it has");
      }
    }
    for (const auto& [name, tensor] : file.tensors()) {
      if (!tensors_.emplace(name, &tensor).second) {
        throw Error(file.file().string() + ": tensor " + in_quotes(name) + " is also in " +
                    file_of_.at(name).string() + "; which one counts cannot be known");
      }
      file_of_.emplace(name, file.file());
    }
  }
}

const TensorView& Checkpoint::weight(const std::string& name, const std::vector<std::int64_t>& shape) const {
  const auto found = tensors_.find(name);
  if (found == tensors_.end()) {
    throw Error(folder_.string() + ": the weights have no tensor " + in_quotes(name) + " of shape " + shown(shape));
  }
  const TensorView& tensor = *found->second;
  const std::string place = file_of_.at(name).string() + ": tensor " + in_quotes(name);
  if (tensor.type == TensorType::other) {
    throw Error(place + " has type " + in_quotes(tensor.type_name) +
                ", but F32, F16 or BF16 is needed; convert the checkpoint");
  }
  if (tensor.shape != shape) {
    throw Error(place + " has shape " + shown(tensor.shape) + ", but the configuration asks for " + shown(shape));
  }
  if (const auto index = first_not_finite(tensor)) {
    throw Error(place + " has " + std::to_string(element(tensor, *index)) + " as element " + std::to_string(*index) +
                "; weights must be finite");
  }
  return tensor;
}

std::vector<float> Checkpoint::floats(const std::string& name, const std::vector<std::int64_t>& shape) const {
  const TensorView& tensor = weight(name, shape);
  std::vector<float> values(tensor.bytes / (tensor.type == TensorType::f32 ? 4 : 2));
  for (std::size_t i = 0; i < values.size(); ++i) values[i] = element(tensor, i);
  return values;
}

std::uint64_t Checkpoint::bytes() const noexcept {
  std::uint64_t sum = 0;
  for (const auto& [name, tensor] : tensors_) sum += tensor->bytes;
  return sum;
}

float widen_bf16(std::uint16_t bits) noexcept { return std::bit_cast<float>(std::uint32_t{bits} << 16); }

float widen_f16(std::uint16_t bits) noexcept {
  const std::uint32_t sign = std::uint32_t{bits & 0x8000U} << 16;
  const std::uint32_t magnitude = bits & 0x7FFFU;
  if (magnitude >= 0x7C00U) return std::bit_cast<float>(sign | 0x7F800000U | (magnitude & 0x3FFU) << 13);
  if (magnitude >= 0x0400U) return std::bit_cast<float>(sign | ((magnitude << 13) + (112U << 23)));
  const float value = static_cast<float>(magnitude) * 0x1p-24F;  // subnormal: exact, since magnitude has 10 bits
  return std::bit_cast<float>(sign | std::bit_cast<std::uint32_t>(value));
}

}  // namespace draftproof
