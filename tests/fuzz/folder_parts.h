// SPDX-License-Identifier: MIT
// A quantized folder in parts: they are damaged by what they mean, each by itself well-formed, so that what comes of it
// passes the readers of JSON and of safetensors and meets those of the schemes.
#pragma once

#include <algorithm>
#include <bit>
#include <cstdint>
#include <cstring>
#include <iterator>
#include <nlohmann/json.hpp>
#include <string>
#include <utility>
#include <vector>

#include "ref/formats/safetensors.h"
#include "tests/fuzz/damage.h"
#include "tests/fuzz/target.h"

namespace draftproof {

struct FolderPart {
  std::string name;
  std::string type;
  std::vector<std::int64_t> shape;
  std::string bytes;
};

struct FolderParts {
  nlohmann::ordered_json config;
  std::vector<FolderPart> tensors;
};

/// Throws Error or an exception of JSON where they are no such files.
inline FolderParts take_apart(const std::string& config, const std::string& weights) {
  FolderParts parts;
  parts.config = nlohmann::ordered_json::parse(config);
  const SafeTensors file(fuzz::scratch("apart.safetensors", weights));
  for (const auto& [name, tensor] : file.tensors()) {
    std::string bytes(tensor.bytes, '\0');
    tensor.file->read(tensor.offset, bytes.size(), bytes.data());
    parts.tensors.push_back({name, tensor.type_name, tensor.shape, std::move(bytes)});
  }
  return parts;
}

/// The bytes of model.safetensors.
inline std::string weights_of(const FolderParts& parts) {
  nlohmann::ordered_json header = nlohmann::ordered_json::object();
  std::size_t at = 0;
  for (const FolderPart& part : parts.tensors) {
    header[part.name] = {{"dtype", part.type}, {"shape", part.shape}, {"data_offsets", {at, at + part.bytes.size()}}};
    at += part.bytes.size();
  }
  const std::string text = header.dump(-1, ' ', false, nlohmann::ordered_json::error_handler_t::replace);
  const std::uint64_t length = text.size();
  std::string bytes(reinterpret_cast<const char*>(&length), sizeof length);
  bytes += text;
  for (const FolderPart& part : parts.tensors) bytes += part.bytes;
  return bytes;
}

template <class T, std::size_t count>
const T& one_of(const T (&all)[count], Numbers& numbers) {
  return all[numbers.below(count)];
}

inline std::size_t bytes_of_type(const std::string& type) {
  if (type == "F64" || type == "I64" || type == "U64") return 8;
  if (type == "F32" || type == "I32" || type == "U32") return 4;
  return type == "F16" || type == "BF16" || type == "I16" ? 2 : 1;
}

/// Changes the block that says how the folder is quantized.
inline void damage_config(nlohmann::ordered_json& config, Numbers& numbers) {
  using nlohmann::ordered_json;
  ordered_json& block = config[config.contains("quantization") ? "quantization" : "quantization_config"];
  const ordered_json flat = block.flatten();
  if (flat.empty() || !block.is_structured()) return;
  const ordered_json::json_pointer place(std::next(flat.begin(), static_cast<long>(numbers.below(flat.size()))).key());
  if (place.empty()) return;  // the block has no fields
  ordered_json& value = block[place];
  static const ordered_json extremes[] = {-1,
                                          0,
                                          1,
                                          2,
                                          3,
                                          4,
                                          5,
                                          6,
                                          7,
                                          8,
                                          9,
                                          15,
                                          16,
                                          17,
                                          31,
                                          32,
                                          33,
                                          64,
                                          127,
                                          128,
                                          1 << 24,
                                          0.5,
                                          1 << 30,
                                          1LL << 32,
                                          1LL << 53,
                                          1LL << 62,
                                          -(1LL << 62),
                                          1e300,
                                          "",
                                          nullptr,
                                          ordered_json::array(),
                                          ordered_json::object(),
                                          {1, 32},
                                          {32, 1},
                                          {3, 5}};
  static const char* const words[] = {"fp8",
                                      "gptq",
                                      "awq",
                                      "mxfp4",
                                      "compressed-tensors",
                                      "gptq_v2",
                                      "e4m3",
                                      "e5m2",
                                      "gemm",
                                      "gemv",
                                      "static",
                                      "dynamic",
                                      "int",
                                      "float",
                                      "tensor",
                                      "channel",
                                      "group",
                                      "tensor_group",
                                      "block",
                                      "pack-quantized",
                                      "int-quantized",
                                      "float-quantized",
                                      "naive-quantized",
                                      "mxfp8-quantized",
                                      "nvfp4-pack-quantized",
                                      "mxfp4-pack-quantized",
                                      "affine",
                                      "modelopt",
                                      "bitnet",
                                      "FP8",
                                      "NVFP4",
                                      "bitlinear",
                                      "autobitlinear",
                                      "offline",
                                      "mxfp8",
                                      "nvfp4",
                                      "weight"};
  static const std::pair<const char*, ordered_json> fields[] = {{"desc_act", true},
                                                                {"sym", true},
                                                                {"sym", false},
                                                                {"checkpoint_format", "gptq_v2"},
                                                                {"zero_point", false},
                                                                {"bits", 8},
                                                                {"bits", 2},
                                                                {"bits", 3},
                                                                {"group_size", 48},
                                                                {"group_size", 16},
                                                                {"weight_block_size", {3, 5}},
                                                                {"mode", "mxfp4"},
                                                                {"mode", "mxfp8"},
                                                                {"mode", "nvfp4"},
                                                                {"model.layers.0.mlp.down_proj", false},
                                                                {"format", "int-quantized"},
                                                                {"quant_method", "fp8"},
                                                                {"quant_method", "modelopt"},
                                                                {"quant_method", "bitnet"},
                                                                {"quant_algo", "FP8"},
                                                                {"quant_algo", "NVFP4"}};
  switch (numbers.below(7)) {
    case 0: value = one_of(extremes, numbers); return;
    case 1: value = one_of(words, numbers); return;
    case 2:
      if (value.is_boolean()) value = !value.get<bool>();
      else if (value.is_number_integer()) value = value.get<std::int64_t>() + (numbers.below(2) == 0 ? 1 : -1);
      return;
    case 3: {
      ordered_json& parent = block[place.parent_pointer()];
      if (parent.is_object()) parent.erase(place.back());
      return;
    }
    case 4: {
      ordered_json& parent = block[place.parent_pointer()];
      const auto& [name, content] = one_of(fields, numbers);
      if (parent.is_object()) parent[name] = content;
      return;
    }
    case 5:
      if (const auto& [name, content] = one_of(fields, numbers); block.is_object()) block[name] = content;
      return;
    default:
      if (!block.is_object() || !block.contains("config_groups")) return;
      block["config_groups"]["group_1"] = block["config_groups"]["group_0"];
      block["config_groups"]["group_1"]["format"] = one_of(words, numbers);
  }
}

/// Changes elements to numbers that no quantizer writes; the bits mean NaN, infinity, zero, a sign in one type or
/// another.
inline void damage_values(FolderPart& part, Numbers& numbers) {
  static constexpr std::uint64_t patterns[] = {0x7FC00000, 0xFF800000, 0x7F800000, 0x80000000, 0xBF800000, 0x7F7FFFFF,
                                               0x00000001, 0x7C007C00, 0xFC00FC00, 0x7E007E00, 0x7BFF7BFF, 0x80008000,
                                               0x7FC07FC0, 0x7F807F80, 0x00010001, 0x7F7F7F7F, 0xFFFFFFFF, 0x0,
                                               0x80808080, 0xFEFEFEFE, 0x88888888, 0x77777777, 0x10000,    0x7FFFFFFF,
                                               ~0ULL,      1ULL << 62, 1ULL << 32, 64};
  const std::size_t size = bytes_of_type(part.type);
  if (part.bytes.size() < size) return;
  std::uint64_t pattern = one_of(patterns, numbers);
  if (numbers.below(4) == 0) pattern = numbers.next();
  const std::size_t count = part.bytes.size() / size;
  const bool all = numbers.below(4) == 0;
  const std::size_t first = all ? 0 : numbers.below(count);
  for (std::size_t i = first; i < (all ? count : first + 1); ++i) {
    std::memcpy(part.bytes.data() + i * size, &pattern, size);
  }
}

/// Gives it another shape; of the same bytes, or of bytes that are cut or repeated to fill it.
inline void damage_shape(FolderPart& part, Numbers& numbers) {
  if (part.shape.empty()) return;
  const std::size_t i = numbers.below(part.shape.size());
  const std::size_t j = numbers.below(part.shape.size());
  switch (numbers.below(6)) {
    case 0: std::swap(part.shape[i], part.shape[j]); return;
    case 1:
      if (part.shape[i] % 2 != 0) return;
      part.shape[i] /= 2;
      part.shape[j] *= 2;
      return;
    case 2: part.shape.insert(part.shape.begin() + static_cast<long>(i), 1); return;
    case 3: part.shape = {static_cast<std::int64_t>(part.bytes.size() / bytes_of_type(part.type))}; return;
    case 4: part.shape[i] = 0; break;
    default: part.shape[i] = std::max<std::int64_t>(0, part.shape[i] + static_cast<std::int64_t>(numbers.below(5)) - 2);
  }
  std::size_t wanted = bytes_of_type(part.type);
  for (const std::int64_t extent : part.shape) wanted *= static_cast<std::size_t>(extent);
  const std::string old = part.bytes;
  while (!old.empty() && part.bytes.size() < wanted) part.bytes += old;
  part.bytes.resize(wanted);
}

inline void damage_type(FolderPart& part, Numbers& numbers) {
  static const char* const types[] = {"F32", "I32", "U32", "F16",     "BF16",    "I16",     "I64",
                                      "F64", "I8",  "U8",  "F8_E4M3", "F8_E5M2", "F8_E8M0", "BOOL"};
  const std::string type = one_of(types, numbers);
  const std::size_t before = bytes_of_type(part.type);
  const std::size_t after = bytes_of_type(type);
  if (before != after) {  // as many bytes, if its rows can have them
    if (part.shape.empty()) return;
    const std::size_t row = static_cast<std::size_t>(part.shape.back()) * before;
    if (row % after != 0) return;
    part.shape.back() = static_cast<std::int64_t>(row / after);
  }
  part.type = type;
}

inline std::string other_name(const std::string& name, Numbers& numbers) {
  static const char* const endings[] = {".weight",
                                        ".weight_scale",
                                        ".weight_scale_inv",
                                        ".weight_scale_2",
                                        ".weight_packed",
                                        ".weight_shape",
                                        ".weight_zero_point",
                                        ".weight_g_idx",
                                        ".qweight",
                                        ".qzeros",
                                        ".scales",
                                        ".g_idx",
                                        ".biases",
                                        ".input_scale",
                                        "_blocks",
                                        "_scales",
                                        ".weight_global_scale"};
  const std::size_t dot = name.rfind('.');
  return name.substr(0, dot == std::string::npos ? name.size() : dot) + one_of(endings, numbers);
}

inline void damage(FolderParts& parts, Numbers& numbers) {
  if (numbers.below(3) == 0) {
    damage_config(parts.config, numbers);
    return;
  }
  std::vector<FolderPart>& tensors = parts.tensors;
  if (tensors.empty()) return;
  const std::size_t i = numbers.below(tensors.size());
  FolderPart& part = tensors[i];
  FolderPart& other = tensors[numbers.below(tensors.size())];
  const auto is_new = [&](const std::string& name) {
    return std::ranges::none_of(tensors, [&](const FolderPart& one) { return one.name == name; });
  };
  switch (numbers.below(8)) {
    case 0: tensors.erase(tensors.begin() + static_cast<long>(i)); return;
    case 1: std::swap(part.name, other.name); return;
    case 2:
      if (std::string name = other_name(part.name, numbers); is_new(name)) part.name = std::move(name);
      return;
    case 3:
      if (FolderPart copy = part; is_new(copy.name = other_name(part.name, numbers)))
        tensors.push_back(std::move(copy));
      return;
    case 4: damage_shape(part, numbers); return;
    case 5: damage_type(part, numbers); return;
    default: damage_values(part, numbers);
  }
}

}  // namespace draftproof
