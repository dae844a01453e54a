// SPDX-License-Identifier: MIT
// Folders of MLX: "x.weight" of U32, a stream of codes along the inputs; "x.scales" and "x.biases" [outputs, groups]:
// scale * code + bias. Their config says "quantization": {"group_size", "bits"}, and the same for single modules.
#include <string>

#include "ref/base/error.h"
#include "ref/formats/quantized_folder/schemes.h"

namespace draftproof {
namespace {

constexpr std::int64_t word_bits = 32;

struct MlxConfig {
  std::int64_t bits;
  std::int64_t group;
};

MlxConfig read_config(const Json& json) {
  const Json bits = json.at("bits");
  const std::int64_t width = bits.integer(1, 16);
  if (width != 2 && width != 3 && width != 4 && width != 5 && width != 6 && width != 8) {
    bits.fail("must be 2, 3, 4, 5, 6 or 8");
  }
  if (const auto mode = json.find("mode"); mode && mode->string() != "affine") {
    mode->fail("'" + mode->string() + "' is not read; affine is");
  }
  return {width, json.at("group_size").integer(1, extent_max)};
}

QuantizedMatrix matrix_of(const MlxConfig& config, const StoredTensor& codes, const StoredTensor& scales,
                          const StoredTensor& biases) {
  require_matrix(codes);
  require_type(scales, {"F16", "BF16", "F32"});
  require_type(biases, {scales.type_name});
  require_matrix(scales);
  const std::int64_t outputs = codes.shape[0];
  const std::int64_t inputs = codes.shape[1] * word_bits / config.bits;
  require_shape(codes, {outputs, inputs * config.bits / word_bits}, codes);
  require_shape(scales, {outputs, (inputs + config.group - 1) / config.group}, codes);
  require_shape(biases, scales.shape, codes);
  QuantizedMatrix matrix;
  matrix.parts = {codes, scales, biases};
  matrix.shape = {outputs, inputs};
  matrix.group_inputs = static_cast<std::uint64_t>(config.group);
  matrix.signed_scales = true;
  choose_format(matrix, 0, (1 << config.bits) - 1, true);
  matrix.decode = [bits = static_cast<unsigned>(config.bits)](const QuantizedMatrix& of, std::uint64_t first,
                                                              std::uint64_t rows) {
    CodeRows numbers;
    numbers.codes = read_code_rows(of.parts[0], bits, of.inputs(), first, rows);
    numbers.scales = read_numbers(of.parts[1], first * of.groups(), rows * of.groups());
    numbers.minimums = read_numbers(of.parts[2], first * of.groups(), rows * of.groups());
    return numbers;
  };
  return matrix;
}

}  // namespace

FolderQuantization read_mlx(const Json& json, FolderTensors& tensors) {
  const MlxConfig all = read_config(json);
  for (const std::string& stem : tensors.stems(".weight", {"U32"})) {
    const StoredTensor codes = tensors.need(stem + ".weight");
    const StoredTensor scales = tensors.need(stem + ".scales");
    const StoredTensor biases = tensors.need(stem + ".biases");
    if (!tensors.complete()) continue;
    const std::string module = codes.name.substr(0, codes.name.size() - std::string_view(".weight").size());
    const auto own = json.find(module);
    const MlxConfig config = own && own->is_object() ? read_config(*own) : all;
    tensors.put(stem + ".weight", matrix_of(config, codes, scales, biases));
  }
  for (const char* const part : {".scales", ".biases"}) tensors.need_codes(part, ".weight");
  return {"mlx, " + bits_text(static_cast<unsigned>(all.bits), all.group), ""};
}

}  // namespace draftproof
