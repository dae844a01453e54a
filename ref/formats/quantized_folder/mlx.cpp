// SPDX-License-Identifier: MIT
// Folders of MLX: "x.weight" of U32, a stream of codes along the inputs, and "x.scales" [outputs, groups]. Their config
// says "quantization": {"group_size", "bits", "mode"}, and the same for single modules, or false. The modes:
//
//   affine   "x.biases" like the scales: scale * code + bias
//   mxfp4    floats of four bits, scales powers of two
//   mxfp8    floats of eight bits, E4M3, scales powers of two
//   nvfp4    floats of four bits, scales E4M3; times "x.global_scale" / (6 * 448), where there is one
//
// A matrix of experts, "x.switch_mlp.gate_proj", has one dimension more in front of all its parts, and a global scale
// for each expert.
#include <algorithm>
#include <cmath>
#include <string>
#include <utility>

#include "ref/base/error.h"
#include "ref/formats/quantized_folder/schemes.h"

namespace draftproof {
namespace {

constexpr std::int64_t word_bits = 32;
constexpr float largest_of_nvfp4 = 6 * 448;  // of a code times that of a scale

enum class Mode : std::uint8_t { affine, mxfp4, mxfp8, nvfp4 };

struct NamedMode {
  const char* name;
  Mode mode;
  std::int64_t bits = 0;  // 0: any of those that MLX has
  std::int64_t group = 0;
};

constexpr NamedMode modes[] = {
    {"affine", Mode::affine},
    {"mxfp4", Mode::mxfp4, 4, 32},
    {"mxfp8", Mode::mxfp8, 8, 32},
    {"nvfp4", Mode::nvfp4, 4, 16},
};

struct MlxConfig {
  NamedMode mode;
  std::int64_t bits;
  std::int64_t group;
  bool global_scale;  // is said to be there
};

NamedMode read_mode(const Json& json) {
  const auto stated = json.find("mode");
  if (!stated) return modes[0];
  const auto* const mode = std::ranges::find(modes, stated->string(), &NamedMode::name);
  if (mode == std::end(modes)) {
    stated->fail("'" + stated->string() + "' is not read; affine, mxfp4, mxfp8 and nvfp4 are");
  }
  return *mode;
}

MlxConfig read_config(const Json& json) {
  const Json bits = json.at("bits");
  const Json group = json.at("group_size");
  const auto global = json.find("global_scale");
  const MlxConfig config = {read_mode(json), bits.integer(1, 16), group.integer(1, extent_max),
                            global && global->boolean()};
  if (config.global_scale && config.mode.mode != Mode::nvfp4) global->fail("is that of the mode nvfp4 only");
  constexpr std::int64_t widths[] = {2, 3, 4, 5, 6, 8};
  if (config.mode.mode == Mode::affine) {
    if (std::ranges::find(widths, config.bits) == std::end(widths)) bits.fail("must be 2, 3, 4, 5, 6 or 8");
    return config;
  }
  const auto require = [&](const Json& field, std::int64_t number, std::int64_t right) {
    if (number != right) field.fail("must be " + std::to_string(right) + " in the mode " + config.mode.name);
  };
  require(bits, config.bits, config.mode.bits);
  require(group, config.group, config.mode.group);
  return config;
}

/// Of a module, whose own block says all of it.
MlxConfig config_of(const Json& json, const MlxConfig& all, const StoredTensor& codes) {
  const auto own = json.find(codes.name.substr(0, codes.name.size() - std::string_view(".weight").size()));
  if (!own) return all;
  if (own->is_object()) return read_config(*own);
  if (!own->boolean()) own->fail("must not be false: " + where(codes) + " has codes; quantize the model again");
  return all;
}

/// The same bytes as a tensor of another type, of one byte.
StoredTensor as_bytes(StoredTensor words, const char* type) {
  words.type_name = type;
  words.format.reset();
  words.shape.back() = static_cast<std::int64_t>(words.bytes) / (*elements(words.shape) / words.shape.back());
  return words;
}

/// Makes codes in `parts[0]` and scales in `parts[1]` of biases a matrix.
QuantizedMatrix affine_matrix(const MlxConfig& config, std::vector<StoredTensor> parts,
                              std::vector<std::int64_t> shape) {
  require_type(parts[1], {"F16", "BF16", "F32"});
  require_type(parts[2], {parts[1].type_name});
  require_shape(parts[2], parts[1].shape, parts[0]);
  QuantizedMatrix matrix;
  matrix.parts = std::move(parts);
  matrix.shape = std::move(shape);
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

QuantizedMatrix mxfp8_matrix(const StoredTensor& codes, const StoredTensor& scales, std::vector<std::int64_t> shape) {
  QuantizedMatrix matrix;
  matrix.parts = {as_bytes(codes, "F8_E4M3"), scales};
  matrix.shape = std::move(shape);
  matrix.group_inputs = 32;
  matrix.format = Format::bf16;
  matrix.decode = [](const QuantizedMatrix& of, std::uint64_t first, std::uint64_t rows) {
    CodeRows numbers;
    numbers.codes = read_numbers(of.parts[0], first * of.inputs(), rows * of.inputs());
    numbers.scales = read_numbers(of.parts[1], first * of.groups(), rows * of.groups());
    return numbers;
  };
  return matrix;
}

/// Multiplies the scales of each matrix with its own factor.
void scale_matrices(const StoredTensor& factors, QuantizedMatrix& matrix) {
  require_type(factors, {"F32"});
  const std::vector<std::int64_t> matrices(matrix.shape.begin(), matrix.shape.end() - 2);
  const bool of_one = matrices.empty() && elements(factors.shape) == 1U;
  if (!of_one) require_shape(factors, matrices, matrix.parts[0]);
  std::vector<float> numbers = read_numbers(factors, 0, *elements(matrices));
  for (float& number : numbers) {
    if (!(number > 0) || !std::isfinite(number)) {
      throw Error(where(factors) + " has " + std::to_string(number) +
                  ", but every scale depends on it; the file is damaged, fetch it again");
    }
    number /= largest_of_nvfp4;
  }
  matrix.parts.push_back(factors);
  matrix.decode = [decode = std::move(matrix.decode), numbers = std::move(numbers)](
                      const QuantizedMatrix& of, std::uint64_t first, std::uint64_t rows) {
    CodeRows decoded = decode(of, first, rows);
    const auto outputs = static_cast<std::uint64_t>(of.shape[of.shape.size() - 2]);
    for (std::uint64_t i = 0; i < decoded.scales.size(); ++i) {
      decoded.scales[i] *= numbers[(first + i / of.groups()) / outputs];
    }
    return decoded;
  };
}

/// The parts that were there of a matrix; what its mode does not have is empty.
struct MlxParts {
  StoredTensor codes;
  StoredTensor scales;
  std::optional<StoredTensor> biases = {};
  std::optional<StoredTensor> global_scale = {};
};

QuantizedMatrix matrix_of(const MlxConfig& config, const MlxParts& parts) {
  const StoredTensor& codes = parts.codes;
  require_matrix(codes, codes.shape.size() == 3 ? 3 : 2);
  std::vector<std::int64_t> shape = codes.shape;
  shape.back() = codes.shape.back() * word_bits / config.bits;
  std::vector<std::int64_t> words = shape;
  words.back() = shape.back() * config.bits / word_bits;
  require_shape(codes, words, codes);
  std::vector<std::int64_t> groups = shape;
  groups.back() = (shape.back() + config.group - 1) / config.group;
  require_shape(parts.scales, groups, codes);
  if (config.mode.mode == Mode::affine) return affine_matrix(config, {codes, parts.scales, *parts.biases}, shape);
  require_type(parts.scales, {"U8"});
  if (config.mode.mode == Mode::mxfp8) return mxfp8_matrix(codes, parts.scales, shape);
  if (config.mode.mode == Mode::mxfp4) return mxfp4_matrix(codes, parts.scales, shape);
  QuantizedMatrix matrix = nvfp4_matrix(as_bytes(codes, "U8"), as_bytes(parts.scales, "F8_E4M3"), {});
  if (parts.global_scale) scale_matrices(*parts.global_scale, matrix);
  return matrix;
}

}  // namespace

FolderQuantization read_mlx(const Json& json, FolderTensors& tensors) {
  const MlxConfig all = read_config(json);
  for (const std::string& stem : tensors.stems(".weight", {"U32"})) {
    MlxParts parts = {.codes = tensors.need(stem + ".weight"), .scales = tensors.need(stem + ".scales")};
    const MlxConfig config = config_of(json, all, parts.codes);
    if (config.mode.mode == Mode::affine) parts.biases = tensors.need(stem + ".biases");
    if (config.global_scale) parts.global_scale = tensors.need(stem + ".global_scale");
    else if (config.mode.mode == Mode::nvfp4) parts.global_scale = tensors.take(stem + ".global_scale");
    if (tensors.complete()) tensors.put(stem + ".weight", matrix_of(config, parts));
  }
  for (const char* const part : {".scales", ".biases", ".global_scale"}) tensors.need_codes(part, ".weight");
  const std::string mode = all.mode.mode == Mode::affine ? "" : std::string(all.mode.name) + ", ";
  return {"mlx, " + mode + bits_text(static_cast<unsigned>(all.bits), all.group), ""};
}

}  // namespace draftproof
