// SPDX-License-Identifier: MIT
#include "ref/formats/checkpoint.h"

#include <algorithm>
#include <limits>
#include <optional>
#include <string_view>
#include <utility>

#include "kernels/formats.h"
#include "ref/base/error.h"
#include "ref/base/presence.h"
#include "ref/base/require.h"
#include "ref/formats/gguf/family.h"
#include "ref/formats/gguf_names.h"
#include "ref/formats/hub_cache.h"
#include "ref/formats/printable.h"
#include "ref/formats/quantized_folder/quantized_matrix.h"
#include "ref/formats/safetensors.h"

namespace draftproof {

/// How the names of a text model's tensors begin in a checkpoint of several modalities, and alone.
struct NestedText {
  std::string_view nested;
  std::string_view alone;
};

namespace {

constexpr NestedText nested_texts[] = {
    {"model.language_model.", "model."}, {"language_model.", ""}, {"backbone.", "model."}};

constexpr std::int64_t head_dim_max = 1 << 20;

/// Returns the shard files that an index lists, sorted. Each must be a plain file name, so that none can point outside
/// of the folder.
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
  std::string message = folder.string() + ": has neither model.safetensors nor model.safetensors.index.json";
  if (std::ranges::find(names, "medusa_lm_head.pt") != names.end()) {
    throw Error(
        message + "; it has 'medusa_lm_head.pt', a pickle, which is not read; in that folder, make " + medusa_file +
        " of it by: python -c \"import torch, safetensors.torch as s; s.save_file({k: v.contiguous().clone() for "
        "k, v in torch.load('medusa_lm_head.pt', map_location='cpu', weights_only=True).items()}, '" +
        medusa_file + "')\"");
  }
  if (!found.empty()) {
    message += "; it has " + printable(found, 400) + ", but of a folder only those two are read";
    if (found.find(".gguf'") != std::string::npos) message += "; open a .gguf file by its own path";
  }
  throw Error(message);
}

/// Returns how this name begins; nullptr when it is not of a nested text model.
const NestedText* nested_text(std::string_view name) {
  const auto* const found =
      std::ranges::find_if(nested_texts, [&](const NestedText& text) { return name.starts_with(text.nested); });
  return found == std::end(nested_texts) ? nullptr : found;
}

/// Reads and unpacks values [begin, begin + count), which are whole quantization blocks of the file.
void unpack_values(const StoredTensor& tensor, std::uint64_t begin, std::uint64_t count, std::byte* to) {
  const Unpacking& unpacking = *tensor.unpacking;
  std::vector<std::uint8_t> packed(count / unpacking.block_inputs * unpacking.block_bytes);
  tensor.file->read(tensor.offset + begin / unpacking.block_inputs * unpacking.block_bytes, packed.size(),
                    packed.data());
  auto* at = reinterpret_cast<std::uint8_t*>(to);
  for (std::size_t from = 0; from < packed.size(); from += unpacking.block_bytes) {
    unpack_block(unpacking, packed.data() + from, at);
    at += row_bytes(unpacking.format, static_cast<int>(unpacking.block_inputs));
  }
}

/// Reads and checks values [begin, begin + count) in the tensor's format; they are whole quantization blocks of the
/// file, or whole rows of a matrix that is put together.
void read_values(const StoredTensor& tensor, std::uint64_t begin, std::uint64_t count, std::byte* to) {
  const FormatTraits& block = traits(*tensor.format);
  const auto block_inputs = static_cast<std::uint64_t>(block.block_inputs);
  const auto block_bytes = static_cast<std::uint64_t>(block.block_bytes);
  if (tensor.quantized != nullptr) {
    const std::uint64_t width = tensor.quantized->inputs();
    read_quantized_rows(*tensor.quantized, begin / width, count / width, to);
  } else if (tensor.unpacking != nullptr) {
    unpack_values(tensor, begin, count, to);
  } else {
    tensor.file->read(tensor.offset + begin / block_inputs * block_bytes, count / block_inputs * block_bytes, to);
  }
  const std::uint64_t bad = first_not_finite(*tensor.format, to, count);
  if (bad == count) return;
  std::string what = "a scale that is not finite";
  if (block_inputs == 1) {
    float value = 0;
    dequantize_row(*tensor.format, to + bad * block_bytes, 1, &value);
    what = std::to_string(value);
  }
  throw Error(where(tensor) + " has " + what + " as element " + std::to_string(begin + bad) +
              "; weights must be finite");
}

/// Returns the index of the row of the file that holds row `row` of the tensor.
std::uint64_t stored_row(const StoredTensor& tensor, std::uint64_t row) {
  if (tensor.rows_per_head == 0) return row;
  const auto rows = static_cast<std::uint64_t>(tensor.rows_per_head);
  const std::uint64_t in_head = row % rows;
  return row - in_head + in_head % (rows / 2) * 2 + in_head / (rows / 2);
}

/// Whether both have equal types, shapes and bytes.
bool same_bytes(const StoredTensor& a, const StoredTensor& b) {
  if (a.type_name != b.type_name || a.shape != b.shape || a.bytes != b.bytes || a.rows_per_head != b.rows_per_head) {
    return false;
  }
  constexpr std::uint64_t piece = std::uint64_t{1} << 20;
  std::string left;
  std::string right;
  for (std::uint64_t begin = 0; begin < a.bytes; begin += piece) {
    const std::uint64_t size = std::min(piece, a.bytes - begin);
    left.resize(size);
    right.resize(size);
    a.file->read(a.offset + begin, size, left.data());
    b.file->read(b.offset + begin, size, right.data());
    if (left != right) return false;
  }
  return true;
}

/// GGUF drops leading dimensions of 1: a matrix of one row is a vector there.
std::vector<std::int64_t> without_leading_ones(std::vector<std::int64_t> shape) {
  const auto first = std::ranges::find_if(shape, [](std::int64_t extent) { return extent != 1; });
  shape.erase(shape.begin(), first);
  return shape;
}

}  // namespace

std::filesystem::path checkpoint_file(const std::filesystem::path& named) {
  const std::filesystem::path path = here_or_in_hub_cache(named);
  if (!is_present(path)) {
    const std::string name = path.generic_string();
    const auto of_hub =
        path.extension() != ".gguf" || name.find(':') != std::string::npos ? read_hub_name(name) : std::nullopt;
    if (!of_hub || is_present(path.parent_path())) throw Error(name + ": no such folder or file");
    throw Error(name +
                ": no such folder or file, and not in the cache of Hugging Face; get it with: draftproof fetch " +
                name + " (or: hf download " + of_hub->repository() + (of_hub->file.empty() ? "" : " " + of_hub->file) +
                "), then give this command again");
  }
  if (!std::filesystem::is_directory(path)) return path;
  std::vector<std::filesystem::path> found;
  std::error_code error;  // what cannot be listed can still be opened by name
  std::filesystem::directory_iterator entry(path, error);
  for (; !error && entry != std::filesystem::directory_iterator(); entry.increment(error)) {
    if (entry->path().extension() == ".safetensors") return path;
    if (entry->path().extension() == ".gguf") found.push_back(entry->path());
  }
  return found.size() == 1 ? found[0] : path;
}

Checkpoint::Checkpoint(const std::filesystem::path& path) : path_(checkpoint_file(path)) {
  if (std::filesystem::is_directory(path_)) {
    open_folder();
  } else if (std::filesystem::is_regular_file(path_)) {
    open_gguf();
  } else {
    throw Error(path_.string() + ": is neither a folder nor a file");
  }
}

Checkpoint Checkpoint::of_config(const std::filesystem::path& path) {
  const bool folder = std::filesystem::is_directory(path);
  Checkpoint alone;
  alone.path_ = !folder && path.filename() == "config.json" ? path.parent_path() : path;
  alone.has_weights_ = false;
  alone.config_ = Json::read(folder ? path / "config.json" : path);
  return alone;
}

void Checkpoint::open_folder() {
  const std::filesystem::path single = path_ / "model.safetensors";
  const std::filesystem::path index = path_ / "model.safetensors.index.json";
  std::map<std::string, std::vector<std::string>> promised;
  if (is_present(single)) {
    promised[single.filename().string()] = {};
  } else if (is_present(index)) {
    promised = tensors_by_shard(index);
  } else if (is_present(path_ / medusa_file)) {
    promised[medusa_file] = {};
  } else {
    fail_without_weights(path_);
  }

  for (const auto& [shard, names] : promised) {
    if (!is_present(path_ / shard)) {
      throw Error(index.string() + ": shard " + in_quotes(shard) + " is not in the folder; fetch it");
    }
    const SafeTensors file(path_ / shard);
    for (const std::string& name : names) {
      if (!file.tensors().contains(name)) {
        throw Error(file.file().string() + ": has no tensor " + in_quotes(name) + ", which the index lists");
      }
    }
    for (const auto& [name, tensor] : file.tensors()) {
      const NestedText* const text = nested_text(name);
      if (text != nullptr) nested_ = text;
      const auto [place, is_new] = tensors_.emplace(
          text == nullptr ? name : std::string(text->alone) + name.substr(text->nested.size()), tensor);
      if (!is_new) {
        throw Error(file.file().string() + ": tensor " + in_quotes(name) + " is also in " +
                    place->second.file->file().string() + "; remove it from one of the two files");
      }
    }
  }
  if (is_present(path_ / "config.json")) quantization_ = read_quantization(path_, config(), tensors_);
}

void Checkpoint::open_gguf() {
  if (path_.extension() == ".safetensors") {
    throw Error(path_.string() + ": open its folder instead, which has config.json as well");
  }
  const Gguf file(path_);
  if (file.tensors().empty()) {
    throw Error(path_.string() + ": has no tensors; it holds a vocabulary or other metadata, and no model");
  }
  const GgufFamily& family = gguf_family_of(file);
  const GgufNames& names = family.names;
  gguf_names_ = &names;
  config_ = family.read(file);
  metadata_ = file.metadata();
  for (const auto& [name, stored] : file.tensors()) {
    const GgufTranslation translation = translated(names, name);
    StoredTensor tensor = stored;
    if (names.pairs_rows && translation.in_heads) {
      tensor.rows_per_head = static_cast<int>(config_->at("head_dim").integer(1, head_dim_max));
      if (tensor.rows_per_head % 2 != 0 || tensor.shape.empty() || tensor.shape[0] % tensor.rows_per_head != 0) {
        throw Error(where(tensor) + " has shape " + shown(tensor.shape) + ", whose rows are not heads of " +
                    std::to_string(tensor.rows_per_head) + " rows in pairs");
      }
    }
    if (!tensors_.emplace(translation.name.empty() ? name : translation.name, std::move(tensor)).second) {
      throw Error(where(stored) + " is " + in_quotes(translation.name) + ", which exists already");
    }
  }
}

std::string Checkpoint::name_in_file(const std::string& name) const {
  if (const auto found = tensors_.find(name); found != tensors_.end()) return found->second.name;
  if (gguf_names_ != nullptr) return name_in_gguf(*gguf_names_, name);
  if (nested_ == nullptr || !name.starts_with(nested_->alone)) return name;
  return std::string(nested_->nested) + name.substr(nested_->alone.size());
}

const Json& Checkpoint::config() const {
  if (!config_) config_ = Json::read(path_ / "config.json");
  return *config_;
}

std::string Checkpoint::expected(const std::string& name, const std::vector<std::int64_t>& shape) const {
  return in_quotes(name_in_file(name)) + " of shape " + shown(shape);
}

bool Checkpoint::has_shape(const StoredTensor& tensor, const std::vector<std::int64_t>& shape) const {
  if (gguf_names_ == nullptr) return tensor.shape == shape;
  return without_leading_ones(tensor.shape) == without_leading_ones(shape);
}

bool Checkpoint::has(const std::string& name, const std::vector<std::int64_t>& shape) const {
  const auto found = tensors_.find(name);
  return found != tensors_.end() && found->second.format && has_shape(found->second, shape);
}

const StoredTensor& Checkpoint::find(const std::string& name, const std::vector<std::int64_t>& shape) const {
  const auto found = tensors_.find(name);
  if (found == tensors_.end()) {
    throw Error(path_.string() + ": the weights have no tensor " + expected(name, shape));
  }
  const StoredTensor& tensor = found->second;
  if (!tensor.format) {
    throw Error(where(tensor) + " has type " + in_quotes(tensor.type_name) +
                ", but F32, F16, BF16 or a block format is needed; convert the checkpoint");
  }
  if (!has_shape(tensor, shape)) {
    throw Error(where(tensor) + " has shape " + shown(tensor.shape) + ", but the configuration asks for " +
                shown(shape));
  }
  return tensor;
}

WeightSource Checkpoint::weight(const std::string& name, int outputs, int inputs) const {
  return weight(name, {outputs, inputs});
}

WeightSource Checkpoint::weight(const std::string& name, const std::vector<std::int64_t>& shape) const {
  const StoredTensor& tensor = find(name, shape);
  const auto inputs = static_cast<int>(shape.back());
  const std::uint64_t rows_in_all = *elements(shape) / static_cast<std::uint64_t>(std::max(inputs, 1));
  if (rows_in_all > std::numeric_limits<int>::max()) {
    throw Error(where(tensor) + " has more rows than any real model's");
  }
  const auto outputs = static_cast<int>(rows_in_all);
  WeightSource source = {*tensor.format, outputs, inputs, {}, {}};
  source.read = [tensor, inputs](int first, int rows, void* to) {
    const auto width = static_cast<std::uint64_t>(inputs);
    const auto row = static_cast<std::uint64_t>(first);
    auto* at = static_cast<std::byte*>(to);
    if (tensor.rows_per_head == 0) {
      read_values(tensor, row * width, static_cast<std::uint64_t>(rows) * width, at);
      return;
    }
    for (std::uint64_t r = row; r < row + static_cast<std::uint64_t>(rows); ++r) {
      read_values(tensor, stored_row(tensor, r) * width, width, at);
      at += row_bytes(*tensor.format, inputs);
    }
  };
  if (tensor.quantized != nullptr) {
    source.read_exact = [matrix = tensor.quantized](int first, int rows, float* to) {
      read_exact_values(*matrix, static_cast<std::uint64_t>(first), static_cast<std::uint64_t>(rows), to);
    };
  }
  return source;
}

std::vector<float> Checkpoint::floats(const std::string& name, const std::vector<std::int64_t>& shape) const {
  const StoredTensor& tensor = find(name, shape);
  const std::uint64_t count = *elements(tensor.shape);
  std::vector<float> values(count);
  const std::uint64_t together = tensor.quantized != nullptr
                                     ? tensor.quantized->inputs()
                                     : static_cast<std::uint64_t>(traits(*tensor.format).block_inputs);
  const std::uint64_t piece = std::max<std::uint64_t>(1, (1 << 18) / together) * together;
  std::vector<std::byte> bytes;
  for (std::uint64_t begin = 0; begin < count; begin += piece) {
    const int size = static_cast<int>(std::min(piece, count - begin));
    bytes.resize(row_bytes(*tensor.format, size));
    read_values(tensor, begin, static_cast<std::uint64_t>(size), bytes.data());
    dequantize_row(*tensor.format, bytes.data(), size, values.data() + begin);
  }
  if (tensor.rows_per_head == 0 || count == 0) return values;
  const std::uint64_t width = tensor.shape.size() < 2 ? 1 : static_cast<std::uint64_t>(tensor.shape.back());
  std::vector<float> ordered(count);
  for (std::uint64_t row = 0; row < count / width; ++row) {
    std::copy_n(values.data() + stored_row(tensor, row) * width, width, ordered.data() + row * width);
  }
  return ordered;
}

bool Checkpoint::same(const std::string& one, const std::string& other) const {
  if (!has(one) || !has(other)) return false;
  const StoredTensor& a = tensors_.at(one);
  const StoredTensor& b = tensors_.at(other);
  if (a.quantized == nullptr || b.quantized == nullptr) {
    return a.quantized == b.quantized && same_bytes(a, b);
  }
  return a.shape == b.shape && std::ranges::equal(a.quantized->parts, b.quantized->parts, same_bytes);
}

std::uint64_t Checkpoint::bytes() const noexcept {
  std::uint64_t sum = 0;
  for (const auto& [name, tensor] : tensors_) sum += tensor.bytes;
  return sum;
}

}  // namespace draftproof
