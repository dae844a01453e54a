// SPDX-License-Identifier: MIT
// quant_method "compressed-tensors": groups of modules, each with a scheme. A folder says which module is of which
// group by patterns; here the types of its tensors say it, so no two groups may have one type and other numbers.
#include <algorithm>
#include <string>
#include <utility>

#include "ref/base/error.h"
#include "ref/formats/quantized_folder/scaled.h"
#include "ref/formats/quantized_folder/schemes.h"

namespace draftproof {
namespace {

struct WeightScheme {
  std::string format;
  unsigned bits = 0;
  bool floats = false;  // of codes of a byte: not whole numbers
  bool symmetric = true;
  bool ordered = false;     // by activations, so that only weight_g_idx says the groups
  std::int64_t group = -1;  // inputs that share a scale; -1: all
  ScaleBlock block;
  void (*put)(const WeightScheme& scheme, FolderTensors& tensors) = nullptr;  // the matrices that it quantized

  bool operator==(const WeightScheme& other) const = default;
};

/// "pack-quantized": "x.weight_packed" of I32, a stream of codes along the inputs, plus half their range;
/// "x.weight_scale" [outputs, groups]; "x.weight_zero_point", packed likewise along the outputs; "x.weight_g_idx", the
/// groups of inputs; "x.weight_shape".
QuantizedMatrix packed_matrix(const WeightScheme& scheme, const StoredTensor& codes, const StoredTensor& scales,
                              const std::optional<StoredTensor>& zeros, const std::optional<StoredTensor>& order,
                              const StoredTensor& shape) {
  require_matrix(codes);
  require_type(scales, {"F16", "BF16", "F32"});
  require_type(shape, {"I64"});
  require_shape(shape, {2}, codes);
  const std::int64_t outputs = codes.shape[0];
  QuantizedMatrix matrix;
  matrix.parts = {codes, scales};
  matrix.shape.resize(2);
  shape.file->read(shape.offset, shape.bytes, matrix.shape.data());
  const std::int64_t inputs = matrix.shape[1];
  const bool sane = matrix.shape[0] == outputs && inputs > 0 && inputs <= extent_max &&
                    (inputs * scheme.bits + 31) / 32 == codes.shape[1];
  if (!sane) {
    throw Error(where(shape) + " says " + shown(matrix.shape) + ", but " + std::to_string(scheme.bits) +
                "-bit codes of shape " + shown(codes.shape) + " are stored; quantize the model again");
  }
  matrix.group_inputs = static_cast<std::uint64_t>(scheme.group < 0 ? inputs : scheme.group);
  matrix.signed_scales = true;
  const auto groups = static_cast<std::int64_t>(matrix.groups());
  require_shape(scales, {outputs, groups}, codes);
  if (zeros) {
    require_type(*zeros, {"I32"});
    require_shape(*zeros, {(outputs * scheme.bits + 31) / 32, groups}, codes);
    matrix.parts.push_back(*zeros);
  }
  if (order) {
    require_shape(*order, {inputs}, codes);
    matrix.order = read_order(*order, matrix.groups(), matrix.group_inputs);
    matrix.parts.push_back(*order);
  }
  matrix.parts.push_back(shape);
  const int half = 1 << (scheme.bits - 1);
  if (zeros) choose_format(matrix, 1 - 2 * half, 2 * half - 1, false);
  else choose_format(matrix, -half, half - 1, false);
  matrix.decode = [bits = scheme.bits, half, asymmetric = zeros.has_value()](const QuantizedMatrix& of,
                                                                             std::uint64_t first, std::uint64_t rows) {
    const std::uint64_t groups = of.groups();
    CodeRows numbers;
    numbers.codes = read_code_rows(of.parts[0], bits, of.inputs(), first, rows);
    for (float& code : numbers.codes) code -= static_cast<float>(half);
    numbers.scales = read_numbers(of.parts[1], first * groups, rows * groups);
    if (!asymmetric) return numbers;
    const std::uint64_t in_word = 32 / bits;
    const std::uint64_t begin = first / in_word;
    const std::uint64_t height = (first + rows - 1) / in_word - begin + 1;
    const std::vector<std::uint32_t> words = read_words(of.parts[2], begin * groups, height * groups);
    numbers.zeros.resize(rows * groups);
    for (std::uint64_t i = 0; i < numbers.zeros.size(); ++i) {
      const std::uint64_t row = first + i / groups;
      const std::uint32_t word = words[(row / in_word - begin) * groups + i % groups];
      const std::uint32_t code = word >> row % in_word * bits & ((1U << bits) - 1);
      numbers.zeros[i] = static_cast<float>(code) - static_cast<float>(half);
    }
    return numbers;
  };
  return matrix;
}

constexpr const char* packed_parts[] = {".weight_scale", ".weight_shape", ".weight_zero_point", ".weight_g_idx",
                                        ".weight_global_scale"};

void put_packed(const WeightScheme& scheme, FolderTensors& tensors) {
  for (const std::string& stem : tensors.stems(".weight_packed", {"I32"})) {
    const StoredTensor codes = tensors.need(stem + ".weight_packed");
    const StoredTensor scales = tensors.need(stem + ".weight_scale");
    const StoredTensor shape = tensors.need(stem + ".weight_shape");
    const std::string zeros_name = stem + ".weight_zero_point";
    const auto zeros = scheme.symmetric ? tensors.take(zeros_name) : tensors.need(zeros_name);
    const std::string order_name = stem + ".weight_g_idx";
    const auto order = scheme.ordered ? tensors.need(order_name) : tensors.take(order_name);
    if (tensors.complete()) tensors.put(stem + ".weight", packed_matrix(scheme, codes, scales, zeros, order, shape));
  }
}

/// "x.weight_packed" of U8, floats of four bits; "x.weight_scale". NVFP4 has scales of F8_E4M3 for each 16, divided by
/// the one number of "x.weight_global_scale"; MXFP4 powers of two for each 32.
void put_nvfp4(const WeightScheme&, FolderTensors& tensors) {
  for (const std::string& stem : tensors.stems(".weight_packed", {"U8"})) {
    const StoredTensor codes = tensors.need(stem + ".weight_packed");
    const StoredTensor scales = tensors.need(stem + ".weight_scale");
    const StoredTensor divisor = tensors.need(stem + ".weight_global_scale");
    if (tensors.complete()) tensors.put(stem + ".weight", nvfp4_matrix(codes, scales, {.divisor = &divisor}));
  }
}

void put_mxfp4(const WeightScheme&, FolderTensors& tensors) {
  for (const std::string& stem : tensors.stems(".weight_packed", {"U8"})) {
    const StoredTensor codes = tensors.need(stem + ".weight_packed");
    const StoredTensor scales = tensors.need(stem + ".weight_scale");
    if (!tensors.complete()) continue;
    require_matrix(codes);
    const std::vector<std::int64_t> shape = {codes.shape[0], 2 * codes.shape[1]};
    require_type(scales, {"U8", "F8_E8M0"});
    require_shape(scales, {shape[0], (shape[1] + 31) / 32}, codes);
    tensors.put(stem + ".weight", mxfp4_matrix(codes, scales, shape));
  }
}

struct FormatReader {
  const char* format;
  void (*put)(const WeightScheme& scheme, FolderTensors& tensors);
};

void put_bytes(const WeightScheme& scheme, FolderTensors& tensors) {
  put_scaled_matrices(tensors, {scheme.floats ? "F8_E4M3" : "I8", scheme.block, scheme.symmetric});
}

constexpr FormatReader readers[] = {
    {"pack-quantized", put_packed},      {"int-quantized", put_bytes},   {"float-quantized", put_bytes},
    {"naive-quantized", put_bytes},      {"mxfp8-quantized", put_bytes}, {"nvfp4-pack-quantized", put_nvfp4},
    {"mxfp4-pack-quantized", put_mxfp4},
};

const FormatReader& reader_of(const Json& group, const WeightScheme& scheme) {
  const auto* const reader =
      std::ranges::find_if(readers, [&](const FormatReader& r) { return scheme.format == r.format; });
  std::string known;
  for (const FormatReader& one : readers) known += (known.empty() ? "" : ", ") + std::string(one.format);
  if (reader == std::end(readers))
    group.fail("has format '" + scheme.format + "', which is not read; read are " + known);
  if (reader->put == put_packed && scheme.bits != 4 && scheme.bits != 8) {
    group.at("weights").at("num_bits").fail("must be 4 or 8 in format pack-quantized; other widths are not read");
  }
  return *reader;
}

/// Whether weights were quantized in the order of their activations, and their groups are in that order.
bool is_ordered(const Json& weights) {
  const auto order = weights.find("actorder");
  if (!order || order->is_boolean()) return order && order->boolean();
  const std::string& name = order->string();
  if (name != "group" && name != "dynamic" && name != "weight" && name != "static") {
    order->fail("'" + name + "' is not read; group, dynamic, weight and static are");
  }
  return name == "group" || name == "dynamic";
}

WeightScheme read_scheme(const Json& group, const std::string& format) {
  const Json weights = group.at("weights");
  WeightScheme scheme;
  scheme.format = group.find("format") ? group.at("format").string() : format;
  scheme.bits = static_cast<unsigned>(weights.at("num_bits").integer(1, 16));
  const auto type = weights.find("type");
  scheme.floats = type && type->string() == "float";
  const auto symmetric = weights.find("symmetric");
  scheme.symmetric = !symmetric || symmetric->boolean();
  const Json strategy = weights.at("strategy");
  const std::string& name = strategy.string();
  if (name == "group" || name == "tensor_group") {
    scheme.group = weights.at("group_size").integer(1, extent_max);
    scheme.block = {1, scheme.group};
    scheme.ordered = is_ordered(weights);
  } else if (name == "block") {
    const std::vector<std::int64_t> extents = weights.at("block_structure").integers(1, extent_max);
    if (extents.size() != 2) weights.at("block_structure").fail("must be [rows, inputs]");
    scheme.block = {extents[0], extents[1]};
  } else if (name != "channel" && name != "tensor") {
    strategy.fail("'" + name + "' is not read; tensor, channel, group, tensor_group and block are");
  }
  scheme.put = reader_of(group, scheme).put;
  return scheme;
}

/// Refuses what changes weights or activations in ways of its own.
void refuse_transforms(const Json& config) {
  if (const auto sparsity = config.find("sparsity_config"); sparsity && sparsity->is_object()) {
    const auto format = sparsity->find("format");
    if (format && format->string() != "dense") format->fail("'" + format->string() + "' is not read; dense is");
  }
  const auto transform = config.find("transform_config");
  if (!transform || !transform->is_object()) return;
  const auto groups = transform->find("config_groups");
  if (groups && !groups->fields().empty()) groups->fail("rotates activations while the model runs, which is not read");
}

}  // namespace

FolderQuantization read_compressed_tensors(const Json& config, FolderTensors& tensors) {
  refuse_transforms(config);
  const auto named = config.find("format");
  const std::string format = named ? named->string() : "";
  const Json groups = config.at("config_groups");
  std::vector<WeightScheme> schemes;
  FolderQuantization found;
  for (const std::string& name : groups.fields()) {
    const Json group = groups.at(name);
    if (!group.find("weights")) continue;
    const WeightScheme scheme = read_scheme(group, format);
    if (std::ranges::find(schemes, scheme) != schemes.end()) continue;
    for (const WeightScheme& other : schemes) {
      if (other.format == scheme.format) {
        group.fail("quantizes weights in format " + scheme.format +
                   " in another way than a group before; one way is read");
      }
    }
    schemes.push_back(scheme);
    found.scheme += (found.scheme.empty() ? "compressed-tensors " : "; ") + scheme.format + ", " +
                    bits_text(scheme.bits, scheme.group);
    if (const auto inputs = group.find("input_activations"); inputs && inputs->is_object()) {
      const auto dynamic = inputs->find("dynamic");
      const auto type = inputs->find("type");
      const std::string bits = std::to_string(inputs->at("num_bits").integer(1, 32));
      found.activations = activations_text((type && type->string() == "float" ? "fp" : "int") + bits,
                                           dynamic && dynamic->is_boolean() && !dynamic->boolean());
    }
  }
  if (schemes.empty()) groups.fail("has no group that quantizes weights; remove quantization_config");
  for (const WeightScheme& scheme : schemes) scheme.put(scheme, tensors);
  drop_activation_scales(tensors);
  const bool bytes = std::ranges::all_of(schemes, [](const WeightScheme& scheme) { return scheme.put == put_bytes; });
  if (bytes) need_scaled_codes(tensors);
  else
    for (const char* const part : packed_parts) tensors.need_codes(part, ".weight_packed");
  return found;
}

}  // namespace draftproof
