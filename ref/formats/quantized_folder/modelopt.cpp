// SPDX-License-Identifier: MIT
// quant_method "modelopt". quant_algo FP8: "x.weight" of F8_E4M3 and one number, "x.weight_scale". NVFP4: "x.weight" of
// U8, floats of four bits; "x.weight_scale" of F8_E4M3 for each 16, times the one number of "x.weight_scale_2".
#include "ref/formats/quantized_folder/scaled.h"
#include "ref/formats/quantized_folder/schemes.h"

namespace draftproof {

FolderQuantization read_modelopt(const Json& config, FolderTensors& tensors) {
  const Json algorithm = config.at("quant_algo");
  drop_activation_scales(tensors);
  if (algorithm.string() == "FP8") {
    put_scaled_matrices(tensors, {"F8_E4M3", {}});
    need_scaled_codes(tensors);
    return {"modelopt, fp8", activations_text("fp8", true)};
  }
  if (algorithm.string() != "NVFP4") algorithm.fail("'" + algorithm.string() + "' is not read; FP8 and NVFP4 are");
  for (const std::string& stem : tensors.stems(".weight", {"U8"})) {
    const StoredTensor codes = tensors.need(stem + ".weight");
    const StoredTensor scales = tensors.need(stem + ".weight_scale");
    const StoredTensor factor = tensors.need(stem + ".weight_scale_2");
    if (tensors.complete()) tensors.put(stem + ".weight", nvfp4_matrix(codes, scales, {.factor = &factor}));
  }
  for (const char* const part : {".weight_scale", ".weight_scale_2"}) tensors.need_codes(part, ".weight");
  return {"modelopt, nvfp4, groups of 16", activations_text("nvfp4", true)};
}

}  // namespace draftproof
