// SPDX-License-Identifier: MIT
// quant_method "gptq": "x.qweight" [inputs / codes in a word, outputs], words of 32 bits along the inputs; "x.scales"
// [groups, outputs]; "x.qzeros" [groups, outputs / codes in a word]; "x.g_idx" [inputs], the group of each input when
// they were quantized in the order of their activations. Zero points are stored minus one, but in format gptq_v2.
#include <algorithm>
#include <string>

#include "ref/base/error.h"
#include "ref/formats/quantized_folder/schemes.h"

namespace draftproof {
namespace {

constexpr std::uint64_t word_bits = 32;

struct GptqConfig {
  unsigned bits = 4;
  std::int64_t group = -1;  // -1: one group of all inputs
  bool symmetric = false;
  bool second = false;  // gptq_v2

  std::uint64_t in_word() const noexcept { return word_bits / bits; }
};

GptqConfig read_config(const Json& json) {
  GptqConfig config;
  config.bits = static_cast<unsigned>(json.at("bits").integer(1, 16));
  if (config.bits != 4 && config.bits != 8) json.at("bits").fail("must be 4 or 8; other widths are not read");
  config.group = json.at("group_size").integer(-1, extent_max);
  if (config.group == 0) json.at("group_size").fail("must be positive, or -1 for one group");
  const auto symmetric = json.find("sym");
  config.symmetric = symmetric && symmetric->boolean();
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
  const std::uint64_t in_word = config.in_word();
  const std::uint32_t mask = (1U << config.bits) - 1;
  CodeRows numbers;
  numbers.codes.resize(rows * inputs);
  const std::vector<std::uint32_t> words = read_word_columns(matrix.parts[0], first, rows);
  for (std::uint64_t i = 0; i < inputs; ++i) {
    const std::uint32_t* const of_rows = words.data() + i / in_word * rows;
    for (std::uint64_t row = 0; row < rows; ++row) {
      numbers.codes[row * inputs + i] = static_cast<float>(of_rows[row] >> i % in_word * config.bits & mask);
    }
  }
  numbers.scales = read_number_columns(matrix.parts[1], first, rows);
  numbers.zeros.resize(rows * groups);
  const std::uint64_t begin = first / in_word;
  const std::uint64_t columns = (first + rows - 1) / in_word - begin + 1;
  const std::vector<std::uint32_t> zeros = read_word_columns(matrix.parts[2], begin, columns);
  for (std::uint64_t row = 0; row < rows; ++row) {
    const std::uint64_t output = first + row;
    for (std::uint64_t group = 0; group < groups; ++group) {
      const std::uint32_t word = zeros[group * columns + output / in_word - begin];
      const std::uint32_t stored = word >> output % in_word * config.bits & mask;
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
  const auto in_word = static_cast<std::int64_t>(config.in_word());
  require_matrix(codes);
  require_type(zeros, {"I32"});
  require_type(scales, {"F16", "BF16", "F32"});
  const std::int64_t outputs = codes.shape[1];
  QuantizedMatrix matrix;
  matrix.parts = {codes, scales, zeros};
  matrix.shape = {outputs, codes.shape[0] * in_word};
  matrix.group_inputs = config.group < 0 ? matrix.inputs() : static_cast<std::uint64_t>(config.group);
  matrix.signed_scales = true;
  const auto groups = static_cast<std::int64_t>(matrix.groups());
  require_shape(scales, {groups, outputs}, codes);
  require_shape(zeros, {groups, (outputs + in_word - 1) / in_word}, codes);
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
    const auto order = tensors.take(stem + ".g_idx");
    if (tensors.complete()) tensors.put(stem + ".weight", matrix_of(config, codes, scales, zeros, order));
  }
  return {"gptq, " + bits_text(config.bits, config.group) + (config.symmetric ? ", symmetric" : ""), ""};
}

}  // namespace draftproof
