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
#include "ref/formats/safetensors.h"
#include "ref/formats/tensor_values.h"

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
  if (std::ranges::find(names, "adapter_config.json") != names.end()) {
    throw Error(message + "; it is a LoRA adapter: give it to --lora, and the model that it is for as TARGET");
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

/// "model.x" of "model.language_model.x".
std::string name_alone(const std::string& name) {
  const NestedText* const text = nested_text(name);
  return text == nullptr ? name : std::string(text->alone) + name.substr(text->nested.size());
}

/// Returns the rows of a head of attention, of which the files of some families have the two halves interleaved. Throws
/// Error when `tensor` has no such heads.
int rows_per_head_of(const StoredTensor& tensor, const Json& config) {
  const Json text = config.find("text_config").value_or(config);
  const auto head_dim = text.find("head_dim");
  const std::int64_t rows = head_dim ? head_dim->integer(1, head_dim_max)
                                     : text.at("hidden_size").integer(1, head_dim_max) /
                                           text.at("num_attention_heads").integer(1, head_dim_max);
  if (rows == 0 || rows % 2 != 0 || tensor.shape.empty() || tensor.shape[0] % rows != 0) {
    throw Error(where(tensor) + " has shape " + shown(tensor.shape) + ", whose rows are not heads of " +
                std::to_string(rows) + " rows in pairs");
  }
  return static_cast<int>(rows);
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
      const auto [place, is_new] = tensors_.emplace(name_alone(name), tensor);
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
  if (const std::string* const type = file.find_text("general.type"); type != nullptr && *type == "adapter") {
    throw Error(path_.string() + ": is an adapter: give it to --lora, and the model that it is for as TARGET");
  }
  gguf_ = &gguf_family_of(file);
  const GgufNames& names = gguf_->names;
  config_ = gguf_->read(file);
  metadata_ = file.metadata();
  for (const auto& [name, stored] : file.tensors()) {
    const GgufTranslation translation = translated(names, name);
    StoredTensor tensor = stored;
    if (names.pairs_rows && translation.in_heads) tensor.rows_per_head = rows_per_head_of(tensor, *config_);
    if (!tensors_.emplace(translation.name.empty() ? name : translation.name, std::move(tensor)).second) {
      throw Error(where(stored) + " is " + in_quotes(translation.name) + ", which exists already");
    }
  }
}

StoredTensor& Checkpoint::changed_by(const StoredTensor& part, const std::string& name) {
  constexpr const char* head = "lm_head.weight";
  const auto embedding = tensors_.find("model.embed_tokens.weight");
  if (embedding != tensors_.end() && !has(head) && (name == head || name == embedding->first)) {
    const auto tie = config().find("tie_word_embeddings");
    if (!tie || tie->boolean()) tensors_.emplace(head, StoredTensor(embedding->second));
  }
  const auto found = tensors_.find(name);
  if (found == tensors_.end()) {
    throw Error(where(part) + " changes " + in_quotes(name) + ", which " + path_.string() +
                " does not have; give an adapter of this model");
  }
  return found->second;
}

const GgufFamily* Checkpoint::family_for(const LoraAdapter& adapter) const {
  const bool of_gguf = !adapter.architecture().empty();
  const GgufFamily* const family = of_gguf && gguf_ == nullptr ? find_gguf_family(config()) : gguf_;
  if (of_gguf && (family == nullptr || family->architecture != adapter.architecture())) {
    throw Error(adapter.path().string() + ": is an adapter of models of architecture " +
                in_quotes(adapter.architecture()) + ", which " + path_.string() + " is not");
  }
  if (of_gguf != (gguf_ != nullptr) && (family->deals_heads || family->factor != nullptr)) {
    throw Error(adapter.path().string() + ": models like " + path_.string() +
                " have other rows in GGUF files than in folders; give the adapter in the form of the model");
  }
  return family;
}

void Checkpoint::merge(const LoraSource& source) {
  if (!has_weights_) throw Error(path_.string() + ": has no weights that an adapter could be added to");
  const LoraAdapter adapter(source);
  const GgufFamily* const family = family_for(adapter);
  MergedAdapter done = {{adapter.path(), source.scale}, adapter.files()};
  for (const auto& [name, tensor] : adapter.replacements()) {
    StoredTensor& replaced = changed_by(tensor, name_alone(name));
    if (!tensor.format || !has_shape(tensor, replaced.shape)) {
      throw Error(where(tensor) + " has type " + tensor.type_name + " and shape " + shown(tensor.shape) +
                  ", and cannot replace " + in_quotes(replaced.name) + " of shape " + shown(replaced.shape));
    }
    if (gguf_ != nullptr && tensor.shape.size() != 2) {
      throw Error(where(tensor) +
                  " replaces a vector, of which GGUF files may have other numbers; give the model as a folder");
    }
    replaced = tensor;
    ++done.replaced;
  }
  for (const auto& [name, product] : adapter.products()) {
    LoraProduct added = product;
    std::string changed = name_alone(name);
    if (!adapter.architecture().empty()) {
      const GgufTranslation translation = translated(family->names, name);
      if (!translation.name.empty()) changed = translation.name;
      if (family->names.pairs_rows && translation.in_heads) {
        added.left.stored.rows_per_head = rows_per_head_of(added.left.stored, config());
      }
    }
    StoredTensor& tensor = changed_by(product.right.stored, changed);
    const std::optional<Format> stored = tensor.format;
    tensor = merged(tensor, added);
    ++done.matrices;
    if (is_float(*stored)) continue;
    const auto inputs = static_cast<int>(tensor.shape[1]);
    ++done.widened;
    done.bytes_more +=
        static_cast<std::uint64_t>(tensor.shape[0]) * (row_bytes(*tensor.format, inputs) - row_bytes(*stored, inputs));
  }
  adapters_.push_back(std::move(done));
}

std::string Checkpoint::name_in_file(const std::string& name) const {
  if (const auto found = tensors_.find(name); found != tensors_.end()) return found->second.name;
  if (gguf_ != nullptr) return name_in_gguf(gguf_->names, name);
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
  if (gguf_ == nullptr) return tensor.shape == shape;
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
  return weight_of(tensor, static_cast<int>(rows_in_all), inputs);
}

std::vector<float> Checkpoint::floats(const std::string& name, const std::vector<std::int64_t>& shape) const {
  return floats_of(find(name, shape));
}

bool Checkpoint::same(const std::string& one, const std::string& other) const {
  if (!has(one) || !has(other)) return false;
  return same_values(tensors_.at(one), tensors_.at(other));
}

std::uint64_t Checkpoint::bytes() const noexcept {
  std::uint64_t sum = 0;
  for (const auto& [name, tensor] : tensors_) sum += tensor.bytes;
  return sum;
}

}  // namespace draftproof
