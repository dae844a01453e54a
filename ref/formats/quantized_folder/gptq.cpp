// SPDX-License-Identifier: MIT
// quant_method "gptq": "x.qweight" [inputs * bits / 32, outputs], down each column a stream of codes in words of 32
// bits; "x.scales" [groups, outputs]; "x.qzeros" [groups, outputs * bits / 32], such streams along the rows; "x.g_idx"
// [inputs], the group of each input when they were quantized in the order of their activations. Zero points are stored
// minus one, but in format gptq_v2.
#include <algorithm>
#include <string>

#include "ref/base/error.h"
#include "ref/formats/quantized_folder/schemes.h"

namespace draftproof {
namespace {

constexpr std::int64_t word_bits = 32;
constexpr std::uint64_t codes_in_words = 32;  // that fill whole words, however wide

struct GptqConfig {
  unsigned bits = 4;
  std::int64_t group = -1;  // -1: one group of all inputs
  bool symmetric = false;
  bool second = false;   // gptq_v2
  bool ordered = false;  // by activations, so that only g_idx says the groups
};

/// Code i of a stream in words that are `stride` apart; one of three bits may be in two words.
std::uint32_t code_in(const std::uint32_t* words, std::uint64_t stride, std::uint64_t i, unsigned bits) {
  const std::uint64_t at = i * bits / word_bits;
  const unsigned shift = i * bits % word_bits;
  std::uint64_t pair = words[at * stride];
  if (shift + bits > word_bits) pair |= std::uint64_t{words[(at + 1) * stride]} << word_bits;
  return static_cast<std::uint32_t>(pair >> shift) & ((1U << bits) - 1);
}

GptqConfig read_config(const Json& json) {
  GptqConfig config;
  config.bits = static_cast<unsigned>(json.at("bits").integer(1, 16));
  if (config.bits != 2 && config.bits != 3 && config.bits != 4 && config.bits != 8) {
    json.at("bits").fail("must be 2, 3, 4 or 8; other widths are not read");
  }
  config.group = json.at("group_size").integer(-1, extent_max);
  if (config.group == 0) json.at("group_size").fail("must be positive, or -1 for one group");
  const auto symmetric = json.find("sym");
  config.symmetric = symmetric && symmetric->boolean();
  const auto ordered = json.find("desc_act");
  config.ordered = ordered && ordered->boolean() && config.group > 0;
  auto format = json.find("checkpoint_format");
  if (!format) format = json.find("format");
  config.second = format && format->string() == "gptq_v2";
  if (format && !config.second && format->string() != "gptq") {
    format->fail("'" + format->string() + "' is not read; gptq and gptq_v2 are");
  }
  return config;
}

CodeRows decode(const GptqConfig& config, const QuantizedMatrix& matrix, std::uint64_t first, std::uint64_t rows) {
  const std::uint64_t inputs = matrix.inputs();
  const std::uint64_t groups = matrix.groups();
  const std::uint32_t mask = (1U << config.bits) - 1;
  CodeRows numbers;
  numbers.codes.resize(rows * inputs);
  const std::vector<std::uint32_t> words = read_word_columns(matrix.parts[0], first, rows);
  for (std::uint64_t i = 0; i < inputs; ++i) {
    for (std::uint64_t row = 0; row < rows; ++row) {
      numbers.codes[row * inputs + i] = static_cast<float>(code_in(words.data() + row, rows, i, config.bits));
    }
  }
  numbers.scales = read_number_columns(matrix.parts[1], first, rows);
  numbers.zeros.resize(rows * groups);
  const std::uint64_t begin = first / codes_in_words * config.bits;  // whole words of whole codes
  const std::uint64_t end = std::min<std::uint64_t>((first + rows + codes_in_words - 1) / codes_in_words * config.bits,
                                                    static_cast<std::uint64_t>(matrix.parts[2].shape[1]));
  const std::uint64_t columns = end - begin;
  const std::vector<std::uint32_t> zeros = read_word_columns(matrix.parts[2], begin, columns);
  for (std::uint64_t row = 0; row < rows; ++row) {
    const std::uint64_t output = first + row;
    for (std::uint64_t group = 0; group < groups; ++group) {
      const std::uint64_t i = output - first / codes_in_words * codes_in_words;
      const std::uint32_t stored = code_in(zeros.data() + group * columns, 1, i, config.bits);
      const std::uint32_t zero = config.second ? stored : (stored + 1) & mask;
      if (config.symmetric && zero != 1U << (config.bits - 1)) {
        throw Error(where(matrix.parts[2]) + " gives output " + std::to_string(output) + " the zero point " +
                    std::to_string(zero) + ", but the configuration says that zero points are " +
                    std::to_string(1U << (config.bits - 1)) + "; set sym to false, or correct checkpoint_format");
      }
      numbers.zeros[row * groups + group] = static_cast<float>(zero);
    }
  }
  return numbers;
}

QuantizedMatrix matrix_of(const GptqConfig& config, const StoredTensor& codes, const StoredTensor& scales,
                          const StoredTensor& zeros, const std::optional<StoredTensor>& order) {
  const auto bits = static_cast<std::int64_t>(config.bits);
  require_matrix(codes);
  require_type(zeros, {"I32"});
  require_type(scales, {"F16", "BF16", "F32"});
  const std::int64_t outputs = codes.shape[1];
  QuantizedMatrix matrix;
  matrix.parts = {codes, scales, zeros};
  matrix.shape = {outputs, codes.shape[0] * word_bits / bits};
  require_shape(codes, {matrix.shape[1] * bits / word_bits, outputs}, codes);
  matrix.group_inputs = config.group < 0 ? matrix.inputs() : static_cast<std::uint64_t>(config.group);
  matrix.signed_scales = true;
  const auto groups = static_cast<std::int64_t>(matrix.groups());
  require_shape(scales, {groups, outputs}, codes);
  require_shape(zeros, {groups, (outputs * bits + word_bits - 1) / word_bits}, codes);
  if (order) {
    require_shape(*order, {matrix.shape[1]}, codes);
    matrix.order = read_order(*order, matrix.groups(), matrix.group_inputs);
    matrix.parts.push_back(*order);
  }
  const int codes_below = 1 << config.bits;
  if (config.symmetric) choose_format(matrix, -codes_below / 2, codes_below / 2 - 1, false);
  else choose_format(matrix, 1 - codes_below, codes_below - 1, false);
  matrix.decode = [config](const QuantizedMatrix& of, std::uint64_t first, std::uint64_t rows) {
    return decode(config, of, first, rows);
  };
  return matrix;
}

}  // namespace

FolderQuantization read_gptq(const Json& json, FolderTensors& tensors) {
  const GptqConfig config = read_config(json);
  for (const std::string& stem : tensors.stems(".qweight", {"I32"})) {
    const StoredTensor codes = tensors.need(stem + ".qweight");
    const StoredTensor scales = tensors.need(stem + ".scales");
    const StoredTensor zeros = tensors.need(stem + ".qzeros");
    const std::string order_name = stem + ".g_idx";
    const auto order = config.ordered ? tensors.need(order_name) : tensors.take(order_name);
    if (tensors.complete()) tensors.put(stem + ".weight", matrix_of(config, codes, scales, zeros, order));
  }
  for (const char* const part : {".scales", ".qzeros", ".g_idx"}) tensors.need_codes(part, ".qweight");
  return {"gptq, " + bits_text(config.bits, config.group) + (config.symmetric ? ", symmetric" : ""), ""};
}

}  // namespace draftproof
