// SPDX-License-Identifier: MIT
// quant_method "bitnet": "x.weight" of U8 [outputs / 4, inputs] holds -1, 0 and 1, plus one, in pairs of bits; the
// lowest pairs are the first quarter of the rows. "x.weight_scale" is the one number that they are multiplied by
// (linear_class "autobitlinear") or divided by ("bitlinear").
#include <string>

#include "ref/base/error.h"
#include "ref/formats/quantized_folder/scaled.h"
#include "ref/formats/quantized_folder/schemes.h"

namespace draftproof {
namespace {

constexpr std::int64_t in_byte = 4;

std::vector<float> read_codes(const StoredTensor& tensor, std::uint64_t first, std::uint64_t rows) {
  const auto height = static_cast<std::uint64_t>(tensor.shape[0]);
  const auto inputs = static_cast<std::uint64_t>(tensor.shape[1]);
  std::vector<float> codes;
  codes.reserve(rows * inputs);
  for (std::uint64_t row = first; row < first + rows; ++row) {
    for (const std::uint8_t byte : read_bytes(tensor, row % height * inputs, inputs)) {
      const int code = byte >> 2 * (row / height) & 3;
      if (code == 3) {
        throw Error(where(tensor) + " has a code in row " + std::to_string(row % height) +
                    " that is none of -1, 0 and 1; the file is damaged, fetch it again");
      }
      codes.push_back(static_cast<float>(code - 1));
    }
  }
  return codes;
}

QuantizedMatrix matrix_of(const StoredTensor& codes, const StoredTensor& scale, bool divides) {
  require_matrix(codes);
  const float stored = read_positive(scale);
  QuantizedMatrix matrix;
  matrix.parts = {codes, scale};
  matrix.shape = {in_byte * codes.shape[0], codes.shape[1]};
  matrix.group_inputs = matrix.inputs();
  choose_format(matrix, -1, 1, false);
  matrix.decode = [number = divides ? 1 / stored : stored](const QuantizedMatrix& of, std::uint64_t first,
                                                           std::uint64_t rows) {
    CodeRows numbers;
    numbers.codes = read_codes(of.parts[0], first, rows);
    numbers.scales.assign(rows, number);
    return numbers;
  };
  return matrix;
}

/// Throws Error unless the field is missing or has this value.
void require_word(const Json& config, const char* field, const char* value, const std::string& why) {
  const auto word = config.find(field);
  if (word && word->string() != value) word->fail("'" + word->string() + "' " + why);
}

}  // namespace

FolderQuantization read_bitnet(const Json& config, FolderTensors& tensors) {
  require_word(config, "quantization_mode", "offline", "rounds weights while the model runs, which is not read");
  if (const auto norm = config.find("use_rms_norm"); norm && norm->boolean()) {
    norm->fail("norms before each product are not read");
  }
  const auto kind = config.find("linear_class");
  const bool divides = !kind || kind->string() == "bitlinear";
  if (!divides) require_word(config, "linear_class", "autobitlinear", "is not read; autobitlinear and bitlinear are");
  for (const std::string& stem : tensors.stems(".weight", {"U8"})) {
    const StoredTensor codes = tensors.need(stem + ".weight");
    const StoredTensor scale = tensors.need(stem + ".weight_scale");
    if (tensors.complete()) tensors.put(stem + ".weight", matrix_of(codes, scale, divides));
  }
  tensors.need_codes(".weight_scale", ".weight");
  return {"bitnet, -1, 0 and 1", activations_text("int8", false)};
}

}  // namespace draftproof
