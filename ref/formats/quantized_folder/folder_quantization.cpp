// SPDX-License-Identifier: MIT
#include "ref/formats/quantized_folder/folder_quantization.h"

#include <algorithm>

#include "ref/formats/quantized_folder/schemes.h"

namespace draftproof {
namespace {

struct QuantizedScheme {
  const char* name;  // the quant_method of a config.json
  FolderQuantization (*read)(const Json& config, FolderTensors& tensors);
  bool floats = false;  // all matrices become bf16
};

constexpr QuantizedScheme schemes[] = {
    {"fp8", read_fp8, true},
    {"mxfp4", read_mxfp4, true},
    {"gptq", read_gptq},
    {"awq", read_awq},
    {"compressed-tensors", read_compressed_tensors},
    {"modelopt", read_modelopt, true},
    {"bitnet", read_bitnet},
};

constexpr QuantizedScheme mlx = {"mlx", read_mlx};

/// The block of a config that says how the folder is quantized, and its scheme.
struct NamedScheme {
  Json block;
  const QuantizedScheme& scheme;
};

const QuantizedScheme& scheme_of(const Json& method) {
  const auto* const scheme =
      std::ranges::find_if(schemes, [&](const QuantizedScheme& s) { return method.string() == s.name; });
  if (scheme != std::end(schemes)) return *scheme;
  std::string known;
  for (const QuantizedScheme& one : schemes) known += std::string(one.name) + ", ";
  method.fail("'" + method.string() + "' is not read; read are " + known +
              "and folders of MLX; use such a quantization of the model, a GGUF, or the original with --quantize");
}

/// MLX says "quantization", or names no method.
std::optional<NamedScheme> find_scheme(const Json& config) {
  if (!config.is_object()) return std::nullopt;
  const auto text = config.find("text_config");
  for (const auto& level : {std::optional(config), text}) {
    if (!level || !level->is_object()) continue;
    if (const auto block = level->find("quantization_config")) {
      if (!block->is_object()) block->fail("must be a JSON object");
      const bool of_mlx = !block->find("quant_method") && block->find("group_size");
      return NamedScheme{*block, of_mlx ? mlx : scheme_of(block->at("quant_method"))};
    }
    if (const auto block = level->find("quantization"); block && block->is_object()) return NamedScheme{*block, mlx};
  }
  return std::nullopt;
}

}  // namespace

void require_known_weights(const Json& config) {
  const auto named = find_scheme(config);
  if (!named || named->scheme.floats) return;
  named->block.fail(
      "says that the weights are quantized; what they take is known by their tensors, so fetch the folder");
}

std::optional<FolderQuantization> read_quantization(const std::filesystem::path& folder, const Json& config,
                                                    std::map<std::string, StoredTensor>& tensors) {
  const auto named = find_scheme(config);
  if (!named) return std::nullopt;
  FolderTensors parts(folder, tensors);
  FolderQuantization found = named->scheme.read(named->block, parts);
  parts.finish();
  if (parts.matrices() == 0) {
    named->block.fail("says that the weights are quantized, but no tensor is; remove the field");
  }
  found.ignored = parts.dropped();
  return found;
}

}  // namespace draftproof
