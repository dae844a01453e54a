// SPDX-License-Identifier: MIT
// quant_method "awq", version gemm: "x.qweight" [inputs, outputs / 8], words of eight outputs in the order of
// `place_in_word`; "x.qzeros" [groups, outputs / 8], likewise; "x.scales" [groups, outputs].
#include <string>

#include "ref/formats/quantized_folder/schemes.h"

namespace draftproof {
namespace {

constexpr std::int64_t in_word = 8;
constexpr unsigned place_in_word[in_word] = {0, 4, 1, 5, 2, 6, 3, 7};

/// The field of a config by either of its names.
Json at(const Json& config, const char* name, const char* older) {
  return config.find(name) ? config.at(name) : config.find(older) ? config.at(older) : config.at(name);
}

/// The codes of outputs [first, first + rows) in words of eight outputs, [rows][rows of the tensor].
std::vector<float> read_codes(const StoredTensor& tensor, std::uint64_t first, std::uint64_t rows) {
  const auto height = static_cast<std::uint64_t>(tensor.shape[0]);
  const std::uint64_t begin = first / in_word;
  const std::uint64_t columns = (first + rows - 1) / in_word - begin + 1;
  const std::vector<std::uint32_t> words = read_word_columns(tensor, begin, columns);
  std::vector<float> codes(rows * height);
  for (std::uint64_t i = 0; i < height; ++i) {
    for (std::uint64_t row = 0; row < rows; ++row) {
      const std::uint64_t output = first + row;
      const std::uint32_t word = words[i * columns + output / in_word - begin];
      codes[row * height + i] = static_cast<float>(word >> 4 * place_in_word[output % in_word] & 15U);
    }
  }
  return codes;
}

QuantizedMatrix matrix_of(std::int64_t group, const StoredTensor& codes, const StoredTensor& scales,
                          const StoredTensor& zeros) {
  require_matrix(codes);
  require_type(zeros, {"I32"});
  require_type(scales, {"F16", "BF16", "F32"});
  QuantizedMatrix matrix;
  matrix.parts = {codes, scales, zeros};
  matrix.shape = {codes.shape[1] * in_word, codes.shape[0]};
  matrix.group_inputs = group < 0 ? matrix.inputs() : static_cast<std::uint64_t>(group);
  matrix.signed_scales = true;
  const auto groups = static_cast<std::int64_t>(matrix.groups());
  require_shape(scales, {groups, matrix.shape[0]}, codes);
  require_shape(zeros, {groups, codes.shape[1]}, codes);
  choose_format(matrix, -15, 15, false);
  matrix.decode = [](const QuantizedMatrix& of, std::uint64_t first, std::uint64_t rows) {
    CodeRows numbers;
    numbers.codes = read_codes(of.parts[0], first, rows);
    numbers.scales = read_number_columns(of.parts[1], first, rows);
    numbers.zeros = read_codes(of.parts[2], first, rows);
    return numbers;
  };
  return matrix;
}

}  // namespace

FolderQuantization read_awq(const Json& config, FolderTensors& tensors) {
  const Json bits = at(config, "bits", "w_bit");
  if (bits.integer(1, 16) != 4) bits.fail("must be 4; other widths are not read");
  const Json size = at(config, "group_size", "q_group_size");
  const std::int64_t group = size.integer(-1, extent_max);
  if (group == 0) size.fail("must be positive, or -1 for one group");
  for (const char* const field : {"version", "format"}) {
    const auto version = config.find(field);
    if (version && version->string() != "gemm" && version->string() != "GEMM") {
      version->fail("'" + version->string() + "' is not read; gemm is");
    }
  }
  for (const std::string& stem : tensors.stems(".qweight", {"I32"})) {
    const StoredTensor codes = tensors.need(stem + ".qweight");
    const StoredTensor scales = tensors.need(stem + ".scales");
    const StoredTensor zeros = tensors.need(stem + ".qzeros");
    if (tensors.complete()) tensors.put(stem + ".weight", matrix_of(group, codes, scales, zeros));
  }
  for (const char* const part : {".scales", ".qzeros"}) tensors.need_codes(part, ".qweight");
  return {"awq, " + bits_text(4, group), ""};
}

}  // namespace draftproof
