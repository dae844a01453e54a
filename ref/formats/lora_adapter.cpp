// SPDX-License-Identifier: MIT
#include "ref/formats/lora_adapter.h"

#include <algorithm>
#include <cctype>
#include <charconv>
#include <cmath>
#include <cstdint>
#include <optional>
#include <string_view>
#include <utility>

#include "kernels/formats.h"
#include "ref/base/error.h"
#include "ref/base/presence.h"
#include "ref/formats/gguf.h"
#include "ref/formats/hub_cache.h"
#include "ref/formats/json.h"
#include "ref/formats/printable.h"
#include "ref/formats/safetensors.h"

namespace draftproof {
namespace {

constexpr std::int64_t rank_limit = 1 << 20;
constexpr std::string_view peft_prefix = "base_model.model.";

/// Fields of adapter_config.json that, when they are on, make an adapter more or something else than sums.
constexpr const char* fields_not_read[] = {
    "use_dora",           "lora_bias",     "fan_in_fan_out",    "target_parameters",
    "layer_replication",  "use_qalora",    "use_bdlora",        "trainable_token_indices",
    "arrow_config",       "velora_config", "monteclora_config", "alora_invocation_tokens",
    "ensure_weight_tying"};

/// What initial values may be made by; others change the model that the adapter is for.
constexpr const char* plain_beginnings[] = {"gaussian", "orthogonal", "eva"};

/// What the name of a factor ends in, and where it stands.
struct FactorName {
  std::string_view suffix;
  bool is_left;
  bool transposed = false;
};

constexpr FactorName peft_factors[] = {{".lora_A.weight", false},
                                       {".lora_B.weight", true},
                                       {".lora_embedding_A", true, true},
                                       {".lora_embedding_B", false, true}};
constexpr FactorName gguf_factors[] = {{".lora_a", false}, {".lora_b", true}};
constexpr std::string_view gguf_embedding = "token_embd.weight";
constexpr FactorName gguf_embedding_factors[] = {{".lora_a", true}, {".lora_b", false, true}};

/// The factors of one tensor that were found so far.
struct FoundFactors {
  std::optional<LoraFactor> left;
  std::optional<LoraFactor> right;
};

template <std::size_t N>
const FactorName* factor_named(const FactorName (&names)[N], std::string_view name) {
  const auto* const found =
      std::ranges::find_if(names, [&](const FactorName& factor) { return name.ends_with(factor.suffix); });
  return found == std::end(names) ? nullptr : found;
}

bool is_on(const Json& field) {
  if (field.is_boolean()) return field.boolean();
  if (field.is_array()) return field.size() > 0;
  if (field.is_object()) return !field.fields().empty();
  return true;
}

void require_plain_lora(const Json& config) {
  if (const Json type = config.at("peft_type"); type.string() != "LORA") {
    type.fail("is " + in_quotes(type.string()) + ", but only LORA is read; merge the adapter into the model");
  }
  for (const char* const name : fields_not_read) {
    if (const auto field = config.find(name); field && is_on(*field)) {
      field->fail("is not read; merge the adapter into the model with PEFT's merge_and_unload");
    }
  }
  if (const auto bias = config.find("bias"); bias && bias->string() != "none") {
    bias->fail("is " + in_quotes(bias->string()) + ", and adapters with biases are not read; merge it into the model");
  }
  const auto initial = config.find("init_lora_weights");
  if (!initial || !initial->is_string()) return;
  if (std::ranges::find(plain_beginnings, initial->string()) != std::end(plain_beginnings)) return;
  initial->fail("is " + in_quotes(initial->string()) +
                ", which changes the model that the adapter is added to; convert it to a plain one when it is saved "
                "(path_initial_model_for_weight_conversion)");
}

/// A number of adapter_config.json that modules may have their own of.
class ModuleNumber {
 public:
  ModuleNumber(const Json& config, const char* name, const char* by_module) : all_(config.at(name).number()) {
    const auto patterns = config.find(by_module);
    if (!patterns) return;
    for (const std::string& pattern : patterns->fields()) {
      const Json value = patterns->at(pattern);
      const auto is_plain = [](char c) {
        return std::isalnum(static_cast<unsigned char>(c)) != 0 || c == '_' || c == '.';
      };
      if (pattern.empty() || !std::ranges::all_of(pattern.substr(pattern[0] == '^' ? 1 : 0), is_plain)) {
        value.fail("is named by a regular expression; only names of modules are read");
      }
      patterns_.emplace_back(pattern, value.number());
    }
  }

  /// PEFT takes the first that is the name of the module, or its end behind a dot; "^" asks for the whole name.
  double of(std::string_view module) const {
    for (const auto& [pattern, number] : patterns_) {
      if (module == pattern || module.ends_with("." + pattern) || "^" + std::string(module) == pattern) return number;
    }
    return all_;
  }

 private:
  double all_;
  std::vector<std::pair<std::string, double>> patterns_;
};

/// Puts a factor with its partner.
void add_factor(const StoredTensor& tensor, const FactorName& name, FoundFactors& found) {
  if (!tensor.format || tensor.shape.size() != 2 || *elements(tensor.shape) == 0) {
    throw Error(where(tensor) + " has type " + tensor.type_name + " and shape " + shown(tensor.shape) +
                ", but must be a matrix of floats");
  }
  (name.is_left ? found.left : found.right) = LoraFactor{tensor, name.transposed};
}

/// Returns the product of both. Throws Error, naming a tensor, when one is missing or they do not fit.
LoraProduct product_of(const FoundFactors& found) {
  if (!found.left || !found.right) {
    throw Error(where((found.left ? found.left : found.right)->stored) + " has no partner; fetch the adapter again");
  }
  const LoraProduct product = {*found.left, *found.right};
  if (product.left.columns() != product.right.rows()) {
    throw Error(where(product.left.stored) + " has shape " + shown(product.left.stored.shape) +
                ", but its partner has " + shown(product.right.stored.shape) + ", which is of another rank");
  }
  if (product.left.columns() > rank_limit) {
    throw Error(where(product.left.stored) + " has a rank beyond any real adapter's");
  }
  return product;
}

float float_scale(double scale, const LoraProduct& product) {
  const auto rounded = static_cast<float>(scale);
  if (!std::isfinite(rounded)) throw Error(where(product.left.stored) + " has a scale that is no finite float");
  return rounded;
}

/// "lm_head.weight" of "lm_head.base_layer.weight".
std::string without_wrapper(std::string name) {
  for (const std::string_view wrapper : {".base_layer.", ".modules_to_save."}) {
    if (const auto at = name.find(wrapper); at != std::string::npos) name.erase(at, wrapper.size() - 1);
  }
  return name;
}

}  // namespace

LoraSource read_lora_source(const std::string& text) {
  const std::size_t equals = text.rfind('=');
  if (equals == std::string::npos || is_present(text)) return {text};
  double scale = 0;
  const char* const end = text.data() + text.size();
  const auto [rest, failure] = std::from_chars(text.data() + equals + 1, end, scale);
  if (failure != std::errc() || rest != end || !std::isfinite(scale)) {
    throw Error("--lora " + in_quotes(text) + ": " + in_quotes(text.substr(equals + 1)) +
                " is no number to scale the adapter by; give PATH or PATH=SCALE");
  }
  return {text.substr(0, equals), scale};
}

LoraAdapter::LoraAdapter(const LoraSource& source) : path_(here_or_in_hub_cache(source.path)) {
  if (!is_present(path_)) throw Error(path_.string() + ": no such folder or file; give an adapter's");
  if (std::filesystem::is_directory(path_)) open_folder(source.scale);
  else open_gguf(source.scale);
  if (products_.empty() && replacements_.empty()) throw Error(path_.string() + ": the adapter has no tensors");
}

void LoraAdapter::open_folder(double scale) {
  const std::filesystem::path weights = path_ / "adapter_model.safetensors";
  const std::filesystem::path config_file = path_ / "adapter_config.json";
  if (!is_present(config_file)) throw Error(path_.string() + ": has no adapter_config.json, so it is no adapter");
  if (!is_present(weights)) {
    throw Error(path_.string() + ": has no adapter_model.safetensors; save the adapter with safe_serialization=True");
  }
  files_ = {config_file, weights};
  const Json config = Json::read(config_file);
  require_plain_lora(config);
  const ModuleNumber ranks(config, "r", "rank_pattern");
  const ModuleNumber alphas(config, "lora_alpha", "alpha_pattern");
  const auto rank_stabilized = config.find("use_rslora");
  std::map<std::string, FoundFactors> found;
  const SafeTensors file(weights);
  for (const auto& [stored_name, tensor] : file.tensors()) {
    if (!stored_name.starts_with(peft_prefix)) {
      throw Error(where(tensor) + " has no name that PEFT writes; they begin with " + std::string(peft_prefix));
    }
    const std::string name = stored_name.substr(peft_prefix.size());
    if (const FactorName* const factor = factor_named(peft_factors, name)) {
      add_factor(tensor, *factor, found[name.substr(0, name.size() - factor->suffix.size())]);
    } else if (name.find(".lora_") == std::string::npos) {
      replacements_.emplace(without_wrapper(name), tensor);
    } else {
      throw Error(where(tensor) + " is of a kind that is not read; merge the adapter into the model");
    }
  }
  for (const auto& [module, factors] : found) {
    LoraProduct product = product_of(factors);
    const auto rank = static_cast<double>(product.left.columns());
    if (ranks.of(module) != rank) {
      throw Error(where(product.left.stored) + " has rank " + std::to_string(product.left.columns()) +
                  ", which is not what adapter_config.json says");
    }
    const bool root = rank_stabilized && rank_stabilized->boolean();
    product.scale = float_scale(scale * alphas.of(module) / (root ? std::sqrt(rank) : rank), product);
    products_.emplace(module + ".weight", std::move(product));
  }
}

void LoraAdapter::open_gguf(double scale) {
  files_ = {path_};
  const Gguf file(path_);
  const auto require_text = [&](const char* key, std::string_view wanted) {
    const std::string* const text = file.find_text(key);
    if (text == nullptr || *text != wanted) {
      file.fail(key, "is not '" + std::string(wanted) + "', so the file is no LoRA adapter; give one to --lora");
    }
  };
  require_text("general.type", "adapter");
  require_text("adapter.type", "lora");
  if (file.metadata().contains("adapter.alora.invocation_tokens")) {
    file.fail("adapter.alora.invocation_tokens", "makes it act behind some tokens only, which is not read");
  }
  const std::string* const architecture = file.find_text("general.architecture");
  if (architecture == nullptr) file.fail("general.architecture", "is missing");
  architecture_ = *architecture;
  const std::optional<double> alpha = file.find_number("adapter.lora.alpha");
  if (!alpha) file.fail("adapter.lora.alpha", "is missing");
  std::map<std::string, FoundFactors> found;
  for (const auto& [name, stored] : file.tensors()) {
    const FactorName* factor = factor_named(gguf_factors, name);
    if (factor == nullptr) throw Error(where(stored) + " is neither a lora_a nor a lora_b; convert the adapter again");
    const std::string changed = name.substr(0, name.size() - factor->suffix.size());
    if (changed == gguf_embedding) factor = factor_named(gguf_embedding_factors, name);
    StoredTensor tensor = stored;
    if (tensor.shape.size() == 1)
      tensor.shape.insert(tensor.shape.begin(), 1);  // a matrix of one row is a vector there
    add_factor(tensor, *factor, found[changed]);
  }
  for (const auto& [name, factors] : found) {
    LoraProduct product = product_of(factors);
    const auto rank = static_cast<double>(product.left.columns());
    product.scale = float_scale(*alpha == 0 ? scale : scale * *alpha / rank, product);
    products_.emplace(name, std::move(product));
  }
}

}  // namespace draftproof
