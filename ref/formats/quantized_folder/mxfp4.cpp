// SPDX-License-Identifier: MIT
// quant_method "mxfp4", as gpt-oss has it: "x_blocks" [experts, outputs, inputs / 32, 16] of floats of four bits, and
// "x_scales", a power of two for each 32. They become "x.weight" of shape [experts, outputs, inputs]: an "x" of an
// unquantized gpt-oss has its inputs and outputs the other way around.
#include "ref/formats/quantized_folder/schemes.h"

namespace draftproof {

namespace {
constexpr std::int64_t block = 32;
}

FolderQuantization read_mxfp4(const Json&, FolderTensors& tensors) {
  for (const std::string& stem : tensors.stems("_blocks", {"U8"})) {
    const StoredTensor codes = tensors.need(stem + "_blocks");
    const StoredTensor scales = tensors.need(stem + "_scales");
    if (!tensors.complete()) continue;
    require_matrix(codes, 4);
    std::vector<std::int64_t> shape = codes.shape;
    shape[3] = block / 2;
    require_shape(codes, shape, codes);
    shape.pop_back();
    require_type(scales, {"U8", "F8_E8M0"});
    require_shape(scales, shape, codes);
    shape[2] *= block;
    tensors.put(stem + ".weight", mxfp4_matrix(codes, scales, shape));
  }
  tensors.need_codes("_scales", "_blocks");
  return {"mxfp4, floats of 4 bits with a power of two for each 32", ""};
}

}  // namespace draftproof
