// SPDX-License-Identifier: MIT
#include "tools/synthetic.h"

#include <algorithm>
#include <tuple>
#include <utility>

#include "ref/base/error.h"
#include "ref/formats/gguf_types.h"
#include "ref/formats/printable.h"

namespace draftproof {
namespace {

// From the published config.json of each model, but for "tiny", for "qwen3-72m", a draft model with an eighth of the
// weights of "qwen3-0.6b" and its vocabulary, and for "qwen3-30b-a3b-2", which has 2 of 48 layers.
constexpr SyntheticShape shapes[] = {
    {"tiny", "qwen3", 2, 256, 512, 4, 2, 64, 512, 512, 1e6F, 1e-6F},
    {"qwen3-72m", "qwen3", 6, 384, 1536, 8, 4, 64, 151936, 40960, 1e6F, 1e-6F},
    {"qwen3-0.6b", "qwen3", 28, 1024, 3072, 16, 8, 128, 151936, 40960, 1e6F, 1e-6F},
    {"qwen3-1.7b", "qwen3", 28, 2048, 6144, 16, 8, 128, 151936, 40960, 1e6F, 1e-6F},
    {"qwen3-4b", "qwen3", 36, 2560, 9728, 32, 8, 128, 151936, 40960, 1e6F, 1e-6F},
    {"qwen3-30b-a3b-2", "qwen3moe", 2, 2048, 768, 32, 4, 128, 151936, 40960, 1e6F, 1e-6F, 128, 8},
    {"llama-3.2-1b", "llama", 16, 2048, 8192, 32, 8, 64, 128256, 131072, 5e5F, 1e-5F},
};

std::uint64_t mixed(std::uint64_t state, std::uint64_t value) {  // splitmix64's finalizer
  std::uint64_t z = state + value * 0x9e3779b97f4a7c15ULL;
  z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9ULL;
  z = (z ^ (z >> 27)) * 0x94d049bb133111ebULL;
  return z ^ (z >> 31);
}

/// Returns the normalized sum of four uniform numbers: mean 0, deviation 1, close to normal but without far tails.
float bell(std::uint64_t bits) {
  const auto part = [bits](int i) { return static_cast<int>(bits >> (16 * i) & 0xffffU); };
  constexpr float mean = 2.0F * 65535;
  constexpr float deviation = 37837.2F;  // 65536 / sqrt(3)
  return (static_cast<float>(part(0) + part(1) + part(2) + part(3)) - mean) / deviation;
}

Format head_format(Format format) {
  const bool few_bits = !is_float(format) && traits(format).code_bits < 6;
  return few_bits ? Format::q6_k : format;
}

std::vector<Format> formats_among(FormatChoice among) {
  std::vector<Format> found;
  for (int i = 0; i < formats; ++i) {
    const auto format = static_cast<Format>(i);
    if (among == FormatChoice::all || gguf_tensor_type(format) != nullptr) found.push_back(format);
  }
  return found;
}

}  // namespace

const SyntheticShape& synthetic_shape(const std::string& name) {
  for (const SyntheticShape& shape : shapes) {
    if (name == shape.name) return shape;
  }
  throw Error("there is no shape named " + in_quotes(name) + "; choose one of " + shape_names());
}

Format format_named(const std::string& name, FormatChoice among) {
  for (const Format format : formats_among(among)) {
    if (name == traits(format).name) return format;
  }
  throw Error("there is no type of weights named " + in_quotes(name) + "; choose one of " + format_names(among));
}

std::string shape_names() {
  std::string names;
  for (const SyntheticShape& shape : shapes) names += (names.empty() ? "" : ", ") + std::string(shape.name);
  return names;
}

std::string format_names(FormatChoice among) {
  std::string names;
  for (const Format format : formats_among(among)) {
    names += (names.empty() ? "" : ", ") + std::string(traits(format).name);
  }
  return names;
}

std::vector<SyntheticTensor> synthetic_tensors(const SyntheticShape& shape, Format format, std::uint64_t seed) {
  std::vector<SyntheticTensor> tensors;
  const auto matrix = [&](std::string name, int outputs, int inputs, Format as) {
    tensors.push_back({std::move(name), as, outputs, inputs, mixed(seed, tensors.size() + 1)});
  };
  const auto vector = [&](std::string name, int width) {
    matrix(std::move(name), 1, width, Format::f32);
    tensors.back().mean = 1;
  };
  const int q_width = shape.heads * shape.head_dim;
  const int kv_width = shape.kv_heads * shape.head_dim;
  matrix("token_embd.weight", shape.vocabulary, shape.hidden, head_format(format));
  for (int i = 0; i < shape.layers; ++i) {
    const std::string layer = "blk." + std::to_string(i) + ".";
    vector(layer + "attn_norm.weight", shape.hidden);
    matrix(layer + "attn_q.weight", q_width, shape.hidden, format);
    matrix(layer + "attn_k.weight", kv_width, shape.hidden, format);
    matrix(layer + "attn_v.weight", kv_width, shape.hidden, format);
    if (shape.architecture != std::string("llama")) {
      vector(layer + "attn_q_norm.weight", shape.head_dim);
      vector(layer + "attn_k_norm.weight", shape.head_dim);
    }
    matrix(layer + "attn_output.weight", shape.hidden, q_width, format);
    vector(layer + "ffn_norm.weight", shape.hidden);
    const int experts = std::max(1, shape.experts);
    const std::string all = shape.experts > 0 ? "_exps" : "";
    if (shape.experts > 0) matrix(layer + "ffn_gate_inp.weight", shape.experts, shape.hidden, Format::f32);
    for (const auto& [part, outputs, inputs] : {std::tuple("gate", shape.intermediate, shape.hidden),
                                                {"up", shape.intermediate, shape.hidden},
                                                {"down", shape.hidden, shape.intermediate}}) {
      matrix(layer + "ffn_" + part + all + ".weight", experts * outputs, inputs, format);
      tensors.back().matrices = experts;
    }
  }
  vector("output_norm.weight", shape.hidden);
  return tensors;
}

void synthesize(const SyntheticTensor& tensor, int first, int rows, void* to) {
  constexpr float deviation = 0.02F;
  std::vector<float> row(static_cast<std::size_t>(tensor.inputs));
  auto* at = static_cast<unsigned char*>(to);
  for (int r = first; r < first + rows; ++r) {
    const std::uint64_t key = mixed(tensor.key, static_cast<std::uint64_t>(r) + 1);
    for (std::size_t i = 0; i < row.size(); ++i) row[i] = tensor.mean + deviation * bell(mixed(key, i + 1));
    quantize_row(tensor.format, row.data(), tensor.inputs, at);
    at += row_bytes(tensor.format, tensor.inputs);
  }
}

}  // namespace draftproof
